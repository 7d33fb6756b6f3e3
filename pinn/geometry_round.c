/* geometry_round.c: balls and ellipsoids in any number of dimensions.
 *
 * The surface sum (x_i / a_i)^2 = 1 is the image of the unit sphere, s -> a s. A uniform point of the sphere from d - 1
 * numbers: the first coordinate is cos(angle) with density sin^(d-2)(angle), inverted numerically (closed form for
 * d = 3), the others recurse on the sphere of one dimension less; the last number turns round the circle. The image is
 * uniform after a point is kept with probability |s / a| min a, because areas grow by prod(a) |s / a|.
 *
 * Distance: the nearest point y of the surface to x has y_i = a_i^2 x_i / (a_i^2 + t), with t the largest root of
 *
 *   sum (a_i x_i / (a_i^2 + t))^2 = 1,     t > -min a^2,
 *
 * found by bisection, which also serves points inside and on the axes (Eberly, Distance from a Point to an Ellipsoid).
 */
#include "pinn/geometry_smooth.h"

#include <math.h>
#include <string.h>

static double smallest(const pn_leaf *leaf) {
  double least = leaf->size[0];
  for (size_t i = 1; i < leaf->d; ++i)
    least = fmin(least, leaf->size[i]);
  return least;
}

static bool is_ball(const pn_leaf *leaf) {
  for (size_t i = 1; i < leaf->d; ++i)
    if (leaf->size[i] != leaf->size[0])
      return false;
  return true;
}

static bool inside(const pn_leaf *leaf, const double *x) {
  double sum = 0;
  for (size_t i = 0; i < leaf->d; ++i)
    sum += (x[i] / leaf->size[i]) * (x[i] / leaf->size[i]);
  return sum < 1;
}

/* sum (a x / (a^2 + t))^2 - 1, falling in t. */
static double excess(const pn_leaf *leaf, const double *x, double t) {
  double sum = -1;
  for (size_t i = 0; i < leaf->d; ++i) {
    double a = leaf->size[i], q = x[i] == 0 ? 0 : a * x[i] / (a * a + t);
    sum += q * q;
  }
  return sum;
}

/* The nearest point of the surface. */
static void foot(const pn_leaf *leaf, const double *x, double *y) {
  double least = smallest(leaf), norm = 0, largest = 0, left = 1;
  size_t short_axis = 0;
  for (size_t i = 0; i < leaf->d; ++i) {
    norm += x[i] * x[i];
    largest = fmax(largest, leaf->size[i]);
    if (leaf->size[i] == least)
      short_axis = i;
  }
  double low = -least * least, high = largest * (largest + sqrt(norm));
  for (int step = 0; step < 200; ++step) {
    double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high)
      break;
    if (excess(leaf, x, middle) > 0)
      low = middle;
    else
      high = middle;
  }
  for (size_t i = 0; i < leaf->d; ++i) {
    double a2 = leaf->size[i] * leaf->size[i];
    y[i] = x[i] == 0 ? 0 : a2 * x[i] / (a2 + high);
    left -= (y[i] / leaf->size[i]) * (y[i] / leaf->size[i]);
  }
  if (x[short_axis] == 0 && left > 0) /* on the medial set: both signs are as near */
    y[short_axis] = leaf->size[short_axis] * sqrt(left);
}

static double distance(const pn_leaf *leaf, const double *x) {
  double y[PN_BODY_DIMENSIONS], sum = 0;
  if (is_ball(leaf))
    return sqrt(pn_inner(leaf->d, x, x)) - leaf->size[0];
  foot(leaf, x, y);
  for (size_t i = 0; i < leaf->d; ++i)
    sum += (x[i] - y[i]) * (x[i] - y[i]);
  return inside(leaf, x) ? -sqrt(sum) : sqrt(sum);
}

static void bounds(const pn_leaf *leaf, double *from, double *to) {
  for (size_t i = 0; i < leaf->d; ++i) {
    double sum = 0;
    for (size_t j = 0; j < leaf->d; ++j) {
      double w = leaf->A[i * leaf->d + j] * leaf->size[j];
      sum += w * w;
    }
    from[i] = leaf->b[i] - sqrt(sum);
    to[i] = leaf->b[i] + sqrt(sum);
  }
}

/* Integral of sin^k from 0 to angle, by I_k = (-cos sin^(k-1) + (k - 1) I_(k-2)) / k. */
static double sine_power(size_t k, double angle) {
  double c = cos(angle), s = sin(angle), value = k % 2 ? 1 - c : angle, power = k % 2 ? s : 1;
  for (size_t j = k % 2 + 2; j <= k; j += 2) {
    power *= s; /* sin^(j-1) */
    value = (-c * power + (double)(j - 1) * value) / (double)j;
    power *= s;
  }
  return value;
}

