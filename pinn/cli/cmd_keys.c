/* cmd_keys.c: `pinn keys`: help on the keys of the problem file, from the table that checks it. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static int run(const cli_command *self, int argc, char **argv) {
  bool markdown = false, schema = false;
  const cli_option options[] = {
      {"markdown", NULL, CLI_FLAG, &markdown, "the text of docs/problem-format.md"},
      {"schema", NULL, CLI_FLAG, &schema, "a JSON schema, for editors"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, NULL, argc, argv, 0, 1, "", words, &n);
  if (status >= 0)
    return status;
  if (markdown + schema + (n > 0) > 1)
    return cli_failed(
        TN_FAIL(TN_EINPUT, "pinn keys: TABLE, --markdown and --schema exclude each other"));
  tn_status done = markdown ? pn_keys_markdown(stdout)
                   : schema ? pn_keys_schema(stdout)
                            : pn_keys_text(stdout, n > 0 ? words[0] : NULL);
  return done == TN_OK ? 0 : cli_failed(done);
}

const cli_command cli_keys = {
    "keys", "[TABLE] [--markdown | --schema]",
    "Help on the keys of the problem file, or of one table of it (`stage`).", run};
