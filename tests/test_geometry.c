/* test_geometry.c: bodies and their faces: measures, orientation, what CSG leaves of a face.
 *
 * Tolerances: figures that the case collection prints have ten digits, so 1e-9 of them; closed forms are a few roundings,
 * 1e-14; pieces of cut curves end within 1e-9 of the size (points nearer to a corner are not given), hence 1e-8.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_geometry.h"
#include "pinn/sobol.h"

static const double pentagon[] = {2, 0, 1, -2, -1, -2, -2, 0, 0, 2};
static const double ell[] = {0, 0, 1, 0, 1, -1, -1, -1, -1, 1, 0, 1};

static void near(double value, double expected, double relative) {
  if (!(fabs(value - expected) <= relative * fmax(1, fabs(expected))))
    print_error("%.17g instead of %.17g\n", value, expected);
  assert_true(fabs(value - expected) <= relative * fmax(1, fabs(expected)));
}

static double area(const pn_body *b) {
  double m = 0;
  bool exact = false;
  ok(pn_body_measure(b, &m, &exact));
  return m;
}

/* All faces, or those of one tag ((size_t)-1: all). */
static size_t choose(const pn_body *b, size_t tag, size_t *face) {
  const pn_face *faces = NULL;
  size_t n = pn_body_faces(b, &faces), count = 0;
  assert_true(n <= 256);
  for (size_t i = 0; i < n; ++i)
    if (tag == (size_t)-1 || faces[i].tag == tag)
      face[count++] = i;
  return count;
}

static double surface(const pn_body *b, size_t tag, bool *exact) {
  size_t face[256], n = choose(b, tag, face);
  double m = 0;
  ok(pn_faces_measure(b, n, face, &m, exact));
  return m;
}

static pn_body *box2(pn_arena *a, double x0, double y0, double x1, double y1, size_t tag) {
  pn_body *b = NULL;
  ok(pn_body_box(a, 2, (double[]){x0, y0}, (double[]){x1, y1}, tag, &b));
  return b;
}

static pn_body *disc(pn_arena *a, double x, double y, double r, size_t tag) {
  pn_body *b = NULL;
  ok(pn_body_ball(a, 2, (double[]){x, y}, r, tag, &b));
  return b;
}

static pn_body *join(pn_arena *a, pn_join how, const pn_body *x, const pn_body *y) {
  pn_body *b = NULL;
  ok(pn_body_join(a, how, x, y, &b));
  return b;
}

enum { MANY = 4096 };
static double u[MANY * 4], x[MANY * 4], normal[MANY * 4];
static bool on[MANY];

static size_t place(const pn_body *b, size_t tag, size_t n) {
  size_t face[256], m = choose(b, tag, face), d = pn_body_dimensions(b), count = 0;
  ok(pn_sobol(d, tn_stream_of(7, "test"), 0, n, u));
  ok(pn_faces_place(b, m, face, n, u, x, normal, on));
  for (size_t i = 0; i < n; ++i)
    count += on[i];
  return count;
}

/* Points on the boundary: a step along the normal leads out, one against it in; the normal has length 1. */
static void check_normals(const pn_body *b, size_t tag, size_t n) {
  size_t d = pn_body_dimensions(b);
  assert_true(place(b, tag, n) > n / 16);
  for (size_t i = 0; i < n; ++i) {
    double out[4], in[4], square = 0, again[4];
    for (size_t k = 0; k < d && on[i]; ++k) {
      out[k] = x[i * d + k] + 1e-5 * normal[i * d + k];
      in[k] = x[i * d + k] - 1e-5 * normal[i * d + k];
      square += normal[i * d + k] * normal[i * d + k];
    }
    if (!on[i])
      continue;
    near(square, 1, 1e-12);
    near(pn_body_distance(b, x + i * d), 0, 1e-9);
    if (!pn_body_normal(b, x + i * d, again))
      continue; /* within 1e-6 of a corner */
    for (size_t k = 0; k < d; ++k)
      near(again[k], normal[i * d + k], 1e-6);
    assert_true(pn_body_inside(b, in));
    assert_false(pn_body_inside(b, out));
    double slope[4], length = 0; /* the distance knows nothing of normals */
    for (size_t k = 0; k < d; ++k) {
      double high[4], low[4];
      memcpy(high, x + i * d, d * sizeof *high);
      memcpy(low, x + i * d, d * sizeof *low);
      high[k] += 1e-7;
      low[k] -= 1e-7;
      slope[k] = (pn_body_distance(b, high) - pn_body_distance(b, low)) / 2e-7;
      length += slope[k] * slope[k];
    }
    for (size_t k = 0; k < d; ++k)
      near(slope[k] / sqrt(length), normal[i * d + k], 1e-5);
  }
}

