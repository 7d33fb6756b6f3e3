/* test_check_findings.c: what `pinn check` says about problems given as text.
 * ctest: labels=quick,check timeout=120
 *
 * Every case states a problem that is right, or with one mistake, and asks for counts of errors and warnings and
 * for words of the report. A right problem has none of either: its defects come from rounding alone, some 1e-15
 * of the terms, far below the limit of 1e-10.
 */
#include "pinn/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CAPACITY = 1 << 16 };

typedef struct outcome {
  size_t errors, warnings;
  tn_status status;
  char text[CAPACITY];
} outcome;

static outcome last;

/* The report of a problem, with what follows it: the first error's text if the check could not run. */
static void check_at(const char *problem_text, const char *at) {
  pn_problem *problem = NULL;
  pn_check_options options = {.at = at};
  FILE *file = tmpfile();
  assert_non_null(file);
  memset(&last, 0, sizeof last);
  if (pn_problem_parse("p.toml", problem_text, 0, NULL, &problem) != TN_OK)
    fail_msg("the test's own problem: %s", tn_error_text());
  last.status = pn_check(problem, &options, file, &last.errors, &last.warnings);
  rewind(file);
  size_t n = fread(last.text, 1, CAPACITY - 1, file);
  last.text[n] = '\0';
  fclose(file);
  pn_problem_free(&problem);
}

static void check(const char *problem_text) { check_at(problem_text, NULL); }

static void expect(size_t errors, size_t warnings) {
  if (last.status != TN_OK)
    fail_msg("%s", tn_error_text());
  if (last.errors != errors || last.warnings != warnings)
    fail_msg("%zu errors, %zu warnings, expected %zu and %zu:\n%s", last.errors, last.warnings,
             errors, warnings, last.text);
}

static void says(const char *words) {
  if (!strstr(last.text, words))
    fail_msg("no \"%s\" in:\n%s", words, last.text);
}

static void says_not(const char *words) {
  if (strstr(last.text, words))
    fail_msg("\"%s\" in:\n%s", words, last.text);
}

/* A problem of two lines that change and the rest. */
static void check_poisson(const char *equation, const char *conditions) {
  char text[2048];
  snprintf(text, sizeof text,
           "domain = { x = [0, 1], y = [0, 1] }\n"
           "unknowns = { u = \"x, y\" }\n"
           "equations = { poisson = \"%s\" }\n"
           "conditions = { %s }\n"
           "exact = { u = \"sin(pi*x)*sin(2*pi*y)\" }\n",
           equation, conditions);
  check(text);
}

static const char walls[] = "walls = { on = \"boundary\", equation = \"u = 0\" }";
static const char poisson[] = "-u_xx - u_yy = 5*pi^2*sin(pi*x)*sin(2*pi*y)";

/* ---- The exact solution ------------------------------------------------------------------------------ */

static void exact_that_fits_is_silent(void **state) {
  (void)state;
  check_poisson(poisson, walls);
  expect(0, 0);
  says("conditions fit the orders; exact solution: defect");
}

static void exact_finds_another_index(void **state) {
  (void)state;
  check_poisson("-u_xx - u_xy = 5*pi^2*sin(pi*x)*sin(2*pi*y)", walls);
  expect(1, 0);
  says("in `poisson` at x = ");
  says("With `u_yy` for `u_xy` it leaves");
  says("p.toml:3:34:"); /* where u_xy stands */
}

static void exact_finds_a_sign(void **state) {
  (void)state;
  check_poisson("-u_xx + u_yy = 5*pi^2*sin(pi*x)*sin(2*pi*y)", walls);
  expect(1, 0);
  says("With the sign of `u_yy` changed");
}

static void exact_finds_a_lost_term(void **state) {
  (void)state;
  check_poisson("-u_xx = 5*pi^2*sin(pi*x)*sin(2*pi*y)", walls);
  expect(1, 0);
  says("in `poisson`");
}

