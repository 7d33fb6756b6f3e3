/* test_ref.c: the oracle's own foundations: error measures, MPFR references, Taylor series of
 * rules, finite differences. That wrong rules are noticed is tested in test_ops.c.
 *
 * References are held against identities, never against themselves. Digits follow from the
 * precision: P bits give 0.301 P digits, and an identity of a few operations may lose a few bits.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "validate/mp.h"

enum { P = 256 };

/* |a - b| <= 2^-(P - lost) max(|a|, |b|) */
static bool close_to(mpfr_srcptr a, mpfr_srcptr b, int lost) {
  mpfr_t d, m;
  mpfr_inits2(P, d, m, (mpfr_ptr)0);
  mpfr_sub(d, a, b, MPFR_RNDN);
  mpfr_set(m, mpfr_cmpabs(a, b) > 0 ? a : b, MPFR_RNDN);
  mpfr_abs(m, m, MPFR_RNDN);
  mpfr_mul_2si(m, m, lost - P, MPFR_RNDN);
  bool result = mpfr_cmpabs(d, m) <= 0;
  mpfr_clears(d, m, (mpfr_ptr)0);
  return result;
}

static void ulp_of_neighbours_is_one(void **state) {
  (void)state;
  mpfr_t r;
  mpfr_init2(r, P);
  const double at[] = {1, 1.5, -3, 1e300, 1e-300, 0x1p-1074, 0x1p-1022};
  for (size_t i = 0; i < sizeof at / sizeof *at; ++i) {
    mpfr_set_d(r, at[i], MPFR_RNDN);
    double away = nextafter(at[i], at[i] > 0 ? INFINITY : -INFINITY);
    assert_true(vd_ulp_error(TN_F64, at[i], r) == 0);
    assert_true(vd_ulp_error(TN_F64, away, r) == 1);
  }
  mpfr_set_d(r, 1.0, MPFR_RNDN);
  assert_true(vd_ulp_error(TN_F32, 1.0 + 0x1p-23, r) == 1);
  assert_true(vd_ulp_error(TN_BF16, 1.0 + 0x1p-7, r) == 1);
  assert_true(vd_ulp_error(TN_F16, 1.0 + 0x1p-10, r) == 1);
  mpfr_set_d(r, 0.0, MPFR_RNDN);
  assert_true(vd_ulp_error(TN_F32, 0x1p-149, r) == 1);
  mpfr_clear(r);
}

static void ulp_of_special_values(void **state) {
  (void)state;
  mpfr_t r;
  mpfr_init2(r, P);
  mpfr_set_ui_2exp(r, 1, 5000, MPFR_RNDN);
  assert_true(vd_ulp_error(TN_F64, INFINITY, r) == 0);
  assert_true(isinf(vd_ulp_error(TN_F64, -INFINITY, r)));
  assert_true(vd_ulp_error(TN_F64, 1, r) > 1e15);
  mpfr_set_d(r, 1e300, MPFR_RNDN);
  assert_true(isinf(vd_ulp_error(TN_F64, INFINITY, r)));
  assert_true(isinf(vd_ulp_error(TN_F64, NAN, r)));
  assert_true(vd_ulp_error(TN_F32, INFINITY, r) == 0); /* beyond f32 */
  mpfr_set_nan(r);
  assert_true(vd_ulp_error(TN_F64, NAN, r) == 0);
  assert_true(isinf(vd_ulp_error(TN_F64, 0, r)));
  mpfr_clear(r);
}

static void scaled_error_counts_roundings(void **state) {
  (void)state;
  mpfr_t r;
  mpfr_init2(r, P);
  mpfr_set_d(r, 1.0, MPFR_RNDN);
  assert_true(vd_scaled_error(TN_F64, 1 + 0x1p-52, r, 1) == 2);
  assert_true(vd_scaled_error(TN_F64, 1 + 0x1p-52, r, 4) == 0.5);
  assert_true(vd_scaled_error(TN_F32, 1 + 0x1p-23, r, 1) == 2);
  /* below the normal range the floor holds: half the smallest subnormal is one rounding */
  mpfr_set_ui_2exp(r, 1, -1075, MPFR_RNDN);
  assert_true(vd_scaled_error(TN_F64, 0, r, 0) == 1);
  mpfr_clear(r);
}

