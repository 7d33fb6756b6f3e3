/* geometry_faces.c: points on faces that are part of a body's boundary, and how much of the faces that is.
 *
 * A point x of a primitive's face with normal n lies on the boundary of the whole if exactly one of x - e n and x + e n
 * is inside (e: 1e-9 of the size); the one inside says which way is out. So faces lose what lies inside a union, faces
 * of what was taken away turn round, and walls that two bodies share vanish. Where another primitive's surface passes
 * within 2 e at an angle there is a corner, and no point is given; where it coincides with a face that was chosen, too,
 * only the face that comes first in the choice gives the point, so that nothing counts twice.
 *
 * Faces are proposed in proportion to the area of their proposals. Where areas do not grow evenly under a primitive's
 * map, a point is kept with the probability keep, decided by what is left of the number that chose the face. Points that
 * are kept are uniform on the chosen part of the boundary, and the same numbers give the same points.
 */
#include "pinn/geometry_inside.h"

#include <math.h>
#include <string.h>

#include "pinn/sobol.h"

enum { POINTS = 1 << 15, CELLS = 1024, BATCH = 1 << 12 };
static const double parallel = 1 - 1e-6; /* cosine of normals that are the same */

/* ---- Faces of one leaf --------------------------------------------------------------------------- */

/* Largest growth of areas under the leaf's map. */
static double most_growth(const pn_leaf *leaf, size_t part) {
  double normal[PN_BODY_DIMENSIONS];
  if (leaf->rigid)
    return 1;
  return leaf->parts[part].flat ? pn_leaf_normal(leaf, leaf->parts[part].normal, normal)
                                : leaf->volume_scale / leaf->least;
}

double pn_leaf_proposal(const pn_leaf *leaf, size_t part) {
  return leaf->parts[part].proposal * most_growth(leaf, part);
}

void pn_leaf_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                   double *keep) {
  double y[PN_BODY_DIMENSIONS], own[PN_BODY_DIMENSIONS];
  leaf->solid->place(leaf, part, u, y, own, keep);
  pn_leaf_world(leaf, y, x);
  double growth = pn_leaf_normal(leaf, own, normal);
  if (!leaf->rigid && !leaf->parts[part].flat)
    *keep *= fmin(1, growth / most_growth(leaf, part));
}

/* Is every point of the proposal kept? */
static bool is_even(const pn_leaf *leaf, size_t part) {
  if (leaf->parts[part].flat)
    return true;
  if (leaf->solid == &pn_solid_ellipsoid)
    for (size_t i = 1; i < leaf->d; ++i)
      if (leaf->size[i] != leaf->size[0])
        return false;
  return leaf->rigid;
}

void pn_gauss(double node[PN_GAUSS_NODES], double weight[PN_GAUSS_NODES]) {
  double pi = acos(-1.0), n = PN_GAUSS_NODES;
  for (size_t i = 0; i < PN_GAUSS_NODES; ++i) {
    double x = cos(pi * ((double)i + 0.75) / (n + 0.5)), slope = 1;
    for (int step = 0; step < 8; ++step) { /* Newton on the Legendre polynomial */
      double p = 1, q = 0;
      for (size_t k = 1; k <= PN_GAUSS_NODES; ++k) {
        double r = q, m = (double)k;
        q = p;
        p = ((2 * m - 1) * x * q - (m - 1) * r) / m;
      }
      slope = n * (q - x * p) / (1 - x * x);
      x -= p / slope;
    }
    node[i] = (1 - x) / 2;
    weight[i] = 1 / ((1 - x * x) * slope * slope);
  }
}

/* Mean of keep: by the trapezium rule round closed curves, with Gauss's rule across surfaces of revolution, else by
 * Sobol points. */
