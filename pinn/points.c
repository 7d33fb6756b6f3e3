/* points.c: the layout of the points at which a problem is asked to hold.
 *
 * Layout. Every piece of a condition is a site; an equation in the whole box shares its site with
 * all others of the same coordinates, so that their derivatives are computed once: `interior` for
 * the coordinates that equations have together, `interior:t` beside it for those that vary with t
 * alone.
 * Counts by default:
 *
 *   interior    N = 2^k, the smallest with 2.5 P residuals in all, 1024 <= N <= 32768;
 *               1024 with one coordinate
 *   condition   2^k >= 4 N^(f/d), f of the d coordinates free on it, at most N;
 *               one point if nothing is free
 *
 * The pieces of a condition share its points in proportion to their measures (lengths are taken
 * relative to the longest range of the same role, so that metres against seconds decide nothing);
 * at least one each.
 *
 * Streams. A site's random numbers are keyed by (seed, what for, stage, round, key), and the key
 * is made of content: the term's name and what the piece fixes, by name. Order in the file changes
 * no bit. No two sites have one key: a name with a mark of keys in it gets its kind before it, and
 * what is too long ends in a digest of all of it.
 *
 * points_draw.c puts the points there.
 */
#include "pinn/points_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/data.h"
#include "pinn/files.h"
#include "pinn/region.h"
#include "pinn/sobol.h"
#include "pinn/text.h"

static const char *const shared_key = "interior";

enum { FEWEST = 1024, MOST = 32768, MEASURE_POINTS = 4096 };

/* ---- Layout ---------------------------------------------------------------------------------- */

static size_t power_of_two_above(double x) {
  size_t n = 1;
  while ((double)n < x && n < ((size_t)1 << 40))
    n *= 2;
  return n;
}

uint32_t pn_space_bits(const pn_problem *problem) {
  uint32_t mask = 0;
  for (size_t i = 0; i < problem->n_coordinates; ++i)
    mask |= (uint32_t)(problem->coordinates[i].role == PN_SPACE) << i;
  return mask;
}

uint32_t pn_piece_free(const pn_problem *problem, const pn_term *term, const pn_piece *piece) {
  uint32_t mask = term->coordinates, space = pn_space_bits(problem);
  if (!piece)
    return mask;
  if (piece->filter)
    mask |= pn_expr_depends(problem, piece->filter);
  if (piece->whole || ((piece->body || piece->n_sides) && (mask & space)))
    mask |= space; /* whether a point belongs to a body depends on all of them */
  for (size_t j = 0; j < piece->n_fixed; ++j)
    mask &= ~((uint32_t)1 << piece->fixed[j]);
  return mask;
}

static double relative_length(const pn_problem *problem, size_t coordinate) {
  const pn_coordinate *c = &problem->coordinates[coordinate];
  if (c->role != PN_SPACE)
    return 1;
  double longest = 0;
  for (size_t i = 0; i < problem->n_coordinates; ++i) {
    const pn_coordinate *other = &problem->coordinates[i];
    if (other->role == PN_SPACE && other->hi - other->lo > longest)
      longest = other->hi - other->lo;
  }
  return (c->hi - c->lo) / longest;
}

/* A term's name as the start of keys; alone: nothing follows it. */
static void put_name(pn_text *key, const pn_term *term, bool alone) {
  bool marked = strpbrk(term->name, ":=") || (alone && strcmp(term->name, shared_key) == 0);
  pn_putf(key, "%s%s",
          !marked              ? ""
          : term->is_condition ? "condition::"
                               : "equation::",
          term->name);
}

