/* opt_lm.c: Levenberg-Marquardt by QR of the Jacobian, with a decrease ratio and a geodesic term.
 *
 *   J = Q R,   R = U B V^T with B upper bidiagonal,   z = U^T Q^T r        (never J^T J)
 *   p(mu) = V y,  y minimises |B y + z|^2 + mu |y|^2, so p minimises |J p + r|^2 + mu |p|^2
 *   fall(mu) = |z|^2 - |B y + z|^2              what the model promises, of L = |r|^2
 *   rho(mu) = (L(theta) - L(theta + p)) / fall(mu)
 *
 * The condition of J is 1e15 and more from the first steps on, and what ends training is how small
 * a singular value still takes part. J^T J sees down to 1e-8 s_1, s_1 the largest; orthogonal
 * transformations see to 1e-16 s_1. After one bidiagonal form the rows sqrt(mu) I below B are
 * rotated away in O(n) for every mu (Elden 1977), and a step costs O(n^2) to be brought back by V.
 *
 * Which mu decides more than anything else. Taking the one with the lowest loss is greedy: it keeps
 * mu large and the run freezes early. Taken is the smallest mu that still keeps rho >= rho*: probes
 * a factor 10^1.2 apart around the last mu, walked from the largest down while they pass, then
 * `refine` more in the gap between the last that passed and the first that did not. rho* is `low`;
 * when the loss has not halved over 6 steps it swaps with `high` and back. If none passes, the best
 * decrease is taken; if nothing falls, theta stays and mu becomes ten times the largest probe.
 *
 * Geodesic term (Transtrum and Sethna 2012): along theta + p t the residual bends by
 * k = d^2/dt^2 r, and a, the solution for k in place of r, bends the path with it. A probe uses
 * p + a/2 where |a| <= 1.5 |p| and that lowers its loss. Narrow curved valleys are what stops the
 * method, and this follows them.
 *
 * Ends: 6 steps in a row without a decrease; less than 10 % decrease over `stall` steps; a promise
 * at rounding level beside L; a loss of zero.
 *
 * Cost of a step: one QR, 2 N n^2 FLOP; one bidiagonal form, 8/3 n^3, half of it bound by memory;
 * twice `probes` + `refine` losses and half as many second derivatives. Memory: n^2 words here, and
 * the factors of the objective. One BLAS thread: the bits do not depend on threads.
 *
 * On a device with factorisations of its own R = U diag(s) V^T takes the place of the bidiagonal form:
 * B = diag(s) is one, too, and what follows is the same. U and V are then matrices, 2 n^2 words more,
 * because devices give reflectors of bidiagonal forms but no way to apply those of V.
 */
#include "pinn/blas.h"
#include "pinn/opt.h"
#include "pinn/vector.h"
#include "tensor/factor.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
  LARGEST = PN_OPT_COSTLY_MOST,
  MOST_PROBES = 16,
  FAILURES = 6,
  SWAP_AFTER = 6,
  NONFINITE_MOST = 40
};
static const double FIRST = 1e-3;     /* mu of the first step over s_1^2 */
static const double APART = 1.2;      /* decades between probes */
static const double FLOOR = 1e-34;    /* least mu over s_1^2: (1e-17)^2 */
static const double BEND = 1.5;       /* most |a| / |p| */
static const double NOISE = 0x1p-102; /* (4 u)^2: a promise over L that is rounding */

typedef struct {
  double mu;        /* of the last step; 0: no step yet */
  bool steep;       /* rho* is `high` */
  size_t since;     /* steps since rho* was looked at */
  double swap_loss; /* loss then; NaN: not known */
  size_t waited;    /* steps since the stall was looked at */
  double stall_loss;
  size_t failures;  /* steps without a decrease, in a row */
  size_t nonfinite; /* steps in a row that began with a loss that is not finite */
} memory;

