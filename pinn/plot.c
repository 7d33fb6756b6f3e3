/* plot.c: values on a grid as one SVG file: curves over one coordinate, maps over two. */
#include <stdio.h>
#include <string.h>

#include "pinn/export.h"
#include "pinn/files.h"
#include "pinn/picture.h"

enum { MOST_PICTURES = 64 };

/* The axes along which something varies; their number. */
static size_t varying(const pn_grid *grid, size_t out[PN_MAX_COORDINATES]) {
  size_t n = 0;
  for (size_t a = 0; a < grid->n_axes; ++a)
    if (grid->extent[a] > 1)
      out[n++] = a;
  return n;
}

/* ", y = 0.5" for the axes of one value. */
static void put_fixed(const pn_problem *p, const pn_grid *grid, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (size_t a = 0; a < grid->n_axes && used + 1 < size; ++a)
    if (grid->extent[a] == 1)
      used += (size_t)snprintf(out + used, size - used, ", %.40s = %.6g",
                               p->coordinates[grid->coordinate[a]].name, grid->axis[a][0]);
}

static tn_status curves(const pn_problem *p, const pn_grid *grid, size_t axis, size_t n,
                        char (*titles)[256], const double *values, char **svg) {
  pn_plot plots[MOST_PICTURES] = {{0}};
  pn_curve lines[MOST_PICTURES] = {{0}};
  for (size_t k = 0; k < n; ++k) {
    lines[k] = (pn_curve){.n = grid->n, .x = grid->axis[axis], .y = values + k * grid->n};
    plots[k] = (pn_plot){.title = titles[k],
                         .x_label = p->coordinates[grid->coordinate[axis]].name,
                         .n_curves = 1,
                         .curves = &lines[k]};
  }
  return pn_plots_svg(n, plots, n > 1 ? 2 : 1, svg);
}

/* Time runs to the right; else the first coordinate does. */
static tn_status maps(const pn_problem *p, const pn_grid *grid, const size_t axis[2], size_t n,
                      char (*titles)[256], const double *values, char **svg) {
  const bool swap = p->coordinates[grid->coordinate[axis[1]]].role == PN_TIME;
  const size_t h = axis[swap], v = axis[!swap], nh = grid->extent[h], nv = grid->extent[v];
  const pn_coordinate *ch = &p->coordinates[grid->coordinate[h]], *cv = &p->coordinates[grid->coordinate[v]];
  pn_map all[MOST_PICTURES] = {{0}};
  double *turned = NULL;
  TN_TRY(TN_NEW(n * grid->n, &turned));
  for (size_t k = 0; k < n; ++k) {
    double *to = turned + k * grid->n, low = 0, high = 0;
    for (size_t i = 0; i < nh; ++i)
      for (size_t j = 0; j < nv; ++j)
        to[i * nv + j] = values[k * grid->n + (swap ? j * nh + i : i * nv + j)];
    pn_range(grid->n, to, &low, &high);
    all[k] = (pn_map){.title = titles[k],
                      .x_label = ch->name,
                      .y_label = cv->name,
                      .nx = nh,
                      .ny = nv,
                      .x0 = grid->axis[h][0],
                      .x1 = grid->axis[h][nh - 1],
                      .y0 = grid->axis[v][0],
                      .y1 = grid->axis[v][nv - 1],
                      .values = to,
                      .colours = low < 0 && high > 0 ? PN_DIVERGING : PN_SEQUENTIAL,
                      .equal = ch->role == PN_SPACE && cv->role == PN_SPACE};
  }
  tn_status status = pn_maps_svg(n, all, n > 1 ? 2 : 1, svg);
  tn_free(&turned);
  return status;
}

tn_status pn_plot_write(const char *path, const pn_problem *problem, const pn_grid *grid, size_t n,
                        const char *const *names, const double *values) {
  static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  char titles[MOST_PICTURES][256], fixed[128], *svg = NULL;
  size_t axis[PN_MAX_COORDINATES], n_axes = varying(grid, axis);
  if (n > MOST_PICTURES)
    return TN_FAIL(TN_EINPUT, "%s: %zu pictures; at most %d in one file", path, n, MOST_PICTURES);
  if (n_axes == 0 || n_axes > 2)
    return TN_FAIL(TN_EINPUT,
                   "%s: a picture shows one or two coordinates, and %zu vary here; give the others one value "
                   "each, as in --grid x=0:1:101,y=0.5",
                   path, n_axes);
  put_fixed(problem, grid, fixed, sizeof fixed);
  for (size_t k = 0; k < n; ++k)
    snprintf(titles[k], sizeof titles[k], "%.120s%s", names[k], fixed);
  TN_TRY(n_axes == 1 ? curves(problem, grid, axis[0], n, titles, values, &svg)
                     : maps(problem, grid, axis, n, titles, values, &svg));
  const pn_bytes parts[] = {{head, sizeof head - 1}, {svg, strlen(svg)}, {"\n", 1}};
  tn_status status = pn_write_atomic_parts(path, 3, parts);
  tn_free(&svg);
  return status;
}
