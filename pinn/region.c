/* region.c: which points belong to a region, a part, a piece.
 *
 * Predicates of shapes become bodies by the same rules that they are read by: `and` is an intersection, `or` a
 * union, `A - B` a difference; a comparison of space coordinates is the body where it holds. What a body says
 * about a point is asked with a slack of 1e-9 of the domain's size, because points on a boundary are rounded.
 *
 * An unknown with `in` lives in a part. Equations then hold where all their unknowns live; a surface must touch
 * the part of each of them, from either side, so that a condition on the boundary is asked only where its
 * unknown is, and one on an interface may have an unknown on each side.
 */
#include "pinn/region.h"

#include <math.h>
#include <string.h>

#include "pinn/moving.h"
#include "pinn/read.h"

static const double SLACK = 1e-9, STEP = 1e-7; /* of the longest range of space */

/* ---- Bodies of predicates ----------------------------------------------------------------------- */

tn_status pn_space_box(pn_problem *p) {
  size_t space[PN_MAX_COORDINATES], d = pn_space_axes(p, space);
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  pn_body *box = NULL;
  if (p->box)
    return TN_OK;
  for (size_t i = 0; i < d; ++i) {
    const pn_coordinate *c = &p->coordinates[space[i]];
    if (pn_moves(c))
      return pn_fail_at(TN_EUNSUPPORTED, c->place, strlen(c->name),
                        "shapes need ranges that are numbers; an end of %s moves", c->name);
    from[i] = p->coordinates[space[i]].lo;
    to[i] = p->coordinates[space[i]].hi;
  }
  if (d == 0)
    return TN_FAIL(TN_EINPUT, "%s: shapes need space coordinates in [domain]", p->source.file);
  TN_TRY(pn_body_box(p->arena, d, from, to, PN_BOX_TAG, &box));
  p->box = box;
  return TN_OK;
}

/* What a body of a formula needs to know at a point. */
typedef struct formula {
  const pn_problem *problem;
  const pn_expr *predicate;
} formula;

static tn_status formula_holds(const void *context, const double *x, bool *inside) {
  const formula *f = context;
  double point[PN_MAX_COORDINATES] = {0};
  size_t space[PN_MAX_COORDINATES], d = pn_space_axes(f->problem, space);
  for (size_t i = 0; i < d; ++i)
    point[space[i]] = x[i];
  return pn_predicate_holds(f->problem, f->predicate, point, inside);
}

tn_status pn_formula_body(pn_problem *p, const pn_expr *predicate, size_t tag, pn_body **out) {
  formula *f = NULL;
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  TN_TRY(PN_TAKE(p->arena, 1, &f));
  *f = (formula){p, predicate};
  if (!pn_body_bounds(p->box, from, to))
    return TN_FAIL(TN_EINTERNAL, "a box without bounds");
  return pn_body_implicit(p->arena, pn_body_dimensions(p->box), from, to, formula_holds, f, tag,
                          out);
}

static tn_status body_of(pn_problem *p, const pn_expr *e, pn_body **out, uint64_t *tags);

/* a and b, a or b; a and not b is a difference. */
static tn_status joined(pn_problem *p, const pn_expr *e, pn_body **out, uint64_t *tags) {
  bool without = e->kind == PN_AND && e->args[1]->kind == PN_NOT;
  const pn_expr *second = without ? e->args[1]->args[0] : e->args[1];
  pn_body *a = NULL, *b = NULL;
  *out = NULL;
  TN_TRY(body_of(p, e->args[0], &a, tags));
  TN_TRY(body_of(p, second, &b, tags));
  if (!a || !b)
    return TN_OK;
  return pn_body_join(p->arena,
                      e->kind == PN_OR ? PN_UNION
                      : without        ? PN_DIFFERENCE
                                       : PN_INTERSECTION,
                      a, b, out);
}

