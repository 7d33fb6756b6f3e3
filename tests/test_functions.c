/* test_functions.c: the elementary functions against MPFR.
 *
 * For each row of ops.def with one argument: the largest error in units of the last place (ulp) over random
 * points of the row's interval, numbers of all magnitudes, and a wide interval that reaches into overflow,
 * underflow and saturation. An ulp is the spacing of the dtype at the exact value, but never less than its
 * smallest subnormal number; so a result that fades into 0 is judged by that spacing. The reference has at
 * least 38 bits more than the dtype. Bounds are those the library promises; the measured maxima are printed.
 *
 * The functions are those of the instance in use; test_kernels.c shows that all instances agree in bits.
 * PINN_TEST_SCALE multiplies the number of points; rows have fewer where the
 * reference is slow (erfc), the code is shared with another row (dsigmoid, derf) or is the C library's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <mpfr.h>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1000 }; /* points evaluated at once */
static mpfr_t p, q, r; /* scratch of the references */

/* ---- References that MPFR lacks ---------------------------------------------------------------- */

static int ref_decay(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) { /* e^(-|x|) */
  mpfr_abs(y, x, rnd);
  mpfr_neg(y, y, rnd);
  return mpfr_exp(y, y, rnd);
}
static int ref_dsigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  ref_decay(p, x, rnd);
  mpfr_add_ui(q, p, 1, rnd);
  mpfr_sqr(q, q, rnd);
  return mpfr_div(y, p, q, rnd);
}
static int ref_sech2(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_sech(y, x, rnd);
  return mpfr_sqr(y, y, rnd);
}
static int ref_sigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_neg(p, x, rnd);
  mpfr_exp(p, p, rnd);
  mpfr_add_ui(p, p, 1, rnd);
  return mpfr_ui_div(y, 1, p, rnd);
}
static int ref_silu(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  ref_sigmoid(q, x, rnd);
  return mpfr_mul(y, q, x, rnd);
}
static int ref_softplus(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  ref_decay(p, x, rnd);
  mpfr_log1p(y, p, rnd);
  return mpfr_sgn(x) > 0 ? mpfr_add(y, y, x, rnd) : 0;
}
static int ref_gauss(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) { /* e^(-x^2) */
  mpfr_sqr(p, x, rnd); /* 53 + 53 bits: rounded to 103, but with an error of 2^-103 x^2 */
  mpfr_neg(p, p, rnd);
  return mpfr_exp(y, p, rnd);
}
static int ref_derf(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  ref_gauss(q, x, rnd);
  mpfr_const_pi(p, rnd);
  mpfr_sqrt(p, p, rnd);
  mpfr_div(y, q, p, rnd);
  return mpfr_mul_2ui(y, y, 1, rnd);
}
static int ref_normal_pdf(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_sqr(p, x, rnd);
  mpfr_div_si(p, p, -2, rnd);
  mpfr_exp(q, p, rnd);
  mpfr_const_pi(p, rnd);
  mpfr_mul_2ui(p, p, 1, rnd);
  mpfr_sqrt(p, p, rnd);
  return mpfr_div(y, q, p, rnd);
}
static int ref_normal_cdf(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_set_ui(p, 2, rnd);
  mpfr_sqrt(p, p, rnd);
  mpfr_div(p, x, p, rnd);
  mpfr_neg(p, p, rnd);
  mpfr_erfc(y, p, rnd);
  return mpfr_div_2ui(y, y, 1, rnd);
}
static int ref_gelu(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  ref_normal_cdf(q, x, rnd);
  return mpfr_mul(y, q, x, rnd);
}
static int ref_dlog10(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_set_ui(p, 10, rnd);
  mpfr_log(p, p, rnd);
  mpfr_mul(p, p, x, rnd);
  return mpfr_ui_div(y, 1, p, rnd);
}
static int ref_recip(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) { return mpfr_ui_div(y, 1, x, rnd); }
static int ref_cube(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) { return mpfr_pow_ui(y, x, 3, rnd); }
static int ref_power7(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) { return mpfr_pow_si(y, x, -7, rnd); }
static int ref_power_real(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd) {
  mpfr_set_d(p, 2.5, rnd);
  return mpfr_pow(y, x, p, rnd);
}

