/* train_run.c: the stages, step by step.
 *
 * A stage starts with new points (a new scramble; from the second on refined at once if `refine`
 * asks for it), weights from the scheme, and a new optimizer. Between two steps, and only there,
 * the loop looks at the clock and at signals, refines points, records and saves. What decides
 * about theta depends on step numbers alone (a limit in seconds excepted), so a run and its
 * resumed halves have the same bits.
 *
 * Records are made every 100 steps of a first-order method, every 5 of one whose steps are few and
 * long, and every 50 of the others: the loss at theta by an evaluation of its own, and the errors
 * against exact solutions, which may end the run early.
 *
 * Ranks take the same steps on the same numbers. What one of them alone can see, a signal or the
 * time, is told in one small message to all: a signal counts wherever it came, of time the first
 * rank's clock. It also says after how many steps to look again, so that fast steps are not held up:
 * about every 50 ms. Before each save the ranks compare digests of their states.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/train_inside.h"

enum { RECORD_FIRST_ORDER = 100, RECORD_NEWTON = 50, RECORD_COSTLY = 5 };
static const double silence = 2; /* s without a record after which a sign of life is given */
static const double look_every = 0.05; /* s between two messages of ranks about signals and time */
static const double bad_valley = 1e-5; /* loss beyond which lm starts again from other weights */
static const double tiny_loss = 1e-16; /* where a file without stages and accept is done */
enum { MOST_BETWEEN_LOOKS = 1000 };

static const pn_plan_stage *present(const pn_training *t) { return &t->plan.stages[t->stage]; }

static pn_stage_result *stage_result(pn_training *t) { return &t->result.stages[t->stage]; }

static void look_at_clock(pn_training *t) {
  double now = pn_training_clock();
  t->seconds += now - t->clock;
  t->stage_seconds += now - t->clock;
  t->clock = now;
}

static void end_with(pn_training *t, const char *reason) {
  snprintf(stage_result(t)->reason, sizeof stage_result(t)->reason, "%s", reason);
}

/* ---- Progress -------------------------------------------------------------------------------- */

static double seconds_left(const pn_training *t) {
  const pn_plan_stage *stage = present(t);
  double each = t->stage_step ? t->stage_seconds / (double)t->stage_step : t->step_seconds;
  double left = each * (double)(stage->stage.steps - t->stage_step);
  if (stage->stage.seconds > 0)
    left = fmin(left, stage->stage.seconds - t->stage_seconds);
  for (size_t s = t->stage + 1; s < t->plan.n; ++s) {
    double more = t->step_seconds * (double)t->plan.stages[s].stage.steps;
    double limit = t->plan.stages[s].stage.seconds;
    left += limit > 0 ? fmin(more, limit) : more;
  }
  if (t->options.seconds > 0)
    left = fmin(left, t->options.seconds - t->seconds);
  return fmax(left, 0);
}

static tn_status report(pn_training *t, double loss, bool recorded, bool stage_end) {
  const pn_plan_stage *stage = present(t);
  for (size_t m = 0; m < t->sites->n_terms; ++m)
    t->relative[m] = pn_loss_last_relative(t->loss, m);
  for (size_t i = 0; i < t->problem->n_parameters; ++i)
    t->parameter[i] = pn_model_parameter(t->main.model, t->theta, i);
  pn_progress p = {.stage = t->stage + 1,
                   .n_stages = t->plan.n,
                   .optimizer = stage->class_->name,
                   .step = t->step,
                   .stage_step = t->stage_step,
                   .stage_steps = stage->stage.steps,
                   .loss = loss,
                   .n_terms = t->sites->n_terms,
                   .relative = t->relative,
                   .n_errors = t->problem->n_unknowns,
                   .errors = t->error,
                   .n_parameters = t->problem->n_parameters,
                   .parameters = t->parameter,
                   .rate = NAN,
                   .loss_scale = t->scaled ? t->scaler.scale : NAN,
                   .skips = t->scaled ? t->scaler.skips : 0,
                   .seconds = t->seconds,
                   .seconds_left = seconds_left(t),
                   .stage_end = stage_end,
                   .recorded = recorded};
  if (stage->class_->flags & PN_OPT_RATE)
    p.rate = pn_schedule_rate(&stage->schedule, t->stage_step ? t->stage_step - 1 : 0);
  if (recorded)
    TN_TRY(pn_history_add(&t->history, &p));
  t->shown = t->seconds;
  return t->options.progress ? t->options.progress(t->options.context, &p) : TN_OK;
}

