/* test_integral.c: int(...) is what the language says: values, derivatives by Leibniz' rule, errors, texts.
 *
 * References: polynomials in closed form; integrals of networks against Simpson's rule with 2000 panels,
 * whose error for a fourth derivative below 1e3 on a range of 3 is 3 h^4 1e3 / 180 < 1e-10. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/integral.h"

static const double U = 1.1102230246251565e-16; /* rounding unit of f64 */

static const char *const plain =
    "domain = { x = [-1, 2], t = [0, 1] }\n"
    "constants = { nu = 0.3, half = \"int(2*s, s, 0, 1)/2\", bell = \"int(exp(-s^2), s, -6, 6)\" }\n"
    "unknowns = { u = \"x, t\", k = \"t\" }\n"
    "definitions = { w = \"int(u*x, x)\", g = { value = \"int(a*s, s, 0, a)\", of = \"a\" }, "
    "bad = { value = \"int(a*x, x, 0, 1)\", of = \"a\" } }\n"
    "equations = { e = \"u_t + k = nu*u_xx\" }\n"
    "exact = { u = \"exp(x)*t\", k = \"t\" }\n"
    "network = { width = 5, depth = 2 }\n";

/* ---- Rules -------------------------------------------------------------------------------------- */

/* int_0^1 x^k dx = 1/(k + 1) for k < 2n. Rounding: sums of n products of positive numbers below 1. */
static void rules_integrate_polynomials(void **state) {
  (void)state;
  for (size_t n = 1; n <= PN_RULE_MOST; ++n) {
    pn_rule rule;
    pn_rule_of(n, &rule);
    for (size_t k = 0; k < 2 * n; ++k) {
      double sum = 0, part = 1.0 / (double)(k + 1);
      for (size_t i = 0; i < n; ++i)
        sum += rule.weight[i] * pow(rule.node[i], (double)k);
      /* the node's rounding enters times k */
      if (!(fabs(sum - part) <= (double)(k + n + 4) * U))
        fail_msg("%zu nodes, x^%zu: %.17g, expected %.17g", n, k, sum, part);
    }
    for (size_t i = 1; i < n; ++i)
      assert_true(rule.node[i - 1] < rule.node[i]);
  }
}

/* ---- Values ------------------------------------------------------------------------------------- */

static void integrals_have_their_values(void **state) {
  (void)state;
  const struct {
    const char *text;
    double value;
  } rows[] = {
      {"int(s^2, s, 0, 3)", 9},
      {"int(s*x, s, 0, t)", 0.35 * 0.32},
      {"int(exp(s - x), s, x, t)", exp(0.8 - 0.35) - 1},
      {"int(x^2, x)", 3},
      {"int(x^2*t, x, t)", 3 * 0.5},
      {"int(x, x, 0, t)", 0.32},
      {"int(int(r*s, r, 0, s), s, 0, 2)", 2},
      {"int(x*s + t, s, x, 2*x)", 0.35 * 1.5 * 0.35 * 0.35 + 0.8 * 0.35},
      {"g(x)", 0.35 * 0.35 * 0.35 / 2},
      {"g(int(s, s, 0, 1))", 0.0625},
      {"int(g(s), s, 0, 2)", 2},
      {"half", 0.5},
      {"bell", 1.7724538509055159},
      {"int(1, domain)", 3},
      {"int(0*t + 2, domain)", 6},
      {"int(where(s < t, 1, 1), s, 0, 1)", 1},
  };
  model_case c;
  model_open(&c, plain, TN_F64, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    double found = model_at(&c, rows[i].text, (double[]){0.35, 0.8});
    if (!(fabs(found - rows[i].value) <= 40 * U * fmax(1, fabs(rows[i].value))))
      fail_msg("%s: found %.17g, expected %.17g", rows[i].text, found, rows[i].value);
  }
  model_close(&c);
}

static double value_at(model_case *c, const char *text, double x, double t) {
  return model_at(c, text, (double[]){x, t});
}

/* Simpson's rule of the network: f(s) is `text` at x = s. */
static double simpson(model_case *c, const char *text, double a, double b, double t) {
  enum { N = 2000 };
  static double point[2 * (2 * N + 1)], f[2 * N + 1];
  double h = (b - a) / (2 * N), sum = 0;
  for (size_t i = 0; i <= 2 * N; ++i) {
    point[2 * i] = a + h * (double)i;
    point[2 * i + 1] = t;
  }
  model_at_points(c, text, false, 2 * N + 1, point, f);
  for (size_t i = 0; i <= 2 * N; ++i)
    sum += f[i] * (i == 0 || i == 2 * N ? 1 : i % 2 ? 4 : 2);
  return sum * h / 3;
}

