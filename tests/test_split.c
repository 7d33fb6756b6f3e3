/* test_split.c: three products of a low format are one of f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autograd/autograd.h"

#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != TN_OK)                                                                           \
      fail_msg("%s", tn_error_text());                                                             \
  } while (0)

enum { POINTS = 33, K = 24, N = 16 };

typedef struct bench { /* y = h W + b and the gradient of sum(y^2) by W */
  tn_graph *graph;
  tn_value h, w, b, y, g;
  tn_buffer *hb, *wb, *bb;
  double hx[POINTS * K], wx[K * N], bx[N];
} bench;

static tn_buffer *buffer_of(size_t rank, const size_t *extent, size_t n, const double *x) {
  tn_buffer *buffer = NULL;
  OK(tn_buffer_new(TN_F32, rank, extent, &buffer));
  OK(tn_convert(n, TN_F64, x, TN_F32, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  return buffer;
}

/* Numbers of `size` with 24 bits. */
static void draw(const char *name, double size, size_t n, double *x) {
  for (size_t i = 0; i < n; ++i)
    x[i] = tn_round(TN_F32, size * tn_random_normal(tn_stream_of(3, name), i));
}

static void open_bench(bench *s, double h_size, double w_size) {
  *s = (bench){0};
  OK(tn_graph_new(&s->graph));
  tn_axis axis = tn_axis_new(s->graph, "points");
  s->h = tn_input(s->graph, "h", TN_F32, tn_shape_batch(axis, K));
  s->w = tn_parameter(s->graph, "W", TN_F32, tn_shape_fixed(2, (size_t[]){K, N}));
  s->b = tn_parameter(s->graph, "b", TN_F32, tn_shape_fixed(1, (size_t[]){N}));
  s->y = tn_linear(s->h, s->w, s->b, false);
  OK(ag_grad(tn_sum_all(tn_square(s->y)), 1, &s->w, &s->g));
  draw("h", h_size, POINTS * K, s->hx);
  draw("w", w_size, K * N, s->wx);
  draw("b", h_size * w_size, N, s->bx);
  s->hb = buffer_of(2, (size_t[]){POINTS, K}, POINTS * K, s->hx);
  s->wb = buffer_of(2, (size_t[]){K, N}, K * N, s->wx);
  s->bb = buffer_of(1, (size_t[]){N}, N, s->bx);
}

static void close_bench(bench *s) {
  tn_buffer_release(&s->hb);
  tn_buffer_release(&s->wb);
  tn_buffer_release(&s->bb);
  tn_graph_free(&s->graph);
}

static void run(bench *s, tn_value out, size_t n, double *x) {
  OK(tn_bind(s->h, s->hb));
  OK(tn_bind(s->w, s->wb));
  OK(tn_bind(s->b, s->bb));
  OK(tn_eval(1, &out));
  OK(tn_read(out, n, x));
}

/* |y - exact| over |h| |W| + |b|, the largest of all. */
static double error_of(const bench *s, const double *y) {
  double worst = 0;
  for (size_t p = 0; p < POINTS; ++p)
    for (size_t j = 0; j < N; ++j) {
      double sum = s->bx[j], size = fabs(s->bx[j]);
      for (size_t k = 0; k < K; ++k) {
        sum += s->hx[p * K + k] * s->wx[k * N + j];
        size += fabs(s->hx[p * K + k] * s->wx[k * N + j]);
      }
      worst = fmax(worst, fabs(y[p * N + j] - sum) / size);
    }
  return worst;
}

/* 3 u^2 are left out of each product; f32 adds 3 chains of k terms, two sums and u: 3 k + 4 roundings at most. */
static double promised(tn_dtype low, size_t k) {
  double u = tn_dtype_roundoff(low);
  return 3 * u * u + (double)(3 * k + 4) * 0x1p-24;
}

static void three_products_are_one_of_f32(void **state) {
  (void)state;
  static const tn_dtype low[] = {TN_TF32, TN_BF16, TN_F16};
  static const double sizes[][2] = {{1, 1}, {1e-2, 30}, {200, 1e-3}};
  for (size_t k = 0; k < 3; ++k)
    for (size_t i = 0; i < 3; ++i) {
      bench s;
      double y[POINTS * N], once[POINTS * N];
      open_bench(&s, sizes[i][0], sizes[i][1]);
      const ag_cast_policy policy = {.low = low[k]};
      tn_value split, cast;
      OK(ag_split(s.graph, &policy, 1, &s.y, &split));
      OK(ag_cast(s.graph, &policy, 1, &s.y, &cast));
      run(&s, split, POINTS * N, y);
      run(&s, cast, POINTS * N, once);
      print_message("%s, |h| %g, |W| %g: %.2g, one product %.2g, promised %.2g\n",
                    tn_dtype_name(low[k]), sizes[i][0], sizes[i][1], error_of(&s, y),
                    error_of(&s, once), promised(low[k], K));
      assert_true(error_of(&s, y) <= promised(low[k], K));
      assert_true(error_of(&s, once) > 8 * error_of(&s, y));
      close_bench(&s);
    }
}

/* g = 2 sum over points of h y: y is off by P (|h| |W| + |b|), P as promised, the sum by P of its terms, and f32 by
 * less than both. With one product, which must show, P would be 2 u. */
static void gradients_are_split_too(void **state) {
  (void)state;
  bench s;
  double split[K * N], once[K * N], plain[K * N], worst = 0, worst_once = 0;
  open_bench(&s, 1, 1);
  const ag_cast_policy policy = {.low = TN_F16};
  tn_value g, cast;
  OK(ag_split(s.graph, &policy, 1, &s.g, &g));
  OK(ag_cast(s.graph, &policy, 1, &s.g, &cast));
  run(&s, g, K * N, split);
  run(&s, cast, K * N, once);
  run(&s, s.g, K * N, plain);
  for (size_t i = 0; i < K * N; ++i) {
    double sum = 0; /* of |h| (|h| |W| + |b|) */
    for (size_t p = 0; p < POINTS; ++p) {
      double size = fabs(s.bx[i % N]);
      for (size_t k = 0; k < K; ++k)
        size += fabs(s.hx[p * K + k] * s.wx[k * N + i % N]);
      sum += fabs(s.hx[p * K + i / N]) * size;
    }
    worst = fmax(worst, fabs(split[i] - plain[i]) / (2 * sum));
    worst_once = fmax(worst_once, fabs(once[i] - plain[i]) / (2 * sum));
  }
  print_message("gradient, f16: %.2g, one product %.2g, promised %.2g\n", worst, worst_once,
                3 * promised(TN_F16, POINTS));
  assert_true(worst <= 3 * promised(TN_F16, POINTS));
  assert_true(worst_once > 8 * worst);
  tn_program *program = NULL;
  ag_product *products = NULL;
  size_t n = 0;
  OK(tn_compile(s.graph, 1, &g, &program));
  OK(ag_products(program, &n, &products));
  assert_int_equal(n, 6); /* y and the outer product, three each */
  for (size_t i = 0; i < n; ++i) {
    assert_int_equal(products[i].dtype, TN_F16); /* nothing wider is multiplied */
    assert_string_equal(products[i].weight, "W");
  }
  tn_free(&products);
  tn_program_free(&program);
  close_bench(&s);
}

static void narrow_products_and_a_second_pass_stay(void **state) {
  (void)state;
  bench s;
  open_bench(&s, 1, 1);
  ag_cast_policy policy = {.low = TN_F16, .narrowest = N + 1};
  tn_value same;
  OK(ag_split(s.graph, &policy, 1, &s.y, &same));
  assert_true(tn_same(same, s.y));
  policy.pure = true;
  assert_int_equal(ag_split(s.graph, &policy, 1, &s.y, &same), TN_EDTYPE);
  policy = (ag_cast_policy){.low = TN_F32};
  assert_int_equal(ag_split(s.graph, &policy, 1, &s.y, &same), TN_EDTYPE);
  close_bench(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_products_are_one_of_f32),
      cmocka_unit_test(gradients_are_split_too),
      cmocka_unit_test(narrow_products_and_a_second_pass_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