typedef struct {
  double low, high;
  size_t probes, refine, stall;
  bool geodesic;
  memory m;
  size_t n_rows; /* length of k */
  double *R;     /* n x n by columns: R, then the reflectors of U and V */
  double *d, *e; /* n: diagonal and superdiagonal of B; e[n - 1] = 0 */
  double *tau_u, *tau_v;
  double *z;         /* n: U^T Q^T r */
  double s1;         /* largest singular value */
  double *rho, *sup; /* n: the triangle that B and the rows of mu are rotated to */
  double *p;         /* MOST_PROBES x n: steps p(mu), with the geodesic term where it is used */
  double *bent;      /* MOST_PROBES x n: steps p + a/2 */
  double *x;         /* MOST_PROBES x n: theta + p */
  double *q;         /* n: scratch */
  double *k;         /* n_rows: second derivatives of r */
  double *work;      /* of LAPACK */
  size_t l_work;
  int *iwork;              /* 8 n */
  const tn_factor *factor; /* of the device; NULL: LAPACK, by reflectors */
  tn_factor_work *factor_work;
  double *U, *Vt; /* n x n by columns; with `factor` alone, as what follows */
  double *turned; /* MOST_PROBES x n: scratch */
} lm;

typedef struct probe {
  double mu, loss, fall, rho;
} probe;

/* A step in the making. */
typedef struct {
  lm *o;
  pn_objective *f;
  const double *theta;
  pn_step_report *report;
  double loss;
  probe list[MOST_PROBES];
} making;

/* ---- Linear algebra -------------------------------------------------------------------------- */

static tn_status lapack(lapack_int info, const char *name) {
  return info == 0 ? TN_OK : TN_FAIL(TN_EINTERNAL, "lm: %s says %d", name, (int)info);
}

/* sqrt(a^2 + b^2); its bits are those of sqrt on every machine, unlike those of hypot. */
static double length_of(double a, double b) {
  double most = fmax(fabs(a), fabs(b)), least = fmin(fabs(a), fabs(b));
  return most > 0 ? most * sqrt(1 + least / most * (least / most)) : 0;
}

/* Drops what belongs to one device. */
static void leave_device(lm *o) {
  if (o->factor)
    o->factor->work_free(o->factor, &o->factor_work);
  o->factor = NULL;
  tn_free(&o->U);
  tn_free(&o->Vt);
  tn_free(&o->turned);
}

/* Takes the factorisations of the device that the pool runs on, if it has any. */
static tn_status need_device(lm *o, size_t n, const tn_pool *pool) {
  const tn_factor *factor = pool ? tn_device_factor(tn_pool_device(pool)) : NULL;
  if (factor == o->factor)
    return TN_OK;
  leave_device(o);
  if (!factor)
    return TN_OK;
  tn_status status = TN_NEW(n * n, &o->U);
  if (status == TN_OK)
    status = TN_NEW(n * n, &o->Vt);
  if (status == TN_OK)
    status = TN_NEW(MOST_PROBES * n, &o->turned);
  if (status == TN_OK)
    status = factor->work_new(factor, n, n, &o->factor_work);
  if (status == TN_OK)
    o->factor = factor;
  else
    leave_device(o);
  return status;
}

/* As turn, by the matrices. */
static void turn_by_matrix(const lm *o, size_t n, bool by_u, size_t count, double *x) {
  pn_copy(count * n, x, o->turned);
  cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, (blasint)n, (blasint)count, (blasint)n, 1,
              by_u ? o->U : o->Vt, (blasint)n, o->turned, (blasint)n, 0, x, (blasint)n);
}

/* x[count x n] <- U^T x or V x, rows of x. */
static tn_status turn(const lm *o, size_t n, bool by_u, size_t count, double *x) {
  lapack_int size = (lapack_int)n;
  if (o->factor) {
    turn_by_matrix(o, n, by_u, count, x);
    return TN_OK;
  }
  return lapack(LAPACKE_dormbr_work(LAPACK_COL_MAJOR, by_u ? 'Q' : 'P', 'L', by_u ? 'T' : 'N', size,
                                    (lapack_int)count, size, o->R, size, by_u ? o->tau_u : o->tau_v,
                                    x, size, o->work, (lapack_int)o->l_work),
                "dormbr");
}

