/* test_ops.c: every row of the operation table through the engine, in f64 and f32, orders 0 to 3
 * and in part to 5, against MPFR; and whether the audit itself would notice a fault. test_ops_low.c has the
 * low formats.
 *
 * Bounds are the promises of the table (ulp) and roundings of the condition scale (c), 8 up to order 2 and 12
 * beyond. Published values have 10 or 16 digits, which is then the tolerance.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autograd/autograd.h"
#include "validate/mp.h"

enum { ORDER = 5, MOST = 32 };

static void print_failures(const vd_report *report) {
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (!r->pass)
      print_error("%s %s %s order %d: %s %.4g, bound %.4g (ulp %.3g, c %.3g), at %.17g\n",
                  r->subject, r->dtype, r->method, r->order, r->measure, r->value, r->bound, r->ulp,
                  r->c, r->at);
  }
}

static void every_row_keeps_its_promise(void **state) {
  (void)state;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.points = 200;
  o.formats = 1U << TN_F64 | 1U << TN_F32;
  assert_int_equal(vd_report_new(&report), TN_OK);
  if (vd_audit_ops(&o, report) != TN_OK)
    fail_msg("%s (%s)", tn_error_text(), tn_error_place());
  print_failures(report);
  vd_coverage c = vd_coverage_of(&o, report);
  print_message("%zu cells, %zu checked, %zu within\n", c.cells, c.checked, c.within);
  assert_int_equal(c.checked, c.cells);
  assert_int_equal(c.within, c.cells);
  size_t points = 0, rows = vd_report_rows(report), failures = vd_report_failures(report);
  for (size_t i = 0; i < rows; ++i)
    points += vd_report_row(report, i)->points;
  vd_report_free(&report);
  print_message("%zu rows over %zu points, %zu fail\n", rows, points, failures);
  assert_true(rows > 600);
  assert_int_equal(failures, 0);
}

static void audit_fails_when_the_bound_is_too_small(void **state) {
  (void)state;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.only = "tanh";
  o.points = 50;
  o.c_ceiling = 0.01;
  assert_int_equal(vd_report_new(&report), TN_OK);
  assert_int_equal(vd_audit_ops(&o, report), TN_OK);
  assert_true(vd_report_failures(report) >=
              12); /* orders 1 to 3, two methods, two dtypes and more */
  o.only = "no such row";
  assert_int_equal(vd_audit_ops(&o, report), TN_EINPUT);
  vd_report_free(&report);
}

/* Every allocation of the op audit and of a report's texts fails once: an error, no leak. */
static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  vd_options o = vd_options_default();
  o.points = 2;
  o.max_order = 1;
  o.formats = 1U << TN_F16;
  size_t before = tn_memory_now();
  tn_status status = TN_ENOMEM;
  uint64_t n = 0;
  while (status != TN_OK) {
    vd_report *report = NULL;
    char *markdown = NULL, *json = NULL;
    tn_fault_at(++n, false);
    status = vd_report_new(&report);
    o.only = "tanh";
    if (status == TN_OK)
      status = vd_audit_ops(&o, report);
    o.only = "where";
    if (status == TN_OK)
      status = vd_audit_ops(&o, report);
    o.only = "lt";
    if (status == TN_OK)
      status = vd_audit_ops(&o, report);
    if (status == TN_OK)
      status = vd_report_markdown(report, "t", false, &markdown);
    if (status == TN_OK)
      status = vd_report_json(report, "t", &json);
    tn_free(&markdown);
    tn_free(&json);
    vd_report_free(&report);
    if (status != TN_OK)
      assert_int_equal(status, TN_ENOMEM);
    assert_int_equal(tn_memory_now(), before);
  }
  tn_fault_at(0, false);
  assert_true(n > 100);
}

static void mutants_are_all_killed(void **state) {
  (void)state;
  vd_mutants m;
  assert_int_equal(vd_mutate_rules(1, &m), TN_OK);
  print_message("mutants killed %zu of %zu (%zu rows)\n", m.killed, m.total, m.rows);
  if (m.killed != m.total)
    print_error("survivors: %s\n", m.survivors);
  assert_int_equal(m.killed, m.total);
  assert_true(m.total >= 150);
}

