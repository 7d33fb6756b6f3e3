/* test_gpu_errors.c: each call of NVIDIA's libraries fails, with each of several codes, in a whole
 * life of a device.
 * ctest: labels=quick timeout=300
 *
 * A life opens the device, compiles two programs (one with products for cuBLASLt), runs each three
 * times (kernel by kernel, captured, replayed), binds other points, reads values, numbers of points
 * change; factors a matrix, applies rows of its own and by cuDNN, and closes. The emulated device
 * logs its calls. Then, for each function that was called and the n-th of its calls, the life is
 * lived again with that call failing; and, for what the device does late (kernels, copies,
 * products), with the work failing. Asked each time:
 *
 *   the life ends with a status whose text names the call, or with TN_OK and the bits of a life
 *   without a failure
 *   nothing was misused: no double free, no use after the end, no new work for a lost context
 *   no memory stays: the host's to the byte, the device's unless what failed was to free it
 *   the next life is a good one
 *
 * PINN_TEST_ERRORS=all takes every call and code; otherwise the first ones, and the last, of each
 * function.
 */
#include "tests/support_gpu.h"

#include "autograd/autograd.h"
#include "cuda/cuda_backend.h"
#include "tensor/factor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
  POINTS = 20,
  MORE_POINTS = 70,
  NARROW = 3,
  WIDE = 66,
  ORDER = 6,
  RUNS = 3,
  ROWS = 4,
  LEAVES = 4,
  NUMBERS = 4096
};
static const size_t rank_of_leaf[LEAVES] = {2, 1, 2, 2};

static const emulator *emulated;
static bool all;

/* What a life found: compared bit for bit. */
typedef struct findings_of_life {
  size_t n;
  double number[NUMBERS];
} findings_of_life;

static void note(findings_of_life *f, size_t n, const double *x) {
  for (size_t i = 0; i < n && f->n < NUMBERS; ++i)
    f->number[f->n++] = x[i];
}

/* ---- A life ---------------------------------------------------------------------------------- */

typedef struct program_of_life {
  tn_graph *graph;
  tn_value leaf[LEAVES], x; /* V, b, W, w; points */
  size_t extent[LEAVES][2];
  tn_program *program;
  tn_exec *exec;
  tn_buffer *buffer[LEAVES], *points[2];
} program_of_life;

typedef struct life {
  tn_device *device;
  tn_pool *pool;
  program_of_life program[2];
} life;

/* u = tanh(tanh(x V + b) W + b) w and the mean of (u - sin x)^2 with its gradient. */
static tn_status describe(program_of_life *p, tn_value *outputs) {
  static const char *const name[LEAVES] = {"V", "b", "W", "w"};
  TN_TRY(tn_graph_new(&p->graph));
  tn_axis axis = tn_axis_new(p->graph, "points");
  for (size_t i = 0; i < LEAVES; ++i)
    p->leaf[i] =
        tn_parameter(p->graph, name[i], TN_F64, tn_shape_fixed(rank_of_leaf[i], p->extent[i]));
  p->x = tn_input(p->graph, "x", TN_F64, tn_shape_points(axis));
  tn_value h = tn_tanh(tn_linear(tn_stack(1, &p->x), p->leaf[0], p->leaf[1], false));
  tn_value u = tn_linear(tn_tanh(tn_linear(h, p->leaf[2], p->leaf[1], false)), p->leaf[3],
                         (tn_value){0}, false);
  u = tn_sum(u, 1);
  outputs[0] = tn_mean(tn_square(tn_sub(u, tn_sin(p->x))));
  outputs[1] = u;
  TN_TRY(tn_graph_error(p->graph));
  return ag_grad(outputs[0], LEAVES, p->leaf, outputs + 2);
}

static tn_status fill(tn_buffer *buffer, uint64_t seed) {
  double *data = tn_map(buffer, TN_WRITE);
  if (!data)
    return TN_FAIL(TN_EINTERNAL, "no map");
  for (size_t i = 0; i < tn_buffer_count(buffer); ++i)
    data[i] = tn_random_uniform(tn_stream_of(seed, "errors"), i) - 0.5;
  tn_unmap(buffer);
  return TN_OK;
}

