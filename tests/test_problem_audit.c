/* test_problem_audit.c: audits of whole programs: rounding against cancellation, right formulas
 * against wrong ones, and a network with second derivatives as the solver builds it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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

/* 128 u normwise is the promise; and the gradient is that of the loss, to 20 digits. */
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
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
