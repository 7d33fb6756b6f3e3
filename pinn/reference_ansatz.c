/* reference_ansatz.c: conditions that an ansatz meets, as conditions.
 *
 * u = x (1 - x) net says u = 0 at both ends and needs no entry in [conditions]; classical methods know no network and
 * want it said. Where two numbers in place of the network give the same value on a face, the value there is that of
 * the ansatz without it; if they part as the k-th power of the distance from the face, so are k - 1 derivatives.
 */
#include "pinn/reference.h"

#include <math.h>
#include <string.h>

#include "pinn/check.h"

/* A copy with 0 in place of the network. */
static tn_status without_net(pn_arena *arena, const pn_expr *e, pn_expr **out) {
  if (e->kind == PN_NET)
    return pn_expr_number(arena, 0, e, out);
  TN_TRY(PN_TAKE(arena, 1, out));
  **out = *e;
  TN_TRY(PN_TAKE(arena, e->n + 1, &(*out)->args));
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(without_net(arena, e->args[i], &(*out)->args[i]));
  return TN_OK;
}

/* How much two networks differ at a distance from the face, as a share of the range. */
static double apart(pn_problem *p, size_t u, size_t x, int side, double share, const double *at) {
  double point[PN_MAX_COORDINATES], a = 0, b = 1, width = p->coordinates[x].hi - p->coordinates[x].lo;
  memcpy(point, at, sizeof point);
  point[x] = side < 0 ? p->coordinates[x].lo + share * width : p->coordinates[x].hi - share * width;
  if (!pn_check_ansatz(p, u, point, 0.3, &a) || !pn_check_ansatz(p, u, point, 1.3, &b))
    return NAN;
  return fabs(a - b);
}

/* Derivatives that are fixed on the face, the value included. */
static size_t fixed_orders(pn_problem *p, size_t u, size_t x, int side) {
  enum { MOST = 8 };
  double at[PN_MAX_COORDINATES];
  for (size_t k = 0; k < PN_MAX_COORDINATES; ++k)
    at[k] = k < p->n_coordinates
                ? p->coordinates[k].lo + 0.37 * (p->coordinates[k].hi - p->coordinates[k].lo)
                : 0;
  if (!pn_check_ansatz_fixes(p, u, x, side, at))
    return 0;
  double power = log2(apart(p, u, x, side, 2e-3, at) / apart(p, u, x, side, 1e-3, at));
  return isfinite(power) && power > 0.5 ? (size_t)fmin(rint(power), MOST) : 1;
}

/* The `order`-th derivative along x of e (order 0: e). */
static tn_status derivative(pn_arena *arena, pn_expr *e, size_t x, size_t order, pn_expr **out) {
  *out = e;
  if (!order)
    return TN_OK;
  TN_TRY(pn_expr_make(arena, PN_DERIVATIVE, e, 1, &e, out));
  (*out)->n_axes = order;
  TN_TRY(PN_TAKE(arena, order, &(*out)->axes));
  for (size_t i = 0; i < order; ++i)
    (*out)->axes[i] = x;
  return TN_OK;
}

static tn_status make_term(pn_problem *p, size_t u, size_t x, int side, size_t n, pn_term *out) {
  pn_expr *known = NULL, *unknown = NULL;
  TN_TRY(without_net(p->arena, p->unknowns[u].ansatz, &known));
  TN_TRY(pn_expr_make(p->arena, PN_UNKNOWN, p->unknowns[u].ansatz, 0, NULL, &unknown));
  unknown->index = u;
  unknown->name = p->unknowns[u].name;
  *out = (pn_term){.name = p->unknowns[u].name, .is_condition = true, .n_relations = n, .where = PN_ON,
                   .n_pieces = 1, .weight_number = 1, .place = p->unknowns[u].place};
  TN_TRY(PN_TAKE(p->arena, 1, &out->pieces));
  out->pieces[0] = pn_check_face(p, x, side);
  TN_TRY(PN_TAKE(p->arena, n, &out->relations));
  for (size_t k = 0; k < n; ++k) {
    pn_expr *sides[2] = {NULL, NULL}, *whole = NULL;
    TN_TRY(derivative(p->arena, unknown, x, k, &sides[0]));
    TN_TRY(derivative(p->arena, known, x, k, &sides[1]));
    TN_TRY(pn_expr_make(p->arena, PN_EQUAL, known, 2, sides, &whole));
    out->relations[k] = (pn_relation){.op = PN_EQUAL, .lhs = sides[0], .rhs = sides[1], .whole = whole};
  }
  return TN_OK;
}

tn_status pn_ref_ansatz(pn_problem *p, size_t *n, pn_term **out) {
  size_t most = 2 * p->n_unknowns * p->n_coordinates;
  *n = 0;
  TN_TRY(PN_TAKE(p->arena, most + 1, out));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    for (size_t j = 0; p->unknowns[u].ansatz && j < p->unknowns[u].n_of; ++j)
      for (int side = -1; side <= 1; side += 2) {
        size_t x = p->unknowns[u].of[j], orders = fixed_orders(p, u, x, side);
        if (orders && !p->coordinates[x].periodic)
          TN_TRY(make_term(p, u, x, side, orders, *out + (*n)++));
      }
  return TN_OK;
}