static void measure_norms_are_norms(void **state) {
  (void)state;
  vd_measure m = {0};
  mpfr_t r;
  mpfr_init2(r, P);
  mpfr_set_d(r, 3e200, MPFR_RNDN);
  vd_measure_add(&m, TN_F64, 3e200 * 1.5, r, 3e200, 0);
  mpfr_set_d(r, -4e200, MPFR_RNDN);
  vd_measure_add(&m, TN_F64, 4e200, r, 4e200, 1);
  /* differences 1.5e200 and 8e200 beside (3, 4)e200: squares would overflow */
  assert_true(fabs(vd_measure_norm2(&m) - sqrt(1.5 * 1.5 + 64) / 5) < 1e-14);
  assert_true(fabs(vd_measure_norm_inf(&m) - 2) < 1e-14);
  assert_int_equal(m.sign_flips, 1);
  assert_true(m.at == 1);
  mpfr_clear(r);
}

/* Two rows' references at x into p and q. */
static void pair(tn_op_id f, tn_op_id g, double x, mpfr_ptr p, mpfr_ptr q) {
  mpfr_t a;
  mpfr_init2(a, P);
  mpfr_set_d(a, x, MPFR_RNDN);
  vd_ref_unary(f, p, a, NULL);
  vd_ref_unary(g, q, a, NULL);
  mpfr_clear(a);
}

static void references_keep_identities(void **state) {
  (void)state;
  mpfr_t p, q, r;
  mpfr_inits2(P, p, q, r, (mpfr_ptr)0);
  tn_stream stream = tn_stream_of(7, "identities");
  for (uint64_t i = 0; i < 200; ++i) {
    double x = 12 * tn_random_uniform(stream, i) - 6;
    pair(TN_OP_sech2, TN_OP_tanh, x, p, q); /* sech^2 + tanh^2 = 1; adds, so few bits are lost */
    mpfr_sqr(q, q, MPFR_RNDN);
    mpfr_add(p, p, q, MPFR_RNDN);
    mpfr_set_ui(r, 1, MPFR_RNDN);
    assert_true(close_to(p, r, 4));
    pair(TN_OP_silu, TN_OP_sigmoid, x, p, q); /* silu = x sigmoid */
    mpfr_mul_d(q, q, x, MPFR_RNDN);
    assert_true(close_to(p, q, 4));
    pair(TN_OP_gelu, TN_OP_normal_cdf, x, p, q);
    mpfr_mul_d(q, q, x, MPFR_RNDN);
    assert_true(close_to(p, q, 4));
    pair(TN_OP_softplus, TN_OP_exp, x, p, q); /* exp(softplus) = 1 + exp */
    mpfr_exp(p, p, MPFR_RNDN);
    mpfr_add_ui(q, q, 1, MPFR_RNDN);
    assert_true(close_to(p, q, 8));
    pair(TN_OP_dsigmoid, TN_OP_sigmoid, x, p, q); /* dsigmoid = s (1 - s) */
    mpfr_ui_sub(r, 1, q, MPFR_RNDN);
    mpfr_mul(q, q, r, MPFR_RNDN);
    assert_true(close_to(p, q, 16)); /* 1 - s loses log2(1 + e^6) = 9 bits */
    pair(TN_OP_normal_cdf, TN_OP_normal_cdf, x, p, r);
    pair(TN_OP_normal_cdf, TN_OP_normal_cdf, -x, q, r); /* Phi(x) + Phi(-x) = 1 */
    mpfr_add(p, p, q, MPFR_RNDN);
    mpfr_set_ui(q, 1, MPFR_RNDN);
    assert_true(close_to(p, q, 4));
  }
  mpfr_clears(p, q, r, (mpfr_ptr)0);
}

