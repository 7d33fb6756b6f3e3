/* test_replay.c: the MPFR executor against the engine, against hand-made results and against laws.
 *
 * Whole numbers below 2^24 are exact in every executor, so moves and sums of them must agree
 * exactly. Other programs agree within their roundings: c <= the number of roundings in a row,
 * counted beside each bound.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_replay.h"

static void moves_and_sums_agree_exactly(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  const size_t e[3] = {3, 4, 5};
  tn_value p = rig_leaf(&g, "p", TN_F64, tn_shape_fixed(3, e), true);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_batch(g.axis, 6), true);
  tn_value s = rig_leaf(&g, "s", TN_F64, tn_shape_points(g.axis), true);
  const size_t flat[2] = {12, 5};
  tn_value pair[2] = {tn_slice(x, 1, 1, 2), tn_slice(x, 1, 0, 4)}, same[3] = {x, tn_neg(x), x};
  tn_value out[] = {
      tn_transpose(p, 0, 2),
      tn_transpose(p, 1, 2),
      tn_sum(p, 1),
      tn_sum(p, 0),
      tn_sum_all(p),
      tn_slice(p, 1, 1, 2),
      tn_pad(p, 1, 2, 1),
      tn_reshape(p, tn_shape_fixed(2, flat)),
      tn_sum(x, 0),
      tn_sum(x, 1),
      tn_sum_all(x),
      tn_concat(2, pair, 1),
      tn_stack(3, same),
      tn_expand(s, 1, 0, 4),
      tn_expand(tn_sum(x, 0), 0, g.axis, 0),
      tn_mul(x, tn_expand(s, 1, 0, 6)),
      tn_mul(tn_count(g.graph, TN_F64, g.axis), tn_sum(s, 0)),
      tn_sub(x, tn_const(g.graph, TN_F64, 3)),
  };
  size_t n = sizeof out / sizeof *out;
  rig_run(&g, n, out);
  for (size_t i = 0; i < n; ++i)
    if (rig_c(&g, i) != 0)
      fail_msg("output %d: c = %g", (int)i, rig_c(&g, i));
  /* by hand: p[i][j][k] = 20 i + 5 j + k + 1 */
  assert_true(mpfr_cmp_d(rig_at(&g, 0, (2 * 4 + 1) * 3 + 1), 20 + 5 + 2 + 1) ==
              0); /* [k=2][j=1][i=1] */
  assert_true(mpfr_cmp_d(rig_at(&g, 2, 1 * 5 + 3), 4 * (20 + 3 + 1) + 5 * 6) == 0); /* i=1, k=3 */
  assert_true(mpfr_cmp_d(rig_at(&g, 6, (0 * 7 + 1) * 5), 0) == 0);                  /* padding */
  assert_true(mpfr_cmp_d(rig_at(&g, 6, (0 * 7 + 3) * 5 + 4), 5 + 4 + 1) == 0);      /* j=1, k=4 */
  assert_true(mpfr_cmp_d(rig_at(&g, 10, 0), 66.0 * 67 / 2) == 0);
  assert_true(mpfr_cmp_d(rig_at(&g, 12, (1 * 6 + 2) * 3 + 1), -9) == 0);
  assert_true(mpfr_cmp_d(rig_at(&g, 16, 0), 11.0 * 66) == 0);
  rig_close(&g);
}

static void elementwise_rows_agree_within_roundings(void **state) {
  (void)state;
  for (int k = TN_F64; k <= TN_F16; ++k) {
    rig g;
    rig_open(&g);
    tn_dtype dtype = (tn_dtype)k;
    tn_value x = rig_leaf(&g, "x", dtype, tn_shape_points(g.axis), false);
    tn_value y = rig_leaf(&g, "y", dtype, tn_shape_points(g.axis), false);
    tn_value d = tn_sub(tn_mul(x, y), tn_square(x)); /* 2 in a row */
    tn_value t = tn_tanh(tn_add(d, tn_sin(x)));      /* 4, of at most 5 u each */
    tn_value q = tn_div(tn_exp(t), tn_add(tn_square(y), tn_const(g.graph, dtype, 2)));
    tn_value out[] = {d,
                      t,
                      q,
                      tn_sub(t, tn_tanh(d)),
                      tn_atan2(x, y),
                      tn_powi(tn_sub(x, y), 3),
                      tn_max(d, t),
                      tn_abs(d),
                      tn_mean(tn_square(q))};
    size_t n = sizeof out / sizeof *out;
    rig_run(&g, n, out);
    for (size_t i = 0; i < n; ++i)
      if (rig_c(&g, i) > 12)
        fail_msg("%s output %d: c = %g", tn_dtype_name(dtype), (int)i, rig_c(&g, i));
    assert_true(rig_c(&g, 0) <= 2);
    assert_true(rig_c(&g, 2) > 0); /* something rounds, so the comparison is alive */
    rig_close(&g);
  }
}

