/* geometry.c: trees of bodies: making, joining, moving them; inside, distance, bounds.
 *
 * inside is the Boolean value of the tree over the leaves; distance its min/max analogue
 *
 *   A or B: min(a, b),    A and B: max(a, b),    A - B: max(a, -b),    not A: -a,
 *
 * which has the right sign and zero set everywhere and bounds the true distance from below (Ricci 1973).
 *
 * A leaf maps own coordinates y to x = A y + b. If A is not orthogonal, |A y| >= |y| / |inv A|_F, so the own
 * distance over that norm is still such a bound. Normals go by the inverse transpose, and an area across the
 * unit normal n grows by |det A| |inv A' n| (Nanson's formula).
 */
#include "pinn/geometry_inside.h"

#include <math.h>
#include <string.h>

double pn_inner(size_t d, const double *a, const double *b) {
  double sum = 0;
  for (size_t i = 0; i < d; ++i)
    sum += a[i] * b[i];
  return sum;
}

/* ---- Leaves ------------------------------------------------------------------------------------- */

void pn_leaf_identity(pn_leaf *leaf) {
  size_t d = leaf->d;
  memset(leaf->A, 0, d * d * sizeof *leaf->A);
  for (size_t i = 0; i < d; ++i)
    leaf->A[i * d + i] = 1;
  memset(leaf->b, 0, sizeof leaf->b);
}

tn_status pn_leaf_new(pn_arena *arena, const pn_solid *solid, size_t d, const double *center,
                      size_t tag, pn_leaf **out) {
  if (d < 1 || d > PN_BODY_DIMENSIONS)
    return TN_FAIL(TN_EINPUT, "a %s in %zu dimensions; expected 1 to %d", solid->name, d,
                   (int)PN_BODY_DIMENSIONS);
  TN_TRY(PN_TAKE(arena, 1, out));
  pn_leaf *leaf = *out;
  leaf->solid = solid;
  leaf->d = d;
  leaf->tag = tag;
  TN_TRY(PN_TAKE(arena, d * d, &leaf->A));
  TN_TRY(PN_TAKE(arena, d * d, &leaf->inverse));
  pn_leaf_identity(leaf);
  for (size_t i = 0; center && i < d; ++i) {
    if (!isfinite(center[i]))
      return TN_FAIL(TN_EINPUT, "a %s at %g along axis %zu; expected a finite number", solid->name,
                     center[i], i + 1);
    leaf->b[i] = center[i];
  }
  return TN_OK;
}

tn_status pn_leaf_parts(pn_arena *arena, pn_leaf *leaf, size_t n) {
  leaf->n_parts = n;
  return PN_TAKE(arena, n, &leaf->parts);
}

bool pn_leaf_unscale(pn_leaf *leaf, double *s) {
  size_t d = leaf->d;
  double *A = leaf->A;
  for (size_t i = 0; i < d; ++i) {
    double sum = 0;
    for (size_t k = 0; k < d; ++k)
      sum += A[k * d + i] * A[k * d + i];
    s[i] = sqrt(sum);
  }
  for (size_t i = 0; i < d; ++i)
    for (size_t j = 0; j < i; ++j) {
      double product = 0;
      for (size_t k = 0; k < d; ++k)
        product += A[k * d + i] * A[k * d + j];
      if (fabs(product) > 1e-13 * s[i] * s[j])
        return false;
    }
  for (size_t k = 0; k < d; ++k)
    for (size_t i = 0; i < d; ++i)
      if (s[i] != 1)
        A[k * d + i] /= s[i];
  return true;
}