static tn_status save(pn_training *t, bool stage_end) {
  pn_ranks *ranks = t->options.ranks;
  tn_status status = TN_OK;
  pn_low_sum(t);
  t->saved = t->result.seconds = t->seconds;
  t->result.steps = t->step;
  TN_TRY(pn_training_same(t, "before a save"));
  if (t->options.checkpoint && pn_ranks_lead(ranks))
    status = t->options.checkpoint(t->options.context, t, stage_end);
  return pn_ranks_agree(ranks, "saving the run", status);
}

/* ---- Not finite ------------------------------------------------------------------------------ */

/* Back to the last good theta, saved; then the error, whose text says where. */
static tn_status not_finite(pn_training *t, const char *reason) {
  size_t step = t->step;
  memcpy(t->incoming, t->theta, t->n * sizeof *t->theta);
  memcpy(t->theta, t->good, t->n * sizeof *t->theta);
  t->result.outcome = PN_NONFINITE;
  t->result.steps = t->step;
  t->result.seconds = t->seconds;
  end_with(t, reason[0] ? reason : "the loss is not finite");
  TN_TRY(save(t, false));
  TN_TRY(pn_objective_explain(t->loss, t->incoming, step));
  return TN_FAIL(TN_ENONFINITE, "step %zu: the loss is not finite", step);
}

/* ---- Recording ------------------------------------------------------------------------------- */

static tn_status record(pn_training *t, bool stage_end, bool *accepted) {
  double loss = 0;
  *accepted = false;
  TN_TRY(pn_objective_loss(pn_loss_objective(t->loss), t->theta, &loss));
  if (!isfinite(loss)) {
    bool mended = false;
    TN_TRY(pn_low_mend(t, &mended));
    if (mended)
      TN_TRY(pn_objective_loss(pn_loss_objective(t->loss), t->theta, &loss));
  }
  if (!isfinite(loss))
    return not_finite(t, "");
  t->result.loss = loss;
  TN_TRY(pn_training_try(t, accepted));
  look_at_clock(t);
  return report(t, loss, true, stage_end);
}

static size_t record_every(const pn_training *t) {
  unsigned flags = present(t)->class_->flags;
  return flags & PN_OPT_RATE     ? RECORD_FIRST_ORDER
         : flags & PN_OPT_COSTLY ? RECORD_COSTLY
                                 : RECORD_NEWTON;
}

/* ---- A stage --------------------------------------------------------------------------------- */

static tn_status weigh(pn_training *t) {
  for (size_t m = 0; m < t->sites->n_terms; ++m) {
    const pn_term *term = t->sites->terms[m].term;
    t->weight[m] = term->weight ? 1 : term->weight_number;
  }
  TN_TRY(pn_training_apply(t));
  TN_TRY(pn_causal_update(t));
  pn_data_weigh(t->loss, t->sites->n_terms, t->weight);
  memcpy(t->relative, t->weight, t->sites->n_terms * sizeof *t->weight);
  TN_TRY(t->scheme->start(t->loss, t->theta, t->weight));
  pn_data_join(t->loss, t->sites->n_terms, t->relative, t->weight);
  return pn_training_apply(t);
}

static bool refines(const pn_training *t) {
  if (t->plan.lm_first && t->stage > 0) /* what one set of points did not settle */
    return true;
  return t->problem->points.refine && strcmp(t->problem->points.refine, "rad") == 0;
}

/* lm that ended in a bad valley tries another first guess; what is only not perfect goes on from where it is. */
static tn_status restart(pn_training *t) {
  if (!t->plan.lm_first || t->stage == 0 || !(present(t)->class_->flags & PN_OPT_COSTLY) ||
      !(t->result.loss > bad_valley))
    return TN_OK;
  return pn_model_init(t->main.model, t->options.seed + ((uint64_t)t->stage << 32), t->theta);
}

static tn_status open_stage(pn_training *t) {
  t->stage_step = t->round = t->mark_step = 0;
  t->stage_seconds = 0;
  t->mark_loss = NAN;
  TN_TRY(pn_training_choose(t, t->stage));
  TN_TRY(restart(t));
  TN_TRY(pn_training_draw(t));
  if (refines(t) && t->stage > 0) {
    TN_TRY(pn_training_apply(t));
    TN_TRY(pn_training_refine(t));
  }
  TN_TRY(pn_low_prepare(t));
  TN_TRY(weigh(t));
  TN_TRY(pn_low_open(t));
  return pn_training_optimizer(t, t->stage);
}

static tn_status reopen_stage(pn_training *t) {
  TN_TRY(pn_training_choose(t, t->stage));
  pn_low_attach(t);
  return pn_training_apply(t);
}

