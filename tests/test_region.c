/* test_region.c: shapes, regions and the points that conditions get on them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/region.h"
#include "tests/support_problem.h"

#define PLATE                                                                                      \
  "domain = { x = [0, 2], y = [0, 2], t = [0, 1], region = \"box - hole\" }\n"                     \
  "constants = { R = 0.5 }\nunknowns = { u = \"x, y, t\" }\n"                                      \
  "shapes = { hole = { kind = \"disc\", center = [0, 0], radius = \"R\" }, "                       \
  "bar = { kind = \"box\", from = [1, 1], to = [1.5, 1.25] } }\n"                                  \
  "equations = { heat = \"u_t = lap(u)\" }\n"

typedef struct layout {
  pn_problem *problem;
  pn_sites *sites;
} layout;

static layout drawn(const char *text) {
  layout l = {problem_of(text), NULL};
  const pn_draw draw = {.kind = PN_DRAW_TRAIN, .seed = 3, .stage = 1, .factor = 1};
  if (pn_sites_new(l.problem, 500, NULL, &l.sites) != TN_OK ||
      pn_sites_draw(l.sites, &draw) != TN_OK)
    fail_msg("%s", tn_error_text());
  return l;
}

static void close_layout(layout *l) {
  pn_sites_free(&l->sites);
  pn_problem_free(&l->problem);
}

static const pn_term *condition(const pn_problem *p, const char *name) {
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (strcmp(p->conditions[i].name, name) == 0)
      return &p->conditions[i];
  fail_msg("no condition `%s`", name);
  return NULL;
}

static const pn_term_sites *sites_of(const layout *l, const char *name) {
  for (size_t m = 0; m < l->sites->n_terms; ++m)
    if (strcmp(l->sites->terms[m].term->name, name) == 0)
      return &l->sites->terms[m];
  fail_msg("no term `%s`", name);
  return NULL;
}

static double extent(const layout *l, const char *name) {
  const pn_term_sites *t = sites_of(l, name);
  double sum = 0;
  for (size_t k = 0; k < t->n_sites; ++k)
    sum += l->sites->sites[t->site[k]].extent;
  return sum;
}

/* ---- Pieces ------------------------------------------------------------------------------------- */

static void names_select_what_they_made(void **state) {
  (void)state;
  layout l = drawn(PLATE "[conditions]\n"
                         "hole = { on = \"hole\", equation = \"dn(u) = 0\" }\n"
                         "rest = { on = \"boundary and not hole\", equation = \"u = 0\" }\n"
                         "low = { on = \"boundary and y = 0\", equation = \"u = 1\" }\n"
                         "far = { on = \"x = 2\", equation = \"u = 1\" }\n"
                         "two = { on = \"hole or y = 2\", equation = \"u = 1\" }\n");
  const pn_term *hole = condition(l.problem, "hole"), *low = condition(l.problem, "low");
  assert_int_equal(hole->n_pieces, 1);
  assert_true(pn_piece_curved(&hole->pieces[0]));
  assert_string_equal(hole->pieces[0].surface, "hole");
  assert_int_equal(condition(l.problem, "rest")->n_pieces, 4);
  assert_int_equal(condition(l.problem, "two")->n_pieces, 2);
  assert_int_equal(low->n_pieces, 1);
  assert_int_equal(low->pieces[0].normal, 1);
  assert_int_equal(low->pieces[0].sign, -1);
  /* A quarter of the rim; edges of 2, two of them shorter by the radius. */
  double quarter = 3.14159265358979323846 / 4;
  assert_float_equal(extent(&l, "hole"), quarter, 2e-3 * quarter);
  assert_float_equal(extent(&l, "rest"), 7, 2e-3 * 7);
  assert_float_equal(extent(&l, "low"), 1.5, 2e-3);
  assert_float_equal(extent(&l, "far"), 2, 1e-12);
  assert_float_equal(extent(&l, "two"), 2 + quarter, 2e-3);
  close_layout(&l);
}

