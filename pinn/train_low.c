/* train_low.c: stages whose matrix products are in a low format.
 *
 *   start   f16: ranges of the channels measured, their powers of two chosen, the loss scale set up: one that moves
 *           for methods with one gradient a step, one found by trial and frozen for those with line searches
 *   step    the optimizer asks the scaler; theta is rounded to the master format; the scale moves
 *   skip    theta, moments and everything else are as before; the stage goes on with a lower scale
 *
 * An overflow is one of three things, told apart by where it shows. In the gradient alone: the loss scale is too
 * large, and falls. In the loss as well, with a channel beyond the format: a derivative of the network has outgrown
 * its power of two, and gets a larger one; no loss scale could help. In the loss with every channel in range, or in
 * the gradient at the least scale: no scale is at fault, and the run ends where f64 would end it, with the place of
 * the number in the text.
 *
 * bf16 and tf32 have the exponents of f32: no scales, and what is not finite is so in f32 as well. Pure formats have
 * no scales either, because their gradients are of the low format before a scale could be divided out; instead it is
 * counted how many updates the rounding of the weights undid and how many gradient entries are zero.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/train_inside.h"

enum { SAMPLE = 256, SEARCH = 4096 }; /* points a site: at a stage's start, and after an overflow */
static const double after_overflow = 16; /* further room for a channel that grows that fast */

static const pn_plan_stage *present(const pn_training *t) { return &t->plan.stages[t->stage]; }

static bool has_low(const pn_training *t) {
  pn_precision p;
  return pn_training_low(t, &p);
}

static void note_scale(pn_training *t) {
  pn_low_result *low = &t->result.low;
  const pn_scale_event *last = low->n_events ? &low->event[low->n_events - 1] : NULL;
  if ((last && last->scale == t->scaler.scale) || low->n_events == PN_SCALE_EVENTS)
    return;
  low->event[low->n_events++] = (pn_scale_event){(double)t->step, t->scaler.scale};
}

/* ---- Start of a stage ------------------------------------------------------------------------ */

void pn_low_attach(pn_training *t) {
  if (pn_precision_low(&present(t)->precision))
    pn_loss_use_scaler(t->loss, t->scaled ? &t->scaler : NULL);
}

tn_status pn_low_prepare(pn_training *t) {
  const pn_precision *p = &present(t)->precision;
  pn_scaler_options options;
  bool over = false, changed = false;
  t->scaled = pn_precision_scales(p);
  for (size_t i = 0; i < t->n; ++i) /* no step may be needed to bring theta into its format */
    t->theta[i] = tn_round(p->master, t->theta[i]);
  if (t->scaled) {
    TN_TRY(pn_problem_scaler(t->problem, &options));
    TN_TRY(pn_scaler_init(&t->scaler, &options));
    TN_TRY(pn_training_apply(t));
    TN_TRY(pn_loss_measure(t->loss, t->theta, SAMPLE, false, &over));
    TN_TRY(pn_loss_rescale(t->loss, 1, &changed));
  }
  pn_low_attach(t);
  return TN_OK;
}

/* The scale of a line search: by trial, unless the file names one. */
static tn_status freeze(pn_training *t) {
  if (!isnan(t->problem->numbers.scale))
    TN_TRY(pn_scaler_freeze(&t->scaler, t->scaler.options.scale));
  else
    TN_TRY(pn_loss_freeze(t->loss, t->theta, &t->scaler));
  note_scale(t);
  return TN_OK;
}

tn_status pn_low_open(pn_training *t) {
  if (!t->scaled)
    return TN_OK;
  if (present(t)->class_->flags & PN_OPT_KEEPS)
    return freeze(t);
  note_scale(t);
  return TN_OK;
}

tn_status pn_low_resampled(pn_training *t) {
  return t->scaled && t->scaler.frozen ? freeze(t) : TN_OK;
}

/* ---- After a step ---------------------------------------------------------------------------- */

