/* points_draw.c: the points of a site, drawn.
 *
 * Unit coordinates come from a Sobol sequence with a scramble of the site's own, from counter-based
 * uniform numbers, or from a regular grid. Filters are met by rejection along one sequence, so what
 * remains of a Sobol sequence is still even.
 */
#include "pinn/points_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/region.h"
#include "pinn/samplers.h"
#include "pinn/sobol.h"

enum { FEWEST_TRIES = 1 << 16 };

size_t pn_points_bits(uint32_t mask) {
  size_t n = 0;
  for (; mask; mask &= mask - 1)
    ++n;
  return n;
}

/* ---- Points ---------------------------------------------------------------------------------- */

void pn_site_point(const pn_problem *problem, const pn_site *site, size_t i, double *point) {
  for (size_t c = 0; c < problem->n_coordinates; ++c)
    point[c] = i != PN_NONE && site->column[c] ? site->column[c][i] : NAN;
  for (size_t j = 0; site->piece && j < site->piece->n_fixed; ++j)
    point[site->piece->fixed[j]] = site->piece->value[j];
}

/* On curved pieces every space coordinate varies, so it is one of those with a column. */
static tn_status resize_normals(pn_site *site, size_t n) {
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c) {
    double *normal = NULL;
    if (!pn_piece_curved(site->piece) || !(site->space >> c & 1))
      continue;
    TN_TRY(TN_NEW(n, &normal));
    if (site->normal[c])
      memcpy(normal, site->normal[c], (site->n < n ? site->n : n) * sizeof *normal);
    tn_free(&site->normal[c]);
    site->normal[c] = normal;
  }
  return TN_OK;
}

tn_status pn_site_resize(pn_site *site, size_t n) {
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c) {
    if (!(site->free_ >> c & 1))
      continue;
    double *column = NULL;
    TN_TRY(TN_NEW(n, &column));
    if (site->column[c])
      memcpy(column, site->column[c], (site->n < n ? site->n : n) * sizeof *column);
    tn_free(&site->column[c]);
    site->column[c] = column;
  }
  TN_TRY(resize_normals(site, n));
  site->n = n;
  return TN_OK;
}

double pn_points_place(const pn_coordinate *axis, double u) {
  double x = axis->log_spacing ? axis->lo * exp(u * log(axis->hi / axis->lo))
                               : axis->lo + (axis->hi - axis->lo) * u;
  return fmin(fmax(x, axis->lo), axis->hi);
}

/* Where the unit coordinates of candidate points come from. */
typedef struct source {
  const pn_problem *problem;
  const pn_site *site;
  enum { SOBOL, UNIFORM, GRID, HALTON, LATIN } kind;
  tn_stream stream;
  size_t f;    /* free coordinates */
  size_t side; /* GRID: points along each */
} source;

/* Evenly spread over [0, 1) along a grid, too. */
static double choice(const source *s, size_t index) {
  const double golden = 0.61803398874989485;
  if (s->kind == UNIFORM)
    return tn_random_uniform(s->stream, index * PN_MAX_COORDINATES + s->site->piece->normal);
  return fmod(((double)index + 0.5) * golden, 1);
}

static tn_status unit_points(const source *s, size_t first, size_t n, double *u) {
  if (s->kind == SOBOL)
    return pn_sobol(s->f, s->stream, first, n, u);
  if (s->kind == HALTON)
    return pn_halton(s->f, s->stream, first, n, u);
  if (s->kind == LATIN)
    return pn_latin(s->f, s->stream, first, n, u);
  for (size_t i = 0; i < n; ++i) {
    uint64_t index = first + i;
    for (size_t c = 0, k = 0; c < s->problem->n_coordinates; ++c) {
      if (!(s->site->free_ >> c & 1))
        continue;
      double *x = &u[i * s->f + k++];
      if (s->kind == UNIFORM) {
        *x = tn_random_uniform(s->stream, (first + i) * PN_MAX_COORDINATES + c);
        continue;
      }
      double j = (double)(index % s->side), side = (double)s->side;
      index /= s->side;
      bool ends =
          s->problem->points.keep_corners && s->side > 1 && !s->problem->coordinates[c].periodic;
      *x = ends ? j / (side - 1) : (j + 0.5) / side;
    }
    if (pn_points_bits(s->site->free_) < s->f) /* the number that chooses among faces */
      u[(i + 1) * s->f - 1] = choice(s, first + i);
  }
  return TN_OK;
}

