/* test_predicate.c: `on` and `in` as pieces of the box [0, 2] x [-1, 3] x [0, 1] in x, y, t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_problem.h"

/* "x=0(-) n-x | y=3(+) n+y where x < 1": all pieces of the condition. */
static void describe(pn_problem *p, const pn_term *term, char *out) {
  *out = 0;
  for (size_t i = 0; i < term->n_pieces; ++i) {
    const pn_piece *piece = &term->pieces[i];
    if (i)
      strcat(out, " | ");
    for (size_t k = 0; k < piece->n_fixed; ++k)
      sprintf(out + strlen(out), "%s%s=%g", k ? " " : "", p->coordinates[piece->fixed[k]].name,
              piece->value[k]);
    if (piece->normal != PN_NONE)
      sprintf(out + strlen(out), " n%c%s", piece->sign > 0 ? '+' : '-',
              p->coordinates[piece->normal].name);
    if (piece->filter)
      sprintf(out + strlen(out), " where %s", printed(p, piece->filter));
  }
}

static void assert_pieces(const char *predicate, const char *expected) {
  char text[256], found[2048];
  snprintf(text, sizeof text, "k = { on = \"%s\", equation = \"u = v + s\" }", predicate);
  pn_problem *p = problem_of_parts(NULL, NULL, text);
  describe(p, &p->conditions[0], found);
  assert_string_equal(found, expected);
  pn_problem_free(&p);
}

static void assert_refused(const char *predicate, tn_status code, const char *part) {
  char text[256];
  snprintf(text, sizeof text, "k = { on = \"%s\", equation = \"u = v + s\" }", predicate);
  expect_parts_refusal(NULL, NULL, text, code, part, NULL);
}

static void planes_become_faces_with_outward_normals(void **state) {
  (void)state;
  assert_pieces("x = 0 or x = 2", "x=0 n-x | x=2 n+x");
  assert_pieces("0 = x", "x=0 n-x");
  assert_pieces("t = 0", "t=0");
  assert_pieces("x = x.max", "x=2 n+x");
  assert_pieces("x = c", "x=2 n+x");
  assert_pieces("x = 1", "x=1"); /* inside: no outward side */
  assert_pieces("x = 0 and y = 3", "x=0 y=3");
  assert_pieces("x = 2 and t = 1", "x=2 t=1 n+x");
}

static void boundary_is_all_faces_of_space(void **state) {
  (void)state;
  assert_pieces("boundary", "x=0 n-x | x=2 n+x | y=-1 n-y | y=3 n+y");
  assert_pieces("boundary and not y = 3", "x=0 n-x | x=2 n+x | y=-1 n-y");
  assert_pieces("boundary - (x = 0 or y = 3)", "x=2 n+x | y=-1 n-y");
  assert_pieces("boundary and x = 0", "x=0 n-x");
  assert_pieces("boundary and (x = 0 or y = 3)", "x=0 n-x | y=3 n+y");
  assert_pieces("boundary and not (x = 0 or x = 2)", "y=-1 n-y | y=3 n+y");
  assert_pieces("boundary and t = 0", "x=0 t=0 n-x | x=2 t=0 n+x | y=-1 t=0 n-y | y=3 t=0 n+y");
  assert_pieces("x = 1 and not boundary", "x=1");
  assert_refused("boundary and x = 1", TN_EINPUT, "selects no points");
}

static void inequalities_filter_or_decide(void **state) {
  (void)state;
  assert_pieces("x = 0 and y > 1", "x=0 n-x where y > 1");
  assert_pieces("boundary and x < 1", "x=0 n-x | y=-1 n-y where x < 1 | y=3 n+y where x < 1");
  assert_pieces("x = 0 and 0 < y <= 2", "x=0 n-x where 0 < y and y <= 2");
  assert_pieces("x = 0 and not y < 1", "x=0 n-x where y >= 1");
  assert_pieces("y = 3 and not (x < 1 or t > 0.5)", "y=3 n+y where x >= 1 and t <= 0.5");
  assert_refused("x = 0 and x > 1", TN_EINPUT, "condition `k` selects no points");
}

