/* vector.c: dot products and vector updates with reproducible bits.
 *
 * A training run must give the same numbers on 1 or 16 threads and on a machine with or without
 * AVX-512. BLAS promises neither: its kernels differ by instruction set and split sums by thread.
 * So every sum here has one tree, written out. A block of 256 entries is summed in 8 lanes, lane l
 * taking the entries l, l + 8, l + 16, ..., and the lanes are added as ((0+4)+(2+6)) +
 * ((1+5)+(3+7)); a compiler may put the lanes into vector registers of any width without changing a
 * bit, because the build forbids contraction to FMA. Block sums are added pairwise: like a binary
 * counter, partial[k] holds the sum of 2^k blocks and a new block carries upward. The error is at
 * most (32 + 3 + log2(n/256)) u sum |x_i y_i|, against n u for a plain loop, and n = 1e5 costs
 * about 30 us, which is nothing beside a gradient.
 *
 * The scalar functions serve step-length rules and learning rates only: a few operations a step.
 */
#include "pinn/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 8, BLOCK = 256, LEVELS = 64 };

/* sum over count <= BLOCK entries. */
static double block_dot(size_t count, const double *x, const double *y) {
  double lane[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (size_t l = 0; l < LANES; ++l)
      lane[l] += x[i + l] * y[i + l];
  for (size_t l = 0; i + l < count; ++l)
    lane[l] += x[i + l] * y[i + l];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* The pairwise sum of block sums. */
typedef struct {
  double partial[LEVELS]; /* partial[k]: a sum of 2^k blocks, if bit k of `blocks` is set */
  size_t blocks;
} tree;

static void tree_add(tree *t, double sum) {
  size_t k = 0;
  for (; t->blocks >> k & 1; ++k)
    sum = t->partial[k] + sum;
  t->partial[k] = sum;
  t->blocks += 1;
}

static double tree_total(const tree *t) {
  double total = 0;
  for (size_t k = 0; k < LEVELS && t->blocks >> k; ++k)
    if (t->blocks >> k & 1)
      total = t->partial[k] + total;
  return total;
}

double pn_dot(size_t n, const double *x, const double *y) {
  tree t;
  t.blocks = 0;
  for (size_t i = 0; i < n; i += BLOCK)
    tree_add(&t, block_dot(n - i < BLOCK ? n - i : BLOCK, x + i, y + i));
  return tree_total(&t);
}

double pn_norm_max(size_t n, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; ++i) {
    const double size = fabs(x[i]);
    if (!(size <= most))
      most = size; /* a NaN enters ... */
    if (isnan(most))
      return most; /* ... and stays */
  }
  return most;
}

/* Squares of entries far from 1 are lost below 2^-1022 and overflow above 2^1024. Only then are the
 * entries scaled, by a power of two, so that ordinary vectors take one pass and the bits are those
 * of sqrt(x'x). */
double pn_norm(size_t n, const double *x) {
  const double square = pn_dot(n, x, x);
  if (square > 0x1p-900 && square < INFINITY)
    return sqrt(square);
  const double most = pn_norm_max(n, x);
  if (!(most > 0 && most < INFINITY))
    return most;
  int exponent = 0;
  (void)frexp(most, &exponent);
  tree t;
  t.blocks = 0;
  double scaled[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t count = n - i < BLOCK ? n - i : BLOCK;
    for (size_t j = 0; j < count; ++j)
      scaled[j] = ldexp(x[i + j], -exponent);
    tree_add(&t, block_dot(count, scaled, scaled));
  }
  return ldexp(sqrt(tree_total(&t)), exponent);
}

bool pn_all_finite(size_t n, const double *x) {
  for (size_t i = 0; i < n; ++i)
    if (!isfinite(x[i]))
      return false;
  return true;
}

void pn_axpy(size_t n, double a, const double *x, double *y) {
  for (size_t i = 0; i < n; ++i)
    y[i] += a * x[i];
}

void pn_add_scaled(size_t n, const double *x, double a, const double *p, double *out) {
  for (size_t i = 0; i < n; ++i)
    out[i] = x[i] + a * p[i];
}

void pn_subtract(size_t n, const double *x, const double *y, double *out) {
  for (size_t i = 0; i < n; ++i)
    out[i] = x[i] - y[i];
}

void pn_scale(size_t n, double a, double *x) {
  for (size_t i = 0; i < n; ++i)
    x[i] *= a;
}

void pn_copy(size_t n, const double *from, double *to) {
  if (n > 0)
    memcpy(to, from, n * sizeof *to);
}

/* ---- Scalar functions without libm (frexp, ldexp, floor, sqrt are exact or rounded once) ----- */

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(z), z = (m - 1) / (m + 1), |z| < 0.1716;
 * the series in z^2 is cut after z^23: the rest is below 0.1716^24 / 25 < 2e-20. */
double pn_log2(double x) {
  int e = 0;
  double m = frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    e -= 1;
  }
  const double z = (m - 1) / (m + 1), zz = z * z;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2)
    sum = sum * zz + 1.0 / k;
  return (double)e + 2 * z * sum * 1.4426950408889634;
}

/* 2^x = 2^k e^t with k = floor(x + 1/2), t = (x - k) ln 2, |t| < 0.347; Taylor to t^15: the rest is
 * below 0.347^16 / 16! < 3e-21. x - k is exact. */
double pn_exp2(double x) {
  if (isnan(x))
    return x;
  if (x > 1100)
    return INFINITY;
  if (x < -1200)
    return 0;
  const double k = floor(x + 0.5), t = (x - k) * 0.69314718055994531;
  double sum = 1;
  for (int j = 15; j >= 1; --j)
    sum = 1 + sum * t / j;
  return ldexp(sum, (int)k);
}

/* Odd about x = 1/2, so cos(pi x) = sin(pi (1/2 - x)); the sine by Taylor on |y| <= pi/2 to y^23:
 * the rest is below (pi/2)^25 / 25! < 6e-21. 1/2 - x is exact for x >= 1/4 and rounds once below.
 */
double pn_cos_pi(double x) {
  const double y = (0.5 - x) * 3.14159265358979324, yy = y * y;
  double sum = 1;
  for (int j = 22; j >= 2; j -= 2)
    sum = 1 - sum * yy / (j * (j + 1.0));
  return y * sum;
}
