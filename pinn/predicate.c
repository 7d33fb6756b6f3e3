/* predicate.c: predicates of `on` and `in` as parts of a box.
 *
 * A surface has a measure, a predicate has not: "boundary and not y = 1" must become three faces
 * that can be sampled, not a test that random points fail. So an `on` predicate is brought into
 * disjunctive form, and every conjunction becomes pieces:
 *
 *   x = c            fixes a coordinate; outside the range it is an error, not an empty set
 *   boundary         one piece for each end of each space coordinate that does not repeat; together
 *                    with a fixed space coordinate it asks that this one lies on the boundary
 *   not x = c        drops the pieces that lie there; elsewhere it takes away a null set; so does
 *                    not boundary
 *   inequalities     filter points; on a piece that fixes all they mention they are decided at once
 *
 * Pieces that fix the same coordinates at the same values are merged, with their filters joined by
 * `or`, so that no part of a surface is counted twice. In a volume (`in`) the predicate is the
 * filter.
 */
#include "pinn/names.h"
#include "pinn/region.h"

#include <math.h>
#include <string.h>

#include <float.h>

enum { MOST_CONJUNCTIONS = 512, MOST_LITERALS = 64 };

/* literals joined by `and` */
typedef struct conjunction {
  pn_piece piece; /* what is fixed, and the filter so far */
  bool boundary, not_boundary;
  bool shape;               /* a shape is named, or an interface */
  uint64_t made_by, not_by; /* tags of faces */
  size_t interface;         /* PN_NONE */
  size_t n_not;             /* excluded planes */
  size_t not_axis[MOST_LITERALS];
  double not_value[MOST_LITERALS];
} conjunction;

typedef struct list {
  size_t n;
  conjunction *items;
} list;

typedef struct work {
  pn_problem *problem;
  const char *condition;
} work;

static tn_status take(const work *w, size_t n, list *out) {
  if (n > MOST_CONJUNCTIONS)
    return TN_FAIL(TN_EINPUT, "condition `%s`: its predicate has more than %d alternatives",
                   w->condition, MOST_CONJUNCTIONS);
  out->n = 0;
  return PN_TAKE(w->problem->arena, n, &out->items);
}

/* ---- Literals ------------------------------------------------------------------------------- */

static bool is_constant(const work *w, const pn_expr *e) {
  return pn_expr_depends(w->problem, e) == 0 && pn_expr_unknowns(w->problem, e) == 0;
}

/* x = c or c = x with a constant c inside the range. */
static tn_status fixed_plane(const work *w, const pn_expr *e, size_t *axis, double *value) {
  const pn_expr *a = e->args[0], *b = e->args[1];
  if (a->kind != PN_COORDINATE) {
    a = e->args[1];
    b = e->args[0];
  }
  if (a->kind != PN_COORDINATE || !is_constant(w, b))
    return pn_expr_fail(TN_EUNSUPPORTED, e,
                        "this version of pinn has surfaces of the form "
                        "coordinate = constant only");
  TN_TRY(pn_evaluate(w->problem, b, NULL, value));
  *axis = a->index;
  const pn_coordinate *c = &w->problem->coordinates[a->index];
  if (pn_moves(c) && !(b->kind == PN_BOUND && b->index == a->index)) {
    bool low = c->lo_unknown == PN_NONE && *value == c->end[0];
    bool high = c->hi_unknown == PN_NONE && *value == c->end[1];
    if (!low && !high)
      return pn_expr_fail(TN_EINPUT, e,
                          "the ends of %s move: surfaces across it are %s = %s.min and %s = %s.max", c->name,
                          c->name, c->name, c->name, c->name);
    *value = high ? c->hi : c->lo;
    return TN_OK;
  }
  double slack = 8 * DBL_EPSILON * fmax(fabs(c->lo), fabs(c->hi)); /* of two ways to write an end */
  if (fabs(*value - c->lo) <= slack)
    *value = c->lo;
  if (fabs(*value - c->hi) <= slack)
    *value = c->hi;
  if (*value >= c->lo && *value <= c->hi)
    return TN_OK;
  char *text = NULL, *range = NULL;
  TN_TRY(pn_expr_print(w->problem->arena, e, w->problem->coordinate_names, &text));
  TN_TRY(pn_arena_format(w->problem->arena, &range, "[%g, %g]", c->lo, c->hi));
  return pn_expr_fail(TN_EINPUT, e,
                      "\"%s\" lies outside %s in %s: condition `%s` selects no points.", text,
                      c->name, range, w->condition);
}

