/* heatmap.c: fields over a rectangle as coloured pictures in SVG (declared in picture.h).
 *
 * The field is a palette PNG inside the SVG, already at the size it is shown at (times 1.5 for fine
 * screens): values are interpolated bilinearly in the grid's cells and then coloured, because a
 * viewer that stretches a small picture blurs colours, and not all viewers do. Where a corner of a
 * cell is not finite, the nearest grid point decides, and holes stay grey.
 *
 * The colour maps are paths of nearly even lightness steps in the OKLab space: sequential from dark
 * blue over green to yellow, so that light is always more, also in a grey print; diverging from
 * blue over light grey to red, equal in lightness at equal distance from 0.
 */
#include "pinn/picture.h"

#include <math.h>
#include <string.h>

#include "pinn/frame.h"
#include "pinn/png.h"

enum { HOLE = 255, LAST = 254 }; /* colour numbers: nothing, and the highest value */
enum {
  LEFT = 62,
  RIGHT = 66,
  TOP = 26,
  BOTTOM = 46,
  AREA_WIDTH = 250,
  AREA_HEIGHT = 200,
  BAR = 12,
  BAR_GAP = 9,
  MAX_POINTS = 4000
};

static void fill_palette(pn_map_colours kind, uint8_t palette[256][4]) {
  static const uint8_t sequential[9][3] = {{38, 0, 74},    {33, 27, 121},   {0, 71, 130},
                                           {0, 104, 135},  {6, 136, 144},   {9, 169, 146},
                                           {68, 201, 123}, {168, 219, 108}, {242, 234, 116}};
  static const uint8_t diverging[9][3] = {{0, 66, 151},    {39, 108, 204},  {96, 153, 239},
                                          {165, 199, 250}, {243, 243, 243}, {245, 178, 168},
                                          {227, 115, 103}, {188, 61, 51},   {139, 0, 5}};
  const uint8_t(*points)[3] = kind == PN_DIVERGING ? diverging : sequential;
  for (size_t i = 0; i <= LAST; ++i) {
    double at = 8.0 * (double)i / LAST;
    size_t k = at < 7 ? (size_t)at : 7;
    for (size_t c = 0; c < 3; ++c) {
      double mixed = points[k][c] + (at - (double)k) * ((double)points[k + 1][c] - points[k][c]);
      palette[i][c] = (uint8_t)lround(mixed);
    }
    palette[i][3] = 255;
  }
  memset(palette[HOLE], 0, 4);
}

/* ---- The picture ----------------------------------------------------------------------------- */

/* The field at the fractional grid position (u, v). */
static double sample(const pn_map *m, double u, double v) {
  size_t i = (size_t)u, j = (size_t)v;
  if (i + 1 >= m->nx)
    i = m->nx > 1 ? m->nx - 2 : 0;
  if (j + 1 >= m->ny)
    j = m->ny > 1 ? m->ny - 2 : 0;
  size_t right = m->nx > 1 ? m->ny : 0, up = m->ny > 1;
  const double *p = m->values + i * m->ny + j;
  double a = u - (double)i, b = v - (double)j;
  double low = p[0] + a * (p[right] - p[0]), high = p[up] + a * (p[right + up] - p[up]);
  double value = low + b * (high - low);
  if (isfinite(value))
    return value;
  return p[(a < 0.5 ? 0 : right) + (b < 0.5 ? 0 : up)];
}

static uint8_t colour_of(const pn_map *m, const pn_axis *range, double value) {
  if (!isfinite(value))
    return HOLE;
  if (m->colours == PN_LOGARITHMIC)
    value = value > 0 ? log10(value) : range->low;
  double at = (value - range->low) / (range->high - range->low);
  return (uint8_t)lround(LAST * fmin(1, fmax(0, at)));
}

static void put_image(pn_text *w, double x, double y, double width, double height, size_t nx,
                      size_t ny, const uint8_t *pixels, pn_map_colours kind) {
  uint8_t palette[256][4], *png = NULL;
  char *text = NULL;
  size_t n = 0;
  fill_palette(kind, palette);
  tn_status status = pn_png(nx, ny, pixels, palette, &png, &n);
  if (status == TN_OK)
    status = pn_base64(png, n, &text);
  const double numbers[] = {x, y, width, height};
  static const char *const names[] = {"x", "y", "width", "height"};
  pn_put(w, "<image preserveAspectRatio=\"none\"");
  for (size_t i = 0; i < 4; ++i) {
    pn_putf(w, " %s=\"", names[i]);
    pn_put_fixed(w, numbers[i], 1);
    pn_put(w, "\"");
  }
  pn_put(w, " href=\"data:image/png;base64,");
  if (text)
    pn_put(w, text);
  pn_put(w, "\"/>\n");
  if (w->status == TN_OK)
    w->status = status;
  tn_free(&png);
  tn_free(&text);
}

static void put_field(pn_text *w, const pn_map *m, const pn_frame *f, const pn_axis *range) {
  size_t nx = (size_t)(1.5 * f->width) + 1, ny = (size_t)(1.5 * f->height) + 1;
  uint8_t *pixels = NULL;
  tn_status status = tn_new(nx * ny, 1, &pixels);
  if (status != TN_OK) {
    if (w->status == TN_OK)
      w->status = status;
    return;
  }
  for (size_t j = 0; j < ny; ++j) /* from the top */
    for (size_t i = 0; i < nx; ++i) {
      double u = ((double)i + 0.5) / (double)nx * (double)(m->nx - 1);
      double v = (1 - ((double)j + 0.5) / (double)ny) * (double)(m->ny - 1);
      pixels[j * nx + i] = colour_of(m, range, sample(m, u, v));
    }
  pn_put(w, "<rect x=\"");
  pn_put_fixed(w, f->left, 1);
  pn_put(w, "\" y=\"");
  pn_put_fixed(w, f->top, 1);
  pn_put(w, "\" width=\"");
  pn_put_fixed(w, f->width, 1);
  pn_put(w, "\" height=\"");
  pn_put_fixed(w, f->height, 1);
  pn_put(w, "\" fill=\"#e5e7eb\"/>\n"); /* what holes show */
  put_image(w, f->left, f->top, f->width, f->height, nx, ny, pixels, m->colours);
  tn_free(&pixels);
}

