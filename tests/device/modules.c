/* modules.c: modules, kernels and launches of the emulated device.
 *
 * A module is loaded from the image that the emulated NVRTC made (image.h), through a file of its
 * own. A launch is checked against the device's limits, takes copies of its arguments, and runs
 * when its stream comes to it.
 */
#include "tests/device/image.h"
#include "tests/device/internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARED_PLAIN = 49152, SHARED_MOST = 232448, MOST_BLOCK = 1024, MOST_ARGUMENT_BYTES = 4096 };

static module *modules; /* all ever made */

static bool write_all(int file, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(file, data, bytes);
    if (n <= 0)
      return false;
    data += n;
    bytes -= (size_t)n;
  }
  return true;
}

/* NULL: with a fault that says why. */
static void *load_image(const image_header *h) {
  char path[512];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/emulated-module-XXXXXX", folder && *folder ? folder : "/tmp");
  int file = mkstemp(path);
  bool written = file >= 0 && write_all(file, (const char *)(h + 1), h->bytes);
  if (file >= 0)
    close(file);
  void *library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library)
    emulated_fault("cuModuleLoadData: %s",
                   written ? dlerror() : "the temporary file cannot be written");
  if (file >= 0)
    unlink(path);
  return library;
}

static CUresult module_new(context *c, const void *image, module **out) {
  image_header h;
  memcpy(&h, image, sizeof h.magic);
  if (memcmp(h.magic, IMAGE_MAGIC, sizeof h.magic) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  memcpy(&h, image, sizeof h);
  if (h.bytes > (uint64_t)1 << 30 ||
      image_sum(image_sum_first, (const char *)image + sizeof h, h.bytes) != h.sum)
    return CUDA_ERROR_INVALID_IMAGE;
  void *library = load_image(image);
  if (!library)
    return CUDA_ERROR_INVALID_IMAGE;
  void (*attach)(void *) = NULL;
  module *m = calloc(1, sizeof *m);
  *(void **)&attach = dlsym(library, "emulated_attach");
  if (m)
    *(void **)&m->shared_range = dlsym(library, "emulated_shared_range");
  if (!m || !attach || !m->shared_range) {
    free(m);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  attach(fibers_attachment());
  m->magic = MODULE;
  m->context = c;
  m->library = library;
  m->next = modules;
  *out = modules = m;
  return CUDA_SUCCESS;
}

EMULATED CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  context *c;
  ENTER("cuModuleLoadData", &c);
  LEAVE(image ? module_new(c, image, out) : CUDA_ERROR_INVALID_VALUE);
}

EMULATED CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n,
                                     CUjit_option *names, void **values) {
  (void)n;
  (void)names;
  (void)values;
  return cuModuleLoadData(out, image);
}

static void module_end(module *m) {
  for (function *f = m->functions; f; f = f->next)
    f->magic = DEAD;
  m->magic = DEAD;
  dlclose(m->library);
}

EMULATED CUresult cuModuleUnload(CUmodule m) {
  context *c;
  ENTER("cuModuleUnload", &c);
  if (!m || m->magic != MODULE) {
    emulated_fault("cuModuleUnload: no module (unloaded twice?)");
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  }
  CUresult result = context_drain(c);
  module_end(m);
  LEAVE(result);
}

EMULATED CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  context *c;
  ENTER("cuModuleGetFunction", &c);
  *out = NULL;
  if (!m || m->magic != MODULE) {
    emulated_fault("cuModuleGetFunction: the module was unloaded");
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  }
  char symbol[192];
  snprintf(symbol, sizeof symbol, "emulated_call_%s", name);
  void *call = dlsym(m->library, symbol);
  snprintf(symbol, sizeof symbol, "emulated_sizes_%s", name);
  unsigned (*sizes)(unsigned *) = NULL;
  *(void **)&sizes = dlsym(m->library, symbol);
  if (!call || !sizes)
    LEAVE(CUDA_ERROR_NOT_FOUND);
  function *f = calloc(1, sizeof *f);
  if (!f)
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  f->magic = FUNCTION;
  f->module = m;
  snprintf(f->name, sizeof f->name, "%s", name);
  *(void **)&f->call = call;
  f->n_parameters = sizes(f->bytes);
  f->shared_most = SHARED_PLAIN;
  char *first = NULL, *last = NULL;
  m->shared_range(&first, &last);
  f->shared_static =
      first ? (int)(last - first) : 0; /* of all kernels of the module: an upper bound */
  f->next = m->functions;
  m->functions = f;
  *out = f;
  LEAVE(CUDA_SUCCESS);
}

