/* cmd_export.c: `pinn export` and `pinn plot`: a result as a file for other programs, or as a picture. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static int write_file(const cli_command *self, int argc, char **argv, const char *more, bool picture) {
  pn_export_options export = {.to = picture ? "svg" : "csv", .terminal = stdout};
  const cli_option options[] = {
      {"grid", "x=a:b:n,...", CLI_TEXT, &export.grid, "a grid: n values from a to b (default: the whole domain)"},
      {"out", "FILE", CLI_TEXT, &export.out, "the file (default: the result's name)"},
      {picture ? NULL : "to", "csv|h5|vtk|c|svg", CLI_TEXT, &export.to, "the format (default csv)"},
      {"points", "F.csv", CLI_TEXT, &export.points, "points instead of a grid (csv, h5)"},
      {0},
  };
  const char *words[256];
  size_t n = 0;
  if (argc > 256)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn %s: more than 256 words", self->name));
  int status = cli_start(self, options, more, argc, argv, 1, 256,
                         "RESULT (an out folder or its result.h5) or an expression", words, &n);
  if (status >= 0)
    return status;
  export.result = words[0];
  export.n_expressions = n - 1;
  export.expressions = words + 1;
  tn_status done = pn_export(&export);
  return done == TN_OK ? 0 : cli_failed(done);
}

static int run_export(const cli_command *self, int argc, char **argv) {
  return write_file(self, argc, argv,
                    "Expressions are those of `pinn eval`; without any, every unknown is written. Formats: csv and h5 "
                    "as\n`pinn eval` writes them; vtk for ParaView; svg a picture; c a C99 function\n"
                    "void NAME(const double *x, double *out) that needs only <math.h>.\n",
                    false);
}

static int run_plot(const cli_command *self, int argc, char **argv) {
  return write_file(self, argc, argv,
                    "One or two coordinates vary; --grid gives the others one value: x=0:1:101,t=0.5.\n", true);
}

const cli_command cli_export = {"export",
                                "RESULT [--to csv|h5|vtk|c|svg] [--grid x=-1:1:201,t=1 | --points F.csv] [--out F] [EXPR...]",
                                "A solution as a table, for ParaView, as C source or as a picture.", run_export};
const cli_command cli_plot = {"plot", "RESULT [--grid x=-1:1:201,t=1] [--out F.svg] [EXPR...]",
                              "A picture of a solution: curves or maps as SVG.", run_plot};
