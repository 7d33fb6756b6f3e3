/* bench_launch.c: `pinn bench scaling --ranks 1,2,4`: starts the measurement once for each number of ranks.
 *
 * The launcher is mpirun, an external program that is run by an argument list, never through a shell; one rank runs
 * without it. Each run writes its JSON and its words to a folder of its own that is removed afterwards. The table is
 * made from the JSON; the model is that of the run with the most ranks for which there are cores.
 *
 * Open MPI refuses to start more ranks than cores and to run as root unless its environment says otherwise, and ties
 * ranks to one core each, which a rank with threads cannot use; the environment of the child says so, where the user's
 * does not. Other launchers do not look at these names.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

extern char **environ;

enum { MOST_RUNS = 16, PATH = 4096, ARGUMENTS = 40 };

typedef struct one_run {
  size_t ranks;
  char *json, *words; /* owned */
} one_run;

typedef struct launch {
  const bench_options *options;
  char self[PATH], folder[PATH / 2], json[PATH], words[PATH];
  size_t n;
  one_run run[MOST_RUNS];
} launch;

/* ---- Files ----------------------------------------------------------------------------------------- */

static tn_status read_file(const char *path, char **out) {
  size_t n = 0, capacity = 0, got = 0;
  *out = NULL;
  FILE *file = fopen(path, "rb");
  if (!file)
    return TN_FAIL(TN_EIO, "%s: cannot be read", path);
  tn_status status = TN_OK;
  do {
    if (n + 1 >= capacity) {
      status = tn_grow(out, capacity, 2 * capacity + 4096, 1);
      capacity = status == TN_OK ? 2 * capacity + 4096 : capacity;
    }
    got = status == TN_OK ? fread(*out + n, 1, capacity - n - 1, file) : 0;
    n += got;
  } while (got > 0);
  fclose(file);
  return status;
}

static tn_status make_folder(launch *l) {
  const char *base = getenv("TMPDIR");
  ssize_t n = readlink("/proc/self/exe", l->self, sizeof l->self - 1);
  if (n <= 0)
    return TN_FAIL(TN_EENV,
                   "bench scaling: this program's own path cannot be read from /proc/self/exe");
  l->self[n] = 0;
  snprintf(l->folder, sizeof l->folder, "%s/pinn-scaling-XXXXXX", base && base[0] ? base : "/tmp");
  if (!mkdtemp(l->folder))
    return TN_FAIL(TN_EIO, "%s: a temporary folder cannot be made: %s", l->folder, strerror(errno));
  snprintf(l->json, sizeof l->json, "%s/json", l->folder);
  snprintf(l->words, sizeof l->words, "%s/words", l->folder);
  return TN_OK;
}

/* ---- Starting -------------------------------------------------------------------------------------- */

static const char *const settings[] = {
    "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"};
enum { SETTINGS = sizeof settings / sizeof *settings };

static tn_status make_environment(char ***out) {
  size_t n = 0, at = 0;
  while (environ[n])
    ++n;
  TN_TRY(TN_NEW(n + SETTINGS + 1, out));
  for (size_t i = 0; i < SETTINGS; ++i) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(settings[i], "="), settings[i]);
    if (!getenv(name))
      (*out)[at++] = (char *)(uintptr_t)settings[i]; /* not written to */
  }
  memcpy(*out + at, environ, n * sizeof **out);
  return TN_OK;
}

typedef struct words_of { /* arguments */
  size_t n;
  const char *word[ARGUMENTS];
  char number[8][40];
  size_t numbers;
} words_of;

static void add(words_of *a, const char *word) { a->word[a->n++] = word; }

static void add_count(words_of *a, const char *name, size_t value) {
  if (!value)
    return;
  snprintf(a->number[a->numbers], sizeof a->number[0], "%zu", value);
  add(a, name);
  add(a, a->number[a->numbers++]);
}

static void add_real(words_of *a, const char *name, double value) {
  if (!(value > 0))
    return;
  snprintf(a->number[a->numbers], sizeof a->number[0], "%.17g", value);
  add(a, name);
  add(a, a->number[a->numbers++]);
}

