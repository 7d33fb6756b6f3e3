/* kernels_vector.h: register-wide vectors for the kernels_*.c files.
 *
 * A vector is as wide as the target's register (32 bytes with AVX2, else 16): gcc makes scalar code of
 * generic vectors that are wider. Lane vectors are 64 bytes on every target, so they are PARTS = 2 or 4
 * vectors. GNU vector types give + - * / and comparisons (all-ones masks); what C lacks is here: FMA, SEL,
 * splat, loads and stores at any alignment.
 *
 * With DTYPE (f64 or f32) and T (double or float) defined by the file that includes it:
 *   V, I, U      vector, vectors of signed (also masks) and unsigned integers of the same width
 *   LANES        elements of V;  PANEL  points of a panel;  PARTS  vectors of a lane vector
 *   F(name)      a file-local name of this dtype;  X(name)  an external one of this dtype and TN_ISA
 *   FMA(a, b, c), SEL(mask, a, b), K(c), KI(c), AS_INT(v), AS_FLOAT(i), load(p), store(p, v)
 */
#include "tensor/kernels.h"

#include <math.h>
#include <string.h>

#ifndef TENSOR_KERNELS_VECTOR_H
#define TENSOR_KERNELS_VECTOR_H

#ifndef TN_ISA
#define TN_ISA base
#endif

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VECTOR_BYTES 32
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

/* Besides the obvious: mask: of bytes that are 0 or not. any: some lane is set.
 * at_most, at_least: x limited by c; a NaN in x stays. */
INLINE double fma1_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
INLINE float fma1_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#if VECTOR_BYTES == 32
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  return (v_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  return (v_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
INLINE v_f64 splat_f64(double c) { return (v_f64){c, c, c, c}; }
INLINE v_f32 splat_f32(float c) { return (v_f32){c, c, c, c, c, c, c, c}; }
INLINE i_f64 splat_i_f64(int64_t c) { return (i_f64){c, c, c, c}; }
INLINE i_f32 splat_i_f32(int32_t c) { return (i_f32){c, c, c, c, c, c, c, c}; }
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
#else
INLINE v_f64 fma_f64(v_f64 a, v_f64 b, v_f64 c) {
  v_f64 y = {__builtin_fma(a[0], b[0], c[0]), __builtin_fma(a[1], b[1], c[1])};
  return y;
}
INLINE v_f32 fma_f32(v_f32 a, v_f32 b, v_f32 c) {
  v_f32 y = {__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]),
             __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])};
  return y;
}
INLINE v_f64 splat_f64(double c) { return (v_f64){c, c}; }
INLINE v_f32 splat_f32(float c) { return (v_f32){c, c, c, c}; }
INLINE i_f64 splat_i_f64(int64_t c) { return (i_f64){c, c}; }
INLINE i_f32 splat_i_f32(int32_t c) { return (i_f32){c, c, c, c}; }
INLINE v_f64 root_f64(v_f64 x) { return (v_f64){__builtin_sqrt(x[0]), __builtin_sqrt(x[1])}; }
INLINE v_f32 root_f32(v_f32 x) {
  return (v_f32){__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]),
                 __builtin_sqrtf(x[3])};
}
INLINE v_f64 select_f64(i_f64 mask, v_f64 a, v_f64 b) {
  return (v_f64)((mask & (i_f64)a) | (~mask & (i_f64)b));
}
INLINE v_f32 select_f32(i_f32 mask, v_f32 a, v_f32 b) {
  return (v_f32)((mask & (i_f32)a) | (~mask & (i_f32)b));
}
INLINE v_f64 at_most_f64(v_f64 x, v_f64 c) { return select_f64(x > c, c, x); }
INLINE v_f32 at_most_f32(v_f32 x, v_f32 c) { return select_f32(x > c, c, x); }
INLINE v_f64 at_least_f64(v_f64 x, v_f64 c) { return select_f64(x < c, c, x); }
INLINE v_f32 at_least_f32(v_f32 x, v_f32 c) { return select_f32(x < c, c, x); }
INLINE i_f64 mask_f64(const uint8_t *bytes) { return (i_f64){-!!bytes[0], -!!bytes[1]}; }
INLINE i_f32 mask_f32(const uint8_t *bytes) {
  return (i_f32){-!!bytes[0], -!!bytes[1], -!!bytes[2], -!!bytes[3]};
}
INLINE bool any_f64(i_f64 mask) { return (mask[0] | mask[1]) != 0; }
INLINE bool any_f32(i_f32 mask) { return (mask[0] | mask[1] | mask[2] | mask[3]) != 0; }
#endif

#define JOIN2_(a, b) a##_##b
#define JOIN2(a, b) JOIN2_(a, b)
#define JOIN3_(a, b, c) a##_##b##_##c
#define JOIN3(a, b, c) JOIN3_(a, b, c)
#define PARTS (TN_LANE_BYTES / VECTOR_BYTES)
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
#define load(p) (*(const JOIN2(m, DTYPE) *)(p))
#define store(p, v) ((void)(*(JOIN2(m, DTYPE) *)(p) = (v)))
#ifdef __clang__ /* a count would be done too late for the accumulators to become registers */
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Square transposition in registers: a[i][l] and a[l][i] change places, i, l < LANES. */
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if VECTOR_BYTES == 32
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
