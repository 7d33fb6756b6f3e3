/* linesearch.c: strong Wolfe line search that still works where the loss is all rounding.
 *
 * With phi(a) = L(x + a p) and phi'(a) = p'g(x + a p), phi'(0) < 0, a step a is accepted if
 *
 *   phi(a) <= phi(0) + c1 a phi'(0)      (decrease)      and      |phi'(a)| <= c2 |phi'(0)|
 * (slope).
 *
 * The slope condition is what gives quasi-Newton updates y's > 0. One loop serves bracketing and
 * zoom (Nocedal and Wright, algorithms 3.5 and 3.6): `low` is the best point that satisfies the
 * decrease condition, its slope points toward `high`, and high is infinite until an upper end is
 * seen. Without high the step grows by the cubic through the last two points, at least 2.1 and at
 * most 5 times their distance; with it the cubic is kept inside the middle 80 % of the bracket, and
 * a bracket that has not shrunk to 2/3 in two trials is halved (More and Thuente's guard).
 *
 * Near a minimum phi(a) - phi(0) drowns: a relative change below u cannot be seen although slopes
 * still carry 8 digits. So a trial whose loss equals phi(0) up to `noise` |phi(0)| is judged by its
 * slope alone (the approximate Wolfe condition of Hager and Zhang 2005), both for acceptance and
 * for the side of the bracket, and the interpolation is then the secant of the slopes. No absolute
 * tolerance occurs: a loss of 1e-28 is treated like one of 1e+4.
 *
 * A trial where loss or slope is not finite is an upper end without value: the step falls to a
 * tenth, or to the middle of the bracket once a good lower end exists.
 *
 * Cost: one loss and gradient per trial; usually one trial, 2-3 at the start.
 */
#include "pinn/linesearch.h"

#include "pinn/vector.h"

#include <float.h>
#include <math.h>

typedef struct {
  double alpha, loss, slope;
  bool finite;
} trial;

typedef struct {
  pn_objective *f;
  const double *x, *p;
  const pn_wolfe *rule;
  double *x_new, *g_new;
  trial zero;      /* alpha = 0 */
  trial low, high; /* see above */
  trial previous;  /* the low before, for extrapolation */
  bool has_high;
  double width[2];    /* of the bracket, one and two trials ago */
  double at;          /* the alpha that x_new and g_new belong to */
  bool seen_finite;   /* some trial was finite */
  size_t evaluations; /* so far */
} search;

pn_wolfe pn_wolfe_standard(void) {
  const pn_wolfe rule = {1e-4, 0.9, 1, 1e100, 1e-10, 40};
  return rule;
}

tn_status pn_wolfe_check(const pn_wolfe *rule, const char *method) {
  if (!(rule->c1 > 0 && rule->c1 < rule->c2 && rule->c2 < 1))
    return TN_FAIL(TN_ERANGE, "%s: c1 = %g and c2 = %g do not satisfy 0 < c1 < c2 < 1", method,
                   rule->c1, rule->c2);
  if (!(rule->first > 0 && rule->first <= rule->maximum && rule->maximum < INFINITY))
    return TN_FAIL(TN_ERANGE, "%s: first step %g is not in (0, %g], the longest step", method,
                   rule->first, rule->maximum);
  if (!(rule->noise >= 0 && rule->noise < 1))
    return TN_FAIL(TN_ERANGE, "%s: noise = %g is not in [0, 1)", method, rule->noise);
  if (rule->evaluations < 1)
    return TN_FAIL(TN_ERANGE, "%s: a line search needs at least 1 evaluation", method);
  return TN_OK;
}

static bool differs(size_t n, const double *x, const double *y) {
  for (size_t i = 0; i < n; ++i)
    if (x[i] != y[i])
      return true;
  return false;
}

static tn_status evaluate(search *s, double alpha, trial *t) {
  t->alpha = alpha;
  s->at = alpha;
  s->evaluations += 1;
  TN_TRY(pn_objective_gradient(s->f, s->x_new, &t->loss, s->g_new));
  t->slope = pn_dot(s->f->n, s->p, s->g_new);
  t->finite = isfinite(t->loss) && isfinite(t->slope);
  s->seen_finite |= t->finite;
  return TN_OK;
}

/* |phi(a) - phi(b)| is rounding. */
static bool equal_loss(const search *s, const trial *a, const trial *b) {
  return fabs(a->loss - b->loss) <= s->rule->noise * fabs(s->zero.loss);
}

static bool decreases(const search *s, const trial *t) {
  return t->loss <= s->zero.loss + s->rule->c1 * t->alpha * s->zero.slope;
}

/* The minimum of the cubic with the values and slopes of a and b; NaN if it has none. The slopes
 * are divided by the largest of the three numbers, lest their squares underflow. */
static double cubic_minimum(const trial *a, const trial *b) {
  const double d1 = a->slope + b->slope - 3 * ((a->loss - b->loss) / (a->alpha - b->alpha));
  const double size = fmax(fabs(d1), fmax(fabs(a->slope), fabs(b->slope)));
  const double e1 = d1 / size, ea = a->slope / size, eb = b->slope / size;
  const double root = e1 * e1 - ea * eb;
  if (!(root >= 0))
    return NAN;
  const double e2 = b->alpha > a->alpha ? sqrt(root) : -sqrt(root);
  return b->alpha - (b->alpha - a->alpha) * ((eb + e2 - e1) / (eb - ea + 2 * e2));
}

