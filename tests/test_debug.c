/* test_debug.c: the debug mode stops at the first value that is not finite and is looked at, and says which.
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void says(const char *text) {
  if (!strstr(tn_error_text(), text))
    fail_msg("`%s` does not say `%s`", tn_error_text(), text);
}

static void stops(tn_value v) { assert_int_equal(tn_eval(1, &v), TN_ENONFINITE); }

static void open_debug(bench *b, tn_dtype dtype) {
  bench_open(b, dtype);
  good(tn_graph_debug(b->graph, true));
}

static void first_bad_value_is_named(void **state) {
  (void)state;
  bench b;
  open_debug(&b, TN_F64);
  tn_value x = points(&b, "x", 12, (double[]){1, 4, 9, 1, 1, 1, 1, 1, 1, 1, -0.25, 1});
  tn_at(b.graph, "flow.toml", 7, 12, "sqrt(u)");
  tn_value root = tn_sqrt(x);
  tn_at(b.graph, "flow.toml", 9, 1, "loss");
  tn_value loss = tn_mean(tn_square(root));
  double got;
  stops(loss);
  says("debug: sqrt (node ");
  says("is -nan at point 10 from -0.25, made at flow.toml:7:12: sqrt(u)");
  assert_int_equal(tn_read(loss, 1, &got), TN_ESTATE); /* nothing was materialised */
  good(tn_graph_debug(b.graph, false));
  good(tn_eval(1, &loss));
  good(tn_read(loss, 1, &got));
  assert_true(isnan(got));
  bench_close(&b);
}

static void unselected_branch_is_not_blamed(void **state) {
  (void)state;
  for (int dtype = TN_F64; dtype <= TN_F32; ++dtype) {
    bench b;
    open_debug(&b, (tn_dtype)dtype);
    tn_value x = points(&b, "x", 4, (double[]){-1, -4, 4, 0});
    tn_value safe = tn_where(tn_gt(x, k(&b, 0)), tn_sqrt(x), x), slope = gradient(safe, x);
    tn_value wrong = tn_where(tn_lt(x, k(&b, 1)), tn_recip(x), x);
    all_near(safe, 4, (double[]){-1, -4, 2, 0}, 0);
    all_near(slope, 4, (double[]){1, 1, 0.25, 1}, 0);
    stops(wrong);
    says("recip");
    says("is inf at point 3 from 0");
    bench_close(&b);
  }
}

/* An infinity that vanishes on the way is reported where it arose. */
static void vanished_infinity_is_seen(void **state) {
  (void)state;
  bench b;
  open_debug(&b, TN_F64);
  tn_value x = points(&b, "x", 3, (double[]){1, 0, 2}), y = tn_sum_all(tn_tanh(tn_recip(x)));
  stops(y);
  says("recip");
  says("point 1");
  good(tn_graph_debug(b.graph, false));
  assert_true(isfinite(number(y)));
  bench_close(&b);
}

static void leaf_and_unit_are_named(void **state) {
  (void)state;
  bench b;
  open_debug(&b, TN_F64);
  size_t extent[2] = {2, 3};
  tn_value w = weights(&b, "W1", 2, extent, (double[]){1, 2, 3, 4, NAN, 6});
  stops(tn_sum_all(tn_square(w)));
  says("parameter `W1`");
  says("in unit 4");
  tn_value finite = weights(&b, "W2", 2, extent, (double[]){1, 2, 3, 4, 5, 6});
  tn_value sum = tn_sum_all(finite);
  good(tn_eval(1, &sum));
  stops(tn_div(sum, tn_sub(sum, sum)));
  says("div");
  says("from 21, 0");
  bench_close(&b);
}

/* u = sqrt(x): at 0 the value is finite, the first derivative is not. */
static void channel_of_a_jet_is_named(void **state) {
  (void)state;
  bench b;
  open_debug(&b, TN_F64);
  tn_value x = points(&b, "x", 3, (double[]){1, 0, 4}), u = tn_sqrt(x);
  tn_jet seeded, y;
  seed(&b, x, 2, &seeded);
  good(ag_jet(1, &x, &seeded, 1, &u, &y));
  double got[3];
  numbers(y.channel[0], 3,
          got); /* only this is looked at, but a jet is one node with all its channels */
  assert_true(got[2] == 2);
  stops(y.channel[1]);
  says("jet_unary of sqrt");
  says("channel 1");
  says("point 1");
  stops(y.channel[2]);
  says("channel 2");
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_bad_value_is_named), cmocka_unit_test(unselected_branch_is_not_blamed),
      cmocka_unit_test(vanished_infinity_is_seen), cmocka_unit_test(leaf_and_unit_are_named),
      cmocka_unit_test(channel_of_a_jet_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
