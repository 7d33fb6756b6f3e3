/* underflow_judge.c: from the measures of a study to windows of scales and a sentence of advice.
 *
 * The loss scale S = 2^s multiplies every adjoint; activations and weights do not see it. A channel that is
 * carried as 2^-a times its value has activations 2^-a and adjoints 2^a times as large. So
 *
 *   one scale for all   s in the window of every channel's adjoints, 0 in those of its activations
 *   a scale a channel   -a in the window of its activations and s + a in that of its adjoints, in all layers
 *
 * Among the loss scales that were run, the advice takes the middle of the common window, because a training
 * drifts both ways; without a common window, the one that needs the smallest shifts. Range is one half of the
 * answer, precision the other: the advice says yes only if the gradient of the run at that scale points the
 * same way as the reference.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/validate.h"

static const double good_cosine = 0.99;

/* ---- Filling --------------------------------------------------------------------------------- */

void vd_underflow_free(vd_underflow *study) {
  for (size_t i = 0; i < study->n_channels; ++i) {
    tn_free(&study->channels[i].run);
    tn_free(&study->channels[i].rounded);
  }
  tn_free(&study->channels);
  tn_free(&study->block);
  tn_free(&study->gradient);
  tn_free(&study->single);
  tn_free(&study->moved);
  tn_free(&study->steps);
  tn_free(&study->groups);
  *study = (vd_underflow){0};
}

tn_status vd_underflow_fact(vd_underflow *study, const char *key, const char *format, ...) {
  size_t room = sizeof study->fact / sizeof study->fact[0];
  if (study->n_facts == room)
    return TN_FAIL(TN_ERANGE, "underflow study: fact `%s` is one too many, %zu have room", key,
                   room);
  va_list args;
  va_start(args, format);
  vsnprintf(study->fact[study->n_facts].value, sizeof study->fact[0].value, format, args);
  va_end(args);
  snprintf(study->fact[study->n_facts].key, sizeof study->fact[0].key, "%s", key);
  ++study->n_facts;
  return TN_OK;
}

tn_status vd_underflow_channel(vd_underflow *study, vd_operand operand, const char *layer,
                               const char *label, const char *at, size_t *out) {
  size_t n = study->n_channels;
  TN_TRY(tn_grow(&study->channels, n, n + 1, sizeof *study->channels));
  vd_channel *c = &study->channels[n];
  bool scaled = operand == VD_ADJOINT || operand == VD_WEIGHT_GRADIENT;
  TN_TRY(TN_NEW(scaled ? study->n_scales : 1, &c->run));
  tn_status status = TN_NEW(scaled ? study->n_scales : 1, &c->rounded);
  if (status != TN_OK) {
    tn_free(&c->run);
    return status;
  }
  c->operand = operand;
  snprintf(c->layer, sizeof c->layer, "%s", layer);
  snprintf(c->label, sizeof c->label, "%s", label);
  snprintf(c->at, sizeof c->at, "%s", at);
  study->n_channels = n + 1;
  *out = n;
  return TN_OK;
}

