/* test_bench_cases.c: the cases of `pinn bench step` against an independent engine.
 * ctest: labels=quick,bench timeout=120
 *
 * tests/data/reference.h5 has weights, 256 points, loss and gradient of six of the cases, computed by JAX in f64.
 * Written as a data file and given to the program, they must give that loss and the norm of that gradient: in f64 to
 * 1e-12 (some 1e4 roundings), in f32 to 2e-5 (weights and points rounded once; as in test_reference.c). The seventh
 * case, `wide`, has no reference here; it shares all but its residual with the others.
 */
#include "tests/support_reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"burgers", "helmholtz", "kdv", "ks", "ns2d", "poisson10"};
enum { N_CASES = sizeof names / sizeof *names };
static size_t passed, total;

static void write_data(const reference_case *c, const char *path) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  size_t n = c->n_points * c->n_in;
  assert_int_equal(fwrite(c->weights, sizeof(double), c->n_weights, file), c->n_weights);
  assert_int_equal(fwrite(c->points, sizeof(double), n, file), n);
  assert_int_equal(fclose(file), 0);
}

static double member(const char *text, const char *key) {
  char pattern[64];
  snprintf(pattern, sizeof pattern, "\"%s\": ", key);
  const char *at = strstr(text, pattern);
  assert_non_null(at);
  return strtod(at + strlen(pattern), NULL);
}

static void run(const char *name, const char *dtype, char *json, size_t capacity) {
  char command[512];
  snprintf(command, sizeof command,
           "'%s' bench step %s --points 256 --dtype %s --seconds 0.001 --data case.bin --json "
           "case.json >/dev/null",
           PINN_PROGRAM, name, dtype);
  assert_int_equal(system(command), 0);
  FILE *file = fopen("case.json", "r");
  assert_non_null(file);
  json[fread(json, 1, capacity - 1, file)] = '\0';
  fclose(file);
}

static void compare(const char *name, const char *dtype, double tolerance) {
  reference_case c;
  char json[4096];
  double norm = 0;
  assert_int_equal(reference_load(name, &c), TN_OK);
  assert_int_equal(c.n_points, 256);
  write_data(&c, "case.bin");
  run(name, dtype, json, sizeof json);
  for (size_t i = 0; i < c.n_weights; ++i)
    norm += c.gradient[i] * c.gradient[i];
  double loss_error = fabs(member(json, "loss") / c.loss - 1);
  double gradient_error = fabs(member(json, "gradient_norm") / sqrt(norm) - 1);
  printf("%-10s %s: loss %.1e gradient %.1e\n", name, dtype, loss_error, gradient_error);
  ++total;
  assert_true(loss_error <= tolerance);
  assert_true(gradient_error <= tolerance);
  ++passed;
  reference_free(&c);
}

static void f64_steps_agree(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CASES; ++i)
    compare(names[i], "f64", 1e-12);
}

static void f32_steps_agree(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CASES; ++i)
    compare(names[i], "f32", 2e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(f64_steps_agree),
                                     cmocka_unit_test(f32_steps_agree)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  printf("bench cases: %zu of %zu\n", passed, total);
  return failed;
}