static void masks_keep_out_the_branch_not_taken(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value zero = tn_const(g.graph, TN_F64, 0), half = tn_const(g.graph, TN_F64, 0.5);
  tn_value inside = tn_both(tn_gt(x, zero), tn_not(tn_gt(x, half)));
  tn_value out[] = {
      tn_where(tn_gt(x, zero), tn_sqrt(x), x),
      tn_where(tn_either(inside, tn_lt(x, zero)), tn_const(g.graph, TN_F64, 1), zero)};
  rig_run(&g, 2, out);
  const double *data = tn_map(g.binding[0].buffer, TN_READ);
  int negative = 0;
  for (size_t i = 0; i < POINTS; ++i) {
    negative += data[i] < 0;
    assert_true(mpfr_number_p(rig_at(&g, 0, i)));
    if (data[i] < 0)
      assert_true(mpfr_cmp_d(rig_at(&g, 0, i), data[i]) == 0);
    assert_true(mpfr_cmp_d(rig_at(&g, 1, i), data[i] <= 0.5) == 0);
  }
  assert_true(negative > 0 && negative < POINTS);
  tn_unmap(g.binding[0].buffer);
  assert_true(rig_c(&g, 0) <= 1);
  rig_close(&g);
}

/* ---- Jets ---- */

/* Derivatives by one variable to order k: (fg)_a = sum of C(a, b) f_b g_(a-b). With a coefficient,
 * the last channel's two outer terms are multiplied by it and by 2/3: no product rule, but a
 * bilinear form. */
static const tn_jet_table *table_of(tn_graph *graph, int order, bool coefficient) {
  tn_jet_term term[64];
  size_t n = 0;
  for (int a = 0; a <= order; ++a) {
    int64_t binomial = 1;
    for (int b = 0; b <= a; ++b) {
      bool odd = coefficient && a == order && b > 0 && b < a;
      term[n++] = (tn_jet_term){(int16_t)a,
                                (int16_t)b,
                                (int16_t)(a - b),
                                (int16_t)(odd ? 0 : -1),
                                odd ? 2 * binomial : binomial,
                                odd ? 3 : 1};
      binomial = binomial * (a - b) / (b + 1);
    }
  }
  return tn_jet_table_new(graph, (uint32_t)order + 1, (uint32_t)order, coefficient, n, term);
}

static void jet_of_a_function_is_its_derivatives(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_jet z = {.table = table_of(g.graph, 4, false)}, y, dy;
  z.channel[0] = x;
  z.channel[1] = tn_const(g.graph, TN_F64, 1);
  assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &y), TN_OK);
  assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 1, &z, &dy), TN_OK);
  tn_value out[9];
  for (int m = 0; m <= 4; ++m)
    out[m] = y.channel[m];
  for (int m = 0; m < 4; ++m)
    out[5 + m] = dy.channel[m];
  rig_run(&g, 9, out);
  const double *data = tn_map(g.binding[0].buffer, TN_READ);
  mpfr_t fd;
  mpfr_init2(fd, BITS);
  for (size_t i = 0; i < POINTS; ++i)
    for (int m = 0; m <= 4; ++m) { /* differences are good to 2^-150 for a function of size 1 */
      vd_fd(TN_OP_tanh, 0, 0, m, data[i], 0, fd);
      mpfr_sub(fd, fd, rig_at(&g, (size_t)m, i), MPFR_RNDN);
      assert_true(mpfr_zero_p(fd) || mpfr_get_exp(fd) < -130);
      if (m < 4)
        assert_true(mpfr_equal_p(rig_at(&g, (size_t)m + 1, i), rig_at(&g, (size_t)m + 5, i)) ||
                    vd_rel_error(mpfr_get_d(rig_at(&g, (size_t)m + 1, i), MPFR_RNDN),
                                 rig_at(&g, (size_t)m + 5, i)) < 0x1p-52);
    }
  mpfr_clear(fd);
  tn_unmap(g.binding[0].buffer);
  for (size_t i = 0; i < 9; ++i)
    assert_true(rig_c(&g, i) <= 12);
  rig_close(&g);
}

static void fill_jet(rig *g, const tn_jet_table *table, const char *stem, tn_dtype dtype,
                     size_t width, tn_jet *jet) {
  memset(jet, 0, sizeof *jet);
  jet->table = table;
  for (uint32_t c = 0; c < table->channels; ++c) {
    char name[16];
    snprintf(name, sizeof name, "%s%u", stem, c);
    jet->channel[c] = rig_leaf(g, name, dtype, tn_shape_batch(g->axis, width), false);
  }
}

