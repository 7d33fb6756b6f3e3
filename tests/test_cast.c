/* test_cast.c: ag_cast rounds what the policy names, once, and nothing else.
 * ctest: labels=quick
 *
 * Structure first, on a network with its gradient and on random graphs: which edges pass through a low format. Then
 * bits: a product of the mixed program, fed by hand with rounded numbers in a program of its own, gives the same
 * bits, and every other node of the mixed program is one of the f32 program. Rounding to nearest is exact to state,
 * so no test here has a tolerance.
 */
#include "tests/support_net.h"
#include "tests/support_random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const tn_dtype lows[] = {TN_TF32, TN_BF16, TN_F16};
enum { LOWS = 3, MOST = 2 * NET_LAYERS + 2, GRAPHS = 200 };

/* A net with two wide layers between narrow ones: values residual, loss and gradient. */
static size_t burgers(net *n, tn_dtype dtype, tn_value *out) {
  tn_value leaf[2 * NET_LAYERS];
  net_open(n, (net_shape){dtype, 2, 1, 20, 4, TN_OP_tanh, true, false});
  tn_at(n->graph, "burgers.toml", 7, 3, "u_y + u*u_x - nu*u_xx");
  out[0] = tn_mul(net_k(n, (float)0.1), net_burgers(n)); /* a number that no low format has */
  good(net_resolve(n, 1, out, NULL, NULL));
  tn_at(n->graph, "burgers.toml", 9, 1, "loss");
  out[1] = net_loss(out[0]);
  size_t count = net_parameters(n, leaf);
  good(ag_grad(out[1], count, leaf, out + 2));
  return count + 2;
}

static tn_program *compiled(tn_graph *graph, size_t n, const tn_value *values) {
  tn_program *program = NULL;
  good(tn_compile(graph, n, values, &program));
  return program;
}

/* ---- Structure ---- */

static const tn_node *behind(const tn_program *p, tn_edge e) { return tn_program_node(p, e.node); }

/* Has this operand been through `low`? */
static bool is_rounded(const tn_program *p, tn_edge e, tn_dtype low) {
  const tn_node *node = behind(p, e);
  return node->op->id == TN_OP_cast && node->dtype == TN_F32 && behind(p, node->inputs[0])->dtype == low;
}

typedef struct tally { size_t wide, narrow, rounded, casts; } tally;

/* Every operand of a wide product is rounded, and no other value is. */
static tally check_mixed(const tn_program *p, tn_dtype low, size_t narrowest) {
  tally t = {0};
  for (size_t i = 0; i < tn_program_nodes(p); ++i) {
    const tn_node *node = tn_program_node(p, i);
    bool lin = node->op->id == TN_OP_jet_lin, outer = node->op->id == TN_OP_jet_outer;
    uint32_t operands = lin ? node->n_outputs + 1 : outer ? node->n_inputs : 0;
    const tn_shape *w = lin ? &behind(p, node->inputs[node->n_outputs])->shapes[0] : &node->shapes[0];
    bool wide = operands && w->extent[0] >= narrowest && w->extent[1] >= narrowest;
    t.wide += wide;
    t.narrow += operands && !wide;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      bool rounded = is_rounded(p, node->inputs[k], low);
      if (rounded != (wide && k < operands))
        fail_msg("%s, node %zu: input %u is %srounded", node->op->name, i, k, rounded ? "" : "not ");
      t.rounded += rounded;
    }
    if (node->op->id != TN_OP_cast || node->dtype != low) continue;
    ++t.casts;
    for (size_t j = 0; j < i; ++j) { /* one cast a value */
      const tn_node *other = tn_program_node(p, j);
      if (other->op->id == TN_OP_cast && other->dtype == low)
        assert_memory_not_equal(node->inputs, other->inputs, sizeof *node->inputs);
    }
  }
  return t;
}

