/* test_ops_low.c: the table's operations in tf32, bf16 and f16; cases from practice in every format; and whether
 * the audit would notice what goes wrong in kernels.
 *
 * Bounds are those of ops_judge.c, except where published values have fewer digits, which is then the tolerance.
 * The full sweep of the formats is test_exhaustive16 and test_pairs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "validate/ops.h"

enum { DEEPEST = 4, MOST = 24 };

/* ---- The audit ------------------------------------------------------------------------------- */

static void low_formats_keep_their_promise(void **state) {
  (void)state;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.points = 60;
  o.formats = 1U << TN_TF32 | 1U << TN_BF16 | 1U << TN_F16;
  assert_int_equal(vd_report_new(&report), TN_OK);
  if (vd_audit_ops(&o, report) != TN_OK)
    fail_msg("%s (%s)", tn_error_text(), tn_error_place());
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (!r->pass)
      print_error("%s %s %s order %d: %s %.4g, bound %.4g (ulp %.3g, c %.3g), at %.17g\n",
                  r->subject, r->dtype, r->method, r->order, r->measure, r->value, r->bound, r->ulp,
                  r->c, r->at);
  }
  vd_coverage c = vd_coverage_of(&o, report);
  print_message("%zu cells, %zu checked, %zu within, %zu points\n", c.cells, c.checked, c.within,
                c.points);
  assert_int_equal(vd_report_failures(report), 0);
  assert_int_equal(c.checked, c.cells);
  assert_int_equal(c.within, c.cells);
  vd_report_free(&report);
}

/* Every 1021st number of each format through all rows; every 256th first number through all pairs. */
static void sample_of_all_numbers_rounds_once(void **state) {
  (void)state;
  static const tn_dtype formats[] = {TN_BF16, TN_F16};
  static const tn_op_id ops[] = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_div};
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  assert_int_equal(vd_report_new(&report), TN_OK);
  for (int d = 0; d < 2; ++d) {
    vd_points all, some = {.n = 0};
    uint64_t checked = 0, wrong = 0;
    assert_int_equal(vd_points_all(formats[d], &all), TN_OK);
    assert_int_equal(TN_NEW(65, &some.x[0]), TN_OK);
    for (size_t i = 0; i < 65536; i += 1021)
      some.x[0][some.n++] = all.x[0][i];
    for (int op = 0; op < TN_OPS; ++op) {
      vd_case list[VD_CASES];
      size_t n = vd_is_unary((tn_op_id)op) ? vd_cases_of((tn_op_id)op, list) : 0;
      for (size_t i = 0; i < n; ++i)
        assert_int_equal(vd_audit_case(&o, list + i, formats[d], false, &some, report), TN_OK);
    }
    for (uint32_t i = 0; i < 64; ++i)
      for (int k = 0; k < 4; ++k)
        assert_int_equal(vd_audit_pairs(ops[k], formats[d], 1021 * i + 3, 1, &checked, &wrong),
                         TN_OK);
    assert_true(checked == 64 * 4 * 65536);
    assert_true(wrong == 0);
    vd_points_free(&all);
    vd_points_free(&some);
  }
  assert_int_equal(vd_report_failures(report), 0);
  assert_true(vd_report_rows(report) > 400);
  vd_report_free(&report);
}

/* ---- Would it notice? ------------------------------------------------------------------------ */

/* Textbook forms of f32 kernels that lose digits: each must break the promise that the kernel keeps. */
static float naive(tn_op_id op, float x) {
  float t = 0;
  switch (op) {
  case TN_OP_sech2:
    t = tanhf(x);
    return 1 - t * t;
  case TN_OP_sigmoid:
    return 0.5F * (1 + tanhf(0.5F * x));
  case TN_OP_dsigmoid:
    t = 1 / (1 + expf(-x));
    return t * (1 - t);
  case TN_OP_softplus:
    return logf(1 + expf(x));
  case TN_OP_gelu:
    return 0.5F * x * (1 + erff(x * 0x1.6a09e6p-1F));
  case TN_OP_expm1:
    return expf(x) - 1;
  case TN_OP_log1p:
    return logf(1 + x);
  case TN_OP_silu:
    return x - x / (1 + expf(x));
  case TN_OP_tanh:
    return (expf(2 * x) - 1) / (expf(2 * x) + 1);
  case TN_OP_normal_cdf:
    return 0.5F * (1 + erff(x * 0x1.6a09e6p-1F));
  default:
    return x;
  }
}

