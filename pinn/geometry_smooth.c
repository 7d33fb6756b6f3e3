/* geometry_smooth.c: a smooth function that is zero on chosen faces and positive inside.
 *
 * Each face has a carrier f (geometry_carriers.c) that is positive on the inner side. If f vanishes nowhere else in the
 * closure of the body, as for convex bodies and for holes, it serves as it is. Else (the edge of a re-entrant corner goes on
 * into the body) it is trimmed by a t that is positive on the face, negative on the rest of the carrier (Rvachev,
 * Sukumar and Srivastava 2022):
 *
 *   phi = sqrt(f^2 + g^2),    g = (sqrt(t^2 + (f^2/L)^2) - t) / 2
 *
 * which is |f| to fifth order where t > 0 and positive elsewhere. There the same function is written f sqrt(1 + (g/f)^2)
 * with g/f = f^3 / (2 L^2 (sqrt(..) + t)), so that it has derivatives on the face itself; each branch of `where` is kept
 * away from the argument that would make the derivative of its square root infinite, because gradients pass through both.
 *
 * Faces are joined by R-equivalence, each tree once:
 *
 *   phi = 1 / sum 1/(phi_i + e) - e,    e = 1e-8 L
 *
 * on face i it is -e^2 / phi_j, below the rounding of coordinates, with the gradient of phi_i; e keeps it finite there. In
 * corners it is about 0 and has no gradient.
 *
 * Which carriers need a trim is decided with Sobol points in the body and on its faces, and the finished tree is checked on
 * them: what cannot be expressed is refused, never wrong in silence.
 */
#include "pinn/geometry_trees.h"

#include <math.h>
#include <string.h>

#include "pinn/sobol.h"

enum { INNER = 1024, OUTER = 128, MOST_TERMS = 16 };

/* What is known about the body by points. */
typedef struct witness {
  const pn_body *whole;
  const size_t *axis;
  size_t n_inner, n_faces;
  double *inner;   /* n_inner x d */
  double *outer;   /* n_faces x OUTER x d: points of each face of the body */
  double *normals; /* outward, likewise */
  size_t *n_outer; /* of each face: how many there are */
  bool *chosen;    /* of each face */
} witness;

/* ---- Values of the trees made here --------------------------------------------------------------- */

static double value(const pn_expr *e, const double *point) {
  double a = e->n > 0 && e->kind != PN_WHERE ? value(e->args[0], point) : 0;
  double b = e->n > 1 && e->kind != PN_WHERE ? value(e->args[1], point) : 0;
  switch (e->kind) {
  case PN_NUMBER:
    return e->number;
  case PN_COORDINATE:
    return point[e->index];
  case PN_NEGATE:
    return -a;
  case PN_ADD:
    return a + b;
  case PN_SUBTRACT:
    return a - b;
  case PN_MULTIPLY:
    return a * b;
  case PN_DIVIDE:
    return a / b;
  case PN_GREATER:
    return a > b;
  case PN_WHERE:
    return value(e->args[value(e->args[0], point) != 0 ? 1 : 2], point);
  case PN_FUNCTION:
    if (e->index == PN_FN_sqrt)
      return sqrt(a);
    for (size_t i = 1; i < e->n; ++i) /* min */
      a = fmin(a, value(e->args[i], point));
    return a;
  default:
    return NAN;
  }
}

static double value_at(const witness *w, const pn_expr *e, const double *x) {
  double point[PN_BODY_DIMENSIONS] = {0};
  for (size_t i = 0; i < w->whole->d; ++i)
    point[i] = x[i];
  return value(e, point);
}

/* ---- Points of the body -------------------------------------------------------------------------- */

static void free_witness(witness *w) {
  tn_free(&w->inner);
  tn_free(&w->outer);
  tn_free(&w->normals);
  tn_free(&w->n_outer);
  tn_free(&w->chosen);
}