/* Gauss-Jordan with pivots in columns: W becomes the inverse of A; *det its determinant. */
static void invert(size_t d, const double *A, double *W, double *det) {
  double work[PN_BODY_DIMENSIONS * PN_BODY_DIMENSIONS];
  memcpy(work, A, d * d * sizeof *work);
  memset(W, 0, d * d * sizeof *W);
  *det = 1;
  for (size_t i = 0; i < d; ++i)
    W[i * d + i] = 1;
  for (size_t c = 0; c < d; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < d; ++r)
      if (fabs(work[r * d + c]) > fabs(work[best * d + c]))
        best = r;
    for (size_t k = 0; k < d && best != c; ++k) {
      double x = work[c * d + k], y = W[c * d + k];
      work[c * d + k] = work[best * d + k], work[best * d + k] = x;
      W[c * d + k] = W[best * d + k], W[best * d + k] = y;
    }
    double pivot = work[c * d + c];
    *det *= best == c ? pivot : -pivot;
    if (pivot == 0)
      return;
    for (size_t k = 0; k < d; ++k)
      work[c * d + k] /= pivot, W[c * d + k] /= pivot;
    for (size_t r = 0; r < d; ++r) {
      double factor = r == c ? 0 : work[r * d + c];
      for (size_t k = 0; k < d && factor != 0; ++k) {
        work[r * d + k] -= factor * work[c * d + k];
        W[r * d + k] -= factor * W[c * d + k];
      }
    }
  }
}

tn_status pn_leaf_prepare(pn_leaf *leaf) {
  size_t d = leaf->d;
  double det = 1, norm = 0, defect = 0;
  invert(d, leaf->A, leaf->inverse, &det);
  if (!(isfinite(det) && det != 0))
    return TN_FAIL(TN_EINPUT, "a %s moved by a map of determinant %g; expected one that can be inverted",
                   leaf->solid->name, det);
  leaf->mapped = false;
  for (size_t i = 0; i < d; ++i) {
    leaf->mapped |= leaf->b[i] != 0;
    for (size_t j = 0; j < d; ++j) {
      double x = leaf->A[i * d + j], w = leaf->inverse[i * d + j];
      leaf->mapped |= x != (i == j);
      norm += w * w;
      defect = fmax(defect, fabs(w - leaf->A[j * d + i]));
    }
  }
  leaf->rigid = defect < 1e-12;
  leaf->volume_scale = leaf->rigid ? 1 : fabs(det);
  leaf->least = leaf->rigid ? 1 : 1 / sqrt(norm);
  return TN_OK;
}

void pn_leaf_local(const pn_leaf *leaf, const double *x, double *y) {
  size_t d = leaf->d;
  double shifted[PN_BODY_DIMENSIONS];
  if (!leaf->mapped) {
    memcpy(y, x, d * sizeof *y);
    return;
  }
  for (size_t i = 0; i < d; ++i)
    shifted[i] = x[i] - leaf->b[i];
  for (size_t i = 0; i < d; ++i)
    y[i] = pn_inner(d, leaf->inverse + i * d, shifted);
}

void pn_leaf_world(const pn_leaf *leaf, const double *y, double *x) {
  for (size_t i = 0; i < leaf->d; ++i)
    x[i] = leaf->mapped ? pn_inner(leaf->d, leaf->A + i * leaf->d, y) + leaf->b[i] : y[i];
}

double pn_leaf_normal(const pn_leaf *leaf, const double *own, double *normal) {
  size_t d = leaf->d;
  double length = 0;
  for (size_t i = 0; i < d; ++i) {
    double sum = leaf->mapped ? 0 : own[i];
    for (size_t j = 0; j < d && leaf->mapped; ++j)
      sum += leaf->inverse[j * d + i] * own[j];
    normal[i] = sum;
    length += sum * sum;
  }
  length = sqrt(length);
  for (size_t i = 0; i < d; ++i)
    normal[i] /= length;
  return leaf->rigid ? 1 : leaf->volume_scale * length;
}

void pn_leaf_box(const pn_leaf *leaf, const double *w, double *from, double *to) {
  for (size_t i = 0; i < leaf->d; ++i) {
    double reach = 0;
    for (size_t j = 0; j < leaf->d; ++j)
      reach += fabs(leaf->A[i * leaf->d + j]) * w[j];
    from[i] = leaf->b[i] - reach;
    to[i] = leaf->b[i] + reach;
  }
}

bool pn_leaf_inside(const pn_leaf *leaf, const double *x) {
  double y[PN_BODY_DIMENSIONS];
  pn_leaf_local(leaf, x, y);
  return leaf->solid->inside(leaf, y);
}

