/* bench_scaling.c: `pinn bench scaling`: a training step on the ranks that run, beside one rank alone.
 *
 * Blocks of steps on all ranks alternate with blocks of steps on the first rank alone, while the others wait in a
 * barrier; the speedup is the median of the ratios of neighbouring blocks, so that both see the same machine. The time
 * of a step is that of its block, from barrier to last sum, by its steps: a single step on one rank's clock may look
 * short, because the others have begun it while that rank was held up. Time, bytes and calls of the ranks are what their
 * communicators count (tn_comm_seconds): waiting for slower ranks is in it; the mean over ranks is told.
 *
 * What every rank does again, whatever their number: values without points and the meeting of slots (the profile's last
 * row), and the vector work of optimizers, for which one step of descent stands.
 *
 * Gathers of 8 bytes to 1 MiB give latency and bandwidth for the model (bench_model.c), which predicts other numbers of
 * ranks and is printed as what it is. Without ranks only the one-rank parts are measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pinn/cli/backends.h"
#include "pinn/cli/bench_model.h"
#include "pinn/cli/options.h"

enum { WARM_UP = 2, PAIRS = 25, LEAST = 2, SIZES = 6, MOST_MODEL = 1024 };

typedef struct series { /* s a step, of each block */
  size_t n, steps;      /* blocks; steps of all */
  double s[PAIRS];
} series;

typedef struct scaling {
  const bench_options *options;
  tn_comm *comm; /* NULL: alone */
  size_t rank, ranks;
  tn_pool *together_pool, *alone_pool;
  bench_step together, alone; /* alone: on the first rank; the same step if there is one rank */
  series step, single;
  double ratio[PAIRS];
  double talk, bytes, calls;   /* of ranks, a step */
  double vector;               /* s */
  double memory, memory_alone; /* bytes of executors; the fullest rank's */
  double loss, norm, loss_alone;
  bool layers;
  model model;
} scaling;

/* ---- Measuring ------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(size_t n, const double *x) {
  double copy[PAIRS];
  memcpy(copy, x, n * sizeof *x);
  qsort(copy, n, sizeof *copy, ascending);
  return n ? copy[n / 2] : NAN;
}

static double least(const series *t) {
  double x = INFINITY;
  for (size_t i = 0; i < t->n; ++i)
    x = fmin(x, t->s[i]);
  return x;
}

static tn_status block(bench_step *step, size_t steps, series *t, double *loss) {
  double start = pn_clock();
  for (size_t i = 0; i < steps; ++i)
    TN_TRY(step->run(step->self, loss));
  t->s[t->n++] = (pn_clock() - start) / (double)steps;
  t->steps += steps;
  return TN_OK;
}

/* The first rank's number, on all. */
static tn_status tell(scaling *s, size_t *n) {
  return tn_comm_broadcast(s->comm, "the number of steps", 0, sizeof *n, n);
}

static size_t steps_of(const scaling *s, double step) {
  double n = ceil(s->options->seconds / (2 * PAIRS) / step);
  return n < LEAST ? LEAST : n > 1e6 ? (size_t)1e6 : (size_t)n;
}

/* Steps of the first rank alone; the others wait. */
static tn_status alone(scaling *s, size_t steps) {
  tn_status status = s->rank == 0 ? block(&s->alone, steps, &s->single, &s->loss_alone) : TN_OK;
  return tn_comm_agree(s->comm, "steps of one rank alone", status);
}

static tn_status note_talk(scaling *s, size_t steps, double seconds, uint64_t bytes,
                           uint64_t calls) {
  double own[3] = {seconds, (double)bytes, (double)calls}, *all = NULL;
  size_t *parts = NULL;
  tn_status status = TN_NEW(3 * s->ranks, &all);
  if (status == TN_OK)
    status = TN_NEW(s->ranks, &parts);
  if (status == TN_OK) {
    for (size_t r = 0; r < s->ranks; ++r)
      parts[r] = sizeof own;
    status = tn_comm_gather(s->comm, "times of ranks", parts, own, all);
  }
  for (size_t r = 0; r < s->ranks && status == TN_OK; ++r) {
    s->talk += all[3 * r] / (double)(s->ranks * steps);
    s->bytes = fmax(s->bytes, all[3 * r + 1] / (double)steps);
    s->calls = fmax(s->calls, all[3 * r + 2] / (double)steps);
  }
  tn_free(&parts);
  tn_free(&all);
  return status;
}

