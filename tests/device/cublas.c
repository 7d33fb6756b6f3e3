/* cublas.c: libcublas of the emulated device: handles and the symmetric product that factorisations
 * need. */
#include "tests/device/emulator.h"

#include <cublas_v2.h>
#include <stdlib.h>

struct cublasContext {
  unsigned magic;
  CUstream stream;
};
enum { HANDLE = 0x424c4153 };

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (cublasStatus_t)code_;                                                                \
  } while (0)

static bool valid(cublasHandle_t h, const char *call) {
  if (h && h->magic == HANDLE)
    return true;
  emulated_fault("%s: no handle", call);
  return false;
}

EMULATED cublasStatus_t cublasGetProperty(libraryPropertyType which, int *value) {
  CALL("cublasGetProperty");
  *value = which == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : which == MINOR_VERSION ? CUBLAS_VER_MINOR
                                    : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}

EMULATED const char *cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_NOT_INITIALIZED  ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == CUBLAS_STATUS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
         : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
         : status == CUBLAS_STATUS_INTERNAL_ERROR   ? "CUBLAS_STATUS_INTERNAL_ERROR"
         : status == CUBLAS_STATUS_NOT_SUPPORTED    ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                    : "CUBLAS_STATUS unknown";
}

EMULATED cublasStatus_t cublasCreate(cublasHandle_t *out) {
  CALL("cublasCreate");
  cublasHandle_t h = calloc(1, sizeof *h);
  if (!h)
    return CUBLAS_STATUS_ALLOC_FAILED;
  h->magic = HANDLE;
  *out = h;
  emulated_handle(1);
  return CUBLAS_STATUS_SUCCESS;
}

EMULATED cublasStatus_t cublasDestroy(cublasHandle_t h) {
  int code = emulated_call("cublasDestroy");
  if (!valid(h, "cublasDestroy"))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  h->magic = 0;
  free(h);
  emulated_handle(-1);
  return (cublasStatus_t)code;
}

EMULATED cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) {
  CALL("cublasSetStream");
  if (!valid(h, "cublasSetStream"))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  h->stream = (CUstream)stream;
  return CUBLAS_STATUS_SUCCESS;
}

EMULATED cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode) {
  CALL("cublasSetMathMode");
  (void)mode;
  return valid(h, "cublasSetMathMode") ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

typedef struct syrk {
  bool lower, transpose;
  size_t n, k, lda, ldc;
  double alpha, beta;
  const double *A;
  double *C;
} syrk;

/* C = alpha op(A) op(A)^T + beta C, one triangle. */
static CUresult run_syrk(void *data) {
  const syrk *s = data;
  for (size_t j = 0; j < s->n; ++j)
    for (size_t i = s->lower ? j : 0; i < (s->lower ? s->n : j + 1); ++i) {
      double sum = 0;
      for (size_t k = 0; k < s->k; ++k)
        sum += s->transpose ? s->A[k + i * s->lda] * s->A[k + j * s->lda]
                            : s->A[i + k * s->lda] * s->A[j + k * s->lda];
      double *c = &s->C[i + j * s->ldc];
      *c = s->alpha * sum + (s->beta == 0 ? 0 : s->beta * *c);
    }
  return CUDA_SUCCESS;
}

EMULATED cublasStatus_t cublasDsyrk(cublasHandle_t h, cublasFillMode_t fill,
                                    cublasOperation_t operation, int n, int k, const double *alpha,
                                    const double *A, int lda, const double *beta, double *C,
                                    int ldc) {
  CALL("cublasDsyrk");
  bool transpose = operation != CUBLAS_OP_N;
  if (!valid(h, "cublasDsyrk"))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n < 0 || k < 0 || lda < (transpose ? k : n) || ldc < n)
    return CUBLAS_STATUS_INVALID_VALUE;
  size_t of_a = (size_t)lda * (size_t)((transpose ? n : k) - 1) + (size_t)(transpose ? k : n);
  if (n == 0 || !emulated_device_range("cublasDsyrk: A", A, of_a * 8) ||
      !emulated_device_range("cublasDsyrk: C", C, ((size_t)ldc * (size_t)(n - 1) + (size_t)n) * 8))
    return n == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  syrk s = {fill == CUBLAS_FILL_MODE_LOWER,
            transpose,
            (size_t)n,
            (size_t)k,
            (size_t)lda,
            (size_t)ldc,
            *alpha,
            *beta,
            A,
            C};
  return emulated_queue(h->stream, "syrk", run_syrk, &s, sizeof s) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                   : CUBLAS_STATUS_SUCCESS;
}
