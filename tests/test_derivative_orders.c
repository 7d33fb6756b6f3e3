/* test_derivative_orders.c: u, u_x, u_xx, u_xxx of a network in four number formats against MPFR.
 * ctest: labels=full
 *
 * tanh network 2-32-32-1 with fixed random weights, 1000 points; the largest error over the largest value
 * of the same derivative. A format with roundoff u that rounds each number once or twice on its way
 * through three layers should come out near 10 u, and lose no digits by the order of the derivative. In
 * bf16 and f16 the inputs of the wide products are rounded and all else is f32 (mixed).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "autograd/autograd.h"
#include "validate/mp.h"

enum { N = 1000, WIDTH = 32, LEAVES = 7, ORDERS = 4, MOST_BITS = 128 };

typedef struct network {
  tn_graph *graph;
  tn_value leaf[LEAVES]; /* w1, b1, w2, b2, w3, x, t */
  tn_buffer *buffer[LEAVES];
  tn_value out[ORDERS];
  tn_program *program;
} network;

/* Uniform numbers of the size that Glorot's rule gives; rounded to `low` where products round them. */
static tn_buffer *numbers(tn_dtype dtype, tn_dtype low, const char *name, size_t rank,
                          const size_t *extent, double size) {
  tn_buffer *buffer = NULL;
  assert_int_equal(tn_buffer_new(dtype, rank, extent, &buffer), TN_OK);
  tn_stream stream = tn_stream_of(14, name);
  char *data = tn_map(buffer, TN_WRITE);
  for (size_t i = 0; i < tn_buffer_count(buffer); ++i) {
    double x = tn_round(low, size * (2 * tn_random_uniform(stream, i) - 1));
    assert_int_equal(tn_convert(1, TN_F64, &x, dtype, data + i * tn_dtype_size(dtype)), TN_OK);
  }
  tn_unmap(buffer);
  return buffer;
}

static tn_value body(const network *n, tn_value x, tn_value t) {
  const tn_value both[2] = {x, t};
  tn_value h = tn_tanh(tn_linear(tn_stack(2, both), n->leaf[0], n->leaf[1], false));
  h = tn_tanh(tn_linear(h, n->leaf[2], n->leaf[3], false));
  return tn_sum(tn_linear(h, n->leaf[4], (tn_value){0}, false), 1);
}

static void open_network(network *n, tn_dtype low) {
  static const char *const names[LEAVES] = {"w1", "b1", "w2", "b2", "w3", "x", "t"};
  static const size_t extents[LEAVES][2] = {{2, WIDTH}, {WIDTH, 0}, {WIDTH, WIDTH}, {WIDTH, 0},
                                            {WIDTH, 1}, {N, 0},     {N, 0}};
  tn_dtype dtype = tn_dtype_compute(low);
  ag_field *field = NULL;
  tn_value call[ORDERS];
  assert_int_equal(tn_graph_new(&n->graph), TN_OK);
  tn_axis axis = tn_axis_new(n->graph, "points");
  for (int i = 0; i < LEAVES; ++i) {
    size_t rank = extents[i][1] ? 2 : 1;
    double size = i == 2 ? sqrt(6.0 / (2 * WIDTH)) : i == 0 || i == 4 ? sqrt(6.0 / (2 + WIDTH)) : 1;
    tn_shape shape = i < 5 ? tn_shape_fixed(rank, extents[i]) : tn_shape_points(axis);
    n->leaf[i] = i < 5 ? tn_parameter(n->graph, names[i], dtype, shape)
                       : tn_input(n->graph, names[i], dtype, shape);
    n->buffer[i] = numbers(dtype, i == 2 ? low : dtype, names[i], rank, extents[i], size);
  }
  assert_int_equal(ag_field_new(n->graph, "u", 2, dtype, &field), TN_OK);
  tn_value u = body(n, ag_field_argument(field, 0), ag_field_argument(field, 1));
  assert_int_equal(ag_field_body(field, 1, &u), TN_OK);
  for (int k = 0; k < ORDERS; ++k) {
    uint8_t order[TN_MAX_SLOTS] = {(uint8_t)k};
    call[k] = ag_call(field, 0, n->leaf + 5, order);
  }
  if (ag_resolve(n->graph, ORDERS, call, NULL, n->out, NULL) != TN_OK)
    fail_msg("resolve: %s", tn_error_text());
  const ag_cast_policy policy = {.low = low};
  if (low != dtype && ag_cast(n->graph, &policy, ORDERS, n->out, n->out) != TN_OK)
    fail_msg("cast: %s", tn_error_text());
  assert_int_equal(tn_compile(n->graph, ORDERS, n->out, &n->program), TN_OK);
}

static void close_network(network *n) {
  tn_program_free(&n->program);
  for (int i = 0; i < LEAVES; ++i)
    tn_buffer_release(&n->buffer[i]);
  tn_graph_free(&n->graph);
}

/* The largest error of each order over its largest value. */
static void errors_of(tn_dtype low, double *error) {
  network n = {0};
  vd_replay *replay = NULL;
  tn_exec *exec = NULL;
  open_network(&n, low);
  assert_int_equal(vd_replay_new(n.program, MOST_BITS, &replay), TN_OK);
  assert_int_equal(tn_exec_new(n.program, NULL, &exec), TN_OK);
  for (int i = 0; i < LEAVES; ++i) {
    uint32_t node = 0;
    assert_int_equal(tn_exec_bind(exec, n.leaf[i], n.buffer[i]), TN_OK);
    if (tn_program_leaf(n.program, n.leaf[i], &node))
      assert_int_equal(vd_replay_bind(replay, node, n.buffer[i]), TN_OK);
  }
  assert_int_equal(tn_exec_run(exec), TN_OK);
  assert_int_equal(vd_replay_run(replay), TN_OK);
  for (size_t k = 0; k < ORDERS; ++k) {
    tn_edge e = tn_program_output(n.program, k);
    double value[N], worst = 0, size = 0;
    assert_int_equal(tn_exec_read(exec, k, N, value), TN_OK);
    for (size_t i = 0; i < N; ++i) {
      worst = fmax(worst, vd_abs_error(value[i], vd_replay_at(replay, e.node, e.port, i)));
      size = fmax(size, fabs(vd_replay_double(replay, e.node, e.port, i)));
    }
    error[k] = worst / size;
  }
  tn_exec_free(&exec);
  vd_replay_free(&replay);
  close_network(&n);
}

/* Bounds. f64, f32: 16 u, 1.8e-15 and 9.5e-7: six roundings in a row at 2 u (a function's promise), the largest
 * of thousands of errors near three times the typical one. bf16, f16: 4 u, 1.6e-2 and 2e-3: of one product
 * the activations alone are rounded. And u_xxx is at most ten times as wrong as u. */
static void every_format_keeps_its_digits_to_third_order(void **state) {
  (void)state;
  static const tn_dtype formats[] = {TN_F64, TN_F32, TN_BF16, TN_F16};
  for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
    double error[ORDERS], u = tn_dtype_roundoff(formats[f]);
    errors_of(formats[f], error);
    print_message("%-5s u %.1e  u_x %.1e  u_xx %.1e  u_xxx %.1e  growth %.2g, %zu entries\n",
                  tn_dtype_name(formats[f]), error[0], error[1], error[2], error[3],
                  error[3] / error[0], (size_t)N * ORDERS);
    for (int k = 0; k < ORDERS; ++k)
      assert_true(error[k] > 0 && error[k] < (f < 2 ? 16 : 4) * u);
    assert_true(error[3] < 10 * error[0]);
  }
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_keeps_its_digits_to_third_order),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
