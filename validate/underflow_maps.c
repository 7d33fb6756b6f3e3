/* underflow_maps.c: what each layer's adjoints bear and lose: bars of usable scales, and maps of losses.
 *
 * Rows are (channel, layer), channels apart by a gap. Colours of the maps go by decades of the share, since a
 * loss of 1e-6 is nothing and one of 1e-2 is not; numbers stand in the cells, so the colour is not needed to
 * read them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/underflow_svg.h"

enum { NAMES = 290, CELL = 42, ROW = 19, HEAD = 46 };

/* The adjoints that the policy rounds, by group; order: n_channels indices. */
static size_t adjoints(const vd_underflow *u, size_t *order) {
  size_t n = 0;
  for (size_t g = 0; g < u->n_groups; ++g)
    for (size_t i = 0; i < u->n_channels; ++i) {
      const vd_channel *c = &u->channels[i];
      if (c->operand == VD_ADJOINT && !c->kept && strcmp(c->label, u->groups[g].label) == 0 &&
          strcmp(c->at, u->groups[g].at) == 0)
        order[n++] = i;
    }
  return n;
}

static bool same_group(const vd_channel *a, const vd_channel *b) {
  return strcmp(a->label, b->label) == 0 && strcmp(a->at, b->at) == 0;
}

static void put_names(vd_text *w, const vd_channel *c, bool first, double x, double y) {
  char text[256];
  if (first) {
    snprintf(text, sizeof text, "%.34s (%.24s)", c->label, c->at);
    vd_svg_text(w, 4, y, "start", " font-weight=\"600\" font-size=\"11.5\"", text);
  }
  const char *dot = strrchr(c->layer, '.');
  vd_svg_text(w, x - 8, y, "end", " font-size=\"11\" fill=\"#4b5563\"",
              dot != NULL ? dot + 1 : c->layer);
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static void put_window(vd_text *w, const vd_area *a, const vd_channel *c, double y) {
  if (c->window.lo > c->window.hi) {
    vd_svg_text(w, vd_area_x(a, 0), y + 11, "start", " font-size=\"11\" fill=\"#c0271c\"",
                "no scale");
    return;
  }
  double lo = fmax(c->window.lo, a->x0), hi = fmin(c->window.hi, a->x1);
  if (lo > hi) {
    vd_svg_text(w, lo > a->x1 ? a->left + a->width - 4 : a->left + 4, y + 11,
                lo > a->x1 ? "end" : "start", " font-size=\"11\"", lo > a->x1 ? "beyond" : "below");
    return;
  }
  double x0 = vd_area_x(a, lo), x1 = vd_area_x(a, hi);
  vd_svg_rect(w, x0, y + 2, fmax(x1 - x0, 3), ROW - 7, "fill=\"#0a66c2\" rx=\"2\"");
  if (c->window.lo < a->x0)
    vd_svg_text(w, x0 + 3, y + 12, "start", " fill=\"#fff\" font-size=\"11\"", "\xe2\x97\x82");
  if (c->window.hi > a->x1)
    vd_svg_text(w, x1 - 3, y + 12, "end", " fill=\"#fff\" font-size=\"11\"", "\xe2\x96\xb8");
}

static double rows_height(const vd_underflow *u, size_t n) {
  return (double)n * ROW + 8 * (double)u->n_groups;
}

static void put_windows(vd_text *w, const vd_underflow *u, size_t n, const size_t *order) {
  double height = rows_height(u, n);
  vd_area a = {NAMES, HEAD, 690, height, -8, 40, 0, 1};
  vd_svg_open(w, NAMES + 690 + 20, HEAD + height + 44, "Loss scales that each channel bears");
  double s0 = u->n_scales > 0 ? u->scale[0] : 0,
         s1 = u->n_scales > 0 ? u->scale[u->n_scales - 1] : 24;
  vd_svg_rect(w, vd_area_x(&a, s0), a.top, vd_area_x(&a, s1) - vd_area_x(&a, s0), height,
              "fill=\"#f3f4f6\"");
  vd_area_ticks_x(w, &a, -8, 4, true);
  double y = HEAD + 4;
  for (size_t i = 0; i < n; ++i) {
    const vd_channel *c = &u->channels[order[i]];
    bool first = i == 0 || !same_group(c, &u->channels[order[i - 1]]);
    if (first && i > 0)
      y += 8;
    put_names(w, c, first, NAMES, y + 13);
    put_window(w, &a, c, y);
    y += ROW;
  }
  if (u->window.lo <= u->window.hi) {
    double x0 = vd_area_x(&a, u->window.lo), x1 = vd_area_x(&a, u->window.hi);
    vd_svg_rect(
        w, x0, a.top, fmax(x1 - x0, 2), height,
        "fill=\"#12805c\" fill-opacity=\"0.13\" stroke=\"#12805c\" stroke-dasharray=\"4 3\"");
    vd_svg_text(w, (x0 + x1) / 2, a.top - 8, "middle", " fill=\"#0b6b4b\" font-weight=\"600\"",
                "all channels");
  } else {
    vd_svg_text(w, a.left + a.width / 2, a.top - 8, "middle",
                " fill=\"#a31d13\" font-weight=\"600\"", "no loss scale suits all channels");
  }
  vd_area_box(w, &a, NULL, "loss scale (grey: the scales that were run)", NULL);
  vd_svg_close(w);
}

void vd_draw_windows(vd_text *w, const vd_underflow *u) {
  size_t *order = NULL;
  if (u->n_channels == 0 || w->status != TN_OK)
    return;
  w->status = TN_NEW(u->n_channels, &order);
  size_t n = w->status == TN_OK ? adjoints(u, order) : 0;
  if (n > 0)
    put_windows(w, u, n, order);
  tn_free(&order);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

/* White to dark red over decades from 1e-5 to 1. */
static void colour_of(double share, char out[16]) {
  static const unsigned char stops[6][3] = {{255, 255, 255}, {254, 240, 217}, {253, 204, 138},
                                            {252, 141, 89},  {215, 60, 40},   {140, 10, 10}};
  double at = share > 0 ? fmin(fmax(log10(share) + 5, 0), 5) : 0;
  int k = at >= 4.999 ? 4 : (int)at;
  double part = at - k;
  unsigned c[3];
  for (int i = 0; i < 3; ++i)
    c[i] = (unsigned)(stops[k][i] + part * (stops[k + 1][i] - stops[k][i]) + 0.5);
  snprintf(out, 16, "#%02x%02x%02x", c[0], c[1], c[2]);
}

static void put_cell(vd_text *w, const vd_tally *t, bool mass, double x, double y) {
  char attributes[64], colour[16], text[16];
  size_t bad = t->overflow + t->nan;
  double share = t->n == 0 ? 0
                 : mass    ? (t->mass > 0 ? t->below / t->mass : 0)
                           : (double)t->zero / (double)t->n;
  colour_of(share, colour);
  snprintf(attributes, sizeof attributes, "fill=\"%s\" stroke=\"#fff\"",
           bad > 0 ? "#4c1d95" : colour);
  vd_svg_rect(w, x, y, CELL, ROW, attributes);
  if (bad > 0)
    snprintf(text, sizeof text, "\xe2\x88\x9e");
  else if (share == 0)
    text[0] = '\0';
  else if (share < 9.95e-4)
    snprintf(text, sizeof text, "%.0e", share);
  else
    snprintf(text, sizeof text, "%.*f %%", share < 0.0995 ? 1 : 0, 100 * share);
  bool dark = bad > 0 || share > 0.05;
  vd_svg_text(w, x + CELL / 2.0, y + 13, "middle",
              dark ? " font-size=\"10\" fill=\"#fff\"" : " font-size=\"10\"", text);
}

static void put_map(vd_text *w, const vd_underflow *u, size_t n, const size_t *order, bool mass,
                    double left, double top) {
  vd_svg_text(w, left, top - 26, "start", " font-weight=\"600\" font-size=\"12.5\"",
              mass ? "Mass lost below the normal numbers by rounding S g once (computed)"
                   : "Exact zeros that should not be (run)");
  double y = top;
  for (size_t i = 0; i < n; ++i) {
    const vd_channel *c = &u->channels[order[i]];
    bool first = i == 0 || !same_group(c, &u->channels[order[i - 1]]);
    if (first && i > 0)
      y += 8;
    put_names(w, c, first, left, y + 13);
    for (size_t k = 0; k < u->n_scales; ++k)
      put_cell(w, mass ? &c->rounded[k] : &c->run[k], mass, left + (double)k * CELL, y);
    y += ROW;
  }
  for (size_t k = 0; k < u->n_scales; ++k) {
    bool best = u->scale[k] == u->best;
    vd_svg_power(w, left + ((double)k + 0.5) * CELL, top - 7, "middle",
                 best ? " font-size=\"11\" font-weight=\"700\" fill=\"#0b6b4b\""
                      : " font-size=\"11\" fill=\"#4b5563\"",
                 "2", u->scale[k]);
    if (best)
      vd_svg_rect(w, left + (double)k * CELL, top - 2, CELL, y - top + 4,
                  "fill=\"none\" stroke=\"#12805c\" stroke-width=\"1.6\" stroke-dasharray=\"4 3\"");
  }
}

void vd_draw_maps(vd_text *w, const vd_underflow *u) {
  size_t *order = NULL;
  if (u->n_channels == 0 || u->n_scales == 0 || w->status != TN_OK)
    return;
  w->status = TN_NEW(u->n_channels, &order);
  size_t n = w->status == TN_OK ? adjoints(u, order) : 0;
  if (n > 0) {
    double height = rows_height(u, n);
    vd_svg_open(w, NAMES + CELL * (double)u->n_scales + 12, 2 * (height + 62) + 4,
                "Zeros and lost mass, layer by loss scale");
    put_map(w, u, n, order, false, NAMES, 46);
    put_map(w, u, n, order, true, NAMES, 46 + height + 62);
    vd_svg_close(w);
  }
  tn_free(&order);
}
