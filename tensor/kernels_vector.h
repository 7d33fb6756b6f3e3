/* kernels_vector.h: register-wide vectors for the kernels_*.c files.
 *
 * A vector is as wide as the target's register (64 bytes with AVX-512, 32 with AVX2, else 16): gcc makes
 * scalar code of generic vectors that are wider. Lane vectors are 64 bytes on every target, so they are
 * PARTS = 1, 2 or 4 vectors. GNU vector types give + - * / and comparisons (all-ones masks); what C lacks
 * is here: FMA, SEL, splat, loads and stores at any alignment, transposition, sums of lanes.
 *
 * Four sets of helpers: AVX-512, AVX2 with FMA, AArch64, and plain loops over lanes for the rest (there FMA
 * may be a library call: slow, same bits). TN_VECTOR_BYTES = 64 forces a width that the target lacks, with
 * the plain helpers: so tests can run the code of the widest vectors on any CPU.
 *
 * With DTYPE (f64 or f32) and T (double or float) defined by the file that includes it:
 *   V, I, U      vector, vectors of signed (also masks) and unsigned integers of the same width
 *   LANES        elements of V;  PANEL  points of a panel;  PARTS  vectors of a lane vector
 *   F(name)      a file-local name of this dtype;  X(name)  an external one of this dtype and TN_ISA
 *   FMA(a, b, c), SEL(mask, a, b), K(c), KI(c), AS_INT(v), AS_FLOAT(i), load(p), store(p, v),
 *   TO_TF32(v), TO_BF16(v), TO_F16(v)
 */
#include "tensor/kernels.h"

#include <math.h>
#include <string.h>

#ifndef TENSOR_KERNELS_VECTOR_H
#define TENSOR_KERNELS_VECTOR_H

#ifndef TN_ISA
#define TN_ISA base
#endif

#if defined(TN_VECTOR_BYTES)
#define VECTOR_BYTES TN_VECTOR_BYTES
#elif defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define HELPERS_AVX512
#define VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define HELPERS_AVX2
#define VECTOR_BYTES 32
#elif defined(__aarch64__)
#include <arm_neon.h>
#define HELPERS_NEON
#define VECTOR_BYTES 16
#else
#define VECTOR_BYTES 16
#endif

typedef double v_f64 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef float v_f32 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef int64_t i_f64 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef int32_t i_f32 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint64_t u_f64 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint32_t u_f32 __attribute__((vector_size(VECTOR_BYTES), may_alias));
/* The same in memory, at any alignment. */
typedef double m_f64 __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(8)));
typedef float m_f32 __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(4)));

#define INLINE static inline __attribute__((always_inline, unused))
#define TABLE static const T
#ifdef __clang__ /* a count would be done too late for the accumulators to become registers */
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define PARTS (TN_LANE_BYTES / VECTOR_BYTES)
enum { LANES_f64 = VECTOR_BYTES / 8, LANES_f32 = VECTOR_BYTES / 4 };

/* Besides the obvious: mask: of bytes that are 0 or not. any: some lane is set.
 * at_most, at_least: x limited by c; a NaN in x stays. */
INLINE double fma1_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
INLINE float fma1_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#if VECTOR_BYTES == 64
INLINE v_f64 splat_f64(double c) { return (v_f64){c, c, c, c, c, c, c, c}; }
INLINE v_f32 splat_f32(float c) { return (v_f32){c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c}; }
INLINE i_f64 splat_i_f64(int64_t c) { return (i_f64){c, c, c, c, c, c, c, c}; }
INLINE i_f32 splat_i_f32(int32_t c) {
  return (i_f32){c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c};
}
#elif VECTOR_BYTES == 32
INLINE v_f64 splat_f64(double c) { return (v_f64){c, c, c, c}; }
INLINE v_f32 splat_f32(float c) { return (v_f32){c, c, c, c, c, c, c, c}; }
INLINE i_f64 splat_i_f64(int64_t c) { return (i_f64){c, c, c, c}; }
INLINE i_f32 splat_i_f32(int32_t c) { return (i_f32){c, c, c, c, c, c, c, c}; }
#else
INLINE v_f64 splat_f64(double c) { return (v_f64){c, c}; }
INLINE v_f32 splat_f32(float c) { return (v_f32){c, c, c, c}; }
INLINE i_f64 splat_i_f64(int64_t c) { return (i_f64){c, c}; }
INLINE i_f32 splat_i_f32(int32_t c) { return (i_f32){c, c, c, c}; }
#endif