static void mixed_rounds_what_products_multiply(void **state) {
  (void)state;
  for (int d = 0; d < LOWS; ++d) {
    net n;
    tn_value out[MOST];
    size_t count = burgers(&n, TN_F32, out);
    good(ag_cast(n.graph, &(ag_cast_policy){.low = lows[d]}, count, out, out));
    tn_program *p = compiled(n.graph, count, out);
    tally t = check_mixed(p, lows[d], 16);
    if (d == 0)
      printf("mixed: %zu wide and %zu narrow products, %zu operands rounded by %zu casts\n", t.wide, t.narrow,
             t.rounded, t.casts);
    /* Two layers of 20 x 20, each with a product, an adjoint and a gradient, against 2 x 20 (in two parts: channels
     * with and without points) and 20 x 1. Rounded: 2 matrices, and 3 channels of h and of zbar each. */
    assert_int_equal(t.wide, 6);
    assert_int_equal(t.casts, 2 * (1 + 3 + 3));
    assert_int_equal(t.rounded, 2 * (4 + 4 + 6));
    tn_program_free(&p);
    net_close(&n);
  }
}

static void narrowest_is_the_callers(void **state) {
  (void)state;
  /* The first layer, 2 x 20, is two products (coordinates and constant tangents) and two gradients. */
  const size_t narrowest[4] = {1, 2, 20, 21}, wide[4] = {13, 10, 6, 0};
  for (int i = 0; i < 4; ++i) {
    net n;
    tn_value out[MOST];
    size_t count = burgers(&n, TN_F32, out);
    good(ag_cast(n.graph, &(ag_cast_policy){TN_BF16, false, narrowest[i]}, count, out, out));
    tn_program *p = compiled(n.graph, count, out);
    size_t found = 0;
    for (size_t k = 0; k < tn_program_nodes(p); ++k) {
      const tn_node *node = tn_program_node(p, k);
      bool product = node->op->id == TN_OP_jet_lin || node->op->id == TN_OP_jet_outer;
      found += product && is_rounded(p, node->inputs[0], TN_BF16);
    }
    assert_int_equal(found, wide[i]);
    tn_program_free(&p);
    net_close(&n);
  }
}

/* How many nodes of this operation and place the program has. */
static size_t nodes_like(const tn_program *p, const tn_node *like) {
  size_t count = 0;
  for (size_t i = 0; i < tn_program_nodes(p); ++i) {
    const tn_node *node = tn_program_node(p, i);
    count += node->op == like->op && node->line == like->line && node->column == like->column &&
             (!node->file == !like->file) && node->n_inputs == like->n_inputs;
  }
  return count;
}

static void leaves_places_and_shapes_stay(void **state) {
  (void)state;
  for (int pure = 0; pure < 2; ++pure) {
    net n;
    tn_value plain[MOST], out[MOST];
    size_t count = burgers(&n, TN_F32, plain);
    good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_F16, .pure = pure}, count, plain, out));
    tn_program *before = compiled(n.graph, count, plain), *after = compiled(n.graph, count, out);
    for (size_t i = 0; i < count; ++i) {
      tn_shape a = tn_shape_of(plain[i]), b = tn_shape_of(out[i]);
      assert_true(tn_shape_equal(&a, &b));
      bool low = pure && tn_dtype_of(plain[i]) == TN_F32; /* the loss is f64 in both */
      assert_int_equal(tn_dtype_of(out[i]), low ? TN_F16 : tn_dtype_of(plain[i]));
    }
    for (size_t i = 0; i < tn_program_nodes(before); ++i) {
      const tn_node *node = tn_program_node(before, i);
      if (node->op->id == TN_OP_cast || node->op->id == TN_OP_constant) continue;
      if (nodes_like(before, node) != nodes_like(after, node))
        fail_msg("%s of line %d: %zu nodes, %zu after the cast", node->op->name, node->line,
                 nodes_like(before, node), nodes_like(after, node));
    }
    for (size_t i = 0; i < tn_program_nodes(after); ++i) { /* a cast stands where what it rounds stands */
      const tn_node *node = tn_program_node(after, i);
      if (node->op->id == TN_OP_cast && node->dtype == TN_F16)
        assert_int_equal(node->line, behind(after, node->inputs[0])->line);
    }
    uint32_t at;
    for (size_t i = 0; i < n.n_layers; ++i) {
      assert_true(tn_program_leaf(after, n.w[i], &at));
      assert_string_equal(tn_program_node(after, at)->name, tn_node_of(n.w[i])->name);
      assert_int_equal(tn_program_node(after, at)->dtype, TN_F32);
    }
    tn_program_free(&before);
    tn_program_free(&after);
    net_close(&n);
  }
}