/* Points of every condition lie where it says, and normals point out of the region. */
static void points_lie_on_the_faces(void **state) {
  (void)state;
  layout l = drawn(PLATE "[conditions]\n"
                         "hole = { on = \"hole and x > 0.3\", equation = \"dn(u) = 0\" }\n"
                         "low = { on = \"y = 0\", equation = \"u = 0\" }\n"
                         "start = { on = \"t = 0\", equation = \"u = 0\" }\n");
  const pn_site *hole = &l.sites->sites[sites_of(&l, "hole")->site[0]];
  assert_true(hole->n > 100);
  for (size_t i = 0; i < hole->n; ++i) {
    double x = hole->column[0][i], y = hole->column[1][i];
    assert_float_equal(hypot(x, y), 0.5, 1e-14);
    assert_true(x > 0.3 && y > 0);
    assert_float_equal(hole->normal[0][i], -2 * x, 1e-14);
    assert_float_equal(hole->normal[1][i], -2 * y, 1e-14);
    assert_null(hole->normal[2]);
    assert_true(hole->column[2][i] >= 0 && hole->column[2][i] <= 1);
  }
  const pn_site *low = &l.sites->sites[sites_of(&l, "low")->site[0]];
  assert_null(low->column[1]);
  for (size_t i = 0; i < low->n; ++i)
    assert_true(low->column[0][i] > 0.5 && low->column[0][i] < 2);
  const char *volumes[] = {"heat", "start"};
  for (size_t k = 0; k < 2; ++k) {
    const pn_site *site = &l.sites->sites[sites_of(&l, volumes[k])->site[0]];
    assert_float_equal(site->extent, 4 - 3.14159265358979323846 / 16, 4e-3);
    for (size_t i = 0; i < site->n; ++i)
      assert_true(hypot(site->column[0][i], site->column[1][i]) > 0.5);
  }
  close_layout(&l);
}

/* A stream is named by content: other conditions before it change no bit, other shapes neither. */
static void order_in_the_file_changes_no_point(void **state) {
  (void)state;
  layout a = drawn(PLATE "[conditions]\nhole = { on = \"hole\", equation = \"u = 0\" }\n");
  layout b = drawn("shapes = { extra = { kind = \"disc\", center = [1, 1], radius = 0.1 }, "
                   "bar = { kind = \"box\", from = [1, 1], to = [1.5, 1.25] }, "
                   "hole = { kind = \"disc\", center = [0, 0], radius = 0.5 } }\n"
                   "domain = { x = [0, 2], y = [0, 2], t = [0, 1], region = \"box - hole\" }\n"
                   "unknowns = { u = \"x, y, t\" }\nequations = { heat = \"u_t = lap(u)\" }\n"
                   "[conditions]\nstart = { on = \"t = 0\", equation = \"u = 0\" }\n"
                   "hole = { on = \"hole\", equation = \"u = 0\" }\n");
  const pn_site *s = &a.sites->sites[sites_of(&a, "hole")->site[0]];
  const pn_site *r = &b.sites->sites[sites_of(&b, "hole")->site[0]];
  assert_string_equal(s->key, r->key);
  assert_int_equal(s->n, r->n);
  for (size_t c = 0; c < 3; ++c)
    assert_memory_equal(s->column[c], r->column[c], s->n * sizeof(double));
  close_layout(&a);
  close_layout(&b);
}

/* A polygon is one site whatever its number of edges; edges that a plane names are pieces of their own. */
static void a_polygon_is_one_set_of_points(void **state) {
  (void)state;
  layout l =
      drawn("domain = { x = [-1, 1], y = [-1, 1], region = \"ell\" }\n"
            "shapes = { ell = { kind = \"polygon\", points = [[0, 0], [1, 0], [1, -1], [-1, -1], "
            "[-1, 1], "
            "[0, 1]] } }\nunknowns = { u = \"x, y\" }\nequations = { laplace = \"lap(u) = 0\" }\n"
            "[conditions]\nall = { on = \"boundary\", equation = \"dn(u) = 0\" }\n"
            "corner = { on = \"boundary and (x = 0 or y = 0)\", equation = \"u = 0\" }\n"
            "rest = { on = \"boundary and not (x = 0 or y = 0)\", equation = \"u = 0\" }\n");
  assert_int_equal(condition(l.problem, "all")->n_pieces, 1);
  assert_int_equal(condition(l.problem, "corner")->n_pieces, 2);
  assert_int_equal(condition(l.problem, "rest")->n_pieces, 1);
  assert_float_equal(extent(&l, "all"), 8, 1e-12);
  assert_float_equal(extent(&l, "corner"), 2, 1e-12);
  assert_float_equal(extent(&l, "rest"), 6, 1e-12);
  const pn_site *all = &l.sites->sites[sites_of(&l, "all")->site[0]];
  size_t on_corner = 0;
  for (size_t i = 0; i < all->n; ++i) {
    double x = all->column[0][i], y = all->column[1][i];
    double nx = all->normal[0][i], ny = all->normal[1][i];
    assert_float_equal(hypot(nx, ny), 1, 1e-14); /* never (0, 0), also near corners */
    assert_false(pn_shape_holds(l.problem, 0, (double[]){x + 1e-6 * nx, y + 1e-6 * ny}));
    assert_true(pn_shape_holds(l.problem, 0, (double[]){x - 1e-6 * nx, y - 1e-6 * ny}));
    on_corner += x == 0 || y == 0;
  }
  assert_in_range(on_corner, all->n / 5, all->n / 3); /* 2 of 8 */
  close_layout(&l);
}

/* ---- Interfaces and parts ----------------------------------------------------------------------- */

