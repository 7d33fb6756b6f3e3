/* vendor.h: handles of NVIDIA's libraries of an open device, and what their status codes mean. Inside cuda/ only.
 *
 * Nothing is loaded before something needs it: gpu_vendor_of makes the struct, and each file fills its own part at
 * its first call. A part that is there already is used as it is, which is how tests put tables of their own in.
 */
#ifndef CUDA_VENDOR_H
#define CUDA_VENDOR_H

#include "cuda/context.h"

struct gpu_gemm_plans;   /* gemm.c */
struct gpu_nccl_state;   /* nccl.c */
struct gpu_dnn_state;    /* dnn.c */
struct gpu_factor_state; /* factor.c */

typedef struct gpu_vendor {
  const gpu_cublaslt *lt;
  const gpu_cublas *blas;
  const gpu_cusolver *solver;
#if GPU_HAVE_CUDNN
  const gpu_cudnn *dnn;
#endif
#if GPU_HAVE_NCCL
  const gpu_nccl *nccl;
#endif
  struct gpu_gemm_plans *plans;
  struct gpu_factor_state *factor;
  struct gpu_dnn_state *dnn_state;
  struct gpu_nccl_state *nccl_state;
  const tn_comm *asked; /* whose ranks have settled whether NCCL serves them */
} gpu_vendor;

/* The struct of a device, made at the first call. */
tn_status gpu_vendor_of(gpu_context *g, gpu_vendor **out) TN_MUST_USE;

/* TN_OK, or a failure whose text is "<call>: <the code's name> (<what>)". `what` says on which numbers. */
tn_status gpu_cublas_result(cublasStatus_t status, const char *call, const char *what) TN_MUST_USE;
tn_status gpu_cusolver_result(cusolverStatus_t status, const char *call,
                              const char *what) TN_MUST_USE;

/* Each frees its part; null-safe. In this order: NCCL first, since it may wait for others. */
void gpu_nccl_free(gpu_context *g);
void gpu_dnn_free(gpu_context *g);
void gpu_factor_free(gpu_context *g);
void gpu_gemm_free(gpu_context *g);

#endif