static void cell_of(const vd_case *c, tn_dtype dtype, const vd_points *p, const float *y,
                    const vd_promise *promise, vd_cell *cell) {
  mpfr_t x, r;
  mpfr_inits2(128, x, r, (mpfr_ptr)0);
  for (size_t i = 0; i < p->n; ++i) {
    mpfr_set_d(x, p->x[0][i], MPFR_RNDN);
    vd_ref_unary(c->op, r, x, NULL);
    if (isfinite(p->x[0][i]))
      vd_cell_add(cell, promise, tn_round(dtype, (double)y[i]), r, fabs(mpfr_get_d(r, MPFR_RNDN)),
                  p->x[0][i]);
  }
  mpfr_clears(x, r, (mpfr_ptr)0);
}

static void naive_kernels_are_noticed(void **state) {
  (void)state;
  static const tn_op_id rows[] = {TN_OP_sech2, TN_OP_sigmoid,   TN_OP_dsigmoid, TN_OP_softplus,
                                  TN_OP_gelu,  TN_OP_expm1,     TN_OP_log1p,    TN_OP_silu,
                                  TN_OP_tanh,  TN_OP_normal_cdf};
  vd_options o = vd_options_default();
  o.points = 300;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k)
    for (int low = 0; low < 2; ++low) {
      vd_case c = {.op = rows[k]};
      tn_dtype dtype = low ? TN_F16 : TN_F32;
      vd_points p;
      vd_cell ours = {0}, theirs = {0};
      vd_promise promise = vd_promise_of(tn_op_row(rows[k]), dtype, true, 0);
      assert_int_equal(vd_points_sample(&o, &c, dtype, &p), TN_OK);
      float *x = NULL, *y = NULL;
      assert_int_equal(TN_NEW(p.n, &x), TN_OK);
      assert_int_equal(TN_NEW(p.n, &y), TN_OK);
      for (size_t i = 0; i < p.n; ++i)
        x[i] = (float)p.x[0][i], y[i] = naive(rows[k], x[i]);
      cell_of(&c, dtype, &p, y, &promise, &theirs);
      assert_int_equal(tn_op_apply(rows[k], dtype, p.n, x, NULL, 0, y), TN_OK);
      cell_of(&c, dtype, &p, y, &promise, &ours);
      if (!vd_cell_passes(&ours, &promise) || vd_cell_passes(&theirs, &promise))
        fail_msg("%s %s: ours %g ulp at %g, naive %g ulp", tn_op_row(rows[k])->name,
                 tn_dtype_name(dtype), ours.ulp, ours.ulp_at, theirs.ulp);
      tn_free(&x);
      tn_free(&y);
      vd_points_free(&p);
    }
}