#define RODS                                                                                       \
  "domain = { x = [-1, 1], y = [-1, 1] }\n"                                                        \
  "shapes = { rod = { kind = \"disc\", center = [1, 0], radius = 0.5 }, matrix = \"box - rod\" "   \
  "}\n"                                                                                            \
  "unknowns = { a = { of = \"x, y\", in = \"rod\" }, b = { of = \"x, y\", in = \"matrix\" } }\n"   \
  "equations = { a = \"lap(a) = 0\", b = \"lap(b) = 0\" }\n"

/* Half of the rod lies outside the domain: so does half of its surface. */
static void interfaces_lie_inside_the_domain(void **state) {
  (void)state;
  layout l =
      drawn(RODS "[conditions]\n"
                 "joint = { on = \"interface(rod)\", equation = [\"a = b\", \"dn(a) = dn(b)\"] }\n"
                 "rim_a = { on = \"boundary\", equation = \"a = 0\" }\n"
                 "rim_b = { on = \"boundary\", equation = \"b = 0\" }\n");
  const pn_site *joint = &l.sites->sites[sites_of(&l, "joint")->site[0]];
  for (size_t i = 0; i < joint->n; ++i) {
    double x = joint->column[0][i] - 1, y = joint->column[1][i];
    assert_true(x < 0);
    assert_float_equal(hypot(x, y), 0.5, 1e-14);
    assert_float_equal(joint->normal[0][i], 2 * x, 1e-14);
  }
  assert_float_equal(extent(&l, "joint"), 3.14159265358979323846 / 2, 5e-3);
  /* The boundary counts where the unknown lives: a has x = 1, |y| < 0.5, b the rest. */
  size_t n_a = 0;
  const pn_term_sites *rim = sites_of(&l, "rim_a");
  for (size_t k = 0; k < rim->n_sites; ++k) {
    const pn_site *site = &l.sites->sites[rim->site[k]];
    for (size_t i = 0; i < site->n; ++i) {
      double point[PN_MAX_COORDINATES];
      pn_site_point(l.problem, site, i, point);
      assert_true(point[0] == 1 && fabs(point[1]) < 0.5);
      ++n_a;
    }
  }
  assert_true(n_a > 100);
  assert_float_equal(extent(&l, "rim_a"), 1, 2e-2);
  assert_float_equal(extent(&l, "rim_b"), 7, 2e-2);
  for (int k = 0; k < 2; ++k) {
    const pn_site *site = &l.sites->sites[sites_of(&l, k ? "b" : "a")->site[0]];
    for (size_t i = 0; i < site->n; ++i)
      assert_true((hypot(site->column[0][i] - 1, site->column[1][i]) < 0.5) == (k == 0));
  }
  close_layout(&l);
}

static void answers_of_membership(void **state) {
  (void)state;
  pn_problem *p = problem_of(PLATE "[conditions]\nhole = { on = \"hole\", equation = \"u = 0\" }\n"
                                   "low = { on = \"y = 0\", equation = \"u = 0\" }\n");
  const pn_piece *hole = &condition(p, "hole")->pieces[0], *low = &condition(p, "low")->pieces[0];
  double normal[PN_MAX_COORDINATES] = {0};
  bool yes = false;
  assert_int_equal(pn_piece_holds(p, hole, (double[]){0.3, 0.4, 0.5}, normal, &yes), TN_OK);
  assert_true(yes);
  assert_float_equal(normal[0], -0.6, 1e-12);
  assert_float_equal(normal[1], -0.8, 1e-12);
  assert_int_equal(pn_piece_holds(p, hole, (double[]){1, 0, 0.5}, normal, &yes), TN_OK);
  assert_false(yes);
  assert_int_equal(pn_piece_holds(p, low, (double[]){1, 0, 0.5}, normal, &yes), TN_OK);
  assert_true(yes);
  assert_int_equal(pn_piece_holds(p, low, (double[]){0.25, 0, 0.5}, normal, &yes), TN_OK);
  assert_false(yes); /* in the hole */
  assert_true(pn_domain_holds(p, (double[]){0.5, 0, 0}));
  assert_false(pn_domain_holds(p, (double[]){0.49, 0, 0}));
  pn_problem_free(&p);
}

