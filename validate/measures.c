/* measures.c: every figure about one array of results: quantiles beside maxima, norms, condition, and how
 * a running bound compares.
 *
 * An entry whose reference lies below the smallest normal number of its format has no relative error to
 * speak of; it is counted apart, and its share of the norms and of c stays.
 *
 * The condition scale S of an entry is the error that rounding is expected to make in it, over u
 * (vd_running_expect): what each rounding on the way does to the result to first order, joined as
 * independent errors are. A scale of absolute values (replay.c) would do for an operation; through many
 * layers it multiplies norms of |W| and says nothing any more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "validate/measures.h"

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double vd_quantile(size_t n, double *values, double q) {
  if (n == 0)
    return 0;
  qsort(values, n, sizeof *values, ascending);
  size_t i = (size_t)ceil(q * (double)n);
  return values[i > 0 ? i - 1 : 0];
}

/* The smallest normal number. */
static double smallest_of(tn_dtype dtype) {
  return dtype == TN_F16 ? 0x1p-14 : dtype == TN_F64 ? 0x1p-1022 : 0x1p-126;
}

typedef struct columns {
  double *relative, *c, *ulp, *ratio; /* room for n each */
  size_t n_relative, n_ratio;
} columns;

static void add_entry(const vd_compared *x, size_t i, columns *k, vd_figures *f, double sums[3]) {
  mpfr_srcptr r = vd_replay_at(x->replay, x->node, x->port, i);
  double scale = fmax(x->expected[i] / x->u, smallest_of(x->dtype)), value = x->values[i];
  double error = vd_abs_error(value, r), size = fabs(mpfr_get_d(r, MPFR_RNDN));
  k->c[i] = error / x->u / scale;
  if (k->c[i] > f->c_max || i == 0) {
    f->c_max = k->c[i];
    f->at = i;
  }
  if (size < smallest_of(x->dtype)) {
    ++f->below_normal;
  } else {
    k->ulp[k->n_relative] = vd_ulp_error(x->dtype, value, r);
    k->relative[k->n_relative++] = vd_rel_error(value, r);
  }
  f->sign_flips += value != 0 && !mpfr_zero_p(r) && (value < 0) != (mpfr_sgn(r) < 0);
  f->false_zeros += value == 0 && size > 0;
  f->error_inf = fmax(f->error_inf, error);
  f->reference_inf = fmax(f->reference_inf, size);
  sums[0] += error * error;
  sums[1] += size * size;
  sums[2] += scale * scale;
  double bound = x->bounds[i];
  f->misses += !(bound >= error);
  if (error > 0)
    k->ratio[k->n_ratio++] = bound / error;
}

static void summarise(const vd_compared *x, columns *k, vd_figures *f, const double sums[3]) {
  f->error2 = sqrt(sums[0]);
  f->reference2 = sqrt(sums[1]);
  f->norm2 = f->reference2 > 0 ? f->error2 / f->reference2 : f->error2;
  f->norm_inf = f->reference_inf > 0 ? f->error_inf / f->reference_inf : f->error_inf;
  f->kappa = sums[1] > 0 ? fmax(1, sqrt(sums[2] / sums[1])) : 1;
  f->expected2 = x->u * sqrt(sums[2]);
  f->c_p99 = vd_quantile(x->n, k->c, 0.99);
  f->rel_median = vd_quantile(k->n_relative, k->relative, 0.5);
  f->rel_p99 = vd_quantile(k->n_relative, k->relative, 0.99);
  f->rel_max = k->n_relative > 0 ? k->relative[k->n_relative - 1] : 0;
  f->ulp_p99 = vd_quantile(k->n_relative, k->ulp, 0.99);
  f->ulp_max = k->n_relative > 0 ? k->ulp[k->n_relative - 1] : 0;
  f->ratio = vd_quantile(k->n_ratio, k->ratio, 0.5);
}

tn_status vd_figures_of(const vd_compared *x, double *c, vd_figures *out) {
  double *room = NULL, sums[3] = {0};
  *out = (vd_figures){.n = x->n};
  TN_TRY(TN_NEW(4 * x->n, &room));
  columns k = {room, room + x->n, room + 2 * x->n, room + 3 * x->n, 0, 0};
  for (size_t i = 0; i < x->n; ++i)
    add_entry(x, i, &k, out, sums);
  if (c)
    memcpy(c, k.c, x->n * sizeof *c);
  summarise(x, &k, out, sums);
  tn_free(&room);
  return TN_OK;
}
