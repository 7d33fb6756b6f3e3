/* report_svg.c: one picture of a report: lines, grouped bars or a histogram, as an <svg> element.
 *
 * Dark on light, no script, no style sheet, no ids, no resources from elsewhere, so that several can
 * stand in one page. Axes have labels and ticks (decades on a logarithmic one, else steps of 1, 2 or
 * 5 times a power of ten), a legend names each curve and says how many numbers are behind it. Values
 * that are not finite, or not positive on a logarithmic axis, leave a gap.
 */
#include "validate/report_text.h"

#include <math.h>
#include <string.h>

/* Eight colours that the colour-blind can tell apart, dark enough for thin lines on white. */
static const char *const colours[] = {"#0a66c2", "#d9480f", "#12805c", "#b5368f",
                                      "#b08900", "#2a9dc4", "#5b3fb5", "#374151"};
enum {
  COLOURS = sizeof colours / sizeof colours[0],
  WIDTH = 700,
  LEFT = 74,
  RIGHT = 16,
  TOP = 34,
  HEIGHT = 250, /* of the area with the curves */
  LEGEND_ROW = 18,
  TICKS = 8 /* at most about so many on an axis */
};

typedef struct frame {
  const vd_plot *p;
  double x0, x1, y0, y1; /* the ranges shown; y of the logarithm on a logarithmic axis */
  int drop;              /* px that names of groups need below the axis because they stand aslant */
} frame;

static double on_axis(const vd_plot *p, double y) { return !p->log_y ? y : y > 0 ? log10(y) : NAN; }

static double px(const frame *f, double x) {
  return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}
static double py(const frame *f, double y) {
  return TOP + HEIGHT - (y - f->y0) / (f->y1 - f->y0) * HEIGHT;
}

/* ---- Ranges --------------------------------------------------------------------------------- */

static void widen(double v, double *low, double *high) {
  if (!isfinite(v))
    return;
  *low = fmin(*low, v);
  *high = fmax(*high, v);
}

/* The end of a histogram's interval i. */
static double step_end(const vd_curve *c, size_t i) {
  if (i + 1 < c->n)
    return c->x[i + 1];
  return c->x[i] + (i > 0 ? c->x[i] - c->x[i - 1] : 1);
}

enum { LETTER = 7 }; /* px, about */

/* Names that do not fit side by side stand at 30 degrees. */
static int drop_of(const vd_plot *p) {
  size_t longest = 0;
  for (size_t i = 0; i < p->n_groups; ++i)
    longest = strlen(p->groups[i]) > longest ? strlen(p->groups[i]) : longest;
  size_t room = (WIDTH - LEFT - RIGHT) / (p->n_groups > 0 ? p->n_groups : 1);
  return LETTER * longest > room ? (int)(LETTER * longest / 2) : 0;
}

static frame frame_of(const vd_plot *p) {
  frame f = {p, INFINITY, -INFINITY, INFINITY, -INFINITY, drop_of(p)};
  for (size_t k = 0; k < p->n_curves; ++k)
    for (size_t i = 0; i < p->curve[k].n; ++i) {
      widen(on_axis(p, p->curve[k].y[i]), &f.y0, &f.y1);
      if (p->kind != VD_BARS)
        widen(p->curve[k].x[i], &f.x0, &f.x1);
      if (p->kind == VD_STEPS)
        widen(step_end(p->curve + k, i), &f.x0, &f.x1);
    }
  if (p->kind == VD_BARS)
    f.x0 = -0.5, f.x1 = (double)p->n_groups - 0.5;
  else if (p->n_groups > 0)
    f.x0 = -0.25, f.x1 = (double)p->n_groups - 0.75;
  if (!(f.x1 > f.x0))
    f.x0 = isfinite(f.x0) ? f.x0 - 0.5 : 0, f.x1 = f.x0 + 1;
  if (!isfinite(f.y0))
    f.y0 = 0, f.y1 = 1;
  if (p->log_y) {
    f.y0 = floor(f.y0 - (p->kind == VD_BARS ? 0.3 : 0.02)); /* the lowest bar stays visible */
    f.y1 = fmax(ceil(f.y1), f.y0 + 1);
  } else {
    f.y0 = p->kind == VD_LINES ? f.y0 : fmin(f.y0, 0);
    double margin = 0.05 * (f.y1 > f.y0 ? f.y1 - f.y0 : 1);
    f.y1 += margin;
    f.y0 -= f.y0 == 0 ? 0 : margin;
  }
  return f;
}

