/* reference_radau.c: Radau IIA of s stages as collocation, diagonalised, and factors of complex matrices.
 *
 * c_1 < ... < c_s = 1 are the zeros of P_s(2c - 1) - P_(s-1)(2c - 1). The order is 2 s - 1 at the end of a step and s
 * inside it; the last stage is the end of the step, so that equations without time derivatives hold there exactly, and
 * stiff parts are damped completely. Newton's matrix couples the stages by W alone: in its eigenvectors the stages
 * fall apart into s systems of the size of one, of which conjugate pairs need one factorisation (Butcher 1976, Bickart
 * 1977).
 */
#include "pinn/reference_radau.h"

#include <complex.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

typedef double complex number;

static void put(double *p, number z) {
  p[0] = creal(z);
  p[1] = cimag(z);
}

/* ---- The method --------------------------------------------------------------------------------------- */

/* P_s - P_(s-1) at x. */
static double radau_polynomial(size_t s, double x) {
  double before = 1, now = x;
  for (size_t k = 2; k <= s; ++k) {
    double next = ((double)(2 * k - 1) * x * now - (double)(k - 1) * before) / (double)k;
    before = now;
    now = next;
  }
  return now - before;
}

/* The s - 1 zeros inside (-1, 1) by bisection between signs on a fine grid; the last one is 1. */
static void nodes(size_t s, double *c) {
  enum { CELLS = 1000 };
  size_t found = 0;
  for (size_t i = 0; i < CELLS && found + 1 < s; ++i) {
    double a = -1 + 1.9999 * (double)i / CELLS, b = -1 + 1.9999 * (double)(i + 1) / CELLS;
    double fa = radau_polynomial(s, a);
    if ((fa < 0) == (radau_polynomial(s, b) < 0))
      continue;
    for (size_t k = 0; k < 200 && b - a > 0; ++k) {
      double middle = (a + b) / 2;
      if (middle == a || middle == b)
        break;
      if ((radau_polynomial(s, middle) < 0) == (fa < 0))
        a = middle;
      else
        b = middle;
    }
    c[found++] = (a + 1) / 2;
  }
  c[s - 1] = 1;
}

void pn_radau_weights(const pn_radau *r, double x, bool start, double *weight) {
  double at[PN_RADAU_MOST + 1] = {0};
  memcpy(at + 1, r->c, r->s * sizeof *at);
  weight[0] = 0;
  for (size_t j = start ? 0 : 1; j <= r->s; ++j) {
    weight[j] = 1;
    for (size_t k = start ? 0 : 1; k <= r->s; ++k)
      if (k != j)
        weight[j] *= (x - at[k]) / (at[j] - at[k]);
  }
}

/* W_ij = l_j'(c_i), from the barycentric weights. */
static void derivatives(pn_radau *r) {
  double at[PN_RADAU_MOST + 1] = {0}, weight[PN_RADAU_MOST + 1];
  size_t n = r->s + 1;
  memcpy(at + 1, r->c, r->s * sizeof *at);
  for (size_t j = 0; j < n; ++j) {
    weight[j] = 1;
    for (size_t k = 0; k < n; ++k)
      weight[j] /= k == j ? 1 : at[j] - at[k];
  }
  for (size_t i = 1; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      if (j == i)
        continue;
      double d = weight[j] / weight[i] / (at[i] - at[j]);
      sum += d;
      if (j)
        r->W[i - 1][j - 1] = d;
    }
    r->W[i - 1][i - 1] = -sum;
  }
}

static tn_status eigenvectors(pn_radau *r) {
  double a[PN_RADAU_MOST * PN_RADAU_MOST], re[PN_RADAU_MOST], im[PN_RADAU_MOST],
      v[PN_RADAU_MOST * PN_RADAU_MOST], none = 0;
  lapack_int n = (lapack_int)r->s, pivot[PN_RADAU_MOST];
  number t[PN_RADAU_MOST * PN_RADAU_MOST], inverse[PN_RADAU_MOST * PN_RADAU_MOST] = {0};
  for (size_t i = 0; i < r->s; ++i)
    for (size_t j = 0; j < r->s; ++j)
      a[i + j * r->s] = r->W[i][j];
  if (LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'V', n, a, n, re, im, &none, 1, v, n))
    return TN_FAIL(TN_EINTERNAL, "LAPACK: dgeev fails for %zu stages", r->s);
  for (size_t k = 0; k < r->s; ++k) {
    r->lambda[k][0] = re[k];
    r->lambda[k][1] = im[k];
    for (size_t i = 0; i < r->s; ++i) {
      number z = v[i + k * r->s];
      if (im[k] > 0)
        z = v[i + k * r->s] + I * v[i + (k + 1) * r->s];
      if (im[k] < 0)
        z = v[i + (k - 1) * r->s] - I * v[i + k * r->s];
      t[i + k * r->s] = z;
      put(r->T[i][k], z);
    }
    inverse[k + k * r->s] = 1;
  }
  if (LAPACKE_zgesv(LAPACK_COL_MAJOR, n, n, t, n, pivot, inverse, n))
    return TN_FAIL(TN_EINTERNAL, "LAPACK: zgesv fails for %zu stages", r->s);
  for (size_t i = 0; i < r->s; ++i)
    for (size_t j = 0; j < r->s; ++j)
      put(r->inverse[i][j], inverse[i + j * r->s]);
  return TN_OK;
}

tn_status pn_radau_new(size_t s, pn_radau *out) {
  *out = (pn_radau){.s = s};
  if (s < 1 || s > PN_RADAU_MOST)
    return TN_FAIL(TN_ERANGE, "%zu stages, expected 1 to %d", s, PN_RADAU_MOST);
  nodes(s, out->c);
  derivatives(out);
  return eigenvectors(out);
}

