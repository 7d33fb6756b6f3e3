/* geometry_surface.c: bodies bounded by triangles.
 *
 * Inside where the winding number, the sum of the solid angles of all triangles over 4 pi, is above 1/2 (van Oosterom and
 * Strackee's formula for one triangle). Triangles are kept in a tree of boxes; a box that is far from the point counts as
 * one dipole, a . (c - x) / |c - x|^3 with its summed area vector a and centre c, which is off by far less than the 1/2
 * that decides (Barill et al. 2018). Distance by the same tree. A closed surface has each edge once in either direction;
 * the orientation follows from the sign of the volume, sum a . (b x c) / 6, so the file's normals are not needed.
 *
 * A uniform point: the first number picks the triangle by area, what is left of it and the second number place the point.
 */
#include "pinn/geometry_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAF_SIZE = 4, DEEPEST = 64 };
static const double far = 3; /* boxes at more than this many radii are dipoles */

typedef struct knot {
  double low[3], high[3];
  double center[3], dipole[3], radius;
  size_t first, n; /* triangles */
  size_t right;    /* the second child; the first follows; 0: no children */
} knot;

typedef struct surface {
  size_t n, n_knots;
  double *v;   /* 9 n */
  double *sum; /* n + 1 partial areas */
  knot *knots; /* 2 n at most */
  double volume;
} surface;