static tn_status mean_keep(const pn_leaf *leaf, size_t part, double *mean) {
  enum { AROUND = 256, PANELS = 4, MANY = 1 << 14 };
  double u[PN_BODY_DIMENSIONS], x[PN_BODY_DIMENSIONS], normal[PN_BODY_DIMENSIONS], keep = 0;
  double node[PN_GAUSS_NODES], weight[PN_GAUSS_NODES];
  *mean = 0;
  if (leaf->d > 3) {
    for (uint64_t i = 0; i < MANY; ++i) {
      TN_TRY(pn_sobol(leaf->d - 1, tn_stream_of(0, "faces"), i, 1, u));
      pn_leaf_place(leaf, part, u, x, normal, &keep);
      *mean += keep / MANY;
    }
    return TN_OK;
  }
  if (leaf->d == 2) {
    for (size_t i = 0; i < 16 * AROUND; ++i) {
      *u = (double)i / (16 * AROUND);
      pn_leaf_place(leaf, part, u, x, normal, &keep);
      *mean += keep / (16 * AROUND);
    }
    return TN_OK;
  }
  pn_gauss(node, weight);
  for (size_t k = 0; k < PANELS * PN_GAUSS_NODES; ++k)
    for (size_t i = 0; i < AROUND; ++i) {
      u[0] = ((double)(k / PN_GAUSS_NODES) + node[k % PN_GAUSS_NODES]) / PANELS;
      u[1] = (double)i / AROUND;
      pn_leaf_place(leaf, part, u, x, normal, &keep);
      *mean += keep * weight[k % PN_GAUSS_NODES] / (PANELS * AROUND);
    }
  return TN_OK;
}

tn_status pn_leaf_measure(const pn_leaf *leaf, size_t part, double *measure) {
  double mean = 1;
  if (!is_even(leaf, part))
    TN_TRY(mean_keep(leaf, part, &mean));
  *measure = mean * pn_leaf_proposal(leaf, part);
  return TN_OK;
}

/* ---- A choice of faces --------------------------------------------------------------------------- */

/* The rectangle of a half-space's plane that the whole's bounds reach: centre and d - 1 half axes. */
static void frame_plane(const pn_body *whole, const pn_part *plane, double *frame) {
  size_t d = whole->d, main = 0, at = 1;
  const double *n = plane->normal;
  double v[PN_BODY_DIMENSIONS], *center = frame, gap = -plane->offset, square = 0;
  for (size_t i = 0; i < d; ++i)
    main = fabs(n[i]) > fabs(n[main]) ? i : main;
  for (size_t i = 0; i < d; ++i) {
    v[i] = n[i] + (i == main ? (n[main] > 0 ? 1 : -1) : 0); /* Householder: turns n into an axis */
    square += v[i] * v[i];
    center[i] = (whole->from[i] + whole->to[i]) / 2;
    gap += n[i] * center[i];
  }
  for (size_t i = 0; i < d; ++i)
    center[i] -= gap * n[i];
  for (size_t j = 0; j < d; ++j) {
    if (j == main)
      continue;
    double *axis = frame + at++ * d, reach = 0;
    for (size_t i = 0; i < d; ++i) {
      axis[i] = (i == j) - 2 * v[i] * v[j] / square;
      reach += fabs(axis[i]) * (whole->to[i] - whole->from[i]) / 2;
    }
    for (size_t i = 0; i < d; ++i)
      axis[i] *= reach;
  }
}

static double frame_area(size_t d, const double *frame) {
  double area = 1;
  for (size_t j = 1; j < d; ++j)
    area *= 2 * sqrt(pn_inner(d, frame + j * d, frame + j * d));
  return area;
}

static bool is_plane(const pn_leaf *leaf) { return leaf->solid == &pn_solid_halfspace && leaf->d > 1; }

static tn_status fill_choice(pn_choice *c) {
  const pn_body *whole = c->whole;
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  size_t d = whole->d;
  bool bounded = pn_body_bounds(whole, from, to);
  for (size_t i = 0; i < whole->n_faces; ++i)
    c->order[i] = PN_NO_FACE;
  for (size_t k = 0; k < c->n; ++k) {
    if (c->face[k] >= whole->n_faces)
      return TN_FAIL(TN_EINPUT, "face %zu of a body with %zu faces", c->face[k], whole->n_faces);
    const pn_leaf *leaf = whole->leaves[whole->owner[c->face[k]]];
    size_t part = whole->faces[c->face[k]].part;
    double area = pn_leaf_proposal(leaf, part);
    if (c->order[c->face[k]] == PN_NO_FACE)
      c->order[c->face[k]] = k;
    if (is_plane(leaf)) {
      if (!bounded)
        return TN_FAIL(TN_EINPUT, "a half-space's face in a body without bounds; expected it to be cut "
                                  "with something bounded");
      frame_plane(whole, &leaf->parts[part], c->frames + k * d * d);
      area = frame_area(d, c->frames + k * d * d);
    }
    c->sum[k + 1] = c->sum[k] + area;
  }
  return TN_OK;
}

