/* exhaustive.c: all pairs of 16-bit numbers through addition, subtraction, multiplication and division.
 *
 * The engine computes in f32 and rounds once more to the format. That gives the exact result rounded once
 * if f32 has at least 2p + 2 digits (p = 11 of f16 and 8 of bf16; f32 has 24), which is a theorem for normal
 * numbers; near and below the smallest normal number of bf16, which is f32's, it is a matter of trying. So all
 * 2^32 pairs are tried.
 *
 * The reference computes in f64: products are exact there, and a sum or quotient that f64 rounds is farther
 * from every tie of the format than that rounding, by the same theorem, with subnormals of the format
 * normal in f64. Rounding from f64 to the format goes by adding and subtracting 1.5 2^(52 + e), 2^e the
 * spacing of the format at the number, which shares nothing with the engine's integer rounding.
 */
#include <math.h>
#include <string.h>

#include "validate/ops.h"

enum { BLOCK = 4096 };

/* x rounded to the format: to a whole multiple of its spacing at x, ties to even. */
static inline double rounded(double x, int digits, int lowest, double largest, double beyond) {
  uint64_t bits = 0, adder = 0;
  memcpy(&bits, &x, sizeof bits);
  int64_t e = (int64_t)(bits >> 52 & 2047) - 1023 + 1 - digits; /* of the spacing */
  e = e < lowest ? lowest : e;
  adder = (uint64_t)(e + 52 + 1023) << 52 | UINT64_C(1) << 51;
  double big = 0;
  memcpy(&big, &adder, sizeof big);
  double y = (x + big) - big;
  y = fabs(x) >= beyond   ? x * (double)INFINITY
      : fabs(y) > largest ? copysign((double)INFINITY, x)
                          : y;
  return x == 0 ? x : y == 0 ? copysign(0, x) : y;
}

static double exact(tn_op_id op, double a, double b) {
  switch (op) {
  case TN_OP_add:
    return a + b;
  case TN_OP_sub:
    return a - b;
  case TN_OP_mul:
    return a * b;
  default:
    return a / b;
  }
}

static uint64_t count_wrong(tn_op_id op, tn_dtype dtype, size_t n, const float *a, const float *b,
                            const float *y) {
  vd_range f = vd_range_of(dtype);
  double largest = ldexp(2 - ldexp(1, 1 - f.digits), f.top - 1), beyond = ldexp(1, f.top);
  uint64_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    double r = rounded(exact(op, (double)a[i], (double)b[i]), f.digits, f.lowest, largest, beyond);
    float want = (float)r; /* exact: every number of the format is one of f32 */
    uint32_t got_bits = 0, want_bits = 0;
    memcpy(&got_bits, &y[i], sizeof got_bits);
    memcpy(&want_bits, &want, sizeof want_bits);
    bool both_nan = (y[i] != y[i]) & (want != want);
    wrong += (got_bits != want_bits) & !both_nan;
  }
  return wrong;
}

static float number_of(tn_dtype dtype, uint32_t bits) {
  return (float)(dtype == TN_BF16 ? tn_of_bf16((uint16_t)bits) : tn_of_f16((uint16_t)bits));
}

tn_status vd_audit_pairs(tn_op_id op, tn_dtype dtype, uint32_t first, uint32_t count,
                         uint64_t *checked, uint64_t *wrong) {
  if ((op != TN_OP_add && op != TN_OP_sub && op != TN_OP_mul && op != TN_OP_div) ||
      (dtype != TN_BF16 && dtype != TN_F16) || first > 65536 || count > 65536 - first)
    return TN_FAIL(TN_EINPUT,
                   "pairs: op %d in %s, numbers %u to %u: expected add, sub, mul or div of "
                   "bf16 or f16, of 65536 numbers",
                   (int)op, tn_dtype_name(dtype), first, first + count);
  float *all = NULL, *a = NULL, *y = NULL;
  tn_status status = TN_NEW(65536, &all);
  if (status == TN_OK)
    status = TN_NEW(BLOCK, &a);
  if (status == TN_OK)
    status = TN_NEW(BLOCK, &y);
  for (uint32_t i = 0; i < 65536 && status == TN_OK; ++i)
    all[i] = number_of(dtype, i);
  for (uint32_t i = first; i < first + count && status == TN_OK; ++i) {
    for (size_t j = 0; j < BLOCK; ++j)
      a[j] = all[i];
    for (size_t at = 0; at < 65536 && status == TN_OK; at += BLOCK) {
      status = tn_op_apply(op, dtype, BLOCK, a, all + at, 0, y);
      *wrong += status == TN_OK ? count_wrong(op, dtype, BLOCK, a, all + at, y) : 0;
      *checked += BLOCK;
    }
  }
  tn_free(&all);
  tn_free(&a);
  tn_free(&y);
  return status;
}