static void exact_finds_a_factor(void **state) {
  (void)state;
  check_poisson("-u_xx - u_yy = 5000*pi^2*sin(pi*x)*sin(2*pi*y)", walls);
  expect(1, 0);
  says("With 0.001 times `5000*pi^2*sin(pi*x)*sin(2*pi*y)`");
}

static void exact_finds_another_function(void **state) {
  (void)state;
  check_poisson("-u_xx - u_yy = 5*pi^2*cos(pi*x)*sin(2*pi*y)", walls);
  expect(1, 0);
  says("With `sin(pi*x)` for `cos(pi*x)`");
}

static void exact_finds_a_wrong_value(void **state) {
  (void)state;
  check_poisson(poisson, "walls = { on = \"boundary\", equation = \"u = 1\" }");
  expect(1, 0);
  says("With `0` for `1` it leaves");
}

/* Two mistakes have no single repair; the defect is told all the same. */
static void exact_with_two_mistakes_has_no_repair(void **state) {
  (void)state;
  check_poisson("-u_x - u_xy = 7*pi^2*cos(pi*x)*sin(3*pi*y)", walls);
  expect(1, 0);
  says("in `poisson`");
  says_not("it leaves");
}

/* One term that vanishes by rounding only: its own size is no scale. */
static void exact_judges_single_terms_by_what_moves_them(void **state) {
  (void)state;
  check("domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
        "equations = { flow = \"(u^2*u_x)_x = 0\" }\n"
        "conditions = { ends = { on = \"boundary\", equation = \"u = ue\" } }\n"
        "definitions = { ue = \"(1 + 7*x)^(1/3)\" }\nexact = { u = \"ue\" }\n");
  expect(0, 0);
}

static void exact_names_a_value_that_is_not_finite(void **state) {
  (void)state;
  check("domain = { x = [-1, 1] }\nunknowns = { u = \"x\" }\n"
        "equations = { e = \"u_x = 1/(2*sqrt(x))\" }\n"
        "conditions = { c = { on = \"x = 1\", equation = \"u = 1\" } }\nexact = { u = \"sqrt(x)\" "
        "}\n");
  expect(1, 0);
  says("`sqrt(x)` in `e` has no finite value at x = -");
}

static void exact_moves_a_condition_to_its_place(void **state) {
  (void)state;
  check("domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
        "equations = { heat = \"u_t = u_xx\" }\n[conditions]\n"
        "start = { on = \"t = 1\", equation = \"u = sin(pi*x) + x\" }\n"
        "ends = { on = \"boundary\", equation = \"u = x\" }\n"
        "[exact]\nu = \"exp(-pi^2*t)*sin(pi*x) + x\"\n");
  expect(1, 1); /* a terminal condition counts; the warning: heat cannot run back from it */
  says("On t = 0 it leaves");
}

/* ---- Conditions against orders ------------------------------------------------------------------------ */

static void counts_want_every_face(void **state) {
  (void)state;
  check_poisson(poisson, "walls = { on = \"x = 0 or x = 1 or y = 0\", equation = \"u = 0\" }");
  expect(0, 1);
  says("`u_yy` needs one condition on y = 1");
}

/* A filter that leaves a part of a face without any condition. */
static void counts_see_a_part_of_a_face(void **state) {
  (void)state;
  check_poisson(poisson, "walls = { on = \"boundary and y < 0.7\", equation = \"u = 0\" }");
  assert_true(last.warnings >= 1);
  says("`u_xx` needs one condition on x = 0");
}

static void wave(const char *conditions) {
  char text[1024];
  snprintf(text, sizeof text,
           "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
           "equations = { wave = \"u_tt = u_xx\" }\n[conditions]\n%s"
           "ends = { on = \"boundary\", equation = \"u = 0\" }\n",
           conditions);
  check(text);
}

static void counts_want_two_conditions_for_u_tt(void **state) {
  (void)state;
  wave("shape = { on = \"t = 0\", equation = \"u = sin(pi*x)\" }\n"
       "rest = { on = \"t = 0\", equation = \"u_t = 0\" }\n");
  expect(0, 0);
  wave("shape = { on = \"t = 0\", equation = \"u = sin(pi*x)\" }\n");
  expect(1, 0);
  says("`u_tt` needs two conditions at t = 0");
  says("only `shape` (u = sin(pi*x))");
  wave("shape = { on = \"t = 1\", equation = [\"u = sin(pi*x)\", \"u_t = 0\"] }\n");
  expect(0, 0);
}

