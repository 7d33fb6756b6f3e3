/* geometry_cloud.c: bodies given by points.
 *
 * Points inside are the cloud's own, each equally likely. If boundary points with normals are given, x is inside where
 * (x - y) . n < 0 for the nearest of them, y; else where an inner point is nearer than the mean spacing (V / n)^(1/d), V the
 * volume of the bounds. The area that a boundary point stands for is r^(d-1), r the mean distance to its 2 (d - 1) nearest
 * neighbours: exact on evenly spaced curves and on square lattices. So measures of clouds are estimates.
 *
 * Neighbours are found in a k-d tree without pointers: the middle of each range of the array splits it along one axis.
 */
#include "pinn/geometry_inside.h"

#include <math.h>
#include <string.h>

enum { MOST_NEIGHBOURS = 2 * PN_BODY_DIMENSIONS };

typedef struct points {
  size_t n, width; /* width: numbers of a row, of which d are the place */
  double *row;
} points;

typedef struct cloud {
  points inner, outer; /* rows of outer: place and unit normal */
  double spacing;
} cloud;

/* ---- The tree ------------------------------------------------------------------------------------ */

static void swap_rows(points *p, size_t i, size_t j) {
  double *a = p->row + i * p->width, *b = p->row + j * p->width;
  for (size_t k = 0; k < p->width; ++k) {
    double keep = a[k];
    a[k] = b[k];
    b[k] = keep;
  }
}

/* Puts the row that belongs at `middle` there, smaller ones before it (Hoare's selection). */
static void split(points *p, ptrdiff_t low, ptrdiff_t high, ptrdiff_t middle, size_t axis) {
  const double *key = p->row + axis;
  ptrdiff_t width = (ptrdiff_t)p->width;
  while (high - low > 1) {
    double pivot = key[(low + (high - low) / 2) * width];
    ptrdiff_t i = low, j = high - 1;
    while (i <= j) {
      while (key[i * width] < pivot)
        ++i;
      while (key[j * width] > pivot)
        --j;
      if (i <= j)
        swap_rows(p, (size_t)i++, (size_t)j--);
    }
    if (middle <= j)
      high = j + 1;
    else if (middle >= i)
      low = i;
    else
      return;
  }
}

static void arrange(points *p, size_t d, size_t low, size_t high, size_t depth) {
  if (high - low < 2)
    return;
  size_t middle = low + (high - low) / 2;
  split(p, (ptrdiff_t)low, (ptrdiff_t)high, (ptrdiff_t)middle, depth % d);
  arrange(p, d, low, middle, depth + 1);
  arrange(p, d, middle + 1, high, depth + 1);
}

typedef struct neighbours {
  size_t most, n;
  double square[MOST_NEIGHBOURS]; /* rising */
  size_t row[MOST_NEIGHBOURS];
} neighbours;

static void offer(neighbours *list, double square, size_t row) {
  if (list->n == list->most && square >= list->square[list->n - 1])
    return;
  size_t i = list->n < list->most ? list->n++ : list->n - 1;
  for (; i > 0 && list->square[i - 1] > square; --i) {
    list->square[i] = list->square[i - 1];
    list->row[i] = list->row[i - 1];
  }
  list->square[i] = square;
  list->row[i] = row;
}

static void search(const points *p, size_t d, size_t low, size_t high, size_t depth, const double *x,
                   neighbours *list) {
  if (low >= high)
    return;
  size_t middle = low + (high - low) / 2, axis = depth % d;
  const double *row = p->row + middle * p->width;
  double square = 0, beyond = x[axis] - row[axis];
  for (size_t k = 0; k < d; ++k)
    square += (x[k] - row[k]) * (x[k] - row[k]);
  offer(list, square, middle);
  for (int second = 0; second < 2; ++second) {
    if (second && list->n == list->most && beyond * beyond > list->square[list->n - 1])
      return;
    if ((beyond < 0) == !second)
      search(p, d, low, middle, depth + 1, x, list);
    else
      search(p, d, middle + 1, high, depth + 1, x, list);
  }
}

static const double *nearest(const points *p, size_t d, const double *x, double *length) {
  neighbours list = {.most = 1};
  search(p, d, 0, p->n, 0, x, &list);
  *length = sqrt(list.square[0]);
  return p->row + list.row[0] * p->width;
}

/* ---- Questions ----------------------------------------------------------------------------------- */

static double distance(const pn_leaf *leaf, const double *x) {
  const cloud *c = leaf->data;
  double length = 0, side = 0;
  if (c->outer.n == 0) {
    nearest(&c->inner, leaf->d, x, &length);
    return length - c->spacing;
  }
  const double *row = nearest(&c->outer, leaf->d, x, &length);
  for (size_t k = 0; k < leaf->d; ++k)
    side += (x[k] - row[k]) * row[leaf->d + k];
  return side < 0 ? -length : length;
}

static bool inside(const pn_leaf *leaf, const double *x) { return distance(leaf, x) < 0; }

static void widen(const points *p, size_t d, double *from, double *to) {
  for (size_t i = 0; i < p->n; ++i)
    for (size_t k = 0; k < d; ++k) {
      from[k] = fmin(from[k], p->row[i * p->width + k]);
      to[k] = fmax(to[k], p->row[i * p->width + k]);
    }
}

static void bounds(const pn_leaf *leaf, double *from, double *to) {
  const cloud *c = leaf->data;
  for (size_t k = 0; k < leaf->d; ++k) {
    from[k] = INFINITY;
    to[k] = -INFINITY;
  }
  widen(&c->inner, leaf->d, from, to);
  widen(&c->outer, leaf->d, from, to);
}

static size_t row_of(double u, size_t n) {
  size_t row = (size_t)(u * (double)n);
  return row < n ? row : n - 1;
}

