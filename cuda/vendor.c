/* vendor.c: what the libraries of NVIDIA share: their handles in one place, and their status codes in words.
 *
 * A code becomes a status of ours by what a user can do about it: less memory to be had is TN_ENOMEM, a shape or
 * format that the library cannot do is TN_EUNSUPPORTED, a wrong argument is our fault, TN_EINTERNAL, and everything
 * else is the environment's: a driver too old, a device lost, TN_EENV. The names are written here rather than asked
 * for, because cuSOLVER has no function for them.
 */
#include "cuda/vendor.h"

#define CUBLAS_LIST(ROW)                                                                           \
  ROW(CUBLAS_STATUS_NOT_INITIALIZED, TN_EENV)                                                      \
  ROW(CUBLAS_STATUS_ALLOC_FAILED, TN_ENOMEM)                                                       \
  ROW(CUBLAS_STATUS_INVALID_VALUE, TN_EINTERNAL)                                                   \
  ROW(CUBLAS_STATUS_ARCH_MISMATCH, TN_EENV)                                                        \
  ROW(CUBLAS_STATUS_MAPPING_ERROR, TN_EENV)                                                        \
  ROW(CUBLAS_STATUS_EXECUTION_FAILED, TN_EENV)                                                     \
  ROW(CUBLAS_STATUS_INTERNAL_ERROR, TN_EENV)                                                       \
  ROW(CUBLAS_STATUS_NOT_SUPPORTED, TN_EUNSUPPORTED)                                                \
  ROW(CUBLAS_STATUS_LICENSE_ERROR, TN_EENV)

#define CUSOLVER_LIST(ROW)                                                                         \
  ROW(CUSOLVER_STATUS_NOT_INITIALIZED, TN_EENV)                                                    \
  ROW(CUSOLVER_STATUS_ALLOC_FAILED, TN_ENOMEM)                                                     \
  ROW(CUSOLVER_STATUS_INVALID_VALUE, TN_EINTERNAL)                                                 \
  ROW(CUSOLVER_STATUS_ARCH_MISMATCH, TN_EENV)                                                      \
  ROW(CUSOLVER_STATUS_MAPPING_ERROR, TN_EENV)                                                      \
  ROW(CUSOLVER_STATUS_EXECUTION_FAILED, TN_EENV)                                                   \
  ROW(CUSOLVER_STATUS_INTERNAL_ERROR, TN_EENV)                                                     \
  ROW(CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED, TN_EUNSUPPORTED)                                  \
  ROW(CUSOLVER_STATUS_NOT_SUPPORTED, TN_EUNSUPPORTED)                                              \
  ROW(CUSOLVER_STATUS_ZERO_PIVOT, TN_ERANGE)                                                       \
  ROW(CUSOLVER_STATUS_INVALID_LICENSE, TN_EENV)                                                    \
  ROW(CUSOLVER_STATUS_INVALID_WORKSPACE, TN_EINTERNAL)

typedef struct code {
  int value;
  tn_status status;
  const char *name;
} code;

#define ROW(name, status) {name, status, #name},
static const code cublas_codes[] = {CUBLAS_LIST(ROW)};
static const code cusolver_codes[] = {CUSOLVER_LIST(ROW)};
#undef ROW

static tn_status fail(const code *list, size_t n, int value, const char *library, const char *call,
                      const char *what) {
  for (size_t i = 0; i < n; ++i)
    if (list[i].value == value)
      return TN_FAIL(list[i].status, "%s: %s (%s)", call, list[i].name, what);
  return TN_FAIL(TN_EENV, "%s: status %d, which this build does not know of %s (%s)", call, value,
                 library, what);
}

tn_status gpu_cublas_result(cublasStatus_t status, const char *call, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return TN_OK;
  return fail(cublas_codes, sizeof cublas_codes / sizeof *cublas_codes, (int)status, "cuBLAS", call,
              what);
}

tn_status gpu_cusolver_result(cusolverStatus_t status, const char *call, const char *what) {
  if (status == CUSOLVER_STATUS_SUCCESS)
    return TN_OK;
  return fail(cusolver_codes, sizeof cusolver_codes / sizeof *cusolver_codes, (int)status,
              "cuSOLVER", call, what);
}

tn_status gpu_vendor_of(gpu_context *g, gpu_vendor **out) {
  if (!g->vendor)
    TN_TRY(TN_NEW(1, &g->vendor));
  *out = g->vendor;
  return TN_OK;
}

void gpu_vendor_free(gpu_context *g) {
  if (!g->vendor)
    return;
  gpu_nccl_free(g);
  gpu_dnn_free(g);
  gpu_factor_free(g);
  gpu_gemm_free(g);
  tn_free(&g->vendor);
}
