/* test_structure.c: structural operations against plain loops, and their reverse rules against the adjoint law.
 *
 * Values: a case builds y from the leaf x, and says by a plain function which element of x each element of y is
 * (SUMS: a list of them). Moving values must be exact; sums of at most 24 numbers of size 1 may round 24 times.
 * Law: <J v, w> = <v, J^T w> for random v and w, J v by forward and J^T w by reverse mode. Both sides are sums of
 * at most 1000 * 24 products of numbers below 1, of random signs; a relative tolerance against the sum of absolute
 * values is (number of terms) * u, far below 1e-10 (f64) and about 2e-3 at worst (f32); we ask for sqrt-like 1e-13
 * and 1e-5 of the absolute sum, which a wrong element misses by orders of magnitude.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const size_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 129, 1000};
enum { N_SIZES = sizeof sizes / sizeof *sizes, WIDEST = 96, MOST = 1000 };

/* Numbers in (-1, 1), exact in f32, so that both dtypes hold the same ones. */
static double *draw(const char *name, size_t n) {
  tn_stream stream = tn_stream_of(17, name);
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = (float)(2 * tn_random_uniform(stream, i) - 1);
  return x;
}

static tn_value bound(bench *b, const char *name, tn_dtype dtype, tn_shape shape, size_t points,
                      const double *x) {
  tn_value leaf = tn_input(b->graph, name, dtype, shape);
  size_t extent[TN_MAX_RANK];
  for (uint32_t i = 0; i < shape.rank; ++i)
    extent[i] = shape.axis[i] ? points : shape.extent[i];
  tn_buffer *buffer = NULL;
  assert_int_equal(tn_buffer_new(dtype, shape.rank, extent, &buffer), TN_OK);
  assert_int_equal(tn_convert(tn_buffer_count(buffer), TN_F64, x, dtype, tn_map(buffer, TN_WRITE)),
                   TN_OK);
  tn_unmap(buffer);
  assert_int_equal(tn_bind(leaf, buffer), TN_OK);
  tn_buffer_release(&buffer);
  return leaf;
}

static size_t elements(tn_value v, size_t points) {
  tn_shape shape = tn_shape_of(v);
  return tn_shape_width(&shape) * (tn_shape_batched(&shape) ? points : 1);
}

static double dot(size_t n, const double *a, const double *b, double *absolute) {
  double sum = 0;
  *absolute = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += a[i] * b[i];
    *absolute += fabs(a[i] * b[i]);
  }
  return sum;
}

/* <J v, w> = <v, J^T w>, y by the n_x values x. */
static void adjoint_law_to(int line, bench *b, size_t points, tn_value y, size_t n_x,
                           const tn_value *x, double tolerance) {
  tn_value xdot[8], ydot, xbar[8], read[18];
  size_t m = elements(y, points);
  double *w = draw("w", m), *v[8], left, right = 0, size, absolute;
  tn_value ybar = bound(b, "ybar", tn_dtype_of(y), tn_shape_of(y), points, w);
  for (size_t i = 0; i < n_x; ++i) {
    char name[32];
    snprintf(name, sizeof name, "v%zu", i);
    v[i] = draw(name, elements(x[i], points));
    xdot[i] = bound(b, name, tn_dtype_of(x[i]), tn_shape_of(x[i]), points, v[i]);
  }
  assert_int_equal(ag_jvp(n_x, x, xdot, 1, &y, &ydot), TN_OK);
  assert_int_equal(ag_vjp(1, &y, &ybar, n_x, x, xbar), TN_OK);
  read[0] = ydot;
  memcpy(read + 1, xbar, n_x * sizeof *xbar);
  if (tn_eval(1 + n_x, read) != TN_OK)
    fail_msg("line %d: %s", line, tn_error_text());
  double *numbers_of = malloc((m + 1) * sizeof *numbers_of);
  assert_int_equal(tn_read(ydot, m, numbers_of), TN_OK);
  left = dot(m, numbers_of, w, &size);
  free(numbers_of);
  for (size_t i = 0; i < n_x; ++i) {
    size_t n = elements(x[i], points);
    tn_shape got = tn_shape_of(xbar[i]), want = tn_shape_of(x[i]);
    assert_true(tn_shape_equal(&got, &want));
    assert_int_equal(tn_dtype_of(xbar[i]), tn_dtype_of(x[i]));
    double *bar = malloc((n + 1) * sizeof *bar);
    assert_int_equal(tn_read(xbar[i], n, bar), TN_OK);
    right += dot(n, bar, v[i], &absolute);
    size = fmax(size, absolute);
    free(bar);
    free(v[i]);
  }
  free(w);
  if (!(fabs(left - right) <= tolerance * size))
    fail_msg("line %d: <Jv, w> = %.17g, <v, J^T w> = %.17g, size %g, %zu points", line, left, right,
             size, points);
}
static void adjoint_law_at(int line, bench *b, size_t points, tn_value y, size_t n_x,
                           const tn_value *x) {
  bool high = tn_dtype_of(y) == TN_F64 && tn_dtype_of(x[0]) == TN_F64;
  adjoint_law_to(line, b, points, y, n_x, x, high ? 1e-13 : 1e-5);
}
#define ADJOINT(y, n, x) adjoint_law_at(__LINE__, b, points, y, n, x)
#define ADJOINT_LOW(y, n, x)                                                                       \
  adjoint_law_to(__LINE__, b, points, y, n, x, 1e-5) /* f64 by way of f32 */

