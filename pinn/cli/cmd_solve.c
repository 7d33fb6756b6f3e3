/* cmd_solve.c: `pinn solve`: trains a problem. Arguments, signals, ranks and exit status; pinn/solve.c
 * does it.
 *
 * Under mpirun every rank runs this. What fails on all ranks alike is told by the first one, and all
 * end with the same status. A rank that fails by itself, or has lost another one, ends all of them.
 * Several may find a lost rank at the same moment: they wait for their turn to speak, and the first
 * that speaks ends the others.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pinn/cli/audit.h"
#include "pinn/cli/backends.h"
#include "pinn/cli/options.h"
#include "pinn/pinn.h"
#include "tensor/factor.h"

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
  (void)signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is an error of the write, as a full disk */
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

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* The exit status after a failure, told once. all_failed: every rank is here. */
static int failed(tn_comm *comm, tn_status status, bool all_failed) {
  const size_t rank = tn_comm_rank(comm);
  if (comm == NULL)
    return cli_failed(status);
  if (all_failed)
    return rank == 0 ? cli_failed(status) : cli_exit_status(status);
  (void)signal(SIGTERM, SIG_DFL); /* how another rank ends this one */
  struct timespec turn = {(time_t)(rank * 3 / 10), (long)(rank * 3 % 10) * 100000000};
  (void)nanosleep(&turn, NULL);
  if (rank > 0 && status != TN_EPEER)
    fprintf(stderr, "%s: ", tn_comm_name(comm, rank));
  int code = cli_failed(status);
  fflush(stderr);
  tn_comm_abort(comm, code);
  return code;
}

/* As cli_start, but only the first rank prints, and a rank with other words than the rest ends all: it would
 * leave, and the others would wait for it. */
static int start(const cli_command *self, const cli_option *options, const char *more, int argc,
                 char **argv, tn_comm *comm, const char **words, size_t *n) {
  const char *what = "the problem file";
  bool help = false;
  if (comm == NULL)
    return cli_start(self, options, more, argc, argv, 1, 1, what, words, n);
  tn_status own = cli_parse(self, options, argc, argv, words, n, &help);
  tn_status status = tn_comm_agree(comm, "reading the options", own);
  if (status == TN_OK)
    status = tn_comm_same(comm, "number of files, --help", help ? UINT64_MAX : *n);
  if (status != TN_OK)
    return failed(comm, status, status != TN_EPEER);
  if (!help && *n == 1)
    return -1;
  if (tn_comm_rank(comm) == 0)
    return cli_start(self, options, more, argc, argv, 1, 1, what, words, n);
  return help ? 0 : 2;
}

/* ---- The command ----------------------------------------------------------------------------- */

static const char more[] = "Without --out the folder is FILE.out beside you, or the next free "
                           "name. It holds result.h5 (weights\n"
                           "and all that --resume needs), summary.json and report.html. SIGINT, "
                           "SIGTERM and SIGHUP save and stop;\n"
                           "a second signal stops at once. PINN_SAVE_SECONDS in the environment "
                           "sets the time between saves (30).\n"
                           "\n--sweep and --seeds make DIR/nu=0.1/seed=3/ and DIR/sweep.csv, DIR being FILE.sweep; the "
                           "status is 1\nif one run misses.\n"
                           "\n`mpirun -n 4 pinn solve FILE ...` shares the points among four processes, with the "
                           "same bits;\nPINN_COMM_SECONDS sets how long they wait for each other (60).\n";

