/* underflow_svg.c: curves of a study: gradient against the loss scale, exponents of the reference with the
 * format's window, and the scaler's way.
 *
 * The exponents of an exact adjoint are those of g; at loss scale S it lies log2 S further up. Instead of moving
 * the histogram the pictures move the format: at S its normal numbers cover exponents from normal - log2 S to
 * top - log2 S of g, and the bars below a histogram show that for every scale.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/underflow_svg.h"

enum { LEFT = 66, HALF = 430, TALL = 210, STRIP = 6 };
#define SHADE "fill=\"#12805c\" opacity=\"0.10\""

/* ---- Gradient -------------------------------------------------------------------------------- */

static double log_or_nan(double x) { return x > 0 && isfinite(x) ? log10(x) : NAN; }

/* log10 of the error or of 1 - cosine. Below 1e-16 a cosine is 1. */
static double of_gradient(const vd_gradient *g, bool cosine) {
  if (!isfinite(g->cosine))
    return NAN;
  return cosine ? log10(fmax(1 - g->cosine, 1e-16)) : log_or_nan(g->error);
}

static void widen(double v, double *low, double *high) {
  if (!isfinite(v))
    return;
  *low = fmin(*low, v);
  *high = fmax(*high, v);
}

static void shade_window(vd_text *w, const vd_underflow *u, const vd_area *a) {
  if (u->window.lo > u->window.hi)
    return;
  double x = vd_area_x(a, u->window.lo);
  vd_svg_rect(w, x, a->top, vd_area_x(a, u->window.hi) - x, a->height, SHADE);
}

static void mark_best(vd_text *w, const vd_underflow *u, const vd_area *a) {
  double x = vd_area_x(a, u->best);
  vd_svg_line(w, x, a->top, x, a->top + a->height,
              "stroke=\"#12805c\" stroke-width=\"1.4\" stroke-dasharray=\"4 3\"");
}

static bool is_weight(const char *block) {
  size_t n = strlen(block);
  return n > 7 && strcmp(block + n - 7, ".weight") == 0;
}

static void put_legend(vd_text *w, const vd_underflow *u, double x, double y) {
  vd_svg_line(w, x, y - 4, x + 20, y - 4, "stroke=\"#111827\" stroke-width=\"3\"");
  vd_svg_text(w, x + 26, y, "start", "", "whole gradient");
  x += 128;
  if (u->single != NULL) {
    vd_svg_line(w, x, y - 4, x + 20, y - 4, "stroke=\"#111827\" stroke-dasharray=\"2 3\"");
    vd_svg_text(w, x + 26, y, "start", "", "f32");
    x += 68;
  }
  if (u->moved != NULL) {
    vd_svg_line(w, x, y - 4, x + 20, y - 4,
                "stroke=\"#111827\" stroke-width=\"1.8\" stroke-dasharray=\"7 3\"");
    vd_svg_text(w, x + 26, y, "start", "", "what the scale does");
    x += 158;
  }
  char attributes[64];
  for (size_t b = 0, k = 0; b < u->n_blocks && k < 8; ++b) {
    if (!is_weight(u->block[b]))
      continue;
    snprintf(attributes, sizeof attributes, "stroke=\"%s\" stroke-width=\"1.6\"", vd_colour(k++));
    vd_svg_line(w, x, y - 4, x + 20, y - 4, attributes);
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)strlen(u->block[b]) - 7, u->block[b]);
    vd_svg_text(w, x + 26, y, "start", "", name);
    x += 36 + 6.6 * (double)strlen(name);
  }
}

/* What the scale does: the distance to the gradient at the advised one, which itself is no point. */
static void put_moved(vd_text *w, const vd_underflow *u, const vd_area *a) {
  double x[32], y[32];
  size_t n = 0;
  for (size_t i = 0; i < u->n_scales; ++i) {
    double v = log_or_nan(u->moved[i]);
    if (u->scale[i] == u->best)
      continue;
    x[n] = u->scale[i];
    y[n++] = v >= a->y0 ? v : NAN;
  }
  vd_area_curve(w, a, n, x, y, "stroke=\"#111827\" stroke-width=\"1.8\" stroke-dasharray=\"7 3\"");
}

