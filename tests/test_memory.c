/* test_memory.c: memory stays where it was.
 * ctest: labels=full,memory timeout=600
 *
 * A define-by-run loop that records, differentiates twice, runs and forgets must not grow: resident memory after
 * 1 000 and after 100 000 steps may differ by 1 MiB (the allocator's own slack). Third derivatives of a 4x64
 * network at 10 000 points need the live set of the deepest level only: under 1 GiB by nested reverse mode, far
 * less by jets.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static double resident_mib(void) {
  long pages = 0, ignored;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &ignored, &pages), 2);
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static void steps_leave_nothing_behind(void **state) {
  (void)state;
  const size_t early = 1000, late = 100000;
  double x0[4] = {1, 2, 3, 4}, after_early = 0, got[4];
  tn_graph *graph = NULL;
  tn_buffer *buffer = NULL;
  size_t n = 4;
  assert_int_equal(tn_graph_new(&graph), TN_OK);
  assert_int_equal(tn_buffer_new(TN_F64, 1, &n, &buffer), TN_OK);
  double *data = tn_map(buffer, TN_WRITE);
  for (size_t i = 0; i < n; ++i) data[i] = x0[i];
  tn_unmap(buffer);
  for (size_t step = 1; step <= late; ++step) {
    tn_axis axis = tn_axis_new(graph, "points");
    tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
    assert_int_equal(tn_bind(x, buffer), TN_OK);
    tn_value y = tn_mul(tn_mul(x, x), x), first = gradient(y, x), second = gradient(first, x);
    tn_value out[2] = {first, second};
    assert_int_equal(tn_eval(2, out), TN_OK);
    assert_int_equal(tn_read(second, 4, got), TN_OK);
    assert_true(got[2] == 18);
    tn_graph_reset(graph);
    if (step == early) after_early = resident_mib();
  }
  double after_late = resident_mib();
  printf("memory: resident %.2f MiB after %zu steps, %.2f MiB after %zu\n", after_early, early, after_late,
         late);
  assert_true(fabs(after_late - after_early) <= 1);
  tn_buffer_release(&buffer);
  tn_graph_free(&graph);
  assert_int_equal(tn_memory_now(), 0);
}

enum { LAYERS = 4, WIDTH = 64, POINTS = 10000 };

static tn_value network(bench *b, const tn_value *args) {
  static double w[WIDTH * WIDTH];
  for (size_t i = 0; i < WIDTH * WIDTH; ++i) w[i] = 0.2 * sin(1.0 + (double)i);
  tn_value h = tn_stack(2, args);
  for (int layer = 0; layer <= LAYERS; ++layer) {
    size_t extent[2] = {layer ? WIDTH : 2, layer < LAYERS ? WIDTH : 1};
    h = tn_linear(h, weights(b, "W", 2, extent, w), weights(b, "b", 1, extent + 1, w), false);
    if (layer < LAYERS) h = tn_tanh(h);
  }
  return tn_reshape(h, tn_shape_points(tn_shape_of(args[0]).axis[0]));
}

static double third_derivative(bool jets, double *mib) {
  bench b;
  static double x0[POINTS], u3[POINTS];
  for (size_t i = 0; i < POINTS; ++i) x0[i] = sin((double)i);
  bench_open(&b, TN_F64);
  tn_memory_reset_peak();
  tn_value x[2] = {points(&b, "x", POINTS, x0), points(&b, "t", POINTS, x0)}, u;
  if (jets) {
    ag_field *field;
    uint8_t order[TN_MAX_SLOTS] = {3};
    assert_int_equal(ag_field_new(b.graph, "u", 2, TN_F64, &field), TN_OK);
    tn_value args[2] = {ag_field_argument(field, 0), ag_field_argument(field, 1)};
    tn_value body = network(&b, args);
    assert_int_equal(ag_field_body(field, 1, &body), TN_OK);
    u = ag_call(field, 0, x, order);
    assert_int_equal(ag_resolve(b.graph, 1, &u, NULL, &u, NULL), TN_OK);
  } else {
    u = network(&b, x);
    for (int i = 0; i < 3; ++i) u = gradient(u, x[0]);
  }
  numbers(u, POINTS, u3);
  *mib = (double)tn_memory_peak() / 1048576;
  double sum = 0;
  for (size_t i = 0; i < POINTS; ++i) sum += u3[i] * u3[i];
  bench_close(&b);
  return sqrt(sum);
}

static void third_derivatives_fit(void **state) {
  (void)state;
  double by_grad_mib, by_jets_mib;
  double by_grad = third_derivative(false, &by_grad_mib), by_jets = third_derivative(true, &by_jets_mib);
  printf("memory: u_xxx of a 4x64 network at 10 000 points: nested gradients %.0f MiB, jets %.0f MiB\n",
         by_grad_mib, by_jets_mib);
  near_to(by_jets, by_grad, 1e-12);
  assert_true(by_grad_mib < 1024);
  assert_true(by_jets_mib < 1024);
  printf("memory: 2 of 2\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps_leave_nothing_behind),
                                     cmocka_unit_test(third_derivatives_fit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
