/* pool.c: threads that share the iterations of a loop.
 *
 * A run publishes a task and sets a counter `left` to the number of iterations. The caller and the
 * workers claim one iteration at a time by decreasing `left`, so uneven iterations balance
 * themselves. A claimant reads task, context and count only after its claim: they cannot change
 * before the claimed iteration is done, because the caller returns when `done` has reached the
 * count. So nobody waits for a worker that has claimed nothing, however long it sleeps, and a
 * worker that comes late simply helps the next run.
 *
 * Waiting spins for SPINS pauses (some tens of microseconds), which a training step fits in between
 * its loops, and then sleeps on a condition variable, so that idle threads cost nothing. Sleeping
 * and waking cannot miss each other: a sleeper announces itself and then looks at the counter once
 * more, the other side changes the counter and then looks for sleepers, all sequentially
 * consistent.
 *
 * Which thread runs an iteration is left to chance; results must not depend on it. Threads are not
 * bound to cores: on a shared machine the system places them better.
 *
 * Floating-point modes (rounding, flushing of subnormals) belong to a thread. A shared object built
 * with -ffast-math can change them for the whole process, so they are probed in each worker.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity: the cores that this process may use */
#endif
#include "tensor/tensor.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CACHE_LINE = 64, SPINS = 4000, MOST_THREADS = 1024 };

typedef struct {
  tn_pool *pool;
  pthread_t thread;
  size_t index; /* 1 ...; the caller is 0 */
} worker;

struct tn_pool {
  size_t threads;        /* with the caller */
  worker *workers;       /* threads - 1, owned */
  pthread_mutex_t entry; /* held during a run: one at a time */
  pthread_mutex_t lock;  /* of what follows up to the counters */
  pthread_cond_t work;   /* workers sleep here */
  pthread_cond_t news;   /* the caller sleeps here */
  size_t n_started;      /* workers that have checked their environment */
  tn_status start_status;
  char start_text[256]; /* of the first worker that failed */
  tn_comm *comm;        /* borrowed, as the next: where executors made with the pool run; may be NULL */
  tn_device *device;
  tn_split split;
  tn_task task;         /* this and the next two: see the essay for when they may be read */
  void *context;
  size_t count;
  _Alignas(CACHE_LINE) atomic_size_t left; /* iterations that nobody has claimed */
  _Alignas(CACHE_LINE) atomic_size_t done; /* iterations that have ended */
  _Alignas(CACHE_LINE) atomic_size_t n_asleep;
  atomic_bool caller_asleep;
  atomic_bool stop;
};

/* The pool whose task this thread is in, and as which worker: a run inside a task goes on inline.
 */
static _Thread_local const tn_pool *inside;
static _Thread_local size_t inside_index;

/* ---- Floating-point environment -------------------------------------------------------------- */

static bool is_rounding_to_nearest(void) {
  volatile double one = 1, tiny = 0x1p-60;
  volatile float one_f = 1, tiny_f = 0x1p-40f;
  volatile double above = one + tiny, below = one - tiny, negative = -one - tiny;
  volatile float above_f = one_f + tiny_f, below_f = one_f - tiny_f, negative_f = -one_f - tiny_f;
  return fegetround() == FE_TONEAREST && above == 1 && below == 1 && negative == -1 &&
         above_f == 1 && below_f == 1 && negative_f == -1;
}

/* Results are judged by their bits: a comparison would itself read a subnormal as zero. */
static bool is_keeping_subnormal_results(void) {
  volatile double small = 0x1p-1022, half = 0.5;
  volatile float small_f = 0x1p-126f, half_f = 0.5f;
  double product = small * half;
  float product_f = small_f * half_f;
  uint64_t bits = 0;
  uint32_t bits_f = 0;
  memcpy(&bits, &product, sizeof bits);
  memcpy(&bits_f, &product_f, sizeof bits_f);
  return bits == UINT64_C(1) << 51 && bits_f == UINT32_C(1) << 22;
}

static bool is_reading_subnormals(void) {
  volatile double tiny = 0x1p-1074, large = 0x1p1000;
  volatile float tiny_f = 0x1p-149f, large_f = 0x1p100f;
  volatile double product = tiny * large;
  volatile float product_f = tiny_f * large_f;
  return product == 0x1p-74 && product_f == 0x1p-49f;
}

