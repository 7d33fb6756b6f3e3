/* check_counts.c: do the conditions fit the orders of the equations?
 *
 * Unknowns that occur in one equation together form a group, and a group is counted as a whole: with m the
 * highest order of each unknown along a coordinate,
 *
 *   time                   sum of m conditions at one end (the start, or a terminal time)
 *   one coordinate only    sum of m conditions at points, wherever they are
 *   space                  sum of floor(m/2) on each of the two faces, and sum of m in total (m >= 2)
 *   space, m = 1           at least one face, if the unknown is alone or moves in time
 *
 * A periodic coordinate needs none; a parity lets one face stand for both; a condition u = u(x=1) counts on
 * both faces; an ansatz that fixes the value on a face counts as a condition. What holds on a part of a face is
 * counted where it holds: the face is sampled. Nothing is asked of groups that are measured inside (data).
 * An unknown that occurs only differentiated, also in the conditions, is defined up to a constant.
 */
#include "pinn/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/sobol.h"

enum { FACE_POINTS = 64 };

/* A group of unknowns and what its equations ask for. */
typedef struct group {
  uint64_t members;
  int (*order)[PN_MAX_COORDINATES]; /* of every unknown of the problem; -1: it does not occur */
  uint32_t coordinates;             /* that its unknowns depend on */
  bool measured;                    /* a condition inside a volume mentions it */
  size_t integrals;                 /* conditions without points that mention it */
} group;

/* Conditions on the two faces of a coordinate. */
typedef struct faces {
  size_t lo, hi,
      total; /* relations: at least so many everywhere on that face; of both and inside */
  double lo_point[PN_MAX_COORDINATES], hi_point[PN_MAX_COORDINATES]; /* where it is that few */
} faces;

static bool has(uint64_t members, size_t u) { return members >> u & 1u; }

/* ---- Orders ---------------------------------------------------------------------------------------- */

static tn_status orders_of(pn_checking *c, int (*order)[PN_MAX_COORDINATES], bool *free_value) {
  const pn_problem *p = c->problem;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
      order[u][x] = -1;
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
      pn_expr *e = NULL;
      TN_TRY(pn_check_difference(c, &p->equations[i].relations[r], NULL, &e));
      for (size_t u = 0; u < p->n_unknowns; ++u)
        pn_check_orders(p, e, u, order[u], &free_value[u]);
    }
  return TN_OK;
}

/* The members of the group that unknown u belongs to. */
static uint64_t members_of(const pn_problem *p, size_t u) {
  uint64_t members = UINT64_C(1) << u, before = 0;
  while (members != before) {
    before = members;
    for (size_t i = 0; i < p->n_equations; ++i)
      for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
        uint64_t bits = pn_expr_unknowns(p, p->equations[i].relations[r].whole);
        if (bits & members)
          members |= bits;
      }
  }
  return members;
}

static bool mentions(const pn_problem *p, const pn_relation *r, uint64_t members) {
  return (pn_expr_unknowns(p, r->whole) & members) != 0;
}

static void look_at_conditions(const pn_problem *p, group *g) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    for (size_t j = 0; has(g->members, u) && j < p->unknowns[u].n_of; ++j)
      g->coordinates |= UINT32_C(1) << p->unknowns[u].of[j];
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations; ++r) {
      if (!mentions(p, &p->conditions[i].relations[r], g->members))
        continue;
      g->measured |= p->conditions[i].where == PN_IN || p->conditions[i].where == PN_DATA;
      g->integrals += p->conditions[i].where == PN_INTEGRAL;
    }
}

/* ---- Faces ------------------------------------------------------------------------------------------ */

static bool piece_holds(const pn_problem *p, const pn_piece *piece, size_t x, int side,
                        const double *point) {
  bool holds = true;
  if (piece->n_fixed != 1 || piece->fixed[0] != x || piece->side[0] != side)
    return false;
  if (piece->filter && pn_predicate_holds(p, piece->filter, point, &holds) != TN_OK)
    return true;
  return holds;
}