static tn_status find_inner(witness *w) {
  size_t d = w->whole->d;
  double u[PN_BODY_DIMENSIONS], x[PN_BODY_DIMENSIONS];
  for (uint64_t i = 0; i < 64 * INNER && w->n_inner < INNER; ++i) {
    bool in = false;
    TN_TRY(pn_sobol(d, tn_stream_of(0, "inner"), i, 1, u));
    TN_TRY(pn_body_place(w->whole, 1, u, x, &in));
    if (in)
      memcpy(w->inner + d * w->n_inner++, x, d * sizeof *x);
  }
  return TN_OK;
}

static tn_status find_outer(witness *w, size_t face) {
  size_t d = w->whole->d, at = 0;
  pn_choice c;
  TN_TRY(pn_choice_new(w->whole, 1, &face, &c));
  tn_status status = TN_OK;
  for (uint64_t i = 0; i < 16 * OUTER && at < OUTER && status == TN_OK; ++i) {
    double u[PN_BODY_DIMENSIONS] = {0}, keep = 0;
    if (d > 1)
      status = pn_sobol(d - 1, tn_stream_of(0, "outer"), i, 1, u);
    double *place = w->outer + (face * OUTER + at) * d;
    pn_choice_place(&c, 0, u, place, w->normals + (face * OUTER + at) * d, &keep);
    at += keep > 0;
  }
  w->n_outer[face] = at;
  pn_choice_free(&c);
  return status;
}

static tn_status new_witness(const pn_body *whole, const size_t *axis, size_t n, const size_t *face,
                             witness *w) {
  *w = (witness){.whole = whole, .axis = axis, .n_faces = whole->n_faces};
  for (size_t k = 0; k < n; ++k)
    if (face[k] >= whole->n_faces)
      return TN_FAIL(TN_EINPUT, "face %zu of a body with %zu faces", face[k], whole->n_faces);
  size_t points = whole->n_faces * OUTER * whole->d;
  TN_TRY(TN_NEW(INNER * whole->d, &w->inner));
  TN_TRY(TN_NEW(points, &w->outer));
  TN_TRY(TN_NEW(points, &w->normals));
  TN_TRY(TN_NEW(whole->n_faces, &w->n_outer));
  TN_TRY(TN_NEW(whole->n_faces, &w->chosen));
  TN_TRY(find_inner(w));
  for (size_t i = 0; i < whole->n_faces; ++i)
    TN_TRY(find_outer(w, i));
  for (size_t k = 0; k < n; ++k)
    w->chosen[face[k]] = true;
  return TN_OK;
}

/* Does f vanish on the chosen part of the boundary alone? */
static bool is_clean(const witness *w, const pn_expr *f, double tol) {
  size_t d = w->whole->d;
  for (size_t i = 0; i < w->n_inner; ++i)
    if (!(value_at(w, f, w->inner + i * d) > 0))
      return false;
  for (size_t k = 0; k < w->n_faces; ++k)
    for (size_t i = 0; i < w->n_outer[k]; ++i)
      if (!(value_at(w, f, w->outer + (k * OUTER + i) * d) > (w->chosen[k] ? -tol : tol)))
        return false;
  return true;
}

/* ---- One face ------------------------------------------------------------------------------------ */

/* Sets s->own. */
static void use_leaf(pn_smooth *s, const pn_leaf *leaf) {
  for (size_t i = 0; i < leaf->d; ++i) {
    const double *row = leaf->inverse + i * leaf->d;
    s->own[i] = leaf->mapped
                    ? pn_tree_linear(s, leaf->d, row, s->x, -pn_inner(leaf->d, row, leaf->b))
                    : s->x[i];
  }
}

