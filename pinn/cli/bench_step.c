/* bench_step.c: `pinn bench step`: the time of a training step, and what share of the machine it uses.
 *
 * Three steps first, to fill caches and make storage; then, if asked, the descent steps that show that two
 * programs do the same work; then steps are timed one by one, at least five. Whatever else runs on the machine
 * only lengthens steps, so the least time is the figure, and the spread shows how quiet it was. The peak of
 * fused multiply-adds is measured in short bursts between steps, so that both see the same machine; the best
 * burst counts. On a device, steps take in the copies of weights and gradient; the CPU's peak says nothing about
 * it, and no share of a peak is given.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/cli/backends.h"
#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"
#include "tensor/factor.h"

enum { WARM_UP = 3, LEAST = 5 };
static const double descent_rate = 1e-3;
static const double between_bursts =
    0.05; /* s of steps; a burst is some 2 ms, with its finding twice that */

typedef struct timing {
  size_t n, capacity;
  double *ms; /* owned; ascending once taken */
  double loss, loss_after, gradient_norm, peak, start_mib;
} timing;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static tn_status one_timed(bench_step *step, timing *t) {
  double start = pn_clock();
  TN_TRY(step->run(step->self, &t->loss));
  double ms = 1e3 * (pn_clock() - start);
  if (t->n == t->capacity) {
    TN_TRY(tn_grow(&t->ms, t->capacity, 2 * t->capacity + 64, sizeof *t->ms));
    t->capacity = 2 * t->capacity + 64;
  }
  t->ms[t->n++] = ms;
  return TN_OK;
}

static tn_status descend(bench_step *step, size_t steps, timing *t) {
  for (size_t i = 0; i < steps; ++i) {
    TN_TRY(step->run(step->self, &t->loss));
    TN_TRY(step->descend(step->self, descent_rate));
  }
  return step->run(step->self, &t->loss_after);
}

static tn_status one_burst(const bench_step *step, tn_pool *pool, timing *t) {
  double flops = 0;
  TN_TRY(tn_peak_fma(step->dtype, pool, 0, &flops));
  t->peak = fmax(t->peak, flops);
  return TN_OK;
}

static tn_status measure(bench_step *step, const bench_options *options, tn_pool *pool, timing *t) {
  for (int i = 0; i < WARM_UP; ++i)
    TN_TRY(step->run(step->self, &t->loss));
  if (options->check)
    TN_TRY(descend(step, options->check, t));
  double now = pn_clock(), end = now + options->seconds, burst = now;
  for (; t->n < LEAST || now < end; now = pn_clock()) {
    if (now >= burst && !tn_pool_device(pool)) {
      TN_TRY(one_burst(step, pool, t));
      burst = pn_clock() + between_bursts;
    }
    TN_TRY(one_timed(step, t));
  }
  TN_TRY(step->norm(step->self, &t->gradient_norm));
  qsort(t->ms, t->n, sizeof *t->ms, ascending);
  return TN_OK;
}

/* ---- Reports -------------------------------------------------------------------------------------- */

static double gemm_rate(const bench_step *step, const timing *t) {
  return 1e3 * step->flops / t->ms[0];
}

const ag_group_report *bench_channels(const bench_step *step) {
  static const ag_group_report none;
  const ag_group_report *most = &none;
  for (size_t i = 0; i < step->report.n_groups && i < 32; ++i)
    if (step->report.group[i].channels > most->channels)
      most = &step->report.group[i];
  return most;
}

void bench_put_head(bench_text *out, const bench_step *step, size_t threads) {
  bench_put(out, "%-9s  %s, %zu points, %s, %zu thread%s, %s, %s\n", step->name, step->shape,
            step->points, tn_dtype_name(step->precision), threads, threads == 1 ? "" : "s",
            tn_isa(), pn_cpu_name());
}