static void jet_products_are_adjoint(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  const tn_jet_table *table = table_of(g.graph, 2, true);
  tn_value k = tn_scalar(g.graph, "k", TN_F64, 1.25);
  tn_jet w, v, y, t;
  fill_jet(&g, table, "w", TN_F64, 3, &w);
  fill_jet(&g, table, "v", TN_F64, 3, &v);
  w.coefficients = v.coefficients = &k;
  assert_int_equal(tn_jet_mul(&w, &v, &y), TN_OK);
  /* ybar: any jet; take v's channels in another order */
  tn_jet ybar = v;
  ybar.channel[0] = v.channel[2];
  ybar.channel[2] = v.channel[0];
  assert_int_equal(tn_jet_mulT(&w, &ybar, NULL, &t), TN_OK);
  tn_value left = tn_const(g.graph, TN_F64, 0), right = left;
  for (int c = 0; c < 3; ++c) {
    left = tn_add(left, tn_sum_all(tn_mul(y.channel[c], ybar.channel[c])));
    right = tn_add(right, tn_sum_all(tn_mul(v.channel[c], t.channel[c])));
  }
  tn_value out[] = {left, right, y.channel[2], t.channel[1]};
  rig_run(&g, 4, out);
  mpfr_t d;
  mpfr_init2(d, BITS);
  mpfr_sub(d, rig_at(&g, 0, 0), rig_at(&g, 1, 0), MPFR_RNDN);
  /* about 400 roundings of 2^-256 on sums of size 30 */
  assert_true(mpfr_zero_p(d) || mpfr_get_exp(d) < -240);
  mpfr_clear(d);
  for (size_t i = 0; i < 4; ++i)
    assert_true(rig_c(&g, i) <= 12);
  rig_close(&g);
}

/* One layer and its weight gradient, as in a network. 6 products in a row, then a ladder. */
static void layers_agree_within_roundings(void **state) {
  (void)state;
  for (int k = TN_F64; k <= TN_F16; ++k) {
    rig g;
    rig_open(&g);
    tn_dtype dtype = (tn_dtype)k;
    const tn_jet_table *table = table_of(g.graph, 2, false);
    const size_t we[2] = {6, 5};
    tn_value w = rig_leaf(&g, "w", dtype, tn_shape_fixed(2, we), false);
    tn_value b = rig_leaf(&g, "b", dtype, tn_shape_fixed(1, we + 1), false);
    tn_jet h, z, y, back;
    fill_jet(&g, table, "h", dtype, 6, &h);
    assert_int_equal(tn_jet_lin(&h, w, b, false, &z), TN_OK);
    assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &y), TN_OK);
    assert_int_equal(tn_jet_lin(&y, w, (tn_value){0}, true, &back), TN_OK);
    tn_value out[10] = {tn_jet_outer(3, y.channel, h.channel)};
    for (int c = 0; c < 3; ++c) {
      out[1 + c] = z.channel[c];
      out[4 + c] = y.channel[c];
      out[7 + c] = back.channel[c];
    }
    rig_run(&g, 10, out);
    for (size_t i = 0; i < 10; ++i) {
      if (rig_c(&g, i) > 12)
        fail_msg("%s output %d: c = %g", tn_dtype_name(dtype), (int)i, rig_c(&g, i));
      assert_true(rig_c(&g, i) > 0);
    }
    rig_close(&g);
  }
}

/* The replay of x -> low -> f32 is x itself, as stored: the casts are the engine's error, of up to u of the format.
 * A parameter of the format enters with the numbers that its buffer holds. */