static void pure_computes_everything_low(void **state) {
  (void)state;
  for (int d = 0; d < LOWS; ++d) {
    net n;
    tn_value out[MOST];
    size_t count = burgers(&n, TN_F32, out), casts = 0, wide = 0;
    good(ag_cast(n.graph, &(ag_cast_policy){.low = lows[d], .pure = true}, count, out, out));
    tn_program *p = compiled(n.graph, count, out);
    for (size_t i = 0; i < tn_program_nodes(p); ++i) {
      const tn_node *node = tn_program_node(p, i);
      bool leaf = node->n_inputs == 0, number = node->op->id == TN_OP_constant || node->op->id == TN_OP_fill;
      if (node->op->id == TN_OP_cast) { /* of a leaf, or into the f64 part */
        bool enters = node->dtype == lows[d] && behind(p, node->inputs[0])->n_inputs == 0;
        assert_true(enters || node->dtype == TN_F64 || behind(p, node->inputs[0])->dtype == TN_F64);
        ++casts;
      } else if (!leaf || number) {
        assert_true(node->dtype == lows[d] || node->dtype == TN_F64);
      }
      if (number && node->dtype == lows[d]) assert_true(node->number == tn_round(lows[d], node->number));
      wide += node->dtype == TN_F64 && node->n_outputs == 1 && node->shapes[0].rank > 0;
    }
    assert_int_equal(wide, 0); /* f64 are scalars only: the loss and its factors */
    if (d == 0) printf("pure: %zu nodes, %zu of them casts\n", tn_program_nodes(p), casts);
    tn_program_free(&p);
    net_close(&n);
  }
}

static void all_same(size_t n, const tn_value *a, const tn_value *b, const char *what) {
  for (size_t i = 0; i < n; ++i)
    if (!tn_same(a[i], b[i])) fail_msg("%s: value %zu is another one", what, i);
}

static void second_pass_changes_nothing(void **state) {
  (void)state;
  for (int d = 0; d < LOWS; ++d) {
    net n;
    tn_value plain[MOST], mixed[MOST], pure[MOST], again[MOST];
    size_t count = burgers(&n, TN_F32, plain);
    ag_cast_policy mix = {.low = lows[d]}, all = {.low = lows[d], .pure = true};
    good(ag_cast(n.graph, &mix, count, plain, mixed));
    good(ag_cast(n.graph, &all, count, plain, pure));
    size_t nodes = tn_graph_nodes(n.graph);
    good(ag_cast(n.graph, &mix, count, mixed, again));
    all_same(count, again, mixed, "mixed twice");
    good(ag_cast(n.graph, &all, count, pure, again));
    all_same(count, again, pure, "pure twice");
    good(ag_cast(n.graph, &mix, count, pure, again));
    all_same(count, again, pure, "mixed after pure");
    assert_int_equal(tn_graph_nodes(n.graph), nodes);
    good(ag_cast(n.graph, &all, count, mixed, again));
    all_same(count, again, pure, "pure after mixed");
    net_close(&n);
  }
}

static void refused(tn_graph *graph, tn_dtype low, tn_value v, tn_status code, const char *word) {
  tn_value out;
  assert_int_equal(ag_cast(graph, &(ag_cast_policy){.low = low}, 1, &v, &out), code);
  if (!strstr(tn_error_text(), word)) fail_msg("%s: expected the word %s", tn_error_text(), word);
}

