/* test_exec.c: programs and their executor: threads, bindings, runs again, what compilation refuses.
 *
 * Bits are the judge throughout: a thread, a neighbour, an earlier run or another executor of the program changes none.
 * The order of summation itself has its own file, test_summation.c.
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Threads and sizes ---- */

typedef struct network { /* u(x, t) by jets: loss, gradient, residual, f32 copy of it, one mask */
  tn_value x, W[3], b[2], s, outputs[8];
  size_t n_outputs;
} network;

enum { WIDTH = 9 };

static tn_value parameter(bench *b, const char *name, size_t rank, size_t one, size_t two) {
  return tn_parameter(b->graph, name, b->dtype, tn_shape_fixed(rank, (size_t[]){one, two}));
}

static network build(bench *b) {
  network n = {.x = tn_input(b->graph, "x", b->dtype, tn_shape_points(b->axis))};
  n.s = tn_scalar(b->graph, "s", b->dtype, 0.5);
  n.W[0] = parameter(b, "W0", 2, 1, WIDTH), n.W[1] = parameter(b, "W1", 2, WIDTH, WIDTH);
  n.W[2] = parameter(b, "W2", 2, WIDTH, 1);
  n.b[0] = parameter(b, "b0", 1, WIDTH, 0), n.b[1] = parameter(b, "b1", 1, WIDTH, 0);
  tn_value none = {0}, h = tn_stack(1, &n.x);
  h = tn_tanh(tn_linear(h, n.W[0], n.b[0], false));
  h = tn_sin(tn_linear(h, n.W[1], n.b[1], false));
  tn_value u = tn_reshape(tn_linear(h, n.W[2], none, false), tn_shape_points(b->axis));
  tn_jet seeded, y;
  seed(b, n.x, 2, &seeded);
  good(ag_jet(1, &n.x, &seeded, 1, &u, &y));
  tn_value residual = tn_add(tn_mul(n.s, y.channel[2]), tn_sub(tn_square(u), y.channel[1]));
  tn_value loss = tn_mean(tn_square(residual)), gradients[5];
  tn_value leaves[5] = {n.W[0], n.W[1], n.W[2], n.b[0], n.b[1]};
  good(ag_grad(loss, 5, leaves, gradients));
  n.outputs[n.n_outputs++] = loss;
  for (int i = 0; i < 5; ++i)
    n.outputs[n.n_outputs++] = gradients[i];
  n.outputs[n.n_outputs++] = residual;
  n.outputs[n.n_outputs++] = tn_gt(residual, n.s);
  return n;
}

static void bind_network(tn_exec *exec, const network *n, size_t points, const double *x,
                         double scale) {
  double w[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; ++i)
    w[i] = scale * sin(1.0 + 3 * i);
  give(exec, n->x, 1, &points, x);
  give(exec, n->W[0], 2, (size_t[]){1, WIDTH}, w);
  give(exec, n->W[1], 2, (size_t[]){WIDTH, WIDTH}, w);
  give(exec, n->W[2], 2, (size_t[]){WIDTH, 1}, w);
  give(exec, n->b[0], 1, (size_t[]){WIDTH}, w + 5);
  give(exec, n->b[1], 1, (size_t[]){WIDTH}, w + 7);
}

enum {
  N_FIXED = 1 + WIDTH + WIDTH * WIDTH + WIDTH + WIDTH + WIDTH,
  N_MOST = 200,
  N_ALL = N_FIXED + 2 * N_MOST
};

static void read_network(tn_exec *exec, const network *n, size_t points, double *out) {
  const size_t count[8] = {1, WIDTH, WIDTH * WIDTH, WIDTH, WIDTH, WIDTH, points, points};
  good(tn_exec_run(exec));
  for (size_t i = 0; i < n->n_outputs; out += count[i++])
    good(tn_exec_read(exec, i, count[i], out));
}

