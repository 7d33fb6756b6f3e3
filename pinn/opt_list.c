/* opt_list.c: the list of optimizers, and what is common to all of them.
 *
 * To add a method: write pinn/opt_<name>.c that ends in one pn_opt_class, and add one line to LIST.
 * The shared test runs every class in the list on the same functions.
 *
 * A pn_opt is a class with a zeroed block of state_size bytes. Options are written into the block
 * from the class's table before init runs, so that no method parses anything. The helpers for
 * methods (objective slots, counts in the state, reasons in the report) are here as well.
 */
#include "pinn/opt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LIST(ROW) ROW(adam) ROW(adamw) ROW(lbfgs) ROW(ssbroyden) ROW(lm)

#define ROW(name) extern const pn_opt_class pn_opt_##name;
LIST(ROW)
#undef ROW

static const pn_opt_class *const classes[] = {
#define ROW(name) &pn_opt_##name,
    LIST(ROW)
#undef ROW
};

enum { CLASSES = sizeof classes / sizeof *classes };

struct pn_opt {
  const pn_opt_class *class_;
  size_t n;
  void *state; /* state_size bytes, owned */
};

/* ---- Classes and options --------------------------------------------------------------------- */

const pn_opt_class *const *pn_opt_classes(size_t *count) {
  *count = CLASSES;
  return classes;
}

tn_status pn_opt_find(const char *name, const pn_opt_class **out) {
  char known[256] = "";
  size_t used = 0;
  for (size_t i = 0; i < CLASSES; ++i) {
    if (strcmp(name, classes[i]->name) == 0) {
      *out = classes[i];
      return TN_OK;
    }
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                               classes[i]->name);
  }
  return TN_FAIL(TN_EINPUT, "optimizer `%s` is not known; there are: %s", name, known);
}

const pn_option *pn_opt_option(const pn_opt_class *class_, const char *name) {
  for (const pn_option *o = class_->options; o && o->name; ++o)
    if (strcmp(o->name, name) == 0)
      return o;
  return NULL;
}

