/* dtype.c: names, sizes and conversions of the element types.
 *
 *     dtype   fraction bits   exponent bits   roundoff u   smallest subnormal   largest finite
 *     f64     52              11              2^-53        2^-1074              1.8e308
 *     f32     23              8               2^-24        2^-149               3.4e38
 *     tf32    10              8               2^-11        2^-136               3.4e38
 *     bf16    7               8               2^-8         2^-133               3.4e38
 *     f16     10              5               2^-11        2^-24                65504
 *
 * The low formats (tf32, bf16, f16) are converted in integer arithmetic, from the bits of a double, in one rounding
 * to nearest, ties to even. Going through f32 would round twice and be wrong next to ties, and
 * conversion instructions differ between machines (some flush bf16 subnormals): integers give the
 * same bits everywhere. With value = m * 2^(e - 52), 2^52 <= m < 2^53, a type with f fraction bits
 * keeps q = m / 2^s rounded, s = 52 - f, and s grows by one for each power of two below the normal
 * range, which yields subnormals by the same line. The bit pattern is then (biased exponent - 1) *
 * 2^f + q: q's leading one adds the missing 1 to the exponent, and a carry out of the fraction
 * moves into the exponent by itself, up to infinity.
 *
 * A tf32 is stored as the f32 of the same value: its pattern with 13 zero bits behind it. In arrays of tf32 these
 * bits must be zero, as every conversion leaves them.
 */
#include "tensor/tensor.h"

#include <string.h>

typedef struct {
  const char *name;
  size_t size; /* bytes */
  bool is_float;
  double roundoff; /* u, 0 for what does not round */
} dtype_row;

static const dtype_row rows[TN_DTYPES] = {
    [TN_F64] = {"f64", 8, true, 0x1p-53},   [TN_F32] = {"f32", 4, true, 0x1p-24},
    [TN_TF32] = {"tf32", 4, true, 0x1p-11}, [TN_BF16] = {"bf16", 2, true, 0x1p-8},
    [TN_F16] = {"f16", 2, true, 0x1p-11},   [TN_BOOL] = {"bool", 1, false, 0},
    [TN_I32] = {"i32", 4, false, 0},        [TN_I64] = {"i64", 8, false, 0},
};

static bool is_dtype(tn_dtype dtype) { return (unsigned)dtype < TN_DTYPES; }

const char *tn_dtype_name(tn_dtype dtype) { return is_dtype(dtype) ? rows[dtype].name : "?"; }

size_t tn_dtype_size(tn_dtype dtype) { return is_dtype(dtype) ? rows[dtype].size : 0; }

bool tn_dtype_is_float(tn_dtype dtype) { return is_dtype(dtype) && rows[dtype].is_float; }

double tn_dtype_roundoff(tn_dtype dtype) { return is_dtype(dtype) ? rows[dtype].roundoff : 0; }

tn_dtype tn_dtype_compute(tn_dtype dtype) {
  return dtype == TN_TF32 || dtype == TN_BF16 || dtype == TN_F16 ? TN_F32 : dtype;
}

tn_status tn_dtype_of_name(const char *name, tn_dtype *out) {
  for (int d = 0; name && d < TN_DTYPES; ++d)
    if (strcmp(name, rows[d].name) == 0) {
      *out = (tn_dtype)d;
      return TN_OK;
    }
  return TN_FAIL(TN_EINPUT, "dtype: '%s' is none of f64, f32, tf32, bf16, f16, bool, i32, i64",
                 name ? name : "(null)");
}

/* ---- The low formats ------------------------------------------------------------------------- */

typedef struct {
  int fraction, exponent; /* bits; the sign stands before them */
} layout;

static const layout tf32 = {10, 8}, bf16 = {7, 8}, f16 = {10, 5};

enum { F64_FRACTION = 52, F64_BIAS = 1023 };
#define F64_INFINITY (UINT64_C(0x7FF) << F64_FRACTION)

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* x in the layout, without the sign, for finite x given by the bits of |x|. */
static uint32_t narrow_finite(uint64_t a, layout to) {
  const int bias = (1 << (to.exponent - 1)) - 1, e_min = 1 - bias;
  int e = (int)(a >> F64_FRACTION) - F64_BIAS;
  if (e > bias)
    return (uint32_t)((1 << to.exponent) - 1) << to.fraction; /* infinity */
  uint64_t m = (a & (F64_INFINITY ^ UINT64_MAX)) | UINT64_C(1) << F64_FRACTION;
  int shift = F64_FRACTION - to.fraction;
  if (e < e_min) {
    if (e_min - e > to.fraction + 1)
      return 0; /* below half of the smallest subnormal */
    shift += e_min - e;
    e = e_min;
  }
  uint64_t q = m >> shift, rest = m & ((UINT64_C(1) << shift) - 1),
           half = UINT64_C(1) << (shift - 1);
  q += rest > half || (rest == half && (q & 1));
  return (uint32_t)(((uint64_t)(e + bias - 1) << to.fraction) + q);
}