/* *out NULL: e is no body. */
static tn_status body_of(pn_problem *p, const pn_expr *e, pn_body **out, uint64_t *tags) {
  size_t d = pn_body_dimensions(p->box);
  double zero[PN_BODY_DIMENSIONS] = {0};
  pn_body *inner = NULL;
  *out = NULL;
  switch (e->kind) {
  case PN_EVERYWHERE:
    *tags |= UINT64_C(1) << PN_BOX_TAG;
    return pn_body_move(p->arena, p->box, zero, out);
  case PN_SHAPE:
  case PN_INSIDE:
    if (e->index == PN_NONE)
      return TN_OK;
    TN_TRY(pn_shape_body(p, e->index));
    *tags |= p->shapes[e->index].tags;
    return pn_body_move(p->arena, p->shapes[e->index].body, zero, out);
  case PN_AND:
  case PN_OR:
    return joined(p, e, out, tags);
  case PN_NOT:
    TN_TRY(body_of(p, e->args[0], &inner, tags));
    return inner ? pn_body_complement(p->arena, inner, out) : TN_OK;
  case PN_LESS:
  case PN_GREATER:
  case PN_LESS_EQUAL:
  case PN_GREATER_EQUAL:
    if (pn_expr_depends(p, e) & ~pn_space_bits(p) || pn_expr_unknowns(p, e) || d == 0)
      return TN_OK;
    *tags |= UINT64_C(1) << PN_NAMELESS_TAG;
    return pn_formula_body(p, e, PN_NAMELESS_TAG, out);
  default:
    return TN_OK;
  }
}

tn_status pn_predicate_body(pn_problem *p, const pn_expr *predicate, const pn_body **out,
                            uint64_t *tags) {
  pn_body *body = NULL;
  *out = NULL;
  *tags = 0;
  if (!p->box)
    return TN_OK;
  TN_TRY(body_of(p, predicate, &body, tags));
  *out = body;
  return TN_OK;
}

tn_status pn_body_in_box(pn_problem *p, const pn_body **body, uint64_t *tags) {
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  size_t space[PN_MAX_COORDINATES], d = pn_space_axes(p, space);
  bool fits = pn_body_bounds(*body, from, to);
  double slack = pn_space_slack(p);
  for (size_t i = 0; i < d && fits; ++i)
    fits = from[i] >= p->coordinates[space[i]].lo - slack &&
           to[i] <= p->coordinates[space[i]].hi + slack;
  if (fits)
    return TN_OK;
  pn_body *cut = NULL;
  TN_TRY(pn_body_join(p->arena, PN_INTERSECTION, *body, p->box, &cut));
  *body = cut;
  *tags |= UINT64_C(1) << PN_BOX_TAG;
  return TN_OK;
}

/* ---- Points ------------------------------------------------------------------------------------- */

bool pn_space_point(const pn_problem *p, const double *point, double *x) {
  bool known = true;
  for (size_t i = 0, k = 0; i < p->n_coordinates; ++i)
    if (p->coordinates[i].role == PN_SPACE) {
      known = known && !isnan(point[i]);
      x[k++] = point[i];
    }
  return known;
}

static double space_size(const pn_problem *p) {
  double longest = 0;
  for (size_t i = 0; i < p->n_coordinates; ++i)
    if (p->coordinates[i].role == PN_SPACE)
      longest = fmax(longest, p->coordinates[i].hi - p->coordinates[i].lo);
  return longest;
}

double pn_space_slack(const pn_problem *p) { return SLACK * space_size(p); }