static void cross(const double *a, const double *b, double *c) {
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

/* Twice the area, as a vector along the normal. */
static void area_vector(const double *t, double *a) {
  double p[3], q[3];
  for (size_t k = 0; k < 3; ++k) {
    p[k] = t[3 + k] - t[k];
    q[k] = t[6 + k] - t[k];
  }
  cross(p, q, a);
}

/* ---- The tree ------------------------------------------------------------------------------------ */

static void fill_knot(const surface *s, knot *k) {
  double whole = 0, a[3];
  for (size_t i = 0; i < 3; ++i) {
    k->low[i] = INFINITY;
    k->high[i] = -INFINITY;
    k->center[i] = k->dipole[i] = 0;
  }
  for (size_t t = k->first; t < k->first + k->n; ++t) {
    const double *v = s->v + 9 * t;
    area_vector(v, a);
    double weight = sqrt(pn_inner(3, a, a));
    whole += weight;
    for (size_t i = 0; i < 3; ++i) {
      k->dipole[i] += a[i] / 2;
      k->center[i] += weight * (v[i] + v[3 + i] + v[6 + i]) / 3;
      k->low[i] = fmin(k->low[i], fmin(v[i], fmin(v[3 + i], v[6 + i])));
      k->high[i] = fmax(k->high[i], fmax(v[i], fmax(v[3 + i], v[6 + i])));
    }
  }
  double square = 0;
  for (size_t i = 0; i < 3; ++i) {
    k->center[i] = whole > 0 ? k->center[i] / whole : (k->low[i] + k->high[i]) / 2;
    double reach = fmax(k->high[i] - k->center[i], k->center[i] - k->low[i]);
    square += reach * reach;
  }
  k->radius = sqrt(square);
}

static int by_axis(const double *a, const double *b, size_t i) {
  double p = a[i] + a[3 + i] + a[6 + i], q = b[i] + b[3 + i] + b[6 + i];
  return (p > q) - (p < q);
}
static int by_x(const void *a, const void *b) { return by_axis(a, b, 0); }
static int by_y(const void *a, const void *b) { return by_axis(a, b, 1); }
static int by_z(const void *a, const void *b) { return by_axis(a, b, 2); }

/* Halves the triangles along the longest side; depth is log2 n. */
static void grow(surface *s, size_t first, size_t n) {
  static int (*const order[])(const void *, const void *) = {by_x, by_y, by_z};
  size_t mine = s->n_knots++, longest = 0;
  knot *k = &s->knots[mine];
  k->first = first;
  k->n = n;
  fill_knot(s, k);
  if (n <= LEAF_SIZE)
    return;
  for (size_t i = 1; i < 3; ++i)
    if (k->high[i] - k->low[i] > k->high[longest] - k->low[longest])
      longest = i;
  qsort(s->v + 9 * first, n, 9 * sizeof *s->v, order[longest]);
  grow(s, first, n / 2);
  s->knots[mine].right = s->n_knots;
  grow(s, first + n / 2, n - n / 2);
}

/* ---- Questions ----------------------------------------------------------------------------------- */

/* Solid angle of a triangle over 4 pi. */
static double angle(const double *t, const double *x) {
  double p[3][3], length[3], c[3];
  for (size_t k = 0; k < 3; ++k) {
    for (size_t i = 0; i < 3; ++i)
      p[k][i] = t[3 * k + i] - x[i];
    length[k] = sqrt(pn_inner(3, p[k], p[k]));
  }
  cross(p[1], p[2], c);
  double below = length[0] * length[1] * length[2] + pn_inner(3, p[0], p[1]) * length[2] +
                 pn_inner(3, p[1], p[2]) * length[0] + pn_inner(3, p[2], p[0]) * length[1];
  return atan2(pn_inner(3, p[0], c), below) / (2 * acos(-1.0));
}

static bool inside(const pn_leaf *leaf, const double *x) {
  const surface *s = leaf->data;
  size_t stack[DEEPEST * 2], top = 0;
  double winding = 0, pi = acos(-1.0);
  stack[top++] = 0;
  while (top) {
    const size_t at = stack[--top];
    const knot *k = &s->knots[at];
    double gap[3], square = 0;
    for (size_t i = 0; i < 3; ++i) {
      gap[i] = k->center[i] - x[i];
      square += gap[i] * gap[i];
    }
    double length = sqrt(square);
    if (length > far * k->radius)
      winding += pn_inner(3, k->dipole, gap) / (4 * pi * square * length);
    else if (k->right) {
      stack[top++] = at + 1;
      stack[top++] = k->right;
    } else
      for (size_t t = k->first; t < k->first + k->n; ++t)
        winding += angle(s->v + 9 * t, x);
  }
  return winding > 0.5;
}

/* Squared distance to a triangle; *edge: that to its rim. */
static double to_triangle(const double *t, const double *x, double *edge) {
  double n[3], gap[3], inner = 1, rim = INFINITY;
  area_vector(t, n);
  double square = pn_inner(3, n, n);
  for (size_t i = 0; i < 3; ++i)
    gap[i] = x[i] - t[i];
  double height = square > 0 ? pn_inner(3, gap, n) / square : 0;
  for (size_t k = 0; k < 3; ++k) {
    const double *a = t + 3 * k, *b = t + 3 * ((k + 1) % 3);
    double e[3], p[3], across[3], sum = 0;
    for (size_t i = 0; i < 3; ++i) {
      e[i] = b[i] - a[i];
      p[i] = x[i] - a[i];
    }
    cross(e, p, across);
    inner = fmin(inner, pn_inner(3, across, n));
    double length = pn_inner(3, e, e), q = length > 0 ? fmin(fmax(pn_inner(3, e, p) / length, 0), 1) : 0;
    for (size_t i = 0; i < 3; ++i)
      sum += (p[i] - q * e[i]) * (p[i] - q * e[i]);
    rim = fmin(rim, sum);
  }
  *edge = rim;
  return inner >= 0 && square > 0 ? height * height * square : rim;
}

static double box_gap(const knot *k, const double *x) {
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    double beyond = fmax(fmax(k->low[i] - x[i], x[i] - k->high[i]), 0);
    sum += beyond * beyond;
  }
  return sum;
}

/* Squared distance to the nearest triangle. */
static double nearest(const surface *s, const double *x, size_t *which, double *edge) {
  size_t stack[DEEPEST * 2], top = 0;
  double best = INFINITY, rim = 0;
  stack[top++] = 0;
  while (top) {
    size_t at = stack[--top];
    const knot *k = &s->knots[at];
    if (box_gap(k, x) > best)
      continue;
    if (k->right) {
      bool first = box_gap(&s->knots[at + 1], x) < box_gap(&s->knots[k->right], x);
      stack[top++] = first ? k->right : at + 1;
      stack[top++] = first ? at + 1 : k->right;
      continue;
    }
    for (size_t t = k->first; t < k->first + k->n; ++t) {
      double square = to_triangle(s->v + 9 * t, x, &rim);
      if (square < best) {
        best = square;
        *which = t;
        *edge = rim;
      }
    }
  }
  return best;
}

