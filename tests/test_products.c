/* test_products.c: ag_products knows the layer, the direction and the work of every matrix product.
 * ctest: labels=quick
 *
 * Networks whose products are known by construction, plain and cast; the counts are those of the formulas beside
 * them. Layers that share their input, matrices that are computed or read transposed, and gradients of gradients are
 * the cases in which a name is easily wrong.
 */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 2 * NET_LAYERS + 2 };

typedef struct found { /* the products of a graph's values */
  tn_program *program;
  size_t n;
  ag_product *list;
} found;

static found products_of(tn_graph *graph, size_t n, const tn_value *values) {
  found f = {0};
  good(tn_compile(graph, n, values, &f.program));
  good(ag_products(f.program, &f.n, &f.list));
  return f;
}

static void drop(found *f) {
  tn_free(&f->list);
  tn_program_free(&f->program);
}

static size_t count(const found *f, ag_product_kind kind, const char *weight, size_t channels) {
  size_t n = 0;
  for (size_t i = 0; i < f->n; ++i)
    n += f->list[i].kind == kind && !strcmp(f->list[i].weight, weight) &&
         (channels == SIZE_MAX || f->list[i].channels == channels);
  return n;
}

static void show(const found *f) {
  static const char *const kinds[] = {"forward", "adjoint", "weight"};
  for (size_t i = 0; i < f->n; ++i)
    printf("  node %3u  %-7s %-3s %3zu x %-3zu channels %zu, %s, %g flops\n", f->list[i].node,
           kinds[f->list[i].kind], f->list[i].weight, f->list[i].k, f->list[i].n, f->list[i].channels,
           tn_dtype_name(f->list[i].dtype), f->list[i].flops);
}

static size_t burgers(net *n, tn_value *out) {
  tn_value leaf[2 * NET_LAYERS];
  net_open(n, (net_shape){TN_F32, 2, 1, 20, 4, TN_OP_tanh, true, false});
  out[0] = net_burgers(n);
  good(net_resolve(n, 1, out, NULL, NULL));
  out[0] = net_loss(out[0]);
  size_t parameters = net_parameters(n, leaf);
  good(ag_grad(out[0], parameters, leaf, out + 1));
  return parameters + 1;
}

/* Burgers carries 3 channels: u, x, y - nu xx. */
static void network_has_its_products(void **state) {
  (void)state;
  for (int mixed = 0; mixed < 2; ++mixed) {
    net n;
    tn_value out[MOST];
    size_t values = burgers(&n, out);
    if (mixed) good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_BF16}, values, out, out));
    found f = products_of(n.graph, values, out);
    if (mixed) show(&f);
    double flops = 0, low = 0;
    for (size_t i = 0; i < f.n; ++i) {
      const ag_product *p = &f.list[i];
      assert_true(p->flops == 2.0 * (double)(p->k * p->n * p->channels));
      if (p->channels) assert_int_equal(p->axis, n.axis);
      bool wide = p->k == 20 && p->n == 20;
      assert_int_equal(p->dtype, mixed && wide ? TN_BF16 : TN_F32);
      flops += p->flops;
      if (p->dtype == TN_BF16) low += p->flops;
    }
    for (int layer = 1; layer < 3; ++layer) {
      const char *name = layer == 1 ? "W1" : "W2";
      assert_int_equal(count(&f, AG_FORWARD, name, 3), 1);
      assert_int_equal(count(&f, AG_ADJOINT, name, 3), 1);
      assert_int_equal(count(&f, AG_WEIGHT, name, 3), 1);
    }
    assert_int_equal(count(&f, AG_FORWARD, "W0", 1), 1); /* the coordinates */
    assert_int_equal(count(&f, AG_FORWARD, "W0", 0), 1); /* the tangents, which have no points */
    assert_int_equal(count(&f, AG_ADJOINT, "W0", SIZE_MAX), 0);
    assert_int_equal(count(&f, AG_WEIGHT, "W0", SIZE_MAX), 2);
    assert_int_equal(count(&f, AG_FORWARD, "W3", 3) + count(&f, AG_ADJOINT, "W3", 3) +
                         count(&f, AG_WEIGHT, "W3", 3), 3);
    /* W1, W2: 3 products of 3 channels; W3 the same; W0: values forward and in the gradient. */
    assert_true(flops == 2 * (2 * 9 * 400.0 + 9 * 20 + 2 * 40));
    printf("%.1f %% of %g product FLOPs a point in bf16\n", 100 * low / flops, flops);
    drop(&f);
    net_close(&n);
  }
}