void pn_choice_free(pn_choice *c) {
  tn_free(&c->sum);
  tn_free(&c->frames);
  tn_free(&c->order);
}

tn_status pn_choice_new(const pn_body *whole, size_t n, const size_t *face, pn_choice *out) {
  *out = (pn_choice){.whole = whole, .n = n, .face = face, .tol = pn_body_tolerance(whole)};
  tn_status status = TN_NEW(n + 1, &out->sum);
  if (status == TN_OK)
    status = TN_NEW((n + 1) * whole->d * whole->d, &out->frames);
  if (status == TN_OK)
    status = TN_NEW(whole->n_faces + 1, &out->order);
  if (status == TN_OK)
    status = fill_choice(out);
  if (status != TN_OK)
    pn_choice_free(out);
  return status;
}

/* Does nothing else pass at an angle, and is no coinciding face before this one in the choice? */
static bool alone(const pn_choice *c, size_t k, const double *x, const double *normal) {
  const pn_body *whole = c->whole;
  double other[PN_BODY_DIMENSIONS];
  for (size_t i = 0; i < whole->n_leaves; ++i) {
    const pn_leaf *leaf = whole->leaves[i];
    size_t part = 0;
    if (i == whole->owner[c->face[k]] || fabs(pn_leaf_distance(leaf, x)) > 2 * c->tol)
      continue;
    if (!pn_leaf_at(leaf, x, 4 * c->tol, &part, other) ||
        fabs(pn_inner(whole->d, normal, other)) < parallel)
      return false;
    if (c->order[whole->first[i] + part] < k)
      return false;
  }
  return true;
}

void pn_choice_place(const pn_choice *c, size_t k, const double *u, double *x, double *normal,
                     double *keep) {
  const pn_body *whole = c->whole;
  size_t d = whole->d;
  const pn_leaf *leaf = whole->leaves[whole->owner[c->face[k]]];
  double in[PN_BODY_DIMENSIONS], out[PN_BODY_DIMENSIONS];
  pn_leaf_place(leaf, whole->faces[c->face[k]].part, u, x, normal, keep);
  if (is_plane(leaf)) {
    const double *frame = c->frames + k * d * d;
    for (size_t i = 0; i < d; ++i) {
      x[i] = frame[i];
      for (size_t j = 1; j < d; ++j)
        x[i] += (2 * u[j - 1] - 1) * frame[j * d + i];
    }
  }
  if (*keep == 0 || whole->node == PN_LEAF)
    return;
  for (size_t i = 0; i < d; ++i) {
    in[i] = x[i] - c->tol * normal[i];
    out[i] = x[i] + c->tol * normal[i];
  }
  bool below = pn_body_inside(whole, in), above = pn_body_inside(whole, out);
  if (below == above || !alone(c, k, x, normal))
    *keep = 0;
  for (size_t i = 0; i < d && above; ++i)
    normal[i] = -normal[i];
}

/* Which chosen face the number v in [0, 1) picks; *rest: the number that is left, in [0, 1). */
static size_t pick(const pn_choice *c, double v, double *rest) {
  size_t low = 0, high = c->n;
  double target = v * c->sum[c->n];
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (c->sum[middle] <= target)
      low = middle;
    else
      high = middle;
  }
  *rest = (target - c->sum[low]) / (c->sum[low + 1] - c->sum[low]);
  return low;
}