/* ---- Factors ------------------------------------------------------------------------------------------ */

static tn_status scale(pn_factors *f, number *a) {
  size_t m = f->m, n = f->n;
  TN_TRY(TN_NEW(m, &f->row));
  TN_TRY(TN_NEW(n, &f->norm));
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j)
      f->row[i] = fmax(f->row[i], cabs(a[i + j * m]));
    if (!isfinite(f->row[i]))
      return TN_FAIL(TN_ENONFINITE, "a derivative of an equation is not finite");
    f->row[i] = f->row[i] > 0 ? f->row[i] : 1;
    for (size_t j = 0; j < n; ++j)
      a[i + j * m] /= f->row[i];
  }
  for (size_t j = 0; j < n; ++j) {
    double sum = 0;
    for (size_t i = 0; i < m; ++i)
      sum += creal(a[i + j * m]) * creal(a[i + j * m]) + cimag(a[i + j * m]) * cimag(a[i + j * m]);
    f->norm[j] = sum > 0 ? sqrt(sum) : 1;
    for (size_t i = 0; i < m; ++i)
      a[i + j * m] /= f->norm[j];
  }
  return TN_OK;
}

static tn_status by_lu(pn_factors *f, number *a, bool *good) {
  size_t n = f->n;
  double most = 0, condition = 0;
  number *copy = NULL;
  lapack_int size = (lapack_int)n;
  *good = false;
  TN_TRY(tn_new(n * n, sizeof *copy, &copy));
  memcpy(copy, a, n * n * sizeof *copy);
  for (size_t j = 0; j < n; ++j) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
      sum += cabs(a[i + j * n]);
    most = fmax(most, sum);
  }
  lapack_int info = LAPACKE_zgetrf(LAPACK_COL_MAJOR, size, size, copy, size, f->pivot);
  if (info == 0)
    info = LAPACKE_zgecon(LAPACK_COL_MAJOR, '1', size, copy, size, most, &condition);
  *good = info == 0 && condition > 1e-13;
  if (*good)
    memcpy(a, copy, n * n * sizeof *copy);
  tn_free(&copy);
  return TN_OK;
}

tn_status pn_factors_new(size_t m, size_t n, double **A, pn_factors *out) {
  *out = (pn_factors){.m = m, .n = n, .A = *A};
  *A = NULL;
  number *a = (number *)(void *)out->A;
  if (m > INT32_MAX || n > INT32_MAX || m * n > INT32_MAX)
    return TN_FAIL(TN_EUNSUPPORTED, "a matrix of %zu x %zu numbers", m, n);
  TN_TRY(scale(out, a));
  TN_TRY(TN_NEW(n > m ? n : m, &out->pivot));
  if (m == n)
    TN_TRY(by_lu(out, a, &out->lu));
  if (out->lu)
    return TN_OK;
  size_t least = m < n ? m : n;
  TN_TRY(TN_NEW(2 * least, &out->tau));
  memset(out->pivot, 0, n * sizeof *out->pivot);
  lapack_int info = LAPACKE_zgeqp3(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, a, (lapack_int)m,
                                   out->pivot, (number *)(void *)out->tau);
  if (info)
    return TN_FAIL(TN_EINTERNAL, "LAPACK: zgeqp3 says %d", (int)info);
  while (out->rank < least && cabs(a[out->rank + out->rank * m]) > 1e-13 * cabs(a[0]))
    ++out->rank;
  return TN_OK;
}

static tn_status solve_qr(const pn_factors *f, number *b) {
  number *a = (number *)(void *)f->A, *x = NULL;
  lapack_int m = (lapack_int)f->m, least = (lapack_int)(f->m < f->n ? f->m : f->n), rank = (lapack_int)f->rank;
  lapack_int info = LAPACKE_zunmqr(LAPACK_COL_MAJOR, 'L', 'C', m, 1, least, a, m,
                                   (const number *)(const void *)f->tau, b, m);
  if (info == 0 && rank > 0)
    info = LAPACKE_ztrtrs(LAPACK_COL_MAJOR, 'U', 'N', 'N', rank, 1, a, m, b, m);
  if (info)
    return TN_FAIL(TN_EINTERNAL, "LAPACK: a solution by QR says %d", (int)info);
  TN_TRY(tn_new(f->n, sizeof *x, &x));
  for (size_t j = 0; j < f->rank; ++j)
    x[f->pivot[j] - 1] = b[j];
  memcpy(b, x, f->n * sizeof *x);
  tn_free(&x);
  return TN_OK;
}

tn_status pn_factors_solve(const pn_factors *f, double *right) {
  number *b = (number *)(void *)right, *a = (number *)(void *)f->A;
  for (size_t i = 0; i < f->m; ++i) {
    b[i] /= f->row[i];
    if (!isfinite(creal(b[i])) || !isfinite(cimag(b[i])))
      return TN_FAIL(TN_ENONFINITE, "the residual of an equation or a condition is not finite");
  }
  if (f->lu) {
    lapack_int n = (lapack_int)f->n, info = LAPACKE_zgetrs(LAPACK_COL_MAJOR, 'N', n, 1, a, n, f->pivot, b, n);
    if (info)
      return TN_FAIL(TN_EINTERNAL, "LAPACK: zgetrs says %d", (int)info);
  } else {
    TN_TRY(solve_qr(f, b));
  }
  for (size_t j = 0; j < f->n; ++j)
    b[j] /= f->norm[j];
  return TN_OK;
}

void pn_factors_free(pn_factors *f) {
  tn_free(&f->A);
  tn_free(&f->tau);
  tn_free(&f->row);
  tn_free(&f->norm);
  tn_free(&f->pivot);
}