static uint32_t narrow(double x, layout to) {
  uint64_t bits = bits_of(x), a = bits & (UINT64_MAX >> 1);
  uint32_t sign = (uint32_t)(bits >> 63) << (to.exponent + to.fraction);
  if (a <= F64_INFINITY)
    return sign | narrow_finite(a, to);
  /* NaN: the leading payload bits stay, the first of them set makes it quiet. */
  uint32_t top = (uint32_t)((1 << (to.exponent + 1)) - 1) << (to.fraction - 1);
  uint32_t payload = (uint32_t)(a >> (F64_FRACTION - to.fraction)) & ((1u << to.fraction) - 1);
  return sign | top | payload;
}

static double widen(uint32_t bits, layout from) {
  const int bias = (1 << (from.exponent - 1)) - 1, e_max = (1 << from.exponent) - 1;
  uint64_t sign = (uint64_t)(bits >> (from.exponent + from.fraction)) << 63;
  int e = (int)(bits >> from.fraction) & e_max;
  uint64_t f = bits & ((1u << from.fraction) - 1);
  if (e == 0) { /* zero or subnormal, f * 2^(1 - bias - fraction): exact, and normal as a double */
    double scale = double_of((uint64_t)(1 - bias - from.fraction + F64_BIAS) << F64_FRACTION);
    return double_of(sign | bits_of((double)f * scale));
  }
  f <<= F64_FRACTION - from.fraction;
  if (e < e_max)
    return double_of(sign | (uint64_t)(e - bias + F64_BIAS) << F64_FRACTION | f);
  if (f != 0)
    f |= UINT64_C(1) << (F64_FRACTION - 1); /* quiet */
  return double_of(sign | F64_INFINITY | f);
}

uint16_t tn_bf16_of(double x) { return (uint16_t)narrow(x, bf16); }

uint16_t tn_f16_of(double x) { return (uint16_t)narrow(x, f16); }

double tn_of_bf16(uint16_t bits) { return widen(bits, bf16); }

double tn_of_f16(uint16_t bits) { return widen(bits, f16); }

