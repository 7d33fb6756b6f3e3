/* report_fields.c: pictures of the solution for report.html.
 *
 *   one coordinate    solution and exact solution as curves, error, residual
 *   two               maps of solution, exact, error and residual beside one another, training
 *                     points on the last; then slices at four values of time or of the second
 *   three and more    the maps of two at the middle of the other ranges
 *
 * Errors and residuals are shown by absolute value on a logarithmic scale, ten decades at most:
 * what matters there is where they are large. Time runs to the right.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"
#include "pinn/grid.h"
#include "pinn/picture.h"
#include "pinn/summary.h"
#include "pinn/values.h"

enum { MAX_RESIDUALS = 12, LINE_POINTS = 401, MAP_POINTS = 121, SLICES = 4, DOTS = 1000 };

/* One unknown on its grid: item 0 the unknown, item 1 exact if there is one, then residuals. */
typedef struct view {
  pn_run *run;
  size_t unknown;
  size_t h, v; /* coordinates to the right and upwards; v = PN_NONE with one coordinate */
  pn_grid grid;
  size_t n_items, first_residual, n_residuals;
  pn_item items[2 + MAX_RESIDUALS];
  const pn_term *term[MAX_RESIDUALS];
  double *values;  /* [n_items x grid.n] */
  char where[128]; /* ", at z = 0.5": what is fixed */
} view;

static bool has_exact(const view *w) { return w->first_residual == 2; }
static const double *item(const view *w, size_t k) { return w->values + k * w->grid.n; }

/* Which coordinates lie where; the others stay at the middle of their ranges. */
static tn_status choose_axes(view *w) {
  const pn_problem *p = w->run->problem;
  const pn_unknown *u = &p->unknowns[w->unknown];
  size_t coordinate[PN_MAX_COORDINATES], extent[PN_MAX_COORDINATES], n = u->n_of, used = 0;
  double lo[PN_MAX_COORDINATES], hi[PN_MAX_COORDINATES];
  w->h = u->of[0];
  w->v = n > 1 ? u->of[1] : PN_NONE;
  if (n == 2 && p->coordinates[w->v].role == PN_TIME) {
    w->h = u->of[1];
    w->v = u->of[0];
  }
  for (size_t j = 0; j < n; ++j) {
    const pn_coordinate *c = &p->coordinates[u->of[j]];
    bool shown = u->of[j] == w->h || u->of[j] == w->v;
    double middle = c->shown[0] + (c->shown[1] - c->shown[0]) / 2;
    coordinate[j] = u->of[j];
    lo[j] = shown ? c->shown[0] : middle;
    hi[j] = shown ? c->shown[1] : middle;
    extent[j] = shown ? (n == 1 ? LINE_POINTS : MAP_POINTS) : 1;
    if (!shown && used < 100)
      used += (size_t)snprintf(w->where + used, sizeof w->where - used, ", %.20s = %.3g", c->name,
                               middle);
  }
  return pn_grid_new(n, coordinate, lo, hi, extent, &w->grid);
}

/* A residual is shown once, with the first unknown in it. */
static bool shown_before(size_t unknown, uint64_t unknowns) {
  for (size_t i = 0; i < unknown && i < 64; ++i) {
    if (unknowns >> i & 1)
      return true;
  }
  return false;
}

static void choose_items(view *w) {
  const pn_problem *p = w->run->problem;
  w->items[w->n_items++] = (pn_item){.kind = PN_ITEM_UNKNOWN, .unknown = w->unknown};
  if (p->unknowns[w->unknown].exact != NULL)
    w->items[w->n_items++] = (pn_item){.kind = PN_ITEM_EXACT, .unknown = w->unknown};
  w->first_residual = w->n_items;
  for (size_t i = 0; i < p->n_equations; ++i) {
    for (size_t r = 0; r < p->equations[i].n_relations && w->n_residuals < MAX_RESIDUALS; ++r) {
      const pn_relation *relation = &p->equations[i].relations[r];
      pn_item residual = {.kind = PN_ITEM_RELATION, .relation = relation};
      uint64_t unknowns = pn_expr_unknowns(p, relation->lhs) | pn_expr_unknowns(p, relation->rhs);
      if ((pn_item_depends(p, &residual) & ~w->grid.bits) != 0)
        continue;
      if (w->unknown < 64 && !(unknowns >> w->unknown & 1))
        continue;
      if (shown_before(w->unknown, unknowns))
        continue;
      w->term[w->n_residuals++] = &p->equations[i];
      w->items[w->n_items++] = residual;
    }
  }
}

