/* peak.h: the loops behind tn_peak_fma and tn_peak_bytes, one table an instruction set (kernels_peak.c). */
#ifndef TENSOR_PEAK_H
#define TENSOR_PEAK_H

#include <stddef.h>

typedef struct tn_peak_loops {
  size_t chains[2], lanes[2]; /* f64, f32: FMAs of one round are chains * lanes */
  /* rounds times one FMA on each chain, each waiting for the chain's last; the sum of the chains, so that they
   * are computed. */
  double (*fma[2])(size_t rounds);
  /* n doubles, n a multiple of 64: adds them up; sets them to k; a = b + k c. */
  double (*read)(size_t n, const double *a);
  void (*write)(size_t n, double *a, double k);
  void (*triad)(size_t n, double *a, const double *b, const double *c, double k);
} tn_peak_loops;

#endif
