/* test_ranks.c: programs that run on several ranks give the bits of one rank.
 * ctest: labels=quick timeout=300 processors=2
 *
 * Random graphs (support_random_graph.h: f64, f32, low formats, casts between loops, several point axes) run on 1 to 64
 * ranks, which are threads here (support_comm.h), in the streamed, the reference and the strict executor; every bit of
 * every output of every rank is compared with the streamed executor of one rank. A NaN may be any NaN, as in
 * test_streamed.c. Then: opaque operations of users, that ranks share the work, and failures of one rank within a run,
 * after which all have the same status and the next run is good again.
 *
 * PINN_TEST_GRAPHS sets how many graphs run (16), PINN_TEST_SEED runs one seed.
 */
#include "tensor/backend.h"
#include "tests/support_comm.h"
#include "tests/support_exec.h"
#include "tests/support_random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KINDS = 3, ROUNDS = 3 };
static const double WORK = 2e5; /* elements of a run: see random_points */
static const double LIMIT =
    60; /* seconds of a call; under sanitizers 64 threads on two cores are slow */
static const size_t sizes[] = {1, 2, 3, 4, 5, 8, 64};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef tn_status (*maker)(const tn_program *program, tn_pool *pool, tn_exec **out);
static const maker makers[KINDS] = {tn_exec_new, tn_exec_reference, tn_exec_strict};
static const char *const kind_names[KINDS] = {"streamed", "reference", "strict"};

static struct {
  atomic_size_t elements, differ, odd_nan, calls;
  size_t runs, formats[TN_DTYPES];
} all;

/* ---- What one rank gives ---- */

typedef struct expected { /* of a round */
  size_t n;
  size_t count[RANDOM_OUTPUTS];
  tn_dtype dtype[RANDOM_OUTPUTS];
  char *bytes[RANDOM_OUTPUTS];
} expected;

static size_t size_of(tn_dtype dtype) { return dtype == TN_BOOL ? 1 : tn_dtype_size(dtype); }

static void remember(tn_exec *exec, size_t n, expected *e) {
  *e = (expected){.n = n};
  for (size_t i = 0; i < n; ++i) {
    tn_buffer *buffer = NULL;
    good(tn_exec_output(exec, i, &buffer));
    e->count[i] = tn_buffer_count(buffer);
    e->dtype[i] = tn_buffer_dtype(buffer);
    e->bytes[i] = calloc(e->count[i] + 1, size_of(e->dtype[i]));
    memcpy(e->bytes[i], tn_map(buffer, TN_READ), e->count[i] * size_of(e->dtype[i]));
  }
}

static void forget(expected *e) {
  for (size_t i = 0; i < e->n; ++i)
    free(e->bytes[i]);
}

static bool is_nan_at(const char *x, tn_dtype dtype, size_t i) {
  if (dtype == TN_F64)
    return isnan(((const double *)(const void *)x)[i]);
  if (dtype == TN_F32 || dtype == TN_TF32)
    return isnan(((const float *)(const void *)x)[i]);
  if (dtype == TN_BF16)
    return isnan(tn_of_bf16(((const uint16_t *)(const void *)x)[i]));
  return dtype == TN_F16 && isnan(tn_of_f16(((const uint16_t *)(const void *)x)[i]));
}

/* Differing elements of all outputs; SIZE_MAX if one cannot be had. Runs in a rank's thread: no assertions. */
static size_t differing(tn_exec *exec, const expected *e) {
  size_t differ = 0;
  for (size_t i = 0; i < e->n; ++i) {
    tn_buffer *buffer = NULL;
    if (tn_exec_output(exec, i, &buffer) != TN_OK || tn_buffer_count(buffer) != e->count[i])
      return SIZE_MAX;
    const char *x = tn_map(buffer, TN_READ);
    size_t size = size_of(e->dtype[i]);
    all.elements += e->count[i];
    for (size_t k = 0; k < e->count[i]; ++k) {
      if (memcmp(x + k * size, e->bytes[i] + k * size, size) == 0)
        continue;
      if (is_nan_at(x, e->dtype[i], k) && is_nan_at(e->bytes[i], e->dtype[i], k))
        ++all.odd_nan;
      else
        ++differ;
    }
    tn_unmap(buffer);
  }
  return differ;
}