/* R (by rows, upper triangular) and Q^T r in z become U B V^T and U^T Q^T r. On a device e = 0. */
static tn_status decompose(lm *o, size_t n) {
  lapack_int size = (lapack_int)n;
  double none = 0;
  int index = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j) {
      o->R[i + j * n] = o->R[i * n + j];
      o->R[i * n + j] = 0;
    }
  if (o->factor) {
    memset(o->e, 0, n * sizeof *o->e);
    TN_TRY(o->factor->svd(o->factor, o->factor_work, n, o->R, o->d, o->U, o->Vt));
    o->s1 = o->d[0];
    return turn(o, n, true, 1, o->z);
  }
  TN_TRY(lapack(LAPACKE_dgebrd_work(LAPACK_COL_MAJOR, size, size, o->R, size, o->d, o->e, o->tau_u,
                                    o->tau_v, o->work, (lapack_int)o->l_work),
                "dgebrd"));
  o->e[n - 1] = 0;
  pn_copy(n, o->d, o->rho);
  pn_copy(n, o->e, o->sup);
  TN_TRY(lapack(LAPACKE_dbdsdc_work(LAPACK_COL_MAJOR, 'U', 'N', size, o->rho, o->sup, &none, 1,
                                    &none, 1, &none, &index, o->work, o->iwork),
                "dbdsdc"));
  o->s1 = o->rho[0];
  return turn(o, n, true, 1, o->z);
}

/* y minimises |B y + z|^2 + mu |y|^2. Row k of B takes the damping row of column k away; what that
 * row gains in column k + 1 joins the next damping row. */
static void damped(const lm *o, size_t n, double mu, const double *z, double *y) {
  double root = sqrt(mu), delta = root, g = 0;
  for (size_t k = 0; k < n; ++k) {
    double norm = length_of(o->d[k], delta);
    double c = norm > 0 ? o->d[k] / norm : 1, s = norm > 0 ? delta / norm : 0;
    double rest = s * z[k] + c * g, gain = -s * o->e[k];
    o->rho[k] = norm;
    o->sup[k] = c * o->e[k];
    y[k] = s * g - c * z[k];
    delta = length_of(root, gain);
    g = delta > 0 ? rest * (gain / delta) : 0;
  }
  for (size_t k = n; k-- > 0;) {
    double after = k + 1 < n ? o->sup[k] * y[k + 1] : 0;
    y[k] = o->rho[k] > 0 ? (y[k] - after) / o->rho[k] : 0;
  }
}