void vd_underflow_reference(vd_underflow *study, size_t channel, size_t n, const double *x) {
  vd_channel *c = &study->channels[channel];
  bool scaled = c->operand == VD_ADJOINT || c->operand == VD_WEIGHT_GRADIENT;
  vd_histogram_add(&c->histogram, n, x);
  for (size_t k = 0; k < (scaled ? study->n_scales : 1); ++k)
    vd_tally_round(&c->rounded[k], &study->format, scaled ? study->scale[k] : 0, n, x, x);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static const vd_window everywhere = {-VD_SCALE_MOST, VD_SCALE_MOST};

static vd_window both(vd_window a, vd_window b) {
  return (vd_window){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static bool holds(vd_window w, int s) { return w.lo <= s && s <= w.hi; }

static bool of_group(const vd_channel *c, const vd_group *g) {
  return !c->kept && c->operand <= VD_ADJOINT && strcmp(c->label, g->label) == 0 &&
         strcmp(c->at, g->at) == 0;
}

static tn_status make_groups(vd_underflow *u) {
  tn_free(&u->groups);
  u->n_groups = 0;
  TN_TRY(TN_NEW(u->n_channels, &u->groups));
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    if (c->kept || c->operand > VD_ADJOINT)
      continue;
    vd_group *g = u->groups;
    while (g < u->groups + u->n_groups && !of_group(c, g))
      ++g;
    if (g == u->groups + u->n_groups) {
      *g = (vd_group){.activation = everywhere, .adjoint = everywhere};
      snprintf(g->label, sizeof g->label, "%s", c->label);
      snprintf(g->at, sizeof g->at, "%s", c->at);
      ++u->n_groups;
    }
    vd_window *w = c->operand == VD_ADJOINT ? &g->adjoint : &g->activation;
    *w = both(*w, c->window);
  }
  return TN_OK;
}

static vd_window common_window(const vd_underflow *u) {
  vd_window all = everywhere;
  if (u->n_scales > 0)
    all = (vd_window){u->scale[0], u->scale[u->n_scales - 1]};
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    bool scaled = c->operand == VD_ADJOINT || c->operand == VD_WEIGHT_GRADIENT;
    if (c->kept)
      continue;
    if (scaled)
      all = both(all, c->window);
    else if (!holds(c->window, 0))
      all.hi = all.lo - 1;
  }
  return all;
}

/* The shift nearest to 0 with which a channel bears the loss scale 2^s; false if there is none. */
static bool shift_of(const vd_group *g, int s, int *shift) {
  vd_window w = both((vd_window){-g->activation.hi, -g->activation.lo},
                     (vd_window){g->adjoint.lo - s, g->adjoint.hi - s});
  *shift = w.lo > 0 ? w.lo : w.hi < 0 ? w.hi : 0;
  return w.lo <= w.hi;
}

/* The sum of |shifts| at 2^s, written into the groups; more for each channel that no shift helps. */
static int shift_all(vd_underflow *u, int s) {
  int sum = 0;
  for (size_t i = 0; i < u->n_groups; ++i) {
    vd_group *g = &u->groups[i];
    g->shiftable = shift_of(g, s, &g->shift);
    if (!g->shiftable)
      g->shift = 0;
    sum += g->shiftable ? abs(g->shift) : 1000;
  }
  return sum;
}

static void choose_scale(vd_underflow *u) {
  u->best = 0;
  if (u->n_scales == 0)
    return;
  int least = -1, middle = (u->window.lo + u->window.hi) / 2;
  bool common = u->window.lo <= u->window.hi;
  for (size_t k = 0; k < u->n_scales; ++k) {
    int s = u->scale[k], cost = common ? abs(s - middle) : shift_all(u, s);
    if (least >= 0 && cost >= least)
      continue;
    least = cost;
    u->best = s;
  }
  shift_all(u, u->best);
}

/* ---- Advice ---------------------------------------------------------------------------------- */

static void say(vd_underflow *u, const char *format, ...) TN_PRINTF(2, 3);
static void say(vd_underflow *u, const char *format, ...) {
  size_t used = strlen(u->advice);
  va_list args;
  va_start(args, format);
  vsnprintf(u->advice + used, sizeof u->advice - used, format, args);
  va_end(args);
}

static const vd_gradient *whole(const vd_underflow *u, int s) {
  for (size_t k = 0; u->gradient != NULL && k < u->n_scales; ++k)
    if (u->scale[k] == s)
      return &u->gradient[u->n_blocks * u->n_scales + k];
  return NULL;
}

/* "adjoint of `x` (interior) in net1.layer2", "weights of net1.layer2" */
static const char *naming(const vd_channel *c, char text[300]) {
  if (c->operand == VD_WEIGHT)
    snprintf(text, 300, "weights of %s", c->layer);
  else if (c->operand == VD_WEIGHT_GRADIENT)
    snprintf(text, 300, "weight gradient of %s", c->layer);
  else
    snprintf(text, 300, "%s of `%s`%s%s%s in %s", vd_operand_name(c->operand), c->label,
             c->at[0] ? " (" : "", c->at, c->at[0] ? ")" : "", c->layer);
  return text;
}

/* The adjoint whose window ends first at the lower (or upper) end. */
static const vd_channel *limiting(const vd_underflow *u, bool upper) {
  const vd_channel *worst = NULL;
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    if (c->kept || (c->operand != VD_ADJOINT && c->operand != VD_WEIGHT_GRADIENT))
      continue;
    if (worst == NULL ||
        (upper ? c->window.hi < worst->window.hi : c->window.lo > worst->window.lo))
      worst = c;
  }
  return worst;
}