static void put_words(bench_text *out, const bench_step *step, const timing *t, tn_pool *pool,
                      const bench_options *options) {
  const ag_group_report *group = bench_channels(step);
  bench_put_head(out, step, tn_pool_threads(pool));
  bench_put(out, "step       least %.3f ms, median %.3f, most %.3f of %zu\n", t->ms[0],
            t->ms[t->n / 2], t->ms[t->n - 1], t->n);
  bench_put(out, "computes   %zu channels: %s\n", group->channels, group->labels);
  tn_device *device = tn_pool_device(pool);
  bench_put(out, "products   %.4g GFLOP a step: %.1f GFLOP/s", 1e-9 * step->flops,
            1e-9 * gemm_rate(step, t));
  if (device)
    bench_put(out, "\ndevice     %s\n", tn_device_text(device));
  else
    bench_put(out, ", %.1f %% of the %.1f of fused multiply-adds alone\n",
              100 * gemm_rate(step, t) / t->peak, 1e-9 * t->peak);
  if (step->low_share > 0)
    bench_put(out,
              "rounded    %.1f %% of the products multiply %s (emulated: sums, results and the "
              "rest in %s)\n",
              100 * step->low_share, tn_dtype_name(step->precision), tn_dtype_name(step->dtype));
  bench_put(out, "memory     %.1f MiB at most, %.1f of them at the start\n", pn_peak_mib(),
            t->start_mib);
  bench_put(out, "loss       %.9g, gradient %.4g", t->loss, t->gradient_norm);
  if (options->check)
    bench_put(out, "; after %zu steps of descent %.9g", options->check, t->loss_after);
  bench_put(out, "\n");
}

static void put_json(bench_text *out, const bench_step *step, const timing *t, tn_pool *pool) {
  bench_json_text(out, "case", step->name);
  bench_json_text(out, "peer", "pinn");
  bench_json_text(out, "dtype", tn_dtype_name(step->precision));
  bench_json_number(out, "low_share", step->low_share);
  bench_json_number(out, "min_ms", t->ms[0]);
  bench_json_number(out, "median_ms", t->ms[t->n / 2]);
  bench_json_number(out, "max_ms", t->ms[t->n - 1]);
  bench_json_number(out, "steps", (double)t->n);
  bench_json_number(out, "loss_after", t->loss_after);
  bench_json_number(out, "peak_mib", pn_peak_mib());
  bench_json_number(out, "loss", t->loss);
  bench_json_number(out, "start_mib", t->start_mib);
  bench_json_number(out, "gradient_norm", t->gradient_norm);
  bench_json_number(out, "points", (double)step->points);
  bench_json_number(out, "parameters", (double)step->parameters);
  bench_json_number(out, "channels", (double)bench_channels(step)->channels);
  bench_json_number(out, "gemm_gflop", 1e-9 * step->flops);
  bench_json_number(out, "gemm_gflops", 1e-9 * gemm_rate(step, t));
  tn_device *device = tn_pool_device(pool);
  bench_json_number(out, "fma_gflops", device ? NAN : 1e-9 * t->peak);
  bench_json_number(out, "share_of_peak", device ? NAN : gemm_rate(step, t) / t->peak);
  bench_json_text(out, "device", tn_device_name(device));
  bench_json_number(out, "threads", (double)tn_pool_threads(pool));
  bench_json_text(out, "isa", tn_isa());
  bench_json_text(out, "cpu", pn_cpu_name());
  bench_json_text(out, "compiler", bench_compiler());
  bench_json_end(out);
}

tn_status bench_start(const bench_options *options, tn_pool *pool, bench_step *step) {
  const bench_case *which = bench_case_find(options->what);
  if (which)
    return bench_case_start(which, options, pool, step);
  const char *names[16];
  size_t n = bench_case_names(names, 16);
  const char *nearest = cli_nearest(options->what, n, names);
  if (strchr(options->what, '.') == NULL && strchr(options->what, '/') == NULL) {
    char list[256] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof list; ++i)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    return TN_FAIL(TN_EINPUT, "no case `%s`%s%s%s; cases: %s; or a problem file", options->what,
                   nearest ? ". Did you mean `" : "", nearest ? nearest : "", nearest ? "`?" : "",
                   list);
  }
  return bench_file_start(options->what, options, pool, step);
}

int bench_run_step(const bench_options *options) {
  timing t = {.loss = NAN, .loss_after = NAN, .start_mib = pn_peak_mib()};
  bench_step step = {0};
  bench_text words = {0}, json = {0};
  tn_pool *pool = NULL;
  tn_device *device = NULL;
  tn_status status = cli_device(options->device, &device);
  if (status == TN_OK)
    status = tn_pool_new(options->threads, &pool);
  if (status == TN_OK)
    tn_pool_use(pool, device);
  if (status == TN_OK)
    status = bench_start(options, pool, &step);
  if (status == TN_OK)
    status = measure(&step, options, pool, &t);
  int result = 0;
  if (status == TN_OK) {
    put_words(&words, &step, &t, pool, options);
    put_json(&json, &step, &t, pool);
    result = bench_deliver(&words, &json, options->json);
  } else {
    result = cli_failed(status);
  }
  if (step.self)
    step.done(step.self);
  tn_free(&t.ms);
  tn_pool_free(&pool);
  tn_device_close(&device);
  return result;
}
