/* scaler.c: the loss scale: grows while all is well, shrinks when a number overflows.
 *
 *   g(S) = d(S L)/dtheta / S,   S a power of two
 *
 * 16-bit adjoints below 2^-24 are zero; multiplied by S first they are kept, and the division at the end is exact in
 * f64. So outside overflow and underflow not one bit of g depends on S, which is why only powers of two are taken.
 *
 *   something not finite   nothing is changed by the step; S <- S backoff, but not below `least`; count <- 0
 *   all finite             count <- count + 1; at `interval`: S <- S growth if that is finite in f32, count <- 0
 *
 * These are the rules that users of other mixed-precision trainers know, with two additions. Without a floor, a NaN
 * that no scale cures drives S to 0; here it is recognised at `least` (1: the loss as it is), because what is not
 * finite at the least scale is not the scale's doing. And a stage that skips `budget` of its last `window` steps is
 * not training any more and ends.
 *
 * Cost: one pass over the gradient. State: a few numbers, all of them in checkpoints.
 */
#include "pinn/scaler.h"

#include <float.h>
#include <math.h>

static const double scale_most = 0x1p127; /* the largest power of two of f32 */

pn_scaler_options pn_scaler_standard(void) {
  return (pn_scaler_options){.scale = 0x1p16,
                             .growth = 2,
                             .backoff = 0.5,
                             .interval = 2000,
                             .least = 1,
                             .budget = 20,
                             .window = 100};
}

static bool power_of_two(double x) {
  int exponent = 0;
  return isfinite(x) && x > 0 && frexp(x, &exponent) == 0.5;
}

static tn_status check_scale(const char *what, double x, double least) {
  if (isnan(x))
    return TN_FAIL(TN_ERANGE, "loss scale: the %s is NaN", what);
  if (!power_of_two(x))
    return TN_FAIL(
        TN_ERANGE,
        "loss scale: the %s is %g, expected a power of two, lest scaling changes numbers", what, x);
  if (!(x >= least && x <= scale_most))
    return TN_FAIL(TN_ERANGE, "loss scale: the %s is %g, expected %g to 2^127", what, x, least);
  return TN_OK;
}

tn_status pn_scaler_check(const pn_scaler_options *o) {
  TN_TRY(check_scale("least scale", o->least, 0x1p-126));
  TN_TRY(check_scale("first scale", o->scale, o->least));
  if (!(o->growth > 1))
    return TN_FAIL(TN_ERANGE, "loss scale: growth is %g, expected a power of two above 1",
                   o->growth);
  TN_TRY(check_scale("growth", o->growth, 2));
  if (!(o->backoff < 1 && o->backoff > 0))
    return TN_FAIL(TN_ERANGE, "loss scale: backoff is %g, expected a power of two between 0 and 1",
                   o->backoff);
  TN_TRY(check_scale("backoff", o->backoff, 0x1p-126));
  if (o->interval < 1)
    return TN_FAIL(TN_ERANGE, "loss scale: the interval is 0 steps, expected at least 1");
  if (o->budget < 1 || o->budget > PN_SCALER_BUDGET || o->window < o->budget)
    return TN_FAIL(
        TN_ERANGE,
        "loss scale: %zu skipped of %zu steps; expected 1 to %d, and no more than the window",
        o->budget, o->window, PN_SCALER_BUDGET);
  return TN_OK;
}

tn_status pn_scaler_init(pn_scaler *s, const pn_scaler_options *options) {
  TN_TRY(pn_scaler_check(options));
  *s = (pn_scaler){.options = *options, .scale = options->scale};
  return TN_OK;
}

/* ---- One step -------------------------------------------------------------------------------- */

