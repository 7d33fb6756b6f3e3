/* test_samplers.c: laws of Halton's sequence and of Latin hypercubes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/samplers.h"

enum { D = 16 };

/* Does each of `parts` equal parts of axis j hold exactly one of the points from..from + parts - 1? */
static void one_in_each(const double *x, size_t from, size_t parts, size_t j) {
  unsigned char *seen = calloc(parts, 1);
  assert_non_null(seen);
  for (size_t i = 0; i < parts; ++i) {
    double u = x[(from + i) * D + j];
    assert_true(u > 0 && u < 1);
    size_t at = (size_t)(u * (double)parts);
    if (seen[at]++)
      fail_msg("axis %zu: part %zu of %zu twice", j, at, parts);
  }
  free(seen);
}

static void halton_stratifies_every_axis(void **state) {
  static const size_t squares[] = {4, 9, 25, 49, 121, 169, 289, 361, 529, 841, 961, 1369, 1681, 1849, 2209, 2809};
  static double x[2 * 2809 * D];
  (void)state;
  assert_int_equal(pn_halton(D, tn_stream_of(3, "a"), 0, 2 * 2809, x), TN_OK);
  for (size_t j = 0; j < D; ++j) {
    one_in_each(x, 0, squares[j], j);
    one_in_each(x, squares[j], squares[j], j); /* from a multiple of p^2 */
  }
}

static void halton_does_not_depend_on_the_cut(void **state) {
  static double whole[100 * D], part[60 * D];
  (void)state;
  tn_stream stream = tn_stream_of(5, "b");
  assert_int_equal(pn_halton(D, stream, 0, 100, whole), TN_OK);
  assert_int_equal(pn_halton(D, stream, 40, 60, part), TN_OK);
  assert_memory_equal(whole + 40 * D, part, sizeof part);
}

static void latin_stratifies_every_axis(void **state) {
  static double x[1000 * D];
  (void)state;
  for (size_t n = 1; n <= 1000; n = 3 * n + 1) {
    assert_int_equal(pn_latin(D, tn_stream_of(7, "c"), 0, n, x), TN_OK);
    for (size_t j = 0; j < D; ++j)
      one_in_each(x, 0, n, j);
  }
}

static void streams_differ_and_repeat(void **state) {
  double a[64], b[64], c[64];
  tn_status (*const samplers[])(size_t, tn_stream, uint64_t, size_t, double *) = {pn_halton, pn_latin};
  (void)state;
  for (size_t k = 0; k < 2; ++k) {
    assert_int_equal(samplers[k](2, tn_stream_of(1, "x"), 0, 32, a), TN_OK);
    assert_int_equal(samplers[k](2, tn_stream_of(1, "x"), 0, 32, b), TN_OK);
    assert_int_equal(samplers[k](2, tn_stream_of(2, "x"), 0, 32, c), TN_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    assert_int_equal(samplers[k](17, tn_stream_of(1, "x"), 0, 1, a), TN_ERANGE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(halton_stratifies_every_axis),
      cmocka_unit_test(halton_does_not_depend_on_the_cut),
      cmocka_unit_test(latin_stratifies_every_axis),
      cmocka_unit_test(streams_differ_and_repeat),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
