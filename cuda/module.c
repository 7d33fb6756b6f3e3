/* module.c: kernels, from their text to functions of the driver.
 *
 * NVRTC compiles the text for the device: to machine code (sm_90) if it knows the architecture, else, for a device
 * newer than NVRTC, to PTX of the newest one below, which the driver compiles further. The flags are the ones that
 * make a GPU round as a CPU does: no contraction (--fmad=false; fused operations are written as such), subnormals
 * kept, divisions and square roots correctly rounded. Nothing of "fast math" is ever passed.
 *
 * Compiling takes seconds, so the result goes to disk (cache.c), under a hash of the text, the flags (and so
 * the architecture), the versions of NVRTC, driver and this program. In memory modules are one by their text.
 */
#include <stdio.h>
#include <string.h>

#include "cuda/context.h"

struct gpu_module {
  CUmodule module;
  char *text; /* owned */
  gpu_module *next;
};

typedef struct gpu_modules {
  gpu_module *first;
  int architecture;
  bool ptx;
  int nvrtc_major, nvrtc_minor, driver_version;
  size_t compiled, cached;
} gpu_modules;

/* ---- Architectures ----------------------------------------------------------------------------- */

/* A result of NVRTC as a status. */
static tn_status nvrtc_result(const gpu_nvrtc *nvrtc, nvrtcResult result, const char *call) {
  if (result == NVRTC_SUCCESS)
    return TN_OK;
  const tn_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? TN_ENOMEM : TN_EENV;
  const char *words = nvrtc->nvrtcGetErrorString(result);
  return TN_FAIL(status, "cuda: %s: %s (%d)", call, words != NULL ? words : "no description", (int)result);
}
#define NVRTC_TRY(nvrtc, name, arguments) TN_TRY(nvrtc_result((nvrtc), (nvrtc)->name arguments, #name))

tn_status gpu_architecture_for(const gpu_nvrtc *nvrtc, int capability, int *architecture, bool *ptx) {
  int n = 0, *list = NULL, least = 0, best = 0;
  NVRTC_TRY(nvrtc, nvrtcGetNumSupportedArchs, (&n));
  TN_TRY(tn_new(n > 0 ? (size_t)n : 1, sizeof *list, &list));
  const tn_status status = nvrtc_result(nvrtc, nvrtc->nvrtcGetSupportedArchs(list), "nvrtcGetSupportedArchs");
  for (int i = 0; status == TN_OK && i < n; ++i) {
    if (list[i] <= capability && list[i] > best)
      best = list[i];
    if (least == 0 || list[i] < least)
      least = list[i];
  }
  tn_free(&list);
  TN_TRY(status);
  if (best == 0) {
    return TN_FAIL(TN_EENV, "cuda: NVRTC makes code for sm_%d and newer, not for compute capability %d.%d", least,
                   capability / 10, capability % 10);
  }
  *architecture = best;
  *ptx = best != capability;
  return TN_OK;
}

/* ---- Compiling --------------------------------------------------------------------------------- */

enum { OPTIONS = 7 };
static void options_of(const gpu_modules *m, char architecture[48], const char *options[OPTIONS]) {
  snprintf(architecture, 48, "--gpu-architecture=%s_%d", m->ptx ? "compute" : "sm", m->architecture);
  options[0] = architecture;
  options[1] = "--std=c++17";
  options[2] = "--fmad=false";
  options[3] = "--ftz=false";
  options[4] = "--prec-div=true";
  options[5] = "--prec-sqrt=true";
  options[6] = "--disable-warnings"; /* the text is generated; its errors are what counts */
}

