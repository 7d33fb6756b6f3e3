/* cmd_profile.c: `pinn profile`: where the time of a training step goes.
 *
 * The step of a case or of a problem file runs as in `pinn bench step`, once untouched and once with a clock
 * around each piece of work in each tile. Pieces of one kind, width and number of channels are added up to a row:
 *
 *   ms         seconds over threads: the rows add up to what the step takes, less what waits at its ends
 *   of peak    operations over time, over the fused multiply-adds that the machine can do
 *   of roof    the same over min(peak, bandwidth of the L2 cache * operations a byte): 100 % is as fast as the
 *              machine can do this work from tiles in that cache
 *
 * Work that is far below its roof is bound by something else: long dependent chains, divisions, exponentials. Work
 * above it finds its numbers in the L1 cache. The peak is measured in bursts between the profiled steps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

enum { ROOFS = 2, MOST_POINTS = 6, LEAST_RUNS = 5 };

typedef struct group { /* rows of one kind */
  tn_work work;
  tn_dtype dtype;
  size_t width, channels, pieces, nodes, instructions;
  double flops, bytes, seconds;
} group;

typedef struct profile {
  bench_step step;
  size_t threads;
  double plain, timed;      /* seconds of a step without and with clocks, the least */
  double peak, roof[ROOFS]; /* operations, bytes a second */
  size_t n_rows, n;
  tn_profile_row *rows; /* owned, as the next */
  group *groups;        /* slowest first */
} profile;

static const char *const roof_names[ROOFS] = {"L2", "memory"};

/* ---- Measuring ------------------------------------------------------------------------------------- */

static tn_status least_time(bench_step *step, double seconds, double *least) {
  double loss = 0, end = pn_clock() + seconds;
  *least = INFINITY;
  for (size_t i = 0; i < LEAST_RUNS || pn_clock() < end; ++i) {
    double start = pn_clock();
    TN_TRY(step->run(step->self, &loss));
    *least = fmin(*least, pn_clock() - start);
  }
  return TN_OK;
}

static tn_status measure_roofs(profile *p, tn_pool *pool) {
  size_t l2 = pn_cache_bytes(2) ? pn_cache_bytes(2) : (size_t)1 << 19;
  size_t last = pn_cache_bytes(3) > l2 ? pn_cache_bytes(3) : 8 * l2;
  TN_TRY(tn_peak_bytes(TN_TRAFFIC_TRIAD, l2 / 2, pool, 0.1, &p->roof[0]));
  return tn_peak_bytes(TN_TRAFFIC_TRIAD, 2 * last / p->threads, pool, 0.1, &p->roof[1]);
}

/* The run of several in which everything together took least: other work on the machine is in all others. */
static tn_status profile_rows(profile *p, tn_pool *pool, double seconds_in_all) {
  double best = INFINITY, end = pn_clock() + seconds_in_all;
  for (size_t i = 0; i < LEAST_RUNS || pn_clock() < end; ++i) {
    tn_profile_row *rows = NULL;
    size_t n = 0;
    double peak = 0;
    if (i % LEAST_RUNS == 0)
      TN_TRY(tn_peak_fma(p->step.dtype, pool, 0.01, &peak));
    p->peak = fmax(p->peak, peak);
    double start = pn_clock(), seconds = 0;
    TN_TRY(tn_exec_profile(p->step.exec, 1, &n, &rows));
    seconds = pn_clock() - start;
    if (seconds >= best) {
      tn_free(&rows);
      continue;
    }
    best = p->timed = seconds;
    tn_free(&p->rows);
    p->rows = rows;
    p->n_rows = n;
  }
  return TN_OK;
}

/* ---- Groups ------------------------------------------------------------------------------------------ */

static int slower_first(const void *a, const void *b) {
  double x = ((const group *)a)->seconds, y = ((const group *)b)->seconds;
  return (x < y) - (x > y);
}

