/* test_moving.c: coordinates with ends that are unknowns: x = [0, "s"].
 *
 * The reference of a network is the same network on a fixed range [0, 1] at x/s(t): file `fixed` has the same
 * unknowns and with it the same weights. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/moving.h"

static const double U = 1.1102230246251565e-16; /* rounding unit of f64 */

static const char *const moving =
    "domain = { x = [0, \"s\"], y = [\"s\", 4], t = [0, 1] }\n"
    "unknowns = { u = \"x, t\", v = \"y, t\", s = { of = \"t\", ansatz = \"1.5 + net/8\" } }\n"
    "equations = { e = \"u_t + v_t = u_xx\", f = \"s_t = u_x(x = s)\" }\n"
    "conditions = { front = { on = \"x = s\", equation = \"u = t\" }, end = { on = \"x = x.max\", equation = \"v = 0\" }, "
    "wall = { on = \"x = 0\", equation = \"u = 0\" }, far = { on = \"y = 4\", equation = \"v = 0\" }, "
    "start = { equation = \"s(t = 0) = 1.25\" } }\n"
    "exact = { s = \"1 + t\", u = \"x*t/(1 + t)\", v = \"y - 4\" }\n"
    "network = { width = 5, depth = 2 }\n";
static const char *const fixed =
    "domain = { x = [0, 1], y = [0, 1], t = [0, 1] }\n"
    "unknowns = { u = \"x, t\", v = \"y, t\", s = { of = \"t\", ansatz = \"1.5 + net/8\" } }\n"
    "equations = { e = \"u_t + v_t = u_xx\", f = \"s_t = u_x(x = s)\" }\n"
    "network = { width = 5, depth = 2 }\n";

static void near(double found, double expected, const char *what) {
  if (!(fabs(found - expected) <= 4000 * U * fmax(1, fabs(expected))))
    fail_msg("%s: found %.17g, expected %.17g", what, found, expected);
}

/* ---- Networks ---------------------------------------------------------------------------------- */

static void networks_see_the_reference_number(void **state) {
  (void)state;
  model_case c, plain;
  model_open(&c, moving, TN_F64, 3);
  model_open(&plain, fixed, TN_F64, 3);
  for (int i = 0; i < 3; ++i) {
    const double x = 0.2 + 0.4 * i, y = 3.5 - 0.5 * i, t = 0.1 + 0.4 * i, p[] = {x, y, t};
    double s = model_at(&c, "s", p), st = model_at(&c, "s_t", p);
    near(s, model_at(&plain, "s", p), "s");
    const double q[] = {x / s, (y - s) / (4 - s), t};
    double nx = model_at(&plain, "u_x", q);
    near(model_at(&c, "u", p), model_at(&plain, "u", q), "u");
    near(model_at(&c, "v", p), model_at(&plain, "v", q), "v");
    near(model_at(&c, "u_x", p), nx / s, "u_x");
    near(model_at(&c, "u_xx", p), model_at(&plain, "u_xx", q) / (s * s), "u_xx");
    near(model_at(&c, "u_t", p), model_at(&plain, "u_t", q) - nx * x * st / (s * s), "u_t");
    near(model_at(&c, "u(x = s)", p), model_at(&plain, "u(x = 1)", q), "u(x = s)");
    near(model_at(&c, "u(x = x.max)", p), model_at(&plain, "u(x = 1)", q), "u(x = x.max)");
    near(model_at(&c, "u_x(x = s)", p), model_at(&plain, "u_x(x = 1)", q) / s, "u_x(x = s)");
    near(model_at(&c, "v(y = y.min)", p), model_at(&plain, "v(y = 0)", q), "v(y = y.min)");
    near(model_at(&c, "x.min + y.max - x.max", p), 4 - s, "ends as values");
    near(model_at(&c, "int(1, x)", p), s, "the length");
    near(model_at(&c, "int(u, x)", p), s * model_at(&plain, "int(u, x)", q), "an integral");
    near(model_at(&c, "(int(u, x))_t", p), model_at(&c, "int(u_t, x) + u(x = s)*s_t", p), "Reynolds");
  }
  model_close(&plain);
  model_close(&c);
}

/* ---- Points -------------------------------------------------------------------------------------- */

/* A value in a moved scope of the case at xi, eta, t. */
static double moved_at(model_case *c, const pn_piece *piece, bool exact, const char *text,
                       const double *point) {
  pn_scope scope;
  pn_expr *e = NULL;
  tn_value value = {0};
  double out = 0;
  assert_int_equal(pn_scope_new(c->model, "moved", piece, 7, &scope), TN_OK);
  scope.exact = exact;
  assert_int_equal(pn_scope_move(&scope, false), TN_OK);
  assert_int_equal(pn_problem_expression(c->problem, "--expr", text, &e), TN_OK);
  assert_int_equal(pn_lower(&scope, e, &value), TN_OK);
  model_values(c, &scope, value, 1, point, &out);
  return out;
}

