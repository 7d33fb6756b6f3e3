/* test_closure.c: which channels tops get, how they are named, and what is refused. */
#include "tests/support_algebra.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Folding --------------------------------------------------------------------------------- */

static void expect_part(const ag_algebra *algebra, size_t i, size_t k, size_t n_parts, int channel,
                        int64_t num, int64_t den, int opaque) {
  size_t n;
  const ag_part *part = ag_algebra_top(algebra, i, &n);
  assert_int_equal(n, n_parts);
  assert_int_equal(part[k].channel, channel);
  assert_int_equal(part[k].factor.num, num);
  assert_int_equal(part[k].factor.den, den);
  assert_int_equal(part[k].opaque, opaque);
}

static void top_equal_to_another_shares_its_channel(void **state) {
  (void)state;
  ag_algebra *algebra = algebra_plan_text(
      "xyt", "x y", "t - s0*xx - s0*yy; -s0*yy + t - s0*xx; 2*t - 2*s0*xx - 2*s0*yy");
  assert_int_equal(ag_algebra_channels(algebra), 4);
  expect_part(algebra, 0, 0, 1, 3, 1, 1, -1);
  expect_part(algebra, 1, 0, 1, 3, 1, 1, -1);
  expect_part(algebra, 2, 0, 1, 3, 2, 1, -1);
  ag_algebra_free(&algebra);
}

static void top_inside_the_low_space_makes_no_channel(void **state) {
  (void)state;
  /* channels 1 x y xx xy yy and the biharmonic; the others are combinations, opaque factors outside */
  ag_algebra *algebra =
      algebra_plan_text("xy", "", "xxxx + 2*xxyy + yyyy; xx + 1/2*yy - 3; s1*xx - s0*1");
  assert_int_equal(ag_algebra_channels(algebra), 9);
  expect_part(algebra, 0, 0, 1, 8, 1, 1, -1);
  expect_part(algebra, 1, 0, 3, 0, -3, 1, -1);
  expect_part(algebra, 1, 1, 3, 3, 1, 1, -1);
  expect_part(algebra, 1, 2, 3, 5, 1, 2, -1);
  expect_part(algebra, 2, 0, 2, 0, -1, 1, 0);
  expect_part(algebra, 2, 1, 2, 3, 1, 1, 1);
  ag_algebra_free(&algebra);
}

static void top_with_common_factor_has_a_numeric_channel(void **state) {
  (void)state;
  size_t n;
  /* two viscosities and a sum of opaque factors: one Laplacian */
  ag_algebra *algebra =
      algebra_plan_text("xy", "", "3*s0*xx + 3*s0*yy; s1*xx + s2*yy + s1*yy + s2*xx");
  assert_int_equal(ag_algebra_channels(algebra), 4);
  expect_part(algebra, 0, 0, 1, 3, 3, 1, 0);
  expect_part(algebra, 1, 0, 2, 3, 1, 1, 1);
  expect_part(algebra, 1, 1, 2, 3, 1, 1, 2);
  const ag_term *term = ag_algebra_terms(algebra, &n);
  for (size_t i = 0; i < n; ++i)
    assert_int_equal(term[i].opaque, -1);
  ag_algebra_free(&algebra);
  /* the Laplacian, asked for later, and t free the first top of its opaque factor */
  algebra = algebra_plan_text("xyt", "", "t - s0*xx - s0*yy; t; xx + yy");
  assert_int_equal(ag_algebra_channels(algebra), 5);
  expect_part(algebra, 0, 0, 2, 3, 1, 1, -1);
  expect_part(algebra, 0, 1, 2, 4, -1, 1, 0);
  ag_algebra_free(&algebra);
}

static void tops_are_settled_from_the_numeric_ones_up(void **state) {
  (void)state;
  size_t n;
  /* yy is a channel; so the second needs xx alone, and then the first needs t alone */
  ag_algebra *algebra = algebra_plan_text("xyt", "", "t - s0*xx; xx + s1*yy; yy");
  assert_int_equal(ag_algebra_channels(algebra), 6);
  const ag_term *term = ag_algebra_terms(algebra, &n);
  for (size_t i = 0; i < n; ++i)
    assert_int_equal(term[i].opaque, -1);
  expect_part(algebra, 0, 0, 2, 3, 1, 1, -1);
  expect_part(algebra, 0, 1, 2, 4, -1, 1, 0);
  expect_part(algebra, 1, 1, 2, 5, 1, 1, 1);
  ag_algebra_free(&algebra);
}

