/* check_cost.c: what a step and the run will cost, from a step that is run.
 *
 * The real program of loss and gradient runs at the first weights, with at most a few thousand points on each
 * site. If that is all of them, the time is measured and nothing is inferred; else it runs with half as many too,
 * and
 *
 *   t(P) = t(P2) + b (P - P2),   b = (t(P2) - t(P1)) / (P2 - P1), kept in [1/2, 1] t(P2) / P2,
 *
 * P points of all sites together: the executor goes through points tile by tile, so time is linear, and its
 * memory is that of one tile a thread, so only the points themselves grow with P. Times are the least of several
 * runs: other work on the machine only lengthens them.
 *
 * The run. A stage's optimizer takes a few real steps on few points. What they need beyond their gradients is
 * its own work, which does not depend on points (a pass over an n x n matrix, say):
 *
 *   stage = steps * (e t + own),   e = 1 for methods with a learning rate, else typical_search.
 *
 * That is to the last step of each stage: stopping early, refinement, validation and files are not in it. Methods
 * that factorise J (PN_OPT_COSTLY) are not predicted.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"
#include "pinn/check.h"
#include "pinn/run.h"
#include "pinn/step.h"
#include "pinn/train.h"

enum { MOST_POINTS = 4096, LEAST_POINTS = 512, ROUNDS = 3, OWN_STEPS = 3, OWN_POINTS = 256, FEWEST_POINTS = 16 };
/* Points of validation and of refinement, over those of training. */
enum { VALIDATION = 4, POOL = 8 };
static const double few_flops = 4e8;       /* of the steps that are run: some 10 ms */
static const double round_seconds = 0.02;  /* of one round of runs */
static const double typical_search = 1.15; /* gradients a step of a line search that goes well */
static const double touched_mib = 1.25;    /* code and stacks that a step is the first to use */
static const double around_mib = 6.5;      /* validation, files and report; alike for problems */
static const double dense_mib = 64;        /* no more of a dense optimizer is made for measuring */

typedef struct cost {
  pn_checking *c;
  tn_pool *pool;
  pn_step *step;
  double *gradient;
  size_t wanted, most;
  double seconds, mib;  /* of a step with all points; of the process while it runs */
  double run_mib;       /* of the process during a training */
  double stages;        /* seconds of all stages */
  double state;         /* bytes of the largest optimizer */
  const char *left_out; /* a method whose own work is not in `stages`; NULL */
} cost;

/* ---- The step ------------------------------------------------------------------------------------ */

/* Points with at most `batch` on a site; 0: all. */
static double points_bound(const pn_step *s, size_t batch) {
  double n = 0;
  for (size_t i = 0; i < s->sites->n_sites; ++i) {
    size_t own = s->sites->sites[i].n;
    n += (double)(batch && own > batch ? batch : own);
  }
  return n;
}

/* Lowers *least to the least time of a step with at most `batch` points on a site. */
static tn_status time_step(cost *k, size_t batch, double seconds, double *least) {
  double loss = 0, end = 0;
  TN_TRY(pn_loss_bind_batch(k->step->loss, batch, 0));
  TN_TRY(pn_step_run(k->step, &loss, k->gradient)); /* makes storage */
  end = pn_clock() + seconds;
  do {
    double start = pn_clock();
    TN_TRY(pn_step_run(k->step, &loss, k->gradient));
    *least = fmin(*least, pn_clock() - start);
  } while (pn_clock() < end);
  return TN_OK;
}

static double bytes_a_point(const pn_step *s) {
  double bytes = 0, points = 0;
  for (size_t i = 0; i < s->sites->n_sites; ++i) {
    const pn_site *site = &s->sites->sites[i];
    size_t columns = 0;
    for (size_t j = 0; j < PN_MAX_COORDINATES; ++j)
      columns += site->column[j] != NULL;
    points += (double)site->n;
    bytes += (double)(site->n * columns * (sizeof(double) + tn_dtype_size(s->model->dtype)));
  }
  return points > 0 ? bytes / points : 0;
}

/* before: bytes held by the library before the step was made. */
/* Bytes of the partial sums of the gradient that all points need beyond those of the sample. */
static double more_slots(const cost *k) {
  const pn_step *s = k->step;
  double share = (double)k->wanted / (double)s->points, bytes = 0;
  size_t n = s->model->n_theta, size = tn_dtype_size(s->model->dtype), lanes = 64 / size;
  for (size_t i = 0; i < s->sites->n_sites; ++i) {
    size_t own = s->sites->sites[i].n, all = (size_t)ceil((double)own * share);
    if (own < k->most || all <= own)
      continue; /* all of it is in the sample */
    bytes += (double)(size * n * (tn_slot_count(all, lanes, n) - tn_slot_count(own, lanes, n)));
  }
  return bytes;
}