/* u = u(x=1): a relation that stands for the other face too. */
static bool links(const pn_problem *p, const pn_expr *e, size_t x) {
  enum { MOST = 300 };
  pn_expr *nodes[MOST];
  size_t n = pn_check_nodes(p, (pn_expr *)(uintptr_t)e, MOST, nodes);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; nodes[i]->kind == PN_AT && k < nodes[i]->n_axes; ++k)
      if (nodes[i]->axes[k] == x && pn_expr_unknowns(p, nodes[i]->args[0]))
        return true;
  return false;
}

static size_t count_at(const pn_problem *p, uint64_t members, size_t x, int side,
                       const double *point, bool linked_too) {
  size_t n = 0;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    const pn_term *t = &p->conditions[i];
    for (size_t r = 0; r < t->n_relations && t->where == PN_ON; ++r) {
      bool here = false, there = false;
      if (!mentions(p, &t->relations[r], members))
        continue;
      for (size_t k = 0; k < t->n_pieces; ++k) {
        here |= piece_holds(p, &t->pieces[k], x, side, point);
        there |= side != 0 && piece_holds(p, &t->pieces[k], x, -side, point);
      }
      n += here || (there && linked_too && links(p, t->relations[r].whole, x));
    }
  }
  return n;
}

static size_t count_ansatz(pn_problem *p, uint64_t members, size_t x, int side,
                           const double *point) {
  size_t n = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    n += has(members, u) && pn_check_ansatz_fixes(p, u, x, side, point);
  return n;
}

/* Relations on pieces that fix x inside its range, or fix more than x and with it every coordinate. */
static size_t count_inside(const pn_problem *p, const group *g, size_t x) {
  size_t n = 0;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations; ++r)
      for (size_t k = 0; k < p->conditions[i].n_pieces; ++k) {
        const pn_piece *piece = &p->conditions[i].pieces[k];
        bool inside = p->conditions[i].where == PN_ON && piece->n_fixed == 1 &&
                      piece->fixed[0] == x && piece->side[0] == 0;
        n += inside && mentions(p, &p->conditions[i].relations[r], g->members);
      }
  return n;
}

/* Unit coordinates of sample points on any face. */
static tn_status sample(const pn_problem *p, double *points) {
  TN_TRY(pn_sobol(p->n_coordinates, tn_stream_of(0, "faces"), 0, FACE_POINTS, points));
  for (size_t i = 0; i < FACE_POINTS; ++i)
    for (size_t x = 0; x < p->n_coordinates; ++x) {
      const pn_coordinate *axis = &p->coordinates[x];
      points[i * p->n_coordinates + x] =
          axis->lo + (axis->hi - axis->lo) * points[i * p->n_coordinates + x];
    }
  return TN_OK;
}

static tn_status count_faces(pn_problem *p, const group *g, size_t x, faces *out) {
  double points[FACE_POINTS * PN_MAX_COORDINATES], point[PN_MAX_COORDINATES];
  size_t total = SIZE_MAX;
  TN_TRY(sample(p, points));
  *out = (faces){.lo = SIZE_MAX, .hi = SIZE_MAX};
  for (size_t i = 0; i < FACE_POINTS; ++i) {
    size_t count[2], all = 0;
    memcpy(point, points + i * p->n_coordinates, p->n_coordinates * sizeof *point);
    for (int side = -1; side <= 1; side += 2) {
      point[x] = side < 0 ? p->coordinates[x].lo : p->coordinates[x].hi;
      size_t ansatz = count_ansatz(p, g->members, x, side, point);
      count[side > 0] = ansatz + count_at(p, g->members, x, side, point, true);
      all += ansatz + count_at(p, g->members, x, side, point, false);
      size_t *least = side < 0 ? &out->lo : &out->hi;
      if (count[side > 0] >= *least)
        continue;
      *least = count[side > 0];
      memcpy(side < 0 ? out->lo_point : out->hi_point, point, sizeof point);
    }
    total = all < total ? all : total;
  }
  out->total = total + count_inside(p, g, x);
  return TN_OK;
}