/* Is any of the body next to x? What cuts along a face leaves a distance of 0 there and nothing else. */
static bool has_neighbour(const pn_problem *p, const pn_body *body, const double *x) {
  size_t d = pn_body_dimensions(body), most = d < 8 ? d : 8;
  double step = STEP * space_size(p), at[PN_BODY_DIMENSIONS];
  for (size_t k = 0; k < 2 * d; ++k) {
    memcpy(at, x, d * sizeof *at);
    at[k / 2] += k % 2 ? step : -step;
    if (pn_body_inside(body, at))
      return true;
  }
  for (size_t k = 0; k < (size_t)1 << most; ++k) {
    for (size_t i = 0; i < d; ++i)
      at[i] = x[i] + (k >> (i % most) & 1 ? step : -step);
    if (pn_body_inside(body, at))
      return true;
  }
  return false;
}

static bool touches(const pn_problem *p, const pn_body *body, const double *x) {
  return pn_body_inside(body, x) ||
         (fabs(pn_body_distance(body, x)) <= pn_space_slack(p) && has_neighbour(p, body, x));
}

bool pn_body_holds(const pn_problem *p, const pn_body *body, const double *point) {
  double x[PN_MAX_COORDINATES];
  return !body || !pn_space_point(p, point, x) || touches(p, body, x);
}

bool pn_shape_holds(const pn_problem *p, size_t shape, const double *point) {
  double x[PN_MAX_COORDINATES];
  const pn_body *body = shape == PN_NONE ? p->region : p->shapes[shape].body;
  return !body || !pn_space_point(p, point, x) || pn_body_inside(body, x);
}

bool pn_domain_holds(const pn_problem *p, const double *point) {
  return pn_body_holds(p, p->region, point);
}

bool pn_unknown_lives(const pn_problem *p, size_t unknown, const double *point) {
  const pn_unknown *u = &p->unknowns[unknown];
  double seen[PN_MAX_COORDINATES];
  for (size_t i = 0; i < p->n_coordinates; ++i) /* what it does not depend on does not count */
    seen[i] = pn_unknown_has(u, i) ? point[i] : NAN;
  return pn_domain_holds(p, seen) && pn_body_holds(p, u->in, seen);
}

/* ---- Pieces ------------------------------------------------------------------------------------- */

bool pn_piece_curved(const pn_piece *piece) {
  return piece && piece->whole && piece->normal == PN_NONE;
}

/* Does one of the faces of the piece pass through x? Round ones are told by the primitive that made them. */
static bool on_faces(const pn_problem *p, const pn_piece *piece, const double *x) {
  const pn_face *face = NULL;
  size_t d = pn_body_dimensions(piece->whole);
  double slack = 10 * pn_space_slack(p);
  pn_body_faces(piece->whole, &face);
  for (size_t k = 0; k < piece->n_faces; ++k) {
    const pn_face *f = &face[piece->faces[k]];
    double off = -f->offset;
    for (size_t i = 0; i < d && f->flat; ++i)
      off += f->normal[i] * x[i];
    if (!f->flat && f->tag < p->n_shapes)
      off = pn_body_distance(p->shapes[f->tag].body, x);
    else if (!f->flat)
      off = 0;
    if (fabs(off) <= slack)
      return true;
  }
  return false;
}

static bool normal_of(const pn_problem *p, const pn_piece *piece, const double *x, double *normal) {
  double n[PN_BODY_DIMENSIONS] = {0};
  size_t space[PN_MAX_COORDINATES], d = pn_space_axes(p, space);
  if (piece->normal != PN_NONE) {
    memset(normal, 0, PN_MAX_COORDINATES * sizeof *normal);
    normal[piece->normal] = piece->sign;
    return true;
  }
  if (!piece->whole || !pn_body_normal(piece->whole, x, n))
    return false;
  for (size_t i = 0; i < d; ++i)
    normal[space[i]] = n[i];
  return true;
}

