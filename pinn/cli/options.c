/* options.c: reads the arguments of a command against its table of options.
 *
 * The same table parses and prints --help, so neither can forget an option. A number must be the
 * whole word and in range; a mistyped name is answered with the nearest one, by edit distance.
 */
#include "pinn/cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/pinn.h"

/* Levenshtein distance, for words below 40 bytes; longer ones count as far away. */
static size_t distance(const char *a, const char *b) {
  size_t row[40], n = strlen(a), m = strlen(b);
  if (n >= 40 || m >= 40)
    return 40;
  for (size_t j = 0; j <= m; ++j)
    row[j] = j;
  for (size_t i = 1; i <= n; ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; ++j) {
      size_t best = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      if (row[j] + 1 < best)
        best = row[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[m];
}

const char *cli_nearest(const char *word, size_t n, const char *const *names) {
  const char *best = NULL;
  size_t least = strlen(word) / 3 + 2; /* a third of the letters may be wrong, one at least */
  for (size_t i = 0; i < n; ++i) {
    size_t d = distance(word, names[i]);
    if (d < least) {
      least = d;
      best = names[i];
    }
  }
  return best;
}

static const cli_option *find(const cli_option *options, const char *name, size_t length) {
  for (; options->name != NULL; ++options) {
    if (strlen(options->name) == length && strncmp(options->name, name, length) == 0)
      return options;
  }
  return NULL;
}

static tn_status unknown(const cli_command *command, const cli_option *options, const char *word) {
  const char *names[32] = {"help"};
  char name[64];
  size_t n = 1;
  for (; options[n - 1].name != NULL && n < 32; ++n)
    names[n] = options[n - 1].name;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  const char *nearest = word[1] == '-' ? cli_nearest(name, n, names) : NULL;
  if (nearest == NULL) {
    return TN_FAIL(TN_EINPUT, "pinn %s: unknown option `%s`; `pinn %s --help` lists them",
                   command->name, word, command->name);
  }
  return TN_FAIL(TN_EINPUT, "pinn %s: unknown option `%s`. Did you mean `--%s`?", command->name,
                 word, nearest);
}

/* A whole number of plain digits. */
static bool whole(const char *text, uint64_t *out) {
  uint64_t x = 0;
  if (*text == '\0')
    return false;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9')
      return false;
    uint64_t digit = (uint64_t)(*text - '0');
    if (x > (UINT64_MAX - digit) / 10)
      return false;
    x = 10 * x + digit;
  }
  *out = x;
  return true;
}

/* strtod in the C locale, in which this program stays: nobody calls setlocale. */
static bool positive(const char *text, double *out) {
  char *end = NULL;
  errno = 0;
  double x = strtod(text, &end);
  if (end == text || *end != '\0' || errno != 0 || !(x > 0) || isinf(x))
    return false;
  *out = x;
  return true;
}

static tn_status store(const cli_command *command, const cli_option *option, const char *value) {
  uint64_t number = 0;
  switch (option->kind) {
  case CLI_FLAG:
    break;
  case CLI_TEXT:
    *(const char **)option->target = value;
    return TN_OK;
  case CLI_TEXTS: {
    cli_texts *texts = option->target;
    TN_TRY(tn_grow(&texts->text, texts->n, texts->n + 1, sizeof *texts->text));
    texts->text[texts->n++] = value;
    return TN_OK;
  }
  case CLI_COUNT:
    if (!whole(value, &number) || number == 0 || number > SIZE_MAX) {
      return TN_FAIL(TN_EINPUT, "pinn %s: --%s is `%s`, expected a whole number from 1",
                     command->name, option->name, value);
    }
    *(size_t *)option->target = (size_t)number;
    return TN_OK;
  case CLI_SEED: {
    cli_seed *seed = option->target;
    if (!whole(value, &seed->value)) {
      return TN_FAIL(TN_EINPUT, "pinn %s: --%s is `%s`, expected a whole number from 0",
                     command->name, option->name, value);
    }
    seed->given = true;
    return TN_OK;
  }
  case CLI_REAL:
    if (!positive(value, option->target)) {
      return TN_FAIL(TN_EINPUT, "pinn %s: --%s is `%s`, expected a positive number", command->name,
                     option->name, value);
    }
    return TN_OK;
  }
  *(bool *)option->target = true;
  return TN_OK;
}

/* The option in argv[*i], and its value, which may be the next word. */
static tn_status take(const cli_command *command, const cli_option *options, int argc, char **argv,
                      int *i) {
  const char *word = argv[*i];
  size_t length = word[1] == '-' ? strcspn(word + 2, "=") : 0;
  const cli_option *option = length > 0 ? find(options, word + 2, length) : NULL;
  if (option == NULL)
    return unknown(command, options, word);
  bool joined = word[2 + length] == '=';
  if (option->kind == CLI_FLAG) {
    if (joined) {
      return TN_FAIL(TN_EINPUT, "pinn %s: --%s takes no value, found `%s`", command->name,
                     option->name, word);
    }
    return store(command, option, NULL);
  }
  if (joined)
    return store(command, option, word + 3 + length);
  if (*i + 1 >= argc) {
    return TN_FAIL(TN_EINPUT, "pinn %s: --%s needs a value: --%s %s", command->name, option->name,
                   option->name, option->value);
  }
  return store(command, option, argv[++*i]);
}

tn_status cli_parse(const cli_command *command, const cli_option *options, int argc, char **argv,
                    const char **positionals, size_t *n_positionals, bool *help) {
  bool only_words = false;
  *n_positionals = 0;
  *help = false;
  for (int i = 0; i < argc; ++i) {
    if (!only_words && strcmp(argv[i], "--") == 0) {
      only_words = true;
    } else if (!only_words && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
      *help = true;
      return TN_OK;
    } else if (!only_words && argv[i][0] == '-' && argv[i][1] == '-') {
      TN_TRY(take(command, options, argc, argv, &i));
    } else if (!only_words && argv[i][0] == '-' && argv[i][1] >= 'a' && argv[i][1] <= 'z' &&
               argv[i][2] == '\0' && command->name[0] != 'e') {
      return unknown(command, options, argv[i]); /* `eval` takes expressions such as -u */
    } else {
      positionals[(*n_positionals)++] = argv[i];
    }
  }
  return TN_OK;
}

void cli_help(const cli_command *command, const cli_option *options, const char *more) {
  printf("usage: pinn %s %s\n\n%s\n", command->name, command->usage, command->doc);
  if (options->name != NULL)
    putchar('\n');
  for (const cli_option *o = options; o->name != NULL; ++o) {
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", o->name, o->value != NULL ? " " : "",
             o->value != NULL ? o->value : "");
    printf("  %-20s %s\n", left, o->doc);
  }
  if (more != NULL)
    printf("\n%s", more);
}

