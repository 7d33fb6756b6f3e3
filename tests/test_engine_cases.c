/* test_engine_cases.c: problems that people met with other engines, put to this one.
 *
 * A derivative by the input and then by a parameter (A08), recorded graphs used again (A09), what a derivative costs
 * by its order (A21), recomputed layers and operations of users (A24).
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- A08: by the input, then by a parameter ---- */

typedef enum entry { GRAD, VJP, ROWS, HVP, JETS, NESTED, ENTRIES } entry;

/* L = (a x)^2 with L_x and d(L_x)/da by one reverse way; jets and nested gradients go through a field. */
static void record_square(tn_graph *graph, entry how, bool region, tn_value *leaf,
                          tn_value out[2]) {
  bench b = {graph, tn_axis_new(graph, "points"), TN_F64};
  tn_value a = tn_parameter(graph, "a", TN_F64, tn_shape_scalar()), one = k(&b, 1);
  tn_value x = how >= JETS ? tn_input(graph, "x", TN_F64, tn_shape_points(b.axis))
                           : tn_parameter(graph, "x", TN_F64, tn_shape_scalar());
  ag_field *field = NULL;
  tn_value at = x;
  if (how >= JETS) {
    good(ag_field_new(graph, "L", 1, TN_F64, &field));
    at = ag_field_argument(field, 0);
  }
  uint32_t before = region ? ag_remat_begin(graph) : 0;
  tn_value inner = tn_mul(a, at), L = tn_square(inner);
  if (region)
    ag_remat_end(graph, before);
  leaf[0] = x, leaf[1] = a;
  if (how >= JETS) {
    ag_resolve_options options = {.nested = how == NESTED};
    good(ag_field_body(field, 1, &L));
    tn_value call = ag_call(field, 0, &x, (uint8_t[]){1});
    good(ag_resolve(graph, 1, &call, &options, &out[0], NULL));
    out[0] = tn_sum(out[0], 0);
  } else {
    good(ag_grad(L, 1, &x, &out[0]));
  }
  if (how == VJP)
    good(ag_vjp(1, &out[0], &one, 1, &a, &out[1]));
  else if (how == ROWS)
    good(ag_rows(1, &a, 1, &out[0], &out[1]));
  else if (how == HVP) { /* row of the Hessian in (x, a) along x: (L_xx, L_ax) */
    tn_value hv[2];
    good(ag_hvp(L, 2, leaf, (tn_value[]){one, k(&b, 0)}, hv));
    out[1] = hv[1];
  } else
    good(ag_grad(out[0], 1, &a, &out[1]));
}

static void derivative_by_input_then_by_parameter(void **state) {
  (void)state;
  const double at[2] = {2, 3};
  for (int how = 0; how < ENTRIES; ++how)
    for (int region = 0; region < 2; ++region) {
      tn_graph *graph = NULL, *captured = NULL;
      tn_program *program = NULL;
      tn_exec *exec = NULL;
      tn_value leaf[2], held[2], out[2];
      size_t rank = how >= JETS;
      good(tn_graph_new(&graph));
      good(tn_graph_new(&captured));
      record_square(graph, (entry)how, region, leaf, out);
      good(tn_capture_begin(captured));
      tn_value kept[2];
      record_square(captured, (entry)how, region, held, kept);
      good(tn_capture_end(captured, 2, kept, &program));
      good(tn_exec_new(program, NULL, &exec));
      for (size_t i = 0; i < 2; ++i) {
        tn_buffer *buffer = filled(TN_F64, i ? 0 : rank, (size_t[]){1}, &at[i]);
        good(tn_bind(leaf[i], buffer));
        good(tn_exec_bind(exec, held[i], buffer));
        tn_buffer_release(&buffer);
      }
      good(tn_eval(2, out));
      good(tn_exec_run(exec));
      for (size_t i = 0; i < 2; ++i) {
        double evaluated, replayed;
        good(tn_read(out[i], 1, &evaluated));
        good(tn_exec_read(exec, i, 1, &replayed));
        if (evaluated != (i ? 24 : 36) || replayed != evaluated)
          fail_msg("entry %d, %s: %.17g and %.17g, expected %d", how,
                   region ? "recomputed" : "kept", evaluated, replayed, i ? 24 : 36);
      }
      tn_exec_free(&exec);
      tn_program_free(&program);
      tn_graph_free(&graph);
      tn_graph_free(&captured);
    }
}

/* ---- A09: reuse of a recorded graph ---- */

enum { N_QUARTIC = 4 };