/* A case: y of x [points, width], and the elements of x that make element e of a row of y: from[0 .. count). */
typedef size_t (*origin)(size_t e, size_t *from);

/* Evaluates y with a point axis (x: [N, ...]) and compares with the plain loop; then the adjoint law. */
static void moves_at(int line, bench *b, size_t points, tn_value x, const double *data, tn_value y,
                     origin of) {
  size_t rows = tn_shape_of(x).axis[0] ? points : 1, from[WIDEST];
  tn_shape sx = tn_shape_of(x), sy = tn_shape_of(y);
  size_t wx = tn_shape_width(&sx), wy = tn_shape_width(&sy);
  if (!tn_ok(y))
    fail_msg("line %d: %s", line, tn_graph_error(b->graph) ? tn_error_text() : "?");
  double *got = malloc(rows * wy * sizeof *got), u = tn_dtype_roundoff(tn_dtype_of(y));
  if (tn_eval(1, &y) != TN_OK)
    fail_msg("line %d: %s", line, tn_error_text());
  assert_int_equal(tn_read(y, rows * wy, got), TN_OK);
  for (size_t r = 0; r < rows; ++r)
    for (size_t e = 0; e < wy; ++e) {
      size_t n = of(e, from);
      double want = 0;
      for (size_t k = 0; k < n; ++k)
        want += data[r * wx + from[k]];
      double tolerance = n > 1 ? (double)(n * n) * u : 0;
      if (!(fabs(got[r * wy + e] - want) <= tolerance))
        fail_msg("line %d: row %zu element %zu is %.17g, expected %.17g (%zu points)", line, r, e,
                 got[r * wy + e], want, points);
    }
  free(got);
  adjoint_law_at(line, b, points, y, 1, &x);
}
#define MOVES(y, of) moves_at(__LINE__, b, points, x, data, y, of)

