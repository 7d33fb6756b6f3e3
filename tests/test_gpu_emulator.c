/* test_gpu_emulator.c: the emulated device itself. What the other tests of cuda/ prove is worth
 * what is proved here: that threads meet at barriers and that a missing barrier shows; that
 * shuffles and atomics do what CUDA's manual says; that wrong memory, double frees, leaks,
 * unsynchronised results and changed sources are seen; that a graph replays what was captured; that
 * scripted failures come where they were asked for.
 */
#include "tests/support_gpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 96, BLOCKS = 5, N = THREADS * BLOCKS };

static const emulator *emulated;
static const gpu_driver *cu;
static CUmodule module;
static CUstream stream;

/* Each kernel of the text is one fact of a case below. */
static const char text[] =
    "extern \"C\" __global__ void reverse(const double *a, double *y) {\n"
    "  GPU_SHARED(double, s);\n"
    "  s[threadIdx.x] = a[blockIdx.x * blockDim.x + threadIdx.x];\n"
    "  __syncthreads();\n"
    "  y[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(96) race(const double *a, double *y) {\n"
    "  __shared__ double s[96];\n"
    "  s[threadIdx.x] = a[threadIdx.x];\n"
    "  y[threadIdx.x] = s[95 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void divergent(double *y) {\n"
    "  if (threadIdx.x < 7) __syncthreads();\n"
    "  y[threadIdx.x] = 1;\n"
    "}\n"
    "extern \"C\" __global__ void lanes(unsigned *y) {\n"
    "  unsigned i = threadIdx.x, all = 0xffffffffu, lane = i % 32;\n"
    "  unsigned v = i * i;\n"
    "  y[i] = __shfl_down_sync(all, v, 3);\n"
    "  y[96 + i] = __shfl_xor_sync(all, v, 5);\n"
    "  y[192 + i] = __shfl_sync(all, v, 9, 16);\n"
    "  y[288 + i] = __shfl_up_sync(all, v, 2);\n"
    "  y[384 + i] = __ballot_sync(all, lane % 3 == 0);\n"
    "  unsigned sum = v;\n"
    "  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(all, sum, d);\n"
    "  if (lane < 8) __syncwarp(0xffu);\n"
    "  y[480 + i] = sum;\n"
    "}\n"
    "extern \"C\" __global__ void atomics(unsigned long long *y, double *d) {\n"
    "  atomicAdd(y, 2ull); atomicMax(y + 1, (unsigned long long)(blockIdx.x * 1000 + "
    "threadIdx.x));\n"
    "  atomicAdd(d, 0.5);\n"
    "  if (atomicCAS(y + 2, 0ull, threadIdx.x + 1ull) == 0ull) y[3] = threadIdx.x + 1;\n"
    "}\n"
    "extern \"C\" __global__ void count(int *y) {\n"
    "  int n = __syncthreads_count(threadIdx.x % 5 == 0);\n"
    "  int all = __syncthreads_and(n > 0), any = __syncthreads_or(threadIdx.x == 3);\n"
    "  y[threadIdx.x] = n * 100 + all * 10 + any;\n"
    "}\n"
    "extern \"C\" __global__ void wild(double *y) { y[threadIdx.x == 40 ? 1000000000ll : 0] = 1; "
    "}\n"
    "extern \"C\" __global__ void trapped(void) { if (blockIdx.x == 2) __trap(); }\n"
    "extern \"C\" __global__ void deep(double *y) {\n"
    "  volatile double room[40000];\n"
    "  for (int i = 0; i < 40000; ++i) room[i] = i;\n"
    "  y[0] = room[39999];\n"
    "}\n"
    "extern \"C\" __global__ void product(double a, float b, const double *c, double *y, int n) {\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = a * c[i] + b;\n"
    "}\n"
    "struct pair { double a; int b; double c[3]; };\n"
    "extern \"C\" __global__ void by_value(pair p, char q, double *y) { y[threadIdx.x] = p.a + p.b "
    "+ p.c[2] + q; }\n"
    "extern \"C\" __global__ void unwritten(double *y) {\n"
    "  __shared__ double s[4];\n"
    "  y[blockIdx.x] = s[0];\n"
    "  s[0] = 1;\n"
    "}\n";