/* ---- Words ------------------------------------------------------------------------------------------- */

/* The member with the highest order along x that has fewest conditions: whom to name. */
static size_t whom(const pn_problem *p, const group *g, size_t x, int least_order) {
  double point[PN_MAX_COORDINATES];
  size_t best = PN_NONE, fewest = SIZE_MAX;
  for (size_t k = 0; k < p->n_coordinates; ++k)
    point[k] = 0.5 * (p->coordinates[k].lo + p->coordinates[k].hi);
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    if (!has(g->members, u) || g->order[u][x] < least_order)
      continue;
    size_t n = count_at(p, UINT64_C(1) << u, x, -1, point, true) +
               count_at(p, UINT64_C(1) << u, x, 1, point, true);
    size_t m = (size_t)g->order[u][x];
    if (n * 8 / m >= fewest)
      continue;
    fewest = n * 8 / m;
    best = u;
  }
  return best;
}

/* The equation where u has order m along x. */
static const pn_relation *equation_of(pn_checking *c, size_t u, size_t x, int m) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
      int order[PN_MAX_COORDINATES];
      bool free_value = false;
      pn_expr *e = NULL;
      for (size_t k = 0; k < PN_MAX_COORDINATES; ++k)
        order[k] = -1;
      if (pn_check_difference(c, &p->equations[i].relations[r], NULL, &e) != TN_OK)
        continue;
      pn_check_orders(p, e, u, order, &free_value);
      if (order[x] >= m)
        return &p->equations[i].relations[r];
    }
  return &p->equations[0].relations[0];
}

static const char *count_word(size_t n) {
  static const char *const words[] = {"no", "one", "two", "three", "four", "five", "six"};
  return n < sizeof words / sizeof words[0] ? words[n] : "many";
}

/* "`initial` (u = -sin(pi*x))" of the conditions at an end of x; "none". */
static const char *given_at(pn_checking *c, const group *g, size_t x, int side) {
  const pn_problem *p = c->problem;
  pn_text text = {0};
  char *copy = NULL;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    const pn_term *t = &p->conditions[i];
    for (size_t r = 0; r < t->n_relations; ++r) {
      bool here = false;
      for (size_t k = 0; k < t->n_pieces; ++k)
        here |= t->where == PN_ON && t->pieces[k].n_fixed == 1 && t->pieces[k].fixed[0] == x &&
                (side == 0 || t->pieces[k].side[0] == side);
      here |= side == 0 && t->where == PN_INTEGRAL; /* y(0) = 1 without `on` */
      if (here && mentions(p, &t->relations[r], g->members))
        pn_putf(&text, "%s`%s` (%s)", text.n ? ", " : "only ", t->name,
                pn_check_text(c, t->relations[r].whole));
    }
  }
  if (pn_arena_text(p->arena, text.n ? text.text : "none", text.n ? text.n : 4, &copy) != TN_OK)
    copy = NULL;
  pn_text_free(&text);
  return copy ? copy : "?";
}

static tn_status too_few(pn_checking *c, const group *g, pn_finding_kind kind, size_t x,
                         int least_order, size_t need, const char *where, int side) {
  size_t u = whom(c->problem, g, x, least_order);
  if (u == PN_NONE)
    return TN_OK;
  int m = g->order[u][x];
  const pn_relation *r = equation_of(c, u, x, m);
  const pn_expr *whole = r->whole;
  const pn_unknown *unknown = &c->problem->unknowns[u];
  return pn_found(
      c, kind, unknown->name, pn_expr_place(whole), whole->length,
      "`%s` needs %s condition%s %s for `%s`%s; given: %s. Without more the answer is not unique",
      pn_check_derivative(c, u, x, m), count_word(need), need == 1 ? "" : "s", where, unknown->name,
      g->members & (g->members - 1) ? " and what is coupled with it" : "", given_at(c, g, x, side));
}