/* ---- One function at a few points, orders 0 to 5 -------------------------------------------- */

typedef struct probe {
  tn_op_id op;
  double exponent;
  tn_dtype dtype;
  bool nested; /* repeated reverse mode instead of a jet */
} probe;

static const tn_jet_table *derivatives_table(tn_graph *graph) {
  tn_jet_term term[64];
  size_t n = 0;
  for (int a = 0; a <= ORDER; ++a) {
    int64_t binomial = 1;
    for (int b = 0; b <= a; ++b) {
      term[n++] = (tn_jet_term){(int16_t)a, (int16_t)b, (int16_t)(a - b), -1, binomial, 1};
      binomial = binomial * (a - b) / (b + 1);
    }
  }
  return tn_jet_table_new(graph, ORDER + 1, ORDER, 0, n, term);
}

/* Values and derivatives of the probe at n points; x is rounded to the dtype. got[m][i]. */
static void run_probe(const probe *p, size_t n, double *x, double got[ORDER + 1][MOST]) {
  tn_graph *graph = NULL;
  assert_int_equal(tn_graph_new(&graph), TN_OK);
  tn_shape shape = tn_shape_points(tn_axis_new(graph, "points"));
  tn_value leaf = tn_input(graph, "x", p->dtype, shape), out[ORDER + 1];
  if (p->nested) {
    out[0] = tn_unary(p->op, leaf, p->exponent);
    for (int m = 1; m <= ORDER; ++m)
      assert_int_equal(ag_grad(out[m - 1], 1, &leaf, &out[m]), TN_OK);
  } else {
    tn_jet z = {.table = derivatives_table(graph)}, y;
    z.channel[0] = leaf;
    z.channel[1] = tn_const(graph, p->dtype, 1);
    assert_int_equal(tn_jet_unary(p->op, p->exponent, 0, &z, &y), TN_OK);
    memcpy(out, y.channel, sizeof out);
  }
  tn_buffer *buffer = NULL;
  assert_int_equal(tn_buffer_new(p->dtype, 1, &n, &buffer), TN_OK);
  void *data = tn_map(buffer, TN_READ_WRITE);
  assert_int_equal(tn_convert(n, TN_F64, x, p->dtype, data), TN_OK);
  assert_int_equal(tn_convert(n, p->dtype, data, TN_F64, x), TN_OK);
  tn_unmap(buffer);
  assert_int_equal(tn_bind(leaf, buffer), TN_OK);
  for (int m = 0; m <= ORDER; ++m)
    out[m] = tn_broadcast(out[m], shape);
  if (tn_eval(ORDER + 1, out) != TN_OK)
    fail_msg("eval: %s", tn_error_text());
  for (int m = 0; m <= ORDER; ++m)
    assert_int_equal(tn_read(out[m], n, got[m]), TN_OK);
  tn_buffer_release(&buffer);
  tn_graph_free(&graph);
}

/* Largest c over all points and orders, against the series. */
static double probe_c(const probe *p, size_t n, double *x) {
  double got[ORDER + 1][MOST], worst = 0;
  run_probe(p, n, x, got);
  vd_series_spec spec = {.op = p->op, .exponent = p->exponent, .order = ORDER, .bits = 256};
  vd_series *s = NULL;
  assert_int_equal(vd_series_new(&spec, &s), TN_OK);
  mpfr_t at, f;
  mpfr_inits2(256, at, f, (mpfr_ptr)0);
  for (size_t i = 0; i < n; ++i) {
    double factorial = 1;
    mpfr_set_d(at, x[i], MPFR_RNDN);
    vd_series_at(s, at, NULL);
    for (int m = 0; m <= ORDER; ++m) {
      factorial *= m ? m : 1;
      mpfr_mul_d(f, vd_series_coefficient(s, m), factorial, MPFR_RNDN);
      double c = vd_scaled_error(p->dtype, got[m][i], f, factorial * vd_series_scale(s, m));
      if (!(c <= 12))
        print_error("%s %g %s %s order %d at %g: %g, c = %g\n", tn_op_row(p->op)->name, p->exponent,
                    tn_dtype_name(p->dtype), p->nested ? "grad" : "jet", m, x[i], got[m][i], c);
      worst = fmax(worst, c);
    }
  }
  mpfr_clears(at, f, (mpfr_ptr)0);
  vd_series_free(&s);
  return worst;
}