static void put_curves(vd_text *w, const vd_underflow *u, const vd_area *a, bool cosine) {
  double x[32], y[32];
  char attributes[96];
  size_t k = 0;
  for (size_t i = 0; i < u->n_scales; ++i)
    x[i] = u->scale[i];
  for (size_t b = 0; b <= u->n_blocks; ++b) {
    bool all = b == u->n_blocks;
    if (!all && !is_weight(u->block[b]))
      continue;
    if (!all && k >= 8)
      continue;
    for (size_t i = 0; i < u->n_scales; ++i)
      y[i] = of_gradient(&u->gradient[b * u->n_scales + i], cosine);
    snprintf(attributes, sizeof attributes, "stroke=\"%s\" stroke-width=\"%s\"",
             all ? "#111827" : vd_colour(k), all ? "3" : "1.6");
    vd_area_curve(w, a, u->n_scales, x, y, attributes);
    k += !all;
  }
  if (u->moved != NULL && !cosine)
    put_moved(w, u, a);
  for (size_t i = 0; i < u->n_scales; ++i) {
    const vd_gradient *g = &u->gradient[u->n_blocks * u->n_scales + i];
    if (g->nonfinite > 0)
      vd_svg_text(w, fmin(vd_area_x(a, x[i]), a->left + a->width - 8), a->top + 15, "middle",
                  " fill=\"#c0271c\" font-weight=\"700\"", "\xe2\x88\x9e");
  }
  double single = u->single != NULL ? of_gradient(&u->single[u->n_blocks], cosine) : NAN;
  if (isfinite(single) && single >= a->y0)
    vd_svg_line(w, a->left, vd_area_y(a, single), a->left + a->width, vd_area_y(a, single),
                "stroke=\"#111827\" stroke-dasharray=\"2 3\"");
}

static void put_panel(vd_text *w, const vd_underflow *u, double left, bool cosine) {
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < (u->n_blocks + 1) * u->n_scales; ++i)
    widen(of_gradient(&u->gradient[i], cosine), &low, &high);
  if (u->single != NULL)
    widen(of_gradient(&u->single[u->n_blocks], cosine), &low, &high);
  for (size_t i = 0; u->moved != NULL && !cosine && i < u->n_scales; ++i)
    if (u->moved[i] > 1e-10)
      widen(log_or_nan(u->moved[i]), &low, &high);
  if (low > high)
    low = -1, high = 0;
  vd_area a = {left,
               56,
               HALF,
               TALL,
               u->scale[0],
               u->scale[u->n_scales - 1],
               floor(low - 0.1),
               ceil(high + 0.1)};
  if (a.x1 <= a.x0)
    a.x1 = a.x0 + 1;
  shade_window(w, u, &a);
  vd_area_decades(w, &a);
  vd_area_ticks_x(w, &a, u->scale[0], 4, true);
  put_curves(w, u, &a, cosine);
  mark_best(w, u, &a);
  vd_area_box(w, &a,
              cosine ? "Direction: 1 \xe2\x88\x92 cosine with the f64 gradient"
                     : "Error: |g \xe2\x88\x92 g_f64| / |g_f64|",
              "loss scale", NULL);
}

void vd_draw_gradients(vd_text *w, const vd_underflow *u) {
  if (u->gradient == NULL || u->n_scales == 0)
    return;
  vd_svg_open(w, 2 * LEFT + 2 * HALF + 40, 56 + TALL + 44, "Gradient against the loss scale");
  put_legend(w, u, LEFT, 16);
  put_panel(w, u, LEFT, false);
  put_panel(w, u, 2 * LEFT + HALF + 20, true);
  vd_svg_close(w);
}

