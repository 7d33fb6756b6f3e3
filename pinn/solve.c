/* solve.c: pn_solve: everything from a problem file to a folder of results.
 *
 *   load -> check -> model -> training -> (restore) -> folder -> banner -> train
 *        -> result.h5, summary.json, report.html
 *
 * The folder is made only when the input is known to be good and everything is allocated, so a
 * mistake leaves nothing behind. While training runs, result.h5 is replaced atomically at stage
 * ends, every 30 s and when a signal asks for an end; whatever happens, the folder holds the last
 * good state. Two runs never write to one folder: the standard name is the next free one, and a
 * folder that holds a result is refused unless it is to be continued.
 *
 * Ranks. All of them load, check and train; the first one finds the folder, locks it, prints and
 * writes. Each part of the set-up that can fail on one rank ends in an agreement, so that a mistake
 * in the file ends all of them with one message. When training is over the first rank goes on
 * alone, with executors that have no ranks, and the others wait for its last word.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pinn/banner.h"
#include "pinn/check.h"
#include "pinn/data.h"
#include "pinn/files.h"
#include "pinn/result.h"
#include "pinn/summary.h"
#include "pinn/values.h"
#include "pinn/windows.h"

double pn_clock(void) {
  struct timespec t = {0, 0};
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double pn_peak_mib(void) {
  struct rusage use;
  if (getrusage(RUSAGE_SELF, &use) != 0)
    return (double)tn_memory_peak() / (1 << 20);
  return (double)use.ru_maxrss / 1024; /* Linux counts KiB */
}

/* ---- Stop ---------------------------------------------------------------------------------------
 * */

static volatile sig_atomic_t stop_signal =
    0; /* the one mutable global: a signal handler has no argument */

void pn_request_stop(int signal_number) { stop_signal = signal_number; }

static int on_poll(void *context) {
  (void)context;
  return stop_signal;
}

/* ---- Calls from the training --------------------------------------------------------------------
 * */

static tn_status on_progress(void *context, const pn_progress *progress) {
  pn_run *run = context;
  return pn_banner_progress(run, progress, run->terminal);
}

static tn_status on_checkpoint(void *context, pn_training *training, bool stage_end) {
  (void)training;
  (void)stage_end;
  return pn_result_write(context, false);
}

/* ---- Folders ------------------------------------------------------------------------------------
 * */

static tn_status holds_result(const char *folder, bool *out) {
  char *path = NULL;
  TN_TRY(pn_path_join(folder, "result.h5", &path));
  *out = pn_path_exists(path) || pn_windows_in(folder) > 0;
  tn_free(&path);
  return TN_OK;
}

/* burgers.out, or the last of burgers.out-2, burgers.out-3, ... that exists. */
static tn_status last_folder(const char *standard, char **out) {
  size_t n = strlen(standard) + 24;
  TN_TRY(tn_copy_text(standard, out));
  for (size_t i = 2; i < 1000000; ++i) {
    char *next = NULL;
    tn_status status = TN_NEW(n, &next);
    if (status != TN_OK)
      return status;
    snprintf(next, n, "%s-%zu", standard, i);
    if (!pn_path_exists(next)) {
      tn_free(&next);
      return TN_OK;
    }
    tn_free(out);
    *out = next;
  }
  return TN_OK;
}

/* Which run to continue. */
static tn_status find_resumed(pn_run *run) {
  const pn_solve_options *o = run->options;
  bool there = false;
  if (o->out != NULL) {
    TN_TRY(tn_copy_text(o->out, &run->folder));
  } else {
    char *standard = NULL;
    TN_TRY(pn_path_named(o->path, ".out", &standard));
    tn_status status = last_folder(standard, &run->folder);
    tn_free(&standard);
    TN_TRY(status);
  }
  TN_TRY(holds_result(run->folder, &there));
  if (!there)
    return TN_FAIL(TN_EINPUT, "--resume: %s holds no result.h5 to continue from", run->folder);
  TN_TRY(pn_lock_folder(run->folder, &run->lock));
  return pn_remove_temporaries(run->folder);
}

static tn_status refuse_used(const pn_solve_options *o) {
  bool there = false;
  if (o->out == NULL || o->resume)
    return TN_OK;
  if (pn_path_exists(o->out) && !pn_path_is_folder(o->out))
    return TN_FAIL(TN_EINPUT, "--out %s: this is a file, expected a folder", o->out);
  TN_TRY(holds_result(o->out, &there));
  if (there) {
    return TN_FAIL(TN_EINPUT,
                   "--out %s: the folder holds a run already. Continue it with --resume, or "
                   "choose another folder",
                   o->out);
  }
  return TN_OK;
}