/* ---- Random graphs ---- */

typedef struct trial {
  const random_graph *g;
  const tn_program *program;
  const random_data *data;  /* of each round */
  const expected *expected; /* of each round */
  size_t kind;
  atomic_size_t differ; /* of all ranks and rounds */
  char text[64][200];   /* of a rank that failed */
} trial;

static void count_failure(trial *t, size_t rank, size_t round, size_t differ) {
  ++t->differ;
  if (differ == SIZE_MAX)
    snprintf(t->text[rank], sizeof t->text[rank], "round %zu: %s", round, tn_error_text());
  else
    snprintf(t->text[rank], sizeof t->text[rank], "round %zu: %zu elements differ", round, differ);
}

static void run_rounds(const ranks_self *self) {
  trial *t = self->context;
  tn_pool *pool = NULL;
  tn_exec *exec = NULL;
  /* With few ranks a second thread each: slots of a rank are then shared out among its threads. */
  tn_status status = tn_pool_new(self->size <= 3 ? 2 : 1, &pool);
  if (status == TN_OK) {
    tn_pool_ranks(pool, self->comm);
    status = makers[t->kind](t->program, pool, &exec);
  }
  for (size_t round = 0; round < ROUNDS && status == TN_OK; ++round) {
    random_data_bind(&t->data[round % 2], t->g, exec, 0, 1);
    status = tn_exec_run(exec);
    size_t differ = status == TN_OK ? differing(exec, &t->expected[round % 2]) : SIZE_MAX;
    if (differ)
      count_failure(t, self->rank, round, differ);
  }
  uint64_t calls = 0;
  tn_comm_seconds(self->comm, NULL, &calls);
  all.calls += calls;
  tn_exec_free(&exec);
  tn_pool_free(&pool);
}

static void try_ranks(trial *t, size_t ranks) {
  t->differ = 0;
  memset(t->text, 0, sizeof t->text);
  ranks_run(ranks, LIMIT, run_rounds, t);
  ++all.runs;
  if (!t->differ)
    return;
  all.differ += t->differ;
  print_message("seed %llu, %zu ranks, %s:\n", (unsigned long long)t->g->seed, ranks,
                kind_names[t->kind]);
  for (size_t r = 0; r < ranks; ++r)
    if (t->text[r][0])
      print_message("  rank %zu, %s\n", r, t->text[r]);
}

static void try_seed(uint64_t seed) {
  random_graph g;
  random_data data[2] = {0};
  expected want[2];
  tn_program *program = NULL;
  random_graph_open(&g, seed);
  good(tn_compile(g.graph, g.n_outputs, g.output, &program));
  for (size_t i = 0; i < tn_program_nodes(program); ++i)
    ++all.formats[tn_program_node(program, i)->dtype];
  for (size_t k = 0; k < 2; ++k) {
    size_t points[RANDOM_AXES] = {0};
    tn_exec *exec = NULL;
    random_points(&g, program, k, WORK, points);
    if (k == 1 && seed % 10 == 7)
      points[0] = 0; /* an empty set */
    if (k == 0 && seed % 4 == 1)
      points[0] = 4500 + seed % 100; /* 64 slots, in f64 of unequal sizes */
    random_data_draw(&data[k], &g, k, points);
    good(tn_exec_new(program, NULL, &exec));
    random_data_bind(&data[k], &g, exec, 0, 1);
    good(tn_exec_run(exec));
    remember(exec, g.n_outputs, &want[k]);
    tn_exec_free(&exec);
  }
  for (size_t k = 0; k < SIZES; ++k) {
    trial *t = calloc(1, sizeof *t);
    *t = (trial){.g = &g, .program = program, .data = data, .expected = want, .kind = 0};
    for (t->kind = 0; t->kind < KINDS; ++t->kind)
      if ((t->kind == 0 && (sizes[k] < 64 || seed % 4 == 1)) ||
          (seed + k) % 7 == t->kind) /* costly ones less often */
        try_ranks(t, sizes[k]);
    free(t);
  }
  for (size_t k = 0; k < 2; ++k) {
    forget(&want[k]);
    random_data_drop(&data[k]);
  }
  tn_program_free(&program);
  random_graph_close(&g);
}