static tn_status join(const work *w, pn_kind kind, pn_expr *a, pn_expr *b, pn_expr **out) {
  if (!a || !b) {
    *out = a ? a : b;
    return TN_OK;
  }
  return pn_expr_make(w->problem->arena, kind, a, 2, (pn_expr *[]){a, b}, out);
}

static pn_kind negated(pn_kind kind) {
  switch (kind) {
  case PN_LESS:
    return PN_GREATER_EQUAL;
  case PN_GREATER:
    return PN_LESS_EQUAL;
  case PN_LESS_EQUAL:
    return PN_GREATER;
  default:
    return PN_LESS;
  }
}

static tn_status literal(const work *w, const pn_expr *e, bool negative, list *out) {
  TN_TRY(take(w, 1, out));
  conjunction *c = &out->items[0];
  c->made_by = UINT64_MAX;
  c->interface = PN_NONE;
  out->n = 1;
  size_t axis = 0;
  double value = 0;
  switch (e->kind) {
  case PN_EVERYWHERE:
    out->n = negative ? 0 : 1;
    return TN_OK;
  case PN_BOUNDARY:
    c->boundary = !negative;
    c->not_boundary = negative;
    return TN_OK;
  case PN_SHAPE:
    c->shape = !negative;
    if (negative)
      c->not_by = w->problem->shapes[e->index].tags;
    else
      c->made_by = w->problem->shapes[e->index].tags;
    return TN_OK;
  case PN_INTERFACE:
    if (negative)
      return pn_expr_fail(TN_EINPUT, e, "`not` an interface is no surface");
    c->shape = true;
    c->interface = e->index;
    return TN_OK;
  case PN_INSIDE: {
    pn_expr *copy = NULL;
    TN_TRY(pn_expr_make(w->problem->arena, PN_INSIDE, e, 0, NULL, &copy));
    copy->index = e->index;
    copy->name = e->name;
    c->piece.filter = copy;
    return negative ? pn_expr_make(w->problem->arena, PN_NOT, e, 1, &copy, &c->piece.filter)
                    : TN_OK;
  }
  case PN_EQUAL:
    TN_TRY(fixed_plane(w, e, &axis, &value));
    if (negative) {
      c->n_not = 1;
      c->not_axis[0] = axis;
      c->not_value[0] = value;
    } else {
      c->piece.n_fixed = 1;
      c->piece.fixed[0] = axis;
      c->piece.value[0] = value;
    }
    return TN_OK;
  default:
    return pn_expr_make(w->problem->arena, negative ? negated(e->kind) : e->kind, e, e->n, e->args,
                        &c->piece.filter);
  }
}

/* ---- Disjunctive form ----------------------------------------------------------------------- */

/* Fixes a coordinate; false if it is fixed at another value already. Kept in ascending order. */
static bool fix(pn_piece *p, size_t axis, double value) {
  size_t at = 0;
  while (at < p->n_fixed && p->fixed[at] < axis)
    ++at;
  if (at < p->n_fixed && p->fixed[at] == axis)
    return p->value[at] == value;
  for (size_t i = p->n_fixed; i > at; --i) {
    p->fixed[i] = p->fixed[i - 1];
    p->value[i] = p->value[i - 1];
  }
  p->fixed[at] = axis;
  p->value[at] = value;
  ++p->n_fixed;
  return true;
}

/* a and b; *possible is false if they contradict each other. */
static tn_status both(const work *w, const conjunction *a, const conjunction *b, conjunction *out,
                      bool *possible) {
  *out = *a;
  *possible = true;
  for (size_t i = 0; i < b->piece.n_fixed; ++i)
    *possible &= fix(&out->piece, b->piece.fixed[i], b->piece.value[i]);
  out->boundary |= b->boundary;
  out->not_boundary |= b->not_boundary;
  out->shape |= b->shape;
  out->made_by &= b->made_by;
  out->not_by |= b->not_by;
  if (a->interface != PN_NONE && b->interface != PN_NONE)
    *possible &= a->interface == b->interface;
  if (b->interface != PN_NONE)
    out->interface = b->interface;
  if (out->n_not + b->n_not > MOST_LITERALS)
    return TN_FAIL(TN_EINPUT, "condition `%s`: its predicate excludes more than %d planes",
                   w->condition, MOST_LITERALS);
  for (size_t i = 0; i < b->n_not; ++i) {
    out->not_axis[out->n_not] = b->not_axis[i];
    out->not_value[out->n_not++] = b->not_value[i];
  }
  return join(w, PN_AND, a->piece.filter, b->piece.filter, &out->piece.filter);
}