static void pentagon_is_the_same_in_both_orders(void **state) {
  double reversed[10];
  for (size_t i = 0; i < 5; ++i)
    memcpy(reversed + 2 * i, pentagon + 2 * (4 - i), 2 * sizeof *reversed);
  for (size_t order = 0; order < 2; ++order) {
    pn_body *b = NULL;
    bool exact = false;
    double n[2];
    ok(pn_body_polygon(*state, 5, order ? reversed : pentagon, 3, &b));
    near(area(b), 10, 1e-14);
    near(surface(b, 3, &exact), 12.12899020, 1e-9);
    assert_true(exact);
    assert_true(pn_body_normal(b, (double[]){1, 1}, n));
    near(n[0], sqrt(0.5), 1e-14);
    near(n[1], sqrt(0.5), 1e-14);
    assert_true(pn_body_normal(b, (double[]){1.5, -1}, n));
    near(n[0], 2 / sqrt(5), 1e-14);
    near(n[1], -1 / sqrt(5), 1e-14);
    assert_true(pn_body_normal(b, (double[]){0, -2}, n));
    near(n[0], 0, 1e-14);
    near(n[1], -1, 1e-14);
    for (size_t i = 0; i < 5; ++i) /* corners have none, never (0, 0) */
      assert_false(pn_body_normal(b, pentagon + 2 * i, n));
    check_normals(b, 3, MANY);
  }
}

static void measures_of_primitives_are_closed_forms(void **state) {
  pn_body *b = NULL;
  bool exact = false;
  double pi = acos(-1.0);
  ok(pn_body_ball(*state, 3, (double[]){1, 2, 3}, 1, 0, &b));
  near(surface(b, 0, &exact), 12.56637061, 1e-9);
  near(area(b), 4 * pi / 3, 1e-14);
  near(surface(disc(*state, 0, 0, 1, 0), 0, &exact), 6.283185307, 1e-9);
  ok(pn_body_polygon(*state, 6, ell, 0, &b));
  near(area(b), 3, 1e-14);
  ok(pn_body_ball(*state, 5, (double[]){0, 0, 0, 0, 0}, 2, 0, &b));
  near(area(b), 32 * 8 * pi * pi / 15, 1e-13);
  near(surface(b, 0, &exact), 16 * 8 * pi * pi / 3, 1e-13);
  /* Ellipse: Ramanujan's series for the perimeter, h = ((a - b)/(a + b))^2, terms up to h^5: rest < h^6 */
  ok(pn_body_ellipsoid(*state, 2, (double[]){0, 0}, (double[]){1.2, 1}, 0, &b));
  double h = (0.2 / 2.2) * (0.2 / 2.2);
  near(surface(b, 0, &exact), pi * 2.2 * (1 + h / 4 + h * h / 64 + h * h * h / 256 + 25 * h * h * h * h / 16384), 1e-9);
  /* Oblate spheroid of semi-axes 1, 1, 1/2: 2 pi (1 + (1 - e^2)/e atanh e), e^2 = 3/4 */
  ok(pn_body_ellipsoid(*state, 3, (double[]){0, 0, 0}, (double[]){1, 1, 0.5}, 0, &b));
  double e = sqrt(0.75);
  near(surface(b, 0, &exact), 2 * pi * (1 + (1 - e * e) / e * atanh(e)), 1e-9);
  ok(pn_body_cone(*state, (double[]){0, 0, 0}, (double[]){0, 3, 4}, 1, 0, 0, &b));
  near(area(b), 5 * pi / 3, 1e-13);
  near(surface(b, 0, &exact), pi * (1 + sqrt(26)), 1e-13);
  ok(pn_body_torus(*state, (double[]){0, 0, 0}, (double[]){1, 1, 0}, 2, 0.5, 0, &b));
  near(area(b), pi * pi, 1e-13);
  near(surface(b, 0, &exact), 4 * pi * pi, 1e-13);
}

