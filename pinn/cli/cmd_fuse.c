/* cmd_fuse.c: `pinn fuse`: the source of fused kernels, for the build.
 *
 * The steps of cases and problem files are planned as for training; the arithmetic of their strip programs is
 * written as C (tensor/fuse.h). `./dev fuse` calls it for everything under problems/ and all cases of
 * `pinn bench` and keeps the answer in tensor/fused.inc.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

enum { MOST = 64 };

static tn_status start_all(size_t n, const char **names, bench_step *steps) {
  for (size_t i = 0; i < n; ++i) {
    bench_options options = {.what = names[i], .dtype_given = true, .dtype = TN_F64};
    TN_TRY(bench_start(&options, NULL, &steps[i]));
  }
  return TN_OK;
}

static tn_status write_text(size_t n, bench_step *steps, char **text) {
  tn_exec *execs[2 * MOST];
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    execs[count++] = steps[i].exec;
    if (steps[i].loss_exec)
      execs[count++] = steps[i].loss_exec;
  }
  return tn_fuse_text(count, execs, text);
}

static int run(const cli_command *self, int argc, char **argv) {
  const char *out = NULL, *names[MOST];
  const cli_option options[] = {{"out", "FILE", CLI_TEXT, &out, "where to write; else the terminal"}, {0}};
  size_t n = 0;
  bench_step *steps = NULL;
  char *text = NULL;
  if (argc > MOST)
    argc = MOST;
  int status = cli_start(self, options, "", argc, argv, 1, MOST, "cases or problem files", names, &n);
  if (status >= 0)
    return status;
  tn_status made = TN_NEW(n, &steps);
  if (made == TN_OK)
    made = start_all(n, names, steps);
  if (made == TN_OK)
    made = write_text(n, steps, &text);
  status = made == TN_OK ? cli_write(out, text) : cli_failed(made);
  for (size_t i = 0; steps && i < n; ++i)
    if (steps[i].done)
      steps[i].done(steps[i].self);
  tn_free(&steps);
  tn_free(&text);
  return status;
}

const cli_command cli_fuse = {"fuse", "CASE|FILE... [--out FILE]",
                              "source of compiled loops for the build (tensor/fused.inc)", run};