static void casts_are_exact_and_leaves_as_stored(void **state) {
  (void)state;
  for (int k = TN_TF32; k <= TN_F16; ++k) {
    rig g;
    rig_open(&g);
    tn_dtype low = (tn_dtype)k;
    const size_t extent = 7;
    tn_value x = rig_leaf(&g, "x", TN_F32, tn_shape_points(g.axis), false);
    tn_value w = rig_leaf(&g, "w", low, tn_shape_fixed(1, &extent), false);
    tn_value out[] = {tn_cast(tn_cast(x, low), TN_F32), tn_cast(w, TN_F64),
                      tn_cast(tn_const(g.graph, low, 0.1), TN_F64)};
    rig_run(&g, 3, out);
    const float *stored = tn_map(g.binding[0].buffer, TN_READ);
    double numbers[7], u = tn_dtype_roundoff(low), worst = 0;
    assert_int_equal(tn_convert(7, low, tn_map(g.binding[1].buffer, TN_READ), TN_F64, numbers),
                     TN_OK);
    for (size_t i = 0; i < POINTS; ++i) {
      assert_true(mpfr_cmp_d(rig_at(&g, 0, i), (double)stored[i]) == 0);
      double error = fabs(tn_round(low, (double)stored[i]) - (double)stored[i]) /
                     (u * fabs((double)stored[i]));
      worst = error > worst ? error : worst;
    }
    for (size_t i = 0; i < 7; ++i)
      assert_true(mpfr_cmp_d(rig_at(&g, 1, i), numbers[i]) == 0);
    assert_true(mpfr_cmp_d(rig_at(&g, 2, 0), tn_round(low, 0.1)) == 0);
    double c = rig_c(&g, 0) * tn_dtype_roundoff(TN_F32) / u; /* in roundings of the low format */
    assert_true(fabs(c - worst) < 1e-6 && worst > 0.1 && worst <= 1);
    assert_true(rig_c(&g, 1) == 0);
    rig_close(&g);
  }
}

static void scale_is_at_least_the_value(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value out[] = {tn_sub(tn_sin(x), x), tn_mul(tn_tanh(tn_square(x)), x)};
  rig_run(&g, 2, out);
  for (uint32_t node = 0; node < tn_program_nodes(g.program); ++node)
    for (size_t i = 0; i < vd_replay_count(g.replay, node, 0);
         ++i) /* 2^-50: S is summed in double */
      assert_true(fabs(vd_replay_double(g.replay, node, 0, i)) <=
                  vd_replay_scale(g.replay, node, 0, i) * (1 + 0x1p-50));
  rig_close(&g);
}

static void precisions_agree(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value y = tn_mean(tn_square(tn_exp(tn_sin(tn_add(x, tn_tanh(x))))));
  rig_run(&g, 1, &y);
  vd_replay *high = NULL;
  uint32_t node = 0;
  assert_int_equal(vd_replay_new(g.program, 2 * BITS, &high), TN_OK);
  assert_true(tn_program_leaf(g.program, x, &node));
  assert_int_equal(vd_replay_bind(high, node, g.binding[0].buffer), TN_OK);
  assert_int_equal(vd_replay_run(high), TN_OK);
  tn_edge e = tn_program_output(g.program, 0);
  mpfr_t d;
  mpfr_init2(d, 2 * BITS);
  mpfr_sub(d, rig_at(&g, 0, 0), vd_replay_at(high, e.node, e.port, 0), MPFR_RNDN);
  assert_false(mpfr_zero_p(d));
  assert_true(mpfr_get_exp(d) < -(BITS - 10)); /* 30 roundings on a mean of size 5 */
  mpfr_clear(d);
  vd_replay_free(&high);
  rig_close(&g);
}

static void bad_bindings_are_refused(void **state) {
  (void)state;
  rig g;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value y = tn_square(x);
  rig_run(&g, 1, &y);
  uint32_t node = 0;
  size_t extent = POINTS;
  tn_buffer *wrong = NULL;
  assert_true(tn_program_leaf(g.program, x, &node));
  assert_int_equal(tn_buffer_new(TN_F32, 1, &extent, &wrong), TN_OK);
  assert_int_equal(vd_replay_bind(g.replay, node, wrong), TN_OK);
  assert_int_equal(vd_replay_run(g.replay), TN_ESHAPE);
  assert_null(vd_replay_at(g.replay, node, 0, 0));
  assert_int_equal(vd_replay_bind(g.replay, node + 1, wrong), TN_EHANDLE);
  assert_int_equal(vd_replay_set(g.replay, node, 1), TN_EHANDLE);
  tn_buffer_release(&wrong);
  vd_replay_free(&g.replay);
  assert_int_equal(vd_replay_new(g.program, BITS, &g.replay), TN_OK);
  assert_int_equal(vd_replay_run(g.replay), TN_ESTATE); /* nothing bound */
  rig_close(&g);
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_and_sums_agree_exactly),
      cmocka_unit_test(elementwise_rows_agree_within_roundings),
      cmocka_unit_test(masks_keep_out_the_branch_not_taken),
      cmocka_unit_test(jet_of_a_function_is_its_derivatives),
      cmocka_unit_test(jet_products_are_adjoint),
      cmocka_unit_test(layers_agree_within_roundings),
      cmocka_unit_test(casts_are_exact_and_leaves_as_stored),
      cmocka_unit_test(scale_is_at_least_the_value),
      cmocka_unit_test(precisions_agree),
      cmocka_unit_test(bad_bindings_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