int cli_start(const cli_command *command, const cli_option *options, const char *more, int argc,
              char **argv, size_t least, size_t most, const char *what, const char **positionals,
              size_t *n_positionals) {
  bool help = false;
  tn_status status = cli_parse(command, options, argc, argv, positionals, n_positionals, &help);
  if (status != TN_OK)
    return cli_failed(status);
  if (help) {
    cli_help(command, options, more);
    return 0;
  }
  if (*n_positionals < least) {
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn %s: %s is missing\nusage: pinn %s %s", command->name,
                              what, command->name, command->usage));
  }
  if (*n_positionals > most) {
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn %s: `%s` is one word too many\nusage: pinn %s %s",
                              command->name, positionals[most], command->name, command->usage));
  }
  return -1;
}

int cli_exit_status(tn_status status) {
  switch (status) {
  case TN_OK:
    return 0;
  case TN_EINPUT:
  case TN_EUNSUPPORTED:
  case TN_ERANGE:
  case TN_ESHAPE:
  case TN_EDTYPE:
    return 2;
  case TN_ENONFINITE:
    return PN_NONFINITE;
  case TN_EPEER:
    return 5;
  default:
    return 3;
  }
}

int cli_failed(tn_status status) {
  fprintf(stderr, "%s\n", tn_error_text());
  return cli_exit_status(status);
}

int cli_write(const char *path, const char *text) {
  FILE *file = path != NULL ? fopen(path, "w") : stdout;
  if (file == NULL)
    return cli_failed(TN_FAIL(TN_EIO, "%s: %s", path, strerror(errno)));
  bool failed = fputs(text, file) == EOF;
  failed = fflush(file) != 0 || failed;
  int reason = errno;
  if (path != NULL)
    failed = fclose(file) != 0 || failed;
  if (failed) {
    return cli_failed(
        TN_FAIL(TN_EIO, "%s: %s", path != NULL ? path : "standard output", strerror(reason)));
  }
  return 0;
}