/* Operations in matrix products of the sample over those of all points. */
static tn_status share_of_work(const cost *k, double *out) {
  const pn_step_options options = {.seed = k->c->problem->seed};
  pn_step *whole = NULL;
  size_t wanted = 0;
  TN_TRY(pn_step_limited(k->c->problem, k->pool, &options, 0, &wanted, &whole));
  *out = fmin(fmax(pn_step_flops(k->step) / pn_step_flops(whole), 1e-9), 1);
  pn_step_free(&whole);
  return TN_OK;
}

static tn_status measure_step(cost *k, double base_mib, size_t before) {
  size_t most = k->most;
  double t1 = INFINITY, t2 = INFINITY, p1 = 0, p2 = 0, wanted = (double)k->wanted;
  p2 = points_bound(k->step, 0);
  p1 = points_bound(k->step, most / 2);
  bool all = p2 >= wanted;
  for (int round = 0; round < ROUNDS; ++round) {
    if (!all)
      TN_TRY(time_step(k, most / 2, round_seconds, &t1));
    TN_TRY(time_step(k, 0, round_seconds, &t2));
  }
  double bytes = (double)(tn_memory_peak() - before);
  k->seconds = t2;
  if (!all && p2 > p1) {
    double share = 0; /* sets of points cost differently: their products tell how much */
    TN_TRY(share_of_work(k, &share));
    double slope = fmax((t2 - t1) / (p2 - p1), 0.5 * t2 / p2); /* what there is for any point */
    k->seconds = fmax(t2 / share, t2 + fmin(slope, t2 / p2) * (wanted - p2));
    bytes += bytes_a_point(k->step) * (wanted - p2) + more_slots(k);
  }
  k->mib = base_mib + touched_mib + bytes / (1 << 20);
  return TN_OK;
}

/* ---- The stages ------------------------------------------------------------------------------------ */

/* Seconds of a step of an optimizer beyond its gradients, from a few steps on few points; a loss is a third of a
 * gradient, as its program is of the other's. */
static tn_status own_time(cost *k, pn_opt *opt, const pn_opt_context *context, double *theta,
                          double gradient_seconds, double *own) {
  pn_objective *f = pn_loss_objective(k->step->loss);
  pn_step_report report;
  *own = INFINITY;
  for (int i = 0; i <= OWN_STEPS; ++i) {
    double start = pn_clock();
    TN_TRY(pn_opt_step(opt, context, f, theta, &report));
    double seconds = pn_clock() - start;
    double inside = (double)report.gradients + (double)report.losses / 3;
    if (i > 0) /* the first makes storage */
      *own = fmin(*own, fmax(0, seconds - inside * gradient_seconds));
    if (report.stop || report.nonfinite)
      break;
  }
  if (isinf(*own))
    *own = 0;
  return TN_OK;
}

static tn_status try_optimizer(cost *k, const pn_plan_stage *stage, double *own) {
  size_t n = k->step->model->n_theta;
  const pn_opt_context context = {.pool = k->pool, .rate = 1e-6};
  pn_setting setting = {"memory", (double)stage->stage.memory};
  bool set = pn_opt_option(stage->class_, "memory") != NULL && stage->stage.memory > 0;
  pn_opt *opt = NULL;
  double *theta = NULL, least = INFINITY;
  *own = 0;
  TN_TRY(TN_NEW(n, &theta));
  memcpy(theta, k->step->theta, n * sizeof *theta);
  size_t before = tn_memory_now();
  tn_status status = pn_opt_new(stage->class_, n, &setting, set, &context, &opt);
  k->state = fmax(k->state, (double)(tn_memory_now() - before));
  for (int i = 0; status == TN_OK && i < OWN_STEPS; ++i)
    status = time_step(k, OWN_POINTS, 0, &least);
  if (status == TN_OK)
    status = own_time(k, opt, &context, theta, least, own);
  pn_opt_free(&opt);
  tn_free(&theta);
  return status;
}

static tn_status add_stage(cost *k, const pn_plan_stage *stage) {
  double n = (double)k->step->model->n_theta, own = 0, seconds = 0;
  bool by_rate = stage->class_->flags & PN_OPT_RATE;
  bool large = (stage->class_->flags & PN_OPT_DENSE) && 8 * n * n > dense_mib * (1 << 20);
  if (large)
    k->state = fmax(k->state, 8 * n * n);
  if (large || (stage->class_->flags & PN_OPT_COSTLY))
    k->left_out = stage->class_->name;
  if (stage->class_->flags & PN_OPT_COSTLY)
    return TN_OK;
  if (!large)
    TN_TRY(try_optimizer(k, stage, &own));
  seconds = (double)stage->stage.steps * ((by_rate ? 1 : typical_search) * k->seconds + own);
  if (stage->stage.seconds > 0)
    seconds = fmin(seconds, stage->stage.seconds);
  k->stages += seconds;
  return TN_OK;
}

