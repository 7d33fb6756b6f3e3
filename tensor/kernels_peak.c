/* kernels_peak.c: loops that do nothing but what a core does best, to measure the machine by.
 *
 * Arithmetic. A fused multiply-add has a latency of four cycles and two start each cycle on today's cores, so
 * eight independent chains keep the units busy; twelve fit into sixteen registers beside the two factors, and
 * with 32 registers there is room for sixteen (cores with four units). Start values and factors are read from
 * volatile memory: with known numbers a compiler may find the fixed point and compute nothing.
 *
 * Memory. Reading has eight sums in flight, for the same reason; writing and the triad a = b + k c are plain.
 */
#define DTYPE f64
#define T double
#include "tensor/kernels_vector.h"
#include "tensor/peak.h"

enum { CHAINS = VECTOR_BYTES == 32 ? 12 : 16, SUMS = 8 };

#include "tensor/kernels_peak.inc"

static double read_all(size_t n, const double *a) {
  V sum[SUMS];
  UNROLL for (size_t i = 0; i < SUMS; ++i) sum[i] = K(0);
  for (size_t j = 0; j < n; j += SUMS * LANES) {
    UNROLL for (size_t i = 0; i < SUMS; ++i) sum[i] = sum[i] + load(a + j + i * LANES);
  }
  UNROLL for (size_t i = 1; i < SUMS; ++i) sum[0] = sum[0] + sum[i];
  return sum[0][0];
}

static void write_all(size_t n, double *a, double k) {
  V value = K(k);
  for (size_t j = 0; j < n; j += LANES)
    store(a + j, value);
}

static void triad(size_t n, double *a, const double *b, const double *c, double k) {
  V factor = K(k);
  for (size_t j = 0; j < n; j += LANES)
    store(a + j, FMA(factor, load(c + j), load(b + j)));
}

#undef DTYPE
#undef T

#define DTYPE f32
#define T float
#include "tensor/kernels_peak.inc"

extern const tn_peak_loops JOIN2(tn_peak_loops, TN_ISA);
const tn_peak_loops JOIN2(tn_peak_loops,
                          TN_ISA) = {{CHAINS, CHAINS},
                                     {VECTOR_BYTES / sizeof(double), VECTOR_BYTES / sizeof(float)},
                                     {fma_rounds_f64, fma_rounds_f32},
                                     read_all,
                                     write_all,
                                     triad};