static void pure_products_are_low(void **state) {
  (void)state;
  net n;
  tn_value out[MOST];
  size_t values = burgers(&n, out);
  good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_F16, .pure = true}, values, out, out));
  found f = products_of(n.graph, values, out);
  assert_int_equal(f.n, 13);
  for (size_t i = 0; i < f.n; ++i) assert_int_equal(f.list[i].dtype, TN_F16);
  assert_int_equal(count(&f, AG_WEIGHT, "W2", 3), 1);
  drop(&f);
  net_close(&n);
}

/* Two gates and a layer read the same coordinates; only what follows them tells their gradients apart. */
static void layers_with_one_input_are_told_apart(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_axis axis = tn_axis_new(graph, "points");
  tn_value x = tn_input(graph, "x", TN_F32, tn_shape_batch(axis, 2)), none = {0}, w[5], g[5];
  static const char *const names[5] = {"U", "V", "H", "K", "out"};
  for (int i = 0; i < 5; ++i)
    w[i] = tn_parameter(graph, names[i], TN_F32, tn_shape_fixed(2, (size_t[]){i < 3 ? 2 : 8, i < 4 ? 8 : 1}));
  tn_value u = tn_tanh(tn_linear(x, w[0], none, false)), v = tn_tanh(tn_linear(x, w[1], none, false));
  tn_value h = tn_tanh(tn_linear(x, w[2], none, false));
  h = tn_add(tn_mul(h, u), tn_mul(tn_sub(tn_fill(graph, TN_F32, tn_shape_of(h), 1), h), v));
  h = tn_tanh(tn_linear(h, w[3], none, false));
  h = tn_add(tn_mul(h, u), tn_mul(tn_sub(tn_fill(graph, TN_F32, tn_shape_of(h), 1), h), v));
  tn_value loss = tn_mean(tn_square(tn_linear(h, w[4], none, false)));
  good(ag_grad(loss, 5, w, g));
  for (int i = 0; i < 5; ++i) { /* each gradient by itself: its own outer product must carry its name */
    found f = products_of(graph, 1, &g[i]);
    size_t named = 0;
    for (size_t k = 0; k < f.n; ++k) {
      if (f.list[k].kind != AG_WEIGHT) continue;
      tn_edge e = tn_program_output(f.program, 0);
      if (f.list[k].node == e.node) ++named;
      assert_string_equal(f.list[k].weight, names[i]);
    }
    assert_int_equal(named, 1);
    drop(&f);
  }
  tn_graph_free(&graph);
}

/* W = g v / |v|, read plain and transposed: products belong to v. */
static void computed_matrices_belong_to_their_parameter(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_axis axis = tn_axis_new(graph, "points");
  tn_value x = tn_input(graph, "x", TN_F32, tn_shape_batch(axis, 16)), none = {0};
  tn_value v = tn_parameter(graph, "v", TN_F32, tn_shape_fixed(2, (size_t[]){16, 16}));
  tn_value gain = tn_parameter(graph, "gain", TN_F32, tn_shape_scalar()), leaf[2] = {v, gain}, out[3];
  tn_value w = tn_mul(v, tn_div(gain, tn_sqrt(tn_sum_all(tn_square(v)))));
  tn_value h = tn_tanh(tn_linear(x, w, none, false));
  h = tn_tanh(tn_linear(h, tn_transpose(w, 0, 1), none, false)); /* tied weights: the decoder */
  out[0] = tn_mean(tn_square(h));
  good(ag_grad(out[0], 2, leaf, out + 1));
  for (int mixed = 0; mixed < 2; ++mixed) {
    if (mixed) good(ag_cast(graph, &(ag_cast_policy){.low = TN_F16}, 3, out, out));
    found f = products_of(graph, 3, out);
    assert_int_equal(f.n, 5);
    for (size_t i = 0; i < f.n; ++i) {
      assert_string_equal(f.list[i].weight, "v");
      assert_int_equal(f.list[i].dtype, mixed ? TN_F16 : TN_F32);
      assert_int_equal(f.list[i].channels, 1);
    }
    assert_int_equal(count(&f, AG_WEIGHT, "v", 1), 2);
    drop(&f);
  }
  tn_graph_free(&graph);
}