static void say_gradient(vd_underflow *u, const vd_gradient *g) {
  say(u, " There the gradient is off by %.2g of its length, with cosine %.6f", g->error, g->cosine);
  if (u->single != NULL)
    say(u, " (f32: off by %.2g)", u->single[u->n_blocks].error);
  say(u, ".");
}

static void say_limits(vd_underflow *u) {
  char text[300];
  const vd_channel *low = limiting(u, false), *high = limiting(u, true);
  if (low != NULL && u->window.lo > u->scale[0])
    say(u, " Below 2^%d the %s underflows.", u->window.lo, naming(low, text));
  if (high != NULL && u->window.hi < u->scale[u->n_scales - 1])
    say(u, " Above 2^%d the %s overflows.", u->window.hi, naming(high, text));
}

/* Where to train on, if the format is too coarse: three products of f16 or tf32 for one have
 * f32's digits, nearly; of bf16 16 bits, which may be too few as well. */
static const char *remedy(const vd_underflow *u) {
  if (u->single != NULL && !(u->single[u->n_blocks].cosine >= good_cosine))
    return "train on from here in f64";
  return u->pure || u->format.dtype == TN_BF16
             ? "train on from here in f32 or f64"
             : "train on from here in f32 or f64, or with three products for one "
               "(precision.products = 3)";
}

static void say_imprecise(vd_underflow *u, const vd_gradient *g) {
  const char *name = tn_dtype_name(u->format.dtype);
  if (g->nonfinite > 0) {
    say(u,
        "%s does not carry this step: at 2^%d %zu entries of the gradient are not finite, though all "
        "that matrix products multiply is in range. A number beside them, as a constant, a residual "
        "or the loss, is not.",
        name, u->best, g->nonfinite);
    return;
  }
  say(u,
      "The range of %s suffices at loss scales 2^%d to 2^%d, its precision does not: at 2^%d the "
      "gradient is off by %.2g of its length (cosine %.3f)",
      name, u->window.lo, u->window.hi, u->best, g->error, g->cosine);
  if (u->single != NULL)
    say(u, ", in f32 by %.2g", u->single[u->n_blocks].error);
  say(u,
      ". One rounding to %s changes a number by up to %.1e of it, and here that is more than what "
      "the residuals leave"
      " over. No loss scale changes that: %s.",
      name, u->format.roundoff, remedy(u));
}

/* The largest share of its mass that the adjoints of a channel lose at the advised scale, without shifts. */
static double most_lost(const vd_underflow *u) {
  double most = 0;
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    if (!c->kept && c->operand == VD_ADJOINT)
      most = fmax(most, vd_histogram_lost(&c->histogram, &u->format, u->best));
  }
  return most;
}

/* Range can be mended by scales of channels; is that all? The run had none of them, so its gradient is off by
 * rounding and by what underflows, and only an error far above the latter is one of precision. */
static void say_precision_too(vd_underflow *u) {
  const vd_gradient *g = whole(u, u->best);
  if (g == NULL || g->nonfinite > 0 || g->cosine >= good_cosine)
    return;
  double lost = most_lost(u);
  say(u,
      " But at 2^%d, without them, the gradient is off by %.2g of its length (cosine %.3f), and no "
      "channel loses more than %.2g of its adjoints there",
      u->best, g->error, g->cosine, lost);
  if (g->error > 10 * lost)
    say(u, ": its precision does not suffice either, so %s.", remedy(u));
  else
    say(u, ".");
}