static void bad_casts_are_refused(void **state) {
  (void)state;
  net n;
  tn_value out[MOST];
  burgers(&n, TN_F64, out);
  refused(n.graph, TN_BF16, out[0], TN_EDTYPE, "build the model in f32");
  refused(n.graph, TN_F32, out[0], TN_EDTYPE, "f32 is no low format");
  refused(n.graph, TN_F64, out[0], TN_EDTYPE, "no low format");
  refused(n.graph, TN_BOOL, out[0], TN_EDTYPE, "no low format");
  refused(n.graph, TN_BF16, net_d(&n, 0, "x"), TN_ESTATE, "ag_resolve");
  refused(n.graph, TN_BF16, (tn_value){0}, TN_EHANDLE, "value 0");
  good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_BF16}, 0, NULL, NULL));
  assert_int_equal(tn_graph_error(n.graph), TN_OK); /* a refusal leaves the graph as it was */
  net_close(&n);
}

/* A matrix that is read as it is and transposed is rounded once; constants are rounded in the graph. */
static void transposes_and_constants_share_roundings(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_value w = tn_parameter(graph, "W", TN_F32, tn_shape_fixed(2, (size_t[]){16, 16})), none = {0};
  tn_value h = tn_input(graph, "h", TN_F32, tn_shape_batch(tn_axis_new(graph, "points"), 16));
  tn_value third = tn_fill(graph, TN_F32, tn_shape_of(h), (float)(1 / 3.0));
  tn_value out[3] = {tn_linear(h, w, none, false), tn_linear(h, tn_transpose(w, 0, 1), none, false),
                     tn_linear(third, w, none, true)};
  good(ag_cast(graph, &(ag_cast_policy){.low = TN_BF16}, 3, out, out));
  tn_program *p = compiled(graph, 3, out);
  size_t casts = 0, fills = 0;
  for (size_t i = 0; i < tn_program_nodes(p); ++i) {
    const tn_node *node = tn_program_node(p, i);
    casts += node->op->id == TN_OP_cast;
    if (node->op->id != TN_OP_fill) continue;
    ++fills;
    assert_true(node->dtype == TN_F32 && node->number == tn_of_bf16(tn_bf16_of((float)(1 / 3.0))));
  }
  assert_int_equal(casts, 2 * 2); /* W and h, to bf16 and back */
  assert_int_equal(fills, 1);
  tn_program_free(&p);
  tn_graph_free(&graph);
}

/* ---- Bits ---- */

enum { POINTS = 150, OPERANDS = 2 * TN_MAX_CHANNELS };

typedef struct site { /* a product of the mixed graph */
  const tn_node *node;
  uint32_t operands, inputs; /* without and with the bias */
  tn_value before[OPERANDS + 1], in[OPERANDS + 1], out[TN_MAX_CHANNELS];
} site;

static tn_value at(tn_graph *graph, const tn_node *node, uint32_t k) {
  return tn_value_at(graph, node->inputs[k].node, node->inputs[k].port);
}

static void look_at(tn_graph *graph, uint32_t i, site *s) {
  s->node = tn_node_at(graph, i);
  s->inputs = s->node->n_inputs;
  s->operands = s->node->op->id == TN_OP_jet_lin ? s->node->n_outputs + 1 : s->inputs;
  for (uint32_t k = 0; k < s->inputs; ++k) {
    s->in[k] = s->before[k] = at(graph, s->node, k);
    if (k < s->operands) s->before[k] = at(graph, tn_node_of(at(graph, tn_node_of(s->in[k]), 0)), 0);
  }
  for (uint32_t k = 0; k < s->node->n_outputs; ++k) s->out[k] = tn_value_at(graph, i, k);
}

