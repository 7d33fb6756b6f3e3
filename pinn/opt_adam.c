/* opt_adam.c: Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
 *
 *   g_i <- min(max(g_i, -clip_value), clip_value)                 if clip_value > 0
 *   g <- g min(1, clip / |g|)                                     if clip > 0
 *   m <- beta1 m + (1 - beta1) g,      v <- beta2 v + (1 - beta2) g^2
 *   theta <- theta - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * Weight decay: adam adds decay theta to g, so it passes through m and v (L2 regularisation); adamw
 * shrinks theta by rate decay theta beside the step, so it acts on all entries alike. The powers
 * beta^t are kept as running products, because pow is libm's and its last bit differs between
 * machines.
 *
 * eps = 1e-8 is the customary value. It acts as a floor on |g|: near the end of a PINN run
 * gradients are far below it and steps shrink; 1e-20 keeps the steps scale-free.
 *
 * State: m and v, 2 n words in f64 whatever the model's dtype, since both sum small terms. One
 * gradient a step, 12 n FLOP. A loss or gradient that is not finite changes nothing, m and v
 * included, and is reported; after 40 such steps in a row (a loss scale of 2^40 halved to 1) the
 * method gives up. Under a loss scale the gradient arrives unscaled, so both limits mean the same with and without
 * one; the scaler is asked before clipping and stepping, which finds a wrong order at once.
 */
#include "pinn/opt.h"
#include "pinn/scaler.h"
#include "pinn/vector.h"

#include <math.h>

enum { NONFINITE_MOST = 40 };

typedef struct {
  double beta1, beta2, eps, decay, clip, clip_value;
  double power1, power2; /* beta1^t, beta2^t after t steps */
  size_t nonfinite;      /* steps in a row without finite numbers */
  double *m, *v;         /* n, owned */
  double *g;             /* n, owned: scratch */
} adam;

static tn_status start(adam *a, const char *method, size_t n) {
  if (!(a->beta1 >= 0 && a->beta1 < 1))
    return TN_FAIL(TN_ERANGE, "%s: beta1 = %g is not in [0, 1)", method, a->beta1);
  if (!(a->beta2 >= 0 && a->beta2 < 1))
    return TN_FAIL(TN_ERANGE, "%s: beta2 = %g is not in [0, 1)", method, a->beta2);
  if (!(a->eps > 0 && a->eps < INFINITY))
    return TN_FAIL(TN_ERANGE, "%s: eps = %g is not a positive number", method, a->eps);
  if (!(a->decay >= 0 && a->decay < INFINITY))
    return TN_FAIL(TN_ERANGE, "%s: decay = %g is not 0 or a positive number", method, a->decay);
  if (!(a->clip >= 0 && a->clip < INFINITY))
    return TN_FAIL(TN_ERANGE, "%s: clip = %g is not 0 (off) or a positive number", method, a->clip);
  if (!(a->clip_value >= 0 && a->clip_value < INFINITY))
    return TN_FAIL(TN_ERANGE, "%s: clip_value = %g is not 0 (off) or a positive number", method,
                   a->clip_value);
  a->power1 = a->power2 = 1;
  TN_TRY(TN_NEW(n, &a->m));
  TN_TRY(TN_NEW(n, &a->v));
  return TN_NEW(n, &a->g);
}

static tn_status init_adam(void *state, size_t n, const pn_opt_context *context) {
  (void)context;
  return start(state, "adam", n);
}

static tn_status init_adamw(void *state, size_t n, const pn_opt_context *context) {
  (void)context;
  return start(state, "adamw", n);
}

/* theta and the moments move; a->g becomes the step. `shrink` is rate * decay of adamw, else 0. */
static void move(adam *a, size_t n, double *theta, double rate, double shrink) {
  a->power1 *= a->beta1;
  a->power2 *= a->beta2;
  const double unbias1 = 1 - a->power1, unbias2 = 1 - a->power2;
  for (size_t i = 0; i < n; ++i) {
    const double g = a->g[i];
    a->m[i] = a->beta1 * a->m[i] + (1 - a->beta1) * g;
    a->v[i] = a->beta2 * a->v[i] + (1 - a->beta2) * (g * g);
    const double size = sqrt(a->v[i] / unbias2) + a->eps;
    const double before = theta[i];
    theta[i] = before - shrink * before - rate * (a->m[i] / unbias1 / size);
    a->g[i] = theta[i] - before;
  }
}