static void piecewise_references_follow_the_conventions(void **state) {
  (void)state;
  mpfr_t x, y;
  mpfr_inits2(P, x, y, (mpfr_ptr)0);
  const tn_op_id rows[] = {TN_OP_relu, TN_OP_step, TN_OP_relu2, TN_OP_relu3, TN_OP_sign, TN_OP_abs};
  const double at_minus_2[] = {0, 0, 0, 0, -1, 2}, at_3[] = {3, 1, 9, 27, 1, 3};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    mpfr_set_d(x, -2, MPFR_RNDN);
    vd_ref_unary(rows[i], y, x, NULL);
    assert_true(mpfr_cmp_d(y, at_minus_2[i]) == 0);
    mpfr_set_d(x, 3, MPFR_RNDN);
    vd_ref_unary(rows[i], y, x, NULL);
    assert_true(mpfr_cmp_d(y, at_3[i]) == 0);
    mpfr_set_d(x, 0, MPFR_RNDN);
    vd_ref_unary(rows[i], y, x, NULL);
    assert_true(mpfr_zero_p(y));
    mpfr_set_nan(x);
    vd_ref_unary(rows[i], y, x, NULL);
    assert_true(mpfr_nan_p(y));
  }
  mpfr_clears(x, y, (mpfr_ptr)0);
}

/* m! times the m-th coefficient as a double. */
static double derivative(const vd_series *s, int m) {
  double f = mpfr_get_d(vd_series_coefficient(s, m), MPFR_RNDN);
  for (int i = 2; i <= m; ++i)
    f *= i;
  return f;
}

static vd_series *series_at(tn_op_id op, double exponent, int order, double x) {
  vd_series_spec spec = {.op = op, .exponent = exponent, .order = order, .bits = P};
  vd_series *s = NULL;
  assert_int_equal(vd_series_new(&spec, &s), TN_OK);
  mpfr_t a;
  mpfr_init2(a, P);
  mpfr_set_d(a, x, MPFR_RNDN);
  vd_series_at(s, a, NULL);
  mpfr_clear(a);
  return s;
}

/* The published values have 16 digits: 1e-15 relative is their rounding. */
static void series_of_tanh_has_the_known_values(void **state) {
  (void)state;
  const double x[] = {0.5, 1, 2};
  const double known[3][5] = {{0.4621171572600098, 0.7864477329659274, -0.7268619813835873,
                               -0.5652092882597704, 3.952219563724583},
                              {0.7615941559557649, 0.4199743416140261, -0.6397000084492245,
                               0.6216266807712963, 0.6650910447505017},
                              {0.9640275800758169, 0.07065082485316447, -0.1362186874271130,
                               0.2526540650980627, -0.4293871981827611}};
  for (int i = 0; i < 3; ++i) {
    vd_series *s = series_at(TN_OP_tanh, 0, 4, x[i]);
    for (int m = 0; m <= 4; ++m)
      assert_true(fabs(derivative(s, m) - known[i][m]) <= 1e-15 * fabs(known[i][m]));
    vd_series_free(&s);
  }
}

static void series_of_powers_at_zero_is_finite(void **state) {
  (void)state;
  /* orders 0..5 of x + x^2 + x^3 + x^4 at -1, 0, 1, all integers */
  const double known[3][6] = {{0, -2, 8, -18, 24, 0}, {0, 1, 2, 6, 24, 0}, {4, 10, 20, 30, 24, 0}};
  for (int i = 0; i < 3; ++i) {
    double sum[6] = {0};
    for (int e = 1; e <= 4; ++e) {
      vd_series *s = series_at(TN_OP_powi, e, 5, i - 1);
      for (int m = 0; m <= 5; ++m)
        sum[m] += derivative(s, m);
      vd_series_free(&s);
    }
    for (int m = 0; m <= 5; ++m)
      assert_true(sum[m] == known[i][m]);
  }
}