static const char *const done_words[] = {
    [PN_SCALER_READY] = "no step has begun",
    [PN_SCALER_BEGUN] = "the loss is scaled but its gradient is not formed",
    [PN_SCALER_BACKWARD] = "the gradient is not summed over the processes",
    [PN_SCALER_REDUCED] = "the gradient still carries the scale",
    [PN_SCALER_UNSCALED] = "the gradient is unscaled already",
    [PN_SCALER_CLIPPED] = "the gradient is unscaled and clipped already",
    [PN_SCALER_STEPPED] = "the step is over and waits for update",
};

/* TN_OK if the phase lies in from .. to. */
static tn_status expect(const pn_scaler *s, const char *call, pn_scaler_phase from,
                        pn_scaler_phase to) {
  if (s->frozen)
    return TN_FAIL(TN_ESTATE, "loss scale: %s, but the scale is frozen for a line search", call);
  if (s->phase >= from && s->phase <= to)
    return TN_OK;
  return TN_FAIL(
      TN_ESTATE,
      "loss scale: %s out of order: %s (begin, backward, reduce, unscale, clip, step, update)",
      call, done_words[s->phase]);
}

tn_status pn_scaler_begin(pn_scaler *s, double *scale) {
  TN_TRY(expect(s, "begin", PN_SCALER_READY, PN_SCALER_READY));
  s->phase = PN_SCALER_BEGUN;
  s->found = false;
  *scale = s->scale;
  return TN_OK;
}

tn_status pn_scaler_backward(pn_scaler *s) {
  TN_TRY(expect(s, "backward", PN_SCALER_BEGUN, PN_SCALER_BEGUN));
  s->phase = PN_SCALER_BACKWARD;
  return TN_OK;
}

tn_status pn_scaler_reduce(pn_scaler *s, bool found) {
  TN_TRY(expect(s, "reduce", PN_SCALER_BACKWARD, PN_SCALER_BACKWARD));
  s->phase = PN_SCALER_REDUCED;
  s->found = s->found || found;
  return TN_OK;
}

tn_status pn_scaler_unscale(pn_scaler *s, tn_dtype dtype, size_t n, double *g) {
  TN_TRY(expect(s, "unscale", PN_SCALER_REDUCED, PN_SCALER_REDUCED));
  if (dtype != TN_F32 && dtype != TN_F64)
    return TN_FAIL(
        TN_EDTYPE,
        "loss scale: gradients of weights in %s have lost already what a scale would keep; "
        "expected f32 or f64",
        tn_dtype_name(dtype));
  bool finite = true;
  for (size_t i = 0; i < n; ++i) { /* every entry, also after a bad one */
    finite = finite && isfinite(g[i]);
    g[i] /= s->scale;
  }
  s->found = s->found || !finite;
  s->phase = PN_SCALER_UNSCALED;
  return TN_OK;
}

tn_status pn_scaler_look(pn_scaler *s, double x) {
  TN_TRY(expect(s, "look", PN_SCALER_UNSCALED, PN_SCALER_CLIPPED));
  s->found = s->found || !isfinite(x);
  return TN_OK;
}

tn_status pn_scaler_clip(pn_scaler *s) {
  TN_TRY(expect(s, "clip", PN_SCALER_UNSCALED, PN_SCALER_CLIPPED));
  s->phase = PN_SCALER_CLIPPED;
  return TN_OK;
}

tn_status pn_scaler_step(pn_scaler *s, bool *take) {
  *take = false;
  TN_TRY(expect(s, "step", PN_SCALER_UNSCALED, PN_SCALER_CLIPPED));
  s->phase = PN_SCALER_STEPPED;
  *take = !s->found;
  return TN_OK;
}

/* Counts the skipped step number s->steps. Is it the budget-th within the window? */
static bool over_budget(pn_scaler *s) {
  const size_t budget = s->options.budget;
  s->recent[s->skips++ % budget] = (double)s->steps;
  if (s->skips < budget)
    return false;
  const double oldest = s->recent[s->skips % budget]; /* budget - 1 skips before this one */
  return (double)s->steps - oldest < (double)s->options.window;
}