static pn_expr *trimmed(pn_smooth *s, pn_expr *f, pn_expr *t) {
  double L = s->size;
  pn_expr *zero = pn_tree_number(s, 0), *half = pn_tree_number(s, 0.5);
  pn_expr *square = pn_tree_square(s, f), *q2 = pn_tree_scale(s, 1 / (L * L), pn_tree_square(s, square));
  pn_expr *on = pn_tree_binary(s, PN_GREATER, t, zero);
  /* t > 0 */
  pn_expr *plus = pn_tree_where(s, on, t, pn_tree_number(s, L));
  pn_expr *root = pn_tree_sqrt(s, pn_tree_add(s, pn_tree_square(s, plus), q2));
  pn_expr *below = pn_tree_scale(s, 2 * L * L, pn_tree_add(s, root, plus));
  pn_expr *ratio = pn_tree_div(s, pn_tree_mul(s, square, f), below);
  pn_expr *growth = pn_tree_sqrt(s, pn_tree_add(s, pn_tree_number(s, 1), pn_tree_square(s, ratio)));
  /* Not |f|: rounding must not turn the gradient round on the face. */
  pn_expr *inner = pn_tree_binary(s, PN_GREATER, f, pn_tree_number(s, -1e-6 * L));
  pn_expr *near = pn_tree_mul(s, pn_tree_where(s, inner, f, pn_tree_negate(s, f)), growth);
  /* t <= 0 */
  pn_expr *minus = pn_tree_where(s, on, pn_tree_number(s, -L), t);
  pn_expr *tiny = pn_tree_number(s, 1e-20 * L * L);
  pn_expr *sum = pn_tree_add(s, pn_tree_add(s, pn_tree_square(s, minus), q2), tiny);
  pn_expr *g = pn_tree_mul(s, half, pn_tree_sub(s, pn_tree_sqrt(s, sum), minus));
  pn_expr *far = pn_tree_sqrt(s, pn_tree_add(s, square, pn_tree_square(s, g)));
  return pn_tree_where(s, on, near, far);
}

/* (R^2 - |x - m|^2) / (2 R) round the segment from p to q. */
static pn_expr *around(pn_smooth *s, const double *p, const double *q) {
  pn_expr *sum = NULL;
  double square = 0;
  for (size_t i = 0; i < 2; ++i) {
    pn_expr *gap = pn_tree_sub(s, s->x[i], pn_tree_number(s, (p[i] + q[i]) / 2));
    sum = sum ? pn_tree_add(s, sum, pn_tree_square(s, gap)) : pn_tree_square(s, gap);
    square += (q[i] - p[i]) * (q[i] - p[i]) / 4;
  }
  return pn_tree_scale(s, 0.5 / sqrt(square), pn_tree_sub(s, pn_tree_number(s, square), sum));
}

/* The side of the chord from p to q on which m lies. */
static pn_expr *beyond_chord(pn_smooth *s, const double *p, const double *q, const double *m) {
  double n[] = {q[1] - p[1], p[0] - q[0]}, length = hypot(n[0], n[1]);
  double side = n[0] * (m[0] - p[0]) + n[1] * (m[1] - p[1]) < 0 ? -1 : 1;
  for (size_t i = 0; i < 2; ++i)
    n[i] *= side / length;
  return pn_tree_linear(s, 2, n, s->x, -(n[0] * p[0] + n[1] * p[1]));
}

typedef struct terms {
  size_t n, capacity;
  pn_expr **phi;
} terms;

static tn_status add_term(pn_smooth *s, terms *list, pn_expr *phi) {
  if (s->status != TN_OK)
    return s->status;
  if (list->n == list->capacity) {
    TN_TRY(tn_grow(&list->phi, list->capacity, 2 * list->capacity + 8, sizeof *list->phi));
    list->capacity = 2 * list->capacity + 8;
  }
  list->phi[list->n++] = phi;
  return TN_OK;
}

/* The pieces of a line or curve, each trimmed. */
static tn_status trim_pieces(pn_smooth *s, const witness *w, size_t face, pn_expr *f, terms *list) {
  pn_choice c;
  size_t n = 0;
  double *ends = NULL;
  TN_TRY(pn_choice_new(w->whole, 1, &face, &c));
  tn_status status = pn_choice_pieces(&c, 0, &n, &ends);
  for (size_t i = 0; i < n && status == TN_OK; ++i) {
    double at[] = {ends[2 * i], ends[2 * i + 1], (ends[2 * i] + ends[2 * i + 1]) / 2};
    double p[3][2], normal[2], keep = 0;
    for (size_t k = 0; k < 3; ++k) {
      double u = at[k] - (at[k] > 1);
      pn_choice_place(&c, 0, &u, p[k], normal, &keep);
    }
    bool closed = !w->whole->faces[face].flat && at[0] == 0 && at[1] == 1;
    pn_expr *t = closed ? NULL : w->whole->faces[face].flat ? around(s, p[0], p[1]) : beyond_chord(s, p[0], p[1], p[2]);
    status = add_term(s, list, closed ? f : trimmed(s, f, t));
  }
  tn_free(&ends);
  pn_choice_free(&c);
  return status;
}