static tn_status make_program(life *l, program_of_life *p, size_t width) {
  tn_value outputs[2 + LEAVES];
  const size_t extent[LEAVES][2] = {{1, width}, {width, 0}, {width, width}, {width, 1}};
  const size_t points[2] = {POINTS, MORE_POINTS};
  memcpy(p->extent, extent, sizeof extent);
  TN_TRY(describe(p, outputs));
  TN_TRY(tn_compile(p->graph, 2 + LEAVES, outputs, &p->program));
  TN_TRY(tn_exec_new(p->program, l->pool, &p->exec));
  for (size_t i = 0; i < LEAVES; ++i) {
    TN_TRY(tn_buffer_new(TN_F64, rank_of_leaf[i], p->extent[i], &p->buffer[i]));
    TN_TRY(fill(p->buffer[i], i));
    TN_TRY(tn_exec_bind(p->exec, p->leaf[i], p->buffer[i]));
  }
  for (size_t i = 0; i < 2; ++i) {
    TN_TRY(tn_buffer_new(TN_F64, 1, &points[i], &p->points[i]));
    TN_TRY(fill(p->points[i], 10 + i));
  }
  return TN_OK;
}

static tn_status read_all(const program_of_life *p, size_t points, findings_of_life *f) {
  static double room[WIDE * WIDE + MORE_POINTS];
  for (size_t i = 0; i < 2 + LEAVES; ++i) {
    size_t n = i == 0 ? 1 : i == 1 ? points : tn_buffer_count(p->buffer[i - 2]);
    TN_TRY(tn_exec_read(p->exec, i, n, room));
    note(f, n < 40 ? n : 40, room);
  }
  return TN_OK;
}

static tn_status run_program(program_of_life *p, findings_of_life *f) {
  for (size_t set = 0; set < 2; ++set) {
    TN_TRY(tn_exec_bind(p->exec, p->x, p->points[set]));
    for (size_t k = 0; k < RUNS; ++k) {
      if (k == 2)
        TN_TRY(fill(p->points[set], 20 + set)); /* as the next draw of points comes */
      if (k == 2)
        TN_TRY(tn_exec_bind(p->exec, p->x, p->points[set]));
      TN_TRY(tn_exec_run(p->exec));
    }
    TN_TRY(read_all(p, set ? MORE_POINTS : POINTS, f));
  }
  return TN_OK;
}

static tn_status factor_matrix(life *l, findings_of_life *f) {
  const tn_factor *table = tn_device_factor(l->device);
  if (!table)
    return TN_FAIL(TN_ENOMEM, "no table of factorisations");
  tn_factor_work *work = NULL;
  double A[2 * ORDER * ORDER], C[ORDER * ORDER], U[ORDER * ORDER], V[ORDER * ORDER], s[ORDER],
      tau[ORDER];
  for (size_t i = 0; i < sizeof A / sizeof *A; ++i)
    A[i] = sin((double)(i * i));
  tn_status status = table->work_new(table, (size_t)2 * ORDER, ORDER, &work);
  if (status == TN_OK)
    status = table->syrk(table, work, (size_t)2 * ORDER, ORDER, A, C);
  if (status == TN_OK)
    note(f, ORDER, C);
  if (status == TN_OK)
    status = table->qr(table, work, (size_t)2 * ORDER, ORDER, A, tau);
  if (status == TN_OK)
    status = table->qr_apply(table, work, (size_t)2 * ORDER, 1, ORDER, A, tau,
                             (double[2 * ORDER]){1, 2, 3});
  if (status == TN_OK)
    status = table->cholesky(table, work, ORDER, C);
  if (status == TN_OK)
    status = table->svd(table, work, ORDER, A, s, U, V);
  if (status == TN_OK)
    note(f, ORDER, s);
  table->work_free(table, &work);
  return status;
}

static tn_status apply_rows(life *l, findings_of_life *f) {
  double a[ROWS] = {-1, 0.25, 0.5, 2}, y[ROWS];
  static const char *const provider[] = {"own", "cudnn"};
  for (size_t i = 0; i < 2; ++i) {
    TN_TRY(tn_device_apply(l->device, provider[i], TN_OP_tanh, TN_F64, ROWS, a, NULL, 0, y));
    note(f, ROWS, y);
  }
  return TN_OK;
}

static tn_status live(life *l, findings_of_life *f) {
  TN_TRY(gpu_open(0, &l->device));
  TN_TRY(tn_pool_new(1, &l->pool));
  tn_pool_use(l->pool, l->device);
  for (size_t i = 0; i < 2; ++i) {
    TN_TRY(make_program(l, &l->program[i], i ? WIDE : NARROW));
    TN_TRY(run_program(&l->program[i], f));
  }
  TN_TRY(factor_matrix(l, f));
  return apply_rows(l, f);
}