static void random_programs_have_the_bits_of_one_rank(void **state) {
  (void)state;
  const char *wish = getenv("PINN_TEST_SEED"), *graphs = getenv("PINN_TEST_GRAPHS");
  size_t n = graphs ? (size_t)atoi(graphs) : 16;
  if (wish)
    try_seed((uint64_t)atoll(wish));
  for (uint64_t seed = 1; !wish && seed <= n; ++seed)
    try_seed(seed);
  print_message("%zu sets of ranks, %zu elements compared, %zu ranks and rounds differ, %zu calls; "
                "nodes: f64 %zu, "
                "f32 %zu, tf32 %zu, bf16 %zu, f16 %zu; NaN of other bits: %zu\n",
                all.runs, (size_t)all.elements, (size_t)all.differ, (size_t)all.calls,
                all.formats[TN_F64], all.formats[TN_F32], all.formats[TN_TF32],
                all.formats[TN_BF16], all.formats[TN_F16], (size_t)all.odd_nan);
  assert_int_equal(all.differ, 0);
  assert_true(wish || all.elements > 100000);
}

/* ---- Subtrees ---- */

/* Whatever the numbers of slots and ranks: each slot is in one subtree of one rank, sizes are powers of two, and
 * a subtree begins at a multiple of its size. */
static void subtrees_cover_the_slots(void **state) {
  (void)state;
  for (size_t slots = 1; slots <= 64; slots *= 2)
    for (size_t ranks = 1; ranks <= 130; ++ranks) {
      size_t next = 0, first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES];
      for (size_t r = 0; r < ranks; ++r) {
        size_t n = tn_subtrees(slots, ranks, r, first, size);
        assert_true(n <= 12);
        for (size_t k = 0; k < n; ++k) {
          assert_int_equal(first[k], next);
          assert_int_equal(size[k] & (size[k] - 1), 0);
          assert_int_equal(first[k] % size[k], 0);
          next += size[k];
        }
      }
      assert_int_equal(next, slots);
    }
}

/* ---- A program of a user's operations: one opaque, one that counts its calls ---- */

enum { POINTS = 1500, WIDTH = 2 };

static _Thread_local size_t evaluations;  /* of the counting function, in this rank's thread */
static _Thread_local bool callback_fails; /* in this rank */

static double counted(void *context, const double *x) {
  (void)context;
  ++evaluations;
  return 1.5 * x[0];
}

static tn_value counted_derivative(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by, (void)x;
  return tn_const(y.graph, tn_dtype_of(y), 1.5);
}

/* The points in reverse order: every rank needs the points of all. */
static tn_status reversed(void *context, const tn_array *x, const tn_array *y) {
  (void)context;
  if (callback_fails)
    return TN_FAIL(TN_EINPUT, "no reversing today");
  size_t n = x->extent[0], width = n ? x->count / n : 0, size = tn_dtype_size(x->dtype);
  for (size_t i = 0; i < n; ++i)
    memcpy((char *)y->data + i * width * size, (char *)x->data + (n - 1 - i) * width * size,
           width * size);
  return TN_OK;
}

typedef struct study {
  const tn_op *counted, *reversed;
  tn_graph *graph;
  tn_value x, w, out[4];
  tn_program *program;
  tn_buffer *points, *weights;
  expected want;
} study;

/* What is reversed: inputs, with loops after it; values, as the last step of all; nothing. */
typedef enum opacity { OF_INPUTS, OF_VALUES, NOWHERE } opacity;

/* x [N, 2] in f64; y = counted(x w); z = y, or something reversed, in f32; outputs: sum of y^2, z, the gradient by w
 * of the sum of x, or x reversed, times tanh y, and x itself, whose panels no rank needs from another. */
