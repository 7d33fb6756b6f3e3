/* support_gpu.h: the emulated device (tests/device) for C tests that link cuda/. */
#ifndef TESTS_SUPPORT_GPU_H
#define TESTS_SUPPORT_GPU_H

#include "cuda/libraries.h"
#include "tests/device/emulator.h"

/* The functions of emulator.h, found in the emulated driver. */
typedef struct emulator {
  void (*reset)(void);
  void (*clear)(void);
  void (*script)(const char *function, size_t nth, int code, bool onwards);
  size_t (*calls)(const char *function);
  const char *(*log)(size_t i);
  size_t (*misuse)(void);
  const char *(*message)(void);
  size_t (*after_loss)(void);
  void (*count)(emulate_alive *out);
  void (*set)(const char *option, long value);
} emulator;

/* Makes cuda/ find the emulated libraries and no others, and gives the functions. Ends the test
 * program with a text if they cannot be loaded. To be called before a device is opened. */
const emulator *emulator_open(void);
/* A text compiled by the emulated NVRTC, loaded. NULL, with the compiler's words in `log`, if it
 * does not compile. */
CUmodule emulator_module(const gpu_driver *driver, const char *text, char log[2048]);

#endif
