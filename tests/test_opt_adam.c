/* test_opt_adam.c: Adam and AdamW against traces by hand. */
#include "tests/support_opt.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define U (DBL_EPSILON / 2)

static double slopes[2]; /* gradient of `plane` */
static double plane(size_t n, const double *x, double *g) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    g[i] = slopes[i];
    sum += slopes[i] * x[i];
  }
  return sum;
}

/* beta1 = 1/2, beta2 = 3/4, gradients 3, -4, 12, by hand:
 *   t  m      m / (1-b1^t)   v        v / (1-b2^t)   step / rate
 *   1  3/2    3              9/4      9              1
 *   2  -5/4   -5/3           91/16    13             -5/3 / sqrt 13
 *   3  43/8   43/7           2577/64  2577/37        43/7 / sqrt(2577/37)
 * Each entry passes through at most 10 roundings, and theta through one of relative size u. */
static void adam_follows_a_trace_by_hand(void **state) {
  (void)state;
  const pn_setting settings[] = {{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 1e-300}};
  const double g[] = {3, -4, 12};
  const double step[] = {1, -5.0 / 3 / sqrt(13), 43.0 / 7 / sqrt(2577.0 / 37)};
  opt_probe p = {.f = plane};
  pn_objective f = opt_objective(&p, 1);
  pn_opt *opt = opt_of("adam", 1, settings, 3);
  double x = 2, wanted = 2;
  for (size_t t = 0; t < 3; ++t) {
    const pn_opt_context context = {.rate = 0.125 * (double)(t + 1)}; /* a schedule */
    pn_step_report r;
    slopes[0] = g[t];
    assert_int_equal(pn_opt_step(opt, &context, &f, &x, &r), TN_OK);
    wanted -= context.rate * step[t];
    assert_true(fabs(x - wanted) <= 20 * U * 2);
    assert_true(r.gradient_norm == fabs(g[t]) && isnan(r.loss_after));
  }
  pn_opt_free(&opt);
}

static void adam_clips_the_whole_vector(void **state) {
  (void)state;
  const pn_setting settings[] = {{"clip", 2}};
  opt_probe p = {.f = plane};
  pn_objective f = opt_objective(&p, 2);
  const double lengths[] = {10, 1}; /* of the gradient: clipped to 2, left alone */
  for (size_t k = 0; k < 2; ++k) {
    pn_opt *opt = opt_of("adam", 2, settings, 1);
    double x[2] = {0, 0};
    opt_image m = {0};
    pn_step_report r;
    slopes[0] = 0.6 * lengths[k];
    slopes[1] = 0.8 * lengths[k];
    assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
    assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
    const double length = k == 0 ? 2 : 1, *first = opt_find(&m, "m");
    assert_true(fabs(first[0] - 0.1 * 0.6 * length) <= 8 * U * length);
    assert_true(fabs(first[1] - 0.1 * 0.8 * length) <= 8 * U * length);
    assert_true(fabs(r.gradient_norm - lengths[k]) <= 4 * U * lengths[k]); /* before clipping */
    opt_drop(&m);
    pn_opt_free(&opt);
  }
}

static void decay_is_coupled_in_adam_and_not_in_adamw(void **state) {
  (void)state;
  const pn_setting settings[] = {{"decay", 0.5}, {"eps", 1e-300}};
  opt_probe p = {.f = plane};
  pn_objective f = opt_objective(&p, 1);
  slopes[0] = 0;
  double x = 3;
  pn_step_report r;
  pn_opt *opt = opt_of("adam", 1, settings, 2); /* g = decay x: the first step has length rate */
  assert_int_equal(pn_opt_step(opt, &opt_serial, &f, &x, &r), TN_OK);
  assert_true(fabs(x - 2.99) <= 8 * U * 3);
  pn_opt_free(&opt);
  x = 3;
  slopes[0] = -1;                        /* with decay x added, g would be +0.5 */
  opt = opt_of("adamw", 1, settings, 2); /* the step of g, and x shrinks by rate decay */
  assert_int_equal(pn_opt_step(opt, &opt_serial, &f, &x, &r), TN_OK);
  assert_true(fabs(x - (3 * (1 - 0.005) + 0.01)) <= 8 * U * 3);
  pn_opt_free(&opt);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adam_follows_a_trace_by_hand),
      cmocka_unit_test(adam_clips_the_whole_vector),
      cmocka_unit_test(decay_is_coupled_in_adam_and_not_in_adamw),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