/* Keeps those of n candidates that the filter lets through, up to `most` points in the site. */
static tn_status keep(const source *s, size_t n, const double *u, pn_site *site, size_t most) {
  double point[PN_MAX_COORDINATES];
  size_t hit = 0;
  if (pn_site_bodied(s->problem, site))
    return pn_body_keep(s->problem, n, u, site, most, &hit);
  for (size_t i = 0; i < n && site->n < most; ++i) {
    bool holds = true;
    pn_site_point(s->problem, site, PN_NONE, point);
    for (size_t c = 0, k = 0; c < s->problem->n_coordinates; ++c)
      if (site->free_ >> c & 1)
        point[c] = pn_points_place(&s->problem->coordinates[c], u[i * s->f + k++]);
    if (site->piece && site->piece->filter)
      TN_TRY(pn_predicate_holds(s->problem, site->piece->filter, point, &holds));
    if (!holds)
      continue;
    for (size_t c = 0; c < s->problem->n_coordinates; ++c)
      if (site->free_ >> c & 1)
        site->column[c][site->n] = point[c];
    ++site->n;
  }
  return TN_OK;
}

tn_status pn_site_nothing(const pn_site *site) {
  const pn_term *term = site->term;
  return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                    "%s `%s` selects 0 points: no point of its part of the box fulfils \"%s\"",
                    term->is_condition ? "condition" : "equation", term->name,
                    term->region ? term->region : "everywhere");
}

static void start_source(const pn_sites *sites, const pn_site *site, const pn_draw *draw, size_t n,
                         source *s) {
  static const char *const kinds[] = {"train", "check", "pool", "scale"};
  const pn_problem *problem = sites->problem;
  char name[256];
  snprintf(name, sizeof name, "points:%s:%zu:%zu:%s", kinds[draw->kind], draw->stage, draw->round,
           site->key);
  *s = (source){
      problem, site, SOBOL, tn_stream_of(draw->seed, name), pn_site_numbers(problem, site), 0};
  const char *sampler = problem->points.sampler;
  if (sampler && strcmp(sampler, "uniform") == 0)
    s->kind = UNIFORM;
  if (sampler && strcmp(sampler, "halton") == 0)
    s->kind = HALTON;
  if (sampler && strcmp(sampler, "lhs") == 0)
    s->kind = LATIN;
  if (sampler && strcmp(sampler, "grid") == 0 && draw->kind == PN_DRAW_TRAIN) {
    s->kind = GRID;
    size_t f = pn_points_bits(site->free_);
    s->side = (size_t)floor(pow((double)n, 1.0 / (double)(f ? f : 1)) + 1e-9);
    if (s->side < 1)
      s->side = 1;
  }
}

tn_status pn_site_draw(const pn_sites *sites, pn_site *site, const pn_draw *draw, size_t n) {
  source s;
  if (site->data)
    return pn_site_rows(sites->problem, site, n);
  start_source(sites, site, draw, n, &s);
  if (site->free_ == 0) {
    bool holds = true;
    double point[PN_MAX_COORDINATES];
    pn_site_point(sites->problem, site, PN_NONE, point);
    if (site->piece)
      TN_TRY(pn_piece_holds(sites->problem, site->piece, point, NULL, &holds));
    site->n = holds ? 1 : 0;
    return holds ? TN_OK : pn_site_nothing(site);
  }
  size_t tries = n, chunk = n < 16 ? 16 : n;
  bool filtered = (site->piece && site->piece->filter) || pn_site_bodied(sites->problem, site);
  if (s.kind == GRID) {
    n = 1;
    for (size_t k = 0; k < pn_points_bits(site->free_); ++k)
      n *= s.side;
    tries = chunk = n;
  } else if (filtered) {
    tries = n < (SIZE_MAX >> 20) && n * 1024 > FEWEST_TRIES ? n * 1024 : FEWEST_TRIES;
  } else {
    chunk = n;
  }
  double *u = NULL;
  site->n = 0;
  TN_TRY(pn_site_resize(site, n));
  site->n = 0;
  TN_TRY(TN_NEW(chunk * s.f, &u));
  tn_status status = TN_OK;
  for (size_t first = 0; status == TN_OK && first < tries && site->n < n; first += chunk) {
    status = unit_points(&s, first, chunk, u);
    if (status == TN_OK)
      status = keep(&s, chunk, u, site, n);
  }
  tn_free(&u);
  if (status == TN_OK && site->n == 0)
    status = pn_site_nothing(site);
  return status;
}

/* ---- All sites ------------------------------------------------------------------------------- */

tn_status pn_sites_draw(pn_sites *sites, const pn_draw *draw) {
  const pn_points *options = &sites->problem->points;
  bool grid = options->sampler && strcmp(options->sampler, "grid") == 0;
  sites->corners = 0;
  for (size_t i = 0; i < sites->n_sites; ++i) {
    pn_site *site = &sites->sites[i];
    size_t factor = (site->free_ || site->data) && draw->factor ? draw->factor : 1;
    TN_TRY(pn_site_draw(sites, site, draw, site->wanted * factor));
    bool surface =
        site->term->where == PN_ON && site->piece && site->free_ && !pn_piece_curved(site->piece);
    if (surface && options->keep_corners && draw->kind == PN_DRAW_TRAIN)
      TN_TRY(pn_site_corners(sites, site, grid));
  }
  return TN_OK;
}
