/* frame.c: axes with their ticks and labels, in SVG.
 *
 * Ticks stand at multiples of 1, 2 or 5 times a power of ten, so that people can read between them;
 * the step is the smallest of these that gives no more than the wanted number, but at least two.
 * They are computed as integer multiples of the step, not by adding it up, so 0 is 0 and 0.3 is not
 * 0.30000000000000004. Numbers beyond 10^4 or below 10^-3 share one power of ten, written once at
 * the axis. Logarithmic axes have a tick a decade, or every k-th; within less than one and a half
 * decades also at 2 and 5.
 */
#include "pinn/frame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GREY "#6b7280"

/* ---- Ticks ----------------------------------------------------------------------------------- */

/* 10^n in superscript digits. */
static void power_text(int n, const char *factor, char text[24]) {
  static const char *const digits[] = {
      "\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",     "\xe2\x81\xb4",
      "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7", "\xe2\x81\xb8", "\xe2\x81\xb9"};
  char plain[16];
  snprintf(plain, sizeof plain, "%d", n);
  snprintf(text, 24, "%s10", factor);
  for (const char *c = plain; *c; ++c)
    strncat(text, *c == '-' ? "\xe2\x81\xbb" : digits[*c - '0'], 23 - strlen(text));
}

static void put_number(double x, int decimals, char text[24]) {
  char plain[PN_TEXT_NUMBER];
  pn_text_of_fixed(x, decimals, plain);
  bool minus = plain[0] == '-'; /* shown as a minus sign, which is wider than a hyphen */
  snprintf(text, 24, "%s%.20s", minus ? "\xe2\x88\x92" : "", plain + minus);
}

static void linear_ticks(const pn_axis *a, size_t wanted, pn_ticks *t) {
  double rough = (a->high - a->low) / (double)wanted;
  int power = (int)floor(log10(rough));
  double unit = pow(10, power), factor = 1;
  if (rough > 1.0000001 * unit)
    factor = 2;
  if (rough > 2.0000001 * unit)
    factor = 5;
  if (rough > 5.0000001 * unit)
    factor = 10;
  if (factor == 10) {
    factor = 1;
    ++power;
  }
  double largest = fmax(fabs(a->low), fabs(a->high));
  int top = (int)floor(log10(largest) + 1e-12);
  t->power = top > 4 || top < -3 ? top : 0;
  int shown = power - t->power; /* the power of the step in what is written */
  int decimals = shown < 0 ? (shown < -9 ? 9 : -shown) : 0;
  double step = factor * pow(10, power), slack = 1e-9 * (a->high - a->low);
  for (double k = ceil((a->low - slack) / step); k * step <= a->high + slack && t->n < PN_TICKS;
       ++k) {
    t->at[t->n] = k * step;
    put_number(k * factor * pow(10, shown), decimals, t->text[t->n]);
    ++t->n;
  }
}

static void log_ticks(const pn_axis *a, size_t wanted, pn_ticks *t) {
  static const double within[] = {0, 0.30102999566398120,
                                  0.69897000433601880}; /* log10 of 1, 2, 5 */
  static const char *const factors[] = {"", "2\xc2\xb7", "5\xc2\xb7"};
  double span = a->high - a->low;
  size_t inside = span < 1.5 ? 3 : 1;
  double stride = ceil(span / (double)wanted);
  for (double d = floor(a->low / stride) * stride; d <= a->high && t->n < PN_TICKS; d += stride)
    for (size_t i = 0; i < inside && t->n < PN_TICKS; ++i) {
      double at = d + within[i];
      if (at < a->low - 1e-9 * span || at > a->high + 1e-9 * span)
        continue;
      t->at[t->n] = at;
      power_text((int)d, factors[i], t->text[t->n]);
      ++t->n;
    }
}

void pn_ticks_of(const pn_axis *axis, size_t wanted, pn_ticks *ticks) {
  memset(ticks, 0, sizeof *ticks);
  if (!(axis->high > axis->low) || !isfinite(axis->high - axis->low))
    return;
  if (axis->log) {
    log_ticks(axis, wanted, ticks);
    return;
  }
  for (size_t more = 0; ticks->n < 2 && more < 8; ++more) { /* one number gives no scale */
    memset(ticks, 0, sizeof *ticks);
    linear_ticks(axis, wanted + more, ticks);
  }
}

