/* lhs.c: Latin hypercubes: along every axis the n points stand in the n parts of equal length in a random order, each
 * anywhere in its part. The orders are those of Fisher and Yates with numbers of the stream. */
#include "pinn/samplers.h"

enum { MOST = 16 };

tn_status pn_latin(size_t dimensions, tn_stream stream, uint64_t first, size_t n, double *points) {
  size_t *order = NULL;
  if (dimensions == 0 || dimensions > MOST)
    return TN_FAIL(TN_ERANGE, "lhs: %zu dimensions, expected 1 to %d", dimensions, (int)MOST);
  TN_TRY(TN_NEW(n, &order));
  for (size_t j = 0; j < dimensions; ++j) {
    for (size_t i = 0; i < n; ++i) {
      const uint64_t at = ((first + i) * MOST + j) * 2;
      const size_t other = (size_t)(tn_random_bits(stream, at) % (i + 1));
      order[i] = order[other];
      order[other] = i;
    }
    for (size_t i = 0; i < n; ++i) {
      const double within = tn_random_uniform(stream, ((first + i) * MOST + j) * 2 + 1);
      points[i * dimensions + j] = ((double)order[i] + within) / (double)n;
    }
  }
  tn_free(&order);
  return TN_OK;
}
