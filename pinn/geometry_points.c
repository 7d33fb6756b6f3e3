/* geometry_points.c: points in bodies, and how large bodies are.
 *
 * In one and two dimensions the size of a body follows from its boundary, by the divergence theorem: d |B| is the
 * integral of x . n over it, and the pieces of the faces that are the boundary are known (geometry_faces.c). In more
 * dimensions a closed form is found where no surface cuts another:
 *
 *   |A or B| = |A| + |B| if apart, max if one holds the other;   |A and B| = 0, or the inner one;
 *   |A - B| = |A| if apart, |A| - |B| if A holds B.
 *
 * That A holds B is known if A's distance at the centre of a ball around B is at most minus its radius, or if A is a
 * box along the axes and B's bounds lie in it. Else 2^17 Sobol points in the bounds are counted.
 */
#include "pinn/geometry_inside.h"

#include <math.h>

#include "pinn/sobol.h"

enum { POINTS = 1 << 17, BATCH = 1 << 12 };

tn_status pn_body_place(const pn_body *body, size_t n, const double *u, double *x, bool *in) {
  size_t d = body->d;
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS], y[PN_BODY_DIMENSIONS];
  const pn_leaf *leaf = body->node == PN_LEAF ? body->leaf : NULL;
  bool filled = leaf && leaf->solid->fill;
  if (!pn_body_bounds(body, from, to))
    return TN_FAIL(TN_EINPUT, "points in a body without bounds; expected it to be cut with something "
                              "bounded");
  for (size_t i = 0; i < n; ++i) {
    if (filled) {
      leaf->solid->fill(leaf, u + i * d, y);
      pn_leaf_world(leaf, y, x + i * d);
      in[i] = true;
      continue;
    }
    for (size_t k = 0; k < d; ++k)
      x[i * d + k] = from[k] + u[i * d + k] * (to[k] - from[k]);
    in[i] = pn_body_inside(body, x + i * d);
  }
  return TN_OK;
}

/* ---- Closed forms -------------------------------------------------------------------------------- */

static bool apart(const pn_body *a, const pn_body *b) {
  for (size_t i = 0; i < a->d; ++i)
    if (a->from[i] >= b->to[i] || b->from[i] >= a->to[i])
      return true;
  return false;
}

/* A ball around a body; false: unbounded. */
static bool ball_around(const pn_body *b, double *center, double *radius) {
  double sum = 0;
  for (size_t i = 0; i < b->d; ++i) {
    center[i] = (b->from[i] + b->to[i]) / 2;
    sum += (b->to[i] - b->from[i]) * (b->to[i] - b->from[i]) / 4;
  }
  *radius = sqrt(sum);
  if (b->node == PN_LEAF && b->leaf->solid == &pn_solid_ellipsoid && b->leaf->rigid) {
    *radius = 0;
    for (size_t i = 0; i < b->d; ++i)
      *radius = fmax(*radius, b->leaf->size[i]);
  }
  return isfinite(*radius);
}

static bool is_upright_box(const pn_body *a) {
  if (a->node != PN_LEAF || a->leaf->solid != &pn_solid_box)
    return false;
  for (size_t i = 0; i < a->d; ++i)
    for (size_t j = 0; j < a->d; ++j)
      if (i != j && a->leaf->A[i * a->d + j] != 0)
        return false;
  return true;
}

static bool holds(const pn_body *a, const pn_body *b) {
  double center[PN_BODY_DIMENSIONS], radius = 0;
  bool within = is_upright_box(a);
  for (size_t i = 0; i < a->d; ++i)
    within = within && a->from[i] <= b->from[i] && b->to[i] <= a->to[i];
  return within || (ball_around(b, center, &radius) &&
                    pn_body_distance(a, center) <= -radius * (1 - 1e-12));
}

/* NAN: none known. */
static double closed_form(const pn_body *body) {
  const pn_body *a = body->a, *b = body->b;
  if (body->node == PN_LEAF)
    return body->leaf->solid->volume(body->leaf) * body->leaf->volume_scale;
  if (body->node == PN_COMPLEMENT)
    return NAN;
  bool separate = apart(a, b);
  if (body->how == PN_DIFFERENCE)
    return separate ? closed_form(a) : holds(a, b) ? closed_form(a) - closed_form(b) : NAN;
  if (separate)
    return body->how == PN_UNION ? closed_form(a) + closed_form(b) : 0;
  if (holds(a, b))
    return closed_form(body->how == PN_UNION ? a : b);
  if (holds(b, a))
    return closed_form(body->how == PN_UNION ? b : a);
  return NAN;
}

/* ---- Counting ------------------------------------------------------------------------------------ */

static tn_status count(const pn_body *body, const double *from, const double *to, double *measure) {
  size_t d = body->d, hits = 0;
  double *u = NULL, *x = NULL, volume = 1;
  tn_status status = TN_NEW(BATCH * d, &u);
  if (status == TN_OK)
    status = TN_NEW(d, &x);
  for (size_t k = 0; k < d; ++k)
    volume *= fmax(0, to[k] - from[k]);
  for (uint64_t at = 0; at < POINTS && status == TN_OK; at += BATCH) {
    status = pn_sobol(d, tn_stream_of(0, "bodies"), at, BATCH, u);
    for (size_t i = 0; i < BATCH && status == TN_OK; ++i) {
      for (size_t k = 0; k < d; ++k)
        x[k] = from[k] + u[i * d + k] * (to[k] - from[k]);
      hits += pn_body_inside(body, x);
    }
  }
  *measure = volume * (double)hits / POINTS;
  tn_free(&u);
  tn_free(&x);
  return status;
}

static tn_status by_flux(const pn_body *body, double *measure) {
  pn_choice c;
  size_t *all = NULL;
  double length = 0, flux = 0;
  TN_TRY(TN_NEW(body->n_faces, &all));
  for (size_t i = 0; i < body->n_faces; ++i)
    all[i] = i;
  tn_status status = pn_choice_new(body, body->n_faces, all, &c);
  if (status == TN_OK) {
    status = pn_choice_integrals(&c, &length, &flux);
    pn_choice_free(&c);
  }
  *measure = flux / (double)body->d;
  tn_free(&all);
  return status;
}

tn_status pn_body_measure(const pn_body *body, double *measure, bool *exact) {
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  *exact = true;
  *measure = closed_form(body);
  if (!isnan(*measure))
    return TN_OK;
  *measure = INFINITY;
  if (!pn_body_bounds(body, from, to))
    return TN_OK;
  if (pn_body_has_pieces(body))
    return by_flux(body, measure);
  *exact = false;
  return count(body, from, to, measure);
}
