/* picture.h: curves and heat maps as SVG texts for the report. Inside pinn/ only.
 *
 * Every function gives one <svg> element (tn_free frees it): no script, no style sheet, no ids, so
 * that several can stand in one HTML page or, alone, in a file. Texts are escaped. NULL texts are
 * left out. Values that are not finite leave a gap.
 */
#ifndef PINN_PICTURE_H
#define PINN_PICTURE_H

#include "tensor/tensor.h"

/* ---- Curves ---------------------------------------------------------------------------------- */

typedef enum pn_curve_style { PN_LINE, PN_DASHED, PN_DOTS } pn_curve_style;

typedef struct pn_curve {
  const char *label; /* in the legend, or NULL */
  size_t n;
  const double *x, *y; /* n each; long lines are thinned to what can be seen */
  pn_curve_style style;
} pn_curve;

typedef struct pn_mark { /* a vertical line, as at the start of a stage */
  double x;
  const char *label; /* or NULL */
} pn_mark;

typedef struct pn_plot {
  const char *title, *x_label, *y_label;
  bool log_x, log_y; /* values <= 0 leave a gap */
  size_t n_curves;
  const pn_curve *curves; /* eight colours, then again */
  size_t n_marks;
  const pn_mark *marks;
  double y_low, y_high; /* y_low < y_high: the range shown; otherwise that of the data */
  double width, height; /* of the area with the curves in px; 0: 560 by 240 */
} pn_plot;

/* `count` plots beside one another, `columns` in a row. One row has one height. */
tn_status pn_plots_svg(size_t count, const pn_plot *plots, size_t columns, char **svg) TN_MUST_USE;

/* ---- Heat maps ------------------------------------------------------------------------------- */

typedef enum pn_map_colours {
  PN_SEQUENTIAL, /* dark blue to yellow, even steps of lightness */
  PN_DIVERGING,  /* blue, white at 0, red: the range is made symmetric */
  PN_LOGARITHMIC /* sequential over log10 of the values; values <= 0 count as the smallest shown */
} pn_map_colours;

typedef struct pn_map {
  const char *title, *x_label, *y_label;
  size_t nx, ny;         /* at least 1 each */
  double x0, x1, y0, y1; /* the grid's ends; x0 < x1, y0 < y1 */
  const double *values;  /* values[i * ny + j] at (x_i, y_j), even steps */
  pn_map_colours colours;
  double low, high; /* low < high: the range of the colours; otherwise that of the data */
  bool equal;       /* one unit has one length on both axes */
  size_t n_points;  /* drawn on top; at most 4000 of them, evenly chosen */
  const double *points_x, *points_y;
} pn_map;

/* `count` maps of one size beside one another, `columns` in a row. */
tn_status pn_maps_svg(size_t count, const pn_map *maps, size_t columns, char **svg) TN_MUST_USE;

/* The smallest and largest finite value; both 0 if there is none. For one range over several
 * maps. */
void pn_range(size_t n, const double *values, double *low, double *high);

#endif
