/* test_coordinates.c: coordinates by number, parameters, logarithmic spacing, and metrics.
 *
 * Metrics are held against Cartesian identities: a field is written in x, y, z, these in the coordinates of
 * the metric, and grad, div, lap and curl must be what they are in x, y, z, along the unit vectors. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/names.h"
#include "pinn/points.h"

static const double U = 1.1102230246251565e-16; /* rounding unit of f64 */

static void near(double found, double expected, const char *what) {
  /* a hundred operations on numbers below 10 */
  if (!(fabs(found - expected) <= 1000 * U * fmax(1, fabs(expected))))
    fail_msg("%s: found %.17g, expected %.17g", what, found, expected);
}

static void assert_refused(pn_problem *p, const char *text, const char *part) {
  pn_expr *e = NULL;
  assert_int_not_equal(pn_problem_expression(p, "--expr", text, &e), TN_OK);
  if (!strstr(tn_error_text(), part))
    fail_msg("%s: \"%s\" is not in: %s", text, part, tn_error_text());
}

static void file_is_refused(const char *text, const char *part) {
  pn_problem *p = NULL;
  assert_int_equal(pn_problem_parse("test.toml", text, 0, NULL, &p), TN_EINPUT);
  if (!strstr(tn_error_text(), part))
    fail_msg("\"%s\" is not in: %s", part, tn_error_text());
}

/* ---- Coordinates by number ---------------------------------------------------------------------- */

static const char *const counted =
    "domain = { x = { range = [0, 2], count = 3 }, t = [0, 1] }\n"
    "unknowns = { u = \"x, t\", k = \"x2\" }\n"
    "definitions = { all = \"sum(sin(x), x)\", f = { value = \"a*t\", of = \"a\" } }\n"
    "equations = { e = \"u_t + k = lap(u)\" }\n"
    "network = { width = 5, depth = 2 }\n";

static void counted_names_stand_for_each(void **state) {
  (void)state;
  model_case c;
  const double p[] = {0.3, 0.7, 1.9, 0.4};
  model_open(&c, counted, TN_F64, 1);
  assert_int_equal(c.problem->n_coordinates, 4);
  assert_int_equal(c.problem->unknowns[0].n_of, 4);
  near(model_at(&c, "sum(x, x)", p), 2.9, "sum");
  near(model_at(&c, "prod(x, x)", p), 0.3 * 0.7 * 1.9, "prod");
  near(model_at(&c, "all", p), sin(0.3) + sin(0.7) + sin(1.9), "in a definition");
  near(model_at(&c, "sum(f(x), x)", p), 2.9 * 0.4, "a function of it");
  near(model_at(&c, "sum(x*sum(x, x), x)", p), 2.9 * 2.9, "nested");
  near(model_at(&c, "sum(u_xx, x)", p), model_at(&c, "lap(u)", p), "derivatives by name");
  near(model_at(&c, "sum((x*u)_x, x)", p), model_at(&c, "3*u + x1*u_x1 + x2*u_x2 + x3*u_x3", p),
       "derivatives of expressions");
  near(model_at(&c, "sum(diff(u, x), x)", p), model_at(&c, "u_x1 + u_x2 + u_x3", p), "diff");
  near(model_at(&c, "sum(u(x = 0), x)", p),
       model_at(&c, "u(x1 = 0) + u(x2 = 0) + u(x3 = 0)", p), "calls");
  near(model_at(&c, "all_x2", p), cos(0.7), "a derivative outside");
  model_close(&c);
}

static void counted_names_need_a_sum(void **state) {
  (void)state;
  model_case c;
  model_open(&c, counted, TN_F64, 1);
  assert_refused(c.problem, "x + 1", "`x` stands for x1 to x3");
  assert_refused(c.problem, "sum(x, t)", "`t` is one coordinate");
  assert_refused(c.problem, "sum(x, y)", "declared with count = n");
  assert_refused(c.problem, "sum(x)", "takes (e, x)");
  assert_refused(c.problem, "x + sum(x, x)", "`x` stands for x1 to x3");
  model_close(&c);
  file_is_refused("domain = { x = { range = [0, 1], count = 17 } }\nunknowns = { u = \"x\" }\n",
                  "from 1 to 16");
  file_is_refused("domain = { x = { range = [0, 1], count = 9 }, y = { range = [0, 1], count = 9 } }\n"
                  "unknowns = { u = \"x\" }\n",
                  "at most 16 coordinates");
  file_is_refused("domain = { t = { range = [0, 1], count = 2 } }\nunknowns = { u = \"t\" }\n",
                  "is the time");
  file_is_refused("domain = { x = { range = [0, 1], count = 2 } }\nconstants = { x = 1 }\n"
                  "unknowns = { u = \"x\" }\nequations = { e = \"u = 1\" }\n",
                  "stands for x1 to x2");
}