/* "walls:t=0:x=-1": what a piece fixes, in the order of names. */
static void put_fixed(pn_text *key, const pn_problem *problem, const pn_piece *piece) {
  size_t order[PN_MAX_COORDINATES];
  for (size_t j = 0; j < piece->n_fixed; ++j) {
    size_t at = j;
    const char *mine = problem->coordinates[piece->fixed[j]].name;
    for (; at > 0; --at) {
      if (strcmp(problem->coordinates[piece->fixed[order[at - 1]]].name, mine) < 0)
        break;
      order[at] = order[at - 1];
    }
    order[at] = j;
  }
  for (size_t j = 0; j < piece->n_fixed; ++j) {
    char value[40];
    snprintf(value, sizeof value, "%.17g", piece->value[order[j]]);
    pn_putf(key, ":%s=%s", problem->coordinates[piece->fixed[order[j]]].name, value);
  }
}

/* "interior", or "interior:t,x": the volume that all equations of these coordinates share. */
static void put_shared(pn_text *key, const pn_sites *sites, uint32_t free_) {
  const pn_coordinate *c = sites->problem->coordinates;
  pn_put(key, shared_key);
  const char *before = NULL; /* the last name put */
  for (size_t left = free_ == sites->volume ? 0 : pn_points_bits(free_); left > 0; --left) {
    const char *next = NULL;
    for (size_t i = 0; i < sites->problem->n_coordinates; ++i)
      if ((free_ >> i & 1) && (!before || strcmp(c[i].name, before) > 0) &&
          (!next || strcmp(c[i].name, next) < 0))
        next = c[i].name;
    pn_putf(key, "%c%s", before ? ',' : ':', next);
    before = next;
  }
}

/* The share of the box that the filter of a piece leaves, measured on its own stream. */
static tn_status filter_share(const pn_sites *sites, const pn_site *site, double *share) {
  const pn_problem *problem = sites->problem;
  char name[PN_SITE_KEY + 16];
  snprintf(name, sizeof name, "measure:%s", site->key);
  double *u = NULL, point[PN_MAX_COORDINATES];
  size_t f = pn_points_bits(site->free_), held = 0;
  *share = 1;
  if (!site->piece || !site->piece->filter || f == 0)
    return TN_OK;
  TN_TRY(TN_NEW(MEASURE_POINTS * f, &u));
  tn_status status = pn_sobol(f, tn_stream_of(0, name), 0, MEASURE_POINTS, u);
  for (size_t i = 0; status == TN_OK && i < MEASURE_POINTS; ++i) {
    bool holds = false;
    pn_site_point(problem, site, PN_NONE, point);
    for (size_t c = 0, k = 0; c < problem->n_coordinates; ++c)
      if (site->free_ >> c & 1) {
        const pn_coordinate *axis = &problem->coordinates[c];
        point[c] = axis->lo + (axis->hi - axis->lo) * u[i * f + k++];
      }
    status = pn_predicate_holds(problem, site->piece->filter, point, &holds);
    held += holds;
  }
  tn_free(&u);
  *share = (held > 0 ? (double)held : 0.5) / MEASURE_POINTS;
  return status;
}

static size_t find_site(const pn_sites *sites, const char *key, uint32_t free_) {
  for (size_t i = 0; i < sites->n_sites; ++i)
    if (strcmp(sites->sites[i].key, key) == 0 && sites->sites[i].free_ == free_)
      return i;
  return PN_NONE;
}

/* The key as a site holds it. */
static void shorten(const char *key, char out[PN_SITE_KEY]) {
  char digest[65];
  size_t n = strlen(key);
  memset(out, 0, PN_SITE_KEY);
  if (n < PN_SITE_KEY) {
    memcpy(out, key, n);
    return;
  }
  pn_sha256_text(key, n, digest);
  snprintf(out, PN_SITE_KEY, "%.*s~%.32s", PN_SITE_KEY - 34, key, digest);
}