#if defined(HELPERS_AVX512)
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  return (v_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  return (v_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
INLINE v_f64 root_f64(v_f64 x) { return (v_f64)_mm512_sqrt_pd((__m512d)x); }
INLINE v_f32 root_f32(v_f32 x) { return (v_f32)_mm512_sqrt_ps((__m512)x); }
INLINE v_f64 select_f64(i_f64 mask, v_f64 a, v_f64 b) {
  return (v_f64)_mm512_mask_blend_pd(_mm512_movepi64_mask((__m512i)mask), (__m512d)b, (__m512d)a);
}
INLINE v_f32 select_f32(i_f32 mask, v_f32 a, v_f32 b) {
  return (v_f32)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b, (__m512)a);
}
INLINE v_f64 at_most_f64(v_f64 x, v_f64 c) { return (v_f64)_mm512_min_pd((__m512d)c, (__m512d)x); }
INLINE v_f32 at_most_f32(v_f32 x, v_f32 c) { return (v_f32)_mm512_min_ps((__m512)c, (__m512)x); }
INLINE v_f64 at_least_f64(v_f64 x, v_f64 c) { return (v_f64)_mm512_max_pd((__m512d)c, (__m512d)x); }
INLINE v_f32 at_least_f32(v_f32 x, v_f32 c) { return (v_f32)_mm512_max_ps((__m512)c, (__m512)x); }
INLINE i_f64 mask_f64(const uint8_t *bytes) {
  int64_t eight;
  memcpy(&eight, bytes, sizeof eight);
  return (i_f64)_mm512_cvtepu8_epi64(_mm_cvtsi64_si128(eight)) != splat_i_f64(0);
}
INLINE i_f32 mask_f32(const uint8_t *bytes) {
  return (i_f32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes)) != splat_i_f32(0);
}
INLINE bool any_f64(i_f64 mask) { return _mm512_movepi64_mask((__m512i)mask) != 0; }
INLINE bool any_f32(i_f32 mask) { return _mm512_movepi32_mask((__m512i)mask) != 0; }
#elif defined(HELPERS_AVX2)
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  return (v_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  return (v_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
INLINE v_f64 root_f64(v_f64 x) { return (v_f64)_mm256_sqrt_pd((__m256d)x); }
INLINE v_f32 root_f32(v_f32 x) { return (v_f32)_mm256_sqrt_ps((__m256)x); }
INLINE v_f64 select_f64(i_f64 mask, v_f64 a, v_f64 b) {
  return (v_f64)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)mask);
}
INLINE v_f32 select_f32(i_f32 mask, v_f32 a, v_f32 b) {
  return (v_f32)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}