/* ---- Parameters, logarithmic spacing -------------------------------------------------------------- */

static const char *const layer =
    "domain = { x = [0, 1], nu = { range = [0.01, 1], role = \"parameter\", spacing = \"log\" } }\n"
    "unknowns = { u = \"x, nu\" }\n"
    "equations = { e = \"u_x = nu*lap(u) + 1\" }\n"
    "conditions = { ends = { on = \"boundary\", equation = \"u = 0\" } }\n"
    "network = { width = 5, depth = 2 }\n";

static void parameters_are_no_space(void **state) {
  (void)state;
  model_case c;
  const double p[] = {0.3, 0.1};
  model_open(&c, layer, TN_F64, 1);
  near(model_at(&c, "lap(u)", p), model_at(&c, "u_xx", p), "lap");
  assert_int_equal(c.problem->conditions[0].n_pieces, 2);
  assert_int_equal(c.problem->conditions[0].pieces[0].fixed[0], 0);
  assert_int_equal(c.problem->conditions[0].pieces[1].fixed[0], 0);
  model_close(&c);
}

/* The network sees log(nu), affinely on [-1, 1]: with weights of the first layer changed to 0 for x, the
 * value at the geometric mean of two nu is that at the middle of their inputs. */
static void networks_see_the_logarithm(void **state) {
  (void)state;
  model_case log_case, plain_case;
  char text[512];
  model_open(&log_case, layer, TN_F64, 1);
  snprintf(text, sizeof text,
           "domain = { x = [0, 1], nu = { range = [-2, 0], role = \"parameter\" } }\n%s",
           strchr(layer, '\n') + 1);
  model_open(&plain_case, text, TN_F64, 1);
  for (int i = 0; i <= 4; ++i) { /* nu = 10^z, and z itself where the range is linear */
    double z = -2 + 0.5 * i;
    near(model_at(&log_case, "u", (double[]){0.3, pow(10, z)}),
         model_at(&plain_case, "u", (double[]){0.3, z}), "u");
    near(model_at(&log_case, "nu*u_nu*log(10)", (double[]){0.3, pow(10, z)}),
         model_at(&plain_case, "u_nu", (double[]){0.3, z}), "its derivative");
  }
  model_close(&plain_case);
  model_close(&log_case);
}

/* Half of the points lie below the geometric mean, to the balance of a Sobol sequence. */
static void points_are_spread_by_the_logarithm(void **state) {
  (void)state;
  pn_problem *p = NULL;
  pn_sites *sites = NULL;
  size_t below = 0;
  assert_int_equal(pn_problem_parse("test.toml", layer, 0, NULL, &p), TN_OK);
  assert_int_equal(pn_sites_new(p, 100, NULL, &sites), TN_OK);
  assert_int_equal(pn_sites_draw(sites, &(pn_draw){.factor = 1}), TN_OK);
  const pn_site *site = &sites->sites[0];
  for (size_t i = 0; i < site->n; ++i)
    below += site->column[1][i] < 0.1;
  assert_true(2 * below + 2 >= site->n && 2 * below <= site->n + 2);
  pn_sites_free(&sites);
  pn_problem_free(&p);
  file_is_refused("domain = { x = { range = [0, 1], spacing = \"log\" } }\nunknowns = { u = \"x\" }\n",
                  "the range must lie above 0");
}

/* ---- Metrics -------------------------------------------------------------------------------------- */

typedef struct row {
  const char *text, *expected;
} row;

static void check_rows(const char *domain, const char *definitions, size_t n, const row *rows) {
  model_case c;
  char text[2048];
  snprintf(text, sizeof text,
           "domain = %s\ndefinitions = { %s }\nunknowns = { u = \"r\" }\n"
           "equations = { e = \"u_r = 1\" }\nnetwork = { width = 4, depth = 1 }\n",
           domain, definitions);
  model_open(&c, text, TN_F64, 1);
  for (size_t i = 0; i < n; ++i)
    for (int k = 0; k < 3; ++k) {
      const double p[] = {0.4 + 0.5 * k, 0.3 + 0.4 * k, 0.9 + 0.3 * k};
      near(model_at(&c, rows[i].text, p), model_at(&c, rows[i].expected, p), rows[i].text);
    }
  model_close(&c);
}

static void polar_operators_are_the_plane_s(void **state) {
  (void)state;
  const row rows[] = {
      {"lap(f)", "6*x*y"},
      {"dot(grad(f), (1, 0))", "cos(q)*3*x^2*y + sin(q)*x^3"},
      {"dot(grad(f), (0, 1))", "-sin(q)*3*x^2*y + cos(q)*x^3"},
      {"div(a)", "4*x*y"},
      {"curl(a)", "y^2 - x^2"},
      {"div(grad(f))", "lap(f)"},
      {"curl(grad(f))", "0"},
  };
  check_rows("{ r = [0.1, 3], q = [0, 2], metric = \"polar\" }",
             "x = \"r*cos(q)\", y = \"r*sin(q)\", f = \"x^3*y\", ax = \"x^2*y\", ay = \"x*y^2\", "
             "a = \"(cos(q)*ax + sin(q)*ay, -sin(q)*ax + cos(q)*ay)\"",
             sizeof rows / sizeof rows[0], rows);
}

