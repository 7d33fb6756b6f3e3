/* test_reference.c: the whole step against an independent engine.
 * ctest: labels=quick,reference timeout=300
 *
 * Loss, residual and gradient of six benchmark networks at 256 points, computed by JAX in f64 by nested forward
 * mode (tests/data/reference.h5). In f64 both engines round; a gradient entry is a sum of some 256 * C * depth
 * products, so agreement to 1e-12 of its norm leaves about 1e4 roundings of 1.1e-16. In f32 (weights and points
 * rounded once, which alone changes the gradient by some 6e-8 * condition) 2e-5 is asked.
 */
#include "tests/support_reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const names[] = {"burgers", "helmholtz", "kdv", "ks", "ns2d", "poisson10"};
enum { N_CASES = sizeof names / sizeof *names };
static size_t passed, total;

static double norm(size_t n, const double *x) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += x[i] * x[i];
  return sqrt(sum);
}

static void compare(const char *name, reference_mode mode, tn_dtype dtype, double tolerance) {
  reference_case c;
  reference_graph g;
  assert_int_equal(reference_load(name, &c), TN_OK);
  if (reference_build(&c, mode, dtype, &g) != TN_OK)
    fail_msg("%s: %s", name, tn_error_text());
  size_t n_residual = c.n_points * c.n_equations;
  double loss, *residual = calloc(n_residual, 8), *gradient = calloc(c.n_weights, 8);
  if (reference_run(&c, &g, NULL, &loss, residual, gradient) != TN_OK)
    fail_msg("%s: %s", name, tn_error_text());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < n_residual; ++i) {
    largest = fmax(largest, fabs(c.residual[i]));
    worst = fmax(worst, fabs(residual[i] - c.residual[i]));
  }
  for (size_t i = 0; i < c.n_weights; ++i)
    gradient[i] -= c.gradient[i];
  double error = norm(c.n_weights, gradient) / norm(c.n_weights, c.gradient);
  static const char *const modes[] = {"ag_grad", "jets", "separate jets", "nested calls"};
  printf("%-10s %-13s %s: gradient %.1e residual %.1e loss %.1e channels %zu\n", name, modes[mode],
         tn_dtype_name(dtype), error, worst / largest, fabs(loss / c.loss - 1),
         g.report.n_groups ? g.report.group[0].channels : 0);
  ++total;
  assert_true(error <= tolerance);
  assert_true(worst <= tolerance * largest);
  assert_true(fabs(loss - c.loss) <= tolerance * c.loss);
  ++passed;
  free(residual);
  free(gradient);
  reference_free(&c);
  tn_graph_free(&g.graph);
}

static void all(reference_mode mode, tn_dtype dtype, double tolerance) {
  for (size_t i = 0; i < N_CASES; ++i)
    compare(names[i], mode, dtype, tolerance);
}

static void f64_by_grad_agrees(void **state) {
  (void)state;
  all(BY_GRAD, TN_F64, 1e-12);
}
static void f64_by_jets_agrees(void **state) {
  (void)state;
  all(BY_JETS, TN_F64, 1e-12);
}
static void f64_by_separate_jets_agrees(void **state) {
  (void)state;
  all(BY_SEPARATE_JETS, TN_F64, 1e-12);
}
static void f64_by_nested_calls_agrees(void **state) {
  (void)state;
  all(BY_NESTED_CALLS, TN_F64, 1e-12);
}
static void f32_by_grad_agrees(void **state) {
  (void)state;
  all(BY_GRAD, TN_F32, 2e-5);
}
static void f32_by_jets_agrees(void **state) {
  (void)state;
  all(BY_JETS, TN_F32, 2e-5);
}

/* Threads change no bit: slots are cut by the number of points alone. */
static void threads_change_no_bit(void **state) {
  (void)state;
  reference_case c;
  assert_int_equal(reference_load("ns2d", &c), TN_OK);
  size_t n_residual = c.n_points * c.n_equations;
  double loss[3], *residual = calloc(n_residual, 8), *gradient[3];
  for (size_t threads = 1; threads <= 3; ++threads) {
    reference_graph g;
    tn_pool *pool = NULL;
    assert_int_equal(tn_pool_new(threads, &pool), TN_OK);
    gradient[threads - 1] = calloc(c.n_weights, 8);
    assert_int_equal(reference_build(&c, BY_JETS, TN_F64, &g), TN_OK);
    assert_int_equal(
        reference_run(&c, &g, pool, &loss[threads - 1], residual, gradient[threads - 1]), TN_OK);
    tn_graph_free(&g.graph);
    tn_pool_free(&pool);
  }
  for (size_t k = 1; k < 3; ++k) {
    assert_memory_equal(&loss[0], &loss[k], 8);
    assert_memory_equal(gradient[0], gradient[k], c.n_weights * 8);
  }
  for (size_t k = 0; k < 3; ++k)
    free(gradient[k]);
  free(residual);
  reference_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f64_by_grad_agrees),          cmocka_unit_test(f64_by_jets_agrees),
      cmocka_unit_test(f64_by_separate_jets_agrees), cmocka_unit_test(f64_by_nested_calls_agrees),
      cmocka_unit_test(f32_by_grad_agrees),          cmocka_unit_test(f32_by_jets_agrees),
      cmocka_unit_test(threads_change_no_bit)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  printf("reference: %zu of %zu\n", passed, total);
  return failed;
}
