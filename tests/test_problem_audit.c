/* test_problem_audit.c: audits of whole programs: rounding against cancellation, right formulas
 * against wrong ones, and a network with second derivatives as the solver builds it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autograd/autograd.h"
#include "tests/support_replay.h"

static void program_audit_tells_rounding_from_cancellation(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F32, tn_shape_points(g.axis), false);
  tn_value big = tn_const(g.graph, TN_F32, 1e6);
  tn_value out[] = {tn_tanh(tn_square(x)), tn_sub(tn_add(x, big), big)};
  rig_run(&g, 2, out);
  const char *names[] = {"smooth", "cancels"};
  vd_report *report = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  vd_options o = vd_options_default();
  assert_int_equal(vd_audit_program(g.program, NULL, g.n_bindings, g.binding, names, &o, report),
                   TN_OK);
  o.c_ceiling = 1e-9; /* now the norm decides alone */
  assert_int_equal(vd_audit_program(g.program, NULL, g.n_bindings, g.binding, names, &o, report),
                   TN_OK);
  assert_int_equal(vd_report_rows(report), 4);
  assert_string_equal(vd_report_row(report, 0)->measure, "norm2");
  assert_string_equal(vd_report_row(report, 1)->measure, "c");
  assert_true(vd_report_row(report, 0)->pass && vd_report_row(report, 1)->pass);
  assert_true(vd_report_row(report, 2)->pass);
  assert_false(vd_report_row(report, 3)->pass);
  assert_true(vd_report_row(report, 3)->norm2 > 1e-3); /* 1e6 u32 = 0.06 */
  vd_report_free(&report);
  rig_close(&g);
}

static void gradient_audit_sees_a_wrong_formula(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value two = tn_const(g.graph, TN_F64, 2);
  tn_value right = tn_mul(two, tn_mul(tn_sin(x), tn_cos(x)));
  tn_value out[] = {tn_sum_all(tn_square(tn_sin(x))), right,
                    tn_mul(right, tn_const(g.graph, TN_F64, 1 + 0x1p-40))};
  rig_run(&g, 3, out);
  vd_report *report = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  for (size_t i = 1; i <= 2; ++i)
    assert_int_equal(
        vd_audit_gradient(g.program, g.n_bindings, g.binding, 0, i, x, "L", NULL, report), TN_OK);
  assert_true(vd_report_row(report, 0)->pass);
  assert_false(vd_report_row(report, 1)->pass);
  assert_true(vd_report_row(report, 0)->value > 33); /* 2^-120 of the third derivative */
  assert_true(fabs(vd_report_row(report, 1)->value - 40 * log10(2)) < 1.5); /* the factor put in */
  assert_int_equal(
      vd_audit_gradient(g.program, g.n_bindings, g.binding, 1, 0, x, "L", NULL, report), TN_ESHAPE);
  vd_report_free(&report);
  rig_close(&g);
}

/* ---- A network: what the solver does, in small ---- */

enum { WIDTH = 5, LEAVES = 5 };

static void make_weights(rig *g, tn_dtype dtype, tn_value *p) {
  const size_t in[2] = {1, WIDTH}, square[2] = {WIDTH, WIDTH}, out[2] = {WIDTH, 1};
  p[0] = rig_leaf(g, "w1", dtype, tn_shape_fixed(2, in), false);
  p[1] = rig_leaf(g, "b1", dtype, tn_shape_fixed(1, square), false);
  p[2] = rig_leaf(g, "w2", dtype, tn_shape_fixed(2, square), false);
  p[3] = rig_leaf(g, "b2", dtype, tn_shape_fixed(1, square), false);
  p[4] = rig_leaf(g, "w3", dtype, tn_shape_fixed(2, out), false);
}

static tn_value network(const tn_value *p, tn_value x) {
  tn_value h = tn_tanh(tn_linear(tn_expand(x, 1, 0, 1), p[0], p[1], false));
  h = tn_tanh(tn_linear(h, p[2], p[3], false));
  return tn_sum(tn_linear(h, p[4], (tn_value){0}, false), 1);
}