static tn_status disjunctive(const work *w, const pn_expr *e, bool negative, list *out) {
  if (e->kind == PN_NOT)
    return disjunctive(w, e->args[0], !negative, out);
  if (e->kind != PN_AND && e->kind != PN_OR)
    return literal(w, e, negative, out);
  list a = {0}, b = {0};
  TN_TRY(disjunctive(w, e->args[0], negative, &a));
  TN_TRY(disjunctive(w, e->args[1], negative, &b));
  if ((e->kind == PN_OR) != negative) {
    TN_TRY(take(w, a.n + b.n, out));
    for (size_t i = 0; i < a.n; ++i)
      out->items[out->n++] = a.items[i];
    for (size_t i = 0; i < b.n; ++i)
      out->items[out->n++] = b.items[i];
    return TN_OK;
  }
  TN_TRY(take(w, a.n * b.n, out));
  for (size_t i = 0; i < a.n; ++i)
    for (size_t j = 0; j < b.n; ++j) {
      bool possible = false;
      TN_TRY(both(w, &a.items[i], &b.items[j], &out->items[out->n], &possible));
      out->n += possible;
    }
  return TN_OK;
}

/* ---- Pieces --------------------------------------------------------------------------------- */

static int side_of(const pn_coordinate *c, double value) {
  if (c->periodic)
    return 0; /* its two ends are one surface inside */
  return value == c->lo ? -1 : value == c->hi ? 1 : 0;
}

/* Sides and the normal of a piece; returns whether a fixed space coordinate is at an end. */
static bool complete(const pn_problem *p, pn_piece *piece, size_t *n_space) {
  bool touches = false;
  *n_space = 0;
  piece->normal = PN_NONE;
  piece->sign = 0;
  for (size_t i = 0; i < piece->n_fixed; ++i) {
    const pn_coordinate *c = &p->coordinates[piece->fixed[i]];
    piece->side[i] = side_of(c, piece->value[i]);
    if (c->role != PN_SPACE)
      continue;
    ++*n_space;
    if (piece->side[i] == 0)
      continue;
    touches = true;
    piece->normal = piece->fixed[i];
    piece->sign = piece->side[i];
  }
  if (*n_space != 1)
    piece->normal = PN_NONE;
  if (piece->normal == PN_NONE)
    piece->sign = 0;
  return touches;
}

static bool is_excluded(const conjunction *c, const pn_piece *piece) {
  for (size_t i = 0; i < piece->n_fixed; ++i)
    for (size_t k = 0; k < c->n_not; ++k)
      if (piece->fixed[i] == c->not_axis[k] && piece->value[i] == c->not_value[k])
        return true;
  return false;
}

/* Decides the parts of a filter (joined by `and`) that mention fixed coordinates only. */
static tn_status decide(const work *w, pn_piece *piece, pn_expr *filter, pn_expr **left,
                        bool *possible) {
  *left = NULL;
  if (!filter)
    return TN_OK;
  if (filter->kind == PN_AND) {
    pn_expr *a = NULL, *b = NULL;
    TN_TRY(decide(w, piece, filter->args[0], &a, possible));
    TN_TRY(decide(w, piece, filter->args[1], &b, possible));
    return join(w, PN_AND, a, b, left);
  }
  double point[PN_MAX_COORDINATES] = {0};
  uint32_t fixed = 0;
  for (size_t i = 0; i < piece->n_fixed; ++i) {
    fixed |= UINT32_C(1) << piece->fixed[i];
    point[piece->fixed[i]] = piece->value[i];
  }
  *left = filter;
  if (pn_expr_depends(w->problem, filter) & ~fixed)
    return TN_OK;
  bool yes = false;
  TN_TRY(pn_predicate_holds(w->problem, filter, point, &yes));
  *left = NULL;
  *possible &= yes;
  return TN_OK;
}