static tn_status add_stages(cost *k) {
  pn_plan plan = {0};
  TN_TRY(pn_plan_new(k->c->problem, k->step->model->n_theta, &plan));
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < plan.n; ++i)
    status = add_stage(k, &plan.stages[i]);
  pn_plan_free(&plan);
  if (k->c->problem->seconds > 0)
    k->stages = fmin(k->stages, k->c->problem->seconds);
  const char *refine = k->c->problem->points.refine;
  double drawn = VALIDATION + (refine && strcmp(refine, "rad") == 0 ? POOL : 0);
  double bytes = k->state + drawn * (double)k->wanted * bytes_a_point(k->step);
  k->run_mib = k->mib + around_mib + bytes / (1 << 20);
  return status;
}

/* ---- Words ------------------------------------------------------------------------------------------- */

static void put_time(pn_text *out, double seconds) {
  if (seconds < 0.0995)
    pn_putf(out, "%.2g ms", 1e3 * seconds);
  else if (seconds < 99.5)
    pn_putf(out, "%.2g s", seconds);
  else if (seconds < 5970)
    pn_putf(out, "%.0f min", seconds / 60);
  else
    pn_putf(out, "%.0f h", seconds / 3600);
}

static void put_cost(cost *k) {
  pn_text line = {0};
  size_t threads = tn_pool_threads(k->pool);
  pn_put(&line, "a step (loss and gradient) in ");
  put_time(&line, k->seconds);
  pn_putf(&line, " on %zu thread%s, within %.0f MiB", threads, threads == 1 ? "" : "s", k->mib);
  if (k->step->points < k->wanted)
    pn_putf(&line, " (from %zu of %zu points)", k->step->points, k->wanted);
  if (k->left_out && k->stages == 0) {
    pn_putf(&line, "; what %s takes for itself is not predicted", k->left_out);
  } else {
    pn_put(&line, "; all stages to their last step: ");
    put_time(&line, k->stages);
    pn_putf(&line, ", within %.0f MiB", k->run_mib);
    if (k->left_out)
      pn_putf(&line, "; the own work and memory of %s come on top", k->left_out);
  }
  if (pn_text_status(&line) == TN_OK && line.text)
    pn_put_wrapped(&k->c->out, "expects", PN_LABEL, line.text);
  pn_text_free(&line);
  if (!k->c->json)
    return;
  pn_json_number(k->c->json, "step_ms", 1e3 * k->seconds);
  pn_json_number(k->c->json, "step_mib", k->mib);
  pn_json_number(k->c->json, "run_seconds", k->left_out && k->stages == 0 ? NAN : k->stages);
  pn_json_boolean(k->c->json, "run_complete", k->left_out == NULL);
  pn_json_number(k->c->json, "run_mib", k->run_mib);
}

/* The step on few points; on fewer where each costs much (many channels, nodes of integrals). */
static tn_status make_step(cost *k) {
  const pn_step_options options = {.seed = k->c->problem->seed};
  TN_TRY(pn_step_limited(k->c->problem, k->pool, &options, k->most, &k->wanted, &k->step));
  double excess = pn_step_flops(k->step) / few_flops;
  if (excess <= 1 || k->most <= FEWEST_POINTS)
    return TN_OK;
  pn_step_free(&k->step);
  k->most = (size_t)fmax((double)k->most / excess, FEWEST_POINTS);
  return pn_step_limited(k->c->problem, k->pool, &options, k->most, &k->wanted, &k->step);
}

static tn_status predict(cost *k) {
  double most = few_flops / (24 * (double)k->c->model->n_theta + 1);
  size_t before = tn_memory_now();
  k->most = (size_t)fmin(fmax(most, LEAST_POINTS), MOST_POINTS);
  tn_memory_reset_peak();
  TN_TRY(tn_pool_new(0, &k->pool));
  TN_TRY(make_step(k));
  TN_TRY(TN_NEW(k->step->model->n_theta, &k->gradient));
  TN_TRY(measure_step(k, k->c->base_mib, before));
  TN_TRY(add_stages(k));
  put_cost(k);
  return TN_OK;
}

tn_status pn_check_cost(pn_checking *c) {
  cost k = {.c = c};
  pn_plan plan = {0};
  TN_TRY(pn_plan_new(c->problem, c->model->n_theta, &plan)); /* stages that solve would refuse */
  pn_plan_free(&plan);
  if (c->errors > 0) /* there is no step to run */
    return TN_OK;
  tn_status status = predict(&k);
  pn_step_free(&k.step);
  tn_pool_free(&k.pool);
  tn_free(&k.gradient);
  if (status == TN_ENOMEM)
    return status;
  if (status != TN_OK)
    tn_error_clear(); /* what cannot be trained is told elsewhere */
  return TN_OK;
}