static double distance(const pn_leaf *leaf, const double *x) {
  size_t which = 0;
  double edge = 0, square = nearest(leaf->data, x, &which, &edge);
  return inside(leaf, x) ? -sqrt(square) : sqrt(square);
}

static void bounds(const pn_leaf *leaf, double *from, double *to) {
  const surface *s = leaf->data;
  memcpy(from, s->knots->low, sizeof s->knots->low);
  memcpy(to, s->knots->high, sizeof s->knots->high);
}

static bool at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  const surface *s = leaf->data;
  size_t which = 0;
  double edge = 0, square = nearest(s, x, &which, &edge);
  *part = 0;
  if (square > tol * tol || edge < tol * tol)
    return false;
  area_vector(s->v + 9 * which, normal);
  double length = sqrt(pn_inner(3, normal, normal));
  for (size_t i = 0; i < 3; ++i)
    normal[i] /= length;
  return true;
}

static void place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                  double *keep) {
  const surface *s = leaf->data;
  size_t low = 0, high = s->n;
  double target = u[0] * s->sum[s->n];
  (void)part;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (s->sum[middle] <= target)
      low = middle;
    else
      high = middle;
  }
  double p = (target - s->sum[low]) / (s->sum[low + 1] - s->sum[low]), q = u[1];
  if (p + q > 1) { /* the square's upper half is folded onto its lower one */
    p = 1 - p;
    q = 1 - q;
  }
  const double *t = s->v + 9 * low;
  for (size_t i = 0; i < 3; ++i)
    x[i] = t[i] + p * (t[3 + i] - t[i]) + q * (t[6 + i] - t[i]);
  area_vector(t, normal);
  double length = sqrt(pn_inner(3, normal, normal));
  for (size_t i = 0; i < 3; ++i)
    normal[i] /= length;
  *keep = p < 1e-9 || q < 1e-9 || p + q > 1 - 1e-9 ? 0 : 1;
}

static double volume(const pn_leaf *leaf) { return ((const surface *)leaf->data)->volume; }

/* Six times the volume under a triangle. */
static double under(const double *t) {
  double c[3];
  cross(t + 3, t + 6, c);
  return pn_inner(3, t, c);
}

static tn_status settle(pn_arena *arena, pn_leaf *leaf) {
  const surface *old = leaf->data;
  surface *s = NULL;
  double a[3], twice[9];
  TN_TRY(PN_TAKE(arena, 1, &s));
  s->n = old->n;
  TN_TRY(PN_TAKE(arena, 9 * s->n, &s->v));
  TN_TRY(PN_TAKE(arena, s->n + 1, &s->sum));
  TN_TRY(PN_TAKE(arena, 2 * s->n, &s->knots));
  TN_TRY(pn_leaf_prepare(leaf));
  for (size_t i = 0; i < 3 * s->n; ++i)
    pn_leaf_world(leaf, old->v + 3 * i, s->v + 3 * i);
  for (size_t i = 0; i < s->n; ++i) { /* from the first corner, against cancellation far from the origin */
    for (size_t k = 0; k < 9; ++k)
      twice[k] = s->v[9 * i + k] - s->v[k % 3];
    s->volume += under(twice) / 6;
  }
  for (size_t i = 0; i < s->n && s->volume < 0; ++i) /* normals pointed in */
    for (size_t k = 3; k < 6; ++k) {
      double swap = s->v[9 * i + k];
      s->v[9 * i + k] = s->v[9 * i + k + 3];
      s->v[9 * i + k + 3] = swap;
    }
  s->volume = fabs(s->volume);
  grow(s, 0, s->n);
  for (size_t i = 0; i < s->n; ++i) {
    area_vector(s->v + 9 * i, a);
    s->sum[i + 1] = s->sum[i] + sqrt(pn_inner(3, a, a)) / 2;
  }
  pn_leaf_identity(leaf);
  leaf->data = s;
  TN_TRY(pn_leaf_parts(arena, leaf, 1));
  leaf->parts->proposal = s->sum[s->n];
  return TN_OK;
}

