/* context.h: an open device: libraries, streams, memory, modules. Inside cuda/ only. */
#ifndef CUDA_CONTEXT_H
#define CUDA_CONTEXT_H

#include <pthread.h>

#include "cuda/cuda_backend.h"
#include "cuda/libraries.h"
#include "tensor/backend.h"

/* Everything below is called by the thread that has entered the context (gpu_enter); slots of tn_backend are entered
 * by backend.c before they come here. */
typedef struct gpu_context {
  tn_device base; /* first */
  pthread_mutex_t lock; /* recursive; of gpu_enter */
  bool locks;           /* the lock is there */
  const gpu_driver *driver; /* tables of functions (libraries.h) */
  const gpu_nvrtc *nvrtc;
  CUdevice device;
  CUcontext context; /* the primary one, so that NVIDIA's libraries work in it */
  CUstream stream, copies; /* work; uploads that may run ahead of it */
  int capability;          /* 90 for 9.0 */
  int multiprocessors;
  size_t shared_most;      /* bytes of shared memory that a block may ask for */
  size_t bytes;            /* of the device's memory */
  char text[256];          /* tn_backend.describe */
  struct gpu_pool *pool;   /* memory.c */
  struct gpu_staging *staging; /* staging.c */
  struct gpu_modules *modules; /* module.c: loaded kernels by hash */
  struct gpu_vendor *vendor;   /* vendor.c: cuBLASLt, cuSOLVER, cuDNN, NCCL: handles, made on demand */
  CUresult broken;         /* an error after which the context is lost: every later call fails with it */
  const char *broken_by;   /* the call that gave it; a literal */
} gpu_context;

/* The device behind a tn_device of this backend. enter: takes the device for this thread, whose calls then go to it;
 * may be nested; each is followed by a leave, also if it fails. */
gpu_context *gpu_of(const tn_device *device);
tn_status gpu_enter(gpu_context *g) TN_MUST_USE;
void gpu_leave(gpu_context *g);

/* Calls a function of the driver and maps its error: GPU_TRY(g, cuLaunchKernel, (f, ...)). Out of memory is
 * TN_ENOMEM, a bad launch or a lost device TN_EENV; the text has the call, CUDA's name of the error and its words. */
#define GPU_TRY(g, name, arguments) TN_TRY(gpu_result((g), (g)->driver->name arguments, #name))
tn_status gpu_result(gpu_context *g, CUresult result, const char *call) TN_MUST_USE;
const char *gpu_advice(CUresult result); /* what to do when a driver does not start so; "" if not known */

/* memory.c. Memory of the caching pool, 256-byte aligned; what it holds is anything. give: null-safe, nulls; the
 * block may be handed out again at once, in the order of the context's stream. */
tn_status gpu_take(gpu_context *g, size_t bytes, CUdeviceptr *out) TN_MUST_USE;
void gpu_give(gpu_context *g, CUdeviceptr *pointer);
tn_status gpu_pool_new(gpu_context *g) TN_MUST_USE;
void gpu_pool_free(gpu_context *g);     /* also what was never given back, which a message of level debug counts */
tn_status gpu_pool_trim(gpu_context *g) TN_MUST_USE; /* memory of which nothing is in use goes back to the driver */
void gpu_pool_facts(const gpu_context *g, gpu_memory *out);
/* The work queued so far has ended (the caller waited for it). quiet: no work may still use what lay at `pointer`
 * before it was taken. */
void gpu_pool_waited(gpu_context *g);
bool gpu_pool_quiet(const gpu_context *g, CUdeviceptr pointer);

/* staging.c. Copies through pinned memory; upload returns when `from` may be changed again, download when the data
 * are there (it waits for the stream). ahead: on the stream for copies, and work queued from now on waits for it by
 * an event; work queued before must not use `to` as long as the caller holds it. Not while the stream is captured. */
tn_status gpu_upload(gpu_context *g, bool ahead, CUdeviceptr to, const void *from, size_t bytes) TN_MUST_USE;
tn_status gpu_download(gpu_context *g, void *to, CUdeviceptr from, size_t bytes) TN_MUST_USE;
tn_status gpu_staging_new(gpu_context *g) TN_MUST_USE;
void gpu_staging_free(gpu_context *g);

/* module.c. Compiled by NVRTC for the device, or taken from the cache on disk (keyed by text, options, NVRTC,
 * driver and architecture; a damaged file is compiled anew); modules of one text are one. Borrowed. */
