/* support_fake_driver.h: a driver and a compiler that are written for tests of memory, copies and modules.
 *
 * The driver's device memory is a range of addresses of limited length, or host memory where copies are tested. Its
 * streams are as lazy as CUDA allows: a copy happens when somebody waits for it, not before, so data that were
 * changed or freed too early show. Each of its calls can be made to fail.
 */
#ifndef TESTS_SUPPORT_FAKE_DRIVER_H
#define TESTS_SUPPORT_FAKE_DRIVER_H

#include "cuda/context.h"

#define MIB ((size_t)1 << 20)

enum { MOST_BLOCKS = 4096, MOST_WORK = 4096, MOST_EVENTS = 64 };

typedef struct {
  CUdeviceptr at;
  size_t bytes;
  void *host; /* backed: to free */
} fake_block;

typedef struct fake_event {
  bool there, recorded;
  int stream;
  uint64_t number; /* of the work in its stream after which it comes */
} fake_event;

typedef struct {
  enum { FAKE_COPY, FAKE_WAIT } kind;
  void *to;
  const void *from;
  size_t bytes;
  int stream; /* FAKE_WAIT: another one, up to its work `number` */
  uint64_t number;
} fake_work;

typedef struct fake_driver {
  bool backed;
  size_t capacity, held, next;
  fake_block blocks[MOST_BLOCKS];
  size_t n_blocks;
  fake_work work[2][MOST_WORK]; /* of the two streams, from `done` on, in a ring */
  uint64_t queued[2], done[2];
  fake_event events[MOST_EVENTS];
  size_t n_pinned, n_waits, n_modules;
  uint64_t calls, fail_at; /* calls that can fail */
  CUresult fail_with;
  bool reject_images;
} fake_driver;
extern fake_driver fake;
extern int fake_version; /* of the driver; 13000 */

typedef struct fake_compiler {
  const char *text;
  char options[512];
  char code[256];
  size_t compiled;
  int minor, n_architectures, architectures[4];
} fake_compiler;
extern fake_compiler fake_cc;
extern const gpu_nvrtc fake_nvrtc;

/* A device of capability 9.0 over them, with a pool, and the end of it: everything has to be given back by then, to
 * the driver and to the host. */
void fake_start(gpu_context *g, size_t capacity, bool backed);
void fake_end(gpu_context *g);
/* Work of the first (0) or second (1) stream. advance: does it up to its work `number`. */
void fake_queue(int stream, fake_work work);
void fake_advance(int stream, uint64_t number);

extern uint64_t fake_random; /* set to begin again */
uint64_t fake_draw(uint64_t below);
void fake_fill(unsigned char *x, size_t n, unsigned seed);

#endif