/* The product in f32 and nothing else, on leaves with the numbers `x` one after the other. */
static double *by_hand(const site *s, tn_axis axis, const double *x, const size_t *count) {
  tn_graph *graph = NULL;
  tn_value leaf[OPERANDS + 1], out[TN_MAX_CHANNELS], none = {0};
  bool lin = s->node->op->id == TN_OP_jet_lin, transposed = s->node->integer[0] != 0;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  size_t total = 0;
  good(tn_graph_new(&graph));
  for (tn_axis made = 0; made < axis;) made = tn_axis_new(graph, "points");
  for (uint32_t k = 0; k < s->inputs; ++k) leaf[k] = tn_input(graph, "leaf", TN_F32, tn_shape_of(s->in[k]));
  uint32_t n = s->node->n_outputs;
  for (uint32_t c = 0; lin && c < n; ++c)
    out[c] = tn_linear(leaf[c], leaf[n], c == 0 && s->node->integer[1] ? leaf[n + 1] : none, transposed);
  if (!lin) out[0] = tn_jet_outer(s->inputs / 2, leaf, leaf + s->inputs / 2);
  good(tn_compile(graph, n, out, &program));
  good(tn_exec_reference(program, NULL, &exec));
  for (uint32_t k = 0; k < s->inputs; x += count[k++]) {
    tn_shape shape = tn_shape_of(leaf[k]);
    size_t extent[TN_MAX_RANK];
    for (uint32_t q = 0; q < shape.rank; ++q) extent[q] = shape.axis[q] ? POINTS : shape.extent[q];
    give(exec, leaf[k], shape.rank, extent, x);
  }
  good(tn_exec_run(exec));
  for (uint32_t c = 0; c < n; ++c) total += count[s->inputs + c];
  double *y = malloc(total * sizeof *y), *to = y;
  for (uint32_t c = 0; c < n; to += count[s->inputs + c++])
    good(tn_exec_read(exec, c, count[s->inputs + c], to));
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_graph_free(&graph);
  return y;
}

static size_t rounded_numbers, product_numbers;

static void check_site(const net *n, const site *s, tn_dtype low) {
  tn_value values[3 * OPERANDS + 4];
  size_t count[2 * OPERANDS + 2], numbers, own = 0, used = 0;
  for (uint32_t k = 0; k < s->inputs; ++k) values[used++] = s->before[k];
  for (uint32_t k = 0; k < s->inputs; ++k) values[used++] = s->in[k];
  for (uint32_t k = 0; k < s->node->n_outputs; ++k) values[used++] = s->out[k];
  for (size_t i = s->inputs; i < used; ++i) {
    tn_shape shape = tn_shape_of(values[i]);
    count[i - s->inputs] = tn_shape_width(&shape) * (tn_shape_batched(&shape) ? POINTS : 1);
    if (i < 2 * s->inputs) own += count[i - s->inputs];
  }
  double *x = net_run(n, used, values, tn_exec_new, NULL, POINTS, &numbers), *rounded = x + own;
  for (size_t i = 0, k = 0, end = count[0]; i < own; ++i) {
    while (i == end) end += count[++k];
    double want = k < s->operands ? tn_round(low, x[i]) : x[i];
    if (memcmp(&rounded[i], &want, sizeof want)) fail_msg("%a rounded to %a, expected %a", x[i], rounded[i], want);
  }
  double *want = by_hand(s, n->axis, rounded, count);
  size_t made = numbers - 2 * own, differing = net_differing(rounded + own, want, made);
  if (differing) fail_msg("%s in %s: %zu of %zu differ", s->node->op->name, tn_dtype_name(low), differing, made);
  rounded_numbers += own;
  product_numbers += made;
  free(want);
  free(x);
}

static void mixed_products_have_the_bits_of_rounded_operands(void **state) {
  (void)state;
  for (int d = 0; d < LOWS; ++d) {
    net n;
    tn_value out[MOST];
    size_t products = 0, count = burgers(&n, TN_F32, out);
    uint32_t begin = (uint32_t)tn_graph_nodes(n.graph);
    good(ag_cast(n.graph, &(ag_cast_policy){.low = lows[d]}, count, out, out));
    for (uint32_t i = begin; i < tn_graph_nodes(n.graph); ++i) { /* the new nodes: some are narrow products */
      const tn_node *node = tn_node_at(n.graph, i);
      site s;
      if (node->op->id != TN_OP_jet_lin && node->op->id != TN_OP_jet_outer) continue;
      if (tn_node_of(at(n.graph, node, 0))->op->id != TN_OP_cast) continue;
      look_at(n.graph, i, &s);
      check_site(&n, &s, lows[d]);
      ++products;
    }
    assert_int_equal(products, 6);
    net_close(&n);
  }
  printf("bits: %zu operands are the rounded ones, %zu results are those of products by hand\n", rounded_numbers,
         product_numbers);
}