static void place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                  double *keep) {
  const cloud *c = leaf->data;
  const double *row = c->outer.row + row_of(leaf->d > 1 ? *u : 0, c->outer.n) * c->outer.width;
  (void)part;
  memcpy(x, row, leaf->d * sizeof *x);
  memcpy(normal, row + leaf->d, leaf->d * sizeof *x);
  *keep = 1;
}

static bool at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  const cloud *c = leaf->data;
  double length = INFINITY;
  *part = 0;
  if (c->outer.n == 0)
    return false;
  const double *row = nearest(&c->outer, leaf->d, x, &length);
  memcpy(normal, row + leaf->d, leaf->d * sizeof *x);
  return length <= tol;
}

static double volume(const pn_leaf *leaf) {
  (void)leaf;
  return NAN;
}

static void fill(const pn_leaf *leaf, const double *u, double *x) {
  const cloud *c = leaf->data;
  memcpy(x, c->inner.row + row_of(*u, c->inner.n) * c->inner.width, leaf->d * sizeof *x);
}

/* ---- Making -------------------------------------------------------------------------------------- */

static double area_of(const points *p, size_t d) {
  double sum = 0;
  size_t most = 2 * (d - 1);
  if (most >= p->n)
    most = p->n - 1;
  if (most == 0)
    return (double)p->n;
  for (size_t i = 0; i < p->n; ++i) {
    neighbours list = {.most = most + 1}; /* the first is the point itself */
    double mean = 0;
    search(p, d, 0, p->n, 0, p->row + i * p->width, &list);
    for (size_t k = 1; k < list.n; ++k)
      mean += sqrt(list.square[k]) / (double)(list.n - 1);
    sum += pow(mean, (double)(d - 1));
  }
  return sum;
}

static tn_status copy_points(pn_arena *arena, const pn_leaf *leaf, const points *from, points *to) {
  size_t d = leaf->d;
  double normal[PN_BODY_DIMENSIONS];
  *to = *from;
  TN_TRY(PN_TAKE(arena, to->n * to->width + 1, &to->row));
  for (size_t i = 0; i < to->n; ++i) {
    pn_leaf_world(leaf, from->row + i * to->width, to->row + i * to->width);
    if (to->width == d)
      continue;
    pn_leaf_normal(leaf, from->row + i * to->width + d, normal);
    memcpy(to->row + i * to->width + d, normal, d * sizeof *normal);
  }
  arrange(to, d, 0, to->n, 0);
  return TN_OK;
}

static tn_status settle(pn_arena *arena, pn_leaf *leaf) {
  const cloud *old = leaf->data;
  cloud *c = NULL;
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS], whole = 1;
  TN_TRY(PN_TAKE(arena, 1, &c));
  TN_TRY(pn_leaf_prepare(leaf));
  TN_TRY(copy_points(arena, leaf, &old->inner, &c->inner));
  TN_TRY(copy_points(arena, leaf, &old->outer, &c->outer));
  leaf->data = c;
  pn_leaf_identity(leaf);
  bounds(leaf, from, to);
  for (size_t k = 0; k < leaf->d; ++k)
    whole *= to[k] - from[k];
  c->spacing = pow(whole / (double)c->inner.n, 1.0 / (double)leaf->d);
  TN_TRY(pn_leaf_parts(arena, leaf, c->outer.n > 0));
  if (c->outer.n)
    leaf->parts->proposal = area_of(&c->outer, leaf->d);
  return TN_OK;
}

const pn_solid pn_solid_cloud = {"cloud of points", inside, distance, bounds, place, at,
                                 volume,            fill,   settle,   NULL,   true};

static tn_status check_numbers(size_t count, const double *x, size_t d, const char *what) {
  for (size_t i = 0; i < count; ++i)
    if (!isfinite(x[i]))
      return TN_FAIL(TN_EINPUT, "a cloud of points: %s %zu has a coordinate %g; expected finite numbers", what,
                     i / d + 1, x[i]);
  return TN_OK;
}

tn_status pn_body_cloud(pn_arena *arena, size_t d, size_t n, const double *inner, size_t m,
                        const double *boundary, const double *normals, size_t tag, pn_body **out) {
  pn_leaf *leaf = NULL;
  cloud c = {.inner = {.n = n, .width = d}, .outer = {.n = m, .width = 2 * d}};
  TN_TRY(pn_leaf_new(arena, &pn_solid_cloud, d, NULL, tag, &leaf));
  if (n == 0)
    return TN_FAIL(TN_EINPUT, "a cloud of 0 points; expected 1 or more");
  TN_TRY(check_numbers(n * d, inner, d, "point"));
  TN_TRY(check_numbers(m * d, boundary, d, "boundary point"));
  TN_TRY(check_numbers(m * d, normals, d, "normal"));
  TN_TRY(PN_TAKE(arena, n * d, &c.inner.row));
  memcpy(c.inner.row, inner, n * d * sizeof *inner);
  TN_TRY(PN_TAKE(arena, 2 * m * d + 1, &c.outer.row));
  for (size_t i = 0; i < m; ++i) {
    double length = sqrt(pn_inner(d, normals + i * d, normals + i * d));
    if (!(length > 0))
      return TN_FAIL(TN_EINPUT, "a cloud of points: normal %zu is 0; expected a direction", i + 1);
    memcpy(c.outer.row + 2 * i * d, boundary + i * d, d * sizeof *boundary);
    for (size_t k = 0; k < d; ++k)
      c.outer.row[(2 * i + 1) * d + k] = normals[i * d + k] / length;
  }
  leaf->data = &c; /* settle makes a copy that lasts */
  return pn_leaf_body(arena, leaf, out);
}