/* Every case below works on x of fixed part [2, 3, 4] (24 numbers, rank 3) with a point axis, or without. */
static size_t sum_first(size_t e, size_t *from) { return from[0] = e, from[1] = 12 + e, 2; }
static size_t sum_middle(size_t e, size_t *from) {
  for (size_t k = 0; k < 3; ++k)
    from[k] = e / 4 * 12 + k * 4 + e % 4;
  return 3;
}
static size_t sum_last(size_t e, size_t *from) {
  for (size_t k = 0; k < 4; ++k)
    from[k] = e * 4 + k;
  return 4;
}
static size_t swap_first_last(size_t e, size_t *from) { /* [4, 3, 2] */
  size_t i = e / 6, j = e / 2 % 3, l = e % 2;
  return from[0] = (l * 3 + j) * 4 + i, 1;
}
static size_t swap_last_two(size_t e, size_t *from) { /* [2, 4, 3] */
  size_t i = e / 12, l = e / 3 % 4, j = e % 3;
  return from[0] = (i * 3 + j) * 4 + l, 1;
}
static size_t swap_first_two(size_t e, size_t *from) { /* [3, 2, 4] */
  size_t j = e / 8, i = e / 4 % 2, l = e % 4;
  return from[0] = (i * 3 + j) * 4 + l, 1;
}
static size_t same(size_t e, size_t *from) { return from[0] = e, 1; }
static size_t slice_middle(size_t e, size_t *from) { /* rows 1 and 2 of 3 */
  return from[0] = e / 8 * 12 + 4 + e % 8, 1;
}
static size_t slice_last(size_t e, size_t *from) { return from[0] = e / 2 * 4 + 1 + e % 2, 1; }
static size_t slice_first(size_t e, size_t *from) { return from[0] = 12 + e, 1; }
static size_t pad_last(size_t e, size_t *from) { /* 1 before, 2 after: 7 */
  size_t l = e % 7;
  return from[0] = e / 7 * 4 + l - 1, l >= 1 && l < 5;
}
static size_t pad_middle(size_t e, size_t *from) { /* 2 before, 0 after: 5 */
  size_t j = e / 4 % 5;
  return from[0] = e / 20 * 12 + (j - 2) * 4 + e % 4, j >= 2;
}
static size_t repeat_first(size_t e, size_t *from) {
  return from[0] = e % 24, 1;
} /* [3, 2, 3, 4]: no points */
static size_t repeat_end(size_t e, size_t *from) { return from[0] = e / 5, 1; } /* [..., 5] */
static size_t all_sum(size_t e, size_t *from) {
  (void)e;
  for (size_t k = 0; k < 24; ++k)
    from[k] = k;
  return 24;
}
static size_t pair_middle(size_t e, size_t *from) { /* concat x, x along the middle: [2, 6, 4] */
  return from[0] = e / 24 * 12 + e % 12, 1;
}

static tn_shape fixed_with(bench *b, bool batched, size_t rank, size_t one, size_t two,
                           size_t three) {
  tn_shape shape = {.rank = (uint32_t)rank + batched};
  size_t extent[3] = {one, two, three};
  if (batched)
    shape.axis[0] = b->axis;
  for (size_t i = 0; i < rank; ++i)
    shape.extent[i + batched] = extent[i];
  return shape;
}

static void all_moves(bench *b, size_t points, bool batched) {
  double *data = draw("x", points * 24);
  size_t o = batched; /* number of the first fixed axis */
  tn_value x = bound(b, "x", b->dtype, fixed_with(b, batched, 3, 2, 3, 4), points, data);
  MOVES(tn_sum(x, o), sum_first);
  MOVES(tn_sum(x, o + 1), sum_middle);
  MOVES(tn_sum(x, o + 2), sum_last);
  MOVES(tn_sum(tn_sum(tn_sum(x, o), o), o), all_sum);
  MOVES(tn_transpose(x, o, o + 2), swap_first_last);
  MOVES(tn_transpose(x, o + 2, o), swap_first_last);
  MOVES(tn_transpose(x, o + 1, o + 2), swap_last_two);
  MOVES(tn_transpose(x, o, o + 1), swap_first_two);
  MOVES(tn_reshape(x, fixed_with(b, batched, 2, 4, 6, 0)), same);
  MOVES(tn_reshape(x, fixed_with(b, batched, 1, 24, 0, 0)), same);
  MOVES(tn_slice(x, o + 1, 1, 2), slice_middle);
  MOVES(tn_slice(x, o + 2, 1, 2), slice_last);
  MOVES(tn_slice(x, o, 1, 1), slice_first);
  MOVES(tn_pad(x, o + 2, 1, 2), pad_last);
  MOVES(tn_pad(x, o + 1, 2, 0), pad_middle);
  MOVES(tn_concat(2, (tn_value[]){x, x}, o + 1), pair_middle);
  MOVES(tn_cast(tn_cast(x, TN_F32), TN_F64), same); /* the numbers are exact in f32 */
  MOVES(tn_cast(tn_cast(x, TN_F64), TN_F32), same);
  if (!batched) {
    MOVES(tn_expand(x, 0, 0, 3), repeat_first);
    MOVES(tn_expand(x, 3, 0, 5), repeat_end);
    MOVES(tn_broadcast(x, tn_shape_fixed(4, (size_t[]){5, 2, 3, 4})), repeat_first);
  } else {
    tn_value flat = tn_reshape(x, fixed_with(b, true, 1, 24, 0, 0));
    MOVES(tn_expand(flat, 2, 0, 5), repeat_end);
    MOVES(tn_expand(flat, 1, 0, 3), repeat_first);
    MOVES(tn_broadcast(flat, (tn_shape){.rank = 3, .axis = {b->axis}, .extent = {0, 3, 24}}),
          repeat_first);
  }
  free(data);
}

