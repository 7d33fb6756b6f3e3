/* points_body.c: points in bodies and on their faces.
 *
 * A site is bodied if its piece says faces of a body, or a body that its points lie in, and space coordinates
 * vary on it. Its unit numbers are in the order of the coordinates; those of space go together to the body,
 * which places a point with them; a face that lies across a coordinate takes one number more than it has free
 * coordinates, to choose among faces. What the body turns down (a bounding box is larger than what it bounds,
 * a face is cut) is drawn again further along the same sequence.
 *
 * Measures are those of the body or the faces, times the share of points that filters, parts and interfaces
 * let through.
 */
#include "pinn/points_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/region.h"
#include "pinn/sobol.h"

enum { SHARE_POINTS = 4096, CHUNK = 256 };

bool pn_site_bodied(const pn_problem *p, const pn_site *site) {
  const pn_piece *piece = site->piece;
  return piece &&
         (piece->whole || ((piece->body || piece->n_sides) && (site->free_ & pn_space_bits(p))));
}

size_t pn_site_numbers(const pn_problem *p, const pn_site *site) {
  size_t n = pn_points_bits(site->free_);
  bool flat = pn_site_bodied(p, site) && site->piece->whole && !pn_piece_curved(site->piece);
  return n + flat;
}

/* A part of the candidates, with the space coordinates of each. */
typedef struct batch {
  size_t n;
  double x[CHUNK * PN_MAX_COORDINATES], normal[CHUNK * PN_MAX_COORDINATES];
  bool in[CHUNK];
} batch;

/* Does every space coordinate vary, so that the body can place the points? */
static bool is_full(const pn_problem *p, const pn_site *site) {
  return (pn_space_bits(p) & ~site->free_) == 0;
}

/* Unit numbers of space of n candidates: those of free coordinates, and the one that chooses. */
static void gather(const pn_problem *p, const pn_site *site, size_t n, const double *u, size_t f,
                   double *out) {
  size_t d = pn_body_dimensions(p->box);
  for (size_t i = 0; i < n; ++i) {
    size_t at = 0;
    for (size_t c = 0, k = 0; c < p->n_coordinates; ++c) {
      if (!(site->free_ >> c & 1))
        continue;
      if (p->coordinates[c].role == PN_SPACE)
        out[i * d + at++] = u[i * f + k];
      ++k;
    }
    if (at < d)
      out[i * d + at] = u[i * f + f - 1];
  }
}

static tn_status place_batch(const pn_problem *p, const pn_site *site, const double *u, size_t f,
                             batch *b) {
  const pn_piece *piece = site->piece;
  size_t d = pn_body_dimensions(p->box);
  double *unit = NULL;
  TN_TRY(TN_NEW(b->n * d, &unit));
  gather(p, site, b->n, u, f, unit);
  tn_status status = piece->whole ? pn_faces_place(piece->whole, piece->n_faces, piece->faces, b->n,
                                                   unit, b->x, b->normal, b->in)
                                  : pn_body_place(piece->body, b->n, unit, b->x, b->in);
  tn_free(&unit);
  return status;
}

/* Point i of the batch as coordinates of the problem. */
static void make_point(const pn_problem *p, const pn_site *site, const double *u, const batch *b,
                       bool placed, size_t i, double *point) {
  size_t d = pn_body_dimensions(p->box);
  pn_site_point(p, site, PN_NONE, point);
  for (size_t c = 0, k = 0, s = 0; c < p->n_coordinates; ++c) {
    bool space = p->coordinates[c].role == PN_SPACE;
    if (site->free_ >> c & 1) {
      point[c] = pn_points_place(&p->coordinates[c], u[k++]);
      if (placed && space)
        point[c] = b->x[i * d + s];
    }
    s += space;
  }
}

/* Parts, interfaces and filters; also the body where it did not place the points. */
static tn_status lets_through(const pn_problem *p, const pn_site *site, const batch *b, bool placed,
                              size_t i, const double *point, bool *out) {
  const pn_piece *piece = site->piece;
  size_t d = pn_body_dimensions(p->box);
  double x[PN_MAX_COORDINATES], along[PN_MAX_COORDINATES] = {0};
  bool known = pn_space_point(p, point, x);
  const double *normal = placed && piece->whole ? b->normal + i * d : NULL;
  *out = true;
  if (!placed)
    *out = pn_body_holds(p, piece->body, point);
  for (size_t c = 0, s = 0; !normal && piece->normal != PN_NONE && c < p->n_coordinates; ++c)
    if (p->coordinates[c].role == PN_SPACE)
      along[s++] = c == piece->normal ? piece->sign : 0;
  if (*out && known)
    *out = pn_sides_hold(p, piece, x, normal ? normal : piece->normal != PN_NONE ? along : NULL);
  if (*out && piece->filter)
    return pn_predicate_holds(p, piece->filter, point, out);
  return TN_OK;
}

static void enter(const pn_problem *p, pn_site *site, const batch *b, size_t i,
                  const double *point) {
  size_t d = pn_body_dimensions(p->box);
  for (size_t c = 0, s = 0; c < p->n_coordinates; ++c) {
    if (site->column[c])
      site->column[c][site->n] = point[c];
    if (p->coordinates[c].role != PN_SPACE)
      continue;
    if (site->normal[c])
      site->normal[c][site->n] = b->normal[i * d + s];
    ++s;
  }
  ++site->n;
}