static tn_status make_fresh(pn_run *run) {
  const pn_solve_options *o = run->options;
  char *standard = NULL;
  if (o->out != NULL) {
    TN_TRY(tn_copy_text(o->out, &run->folder));
    TN_TRY(pn_make_folder(run->folder));
    TN_TRY(pn_lock_folder(run->folder, &run->lock));
    TN_TRY(refuse_used(o)); /* another run may have ended there since the first look */
    return pn_remove_temporaries(run->folder);
  }
  TN_TRY(pn_path_named(o->path, ".out", &standard));
  tn_status status = pn_next_free_folder(standard, &run->folder);
  tn_free(&standard);
  return status == TN_OK ? pn_lock_folder(run->folder, &run->lock) : status;
}

tn_status pn_run_folder(pn_run *run) {
  if (run->options->resume)
    return find_resumed(run);
  TN_TRY(refuse_used(run->options));
  return make_fresh(run);
}

/* ---- Set-up -------------------------------------------------------------------------------------
 * */

/* The warnings of the file alone, for a run that is not checked. */
static tn_status file_warnings(pn_run *run) {
  pn_text text = {0};
  for (size_t i = 0; i < run->problem->n_warnings; ++i)
    pn_putf(&text, "%swarning: %s", i > 0 ? "\n" : "", run->problem->warnings[i]);
  return pn_text_take(&text, &run->warnings, NULL);
}

/* A wrong sign in the file is found in a second here and not after the training. */
static tn_status check(pn_run *run) {
  if (run->options->unchecked)
    return file_warnings(run);
  tn_status status = pn_check_before_run(run->problem, &run->checked, &run->warnings);
  if (status != TN_EINPUT)
    return status;
  return TN_FAIL(TN_EINPUT, "%s\n`--no-check` trains all the same.", tn_error_text());
}

static tn_status set_up(pn_run *run) {
  const pn_solve_options *o = run->options;
  if (pn_ranks_lead(&run->ranks))
    TN_TRY(refuse_used(o));
  TN_TRY(tn_check_float_environment());
  TN_TRY(pn_problem_load(o->path, o->n_overrides, o->overrides, &run->problem));
  pn_sha256_text(run->problem->source.text, run->problem->source.length, run->sha256);
  run->seed = o->seed_given ? o->seed : run->problem->seed;
  run->limit = o->seconds > 0 ? o->seconds : run->problem->seconds;
  return check(run);
}

static tn_status make_model(pn_run *run, size_t threads) {
  tn_dtype dtype = TN_F64;
  TN_TRY(pn_problem_dtype(run->problem, &dtype));
  TN_TRY(tn_pool_new(threads, &run->pool));
  tn_pool_ranks(run->pool, run->options->comm);
  tn_pool_split(run->pool, run->options->split_layers ? TN_SPLIT_LAYERS : TN_SPLIT_POINTS);
  tn_pool_use(run->pool, run->options->device);
  return pn_model_new(run->problem, dtype, &run->model);
}

static tn_status make_training(pn_run *run, const pn_window *window) {
  pn_train_options options = {
      .seed = run->seed,
      .seconds = run->limit,
      .checkpoint_seconds = run->options->save_seconds,
      .context = run,
      .progress = on_progress,
      .checkpoint = on_checkpoint,
      .stop = on_poll,
      .ranks = &run->ranks,
  };
  if (window) {
    options.n_theta = window->n_theta;
    options.theta = window->theta;
  }
  return pn_training_new(run->model, run->pool, &options, &run->training);
}

static bool same_overrides(const pn_saved *saved, const pn_problem *problem) {
  if (saved->n_overrides != problem->n_overrides)
    return false;
  for (size_t i = 0; i < saved->n_overrides; ++i) {
    if (strcmp(saved->overrides[i], problem->overrides[i]) != 0)
      return false;
  }
  return true;
}