static void place_all(const pn_choice *c, size_t n, const double *u, double *x, double *normal,
                      bool *on) {
  size_t d = c->whole->d;
  for (size_t i = 0; i < n; ++i) {
    double rest = 0, keep = 0;
    size_t k = pick(c, u[i * d + d - 1], &rest);
    pn_choice_place(c, k, u + i * d, x + i * d, normal + i * d, &keep);
    on[i] = rest < keep;
  }
}

tn_status pn_faces_place(const pn_body *whole, size_t n_faces, const size_t *face, size_t n,
                         const double *u, double *x, double *normal, bool *on) {
  pn_choice c;
  if (n_faces == 0)
    return TN_FAIL(TN_EINPUT, "points on 0 faces; expected 1 or more");
  TN_TRY(pn_choice_new(whole, n_faces, face, &c));
  place_all(&c, n, u, x, normal, on);
  pn_choice_free(&c);
  return TN_OK;
}

/* ---- Pieces in two dimensions -------------------------------------------------------------------- */

static bool on_at(const pn_choice *c, size_t k, double u) {
  double x[2], normal[2], keep = 0, wrapped = u > 1 ? u - 1 : u;
  pn_choice_place(c, k, &wrapped, x, normal, &keep);
  return keep > 0;
}

/* Where the state changes between a (of state `before`) and b. */
static double change(const pn_choice *c, size_t k, double a, double b, bool before) {
  for (int step = 0; step < 52; ++step) {
    double middle = (a + b) / 2;
    if (on_at(c, k, middle) == before)
      a = middle;
    else
      b = middle;
  }
  return a;
}

bool pn_body_has_pieces(const pn_body *body) {
  for (size_t i = 0; i < body->n_leaves; ++i)
    if (body->leaves[i]->solid->vague)
      return false;
  return body->d <= 2;
}

tn_status pn_choice_pieces(const pn_choice *c, size_t k, size_t *n, double **ends) {
  const pn_body *whole = c->whole;
  bool closed = whole->leaves[whole->owner[c->face[k]]]->solid == &pn_solid_ellipsoid;
  bool state = false, first = false;
  size_t cells = whole->node == PN_LEAF ? 1 : CELLS, capacity = 2 * (cells + 2), count = 0;
  double last = 0;
  *ends = NULL;
  TN_TRY(TN_NEW(capacity, ends));
  for (size_t i = 0; i < cells; ++i) {
    /* Off the exact middle, where symmetric figures meet. */
    double u = ((double)i + 0.5 + 0.01 * sin((double)i)) / (double)cells;
    bool now = on_at(c, k, u);
    if (i == 0)
      first = now;
    if (i == 0 && now)
      (*ends)[count++] = 0;
    if (i > 0 && now != state)
      (*ends)[count++] = change(c, k, last, u, state);
    state = now;
    last = u;
  }
  if (state)
    (*ends)[count++] = 1;
  if (closed && first && state && count > 2) { /* what passes through u = 0 is one piece */
    (*ends)[count - 1] = 1 + (*ends)[1];
    memmove(*ends, *ends + 2, (count - 2) * sizeof **ends);
    count -= 2;
  }
  *n = count / 2;
  return TN_OK;
}

/* Point and outward normal of a chosen face's proposal at u, wherever it lies; keep is 1 on rims. */
static void place_free(const pn_choice *c, size_t k, double u, double sign, double *x, double *normal,
                       double *keep) {
  const pn_leaf *leaf = c->whole->leaves[c->whole->owner[c->face[k]]];
  double foot[2];
  u -= u > 1;
  if (is_plane(leaf)) /* its points come from the frame */
    pn_choice_place(c, k, &u, x, normal, keep);
  pn_leaf_place(leaf, c->whole->faces[c->face[k]].part, &u, is_plane(leaf) ? foot : x, normal, keep);
  *keep = *keep == 0 ? 1 : *keep;
  for (size_t i = 0; i < 2; ++i)
    normal[i] *= sign;
}

