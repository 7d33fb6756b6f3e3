/* cmd_bench.c: `pinn bench`: times and rates on this machine.
 *
 *   peak     what the cores and the memory can do
 *   step     one training step, of a case or of a problem file, beside it
 *   scaling  the same step on several ranks, beside one alone, and a model of many
 */
#include <stdio.h>
#include <string.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

static const char help[] =
    "pinn bench peak       fused multiply-adds and bytes a second, beside OpenBLAS's products\n"
    "pinn bench step CASE  a training step (loss and gradient) of burgers, kdv, ks, ns2d, "
    "helmholtz,\n"
    "                      poisson10 or wide\n"
    "pinn bench step FILE  of a problem file, at its first weights\n"
    "pinn bench scaling [CASE|FILE]  the step (burgers) on the ranks that mpirun has started, or with\n"
    "                      --ranks 1,2,4 on those that it starts itself, beside one rank alone; then a\n"
    "                      model of 1 to 1024 ranks, which is a model and not a measurement\n"
    "\nExit status: 1 if the peak is less than 1.05 times OpenBLAS's product (peak).\n";

bool bench_dtype(const char *command, const char *text, bench_options *o) {
  if (text == NULL)
    return true;
  o->dtype_given = true;
  if (pn_precision_dtype(text, &o->dtype) == TN_OK)
    return true;
  cli_failed(TN_FAIL(TN_EINPUT, "pinn %s: --dtype is `%s`, expected f64, f32, tf32, bf16 or f16",
                     command, text));
  return false;
}

static int start_scaling(const char *what, bench_options *o) {
  if (o->data || o->check)
    return cli_failed(
        TN_FAIL(TN_EINPUT, "pinn bench scaling: --data and --check go with `step CASE`"));
  if (o->split && strcmp(o->split, "points") != 0 && strcmp(o->split, "layers") != 0)
    return cli_failed(TN_FAIL(
        TN_EINPUT, "pinn bench scaling: --split is `%s`, expected `points` or `layers`", o->split));
  if (o->seconds <= 0)
    o->seconds = 3;
  o->what = what;
  return bench_scaling(o);
}

static int dispatch(const char *const *words, size_t n, const char *dtype, bench_options *o) {
  if (!bench_dtype("bench", dtype, o))
    return 2;
  bool scaling = strcmp(words[0], "scaling") == 0;
  if (!scaling && (o->ranks || o->split || o->latency > 0 || o->bandwidth > 0 || o->gpu_step > 0))
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn bench %s: --ranks, --split, --latency, --bandwidth and --gpu-step go "
                                         "with `scaling`",
                              words[0]));
  if (o->device != NULL && strcmp(words[0], "step") != 0)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn bench %s: --device goes with `step`", words[0]));
  if (strcmp(words[0], "peak") == 0 && n == 1) {
    if (o->dtype_given || o->products || o->points || o->data || o->check)
      return cli_failed(TN_FAIL(
          TN_EINPUT, "pinn bench peak: only --seconds, --threads and --json have a meaning here"));
    if (o->seconds <= 0)
      o->seconds = 12;
    return bench_peak(o);
  }
  if (o->products != 0 && o->products != 1 && o->products != 3)
    return cli_failed(
        TN_FAIL(TN_EINPUT, "pinn bench: --products is %zu, expected 1 or 3", o->products));
  if (scaling)
    return start_scaling(n == 2 ? words[1] : "burgers", o);
  if (strcmp(words[0], "step") == 0 && n == 2) {
    if (o->seconds <= 0)
      o->seconds = 3;
    o->what = words[1];
    return bench_run_step(o);
  }
  if (strcmp(words[0], "step") == 0)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn bench step: the case or the problem file is missing"
                                         "\nusage: pinn bench step CASE|FILE"));
  return cli_failed(TN_FAIL(TN_EINPUT,
                            "pinn bench: `%s%s%s`: expected `peak` or `step CASE|FILE` or `scaling`",
                            words[0], n > 1 ? " " : "", n > 1 ? words[1] : ""));
}

static int run(const cli_command *self, int argc, char **argv) {
  bench_options o = {0};
  const char *dtype = NULL;
  const cli_option options[] = {
      {"dtype", "format", CLI_TEXT, &dtype,
       "step: f64, f32, or tf32, bf16, f16 for matrix products (a case: f32; a file: what it "
       "says)"},
      {"precision", "format", CLI_TEXT, &dtype, "step: the same"},
      {"products", "n", CLI_COUNT, &o.products,
       "step: 3 products of a low format for one, as line searches have"},
      {"points", "n", CLI_COUNT, &o.points, "step: number of points (of a file: of the interior)"},
      {"threads", "n", CLI_COUNT, &o.threads, "threads (all cores the process may use; scaling: 1 a rank)"},
      {"seconds", "s", CLI_REAL, &o.seconds, "time to measure (step and scaling 3, peak 12)"},
      {"data", "FILE", CLI_TEXT, &o.data, "step CASE: weights, then points, as raw f64"},
      {"check", "K", CLI_COUNT, &o.check,
       "step: first K steps theta <- theta - 1e-3 gradient; prints the loss then"},
      {"device", "cpu|cuda", CLI_TEXT, &o.device, "step: where it runs (default cpu)"},
      {"ranks", "1,2,4", CLI_TEXT, &o.ranks, "scaling: numbers of ranks to start, by mpirun"},
      {"split", "what", CLI_TEXT, &o.split, "scaling: what ranks share, points (default) or layers"},
      {"latency", "us", CLI_REAL, &o.latency,
       "scaling: of a hop of the model's interconnect (the measured one)"},
      {"bandwidth", "GB/s", CLI_REAL, &o.bandwidth, "scaling: of it, a rank"},
      {"gpu-step", "s", CLI_REAL, &o.gpu_step,
       "scaling: time of the step on one device of the model (this machine's)"},
      {"json", "FILE", CLI_TEXT, &o.json, "write the figures as one JSON object"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, help, argc, argv, 1, 2,
                         "what to measure, `peak` or `step CASE|FILE` or `scaling`,", words, &n);
  return status >= 0 ? status : dispatch(words, n, dtype, &o);
}

const cli_command cli_bench = {
    "bench", "peak | step CASE|FILE | scaling [CASE|FILE] [--dtype format] [--points n] [--threads n] [--json F]",
    "Times a training step and what the machine could do.", run};