/* Has the loss come down enough since the mark? */
static bool stalled(pn_training *t, double loss) {
  const pn_stage *stage = &present(t)->stage;
  if (!stage->stall)
    return false;
  if (isnan(t->mark_loss)) {
    t->mark_loss = loss;
    t->mark_step = t->stage_step;
    return false;
  }
  if (t->stage_step - t->mark_step < stage->stall)
    return false;
  bool no_better = !(loss < stage->stall_factor * t->mark_loss);
  t->mark_loss = loss;
  t->mark_step = t->stage_step;
  return no_better;
}

/* ---- Signals and time ------------------------------------------------------------------------ */

typedef enum time_says { GO_ON, SAVE_NOW, STAGE_IS_OVER, RUN_IS_OVER } time_says;

typedef struct sight { /* what a rank tells the others */
  int32_t signal;      /* a number, or 0 */
  int32_t time;        /* time_says; that of the first rank counts, as the next one */
  uint64_t steps;      /* until the next look */
} sight;

static time_says look_at_limits(const pn_training *t) {
  const pn_stage *stage = &present(t)->stage;
  if (t->options.seconds > 0 && t->seconds >= t->options.seconds)
    return RUN_IS_OVER;
  if (stage->seconds > 0 && t->stage_seconds >= stage->seconds)
    return STAGE_IS_OVER;
  return t->seconds - t->saved >= t->options.checkpoint_seconds ? SAVE_NOW : GO_ON;
}

static uint64_t steps_to_next_look(const pn_training *t) {
  double each = t->stage_step ? t->stage_seconds / (double)t->stage_step : t->step_seconds;
  double steps = fmin(look_every, t->options.checkpoint_seconds) / each;
  return steps >= MOST_BETWEEN_LOOKS ? MOST_BETWEEN_LOOKS : steps >= 1 ? (uint64_t)steps : 1;
}

/* From the sight of this rank to that of all. */
static tn_status tell_ranks(pn_training *t, sight *s) {
  pn_ranks *ranks = t->options.ranks;
  const size_t n = pn_ranks_size(ranks);
  size_t *bytes = NULL;
  sight *all = NULL;
  int32_t signal_number = 0;
  TN_TRY(TN_NEW(n, &bytes));
  tn_status status = TN_NEW(n, &all);
  for (size_t r = 0; r < n; ++r)
    bytes[r] = sizeof *s;
  if (status == TN_OK)
    status = tn_comm_gather(ranks->comm, "signals and time", bytes, s, all);
  for (size_t r = 0; status == TN_OK && r < n; ++r)
    signal_number = all[r].signal > signal_number ? all[r].signal : signal_number;
  if (status == TN_OK)
    *s = all[0];
  s->signal = signal_number;
  tn_free(&all);
  tn_free(&bytes);
  return status;
}