double pn_leaf_distance(const pn_leaf *leaf, const double *x) {
  double y[PN_BODY_DIMENSIONS];
  pn_leaf_local(leaf, x, y);
  return leaf->least * leaf->solid->distance(leaf, y);
}

bool pn_leaf_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal) {
  double y[PN_BODY_DIMENSIONS], own[PN_BODY_DIMENSIONS];
  pn_leaf_local(leaf, x, y);
  if (!leaf->solid->at(leaf, y, tol, part, own))
    return false;
  pn_leaf_normal(leaf, own, normal);
  return true;
}

/* ---- Bodies ------------------------------------------------------------------------------------- */

static tn_status set_faces(pn_arena *arena, pn_body *body) {
  size_t d = body->d, at = 0;
  for (size_t i = 0; i < body->n_leaves; ++i)
    body->n_faces += body->leaves[i]->n_parts;
  TN_TRY(PN_TAKE(arena, body->n_faces, &body->faces));
  TN_TRY(PN_TAKE(arena, body->n_faces, &body->owner));
  TN_TRY(PN_TAKE(arena, body->n_leaves, &body->first));
  for (size_t i = 0; i < body->n_leaves; ++i) {
    const pn_leaf *leaf = body->leaves[i];
    body->first[i] = at;
    for (size_t part = 0; part < leaf->n_parts; ++part, ++at) {
      pn_face *face = &body->faces[at];
      body->owner[at] = i;
      face->tag = leaf->tag;
      face->part = part;
      face->flat = leaf->parts[part].flat;
      TN_TRY(pn_leaf_measure(leaf, part, &face->measure));
      if (face->flat) { /* a point of the plane, carried over, gives the offset */
        double own[PN_BODY_DIMENSIONS], point[PN_BODY_DIMENSIONS];
        const pn_part *p = &leaf->parts[part];
        for (size_t k = 0; k < d; ++k)
          own[k] = p->offset * p->normal[k];
        pn_leaf_world(leaf, own, point);
        pn_leaf_normal(leaf, p->normal, face->normal);
        face->offset = pn_inner(d, face->normal, point);
      }
    }
  }
  return TN_OK;
}

tn_status pn_leaf_body(pn_arena *arena, pn_leaf *leaf, pn_body **out) {
  TN_TRY(leaf->solid->settle(arena, leaf));
  TN_TRY(pn_leaf_prepare(leaf));
  TN_TRY(PN_TAKE(arena, 1, out));
  pn_body *body = *out;
  body->node = PN_LEAF;
  body->d = leaf->d;
  body->leaf = leaf;
  body->n_leaves = 1;
  TN_TRY(PN_TAKE(arena, 1, &body->leaves));
  body->leaves[0] = leaf;
  leaf->solid->bounds(leaf, body->from, body->to);
  return set_faces(arena, body);
}

static void set_bounds(pn_body *body) {
  const pn_body *a = body->a, *b = body->b;
  for (size_t i = 0; i < body->d; ++i) {
    bool all = body->node == PN_COMPLEMENT;
    body->from[i] = all ? -INFINITY : a->from[i];
    body->to[i] = all ? INFINITY : a->to[i];
    if (all || body->how == PN_DIFFERENCE)
      continue;
    bool both = body->how == PN_INTERSECTION;
    body->from[i] = both ? fmax(a->from[i], b->from[i]) : fmin(a->from[i], b->from[i]);
    body->to[i] = both ? fmin(a->to[i], b->to[i]) : fmax(a->to[i], b->to[i]);
  }
}

static tn_status combine(pn_arena *arena, pn_node node, pn_join how, const pn_body *a,
                         const pn_body *b, pn_body **out) {
  TN_TRY(PN_TAKE(arena, 1, out));
  pn_body *body = *out;
  body->node = node;
  body->how = how;
  body->d = a->d;
  body->a = a;
  body->b = b;
  body->n_leaves = a->n_leaves + (b ? b->n_leaves : 0);
  TN_TRY(PN_TAKE(arena, body->n_leaves, &body->leaves));
  memcpy(body->leaves, a->leaves, a->n_leaves * sizeof *body->leaves);
  if (b)
    memcpy(body->leaves + a->n_leaves, b->leaves, b->n_leaves * sizeof *body->leaves);
  set_bounds(body);
  return set_faces(arena, body);
}