/* The error of a text that does not compile, with the first lines of what the compiler says. */
static tn_status compile_failed(gpu_context *g, nvrtcProgram program, nvrtcResult result, const char *name) {
  const gpu_nvrtc *nvrtc = g->nvrtc;
  const gpu_modules *m = g->modules;
  size_t bytes = 0;
  char *log = NULL;
  const char *words = nvrtc->nvrtcGetErrorString(result);
  if (nvrtc->nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || tn_new(bytes + 1, 1, &log) != TN_OK ||
      nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
    tn_free(&log);
  const tn_status code = result == NVRTC_ERROR_COMPILATION     ? TN_EINTERNAL
                         : result == NVRTC_ERROR_OUT_OF_MEMORY ? TN_ENOMEM
                                                               : TN_EENV;
  const tn_status status =
      TN_FAIL(code, "cuda: kernel %s for %s_%d: NVRTC %d.%d: %s (%d)%s%.700s", name, m->ptx ? "compute" : "sm",
              m->architecture, m->nvrtc_major, m->nvrtc_minor, words != NULL ? words : "no description", (int)result,
              log != NULL && log[0] != '\0' ? ":\n" : "", log != NULL ? log : "");
  tn_free(&log);
  return status;
}

static tn_status take_code(const gpu_context *g, nvrtcProgram program, size_t *bytes, char **code) {
  const gpu_nvrtc *nvrtc = g->nvrtc;
  if (g->modules->ptx) {
    NVRTC_TRY(nvrtc, nvrtcGetPTXSize, (program, bytes));
    TN_TRY(tn_new(*bytes + 1, 1, code));
    NVRTC_TRY(nvrtc, nvrtcGetPTX, (program, *code));
    return TN_OK;
  }
  NVRTC_TRY(nvrtc, nvrtcGetCUBINSize, (program, bytes));
  TN_TRY(tn_new(*bytes + 1, 1, code));
  NVRTC_TRY(nvrtc, nvrtcGetCUBIN, (program, *code));
  return TN_OK;
}

/* *code is the caller's. */
static tn_status compile(gpu_context *g, const char *name, const char *text, size_t *bytes, char **code) {
  const gpu_nvrtc *nvrtc = g->nvrtc;
  char architecture[48], file[80];
  const char *options[OPTIONS];
  nvrtcProgram program = NULL;
  options_of(g->modules, architecture, options);
  snprintf(file, sizeof file, "%.70s.cu", name);
  NVRTC_TRY(nvrtc, nvrtcCreateProgram, (&program, text, file, 0, NULL, NULL));
  const nvrtcResult result = nvrtc->nvrtcCompileProgram(program, OPTIONS, options);
  const tn_status status =
      result == NVRTC_SUCCESS ? take_code(g, program, bytes, code) : compile_failed(g, program, result, name);
  (void)nvrtc->nvrtcDestroyProgram(&program); /* the code is what counts */
  ++g->modules->compiled;
  return status;
}

/* ---- Loading ----------------------------------------------------------------------------------- */

static void key_of(const gpu_modules *m, const char *text, uint64_t key[2]) {
  char architecture[48], versions[96];
  const char *options[OPTIONS];
  key[0] = UINT64_C(0xcbf29ce484222325);
  key[1] = UINT64_C(0x70696e6e);
  snprintf(versions, sizeof versions, "pinn %s, NVRTC %d.%d, driver %d", PINN_VERSION, m->nvrtc_major,
           m->nvrtc_minor, m->driver_version);
  gpu_hash(key, strlen(versions) + 1, versions);
  options_of(m, architecture, options);
  for (size_t i = 0; i < OPTIONS; ++i)
    gpu_hash(key, strlen(options[i]) + 1, options[i]);
  gpu_hash(key, strlen(text) + 1, text);
}

/* The driver cannot use this code, though it may use another. */
static bool is_bad_code(CUresult result) {
  return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX ||
         result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         result == CUDA_ERROR_INVALID_SOURCE;
}

/* From the cache, if there is something that the driver takes; *module NULL if not. */
static tn_status load_cached(gpu_context *g, const uint64_t key[2], CUmodule *module) {
  size_t bytes = 0;
  char *code = NULL;
  TN_TRY(gpu_cache_read(key, &bytes, &code));
  if (code == NULL)
    return TN_OK;
  const CUresult result = g->driver->cuModuleLoadData(module, code);
  tn_free(&code);
  if (is_bad_code(result)) {
    *module = NULL;
    return TN_OK;
  }
  ++g->modules->cached;
  return gpu_result(g, result, "cuModuleLoadData");
}

static tn_status load(gpu_context *g, const char *name, const char *text, CUmodule *module) {
  uint64_t key[2];
  size_t bytes = 0;
  char *code = NULL;
  key_of(g->modules, text, key);
  TN_TRY(load_cached(g, key, module));
  if (*module != NULL)
    return TN_OK;
  tn_status status = compile(g, name, text, &bytes, &code);
  if (status == TN_OK)
    status = gpu_result(g, g->driver->cuModuleLoadData(module, code), "cuModuleLoadData");
  if (status == TN_OK)
    gpu_cache_write(key, bytes, code);
  tn_free(&code);
  return status;
}

tn_status gpu_module_of(gpu_context *g, const char *name, const char *text, gpu_module **out) {
  gpu_modules *m = g->modules;
  gpu_module *module = NULL;
  *out = NULL;
  for (gpu_module *old = m->first; old != NULL; old = old->next) {
    if (strcmp(old->text, text) == 0) {
      *out = old;
      return TN_OK;
    }
  }
  TN_TRY(TN_NEW(1, &module));
  tn_status status = tn_copy_text(text, &module->text);
  if (status == TN_OK)
    status = load(g, name, text, &module->module);
  if (status != TN_OK) {
    tn_free(&module->text);
    tn_free(&module);
    return status;
  }
  module->next = m->first;
  m->first = module;
  *out = module;
  return TN_OK;
}

tn_status gpu_function(gpu_context *g, gpu_module *module, const char *kernel, CUfunction *out) {
  const CUresult result = g->driver->cuModuleGetFunction(out, module->module, kernel);
  if (result == CUDA_ERROR_NOT_FOUND)
    return TN_FAIL(TN_EINTERNAL, "cuda: a module of kernels has no kernel `%s`", kernel);
  return gpu_result(g, result, "cuModuleGetFunction");
}

void gpu_modules_counts(const gpu_context *g, size_t *compiled, size_t *cached) {
  *compiled = g->modules->compiled;
  *cached = g->modules->cached;
}

tn_status gpu_modules_new(gpu_context *g) {
  TN_TRY(TN_NEW(1, &g->modules));
  gpu_modules *m = g->modules;
  NVRTC_TRY(g->nvrtc, nvrtcVersion, (&m->nvrtc_major, &m->nvrtc_minor));
  GPU_TRY(g, cuDriverGetVersion, (&m->driver_version));
  return gpu_architecture_for(g->nvrtc, g->capability, &m->architecture, &m->ptx);
}

void gpu_modules_free(gpu_context *g) {
  gpu_modules *m = g->modules;
  if (m == NULL)
    return;
  while (m->first != NULL) {
    gpu_module *module = m->first;
    m->first = module->next;
    (void)g->driver->cuModuleUnload(module->module); /* goes with the context anyway */
    tn_free(&module->text);
    tn_free(&module);
  }
  tn_free(&g->modules);
}
