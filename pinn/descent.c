/* descent.c: one line-search step, without the direction.
 *
 * L-BFGS and SSBroyden differ in how they make p from g. Around that both need the same care:
 * evaluate only what is not known already, search, commit theta only when all is well, and
 * recognise the end. Ends, all relative to the loss L:
 *
 *   -a p'g <= (4u)^2 L  With p = -H g and the first trial a, -a p'g / 2 is about the decrease that
 *                       the model predicts. r has rounding errors u |r| at least, so p'g is
 *                       rounding once it is below u^2 |r|^2 = u^2 L; a few units of slack. L itself
 *                       stopped showing changes long before, at u L.
 *   20 quiet steps      The approximate Wolfe condition accepts steps that change L by rounding
 *                       only. They are worth taking for a while, because the gradient still falls;
 *                       not for ever.
 *
 * A loss that is not finite at the incoming theta leaves theta alone and is reported each time, so
 * that a loss scaler can react; after 40 in a row (a scale of 2^40 halved to 1) the method gives
 * up.
 */
#include "pinn/descent.h"

#include "pinn/vector.h"

#include <math.h>

enum { QUIET_MOST = 20, NONFINITE_MOST = 40 };

tn_status pn_descent_init(pn_descent *d, const char *method, size_t n, const pn_wolfe *rule) {
  TN_TRY(pn_wolfe_check(rule, method));
  d->method = method;
  d->n = n;
  d->rule = *rule;
  pn_descent_forget(d);
  double **const vectors[] = {&d->g, &d->p, &d->s, &d->y, &d->x_new, &d->g_new};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i)
    TN_TRY(TN_NEW(n, vectors[i]));
  return TN_OK;
}

void pn_descent_done(pn_descent *d) {
  tn_free(&d->g);
  tn_free(&d->p);
  tn_free(&d->s);
  tn_free(&d->y);
  tn_free(&d->x_new);
  tn_free(&d->g_new);
}

void pn_descent_forget(pn_descent *d) {
  d->known = false;
  d->best = INFINITY;
  d->fall = 0;
  d->quiet = 0;
}

tn_status pn_descent_visit(pn_descent *d, pn_state_visitor *visitor) {
  TN_TRY(pn_visit_flag(visitor, "known", &d->known));
  TN_TRY(visitor->number(visitor, "loss", &d->loss));
  TN_TRY(visitor->number(visitor, "best", &d->best));
  TN_TRY(visitor->number(visitor, "fall", &d->fall));
  TN_TRY(pn_visit_count(visitor, "quiet", QUIET_MOST, &d->quiet));
  TN_TRY(pn_visit_count(visitor, "nonfinite", NONFINITE_MOST, &d->nonfinite));
  return visitor->doubles(visitor, "g", d->n, d->g);
}

tn_status pn_descent_begin(pn_descent *d, pn_objective *f, const double *theta,
                           pn_step_report *report, bool *go) {
  *go = false;
  if (!d->known) {
    report->gradients += 1;
    TN_TRY(pn_objective_gradient(f, theta, &d->loss, d->g));
  }
  report->loss_before = report->loss_after = d->loss;
  report->gradient_norm = pn_norm(d->n, d->g);
  d->known = isfinite(d->loss) && isfinite(report->gradient_norm);
  if (!d->known) {
    report->nonfinite = true;
    if (d->nonfinite < NONFINITE_MOST)
      d->nonfinite += 1;
    pn_report_reason(report, d->nonfinite == NONFINITE_MOST, "loss or gradient is not finite");
    return TN_OK;
  }
  d->nonfinite = 0;
  if (d->best == INFINITY)
    d->best = d->loss;
  if (d->loss == 0)
    pn_report_reason(report, true, "the loss is exactly zero");
  else if (report->gradient_norm == 0)
    pn_report_reason(report, true, "the gradient is exactly zero");
  else
    *go = true;
  return TN_OK;
}

double pn_descent_first(const pn_descent *d, const pn_step_report *report) {
  const double norm = report->gradient_norm; /* > 0 */
  const double length = d->loss > 0 && 2 * d->loss < norm ? 2 * d->loss / norm : 1;
  return length / norm < d->rule.maximum ? length / norm : d->rule.maximum;
}

double pn_descent_trial(const pn_descent *d, double slope) {
  if (!(d->fall > d->rule.noise * fabs(d->loss)))
    return 1;
  const double alpha = 2.02 * d->fall / -slope;
  return alpha < 0.1 ? 0.1 : alpha < 1 ? alpha : 1; /* NaN: 1 */
}

static void swap(double **a, double **b) {
  double *const kept = *a;
  *a = *b;
  *b = kept;
}

tn_status pn_descent_search(pn_descent *d, pn_objective *f, double *theta, double first,
                            pn_step_report *report, pn_search_result *result) {
  const double slope = pn_dot(d->n, d->p, d->g);
  *result = (pn_search_result){PN_SEARCH_FAILED, 0, d->loss, slope, 0, ""};
  if (slope < 0 && -slope * first <= 0x1p-102 * fabs(d->loss)) {
    pn_report_reason(report, true, "gradient at rounding level (float64)");
    return TN_OK;
  }
  d->rule.first = first;
  TN_TRY(pn_linesearch(f, theta, d->p, d->loss, slope, &d->rule, d->x_new, d->g_new, result));
  report->gradients += result->evaluations;
  if (result->outcome == PN_SEARCH_FAILED)
    return TN_OK;
  pn_subtract(d->n, d->x_new, theta, d->s);
  pn_subtract(d->n, d->g_new, d->g, d->y);
  pn_copy(d->n, d->x_new, theta);
  swap(&d->g, &d->g_new);
  d->fall = d->loss - result->loss;
  d->loss = result->loss;
  report->loss_after = result->loss;
  report->step_length = pn_norm(d->n, d->s);
  report->accepted = true;
  d->quiet = d->loss < d->best ? 0 : d->quiet + 1;
  if (d->loss < d->best)
    d->best = d->loss;
  if (d->quiet == QUIET_MOST) {
    d->quiet = 0; /* a loop that goes on regardless is told again */
    pn_report_reason(report, true, "loss at rounding level: no decrease in %d steps", QUIET_MOST);
  }
  return TN_OK;
}
