/* reference_linear.c: dense least squares for collocation.
 *
 * Rows are scaled to the largest entry 1 and columns to norm 1: rows of a fourth derivative are n^8 times those of a
 * boundary value, and columns of high coefficients as much larger than the first. Then QR; if R is nearly singular,
 * LAPACK's dgelsy (column pivoting, complete orthogonal factorisation) takes from R the solution of least norm. What
 * remains below 1e-13 of the largest diagonal entry is a direction that no row sees: the constant of a pressure, say.
 */
#include "pinn/reference.h"

#include <lapacke.h>
#include <math.h>

static void scale_rows(size_t m, size_t n, double *A, double *b) {
  for (size_t i = 0; i < m; ++i) {
    double most = 0;
    for (size_t j = 0; j < n; ++j)
      most = fmax(most, fabs(A[i + j * m]));
    for (size_t j = 0; most > 0 && j < n; ++j)
      A[i + j * m] /= most;
    b[i] = most > 0 ? b[i] / most : 0; /* a row without unknowns says nothing */
  }
}

static void scale_columns(size_t m, size_t n, double *A, double *norm) {
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < m; ++i)
      norm[j] += A[i + j * m] * A[i + j * m];
    norm[j] = norm[j] > 0 ? sqrt(norm[j]) : 1;
    for (size_t i = 0; i < m; ++i)
      A[i + j * m] /= norm[j];
  }
}

static tn_status check_finite(size_t n, const double *x, const char *what) {
  for (size_t k = 0; k < n; ++k)
    if (!isfinite(x[k]))
      return TN_FAIL(TN_ENONFINITE, "%s of an equation or a condition is not finite", what);
  return TN_OK;
}

static tn_status by_rank(size_t m, size_t n, double *A, double *b, size_t *null) {
  lapack_int *pivot = NULL, rank = 0;
  TN_TRY(TN_NEW(n, &pivot));
  lapack_int info = LAPACKE_dgelsy(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, 1, A, (lapack_int)m, b,
                                   (lapack_int)(m > n ? m : n), pivot, 1e-13, &rank);
  *null = n - (size_t)rank;
  tn_free(&pivot);
  return info ? TN_FAIL(TN_EINTERNAL, "LAPACK: dgelsy says %d", (int)info) : TN_OK;
}

/* m >= n. R replaces the upper triangle of A, Q^T b replaces b; then one or the other solution. */
static tn_status by_qr(size_t m, size_t n, double *A, double *b, size_t *null) {
  double *tau = NULL, condition = 0;
  lapack_int rows = (lapack_int)m, columns = (lapack_int)n;
  TN_TRY(TN_NEW(n, &tau));
  lapack_int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, rows, columns, A, rows, tau);
  if (info == 0)
    info = LAPACKE_dormqr(LAPACK_COL_MAJOR, 'L', 'T', rows, 1, columns, A, rows, tau, b, rows);
  if (info == 0)
    info = LAPACKE_dtrcon(LAPACK_COL_MAJOR, '1', 'U', 'N', columns, A, rows, &condition);
  tn_free(&tau);
  if (info == 0 && condition > 1e-14)
    info = LAPACKE_dtrtrs(LAPACK_COL_MAJOR, 'U', 'N', 'N', columns, 1, A, rows, b, rows);
  if (info)
    return TN_FAIL(TN_EINTERNAL, "LAPACK: least squares by QR say %d", (int)info);
  if (condition > 1e-14)
    return TN_OK;
  for (size_t j = 0; j < n; ++j) /* R as a matrix of its own */
    for (size_t i = 0; i < n; ++i)
      A[i + j * n] = i <= j ? A[i + j * m] : 0;
  return by_rank(n, n, A, b, null);
}

tn_status pn_ref_least(size_t m, size_t n, double *A, double *b, size_t *null) {
  double *norm = NULL;
  *null = 0;
  if (m > INT32_MAX || n > INT32_MAX || m * n > INT32_MAX)
    return TN_FAIL(TN_EUNSUPPORTED, "least squares of %zu x %zu numbers", m, n);
  TN_TRY(TN_NEW(n, &norm));
  scale_rows(m, n, A, b);
  scale_columns(m, n, A, norm);
  tn_status status = check_finite(m * n, A, "a derivative");
  if (status == TN_OK)
    status = check_finite(m, b, "the residual");
  if (status == TN_OK)
    status = m >= n ? by_qr(m, n, A, b, null) : by_rank(m, n, A, b, null);
  for (size_t j = 0; status == TN_OK && j < n; ++j)
    b[j] /= norm[j];
  tn_free(&norm);
  return status;
}