/* ---- Exponents ------------------------------------------------------------------------------- */

static const double first_exponent = -60, last_exponent = 20;

/* The numbers of a group's activations or adjoints, all layers together. */
static size_t add_up(const vd_underflow *u, const vd_group *g, vd_operand operand,
                     double count[VD_BINS]) {
  size_t n = 0;
  for (int b = 0; b < VD_BINS; ++b)
    count[b] = 0;
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    if (c->operand != operand || c->kept || strcmp(c->label, g->label) != 0 ||
        strcmp(c->at, g->at) != 0)
      continue;
    for (int b = 0; b < VD_BINS; ++b)
      count[b] += (double)c->histogram.count[b];
    n += c->histogram.n;
  }
  return n;
}

/* The exponents of normal (subnormal) numbers, moved down by s, cut to the picture. */
static void put_cover(vd_text *w, const vd_area *a, const vd_format *f, int s, double y,
                      double height, const char *normal, const char *subnormal) {
  double top = log2(f->largest) - s, middle = f->normal - s, low = f->smallest - s;
  double x0 = fmax(low, a->x0), x1 = fmin(fmax(middle, a->x0), a->x1),
         x2 = fmin(fmax(top, a->x0), a->x1);
  if (x1 > x0)
    vd_svg_rect(w, vd_area_x(a, x0), y, vd_area_x(a, x1) - vd_area_x(a, x0), height, subnormal);
  if (x2 > x1)
    vd_svg_rect(w, vd_area_x(a, x1), y, vd_area_x(a, x2) - vd_area_x(a, x1), height, normal);
}

static void put_bars(vd_text *w, const vd_area *a, const double count[VD_BINS], size_t n,
                     const char *colour) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "fill=\"%s\"", colour);
  double below = 0, above = 0;
  for (int b = 0; b < VD_BINS; ++b) {
    double e = VD_BIN_FIRST + b, y = n > 0 ? count[b] / (double)n : 0;
    if (e < a->x0)
      below += y;
    else if (e >= a->x1)
      above += y;
    else if (y > 0)
      vd_svg_rect(w, vd_area_x(a, e) + 0.4, vd_area_y(a, y),
                  vd_area_x(a, 1) - vd_area_x(a, 0) - 0.8, a->top + a->height - vd_area_y(a, y),
                  attributes);
  }
  char text[64];
  snprintf(text, sizeof text, "%.2g %% further down", 100 * below);
  if (below > 0)
    vd_svg_text(w, a->left + 4, a->top + 14, "start", " font-size=\"11\" fill=\"#4b5563\"", text);
  snprintf(text, sizeof text, "%.2g %% further up", 100 * above);
  if (above > 0)
    vd_svg_text(w, a->left + a->width - 4, a->top + 14, "end", " font-size=\"11\" fill=\"#4b5563\"",
                text);
}

/* Bars below a histogram of adjoints: one a loss scale. */
static void put_strips(vd_text *w, const vd_underflow *u, const vd_area *a, double top) {
  for (size_t k = 0; k < u->n_scales; ++k) {
    double y = top + (double)k * (STRIP + 2);
    bool best = u->scale[k] == u->best;
    put_cover(w, a, &u->format, u->scale[k], y, STRIP,
              best ? "fill=\"#12805c\"" : "fill=\"#9fb8ad\"",
              best ? "fill=\"#8cc4ad\"" : "fill=\"#dbe6e1\"");
    if (best || (k % 3 == 0 && abs(u->scale[k] - u->best) > 2))
      vd_svg_power(w, a->left - 6, y + STRIP + 1, "end",
                   best ? " font-size=\"11\" font-weight=\"700\" fill=\"#0b6b4b\""
                        : " font-size=\"11\" fill=\"#4b5563\"",
                   best ? "S = 2" : "2", u->scale[k]);
  }
}

