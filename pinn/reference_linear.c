/* reference_linear.c: dense least squares for collocation.
 *
 * Rows are scaled to the largest entry 1 and columns to norm 1 before LAPACK's dgelsy (QR with column pivoting, then
 * the complete orthogonal factorisation) finds the solution of least norm: rows of a fourth derivative are n^8 times
 * those of a boundary value, and columns of high coefficients as much larger than the first. What remains below
 * 1e-13 of the largest diagonal entry is a direction that no row sees: the constant of a pressure, say.
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

tn_status pn_ref_least(size_t m, size_t n, double *A, double *b, size_t *null) {
  double *norm = NULL;
  lapack_int *pivot = NULL, rank = 0, info = 0;
  if (m > INT32_MAX || n > INT32_MAX || m * n > INT32_MAX)
    return TN_FAIL(TN_EUNSUPPORTED, "least squares of %zu x %zu numbers", m, n);
  TN_TRY(TN_NEW(n, &norm));
  tn_status status = TN_NEW(n, &pivot);
  if (status == TN_OK) {
    scale_rows(m, n, A, b);
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < m; ++i)
        norm[j] += A[i + j * m] * A[i + j * m];
      norm[j] = norm[j] > 0 ? sqrt(norm[j]) : 1;
      for (size_t i = 0; i < m; ++i)
        A[i + j * m] /= norm[j];
    }
    size_t rows = m > n ? m : n;
    for (size_t k = 0; k < m * n && status == TN_OK; ++k)
      if (!isfinite(A[k]))
        status = TN_FAIL(TN_ENONFINITE, "a derivative of an equation is not finite");
    for (size_t k = 0; k < m && status == TN_OK; ++k)
      if (!isfinite(b[k]))
        status = TN_FAIL(TN_ENONFINITE, "a residual of an equation is not finite");
    if (status == TN_OK)
      info = LAPACKE_dgelsy(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, 1, A, (lapack_int)m, b,
                            (lapack_int)rows, pivot, 1e-13, &rank);
    if (status == TN_OK && info)
      status = TN_FAIL(TN_EINTERNAL, "LAPACK: dgelsy says %d", (int)info);
    for (size_t j = 0; status == TN_OK && j < n; ++j)
      b[j] /= norm[j];
  }
  *null = n - (size_t)rank;
  tn_free(&norm);
  tn_free(&pivot);
  return status;
}