static void near(double found, double expected, double bound, const char *what) {
  if (!(fabs(found - expected) <= bound * fmax(1, fabs(expected))))
    fail_msg("%s: found %.17g, expected %.17g", what, found, expected);
}

static void integrals_of_networks_are_those_of_their_values(void **state) {
  (void)state;
  model_case c;
  model_open(&c, plain, TN_F64, 2);
  for (size_t i = 0; i < 3; ++i) {
    double x = -0.6 + 0.7 * (double)i, t = 0.2 + 0.3 * (double)i;
    near(value_at(&c, "int(u(s, t), s, -1, x)", x, t), simpson(&c, "u", -1, x, t), 1e-9, "to x");
    near(value_at(&c, "int(u, x, -1, x)", x, t), simpson(&c, "u", -1, x, t), 1e-9, "over x to x");
    near(value_at(&c, "int(u, x)", x, t), simpson(&c, "u", -1, 2, t), 1e-9, "the whole range");
    near(value_at(&c, "w", x, t), simpson(&c, "u*x", -1, 2, t), 1e-9, "by a definition");
    near(value_at(&c, "int(u_x*u, x)", x, t),
         (pow(value_at(&c, "u(x=2)", x, t), 2) - pow(value_at(&c, "u(x=-1)", x, t), 2)) / 2, 1e-9,
         "a derivative inside");
    near(value_at(&c, "int(int(u, x), t)", x, t), value_at(&c, "int(u, x, t)", x, t), 1e-14, "nested");
  }
  model_close(&c);
}

/* ---- Derivatives --------------------------------------------------------------------------------- */

/* d/dx int_a^x f(x, s) ds = f(x, x) + int_a^x f_x ds. Both sides are derivatives of one sum or sums
 * of derivatives at the same nodes: they agree to the error of the rule, below 1e-8 here (12 nodes each where
 * two are nested); a missing term is 1e-2 and more. */
static void derivatives_follow_leibniz(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"(int(u(s, t), s, -1, x))_x", "u"},
      {"(int(u(s, t), s, x, 2))_x", "-u"},
      {"(int(exp(s - x)*u(s, t), s, -1, x))_x", "u - int(exp(s - x)*u(s, t), s, -1, x)"},
      {"(int(exp(s*x)*u(s, t), s, -1, x))_xx",
       "(exp(x^2)*u)_x + x*exp(x^2)*u + int(s^2*exp(s*x)*u(s, t), s, -1, x)"},
      {"(int(u, x))_t", "int(u_t, x)"},
      {"(int(u(x, s*t), s, 0, 1))_t", "int(s*u_t(x, s*t), s, 0, 1)"},
      {"(int(u(x, s), s, 0, t))_x", "int(u_x(x, s), s, 0, t)"},
      {"(int(u(x, s), s, 0, t))_t", "u"},
      {"int((u(x, s))_x, s, 0, x^2)", "int(u_x(t=s), s, 0, x^2)"},
      {"(int(int(u(r, t), r, -1, s), s, -1, x))_xx", "u"},
      {"(w)_x", "0"},
      {"(g(x))_x", "1.5*x^2"},
  };
  model_case c;
  model_open(&c, plain, TN_F64, 4);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i)
    for (size_t k = 0; k < 3; ++k) {
      double x = 0.1 + 0.4 * (double)k, t = 0.2 + 0.3 * (double)k;
      near(value_at(&c, rows[i][0], x, t), value_at(&c, rows[i][1], x, t), 1e-8, rows[i][0]);
    }
  model_close(&c);
}

/* u = exp(x) t: the same in a scope of exact solutions. */
static void exact_solutions_are_integrated(void **state) {
  (void)state;
  model_case c;
  double found = 0;
  const double p[] = {0.5, 0.25};
  model_open(&c, plain, TN_F64, 5);
  model_at_points(&c, "int(u(s, t), s, 0, x)", true, 1, p, &found);
  near(found, 0.25 * (exp(0.5) - 1), 40 * U, "to x");
  model_at_points(&c, "(int(exp(s)*u(x, s), s, 0, t))_t", true, 1, p, &found);
  near(found, exp(0.25) * exp(0.5) * 0.25, 40 * U, "its derivative");
  model_at_points(&c, "int(u_x, x)*k", true, 1, p, &found);
  near(found, (exp(2) - exp(-1)) * 0.0625, 40 * U, "over the range");
  model_close(&c);
}

/* ---- Numbers without points ----------------------------------------------------------------------- */