static tn_status pairs(scaling *s) {
  double seconds = 0;
  uint64_t bytes = 0, calls = 0, b0, c0, b1, c1;
  TN_TRY(block(&s->together, WARM_UP, &s->step, &s->loss));
  TN_TRY(block(&s->together, WARM_UP, &s->step, &s->loss));
  size_t many = steps_of(s, least(&s->step)), few = 0;
  TN_TRY(tell(s, &many));
  TN_TRY(alone(s, WARM_UP));
  if (s->rank == 0)
    few = steps_of(s, least(&s->single));
  s->step = s->single = (series){0};
  for (size_t i = 0; i < PAIRS; ++i) {
    TN_TRY(tn_comm_barrier(s->comm, "a block of steps"));
    double t0 = tn_comm_seconds(s->comm, &b0, &c0);
    TN_TRY(block(&s->together, many, &s->step, &s->loss));
    seconds += tn_comm_seconds(s->comm, &b1, &c1) - t0;
    bytes += b1 - b0;
    calls += c1 - c0;
    TN_TRY(alone(s, few));
    s->ratio[i] = s->rank == 0 ? s->single.s[i] / s->step.s[i] : 0;
  }
  return note_talk(s, PAIRS * many, seconds, bytes, calls);
}

/* Nothing to compare with: the only rank is alone. */
static tn_status single_rank(scaling *s) {
  TN_TRY(block(&s->together, WARM_UP, &s->step, &s->loss));
  TN_TRY(block(&s->together, WARM_UP, &s->step, &s->loss));
  size_t many = 2 * steps_of(s, least(&s->step));
  s->step = (series){0};
  for (size_t i = 0; i < PAIRS; ++i) {
    TN_TRY(block(&s->together, many, &s->step, &s->loss));
    s->ratio[i] = 1;
  }
  s->loss_alone = s->loss;
  return TN_OK;
}

static tn_status measure_gathers(scaling *s) {
  double bytes[SIZES], seconds[SIZES];
  size_t largest = (size_t)1 << 20, *parts = NULL;
  char *send = NULL, *recv = NULL;
  tn_status status = TN_NEW(s->ranks, &parts);
  if (status == TN_OK)
    status = tn_new(largest + 8, 1, &send);
  if (status == TN_OK)
    status = tn_new(largest + 8 * s->ranks, 1, &recv);
  status = tn_comm_agree(s->comm, "room for gathers", status);
  for (size_t i = 0; i < SIZES && status == TN_OK; ++i) {
    size_t part = (largest >> 4 * (SIZES - 1 - i)) / s->ranks;
    part = part < 8 ? 8 : part;
    bytes[i] = (double)(part * s->ranks);
    seconds[i] = INFINITY;
    for (size_t r = 0; r < s->ranks; ++r)
      parts[r] = part;
    for (int k = 0; k < 20 && status == TN_OK; ++k) {
      status = tn_comm_barrier(s->comm, "a gather");
      double start = pn_clock();
      if (status == TN_OK)
        status = tn_comm_gather(s->comm, "a gather", parts, send, recv);
      seconds[i] = fmin(seconds[i], pn_clock() - start);
    }
  }
  if (status == TN_OK)
    model_fit(s->ranks, SIZES, bytes, seconds, &s->model);
  tn_free(&parts);
  tn_free(&send);
  tn_free(&recv);
  return status;
}

static tn_status measure_parts(scaling *s) {
  bench_step *step = s->comm ? &s->alone : &s->together;
  const series *t = s->comm ? &s->single : &s->step;
  double start, loss;
  TN_TRY(model_measure(step, least(t), &s->model));
  s->vector = INFINITY;
  TN_TRY(step->run(step->self, &loss));
  for (int i = 0; i < 10; ++i) {
    start = pn_clock();
    TN_TRY(step->descend(step->self, 0));
    s->vector = fmin(s->vector, pn_clock() - start);
  }
  s->memory_alone = (double)tn_exec_bytes(step->exec);
  return TN_OK;
}

