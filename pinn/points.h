/* points.h: the point sets of a problem: where each equation and condition is asked to hold.
 *
 * A site is one set of points: a piece of one condition, the volume of an equation, or the volume
 * that all equations share. A term uses one site a piece. Sites hold f64 columns, one for each
 * coordinate that varies on them; coordinates that the piece fixes have no column. The same
 * layout, drawn with another stream, serves training, validation and the pools of refinement.
 * Inside pinn/ only.
 */
#ifndef PINN_POINTS_H
#define PINN_POINTS_H

#include "pinn/problem.h"

enum { PN_SITE_KEY = 160 };

typedef struct pn_site {
  /* Name of its random stream: content, never a position in the file. Another one for every site. */
  char key[PN_SITE_KEY];
  const pn_term *term;   /* its (first) user */
  const pn_piece *piece; /* NULL: the whole box; borrowed from the problem */
  const pn_data *data;   /* its rows are the points, never drawn; NULL: none */
  size_t stride;         /* of data: point i is row i * stride */
  uint32_t free_;        /* bit i: coordinate i varies and has a column */
  uint32_t space;        /* bit i: coordinate i is one of space */
  double measure; /* length, area, ... of the piece in units of the file; filter counted in */
  double extent;  /* of a body or its faces: length, area, volume in units of the file; else 0 */
  size_t wanted;  /* points to draw: 1 if nothing varies */
  size_t n;       /* points drawn */
  double *column[PN_MAX_COORDINATES]; /* [n] each, owned; NULL where the coordinate is fixed */
  double *normal[PN_MAX_COORDINATES]; /* [n] each, owned; on curved pieces, of space coordinates */
} pn_site;

/* A term of the loss and its sites: site[i] belongs to piece i. An integral condition has one site
 * without points (free_ = 0, piece NULL, n = 1). */
typedef struct pn_term_sites {
  const pn_term *term;
  size_t n_sites;
  size_t *site; /* indices, owned */
} pn_term_sites;

typedef struct pn_sites {
  const pn_problem *problem;
  size_t n_terms; /* file order: equations, then conditions that are not met by construction */
  pn_term_sites *terms;
  size_t n_sites;
  pn_site *sites;
  uint32_t volume; /* bit i: an equation varies along coordinate i; all if none varies */
  size_t interior; /* points of each equation, after defaults */
  size_t corners;  /* corner points that two or more conditions hold (corners = keep) */
} pn_sites;

/* What a set of points is for; part of the stream's name. */
typedef enum pn_draw_kind {
  PN_DRAW_TRAIN,
  PN_DRAW_CHECK,
  PN_DRAW_POOL,
  PN_DRAW_SCALE
} pn_draw_kind;

typedef struct pn_draw {
  pn_draw_kind kind;
  uint64_t seed;
  size_t stage;  /* a new scramble for each */
  size_t round;  /* refinement within a stage, 0 at its start */
  size_t factor; /* times the wanted number of points; 1 for training, 4 for validation */
} pn_draw;

/* The layout: which sites there are and how many points each wants. n_theta settles the default
 * number of interior points. skip[i] (may be NULL) says that condition i has no loss term. */
tn_status pn_sites_new(const pn_problem *problem, size_t n_theta, const bool *skip,
                       pn_sites **out) TN_MUST_USE;
void pn_sites_free(pn_sites **sites);
/* Sites of the conditions with chosen[i] alone, or (NULL) those of the checks, with the numbers of points
 * that they would have beside `like`. */
tn_status pn_sites_beside(const pn_sites *like, const bool *chosen, pn_sites **out) TN_MUST_USE;
/* The same layout without points. */
tn_status pn_sites_like(const pn_sites *like, pn_sites **out) TN_MUST_USE;
/* One more site (a mean over the volume), or the one that has this key and these coordinates. A key
 * that is too long is shortened. *out is its index. */
tn_status pn_sites_add(pn_sites *sites, const char *key, const pn_term *term, const pn_piece *piece,
                       uint32_t free_, size_t wanted, size_t *out) TN_MUST_USE;

/* Draws the points of all sites. TN_EINPUT "condition `pull` selects 0 points ...". */
tn_status pn_sites_draw(pn_sites *sites, const pn_draw *draw) TN_MUST_USE;
/* Draws n points of one site into it. */
tn_status pn_site_draw(const pn_sites *sites, pn_site *site, const pn_draw *draw,
                       size_t n) TN_MUST_USE;
/* Room for n points in every column. */
tn_status pn_site_resize(pn_site *site, size_t n) TN_MUST_USE;
void pn_site_clear(pn_site *site);
/* All coordinates of point i: columns, fixed values, NaN where a coordinate has no meaning there.
 */
void pn_site_point(const pn_problem *problem, const pn_site *site, size_t i, double *point);

/* points_data.c: the site of data gets its rows, at most n of them. */
tn_status pn_site_rows(const pn_problem *problem, pn_site *site, size_t n) TN_MUST_USE;
/* points_corners.c: gives a drawn surface its corners; `grid`: it has them and loses those that
 * are won by others. */
tn_status pn_site_corners(pn_sites *sites, pn_site *site, bool grid) TN_MUST_USE;
/* The error "condition `pull` selects 0 points ...". */
tn_status pn_site_nothing(const pn_site *site) TN_MUST_USE;

uint32_t pn_space_bits(const pn_problem *problem); /* bit i: coordinate i is one of space */
/* The coordinates that vary on a piece (NULL: the whole box) for a term. */
uint32_t pn_piece_free(const pn_problem *problem, const pn_term *term, const pn_piece *piece);

size_t pn_term_points(const pn_sites *sites, size_t term); /* drawn, over all its sites */

/* rad.c: residual-based adaptive distribution. Chooses `count` of `n` candidates without
 * replacement, the probability of i proportional to |r_i| / mean |r| + 1; chosen[] ascending. */
tn_status pn_rad_choose(size_t n, const double *residual, uint64_t seed, const char *stream,
                        size_t count, size_t *chosen) TN_MUST_USE;

#endif
