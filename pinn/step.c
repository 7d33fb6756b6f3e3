/* step.c: the training step of a problem by itself: loss and gradient at the first weights.
 *
 * Everything is decided as for a training (points of the first stage, sizes of unknowns and relations, weights
 * of the file), but there is no optimizer, no validation and no output. `pinn bench step` times it and `pinn
 * check` predicts from it.
 *
 * Work in matrix products is counted from the compiled program (ag_products): two operations for each weight, point
 * and channel with points, or in weight gradients pair in which both operands have points. In a low format channels
 * are scaled as at the start of a training and the loss scale is 1.
 */
#include "pinn/step.h"

#include <string.h>

#include "pinn/objective_inside.h"
#include "pinn/values.h"

/* ---- Making ---------------------------------------------------------------------------------- */

static tn_status lay_out(pn_step *s, size_t most, size_t *wanted) {
  const pn_problem *p = s->problem;
  bool *skip = NULL;
  TN_TRY(TN_NEW(p->n_conditions, &skip));
  for (size_t i = 0; i < p->n_conditions; ++i)
    skip[i] = pn_model_is_hard(s->model, &p->conditions[i]);
  tn_status status = pn_sites_new(p, s->model->n_theta, skip, &s->sites);
  tn_free(&skip);
  TN_TRY(status);
  *wanted = 0;
  for (size_t i = 0; i < s->sites->n_sites; ++i) {
    size_t n = s->sites->sites[i].wanted;
    *wanted += n;
    s->sites->sites[i].wanted = most && n > most ? most : n;
  }
  return TN_OK;
}

static tn_status draw(pn_step *s, uint64_t seed) {
  const pn_draw first = {.kind = PN_DRAW_TRAIN, .seed = seed, .stage = 1, .factor = 1};
  return pn_sites_draw(s->sites, &first);
}

/* Points of means are added when the loss is lowered: as many as the interior wants. */
static tn_status limit_means(pn_step *s, size_t before, size_t most, size_t *wanted) {
  for (size_t i = before; i < s->sites->n_sites; ++i) {
    size_t n = s->sites->sites[i].wanted;
    *wanted += n;
    s->sites->sites[i].wanted = most && n > most ? most : n;
  }
  return TN_OK;
}

static tn_status scale_channels(pn_step *s) {
  enum { SAMPLE = 256 };
  bool over = false, changed = false;
  TN_TRY(pn_loss_measure(s->loss, s->theta, SAMPLE, false, &over));
  return pn_loss_rescale(s->loss, 1, &changed);
}

static tn_status build(pn_step *s, const pn_step_options *o, size_t most, size_t *wanted) {
  pn_precision precision;
  double *size = NULL;
  if (o->dtype_given)
    TN_TRY(pn_precision_of_dtype(o->dtype, &precision));
  else
    TN_TRY(pn_problem_precision(s->problem, NULL, &precision));
  if (o->products == 3 && pn_precision_low(&precision) && !precision.pure)
    precision.products = 3;
  TN_TRY(pn_model_new(s->problem, precision.model, &s->model));
  TN_TRY(lay_out(s, most, wanted));
  TN_TRY(draw(s, o->seed));
  TN_TRY(pn_scopes_new(s->model, s->sites, &s->scopes));
  TN_TRY(TN_NEW(s->problem->n_unknowns, &size));
  size_t before = s->sites->n_sites;
  tn_status status = pn_scale_unknowns(s->scopes, size);
  if (status == TN_OK)
    status = pn_loss_new_in(s->scopes, s->pool, &precision, &s->loss);
  if (status == TN_OK)
    status = limit_means(s, before, most, wanted);
  if (status == TN_OK)
    status = draw(s, o->seed);
  if (status == TN_OK)
    status = pn_scale_terms(s->scopes, size, s->loss, NULL);
  tn_free(&size);
  for (size_t m = 0; status == TN_OK && m < s->sites->n_terms; ++m) {
    const pn_term *term = s->sites->terms[m].term;
    pn_loss_set_weight(s->loss, m, term->weight ? 1 : term->weight_number);
  }
  if (status == TN_OK)
    status = pn_loss_bind(s->loss);
  for (size_t i = 0; i < s->sites->n_sites; ++i)
    s->points += s->sites->sites[i].n;
  if (status == TN_OK)
    status = TN_NEW(s->model->n_theta, &s->theta);
  if (status == TN_OK)
    status = pn_model_init(s->model, o->seed, s->theta);
  return status == TN_OK && pn_precision_scales(&precision) ? scale_channels(s) : status;
}

tn_status pn_step_limited(pn_problem *problem, tn_pool *pool, const pn_step_options *options,
                          size_t most, size_t *wanted, pn_step **out) {
  pn_step *s = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &s));
  s->problem = problem;
  s->pool = pool;
  tn_status status = build(s, options, most, wanted);
  if (status != TN_OK)
    pn_step_free(&s);
  *out = s;
  return status;
}

tn_status pn_step_new(pn_problem *problem, tn_pool *pool, const pn_step_options *options,
                      pn_step **out) {
  size_t wanted = 0;
  return pn_step_limited(problem, pool, options, 0, &wanted, out);
}

void pn_step_free(pn_step **step) {
  pn_step *s = *step;
  if (!s)
    return;
  pn_loss_free(&s->loss);
  pn_scopes_free(&s->scopes);
  pn_sites_free(&s->sites);
  pn_model_free(&s->model);
  tn_free(&s->theta);
  tn_free(step);
}

/* ---- Use --------------------------------------------------------------------------------------- */

tn_status pn_step_run(pn_step *s, double *loss, double *gradient) {
  return pn_objective_gradient(pn_loss_objective(s->loss), s->theta, loss, gradient);
}

double *pn_step_theta(pn_step *s, size_t *n) {
  *n = s->model->n_theta;
  return s->theta;
}

size_t pn_step_points(const pn_step *s) { return s->points; }
tn_dtype pn_step_dtype(const pn_step *s) { return s->model->dtype; }
tn_dtype pn_step_precision(const pn_step *s) {
  return pn_precision_compute(pn_loss_precision(s->loss));
}
size_t pn_step_bytes(const pn_step *s) { return pn_loss_bytes(s->loss); }

void pn_step_planned(const pn_step *s, ag_resolve_report *out) {
  *out = *pn_loss_channels(s->loss);
}

void pn_step_program(pn_step *s, const tn_program **program, tn_exec **exec) {
  *program = s->loss->gradient.program;
  *exec = s->loss->gradient.exec;
}

tn_exec *pn_step_loss_exec(pn_step *s) { return s->loss->value.exec; }

/* ---- Work -------------------------------------------------------------------------------------- */

static pn_work work_of(const pn_step *s) {
  pn_products products = {0};
  pn_work work = {0};
  if (pn_products_new(s->loss->gradient.program, &products) == TN_OK)
    work = pn_loss_work_of(s->loss, &products);
  pn_products_free(&products);
  return work;
}

double pn_step_flops(const pn_step *s) { return work_of(s).total; }

double pn_step_low_share(const pn_step *s) {
  pn_work work = work_of(s);
  return work.total > 0 ? work.low / work.total : 0;
}
