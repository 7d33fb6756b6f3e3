/* test_order.c: what derivatives of higher order cost.
 * ctest: labels=full timeout=300 processors=2
 *
 * u of one argument, layers 1-64-64-1, tanh, 4096 points, one thread. For k = 1 to 8: the time of all of u, u', ...,
 * u^(k), and of the loss that is the mean of the sum of their squares with its gradient by all weights. Jets need
 * k + 1 channels through each matrix, 2 * 64 * 64 (k + 1) operations a point for the middle one, and the products of
 * Taylor series, (k + 1)(k + 2)/2 terms each, in the activations. So time grows like a low power of k, and
 *
 *   time(8) / time(4) <= 2^2 = 4      as for k^2, the most that Taylor arithmetic should cost,
 *
 * where nested differentiation, which doubles the graph with each order, has 2^4 = 16. The same limit for the exponent
 * p <= 2 of time = c k^p fitted to k = 4 to 8, where the share that does not grow is smallest. Times are CPU times of
 * the thread, least of several rounds in which the orders alternate. Recording, compiling and the first run of an order
 * together stay below 1 s.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { ORDERS = 8, WIDTH = 64, POINTS = 4096, LAYERS = 3, ROUNDS = 9 };
static const double LARGEST_RATIO = 4, LARGEST_EXPONENT = 2, LONGEST_START = 1;

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

static double seconds(clockid_t clock) {
  struct timespec t;
  assert_int_equal(clock_gettime(clock, &t), 0);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- A program of one order ---- */

typedef struct order {
  bench b;
  tn_value x, w[LAYERS], bias[LAYERS];
  tn_program *program;
  tn_exec *exec;
  double start, least; /* seconds */
} order;

static size_t extent_of(int layer) { return layer == 0 || layer == LAYERS ? 1 : WIDTH; }

static void record(order *o, int k, bool gradients) {
  tn_jet along, y;
  tn_value outputs[ORDERS + 2 + 2 * LAYERS], leaves[2 * LAYERS], loss = {0};
  size_t n = 0;
  o->x = tn_input(o->b.graph, "x", o->b.dtype, tn_shape_points(o->b.axis));
  tn_value h = tn_stack(1, &o->x);
  for (int l = 0; l < LAYERS; ++l) {
    size_t extent[2] = {extent_of(l), extent_of(l + 1)};
    o->w[l] = tn_parameter(o->b.graph, "w", o->b.dtype, tn_shape_fixed(2, extent));
    o->bias[l] = tn_parameter(o->b.graph, "b", o->b.dtype, tn_shape_fixed(1, extent + 1));
    leaves[2 * l] = o->w[l];
    leaves[2 * l + 1] = o->bias[l];
    h = tn_linear(h, o->w[l], o->bias[l], false);
    if (l + 1 < LAYERS)
      h = tn_tanh(h);
  }
  tn_value u = tn_reshape(h, tn_shape_points(o->b.axis));
  seed(&o->b, o->x, k, &along);
  good(ag_jet(1, &o->x, &along, 1, &u, &y));
  for (int c = 0; c <= k; ++c) {
    tn_value square = tn_square(y.channel[c]);
    loss = c ? tn_add(loss, square) : square;
    outputs[n++] = y.channel[c];
  }
  if (gradients) {
    outputs[0] = tn_mean(loss);
    good(ag_grad(outputs[0], 2 * LAYERS, leaves, outputs + 1));
    n = 1 + 2 * LAYERS;
  }
  good(tn_compile(o->b.graph, n, outputs, &o->program));
}

