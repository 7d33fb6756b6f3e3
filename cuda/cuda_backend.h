/* cuda_backend.h: NVIDIA GPUs as a device of tensor/. The one public header of cuda/.
 *
 * No library of NVIDIA is linked: the driver (libcuda), NVRTC, cuBLASLt, cuSOLVER, cuDNN and NCCL are loaded when a
 * device is opened, the last four when something first needs them, so the program starts on any machine.
 * PINN_CUDA_PATH names folders to look into first, PINN_CUDA_CACHE the folder of compiled kernels ("" for none).
 * PINN_CUDA_FAIL_ALLOCATION=n, for tests: the n-th request for device memory fails.
 */
#ifndef CUDA_CUDA_BACKEND_H
#define CUDA_CUDA_BACKEND_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens device number `index` (as CUDA counts them). TN_EENV: no driver, no device, a driver too old, no code for
 * its architecture; the text has the driver, the compute capability and what kernels can be compiled for. Closed by
 * tn_device_close. */
TN_API tn_status gpu_open(size_t index, tn_device **out) TN_MUST_USE;

/* How many devices the driver has; 0 where there is none, no driver, or one that does not start. */
TN_API size_t gpu_count(void);

/* Memory of the caching pool, in bytes. */
typedef struct gpu_memory {
  size_t reserved, used;           /* had from the driver; handed out, in units of 256 bytes */
  size_t most_reserved, most_used; /* their highest since the device was opened */
  size_t blocks, largest_free;     /* pieces handed out; the longest free one */
  uint64_t requests, hits;         /* since then; answered from what was reserved already */
  uint64_t driver_calls, defragmentations; /* allocations asked of the driver; times that free memory was given back
                                              to it so that a request could be met */
} gpu_memory;
TN_API tn_status gpu_memory_of(const tn_device *device, gpu_memory *out) TN_MUST_USE;

/* What `pinn doctor` prints, a line each: "driver", "13.0 (libcuda.so.1 from ...)", and, where something is
 * wrong, what to do about it. Never fails for what it reports about. */
typedef enum gpu_state { GPU_FINE, GPU_ABSENT, GPU_BROKEN } gpu_state;
typedef struct gpu_finding {
  const char *name; /* "driver", "cuBLASLt", "device 0", ... */
  gpu_state state;
  char found[512];  /* versions compiled against and loaded, path */
  char advice[512]; /* "" where nothing is to be done */
} gpu_finding;
/* *list is the caller's (tn_free). */
TN_API tn_status gpu_findings(size_t *n, gpu_finding **list) TN_MUST_USE;
/* What kernels can be compiled for: "sm_75 sm_80 ... sm_121, newer ones by PTX of compute_121 (NVRTC 13.0)", or that
 * there is no NVRTC. The thread's, until its next call. */
TN_API const char *gpu_architectures(void);

#ifdef __cplusplus
}
#endif

#endif
