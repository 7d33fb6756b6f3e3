/* test_low_range.c: second derivatives that f16 cannot hold, and penalties of derivatives under a scale.
 * ctest: labels=quick
 *
 * u = sin(300 y) has u_yy of 90000; f16 ends at 65504. A layer behind it whose products are in f16 gets infinities
 * unless the channel is carried as 2^-8 u_yy. A penalty u_x^2 must see u_x, whatever its channel carries: with
 * u_x = 0.5 carried as 512 it is 0.25 and not 262144.
 */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { UNITS = 16, POINTS = 512 };

/* A field of two layers with numbers of its own: the first 1 x 16, all `slope`; the second the unit matrix, so that
 * its f16 products only round. */
typedef struct field {
  tn_graph *graph;
  tn_value y, w[2];
  ag_field *u;
  double slope;
} field;

static void open(field *f, double slope, tn_op_id activation) {
  tn_value none = {0};
  f->slope = slope;
  good(tn_graph_new(&f->graph));
  f->y = tn_input(f->graph, "y", TN_F32, tn_shape_points(tn_axis_new(f->graph, "points")));
  f->w[0] = tn_parameter(f->graph, "W0", TN_F32, tn_shape_fixed(2, (size_t[]){1, UNITS}));
  f->w[1] = tn_parameter(f->graph, "W1", TN_F32, tn_shape_fixed(2, (size_t[]){UNITS, UNITS}));
  good(ag_field_new(f->graph, "u", 1, TN_F32, &f->u));
  good(ag_field_label(f->u, 0, "y"));
  tn_value arg = ag_field_argument(f->u, 0), h = tn_linear(tn_stack(1, &arg), f->w[0], none, false);
  if (activation != TN_OPS) h = tn_unary(activation, h, 0);
  h = tn_linear(h, f->w[1], none, false);
  tn_value out = tn_reshape(tn_slice(h, 1, 0, 1), tn_shape_of(arg));
  good(ag_field_body(f->u, 1, &out));
}

static tn_value d(field *f, int order) {
  uint8_t power[TN_MAX_SLOTS] = {(uint8_t)order};
  return ag_call(f->u, 0, &f->y, power);
}

static int scale(void *context, const char *name, const char *label) {
  (void)name;
  return strcmp(label, "yy") == 0 || strcmp(label, "y") == 0 ? ((int *)context)[strlen(label) - 1] : 0;
}