void pn_axis_fit(pn_axis *axis, double low, double high, double margin) {
  if (!isfinite(low) || !isfinite(high) || low > high)
    low = high = 0;
  double least = 1e-6 * fmax(fabs(low), fabs(high)); /* a narrower range shows rounding errors */
  if (!(least > 1e-300))
    least = axis->log || low || high ? 1e-300 : 1;
  if (axis->log)
    least = 0.5;
  double grow = high - low < least ? (least - (high - low)) / 2 : margin * (high - low);
  axis->low = low - grow;
  axis->high = high + grow;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

double pn_frame_x(const pn_frame *f, double x) {
  return f->left + (x - f->x.low) / (f->x.high - f->x.low) * f->width;
}

double pn_frame_y(const pn_frame *f, double y) {
  return f->top + f->height - (y - f->y.low) / (f->y.high - f->y.low) * f->height;
}

double pn_svg_width(const char *text) {
  double width = 0;
  for (; *text; text += pn_utf8_length(text) ? pn_utf8_length(text) : 1)
    width += strchr("il.,:;'|!I() ", *text) ? 3.6 : strchr("mwMW", *text) ? 9.5 : 6.7;
  return width;
}

static void attribute(pn_text *w, const char *name, double x) {
  pn_putf(w, " %s=\"", name);
  pn_put_fixed(w, x, 1);
  pn_put(w, "\"");
}

void pn_svg_open(pn_text *w, double width, double height) {
  pn_put(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ");
  pn_put_fixed(w, width, 0);
  pn_put(w, " ");
  pn_put_fixed(w, height, 0);
  pn_put(w, "\"");
  attribute(w, "width", width);
  attribute(w, "height", height);
  pn_put(
      w,
      " font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\""
      " font-size=\"12\" fill=\"#1f2937\">\n");
}

void pn_svg_text(pn_text *w, double x, double y, const char *anchor, const char *extra,
                 const char *text) {
  pn_put(w, "<text");
  attribute(w, "x", x);
  attribute(w, "y", y);
  pn_putf(w, " text-anchor=\"%s\"%s>", anchor, extra);
  pn_put_escaped(w, text);
  pn_put(w, "</text>\n");
}

void pn_svg_line(pn_text *w, double x1, double y1, double x2, double y2, const char *stroke) {
  pn_put(w, "<line");
  attribute(w, "x1", x1);
  attribute(w, "y1", y1);
  attribute(w, "x2", x2);
  attribute(w, "y2", y2);
  pn_putf(w, " stroke=\"%s\"/>\n", stroke);
}

static size_t ticks_for(double px, double each) { return px < 2 * each ? 2 : (size_t)(px / each); }

void pn_frame_grid(pn_text *w, const pn_frame *f) {
  pn_ticks t;
  pn_ticks_of(&f->x, ticks_for(f->width, 62), &t);
  for (size_t i = 0; i < t.n; ++i)
    pn_svg_line(w, pn_frame_x(f, t.at[i]), f->top, pn_frame_x(f, t.at[i]), f->top + f->height,
                "#eef0f3");
  pn_ticks_of(&f->y, ticks_for(f->height, 34), &t);
  for (size_t i = 0; i < t.n; ++i)
    pn_svg_line(w, f->left, pn_frame_y(f, t.at[i]), f->left + f->width, pn_frame_y(f, t.at[i]),
                "#eef0f3");
}

/* "label (×10^3)" */
static void put_label(pn_text *w, double x, double y, const char *extra, const char *label,
                      int power) {
  pn_text full = {0};
  char text[24];
  if (label)
    pn_put(&full, label);
  if (power) {
    power_text(power, "\xc3\x97", text);
    pn_putf(&full, label && label[0] ? "  (%s)" : "%s", text);
  }
  if (full.text)
    pn_svg_text(w, x, y, "middle", extra, full.text);
  if (full.status != TN_OK && w->status == TN_OK)
    w->status = full.status;
  pn_text_free(&full);
}

static double widest(const pn_ticks *t) {
  double width = 0;
  for (size_t i = 0; i < t->n; ++i)
    width = fmax(width, pn_svg_width(t->text[i]));
  return width;
}

void pn_frame_draw(pn_text *w, const pn_frame *f, const char *title, double title_y) {
  pn_ticks t;
  char turn[96];
  double bottom = f->top + f->height, middle = f->top + f->height / 2;
  pn_put(w, "<rect");
  attribute(w, "x", f->left);
  attribute(w, "y", f->top);
  attribute(w, "width", f->width);
  attribute(w, "height", f->height);
  pn_put(w, " fill=\"none\" stroke=\"" GREY "\"/>\n");
  pn_ticks_of(&f->x, ticks_for(f->width, 62), &t);
  for (size_t i = 0; i < t.n; ++i) {
    double x = pn_frame_x(f, t.at[i]);
    pn_svg_line(w, x, bottom, x, bottom + 4, GREY);
    pn_svg_text(w, x, bottom + 17, "middle", "", t.text[i]);
  }
  put_label(w, f->left + f->width / 2, bottom + 34, "", f->x.label, t.power);
  pn_ticks_of(&f->y, ticks_for(f->height, 34), &t);
  for (size_t i = 0; i < t.n; ++i) {
    double y = pn_frame_y(f, t.at[i]);
    pn_svg_line(w, f->left - 4, y, f->left, y, GREY);
    pn_svg_text(w, f->left - 7, y + 4, "end", "", t.text[i]);
  }
  double x = f->left - 16 - widest(&t);
  int px = (int)lround(x), py = (int)lround(middle);
  snprintf(turn, sizeof turn, " transform=\"rotate(-90 %d %d)\"", px, py);
  put_label(w, px, py, turn, f->y.label, t.power);
  if (title)
    pn_svg_text(w, f->left + f->width / 2, title_y, "middle",
                " font-size=\"13\" font-weight=\"600\"", title);
}

void pn_frame_right(pn_text *w, const pn_frame *f, const char *label) {
  pn_ticks t;
  double right = f->left + f->width;
  pn_ticks_of(&f->y, ticks_for(f->height, 34), &t);
  for (size_t i = 0; i < t.n; ++i) {
    double y = pn_frame_y(f, t.at[i]);
    pn_svg_line(w, right, y, right + 3, y, GREY);
    pn_svg_text(w, right + 6, y + 4, "start", "", t.text[i]);
  }
  if (label || t.power)
    put_label(w, f->left + f->width, f->top - 7, "", label, t.power);
}
