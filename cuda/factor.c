/* factor.c: the table of factorisations by cuSOLVER, and cuBLAS for products with itself.
 *
 *   qr        cusolverDnDgeqrf
 *   qr_apply  cusolverDnDormqr
 *   svd       cusolverDnXgesvdp, or cusolverDnDgesvd
 *   cholesky  cusolverDnDpotrf
 *   syrk      cublasDsyrk
 *
 * Arrays are the host's: each call uploads, works on the context's stream and downloads, and takes its memory from
 * the caching pool, so a loop of equal calls asks the driver once.
 *
 * Two ways to singular values. gesvdp goes by the polar decomposition, almost all of it matrix products, and is many
 * times faster than gesvd, which goes by bidiagonal form and implicit QR. But near singular values of zero it moves
 * the matrix a little, and tells by how much. Its result is taken if that is at most 16 u s_1, about what the
 * backward error of gesvd is; else gesvd starts anew, and the work remembers, since the next matrix of a run
 * is as near to singular as this one. cuSOLVER without gesvdp for this matrix (not supported) counts the same.
 *
 * devInfo < 0 is a wrong argument. Above 0 it is the order of a minor that is not positive (potrf), or the number of
 * superdiagonals that did not converge. As with LAPACK, NaN and infinity are refused where an iteration or a pivot
 * decides, before anything is uploaded.
 */
#include <math.h>
#include <stdio.h>

#include "cuda/vendor.h"

typedef struct gpu_factor_state {
  tn_factor table;
  cusolverDnHandle_t solver;
  cublasHandle_t blas;
} state;

struct tn_factor_work {
  bool by_qr; /* gesvdp has moved singular values by too much */
};

/* What a call holds until it ends: device memory, and whom it belongs to. */
enum { MOST_BLOCKS = 6 };
typedef struct call {
  gpu_context *g;
  gpu_vendor *v;
  state *s;
  size_t n;
  CUdeviceptr block[MOST_BLOCKS];
  double *host; /* room that gesvdp wants here */
  char text[96];
} call;

static tn_status solver(const call *c, cusolverStatus_t status, const char *name) {
  return gpu_cusolver_result(status, name, c->text);
}
#define SOLVER_TRY(c, name, arguments) TN_TRY(solver((c), (c)->v->solver->name arguments, #name))

/* ---- Handles --------------------------------------------------------------------------------- */

static tn_status open_solver(gpu_context *g, gpu_vendor *v, state *s) {
  if (s->solver)
    return TN_OK;
  if (!v->solver)
    TN_TRY(gpu_need_cusolver(&v->solver));
  TN_TRY(gpu_cusolver_result(v->solver->cusolverDnCreate(&s->solver), "cusolverDnCreate", g->text));
  tn_status status =
      gpu_cusolver_result(v->solver->cusolverDnSetStream(s->solver, (cudaStream_t)g->stream),
                          "cusolverDnSetStream", g->text);
  if (status != TN_OK) {
    v->solver->cusolverDnDestroy(s->solver);
    s->solver = NULL;
  }
  return status;
}