static void round_weights(pn_training *t) {
  const tn_dtype master = present(t)->precision.master;
  pn_low_result *low = &t->result.low;
  if (master == TN_F64)
    return;
  for (size_t i = 0; i < t->n; ++i) {
    const double wanted = t->theta[i];
    t->theta[i] = tn_round(master, wanted);
    low->moved += wanted != t->incoming[i];
    low->lost += wanted != t->incoming[i] && t->theta[i] == t->incoming[i];
  }
}

static void count_zeros(pn_training *t) {
  if (!present(t)->precision.pure)
    return;
  t->result.low.zeros += (double)pn_loss_zeros(t->loss);
  t->result.low.entries += (double)t->n;
}

static bool loss_is_finite(const pn_training *t) {
  const double *term = pn_loss_last_terms(t->loss);
  bool finite = true;
  for (size_t m = 0; m < t->sites->n_terms; ++m)
    finite = finite && isfinite(term[m]);
  return finite;
}

/* A loss that is not finite: channels that have outgrown their powers of two get larger ones. *mended: some did; one
 * that has the largest power already, or is not finite in f32, cannot. */
static tn_status mend_channels(pn_training *t, bool *mended) {
  bool over = false;
  *mended = false;
  TN_TRY(pn_loss_measure(t->loss, t->theta, SEARCH, true, &over));
  ++t->result.low.forward;
  return over ? pn_loss_rescale(t->loss, after_overflow, mended) : TN_OK;
}

tn_status pn_low_mend(pn_training *t, bool *mended) {
  *mended = false;
  if (!t->scaled)
    return TN_OK;
  TN_TRY(mend_channels(t, mended));
  return *mended && t->scaler.frozen ? freeze(t) : TN_OK;
}

static tn_status skipped(pn_training *t, pn_scaler_verdict verdict, bool *again, char end[160]) {
  const pn_scaler *s = &t->scaler;
  ++t->result.low.skips;
  *again = verdict != PN_SCALER_FLOOR;
  if (!loss_is_finite(t))
    TN_TRY(mend_channels(t, again));
  if (!*again && verdict == PN_SCALER_FLOOR)
    snprintf(end, 160, "the gradient is not finite at a loss scale of %g too", s->options.least);
  if (*again && verdict == PN_SCALER_OVERBUDGET)
    snprintf(end, 160,
             "%zu of the last %zu steps overflowed and were skipped, at a loss scale of %g",
             s->options.budget, s->options.window, s->scale);
  if (*again && s->frozen)
    return freeze(t);
  return TN_OK;
}

tn_status pn_low_after(pn_training *t, const pn_step_report *report, bool *again, char end[160]) {
  pn_scaler_verdict verdict = PN_SCALER_GOOD;
  *again = false;
  round_weights(t);
  count_zeros(t);
  if (!t->scaled)
    return TN_OK;
  if (!t->scaler.frozen)
    TN_TRY(pn_scaler_update(&t->scaler, &verdict));
  else if (report->nonfinite)
    TN_TRY(pn_scaler_missed(&t->scaler, &verdict));
  if (report->nonfinite)
    TN_TRY(skipped(t, verdict, again, end));
  note_scale(t);
  return TN_OK;
}

/* ---- Result ---------------------------------------------------------------------------------- */

void pn_low_sum(pn_training *t) {
  double low = t->flops[0], all = t->flops[1], a = 0, b = 0;
  for (size_t i = 0; i <= t->n_others; ++i) {
    pn_loss_work(i ? t->others[i - 1].loss : t->main.loss, &a, &b);
    low += a;
    all += b;
  }
  t->result.low.flops_low = low;
  t->result.low.flops = all;
}

