/* lower_scope.c: scopes, and what is lowered in them: values, relations and their terms.
 *
 * A scope is a set of points as leaves. A coordinate that the piece fixes is a number of the structure, so
 * that u on the face x = -1 is a call with a constant argument; the others are one input [N] each. The
 * residual of lhs = rhs is lhs - rhs; of lhs <= rhs the violation max(lhs - rhs, 0), whose square has
 * gradient 0 where the inequality holds.
 */
#include "pinn/lower.h"
#include "pinn/region.h"

#include <stdio.h>
#include <string.h>

tn_status pn_scope_new(pn_model *model, const char *name, const pn_piece *piece, uint32_t needed,
                       pn_scope *out) {
  const pn_problem *p = model->problem;
  *out = (pn_scope){.model = model, .piece = piece};
  for (size_t i = 0; piece && i < piece->n_fixed; ++i) {
    out->coordinate[piece->fixed[i]] = tn_const(model->graph, model->dtype, piece->value[i]);
    needed &= ~(UINT32_C(1) << piece->fixed[i]);
  }
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    if (!(needed >> i & 1u))
      continue;
    if (!out->axis)
      out->axis = tn_axis_new(model->graph, name);
    out->coordinate[i] =
        tn_input(model->graph, p->coordinates[i].name, model->dtype, tn_shape_points(out->axis));
    out->free_[i] = true;
  }
  for (size_t i = 0; i < p->n_coordinates && out->axis; ++i) {
    char label[96];
    if (!pn_piece_curved(piece) || p->coordinates[i].role != PN_SPACE)
      continue;
    snprintf(label, sizeof label, "normal.%s", p->coordinates[i].name);
    out->normal[i] = tn_input(model->graph, label, model->dtype, tn_shape_points(out->axis));
  }
  return tn_graph_error(model->graph);
}

tn_status pn_frame_inside(pn_frame *f, const pn_expr *e, tn_value *out) {
  pn_scope *s = f->scope;
  const pn_problem *p = s->model->problem;
  for (size_t i = 0; i < p->n_coordinates; ++i)
    if (p->coordinates[i].role == PN_SPACE && !tn_same(f->coordinate[i], s->coordinate[i]))
      return pn_expr_fail(TN_EUNSUPPORTED, e,
                          "`%s` is known at the points themselves, not at another %s", e->name,
                          p->coordinates[i].name);
  for (size_t i = 0; i < s->n_insides; ++i)
    if (s->inside[i] == e->index) {
      *out = s->inside_leaf[i];
      return TN_OK;
    }
  if (s->n_insides == sizeof s->inside / sizeof s->inside[0])
    return pn_expr_fail(TN_EUNSUPPORTED, e, "more than %zu shapes in one condition", s->n_insides);
  char label[96];
  snprintf(label, sizeof label, "inside.%s",
           e->index == PN_NONE ? "domain" : p->shapes[e->index].name);
  *out = tn_input(s->model->graph, label, s->model->dtype,
                  s->axis ? tn_shape_points(s->axis) : tn_shape_scalar());
  s->inside[s->n_insides] = e->index;
  s->inside_leaf[s->n_insides++] = *out;
  return TN_OK;
}

tn_status pn_scope_of_data(pn_model *model, const char *name, const pn_data *data, uint32_t needed,
                           pn_scope *out) {
  TN_TRY(pn_scope_new(model, name, NULL, needed, out));
  out->data = data;
  if (!out->axis)
    out->axis = tn_axis_new(model->graph, name);
  return tn_graph_error(model->graph);
}

tn_status pn_scope_column(pn_scope *s, size_t index, const char *name, tn_value *out) {
  for (size_t i = 0; i < s->n_columns; ++i)
    if (s->column[i] == index) {
      *out = s->column_leaf[i];
      return TN_OK;
    }
  if (s->n_columns == sizeof s->column / sizeof *s->column)
    return TN_FAIL(TN_EUNSUPPORTED, "`%s`: more than %zu columns of data in one condition", name,
                   s->n_columns);
  *out = tn_input(s->model->graph, name, s->model->dtype, tn_shape_points(s->axis));
  s->column[s->n_columns] = index;
  s->column_leaf[s->n_columns++] = *out;
  return TN_OK;
}

tn_status pn_scope_mean(pn_scope *scope, pn_scope **out) {
  if (scope->is_mean) { /* the mean of a mean is itself */
    *out = scope;
    return TN_OK;
  }
  if (!scope->mean) {
    const pn_problem *p = scope->model->problem;
    pn_scope *mean = NULL;
    TN_TRY(PN_TAKE(scope->model->arena, 1, &mean));
    TN_TRY(pn_scope_new(scope->model, "mean", NULL, (UINT32_C(1) << p->n_coordinates) - 1, mean));
    mean->is_mean = true;
    mean->exact = scope->exact;
    mean->bare = scope->bare;
    if (scope->bare)
      mean->weight = tn_input(scope->model->graph, "weight", scope->model->dtype, tn_shape_points(mean->axis));
    scope->mean = mean;
  }
  *out = scope->mean;
  return TN_OK;
}

