/* roofline.c: the picture of a profile: rates over intensity, under the roofs of the machine.
 *
 *   roof(q) = min(peak, bandwidth q),   q operations a byte
 *
 * A group of work at the roof cannot be faster on this machine without fewer bytes or fewer operations; the
 * distance to it (the axes are logarithmic) is what could still be won. Bytes are counted at the tile, so the
 * roof to look at is that of the cache in which tiles live.
 */
#include <math.h>
#include <stdio.h>

#include "pinn/picture.h"
#include "pinn/pinn.h"

enum { MOST_CURVES = 24 };

tn_status pn_roofline_svg(const char *title, double peak, size_t n_roofs, const pn_roof *roofs,
                          size_t n_points, const pn_roof_point *points, char **svg) {
  pn_curve curves[MOST_CURVES];
  double x[MOST_CURVES][3], y[MOST_CURVES][3], low = 0.05, high = 64;
  size_t n = 0;
  for (size_t i = 0; i < n_points; ++i) {
    low = fmin(low, points[i].intensity / 2);
    high = fmax(high, points[i].intensity * 2);
  }
  for (size_t i = 0; i < n_roofs && n < MOST_CURVES; ++i, ++n) {
    double ridge = fmin(fmax(peak / roofs[i].bytes_a_second, low), high);
    double at[3] = {low, ridge, high};
    for (size_t k = 0; k < 3; ++k) {
      x[n][k] = at[k];
      y[n][k] = 1e-9 * fmin(peak, roofs[i].bytes_a_second * at[k]);
    }
    curves[n] = (pn_curve){roofs[i].name, 3, x[n], y[n], i == 0 ? PN_LINE : PN_DASHED};
  }
  for (size_t i = 0; i < n_points && n < MOST_CURVES; ++i, ++n) {
    x[n][0] = points[i].intensity;
    y[n][0] = 1e-9 * points[i].flops_a_second;
    curves[n] = (pn_curve){points[i].name, 1, x[n], y[n], PN_DOTS};
  }
  const pn_plot plot = {.title = title,
                        .x_label = "operations a byte",
                        .y_label = "GFLOP/s",
                        .log_x = true,
                        .log_y = true,
                        .n_curves = n,
                        .curves = curves,
                        .width = 640,
                        .height = 360};
  return pn_plots_svg(1, &plot, 1, svg);
}
