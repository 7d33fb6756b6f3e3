/* spline.c: cubic splines through the points of a table, in one and two coordinates (declared in
 * table.h).
 *
 * On [x_i, x_(i+1)], h = x_(i+1) - x_i, a = (x_(i+1) - x) / h, b = 1 - a, with second derivatives
 * M:
 *
 *   s(x) = a y_i + b y_(i+1) + ((a^3 - a) M_i + (b^3 - b) M_(i+1)) h^2 / 6
 *
 * M makes s' continuous: a tridiagonal system, diagonally dominant also after the not-a-knot ends
 * are eliminated from it, so elimination needs no pivots (de Boor, A Practical Guide to Splines,
 * ch. IV). In two coordinates the spline is a linear map of its values in each, so the tensor
 * product is the formula above in x applied to the formula in y, with f, f_xx, f_yy and f_xxyy held
 * on the grid: a value costs two searches and 16 products, whatever the size of the grid.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/table.h"

struct pn_spline {
  size_t n;  /* points, at least 2 */
  double *x; /* ascending */
  double *y; /* values */
  double *m; /* second derivatives */
};

struct pn_bicubic {
  size_t nx, ny;
  double *x, *y;
  double *f[4]; /* f, f_xx, f_yy, f_xxyy at [i * ny + j] */
};

/* ---- The second derivatives ------------------------------------------------------------------ */

/* m of n points that stand `step` apart in y and m; work holds 2 n numbers. */
static void second_derivatives(size_t n, const double *x, const double *y, size_t step,
                               pn_spline_end end, double *m, double *work) {
  double *diagonal = work, *right = work + n;
  m[0] = m[(n - 1) * step] = 0;
  if (n == 2 || (n == 3 && end == PN_NOT_A_KNOT)) {
    double c = 0; /* a line or a parabola: one second derivative everywhere */
    if (n == 3)
      c = 2 / (x[2] - x[0]) *
          ((y[2 * step] - y[step]) / (x[2] - x[1]) - (y[step] - y[0]) / (x[1] - x[0]));
    for (size_t i = 0; i < n; ++i)
      m[i * step] = c;
    return;
  }
  double h0 = x[1] - x[0], h1 = x[2] - x[1];
  double g0 = x[n - 2] - x[n - 3], g1 = x[n - 1] - x[n - 2];
  for (size_t i = 1; i + 1 < n; ++i) {
    double h = x[i] - x[i - 1], k = x[i + 1] - x[i];
    double lower = i > 1 ? h : 0;
    diagonal[i] = 2 * (h + k);
    right[i] = 6 * ((y[(i + 1) * step] - y[i * step]) / k - (y[i * step] - y[(i - 1) * step]) / h);
    if (end == PN_NOT_A_KNOT && i == 1)
      diagonal[i] += h0 + h0 * h0 / h1;
    if (end == PN_NOT_A_KNOT && i == n - 2) {
      diagonal[i] += g1 + g1 * g1 / g0;
      lower -= g1 * g1 / g0;
    }
    if (i > 1) { /* eliminate below the diagonal */
      double upper = i == 2 && end == PN_NOT_A_KNOT ? h1 - h0 * h0 / h1 : h;
      double q = lower / diagonal[i - 1];
      diagonal[i] -= q * upper;
      right[i] -= q * right[i - 1];
    }
  }
  for (size_t i = n - 2; i >= 1; --i) {
    double upper = i == 1 && end == PN_NOT_A_KNOT ? h1 - h0 * h0 / h1 : x[i + 1] - x[i];
    double above = i == n - 2 ? 0 : m[(i + 1) * step];
    m[i * step] = (right[i] - upper * above) / diagonal[i];
  }
  if (end == PN_NATURAL)
    return;
  m[0] = m[step] + h0 / h1 * (m[step] - m[2 * step]);
  m[(n - 1) * step] = m[(n - 2) * step] + g1 / g0 * (m[(n - 2) * step] - m[(n - 3) * step]);
}

static tn_status check_axis(const char *what, size_t n, const double *x) {
  if (n < 2)
    return TN_FAIL(TN_EINPUT, "interpolation over %s: %zu points, expected at least 2", what, n);
  for (size_t i = 0; i < n; ++i) {
    if (!isfinite(x[i]))
      return TN_FAIL(TN_EINPUT, "interpolation over %s: entry %zu is not finite", what, i);
    if (i && !(x[i] > x[i - 1]))
      return TN_FAIL(TN_EINPUT,
                     "interpolation over %s: entry %zu, %.17g, does not exceed %.17g before it",
                     what, i, x[i], x[i - 1]);
  }
  return TN_OK;
}

static tn_status check_values(size_t n, const double *y) {
  for (size_t i = 0; i < n; ++i)
    if (!isfinite(y[i]))
      return TN_FAIL(TN_EINPUT, "interpolation: value %zu is not finite", i);
  return TN_OK;
}

static tn_status copy_numbers(size_t n, const double *x, double **out) {
  TN_TRY(TN_NEW(n, out));
  memcpy(*out, x, n * sizeof *x);
  return TN_OK;
}