tn_status pn_scaler_update(pn_scaler *s, pn_scaler_verdict *verdict) {
  TN_TRY(expect(s, "update", PN_SCALER_STEPPED, PN_SCALER_STEPPED));
  s->phase = PN_SCALER_READY;
  ++s->steps;
  *verdict = PN_SCALER_GOOD;
  if (!s->found) {
    if (++s->tracker < s->options.interval)
      return TN_OK;
    s->tracker = 0;
    if (s->scale * s->options.growth <= scale_most)
      s->scale *= s->options.growth;
    return TN_OK;
  }
  bool floor = s->scale <= s->options.least;
  s->tracker = 0;
  s->scale = fmax(s->scale * s->options.backoff, s->options.least);
  *verdict = over_budget(s) ? PN_SCALER_OVERBUDGET : PN_SCALER_SKIPPED;
  if (floor)
    *verdict = PN_SCALER_FLOOR;
  return TN_OK;
}

/* ---- Frozen ---------------------------------------------------------------------------------- */

static tn_status between_steps(const pn_scaler *s, const char *call) {
  if (s->phase == PN_SCALER_READY)
    return TN_OK;
  return TN_FAIL(TN_ESTATE, "loss scale: %s in the middle of a step: %s", call,
                 done_words[s->phase]);
}

tn_status pn_scaler_freeze(pn_scaler *s, double scale) {
  TN_TRY(between_steps(s, "freeze"));
  TN_TRY(check_scale("frozen scale", scale, s->options.least));
  s->frozen = true;
  s->scale = scale;
  return TN_OK;
}

tn_status pn_scaler_closure(const pn_scaler *s, double *scale) {
  if (!s->frozen)
    return TN_FAIL(TN_ESTATE,
                   "loss scale: a method that evaluates many times a step would compare losses "
                   "and gradients of different scales; freeze the scale first");
  *scale = s->scale;
  return TN_OK;
}

tn_status pn_scaler_missed(pn_scaler *s, pn_scaler_verdict *verdict) {
  if (!s->frozen)
    return TN_FAIL(TN_ESTATE, "loss scale: a missed step without a frozen scale; call update");
  ++s->steps;
  bool floor = s->scale <= s->options.least;
  *verdict = over_budget(s) ? PN_SCALER_OVERBUDGET : PN_SCALER_SKIPPED;
  if (floor)
    *verdict = PN_SCALER_FLOOR;
  return TN_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

tn_status pn_scaler_visit(pn_scaler *s, pn_state_visitor *v) {
  const size_t most = (size_t)1 << 50;
  pn_scaler t = *s; /* a bad restore leaves the scaler as it was */
  TN_TRY(between_steps(s, v->restores ? "restore" : "save"));
  TN_TRY(v->number(v, "scale", &t.scale));
  TN_TRY(v->number(v, "first", &t.options.scale));
  TN_TRY(v->number(v, "growth", &t.options.growth));
  TN_TRY(v->number(v, "backoff", &t.options.backoff));
  TN_TRY(v->number(v, "least", &t.options.least));
  TN_TRY(pn_visit_count(v, "interval", most, &t.options.interval));
  TN_TRY(pn_visit_count(v, "budget", PN_SCALER_BUDGET, &t.options.budget));
  TN_TRY(pn_visit_count(v, "window", most, &t.options.window));
  TN_TRY(pn_visit_count(v, "tracker", most, &t.tracker));
  TN_TRY(pn_visit_count(v, "steps", most, &t.steps));
  TN_TRY(pn_visit_count(v, "skips", most, &t.skips));
  TN_TRY(pn_visit_flag(v, "frozen", &t.frozen));
  TN_TRY(v->doubles(v, "recent", PN_SCALER_BUDGET, t.recent));
  if (!v->restores)
    return TN_OK;
  TN_TRY(pn_scaler_check(&t.options));
  TN_TRY(check_scale("scale", t.scale, t.options.least));
  *s = t;
  return TN_OK;
}
