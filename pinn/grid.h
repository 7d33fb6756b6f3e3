/* grid.h: rectangular grids of points, last coordinate fastest. Inside pinn/ only. */
#ifndef PINN_GRID_H
#define PINN_GRID_H

#include "pinn/problem.h"

typedef struct pn_grid {
  size_t n_axes;
  size_t coordinate[PN_MAX_COORDINATES]; /* of each axis, an index of the problem */
  size_t extent[PN_MAX_COORDINATES];     /* values along each axis, at least 1 */
  double *axis[PN_MAX_COORDINATES];      /* the values, owned */
  size_t n;                              /* points: the product */
  double *column[PN_MAX_COORDINATES]; /* [n] by coordinate of the problem, owned; NULL: not in it */
  uint32_t bits;                      /* the coordinates in it */
} pn_grid;

/* extent[j] values from lo[j] to hi[j], both included (one value: lo). No axis: one point.
 * TN_EINPUT when there are more than 2^31 points. */
tn_status pn_grid_new(size_t n_axes, const size_t *coordinate, const double *lo, const double *hi,
                      const size_t *extent, pn_grid *out) TN_MUST_USE;
/* Values along a coordinate in such a grid when `n_axes` (up to 3) vary, at least 2. */
size_t pn_grid_extent(const pn_problem *problem, size_t coordinate, size_t n_axes);
/* The grid of an unknown for files and pictures: [output] grid, or a standard number of values an
 * axis by the number of coordinates. More than three coordinates: n_axes = 0, n = 0. */
tn_status pn_grid_of_unknown(const pn_problem *problem, size_t unknown, pn_grid *out) TN_MUST_USE;
/* grid_text.c: "x=-1:1:201,t=0.5", as --grid has it; errors name --grid. */
tn_status pn_grid_text(pn_problem *problem, const char *text, pn_grid *out) TN_MUST_USE;
void pn_grid_free(pn_grid *grid);

#endif
