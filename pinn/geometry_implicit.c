/* geometry_implicit.c: bodies given by a predicate, within a box.
 *
 * The surface is found by rays along the axes, which are scanned in 64 steps and bisected where the predicate changes, at
 * most 4 times a ray. The three choices (axis, which crossing, where the ray starts) come from the d - 1 numbers. A ray
 * along axis k meets a surface of normal n with density |n_k| / A_k, A_k the cross-section; rays that graze (|n_k| below
 * 1/2 / sqrt(d)) are left out, because their crossings and normals are inaccurate, and a point is kept with probability
 *
 *   c / sum over the other axes of |n_k| / A_k,    c = sqrt(3/4) / max A_k,
 *
 * so that points are uniform on the surface: sqrt(3/4) bounds the sum from below, as the largest |n_k| is at least that
 * if all the others are left out. The normal comes from the crossings of neighbouring rays. Distance is the nearest
 * crossing along the axes, which is what finding surfaces needs; it is no bound far away. Areas are sampled.
 */
#include "pinn/geometry_inside.h"

#include <math.h>
#include <string.h>

enum { STEPS = 64, MOST = 4 };

typedef struct implicit {
  pn_inside holds;
  const void *context;
  double middle[PN_BODY_DIMENSIONS]; /* of the box; own coordinates count from there */
} implicit;

static bool inside(const pn_leaf *leaf, const double *x) {
  const implicit *p = leaf->data;
  double at[PN_BODY_DIMENSIONS];
  bool in = false;
  for (size_t i = 0; i < leaf->d; ++i) {
    if (!(fabs(x[i]) < leaf->size[i]))
      return false;
    at[i] = x[i] + p->middle[i];
  }
  return p->holds(p->context, at, &in) == TN_OK && in; /* a point where it has no value is outside */
}

static bool state_at(const pn_leaf *leaf, const double *foot, size_t axis, double s) {
  double x[PN_BODY_DIMENSIONS];
  memcpy(x, foot, leaf->d * sizeof *x);
  x[axis] = s;
  return inside(leaf, x);
}

/* Where the predicate changes between a (of state `before`) and b. */
static double change(const pn_leaf *leaf, const double *foot, size_t axis, double a, double b, bool before) {
  for (int step = 0; step < 60; ++step) {
    double middle = (a + b) / 2;
    if (state_at(leaf, foot, axis, middle) == before)
      a = middle;
    else
      b = middle;
  }
  return (a + b) / 2;
}

/* Normal at a crossing of a ray along `axis` at s by the crossings of its neighbours; false: they have none. */
static bool normal_of(const pn_leaf *leaf, const double *foot, size_t axis, double s, bool leaving,
                      double *normal) {
  double size = leaf->size[axis], square = 1, beside[PN_BODY_DIMENSIONS];
  for (size_t i = 0; i < leaf->d; ++i) {
    double h = 1e-4 * fmin(size, leaf->size[i]), found[2];
    if (i == axis)
      continue;
    for (size_t k = 0; k < 2; ++k) {
      memcpy(beside, foot, leaf->d * sizeof *beside);
      beside[i] += k ? h : -h;
      double low = s - 16 * h, high = s + 16 * h;
      if (state_at(leaf, beside, axis, low) != leaving || state_at(leaf, beside, axis, high) == leaving)
        return false;
      found[k] = change(leaf, beside, axis, low, high, leaving);
    }
    normal[i] = -(found[1] - found[0]) / (2 * h);
    square += normal[i] * normal[i];
  }
  normal[axis] = 1;
  for (size_t i = 0; i < leaf->d; ++i)
    normal[i] *= (leaving ? 1 : -1) / sqrt(square);
  return true;
}

static double distance(const pn_leaf *leaf, const double *x) {
  bool in = inside(leaf, x);
  double size = 0;
  for (size_t i = 0; i < leaf->d; ++i)
    size = fmax(size, leaf->size[i]);
  for (double step = 1e-10 * size; step < 4 * size; step *= 2) {
    double best = INFINITY;
    for (size_t k = 0; k < 2 * leaf->d; ++k) {
      double to = x[k / 2] + (k % 2 ? step : -step);
      if (state_at(leaf, x, k / 2, to) != in)
        best = fmin(best, fabs(change(leaf, x, k / 2, x[k / 2], to, in) - x[k / 2]));
    }
    if (isfinite(best))
      return in ? -best : best;
  }
  return in ? -4 * size : 4 * size;
}

static void bounds(const pn_leaf *leaf, double *from, double *to) {
  pn_leaf_box(leaf, leaf->size, from, to);
}