static void threads_change_no_bit_in(tn_dtype dtype) {
  bench b;
  bench_open(&b, dtype);
  network n = build(&b);
  tn_program *program = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  tn_pool *pool[5] = {NULL};
  tn_exec *exec[5];
  for (size_t t = 0; t < 5; ++t) { /* 0: without a pool */
    if (t)
      good(tn_pool_new(t, &pool[t]));
    good(tn_exec_new(program, pool[t], &exec[t]));
  }
  double *x = draw("points", 3000), one[N_ALL], other[N_ALL];
  for (size_t points = 1; points <= N_MOST; ++points) {
    bind_network(exec[0], &n, points, x, 0.7);
    read_network(exec[0], &n, points, one);
    for (size_t t = 1; t < 5; ++t) {
      bind_network(exec[t], &n, points, x, 0.7);
      read_network(exec[t], &n, points, other);
      same_bits(other, one, N_FIXED + 2 * points, "threads", points);
    }
  }
  double *long_one = malloc((N_FIXED + 6000) * 8), *long_other = malloc((N_FIXED + 6000) * 8);
  for (size_t t = 0; t < 5; ++t) { /* 47 (f64) or 24 groups: 32 or 16 slots */
    bind_network(exec[t], &n, 3000, x, 0.7);
    read_network(exec[t], &n, 3000, t ? long_other : long_one);
    if (t)
      same_bits(long_other, long_one, N_FIXED + 6000, "threads", 3000);
  }
  for (size_t t = 0; t < 5; ++t) {
    tn_exec_free(&exec[t]);
    tn_pool_free(&pool[t]);
  }
  free(x);
  free(long_one);
  free(long_other);
  tn_program_free(&program);
  bench_close(&b);
}
static void threads_change_no_bit(void **state) {
  (void)state;
  threads_change_no_bit_in(TN_F64);
  threads_change_no_bit_in(TN_F32);
}

/* What a point gives does not depend on its neighbours or its place in a panel. */
static void point_does_not_see_its_neighbours(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  network n = build(&b);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  double *x = draw("points", N_MOST), all[N_ALL], one[N_ALL];
  bind_network(exec, &n, N_MOST, x, 0.7);
  read_network(exec, &n, N_MOST, all);
  for (size_t i = 0; i < N_MOST; i += 13) {
    bind_network(exec, &n, 1, x + i, 0.7);
    read_network(exec, &n, 1, one);
    same_bits(one + N_FIXED, all + N_FIXED + i, 1, "alone", i);
  }
  free(x);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

/* ---- Runs again ---- */

static void rebinding_gives_a_fresh_executors_bits(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  network n = build(&b);
  tn_program *program = NULL;
  tn_exec *kept = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  good(tn_exec_new(program, NULL, &kept));
  double *x = draw("points", N_MOST), one[N_ALL], other[N_ALL];
  const size_t points[] = {100, 3, 0, 200, 200, 1, 64, 0, 65};
  for (size_t r = 0; r < sizeof points / sizeof *points; ++r) {
    double scale = 0.3 + 0.1 * (double)r, weight = 0.25 * (double)r;
    tn_exec *fresh = NULL;
    good(tn_exec_new(program, NULL, &fresh));
    bind_network(kept, &n, points[r], x, scale);
    bind_network(fresh, &n, points[r], x, scale);
    good(tn_exec_set(kept, n.s, weight));
    good(tn_exec_set(fresh, n.s, weight));
    read_network(kept, &n, points[r], one);
    read_network(fresh, &n, points[r], other);
    if (points[r])
      same_bits(one, other, N_FIXED + 2 * points[r], "again", points[r]);
    else
      assert_true(isnan(one[0]) && isnan(other[0])); /* the mean of nothing */
    tn_exec_free(&fresh);
  }
  free(x);
  tn_exec_free(&kept);
  tn_program_free(&program);
  bench_close(&b);
}

static void scalar_is_set_between_runs(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value s = tn_scalar(b.graph, "s", TN_F64, 3),
           x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis));
  tn_value y = tn_mul(s, x);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 1, &y, &program));
  good(tn_exec_new(program, NULL, &exec));
  double got[2];
  give(exec, x, 1, (size_t[]){2}, (double[]){1, -2});
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, 2, got));
  same_bits(got, (double[]){3, -6}, 2, "first value", 2);
  good(tn_exec_set(exec, s, 0.5));
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, 2, got));
  same_bits(got, (double[]){0.5, -1}, 2, "set", 2);
  assert_int_equal(tn_exec_set(exec, x, 1), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "input"));
  assert_int_equal(tn_set(x, 1), TN_ESTATE);
  tn_value elsewhere = tn_scalar(b.graph, "late", TN_F64, 1);
  good(tn_exec_set(exec, elsewhere, 1)); /* not in the program: ignored */
  good(tn_set(s, 7));
  size_t two = 2;
  tn_buffer *buffer = filled(TN_F64, 1, &two, (double[]){1, 2});
  good(tn_bind(x, buffer));
  tn_buffer_release(&buffer);
  all_near(y, 2, (double[]){7, 14}, 0);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