static bool function_alive(const function *f) {
  if (f && f->magic == FUNCTION && f->module->magic == MODULE)
    return true;
  emulated_fault("a kernel of a module that was unloaded is used");
  return false;
}

EMULATED CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
  context *c;
  ENTER("cuFuncGetAttribute", &c);
  if (!function_alive(f))
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK           ? MOST_BLOCK
           : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES             ? f->shared_static
           : attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? f->shared_most
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                      ? 32
           : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION                ? 90
                                                                          : 0;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  context *c;
  ENTER("cuFuncSetAttribute", &c);
  if (!function_alive(f))
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > SHARED_MOST)
      LEAVE(CUDA_ERROR_INVALID_VALUE);
    f->shared_most = value;
  }
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  (void)config;
  context *c;
  ENTER("cuFuncSetCacheConfig", &c);
  LEAVE(function_alive(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

EMULATED CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                              int threads, size_t shared) {
  context *c;
  ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", &c);
  if (!function_alive(f) || threads < 1 || threads > MOST_BLOCK)
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  size_t by_threads = 2048 / (size_t)((threads + 31) / 32 * 32);
  size_t by_shared = (SHARED_MOST + 1024) / (shared + (size_t)f->shared_static + 1024);
  size_t least = by_threads < by_shared ? by_threads : by_shared;
  *blocks = (int)(least < 32 ? least : 32);
  LEAVE(CUDA_SUCCESS);
}

/* ---- Launches -----------------------------------------------------------------------------------
 * Queued as the struct below, then the arguments, each at a multiple of 16 bytes. */
typedef struct queued_launch {
  launch what; /* without arguments */
  size_t offset[MOST_PARAMETERS];
} queued_launch;

static CUresult run_launch(void *data) {
  queued_launch *q = data;
  void *arguments[MOST_PARAMETERS];
  launch l = q->what;
  if (!function_alive(l.function))
    return CUDA_ERROR_INVALID_HANDLE;
  for (unsigned i = 0; i < l.function->n_parameters; ++i)
    arguments[i] = (char *)data + q->offset[i];
  l.arguments = arguments;
  return launch_run(&l);
}

static CUresult launch_check(const launch *l) {
  const function *f = l->function;
  size_t threads = (size_t)l->block[0] * l->block[1] * l->block[2];
  if (threads < 1 || threads > MOST_BLOCK || l->block[2] > 64 || l->grid[0] < 1 || l->grid[1] < 1 ||
      l->grid[2] < 1 || l->grid[0] > 2147483647u || l->grid[1] > 65535 || l->grid[2] > 65535 ||
      l->shared > (size_t)f->shared_most || l->shared + (size_t)f->shared_static > SHARED_MOST) {
    emulated_fault("cuLaunchKernel: %s: %u x %u x %u blocks of %zu threads, %zu bytes of shared "
                   "memory (at most %d)",
                   f->name, l->grid[0], l->grid[1], l->grid[2], threads, l->shared, f->shared_most);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

EMULATED CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned shared, CUstream handle, void **arguments, void **extra) {
  context *c;
  ENTER("cuLaunchKernel", &c);
  if (!function_alive(f))
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  queued_launch q = {
      .what = {f, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, NULL}};
  CUresult result = launch_check(&q.what);
  if (result || extra || (f->n_parameters > 0 && !arguments))
    LEAVE(result ? result : CUDA_ERROR_INVALID_VALUE);
  size_t total = 0;
  for (unsigned i = 0; i < f->n_parameters; ++i) {
    q.offset[i] = (sizeof q + total + 15) / 16 * 16;
    total = q.offset[i] + f->bytes[i] - sizeof q;
  }
  if (total > MOST_ARGUMENT_BYTES)
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  union {
    max_align_t align;
    char bytes[sizeof(queued_launch) + MOST_ARGUMENT_BYTES + 16];
  } room;
  memcpy(room.bytes, &q, sizeof q);
  for (unsigned i = 0; i < f->n_parameters; ++i)
    memcpy(room.bytes + q.offset[i], arguments[i], f->bytes[i]);
  LEAVE(emulated_queue(handle, "kernel", run_launch, room.bytes, sizeof q + total));
}

/* ---- Accounts -------------------------------------------------------------------------------- */
void modules_count(emulate_alive *out) {
  for (const module *m = modules; m; m = m->next)
    out->modules += m->magic == MODULE;
}

size_t modules_alive_of(const context *c) {
  size_t n = 0;
  for (const module *m = modules; m; m = m->next)
    n += m->context == c && m->magic == MODULE;
  return n;
}

void modules_end_of(context *c) {
  for (module *m = modules; m; m = m->next)
    if (m->context == c && m->magic == MODULE)
      module_end(m);
}
