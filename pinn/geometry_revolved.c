/* geometry_revolved.c: bodies of revolution about their own z axis: cylinders and (cut) cones, tori.
 *
 * A cone keeps (r, s, h): radius r at z = 0, s at z = h. In the half-plane (rho, z) it is the trapezium under the line
 * from (r, 0) to (s, h), which gives the distance. Uniform points of the mantle have rho^2 uniform between r^2 and s^2,
 * those of a cap rho^2 uniform below r^2. Faces: 0 mantle, 1 cap at z = 0, 2 cap at z = h.
 *
 * A torus keeps (R, r): distance hypot(rho - R, z) - r. Areas grow as R + r cos q round the tube, so a uniform q solves
 * q + (r/R) sin q = 2 pi u (Kepler's equation), by bisection.
 */
#include "pinn/geometry_smooth.h"

#include <math.h>
#include <string.h>

static double pi(void) { return acos(-1.0); }

/* ---- Cones --------------------------------------------------------------------------------------- */

enum { MANTLE, FIRST_CAP, SECOND_CAP };

static bool cone_inside(const pn_leaf *leaf, const double *x) {
  double r = leaf->size[0], s = leaf->size[1], h = leaf->size[2];
  return x[2] > 0 && x[2] < h && hypot(x[0], x[1]) < r + (s - r) * x[2] / h;
}

/* Distances in the half-plane to the three faces; *along: where on the mantle the foot lies, as a length. */
static void cone_distances(const pn_leaf *leaf, const double *x, double *to, double *along) {
  double r = leaf->size[0], s = leaf->size[1], h = leaf->size[2], rho = hypot(x[0], x[1]);
  double slant = hypot(s - r, h);
  *along = ((rho - r) * (s - r) + x[2] * h) / slant;
  double q = fmin(fmax(*along, 0), slant) / slant;
  to[MANTLE] = hypot(rho - r - q * (s - r), x[2] - q * h);
  to[FIRST_CAP] = hypot(fmax(rho - r, 0), x[2]);
  to[SECOND_CAP] = hypot(fmax(rho - s, 0), x[2] - h);
}

static double cone_distance(const pn_leaf *leaf, const double *x) {
  double to[3], along = 0;
  cone_distances(leaf, x, to, &along);
  double nearest = fmin(to[MANTLE], fmin(to[FIRST_CAP], to[SECOND_CAP]));
  return cone_inside(leaf, x) ? -nearest : nearest;
}

/* Two discs across the axis, whose reach along a coordinate is the radius times the length of the radial rows of A. */
static void cone_bounds(const pn_leaf *leaf, double *from, double *to) {
  for (size_t i = 0; i < 3; ++i) {
    double reach = hypot(leaf->A[3 * i], leaf->A[3 * i + 1]);
    double end = leaf->b[i] + leaf->A[3 * i + 2] * leaf->size[2];
    from[i] = fmin(leaf->b[i] - reach * leaf->size[0], end - reach * leaf->size[1]);
    to[i] = fmax(leaf->b[i] + reach * leaf->size[0], end + reach * leaf->size[1]);
  }
}

static void cone_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                       double *keep) {
  double r = leaf->size[0], s = leaf->size[1], h = leaf->size[2], slant = hypot(s - r, h), rho = 0;
  double c = cos(2 * pi() * u[1]), w = sin(2 * pi() * u[1]);
  *keep = u[0] < 1e-9 || u[0] > 1 - 1e-9 ? 0 : 1;
  if (part == MANTLE) {
    rho = sqrt(r * r + u[0] * (s * s - r * r));
    x[2] = r == s ? u[0] * h : h * (rho - r) / (s - r);
    normal[0] = c * h / slant;
    normal[1] = w * h / slant;
    normal[2] = (r - s) / slant;
  } else {
    bool second = part == SECOND_CAP;
    rho = sqrt(u[0]) * (second ? s : r);
    x[2] = second ? h : 0;
    normal[0] = normal[1] = 0;
    normal[2] = second ? 1 : -1;
  }
  x[0] = rho * c;
  x[1] = rho * w;
}