static void top_stays_as_requested_beside_another(void **state) {
  (void)state;
  ag_monomial xx = {{2}};
  ag_algebra *algebra = algebra_plan_text("xy", "", "xx + yy; xx; yy");
  assert_int_equal(ag_algebra_channels(algebra), 5);
  assert_int_equal(ag_algebra_channel_of(algebra, &xx), 4);
  expect_part(algebra, 1, 0, 1, 4, 1, 1, -1);
  expect_part(algebra, 2, 0, 2, 3, 1, 1, -1);
  expect_part(algebra, 2, 1, 2, 4, -1, 1, -1);
  ag_algebra_free(&algebra);
}

static void top_of_one_term_or_none_is_accepted(void **state) {
  (void)state;
  size_t n;
  ag_algebra *algebra = algebra_plan_text("xt", "", "-2*s3*t; xx - xx; 5/3*xx");
  assert_int_equal(ag_algebra_channels(algebra), 4);
  expect_part(algebra, 0, 0, 1, 2, -2, 1, 3);
  (void)ag_algebra_top(algebra, 1, &n);
  assert_int_equal(n, 0);
  expect_part(algebra, 2, 0, 1, 3, 1, 1, -1);
  assert_null(ag_algebra_top(algebra, 3, &n));
  ag_algebra_free(&algebra);
}

static void separate_mode_gives_each_monomial_a_channel(void **state) {
  (void)state;
  algebra_request r;
  ag_monomial t = {{0, 1}}, xx = {{2}};
  algebra_parse(&r, "xt", "1 x", "t - s0*xx");
  ag_algebra *algebra = algebra_plan(&r, AG_SEPARATE);
  assert_int_equal(ag_algebra_channels(algebra), 4);
  assert_int_equal(ag_algebra_channel_of(algebra, &t), 2);
  assert_int_equal(ag_algebra_channel_of(algebra, &xx), 3);
  expect_part(algebra, 0, 0, 2, 2, 1, 1, -1);
  expect_part(algebra, 0, 1, 2, 3, -1, 1, 0);
  ag_algebra_free(&algebra);
}