/* Opens the saved run before the training is made: its seed may differ from the file's. */
static tn_status open_saved(pn_run *run, pn_saved **saved) {
  TN_TRY(pn_saved_open(run->folder, saved));
  const pn_saved *s = *saved;
  if (strcmp(s->sha256, run->sha256) != 0) {
    return TN_FAIL(TN_EINPUT,
                   "--resume: %s has changed since %s was written; a run goes on only with the "
                   "same problem",
                   run->options->path, s->path);
  }
  if (s->data != pn_data_digest(run->problem))
    return TN_FAIL(TN_EINPUT, "--resume: the data of %s have changed since %s was written",
                   run->options->path, s->path);
  if (!same_overrides(s, run->problem))
    return TN_FAIL(TN_EINPUT, "--resume: --set must be as in the run that wrote %s", s->path);
  TN_TRY(pn_saved_same_inputs(s, run->problem));
  if (run->options->seed_given && run->options->seed != s->seed) {
    return TN_FAIL(TN_EINPUT, "--resume: --seed is %llu, but %s was made with %llu",
                   (unsigned long long)run->options->seed, s->path, (unsigned long long)s->seed);
  }
  run->seed = s->seed;
  return TN_OK;
}

static tn_status restore(pn_run *run, pn_saved *saved) {
  TN_TRY(pn_saved_training(saved, run->training));
  run->resumed = true;
  run->resumed_step = pn_training_result(run->training)->steps;
  return TN_OK;
}

/* Ranks that were given different files or options would wait for each other in different places. */
static tn_status same_input(pn_run *run) {
  const pn_problem *p = run->problem;
  const double seconds[2] = {run->limit, run->options->save_seconds};
  const pn_solve_options *o = run->options;
  const uint64_t rest[5] = {run->seed, o->resume, o->split_layers, o->device != NULL,
                            pn_data_digest(p)};
  uint64_t digest = pn_digest(PN_DIGEST, sizeof run->sha256, run->sha256);
  for (size_t i = 0; i < p->n_overrides; ++i)
    digest = pn_digest(digest, strlen(p->overrides[i]) + 1, p->overrides[i]);
  digest = pn_digest(digest, sizeof seconds, seconds);
  digest = pn_digest(digest, sizeof rest, rest);
  digest = pn_digest(digest, strlen(pn_version()), pn_version());
  const char *executor = getenv("TN_EXECUTOR"); /* kinds of executors gather at different places */
  if (executor)
    digest = pn_digest(digest, strlen(executor), executor);
  return pn_ranks_same(&run->ranks,
                       "problem file, its data, --set, --seed, --seconds, --resume, --split, --device, "
                       "PINN_SAVE_SECONDS, TN_EXECUTOR and version",
                       digest);
}

/* What can be refused before anything is computed. */
static tn_status read_input(pn_run *run, pn_saved **saved) {
  size_t threads = run->options->threads;
  tn_status status = set_up(run);
  if (status == TN_OK && run->options->resume && pn_ranks_lead(&run->ranks))
    status = find_resumed(run);
  TN_TRY(pn_ranks_agree(&run->ranks, "reading the input", status));
  TN_TRY(same_input(run));
  if (run->options->resume) {
    TN_TRY(pn_ranks_text(&run->ranks, "folder", &run->folder));
    TN_TRY(pn_ranks_agree(&run->ranks, "reading the saved run", open_saved(run, saved)));
  }
  TN_TRY(pn_ranks_threads(&run->ranks, &threads));
  return pn_ranks_agree(&run->ranks, "making the model", make_model(run, threads));
}

/* The folder of a fresh run comes last: a mistake leaves nothing behind. */
static tn_status open_folder(pn_run *run) {
  tn_status status = TN_OK;
  if (run->options->resume)
    return TN_OK;
  if (pn_ranks_lead(&run->ranks))
    status = make_fresh(run);
  TN_TRY(pn_ranks_agree(&run->ranks, "making the folder", status));
  return pn_ranks_text(&run->ranks, "folder", &run->folder);
}

static tn_status prepare(pn_run *run, const pn_window *window) {
  pn_saved *saved = NULL;
  tn_status status = read_input(run, &saved);
  if (status == TN_OK)
    status = make_training(run, window);
  if (status == TN_OK && saved != NULL)
    status = pn_ranks_agree(&run->ranks, "restoring the saved run", restore(run, saved));
  if (status == TN_OK)
    status = pn_training_same(run->training, "before the first step");
  pn_saved_free(&saved);
  return status == TN_OK ? open_folder(run) : status;
}

/* ---- The run ------------------------------------------------------------------------------------
 * */

/* Trains; a value that is not finite becomes run->failure, and the run is still written. */
static tn_status train(pn_run *run) {
  tn_status status = pn_training_run(run->training);
  if (status != TN_ENONFINITE)
    return status;
  pn_text text = {0};
  char step[32];
  pn_putf(&text, "%s\nStep %s is saved in %s.", tn_error_text(),
          pn_grouped(pn_training_result(run->training)->steps, step), run->folder);
  return pn_text_take(&text, &run->failure, NULL);
}