static bool cone_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  double to[3], along = 0, rho = hypot(x[0], x[1]);
  double r = leaf->size[0], s = leaf->size[1], h = leaf->size[2], slant = hypot(s - r, h);
  cone_distances(leaf, x, to, &along);
  size_t near = (to[0] <= tol) + (to[1] <= tol && r > 0) + (to[2] <= tol && s > 0);
  if (near != 1 || rho < tol * (to[MANTLE] <= tol)) /* a rim, or the tip of a cone */
    return false;
  *part = to[MANTLE] <= tol ? MANTLE : to[FIRST_CAP] <= tol ? FIRST_CAP : SECOND_CAP;
  normal[0] = *part == MANTLE ? x[0] / rho * h / slant : 0;
  normal[1] = *part == MANTLE ? x[1] / rho * h / slant : 0;
  normal[2] = *part == MANTLE ? (r - s) / slant : *part == FIRST_CAP ? -1 : 1;
  return true;
}

static double cone_volume(const pn_leaf *leaf) {
  double r = leaf->size[0], s = leaf->size[1];
  return pi() * leaf->size[2] * (r * r + r * s + s * s) / 3;
}

static tn_status cone_settle(pn_arena *arena, pn_leaf *leaf) {
  double scale[PN_BODY_DIMENSIONS];
  pn_leaf copy = *leaf;
  double A[9];
  memcpy(A, leaf->A, sizeof A);
  if (pn_leaf_unscale(&copy, scale)) { /* changes A in place */
    if (fabs(scale[0] - scale[1]) <= 1e-14 * scale[0]) {
      leaf->size[0] *= scale[0];
      leaf->size[1] *= scale[0];
      leaf->size[2] *= scale[2];
    } else
      memcpy(leaf->A, A, sizeof A);
  }
  double r = leaf->size[0], s = leaf->size[1], h = leaf->size[2];
  TN_TRY(pn_leaf_parts(arena, leaf, 3));
  leaf->parts[MANTLE].proposal = pi() * (r + s) * hypot(r - s, h);
  leaf->parts[FIRST_CAP] = (pn_part){.flat = true, .proposal = pi() * r * r, .normal = {0, 0, -1}};
  leaf->parts[SECOND_CAP] =
      (pn_part){.flat = true, .proposal = pi() * s * s, .normal = {0, 0, 1}, .offset = h};
  return TN_OK;
}

const pn_solid pn_solid_cone = {"cylinder or cone", cone_inside, cone_distance, cone_bounds, cone_place,
                                cone_at,            cone_volume, NULL,          cone_settle,
                                pn_smooth_cone, false};

/* An orthonormal A whose third column is along `axis`. */
static void stand_up(const double *axis, double *A) {
  double length = sqrt(pn_inner(3, axis, axis)), n[3], t[3] = {0}, square = 0;
  size_t least = 0;
  for (size_t i = 0; i < 3; ++i) {
    n[i] = axis[i] / length;
    least = fabs(n[i]) < fabs(n[least]) ? i : least;
  }
  for (size_t i = 0; i < 3; ++i) {
    t[i] = (i == least) - n[i] * n[least];
    square += t[i] * t[i];
  }
  for (size_t i = 0; i < 3; ++i) {
    t[i] /= sqrt(square);
    A[3 * i] = t[i];
    A[3 * i + 2] = n[i];
  }
  for (size_t i = 0; i < 3; ++i)
    A[3 * i + 1] = n[(i + 1) % 3] * t[(i + 2) % 3] - n[(i + 2) % 3] * t[(i + 1) % 3];
}

tn_status pn_body_cone(pn_arena *arena, const double *from, const double *to, double radius,
                       double radius2, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  double axis[3];
  if (!(radius >= 0 && radius2 >= 0 && radius + radius2 > 0 && isfinite(radius + radius2)))
    return TN_FAIL(TN_EINPUT, "a cylinder or cone of radii %g and %g; expected numbers >= 0, one of them > 0",
                   radius, radius2);
  for (size_t i = 0; i < 3; ++i)
    axis[i] = to[i] - from[i];
  TN_TRY(pn_leaf_new(arena, &pn_solid_cone, 3, from, tag, &leaf));
  leaf->size[0] = radius;
  leaf->size[1] = radius2;
  leaf->size[2] = sqrt(pn_inner(3, axis, axis));
  if (!(leaf->size[2] > 0 && isfinite(leaf->size[2])))
    return TN_FAIL(TN_EINPUT, "a cylinder or cone of height %g; expected two distinct ends", leaf->size[2]);
  stand_up(axis, leaf->A);
  return pn_leaf_body(arena, leaf, out);
}

