/* import.c: pn_import: weights of another program become a result of this one.
 *
 * The result is that of a run with no step: `pinn eval`, `check` and `export` read it, `solve --resume` trains on, and
 * other problems start from it by `from`. The problem file says what the weights mean: which unknowns, of which
 * coordinates, with which activation. What it leaves open and the weights tell (width, depth, inputs as they are) is
 * kept beside the text as --set would keep it, so that the result stands for itself.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pinn/banner.h"
#include "pinn/files.h"
#include "pinn/parity.h"
#include "pinn/result.h"
#include "pinn/values.h"
#include "pinn/warm.h"

static tn_status load(const pn_import_options *o, pn_run *run) {
  char *weights = NULL;
  TN_TRY(pn_problem_load(o->path, o->n_overrides, o->overrides, &run->problem));
  pn_problem *p = run->problem;
  if (pn_warm_is_result(o->weights))
    return TN_FAIL(TN_EINPUT, "%s is a result of pinn: write network.from = \"%s\"", o->weights,
                   o->weights);
  if (!pn_path_exists(o->weights))
    return TN_FAIL(TN_EIO, "%s: there is no such file", o->weights);
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].network)
      return TN_FAIL(TN_EINPUT,
                     "%s: `%s` has a network of its own, and %s holds one network: write `from` into "
                     "the `network` of each unknown and solve",
                     o->path, p->unknowns[u].name, o->weights);
  TN_TRY(pn_arena_format(p->arena, &weights, "%s", o->weights));
  char *absolute = NULL;
  if (weights[0] != '/') { /* `from` is relative to the problem file, a word of the command line is not */
    char folder[4096];
    if (!getcwd(folder, sizeof folder))
      return TN_FAIL(TN_EIO, "the working folder has no name");
    TN_TRY(pn_arena_format(p->arena, &absolute, "%s/%s", folder, weights));
  }
  p->network.from = absolute ? absolute : weights;
  return pn_warm_prepare(p);
}

static tn_status make(const pn_import_options *o, pn_run *run) {
  tn_dtype dtype = TN_F64;
  pn_train_options options = {.context = run, .ranks = &run->ranks};
  TN_TRY(load(o, run));
  pn_sha256_text(run->problem->source.text, run->problem->source.length, run->sha256);
  run->seed = run->problem->seed;
  options.seed = run->seed;
  TN_TRY(pn_problem_dtype(run->problem, &dtype));
  TN_TRY(tn_pool_new(o->threads, &run->pool));
  TN_TRY(pn_model_new(run->problem, dtype, &run->model));
  return pn_training_new(run->model, run->pool, &options, &run->training);
}

static tn_status tell(const pn_import_options *o, const pn_run *run) {
  pn_text text = {0};
  for (size_t i = 0; i < run->model->n_nets; ++i) {
    pn_put(&text, "imported   ");
    pn_put_network(&text, run->model, &run->model->nets[i]);
    pn_put(&text, "\n");
  }
  pn_putf(&text, "inputs     %s\n",
          run->problem->network.normalise ? "mapped to [-1, 1]: the weights were trained so"
                                          : "as they are (normalise = false)");
  tn_status status = pn_text_status(&text);
  if (status == TN_OK && o->terminal)
    fputs(text.text, o->terminal);
  pn_text_free(&text);
  return status;
}

static tn_status choose_folder(const pn_import_options *o, pn_run *run) {
  char *stem = NULL, *inside = NULL, standard[512];
  if (o->out) {
    TN_TRY(pn_path_join(o->out, "result.h5", &inside));
    bool there = pn_path_exists(inside);
    tn_free(&inside);
    if (there)
      return TN_FAIL(TN_EINPUT, "--out %s: the folder holds a run already; choose another", o->out);
    TN_TRY(pn_make_folder(o->out));
    return tn_copy_text(o->out, &run->folder);
  }
  TN_TRY(pn_path_stem(o->path, &stem));
  snprintf(standard, sizeof standard, "%.480s.out", stem);
  tn_free(&stem);
  return pn_next_free_folder(standard, &run->folder);
}

static void tell_end(const pn_import_options *o, const pn_run *run) {
  if (!o->terminal)
    return;
  fprintf(o->terminal, "written    %s: result.h5\ncontinue   pinn solve %s --resume --out %s", run->folder,
          o->path, run->folder);
  for (size_t i = 0; i < run->problem->n_overrides; ++i)
    fprintf(o->terminal, " --set '%s'", run->problem->overrides[i]);
  fputc('\n', o->terminal);
}

static tn_status import(const pn_import_options *o, pn_run *run, double *worst) {
  size_t n = 0;
  TN_TRY(make(o, run));
  TN_TRY(tell(o, run));
  *worst = 0;
  if (o->parity)
    TN_TRY(pn_parity(run->model, run->pool, pn_training_theta(run->training, &n), o->parity,
                     o->terminal, worst));
  TN_TRY(choose_folder(o, run));
  TN_TRY(pn_result_write(run, false));
  tell_end(o, run);
  return TN_OK;
}

tn_status pn_import(const pn_import_options *options, double *worst) {
  const pn_solve_options solve = {.path = options->path, .command = "pinn import"};
  pn_run run = {.options = &solve, .lock = -1, .floor = NAN};
  tn_status status = import(options, &run, worst);
  pn_training_free(&run.training);
  pn_model_free(&run.model);
  pn_problem_free(&run.problem);
  tn_pool_free(&run.pool);
  tn_free(&run.folder);
  return status;
}
