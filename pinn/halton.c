/* halton.c: Halton's sequence with shifted digits.
 *
 *   x_j(i) = sum_k ((d_k(i) + s_jk) mod p_j) p_j^(-k-1) + p_j^(-K) / 2
 *
 * d_k the digits of i in the base p_j, the j-th prime; K digits, so many that p_j^K reaches 2^52. Without shifts the sequence
 * starts in one corner. A shift of each digit makes a point uniform and keeps every stratification of the sequence (one point
 * in each of p^k parts of an axis among p^k in a row from a multiple of p^k). It does not break up the diagonals along which
 * pairs of large primes run for their first points: with many coordinates Sobol points are better.
 */
#include <math.h>

#include "pinn/samplers.h"

enum { MOST = 16, MOST_DIGITS = 52 };

tn_status pn_halton(size_t dimensions, tn_stream stream, uint64_t first, size_t n, double *points) {
  static const unsigned primes[MOST] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
  if (dimensions == 0 || dimensions > MOST)
    return TN_FAIL(TN_ERANGE, "halton: %zu dimensions, expected 1 to %d", dimensions, (int)MOST);
  for (size_t j = 0; j < dimensions; ++j) {
    const uint64_t p = primes[j];
    const size_t digits = (size_t)ceil(MOST_DIGITS / log2((double)p));
    uint64_t shift[MOST_DIGITS];
    for (size_t k = 0; k < digits; ++k)
      shift[k] = tn_random_bits(stream, j * MOST_DIGITS + k) % p;
    for (size_t i = 0; i < n; ++i) {
      uint64_t rest = first + i;
      double x = 0, unit = 1;
      for (size_t k = 0; k < digits; ++k, rest /= p) {
        unit /= (double)p;
        x += (double)((rest % p + shift[k]) % p) * unit;
      }
      x += unit / 2;
      points[i * dimensions + j] = x < 1 ? x : 1 - 0x1p-53;
    }
  }
  return TN_OK;
}
