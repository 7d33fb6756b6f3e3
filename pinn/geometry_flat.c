/* geometry_flat.c: primitives with flat faces: boxes, half-spaces, polygons.
 *
 * A box keeps its half-widths and is centred at its own origin. Face 2 i is x_i = -w_i, face 2 i + 1 is x_i = w_i,
 * filled by a linear map of d - 1 numbers. Its distance is that of the nearest point of the box outside, of the
 * nearest face inside.
 *
 * A polygon keeps its corners in the caller's order. Edge i goes from corner i to i + 1; its outward normal is the
 * edge turned by -90 degrees when the shoelace area is positive (counter-clockwise), by +90 degrees when it is
 * negative, so the order does not matter. Inside by the winding number, with the half-open rule that counts a corner
 * once. Both it and the half-space take any affine map into their numbers, so they are never `mapped`.
 */
#include "pinn/geometry_smooth.h"

#include <math.h>
#include <string.h>

static const double rim = 1e-9; /* of a face: points so near to its rim are not used */

static bool near_rim(double u) { return u < rim || u > 1 - rim; }

/* ---- Boxes -------------------------------------------------------------------------------------- */

static bool box_inside(const pn_leaf *leaf, const double *x) {
  for (size_t i = 0; i < leaf->d; ++i)
    if (!(fabs(x[i]) < leaf->size[i]))
      return false;
  return true;
}

static double box_distance(const pn_leaf *leaf, const double *x) {
  double outside = 0, deepest = -INFINITY;
  for (size_t i = 0; i < leaf->d; ++i) {
    double beyond = fabs(x[i]) - leaf->size[i];
    deepest = fmax(deepest, beyond);
    if (beyond > 0)
      outside += beyond * beyond;
  }
  return deepest > 0 ? sqrt(outside) : deepest;
}

static void box_bounds(const pn_leaf *leaf, double *from, double *to) {
  pn_leaf_box(leaf, leaf->size, from, to);
}

static void box_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                      double *keep) {
  size_t axis = part / 2;
  *keep = 1;
  for (size_t i = 0; i < leaf->d; ++i) {
    double w = leaf->size[i];
    normal[i] = i == axis ? (part % 2 ? 1 : -1) : 0;
    x[i] = normal[i] * w;
    if (i == axis)
      continue;
    if (near_rim(*u))
      *keep = 0;
    x[i] = w * (2 * *u++ - 1);
  }
}

static bool box_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  size_t found = 0;
  for (size_t i = 0; i < leaf->d; ++i) {
    normal[i] = 0;
    if (fabs(x[i]) > leaf->size[i] + tol)
      return false;
    if (fabs(x[i]) < leaf->size[i] - tol)
      continue;
    normal[i] = x[i] > 0 ? 1 : -1;
    *part = 2 * i + (x[i] > 0);
    ++found;
  }
  return found == 1;
}

static double box_volume(const pn_leaf *leaf) {
  double product = 1;
  for (size_t i = 0; i < leaf->d; ++i)
    product *= 2 * leaf->size[i];
  return product;
}

static void box_fill(const pn_leaf *leaf, const double *u, double *x) {
  for (size_t i = 0; i < leaf->d; ++i)
    x[i] = leaf->size[i] * (2 * u[i] - 1);
}

static tn_status box_settle(pn_arena *arena, pn_leaf *leaf) {
  double s[PN_BODY_DIMENSIONS];
  if (pn_leaf_unscale(leaf, s))
    for (size_t i = 0; i < leaf->d; ++i)
      leaf->size[i] *= s[i];
  TN_TRY(pn_leaf_parts(arena, leaf, 2 * leaf->d));
  for (size_t part = 0; part < leaf->n_parts; ++part) {
    pn_part *p = &leaf->parts[part];
    p->flat = true;
    p->normal[part / 2] = part % 2 ? 1 : -1;
    p->offset = leaf->size[part / 2];
    p->proposal = 1;
    for (size_t i = 0; i < leaf->d; ++i)
      p->proposal *= i == part / 2 ? 1 : 2 * leaf->size[i];
  }
  return TN_OK;
}

const pn_solid pn_solid_box = {"box",     box_inside, box_distance, box_bounds, box_place,
                               box_at,    box_volume, box_fill,     box_settle, pn_smooth_box, false};

