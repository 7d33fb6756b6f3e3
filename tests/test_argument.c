/* test_argument.c: unknowns that are functions of unknowns: b(u), b_u, b(0.5), the chain rule.
 *
 * The plain reference is the same network with the argument as a coordinate: in the second file b depends
 * on a coordinate v of the range that b's input has, twice the scale of u to both sides. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const double U = 1.1102230246251565e-16; /* rounding unit of f64 */

/* b comes first by name, so that it is net1 in both files and has the same weights. */
static const char *const of_unknown =
    "domain = { x = [0, 1], t = [0, 1] }\n"
    "unknowns = { u = { of = \"x\", scale = 0.5 }, b = \"u\", a = { of = \"u, t\", ansatz = \"u*exp(net)\" } }\n"
    "equations = { e = \"(b*u_x)_x + a = 0\" }\n"
    "network = { width = 5, depth = 2 }\n";
static const char *const of_coordinate =
    "domain = { v = { range = [-1, 1], role = \"parameter\" }, t = [0, 1] }\n"
    "unknowns = { b = \"v\", a = { of = \"v, t\", ansatz = \"v*exp(net)\" } }\n"
    "equations = { e = \"b_v + a_t = 0\" }\n"
    "network = { width = 5, depth = 2 }\n";

static void near(double found, double expected, const char *what) {
  /* the same operations, but for the map to the input */
  if (!(fabs(found - expected) <= 2000 * U * fmax(1, fabs(expected))))
    fail_msg("%s: found %.17g, expected %.17g", what, found, expected);
}

static void values_are_those_of_the_network_at_the_value(void **state) {
  (void)state;
  model_case c, plain;
  model_open(&c, of_unknown, TN_F64, 3);
  model_open(&plain, of_coordinate, TN_F64, 3);
  for (int i = 0; i < 4; ++i) {
    const double p[] = {0.1 + 0.25 * i, 0.3 * i};
    double u = model_at(&c, "u", p), there[] = {u, p[1]}, half[] = {0.5, p[1]};
    near(model_at(&c, "b", p), model_at(&plain, "b", there), "b");
    near(model_at(&c, "b(u)", p), model_at(&plain, "b", there), "b(u)");
    near(model_at(&c, "b(0.5)", p), model_at(&plain, "b", half), "b(0.5)");
    near(model_at(&c, "b(u = 0.5)", p), model_at(&plain, "b", half), "b(u = 0.5)");
    near(model_at(&c, "b_u", p), model_at(&plain, "b_v", there), "b_u");
    near(model_at(&c, "b_u(0.5)", p), model_at(&plain, "b_v", half), "b_u(0.5)");
    near(model_at(&c, "b_u_u", p), model_at(&plain, "b_vv", there), "b_uu");
    near(model_at(&c, "a", p), model_at(&plain, "a", there), "a with an ansatz in u");
    near(model_at(&c, "a_u_t", p), model_at(&plain, "a_v_t", there), "a_ut");
    near(model_at(&c, "a(0.5, 1)", p), model_at(&plain, "a(0.5, 1)", there), "a(0.5, 1)");
    near(model_at(&c, "b(x = 1)", p), model_at(&plain, "b", (double[]){model_at(&c, "u(1)", p), 0}),
         "b(x = 1)");
  }
  model_close(&plain);
  model_close(&c);
}

static void derivatives_follow_the_chain_rule(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"b_x", "b_u*u_x"},
      {"b_xx", "b_u_u*u_x^2 + b_u*u_xx"},
      {"(b*u_x)_x", "b_u*u_x^2 + b*u_xx"},
      {"a_x", "a_u*u_x"},
      {"a_t", "diff(a, t)"},
      {"(b(u^2))_x", "b_u(u^2)*2*u*u_x"},
      {"(b(0.5))_x", "0"},
      {"int(b(s), s, 0, 0.5)", "int(b(u = s), s, 0, 0.5)"},
      {"(int(b(s), s, 0, u))_x", "b*u_x"},
      {"u_t", "0"},
  };
  model_case c;
  model_open(&c, of_unknown, TN_F64, 5);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i)
    for (int k = 0; k < 3; ++k) {
      const double p[] = {0.2 + 0.3 * k, 0.1 + 0.4 * k};
      near(model_at(&c, rows[i][0], p), model_at(&c, rows[i][1], p), rows[i][0]);
    }
  model_close(&c);
}

static void dependence_is_that_of_the_argument(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t coordinates;
    uint64_t unknowns;
  } rows[] = {{"b", 1, 3}, {"b(0.5)", 0, 3}, {"b_u", 1, 3}, {"a", 3, 5}, {"a(0.5, t)", 2, 5}, {"u", 1, 1}};
  model_case c;
  model_open(&c, of_unknown, TN_F64, 5);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_expr *e = NULL;
    assert_int_equal(pn_problem_expression(c.problem, "--expr", rows[i].text, &e), TN_OK);
    assert_int_equal(pn_expr_depends(c.problem, e), rows[i].coordinates);
    assert_int_equal(pn_expr_unknowns(c.problem, e), rows[i].unknowns);
  }
  model_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_those_of_the_network_at_the_value),
      cmocka_unit_test(derivatives_follow_the_chain_rule),
      cmocka_unit_test(dependence_is_that_of_the_argument),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