/* |z|^2 - |B y + z|^2, the decrease that the linear model promises. */
static double promised(const lm *o, size_t n, const double *y) {
  for (size_t k = 0; k < n; ++k)
    o->rho[k] = -(o->d[k] * y[k] + (k + 1 < n ? o->e[k] * y[k + 1] : 0));
  for (size_t k = 0; k < n; ++k)
    o->sup[k] = 2 * o->z[k] - o->rho[k];
  return pn_dot(n, o->rho, o->sup);
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* bent = p + a/2 of probes; those with a too long are told by tried[] = false. */
static tn_status bend_steps(making *w, size_t first, size_t count, bool *tried) {
  lm *o = w->o;
  size_t n = w->f->n;
  double *a = o->x + first * n; /* free until the losses */
  for (size_t i = 0; i < count; ++i) {
    TN_TRY(w->f->second(w->f, w->theta, o->p + (first + i) * n, o->k));
    tried[i] = pn_all_finite(o->n_rows, o->k);
    TN_TRY(w->f->qt(w->f, o->k, a + i * n));
  }
  TN_TRY(turn(o, n, true, count, a));
  for (size_t i = 0; i < count; ++i) {
    pn_copy(n, a + i * n, o->q);
    damped(o, n, w->list[first + i].mu, o->q, a + i * n);
  }
  TN_TRY(turn(o, n, false, count, a));
  for (size_t i = 0; i < count; ++i) {
    const double *p = o->p + (first + i) * n;
    tried[i] = tried[i] && pn_norm(n, a + i * n) <= BEND * pn_norm(n, p);
    pn_add_scaled(n, p, tried[i] ? 0.5 : 0, a + i * n, o->bent + (first + i) * n);
  }
  return TN_OK;
}

/* Replaces steps of probes by p + a/2 where that is better. */
static tn_status bend(making *w, size_t first, size_t count) {
  lm *o = w->o;
  size_t n = w->f->n, m = 0;
  double loss[MOST_PROBES];
  bool tried[MOST_PROBES];
  TN_TRY(bend_steps(w, first, count, tried));
  for (size_t i = 0; i < count; ++i)
    if (tried[i])
      pn_add_scaled(n, w->theta, 1, o->bent + (first + i) * n, o->x + m++ * n);
  TN_TRY(pn_objective_losses(w->f, m, o->x, loss));
  w->report->losses += m;
  m = 0;
  for (size_t i = 0; i < count; ++i) {
    probe *q = &w->list[first + i];
    double bent = tried[i] ? loss[m++] : NAN;
    if (!isfinite(bent) || (isfinite(q->loss) && !(bent < q->loss)))
      continue;
    q->loss = bent;
    pn_copy(n, o->bent + (first + i) * n, o->p + (first + i) * n);
  }
  return TN_OK;
}

/* Losses and ratios of the probes first .. first + count - 1, whose mu is set. */
static tn_status try_probes(making *w, size_t first, size_t count) {
  lm *o = w->o;
  size_t n = w->f->n;
  double loss[MOST_PROBES];
  if (count == 0)
    return TN_OK;
  for (size_t i = first; i < first + count; ++i) {
    damped(o, n, w->list[i].mu, o->z, o->p + i * n);
    w->list[i].fall = promised(o, n, o->p + i * n);
  }
  TN_TRY(turn(o, n, false, count, o->p + first * n));
  for (size_t i = first; i < first + count; ++i)
    pn_add_scaled(n, w->theta, 1, o->p + i * n, o->x + i * n);
  TN_TRY(pn_objective_losses(w->f, count, o->x + first * n, loss));
  w->report->losses += count;
  for (size_t i = 0; i < count; ++i)
    w->list[first + i].loss = loss[i];
  if (o->geodesic && w->f->second && w->f->qt)
    TN_TRY(bend(w, first, count));
  for (size_t i = first; i < first + count; ++i) {
    probe *q = &w->list[i];
    q->rho = isfinite(q->loss) && q->fall > 0 ? (w->loss - q->loss) / q->fall : -INFINITY;
  }
  return TN_OK;
}

/* The last of a descending list that passes before one fails; count: none. */
static size_t walk(const probe *list, size_t count, double rho) {
  size_t last = count;
  for (size_t i = 0; i < count && list[i].rho >= rho; ++i)
    last = i;
  return last;
}

/* The lowest loss below that of theta; count: none. */
static size_t best(const probe *list, size_t count, double loss) {
  size_t at = count;
  for (size_t i = 0; i < count; ++i)
    if (list[i].loss < loss) {
      at = i;
      loss = list[i].loss;
    }
  return at;
}

/* Probes in descending order of mu around the last one; *taken is the one to use, `count` if none
 * lowers the loss. */
static tn_status search(making *w, double rho, size_t *count, size_t *taken) {
  lm *o = w->o;
  double s2 = o->s1 * o->s1, least = FLOOR * s2, mu = o->m.mu > 0 ? o->m.mu : FIRST * s2;
  size_t n = o->probes;
  for (size_t i = 0; i < n; ++i)
    w->list[i].mu =
        fmax(least, mu * pn_exp2(pn_log2(10) * APART * ((double)(n - 1) / 2 - (double)i)));
  TN_TRY(try_probes(w, 0, n));
  size_t last = walk(w->list, n, rho);
  *count = n;
  if (last < n && last + 1 < n && w->list[last + 1].mu < w->list[last].mu) {
    double top = pn_log2(w->list[last].mu), bottom = pn_log2(w->list[last + 1].mu);
    for (size_t i = 0; i < o->refine; ++i)
      w->list[n + i].mu = pn_exp2(top + (bottom - top) * (double)(i + 1) / (double)(o->refine + 1));
    TN_TRY(try_probes(w, n, o->refine));
    *count = n + o->refine;
    size_t finer = walk(w->list + n, o->refine, rho);
    if (finer < o->refine)
      last = n + finer;
  }
  *taken = last == n && *count == n ? best(w->list, n, w->loss) : last;
  return TN_OK;
}

/* ---- The memory ------------------------------------------------------------------------------ */

static void forget(memory *m) {
  m->since = m->waited = m->failures = 0;
  m->swap_loss = m->stall_loss = NAN;
}

/* After a step that ended at `loss`; true: the loss stands still. */
static bool remember(const lm *o, memory *m, double before, double loss) {
  if (isnan(m->swap_loss))
    m->swap_loss = m->stall_loss = before;
  if (++m->since == SWAP_AFTER) {
    if (!(loss <= 0.5 * m->swap_loss))
      m->steep = !m->steep;
    m->swap_loss = loss;
    m->since = 0;
  }
  if (++m->waited < o->stall)
    return false;
  bool stands = !(loss <= 0.9 * m->stall_loss);
  m->stall_loss = loss;
  m->waited = 0;
  return stands;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static tn_status check(const lm *o, size_t n) {
  if (n > LARGEST)
    return TN_FAIL(
        TN_EUNSUPPORTED,
        "lm: %zu parameters need a matrix of %.1f GB in every step; it takes up to %d. Use "
        "ssbroyden or lbfgs for larger networks",
        n, 8e-9 * (double)n * (double)n, (int)LARGEST);
  if (!(o->low > 0 && o->low < 1))
    return TN_FAIL(TN_ERANGE, "lm: low = %g is not in (0, 1)", o->low);
  if (!(o->high > 0 && o->high < 1))
    return TN_FAIL(TN_ERANGE, "lm: high = %g is not in (0, 1)", o->high);
  if (o->probes < 1 || o->probes + o->refine > MOST_PROBES)
    return TN_FAIL(TN_ERANGE, "lm: probes = %zu and refine = %zu, expected 1 to %d in all",
                   o->probes, o->refine, (int)MOST_PROBES);
  if (o->stall < 1)
    return TN_FAIL(TN_ERANGE, "lm: stall = 0, expected at least 1");
  return TN_OK;
}

/* The work that LAPACK wants for all calls. */
static tn_status size_work(lm *o, size_t n) {
  lapack_int size = (lapack_int)n, probes = MOST_PROBES;
  double brd = 0, u = 0, v = 0, none = 0;
  TN_TRY(lapack(LAPACKE_dgebrd_work(LAPACK_COL_MAJOR, size, size, &none, size, &none, &none, &none,
                                    &none, &brd, -1),
                "dgebrd"));
  TN_TRY(lapack(LAPACKE_dormbr_work(LAPACK_COL_MAJOR, 'Q', 'L', 'T', size, probes, size, &none,
                                    size, &none, &none, size, &u, -1),
                "dormbr"));
  TN_TRY(lapack(LAPACKE_dormbr_work(LAPACK_COL_MAJOR, 'P', 'L', 'N', size, probes, size, &none,
                                    size, &none, &none, size, &v, -1),
                "dormbr"));
  o->l_work = (size_t)fmax(fmax(brd, 4 * (double)n), fmax(u, v)); /* 4 n: dbdsdc */
  TN_TRY(TN_NEW(o->l_work, &o->work));
  return TN_NEW(8 * n, &o->iwork);
}

static tn_status init(void *state, size_t n, const pn_opt_context *context) {
  lm *o = state;
  (void)context;
  TN_TRY(check(o, n));
  forget(&o->m);
  TN_TRY(TN_NEW(n * n, &o->R));
  double **const vectors[] = {&o->d, &o->e, &o->tau_u, &o->tau_v, &o->z, &o->rho, &o->sup, &o->q};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i)
    TN_TRY(TN_NEW(n, vectors[i]));
  TN_TRY(TN_NEW(MOST_PROBES * n, &o->p));
  TN_TRY(TN_NEW(MOST_PROBES * n, &o->bent));
  TN_TRY(TN_NEW(MOST_PROBES * n, &o->x));
  return size_work(o, n);
}

/* What the least damping promises. */
static double most_promised(lm *o, size_t n) {
  damped(o, n, FLOOR * o->s1 * o->s1, o->z, o->q);
  return promised(o, n, o->q);
}

/* Loss and factors at theta; *go is false if the step is over. */
static tn_status look(making *w, bool *go) {
  lm *o = w->o;
  pn_step_report *report = w->report;
  size_t n = w->f->n;
  double loss = 0;
  *go = false;
  report->losses += 1;
  TN_TRY(pn_objective_loss(w->f, w->theta, &w->loss));
  report->loss_before = report->loss_after = w->loss;
  bool finite = isfinite(w->loss);
  if (finite && w->loss == 0) {
    pn_report_reason(report, true, "the loss is exactly zero");
    return TN_OK;
  }
  if (finite) {
    report->gradients += 1;
    TN_TRY(w->f->qr(w->f, w->theta, &loss, o->R, o->z));
    finite = isfinite(loss) && pn_all_finite(n * n, o->R) && pn_all_finite(n, o->z);
  }
  if (!finite) {
    report->nonfinite = true;
    if (o->m.nonfinite < NONFINITE_MOST)
      o->m.nonfinite += 1;
    pn_report_reason(report, o->m.nonfinite == NONFINITE_MOST, "loss or Jacobian is not finite");
    return TN_OK;
  }
  TN_TRY(decompose(o, n));
  for (size_t k = 0; k < n; ++k) /* g = 2 V B^T z */
    o->q[k] = 2 * (o->d[k] * o->z[k] + (k > 0 ? o->e[k - 1] * o->z[k - 1] : 0));
  report->gradient_norm = pn_norm(n, o->q);
  if (report->gradient_norm == 0)
    pn_report_reason(report, true, "the gradient is exactly zero");
  else if (!(most_promised(o, n) > NOISE * w->loss))
    pn_report_reason(report, true, "gradient at rounding level (float64)");
  else
    *go = true;
  return TN_OK;
}

/* Commits the probe that was taken. */
static void accept(lm *o, size_t n, const probe *taken, const double *p, double *theta,
                   pn_step_report *report) {
  pn_add_scaled(n, theta, 1, p, o->x);
  pn_subtract(n, o->x, theta, o->q);
  pn_copy(n, o->x, theta);
  o->m.failures = 0;
  o->m.mu = taken->mu;
  report->loss_after = taken->loss;
  report->step_length = pn_norm(n, o->q);
  report->accepted = report->step_length > 0;
  if (remember(o, &o->m, report->loss_before, taken->loss))
    pn_report_reason(report, true, "the loss has fallen by less than 10 %% in %zu steps", o->stall);
}

static void refuse(lm *o, double largest, pn_step_report *report) {
  o->m.mu = 10 * largest;
  o->m.failures += 1;
  bool end = o->m.failures >= FAILURES;
  pn_report_reason(report, end, "no damping lowers the loss%s",
                   end ? ", six steps in a row" : "; next with more");
  o->m.failures = end ? 0 : o->m.failures;
}

static tn_status step(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                      double *theta, pn_step_report *report) {
  lm *o = state;
  making w = {.o = o, .f = f, .theta = theta, .report = report};
  bool go = false;
  size_t count = 0, taken = 0;
  TN_TRY(pn_objective_need(f, PN_SLOT_QR, "lm"));
  TN_TRY(need_device(o, n, context->pool));
  if (o->n_rows != f->n_rows) {
    tn_free(&o->k);
    o->n_rows = 0;
    TN_TRY(TN_NEW(f->n_rows, &o->k));
    o->n_rows = f->n_rows;
  }
  int threads = pn_blas_alone();
  tn_status status = look(&w, &go);
  if (status == TN_OK && go)
    status = search(&w, o->m.steep ? o->high : o->low, &count, &taken);
  pn_blas_restore(threads);
  if (status != TN_OK || !go)
    return status;
  o->m.nonfinite = 0;
  if (taken == count)
    refuse(o, w.list[0].mu, report);
  else
    accept(o, n, &w.list[taken], o->p + taken * n, theta, report);
  return TN_OK;
}

static tn_status visit(void *state, size_t n, pn_state_visitor *visitor) {
  memory *m = &((lm *)state)->m;
  const size_t most = (size_t)1 << 52;
  (void)n;
  TN_TRY(visitor->number(visitor, "mu", &m->mu));
  TN_TRY(pn_visit_flag(visitor, "steep", &m->steep));
  TN_TRY(pn_visit_count(visitor, "since", SWAP_AFTER, &m->since));
  TN_TRY(visitor->number(visitor, "swap_loss", &m->swap_loss));
  TN_TRY(pn_visit_count(visitor, "waited", most, &m->waited));
  TN_TRY(visitor->number(visitor, "stall_loss", &m->stall_loss));
  TN_TRY(pn_visit_count(visitor, "failures", FAILURES, &m->failures));
  TN_TRY(pn_visit_count(visitor, "nonfinite", NONFINITE_MOST, &m->nonfinite));
  if (!(m->mu >= 0 && m->mu < INFINITY))
    return TN_FAIL(TN_EINPUT, "state: mu = %g is not a damping", m->mu);
  return TN_OK;
}

static tn_status resampled(void *state) {
  forget(&((lm *)state)->m);
  return TN_OK;
}

static void done(void *state) {
  lm *o = state;
  double **const arrays[] = {&o->R,   &o->d, &o->e,    &o->tau_u, &o->tau_v, &o->z, &o->rho,
                             &o->sup, &o->p, &o->bent, &o->x,     &o->q,     &o->k, &o->work};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i)
    tn_free(arrays[i]);
  tn_free(&o->iwork);
  leave_device(o);
}

static const pn_option options[] = {
    {"low", offsetof(lm, low), PN_OPTION_REAL, 0.05,
     "least share of the promised decrease, in (0, 1)"},
    {"high", offsetof(lm, high), PN_OPTION_REAL, 0.5, "the same while the loss does not halve"},
    {"probes", offsetof(lm, probes), PN_OPTION_COUNT, 5, "dampings tried in a step"},
    {"refine", offsetof(lm, refine), PN_OPTION_COUNT, 4, "dampings tried between two of them"},
    {"geodesic", offsetof(lm, geodesic), PN_OPTION_FLAG, 1,
     "bend steps along the residual's curvature"},
    {"stall", offsetof(lm, stall), PN_OPTION_COUNT, 20,
     "steps in which the loss must fall by 10 %"},
    {0},
};

const pn_opt_class pn_opt_lm = {"lm",
                                "Levenberg-Marquardt by QR of the Jacobian, n <= 12 000, f64",
                                sizeof(lm),
                                options,
                                PN_OPT_KEEPS | PN_OPT_DENSE | PN_OPT_F64 | PN_OPT_COSTLY,
                                init,
                                step,
                                visit,
                                resampled,
                                done};