tn_status pn_body_box(pn_arena *arena, size_t d, const double *from, const double *to, size_t tag,
                      pn_body **out) {
  pn_leaf *leaf = NULL;
  TN_TRY(pn_leaf_new(arena, &pn_solid_box, d, NULL, tag, &leaf));
  for (size_t i = 0; i < d; ++i) {
    if (!(isfinite(from[i]) && isfinite(to[i]) && from[i] < to[i]))
      return TN_FAIL(TN_EINPUT, "a box from %g to %g along axis %zu; expected finite ends with from < to",
                     from[i], to[i], i + 1);
    leaf->b[i] = from[i] + (to[i] - from[i]) / 2;
    leaf->size[i] = (to[i] - from[i]) / 2;
  }
  return pn_leaf_body(arena, leaf, out);
}

/* ---- Half-spaces: parts[0] has normal and offset ------------------------------------------------ */

static double half_distance(const pn_leaf *leaf, const double *x) {
  return pn_inner(leaf->d, leaf->parts->normal, x) - leaf->parts->offset;
}

static bool half_inside(const pn_leaf *leaf, const double *x) { return half_distance(leaf, x) < 0; }

/* Unbounded, but for an axis that the normal is along. */
static void half_bounds(const pn_leaf *leaf, double *from, double *to) {
  for (size_t i = 0; i < leaf->d; ++i) {
    double n = leaf->parts->normal[i];
    to[i] = n == 1 ? leaf->parts->offset : INFINITY;
    from[i] = n == -1 ? -leaf->parts->offset : -INFINITY;
  }
}

/* The foot of the origin: where on the plane points go depends on what bounds it (geometry_faces.c). */
static void half_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                       double *keep) {
  (void)part;
  (void)u;
  for (size_t i = 0; i < leaf->d; ++i) {
    normal[i] = leaf->parts->normal[i];
    x[i] = leaf->parts->offset * normal[i];
  }
  *keep = 1;
}

static bool half_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  *part = 0;
  memcpy(normal, leaf->parts->normal, leaf->d * sizeof *normal);
  return fabs(half_distance(leaf, x)) <= tol;
}

static double half_volume(const pn_leaf *leaf) {
  (void)leaf;
  return INFINITY;
}

static tn_status half_settle(pn_arena *arena, pn_leaf *leaf) {
  pn_part old = {.flat = true}, *p = NULL;
  double point[PN_BODY_DIMENSIONS], own[PN_BODY_DIMENSIONS];
  if (leaf->parts)
    old = *leaf->parts;
  else
    memcpy(old.normal, leaf->size, sizeof old.normal); /* as pn_body_halfspace gives it */
  TN_TRY(pn_leaf_prepare(leaf));
  for (size_t i = 0; i < leaf->d; ++i)
    own[i] = old.offset * old.normal[i];
  TN_TRY(pn_leaf_parts(arena, leaf, 1));
  p = leaf->parts;
  *p = old;
  pn_leaf_world(leaf, own, point);
  pn_leaf_normal(leaf, old.normal, p->normal);
  p->offset = pn_inner(leaf->d, p->normal, point);
  p->proposal = leaf->d == 1 ? 1 : INFINITY;
  pn_leaf_identity(leaf);
  return TN_OK;
}

const pn_solid pn_solid_halfspace = {"half-space", half_inside, half_distance, half_bounds, half_place,
                                     half_at,      half_volume, NULL,          half_settle,
                                     pn_smooth_halfspace, false};

tn_status pn_body_halfspace(pn_arena *arena, size_t d, const double *point, const double *normal,
                            size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  TN_TRY(pn_leaf_new(arena, &pn_solid_halfspace, d, point, tag, &leaf));
  double length = sqrt(pn_inner(d, normal, normal));
  if (!(length > 0 && isfinite(length)))
    return TN_FAIL(TN_EINPUT, "a half-space whose normal has length %g; expected a direction", length);
  for (size_t i = 0; i < d; ++i)
    leaf->size[i] = normal[i] / length;
  return pn_leaf_body(arena, leaf, out);
}

/* ---- Polygons ----------------------------------------------------------------------------------- */

static const double *corner(const pn_polygon *p, size_t i) { return p->points + 2 * (i % p->n); }

static double cross(const double *o, const double *a, const double *b) {
  return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
}

static bool polygon_inside(const pn_leaf *leaf, const double *x) {
  const pn_polygon *p = leaf->data;
  int winding = 0;
  for (size_t i = 0; i < p->n; ++i) {
    const double *a = corner(p, i), *b = corner(p, i + 1);
    bool up = a[1] <= x[1] && b[1] > x[1], down = a[1] > x[1] && b[1] <= x[1];
    if (up && cross(a, b, x) > 0)
      ++winding;
    if (down && cross(a, b, x) < 0)
      --winding;
  }
  return winding != 0;
}

