/* bench_peak.c: `pinn bench peak`: what the cores and the memory of this machine can do.
 *
 * Arithmetic is measured by chains of fused multiply-adds in registers, and held against OpenBLAS's product of
 * two 2000 x 2000 matrices in the same run: a good product comes near the peak but cannot pass it, so a peak
 * less than 1.05 times the product would be a peak measured badly.
 *
 * Bytes are counted as the program sees them. A store to memory usually reads the line first, so the bus moves
 * a half (triad) or a whole (write) more than is shown. Arrays have half a cache's size in a cache, and four times
 * the last cache beyond it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

enum { GEMM = 2000, PLACES = 4 };
static const double at_least = 1.05;  /* peak over matrix product */
static const double second_round = 2; /* s of measuring from which all is done twice */

typedef struct figures {
  double fma[2][2]; /* [f64, f32][one thread, all]: GFLOP/s */
  double gemm[2][2];
  size_t threads, bytes[PLACES]; /* of a thread's arrays in L1, L2, L3, memory; 0: unknown */
  double rate[PLACES][3][2];     /* [place][read, write, triad][one, all]: GB/s */
} figures;

static const char *const place_names[PLACES] = {"L1", "L2", "L3", "memory"};
static const char *const traffic_names[3] = {"read", "write", "triad"};

/* Alternating, so that both see the same clock; the best of each counts. */
static tn_status measure_flops(figures *f, tn_pool *pool, double seconds) {
  int rounds = seconds >= second_round ? 2 : 1;
  double share = seconds / (8 * rounds);
  for (int round = 0; round < rounds; ++round) {
    for (int type = 0; type < 2; ++type) {
      tn_dtype dtype = type ? TN_F32 : TN_F64;
      for (int all = 0; all < 2; ++all) {
        double fma = 0, gemm = 0;
        TN_TRY(tn_peak_fma(dtype, all ? pool : NULL, share, &fma));
        TN_TRY(pn_peak_gemm(dtype, GEMM, all ? f->threads : 1, share, &gemm));
        f->fma[type][all] = fmax(f->fma[type][all], 1e-9 * fma);
        f->gemm[type][all] = fmax(f->gemm[type][all], 1e-9 * gemm);
      }
    }
  }
  return TN_OK;
}

static void choose_sizes(figures *f) {
  const size_t mib = (size_t)1 << 20;
  size_t last = pn_cache_bytes(3) ? pn_cache_bytes(3) : pn_cache_bytes(2);
  f->bytes[0] = pn_cache_bytes(1) / 2;
  f->bytes[1] = pn_cache_bytes(2) / 2;
  f->bytes[2] = pn_cache_bytes(3) / 2 / f->threads; /* the last one is shared */
  size_t all = 4 * last < 128 * mib ? 128 * mib : 4 * last > 1024 * mib ? 1024 * mib : 4 * last;
  f->bytes[3] = all / f->threads;
}

static tn_status measure_bytes(figures *f, tn_pool *pool, double seconds) {
  double share = seconds / (PLACES * 3 * 2);
  for (int place = 0; place < PLACES; ++place) {
    if (f->bytes[place] == 0)
      continue;
    for (int kind = 0; kind < 3; ++kind) {
      for (int all = 0; all < 2; ++all) {
        double rate = 0;
        TN_TRY(tn_peak_bytes((tn_traffic)kind, f->bytes[place], all ? pool : NULL, share, &rate));
        f->rate[place][kind][all] = 1e-9 * rate;
      }
    }
  }
  return TN_OK;
}

static double ratio(const figures *f, int type, int all) {
  return f->fma[type][all] / f->gemm[type][all];
}

static double least_ratio(const figures *f) {
  double least = INFINITY;
  for (int type = 0; type < 2; ++type)
    for (int all = 0; all < 2; ++all)
      least = fmin(least, ratio(f, type, all));
  return least;
}

