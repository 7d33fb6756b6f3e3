/* metrics.h: is the answer good? Errors against exact solutions and residuals on points that were
 * never trained. Inside pinn/ only.
 */
#ifndef PINN_METRICS_H
#define PINN_METRICS_H

#include "pinn/objective.h"

/* Error of one unknown. Without an exact solution known = false, rel_l2 and linf are NaN, and rms
 * and the range are filled. */
typedef struct pn_field_error {
  bool known;
  double rel_l2; /* |u - exact| / |exact| in L2; absolute if exact is 0 everywhere */
  double linf;   /* max |u - exact| */
  double place
      [PN_MAX_COORDINATES]; /* of linf, all coordinates of the problem; NaN if u has no such one */
  double error_square, size_square; /* sums that rel_l2 is made of; of a complex unknown both parts' */
  double rms, lowest, highest; /* of u itself */
  double accept;               /* NaN: none asked */
  bool accepted;               /* true if none is asked */
} pn_field_error;

/* Residual of one term on fresh points. For a condition met by construction it is rounding. */
typedef struct pn_term_check {
  double relative; /* rms of F over the size of its own terms, the worst relation */
  double rms;      /* of F in units of the file, of that relation */
  double worst;    /* largest |F| there */
  double place[PN_MAX_COORDINATES];
  double noise;  /* with sigma: sqrt of the mean of (F / sigma_i)^2; else NaN */
  double limit;  /* of relative: accept.residual, or accept of a check; NaN: none */
  bool accepted; /* relative <= limit */
} pn_term_check;

typedef struct pn_metrics pn_metrics;

/* A grid (1 or 2 coordinates) or Sobol points for every unknown, and validation points 4 times as
 * many as trained, of the same sites; for conditions met by construction 4 times as many as they
 * would have. The scopes and their sites are borrowed; the model may be of any dtype. */
tn_status pn_metrics_new(pn_scopes *scopes, uint64_t seed, tn_pool *pool,
                         pn_metrics **out) TN_MUST_USE;
void pn_metrics_free(pn_metrics **metrics);
/* errors[problem->n_unknowns]; forward only. */
tn_status pn_metrics_fields(pn_metrics *metrics, const double *theta,
                            pn_field_error *errors) TN_MUST_USE;
/* How many terms are looked at, and which: those of the sites, then the conditions met by construction,
 * then the checks, in the order of the file. */
size_t pn_metrics_count(const pn_metrics *metrics);
const pn_term *pn_metrics_term(const pn_metrics *metrics, size_t m);
/* checks[pn_metrics_count]. The field errors of the same theta give the sizes of the unknowns. */
tn_status pn_metrics_terms(pn_metrics *metrics, const double *theta, const pn_field_error *errors,
                           pn_term_check *checks) TN_MUST_USE;
/* The grid of one unknown, for pictures and files: axes[j] values along each of its n_of
 * coordinates and how many; 0 if it is no grid (3 coordinates and more). */
size_t pn_metrics_grid(const pn_metrics *metrics, size_t unknown, size_t extent[2]);

#endif