static group *group_of(profile *p, const tn_profile_row *row) {
  for (size_t i = 0; i < p->n; ++i) {
    group *g = &p->groups[i];
    if (g->work == row->work && g->width == row->width && g->channels == row->channels &&
        g->dtype == row->dtype)
      return g;
  }
  p->groups[p->n] = (group){row->work, row->dtype, row->width, row->channels, 0, 0, 0, 0, 0, 0};
  return &p->groups[p->n++];
}

static tn_status add_up(profile *p) {
  TN_TRY(TN_NEW(p->n_rows, &p->groups));
  for (size_t i = 0; i < p->n_rows; ++i) {
    const tn_profile_row *row = &p->rows[i];
    group *g = group_of(p, row);
    ++g->pieces;
    g->nodes += row->n_nodes;
    g->instructions += row->instructions;
    g->flops += row->flops;
    g->bytes += row->bytes;
    /* Work without points runs on one thread while the others wait. */
    g->seconds += row->work == TN_WORK_FIXED ? row->seconds : row->seconds / (double)p->threads;
  }
  qsort(p->groups, p->n, sizeof *p->groups, slower_first);
  return TN_OK;
}

static double rate(const group *g) { return g->seconds > 0 ? g->flops / g->seconds : 0; }

static double roof_of(const profile *p, const group *g) {
  return g->bytes > 0 ? fmin(p->peak, p->roof[0] * g->flops / g->bytes) : p->peak;
}

static double together(const profile *p) {
  double seconds = 0;
  for (size_t i = 0; i < p->n; ++i)
    seconds += p->groups[i].seconds;
  return seconds;
}

/* ---- Reports ------------------------------------------------------------------------------------------ */

static void name_of(const group *g, char *out, size_t capacity) {
  static const char *const words[] = {"products",         "weight gradients", "elements",
                                      "sums over points", "rearranged",       "points read",
                                      "without points"};
  const char *name = (unsigned)g->work < sizeof words / sizeof *words ? words[g->work] : "?";
  if (g->work == TN_WORK_PRODUCTS || g->work == TN_WORK_WEIGHTS)
    snprintf(out, capacity, "%s, %zu x %zu", name, g->channels, g->width);
  else if (g->width > 0)
    snprintf(out, capacity, "%s, %zu", name, g->width);
  else
    snprintf(out, capacity, "%s", name);
}

/* Which derivatives are carried through the network, and why so few. */
static void put_channels(bench_text *out, const profile *p) {
  const ag_resolve_report *report = &p->step.report;
  for (size_t i = 0; i < report->n_groups && i < 32; ++i) {
    const ag_group_report *g = &report->group[i];
    bool folded = strpbrk(g->labels, "+*") != NULL || strstr(g->labels, " - ") != NULL;
    bench_put(out, "channels   %s: %zu for %zu use%s of it or its derivatives: %s\n", g->field,
              g->channels, g->terms, g->terms == 1 ? "" : "s", g->labels);
    if (folded)
      bench_put(out,
                "           a sum of derivatives enters the residuals as a whole, so it is one "
                "channel\n");
  }
}

static void put_groups(bench_text *out, const profile *p) {
  double all = together(p);
  bench_put(out, "\n%-32s %6s %9s %9s %9s %6s %8s %8s %8s\n", "work, channels x width", "pieces",
            "MFLOP", "MB", "ms", "%", "GFLOP/s", "of peak", "of roof");
  for (size_t i = 0; i < p->n; ++i) {
    const group *g = &p->groups[i];
    char name[64];
    name_of(g, name, sizeof name);
    bench_put(out, "%-32s %6zu %9.2f %9.2f %9.4f %6.1f", name, g->pieces, 1e-6 * g->flops,
              1e-6 * g->bytes, 1e3 * g->seconds, 100 * g->seconds / all);
    if (g->flops > 0)
      bench_put(out, " %8.1f %7.1f%% %7.1f%%", 1e-9 * rate(g), 100 * rate(g) / p->peak,
                100 * rate(g) / roof_of(p, g));
    bench_put(out, "\n");
  }
}