void pn_low_detect(const pn_training *t, char *text, size_t size) {
  const pn_low_result *low = &t->result.low;
  pn_precision p;
  if (!pn_training_low(t, &p))
    return;
  const char *name = pn_precision_name(p.master);
  if (low->moved > 0 && low->lost > 0.1 * low->moved && p.pure)
    snprintf(text, size,
             "%.0f %% of the updates of weights were lost: below half a unit of the last place of "
             "%s; set "
             "precision.master = \"f64\"",
             100 * low->lost / low->moved, name);
  else if (low->entries > 0 && low->zeros > 0.1 * low->entries)
    snprintf(text, size,
             "%.0f %% of the gradient is exactly zero, below the smallest number of %s; set "
             "precision.master = "
             "\"f64\", which also scales the loss",
             100 * low->zeros / low->entries, name);
}

/* ---- State ----------------------------------------------------------------------------------- */

typedef struct prefixed {
  pn_state_visitor *outer;
  const char *prefix;
} prefixed;

static tn_status with_prefix(pn_state_visitor *v, const char *name, size_t n, double *data) {
  const prefixed *p = v->context;
  char full[128];
  snprintf(full, sizeof full, "%s.%s", p->prefix, name);
  return p->outer->doubles(p->outer, full, n, data);
}

static tn_status number_with_prefix(pn_state_visitor *v, const char *name, double *x) {
  const prefixed *p = v->context;
  char full[128];
  snprintf(full, sizeof full, "%s.%s", p->prefix, name);
  return p->outer->number(p->outer, full, x);
}

static tn_status visit_result(pn_training *t, pn_state_visitor *v) {
  pn_low_result *low = &t->result.low;
  double events[2 * PN_SCALE_EVENTS] = {0}, flops[2];
  pn_low_sum(t);
  const double here[2] = {low->flops_low - t->flops[0], low->flops - t->flops[1]};
  flops[0] = low->flops_low;
  flops[1] = low->flops;
  TN_TRY(v->doubles(v, "flops", 2, flops));
  if (v->restores)
    for (int i = 0; i < 2; ++i)
      t->flops[i] = flops[i] - here[i];
  TN_TRY(pn_visit_count(v, "skips", (size_t)1 << 50, &low->skips));
  TN_TRY(pn_visit_count(v, "forward", (size_t)1 << 50, &low->forward));
  TN_TRY(pn_visit_count(v, "events", PN_SCALE_EVENTS, &low->n_events));
  for (size_t i = 0; i < low->n_events; ++i) {
    events[2 * i] = low->event[i].step;
    events[2 * i + 1] = low->event[i].scale;
  }
  TN_TRY(v->doubles(v, "event", 2 * PN_SCALE_EVENTS, events));
  for (size_t i = 0; i < low->n_events; ++i)
    low->event[i] = (pn_scale_event){events[2 * i], events[2 * i + 1]};
  TN_TRY(v->number(v, "moved", &low->moved));
  TN_TRY(v->number(v, "lost", &low->lost));
  TN_TRY(v->number(v, "zeros", &low->zeros));
  return v->number(v, "entries", &low->entries);
}

/* Only of runs with a low format, so that others keep their files. Channels are those of a stage under way, or of the
 * last one, which reports of a finished run tell; between stages the next one measures anew. */
tn_status pn_low_visit(pn_training *t, pn_state_visitor *visitor, bool open) {
  prefixed low = {visitor, "low"}, scaler = {visitor, "scaler"};
  pn_state_visitor inner = {&low, visitor->restores, with_prefix, number_with_prefix};
  pn_state_visitor of_scaler = {&scaler, visitor->restores, with_prefix, number_with_prefix};
  if (!has_low(t))
    return TN_OK;
  TN_TRY(visit_result(t, &inner));
  const bool finished = t->stage == t->plan.n;
  if (!open && !finished)
    return TN_OK;
  const bool scaled = pn_precision_scales(&t->plan.stages[t->stage - finished].precision);
  if (visitor->restores && open)
    t->scaled = scaled;
  if (!scaled)
    return TN_OK;
  if (open)
    TN_TRY(pn_scaler_visit(&t->scaler, &of_scaler));
  return pn_loss_visit_channels(t->loss, &inner);
}