/* u and its second derivative: by repeated reverse mode, or by jets through a field. */
static void network_and_second(rig *g, tn_dtype dtype, bool jets, const tn_value *p, tn_value x,
                               tn_value *u) {
  if (!jets) {
    u[0] = network(p, x);
    assert_int_equal(ag_grad(u[0], 1, &x, &u[1]), TN_OK);
    assert_int_equal(ag_grad(u[1], 1, &x, &u[1]), TN_OK);
    return;
  }
  ag_field *field = NULL;
  assert_int_equal(ag_field_new(g->graph, "u", 1, dtype, &field), TN_OK);
  tn_value body = network(p, ag_field_argument(field, 0));
  assert_int_equal(ag_field_body(field, 1, &body), TN_OK);
  uint8_t order[TN_MAX_SLOTS] = {0};
  tn_value call[2] = {ag_call(field, 0, &x, order)};
  order[0] = 2;
  call[1] = ag_call(field, 0, &x, order);
  if (ag_resolve(g->graph, 2, call, NULL, u, NULL) != TN_OK)
    fail_msg("resolve: %s", tn_error_text());
}

/* Outputs: mean((u_xx + u)^2), u, u_xx, then the gradient by each of the LEAVES weights. */
static void open_network(rig *g, tn_dtype dtype, bool jets, tn_value *p) {
  rig_open(g);
  make_weights(g, dtype, p);
  tn_value x = rig_leaf(g, "x", dtype, tn_shape_points(g->axis), false), out[3 + LEAVES];
  network_and_second(g, dtype, jets, p, x, out + 1);
  out[0] = tn_mean(tn_square(tn_add(out[1], out[2])));
  assert_int_equal(ag_grad(out[0], LEAVES, p, out + 3), TN_OK);
  rig_run(g, 3 + LEAVES, out);
}

/* 128 u normwise is asked of fresh networks; and the gradient is that of the loss, to 20 digits. */
static void network_gradient_holds_in_rounding_and_formula(void **state) {
  (void)state;
  for (int k = 0; k < 4; ++k) {
    rig g;
    tn_value p[LEAVES];
    tn_dtype dtype = k & 1 ? TN_F32 : TN_F64;
    open_network(&g, dtype, (k & 2) != 0, p);
    vd_report *report = NULL;
    assert_int_equal(vd_report_new(&report), TN_OK);
    assert_int_equal(vd_audit_program(g.program, NULL, g.n_bindings, g.binding, NULL, NULL, report),
                     TN_OK);
    for (size_t i = 0; i < LEAVES; ++i)
      assert_int_equal(
          vd_audit_gradient(g.program, g.n_bindings, g.binding, 0, 3 + i, p[i], "p", NULL, report),
          TN_OK);
    for (size_t i = 0; i < vd_report_rows(report); ++i) {
      const vd_row *r = vd_report_row(report, i);
      if (!r->pass)
        fail_msg("%s row %d: %s %g, bound %g, c %g", tn_dtype_name(dtype), (int)i, r->measure,
                 r->value, r->bound, r->c);
    }
    vd_report_free(&report);
    rig_close(&g);
  }
}

/* Two ways to the same derivatives, in MPFR: only formulas can differ. */
static void jets_and_reverse_mode_agree_to_60_digits(void **state) {
  (void)state;
  rig a, b;
  tn_value p[LEAVES], q[LEAVES];
  open_network(&a, TN_F64, false, p);
  open_network(&b, TN_F64, true, q);
  mpfr_t d;
  mpfr_init2(d, BITS);
  for (size_t output = 0; output < 3 + LEAVES; ++output) {
    tn_edge e = tn_program_output(a.program, output);
    size_t n = vd_replay_count(a.replay, e.node, e.port);
    for (size_t i = 0; i < n; ++i) {
      mpfr_sub(d, rig_at(&a, output, i), rig_at(&b, output, i), MPFR_RNDN);
      /* 2^-200 of the scale is 60 digits; 256 bits leave 2^56 for roundings */
      double scale = vd_replay_scale(a.replay, e.node, e.port, i);
      assert_true(fabs(mpfr_get_d(d, MPFR_RNDN)) <= ldexp(scale, -200));
    }
  }
  mpfr_clear(d);
  rig_close(&a);
  rig_close(&b);
}