static void points_follow_the_ends(void **state) {
  (void)state;
  static const char *const rows[] = {"u", "u_t", "u_xx", "v_y*u_x", "x*u + (x*u)_t", "int(u, x, 0, x)"};
  model_case c;
  model_open(&c, moving, TN_F64, 5);
  for (int i = 0; i < 3; ++i) {
    const double xi[] = {0.25 + 0.25 * i, 0.9 - 0.4 * i, 0.1 + 0.4 * i};
    double s = model_at(&c, "s", xi);
    const double p[] = {xi[0] * s, s + xi[1] * (4 - s), xi[2]};
    near(moved_at(&c, NULL, false, "x", xi), p[0], "x");
    near(moved_at(&c, NULL, false, "y", xi), p[1], "y");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; ++k)
      near(moved_at(&c, NULL, false, rows[k], xi), model_at(&c, rows[k], p), rows[k]);
    near(moved_at(&c, NULL, true, "u", xi), xi[0] * xi[2], "the exact solution");
    near(moved_at(&c, NULL, true, "u_t", xi), xi[0] / (1 + xi[2]), "its derivative at fixed x");
  }
  model_close(&c);
}

static void faces_lie_on_the_ends(void **state) {
  (void)state;
  model_case c;
  const double p[] = {0.5, 0.5, 0.3};
  model_open(&c, moving, TN_F64, 5);
  for (size_t i = 0; i < 2; ++i) { /* x = s and x = x.max are one face */
    const pn_piece *piece = &c.problem->conditions[i].pieces[0];
    assert_int_equal(piece->fixed[0], 0);
    assert_int_equal(piece->side[0], 1);
    assert_int_equal(piece->normal, 0);
    near(moved_at(&c, piece, false, "x", p), model_at(&c, "s", p), "x = s");
    near(moved_at(&c, piece, true, "u", p), 0.3, "u = t there");
  }
  near(moved_at(&c, &c.problem->conditions[2].pieces[0], false, "x", p), 0, "x = 0");
  near(moved_at(&c, &c.problem->conditions[3].pieces[0], false, "y", p), 4, "y = 4");
  assert_int_equal(c.problem->conditions[0].coordinates & 4, 4); /* the time varies there */
  model_close(&c);
}

static void values_end_at_the_ends(void **state) {
  (void)state;
  model_case c;
  pn_scope scope;
  tn_value value = {0};
  double out[3];
  model_open(&c, moving, TN_F64, 5);
  double s = model_at(&c, "s", (double[]){0, 0, 0.5});
  const double p[] = {0.5 * s, 3, 0.5, 1.01 * s, 3, 0.5, -0.01, 3, 0.5};
  assert_int_equal(pn_scope_new(c.model, "mask", NULL, 7, &scope), TN_OK);
  assert_int_equal(pn_lower_unknown(&scope, 0, &value), TN_OK);
  assert_int_equal(pn_scope_mask(&scope, 5, &value), TN_OK);
  model_values(&c, &scope, value, 3, p, out);
  near(out[0], model_at(&c, "u", p), "inside");
  assert_true(isnan(out[1]) && isnan(out[2]));
  model_close(&c);
}

/* ---- Reading ---------------------------------------------------------------------------------------- */

static void ranges_are_those_of_conditions_and_solutions(void **state) {
  (void)state;
  model_case c;
  model_open(&c, moving, TN_F64, 5);
  const pn_coordinate *x = &c.problem->coordinates[0], *t = &c.problem->coordinates[2];
  near(x->expected[0], 0, "low");
  near(x->expected[1], 1.25, "by s(t = 0) = 1.25");
  near(x->shown[1], 2, "by the exact solution at the last time");
  near(t->shown[1], 1, "what does not move");
  double point[] = {0.5, 0, 1};
  assert_true(pn_moving_place(c.problem, point));
  near(point[0], 1, "half of s(1) = 2");
  model_close(&c);
}

static void wrong_ends_are_errors(void **state) {
  (void)state;
  static const struct {
    const char *domain, *rest, *part;
  } rows[] = {
      {"x = [0, \"s\"], t = [0, 1]", "conditions = { c = { on = \"x = 0.5\", equation = \"u = 0\" } }",
       "the ends of x move: surfaces across it are x = x.min and x = x.max"},
      {"x = [0, \"s\"], t = [0, 1]", "conditions = { c = { in = \"x < 0.5\", equation = \"u = 0\" } }",
       "a part along x, whose ends move"},
      {"x = [0, \"s\"], t = [0, 1]", "conditions = { c = { equation = \"mean(u, domain) = 0\" } }",
       "write int(e, x)"},
      {"x = [0, \"s\"], t = [0, 1]", "conditions = { c = { equation = \"int(u, domain) = 0\" } }",
       "write int(e, x)"},
      {"x = { range = [0, \"s\"], periodic = true }, t = [0, 1]", "", "`x` is periodic"},
      {"x = [0, \"u\"], t = [0, 1]", "", "`u` is an end of x and depends on x"},
      {"x = [0, 1], t = [0, \"s\"]", "", "`t` is no space coordinate"},
      {"x = [0, \"q\"], t = [0, 1]", "", "`q` is not declared"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    pn_problem *p = NULL;
    snprintf(text, sizeof text,
             "domain = { %s }\nunknowns = { u = \"x, t\", s = \"t\" }\nequations = { e = \"u_t + s_t = 0\" }\n%s\n",
             rows[i].domain, rows[i].rest);
    assert_int_equal(pn_problem_parse("test.toml", text, 0, NULL, &p), TN_EINPUT);
    if (!strstr(tn_error_text(), rows[i].part))
      fail_msg("\"%s\" is not in: %s", rows[i].part, tn_error_text());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(networks_see_the_reference_number),
      cmocka_unit_test(points_follow_the_ends),
      cmocka_unit_test(faces_lie_on_the_ends),
      cmocka_unit_test(values_end_at_the_ends),
      cmocka_unit_test(ranges_are_those_of_conditions_and_solutions),
      cmocka_unit_test(wrong_ends_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