typedef struct twin {
  tn_exec *exec;
  const network *n;
  const double *x;
  double *out;
} twin;

static void run_twin(void *context, size_t i, size_t worker) {
  twin *t = (twin *)context + i;
  (void)worker;
  for (int again = 0; again < 50; ++again)
    read_network(t->exec, t->n, N_MOST, t->out);
}

static void two_executors_share_a_program(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  network n = build(&b);
  tn_program *program = NULL;
  tn_pool *pool = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  good(tn_pool_new(2, &pool));
  double *x = draw("points", N_MOST), out[2][N_ALL], alone[N_ALL];
  twin t[2];
  for (int i = 0; i < 2; ++i) {
    t[i] = (twin){NULL, &n, x, out[i]};
    good(tn_exec_new(program, NULL, &t[i].exec));
    bind_network(t[i].exec, &n, N_MOST, x, 0.2 + i);
  }
  tn_pool_run(pool, 2, run_twin, t);
  for (int i = 0; i < 2; ++i) {
    read_network(t[i].exec, &n, N_MOST, alone);
    same_bits(out[i], alone, N_ALL, "side by side", N_MOST);
    tn_exec_free(&t[i].exec);
  }
  free(x);
  tn_pool_free(&pool);
  tn_program_free(&program);
  bench_close(&b);
}

/* ---- Bindings ---- */

static void bindings_are_checked(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_batch(b.axis, 3));
  tn_value z = tn_input(b.graph, "z", TN_F64, tn_shape_points(b.axis)),
           w = parameter(&b, "w", 1, 3, 0);
  tn_value y = tn_sum(tn_mul(x, tn_expand(w, 0, b.axis, 0)), 1), out = tn_add(y, z),
           unused = tn_tanh(w);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 1, &out, &program));
  good(tn_exec_new(program, NULL, &exec));
  const double zero[64] = {0};
  tn_buffer *low = filled(TN_F32, 2, (size_t[]){4, 3}, zero),
            *flat = filled(TN_F64, 1, (size_t[]){12}, zero);
  tn_buffer *wide = filled(TN_F64, 2, (size_t[]){4, 4}, zero), *buffer = NULL;
  assert_int_equal(tn_exec_bind(exec, x, low), TN_EDTYPE);
  assert_non_null(strstr(tn_error_text(), "`x`: buffer is f32, expected f64"));
  assert_int_equal(tn_exec_bind(exec, x, flat), TN_ESHAPE);
  assert_int_equal(tn_exec_bind(exec, x, wide), TN_ESHAPE);
  assert_non_null(strstr(tn_error_text(), "`x`"));
  assert_int_equal(tn_exec_bind(exec, w, wide), TN_ESHAPE);
  assert_int_equal(tn_exec_bind(exec, w, flat), TN_ESHAPE); /* 12 of 3 */
  assert_int_equal(tn_exec_bind(exec, out, wide), TN_ESTATE);
  good(tn_exec_bind(exec, unused, wide)); /* not in the program: ignored */
  assert_int_equal(tn_exec_output(exec, 0, &buffer), TN_ESTATE);
  assert_int_equal(tn_exec_output(exec, 1, &buffer), TN_ERANGE);
  assert_int_equal(tn_exec_run(exec), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "not bound"));
  double got[5];
  give(exec, x, 2, (size_t[]){4, 3}, zero);
  give(exec, w, 1, (size_t[]){3}, zero);
  give(exec, z, 1, (size_t[]){5}, zero);
  assert_int_equal(tn_exec_run(exec), TN_ESHAPE);
  assert_non_null(strstr(tn_error_text(), "5"));
  give(exec, z, 1, (size_t[]){4}, zero);
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, 4, got));
  assert_int_equal(tn_exec_read(exec, 0, 5, got), TN_ESHAPE);
  /* define by run: the same errors, when it is evaluated */
  assert_int_equal(tn_bind(out, wide), TN_ESTATE);
  assert_int_equal(tn_read(out, 4, got), TN_ESTATE);
  assert_int_equal(tn_eval(1, &out), TN_ESTATE);
  good(tn_bind(x, low));
  assert_int_equal(tn_eval(1, &out), TN_EDTYPE);
  tn_buffer_release(&low);
  tn_buffer_release(&flat);
  tn_buffer_release(&wide);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

/* A parameter that is an output shows the bound buffer, also after another was bound and the first is gone; on the
 * strict executor that of the run. */
