/* train_causal.c: later times count once earlier ones are solved (Wang, Sankaran and Perdikaris 2024).
 *
 *   w_k = exp(-eps * sum over j < k of L_j),   L_j the mean square residual, over its scale, in chunk j of the time
 *
 * eps climbs the ladder 0.01, 0.1, 1, 10, 100 by a rung whenever all w_k are above 0.99: then the residuals are small
 * for this eps, and a stricter one is due. Weights are held between updates: at the start of each stage, every
 * hundredth of `refine_every` steps of a method with a rate, every 10 steps of one whose steps are long, every
 * `refine_every` steps of the others; those are told that the function they minimise has changed.
 */
#include <math.h>

#include "pinn/train_inside.h"

static const double ladder[] = {1e-2, 1e-1, 1, 10, 100};
enum { RUNGS = sizeof ladder / sizeof *ladder, LONG_STEPS = 10 };
static const double solved = 0.99;

tn_status pn_causal_new(pn_training *t) {
  if (!t->problem->causal)
    return TN_OK;
  TN_TRY(TN_NEW(t->problem->chunks, &t->causal));
  for (size_t k = 0; k < t->problem->chunks; ++k)
    t->causal[k] = 1;
  return TN_OK;
}

tn_status pn_causal_update(pn_training *t) {
  double *sums = NULL, before = 0;
  bool finite = true;
  size_t n = t->problem->chunks;
  if (!t->causal)
    return TN_OK;
  TN_TRY(TN_NEW(n, &sums));
  tn_status status = pn_causal_losses(t->loss, t->theta, sums);
  for (size_t k = 0; k < n; ++k)
    finite = finite && isfinite(sums[k]);
  for (size_t k = 0; status == TN_OK && finite && k < n; ++k) {
    t->causal[k] = exp(-ladder[t->causal_level] * before);
    before += sums[k];
  }
  tn_free(&sums);
  TN_TRY(status);
  if (t->causal[n - 1] > solved && t->causal_level + 1 < RUNGS)
    ++t->causal_level;
  return pn_training_apply(t);
}

tn_status pn_causal_step(pn_training *t) {
  const pn_plan_stage *stage = &t->plan.stages[t->stage];
  unsigned flags = stage->class_->flags;
  size_t every = stage->stage.refine_every;
  if (!t->causal || t->stage_step == 0)
    return TN_OK;
  if (flags & PN_OPT_COSTLY)
    every = LONG_STEPS;
  else if (flags & PN_OPT_RATE)
    every = every / 100 ? every / 100 : 1;
  if (every == 0 || t->stage_step % every != 0)
    return TN_OK;
  TN_TRY(pn_training_apply(t)); /* all points, if batches are used */
  TN_TRY(pn_causal_update(t));
  return pn_opt_resampled(t->opt);
}

tn_status pn_causal_visit(pn_training *t, pn_state_visitor *v) {
  if (!t->causal)
    return TN_OK;
  TN_TRY(pn_visit_count(v, "causal.level", RUNGS - 1, &t->causal_level));
  return v->doubles(v, "causal.weight", t->problem->chunks, t->causal);
}