static void put_histogram(vd_text *w, const vd_underflow *u, const vd_group *g, double left,
                          double top, double height, bool adjoint) {
  double count[VD_BINS], most = 0;
  size_t n = add_up(u, g, adjoint ? VD_ADJOINT : VD_ACTIVATION, count);
  for (int b = 0; b < VD_BINS; ++b)
    most = fmax(most, n > 0 ? count[b] / (double)n : 0);
  vd_area a = {left,           top,           HALF, height,
               first_exponent, last_exponent, 0,    most > 0 ? 1.12 * most : 1};
  put_cover(w, &a, &u->format, adjoint ? u->best : 0, top, height, "fill=\"#e3f1ea\"",
            "fill=\"#f5efd8\"");
  vd_area_ticks_x(w, &a, (int)first_exponent, 10, true);
  put_bars(w, &a, count, n, adjoint ? "#d9480f" : "#0a66c2");
  char title[256];
  snprintf(title, sizeof title, "%s of %s (%s)", adjoint ? "adjoints" : "activations", g->label,
           g->at);
  vd_area_box(w, &a, title, "size of a number, |x|", NULL);
  char text[32];
  snprintf(text, sizeof text, "%.2g %%", 100 * a.y1);
  vd_svg_text(w, left - 6, top + 9, "end", " font-size=\"11\" fill=\"#4b5563\"", text);
  vd_svg_text(w, left - 6, top + height, "end", " font-size=\"11\" fill=\"#4b5563\"", "0");
  vd_svg_text(w, left - 6, top + height / 2 + 4, "end", " font-size=\"11\" fill=\"#4b5563\"",
              "share");
  if (n == 0)
    vd_svg_text(w, a.left + a.width / 2, a.top + a.height / 2, "middle", " fill=\"#6b7280\"",
                "all are 0");
  if (adjoint)
    put_strips(w, u, &a, top + height + 44);
}

/* What the colours of the field and of the bars mean. */
static void put_key(vd_text *w, const vd_format *f, double x, double y) {
  static const char *const fill[] = {"fill=\"#e3f1ea\"", "fill=\"#f5efd8\"", "fill=\"#9fb8ad\"",
                                     "fill=\"#dbe6e1\""};
  const char *name = tn_dtype_name(f->dtype);
  char text[4][64];
  snprintf(text[0], sizeof text[0], "normal numbers of %s", name);
  snprintf(text[1], sizeof text[1], "subnormal: digits get lost");
  snprintf(text[2], sizeof text[2], "the same of %s / S,", name);
  snprintf(text[3], sizeof text[3], "scale by scale");
  for (size_t i = 0; i < 4; ++i) {
    double left = x + (double)(i / 2) * 215, top = y + (double)(i % 2) * 20;
    vd_svg_rect(w, left, top - 10, 22, 11, fill[i]);
    vd_svg_text(w, left + 29, top, "start", " font-size=\"11.5\" fill=\"#4b5563\"", text[i]);
  }
}

void vd_draw_histograms(vd_text *w, const vd_underflow *u) {
  double height = 110, strips = 44 + (double)u->n_scales * (STRIP + 2),
         row = 34 + height + strips + 14;
  if (u->n_groups == 0)
    return;
  vd_svg_open(w, 2 * LEFT + 2 * HALF + 40, row * (double)u->n_groups + 10,
              "Exponents of activations and adjoints in f64");
  for (size_t i = 0; i < u->n_groups; ++i) {
    double top = (double)i * row + 26;
    put_histogram(w, u, &u->groups[i], LEFT, top, height, false);
    put_histogram(w, u, &u->groups[i], 2 * LEFT + HALF + 20, top, height, true);
    if (i == 0)
      put_key(w, &u->format, LEFT, top + height + 62);
  }
  vd_svg_close(w);
}

/* ---- The scaler ------------------------------------------------------------------------------ */

