/* test_points.c: where a problem is sampled: counts, places, streams, corners, refinement. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/points.h"

static const char *const square =
    "domain = { x = [0, 2], y = [0, 1] }\n"
    "unknowns = { u = \"x, y\", v = \"x, y\" }\n"
    "equations = { a = \"lap(u) = 0\", b = \"lap(v) = 1\" }\n"
    "conditions = { lid = { on = \"y = 1\", equation = \"u = 1\" },"
    " walls = { on = \"boundary and not y = 1\", equation = [\"u = 0\", \"v = 0\"] },"
    " part = { on = \"y = 1 and x > 1.5\", equation = \"v = 1\" },"
    " pin = { on = \"x = 0 and y = 0\", equation = \"v = 0\" } }\n";

/* The same problem with its tables in another order. */
static const char *const turned =
    "conditions = { pin = { on = \"x = 0 and y = 0\", equation = \"v = 0\" },"
    " walls = { on = \"boundary and not y = 1\", equation = [\"u = 0\", \"v = 0\"] },"
    " part = { on = \"y = 1 and x > 1.5\", equation = \"v = 1\" },"
    " lid = { on = \"y = 1\", equation = \"u = 1\" } }\n"
    "equations = { b = \"lap(v) = 1\", a = \"lap(u) = 0\" }\n"
    "unknowns = { v = \"x, y\", u = \"x, y\" }\n"
    "domain = { x = [0, 2], y = [0, 1] }\n";

static const pn_draw training = {.kind = PN_DRAW_TRAIN, .seed = 7, .stage = 1, .factor = 1};

typedef struct layout {
  pn_problem *problem;
  pn_sites *sites;
} layout;

static layout open_text(const char *text, size_t n_theta) {
  layout l = {NULL, NULL};
  if (pn_problem_parse("test.toml", text, 0, NULL, &l.problem) != TN_OK)
    fail_msg("%s", tn_error_text());
  if (pn_sites_new(l.problem, n_theta, NULL, &l.sites) != TN_OK)
    fail_msg("%s", tn_error_text());
  return l;
}

static layout draw_text(const char *text, size_t n_theta, const pn_draw *draw) {
  layout l = open_text(text, n_theta);
  if (pn_sites_draw(l.sites, draw) != TN_OK)
    fail_msg("%s", tn_error_text());
  return l;
}

static void close_layout(layout *l) {
  pn_sites_free(&l->sites);
  pn_problem_free(&l->problem);
}

static const pn_site *site_of(const layout *l, const char *key) {
  for (size_t i = 0; i < l->sites->n_sites; ++i)
    if (strcmp(l->sites->sites[i].key, key) == 0)
      return &l->sites->sites[i];
  fail_msg("there is no site %s", key);
  return NULL;
}

static bool same_points(const pn_site *a, const pn_site *b) {
  if (a->n != b->n || a->free_ != b->free_)
    return false;
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c)
    if (a->column[c] && memcmp(a->column[c], b->column[c], a->n * sizeof(double)) != 0)
      return false;
  return true;
}

static void layout_shares_the_volume(void **state) {
  (void)state;
  layout l = open_text(square, 3000);
  const pn_sites *s = l.sites;
  assert_int_equal(s->n_terms, 6);
  assert_int_equal(s->terms[0].site[0], s->terms[1].site[0]);
  assert_string_equal(s->sites[s->terms[0].site[0]].key, "interior");
  close_layout(&l);
}

/* The smallest power of two with 2.5 P residuals: 2 N + lid, part and walls (twice) at 4 sqrt N, +
 * 1. */
