/* test_linesearch.c: the strong Wolfe search on functions of one variable, where every claim can be
 * checked by evaluating phi and phi' again. Trials are counted by the objective itself. */
#include "pinn/linesearch.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* phi(a) and phi'(a) with a = theta[0]; the direction is p = 1 and the start theta = 0. */
typedef void (*curve)(double a, double *phi, double *slope);

typedef struct {
  curve f;
  size_t calls;
  tn_status fail_with; /* instead of a value, from call number fail_at on */
  size_t fail_at;
} probe;

static tn_status gradient(pn_objective *f, const double *theta, double *loss, double *g) {
  probe *p = f->context;
  p->calls += 1;
  if (p->fail_at && p->calls >= p->fail_at)
    return TN_FAIL(p->fail_with, "probe");
  p->f(theta[0], loss, g);
  return TN_OK;
}

static tn_status loss_only(pn_objective *f, const double *theta, double *loss) {
  double g = 0;
  return gradient(f, theta, loss, &g);
}

typedef struct {
  pn_search_result result;
  double x, g; /* accepted point and slope there */
  probe p;
} outcome;

static outcome search(curve f, pn_wolfe rule) {
  outcome out = {.p = {.f = f}};
  pn_objective objective = {.context = &out.p, .n = 1, .loss = loss_only, .gradient = gradient};
  const double x = 0, p = 1;
  double loss = 0, slope = 0;
  f(0, &loss, &slope);
  assert_int_equal(
      pn_linesearch(&objective, &x, &p, loss, slope, &rule, &out.x, &out.g, &out.result), TN_OK);
  return out;
}

/* Both conditions, from the definition. */
static void assert_wolfe(curve f, pn_wolfe rule, const outcome *o) {
  double loss0 = 0, slope0 = 0, loss = 0, slope = 0;
  f(0, &loss0, &slope0);
  f(o->result.alpha, &loss, &slope);
  assert_int_equal(o->result.outcome, PN_SEARCH_WOLFE);
  assert_true(o->x == o->result.alpha && o->g == slope);
  assert_true(o->result.loss == loss && o->result.slope == slope);
  assert_true(loss <= loss0 + rule.c1 * o->result.alpha * slope0);
  assert_true(fabs(slope) <= rule.c2 * fabs(slope0));
  assert_int_equal(o->result.evaluations, o->p.calls);
}

/* More and Thuente's three functions (1994, section 5), beta = 2, 0.004 and 0.01, l = 39. */
static void more1(double a, double *phi, double *slope) {
  *phi = -a / (a * a + 2);
  *slope = (a * a - 2) / ((a * a + 2) * (a * a + 2));
}

static void more2(double a, double *phi, double *slope) {
  const double t = a + 0.004;
  *phi = t * t * t * t * t - 2 * t * t * t * t;
  *slope = 5 * t * t * t * t - 8 * t * t * t;
}

static void more3(double a, double *phi, double *slope) {
  const double beta = 0.01, l = 39, pi = 3.14159265358979324;
  const double edge = a <= 1 - beta   ? 1 - a
                      : a >= 1 + beta ? a - 1
                                      : (a - 1) * (a - 1) / (2 * beta) + beta / 2;
  const double rise = a <= 1 - beta ? -1 : a >= 1 + beta ? 1 : (a - 1) / beta;
  *phi = edge + 2 * (1 - beta) / (l * pi) * sin(l * pi / 2 * a);
  *slope = rise + (1 - beta) * cos(l * pi / 2 * a);
}

static void wolfe_holds_from_any_first_step(void **state) {
  (void)state;
  const curve curves[] = {more1, more2, more3};
  const double c2[] = {0.1, 0.1, 0.5}; /* the third has slopes of size 1 almost everywhere */
  for (size_t k = 0; k < 3; ++k)
    for (int e = -3; e <= 3; ++e) {
      pn_wolfe rule = pn_wolfe_standard();
      rule.c2 = c2[k];
      rule.first = pow(10, e);
      const outcome o = search(curves[k], rule);
      assert_wolfe(curves[k], rule, &o);
      /* From 1e-3 to about 1.4 growth by 5 a trial takes 5; from 1e3 down by 10 takes 3; then zoom,
       * whose bracket at least halves every second trial. */
      assert_in_range(o.result.evaluations, 1, 20);
    }
}