/* y = i / 512: 300 y is exact in f32, so the argument of the sine has no error to grow. */
static void run(field *f, size_t n, const tn_value *values, double *out) {
  double y[POINTS], w0[UNITS], w1[UNITS * UNITS] = {0};
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  for (size_t i = 0; i < POINTS; ++i) y[i] = (double)(i + 1) / POINTS;
  for (size_t i = 0; i < UNITS; ++i) {
    w0[i] = f->slope;
    w1[i * (UNITS + 1)] = 1;
  }
  good(tn_compile(f->graph, n, values, &program));
  good(tn_exec_new(program, NULL, &exec));
  give(exec, f->y, 1, (size_t[]){POINTS}, y);
  give(exec, f->w[0], 2, (size_t[]){1, UNITS}, w0);
  give(exec, f->w[1], 2, (size_t[]){UNITS, UNITS}, w1);
  good(tn_exec_run(exec));
  for (size_t i = 0; i < n; ++i) {
    tn_shape shape = tn_shape_of(values[i]);
    size_t count = tn_shape_width(&shape) * (tn_shape_batched(&shape) ? POINTS : 1);
    good(tn_exec_read(exec, i, count, out));
    out += count;
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
}

static const ag_cast_policy f16 = {.low = TN_F16};

/* The operands of the f16 products that stand for one channel: what is cast, [points, units] or [units]. */
static size_t channels_of(field *f, tn_value value, tn_value *out) {
  tn_program *program = NULL;
  ag_product *list = NULL;
  size_t n, found = 0;
  good(tn_compile(f->graph, 1, &value, &program));
  good(ag_products(program, &n, &list));
  for (size_t i = 0; i < n; ++i) found += list[i].dtype == TN_F16;
  assert_int_equal(found, 1); /* the layer of the unit matrix */
  tn_free(&list);
  tn_program_free(&program);
  for (uint32_t i = (uint32_t)tn_graph_nodes(f->graph); i-- > 0;) {
    const tn_node *node = tn_node_at(f->graph, i);
    if (node->op->id != TN_OP_jet_lin || tn_node_of(tn_value_at(f->graph, node->inputs[0].node, 0))->op->id != TN_OP_cast)
      continue;
    for (uint32_t c = 0; c < node->n_outputs; ++c) {
      tn_edge low = tn_node_at(f->graph, node->inputs[c].node)->inputs[0];
      tn_edge from = tn_node_at(f->graph, low.node)->inputs[0];
      out[c] = tn_value_at(f->graph, from.node, from.port);
    }
    return node->n_outputs;
  }
  return 0;
}

static void second_derivative_leaves_f16(void **state) {
  (void)state;
  assert_true(tn_round(TN_F16, 65519) == 65504 && isinf(tn_round(TN_F16, 65520)));
  static double x[3 * POINTS], operand[3 * POINTS * UNITS];
  field f;
  tn_value v[3], channel[3];
  open(&f, 300, TN_OP_sin);
  for (int order = 0; order < 3; ++order) v[order] = d(&f, order);
  good(ag_resolve(f.graph, 3, v, NULL, v, NULL));
  good(ag_cast(f.graph, &f16, 3, v, v));
  assert_int_equal(channels_of(&f, v[2], channel), 3);
  run(&f, 3, channel, operand);
  run(&f, 3, v, x);
  size_t over[3] = {0}, infinite[3] = {0}, expected = 0;
  for (int order = 0; order < 3; ++order)
    for (size_t i = 0; i < POINTS; ++i) {
      over[order] += isinf(tn_round(TN_F16, operand[((size_t)order * POINTS + i) * UNITS])) != 0;
      infinite[order] += isfinite(x[(size_t)order * POINTS + i]) == 0; /* inf, or NaN of inf times 0 */
    }
  for (size_t i = 0; i < POINTS; ++i) expected += 90000 * fabs(sin(300.0 * (double)(i + 1) / POINTS)) >= 65520;
  printf("sin(300 y) in f16 without scale: of %d points over the range u %zu, u_y %zu, u_yy %zu; not finite %zu\n",
         POINTS, over[0], over[1], over[2], infinite[2]);
  assert_true(over[0] == 0 && over[1] == 0 && infinite[0] == 0 && infinite[1] == 0);
  assert_int_equal(over[2], expected);
  assert_int_equal(infinite[2], expected);
  assert_true(expected > POINTS / 3);
  tn_graph_free(&f.graph);
}

/* One rounding of u_yy to f16: 2^-11 = 4.9e-4, and some of f32; 2e-3 is the aim. */
static void channel_scale_keeps_second_derivative(void **state) {
  (void)state;
  static double x[3 * POINTS];
  field f;
  tn_value v[3];
  int scales[2] = {0, 8};
  open(&f, 300, TN_OP_sin);
  for (int order = 0; order < 3; ++order) v[order] = d(&f, order);
  good(ag_resolve(f.graph, 3, v, &(ag_resolve_options){.scale = scale, .scale_context = scales}, v, NULL));
  good(ag_cast(f.graph, &f16, 3, v, v));
  run(&f, 3, v, x);
  double worst[3] = {0};
  for (size_t i = 0; i < POINTS; ++i) {
    double z = 300.0 * (double)(i + 1) / POINTS, want[3] = {sin(z), 300 * cos(z), -90000 * sin(z)};
    for (int order = 0; order < 3; ++order)
      worst[order] = fmax(worst[order], fabs(x[(size_t)order * POINTS + i] / want[order] - 1));
  }
  printf("sin(300 y) in f16, u_yy carried as 2^-8 u_yy: relative errors %.1e, %.1e, %.1e\n", worst[0], worst[1],
         worst[2]);
  for (int order = 0; order < 3; ++order) assert_true(worst[order] <= 0x1.01p-11);
  tn_graph_free(&f.graph);
}

static void penalties_see_the_derivative(void **state) {
  (void)state;
  static double operand[UNITS], penalty[POINTS];
  field f;
  tn_value ux, p, channel[2];
  int scales[2] = {-10, 0}; /* carried as 1024 u_x */
  open(&f, 0.5, TN_OPS);
  ux = d(&f, 1);
  good(ag_resolve(f.graph, 1, &ux, &(ag_resolve_options){.scale = scale, .scale_context = scales}, &ux, NULL));
  p = tn_mul(ux, ux);
  good(ag_cast(f.graph, &f16, 1, &p, &p));
  size_t n = channels_of(&f, p, channel);
  run(&f, 1, &channel[n - 1], operand); /* constant slopes have no points */
  run(&f, 1, &p, penalty);
  printf("u_x = 0.5 carried as %g: penalty %g\n", operand[0], penalty[0]);
  assert_true(operand[0] == 512);
  for (size_t i = 0; i < POINTS; ++i) assert_true(penalty[i] == 0.25);
  tn_graph_free(&f.graph);
}

/* Gradient of mean (u_x)^2 of a network by all its weights, in f32 and with f16 products whose channel is carried
 * under a scale and whose loss is multiplied by 2^16. Rounded weights and channels, 2^-11 each with random signs, move
 * a sum of 64 terms by some 2^-11 of its size, and the residual and its adjoint by a few times that: 1e-3 is asked. */
static void gradients_agree_with_and_without(void **state) {
  (void)state;
  enum { LEAVES = 2 * NET_LAYERS };
  net n;
  tn_value leaf[LEAVES], plain[LEAVES], mixed[LEAVES], r[2];
  int scales[2] = {-4, 0};
  size_t count;
  net_open(&n, (net_shape){TN_F32, 2, 1, 64, 4, TN_OP_tanh, true, false});
  n.gain = 0.866; /* Glorot's variance: that of the drawn numbers is 4/3 */
  r[0] = r[1] = net_d(&n, 0, "y");
  good(net_resolve(&n, 1, &r[0], NULL, NULL));
  good(net_resolve(&n, 1, &r[1], scale, scales));
  size_t leaves = net_parameters(&n, leaf);
  tn_value big = tn_const(n.graph, TN_F64, 0x1p16);
  good(ag_grad(net_loss(r[0]), leaves, leaf, plain));
  good(ag_grad(tn_mul(big, net_loss(r[1])), leaves, leaf, mixed));
  good(ag_cast(n.graph, &f16, leaves, mixed, mixed));
  double *want = net_run(&n, leaves, plain, tn_exec_new, NULL, 500, &count);
  double *got = net_run(&n, leaves, mixed, tn_exec_new, NULL, 500, &count);
  double error = 0, size = 0;
  for (size_t i = 0; i < count; ++i) {
    double e = got[i] * 0x1p-16 - want[i];
    error += e * e;
    size += want[i] * want[i];
  }
  printf("gradient of mean (u_y)^2, %zu weights, f16 products against f32: %.1e\n", count, sqrt(error / size));
  assert_true(error > 0 && sqrt(error / size) <= 1e-3);
  free(want);
  free(got);
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(second_derivative_leaves_f16),
                                     cmocka_unit_test(channel_scale_keeps_second_derivative),
                                     cmocka_unit_test(penalties_see_the_derivative),
                                     cmocka_unit_test(gradients_agree_with_and_without)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
