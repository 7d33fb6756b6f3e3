/* fibers.c: the threads of a block, as fibers with barriers.
 *
 * Each thread has a small stack with a guard page below it; a switch saves the registers that a
 * call preserves and changes the stack pointer, about 3 ns. Threads take turns in the order of
 * their numbers, or in an order drawn anew for each phase (option shuffle), and run until they wait
 * or end. When nobody can run: if all threads of the block wait at the barrier it opens, if all
 * lanes of a mask wait in their warp that one opens, otherwise some threads never come and the
 * kernel fails, by name. Touching memory that is not there ends the kernel likewise, through a
 * signal handler that leaves the fiber for the scheduler.
 *
 * Blocks run one after the other. So two blocks, or two threads between barriers, never interleave
 * finer than that: a race shows as bits that depend on the order (shuffle), or not at all.
 */
#include "tests/device/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10, GUARD_BYTES = 16 << 10, WARP = 32, SLOTS = 2 };

typedef struct extent3 {
  unsigned x, y, z;
} extent3;

/* The same members as in shim.h. */
typedef struct emulated_threads {
  extent3 thread, block, block_extent, grid_extent;
  void *shared;
  int (*barrier)(int predicate, int mode);
  void (*warp)(unsigned mask);
  void (*exchange)(unsigned mask, const void *in, unsigned bytes, unsigned from, void *out);
  unsigned (*ballot)(unsigned mask, int predicate);
  unsigned (*active)(void);
  void (*trap)(void);
} emulated_threads;

typedef enum fiber_state { READY, AT_BARRIER, IN_WARP, ENDED } fiber_state;
typedef struct fiber {
  void *stack_pointer;
  char *stack; /* its lowest usable byte */
  extent3 index;
  fiber_state state;
  unsigned mask; /* IN_WARP: lanes that must come */
  unsigned parity;
  unsigned char slot[SLOTS][8];
} fiber;

static emulated_threads threads;
static fiber fibers[MOST_THREADS];
static unsigned n_fibers, n_stacks, current, n_ended;
static void *scheduler; /* its stack pointer while a fiber runs */
static const launch *running;
static pthread_t runner;
static int barrier_sum, barrier_result;
static CUresult failure;
static char *shared_memory; /* dynamic shared memory, with a guard page behind it */
static size_t shared_room;

/* ---- Switching ----------------------------------------------------------------------------------
 * fiber_switch(save, to): pushes the registers that the callee keeps, stores the stack pointer in
 * *save, takes `to`. */
void fiber_switch(void **save, void *to);
#if defined __x86_64__
__asm__(".text\n.globl fiber_switch\n.hidden fiber_switch\n.type "
        "fiber_switch,@function\nfiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size fiber_switch,.-fiber_switch\n");
enum { SAVED_WORDS = 6 + 1 };
static void *stack_of_new(char *top, void (*entry)(void)) {
  void **at = (void **)(void *)top;
  *--at = NULL; /* where entry would return to; also aligns as after a call */
  *--at = (void *)(uintptr_t)entry;
  at -= SAVED_WORDS - 1;
  memset(at, 0, (SAVED_WORDS - 1) * sizeof *at);
  return at;
}
#elif defined __aarch64__
__asm__(".text\n.globl fiber_switch\n.hidden fiber_switch\n.type "
        "fiber_switch,%function\nfiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, "
        "x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp "
        "d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, "
        "x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp "
        "d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n.size fiber_switch,.-fiber_switch\n");
static void *stack_of_new(char *top, void (*entry)(void)) {
  uint64_t *at = (uint64_t *)(void *)top - 20;
  memset(at, 0, 160);
  at[11] = (uint64_t)(uintptr_t)entry; /* x30 */
  return at;
}
#else
#error "the emulated device has no fiber switch for this processor"
#endif

static void leave(void) { fiber_switch(&fibers[current].stack_pointer, scheduler); }

static void fiber_main(void) {
  running->function->call(running->arguments);
  fibers[current].state = ENDED;
  ++n_ended;
  leave();
}

/* ---- What kernels call ----------------------------------------------------------------------- */
static int barrier(int predicate, int mode) {
  barrier_sum += predicate != 0;
  fibers[current].state = AT_BARRIER;
  leave();
  return mode == 0   ? barrier_result
         : mode == 1 ? barrier_result == (int)n_fibers
                     : barrier_result > 0;
}

