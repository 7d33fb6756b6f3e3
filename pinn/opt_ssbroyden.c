/* opt_ssbroyden.c: self-scaled Broyden with a dense inverse Hessian (Al-Baali 1998; SSBroyden2).
 *
 * p = -H g, strong Wolfe step alpha, s = theta+ - theta, y = g+ - g, rho = 1 / y's, w = H y, and
 * B = 1/H:
 *
 *   h = rho y'w,   b = s'Bs / y's = -alpha rho s'g,   a = b h - 1 >= 0          (Cauchy-Schwarz)
 *   c = sqrt(a / (1+a)),   rho_m = min(1, h (1-c)),   th_m = (rho_m - 1) / a,   th_p = 1 / rho_m
 *   th = max(th_m, min(th_p, (1-b) / b)),   sig = 1 + th a,   q = sig^(1/(1-n)),   k = min(1, 1/b)
 *   tau = th <= 0 ? min(k q, sig) : k min(q, 1/th),      first update: tau = h / (1 + a th)
 *   phi = (1-th) / (1 + a th),   v = rho s - w / y'w
 *   H+ = (H - w w' / y'w + phi y'w v v') / tau + rho s s'
 *
 * H+ y = s for any phi and tau: v'y = 0 and (H - w w'/y'w) y = 0. 1 - c is computed as
 * 1/((1+a)(1+c)), which does not cancel for large a, so rho_m > 0, sig >= rho_m > 0, and H+ stays
 * positive definite. phi = 1 is BFGS, phi = 0 is DFP; tau shrinks curvature that BFGS would carry
 * along for hundreds of steps.
 *
 * Storage and cost. H is symmetric and kept as its lower triangle, row i in i+1 words: 4 n^2 bytes
 * and no asymmetry to repair. The arithmetic is free beside the memory traffic, hence two passes a
 * step: one reads H for w = H y; one updates H and in the same pass multiplies the new H by g+,
 * which is the next direction. 12 n^2 bytes a step against 24 for full storage with three passes.
 *
 * Threads. A triangle of rows is cut into at most 32 bands of equal area, by n alone. Each band
 * owns its part of H and a private vector for the products with its rows and columns; the vectors
 * are added in band order. So the bits do not depend on the number of threads. A row's product is
 * summed in chunks of 512 columns by 8 lanes.
 *
 * The first trial is 1, or less if the last step lowered the loss by less than the model promises
 * now (descent.h): the scaled matrix often asks for too much, and this saves 15 to 35 % of the
 * evaluations on the functions of the shared test.
 *
 * A search that fails changes nothing in H. The same search again would fail again, so the ladder
 * is: a short first trial; H <- I; then the end. When the points change, H stays (most of the
 * curvature does), after a Cholesky factorisation of a copy has shown that rounding has not made it
 * indefinite; if it has, or is not finite, H <- I. Only that yes or no is used of LAPACK, never its
 * numbers.
 */
#include "pinn/descent.h"
#include "pinn/vector.h"

#include <lapacke.h>
#include <math.h>

enum { LARGEST = 20000, BANDS = 32, TILE = 8, CHUNK = 512, LANES = 8 };

typedef struct {
  double c1, c2, noise;
  size_t search;
  bool scale; /* initial scaling */
  pn_descent d;
  tn_pool *pool;            /* borrowed, may be NULL */
  double *H;                /* n (n+1) / 2, owned: (i, j), j <= i, at i (i+1) / 2 + j */
  double *w, *v;            /* n, owned: H y and v of the update */
  double *hg;               /* n, owned: H g */
  double *partial;          /* BANDS x n, owned: products of the bands */
  size_t bounds[BANDS + 1]; /* rows of band k: bounds[k] .. bounds[k+1] - 1 */
  bool hg_known;            /* hg belongs to the present H and g */
  size_t updates;           /* since H was the identity */
  size_t failures;          /* line searches failed in a row */
} broyden;

/* ---- Passes over H --------------------------------------------------------------------------- */

/* The update of one step, see above; NULL pointers: a product only. */
typedef struct {
  const double *w, *v, *s;
  double per_yw;  /* 1 / y'w */
  double phi_yw;  /* phi y'w */
  double per_tau; /* 1 / tau */
  double rho;
} update;

typedef struct {
  broyden *o;
  const update *change; /* NULL: none */
  const double *x;      /* out = H x, with the changed H */
} sweep;