tn_status pn_lower(pn_scope *scope, const pn_expr *expr, tn_value *out) {
  pn_frame frame = pn_frame_of(scope);
  tn_status status = pn_frame_lower(&frame, expr, out);
  pn_frame_done(&frame);
  return status;
}

tn_status pn_lower_unknown(pn_scope *scope, size_t unknown, tn_value *out) {
  pn_frame frame = pn_frame_of(scope);
  tn_status status = pn_frame_unknown(&frame, unknown, out);
  pn_frame_done(&frame);
  TN_TRY(status);
  return tn_ok(*out) ? TN_OK : pn_lost_value(scope->model->graph);
}

static bool is_zero(const pn_expr *e) { return e->kind == PN_NUMBER && e->number == 0; }

static tn_status lower_difference(pn_frame *f, const pn_relation *relation, tn_value *out) {
  pn_problem *p = f->scope->model->problem;
  pn_expr *lhs = NULL, *rhs = NULL;
  tn_value a = {0}, b = {0};
  TN_TRY(pn_scalar(p, relation->lhs, relation->component, f->scope->piece, &lhs));
  TN_TRY(pn_scalar(p, relation->rhs, relation->component, f->scope->piece, &rhs));
  TN_TRY(pn_frame_lower(f, lhs, &a));
  TN_TRY(pn_frame_lower(f, rhs, &b));
  pn_place_nodes(f->scope->model->graph, relation->whole);
  *out = is_zero(rhs) ? a : tn_sub(a, b);
  if (relation->op == PN_LESS_EQUAL)
    *out = tn_relu(*out);
  if (relation->op == PN_GREATER_EQUAL)
    *out = tn_relu(tn_neg(*out));
  return TN_OK;
}

tn_status pn_lower_relation(pn_scope *scope, const pn_relation *relation, tn_value *out) {
  pn_frame frame = pn_frame_of(scope);
  tn_status status = lower_difference(&frame, relation, out);
  pn_frame_done(&frame);
  TN_TRY(status);
  return tn_ok(*out) ? TN_OK : pn_lost_value(scope->model->graph);
}

/* ---- Terms -------------------------------------------------------------------------------------- */

typedef struct terms {
  size_t n, capacity;
  pn_expr **exprs;
  int *signs;
} terms;

/* Splits sums while there is room; `spare` entries are kept for what stands behind this tree. */
static void split(terms *t, pn_expr *e, int sign, size_t spare) {
  bool sum = e->kind == PN_ADD || e->kind == PN_SUBTRACT;
  if (is_zero(e))
    return;
  if (e->kind == PN_NEGATE) {
    split(t, e->args[0], -sign, spare);
  } else if (sum && t->n + 2 + spare <= t->capacity) {
    split(t, e->args[0], sign, spare + 1);
    split(t, e->args[1], e->kind == PN_ADD ? sign : -sign, spare);
  } else {
    t->exprs[t->n] = e;
    t->signs[t->n++] = sign;
  }
}

tn_status pn_lower_terms(pn_scope *scope, const pn_relation *relation, size_t capacity, size_t *n,
                         tn_value *values, pn_expr **exprs, int *signs) {
  pn_problem *p = scope->model->problem;
  pn_expr *lhs = NULL, *rhs = NULL;
  if (capacity < 2)
    return TN_FAIL(TN_ERANGE, "terms of a relation: room for %zu, at least 2", capacity);
  TN_TRY(pn_scalar(p, relation->lhs, relation->component, scope->piece, &lhs));
  TN_TRY(pn_scalar(p, relation->rhs, relation->component, scope->piece, &rhs));
  terms t = {.capacity = capacity, .exprs = exprs, .signs = signs};
  split(&t, lhs, 1, 1);
  split(&t, rhs, -1, 0);
  *n = t.n;
  pn_frame frame = pn_frame_of(scope);
  tn_status status = TN_OK;
  for (size_t i = 0; i < t.n && status == TN_OK; ++i)
    status = pn_frame_lower(&frame, exprs[i], &values[i]);
  pn_frame_done(&frame);
  return status;
}

void pn_join_data(const pn_problem *problem, size_t *n, tn_value *values, pn_expr **exprs,
                  int *signs) {
  size_t kept = 0, data = PN_NONE;
  for (size_t i = 0; i < *n; ++i) {
    if (pn_expr_unknowns(problem, exprs[i]) == 0 && data != PN_NONE) {
      tn_value part = signs[i] == signs[data] ? values[i] : tn_neg(values[i]);
      values[data] = tn_add(values[data], part);
      continue;
    }
    if (pn_expr_unknowns(problem, exprs[i]) == 0)
      data = kept;
    values[kept] = values[i];
    exprs[kept] = exprs[i];
    signs[kept++] = signs[i];
  }
  *n = kept;
}
