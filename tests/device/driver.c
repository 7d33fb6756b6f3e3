/* driver.c: the emulated driver's devices and contexts, and the words of its errors.
 *
 * Each device is a small H200: compute capability 9.0, its limits of blocks and shared memory, four
 * multiprocessors. Errors that a real context does not survive (an illegal address, a failed
 * launch) are kept in the context: every later call gives the same one until the context is
 * released, and a call that gives it new work is counted.
 */
#include "tests/device/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16, DRIVER_VERSION = 13000 };

static context *contexts; /* all ever made */
static context *primary[MOST_DEVICES];
static _Thread_local context *current;
static bool initialised;

bool loses_context(CUresult code) {
  return code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
         code == CUDA_ERROR_ASSERT || code == CUDA_ERROR_ECC_UNCORRECTABLE ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED);
}

context *context_now(void) { return current; }

CUresult enter(const char *function, context **out) {
  emulated_lock();
  CUresult code = (CUresult)emulated_call(function);
  if (!out)
    return code;
  context *c = *out = current;
  if (!c)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (c->magic != CONTEXT) {
    emulated_fault("%s: the current context was released", function);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (c->lost) {
    script_lost(function);
    return c->lost;
  }
  if (loses_context(code))
    c->lost = code;
  return code;
}

void contexts_count(emulate_alive *out) {
  for (const context *c = contexts; c; c = c->next)
    out->contexts += c->magic == CONTEXT;
}

static CUresult context_new(CUdevice device, bool is_primary, context **out) {
  context *c = calloc(1, sizeof *c);
  if (!c)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *c = (context){
      .magic = CONTEXT, .device = device, .uses = 1, .primary = is_primary, .next = contexts};
  contexts = c;
  c->plain = stream_new(c, true);
  *out = c;
  return CUDA_SUCCESS;
}

/* What the program left in a context that works is a leak of the program. */
static void context_end(context *c) {
  if (!c->lost)
    context_drain(c);
  emulate_alive alive = {0};
  memory_count(&alive);
  graphs_count(&alive);
  size_t streams = streams_alive_of(c), modules = modules_alive_of(c);
  size_t shared = emulated_options.devices == 1 ? alive.blocks + alive.pinned + alive.graphs
                                                : 0; /* of all devices */
  if (!c->lost && !script_failed_a_free() && (streams || modules || shared))
    emulated_fault("the context of device %d ends with %zu blocks (%zu bytes), %zu pinned, %zu "
                   "streams and events, "
                   "%zu modules, %zu graphs",
                   c->device, alive.blocks, alive.bytes, alive.pinned, streams, modules,
                   alive.graphs);
  graphs_end_of(c);
  streams_end_of(c);
  modules_end_of(c);
  memory_free_of(c->device);
  c->magic = DEAD;
}

void emulate_clear(void) {
  emulated_lock();
  for (context *c = contexts; c; c = c->next)
    if (c->magic == CONTEXT) {
      c->lost = CUDA_ERROR_DEINITIALIZED;
      context_end(c);
    }
  memset(primary, 0, sizeof primary);
  emulated_unlock();
}

static bool device_exists(CUdevice device) {
  return device >= 0 && device < emulated_options.devices && device < MOST_DEVICES;
}

EMULATED CUresult cuInit(unsigned flags) {
  ENTER("cuInit", NULL);
  initialised = flags == 0;
  LEAVE(flags                          ? CUDA_ERROR_INVALID_VALUE
        : emulated_options.devices < 1 ? CUDA_ERROR_NO_DEVICE
                                       : CUDA_SUCCESS);
}

EMULATED CUresult cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion", NULL);
  const char *wish = getenv("EMULATED_CUDA_DRIVER");
  *version = wish && *wish ? (int)strtol(wish, NULL, 10) : DRIVER_VERSION;
  LEAVE(CUDA_SUCCESS);
}

static CUresult enter_device(const char *call, CUdevice device) {
  CUresult code = enter(call, NULL);
  return code                    ? code
         : !initialised          ? CUDA_ERROR_NOT_INITIALIZED
         : device_exists(device) ? CUDA_SUCCESS
                                 : CUDA_ERROR_INVALID_DEVICE;
}
#define ENTER_DEVICE(call, device)                                                                 \
  do {                                                                                             \
    CUresult enter_ = enter_device(call, device);                                                  \
    if (enter_ != CUDA_SUCCESS)                                                                    \
      LEAVE(enter_);                                                                               \
  } while (0)

EMULATED CUresult cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", NULL);
  *count = (int)emulated_options.devices;
  LEAVE(initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED);
}

