/* rational.c: fractions of 64-bit integers and linear algebra over them.
 *
 * Numbers stay in lowest terms, so equal values have equal members. Common divisors are taken out
 * before multiplying and every operation is checked: a result is exact or an error, never rounded
 * or wrapped.
 *
 * An ag_span holds a subspace as its reduced row echelon form: rows with a leading 1 (the pivot)
 * that is the only nonzero of its column. The form depends on the space and the order of columns
 * alone, not on the order in which vectors came. Entries behind the possible pivots are passengers:
 * they undergo the same row operations and so record how a row came about. Rows are dense; one
 * insertion costs at most 2 * rows * width multiplications, and one pass over the row for a unit
 * vector.
 */
#include "autograd/rational.h"

#include <inttypes.h>

/* ---- Exact numbers --------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t x, int64_t y) { /* of magnitudes; x, y != INT64_MIN */
  x = x < 0 ? -x : x;
  y = y < 0 ? -y : y;
  while (y != 0) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

tn_status ag_rational_of(int64_t num, int64_t den, ag_rational *out) {
  if (den == 0)
    return TN_FAIL(TN_EINPUT, "rational %" PRId64 "/0: the denominator is zero", num);
  if (num == INT64_MIN || den == INT64_MIN)
    return TN_FAIL(TN_EUNSUPPORTED, "rational %" PRId64 "/%" PRId64 ": -2^63 is not supported", num,
                   den);
  int64_t divisor = common_divisor(num, den);
  if (den < 0)
    divisor = -divisor;
  *out = (ag_rational){num / divisor, den / divisor};
  return TN_OK;
}

static tn_status overflow(ag_rational x, const char *what, ag_rational y) {
  return TN_FAIL(TN_EUNSUPPORTED,
                 "rational %" PRId64 "/%" PRId64 " %s %" PRId64 "/%" PRId64
                 " does not fit into 64 bits; use smaller numbers or a run-time factor",
                 x.num, x.den, what, y.num, y.den);
}

tn_status ag_rational_add(ag_rational x, ag_rational y, ag_rational *out) {
  if (x.num == 0 || y.num == 0) { /* zeroed memory is a zero too, whatever its denominator */
    *out = y.num != 0 ? y : x.num != 0 ? x : (ag_rational){0, 1};
    return TN_OK;
  }
  int64_t g = common_divisor(x.den, y.den), left, right, num, den;
  if (__builtin_mul_overflow(x.num, y.den / g, &left) ||
      __builtin_mul_overflow(y.num, x.den / g, &right) ||
      __builtin_add_overflow(left, right, &num) || __builtin_mul_overflow(x.den / g, y.den, &den) ||
      num == INT64_MIN)
    return overflow(x, "+", y);
  return ag_rational_of(num, den, out);
}

tn_status ag_rational_mul(ag_rational x, ag_rational y, ag_rational *out) {
  if (x.num == 0 || y.num == 0) {
    *out = (ag_rational){0, 1};
    return TN_OK;
  }
  int64_t g = common_divisor(x.num, y.den), h = common_divisor(y.num, x.den);
  if (__builtin_mul_overflow(x.num / g, y.num / h, &out->num) ||
      __builtin_mul_overflow(x.den / h, y.den / g, &out->den) || out->num == INT64_MIN)
    return overflow(x, "*", y);
  return TN_OK;
}

double ag_rational_value(ag_rational x) { return (double)x.num / (double)x.den; }

tn_status ag_rational_div(ag_rational x, ag_rational y, ag_rational *out) {
  if (y.num == 0)
    return TN_FAIL(TN_EINPUT, "rational %" PRId64 "/%" PRId64 " is divided by zero", x.num, x.den);
  ag_rational inverse = y.num < 0 ? (ag_rational){-y.den, -y.num} : (ag_rational){y.den, y.num};
  return ag_rational_mul(x, inverse, out);
}

/* ---- Reduced row echelon form ---------------------------------------------------------------- */

tn_status ag_span_new(ag_span *s, size_t pivots, size_t width, size_t max_rows) {
  s->pivots = pivots;
  s->width = width;
  TN_TRY(TN_NEW(max_rows, &s->row));
  TN_TRY(TN_NEW(max_rows, &s->pivot));
  TN_TRY(TN_NEW(pivots, &s->row_of));
  for (size_t i = 0; i < pivots; ++i)
    s->row_of[i] = -1;
  return TN_OK;
}

void ag_span_free(ag_span *s) {
  for (size_t k = 0; s->row != NULL && k < s->rows; ++k)
    tn_free(&s->row[k]);
  tn_free(&s->row);
  tn_free(&s->pivot);
  tn_free(&s->row_of);
}

tn_status ag_rational_subtract(ag_rational factor, const ag_rational *row, size_t n,
                               ag_rational *v) {
  ag_rational minus = {-factor.num, factor.den}, product;
  for (size_t i = 0; i < n; ++i) {
    if (row[i].num == 0)
      continue;
    TN_TRY(ag_rational_mul(minus, row[i], &product));
    TN_TRY(ag_rational_add(v[i], product, &v[i]));
  }
  return TN_OK;
}

tn_status ag_span_reduce(const ag_span *s, ag_rational *v) {
  for (size_t i = 0; i < s->pivots; ++i)
    if (v[i].num != 0 && s->row_of[i] >= 0)
      TN_TRY(ag_rational_subtract(v[i], s->row[s->row_of[i]], s->width, v));
  return TN_OK;
}

tn_status ag_span_add(ag_span *s, ag_rational *v) {
  TN_TRY(ag_span_reduce(s, v));
  size_t pivot = 0;
  while (pivot < s->pivots && v[pivot].num == 0)
    ++pivot;
  if (pivot == s->pivots)
    return TN_OK;
  ag_rational *row = NULL, lead = v[pivot];
  TN_TRY(TN_NEW(s->width, &row));
  s->row[s->rows] = row;
  s->pivot[s->rows] = pivot;
  s->row_of[pivot] = (int)s->rows++;
  for (size_t i = 0; i < s->width; ++i)
    if (v[i].num != 0)
      TN_TRY(ag_rational_div(v[i], lead, &row[i]));
  for (size_t k = 0; k + 1 < s->rows; ++k)
    if (s->row[k][pivot].num != 0)
      TN_TRY(ag_rational_subtract(s->row[k][pivot], row, s->width, s->row[k]));
  return TN_OK;
}