static void counts_follow_an_order_through_products(void **state) {
  (void)state;
  check(
      "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\ndefinitions = { q = \"(1 + u^2)*u_x\" }\n"
      "equations = { e = \"q_x = 1\" }\nconditions = { c = { on = \"x = 0\", equation = \"u = 1\" "
      "} }\n");
  expect(0, 1);
  says("`u_xx` needs two conditions");
}

static void counts_ask_nothing_of_periodic_coordinates(void **state) {
  (void)state;
  check("[domain]\nx = { range = [0, 1], periodic = true }\nt = [0, 1]\n[unknowns]\nu = \"x, t\"\n"
        "[equations]\nheat = \"u_t = u_xx\"\n[conditions]\n"
        "start = { on = \"t = 0\", equation = \"u = sin(2*pi*x)\" }\n");
  expect(0, 0);
  check("[domain]\nx = [0, 1]\nt = [0, 1]\n[unknowns]\nu = \"x, t\"\n"
        "[equations]\nheat = \"u_t = u_xx\"\n[conditions]\n"
        "start = { on = \"t = 0\", equation = \"u = sin(2*pi*x)\" }\n"
        "pair = { on = \"x = 0\", equation = [\"u = u(x=1)\", \"u_x = u_x(x=1)\"] }\n");
  expect(0, 0);
}

static void counts_take_an_ansatz_for_a_condition(void **state) {
  (void)state;
  check("[domain]\nx = [0, 1]\n[unknowns]\nu = { of = \"x\", ansatz = \"x*(1 - x)*net\" }\n"
        "[equations]\ne = \"u_xx = -1\"\n");
  expect(0, 0);
}

static void counts_find_what_is_known_up_to_a_constant(void **state) {
  (void)state;
  const char *text =
      "domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
      "equations = { poisson = \"-lap(u) = 2*pi^2*cos(pi*x)*cos(pi*y)\" }\n[conditions]\n"
      "walls = { on = \"boundary\", equation = \"dn(u) = 0\" }\n%s";
  char all[1024];
  snprintf(all, sizeof all, text, "level = { equation = \"mean(u, domain) = 0\" }\n");
  check(all);
  expect(0, 0);
  snprintf(all, sizeof all, text, "");
  check(all);
  expect(0, 1);
  says("`u` is defined up to a constant");
}

static void flux_must_balance_the_source(void **state) {
  (void)state;
  const char *text = "domain = { x = [0, 2], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
                     "equations = { poisson = \"-lap(u) = 1\" }\n[conditions]\n"
                     "left = { on = \"x = 0\", equation = \"dn(u) = %s\" }\n"
                     "rest = { on = \"boundary and not x = 0\", equation = \"dn(u) = 0\" }\n"
                     "level = { equation = \"mean(u, domain) = 0\" }\n";
  char all[1024];
  snprintf(all, sizeof all, text, "0"); /* source 2, flux 0 */
  check(all);
  expect(1, 0);
  says("the source of `poisson` integrates to 2 (flux 0)");
  snprintf(all, sizeof all, text, "-2"); /* -flux = 2 over a length of 1 */
  check(all);
  expect(0, 0);
}

/* ---- Conflicts ------------------------------------------------------------------------------------------- */

static void corners_with_two_values_are_noted(void **state) {
  (void)state;
  check("domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
        "equations = { laplace = \"lap(u) = 0\" }\n[conditions]\n"
        "lid = { on = \"y = 1\", equation = \"u = 1\" }\n"
        "walls = { on = \"boundary and not y = 1\", equation = \"u = 0\" }\n");
  expect(0, 0);
  says("`lid` and `walls` give `u` two values at 2 corners");
}