tn_status tn_check_float_environment(void) {
  if (!is_rounding_to_nearest())
    return TN_FAIL(TN_EENV, "floating point: this thread does not round to nearest, as it must");
  if (!is_keeping_subnormal_results())
    return TN_FAIL(TN_EENV,
                   "floating point: this thread flushes subnormal results to zero (FTZ); was "
                   "something in the process built with -ffast-math?");
  if (!is_reading_subnormals())
    return TN_FAIL(TN_EENV,
                   "floating point: this thread reads subnormals as zero (DAZ); was something "
                   "in the process built with -ffast-math?");
  return TN_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

static bool has_work(tn_pool *pool) {
  return atomic_load(&pool->left) > 0 || atomic_load(&pool->stop);
}

static void wait_for_work(tn_pool *pool) {
  for (int i = 0; i < SPINS; ++i) {
    if (has_work(pool))
      return;
    pause_briefly();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->n_asleep, 1);
  while (!has_work(pool))
    pthread_cond_wait(&pool->work, &pool->lock);
  atomic_fetch_sub(&pool->n_asleep, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void wait_for_end(tn_pool *pool, size_t count) {
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load(&pool->done) == count)
      return;
    pause_briefly();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->caller_asleep, true);
  while (atomic_load(&pool->done) != count)
    pthread_cond_wait(&pool->news, &pool->lock);
  atomic_store(&pool->caller_asleep, false);
  pthread_mutex_unlock(&pool->lock);
}

/* Wakes at most as many workers as there are iterations besides the caller's own. */
static void wake_workers(tn_pool *pool, size_t count) {
  size_t n_asleep = atomic_load(&pool->n_asleep);
  if (n_asleep == 0)
    return;
  pthread_mutex_lock(&pool->lock);
  if (count - 1 >= n_asleep)
    pthread_cond_broadcast(&pool->work);
  else
    for (size_t i = 0; i + 1 < count; ++i)
      pthread_cond_signal(&pool->work);
  pthread_mutex_unlock(&pool->lock);
}

static void wake_caller(tn_pool *pool) {
  if (!atomic_load(&pool->caller_asleep))
    return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_signal(&pool->news);
  pthread_mutex_unlock(&pool->lock);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Takes one iteration: *left is what was left before it. False if all are taken. */
static bool claim(tn_pool *pool, size_t *left) {
  *left = atomic_load(&pool->left);
  while (*left > 0)
    if (atomic_compare_exchange_weak(&pool->left, left, *left - 1))
      return true;
  return false;
}

static void run_claims(tn_pool *pool, size_t index) {
  size_t left = 0;
  inside = pool;
  inside_index = index;
  while (claim(pool, &left)) {
    const size_t count = pool->count; /* not to be read after `done` has counted this iteration */
    pool->task(pool->context, count - left, index);
    if (atomic_fetch_add(&pool->done, 1) + 1 == count)
      wake_caller(pool);
  }
  inside = NULL;
}

static void run_inline(size_t count, tn_task task, void *context, size_t index) {
  for (size_t i = 0; i < count; ++i)
    task(context, i, index);
}

void tn_pool_run(tn_pool *pool, size_t count, tn_task task, void *context) {
  if (!pool || inside == pool) {
    run_inline(count, task, context, pool ? inside_index : 0);
    return;
  }
  const tn_pool *outer = inside; /* of another pool whose task calls us */
  const size_t outer_index = inside_index;
  pthread_mutex_lock(&pool->entry);
  if (pool->threads == 1 || count <= 1) {
    inside = pool;
    inside_index = 0;
    run_inline(count, task, context, 0);
  } else {
    pool->task = task;
    pool->context = context;
    pool->count = count;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->left, count); /* publishes all of the above */
    wake_workers(pool, count);
    run_claims(pool, 0);
    wait_for_end(pool, count);
  }
  pthread_mutex_unlock(&pool->entry);
  inside = outer;
  inside_index = outer_index;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void report_start(tn_pool *pool) {
  tn_status status = tn_check_float_environment();
  pthread_mutex_lock(&pool->lock);
  if (status != TN_OK && pool->start_status == TN_OK) {
    pool->start_status = status;
    snprintf(pool->start_text, sizeof pool->start_text, "%s", tn_error_text());
  }
  pool->n_started += 1;
  pthread_cond_signal(&pool->news);
  pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument) {
  const worker *self = argument;
  tn_pool *pool = self->pool;
  report_start(pool);
  while (!atomic_load(&pool->stop)) {
    wait_for_work(pool);
    run_claims(pool, self->index);
  }
  return NULL;
}

/* Stops and joins the workers 1 ... n. */
static void stop_workers(tn_pool *pool, size_t n) {
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->stop, true);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (size_t i = 0; i < n; ++i)
    pthread_join(pool->workers[i].thread, NULL);
}

/* Workers block all signals: handlers run in threads that the program made. */
static size_t create_workers(tn_pool *pool) {
  sigset_t all, before;
  size_t n = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (; n + 1 < pool->threads; ++n) {
    worker *w = &pool->workers[n];
    *w = (worker){.pool = pool, .index = n + 1};
    if (pthread_create(&w->thread, NULL, work, w) != 0)
      break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return n;
}

static tn_status start_workers(tn_pool *pool) {
  const size_t wanted = pool->threads - 1, n = create_workers(pool);
  pthread_mutex_lock(&pool->lock);
  while (pool->n_started < n)
    pthread_cond_wait(&pool->news, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  if (n == wanted && pool->start_status == TN_OK)
    return TN_OK;
  stop_workers(pool, n);
  if (n < wanted)
    return TN_FAIL(TN_EENV, "threads: the system gave %zu of %zu workers", n, wanted);
  return TN_FAIL(pool->start_status, "threads: in a worker: %s", pool->start_text);
}

/* Cores that this process may use. */
static size_t usable_cores(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return (size_t)CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (size_t)n : 1;
}

static void destroy(tn_pool **pool) {
  pthread_cond_destroy(&(*pool)->news);
  pthread_cond_destroy(&(*pool)->work);
  pthread_mutex_destroy(&(*pool)->lock);
  pthread_mutex_destroy(&(*pool)->entry);
  tn_free(&(*pool)->workers);
  tn_free(pool);
}

tn_status tn_pool_new(size_t threads, tn_pool **out) {
  tn_pool *pool = NULL;
  *out = NULL;
  if (threads == 0) {
    threads = usable_cores();
    if (threads > MOST_THREADS)
      threads = MOST_THREADS;
  }
  if (threads > MOST_THREADS)
    return TN_FAIL(TN_ERANGE, "threads: %zu are more than %d", threads, (int)MOST_THREADS);
  TN_TRY(tn_check_float_environment());
  TN_TRY(TN_NEW(1, &pool));
  pool->threads = threads;
  tn_status status = TN_NEW(threads - 1, &pool->workers);
  if (status != TN_OK) {
    tn_free(&pool);
    return status;
  }
  /* With default attributes these cannot fail on the systems we build for. */
  pthread_mutex_init(&pool->entry, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->news, NULL);
  status = start_workers(pool);
  if (status != TN_OK)
    destroy(&pool);
  else
    *out = pool;
  return status;
}

void tn_pool_free(tn_pool **pool) {
  if (!pool || !*pool)
    return;
  stop_workers(*pool, (*pool)->threads - 1);
  destroy(pool);
}

size_t tn_pool_threads(const tn_pool *pool) { return pool ? pool->threads : 1; }

/* ---- Where executors run --------------------------------------------------------------------- */

void tn_pool_ranks(tn_pool *pool, tn_comm *comm) { pool->comm = comm; }
tn_comm *tn_pool_comm(const tn_pool *pool) { return pool ? pool->comm : NULL; }
void tn_pool_use(tn_pool *pool, tn_device *device) { pool->device = device; }
tn_device *tn_pool_device(const tn_pool *pool) { return pool ? pool->device : NULL; }
void tn_pool_split(tn_pool *pool, tn_split split) { pool->split = split; }
tn_split tn_pool_split_of(const tn_pool *pool) { return pool ? pool->split : TN_SPLIT_POINTS; }
