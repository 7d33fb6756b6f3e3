/* underflow_train.c: pn_underflow_train: the loss scale over some steps of training with f16 products.
 *
 * The parts are those of a stage (train_low.c): channels measured and scaled at the start, a gradient that goes
 * through the scaler, adam, which asks it before it steps, and the update of the scale. What is left out is what
 * a study must not have: new points, recordings, schedules. Every step is recorded, a skipped one too.
 */
#include <math.h>
#include <stdio.h>

#include "pinn/scaler.h"
#include "pinn/underflow.h"

bool pn_underflow_scales(const pn_underflow *u) {
  return u->options.low == TN_F16 && !u->options.pure;
}

/* "`x` as 2^-3 times its value, `xx` as ..." */
static void describe(const pn_loss *loss, char *text, size_t room) {
  size_t n = 0, used = 0;
  const pn_channel *list = pn_loss_channel_list(loss, &n);
  text[0] = '\0';
  for (size_t i = 0; i < n && used < room; ++i)
    if (list[i].exponent != 0)
      used += (size_t)snprintf(text + used, room - used, "%s`%s` as 2^%d times its value",
                               used > 0 ? ", " : "", list[i].label, -list[i].exponent);
}

static tn_status prepare(pn_step *s, const pn_problem *problem, pn_scaler *scaler) {
  enum {
    SAMPLE = 256
  }; /* points of each set that channels are measured on, as at the start of a stage */
  pn_scaler_options options;
  bool over = false, changed = false;
  TN_TRY(pn_problem_scaler(problem, &options));
  TN_TRY(pn_scaler_init(scaler, &options));
  TN_TRY(pn_loss_bind(s->loss));
  TN_TRY(pn_loss_measure(s->loss, s->theta, SAMPLE, false, &over));
  TN_TRY(pn_loss_rescale(s->loss, 1, &changed));
  pn_loss_use_scaler(s->loss, scaler);
  return TN_OK;
}

static tn_status train(const pn_underflow *u, pn_step *s, pn_scaler *scaler, pn_opt *opt,
                       size_t steps, size_t *n, pn_scaler_record *records) {
  const pn_opt_context context = {
      .pool = u->pool, .seed = u->options.seed, .rate = u->facts.rate, .scaler = scaler};
  for (*n = 0; *n < steps;) {
    pn_step_report report;
    pn_scaler_verdict verdict = PN_SCALER_GOOD;
    pn_scaler_record *r = &records[*n];
    r->scale = scaler->scale;
    TN_TRY(pn_opt_step(opt, &context, pn_loss_objective(s->loss), s->theta, &report));
    TN_TRY(pn_scaler_update(scaler, &verdict));
    r->step = ++*n;
    r->loss = report.loss_before;
    r->tracker = scaler->tracker;
    r->skipped = verdict != PN_SCALER_GOOD;
    if (verdict == PN_SCALER_FLOOR || verdict == PN_SCALER_OVERBUDGET || report.stop)
      break;
  }
  return TN_OK;
}

tn_status pn_underflow_train(pn_underflow *u, size_t steps, size_t *n, pn_scaler_record **records,
                             char *carried, size_t room) {
  pn_step *s = NULL;
  pn_opt *opt = NULL;
  pn_scaler scaler;
  const pn_opt_class *adam = NULL;
  const pn_opt_context start = {.pool = u->pool, .seed = u->options.seed, .rate = u->facts.rate};
  *n = 0;
  *records = NULL;
  if (!pn_underflow_scales(u))
    return TN_FAIL(TN_EUNSUPPORTED, "underflow: %s%s trains without a loss scale",
                   u->options.pure ? "pure " : "", tn_dtype_name(u->options.low));
  TN_TRY(pn_opt_find("adam", &adam));
  TN_TRY(pn_underflow_step(u, u->options.low, &s));
  tn_status status = prepare(s, u->problem, &scaler);
  if (status == TN_OK)
    status = pn_opt_new(adam, s->model->n_theta, NULL, 0, &start, &opt);
  if (status == TN_OK)
    status = TN_NEW(steps, records);
  if (status == TN_OK) {
    describe(s->loss, carried, room);
    status = train(u, s, &scaler, opt, steps, n, *records);
  }
  pn_opt_free(&opt);
  pn_step_free(&s);
  if (status != TN_OK)
    tn_free(records);
  return status;
}
