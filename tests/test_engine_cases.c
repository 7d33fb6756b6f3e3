/* test_engine_cases.c: problems that people met with other engines, put to this one.
 *
 * Recorded graphs used again (A09), and what a derivative costs by its order (A21).
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
  tn_value unresolved = ag_d(ag_call(field, 0, &x, NULL), x, 1), half = tn_cast(x, TN_F16);
  double got[2] = {7, 7};
  tn_program *program = NULL;
  assert_int_equal(tn_eval(1, &unresolved), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "ag_resolve"));
  assert_int_equal(tn_read(unresolved, 2, got), TN_ESTATE);
  assert_int_equal(tn_eval(1, &half), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "f16"));
  good(tn_capture_begin(b.graph));
  assert_int_equal(tn_capture_end(b.graph, 1, &half, &program), TN_EUNSUPPORTED);
  assert_null(program);
  assert_true(got[0] == 7 && got[1] == 7);
  bench_close(&b);
}

/* ---- A21: cost against order ---- */

enum { WIDTH = 64, POINTS = 4096, MOST = 8 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reused_graph_gives_the_same_bits),
                                     cmocka_unit_test(unsupported_is_an_error),
                                     cmocka_unit_test(cost_grows_slowly_with_the_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
