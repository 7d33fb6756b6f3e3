/* train.c: a training run from the model to the first step.
 *
 * Order: the plan, the layout of the points, sizes of the unknowns, the loss, sizes of the
 * relations, first weights, the validation. Everything a user sees in the banner is decided here
 * and nothing later. A stage in another precision than the problem's gets an edition of the loss of
 * its own over the same theta and points, and of the model too if that is of another dtype.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pinn/train_inside.h"

double pn_training_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Points, scales, weights ----------------------------------------------------------------- */

tn_status pn_training_draw(pn_training *t) {
  const pn_draw draw = {.kind = PN_DRAW_TRAIN,
                        .seed = t->options.seed,
                        .stage = t->stage + 1,
                        .round = 0,
                        .factor = 1};
  return pn_sites_draw(t->sites, &draw);
}

tn_status pn_training_apply(pn_training *t) {
  size_t k = 0;
  for (size_t m = 0; m < t->sites->n_terms; ++m) {
    pn_loss_set_weight(t->loss, m, t->weight[m]);
    for (size_t r = 0; r < pn_loss_relations(t->loss, m); ++r)
      pn_loss_set_scale(t->loss, m, r, t->scale[k++]);
  }
  if (t->causal)
    pn_causal_set(t->loss, t->causal);
  return pn_loss_bind(t->loss);
}

static void file_weights(const pn_training *t, double *weight) {
  for (size_t m = 0; m < t->sites->n_terms; ++m) {
    const pn_term *term = t->sites->terms[m].term;
    weight[m] = term->weight ? 1 : term->weight_number;
  }
}

/* ---- Editions -------------------------------------------------------------------------------- */

static bool serves(const pn_edition *e, const pn_precision *p) {
  return e->precision.model == p->model && e->precision.low == p->low &&
         e->precision.pure == p->pure && e->precision.products == p->products;
}

/* The share of low formats is one of the whole run. */
static tn_status count_work(const pn_training *t, pn_loss *loss) {
  pn_precision p;
  return pn_training_low(t, &p) ? pn_loss_count_work(loss) : TN_OK;
}

static tn_status make_model(pn_training *t, pn_edition *e) {
  tn_dtype dtype = e->precision.model;
  TN_TRY(pn_model_new(t->problem, dtype, &e->model));
  if (e->model->n_theta != t->n)
    return TN_FAIL(TN_EINTERNAL, "a model in %s has %zu weights instead of %zu",
                   tn_dtype_name(dtype), e->model->n_theta, t->n);
  memcpy(e->model->unknown_scale, t->main.model->unknown_scale,
         t->problem->n_unknowns * sizeof *e->model->unknown_scale);
  return pn_scopes_new(e->model, t->sites, &e->scopes);
}

/* Editions whose models have the same dtype share one. */
static tn_status add_edition(pn_training *t, const pn_precision *precision) {
  TN_TRY(tn_grow(&t->others, t->n_others, t->n_others + 1, sizeof *t->others));
  pn_edition *e = &t->others[t->n_others++];
  e->precision = *precision;
  if (precision->model != t->main.model->dtype)
    TN_TRY(make_model(t, e));
  pn_scopes *scopes = e->model ? e->scopes : t->main.scopes;
  TN_TRY(pn_loss_new_in(scopes, t->pool, precision, &e->loss));
  return count_work(t, e->loss);
}