/* y = x^5 with y', y''; s = sum x_i^4 with the diagonal of its second derivatives, by gradients or by jets. */
static void record_powers(tn_graph *graph, bool jets, tn_value *x, tn_value out[4]) {
  tn_axis axis = tn_axis_new(graph, "points"), axis4 = tn_axis_new(graph, "quartic");
  x[0] = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
  x[1] = tn_input(graph, "xi", TN_F64, tn_shape_points(axis4));
  tn_value y = tn_powi(x[0], 5), s = tn_powi(x[1], 4);
  if (jets) {
    bench b = {graph, axis, TN_F64};
    tn_jet seeded, u;
    seed(&b, x[0], 2, &seeded);
    good(ag_jet(1, &x[0], &seeded, 1, &y, &u));
    out[0] = u.channel[1], out[1] = u.channel[2];
    seed(&b, x[1], 2, &seeded);
    good(ag_jet(1, &x[1], &seeded, 1, &s, &u));
    out[3] = u.channel[2];
  } else {
    good(ag_grad(y, 1, &x[0], &out[0]));
    good(ag_grad(out[0], 1, &x[0], &out[1]));
    good(ag_grad(tn_sum_all(s), 1, &x[1], &out[3]));
    good(ag_grad(out[3], 1, &x[1],
                 &out[3])); /* s_i depends on x_i alone: the sum of a row is its diagonal */
  }
  out[2] = tn_sum_all(s);
}

static const double quartic[N_QUARTIC] = {0.5, 1.5, 2.5, 3.5},
                    diagonal[N_QUARTIC] = {3, 27, 75, 147};

static void bind_powers(const tn_value *x, double at) {
  tn_buffer *buffers[2] = {filled(TN_F64, 1, (size_t[]){1}, &at),
                           filled(TN_F64, 1, (size_t[]){N_QUARTIC}, quartic)};
  for (int i = 0; i < 2; ++i) {
    good(tn_bind(x[i], buffers[i]));
    tn_buffer_release(&buffers[i]);
  }
}

static void reused_graph_gives_the_same_bits(void **state) {
  (void)state;
  for (int jets = 0; jets < 2; ++jets) {
    tn_graph *graph = NULL, *replayed = NULL;
    tn_program *program = NULL;
    tn_exec *exec[2] = {NULL};
    tn_value x[2], out[4], held_x[2], held[4];
    good(tn_graph_new(&graph));
    good(tn_graph_new(&replayed));
    good(tn_capture_begin(replayed));
    record_powers(replayed, jets, held_x, held);
    good(tn_capture_end(replayed, 4, held, &program));
    good(tn_exec_new(program, NULL, &exec[0]));
    good(tn_exec_new(program, NULL, &exec[1]));
    for (int step = 0; step < 20; ++step) {
      double at = step % 4 ? 1 + 0.125 * step : 1, got[7], want[7];
      record_powers(graph, jets, x, out);
      bind_powers(x, at);
      good(tn_eval(4, out));
      for (int i = 0; i < 3; ++i)
        good(tn_read(out[i], 1, &got[i]));
      good(tn_read(out[3], N_QUARTIC, &got[3]));
      if (at == 1) { /* whole numbers: no rounding */
        assert_true(got[0] == 5 && got[1] == 20);
        same_bits(got + 3, diagonal, N_QUARTIC, "diagonal", N_QUARTIC);
      }
      near_to(got[1], 20 * at * at * at, 4e-16 * 8);
      tn_exec *run = exec[step % 2];
      give(run, held_x[0], 1, (size_t[]){1}, &at);
      give(run, held_x[1], 1, (size_t[]){N_QUARTIC}, quartic);
      good(tn_exec_run(run));
      for (size_t i = 0; i < 3; ++i)
        good(tn_exec_read(run, i, 1, &want[i]));
      good(tn_exec_read(run, 3, N_QUARTIC, &want[3]));
      same_bits(got, want, 7, "replayed", 1);
      tn_graph_reset(graph);
    }
    assert_int_equal(tn_graph_cache_stats(graph).misses, 1);
    tn_exec_free(&exec[0]);
    tn_exec_free(&exec[1]);
    tn_program_free(&program);
    tn_graph_free(&graph);
    tn_graph_free(&replayed);
  }
}

/* What cannot run is refused, with a word about it, and no number comes out. */
static void unsupported_is_an_error(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  ag_field *field = NULL;
  tn_value x = points(&b, "x", 2, (double[]){1, 2});
  good(ag_field_new(b.graph, "u", 1, TN_F64, &field));
  tn_value body = tn_square(ag_field_argument(field, 0));
  good(ag_field_body(field, 1, &body));
  tn_value unresolved = ag_d(ag_call(field, 0, &x, NULL), x, 1),
           bound = tn_input(b.graph, "mask", TN_BOOL, tn_shape_points(b.axis)), masked;
  double got[2] = {7, 7};
  tn_program *program = NULL;
  masked = tn_where(bound, x, x);
  assert_int_equal(tn_eval(1, &unresolved), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "ag_resolve"));
  assert_int_equal(tn_read(unresolved, 2, got), TN_ESTATE);
  assert_int_equal(tn_eval(1, &masked), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "masks are made by comparisons"));
  good(tn_capture_begin(b.graph));
  assert_int_equal(tn_capture_end(b.graph, 1, &masked, &program), TN_EUNSUPPORTED);
  assert_null(program);
  assert_true(got[0] == 7 && got[1] == 7);
  bench_close(&b);
}