static double secant_minimum(const trial *a, const trial *b) {
  return a->alpha + (b->alpha - a->alpha) * (a->slope / (a->slope - b->slope));
}

static double clamp(double x, double least, double most) {
  return x < least ? least : x > most ? most : x;
}

/* Beyond low, while no upper end is known. */
static double extrapolate(const search *s) {
  const double width = s->low.alpha - s->previous.alpha;
  double next = equal_loss(s, &s->low, &s->previous) ? secant_minimum(&s->previous, &s->low)
                                                     : cubic_minimum(&s->previous, &s->low);
  if (!(next > s->low.alpha))
    next = INFINITY; /* also NaN: the slope does not rise yet */
  next = clamp(next, s->low.alpha + 1.1 * width, s->low.alpha + 4 * width);
  return next < s->rule->maximum ? next : s->rule->maximum;
}

/* Between low and high. */
static double interpolate(search *s) {
  const double a = s->low.alpha, width = s->high.alpha - a; /* signed */
  const bool slow = fabs(width) > 0.66 * s->width[1];
  s->width[1] = s->width[0];
  s->width[0] = fabs(width);
  if (!s->high.finite)
    return a + (a > 0 ? 0.5 : 0.1) * width;
  if (slow)
    return a + 0.5 * width;
  const bool opposite = s->low.slope * s->high.slope < 0;
  const double next = equal_loss(s, &s->low, &s->high) && opposite
                          ? secant_minimum(&s->low, &s->high)
                          : cubic_minimum(&s->low, &s->high);
  const double share = (next - a) / width;
  return isnan(share) ? a + 0.5 * width : a + clamp(share, 0.1, 0.9) * width;
}

/* Puts a trial that is not accepted into the bracket. */
static void place(search *s, const trial *t) {
  const bool quiet = t->finite && equal_loss(s, t, &s->zero);
  const bool good = t->finite && (quiet || (decreases(s, t) && t->loss < s->low.loss));
  if (!good) {
    s->high = *t;
    s->has_high = true;
    return;
  }
  const double toward = s->has_high ? s->high.alpha - s->low.alpha : 1;
  if (t->slope * toward >= 0) {
    s->high = s->low;
    s->has_high = true;
  }
  s->previous = s->low;
  s->low = *t;
}

/* The search is over without a Wolfe point: the best point if it is better, else nothing. */
static tn_status settle(search *s, const char *reason, pn_search_result *result) {
  result->reason = reason;
  result->alpha = 0;
  if (s->low.alpha > 0 && s->low.loss < s->zero.loss) {
    trial t = s->low;
    if (s->at != t.alpha) {
      pn_add_scaled(s->f->n, s->x, t.alpha, s->p, s->x_new);
      TN_TRY(evaluate(s, t.alpha, &t));
    }
    result->outcome = PN_SEARCH_DECREASE;
    result->alpha = t.alpha;
    result->loss = t.loss;
    result->slope = t.slope;
  } else if (s->evaluations > 0 && !s->seen_finite) {
    result->reason = "the loss is not finite along the direction";
  }
  result->evaluations = s->evaluations;
  return TN_OK;
}

static tn_status run(search *s, pn_search_result *result) {
  const pn_wolfe *rule = s->rule;
  double alpha = rule->first;
  while (s->evaluations < rule->evaluations) {
    trial t;
    pn_add_scaled(s->f->n, s->x, alpha, s->p, s->x_new);
    if (!differs(s->f->n, s->x, s->x_new)) {
      s->at = alpha;
      return settle(s, "the step is below the rounding of the parameters", result);
    }
    TN_TRY(evaluate(s, alpha, &t));
    if (t.finite && fabs(t.slope) <= rule->c2 * fabs(s->zero.slope) &&
        (decreases(s, &t) || equal_loss(s, &t, &s->zero))) {
      const pn_search_outcome outcome = decreases(s, &t) ? PN_SEARCH_WOLFE : PN_SEARCH_APPROXIMATE;
      *result = (pn_search_result){outcome, alpha, t.loss, t.slope, s->evaluations, ""};
      return TN_OK;
    }
    place(s, &t);
    if (!s->has_high && alpha >= rule->maximum)
      return settle(s, "the longest step was reached and the loss still falls", result);
    const double far = fmax(s->low.alpha, s->has_high ? s->high.alpha : 0);
    if (s->has_high && fabs(s->high.alpha - s->low.alpha) <= 2 * DBL_EPSILON * far)
      return settle(s, "the bracket shrank to rounding", result);
    alpha = s->has_high ? interpolate(s) : extrapolate(s);
  }
  return settle(s, s->low.alpha > 0 ? "the slope condition was not met" : "no decrease", result);
}

tn_status pn_linesearch(pn_objective *f, const double *x, const double *p, double loss,
                        double slope, const pn_wolfe *rule, double *x_new, double *g_new,
                        pn_search_result *result) {
  *result = (pn_search_result){PN_SEARCH_FAILED, 0, loss, slope, 0, ""};
  if (!isfinite(loss) || !isfinite(slope)) {
    result->reason = "loss or slope is not finite at the start";
    return TN_OK;
  }
  if (!(slope < 0)) {
    result->reason = "not a descent direction";
    return TN_OK;
  }
  search s = {.f = f, .x = x, .p = p, .rule = rule, .x_new = x_new, .g_new = g_new};
  s.zero = s.low = s.previous = (trial){0, loss, slope, true};
  s.width[0] = s.width[1] = INFINITY;
  return run(&s, result);
}