static tn_status note_memory(scaling *s) {
  double own = (double)tn_exec_bytes(s->together.exec), *all = NULL;
  size_t *parts = NULL;
  tn_status status = TN_NEW(s->ranks, &all);
  if (status == TN_OK)
    status = TN_NEW(s->ranks, &parts);
  for (size_t r = 0; r < s->ranks && status == TN_OK; ++r)
    parts[r] = sizeof own;
  if (status == TN_OK)
    status = tn_comm_gather(s->comm, "memory of ranks", parts, &own, all);
  for (size_t r = 0; r < s->ranks && status == TN_OK; ++r)
    s->memory = fmax(s->memory, all[r]);
  tn_free(&parts);
  tn_free(&all);
  return status;
}

static tn_status measure(scaling *s) {
  TN_TRY(s->comm ? pairs(s) : single_rank(s));
  TN_TRY(s->together.norm(s->together.self, &s->norm));
  TN_TRY(note_memory(s));
  tn_status status = s->rank == 0 ? measure_parts(s) : TN_OK;
  TN_TRY(tn_comm_agree(s->comm, "parts of a step", status));
  return s->comm ? measure_gathers(s) : TN_OK;
}

/* ---- Reports -------------------------------------------------------------------------------------- */

static double cores(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (double)n : 1;
}

static bool too_few_cores(const scaling *s) {
  return (double)(s->ranks * tn_pool_threads(s->together_pool)) > cores();
}

/* Of the time of the steps, all blocks together. */
static double share_of_talk(const scaling *s) {
  double sum = 0;
  for (size_t i = 0; i < s->step.n; ++i)
    sum += s->step.s[i] / (double)s->step.n;
  return s->talk / sum;
}

static double step_alone(const scaling *s) { return least(s->comm ? &s->single : &s->step); }

static double share_of_replicated(const scaling *s) {
  return (s->model.fixed + s->vector) / (step_alone(s) + s->vector);
}

static void put_measured(bench_text *out, const scaling *s) {
  double speedup = median(PAIRS, s->ratio), low = least(&s->step);
  bench_put_head(out, &s->together, tn_pool_threads(s->together_pool));
  bench_put(out, "ranks      %zu (%s)%s, that share %s\n", s->ranks, tn_comm_kind(s->comm),
            too_few_cores(s) ? ", MORE THAN CORES: they take turns" : "",
            s->layers ? "layers" : "points");
  bench_put(out, "step       least %.3f ms, median %.3f of %d blocks, %zu steps\n", 1e3 * low,
            1e3 * median(s->step.n, s->step.s), PAIRS, s->step.steps);
  if (s->comm) {
    bench_put(out,
              "alone      least %.3f ms, median %.3f on one rank, in blocks between those of all\n",
              1e3 * least(&s->single), 1e3 * median(s->single.n, s->single.s));
    bench_put(out, "speedup    %.2f (median of %d pairs), efficiency %.1f %%\n", speedup, PAIRS,
              100 * speedup / (double)s->ranks);
    bench_put(out, "talk       %.3f ms a step, waiting included: %.1f %%; %.0f calls, %.1f KiB\n",
              1e3 * s->talk, 100 * share_of_talk(s), s->calls, s->bytes / 1024);
    bench_put(out, "gather     %.1f us a hop, %.2f GB/s a rank (fit of 8 B to 1 MiB)\n",
              1e6 * s->model.latency, 1e-9 * s->model.bandwidth);
  }
  bench_put(out,
            "on each    %.3f ms without points, %.3f ms vector work of a descent step: %.1f %% of "
            "a step alone\n",
            1e3 * s->model.fixed, 1e3 * s->vector, 100 * share_of_replicated(s));
  bench_put(out, "memory     %.2f MiB of the executor on the fullest rank, %.2f alone\n",
            s->memory / 1048576, s->memory_alone / 1048576);
  bench_put(out, "loss       %.17g on each of them, gradient %.4g\n", s->loss, s->norm);
}

/* The model with what the options say of another machine. */
static model wished(const scaling *s) {
  model m = s->model;
  if (s->options->latency > 0)
    m.latency = 1e-6 * s->options->latency;
  if (s->options->bandwidth > 0)
    m.bandwidth = 1e9 * s->options->bandwidth;
  if (s->options->gpu_step > 0)
    model_scale(&m, s->options->gpu_step);
  return m;
}

static bool has_wishes(const bench_options *o) {
  return o->latency > 0 || o->bandwidth > 0 || o->gpu_step > 0;
}