static void arguments(const launch *l, size_t ranks, words_of *a) {
  const bench_options *o = l->options;
  if (ranks > 1) {
    add(a, "mpirun");
    add_count(a, "-n", ranks);
  }
  add(a, l->self);
  add(a, "bench");
  add(a, "scaling");
  if (o->dtype_given) {
    add(a, "--dtype");
    add(a, tn_dtype_name(o->dtype));
  }
  if (o->split) {
    add(a, "--split");
    add(a, o->split);
  }
  add_count(a, "--products", o->products);
  add_count(a, "--points", o->points);
  add_count(a, "--threads", o->threads);
  add_real(a, "--seconds", o->seconds);
  add_real(a, "--latency", o->latency);
  add_real(a, "--bandwidth", o->bandwidth);
  add_real(a, "--gpu-step", o->gpu_step);
  add(a, "--json");
  add(a, l->json);
  add(a, "--");
  add(a, o->what);
}

/* Waits; *result is the exit status. */
static tn_status start(const launch *l, const words_of *a, int *result) {
  char **environment = NULL;
  posix_spawn_file_actions_t files;
  pid_t child = 0;
  int code = 0, end = 0;
  TN_TRY(make_environment(&environment));
  if (posix_spawn_file_actions_init(&files) != 0) {
    tn_free(&environment);
    return TN_FAIL(TN_ENOMEM, "bench scaling: out of memory");
  }
  code = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, l->words,
                                          O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (code == 0)
    code = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (code == 0)
    code = posix_spawnp(&child, a->word[0], &files, NULL, (char *const *)(uintptr_t)a->word,
                        environment);
  posix_spawn_file_actions_destroy(&files);
  tn_free(&environment);
  if (code != 0)
    return TN_FAIL(TN_EENV, "%s: cannot be started: %s%s", a->word[0], strerror(code),
                   strcmp(a->word[0], "mpirun") == 0
                       ? "; several ranks need MPI's launcher (Debian: openmpi-bin)"
                       : "");
  while (waitpid(child, &end, 0) < 0)
    if (errno != EINTR)
      return TN_FAIL(TN_EENV, "%s: cannot be waited for: %s", a->word[0], strerror(errno));
  *result = WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
  return TN_OK;
}

static int one(launch *l, one_run *run) {
  words_of a = {0};
  int result = 0;
  arguments(l, run->ranks, &a);
  tn_status status = start(l, &a, &result);
  if (status == TN_OK && result == 127 && run->ranks > 1)
    status = TN_FAIL(
        TN_EENV, "mpirun: was not found; several ranks need MPI's launcher (Debian: openmpi-bin)");
  if (status != TN_OK)
    return cli_failed(status);
  if (result != 0) {
    fprintf(stderr, "pinn bench scaling: the run on %zu rank%s ended with exit status %d\n",
            run->ranks, run->ranks == 1 ? "" : "s", result);
    return result >= 2 && result <= 5 ? result : 3;
  }
  status = read_file(l->json, &run->json);
  if (status == TN_OK)
    status = read_file(l->words, &run->words);
  return status == TN_OK ? 0 : cli_failed(status);
}

/* ---- The table -------------------------------------------------------------------------------------- */

/* A number of a JSON object by its key: its first occurrence, which is that of the object itself. NaN: null. */
static double number(const one_run *run, const char *key) {
  char text[64];
  snprintf(text, sizeof text, "\"%s\": ", key);
  const char *at = strstr(run->json, text);
  if (!at || strncmp(at + strlen(text), "null", 4) == 0)
    return NAN;
  return strtod(at + strlen(text), NULL); /* nobody calls setlocale */
}