static void warp(unsigned mask) {
  if (!(mask >> current % WARP & 1u))
    emulated_fault("kernel %s: a thread waits in its warp with a mask that lacks its lane",
                   running->function->name);
  fibers[current].mask = mask;
  fibers[current].state = IN_WARP;
  leave();
}

static void exchange(unsigned mask, const void *in, unsigned bytes, unsigned from, void *out) {
  fiber *self = &fibers[current];
  unsigned slot = self->parity++ % SLOTS, source = current / WARP * WARP + from % WARP;
  memcpy(self->slot[slot], in, bytes);
  warp(mask);
  bool there = source < n_fibers && (mask >> source % WARP & 1u);
  memcpy(out, there ? fibers[source].slot[slot] : self->slot[slot], bytes);
}

static unsigned ballot(unsigned mask, int predicate) {
  fiber *self = &fibers[current];
  unsigned slot = self->parity++ % SLOTS, result = 0;
  self->slot[slot][0] = predicate != 0;
  warp(mask);
  unsigned first = current / WARP * WARP;
  for (unsigned i = 0; i < WARP && first + i < n_fibers; ++i)
    if ((mask >> i & 1u) && fibers[first + i].slot[slot][0])
      result |= 1u << i;
  return result;
}

static unsigned active(void) {
  unsigned first = current / WARP * WARP, mask = 0;
  for (unsigned i = 0; i < WARP && first + i < n_fibers; ++i)
    mask |= fibers[first + i].state != ENDED ? 1u << i : 0;
  return mask;
}

static void fail(CUresult code) {
  failure = code;
  leave(); /* never resumed */
}

static void trap(void) {
  emulated_fault("kernel %s: trap", running->function->name);
  fail(CUDA_ERROR_ASSERT);
}

/* ---- Faults ---------------------------------------------------------------------------------- */
static struct sigaction before[2];
static const int caught[2] = {SIGSEGV, SIGBUS};

static void on_signal(int number, siginfo_t *info, void *unused) {
  (void)unused;
  if (!running || !scheduler ||
      !pthread_equal(runner,
                     pthread_self())) { /* not a kernel's: the default action, at the same place */
    sigaction(number, &before[number == SIGBUS], NULL);
    return;
  }
  const char *at = info->si_addr, *stack = fibers[current].stack;
  bool overflow = at >= stack - GUARD_BYTES && at < stack;
  size_t left;
  emulated_fault("kernel %s: block %u, thread %u: %s %p", running->function->name, threads.block.x,
                 current,
                 overflow                     ? "stack overflow at"
                 : device_block(at, 1, &left) ? "fault at"
                                              : "illegal address",
                 (const void *)at);
  fail(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void catch_signals(void) {
  static char stack[64 << 10];
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack}, old;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE))
    sigaltstack(&alternative, NULL);
  for (int i = 0; i < 2; ++i)
    sigaction(caught[i], &action, &before[i]);
}

static void release_signals(void) {
  for (int i = 0; i < 2; ++i)
    sigaction(caught[i], &before[i], NULL);
}

/* ---- Scheduling ------------------------------------------------------------------------------ */
static bool grow_stacks(unsigned n) {
  for (; n_stacks < n; ++n_stacks) {
    char *base = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE))
      return false;
    fibers[n_stacks].stack = base + GUARD_BYTES;
  }
  return true;
}

static bool grow_shared(size_t bytes) {
  size_t room = (bytes + 0xffff) & ~(size_t)0xffff;
  if (room > shared_room) {
    char *at = mmap(NULL, room + GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at, room, PROT_READ | PROT_WRITE))
      return false;
    if (shared_memory)
      munmap(shared_memory, shared_room + GUARD_BYTES);
    shared_memory = at;
    shared_room = room;
  }
  /* Its end at the guard page, so that one element too many is caught. */
  threads.shared =
      shared_memory ? shared_memory + shared_room - ((bytes + 15) & ~(size_t)15) : NULL;
  return true;
}