static void axisymmetric_operators_are_those_of_space(void **state) {
  (void)state;
  const row rows[] = {
      {"lap(r^2*z)", "4*z"},
      {"dot(grad(r^2*z), (1, 0))", "2*r*z"},
      {"dot(grad(r^2*z), (0, 1))", "r^2"},
      {"div((r*z, z^2*r))", "2*z + 2*z*r"},
      {"curl((r*z, z^2*r))", "r - z^2"},
      {"div(grad(r^4*z^2))", "lap(r^4*z^2)"},
      {"curl(grad(r^3*z^2))", "0"},
  };
  check_rows("{ r = [0.1, 3], z = [0, 2], metric = \"axisymmetric\" }", "",
             sizeof rows / sizeof rows[0], rows);
}

static void spherical_operators_are_those_of_space(void **state) {
  (void)state;
  const row rows[] = {
      {"lap(f)", "2*y*z"},
      {"dot(grad(f), (1, 0, 0))", "dot(er, (2*x*y*z, x^2*z, x^2*y))"},
      {"dot(grad(f), (0, 1, 0))", "dot(eq, (2*x*y*z, x^2*z, x^2*y))"},
      {"dot(grad(f), (0, 0, 1))", "dot(ep, (2*x*y*z, x^2*z, x^2*y))"},
      {"div(a)", "x + y + z"},
      {"dot(curl(a), (1, 0, 0))", "dot(er, (-y, -z, -x))"},
      {"dot(curl(a), (0, 1, 0))", "dot(eq, (-y, -z, -x))"},
      {"dot(curl(a), (0, 0, 1))", "dot(ep, (-y, -z, -x))"},
      {"div(curl(a))", "0"},
  };
  check_rows("{ r = [0.1, 3], q = [0.1, 2], p = [0, 2], metric = \"spherical\" }",
             "x = \"r*sin(q)*cos(p)\", y = \"r*sin(q)*sin(p)\", z = \"r*cos(q)\", f = \"x^2*y*z\", "
             "er = \"(sin(q)*cos(p), sin(q)*sin(p), cos(q))\", "
             "eq = \"(cos(q)*cos(p), cos(q)*sin(p), -sin(q))\", ep = \"(-sin(p), cos(p), 0)\", "
             "c = \"(x*y, y*z, z*x)\", a = \"(dot(er, c), dot(eq, c), dot(ep, c))\"",
             sizeof rows / sizeof rows[0], rows);
}

static void radial_symmetry_needs_the_radius_alone(void **state) {
  (void)state;
  const row polar[] = {{"lap(r^3)", "9*r"}, {"div(grad(log(r)))", "0"}};
  const row sphere[] = {{"lap(r^3)", "12*r"}, {"lap(1/r)", "0"}};
  check_rows("{ r = [0.1, 3], metric = \"polar\" }", "", 2, polar);
  check_rows("{ r = [0.1, 3], metric = \"spherical\" }", "", 2, sphere);
}

static void wrong_metrics_are_errors(void **state) {
  (void)state;
  static const char *const rest =
      "unknowns = { u = \"r\", v = \"r\" }\nequations = { e = \"u_r = 1\", l = \"lap((u, v)) = (0, 0)\" }\n";
  const row rows[] = {
      {"domain = { r = [0, 1], a = [0, 1], b = [0, 1], metric = \"polar\" }\n", "expected r, theta (or r)"},
      {"domain = { r = [-1, 1], metric = \"spherical\" }\n", "its range begins at -1"},
      {"domain = { r = [0, 1], q = [0, 4], metric = \"spherical\" }\n", "from 0 to pi"},
      {"domain = { r = [0, 1], metric = \"polar\" }\n", "lap of a vector"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rows[i].text, rest);
    file_is_refused(text, rows[i].expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counted_names_stand_for_each),
      cmocka_unit_test(counted_names_need_a_sum),
      cmocka_unit_test(parameters_are_no_space),
      cmocka_unit_test(networks_see_the_logarithm),
      cmocka_unit_test(points_are_spread_by_the_logarithm),
      cmocka_unit_test(polar_operators_are_the_plane_s),
      cmocka_unit_test(axisymmetric_operators_are_those_of_space),
      cmocka_unit_test(spherical_operators_are_those_of_space),
      cmocka_unit_test(radial_symmetry_needs_the_radius_alone),
      cmocka_unit_test(wrong_metrics_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