typedef struct pieces {
  size_t n, room;
  pn_piece *items;
} pieces;

/* Puts a complete piece to the others: merged with one of the same place. */
static tn_status enter_piece(const work *w, pn_piece piece, pieces *out) {
  bool possible = true;
  pn_expr *left = NULL;
  TN_TRY(decide(w, &piece, piece.filter, &left, &possible));
  piece.filter = left;
  if (!possible)
    return TN_OK;
  for (size_t i = 0; i < out->n; ++i) {
    pn_piece *old = &out->items[i];
    bool joined = false;
    if (piece.whole)
      TN_TRY(pn_piece_join(w->problem, old, &piece, &joined));
    if (joined)
      return TN_OK;
    if (!pn_piece_same(old, &piece))
      continue;
    if (!old->filter || !piece.filter) {
      old->filter = NULL;
      return TN_OK;
    }
    return join(w, PN_OR, old->filter, piece.filter, &old->filter);
  }
  if (out->n == out->room)
    return TN_FAIL(TN_EINTERNAL, "predicate: more pieces than counted");
  out->items[out->n++] = piece;
  return TN_OK;
}

static tn_status add_piece(const work *w, const conjunction *c, pn_piece piece, pieces *out) {
  size_t n_space = 0;
  bool touches = complete(w->problem, &piece, &n_space);
  if ((c->boundary && !touches) || (c->not_boundary && touches) || is_excluded(c, &piece))
    return TN_OK;
  piece.body = w->problem->region;
  return enter_piece(w, piece, out);
}

/* Faces of the region, or of what has an interface. *done: the conjunction means nothing else. */
static tn_status add_faces(const work *w, const conjunction *c, const pn_expr *predicate,
                           size_t n_space, pieces *out, bool *done) {
  pn_problem *p = w->problem;
  pn_piece found[2 * PN_MAX_COORDINATES + 2];
  pn_faces_wanted wanted = {.condition = w->condition,
                            .made_by = c->made_by,
                            .not_by = c->not_by,
                            .boundary = c->boundary,
                            .interface = c->interface,
                            .n_not = c->n_not,
                            .not_axis = c->not_axis,
                            .not_value = c->not_value};
  size_t n = 0;
  bool meant = c->boundary || c->shape;
  *done = meant;
  if (c->not_boundary || (!meant && n_space != 1))
    return TN_OK;
  if (n_space > 1)
    return pn_expr_fail(
        TN_EUNSUPPORTED, predicate,
        "condition `%s`: edges of shapes cannot be selected; a point of them can, by "
        "its coordinates alone",
        w->condition);
  TN_TRY(pn_pieces_of_faces(p, &wanted, &c->piece, &n, found));
  *done = meant || n > 0;
  for (size_t i = 0; i < n; ++i)
    TN_TRY(enter_piece(w, found[i], out));
  return TN_OK;
}

/* The pieces of one conjunction: itself, or with `boundary` and no fixed space coordinate all
 * faces. */
static tn_status add_conjunction(const work *w, const conjunction *c, const pn_expr *predicate,
                                 pieces *out) {
  const pn_problem *p = w->problem;
  size_t n_space = 0;
  pn_piece piece = c->piece;
  bool at_end = complete(p, &piece, &n_space);
  if (p->region || c->shape) {
    bool done = false;
    TN_TRY(add_faces(w, c, predicate, n_space, out, &done));
    if (done || (at_end && n_space == 1)) /* an end of the box that the region does not reach */
      return TN_OK;
  }
  if (!c->boundary || n_space > 0) {
    if (piece.n_fixed == 0)
      return pn_expr_fail(TN_EINPUT, predicate,
                          "condition `%s`: `on` needs a surface, as in x = 0; a "
                          "volume is selected by `in`",
                          w->condition);
    return add_piece(w, c, piece, out);
  }
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    const pn_coordinate *x = &p->coordinates[i];
    if (x->role != PN_SPACE) /* a periodic one touches nothing, so add_piece drops it */
      continue;
    for (int high = 0; high < 2; ++high) {
      pn_piece face = c->piece;
      fix(&face, i, high ? x->hi : x->lo);
      TN_TRY(add_piece(w, c, face, out));
    }
  }
  return TN_OK;
}