static void counts_follow_the_parameters(void **state) {
  (void)state;
  for (size_t p = 100; p < 20000; p = p * 3 / 2) {
    layout l = draw_text(square, p, &training);
    size_t n = l.sites->interior, line = 4;
    while (line < 4 * sqrt((double)n))
      line *= 2;
    assert_true((n & (n - 1)) == 0 && n >= 1024);
    assert_true(2 * (double)n + 4 * (double)line + 1 >= 2.5 * (double)p);
    double half_line = 4;
    while (half_line < 4 * sqrt((double)n / 2))
      half_line *= 2;
    assert_true(n == 1024 || (double)n + 4 * half_line + 1 < 2.5 * (double)p);
    assert_int_equal(site_of(&l, "lid:y=1")->n, line);
    assert_int_equal(site_of(&l, "pin:x=0:y=0")->n, 1);
    assert_int_equal(pn_term_points(l.sites, 3), line); /* walls: three pieces together */
    close_layout(&l);
  }
}

/* Bottom 2 long, sides 1 each: half, a quarter, a quarter. */
static void pieces_share_by_length(void **state) {
  (void)state;
  layout l = draw_text(square, 3000, &training);
  size_t bottom = site_of(&l, "walls:y=0")->n, left = site_of(&l, "walls:x=0")->n;
  assert_int_equal(bottom, 2 * left);
  assert_int_equal(left, site_of(&l, "walls:x=2")->n);
  close_layout(&l);
}

static void points_lie_where_they_should(void **state) {
  (void)state;
  layout l = draw_text(square, 3000, &training);
  for (size_t k = 0; k < l.sites->n_sites; ++k) {
    const pn_site *site = &l.sites->sites[k];
    for (size_t i = 0; i < site->n; ++i) {
      double p[PN_MAX_COORDINATES];
      pn_site_point(l.problem, site, i, p);
      assert_true(p[0] >= 0 && p[0] <= 2 && p[1] >= 0 && p[1] <= 1);
      if (strncmp(site->key, "part", 4) == 0)
        assert_true(p[0] > 1.5 && p[1] == 1);
      if (strncmp(site->key, "lid", 3) == 0)
        assert_true(p[1] == 1);
    }
  }
  /* Even: in each of 8 strips of x an eighth of a power of two, exactly (a scrambled net). */
  const pn_site *volume = site_of(&l, "interior");
  size_t strip[8] = {0};
  for (size_t i = 0; i < volume->n; ++i)
    ++strip[(size_t)(volume->column[0][i] * 4)];
  for (size_t k = 0; k < 8; ++k)
    assert_int_equal(strip[k], volume->n / 8);
  close_layout(&l);
}

static void order_in_the_file_changes_no_bit(void **state) {
  (void)state;
  layout a = draw_text(square, 3000, &training), b = draw_text(turned, 3000, &training);
  assert_int_equal(a.sites->n_sites, b.sites->n_sites);
  for (size_t k = 0; k < a.sites->n_sites; ++k)
    assert_true(same_points(&a.sites->sites[k], site_of(&b, a.sites->sites[k].key)));
  close_layout(&a);
  close_layout(&b);
}

/* Equations of x and t, of t alone and of x alone, and a name that looks like a key: every site has
 * its own key, whatever the order, and the first equation the points that it has alone. */
static void every_site_has_its_own_key(void **state) {
  (void)state;
  static const char *const head =
      "domain = { x = [0, 1], t = [0, 2] }\npoints = { interior = 512 }\n"
      "unknowns = { u = \"x, t\", s = \"t\", r = \"x\" }\n";
  static const char *const bodies[] = {
      "equations = { heat = \"u_t = u_xx\", ode = \"s_t = -s\", right = \"u(x=1) = s\","
      " steady = \"r_xx = 1\" }\n"
      "conditions = { interior = { in = \"x < 0.25\", equation = \"u = 1\" } }\n",
      "conditions = { interior = { in = \"x < 0.25\", equation = \"u = 1\" } }\n"
      "equations = { steady = \"r_xx = 1\", right = \"u(x=1) = s\", ode = \"s_t = -s\","
      " heat = \"u_t = u_xx\" }\n",
      "equations = { heat = \"u_t = u_xx\" }\n"};
  layout l[3];
  for (size_t i = 0; i < 3; ++i) {
    char text[1024];
    snprintf(text, sizeof text, "%s%s", head, bodies[i]);
    l[i] = draw_text(text, 500, &training);
    for (size_t k = 0; k < l[i].sites->n_sites; ++k)
      for (size_t m = 0; m < k; ++m)
        assert_string_not_equal(l[i].sites->sites[k].key, l[i].sites->sites[m].key);
  }
  assert_int_equal(l[0].sites->n_sites, 4); /* `ode` and `right` share theirs */
  for (size_t k = 0; k < 4; ++k)
    assert_true(same_points(&l[0].sites->sites[k], site_of(&l[1], l[0].sites->sites[k].key)));
  assert_true(same_points(site_of(&l[0], "interior"), site_of(&l[2], "interior")));
  assert_int_equal(site_of(&l[0], "interior:t")->free_, 2);
  assert_int_equal(site_of(&l[0], "interior:x")->free_, 1);
  const pn_site *filtered = &l[0].sites->sites[l[0].sites->terms[4].site[0]];
  for (size_t i = 0; i < filtered->n; ++i)
    assert_true(filtered->column[0][i] < 0.25);
  for (size_t i = 0; i < 3; ++i)
    close_layout(&l[i]);
}