static void no_part_is_counted_twice(void **state) {
  (void)state;
  assert_pieces("x = 0 or x = 0", "x=0 n-x");
  assert_pieces("boundary or x = 0", "x=0 n-x | x=2 n+x | y=-1 n-y | y=3 n+y");
  assert_pieces("x = 0 and y < 0 or x = 0 and y > 1", "x=0 n-x where y < 0 or y > 1");
  assert_pieces("x = 0 and y < 0 or x = 0", "x=0 n-x");
  assert_pieces("x = 0 and not x = 2", "x=0 n-x");
}

static void what_selects_nothing_is_an_error(void **state) {
  (void)state;
  assert_refused("x = 3", TN_EINPUT,
                 "\"x = 3\" lies outside x in [0, 2]: condition `k` selects no points.");
  assert_refused("x = 0 and x = 2", TN_EINPUT, "selects no points");
  assert_refused("x = 0 and not x = 0", TN_EINPUT, "selects no points");
  assert_refused("not domain", TN_EINPUT, "selects no points");
  assert_refused("x < 1", TN_EINPUT, "`on` needs a surface");
  assert_refused("domain", TN_EINPUT, "`on` needs a surface");
}

static void other_surfaces_are_not_in_this_version(void **state) {
  (void)state;
  assert_refused("x^2 + y^2 = 1", TN_EUNSUPPORTED, "coordinate = constant");
  assert_refused("x = y", TN_EUNSUPPORTED, "coordinate = constant");
  assert_refused("interface(rod)", TN_EINPUT, "no region `rod`");
  assert_refused("hole", TN_EINPUT, "no region `hole`");
  assert_refused("x", TN_EINPUT, "a comparison");
  assert_refused("u = 0", TN_EINPUT, "an unknown");
}

static void places_are_those_of_the_predicate(void **state) {
  (void)state;
  expect_refusal(
      "domain = { x = [0, 2] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_x = 0\" }\n"
      "[conditions]\npull = { on = \"x = 0 or x = 3\", equation = \"u = 0\" }\n",
      TN_EINPUT, "test.toml:5:25: \"x = 3\" lies outside x in [0, 2]: condition `pull`", NULL);
}

static void a_periodic_coordinate_has_no_ends(void **state) {
  (void)state;
  pn_problem *p = problem_of(
      "[domain]\nx = { range = [0, 1], periodic = true }\ny = [0, 1]\n[unknowns]\nu = \"x, y\"\n"
      "[equations]\ne = \"lap(u) = 0\"\n"
      "[conditions]\nb = { on = \"boundary\", equation = \"u = 0\" }\n"
      "seam = { on = \"x = 0\", equation = \"u = 1\" }\n");
  char found[256];
  describe(p, &p->conditions[0], found);
  assert_string_equal(found, "y=0 n-y | y=1 n+y");
  describe(p, &p->conditions[1], found);
  assert_string_equal(found, "x=0");
  pn_problem_free(&p);
}

static void an_end_written_another_way_is_that_end(void **state) {
  (void)state;
  pn_problem *p =
      problem_of("[domain]\nx = [0, 0.3]\n[unknowns]\nu = \"x\"\n[equations]\ne = \"u_x = 0\"\n"
                 "[conditions]\nb = { on = \"x = 0.1*3\", equation = \"u = 0\" }\n");
  assert_true(p->conditions[0].pieces[0].value[0] == 0.3); /* 0.1*3 is one ulp above */
  assert_int_equal(p->conditions[0].pieces[0].sign, 1);
  pn_problem_free(&p);
}

