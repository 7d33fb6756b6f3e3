/* cusolver.c: libcusolver of the emulated device: dense factorisations by LAPACK, on the emulated
 * device's memory. */
#include "tests/device/emulator.h"

#include <cusolverDn.h>
#include <lapacke.h>
#include <stdlib.h>
#include <string.h>

struct cusolverDnContext {
  unsigned magic;
  CUstream stream;
};
enum { HANDLE = 0x534f4c56, ROOM_FACTOR = 64 };

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (cusolverStatus_t)code_;                                                              \
  } while (0)

static bool valid(cusolverDnHandle_t h, const char *call) {
  if (h && h->magic == HANDLE)
    return true;
  emulated_fault("%s: no handle", call);
  return false;
}

EMULATED cusolverStatus_t cusolverGetVersion(int *version) {
  CALL("cusolverGetVersion");
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}

EMULATED cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out) {
  CALL("cusolverDnCreate");
  cusolverDnHandle_t h = calloc(1, sizeof *h);
  if (!h)
    return CUSOLVER_STATUS_ALLOC_FAILED;
  h->magic = HANDLE;
  *out = h;
  emulated_handle(1);
  return CUSOLVER_STATUS_SUCCESS;
}

EMULATED cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t h) {
  int code = emulated_call("cusolverDnDestroy");
  if (!valid(h, "cusolverDnDestroy"))
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  h->magic = 0;
  free(h);
  emulated_handle(-1);
  return (cusolverStatus_t)code;
}

EMULATED cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t h, cudaStream_t stream) {
  CALL("cusolverDnSetStream");
  if (!valid(h, "cusolverDnSetStream"))
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  h->stream = (CUstream)stream;
  return CUSOLVER_STATUS_SUCCESS;
}

/* What is asked, in column-major matrices; the row says which parts are used. */
typedef enum task { QR, APPLY, SVD, SVD_POLAR, CHOLESKY } task;
typedef struct request {
  task task;
  int m, n, k, lda, ldb, ldc;
  char side, transpose, uplo, jobu, jobv;
  double *A, *B, *C, *D; /* QR: A, tau; APPLY: A, tau, C; SVD: A, S, U, V^T */
  int *info;
} request;

static CUresult svd(const request *r) {
  size_t most = (size_t)(r->m < r->n ? r->m : r->n);
  double *super = malloc((most + 1) * sizeof *super);
  if (!super)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *r->info = (int)LAPACKE_dgesvd(LAPACK_COL_MAJOR, r->jobu, r->jobv, r->m, r->n, r->A, r->lda, r->B,
                                 r->C, r->ldb, r->D, r->ldc, super);
  free(super);
  if (r->task == SVD_POLAR) /* V itself, not its transpose */
    for (int j = 0; j < r->n; ++j)
      for (int i = 0; i < j; ++i) {
        double *a = &r->D[i + j * r->ldc], *b = &r->D[j + i * r->ldc], x = *a;
        *a = *b;
        *b = x;
      }
  return CUDA_SUCCESS;
}

static CUresult run_request(void *data) {
  const request *r = data;
  switch (r->task) {
  case QR:
    *r->info = (int)LAPACKE_dgeqrf(LAPACK_COL_MAJOR, r->m, r->n, r->A, r->lda, r->B);
    return CUDA_SUCCESS;
  case APPLY:
    *r->info = (int)LAPACKE_dormqr(LAPACK_COL_MAJOR, r->side, r->transpose, r->m, r->n, r->k, r->A,
                                   r->lda, r->B, r->C, r->ldc);
    return CUDA_SUCCESS;
  case CHOLESKY:
    *r->info = (int)LAPACKE_dpotrf(LAPACK_COL_MAJOR, r->uplo, r->n, r->A, r->lda);
    return CUDA_SUCCESS;
  default:
    return svd(r);
  }
}

static bool matrix(const char *call, const void *data, int rows, int columns, int ld) {
  if (rows < 1 || columns < 1)
    return true;
  return ld >= rows &&
         emulated_device_range(call, data, ((size_t)ld * (size_t)(columns - 1) + (size_t)rows) * 8);
}

static cusolverStatus_t queue(cusolverDnHandle_t h, const char *name, const request *r) {
  return emulated_queue(h->stream, name, run_request, r, sizeof *r)
             ? CUSOLVER_STATUS_EXECUTION_FAILED
             : CUSOLVER_STATUS_SUCCESS;
}