static CUfunction kernel(const char *name) {
  CUfunction f;
  assert_int_equal(cu->cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
  return f;
}

static CUdeviceptr device(size_t bytes, const void *from) {
  CUdeviceptr p;
  assert_int_equal(cu->cuMemAlloc(&p, bytes), CUDA_SUCCESS);
  if (from)
    assert_int_equal(cu->cuMemcpyHtoDAsync(p, from, bytes, stream), CUDA_SUCCESS);
  return p;
}

static void host(void *to, CUdeviceptr from, size_t bytes) {
  assert_int_equal(cu->cuMemcpyDtoHAsync(to, from, bytes, stream), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
}

static CUresult launch(const char *name, unsigned blocks, unsigned threads, unsigned shared,
                       void **arguments) {
  return cu->cuLaunchKernel(kernel(name), blocks, 1, 1, threads, 1, 1, shared, stream, arguments,
                            NULL);
}

static int open_device(void **state) {
  (void)state;
  CUdevice d;
  CUcontext context;
  char log[2048];
  emulated->reset();
  emulated->set("lazy", 1);
  emulated->set("shuffle", 0);
  assert_int_equal(cu->cuInit(0), CUDA_SUCCESS);
  assert_int_equal(cu->cuDeviceGet(&d, 0), CUDA_SUCCESS);
  assert_int_equal(cu->cuDevicePrimaryCtxRetain(&context, d), CUDA_SUCCESS);
  assert_int_equal(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  module = emulator_module(cu, text, log);
  if (!module)
    print_error("%s\n", log);
  assert_non_null(module);
  return 0;
}

static int close_device(void **state) {
  (void)state;
  (void)cu->cuStreamDestroy(stream);
  (void)cu->cuModuleUnload(module);
  assert_int_equal(cu->cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  return cu->cuCtxSetCurrent(NULL);
}

/* ---- Threads --------------------------------------------------------------------------------- */
static void threads_meet_at_barriers(void **state) {
  (void)state;
  double a[N], y[N];
  for (int i = 0; i < N; ++i)
    a[i] = sin(i);
  CUdeviceptr da = device(sizeof a, a), dy = device(sizeof y, NULL);
  void *arguments[] = {&da, &dy};
  for (long seed = 0; seed < 8; ++seed) {
    emulated->set("shuffle", seed);
    assert_int_equal(launch("reverse", BLOCKS, THREADS, THREADS * 8, arguments), CUDA_SUCCESS);
    host(y, dy, sizeof y);
    for (int i = 0; i < N; ++i)
      assert_true(y[i] == a[i / THREADS * THREADS + THREADS - 1 - i % THREADS]);
  }
  (void)cu->cuMemFree(da);
  (void)cu->cuMemFree(dy);
  assert_int_equal(emulated->misuse(), 0);
}

/* Without a barrier some threads read what is not yet written; which, depends on the order. */
static void races_show_as_other_bits(void **state) {
  (void)state;
  double a[THREADS], y[THREADS], first[THREADS];
  for (int i = 0; i < THREADS; ++i)
    a[i] = i + 1;
  CUdeviceptr da = device(sizeof a, a), dy = device(sizeof y, NULL);
  void *arguments[] = {&da, &dy};
  int differ = 0, wrong = 0;
  for (long seed = 0; seed < 8; ++seed) {
    emulated->set("shuffle", seed);
    assert_int_equal(launch("race", 1, THREADS, 0, arguments), CUDA_SUCCESS);
    host(y, dy, sizeof y);
    for (int i = 0; i < THREADS; ++i)
      wrong += isnan(y[i]) != 0;
    differ += seed > 0 && memcmp(y, first, sizeof y) != 0;
    if (seed == 0)
      memcpy(first, y, sizeof y);
  }
  assert_true(differ >= 6 && wrong > 0);
  (void)cu->cuMemFree(da);
  (void)cu->cuMemFree(dy);
}

static void barriers_not_reached_are_named(void **state) {
  (void)state;
  CUdeviceptr dy = device(THREADS * 8, NULL);
  void *arguments[] = {&dy};
  assert_int_equal(launch("divergent", 1, THREADS, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  assert_non_null(strstr(emulated->message(), "kernel divergent: block 0: 7 of 96 threads wait"));
  /* The context is lost: nothing works any more, and what is tried is counted. */
  size_t before = emulated->after_loss();
  CUdeviceptr p;
  assert_int_equal(cu->cuMemAlloc(&p, 8), CUDA_ERROR_LAUNCH_FAILED);
  assert_true(emulated->after_loss() > before);
}

static void lanes_exchange_values(void **state) {
  (void)state;
  uint32_t y[6][THREADS];
  CUdeviceptr dy = device(sizeof y, NULL);
  void *arguments[] = {&dy};
  for (long seed = 0; seed < 4; ++seed) {
    emulated->set("shuffle", seed);
    assert_int_equal(launch("lanes", 1, THREADS, 0, arguments), CUDA_SUCCESS);
    host(y, dy, sizeof y);
    for (uint32_t i = 0; i < THREADS; ++i) {
      uint32_t lane = i % 32, warp = i - lane,
               from[4] = {lane + 3 < 32 ? i + 3 : i, warp + (lane ^ 5), warp + lane / 16 * 16 + 9,
                          lane >= 2 ? i - 2 : i};
      uint32_t sum = 0;
      for (uint32_t k = 0; k < 32; ++k)
        sum += (warp + k) * (warp + k);
      for (int q = 0; q < 4; ++q)
        assert_int_equal(y[q][i], from[q] * from[q]);
      assert_int_equal(y[4][i], 0x49249249u);
      assert_int_equal(y[5][i], sum);
    }
  }
  (void)cu->cuMemFree(dy);
}

static void atomics_and_votes_count(void **state) {
  (void)state;
  uint64_t u[4] = {0};
  double d = 0;
  int32_t votes[THREADS];
  CUdeviceptr du = device(sizeof u, u), dd = device(sizeof d, &d), dv = device(sizeof votes, NULL);
  void *arguments[] = {&du, &dd}, *vote[] = {&dv};
  assert_int_equal(launch("atomics", BLOCKS, THREADS, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(launch("count", 1, THREADS, 0, vote), CUDA_SUCCESS);
  host(u, du, sizeof u);
  host(&d, dd, sizeof d);
  host(votes, dv, sizeof votes);
  assert_true(u[0] == 2 * N && u[1] == (BLOCKS - 1) * 1000 + THREADS - 1 && u[2] == u[3] &&
              d == 0.5 * N);
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(votes[i], (THREADS + 4) / 5 * 100 + 11);
  (void)cu->cuMemFree(du);
  (void)cu->cuMemFree(dd);
  (void)cu->cuMemFree(dv);
}

static void arguments_are_copied_at_the_call(void **state) {
  (void)state;
  struct {
    double a;
    int b;
    double c[3];
  } p = {1, 2, {0, 0, 4}};
  char q = 8;
  double y[4];
  CUdeviceptr dy = device(sizeof y, NULL);
  void *arguments[] = {&p, &q, &dy};
  assert_int_equal(launch("by_value", 1, 4, 0, arguments), CUDA_SUCCESS);
  p.a = 100;
  host(y, dy, sizeof y);
  assert_true(y[0] == 15 && y[3] == 15);
  (void)cu->cuMemFree(dy);
}

static void unwritten_memory_is_nan(void **state) {
  (void)state;
  double y[3];
  CUdeviceptr dy = device(sizeof y, NULL);
  host(y, dy, sizeof y);
  assert_true(isnan(y[0]) && isnan(y[2]));
  void *arguments[] = {&dy};
  assert_int_equal(launch("unwritten", 3, 1, 0, arguments),
                   CUDA_SUCCESS); /* nor does a block see the last one's */
  host(y, dy, sizeof y);
  assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
  (void)cu->cuMemFree(dy);
}

/* ---- Memory ---------------------------------------------------------------------------------- */
static void wild_kernels_are_stopped(void **state) {
  (void)state;
  CUdeviceptr dy = device(8, NULL);
  void *arguments[] = {&dy};
  assert_int_equal(launch("wild", 1, THREADS, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(cu->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_non_null(strstr(emulated->message(), "kernel wild: block 0, thread 40: illegal address"));
}

static void traps_and_deep_stacks_are_stopped(void **state) {
  assert_int_equal(launch("trapped", BLOCKS, 1, 0, NULL), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_ERROR_ASSERT);
  assert_int_equal(close_device(state), 0);
  assert_int_equal(open_device(state), 0);
  CUdeviceptr dy = device(8, NULL);
  void *arguments[] = {&dy};
  assert_int_equal(launch("deep", 1, 2, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_non_null(strstr(emulated->message(), "kernel deep"));
}

static void copies_stay_within_a_block(void **state) {
  (void)state;
  char data[64] = {0};
  CUdeviceptr a = device(64, data), b = device(64, data);
  assert_int_equal(cu->cuMemcpyHtoDAsync(a + 8, data, 64, stream), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cu->cuMemcpyDtoDAsync(a, b, 65, stream), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cu->cuMemcpyDtoHAsync((void *)(uintptr_t)b, a, 8, stream),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)data, data, 8, stream),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cu->cuMemsetD32Async(a, 0, 17, stream), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(emulated->misuse(), 6); /* both ends of the second */
  assert_int_equal(cu->cuMemFree(a), CUDA_SUCCESS);
  assert_int_equal(cu->cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cu->cuMemFree(b + 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(emulated->misuse(), 8);
  (void)cu->cuMemFree(b);
}

static void leaks_are_counted(void **state) {
  CUdeviceptr a = device(1000, NULL);
  emulate_alive alive;
  emulated->count(&alive);
  assert_true(alive.bytes == 1000 && alive.blocks == 1 && alive.streams == 1 &&
              alive.modules == 1 && a);
  assert_int_equal(close_device(state), 0);
  assert_non_null(strstr(emulated->message(), "ends with 1 blocks (1000 bytes), 0 pinned"));
  emulated->count(&alive);
  assert_true(alive.bytes == 0 && alive.streams == 0 && alive.contexts == 0);
  assert_int_equal(open_device(state), 0);
}

static void memory_ends(void **state) {
  (void)state;
  CUdeviceptr a, b;
  emulated->set("memory", 4);
  assert_int_equal(cu->cuMemAlloc(&a, 3 << 20), CUDA_SUCCESS);
  assert_int_equal(cu->cuMemAlloc(&b, 2 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(cu->cuMemFree(a), CUDA_SUCCESS);
  emulated->set("memory", 2048);
}

/* ---- Streams --------------------------------------------------------------------------------- */
/* y = a c + b for a pinned source that is changed before the stream is synchronised. */
static void sources_are_read_late(void **state) {
  (void)state;
  double *c, a = 2, y[4];
  float b = 1;
  int n = 4;
  void *pinned;
  assert_int_equal(cu->cuMemAllocHost(&pinned, sizeof y), CUDA_SUCCESS);
  c = pinned;
  CUdeviceptr dc = device(sizeof y, NULL), dy = device(sizeof y, NULL);
  void *arguments[] = {&a, &b, &dc, &dy, &n};
  for (long lazy = 0; lazy < 2; ++lazy) {
    emulated->set("lazy", lazy);
    for (int i = 0; i < 4; ++i)
      c[i] = i;
    assert_int_equal(cu->cuMemcpyHtoDAsync(dc, c, sizeof y, stream), CUDA_SUCCESS);
    assert_int_equal(launch("product", 1, 2, 0, arguments), CUDA_SUCCESS);
    c[3] = 10; /* too early */
    host(y, dy, sizeof y);
    assert_true(y[2] == 5 && y[3] == (lazy ? 21 : 7));
    double plain[4] = {1, 1, 1, 1}; /* not pinned: its data are taken at once */
    assert_int_equal(cu->cuMemcpyHtoDAsync(dc, plain, sizeof y, stream), CUDA_SUCCESS);
    plain[0] = 5;
    host(y, dc, sizeof y);
    assert_true(y[0] == 1);
  }
  emulated->set("lazy", 1);
  /* A result in pinned memory is not there before the stream was synchronised. */
  memset(c, 0, sizeof y);
  assert_int_equal(cu->cuMemcpyDtoHAsync(c, dy, sizeof y, stream), CUDA_SUCCESS);
  assert_true(c[2] == 0);
  assert_int_equal(cu->cuStreamQuery(stream), CUDA_SUCCESS);
  assert_true(c[2] == 5);
  (void)cu->cuMemFree(dc);
  (void)cu->cuMemFree(dy);
  (void)cu->cuMemFreeHost(pinned);
}

static void events_order_streams(void **state) {
  (void)state;
  CUstream other;
  CUevent ready;
  uint32_t y = 0;
  CUdeviceptr p = device(4, NULL);
  assert_int_equal(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_int_equal(cu->cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  /* Without an event the other stream's fill has not been done. */
  assert_int_equal(cu->cuMemsetD32Async(p, 1, 1, other), CUDA_SUCCESS);
  host(&y, p, 4);
  assert_int_equal(y, 0xffffffffu);
  assert_int_equal(cu->cuMemsetD32Async(p, 2, 1, other), CUDA_SUCCESS);
  assert_int_equal(cu->cuEventRecord(ready, other), CUDA_SUCCESS);
  assert_int_equal(cu->cuMemsetD32Async(p, 3, 1, other),
                   CUDA_SUCCESS); /* after the event: not waited for */
  assert_int_equal(cu->cuEventQuery(ready), CUDA_ERROR_NOT_READY);
  assert_int_equal(cu->cuStreamWaitEvent(stream, ready, 0), CUDA_SUCCESS);
  host(&y, p, 4);
  assert_int_equal(y, 2);
  assert_int_equal(cu->cuEventSynchronize(ready), CUDA_SUCCESS);
  assert_int_equal(cu->cuCtxSynchronize(), CUDA_SUCCESS);
  host(&y, p, 4);
  assert_int_equal(y, 3);
  (void)cu->cuEventDestroy(ready);
  (void)cu->cuStreamDestroy(other);
  (void)cu->cuMemFree(p);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */
static void graphs_replay_what_was_captured(void **state) {
  (void)state;
  double a = 3, y[4];
  float b = 1;
  int n = 4;
  void *pinned;
  CUgraph graph;
  CUgraphExec exec;
  assert_int_equal(cu->cuMemAllocHost(&pinned, sizeof y), CUDA_SUCCESS);
  double *c = pinned;
  CUdeviceptr dc = device(sizeof y, NULL), dy = device(sizeof y, NULL);
  void *arguments[] = {&a, &b, &dc, &dy, &n};
  for (int i = 0; i < 4; ++i)
    c[i] = i;
  assert_int_equal(cu->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   CUDA_SUCCESS);
  assert_int_equal(cu->cuMemcpyHtoDAsync(dc, c, sizeof y, stream), CUDA_SUCCESS);
  assert_int_equal(launch("product", 1, 2, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  assert_int_equal(cu->cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  assert_int_equal(cu->cuGraphDestroy(graph), CUDA_SUCCESS);
  host(y, dy, sizeof y);
  assert_true(isnan(y[0])); /* capturing does nothing */
  a = 1000;                 /* an argument is as it was, a source as it is */
  for (int k = 0; k < 3; ++k) {
    c[2] = k;
    assert_int_equal(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    host(y, dy, sizeof y);
    assert_true(y[2] == 3 * k + 1 && y[3] == 10);
  }
  assert_int_equal(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
  assert_int_equal(cu->cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
  (void)cu->cuMemFree(dc);
  (void)cu->cuMemFree(dy);
  (void)cu->cuMemFreeHost(pinned);
}

static void captures_refuse_waiting(void **state) {
  (void)state;
  CUgraph graph;
  CUdeviceptr p;
  CUstreamCaptureStatus status;
  assert_int_equal(cu->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cu->cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  assert_int_equal(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  assert_null(graph);
  assert_int_equal(cu->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  assert_int_equal(cu->cuMemAlloc(&p, 8), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* ---- Scripts --------------------------------------------------------------------------------- */
static void failures_come_where_they_are_asked_for(void **state) {
  (void)state;
  CUdeviceptr p;
  emulated->script("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, false);
  emulated->script("cuMemFree", 3, CUDA_ERROR_UNKNOWN, true);
  for (int i = 1; i <= 4; ++i)
    assert_int_equal(cu->cuMemAlloc(&p, 8), i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
  for (int i = 1; i <= 5; ++i)
    assert_int_equal(cu->cuMemFree(0), i >= 3 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
  assert_int_equal(emulated->calls("cuMemFree"), 5);
  emulated->reset();
  /* Late: the launch is fine, what waits for it is told. */
  emulated->script("kernel", 1, CUDA_ERROR_ILLEGAL_INSTRUCTION, false);
  CUdeviceptr dy = device(THREADS * 4, NULL);
  void *arguments[] = {&dy};
  assert_int_equal(launch("lanes", 1, THREADS, 0, arguments), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

static void texts_that_do_not_compile_say_why(void **state) {
  (void)state;
  char log[2048];
  assert_null(
      emulator_module(cu, "extern \"C\" __global__ void f(double *y) { y = nowhere; }\n", log));
  assert_non_null(strstr(log, "nowhere"));
  char bad[64] = "not an image";
  CUmodule m;
  assert_int_equal(cu->cuModuleLoadData(&m, bad), CUDA_ERROR_INVALID_IMAGE);
}

int main(void) {
  emulated = emulator_open();
  setenv("EMULATED_CUDA_QUIET", "1", 1); /* faults are expected here */
  if (gpu_need_driver(&cu) != TN_OK) {
    fprintf(stderr, "%s\n", tn_error_text());
    return 1;
  }
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
  const struct CMUnitTest tests[] = {
      CASE(threads_meet_at_barriers),
      CASE(races_show_as_other_bits),
      CASE(barriers_not_reached_are_named),
      CASE(lanes_exchange_values),
      CASE(atomics_and_votes_count),
      CASE(arguments_are_copied_at_the_call),
      CASE(unwritten_memory_is_nan),
      CASE(wild_kernels_are_stopped),
      CASE(traps_and_deep_stacks_are_stopped),
      CASE(copies_stay_within_a_block),
      CASE(leaks_are_counted),
      CASE(memory_ends),
      CASE(sources_are_read_late),
      CASE(events_order_streams),
      CASE(graphs_replay_what_was_captured),
      CASE(captures_refuse_waiting),
      CASE(failures_come_where_they_are_asked_for),
      CASE(texts_that_do_not_compile_say_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
