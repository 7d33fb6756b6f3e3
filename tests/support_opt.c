/* support_opt.c: what the tests of optimizers share. */
#include "tests/support_opt.h"

#include "pinn/vector.h"

#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- Functions ------------------------------------------------------------------------------- */

tn_status opt_gradient(pn_objective *f, const double *theta, double *loss, double *g) {
  opt_probe *p = f->context;
  p->calls += 1;
  if (p->calls == p->fail_at)
    return TN_FAIL(TN_EIO, "probe");
  double *x = NULL;
  TN_TRY(TN_NEW(f->n, &x));
  for (size_t i = 0; i < f->n; ++i) {
    x[i] = theta[i] - p->shift;
    g[i] = 0;
  }
  *loss = p->f(f->n, x, g);
  if (p->factor != 0) {
    *loss *= p->factor;
    pn_scale(f->n, p->factor, g);
  }
  if (p->calls >= p->bad_at && p->calls < p->bad_to)
    *loss = NAN;
  tn_free(&x);
  return TN_OK;
}

static tn_status loss_only(pn_objective *f, const double *theta, double *loss) {
  double *g = NULL;
  TN_TRY(TN_NEW(f->n, &g));
  const tn_status status = opt_gradient(f, theta, loss, g);
  tn_free(&g);
  return status;
}

pn_objective opt_objective(opt_probe *p, size_t n) {
  return (pn_objective){.context = p, .n = n, .loss = loss_only, .gradient = opt_gradient};
}

/* sum_i lambda_i (x_i - 1)^2 / 2, lambda from 1 to 1000 in equal ratios. */
double opt_quadratic(size_t n, const double *x, double *g) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const double lambda = n > 1 ? pow(1000, (double)i / (double)(n - 1)) : 1;
    g[i] = lambda * (x[i] - 1);
    sum += g[i] * (x[i] - 1) / 2;
  }
  return sum;
}

/* The chained function of Rosenbrock: a curved valley of condition 2500; minimum 0 at 1. */
double opt_rosenbrock(size_t n, const double *x, double *g) {
  double sum = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    const double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
    sum += 100 * a * a + b * b;
    g[i] += -400 * a * x[i] - 2 * b;
    g[i + 1] += 200 * a;
  }
  return sum;
}

/* sum_i s_i^4 (x_i - 1)^4 with s from 1e-1 to 1e2: the Hessian varies over 12 decades and
 * vanishes at 1. */
double opt_quartic(size_t n, const double *x, double *g) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const double s = pow(10, -1 + 3 * (double)i / (double)(n - 1)), z = s * (x[i] - 1);
    sum += z * z * z * z;
    g[i] = 4 * s * z * z * z;
  }
  return sum;
}

/* Powell's singular function in groups of four: the Hessian has rank 2 of 4 at the minimum 0. */
double opt_powell(size_t n, const double *x, double *g) {
  double sum = 0;
  for (size_t i = 0; i + 3 < n; i += 4) {
    const double a = x[i] + 10 * x[i + 1], b = x[i + 2] - x[i + 3];
    const double c = x[i + 1] - 2 * x[i + 2], d = x[i] - x[i + 3];
    sum += a * a + 5 * b * b + c * c * c * c + 10 * d * d * d * d;
    g[i] += 2 * a + 40 * d * d * d;
    g[i + 1] += 20 * a + 4 * c * c * c;
    g[i + 2] += 10 * b - 8 * c * c * c;
    g[i + 3] += -10 * b - 40 * d * d * d;
  }
  return sum;
}

/* ---- Sums of squares ------------------------------------------------------------------------- */

size_t opt_rows(opt_function f, size_t n) { return f == opt_rosenbrock ? 2 * (n - 1) : n; }