typedef struct gpu_module gpu_module;
tn_status gpu_module_of(gpu_context *g, const char *name, const char *text, gpu_module **out) TN_MUST_USE;
tn_status gpu_function(gpu_context *g, gpu_module *module, const char *kernel, CUfunction *out) TN_MUST_USE;
/* How many were compiled by NVRTC, and read from the cache, since the device was opened. */
void gpu_modules_counts(const gpu_context *g, size_t *compiled, size_t *cached);
/* The code for a compute capability: *architecture = 90 for sm_90, or, with *ptx, for compute_90, which the driver
 * compiles further. TN_EENV: this NVRTC makes no code for it. */
tn_status gpu_architecture_for(const gpu_nvrtc *nvrtc, int capability, int *architecture, bool *ptx) TN_MUST_USE;

/* cache.c. Compiled kernels on disk, named by a hash of what they were made of. folder: PINN_CUDA_CACHE, else
 * $XDG_CACHE_HOME/pinn, else ~/.cache/pinn; "" for none. read: *data is the caller's, NULL if there is no file or it
 * is damaged. write: whole or not at all; where it cannot be written, a warning says so. hash: goes on from h. */
void gpu_cache_folder(char *folder, size_t capacity);
tn_status gpu_cache_read(const uint64_t key[2], size_t *bytes, char **data) TN_MUST_USE;
void gpu_cache_write(const uint64_t key[2], size_t bytes, const char *data);
void gpu_hash(uint64_t h[2], size_t bytes, const void *data);
tn_status gpu_modules_new(gpu_context *g) TN_MUST_USE;
void gpu_modules_free(gpu_context *g);

/* executor.c: slots of tn_backend. */
tn_status gpu_exec_new(tn_device *device, tn_exec *exec, void **state);
tn_status gpu_exec_extents(tn_exec *exec, void *state);
tn_status gpu_exec_bound(tn_exec *exec, void *state, size_t node);
tn_status gpu_exec_run(tn_exec *exec, void *state);
tn_status gpu_exec_output(tn_exec *exec, void *state, size_t i, void *to);
void gpu_exec_free(tn_exec *exec, void *state);
/* apply.c */
tn_status gpu_apply(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n, const void *a,
                    const void *b, double exponent, void *y);

/* gemm.c: Y[m x n] = (add ? Y : 0) + A B, column-major, by cuBLASLt, with a fixed algorithm for a shape. a, y: the
 * formats of elements in memory (f64, f32, bf16, f16); tf32: f32 elements whose products may be taken in TF32.
 * Accumulates in f64 for f64, else in f32. On the context's stream. The first call of a shape allocates: not while the
 * stream is capturing. */
typedef struct gpu_gemm {
  bool transpose_a, transpose_b, add;
  tn_dtype format, result;
  size_t m, n, k, lda, ldb, ldy, batch, stride_a, stride_b, stride_y; /* elements */
} gpu_gemm;
tn_status gpu_multiply(gpu_context *g, const gpu_gemm *x, CUdeviceptr a, CUdeviceptr b, CUdeviceptr y) TN_MUST_USE;
/* factor.c: the table of cuSOLVER, whose functions enter the device themselves; NULL: no memory for it. */
const tn_factor *gpu_factor(tn_device *device);
/* dnn.c: rows of ops.def by cuDNN, TN_EUNSUPPORTED for those it lacks. Host arrays of tn_dtype_compute(dtype), as
 * tn_backend.apply and apply_rows have them. rows enters the device itself: a slot of the backend. */
tn_status gpu_dnn_apply(gpu_context *g, tn_op_id id, tn_dtype dtype, size_t n, const void *a, void *y) TN_MUST_USE;
tn_status gpu_dnn_rows(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t rows, size_t width,
                       double epsilon, const void *a, void *y) TN_MUST_USE;
/* nccl.c. join: makes the communicator from comm (the id goes by tn_comm_broadcast). gather: all-gather of
 * `bytes` from each rank, on the context's stream; waits with the limit of comm, aborts on error or time-out. */
tn_status gpu_nccl_join(tn_device *device, tn_comm *comm);
bool gpu_nccl_joined(const gpu_context *g);
tn_status gpu_nccl_gather(gpu_context *g, const char *what, CUdeviceptr send, size_t bytes, CUdeviceptr recv) TN_MUST_USE;
void gpu_vendor_free(gpu_context *g);

#endif