static void union_loses_what_is_inside(void **state) {
  pn_body *a = box2(*state, 0, 0, 1, 1, 1), *b = box2(*state, 1, 0, 2, 1, 2);
  pn_body *both = join(*state, PN_UNION, a, b), *left = NULL;
  bool exact = false;
  near(area(both), 2, 1e-8);
  near(surface(both, (size_t)-1, &exact), 6, 1e-8);
  near(surface(both, 1, &exact), 3, 1e-8);
  assert_true(exact);
  size_t count = place(both, (size_t)-1, MANY);
  assert_true(count > MANY / 2);
  for (size_t i = 0; i < MANY; ++i)
    assert_false(on[i] && x[2 * i] == 1);
  check_normals(both, (size_t)-1, MANY);
  /* [0,2]x[0,1] minus [1,2]x[0,1]: x = 1 is a face, of the second shape, and its normal is (1, 0) */
  left = join(*state, PN_DIFFERENCE, box2(*state, 0, 0, 2, 1, 1), b);
  near(area(left), 1, 1e-8);
  near(surface(left, 2, &exact), 1, 1e-8);
  place(left, 2, MANY);
  for (size_t i = 0; i < MANY; ++i)
    assert_true(!on[i] || (x[2 * i] == 1 && normal[2 * i] == 1 && normal[2 * i + 1] == 0));
}

static void faces_that_coincide_count_once(void **state) {
  pn_body *a = box2(*state, 0, 0, 1, 1, 1), *b = box2(*state, 0, 0, 2, 1, 2);
  pn_body *both = join(*state, PN_UNION, a, b);
  bool exact = false;
  near(surface(both, (size_t)-1, &exact), 6, 1e-8);
  near(surface(both, 1, &exact), 3, 1e-8); /* alone, the first shape has its whole part */
  near(surface(both, 2, &exact), 6, 1e-8);
}

static void holes_keep_their_names(void **state) {
  double pi = acos(-1.0);
  bool exact = false;
  pn_body *b = box2(*state, -1, -1, 1, 1, 0);
  b = join(*state, PN_DIFFERENCE, b, disc(*state, -0.4, 0, 0.2, 1));
  b = join(*state, PN_DIFFERENCE, b, disc(*state, 0.4, 0, 0.2, 2));
  near(area(b), 4 - 0.08 * pi, 1e-13);
  near(surface(b, 1, &exact), 0.4 * pi, 1e-13);
  near(surface(b, 0, &exact), 8, 1e-13);
  check_normals(b, (size_t)-1, MANY);
  assert_int_equal(place(b, 2, MANY), MANY);
  for (size_t i = 0; i < MANY; ++i) /* out of the body: into the disc */
    assert_true((x[2 * i] - 0.4) * normal[2 * i] + x[2 * i + 1] * normal[2 * i + 1] < 0);
}

static void lens_of_two_discs_is_exact(void **state) {
  /* Two unit discs at distance 1: area 2 pi / 3 - sqrt(3) / 2, perimeter 4 pi / 3 */
  double pi = acos(-1.0);
  bool exact = false;
  pn_body *b = join(*state, PN_INTERSECTION, disc(*state, 0, 0, 1, 1), disc(*state, 1, 0, 1, 2));
  near(area(b), 2 * pi / 3 - sqrt(3) / 2, 1e-8);
  near(surface(b, (size_t)-1, &exact), 4 * pi / 3, 1e-8);
  near(surface(b, 2, &exact), 2 * pi / 3, 1e-8);
}

static void halfspace_cuts_what_is_bounded(void **state) {
  pn_body *half = NULL, *b = NULL;
  double m = 0;
  bool exact = false;
  size_t face = 0;
  ok(pn_body_halfspace(*state, 2, (double[]){0, 0}, (double[]){1, 1}, 5, &half));
  assert_int_equal(pn_faces_measure(half, 1, &face, &m, &exact), TN_EINPUT);
  b = join(*state, PN_INTERSECTION, box2(*state, -1, -1, 1, 1, 1), half);
  near(area(b), 2, 1e-8);
  near(surface(b, 5, &exact), sqrt(8), 1e-8);
  check_normals(b, (size_t)-1, MANY);
}

