/* test_exec.c: programs and their executor: bits, bindings, runs again, and who made a NaN.
 *
 * The order of summation is promised, so this file writes it down a second time in plain scalar code, from the text
 * and not from the kernels, and compares bits:
 *   lanes   panels of L points (64 bytes), lane l sums its points over the panels of a group, ascending, from 0;
 *           lanes beyond the last point keep what they hold; lane i then takes lane i + L/2, i + L/4, ..., i + 1
 *   groups  of 8 panels, added to the slot's sum in order, from 0
 *   slots   G = the largest power of two <= min(64, groups, 32 MiB / 8 P), group g belongs to slot s with
 *           s groups / G <= g < (s + 1) groups / G (whole numbers), P the elements of the program's parameters
 *   tree    slot s takes slot s + 1, then s + 2, s + 4, ... (s a multiple of twice the distance)
 * A weight gradient does the same with fused multiply-adds, pair after pair of each panel; or, if k >= 4, n >= 48 and
 * n is a multiple of L, point after point of a slot, per point pair after pair.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(tn_status status) {
  if (status != TN_OK) fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

static double *draw(const char *name, size_t n) {
  tn_stream stream = tn_stream_of(5, name);
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; ++i) x[i] = (float)(4 * tn_random_uniform(stream, i) - 2);
  return x;
}

/* A buffer with these numbers. */
static tn_buffer *filled(tn_dtype dtype, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = NULL;
  good(tn_buffer_new(dtype, rank, extent, &buffer));
  good(tn_convert(tn_buffer_count(buffer), TN_F64, x, dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  return buffer;
}

static void give(tn_exec *exec, tn_value leaf, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = filled(tn_dtype_of(leaf), rank, extent, x);
  good(tn_exec_bind(exec, leaf, buffer));
  tn_buffer_release(&buffer); /* the executor keeps it */
}

static void same_bits(const double *got, const double *want, size_t n, const char *what, size_t points) {
  for (size_t i = 0; i < n; ++i)
    if (memcmp(&got[i], &want[i], sizeof *got))
      fail_msg("%s, %zu points: element %zu is %a, expected %a", what, points, i, got[i], want[i]);
}

/* ---- The order of summation ---- */

static double plus(tn_dtype dtype, double a, double b) {
  return dtype == TN_F32 ? (double)((float)a + (float)b) : a + b;
}
static double fused(tn_dtype dtype, double a, double b, double c) {
  return dtype == TN_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

typedef struct cut { /* of points into slots of groups */
  tn_dtype dtype;
  size_t points, lanes, groups, slots;
} cut;

static cut cut_of(tn_dtype dtype, size_t points, size_t parameters) {
  cut c = {dtype, points, dtype == TN_F32 ? 16 : 8, 0, 1};
  size_t panels = (points + c.lanes - 1) / c.lanes, most = 64;
  c.groups = (panels + 7) / 8;
  if (parameters && ((size_t)32 << 20) / (8 * parameters) < most) most = ((size_t)32 << 20) / (8 * parameters);
  while (2 * c.slots <= c.groups && 2 * c.slots <= most) c.slots *= 2;
  return c;
}

/* The factors of pair q at a point: sum += a b; a plain sum has b = NULL and adds. */
typedef struct term { const double *a, *b; size_t a_step, b_step; } term;

static double lane_group(const cut *c, size_t group, size_t n, const term *t) {
  double lane[16] = {0};
  for (size_t panel = 8 * group; panel < 8 * group + 8; ++panel)
    for (size_t q = 0; q < n; ++q)
      for (size_t l = 0; l < c->lanes; ++l) {
        size_t i = panel * c->lanes + l;
        if (i >= c->points) continue;
        double a = t[q].a[i * t[q].a_step];
        lane[l] = t[q].b ? fused(c->dtype, a, t[q].b[i * t[q].b_step], lane[l]) : plus(c->dtype, lane[l], a);
      }
  for (size_t half = c->lanes / 2; half; half /= 2)
    for (size_t l = 0; l < half; ++l) lane[l] = plus(c->dtype, lane[l], lane[l + half]);
  return lane[0];
}

static double ordered(const cut *c, bool by_points, size_t n, const term *t) {
  double slot[64] = {0};
  for (size_t s = 0; s < c->slots; ++s)
    for (size_t g = s * c->groups / c->slots; g < (s + 1) * c->groups / c->slots; ++g) {
      if (!by_points) {
        slot[s] = plus(c->dtype, slot[s], lane_group(c, g, n, t));
        continue;
      }
      for (size_t i = g * 8 * c->lanes; i < (g + 1) * 8 * c->lanes && i < c->points; ++i)
        for (size_t q = 0; q < n; ++q)
          slot[s] = fused(c->dtype, t[q].a[i * t[q].a_step], t[q].b[i * t[q].b_step], slot[s]);
    }
  for (size_t step = 1; step < c->slots; step *= 2)
    for (size_t s = 0; s < c->slots; s += 2 * step) slot[s] = plus(c->dtype, slot[s], slot[s + step]);
  return slot[0];
}

static const size_t many[] = {1, 7, 8, 9, 63, 64, 65, 128, 129, 191, 513, 1000, 4095, 8193, 20000};
enum { N_MANY = sizeof many / sizeof *many };

static void check_sum(tn_dtype dtype, size_t parameters) {
  enum { W = 11 };
  bench b;
  bench_open(&b, dtype);
  tn_value x = tn_input(b.graph, "x", dtype, tn_shape_batch(b.axis, W)), outputs[2] = {tn_sum(x, 0)};
  size_t n_outputs = 1;
  tn_value theta = {0};
  if (parameters) {
    theta = tn_parameter(b.graph, "theta", dtype, tn_shape_fixed(1, &parameters));
    outputs[n_outputs++] = tn_slice(theta, 0, 0, 1);
  }
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, n_outputs, outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  if (parameters) {
    tn_buffer *zero = NULL;
    good(tn_buffer_new(dtype, 1, &parameters, &zero));
    good(tn_exec_bind(exec, theta, zero));
    tn_buffer_release(&zero);
  }
  double *data = draw("x", many[N_MANY - 1] * W), got[W], want[W];
  for (size_t s = 0; s < N_MANY; ++s) {
    size_t points = many[s];
    cut c = cut_of(dtype, points, parameters);
    give(exec, x, 2, (size_t[]){points, W}, data);
    good(tn_exec_run(exec));
    good(tn_exec_read(exec, 0, W, got));
    for (size_t j = 0; j < W; ++j) want[j] = ordered(&c, false, 1, &(term){data + j, NULL, W, 0});
    same_bits(got, want, W, "sum", points);
  }
  free(data);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}
static void sum_has_its_promised_order(void **state) {
  (void)state;
  check_sum(TN_F64, 0);
  check_sum(TN_F32, 0);
  check_sum(TN_F64, (size_t)1 << 20); /* 32 MiB / 8 MiB = 4 slots at most */
  check_sum(TN_F32, (size_t)3 << 18); /* 5.3: 4 */
}

static void check_outer(tn_dtype dtype, size_t pairs, size_t k, size_t n, bool by_points) {
  bench b;
  bench_open(&b, dtype);
  tn_value z[4], h[4];
  double *zs[4], *hs[4];
  const size_t most = 4095;
  for (size_t q = 0; q < pairs; ++q) {
    char name[32];
    snprintf(name, sizeof name, "z%zu", q);
    z[q] = tn_input(b.graph, name, dtype, tn_shape_batch(b.axis, n));
    zs[q] = draw(name, most * n);
    name[0] = 'h';
    h[q] = tn_input(b.graph, name, dtype, tn_shape_batch(b.axis, k));
    hs[q] = draw(name, most * k);
  }
  tn_value outer = tn_jet_outer(pairs, z, h);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 1, &outer, &program));
  good(tn_exec_new(program, NULL, &exec));
  double *got = malloc(k * n * sizeof *got), *want = malloc(k * n * sizeof *want);
  for (size_t s = 0; s < N_MANY && many[s] <= most; ++s) {
    size_t points = many[s];
    cut c = cut_of(dtype, points, 0);
    for (size_t q = 0; q < pairs; ++q) {
      give(exec, z[q], 2, (size_t[]){points, n}, zs[q]);
      give(exec, h[q], 2, (size_t[]){points, k}, hs[q]);
    }
    good(tn_exec_run(exec));
    good(tn_exec_read(exec, 0, k * n, got));
    for (size_t i = 0; i < k; ++i)
      for (size_t j = 0; j < n; ++j) {
        term t[4];
        for (size_t q = 0; q < pairs; ++q) t[q] = (term){hs[q] + i, zs[q] + j, k, n};
        want[i * n + j] = ordered(&c, by_points, pairs, t);
      }
    same_bits(got, want, k * n, by_points ? "outer by points" : "outer by lanes", points);
  }
  free(got);
  free(want);
  for (size_t q = 0; q < pairs; ++q) {
    free(zs[q]);
    free(hs[q]);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}
static void outer_has_its_promised_order(void **state) {
  (void)state;
  for (int f32 = 0; f32 < 2; ++f32) {
    tn_dtype dtype = f32 ? TN_F32 : TN_F64;
    check_outer(dtype, 1, 3, 2, false);
    check_outer(dtype, 3, 5, 7, false);
    check_outer(dtype, 2, 1, 48, false); /* k < 4 */
    check_outer(dtype, 1, 4, 47, false); /* n < 48 and ragged */
    check_outer(dtype, 3, 4, 48, true);
    check_outer(dtype, 1, 7, 64, true);
  }
}

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
  for (int i = 0; i < 5; ++i) n.outputs[n.n_outputs++] = gradients[i];
  n.outputs[n.n_outputs++] = residual;
  n.outputs[n.n_outputs++] = tn_gt(residual, n.s);
  return n;
}

static void bind_network(tn_exec *exec, const network *n, size_t points, const double *x, double scale) {
  double w[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; ++i) w[i] = scale * sin(1.0 + 3 * i);
  give(exec, n->x, 1, &points, x);
  give(exec, n->W[0], 2, (size_t[]){1, WIDTH}, w);
  give(exec, n->W[1], 2, (size_t[]){WIDTH, WIDTH}, w);
  give(exec, n->W[2], 2, (size_t[]){WIDTH, 1}, w);
  give(exec, n->b[0], 1, (size_t[]){WIDTH}, w + 5);
  give(exec, n->b[1], 1, (size_t[]){WIDTH}, w + 7);
}

enum { N_FIXED = 1 + WIDTH + WIDTH * WIDTH + WIDTH + WIDTH + WIDTH, N_MOST = 200, N_ALL = N_FIXED + 2 * N_MOST };

static void read_network(tn_exec *exec, const network *n, size_t points, double *out) {
  const size_t count[8] = {1, WIDTH, WIDTH * WIDTH, WIDTH, WIDTH, WIDTH, points, points};
  good(tn_exec_run(exec));
  for (size_t i = 0; i < n->n_outputs; out += count[i++]) good(tn_exec_read(exec, i, count[i], out));
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
    if (t) good(tn_pool_new(t, &pool[t]));
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
    if (t) same_bits(long_other, long_one, N_FIXED + 6000, "threads", 3000);
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
    if (points[r]) same_bits(one, other, N_FIXED + 2 * points[r], "again", points[r]);
    else assert_true(isnan(one[0]) && isnan(other[0])); /* the mean of nothing */
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
  tn_value s = tn_scalar(b.graph, "s", TN_F64, 3), x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis));
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