/* site NULL: only counts in *kept. */
static tn_status keep_batch(const pn_problem *p, const pn_site *like, pn_site *site,
                            const double *u, size_t f, size_t most, batch *b, size_t *hit,
                            size_t *kept) {
  bool placed = like->piece->whole || (like->piece->body && is_full(p, like));
  double point[PN_MAX_COORDINATES];
  if (placed)
    TN_TRY(place_batch(p, like, u, f, b));
  for (size_t i = 0; i < b->n && *kept < most; ++i) {
    bool through = false;
    if (placed && !b->in[i])
      continue;
    ++*hit;
    make_point(p, like, u + i * f, b, placed, i, point);
    TN_TRY(lets_through(p, like, b, placed, i, point, &through));
    if (!through)
      continue;
    ++*kept;
    if (site)
      enter(p, site, b, i, point);
  }
  return TN_OK;
}

static tn_status keep_all(const pn_problem *p, const pn_site *like, pn_site *site, size_t n,
                          const double *u, size_t most, size_t *hit, size_t *kept) {
  size_t f = pn_site_numbers(p, like);
  batch *b = NULL;
  TN_TRY(TN_NEW(1, &b));
  tn_status status = TN_OK;
  for (size_t first = 0; first < n && *kept < most && status == TN_OK; first += CHUNK) {
    b->n = n - first < CHUNK ? n - first : CHUNK;
    status = keep_batch(p, like, site, u + first * f, f, most, b, hit, kept);
  }
  tn_free(&b);
  return status;
}

tn_status pn_body_keep(const pn_problem *p, size_t n, const double *u, pn_site *site, size_t most,
                       size_t *hit) {
  size_t kept = site->n;
  return keep_all(p, site, site, n, u, most, hit, &kept);
}

/* ---- Measures ----------------------------------------------------------------------------------- */

/* Of the candidates that the body takes (or, where it places none, of all), the share let through. */
static tn_status share_of(const pn_problem *p, const pn_site *site, bool placed, double *share) {
  size_t f = pn_site_numbers(p, site), hit = 0, kept = 0;
  char name[PN_SITE_KEY + 16];
  double *u = NULL;
  *share = 1;
  if (f == 0 || (placed && !site->piece->filter && !site->piece->n_sides && !site->piece->inner))
    return TN_OK;
  snprintf(name, sizeof name, "measure:%s", site->key);
  TN_TRY(TN_NEW(SHARE_POINTS * f, &u));
  tn_status status = pn_sobol(f, tn_stream_of(0, name), 0, SHARE_POINTS, u);
  if (status == TN_OK)
    status = keep_all(p, site, NULL, SHARE_POINTS, u, SHARE_POINTS, &hit, &kept);
  tn_free(&u);
  *share = (kept > 0 ? (double)kept : 0.5) / (hit > 0 ? (double)hit : 1);
  return status;
}

/* The measure of the piece, filters counted in. */
static tn_status measure_piece(const pn_problem *p, const pn_site *site, bool placed, double *out) {
  const pn_piece *piece = site->piece;
  double share = 1;
  bool exact = false;
  *out = 1;
  if (piece->extent > 0) {
    *out = piece->extent;
    return TN_OK;
  }
  if (p->domain && piece->body == p->region && placed && !piece->whole)
    *out = p->domain->extent;
  else if (piece->whole)
    TN_TRY(pn_faces_measure(piece->whole, piece->n_faces, piece->faces, out, &exact));
  else if (placed)
    TN_TRY(pn_body_measure(piece->body, out, &exact));
  for (size_t c = 0; c < p->n_coordinates && !placed; ++c)
    if ((site->free_ & site->space) >> c & 1)
      *out *= p->coordinates[c].hi - p->coordinates[c].lo;
  TN_TRY(share_of(p, site, placed, &share));
  *out *= share;
  return TN_OK;
}

tn_status pn_body_site_measure(const pn_problem *p, const pn_site *site, double *relative,
                               double *extent) {
  bool placed = site->piece->whole || (site->piece->body && is_full(p, site));
  size_t d = pn_body_dimensions(p->box);
  size_t k = pn_points_bits(site->free_ & site->space) - pn_piece_curved(site->piece);
  double longest = 0;
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if (p->coordinates[c].role == PN_SPACE)
      longest = fmax(longest, p->coordinates[c].hi - p->coordinates[c].lo);
  if (placed)
    k = site->piece->whole ? d - 1 : d;
  TN_TRY(measure_piece(p, site, placed, extent));
  *relative = *extent / pow(longest, (double)k);
  return TN_OK;
}

tn_status pn_piece_measure(const pn_problem *p, const pn_term *term, pn_piece *piece) {
  pn_site site = {.term = term, .piece = piece, .space = pn_space_bits(p)};
  double relative = 0, extent = 0;
  site.free_ = pn_piece_free(p, term, piece);
  snprintf(site.key, sizeof site.key, "%.60s:%.60s", term->name,
           piece->whole ? piece->surface : "");
  if (!pn_site_bodied(p, &site) || site.free_ == 0)
    return TN_OK;
  TN_TRY(pn_body_site_measure(p, &site, &relative, &extent));
  piece->extent = extent;
  return TN_OK;
}

tn_status pn_piece_reachable(const pn_problem *p, const pn_term *term, const pn_piece *piece,
                             bool *out) {
  pn_site site = {.term = term, .piece = piece, .space = pn_space_bits(p)};
  site.free_ = pn_piece_free(p, term, piece);
  size_t f = pn_site_numbers(p, &site), hit = 0, kept = 0;
  double *u = NULL;
  *out = true;
  if (f == 0 || !pn_site_bodied(p, &site))
    return TN_OK;
  TN_TRY(TN_NEW(SHARE_POINTS * f, &u));
  tn_status status = pn_sobol(f, tn_stream_of(0, "reachable"), 0, SHARE_POINTS, u);
  if (status == TN_OK)
    status = keep_all(p, &site, NULL, SHARE_POINTS, u, 1, &hit, &kept);
  tn_free(&u);
  *out = kept > 0;
  return status;
}
