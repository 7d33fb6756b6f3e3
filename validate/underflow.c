/* underflow.c: what a low format does to numbers, measured on arrays.
 *
 * A format holds normal numbers from 2^normal on, with u of relative error, and below them multiples of
 * 2^smallest, which run out of digits and then are 0. Three ways of asking what that costs an array of exact
 * numbers x at a scale S = 2^s:
 *
 *   run       low numbers, as a program made them, beside S x: classes and losses of every entry (vd_tally)
 *   rounded   S x rounded once: what the format alone does, without the errors that came before (vd_tally_round)
 *   computed  at any scale from the exponents of x, which a power of two only shifts (vd_histogram)
 *
 * Losses are measured in mass, sum |x - low / S| over sum |x|, because a gradient is a sum: many small entries
 * that vanish may matter and may not, and a count cannot tell. The mass lost below the normal numbers is kept
 * apart from rounding among them, which no scale changes. Computed losses take the mean rounding error of a
 * subnormal, a quarter of the spacing; in [2^(smallest - 1), 2^smallest) every number goes up to 2^smallest
 * and the loss is exact.
 */
#include <math.h>
#include <string.h>

#include "validate/validate.h"

enum { EDGE = 4 }; /* binades of the class `edge` */

/* ---- Formats --------------------------------------------------------------------------------- */

/* A format of p significant bits whose exponents of normal numbers are 1 - top .. top. */
static vd_format ieee(tn_dtype dtype, int p, int top) {
  vd_format f = {.dtype = dtype, .smallest = 2 - top - p, .normal = 1 - top};
  f.largest = ldexp(2 - ldexp(1, 1 - p), top);
  f.overflow = p < 53 ? ldexp(2 - ldexp(1, -p), top) : INFINITY;
  f.roundoff = ldexp(1, -p);
  return f;
}

vd_format vd_format_of(tn_dtype dtype) {
  switch (dtype) {
  case TN_F16:
    return ieee(dtype, 11, 15);
  case TN_BF16:
    return ieee(dtype, 8, 127);
  case TN_TF32:
    return ieee(dtype, 11, 127);
  case TN_F32:
    return ieee(dtype, 24, 127);
  default:
    return ieee(TN_F64, 53, 1023);
  }
}

/* ---- Exponents ------------------------------------------------------------------------------- */

void vd_histogram_add(vd_histogram *h, size_t n, const double *x) {
  for (size_t i = 0; i < n; ++i) {
    double a = fabs(x[i]);
    if (a == 0) {
      ++h->zeros;
      continue;
    }
    if (!isfinite(a)) {
      ++h->nonfinite;
      continue;
    }
    int e = 0;
    frexp(a, &e); /* a = f 2^e with f in [0.5, 1) */
    int bin = e - 1 - VD_BIN_FIRST;
    bin = bin < 0 ? 0 : bin >= VD_BINS ? VD_BINS - 1 : bin;
    ++h->count[bin];
    h->mass_of[bin] += a;
    h->mass += a;
    h->largest = fmax(h->largest, a);
    h->least = h->n == 0 ? a : fmin(h->least, a);
    ++h->n;
  }
}

double vd_histogram_lost(const vd_histogram *h, const vd_format *format, int scale) {
  double lost = 0, spacing = ldexp(1, format->smallest - scale);
  for (int bin = 0; bin < VD_BINS; ++bin) {
    int e = VD_BIN_FIRST + bin + scale;
    if (h->count[bin] == 0)
      continue;
    if (e >= format->normal)
      break;
    if (e < format->smallest - 1)
      lost += h->mass_of[bin];
    else if (e < format->smallest)
      lost += spacing * (double)h->count[bin] - h->mass_of[bin];
    else
      lost += 0.25 * spacing * (double)h->count[bin];
  }
  return h->mass > 0 ? lost / h->mass : 0;
}

vd_window vd_histogram_window(const vd_histogram *h, const vd_format *format, double limit) {
  vd_window w = {-VD_SCALE_MOST, VD_SCALE_MOST};
  if (h->nonfinite > 0)
    return (vd_window){1, 0};
  while (w.hi >= w.lo && ldexp(h->largest, w.hi) >= format->overflow)
    --w.hi;
  while (w.lo <= w.hi && vd_histogram_lost(h, format, w.lo) >= limit)
    ++w.lo;
  return w;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

void vd_tally_add(vd_tally *t, const vd_format *format, int scale, size_t n,
                  const double *reference, const double *low) {
  const double unscale = ldexp(1, -scale), normal = ldexp(1, format->normal),
               edge = ldexp(1, format->normal + EDGE);
  for (size_t i = 0; i < n; ++i) {
    double x = reference[i], y = low[i], a = fabs(y);
    if (x == 0 || !isfinite(x)) {
      ++t->exact_zero;
      continue;
    }
    bool finite = isfinite(y);
    double error = finite ? fabs(x - y * unscale) : fabs(x);
    ++t->n;
    t->mass += fabs(x);
    t->mass2 += x * x;
    t->lost += error;
    t->lost2 += error * error;
    if (!finite) {
      *(isnan(y) ? &t->nan : &t->overflow) += 1;
    } else if (a >= edge) {
      ++t->normal;
    } else if (a >= normal) {
      ++t->edge;
    } else {
      t->below += error;
      if (a > 0) {
        ++t->subnormal;
        continue;
      }
      ++t->zero;
      t->flushed += error;
      t->flushed2 += error * error;
    }
  }
}

void vd_tally_round(vd_tally *t, const vd_format *format, int scale, size_t n,
                    const double *reference, const double *x) {
  enum { PIECE = 256 };
  double low[PIECE], factor = ldexp(1, scale);
  for (size_t first = 0; first < n; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    for (size_t i = 0; i < count; ++i)
      low[i] = tn_round(format->dtype, factor * x[first + i]);
    vd_tally_add(t, format, scale, count, reference + first, low);
  }
}

vd_gradient vd_gradient_of(size_t n, const double *reference, const double *low) {
  vd_gradient g = {.n = n};
  double xx = 0, yy = 0, xy = 0, dd = 0;
  for (size_t i = 0; i < n; ++i) {
    double x = reference[i], y = low[i];
    if (!isfinite(y)) {
      ++g.nonfinite;
      continue;
    }
    g.zero += y == 0 && x != 0;
    xx += x * x;
    yy += y * y;
    xy += x * y;
    dd += (x - y) * (x - y);
  }
  g.norm = sqrt(xx);
  g.error = g.nonfinite > 0 ? INFINITY : dd == 0 ? 0 : sqrt(dd / xx);
  g.cosine = g.nonfinite > 0 ? NAN : dd == 0 ? 1 : xy / sqrt(xx) / sqrt(yy);
  return g;
}

vd_updates vd_updates_of(tn_dtype master, double rate, size_t n, const double *weights,
                         const double *gradient) {
  vd_updates u = {.master = master, .rate = rate, .n = n};
  for (size_t i = 0; i < n; ++i) {
    double g = gradient[i];
    if (g == 0) {
      ++u.still;
      continue;
    }
    double w = tn_round(master, weights[i]);
    u.lost += tn_round(master, w - rate * (g / (fabs(g) + 1e-8))) == w;
  }
  return u;
}

const char *vd_operand_name(vd_operand operand) {
  static const char *const names[] = {"activation", "adjoint", "weight", "weight gradient"};
  return (unsigned)operand < 4 ? names[operand] : "?";
}
