/* hard_surface.c: values met by construction on faces of bodies.
 *
 * With phi_i a smooth distance to the faces of condition i (0 there, slope 1, positive inside; geometry.h) and
 * g_i what is given there,
 *
 *   u = sum_i w_i g_i / sum_i w_i + (prod_i phi_i) P,     w_i = prod_(j != i) phi_j
 *
 * (Rvachev, Sheiko: transfinite interpolation by inverse distances). On the faces of i all weights but w_i are 0,
 * so u is g_i there whatever P is. An end of the time or of a coordinate is a surface too, with a ramp as its
 * distance. Data that are all the same need no weights; where faces with different data meet, each keeps its
 * own up to the edge.
 */
#include "pinn/hard_inside.h"
#include "pinn/names.h"
#include "pinn/region.h"

#include <string.h>

enum { MOST_HARD_FACES = 4096 };

/* Why the condition cannot be hard; NULL: it can. */
static const char *obstacle(const pn_problem *p, const pn_term *term, const pn_expr *data) {
  for (size_t k = 0; k < term->n_pieces; ++k) {
    const pn_piece *piece = &term->pieces[k];
    if (piece->inner)
      return "it holds on an interface inside the domain";
    if (piece->filter)
      return "it holds on a part of a face";
    if (!piece->whole || piece->whole != term->pieces[0].whole)
      return "it holds on more than faces of one body";
    for (size_t j = 0; j < piece->n_fixed; ++j)
      if (p->coordinates[piece->fixed[j]].role != PN_SPACE)
        return "it holds on an edge";
  }
  return pn_mentions_normal(p, data) ? "the other side contains the normal, which exists on faces only"
                                  : NULL;
}

/* The faces of all pieces. */
static tn_status collect(const pn_term *term, size_t *n, size_t *faces) {
  *n = 0;
  for (size_t k = 0; k < term->n_pieces; ++k)
    for (size_t i = 0; i < term->pieces[k].n_faces; ++i) {
      if (*n == MOST_HARD_FACES)
        return TN_FAIL(TN_EUNSUPPORTED, "condition `%s`: more than %d faces cannot be hard",
                       term->name, (int)MOST_HARD_FACES);
      faces[(*n)++] = term->pieces[k].faces[i];
    }
  return TN_OK;
}

static tn_status make_surface(pn_model *m, const pn_term *term, const pn_expr *data,
                              const char **why, pn_hard_surface *out) {
  pn_problem *p = m->problem;
  size_t n = 0, *faces = NULL, space[PN_MAX_COORDINATES];
  pn_expr *distance = NULL;
  *why = obstacle(p, term, data);
  if (*why)
    return TN_OK;
  pn_space_axes(p, space);
  TN_TRY(TN_NEW(MOST_HARD_FACES, &faces));
  tn_status status = collect(term, &n, faces);
  if (status == TN_OK)
    status = pn_faces_distance(p->arena, term->pieces[0].whole, n, faces, space, &distance);
  tn_free(&faces);
  if (status == TN_EUNSUPPORTED) {
    char *text = NULL;
    TN_TRY(pn_arena_text(p->arena, tn_error_text(), strlen(tn_error_text()), &text));
    *why = text;
    return TN_OK;
  }
  *out = (pn_hard_surface){.distance = distance, .data = data, .term = term};
  return status;
}

/* (x - from)/(to - from): the distance to an end of a coordinate. */
static tn_status make_ramp(pn_problem *p, size_t coordinate, bool high, pn_expr **out) {
  const pn_coordinate *c = &p->coordinates[coordinate];
  double from = high ? c->hi : c->lo, to = high ? c->lo : c->hi;
  pn_expr *x = NULL, *origin = NULL, *width = NULL, *rise = NULL;
  TN_TRY(pn_expr_make(p->arena, PN_COORDINATE, NULL, 0, NULL, &x));
  x->index = coordinate;
  x->name = c->name;
  TN_TRY(pn_expr_number(p->arena, from, NULL, &origin));
  TN_TRY(pn_expr_number(p->arena, to - from, NULL, &width));
  TN_TRY(pn_expr_make(p->arena, PN_SUBTRACT, NULL, 2, (pn_expr *[]){x, origin}, &rise));
  return pn_expr_make(p->arena, PN_DIVIDE, NULL, 2, (pn_expr *[]){rise, width}, out);
}

static tn_status add_surface(const pn_term *term, const char *unknown, struct pn_hard *h,
                             pn_hard_surface surface) {
  if (h->n_surfaces == PN_MAX_HARD_SURFACES)
    return pn_hard_refuse(term, unknown, "too many hard conditions on surfaces");
  h->surface[h->n_surfaces++] = surface;
  return TN_OK;
}

