/* rng.c: random numbers as a function of (seed, stream name, index).
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011) is
 * a bijection of a 128-bit counter under a 64-bit key: ten rounds of two 32 x 32 -> 64 bit
 * products. Here the counter is (index, 0) and the key stands for the stream, so there is no state:
 * any value can be had in any order, by any thread, after any restart.
 *
 *     key     = mix(mix(seed) ^ mix(FNV-1a(name))), mix a bijection of 64 bits: for one name,
 *               different seeds give different keys; otherwise two streams coincide with
 *               probability 2^-64
 *     uniform = (2 k + 1) 2^-53 with 52 random bits k: an odd multiple, exact, never 0 or 1, and as
 *               likely as 1 - uniform. (53 random bits and half a step more would round to 1 at the
 *               upper end.)
 *     normal  = the quantile of the normal distribution at uniform, so one index gives one value
 *
 * Quantile. With q = u - 1/2 and p = min(u, 1 - u), both exact:
 *
 *     |q| <= 0.425:  x = q R(0.425^2 - q^2)
 *     otherwise:    |x| = S(r - 2.25),  r = sqrt(-2 log p), 2.275 < r <= 8.572
 *
 * R and S are rational functions of degrees 7 over 7, fitted for this file to quantiles of 60
 * digits by weighted linear least squares at Chebyshev points; the fits are off by 8e-17
 * and 2.1e-16, relatively. The arguments are >= 0 and so are all coefficients: nothing cancels.
 * With rounding the relative error of x is below 1e-15 (largest in 6000 comparisons with 40 digits,
 * over all magnitudes of p: 7.1e-16). Only + - * / and sqrt occur, the logarithm is ours: the bits
 * do not depend on the C library.
 * x(1 - u) = -x(u) exactly, and |x| <= 8.21.
 */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- Philox ---------------------------------------------------------------------------------- */

enum { ROUNDS = 10 };

static void philox(uint32_t c[4], const uint32_t key[2]) {
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < ROUNDS; ++round) {
    uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)a;
    k0 += UINT32_C(0x9E3779B9); /* the golden ratio */
    k1 += UINT32_C(0xBB67AE85); /* sqrt(3) - 1 */
  }
}

uint64_t tn_random_bits(tn_stream stream, uint64_t index) {
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
  philox(c, stream.key);
  return (uint64_t)c[1] << 32 | c[0];
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* The output function of SplitMix64 (Steele, Lea, Flood 2014), with its increment so that 0 moves.
 */
static uint64_t mix(uint64_t z) {
  z += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

static uint64_t fnv1a(const char *text) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (; text && *text; ++text)
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
  return hash;
}

tn_stream tn_stream_of(uint64_t seed, const char *name) {
  uint64_t key = mix(mix(seed) ^ mix(fnv1a(name)));
  return (tn_stream){{(uint32_t)key, (uint32_t)(key >> 32)}};
}

/* ---- Distributions --------------------------------------------------------------------------- */

double tn_random_uniform(tn_stream stream, uint64_t index) {
  return ((double)(tn_random_bits(stream, index) >> 12) + 0.5) * 0x1p-52;
}

enum { DEGREE = 7 };

typedef struct {
  double top[DEGREE + 1], bottom[DEGREE + 1]; /* coefficients of 1, t, t^2, ... */
} rational;

static const rational central = {
    {3.3871328727963665, 132.97557689143136, 1966.1728987199363, 13669.059899841042,
     45611.950304746621, 66635.352962920588, 33014.173262695287, 2468.9441911518456},
    {1, 42.264294833629158, 685.44004391403269, 5371.5358729838626, 21082.491480227454,
     38971.527673366145, 28403.528154082887, 5150.7074694392631},
};

static const rational tail = {
    {1.4080407040990783, 3.3742027871289881, 3.1361637067681349, 1.4934026109347174,
     0.39245602933521911, 0.05579617503126931, 0.00382754264175157, 9.197458535286958e-05},
    {1, 1.5376433042783235, 0.95113342069865414, 0.29761239435262954, 0.048138231052613313,
     0.0036221327720573826, 9.1961005157651157e-05, 9.8150117278009705e-11},
};

static double ratio(const rational *f, double t) {
  double top = f->top[DEGREE], bottom = f->bottom[DEGREE];
  for (int i = DEGREE - 1; i >= 0; --i) {
    top = top * t + f->top[i];
    bottom = bottom * t + f->bottom[i];
  }
  return top / bottom;
}

/* log p of a normal double p in (0, 1/2): p = m 2^e with m in (0.7, 1.41], and
 * log m = 2 atanh s = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.18. The first
 * term left out is s^24/25 < 1e-19 of the sum. */
static double log_of(double p) {
  const double ln2 = 0x1.62e42fefa39efp-1;
  uint64_t bits;
  memcpy(&bits, &p, sizeof bits);
  int e = (int)(bits >> 52) - 1023;
  bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
  double m;
  memcpy(&m, &bits, sizeof m); /* in [1, 2) */
  if (m > 1.41) {
    m *= 0.5;
    e += 1;
  }
  double s = (m - 1) / (m + 1), z = s * s, sum = 0;
  for (int k = 11; k >= 1; --k)
    sum = (sum + 1.0 / (2 * k + 1)) * z;
  return e * ln2 + 2 * (s + s * sum);
}

static double quantile(double u) {
  double q = u - 0.5;
  if (q >= -0.425 && q <= 0.425)
    return q * ratio(&central, 0.180625 - q * q);
  double p = q < 0 ? u : 1 - u;
  double x = ratio(&tail, sqrt(-2 * log_of(p)) - 2.25);
  return q < 0 ? -x : x;
}

double tn_random_normal(tn_stream stream, uint64_t index) {
  return quantile(tn_random_uniform(stream, index));
}