static void condition_said_twice_is_a_warning(void **state) {
  (void)state;
  check_poisson(poisson, "walls = { on = \"boundary\", equation = \"u = 0\" }, "
                         "again = { on = \"x = 0\", equation = \"u = 0\" }");
  expect(0, 1);
  says("`again` says again what `walls` says");
}

static void two_values_at_one_place_are_an_error(void **state) {
  (void)state;
  static const char ode[] = "domain = { t = [0, 1] }\nunknowns = { y = \"t\" }\n"
                            "equations = { e = \"y_tt + y = 0\" }\n";
  char text[1024];
  snprintf(text, sizeof text, "%s%s", ode,
           "conditions = { a = { on = \"t = 0\", equation = \"y = 1\" }, "
           "b = { on = \"t = 0\", equation = \"y = 0\" } }\n");
  check(text);
  expect(1, 0);
  says("`b` contradicts `a` at t = 0: `y` cannot be 0 and 1 there");
  snprintf(text, sizeof text, "%s%s", ode,
           "conditions = { a = { equation = \"y(0) = 1\" }, b = { equation = \"y(0) = 2\" } }\n");
  check(text);
  expect(1, 0);
  says("`b` contradicts `a`: `y(t=0)` cannot be 2 and 1 there");
  snprintf(text, sizeof text, "%s%s", ode,
           "conditions = { a = { on = \"t = 0\", equation = \"y = 1\" }, "
           "b = { on = \"t = 1\", equation = \"y = 0\" } }\n");
  check(text);
  expect(0, 0);
}

static void more_conditions_than_the_order_are_a_warning(void **state) {
  (void)state;
  static const char ode[] = "domain = { t = [0, 1] }\nunknowns = { y = \"t\" }\n"
                            "equations = { e = \"y_tt + y = 0\" }\n"
                            "conditions = { a = { on = \"t = 0\", equation = \"y = 1\" }";
  char text[1024];
  snprintf(text, sizeof text, "%s%s", ode,
           ", b = { on = \"t = 0\", equation = \"y_t = 0\" }, "
           "c = { on = \"t = 1\", equation = \"y = 0.5\" } }\n");
  check(text);
  expect(0, 1);
  says("more conditions than the order: `y_tt` needs two at points for `y`, three are given");
  snprintf(text, sizeof text, "%s }\n", ode);
  check(text);
  expect(1, 0);
  says("given: only `a` (y = 1)");
}

static void conditions_without_on_are_among_the_given(void **state) {
  (void)state;
  check("domain = { t = [0, 1] }\nunknowns = { y = \"t\" }\n"
        "equations = { e = \"y_tt + y = 0\" }\n"
        "conditions = { start = { equation = \"y(0) = 1\" } }\n");
  expect(1, 0);
  says("given: only `start` (y(t=0) = 1)");
}

static void zero_that_fulfils_everything_is_a_warning(void **state) {
  (void)state;
  check("domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
        "equations = { e = \"-u_xx = pi^2*u\" }\n"
        "conditions = { ends = { on = \"boundary\", equation = \"u = 0\" } }\n");
  expect(0, 1);
  says("`u` = 0 fulfils every equation and condition");
}

static void start_that_is_not_periodic_is_a_warning(void **state) {
  (void)state;
  check("[domain]\nx = { range = [0, 1], periodic = true }\nt = [0, 1]\n[unknowns]\nu = \"x, t\"\n"
        "[equations]\nheat = \"u_t = u_xx\"\n[conditions]\nstart = { on = \"t = 0\", equation = "
        "\"u = x\" }\n");
  expect(0, 1);
  says("`start` is not periodic along `x`");
}

static void ansatz_that_meets_a_condition_needs_no_hint(void **state) {
  (void)state;
  const char *text = "domain = { x = [0, 1] }\n"
                     "unknowns = { u = { of = \"x\", ansatz = \"%s\" } }\n"
                     "equations = { e = \"u_x = u\" }\n[conditions]\n"
                     "start = { on = \"x = 0\", equation = \"u = 1\" }\n";
  char all[512];
  snprintf(all, sizeof all, text, "exp(x*net)");
  check(all);
  expect(0, 0);
  says_not("can be exact");
  snprintf(all, sizeof all, text, "net^2");
  check(all);
  says("`start` can be exact: hard = true");
}