/* Opens the warp barriers whose lanes have all come. */
static bool open_warps(void) {
  bool any = false;
  for (unsigned first = 0; first < n_fibers; first += WARP) {
    unsigned came = 0, ended = 0, lanes = n_fibers - first < WARP ? n_fibers - first : WARP;
    for (unsigned i = 0; i < lanes; ++i) {
      came |= fibers[first + i].state == IN_WARP ? 1u << i : 0;
      ended |= fibers[first + i].state == ENDED ? 1u << i : 0;
    }
    unsigned all = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1;
    for (unsigned i = 0; i < lanes; ++i) {
      unsigned mask = fibers[first + i].mask & all & ~ended;
      if (!(came >> i & 1u) || fibers[first + i].state != IN_WARP || (mask & ~came))
        continue;
      for (unsigned k = 0; k < lanes; ++k)
        if ((mask >> k & 1u) && (fibers[first + k].mask & all & ~ended) == mask)
          fibers[first + k].state = READY;
      any = true;
    }
  }
  return any;
}

/* When no thread can run. False: some never come. */
static bool open_barriers(void) {
  if (open_warps())
    return true;
  unsigned waiting = 0;
  for (unsigned i = 0; i < n_fibers; ++i)
    waiting += fibers[i].state == AT_BARRIER;
  if (waiting != n_fibers) {
    emulated_fault("kernel %s: block %u: %u of %u threads wait at a barrier that the others never "
                   "reach (%u ended)",
                   running->function->name, threads.block.x, waiting, n_fibers, n_ended);
    return false;
  }
  barrier_result = barrier_sum;
  barrier_sum = 0;
  for (unsigned i = 0; i < n_fibers; ++i)
    fibers[i].state = READY;
  return true;
}

static void resume(unsigned i) {
  if (fibers[i].state != READY)
    return;
  current = i;
  threads.thread = fibers[i].index;
  fiber_switch(&scheduler, fibers[i].stack_pointer);
}

/* One turn of every thread; in an order of its own with the option shuffle: i -> (a i + b) mod 2^k,
 * a odd. */
static void run_phase(uint64_t *random) {
  if (!emulated_options.shuffle) {
    for (unsigned i = 0; i < n_fibers && !failure; ++i)
      resume(i);
    return;
  }
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  unsigned a = (unsigned)(*random >> 33) | 1u, b = (unsigned)(*random >> 13), room = 1;
  while (room < n_fibers)
    room *= 2;
  for (unsigned i = 0; i < room && !failure; ++i) {
    unsigned k = (a * i + b) & (room - 1);
    if (k < n_fibers)
      resume(k);
  }
}

static void run_block(const launch *l, uint64_t *random) {
  char *first = NULL, *last = NULL;
  l->function->module->shared_range(&first, &last);
  if (first)
    memset(first, 0xff, (size_t)(last - first));
  if (l->shared)
    memset(threads.shared, 0xff, l->shared);
  n_ended = 0;
  barrier_sum = 0;
  for (unsigned i = 0; i < n_fibers; ++i) {
    fiber *f = &fibers[i];
    f->index =
        (extent3){i % l->block[0], i / l->block[0] % l->block[1], i / l->block[0] / l->block[1]};
    f->state = READY;
    f->parity = 0;
    f->stack_pointer = stack_of_new(f->stack + STACK_BYTES, fiber_main);
  }
  for (;;) {
    run_phase(random);
    if (failure || n_ended == n_fibers)
      return;
    if (!open_barriers()) {
      failure = CUDA_ERROR_LAUNCH_FAILED;
      return;
    }
  }
}

void *fibers_attachment(void) {
  threads.barrier = barrier;
  threads.warp = warp;
  threads.exchange = exchange;
  threads.ballot = ballot;
  threads.active = active;
  threads.trap = trap;
  return &threads;
}

CUresult launch_run(const launch *l) {
  n_fibers = l->block[0] * l->block[1] * l->block[2];
  if (!grow_stacks(n_fibers) || !grow_shared(l->shared))
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t random = (uint64_t)emulated_options.shuffle;
  threads.block_extent = (extent3){l->block[0], l->block[1], l->block[2]};
  threads.grid_extent = (extent3){l->grid[0], l->grid[1], l->grid[2]};
  failure = CUDA_SUCCESS;
  running = l;
  runner = pthread_self();
  catch_signals();
  for (unsigned z = 0; z < l->grid[2] && !failure; ++z)
    for (unsigned y = 0; y < l->grid[1] && !failure; ++y)
      for (unsigned x = 0; x < l->grid[0] && !failure; ++x) {
        threads.block = (extent3){x, y, z};
        run_block(l, &random);
      }
  release_signals();
  running = NULL;
  scheduler = NULL;
  return failure;
}
