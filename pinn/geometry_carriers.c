/* geometry_carriers.c: smooth functions of single faces, as trees.
 *
 * For each face a carrier, positive inside the primitive and zero where the face's surface goes on to (the line of an
 * edge, the plane of a side), with gradient of length 1 on the face; and a trim, positive on the face and negative on the
 * rest of the carrier's zero set. Polynomials where possible, because they are differentiable everywhere:
 *
 *   plane         offset - n . x                              sphere    (r^2 - |x|^2) / (2 r)
 *   ellipsoid     N(1 - sum (x/a)^2)                          mantle    N((r + (s - r) z/h)^2 - rho^2)
 *   torus         N(4 R^2 rho^2 - (|x|^2 + R^2 - r^2)^2)
 *
 * with N(F) = F / sqrt(|grad F|^2 + F^2 / size^2), which has gradient 1 where F = 0 (Shapiro 1991). A leaf whose map is
 * not rigid gets |grad F| in the problem's coordinates by the chain rule.
 */
#include "pinn/geometry_trees.h"

#include <math.h>

/* ---- Trees --------------------------------------------------------------------------------------- */

static pn_expr *make(pn_smooth *s, pn_kind kind, size_t n, pn_expr *const *args) {
  pn_expr *out = NULL;
  for (size_t i = 0; i < n; ++i)
    if (!args[i])
      return NULL;
  if (s->status == TN_OK)
    s->status = pn_expr_make(s->arena, kind, NULL, n, args, &out);
  return s->status == TN_OK ? out : NULL;
}

pn_expr *pn_tree_binary(pn_smooth *s, pn_kind kind, pn_expr *a, pn_expr *b) {
  return make(s, kind, 2, (pn_expr *const[]){a, b});
}

pn_expr *pn_tree_number(pn_smooth *s, double value) {
  pn_expr *out = NULL;
  if (s->status == TN_OK)
    s->status = pn_expr_number(s->arena, value, NULL, &out);
  return s->status == TN_OK ? out : NULL;
}

pn_expr *pn_tree_add(pn_smooth *s, pn_expr *a, pn_expr *b) { return pn_tree_binary(s, PN_ADD, a, b); }
pn_expr *pn_tree_sub(pn_smooth *s, pn_expr *a, pn_expr *b) { return pn_tree_binary(s, PN_SUBTRACT, a, b); }
pn_expr *pn_tree_mul(pn_smooth *s, pn_expr *a, pn_expr *b) { return pn_tree_binary(s, PN_MULTIPLY, a, b); }
pn_expr *pn_tree_div(pn_smooth *s, pn_expr *a, pn_expr *b) { return pn_tree_binary(s, PN_DIVIDE, a, b); }
pn_expr *pn_tree_square(pn_smooth *s, pn_expr *a) { return pn_tree_mul(s, a, a); }
pn_expr *pn_tree_scale(pn_smooth *s, double factor, pn_expr *a) {
  return factor == 1 ? a : pn_tree_mul(s, pn_tree_number(s, factor), a);
}

pn_expr *pn_tree_negate(pn_smooth *s, pn_expr *a) { return make(s, PN_NEGATE, 1, &a); }

pn_expr *pn_tree_sqrt(pn_smooth *s, pn_expr *a) {
  pn_expr *out = make(s, PN_FUNCTION, 1, &a);
  if (out) {
    out->index = PN_FN_sqrt;
    out->name = pn_function_name(PN_FN_sqrt);
  }
  return out;
}

pn_expr *pn_tree_where(pn_smooth *s, pn_expr *test, pn_expr *yes, pn_expr *no) {
  return make(s, PN_WHERE, 3, (pn_expr *const[]){test, yes, no});
}

/* sum n_i x_i + constant; zeros are left out. */
pn_expr *pn_tree_linear(pn_smooth *s, size_t d, const double *n, pn_expr *const *x, double constant) {
  pn_expr *sum = NULL;
  for (size_t i = 0; i < d; ++i) {
    if (n[i] == 0)
      continue;
    pn_expr *term = pn_tree_scale(s, n[i], x[i]);
    sum = sum ? pn_tree_add(s, sum, term) : term;
  }
  if (!sum)
    return pn_tree_number(s, constant);
  return constant == 0 ? sum : pn_tree_add(s, sum, pn_tree_number(s, constant));
}

pn_expr *pn_tree_both(pn_smooth *s, pn_expr *a, pn_expr *b) {
  if (!a || !b)
    return a ? a : b;
  pn_expr *squares = pn_tree_add(s, pn_tree_square(s, a), pn_tree_square(s, b));
  pn_expr *tiny = pn_tree_number(s, 1e-20 * s->size * s->size);
  return pn_tree_sub(s, pn_tree_add(s, a, b), pn_tree_sqrt(s, pn_tree_add(s, squares, tiny)));
}

/* N(F) with the gradient of F in the leaf's own coordinates. */
static pn_expr *normalised(pn_smooth *s, const pn_leaf *leaf, pn_expr *F, pn_expr *const *slope) {
  double row[PN_BODY_DIMENSIONS];
  pn_expr *square = pn_tree_scale(s, 1 / (s->size * s->size), pn_tree_square(s, F));
  for (size_t j = 0; j < leaf->d; ++j) {
    pn_expr *component = slope[j];
    if (!leaf->rigid) {
      for (size_t i = 0; i < leaf->d; ++i)
        row[i] = leaf->inverse[i * leaf->d + j];
      component = pn_tree_linear(s, leaf->d, row, slope, 0);
    }
    square = pn_tree_add(s, square, pn_tree_square(s, component));
  }
  return pn_tree_div(s, F, pn_tree_sqrt(s, square));
}