static void equality_inside_where_is_a_warning(void **state) {
  (void)state;
  check_poisson("-u_xx - u_yy = where(x = 0, 7, 5*pi^2*sin(pi*x)*sin(2*pi*y))", walls);
  expect(0, 1);
  says("`x = 0` in `poisson` holds at no point");
  check_poisson(poisson, "walls = { on = \"boundary\", equation = \"u = where(x = 0, 0, 0*y)\" }");
  expect(0, 0); /* a piece fixes x */
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

/* A table f(x) of the rows given, used in an equation over [0, 1]. */
static void check_table(const char *rows, const char *keys) {
  char text[1024];
  FILE *file = fopen("findings.csv", "w");
  assert_non_null(file);
  fputs(rows, file);
  fclose(file);
  snprintf(text, sizeof text,
           "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
           "tables = { f = { of = \"x\", %s } }\n"
           "equations = { e = \"u_x = f\" }\n"
           "conditions = { c = { on = \"x = 0\", equation = \"u = 1\" } }\n",
           keys);
  check(text);
  remove("findings.csv");
}

static void tables_are_opened(void **state) {
  (void)state;
  check_table("x,f\n0,1\n0.5,2\n1,3\n", "file = \"findings.csv\"");
  expect(0, 0);
  check_table("x,f\n0,1\n1,3\n", "file = \"absent.csv\"");
  expect(1, 0);
  says("p.toml:3:12: table `f` cannot be read: ");
  check_table("x,f\n0,1\n1,3\n", "file = \"findings.csv\", column = \"g\"");
  expect(1, 0);
  says("findings.csv:1: no column `g`");
  check_table("x,f\n0,1\n0.5,\n1,3\n", "file = \"findings.csv\"");
  expect(1, 0);
  says("findings.csv:3: ");
}

static void tables_must_reach_as_far_as_they_are_used(void **state) {
  (void)state;
  check_table("x,f\n0,1\n0.5,2\n0.99,3\n", "file = \"findings.csv\"");
  expect(1, 0);
  says("table `f` has no value at x = 0.999999, where `e` needs it");
}

/* ---- What is printed ---------------------------------------------------------------------------------------- */

static void relations_are_printed_by_component(void **state) {
  (void)state;
  check("domain = { x = [0, 1], y = [0, 1] }\nconstants = { k = 2 }\n"
        "unknowns = { v = \"x, y\", a = \"x, y\" }\ndefinitions = { w = \"(v, a)\" }\n[equations]\n"
        "e = \"grad(v) = grad(a)\"\nf = \"v_y = -k*v_xx\"\n[conditions]\n"
        "c = { on = \"x = 0\", equation = \"w = (0, 1)\" }\n");
  says("(v, a)(x, y)"); /* the order of the file */
  says("v_x - a_x = 0");
  says("v_y - a_y = 0");
  says("v_y + k*v_xx = 0");
  says("v = 0   on x = 0");
  says("a - 1 = 0   on x = 0");
}

static void repair_by_what_is_zero_everywhere_is_no_repair(void **state) {
  (void)state;
  check("domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
        "equations = { e = \"u_x = 1\" }\n"
        "conditions = { c = { on = \"x = 0.5\", equation = \"u = 0\" } }\nexact = { u = \"x\" }\n");
  assert_true(last.errors >= 1);
  says("in `c`");
  says_not("`u_y` for `u`");
}

/* ---- At a point --------------------------------------------------------------------------------------------- */

static void at_prints_every_term(void **state) {
  (void)state;
  check_at("domain = { x = [0, 3], y = [0, 4] }\nunknowns = { u = \"x, y\" }\n"
           "definitions = { twice = \"2*u\" }\n"
           "equations = { e = \"u_xx + 3*u_xy = 2*y^3 + 18*x*y^2\" }\n[conditions]\n"
           "all = { on = \"boundary\", equation = \"u = x^2*y^3\" }\n[exact]\nu = \"x^2*y^3\"\n",
           "x=2,y=3");
  expect(0, 0);
  says("54     + u_xx");
  says("324     + 3*u_xy");
  says("216   2*u"); /* the definition: 2 * 4 * 27 */
  says("left in u - x^2*y^3 = 0, at y = 4");
}

static void at_refuses_what_is_no_coordinate(void **state) {
  (void)state;
  check_at("domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_x = 1\" }\n"
           "conditions = { c = { on = \"x = 0\", equation = \"u = 0\" } }\n",
           "z=1");
  assert_int_equal(last.status, TN_EINPUT);
  check_at("domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_x = 1\" }\n"
           "conditions = { c = { on = \"x = 0\", equation = \"u = 0\" } }\n",
           "x=5");
  assert_int_equal(last.status, TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "x = 5 lies outside the domain, x in [0, 1]"));
}

