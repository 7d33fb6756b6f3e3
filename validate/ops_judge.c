/* ops_judge.c: how one result of an operation is judged, in any format.
 *
 * f64 and f32, and low formats where nodes are composed (nested reverse mode: each node rounds to the
 * low format). An error is counted in ulp or in roundings c = |v - r| / (u S), S the condition scale
 * and u of the format. Orders 0 and 1 by the row's ulp where the row promises one; else c <= 8 up to
 * order 2 and c <= 12 at order 3.
 *
 * Low formats, kernels and jets. The result is computed in f32 and rounded once, so with r32 what f32
 * arithmetic gives,
 *
 *   |v - r| <= |v - r32| + |r32 - r| <= ulp/2 + C u32 S,          C = 8 (12 at order 3)
 *
 * where ulp is that of the low format. The first term is the one rounding, the second f32's promise.
 * Two things are demanded of every point:
 *   c = max(0, |v - r| - ulp/2) / (u32 S) <= C, the f32 part counted in roundings of f32; and, where
 *   C u32 S <= margin ulp, |v - r| <= (1/2 + margin) ulp, margin 0.001 at orders 0 and 1 and 0.01 at
 *   2 and 3.
 * In f16 and tf32 ulp is 2^13 u32 |r| to 2^14 u32 |r|, so the second applies while S < 2^10 |r| or so
 * at orders 0 and 1 (8 |r| at C = 1): where nothing cancels. Where it does, near zeros of a
 * derivative, c alone judges; those points are counted as `cancelled`.
 *
 * Range. What lies beyond the format's largest number is set to 2^top, the number that would come
 * next, on both sides: so an infinity is right from the rounding boundary on, and half an ulp means the
 * same there. NaN must answer NaN. Numbers below the smallest normal number are judged like all others,
 * with the subnormal spacing as ulp and the smallest normal number as least scale, and counted apart.
 */
#include <math.h>
#include <stdio.h>

#include "validate/ops.h"

const tn_dtype vd_formats[VD_FORMATS] = {TN_F64, TN_F32, TN_TF32, TN_BF16, TN_F16};

vd_range vd_range_of(tn_dtype dtype) {
  switch (dtype) {
  case TN_F32:
    return (vd_range){24, -149, -126, 128};
  case TN_TF32:
    return (vd_range){11, -136, -126, 128};
  case TN_BF16:
    return (vd_range){8, -133, -126, 128};
  case TN_F16:
    return (vd_range){11, -24, -14, 16};
  default:
    return (vd_range){53, -1074, -1022, 1024};
  }
}

vd_promise vd_promise_of(const tn_op *row, tn_dtype dtype, bool fused, int order) {
  vd_promise p = {.dtype = dtype};
  p.one_rounding = fused && tn_dtype_compute(dtype) != dtype;
  p.ulp = order < 2 ? row->ulp[order] : 0;
  p.c = order < 3 ? 8 : 12;
  p.margin = order < 2 ? 0.001 : 0.01;
  return p;
}

/* |value - reference| in units of 2^unit, what lies beyond the format moved to +-2^top. f64 needs the
 * reference's own precision; for the others a reference rounded to f64 is off by 2^-29 ulp at most. */
static double distance(double value, mpfr_srcptr reference, vd_range f, long unit) {
  if (f.digits < 53) {
    double top = ldexp(1, f.top), r = mpfr_get_d(reference, MPFR_RNDN);
    r = fmin(fmax(r, -top), top);
    value = fmin(fmax(value, -top), top);
    return ldexp(fabs(value - r), (int)-unit);
  }
  mpfr_t r, v;
  mp_limb_t limbs[2][512 / GMP_NUMB_BITS];
  mpfr_custom_init_set(r, MPFR_ZERO_KIND, 0, 512, limbs[0]);
  mpfr_custom_init_set(v, MPFR_ZERO_KIND, 0, 512, limbs[1]);
  mpfr_set(r, reference, MPFR_RNDN);
  if (mpfr_inf_p(r) || (mpfr_regular_p(r) && mpfr_get_exp(r) > f.top))
    mpfr_set_si_2exp(r, mpfr_signbit(reference) ? -1 : 1, f.top, MPFR_RNDN);
  if (isinf(value))
    mpfr_set_si_2exp(v, value < 0 ? -1 : 1, f.top, MPFR_RNDN);
  else
    mpfr_set_d(v, value, MPFR_RNDN);
  mpfr_sub(v, v, r, MPFR_RNDN);
  mpfr_mul_2si(v, v, -unit, MPFR_RNDN);
  return fabs(mpfr_get_d(v, MPFR_RNDN));
}