static void put_points(pn_text *w, const pn_map *m, const pn_frame *f) {
  if (!m->n_points)
    return;
  size_t each = (m->n_points + MAX_POINTS - 1) / MAX_POINTS;
  for (int pass = 0; pass < 2; ++pass) { /* a light rim, then the dot: seen on every colour */
    pn_put(w, "<path d=\"");
    for (size_t i = 0; i < m->n_points; i += each) {
      double x = m->points_x[i], y = m->points_y[i];
      if (!(x >= f->x.low && x <= f->x.high && y >= f->y.low && y <= f->y.high))
        continue;
      pn_put(w, "M");
      pn_put_fixed(w, pn_frame_x(f, x), 1);
      pn_put(w, " ");
      pn_put_fixed(w, pn_frame_y(f, y), 1);
      pn_put(w, "h0");
    }
    pn_put(w, pass ? "\" stroke=\"#111827\" stroke-width=\"1.8\" stroke-linecap=\"round\"/>\n"
                   : "\" stroke=\"#ffffff\" stroke-width=\"3\" stroke-linecap=\"round\" "
                     "opacity=\"0.7\"/>\n");
  }
}

static void put_bar(pn_text *w, const pn_map *m, const pn_frame *f, const pn_axis *range) {
  uint8_t pixels[LAST + 1];
  pn_frame bar = {f->left + f->width + BAR_GAP, f->top, BAR, f->height,
                  {0, 1, false, NULL},          *range};
  for (size_t i = 0; i <= LAST; ++i)
    pixels[i] = (uint8_t)(LAST - i);
  put_image(w, bar.left, bar.top, bar.width, bar.height, 1, LAST + 1, pixels, m->colours);
  pn_frame_right(w, &bar, NULL);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static void colour_range(const pn_map *m, pn_axis *range) {
  double low = m->low, high = m->high;
  size_t n = m->nx * m->ny;
  bool log = m->colours == PN_LOGARITHMIC;
  if (!(low < high))
    pn_range(n, m->values, &low, &high);
  if (log &&
      !(m->low < m->high && m->low > 0)) { /* the smallest positive value, at most 8 decades down */
    low = high;
    for (size_t i = 0; i < n; ++i)
      if (m->values[i] > 0 && m->values[i] < low)
        low = m->values[i];
    low = fmax(low, 1e-8 * high);
  }
  if (m->colours == PN_DIVERGING) {
    high = fmax(fabs(low), fabs(high));
    low = -high;
  }
  *range = (pn_axis){0, 1, log, NULL};
  pn_axis_fit(range, log ? log10(low) : low, log ? log10(high) : high, 0);
}

/* The size of the coloured area in px. */
static void area(const pn_map *m, double *width, double *height) {
  double px = fmin(AREA_WIDTH / (m->x1 - m->x0), AREA_HEIGHT / (m->y1 - m->y0)); /* per unit */
  *width = m->equal ? fmax(4, px * (m->x1 - m->x0)) : AREA_WIDTH;
  *height = m->equal ? fmax(4, px * (m->y1 - m->y0)) : AREA_HEIGHT;
}

/* The map in a cell whose upper left corner is (left, top). */
static void put_map(pn_text *w, const pn_map *m, double left, double top) {
  pn_axis range;
  pn_frame f = {left + LEFT,
                top + TOP,
                0,
                0,
                {m->x0, m->x1, false, m->x_label},
                {m->y0, m->y1, false, m->y_label}};
  area(m, &f.width, &f.height);
  f.left += (AREA_WIDTH - f.width) / 2;
  colour_range(m, &range);
  put_field(w, m, &f, &range);
  put_points(w, m, &f);
  pn_frame_draw(w, &f, m->title, top + 15);
  put_bar(w, m, &f, &range);
}

static tn_status check_map(const pn_map *m, size_t k) {
  if (m->nx && m->ny && m->x0 < m->x1 && m->y0 < m->y1)
    return TN_OK;
  return TN_FAIL(
      TN_EINPUT,
      "map %zu has %zu by %zu values over [%g, %g] x [%g, %g]; expected a grid over a rectangle", k,
      m->nx, m->ny, m->x0, m->x1, m->y0, m->y1);
}

tn_status pn_maps_svg(size_t count, const pn_map *maps, size_t columns, char **svg) {
  const double width = LEFT + AREA_WIDTH + RIGHT;
  pn_text w = {0}, body = {0};
  double y = 0;
  if (!count || !columns)
    return TN_FAIL(TN_EINPUT, "a picture of %zu maps in %zu columns", count, columns);
  for (size_t k = 0; k < count; ++k)
    TN_TRY(check_map(&maps[k], k));
  for (size_t k = 0; k < count;) { /* rows are as high as their highest map */
    double highest = 0;
    for (size_t i = 0; i < columns && k < count; ++i, ++k) {
      double across = 0, height = 0;
      area(&maps[k], &across, &height);
      highest = fmax(highest, height);
      put_map(&body, &maps[k], (double)i * width, y);
    }
    y += TOP + highest + BOTTOM;
  }
  pn_svg_open(&w, (double)(count < columns ? count : columns) * width, y);
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