static void words_tell_the_defect(void **state) {
  (void)state;
  pn_problem *problem = NULL;
  char *text = NULL;
  assert_int_equal(
      pn_problem_parse("p.toml",
                       "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
                       "equations = { e = \"u_x = u\" }\n"
                       "conditions = { c = { on = \"x = 0\", equation = \"u = 1\" } }\n"
                       "exact = { u = \"exp(x)\" }\n",
                       0, NULL, &problem),
      TN_OK);
  assert_int_equal(pn_check_words(problem, &text), TN_OK);
  assert_non_null(strstr(text, "conditions fit the orders; exact solution: defect "));
  tn_free(&text);
  pn_problem_free(&problem);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_that_fits_is_silent),
      cmocka_unit_test(exact_finds_another_index),
      cmocka_unit_test(exact_finds_a_sign),
      cmocka_unit_test(exact_finds_a_lost_term),
      cmocka_unit_test(exact_finds_a_factor),
      cmocka_unit_test(exact_finds_another_function),
      cmocka_unit_test(exact_finds_a_wrong_value),
      cmocka_unit_test(exact_with_two_mistakes_has_no_repair),
      cmocka_unit_test(exact_judges_single_terms_by_what_moves_them),
      cmocka_unit_test(exact_names_a_value_that_is_not_finite),
      cmocka_unit_test(exact_moves_a_condition_to_its_place),
      cmocka_unit_test(counts_want_every_face),
      cmocka_unit_test(counts_see_a_part_of_a_face),
      cmocka_unit_test(counts_want_two_conditions_for_u_tt),
      cmocka_unit_test(counts_follow_an_order_through_products),
      cmocka_unit_test(counts_ask_nothing_of_periodic_coordinates),
      cmocka_unit_test(counts_take_an_ansatz_for_a_condition),
      cmocka_unit_test(counts_find_what_is_known_up_to_a_constant),
      cmocka_unit_test(flux_must_balance_the_source),
      cmocka_unit_test(corners_with_two_values_are_noted),
      cmocka_unit_test(condition_said_twice_is_a_warning),
      cmocka_unit_test(two_values_at_one_place_are_an_error),
      cmocka_unit_test(more_conditions_than_the_order_are_a_warning),
      cmocka_unit_test(conditions_without_on_are_among_the_given),
      cmocka_unit_test(zero_that_fulfils_everything_is_a_warning),
      cmocka_unit_test(start_that_is_not_periodic_is_a_warning),
      cmocka_unit_test(ansatz_that_meets_a_condition_needs_no_hint),
      cmocka_unit_test(equality_inside_where_is_a_warning),
      cmocka_unit_test(tables_are_opened),
      cmocka_unit_test(tables_must_reach_as_far_as_they_are_used),
      cmocka_unit_test(relations_are_printed_by_component),
      cmocka_unit_test(repair_by_what_is_zero_everywhere_is_no_repair),
      cmocka_unit_test(at_prints_every_term),
      cmocka_unit_test(at_refuses_what_is_no_coordinate),
      cmocka_unit_test(words_tell_the_defect),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
