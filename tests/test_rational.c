/* test_rational.c: exact fractions and their echelon form. The planner's laws in test_algebra.c use both. */
#include "autograd/rational.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  tn_stream stream;
  uint64_t next;
} source;

static uint64_t below(source *s, uint64_t n) { return tn_random_bits(s->stream, s->next++) % n; }

static void rational_arithmetic_is_exact(void **state) {
  (void)state;
  source s = {tn_stream_of(5, "rationals"), 0};
  for (int i = 0; i < 2000; ++i) {
    ag_rational x, y, sum, product, quotient, back;
    assert_int_equal(
        ag_rational_of((int64_t)below(&s, 2001) - 1000, 1 + (int64_t)below(&s, 1000), &x), TN_OK);
    assert_int_equal(
        ag_rational_of((int64_t)below(&s, 1000) + 1, -1 - (int64_t)below(&s, 1000), &y), TN_OK);
    assert_int_equal(ag_rational_add(x, y, &sum), TN_OK);
    assert_int_equal(ag_rational_mul(x, y, &product), TN_OK);
    assert_int_equal(ag_rational_div(product, y, &quotient), TN_OK);
    assert_int_equal(ag_rational_mul(y, (ag_rational){-1, 1}, &back), TN_OK);
    assert_int_equal(ag_rational_add(sum, back, &back), TN_OK);
    assert_true(back.num == x.num && back.den == x.den);
    assert_true(quotient.num == x.num && quotient.den == x.den);
    assert_int_equal(sum.num * x.den * y.den, (x.num * y.den + y.num * x.den) * sum.den);
    assert_int_equal(product.num * x.den * y.den, x.num * y.num * product.den);
    assert_true(sum.den > 0 && product.den > 0);
  }
  assert_true(ag_rational_value((ag_rational){-3, 4}) == -0.75);
}

static void rational_overflow_is_an_error(void **state) {
  (void)state;
  const ag_rational big = {INT64_MAX, 1}, small = {1, INT64_MAX}, two = {2, 1}, half = {1, 2};
  ag_rational out;
  assert_int_equal(ag_rational_add(big, big, &out), TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_mul(big, two, &out), TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_mul(small, half, &out), TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_add(small, half, &out), TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_add((ag_rational){-INT64_MAX, 1}, (ag_rational){-1, 1}, &out),
                   TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_of(INT64_MIN, 3, &out), TN_EUNSUPPORTED);
  assert_int_equal(ag_rational_of(1, 0, &out), TN_EINPUT);
  assert_int_equal(ag_rational_div(two, (ag_rational){0, 1}, &out), TN_EINPUT);
  assert_int_equal(ag_rational_mul(big, small, &out), TN_OK); /* common divisors go first */
  assert_true(out.num == 1 && out.den == 1);
}

/* Rows from random vectors: reduced echelon form, passengers that say how each row was made. */
static void span_holds_reduced_rows_and_their_origin(void **state) {
  (void)state;
  enum { N = 6, VECTORS = 8 };
  source s = {tn_stream_of(6, "span"), 0};
  for (int round = 0; round < 50; ++round) {
    ag_span span = {0};
    ag_rational vector[VECTORS][N + VECTORS];
    assert_int_equal(ag_span_new(&span, N, N + VECTORS, N), TN_OK);
    for (size_t k = 0; k < VECTORS; ++k) {
      memset(vector[k], 0, sizeof vector[k]);
      for (size_t i = 0; i < N; ++i)
        vector[k][i] = (ag_rational){(int64_t)below(&s, 5) - 2, 1};
      vector[k][N + k] = (ag_rational){1, 1};
      ag_rational work[N + VECTORS];
      memcpy(work, vector[k], sizeof work);
      assert_int_equal(ag_span_add(&span, work), TN_OK);
    }
    for (size_t r = 0; r < span.rows; ++r) {
      const ag_rational *row = span.row[r];
      for (size_t q = 0; q < span.rows; ++q)
        assert_int_equal(row[span.pivot[q]].num, q == r);
      assert_int_equal(span.row_of[span.pivot[r]], (int)r);
      for (size_t i = 0; i < span.pivot[r]; ++i)
        assert_int_equal(row[i].num, 0);
      ag_rational sum[N + VECTORS] = {{0, 0}};
      for (size_t k = 0; k < VECTORS; ++k) {
        ag_rational minus = row[N + k];
        minus.num = -minus.num;
        if (minus.num != 0)
          assert_int_equal(ag_rational_subtract(minus, vector[k], N, sum), TN_OK);
      }
      for (size_t i = 0; i < N; ++i)
        assert_true(sum[i].num == row[i].num && (sum[i].num == 0 || sum[i].den == row[i].den));
    }
    ag_span_free(&span);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rational_arithmetic_is_exact),
      cmocka_unit_test(rational_overflow_is_an_error),
      cmocka_unit_test(span_holds_reduced_rows_and_their_origin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
