/* measures.h: every figure about one array of results. Inside validate/. */
#ifndef VALIDATE_MEASURES_H
#define VALIDATE_MEASURES_H

#include "validate/mp.h"

typedef struct vd_figures {
  size_t n, below_normal; /* entries; those with a reference below the smallest normal number, which
                             are in neither ulp nor rel */
  double ulp_max, ulp_p99;
  double rel_median, rel_p99, rel_max; /* of |error / reference| */
  double norm2, norm_inf;              /* relative */
  double c_max, c_p99;                 /* |error| / (u S), S = expected / u */
  double kappa;                        /* ||S|| / ||reference||, at least 1: relative error to expect, over u */
  size_t sign_flips, false_zeros,
      misses;   /* misses: entries whose running bound is below the error */
  double ratio; /* median of running bound / error */
  double error2, reference2, error_inf, reference_inf, expected2; /* norms, not relative */
  size_t at;                                                      /* entry of the largest c */
} vd_figures;

/* A port of a replay beside what the engine found. */
typedef struct vd_compared {
  const vd_replay *replay;
  uint32_t node, port;
  size_t n;
  tn_dtype dtype;         /* of the values */
  double u;               /* of kappa: the largest roundoff on the way to them */
  const double *values;   /* n */
  const double *bounds;   /* n running bounds */
  const double *expected; /* n errors to be expected */
} vd_compared;

/* c: NULL, or room for the c of every entry, in order. */
tn_status vd_figures_of(const vd_compared *compared, double *c, vd_figures *out) TN_MUST_USE;

/* The smallest value that at least a share q of all do not exceed. Sorts the values. */
double vd_quantile(size_t n, double *values, double q);

#endif