/* Everything else of the mixed program is an f32 operation: with roundings taken out, it is the f32 program. */
static void mixed_without_casts_is_the_program(void **state) {
  (void)state;
  net n;
  tn_value plain[MOST], mixed[MOST], back[MOST];
  size_t count = burgers(&n, TN_F32, plain), found = 0;
  tn_value from[64], to[64];
  good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_BF16}, count, plain, mixed));
  memcpy(back, mixed, sizeof back);
  for (bool any = true; any; found = 0) { /* one round takes out the casts of one level */
    size_t nodes = tn_graph_nodes(n.graph);
    bool *used = calloc(nodes, sizeof *used);
    any = false;
    for (size_t i = 0; i < count; ++i) used[back[i].node] = true;
    for (size_t i = nodes; i-- > 0;)
      for (uint32_t k = 0; used[i] && k < tn_node_at(n.graph, (uint32_t)i)->n_inputs; ++k)
        used[tn_node_at(n.graph, (uint32_t)i)->inputs[k].node] = true;
    for (size_t i = 0; i < nodes && !any; ++i) {
      const tn_node *node = tn_node_at(n.graph, (uint32_t)i);
      if (!used[i] || node->op->id != TN_OP_cast || tn_dtype_of(at(n.graph, node, 0)) != TN_BF16) continue;
      from[found] = tn_value_at(n.graph, (uint32_t)i, 0);
      to[found++] = at(n.graph, tn_node_of(at(n.graph, node, 0)), 0);
      any = true;
    }
    free(used);
    if (any) good(ag_substitute(n.graph, found, from, to, count, back, back));
  }
  all_same(count, back, plain, "without casts");
  net_close(&n);
}

/* Regions that gradients compute again stay regions, and their second values are rounded like the first. */
static void recomputed_regions_stay(void **state) {
  (void)state;
  net n;
  tn_value leaf[2 * NET_LAYERS], out[2][MOST];
  size_t count, numbers, computed[2] = {0};
  double *x[2];
  net_open(&n, (net_shape){TN_F32, 2, 1, 20, 4, TN_OP_tanh, true, false});
  tn_value r = net_burgers(&n);
  good(net_resolve(&n, 1, &r, NULL, NULL));
  for (int i = 0; i < 2; ++i) {
    if (i) good(ag_remat(n.graph, 2, n.x, 1, &r));
    out[i][0] = net_loss(r);
    count = net_parameters(&n, leaf);
    good(ag_grad(out[i][0], count, leaf, out[i] + 1));
    tn_program *before = compiled(n.graph, count + 1, out[i]);
    good(ag_cast(n.graph, &(ag_cast_policy){.low = TN_F16}, count + 1, out[i], out[i]));
    tn_program *after = compiled(n.graph, count + 1, out[i]);
    size_t same = 0;
    for (size_t k = 0; k < tn_program_nodes(before); ++k)
      computed[i] += tn_program_node(before, k)->op->id == TN_OP_jet_lin;
    for (size_t k = 0; k < tn_program_nodes(after); ++k)
      same += tn_program_node(after, k)->op->id == TN_OP_jet_lin;
    assert_int_equal(same, computed[i]);
    x[i] = net_run(&n, count + 1, out[i], tn_exec_new, NULL, POINTS, &numbers);
    tn_program_free(&before);
    tn_program_free(&after);
  }
  printf("recomputed: %zu layer products instead of %zu, %zu of %zu numbers differ\n", computed[1], computed[0],
         net_differing(x[0], x[1], numbers), numbers);
  assert_true(computed[1] > computed[0]);
  assert_int_equal(net_differing(x[0], x[1], numbers), 0);
  free(x[0]);
  free(x[1]);
  net_close(&n);
}

