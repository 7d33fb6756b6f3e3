/* grid.c: rectangular grids of points.
 *
 * The i-th of n values between a and b is a + (b - a) i / (n - 1), and the last one is b itself.
 */
#include "pinn/grid.h"

tn_status pn_grid_new(size_t n_axes, const size_t *coordinate, const double *lo, const double *hi,
                      const size_t *extent, pn_grid *out) {
  *out = (pn_grid){.n_axes = n_axes, .n = 1};
  tn_status status = TN_OK;
  for (size_t j = 0; j < n_axes; ++j) {
    if (extent[j] == 0 || extent[j] > ((size_t)1 << 31) / out->n)
      return TN_FAIL(TN_EINPUT, "a grid has 1 to 2^31 points");
    out->coordinate[j] = coordinate[j];
    out->extent[j] = extent[j];
    out->n *= extent[j];
    out->bits |= UINT32_C(1) << coordinate[j];
  }
  size_t stride = out->n;
  for (size_t j = 0; j < n_axes && status == TN_OK; ++j) {
    size_t m = extent[j];
    double **axis = &out->axis[j], **column = &out->column[coordinate[j]];
    status = TN_NEW(m, axis);
    if (status == TN_OK)
      status = TN_NEW(out->n, column);
    if (status != TN_OK)
      break;
    for (size_t i = 0; i < m; ++i)
      (*axis)[i] = i == 0       ? lo[j]
                   : i + 1 == m ? hi[j]
                                : lo[j] + (hi[j] - lo[j]) * (double)i / (double)(m - 1);
    stride /= m;
    for (size_t i = 0; i < out->n; ++i)
      (*column)[i] = (*axis)[i / stride % m];
  }
  if (status != TN_OK)
    pn_grid_free(out);
  return status;
}

size_t pn_grid_extent(const pn_problem *problem, size_t coordinate, size_t n_axes) {
  static const size_t standard[] = {1, 401, 121, 31};
  const pn_output *o = &problem->output;
  size_t extent = o->n_grid == 0   ? standard[n_axes]
                  : o->n_grid == 1 ? o->grid[0]
                                   : o->grid[coordinate < o->n_grid ? coordinate : 0];
  return extent < 2 ? 2 : extent;
}

tn_status pn_grid_of_unknown(const pn_problem *problem, size_t unknown, pn_grid *out) {
  const pn_unknown *u = &problem->unknowns[unknown];
  double lo[PN_MAX_COORDINATES], hi[PN_MAX_COORDINATES];
  size_t extent[PN_MAX_COORDINATES];
  *out = (pn_grid){0};
  if (u->n_of > 3)
    return TN_OK;
  for (size_t j = 0; j < u->n_of; ++j) {
    lo[j] = problem->coordinates[u->of[j]].shown[0];
    hi[j] = problem->coordinates[u->of[j]].shown[1];
    extent[j] = pn_grid_extent(problem, u->of[j], u->n_of);
  }
  return pn_grid_new(u->n_of, u->of, lo, hi, extent, out);
}

void pn_grid_free(pn_grid *grid) {
  for (size_t j = 0; j < PN_MAX_COORDINATES; ++j) {
    tn_free(&grid->axis[j]);
    tn_free(&grid->column[j]);
  }
  *grid = (pn_grid){0};
}