/* ---- A training step in two formats ---- */

static void describe(const rig *g, const tn_value *p, const char *name, tn_dtype dtype,
                     vd_problem_output *outputs, vd_problem_format *format) {
  outputs[0] = (vd_problem_output){"loss", VD_LOSS, -1, 0, {0}};
  outputs[1] = (vd_problem_output){"u", VD_UNKNOWN, 0, 0, {0}};
  outputs[2] = (vd_problem_output){"net u_xx", VD_DERIVATIVE, 2, 0, {0}};
  for (size_t i = 0; i < LEAVES; ++i)
    outputs[3 + i] = (vd_problem_output){"gradient w", VD_GRADIENT, -1, 0, p[i]};
  *format = (vd_problem_format){.name = name,
                                .dtype = dtype,
                                .program = g->program,
                                .n_bindings = g->n_bindings,
                                .bindings = g->binding,
                                .outputs = outputs};
}

static void training_step_is_audited_in_every_format(void **state) {
  (void)state;
  rig g[2];
  tn_value p[2][LEAVES];
  vd_problem_output outputs[2][3 + LEAVES];
  vd_problem_format formats[2];
  open_network(&g[0], TN_F64, true, p[0]);
  open_network(&g[1], TN_F32, true, p[1]);
  describe(&g[0], p[0], "f64", TN_F64, outputs[0], formats);
  describe(&g[1], p[1], "f32", TN_F32, outputs[1], formats + 1);
  const vd_problem problem = {.n_outputs = 3 + LEAVES,
                              .n_formats = 2,
                              .formats = formats,
                              .judged = 1,
                              .channels = "u, x, xx"};
  vd_report *report = NULL;
  char *text = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  if (vd_audit_problem(&problem, NULL, report) != TN_OK)
    fail_msg("audit: %s", tn_error_text());
  assert_int_equal(vd_report_rows(report), 3 + LEAVES + 1); /* and the running bounds */
  assert_int_equal(vd_report_failures(report), 0);
  assert_true(vd_report_row(report, 3 + LEAVES)->points > 1000);
  for (size_t i = 0; i < 3 + LEAVES; ++i) {
    const vd_row *r = vd_report_row(report, i);
    assert_true(r->c < 8); /* of errors to be expected */
    assert_true(r->value > 0 && r->value < 1e-5 && r->bound < 1e-3);
  }
  assert_int_equal(vd_report_tables(report), 5);
  assert_string_equal(vd_report_cell(report, 0, 1, 0), "f32");
  assert_string_equal(vd_report_cell(report, 3, 0, 0), "w1");
  assert_int_equal(vd_report_html(report, "t", &text), TN_OK);
  assert_non_null(strstr(text, "f32 carries this problem to about "));
  tn_free(&text);
  vd_report_free(&report);
  rig_close(&g[0]);
  rig_close(&g[1]);
}

/* An error a hundred times what rounding makes is one: the f32 program's results are held against those of
 * a program whose weights differ by 2^-14. */
