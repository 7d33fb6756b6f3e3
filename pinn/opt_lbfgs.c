/* opt_lbfgs.c: limited-memory BFGS with a strong Wolfe line search (Nocedal 1980).
 *
 * From the last m pairs s = theta+ - theta, y = g+ - g, with rho = 1 / y's, the two loops give
 * p = -H g:
 *
 *   q = g;   newest to oldest:  a_i = rho_i s_i'q,  q -= a_i y_i
 *   q *= gamma,  gamma = s'y / y'y of the newest pair
 *   oldest to newest:  q += (a_i - rho_i y_i'q) s_i;    p = -q
 *
 * The first step, and the one after a restart, goes along -g and tries a length of min(1, 2 L/|g|);
 * all others try the step p. A pair whose curvature y's is garbage relative to |y||s| (descent.h
 * says why 2^-106 and why relative) is skipped; ten in a row end the run. If p is no descent
 * direction, or the line search finds nothing, the pairs are dropped and the next step is steepest
 * descent; if that finds nothing either, the run ends.
 *
 * When the points change, the pairs stay (they describe nearly the same function) and only the
 * gradient is computed afresh, so no pair ever mixes two sets of points.
 *
 * State: 2 m n words. Cost a step: about one gradient and 4 m n multiply-adds.
 */
#include "pinn/descent.h"
#include "pinn/vector.h"

#include <math.h>

enum { SKIPS_MOST = 10 };

typedef struct {
  double c1, c2, noise;
  size_t memory, search;
  pn_descent d;
  double *S, *Y;  /* memory x n, owned: rings of pairs */
  double *rho;    /* memory, owned: 1 / y's */
  double *a;      /* memory, owned: scratch of the two loops */
  size_t count;   /* pairs held */
  size_t next;    /* ring place of the next pair */
  size_t skipped; /* pairs refused in a row */
} lbfgs;

static tn_status init(void *state, size_t n, const pn_opt_context *context) {
  lbfgs *b = state;
  (void)context;
  if (b->memory < 1 || b->memory > 10000)
    return TN_FAIL(TN_ERANGE, "lbfgs: memory = %zu is not in 1 .. 10000 pairs", b->memory);
  pn_wolfe rule = pn_wolfe_standard();
  rule.c1 = b->c1;
  rule.c2 = b->c2;
  rule.noise = b->noise;
  rule.evaluations = b->search;
  TN_TRY(pn_descent_init(&b->d, "lbfgs", n, &rule));
  TN_TRY(tn_new(b->memory, n * sizeof *b->S, &b->S)); /* n < 2^53 / 8: theta itself fits */
  TN_TRY(tn_new(b->memory, n * sizeof *b->Y, &b->Y));
  TN_TRY(TN_NEW(b->memory, &b->rho));
  return TN_NEW(b->memory, &b->a);
}

/* Ring place of the pair that is k steps old, k = 0 .. count - 1. */
static size_t place(const lbfgs *b, size_t k) { return (b->next + b->memory - 1 - k) % b->memory; }

static void direction(lbfgs *b) {
  const size_t n = b->d.n;
  double *q = b->d.p;
  pn_copy(n, b->d.g, q);
  for (size_t k = 0; k < b->count; ++k) {
    const size_t i = place(b, k);
    b->a[i] = b->rho[i] * pn_dot(n, b->S + i * n, q);
    pn_axpy(n, -b->a[i], b->Y + i * n, q);
  }
  if (b->count > 0) {
    const double *y = b->Y + place(b, 0) * n;
    pn_scale(n, 1 / (b->rho[place(b, 0)] * pn_dot(n, y, y)), q);
  }
  for (size_t k = b->count; k-- > 0;) {
    const size_t i = place(b, k);
    const double beta = b->rho[i] * pn_dot(n, b->Y + i * n, q);
    pn_axpy(n, b->a[i] - beta, b->S + i * n, q);
  }
  pn_scale(n, -1, q);
}

