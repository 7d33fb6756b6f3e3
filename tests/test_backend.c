/* test_backend.c: what executors ask of a device, in which order, and what becomes of its errors.
 *
 * The device is made here: it copies what is bound when a run begins, runs the copies in a streamed executor of its
 * own, and writes down each call as a word. So its numbers must be those of the host, to the bit.
 */
#include "tests/support_comm.h"
#include "tests/support_exec.h"

#include "tensor/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOG = 600, LEAVES = 8 };

typedef struct toy { /* the device */
  tn_device base;    /* first */
  char log[LOG];
  const char *fails;         /* the call that fails, or NULL */
  bool with_comm, with_plan; /* of the last executor: what it was made with */
  size_t executors;
  tn_factor factor;
} toy;

typedef struct toy_exec {
  toy *device;
  tn_exec *inner;
  tn_buffer *copy[LEAVES];
} toy_exec;

static tn_status note(toy *t, const char *call, long number) {
  size_t used = strlen(t->log);
  if (number < 0)
    snprintf(t->log + used, LOG - used, "%s%s", used ? " " : "", call);
  else
    snprintf(t->log + used, LOG - used, "%s%s%ld", used ? " " : "", call, number);
  return t->fails && strcmp(t->fails, call) == 0 ? TN_FAIL(TN_EIO, "the toy fails at %s", call)
                                                 : TN_OK;
}

static void toy_close(tn_device *device) {
  toy *t = (toy *)device;
  (void)!note(t, "close", -1);
}

static const char *toy_text(const tn_device *device) {
  return ((const toy *)device)->base.backend ? "a toy" : "";
}

static void drop(toy_exec *e) {
  for (size_t i = 0; i < LEAVES; ++i)
    tn_buffer_release(&e->copy[i]);
  tn_exec_free(&e->inner);
  tn_free(&e);
}

static tn_status toy_exec_new(tn_device *device, tn_exec *exec, void **state) {
  toy *t = (toy *)device;
  toy_exec *e = NULL;
  TN_TRY(TN_NEW(1, &e));
  e->device = t;
  tn_status status = tn_exec_host(exec->program, NULL, &e->inner);
  t->with_plan = exec->plan != NULL && exec->plan->program == exec->program;
  t->with_comm = exec->comm != NULL;
  if (status == TN_OK)
    status = note(t, "new", -1);
  if (status != TN_OK) { /* what fails leaves nothing */
    drop(e);
    return status;
  }
  ++t->executors;
  *state = e;
  return TN_OK;
}

static tn_status toy_extents(tn_exec *exec, void *state) {
  exec->point_bytes += 1000;
  return note(((toy_exec *)state)->device, "extents", -1);
}

static tn_status toy_bound(tn_exec *exec, void *state, size_t node) {
  assert_non_null(exec->bound[node]);
  return note(((toy_exec *)state)->device, "bound", (long)node);
}

static tn_value leaf_of(const tn_program *p, size_t node) {
  return (tn_value){(tn_graph *)(uintptr_t)p->graph, p->from[node], 0, p->generation};
}

static tn_status copy_in(tn_exec *exec, toy_exec *e, size_t node) {
  const tn_buffer *from = exec->bound[node];
  size_t extent[TN_MAX_RANK];
  assert_true(node < LEAVES);
  tn_buffer_release(&e->copy[node]);
  for (size_t k = 0; k < tn_buffer_rank(from); ++k)
    extent[k] = tn_buffer_extent(from, k);
  TN_TRY(tn_buffer_new(tn_buffer_dtype(from), tn_buffer_rank(from), extent, &e->copy[node]));
  memcpy(tn_map(e->copy[node], TN_WRITE), tn_map(exec->bound[node], TN_READ),
         tn_buffer_count(from) * tn_dtype_size(tn_buffer_dtype(from)));
  return tn_exec_bind(e->inner, leaf_of(exec->program, node), e->copy[node]);
}

static tn_status toy_run(tn_exec *exec, void *state) {
  toy_exec *e = state;
  const tn_program *p = exec->program;
  TN_TRY(note(e->device, "run", -1));
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (exec->bound[i])
      TN_TRY(copy_in(exec, e, i));
    if (p->nodes[i]->op->id == TN_OP_scalar)
      TN_TRY(tn_exec_set(e->inner, leaf_of(p, i), exec->number[i]));
  }
  return tn_exec_run(e->inner);
}