static void stored_weights_are_told_from_arithmetic(void **state) {
  (void)state;
  rig g[2];
  tn_value p[2][LEAVES];
  vd_problem_output outputs[2][3 + LEAVES];
  vd_problem_format formats[2];
  open_network(&g[0], TN_F64, true, p[0]);
  open_network(&g[1], TN_F32, true, p[1]);
  float *w = tn_map(g[1].binding[2].buffer, TN_READ_WRITE);
  for (size_t i = 0; i < WIDTH * WIDTH; ++i)
    w[i] *= 1 + 0x1p-14f;
  tn_unmap(g[1].binding[2].buffer);
  describe(&g[0], p[0], "f64", TN_F64, outputs[0], formats);
  describe(&g[1], p[1], "f32", TN_F32, outputs[1], formats + 1);
  const vd_problem problem = {
      .n_outputs = 3 + LEAVES, .n_formats = 2, .formats = formats, .judged = 1};
  vd_report *report = NULL;
  assert_int_equal(vd_report_new(&report), TN_OK);
  assert_int_equal(vd_audit_problem(&problem, NULL, report), TN_OK);
  assert_int_equal(vd_report_failures(report), 0); /* arithmetic is right on these weights */
  double by_weights = strtod(vd_report_cell(report, 2, 1, 15), NULL); /* of u */
  assert_true(by_weights > 1e-6 && by_weights < 1e-3);
  assert_true(vd_report_row(report, 1)->value < by_weights / 10);
  vd_report_free(&report);
  rig_close(&g[0]);
  rig_close(&g[1]);
}

/* Some of the allocations of a whole audit fail, early ones and late ones: an error, no leak. */
static void failed_allocations_of_a_step_leave_nothing_behind(void **state) {
  (void)state;
  rig g;
  tn_value p[LEAVES];
  vd_problem_output outputs[3 + LEAVES];
  vd_problem_format format;
  open_network(&g, TN_F32, true, p);
  describe(&g, p, "f32", TN_F32, outputs, &format);
  const vd_problem problem = {.n_outputs = 3 + LEAVES, .n_formats = 1, .formats = &format};
  const vd_problem with = {.n_outputs = 3 + LEAVES,
                           .n_formats = 1,
                           .formats = &format,
                           .many = &problem,
                           .start = &problem};
  tn_status status = TN_ENOMEM;
  size_t before = tn_memory_now();
  for (uint64_t n = 1; status != TN_OK; n += 1 + n / 8) {
    vd_report *report = NULL;
    tn_fault_at(n, false);
    status = vd_report_new(&report);
    if (status == TN_OK)
      status = vd_audit_problem(&with, NULL, report);
    if (status != TN_OK)
      assert_int_equal(status, TN_ENOMEM);
    vd_report_free(&report);
    assert_int_equal(tn_memory_now(), before);
  }
  tn_fault_at(0, false);
  rig_close(&g);
}

/* Every allocation of an audit fails once: an error each time, no leak. */
static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_jet z = {.channel = {x}}, y;
  assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &y), TN_OK);
  tn_value out[] = {tn_sum_all(tn_square(x)), tn_mul(tn_const(g.graph, TN_F64, 2), x),
                    y.channel[0]};
  rig_run(&g, 3, out);
  tn_status status = TN_ENOMEM;
  uint64_t n = 0;
  size_t before = tn_memory_now();
  while (status != TN_OK) {
    vd_report *report = NULL;
    tn_fault_at(++n, false);
    status = vd_report_new(&report);
    if (status == TN_OK)
      status = vd_audit_gradient(g.program, g.n_bindings, g.binding, 0, 1, x, "L", NULL, report);
    if (status == TN_OK)
      status = vd_audit_program(g.program, NULL, g.n_bindings, g.binding, NULL, NULL, report);
    if (status != TN_OK)
      assert_int_equal(status, TN_ENOMEM);
    vd_report_free(&report);
    assert_int_equal(tn_memory_now(), before);
  }
  tn_fault_at(0, false);
  assert_true(n > 100);
  rig_close(&g);
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(program_audit_tells_rounding_from_cancellation),
      cmocka_unit_test(gradient_audit_sees_a_wrong_formula),
      cmocka_unit_test(network_gradient_holds_in_rounding_and_formula),
      cmocka_unit_test(jets_and_reverse_mode_agree_to_60_digits),
      cmocka_unit_test(training_step_is_audited_in_every_format),
      cmocka_unit_test(stored_weights_are_told_from_arithmetic),
      cmocka_unit_test(failed_allocations_of_a_step_leave_nothing_behind),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
