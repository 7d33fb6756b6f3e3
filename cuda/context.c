/* context.c: opening and closing a device.
 *
 * A device is served if its driver runs CUDA 12, its compute capability is 7.0 or more (threads of a warp that
 * advance on their own), and the NVRTC at hand makes code for it. Whatever is missing, the message says it together
 * with driver, capability and what kernels can be compiled for, since each of the three may be what has to change.
 *
 * All work goes through one stream, in order, so nothing depends on timing; a second one is for uploads that run
 * ahead. Threads take turns: gpu_enter takes the lock of the device and makes its context that of the thread.
 */
#include "cuda/context.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_DRIVER = 12000, LEAST_CAPABILITY = 70 };

extern const tn_backend gpu_backend; /* backend.c */

gpu_context *gpu_of(const tn_device *device) { return (gpu_context *)(uintptr_t)device; }

/* ---- What a message needs ---------------------------------------------------------------------- */

/* The capability of device `index` as "9.0 (NVIDIA H200)", if it can be had. */
static void capability_text(const gpu_driver *driver, size_t index, char text[96]) {
  CUdevice device = 0;
  int major = 0, minor = 0;
  char name[64] = "";
  snprintf(text, 96, "not known, no device was reached");
  if (driver == NULL || index > 1 << 16 || driver->cuDeviceGet(&device, (int)index) != CUDA_SUCCESS ||
      driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
    return;
  if (driver->cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS)
    name[0] = '\0';
  snprintf(text, 96, "%d.%d (%.60s)", major, minor, name);
}

/* Adds driver, capability and architectures to the error of this thread. */
static tn_status refuse(tn_status status, size_t index) {
  char reason[640], capability[96];
  const gpu_driver *driver = NULL;
  gpu_library_facts facts;
  snprintf(reason, sizeof reason, "%s", tn_error_text());
  const bool loaded = gpu_library_about(GPU_DRIVER, &facts) == TN_OK && gpu_need_driver(&driver) == TN_OK;
  capability_text(driver, index, capability);
  const char *architectures = gpu_architectures();
  return TN_FAIL(status, "%s\n  driver: %s%s%s%.200s%s\n  compute capability: %s\n  code: %s", reason,
                 loaded ? "CUDA " : facts.found ? "cannot be used" : "none was found", loaded ? facts.loaded : "",
                 loaded ? " (" : "", loaded ? facts.path : "", loaded ? ")" : "", capability, architectures);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* As gpu_result, with what to do about it. */
static tn_status start_result(gpu_context *g, CUresult result, const char *call) {
  char text[400];
  const tn_status status = gpu_result(g, result, call);
  const char *advice = gpu_advice(result);
  if (status == TN_OK || advice[0] == '\0')
    return status;
  snprintf(text, sizeof text, "%s", tn_error_text());
  return TN_FAIL(TN_EENV, "%s; %s", text, advice);
}

static tn_status start_driver(gpu_context *g, size_t index) {
  int version = 0, count = 0;
  TN_TRY(gpu_need_driver(&g->driver));
  TN_TRY(start_result(g, g->driver->cuDriverGetVersion(&version), "cuDriverGetVersion"));
  if (version < LEAST_DRIVER) {
    return TN_FAIL(TN_EENV,
                   "cuda: the driver runs CUDA %d.%d; CUDA %d.0 or newer is needed (this program was built with %d.%d)",
                   version / 1000, version % 1000 / 10, LEAST_DRIVER / 1000, CUDA_VERSION / 1000,
                   CUDA_VERSION % 1000 / 10);
  }
  TN_TRY(start_result(g, g->driver->cuInit(0), "cuInit"));
  TN_TRY(start_result(g, g->driver->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (count <= 0)
    return TN_FAIL(TN_EENV, "cuda: the driver has no device; %s", gpu_advice(CUDA_ERROR_NO_DEVICE));
  if (index >= (size_t)count)
    return TN_FAIL(TN_EENV, "cuda: device %zu was asked for, the driver has %d, counted from 0", index, count);
  return start_result(g, g->driver->cuDeviceGet(&g->device, (int)index), "cuDeviceGet");
}

static tn_status attribute(gpu_context *g, CUdevice_attribute which, int *out) {
  GPU_TRY(g, cuDeviceGetAttribute, (out, which, g->device));
  return TN_OK;
}

/* Facts of the device, and whether it can be served. */
static tn_status look_at(gpu_context *g) {
  int major = 0, minor = 0, shared = 0, architecture = 0;
  bool ptx = false;
  char name[96] = "";
  TN_TRY(attribute(g, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
  TN_TRY(attribute(g, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
  TN_TRY(attribute(g, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &g->multiprocessors));
  TN_TRY(attribute(g, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared));
  GPU_TRY(g, cuDeviceTotalMem, (&g->bytes, g->device));
  GPU_TRY(g, cuDeviceGetName, (name, sizeof name, g->device));
  g->capability = 10 * major + minor;
  g->shared_most = shared > 0 ? (size_t)shared : 0;
  snprintf(g->text, sizeof g->text, "%s, %d multiprocessors, %.0f GiB", name, g->multiprocessors,
           (double)g->bytes / (1 << 30));
  if (g->capability < LEAST_CAPABILITY) {
    return TN_FAIL(TN_EENV, "cuda: %s has compute capability %d.%d; %d.%d or more is needed", name, major, minor,
                   LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
  }
  TN_TRY(gpu_need_nvrtc(&g->nvrtc));
  return gpu_architecture_for(g->nvrtc, g->capability, &architecture, &ptx);
}

static tn_status make_lock(gpu_context *g) {
  pthread_mutexattr_t recursive;
  if (pthread_mutexattr_init(&recursive) != 0)
    return TN_FAIL(TN_ENOMEM, "cuda: no lock for the device");
  g->locks = pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE) == 0 &&
             pthread_mutex_init(&g->lock, &recursive) == 0;
  pthread_mutexattr_destroy(&recursive);
  return g->locks ? TN_OK : TN_FAIL(TN_ENOMEM, "cuda: no lock for the device");
}

static tn_status make_parts(gpu_context *g) {
  TN_TRY(start_result(g, g->driver->cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain"));
  GPU_TRY(g, cuCtxSetCurrent, (g->context));
  GPU_TRY(g, cuStreamCreate, (&g->stream, CU_STREAM_NON_BLOCKING));
  GPU_TRY(g, cuStreamCreate, (&g->copies, CU_STREAM_NON_BLOCKING));
  TN_TRY(gpu_pool_new(g));
  TN_TRY(gpu_staging_new(g));
  return gpu_modules_new(g);
}

/* Errors of the driver are ignored on the way out: a lost device has lost all this anyway. */
static void close_device(gpu_context *g) {
  if (g->context != NULL) {
    (void)g->driver->cuCtxSetCurrent(g->context);
    if (g->stream != NULL)
      (void)g->driver->cuStreamSynchronize(g->stream);
    if (g->copies != NULL)
      (void)g->driver->cuStreamSynchronize(g->copies);
  }
  gpu_vendor_free(g);
  gpu_modules_free(g);
  gpu_staging_free(g);
  gpu_pool_free(g);
  if (g->copies != NULL)
    (void)g->driver->cuStreamDestroy(g->copies);
  if (g->stream != NULL)
    (void)g->driver->cuStreamDestroy(g->stream);
  if (g->context != NULL)
    (void)g->driver->cuDevicePrimaryCtxRelease(g->device);
  if (g->locks)
    pthread_mutex_destroy(&g->lock);
  tn_free(&g);
}

tn_status gpu_open(size_t index, tn_device **out) {
  gpu_context *g = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &g));
  g->base.backend = &gpu_backend;
  tn_status status = make_lock(g);
  if (status == TN_OK)
    status = start_driver(g, index);
  if (status == TN_OK)
    status = look_at(g);
  if (status == TN_OK)
    status = make_parts(g);
  if (status != TN_OK) {
    status = status == TN_EENV ? refuse(status, index) : status;
    close_device(g);
    return status;
  }
  *out = &g->base;
  return TN_OK;
}

void gpu_close(tn_device *device) { close_device(gpu_of(device)); }

size_t gpu_count(void) {
  const gpu_driver *driver = NULL;
  int count = 0;
  const bool good = gpu_need_driver(&driver) == TN_OK && driver->cuInit(0) == CUDA_SUCCESS &&
                    driver->cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0;
  if (!good)
    tn_error_clear(); /* none is an answer, not an error */
  return good ? (size_t)count : 0;
}

/* ---- Threads ----------------------------------------------------------------------------------- */

tn_status gpu_enter(gpu_context *g) {
  pthread_mutex_lock(&g->lock);
  GPU_TRY(g, cuCtxSetCurrent, (g->context));
  return TN_OK;
}

void gpu_leave(gpu_context *g) { pthread_mutex_unlock(&g->lock); }

tn_status gpu_memory_of(const tn_device *device, gpu_memory *out) {
  *out = (gpu_memory){0};
  if (device == NULL || device->backend != &gpu_backend)
    return TN_FAIL(TN_EINPUT, "cuda: the device %s is none of this backend", tn_device_name(device));
  gpu_context *g = gpu_of(device);
  pthread_mutex_lock(&g->lock);
  gpu_pool_facts(g, out);
  pthread_mutex_unlock(&g->lock);
  return TN_OK;
}