/* ---- Accuracy ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  tn_op_id op;
  int (*reference)(mpfr_t, const mpfr_t, mpfr_rnd_t);
  size_t points;
  double lo, hi;       /* most points */
  double low, high;    /* the wide interval in f64 */
  double low32, high32;
  double bound;        /* ulp */
  double exponent;     /* of powers */
} row;

static const row rows[] = {
    {"exp", TN_OP_exp, mpfr_exp, 200000, -20, 20, -760, 709.7, -110, 88.7, 1, 0},
    {"expm1", TN_OP_expm1, mpfr_expm1, 200000, -9, 9, -100, 709.7, -50, 88.7, 1, 0},
    {"log", TN_OP_log, mpfr_log, 200000, 0, 3, 0, 1e300, 0, 1e38, 1, 0},
    {"log1p", TN_OP_log1p, mpfr_log1p, 200000, -0.999, 3, -1, 1e300, -1, 1e38, 1, 0},
    {"sin", TN_OP_sin, mpfr_sin, 200000, -9, 9, -1.1e5, 1.1e5, -1.1e5, 1.1e5, 2, 0},
    {"cos", TN_OP_cos, mpfr_cos, 200000, -9, 9, -1.1e5, 1.1e5, -1.1e5, 1.1e5, 2, 0},
    {"tanh", TN_OP_tanh, mpfr_tanh, 200000, -9, 9, -30, 30, -30, 30, 2.1, 0},
    {"sech2", TN_OP_sech2, ref_sech2, 200000, -9, 9, -400, 400, -60, 60, 2.5, 0},
    {"sigmoid", TN_OP_sigmoid, ref_sigmoid, 200000, -20, 20, -760, 60, -110, 30, 2.5, 0},
    {"dsigmoid", TN_OP_dsigmoid, ref_dsigmoid, 50000, -20, 20, -760, 760, -110, 110, 4, 0},
    {"softplus", TN_OP_softplus, ref_softplus, 200000, -20, 20, -760, 60, -110, 30, 2, 0},
    {"silu", TN_OP_silu, ref_silu, 200000, -20, 20, -760, 60, -110, 30, 4, 0},
    {"derf", TN_OP_derf, ref_derf, 50000, -4, 4, -30, 30, -12, 12, 2.5, 0},
    {"normal_pdf", TN_OP_normal_pdf, ref_normal_pdf, 200000, -6, 6, -40, 40, -16, 16, 2.5, 0},
    {"normal_cdf", TN_OP_normal_cdf, ref_normal_cdf, 5000, -6, 6, -40, 10, -16, 7, 3, 0},
    {"gelu", TN_OP_gelu, ref_gelu, 5000, -6, 6, -40, 10, -16, 7, 4, 0},
    {"dlog10", TN_OP_dlog10, ref_dlog10, 20000, 0.01, 99, 1e-300, 1e300, 1e-37, 1e37, 2, 0},
    {"recip", TN_OP_recip, ref_recip, 20000, 0.1, 9, -1e300, 1e300, -1e37, 1e37, 0.5, 0},
    {"square", TN_OP_square, mpfr_sqr, 20000, -9, 9, -1e150, 1e150, -1e18, 1e18, 0.5, 0},
    {"sqrt", TN_OP_sqrt, mpfr_sqrt, 20000, 0, 99, 0, 1e300, 0, 1e38, 0.5, 0},
    {"x^3", TN_OP_powi, ref_cube, 20000, -3, 3, -1e90, 1e90, -1e11, 1e11, 1, 3},
    {"x^-7", TN_OP_powi, ref_power7, 20000, 0.5, 3, 0.1, 1e30, 0.1, 1e4, 1, -7},
    {"x^2.5", TN_OP_powr, ref_power_real, 5000, 0.01, 9, 0, 1e100, 0, 1e14, 2.5, 2.5},
    {"log10", TN_OP_log10, mpfr_log10, 5000, 0.01, 99, 0, 1e300, 0, 1e38, 2.5, 0},
    {"tan", TN_OP_tan, mpfr_tan, 5000, -1.4, 1.4, -9, 9, -9, 9, 2.5, 0},
    {"asin", TN_OP_asin, mpfr_asin, 5000, -0.99, 0.99, -1, 1, -1, 1, 2.5, 0},
    {"acos", TN_OP_acos, mpfr_acos, 5000, -0.99, 0.99, -1, 1, -1, 1, 2.5, 0},
    {"atan", TN_OP_atan, mpfr_atan, 5000, -9, 9, -1e300, 1e300, -1e37, 1e37, 2.5, 0},
    {"sinh", TN_OP_sinh, mpfr_sinh, 5000, -9, 9, -700, 700, -88, 88, 2.5, 0},
    {"cosh", TN_OP_cosh, mpfr_cosh, 5000, -9, 9, -700, 700, -88, 88, 2.5, 0},
    {"erf", TN_OP_erf, mpfr_erf, 5000, -4, 4, -7, 7, -5, 5, 2.5, 0},
};