/* The weights of y_i, y_(i+1), M_i, M_(i+1) at x, and i; false outside. */
static bool weights(size_t n, const double *x, double at, size_t *i, double w[4]) {
  if (!(at >= x[0] && at <= x[n - 1]))
    return false; /* NaN too */
  size_t low = 0, high = n - 1;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (x[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  double h = x[low + 1] - x[low], a = (x[low + 1] - at) / h, b = (at - x[low]) / h;
  *i = low;
  w[0] = a;
  w[1] = b;
  w[2] = (a * a - 1) * a * h * h / 6;
  w[3] = (b * b - 1) * b * h * h / 6;
  return true;
}

/* ---- One coordinate -------------------------------------------------------------------------- */

void pn_spline_free(pn_spline **spline) {
  if (!*spline)
    return;
  tn_free(&(*spline)->x);
  tn_free(&(*spline)->y);
  tn_free(&(*spline)->m);
  tn_free(spline);
}

static tn_status fill_spline(pn_spline *s, const double *x, const double *y, pn_spline_end end) {
  double *work = NULL;
  TN_TRY(copy_numbers(s->n, x, &s->x));
  TN_TRY(copy_numbers(s->n, y, &s->y));
  TN_TRY(TN_NEW(s->n, &s->m));
  TN_TRY(TN_NEW(2 * s->n, &work));
  second_derivatives(s->n, s->x, s->y, 1, end, s->m, work);
  tn_free(&work);
  return TN_OK;
}

tn_status pn_spline_new(size_t n, const double *x, const double *y, pn_spline_end end,
                        pn_spline **out) {
  pn_spline *s = NULL;
  TN_TRY(check_axis("x", n, x));
  TN_TRY(check_values(n, y));
  TN_TRY(TN_NEW(1, &s));
  s->n = n;
  tn_status status = fill_spline(s, x, y, end);
  if (status != TN_OK)
    pn_spline_free(&s);
  else
    *out = s;
  return status;
}

double pn_spline_at(const pn_spline *spline, double x) {
  size_t i = 0;
  double w[4];
  if (!weights(spline->n, spline->x, x, &i, w))
    return NAN;
  const double *y = spline->y + i, *m = spline->m + i;
  return w[0] * y[0] + w[1] * y[1] + (w[2] * m[0] + w[3] * m[1]);
}

/* ---- Two coordinates ------------------------------------------------------------------------- */

void pn_bicubic_free(pn_bicubic **bicubic) {
  if (!*bicubic)
    return;
  tn_free(&(*bicubic)->x);
  tn_free(&(*bicubic)->y);
  for (size_t k = 0; k < 4; ++k)
    tn_free(&(*bicubic)->f[k]);
  tn_free(bicubic);
}

static tn_status fill_bicubic(pn_bicubic *b, const double *x, const double *y, const double *f,
                              pn_spline_end end) {
  size_t nx = b->nx, ny = b->ny;
  double *work = NULL;
  TN_TRY(copy_numbers(nx, x, &b->x));
  TN_TRY(copy_numbers(ny, y, &b->y));
  TN_TRY(copy_numbers(nx * ny, f, &b->f[0]));
  for (size_t k = 1; k < 4; ++k)
    TN_TRY(TN_NEW(nx * ny, &b->f[k]));
  TN_TRY(TN_NEW(2 * (nx > ny ? nx : ny), &work));
  for (size_t i = 0; i < nx; ++i)
    second_derivatives(ny, b->y, b->f[0] + i * ny, 1, end, b->f[2] + i * ny, work);
  for (size_t k = 0; k < 4; k += 2) /* f_xx from f, f_xxyy from f_yy */
    for (size_t j = 0; j < ny; ++j)
      second_derivatives(nx, b->x, b->f[k] + j, ny, end, b->f[k + 1] + j, work);
  tn_free(&work);
  return TN_OK;
}

tn_status pn_bicubic_new(size_t nx, const double *x, size_t ny, const double *y, const double *f,
                         pn_spline_end end, pn_bicubic **out) {
  pn_bicubic *b = NULL;
  TN_TRY(check_axis("x", nx, x));
  TN_TRY(check_axis("y", ny, y));
  if (nx > SIZE_MAX / sizeof *f / ny)
    return TN_FAIL(TN_ERANGE, "interpolation: a grid of %zu by %zu is too large", nx, ny);
  TN_TRY(check_values(nx * ny, f));
  TN_TRY(TN_NEW(1, &b));
  b->nx = nx;
  b->ny = ny;
  tn_status status = fill_bicubic(b, x, y, f, end);
  if (status != TN_OK)
    pn_bicubic_free(&b);
  else
    *out = b;
  return status;
}

double pn_bicubic_at(const pn_bicubic *bicubic, double x, double y) {
  size_t i = 0, j = 0;
  double u[4], v[4], sum = 0;
  if (!weights(bicubic->nx, bicubic->x, x, &i, u))
    return NAN;
  if (!weights(bicubic->ny, bicubic->y, y, &j, v))
    return NAN;
  for (size_t k = 0; k < 4; ++k) {
    const double *f =
        bicubic->f[k] + i * bicubic->ny + j; /* k & 1: second derivative in x, k & 2: in y */
    const double *p = u + 2 * (k & 1), *q = v + (k & 2);
    sum += p[0] * (q[0] * f[0] + q[1] * f[1]) +
           p[1] * (q[0] * f[bicubic->ny] + q[1] * f[bicubic->ny + 1]);
  }
  return sum;
}

/* ---- From tables ----------------------------------------------------------------------------- */

typedef struct {
  double x, y, f;
  size_t row;
} sample;

static int by_place(const void *a, const void *b) {
  const sample *p = a, *q = b;
  if (p->x != q->x)
    return p->x < q->x ? -1 : 1;
  if (p->y != q->y)
    return p->y < q->y ? -1 : 1;
  return p->row < q->row ? -1 : p->row > q->row;
}

/* The rows of a table sorted by (x, y); y may be NULL. */
static tn_status sorted(const pn_table *t, const char *x, const char *y, const char *f,
                        sample **out) {
  const double *cx = NULL, *cy = NULL, *cf = NULL;
  size_t n = pn_table_rows(t);
  TN_TRY(pn_table_column(t, x, &cx));
  if (y)
    TN_TRY(pn_table_column(t, y, &cy));
  TN_TRY(pn_table_column(t, f, &cf));
  TN_TRY(TN_NEW(n, out));
  for (size_t i = 0; i < n; ++i)
    (*out)[i] = (sample){cx[i], cy ? cy[i] : 0, cf[i], i};
  if (n)
    qsort(*out, n, sizeof **out, by_place);
  for (size_t i = 1; i < n; ++i) {
    const sample *p = *out + i - 1, *q = *out + i;
    if (p->x != q->x || p->y != q->y)
      continue;
    return TN_FAIL(TN_EINPUT, "%s:%zu: the same place as line %zu; each may stand once in a table",
                   pn_table_name(t), pn_table_line(t, q->row), pn_table_line(t, p->row));
  }
  return TN_OK;
}

tn_status pn_spline_of_table(const pn_table *table, const char *x, const char *f, pn_spline_end end,
                             pn_spline **out) {
  sample *s = NULL;
  double *xs = NULL, *fs = NULL;
  size_t n = pn_table_rows(table);
  tn_status status = sorted(table, x, NULL, f, &s);
  if (status == TN_OK)
    status = TN_NEW(n, &xs);
  if (status == TN_OK)
    status = TN_NEW(n, &fs);
  for (size_t i = 0; i < n && status == TN_OK; ++i) {
    xs[i] = s[i].x;
    fs[i] = s[i].f;
  }
  if (status == TN_OK && n < 2)
    status = TN_FAIL(TN_EINPUT, "%s: %zu rows, expected at least 2 to interpolate",
                     pn_table_name(table), n);
  if (status == TN_OK)
    status = pn_spline_new(n, xs, fs, end, out);
  tn_free(&s);
  tn_free(&xs);
  tn_free(&fs);
  return status;
}

/* Row k of the sorted samples must be grid point (k / ny, k % ny), where ny rows share the first
 * x. */
static tn_status check_grid(const pn_table *t, const sample *s, size_t n, size_t *ny) {
  *ny = 0;
  while (*ny < n && s[*ny].x == s[0].x)
    ++*ny;
  for (size_t k = 0; k < n; ++k)
    if (s[k].x != s[k - k % *ny].x || s[k].y != s[k % *ny].y)
      return TN_FAIL(TN_EINPUT, "%s:%zu: the rows are not a complete grid; (%g, %g) has no partner",
                     pn_table_name(t), pn_table_line(t, s[k].row), s[k].x, s[k].y);
  if (n < 4 || *ny < 2 || n / *ny < 2 || n % *ny)
    return TN_FAIL(
        TN_EINPUT,
        "%s: %zu rows with %zu of the first x are not a complete grid of at least 2 by 2",
        pn_table_name(t), n, *ny);
  return TN_OK;
}

tn_status pn_bicubic_of_table(const pn_table *table, const char *x, const char *y, const char *f,
                              pn_spline_end end, pn_bicubic **out) {
  sample *s = NULL;
  double *numbers = NULL;
  size_t n = pn_table_rows(table), ny = 0;
  tn_status status = sorted(table, x, y, f, &s);
  if (status == TN_OK)
    status = check_grid(table, s, n, &ny);
  if (status == TN_OK)
    status = TN_NEW(3 * n, &numbers);
  if (status == TN_OK) {
    double *xs = numbers, *ys = numbers + n, *fs = numbers + 2 * n;
    for (size_t k = 0; k < n; ++k) {
      fs[k] = s[k].f;
      if (k % ny == 0)
        xs[k / ny] = s[k].x;
      if (k < ny)
        ys[k] = s[k].y;
    }
    status = pn_bicubic_new(n / ny, xs, ny, ys, fs, end, out);
  }
  tn_free(&s);
  tn_free(&numbers);
  return status;
}