/* A layer that is written with its matrix transposed is a layer all the same. */
static void transposed_layers_are_forward(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_value x = tn_input(graph, "x", TN_F32, tn_shape_batch(tn_axis_new(graph, "points"), 2)), none = {0}, out[3];
  tn_value w[2] = {tn_parameter(graph, "A", TN_F32, tn_shape_fixed(2, (size_t[]){9, 2})),
                   tn_parameter(graph, "B", TN_F32, tn_shape_fixed(2, (size_t[]){3, 9}))};
  tn_value h = tn_linear(tn_tanh(tn_linear(x, w[0], none, true)), w[1], none, true);
  out[0] = tn_mean(tn_square(h));
  good(ag_grad(out[0], 2, w, out + 1));
  found f = products_of(graph, 3, out);
  assert_int_equal(f.n, 5);
  for (int i = 0; i < 2; ++i) {
    const char *name = i ? "B" : "A";
    assert_int_equal(count(&f, AG_FORWARD, name, 1), 1);
    assert_int_equal(count(&f, AG_ADJOINT, name, 1), i);
    assert_int_equal(count(&f, AG_WEIGHT, name, 1), 1);
  }
  for (size_t i = 0; i < f.n; ++i) { /* k is summed over: 2 and 9 forward, 3 back; gradients have the matrix's shape */
    const ag_product *p = &f.list[i];
    bool b = p->weight[0] == 'B';
    size_t k = p->kind == AG_FORWARD ? (b ? 9 : 2) : p->kind == AG_ADJOINT ? 3 : (b ? 3 : 9);
    assert_int_equal(p->k, k);
    assert_int_equal(p->k * p->n, b ? 27 : 18);
  }
  drop(&f);
  tn_graph_free(&graph);
}

/* Hessian times a vector: tangents go forward and back through the same layers. */
static void second_derivatives_keep_their_names(void **state) {
  (void)state;
  net n;
  tn_value leaf[2 * NET_LAYERS], v[2 * NET_LAYERS], out[2 * NET_LAYERS];
  net_open(&n, (net_shape){TN_F32, 2, 1, 16, 3, TN_OP_tanh, false, false});
  tn_value u = net_d(&n, 0, "");
  good(net_resolve(&n, 1, &u, NULL, NULL));
  size_t parameters = net_parameters(&n, leaf);
  for (size_t i = 0; i < parameters; ++i) v[i] = tn_input(n.graph, "v", TN_F32, tn_shape_of(leaf[i]));
  good(ag_hvp(tn_mean(tn_square(u)), parameters, leaf, v, out));
  found f = products_of(n.graph, parameters, out);
  size_t named = 0, directions = 0;
  for (size_t i = 0; i < f.n; ++i) {
    if (f.list[i].weight[0] == 'W') ++named;
    else ++directions; /* a product with a direction, which is no parameter */
  }
  printf("hvp: %zu products of parameters, %zu with the direction\n", named, directions);
  assert_true(named >= 3 * parameters); /* forward, adjoint and gradient of each at least */
  assert_true(directions > 0 && directions <= 2 * parameters);
  for (size_t i = 0; i < parameters; ++i)
    assert_true(count(&f, AG_WEIGHT, tn_node_of(leaf[i])->name, SIZE_MAX) >= 1);
  drop(&f);
  net_close(&n);
}

static void nothing_is_an_empty_list(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_value y = tn_tanh(tn_scalar(graph, "x", TN_F64, 1));
  found f = products_of(graph, 1, &y);
  assert_int_equal(f.n, 0);
  drop(&f);
  tn_graph_free(&graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(network_has_its_products),
                                     cmocka_unit_test(pure_products_are_low),
                                     cmocka_unit_test(layers_with_one_input_are_told_apart),
                                     cmocka_unit_test(computed_matrices_belong_to_their_parameter),
                                     cmocka_unit_test(transposed_layers_are_forward),
                                     cmocka_unit_test(second_derivatives_keep_their_names),
                                     cmocka_unit_test(nothing_is_an_empty_list)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