static double all_ways(tn_op_id op, double exponent, size_t n, const double *points) {
  double worst = 0, x[MOST];
  for (int k = 0; k < 4; ++k) {
    probe p = {op, exponent, k & 1 ? TN_F32 : TN_F64, (k & 2) != 0};
    memcpy(x, points, n * sizeof *x);
    worst = fmax(worst, probe_c(&p, n, x));
  }
  return worst;
}

static void stable_rows_hold_to_order_5_near_zero_and_saturated(void **state) {
  (void)state;
  const double x[] = {0.0, -0.0, 1e-9, -1e-9, 1e-300, -1e-300, 0.5, -1,
                      2,   9,    -9,   20,    30,     -30,     400, -400};
  const tn_op_id rows[] = {TN_OP_tanh, TN_OP_sech2, TN_OP_sigmoid, TN_OP_dsigmoid, TN_OP_softplus,
                           TN_OP_silu, TN_OP_gelu,  TN_OP_sin,     TN_OP_erf};
  double worst = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    worst = fmax(worst, all_ways(rows[i], 0, sizeof x / sizeof *x, x));
  print_message("largest c %.2f\n", worst);
  assert_true(worst <= 12);
}

static void powers_hold_to_order_5_at_zero(void **state) {
  (void)state;
  const double x[] = {0.0, -0.0, 1e-9, -1e-9, 1e-300, -1e-300, -1, 1, 2.5};
  double worst = 0;
  for (int e = 1; e <= 5; ++e)
    worst = fmax(worst, all_ways(TN_OP_powi, e, sizeof x / sizeof *x, x));
  const double positive[] = {0.01, 0.5, 1, 3};
  worst = fmax(worst, all_ways(TN_OP_powr, 2.5, 4, positive));
  worst = fmax(worst, all_ways(TN_OP_powi, -2, 4, positive));
  assert_true(worst <= 12);
}

/* x + x^2 + x^3 + x^4 at -1, 0, 1: whole numbers, so exact. */
static void polynomial_has_whole_derivatives(void **state) {
  (void)state;
  const double known[3][ORDER + 1] = {
      {0, -2, 8, -18, 24, 0}, {0, 1, 2, 6, 24, 0}, {4, 10, 20, 30, 24, 0}};
  for (int nested = 0; nested < 2; ++nested) {
    double sum[3][ORDER + 1] = {{0}};
    for (int e = 1; e <= 4; ++e) {
      probe p = {TN_OP_powi, e, TN_F64, nested != 0};
      double x[] = {-1, 0, 1}, got[ORDER + 1][MOST];
      run_probe(&p, 3, x, got);
      for (int i = 0; i < 3; ++i)
        for (int m = 0; m <= ORDER; ++m)
          sum[i][m] += got[m][i];
    }
    for (int i = 0; i < 3; ++i)
      for (int m = 0; m <= ORDER; ++m)
        assert_true(sum[i][m] == known[i][m]);
  }
}

static void tanh_has_the_published_values(void **state) {
  (void)state;
  const double known[3][5] = {{0.4621171572600098, 0.7864477329659274, -0.7268619813835873,
                               -0.5652092882597704, 3.952219563724583},
                              {0.7615941559557649, 0.4199743416140261, -0.6397000084492245,
                               0.6216266807712963, 0.6650910447505017},
                              {0.9640275800758169, 0.07065082485316447, -0.1362186874271130,
                               0.2526540650980627, -0.4293871981827611}};
  for (int nested = 0; nested < 2; ++nested) {
    probe p = {TN_OP_tanh, 0, TN_F64, nested != 0};
    double x[] = {0.5, 1, 2}, got[ORDER + 1][MOST];
    run_probe(&p, 3, x, got);
    for (int i = 0; i < 3; ++i)
      for (int m = 0; m <= 4; ++m) /* 16 u: order 4 sums three terms up to 16 times its size */
        assert_true(fabs(got[m][i] - known[i][m]) <= 16 * 0x1p-53 * fmax(1, fabs(known[i][m])));
  }
}

