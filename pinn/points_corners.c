/* points_corners.c: corners of surfaces, which two conditions may claim (points.corners = "keep").
 *
 * Points of a surface lie inside it, so a corner belongs to no condition unless it is asked for.
 * Then each surface gets its own corners; a corner on the surface of a condition that `wins` goes
 * to that one alone, otherwise all who meet there keep it, each with its own value. sites->corners
 * counts those that several conditions claim.
 */
#include <string.h>

#include "pinn/region.h"

static bool holds_there(const pn_problem *problem, const pn_piece *piece, const double *point,
                        tn_status *status) {
  bool holds = true;
  for (size_t j = 0; j < piece->n_fixed; ++j)
    holds = holds && point[piece->fixed[j]] == piece->value[j];
  if (pn_piece_curved(piece)) /* a corner belongs to none of the faces that meet there */
    return false;
  if (holds && *status == TN_OK)
    *status = pn_piece_holds(problem, piece, point, NULL, &holds);
  return holds;
}

/* What other conditions say about a point of a surface. */
typedef struct rivals {
  size_t n;    /* conditions whose surfaces contain it */
  bool beaten; /* one of them wins, and this one does not */
  bool first;  /* none of them stands before this one in the file */
} rivals;

static tn_status find_rivals(const pn_sites *sites, const pn_term *term, const double *point,
                             rivals *out) {
  tn_status status = TN_OK;
  *out = (rivals){0, false, true};
  for (size_t m = 0; m < sites->n_terms; ++m) {
    const pn_term *other = sites->terms[m].term;
    bool here = false;
    if (other == term || other->where != PN_ON)
      continue;
    for (size_t k = 0; k < other->n_pieces; ++k)
      here = here || holds_there(sites->problem, &other->pieces[k], point, &status);
    if (!here)
      continue;
    ++out->n;
    out->beaten = out->beaten || (other->wins && !term->wins);
    out->first = out->first && other > term;
  }
  return status;
}

/* The free coordinates of a surface that has corners; 0 if it has none (or too many). */
static size_t corner_axes(const pn_sites *sites, const pn_site *site, size_t axis[4]) {
  size_t f = 0;
  for (size_t c = 0; c < sites->problem->n_coordinates; ++c) {
    const pn_coordinate *coordinate = &sites->problem->coordinates[c];
    if (!(site->free_ >> c & 1))
      continue;
    if (f == 4 || coordinate->periodic || coordinate->role == PN_PARAMETER)
      return 0;
    axis[f++] = c;
  }
  return f;
}

/* Puts the corners of a surface before its points. */
static tn_status add_corners(pn_sites *sites, pn_site *site) {
  const pn_problem *problem = sites->problem;
  size_t axis[4], f = corner_axes(sites, site, axis), kept = 0;
  double corner[16][PN_MAX_COORDINATES];
  for (size_t i = 0; f > 0 && i < (size_t)1 << f; ++i) {
    double *point = corner[kept];
    tn_status status = TN_OK;
    rivals others;
    pn_site_point(problem, site, PN_NONE, point);
    for (size_t k = 0; k < f; ++k) {
      const pn_coordinate *c = &problem->coordinates[axis[k]];
      point[axis[k]] = i >> k & 1 ? c->hi : c->lo;
    }
    bool here = holds_there(problem, site->piece, point, &status);
    TN_TRY(status);
    TN_TRY(find_rivals(sites, site->term, point, &others));
    sites->corners += here && others.n > 0 && others.first;
    kept += here && !others.beaten;
  }
  size_t n = site->n;
  TN_TRY(pn_site_resize(site, n + kept));
  for (size_t k = 0; k < f; ++k) {
    double *x = site->column[axis[k]];
    memmove(x + kept, x, n * sizeof *x);
    for (size_t i = 0; i < kept; ++i)
      x[i] = corner[i][axis[k]];
  }
  return TN_OK;
}

/* A regular grid has its corners already: drops those that another condition wins. */
static tn_status drop_beaten(pn_sites *sites, pn_site *site) {
  double point[PN_MAX_COORDINATES];
  size_t kept = 0;
  for (size_t i = 0; i < site->n; ++i) {
    rivals others;
    pn_site_point(sites->problem, site, i, point);
    TN_TRY(find_rivals(sites, site->term, point, &others));
    sites->corners += others.n > 0 && others.first;
    if (others.beaten)
      continue;
    for (size_t c = 0; c < sites->problem->n_coordinates; ++c)
      if (site->column[c])
        site->column[c][kept] = site->column[c][i];
    ++kept;
  }
  site->n = kept;
  return kept ? TN_OK : pn_site_nothing(site);
}

tn_status pn_site_corners(pn_sites *sites, pn_site *site, bool grid) {
  return grid ? drop_beaten(sites, site) : add_corners(sites, site);
}