/* Positive inside a leaf. */
static pn_expr *whole_leaf(pn_smooth *s, const pn_leaf *leaf) {
  pn_expr *each[MOST_TERMS], *unused = NULL, *out = NULL;
  if (!leaf->solid->smooth || leaf->n_parts > MOST_TERMS)
    return NULL;
  use_leaf(s, leaf);
  for (size_t part = 0; part < leaf->n_parts; ++part)
    s->status = leaf->solid->smooth(s, leaf, part, &each[part], &unused);
  if (leaf->n_parts == 1 || s->status != TN_OK)
    return each[0];
  s->status = pn_expr_make(s->arena, PN_FUNCTION, NULL, leaf->n_parts, each, &out);
  if (s->status != TN_OK)
    return NULL;
  out->index = PN_FN_min;
  out->name = pn_function_name(PN_FN_min);
  return out;
}

/* In three and more dimensions: the other primitives that have all of the face's part on one side limit it. */
static pn_expr *trim_by_others(pn_smooth *s, const witness *w, size_t face, pn_expr *t) {
  size_t d = w->whole->d, mine = w->whole->owner[face];
  for (size_t k = 0; k < w->whole->n_leaves; ++k) {
    size_t in = 0, n = w->n_outer[face];
    for (size_t i = 0; i < n; ++i)
      in += pn_leaf_inside(w->whole->leaves[k], w->outer + (face * OUTER + i) * d);
    if (k == mine || (in != 0 && in != n))
      continue;
    pn_expr *side = whole_leaf(s, w->whole->leaves[k]);
    if (side)
      t = pn_tree_both(s, t, in ? side : pn_tree_negate(s, side));
  }
  return t;
}

static tn_status add_face(pn_smooth *s, const witness *w, size_t face, terms *list) {
  const pn_body *whole = w->whole;
  const pn_leaf *leaf = whole->leaves[whole->owner[face]];
  size_t d = whole->d;
  double near = 1e3 * pn_body_tolerance(whole), n[PN_BODY_DIMENSIONS];
  pn_expr *f = NULL, *t = NULL;
  const double *at = w->outer + face * OUTER * d;
  if (w->n_outer[face] == 0)
    return TN_OK;
  if (!leaf->solid->smooth)
    return TN_FAIL(TN_EUNSUPPORTED, "a smooth distance to a %s; expected faces of primitives with formulas",
                   leaf->solid->name);
  use_leaf(s, leaf);
  TN_TRY(leaf->solid->smooth(s, leaf, whole->faces[face].part, &f, &t));
  size_t part = 0;
  bool known = pn_leaf_at(leaf, at, near / leaf->least, &part, n);
  if (known && pn_inner(d, n, w->normals + face * OUTER * d) < 0)
    f = pn_tree_negate(s, f);
  if (s->status == TN_OK && is_clean(w, f, near))
    return add_term(s, list, f);
  if (d == 2)
    return trim_pieces(s, w, face, f, list);
  t = trim_by_others(s, w, face, t);
  if (s->status == TN_OK && !t)
    return TN_FAIL(TN_EUNSUPPORTED, "a smooth distance to a face whose surface goes on inside the body");
  return add_term(s, list, d == 1 ? f : trimmed(s, f, t));
}

/* Is the face in the plane of an earlier chosen one whose carrier was taken whole? */
static bool is_repeated(const witness *w, size_t n, const size_t *face, const bool *whole) {
  const pn_face *a = &w->whole->faces[face[n]];
  double tol = pn_body_tolerance(w->whole);
  for (size_t i = 0; i < n; ++i) {
    const pn_face *b = &w->whole->faces[face[i]];
    double c = pn_inner(w->whole->d, a->normal, b->normal);
    if (whole[i] && a->flat && b->flat && fabs(c) > 1 - 1e-12 &&
        fabs(a->offset - (c < 0 ? -1 : 1) * b->offset) < tol)
      return true;
  }
  return false;
}