const pn_solid pn_solid_surface = {"triangulated surface", inside, distance, bounds, place, at, volume,
                                   NULL,                   settle, NULL,     false};

/* ---- Checks -------------------------------------------------------------------------------------- */

typedef struct side {
  double a[3], b[3]; /* ends, the smaller first */
  int direction;     /* 1: the triangle goes from a to b */
} side;

static int by_ends(const void *a, const void *b) {
  const double *p = ((const side *)a)->a, *q = ((const side *)b)->a; /* a and b lie behind each other */
  for (size_t i = 0; i < 3; ++i)
    if (p[i] != q[i])
      return p[i] < q[i] ? -1 : 1;
  p = ((const side *)a)->b;
  q = ((const side *)b)->b;
  for (size_t i = 0; i < 3; ++i)
    if (p[i] != q[i])
      return p[i] < q[i] ? -1 : 1;
  return 0;
}

static void set_side(const double *p, const double *q, side *out) {
  size_t i = 0;
  while (i < 2 && p[i] == q[i])
    ++i;
  bool forward = p[i] <= q[i];
  memcpy(out->a, forward ? p : q, sizeof out->a);
  memcpy(out->b, forward ? q : p, sizeof out->b);
  out->direction = forward ? 1 : -1;
}

static tn_status check_closed(size_t n, const double *v) {
  side *sides = NULL;
  TN_TRY(TN_NEW(3 * n, &sides));
  size_t count = 0;
  for (size_t t = 0; t < n; ++t)
    for (size_t k = 0; k < 3; ++k) {
      const double *p = v + 9 * t + 3 * k, *q = v + 9 * t + 3 * ((k + 1) % 3);
      if (memcmp(p, q, 3 * sizeof *p) != 0)
        set_side(p, q, &sides[count++]);
    }
  qsort(sides, count, sizeof *sides, by_ends);
  tn_status status = TN_OK;
  for (size_t i = 0, next = 0; i < count && status == TN_OK; i = next) {
    int sum = 0;
    for (next = i; next < count && by_ends(&sides[i], &sides[next]) == 0; ++next)
      sum += sides[next].direction;
    if (sum != 0)
      status = TN_FAIL(TN_EINPUT,
                       "the surface is open or its triangles turn differently at the edge from (%g, %g, "
                       "%g) to (%g, %g, %g), which belongs to %zu triangle%s; expected a closed surface",
                       sides[i].a[0], sides[i].a[1], sides[i].a[2], sides[i].b[0], sides[i].b[1],
                       sides[i].b[2], next - i, next - i == 1 ? "" : "s");
  }
  tn_free(&sides);
  return status;
}

tn_status pn_body_surface(pn_arena *arena, size_t n, const double *vertices, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  surface s = {.n = n};
  if (n < 4)
    return TN_FAIL(TN_EINPUT, "a surface of %zu triangles; expected at least 4, which close it", n);
  for (size_t i = 0; i < 9 * n; ++i)
    if (!isfinite(vertices[i]))
      return TN_FAIL(TN_EINPUT, "triangle %zu of the surface has a coordinate %g; expected finite numbers",
                     i / 9 + 1, vertices[i]);
  TN_TRY(check_closed(n, vertices));
  TN_TRY(pn_leaf_new(arena, &pn_solid_surface, 3, NULL, tag, &leaf));
  TN_TRY(PN_TAKE(arena, 9 * n, &s.v));
  for (size_t i = 0; i < 9 * n; ++i)
    s.v[i] = vertices[i];
  leaf->data = &s; /* settle makes a copy that lasts */
  TN_TRY(pn_leaf_body(arena, leaf, out));
  if (!(volume(leaf) > 0))
    return TN_FAIL(TN_EINPUT, "the surface encloses a volume of %g; expected more than 0", volume(leaf));
  return TN_OK;
}