/* Two squares side by side are crossed whole; without the second the first ends. */
static void partners_lie_across_the_region(void **state) {
  (void)state;
  static const char *const regions[] = {"first or second", "box - second"};
  static const double ends[] = {2, 1};
  for (size_t k = 0; k < 2; ++k) {
    char text[1024];
    double partner = 0;
    snprintf(text, sizeof text,
             "domain = { x = [0, 2], y = [0, 1], region = \"%s\" }\nunknowns = { u = \"x, y\" }\n"
             "shapes = { first = { kind = \"box\", from = [0, 0], to = [1, 1] }, "
             "second = { kind = \"box\", from = [1, 0], to = [2, 1] } }\n"
             "equations = { e = \"lap(u) = 0\" }\n",
             regions[k]);
    pn_problem *p = problem_of(text);
    for (int i = 1; i < 10; ++i) {
      assert_true(pn_region_partner(p, (double[]){0, 0.1 * i}, 0, &partner));
      assert_float_equal(partner, ends[k], 1e-8);
      assert_true(pn_region_partner(p, (double[]){ends[k], 0.1 * i}, 0, &partner));
      assert_float_equal(partner, 0, 1e-8);
    }
    pn_problem_free(&p);
  }
}

/* ---- Errors ------------------------------------------------------------------------------------- */

#define FILE_WITH(region, shapes)                                                                  \
  "domain = { x = [0, 2], y = [0, 2], region = \"" region "\" }\nunknowns = { u = \"x, y\" }\n"    \
  "equations = { e = \"lap(u) = 0\" }\n[shapes]\n" shapes "\n"

static void mistakes_are_named(void **state) {
  (void)state;
  expect_refusal(FILE_WITH("box - hoel", "hole = { kind = \"disc\", center = [1, 1], radius = 1 }"),
                 TN_EINPUT, "no region `hoel`", "Did you mean `hole`", NULL);
  expect_refusal(FILE_WITH("a", "a = \"box - b\"\nb = \"box - a\""), TN_EINPUT, "contains itself",
                 NULL);
  expect_refusal(FILE_WITH("box", "h = { kind = \"disk\", center = [1, 1], radius = 1 }"),
                 TN_EINPUT, "Did you mean \"disc\"", NULL);
  expect_refusal(FILE_WITH("box", "h = { kind = \"disc\", center = [1, 1, 1], radius = 1 }"),
                 TN_EINPUT, "`center` of `h` has 3 numbers", "2 space coordinates", NULL);
  expect_refusal(FILE_WITH("box", "h = { kind = \"disc\", radius = 1 }"), TN_EINPUT,
                 "needs `center`", NULL);
  expect_refusal(FILE_WITH("box", "h = { kind = \"disc\", center = [1, 1], radius = -1 }"),
                 TN_EINPUT, "test.toml:5:1: shape `h`", NULL);
  expect_refusal(FILE_WITH("box", "h = { kind = \"disc\", center = [1, 1], radius = 1, tube = 2 }"),
                 TN_EINPUT, "`tube` is no key of a disc", NULL);
  expect_refusal(
      FILE_WITH("box", "h = { kind = \"torus\", center = [1, 1], radius = 1, tube = 2 }"),
      TN_EINPUT, "a torus lives in 3 space dimensions; [domain] has 2", NULL);
  expect_refusal(FILE_WITH("box", "u = { kind = \"disc\", center = [1, 1], radius = 1 }"),
                 TN_EINPUT, "`u`", NULL);
  expect_refusal(FILE_WITH("box", "box = { kind = \"disc\", center = [1, 1], radius = 1 }"),
                 TN_EINPUT, "reserved", NULL);
}

static void conditions_that_select_nothing(void **state) {
  (void)state;
  expect_refusal(PLATE "[conditions]\nc = { on = \"bar\", equation = \"u = 0\" }\n", TN_EINPUT,
                 "`c` selects 0 points", "`bar` made no part of the boundary", NULL);
  expect_refusal("domain = { x = [0, 2], y = [0, 2] }\nunknowns = { u = \"x, y\" }\n"
                 "shapes = { rod = { kind = \"disc\", center = [1, 1], radius = 0.5 } }\n"
                 "equations = { e = \"lap(u) = 0\" }\n"
                 "conditions = { c = { on = \"rod\", equation = \"u = 0\" } }\n",
                 TN_EINPUT, "interface(rod)", NULL);
  expect_refusal(PLATE "[conditions]\nc = { on = \"hole and y = 1\", equation = \"u = 0\" }\n",
                 TN_EINPUT, "`c` selects no points", NULL);
  expect_refusal(PLATE "[conditions]\nc = { on = \"hole\", equation = \"u = rod\" }\n", TN_EINPUT,
                 "`rod` is not declared", NULL);
  expect_refusal(PLATE "[conditions]\nc = { on = \"hole\", equation = \"u = bar\" }\n", TN_EINPUT,
                 "inside(bar)", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_select_what_they_made),
      cmocka_unit_test(points_lie_on_the_faces),
      cmocka_unit_test(order_in_the_file_changes_no_point),
      cmocka_unit_test(a_polygon_is_one_set_of_points),
      cmocka_unit_test(interfaces_lie_inside_the_domain),
      cmocka_unit_test(answers_of_membership),
      cmocka_unit_test(partners_lie_across_the_region),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(conditions_that_select_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
