/* test_geometry_sampled.c: triangulated surfaces, clouds, implicit bodies; uniform points; distances by brute force.
 *
 * Counts of n points in cells of share p have deviation sqrt(n p) at most (less for Sobol points), so 5 of them bound every cell;
 * shares of 2^15 Sobol points are good to 1e-2.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support_geometry.h"
#include "pinn/sobol.h"

enum { MANY = 8192, AROUND = 24, ACROSS = 12, TRIANGLES = 2 * AROUND * (ACROSS - 1) };
static double u[MANY * 3], x[MANY * 3], normal[MANY * 3], sphere[9 * TRIANGLES];
static bool on[MANY];

/* A sphere of triangles round (0.1, 0.2, 0.3); corners are computed once, so that they agree. */
static void make_sphere(void) {
  static double corner[ACROSS + 1][AROUND][3];
  double pi = acos(-1.0), *v = sphere;
  for (size_t i = 0; i <= ACROSS; ++i)
    for (size_t k = 0; k < AROUND; ++k) {
      double p = pi * (double)i / ACROSS, q = 2 * pi * (double)k / AROUND;
      bool pole = i == 0 || i == ACROSS;
      corner[i][k][0] = 0.1 + (pole ? 0 : sin(p) * cos(q));
      corner[i][k][1] = 0.2 + (pole ? 0 : sin(p) * sin(q));
      corner[i][k][2] = 0.3 + cos(p);
    }
  for (size_t i = 0; i < ACROSS; ++i)
    for (size_t k = 0; k < AROUND; ++k) {
      const double *a = corner[i][k], *b = corner[i][(k + 1) % AROUND], *c = corner[i + 1][k],
                   *d = corner[i + 1][(k + 1) % AROUND];
      const double *list[] = {a, c, b, b, c, d};
      /* at a pole one of the two has no area */
      for (size_t j = i == 0 ? 3 : 0; j < (i + 1 == ACROSS ? 3 : 6); ++j, v += 3)
        memcpy(v, list[j], 3 * sizeof *v);
    }
}

static int setup(void **state) {
  make_sphere();
  return geometry_setup(state);
}

static size_t place(const pn_body *b, size_t n) {
  size_t face = 0, d = pn_body_dimensions(b), count = 0;
  ok(pn_sobol(d, tn_stream_of(7, "test"), 0, n, u));
  ok(pn_faces_place(b, 1, &face, n, u, x, normal, on));
  for (size_t i = 0; i < n; ++i)
    count += on[i];
  return count;
}

static void triangles_sum_to_their_area(void **state) {
  pn_body *b = NULL;
  size_t face = 0;
  double m = 0, sum = 0;
  bool exact = false;
  ok(pn_body_surface(*state, TRIANGLES, sphere, 4, &b));
  for (const double *t = sphere; t < sphere + 9 * TRIANGLES; t += 9) {
    double p[3], q[3];
    for (size_t k = 0; k < 3; ++k) {
      p[k] = t[3 + k] - t[k];
      q[k] = t[6 + k] - t[k];
    }
    sum += sqrt(pow(p[1] * q[2] - p[2] * q[1], 2) + pow(p[2] * q[0] - p[0] * q[2], 2) + pow(p[0] * q[1] - p[1] * q[0], 2)) / 2;
  }
  ok(pn_faces_measure(b, 1, &face, &m, &exact));
  if (fabs(m - sum) > 1e-12)
    print_error("%.17g instead of %.17g\n", m, sum);
  assert_true(exact && fabs(m - sum) < 1e-12);
  assert_int_equal(place(b, 16), 16); /* most triangles get none: weights m / 16 sum to m all the same */
  assert_int_equal(place(b, MANY), MANY);
  size_t up = 0;
  for (size_t i = 0; i < MANY; ++i) {
    double out[3], in[3];
    for (size_t k = 0; k < 3; ++k) {
      out[k] = x[3 * i + k] + 1e-6 * normal[3 * i + k];
      in[k] = x[3 * i + k] - 1e-6 * normal[3 * i + k];
    }
    assert_true(pn_body_inside(b, in) && !pn_body_inside(b, out));
    assert_true(fabs(pn_body_distance(b, out) - 1e-6) < 1e-12);
    up += x[3 * i + 2] > 0.3 + 0.5; /* a spherical cap of a quarter of the area, nearly */
  }
  assert_true(fabs((double)up / MANY - 0.25) < 0.01);
  double at[] = {0.1, 0.2, 0.3}, far[] = {9, 9, 9};
  assert_true(pn_body_inside(b, at) && !pn_body_inside(b, far));
  assert_true(fabs(pn_body_distance(b, far) + 1 - sqrt(8.9 * 8.9 + 8.8 * 8.8 + 8.7 * 8.7)) < 0.02);
}

