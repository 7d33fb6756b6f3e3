/* support_fake_driver.c: see support_fake_driver.h. */
#if defined PINN_HAVE_CUDA
#include "tests/support_fake_driver.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_driver fake;
int fake_version = 13000;
fake_compiler fake_cc = {.minor = 0, .n_architectures = 3, .architectures = {80, 75, 90}};
uint64_t fake_random;

static bool failing(CUresult *result) {
  *result = CUDA_SUCCESS;
  if (++fake.calls == fake.fail_at)
    *result = fake.fail_with;
  return *result != CUDA_SUCCESS;
}
#define MAY_FAIL()                                                                                 \
  CUresult failure;                                                                                \
  if (failing(&failure))                                                                           \
  return failure

static CUresult mem_alloc(CUdeviceptr *at, size_t bytes) {
  MAY_FAIL();
  if (bytes > fake.capacity - fake.held)
    return CUDA_ERROR_OUT_OF_MEMORY;
  assert_true(fake.n_blocks < MOST_BLOCKS);
  fake_block *b = &fake.blocks[fake.n_blocks++];
  b->bytes = bytes;
  b->host = NULL;
  if (fake.backed) {
    assert_int_equal(posix_memalign(&b->host, 2 * MIB, bytes), 0);
    memset(b->host, 0xAB, bytes);
    b->at = (CUdeviceptr)(uintptr_t)b->host;
  } else {
    b->at = fake.next; /* segments lie side by side: a pool that joins two of them is found out */
    fake.next += bytes;
  }
  fake.held += bytes;
  *at = b->at;
  return CUDA_SUCCESS;
}

