/* emulator.h: the emulated device as its own libraries and the tests see it.
 *
 * libcuda.so.1 of this folder is a driver whose device is the CPU: device memory is memory of its
 * own far from the heap, closed to the host except while a copy or a kernel runs; a kernel is a
 * shared object that the emulated NVRTC made with the host's compiler; a stream is a queue whose
 * work is done when something waits for it (or at once: EMULATED_CUDA_STREAMS=eager). The other
 * libraries here queue their work in the same streams.
 *
 * Tests script it: the n-th call of a function fails with a code, once or from then on, or the
 * device's work does. They reach the functions below by dlsym in libcuda.so.1. All calls are
 * logged; what a driver would forgive or answer with damage is counted as misuse, with a text.
 */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define EMULATED __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif

/* ---- For tests (script.c) -----------------------------------------------------------------------
 * Names of functions have no suffix of a version: "cuMemAlloc". A name of *work* is what the device
 * does when the queue comes to it: "kernel", "copy", "fill", "matmul", "gather"; failing there is
 * the late error of a real device. */
enum { EMULATE_HANG = -1 };        /* a code: the work never ends (of work only) */
EMULATED void emulate_reset(void); /* no script, empty log, no misuse; objects and memory stay */
EMULATED void
emulate_clear(void); /* ends all contexts with what they have, as the end of a process would */
/* The nth call from now (1: the next) fails with the code, and with `onwards` all later ones. */
EMULATED void emulate_fail(const char *function, size_t nth, int code, bool onwards);
EMULATED size_t emulate_calls(const char *function); /* since reset; NULL: all */
EMULATED const char *
emulate_log(size_t i);                /* name of the i-th call since reset, NULL beyond the last */
EMULATED size_t emulate_misuse(void); /* faults found since reset */
EMULATED const char *emulate_message(void); /* the last fault, or why a kernel failed */
/* Calls since reset that gave work to a context that was lost, by what they were told; asking and
 * freeing is allowed. */
EMULATED size_t emulate_after_loss(void);
/* What is alive: bytes and blocks of device memory, of pinned memory; streams, events, modules,
 * graphs, contexts. */
typedef struct emulate_alive {
  size_t bytes, blocks, pinned, streams, events, modules, graphs, contexts,
      handles; /* handles: of other libraries */
} emulate_alive;
EMULATED void emulate_count(emulate_alive *out);
/* "lazy" 0/1; "shuffle": seed of the order of threads, 0 for none; "devices"; "memory" MiB;
 * "protect" 0/1: device memory is closed to the host between works. */
EMULATED void emulate_set(const char *option, long value);

/* ---- For the libraries of this folder -------------------------------------------------------- */
/* Logs a call, and gives the code that the script has for it, or 0. */
EMULATED int emulated_call(const char *function);
EMULATED void emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Queues run(data) in a stream; the data are copied. run gives CUDA_ERROR_NOT_READY to be asked
 * again later. `name` is the work's for scripts; a scripted code becomes the context's error. */
typedef CUresult (*emulated_work)(void *data);
EMULATED CUresult emulated_queue(CUstream stream, const char *name, emulated_work run,
                                 const void *data, size_t bytes);
/* Do the bytes lie within one block of device memory? If not, a fault that says `what`. */
EMULATED bool emulated_device_range(const char *what, const void *pointer, size_t bytes);
EMULATED void emulated_handle(int change); /* a library's handle was made (+1) or freed (-1) */
EMULATED void emulated_lock(void);
EMULATED void emulated_unlock(void);

#ifdef __cplusplus
}
#endif
#endif