/* The room that is asked for, and whether what was given is so much. */
static int room_of(int m, int n) { return ROOM_FACTOR * (m > n ? m : n) + 1; }
static bool room(const char *call, const void *work, int given, int m, int n) {
  if (given < room_of(m, n))
    emulated_fault("%s: %d numbers of room, %d were asked for", call, given, room_of(m, n));
  return given >= room_of(m, n) && emulated_device_range(call, work, (size_t)given * 8);
}
static bool number(const char *call, const int *info) {
  return emulated_device_range(call, info, sizeof *info);
}

EMULATED cusolverStatus_t cusolverDnDgeqrf_bufferSize(cusolverDnHandle_t h, int m, int n, double *A,
                                                      int lda, int *size) {
  CALL("cusolverDnDgeqrf_bufferSize");
  (void)A;
  *size = room_of(m, n);
  return valid(h, "cusolverDnDgeqrf_bufferSize") && lda >= m ? CUSOLVER_STATUS_SUCCESS
                                                             : CUSOLVER_STATUS_INVALID_VALUE;
}

EMULATED cusolverStatus_t cusolverDnDgeqrf(cusolverDnHandle_t h, int m, int n, double *A, int lda,
                                           double *tau, double *work, int size, int *info) {
  static const char call[] = "cusolverDnDgeqrf";
  CALL(call);
  int least = m < n ? m : n;
  if (!valid(h, call) || !matrix(call, A, m, n, lda) || !matrix(call, tau, least, 1, least) ||
      !room(call, work, size, m, n) || !number(call, info))
    return CUSOLVER_STATUS_INVALID_VALUE;
  request r = {.task = QR, .m = m, .n = n, .lda = lda, .A = A, .B = tau, .info = info};
  return queue(h, "geqrf", &r);
}

EMULATED cusolverStatus_t cusolverDnDormqr_bufferSize(cusolverDnHandle_t h, cublasSideMode_t side,
                                                      cublasOperation_t operation, int m, int n,
                                                      int k, const double *A, int lda,
                                                      const double *tau, const double *C, int ldc,
                                                      int *size) {
  CALL("cusolverDnDormqr_bufferSize");
  (void)side, (void)operation, (void)k, (void)A, (void)lda, (void)tau, (void)C, (void)ldc;
  *size = room_of(m, n);
  return valid(h, "cusolverDnDormqr_bufferSize") ? CUSOLVER_STATUS_SUCCESS
                                                 : CUSOLVER_STATUS_NOT_INITIALIZED;
}

EMULATED cusolverStatus_t cusolverDnDormqr(cusolverDnHandle_t h, cublasSideMode_t side,
                                           cublasOperation_t operation, int m, int n, int k,
                                           const double *A, int lda, const double *tau, double *C,
                                           int ldc, double *work, int size, int *info) {
  static const char call[] = "cusolverDnDormqr";
  CALL(call);
  int rows = side == CUBLAS_SIDE_LEFT ? m : n;
  if (!valid(h, call) || k > rows || !matrix(call, A, rows, k, lda) ||
      !matrix(call, tau, k, 1, k) || !matrix(call, C, m, n, ldc) || !room(call, work, size, m, n) ||
      !number(call, info))
    return CUSOLVER_STATUS_INVALID_VALUE;
  request r = {.task = APPLY,
               .m = m,
               .n = n,
               .k = k,
               .lda = lda,
               .ldc = ldc,
               .A = (double *)(uintptr_t)A,
               .B = (double *)(uintptr_t)tau,
               .C = C,
               .info = info};
  r.side = side == CUBLAS_SIDE_LEFT ? 'L' : 'R';
  r.transpose = operation == CUBLAS_OP_N ? 'N' : 'T';
  return queue(h, "ormqr", &r);
}

EMULATED cusolverStatus_t cusolverDnDgesvd_bufferSize(cusolverDnHandle_t h, int m, int n,
                                                      int *size) {
  CALL("cusolverDnDgesvd_bufferSize");
  *size = room_of(m, n);
  return valid(h, "cusolverDnDgesvd_bufferSize") && m >= n ? CUSOLVER_STATUS_SUCCESS
                                                           : CUSOLVER_STATUS_INVALID_VALUE;
}

EMULATED cusolverStatus_t cusolverDnDgesvd(cusolverDnHandle_t h, signed char jobu, signed char jobv,
                                           int m, int n, double *A, int lda, double *S, double *U,
                                           int ldu, double *VT, int ldv, double *work, int size,
                                           double *rwork, int *info) {
  static const char call[] = "cusolverDnDgesvd";
  CALL(call);
  (void)rwork;
  if (!valid(h, call) || m < n || !matrix(call, A, m, n, lda) || !matrix(call, S, n, 1, n) ||
      (jobu == 'A' && !matrix(call, U, m, m, ldu)) ||
      (jobv == 'A' && !matrix(call, VT, n, n, ldv)) || !room(call, work, size, m, n) ||
      !number(call, info))
    return CUSOLVER_STATUS_INVALID_VALUE;
  request r = {.task = SVD,
               .m = m,
               .n = n,
               .lda = lda,
               .ldb = ldu,
               .ldc = ldv,
               .A = A,
               .B = S,
               .C = U,
               .D = VT,
               .info = info,
               .jobu = (char)jobu,
               .jobv = (char)jobv};
  return queue(h, "gesvd", &r);
}

