/* ctest: labels=audit timeout=7200 processors=2 */
/* test_exhaustive.c: every f32 number through every row with one argument that promises an error bound.
 *
 * The reference is the C library in double, or a formula in double: its error, some 2^-52 of the value, is 2^-29
 * ulp of f32, or 2^-20 where the formula cancels by as much as 2^9; nothing beside the bounds. Where the exact
 * value overflows f32, infinity is right; a NaN must come back as NaN. The maxima are printed. test_functions.c
 * judges both dtypes against MPFR by samples; this one leaves no f32 number out.
 *
 * sech2, the derivative of tanh, keeps 2.5 ulp wherever it is not subnormal, |z| < 44: no value is lost in
 * saturation, where 1 - tanh^2 has no digit left from |z| = 9 on.
 *
 * PINN_ROWS="tanh exp" restricts the run to some rows. A row takes 70 s of one core: the first twelve
 * take 7 minutes of two idle cores, all of them 10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 12, WORKERS = 2 };

static double decay(double x) { return exp(-fabs(x)); }
static double ref_sech2(double x) {
  double q = decay(2 * x);
  return 4 * q / ((1 + q) * (1 + q));
}
static double ref_sigmoid(double x) { return x < 0 ? decay(x) / (1 + decay(x)) : 1 / (1 + decay(x)); }
static double ref_dsigmoid(double x) { return decay(x) / ((1 + decay(x)) * (1 + decay(x))); }
static double ref_silu(double x) { return x == -(double)INFINITY ? -0.0 : x * ref_sigmoid(x); }
static double ref_softplus(double x) { return (x > 0 ? x : 0) + log1p(decay(x)); }
/* The square of an f32 is exact in double. */
static double ref_normal_pdf(double x) { return 0x1.9884533d43651p-2 * exp(-0.5 * x * x); }
static double ref_derf(double x) { return 0x1.20dd750429b6dp+0 * exp(-x * x); }
static double ref_normal_cdf(double x) { return 0.5 * erfc(-x * 0x1.6a09e667f3bcdp-1); }
static double ref_gelu(double x) { return x == -(double)INFINITY ? -0.0 : x * ref_normal_cdf(x); }

typedef struct row {
  tn_op_id op;
  double (*reference)(double);
  double bound; /* ulp */
} row;
static const row rows[] = {
    {TN_OP_exp, exp, 1},
    {TN_OP_expm1, expm1, 1},
    {TN_OP_log, log, 1},
    {TN_OP_log1p, log1p, 1},
    {TN_OP_sin, sin, 2},
    {TN_OP_cos, cos, 2},
    {TN_OP_tanh, tanh, 2.1},
    {TN_OP_sech2, ref_sech2, 2.5},
    {TN_OP_sigmoid, ref_sigmoid, 2.5},
    {TN_OP_dsigmoid, ref_dsigmoid, 4},
    {TN_OP_softplus, ref_softplus, 2},
    {TN_OP_silu, ref_silu, 4},
    {TN_OP_derf, ref_derf, 4},
    {TN_OP_normal_pdf, ref_normal_pdf, 4},
    {TN_OP_normal_cdf, ref_normal_cdf, 3},
    {TN_OP_gelu, ref_gelu, 4},
};

typedef struct share { /* numbers of the bit patterns first .. first + count - 1 */
  const row *row;
  uint64_t first, count;
  double most; /* ulp */
  float where;
} share;

/* |y - exact| in spacings of f32 at the exact value. The exponent is read from the bits: this is most of the
 * test's own time. */
static double ulps(float y, double exact) {
  if (isnan(exact)) return isnan(y) ? 0 : (double)INFINITY;
  if (fabs(exact) > 0x1.fffffep127) return isinf(y) && (y > 0) == (exact > 0) ? 0 : (double)INFINITY;
  if (isnan(y)) return (double)INFINITY;
  uint64_t bits = 0;
  memcpy(&bits, &exact, sizeof bits);
  int64_t e = (int64_t)(bits >> 52 & 2047) - 1022 - 24; /* of the spacing */
  if (e < -149) e = -149;
  uint64_t unit_bits = (uint64_t)(1023 - e) << 52; /* 1 / spacing */
  double per_unit = 0;
  memcpy(&per_unit, &unit_bits, sizeof per_unit);
  if (isinf(y)) return fabs(exact) >= 0x1.fffffep127 - 1 / per_unit ? 0.5 : (double)INFINITY;
  return fabs((double)y - exact) * per_unit;
}

static void *work(void *argument) {
  share *s = argument;
  const tn_kernels *t = tn_kernels_of(TN_F32);
  float *x = malloc(BLOCK * sizeof *x), *y = malloc(BLOCK * sizeof *y);
  for (uint64_t at = s->first; x && y && at < s->first + s->count; at += BLOCK) {
    for (uint64_t i = 0; i < BLOCK; ++i) {
      uint32_t bits = (uint32_t)(at + i);
      memcpy(&x[i], &bits, sizeof bits);
    }
    t->cell[s->row->op](BLOCK, y, x, NULL, 0);
    for (uint64_t i = 0; i < BLOCK; ++i) {
      double error = ulps(y[i], s->row->reference((double)x[i]));
      if (!(error <= s->most)) s->most = error, s->where = x[i];
    }
  }
  if (!x || !y) s->most = (double)INFINITY;
  free(x);
  free(y);
  return NULL;
}

static bool is_chosen(const char *name) {
  const char *list = getenv("PINN_ROWS");
  if (!list || !*list) return true;
  for (size_t n = strlen(name); *list; list += strcspn(list, " "), list += strspn(list, " "))
    if (strcspn(list, " ") == n && strncmp(list, name, n) == 0) return true;
  return false;
}

static void every_number_keeps_the_bound(void **unused) {
  (void)unused;
  size_t failures = 0;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    const char *name = tn_op_row(rows[r].op)->name;
    if (!is_chosen(name)) continue;
    share part[WORKERS];
    pthread_t thread[WORKERS];
    for (size_t w = 0; w < WORKERS; ++w) {
      part[w] = (share){&rows[r], w << 31, (uint64_t)1 << 31, 0, 0};
      assert_int_equal(pthread_create(&thread[w], NULL, work, &part[w]), 0);
    }
    for (size_t w = 0; w < WORKERS; ++w) assert_int_equal(pthread_join(thread[w], NULL), 0);
    const share *worst = part[1].most > part[0].most ? &part[1] : &part[0];
    printf("%-11s %.4f ulp at %.9g, bound %g\n", name, worst->most, (double)worst->where, rows[r].bound);
    if (!(worst->most <= rows[r].bound)) ++failures;
  }
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_keeps_the_bound)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