static void parabola(double a, double *phi, double *slope) { /* minimum at 1 */
  *phi = (a - 1) * (a - 1);
  *slope = 2 * (a - 1);
}

static void parabola_accepts_the_first_trial_at_once(void **state) {
  (void)state;
  const pn_wolfe rule = pn_wolfe_standard();
  const outcome o = search(parabola, rule);
  assert_wolfe(parabola, rule, &o);
  assert_int_equal(o.result.evaluations, 1);
}

static void parabola_is_solved_by_one_interpolation(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  rule.first = 1.9; /* decrease holds, slope 1.8 > 2 * c2 does not */
  rule.c2 = 0.1;
  const outcome o = search(parabola, rule);
  assert_wolfe(parabola, rule, &o);
  assert_int_equal(o.result.evaluations, 2);
  assert_true(fabs(o.result.alpha - 1) <
              16 * DBL_EPSILON); /* a cubic through a parabola is exact */
}

/* The same curve times 1e-28 or 1e+28 must give the same steps: nothing is absolute. */
static double factor;
static void scaled(double a, double *phi, double *slope) {
  more2(a, phi, slope);
  *phi *= factor;
  *slope *= factor;
}

static void scale_of_the_loss_changes_no_step(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  rule.c2 = 0.1;
  factor = 1;
  const outcome one = search(scaled, rule);
  const double factors[] = {0x1p-93, 0x1p+93, 0x1p-900}; /* powers of two: exact */
  for (size_t k = 0; k < 3; ++k) {
    factor = factors[k];
    const outcome o = search(scaled, rule);
    assert_true(o.result.alpha == one.result.alpha);
    assert_int_equal(o.result.evaluations, one.result.evaluations);
  }
}

static void wall(double a, double *phi, double *slope) { /* not finite beyond 0.01 */
  *phi = a > 0.01 ? (a > 0.1 ? NAN : INFINITY) : (a - 0.005) * (a - 0.005);
  *slope = a > 0.01 ? NAN : 2 * (a - 0.005);
}

static void nonfinite_trials_are_backed_off(void **state) {
  (void)state;
  const pn_wolfe rule = pn_wolfe_standard();
  const outcome o = search(wall, rule);
  assert_wolfe(wall, rule, &o);
  assert_in_range(o.result.evaluations, 3, 5); /* 1 and 0.1 fall out, 0.01 is the edge */
}

static void nowhere(double a, double *phi, double *slope) {
  *phi = a > 0 ? NAN : 1;
  *slope = a > 0 ? NAN : -1;
}

static void nonfinite_everywhere_fails_in_words(void **state) {
  (void)state;
  const outcome o = search(nowhere, pn_wolfe_standard());
  assert_int_equal(o.result.outcome, PN_SEARCH_FAILED);
  assert_string_equal(o.result.reason, "the loss is not finite along the direction");
  assert_true(o.result.alpha == 0);
}

static void status_nonfinite_is_a_value(void **state) {
  (void)state;
  probe p = {.f = parabola, .fail_with = TN_ENONFINITE, .fail_at = 1};
  pn_objective f = {.context = &p, .n = 1, .loss = loss_only, .gradient = gradient};
  const double x = 0, d = 1;
  const pn_wolfe rule = pn_wolfe_standard();
  double xn = 0, gn = 0;
  pn_search_result result;
  assert_int_equal(pn_linesearch(&f, &x, &d, 1, -2, &rule, &xn, &gn, &result), TN_OK);
  assert_int_equal(result.outcome, PN_SEARCH_FAILED);
  p.fail_with = TN_EIO; /* any other status is passed on */
  assert_int_equal(pn_linesearch(&f, &x, &d, 1, -2, &rule, &xn, &gn, &result), TN_EIO);
}

/* A parabola of height 1 whose decrease, 1e-18 at most, cannot be seen in the loss: all trials
 * round up by one unit. The slope is exact. */
static void drowned(double a, double *phi, double *slope) {
  *phi = a == 0 ? 1 : 1 + DBL_EPSILON;
  *slope = 2e-18 * (a - 1);
}

static void rounding_level_is_searched_by_slopes(void **state) {
  (void)state;
  const double firsts[] = {0.9, 30, 0.01};
  for (size_t k = 0; k < 3; ++k) {
    pn_wolfe rule = pn_wolfe_standard();
    rule.c2 = 0.5;
    rule.first = firsts[k];
    const outcome o = search(drowned, rule);
    assert_int_equal(o.result.outcome, PN_SEARCH_APPROXIMATE);
    assert_true(fabs(o.g) <= 0.5 * 2e-18);
    assert_in_range(o.result.evaluations, 1, 6);
  }
}