static void in_dtype(tn_dtype dtype, void (*run)(bench *b, size_t points)) {
  for (size_t s = 0; s < N_SIZES; ++s) {
    bench b;
    bench_open(&b, dtype);
    run(&b, sizes[s]);
    bench_close(&b);
  }
}
static void in_both(void (*run)(bench *b, size_t points)) {
  in_dtype(TN_F64, run);
  in_dtype(TN_F32, run);
}

static void run_moves(bench *b, size_t points) { all_moves(b, points, true); }
static void moves_over_points_are_exact(void **state) {
  (void)state;
  in_both(run_moves);
}

static void moves_without_points_are_exact(void **state) {
  (void)state;
  for (int f32 = 0; f32 < 2; ++f32) {
    bench b;
    bench_open(&b, f32 ? TN_F32 : TN_F64);
    all_moves(&b, 1, false);
    bench_close(&b);
  }
}

/* Sums over points against long double, to n u; and what an expansion over points gives back. */
static void run_sums(bench *b, size_t points) {
  enum { W = 5 };
  double *data = draw("x", points * W), *row = draw("row", W), got[W],
         *all = malloc(points * W * sizeof *all);
  double u = tn_dtype_roundoff(b->dtype);
  tn_value x = bound(b, "x", b->dtype, tn_shape_batch(b->axis, W), points, data);
  tn_value v = bound(b, "v", b->dtype, tn_shape_fixed(1, (size_t[]){W}), points, row);
  tn_value sum = tn_sum(x, 0), wide = tn_expand(v, 0, b->axis, 0), both = tn_mul(wide, x);
  numbers(sum, W, got);
  for (size_t j = 0; j < W; ++j) {
    long double want = 0;
    for (size_t i = 0; i < points; ++i)
      want += data[i * W + j];
    /* lanes, folds, groups and the tree: at most panels + lanes + groups additions deep, below 200 */
    assert_true(fabsl(got[j] - want) <= 200 * u * (long double)points);
  }
  tn_value outputs[2] = {both, wide};
  assert_int_equal(tn_eval(2, outputs), TN_OK);
  assert_int_equal(tn_read(wide, points * W, all), TN_OK);
  for (size_t i = 0; i < points * W; ++i)
    assert_true(all[i] == row[i % W]);
  tn_value leaves[2] = {x, v};
  ADJOINT(sum, 1, &x);
  ADJOINT(tn_sum_all(x), 1, &x);
  ADJOINT(tn_mean(x), 1, &x);
  ADJOINT(wide, 1, &v);
  ADJOINT(both, 2, leaves);
  ADJOINT(tn_sum(both, 0), 2, leaves);
  ADJOINT(tn_expand(tn_sum(both, 0), 0, b->axis, 0), 2, leaves);
  double mean, count;
  numbers(tn_mean(x), 1, &mean);
  numbers(tn_mul(tn_count(b->graph, b->dtype, b->axis),
                 tn_sum_all(tn_fill(b->graph, b->dtype, tn_shape_points(b->axis), 1))),
          1, &count);
  assert_true(count == (double)(points * points)); /* whole numbers below 2^24 are exact */
  free(data);
  free(row);
  free(all);
}
static void sums_over_points_agree(void **state) {
  (void)state;
  in_both(run_sums);
}

