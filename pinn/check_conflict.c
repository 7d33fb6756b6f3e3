/* check_conflict.c: conditions that contradict each other, repeat, or will break in training.
 *
 * Where two faces meet, two conditions may give two values. Sampled points never lie there, so the network
 * bridges the step; it is told, with the rule, as a note. Two values for one
 * thing at one and the same place are an error. A value along a periodic coordinate that differs at its two
 * ends, or lacks the parity that the unknown has, is a warning: no network can fit it.
 */
#include "pinn/check.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/sobol.h"

enum { SAMPLES = 8 };

static bool differ(double a, double b) {
  return isfinite(a) && isfinite(b) && fabs(a - b) > 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

/* SAMPLES points all over the box. */
static tn_status scatter(const pn_problem *p, double *points) {
  TN_TRY(pn_sobol(p->n_coordinates, tn_stream_of(0, "conflicts"), 0, SAMPLES, points));
  for (size_t i = 0; i < SAMPLES * p->n_coordinates; ++i) {
    const pn_coordinate *x = &p->coordinates[i % p->n_coordinates];
    points[i] = x->lo + (x->hi - x->lo) * points[i];
  }
  return TN_OK;
}

/* ---- Corners ------------------------------------------------------------------------------------------ */

typedef struct corners {
  size_t n;
  bool edge; /* lines or faces rather than points */
  size_t unknown;
  double point[PN_MAX_COORDINATES], a, b; /* of the first */
} corners;

static bool disjoint(const pn_piece *a, const pn_piece *b) {
  for (size_t i = 0; i < a->n_fixed; ++i)
    for (size_t k = 0; k < b->n_fixed; ++k)
      if (a->fixed[i] == b->fixed[k])
        return false;
  return true;
}

static bool holds(const pn_problem *p, const pn_piece *piece, const double *point) {
  bool yes = true;
  if (piece->whole || piece->body)
    return pn_piece_holds(p, piece, point, NULL, &yes) == TN_OK && yes;
  return !piece->filter || (pn_predicate_holds(p, piece->filter, point, &yes) == TN_OK && yes);
}

static tn_status compare_pieces(pn_checking *c, const pn_relation *r, const pn_piece *a,
                                const pn_relation *q, const pn_piece *b, corners *out) {
  const pn_problem *p = c->problem;
  double points[SAMPLES * PN_MAX_COORDINATES], point[PN_MAX_COORDINATES], x = 0, y = 0;
  size_t u = 0, v = 0;
  pn_expr *g = NULL, *h = NULL;
  if (!disjoint(a, b) || pn_piece_curved(a) || pn_piece_curved(b) ||
      !pn_check_given(c, r, a, &u, &g) || !pn_check_given(c, q, b, &v, &h) || u != v)
    return TN_OK;
  TN_TRY(scatter(p, points));
  for (size_t i = 0; i < SAMPLES; ++i) {
    memcpy(point, points + i * p->n_coordinates, p->n_coordinates * sizeof *point);
    for (size_t k = 0; k < a->n_fixed; ++k)
      point[a->fixed[k]] = a->value[k];
    for (size_t k = 0; k < b->n_fixed; ++k)
      point[b->fixed[k]] = b->value[k];
    if (!pn_moving_place(p, point) || !holds(p, a, point) || !holds(p, b, point) || pn_evaluate(p, g, point, &x) != TN_OK ||
        pn_evaluate(p, h, point, &y) != TN_OK || !differ(x, y))
      continue;
    if (out->n++ == 0) {
      memcpy(out->point, point, sizeof point);
      out->a = x;
      out->b = y;
      out->unknown = u;
      out->edge = p->unknowns[u].n_of > a->n_fixed + b->n_fixed;
    }
    return TN_OK;
  }
  return TN_OK;
}

static tn_status compare_terms(pn_checking *c, const pn_term *s, const pn_term *t) {
  corners found = {0};
  for (size_t i = 0; i < s->n_pieces; ++i)
    for (size_t k = s == t ? i + 1 : 0; k < t->n_pieces; ++k)
      for (size_t r = 0; r < s->n_relations; ++r)
        for (size_t q = 0; q < t->n_relations; ++q)
          TN_TRY(compare_pieces(c, &s->relations[r], &s->pieces[i], &t->relations[q], &t->pieces[k],
                                &found));
  if (found.n == 0 || (s->hard && t->hard)) /* of two hard ones the model says it, as an error */
    return TN_OK;
  char numbers[2][48];
  const pn_points *points = &c->problem->points;
  const char *rule = s->wins || t->wins   ? "wins = true decides which of them is kept there"
                     : s->hard || t->hard ? s->hard ? "the first is built in and holds there"
                                                    : "the second is built in and holds there"
                     : points->keep_corners
                         ? "both are kept (points.corners = \"keep\"); wins = true "
                           "lets one of them hold"
                         : "no training point lies there (points.corners = \"skip\"); "
                           "corners = \"keep\" and wins = true let one of them hold";
  snprintf(numbers[0], sizeof numbers[0], "%.6g", found.a);
  snprintf(numbers[1], sizeof numbers[1], "%.6g", found.b);
  return pn_found(c, PN_FOUND_NOTE, t->name, (pn_place){0}, 0,
                  "`%s` and `%s` give `%s` two values at %zu %s%s (%s: %s and %s): %s", s->name,
                  t->name, c->problem->unknowns[found.unknown].name, found.n,
                  found.edge ? "edge" : "corner", found.n > 1 ? "s" : "",
                  pn_check_point(c, found.point), numbers[0], numbers[1], rule);
}

/* ---- Twice the same ------------------------------------------------------------------------------------ */

static bool same_piece(const pn_piece *a, const pn_piece *b) {
  return pn_piece_same(a, b) && !a->filter && !b->filter;
}

static bool same_place(const pn_term *s, const pn_term *t) {
  for (size_t i = 0; i < s->n_pieces; ++i)
    for (size_t k = 0; k < t->n_pieces; ++k)
      if (same_piece(&s->pieces[i], &t->pieces[k]))
        return true;
  return s->where == PN_INTEGRAL && t->where == PN_INTEGRAL;
}

static tn_status compare_texts(pn_checking *c, const pn_term *s, const pn_term *t) {
  if (s->where != t->where || !same_place(s, t))
    return TN_OK;
  for (size_t r = 0; r < s->n_relations; ++r)
    for (size_t q = s == t ? r + 1 : 0; q < t->n_relations; ++q) {
      const pn_expr *whole = t->relations[q].whole;
      const char *text = pn_check_relation_text(c, &s->relations[r]);
      if (s->relations[r].op != t->relations[q].op ||
          strcmp(text, pn_check_relation_text(c, &t->relations[q])) != 0 ||
          (whole == s->relations[r].whole))
        continue;
      return pn_found(c, PN_FOUND_WARNING, t->name, pn_expr_place(whole), whole->length,
                      "`%s` says again what `%s` says, at the same place: it only counts twice",
                      t->name, s->name);
    }
  return TN_OK;
}

/* The side with unknowns as text and the side without them, of an equality that has such sides. */
static bool sides_of(pn_checking *c, const pn_relation *r, const pn_piece *piece, const char **text,
                     pn_expr **data) {
  pn_problem *p = c->problem;
  pn_expr *lhs = NULL, *rhs = NULL;
  if (r->op != PN_EQUAL || pn_scalar(p, r->lhs, r->component, piece, &lhs) != TN_OK ||
      pn_scalar(p, r->rhs, r->component, piece, &rhs) != TN_OK)
    return false;
  bool left = pn_expr_unknowns(p, lhs) != 0;
  if (left == (pn_expr_unknowns(p, rhs) != 0) || pn_expr_parameters(p, r->whole))
    return false;
  *text = pn_check_text(c, left ? lhs : rhs);
  *data = left ? rhs : lhs;
  return true;
}

/* u = g and u = h on one piece (NULL: without points), with g and h apart at some sample point. */
static tn_status contradict(pn_checking *c, const pn_term *s, const pn_relation *r,
                            const pn_term *t, const pn_relation *q, const pn_piece *piece,
                            bool *found) {
  const pn_problem *p = c->problem;
  const char *one = NULL, *other = NULL;
  pn_expr *g = NULL, *h = NULL;
  double points[SAMPLES * PN_MAX_COORDINATES], at[PN_MAX_COORDINATES], x = 0, y = 0;
  char numbers[2][48];
  if (!sides_of(c, r, piece, &one, &g) || !sides_of(c, q, piece, &other, &h) ||
      strcmp(one, other) != 0)
    return TN_OK;
  TN_TRY(scatter(p, points));
  for (size_t i = 0; i < SAMPLES; ++i) {
    double *point = points + i * p->n_coordinates;
    for (size_t k = 0; k < PN_MAX_COORDINATES;
         ++k) /* told: what is fixed, or what g, h vary with */
      at[k] = k < p->n_coordinates && ((pn_expr_depends(p, g) | pn_expr_depends(p, h)) >> k & 1u)
                  ? point[k]
                  : NAN;
    for (size_t k = 0; piece && k < piece->n_fixed; ++k)
      at[piece->fixed[k]] = point[piece->fixed[k]] = piece->value[k];
    if (pn_piece_curved(piece) && (pn_expr_depends(p, g) | pn_expr_depends(p, h)))
      return TN_OK; /* formulas that differ may agree on the surface */
    if (!pn_moving_place(p, point) || pn_evaluate(p, g, point, &x) != TN_OK || pn_evaluate(p, h, point, &y) != TN_OK ||
        !differ(x, y))
      continue;
    snprintf(numbers[0], sizeof numbers[0], "%.6g", x);
    snprintf(numbers[1], sizeof numbers[1], "%.6g", y);
    *found = true;
    return pn_found(c, PN_FOUND_ERROR, t->name, pn_expr_place(q->whole), q->whole->length,
                    "`%s` contradicts %s%s%s%s%s: `%s` cannot be %s and %s there", t->name,
                    s == t ? "itself" : "`", s == t ? "" : s->name, s == t ? "" : "`",
                    piece ? " at " : "", piece ? pn_check_point(c, at) : "", one, numbers[1],
                    numbers[0]);
  }
  return TN_OK;
}

/* Measured values inside a volume may scatter; what wins = true is asked to hold does. Of two hard
 * ones the model says it. */
static tn_status compare_data(pn_checking *c, const pn_term *s, const pn_term *t) {
  bool found = false;
  if (s->where != t->where || s->where == PN_IN || s->where == PN_DATA || s->wins || t->wins || (s->hard && t->hard))
    return TN_OK;
  bool points = s->where == PN_ON;
  for (size_t r = 0; r < s->n_relations; ++r)
    for (size_t q = s == t ? r + 1 : 0; q < t->n_relations; ++q)
      for (size_t i = 0; i < (points ? s->n_pieces : 1); ++i)
        for (size_t k = 0; k < (points ? t->n_pieces : 1) && !found; ++k)
          if (!points || same_piece(&s->pieces[i], &t->pieces[k]))
            TN_TRY(contradict(c, s, &s->relations[r], t, &t->relations[q],
                              points ? &s->pieces[i] : NULL, &found));
  return TN_OK;
}

/* ---- Periods and parities -------------------------------------------------------------------------------- */

/* e along x: its values at `from` and `to` (mirrored: at x and at lo + hi - x). */
static tn_status compare_ends(pn_checking *c, const pn_expr *e, size_t x, int parity,
                              const pn_piece *piece, double *a, double *b, double *point,
                              bool *bad) {
  const pn_problem *p = c->problem;
  const pn_coordinate *axis = &p->coordinates[x];
  double points[SAMPLES * PN_MAX_COORDINATES];
  *bad = false;
  TN_TRY(scatter(p, points));
  for (size_t i = 0; i < SAMPLES && !*bad; ++i) {
    memcpy(point, points + i * p->n_coordinates, p->n_coordinates * sizeof *point);
    for (size_t k = 0; piece && k < piece->n_fixed; ++k)
      point[piece->fixed[k]] = piece->value[k];
    if (!parity)
      point[x] = axis->lo;
    if (pn_evaluate(p, e, point, a) != TN_OK)
      return TN_OK;
    point[x] = parity ? axis->lo + axis->hi - point[x] : axis->hi;
    if (pn_evaluate(p, e, point, b) != TN_OK)
      return TN_OK;
    if (parity)
      *b *= parity;
    *bad = differ(*a, *b);
  }
  return TN_OK;
}

/* Does e, given for unknown u, have the symmetries that u has by construction? */
static tn_status check_symmetry(pn_checking *c, size_t unknown, const pn_expr *e,
                                const pn_piece *piece, const char *entry, const char *what) {
  const pn_problem *p = c->problem;
  const pn_unknown *u = &p->unknowns[unknown];
  for (size_t j = 0; j < u->n_of; ++j) {
    size_t x = u->of[j];
    bool fixed = piece && piece->n_fixed && piece->fixed[0] == x, bad = false;
    bool mirrored = u->parity && u->parity_coordinate == x;
    double a = 0, b = 0, point[PN_MAX_COORDINATES];
    char numbers[2][48];
    if (fixed || !(mirrored || p->coordinates[x].periodic))
      continue;
    TN_TRY(compare_ends(c, e, x, mirrored ? u->parity : 0, piece, &a, &b, point, &bad));
    if (!bad)
      continue;
    snprintf(numbers[0], sizeof numbers[0], "%.6g", a);
    snprintf(numbers[1], sizeof numbers[1], "%.6g", b);
    TN_TRY(pn_found(c, PN_FOUND_WARNING, entry, pn_expr_place(e), e->length,
                    "%s `%s` is not %s along `%s`, as `%s` is by construction: %s against %s", what,
                    entry,
                    !mirrored       ? "periodic"
                    : u->parity > 0 ? "even"
                                    : "odd",
                    p->coordinates[x].name, u->name, numbers[0], numbers[1]));
  }
  return TN_OK;
}

static tn_status check_symmetries(pn_checking *c) {
  const pn_problem *p = c->problem;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].exact)
      TN_TRY(check_symmetry(c, u, p->unknowns[u].exact, NULL, p->unknowns[u].name,
                            "the exact solution of"));
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t k = 0; k < p->conditions[i].n_pieces; ++k)
      for (size_t r = 0; r < p->conditions[i].n_relations; ++r) {
        const pn_term *t = &p->conditions[i];
        size_t u = 0;
        pn_expr *g = NULL;
        if (t->where == PN_ON && !t->pieces[k].filter && !pn_piece_curved(&t->pieces[k]) &&
            pn_check_given(c, &t->relations[r], &t->pieces[k], &u, &g))
          TN_TRY(check_symmetry(c, u, g, &t->pieces[k], t->name, "the value given by"));
      }
  return TN_OK;
}