/* The filter agrees with the predicate evaluated directly, on random points. */
static void volumes_are_filters(void **state) {
  (void)state;
  pn_problem *p =
      problem_of_parts(NULL,
                       "a = \"u_t = v + s\"\n"
                       "b = { equation = \"u_x = 0\", in = \"x < 1 and not y > 2 - x\" }\n"
                       "d = { equation = \"u_x = 1\", in = \"box - (x < c/4)\" }",
                       NULL);
  assert_null(p->equations[0].pieces[0].filter);
  tn_stream stream = tn_stream_of(3, "volumes");
  for (uint64_t i = 0; i < 300; ++i) {
    double q[3] = {2 * tn_random_uniform(stream, 3 * i),
                   4 * tn_random_uniform(stream, 3 * i + 1) - 1,
                   tn_random_uniform(stream, 3 * i + 2)};
    bool yes = false;
    assert_int_equal(pn_predicate_holds(p, p->equations[1].pieces[0].filter, q, &yes), TN_OK);
    assert_int_equal(yes, q[0] < 1 && !(q[1] > 2 - q[0]));
    assert_int_equal(pn_predicate_holds(p, p->equations[2].pieces[0].filter, q, &yes), TN_OK);
    assert_int_equal(yes, !(q[0] < 0.5));
  }
  pn_problem_free(&p);
  expect_parts_refusal(NULL, "b = { equation = \"u_x = v + s\", in = \"x = 1\" }", NULL, TN_EINPUT,
                       "selected by `on`", NULL);
}

static void normals_exist_on_faces_only(void **state) {
  (void)state;
  pn_problem *p =
      problem_of_parts("Tx = \"v_x*normal_x + 2*normal_y\"", "e = \"u_t = v + s\"",
                       "k = { on = \"boundary\", equation = [\"dn(v) = 0\", \"Tx = s\"] }");
  static const char *const dn[] = {"-v_x", "v_x", "-v_y", "v_y"};
  static const char *const tx[] = {"v_x*(-1) + 2*0", "v_x*1 + 2*0", "v_x*0 + 2*(-1)",
                                   "v_x*0 + 2*1"};
  const pn_term *k = &p->conditions[0];
  assert_int_equal(k->n_pieces, 4);
  for (size_t i = 0; i < 4; ++i) {
    pn_expr *side = NULL;
    assert_int_equal(pn_scalar(p, k->relations[0].lhs, 0, &k->pieces[i], &side), TN_OK);
    assert_string_equal(printed(p, side), dn[i]);
    assert_int_equal(pn_scalar(p, k->relations[1].lhs, 0, &k->pieces[i], &side), TN_OK);
    assert_string_equal(printed(p, side), tx[i]);
  }
  pn_problem_free(&p);
  static const char *const nowhere[] = {"t = 0", "x = 1", "x = 0 and y = 3"};
  for (size_t i = 0; i < 3; ++i) {
    char text[128];
    snprintf(text, sizeof text, "k = { on = \"%s\", equation = \"dn(v) = u + s\" }", nowhere[i]);
    expect_parts_refusal(NULL, NULL, text, TN_EINPUT, "no outward normal", NULL);
  }
  expect_parts_refusal(NULL, "e = \"dn(v) = u + s\"", NULL, TN_EINPUT, "surfaces", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(planes_become_faces_with_outward_normals),
      cmocka_unit_test(boundary_is_all_faces_of_space),
      cmocka_unit_test(inequalities_filter_or_decide),
      cmocka_unit_test(no_part_is_counted_twice),
      cmocka_unit_test(what_selects_nothing_is_an_error),
      cmocka_unit_test(other_surfaces_are_not_in_this_version),
      cmocka_unit_test(places_are_those_of_the_predicate),
      cmocka_unit_test(a_periodic_coordinate_has_no_ends),
      cmocka_unit_test(an_end_written_another_way_is_that_end),
      cmocka_unit_test(volumes_are_filters),
      cmocka_unit_test(normals_exist_on_faces_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
