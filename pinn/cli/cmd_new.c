/* cmd_new.c: `pinn new FILE`: a small complete problem of the kind asked for (pinn/starter.c). */
#include <stdio.h>
#include <string.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

enum { MOST_KINDS = 16 };

static tn_status find(const char *name, const pn_starter **out) {
  const char *names[MOST_KINDS];
  size_t n = 0;
  const pn_starter *all = pn_starters(&n);
  for (size_t i = 0; i < n && i < MOST_KINDS; ++i) {
    names[i] = all[i].name;
    *out = &all[i];
    if (strcmp(name, names[i]) == 0)
      return TN_OK;
  }
  const char *nearest = cli_nearest(name, n < MOST_KINDS ? n : MOST_KINDS, names);
  return TN_FAIL(TN_EINPUT, "pinn new: there is no kind `%s`%s%s%s; `pinn new --help` lists them", name,
                 nearest ? ". Did you mean `" : "", nearest ? nearest : "", nearest ? "`?" : "");
}

static int run(const cli_command *self, int argc, char **argv) {
  const char *kind = "heat", *words[16];
  const cli_option options[] = {
      {"kind", "heat|ode|elliptic|system", CLI_TEXT, &kind, "what it is like (default heat)"},
      {0},
  };
  char more[1024] = "Kinds:\n";
  size_t n = 0;
  const pn_starter *all = pn_starters(&n);
  for (size_t i = 0; i < n; ++i) {
    size_t used = strlen(more);
    snprintf(more + used, sizeof more - used, "  %-9s %s\n", all[i].name, all[i].meaning);
  }
  if (argc > 16)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn new: more than 16 words"));
  int status = cli_start(self, options, more, argc, argv, 1, 1, "the file to write", words, &n);
  if (status >= 0)
    return status;
  const pn_starter *chosen = NULL;
  tn_status done = find(kind, &chosen);
  if (done == TN_OK)
    done = pn_starter_write(chosen, words[0]);
  if (done != TN_OK)
    return cli_failed(done);
  printf("written    %s; next: pinn check %s, pinn solve %s\n", words[0], words[0], words[0]);
  return 0;
}

const cli_command cli_new = {"new", "FILE [--kind heat|ode|elliptic|system]",
                             "Writes a small problem file to start from.", run};