static void put_scale_steps(vd_text *w, const vd_underflow *u, const vd_area *a) {
  vd_put(w, "<path fill=\"none\" stroke=\"#0a66c2\" stroke-width=\"2\" d=\"");
  for (size_t i = 0; i < u->n_steps; ++i) {
    double x = vd_area_x(a, (double)u->steps[i].step), y = vd_area_y(a, log2(u->steps[i].scale));
    if (i == 0)
      vd_put(w, "M%.1f %.1f", x, y);
    else if (u->steps[i].scale != u->steps[i - 1].scale)
      vd_put(w, "H%.1fV%.1f", x, y);
    if (i + 1 == u->n_steps)
      vd_put(w, "H%.1f", x);
  }
  vd_put(w, "\"/>\n");
  for (size_t i = 0; i < u->n_steps; ++i)
    if (u->steps[i].skipped) {
      double x = vd_area_x(a, (double)u->steps[i].step);
      vd_svg_line(w, x, a->top + a->height - 12, x, a->top + a->height,
                  "stroke=\"#c0271c\" stroke-width=\"2\"");
    }
}

static void put_losses(vd_text *w, const vd_underflow *u, const vd_area *a) {
  bool open = false;
  vd_put(w, "<path fill=\"none\" stroke=\"#374151\" stroke-width=\"1.6\" d=\"");
  for (size_t i = 0; i < u->n_steps; ++i) {
    double y = log_or_nan(u->steps[i].loss);
    if (isfinite(y))
      vd_put(w, "%c%.1f %.1f", open ? 'L' : 'M', vd_area_x(a, (double)u->steps[i].step),
             vd_area_y(a, y));
    open = isfinite(y);
  }
  vd_put(w, "\"/>\n");
}

void vd_draw_scaler(vd_text *w, const vd_underflow *u) {
  double low = INFINITY, high = -INFINITY, least = INFINITY, most = -INFINITY;
  if (u->n_steps < 2)
    return;
  for (size_t i = 0; i < u->n_steps; ++i) {
    widen(log2(u->steps[i].scale), &low, &high);
    widen(log_or_nan(u->steps[i].loss), &least, &most);
  }
  if (least > most) /* no loss was finite */
    least = -1, most = 0;
  double first = (double)u->steps[0].step, last = (double)u->steps[u->n_steps - 1].step;
  int step = last - first > 400 ? 100 : last - first > 160 ? 40 : last - first > 40 ? 20 : 5;
  vd_area a = {LEFT, 30, HALF, 150, first, last, floor(low) - 1, ceil(high) + 1};
  vd_area b = {2 * LEFT + HALF + 20, 30, HALF, 150, first, last, floor(least), ceil(most)};
  if (b.y0 >= b.y1)
    b.y1 = b.y0 + 1;
  vd_svg_open(w, 2 * LEFT + 2 * HALF + 40, 30 + 150 + 44, "The loss scale during training");
  vd_area_ticks_x(w, &a, step * (int)ceil(first / step), step, false);
  for (int e = (int)a.y0; e <= (int)a.y1; e += 1 + (int)(a.y1 - a.y0) / 8) {
    vd_svg_power(w, a.left - 6, vd_area_y(&a, e) + 4, "end", " font-size=\"11\" fill=\"#4b5563\"",
                 "2", e);
    vd_svg_line(w, a.left, vd_area_y(&a, e), a.left + a.width, vd_area_y(&a, e),
                "stroke=\"#e5e7eb\"");
  }
  put_scale_steps(w, u, &a);
  vd_area_box(w, &a, "Loss scale; red: a step that was skipped", "step", NULL);
  vd_area_ticks_x(w, &b, step * (int)ceil(first / step), step, false);
  vd_area_decades(w, &b);
  put_losses(w, u, &b);
  vd_area_box(w, &b, "Loss", "step", NULL);
  vd_svg_close(w);
}