double tn_round(tn_dtype dtype, double x) {
  switch (dtype) {
  case TN_F32:
    return (double)(float)x;
  case TN_TF32:
    return widen(narrow(x, tf32), tf32);
  case TN_BF16:
    return widen(narrow(x, bf16), bf16);
  case TN_F16:
    return widen(narrow(x, f16), f16);
  default:
    return x;
  }
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Integers keep their 64 bits until the target is known; everything else passes as a double. */
typedef struct {
  bool is_integer;
  int64_t i;
  double x;
} scalar;

/* Memory is read and written by memcpy: no alignment or aliasing is asked of the arrays. */
static scalar load(tn_dtype dtype, const unsigned char *p) {
  scalar s = {false, 0, 0};
  float f32 = 0;
  uint16_t half = 0;
  int32_t i32 = 0;
  s.is_integer = !rows[dtype].is_float;
  switch (dtype) {
  case TN_F64:
    memcpy(&s.x, p, 8);
    break;
  case TN_F32:
  case TN_TF32:
    memcpy(&f32, p, 4);
    s.x = (double)f32;
    break;
  case TN_BF16:
  case TN_F16:
    memcpy(&half, p, 2);
    s.x = widen(half, dtype == TN_BF16 ? bf16 : f16);
    break;
  case TN_BOOL:
    s.i = *p != 0;
    break;
  case TN_I32:
    memcpy(&i32, p, 4);
    s.i = i32;
    break;
  default: /* TN_I64 */
    memcpy(&s.i, p, 8);
    break;
  }
  return s;
}

/* A double that rounds to every narrower type as i itself does: beyond 2^53 the low bits that the
 * double cannot hold are replaced by one sticky bit, far below the last bit of f32 and the 16-bit
 * types. */
static double sticky_double(int64_t i) {
  uint64_t m = i < 0 ? -(uint64_t)i : (uint64_t)i, low = m & 0x7FF;
  if (m >> 53 == 0)
    return (double)i;
  double x = (double)((m - low) | (uint64_t)(low != 0) << 11);
  return i < 0 ? -x : x;
}

static bool store_integer(tn_dtype dtype, scalar s, unsigned char *p) {
  const double limit = dtype == TN_I32 ? 0x1p31 : 0x1p63; /* NaN compares false with both ends */
  if (!s.is_integer) {
    bool fits = dtype == TN_I32 ? s.x > -limit - 1 && s.x < limit : s.x >= -limit && s.x < limit;
    if (!fits)
      return false;
    s.i = (int64_t)s.x; /* towards zero */
  }
  if (dtype == TN_I64) {
    memcpy(p, &s.i, 8);
    return true;
  }
  if (s.i < INT32_MIN || s.i > INT32_MAX)
    return false;
  int32_t i32 = (int32_t)s.i;
  memcpy(p, &i32, 4);
  return true;
}

/* False if the value is out of the target's range. */
static bool store(tn_dtype dtype, scalar s, unsigned char *p) {
  if (dtype == TN_I32 || dtype == TN_I64)
    return store_integer(dtype, s, p);
  if (dtype == TN_BOOL) {
    *p = s.is_integer ? s.i != 0 : s.x != 0;
    return true;
  }
  if (dtype == TN_F64) {
    double x = s.is_integer ? (double)s.i : s.x;
    memcpy(p, &x, 8);
    return true;
  }
  double x = s.is_integer ? sticky_double(s.i) : s.x;
  if (dtype == TN_F32 || dtype == TN_TF32) {
    float f32 = (float)tn_round(dtype, x);
    memcpy(p, &f32, 4);
    return true;
  }
  uint16_t half = (uint16_t)narrow(x, dtype == TN_BF16 ? bf16 : f16);
  memcpy(p, &half, 2);
  return true;
}

static tn_status fail_at(size_t i, scalar s, tn_dtype from, tn_dtype to) {
  if (s.is_integer)
    return TN_FAIL(TN_ERANGE, "converting %s to %s: element %zu is %lld, out of range",
                   tn_dtype_name(from), tn_dtype_name(to), i, (long long)s.i);
  return TN_FAIL(TN_ERANGE, "converting %s to %s: element %zu is %.17g, out of range",
                 tn_dtype_name(from), tn_dtype_name(to), i, s.x);
}

/* Conversions of whole models, as loops that compilers turn into vector code. */
static void narrow_f64(size_t n, const double *in, float *out) {
  for (size_t i = 0; i < n; ++i)
    out[i] = (float)in[i];
}

static void widen_f32(size_t n, const float *in, double *out) {
  for (size_t i = 0; i < n; ++i)
    out[i] = (double)in[i];
}

static void widen_bf16(size_t n, const uint16_t *in, float *out) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t a = in[i] & 0x7FFFu, bits = (uint32_t)in[i] << 16 | (a > 0x7F80u ? 1u << 22 : 0);
    memcpy(&out[i], &bits, sizeof bits);
  }
}

/* With the exponent still that of f16, the number is 2^-112 times what it should be, subnormal or not. */
static void widen_f16(size_t n, const uint16_t *in, float *out) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t a = in[i] & 0x7FFFu, bits = a << 13, sign = (uint32_t)(in[i] >> 15) << 31;
    float x;
    memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f;
    memcpy(&bits, &x, sizeof bits);
    bits = a < 0x7C00u ? bits : (a << 13 | 0x7F800000u | (a > 0x7C00u ? 1u << 22 : 0));
    bits |= sign;
    memcpy(&out[i], &bits, sizeof bits);
  }
}

static bool is_aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

tn_status tn_convert(size_t n, tn_dtype from, const void *in, tn_dtype to, void *out) {
  if (!is_dtype(from) || !is_dtype(to))
    return TN_FAIL(TN_EDTYPE, "converting: dtypes %d and %d are not both in [0, %d)", (int)from,
                   (int)to, (int)TN_DTYPES);
  if (n == 0)
    return TN_OK;
  const size_t from_size = rows[from].size, to_size = rows[to].size;
  if (from == to) {
    memmove(out, in, n * from_size);
    return TN_OK;
  }
  if (is_aligned(in, from_size) && is_aligned(out, to_size)) {
    bool is_narrowing = from == TN_F64 && to == TN_F32,
         is_widening = from == TN_F32 && to == TN_F64;
    if (is_narrowing)
      narrow_f64(n, in, out);
    if (is_widening)
      widen_f32(n, in, out);
    if (is_narrowing || is_widening)
      return TN_OK;
    if (to == TN_F32 && (from == TN_BF16 || from == TN_F16)) {
      from == TN_BF16 ? widen_bf16(n, in, out) : widen_f16(n, in, out);
      return TN_OK;
    }
  }
  const unsigned char *source = in;
  unsigned char *target = out;
  for (size_t i = 0; i < n; ++i) {
    scalar s = load(from, source + i * from_size);
    if (!store(to, s, target + i * to_size))
      return fail_at(i, s, from, to);
  }
  return TN_OK;
}