static void study_open(study *s, opacity opaque) {
  double *x = draw("x", (size_t)POINTS * WIDTH);
  *s = (study){0};
  good(tn_op_register(
      &(tn_custom){
          .name = "counted", .n_inputs = 1, .f64 = counted, .derivative = counted_derivative},
      &s->counted));
  good(tn_op_register(
      &(tn_custom){.name = "reversed", .n_inputs = 1, .forward = reversed, .vjp = NULL},
      &s->reversed));
  good(tn_graph_new(&s->graph));
  s->x = tn_input(s->graph, "x", TN_F64, tn_shape_batch(tn_axis_new(s->graph, "points"), WIDTH));
  s->w = tn_parameter(s->graph, "w", TN_F64, tn_shape_fixed(2, (size_t[]){WIDTH, WIDTH}));
  tn_value linear = tn_linear(s->x, s->w, (tn_value){0}, false),
           y = tn_apply(s->counted, 1, &linear), g;
  tn_value from = opaque == OF_VALUES ? y : s->x,
           back = opaque == NOWHERE ? y : tn_apply(s->reversed, 1, &from);
  tn_value z = tn_cast(back, TN_F32), other = opaque == OF_INPUTS ? back : s->x;
  good(ag_grad(tn_sum_all(tn_mul(other, tn_tanh(y))), 1, &s->w, &g));
  s->out[0] = tn_sum_all(tn_square(y));
  s->out[1] = z;
  s->out[2] = g;
  s->out[3] = s->x;
  good(tn_compile(s->graph, 4, s->out, &s->program));
  s->points = filled(TN_F64, 2, (size_t[]){POINTS, WIDTH}, x);
  s->weights = filled(TN_F64, 2, (size_t[]){WIDTH, WIDTH}, (double[]){0.3, -0.7, 0.9, 0.2});
  tn_exec *exec = NULL;
  good(tn_exec_new(s->program, NULL, &exec));
  good(tn_exec_bind(exec, s->x, s->points));
  good(tn_exec_bind(exec, s->w, s->weights));
  good(tn_exec_run(exec));
  remember(exec, 4, &s->want);
  tn_exec_free(&exec);
  free(x);
}

static void study_close(study *s) {
  forget(&s->want);
  tn_buffer_release(&s->points);
  tn_buffer_release(&s->weights);
  tn_program_free(&s->program);
  tn_graph_free(&s->graph);
  tn_op_unregister(&s->counted);
  tn_op_unregister(&s->reversed);
}

typedef struct sharing {
  const study *s;
  size_t kind;
  size_t bad_rank; /* whose callback fails in the second run; SIZE_MAX: none */
  uint64_t fault;  /* allocation of the first run that fails; 0: none */
  size_t evaluations[64], differ[64];
  tn_status status[64][3];
  char text[64][300];
} sharing;

static tn_status make_exec(const ranks_self *self, const study *s, maker make, tn_pool **pool,
                           tn_exec **exec) {
  TN_TRY(tn_pool_new(1, pool));
  tn_pool_ranks(*pool, self->comm);
  TN_TRY(make(s->program, *pool, exec));
  TN_TRY(tn_exec_bind(*exec, s->x, s->points));
  return tn_exec_bind(*exec, s->w, s->weights);
}

/* Three runs: the first may meet a failed allocation, the second a callback that fails on one rank. */
static void run_three(const ranks_self *self) {
  sharing *t = self->context;
  tn_pool *pool = NULL;
  tn_exec *exec = NULL;
  size_t r = self->rank;
  t->status[r][0] = make_exec(self, t->s, makers[t->kind], &pool, &exec);
  tn_status agreed = tn_comm_agree(self->comm, "making", t->status[r][0]);
  for (size_t k = 0; k < 3 && agreed == TN_OK; ++k) {
    evaluations = 0;
    callback_fails = k == 1 && r == t->bad_rank;
    bool armed = tn_comm_barrier(self->comm, "before") == TN_OK && k == 0 && r == 0 && t->fault;
    if (armed)
      tn_fault_at(t->fault, false);
    if (tn_comm_barrier(self->comm, "armed") != TN_OK)
      break;
    t->status[r][k] = tn_exec_run(exec);
    if (t->status[r][k] != TN_OK)
      snprintf(t->text[r], sizeof t->text[r], "%s", tn_error_text());
    if (tn_comm_barrier(self->comm, "after") != TN_OK)
      break;
    if (armed)
      tn_fault_at(0, false);
    if (tn_comm_barrier(self->comm, "disarmed") != TN_OK)
      break;
  }
  t->evaluations[r] = evaluations;
  t->differ[r] = t->status[r][2] == TN_OK ? differing(exec, &t->s->want) : SIZE_MAX;
  tn_exec_free(&exec);
  tn_pool_free(&pool);
}

