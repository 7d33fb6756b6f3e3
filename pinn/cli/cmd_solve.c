/* cmd_solve.c: `pinn solve`: trains a problem. Arguments, signals and exit status; pinn/solve.c
 * does it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pinn/cli/audit.h"
#include "pinn/cli/options.h"
#include "pinn/pinn.h"

/* The first signal asks for a stop at the next step, after a save; the second ends the process at
 * once. */
static void on_signal(int number) {
  static volatile sig_atomic_t seen = 0;
  if (seen++ > 0)
    _exit(128 + number);
  pn_request_stop(number);
}

static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    struct sigaction before;
    bool known = sigaction(numbers[i], NULL, &before) == 0;
    if (known && numbers[i] == SIGHUP && before.sa_handler == SIG_IGN)
      continue; /* nohup */
    (void)sigaction(numbers[i], &action, NULL);
  }
  (void)signal(SIGPIPE, SIG_IGN); /* a closed terminal must not lose a run */
}

/* The command line as one text, words with other than plain characters in single quotes. */
static tn_status command_line(int argc, char **argv, char **out) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%";
  size_t n = sizeof "pinn solve";
  for (int i = 0; i < argc; ++i)
    n += 4 * strlen(argv[i]) + 3;
  TN_TRY(TN_NEW(n, out));
  char *p = *out + sprintf(*out, "pinn solve");
  for (int i = 0; i < argc; ++i) {
    bool quote = argv[i][0] == '\0' || strspn(argv[i], plain) != strlen(argv[i]);
    p += sprintf(p, quote ? " '" : " ");
    for (const char *c = argv[i]; *c != '\0'; ++c)
      p += *c == '\'' ? sprintf(p, "'\\''") : sprintf(p, "%c", *c);
    if (quote)
      p += sprintf(p, "'");
  }
  return TN_OK;
}

/* For tests and for impatient disks: seconds between two saves. */
static tn_status save_interval(double *seconds) {
  const char *text = getenv("PINN_SAVE_SECONDS");
  if (text == NULL || *text == '\0')
    return TN_OK;
  char *end = NULL;
  double x = strtod(text, &end);
  if (*end != '\0' || !(x > 0 && x < 1e9))
    return TN_FAIL(TN_EINPUT, "PINN_SAVE_SECONDS is `%s`, expected a positive number of seconds",
                   text);
  *seconds = x;
  return TN_OK;
}

static tn_status check_device(const char *device) {
  if (strcmp(device, "cpu") == 0)
    return TN_OK;
  if (strcmp(device, "cuda") == 0) {
    return TN_FAIL(TN_EENV,
                   "--device cuda: this build has no CUDA backend; it runs on the CPU only "
                   "(`--device cpu`)");
  }
  return TN_FAIL(TN_EINPUT, "pinn solve: --device is `%s`, expected cpu or cuda", device);
}

static const char more[] = "Without --out the folder is FILE.out beside you, or the next free "
                           "name. It holds result.h5 (weights\n"
                           "and all that --resume needs), summary.json and report.html. SIGINT, "
                           "SIGTERM and SIGHUP save and stop;\n"
                           "a second signal stops at once. PINN_SAVE_SECONDS in the environment "
                           "sets the time between saves (30).\n";

static int run(const cli_command *self, int argc, char **argv) {
  pn_solve_options solve = {.device = "cpu"};
  cli_texts sets = {0};
  cli_seed seed = {0};
  bool quiet = false;
  const cli_option options[] = {
      {"out", "DIR", CLI_TEXT, &solve.out, "folder for the results"},
      {"set", "path=value", CLI_TEXTS, &sets,
       "change a key of the file, as `--set stage.1.steps=50`"},
      {"device", "cpu|cuda", CLI_TEXT, &solve.device, "where to run (default cpu)"},
      {"threads", "n", CLI_COUNT, &solve.threads,
       "threads (default: all cores the process may use)"},
      {"seed", "n", CLI_SEED, &seed, "of all random numbers (default: the file's, or 0)"},
      {"seconds", "s", CLI_REAL, &solve.seconds, "stop training after so long"},
      {"resume", NULL, CLI_FLAG, &solve.resume, "continue the run that the folder holds"},
      {"no-check", NULL, CLI_FLAG, &solve.unchecked, "train although `pinn check` finds an error"},
      {"quiet", NULL, CLI_FLAG, &quiet, "print errors only"},
      {0},
  };
  const char *words[256];
  char *command = NULL;
  size_t n = 0;
  pn_outcome outcome = PN_NOT_CONVERGED;
  if (argc > 256)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn solve: more than 256 words"));
  int status = cli_start(self, options, more, argc, argv, 1, 1, "the problem file", words, &n);
  if (status >= 0) {
    tn_free(&sets.text);
    return status;
  }
  tn_status done = check_device(solve.device);
  if (done == TN_OK)
    done = save_interval(&solve.save_seconds);
  if (done == TN_OK)
    done = command_line(argc, argv, &command);
  if (done == TN_OK) {
    solve.path = words[0];
    solve.n_overrides = sets.n;
    solve.overrides = sets.text;
    solve.seed_given = seed.given;
    solve.seed = seed.value;
    solve.command = command;
    solve.floor = cli_floor;
    solve.floor_context = &solve;
    solve.terminal = quiet ? NULL : stdout;
    solve.live = isatty(STDOUT_FILENO) == 1;
    catch_signals();
    done = pn_solve(&solve, &outcome);
  }
  tn_free(&command);
  tn_free(&sets.text);
  return done == TN_OK ? (int)outcome : cli_failed(done);
}

const cli_command cli_solve = {
    "solve",
    "FILE [--out DIR] [--set path=value]... [--device cpu|cuda] [--threads n] [--seed n]\n"
    "                  [--seconds s] [--resume] [--no-check] [--quiet]",
    "Trains a network on a problem file and writes the results to a folder.", run};