tn_status pn_sites_add(pn_sites *sites, const char *full, const pn_term *term,
                       const pn_piece *piece, uint32_t free_, size_t wanted, size_t *out) {
  char key[PN_SITE_KEY];
  shorten(full, key);
  *out = find_site(sites, key, free_);
  if (*out != PN_NONE)
    return TN_OK;
  TN_TRY(tn_grow(&sites->sites, sites->n_sites, sites->n_sites + 1, sizeof *sites->sites));
  pn_site *site = &sites->sites[sites->n_sites];
  memcpy(site->key, key, sizeof key);
  site->term = term;
  site->piece = piece;
  site->free_ = free_;
  site->space = pn_space_bits(sites->problem);
  site->wanted = free_ ? wanted : 1;
  double share = 1;
  bool bodied = pn_site_bodied(sites->problem, site);
  if (bodied)
    TN_TRY(pn_body_site_measure(sites->problem, site, &share, &site->extent));
  else
    TN_TRY(filter_share(sites, site, &share));
  site->measure = share;
  for (size_t c = 0; c < sites->problem->n_coordinates; ++c)
    if ((free_ >> c & 1) && !(bodied && (site->space >> c & 1)))
      site->measure *= relative_length(sites->problem, c);
  *out = sites->n_sites++;
  return TN_OK;
}

/* Points of a condition with f of the d coordinates free, beside `interior` points of an equation.
 */
static size_t default_points(size_t interior, size_t f, size_t d) {
  if (f == 0)
    return 1;
  if (f >= d)
    return interior;
  double n = 4 * pow((double)interior, (double)f / (double)d);
  size_t points = power_of_two_above(n * (1 - 1e-12));
  return points < interior ? points : interior;
}