EMULATED CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER_DEVICE("cuDeviceGet", ordinal);
  *device = ordinal;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
  ENTER_DEVICE("cuDeviceGetName", device);
  snprintf(name, (size_t)room, "emulated device (tests)");
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  ENTER_DEVICE("cuDeviceTotalMem", device);
  *bytes = (size_t)emulated_options.memory << 20;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ENTER_DEVICE("cuDeviceGetUuid", device);
  memset(uuid, 0, sizeof *uuid);
  snprintf(uuid->bytes, sizeof uuid->bytes, "emulated %d", device);
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  static const struct {
    CUdevice_attribute attribute;
    int value;
  } table[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
      {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
      {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
      {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
  };
  ENTER_DEVICE("cuDeviceGetAttribute", device);
  const char *wish = getenv("EMULATED_CUDA_CAPABILITY"); /* "80" */
  long capability = wish && *wish ? strtol(wish, NULL, 10) : 90;
  *value = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
    if (table[i].attribute == attribute)
      *value = table[i].value;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
    *value = device + 1;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = (int)(capability / 10);
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = (int)(capability % 10);
  LEAVE(CUDA_SUCCESS);
}

/* ---- Contexts -------------------------------------------------------------------------------- */
EMULATED CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  ENTER_DEVICE("cuDevicePrimaryCtxRetain", device);
  context **c = &primary[device];
  if (*c && (*c)->magic == CONTEXT) {
    ++(*c)->uses;
    *out = *c;
    LEAVE(CUDA_SUCCESS);
  }
  CUresult result = context_new(device, true, c);
  *out = *c;
  LEAVE(result);
}

EMULATED CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  ENTER_DEVICE("cuDevicePrimaryCtxRelease", device);
  context *c = primary[device];
  if (!c || c->magic != CONTEXT) {
    emulated_fault("cuDevicePrimaryCtxRelease: device %d has no context (released twice?)", device);
    LEAVE(CUDA_ERROR_INVALID_CONTEXT);
  }
  if (--c->uses == 0) {
    context_end(c);
    primary[device] = NULL;
  }
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  ENTER_DEVICE("cuDevicePrimaryCtxReset", device);
  if (primary[device])
    context_end(primary[device]);
  primary[device] = NULL;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuCtxDestroy(CUcontext c) {
  ENTER("cuCtxDestroy", NULL);
  if (!c || c->magic != CONTEXT || c->primary) {
    emulated_fault("cuCtxDestroy: no context of cuCtxCreate (destroyed twice?)");
    LEAVE(CUDA_ERROR_INVALID_CONTEXT);
  }
  context_end(c);
  if (current == c)
    current = NULL;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuCtxSetCurrent(CUcontext c) {
  ENTER("cuCtxSetCurrent", NULL);
  if (c && c->magic != CONTEXT) {
    emulated_fault("cuCtxSetCurrent: the context was released");
    LEAVE(CUDA_ERROR_INVALID_CONTEXT);
  }
  current = c;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuCtxGetCurrent(CUcontext *c) {
  ENTER("cuCtxGetCurrent", NULL);
  *c = current;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuCtxGetDevice(CUdevice *device) {
  context *c;
  ENTER("cuCtxGetDevice", &c);
  *device = c->device;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuCtxSynchronize(void) {
  context *c;
  ENTER("cuCtxSynchronize", &c);
  if (capture_forbids(c, "cuCtxSynchronize"))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  LEAVE(context_drain(c));
}

/* ---- Words ----------------------------------------------------------------------------------- */
#define CODES(ROW)                                                                                 \
  ROW(CUDA_SUCCESS, "no error")                                                                    \
  ROW(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                \
  ROW(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                   \
  ROW(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                          \
  ROW(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                            \
  ROW(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                  \
  ROW(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                         \
  ROW(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                  \
  ROW(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                        \
  ROW(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")    \
  ROW(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                         \
  ROW(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                      \
  ROW(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,                                                           \
      "system has unsupported display driver / cuda driver combination")                           \
  ROW(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                        \
  ROW(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                              \
  ROW(CUDA_ERROR_NOT_READY, "device not ready")                                                    \
  ROW(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                      \
  ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")               \
  ROW(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                        \
  ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                     \
  ROW(CUDA_ERROR_ASSERT, "device-side assert triggered")                                           \
  ROW(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error")                                     \
  ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                    \
  ROW(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                         \
  ROW(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                      \
  ROW(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                         \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")   \
  ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                       \
      "operation failed due to a previous error during capture")                                   \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream")             \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                    \
  ROW(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,                                                         \
      "dependency created on uncaptured work in another stream")                                   \
  ROW(CUDA_ERROR_CAPTURED_EVENT,                                                                   \
      "operation not permitted on an event last recorded in a capturing stream")                   \
  ROW(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,                                                        \
      "the graph update was not performed because it included changes")                            \
  ROW(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
  CUresult code;
  const char *name, *words;
} codes[] = {
#define ROW(code, words) {code, #code, words},
    CODES(ROW)
#undef ROW
};

static CUresult words_of(CUresult code, const char **name, const char **words) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; ++i)
    if (codes[i].code == code) {
      *(name ? name : words) = name ? codes[i].name : codes[i].words;
      return CUDA_SUCCESS;
    }
  *(name ? name : words) = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

EMULATED CUresult cuGetErrorName(CUresult code, const char **out) {
  return words_of(code, out, NULL);
}
EMULATED CUresult cuGetErrorString(CUresult code, const char **out) {
  return words_of(code, NULL, out);
}
