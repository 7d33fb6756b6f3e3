/* cmd_problems.c: `pinn problems`: what problem files solve and teach, as a list or as docs/problems.md. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

enum { MOST = 1000 };

static int run(const cli_command *self, int argc, char **argv) {
  bool markdown = false;
  const cli_option options[] = {
      {"markdown", NULL, CLI_FLAG, &markdown, "the text of docs/problems.md"},
      {0},
  };
  const char **words = NULL;
  size_t n = 0;
  if (argc > MOST)
    argc = MOST;
  if (TN_NEW(MOST, &words) != TN_OK)
    return cli_failed(TN_ENOMEM);
  int status = cli_start(self, options, NULL, argc, argv, 1, MOST, "problem files", words, &n);
  if (status < 0) {
    tn_status done = pn_library_list(stdout, n, words, markdown);
    status = done == TN_OK ? 0 : cli_failed(done);
  }
  tn_free(&words);
  return status;
}

const cli_command cli_problems = {"problems", "FILE... [--markdown]",
                                  "Lists problem files: equations, and what they teach.", run};