/* First each entry, then the whole vector. norm: |g|. */
static tn_status clip(const adam *a, pn_scaler *scaler, size_t n, double norm) {
  if (scaler && (a->clip > 0 || a->clip_value > 0))
    TN_TRY(pn_scaler_clip(scaler));
  for (size_t i = 0; a->clip_value > 0 && i < n; ++i)
    a->g[i] = fmin(fmax(a->g[i], -a->clip_value), a->clip_value);
  if (a->clip_value > 0 && a->clip > 0)
    norm = pn_norm(n, a->g);
  if (a->clip > 0 && norm > a->clip)
    pn_scale(n, a->clip / norm, a->g);
  return TN_OK;
}

static tn_status take(adam *a, const pn_opt_context *context, pn_objective *f, size_t n,
                      double *theta, bool decoupled, pn_step_report *report) {
  double loss = NAN;
  report->gradients = 1;
  TN_TRY(pn_objective_gradient(f, theta, &loss, a->g));
  report->loss_before = loss;
  report->gradient_norm = pn_norm(n, a->g);
  bool finite = isfinite(loss) && isfinite(report->gradient_norm);
  if (finite)
    TN_TRY(clip(a, context->scaler, n, report->gradient_norm));
  if (context->scaler)
    TN_TRY(pn_scaler_step(context->scaler, &finite));
  if (!finite) {
    report->nonfinite = true;
    if (a->nonfinite < NONFINITE_MOST)
      a->nonfinite += 1;
    pn_report_reason(report, a->nonfinite == NONFINITE_MOST, "loss or gradient is not finite");
    return TN_OK;
  }
  if (!(context->rate >= 0 && context->rate < INFINITY))
    return TN_FAIL(TN_ERANGE, "learning rate %g is not 0 or a positive number", context->rate);
  a->nonfinite = 0;
  if (!decoupled && a->decay > 0)
    pn_axpy(n, a->decay, theta, a->g);
  move(a, n, theta, context->rate, decoupled ? context->rate * a->decay : 0);
  report->step_length = pn_norm(n, a->g);
  report->accepted = true;
  return TN_OK;
}

static tn_status step_adam(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                           double *theta, pn_step_report *report) {
  return take(state, context, f, n, theta, false, report);
}

static tn_status step_adamw(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                            double *theta, pn_step_report *report) {
  return take(state, context, f, n, theta, true, report);
}

static tn_status visit(void *state, size_t n, pn_state_visitor *visitor) {
  adam *a = state;
  double power1 = a->power1, power2 = a->power2;
  TN_TRY(visitor->number(visitor, "power1", &power1));
  TN_TRY(visitor->number(visitor, "power2", &power2));
  if (!(power1 >= 0 && power1 <= 1 && power2 >= 0 && power2 <= 1))
    return TN_FAIL(TN_EINPUT, "state: powers power1 = %g, power2 = %g of beta are not in [0, 1]",
                   power1, power2);
  a->power1 = power1;
  a->power2 = power2;
  TN_TRY(pn_visit_count(visitor, "nonfinite", NONFINITE_MOST, &a->nonfinite));
  TN_TRY(visitor->doubles(visitor, "m", n, a->m));
  return visitor->doubles(visitor, "v", n, a->v);
}

static void done(void *state) {
  adam *a = state;
  tn_free(&a->m);
  tn_free(&a->v);
  tn_free(&a->g);
}

#define MOMENTS                                                                                    \
  {"beta1", offsetof(adam, beta1), PN_OPTION_REAL, 0.9, "memory of the gradient, in [0, 1)"},      \
      {"beta2", offsetof(adam, beta2), PN_OPTION_REAL, 0.999, "memory of its square, in [0, 1)"},  \
      {"eps", offsetof(adam, eps), PN_OPTION_REAL, 1e-8, "floor of the gradient size, > 0"},       \
      {"clip", offsetof(adam, clip), PN_OPTION_REAL, 0, "longest gradient vector; 0: any"}, {      \
    "clip_value", offsetof(adam, clip_value), PN_OPTION_REAL, 0, "largest entry of it; 0: any"     \
  }

static const pn_option options_adam[] = {
    MOMENTS,
    {"decay", offsetof(adam, decay), PN_OPTION_REAL, 0, "L2 term added to the gradient, >= 0"},
    {0},
};

static const pn_option options_adamw[] = {
    MOMENTS,
    {"decay", offsetof(adam, decay), PN_OPTION_REAL, 0.01, "shrinking beside the step, >= 0"},
    {0},
};

const pn_opt_class pn_opt_adam = {"adam",       "Adam with bias correction",
                                  sizeof(adam), options_adam,
                                  PN_OPT_RATE,  init_adam,
                                  step_adam,    visit,
                                  NULL,         done};

const pn_opt_class pn_opt_adamw = {"adamw",      "Adam with decoupled weight decay",
                                   sizeof(adam), options_adamw,
                                   PN_OPT_RATE,  init_adamw,
                                   step_adamw,   visit,
                                   NULL,         done};