/* Distance to an edge; *along: where its foot lies, as a length from the edge's start, may lie beyond it. */
static double to_edge(const double *a, const double *b, const double *x, double *along) {
  double e[] = {b[0] - a[0], b[1] - a[1]}, length = hypot(e[0], e[1]);
  *along = ((x[0] - a[0]) * e[0] + (x[1] - a[1]) * e[1]) / length;
  double s = fmin(fmax(*along, 0), length) / length;
  return hypot(x[0] - a[0] - s * e[0], x[1] - a[1] - s * e[1]);
}

static double polygon_distance(const pn_leaf *leaf, const double *x) {
  const pn_polygon *p = leaf->data;
  double nearest = INFINITY, along = 0;
  for (size_t i = 0; i < p->n; ++i)
    nearest = fmin(nearest, to_edge(corner(p, i), corner(p, i + 1), x, &along));
  return polygon_inside(leaf, x) ? -nearest : nearest;
}

static void polygon_bounds(const pn_leaf *leaf, double *from, double *to) {
  const pn_polygon *p = leaf->data;
  for (size_t k = 0; k < 2; ++k) {
    from[k] = INFINITY;
    to[k] = -INFINITY;
    for (size_t i = 0; i < p->n; ++i) {
      from[k] = fmin(from[k], corner(p, i)[k]);
      to[k] = fmax(to[k], corner(p, i)[k]);
    }
  }
}

static void polygon_place(const pn_leaf *leaf, size_t part, const double *u, double *x,
                          double *normal, double *keep) {
  const pn_polygon *p = leaf->data;
  const double *a = corner(p, part), *b = corner(p, part + 1);
  *keep = near_rim(*u) ? 0 : 1;
  for (size_t k = 0; k < 2; ++k) {
    x[k] = a[k] + *u * (b[k] - a[k]);
    normal[k] = leaf->parts[part].normal[k];
  }
}

static bool polygon_at(const pn_leaf *leaf, const double *x, double tol, size_t *part,
                       double *normal) {
  const pn_polygon *p = leaf->data;
  size_t found = 0;
  for (size_t i = 0; i < p->n; ++i) {
    double along = 0;
    if (to_edge(corner(p, i), corner(p, i + 1), x, &along) > tol)
      continue;
    if (along < tol || along > leaf->parts[i].proposal - tol)
      return false;
    *part = i;
    ++found;
  }
  if (found == 1)
    memcpy(normal, leaf->parts[*part].normal, 2 * sizeof *normal);
  return found == 1;
}

static double shoelace(const pn_polygon *p) {
  double twice = 0;
  for (size_t i = 1; i + 1 < p->n; ++i)
    twice += cross(p->points, corner(p, i), corner(p, i + 1));
  return twice / 2;
}

static double polygon_volume(const pn_leaf *leaf) { return fabs(shoelace(leaf->data)); }

/* Two numbers to a triangle: the unit square's upper half is folded onto its lower one. */
static void polygon_fill(const pn_leaf *leaf, const double *u, double *x) {
  const pn_polygon *p = leaf->data;
  bool fold = u[0] + u[1] > 1;
  double s = fold ? 1 - u[0] : u[0], t = fold ? 1 - u[1] : u[1];
  for (size_t k = 0; k < 2; ++k)
    x[k] = p->points[k] + s * (p->points[2 + k] - p->points[k]) + t * (p->points[4 + k] - p->points[k]);
}

static tn_status polygon_settle(pn_arena *arena, pn_leaf *leaf) {
  const pn_polygon *old = leaf->data;
  pn_polygon *p = NULL;
  TN_TRY(PN_TAKE(arena, 1, &p));
  p->n = old->n;
  TN_TRY(PN_TAKE(arena, 2 * p->n, &p->points));
  TN_TRY(pn_leaf_prepare(leaf));
  for (size_t i = 0; i < p->n; ++i)
    pn_leaf_world(leaf, old->points + 2 * i, p->points + 2 * i);
  pn_leaf_identity(leaf);
  leaf->data = p;
  leaf->solid = p->n == 3 ? &pn_solid_triangle : &pn_solid_polygon;
  TN_TRY(pn_leaf_parts(arena, leaf, p->n));
  double sign = shoelace(p) > 0 ? 1 : -1;
  for (size_t i = 0; i < p->n; ++i) {
    const double *a = corner(p, i), *b = corner(p, i + 1);
    pn_part *part = &leaf->parts[i];
    part->flat = true;
    part->proposal = hypot(b[0] - a[0], b[1] - a[1]);
    part->normal[0] = sign * (b[1] - a[1]) / part->proposal;
    part->normal[1] = -sign * (b[0] - a[0]) / part->proposal;
    part->offset = part->normal[0] * a[0] + part->normal[1] * a[1];
  }
  return TN_OK;
}