/* ---- What may have no value while training ---------------------------------------------------------------- */

static bool is_guarded(const pn_problem *p, const pn_expr *e) {
  enum { MOST = 100 };
  pn_expr *nodes[MOST];
  size_t n = pn_check_nodes(p, (pn_expr *)(uintptr_t)e, MOST, nodes);
  for (size_t i = 0; i < n; ++i) {
    const pn_expr *at = nodes[i];
    bool even =
        at->kind == PN_POWER && at->args[1]->kind == PN_NUMBER && fmod(at->args[1]->number, 2) == 0;
    bool positive = at->kind == PN_FUNCTION && (at->index == PN_FN_abs || at->index == PN_FN_exp ||
                                                at->index == PN_FN_max || at->index == PN_FN_cosh);
    if (even || positive || at->kind == PN_WHERE ||
        (at->kind == PN_UNKNOWN && p->unknowns[at->index].ansatz))
      return true;
  }
  return false;
}

/* The part of e that must stay positive (or not 0), or NULL. */
static const pn_expr *delicate(const pn_problem *p, const pn_expr *e, const char **must) {
  double number = 0;
  if (e->kind != PN_DIVIDE && e->n && e->args[0]->is_complex) /* log and roots have a branch there */
    return NULL;
  bool root = e->kind == PN_FUNCTION &&
              (e->index == PN_FN_sqrt || e->index == PN_FN_log || e->index == PN_FN_log10);
  bool power = e->kind == PN_POWER && !pn_expr_unknowns(p, e->args[1]) &&
               pn_evaluate(p, e->args[1], NULL, &number) == TN_OK && number != rint(number);
  const pn_expr *part = root || power ? e->args[0] : e->kind == PN_DIVIDE ? e->args[1] : NULL;
  *must = e->kind == PN_DIVIDE ? "not become 0" : "stay positive";
  return part && pn_expr_unknowns(p, part) && !is_guarded(p, part) ? part : NULL;
}

