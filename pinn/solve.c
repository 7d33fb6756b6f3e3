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
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pinn/banner.h"
#include "pinn/check.h"
#include "pinn/files.h"
#include "pinn/result.h"
#include "pinn/summary.h"
#include "pinn/values.h"

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
  return pn_banner_progress(run, progress, run->options->terminal);
}

static tn_status on_checkpoint(void *context, pn_training *training, bool stage_end) {
  (void)training;
  (void)stage_end;
  return pn_result_write(context, false);
}

/* ---- Folders ------------------------------------------------------------------------------------
 * */

static tn_status standard_name(const char *problem, char **out) {
  char *stem = NULL;
  TN_TRY(pn_path_stem(problem, &stem));
  size_t n = strlen(stem) + sizeof ".out";
  tn_status status = TN_NEW(n, out);
  if (status == TN_OK)
    snprintf(*out, n, "%s.out", stem);
  tn_free(&stem);
  return status;
}

static tn_status holds_result(const char *folder, bool *out) {
  char *path = NULL;
  TN_TRY(pn_path_join(folder, "result.h5", &path));
  *out = pn_path_exists(path);
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
    TN_TRY(standard_name(o->path, &standard));
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
  TN_TRY(standard_name(o->path, &standard));
  tn_status status = pn_next_free_folder(standard, &run->folder);
  tn_free(&standard);
  return status == TN_OK ? pn_lock_folder(run->folder, &run->lock) : status;
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
  tn_dtype dtype = TN_F64;
  TN_TRY(refuse_used(o));
  if (o->device != NULL && strcmp(o->device, "cpu") != 0)
    return TN_FAIL(TN_EENV, "this build has no device `%s`; it runs on the CPU only", o->device);
  TN_TRY(tn_check_float_environment());
  TN_TRY(pn_problem_load(o->path, o->n_overrides, o->overrides, &run->problem));
  pn_sha256_text(run->problem->source.text, run->problem->source.length, run->sha256);
  run->seed = o->seed_given ? o->seed : run->problem->seed;
  run->limit = o->seconds > 0 ? o->seconds : run->problem->seconds;
  TN_TRY(pn_problem_dtype(run->problem, &dtype));
  TN_TRY(check(run));
  TN_TRY(tn_pool_new(o->threads, &run->pool));
  return pn_model_new(run->problem, dtype, &run->model);
}

static tn_status make_training(pn_run *run) {
  pn_train_options options = {
      .seed = run->seed,
      .seconds = run->limit,
      .checkpoint_seconds = run->options->save_seconds,
      .context = run,
      .progress = on_progress,
      .checkpoint = on_checkpoint,
      .stop = on_poll,
  };
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
  TN_TRY(find_resumed(run));
  TN_TRY(pn_saved_open(run->folder, saved));
  const pn_saved *s = *saved;
  if (strcmp(s->sha256, run->sha256) != 0) {
    return TN_FAIL(TN_EINPUT,
                   "--resume: %s has changed since %s was written; a run goes on only with the "
                   "same problem",
                   run->options->path, s->path);
  }
  if (!same_overrides(s, run->problem))
    return TN_FAIL(TN_EINPUT, "--resume: --set must be as in the run that wrote %s", s->path);
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

static tn_status prepare(pn_run *run) {
  pn_saved *saved = NULL;
  TN_TRY(set_up(run));
  tn_status status = run->options->resume ? open_saved(run, &saved) : TN_OK;
  if (status == TN_OK)
    status = make_training(run);
  if (status == TN_OK && saved != NULL)
    status = restore(run, saved);
  pn_saved_free(&saved);
  if (status == TN_OK && !run->options->resume)
    status = make_fresh(run);
  return status;
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

static tn_status write_all(pn_run *run, double started) {
  pn_outcome outcome = pn_training_result(run->training)->outcome;
  bool finished = run->failure == NULL && outcome != PN_INTERRUPTED && outcome != PN_TERMINATED;
  TN_TRY(pn_result_write(run, finished));
  ask_floor(run);
  run->seconds = pn_clock() - started;
  TN_TRY(pn_summary_write(run));
  TN_TRY(pn_report_page(run));
  run->seconds = pn_clock() - started;
  return pn_banner_end(run, run->options->terminal);
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

tn_status pn_solve(const pn_solve_options *options, pn_outcome *outcome) {
  double started = pn_clock();
  pn_run run = {.options = options, .lock = -1, .floor = NAN};
  *outcome = PN_NOT_CONVERGED;
  tn_status status = prepare(&run);
  if (status == TN_OK)
    status = pn_banner_start(&run, options->terminal);
  if (status == TN_OK) {
    run.printed = pn_clock();
    status = train(&run);
  }
  if (status == TN_OK)
    status = write_all(&run, started);
  if (status == TN_OK)
    *outcome = pn_training_result(run.training)->outcome;
  if (status == TN_OK && run.failure != NULL) {
    *outcome = PN_NONFINITE;
    status = TN_FAIL(TN_ENONFINITE, "%s", run.failure);
  }
  tear_down(&run);
  return status;
}