static void motions_keep_or_scale_measures(void **state) {
  pn_body *b = NULL, *c = NULL;
  bool exact = false;
  double n[3], pi = acos(-1.0);
  ok(pn_body_polygon(*state, 5, pentagon, 0, &b));
  ok(pn_body_rotate(*state, b, 37, (double[]){3, 1}, NULL, &c));
  near(area(c), 10, 1e-13);
  ok(pn_body_scale(*state, c, (double[]){-2, 3}, NULL, &c));
  near(area(c), 60, 1e-13);
  check_normals(c, 0, MANY);
  ok(pn_body_rotate(*state, box2(*state, 0, 0, 2, 1, 0), 90, NULL, NULL, &c));
  assert_true(pn_body_normal(c, (double[]){-1, 1}, n));
  near(n[0], -1, 1e-15);
  ok(pn_body_box(*state, 3, (double[]){0, 0, 0}, (double[]){1, 2, 3}, 0, &b));
  ok(pn_body_rotate(*state, b, 30, (double[]){1, 1, 1}, (double[]){1, 2, 2}, &b));
  ok(pn_body_move(*state, b, (double[]){5, -1, 2}, &b));
  near(area(b), 6, 1e-13);
  near(surface(b, 0, &exact), 22, 1e-13);
  check_normals(b, 0, MANY);
  ok(pn_body_scale(*state, b, (double[]){2, 1, 1}, NULL, &b)); /* a parallelepiped */
  near(area(b), 12, 1e-12);
  check_normals(b, 0, MANY);
  /* A torus scaled to 2, 1, 1: volume doubles; its normals still lead out */
  ok(pn_body_torus(*state, (double[]){0, 0, 0}, (double[]){0, 0, 1}, 2, 0.5, 0, &b));
  ok(pn_body_scale(*state, b, (double[]){2, 1, 1}, NULL, &b));
  near(area(b), 2 * pi * pi, 1e-12);
  check_normals(b, 0, MANY);
  ok(pn_body_cone(*state, (double[]){0, 0, 0}, (double[]){0, 0, 2}, 1, 0.5, 0, &b));
  check_normals(b, 0, MANY);
  ok(pn_body_scale(*state, b, (double[]){1, 2, 1}, NULL, &b));
  check_normals(b, 0, MANY);
  /* A ball scaled to 2, 1 is the ellipse of those axes */
  ok(pn_body_scale(*state, disc(*state, 0, 0, 1, 0), (double[]){1.2, 1}, NULL, &b));
  double h = (0.2 / 2.2) * (0.2 / 2.2);
  near(surface(b, 0, &exact), pi * 2.2 * (1 + h / 4 + h * h / 64 + h * h * h / 256 + 25 * h * h * h * h / 16384), 1e-9);
  check_normals(b, 0, MANY);
}

static void refusals_say_what_was_found(void **state) {
  pn_body *b = NULL;
  pn_arena *a = *state;
  double nan = NAN, zero[3] = {0};
  assert_int_equal(pn_body_ball(a, 2, zero, 0, 0, &b), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "radius 0"));
  assert_int_equal(pn_body_ball(a, 2, zero, -1, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_ball(a, 2, zero, nan, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_box(a, 2, zero, zero, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_box(a, 17, zero, zero, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_polygon(a, 4, (double[]){0, 0, 1, 1, 1, 0, 0, 1}, 0, &b), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "the edge from (0, 0) to (1, 1) meets the edge from (1, 0)"));
  assert_int_equal(pn_body_polygon(a, 2, (double[]){0, 0, 1, 1}, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_polygon(a, 3, (double[]){0, 0, 1, 1, 2, 2}, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_polygon(a, 4, (double[]){0, 0, 1, 0, 0, 1, 0, 0}, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_halfspace(a, 2, zero, zero, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_torus(a, zero, (double[]){0, 0, 1}, 1, 2, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_cone(a, zero, zero, 1, 1, 0, &b), TN_EINPUT);
  assert_int_equal(pn_body_scale(a, disc(a, 0, 0, 1, 0), (double[]){1, 0}, NULL, &b), TN_EINPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pentagon_is_the_same_in_both_orders),
      cmocka_unit_test(measures_of_primitives_are_closed_forms),
      cmocka_unit_test(union_loses_what_is_inside),
      cmocka_unit_test(faces_that_coincide_count_once),
      cmocka_unit_test(holes_keep_their_names),
      cmocka_unit_test(lens_of_two_discs_is_exact),
      cmocka_unit_test(halfspace_cuts_what_is_bounded),
      cmocka_unit_test(motions_keep_or_scale_measures),
      cmocka_unit_test(refusals_say_what_was_found),
  };
  return cmocka_run_group_tests(tests, geometry_setup, geometry_teardown);
}