static tn_status open_blas(gpu_context *g, gpu_vendor *v, state *s) {
  if (s->blas)
    return TN_OK;
  if (!v->blas)
    TN_TRY(gpu_need_cublas(&v->blas));
  TN_TRY(gpu_cublas_result(v->blas->cublasCreate(&s->blas), "cublasCreate", g->text));
  tn_status status = gpu_cublas_result(v->blas->cublasSetStream(s->blas, (cudaStream_t)g->stream),
                                       "cublasSetStream", g->text);
  if (status == TN_OK)
    status = gpu_cublas_result(v->blas->cublasSetMathMode(s->blas, CUBLAS_DEFAULT_MATH),
                               "cublasSetMathMode", g->text);
  if (status != TN_OK) {
    v->blas->cublasDestroy(s->blas);
    s->blas = NULL;
  }
  return status;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* Enters the device; end leaves it. */
static tn_status begin(const tn_factor *f, bool blas, call *c) {
  *c = (call){.g = f->context, .text = ""};
  tn_status status = gpu_enter(c->g);
  c->v = c->g->vendor;
  c->s = c->v->factor;
  TN_TRY(status);
  return blas ? open_blas(c->g, c->v, c->s) : open_solver(c->g, c->v, c->s);
}

static tn_status end(call *c, tn_status status) {
  while (c->n > 0)
    gpu_give(c->g, &c->block[--c->n]);
  tn_free(&c->host);
  gpu_leave(c->g);
  return status;
}

static tn_status take(call *c, size_t bytes, CUdeviceptr *out) {
  if (c->n == MOST_BLOCKS)
    return TN_FAIL(TN_EINTERNAL, "factor: more than %d blocks", (int)MOST_BLOCKS);
  TN_TRY(gpu_take(c->g, bytes > 0 ? bytes : 1, &c->block[c->n]));
  *out = c->block[c->n++];
  return TN_OK;
}

/* n numbers on the device, with those of `from` unless it is NULL. */
static tn_status take_numbers(call *c, size_t n, const double *from, double **out) {
  CUdeviceptr p = 0;
  TN_TRY(take(c, n * sizeof(double), &p));
  *out = (double *)(uintptr_t)p;
  return from ? gpu_upload(c->g, false, p, from, n * sizeof(double)) : TN_OK;
}

static tn_status fetch(call *c, double *to, const double *from, size_t n) {
  return gpu_download(c->g, to, (CUdeviceptr)(uintptr_t)from, n * sizeof(double));
}

static tn_status take_info(call *c, int **out) {
  CUdeviceptr p = 0;
  TN_TRY(take(c, sizeof(int), &p));
  *out = (int *)(uintptr_t)p;
  GPU_TRY(c->g, cuMemsetD8Async, (p, 0, sizeof(int), c->g->stream));
  return TN_OK;
}

static tn_status read_info(call *c, const char *name, const int *from, int *info) {
  TN_TRY(gpu_download(c->g, info, (CUdeviceptr)(uintptr_t)from, sizeof *info));
  if (*info < 0)
    return TN_FAIL(TN_EINTERNAL, "%s refused argument %d (%s)", name, -*info, c->text);
  return TN_OK;
}

static tn_status check_size(const char *what, size_t m, size_t n) {
  if (m > INT32_MAX || n > INT32_MAX || (n > 0 && m > INT32_MAX / n))
    return TN_FAIL(TN_EUNSUPPORTED, "%s of %zu x %zu numbers is beyond cuSOLVER's 32-bit sizes",
                   what, m, n);
  return TN_OK;
}

/* below: only the lower triangle is looked at. */
static tn_status check_finite(const char *what, size_t n, bool below, const double *A) {
  for (size_t j = 0; j < n; ++j)
    for (size_t i = below ? j : 0; i < n; ++i)
      if (!isfinite(A[i + j * n]))
        return TN_FAIL(TN_ENONFINITE, "%s of %zu x %zu numbers: entry (%zu, %zu) is %g", what, n, n,
                       i, j, A[i + j * n]);
  return TN_OK;
}

/* ---- QR -------------------------------------------------------------------------------------- */

static tn_status factor_qr(call *c, size_t m, size_t n, double *A, double *tau) {
  size_t count = m < n ? m : n;
  double *a = NULL, *t = NULL, *room = NULL;
  int *at = NULL, size = 0, info = 0;
  snprintf(c->text, sizeof c->text, "QR of %zu x %zu numbers", m, n);
  TN_TRY(take_numbers(c, m * n, A, &a));
  TN_TRY(take_numbers(c, count, NULL, &t));
  TN_TRY(take_info(c, &at));
  SOLVER_TRY(c, cusolverDnDgeqrf_bufferSize, (c->s->solver, (int)m, (int)n, a, (int)m, &size));
  TN_TRY(take_numbers(c, (size_t)size, NULL, &room));
  SOLVER_TRY(c, cusolverDnDgeqrf, (c->s->solver, (int)m, (int)n, a, (int)m, t, room, size, at));
  TN_TRY(read_info(c, "cusolverDnDgeqrf", at, &info));
  TN_TRY(fetch(c, A, a, m * n));
  return fetch(c, tau, t, count);
}

static tn_status qr(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, double *A,
                    double *tau) {
  (void)work;
  call c;
  TN_TRY(check_size("QR", m, n));
  if (m == 0 || n == 0)
    return TN_OK;
  tn_status status = begin(f, false, &c);
  return end(&c, status == TN_OK ? factor_qr(&c, m, n, A, tau) : status);
}

static tn_status apply(call *c, size_t m, size_t n, size_t k, const double *A, const double *tau,
                       double *C) {
  double *a = NULL, *t = NULL, *x = NULL, *room = NULL;
  int *at = NULL, size = 0, info = 0;
  snprintf(c->text, sizeof c->text, "Q^T C of %zu x %zu numbers, %zu reflectors", m, n, k);
  TN_TRY(take_numbers(c, m * k, A, &a));
  TN_TRY(take_numbers(c, k, tau, &t));
  TN_TRY(take_numbers(c, m * n, C, &x));
  TN_TRY(take_info(c, &at));
  SOLVER_TRY(c, cusolverDnDormqr_bufferSize,
             (c->s->solver, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, (int)m, (int)n, (int)k, a, (int)m, t, x,
              (int)m, &size));
  TN_TRY(take_numbers(c, (size_t)size, NULL, &room));
  SOLVER_TRY(c, cusolverDnDormqr,
             (c->s->solver, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, (int)m, (int)n, (int)k, a, (int)m, t, x,
              (int)m, room, size, at));
  TN_TRY(read_info(c, "cusolverDnDormqr", at, &info));
  return fetch(c, C, x, m * n);
}

static tn_status qr_apply(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, size_t k,
                          const double *A, const double *tau, double *C) {
  (void)work;
  call c;
  TN_TRY(check_size("Q^T C", m, n));
  TN_TRY(check_size("Q^T C by reflectors", m, k));
  if (k > m)
    return TN_FAIL(TN_ESHAPE, "Q^T C: %zu reflectors of %zu rows, expected at most %zu", k, m, m);
  if (m == 0 || n == 0 || k == 0)
    return TN_OK;
  tn_status status = begin(f, false, &c);
  return end(&c, status == TN_OK ? apply(&c, m, n, k, A, tau, C) : status);
}

/* ---- Singular values ------------------------------------------------------------------------- */

/* By the polar decomposition; *good: cuSOLVER could, and has moved singular values by little enough. */
static tn_status by_polar(call *c, size_t n, const double *A, double *s, double *U, double *Vt,
                          bool *good) {
  const gpu_cusolver *lib = c->v->solver;
  int64_t size = (int64_t)n;
  double *a = NULL, *w = NULL, *u = NULL, *v = NULL, moved = 0;
  size_t device = 0, host = 0;
  int *at = NULL, info = 0;
  CUdeviceptr room = 0;
  *good = false;
  TN_TRY(take_numbers(c, n * n, A, &a));
  TN_TRY(take_numbers(c, n, NULL, &w));
  TN_TRY(take_numbers(c, n * n, NULL, &u));
  TN_TRY(take_numbers(c, n * n, NULL, &v));
  TN_TRY(take_info(c, &at));
  cusolverStatus_t status = lib->cusolverDnXgesvdp_bufferSize(
      c->s->solver, NULL, CUSOLVER_EIG_MODE_VECTOR, 0, size, size, CUDA_R_64F, a, size, CUDA_R_64F,
      w, CUDA_R_64F, u, size, CUDA_R_64F, v, size, CUDA_R_64F, &device, &host);
  if (status == CUSOLVER_STATUS_NOT_SUPPORTED)
    return TN_OK;
  TN_TRY(solver(c, status, "cusolverDnXgesvdp_bufferSize"));
  TN_TRY(take(c, device, &room));
  TN_TRY(tn_new(host / sizeof(double) + 1, sizeof(double), &c->host));
  status = lib->cusolverDnXgesvdp(c->s->solver, NULL, CUSOLVER_EIG_MODE_VECTOR, 0, size, size,
                                  CUDA_R_64F, a, size, CUDA_R_64F, w, CUDA_R_64F, u, size,
                                  CUDA_R_64F, v, size, CUDA_R_64F, (void *)(uintptr_t)room, device,
                                  c->host, host, at, &moved);
  if (status == CUSOLVER_STATUS_NOT_SUPPORTED)
    return TN_OK;
  TN_TRY(solver(c, status, "cusolverDnXgesvdp"));
  TN_TRY(read_info(c, "cusolverDnXgesvdp", at, &info));
  TN_TRY(fetch(c, s, w, n));
  if (info > 0 || !(moved <= 16 * 0x1p-53 * s[0]))
    return TN_OK;
  TN_TRY(fetch(c, U, u, n * n));
  TN_TRY(fetch(c, Vt, v, n * n));
  for (size_t j = 0; j < n; ++j) /* V becomes V^T */
    for (size_t i = 0; i < j; ++i) {
      double x = Vt[i + j * n];
      Vt[i + j * n] = Vt[j + i * n];
      Vt[j + i * n] = x;
    }
  *good = true;
  return TN_OK;
}

static tn_status by_qr(call *c, size_t n, const double *A, double *s, double *U, double *Vt) {
  int size = (int)n, room_size = 0, *at = NULL, info = 0;
  double *a = NULL, *w = NULL, *u = NULL, *v = NULL, *room = NULL;
  TN_TRY(take_numbers(c, n * n, A, &a));
  TN_TRY(take_numbers(c, n, NULL, &w));
  TN_TRY(take_numbers(c, n * n, NULL, &u));
  TN_TRY(take_numbers(c, n * n, NULL, &v));
  TN_TRY(take_info(c, &at));
  SOLVER_TRY(c, cusolverDnDgesvd_bufferSize, (c->s->solver, size, size, &room_size));
  TN_TRY(take_numbers(c, (size_t)room_size, NULL, &room));
  SOLVER_TRY(c, cusolverDnDgesvd,
             (c->s->solver, 'A', 'A', size, size, a, size, w, u, size, v, size, room, room_size,
              NULL, at));
  TN_TRY(read_info(c, "cusolverDnDgesvd", at, &info));
  if (info > 0)
    return TN_FAIL(TN_ERANGE, "%s: %d superdiagonals did not converge", c->text, info);
  TN_TRY(fetch(c, s, w, n));
  TN_TRY(fetch(c, U, u, n * n));
  return fetch(c, Vt, v, n * n);
}

static tn_status svd(const tn_factor *f, tn_factor_work *work, size_t n, double *A, double *s,
                     double *U, double *Vt) {
  call c;
  bool good = false;
  TN_TRY(check_size("SVD", n, n));
  TN_TRY(check_finite("SVD", n, false, A));
  if (n == 0)
    return TN_OK;
  tn_status status = begin(f, false, &c);
  snprintf(c.text, sizeof c.text, "SVD of %zu x %zu numbers", n, n);
  if (status == TN_OK && !work->by_qr && c.v->solver->cusolverDnXgesvdp) {
    status = by_polar(&c, n, A, s, U, Vt, &good);
    work->by_qr = status == TN_OK && !good;
    while (c.n > 0)
      gpu_give(c.g, &c.block[--c.n]);
  }
  if (status == TN_OK && !good)
    status = by_qr(&c, n, A, s, U, Vt);
  return end(&c, status);
}

/* ---- Symmetric matrices ---------------------------------------------------------------------- */

static tn_status factor_cholesky(call *c, size_t n, double *A) {
  double *a = NULL, *room = NULL;
  int *at = NULL, size = 0, info = 0;
  snprintf(c->text, sizeof c->text, "Cholesky of %zu x %zu numbers", n, n);
  TN_TRY(take_numbers(c, n * n, A, &a));
  TN_TRY(take_info(c, &at));
  SOLVER_TRY(c, cusolverDnDpotrf_bufferSize,
             (c->s->solver, CUBLAS_FILL_MODE_LOWER, (int)n, a, (int)n, &size));
  TN_TRY(take_numbers(c, (size_t)size, NULL, &room));
  SOLVER_TRY(c, cusolverDnDpotrf,
             (c->s->solver, CUBLAS_FILL_MODE_LOWER, (int)n, a, (int)n, room, size, at));
  TN_TRY(read_info(c, "cusolverDnDpotrf", at, &info));
  if (info > 0)
    return TN_FAIL(TN_ERANGE, "%s: the leading minor of order %d is not positive", c->text, info);
  return fetch(c, A, a, n * n);
}

static tn_status cholesky(const tn_factor *f, tn_factor_work *work, size_t n, double *A) {
  (void)work;
  call c;
  TN_TRY(check_size("Cholesky", n, n));
  TN_TRY(check_finite("Cholesky", n, true, A));
  if (n == 0)
    return TN_OK;
  tn_status status = begin(f, false, &c);
  return end(&c, status == TN_OK ? factor_cholesky(&c, n, A) : status);
}

static tn_status multiply(call *c, size_t m, size_t n, const double *A, double *C) {
  const double one = 1, none = 0;
  double *a = NULL, *x = NULL;
  snprintf(c->text, sizeof c->text, "A^T A of %zu x %zu numbers", m, n);
  TN_TRY(take_numbers(c, m * n, A, &a));
  TN_TRY(take_numbers(c, n * n, C, &x)); /* the upper triangle comes back as it was */
  TN_TRY(
      gpu_cublas_result(c->v->blas->cublasDsyrk(c->s->blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T,
                                                (int)n, (int)m, &one, a, (int)m, &none, x, (int)n),
                        "cublasDsyrk", c->text));
  return fetch(c, C, x, n * n);
}

static tn_status syrk(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, const double *A,
                      double *C) {
  (void)work;
  call c;
  TN_TRY(check_size("A^T A with A", m, n));
  TN_TRY(check_size("A^T A", n, n));
  if (m == 0)
    for (size_t j = 0; j < n; ++j)
      for (size_t i = j; i < n; ++i)
        C[i + j * n] = 0;
  if (m == 0 || n == 0)
    return TN_OK;
  tn_status status = begin(f, true, &c);
  return end(&c, status == TN_OK ? multiply(&c, m, n, A, C) : status);
}

/* ---- The table ------------------------------------------------------------------------------- */

static tn_status work_new(const tn_factor *f, size_t m, size_t n, tn_factor_work **out) {
  (void)f;
  *out = NULL;
  TN_TRY(check_size("a work for matrices", m, n));
  return TN_NEW(1, out);
}

static void work_free(const tn_factor *f, tn_factor_work **work) {
  (void)f;
  tn_free(work);
}

const tn_factor *gpu_factor(tn_device *device) {
  gpu_context *g = gpu_of(device);
  gpu_vendor *v = NULL;
  state *s = NULL;
  const tn_status entered = gpu_enter(g);
  (void)entered; /* a lost device keeps its table, whose functions say so */
  if (gpu_vendor_of(g, &v) == TN_OK && !v->factor && TN_NEW(1, &s) == TN_OK) {
    s->table = (tn_factor){.name = "cusolver",
                           .context = g,
                           .work_new = work_new,
                           .work_free = work_free,
                           .qr = qr,
                           .qr_apply = qr_apply,
                           .svd = svd,
                           .cholesky = cholesky,
                           .syrk = syrk};
    v->factor = s;
  }
  gpu_leave(g);
  return v && v->factor ? &v->factor->table : NULL;
}

void gpu_factor_free(gpu_context *g) {
  gpu_vendor *v = g->vendor;
  state *s = v->factor;
  if (!s)
    return;
  if (s->solver)
    v->solver->cusolverDnDestroy(s->solver);
  if (s->blas)
    v->blas->cublasDestroy(s->blas);
  tn_free(&v->factor);
}
