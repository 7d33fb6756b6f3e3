/* test_sobol.c: scrambled points keep the even filling of Sobol's nets, exactly. */
#include "pinn/sobol.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { D = PN_SOBOL_DIMENSIONS, SEED = 20240613, MOST = 4096 };

static double points[MOST * D], others[MOST * D];
static unsigned char boxes[MOST];

static tn_stream stream_of(const char *name) { return tn_stream_of(SEED, name); }

static void draw(uint64_t first, size_t n, double *out) {
  assert_int_equal(pn_sobol(D, stream_of("points"), first, n, out), TN_OK);
}

static void points_lie_inside_the_cube(void **state) {
  (void)state;
  draw(0, MOST, points);
  for (size_t i = 0; i < (size_t)MOST * D; ++i) {
    double scaled = points[i] * 0x1p53;
    assert_true(points[i] > 0 && points[i] < 1);
    assert_true(fmod(scaled, 2) == 1); /* the middle of a cell of 2^-52 */
  }
}

static void aligned_block_has_one_point_in_each_strip(void **state) {
  (void)state;
  for (size_t size = 1; size <= MOST; size *= 2)
    for (uint64_t block = 0; block < 3; ++block) {
      uint64_t first =
          size * (block < 2 ? block : UINT64_C(0x123456789)); /* the last one is far out */
      draw(first, size, points);
      for (size_t j = 0; j < D; ++j) {
        memset(boxes, 0, sizeof boxes);
        for (size_t i = 0; i < size; ++i)
          boxes[(size_t)(points[i * D + j] * (double)size)] += 1;
        for (size_t b = 0; b < size; ++b)
          assert_int_equal(boxes[b], 1);
      }
    }
}

/* In the first two coordinates, 2^k points have one in each of the 2^a x 2^(k-a) boxes, for every
 * a. */
static void first_two_coordinates_fill_elementary_boxes(void **state) {
  (void)state;
  for (unsigned k = 0; k <= 12; ++k)
    for (uint64_t block = 0; block < 4; ++block) {
      const size_t size = (size_t)1 << k;
      draw(block * size, size, points);
      for (unsigned a = 0; a <= k; ++a) {
        memset(boxes, 0, sizeof boxes);
        for (size_t i = 0; i < size; ++i) {
          size_t row = (size_t)ldexp(points[i * D], (int)a);
          size_t column = (size_t)ldexp(points[i * D + 1], (int)(k - a));
          boxes[row << (k - a) | column] += 1;
        }
        for (size_t b = 0; b < size; ++b)
          assert_int_equal(boxes[b], 1);
      }
    }
}

/* A pair of coordinates with quality parameter t fills boxes of volume 2^(t - 12) evenly with 2^12
 * points; those of volume 2^-8 need t <= 4, which the direction numbers were chosen for. Wrong ones
 * easily put the points of some pair on a few lines. */
static void each_pair_of_coordinates_fills_boxes_evenly(void **state) {
  (void)state;
  draw(0, MOST, points);
  for (size_t a = 0; a < D; ++a)
    for (size_t b = 0; b < a; ++b) {
      memset(boxes, 0, sizeof boxes);
      for (size_t i = 0; i < MOST; ++i)
        boxes[(size_t)(points[i * D + a] * 16) * 16 + (size_t)(points[i * D + b] * 16)] += 1;
      for (size_t box = 0; box < 256; ++box)
        assert_int_equal(boxes[box], 16);
    }
}

/* Sobol's property A, which Joe and Kuo's direction numbers have: the first 2^d points have one in
 * each of the 2^d orthants of the first d coordinates, for every d. */
static void first_points_meet_each_orthant_once(void **state) {
  (void)state;
  static unsigned char orthants[1 << D];
  for (size_t d = 1; d <= D; ++d) {
    const size_t size = (size_t)1 << d, chunk = size < MOST ? size : MOST;
    memset(orthants, 0, sizeof orthants);
    for (size_t first = 0; first < size; first += chunk) {
      draw(first, chunk, points);
      for (size_t i = 0; i < chunk; ++i) {
        size_t orthant = 0;
        for (size_t j = 0; j < d; ++j)
          orthant = 2 * orthant + (points[i * D + j] > 0.5);
        orthants[orthant] += 1;
      }
    }
    for (size_t k = 0; k < size; ++k)
      assert_int_equal(orthants[k], 1);
  }
}

/* The mean of prod (1 + c (x_j - 1/2)) is 1. For independent points its deviation would be
 * sqrt(((1 + c^2/12)^d - 1) / n) = 0.012 with c = 1, d = 6, n = 4096... */