static void saturated_activations_stay_finite(void **state) {
  (void)state;
  const struct {
    tn_op_id op;
    double x, value, first, second;
  } known[] = {{TN_OP_tanh, 400, 1, 0, 0},       {TN_OP_tanh, -400, -1, 0, 0},
               {TN_OP_softplus, 100, 100, 1, 0}, {TN_OP_softplus, -100, 0, 0, 0},
               {TN_OP_gelu, 60, 60, 1, 0},       {TN_OP_gelu, -60, 0, 0, 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    for (int k = 0; k < 4; ++k) {
      probe p = {known[i].op, 0, k & 1 ? TN_F32 : TN_F64, (k & 2) != 0};
      double x[1] = {known[i].x}, got[ORDER + 1][MOST];
      run_probe(&p, 1, x, got);
      assert_true(fabs(got[0][0] - known[i].value) < 1e-43); /* exp(-100) = 3.72e-44 */
      assert_true(fabs(got[1][0] - known[i].first) < 1e-43);
      assert_true(fabs(got[2][0] - known[i].second) < 1e-43);
      for (int m = 3; m <= ORDER; ++m)
        assert_true(fabs(got[m][0]) < 1e-43);
    }
}

static void tanh_derivative_keeps_its_digits_in_f32(void **state) {
  (void)state;
  const double known[] = {1.815832309e-4, 3.326109345e-6, 6.09199171e-8, 8.244614456e-9};
  probe p = {TN_OP_tanh, 0, TN_F32, false};
  double x[] = {5, 7, 9, 10}, got[ORDER + 1][MOST];
  run_probe(&p, 4, x, got);
  /* 4 ulp: 4 * 2^-23 */
  for (int i = 0; i < 4; ++i)
    assert_true(fabs(got[1][i] / known[i] - 1) < 4 * 0x1p-23);
}

/* Filters leave rows out, and the cells follow them. */
static void filters_choose_formats_and_orders(void **state) {
  (void)state;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.points = 8;
  o.only = "exp";
  o.formats = 1U << TN_BF16;
  o.min_order = o.max_order = 2;
  assert_int_equal(vd_report_new(&report), TN_OK);
  assert_int_equal(vd_audit_ops(&o, report), TN_OK);
  assert_int_equal(vd_report_rows(report), 2); /* grad and jet */
  for (size_t i = 0; i < 2; ++i) {
    assert_string_equal(vd_report_row(report, i)->dtype, "bf16");
    assert_int_equal(vd_report_row(report, i)->order, 2);
  }
  vd_coverage c = vd_coverage_of(&o, report);
  assert_int_equal(c.cells, 1);
  assert_int_equal(c.within, 1);
  o.only = NULL; /* nothing but exp was looked at */
  c = vd_coverage_of(&o, report);
  assert_true(c.cells > 40);
  assert_int_equal(c.checked, 2); /* and jet_unary by it */
  assert_int_equal(vd_summarize_ops(&o, report), TN_OK);
  assert_int_equal(vd_report_tables(report), 2);
  vd_report_free(&report);
}

/* Near the ends of the range, where reductions and tails once failed: logarithms of numbers beyond sqrt(2) 2^127
 * (2^1023), powers that overflow, fade out, or whose reciprocal does. */
static void ends_of_the_range_are_right(void **state) {
  (void)state;
  static const struct {
    tn_op_id op;
    double exponent, x64, x32;
  } cases[] = {{TN_OP_log, 0, 0x1.fffffffffffffp1023, 0x1.fffffep127},
               {TN_OP_log1p, 0, 0x1.7p1023, 0x1.7p127},
               {TN_OP_powi, 3, 0x1.fffffffffffffp1023, 0x1.fffffep127},
               {TN_OP_powi, 4, 0x1.23456p-256, 0x1.abcdep-32},
               {TN_OP_powi, 3, -0x1.23456p-350, -0x1.abcdep-48},
               {TN_OP_powi, -2, 0x1.8p512, 0x1.8p64},
               {TN_OP_powi, -2, 0x1.3579p-511, 0x1.3579p-63},
               {TN_OP_powi, -5, -0x1.23p210, -0x1.23p28}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    for (int d = 0; d < 2; ++d) {
      double x64 = cases[i].x64, y64 = 0;
      float x32 = (float)cases[i].x32, y32 = 0;
      tn_dtype dtype = d ? TN_F32 : TN_F64;
      assert_int_equal(tn_op_apply(cases[i].op, dtype, 1, d ? (void *)&x32 : (void *)&x64, NULL,
                                   cases[i].exponent, d ? (void *)&y32 : (void *)&y64),
                       TN_OK);
      mpfr_t x, e, r;
      mpfr_inits2(256, x, e, r, (mpfr_ptr)0);
      mpfr_set_d(x, d ? (double)x32 : x64, MPFR_RNDN);
      mpfr_set_d(e, cases[i].exponent, MPFR_RNDN);
      vd_ref_unary(cases[i].op, r, x, e);
      double error = vd_ulp_error(dtype, d ? (double)y32 : y64, r);
      mpfr_clears(x, e, r, (mpfr_ptr)0);
      if (!(error <= 1))
        fail_msg("%s %g %s: %g ulp", tn_op_row(cases[i].op)->name, cases[i].exponent,
                 tn_dtype_name(dtype), error);
    }
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

/* What the table promises stays within the ceilings of the project: exact operations half an ulp, functions 2.5,
 * sigmoid 3, silu and gelu 4, rows that are derivatives of other rows 4, first derivatives 4. The audit holds the
 * kernels to the table, this test holds the table to the ceilings. */
static void promises_are_within_the_ceilings(void **state) {
  (void)state;
  static const char *const exact[] = {"neg",   "square", "sqrt", "recip", "relu",
                                      "relu2", "step",   "abs",  "sign",  "add",
                                      "sub",   "mul",    "div",  "min",   "max"};
  static const char *const derivatives[] = {"sech2",  "dsigmoid", "derf", "normal_pdf",
                                            "dlog10", "silu",     "gelu"};
  size_t rows = 0;
  for (int id = 0; id < TN_OPS; ++id) {
    const tn_op *op = tn_op_row((tn_op_id)id);
    double ceiling = strcmp(op->name, "sigmoid") == 0 ? 3 : 2.5;
    if (op->arity < 1 || op->class_ == TN_COMPARISON)
      continue;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; ++i)
      if (strcmp(op->name, exact[i]) == 0)
        ceiling = 0.5;
    for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; ++i)
      if (strcmp(op->name, derivatives[i]) == 0)
        ceiling = 4;
    if (op->ulp[0] > ceiling)
      fail_msg("%s promises %g ulp, at most %g", op->name, op->ulp[0], ceiling);
    if (op->ulp[1] > 4)
      fail_msg("%s promises a derivative of %g ulp, at most 4", op->name, op->ulp[1]);
    ++rows;
  }
  printf("ops: promises of %zu of %zu rows within the ceilings\n", rows, rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promises_are_within_the_ceilings),
      cmocka_unit_test(every_row_keeps_its_promise),
      cmocka_unit_test(audit_fails_when_the_bound_is_too_small),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
      cmocka_unit_test(mutants_are_all_killed),
      cmocka_unit_test(filters_choose_formats_and_orders),
      cmocka_unit_test(ends_of_the_range_are_right),
      cmocka_unit_test(stable_rows_hold_to_order_5_near_zero_and_saturated),
      cmocka_unit_test(powers_hold_to_order_5_at_zero),
      cmocka_unit_test(polynomial_has_whole_derivatives),
      cmocka_unit_test(tanh_has_the_published_values),
      cmocka_unit_test(saturated_activations_stay_finite),
      cmocka_unit_test(tanh_derivative_keeps_its_digits_in_f32),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
