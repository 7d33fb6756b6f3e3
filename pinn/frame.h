/* frame.h: axes with their ticks and labels, for picture.c and heatmap.c. */
#ifndef PINN_FRAME_H
#define PINN_FRAME_H

#include "pinn/text.h"

typedef struct pn_axis {
  double low, high; /* shown range, low < high; log: of log10 */
  bool log;
  const char *label; /* or NULL */
} pn_axis;

/* An area of an SVG picture in px (y down) and what its sides mean. */
typedef struct pn_frame {
  double left, top, width, height;
  pn_axis x, y;
} pn_frame;

enum { PN_TICKS = 32 };
typedef struct pn_ticks {
  size_t n;
  double at[PN_TICKS];     /* in the units of the axis (log10 if it is logarithmic) */
  char text[PN_TICKS][24]; /* UTF-8 */
  int power;               /* linear axes: texts are for values / 10^power */
} pn_ticks;

/* Ticks at "nice" places: multiples of 1, 2 or 5 times a power of ten, or decades; about
 * `wanted`. */
void pn_ticks_of(const pn_axis *axis, size_t wanted, pn_ticks *ticks);

/* A range that is not empty, from one that may be (or may not be finite), with a margin of a
 * fraction. */
void pn_axis_fit(pn_axis *axis, double low, double high, double margin);

double pn_frame_x(const pn_frame *f, double x); /* px of a value in the units of the axis */
double pn_frame_y(const pn_frame *f, double y);

/* Grid lines if wanted, then (after the content) box, ticks, labels and title. */
void pn_frame_grid(pn_text *w, const pn_frame *f);
void pn_frame_draw(pn_text *w, const pn_frame *f, const char *title, double title_y);
/* Ticks and texts to the right of a vertical bar that reaches over the frame's height (the y
 * axis). */
void pn_frame_right(pn_text *w, const pn_frame *f, const char *label);

/* <text> at (x, y) px; anchor "start", "middle" or "end"; extra: further attributes or "". */
void pn_svg_text(pn_text *w, double x, double y, const char *anchor, const char *extra,
                 const char *text);
void pn_svg_line(pn_text *w, double x1, double y1, double x2, double y2, const char *stroke);
void pn_svg_open(pn_text *w, double width, double height);
double pn_svg_width(const char *text); /* estimate in px at the size of labels */

#endif
