/* errors.c: results of the driver as statuses.
 *
 * Some errors end the context: after an address that is out of bounds, or a device that is lost, every later call
 * gives the same error, and what was computed since is worth nothing. The context remembers the first one, so that
 * nothing later can look well: whoever goes on after it gets it again, whatever the driver says by then.
 */
#include "cuda/context.h"

/* After these the context is lost. */
#define LOST_LIST(ROW)                                                                             \
  ROW(CUDA_ERROR_DEINITIALIZED)                                                                    \
  ROW(CUDA_ERROR_ECC_UNCORRECTABLE)                                                                \
  ROW(CUDA_ERROR_NVLINK_UNCORRECTABLE)                                                             \
  ROW(CUDA_ERROR_DEVICE_UNAVAILABLE)                                                               \
  ROW(CUDA_ERROR_ILLEGAL_ADDRESS)                                                                  \
  ROW(CUDA_ERROR_LAUNCH_TIMEOUT)                                                                   \
  ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED)                                                             \
  ROW(CUDA_ERROR_ASSERT)                                                                           \
  ROW(CUDA_ERROR_HARDWARE_STACK_ERROR)                                                             \
  ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION)                                                              \
  ROW(CUDA_ERROR_MISALIGNED_ADDRESS)                                                               \
  ROW(CUDA_ERROR_INVALID_ADDRESS_SPACE)                                                            \
  ROW(CUDA_ERROR_INVALID_PC)                                                                       \
  ROW(CUDA_ERROR_LAUNCH_FAILED)                                                                    \
  ROW(CUDA_ERROR_EXTERNAL_DEVICE)                                                                  \
  ROW(CUDA_ERROR_UNKNOWN)

static bool is_lost(CUresult result) {
  switch (result) {
#define ROW(code) case code:
    LOST_LIST(ROW)
#undef ROW
    return true;
  default:
    return false;
  }
}

static tn_status status_of(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return TN_ENOMEM;
  case CUDA_ERROR_INVALID_VALUE: /* a call that is wrong in itself: ours */
  case CUDA_ERROR_INVALID_HANDLE:
  case CUDA_ERROR_INVALID_CONTEXT:
    return TN_EINTERNAL;
  default:
    return TN_EENV;
  }
}

tn_status gpu_result(gpu_context *g, CUresult result, const char *call) {
  if (g->broken == CUDA_SUCCESS && result == CUDA_SUCCESS)
    return TN_OK;
  const bool again = g->broken != CUDA_SUCCESS;
  if (again)
    result = g->broken;
  const char *name = NULL, *words = NULL;
  if (g->driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
    name = "an error that the driver has no name for";
  if (g->driver->cuGetErrorString(result, &words) != CUDA_SUCCESS || words == NULL)
    words = "no description";
  if (is_lost(result)) {
    g->broken = result;
    if (!again)
      g->broken_by = call;
    return TN_FAIL(TN_EENV, "cuda: %s: %s (%d): %s; the device is lost to this process%s%s", call, name, (int)result,
                   words, again ? " since " : "", again ? g->broken_by : "");
  }
  return TN_FAIL(status_of(result), "cuda: %s: %s (%d): %s", call, name, (int)result, words);
}

/* Reasons for which cuInit or opening a device fails, apart from programs. */
#define ADVICE_LIST(ROW)                                                                           \
  ROW(CUDA_ERROR_NO_DEVICE, "no GPU is visible: look at `nvidia-smi`, and at CUDA_VISIBLE_DEVICES") \
  ROW(CUDA_ERROR_STUB_LIBRARY,                                                                     \
      "this libcuda is the toolkit's stub, for linking only: take its folder out of the search path") \
  ROW(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,                                                           \
      "the libcuda of one driver runs on the kernel module of another: restart after an update")   \
  ROW(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,                                                   \
      "this libcuda of a compatibility package does not serve this GPU: use the driver's own")     \
  ROW(CUDA_ERROR_SYSTEM_NOT_READY, "the fabric manager or another service of the driver is not running") \
  ROW(CUDA_ERROR_OPERATING_SYSTEM, "the system refuses access: look at the rights of /dev/nvidia*") \
  ROW(CUDA_ERROR_DEVICE_UNAVAILABLE, "another process has the GPU for itself (compute mode)")      \
  ROW(CUDA_ERROR_DEVICE_NOT_LICENSED, "the virtual GPU has no licence")                            \
  ROW(CUDA_ERROR_UNKNOWN, "the kernel module may not be loaded: look at `nvidia-smi` and `dmesg`")

const char *gpu_advice(CUresult result) {
  switch (result) {
#define ROW(code, text)                                                                            \
  case code:                                                                                       \
    return text;
    ADVICE_LIST(ROW)
#undef ROW
  default:
    return "";
  }
}