typedef struct twin { tn_exec *exec; const network *n; const double *x; double *out; } twin;

static void run_twin(void *context, size_t i, size_t worker) {
  twin *t = (twin *)context + i;
  (void)worker;
  for (int again = 0; again < 50; ++again) read_network(t->exec, t->n, N_MOST, t->out);
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
  tn_value z = tn_input(b.graph, "z", TN_F64, tn_shape_points(b.axis)), w = parameter(&b, "w", 1, 3, 0);
  tn_value y = tn_sum(tn_mul(x, tn_expand(w, 0, b.axis, 0)), 1), out = tn_add(y, z), unused = tn_tanh(w);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 1, &out, &program));
  good(tn_exec_new(program, NULL, &exec));
  const double zero[64] = {0};
  tn_buffer *low = filled(TN_F32, 2, (size_t[]){4, 3}, zero), *flat = filled(TN_F64, 1, (size_t[]){12}, zero);
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

/* A parameter that is an output shows the bound buffer, also after another was bound and the first is gone. */
static void leaf_may_be_an_output(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value w = parameter(&b, "w", 1, 3, 0), x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis));
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
  good(tn_exec_read(exec, 0, 3, got));
  same_bits(got, (double[]){4, 5, 6}, 3, "leaf", 0);
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
    if (!failed) break;
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
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), zero = gradient(tn_mul(k(&b, 2), x), x);
  tn_value ratio = tn_div(tn_sub(zero, k(&b, 2)), tn_fill(b.graph, TN_F64, tn_shape_points(b.axis), 0));
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
  tn_value h = tn_tanh(tn_parameter(b.graph, "h", TN_BF16, tn_shape_scalar()));
  assert_int_equal(tn_compile(b.graph, 1, &h, &program), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "bf16"));
  tn_value mask = tn_input(b.graph, "m", TN_BOOL, tn_shape_points(b.axis)), not = tn_not(mask);
  assert_int_equal(tn_compile(b.graph, 1, &not, &program), TN_EUNSUPPORTED);
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), low = tn_cast(x, TN_F32);
  tn_value mixed = tn_where(tn_gt(x, k(&b, 0)), low, low);
  assert_int_equal(tn_compile(b.graph, 1, &mixed, &program), TN_EDTYPE);
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

