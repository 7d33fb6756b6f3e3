/* test_names.c: the namespace and derivatives by name: one reading or an error that says why.
 *
 * The names are those of support_problem.h: x y t, u(x, t) v(x, y) s(t), nu c. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_problem.h"

static pn_problem *p;

static int make(void **state) {
  (void)state;
  p = problem_of_parts("sxx = \"u_x + nu*v_y\"\nw = \"(u, v)\"\nue = \"sin(x)*t\"\n"
                       "f = { value = \"a^2 + b*x\", of = \"a, b\" }\n"
                       "g = { value = \"f(a, 1) - f(1, a)\", of = \"a\" }",
                       NULL, NULL);
  return 0;
}

static int done(void **state) {
  (void)state;
  pn_problem_free(&p);
  return 0;
}

static pn_expr *resolved(const char *text) {
  pn_expr *e = NULL;
  if (pn_problem_expression(p, "--expr", text, &e) != TN_OK)
    fail_msg("%s", tn_error_text());
  return e;
}

static void assert_refused(const char *text, tn_status code, const char *part) {
  pn_expr *e = NULL;
  assert_int_equal(pn_problem_expression(p, "--expr", text, &e), code);
  if (!strstr(tn_error_text(), part))
    fail_msg("\"%s\" is not in: %s", part, tn_error_text());
}

/* The derivative of unknown `name` along the coordinates given by index. */
static void assert_derivative(const char *text, pn_kind inside, size_t n, const size_t *axes) {
  const pn_expr *e = resolved(text);
  assert_int_equal(e->kind, PN_DERIVATIVE);
  assert_int_equal(e->args[0]->kind, inside);
  assert_int_equal(e->n_axes, n);
  for (size_t i = 0; i < n; ++i)
    assert_int_equal(e->axes[i], axes[i]);
}

