/* rational.h: exact fractions in 64 bits and subspaces over them. Internal to autograd/. */
#ifndef AUTOGRAD_RATIONAL_H
#define AUTOGRAD_RATIONAL_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* num/den in lowest terms, den > 0. Arithmetic takes zeroed memory, 0/0, for a zero as well. */
typedef struct ag_rational {
  int64_t num, den;
} ag_rational;

/* *out = num/den in lowest terms. TN_EINPUT if den = 0, TN_EUNSUPPORTED for INT64_MIN. */
tn_status ag_rational_of(int64_t num, int64_t den, ag_rational *out) TN_MUST_USE;
/* x + y, x * y, x / y of numbers in lowest terms. TN_EUNSUPPORTED, naming both, beyond 64 bits;
 * TN_EINPUT for y = 0 in the quotient. */
tn_status ag_rational_add(ag_rational x, ag_rational y, ag_rational *out) TN_MUST_USE;
tn_status ag_rational_mul(ag_rational x, ag_rational y, ag_rational *out) TN_MUST_USE;
tn_status ag_rational_div(ag_rational x, ag_rational y, ag_rational *out) TN_MUST_USE;
/* v -= factor * row, n entries each. */
tn_status ag_rational_subtract(ag_rational factor, const ag_rational *row, size_t n,
                               ag_rational *v) TN_MUST_USE;
/* The nearest double if |num| and den are at most 2^53; else three roundings: within 2^-51.4 of it.
 */
double ag_rational_value(ag_rational x);

typedef struct ag_span {
  size_t pivots;     /* leading entries of a row that can be its pivot; the others are passengers */
  size_t width;      /* entries of a row */
  size_t rows;       /* at most as many as were announced */
  ag_rational **row; /* owned; 1 at its pivot, 0 at the other pivots */
  size_t *pivot;     /* of each row */
  int *row_of;       /* for each possible pivot: its row, or -1 */
} ag_span;

/* An empty span; *s must be zeroed and is to be freed after an error too. */
tn_status ag_span_new(ag_span *s, size_t pivots, size_t width, size_t max_rows) TN_MUST_USE;
void ag_span_free(ag_span *s);
/* v, of s->width entries, minus its part in the span: 0 at all pivots afterwards. */
tn_status ag_span_reduce(const ag_span *s, ag_rational *v) TN_MUST_USE;
/* Reduces v in place and adds the rest as a row, unless v depends on the rows. At most max_rows
 * times may that happen. */
tn_status ag_span_add(ag_span *s, ag_rational *v) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