static void turned_triangles_are_the_same_body(void **state) {
  double turned[9 * TRIANGLES], m = 0, n = 0;
  pn_body *a = NULL, *b = NULL;
  bool exact = false;
  for (size_t t = 0; t < TRIANGLES; ++t)
    for (size_t k = 0; k < 3; ++k)
      memcpy(turned + 9 * t + 3 * k, sphere + 9 * t + 3 * (2 - k), 3 * sizeof *turned);
  ok(pn_body_surface(*state, TRIANGLES, sphere, 4, &a));
  ok(pn_body_surface(*state, TRIANGLES, turned, 4, &b));
  ok(pn_body_measure(a, &m, &exact));
  ok(pn_body_measure(b, &n, &exact));
  assert_true(exact && m > 4 && fabs(m - n) < 1e-13);
  assert_true(pn_body_inside(b, (double[]){0.1, 0.2, 0.3}));
}

static void write_file(const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

static void stl_files_give_their_triangles(void **state) {
  static unsigned char binary[84 + 50 * TRIANGLES];
  const char *path = "test_geometry.stl";
  double *v = NULL;
  size_t n = 0;
  pn_body *b = NULL;
  memcpy(binary, "solid it is not", 15);
  for (size_t k = 0; k < 4; ++k)
    binary[80 + k] = (unsigned char)((size_t)TRIANGLES >> 8 * k);
  for (size_t i = 0; i < 9 * TRIANGLES; ++i) {
    float f = (float)sphere[i];
    memcpy(binary + 84 + 50 * (i / 9) + 12 + 4 * (i % 9), &f, 4);
  }
  write_file(path, binary, sizeof binary);
  ok(pn_stl_read(path, &n, &v));
  assert_int_equal(n, TRIANGLES);
  assert_true(v[100] == (double)(float)sphere[100]);
  ok(pn_body_surface(*state, n, v, 0, &b));
  tn_free(&v);
  memcpy(binary + 84 + 50 + 12, &(float){NAN}, 4);
  write_file(path, binary, sizeof binary);
  assert_int_equal(pn_stl_read(path, &n, &v), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "triangle 2"));
  const char *text = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1e-1 0\nendloop\nendfacet\nendsolid";
  write_file(path, text, strlen(text));
  ok(pn_stl_read(path, &n, &v));
  assert_true(n == 1 && v[7] == 0.1);
  tn_free(&v);
  text = "facet\nvertex 0 nan 0\n";
  write_file(path, text, strlen(text));
  assert_int_equal(pn_stl_read(path, &n, &v), TN_EINPUT);
  write_file(path, "", 0);
  assert_int_equal(pn_stl_read(path, &n, &v), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "no triangles"));
  assert_null(v);
  unlink(path);
  assert_int_equal(pn_stl_read("no such file.stl", &n, &v), TN_EIO);
  assert_int_equal(pn_body_surface(*state, TRIANGLES - 1, sphere, 0, &b), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "open"));
  assert_int_equal(pn_body_surface(*state, 0, sphere, 0, &b), TN_EINPUT);
}

static void clouds_are_sampled_from_themselves(void **state) {
  enum { N = 400, M = 64 };
  double inner[2 * N], rim[2 * M], out[2 * M], pi = acos(-1.0), m = 0;
  pn_body *b = NULL;
  size_t face = 0, hits = 0;
  bool exact = true, in[N];
  for (size_t i = 0; i < N; ++i) { /* a disc of radius 2 as a spiral of equal areas */
    double r = 2 * sqrt(((double)i + 0.5) / N), q = pi * (3 - sqrt(5)) * (double)i;
    inner[2 * i] = r * cos(q);
    inner[2 * i + 1] = r * sin(q);
  }
  for (size_t i = 0; i < M; ++i) {
    out[2 * i] = cos(2 * pi * (double)i / M);
    out[2 * i + 1] = sin(2 * pi * (double)i / M);
    rim[2 * i] = 2 * out[2 * i];
    rim[2 * i + 1] = 2 * out[2 * i + 1];
  }
  ok(pn_body_cloud(*state, 2, N, inner, M, rim, out, 0, &b));
  ok(pn_faces_measure(b, 1, &face, &m, &exact));
  assert_true(!exact && fabs(m - 2 * M * 2 * sin(pi / M)) < 1e-12); /* chords */
  ok(pn_body_measure(b, &m, &exact));
  assert_true(!exact && fabs(m - 4 * pi) < 0.03 * 4 * pi);
  ok(pn_sobol(2, tn_stream_of(1, "cloud"), 0, 256, u));
  ok(pn_body_place(b, 256, u, x, in));
  for (size_t i = 0; i < 256; ++i)
    for (size_t k = 0; k < N; ++k)
      hits += memcmp(x + 2 * i, inner + 2 * k, 2 * sizeof *x) == 0;
  assert_int_equal(hits, 256);
  for (size_t i = 0; i < 256; ++i) { /* strata of Sobol points are wider than the share of one: at most two */
    size_t same = 0;
    for (size_t k = 0; k < 256; ++k)
      same += memcmp(x + 2 * i, x + 2 * k, 2 * sizeof *x) == 0;
    assert_true(same <= 2);
  }
  assert_int_equal(place(b, 64), 64);
  assert_int_equal(pn_body_cloud(*state, 2, 0, inner, 0, NULL, NULL, 0, &b), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "0 points"));
  inner[7] = NAN;
  assert_int_equal(pn_body_cloud(*state, 2, N, inner, 0, NULL, NULL, 0, &b), TN_EINPUT);
}