static void end(life *l) {
  for (size_t i = 0; i < 2; ++i) {
    program_of_life *p = &l->program[i];
    tn_exec_free(&p->exec);
    tn_program_free(&p->program);
    tn_graph_free(&p->graph);
    for (size_t k = 0; k < LEAVES; ++k)
      tn_buffer_release(&p->buffer[k]);
    for (size_t k = 0; k < 2; ++k)
      tn_buffer_release(&p->points[k]);
  }
  tn_pool_free(&l->pool);
  tn_device_close(&l->device);
}

static char words[2048]; /* of the failure */

static tn_status whole_life(findings_of_life *f) {
  life l = {0};
  f->n = 0;
  tn_error_clear();
  tn_status status = live(&l, f);
  snprintf(words, sizeof words, "%s", status == TN_OK ? "" : tn_error_text());
  end(&l);
  return status;
}

/* ---- Failures -------------------------------------------------------------------------------- */

typedef struct site {
  const char *name;
  size_t calls;
} site;

typedef struct family {
  const char *prefix;
  int code[8]; /* ends with 0; the first three are the quick ones */
} family;
static const family families[] = {
    {"cublas", {3, 14, 7, 1, 13, 15, 8}},
    {"cusolver", {2, 7, 3, 1, 6, 9}},
    {"cudnn", {1002, 4000, 2000, 5000, 3000, 1001}},
    {"nvrtc", {1, 6, 11, 2, 3, 4, 5}},
    {"cu", {2, 719, 1, 700, 999, 100, 3}},
    {"", {719, 700, 999, 716}}, /* works */
};
static const char *const works[] = {"kernel", "copy",  "fill",  "matmul", "syrk",
                                    "geqrf",  "ormqr", "gesvd", "potrf",  "dnn"};

static findings_of_life calm, found;
static struct { size_t sites, lives, refused, tolerated, functions, wrong; } total;

static const int *codes_of(const char *name, bool is_work) {
  size_t i = is_work ? sizeof families / sizeof *families - 1 : 0;
  while (strncmp(name, families[i].prefix, strlen(families[i].prefix)) != 0)
    ++i;
  return families[i].code;
}

/* Counts a fault of the program under test; a case fails at its end, so that one run shows all. */
static void TN_PRINTF(1, 2) wrong(const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (total.wrong++ < 40) {
    vprintf(format, list);
    printf("\n");
  }
  va_end(list);
}

static bool frees(const char *name) {
  return strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload") ||
         strstr(name, "Release");
}

static void check_nothing_left(const char *what, bool freeing_failed, size_t host_before) {
  emulate_alive alive;
  emulated->count(&alive);
  if (emulated->misuse())
    wrong("%s: %s", what, emulated->message());
  if (emulated->after_loss())
    wrong("%s: %zu calls gave new work to a lost context", what, emulated->after_loss());
  if (tn_memory_now() != host_before)
    wrong("%s: %zu bytes of the host stay", what, tn_memory_now() - host_before);
  size_t left = alive.bytes + alive.pinned + alive.streams + alive.events + alive.modules +
                alive.graphs + alive.handles + alive.contexts;
  if (left && !freeing_failed)
    wrong("%s: left are %zu bytes, %zu pinned, %zu streams, %zu events, %zu modules, %zu graphs, "
          "%zu handles, %zu "
          "contexts",
          what, alive.bytes, alive.pinned, alive.streams, alive.events, alive.modules, alive.graphs,
          alive.handles, alive.contexts);
}

/* One life with the nth call failing. is_work: what the device does, which is told to whoever
 * waits. */
static void fail_once(const char *name, size_t nth, int code, bool is_work, size_t host_before) {
  char what[160];
  snprintf(what, sizeof what, "%.60s, call %zu fails with %d", name, nth, code);
  emulated->reset();
  emulated->script(name, nth, code, false);
  tn_status status = whole_life(&found);
  ++total.lives;
  if (status == TN_OK) {
    ++total.tolerated;
    if (found.n != calm.n || memcmp(found.number, calm.number, calm.n * sizeof(double)) != 0)
      wrong("%s: the life ends well, with other numbers", what);
  } else {
    ++total.refused;
    bool by_name = strstr(words, name) ||
                   (strcmp(name, "nvrtcCompileProgram") == 0 && strstr(words, "NVRTC")) ||
                   (strcmp(name, "cuMemAlloc") == 0 && strstr(words, "no device memory"));
    if (!is_work && !by_name)
      wrong("%s: the error does not name the call: %s", what, words);
  }
  check_nothing_left(what, frees(name), host_before);
  if (frees(name))
    emulated->clear(); /* what could not be freed */
}