static void put_words(bench_text *out, const figures *f) {
  char many[32];
  snprintf(many, sizeof many, "%zu thread%s", f->threads, f->threads == 1 ? "" : "s");
  bench_put(out, "%s, %s, %s\n%s\n\n", pn_cpu_name(), tn_isa(), many, pn_blas_name());
  bench_put(out, "%-28s %12s %12s\n", "GFLOP/s", "1 thread", many);
  for (int type = 0; type < 2; ++type) {
    const char *name = type ? "f32" : "f64";
    bench_put(out, "%s fused multiply-adds       %12.1f %12.1f\n", name, f->fma[type][0],
              f->fma[type][1]);
    bench_put(out, "%s OpenBLAS %cgemm, n = %d  %12.1f %12.1f\n", name, type ? 's' : 'd', GEMM,
              f->gemm[type][0], f->gemm[type][1]);
    bench_put(out, "    ratio                    %12.3f %12.3f\n", ratio(f, type, 0),
              ratio(f, type, 1));
  }
  bench_put(out, "\n%-28s %12s %12s\n", "GB/s", "1 thread", many);
  for (int place = 0; place < PLACES; ++place) {
    for (int kind = 0; f->bytes[place] && kind < 3; ++kind) {
      char name[64];
      snprintf(name, sizeof name, "%s %s, %zu KiB", place_names[place], traffic_names[kind],
               f->bytes[place] / 1024);
      bench_put(out, "%-28s %12.1f %12.1f\n", name, f->rate[place][kind][0],
                f->rate[place][kind][1]);
    }
  }
  bench_put(out,
            "\nleast ratio of fused multiply-adds to OpenBLAS: %.3f, at least %.2f expected%s\n",
            least_ratio(f), at_least, least_ratio(f) >= at_least ? "" : ": measured badly");
}

static void put_json(bench_text *out, const figures *f) {
  static const char *const types[] = {"f64", "f32"}, *const threads[] = {"one", "all"};
  char key[64];
  bench_json_text(out, "cpu", pn_cpu_name());
  bench_json_text(out, "isa", tn_isa());
  bench_json_text(out, "compiler", bench_compiler());
  bench_json_text(out, "blas", pn_blas_name());
  bench_json_number(out, "threads", (double)f->threads);
  for (int type = 0; type < 2; ++type) {
    for (int all = 0; all < 2; ++all) {
      snprintf(key, sizeof key, "fma_gflops_%s_%s", types[type], threads[all]);
      bench_json_number(out, key, f->fma[type][all]);
      snprintf(key, sizeof key, "openblas_gflops_%s_%s", types[type], threads[all]);
      bench_json_number(out, key, f->gemm[type][all]);
    }
  }
  for (int place = 0; place < PLACES; ++place) {
    for (int kind = 0; f->bytes[place] && kind < 3; ++kind) {
      for (int all = 0; all < 2; ++all) {
        snprintf(key, sizeof key, "%s_%s_gbytes_%s", place_names[place], traffic_names[kind],
                 threads[all]);
        bench_json_number(out, key, f->rate[place][kind][all]);
      }
    }
  }
  bench_json_number(out, "least_ratio", least_ratio(f));
  bench_json_end(out);
}

int bench_peak(const bench_options *options) {
  figures f = {0};
  bench_text words = {0}, json = {0};
  tn_pool *pool = NULL;
  tn_status status = tn_pool_new(options->threads, &pool);
  if (status != TN_OK)
    return cli_failed(status);
  f.threads = tn_pool_threads(pool);
  choose_sizes(&f);
  status = measure_flops(&f, pool, 0.75 * options->seconds);
  if (status == TN_OK)
    status = measure_bytes(&f, pool, 0.25 * options->seconds);
  tn_pool_free(&pool);
  if (status != TN_OK)
    return cli_failed(status);
  put_words(&words, &f);
  put_json(&json, &f);
  int result = bench_deliver(&words, &json, options->json);
  return result == 0 && least_ratio(&f) < at_least ? 1 : result;
}