static tn_status check_delicate(pn_checking *c, const pn_term *t) {
  enum { MOST = 400 };
  pn_expr *nodes[MOST];
  for (size_t r = 0; r < t->n_relations; ++r) {
    size_t n = pn_check_nodes(c->problem, t->relations[r].whole, MOST, nodes);
    for (size_t i = 0; i < n; ++i) {
      const char *must = NULL;
      const pn_expr *part = delicate(c->problem, nodes[i], &must);
      if (!part)
        continue;
      TN_TRY(pn_found(
          c, PN_FOUND_NOTE, t->name, (pn_place){0}, 0,
          "`%s` in `%s`: `%s` must %s while training; an ansatz as in \"exp(net)\" sees to it",
          pn_check_text(c, nodes[i]), t->name, pn_check_text(c, part), must));
      return TN_OK;
    }
  }
  return TN_OK;
}

/* ---- Equalities inside `where` ----------------------------------------------------------------------------- */

/* Coordinates that some piece of the term fixes (bit i). */
static uint32_t fixed_by(const pn_term *t) {
  uint32_t bits = 0;
  for (size_t k = 0; k < t->n_pieces; ++k)
    for (size_t i = 0; i < t->pieces[k].n_fixed; ++i)
      bits |= UINT32_C(1) << t->pieces[k].fixed[i];
  return bits;
}

