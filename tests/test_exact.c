/* cole_hopf: known values, the equation it solves, its symmetries and limits. The known values have eight
 * (seven) decimals, so half a unit of the last is what they can be held to. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const double U = 1.1102230246251565e-16, PI = 3.14159265358979323846;
enum { MANY = 400 };

static void open_burgers(model_case *c, const char *nu, tn_dtype dtype) {
  char text[512];
  snprintf(text, sizeof text,
           "domain = { x = [-1, 1], t = [0, 1] }\nconstants = { nu = \"%s\" }\n"
           "unknowns = { u = \"x, t\" }\nequations = { e = \"u_t + u*u_x = nu*u_xx\" }\n"
           "exact = { u = \"cole_hopf(x, t, nu)\" }\n",
           nu);
  model_open(c, text, dtype, 1);
}

static void cole_hopf_has_the_known_values(void **state) {
  (void)state;
  static const double point[] = {0.25, 0.25, 0.5, 0.5, -0.5, 0.5, 0.1, 1, 0.5, 1};
  static const double value[] = {-0.99208156, -0.59276953, 0.59276953, -0.66548157, -0.3761814};
  static const double digit[] = {0.5e-8, 0.5e-8, 0.5e-8, 0.5e-8, 0.5e-7};
  model_case c;
  double u[5];
  open_burgers(&c, "0.01/pi", TN_F64);
  model_at_points(&c, "u", true, 5, point, u);
  for (size_t i = 0; i < 5; ++i)
    assert_true(fabs(u[i] - value[i]) <= digit[i]);
  model_close(&c);
}

/* The residual against its largest term wherever it is sampled, fronts included. u, u_x and u_xx are means of
 * sines and their powers times 1/nu and 1/nu^2, the weights within some 100 u: every term of the equation is
 * within 1000 u = 1e-13 of the largest that occurs; tolerance is ten times that. */
static void check_equation(const char *nu, double tolerance) {
  model_case c;
  double *p = NULL, *r = NULL, *a = NULL, largest = 0, worst = 0;
  open_burgers(&c, nu, TN_F64);
  assert_int_equal(TN_NEW(2 * MANY, &p), TN_OK);
  assert_int_equal(TN_NEW(MANY, &r), TN_OK);
  assert_int_equal(TN_NEW(MANY, &a), TN_OK);
  tn_stream s = tn_stream_of(5, "points");
  for (size_t i = 0; i < MANY; ++i) {
    double x = 2 * tn_random_uniform(s, 2 * i) - 1;
    p[2 * i] = i % 2 ? x : x * x * x; /* half of them near the front */
    p[2 * i + 1] = 0.01 + 0.99 * tn_random_uniform(s, 2 * i + 1);
  }
  model_at_points(&c, "u_t + u*u_x - nu*u_xx", true, MANY, p, r);
  model_at_points(&c, "max(abs(u_t), abs(u*u_x), abs(nu*u_xx))", true, MANY, p, a);
  for (size_t i = 0; i < MANY; ++i) {
    largest = fmax(largest, a[i]);
    worst = fmax(worst, fabs(r[i]));
    if (!(fabs(r[i]) <= 10 * tolerance * fmax(a[i], 1)))
      fail_msg("nu = %s: residual %g of %g at x = %g, t = %g", nu, r[i], a[i], p[2 * i],
               p[2 * i + 1]);
  }
  print_message("nu = %s: worst residual %.1e, largest term %.1e\n", nu, worst, largest);
  assert_true(worst <= tolerance * largest);
  tn_free(&p);
  tn_free(&r);
  tn_free(&a);
  model_close(&c);
}

static void cole_hopf_solves_burgers(void **state) {
  (void)state;
  check_equation("0.01/pi", 1e-12);
  check_equation("0.1", 1e-12);
  check_equation("1e-3", 1e-12);
}

static void cole_hopf_meets_its_conditions(void **state) {
  (void)state;
  model_case c;
  open_burgers(&c, "0.01/pi", TN_F64);
  for (int i = 0; i <= 8; ++i) {
    double x = -1 + 0.25 * i, t = 0.125 * i, u = 0, v = 0;
    model_at_points(&c, "u", true, 1, (double[]){x, 0}, &u);
    assert_true(fabs(u + sin(PI * x)) <= 20 * U);
    model_at_points(&c, "u(x=1)", true, 1, (double[]){x, t}, &u);
    assert_true(fabs(u) <= 100 * U);
    model_at_points(&c, "u", true, 1, (double[]){0, t}, &u);
    assert_true(fabs(u) <= 100 * U);
    model_at_points(&c, "u", true, 1, (double[]){x, t}, &u);
    model_at_points(&c, "u(x=-x)", true, 1, (double[]){x, t}, &v);
    assert_true(fabs(u + v) <= 100 * U);
  }
  model_close(&c);
}

/* With a large nu the sine stays a sine: u = -sin(pi x) exp(-nu pi^2 t) up to terms 1/nu smaller. */
static void cole_hopf_becomes_heat_conduction(void **state) {
  (void)state;
  model_case c;
  double u = 0;
  open_burgers(&c, "20", TN_F64);
  model_at_points(&c, "u", true, 1, (double[]){0.3, 0.005}, &u);
  double heat = -sin(PI * 0.3) * exp(-20 * PI * PI * 0.005);
  assert_true(fabs(u - heat) <= 0.2 / 20 && fabs(u - heat) > 0);
  model_close(&c);
}

/* A model in f32 computes the solution in f64 from its rounded arguments: u_x reaches 160 at the front. */
static void cole_hopf_serves_f32(void **state) {
  (void)state;
  static const double point[] = {0.25, 0.25, 0.5, 0.5, 0.125, 1};
  model_case c;
  double wide[3], narrow[3];
  open_burgers(&c, "0.01/pi", TN_F64);
  model_at_points(&c, "u", true, 3, point, wide);
  model_close(&c);
  open_burgers(&c, "0.01/pi", TN_F32);
  model_at_points(&c, "u", true, 3, point, narrow);
  model_close(&c);
  for (size_t i = 0; i < 3; ++i)
    assert_true(fabs(wide[i] - narrow[i]) <= 2 * ldexp(1, -24));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cole_hopf_has_the_known_values),
      cmocka_unit_test(cole_hopf_solves_burgers),
      cmocka_unit_test(cole_hopf_meets_its_conditions),
      cmocka_unit_test(cole_hopf_becomes_heat_conduction),
      cmocka_unit_test(cole_hopf_serves_f32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
