/* train_accept.c: has the run met its aim, and if not, what does the answer look like?
 *
 * Accepted means: every error that `accept.error` limits, and every term's relative residual on
 * points that were never trained. While training, the errors are looked at every record and the
 * residuals only when the errors are met, both with a margin, so that the verdict at the end is
 * the same.
 *
 * Nothing but zero is no answer: where every unknown is 0 beside its size, and no exact solution says that
 * it should be, all residuals are met and nothing is known (an eigenvalue problem without a norm). Such a
 * run has not converged.
 *
 * Detectors, in this order: zero everywhere; a field that does not vary; a field that is tiny beside its own
 * data, most of all away from them; a front that the points miss; a loss that stood still. They name one key
 * to try and are guesses, said as such; that a field is 0 away from its data is said of a run that converged, too.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/train_inside.h"

static const double margin = 0.9; /* of the limits, to end a run early */
static const double well_solved = 1e-5; /* relative residual of every term, where nothing is asked for */

bool pn_training_can_accept(const pn_training *t) {
  bool error = false;
  for (size_t i = 0; i < t->problem->n_parameters; ++i)
    error = error || !isnan(t->problem->parameters[i].accept);
  for (size_t u = 0; u < t->problem->n_unknowns; ++u)
    error = error || !isnan(t->problem->unknowns[u].accept);
  for (size_t i = 0; i < t->problem->n_checks; ++i)
    error = error || !isnan(t->problem->checks[i].accept);
  return error || t->problem->accept_residual_given;
}

/* Beyond this no known parameter was found, whatever the residuals say. */
static const double wrong_parameter = 0.1;

static void measure_parameters(pn_training *t) {
  for (size_t i = 0; i < t->problem->n_parameters; ++i) {
    const pn_parameter *k = &t->problem->parameters[i];
    pn_parameter_result *r = &t->result.parameters[i];
    *r = (pn_parameter_result){.value = pn_model_parameter(t->main.model, t->theta, i),
                               .error = NAN,
                               .std = NAN,
                               .low = NAN,
                               .high = NAN,
                               .accept = k->accept};
    if (isfinite(k->lo)) {
      double lo = k->log ? log(k->lo) : k->lo, hi = k->log ? log(k->hi) : k->hi;
      double share = ((k->log ? log(r->value) : r->value) - lo) / (hi - lo);
      r->at_bound = fmin(share, 1 - share) < 1e-3;
    }
    if (!isnan(k->exact)) {
      r->error = fabs(r->value - k->exact) / (k->exact != 0 ? fabs(k->exact) : 1);
      r->accept = isnan(k->accept) ? wrong_parameter : k->accept;
    }
    r->accepted = isnan(r->accept) || r->error <= r->accept;
  }
}

static bool errors_within(const pn_training *t, double share) {
  for (size_t i = 0; i < t->problem->n_parameters; ++i) {
    const pn_parameter_result *k = &t->result.parameters[i];
    if (!isnan(k->accept) && !(k->error <= share * k->accept))
      return false;
  }
  for (size_t u = 0; u < t->result.n_fields; ++u) {
    const pn_field_error *e = &t->result.fields[u];
    if (!isnan(e->accept) && !(e->known && e->rel_l2 <= share * e->accept))
      return false;
  }
  return true;
}

static bool terms_within(const pn_training *t, double share) {
  for (size_t m = 0; m < t->result.n_terms + t->result.n_checks; ++m) {
    const pn_term_check *c = &t->result.terms[m];
    if (!isnan(c->limit) && !(c->relative <= share * c->limit))
      return false;
  }
  return true;
}

static bool nothing_but_zero(const pn_training *t);

tn_status pn_training_try(pn_training *t, bool *met) {
  pn_train_result *r = &t->result;
  bool known = false;
  *met = false;
  measure_parameters(t);
  for (size_t u = 0; u < r->n_fields; ++u)
    known = known || t->problem->unknowns[u].exact;
  if (!known && !pn_training_can_accept(t))
    return TN_OK;
  TN_TRY(pn_metrics_fields(t->metrics, t->theta, r->fields));
  for (size_t u = 0; u < r->n_fields; ++u)
    t->error[u] = r->fields[u].known ? r->fields[u].rel_l2 : NAN;
  if (!pn_training_can_accept(t) || !errors_within(t, margin))
    return TN_OK;
  TN_TRY(pn_metrics_terms(t->metrics, t->theta, r->fields, r->terms));
  *met = terms_within(t, margin) && !nothing_but_zero(t);
  return TN_OK;
}

tn_status pn_training_enough(pn_training *t, bool *enough) {
  pn_train_result *r = &t->result;
  *enough = false;
  if (!t->plan.lm_first || pn_training_can_accept(t))
    return TN_OK;
  TN_TRY(pn_metrics_fields(t->metrics, t->theta, r->fields));
  TN_TRY(pn_metrics_terms(t->metrics, t->theta, r->fields, r->terms));
  *enough = true;
  for (size_t m = 0; m < r->n_terms; ++m)
    if (pn_metrics_term(t->metrics, m)->where != PN_DATA) /* of measured points the noise stays */
      *enough = *enough && r->terms[m].relative <= well_solved;
  return TN_OK;
}

/* ---- Detectors ------------------------------------------------------------------------------- */