/* offset - n . x of a flat part, in the problem's coordinates. */
static pn_expr *plane(pn_smooth *s, const pn_leaf *leaf, size_t part) {
  const pn_part *p = &leaf->parts[part];
  double own[PN_BODY_DIMENSIONS], point[PN_BODY_DIMENSIONS], normal[PN_BODY_DIMENSIONS];
  for (size_t i = 0; i < leaf->d; ++i)
    own[i] = p->offset * p->normal[i];
  pn_leaf_world(leaf, own, point);
  pn_leaf_normal(leaf, p->normal, normal);
  double offset = pn_inner(leaf->d, normal, point);
  for (size_t i = 0; i < leaf->d; ++i)
    normal[i] = -normal[i];
  return pn_tree_linear(s, leaf->d, normal, s->x, offset);
}

/* (w^2 - y^2) / (2 w): positive for |y| < w. */
static pn_expr *slab(pn_smooth *s, double w, pn_expr *y) {
  pn_expr *rest = pn_tree_sub(s, pn_tree_number(s, w * w), pn_tree_square(s, y));
  return pn_tree_scale(s, 1 / (2 * w), rest);
}

/* ---- Kinds --------------------------------------------------------------------------------------- */

tn_status pn_smooth_box(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                        pn_expr **trim) {
  pn_expr *each[PN_BODY_DIMENSIONS];
  size_t n = 0;
  *carrier = plane(s, leaf, part);
  *trim = NULL;
  for (size_t i = 0; i < leaf->d; ++i)
    if (i != part / 2)
      each[n++] = slab(s, leaf->size[i], s->own[i]);
  if (n > 3) { /* one node; kinks along diagonals, off the face */
    *trim = make(s, PN_FUNCTION, n, each);
    if (*trim) {
      (*trim)->index = PN_FN_min;
      (*trim)->name = pn_function_name(PN_FN_min);
    }
    return s->status;
  }
  for (size_t i = 0; i < n; ++i)
    *trim = pn_tree_both(s, *trim, each[i]);
  return s->status;
}

tn_status pn_smooth_halfspace(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                              pn_expr **trim) {
  *carrier = plane(s, leaf, part);
  *trim = NULL;
  return s->status;
}

tn_status pn_smooth_polygon(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                            pn_expr **trim) {
  *carrier = plane(s, leaf, part);
  *trim = NULL; /* pieces of curves are trimmed where the pieces are known */
  return s->status;
}

tn_status pn_smooth_ellipsoid(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                              pn_expr **trim) {
  pn_expr *F = pn_tree_number(s, 1), *slope[PN_BODY_DIMENSIONS];
  bool ball = leaf->rigid;
  (void)part;
  *trim = NULL;
  for (size_t i = 0; i < leaf->d; ++i) {
    double a = leaf->size[i];
    ball &= a == leaf->size[0];
    F = pn_tree_sub(s, F, pn_tree_scale(s, 1 / (a * a), pn_tree_square(s, s->own[i])));
    slope[i] = pn_tree_scale(s, -2 / (a * a), s->own[i]);
  }
  *carrier = ball ? pn_tree_scale(s, leaf->size[0] / 2, F) : normalised(s, leaf, F, slope);
  return s->status;
}

tn_status pn_smooth_cone(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                         pn_expr **trim) {
  double r = leaf->size[0], q = leaf->size[1], h = leaf->size[2], slope = (q - r) / h;
  pn_expr *z = s->own[2], *rho2 = pn_tree_add(s, pn_tree_square(s, s->own[0]), pn_tree_square(s, s->own[1]));
  if (part != 0) {
    double radius = part == 1 ? r : q;
    *carrier = plane(s, leaf, part);
    *trim = pn_tree_scale(s, 1 / (2 * fmax(radius, 1e-300)),
                          pn_tree_sub(s, pn_tree_number(s, radius * radius), rho2));
    return s->status;
  }
  pn_expr *radius = pn_tree_linear(s, 1, &slope, &z, r);
  pn_expr *gradient[] = {pn_tree_scale(s, -2, s->own[0]), pn_tree_scale(s, -2, s->own[1]),
                         pn_tree_scale(s, 2 * slope, radius)};
  *carrier = normalised(s, leaf, pn_tree_sub(s, pn_tree_square(s, radius), rho2), gradient);
  *trim = slab(s, h / 2, pn_tree_sub(s, z, pn_tree_number(s, h / 2)));
  return s->status;
}

tn_status pn_smooth_torus(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                          pn_expr **trim) {
  double R = leaf->size[0], r = leaf->size[1];
  pn_expr *const *y = s->own;
  pn_expr *rho2 = pn_tree_add(s, pn_tree_square(s, y[0]), pn_tree_square(s, y[1]));
  pn_expr *K = pn_tree_add(s, pn_tree_add(s, rho2, pn_tree_square(s, y[2])), pn_tree_number(s, R * R - r * r));
  pn_expr *F = pn_tree_sub(s, pn_tree_scale(s, 4 * R * R, rho2), pn_tree_square(s, K));
  pn_expr *across = pn_tree_sub(s, pn_tree_number(s, 8 * R * R), pn_tree_scale(s, 4, K));
  pn_expr *slope[] = {pn_tree_mul(s, across, y[0]), pn_tree_mul(s, across, y[1]),
                      pn_tree_mul(s, pn_tree_scale(s, -4, K), y[2])};
  (void)part;
  *carrier = normalised(s, leaf, F, slope);
  *trim = NULL;
  return s->status;
}