/* ---- The rules ------------------------------------------------------------------------------------------ */

static size_t sum_orders(const pn_problem *p, const group *g, size_t x, int least, int divide) {
  size_t sum = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (has(g->members, u) && g->order[u][x] >= least)
      sum += (size_t)(g->order[u][x] / divide);
  return sum;
}

/* Does any unknown of the group with an order along x vary along another coordinate that is no parameter? */
static bool only_coordinate(const pn_problem *p, const group *g, size_t x) {
  for (size_t k = 0; k < p->n_coordinates; ++k)
    if (k != x && (g->coordinates >> k & 1u) && p->coordinates[k].role != PN_PARAMETER)
      return false;
  return true;
}

/* Is every condition of the group an equality, without parameters to be found, and every member a plain unknown with an order along x? Else
 * more than the orders may be meant: a parameter that is sought, a pressure, an ansatz that says it again. */
static bool is_plain(const pn_problem *p, const group *g, size_t x) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (has(g->members, u) && (g->order[u][x] < 1 || p->unknowns[u].ansatz))
      return false;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations; ++r)
      if (mentions(p, &p->conditions[i].relations[r], g->members) &&
          p->conditions[i].relations[r].op != PN_EQUAL)
        return false;
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r)
      if (mentions(p, &p->equations[i].relations[r], g->members) &&
          pn_expr_parameters(p, p->equations[i].relations[r].whole))
        return false;
  return !g->measured;
}

static tn_status too_many(pn_checking *c, const group *g, size_t x, size_t given, size_t need,
                          const char *where, int side) {
  size_t u = whom(c->problem, g, x, 1);
  if (u == PN_NONE || !is_plain(c->problem, g, x))
    return TN_OK;
  const pn_unknown *unknown = &c->problem->unknowns[u];
  const char *list = given_at(c, g, x, side);
  return pn_found(c, PN_FOUND_WARNING, unknown->name, unknown->place, strlen(unknown->name),
                  "more conditions than the order: `%s` needs %s %s for `%s`%s, %s are given: %s",
                  pn_check_derivative(c, u, x, g->order[u][x]), count_word(need), where,
                  unknown->name,
                  g->members & (g->members - 1) ? " and what is coupled with it" : "",
                  count_word(given), strncmp(list, "only ", 5) == 0 ? list + 5 : list);
}

static tn_status check_points(pn_checking *c, const group *g, size_t x) {
  size_t need = sum_orders(c->problem, g, x, 1, 1);
  bool time = c->problem->coordinates[x].role == PN_TIME;
  faces f;
  TN_TRY(count_faces(c->problem, g, x, &f));
  if (f.total + g->integrals > need && need > 0)
    return too_many(c, g, x, f.total + g->integrals, need, "at points", 0);
  if (f.total + g->integrals >= need)
    return TN_OK;
  return too_few(c, g, time ? PN_FOUND_ERROR : PN_FOUND_WARNING, x, 1, need, "at points", 0);
}

static tn_status check_time(pn_checking *c, const group *g, size_t x) {
  size_t need = sum_orders(c->problem, g, x, 1, 1);
  char where[96];
  faces f;
  TN_TRY(count_faces(c->problem, g, x, &f));
  int side = f.hi > f.lo ? 1 : -1;
  size_t given = side < 0 ? f.lo : f.hi;
  const pn_coordinate *axis = &c->problem->coordinates[x];
  snprintf(where, sizeof where, "at %s = %.6g", axis->name, side < 0 ? axis->lo : axis->hi);
  if (given > need && need > 0)
    return too_many(c, g, x, given, need, where, side);
  if (given >= need)
    return TN_OK;
  return too_few(c, g, PN_FOUND_ERROR, x, 1, need, where, side);
}

static bool has_parity(const pn_problem *p, const group *g, size_t x) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (has(g->members, u) && p->unknowns[u].parity && p->unknowns[u].parity_coordinate == x)
      return true;
  return false;
}

