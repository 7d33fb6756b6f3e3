/* rad.c: residual-based adaptive distribution: points where the residual is large.
 *
 *   p_i ~ |r_i|^k / mean |r|^k + c,   k = 1, c = 1        (Wu et al. 2023)
 *
 * drawn without replacement. c keeps half of the points everywhere, so nothing is forgotten. The
 * draw is that of Gumbel: the `count` largest of log p_i + g_i with g_i = -log(-log u_i), u_i
 * counter-based, are a sample without replacement in which the next one is always chosen in
 * proportion to p among those left (Vieira 2014; Kool et al. 2019). So each candidate's key
 * depends on its own number alone.
 */
#include <math.h>
#include <stdlib.h>

#include "pinn/points.h"

typedef struct candidate {
  double key;
  size_t index;
} candidate;

static int by_key(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->key != y->key)
    return x->key > y->key ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int by_index(const void *a, const void *b) {
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return x < y ? -1 : x > y;
}

tn_status pn_rad_choose(size_t n, const double *residual, uint64_t seed, const char *stream,
                        size_t count, size_t *chosen) {
  if (count > n)
    return TN_FAIL(TN_ERANGE, "refinement: %zu points wanted from a pool of %zu", count, n);
  double mean = 0;
  for (size_t i = 0; i < n; ++i)
    mean += isfinite(residual[i]) ? fabs(residual[i]) / (double)n : 0;
  candidate *pool = NULL;
  TN_TRY(TN_NEW(n, &pool));
  tn_stream numbers = tn_stream_of(seed, stream);
  for (size_t i = 0; i < n; ++i) {
    double size = isfinite(residual[i]) && mean > 0 ? fabs(residual[i]) / mean : 0;
    pool[i].index = i;
    pool[i].key = log(size + 1) - log(-log(tn_random_uniform(numbers, i)));
  }
  qsort(pool, n, sizeof *pool, by_key);
  for (size_t i = 0; i < count; ++i)
    chosen[i] = pool[i].index;
  qsort(chosen, count, sizeof *chosen, by_index);
  tn_free(&pool);
  return TN_OK;
}
