/* ops_points.c: where the audit of operations looks.
 *
 * Random numbers miss what goes wrong. So every case gets, in its format: zeros of both signs, the
 * smallest and largest subnormals, the smallest normal numbers, one and its neighbours, arguments where
 * exponentials saturate or overflow, where reductions change their way, the largest number, infinities
 * and NaN; and the numbers next to zeros of the function and of its derivatives up to order 3, which
 * are found by a scan for changes of sign and bisection of the reference. Of the random numbers three in
 * four are uniform in the row's interval; the fourth has a uniform exponent, over all that the format has
 * (of the row's sign, where its interval has one).
 *
 * Rows with two arguments get all pairs of a shorter list, and every eighth random pair is a tie.
 */
#include <math.h>
#include <string.h>

#include "validate/ops.h"

enum { MOST_SPECIAL = 160, SCAN = 160, MOST_ZEROS = 12 };

typedef struct list {
  tn_dtype dtype;
  size_t n;
  double x[MOST_SPECIAL];
} list;

static void put(list *l, double x) {
  x = tn_round(l->dtype, x);
  for (size_t i = 0; i < l->n; ++i)
    if (memcmp(&l->x[i], &x, sizeof x) == 0)
      return;
  if (l->n < MOST_SPECIAL)
    l->x[l->n++] = x;
}

static void put_both(list *l, double x) {
  put(l, x);
  put(l, -x);
}

static void special(list *l, const tn_op *row, bool brief) {
  vd_range f = vd_range_of(l->dtype);
  double tiny = ldexp(1, f.lowest), normal = ldexp(1, f.normal), ulp = ldexp(1, 1 - f.digits);
  double largest = ldexp(2 - ulp, f.top - 1);
  const double always[] = {0, tiny, normal - tiny, normal, 1, 1 + ulp, 3, largest, INFINITY};
  const double unary[] = {3 * tiny, 1.5 * normal, 1e-9, 0x1p-12,     1 - ulp / 2, 0.5,    9,
                          20,       30,           89,   104,         400,         711,    746,
                          1e5,      1.1e5,        1e9,  largest / 4, 0x1p-500,    0x1p500};
  for (size_t i = 0; i < sizeof always / sizeof *always; ++i)
    put_both(l, always[i]);
  for (size_t i = 0; !brief && i < sizeof unary / sizeof *unary; ++i)
    put_both(l, unary[i]);
  put(l, NAN);
  put(l, row->lo);
  put(l, row->hi);
}

/* ---- Zeros ----------------------------------------------------------------------------------- */

static int sign_at(vd_series *s, int order, double x, mpfr_ptr at) {
  mpfr_set_d(at, x, MPFR_RNDN);
  vd_series_at(s, at, NULL);
  mpfr_srcptr y = vd_series_coefficient(s, order);
  return mpfr_nan_p(y) ? 0 : mpfr_sgn(y);
}

static double bisect(vd_series *s, int order, double lo, double hi, int sign_lo, mpfr_ptr at) {
  for (int i = 0; i < 60 && nextafter(lo, hi) < hi; ++i) {
    double mid = lo + (hi - lo) / 2;
    if (sign_at(s, order, mid, at) == sign_lo)
      lo = mid;
    else
      hi = mid;
  }
  return hi;
}

/* Numbers next to the zeros of orders 0 .. 3 of a unary case. */
static tn_status zeros(const vd_case *c, list *l) {
  const tn_op *row = tn_op_row(c->op);
  vd_series_spec spec = {.op = c->op, .exponent = c->exponent, .order = VD_ORDERS - 1, .bits = 96};
  vd_series *s = NULL;
  TN_TRY(vd_series_new(&spec, &s));
  mpfr_t at;
  mpfr_init2(at, 96);
  double spacing = ldexp(1, 1 - vd_range_of(l->dtype).digits);
  for (int order = 0; order < VD_ORDERS; ++order) {
    int found = 0, before = 0;
    double left = row->lo;
    for (int i = 0; i <= SCAN && found < MOST_ZEROS; ++i) {
      double x = row->lo + (row->hi - row->lo) * (i + 0.371) / (SCAN + 1);
      int sign = sign_at(s, order, x, at);
      if (sign * before < 0) {
        double zero = bisect(s, order, left, x, before, at);
        for (int j = -1; j <= 1; ++j)
          put(l, zero + j * spacing * fabs(zero));
        ++found;
      }
      left = x;
      before = sign;
    }
  }
  mpfr_clear(at);
  vd_series_free(&s);
  return TN_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

void vd_round_all(tn_dtype dtype, size_t n, double *x) {
  for (size_t i = 0; i < n; ++i)
    x[i] = tn_round(dtype, x[i]);
}

void vd_points_free(vd_points *points) {
  tn_free(&points->x[0]);
  tn_free(&points->x[1]);
  points->n = 0;
}

static double random_number(const tn_op *row, tn_dtype dtype, tn_stream stream, uint64_t i) {
  double u = tn_random_uniform(stream, 2 * i), v = tn_random_uniform(stream, 2 * i + 1);
  uint64_t bits = (uint64_t)(v * 0x1p40); /* the low ones decide, the high ones are v's */
  if (bits % 4 != 3)
    return row->lo + (row->hi - row->lo) * u;
  vd_range f = vd_range_of(dtype);
  double x = ldexp(1 + v, (int)floor(f.lowest + u * (f.top - f.lowest)));
  return row->lo < 0 && bits / 4 % 2 ? -x : x;
}

tn_status vd_points_sample(const vd_options *o, const vd_case *c, tn_dtype dtype, vd_points *out) {
  const tn_op *row = tn_op_row(c->op);
  bool binary = vd_is_binary(c->op);
  list l = {.dtype = dtype};
  *out = (vd_points){0};
  special(&l, row, binary);
  if (!binary)
    TN_TRY(zeros(c, &l));
  size_t first = binary ? l.n * l.n : l.n;
  tn_stream stream = tn_stream_of(o->seed, row->name);
  out->n = first + o->points;
  for (int k = 0; k <= binary; ++k) {
    tn_status status = TN_NEW(out->n, &out->x[k]);
    if (status != TN_OK) {
      vd_points_free(out);
      return status;
    }
    for (size_t i = 0; i < out->n; ++i) {
      uint64_t draw = 2 * (uint64_t)(i - first) + (uint64_t)k;
      if (i < first)
        out->x[k][i] = l.x[!binary ? i : k == c->along ? i / l.n : i % l.n];
      else if (k == 1 && i % 8 == 0)
        out->x[1][i] = out->x[0][i]; /* a tie */
      else
        out->x[k][i] = random_number(row, dtype, stream, draw);
    }
    vd_round_all(dtype, out->n, out->x[k]);
  }
  return TN_OK;
}

tn_status vd_points_all(tn_dtype dtype, vd_points *out) {
  *out = (vd_points){.n = 65536};
  TN_TRY(TN_NEW(out->n, &out->x[0]));
  for (size_t i = 0; i < out->n; ++i)
    out->x[0][i] = dtype == TN_BF16 ? tn_of_bf16((uint16_t)i) : tn_of_f16((uint16_t)i);
  return TN_OK;
}
