/* ref.c: reference values of the table's rows in MPFR.
 *
 * A row names its reference in the mpfr column. Where MPFR has the function, that is it, correctly
 * rounded. The rest are here, each from its definition and with GUARD more bits than the result
 * has, so that they are right to within one unit of the last place. No reference shares a formula
 * with the engine's kernels where a kernel does anything clever: these are the definitions, in high
 * precision.
 *
 * The guard bits cover the roundings of a few operations and the growth of an error in the argument
 * of exp or erfc by x^2: 64 bits are enough for |x| < 2^28.
 */
#include "validate/mp.h"

enum { GUARD = 64 };

/* Working copies at the result's precision plus the guard. */
static void begin(mpfr_srcptr y, mpfr_ptr t) { mpfr_init2(t, mpfr_get_prec(y) + GUARD); }

static void end(mpfr_ptr y, mpfr_ptr t, mpfr_rnd_t rnd) {
  mpfr_set(y, t, rnd);
  mpfr_clear(t);
}

static void ref_recip(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) { mpfr_ui_div(y, 1, x, rnd); }

/* 1 / (x ln 10) */
static void ref_dlog10(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  mpfr_set_ui(t, 10, MPFR_RNDN);
  mpfr_log(t, t, MPFR_RNDN);
  mpfr_mul(t, t, x, MPFR_RNDN);
  mpfr_ui_div(t, 1, t, MPFR_RNDN);
  end(y, t, rnd);
}

/* 1 / cosh(x)^2 */
static void ref_sech2(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  mpfr_sech(t, x, MPFR_RNDN);
  mpfr_sqr(t, t, MPFR_RNDN);
  end(y, t, rnd);
}

/* t = exp(-x^2 / divisor) */
static void gaussian(mpfr_ptr t, mpfr_srcptr x, unsigned long divisor) {
  mpfr_sqr(t, x, MPFR_RNDN);
  mpfr_div_ui(t, t, divisor, MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
}

/* t = t sqrt(factor / pi) */
static void times_root_over_pi(mpfr_ptr t, double factor) {
  mpfr_t p;
  mpfr_init2(p, mpfr_get_prec(t));
  mpfr_const_pi(p, MPFR_RNDN);
  mpfr_d_div(p, factor, p, MPFR_RNDN);
  mpfr_sqrt(p, p, MPFR_RNDN);
  mpfr_mul(t, t, p, MPFR_RNDN);
  mpfr_clear(p);
}

/* 2 / sqrt(pi) exp(-x^2) */
static void ref_derf(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  gaussian(t, x, 1);
  times_root_over_pi(t, 4);
  end(y, t, rnd);
}

/* exp(-x^2 / 2) / sqrt(2 pi) */
static void ref_normal_pdf(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  gaussian(t, x, 2);
  times_root_over_pi(t, 0.5);
  end(y, t, rnd);
}

/* erfc(-x / sqrt 2) / 2 */
static void ref_normal_cdf(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t, r;
  begin(y, t);
  begin(y, r);
  mpfr_sqrt_ui(r, 2, MPFR_RNDN);
  mpfr_div(t, x, r, MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_erfc(t, t, MPFR_RNDN);
  mpfr_div_2ui(t, t, 1, MPFR_RNDN);
  mpfr_clear(r);
  end(y, t, rnd);
}

/* 1 / (1 + exp(-x)) */
static void ref_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  mpfr_neg(t, x, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  mpfr_ui_div(t, 1, t, MPFR_RNDN);
  end(y, t, rnd);
}

/* sech(x / 2)^2 / 4 */
static void ref_dsigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  mpfr_div_2ui(t, x, 1, MPFR_RNDN);
  mpfr_sech(t, t, MPFR_RNDN);
  mpfr_sqr(t, t, MPFR_RNDN);
  mpfr_div_2ui(t, t, 2, MPFR_RNDN);
  end(y, t, rnd);
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), so that exp stays within MPFR's exponents */
static void ref_softplus(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  mpfr_abs(t, x, MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_log1p(t, t, MPFR_RNDN);
  if (mpfr_sgn(x) > 0)
    mpfr_add(t, t, x, MPFR_RNDN);
  end(y, t, rnd);
}

static void times_x(mpfr_ptr y, mpfr_srcptr x, mpfr_ptr t, mpfr_rnd_t rnd) {
  mpfr_mul(t, t, x, MPFR_RNDN);
  end(y, t, rnd);
}

/* x sigmoid(x) */
static void ref_silu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  ref_sigmoid(t, x, MPFR_RNDN);
  times_x(y, x, t, rnd);
}

/* x normal_cdf(x) */
static void ref_gelu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  mpfr_t t;
  begin(y, t);
  ref_normal_cdf(t, x, MPFR_RNDN);
  times_x(y, x, t, rnd);
}

/* max(x, 0)^power, NaN kept; of two zeros the positive one */
static void relu_power(mpfr_ptr y, mpfr_srcptr x, unsigned long power, mpfr_rnd_t rnd) {
  if (mpfr_nan_p(x) || mpfr_sgn(x) > 0)
    mpfr_pow_ui(y, x, power, rnd);
  else
    mpfr_set_zero(y, 1);
}