INLINE v_f64 at_most_f64(v_f64 x, v_f64 c) { return (v_f64)_mm256_min_pd((__m256d)c, (__m256d)x); }
INLINE v_f32 at_most_f32(v_f32 x, v_f32 c) { return (v_f32)_mm256_min_ps((__m256)c, (__m256)x); }
INLINE v_f64 at_least_f64(v_f64 x, v_f64 c) { return (v_f64)_mm256_max_pd((__m256d)c, (__m256d)x); }
INLINE v_f32 at_least_f32(v_f32 x, v_f32 c) { return (v_f32)_mm256_max_ps((__m256)c, (__m256)x); }
INLINE i_f64 mask_f64(const uint8_t *bytes) {
  int32_t four;
  memcpy(&four, bytes, sizeof four);
  return (i_f64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)) != splat_i_f64(0);
}
INLINE i_f32 mask_f32(const uint8_t *bytes) {
  int64_t eight;
  memcpy(&eight, bytes, sizeof eight);
  return (i_f32)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)) != splat_i_f32(0);
}
INLINE bool any_f64(i_f64 mask) { return _mm256_movemask_pd((__m256d)mask) != 0; }
INLINE bool any_f32(i_f32 mask) { return _mm256_movemask_ps((__m256)mask) != 0; }
#elif defined(HELPERS_NEON)
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  return (v_f64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  return (v_f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE v_f64 root_f64(v_f64 x) { return (v_f64)vsqrtq_f64((float64x2_t)x); }
INLINE v_f32 root_f32(v_f32 x) { return (v_f32)vsqrtq_f32((float32x4_t)x); }
INLINE v_f64 select_f64(i_f64 mask, v_f64 a, v_f64 b) {
  return (v_f64)vbslq_f64((uint64x2_t)mask, (float64x2_t)a, (float64x2_t)b);
}
INLINE v_f32 select_f32(i_f32 mask, v_f32 a, v_f32 b) {
  return (v_f32)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}
#else
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  UNROLL for (size_t l = 0; l < LANES_f64; ++l) c[l] = __builtin_fma(a[l], b[l], c[l]);
  return c;
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  UNROLL for (size_t l = 0; l < LANES_f32; ++l) c[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return c;
}
INLINE v_f64 root_f64(v_f64 x) {
  UNROLL for (size_t l = 0; l < LANES_f64; ++l) x[l] = __builtin_sqrt(x[l]);
  return x;
}
INLINE v_f32 root_f32(v_f32 x) {
  UNROLL for (size_t l = 0; l < LANES_f32; ++l) x[l] = __builtin_sqrtf(x[l]);
  return x;
}
INLINE v_f64 select_f64(i_f64 mask, v_f64 a, v_f64 b) {
  return (v_f64)((mask & (i_f64)a) | (~mask & (i_f64)b));
}
INLINE v_f32 select_f32(i_f32 mask, v_f32 a, v_f32 b) {
  return (v_f32)((mask & (i_f32)a) | (~mask & (i_f32)b));
}
#endif
#if defined(HELPERS_NEON) || !(defined(HELPERS_AVX512) || defined(HELPERS_AVX2))
INLINE v_f64 at_most_f64(v_f64 x, v_f64 c) { return select_f64(x > c, c, x); }
INLINE v_f32 at_most_f32(v_f32 x, v_f32 c) { return select_f32(x > c, c, x); }
INLINE v_f64 at_least_f64(v_f64 x, v_f64 c) { return select_f64(x < c, c, x); }
INLINE v_f32 at_least_f32(v_f32 x, v_f32 c) { return select_f32(x < c, c, x); }
INLINE i_f64 mask_f64(const uint8_t *bytes) {
  i_f64 mask = {0};
  UNROLL for (size_t l = 0; l < LANES_f64; ++l) mask[l] = -!!bytes[l];
  return mask;
}
INLINE i_f32 mask_f32(const uint8_t *bytes) {
  i_f32 mask = {0};
  UNROLL for (size_t l = 0; l < LANES_f32; ++l) mask[l] = -!!bytes[l];
  return mask;
}
INLINE bool any_f64(i_f64 mask) {
  int64_t some = 0;
  UNROLL for (size_t l = 0; l < LANES_f64; ++l) some |= mask[l];
  return some != 0;
}
INLINE bool any_f32(i_f32 mask) {
  int32_t some = 0;
  UNROLL for (size_t l = 0; l < LANES_f32; ++l) some |= mask[l];
  return some != 0;
}
#endif

/* A number of f32 rounded to the nearest one of a low format, ties to even, in integer arithmetic on its bits: half
 * a unit less one, and one more if the last bit that stays is odd, is added, and the bits behind are cleared. A carry
 * moves into the exponent, and up to infinity. Subnormal results of tf32 and bf16 come by the same line. NaN stays
 * one. No low format computes in f64: its functions are there for the tables alone. */
INLINE v_f32 round_at_f32(v_f32 x, int shift) {
  u_f32 bits = (u_f32)x, odd = bits >> shift & (u_f32)splat_i_f32(1);
  u_f32 keep = (u_f32)splat_i_f32(-(1 << shift)), half = (u_f32)splat_i_f32((1 << (shift - 1)) - 1);
  u_f32 quiet = (bits | (u_f32)splat_i_f32(1 << 22)) & keep;
  return select_f32(x == x, (v_f32)((bits + half + odd) & keep), (v_f32)quiet);
}
INLINE v_f32 round_tf32_f32(v_f32 x) { return round_at_f32(x, 13); }
INLINE v_f32 round_bf16_f32(v_f32 x) { return round_at_f32(x, 16); }
/* Below 2^-14 numbers of f16 are multiples of 2^-24, the spacing of f32 in [1/2, 1): adding 1/2 rounds to one. */
INLINE v_f32 round_f16_f32(v_f32 x) {
  u_f32 sign = (u_f32)x & (u_f32)splat_f32(-0.0f);
  v_f32 a = (v_f32)((u_f32)x ^ sign), y = round_at_f32(a, 13), half = splat_f32(0.5f);
  y = select_f32(a < splat_f32(0x1p-14f), (a + half) - half, y);
  y = select_f32(a >= splat_f32(65520), splat_f32(INFINITY), y);
  return (v_f32)((u_f32)y | sign);
}
INLINE v_f64 round_tf32_f64(v_f64 x) { return x; }
INLINE v_f64 round_bf16_f64(v_f64 x) { return x; }
INLINE v_f64 round_f16_f64(v_f64 x) { return x; }

#define JOIN2_(a, b) a##_##b
#define JOIN2(a, b) JOIN2_(a, b)
#define JOIN3_(a, b, c) a##_##b##_##c
#define JOIN3(a, b, c) JOIN3_(a, b, c)
#define LANES ((size_t)VECTOR_BYTES / sizeof(T))
#define PANEL ((size_t)TN_LANE_BYTES / sizeof(T))
#define F(name) JOIN2(name, DTYPE)
#define X(name) JOIN3(name, DTYPE, TN_ISA)
#define V JOIN2(v, DTYPE)
#define I JOIN2(i, DTYPE)
#define U JOIN2(u, DTYPE)
#define KI(c) JOIN2(splat_i, DTYPE)(c)
#define AS_INT(v) ((I)(v))
#define AS_FLOAT(i) ((V)(i))
#define FMA(a, b, c) F(fma)(a, b, c)
#define K(c) F(splat)((T)(c))
#define SEL(mask, a, b) F(select)(mask, a, b)
#define TO_TF32(x) F(round_tf32)(x)
#define TO_BF16(x) F(round_bf16)(x)
#define TO_F16(x) F(round_f16)(x)
#define load(p) (*(const JOIN2(m, DTYPE) *)(p))
#define store(p, v) ((void)(*(JOIN2(m, DTYPE) *)(p) = (v)))

/* Hides where a pointer comes from, so that what is read around it takes constant offsets instead of one
 * register each. */
#define OPAQUE(pointer) __asm__("" : "+r"(pointer))

/* transpose: a[i][l] and a[l][i] change places, i, l < LANES.
 * fold: sums of the lanes of LANES vectors, each by halving (l with l + LANES/2, ...); entry i of the result
 * is that of a[i]. The low halves of two vectors plus their high halves are one vector with the folded
 * lanes of both; log2(LANES) such levels leave one vector. a is used up. */
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if VECTOR_BYTES == 64
INLINE void transpose_f64(v_f64 *a) { /* 2 x 2 of 1, then of 2, then of 4 lanes */
  UNROLL for (size_t i = 0; i < 8; i += 2) {
    v_f64 low = SHUFFLE(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = SHUFFLE(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15), a[i] = low;
  }
  UNROLL for (size_t j = 0; j < 4; ++j) {
    size_t i = j + j / 2 * 2;
    v_f64 low = SHUFFLE(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 2] = SHUFFLE(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15), a[i] = low;
  }
  UNROLL for (size_t i = 0; i < 4; ++i) {
    v_f64 low = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    a[i + 4] = SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15), a[i] = low;
  }
}
INLINE void transpose_f32(v_f32 *a) { /* squares of 4 within each quarter, then the quarters */
  v_f32 b[16];
  UNROLL for (size_t i = 0; i < 16; i += 4) {
    v_f32 c[4];
    UNROLL for (size_t j = 0; j < 4; j += 2) {
      c[j] = SHUFFLE(a[i + j], a[i + j + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
      c[j + 1] =
          SHUFFLE(a[i + j], a[i + j + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    UNROLL for (size_t j = 0; j < 2; ++j) {
      b[i + 2 * j] =
          SHUFFLE(c[j], c[j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      b[i + 2 * j + 1] =
          SHUFFLE(c[j], c[j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  UNROLL for (size_t r = 0; r < 4; ++r) {
    v_f32 c[4];
    UNROLL for (size_t g = 0; g < 2; ++g) {
      v_f32 p = b[4 * g + r], q = b[4 * g + 8 + r];
      c[g] = SHUFFLE(p, q, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
      c[g + 2] = SHUFFLE(p, q, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
    UNROLL for (size_t g = 0; g < 4; g += 2) {
      a[4 * g + r] =
          SHUFFLE(c[g], c[g + 1], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
      a[4 * g + 4 + r] =
          SHUFFLE(c[g], c[g + 1], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  }
}
INLINE v_f64 fold_f64(v_f64 *a) {
  UNROLL for (size_t i = 0; i < 4; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  UNROLL for (size_t i = 0; i < 2; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13) +
           SHUFFLE(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return SHUFFLE(a[0], a[1], 0, 8, 2, 10, 4, 12, 6, 14) +
         SHUFFLE(a[0], a[1], 1, 9, 3, 11, 5, 13, 7, 15);
}
INLINE v_f32 fold_f32(v_f32 *a) {
  UNROLL for (size_t i = 0; i < 8; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           SHUFFLE(a[i], a[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  UNROLL for (size_t i = 0; i < 4; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
           SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  }
  UNROLL for (size_t i = 0; i < 2; ++i) {
    v_f32 p = a[2 * i], q = a[2 * i + 1];
    a[i] = SHUFFLE(p, q, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           SHUFFLE(p, q, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  return SHUFFLE(a[0], a[1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         SHUFFLE(a[0], a[1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
#elif VECTOR_BYTES == 32
INLINE void transpose_f64(v_f64 *a) {
  v_f64 p = SHUFFLE(a[0], a[1], 0, 4, 2, 6), q = SHUFFLE(a[0], a[1], 1, 5, 3, 7);
  v_f64 r = SHUFFLE(a[2], a[3], 0, 4, 2, 6), s = SHUFFLE(a[2], a[3], 1, 5, 3, 7);
  a[0] = SHUFFLE(p, r, 0, 1, 4, 5), a[1] = SHUFFLE(q, s, 0, 1, 4, 5);
  a[2] = SHUFFLE(p, r, 2, 3, 6, 7), a[3] = SHUFFLE(q, s, 2, 3, 6, 7);
}
INLINE void transpose_f32(v_f32 *a) {
  v_f32 b[8], c[8];
  UNROLL for (size_t i = 0; i < 8; i += 2) {
    b[i] = SHUFFLE(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = SHUFFLE(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  UNROLL for (size_t i = 0; i < 8; i += 4) {
    UNROLL for (size_t j = 0; j < 2; ++j) {
      c[i + 2 * j] = SHUFFLE(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      c[i + 2 * j + 1] = SHUFFLE(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  UNROLL for (size_t i = 0; i < 4; ++i) {
    a[i] = SHUFFLE(c[i], c[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    a[i + 4] = SHUFFLE(c[i], c[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
INLINE v_f64 fold_f64(v_f64 *a) {
  UNROLL for (size_t i = 0; i < 2; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 2], 0, 1, 4, 5) + SHUFFLE(a[i], a[i + 2], 2, 3, 6, 7);
  }
  return SHUFFLE(a[0], a[1], 0, 4, 2, 6) + SHUFFLE(a[0], a[1], 1, 5, 3, 7);
}
INLINE v_f32 fold_f32(v_f32 *a) {
  UNROLL for (size_t i = 0; i < 4; ++i) {
    a[i] = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  UNROLL for (size_t i = 0; i < 2; ++i) {
    v_f32 p = a[2 * i], q = a[2 * i + 1];
    a[i] = SHUFFLE(p, q, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLE(p, q, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return SHUFFLE(a[0], a[1], 0, 2, 8, 10, 4, 6, 12, 14) +
         SHUFFLE(a[0], a[1], 1, 3, 9, 11, 5, 7, 13, 15);
}
#else
INLINE void transpose_f64(v_f64 *a) {
  v_f64 p = SHUFFLE(a[0], a[1], 0, 2);
  a[1] = SHUFFLE(a[0], a[1], 1, 3), a[0] = p;
}
INLINE void transpose_f32(v_f32 *a) {
  v_f32 p = SHUFFLE(a[0], a[1], 0, 4, 1, 5), q = SHUFFLE(a[0], a[1], 2, 6, 3, 7);
  v_f32 r = SHUFFLE(a[2], a[3], 0, 4, 1, 5), s = SHUFFLE(a[2], a[3], 2, 6, 3, 7);
  a[0] = SHUFFLE(p, r, 0, 1, 4, 5), a[1] = SHUFFLE(p, r, 2, 3, 6, 7);
  a[2] = SHUFFLE(q, s, 0, 1, 4, 5), a[3] = SHUFFLE(q, s, 2, 3, 6, 7);
}
INLINE v_f64 fold_f64(v_f64 *a) { return SHUFFLE(a[0], a[1], 0, 2) + SHUFFLE(a[0], a[1], 1, 3); }
INLINE v_f32 fold_f32(v_f32 *a) {
  UNROLL for (size_t i = 0; i < 2; ++i) {
    v_f32 p = a[2 * i], q = a[2 * i + 1];
    a[i] = SHUFFLE(p, q, 0, 1, 4, 5) + SHUFFLE(p, q, 2, 3, 6, 7);
  }
  return SHUFFLE(a[0], a[1], 0, 2, 4, 6) + SHUFFLE(a[0], a[1], 1, 3, 5, 7);
}
#endif

/* What kernels_gemm.c and kernels_sum.c give to the tables in kernels_map.c. */
#define DECLARE_KERNELS(dtype)                                                                     \
  extern const tn_kernels JOIN3(tn_kernels, dtype, TN_ISA);                                        \
  void JOIN3(tn_lin, dtype, TN_ISA)(size_t panels, size_t k, size_t n, const void *w, size_t wk,   \
                                    size_t wn, const void *bias, const void *h, void *y);          \
  void JOIN3(tn_lin_rows, dtype, TN_ISA)(size_t m, size_t k, size_t n, const void *w, size_t wk,   \
                                         size_t wn, const void *bias, const void *h, void *y);     \
  void JOIN3(tn_outer_lanes, dtype, TN_ISA)(const tn_outer *o, size_t first, size_t panels,        \
                                            size_t valid, void *sum);                              \
  void JOIN3(tn_outer_points, dtype, TN_ISA)(const tn_outer *o, size_t first, size_t panels,       \
                                             size_t valid, void *sum);                             \
  void JOIN3(tn_sum_lanes, dtype, TN_ISA)(size_t w, const void *x, size_t first, size_t panels,    \
                                          size_t valid, void *sum);                                \
  void JOIN3(tn_add_to, dtype, TN_ISA)(size_t n, void *y, const void *x);                          \
  void JOIN3(tn_pack, dtype, TN_ISA)(size_t rows, size_t w, const void *x, void *y);               \
  void JOIN3(tn_unpack, dtype, TN_ISA)(size_t rows, size_t w, const void *x, void *y)
DECLARE_KERNELS(f64);
DECLARE_KERNELS(f32);

#endif