static void random_graphs_are_cast_once(void **state) {
  (void)state;
  size_t cast = 0, refusals = 0, values = 0;
  for (uint64_t seed = 0; seed < GRAPHS; ++seed) {
    random_graph g;
    tn_value mixed[RANDOM_OUTPUTS], pure[RANDOM_OUTPUTS], again[RANDOM_OUTPUTS];
    ag_cast_policy mix = {.low = lows[seed % LOWS], .narrowest = 2}, all = {.low = mix.low, .pure = true};
    random_graph_open(&g, seed);
    tn_status status = ag_cast(g.graph, &mix, g.n_outputs, g.output, mixed);
    if (status != TN_OK) { /* products in f64 */
      assert_int_equal(status, TN_EDTYPE);
      ++refusals;
      random_graph_close(&g);
      continue;
    }
    good(ag_cast(g.graph, &all, g.n_outputs, g.output, pure));
    good(ag_cast(g.graph, &mix, g.n_outputs, mixed, again));
    all_same(g.n_outputs, again, mixed, "mixed twice");
    good(ag_cast(g.graph, &all, g.n_outputs, pure, again));
    all_same(g.n_outputs, again, pure, "pure twice");
    for (size_t i = 0; i < g.n_outputs; ++i) {
      tn_shape a = tn_shape_of(g.output[i]), b = tn_shape_of(mixed[i]), c = tn_shape_of(pure[i]);
      assert_true(tn_shape_equal(&a, &b) && tn_shape_equal(&a, &c));
      assert_int_equal(tn_dtype_of(mixed[i]), tn_dtype_of(g.output[i]));
    }
    values += g.n_outputs;
    ++cast;
    random_graph_close(&g);
  }
  printf("random graphs: %zu cast (%zu values), %zu refused for products in f64\n", cast, values, refusals);
  assert_true(cast >= GRAPHS / 8);
}

/* Each allocation fails once: a status and no crash; the next try works on the same graph, and nothing is left. */
static void failed_allocations_are_survived(void **state) {
  (void)state;
  size_t failures = 0;
  for (int pure = 0; pure < 2; ++pure) {
    net n;
    tn_value plain[MOST], out[MOST];
    size_t count = burgers(&n, TN_F32, plain), products = 0;
    ag_cast_policy policy = {.low = TN_BF16, .pure = pure};
    ag_product *list = NULL;
    tn_status status = TN_ENOMEM;
    for (uint64_t at = 1; status != TN_OK; ++at, ++failures) {
      tn_fault_at(at, false);
      status = ag_cast(n.graph, &policy, count, plain, out);
      tn_fault_at(0, false);
      if (status != TN_OK) assert_int_equal(status, TN_ENOMEM);
      tn_graph_clear_error(n.graph);
    }
    tn_program *program = compiled(n.graph, count, out);
    size_t before = tn_memory_now();
    status = TN_ENOMEM;
    for (uint64_t at = 1; status != TN_OK; ++at, ++failures) {
      tn_fault_at(at, false);
      status = ag_products(program, &products, &list);
      tn_fault_at(0, false);
      if (status == TN_OK) break;
      assert_int_equal(status, TN_ENOMEM);
      assert_null(list);
      assert_int_equal(tn_memory_now(), before);
    }
    assert_int_equal(products, 13);
    tn_free(&list);
    tn_program_free(&program);
    net_close(&n);
  }
  printf("allocations: %zu failures survived\n", failures);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mixed_rounds_what_products_multiply), cmocka_unit_test(narrowest_is_the_callers),
      cmocka_unit_test(leaves_places_and_shapes_stay), cmocka_unit_test(pure_computes_everything_low),
      cmocka_unit_test(second_pass_changes_nothing), cmocka_unit_test(bad_casts_are_refused),
      cmocka_unit_test(transposes_and_constants_share_roundings),
      cmocka_unit_test(mixed_products_have_the_bits_of_rounded_operands),
      cmocka_unit_test(mixed_without_casts_is_the_program), cmocka_unit_test(recomputed_regions_stay),
      cmocka_unit_test(random_graphs_are_cast_once),
      cmocka_unit_test(failed_allocations_are_survived)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