static void put_table(bench_text *out, const launch *l) {
  bench_put(out, "%.*s\n", (int)strcspn(l->run[0].words, "\n"), l->run[0].words);
  bench_put(
      out,
      " ranks  least ms  median ms  alone ms  speedup  efficiency   talk  KiB a step  MiB a rank  "
      "model ms  model/measured\n");
  for (size_t i = 0; i < l->n; ++i) {
    const one_run *r = &l->run[i];
    bench_put(out, "%6zu %9.3f %10.3f %9.3f %8.2f %9.1f %% %5.1f %% %10.1f %11.2f",
              r->ranks, number(r, "min_ms"), number(r, "median_ms"), number(r, "alone_min_ms"),
              number(r, "speedup"), 100 * number(r, "efficiency"), 100 * number(r, "talk_share"),
              number(r, "talk_bytes") / 1024, number(r, "memory_bytes") / 1048576);
    if (isfinite(number(r, "model_ms")))
      bench_put(out, " %9.3f %15.2f", number(r, "model_ms"), number(r, "model_ms") / number(r, "min_ms"));
    else
      bench_put(out, " %9s %15s", "-", "-");
    bench_put(out, "%s\n", number(r, "more_ranks_than_cores") > 0 ? "  more ranks than cores" : "");
  }
  bench_put(out, "alone: one rank, in the same run, its steps between those of all; speedup: "
                 "median of such pairs, not the ratio of the columns\n");
}

/* The run whose model is shown. */
static const one_run *best(const launch *l) {
  const one_run *most = &l->run[0];
  for (size_t i = 1; i < l->n; ++i) {
    const one_run *r = &l->run[i];
    bool crowded = number(r, "more_ranks_than_cores") > 0;
    if (most->ranks == 1 || (!crowded && r->ranks > most->ranks))
      most = r;
  }
  return most;
}

static void put_json(bench_text *out, const launch *l) {
  bench_put(out, "{\n  \"runs\": [");
  for (size_t i = 0; i < l->n; ++i) {
    size_t n = strlen(l->run[i].json);
    while (n > 0 && l->run[i].json[n - 1] == '\n')
      --n;
    bench_put(out, "%s\n%.*s", i ? "," : "", (int)n, l->run[i].json);
  }
  bench_put(out, "\n  ],\n  \"model_of_ranks\": %zu\n}\n", best(l)->ranks);
}

/* ---- The command ------------------------------------------------------------------------------------ */

static tn_status parse(launch *l) {
  const char *text = l->options->ranks;
  for (const char *c = text;; ++c) {
    size_t ranks = 0, digits = 0;
    for (; *c >= '0' && *c <= '9' && digits < 5; ++c, ++digits)
      ranks = 10 * ranks + (size_t)(*c - '0');
    if (!digits || ranks < 1 || ranks > 4096 || (*c && *c != ','))
      return TN_FAIL(
          TN_EINPUT,
          "pinn bench scaling: --ranks is `%s`, expected numbers from 1 to 4096, as 1,2,4", text);
    if (l->n == MOST_RUNS)
      return TN_FAIL(TN_EINPUT, "pinn bench scaling: --ranks has more than %d numbers", MOST_RUNS);
    l->run[l->n++].ranks = ranks;
    if (!*c)
      return TN_OK;
  }
}

static int run_all(launch *l) {
  for (size_t i = 0; i < l->n; ++i) {
    int result = one(l, &l->run[i]);
    if (result != 0)
      return result;
  }
  bench_text words = {0}, json = {0};
  put_table(&words, l);
  const char *model = strstr(best(l)->words, "\nMODEL");
  bench_put(&words, "%s", model ? model : "model      none\n");
  put_json(&json, l);
  return bench_deliver(&words, &json, l->options->json);
}

int bench_launch(const bench_options *options) {
  launch *l = NULL;
  tn_status status = TN_NEW(1, &l);
  if (status != TN_OK)
    return cli_failed(status);
  l->options = options;
  status = parse(l);
  if (status == TN_OK)
    status = make_folder(l);
  int result = status == TN_OK ? run_all(l) : cli_failed(status);
  if (status == TN_OK) {
    unlink(l->json);
    unlink(l->words);
    rmdir(l->folder);
  }
  for (size_t i = 0; i < l->n; ++i) {
    tn_free(&l->run[i].json);
    tn_free(&l->run[i].words);
  }
  tn_free(&l);
  return result;
}