static void put_model(bench_text *out, bench_text *json, const scaling *s) {
  model m = wished(s);
  double talk = 0, one = model_step(&m, 1, false, &talk);
  bench_json_number(json, "model_step_ms", s->layers ? NAN : 1e3 * one); /* what the model stands on */
  bench_json_number(json, "model_latency_us", m.latency < 0 ? NAN : 1e6 * m.latency);
  bench_json_number(json, "model_bandwidth_gb_s", m.bandwidth > 0 ? 1e-9 * m.bandwidth : NAN);
  bench_put(json, ",\n  \"model\": [");
  if (s->layers || m.latency < 0 || !(m.bandwidth > 0)) {
    bench_put(
        out, s->layers
                 ? "model      none: it is of ranks that share points\n"
                 : "model      none: no interconnect is known; run on ranks, or give --latency and "
                   "--bandwidth\n");
    bench_put(json, "]");
    return;
  }
  bench_put(out,
            "\nMODEL, NOT MEASURED: one rank %.3f ms%s, %zu gather%s a step of %.1f us a hop and "
            "%.2f GB/s a rank%s\n"
            "            the same points                       points times ranks\n"
            "   ranks    ms a step  efficiency  talk share     ms a step  efficiency  talk share\n",
            1e3 * one, s->options->gpu_step > 0 ? " (--gpu-step)" : "", m.gathers,
            m.gathers == 1 ? "" : "s", 1e6 * m.latency, 1e-9 * m.bandwidth,
            s->options->latency > 0 || s->options->bandwidth > 0 ? " (as given)" : "");
  for (size_t r = 1; r <= MOST_MODEL; r *= 2) {
    double talk_weak = 0, strong = model_step(&m, r, false, &talk),
           weak = model_step(&m, r, true, &talk_weak);
    bench_put(out, "  %6zu %12.4g %9.1f %% %9.1f %%  %12.4g %9.1f %% %9.1f %%\n", r, 1e3 * strong,
              100 * one / ((double)r * strong), 100 * talk / strong, 1e3 * weak, 100 * one / weak,
              100 * talk_weak / weak);
    bench_put(json,
              "%s\n    {\"ranks\": %zu, \"strong_ms\": %.9g, \"strong_efficiency\": %.6g, "
              "\"weak_ms\": %.9g, "
              "\"weak_efficiency\": %.6g, \"talk_share\": %.6g}",
              r > 1 ? "," : "", r, 1e3 * strong, one / ((double)r * strong), 1e3 * weak, one / weak,
              talk / strong);
  }
  bench_put(
      out,
      "A loop over points has at most 64 slots, so more than 64 ranks share out nothing more.\n");
  bench_put(json, "\n  ]");
}

static void put_numbers(bench_text *out, const scaling *s) {
  double speedup = median(PAIRS, s->ratio), talk = 0;
  bench_json_number(out, "ranks", (double)s->ranks);
  bench_json_number(out, "threads", (double)tn_pool_threads(s->together_pool));
  bench_json_number(out, "cores", cores());
  bench_json_number(out, "more_ranks_than_cores", too_few_cores(s));
  bench_json_number(out, "points", (double)s->together.points);
  bench_json_number(out, "parameters", (double)s->together.parameters);
  bench_json_number(out, "min_ms", 1e3 * least(&s->step));
  bench_json_number(out, "median_ms", 1e3 * median(s->step.n, s->step.s));
  bench_json_number(out, "steps", (double)s->step.steps);
  bench_json_number(out, "alone_min_ms", 1e3 * step_alone(s));
  bench_json_number(out, "speedup", speedup);
  bench_json_number(out, "efficiency", speedup / (double)s->ranks);
  bench_json_number(out, "talk_ms", 1e3 * s->talk);
  bench_json_number(out, "talk_share", share_of_talk(s));
  bench_json_number(out, "talk_calls", s->calls);
  bench_json_number(out, "talk_bytes", s->bytes);
  bench_json_number(out, "latency_us", s->model.latency < 0 ? NAN : 1e6 * s->model.latency);
  bench_json_number(out, "bandwidth_gb_s",
                    s->model.bandwidth > 0 ? 1e-9 * s->model.bandwidth : NAN);
  bench_json_number(out, "fixed_ms", 1e3 * s->model.fixed);
  bench_json_number(out, "vector_ms", 1e3 * s->vector);
  bench_json_number(out, "replicated_share", share_of_replicated(s));
  bench_json_number(out, "memory_bytes", s->memory);
  bench_json_number(out, "memory_alone_bytes", s->memory_alone);
  bench_json_number(out, "model_ms",
                    s->layers ? NAN : 1e3 * model_step(&s->model, s->ranks, false, &talk));
}

