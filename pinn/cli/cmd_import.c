/* cmd_import.c: `pinn import`: weights of another program as a result. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

/* Rounding of two correct programs stays within some ulp-scales (pinn/parity.c). */
static const double MOST_ULP_SCALES = 4;

static int run(const cli_command *self, int argc, char **argv) {
  pn_import_options import = {.terminal = stdout};
  cli_texts overrides = {0};
  const cli_option options[] = {
      {"out", "DIR", CLI_TEXT, &import.out, "folder of the result (the problem's name .out)"},
      {"set", "path=value", CLI_TEXTS, &overrides, "change a key of the problem file"},
      {"parity", "F.csv", CLI_TEXT, &import.parity,
       "compare: columns of coordinates and of expressions, with the other program's values"},
      {"threads", "n", CLI_COUNT, &import.threads, "threads (all cores the process may use)"},
      {0},
  };
  const char *words[2];
  size_t n = 0;
  double worst = 0;
  int status = cli_start(
      self, options,
      "WEIGHTS: .safetensors or .npz of a perceptron, named as PyTorch and DeepXDE do\n"
      "(linears.0.weight of [out, in], linears.0.bias). Outputs are the unknowns in the\n"
      "file's order. --parity: exit status 1 beyond 4 ulp-scales (docs/networks.md).\n",
      argc, argv, 2, 2, "a problem file and a file of weights", words, &n);
  if (status < 0) {
    import.path = words[0];
    import.weights = words[1];
    import.n_overrides = overrides.n;
    import.overrides = overrides.text;
    tn_status done = pn_import(&import, &worst);
    status = done != TN_OK ? cli_failed(done) : worst <= MOST_ULP_SCALES ? 0 : 1;
  }
  tn_free(&overrides.text);
  return status;
}

const cli_command cli_import = {
    "import", "PROBLEM.toml WEIGHTS [--out DIR] [--parity F.csv] [--set path=value]",
    "Weights of PyTorch or DeepXDE become a result: eval, check, solve --resume read it.", run};