static tn_status toy_output(tn_exec *exec, void *state, size_t i, void *to) {
  toy_exec *e = state;
  tn_buffer *from = NULL;
  (void)exec;
  TN_TRY(note(e->device, "output", (long)i));
  TN_TRY(tn_exec_output(e->inner, i, &from));
  tn_dtype dtype = tn_buffer_dtype(from);
  memcpy(to, tn_map(from, TN_READ),
         tn_buffer_count(from) * (dtype == TN_BOOL ? 1 : tn_dtype_size(dtype)));
  return TN_OK;
}

static void toy_exec_free(tn_exec *exec, void *state) {
  toy_exec *e = state;
  (void)exec;
  --e->device->executors;
  (void)!note(e->device, "free", -1);
  drop(e);
}

static const tn_factor *toy_factor(tn_device *device) { return &((toy *)device)->factor; }

static tn_status toy_join(tn_device *device, tn_comm *comm) {
  assert_true(tn_comm_size(comm) > 1);
  return note((toy *)device, "join", -1);
}

static const tn_backend backend = {.name = "toy",
                                   .close = toy_close,
                                   .describe = toy_text,
                                   .exec_new = toy_exec_new,
                                   .extents = toy_extents,
                                   .bound = toy_bound,
                                   .run = toy_run,
                                   .output = toy_output,
                                   .exec_free = toy_exec_free,
                                   .factor = toy_factor,
                                   .join = toy_join};

/* ---- A program: every kind of leaf and of output ---- */

typedef struct sample {
  tn_graph *graph;
  tn_program *program;
  tn_value x, w, rate, out[4]; /* [N, 2] f32; the mean, f64; the mask of points; [N, 2] bf16 */
  toy device;
  tn_pool *pool;
} sample;

static void open_sample(sample *s) {
  *s = (sample){.device = {.base = {&backend}, .factor = {.name = "toy's"}}};
  good(tn_graph_new(&s->graph));
  s->x = tn_input(s->graph, "x", TN_F32, tn_shape_batch(tn_axis_new(s->graph, "points"), 2));
  s->w = tn_parameter(s->graph, "w", TN_F32, tn_shape_fixed(2, (size_t[]){2, 2}));
  s->rate = tn_scalar(s->graph, "rate", TN_F32, 0.5);
  s->out[0] = tn_mul(tn_tanh(tn_linear(s->x, s->w, (tn_value){0}, false)), s->rate);
  s->out[1] = tn_mean(tn_cast(s->out[0], TN_F64));
  s->out[2] = tn_gt(s->out[0], tn_const(s->graph, TN_F32, 0));
  s->out[3] = tn_cast(s->out[0], TN_BF16);
  good(tn_compile(s->graph, 4, s->out, &s->program));
  good(tn_pool_new(2, &s->pool));
  tn_pool_use(s->pool, &s->device.base);
}

static void close_sample(sample *s) {
  assert_int_equal(s->device.executors, 0);
  tn_pool_free(&s->pool);
  tn_program_free(&s->program);
  tn_graph_free(&s->graph);
}

static void give_points(sample *s, tn_exec *exec, size_t n) {
  double *x = draw("x", 2 * n);
  give(exec, s->x, 2, (size_t[]){n, 2}, x);
  free(x);
}

static void give_weights(sample *s, tn_exec *exec) {
  give(exec, s->w, 2, (size_t[]){2, 2}, (double[]){0.5, -1, 0.25, 2});
}

static bool log_is(const toy *t, const char *want) {
  if (strcmp(t->log, want) != 0)
    print_message("calls: %s\nexpected: %s\n", t->log, want);
  return strcmp(t->log, want) == 0;
}

/* ---- Tests ---- */

static void calls_come_in_order(void **state) {
  (void)state;
  sample s;
  tn_exec *exec = NULL;
  tn_buffer *out = NULL;
  open_sample(&s);
  good(tn_exec_new(s.program, s.pool, &exec));
  assert_true(s.device.with_plan && !s.device.with_comm);
  assert_int_equal(tn_exec_run(exec),
                   TN_ESTATE); /* nothing is bound: the device hears nothing of it */
  give_points(&s, exec, 100);
  give_weights(&s, exec);
  size_t before = tn_exec_bytes(exec);
  good(tn_exec_run(exec));
  assert_true(tn_exec_bytes(exec) >= before + 1000);
  good(tn_exec_run(exec));
  good(tn_exec_output(exec, 1, &out));
  give_points(&s, exec, 30);
  good(tn_exec_run(exec));
  good(tn_exec_output(exec, 0, &out));
  assert_int_equal(tn_buffer_extent(out, 0), 30);
  tn_exec_free(&exec);
  assert_true(log_is(&s.device,
                     "new bound0 bound1 extents run run output1 bound0 extents run output0 free"));
  close_sample(&s);
}

