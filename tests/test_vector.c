/* test_vector.c: the fixed summation tree against exact sums, and the scalar functions against
 * libm. */
#include "pinn/vector.h"

#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define U (DBL_EPSILON / 2)

enum { MOST = 3000 };

static uint64_t draws = 1; /* xorshift of a fixed seed */
static double draw(void) {
  draws ^= draws << 13;
  draws ^= draws >> 7;
  draws ^= draws << 17;
  return (double)(draws >> 11) * 0x1p-52 - 1; /* in [-1, 1) */
}

static void dot_of_whole_numbers_is_exact(void **state) {
  (void)state;
  static double x[MOST], y[MOST];
  double sum = 0; /* below 2^53: exact in any order */
  for (size_t n = 0; n < MOST; ++n) {
    assert_true(pn_dot(n, x, y) == sum);
    x[n] = floor(1e5 * draw());
    y[n] = floor(1e5 * draw());
    sum += x[n] * y[n];
  }
}

static void dot_is_accurate(void **state) {
  (void)state;
  static double x[MOST], y[MOST];
  for (size_t i = 0; i < MOST; ++i) {
    x[i] = draw();
    y[i] = draw();
  }
  for (size_t n = 1; n < MOST; n += 97) {
    long double sum = 0, size = 0; /* 64-bit mantissa: its error is n 2^-64 size, below u size */
    for (size_t i = 0; i < n; ++i) {
      sum += (long double)x[i] * y[i];
      size += fabsl((long double)x[i] * y[i]);
    }
    /* 1 rounding of the product, 32 in a lane, 3 between lanes, 4 between the 12 blocks, 1 of
     * the judge. */
    assert_true(fabsl(pn_dot(n, x, y) - sum) <= 41 * U * size);
  }
}

static void dot_is_the_documented_tree(void **state) {
  (void)state;
  static double x[600], one[600];
  for (size_t i = 0; i < 600; ++i) {
    x[i] = draw();
    one[i] = 1;
  }
  double block[3];
  for (size_t b = 0; b < 3; ++b) {
    double lane[8] = {0};
    for (size_t i = 256 * b; i < 256 * (b + 1) && i < 600; ++i)
      lane[i % 8] += x[i];
    block[b] =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
  assert_true(pn_dot(600, x, one) == (block[0] + block[1]) + block[2]);
}

static void norm_neither_overflows_nor_underflows(void **state) {
  (void)state;
  static double x[1000], y[1000];
  for (size_t i = 0; i < 1000; ++i)
    x[i] = draw();
  const double norm = pn_norm(1000, x);
  const int exponents[] = {0, 600, -600, 1000, -1000};
  for (size_t k = 0; k < 5; ++k) {
    for (size_t i = 0; i < 1000; ++i)
      y[i] = ldexp(x[i], exponents[k]);
    /* Scaling by powers of two is exact but for entries near 2^-1074, whose squares do not
     * count. */
    assert_true(fabs(pn_norm(1000, y) / ldexp(norm, exponents[k]) - 1) <= 4 * U);
  }
  const double zero[2] = {0, -0.0};
  assert_true(pn_norm(2, zero) == 0 && pn_norm(0, NULL) == 0);
}

static void nonfinite_entries_are_seen(void **state) {
  (void)state;
  double x[20] = {1, 2, 3};
  assert_true(pn_all_finite(20, x));
  x[13] = INFINITY;
  assert_true(pn_norm(20, x) == INFINITY && pn_norm_max(20, x) == INFINITY);
  assert_false(pn_all_finite(20, x));
  x[17] = NAN;
  assert_true(isnan(pn_norm(20, x)) && isnan(pn_norm_max(20, x)));
}

static void updates_may_alias(void **state) {
  (void)state;
  double x[3] = {1, 2, 3}, p[3] = {4, 5, 6};
  pn_add_scaled(3, x, 2, p, p);
  assert_true(p[0] == 9 && p[1] == 12 && p[2] == 15);
  pn_subtract(3, p, x, p);
  assert_true(p[0] == 8 && p[1] == 10 && p[2] == 12);
  pn_axpy(3, -8, x, p);
  assert_true(p[0] == 0 && p[1] == -6 && p[2] == -12);
  pn_scale(3, 0.5, p);
  assert_true(p[1] == -3 && p[2] == -6);
}

/* libm is within 1 u of the truth here, ours within 4 u: 8 u with the rounding of the
 * comparison. */
static void scalar_functions_agree_with_libm(void **state) {
  (void)state;
  for (int k = 0; k < 20000; ++k) {
    const double t = 300 * draw(), x = fabs(draw()), big = exp2(t);
    assert_true(fabs(pn_exp2(t) / big - 1) <= 8 * U);
    assert_true(fabs(pn_log2(big) - log2(big)) <= 8 * U * fmax(1, fabs(t)));
    assert_true(fabs(pn_cos_pi(x) - cos(3.14159265358979324 * x)) <= 8 * U);
  }
  assert_true(pn_exp2(0) == 1 && pn_exp2(-3) == 0.125 && pn_exp2(2000) == INFINITY);
  assert_true(pn_exp2(-2000) == 0 && isnan(pn_exp2(NAN)));
  assert_true(pn_log2(1) == 0 && pn_log2(8) == 3 && pn_log2(0x1p-1074) == -1074);
  assert_true(pn_cos_pi(0.5) == 0 && fabs(pn_cos_pi(0) - 1) <= U && fabs(pn_cos_pi(1) + 1) <= U);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dot_of_whole_numbers_is_exact),
      cmocka_unit_test(dot_is_accurate),
      cmocka_unit_test(dot_is_the_documented_tree),
      cmocka_unit_test(norm_neither_overflows_nor_underflows),
      cmocka_unit_test(nonfinite_entries_are_seen),
      cmocka_unit_test(updates_may_alias),
      cmocka_unit_test(scalar_functions_agree_with_libm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
