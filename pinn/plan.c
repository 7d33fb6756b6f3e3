/* plan.c: the stages of a run.
 *
 * A file without stages, in f64 and with a smooth activation, gets lm first while its networks have at
 * most 2 000 weights (net_options.c chooses small ones for it): smooth problems are solved to many digits
 * in tens of steps. What it leaves unsolved goes on with lm on fresh points, then with ssbroyden. All else
 * gets adam, 500 steps at 1e-3 with a cosine to 0, then at most 10 000 steps of ssbroyden while its n x n
 * matrix is worth it (n <= 5 000: 200 MB), lbfgs beyond: adam first because a quasi-Newton method from
 * random weights goes to the nearest bad valley; the second stage makes the digits. "auto" in a stage
 * means adam for the first, quasi-Newton for later ones.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/train.h"

enum { DENSE_UP_TO = 5000, ADAM_STEPS = 500, NEWTON_STEPS = 10000 };
enum { LM_UP_TO = 2000, LM_MOST_POINTS = 16384, LM_STEPS = 120, LM_AGAIN = 100, RESCUE_STEPS = 3000, LM_REFINE = 25, LM_STAGES = 4 };

static const double adam_rate = 1e-3;
static const double adam_share = 0.15; /* of a limit in time; later steps bring more each */

static const char *automatic(size_t i, size_t n_theta, bool pure) {
  if (i == 0 || pure)
    return "adam";
  return n_theta <= DENSE_UP_TO ? "ssbroyden" : "lbfgs";
}

static bool is_pure(const pn_problem *problem, const char *compute) {
  pn_precision p;
  return pn_problem_precision(problem, compute, &p) == TN_OK && p.pure;
}

static tn_status decide_precision(const pn_problem *problem, pn_plan_stage *out) {
  char text[512];
  pn_precision *p = &out->precision;
  if (pn_problem_precision(problem, out->stage.precision, p) == TN_OK) {
    size_t products = problem->numbers.products;
    if (products == 0) /* a line search needs a smooth loss */
      products = out->class_->flags & PN_OPT_KEEPS ? 3 : 1;
    if (pn_precision_low(p) && !p->pure)
      p->products = (unsigned)products;
    return TN_OK;
  }
  snprintf(text, sizeof text, "%s", tn_error_text());
  return pn_fail_at(TN_EINPUT, out->stage.place, 1, "%s", text);
}

static tn_status decide(const pn_problem *problem, size_t i, size_t n_theta, pn_plan_stage *out) {
  pn_stage *s = &out->stage;
  bool standard = problem->n_stages == 0;
  if (!s->optimizer || strcmp(s->optimizer, "auto") == 0)
    s->optimizer = automatic(i, n_theta, is_pure(problem, s->precision));
  TN_TRY(pn_opt_find(s->optimizer, &out->class_));
  TN_TRY(decide_precision(problem, out));
  if ((out->class_->flags & PN_OPT_F64) && out->precision.low != TN_F64)
    return pn_fail_at(
        TN_EINPUT, s->place, 1,
        "%s works in f64 only, and this stage computes in %s; set precision = \"f64\" "
        "in it",
        s->optimizer, s->precision);
  if ((out->class_->flags & PN_OPT_KEEPS) && out->precision.pure)
    return pn_fail_at(
        TN_EINPUT, s->place, 1,
        "%s measures curvature by small changes of weights and gradients, which weights in "
        "%s do not show; set precision.master = \"f64\", or optimizer = \"adam\"",
        s->optimizer, s->precision);
  if ((out->class_->flags & PN_OPT_COSTLY) && n_theta > PN_OPT_COSTLY_MOST)
    return pn_fail_at(
        TN_EINPUT, s->place, 1,
        "%s takes up to %d weights, and the networks have %zu; use ssbroyden or lbfgs",
        s->optimizer, (int)PN_OPT_COSTLY_MOST, n_theta);
  const bool asked[] = {s->clip > 0, s->clip_value > 0, !isnan(s->decay)};
  const char *const key[] = {"clip", "clip_value", "decay"};
  for (size_t k = 0; k < sizeof asked / sizeof *asked; ++k)
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

/* ---- Plans of files without stages ------------------------------------------------------------ */

static bool smooth(const pn_network *n) {
  return strcmp(n->activation, "relu") != 0 && strcmp(n->activation, "relu3") != 0;
}

bool pn_plan_wants_lm(const pn_problem *p) {
  bool ok = p->n_stages == 0 && strcmp(p->numbers.compute, "f64") == 0 &&
            strcmp(p->numbers.master, "f64") == 0 && p->points.batch == 0 &&
            p->points.interior <= LM_MOST_POINTS && smooth(&p->network);
  for (size_t u = 0; ok && u < p->n_unknowns; ++u)
    ok = !p->unknowns[u].network || smooth(p->unknowns[u].network);
  return ok;
}

static const char *method_of(const pn_plan *plan, size_t i) {
  return !plan->lm_first ? "auto" : i + 1 < plan->n ? "lm" : "ssbroyden";
}

static size_t steps_of(const pn_plan *plan, size_t i) {
  if (!plan->lm_first)
    return 0;
  return i == 0 ? LM_STEPS : i + 1 < plan->n ? LM_AGAIN : RESCUE_STEPS;
}

static void lay_out(const pn_problem *problem, size_t n_theta, pn_plan *out) {
  *out = (pn_plan){.n = problem->n_stages, .standard = problem->n_stages == 0};
  if (!out->standard)
    return;
  out->lm_first = n_theta <= LM_UP_TO && pn_plan_wants_lm(problem);
  out->n = out->lm_first ? LM_STAGES + 1 : 2;
}

tn_status pn_plan_new(const pn_problem *problem, size_t n_theta, pn_plan *out) {
  lay_out(problem, n_theta, out);
  TN_TRY(TN_NEW(out->n, &out->stages));
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < out->n; ++i) {
    out->stages[i].stage = out->standard ? pn_stage_default() : problem->stages[i];
    if (out->standard) {
      out->stages[i].stage.precision = problem->numbers.compute;
      out->stages[i].stage.optimizer = method_of(out, i);
      out->stages[i].stage.steps = steps_of(out, i);
      if (out->lm_first && i + 1 < out->n && problem->points.every == 500)
        out->stages[i].stage.refine_every = LM_REFINE;
    }
    status = decide(problem, i, n_theta, &out->stages[i]);
    const pn_precision *p = &out->stages[i].precision, *first = &out->stages[0].precision;
    out->mixed = out->mixed || (status == TN_OK && !pn_precision_equal(p, first));
  }
  if (status != TN_OK)
    pn_plan_free(out);
  return status;
}

void pn_plan_limit(pn_plan *plan, double seconds) {
  if (plan->standard && !plan->lm_first && seconds > 0)
    plan->stages[0].stage.seconds = adam_share * seconds;
}

void pn_plan_free(pn_plan *plan) {
  tn_free(&plan->stages);
  plan->n = 0;
}
