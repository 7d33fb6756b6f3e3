/* cmd_eval.c: `pinn eval`: values of a trained solution. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static int run(const cli_command *self, int argc, char **argv) {
  pn_eval_options eval = {.terminal = stdout};
  cli_texts grids = {0};
  const cli_option options[] = {
      {"points", "F.csv", CLI_TEXT, &eval.points, "points: a column for each coordinate, by name"},
      {"grid", "x=a:b:n,...", CLI_TEXTS, &grids, "a grid: n values from a to b, both included"},
      {"compare", "REF.csv", CLI_TEXT, &eval.compare,
       "errors against a table of reference values: coordinates and u_ref"},
      {"out", "FILE", CLI_TEXT, &eval.out, "write FILE.csv or FILE.h5 instead of the terminal"},
      {0},
  };
  const char *words[256];
  size_t n = 0;
  if (argc > 256)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn eval: more than 256 words"));
  int status = cli_start(
      self, options,
      "Expressions are those of the problem file: u, u_xx, u_t + u*u_x - nu*u_xx, the\n"
      "names of its definitions. CSV columns: the coordinates, then the expressions.\n",
      argc, argv, 1, 256, "RESULT (an out folder or its result.h5) or an expression", words, &n);
  if (status < 0 && grids.n > 1)
    status = cli_failed(
        TN_FAIL(TN_EINPUT, "pinn eval: give one --grid for all coordinates: --grid x=...,t=..."));
  eval.grid = grids.n > 0 ? grids.text[0] : NULL; /* a word of argv */
  tn_free(&grids.text);
  if (status >= 0)
    return status;
  eval.result = words[0];
  eval.n_expressions = n - 1;
  eval.expressions = words + 1;
  tn_status done = pn_eval(&eval);
  return done == TN_OK ? 0 : cli_failed(done);
}

const cli_command cli_eval = {
    "eval", "RESULT (--points F.csv | --grid x=-1:1:201,t=0:1:101) [--out F] EXPR... | --compare REF.csv",
    "Values of unknowns, derivatives and any expression of them, from a saved result.", run};