static double section(const pn_leaf *leaf, size_t axis) {
  double product = 1;
  for (size_t i = 0; i < leaf->d; ++i)
    product *= i == axis ? 1 : 2 * leaf->size[i];
  return product;
}

static double largest_section(const pn_leaf *leaf) {
  double largest = 0;
  for (size_t i = 0; i < leaf->d; ++i)
    largest = fmax(largest, section(leaf, i));
  return largest;
}

/* The slot-th crossing of a ray; false: there are fewer. */
static bool cross_ray(const pn_leaf *leaf, const double *foot, size_t axis, size_t slot, double *s,
                      bool *leaving) {
  double size = leaf->size[axis], last = -size * (1 + 1e-6);
  bool state = false;
  for (size_t i = 0; i <= STEPS; ++i) {
    double at = i == STEPS ? size * (1 + 1e-6) : size * (2 * ((double)i + 0.5) / STEPS - 1);
    bool now = i < STEPS && state_at(leaf, foot, axis, at);
    if (now != state && slot-- == 0) {
      *s = change(leaf, foot, axis, last, at, state);
      *leaving = state;
      return true;
    }
    state = now;
    last = at;
  }
  return false;
}

static double density(const pn_leaf *leaf, const double *normal) {
  double sum = 0, least = 0.5 / sqrt((double)leaf->d);
  for (size_t i = 0; i < leaf->d; ++i)
    if (fabs(normal[i]) >= least)
      sum += fabs(normal[i]) / section(leaf, i);
  return sum;
}

static void place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                  double *keep) {
  double first = leaf->d > 1 ? u[0] * (double)leaf->d : 0, s = 0, least = 0.5 / sqrt((double)leaf->d);
  bool leaving = false;
  size_t axis = (size_t)first, at = 0;
  (void)part;
  axis = axis < leaf->d ? axis : leaf->d - 1;
  first = (first - (double)axis) * MOST;
  size_t slot = (size_t)first < MOST ? (size_t)first : MOST - 1;
  first -= (double)slot;
  for (size_t i = 0; i < leaf->d; ++i) {
    normal[i] = i == axis;
    x[i] = 0;
    if (i == axis)
      continue;
    x[i] = leaf->size[i] * (2 * (at == 0 ? first : u[at]) - 1);
    ++at;
  }
  *keep = 0;
  if (!cross_ray(leaf, x, axis, slot, &s, &leaving))
    return;
  x[axis] = s;
  if (normal_of(leaf, x, axis, s, leaving, normal) && fabs(normal[axis]) >= least)
    *keep = fmin(1, sqrt(0.75) / largest_section(leaf) / density(leaf, normal));
}

static bool at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  double least = 0.5 / sqrt((double)leaf->d);
  *part = 0;
  for (size_t axis = 0; axis < leaf->d; ++axis) {
    double low = x[axis] - 4 * tol, high = x[axis] + 4 * tol;
    bool before = state_at(leaf, x, axis, low);
    if (before == state_at(leaf, x, axis, high))
      continue;
    double s = change(leaf, x, axis, low, high, before);
    if (normal_of(leaf, x, axis, s, before, normal) && fabs(normal[axis]) >= least)
      return true;
  }
  return false;
}

static double volume(const pn_leaf *leaf) {
  (void)leaf;
  return NAN;
}

static tn_status settle(pn_arena *arena, pn_leaf *leaf) {
  TN_TRY(pn_leaf_parts(arena, leaf, 1));
  leaf->parts->proposal = (double)leaf->d * MOST * largest_section(leaf) / sqrt(0.75);
  return TN_OK;
}

const pn_solid pn_solid_implicit = {"implicit body", inside, distance, bounds, place, at,
                                    volume,          NULL,   settle,   NULL,   true};

tn_status pn_body_implicit(pn_arena *arena, size_t d, const double *from, const double *to, pn_inside holds,
                           const void *context, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  implicit *p = NULL;
  TN_TRY(pn_leaf_new(arena, &pn_solid_implicit, d, NULL, tag, &leaf));
  TN_TRY(PN_TAKE(arena, 1, &p));
  p->holds = holds;
  p->context = context;
  for (size_t i = 0; i < d; ++i) {
    if (!(isfinite(from[i]) && isfinite(to[i]) && from[i] < to[i]))
      return TN_FAIL(TN_EINPUT, "an implicit body from %g to %g along axis %zu; expected finite ends with "
                                "from < to",
                     from[i], to[i], i + 1);
    p->middle[i] = leaf->b[i] = (from[i] + to[i]) / 2;
    leaf->size[i] = (to[i] - from[i]) / 2;
  }
  leaf->data = p;
  return pn_leaf_body(arena, leaf, out);
}