tn_status pn_body_join(pn_arena *arena, pn_join how, const pn_body *a, const pn_body *b,
                       pn_body **out) {
  if (a->d != b->d)
    return TN_FAIL(TN_EINPUT, "a body in %zu dimensions joined with one in %zu; expected equal ones",
                   a->d, b->d);
  return combine(arena, PN_JOINED, how, a, b, out);
}

tn_status pn_body_complement(pn_arena *arena, const pn_body *a, pn_body **out) {
  return combine(arena, PN_COMPLEMENT, PN_UNION, a, NULL, out);
}

/* ---- Motions ------------------------------------------------------------------------------------ */

/* x -> M x + c on every leaf. */
static tn_status map_body(pn_arena *arena, const pn_body *a, const double *M, const double *c,
                          pn_body **out) {
  size_t d = a->d;
  if (a->node != PN_LEAF) {
    pn_body *first = NULL, *second = NULL;
    TN_TRY(map_body(arena, a->a, M, c, &first));
    if (a->b)
      TN_TRY(map_body(arena, a->b, M, c, &second));
    return combine(arena, a->node, a->how, first, second, out);
  }
  pn_leaf *leaf = NULL;
  TN_TRY(PN_TAKE(arena, 1, &leaf));
  *leaf = *a->leaf;
  TN_TRY(PN_TAKE(arena, d * d, &leaf->A));
  TN_TRY(PN_TAKE(arena, d * d, &leaf->inverse));
  for (size_t i = 0; i < d; ++i) {
    leaf->b[i] = pn_inner(d, M + i * d, a->leaf->b) + c[i];
    for (size_t j = 0; j < d; ++j)
      for (size_t k = 0; k < d; ++k)
        leaf->A[i * d + j] += M[i * d + k] * a->leaf->A[k * d + j];
  }
  return pn_leaf_body(arena, leaf, out);
}

static tn_status check_numbers(size_t n, const double *x, const char *what) {
  for (size_t i = 0; i < n; ++i)
    if (!isfinite(x[i]))
      return TN_FAIL(TN_EINPUT, "%s %zu is %g; expected a finite number", what, i + 1, x[i]);
  return TN_OK;
}

tn_status pn_body_move(pn_arena *arena, const pn_body *a, const double *by, pn_body **out) {
  double M[PN_BODY_DIMENSIONS * PN_BODY_DIMENSIONS] = {0};
  for (size_t i = 0; i < a->d; ++i)
    M[i * a->d + i] = 1;
  TN_TRY(check_numbers(a->d, by, "move: component"));
  return map_body(arena, a, M, by, out);
}

/* Cosine and sine of degrees, exact at whole right angles. */
static void turn(double degrees, double *c, double *s) {
  static const double cosines[] = {1, 0, -1, 0}, sines[] = {0, 1, 0, -1};
  double rest = fmod(degrees, 360);
  if (rest < 0)
    rest += 360;
  double quarter = rest / 90;
  if (quarter == floor(quarter)) {
    *c = cosines[(size_t)quarter % 4];
    *s = sines[(size_t)quarter % 4];
    return;
  }
  double pi = acos(-1.0);
  *c = cos(rest * pi / 180);
  *s = sin(rest * pi / 180);
}

