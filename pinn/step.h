/* step.h: the training step of a problem by itself, for measuring. Inside pinn/ only.
 *
 * The public part (pn_step_new, ...) is in pinn.h.
 */
#ifndef PINN_STEP_H
#define PINN_STEP_H

#include "pinn/objective.h"
#include "pinn/pinn.h"

struct pn_step {
  pn_problem *problem; /* borrowed, as pool */
  tn_pool *pool;
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  pn_loss *loss;
  double *theta;
  size_t points; /* of all sites together, those of means included */
};

/* The same with at most `most` points on each site (0: no limit). *wanted: points without the limit. */
tn_status pn_step_limited(pn_problem *problem, tn_pool *pool, const pn_step_options *options,
                          size_t most, size_t *wanted, pn_step **out) TN_MUST_USE;

#endif