/* cos of the angle whose share of the sphere in R^m is u. */
static double polar(size_t m, double u, double *sine) {
  double pi = acos(-1.0), low = 0, high = pi, whole = sine_power(m - 2, pi);
  if (m == 3) {
    *sine = 2 * sqrt(u * (1 - u));
    return 1 - 2 * u;
  }
  for (int step = 0; step < 60; ++step) {
    double middle = (low + high) / 2;
    if (sine_power(m - 2, middle) < u * whole)
      low = middle;
    else
      high = middle;
  }
  *sine = sin(low);
  return cos(low);
}

static void sphere(size_t d, const double *u, double *s) {
  double radius = 1, sine = 0, pi = acos(-1.0);
  if (d == 1) {
    s[0] = 1;
    return;
  }
  for (size_t m = d; m > 2; --m) {
    *s++ = radius * polar(m, *u++, &sine);
    radius *= sine;
  }
  s[0] = radius * cos(2 * pi * *u);
  s[1] = radius * sin(2 * pi * *u);
}

static void place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                  double *keep) {
  double s[PN_BODY_DIMENSIONS], sum = 0, least = smallest(leaf);
  (void)part;
  sphere(leaf->d, u, s);
  for (size_t i = 0; i < leaf->d; ++i) {
    x[i] = leaf->size[i] * s[i];
    normal[i] = s[i] / leaf->size[i];
    sum += normal[i] * normal[i];
  }
  for (size_t i = 0; i < leaf->d; ++i)
    normal[i] /= sqrt(sum);
  *keep = is_ball(leaf) ? 1 : fmin(1, sqrt(sum) * least);
}

static bool at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  double sum = 0;
  *part = 0;
  if (fabs(distance(leaf, x)) > tol)
    return false;
  for (size_t i = 0; i < leaf->d; ++i) {
    normal[i] = x[i] / leaf->size[i] / leaf->size[i];
    sum += normal[i] * normal[i];
  }
  for (size_t i = 0; i < leaf->d; ++i)
    normal[i] /= sqrt(sum);
  return true;
}

/* Volume of the unit ball: V_d = V_(d-2) 2 pi / d. */
static double unit_ball(size_t d) {
  double volume = d % 2 ? 2 : 1, pi = acos(-1.0);
  for (size_t k = d % 2 + 2; k <= d; k += 2)
    volume *= 2 * pi / (double)k;
  return volume;
}

static double volume(const pn_leaf *leaf) {
  double product = unit_ball(leaf->d);
  for (size_t i = 0; i < leaf->d; ++i)
    product *= leaf->size[i];
  return product;
}

/* The last number is the share of the volume within the radius, the others point. */
static void fill(const pn_leaf *leaf, const double *u, double *x) {
  double radius = pow(u[leaf->d - 1], 1.0 / (double)leaf->d);
  sphere(leaf->d, u, x);
  for (size_t i = 0; i < leaf->d; ++i)
    x[i] *= radius * leaf->size[i];
}

static tn_status settle(pn_arena *arena, pn_leaf *leaf) {
  double s[PN_BODY_DIMENSIONS], product = 1;
  if (pn_leaf_unscale(leaf, s))
    for (size_t i = 0; i < leaf->d; ++i)
      leaf->size[i] *= s[i];
  TN_TRY(pn_leaf_parts(arena, leaf, 1));
  for (size_t i = 0; i < leaf->d; ++i)
    product *= leaf->size[i];
  leaf->parts->proposal = (double)leaf->d * unit_ball(leaf->d) * product / smallest(leaf);
  return TN_OK;
}

const pn_solid pn_solid_ellipsoid = {"ball", inside, distance, bounds, place,
                                     at,     volume, fill,     settle, pn_smooth_ellipsoid, false};

tn_status pn_body_ellipsoid(pn_arena *arena, size_t d, const double *center, const double *axes,
                            size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  TN_TRY(pn_leaf_new(arena, &pn_solid_ellipsoid, d, center, tag, &leaf));
  for (size_t i = 0; i < d; ++i) {
    if (!(axes[i] > 0 && isfinite(axes[i])))
      return TN_FAIL(TN_EINPUT, "an ellipse or ellipsoid with semi-axis %zu = %g; expected a number > 0",
                     i + 1, axes[i]);
    leaf->size[i] = axes[i];
  }
  if (d == 1) { /* its two ends are two faces */
    double from = center[0] - axes[0], to = center[0] + axes[0];
    return pn_body_box(arena, 1, &from, &to, tag, out);
  }
  return pn_leaf_body(arena, leaf, out);
}

tn_status pn_body_ball(pn_arena *arena, size_t d, const double *center, double radius, size_t tag,
                       pn_body **out) {
  double axes[PN_BODY_DIMENSIONS];
  if (!(radius > 0 && isfinite(radius)))
    return TN_FAIL(TN_EINPUT, "a disc or ball of radius %g; expected a number > 0", radius);
  for (size_t i = 0; i < PN_BODY_DIMENSIONS; ++i)
    axes[i] = radius;
  return pn_body_ellipsoid(arena, d, center, axes, tag, out);
}