bool pn_sides_hold(const pn_problem *p, const pn_piece *piece, const double *x,
                   const double *normal) {
  size_t d = p->box ? pn_body_dimensions(p->box) : 0;
  double step = STEP * space_size(p), at[2][PN_BODY_DIMENSIONS];
  for (size_t i = 0; i < d; ++i)
    for (int k = 0; k < 2; ++k)
      at[k][i] = x[i] + (k ? step : -step) * (normal ? normal[i] : 0);
  for (size_t s = 0; s < piece->n_sides; ++s)
    if (normal ? !pn_body_inside(piece->sides[s], at[0]) && !pn_body_inside(piece->sides[s], at[1])
               : !touches(p, piece->sides[s], x))
      return false;
  if (!piece->inner)
    return true;
  const pn_body *domain = p->region ? p->region : p->box;
  return pn_body_inside(domain, at[0]) && pn_body_inside(domain, at[1]);
}

tn_status pn_piece_holds(const pn_problem *p, const pn_piece *piece, const double *point,
                         double *normal, bool *out) {
  double x[PN_MAX_COORDINATES], n[PN_MAX_COORDINATES] = {0}, packed[PN_MAX_COORDINATES];
  bool has_space = pn_space_point(p, point, x);
  *out = true;
  for (size_t j = 0; j < piece->n_fixed; ++j) {
    bool space = p->coordinates[piece->fixed[j]].role == PN_SPACE && p->box;
    double off = fabs(point[piece->fixed[j]] - piece->value[j]);
    *out = *out && off <= (space ? pn_space_slack(p) : 0);
  }
  if (*out && has_space && piece->whole)
    *out =
        fabs(pn_body_distance(piece->whole, x)) <= 10 * pn_space_slack(p) && on_faces(p, piece, x);
  if (*out && has_space && piece->body)
    *out = touches(p, piece->body, x);
  if (!*out)
    return TN_OK;
  bool known = (has_space || piece->normal != PN_NONE) && normal_of(p, piece, x, n);
  if (known && normal)
    memcpy(normal, n, sizeof n);
  if (pn_piece_curved(piece) && !known)
    *out = false; /* an edge or a corner */
  if (*out && has_space && p->box)
    *out = pn_sides_hold(p, piece, x, known && pn_space_point(p, n, packed) ? packed : NULL);
  if (*out && piece->filter)
    return pn_predicate_holds(p, piece->filter, point, out);
  return TN_OK;
}

/* ---- Parts -------------------------------------------------------------------------------------- */

tn_status pn_read_part(pn_problem *p, const pn_toml *node, pn_unknown *unknown) {
  const pn_phrase *phrase = NULL;
  pn_expr *predicate = NULL;
  uint64_t tags = 0;
  if (!node || strcmp(node->string, "domain") == 0)
    return TN_OK;
  TN_TRY(pn_space_box(p));
  TN_TRY(pn_phrase_of(p, node, &phrase));
  TN_TRY(pn_parse_predicate(p->arena, phrase, &predicate));
  pn_naming scope = {
      .problem = p, .what = "a part of the domain", .coordinates = true, .no_definitions = true};
  TN_TRY(pn_resolve_predicate(&scope, predicate));
  if (predicate->kind == PN_EVERYWHERE)
    return TN_OK;
  TN_TRY(pn_predicate_body(p, predicate, &unknown->in, &tags));
  if (!unknown->in)
    return pn_expr_fail(TN_EINPUT, predicate,
                        "`%s` lives in a part of space: this varies with more", unknown->name);
  TN_TRY(pn_body_in_box(p, &unknown->in, &tags));
  unknown->in_text = node->string;
  unknown->in_where = predicate;
  return TN_OK;
}

/* Unknowns whose values at the point itself an expression needs. */
static uint64_t unknowns_here(const pn_problem *p, const pn_expr *e) {
  uint64_t bits = 0;
  size_t first = 0;
  if (e->kind == PN_MEAN)
    return 0;
  if (e->kind == PN_UNKNOWN)
    return e->index < 64 ? UINT64_C(1) << e->index : 0;
  if (e->kind ==
      PN_DEFINITION) /* definitions of definitions grow fast: their bits stand for them */
    return p->definitions[e->index].unknowns;
  for (size_t i = 0; e->kind == PN_AT && i < e->n_axes; ++i)
    first |= p->coordinates[e->axes[i]].role == PN_SPACE; /* it is somewhere else */
  for (size_t i = first; i < e->n; ++i)
    bits |= unknowns_here(p, e->args[i]);
  return bits;
}