/* A result one number away, one rounded twice, a NaN lost and an infinity lost are each noticed. */
static void wrong_roundings_are_noticed(void **state) {
  (void)state;
  const vd_promise once = vd_promise_of(tn_op_row(TN_OP_exp), TN_F16, true, 0);
  const struct {
    double value, reference;
    bool passes;
  } cases[] = {{1, 1, true},
               {1 + 0x1p-10, 1, false},
               {1, 1 + 0x1p-11 - 0x1p-30, true},
               {1, 1 + 0x1p-11 + 0x1p-16, false}, /* 1/32 of an ulp beyond the tie */
               {1 + 0x1p-10, 1 + 0x1p-11 + 0x1p-16, true},
               {65504, 65519.9, true},
               {(double)INFINITY, 65519.99, true}, /* 2.6 roundings of f32 from the boundary */
               {(double)INFINITY, 65519.9, false},
               {(double)INFINITY, 65510, false},
               {65504, 65530, false},
               {65504, 1e9, false},
               {(double)INFINITY, 1e9, true},
               {-(double)INFINITY, 1e9, false},
               {(double)NAN, 1, false},
               {1, (double)NAN, false},
               {(double)NAN, (double)NAN, true},
               {0, 0x1p-26, true},
               {0x1p-24, 0x1p-26, false},
               {0, 0x1p-24, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    vd_cell cell = {0};
    mpfr_t r;
    mpfr_init2(r, 96);
    mpfr_set_d(r, cases[i].reference, MPFR_RNDN);
    vd_cell_add(&cell, &once, cases[i].value, r, fabs(cases[i].reference), 0);
    mpfr_clear(r);
    if (vd_cell_passes(&cell, &once) != cases[i].passes)
      fail_msg("case %d: %g for %.17g: %g ulp, c %g", (int)i, cases[i].value, cases[i].reference,
               cell.ulp, cell.c);
  }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Derivatives 0 .. 4 at n points by a jet; x is rounded to the format. got[m][i]. */
static void jets(tn_op_id op, tn_dtype dtype, size_t n, double *x, double got[DEEPEST + 1][MOST]) {
  tn_graph *graph = NULL;
  double flat[(DEEPEST + 1) * MOST], *columns[1] = {x};
  assert_int_equal(tn_graph_new(&graph), TN_OK);
  tn_value leaf = tn_input(graph, "x", dtype, tn_shape_points(tn_axis_new(graph, "points")));
  tn_jet z = {.table = vd_derivatives_table(graph, DEEPEST)}, y;
  z.channel[0] = leaf;
  z.channel[1] = tn_const(graph, dtype, 1);
  assert_int_equal(tn_jet_unary(op, 0, 0, &z, &y), TN_OK);
  for (int m = 0; m <= DEEPEST; ++m)
    y.channel[m] = y.channel[m].graph ? tn_broadcast(y.channel[m], tn_shape_of(leaf))
                                      : tn_fill(graph, dtype, tn_shape_of(leaf), 0);
  vd_round_all(dtype, n, x);
  assert_int_equal(
      vd_run_points(NULL, graph, 1, &leaf, DEEPEST + 1, y.channel, dtype, n, columns, flat), TN_OK);
  for (int m = 0; m <= DEEPEST; ++m)
    memcpy(got[m], flat + (size_t)m * n, n * sizeof *flat);
  tn_graph_free(&graph);
}

/* Half an ulp, or `spare` roundings where the format computes in itself. */
static bool near(tn_dtype dtype, double value, double known, double spare) {
  double u = tn_dtype_roundoff(dtype);
  bool low = tn_dtype_compute(dtype) != dtype;
  return fabs(value - known) <=
         (low ? 1.01 : spare) * u * fabs(known) + 0x1p-25 * (dtype == TN_F16);
}

static void tanh_table_holds_in_every_format(void **state) {
  (void)state;
  static const double known[3][DEEPEST + 1] = {
      {0.4621171572600098, 0.7864477329659274, -0.7268619813835873, -0.5652092882597704,
       3.952219563724583},
      {0.7615941559557649, 0.4199743416140261, -0.6397000084492245, 0.6216266807712963,
       0.6650910447505017},
      {0.9640275800758169, 0.07065082485316447, -0.1362186874271130, 0.2526540650980627,
       -0.4293871981827611}};
  for (int d = 0; d < VD_FORMATS; ++d) {
    double x[] = {0.5, 1, 2}, got[DEEPEST + 1][MOST];
    jets(TN_OP_tanh, vd_formats[d], 3, x, got);
    for (int i = 0; i < 3; ++i)
      for (int m = 0; m <= DEEPEST;
           ++m) /* 16: order 4 sums three terms of up to 6 times its size */
        if (!near(vd_formats[d], got[m][i], known[i][m], 16))
          fail_msg("%s order %d at %g: %.17g", tn_dtype_name(vd_formats[d]), m, x[i], got[m][i]);
  }
}

static void saturated_activations_are_finite_in_every_format(void **state) {
  (void)state;
  static const struct {
    tn_op_id op;
    double x, known[4];
  } cases[] = {{TN_OP_tanh, 400, {1, 0, 0, 0}},        {TN_OP_tanh, -400, {-1, 0, 0, 0}},
               {TN_OP_softplus, 100, {100, 1, 0, 0}},  {TN_OP_softplus, -100, {0, 0, 0, 0}},
               {TN_OP_gelu, 60, {60, 1, 0, 0}},        {TN_OP_gelu, -60, {0, 0, 0, 0}},
               {TN_OP_gelu, 40.375, {40.375, 1, 0, 0}}}; /* 40.375^3 overflows f16 */
  for (int d = 0; d < VD_FORMATS; ++d)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
      double x[] = {cases[i].x}, got[DEEPEST + 1][MOST];
      jets(cases[i].op, vd_formats[d], 1, x, got);
      for (int m = 0; m < 4; ++m) {
        double known = m == 0 ? tn_round(vd_formats[d], cases[i].known[0]) : cases[i].known[m];
        assert_true(fabs(got[m][0] - known) < 1e-43); /* e^-100 = 3.72e-44 */
      }
    }
}

static void sech2_keeps_its_digits_in_every_format(void **state) {
  (void)state;
  static const double at[] = {3, 4, 5, 7, 9, 10};
  static const double known[] = {9.866037165440192e-3, 1.340950683025897e-3, 1.815832309438067e-4,
                                 3.326109345e-6,       6.09199171e-8,        8.244614456e-9};
  for (int d = 0; d < VD_FORMATS; ++d) {
    double x[6], got[DEEPEST + 1][MOST];
    memcpy(x, at, sizeof x);
    jets(TN_OP_tanh, vd_formats[d], 6, x, got);
    for (int i = 0; i < 6; ++i) {
      double published = i < 3 ? 0 : i == 4 ? 1e-9 : 2e-10; /* half of the last digit, relative */
      if (!near(vd_formats[d], got[1][i], known[i],
                8 + published / tn_dtype_roundoff(vd_formats[d])))
        fail_msg("%s: tanh'(%g) = %.10g", tn_dtype_name(vd_formats[d]), at[i], got[1][i]);
    }
  }
}

/* tanh' of f32 for |z| <= 80: relative error at most 4 ulp where it is normal (|z| < 44), the subnormal
 * spacing below; no value lost to cancellation. Every 499th number; test_exhaustive has them all. */
static void sech2_loses_no_value_in_f32(void **state) {
  (void)state;
  enum { BLOCK = 512 };
  float x[BLOCK], y[BLOCK];
  uint32_t bits = 0;
  double worst = 0;
  size_t n = 0;
  const uint32_t last = 0x42a00000; /* 80 */
  while (bits <= last) {
    for (int i = 0; i < BLOCK; ++i, bits += 499) {
      uint32_t pattern = (bits <= last ? bits : last) | (uint32_t)(i & 1) << 31;
      memcpy(&x[i], &pattern, sizeof pattern);
    }
    assert_int_equal(tn_op_apply(TN_OP_sech2, TN_F32, BLOCK, x, NULL, 0, y), TN_OK);
    for (int i = 0; i < BLOCK; ++i, ++n) {
      double q = exp(-2 * fabs((double)x[i])), exact = 4 * q / ((1 + q) * (1 + q));
      double unit = fmax(ldexp(1, ilogb(exact) - 23), 0x1p-149);
      worst = fmax(worst, fabs((double)y[i] - exact) / unit);
    }
  }
  print_message("sech2: %.3f ulp over %zu numbers\n", worst, n);
  assert_true(worst <= 4);
  assert_true(n > 2000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(low_formats_keep_their_promise),
      cmocka_unit_test(sample_of_all_numbers_rounds_once),
      cmocka_unit_test(naive_kernels_are_noticed),
      cmocka_unit_test(wrong_roundings_are_noticed),
      cmocka_unit_test(tanh_table_holds_in_every_format),
      cmocka_unit_test(saturated_activations_are_finite_in_every_format),
      cmocka_unit_test(sech2_keeps_its_digits_in_every_format),
      cmocka_unit_test(sech2_loses_no_value_in_f32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
