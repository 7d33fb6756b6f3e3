/* main.c: the program `pinn`: finds the command and hands over.
 *
 * Exit status of every command: 0 aim met, 1 ran and the aim missed, 2 bad input, 3 environment or
 * files, 4 a value that is not finite, 5 another rank was lost, 130 and 143 after SIGINT and SIGTERM
 * (128 + the signal's number in general). Errors go to stderr; what was asked for goes to stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"
#include "tensor/comm_mpi.h"

extern const cli_command cli_new, cli_solve, cli_check, cli_eval, cli_export, cli_import, cli_plot, cli_validate, cli_bench,
    cli_profile, cli_keys, cli_ops, cli_doctor, cli_fuse, cli_problems, cli_reference;
static const cli_command *const commands[] = {
    &cli_new,   &cli_solve,   &cli_check, &cli_eval, &cli_export, &cli_import, &cli_plot, &cli_validate,
    &cli_bench, &cli_profile, &cli_keys,  &cli_ops,  &cli_doctor, &cli_fuse, &cli_problems,
    &cli_reference};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *file) {
  fprintf(file, "usage: pinn COMMAND ...\n\n");
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    const char *doc = commands[i]->doc;
    fprintf(file, "  %-10s %.*s\n", commands[i]->name, (int)strcspn(doc, "\n"), doc);
  }
  fprintf(
      file,
      "\n`pinn COMMAND --help` says more; `pinn --version` prints the version.\n"
      "Exit status: 0 aim met, 1 ran and missed, 2 bad input, 3 environment or files, 4 a value\n"
      "that is not finite, 5 another rank was lost, 130 or 143 stopped by a signal.\n");
}

static int unknown(const char *word) {
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; ++i)
    names[i] = commands[i]->name;
  const char *nearest = cli_nearest(word, N_COMMANDS, names);
  if (nearest != NULL) {
    fprintf(stderr, "pinn: unknown command `%s`. Did you mean `%s`?\n", word, nearest);
  } else {
    fprintf(stderr, "pinn: unknown command `%s`; `pinn --help` lists them\n", word);
  }
  return 2;
}

static int finish(int status) {
  if ((fflush(stdout) != 0 || ferror(stdout)) && status <= 1) {
    fprintf(stderr, "pinn: standard output cannot be written\n");
    return 3;
  }
  return status;
}

static bool executor_is_known(void) {
  const char *wish = getenv("TN_EXECUTOR");
  if (wish == NULL || wish[0] == 0 || strcmp(wish, "reference") == 0 || strcmp(wish, "streamed") == 0 ||
      strcmp(wish, "strict") == 0)
    return true;
  fprintf(stderr, "pinn: TN_EXECUTOR=%s: it is `streamed`, `reference` or `strict`\n", wish);
  return false;
}

/* A level that this build or CPU lacks must not be replaced in silence. */
static bool isa_is_known(void) {
  const char *wish = getenv("TN_ISA"), *levels = tn_isa_levels(); /* "base, v3" */
  if (wish == NULL || wish[0] == 0)
    return true;
  for (const char *at = levels; *at != 0; at += strspn(at, ", ")) {
    const size_t length = strcspn(at, ",");
    if (strlen(wish) == length && strncmp(wish, at, length) == 0)
      return true;
    at += length;
  }
  fprintf(stderr, "pinn: TN_ISA=%s: this build on this CPU has %s\n", wish, levels);
  return false;
}

/* What libraries have to say and nobody asked for: warnings go to stderr. */
static void on_log(void *context, tn_log_level level, const char *text) {
  (void)context;
  fprintf(stderr, "pinn: %s: %s\n", tn_log_level_name(level), text);
}

int main(int argc, char **argv) {
  tn_log_callback(TN_LOG_WARNING, on_log, NULL);
  if (!isa_is_known() || !executor_is_known())
    return 3;
  if (argc < 2) {
    usage(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      strcmp(argv[1], "help") == 0) {
    usage(stdout);
    return finish(0);
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("pinn %s\n", pn_version());
    return finish(0);
  }
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    if (strcmp(argv[1], commands[i]->name) == 0) {
      if (commands[i] != &cli_solve && commands[i] != &cli_bench && tn_mpi_rank() > 0)
        return 0; /* one process does it: the first rank */
      int status = commands[i]->run(commands[i], argc - 2, argv + 2);
      return commands[i] == &cli_solve ? status : finish(status); /* its results are files */
    }
  }
  return unknown(argv[1]);
}
