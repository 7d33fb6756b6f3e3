/* support_gpu.c: finds the emulated device for tests. */
#if defined PINN_HAVE_CUDA
#include "tests/support_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find(void *library, const char *name, void *pointer, size_t bytes) {
  void *address = dlsym(library, name);
  if (!address) {
    fprintf(stderr, "the emulated driver has no %s\n", name);
    exit(1);
  }
  memcpy(pointer, &address, bytes);
}

const emulator *emulator_open(void) {
  static emulator e;
  if (e.reset)
    return &e;
  setenv("PINN_CUDA_PATH", EMULATED_CUDA_DIR, 1);
  void *library = dlopen(EMULATED_CUDA_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define FIND(name) find(library, "emulate_" #name, &e.name, sizeof e.name)
  find(library, "emulate_fail", &e.script, sizeof e.script);
  FIND(clear);
  FIND(calls);
  FIND(log);
  FIND(misuse);
  FIND(message);
  FIND(after_loss);
  FIND(count);
  FIND(set);
  FIND(reset);
#undef FIND
  return &e;
}

CUmodule emulator_module(const gpu_driver *driver, const char *text, char log[2048]) {
  const gpu_nvrtc *nvrtc;
  nvrtcProgram program;
  CUmodule module = NULL;
  const char *options[] = {"--gpu-architecture=sm_90", "--fmad=false"};
  log[0] = '\0';
  if (gpu_need_nvrtc(&nvrtc) != TN_OK ||
      nvrtc->nvrtcCreateProgram(&program, text, "test", 0, NULL, NULL))
    return NULL;
  size_t bytes = 0;
  if (nvrtc->nvrtcCompileProgram(program, 2, options) != NVRTC_SUCCESS) {
    char *words = NULL;
    if (nvrtc->nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS &&
        (words = malloc(bytes)) && nvrtc->nvrtcGetProgramLog(program, words) == NVRTC_SUCCESS)
      snprintf(log, 2048, "%s", words);
    free(words);
  } else if (nvrtc->nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS) {
    char *image = malloc(bytes);
    if (image && nvrtc->nvrtcGetCUBIN(program, image) == NVRTC_SUCCESS &&
        driver->cuModuleLoadData(&module, image) != CUDA_SUCCESS)
      module = NULL;
    free(image);
  }
  (void)nvrtc->nvrtcDestroyProgram(&program);
  return module;
}
#else
typedef int support_gpu_is_left_out;
#endif