/* All but what the words say; returns the exit status. */
static int train(pn_solve_options *solve, const char *device, const char *split,
                 const cli_texts *sweeps, size_t seeds, int argc, char **argv) {
  pn_outcome outcome = PN_NOT_CONVERGED;
  char *command = NULL;
  bool all_failed = false;
  tn_status status = save_interval(&solve->save_seconds);
  solve->split_layers = strcmp(split, "layers") == 0;
  if (status == TN_OK && !solve->split_layers && strcmp(split, "points") != 0)
    status = TN_FAIL(TN_EINPUT, "pinn solve: --split is `%s`, expected points or layers", split);
  if (status == TN_OK)
    status = command_line(argc, argv, &command);
  if (status == TN_OK)
    status = cli_device(device, &solve->device);
  if (solve->comm != NULL) {
    status = tn_comm_agree(solve->comm, "opening the device", status);
    all_failed = status != TN_OK && status != TN_EPEER;
  }
  if (status == TN_OK) {
    solve->command = command;
    solve->floor = cli_floor;
    solve->floor_context = solve;
    solve->live = isatty(STDOUT_FILENO) == 1;
    solve->all_failed = &all_failed;
    catch_signals();
    status = sweeps->n + seeds > 0 ? pn_sweep(solve, sweeps->n, sweeps->text, seeds, &outcome)
                                   : pn_solve(solve, &outcome);
  }
  int code = status == TN_OK ? (int)outcome : failed(solve->comm, status, all_failed);
  tn_device_close(&solve->device);
  tn_free(&command);
  return code;
}

static int run(const cli_command *self, int argc, char **argv) {
  pn_solve_options solve = {0};
  const char *device = "cpu", *split = "points";
  cli_texts sets = {0}, sweeps = {0};
  size_t seeds = 0;
  cli_seed seed = {0};
  bool quiet = false;
  const cli_option options[] = {
      {"out", "DIR", CLI_TEXT, &solve.out, "folder for the results"},
      {"set", "path=value", CLI_TEXTS, &sets,
       "change a key of the file, as `--set stage.1.steps=50`"},
      {"device", "cpu|cuda", CLI_TEXT, &device, "where to run (default cpu)"},
      {"split", "points|layers", CLI_TEXT, &split,
       "what ranks share (default points); layers: for networks too large for one"},
      {"threads", "n", CLI_COUNT, &solve.threads,
       "threads (default: all cores the process may use)"},
      {"seed", "n", CLI_SEED, &seed, "of all random numbers (default: the file's, or 0)"},
      {"sweep", "path=v1,v2", CLI_TEXTS, &sweeps,
       "a run for each value of a key; several --sweep: every combination"},
      {"seeds", "n", CLI_COUNT, &seeds, "a run for each seed from 0 to n - 1"},
      {"seconds", "s", CLI_REAL, &solve.seconds, "stop training after so long"},
      {"resume", NULL, CLI_FLAG, &solve.resume, "continue the run that the folder holds"},
      {"no-check", NULL, CLI_FLAG, &solve.unchecked, "train although `pinn check` finds an error"},
      {"quiet", NULL, CLI_FLAG, &quiet, "print errors only"},
      {0},
  };
  const char *words[256];
  size_t n = 0;
  tn_comm *comm = NULL;
  if (argc > 256)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn solve: more than 256 words"));
  tn_status ranks = cli_ranks(&comm);
  if (ranks != TN_OK)
    return cli_failed(ranks);
  int status = start(self, options, more, argc, argv, comm, words, &n);
  if (status < 0) {
    solve.path = words[0];
    solve.n_overrides = sets.n;
    solve.overrides = sets.text;
    solve.seed_given = seed.given;
    solve.seed = seed.value;
    solve.comm = comm;
    solve.terminal = quiet ? NULL : stdout;
    status = train(&solve, device, split, &sweeps, seeds, argc, argv);
  }
  tn_free(&sets.text);
  tn_free(&sweeps.text);
  tn_comm_free(&comm);
  return status;
}

const cli_command cli_solve = {
    "solve",
    "FILE [--out DIR] [--set path=value]... [--device cpu|cuda] [--threads n] [--seed n]\n"
    "                  [--split points|layers] [--sweep path=v1,v2]... [--seeds n] [--seconds s] [--resume]\n"
    "                  [--no-check] [--quiet]",
    "Trains a network on a problem file and writes the results to a folder.", run};