static void remember(lbfgs *b, pn_step_report *report) {
  const pn_descent *d = &b->d;
  const double ys = pn_dot(d->n, d->y, d->s), size = pn_norm(d->n, d->y) * pn_norm(d->n, d->s);
  if (!(ys > PN_CURVATURE_LEAST * size) || !isfinite(1 / ys)) {
    b->skipped += 1;
    if (b->skipped == SKIPS_MOST) {
      b->skipped = 0;
      pn_report_reason(report, true, "relative curvature too small in %d steps", SKIPS_MOST);
    }
    return;
  }
  b->skipped = 0;
  pn_copy(d->n, d->s, b->S + b->next * d->n);
  pn_copy(d->n, d->y, b->Y + b->next * d->n);
  b->rho[b->next] = 1 / ys;
  b->next = (b->next + 1) % b->memory;
  if (b->count < b->memory)
    b->count += 1;
}

static tn_status step(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                      double *theta, pn_step_report *report) {
  lbfgs *b = state;
  (void)context;
  bool go = false;
  TN_TRY(pn_descent_begin(&b->d, f, theta, report, &go));
  if (!go)
    return TN_OK;
  direction(b);
  if (b->count > 0 && !(pn_dot(n, b->d.p, b->d.g) < 0 && pn_all_finite(n, b->d.p))) {
    b->count = 0; /* not a descent direction */
    direction(b);
  }
  pn_search_result result;
  const double first = b->count == 0 ? pn_descent_first(&b->d, report) : 1;
  TN_TRY(pn_descent_search(&b->d, f, theta, first, report, &result));
  if (result.outcome != PN_SEARCH_FAILED) {
    remember(b, report);
    return TN_OK;
  }
  if (report->stop)
    return TN_OK;
  const bool stop = b->count == 0;
  b->count = 0;
  pn_report_reason(report, stop, "line search found no decrease (%s)%s", result.reason,
                   stop ? "" : "; restarted from steepest descent");
  return TN_OK;
}

static tn_status visit(void *state, size_t n, pn_state_visitor *visitor) {
  lbfgs *b = state;
  TN_TRY(pn_descent_visit(&b->d, visitor));
  TN_TRY(pn_visit_count(visitor, "count", b->memory, &b->count));
  TN_TRY(pn_visit_count(visitor, "next", b->memory - 1, &b->next));
  TN_TRY(pn_visit_count(visitor, "skipped", SKIPS_MOST, &b->skipped));
  TN_TRY(visitor->doubles(visitor, "rho", b->memory, b->rho));
  TN_TRY(visitor->doubles(visitor, "S", b->memory * n, b->S));
  return visitor->doubles(visitor, "Y", b->memory * n, b->Y);
}

static tn_status resampled(void *state) {
  pn_descent_forget(&((lbfgs *)state)->d);
  return TN_OK;
}

static void done(void *state) {
  lbfgs *b = state;
  pn_descent_done(&b->d);
  tn_free(&b->S);
  tn_free(&b->Y);
  tn_free(&b->rho);
  tn_free(&b->a);
}

static const pn_option options[] = {
    {"memory", offsetof(lbfgs, memory), PN_OPTION_COUNT, 50, "pairs kept, >= 1"},
    {"c1", offsetof(lbfgs, c1), PN_OPTION_REAL, 1e-4, "decrease condition, 0 < c1 < c2"},
    {"c2", offsetof(lbfgs, c2), PN_OPTION_REAL, 0.9, "slope condition, c1 < c2 < 1"},
    {"noise", offsetof(lbfgs, noise), PN_OPTION_REAL, 1e-10, "relative rounding of the loss"},
    {"search", offsetof(lbfgs, search), PN_OPTION_COUNT, 40, "most evaluations of a line search"},
    {0},
};

const pn_opt_class pn_opt_lbfgs = {"lbfgs",       "limited-memory BFGS, strong Wolfe",
                                   sizeof(lbfgs), options,
                                   PN_OPT_KEEPS,  init,
                                   step,          visit,
                                   resampled,     done};