static long unit_of(mpfr_srcptr reference, vd_range f) {
  if (mpfr_zero_p(reference))
    return f.lowest;
  long e = mpfr_inf_p(reference) ? f.top : (long)mpfr_get_exp(reference);
  e = e > f.top ? f.top : e;
  return e - f.digits < f.lowest ? f.lowest : e - f.digits;
}

static void raise_to(double *most, double *where, double value, double at) {
  if (value > *most || (*most == 0 && value == 0))
    *most = value, *where = at;
}

static void wrong(vd_cell *cell, double at) {
  raise_to(&cell->ulp, &cell->ulp_at, INFINITY, at);
  raise_to(&cell->c, &cell->c_at, INFINITY, at);
}

void vd_cell_add(vd_cell *cell, const vd_promise *promise, double value, mpfr_srcptr reference,
                 double scale, double at) {
  vd_range f = vd_range_of(promise->dtype);
  vd_range of_c = promise->one_rounding ? vd_range_of(TN_F32) : f;
  ++cell->points;
  if (isnan(value) || mpfr_nan_p(reference)) {
    ++cell->special;
    if (!(isnan(value) && mpfr_nan_p(reference)))
      wrong(cell, at);
    return;
  }
  if (mpfr_regular_p(reference) && mpfr_get_exp(reference) <= f.normal)
    ++cell->below;
  long unit = unit_of(reference, f);
  double ulp = distance(value, reference, f, unit);
  double smallest = ldexp(1, of_c.normal);
  int e = 0;
  if (mpfr_inf_p(reference) || (mpfr_regular_p(reference) && mpfr_get_exp(reference) > f.top))
    scale = fmin(scale, ldexp(1, f.top - 1)); /* as the reference itself */
  if (!(scale > smallest))
    scale = smallest;
  double mantissa = isinf(scale) ? frexp(0x1.fffffffffffffp1023, &e) : frexp(scale, &e);
  /* one rounding of the scale, in units: u S / 2^unit */
  double rounding = ldexp(mantissa, (int)(e - of_c.digits - unit));
  double excess = promise->one_rounding ? fmax(0, ulp - 0.5) : ulp;
  raise_to(&cell->c, &cell->c_at, excess / rounding, at);
  if (promise->one_rounding && promise->c * rounding > promise->margin)
    ++cell->cancelled;
  else
    raise_to(&cell->ulp, &cell->ulp_at, ulp, at);
}

void vd_cell_join(vd_cell *cell, const vd_cell *other) {
  cell->points += other->points;
  cell->below += other->below;
  cell->cancelled += other->cancelled;
  cell->special += other->special;
  cell->beyond += other->beyond;
  raise_to(&cell->ulp, &cell->ulp_at, other->ulp, other->ulp_at);
  raise_to(&cell->c, &cell->c_at, other->c, other->c_at);
}

static double ulp_bound(const vd_promise *p) { return p->one_rounding ? 0.5 + p->margin : p->ulp; }

bool vd_cell_passes(const vd_cell *cell, const vd_promise *promise) {
  if (promise->one_rounding)
    return cell->ulp <= ulp_bound(promise) && cell->c <= promise->c;
  return (promise->ulp == 0 || cell->ulp <= promise->ulp) && cell->c <= promise->c;
}

vd_row vd_cell_row(const vd_cell *cell, const vd_promise *promise, const char *subject,
                   const char *method, int order) {
  bool by_ulp = promise->one_rounding || promise->ulp > 0;
  if (by_ulp && cell->ulp <= ulp_bound(promise) &&
      (cell->c > promise->c || cell->cancelled == cell->points))
    by_ulp = false;
  vd_row row = {.order = order,
                .points = cell->points,
                .ulp = cell->ulp,
                .c = cell->c,
                .value = by_ulp ? cell->ulp : cell->c,
                .bound = by_ulp ? ulp_bound(promise) : promise->c,
                .below = cell->below,
                .cancelled = cell->cancelled,
                .beyond = cell->beyond,
                .at = by_ulp ? cell->ulp_at : cell->c_at,
                .pass = vd_cell_passes(cell, promise)};
  snprintf(row.subject, sizeof row.subject, "%s", subject);
  snprintf(row.method, sizeof row.method, "%s", method);
  snprintf(row.measure, sizeof row.measure, "%s", by_ulp ? "ulp" : "c");
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(promise->dtype));
  return row;
}
