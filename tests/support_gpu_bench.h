/* support_gpu_bench.h: an open device and a pool on it, as a group fixture. The emulated device, or, with
 * PINN_TEST_DEVICE=real in the environment, the first GPU: then emulator is NULL, and cases that script it are skipped. */
#ifndef TESTS_SUPPORT_GPU_BENCH_H
#define TESTS_SUPPORT_GPU_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_backend.h"
#include "tensor/factor.h"
#include "tests/support_gpu.h"

typedef struct gpu_bench {
  const emulator *emulator; /* NULL: a real device */
  tn_device *device;
  tn_pool *pool; /* of two threads, on the device */
} gpu_bench;

static inline int gpu_bench_open(void **state) {
  static gpu_bench bench;
  const char *wish = getenv("PINN_TEST_DEVICE");
  bool real = wish && strcmp(wish, "real") == 0;
  bench.emulator = real ? NULL : emulator_open();
  if (gpu_open(0, &bench.device) != TN_OK || tn_pool_new(2, &bench.pool) != TN_OK) {
    fprintf(stderr, "the %s device: %s\n", real ? "real" : "emulated", tn_error_text());
    return 1;
  }
  tn_pool_use(bench.pool, bench.device);
  *state = &bench;
  return 0;
}

/* Nothing may be left on the device, and nothing was done that a real one would not forgive. */
static inline int gpu_bench_close(void **state) {
  gpu_bench *bench = *state;
  emulate_alive alive;
  tn_pool_free(&bench->pool);
  tn_device_close(&bench->device);
  if (!bench->emulator)
    return 0;
  bench->emulator->count(&alive);
  if (bench->emulator->misuse())
    fprintf(stderr, "misuse of the device: %s\n", bench->emulator->message());
  if (alive.bytes || alive.pinned || alive.events || alive.graphs || alive.modules || alive.streams)
    fprintf(stderr,
            "left on the device: %zu bytes, %zu pinned, %zu events, %zu graphs, %zu modules, %zu "
            "streams\n",
            alive.bytes, alive.pinned, alive.events, alive.graphs, alive.modules, alive.streams);
  return bench->emulator->misuse() || alive.bytes || alive.pinned || alive.events || alive.graphs ||
         alive.modules || alive.streams;
}

#endif