static tn_status restrict_volume(pn_problem *p, pn_term *term, const pn_body *part) {
  for (size_t k = 0; k < term->n_pieces; ++k) {
    pn_piece *piece = &term->pieces[k];
    pn_body *both = NULL;
    if (piece->whole || piece->normal != PN_NONE)
      continue;
    if (!piece->body) {
      piece->body = part;
      continue;
    }
    TN_TRY(pn_body_join(p->arena, PN_INTERSECTION, piece->body, part, &both));
    piece->body = both;
  }
  return TN_OK;
}

/* A surface between parts has unknowns on both sides. */
static tn_status restrict_surfaces(pn_term *term, const pn_unknown *u) {
  for (size_t k = 0; k < term->n_pieces; ++k) {
    pn_piece *piece = &term->pieces[k];
    if (!piece->whole && piece->normal == PN_NONE)
      continue;
    if (piece->n_sides == PN_MAX_SIDES)
      return TN_FAIL(TN_EINPUT, "condition `%s` has unknowns of more than %d parts", term->name,
                     (int)PN_MAX_SIDES);
    piece->sides[piece->n_sides++] = u->in;
  }
  return TN_OK;
}

/* Has an unknown before u said the same part already? */
static bool said_before(const pn_problem *p, uint64_t bits, size_t u) {
  for (size_t v = 0; v < u; ++v)
    if ((bits >> v & 1u) && p->unknowns[v].in &&
        strcmp(p->unknowns[v].in_text, p->unknowns[u].in_text) == 0)
      return true;
  return false;
}

/* Pieces that nothing is left of are dropped; if none is left, the condition selects no points. */
static tn_status prune(pn_problem *p, pn_term *term) {
  size_t kept = 0;
  for (size_t k = 0; k < term->n_pieces && term->where == PN_ON; ++k) {
    const pn_piece *piece = &term->pieces[k];
    bool some = true;
    if (piece->n_sides || piece->inner || (piece->filter && piece->whole))
      TN_TRY(pn_piece_reachable(p, term, piece, &some));
    if (some)
      term->pieces[kept++] = *piece;
  }
  if (kept == 0 && term->where == PN_ON && term->n_pieces > 0)
    return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                      "condition `%s` selects 0 points: no point of \"%s\"%s%s%s", term->name,
                      term->region, term->part ? " touches where its unknowns live, " : " is left",
                      term->part ? term->part : "", term->part ? "" : " by its inequalities");
  if (term->where == PN_ON)
    term->n_pieces = kept;
  return TN_OK;
}

tn_status pn_term_parts(pn_problem *p, pn_term *term) {
  uint64_t bits = 0;
  for (size_t r = 0; r < term->n_relations && p->box; ++r)
    bits |= unknowns_here(p, term->relations[r].whole);
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_unknown *unknown = &p->unknowns[u];
    if (!(bits >> u & 1u) || !unknown->in || said_before(p, bits, u))
      continue;
    TN_TRY(restrict_volume(p, term, unknown->in));
    if (term->where == PN_ON)
      TN_TRY(restrict_surfaces(term, unknown));
    char *text = NULL;
    TN_TRY(pn_arena_format(p->arena, &text, "%s%s%s", term->part ? term->part : "",
                           term->part ? " and " : "", unknown->in_text));
    term->part = text;
  }
  if (!p->box)
    return TN_OK;
  TN_TRY(prune(p, term));
  for (size_t k = 0; k < term->n_pieces; ++k)
    TN_TRY(pn_piece_measure(p, term, &term->pieces[k]));
  return TN_OK;
}