static void outputs_are_those_of_the_host(void **state) {
  (void)state;
  static const size_t counts[] = {1, 17, 300};
  sample s;
  open_sample(&s);
  for (size_t k = 0; k < 3; ++k) {
    tn_exec *exec[2] = {NULL, NULL};
    for (int host = 0; host < 2; ++host) {
      good(host ? tn_exec_host(s.program, s.pool, &exec[1])
                : tn_exec_new(s.program, s.pool, &exec[0]));
      give_points(&s, exec[host], counts[k]);
      give_weights(&s, exec[host]);
      good(tn_exec_set(exec[host], s.rate, 0.75));
      good(tn_exec_run(exec[host]));
    }
    for (size_t i = 0; i < 4; ++i) {
      tn_buffer *got = NULL, *want = NULL;
      good(tn_exec_output(exec[0], i, &got));
      good(tn_exec_output(exec[1], i, &want));
      tn_dtype dtype = tn_buffer_dtype(want);
      assert_int_equal(tn_buffer_dtype(got), dtype);
      assert_int_equal(tn_buffer_count(got), tn_buffer_count(want));
      assert_memory_equal(tn_map(got, TN_READ), tn_map(want, TN_READ),
                          tn_buffer_count(want) * (dtype == TN_BOOL ? 1 : tn_dtype_size(dtype)));
    }
    tn_exec_free(&exec[0]);
    tn_exec_free(&exec[1]);
  }
  close_sample(&s);
}

static void an_error_of_each_call_is_handed_on(void **state) {
  (void)state;
  static const char *const calls[] = {"new", "bound", "extents", "run", "output"};
  for (size_t k = 0; k < 5; ++k) {
    sample s;
    tn_exec *exec = NULL;
    tn_buffer *out = NULL;
    size_t before = tn_memory_now();
    open_sample(&s);
    s.device.fails = calls[k];
    tn_status status = tn_exec_new(s.program, s.pool, &exec);
    assert_int_equal(status, k == 0 ? TN_EIO : TN_OK);
    if (k > 0) {
      tn_buffer *points = filled(TN_F32, 2, (size_t[]){3, 2}, (double[]){1, 2, 3, 4, 5, 6});
      assert_int_equal(tn_exec_bind(exec, s.x, points), k == 1 ? TN_EIO : TN_OK);
      tn_buffer_release(&points);
      s.device.fails = k > 1 ? calls[k] : NULL;
      give_weights(&s, exec);
      assert_int_equal(tn_exec_run(exec), k == 2 || k == 3 ? TN_EIO : TN_OK);
      status = tn_exec_output(exec, 0, &out); /* of a run that failed there are none */
      assert_int_equal(status, k == 4 ? TN_EIO : k == 1 ? TN_OK : TN_ESTATE);
      s.device.fails = NULL;
      good(tn_exec_run(exec)); /* tried again, storage included */
      good(tn_exec_output(exec, 0, &out));
      tn_exec_free(&exec);
      assert_non_null(strstr(s.device.log, k == 2 ? "extents extents run" : "extents run"));
    } else {
      assert_null(exec);
      assert_null(strstr(s.device.log, "free"));
    }
    close_sample(&s);
    assert_int_equal(tn_memory_now(), before);
  }
}

/* Executors for looking at values, and those asked for by name, are the host's. */
static void audits_stay_on_the_host(void **state) {
  (void)state;
  sample s;
  tn_exec *exec[4] = {NULL};
  tn_culprit culprit;
  open_sample(&s);
  good(tn_exec_keeping_all(s.program, s.pool, &exec[0]));
  good(tn_exec_reference(s.program, s.pool, &exec[1]));
  good(tn_exec_strict(s.program, s.pool, &exec[2]));
  assert_true(log_is(&s.device, ""));
  good(tn_exec_new(s.program, s.pool, &exec[3]));
  for (int i = 0; i < 4; ++i) {
    give_points(&s, exec[i], 20);
    give_weights(&s, exec[i]);
    good(tn_exec_run(exec[i]));
  }
  s.device.log[0] = 0;
  good(tn_exec_explain(exec[3], 0, &culprit));
  assert_false(culprit.found);
  assert_true(log_is(&s.device, ""));
  size_t n;
  tn_profile_row *rows = NULL;
  assert_int_equal(tn_exec_profile(exec[3], 1, &n, &rows), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "toy"));
  for (int i = 0; i < 4; ++i)
    tn_exec_free(&exec[i]);
  close_sample(&s);
}

