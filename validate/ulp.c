/* ulp.c: how far a float is from a reference.
 *
 *   ulp    2^max(e - p, emin) for 2^(e-1) <= |r| < 2^e: the spacing of the dtype at the reference
 *   rel    |v - r| / |r|
 *   c      |v - r| / (u S), S the condition scale of r (replay.c), at least the smallest normal
 *   norms  ||v - r|| / ||r|| in norm-2 and norm-inf, over an array
 *
 * ulp judges one operation: a correctly rounded result has at most 0.5. It means little after
 * cancellation, where the result is small beside what it was made from; c does not suffer from that
 * and counts roundings. The floor under S is the smallest normal number because below it a rounding
 * costs up to u times that number, however small the result. Differences are formed in MPFR, with
 * the reference's precision and 64 bits, so that the measure adds no error of its own.
 */
#include <math.h>

#include "validate/mp.h"

typedef struct format {
  int digits; /* p, with the hidden bit */
  int lowest; /* exponent of the smallest subnormal */
  int normal; /* exponent of the smallest normal number */
  double largest;
} format;

static format format_of(tn_dtype dtype) {
  switch (dtype) {
  case TN_F32:
    return (format){24, -149, -126, 0x1.fffffep127};
  case TN_TF32:
    return (format){11, -136, -126, 0x1.ffcp127};
  case TN_F16:
    return (format){11, -24, -14, 65504.0};
  case TN_BF16:
    return (format){8, -133, -126, 0x1.fep127};
  default:
    return (format){53, -1074, -1022, 0x1.fffffffffffffp1023};
  }
}

/* Exponent of the unit at r; r is a number. */
static long unit_exponent(format f, mpfr_srcptr r) {
  if (mpfr_zero_p(r))
    return f.lowest;
  long e = (long)mpfr_get_exp(r);
  long largest = f.normal == -14 ? 16 : (f.digits == 53 ? 1024 : 128);
  if (e > largest)
    e = largest;
  return e - f.digits < f.lowest ? f.lowest : e - f.digits;
}

double vd_ulp_of(tn_dtype dtype, mpfr_srcptr reference) {
  if (!mpfr_number_p(reference))
    return NAN;
  return ldexp(1.0, (int)unit_exponent(format_of(dtype), reference));
}

/* |value - reference| 2^-shift for two numbers. */
static double difference(double value, mpfr_srcptr reference, long shift) {
  mpfr_t d;
  mpfr_init2(d, mpfr_get_prec(reference) + 64);
  mpfr_sub_d(d, reference, value, MPFR_RNDN);
  mpfr_abs(d, d, MPFR_RNDN);
  mpfr_mul_2si(d, d, -shift, MPFR_RNDN);
  double result = mpfr_get_d(d, MPFR_RNDN);
  mpfr_clear(d);
  return result;
}

/* Settles what is not a pair of finite numbers: true and *error if it is settled. */
static bool special(tn_dtype dtype, double value, mpfr_srcptr reference, double *error) {
  *error = 0;
  if (isnan(value) || mpfr_nan_p(reference)) {
    if (!(isnan(value) && mpfr_nan_p(reference)))
      *error = INFINITY;
    return true;
  }
  bool same_sign = (value < 0) == (mpfr_sgn(reference) < 0);
  if (isinf(value)) {
    bool beyond = mpfr_cmpabs_ui(reference, 1) > 0 && same_sign;
    mpfr_t edge;
    mpfr_init2(edge, 64);
    mpfr_set_d(edge, format_of(dtype).largest, MPFR_RNDN);
    beyond = beyond && mpfr_cmpabs(reference, edge) > 0;
    mpfr_clear(edge);
    if (!beyond)
      *error = INFINITY;
    return true;
  }
  if (mpfr_inf_p(reference))
    *error = INFINITY;
  return mpfr_inf_p(reference);
}

double vd_ulp_error(tn_dtype dtype, double value, mpfr_srcptr reference) {
  double error = 0;
  if (special(dtype, value, reference, &error))
    return error;
  return difference(value, reference, unit_exponent(format_of(dtype), reference));
}

double vd_abs_error(double value, mpfr_srcptr reference) {
  double error = 0;
  if (special(TN_F64, value, reference, &error))
    return error;
  return difference(value, reference, 0);
}

double vd_rel_error(double value, mpfr_srcptr reference) {
  double error = 0;
  if (special(TN_F64, value, reference, &error))
    return error;
  if (mpfr_zero_p(reference))
    return value == 0 ? 0 : INFINITY;
  mpfr_t q;
  mpfr_init2(q, mpfr_get_prec(reference) + 64);
  mpfr_sub_d(q, reference, value, MPFR_RNDN);
  mpfr_div(q, q, reference, MPFR_RNDN);
  error = fabs(mpfr_get_d(q, MPFR_RNDN));
  mpfr_clear(q);
  return error;
}

double vd_scaled_error(tn_dtype dtype, double value, mpfr_srcptr reference, double scale) {
  double error = 0;
  if (special(dtype, value, reference, &error))
    return error;
  double smallest = ldexp(1.0, format_of(dtype).normal);
  if (!(scale > smallest))
    scale = smallest;
  /* scale u may be subnormal: bring both sides up by the scale's exponent first */
  int e = 0;
  double mantissa = frexp(scale, &e);
  return difference(value, reference, e) / (mantissa * tn_dtype_roundoff(dtype));
}

/* Norm-2 as scale sqrt(sum), so that squares neither overflow nor underflow. */
static void add_square(double *scale, double *sum, double x) {
  x = fabs(x);
  if (x == 0 || isnan(x))
    return;
  if (x > *scale) {
    *sum = 1 + *sum * (*scale / x) * (*scale / x);
    *scale = x;
  } else {
    *sum += (x / *scale) * (x / *scale);
  }
}

void vd_measure_add(vd_measure *m, tn_dtype dtype, double value, mpfr_srcptr reference,
                    double scale, double at) {
  double ulp = vd_ulp_error(dtype, value, reference);
  double c = vd_scaled_error(dtype, value, reference, scale);
  double relative = vd_rel_error(value, reference);
  double error = 0;
  if (!special(dtype, value, reference, &error))
    error = difference(value, reference, 0);
  double r = fabs(mpfr_get_d(reference, MPFR_RNDN));
  if (m->n == 0 || c > m->max_c || (m->max_c == 0 && ulp > m->max_ulp))
    m->at = at;
  ++m->n;
  m->max_ulp = fmax(m->max_ulp, ulp);
  m->max_c = fmax(m->max_c, c);
  m->max_rel = fmax(m->max_rel, relative);
  m->max_error = fmax(m->max_error, error);
  m->max_reference = fmax(m->max_reference, r);
  add_square(&m->error_scale, &m->error_sum, error);
  add_square(&m->reference_scale, &m->reference_sum, r);
  if (value != 0 && mpfr_number_p(reference) && !mpfr_zero_p(reference) &&
      (value < 0) != (mpfr_sgn(reference) < 0))
    ++m->sign_flips;
  if (value == 0 && mpfr_number_p(reference) && mpfr_get_exp(reference) > format_of(dtype).normal &&
      !mpfr_zero_p(reference))
    ++m->false_zeros;
}

double vd_measure_norm2(const vd_measure *m) {
  double error = m->error_scale * sqrt(m->error_sum);
  double reference = m->reference_scale * sqrt(m->reference_sum);
  return reference > 0 ? error / reference : error;
}

double vd_measure_norm_inf(const vd_measure *m) {
  return m->max_reference > 0 ? m->max_error / m->max_reference : m->max_error;
}