static void leaf_may_be_an_output(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value w = parameter(&b, "w", 1, 3, 0),
           x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis));
  tn_value mask = tn_gt(x, k(&b, 0)), count = tn_count(b.graph, TN_F64, b.axis);
  tn_value outputs[6] = {w, x, w, mask, count, tn_const(b.graph, TN_F32, 0.1)};
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 6, outputs, &program));
  assert_int_equal(tn_program_outputs(program), 6);
  good(tn_exec_new(program, NULL, &exec));
  double got[3];
  give(exec, w, 1, (size_t[]){3}, (double[]){1, 2, 3});
  give(exec, x, 1, (size_t[]){2}, (double[]){-1, 4});
  good(tn_exec_run(exec));
  give(exec, w, 1, (size_t[]){3}, (double[]){4, 5, 6});
  const char *kind = getenv("TN_EXECUTOR");
  bool strict = kind && strcmp(kind, "strict") == 0;
  good(tn_exec_read(exec, 0, 3, got));
  same_bits(got, strict ? (double[]){1, 2, 3} : (double[]){4, 5, 6}, 3, "leaf", 0);
  good(tn_exec_read(exec, 1, 2, got));
  same_bits(got, (double[]){-1, 4}, 2, "points", 2);
  good(tn_exec_read(exec, 3, 2, got));
  same_bits(got, (double[]){0, 1}, 2, "mask", 2);
  good(tn_exec_read(exec, 4, 1, got));
  same_bits(got, (double[]){2}, 1, "count", 2);
  good(tn_exec_read(exec, 5, 1, got));
  same_bits(got, (double[]){0.1f}, 1, "constant", 0);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

/* A run that found no memory may be tried again; until then there is no output. */
static void run_recovers_from_lack_of_memory(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  network n = build(&b);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_buffer *buffer = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  double *x = draw("points", N_MOST), one[N_ALL], other[N_ALL];
  bind_network(exec, &n, 64, x, 0.7);
  read_network(exec, &n, 64, other);
  bool failed = true;
  bind_network(exec, &n, N_MOST, x, 0.7);
  for (uint64_t at = 1; failed; ++at) {
    tn_fault_at(at, false);
    tn_status status = tn_exec_run(exec);
    tn_fault_at(0, false);
    failed = status != TN_OK;
    if (!failed)
      break;
    assert_int_equal(status, TN_ENOMEM);
    assert_int_equal(tn_exec_output(exec, 0, &buffer), TN_ESTATE);
    assert_true(at < 10000);
    tn_exec *next = NULL; /* the same lack, and then enough */
    good(tn_exec_new(program, NULL, &next));
    bind_network(next, &n, N_MOST, x, 0.7);
    tn_fault_at(at, false);
    assert_int_equal(tn_exec_run(next), TN_ENOMEM);
    tn_fault_at(0, false);
    read_network(next, &n, N_MOST, other);
    tn_exec_free(&next);
  }
  read_network(exec, &n, N_MOST, one);
  same_bits(one, other, N_ALL, "after a lack", N_MOST);
  free(x);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

/* The extent of an axis on which only structural numbers are left comes from any input bound on it. */
static void idle_input_tells_the_extent(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)),
           zero = gradient(tn_mul(k(&b, 2), x), x);
  tn_value ratio =
      tn_div(tn_sub(zero, k(&b, 2)), tn_fill(b.graph, TN_F64, tn_shape_points(b.axis), 0));
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_culprit culprit;
  good(tn_compile(b.graph, 1, &ratio, &program));
  good(tn_exec_new(program, NULL, &exec));
  assert_int_equal(tn_exec_run(exec), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "extent is unknown"));
  give(exec, x, 1, (size_t[]){3}, (double[]){1, 2, 3});
  good(tn_exec_run(exec));
  good(tn_exec_explain(exec, 0, &culprit));
  assert_true(culprit.found);
  assert_string_equal(tn_program_node(program, culprit.node)->op->name, "div");
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

/* ---- Compilation ---- */