void opt_residual(opt_function f, size_t n, const double *x, double *r, double *J) {
  for (size_t i = 0; i < n; ++i) {
    double *row = J + i * n;
    if (f == opt_quadratic) {
      const double s = sqrt((n > 1 ? pow(1000, (double)i / (double)(n - 1)) : 1) / 2);
      r[i] = s * (x[i] - 1);
      row[i] = s;
    } else if (f == opt_quartic) {
      const double s = pow(10, -1 + 3 * (double)i / (double)(n - 1)), z = s * (x[i] - 1);
      r[i] = z * z;
      row[i] = 2 * s * z;
    } else if (f == opt_rosenbrock && i + 1 < n) {
      r[2 * i] = 10 * (x[i + 1] - x[i] * x[i]);
      J[2 * i * n + i] = -20 * x[i];
      J[2 * i * n + i + 1] = 10;
      r[2 * i + 1] = 1 - x[i];
      J[(2 * i + 1) * n + i] = -1;
    }
  }
  for (size_t i = 0; f == opt_powell && i + 3 < n; i += 4) {
    const double a = x[i] + 10 * x[i + 1], b = sqrt(5) * (x[i + 2] - x[i + 3]);
    const double c = x[i + 1] - 2 * x[i + 2], d = x[i] - x[i + 3], e = sqrt(10);
    const double value[] = {a, b, c * c, e * d * d};
    const double slope[4][4] = {{1, 10, 0, 0},
                                {0, 0, sqrt(5), -sqrt(5)},
                                {0, 2 * c, -4 * c, 0},
                                {2 * e * d, 0, 0, -2 * e * d}};
    for (size_t k = 0; k < 4; ++k) {
      r[i + k] = value[k];
      pn_copy(4, slope[k], J + (i + k) * n + i);
    }
  }
}

enum { MOST_SQUARES = 100 }; /* parameters; rows are at most twice that */
static double kept_factors[2 * MOST_SQUARES * MOST_SQUARES], kept_tau[MOST_SQUARES];

/* r (and J by rows, may be NULL) at theta, shifted and scaled as the probe says. */
static tn_status squares_at(pn_objective *f, const double *theta, double *r, double *J) {
  const opt_probe *p = f->context;
  double x[MOST_SQUARES], *own = NULL;
  assert_true(f->n <= MOST_SQUARES);
  if (!J)
    TN_TRY(TN_NEW(f->n_rows * f->n, &own));
  for (size_t i = 0; i < f->n; ++i)
    x[i] = theta[i] - p->shift;
  for (size_t i = 0; J && i < f->n_rows * f->n; ++i)
    J[i] = 0;
  opt_residual(p->f, f->n, x, r, J ? J : own);
  if (p->factor != 0) {
    pn_scale(f->n_rows, sqrt(p->factor), r);
    if (J)
      pn_scale(f->n_rows * f->n, sqrt(p->factor), J);
  }
  tn_free(&own);
  return TN_OK;
}

static tn_status squares_residual(pn_objective *f, const double *theta, double *r) {
  return squares_at(f, theta, r, NULL);
}

static tn_status squares_qt(pn_objective *f, const double *w, double *out) {
  double copy[2 * MOST_SQUARES];
  pn_copy(f->n_rows, w, copy);
  assert_int_equal(LAPACKE_dormqr(LAPACK_ROW_MAJOR, 'L', 'T', (int)f->n_rows, 1, (int)f->n,
                                  kept_factors, (int)f->n, kept_tau, copy, 1),
                   0);
  pn_copy(f->n, copy, out);
  return TN_OK;
}

static tn_status squares_qr(pn_objective *f, const double *theta, double *loss, double *R,
                            double *qtr) {
  opt_probe *p = f->context;
  double r[2 * MOST_SQUARES];
  p->calls += 1;
  if (p->calls == p->fail_at)
    return TN_FAIL(TN_EIO, "probe");
  TN_TRY(squares_at(f, theta, r, kept_factors));
  *loss = pn_dot(f->n_rows, r, r);
  if (p->calls >= p->bad_at && p->calls < p->bad_to)
    *loss = NAN;
  assert_int_equal(LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, (int)f->n_rows, (int)f->n, kept_factors,
                                  (int)f->n, kept_tau),
                   0);
  for (size_t i = 0; i < f->n; ++i)
    for (size_t j = 0; j < f->n; ++j)
      R[i * f->n + j] = j < i ? 0 : kept_factors[i * f->n + j];
  return squares_qt(f, r, qtr);
}

