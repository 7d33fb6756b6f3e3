/* libraries.h: NVIDIA's libraries as tables of function pointers. Inside cuda/ only (and tests, which fake them).
 *
 * None is linked. A file NAME.def lists the functions of one library, a row each,
 *
 *   FUNCTION(result, name, (argument types))
 *
 * from which come the struct of pointers, the search for its symbols and a check of each row against the vendor's
 * header. Members have the vendor's names: driver->cuMemAlloc(&p, n). Where a header maps a name to a version
 * (cuMemAlloc is cuMemAlloc_v2), the member and the symbol are the mapped one. OPTIONAL rows may be missing from the
 * library: NULL then.
 *
 * Searched in this order: the folders of PINN_CUDA_PATH; what the system's loader finds (LD_LIBRARY_PATH, its cache);
 * except for the driver, the toolkit's folder of this build. A file in a folder of PINN_CUDA_PATH that cannot be
 * loaded is an error: nothing else is taken in silence. Where several major versions may be installed side by side,
 * the newest is taken that the driver can run. A library stays loaded until the process ends.
 */
#ifndef CUDA_LIBRARIES_H
#define CUDA_LIBRARIES_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cusolverDn.h>
#include <nvrtc.h>

#include "tensor/tensor.h"

/* Headers of these two come apart from the toolkit. */
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define GPU_HAVE_CUDNN 1
#else
#define GPU_HAVE_CUDNN 0
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define GPU_HAVE_NCCL 1
#else
#define GPU_HAVE_NCCL 0
#endif

#define FUNCTION(result, name, arguments) result(*name) arguments;
#define OPTIONAL(result, name, arguments) result(*name) arguments;
typedef struct gpu_driver {
#include "cuda/driver.def"
} gpu_driver;
typedef struct gpu_nvrtc {
#include "cuda/nvrtc.def"
} gpu_nvrtc;
typedef struct gpu_cublaslt {
#include "cuda/cublaslt.def"
} gpu_cublaslt;
typedef struct gpu_cublas {
#include "cuda/cublas.def"
} gpu_cublas;
typedef struct gpu_cusolver {
#include "cuda/cusolver.def"
} gpu_cusolver;
#if GPU_HAVE_CUDNN
typedef struct gpu_cudnn {
#include "cuda/cudnn.def"
} gpu_cudnn;
#endif
#if GPU_HAVE_NCCL
typedef struct gpu_nccl {
#include "cuda/nccl.def"
} gpu_nccl;
#endif
#undef FUNCTION
#undef OPTIONAL

/* The table of a library, loaded at the first call; from any thread. TN_EENV: the text has the files that were looked
 * for and where, the loader's words, and what to install; or the function that the file lacks. */
tn_status gpu_need_driver(const gpu_driver **out) TN_MUST_USE;
tn_status gpu_need_nvrtc(const gpu_nvrtc **out) TN_MUST_USE;
tn_status gpu_need_cublaslt(const gpu_cublaslt **out) TN_MUST_USE;
tn_status gpu_need_cublas(const gpu_cublas **out) TN_MUST_USE;
tn_status gpu_need_cusolver(const gpu_cusolver **out) TN_MUST_USE;
#if GPU_HAVE_CUDNN
tn_status gpu_need_cudnn(const gpu_cudnn **out) TN_MUST_USE;
#endif
#if GPU_HAVE_NCCL
tn_status gpu_need_nccl(const gpu_nccl **out) TN_MUST_USE;
#endif

typedef enum gpu_library {
  GPU_DRIVER,
  GPU_NVRTC,
  GPU_CUBLASLT,
  GPU_CUBLAS,
  GPU_CUSOLVER,
  GPU_CUDNN,
  GPU_NCCL,
  GPU_LIBRARIES
} gpu_library;

/* For the doctor: loads the library, if it can. TN_EENV as above; TN_EUNSUPPORTED: its header was not there when
 * this was built. Filled in whatever the status. */
typedef struct gpu_library_facts {
  const char *title;   /* "cuBLASLt" */
  const char *package; /* what to install */
  bool found;          /* a file was there, even if it could not be used */
  char path[512];      /* of the file that was loaded; "" if none */
  char built[32], loaded[32]; /* versions: of the header, of the file; "" if not known */
} gpu_library_facts;
tn_status gpu_library_about(gpu_library library, gpu_library_facts *out) TN_MUST_USE;
/* The names of its files that are looked for, the best first; k from 0, NULL ends. */
const char *gpu_library_file(gpu_library library, size_t k);

/* For tests: as if nothing had been loaded yet; closes what is. No device may be open. */
void gpu_libraries_forget(void);

#endif
