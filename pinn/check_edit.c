/* check_edit.c: what people mistype, as edits of one node of a tree.
 *
 * Signs come first, then another derivative of the same field, then neighbours of numbers and functions. An
 * edit holds the node's new content; the caller puts it there, evaluates and puts the old content back, so no
 * tree is copied.
 */
#include "pinn/check_edit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(pn_edits *edits, pn_expr *node, pn_expr to, pn_edit_style style,
                const pn_expr *shown, int rank) {
  if (edits->n < edits->capacity)
    edits->edit[edits->n++] = (pn_edit){node, to, shown, style, rank};
}

static void replace(pn_edits *edits, pn_expr *node, pn_expr to, int rank) {
  add(edits, node, to, PN_EDIT_REPLACE, NULL, rank);
}

bool pn_edit_next(size_t n, const size_t *axes, int most, int *counts) {
  for (size_t i = 0; i < n; ++i) {
    int total = 0;
    ++counts[axes[i]];
    for (size_t k = 0; k < n; ++k)
      total += counts[axes[k]];
    if (total <= most)
      return true;
    counts[axes[i]] = 0;
  }
  return false;
}

tn_status pn_edit_derivative(pn_checking *c, const pn_expr *field, const int *counts,
                             pn_expr *out) {
  pn_arena *arena = c->problem->arena;
  pn_expr *made = NULL, *inside = NULL;
  size_t n = 0;
  TN_TRY(PN_TAKE(arena, 1, &inside));
  *inside = *field;
  for (size_t x = 0; x < c->problem->n_coordinates; ++x)
    n += (size_t)counts[x];
  if (n == 0) {
    *out = *field;
    return TN_OK;
  }
  TN_TRY(pn_expr_make(arena, PN_DERIVATIVE, field, 1, &inside, &made));
  TN_TRY(PN_TAKE(arena, n, &made->axes));
  for (size_t x = 0; x < c->problem->n_coordinates; ++x)
    for (int i = 0; i < counts[x]; ++i)
      made->axes[made->n_axes++] = x;
  *out = *made;
  return TN_OK;
}

/* ---- Fields and their derivatives -------------------------------------------------------------------- */

static size_t axes_of(const pn_problem *p, const pn_expr *field, size_t axes[PN_MAX_COORDINATES]) {
  uint32_t bits = pn_expr_depends(p, field);
  size_t n = 0;
  for (size_t x = 0; x < p->n_coordinates; ++x)
    if (bits >> x & 1u)
      axes[n++] = x;
  return n;
}

/* How far two derivatives are apart: 0 the same, 1 one more or less, 2 one index exchanged. */
static int distance(const pn_problem *p, const int *a, const int *b) {
  int sum = 0;
  for (size_t x = 0; x < p->n_coordinates; ++x)
    sum += abs(a[x] - b[x]);
  return sum;
}

/* Derivatives of `field` in the place of one whose orders are old[] (total `order`). */
static tn_status other_derivatives(pn_checking *c, pn_edits *edits, pn_expr *node,
                                   const pn_expr *field, const int *old, int order) {
  const pn_problem *p = c->problem;
  size_t axes[PN_MAX_COORDINATES], n = axes_of(p, field, axes);
  int counts[PN_MAX_COORDINATES] = {0}, most = order + 1;
  if (most > edits->most_order)
    most = edits->most_order;
  if (most < order)
    most = order;
  do {
    int total = 0;
    pn_expr to;
    for (size_t i = 0; i < n; ++i)
      total += counts[axes[i]];
    int apart = distance(p, counts, old);
    if (apart == 0 || total < order - 2)
      continue;
    TN_TRY(pn_edit_derivative(c, field, counts, &to));
    replace(edits, node, to, apart == 1 || (apart == 2 && total == order) ? 1 : 2);
  } while (pn_edit_next(n, axes, most, counts));
  return TN_OK;
}

static tn_status derivative_edits(pn_checking *c, pn_edits *edits, pn_expr *node) {
  const pn_expr *field = node->args[0];
  int counts[PN_MAX_COORDINATES] = {0};
  for (size_t i = 0; i < node->n_axes; ++i)
    ++counts[node->axes[i]];
  if (field->kind == PN_UNKNOWN || field->kind == PN_DEFINITION)
    TN_TRY(other_derivatives(c, edits, node, field, counts, (int)node->n_axes));
  return TN_OK;
}

/* Another unknown, or another scalar definition; then derivatives of this one. */
static tn_status field_edits(pn_checking *c, pn_edits *edits, pn_expr *node) {
  enum { MOST = 8 };
  const pn_problem *p = c->problem;
  bool unknown = node->kind == PN_UNKNOWN;
  size_t n = unknown ? p->n_unknowns : p->n_definitions;
  int none[PN_MAX_COORDINATES] = {0};
  for (size_t i = 0; i < n && i < MOST; ++i) {
    pn_expr to = *node;
    if (i == node->index ||
        (!unknown && (p->definitions[i].n_of || p->definitions[i].value->components > 1 ||
                      p->definitions[i].has_normal)))
      continue;
    to.index = i;
    to.name = unknown ? p->unknowns[i].name : p->definitions[i].name;
    replace(edits, node, to, 2);
  }
  return other_derivatives(c, edits, node, node, none, 0);
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

static void number_edits(pn_edits *edits, pn_expr *node) {
  double x = node->number;
  const double values[] = {-x,     0,       2 * x,   x / 2,    x + 1,    x - 1, 10 * x,
                           x / 10, 100 * x, x / 100, 1000 * x, x / 1000, 3 * x, x / 3};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
    pn_expr to = *node;
    if (values[i] == x)
      continue;
    to.kind = PN_NUMBER;
    to.number = values[i];
    to.name = NULL;
    replace(edits, node, to, values[i] == 0 ? edits->zero_rank : 3);
  }
}