static double error_of_mean(const double *x, size_t stride, size_t d, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    double product = 1;
    for (size_t j = 0; j < d; ++j)
      product *= 1 + (x[i * stride + j] - 0.5);
    sum += product - 1;
  }
  return sum / (double)n;
}

/* ... of which scrambled points must leave less than a fiftieth, in root mean square over 16
 * streams. */
static void smooth_product_is_integrated_far_better_than_by_chance(void **state) {
  (void)state;
  enum { DIMENSIONS = 6, STREAMS = 16 };
  double squares = 0;
  for (int k = 0; k < STREAMS; ++k) {
    char name[32];
    snprintf(name, sizeof name, "stream %d", k);
    assert_int_equal(pn_sobol(DIMENSIONS, stream_of(name), 0, MOST, points), TN_OK);
    squares += pow(error_of_mean(points, DIMENSIONS, DIMENSIONS, MOST), 2);
  }
  const double by_chance = sqrt((pow(1 + 1.0 / 12, DIMENSIONS) - 1) / MOST);
  print_message("error %.2g, by chance %.2g\n", sqrt(squares / STREAMS), by_chance);
  assert_true(sqrt(squares / STREAMS) < by_chance / 50);
}

/* One fixed point under many scrambles is uniform: mean 1/2 with variance 1/12 each, and the
 * product of two centred coordinates has mean 0 with variance 1/144. Bounds are 5 deviations. */
static void scrambled_point_is_unbiased(void **state) {
  (void)state;
  enum { M = 4000 };
  double sum[2] = {0}, products = 0;
  for (unsigned k = 0; k < M; ++k) {
    double x[2];
    assert_int_equal(pn_sobol(2, tn_stream_of(k, "bias"), 5, 1, x), TN_OK);
    sum[0] += x[0] - 0.5;
    sum[1] += x[1] - 0.5;
    products += (x[0] - 0.5) * (x[1] - 0.5);
  }
  assert_true(fabs(sum[0]) < 5 * sqrt(M / 12.0) && fabs(sum[1]) < 5 * sqrt(M / 12.0));
  assert_true(fabs(products) < 5 * sqrt(M / 144.0));
}

static void point_depends_on_its_index_alone(void **state) {
  (void)state;
  const uint64_t start = 1000;
  draw(start, 300, points);
  draw(start, 300, others);
  assert_memory_equal(points, others, 300 * D * sizeof *points); /* the same bits again */
  for (uint64_t i = 0; i < 300; ++i) {
    double one[D];
    draw(start + (i * 77) % 300, 1, one);
    assert_memory_equal(one, points + (i * 77) % 300 * D, sizeof one);
  }
  double few[300 * 3];
  assert_int_equal(pn_sobol(3, stream_of("points"), start, 300, few), TN_OK);
  for (size_t i = 0; i < 300; ++i)
    assert_memory_equal(few + 3 * i, points + D * i, 3 * sizeof *few);
}

static void streams_give_different_points(void **state) {
  (void)state;
  assert_int_equal(pn_sobol(D, stream_of("a"), 0, 256, points), TN_OK);
  assert_int_equal(pn_sobol(D, stream_of("b"), 0, 256, others), TN_OK);
  for (size_t i = 0; i < (size_t)256 * D; ++i)
    assert_true(points[i] != others[i]);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  const uint64_t end = UINT64_C(1) << PN_SOBOL_BITS;
  assert_int_equal(pn_sobol(0, stream_of("a"), 0, 1, points), TN_ERANGE);
  assert_int_equal(pn_sobol(D + 1, stream_of("a"), 0, 1, points), TN_ERANGE);
  assert_int_equal(pn_sobol(1, stream_of("a"), end - 1, 2, points), TN_ERANGE);
  assert_int_equal(pn_sobol(1, stream_of("a"), UINT64_MAX, 2, points), TN_ERANGE);
  assert_int_equal(pn_sobol(1, stream_of("a"), end - 2, 2, points), TN_OK);
  assert_int_equal(pn_sobol(1, stream_of("a"), end, 0, NULL), TN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(points_lie_inside_the_cube),
      cmocka_unit_test(aligned_block_has_one_point_in_each_strip),
      cmocka_unit_test(first_two_coordinates_fill_elementary_boxes),
      cmocka_unit_test(each_pair_of_coordinates_fills_boxes_evenly),
      cmocka_unit_test(first_points_meet_each_orthant_once),
      cmocka_unit_test(smooth_product_is_integrated_far_better_than_by_chance),
      cmocka_unit_test(scrambled_point_is_unbiased),
      cmocka_unit_test(point_depends_on_its_index_alone),
      cmocka_unit_test(streams_give_different_points),
      cmocka_unit_test(bad_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