/* Is unknown u differentiated along x together with anything, as in u_xy? */
static bool is_mixed(const pn_problem *p, size_t u, size_t x) {
  enum { MOST = 400 };
  pn_expr *nodes[MOST];
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
      size_t n = pn_check_nodes(p, p->equations[i].relations[r].whole, MOST, nodes);
      for (size_t k = 0; k < n; ++k) {
        const pn_expr *e = nodes[k];
        bool mine = e->kind == PN_DERIVATIVE && e->n_axes > 1 && (pn_expr_unknowns(p, e) >> u & 1u);
        for (size_t j = 0; mine && j < e->n_axes; ++j)
          if (e->axes[j] == x)
            return true;
      }
    }
  return false;
}

/* Faces of other coordinates along which u is of first order: what comes in may come in there. */
static tn_status comes_in_elsewhere(pn_checking *c, const group *g, size_t u, size_t x, bool *out) {
  for (size_t k = 0; k < c->problem->n_coordinates; ++k) {
    faces f;
    if (k == x || g->order[u][k] != 1)
      continue;
    TN_TRY(count_faces(c->problem, g, k, &f));
    *out |= f.total > 0;
  }
  return TN_OK;
}

/* First order along x: transported through the domain, so one face says what comes in. */
static tn_status check_first_order(pn_checking *c, const group *g, size_t x, const faces *f) {
  const pn_problem *p = c->problem;
  bool alone = (g->members & (g->members - 1)) == 0;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    bool moves = false, elsewhere = false;
    if (!has(g->members, u) || g->order[u][x] != 1 || f->total > 0)
      continue;
    for (size_t k = 0; k < p->n_coordinates; ++k)
      moves |= p->coordinates[k].role == PN_TIME && g->order[u][k] > 0;
    if (!moves && !is_mixed(p, u, x))
      TN_TRY(comes_in_elsewhere(c, g, u, x, &elsewhere));
    if ((alone || moves) && !elsewhere)
      return too_few(c, g, PN_FOUND_WARNING, x, 1, 1, "on a face", 0);
  }
  return TN_OK;
}

static tn_status check_space(pn_checking *c, const group *g, size_t x) {
  const pn_problem *p = c->problem;
  const pn_coordinate *axis = &p->coordinates[x];
  size_t face = sum_orders(p, g, x, 2, 2), total = sum_orders(p, g, x, 2, 1);
  char where[160];
  faces f;
  TN_TRY(count_faces(c->problem, g, x, &f));
  if (total == 0)
    return check_first_order(c, g, x, &f);
  if (has_parity(p, g, x)) {
    f.lo = f.hi = f.lo > f.hi ? f.lo : f.hi;
    f.total = 2 * f.lo;
    total = 2 * face; /* what is odd in the order is met by the middle */
  }
  bool by_total = f.total >= total && face > 1 && f.lo + f.hi > 0;
  if (!by_total && (f.lo < face || f.hi < face)) {
    bool low = f.lo < face;
    snprintf(where, sizeof where, "on %s = %.6g", axis->name, low ? axis->lo : axis->hi);
    return too_few(c, g, PN_FOUND_WARNING, x, 2, face, where, low ? -1 : 1);
  }
  if (f.total >= total)
    return TN_OK;
  snprintf(where, sizeof where, "on %s = %.6g and %s = %.6g together", axis->name, axis->lo,
           axis->name, axis->hi);
  return too_few(c, g, PN_FOUND_WARNING, x, 2, total, where, 0);
}

