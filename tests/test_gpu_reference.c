/* test_gpu_reference.c: losses, residuals and gradients of another engine, on the device.
 * ctest: labels=full,reference timeout=600
 *
 * The six networks of tests/data/reference.h5 (JAX, f64) run on the device: the emulated one, or, with
 * PINN_TEST_DEVICE=real in the environment, the GPU. Tolerances are those of test_reference.c, and own kernels must
 * give what the CPU gives to the last bit: both are printed.
 */
#include "tests/support_gpu_bench.h"
#include "tests/support_reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"burgers", "helmholtz", "kdv", "ks", "ns2d", "poisson10"};
enum { N_CASES = sizeof names / sizeof *names };

typedef struct step { /* of a case */
  double loss, *residual, *gradient;
} step;

static void run(const reference_case *c, tn_dtype dtype, tn_pool *pool, step *out) {
  reference_graph g;
  out->residual = calloc(c->n_points * c->n_equations, sizeof(double));
  out->gradient = calloc(c->n_weights, sizeof(double));
  if (reference_build(c, BY_JETS, dtype, &g) != TN_OK ||
      reference_run(c, &g, pool, &out->loss, out->residual, out->gradient) != TN_OK)
    fail_msg("%s: %s", c->name, tn_error_text());
  tn_graph_free(&g.graph);
}

static size_t differing(size_t n, const double *x, const double *y) {
  size_t bad = 0;
  for (size_t i = 0; i < n; ++i)
    bad += memcmp(&x[i], &y[i], sizeof *x) != 0;
  return bad;
}

static double relative(size_t n, const double *x, const double *y) {
  double error = 0, size = 0;
  for (size_t i = 0; i < n; ++i)
    error += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
  return sqrt(error / size);
}

static void compare(const gpu_bench *bench, const char *name, tn_dtype dtype, double tolerance) {
  reference_case c;
  step device, host;
  assert_int_equal(reference_load(name, &c), TN_OK);
  size_t n_residual = c.n_points * c.n_equations;
  run(&c, dtype, bench->pool, &device);
  run(&c, dtype, NULL, &host);
  size_t bad = differing(n_residual, device.residual, host.residual) +
               differing(c.n_weights, device.gradient, host.gradient) + differing(1, &device.loss, &host.loss);
  double error = relative(c.n_weights, device.gradient, c.gradient);
  printf("%-10s %s on the device: gradient %.1e, residual %.1e, loss %.1e; %zu of %zu numbers differ from the CPU's\n",
         name, tn_dtype_name(dtype), error, relative(n_residual, device.residual, c.residual),
         fabs(device.loss / c.loss - 1), bad, n_residual + c.n_weights + 1);
  assert_true(error <= tolerance);
  assert_true(fabs(device.loss / c.loss - 1) <= tolerance);
  assert_int_equal(bad, 0);
  free(device.residual), free(device.gradient), free(host.residual), free(host.gradient);
  reference_free(&c);
}

static void f64_agrees(void **state) {
  for (size_t i = 0; i < N_CASES; ++i)
    compare(*state, names[i], TN_F64, 1e-12);
}
static void f32_agrees(void **state) {
  for (size_t i = 0; i < N_CASES; ++i)
    compare(*state, names[i], TN_F32, 2e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(f64_agrees), cmocka_unit_test(f32_agrees)};
  return cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
}
