/* export.h: what `pinn export` writes beside tables. Inside pinn/ only. */
#ifndef PINN_EXPORT_H
#define PINN_EXPORT_H

#include "pinn/grid.h"
#include "pinn/model.h"
#include "pinn/values.h"

/* export_c.c: the n items as one C99 function of the coordinates in `needed`, in the text that is written to path:
 *
 *   void NAME(const double *x, double *out)   x[i]: the coordinates in the order of the file; out[k]: item k
 *
 * theta: the weights, [model->n_theta]; names: of the items; note: lines for the head of the file, without comment marks.
 * The file needs nothing but <math.h>. TN_EUNSUPPORTED for means over points, tables and operations of users. */
tn_status pn_export_c(pn_model *model, const double *theta, uint32_t needed, size_t n, const pn_item *items,
                      const char *const *names, const char *note, const char *path) TN_MUST_USE;

/* vtk.c: values[k * grid->n + i] of n fields on a grid of one to three axes as a legacy VTK file ("rectilinear grid",
 * binary), which ParaView and VisIt open. Points with NaN (holes) keep NaN and are 0 in the field `inside`. */
tn_status pn_vtk_write(const char *path, const char *title, const pn_grid *grid, size_t n,
                       const char *const *names, const double *values) TN_MUST_USE;

/* plot.c: the same values as an SVG file: curves over one coordinate, maps over two; others have one value. */
tn_status pn_plot_write(const char *path, const pn_problem *problem, const pn_grid *grid, size_t n,
                        const char *const *names, const double *values) TN_MUST_USE;

#endif
