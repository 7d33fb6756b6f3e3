/* factor_lapack.c: the table of factorisations by LAPACK and BLAS.
 *
 *   qr        dgeqrf      A = Q R by blocks of Householder reflections
 *   qr_apply  dormqr      Q^T C with the same reflections
 *   svd       dgesvd      bidiagonal form, then implicit QR: s to about u s_1, whatever the condition
 *   cholesky  dpotrf
 *   syrk      cblas_dsyrk
 *
 * Every call asks for the work that LAPACK wants and gives it all of that: with less, it takes narrower blocks, and
 * the bits of a result would depend on who had allocated. A work only grows, so that a loop of equal calls
 * allocates once.
 *
 * Extents are 32-bit numbers there, and so are some products of two. What does not fit is refused by name and size.
 * NaN goes through products and reflections as a value; where an iteration or a pivot decides (svd, cholesky), an
 * entry that is not finite is refused instead, since what LAPACK then does is not defined.
 */
#include "pinn/factor.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>

struct tn_factor_work {
  double *room;
  size_t size;
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

static tn_status check_size(const char *what, size_t m, size_t n) {
  if (m > INT32_MAX || n > INT32_MAX || (n > 0 && m > INT32_MAX / n))
    return TN_FAIL(TN_EUNSUPPORTED, "%s of %zu x %zu numbers is beyond LAPACK's 32-bit sizes", what,
                   m, n);
  return TN_OK;
}

static tn_status check_finite(const char *what, size_t m, size_t n, const double *A) {
  for (size_t i = 0; i < m * n; ++i)
    if (!isfinite(A[i]))
      return TN_FAIL(TN_ENONFINITE, "%s of %zu x %zu numbers: entry (%zu, %zu) is %g", what, m, n,
                     i % m, i / m, A[i]);
  return TN_OK;
}

/* LAPACK's status. A positive one, where it means anything, is dealt with before. */
static tn_status lapack(lapack_int info, const char *name) {
  return info == 0 ? TN_OK : TN_FAIL(TN_EINTERNAL, "LAPACK: %s says %d", name, (int)info);
}

/* Room for as many numbers as a query has told. */
static tn_status need(tn_factor_work *work, double told) {
  size_t size = told > 1 ? (size_t)told : 1;
  if (size <= work->size)
    return TN_OK;
  tn_free(&work->room);
  work->size = 0;
  TN_TRY(TN_NEW(size, &work->room));
  work->size = size;
  return TN_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static tn_status qr(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, double *A,
                    double *tau) {
  (void)f;
  double told = 0;
  TN_TRY(check_size("QR", m, n));
  if (m == 0 || n == 0)
    return TN_OK;
  lapack_int rows = (lapack_int)m, columns = (lapack_int)n;
  TN_TRY(lapack(LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, rows, columns, A, rows, tau, &told, -1),
                "dgeqrf"));
  TN_TRY(need(work, told));
  return lapack(LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, rows, columns, A, rows, tau, work->room,
                                    (lapack_int)told),
                "dgeqrf");
}

static tn_status qr_apply(const tn_factor *f, tn_factor_work *work, size_t m, size_t c, size_t k,
                          const double *A, const double *tau, double *C) {
  (void)f;
  double told = 0;
  TN_TRY(check_size("Q^T C", m, c));
  TN_TRY(check_size("Q^T C by reflectors", m, k));
  if (k > m)
    return TN_FAIL(TN_ESHAPE, "Q^T C: %zu reflectors of %zu rows, expected at most %zu", k, m, m);
  if (m == 0 || c == 0 || k == 0)
    return TN_OK;
  lapack_int rows = (lapack_int)m, columns = (lapack_int)c, count = (lapack_int)k;
  TN_TRY(lapack(LAPACKE_dormqr_work(LAPACK_COL_MAJOR, 'L', 'T', rows, columns, count, A, rows, tau,
                                    C, rows, &told, -1),
                "dormqr"));
  TN_TRY(need(work, told));
  return lapack(LAPACKE_dormqr_work(LAPACK_COL_MAJOR, 'L', 'T', rows, columns, count, A, rows, tau,
                                    C, rows, work->room, (lapack_int)told),
                "dormqr");
}