/* A mask moves as values do, and `where` follows it. */
static void run_masks(bench *b, size_t points) {
  double *data = draw("x", points * 6), *got = malloc(points * 6 * sizeof *got);
  tn_value x = bound(b, "x", b->dtype, tn_shape_batch(b->axis, 6), points, data);
  tn_value m = tn_gt(x, k(b, 0)), low = tn_slice(m, 1, 0, 3), high = tn_slice(m, 1, 3, 3);
  tn_value flipped = tn_concat(2, (tn_value[]){high, low}, 1);
  tn_value y = tn_where(tn_both(flipped, tn_not(m)), x, tn_neg(x));
  numbers(y, points * 6, got);
  for (size_t i = 0; i < points * 6; ++i) {
    size_t other = i / 6 * 6 + (i % 6 + 3) % 6;
    assert_true(got[i] == (data[other] > 0 && !(data[i] > 0) ? data[i] : -data[i]));
  }
  numbers(tn_either(flipped, m), points * 6, got);
  for (size_t i = 0; i < points * 6; ++i)
    assert_true(got[i] == (data[i / 6 * 6 + (i % 6 + 3) % 6] > 0 || data[i] > 0));
  tn_value scalar_mask = tn_lt(k(b, 0), k(b, 1)), one[1] = {x};
  numbers(tn_where(scalar_mask, x, k(b, 7)), points * 6, got);
  for (size_t i = 0; i < points * 6; ++i)
    assert_true(got[i] == data[i]);
  ADJOINT(y, 1, one);
  free(data);
  free(got);
}
static void masks_move_like_values(void **state) {
  (void)state;
  in_both(run_masks);
}

/* Widths that differ between the parts, more parts than any fixed array holds, a new last axis. */
static void run_joins(bench *b, size_t points) {
  double *data[3], *got = malloc(points * 70 * sizeof *got);
  const size_t width[3] = {1, 5, 2};
  tn_value x[3], many[70];
  for (size_t q = 0; q < 3; ++q) {
    char name[32];
    snprintf(name, sizeof name, "x%zu", q);
    data[q] = draw(name, points * width[q]);
    x[q] = bound(b, name, b->dtype, tn_shape_batch(b->axis, width[q]), points, data[q]);
  }
  tn_value joined = tn_concat(3, x, 1);
  numbers(joined, points * 8, got);
  for (size_t i = 0; i < points; ++i)
    for (size_t e = 0; e < 8; ++e) {
      size_t q = e < 1 ? 0 : e < 6 ? 1 : 2, first = q == 0 ? 0 : q == 1 ? 1 : 6;
      assert_true(got[i * 8 + e] == data[q][i * width[q] + e - first]);
    }
  ADJOINT(joined, 3, x);
  for (size_t q = 0; q < 70; ++q)
    many[q] = tn_slice(x[1], 1, q % 5, 1);
  tn_value wide = tn_concat(70, many, 1), deep = tn_stack(70, many), narrow[2] = {many[0], many[3]};
  numbers(wide, points * 70, got);
  for (size_t i = 0; i < points * 70; ++i)
    assert_true(got[i] == data[1][i / 70 * 5 + i % 70 % 5]);
  numbers(deep, points * 70, got);
  for (size_t i = 0; i < points * 70; ++i)
    assert_true(got[i] == data[1][i / 70 * 5 + i % 70 % 5]);
  ADJOINT(wide, 1, &x[1]);
  ADJOINT(deep, 1, &x[1]);
  ADJOINT(tn_stack(2, narrow), 1, &x[1]);
  tn_value pair[2] = {x[1], tn_square(x[1])};
  tn_value stacked = tn_stack(2, pair); /* [N, 5, 2] */
  numbers(stacked, points * 10, got);
  for (size_t i = 0; i < points * 5; ++i) {
    assert_true(got[2 * i] == data[1][i]);
    double square = data[1][i] * data[1][i];
    assert_true(got[2 * i + 1] == (b->dtype == TN_F32 ? (float)square : square));
  }
  ADJOINT(stacked, 1, &x[1]);
  for (size_t q = 0; q < 3; ++q)
    free(data[q]);
  free(got);
}
static void joins_keep_their_parts_apart(void **state) {
  (void)state;
  in_both(run_joins);
}