static void share(sharing *t, const study *s, size_t kind, size_t ranks, size_t bad_rank,
                  uint64_t fault) {
  memset(t, 0, sizeof *t);
  t->s = s;
  t->kind = kind;
  t->bad_rank = bad_rank;
  t->fault = fault;
  ranks_run(ranks, LIMIT, run_three, t);
}

/* Slots of 4 ranks of 1500 points are equal but for one group: 64 of 24 groups, so 16 slots; each rank evaluates its
 * own quarter of the panels and no more (twice, where a later loop computes the value again). */
static void ranks_share_the_work(void **state) {
  (void)state;
  study s;
  sharing *t = calloc(1, sizeof *t), *alone = calloc(1, sizeof *alone);
  study_open(&s, OF_VALUES);
  for (size_t kind = 0; kind < KINDS; ++kind) {
    share(alone, &s, kind, 1, SIZE_MAX, 0);
    share(t, &s, kind, 4, SIZE_MAX, 0);
    size_t total = 0;
    for (size_t r = 0; r < 4; ++r) {
      assert_int_equal(t->status[r][0], TN_OK);
      assert_int_equal(t->differ[r], 0);
      assert_true(t->evaluations[r] <= alone->evaluations[0] / 4 + 2 * 2 * WIDTH * 64);
      total += t->evaluations[r];
    }
    assert_int_equal(total, alone->evaluations[0]);
  }
  study_close(&s);
  free(alone);
  free(t);
}

/* The callback fails on rank 2 alone: all ranks have its status, the others name it, and the next run is good. */
static void a_failing_callback_ends_the_run_on_all_ranks(void **state) {
  (void)state;
  sharing *t = calloc(1, sizeof *t);
  for (int last = 0; last < 2; ++last) {
    study s;
    study_open(&s, last ? OF_VALUES : OF_INPUTS);
    for (size_t kind = 0; kind < KINDS; ++kind) {
      share(t, &s, kind, 3, 2, 0);
      for (size_t r = 0; r < 3; ++r) {
        assert_int_equal(t->status[r][0], TN_OK);
        assert_int_equal(t->status[r][1], TN_EINPUT);
        assert_int_equal(t->status[r][2], TN_OK);
        assert_int_equal(t->differ[r], 0);
        assert_non_null(strstr(t->text[r], "no reversing today"));
        assert_int_equal(strncmp(t->text[r], "rank 2", 6) == 0, r != 2);
      }
    }
    study_close(&s);
  }
  free(t);
}

static void fail_allocations(sharing *t, const study *s, size_t kind) {
  size_t failed = 0;
  bool all_good = false;
  for (uint64_t n = 1; !all_good && n < 500; ++n) {
    share(t, s, kind, 3, SIZE_MAX, n);
    for (size_t r = 0; r < 3; ++r) {
      assert_int_equal(t->status[r][0], t->status[0][0]);
      assert_true(t->status[r][0] == TN_OK || t->status[r][0] == TN_ENOMEM);
      assert_int_equal(t->status[r][2], TN_OK);
      assert_int_equal(t->differ[r], 0);
    }
    all_good = t->status[0][0] == TN_OK;
    failed += !all_good;
  }
  assert_true(all_good && failed > 5);
}

/* Each allocation of a first run fails once, on whichever rank makes it: all ranks fail or none, and go on well. */
static void a_failed_allocation_ends_the_run_on_all_ranks(void **state) {
  (void)state;
  sharing *t = calloc(1, sizeof *t);
  for (opacity opaque = OF_VALUES; opaque <= NOWHERE; ++opaque) {
    study s;
    study_open(&s, opaque);
    for (size_t kind = 0; kind < KINDS; ++kind)
      fail_allocations(t, &s, kind);
    study_close(&s);
  }
  free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(subtrees_cover_the_slots),
      cmocka_unit_test(ranks_share_the_work),
      cmocka_unit_test(a_failing_callback_ends_the_run_on_all_ranks),
      cmocka_unit_test(a_failed_allocation_ends_the_run_on_all_ranks),
      cmocka_unit_test(random_programs_have_the_bits_of_one_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