static void put_rows(bench_text *out, const profile *p) {
  bench_put(out, "\n%4s %-16s %6s %5s %9s %9s %9s  %s\n", "loop", "work", "width", "chan.", "MFLOP",
            "MB", "ms", "first node");
  for (size_t i = 0; i < p->n_rows; ++i) {
    const tn_profile_row *r = &p->rows[i];
    if (r->work == TN_WORK_FIXED)
      continue;
    const tn_node *node = tn_program_node(p->step.program, r->node);
    bench_put(out, "%4zu %-16s %6zu %5zu %9.2f %9.2f %9.4f  %s", r->loop, tn_work_name(r->work),
              r->width, r->channels, 1e-6 * r->flops, 1e-6 * r->bytes,
              1e3 * r->seconds / (double)p->threads, node->op->name);
    if (r->n_nodes > 1)
      bench_put(out, " and %zu more in %zu instructions", r->n_nodes - 1, r->instructions);
    if (node->line > 0)
      bench_put(out, " (line %d)", node->line);
    bench_put(out, "\n");
  }
}

static void put_words(bench_text *out, const profile *p, bool rows) {
  double all = together(p);
  bench_put_head(out, &p->step, p->threads);
  bench_put(out,
            "step       %.3f ms, with clocks %.3f; the rows below add up to %.3f: %.0f %% of it\n",
            1e3 * p->plain, 1e3 * p->timed, 1e3 * all, 100 * all / p->timed);
  bench_put(out, "machine    %.1f GFLOP/s of fused multiply-adds, L2 %.1f GB/s, memory %.1f GB/s\n",
            1e-9 * p->peak, 1e-9 * p->roof[0], 1e-9 * p->roof[1]);
  put_channels(out, p);
  put_groups(out, p);
  if (rows)
    put_rows(out, p);
}

static void put_row_json(bench_text *out, const profile *p, const tn_profile_row *r, bool first) {
  const tn_node *node = r->work == TN_WORK_FIXED ? NULL : tn_program_node(p->step.program, r->node);
  bench_put(out, "%s\n    {\"work\": \"%s\", \"op\": \"%s\", \"line\": %d, \"loop\": %zu, ",
            first ? "" : ",", tn_work_name(r->work), node ? node->op->name : "",
            node ? node->line : 0, r->loop);
  bench_put(out, "\"points\": %zu, \"width\": %zu, \"channels\": %zu, \"nodes\": %zu, ", r->points,
            r->width, r->channels, r->n_nodes);
  bench_put(out, "\"instructions\": %zu, \"flops\": %.15g, \"bytes\": %.15g, \"seconds\": %.6g}",
            r->instructions, r->flops, r->bytes, r->seconds);
}

static void put_json(bench_text *out, const profile *p) {
  bench_json_text(out, "case", p->step.name);
  bench_json_text(out, "dtype", tn_dtype_name(p->step.dtype));
  bench_json_number(out, "points", (double)p->step.points);
  bench_json_number(out, "threads", (double)p->threads);
  bench_json_text(out, "isa", tn_isa());
  bench_json_text(out, "cpu", pn_cpu_name());
  bench_json_number(out, "step_ms", 1e3 * p->plain);
  bench_json_number(out, "profiled_ms", 1e3 * p->timed);
  bench_json_number(out, "rows_ms", 1e3 * together(p));
  bench_json_number(out, "fma_gflops", 1e-9 * p->peak);
  bench_json_number(out, "l2_gbytes", 1e-9 * p->roof[0]);
  bench_json_number(out, "memory_gbytes", 1e-9 * p->roof[1]);
  bench_put(out, ",\n  \"rows\": [");
  for (size_t i = 0; i < p->n_rows; ++i)
    put_row_json(out, p, &p->rows[i], i == 0);
  bench_put(out, "\n  ]");
  bench_json_end(out);
}