static void say_empty(vd_underflow *u) {
  char text[300], other[300];
  const char *name = tn_dtype_name(u->format.dtype);
  const vd_channel *low = limiting(u, false), *high = limiting(u, true);
  say(u, "No loss scale carries this step in %s", name);
  bool outside = false;
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    if (c->kept || c->operand == VD_ADJOINT || c->operand == VD_WEIGHT_GRADIENT ||
        holds(c->window, 0))
      continue;
    say(u, ": the %s %s, out of reach of a loss scale.", naming(c, text),
        c->window.hi < 0 ? "overflows" : "underflows");
    outside = true;
    break;
  }
  if (!outside && low != NULL && low->window.lo > low->window.hi)
    say(u, ": the %s alone spans more than its range.", naming(low, text));
  else if (!outside && low != NULL && low->window.lo > u->scale[u->n_scales - 1])
    say(u, " that was tried: the %s needs 2^%d.", naming(low, text), low->window.lo);
  else if (!outside && high != NULL && high->window.hi < u->scale[0])
    say(u, ": the %s bears at most 2^%d.", naming(high, text), high->window.hi);
  else if (!outside && low != NULL)
    say(u, ": the %s needs at least 2^%d, and the %s bears at most 2^%d.", naming(low, text),
        low->window.lo, naming(high, other), high->window.hi);
  for (size_t i = 0; i < u->n_groups; ++i) {
    if (u->groups[i].shiftable)
      continue;
    say(u,
        " Scales of channels do not help either: none brings activations and adjoints of `%s` into "
        "range.",
        u->groups[i].label);
    return;
  }
  say(u, " Scales of channels would bring all into range, at loss scale 2^%d:", u->best);
  bool first = true;
  for (size_t i = 0; i < u->n_groups; ++i) {
    const vd_group *g = &u->groups[i];
    if (g->shift == 0)
      continue;
    say(u, "%s `%s`%s%s%s as 2^%d times its value", first ? "" : ",", g->label,
        g->at[0] ? " (" : "", g->at, g->at[0] ? ")" : "", -g->shift);
    first = false;
  }
  say(u, first ? " none is needed." : ".");
  say_precision_too(u);
}

static void advise(vd_underflow *u) {
  const vd_gradient *g = whole(u, u->best);
  u->advice[0] = '\0';
  if (u->n_channels == 0) {
    say(u, "Nothing is computed in %s here: no product of matrices is wide enough for it.",
        tn_dtype_name(u->format.dtype));
  } else if (u->window.lo > u->window.hi) {
    say_empty(u);
  } else if (g != NULL && !(g->cosine >= good_cosine)) {
    say_imprecise(u, g);
  } else if (u->n_scales > 0 && u->window.lo == u->scale[0] &&
             u->window.hi == u->scale[u->n_scales - 1]) {
    u->carried = true;
    say(u, "%s carries this step at every loss scale from 2^%d to 2^%d: none is needed.",
        tn_dtype_name(u->format.dtype), u->window.lo, u->window.hi);
    if (g != NULL)
      say_gradient(u, g);
  } else {
    u->carried = true;
    say(u, "%s carries this step at loss scales 2^%d to 2^%d; 2^%d is advised.",
        tn_dtype_name(u->format.dtype), u->window.lo, u->window.hi, u->best);
    if (g != NULL)
      say_gradient(u, g);
    say_limits(u);
  }
}

tn_status vd_underflow_judge(vd_underflow *u) {
  if (u->limit <= 0)
    u->limit = 1e-3;
  u->carried = false;
  for (size_t i = 0; i < u->n_channels; ++i)
    u->channels[i].window = vd_histogram_window(&u->channels[i].histogram, &u->format, u->limit);
  TN_TRY(make_groups(u));
  u->window = common_window(u);
  choose_scale(u);
  advise(u);
  return TN_OK;
}