static tn_status svd(const tn_factor *f, tn_factor_work *work, size_t n, double *A, double *s,
                     double *U, double *Vt) {
  (void)f;
  double told = 0;
  TN_TRY(check_size("SVD", n, n));
  TN_TRY(check_finite("SVD", n, n, A));
  if (n == 0)
    return TN_OK;
  lapack_int size = (lapack_int)n;
  TN_TRY(lapack(LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'A', 'A', size, size, A, size, s, U, size, Vt,
                                    size, &told, -1),
                "dgesvd"));
  TN_TRY(need(work, told));
  lapack_int info = LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'A', 'A', size, size, A, size, s, U, size,
                                        Vt, size, work->room, (lapack_int)told);
  if (info > 0)
    return TN_FAIL(TN_ERANGE, "SVD of %zu x %zu numbers: %d superdiagonals did not converge", n, n,
                   (int)info);
  return lapack(info, "dgesvd");
}

static tn_status cholesky(const tn_factor *f, tn_factor_work *work, size_t n, double *A) {
  (void)f;
  (void)work;
  TN_TRY(check_size("Cholesky", n, n));
  for (size_t j = 0; j < n; ++j)
    for (size_t i = j; i < n; ++i)
      if (!isfinite(A[i + j * n]))
        return TN_FAIL(TN_ENONFINITE, "Cholesky of %zu x %zu numbers: entry (%zu, %zu) is %g", n, n,
                       i, j, A[i + j * n]);
  if (n == 0)
    return TN_OK;
  lapack_int size = (lapack_int)n, info = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', size, A, size);
  if (info > 0)
    return TN_FAIL(TN_ERANGE,
                   "Cholesky of %zu x %zu numbers: the leading minor of order %d is not positive",
                   n, n, (int)info);
  return lapack(info, "dpotrf");
}

static tn_status syrk(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, const double *A,
                      double *C) {
  (void)f;
  (void)work;
  TN_TRY(check_size("A^T A with A", m, n));
  TN_TRY(check_size("A^T A", n, n));
  if (m == 0)
    for (size_t j = 0; j < n; ++j)
      for (size_t i = j; i < n; ++i)
        C[i + j * n] = 0;
  else if (n > 0)
    cblas_dsyrk(CblasColMajor, CblasLower, CblasTrans, (blasint)n, (blasint)m, 1, A, (blasint)m, 0,
                C, (blasint)n);
  return TN_OK;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void work_free(const tn_factor *f, tn_factor_work **work) {
  (void)f;
  if (*work)
    tn_free(&(*work)->room);
  tn_free(work);
}

static tn_status work_new(const tn_factor *f, size_t m, size_t n, tn_factor_work **out) {
  tn_factor_work *work = NULL;
  double told = 0, none = 0;
  *out = NULL;
  TN_TRY(check_size("a work for matrices", m, n));
  TN_TRY(TN_NEW(1, &work));
  tn_status status = TN_OK;
  if (m > 0 && n > 0)
    status = lapack(LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, &none,
                                        (lapack_int)m, &none, &told, -1),
                    "dgeqrf");
  if (status == TN_OK)
    status = need(work, told);
  if (status != TN_OK)
    work_free(f, &work);
  *out = work;
  return status;
}

static const tn_factor lapack_table = {.name = "lapack",
                                       .work_new = work_new,
                                       .work_free = work_free,
                                       .qr = qr,
                                       .qr_apply = qr_apply,
                                       .svd = svd,
                                       .cholesky = cholesky,
                                       .syrk = syrk};

const tn_factor *pn_factor(tn_device *device) {
  const tn_factor *own = tn_device_factor(device);
  return own ? own : &lapack_table;
}