/* What rounding alone leaves, for the words at the end of a run with a low format. */
static void ask_floor(pn_run *run) {
  const pn_solve_options *o = run->options;
  const pn_plan *plan = pn_training_plan(run->training);
  size_t s = plan->n;
  while (s > 0 && !pn_precision_low(&plan->stages[s - 1].precision))
    --s;
  if (!o->floor || run->failure != NULL || s == 0)
    return;
  const pn_precision *p = &plan->stages[s - 1].precision;
  run->floor = o->floor(o->floor_context, run->folder, p->low, p->pure, p->products);
}

static tn_status write_alone(pn_run *run, double started) {
  pn_outcome outcome = pn_training_result(run->training)->outcome;
  bool finished = run->failure == NULL && outcome != PN_INTERRUPTED && outcome != PN_TERMINATED;
  tn_pool_ranks(run->pool, NULL);
  TN_TRY(pn_result_write(run, finished));
  ask_floor(run);
  run->seconds = pn_clock() - started;
  TN_TRY(pn_summary_write(run));
  TN_TRY(pn_report_page(run));
  run->seconds = pn_clock() - started;
  return pn_banner_end(run, run->terminal);
}

enum { LAST_WORDS = 600 }; /* s that fields, audit and report may take the first rank */

/* Ends all ranks together: mpirun takes one that leaves early for lost. */
static tn_status write_all(pn_run *run, double started) {
  tn_status status = TN_OK;
  TN_TRY(pn_training_same(run->training, "at the end"));
  if (run->ranks.comm)
    status = tn_comm_limit(run->ranks.comm, LAST_WORDS);
  if (status == TN_OK && pn_ranks_lead(&run->ranks))
    status = write_alone(run, started);
  return pn_ranks_agree(&run->ranks, "writing the results", status);
}

/* The run in figures, for those who compare runs. */
static void tell_figures(const pn_run *run) {
  const pn_solve_options *o = run->options;
  const pn_train_result *r = pn_training_result(run->training);
  char name[96];
  if (!o->figure)
    return;
  for (size_t i = 0; i < r->n_fields; ++i) {
    if (!r->fields[i].known)
      continue;
    snprintf(name, sizeof name, "error.%.80s", run->problem->unknowns[i].name);
    o->figure(o->figure_context, name, r->fields[i].rel_l2);
  }
  o->figure(o->figure_context, "loss", r->loss);
  o->figure(o->figure_context, "steps", (double)r->steps);
  o->figure(o->figure_context, "seconds", run->seconds);
}

static void tear_down(pn_run *run) {
  pn_training_free(&run->training);
  pn_model_free(&run->model);
  pn_problem_free(&run->problem);
  tn_pool_free(&run->pool);
  if (run->lock >= 0)
    (void)close(run->lock);
  tn_free(&run->folder);
  tn_free(&run->checked);
  tn_free(&run->warnings);
  tn_free(&run->failure);
}

tn_status pn_solve_window(const pn_solve_options *options, const pn_window *window,
                          pn_outcome *outcome) {
  double started = pn_clock();
  pn_run run = {
      .options = options, .lock = -1, .floor = NAN, .ranks = {.comm = options->comm}};
  *outcome = PN_NOT_CONVERGED;
  run.terminal = pn_ranks_lead(&run.ranks) ? options->terminal : NULL;
  tn_status status = prepare(&run, window);
  if (status == TN_OK)
    status = pn_banner_start(&run, run.terminal);
  if (status == TN_OK) {
    run.printed = pn_clock();
    status = train(&run);
  }
  if (status == TN_OK)
    status = write_all(&run, started);
  if (status == TN_OK && window != NULL && window->finish && run.failure == NULL)
    status = window->finish(window->context, &run);
  if (status == TN_OK) {
    *outcome = pn_training_result(run.training)->outcome;
    tell_figures(&run);
  }
  if (status == TN_OK && run.failure != NULL) {
    *outcome = PN_NONFINITE;
    status = TN_FAIL(TN_ENONFINITE, "%s", run.failure);
    run.ranks.known = true;
  }
  if (options->all_failed)
    *options->all_failed = status != TN_OK && (run.ranks.known || options->comm == NULL);
  tear_down(&run);
  return status;
}