const pn_solid pn_solid_polygon = {"polygon",     polygon_inside, polygon_distance, polygon_bounds,
                                   polygon_place, polygon_at,     polygon_volume,   NULL,
                                   polygon_settle, pn_smooth_polygon, false};
const pn_solid pn_solid_triangle = {"polygon",     polygon_inside, polygon_distance, polygon_bounds,
                                    polygon_place, polygon_at,     polygon_volume,   polygon_fill,
                                    polygon_settle, pn_smooth_polygon, false};

static bool between(const double *a, const double *b, const double *x) {
  return fmin(a[0], b[0]) <= x[0] && x[0] <= fmax(a[0], b[0]) && fmin(a[1], b[1]) <= x[1] &&
         x[1] <= fmax(a[1], b[1]);
}

static bool segments_meet(const double *a, const double *b, const double *c, const double *d) {
  double p = cross(c, d, a), q = cross(c, d, b), r = cross(a, b, c), s = cross(a, b, d);
  if (((p > 0 && q < 0) || (p < 0 && q > 0)) && ((r > 0 && s < 0) || (r < 0 && s > 0)))
    return true;
  return (p == 0 && between(c, d, a)) || (q == 0 && between(c, d, b)) ||
         (r == 0 && between(a, b, c)) || (s == 0 && between(a, b, d));
}

/* Do edges i and j cross, touch, or, if one follows the other, fold back? */
static bool edges_meet(const pn_polygon *p, size_t i, size_t j) {
  const double *a = corner(p, i), *b = corner(p, i + 1), *c = corner(p, j), *d = corner(p, j + 1);
  if (j != i + 1 && !(i == 0 && j + 1 == p->n))
    return segments_meet(a, b, c, d);
  const double *shared = j == i + 1 ? b : a, *first = j == i + 1 ? a : b, *last = j == i + 1 ? d : c;
  double forward = (first[0] - shared[0]) * (last[0] - shared[0]) +
                   (first[1] - shared[1]) * (last[1] - shared[1]);
  return cross(shared, first, last) == 0 && forward > 0;
}

static tn_status check_polygon(const pn_polygon *p) {
  if (p->n < 3)
    return TN_FAIL(TN_EINPUT, "a polygon of %zu points; expected 3 or more", p->n);
  for (size_t i = 0; i < p->n; ++i) {
    const double *a = corner(p, i), *b = corner(p, i + 1);
    if (!isfinite(a[0]) || !isfinite(a[1]))
      return TN_FAIL(TN_EINPUT, "polygon: point %zu is (%g, %g); expected finite numbers", i + 1, a[0],
                     a[1]);
    if (a[0] == b[0] && a[1] == b[1])
      return TN_FAIL(TN_EINPUT,
                     "polygon: points %zu and %zu are both (%g, %g); expected distinct points (the last "
                     "one joins the first by itself)",
                     i + 1, (i + 1) % p->n + 1, a[0], a[1]);
  }
  for (size_t i = 0; i < p->n; ++i)
    for (size_t j = i + 1; j < p->n; ++j)
      if (edges_meet(p, i, j))
        return TN_FAIL(TN_EINPUT,
                       "polygon: the edge from (%g, %g) to (%g, %g) meets the edge from (%g, %g) to "
                       "(%g, %g); expected a curve that does not cross or touch itself",
                       corner(p, i)[0], corner(p, i)[1], corner(p, i + 1)[0], corner(p, i + 1)[1],
                       corner(p, j)[0], corner(p, j)[1], corner(p, j + 1)[0], corner(p, j + 1)[1]);
  return TN_OK;
}

tn_status pn_body_polygon(pn_arena *arena, size_t n, const double *points, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  pn_polygon p = {.n = n};
  TN_TRY(pn_leaf_new(arena, &pn_solid_polygon, 2, NULL, tag, &leaf));
  TN_TRY(PN_TAKE(arena, n ? 2 * n : 1, &p.points));
  memcpy(p.points, points, 2 * n * sizeof *points);
  TN_TRY(check_polygon(&p));
  leaf->data = &p; /* settle makes a copy that lasts */
  return pn_leaf_body(arena, leaf, out);
}