/* The functions of a calm life and how often each was called. */
static size_t collect(site *sites, size_t room) {
  size_t n = 0;
  for (size_t i = 0;; ++i) {
    const char *name = emulated->log(i);
    if (!name)
      return n;
    size_t k = 0;
    while (k < n && strcmp(sites[k].name, name) != 0)
      ++k;
    if (k == n && n < room)
      sites[n++] = (site){name, 0};
    ++sites[k].calls;
  }
}

static bool taken(size_t nth, size_t calls) { return all || nth <= 2 || nth == calls; }
static size_t n_codes(size_t nth) { return all ? 8 : nth == 1 ? 2 : 1; }

static void fail_all(const char *name, size_t calls, bool is_work, size_t host_before) {
  const int *codes = codes_of(name, is_work);
  for (size_t nth = 1; nth <= calls; ++nth) {
    if (!taken(nth, calls))
      continue;
    ++total.sites;
    for (size_t i = 0; i < n_codes(nth) && codes[i]; ++i)
      fail_once(name, nth, codes[all ? i : (i + nth - 1) % 3], is_work, host_before);
  }
}

static void learn(void) {
  if (whole_life(&calm) != TN_OK)
    fail_msg("%s: %s", tn_error_place(), words);
  assert_true(calm.n > 100 && calm.n < NUMBERS);
}

static void each_call_that_fails_is_told(void **state) {
  (void)state;
  site sites[128];
  char name[128][64];
  emulated->reset();
  learn();
  size_t n = collect(sites, 128), host_before = tn_memory_now();
  for (size_t i = 0; i < n; ++i)
    snprintf(name[i], sizeof name[i], "%s", sites[i].name); /* the log is about to change */
  check_nothing_left("a calm life", false, host_before);
  for (size_t i = 0; i < n; ++i)
    fail_all(name[i], sites[i].calls, false, host_before);
  total.functions = n;
  emulated->reset();
  assert_int_equal(whole_life(&found), TN_OK);
  assert_memory_equal(found.number, calm.number, calm.n * sizeof(double));
  assert_int_equal(total.wrong, 0);
}

/* How many works of a name a life has: the first n for which nothing fails any more. */
static void each_work_that_fails_is_told(void **state) {
  (void)state;
  emulated->reset();
  learn();
  size_t host_before = tn_memory_now();
  for (size_t i = 0; i < sizeof works / sizeof *works; ++i) {
    const int *codes = codes_of(works[i], true);
    size_t nth = 1, step = 1;
    for (bool met = true; met; nth += step) {
      size_t refused = total.refused;
      for (size_t k = 0; k < n_codes(nth) && codes[k]; ++k)
        fail_once(works[i], nth, codes[k], true, host_before);
      met = total.refused > refused;
      total.sites += met;
      step = all || nth < 3 ? 1 : 2 * step;
    }
    assert_true(nth > 1);
  }
  assert_int_equal(total.wrong, 0);
}

static void host_memory_that_fails_is_told(void **state) {
  (void)state;
  emulated->reset();
  learn();
  size_t host_before = tn_memory_now(), step = all ? 1 : 7, met = 0;
  for (uint64_t n = 1;; n += step) {
    emulated->reset();
    tn_fault_at(n, false);
    tn_status status = whole_life(&found);
    bool reached = tn_fault_count() >= n;
    tn_fault_at(0, false);
    check_nothing_left("an allocation of the host fails", false, host_before);
    if (!reached) {
      assert_int_equal(status, TN_OK);
      break;
    }
    ++met;
    if (status == TN_OK)
      assert_memory_equal(found.number, calm.number, calm.n * sizeof(double));
    else if (status != TN_ENOMEM)
      wrong("allocation %llu of the host: %s: %s", (unsigned long long)n, tn_status_name(status),
            words);
  }
  printf("%zu allocations of the host failed\n", met);
  assert_int_equal(total.wrong, 0);
}

int main(int n_arguments, char **arguments) {
  const char *wish = getenv("PINN_TEST_ERRORS");
  all = wish && strcmp(wish, "all") == 0;
  emulated = emulator_open();
  emulated->set("protect", 0);      /* other tests have it; it takes half of the time here */
  setenv("PINN_CUDA_CACHE", "", 1); /* so that NVRTC is asked in each life */
  setenv("EMULATED_CUDA_QUIET", "1", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_that_fails_is_told),
                                     cmocka_unit_test(each_work_that_fails_is_told),
                                     cmocka_unit_test(host_memory_that_fails_is_told)};
  if (n_arguments > 1)
    cmocka_set_test_filter(arguments[1]);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  printf("%zu functions, %zu call sites, %zu lives: %zu ended with a status, %zu did without the "
         "call\n",
         total.functions, total.sites, total.lives, total.refused, total.tolerated);
  return failed;
}
