/* options.h: the arguments of a command: --name value, --name=value, flags, and words without
 * dashes. */
#ifndef PINN_CLI_OPTIONS_H
#define PINN_CLI_OPTIONS_H

#include "tensor/tensor.h"

typedef enum cli_kind {
  CLI_FLAG,  /* bool *: true if given */
  CLI_TEXT,  /* const char **: the last one given */
  CLI_TEXTS, /* cli_texts *: every one, in order */
  CLI_COUNT, /* size_t *: a whole number of at least 1 */
  CLI_SEED,  /* cli_seed *: a whole number from 0 */
  CLI_REAL   /* double *: a positive number */
} cli_kind;

typedef struct cli_texts {
  size_t n;
  const char **text; /* owned; the texts are argv's */
} cli_texts;

typedef struct cli_seed {
  bool given;
  uint64_t value;
} cli_seed;

typedef struct cli_option {
  const char *name;  /* without dashes; NULL ends a table */
  const char *value; /* what stands for the value in help: "DIR"; NULL for flags */
  cli_kind kind;
  void *target;
  const char *doc;
} cli_option;

/* A command of the program. run gets the words behind the command's name and returns an exit
 * status. */
typedef struct cli_command {
  const char *name, *usage, *doc;
  int (*run)(const struct cli_command *self, int argc, char **argv);
} cli_command;

/* Sorts argv into options and positionals (pointers into argv, room for argc; "--" ends the
 * options). An unknown option is TN_EINPUT with the nearest name. *help: --help was given; nothing
 * after it is read. */
tn_status cli_parse(const cli_command *command, const cli_option *options, int argc, char **argv,
                    const char **positionals, size_t *n_positionals, bool *help) TN_MUST_USE;
void cli_help(const cli_command *command, const cli_option *options, const char *more);

/* The whole start of a command: parses and, for --help or an error, prints. Returns -1 to go on,
 * else the exit status. At least `least` and at most `most` positionals, of which `what` says what
 * they are. */
int cli_start(const cli_command *command, const cli_option *options, const char *more, int argc,
              char **argv, size_t least, size_t most, const char *what, const char **positionals,
              size_t *n_positionals);

/* The exit status that a status stands for: 0, 2 (bad input), 3 (environment), 4 (non-finite), 5 (a lost rank). */
int cli_exit_status(tn_status status);
/* Prints the error text of this thread to stderr and returns its exit status. */
int cli_failed(tn_status status);
/* Writes a text to a file of the user's, or to the terminal if path is NULL; returns an exit
 * status. */
int cli_write(const char *path, const char *text);

/* The nearest of n names within a distance worth a question, or NULL. */
const char *cli_nearest(const char *word, size_t n, const char *const *names);

#endif
