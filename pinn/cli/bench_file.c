/* bench_file.c: the training step of a problem file, as `pinn bench step FILE` times it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/cli/bench.h"

typedef struct file_run {
  pn_problem *problem;
  pn_step *step;
  size_t n;
  double *theta, *gradient;
} file_run;

static tn_status step(void *self, double *loss) {
  file_run *r = self;
  return pn_step_run(r->step, loss, r->gradient);
}

static tn_status descend(void *self, double rate) {
  file_run *r = self;
  for (size_t i = 0; i < r->n; ++i)
    r->theta[i] -= rate * r->gradient[i];
  return TN_OK;
}

static tn_status norm(void *self, double *out) {
  file_run *r = self;
  double sum = 0;
  for (size_t i = 0; i < r->n; ++i)
    sum += r->gradient[i] * r->gradient[i];
  *out = sqrt(sum);
  return TN_OK;
}

static void done(void *self) {
  file_run *r = self;
  pn_step_free(&r->step);
  pn_problem_free(&r->problem);
  tn_free(&r->gradient);
  tn_free(&r);
}

static tn_status prepare(file_run *r, const char *path, const bench_options *options,
                         tn_pool *pool) {
  const pn_step_options how = {.dtype_given = options->dtype_given,
                               .dtype = options->dtype,
                               .products = (unsigned)options->products};
  char points[64];
  const char *overrides[] = {points};
  if (options->data)
    return TN_FAIL(TN_EINPUT, "--data goes with a case, not with a problem file");
  snprintf(points, sizeof points, "points.interior=%zu", options->points);
  TN_TRY(pn_problem_load(path, options->points ? 1 : 0, overrides, &r->problem));
  TN_TRY(pn_step_new(r->problem, pool, &how, &r->step));
  r->theta = pn_step_theta(r->step, &r->n);
  return TN_NEW(r->n, &r->gradient);
}

tn_status bench_file_start(const char *path, const bench_options *options, tn_pool *pool,
                           bench_step *out) {
  file_run *r = NULL;
  TN_TRY(TN_NEW(1, &r));
  *out = (bench_step){.self = r, .run = step, .descend = descend, .norm = norm, .done = done};
  tn_status status = prepare(r, path, options, pool);
  if (status != TN_OK) {
    done(r);
    out->self = NULL;
    return status;
  }
  const char *name = strrchr(path, '/');
  out->name = name ? name + 1 : path;
  out->points = pn_step_points(r->step);
  out->parameters = r->n;
  out->dtype = pn_step_dtype(r->step);
  out->precision = pn_step_precision(r->step);
  out->flops = pn_step_flops(r->step);
  out->low_share = pn_step_low_share(r->step);
  pn_step_planned(r->step, &out->report);
  pn_step_program(r->step, &out->program, &out->exec);
  out->loss_exec = pn_step_loss_exec(r->step);
  snprintf(out->shape, sizeof out->shape, "%zu weights", r->n);
  return TN_OK;
}