static tn_status join_terms(pn_smooth *s, const terms *list, pn_expr **out) {
  pn_expr *sum = NULL, *one = pn_tree_number(s, 1), *e = pn_tree_number(s, 1e-8 * s->size);
  if (list->n == 0)
    return TN_FAIL(TN_EINPUT, "a smooth distance to faces that have no part in the boundary");
  *out = list->phi[0];
  if (list->n == 1)
    return s->status;
  pn_expr **row = NULL;
  TN_TRY(PN_TAKE(s->arena, list->n, &row));
  for (size_t i = 0; i < list->n; ++i)
    row[i] = pn_tree_div(s, one, pn_tree_add(s, list->phi[i], e));
  for (size_t width = list->n; width > 1; width = (width + 1) / 2) /* a balanced sum stays low */
    for (size_t i = 0; i < (width + 1) / 2; ++i)
      row[i] = 2 * i + 1 < width ? pn_tree_add(s, row[2 * i], row[2 * i + 1]) : row[2 * i];
  sum = row[0];
  *out = pn_tree_sub(s, pn_tree_div(s, one, sum), e);
  return s->status;
}

static tn_status check_tree(const witness *w, const pn_expr *phi, double tol) {
  size_t d = w->whole->d;
  for (size_t i = 0; i < w->n_inner; ++i)
    if (!(value_at(w, phi, w->inner + i * d) > 0))
      return TN_FAIL(TN_EUNSUPPORTED, "a smooth distance to these faces: it would vanish inside the body");
  for (size_t k = 0; k < w->n_faces; ++k)
    for (size_t i = 0; i < w->n_outer[k] && w->chosen[k]; ++i)
      if (!(fabs(value_at(w, phi, w->outer + (k * OUTER + i) * d)) < tol))
        return TN_FAIL(TN_EUNSUPPORTED, "a smooth distance to these faces: they are cut in a way that no "
                                        "product of sides describes");
  return TN_OK;
}

/* Trees are made in the body's own numbers of the coordinates; at the end those become the problem's. */
static tn_status make_all(pn_smooth *s, witness *w, size_t n, const size_t *face, terms *list,
                          bool *untrimmed, pn_expr **out) {
  for (size_t k = 0; k < n; ++k) {
    size_t before = list->n;
    if (is_repeated(w, k, face, untrimmed))
      continue;
    TN_TRY(add_face(s, w, face[k], list));
    untrimmed[k] = list->n == before + 1 && list->phi[before]->kind != PN_WHERE;
  }
  TN_TRY(join_terms(s, list, out));
  TN_TRY(check_tree(w, *out, 1e-6 * s->size));
  for (size_t i = 0; i < w->whole->d; ++i)
    s->x[i]->index = w->axis[i];
  return TN_OK;
}

tn_status pn_faces_distance(pn_arena *arena, const pn_body *whole, size_t n_faces, const size_t *face,
                            const size_t *axis, pn_expr **out) {
  pn_smooth s = {.arena = arena, .status = TN_OK, .d = whole->d, .size = 1e9 * pn_body_tolerance(whole)};
  witness w;
  terms list = {0};
  bool *untrimmed = NULL;
  for (size_t i = 0; i < whole->d; ++i) {
    TN_TRY(pn_expr_make(arena, PN_COORDINATE, NULL, 0, NULL, &s.x[i]));
    s.x[i]->index = i;
  }
  tn_status status = new_witness(whole, axis, n_faces, face, &w);
  if (status == TN_OK)
    status = TN_NEW(n_faces + 1, &untrimmed);
  if (status == TN_OK)
    status = make_all(&s, &w, n_faces, face, &list, untrimmed, out);
  tn_free(&untrimmed);
  tn_free(&list.phi);
  free_witness(&w);
  return status;
}