static tn_status view_new(pn_run *run, size_t unknown, view *w) {
  *w = (view){.run = run, .unknown = unknown};
  size_t n_theta = 0;
  pn_values *values = NULL;
  TN_TRY(choose_axes(w));
  choose_items(w);
  TN_TRY(TN_NEW(w->n_items * w->grid.n, &w->values));
  tn_status status =
      pn_values_new(run->model, run->pool, w->grid.bits, w->n_items, w->items, &values);
  if (status == TN_OK)
    status = pn_values_at(values, pn_training_theta(run->training, &n_theta), w->grid.n,
                          (const double *const *)w->grid.column, w->values);
  pn_values_free(&values);
  for (size_t i = 0; status == TN_OK && i < w->n_residuals * w->grid.n; ++i) {
    double *r = w->values + w->first_residual * w->grid.n + i;
    *r = fabs(*r);
  }
  for (size_t k = 0; status == TN_OK && k < w->n_items; ++k) /* holes stay empty */
    pn_mask_item(run->problem, &w->items[k], w->grid.n, (const double *const *)w->grid.column,
                 w->values + k * w->grid.n);
  return status;
}

static void view_free(view *w) {
  tn_free(&w->values);
  pn_grid_free(&w->grid);
}

/* ---- One coordinate -------------------------------------------------------------------------- */

static tn_status add_lines(view *w, pn_report *report) {
  const pn_problem *p = w->run->problem;
  const char *name = p->unknowns[w->unknown].name, *x_name = p->coordinates[w->h].name;
  const double *x = w->grid.axis[0];
  size_t n = w->grid.n, n_plots = 1;
  double *error = NULL;
  char *svg = NULL;
  TN_TRY(TN_NEW(n, &error));
  pn_curve solution[2] = {{name, n, x, item(w, 0), PN_LINE},
                          {"exact", n, x, item(w, 1), PN_DASHED}};
  pn_curve errors = {NULL, n, x, error, PN_LINE}, residuals[MAX_RESIDUALS];
  pn_plot plots[3] = {{.title = name, .x_label = x_name, .curves = solution, .width = 300}};
  plots[0].n_curves = has_exact(w) ? 2 : 1;
  if (has_exact(w)) {
    for (size_t i = 0; i < n; ++i)
      error[i] = fabs(item(w, 0)[i] - item(w, 1)[i]);
    plots[n_plots++] = (pn_plot){.title = "|error|",
                                 .x_label = x_name,
                                 .log_y = true,
                                 .n_curves = 1,
                                 .curves = &errors,
                                 .width = 300};
  }
  for (size_t k = 0; k < w->n_residuals; ++k)
    residuals[k] = (pn_curve){w->n_residuals > 1 ? w->term[k]->name : NULL, n, x,
                              item(w, w->first_residual + k), PN_LINE};
  if (w->n_residuals > 0)
    plots[n_plots++] = (pn_plot){.title = "|residual|",
                                 .x_label = x_name,
                                 .log_y = true,
                                 .n_curves = w->n_residuals,
                                 .curves = residuals,
                                 .width = 300};
  tn_status status = pn_plots_svg(n_plots, plots, 3, &svg);
  if (status == TN_OK)
    pn_report_figure(report, svg, NULL);
  tn_free(&svg);
  tn_free(&error);
  return status;
}

/* ---- Two coordinates ------------------------------------------------------------------------- */

/* Values of an item as a map wants them, [to the right][upwards]; log: |.| no less than 1e-10 of
 * the largest. *out is the caller's. */
static tn_status map_values(const view *w, const double *from, bool error, double **out) {
  const pn_grid *g = &w->grid;
  size_t n = g->n, stride_h = 1, stride_v = 1, nh = 1, nv = 1;
  double largest = 0;
  TN_TRY(TN_NEW(n, out));
  for (size_t j = 0; j < g->n_axes; ++j) {
    size_t stride = 1;
    for (size_t k = j + 1; k < g->n_axes; ++k)
      stride *= g->extent[k];
    if (g->coordinate[j] == w->h) {
      stride_h = stride;
      nh = g->extent[j];
    } else if (g->coordinate[j] == w->v) {
      stride_v = stride;
      nv = g->extent[j];
    }
  }
  for (size_t i = 0; i < nh; ++i) {
    for (size_t j = 0; j < nv; ++j) {
      size_t at = i * stride_h + j * stride_v;
      double value = error ? fabs(item(w, 0)[at] - item(w, 1)[at]) : from[at];
      (*out)[i * nv + j] = value;
      if (value > largest)
        largest = value;
    }
  }
  return TN_OK;
}

