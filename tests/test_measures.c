/* test_measures.c: figures about an array of results, against errors put in by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support_replay.h"
#include "validate/measures.h"

/* y = x over the rig's points 1, 2, ..., POINTS, "computed" with errors that the caller makes. */
static vd_figures figures(rig *g, const double *values, double bound, double expected) {
  double bounds[POINTS], all_expected[POINTS];
  vd_figures f;
  tn_edge e = tn_program_output(g->program, 0);
  for (size_t i = 0; i < POINTS; ++i)
    bounds[i] = bound, all_expected[i] = expected;
  vd_compared x = {.replay = g->replay,
                   .node = e.node,
                   .port = e.port,
                   .n = POINTS,
                   .dtype = TN_F32,
                   .u = 0x1p-24,
                   .values = values,
                   .bounds = bounds,
                   .expected = all_expected};
  assert_int_equal(vd_figures_of(&x, NULL, &f), TN_OK);
  return f;
}

static void open_rig(rig *g, double factor) {
  rig_open(g);
  tn_value x = rig_leaf(g, "x", TN_F64, tn_shape_points(g->axis), true);
  tn_value y = tn_mul(x, tn_const(g->graph, TN_F64, factor));
  rig_run(g, 1, &y);
}

static void errors_put_in_come_out(void **state) {
  (void)state;
  rig g;
  double values[POINTS], size = 0, wrong = 0;
  open_rig(&g, 1);
  for (size_t i = 0; i < POINTS; ++i) {
    double error = (i % 2 ? 1 : -1) * ldexp((double)(i + 1), -20);
    values[i] = (double)(i + 1) + error;
    size += (double)((i + 1) * (i + 1));
    wrong += error * error;
  }
  vd_figures f = figures(&g, values, 0x1p-10, 0x1p-21);
  assert_int_equal(f.n, POINTS);
  assert_true(fabs(f.norm2 - sqrt(wrong / size)) < 1e-18);
  assert_true(f.norm_inf == 0x1p-20 && f.rel_median == 0x1p-20 && f.rel_max == 0x1p-20);
  assert_true(f.c_max == 2 * POINTS && f.at == POINTS - 1); /* POINTS 2^-20 over 2^-21 */
  assert_true(fabs(f.kappa - fmax(1, 8 * sqrt(POINTS / size))) < 1e-12); /* 2^-21 / 2^-24 = 8 */
  assert_true(f.ulp_max == 14 && f.misses == 0); /* of 7: 7 2^-20 in units of 2^-21 */
  assert_true(fabs(f.ratio - 0x1p10 / ((POINTS + 1) / 2)) < 1e-9);
  rig_close(&g);
}

static void signs_zeros_and_misses_are_counted(void **state) {
  (void)state;
  rig g;
  double values[POINTS];
  open_rig(&g, 1);
  for (size_t i = 0; i < POINTS; ++i)
    values[i] = (double)(i + 1);
  values[0] = -1;
  values[1] = -2;
  values[2] = 0;
  values[3] = NAN;
  vd_figures f = figures(&g, values, 2, 1);
  assert_int_equal(f.sign_flips, 2);
  assert_int_equal(f.false_zeros, 1);
  assert_int_equal(f.misses, 3); /* -2 and 0 are wrong by 4 and 3, NaN by more than anything */
  assert_true(isinf(f.norm2) && isinf(f.c_max));
  rig_close(&g);
}

/* Below the smallest normal number there is no relative error; the norms stay. */
static void entries_below_normal_are_counted_apart(void **state) {
  (void)state;
  rig g;
  double values[POINTS];
  open_rig(&g, 0x1p-129); /* up to 7 2^-129 are subnormal, 8 2^-129 = 2^-126 is not */
  for (size_t i = 0; i < POINTS; ++i)
    values[i] = i < 7 ? 0 : ldexp((double)(i + 1), -129);
  vd_figures f = figures(&g, values, 0x1p-120, 0);
  assert_int_equal(f.below_normal, 7);
  assert_true(f.rel_max == 0 && f.ulp_max == 0);
  assert_true(f.error_inf == ldexp(7, -129));
  rig_close(&g);
}

static void quantiles_are_values_of_the_array(void **state) {
  (void)state;
  double values[] = {5, 1, 4, 2, 3};
  assert_true(vd_quantile(5, values, 0.5) == 3);
  assert_true(vd_quantile(5, values, 1) == 5 && vd_quantile(5, values, 0) == 1);
  assert_true(vd_quantile(5, values, 0.2) == 1 && vd_quantile(5, values, 0.21) == 2);
  assert_true(vd_quantile(0, values, 0.5) == 0);
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_put_in_come_out),
      cmocka_unit_test(signs_zeros_and_misses_are_counted),
      cmocka_unit_test(entries_below_normal_are_counted_apart),
      cmocka_unit_test(quantiles_are_values_of_the_array),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
