/* cmd_reference.c: `pinn reference FILE`: a solution by classical methods, to compare with. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static int run(const cli_command *self, int argc, char **argv) {
  pn_reference_options reference = {.terminal = stdout};
  cli_texts sets = {0}, grids = {0};
  const cli_option options[] = {
      {"out", "FILE", CLI_TEXT, &reference.out, "FILE.csv or FILE.h5 (default: <problem>.ref.csv)"},
      {"grid", "x=a:b:n,...", CLI_TEXTS, &grids, "where: n values from a to b, both included"},
      {"tolerance", "e", CLI_REAL, &reference.tolerance,
       "error asked for, relative to the largest value (default 1e-8)"},
      {"points", "n", CLI_COUNT, &reference.points, "at most n functions along a coordinate"},
      {"seconds", "s", CLI_REAL, &reference.seconds, "about so long at most (default 300)"},
      {"set", "path=value", CLI_TEXTS, &sets, "change a key of the file, as `--set constants.nu=0.1`"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  bool reached = false;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options,
                         "The file carries an estimate of its error and can be a table of [tables].\n"
                         "Exit status: 1 if the estimate misses the tolerance (the file is written), else 0.\n",
                         argc, argv, 1, 1, "the problem file", words, &n);
  if (status < 0 && grids.n > 1)
    status = cli_failed(TN_FAIL(TN_EINPUT, "pinn reference: give one --grid for all coordinates: --grid x=...,t=..."));
  reference.grid = grids.n > 0 ? grids.text[0] : NULL;
  reference.n_overrides = sets.n;
  reference.overrides = sets.text;
  if (status < 0) {
    reference.path = words[0];
    tn_status done = pn_reference(&reference, &reached);
    status = done != TN_OK ? cli_failed(done) : reached ? 0 : 1;
  }
  tn_free(&grids.text);
  tn_free(&sets.text);
  return status;
}

const cli_command cli_reference = {
    "reference", "FILE [--out F.csv|F.h5] [--grid x=-1:1:201,t=0:1:101] [--tolerance 1e-8]",
    "Solves a problem by classical methods, with an estimate of the error.", run};
