/* plan.c: the stages of a run.
 *
 * A file without stages gets adam, 500 steps at 1e-3 with a cosine to 0, then at most 10 000
 * steps of ssbroyden while its n x n matrix is worth it (n <= 5 000: 200 MB), lbfgs beyond. adam
 * first because a quasi-Newton method from random weights goes to the nearest bad valley; the
 * second stage makes the digits. "auto" in a stage means the same by its position: the first adam,
 * later ones quasi-Newton.
 */
#include <math.h>
#include <string.h>

#include "pinn/train.h"

enum { DENSE_UP_TO = 5000, ADAM_STEPS = 500, NEWTON_STEPS = 10000 };

static const double adam_rate = 1e-3;
static const double adam_share = 0.15; /* of a limit in time; later steps bring more each */

static const char *automatic(size_t i, size_t n_theta) {
  if (i == 0)
    return "adam";
  return n_theta <= DENSE_UP_TO ? "ssbroyden" : "lbfgs";
}

static tn_status decide(const pn_problem *problem, size_t i, size_t n_theta, pn_plan_stage *out) {
  pn_stage *s = &out->stage;
  bool standard = problem->n_stages == 0;
  if (!s->optimizer || strcmp(s->optimizer, "auto") == 0)
    s->optimizer = automatic(i, n_theta);
  TN_TRY(pn_opt_find(s->optimizer, &out->class_));
  if ((out->class_->flags & PN_OPT_F64) && s->precision && strcmp(s->precision, "f64") != 0)
    return pn_fail_at(
        TN_EINPUT, s->place, 1,
        "%s works in f64 only, and this stage computes in %s; set precision = \"f64\" "
        "in it",
        s->optimizer, s->precision);
  if ((out->class_->flags & PN_OPT_COSTLY) && n_theta > PN_OPT_COSTLY_MOST)
    return pn_fail_at(TN_EINPUT, s->place, 1,
                      "%s takes up to %d weights, and the networks have %zu; use ssbroyden or lbfgs",
                      s->optimizer, (int)PN_OPT_COSTLY_MOST, n_theta);
  const bool asked[] = {s->clip > 0, !isnan(s->decay)};
  const char *const key[] = {"clip", "decay"};
  for (size_t k = 0; k < 2; ++k)
    if (asked[k] && !pn_opt_option(out->class_, key[k]))
      return pn_fail_at(TN_EINPUT, s->place, 1, "%s has no `%s`", s->optimizer, key[k]);
  bool has_rate = out->class_->flags & PN_OPT_RATE;
  if (s->steps == 0)
    s->steps = has_rate ? ADAM_STEPS : NEWTON_STEPS;
  if (has_rate && isnan(s->rate))
    s->rate = adam_rate;
  if (standard && has_rate)
    s->schedule = "cosine";
  if (s->refine_every == 0)
    s->refine_every = problem->points.every ? problem->points.every : 500;
  if (s->memory == 0)
    s->memory = 50;
  out->schedule = (pn_schedule){.kind = PN_CONSTANT, .rate = has_rate ? s->rate : 1};
  if (!has_rate)
    return TN_OK;
  TN_TRY(pn_schedule_of_name(s->schedule, &out->schedule.kind));
  out->schedule.warmup = s->warmup;
  out->schedule.steps = s->steps;
  out->schedule.half_life = isnan(s->half_life) ? (double)s->steps / 7 : s->half_life;
  return pn_schedule_check(&out->schedule);
}

tn_status pn_plan_new(const pn_problem *problem, size_t n_theta, pn_plan *out) {
  *out =
      (pn_plan){.n = problem->n_stages ? problem->n_stages : 2, .standard = problem->n_stages == 0};
  TN_TRY(TN_NEW(out->n, &out->stages));
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < out->n; ++i) {
    out->stages[i].stage = out->standard ? pn_stage_default() : problem->stages[i];
    if (out->standard)
      out->stages[i].stage.precision = problem->precision;
    status = decide(problem, i, n_theta, &out->stages[i]);
  }
  if (status != TN_OK)
    pn_plan_free(out);
  return status;
}

void pn_plan_limit(pn_plan *plan, double seconds) {
  if (plan->standard && seconds > 0)
    plan->stages[0].stage.seconds = adam_share * seconds;
}

void pn_plan_free(pn_plan *plan) {
  tn_free(&plan->stages);
  plan->n = 0;
}