static bool names_boundary(const pn_expr *e) {
  bool found = e->kind == PN_BOUNDARY;
  for (size_t i = 0; i < e->n; ++i)
    found |= names_boundary(e->args[i]);
  return found;
}

/* A shape that made no face of the boundary. */
static const pn_expr *named_shape(const pn_expr *e) {
  const pn_expr *found = e->kind == PN_SHAPE ? e : NULL;
  for (size_t i = 0; i < e->n && !found && e->kind != PN_NOT; ++i)
    found = named_shape(e->args[i]);
  return found;
}

static tn_status nothing(const pn_problem *p, const char *condition, const pn_expr *predicate);

static bool has_faces(const pn_problem *problem) {
  for (size_t i = 0; i < problem->n_coordinates; ++i)
    if (problem->coordinates[i].role == PN_SPACE && !problem->coordinates[i].periodic)
      return true;
  return false;
}

tn_status pn_pieces_on(pn_problem *problem, const char *condition, const pn_expr *predicate,
                       size_t *n, pn_piece **out) {
  work w = {problem, condition};
  list all = {0};
  pieces found = {0};
  TN_TRY(disjunctive(&w, predicate, false, &all));
  found.room = all.n * (2 * problem->n_coordinates + 2);
  TN_TRY(PN_TAKE(problem->arena, found.room, &found.items));
  for (size_t i = 0; i < all.n; ++i)
    TN_TRY(add_conjunction(&w, &all.items[i], predicate, &found));
  if (found.n == 0)
    return nothing(problem, condition, predicate);
  *n = found.n;
  *out = found.items;
  return TN_OK;
}

static tn_status nothing(const pn_problem *p, const char *condition, const pn_expr *predicate) {
  const pn_expr *shape = named_shape(predicate);
  if (shape && !(p->shapes[shape->index].tags & p->region_tags))
    return pn_expr_fail(
        TN_EINPUT, shape,
        "condition `%s` selects 0 points: `%s` made no part of the boundary, which is "
        "that of domain.region%s%s%s",
        condition, shape->name,
        p->region ? ""
                  : " (there is none). Its surface inside the "
                    "domain is interface(",
        p->region ? "" : shape->name, p->region ? "" : ")");
  return pn_expr_fail(TN_EINPUT, predicate, "condition `%s` selects no points%s", condition,
                      names_boundary(predicate) && !has_faces(p)
                          ? ": `boundary` is the faces of space coordinates, and none has any; "
                            "a start is written t = 0"
                          : "");
}

static tn_status check_volume(const pn_expr *e) {
  if (e->kind == PN_EQUAL || e->kind == PN_BOUNDARY || e->kind == PN_INTERFACE)
    return pn_expr_fail(TN_EINPUT, e, "a surface has no volume: it is selected by `on`");
  if (e->kind != PN_AND && e->kind != PN_OR && e->kind != PN_NOT)
    return TN_OK;
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(check_volume(e->args[i]));
  return TN_OK;
}

static tn_status join_bodies(pn_problem *p, const pn_body *body, pn_piece *out) {
  pn_body *both = NULL;
  if (p->region)
    TN_TRY(pn_body_join(p->arena, PN_INTERSECTION, p->region, body, &both));
  out->body = p->region ? both : body;
  return TN_OK;
}

tn_status pn_pieces_in(pn_problem *problem, const pn_expr *predicate, pn_piece *out) {
  const pn_body *body = NULL;
  uint64_t tags = 0;
  *out = (pn_piece){.normal = PN_NONE, .body = problem->region};
  if (!predicate || predicate->kind == PN_EVERYWHERE)
    return TN_OK;
  TN_TRY(check_volume(predicate));
  if (predicate->kind == PN_SHAPE || predicate->kind == PN_INSIDE)
    TN_TRY(pn_predicate_body(problem, predicate, &body, &tags));
  if (body) { /* no filter: its points are placed inside */
    TN_TRY(pn_body_in_box(problem, &body, &tags));
    return join_bodies(problem, body, out);
  }
  TN_TRY(pn_expr_make(problem->arena, predicate->kind, predicate, predicate->n, predicate->args,
                      &out->filter));
  out->filter->index = predicate->index;
  out->filter->name = predicate->name;
  return TN_OK;
}