/* ---- A21: cost against order ---- */

enum { WIDTH = 64, POINTS = 4096, MOST = 8 };

/* Time of this thread, which does all the work: other programs do not count. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of a run with all derivatives up to the order, at best, and of everything before the first run. */
static double seconds_at(int order, const double *data, int runs, double *start_up) {
  static const size_t extents[3][2] = {{1, WIDTH}, {WIDTH, WIDTH}, {WIDTH, 1}};
  double begin = now(), best = 1e9;
  bench b;
  bench_open(&b, TN_F64);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), h = tn_stack(1, &x), W[3],
           bias[3];
  for (int i = 0; i < 3; ++i) {
    W[i] = tn_parameter(b.graph, "W", TN_F64, tn_shape_fixed(2, extents[i]));
    bias[i] = tn_parameter(b.graph, "b", TN_F64, tn_shape_fixed(1, extents[i] + 1));
    h = tn_linear(h, W[i], bias[i], false);
    if (i < 2)
      h = tn_tanh(h);
  }
  h = tn_sum(h, 1);
  tn_jet seeded, u;
  seed(&b, x, order, &seeded);
  good(ag_jet(1, &x, &seeded, 1, &h, &u));
  good(tn_compile(b.graph, (size_t)order + 1, u.channel, &program));
  good(tn_exec_new(program, NULL, &exec));
  give(exec, x, 1, (size_t[]){POINTS}, data);
  for (int i = 0; i < 3; ++i) {
    give(exec, W[i], 2, extents[i], data);
    give(exec, bias[i], 1, extents[i] + 1, data);
  }
  *start_up = now() - begin;
  for (int run = 0; run < runs; ++run) {
    double t = now();
    good(tn_exec_run(exec));
    best = fmin(best, now() - t);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
  return best;
}

static void cost_grows_slowly_with_the_order(void **state) {
  (void)state;
  double *data = draw("x", POINTS), seconds[MOST + 1], latest = 0;
  for (size_t i = 0; i < POINTS; ++i)
    data[i] *= 0.2;
  for (int round = 0; round < 5;
       ++round) /* orders alternate: what disturbs the machine meets all */
    for (int order = 1; order <= MOST; ++order) {
      double start_up, best = seconds_at(order, data, 2, &start_up);
      seconds[order] = round ? fmin(seconds[order], best) : best;
      latest = fmax(latest, start_up);
    }
  for (int order = 1; order <= MOST; ++order)
    printf("order %d: %.2f ms, %.2f of order 1\n", order, 1e3 * seconds[order],
           seconds[order] / seconds[1]);
  printf("order 8 over order 4: %.2f; longest start-up %.1f ms\n", seconds[8] / seconds[4],
         1e3 * latest);
  assert_true(seconds[8] / seconds[4] < 4); /* quadratic at worst; nesting gives 16 */
  assert_true(latest < 1);
  free(data);
}

/* ---- A24: recomputed layers, operations of users ---- */

enum { DEEP = 4, BROAD = 16, MANY = 300, NUMBERS = 2 * MANY + DEEP * BROAD * BROAD };

/* u_x, u_xx and the gradient of mean(u_xx^2) of a network, pairs of whose layers are recomputed or kept. */
static void deep_derivatives(bool recomputed, bool nested, double *got) {
  bench b;
  bench_open(&b, TN_F64);
  double *data = draw("W", BROAD * BROAD + DEEP * 7);
  for (size_t i = 0; i < BROAD * BROAD + DEEP * 7; ++i)
    data[i] *= 0.25;
  double *at = draw("x", MANY);
  tn_value x = points(&b, "x", MANY, at), h, W[DEEP], out[2 + DEEP];
  ag_field *field = NULL;
  good(ag_field_new(b.graph, "u", 1, TN_F64, &field));
  h = ag_field_argument(field, 0);
  h = tn_stack(1, &h);
  for (size_t i = 0; i < DEEP; i += 2) {
    uint32_t before = recomputed ? ag_remat_begin(b.graph) : 0;
    for (size_t j = i; j < i + 2; ++j) {
      size_t extent[2] = {j ? BROAD : 1, BROAD};
      W[j] = weights(&b, "W", 2, extent, data + 7 * j);
      h = tn_tanh(tn_linear(h, W[j], (tn_value){0}, false));
    }
    if (recomputed)
      ag_remat_end(b.graph, before);
  }
  h = tn_sum(h, 1);
  good(ag_field_body(field, 1, &h));
  for (uint8_t order = 1; order <= 2; ++order)
    out[order - 1] = ag_call(field, 0, &x, &order);
  ag_resolve_options options = {.nested = nested};
  good(ag_resolve(b.graph, 2, out, &options, out, NULL));
  good(ag_grad(tn_mean(tn_square(out[1])), DEEP, W, out + 2));
  good(tn_eval(2 + DEEP, out));
  memset(got, 0, NUMBERS * sizeof *got);
  for (size_t i = 0; i < 2 + DEEP; ++i)
    good(tn_read(out[i],
                 i < 2    ? MANY
                 : i == 2 ? BROAD
                          : BROAD * BROAD,
                 got + (i < 2 ? i * MANY : 2 * MANY + (i - 2) * BROAD * BROAD)));
  free(data);
  free(at);
  bench_close(&b);
}