static void series_scale_bounds_the_coefficient(void **state) {
  (void)state;
  for (int op = 0; op < TN_OPS; ++op) {
    if (!vd_is_unary((tn_op_id)op))
      continue;
    const tn_op *row = tn_op_row((tn_op_id)op);
    vd_series *s = series_at((tn_op_id)op, 3, 5, 0.3 * row->lo + 0.7 * row->hi);
    for (int m = 0; m <= 5; ++m) /* 1 + 2^-50: the scale is summed in double */
      assert_true(fabs(mpfr_get_d(vd_series_coefficient(s, m), MPFR_RNDN)) <=
                  vd_series_scale(s, m) * (1 + 0x1p-50));
    vd_series_free(&s);
  }
}

static void differences_of_a_polynomial_are_exact(void **state) {
  (void)state;
  mpfr_t d;
  mpfr_init2(d, 512);
  vd_fd(TN_OP_powi, 5, 0, 5, 0.7, 0, d); /* fifth differences of x^5 have no truncation error */
  assert_true(mpfr_cmp_ui(d, 120) == 0);
  vd_fd(TN_OP_powi, 2, 0, 3, 0.7, 0, d);
  assert_true(mpfr_zero_p(d));
  mpfr_clear(d);
}

static void rules_agree_with_differences(void **state) {
  (void)state;
  vd_report *report = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  assert_int_equal(vd_audit_rules(NULL, report), TN_OK);
  double least = 99;
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (!r->pass)
      print_error("%s order %d: %.1f digits at %.17g\n", r->subject, r->order, r->value, r->at);
    least = fmin(least, r->value);
  }
  print_message("%zu rules and orders, at least %.1f digits\n", vd_report_rows(report), least);
  assert_true(vd_report_rows(report) > 200);
  assert_int_equal(vd_report_failures(report), 0);
  vd_report_free(&report);
}

static void reports_survive_awkward_rows(void **state) {
  (void)state;
  vd_report *report = NULL;
  char *text = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  vd_row row = {.subject = "a \"quoted\" \\ name",
                .dtype = "f64",
                .method = "kernel",
                .measure = "ulp",
                .value = INFINITY,
                .bound = 1,
                .order = 1};
  assert_int_equal(vd_report_add(report, &row), TN_OK);
  assert_int_equal(vd_report_json(report, "t", &text), TN_OK);
  assert_non_null(strstr(text, "\"subject\":\"a \\\"quoted\\\" \\\\ name\""));
  assert_non_null(strstr(text, "\"value\":null"));
  assert_non_null(strstr(text, "\"failures\":1}"));
  tn_free(&text);
  assert_int_equal(vd_report_markdown(report, "t", false, &text), TN_OK);
  assert_non_null(strstr(text, "1 rows, 1 fail"));
  assert_non_null(strstr(text, "**FAIL**"));
  tn_free(&text);
  vd_report_free(&report);
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ulp_of_neighbours_is_one),
      cmocka_unit_test(ulp_of_special_values),
      cmocka_unit_test(scaled_error_counts_roundings),
      cmocka_unit_test(measure_norms_are_norms),
      cmocka_unit_test(references_keep_identities),
      cmocka_unit_test(piecewise_references_follow_the_conventions),
      cmocka_unit_test(series_of_tanh_has_the_known_values),
      cmocka_unit_test(series_of_powers_at_zero_is_finite),
      cmocka_unit_test(series_scale_bounds_the_coefficient),
      cmocka_unit_test(differences_of_a_polynomial_are_exact),
      cmocka_unit_test(rules_agree_with_differences),
      cmocka_unit_test(reports_survive_awkward_rows),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