/* Conditions across a coordinate along which no equation has a derivative: one of the two is a slip. */
static tn_status check_none(pn_checking *c, const group *g, size_t x) {
  const pn_problem *p = c->problem;
  faces f;
  size_t u = 0;
  if (p->coordinates[x].role != PN_TIME || !(g->coordinates >> x & 1u))
    return TN_OK;
  TN_TRY(count_faces(c->problem, g, x, &f));
  while (u < p->n_unknowns && !has(g->members, u))
    ++u;
  if (f.total == 0 || u == p->n_unknowns)
    return TN_OK;
  const char *list = given_at(c, g, x, f.hi > f.lo ? 1 : -1);
  const pn_unknown *unknown = &p->unknowns[u];
  return pn_found(c, PN_FOUND_WARNING, unknown->name, unknown->place, strlen(unknown->name),
                  "no equation for `%s`%s has a derivative along `%s`, but there are conditions across it: %s",
                  unknown->name, g->members & (g->members - 1) ? " and what is coupled with it" : "",
                  p->coordinates[x].name, strncmp(list, "only ", 5) == 0 ? list + 5 : list);
}

static tn_status check_group(pn_checking *c, const group *g) {
  const pn_problem *p = c->problem;
  if (p->box && !g->measured)
    TN_TRY(pn_check_surface(c, g->members, g->order));
  for (size_t x = 0; x < p->n_coordinates && !g->measured; ++x) {
    const pn_coordinate *axis = &p->coordinates[x];
    if (!axis->periodic && sum_orders(p, g, x, 1, 1) == 0)
      TN_TRY(check_none(c, g, x));
    if (axis->periodic || axis->role == PN_PARAMETER || sum_orders(p, g, x, 1, 1) == 0)
      continue;
    if (axis->role == PN_SPACE && p->box) /* counted on the boundary of the region */
      continue;
    if (only_coordinate(p, g, x))
      TN_TRY(check_points(c, g, x));
    else if (axis->role == PN_TIME)
      TN_TRY(check_time(c, g, x));
    else
      TN_TRY(check_space(c, g, x));
  }
  return TN_OK;
}

/* ---- Up to a constant ---------------------------------------------------------------------------------- */

static tn_status conditions_hold_value(pn_checking *c, bool *free_value) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations; ++r) {
      const pn_term *t = &p->conditions[i];
      pn_expr *e = NULL;
      TN_TRY(pn_check_difference(c, &t->relations[r], t->n_pieces ? &t->pieces[0] : NULL, &e));
      for (size_t u = 0; u < p->n_unknowns; ++u) {
        int order[PN_MAX_COORDINATES] = {0};
        pn_check_orders(p, e, u, order, &free_value[u]);
      }
    }
  return TN_OK;
}

static tn_status check_constants(pn_checking *c, bool *free_value) {
  const pn_problem *p = c->problem;
  TN_TRY(conditions_hold_value(c, free_value));
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_unknown *unknown = &p->unknowns[u];
    if (free_value[u] || unknown->ansatz || unknown->parity < 0)
      continue;
    TN_TRY(pn_found(
        c, PN_FOUND_WARNING, unknown->name, unknown->place, strlen(unknown->name),
        "`%s` is defined up to a constant: only derivatives of it occur. Give it a value at a "
        "point, or a mean as in \"mean(%s, domain) = 0\"",
        unknown->name, unknown->name));
  }
  return TN_OK;
}

static tn_status check_groups(pn_checking *c, int (*order)[PN_MAX_COORDINATES]) {
  uint64_t done = 0;
  for (size_t u = 0; u < c->problem->n_unknowns && u < 64; ++u) {
    if (has(done, u))
      continue;
    group g = {.members = members_of(c->problem, u), .order = order};
    done |= g.members;
    look_at_conditions(c->problem, &g);
    TN_TRY(check_group(c, &g));
  }
  return TN_OK;
}

tn_status pn_check_counts(pn_checking *c) {
  int(*order)[PN_MAX_COORDINATES] = NULL;
  bool *free_value = NULL;
  TN_TRY(TN_NEW(c->problem->n_unknowns, &order));
  tn_status status = TN_NEW(c->problem->n_unknowns, &free_value);
  if (status == TN_OK)
    status = orders_of(c, order, free_value);
  if (status == TN_OK)
    status = check_groups(c, order);
  if (status == TN_OK)
    status = check_constants(c, free_value);
  tn_free(&order);
  tn_free(&free_value);
  return status;
}