/* Signals and limits of time; *stop with the outcome or reason set. */
static tn_status look_outside(pn_training *t, bool *stop) {
  char text[96];
  *stop = false;
  if (t->stage_step < t->look_at)
    return TN_OK;
  look_at_clock(t);
  sight s = {t->options.stop ? t->options.stop(t->options.context) : 0, look_at_limits(t), 1};
  if (pn_ranks_size(t->options.ranks) > 1) {
    s.steps = steps_to_next_look(t);
    TN_TRY(tell_ranks(t, &s));
  }
  t->look_at = t->stage_step + (size_t)s.steps;
  if (!s.signal && s.time == GO_ON)
    return TN_OK;
  if (!s.signal && s.time == SAVE_NOW)
    return save(t, false);
  *stop = true;
  if (s.signal) {
    t->result.outcome = s.signal == 15 ? PN_TERMINATED : PN_INTERRUPTED;
    end_with(t, "stopped by a signal");
    return save(t, false);
  }
  if (s.time == RUN_IS_OVER)
    snprintf(text, sizeof text, "time limit of the run, %g s", t->options.seconds);
  else
    snprintf(text, sizeof text, "time limit of the stage, %g s", present(t)->stage.seconds);
  end_with(t, text);
  return TN_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* New points before this step, if it is time. */
static tn_status prepare_points(pn_training *t) {
  const pn_plan_stage *stage = present(t);
  size_t batch = t->problem->points.batch;
  if (refines(t) && t->stage_step > 0 && t->stage_step % stage->stage.refine_every == 0) {
    TN_TRY(pn_training_refine(t));
    TN_TRY(pn_opt_resampled(t->opt));
    TN_TRY(pn_low_resampled(t));
  }
  if (batch && !(stage->class_->flags & PN_OPT_KEEPS))
    return pn_loss_bind_batch(t->loss, batch, t->step);
  return TN_OK;
}

static tn_status one_step(pn_training *t, bool *done) {
  const pn_plan_stage *stage = present(t);
  pn_step_report r;
  bool again = false;
  char end[160] = "";
  const pn_opt_context context = {.pool = t->pool,
                                  .seed = t->options.seed,
                                  .rate = pn_schedule_rate(&stage->schedule, t->stage_step),
                                  .scaler = t->scaled && !t->scaler.frozen ? &t->scaler : NULL};
  TN_TRY(pn_causal_step(t));
  TN_TRY(prepare_points(t));
  memcpy(t->incoming, t->theta, t->n * sizeof *t->theta);
  TN_TRY(pn_opt_step(t->opt, &context, pn_loss_objective(t->loss), t->theta, &r));
  TN_TRY(pn_low_after(t, &r, &again, end));
  if (r.nonfinite && !again)
    return not_finite(t, end);
  memcpy(t->good, t->incoming, t->n * sizeof *t->theta);
  ++t->stage_step;
  ++t->step;
  double loss = isfinite(r.loss_after) ? r.loss_after : r.loss_before;
  if (isfinite(loss))
    t->result.loss = loss;
  *done = true;
  if (end[0]) {
    end_with(t, end);
  } else if (r.stop && !again) {
    end_with(t, r.reason[0] ? r.reason : "the method ended");
  } else if (t->plan.lm_first && !pn_training_can_accept(t) && loss <= tiny_loss) {
    end_with(t, "the loss is below 1e-16, and nothing asks for less");
  } else if (stalled(t, loss)) {
    char text[96];
    snprintf(text, sizeof text, "the loss has not fallen by a factor %g in %zu steps",
             stage->stage.stall_factor, stage->stage.stall);
    end_with(t, text);
  } else {
    *done = false;
  }
  return TN_OK;
}

static tn_status record_if_due(pn_training *t, bool *done) {
  bool accepted = false;
  if (t->stage_step == present(t)->stage.steps)
    return TN_OK; /* the end of the stage is recorded anyway */
  if (t->stage_step % record_every(t) == 0) {
    TN_TRY(record(t, false, &accepted));
    if (accepted) {
      char text[64];
      snprintf(text, sizeof text, "accepted at step %zu", t->step);
      end_with(t, text);
      *done = true;
    }
    return TN_OK;
  }
  look_at_clock(t);
  return t->seconds - t->shown >= silence ? report(t, t->result.loss, false, false) : TN_OK;
}

/* *last: no further stage (accepted, out of time, stopped). */
static tn_status run_stage(pn_training *t, bool *last) {
  const pn_plan_stage *stage = present(t);
  bool done = false, stop = false, accepted = false;
  TN_TRY(t->opt ? reopen_stage(t) : open_stage(t));
  t->look_at = 0;
  look_at_clock(t);
  while (!done && t->stage_step < stage->stage.steps) {
    TN_TRY(look_outside(t, &stop));
    if (stop)
      break;
    TN_TRY(one_step(t, &done));
    if (!done)
      TN_TRY(record_if_due(t, &done));
  }
  *last = t->result.outcome == PN_INTERRUPTED || t->result.outcome == PN_TERMINATED;
  if (*last)
    return TN_OK; /* the stage stays open for a resumed run */
  if (!done && !stop)
    end_with(t, "all steps done");
  TN_TRY(pn_loss_bind(t->loss)); /* all points again after batches */
  TN_TRY(record(t, true, &accepted));
  *last = accepted || strncmp(stage_result(t)->reason, "accepted", 8) == 0 ||
          strncmp(stage_result(t)->reason, "time limit of the run", 21) == 0;
  stage_result(t)->steps = t->stage_step;
  stage_result(t)->seconds = t->stage_seconds;
  stage_result(t)->loss = t->result.loss;
  pn_opt_free(&t->opt);
  if (!*last)
    TN_TRY(pn_training_enough(t, last));
  t->stage = *last ? t->plan.n : t->stage + 1;
  return save(t, true);
}

tn_status pn_training_run(pn_training *t) {
  bool last = false;
  t->clock = pn_training_clock();
  t->saved = t->shown = t->seconds;
  t->result.outcome = PN_NOT_CONVERGED;
  while (!last && t->stage < t->plan.n)
    TN_TRY(run_stage(t, &last));
  pn_low_sum(t);
  TN_TRY(pn_training_judge(t));
  if (t->result.outcome == PN_CONVERGED || t->result.outcome == PN_NOT_CONVERGED)
    TN_TRY(pn_training_identify(t));
  if (t->clock > 0) {
    double now = pn_training_clock();
    t->seconds += now - t->clock;
    t->clock = now;
  }
  t->result.steps = t->step;
  t->result.seconds = t->seconds;
  return TN_OK;
}
