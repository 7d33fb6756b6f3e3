/* values.c: values of expressions at points the caller names.
 *
 * Items are lowered in one scope whose coordinates are free, resolved together (they share
 * derivatives), and compiled once; points then run through the program in blocks, so memory does
 * not grow with their number. Exact solutions are lowered in a second scope with the same
 * coordinates. Without any coordinate a program gives one number, which stands for every point.
 */
#include "pinn/moving.h"
#include "pinn/values.h"

#include <math.h>
#include <string.h>

#include "pinn/region.h"

enum { BLOCK = 512 }; /* points a run */

struct pn_values {
  pn_model *model;
  pn_sites *sites; /* holds the layout and, if needed, points of means */
  pn_scopes *scopes;
  pn_scope scope, exact;
  pn_site means[2]; /* points of means in scope and exact */
  bool has_mean[2];
  pn_term term; /* names the user in errors about tables */
  uint32_t needed;
  size_t n;
  bool *batched; /* item k has a value a point */
  tn_program *program;
  tn_exec *exec;
  pn_weights_buffer weights;
};

tn_status pn_problem_dtype(const pn_problem *problem, tn_dtype *out) {
  pn_precision precision;
  TN_TRY(pn_problem_precision(problem, NULL, &precision));
  *out = precision.model;
  return TN_OK;
}

uint32_t pn_item_depends(const pn_problem *problem, const pn_item *item) {
  uint32_t bits = 0;
  switch (item->kind) {
  case PN_ITEM_UNKNOWN:
    for (size_t j = 0; j < problem->unknowns[item->unknown].n_of; ++j)
      bits |= UINT32_C(1) << problem->unknowns[item->unknown].of[j];
    return bits;
  case PN_ITEM_EXACT:
    return pn_expr_depends(problem, problem->unknowns[item->unknown].exact);
  case PN_ITEM_EXPR:
    return pn_expr_depends(problem, item->expr);
  case PN_ITEM_RELATION:
    return pn_expr_depends(problem, item->relation->lhs) |
           pn_expr_depends(problem, item->relation->rhs);
  }
  return bits;
}

uint64_t pn_item_unknowns(const pn_problem *problem, const pn_item *item) {
  switch (item->kind) {
  case PN_ITEM_UNKNOWN:
  case PN_ITEM_EXACT:
    return item->unknown < 64 ? UINT64_C(1) << item->unknown : 0;
  case PN_ITEM_EXPR:
    return pn_expr_unknowns(problem, item->expr);
  case PN_ITEM_RELATION:
    return pn_expr_unknowns(problem, item->relation->lhs) |
           pn_expr_unknowns(problem, item->relation->rhs);
  }
  return 0;
}

void pn_mask_item(const pn_problem *problem, const pn_item *item, size_t n,
                  const double *const *column, double *values) {
  uint64_t bits = pn_item_unknowns(problem, item);
  bool parts = problem->region != NULL;
  double point[PN_MAX_COORDINATES];
  for (size_t u = 0; u < problem->n_unknowns; ++u)
    parts = parts || ((bits >> u & 1) && problem->unknowns[u].in);
  for (size_t i = 0; parts && i < n; ++i) {
    for (size_t c = 0; c < PN_MAX_COORDINATES; ++c)
      point[c] = column[c] ? column[c][i] : NAN;
    bool in = pn_domain_holds(problem, point);
    for (size_t u = 0; u < problem->n_unknowns && in; ++u)
      in = !(bits >> u & 1) || !problem->unknowns[u].in || pn_unknown_lives(problem, u, point);
    if (!in)
      values[i] = NAN;
  }
}

tn_status pn_item_lower(const pn_item *item, pn_scope *scope, pn_scope *exact, tn_value *out) {
  pn_expr *scalar = NULL;
  switch (item->kind) {
  case PN_ITEM_UNKNOWN:
    return pn_lower_unknown(scope, item->unknown, out);
  case PN_ITEM_EXACT:
    return pn_lower_unknown(exact, item->unknown, out);
  case PN_ITEM_EXPR:
    TN_TRY(pn_scalar(scope->model->problem, item->expr, item->component, NULL, &scalar));
    return pn_lower(scope, scalar, out);
  case PN_ITEM_RELATION:
    return pn_lower_relation(scope, item->relation, out);
  }
  return TN_OK;
}

/* A mean over the volume needs points of its own: as many as an equation has. */
static tn_status draw_mean(pn_values *v, const pn_scope *scope, size_t which) {
  if (scope->mean == NULL)
    return TN_OK;
  pn_site *site = &v->means[which];
  memcpy(site->key, "values:mean", sizeof "values:mean");
  site->term = &v->term;
  site->piece = v->model->problem->domain;
  for (size_t c = 0; c < v->model->problem->n_coordinates; ++c)
    site->free_ |= (uint32_t)scope->mean->free_[c] << c;
  site->wanted = v->sites->interior;
  v->has_mean[which] = true;
  pn_draw draw = {PN_DRAW_CHECK, 0, 0, 0, 1};
  return pn_site_draw(v->sites, site, &draw, site->wanted);
}