/* Integrals of 1 and of x . n over the pieces of a face. */
static tn_status add_pieces(const pn_choice *c, size_t k, double *length, double *flux) {
  enum { PANELS = 8 };
  const pn_body *whole = c->whole;
  const pn_leaf *leaf = whole->leaves[whole->owner[c->face[k]]];
  size_t n = 0, panels = is_even(leaf, whole->faces[c->face[k]].part) ? 1 : PANELS;
  double *ends = NULL, node[PN_GAUSS_NODES], weight[PN_GAUSS_NODES], x[2], normal[2], outward[2], keep = 0;
  double area = c->sum[k + 1] - c->sum[k];
  TN_TRY(pn_choice_pieces(c, k, &n, &ends));
  pn_gauss(node, weight);
  for (size_t piece = 0; piece < n; ++piece) {
    double from = ends[2 * piece], width = ends[2 * piece + 1] - from;
    double middle = from + width * 0.4873;
    middle -= middle > 1;
    pn_choice_place(c, k, &middle, x, outward, &keep);
    place_free(c, k, middle, 1, x, normal, &keep);
    double sign = pn_inner(2, normal, outward) < 0 ? -1 : 1; /* all normals of a piece are turned or none is */
    for (size_t i = 0; i < panels * PN_GAUSS_NODES; ++i) {
      double u = ((double)(i / PN_GAUSS_NODES) + node[i % PN_GAUSS_NODES]) / (double)panels;
      place_free(c, k, from + width * u, sign, x, normal, &keep);
      double share = area * keep * weight[i % PN_GAUSS_NODES] * width / (double)panels;
      *length += share;
      *flux += share * pn_inner(2, x, normal);
    }
  }
  tn_free(&ends);
  return TN_OK;
}

tn_status pn_choice_integrals(const pn_choice *c, double *length, double *flux) {
  size_t d = c->whole->d;
  *length = *flux = 0;
  for (size_t k = 0; k < c->n; ++k) {
    if (d == 2) {
      TN_TRY(add_pieces(c, k, length, flux));
      continue;
    }
    double u = 0, x = 0, normal = 0, keep = 0;
    pn_choice_place(c, k, &u, &x, &normal, &keep);
    *length += keep > 0;
    *flux += keep > 0 ? x * normal : 0;
  }
  return TN_OK;
}

/* ---- Measures ------------------------------------------------------------------------------------ */

/* Can no other primitive's surface meet this face? */
static bool is_uncut(const pn_body *whole, size_t face) {
  size_t d = whole->d, mine = whole->owner[face];
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS], w[PN_BODY_DIMENSIONS], radius = 0;
  double low[PN_BODY_DIMENSIONS], high[PN_BODY_DIMENSIONS], center[PN_BODY_DIMENSIONS];
  const pn_leaf *leaf = whole->leaves[mine];
  double tol = 4 * pn_body_tolerance(whole);
  leaf->solid->bounds(leaf, from, to);
  if (leaf->solid == &pn_solid_box) { /* a side is a box of width 0 along its axis */
    pn_leaf side = *leaf;
    size_t axis = whole->faces[face].part / 2;
    memcpy(w, leaf->size, sizeof w);
    w[axis] = 0;
    for (size_t i = 0; i < d; ++i)
      side.b[i] += leaf->A[i * d + axis] * leaf->size[axis] * (whole->faces[face].part % 2 ? 1 : -1);
    pn_leaf_box(&side, w, from, to);
  }
  for (size_t i = 0; i < d; ++i) {
    center[i] = (from[i] + to[i]) / 2;
    radius += (to[i] - from[i]) * (to[i] - from[i]) / 4;
  }
  bool round = leaf->solid == &pn_solid_ellipsoid && leaf->rigid;
  radius = round ? leaf->size[0] : sqrt(radius);
  for (size_t i = 0; i < d && round; ++i)
    radius = fmax(radius, leaf->size[i]);
  for (size_t k = 0; k < whole->n_leaves; ++k) {
    bool apart = false;
    whole->leaves[k]->solid->bounds(whole->leaves[k], low, high);
    for (size_t i = 0; i < d; ++i)
      apart |= from[i] > high[i] + tol || to[i] < low[i] - tol;
    if (k != mine && !apart && !(fabs(pn_leaf_distance(whole->leaves[k], center)) > radius + tol))
      return false;
  }
  return true;
}