static void rounding_level_needs_the_noise(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  rule.noise = 0;
  const outcome o = search(drowned, rule);
  assert_int_equal(o.result.outcome, PN_SEARCH_FAILED); /* the loss never falls */
  assert_true(o.result.alpha == 0);
}

static void falling(double a, double *phi, double *slope) { /* unbounded below */
  *phi = -a;
  *slope = -1;
}

static void endless_descent_takes_the_longest_step(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  rule.maximum = 1000;
  const outcome o = search(falling, rule);
  assert_int_equal(o.result.outcome, PN_SEARCH_DECREASE);
  assert_true(o.result.alpha == 1000 && o.x == 1000);
}

static void kink(double a, double *phi,
                 double *slope) { /* |a - 1| falls with slope 1, never less */
  *phi = fabs(a - 0.7);
  *slope = a < 0.7 ? -1 : 1;
}

static void kink_gives_the_best_decrease(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  const outcome o = search(kink, rule);
  assert_int_equal(o.result.outcome, PN_SEARCH_DECREASE);
  assert_true(fabs(o.x - 0.7) < 0.01 && o.x == o.result.alpha);
  assert_true(o.result.evaluations <= rule.evaluations + 1); /* one to come back to the best */
  assert_true(o.result.reason[0] != '\0');
}

static void rising(double a, double *phi, double *slope) {
  *phi = a;
  *slope = 1;
}

static void lying(double a, double *phi, double *slope) { /* claims to fall and rises */
  *phi = a;
  *slope = -1;
}

static void failures_say_why(void **state) {
  (void)state;
  outcome o = search(rising, pn_wolfe_standard());
  assert_string_equal(o.result.reason, "not a descent direction");
  assert_int_equal(o.p.calls, 0);
  o = search(lying, pn_wolfe_standard());
  assert_int_equal(o.result.outcome, PN_SEARCH_FAILED);
  assert_true(o.result.alpha == 0);
}

static void step_below_rounding_ends(void **state) {
  (void)state;
  probe p = {.f = parabola};
  pn_objective f = {.context = &p, .n = 1, .loss = loss_only, .gradient = gradient};
  const double x = 1e20, d = 1;
  const pn_wolfe rule = pn_wolfe_standard();
  double xn = 0, gn = 0;
  pn_search_result result;
  assert_int_equal(pn_linesearch(&f, &x, &d, 1, -2, &rule, &xn, &gn, &result), TN_OK);
  assert_string_equal(result.reason, "the step is below the rounding of the parameters");
  assert_int_equal(p.calls, 0);
}

static void rule_is_checked(void **state) {
  (void)state;
  pn_wolfe rule = pn_wolfe_standard();
  assert_int_equal(pn_wolfe_check(&rule, "m"), TN_OK);
  rule.c1 = 0.95;
  assert_int_equal(pn_wolfe_check(&rule, "m"), TN_ERANGE);
  assert_non_null(strstr(tn_error_text(), "c1"));
  rule = pn_wolfe_standard();
  rule.noise = NAN;
  assert_int_equal(pn_wolfe_check(&rule, "m"), TN_ERANGE);
  rule = pn_wolfe_standard();
  rule.evaluations = 0;
  assert_int_equal(pn_wolfe_check(&rule, "m"), TN_ERANGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wolfe_holds_from_any_first_step),
      cmocka_unit_test(parabola_accepts_the_first_trial_at_once),
      cmocka_unit_test(parabola_is_solved_by_one_interpolation),
      cmocka_unit_test(scale_of_the_loss_changes_no_step),
      cmocka_unit_test(nonfinite_trials_are_backed_off),
      cmocka_unit_test(nonfinite_everywhere_fails_in_words),
      cmocka_unit_test(status_nonfinite_is_a_value),
      cmocka_unit_test(rounding_level_is_searched_by_slopes),
      cmocka_unit_test(rounding_level_needs_the_noise),
      cmocka_unit_test(endless_descent_takes_the_longest_step),
      cmocka_unit_test(kink_gives_the_best_decrease),
      cmocka_unit_test(failures_say_why),
      cmocka_unit_test(step_below_rounding_ends),
      cmocka_unit_test(rule_is_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