static void detect_constant(pn_training *t) {
  pn_train_result *r = &t->result;
  for (size_t u = 0; u < r->n_fields && !r->detector[0]; ++u) {
    const pn_field_error *e = &r->fields[u];
    double size = fmax(fmax(fabs(e->lowest), fabs(e->highest)), t->size[u]);
    if (e->highest - e->lowest < 1e-2 * size)
      snprintf(r->detector, sizeof r->detector,
               "%s is almost constant, between %.4g and %.4g: the conditions may have lost against "
               "the equations; try a weight on them, conditions.<name>.weight = 10",
               t->problem->unknowns[u].name, e->lowest, e->highest);
  }
}

/* Zero beside what the field is at its data, over the most of its range: |u| as its rms has it. */
static void detect_small(pn_training *t) {
  pn_train_result *r = &t->result;
  for (size_t u = 0; u < r->n_fields && !r->detector[0]; ++u) {
    const pn_field_error *e = &r->fields[u];
    double size = fmax(t->size[u], fmax(fabs(e->lowest), fabs(e->highest)));
    if (!(e->known && e->rel_l2 <= 0.1) && e->rms < 0.15 * size && e->highest - e->lowest > 0.2 * t->size[u])
      snprintf(r->detector, sizeof r->detector,
               "%s is close to 0 away from its data (rms %.2g, up to %.2g): information may not "
               "travel inwards; try points.refine = \"rad\", or a smaller domain",
               t->problem->unknowns[u].name, e->rms, size);
  }
}

static bool nothing_but_zero(const pn_training *t) {
  const pn_train_result *r = &t->result;
  for (size_t u = 0; u < r->n_fields; ++u)
    if (r->fields[u].known || !(r->fields[u].rms <= 1e-2 * t->size[u]))
      return false;
  return r->n_fields > 0;
}

static void detect_zero(pn_training *t) {
  pn_train_result *r = &t->result;
  if (nothing_but_zero(t))
    snprintf(r->detector, sizeof r->detector,
             "%s is 0 everywhere, which meets every equation and condition: if another answer is meant, ask "
             "for its size, as with a condition \"mean(%s^2, domain) = 1\"",
             t->problem->unknowns[0].name, t->problem->unknowns[0].name);
}

/* Where an equation is missed by far more on fresh points than on those of the training, points miss a front. */
static void detect_front(pn_training *t) {
  pn_train_result *r = &t->result;
  for (size_t m = 0; m < t->sites->n_terms && !r->detector[0]; ++m) {
    const pn_term *term = pn_metrics_term(t->metrics, m);
    double trained = pn_loss_last_relative(t->loss, m), fresh = r->terms[m].relative;
    if (!term->is_condition && fresh > 1e-2 && fresh > 10 * trained)
      snprintf(r->detector, sizeof r->detector,
               "%s holds on its points (%.1e) and not between them (%.1e): a front is lost there; try "
               "points.refine = \"rad\", or more points.interior",
               term->name, trained, fresh);
  }
}

static void detect_bound(pn_training *t) {
  pn_train_result *r = &t->result;
  for (size_t i = 0; i < r->n_parameters && !r->detector[0]; ++i)
    if (r->parameters[i].at_bound)
      snprintf(r->detector, sizeof r->detector,
               "%s = %.4g stands at one of its bounds: the answer may lie beyond; try other "
               "parameters.%.60s.bounds",
               t->problem->parameters[i].name, r->parameters[i].value,
               t->problem->parameters[i].name);
}

static void detect_stall(pn_training *t) {
  pn_train_result *r = &t->result;
  const pn_history *h = &t->history;
  if (r->detector[0] || h->n < 12)
    return;
  size_t third = h->n - h->n / 3;
  double before = h->loss[third - 1], after = h->loss[h->n - 1];
  if (!(after > 0.5 * before) || h->stage[third - 1] != h->stage[h->n - 1])
    return;
  tn_dtype low = pn_loss_precision(t->loss)->low;
  char why[96] = "; try a larger network.width, or points.refine = \"rad\"";
  if (low != TN_F64)
    snprintf(why, sizeof why, ", at the rounding of %s; try precision.compute = \"%s\"",
             pn_precision_name(low), low == TN_F32 ? "f64" : "f32");
  snprintf(r->detector, sizeof r->detector,
           "the loss stood still at %.2g in the last third of the steps%s", after, why);
}

tn_status pn_training_judge(pn_training *t) {
  pn_train_result *r = &t->result;
  bool interrupted = r->outcome == PN_INTERRUPTED || r->outcome == PN_TERMINATED;
  measure_parameters(t);
  TN_TRY(pn_metrics_fields(t->metrics, t->theta, r->fields));
  TN_TRY(pn_metrics_terms(t->metrics, t->theta, r->fields, r->terms));
  r->detector[0] = '\0';
  if (interrupted)
    return TN_OK;
  bool met = errors_within(t, 1) && terms_within(t, 1) && !nothing_but_zero(t);
  r->outcome = met ? PN_CONVERGED : PN_NOT_CONVERGED;
  if (r->outcome == PN_CONVERGED) {
    detect_small(t);
    return TN_OK;
  }
  pn_low_detect(t, r->detector, sizeof r->detector);
  if (!r->detector[0])
    detect_zero(t);
  detect_bound(t);
  detect_constant(t);
  detect_front(t);
  detect_small(t);
  detect_stall(t);
  return TN_OK;
}