static void put_json(bench_text *out, const scaling *s) {
  char number[64];
  bench_json_text(out, "case", s->together.name);
  bench_json_text(out, "dtype", tn_dtype_name(s->together.precision));
  bench_json_text(out, "split", s->layers ? "layers" : "points");
  bench_json_text(out, "comm", tn_comm_kind(s->comm));
  put_numbers(out, s);
  snprintf(number, sizeof number, "%a", s->loss);
  bench_json_text(out, "loss", number);
  snprintf(number, sizeof number, "%a", s->loss_alone);
  bench_json_text(out, "loss_alone", number);
  snprintf(number, sizeof number, "%a", s->norm);
  bench_json_text(out, "gradient_norm", number);
  bench_json_text(out, "isa", tn_isa());
  bench_json_text(out, "cpu", pn_cpu_name());
  bench_json_text(out, "compiler", bench_compiler());
}

static int report(const scaling *s) {
  bench_text words = {0}, json = {0};
  put_measured(&words, s);
  put_json(&json, s);
  put_model(&words, &json, s);
  bench_json_end(&json);
  if (!s->comm && !has_wishes(s->options))
    bench_put(&words, "one rank; more: --ranks 1,2,4, or mpirun -n 2 pinn bench scaling ...\n");
  return bench_deliver(&words, &json, s->options->json);
}

/* ---- The command ---------------------------------------------------------------------------------- */

static tn_status begin(scaling *s) {
  size_t threads = s->options->threads ? s->options->threads : 1;
  s->layers = s->options->split && strcmp(s->options->split, "layers") == 0;
  TN_TRY(tn_pool_new(threads, &s->together_pool));
  tn_pool_ranks(s->together_pool, s->comm);
  tn_pool_split(s->together_pool, s->layers ? TN_SPLIT_LAYERS : TN_SPLIT_POINTS);
  if (s->comm) /* the first rank runs steps alone, and a step may take long */
    TN_TRY(tn_comm_limit(s->comm, 600));
  TN_TRY(bench_start(s->options, s->together_pool, &s->together));
  if (!s->comm || s->rank > 0)
    return TN_OK;
  TN_TRY(tn_pool_new(threads, &s->alone_pool));
  return bench_start(s->options, s->alone_pool, &s->alone);
}

static void end(scaling *s) {
  if (s->together.self)
    s->together.done(s->together.self);
  if (s->alone.self)
    s->alone.done(s->alone.self);
  tn_pool_free(&s->together_pool);
  tn_pool_free(&s->alone_pool);
}

/* A failure that all ranks know is told by the first; any other ends all. */
static int run(scaling *s) {
  tn_status status = begin(s);
  status = tn_comm_agree(s->comm, "the start", status);
  if (status == TN_OK)
    status = measure(s);
  int result = status == TN_OK ? 0 : cli_exit_status(status);
  if (status != TN_OK && (s->rank == 0 || status == TN_EPEER))
    result = cli_failed(status);
  else if (status == TN_OK && s->rank == 0)
    result = report(s);
  end(s);
  return result;
}

int bench_scaling(const bench_options *options) {
  scaling s = {
      .options = options, .loss = NAN, .loss_alone = NAN, .norm = NAN, .model = {.latency = -1}};
  tn_status status = cli_ranks(&s.comm);
  if (status != TN_OK)
    return cli_failed(status);
  if (s.comm && options->ranks) {
    tn_comm_free(&s.comm);
    return cli_failed(
        TN_FAIL(TN_EINPUT, "pinn bench scaling: --ranks starts ranks by itself, but a launcher has "
                           "started this one already; leave one of them out"));
  }
  if (options->ranks)
    return bench_launch(options);
  s.rank = tn_comm_rank(s.comm);
  s.ranks = tn_comm_size(s.comm);
  int result = run(&s);
  tn_comm_free(&s.comm);
  return result;
}