/* Share of Sobol points that are on. */
static tn_status sampled(const pn_choice *c, double *measure) {
  size_t d = c->whole->d, count = 0;
  double *u = NULL, *x = NULL, *normal = NULL;
  bool *on = NULL;
  tn_status status = TN_NEW(BATCH * d, &u);
  if (status == TN_OK)
    status = TN_NEW(BATCH * d, &x);
  if (status == TN_OK)
    status = TN_NEW(BATCH * d, &normal);
  if (status == TN_OK)
    status = TN_NEW(BATCH, &on);
  for (uint64_t at = 0; at < POINTS && status == TN_OK; at += BATCH) {
    status = pn_sobol(d, tn_stream_of(0, "faces"), at, BATCH, u);
    if (status == TN_OK)
      place_all(c, BATCH, u, x, normal, on);
    for (size_t i = 0; i < BATCH && status == TN_OK; ++i)
      count += on[i];
  }
  *measure = c->sum[c->n] * (double)count / POINTS;
  tn_free(&u);
  tn_free(&x);
  tn_free(&normal);
  tn_free(&on);
  return status;
}

/* All faces whole or gone? Then their sum. */
static bool closed_form(const pn_choice *c, double *measure) {
  const pn_body *whole = c->whole;
  double u[PN_BODY_DIMENSIONS], x[PN_BODY_DIMENSIONS], normal[PN_BODY_DIMENSIONS], keep = 0;
  *measure = 0;
  for (size_t i = 0; i < PN_BODY_DIMENSIONS; ++i)
    u[i] = 0.3178 + 0.0217 * (double)i; /* on no line of symmetry */
  for (size_t k = 0; k < c->n; ++k) {
    const pn_leaf *leaf = whole->leaves[whole->owner[c->face[k]]];
    if (leaf->solid->vague || (whole->node != PN_LEAF && !is_uncut(whole, c->face[k])))
      return false;
    pn_choice_place(c, k, u, x, normal, &keep);
    *measure += keep > 0 || whole->node == PN_LEAF ? whole->faces[c->face[k]].measure : 0;
  }
  return true;
}

tn_status pn_faces_measure(const pn_body *whole, size_t n_faces, const size_t *face, double *measure,
                           bool *exact) {
  pn_choice c;
  double unused = 0;
  *measure = 0;
  *exact = true;
  if (n_faces == 0)
    return TN_OK;
  TN_TRY(pn_choice_new(whole, n_faces, face, &c));
  tn_status status = TN_OK;
  if (pn_body_has_pieces(whole) && whole->node != PN_LEAF)
    status = pn_choice_integrals(&c, measure, &unused);
  else if (!closed_form(&c, measure)) {
    *exact = false;
    status = sampled(&c, measure);
  }
  pn_choice_free(&c);
  return status;
}

/* ---- Normals ------------------------------------------------------------------------------------- */

bool pn_body_normal(const pn_body *body, const double *x, double *normal) {
  size_t d = body->d, part = 0;
  bool found = false;
  double near = 1e3 * pn_body_tolerance(body), n[PN_BODY_DIMENSIONS];
  double in[PN_BODY_DIMENSIONS], out[PN_BODY_DIMENSIONS];
  for (size_t k = 0; k < body->n_leaves; ++k) {
    const pn_leaf *leaf = body->leaves[k];
    if (fabs(pn_leaf_distance(leaf, x)) > near)
      continue;
    if (!pn_leaf_at(leaf, x, near / leaf->least, &part, n))
      return false;
    for (size_t i = 0; i < d; ++i) {
      in[i] = x[i] - 2 * near * n[i];
      out[i] = x[i] + 2 * near * n[i];
    }
    bool below = pn_body_inside(body, in), above = pn_body_inside(body, out);
    if (below == above)
      continue;
    for (size_t i = 0; i < d && above; ++i)
      n[i] = -n[i];
    if (found && pn_inner(d, n, normal) < parallel)
      return false;
    memcpy(normal, n, d * sizeof *n);
    found = true;
  }
  return found;
}