static tn_status in_ball(const void *context, const double *at, bool *inside) {
  const double *size = context;
  double sum = 0;
  for (size_t k = 0; k < (size_t)size[1]; ++k)
    sum += at[k] * at[k];
  *inside = sum < size[0] * size[0];
  return TN_OK;
}

static void implicit_bodies_are_what_their_predicate_says(void **state) {
  double pi = acos(-1.0);
  for (size_t d = 2; d <= 3; ++d) {
    double size[] = {0.8, (double)d}, from[] = {-1, -1.2, -1}, to[] = {1, 1, 1}, m = 0;
    pn_body *b = NULL;
    size_t face = 0, right = 0;
    bool exact = true;
    ok(pn_body_implicit(*state, d, from, to, in_ball, size, 0, &b));
    ok(pn_body_measure(b, &m, &exact));
    assert_true(!exact && fabs(m - (d == 2 ? pi * 0.64 : 4 * pi / 3 * 0.512)) < 5e-3);
    ok(pn_faces_measure(b, 1, &face, &m, &exact));
    assert_true(!exact && fabs(m - (d == 2 ? 1.6 * pi : 4 * pi * 0.64)) < 2e-2 * m);
    size_t count = place(b, MANY);
    assert_true(count > MANY / 16);
    for (size_t i = 0; i < MANY; ++i)
      for (size_t k = 0; k < d && on[i]; ++k) {
        assert_true(fabs(x[d * i + k] / 0.8 - normal[d * i + k]) < 1e-6);
        right += k == 0 && x[d * i] > 0.4; /* of a circle a third, of a sphere a quarter */
      }
    double share = d == 2 ? 1 / 3.0 : 0.25;
    assert_true(fabs((double)right - share * (double)count) < 5 * sqrt(share * (double)count));
  }
}

static void distances_are_those_of_the_nearest_surface_point(void **state) {
  pn_body *list[6] = {0};
  ok(pn_body_ellipsoid(*state, 3, (double[]){0, 0, 0}, (double[]){1, 0.6, 0.3}, 0, &list[0]));
  ok(pn_body_cone(*state, (double[]){0, 0, -0.5}, (double[]){0, 0.3, 0.5}, 0.7, 0.2, 0, &list[1]));
  ok(pn_body_torus(*state, (double[]){0, 0, 0}, (double[]){1, 1, 1}, 0.7, 0.25, 0, &list[2]));
  ok(pn_body_box(*state, 3, (double[]){-0.5, -0.4, -0.3}, (double[]){0.5, 0.6, 0.2}, 0, &list[3]));
  ok(pn_body_rotate(*state, list[3], 40, NULL, (double[]){1, 2, 3}, &list[4]));
  ok(pn_body_polygon(*state, 6, (double[]){0, 0, 1, 0, 1, -1, -1, -1, -1, 1, 0, 1}, 0, &list[5]));
  for (size_t j = 0; j < 6; ++j) {
    const pn_face *faces = NULL;
    size_t n = pn_body_faces(list[j], &faces), all[] = {0, 1, 2, 3, 4, 5}, d = pn_body_dimensions(list[j]);
    double query[3 * 32], spread = d == 2 ? 0.02 : 0.09;
    ok(pn_sobol(d, tn_stream_of(3, "far"), 0, MANY, u));
    ok(pn_faces_place(list[j], n, all, MANY, u, x, normal, on));
    ok(pn_sobol(d, tn_stream_of(4, "query"), 0, 32, query));
    for (size_t q = 0; q < 32; ++q) {
      double best = INFINITY;
      for (size_t k = 0; k < d; ++k)
        query[q * d + k] = 3 * query[q * d + k] - 1.5;
      for (size_t i = 0; i < MANY; ++i) {
        double sum = 0;
        for (size_t k = 0; k < d; ++k)
          sum += pow(x[i * d + k] - query[q * d + k], 2);
        best = on[i] ? fmin(best, sqrt(sum)) : best;
      }
      double found = pn_body_distance(list[j], query + q * d);
      assert_true((found < 0) == pn_body_inside(list[j], query + q * d));
      assert_true(fabs(found) <= best + 1e-12 && fabs(found) >= best - spread);
    }
  }
}