/* ---- Who made the NaN ---- */

typedef struct inquest { tn_program *program; tn_exec *exec; tn_culprit culprit; } inquest;

static void ask(bench *b, tn_value y, inquest *q) {
  good(tn_compile(b->graph, 1, &y, &q->program));
  good(tn_exec_new(q->program, NULL, &q->exec));
}

static const char *answer(inquest *q) {
  good(tn_exec_run(q->exec));
  good(tn_exec_explain(q->exec, 0, &q->culprit));
  return q->culprit.found ? tn_program_node(q->program, q->culprit.node)->op->name : "nobody";
}

static void end(inquest *q) {
  tn_exec_free(&q->exec);
  tn_program_free(&q->program);
}

static void explain_follows_the_selected_branch(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  inquest q = {0};
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_batch(b.axis, 3)), mask = tn_gt(x, k(&b, 0));
  tn_value y = tn_tanh(tn_where(mask, tn_log(x), tn_recip(x))); /* log(x) of x <= 0 is not looked at */
  ask(&b, y, &q);
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, -1, -2, -3});
  assert_string_equal(answer(&q), "nobody");
  assert_false(q.culprit.found);
  /* the bad element is not the first of its row, and the mask differs along the row */
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, 3, -0.0, 7});
  assert_string_equal(answer(&q), "nobody"); /* tanh(-infinity) = -1 */
  end(&q);
  y = tn_exp(tn_neg(tn_where(mask, tn_log(x), tn_recip(x))));
  ask(&b, y, &q);
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, 3, -0.0, 7});
  assert_string_equal(answer(&q), "recip");
  assert_int_equal(q.culprit.point, 2);
  assert_true(q.culprit.input[0] == 0 && signbit(q.culprit.input[0]));
  assert_true(isinf(q.culprit.value));
  end(&q);
  bench_close(&b);
}