/* ---- Axes ----------------------------------------------------------------------------------- */

static void put_label(vd_text *w, double x, double y, const char *anchor, const char *text) {
  vd_put(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#374151\">", x, y, anchor);
  vd_put_html(w, text);
  vd_put(w, "</text>\n");
}

static double nice_step(double range) {
  double step = pow(10, floor(log10(range / TICKS)));
  return range / step <= TICKS         ? step
         : range / (2 * step) <= TICKS ? 2 * step
         : range / (5 * step) <= TICKS ? 5 * step
                                       : 10 * step;
}

static void put_tick(vd_text *w, const frame *f, double y, const char *superscript, double number) {
  double at = py(f, y);
  vd_put(w, "<path d=\"M%d %.1fh%d\" stroke=\"#e5e7eb\"/>\n", LEFT, at, WIDTH - LEFT - RIGHT);
  vd_put(w, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#374151\">", LEFT - 8, at + 4);
  if (superscript)
    vd_put(w, "10<tspan dy=\"-5\" font-size=\"10\">%s</tspan></text>\n", superscript);
  else
    vd_put(w, "%.3g</text>\n", number);
}

static void put_y_axis(vd_text *w, const frame *f) {
  double step = f->p->log_y ? fmax(1, ceil((f->y1 - f->y0) / TICKS)) : nice_step(f->y1 - f->y0);
  for (double y = ceil(f->y0 / step) * step; y <= f->y1 + 1e-9 * step; y += step) {
    vd_text exponent = {0};
    vd_put(&exponent, "%s%.0f", y < 0 ? "\xe2\x88\x92" : "", fabs(y)); /* a minus sign */
    if (exponent.status != TN_OK)
      w->status = exponent.status;
    else
      put_tick(w, f, y, f->p->log_y ? exponent.text : NULL, fabs(y) < 1e-9 * step ? 0 : y);
    tn_free(&exponent.text);
  }
  if (f->p->y_label) {
    vd_put(w,
           "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\" "
           "fill=\"#374151\">",
           TOP + HEIGHT / 2);
    vd_put_html(w, f->p->y_label);
    vd_put(w, "</text>\n");
  }
}

static void put_x_axis(vd_text *w, const frame *f) {
  const vd_plot *p = f->p;
  size_t every = (p->n_groups + 23) / 24; /* names that do not touch */
  for (size_t i = 0; i < p->n_groups; i += every) {
    double x = px(f, (double)i);
    if (f->drop == 0) {
      put_label(w, x, TOP + HEIGHT + 18, "middle", p->groups[i]);
      continue;
    }
    vd_put(w, "<g transform=\"translate(%.1f %d) rotate(-30)\">", x + 4, TOP + HEIGHT + 14);
    put_label(w, 0, 0, "end", p->groups[i]);
    vd_put(w, "</g>\n");
  }
  double step = nice_step(f->x1 - f->x0);
  for (double x = ceil(f->x0 / step) * step; p->n_groups == 0 && x <= f->x1; x += step) {
    double at = px(f, x);
    vd_put(w, "<path d=\"M%.1f %dv5\" stroke=\"#6b7280\"/>\n", at, TOP + HEIGHT);
    vd_put(w, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#374151\">%.4g</text>\n", at,
           TOP + HEIGHT + 18, fabs(x) < 1e-9 * step ? 0 : x);
  }
  vd_put(w, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#6b7280\"/>\n", LEFT, TOP,
         TOP + HEIGHT, WIDTH - RIGHT);
  if (p->x_label)
    put_label(w, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, TOP + HEIGHT + 38 + f->drop, "middle",
              p->x_label);
}

/* ---- Curves --------------------------------------------------------------------------------- */

static void put_line(vd_text *w, const frame *f, const vd_curve *c, const char *colour) {
  bool open = false;
  vd_put(w, "<path d=\"");
  for (size_t i = 0; i < c->n; ++i) {
    double y = on_axis(f->p, c->y[i]);
    bool drawn = isfinite(y) && isfinite(c->x[i]);
    if (drawn)
      vd_put(w, "%c%.1f %.1f", open ? 'L' : 'M', px(f, c->x[i]), py(f, y));
    open = drawn;
  }
  vd_put(w, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"/>\n", colour);
  for (size_t i = 0; i < c->n && c->n <= 64; ++i) {
    double y = on_axis(f->p, c->y[i]);
    if (isfinite(y) && isfinite(c->x[i]))
      vd_put(w, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n", px(f, c->x[i]),
             py(f, y), colour);
  }
}

/* The bar of value v from the axis (or 0) up, between x and x + width in px. */
static void put_bar(vd_text *w, const frame *f, double x, double width, double v,
                    const char *colour, double opacity) {
  double y = on_axis(f->p, v);
  if (!isfinite(y))
    return;
  double base = py(f, f->p->log_y ? f->y0 : fmin(fmax(0, f->y0), f->y1)), top = py(f, y);
  vd_put(w,
         "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
         "fill-opacity=\"%.2f\"/>\n",
         x, fmin(base, top), width, fabs(base - top), colour, opacity);
}

static void put_curve(vd_text *w, const frame *f, size_t k) {
  const vd_plot *p = f->p;
  const vd_curve *c = p->curve + k;
  const char *colour = colours[k % COLOURS];
  double group = px(f, 1) - px(f, 0), width = 0.8 * group / (double)p->n_curves;
  if (p->kind == VD_LINES) {
    put_line(w, f, c, colour);
    return;
  }
  for (size_t i = 0; i < c->n; ++i)
    if (p->kind == VD_BARS)
      put_bar(w, f, px(f, (double)i) - 0.4 * group + (double)k * width, width, c->y[i], colour, 1);
    else
      put_bar(w, f, px(f, c->x[i]), px(f, step_end(c, i)) - px(f, c->x[i]), c->y[i], colour,
              p->n_curves > 1 ? 0.45 : 0.8);
}

static int put_legend(vd_text *w, const frame *f) {
  const vd_plot *p = f->p;
  int rows = 0;
  double x = LEFT, y = TOP + HEIGHT + 60 + f->drop;
  for (size_t k = 0; k < p->n_curves; ++k) {
    vd_text label = {0};
    vd_put(&label, "%s", p->curve[k].name ? p->curve[k].name : "");
    if (p->curve[k].entries > 0)
      vd_put(&label, " (%zu entries)", p->curve[k].entries);
    double width = 34 + LETTER * (double)label.used;
    if (k > 0 && x + width > WIDTH - RIGHT)
      x = LEFT, y += LEGEND_ROW, ++rows;
    vd_put(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y - 10,
           colours[k % COLOURS]);
    if (label.status == TN_OK)
      put_label(w, x + 18, y, "start", label.text);
    else
      w->status = label.status;
    tn_free(&label.text);
    x += width;
  }
  return rows;
}

tn_status vd_plot_svg(const vd_plot *plot, char **out) {
  vd_text body = {0}, w = {0};
  frame f = frame_of(plot);
  *out = NULL;
  put_label(&body, LEFT, 20, "start", plot->title ? plot->title : "");
  put_y_axis(&body, &f);
  for (size_t k = 0; k < plot->n_curves; ++k)
    put_curve(&body, &f, k);
  put_x_axis(&body, &f);
  int height = TOP + HEIGHT + 72 + f.drop + LEGEND_ROW * put_legend(&body, &f);
  vd_put(&w,
         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
         "height=\"%d\" font-family=\"system-ui,sans-serif\" font-size=\"13\" role=\"img\" "
         "aria-label=\"",
         WIDTH, height, WIDTH, height);
  vd_put_html(&w, plot->title ? plot->title : "");
  vd_put(&w, "\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH, height);
  if (body.status == TN_OK)
    vd_put_plain(&w, body.text, body.used);
  else
    w.status = body.status;
  tn_free(&body.text);
  vd_put(&w, "</svg>\n");
  return vd_text_finish(&w, out);
}