/* Pieces that differ only beyond the length of a key. */
static void long_keys_stay_apart(void **state) {
  (void)state;
  char a[61], b[61], text[2048];
  memset(a, 'a', 60);
  memset(b, 'b', 60);
  a[60] = b[60] = '\0';
  snprintf(
      text, sizeof text,
      "domain = { %s = [0, 1], %s = [0, 2] }\nunknowns = { u = \"%s, %s\" }\n"
      "equations = { e = \"lap(u) = 0\" }\npoints = { interior = 512 }\n"
      "conditions = { c%.59s = { on = \"%s = 0 and (%s = 0 or %s = 2)\", equation = \"u = 0\" }"
      " }\n",
      a, b, a, b, a, a, b, b);
  layout l = draw_text(text, 500, &training);
  assert_int_equal(l.sites->n_sites, 3);
  const pn_term_sites *term = &l.sites->terms[1];
  assert_true(strlen(l.sites->sites[1].key) + 1 == PN_SITE_KEY);
  for (size_t k = 0; k < 2; ++k)
    assert_ptr_equal(l.sites->sites[term->site[k]].piece, &term->term->pieces[k]);
  close_layout(&l);
}

static void streams_differ_by_seed_stage_and_purpose(void **state) {
  (void)state;
  layout a = draw_text(square, 3000, &training);
  pn_draw other[4] = {training, training, training, training};
  other[0].seed = 8;
  other[1].stage = 2;
  other[2].kind = PN_DRAW_CHECK;
  other[3].round = 1;
  layout again = draw_text(square, 3000, &training);
  assert_true(same_points(site_of(&a, "interior"), site_of(&again, "interior")));
  close_layout(&again);
  for (size_t k = 0; k < 4; ++k) {
    layout b = draw_text(square, 3000, &other[k]);
    assert_false(same_points(site_of(&a, "interior"), site_of(&b, "interior")));
    assert_false(same_points(site_of(&a, "lid:y=1"), site_of(&b, "lid:y=1")));
    close_layout(&b);
  }
  close_layout(&a);
}

static void nothing_selected_is_an_error(void **state) {
  (void)state;
  layout l =
      open_text("domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
                "equations = { a = \"lap(u) = 0\" }\n"
                "conditions = { pull = { on = \"x = 1 and y > 5\", equation = \"u = 0\" } }\n",
                100);
  assert_int_equal(pn_sites_draw(l.sites, &training), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "condition `pull` selects 0 points"));
  assert_non_null(strstr(tn_error_text(), "test.toml:4:"));
  close_layout(&l);
}