/* A curved surface has one dimension less than coordinates that vary on it. */
static size_t dimensions(const pn_piece *piece, uint32_t free_) {
  return pn_points_bits(free_) - pn_piece_curved(piece);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Residuals of the whole problem with `interior` points of each equation. */
static double count_rows(const pn_problem *problem, const bool *skip, size_t interior, size_t d) {
  double rows = 0;
  for (size_t i = 0; i < problem->n_equations; ++i) {
    const pn_term *term = &problem->equations[i];
    rows += (double)term->n_relations * (double)(term->points ? term->points : interior);
  }
  for (size_t i = 0; i < problem->n_conditions; ++i) {
    const pn_term *term = &problem->conditions[i];
    size_t f = 0;
    if (skip && skip[i])
      continue;
    if (term->data) {
      rows += (double)term->n_relations * (double)term->data->n;
      continue;
    }
    for (size_t k = 0; k < term->n_pieces; ++k)
      f = larger(f, dimensions(&term->pieces[k], pn_piece_free(problem, term, &term->pieces[k])));
    size_t points = term->points ? term->points : default_points(interior, f, d);
    rows += (double)term->n_relations * (double)points;
  }
  return rows;
}

static size_t default_interior(const pn_problem *problem, const bool *skip, size_t n_theta,
                               size_t d) {
  size_t n = FEWEST;
  while (d > 1 && n < MOST && count_rows(problem, skip, n, d) < 2.5 * (double)n_theta)
    n *= 2;
  return n;
}

/* Shares `total` points among the sites of a term by measure; sites without free coordinates get
 * one. */
static void share_points(pn_sites *sites, const pn_term_sites *term, size_t total) {
  double measure = 0, before = 0;
  for (size_t i = 0; i < term->n_sites; ++i)
    if (sites->sites[term->site[i]].free_)
      measure += sites->sites[term->site[i]].measure;
  for (size_t i = 0; i < term->n_sites; ++i) {
    pn_site *site = &sites->sites[term->site[i]];
    if (!site->free_)
      continue;
    double first = floor((double)total * (before / measure) + 0.5);
    before += site->measure;
    double last = floor((double)total * fmin(before / measure, 1) + 0.5);
    site->wanted = last - first >= 1 ? (size_t)(last - first) : 1;
  }
}

/* The site of that key, which is used up. */
static tn_status add_site(pn_sites *sites, pn_text *key, const pn_term *term, const pn_piece *piece,
                          uint32_t free_, size_t wanted, size_t *out) {
  tn_status status = pn_text_status(key);
  if (status == TN_OK)
    status = pn_sites_add(sites, key->text, term, piece, free_, wanted, out);
  pn_text_free(key);
  return status;
}

static tn_status add_volume(pn_sites *sites, const pn_term *term, pn_term_sites *out) {
  const pn_problem *problem = sites->problem;
  const pn_piece *piece = term->n_pieces ? &term->pieces[0] : NULL;
  bool part = piece && piece->body != problem->region && !term->part;
  bool own = term->points || term->is_condition || (piece && piece->filter) || part;
  pn_text key = {0};
  out->n_sites = 1;
  TN_TRY(TN_NEW(1, &out->site));
  uint32_t free_ = pn_piece_free(problem, term, piece);
  size_t wanted = term->points ? term->points : sites->interior;
  if (own)
    put_name(&key, term, true);
  else
    put_shared(&key, sites, free_);
  if (!own && term->part)
    pn_putf(&key, ":in=%s", term->part);
  return add_site(sites, &key, term, own || piece->body ? piece : NULL, free_, wanted,
                  &out->site[0]);
}

static tn_status add_surface(pn_sites *sites, const pn_term *term, pn_term_sites *out) {
  size_t most_free = 0;
  out->n_sites = term->n_pieces;
  TN_TRY(TN_NEW(term->n_pieces, &out->site));
  for (size_t k = 0; k < term->n_pieces; ++k) {
    const pn_piece *piece = &term->pieces[k];
    uint32_t free_ = pn_piece_free(sites->problem, term, piece);
    pn_text key = {0};
    put_name(&key, term, false);
    put_fixed(&key, sites->problem, piece);
    if (piece->whole)
      pn_putf(&key, ":on=%s", piece->surface);
    TN_TRY(add_site(sites, &key, term, piece, free_, 1, &out->site[k]));
    if (dimensions(piece, free_) > most_free)
      most_free = dimensions(piece, free_);
  }
  size_t total = term->points
                     ? term->points
                     : default_points(sites->interior, most_free, pn_points_bits(sites->volume));
  share_points(sites, out, total);
  return TN_OK;
}

/* The rows of data as a site. */
static tn_status add_rows(pn_sites *sites, pn_text *key, const pn_term *term, size_t *out) {
  TN_TRY(add_site(sites, key, term, NULL, term->coordinates, 1, out));
  sites->sites[*out].data = term->data;
  sites->sites[*out].wanted = term->data->n;
  return TN_OK;
}

static tn_status add_term(pn_sites *sites, const pn_term *term) {
  pn_term_sites *out = &sites->terms[sites->n_terms++];
  pn_text key = {0};
  out->term = term;
  if (term->where == PN_IN)
    return add_volume(sites, term, out);
  if (term->where == PN_ON)
    return add_surface(sites, term, out);
  out->n_sites = 1;
  TN_TRY(TN_NEW(1, &out->site));
  put_name(&key, term, true);
  if (term->where == PN_DATA)
    return add_rows(sites, &key, term, &out->site[0]);
  return add_site(sites, &key, term, NULL, 0, 1, &out->site[0]);
}

static tn_status lay_out(pn_sites *sites, size_t n_theta, const bool *skip) {
  const pn_problem *problem = sites->problem;
  for (size_t i = 0; i < problem->n_equations; ++i)
    sites->volume |= problem->equations[i].coordinates;
  for (size_t i = 0; sites->volume == 0 && i < problem->n_coordinates; ++i)
    sites->volume |= (uint32_t)1 << i;
  sites->interior = problem->points.interior
                        ? problem->points.interior
                        : default_interior(problem, skip, n_theta, pn_points_bits(sites->volume));
  for (size_t i = 0; i < problem->n_equations; ++i)
    TN_TRY(add_term(sites, &problem->equations[i]));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    if (!skip || !skip[i])
      TN_TRY(add_term(sites, &problem->conditions[i]));
  return TN_OK;
}

/* Sites without terms yet, with room for those of the whole problem. */
static tn_status start_sites(const pn_problem *problem, pn_sites **out) {
  TN_TRY(TN_NEW(1, out));
  (*out)->problem = problem;
  tn_status status = TN_NEW(0, &(*out)->sites);
  if (status == TN_OK)
    status = TN_NEW(problem->n_equations + problem->n_conditions + problem->n_checks,
                    &(*out)->terms);
  return status;
}

tn_status pn_sites_new(const pn_problem *problem, size_t n_theta, const bool *skip,
                       pn_sites **out) {
  pn_sites *sites = NULL;
  *out = NULL;
  tn_status status = start_sites(problem, &sites);
  if (status == TN_OK)
    status = lay_out(sites, n_theta, skip);
  if (status != TN_OK)
    pn_sites_free(&sites);
  *out = sites;
  return status;
}

tn_status pn_sites_beside(const pn_sites *like, const bool *chosen, pn_sites **out) {
  const pn_problem *problem = like->problem;
  pn_sites *sites = NULL;
  *out = NULL;
  tn_status status = start_sites(problem, &sites);
  if (status == TN_OK) {
    sites->interior = like->interior;
    sites->volume = like->volume;
  }
  for (size_t i = 0; status == TN_OK && chosen && i < problem->n_conditions; ++i)
    if (chosen[i])
      status = add_term(sites, &problem->conditions[i]);
  for (size_t i = 0; status == TN_OK && !chosen && i < problem->n_checks; ++i)
    status = add_term(sites, &problem->checks[i]);
  if (status != TN_OK)
    pn_sites_free(&sites);
  *out = sites;
  return status;
}

tn_status pn_sites_like(const pn_sites *like, pn_sites **out) {
  *out = NULL;
  pn_sites *sites = NULL;
  TN_TRY(TN_NEW(1, &sites));
  sites->problem = like->problem;
  sites->interior = like->interior;
  sites->volume = like->volume;
  tn_status status = TN_NEW(like->n_terms, &sites->terms);
  if (status == TN_OK)
    status = TN_NEW(like->n_sites, &sites->sites);
  for (size_t m = 0; status == TN_OK && m < like->n_terms; ++m) {
    pn_term_sites *term = &sites->terms[sites->n_terms++];
    *term = (pn_term_sites){like->terms[m].term, like->terms[m].n_sites, NULL};
    status = TN_NEW(term->n_sites, &term->site);
    if (status == TN_OK)
      memcpy(term->site, like->terms[m].site, term->n_sites * sizeof *term->site);
  }
  for (size_t i = 0; status == TN_OK && i < like->n_sites; ++i) {
    pn_site *site = &sites->sites[sites->n_sites++];
    *site = like->sites[i];
    site->n = 0;
    memset(site->column, 0, sizeof site->column);
    memset(site->normal, 0, sizeof site->normal);
  }
  if (status != TN_OK)
    pn_sites_free(&sites);
  *out = sites;
  return status;
}

void pn_site_clear(pn_site *site) {
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c) {
    tn_free(&site->column[c]);
    tn_free(&site->normal[c]);
  }
  site->n = 0;
}

void pn_sites_free(pn_sites **sites) {
  if (!*sites)
    return;
  for (size_t m = 0; m < (*sites)->n_terms; ++m)
    tn_free(&(*sites)->terms[m].site);
  for (size_t i = 0; i < (*sites)->n_sites; ++i)
    pn_site_clear(&(*sites)->sites[i]);
  tn_free(&(*sites)->terms);
  tn_free(&(*sites)->sites);
  tn_free(sites);
}

size_t pn_term_points(const pn_sites *sites, size_t term) {
  size_t n = 0;
  for (size_t i = 0; i < sites->terms[term].n_sites; ++i)
    n += sites->sites[sites->terms[term].site[i]].n;
  return n;
}