static tn_status set(const pn_opt_class *class_, void *state, const pn_option *option,
                     double value) {
  char *field = (char *)state + option->offset;
  const bool whole = value >= 0 && value <= 0x1p53 && value == floor(value);
  switch (option->kind) {
  case PN_OPTION_REAL:
    if (isnan(value))
      break;
    memcpy(field, &value, sizeof value);
    return TN_OK;
  case PN_OPTION_COUNT: {
    if (!whole)
      break;
    const size_t count = (size_t)value;
    memcpy(field, &count, sizeof count);
    return TN_OK;
  }
  case PN_OPTION_FLAG: {
    if (!(value == 0 || value == 1))
      break;
    const bool flag = value == 1;
    memcpy(field, &flag, sizeof flag);
    return TN_OK;
  }
  }
  static const char *const wanted[] = {"a number", "a whole number >= 0", "0 or 1"};
  return TN_FAIL(TN_EINPUT, "%s: %s = %g is not %s", class_->name, option->name, value,
                 wanted[option->kind]);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tn_status fill(pn_opt *opt, const pn_setting *settings, size_t n_settings,
                      const pn_opt_context *context) {
  const pn_opt_class *class_ = opt->class_;
  TN_TRY(tn_new(1, class_->state_size, &opt->state));
  for (const pn_option *o = class_->options; o && o->name; ++o)
    TN_TRY(set(class_, opt->state, o, o->standard));
  for (size_t i = 0; i < n_settings; ++i) {
    const pn_option *option = pn_opt_option(class_, settings[i].name);
    if (!option)
      return TN_FAIL(TN_EINPUT, "%s has no option `%s`", class_->name, settings[i].name);
    TN_TRY(set(class_, opt->state, option, settings[i].value));
  }
  return class_->init(opt->state, opt->n, context);
}

tn_status pn_opt_new(const pn_opt_class *class_, size_t n, const pn_setting *settings,
                     size_t n_settings, const pn_opt_context *context, pn_opt **out) {
  *out = NULL;
  if (n == 0)
    return TN_FAIL(TN_ESHAPE, "%s: there are no parameters to optimize", class_->name);
  pn_opt *opt = NULL;
  TN_TRY(TN_NEW(1, &opt));
  opt->class_ = class_;
  opt->n = n;
  const tn_status status = fill(opt, settings, n_settings, context);
  if (status != TN_OK) {
    pn_opt_free(&opt);
    return status;
  }
  *out = opt;
  return TN_OK;
}

void pn_opt_free(pn_opt **opt) {
  if (!*opt)
    return;
  if ((*opt)->state)
    (*opt)->class_->done((*opt)->state);
  tn_free(&(*opt)->state);
  tn_free(opt);
}

const pn_opt_class *pn_opt_class_of(const pn_opt *opt) { return opt->class_; }

tn_status pn_opt_step(pn_opt *opt, const pn_opt_context *context, pn_objective *f, double *theta,
                      pn_step_report *report) {
  *report = (pn_step_report){.loss_before = NAN, .loss_after = NAN, .gradient_norm = NAN};
  if (f->n != opt->n)
    return TN_FAIL(TN_ESHAPE, "%s: the objective has %zu parameters, the optimizer %zu",
                   opt->class_->name, f->n, opt->n);
  return opt->class_->step(opt->state, context, f, opt->n, theta, report);
}

tn_status pn_opt_visit(pn_opt *opt, pn_state_visitor *visitor) {
  return opt->class_->visit(opt->state, opt->n, visitor);
}

tn_status pn_opt_resampled(pn_opt *opt) {
  return opt->class_->resampled ? opt->class_->resampled(opt->state) : TN_OK;
}

/* ---- For methods ----------------------------------------------------------------------------- */

void pn_report_reason(pn_step_report *report, bool stop, const char *format, ...) {
  va_list list;
  va_start(list, format);
  (void)vsnprintf(report->reason, sizeof report->reason, format, list);
  va_end(list);
  report->stop = stop;
}

tn_status pn_visit_count(pn_state_visitor *visitor, const char *name, size_t maximum, size_t *x) {
  double value = (double)*x;
  TN_TRY(visitor->number(visitor, name, &value));
  if (!(value >= 0 && value <= (double)maximum && value == floor(value)))
    return TN_FAIL(TN_EINPUT, "state: %s = %g is not a whole number from 0 to %zu", name, value,
                   maximum);
  *x = (size_t)value;
  return TN_OK;
}

tn_status pn_visit_flag(pn_state_visitor *visitor, const char *name, bool *x) {
  size_t value = *x;
  TN_TRY(pn_visit_count(visitor, name, 1, &value));
  *x = value == 1;
  return TN_OK;
}

/* ---- Objective slots ------------------------------------------------------------------------- */

tn_status pn_objective_need(const pn_objective *f, pn_slot slot, const char *method) {
  const struct {
    bool there;
    const char *words;
  } slots[PN_SLOTS] = {
      [PN_SLOT_TERMS] = {f->terms, "sums and gradients of the terms"},
      [PN_SLOT_RESIDUAL] = {f->residual, "the residual"},
      [PN_SLOT_JVP] = {f->jvp, "J v"},
      [PN_SLOT_VJP] = {f->vjp, "J^T w"},
      [PN_SLOT_ROWS] = {f->rows, "rows of J"},
      [PN_SLOT_QR] = {f->qr, "a QR factorisation of J"},
      [PN_SLOT_QT] = {f->qt, "Q^T w"},
      [PN_SLOT_SECOND] = {f->second, "second directional derivatives of the residual"},
      [PN_SLOT_LOSSES] = {f->losses, "the loss at several points at once"},
  };
  if ((unsigned)slot >= PN_SLOTS)
    return TN_FAIL(TN_EINTERNAL, "slot %d does not exist", (int)slot);
  if (slots[slot].there)
    return TN_OK;
  return TN_FAIL(TN_EUNSUPPORTED, "%s needs %s, which this problem does not offer", method,
                 slots[slot].words);
}

tn_status pn_objective_loss(pn_objective *f, const double *theta, double *loss) {
  const tn_status status = f->loss(f, theta, loss);
  if (status != TN_ENONFINITE)
    return status;
  tn_error_clear();
  *loss = NAN;
  return TN_OK;
}

tn_status pn_objective_gradient(pn_objective *f, const double *theta, double *loss,
                                double *gradient) {
  const tn_status status = f->gradient(f, theta, loss, gradient);
  if (status != TN_ENONFINITE)
    return status;
  tn_error_clear();
  *loss = NAN;
  for (size_t i = 0; i < f->n; ++i)
    gradient[i] = NAN;
  return TN_OK;
}

tn_status pn_objective_losses(pn_objective *f, size_t count, const double *thetas, double *losses) {
  if (f->losses)
    return f->losses(f, count, thetas, losses);
  for (size_t k = 0; k < count; ++k)
    TN_TRY(pn_objective_loss(f, thetas + k * f->n, losses + k));
  return TN_OK;
}
