/* factor.h: the table of factorisations that optimizers call, apart from graphs.
 *
 * Dense, f64, column-major, leading dimension = rows, host memory: LAPACK on the CPU (pinn/factor_lapack.c), cuSOLVER
 * on a GPU (cuda/factor.c). Never code of our own. One thread at a time for each `work`; several works may be used
 * side by side.
 */
#ifndef TENSOR_FACTOR_H
#define TENSOR_FACTOR_H

#include "tensor/tensor.h"

typedef struct tn_factor tn_factor;
typedef struct tn_factor_work tn_factor_work;
struct tn_factor {
  const char *name; /* "lapack", "cusolver" */
  void *context;
  /* Room for matrices up to m x n; freed by work_free. */
  tn_status (*work_new)(const tn_factor *f, size_t m, size_t n, tn_factor_work **out);
  void (*work_free)(const tn_factor *f, tn_factor_work **work);
  /* A = Q R, Householder: R in the upper triangle, reflectors below, tau[min(m, n)]. */
  tn_status (*qr)(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, double *A, double *tau);
  /* C[m x c] = Q^T C, with k reflectors of A[m x k]. */
  tn_status (*qr_apply)(const tn_factor *f, tn_factor_work *work, size_t m, size_t c, size_t k, const double *A,
                        const double *tau, double *C);
  /* A[n x n] = U diag(s) V^T, s descending; U, Vt [n x n]; A is used up. */
  tn_status (*svd)(const tn_factor *f, tn_factor_work *work, size_t n, double *A, double *s, double *U, double *Vt);
  /* Lower triangle: A = L L^T. TN_ERANGE if A is not positive definite, with the order of the minor. */
  tn_status (*cholesky)(const tn_factor *f, tn_factor_work *work, size_t n, double *A);
  /* Lower triangle of C[n x n] = A^T A, A[m x n]. */
  tn_status (*syrk)(const tn_factor *f, tn_factor_work *work, size_t m, size_t n, const double *A, double *C);
};

/* The table of an open device (backend.h); NULL device, or none of its own: NULL. */
TN_API const tn_factor *tn_device_factor(tn_device *device);
TN_API const char *tn_device_text(const tn_device *device); /* "NVIDIA H200, ..."; for banners */
TN_API const char *tn_device_name(const tn_device *device); /* "cuda"; NULL: "cpu" */
TN_API void tn_device_close(tn_device **device);            /* null-safe, nulls */
/* As tn_op_apply, by the device's kernel of the row, or by one of its libraries ("cudnn"): backend.h. For audits. */
TN_API tn_status tn_device_apply(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n,
                                 const void *a, const void *b, double exponent, void *y) TN_MUST_USE;
/* softmax, or layer_norm with epsilon, over each row of a[rows x width], by one of the device's libraries. */
TN_API tn_status tn_device_apply_rows(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t rows,
                                      size_t width, double epsilon, const void *a, void *y) TN_MUST_USE;

#endif