static pn_map map_of(const view *w, const char *title, const double *values) {
  const pn_problem *p = w->run->problem;
  const pn_coordinate *h = &p->coordinates[w->h], *v = &p->coordinates[w->v];
  pn_map map = {.title = title,
                .x_label = h->name,
                .y_label = v->name,
                .nx = MAP_POINTS,
                .ny = MAP_POINTS,
                .x0 = h->lo,
                .x1 = h->hi,
                .y0 = v->lo,
                .y1 = v->hi,
                .values = values,
                .equal = h->role == PN_SPACE && v->role == PN_SPACE};
  double ratio = (h->hi - h->lo) / (v->hi - v->lo);
  if (!(ratio > 0.25 && ratio < 4))
    map.equal = false;
  return map;
}

/* A range for errors: from 1e-6 of the largest value up, so that zeros do not stretch the colours.
 * */
static void set_logarithmic(pn_map *map) {
  double low = 0, high = 0;
  pn_range(map->nx * map->ny, map->values, &low, &high);
  map->colours = PN_LOGARITHMIC;
  if (!(high > 0))
    return;
  map->high = high;
  map->low = low > 1e-6 * high && low < high ? low : 1e-6 * high;
}

static bool changes_sign(const double *values, size_t n) {
  double low = 0, high = 0;
  pn_range(n, values, &low, &high);
  return low < 0 && high > 0 && -low > 0.3 * high && high > -0.3 * low;
}

/* Training points of all terms in the picture's plane, the first DOTS of each set: a run of a Sobol
 * sequence covers the box evenly, every second point of it would not. The caller's arrays. */
static tn_status collect_points(const view *w, double **xs, double **ys, size_t *n) {
  const pn_sites *sites = pn_training_sites(w->run->training);
  const pn_problem *p = w->run->problem;
  size_t total = 0;
  for (size_t s = 0; s < sites->n_sites; ++s)
    total += sites->sites[s].n;
  TN_TRY(TN_NEW(total, xs));
  TN_TRY(TN_NEW(total, ys));
  for (size_t s = 0; s < sites->n_sites; ++s) {
    if (strncmp(sites->sites[s].key, "mean:", 5) == 0)
      continue;
    for (size_t i = 0; i < sites->sites[s].n && i < DOTS; ++i) {
      double point[PN_MAX_COORDINATES];
      pn_site_point(p, &sites->sites[s], i, point);
      if (!isfinite(point[w->h]) || !isfinite(point[w->v]))
        continue;
      (*xs)[*n] = point[w->h];
      (*ys)[(*n)++] = point[w->v];
    }
  }
  return TN_OK;
}

typedef struct map_set {
  size_t n;
  pn_map map[3 + MAX_RESIDUALS];
  double *values[3 + MAX_RESIDUALS]; /* owned */
  char title[3 + MAX_RESIDUALS][96];
} map_set;

static tn_status add_map(const view *w, map_set *set, const double *from, bool error,
                         const char *title, const char *more) {
  size_t k = set->n;
  TN_TRY(map_values(w, from, error, &set->values[k]));
  snprintf(set->title[k], sizeof set->title[k], "%.60s%.30s", title, more);
  set->map[k] = map_of(w, set->title[k], set->values[k]);
  ++set->n;
  return TN_OK;
}

static tn_status fill_maps(const view *w, map_set *set) {
  const char *name = w->run->problem->unknowns[w->unknown].name;
  size_t n = (size_t)MAP_POINTS * MAP_POINTS;
  TN_TRY(add_map(w, set, item(w, 0), false, name, w->where));
  set->map[0].colours = changes_sign(set->values[0], n) ? PN_DIVERGING : PN_SEQUENTIAL;
  if (has_exact(w)) {
    TN_TRY(add_map(w, set, item(w, 1), false, "exact", w->where));
    set->map[1].colours = set->map[0].colours;
    double low = 0, high = 0; /* one scale for both */
    pn_range(n, set->values[1], &low, &high);
    if (low < high) {
      set->map[0].low = set->map[1].low = low;
      set->map[0].high = set->map[1].high = high;
    }
    TN_TRY(add_map(w, set, NULL, true, "|error|", ""));
    set_logarithmic(&set->map[2]);
  }
  for (size_t k = 0; k < w->n_residuals; ++k) {
    TN_TRY(
        add_map(w, set, item(w, w->first_residual + k), false, "|residual| of ", w->term[k]->name));
    set_logarithmic(&set->map[set->n - 1]);
  }
  return TN_OK;
}