static double add_lanes(const double *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* z_j += H_j xi, and returns sum_j H_j x_j. */
static double row_product(size_t count, const double *restrict H, const double *restrict x,
                          double xi, double *restrict z) {
  double lane[LANES] = {0};
  size_t j = 0;
  for (; j + LANES <= count; j += LANES)
    for (size_t l = 0; l < LANES; ++l) {
      lane[l] += H[j + l] * x[j + l];
      z[j + l] += H[j + l] * xi;
    }
  for (size_t l = 0; j + l < count; ++l) {
    lane[l] += H[j + l] * x[j + l];
    z[j + l] += H[j + l] * xi;
  }
  return add_lanes(lane);
}

/* H_j <- (H_j - a w_j + b v_j) e + c s_j along a row. */
static void row_change(size_t count, const update *u, size_t i, size_t j0, double *restrict H) {
  const double *restrict w = u->w + j0, *restrict v = u->v + j0, *restrict s = u->s + j0;
  const double a = u->w[i] * u->per_yw, b = u->phi_yw * u->v[i], c = u->rho * u->s[i],
               e = u->per_tau;
  for (size_t j = 0; j < count; ++j)
    H[j] = (H[j] - a * w[j] + b * v[j]) * e + c * s[j];
}

/* One band: tiles of 8 rows by 512 columns, so that the pieces of w, v, s, x, z stay in the first
 * cache. */
static void band(void *context, size_t k, size_t worker) {
  const sweep *p = context;
  broyden *o = p->o;
  (void)worker;
  const size_t end = o->bounds[k + 1];
  double *z = o->partial + k * o->d.n;
  for (size_t j = 0; j < end; ++j)
    z[j] = 0;
  for (size_t top = o->bounds[k]; top < end; top += TILE) {
    const size_t bottom = top + TILE < end ? top + TILE : end;
    double dot[TILE] = {0};
    for (size_t j0 = 0; j0 < bottom; j0 += CHUNK)
      for (size_t i = j0 > top ? j0 : top; i < bottom; ++i) {
        double *H = o->H + i * (i + 1) / 2 + j0;
        const size_t count = i + 1 - j0 < CHUNK ? i + 1 - j0 : CHUNK; /* with the diagonal */
        if (p->change)
          row_change(count, p->change, i, j0, H);
        const bool last = j0 + count == i + 1;
        dot[i - top] += row_product(count - last, H, p->x + j0, p->x[i], z + j0);
        if (last)
          dot[i - top] += H[count - 1] * p->x[i];
      }
    for (size_t i = top; i < bottom; ++i)
      z[i] += dot[i - top];
  }
}

/* Changes H (if change is given) and sets out = H x. */
static void pass(broyden *o, const update *change, const double *x, double *out) {
  sweep p = {o, change, x};
  if (o->pool)
    tn_pool_run(o->pool, BANDS, band, &p);
  else
    for (size_t k = 0; k < BANDS; ++k)
      band(&p, k, 0);
  for (size_t i = 0; i < o->d.n; ++i)
    out[i] = 0;
  for (size_t k = 0; k < BANDS; ++k)
    for (size_t i = 0; i < o->bounds[k + 1]; ++i)
      out[i] += o->partial[k * o->d.n + i];
}

static void reset(broyden *o) {
  const size_t n = o->d.n;
  for (size_t i = 0; i < n; ++i) {
    double *row = o->H + i * (i + 1) / 2;
    for (size_t j = 0; j < i; ++j)
      row[j] = 0;
    row[i] = 1;
  }
  o->updates = 0;
  o->hg_known = false;
}

/* ---- The update ------------------------------------------------------------------------------ */

static double least(double x, double y) { return x < y ? x : y; }

/* phi and tau of SSBroyden2 from h and b. When s and w are parallel, a is 0 up to rounding and
 * v = 0; a negative a would make th_m huge and positive, and tau as small as |a|. With a = 0, sig
 * is 1 and th enters only by its sign in tau, so any th_m <= 0 will do. n = 1 has no q, but always
 * a = 0. th <= 1 in exact arithmetic, so 1/th never decides; it stands there as published. */
static void coefficients(size_t n, double h, double b, bool first, double *phi, double *tau) {
  const double a = b * h > 1 ? b * h - 1 : 0;
  const double c = sqrt(a / (1 + a));
  const double rho_m = least(1, h / ((1 + a) * (1 + c)));
  const double th_p = 1 / rho_m;
  const double th_m = a > 0 ? (rho_m - 1) / a : 0;
  const double inner = least(th_p, (1 - b) / b);
  const double th = th_m > inner ? th_m : inner;
  const double sig = 1 + th * a;
  const double q = n > 1 ? pn_exp2(pn_log2(sig) / (1 - (double)n)) : 1;
  const double k = least(1, 1 / b);
  *phi = (1 - th) / sig;
  *tau = first ? h / sig : th <= 0 ? least(k * q, sig) : k * least(q, 1 / th);
}

/* H <- H+ and hg <- H+ g+ after a step; false if the pair is garbage, and then H is unchanged. */
static bool learn(broyden *o, double alpha, double slope) {
  const size_t n = o->d.n;
  const double *s = o->d.s, *y = o->d.y;
  const double ys = pn_dot(n, y, s);
  if (!(ys > PN_CURVATURE_LEAST * pn_norm(n, y) * pn_norm(n, s)))
    return false;
  pass(o, NULL, y, o->w);
  const double yw = pn_dot(n, y, o->w), rho = 1 / ys;
  const double h = rho * yw, b = -alpha * alpha * rho * slope;
  double phi = 0, tau = 0;
  if (!(h > 0 && h < INFINITY && b > 0 && b < INFINITY))
    return false;
  coefficients(n, h, b, o->scale && o->updates == 0, &phi, &tau);
  if (!(isfinite(phi) && tau > 0 && tau < INFINITY && isfinite(1 / tau)))
    return false;
  for (size_t i = 0; i < n; ++i)
    o->v[i] = rho * s[i] - o->w[i] / yw;
  const update change = {o->w, o->v, s, 1 / yw, phi * yw, 1 / tau, rho};
  pass(o, &change, o->d.g, o->hg);
  o->hg_known = true;
  o->updates += 1;
  return true;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static tn_status init(void *state, size_t n, const pn_opt_context *context) {
  broyden *o = state;
  if (n > LARGEST)
    return TN_FAIL(
        TN_EUNSUPPORTED,
        "ssbroyden: %zu parameters need %.1f GB for the dense matrix; it takes up to %d. "
        "Use lbfgs for larger networks",
        n, 4e-9 * (double)n * (double)n, (int)LARGEST);
  pn_wolfe rule = pn_wolfe_standard();
  rule.c1 = o->c1;
  rule.c2 = o->c2;
  rule.noise = o->noise;
  rule.evaluations = o->search;
  o->pool = context->pool;
  TN_TRY(pn_descent_init(&o->d, "ssbroyden", n, &rule));
  TN_TRY(TN_NEW(n * (n + 1) / 2, &o->H));
  TN_TRY(TN_NEW(n, &o->w));
  TN_TRY(TN_NEW(n, &o->v));
  TN_TRY(TN_NEW(n, &o->hg));
  TN_TRY(TN_NEW(BANDS * n, &o->partial));
  for (size_t k = 0; k < BANDS; ++k) {
    const size_t row = (size_t)((double)n * sqrt((double)k / BANDS));
    o->bounds[k] = row - row % TILE;
  }
  o->bounds[BANDS] = n;
  reset(o);
  return TN_OK;
}

static void failed(broyden *o, const pn_search_result *result, pn_step_report *report) {
  o->failures += 1;
  const bool fresh = o->updates == 0;
  const char *next = "; next with a short first step";
  if (o->failures >= 2) {
    next = fresh ? "" : "; the matrix was reset";
    if (!fresh)
      reset(o);
  }
  pn_report_reason(report, fresh && o->failures >= 2, "line search found no decrease (%s)%s",
                   result->reason, next);
}

static tn_status step(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                      double *theta, pn_step_report *report) {
  broyden *o = state;
  bool go = false;
  o->pool = context->pool;
  TN_TRY(pn_descent_begin(&o->d, f, theta, report, &go));
  if (!go)
    return TN_OK;
  if (!o->hg_known)
    pass(o, NULL, o->d.g, o->hg);
  o->hg_known = true;
  if (!(pn_dot(n, o->hg, o->d.g) > 0 && pn_all_finite(n, o->hg))) {
    reset(o); /* not a descent direction: rounding has spoilt H */
    pn_copy(n, o->d.g, o->hg);
    o->hg_known = true;
  }
  for (size_t i = 0; i < n; ++i)
    o->d.p[i] = -o->hg[i];
  const double slope = pn_dot(n, o->d.p, o->d.g);
  const double usual =
      o->updates == 0 ? pn_descent_first(&o->d, report) : pn_descent_trial(&o->d, slope);
  pn_search_result result;
  TN_TRY(pn_descent_search(&o->d, f, theta, o->failures == 1 ? usual * 0x1p-10 : usual, report,
                           &result));
  if (result.outcome == PN_SEARCH_FAILED) {
    if (!report->stop)
      failed(o, &result, report);
    return TN_OK;
  }
  o->failures = 0;
  o->hg_known = false;
  if (result.outcome == PN_SEARCH_DECREASE || !learn(o, result.alpha, slope))
    if (!report->stop)
      pn_report_reason(report, false, "the matrix was not updated");
  return TN_OK;
}

/* TN_OK with *positive = H is positive definite. The copy is in rectangular full packed form: the
 * memory of a triangle, the speed of blocked Cholesky. Rows of the lower triangle are columns of
 * the upper one. */
static tn_status is_positive(const broyden *o, bool *positive) {
  const size_t n = o->d.n, length = n * (n + 1) / 2;
  *positive = false;
  if (!pn_all_finite(length, o->H))
    return TN_OK;
  double *copy = NULL;
  TN_TRY(TN_NEW(length, &copy));
  const lapack_int order = (lapack_int)n;
  lapack_int info = LAPACKE_dtpttf_work(LAPACK_COL_MAJOR, 'N', 'U', order, o->H, copy);
  if (info == 0)
    info = LAPACKE_dpftrf_work(LAPACK_COL_MAJOR, 'N', 'U', order, copy);
  tn_free(&copy);
  if (info < 0)
    return TN_FAIL(TN_EINTERNAL, "ssbroyden: LAPACK refused argument %d", (int)-info);
  *positive = info == 0;
  return TN_OK;
}

static tn_status resampled(void *state) {
  broyden *o = state;
  bool positive = false;
  pn_descent_forget(&o->d);
  o->hg_known = false;
  o->failures = 0;
  TN_TRY(is_positive(o, &positive));
  if (!positive)
    reset(o);
  return TN_OK;
}

static tn_status visit(void *state, size_t n, pn_state_visitor *visitor) {
  broyden *o = state;
  TN_TRY(pn_descent_visit(&o->d, visitor));
  TN_TRY(pn_visit_count(visitor, "updates", (size_t)1 << 52, &o->updates));
  TN_TRY(pn_visit_count(visitor, "failures", (size_t)1 << 52, &o->failures));
  TN_TRY(pn_visit_flag(visitor, "hg_known", &o->hg_known));
  TN_TRY(visitor->doubles(visitor, "hg", n, o->hg));
  return visitor->doubles(visitor, "H", n * (n + 1) / 2, o->H);
}

static void done(void *state) {
  broyden *o = state;
  pn_descent_done(&o->d);
  tn_free(&o->H);
  tn_free(&o->w);
  tn_free(&o->v);
  tn_free(&o->hg);
  tn_free(&o->partial);
}

static const pn_option options[] = {
    {"scale", offsetof(broyden, scale), PN_OPTION_FLAG, 1, "scale the matrix at the first update"},
    {"c1", offsetof(broyden, c1), PN_OPTION_REAL, 1e-4, "decrease condition, 0 < c1 < c2"},
    {"c2", offsetof(broyden, c2), PN_OPTION_REAL, 0.9, "slope condition, c1 < c2 < 1"},
    {"noise", offsetof(broyden, noise), PN_OPTION_REAL, 1e-10, "relative rounding of the loss"},
    {"search", offsetof(broyden, search), PN_OPTION_COUNT, 40, "most evaluations of a line search"},
    {0},
};

const pn_opt_class pn_opt_ssbroyden = {"ssbroyden",
                                       "self-scaled Broyden, dense inverse Hessian, n <= 20 000",
                                       sizeof(broyden),
                                       options,
                                       PN_OPT_KEEPS | PN_OPT_DENSE,
                                       init,
                                       step,
                                       visit,
                                       resampled,
                                       done};