/* Sample i: 5 of 8 in [lo, hi], 2 of 8 of any magnitude, 1 of 8 in the wide interval. */
static double sample(const row *f, const tn_kernels *t, tn_stream stream, uint64_t i) {
  double u = tn_random_uniform(stream, 2 * i), v = tn_random_uniform(stream, 2 * i + 1);
  bool wide = t->dtype == TN_F64;
  double low = wide ? f->low : f->low32, high = wide ? f->high : f->high32;
  if (i % 8 < 5) return f->lo + u * (f->hi - f->lo);
  if (i % 8 == 7) return low + u * (high - low);
  double smallest = wide ? -1074 : -149, largest = log2(high);
  double x = exp2(smallest + u * (largest - smallest));
  return v < 0.5 && -x >= low ? -x : x < low ? low : x;
}

static double get(const tn_kernels *t, const void *x, size_t i) {
  return t->dtype == TN_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
static void put(const tn_kernels *t, void *x, size_t i, double value) {
  if (t->dtype == TN_F64)
    ((double *)x)[i] = value;
  else
    ((float *)x)[i] = (float)value;
}

/* |y - reference| in ulp of the dtype */
static double ulps(const tn_kernels *t, double y, mpfr_t reference) {
  bool wide = t->dtype == TN_F64;
  double largest = wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  if (!isfinite(y)) {
    if (isinf(y) && mpfr_cmpabs_ui(reference, 0) > 0 && mpfr_cmp_d(reference, largest) > 0) return 0;
    if (isinf(y) && mpfr_cmp_d(reference, -largest) < 0) return 0;
    return INFINITY;
  }
  mpfr_exp_t e = mpfr_zero_p(reference) ? -100000 : mpfr_get_exp(reference), least = wide ? -1074 : -149;
  mpfr_exp_t unit = e - (wide ? 53 : 24) < least ? least : e - (wide ? 53 : 24);
  mpfr_sub_d(r, reference, y, MPFR_RNDN);
  mpfr_mul_2si(r, r, -unit, MPFR_RNDN);
  return fabs(mpfr_get_d(r, MPFR_RNDN));
}

static size_t scale(void) {
  const char *text = getenv("PINN_TEST_SCALE");
  long times = text ? strtol(text, NULL, 10) : 1;
  return times > 1 ? (size_t)times : 1;
}

static double worst(const row *f, const tn_kernels *t, double *where) {
  static double x[BLOCK], y[BLOCK]; /* also large enough for floats */
  double most = 0;
  mpfr_t exact, argument;
  mpfr_inits2(t->dtype == TN_F64 ? 103 : 62, exact, argument, (mpfr_ptr)0);
  size_t points = f->points * scale();
  tn_stream stream = tn_stream_of(7, f->name);
  for (size_t start = 0; start < points; start += BLOCK) {
    for (size_t i = 0; i < BLOCK; ++i) put(t, x, i, sample(f, t, stream, start + i));
    t->cell[f->op](BLOCK, y, x, NULL, f->exponent);
    for (size_t i = 0; i < BLOCK; ++i) {
      mpfr_set_d(argument, get(t, x, i), MPFR_RNDN);
      f->reference(exact, argument, MPFR_RNDN);
      double error = mpfr_nan_p(exact) || mpfr_inf_p(exact) ? 0 : ulps(t, get(t, y, i), exact);
      if (!(error <= most)) most = error, *where = get(t, x, i);
    }
  }
  mpfr_clears(exact, argument, (mpfr_ptr)0);
  return most;
}

static void scratch_precision(mpfr_prec_t bits) {
  mpfr_set_prec(p, bits), mpfr_set_prec(q, bits), mpfr_set_prec(r, bits);
}

static void functions_keep_their_bounds(void **unused) {
  (void)unused;
  size_t failures = 0;
  mpfr_inits(p, q, r, (mpfr_ptr)0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    double error[2], at[2] = {0, 0};
    for (int d = 0; d < 2; ++d) {
      const tn_kernels *t = tn_kernels_of(d ? TN_F32 : TN_F64);
      scratch_precision(d ? 62 : 103);
      error[d] = worst(&rows[i], t, &at[d]);
      if (!(error[d] <= rows[i].bound)) ++failures;
    }
    printf("%-11s f64 %6.3f ulp at %-24.17g f32 %6.3f ulp at %-15.9g bound %g\n", rows[i].name,
           error[0], at[0], error[1], at[1], rows[i].bound);
  }
  mpfr_clears(p, q, r, (mpfr_ptr)0);
  mpfr_free_cache();
  assert_int_equal(failures, 0);
}

/* ---- Special values ---------------------------------------------------------------------------- */

static void special_values_are_right(void **unused) {
  (void)unused;
  const double inf = (double)INFINITY, nan = (double)NAN;
  const struct {
    tn_op_id op;
    double at[6]; /* values at -inf, -0, 0, inf, -1000 and 1000 */
  } cases[] = {
      {TN_OP_exp, {0, 1, 1, inf, 0, inf}},
      {TN_OP_expm1, {-1, -0.0, 0, inf, -1, inf}},
      {TN_OP_log, {nan, -inf, -inf, inf, nan, 6.907755278982137}},
      {TN_OP_log1p, {nan, -0.0, 0, inf, nan, 6.908754779315221}},
      {TN_OP_sin, {nan, -0.0, 0, nan, -0.8268795405320025, 0.8268795405320025}},
      {TN_OP_cos, {nan, 1, 1, nan, 0.5623790762907029, 0.5623790762907029}},
      {TN_OP_tanh, {-1, -0.0, 0, 1, -1, 1}},
      {TN_OP_sech2, {0, 1, 1, 0, 0, 0}},
      {TN_OP_sigmoid, {0, 0.5, 0.5, 1, 0, 1}},
      {TN_OP_dsigmoid, {0, 0.25, 0.25, 0, 0, 0}},
      {TN_OP_softplus, {0, 0.6931471805599453, 0.6931471805599453, inf, 0, 1000}},
      {TN_OP_silu, {-0.0, -0.0, 0, inf, -0.0, 1000}},
      {TN_OP_gelu, {-0.0, -0.0, 0, inf, -0.0, 1000}},
      {TN_OP_normal_cdf, {0, 0.5, 0.5, 1, 0, 1}},
      {TN_OP_normal_pdf, {0, 0.3989422804014327, 0.3989422804014327, 0, 0, 0}},
      {TN_OP_derf, {0, 1.1283791670955126, 1.1283791670955126, 0, 0, 0}},
      {TN_OP_sqrt, {nan, -0.0, 0, inf, nan, 31.622776601683793}},
      {TN_OP_erf, {-1, -0.0, 0, 1, -1, 1}},
      {TN_OP_relu, {0, 0, 0, inf, 0, 1000}},
      {TN_OP_abs, {inf, 0, 0, inf, 1000, 1000}},
  };
  const double x[] = {-inf, -0.0, 0, inf, -1000, 1000, nan};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    for (int d = 0; d < 2; ++d) {
      const tn_kernels *t = tn_kernels_of(d ? TN_F32 : TN_F64);
      double in[7], out[7];
      for (size_t j = 0; j < 7; ++j) put(t, in, j, x[j]);
      t->cell[cases[i].op](7, out, in, NULL, 0);
      assert_true(isnan(get(t, out, 6)));
      for (size_t j = 0; j < 6; ++j) {
        double y = get(t, out, j), expected = d ? (double)(float)cases[i].at[j] : cases[i].at[j];
        double slack = fabs(expected) * (d ? 0x1p-23 : 0x1p-52); /* an ulp, for the inexact ones */
        bool whole = expected == rint(expected);
        bool fits = isnan(expected) ? isnan(y) : whole ? y == expected : fabs(y - expected) <= slack;
        if (!fits || (!isnan(expected) && signbit(y) != signbit(expected)))
          fail_msg("row %zu, %s: f(%g) = %.17g, expected %.17g", i, d ? "f32" : "f64", x[j], y, expected);
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_keep_their_bounds),
      cmocka_unit_test(special_values_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