static void explain_walks_through_sums_and_products(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  inquest q = {0};
  tn_axis walls = tn_axis_new(b.graph, "walls");
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), none = {0};
  tn_value z = tn_input(b.graph, "z", TN_F64, tn_shape_points(walls)), w = parameter(&b, "w", 2, 2, 3);
  tn_value root = tn_sqrt(x), pair[2] = {x, root}, h = tn_linear(tn_stack(2, pair), w, none, false);
  tn_value loss = tn_mean(tn_square(tn_sin(h)));
  double two[6] = {1, 2, 3, 4, 5, 6}, xs[40], zs[30];
  for (int i = 0; i < 40; ++i) xs[i] = i == 33 ? -1 : i;
  for (int i = 0; i < 30; ++i) zs[i] = i == 5 ? -4 : 1 + i;
  ask(&b, loss, &q);
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, w, 2, (size_t[]){2, 3}, two);
  assert_string_equal(answer(&q), "sqrt");
  assert_int_equal(q.culprit.point, 33);
  assert_true(q.culprit.input[0] == -1);
  two[3] = NAN; /* a bad weight at good points: the leaf itself */
  xs[33] = 1;
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, w, 2, (size_t[]){2, 3}, two);
  assert_string_equal(answer(&q), "parameter");
  end(&q);
  /* from a point of one axis through a sum to a point of another */
  tn_value total = tn_sum(tn_log(z), 0);
  ask(&b, tn_mul(x, total), &q);
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, z, 1, (size_t[]){30}, zs);
  assert_string_equal(answer(&q), "log");
  assert_int_equal(q.culprit.point, 5);
  assert_true(q.culprit.input[0] == -4);
  assert_int_equal(tn_exec_explain(q.exec, 1, &q.culprit), TN_ERANGE);
  end(&q);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sum_has_its_promised_order),
      cmocka_unit_test(outer_has_its_promised_order),
      cmocka_unit_test(threads_change_no_bit),
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
      cmocka_unit_test(axes_meet_through_sums),
      cmocka_unit_test(explain_follows_the_selected_branch),
      cmocka_unit_test(explain_walks_through_sums_and_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
