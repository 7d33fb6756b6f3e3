/* cmd_check.c: `pinn check`: everything that can be said about a problem file without training. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static int run(const cli_command *self, int argc, char **argv) {
  pn_check_options check = {0};
  cli_texts sets = {0};
  const cli_option options[] = {
      {"at", "x=0.25,y=0.5", CLI_TEXT, &check.at,
       "print every term of every equation at this point"},
      {"set", "path=value", CLI_TEXTS, &sets,
       "change a key of the file, as `--set domain.x=[0,2]`"},
      {"json", "FILE", CLI_TEXT, &check.json, "write the report as JSON too"},
      {0},
  };
  const char *words[64];
  size_t n = 0, errors = 0, warnings = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, "Exit status: 2 for an error or a defect, else 0.\n", argc,
                         argv, 1, 1, "the problem file", words, &n);
  pn_problem *problem = NULL;
  if (status < 0) {
    tn_status done = pn_problem_load(words[0], sets.n, sets.text, &problem);
    if (done == TN_OK)
      done = pn_check(problem, &check, stdout, &errors, &warnings);
    status = done != TN_OK ? cli_failed(done) : errors > 0 ? 2 : 0;
  }
  pn_problem_free(&problem);
  tn_free(&sets.text);
  return status;
}

const cli_command cli_check = {
    "check", "FILE [--at x=0.25,y=0.5] [--json FILE]",
    "Checks a problem file without training: names, conditions against orders, exact solutions.",
    run};