static CUresult mem_free(CUdeviceptr at) {
  MAY_FAIL();
  for (size_t i = 0; i < fake.n_blocks; ++i) {
    fake_block *b = &fake.blocks[i];
    if (b->at != at)
      continue;
    fake.held -= b->bytes;
    free(b->host);
    *b = fake.blocks[--fake.n_blocks];
    return CUDA_SUCCESS;
  }
  fail_msg("cuMemFree of an address that was not allocated");
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult mem_info(size_t *left, size_t *all) {
  *left = fake.capacity - fake.held;
  *all = fake.capacity;
  return CUDA_SUCCESS;
}

static int stream_of(CUstream stream) { return (int)((uintptr_t)stream - 1); }

/* Does the work of a stream up to `number`, and what it waits for. */
void fake_advance(int stream, uint64_t number) {
  while (fake.done[stream] < number) {
    const fake_work *w = &fake.work[stream][fake.done[stream] % MOST_WORK];
    if (w->kind == FAKE_COPY) {
      memcpy(w->to, w->from, w->bytes);
    } else if (w->stream != stream) {
      fake_advance(w->stream, w->number);
    }
    ++fake.done[stream];
  }
}

void fake_queue(int stream, fake_work work) {
  if (fake.queued[stream] - fake.done[stream] == MOST_WORK)
    fake_advance(stream, fake.done[stream] + 1);
  fake.work[stream][fake.queued[stream]++ % MOST_WORK] = work;
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream) {
  MAY_FAIL();
  fake_queue(stream_of(stream), (fake_work){.kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes});
  return CUDA_SUCCESS;
}
static CUresult copy_up(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copy((void *)(uintptr_t)to, from, bytes, stream);
}
static CUresult copy_down(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(to, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult stream_wait(CUstream stream) {
  MAY_FAIL();
  fake_advance(stream_of(stream), fake.queued[stream_of(stream)]);
  return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags) {
  (void)flags;
  MAY_FAIL();
  for (size_t i = 0; i < MOST_EVENTS; ++i) {
    if (fake.events[i].there)
      continue;
    fake.events[i] = (fake_event){.there = true};
    *event = (CUevent)(void *)&fake.events[i];
    return CUDA_SUCCESS;
  }
  fail_msg("too many events");
  return CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult event_destroy(CUevent event) {
  ((fake_event *)(void *)event)->there = false;
  return CUDA_SUCCESS;
}
static CUresult event_record(CUevent event, CUstream stream) {
  MAY_FAIL();
  fake_event *e = (fake_event *)(void *)event;
  e->recorded = true;
  e->stream = stream_of(stream);
  e->number = fake.queued[e->stream];
  return CUDA_SUCCESS;
}
static CUresult event_wait(CUevent event) {
  MAY_FAIL();
  const fake_event *e = (fake_event *)(void *)event;
  if (e->recorded)
    fake_advance(e->stream, e->number);
  return CUDA_SUCCESS;
}
static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  MAY_FAIL();
  const fake_event *e = (fake_event *)(void *)event;
  ++fake.n_waits;
  fake_queue(stream_of(stream), (fake_work){.kind = FAKE_WAIT, .stream = e->stream, .number = e->number});
  return CUDA_SUCCESS;
}

static CUresult pinned_alloc(void **at, size_t bytes) {
  MAY_FAIL();
  *at = malloc(bytes);
  assert_non_null(*at);
  ++fake.n_pinned;
  return CUDA_SUCCESS;
}
static CUresult pinned_free(void *at) {
  free(at);
  --fake.n_pinned;
  return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *module, const void *image) {
  MAY_FAIL();
  if (fake.reject_images) {
    fake.reject_images = false;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  assert_memory_equal(image, "code of ", 8);
  ++fake.n_modules;
  *module = (CUmodule)(uintptr_t)fake.n_modules;
  return CUDA_SUCCESS;
}
static CUresult module_unload(CUmodule module) {
  (void)module;
  --fake.n_modules;
  return CUDA_SUCCESS;
}
static CUresult module_function(CUfunction *out, CUmodule module, const char *name) {
  *out = (CUfunction)(void *)module;
  return strcmp(name, "known") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult error_name(CUresult result, const char **name) {
  *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
  return *name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult driver_version(int *version) {
  *version = fake_version;
  return CUDA_SUCCESS;
}

static const gpu_driver driver = {
    .cuMemAlloc = mem_alloc,
    .cuMemFree = mem_free,
    .cuMemGetInfo = mem_info,
    .cuMemAllocHost = pinned_alloc,
    .cuMemFreeHost = pinned_free,
    .cuMemcpyHtoDAsync = copy_up,
    .cuMemcpyDtoHAsync = copy_down,
    .cuStreamSynchronize = stream_wait,
    .cuStreamWaitEvent = stream_wait_event,
    .cuEventCreate = event_create,
    .cuEventDestroy = event_destroy,
    .cuEventRecord = event_record,
    .cuEventSynchronize = event_wait,
    .cuModuleLoadData = module_load,
    .cuModuleUnload = module_unload,
    .cuModuleGetFunction = module_function,
    .cuGetErrorName = error_name,
    .cuGetErrorString = error_name,
    .cuDriverGetVersion = driver_version,
};

static nvrtcResult nvrtc_version(int *major, int *minor) {
  *major = 13;
  *minor = fake_cc.minor;
  return NVRTC_SUCCESS;
}
static const char *nvrtc_words(nvrtcResult result) {
  return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "another";
}
static nvrtcResult nvrtc_count(int *n) {
  *n = fake_cc.n_architectures;
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_list(int *list) {
  memcpy(list, fake_cc.architectures, (size_t)fake_cc.n_architectures * sizeof *list);
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_create(nvrtcProgram *program, const char *text, const char *name, int n,
                                const char *const *headers, const char *const *names) {
  (void)name, (void)n, (void)headers, (void)names;
  fake_cc.text = text;
  *program = (nvrtcProgram)(void *)&fake_cc;
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_destroy(nvrtcProgram *program) {
  *program = NULL;
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_compile(nvrtcProgram program, int n, const char *const *options) {
  (void)program;
  fake_cc.options[0] = '\0';
  for (int i = 0; i < n; ++i) {
    const size_t length = strlen(fake_cc.options);
    snprintf(fake_cc.options + length, sizeof fake_cc.options - length, "%s ", options[i]);
  }
  ++fake_cc.compiled;
  snprintf(fake_cc.code, sizeof fake_cc.code, "code of %.200s", fake_cc.text);
  return strstr(fake_cc.text, "error") != NULL ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_log_size(nvrtcProgram program, size_t *n) {
  (void)program;
  *n = sizeof "line 7: no such thing";
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_log(nvrtcProgram program, char *log) {
  (void)program;
  memcpy(log, "line 7: no such thing", sizeof "line 7: no such thing");
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_code_size(nvrtcProgram program, size_t *n) {
  (void)program;
  *n = strlen(fake_cc.code) + 1;
  return NVRTC_SUCCESS;
}
static nvrtcResult nvrtc_code(nvrtcProgram program, char *code) {
  (void)program;
  memcpy(code, fake_cc.code, strlen(fake_cc.code) + 1);
  return NVRTC_SUCCESS;
}

const gpu_nvrtc fake_nvrtc = {
    .nvrtcVersion = nvrtc_version,
    .nvrtcGetErrorString = nvrtc_words,
    .nvrtcGetNumSupportedArchs = nvrtc_count,
    .nvrtcGetSupportedArchs = nvrtc_list,
    .nvrtcCreateProgram = nvrtc_create,
    .nvrtcDestroyProgram = nvrtc_destroy,
    .nvrtcCompileProgram = nvrtc_compile,
    .nvrtcGetProgramLogSize = nvrtc_log_size,
    .nvrtcGetProgramLog = nvrtc_log,
    .nvrtcGetCUBINSize = nvrtc_code_size,
    .nvrtcGetCUBIN = nvrtc_code,
    .nvrtcGetPTXSize = nvrtc_code_size,
    .nvrtcGetPTX = nvrtc_code,
};
/* ---- A device ---------------------------------------------------------------------------------- */

static size_t memory_before;

uint64_t fake_draw(uint64_t below) {
  fake_random = fake_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (fake_random >> 33) % below;
}

void fake_start(gpu_context *g, size_t capacity, bool backed) {
  memset(&fake, 0, sizeof fake);
  fake.capacity = capacity;
  fake.backed = backed;
  fake.next = (size_t)1 << 40;
  fake_random = 20260101;
  memory_before = tn_memory_now();
  *g = (gpu_context){.driver = &driver,
                     .nvrtc = &fake_nvrtc,
                     .stream = (CUstream)(uintptr_t)1,
                     .copies = (CUstream)(uintptr_t)2,
                     .capability = 90,
                     .bytes = capacity,
                     .text = "a fake"};
  assert_int_equal(gpu_pool_new(g), TN_OK);
}

/* Everything is given back to the driver and to the host. */
void fake_end(gpu_context *g) {
  fake.fail_at = 0;
  gpu_modules_free(g);
  gpu_staging_free(g);
  gpu_pool_free(g);
  assert_int_equal(fake.n_blocks, 0);
  assert_int_equal(fake.held, 0);
  assert_int_equal(fake.n_pinned, 0);
  assert_int_equal(fake.n_modules, 0);
  for (size_t i = 0; i < MOST_EVENTS; ++i)
    assert_false(fake.events[i].there);
  assert_int_equal(tn_memory_now(), memory_before);
}

void fake_fill(unsigned char *x, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; ++i)
    x[i] = (unsigned char)((i * 2654435761u + seed * 40503u) >> 11);
}
#else
typedef int no_fake_driver;
#endif