static tn_status add_maps(view *w, pn_report *report) {
  map_set set = {0};
  double *xs = NULL, *ys = NULL;
  size_t n_points = 0;
  char *svg = NULL;
  tn_status status = fill_maps(w, &set);
  if (status == TN_OK && w->where[0] == '\0')
    status = collect_points(w, &xs, &ys, &n_points);
  if (status == TN_OK) {
    size_t where = set.n - 1; /* on the residual, where refinement has put them */
    set.map[where].n_points = n_points;
    set.map[where].points_x = xs;
    set.map[where].points_y = ys;
    status = pn_maps_svg(set.n, set.map, set.n == 3 ? 3 : 2, &svg);
  }
  if (status == TN_OK)
    pn_report_figure(report, svg,
                     n_points > 0
                         ? "Dots: training points at the end of the run, at most 1 000 of a set."
                         : NULL);
  tn_free(&svg);
  tn_free(&xs);
  tn_free(&ys);
  for (size_t k = 0; k < 3 + MAX_RESIDUALS; ++k)
    tn_free(&set.values[k]);
  return status;
}

/* Curves along one coordinate at SLICES values of the other: of time, if there is one. */
static tn_status add_slices(view *w, pn_report *report) {
  const pn_problem *p = w->run->problem;
  size_t across = p->coordinates[w->h].role == PN_TIME ? w->h : w->v,
         along = across == w->h ? w->v : w->h;
  size_t j_along = w->grid.coordinate[0] == along ? 0 : 1, n = w->grid.extent[j_along];
  size_t m = w->grid.extent[1 - j_along];
  double *line = NULL;
  char title[SLICES][64], *svg = NULL;
  pn_plot plots[SLICES];
  pn_curve curves[SLICES][2];
  TN_TRY(TN_NEW(SLICES * 2 * n, &line));
  for (size_t s = 0; s < SLICES; ++s) {
    size_t at = p->coordinates[across].role == PN_TIME ? s * (m - 1) / (SLICES - 1)
                                                       : (s + 1) * (m - 1) / (SLICES + 1);
    for (size_t k = 0; k < w->first_residual; ++k) {
      double *to = line + (2 * s + k) * n;
      for (size_t i = 0; i < n; ++i)
        to[i] = item(w, k)[j_along == 0 ? i * m + at : at * n + i];
      curves[s][k] = (pn_curve){s > 0    ? NULL
                                : k == 0 ? p->unknowns[w->unknown].name
                                         : "exact",
                                n, w->grid.axis[j_along], to, k == 0 ? PN_LINE : PN_DASHED};
    }
    snprintf(title[s], sizeof title[s], "%.30s = %.3g", p->coordinates[across].name,
             w->grid.axis[1 - j_along][at]);
    plots[s] = (pn_plot){.title = title[s],
                         .x_label = p->coordinates[along].name,
                         .n_curves = w->first_residual,
                         .curves = curves[s],
                         .width = 300,
                         .height = 160};
  }
  tn_status status = pn_plots_svg(SLICES, plots, 2, &svg);
  if (status == TN_OK)
    pn_report_figure(report, svg, NULL);
  tn_free(&svg);
  tn_free(&line);
  return status;
}

tn_status pn_report_fields(pn_run *run, pn_report *report) {
  const pn_problem *p = run->problem;
  pn_report_section(report, "Solution");
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    view w;
    tn_status status = view_new(run, i, &w);
    if (status == TN_OK)
      pn_report_heading(report, p->unknowns[i].name);
    if (status == TN_OK)
      status = w.v == PN_NONE ? add_lines(&w, report) : add_maps(&w, report);
    if (status == TN_OK && w.grid.n_axes == 2)
      status = add_slices(&w, report);
    view_free(&w);
    TN_TRY(status);
  }
  return TN_OK;
}