static void tables_do_not_depend_on_request_order(void **state) {
  (void)state;
  size_t n, m;
  ag_algebra *one = algebra_plan_text("xyz", "xxy z xyz", "xxxx + xxyy; yyy + xz; zz");
  ag_algebra *two = algebra_plan_text("xyz", "z xyz z xxy 1", "xxxx + xxyy; yyy + xz; zz");
  const ag_term *left = ag_algebra_terms(one, &n), *right = ag_algebra_terms(two, &m);
  assert_int_equal(n, m);
  for (size_t i = 0; i < n; ++i) {
    assert_true(left[i].a == right[i].a && left[i].b == right[i].b && left[i].c == right[i].c);
    assert_true(left[i].factor.num == right[i].factor.num && left[i].opaque == right[i].opaque);
    assert_true(left[i].factor.den == right[i].factor.den);
  }
  ag_algebra_free(&one);
  ag_algebra_free(&two);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void expect_label(const ag_algebra *algebra, int channel, const ag_names *names,
                         const char *expected) {
  char *label = NULL;
  assert_int_equal(ag_algebra_label(algebra, channel, names, &label), TN_OK);
  assert_string_equal(label, expected);
  tn_free(&label);
}

static void label_reads_as_the_operator(void **state) {
  (void)state;
  const char *const xt[] = {"x", "t"}, *const xy[] = {"x", "y"}, *const polar[] = {"r", "theta"};
  const char *const opaques[] = {"nu"};
  const ag_names burgers = {"u", xt, NULL, 0}, named = {"u", xt, opaques, 1};
  const ag_names plane = {"w", xy, NULL, 0}, round = {"w", polar, NULL, 0};
  ag_algebra *algebra = algebra_plan_text("xt", "x", "t - s0*xx");
  expect_label(algebra, 0, &burgers, "u");
  expect_label(algebra, 1, &burgers, "x");
  expect_label(algebra, 2, &burgers, "t - s0*xx");
  expect_label(algebra, 2, &named, "t - nu*xx");
  expect_label(algebra, 2, NULL, "x1 - s0*x0_x0");
  expect_label(algebra, 0, NULL, "1");
  char *label = NULL;
  assert_int_equal(ag_algebra_label(algebra, 3, NULL, &label), TN_EINPUT);
  assert_null(label);
  ag_algebra_free(&algebra);
  algebra = algebra_plan_text("xy", "", "xxxx + 2*xxyy + yyyy");
  expect_label(algebra, 6, &plane, "x*(xx + yy)");
  expect_label(algebra, 7, &plane, "y*(xx + yy)");
  expect_label(algebra, 8, &plane, "xxxx + 2*xxyy + yyyy");
  expect_label(algebra, 4, &round, "r_theta");
  ag_algebra_free(&algebra);
  algebra = algebra_plan_text("xt", "", "-1/2*xx - 3*tt");
  expect_label(algebra, 3, &burgers, "-1/2*xx - 3*tt");
  ag_algebra_free(&algebra);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void expect_error(tn_status expected, const algebra_request *r, const char *piece) {
  ag_algebra *algebra = (ag_algebra *)&algebra; /* must become NULL */
  size_t held = tn_memory_now();
  tn_status status =
      ag_algebra_new(r->slots, r->n_monomials, r->monomial, r->n_tops, r->top, AG_FOLDED, &algebra);
  assert_int_equal(status, expected);
  assert_null(algebra);
  if (strstr(tn_error_text(), piece) == NULL)
    fail_msg("`%s` does not say `%s`", tn_error_text(), piece);
  assert_int_equal(tn_memory_now(), held);
}

static void request_that_is_wrong_is_refused(void **state) {
  (void)state;
  algebra_request r;
  algebra_parse(&r, "", "", "");
  expect_error(TN_EINPUT, &r, "0 slots");
  r.slots = AG_MAX_SLOTS + 1;
  expect_error(TN_EINPUT, &r, "17 slots");
  algebra_parse(&r, "xyz", "z", "");
  r.slots = 2;
  expect_error(TN_EINPUT, &r, "slot 2");
  algebra_parse(&r, "x", "", "1/0*x");
  expect_error(TN_EINPUT, &r, "denominator");
  algebra_parse(&r, "x", "", "s0*x");
  r.term[0].opaque = -2;
  expect_error(TN_EINPUT, &r, "-2");
  ag_algebra *algebra;
  assert_int_equal(ag_algebra_new(1, 0, NULL, 0, NULL, 2, &algebra), TN_EINPUT);
  assert_null(algebra);
}

static void request_that_is_too_large_is_refused(void **state) {
  (void)state;
  algebra_request r;
  algebra_parse(&r, "x", "", "xxxxxxxxxxxxx");
  expect_error(TN_EUNSUPPORTED, &r, "order 13");
  algebra_parse(&r, "abcdefghijkl", "abcdefghijkl", ""); /* 2^12 divisors */
  expect_error(TN_EUNSUPPORTED, &r, "2048");
  algebra_parse(&r, "xy", "",
                "3037000501*xxxx + 3037000507*xxxy + 3037000511*xxyy + 3037000559*yyyy");
  expect_error(TN_EUNSUPPORTED, &r, "64 bits");
  algebra_parse(&r, "x", "", "9223372036854775807*xx");
  expect_error(TN_EUNSUPPORTED, &r, "9223372036854775807");
  algebra_parse(&r, "x", "xxxxxxxxxxxx", ""); /* the largest order is fine */
  ag_algebra *algebra = algebra_plan(&r, AG_FOLDED);
  assert_int_equal(ag_algebra_channels(algebra), 13);
  assert_int_equal(algebra_count_terms(algebra), 13 * 14 / 2);
  ag_algebra_free(&algebra);
}

static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  algebra_request r;
  ag_algebra *algebra = NULL;
  algebra_parse(&r, "xyt", "xy", "xxxx + 2*xxyy + yyyy; t - s0*xxx - s1*yyyyy; s0*t");
  size_t held = tn_memory_now();
  uint64_t failures = 0;
  for (uint64_t n = 1; algebra == NULL; ++n) {
    tn_fault_at(n, false);
    tn_status status =
        ag_algebra_new(r.slots, r.n_monomials, r.monomial, r.n_tops, r.top, AG_FOLDED, &algebra);
    tn_fault_at(0, false);
    assert_int_equal(status, algebra == NULL ? TN_ENOMEM : TN_OK);
    assert_true(algebra != NULL || tn_memory_now() == held);
    failures += algebra == NULL;
  }
  assert_true(failures > 20);
  for (uint64_t n = 1;; ++n) {
    char *label = NULL;
    tn_fault_at(n, false);
    tn_status status =
        ag_algebra_label(algebra, (int)ag_algebra_channels(algebra) - 1, NULL, &label);
    tn_fault_at(0, false);
    tn_free(&label);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
  }
  ag_algebra_free(&algebra);
  assert_int_equal(tn_memory_now(), held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(top_equal_to_another_shares_its_channel),
      cmocka_unit_test(top_inside_the_low_space_makes_no_channel),
      cmocka_unit_test(top_with_common_factor_has_a_numeric_channel),
      cmocka_unit_test(tops_are_settled_from_the_numeric_ones_up),
      cmocka_unit_test(top_stays_as_requested_beside_another),
      cmocka_unit_test(top_of_one_term_or_none_is_accepted),
      cmocka_unit_test(separate_mode_gives_each_monomial_a_channel),
      cmocka_unit_test(tables_do_not_depend_on_request_order),
      cmocka_unit_test(label_reads_as_the_operator),
      cmocka_unit_test(request_that_is_wrong_is_refused),
      cmocka_unit_test(request_that_is_too_large_is_refused),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