static void ref_relu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) { relu_power(y, x, 1, rnd); }
static void ref_relu2(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) { relu_power(y, x, 2, rnd); }
static void ref_relu3(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) { relu_power(y, x, 3, rnd); }

static void ref_step(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  if (mpfr_nan_p(x))
    mpfr_set_nan(y);
  else
    mpfr_set_ui(y, mpfr_sgn(x) > 0, rnd);
}

static void ref_sign(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd) {
  if (mpfr_nan_p(x))
    mpfr_set_nan(y);
  else
    mpfr_set_si(y, (mpfr_sgn(x) > 0) - (mpfr_sgn(x) < 0), rnd);
}

/* x^e: x^0 = 1 for every x, negative x for whole e only. The two rows differ in their domain. */
static void ref_powi(mpfr_ptr y, mpfr_srcptr x, mpfr_srcptr e, mpfr_rnd_t rnd) {
  mpfr_pow(y, x, e, rnd);
}
static void ref_powr(mpfr_ptr y, mpfr_srcptr x, mpfr_srcptr e, mpfr_rnd_t rnd) {
  mpfr_pow(y, x, e, rnd);
}

static void ref_min(mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b, mpfr_rnd_t rnd) {
  if (mpfr_nan_p(a) || mpfr_nan_p(b))
    mpfr_set_nan(y);
  else
    mpfr_set(y, mpfr_lessequal_p(a, b) ? a : b, rnd);
}

static void ref_max(mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b, mpfr_rnd_t rnd) {
  if (mpfr_nan_p(a) || mpfr_nan_p(b))
    mpfr_set_nan(y);
  else
    mpfr_set(y, mpfr_greaterequal_p(a, b) ? a : b, rnd);
}

static bool ref_unequal_p(mpfr_srcptr a, mpfr_srcptr b) { return !mpfr_equal_p(a, b); }

/* ---- Dispatch by the table ------------------------------------------------------------------ */

#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name:                                                                               \
    mpfr(y, x, MPFR_RNDN);                                                                         \
    break;
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name:                                                                               \
    mpfr(y, x, exponent, MPFR_RNDN);                                                               \
    break;
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_COMPARE(name, cell, mpfr, doc)
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
void vd_ref_unary(tn_op_id op, mpfr_ptr y, mpfr_srcptr x, mpfr_srcptr exponent) {
  switch (op) {
#include "tensor/ops.def"
  default:
    mpfr_set_nan(y);
  }
}

#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  case TN_OP_##name:                                                                               \
    mpfr(y, a, b, MPFR_RNDN);                                                                      \
    break;
#define OP_COMPARE(name, cell, mpfr, doc)
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
void vd_ref_binary(tn_op_id op, mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b) {
  switch (op) {
#include "tensor/ops.def"
  default:
    mpfr_set_nan(y);
  }
}

#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_COMPARE(name, cell, mpfr, doc)                                                          \
  case TN_OP_##name:                                                                               \
    return mpfr(a, b);
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
bool vd_ref_compare(tn_op_id op, mpfr_srcptr a, mpfr_srcptr b) {
  switch (op) {
#include "tensor/ops.def"
  default:
    return false;
  }
}

typedef enum family { OTHER, UNARY, POWER, BINARY, COMPARE } family;

static const unsigned char family_of[TN_OPS] = {
#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  [TN_OP_##name] = UNARY,
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  [TN_OP_##name] = POWER,
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  [TN_OP_##name] = BINARY,
#define OP_COMPARE(name, cell, mpfr, doc) [TN_OP_##name] = COMPARE,
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
#include "tensor/ops.def"
};

static family of(tn_op_id op) { return (unsigned)op < TN_OPS ? (family)family_of[op] : OTHER; }
bool vd_is_unary(tn_op_id op) { return of(op) == UNARY || of(op) == POWER; }
bool vd_is_power(tn_op_id op) { return of(op) == POWER; }
bool vd_is_binary(tn_op_id op) { return of(op) == BINARY; }
bool vd_is_compare(tn_op_id op) { return of(op) == COMPARE; }

/* ---- Arrays --------------------------------------------------------------------------------- */

tn_status vd_array_new(size_t n, mpfr_prec_t bits, vd_array *out) {
  *out = (vd_array){.n = n, .bits = bits};
  size_t bytes = mpfr_custom_get_size(bits);
  TN_TRY(tn_new(n, sizeof *out->v, &out->v));
  tn_status status = tn_new(n, bytes, &out->limbs);
  if (status != TN_OK) {
    vd_array_free(out);
    return status;
  }
  for (size_t i = 0; i < n; ++i)
    mpfr_custom_init_set(out->v + i, MPFR_ZERO_KIND, 0, bits, (char *)out->limbs + i * bytes);
  return TN_OK;
}

void vd_array_free(vd_array *array) {
  if (!array)
    return;
  tn_free(&array->v);
  tn_free(&array->limbs);
  array->n = 0;
}