tn_status pn_training_choose(pn_training *t, size_t s) {
  const pn_precision *p = &t->plan.stages[s].precision;
  size_t i = 0;
  t->loss = t->main.loss;
  if (serves(&t->main, p))
    return TN_OK;
  while (i < t->n_others && !serves(&t->others[i], p))
    ++i;
  if (i == t->n_others)
    TN_TRY(add_edition(t, p));
  t->loss = t->others[i].loss;
  return TN_OK;
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* The plan has refused what the method must have and lacks (plan.c). */
static void set_option(const pn_plan_stage *stage, const char *name, double value, bool asked,
                       pn_setting *settings, size_t *n) {
  if (asked && pn_opt_option(stage->class_, name))
    settings[(*n)++] = (pn_setting){name, value};
}

/* Relative rounding of the loss that line searches shall not take for a change, where it is not f64's or f32's. */
static double line_noise(const pn_precision *p) {
  double u = tn_dtype_roundoff(p->low);
  return 2 * (p->products == 3 ? u * u : u);
}

tn_status pn_training_optimizer(pn_training *t, size_t s) {
  const pn_plan_stage *stage = &t->plan.stages[s];
  pn_setting settings[5];
  size_t n = 0;
  const pn_stage *k = &stage->stage;
  set_option(stage, "clip", k->clip, k->clip > 0, settings, &n);
  set_option(stage, "clip_value", k->clip_value, k->clip_value > 0, settings, &n);
  set_option(stage, "decay", k->decay, !isnan(k->decay), settings, &n);
  set_option(stage, "memory", (double)k->memory, k->memory > 0, settings, &n);
  const double noise = line_noise(&stage->precision);
  set_option(stage, "noise", noise, pn_precision_low(&stage->precision) && noise > 0x1p-20,
             settings, &n);
  const pn_opt_context context = {.pool = t->pool, .seed = t->options.seed, .rate = k->rate};
  pn_opt_free(&t->opt);
  return pn_opt_new(stage->class_, t->n, settings, n, &context, &t->opt);
}

/* ---- Refinement ------------------------------------------------------------------------------ */

enum { POOL = 8 }; /* candidates a point */

static tn_status refine_site(pn_training *t, size_t i) {
  pn_site *site = &t->sites->sites[i];
  pn_site pool = *site;
  size_t n = site->n, *chosen = NULL;
  double *size = NULL;
  char stream[224];
  const pn_draw draw = {PN_DRAW_POOL, t->options.seed, t->stage + 1, t->round, 1};
  memset(pool.column, 0, sizeof pool.column);
  memset(pool.normal, 0, sizeof pool.normal);
  pool.n = 0;
  snprintf(stream, sizeof stream, "rad:%zu:%zu:%s", t->stage + 1, t->round, site->key);
  tn_status status = pn_site_draw(t->sites, &pool, &draw, POOL * n);
  if (status == TN_OK)
    status = TN_NEW(pool.n, &size);
  if (status == TN_OK)
    status = TN_NEW(n, &chosen);
  if (status == TN_OK)
    status = pn_loss_sizes(t->loss, t->theta, i, &pool, size);
  if (status == TN_OK)
    status = pn_rad_choose(pool.n, size, t->options.seed, stream, n, chosen);
  for (size_t c = 0; status == TN_OK && c < PN_MAX_COORDINATES; ++c)
    for (size_t k = 0; site->column[c] && k < n; ++k)
      site->column[c][k] = pool.column[c][chosen[k]];
  pn_site_clear(&pool);
  tn_free(&size);
  tn_free(&chosen);
  return status;
}

tn_status pn_training_refine(pn_training *t) {
  ++t->round;
  for (size_t i = 0; i < t->sites->n_sites; ++i) {
    const pn_site *site = &t->sites->sites[i];
    if (site->term->where == PN_IN && site->free_ && strncmp(site->key, "mean:", 5) != 0)
      TN_TRY(refine_site(t, i));
  }
  return pn_loss_bind(t->loss);
}

/* ---- The object ------------------------------------------------------------------------------ */

static tn_status lay_out(pn_training *t) {
  const pn_problem *problem = t->problem;
  bool *skip = NULL;
  TN_TRY(TN_NEW(problem->n_conditions, &skip));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    skip[i] = pn_model_is_hard(t->main.model, &problem->conditions[i]);
  tn_status status = pn_sites_new(problem, t->n, skip, &t->sites);
  tn_free(&skip);
  return status;
}

static tn_status allocate(pn_training *t) {
  size_t n_terms = t->sites->n_terms, n_unknowns = t->problem->n_unknowns;
  for (size_t m = 0; m < n_terms; ++m)
    t->n_scales += t->sites->terms[m].term->n_relations;
  TN_TRY(TN_NEW(t->n, &t->theta));
  TN_TRY(pn_causal_new(t));
  TN_TRY(TN_NEW(t->n, &t->good));
  TN_TRY(TN_NEW(t->n, &t->incoming));
  TN_TRY(TN_NEW(n_terms, &t->weight));
  TN_TRY(TN_NEW(t->n_scales, &t->scale));
  TN_TRY(TN_NEW(n_unknowns, &t->size));
  TN_TRY(TN_NEW(n_terms, &t->relative));
  TN_TRY(TN_NEW(n_unknowns, &t->error));
  TN_TRY(TN_NEW(t->problem->n_parameters, &t->parameter));
  TN_TRY(TN_NEW(n_unknowns + n_terms, &t->texts));
  t->history.n_terms = n_terms;
  t->history.n_unknowns = n_unknowns;
  t->history.n_parameters = t->result.n_parameters = t->problem->n_parameters;
  t->result.n_stages = t->plan.n;
  t->result.n_fields = n_unknowns;
  t->result.n_terms = n_terms;
  for (size_t i = 0; i < t->problem->n_conditions; ++i)
    t->result.n_terms += pn_model_is_hard(t->main.model, &t->problem->conditions[i]);
  t->result.n_checks = t->problem->n_checks;
  TN_TRY(TN_NEW(t->plan.n, &t->result.stages));
  TN_TRY(TN_NEW(n_unknowns, &t->result.fields));
  TN_TRY(TN_NEW(t->problem->n_parameters, &t->result.parameters));
  TN_TRY(TN_NEW(n_unknowns, &t->result.identified.spread));
  for (size_t u = 0; u < n_unknowns; ++u)
    t->error[u] = NAN;
  TN_TRY(TN_NEW(t->result.n_terms + t->result.n_checks, &t->result.terms));
  t->result.checks = t->result.terms + t->result.n_terms;
  return TN_OK;
}

static tn_status scale_all(pn_training *t) {
  pn_model *model = t->main.model;
  size_t n_unknowns = t->problem->n_unknowns, k = 0;
  TN_TRY(pn_scale_terms(t->main.scopes, t->size, t->main.loss, t->texts + n_unknowns));
  for (size_t m = 0; m < t->sites->n_terms; ++m)
    for (size_t r = 0; r < pn_loss_relations(t->main.loss, m); ++r)
      t->scale[k++] = pn_loss_scale(t->main.loss, m, r);
  for (size_t u = 0; u < n_unknowns; ++u) {
    char *words = NULL;
    TN_TRY(pn_arena_format(model->arena, &words, "%s by %.2g (%s)", t->problem->unknowns[u].name,
                           t->size[u], model->unknown_scale_source[u]));
    t->texts[u] = words;
  }
  return TN_OK;
}

static tn_status measure_step(pn_training *t) {
  double *gradient = NULL, loss = 0;
  TN_TRY(TN_NEW(t->n, &gradient));
  tn_status status = pn_objective_gradient(pn_loss_objective(t->loss), t->theta, &loss, gradient);
  double start = pn_training_clock();
  if (status == TN_OK)
    status = pn_objective_gradient(pn_loss_objective(t->loss), t->theta, &loss, gradient);
  t->step_seconds = pn_training_clock() - start;
  tn_free(&gradient);
  return status;
}

static tn_status build(pn_training *t) {
  pn_edition *e = &t->main;
  TN_TRY(pn_weight_find(t->problem->weights.scheme ? t->problem->weights.scheme : "balance",
                        &t->scheme));
  TN_TRY(pn_plan_new(t->problem, t->n, &t->plan));
  TN_TRY(pn_problem_precision(t->problem, NULL, &e->precision));
  if (e->precision.model != e->model->dtype)
    TN_TRY(pn_precision_of_dtype(e->model->dtype, &e->precision));
  else if (!t->plan.mixed && t->plan.stages[0].precision.model == e->model->dtype)
    e->precision = t->plan.stages[0].precision;
  pn_plan_limit(&t->plan, t->options.seconds);
  TN_TRY(lay_out(t));
  TN_TRY(allocate(t));
  TN_TRY(pn_training_draw(t));
  TN_TRY(pn_scopes_new(e->model, t->sites, &e->scopes));
  TN_TRY(pn_scale_unknowns(e->scopes, t->size));
  TN_TRY(pn_loss_new_in(e->scopes, t->pool, &e->precision, &e->loss));
  TN_TRY(count_work(t, e->loss));
  TN_TRY(pn_training_draw(t)); /* again: the loss may have added points of means */
  TN_TRY(scale_all(t));
  file_weights(t, t->weight);
  pn_data_weigh(e->loss, t->sites->n_terms, t->weight);
  t->loss = e->loss;
  TN_TRY(pn_training_apply(t));
  TN_TRY(pn_model_init(e->model, t->options.seed, t->theta));
  if (t->options.theta && t->options.n_theta == t->n)
    memcpy(t->theta, t->options.theta, t->n * sizeof *t->theta);
  memcpy(t->good, t->theta, t->n * sizeof *t->theta);
  TN_TRY(pn_metrics_new(e->scopes, t->options.seed, t->pool, &t->metrics));
  TN_TRY(measure_step(t));
  pn_low_sum(t); /* those steps are no part of the run */
  t->flops[0] = -t->result.low.flops_low;
  t->flops[1] = -t->result.low.flops;
  pn_low_sum(t);
  return TN_OK;
}

tn_status pn_training_new(pn_model *model, tn_pool *pool, const pn_train_options *options,
                          pn_training **out) {
  *out = NULL;
  pn_training *t = NULL;
  TN_TRY(TN_NEW(1, &t));
  t->problem = model->problem;
  t->pool = pool;
  t->options = *options;
  t->main.model = model;
  t->n = model->n_theta;
  t->mark_loss = NAN;
  if (t->options.seconds <= 0)
    t->options.seconds = t->problem->seconds;
  if (t->options.checkpoint_seconds <= 0)
    t->options.checkpoint_seconds = 30;
  tn_status status = build(t);
  if (status != TN_OK)
    pn_training_free(&t);
  *out = t;
  return status;
}

void pn_training_free(pn_training **training) {
  pn_training *t = *training;
  if (!t)
    return;
  pn_opt_free(&t->opt);
  pn_metrics_free(&t->metrics);
  pn_loss_free(&t->main.loss);
  pn_scopes_free(&t->main.scopes);
  for (size_t i = 0; i < t->n_others; ++i) {
    pn_loss_free(&t->others[i].loss);
    pn_scopes_free(&t->others[i].scopes);
    pn_model_free(&t->others[i].model);
  }
  tn_free(&t->others);
  pn_sites_free(&t->sites);
  pn_plan_free(&t->plan);
  pn_history_free(&t->history);
  tn_free(&t->theta);
  tn_free(&t->causal);
  tn_free(&t->good);
  tn_free(&t->incoming);
  tn_free(&t->weight);
  tn_free(&t->scale);
  tn_free(&t->size);
  tn_free(&t->relative);
  tn_free(&t->error);
  tn_free(&t->parameter);
  tn_free(&t->texts);
  tn_free(&t->result.stages);
  tn_free(&t->result.fields);
  tn_free(&t->result.parameters);
  tn_free(&t->result.identified.spread);
  tn_free(&t->result.terms);
  tn_free(training);
}

bool pn_training_low(const pn_training *t, pn_precision *precision) {
  for (size_t s = 0; s < t->plan.n; ++s)
    if (pn_precision_low(&t->plan.stages[s].precision)) {
      *precision = t->plan.stages[s].precision;
      return true;
    }
  return false;
}

/* ---- Looking in ------------------------------------------------------------------------------ */

const pn_plan *pn_training_plan(const pn_training *t) { return &t->plan; }
const pn_sites *pn_training_sites(const pn_training *t) { return t->sites; }
const pn_term *pn_training_checked(const pn_training *t, size_t m) {
  return pn_metrics_term(t->metrics, m);
}
const pn_loss *pn_training_loss(const pn_training *t) { return t->loss; }
const pn_history *pn_training_history(const pn_training *t) { return &t->history; }
const pn_train_result *pn_training_result(const pn_training *t) { return &t->result; }
double pn_training_step_seconds(const pn_training *t) { return t->step_seconds; }

const double *pn_training_theta(const pn_training *t, size_t *n) {
  if (n)
    *n = t->n;
  return t->theta;
}

size_t pn_training_scales(const pn_training *t, const char *const **texts) {
  *texts = t->texts;
  return t->problem->n_unknowns + t->sites->n_terms;
}