static void compile_refuses(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_program *program = NULL;
  tn_value h = tn_input(b.graph, "h", TN_I32, tn_shape_scalar());
  assert_int_equal(tn_compile(b.graph, 1, &h, &program), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "i32"));
  tn_value mask = tn_input(b.graph, "m", TN_BOOL, tn_shape_points(b.axis)), not = tn_not(mask);
  assert_int_equal(tn_compile(b.graph, 1, &not, &program), TN_EUNSUPPORTED);
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), low = tn_cast(x, TN_F32);
  tn_value mixed = tn_where(tn_gt(x, k(&b, 0)), low, low);
  assert_int_equal(tn_compile(b.graph, 1, &mixed, &program), TN_EDTYPE);
  tn_value zero = tn_const(b.graph, TN_F32, 0);
  tn_value both = tn_stack(2, (tn_value[]){tn_gt(low, zero), tn_gt(x, k(&b, 0))});
  assert_int_equal(tn_compile(b.graph, 1, &both, &program), TN_EDTYPE);
  ag_field *field = NULL;
  good(ag_field_new(b.graph, "u", 1, TN_F64, &field));
  tn_value body = tn_sin(ag_field_argument(field, 0));
  good(ag_field_body(field, 1, &body));
  tn_at(b.graph, "p.toml", 3, 5, "u");
  tn_value call = ag_call(field, 0, &x, NULL);
  assert_int_equal(tn_compile(b.graph, 1, &call, &program), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "p.toml:3:5"));
  assert_null(program);
  assert_int_equal(tn_compile(b.graph, 0, NULL, &program), TN_EHANDLE);
  bench_close(&b);
}

/* A program and its executor need neither the graph nor the values that made them; only leaves name it. */
static void program_outlives_its_graph(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  network n = build(&b);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, n.n_outputs, n.outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  double *x = draw("points", N_MOST), one[N_ALL], other[N_ALL];
  bind_network(exec, &n, N_MOST, x, 0.7);
  read_network(exec, &n, N_MOST, one);
  tn_graph_reset(b.graph);
  read_network(exec, &n, N_MOST, other);
  same_bits(other, one, N_ALL, "after a reset", N_MOST);
  uint32_t node;
  assert_true(tn_program_leaf(program, n.x, &node));
  bench_close(&b);
  read_network(exec, &n, N_MOST, other);
  same_bits(other, one, N_ALL, "after the end", N_MOST);
  free(x);
  tn_exec_free(&exec);
  tn_program_free(&program);
}

/* Several axes, a sum that feeds the points again, and casts between: phases in any order. */
static void axes_meet_through_sums(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_axis walls = tn_axis_new(b.graph, "walls");
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis));
  tn_value z = tn_input(b.graph, "z", TN_F32, tn_shape_points(walls));
  tn_value mean = tn_mean(x), centred = tn_sub(x, mean), spread = tn_mean(tn_square(centred));
  tn_value wall = tn_cast(tn_mul(z, tn_cast(mean, TN_F32)), TN_F64), total = tn_sum(wall, 0);
  tn_value outputs[3] = {tn_mul(centred, total), spread, wall}, bar;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 3, outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  double got[20];
  give(exec, x, 1, (size_t[]){4}, (double[]){1, 2, 3, 6});
  give(exec, z, 1, (size_t[]){17}, (double[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2});
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, 4, got));
  same_bits(got, (double[]){-2 * 54, -1 * 54, 0, 3 * 54}, 4, "centred", 4);
  good(tn_exec_read(exec, 1, 1, got));
  same_bits(got, (double[]){3.5}, 1, "spread", 4);
  good(tn_exec_read(exec, 2, 17, got));
  assert_true(got[0] == 3 && got[16] == 6);
  good(ag_grad(spread, 1, &x, &bar)); /* 2 (x - mean) / 4 */
  size_t four = 4;
  tn_buffer *buffer = filled(TN_F64, 1, &four, (double[]){1, 2, 3, 6});
  good(tn_bind(x, buffer));
  tn_buffer_release(&buffer);
  all_near(bar, 4, (double[]){-1, -0.5, 0, 1.5}, 1e-15);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit),
                                     cmocka_unit_test(point_does_not_see_its_neighbours),
                                     cmocka_unit_test(rebinding_gives_a_fresh_executors_bits),
                                     cmocka_unit_test(scalar_is_set_between_runs),
                                     cmocka_unit_test(two_executors_share_a_program),
                                     cmocka_unit_test(bindings_are_checked),
                                     cmocka_unit_test(leaf_may_be_an_output),
                                     cmocka_unit_test(run_recovers_from_lack_of_memory),
                                     cmocka_unit_test(idle_input_tells_the_extent),
                                     cmocka_unit_test(compile_refuses),
                                     cmocka_unit_test(program_outlives_its_graph),
                                     cmocka_unit_test(axes_meet_through_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
