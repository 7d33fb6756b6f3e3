/* picture.c: curves in SVG: losses against steps, slices of a field, solutions of ordinary
 * equations.
 *
 * A line of 10^5 points in 500 px is thinned: consecutive points are put into as many buckets as
 * there are px, and each gives its lowest and its highest point in their order, so spikes survive.
 * Where a value is not finite, or not positive on a logarithmic axis, the line breaks. Curves are
 * clipped by a nested <svg> element, which needs no id and so cannot meet another picture's.
 */
#include "pinn/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/frame.h"

/* Eight colours that the colour-blind can tell apart, dark enough for thin lines on white. */
static const char *const colours[] = {"#0a66c2", "#d9480f", "#12805c", "#b5368f",
                                      "#b08900", "#2a9dc4", "#5b3fb5", "#374151"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

static double on_axis(double x, bool log) { return !log ? x : x > 0 ? log10(x) : NAN; }

void pn_range(size_t n, const double *values, double *low, double *high) {
  *low = INFINITY;
  *high = -INFINITY;
  for (size_t i = 0; i < n; ++i) {
    if (!isfinite(values[i]))
      continue;
    *low = fmin(*low, values[i]);
    *high = fmax(*high, values[i]);
  }
  if (*low > *high)
    *low = *high = 0;
}

/* The range of the points of all curves that can be drawn. */
static void plot_range(const pn_plot *p, double x[2], double y[2]) {
  x[0] = y[0] = INFINITY;
  x[1] = y[1] = -INFINITY;
  for (size_t k = 0; k < p->n_curves; ++k)
    for (size_t i = 0; i < p->curves[k].n; ++i) {
      double u = on_axis(p->curves[k].x[i], p->log_x), v = on_axis(p->curves[k].y[i], p->log_y);
      if (!isfinite(u) || !isfinite(v))
        continue;
      x[0] = fmin(x[0], u);
      x[1] = fmax(x[1], u);
      y[0] = fmin(y[0], v);
      y[1] = fmax(y[1], v);
    }
}

/* ---- One plot -------------------------------------------------------------------------------- */

static void put_point(pn_text *w, const pn_frame *f, double x, double y, char command) {
  pn_put_bytes(w, &command, 1);
  pn_put_fixed(w, pn_frame_x(f, x) - f->left, 1);
  pn_put(w, " ");
  pn_put_fixed(w, pn_frame_y(f, y) - f->top, 1);
}

/* The curve's lines, thinned to two points a bucket. */
static void put_path(pn_text *w, const pn_frame *f, const pn_curve *c) {
  size_t buckets = (size_t)f->width + 1, each = c->n > 4 * buckets ? c->n / (2 * buckets) : 1;
  bool open = false;
  for (size_t i = 0; i < c->n; i += each) {
    size_t pair[2] = {i, i}, end = i + each < c->n ? i + each : c->n;
    for (size_t k = i + 1; k < end; ++k) {
      if (c->y[k] < c->y[pair[0]] || isnan(c->y[pair[0]]))
        pair[0] = k;
      if (c->y[k] > c->y[pair[1]] || isnan(c->y[pair[1]]))
        pair[1] = k;
    }
    if (pair[0] > pair[1]) {
      size_t swap = pair[0];
      pair[0] = pair[1];
      pair[1] = swap;
    }
    for (size_t k = 0; k < (pair[0] == pair[1] ? 1u : 2u); ++k) {
      double x = on_axis(c->x[pair[k]], f->x.log), y = on_axis(c->y[pair[k]], f->y.log);
      bool drawn = isfinite(x) && isfinite(y);
      if (drawn)
        put_point(w, f, x, y, open ? 'L' : 'M');
      open = drawn;
    }
  }
}

static void put_dots(pn_text *w, const pn_frame *f, const pn_curve *c, const char *colour) {
  pn_putf(w, "<path d=\"");
  for (size_t i = 0; i < c->n; ++i) {
    double x = on_axis(c->x[i], f->x.log), y = on_axis(c->y[i], f->y.log);
    if (!isfinite(x) || !isfinite(y))
      continue;
    put_point(w, f, x, y, 'M');
    pn_put(w, "h0"); /* a line of no length with round ends is a dot */
  }
  pn_putf(w, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"4.5\" stroke-linecap=\"round\"/>\n",
          colour);
}

static void put_curves(pn_text *w, const pn_plot *p, const pn_frame *f) {
  pn_put(w, "<svg x=\"");
  pn_put_fixed(w, f->left, 1);
  pn_put(w, "\" y=\"");
  pn_put_fixed(w, f->top, 1);
  pn_put(w, "\" width=\"");
  pn_put_fixed(w, f->width, 1);
  pn_put(w, "\" height=\"");
  pn_put_fixed(w, f->height, 1);
  pn_put(w, "\" overflow=\"hidden\">\n");
  for (size_t k = 0; k < p->n_curves; ++k) {
    const pn_curve *c = &p->curves[k];
    const char *colour = colours[k % COLOURS];
    if (c->style == PN_DOTS) {
      put_dots(w, f, c, colour);
      continue;
    }
    pn_put(w, "<path d=\"");
    put_path(w, f, c);
    pn_putf(w,
            "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" stroke-linejoin=\"round\"%s/>\n",
            colour, c->style == PN_DASHED ? " stroke-dasharray=\"6 4\"" : "");
  }
  pn_put(w, "</svg>\n");
}

static void put_marks(pn_text *w, const pn_plot *p, const pn_frame *f) {
  for (size_t k = 0; k < p->n_marks; ++k) {
    double at = on_axis(p->marks[k].x, p->log_x);
    if (!(at >= f->x.low && at <= f->x.high))
      continue;
    double x = pn_frame_x(f, at);
    bool left = p->marks[k].label && x + 5 + pn_svg_width(p->marks[k].label) > f->left + f->width;
    pn_svg_line(w, x, f->top, x, f->top + f->height, "#9ca3af\" stroke-dasharray=\"3 3");
    if (p->marks[k].label)
      pn_svg_text(w, left ? x - 4 : x + 4, f->top + 13, left ? "end" : "start",
                  " font-size=\"11\" fill=\"#4b5563\" stroke=\"#fff\" stroke-width=\"3\" "
                  "paint-order=\"stroke\"",
                  p->marks[k].label);
  }
}

/* Draws the legend from y on and returns the px that it takes; with w NULL only measures. */
static double legend(pn_text *w, const pn_plot *p, double left, double width, double y) {
  double x = left, used = 0;
  for (size_t k = 0; k < p->n_curves; ++k) {
    const pn_curve *c = &p->curves[k];
    if (!c->label)
      continue;
    double wide = 24 + pn_svg_width(c->label) + 14;
    if (!used)
      used = 18;
    if (x > left && x + wide > left + width) {
      x = left;
      used += 18;
    }
    char stroke[96];
    snprintf(stroke, sizeof stroke, "%s\" stroke-width=\"%s\" stroke-linecap=\"round%s",
             colours[k % COLOURS], c->style == PN_DOTS ? "5" : "2",
             c->style == PN_DASHED ? "\" stroke-dasharray=\"5 4" : "");
    if (w) {
      double middle = y + used - 9;
      pn_svg_line(w, c->style == PN_DOTS ? x + 9 : x, middle,
                  c->style == PN_DOTS ? x + 9.01 : x + 18, middle, stroke);
      pn_svg_text(w, x + 24, middle + 4, "start", "", c->label);
    }
    x += wide;
  }
  return used;
}

enum { LEFT = 70, RIGHT = 18, BOTTOM = 46, TITLE = 22, GAP = 8 };

static double area_width(const pn_plot *p) { return p->width > 0 ? p->width : 560; }
static double area_height(const pn_plot *p) { return p->height > 0 ? p->height : 240; }

static double head_height(const pn_plot *p) {
  return (p->title ? TITLE : 4) + legend(NULL, p, LEFT, area_width(p), 0) + GAP;
}

/* The plot with its upper left corner at (left, top), its area `head` px below. */
static void put_plot(pn_text *w, const pn_plot *p, double left, double top, double head) {
  double x[2], y[2];
  pn_frame f = {left + LEFT,
                top + head,
                area_width(p),
                area_height(p),
                {0, 1, p->log_x, p->x_label},
                {0, 1, p->log_y, p->y_label}};
  plot_range(p, x, y);
  pn_axis_fit(&f.x, x[0], x[1], 0);
  pn_axis_fit(&f.y, y[0], y[1], 0.05);
  if (p->y_low < p->y_high) {
    double low = on_axis(p->y_low, p->log_y), high = on_axis(p->y_high, p->log_y);
    if (isfinite(low) && isfinite(high))
      f.y.low = low, f.y.high = high;
  }
  pn_frame_grid(w, &f);
  put_curves(w, p, &f);
  put_marks(w, p, &f);
  pn_frame_draw(w, &f, p->title, top + 15);
  legend(w, p, f.left, f.width, top + (p->title ? TITLE : 4));
}

tn_status pn_plots_svg(size_t count, const pn_plot *plots, size_t columns, char **svg) {
  pn_text w = {0}, body = {0};
  double width = 0, y = 0;
  if (!count || !columns)
    return TN_FAIL(TN_EINPUT, "a picture of %zu plots in %zu columns", count, columns);
  for (size_t first = 0; first < count; first += columns) {
    size_t end = first + columns < count ? first + columns : count;
    double x = 0, head = 0, area = 0;
    for (size_t k = first; k < end; ++k) {
      head = fmax(head, head_height(&plots[k]));
      area = fmax(area, area_height(&plots[k]));
    }
    for (size_t k = first; k < end; ++k) {
      put_plot(&body, &plots[k], x, y, head);
      x += LEFT + area_width(&plots[k]) + RIGHT;
    }
    width = fmax(width, x);
    y += head + area + BOTTOM;
  }
  pn_svg_open(&w, width, y);
  if (body.text)
    pn_put_bytes(&w, body.text, body.n);
  pn_put(&w, "</svg>\n");
  tn_status status = pn_text_status(&body);
  if (status == TN_OK)
    status = pn_text_take(&w, svg, NULL);
  pn_text_free(&body);
  pn_text_free(&w);
  return status;
}