static tn_status build(pn_values *v, tn_pool *pool, const pn_item *items) {
  pn_model *model = v->model;
  tn_value *raw = NULL, *out = NULL;
  tn_status status = TN_NEW(v->n, &raw);
  if (status == TN_OK)
    status = TN_NEW(v->n, &out);
  for (size_t k = 0; status == TN_OK && k < v->n; ++k) {
    bool exact = items[k].kind == PN_ITEM_EXACT;
    status = pn_item_lower(&items[k], &v->scope, &v->exact, &raw[k]);
    if (status == TN_OK) /* beyond ends that move there is nothing */
      status = pn_scope_mask(exact ? &v->exact : &v->scope, v->needed & pn_item_depends(model->problem, &items[k]), &raw[k]);
  }
  if (status == TN_OK)
    status = ag_resolve(model->graph, v->n, raw, NULL, out, NULL);
  for (size_t k = 0; status == TN_OK && k < v->n; ++k) {
    tn_shape shape = tn_shape_of(out[k]);
    v->batched[k] = tn_shape_batched(&shape);
  }
  if (status == TN_OK)
    status = draw_mean(v, &v->scope, 0);
  if (status == TN_OK)
    status = draw_mean(v, &v->exact, 1);
  if (status == TN_OK)
    status = tn_compile(model->graph, v->n, out, &v->program);
  if (status == TN_OK)
    status = tn_exec_new(v->program, pool, &v->exec);
  tn_free(&raw);
  tn_free(&out);
  return status;
}

tn_status pn_values_new(pn_model *model, tn_pool *pool, uint32_t needed, size_t n,
                        const pn_item *items, pn_values **out) {
  *out = NULL;
  pn_values *v = NULL;
  TN_TRY(TN_NEW(1, &v));
  v->model = model;
  v->needed = needed;
  v->n = n;
  v->term.name = "evaluation";
  tn_status status = pn_sites_new(model->problem, model->n_theta, NULL, &v->sites);
  if (status == TN_OK)
    status = pn_scopes_new(model, v->sites, &v->scopes);
  if (status == TN_OK)
    status = pn_scope_new(model, "values", NULL, needed, &v->scope);
  if (status == TN_OK) {
    v->exact = v->scope;
    v->exact.exact = true;
    status = TN_NEW(n, &v->batched);
  }
  if (status == TN_OK)
    status = pn_theta_new(model, &v->weights);
  if (status == TN_OK)
    status = build(v, pool, items);
  if (status != TN_OK)
    pn_values_free(&v);
  *out = v;
  return status;
}

void pn_values_free(pn_values **values) {
  pn_values *v = *values;
  if (v == NULL)
    return;
  tn_exec_free(&v->exec);
  tn_program_free(&v->program);
  pn_theta_free(v->model, &v->weights);
  pn_site_clear(&v->means[0]);
  pn_site_clear(&v->means[1]);
  pn_scopes_free(&v->scopes);
  pn_sites_free(&v->sites);
  tn_free(&v->batched);
  tn_free(values);
}

/* Points first .. first + count - 1 as a site that borrows the caller's columns. */
static pn_site site_of(const pn_values *v, const double *const *column, size_t first,
                       size_t count) {
  pn_site site = {.term = &v->term, .free_ = v->needed, .wanted = count, .n = count};
  memcpy(site.key, "values", sizeof "values");
  for (size_t c = 0; c < v->model->problem->n_coordinates; ++c) {
    if (v->needed >> c & 1)
      memcpy(&site.column[c], &(const double *){column[c] + first}, sizeof(double *));
  }
  return site;
}

static tn_status run_block(pn_values *v, const double *const *column, size_t first, size_t count,
                           size_t n_points, double *out) {
  const pn_scope *scope[2] = {&v->scope, &v->exact};
  pn_feed feed = {0};
  pn_site site = site_of(v, column, first, count);
  tn_status status = TN_OK;
  for (size_t s = 0; status == TN_OK && s < 2; ++s) {
    status = pn_feed_site(&feed, v->scopes, scope[s], &site, 0, count);
    if (status == TN_OK && v->has_mean[s])
      status = pn_feed_site(&feed, v->scopes, scope[s]->mean, &v->means[s], 0, v->means[s].n);
  }
  if (status == TN_OK)
    status = pn_feed_bind(&feed, v->exec);
  if (status == TN_OK)
    status = tn_exec_run(v->exec);
  for (size_t k = 0; status == TN_OK && k < v->n; ++k) {
    double *to = out + k * n_points + first;
    status = tn_exec_read(v->exec, k, v->batched[k] ? count : 1, to);
    for (size_t i = 1; status == TN_OK && !v->batched[k] && i < count; ++i)
      to[i] = to[0];
  }
  pn_feed_clear(&feed);
  return status;
}

tn_status pn_values_at(pn_values *v, const double *theta, size_t n_points,
                       const double *const *column, double *out) {
  TN_TRY(pn_theta_set(v->model, &v->weights, theta));
  TN_TRY(pn_theta_bind(v->model, &v->weights, v->exec));
  for (size_t first = 0; first < n_points; first += BLOCK) {
    size_t count = n_points - first < BLOCK ? n_points - first : BLOCK;
    TN_TRY(run_block(v, column, first, count, n_points, out));
  }
  return TN_OK;
}