EMULATED cusolverStatus_t cusolverDnXgesvdp_bufferSize(
    cusolverDnHandle_t h, cusolverDnParams_t params, cusolverEigMode_t mode, int econ, int64_t m,
    int64_t n, cudaDataType ta, const void *A, int64_t lda, cudaDataType ts, const void *S,
    cudaDataType tu, const void *U, int64_t ldu, cudaDataType tv, const void *V, int64_t ldv,
    cudaDataType compute, size_t *device, size_t *host) {
  CALL("cusolverDnXgesvdp_bufferSize");
  (void)params, (void)mode, (void)econ, (void)A, (void)lda, (void)ts, (void)S, (void)tu, (void)U,
      (void)ldu, (void)tv;
  (void)V, (void)ldv;
  *device = (size_t)room_of((int)m, (int)n) * 8;
  *host = 64;
  bool known = ta == CUDA_R_64F && compute == CUDA_R_64F;
  return !valid(h, "cusolverDnXgesvdp_bufferSize") ? CUSOLVER_STATUS_NOT_INITIALIZED
         : known                                   ? CUSOLVER_STATUS_SUCCESS
                                                   : CUSOLVER_STATUS_NOT_SUPPORTED;
}

/* With the error of its polar decomposition on the host, so it waits. */
EMULATED cusolverStatus_t cusolverDnXgesvdp(
    cusolverDnHandle_t h, cusolverDnParams_t params, cusolverEigMode_t mode, int econ, int64_t m,
    int64_t n, cudaDataType ta, void *A, int64_t lda, cudaDataType ts, void *S, cudaDataType tu,
    void *U, int64_t ldu, cudaDataType tv, void *V, int64_t ldv, cudaDataType compute, void *device,
    size_t device_bytes, void *host, size_t host_bytes, int *info, double *moved) {
  static const char call[] = "cusolverDnXgesvdp";
  CALL(call);
  (void)params, (void)econ, (void)ta, (void)ts, (void)tu, (void)tv, (void)compute, (void)host;
  if (!valid(h, call) || mode != CUSOLVER_EIG_MODE_VECTOR || m < n || host_bytes < 64 ||
      !matrix(call, A, (int)m, (int)n, (int)lda) || !matrix(call, S, (int)n, 1, (int)n) ||
      !matrix(call, U, (int)m, (int)m, (int)ldu) || !matrix(call, V, (int)n, (int)n, (int)ldv) ||
      !room(call, device, (int)(device_bytes / 8), (int)m, (int)n) || !number(call, info))
    return CUSOLVER_STATUS_INVALID_VALUE;
  request r = {.task = SVD_POLAR,
               .m = (int)m,
               .n = (int)n,
               .lda = (int)lda,
               .ldb = (int)ldu,
               .ldc = (int)ldv,
               .A = A,
               .B = S,
               .C = U,
               .D = V,
               .info = info,
               .jobu = 'A',
               .jobv = 'A'};
  *moved = 0;
  return queue(h, "gesvd", &r);
}

EMULATED cusolverStatus_t cusolverDnDpotrf_bufferSize(cusolverDnHandle_t h, cublasFillMode_t fill,
                                                      int n, double *A, int lda, int *size) {
  CALL("cusolverDnDpotrf_bufferSize");
  (void)fill, (void)A;
  *size = room_of(n, n);
  return valid(h, "cusolverDnDpotrf_bufferSize") && lda >= n ? CUSOLVER_STATUS_SUCCESS
                                                             : CUSOLVER_STATUS_INVALID_VALUE;
}

EMULATED cusolverStatus_t cusolverDnDpotrf(cusolverDnHandle_t h, cublasFillMode_t fill, int n,
                                           double *A, int lda, double *work, int size, int *info) {
  static const char call[] = "cusolverDnDpotrf";
  CALL(call);
  if (!valid(h, call) || !matrix(call, A, n, n, lda) || !room(call, work, size, n, n) ||
      !number(call, info))
    return CUSOLVER_STATUS_INVALID_VALUE;
  request r = {.task = CHOLESKY, .n = n, .lda = lda, .A = A, .info = info};
  r.uplo = fill == CUBLAS_FILL_MODE_LOWER ? 'L' : 'U';
  return queue(h, "potrf", &r);
}
