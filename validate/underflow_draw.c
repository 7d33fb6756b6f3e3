/* underflow_draw.c: lines, boxes, ticks and texts of the pictures of a study, as SVG.
 *
 * Sizes are px of a page; numbers have one decimal. Texts that may cross a coloured field have a light rim.
 */
#include "validate/underflow_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const colours[] = {"#0a66c2", "#d9480f", "#12805c", "#b5368f",
                                      "#b08900", "#2a9dc4", "#5b3fb5", "#6b7280"};

const char *vd_colour(size_t i) { return colours[i % (sizeof colours / sizeof colours[0])]; }

double vd_area_x(const vd_area *a, double x) {
  return a->left + (x - a->x0) / (a->x1 - a->x0) * a->width;
}
double vd_area_y(const vd_area *a, double y) {
  return a->top + a->height - (y - a->y0) / (a->y1 - a->y0) * a->height;
}

void vd_svg_open(vd_text *w, double width, double height, const char *title) {
  vd_put(w,
         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
         "height=\"%.0f\" font-family=\"system-ui,'Segoe UI',Arial,'DejaVu Sans',sans-serif\" "
         "font-size=\"12\" fill=\"#1f2937\" role=\"img\"><title>",
         width, height, width, height);
  vd_put_html(w, title);
  vd_put(w, "</title>\n");
}

void vd_svg_close(vd_text *w) { vd_put(w, "</svg>\n"); }

void vd_svg_text(vd_text *w, double x, double y, const char *anchor, const char *extra,
                 const char *text) {
  vd_put(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, extra);
  vd_put_html(w, text);
  vd_put(w, "</text>\n");
}

void vd_svg_line(vd_text *w, double x1, double y1, double x2, double y2, const char *attributes) {
  vd_put(w, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
         attributes);
}

void vd_svg_rect(vd_text *w, double x, double y, double width, double height,
                 const char *attributes) {
  vd_put(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x, y,
         fmax(width, 0), fmax(height, 0), attributes);
}

void vd_svg_power(vd_text *w, double x, double y, const char *anchor, const char *extra,
                  const char *base, int exponent) {
  vd_put(
      w,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s<tspan dy=\"-4\" font-size=\"8.5\">%s%d"
      "</tspan></text>\n",
      x, y, anchor, extra, base, exponent < 0 ? "\xe2\x88\x92" : "", abs(exponent));
}

#define TICK " fill=\"#4b5563\" font-size=\"11\""

void vd_area_ticks_x(vd_text *w, const vd_area *a, int first, int step, bool power) {
  for (int v = first; v <= a->x1 + 1e-9; v += step) {
    double x = vd_area_x(a, v), bottom = a->top + a->height;
    vd_svg_line(w, x, a->top, x, bottom, "stroke=\"#e5e7eb\"");
    char text[24];
    snprintf(text, sizeof text, "%d", v);
    if (power)
      vd_svg_power(w, x, bottom + 17, "middle", TICK, "2", v);
    else
      vd_svg_text(w, x, bottom + 17, "middle", TICK, text);
  }
}

void vd_area_decades(vd_text *w, const vd_area *a) {
  int low = (int)ceil(a->y0 - 1e-9), high = (int)floor(a->y1 + 1e-9), step = 1 + (high - low) / 8;
  for (int d = low; d <= high; d += step) {
    double y = vd_area_y(a, d);
    vd_svg_line(w, a->left, y, a->left + a->width, y, "stroke=\"#e5e7eb\"");
    vd_svg_power(w, a->left - 6, y + 4, "end", TICK, "10", d);
  }
}

void vd_area_box(vd_text *w, const vd_area *a, const char *title, const char *x_label,
                 const char *y_label) {
  vd_svg_rect(w, a->left, a->top, a->width, a->height, "fill=\"none\" stroke=\"#9ca3af\"");
  if (title != NULL)
    vd_svg_text(w, a->left, a->top - 9, "start", " font-weight=\"600\" font-size=\"12.5\"", title);
  if (x_label != NULL)
    vd_svg_text(w, a->left + a->width / 2, a->top + a->height + 35, "middle", " fill=\"#4b5563\"",
                x_label);
  if (y_label == NULL)
    return;
  char turned[96];
  double x = a->left - 44, y = a->top + a->height / 2;
  snprintf(turned, sizeof turned, " fill=\"#4b5563\" transform=\"rotate(-90 %.1f %.1f)\"", x, y);
  vd_svg_text(w, x, y, "middle", turned, y_label);
}

void vd_area_curve(vd_text *w, const vd_area *a, size_t n, const double *x, const double *y,
                   const char *attributes) {
  bool open = false;
  vd_put(w, "<path fill=\"none\" stroke-linejoin=\"round\" %s d=\"", attributes);
  for (size_t i = 0; i < n; ++i) {
    bool drawn = isfinite(x[i]) && isfinite(y[i]);
    if (drawn)
      vd_put(w, "%c%.1f %.1f", open ? 'L' : 'M', vd_area_x(a, x[i]), vd_area_y(a, y[i]));
    open = drawn;
  }
  vd_put(w, "\"/>\n");
}