static void constant_edits(pn_checking *c, pn_edits *edits, pn_expr *node) {
  enum { MOST = 6 };
  for (size_t i = 0; i < c->problem->n_constants && i < MOST; ++i) {
    pn_expr to = *node;
    if (i == node->index)
      continue;
    to.index = i;
    to.name = c->problem->constants[i].name;
    to.number = c->problem->constants[i].value;
    replace(edits, node, to, 3);
  }
  number_edits(edits, node);
}

/* e^2 for e. */
static tn_status square_edit(pn_checking *c, pn_edits *edits, pn_expr *node) {
  pn_arena *arena = c->problem->arena;
  pn_expr *pair[2] = {NULL, NULL}, *power = NULL;
  TN_TRY(PN_TAKE(arena, 1, &pair[0]));
  *pair[0] = *node;
  TN_TRY(pn_expr_number(arena, 2, node, &pair[1]));
  TN_TRY(pn_expr_make(arena, PN_POWER, node, 2, pair, &power));
  replace(edits, node, *power, 3);
  return TN_OK;
}

static void coordinate_edits(pn_checking *c, pn_edits *edits, pn_expr *node) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    pn_expr to = *node;
    if (i == node->index)
      continue;
    to.index = i;
    to.name = p->coordinates[i].name;
    replace(edits, node, to, 3);
  }
  for (size_t i = 0; i < p->n_unknowns && i < 4; ++i) {
    pn_expr to = *node;
    to.kind = PN_UNKNOWN;
    to.index = i;
    to.name = p->unknowns[i].name;
    replace(edits, node, to, 4);
  }
}

/* ---- Operators ------------------------------------------------------------------------------------------ */

static void sum_edits(pn_edits *edits, pn_expr *node) {
  pn_expr to = *node;
  to.kind = node->kind == PN_ADD ? PN_SUBTRACT : PN_ADD;
  add(edits, node, to, PN_EDIT_SIGN, node->args[1], 0);
  add(edits, node, *node->args[0], PN_EDIT_DROP, node->args[1], 4);
  if (node->kind == PN_ADD)
    add(edits, node, *node->args[1], PN_EDIT_DROP, node->args[0], 4);
}

static tn_status function_edits(pn_checking *c, pn_edits *edits, pn_expr *node) {
  static const pn_function pairs[][2] = {{PN_FN_sin, PN_FN_cos},
                                         {PN_FN_sinh, PN_FN_cosh},
                                         {PN_FN_log, PN_FN_log10},
                                         {PN_FN_min, PN_FN_max}};
  pn_expr to = *node, *minus = NULL;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i)
    for (int k = 0; k < 2; ++k)
      if (node->index == (size_t)pairs[i][k]) {
        to.index = pairs[i][1 - k];
        to.name = pn_function_name(pairs[i][1 - k]);
        replace(edits, node, to, 3);
      }
  if (node->n != 1)
    return TN_OK;
  TN_TRY(pn_expr_make(c->problem->arena, PN_NEGATE, node, 1, node->args, &minus));
  TN_TRY(pn_expr_make(c->problem->arena, PN_FUNCTION, node, 1, (pn_expr *[]){minus}, &minus));
  minus->index = node->index;
  minus->name = node->name;
  replace(edits, node, *minus, 3);
  return TN_OK;
}

tn_status pn_edits_of(pn_checking *c, pn_edits *edits, pn_expr *node) {
  pn_expr to = *node;
  if (node->components > 1)
    return TN_OK;
  switch (node->kind) {
  case PN_DERIVATIVE:
    return derivative_edits(c, edits, node);
  case PN_UNKNOWN:
    TN_TRY(square_edit(c, edits, node));
    return field_edits(c, edits, node);
  case PN_DEFINITION:
    return field_edits(c, edits, node);
  case PN_NUMBER:
    if (node->number != rint(node->number))
      TN_TRY(square_edit(c, edits, node));
    number_edits(edits, node);
    return TN_OK;
  case PN_CONSTANT_REF:
    TN_TRY(square_edit(c, edits, node));
    constant_edits(c, edits, node);
    return TN_OK;
  case PN_COORDINATE:
    TN_TRY(square_edit(c, edits, node));
    coordinate_edits(c, edits, node);
    return TN_OK;
  case PN_ADD:
  case PN_SUBTRACT:
    sum_edits(edits, node);
    return TN_OK;
  case PN_NEGATE:
    add(edits, node, *node->args[0], PN_EDIT_SIGN, node->args[0], 0);
    return TN_OK;
  case PN_MULTIPLY:
  case PN_DIVIDE:
    to.kind = node->kind == PN_MULTIPLY ? PN_DIVIDE : PN_MULTIPLY;
    replace(edits, node, to, 2);
    return TN_OK;
  case PN_FUNCTION:
    return function_edits(c, edits, node);
  default:
    return TN_OK;
  }
}