static int draw(const profile *p, const char *path) {
  pn_roof roofs[ROOFS];
  pn_roof_point points[MOST_POINTS];
  char names[MOST_POINTS][64], *svg = NULL;
  size_t n = 0;
  for (size_t i = 0; i < ROOFS; ++i)
    roofs[i] = (pn_roof){roof_names[i], p->roof[i]};
  for (size_t i = 0; i < p->n && n < MOST_POINTS; ++i) {
    const group *g = &p->groups[i];
    if (!(g->flops > 0) || !(g->bytes > 0) || !(g->seconds > 0))
      continue;
    name_of(g, names[n], sizeof names[n]);
    points[n] = (pn_roof_point){names[n], g->flops / g->bytes, rate(g)};
    ++n;
  }
  tn_status status = pn_roofline_svg(p->step.name, p->peak, ROOFS, roofs, n, points, &svg);
  int result = status == TN_OK ? cli_write(path, svg) : cli_failed(status);
  tn_free(&svg);
  return result;
}

/* ---- The command ---------------------------------------------------------------------------------------- */

static tn_status measure(profile *p, const bench_options *options, tn_pool *pool) {
  double loss = 0;
  p->threads = tn_pool_threads(pool);
  TN_TRY(bench_start(options, pool, &p->step));
  TN_TRY(p->step.run(p->step.self, &loss)); /* makes storage */
  TN_TRY(least_time(&p->step, options->seconds / 2, &p->plain));
  TN_TRY(measure_roofs(p, pool));
  TN_TRY(profile_rows(p, pool, options->seconds / 2));
  return add_up(p);
}

static int profile_step(const bench_options *options, const char *svg, bool rows) {
  profile p = {0};
  bench_text words = {0}, json = {0};
  tn_pool *pool = NULL;
  tn_status status = tn_pool_new(options->threads, &pool);
  if (status == TN_OK)
    status = measure(&p, options, pool);
  int result = 0;
  if (status != TN_OK) {
    result = cli_failed(status);
  } else {
    put_words(&words, &p, rows);
    put_json(&json, &p);
    result = bench_deliver(&words, &json, options->json);
    if (result == 0 && svg)
      result = draw(&p, svg);
  }
  if (p.step.self)
    p.step.done(p.step.self);
  tn_free(&p.rows);
  tn_free(&p.groups);
  tn_pool_free(&pool);
  return result;
}

static int run(const cli_command *self, int argc, char **argv) {
  bench_options o = {.seconds = 2};
  const char *dtype = NULL, *svg = NULL;
  bool all = false;
  const cli_option options[] = {
      {"all", NULL, CLI_FLAG, &all, "print every piece of work too, in order"},
      {"dtype", "format", CLI_TEXT, &dtype, "number format (a case: f32; a file: what it says)"},
      {"points", "n", CLI_COUNT, &o.points, "number of points (of a file: of the interior)"},
      {"threads", "n", CLI_COUNT, &o.threads, "threads (all cores the process may use)"},
      {"seconds", "s", CLI_REAL, &o.seconds, "time to measure (2)"},
      {"json", "FILE", CLI_TEXT, &o.json, "write every piece of work as JSON"},
      {"svg", "FILE", CLI_TEXT, &svg, "draw rates under the roofs of the machine"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status =
      cli_start(self, options, NULL, argc, argv, 1, 1, "the problem file or the case", words, &n);
  if (status >= 0)
    return status;
  if (!bench_dtype("profile", dtype, &o))
    return 2;
  o.what = words[0];
  return profile_step(&o, svg, all);
}

const cli_command cli_profile = {
    "profile",
    "FILE|CASE [--all] [--dtype format] [--points n] [--threads n] [--svg F] [--json F]",
    "Where the time of a training step goes, beside what the machine could do.", run};
