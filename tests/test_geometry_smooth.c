/* test_geometry_smooth.c: smooth distances as trees: zero on the chosen faces, positive inside, gradient the inner normal.
 *
 * Gradients by central differences of step 1e-5: truncation 1e-10 times third derivatives, rounding 1e-16 / 1e-7; with points
 * of faces 1e-2 and more away from corners, 1e-4 covers both.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_geometry.h"
#include "pinn/problem.h"
#include "pinn/sobol.h"

enum { MANY = 256 };
static const size_t axis[] = {0, 1, 2};
static double u[MANY * 3], x[MANY * 3], normal[MANY * 3];
static bool on[MANY];

static double value(const pn_expr *e, size_t d, const double *at) {
  pn_problem problem = {.n_coordinates = d};
  double out = NAN;
  ok(pn_evaluate(&problem, e, at, &out));
  return out;
}

static void check(pn_arena *a, const pn_body *b, size_t n, const size_t *face) {
  size_t d = pn_body_dimensions(b), used = 0, inside = 0;
  pn_expr *phi = NULL;
  ok(pn_faces_distance(a, b, n, face, axis, &phi));
  ok(pn_sobol(d, tn_stream_of(5, "smooth"), 0, MANY, u));
  ok(pn_faces_place(b, n, face, MANY, u, x, normal, on));
  for (size_t i = 0; i < MANY; ++i) {
    double *p = x + i * d, other[3];
    bool clear = on[i], smooth = n == 1; /* one face, no corners */
    for (size_t k = 0; k < 2 * d && clear && !smooth; ++k) { /* no corner within 2e-2 */
      memcpy(other, p, sizeof other);
      other[k / 2] += k % 2 ? 2e-2 : -2e-2;
      double along = normal[i * d + k / 2] * (k % 2 ? 2e-2 : -2e-2);
      clear = fabs(pn_body_distance(b, other) - along) < 5e-3;
    }
    if (!clear)
      continue;
    ++used;
    assert_true(fabs(value(phi, d, p)) < 1e-13);
    for (size_t k = 0; k < d; ++k) {
      double high[3], low[3];
      memcpy(high, p, sizeof high);
      memcpy(low, p, sizeof low);
      high[k] += 1e-7;
      low[k] -= 1e-7;
      double slope = (value(phi, d, high) - value(phi, d, low)) / 2e-7;
      if (!(fabs(slope + normal[i * d + k]) < 1e-4))
        print_error("slope %zu is %g, inner normal %g at (%g, %g)\n", k, slope, -normal[i * d + k], p[0], p[1]);
      assert_true(fabs(slope + normal[i * d + k]) < 1e-4);
    }
  }
  assert_true(used > MANY / 8);
  bool in[MANY];
  ok(pn_body_place(b, MANY, u, x, in));
  for (size_t i = 0; i < MANY; ++i) {
    inside += in[i];
    assert_true(!in[i] || value(phi, d, x + i * d) > 0);
  }
  assert_true(inside > 0);
}

static void check_all(pn_arena *a, const pn_body *b) {
  const pn_face *faces = NULL;
  size_t face[64], n = pn_body_faces(b, &faces);
  for (size_t i = 0; i < n; ++i)
    face[i] = i;
  check(a, b, n, face);
}

static void convex_bodies(void **state) {
  pn_body *b = NULL;
  size_t some[] = {0, 3};
  ok(pn_body_box(*state, 2, (double[]){0, 0}, (double[]){2, 1}, 0, &b));
  check_all(*state, b);
  check(*state, b, 2, some);
  ok(pn_body_rotate(*state, b, 30, NULL, NULL, &b));
  check_all(*state, b);
  ok(pn_body_ball(*state, 2, (double[]){1, 0}, 0.5, 0, &b));
  check_all(*state, b);
  ok(pn_body_ellipsoid(*state, 3, (double[]){1, 0, 0}, (double[]){2, 1, 1}, 0, &b));
  check_all(*state, b);
  ok(pn_body_box(*state, 3, (double[]){0, 0, 0}, (double[]){1, 1, 1}, 0, &b));
  check_all(*state, b);
  ok(pn_body_cone(*state, (double[]){0, 0, 0}, (double[]){0, 1, 1}, 1, 0.5, 0, &b));
  check_all(*state, b);
  ok(pn_body_torus(*state, (double[]){0, 0, 0}, (double[]){0, 0, 1}, 1, 0.4, 0, &b));
  check_all(*state, b);
  ok(pn_body_scale(*state, b, (double[]){1, 2, 1}, NULL, &b));
  check_all(*state, b);
}

static void bodies_with_holes_and_corners(void **state) {
  static const double ell[] = {0, 0, 1, 0, 1, -1, -1, -1, -1, 1, 0, 1};
  pn_body *b = NULL, *c = NULL;
  size_t two[] = {0, 5};
  ok(pn_body_polygon(*state, 6, ell, 0, &b));
  check_all(*state, b);
  check(*state, b, 2, two);
  ok(pn_body_box(*state, 2, (double[]){-1, -1}, (double[]){1, 1}, 0, &b));
  ok(pn_body_ball(*state, 2, (double[]){0.2, 0}, 0.3, 1, &c));
  ok(pn_body_join(*state, PN_DIFFERENCE, b, c, &b));
  check_all(*state, b);
  ok(pn_body_ball(*state, 2, (double[]){1, 1}, 0.5, 1, &c));
  ok(pn_body_join(*state, PN_UNION, b, c, &b));
  check_all(*state, b);
}

static void unions_without_seams(void **state) {
  pn_body *a = NULL, *b = NULL;
  ok(pn_body_box(*state, 2, (double[]){0, 0}, (double[]){1, 1}, 0, &a));
  ok(pn_body_box(*state, 2, (double[]){1, 0}, (double[]){2, 1}, 0, &b));
  ok(pn_body_join(*state, PN_UNION, a, b, &b));
  check_all(*state, b);
  ok(pn_body_box(*state, 3, (double[]){0, 0, 0}, (double[]){1, 1, 1}, 0, &a));
  ok(pn_body_ball(*state, 3, (double[]){0.5, 0.5, 1}, 0.4, 1, &b));
  ok(pn_body_join(*state, PN_UNION, a, b, &b));
  check_all(*state, b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convex_bodies),
      cmocka_unit_test(bodies_with_holes_and_corners),
      cmocka_unit_test(unions_without_seams),
  };
  return cmocka_run_group_tests(tests, geometry_setup, geometry_teardown);
}