static void give(order *o, tn_value leaf, size_t rank, const size_t *extent, double scale) {
  tn_buffer *buffer = NULL;
  good(tn_buffer_new(o->b.dtype, rank, extent, &buffer));
  size_t n = tn_buffer_count(buffer);
  double *x = malloc(n * sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = scale * tn_random_normal(tn_stream_of(1, "order"), i);
  good(tn_convert(n, TN_F64, x, o->b.dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  good(tn_exec_bind(o->exec, leaf, buffer));
  tn_buffer_release(&buffer);
  free(x);
}

static void open_order(order *o, int k, tn_dtype dtype, bool gradients) {
  double begun = seconds(CLOCK_THREAD_CPUTIME_ID);
  bench_open(&o->b, dtype);
  record(o, k, gradients);
  good(tn_exec_new(o->program, NULL, &o->exec));
  give(o, o->x, 1, (size_t[]){POINTS}, 0.5);
  for (int l = 0; l < LAYERS; ++l) {
    size_t extent[2] = {extent_of(l), extent_of(l + 1)};
    give(o, o->w[l], 2, extent, 1 / sqrt((double)extent[0]));
    give(o, o->bias[l], 1, extent + 1, 0.5);
  }
  good(tn_exec_run(o->exec));
  o->start = seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
  o->least = INFINITY;
}

static void close_order(order *o) {
  tn_exec_free(&o->exec);
  tn_program_free(&o->program);
  bench_close(&o->b);
}

/* ---- Times ---- */

/* p of time = c k^p, least squares of logarithms over k = first to 8. */
static double exponent(const order *o, int first) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (int k = first; k <= ORDERS; ++k) {
    double a = log((double)k), t = log(o[k - 1].least);
    n += 1, x += a, y += t, xx += a * a, xy += a * t;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

static void measure(tn_dtype dtype, bool gradients) {
  order o[ORDERS] = {0};
  double slowest = 0;
  for (int k = 1; k <= ORDERS; ++k)
    open_order(&o[k - 1], k, dtype, gradients);
  for (int round = 0; round < ROUNDS; ++round)
    for (int k = 1; k <= ORDERS; ++k) {
      double begun = seconds(CLOCK_THREAD_CPUTIME_ID);
      good(tn_exec_run(o[k - 1].exec));
      double t = seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
      o[k - 1].least = t < o[k - 1].least ? t : o[k - 1].least;
    }
  print_message(
      "%s, %s\n  order  channels  nodes  start ms  time ms  to the order before  a channel\n",
      tn_dtype_name(dtype), gradients ? "loss and gradient" : "u and its derivatives");
  for (int k = 1; k <= ORDERS; ++k) {
    double t = o[k - 1].least, before = k > 1 ? o[k - 2].least : NAN;
    print_message("  %5d  %8d  %5zu  %8.2f  %7.3f  %19.2f  %9.3f\n", k, k + 1,
                  tn_program_nodes(o[k - 1].program), 1e3 * o[k - 1].start, 1e3 * t, t / before,
                  1e3 * t / (k + 1));
    slowest = o[k - 1].start > slowest ? o[k - 1].start : slowest;
  }
  double ratio = o[7].least / o[3].least, p = exponent(o, 4);
  print_message(
      "  time(8)/time(4) = %.2f (at most %g), exponent %.2f over orders 4 to 8 (at most %g), "
      "%.2f over 1 to 8\n",
      ratio, LARGEST_RATIO, p, LARGEST_EXPONENT, exponent(o, 1));
  for (int k = 0; k < ORDERS; ++k)
    close_order(&o[k]);
  assert_true(ratio <= LARGEST_RATIO);
  assert_true(p <= LARGEST_EXPONENT);
  assert_true(slowest <= LONGEST_START);
}

static void derivatives_cost_a_low_power_of_their_order(void **state) {
  (void)state;
  measure(TN_F64, false);
  measure(TN_F32, false);
}

static void gradients_cost_a_low_power_of_the_order(void **state) {
  (void)state;
  measure(TN_F64, true);
  measure(TN_F32, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(derivatives_cost_a_low_power_of_their_order),
                                     cmocka_unit_test(gradients_cost_a_low_power_of_the_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