/* An equality of coordinates that vary on every piece, not under `not`: NULL if there is none. */
static const pn_expr *lost_equality(const pn_problem *p, const pn_expr *e, uint32_t fixed) {
  if (e->kind == PN_NOT)
    return NULL;
  if (e->kind == PN_EQUAL) {
    uint32_t bits = pn_expr_depends(p, e->args[0]) | pn_expr_depends(p, e->args[1]);
    return bits && !(bits & fixed) ? e : NULL;
  }
  const pn_expr *found = NULL;
  for (size_t i = 0; (e->kind == PN_AND || e->kind == PN_OR) && i < e->n && !found; ++i)
    found = lost_equality(p, e->args[i], fixed);
  return found;
}

/* where(x = 0, 1, sin(x)/x) guards a quotient and is meant so. */
static tn_status check_where(pn_checking *c, const pn_term *t) {
  enum { MOST = 400 };
  const pn_problem *p = c->problem;
  pn_expr *nodes[MOST];
  for (size_t r = 0; r < t->n_relations; ++r) {
    size_t n = pn_check_nodes(p, t->relations[r].whole, MOST, nodes);
    for (size_t i = 0; i < n; ++i) {
      const pn_expr *e = nodes[i];
      const pn_expr *test = e->kind == PN_WHERE ? lost_equality(p, e->args[0], fixed_by(t)) : NULL;
      if (!test || pn_check_has(p, e->args[2], PN_DIVIDE))
        continue;
      return pn_found(c, PN_FOUND_WARNING, t->name, pn_expr_place(test), test->length,
                      "`%s` in `%s` holds at no point that is drawn: %s counts everywhere. A part "
                      "of the domain is written with < or >, a surface as a condition with `on`",
                      pn_check_text(c, test), t->name, pn_check_text(c, e->args[2]));
    }
  }
  return TN_OK;
}

tn_status pn_check_conflicts(pn_checking *c) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t k = i; k < p->n_conditions; ++k) {
      TN_TRY(compare_texts(c, &p->conditions[i], &p->conditions[k]));
      TN_TRY(compare_data(c, &p->conditions[i], &p->conditions[k]));
      TN_TRY(compare_terms(c, &p->conditions[i], &p->conditions[k]));
    }
  TN_TRY(check_symmetries(c));
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(check_delicate(c, &p->equations[i]));
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(check_where(c, &p->equations[i]));
  for (size_t i = 0; i < p->n_conditions; ++i)
    TN_TRY(check_where(c, &p->conditions[i]));
  tn_error_clear();
  return TN_OK;
}
