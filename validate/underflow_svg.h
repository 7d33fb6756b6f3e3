/* underflow_svg.h: the pictures of a study. Inside validate/ only.
 *
 * Each writes one <svg> element: no script, no style sheet, no ids, nothing from elsewhere.
 */
#ifndef VALIDATE_UNDERFLOW_SVG_H
#define VALIDATE_UNDERFLOW_SVG_H

#include "validate/report_text.h"

/* ---- Drawing (underflow_draw.c) -------------------------------------------------------------- */

typedef struct vd_area { /* a rectangle in px, y down, and the ranges that its sides stand for */
  double left, top, width, height;
  double x0, x1, y0, y1;
} vd_area;
double vd_area_x(const vd_area *a, double x);
double vd_area_y(const vd_area *a, double y);
void vd_svg_open(vd_text *w, double width, double height, const char *title);
void vd_svg_close(vd_text *w);
/* extra: further attributes or "". anchor: "start", "middle", "end". text is escaped; NaN: nothing. */
void vd_svg_text(vd_text *w, double x, double y, const char *anchor, const char *extra,
                 const char *text);
void vd_svg_power(vd_text *w, double x, double y, const char *anchor, const char *extra,
                  const char *base, int exponent); /* "2" with a raised exponent */
void vd_svg_line(vd_text *w, double x1, double y1, double x2, double y2, const char *attributes);
void vd_svg_rect(vd_text *w, double x, double y, double width, double height,
                 const char *attributes);
/* Grid lines and texts at first, first + step, ... of the x axis; texts are "2^x" if power, and below. */
void vd_area_ticks_x(vd_text *w, const vd_area *a, int first, int step, bool power);
/* Decades of a logarithmic y axis (y0, y1 are log10), at most eight texts. */
void vd_area_decades(vd_text *w, const vd_area *a);
void vd_area_box(vd_text *w, const vd_area *a, const char *title, const char *x_label,
                 const char *y_label);
/* Points joined where both are finite. */
void vd_area_curve(vd_text *w, const vd_area *a, size_t n, const double *x, const double *y,
                   const char *attributes);
const char *vd_colour(size_t i); /* eight, then again */

/* ---- Pictures (underflow_svg.c, underflow_maps.c) -------------------------------------------- */

void vd_draw_gradients(vd_text *w, const vd_underflow *u);  /* error and cosine against the scale */
void vd_draw_windows(vd_text *w, const vd_underflow *u);    /* scales that each channel bears */
void vd_draw_histograms(vd_text *w, const vd_underflow *u); /* exponents, and the format's window */
void vd_draw_maps(vd_text *w, const vd_underflow *u);       /* zeros and losses, layer by scale */
void vd_draw_scaler(vd_text *w, const vd_underflow *u); /* scale, skips and loss, step by step */

#endif