/* ---- Tori ---------------------------------------------------------------------------------------- */

static double torus_distance(const pn_leaf *leaf, const double *x) {
  return hypot(hypot(x[0], x[1]) - leaf->size[0], x[2]) - leaf->size[1];
}

static bool torus_inside(const pn_leaf *leaf, const double *x) { return torus_distance(leaf, x) < 0; }

static void torus_bounds(const pn_leaf *leaf, double *from, double *to) {
  for (size_t i = 0; i < 3; ++i) {
    const double *row = leaf->A + 3 * i;
    double reach = hypot(row[0], row[1]) * leaf->size[0] + sqrt(pn_inner(3, row, row)) * leaf->size[1];
    from[i] = leaf->b[i] - reach;
    to[i] = leaf->b[i] + reach;
  }
}

static void torus_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                        double *keep) {
  double R = leaf->size[0], r = leaf->size[1], low = 0, high = 2 * pi();
  (void)part;
  for (int step = 0; step < 54; ++step) {
    double middle = (low + high) / 2;
    if (middle + r / R * sin(middle) < 2 * pi() * u[0])
      low = middle;
    else
      high = middle;
  }
  double c = cos(2 * pi() * u[1]), s = sin(2 * pi() * u[1]);
  normal[0] = cos(low) * c;
  normal[1] = cos(low) * s;
  normal[2] = sin(low);
  x[0] = R * c + r * normal[0];
  x[1] = R * s + r * normal[1];
  x[2] = r * normal[2];
  *keep = 1;
}

static bool torus_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  double rho = hypot(x[0], x[1]), length = hypot(rho - leaf->size[0], x[2]);
  *part = 0;
  if (fabs(length - leaf->size[1]) > tol || rho == 0)
    return false;
  normal[0] = (rho - leaf->size[0]) / length * x[0] / rho;
  normal[1] = (rho - leaf->size[0]) / length * x[1] / rho;
  normal[2] = x[2] / length;
  return true;
}

static double torus_volume(const pn_leaf *leaf) {
  return 2 * pi() * pi() * leaf->size[0] * leaf->size[1] * leaf->size[1];
}

static tn_status torus_settle(pn_arena *arena, pn_leaf *leaf) {
  double scale[PN_BODY_DIMENSIONS], A[9];
  memcpy(A, leaf->A, sizeof A);
  if (pn_leaf_unscale(leaf, scale)) {
    if (fabs(scale[0] - scale[1]) <= 1e-14 * scale[0] && fabs(scale[0] - scale[2]) <= 1e-14 * scale[0]) {
      leaf->size[0] *= scale[0];
      leaf->size[1] *= scale[0];
    } else
      memcpy(leaf->A, A, sizeof A);
  }
  TN_TRY(pn_leaf_parts(arena, leaf, 1));
  leaf->parts->proposal = 4 * pi() * pi() * leaf->size[0] * leaf->size[1];
  return TN_OK;
}

const pn_solid pn_solid_torus = {"torus",  torus_inside, torus_distance, torus_bounds, torus_place,
                                 torus_at, torus_volume, NULL,           torus_settle, pn_smooth_torus, false};

tn_status pn_body_torus(pn_arena *arena, const double *center, const double *axis, double radius,
                        double tube, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  double length = sqrt(pn_inner(3, axis, axis));
  if (!(tube > 0 && radius > tube && isfinite(radius)))
    return TN_FAIL(TN_EINPUT, "a torus of radius %g and tube %g; expected 0 < tube < radius", radius, tube);
  if (!(length > 0 && isfinite(length)))
    return TN_FAIL(TN_EINPUT, "a torus whose axis has length %g; expected a direction", length);
  TN_TRY(pn_leaf_new(arena, &pn_solid_torus, 3, center, tag, &leaf));
  leaf->size[0] = radius;
  leaf->size[1] = tube;
  stand_up(axis, leaf->A);
  return pn_leaf_body(arena, leaf, out);
}