/* A worker of the pool takes the device along, but not the pool or its ranks. */
static void alone_is_on_the_device(void **state) {
  (void)state;
  sample s;
  tn_exec *exec = NULL;
  open_sample(&s);
  good(tn_exec_alone(s.program, s.pool, &exec));
  assert_true(log_is(&s.device, "new"));
  assert_null(exec->pool);
  tn_exec_free(&exec);
  tn_pool_use(s.pool, NULL);
  s.device.log[0] = 0;
  good(tn_exec_alone(s.program, s.pool, &exec));
  assert_null(exec->device);
  tn_exec_free(&exec);
  good(tn_exec_alone(s.program, NULL, &exec));
  tn_exec_free(&exec);
  assert_true(log_is(&s.device, ""));
  close_sample(&s);
}

static void join_in(const ranks_self *self) {
  sample *s = &((sample *)self->context)[self->rank];
  tn_exec *exec = NULL;
  tn_pool_ranks(s->pool, self->comm);
  if (tn_exec_new(s->program, s->pool, &exec) == TN_OK)
    tn_exec_free(&exec);
  if (tn_exec_alone(s->program, s->pool, &exec) == TN_OK)
    tn_exec_free(&exec);
  tn_pool_ranks(s->pool, NULL);
}

static void ranks_join_before_they_compile(void **state) {
  (void)state;
  sample s[2];
  for (size_t ranks = 1; ranks <= 2; ++ranks) {
    open_sample(&s[0]);
    open_sample(&s[1]);
    ranks_run(ranks, 20, join_in, s);
    for (size_t r = 0; r < ranks; ++r) {
      assert_true(
          log_is(&s[r].device, ranks == 1 ? "new free new free" : "join new free new free"));
      assert_false(s[r].device.with_comm); /* the last one was alone */
    }
    close_sample(&s[0]);
    close_sample(&s[1]);
  }
}

static void no_device_is_the_cpu(void **state) {
  (void)state;
  toy t = {.base = {&backend}, .factor = {.name = "toy's"}};
  tn_device *device = &t.base, *none = NULL;
  assert_string_equal(tn_device_name(NULL), "cpu");
  assert_string_equal(tn_device_text(NULL), "cpu");
  assert_null(tn_device_factor(NULL));
  assert_null(tn_pool_device(NULL));
  assert_string_equal(tn_device_name(device), "toy");
  assert_string_equal(tn_device_text(device), "a toy");
  assert_string_equal(tn_device_factor(device)->name, "toy's");
  tn_device_close(&none);
  tn_device_close(NULL);
  tn_device_close(&device);
  assert_null(device);
  assert_true(log_is(&t, "close"));
}

static void versions_grow_with_writing(void **state) {
  (void)state;
  tn_buffer *root = NULL, *view = NULL, *deeper = NULL, *other = NULL;
  good(tn_buffer_new(TN_F64, 1, (size_t[]){10}, &root));
  good(tn_buffer_new(TN_F64, 1, (size_t[]){10}, &other));
  good(tn_buffer_view(root, 2, 1, (size_t[]){8}, &view));
  good(tn_buffer_view(view, 1, 1, (size_t[]){3}, &deeper));
  uint64_t before = tn_buffer_version(root), unmoved = tn_buffer_version(other);
  tn_map(root, TN_READ);
  assert_int_equal(tn_buffer_version(root), before);
  tn_buffer *const writers[] = {root, view, deeper};
  for (size_t i = 0; i < 3; ++i)
    for (int both = 0; both < 2; ++both) {
      tn_map(writers[i], both ? TN_READ_WRITE : TN_WRITE);
      tn_unmap(writers[i]);
      assert_true(tn_buffer_version(root) > before);
      assert_int_equal(tn_buffer_version(view), tn_buffer_version(root));
      assert_int_equal(tn_buffer_version(deeper), tn_buffer_version(root));
      before = tn_buffer_version(root);
    }
  assert_int_equal(tn_buffer_version(other), unmoved);
  tn_buffer_release(&deeper);
  tn_buffer_release(&view);
  tn_buffer_release(&root);
  tn_buffer_release(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_come_in_order),
      cmocka_unit_test(outputs_are_those_of_the_host),
      cmocka_unit_test(an_error_of_each_call_is_handed_on),
      cmocka_unit_test(audits_stay_on_the_host),
      cmocka_unit_test(alone_is_on_the_device),
      cmocka_unit_test(ranks_join_before_they_compile),
      cmocka_unit_test(no_device_is_the_cpu),
      cmocka_unit_test(versions_grow_with_writing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