static void every_way_to_write_a_derivative_is_the_same_node(void **state) {
  (void)state;
  const size_t xxt[] = {0, 0, 2};
  static const char *const texts[] = {"u_xxt",          "u_x_x_t",    "u_xx_t",
                                      "(u_xx)_t",       "((u)_x)_xt", "diff(u, x, 2, t)",
                                      "diff(u_x, x, t)"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    assert_derivative(texts[i], PN_UNKNOWN, 3, xxt);
  assert_derivative("sxx_x", PN_DEFINITION, 1, (size_t[]){0});
  assert_derivative("(nu*u_x)_x", PN_MULTIPLY, 1, (size_t[]){0});
}

static void mixed_orders_keep_their_order(void **state) {
  (void)state; /* u_xy and u_yx are the same number, and both can be written */
  assert_derivative("v_xy", PN_UNKNOWN, 2, (size_t[]){0, 1});
  assert_derivative("v_yx", PN_UNKNOWN, 2, (size_t[]){1, 0});
}

static void calls_evaluate_elsewhere(void **state) {
  (void)state;
  const pn_expr *e = resolved("u_x(x=1)");
  assert_int_equal(e->kind, PN_AT);
  assert_int_equal(e->args[0]->kind, PN_DERIVATIVE);
  assert_int_equal(e->n_axes, 1);
  assert_int_equal(e->axes[0], 0);
  assert_int_equal(pn_expr_depends(p, e), 1u << 2);
  e = resolved("u(1, t)"); /* t = t says nothing */
  assert_int_equal(e->kind, PN_AT);
  assert_int_equal(e->n_axes, 1);
  assert_int_equal(resolved("u(x, t)")->kind, PN_UNKNOWN);
  e = resolved("u(x=1)_t");
  assert_int_equal(e->kind, PN_DERIVATIVE);
  assert_int_equal(e->args[0]->kind, PN_AT);
  e = resolved("u_x(s, t)"); /* at a moving place */
  assert_int_equal(e->args[1]->kind, PN_UNKNOWN);
  assert_int_equal(resolved("ue(x=2 - x)")->args[0]->kind, PN_DEFINITION);
  assert_string_equal(printed(p, resolved("u(t=0, x=-x)")), "u(t=0, x=-x)");
}

static void resolved_texts_read_back(void **state) {
  (void)state;
  static const char *const texts[] = {"u_xx - u_t(x=x.max)",
                                      "(nu*u_x)_x + v_xy/c",
                                      "mean(v, domain)",
                                      "lap(v) + dot(w, grad(u))",
                                      "where(x < 1 and t > 0, u, -u)",
                                      "norm(w)^2 - abs(pi)",
                                      "mean(u, x < 1)"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    assert_string_equal(printed(p, resolved(texts[i])), texts[i]);
}

static void functions_of_the_file_are_expanded(void **state) {
  (void)state;
  double point[3] = {2, 0, 0}, value = 0;
  assert_int_equal(pn_evaluate(p, resolved("f(3, 5)"), point, &value), TN_OK);
  assert_true(value == 19);
  /* f(a, 1) - f(1, a) = a^2 + x - 1 - a x at a = 4, x = 2: 16 + 2 - 1 - 8 */
  assert_int_equal(pn_evaluate(p, resolved("g(4)"), point, &value), TN_OK);
  assert_true(value == 9);
  assert_string_equal(printed(p, resolved("f(u_x, t)")), "u_x^2 + t*x");
  assert_refused("f(1)", TN_EINPUT, "2 arguments, not 1");
  assert_refused("f", TN_EINPUT, "function of 2 arguments");
}

static void names_that_mean_nothing_are_explained(void **state) {
  (void)state;
  assert_refused("u_xz", TN_EINPUT,
                 "`u_xz`: u depends on x and t; there is no coordinate `z`. Did you mean `u_xx`?");
  assert_refused("u_vv", TN_EINPUT, "v is an unknown, derivatives go by x, t");
  assert_refused("w_xx_q", TN_EINPUT, "no coordinate `q`");
  assert_refused("nu_x", TN_EINPUT, "nu is a constant and has no derivatives");
  assert_refused("sx + 1", TN_EINPUT, "Did you mean `sxx`?");
  assert_refused("sxxx_t", TN_EINPUT, "Did you mean `sxx_t`?");
  assert_refused("velocity", TN_EINPUT,
                 "The names are x, y, t (coordinates); u, v, s (unknowns); nu, c (constants)");
  assert_refused("foo(u)", TN_EINPUT, "unknown function `foo`");
  assert_refused("foo(u)", TN_EINPUT, "sqrt exp log");
  assert_refused("sine(u)", TN_EINPUT, "Did you mean `sin`?");
  assert_refused("c(1 - x)", TN_EINPUT, "c*(...)");
  assert_refused("sin", TN_EINPUT, "sin(...)");
  assert_refused("boundary + 1", TN_EINPUT, "region");
  assert_refused("(nu*u)_z", TN_EINPUT, "no coordinate `z`");
  assert_refused("laplacian(u)", TN_EINPUT, "Did you mean `lap`?");
  assert_refused("gradient(u)", TN_EINPUT, "Did you mean `grad`?");
  assert_refused("ln(x)", TN_EINPUT, "Did you mean `log`?");
  assert_refused("du_dx", TN_EINPUT, "A derivative is written u_x, u_xx.");
  assert_refused("d2u_dx2", TN_EINPUT, "A derivative is written u_x, u_xx.");
  assert_refused("du/dt", TN_EINPUT, "A derivative is written u_x, u_xx.");
  assert_refused("u_4x", TN_EINPUT, "A derivative is written u_x, u_xx.");
  assert_refused("e^x", TN_EINPUT, "Write exp(...) for e^(...).");
}

static void wrong_calls_are_errors(void **state) {
  (void)state;
  assert_refused("u(1)", TN_EINPUT, "2 coordinates, but 1 values");
  assert_refused("u(y=1)", TN_EINPUT, "does not depend on y");
  assert_refused("u(x=1, 2)", TN_EINPUT, "either all");
  assert_refused("u(x=1, x=2)", TN_EINPUT, "given twice");
  assert_refused("ue(1)", TN_EINPUT, "name the coordinate");
  assert_refused("sin(x=1)", TN_EINPUT, "only in calls of an unknown");
  assert_refused("sin(1, 2)", TN_EINPUT, "`sin` takes 1 argument");
  assert_refused("diff(u, nu)", TN_EINPUT, "goes by coordinates");
  assert_refused("diff(u, x, 0)", TN_EINPUT, "whole number");
  assert_refused("diff(u, x, 13)", TN_EINPUT, "12");
  assert_refused("sum(u, x)", TN_EINPUT, "is one coordinate");
  assert_refused("dn(u)", TN_EINPUT, "`on`");
  assert_refused("normal_x", TN_EINPUT, "`on`");
  assert_refused("net", TN_EINPUT, "ansatz");
}

static void components_must_fit(void **state) {
  (void)state;
  assert_int_equal(resolved("grad(v)")->components, 2);
  assert_int_equal(resolved("nu*grad(v) - w/c")->components, 2);
  assert_int_equal(resolved("div(nu*grad(v))")->components, 1);
  assert_int_equal(resolved("lap(w)")->components, 2);
  assert_int_equal(resolved("w_x")->components, 2);
  assert_int_equal(resolved("curl(w)")->components, 1);
  assert_refused("grad(v) + 1", TN_EINPUT, "2 and 1 components");
  assert_refused("w*w", TN_EINPUT, "dot(a, b)");
  assert_refused("1/w", TN_EINPUT, "divided by a vector");
  assert_refused("sin(w)", TN_EINPUT, "scalar");
  assert_refused("div(u)", TN_EINPUT, "2 components");
  assert_refused("((u, v), u)", TN_EINPUT, "scalar");
}

static void vectors_are_written_out(void **state) {
  (void)state;
  static const struct {
    const char *text, *scalar;
    size_t component;
  } rows[] = {{"lap(v)", "v_xx + v_yy", 0},
              {"div(nu*grad(v))", "(nu*v_x)_x + (nu*v_y)_y", 0},
              {"dot(w, grad(v))", "u*v_x + v*v_y", 0},
              {"grad(v)/c", "v_y/c", 1},
              {"norm(w)", "sqrt(u*u + v*v)", 0},
              {"curl(w)", "v_x - u_y", 0},
              {"lap(w)", "v_xx + v_yy", 1},
              {"w(x=1)", "v(x=1)", 1},
              {"(grad(v))_t", "v_xt", 0},
              {"div(grad(lap(v)))", "(v_xx + v_yy)_xx + (v_xx + v_yy)_yy", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_expr *e = NULL;
    assert_int_equal(pn_scalar(p, resolved(rows[i].text), rows[i].component, NULL, &e), TN_OK);
    if (strcmp(rows[i].text, "div(grad(lap(v)))") == 0)
      assert_string_equal(printed(p, e), "(v_xx + v_yy)_xx + (v_xx + v_yy)_yy");
    else
      assert_string_equal(printed(p, e), rows[i].scalar);
  }
}

static void one_name_has_one_meaning(void **state) {
  (void)state;
  expect_refusal("domain = { x = [0, 1], y = [0, 1] }\nunknowns = { y = \"x\" }\n"
                 "equations = { e = \"y_x = 0\" }\n",
                 TN_EINPUT, "test.toml:2:14: `y` is a coordinate (line 1) and an unknown", NULL);
  expect_parts_refusal("nu = \"1\"", NULL, NULL, TN_EINPUT, "`nu` is a constant", "a definition",
                       NULL);
  expect_parts_refusal("pi = \"3\"", NULL, NULL, TN_EINPUT, "`pi` is reserved", NULL);
  expect_parts_refusal("exp = \"3\"", NULL, NULL, TN_EINPUT, "`exp` is a function", NULL);
  expect_parts_refusal("\"a b\" = \"3\"", NULL, NULL, TN_EINPUT, "cannot be a name", NULL);
  expect_parts_refusal("a__b = \"3\"", NULL, NULL, TN_EINPUT, "cannot be a name", NULL);
}

static void a_name_that_reads_as_a_derivative_is_refused(void **state) {
  (void)state;
  expect_parts_refusal(
      "s_x = \"1\"", NULL, NULL, TN_EINPUT,
      "definition `s_x` also reads as the x-derivative of `s` (line 11). Rename one", NULL);
  pn_problem *q =
      problem_of_parts("q_1 = \"1\"\nmu_x = \"2\"", NULL, NULL); /* these read as nothing */
  pn_problem_free(&q);
}

static void several_readings_are_listed(void **state) {
  (void)state;
  expect_refusal("domain = { x = [0, 1], xx = [0, 1] }\nunknowns = { u = \"x, xx\" }\n"
                 "equations = { e = \"u_xx = 0\" }\n",
                 TN_EINPUT, "test.toml:3:20: ", "`u_x_x`", "`u_xx`", NULL);
}

/* A05: coordinates `r`, `theta`; unknowns `ab`, `cd` are not read as products of letters. */
static void long_names_are_never_cut_into_letters(void **state) {
  (void)state;
  pn_problem *q = problem_of("domain = { r = [1, 2], theta = [0, 1] }\n"
                             "unknowns = { ab = \"r, theta\", cd = \"r, theta\" }\n"
                             "equations = { e = \"ab_rtheta + ab_r_theta = cd_thetatheta\" }\n");
  const pn_relation *relation = &q->equations[0].relations[0];
  assert_string_equal(printed(q, relation->whole), "ab_r_theta + ab_r_theta = cd_theta_theta");
  pn_problem_free(&q);
  expect_refusal(
      "domain = { ab = [0, 1] }\nunknowns = { u = \"ab\" }\nequations = { e = \"u_a = 0\" }\n",
      TN_EINPUT, "no coordinate `a`", NULL);
}

static void a_vanishing_derivative_is_noted(void **state) {
  (void)state;
  pn_problem *q = problem_of_parts(NULL, "all = \"u_t + v_t = v + s\"", NULL);
  assert_int_equal(q->n_warnings, 1);
  assert_non_null(strstr(q->warnings[0], "v does not depend on t"));
  pn_problem_free(&q);
}

static void definitions_are_found_in_any_order_but_not_in_circles(void **state) {
  (void)state;
  pn_problem *q = problem_of_parts("a = \"2*b\"\nb = \"u_x\"", "all = \"u_t = a + v + s\"", NULL);
  assert_int_equal(q->definitions[0].depends, 1u << 0 | 1u << 2);
  assert_true(q->definitions[0].unknowns == 1);
  pn_problem_free(&q);
  expect_parts_refusal("a = \"2*b\"\nb = \"a + 1\"", NULL, NULL, TN_EINPUT, "defined by itself",
                       NULL);
  expect_parts_refusal("h = { value = \"h(a - 1)\", of = \"a\" }", NULL, NULL, TN_EINPUT,
                       "calls itself", NULL);
  expect_parts_refusal("h = { value = \"k(a)+k(a)\", of = \"a\" }\n"
                       "k = { value = \"h(a)+h(a)\", of = \"a\" }",
                       NULL, NULL, TN_EINPUT, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_to_write_a_derivative_is_the_same_node),
      cmocka_unit_test(mixed_orders_keep_their_order),
      cmocka_unit_test(calls_evaluate_elsewhere),
      cmocka_unit_test(resolved_texts_read_back),
      cmocka_unit_test(functions_of_the_file_are_expanded),
      cmocka_unit_test(names_that_mean_nothing_are_explained),
      cmocka_unit_test(wrong_calls_are_errors),
      cmocka_unit_test(components_must_fit),
      cmocka_unit_test(vectors_are_written_out),
      cmocka_unit_test(one_name_has_one_meaning),
      cmocka_unit_test(a_name_that_reads_as_a_derivative_is_refused),
      cmocka_unit_test(several_readings_are_listed),
      cmocka_unit_test(long_names_are_never_cut_into_letters),
      cmocka_unit_test(a_vanishing_derivative_is_noted),
      cmocka_unit_test(definitions_are_found_in_any_order_but_not_in_circles),
  };
  return cmocka_run_group_tests(tests, make, done);
}