/* A cast rounds once, to nearest; its reverse casts the cotangent back, also below a selection. */
static void run_casts(bench *b, size_t points) {
  double *data = draw("x", points * 3), *got = malloc(points * 3 * sizeof *got);
  for (size_t i = 0; i < points * 3; ++i)
    data[i] *= 1 + 0x1p-30; /* not a number of f32 */
  tn_value x = bound(b, "x", TN_F64, tn_shape_batch(b->axis, 3), points, data);
  tn_value low = tn_cast(x, TN_F32), back = tn_cast(tn_mul(low, low), TN_F64);
  assert_int_equal(tn_dtype_of(low), TN_F32);
  numbers(low, points * 3, got);
  for (size_t i = 0; i < points * 3; ++i)
    assert_true(got[i] == (float)data[i]);
  numbers(back, points * 3, got);
  for (size_t i = 0; i < points * 3; ++i)
    assert_true(got[i] == (float)((float)data[i] * (float)data[i]));
  ADJOINT(low, 1, &x);
  ADJOINT_LOW(back, 1, &x);
  ADJOINT_LOW(tn_mul(back, x), 1, &x);
  tn_value selected =
      tn_where(tn_gt(low, tn_const(b->graph, TN_F32, 0)), tn_cast(tn_square(x), TN_F32), low);
  ADJOINT(selected, 1, &x); /* a mask of f32 panels must not reach f64 values */
  double one;
  tn_value s = tn_cast(tn_const(b->graph, TN_F64, 1 + 0x1p-24 + 0x1p-40), TN_F32);
  numbers(s, 1, &one);
  assert_true(one == 1 + 0x1p-23);
  free(data);
  free(got);
}
static void casts_round_once(void **state) {
  (void)state;
  in_dtype(TN_F64, run_casts);
}

/* Products by a matrix: plain loops, transposed weights, biases, no points; all by the law. */
static void run_products(bench *b, size_t points) {
  enum { K = 5, M = 7 };
  double *data = draw("x", points * K), *w = draw("W", K * M), *c = draw("c", M),
         *got = malloc(points * M * sizeof *got);
  double u = tn_dtype_roundoff(b->dtype);
  tn_value x = bound(b, "x", b->dtype, tn_shape_batch(b->axis, K), points, data), leaves[3] = {x};
  tn_value W = leaves[1] = bound(b, "W", b->dtype, tn_shape_fixed(2, (size_t[]){K, M}), points, w);
  tn_value bias = leaves[2] = bound(b, "c", b->dtype, tn_shape_fixed(1, (size_t[]){M}), points, c);
  tn_value y = tn_linear(x, W, bias, false),
           turned = tn_linear(x, tn_transpose(W, 0, 1), bias, true);
  numbers(y, points * M, got);
  for (size_t i = 0; i < points; ++i)
    for (size_t j = 0; j < M; ++j) {
      double want = c[j];
      for (size_t q = 0; q < K; ++q)
        want += data[i * K + q] * w[q * M + j];
      assert_true(fabs(got[i * M + j] - want) <= 2 * (K + 1) * (K + 1) * u);
    }
  double *other = malloc(points * M * sizeof *other);
  numbers(turned, points * M, other);
  assert_memory_equal(got, other, points * M * sizeof *got); /* one order of operations */
  ADJOINT(y, 3, leaves);
  ADJOINT(turned, 3, leaves);
  ADJOINT(tn_matmul(W, tn_transpose(W, 0, 1)), 1, &W);
  ADJOINT(tn_linear(bias, W, (tn_value){0}, true), 3, leaves); /* [M] times [K, M] transposed */
  tn_value z[2] = {y, bias}, h[2] = {x, tn_sum(W, 1)};
  ADJOINT(tn_jet_outer(1, z, h), 3, leaves);
  ADJOINT(tn_jet_outer(2, z, h), 3, leaves); /* a pair with points, one without */
  tn_value mixed_z[2] = {y, y}, mixed_h[2] = {x, tn_sum(W, 1)};
  ADJOINT(tn_jet_outer(2, mixed_z, mixed_h), 3, leaves); /* one operand without points */
  tn_value rows = tn_transpose(W, 0, 1);                 /* [M, K] */
  ADJOINT(tn_jet_outer(1, &rows, &rows), 3, leaves);
  free(data);
  free(w);
  free(c);
  free(got);
  free(other);
}
static void products_agree_with_loops(void **state) {
  (void)state;
  in_both(run_products);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(moves_over_points_are_exact),
                                     cmocka_unit_test(moves_without_points_are_exact),
                                     cmocka_unit_test(sums_over_points_agree),
                                     cmocka_unit_test(masks_move_like_values),
                                     cmocka_unit_test(joins_keep_their_parts_apart),
                                     cmocka_unit_test(casts_round_once),
                                     cmocka_unit_test(products_agree_with_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