tn_status pn_body_rotate(pn_arena *arena, const pn_body *a, double angle, const double *center,
                         const double *axis, pn_body **out) {
  size_t d = a->d;
  double M[9] = {0}, shift[3] = {0}, n[3] = {0, 0, 1}, c = 0, s = 0;
  if (d != 2 && d != 3)
    return TN_FAIL(TN_EINPUT, "rotate in %zu dimensions; expected 2 or 3", d);
  TN_TRY(check_numbers(1, &angle, "rotate: angle"));
  if (d == 3 && axis) {
    double length = sqrt(pn_inner(3, axis, axis));
    if (!(length > 0 && isfinite(length)))
      return TN_FAIL(TN_EINPUT, "rotate: an axis of length %g; expected a direction", length);
    for (size_t i = 0; i < 3; ++i)
      n[i] = axis[i] / length;
  }
  turn(angle, &c, &s);
  if (d == 2) {
    M[0] = M[3] = c;
    M[1] = -s;
    M[2] = s;
  }
  for (size_t i = 0; i < 3 && d == 3; ++i) /* Rodrigues */
    for (size_t j = 0; j < 3; ++j) {
      size_t k = 3 - i - j;
      double cross = i == j ? 0 : ((j + 3 - i) % 3 == 1 ? -n[k] : n[k]);
      M[3 * i + j] = (i == j ? c : 0) + (1 - c) * n[i] * n[j] + s * cross;
    }
  if (center)
    for (size_t i = 0; i < d; ++i)
      shift[i] = center[i] - pn_inner(d, M + i * d, center);
  TN_TRY(check_numbers(d, shift, "rotate: center"));
  return map_body(arena, a, M, shift, out);
}

tn_status pn_body_scale(pn_arena *arena, const pn_body *a, const double *factors,
                        const double *center, pn_body **out) {
  double M[PN_BODY_DIMENSIONS * PN_BODY_DIMENSIONS] = {0}, shift[PN_BODY_DIMENSIONS] = {0};
  for (size_t i = 0; i < a->d; ++i) {
    if (!(isfinite(factors[i]) && factors[i] != 0))
      return TN_FAIL(TN_EINPUT, "scale: factor %zu is %g; expected a number other than 0", i + 1,
                     factors[i]);
    M[i * a->d + i] = factors[i];
    shift[i] = center ? center[i] * (1 - factors[i]) : 0;
  }
  TN_TRY(check_numbers(a->d, shift, "scale: center"));
  return map_body(arena, a, M, shift, out);
}

/* ---- Questions ---------------------------------------------------------------------------------- */

size_t pn_body_dimensions(const pn_body *body) { return body->d; }

bool pn_body_bounds(const pn_body *body, double *from, double *to) {
  bool bounded = true;
  for (size_t i = 0; i < body->d; ++i) {
    from[i] = body->from[i];
    to[i] = body->to[i];
    bounded &= isfinite(from[i]) && isfinite(to[i]);
  }
  return bounded;
}

bool pn_body_inside(const pn_body *body, const double *x) {
  if (body->node == PN_LEAF)
    return pn_leaf_inside(body->leaf, x);
  bool a = pn_body_inside(body->a, x);
  if (body->node == PN_COMPLEMENT)
    return !a;
  if (body->how == PN_UNION)
    return a || pn_body_inside(body->b, x);
  return a && pn_body_inside(body->b, x) == (body->how == PN_INTERSECTION);
}

double pn_body_distance(const pn_body *body, const double *x) {
  if (body->node == PN_LEAF)
    return pn_leaf_distance(body->leaf, x);
  double a = pn_body_distance(body->a, x);
  if (body->node == PN_COMPLEMENT)
    return -a;
  double b = pn_body_distance(body->b, x);
  return body->how == PN_UNION ? fmin(a, b) : fmax(a, body->how == PN_DIFFERENCE ? -b : b);
}

double pn_body_tolerance(const pn_body *body) {
  double size = 0, far = 0;
  for (size_t i = 0; i < body->n_leaves; ++i) {
    double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
    body->leaves[i]->solid->bounds(body->leaves[i], from, to);
    for (size_t k = 0; k < body->d; ++k) {
      if (isfinite(to[k] - from[k]))
        size = fmax(size, to[k] - from[k]);
      far = fmax(far, fmax(isfinite(from[k]) ? fabs(from[k]) : 0, isfinite(to[k]) ? fabs(to[k]) : 0));
    }
  }
  if (size == 0)
    size = fmax(far, 1);
  return fmax(1e-9 * size, 1e-13 * far);
}

size_t pn_body_faces(const pn_body *body, const pn_face **faces) {
  *faces = body->faces;
  return body->n_faces;
}
