/* peak.c: what this machine can do, measured: fused multiply-adds and bytes a second.
 *
 * Times of a program mean little without the machine's own; a share of what it can do means much. All figures
 * are the best of short bursts within a given time: whatever else runs on the cores makes bursts slower and never
 * faster. A burst has one task a thread, and is as long as its slowest.
 */
#include "tensor/peak.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

extern const tn_peak_loops tn_peak_loops_base;
#ifdef TN_HAVE_V3
extern const tn_peak_loops tn_peak_loops_v3;
#endif
#ifdef TN_HAVE_V4
extern const tn_peak_loops tn_peak_loops_v4;
#endif

static const double burst_seconds =
    2e-3; /* long beside the waking of a thread, short beside a disturbance */

static const tn_peak_loops *loops_in_use(void) {
#ifdef TN_HAVE_V4
  if (strcmp(tn_isa(), "x86-64-v4") == 0)
    return &tn_peak_loops_v4;
#endif
#ifdef TN_HAVE_V3
  if (strcmp(tn_isa(), "x86-64-v3") == 0)
    return &tn_peak_loops_v3;
#endif
  return &tn_peak_loops_base;
}

typedef struct burst {
  const tn_peak_loops *loops;
  size_t dtype; /* 0: f64, 1: f32 */
  tn_traffic kind;
  size_t n;       /* doubles of one array of a thread */
  double *memory; /* of all threads; NULL: arithmetic */
  size_t repeats;
} burst;

enum { ARRAYS = 3 };

static size_t arrays_of(tn_traffic kind) { return kind == TN_TRAFFIC_TRIAD ? ARRAYS : 1; }

static void task(void *context, size_t i, size_t worker) {
  const burst *b = context;
  volatile double sink = 0;
  (void)worker;
  if (!b->memory) {
    sink = b->loops->fma[b->dtype](b->repeats);
    return;
  }
  double *a = b->memory + i * b->n * arrays_of(b->kind);
  for (size_t k = 0; k < b->repeats; ++k) {
    if (b->kind == TN_TRAFFIC_READ)
      sink = sink + b->loops->read(b->n, a);
    else if (b->kind == TN_TRAFFIC_WRITE)
      b->loops->write(b->n, a, (double)k);
    else
      b->loops->triad(b->n, a, a + b->n, a + 2 * b->n, 0.5);
  }
}

static double time_of(burst *b, tn_pool *pool, size_t threads) {
  double start = tn_clock();
  if (pool) {
    tn_pool_run(pool, threads, task, b);
  } else {
    task(b, 0, 0);
  }
  return tn_clock() - start;
}

/* The best number of repeats a second and thread within `seconds`; at least one burst of full length. A burst that was
 * interrupted looks long enough with too few repeats, so they grow for as long as bursts are short. */
static double best_rate(burst *b, tn_pool *pool, size_t threads, double seconds) {
  double end = tn_clock() + seconds, best = 0, took = 0;
  b->repeats = 1;
  do {
    took = time_of(b, pool, threads);
    best = fmax(best, (double)b->repeats / took);
    if (took < burst_seconds)
      b->repeats *= 2;
  } while (took < burst_seconds || tn_clock() < end);
  return best;
}

tn_status tn_peak_fma(tn_dtype dtype, tn_pool *pool, double seconds, double *flops) {
  *flops = 0;
  if (dtype != TN_F64 && dtype != TN_F32)
    return TN_FAIL(TN_EDTYPE, "peak of %s: expected f64 or f32", tn_dtype_name(dtype));
  burst b = {.loops = loops_in_use(), .dtype = dtype == TN_F32};
  size_t threads = pool ? tn_pool_threads(pool) : 1;
  double each = 2.0 * (double)(b.loops->chains[b.dtype] * b.loops->lanes[b.dtype]);
  *flops = each * (double)threads * best_rate(&b, pool, threads, seconds);
  return TN_OK;
}

tn_status tn_peak_bytes(tn_traffic kind, size_t bytes, tn_pool *pool, double seconds,
                        double *bytes_a_second) {
  burst b = {.loops = loops_in_use(), .kind = kind};
  size_t threads = pool ? tn_pool_threads(pool) : 1, arrays = arrays_of(kind);
  *bytes_a_second = 0;
  b.n = bytes / sizeof(double) / arrays / 64 * 64;
  if (b.n == 0)
    return TN_FAIL(TN_EINPUT, "peak of memory: %zu bytes a thread, expected at least %zu", bytes,
                   64 * arrays * sizeof(double));
  TN_TRY(tn_new(threads * b.n, arrays * sizeof(double), &b.memory));
  double rate = best_rate(&b, pool, threads, seconds);
  *bytes_a_second = rate * (double)(threads * b.n * arrays * sizeof(double));
  tn_free(&b.memory);
  return TN_OK;
}