/* r(x + v) - 2 r(x) + r(x - v): exact, as every residual here is of degree 2. */
static tn_status squares_second(pn_objective *f, const double *theta, const double *v,
                                double *out) {
  double x[MOST_SQUARES], r[3][2 * MOST_SQUARES];
  for (int side = -1; side <= 1; ++side) {
    pn_add_scaled(f->n, theta, side, v, x);
    TN_TRY(squares_at(f, x, r[side + 1], NULL));
  }
  for (size_t i = 0; i < f->n_rows; ++i)
    out[i] = r[0][i] - 2 * r[1][i] + r[2][i];
  return TN_OK;
}

pn_objective opt_squares(opt_probe *p, size_t n) {
  pn_objective f = opt_objective(p, n);
  f.n_rows = opt_rows(p->f, n);
  f.residual = squares_residual;
  f.qr = squares_qr;
  f.qt = squares_qt;
  f.second = squares_second;
  return f;
}

pn_objective opt_objective_for(const pn_opt_class *class_, opt_probe *p, size_t n) {
  return class_->flags & PN_OPT_F64 ? opt_squares(p, n) : opt_objective(p, n);
}

/* ---- Running --------------------------------------------------------------------------------- */

const pn_opt_context opt_serial = {.rate = 0.01};

pn_opt *opt_of(const char *name, size_t n, const pn_setting *settings, size_t count) {
  const pn_opt_class *class_ = NULL;
  pn_opt *opt = NULL;
  assert_int_equal(pn_opt_find(name, &class_), TN_OK);
  assert_int_equal(pn_opt_new(class_, n, settings, count, &opt_serial, &opt), TN_OK);
  return opt;
}

/* Steps until loss <= target, the method stops or `steps` are done; gives the number of steps. What
 * a report promises is checked on the way. */
size_t opt_descend(pn_opt *opt, pn_objective *f, double *theta, double target, size_t steps,
                   double *loss) {
  double before[OPT_MOST];
  pn_step_report r;
  size_t k = 0;
  for (; k < steps; ++k) {
    const size_t calls = ((opt_probe *)f->context)->calls;
    pn_copy(f->n, theta, before);
    assert_int_equal(pn_opt_step(opt, &opt_serial, f, theta, &r), TN_OK);
    assert_int_equal(r.losses + r.gradients, ((opt_probe *)f->context)->calls - calls);
    assert_true(r.accepted == (memcmp(before, theta, f->n * sizeof *theta) != 0));
    assert_true(!r.stop || r.reason[0] != '\0');
    pn_subtract(f->n, theta, before, before);
    assert_true(r.accepted ? r.step_length == pn_norm(f->n, before) : r.step_length == 0);
    *loss = isnan(r.loss_after) ? r.loss_before : r.loss_after;
    if (*loss <= target || r.stop)
      return k + 1;
  }
  return k;
}

/* ---- State through a visitor ----------------------------------------------------------------- */

static tn_status keep(pn_state_visitor *visitor, const char *name, size_t n, double *data) {
  opt_image *m = visitor->context;
  if (visitor->restores) {
    const size_t k = m->next++;
    if (k >= m->count || strcmp(m->entry[k].name, name) != 0 || m->entry[k].n != n)
      return TN_FAIL(TN_EINPUT, "state has no %zu numbers `%s`", n, name);
    pn_copy(n, m->entry[k].data, data);
    return TN_OK;
  }
  assert_true(m->count < OPT_ENTRIES && strlen(name) < sizeof m->entry->name);
  TN_TRY(tn_new(n, sizeof *data, &m->entry[m->count].data));
  pn_copy(n, data, m->entry[m->count].data);
  m->entry[m->count].n = n;
  strcpy(m->entry[m->count++].name, name);
  return TN_OK;
}

static tn_status keep_number(pn_state_visitor *visitor, const char *name, double *x) {
  return keep(visitor, name, 1, x);
}

tn_status opt_exchange(pn_opt *opt, opt_image *m, bool restores) {
  pn_state_visitor v = {m, restores, keep, keep_number};
  m->next = 0;
  return pn_opt_visit(opt, &v);
}

void opt_drop(opt_image *m) {
  for (size_t k = 0; k < m->count; ++k)
    tn_free(&m->entry[k].data);
  m->count = 0;
}

double *opt_find(opt_image *m, const char *name) {
  for (size_t k = 0; k < m->count; ++k)
    if (strcmp(m->entry[k].name, name) == 0)
      return m->entry[k].data;
  fail_msg("state has no `%s`", name);
  return NULL;
}
