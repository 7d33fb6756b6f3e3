/* check_tree.c: small questions about trees, and texts made of them.
 *
 * Orders are counted along each coordinate for itself: u_xxy has order 2 along x and 1 along y. Derivatives
 * inside derivatives add, so (k*u_x)_x is of order 2. What stands at another place, u(x=1), has no order along
 * the coordinate that is fixed.
 */
#include "pinn/banner.h"
#include "pinn/check.h"

#include <stdio.h>
#include <string.h>

const char *pn_check_text(pn_checking *c, const pn_expr *e) {
  char *text = NULL;
  if (pn_expr_print(c->problem->arena, e, c->problem->coordinate_names, &text) != TN_OK)
    return "?";
  return text;
}

static size_t collect(const pn_problem *p, pn_expr *e, size_t n, size_t capacity, pn_expr **out) {
  for (size_t i = 0; i < n; ++i)
    if (out[i] == e)
      return n;
  if (n == capacity)
    return n;
  out[n++] = e;
  if (e->kind == PN_DEFINITION) {
    const pn_definition *d = &p->definitions[e->index];
    return collect(p, d->scalar ? d->scalar : d->value, n, capacity, out);
  }
  for (size_t i = 0; i < e->n; ++i)
    n = collect(p, e->args[i], n, capacity, out);
  return n;
}

size_t pn_check_nodes(const pn_problem *p, pn_expr *e, size_t capacity, pn_expr **out) {
  return collect(p, e, 0, capacity, out);
}

bool pn_check_has(const pn_problem *p, const pn_expr *e, pn_kind kind) {
  enum { MOST = 2000 };
  pn_expr *nodes[MOST];
  size_t n = pn_check_nodes(p, (pn_expr *)(uintptr_t)e, MOST, nodes); /* which only reads */
  for (size_t i = 0; i < n; ++i)
    if (nodes[i]->kind == kind)
      return true;
  return false;
}

typedef struct search {
  const pn_problem *problem;
  size_t unknown, budget; /* nodes that may still be met: definitions of definitions grow fast */
  int *order;
  bool *free_value;
} search;

static void meet(search *s, const int *along) {
  const pn_unknown *u = &s->problem->unknowns[s->unknown];
  int total = 0;
  if (pn_takes_unknowns(s->problem, u)) { /* no condition on a coordinate settles b(u) */
    *s->free_value = true;
    return;
  }
  for (size_t j = 0; j < u->n_of; ++j) {
    size_t x = u->of[j];
    total += along[x];
    s->order[x] = along[x] > s->order[x] ? along[x] : s->order[x];
  }
  *s->free_value |= total == 0;
}

/* along[c]: derivatives taken on the way down. */
static void walk(search *s, const pn_expr *e, const int *along) {
  int inner[PN_MAX_COORDINATES];
  size_t first = 0;
  if (s->budget == 0)
    return;
  --s->budget;
  if (e->kind == PN_UNKNOWN && e->index == s->unknown)
    meet(s, along);
  if (e->kind == PN_DEFINITION) {
    const pn_definition *d = &s->problem->definitions[e->index];
    if (d->unknowns >> s->unknown & 1u)
      walk(s, d->scalar ? d->scalar : d->value, along);
    return;
  }
  memcpy(inner, along, sizeof inner);
  if (e->kind == PN_DERIVATIVE)
    for (size_t i = 0; i < e->n_axes; ++i)
      ++inner[e->axes[i]];
  if (e->kind == PN_AT) {
    for (size_t i = 0; i < e->n_axes; ++i)
      inner[e->axes[i]] = 0;
    walk(s, e->args[0], inner);
    first = 1;
  }
  for (size_t i = first; i < e->n; ++i)
    walk(s, e->args[i], first ? along : inner);
}

void pn_check_orders(const pn_problem *p, const pn_expr *e, size_t u, int *order,
                     bool *free_value) {
  int along[PN_MAX_COORDINATES] = {0};
  search s = {p, u, 200000, order, free_value};
  walk(&s, e, along);
}

const char *pn_check_derivative(pn_checking *c, size_t unknown, size_t coordinate, int k) {
  const pn_problem *p = c->problem;
  const char *x = p->coordinates[coordinate].name;
  char text[256];
  size_t used =
      (size_t)snprintf(text, sizeof text, "%s%s", p->unknowns[unknown].name, k ? "_" : "");
  for (int i = 0; i < k && used + strlen(x) + 2 < sizeof text; ++i)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i && x[1] ? "_" : "", x);
  char *copy = NULL;
  return pn_arena_text(p->arena, text, strlen(text), &copy) == TN_OK ? copy : "?";
}

tn_status pn_check_difference(pn_checking *c, const pn_relation *r, const pn_piece *piece,
                              pn_expr **out) {
  pn_expr *side[2] = {NULL, NULL};
  TN_TRY(pn_scalar(c->problem, r->lhs, r->component, piece, &side[0]));
  TN_TRY(pn_scalar(c->problem, r->rhs, r->component, piece, &side[1]));
  *out = side[0];
  if (side[1]->kind == PN_NUMBER && side[1]->number == 0)
    return TN_OK;
  return pn_expr_make(c->problem->arena, PN_SUBTRACT, r->whole, 2, side, out);
}

const char *pn_check_relation_text(pn_checking *c, const pn_relation *r) {
  char *text = NULL;
  return pn_relation_text(c->problem, r, &text) == TN_OK ? text : "?";
}

bool pn_check_given(pn_checking *c, const pn_relation *r, const pn_piece *piece, size_t *unknown,
                    pn_expr **data) {
  pn_expr *lhs = NULL, *rhs = NULL;
  if (r->op != PN_EQUAL || pn_scalar(c->problem, r->lhs, r->component, piece, &lhs) != TN_OK ||
      pn_scalar(c->problem, r->rhs, r->component, piece, &rhs) != TN_OK)
    return false;
  bool left = lhs->kind == PN_UNKNOWN;
  if (!left && rhs->kind != PN_UNKNOWN)
    return false;
  *unknown = left ? lhs->index : rhs->index;
  *data = left ? rhs : lhs;
  return pn_expr_unknowns(c->problem, *data) == 0;
}

const char *pn_check_point(pn_checking *c, const double *point) {
  pn_text text = {0};
  char number[64];
  for (size_t i = 0; i < c->problem->n_coordinates; ++i) {
    if (point[i] != point[i])
      continue;
    snprintf(number, sizeof number, "%.6g", point[i]);
    pn_putf(&text, "%s%s = %s", text.n ? ", " : "", c->problem->coordinates[i].name, number);
  }
  char *copy = NULL;
  tn_status status = pn_arena_text(c->problem->arena, text.n ? text.text : "any point",
                                   text.n ? text.n : strlen("any point"), &copy);
  pn_text_free(&text);
  return status == TN_OK ? copy : "?";
}

pn_piece pn_check_face(const pn_problem *p, size_t coordinate, int side) {
  const pn_coordinate *x = &p->coordinates[coordinate];
  bool space = x->role == PN_SPACE;
  return (pn_piece){.n_fixed = 1,
                    .fixed = {coordinate},
                    .value = {side < 0 ? x->lo : x->hi},
                    .side = {side},
                    .normal = space ? coordinate : PN_NONE,
                    .sign = side};
}