static void points_are_uniform_over_faces(void **state) {
  /* A scaled torus by octants: symmetric, so an eighth each. An ellipse, whose lengths do not grow evenly, against the
   * share of its perimeter. A triangle's edges against their lengths. */
  pn_body *b = NULL;
  const pn_face *faces = NULL;
  size_t all[] = {0, 1, 2}, count[8] = {0}, kept = 0, edge[3] = {0};
  ok(pn_body_torus(*state, (double[]){0, 0, 0}, (double[]){0, 0, 1}, 1, 0.4, 0, &b));
  ok(pn_body_scale(*state, b, (double[]){3, 1, 1}, NULL, &b));
  kept = place(b, MANY);
  for (size_t i = 0; i < MANY; ++i)
    count[(x[3 * i] > 0) + 2 * (x[3 * i + 1] > 0) + 4 * (x[3 * i + 2] > 0)] += on[i];
  for (size_t i = 0; i < 8; ++i)
    assert_true(fabs((double)count[i] - (double)kept / 8) < 5 * sqrt((double)kept / 8));
  double arc[2] = {0}, pi = acos(-1.0), tips = 0;
  for (size_t i = 0; i < 40000; ++i) {
    double q = 2 * pi * ((double)i + 0.5) / 40000;
    arc[fabs(3 * cos(q)) > 2.5] += hypot(3 * sin(q), cos(q));
  }
  ok(pn_body_ball(*state, 2, (double[]){0, 0}, 1, 0, &b));
  ok(pn_body_scale(*state, b, (double[]){3, 1}, NULL, &b));
  kept = place(b, MANY);
  for (size_t i = 0; i < MANY; ++i)
    tips += on[i] && fabs(x[2 * i]) > 2.5;
  assert_true(fabs(tips / (double)kept - arc[1] / (arc[0] + arc[1])) < 5e-3);
  ok(pn_body_polygon(*state, 3, (double[]){0, 0, 4, 0, 0, 3}, 0, &b));
  assert_int_equal(pn_body_faces(b, &faces), 3);
  ok(pn_sobol(2, tn_stream_of(7, "edges"), 0, MANY, u));
  ok(pn_faces_place(b, 3, all, MANY, u, x, normal, on));
  double chi = 0, length[] = {4, 5, 3};
  for (size_t i = 0; i < MANY; ++i)
    ++edge[x[2 * i + 1] == 0 ? 0 : x[2 * i] == 0 ? 2 : 1];
  for (size_t i = 0; i < 3; ++i) {
    double expected = MANY * length[i] / 12;
    assert_true(faces[i].measure == length[i]);
    chi += ((double)edge[i] - expected) * ((double)edge[i] - expected) / expected;
  }
  assert_true(chi < 13.8); /* 0.1 % of two degrees of freedom */
}

static void same_numbers_give_the_same_bits(void **state) {
  static double again[MANY * 3];
  for (int turn = 0; turn < 2; ++turn) {
    pn_body *a = NULL, *b = NULL;
    ok(pn_body_box(*state, 3, (double[]){0, 0, 0}, (double[]){1, 1, 1}, 0, &a));
    ok(pn_body_ellipsoid(*state, 3, (double[]){1, 1, 1}, (double[]){0.5, 0.4, 0.3}, 1, &b));
    ok(pn_body_join(*state, PN_DIFFERENCE, a, b, &a));
    size_t all[] = {0, 1, 2, 3, 4, 5, 6};
    ok(pn_sobol(3, tn_stream_of(7, "bits"), 0, MANY, u));
    ok(pn_faces_place(a, 7, all, MANY, u, turn ? again : x, normal, on));
  }
  assert_memory_equal(again, x, sizeof x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(triangles_sum_to_their_area),
      cmocka_unit_test(turned_triangles_are_the_same_body),
      cmocka_unit_test(stl_files_give_their_triangles),
      cmocka_unit_test(clouds_are_sampled_from_themselves),
      cmocka_unit_test(implicit_bodies_are_what_their_predicate_says),
      cmocka_unit_test(distances_are_those_of_the_nearest_surface_point),
      cmocka_unit_test(points_are_uniform_over_faces),
      cmocka_unit_test(same_numbers_give_the_same_bits),
  };
  return cmocka_run_group_tests(tests, setup, geometry_teardown);
}