static void constants_with_kinks_are_found(void **state) {
  (void)state;
  const struct {
    const char *text;
    double value, bound;
  } rows[] = {
      {"int(abs(s - 1/3), s, 0, 1)", 5.0 / 18, 1e-6},
      {"int(sin(40*s)^2, s, 0, 10)", 5 - sin(800) / 160, 1e-13},
      {"int(int(r*s^2, r, 0, s), s, 0, 1)", 0.1, 1e-15},
  };
  model_case c;
  model_open(&c, plain, TN_F64, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_expr *e = NULL;
    double value = 0;
    assert_int_equal(pn_problem_expression(c.problem, "--expr", rows[i].text, &e), TN_OK);
    assert_int_equal(pn_evaluate(c.problem, e, NULL, &value), TN_OK);
    near(value, rows[i].value, rows[i].bound, rows[i].text);
  }
  model_close(&c);
}

/* ---- Texts and errors ------------------------------------------------------------------------------ */

static void printed_integrals_read_back(void **state) {
  (void)state;
  static const char *const rows[] = {"int(u, x)", "int(exp(s - x)*u(x=s), s, 0, x)",
                                     "int(u, x, 0, 1)", "(int(s*x, s, 0, t))_x",
                                     "int(int(u, x), t)"};
  model_case c;
  model_open(&c, plain, TN_F64, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_expr *e = NULL;
    char *text = NULL, *markup = NULL;
    pn_problem *p = c.problem;
    assert_int_equal(pn_problem_expression(p, "--expr", rows[i], &e), TN_OK);
    assert_int_equal(pn_expr_print(p->arena, e, p->coordinate_names, &text), TN_OK);
    assert_string_equal(text, rows[i]);
    assert_int_equal(pn_expr_mathml(p->arena, e, p->coordinate_names, &markup), TN_OK);
    assert_non_null(strstr(markup, "&#8747;"));
  }
  model_close(&c);
}

static void wrong_integrals_are_errors(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"int(u)", "takes (e, s, a, b), (e, x) or (e, region)"},
      {"int(u, y)", "there is no coordinate `y`"},
      {"int(u, x, y)", "there is no coordinate `y`"},
      {"int(u, x, x)", "given twice"},
      {"int(u(s, t), s, 1, 0)", "from 1 down to 0"},
      {"int(u(s, t), s, 1, 1)", "and is 0"},
      {"int(u(s, t), s, 0, 3)", "x lies in [-1, 2] where it stands for x"},
      {"int(u, x, 0, 3)", "outside the domain, x in [-1, 2]"},
      {"int(k, x)", "does not depend on it: write it times the length"},
      {"int(u(nu, t), nu, 0, 1)", "`nu` is a constant"},
      {"int(u, u, 0, 1)", "`u` is an unknown"},
      {"int(u_x, u_x, 0, 1)", "is a derivative"},
      {"int(int(u(s, t), s, 0, x), s, 0, 1)", "is the variable of the integral around"},
      {"int(u, pi, 0, 1)", "`pi` is reserved"},
      {"int(u, x < 1, 0, 1)", "is a name"},
      {"int(u(s, t), s, (0, 1), 1)", "a limit is a scalar"},
      {"int(u(s, t), s, 0, s)", "`s` is not declared"},
      {"bad(x)", "what is put in for `a` depends on x"},
      {"int(int(int(int(int(u(a, t), a, 0, b), b, 0, c), c, 0, d), d, 0, x), d, 0, 1)",
       "is the variable of the integral around"},
      {"int(int(int(int(int(u(a, t), a, 0, b), b, 0, c), c, 0, d), d, 0, r), r, 0, 1)",
       "more than 3 integrals inside each other"},
      {"int(s(x), s, 0, 1)", "unknown function `s`"},
  };
  model_case c;
  model_open(&c, plain, TN_F64, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_expr *e = NULL;
    assert_int_equal(pn_problem_expression(c.problem, "--expr", rows[i][0], &e), TN_EINPUT);
    if (!strstr(tn_error_text(), rows[i][1]))
      fail_msg("%s: \"%s\" is not in: %s", rows[i][0], rows[i][1], tn_error_text());
  }
  model_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_integrate_polynomials),
      cmocka_unit_test(integrals_have_their_values),
      cmocka_unit_test(integrals_of_networks_are_those_of_their_values),
      cmocka_unit_test(derivatives_follow_leibniz),
      cmocka_unit_test(exact_solutions_are_integrated),
      cmocka_unit_test(constants_with_kinks_are_found),
      cmocka_unit_test(printed_integrals_read_back),
      cmocka_unit_test(wrong_integrals_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