static void recomputed_layers_give_the_same_bits(void **state) {
  (void)state;
  for (int nested = 0; nested < 2; ++nested) {
    double kept[NUMBERS], again[NUMBERS];
    deep_derivatives(false, nested, kept);
    deep_derivatives(true, nested, again);
    same_bits(again, kept, NUMBERS, nested ? "nested" : "jets", MANY);
    assert_true(kept[0] != 0 && kept[MANY] != 0 && kept[2 * MANY] != 0);
  }
}

/* f = 6x as (2x) * 3. The derivative reads the intermediate 2x, or the value, where a constant 6 would do. */
static double six_f64(void *context, const double *x) {
  (void)context;
  return 2 * x[0] * 3;
}

static tn_value six_meaning(void *context, const tn_value *x) {
  (void)context;
  return tn_mul(tn_mul(tn_const(x->graph, tn_dtype_of(*x), 2), *x),
                tn_const(x->graph, tn_dtype_of(*x), 3));
}

static tn_value six_by_intermediate(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by;
  tn_value saved = tn_mul(tn_const(y.graph, tn_dtype_of(y), 2), x[0]);
  return tn_div(tn_mul(saved, tn_const(y.graph, tn_dtype_of(y), 3)), x[0]);
}

static tn_value six_by_value(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by;
  return tn_div(y, x[0]);
}

static void custom_second_derivative_is_zero(void **state) {
  (void)state;
  const tn_custom kinds[] = {
      {.name = "six", .n_inputs = 1, .meaning = six_meaning},
      {.name = "six", .n_inputs = 1, .f64 = six_f64, .meaning = six_meaning},
      {.name = "six", .n_inputs = 1, .f64 = six_f64, .derivative = six_by_intermediate},
      {.name = "six", .n_inputs = 1, .f64 = six_f64, .derivative = six_by_value}};
  for (size_t kind = 0; kind < 4; ++kind)
    for (int region = 0; region < 2; ++region) {
      const tn_op *op = NULL;
      bench b;
      bench_open(&b, TN_F64);
      good(tn_op_register(&kinds[kind], &op));
      tn_value x = points(&b, "x", 2, (double[]){3, -0.7});
      uint32_t before = region ? ag_remat_begin(b.graph) : 0;
      tn_value f = tn_apply(op, 1, &x);
      if (region)
        ag_remat_end(b.graph, before);
      tn_value d = gradient(f, x);
      tn_jet seeded, u;
      seed(&b, x, 2, &seeded);
      good(ag_jet(1, &x, &seeded, 1, &f, &u));
      all_near(f, 2, (double[]){18, 6 * -0.7}, 3e-16);
      all_near(d, 2, (double[]){6, 6}, 3e-16);
      all_near(tn_add(u.channel[1], tn_mul(x, k(&b, 0))), 2, (double[]){6, 6},
               3e-16); /* may lack points */
      all_near(gradient(d, x), 2, (double[]){0, 0},
               3e-15); /* two quotients that cancel, of 6 / 0.7 */
      all_near(ag_d(f, x, 2), 2, (double[]){0, 0}, 3e-15);
      if (tn_ok(u.channel[2])) /* else zero by structure */
        all_near(u.channel[2], 2, (double[]){0, 0}, 3e-15);
      bench_close(&b);
      tn_op_unregister(&op);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(derivative_by_input_then_by_parameter),
                                     cmocka_unit_test(reused_graph_gives_the_same_bits),
                                     cmocka_unit_test(unsupported_is_an_error),
                                     cmocka_unit_test(cost_grows_slowly_with_the_order),
                                     cmocka_unit_test(recomputed_layers_give_the_same_bits),
                                     cmocka_unit_test(custom_second_derivative_is_zero)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