static void logarithmic_points_are_even_in_the_logarithm(void **state) {
  (void)state;
  layout l = open_text("domain = { x = [0, 1], nu = [0.01, 1] }\nunknowns = { u = \"x, nu\" }\n"
                       "equations = { a = \"u_x = nu*u_xx\" }\npoints = { interior = 1024 }\n",
                       100);
  l.problem->coordinates[1].log_spacing = true;
  assert_int_equal(pn_sites_draw(l.sites, &training), TN_OK);
  const pn_site *site = site_of(&l, "interior");
  size_t below = 0;
  for (size_t i = 0; i < site->n; ++i) {
    assert_true(site->column[1][i] >= 0.01 && site->column[1][i] <= 1);
    below += site->column[1][i] < 0.1;
  }
  assert_int_equal(below, 512);
  close_layout(&l);
}

/* Cavity with corners: four corners, two of them of the lid; those carry both values unless one
 * wins. */
static void corners_are_kept_and_counted(void **state) {
  (void)state;
  static const char text[] =
      "domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
      "equations = { a = \"lap(u) = 0\" }\npoints = { interior = 1024, corners = \"keep\" }\n"
      "conditions = { lid = { on = \"y = 1\", equation = \"u = 1\", points = 64%s },"
      " walls = { on = \"boundary and not y = 1\", equation = \"u = 0\", points = 96 } }\n";
  for (int wins = 0; wins < 2; ++wins) {
    char full[sizeof text + 32];
    snprintf(full, sizeof full, text, wins ? ", wins = true" : "");
    layout l = draw_text(full, 100, &training);
    assert_int_equal(l.sites->corners, 2);
    assert_int_equal(pn_term_points(l.sites, 1), 64 + 2);
    assert_int_equal(pn_term_points(l.sites, 2), 96 + (wins ? 4 : 6));
    close_layout(&l);
  }
}

static void regular_grid_is_regular(void **state) {
  (void)state;
  layout l = draw_text("domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
                       "equations = { a = \"lap(u) = 0\" }\n"
                       "points = { interior = 100, sampler = \"grid\" }\n",
                       100, &training);
  const pn_site *site = site_of(&l, "interior");
  assert_int_equal(site->n, 100);
  for (size_t i = 0; i < 100; ++i) /* middles of cells: (j + 1/2) / 10, one rounding each */
    assert_true(fabs(site->column[0][i] * 10 - (double)(i % 10) - 0.5) < 1e-14);
  close_layout(&l);
}

static void refinement_prefers_large_residuals(void **state) {
  (void)state;
  enum { N = 4000, COUNT = 500 };
  double residual[N];
  size_t chosen[COUNT], in_front = 0;
  for (size_t i = 0; i < N; ++i)
    residual[i] = i < N / 10 ? 100 : 0;
  assert_int_equal(pn_rad_choose(N, residual, 3, "s", COUNT, chosen), TN_OK);
  for (size_t i = 0; i < COUNT; ++i) {
    in_front += chosen[i] < N / 10;
    assert_true(i == 0 || chosen[i - 1] < chosen[i]); /* no candidate twice */
  }
  /* p = 11 for 400 candidates and 1 for 3600. Without replacement the expected share in front
   * falls from 0.55 as these are used up: dn/dk = 11(400 - n)/(11(400 - n) + 3600 - (k - n));
   * n(500) = 230 by integration. Standard deviation below sqrt(500 / 4) = 11.2; five of them. */
  assert_true(fabs((double)in_front - 230) < 56);
  assert_int_equal(pn_rad_choose(10, residual, 3, "s", 11, chosen), TN_ERANGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layout_shares_the_volume),
      cmocka_unit_test(counts_follow_the_parameters),
      cmocka_unit_test(pieces_share_by_length),
      cmocka_unit_test(points_lie_where_they_should),
      cmocka_unit_test(order_in_the_file_changes_no_bit),
      cmocka_unit_test(every_site_has_its_own_key),
      cmocka_unit_test(long_keys_stay_apart),
      cmocka_unit_test(streams_differ_by_seed_stage_and_purpose),
      cmocka_unit_test(nothing_selected_is_an_error),
      cmocka_unit_test(logarithmic_points_are_even_in_the_logarithm),
      cmocka_unit_test(corners_are_kept_and_counted),
      cmocka_unit_test(regular_grid_is_regular),
      cmocka_unit_test(refinement_prefers_large_residuals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