/* A value on faces of a body. */
tn_status pn_hard_surface_read(pn_model *m, const pn_term *term, const pn_relation *r) {
  pn_problem *p = m->problem;
  size_t unknown = 0;
  bool velocity = false;
  pn_expr *data = NULL;
  const char *why = NULL;
  uint32_t known = 0;
  pn_hard_surface surface = {0};
  TN_TRY(pn_hard_sides(term, r, p, &term->pieces[0], &unknown, &velocity, &data));
  const pn_unknown *u = &p->unknowns[unknown];
  for (size_t j = 0; j < u->n_of; ++j)
    known |= UINT32_C(1) << u->of[j];
  if (velocity)
    return pn_hard_refuse(term, u->name, "u_t can be exact at the start of the time only");
  if (pn_space_bits(p) & ~known)
    return pn_hard_refuse(term, u->name, "the unknown does not depend on all space coordinates");
  if (pn_expr_depends(p, data) & ~known)
    return pn_hard_refuse(term, u->name,
                          "the other side varies with more coordinates than the unknown");
  TN_TRY(make_surface(m, term, data, &why, &surface));
  return why ? pn_hard_refuse(term, u->name, why)
             : add_surface(term, u->name, &m->hard[unknown], surface);
}

tn_status pn_hard_axes_to_surfaces(pn_problem *p, const pn_unknown *u, struct pn_hard *h) {
  for (size_t i = 0; i < h->n; ++i)
    for (int high = 0; high < 2; ++high) {
      const pn_hard_end *e = high ? &h->axis[i].hi : &h->axis[i].lo;
      pn_expr *distance = NULL;
      if (h->axis[i].velocity.value)
        return pn_hard_refuse(h->axis[i].velocity.term, u->name,
                              "values are hard on surfaces of shapes as well");
      if (!e->value)
        continue;
      if (e->mirror)
        return pn_hard_refuse(e->term, u->name,
                              "the unknown has a parity and is hard on surfaces of shapes");
      TN_TRY(make_ramp(p, h->axis[i].coordinate, high, &distance));
      TN_TRY(add_surface(e->term, u->name, h, (pn_hard_surface){distance, e->value, e->term}));
    }
  h->n = 0;
  return TN_OK;
}

bool pn_hard_on_bodies(const pn_term *term) {
  for (size_t k = 0; k < term->n_pieces; ++k)
    if (term->pieces[k].whole)
      return true;
  return false;
}

/* ---- In a frame --------------------------------------------------------------------------------- */

static bool is_zero(const pn_expr *e) { return e->kind == PN_NUMBER && e->number == 0; }

/* Is one thing given everywhere? */
static bool same_data(size_t n, const pn_hard_surface *s) {
  for (size_t i = 1; i < n; ++i)
    if (s[i].data != s[0].data && !(is_zero(s[i].data) && is_zero(s[0].data)))
      return false;
  return true;
}

static tn_value times(tn_value a, tn_value b) { return a.graph ? tn_mul(a, b) : b; }

/* The weighted mean of the data. */
static tn_status mix(pn_frame *f, size_t n, const pn_hard_surface *s, const tn_value *phi,
                     tn_value *out) {
  tn_value above = {0}, below = {0};
  for (size_t i = 0; i < n; ++i) {
    tn_value weight = {0}, g = {0};
    for (size_t j = 0; j < n; ++j)
      if (j != i)
        weight = times(weight, phi[j]);
    below = below.graph ? tn_add(below, weight) : weight;
    if (is_zero(s[i].data))
      continue;
    TN_TRY(pn_frame_lower(f, s[i].data, &g));
    g = tn_mul(weight, g);
    above = above.graph ? tn_add(above, g) : g;
  }
  *out = tn_div(above, below);
  return TN_OK;
}

tn_status pn_hard_surface_apply(pn_frame *f, size_t n, const pn_hard_surface *s, tn_value *value) {
  tn_value phi[PN_MAX_HARD_SURFACES], all = {0}, lift = {0};
  for (size_t i = 0; i < n; ++i) {
    TN_TRY(pn_frame_lower(f, s[i].distance, &phi[i]));
    all = times(all, phi[i]);
  }
  *value = tn_mul(all, *value);
  if (same_data(n, s) && is_zero(s[0].data))
    return TN_OK;
  if (same_data(n, s))
    TN_TRY(pn_frame_lower(f, s[0].data, &lift));
  else
    TN_TRY(mix(f, n, s, phi, &lift));
  *value = tn_add(lift, *value);
  return TN_OK;
}
