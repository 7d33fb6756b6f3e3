/* split.c: matrix products of f32 made of three products of a low format.
 *
 *   x = hi(x) + u lo(x),   hi(x) = low(x),   lo(x) = low((x - hi(x)) / u),   u the roundoff of `low`
 *   h W  ->  hi(h) hi(W) + u (lo(h) hi(W) + hi(h) lo(W))
 *
 * x - hi(x) is exact, and 1/u, a power of two, lifts it to the size of x, so that it does not end among the
 * subnormals of f16. What is left out, u^2 lo(h) lo(W), and the rounding of both lo are at most u^2 of the product each,
 * 3 u^2 together: products have 20 to 22 bits in f16 and tf32 and 14 to 16 in bf16, and every number multiplied is of
 * the low format. In f16 that is so from |x| = 2^-14 to 65504; smaller x are kept to 2^-36. The sums are f32. The
 * technique is that of Markidis et al. 2018 and of Ootomo and Yokota 2022.
 *
 * Why: rounding operands makes a loss rough, by some 1e-3 of its value in f16. A method that averages over steps does
 * not mind. A line search compares losses, and a quasi-Newton method differences of gradients, between points nearer
 * than that; both come to a stand. Three products instead of one make the loss nearly as smooth as in f32 (bf16: 5e-5).
 *
 * As ag_cast, the pass runs after ag_resolve and ag_grad; products with a width below `narrowest` stay in f32.
 */
#include "autograd/structure.h"

#include <string.h>

enum { NARROWEST = 16 };

typedef struct splitter {
  tn_graph *graph;
  tn_dtype low;
  size_t narrowest;
  uint32_t n_nodes;
  size_t *port;  /* first port of a node */
  bool *used;    /* of nodes: the values need it */
  tn_value *map; /* of ports: what replaces it; absent: itself */
  tn_value *in, *hi, *lo; /* room for the inputs of any node */
} splitter;

static tn_value input_of(tn_graph *graph, const tn_node *node, uint32_t k) {
  return tn_value_at(graph, node->inputs[k].node, node->inputs[k].port);
}

static tn_value rounded(const splitter *s, tn_value x) {
  return tn_cast(tn_cast(x, s->low), TN_F32);
}

static void split(const splitter *s, tn_value x, tn_value *hi, tn_value *lo) {
  tn_value lift = tn_const(s->graph, TN_F32, 1 / tn_dtype_roundoff(s->low));
  tn_at_like(x);
  *hi = rounded(s, x);
  *lo = rounded(s, tn_mul(lift, tn_sub(x, *hi)));
}

/* ---- One product ---- */

/* Operands of a product that are multiplied: a jet_lin's bias is not. */
static uint32_t operands(const tn_node *node) {
  if (node->op->id != TN_OP_jet_lin) return node->n_inputs;
  return (uint32_t)__builtin_popcountll(node->mask[0]) + 1;
}

static bool is_wide(const splitter *s, const tn_node *node) {
  const tn_shape *weight = &node->shapes[0];
  if (node->op->id != TN_OP_jet_lin && node->op->id != TN_OP_jet_outer) return false;
  if (node->op->id == TN_OP_jet_lin) {
    tn_edge e = node->inputs[operands(node) - 1];
    weight = &tn_node_at(s->graph, e.node)->shapes[e.port];
  }
  return node->dtype == TN_F32 && weight->extent[0] >= s->narrowest && weight->extent[1] >= s->narrowest;
}

/* The product with the second half of its operands from `b` and the first from `a`. */
static tn_status product(const splitter *s, uint32_t i, const tn_node *node, const tn_value *a, const tn_value *b,
                         bool bias, tn_value *ports) {
  uint32_t n = operands(node), half = node->op->id == TN_OP_jet_lin ? n - 1 : n / 2;
  tn_value in[2 * TN_MAX_CHANNELS + 2];
  if (node->n_inputs > sizeof in / sizeof *in)
    return TN_FAIL(TN_EUNSUPPORTED, "split: a product of %u operands, at most %d", node->n_inputs,
                   2 * TN_MAX_CHANNELS + 2);
  for (uint32_t k = 0; k < n; ++k) in[k] = k < half ? a[k] : b[k];
  for (uint32_t k = n; k < node->n_inputs; ++k) /* another bias than the product's own is 0 */
    in[k] = bias ? s->in[k] : tn_fill(s->graph, TN_F32, tn_shape_of(s->in[k]), 0);
  return tn_rebuild(s->graph, i, in, ports);
}

static tn_status three(const splitter *s, uint32_t i, const tn_node *node, tn_value *ports) {
  tn_value first[TN_MAX_CHANNELS], second[TN_MAX_CHANNELS];
  tn_value u = tn_const(s->graph, TN_F32, tn_dtype_roundoff(s->low));
  for (uint32_t k = 0; k < operands(node); ++k) split(s, s->in[k], &s->hi[k], &s->lo[k]);
  tn_at_like(tn_value_at(s->graph, i, 0));
  TN_TRY(tn_graph_error(s->graph));
  TN_TRY(product(s, i, node, s->hi, s->hi, true, ports));
  TN_TRY(product(s, i, node, s->lo, s->hi, false, first));
  TN_TRY(product(s, i, node, s->hi, s->lo, false, second));
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    ports[k] = tn_add(ports[k], tn_mul(u, tn_add(first[k], second[k])));
  return tn_graph_error(s->graph);
}

static tn_status rebuild(const splitter *s, uint32_t i, const tn_node *node, tn_value *ports) {
  bool touched = false;
  if (is_wide(s, node)) return three(s, i, node, ports);
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    touched = touched || !tn_same(s->in[k], input_of(s->graph, node, k));
  if (touched) return tn_rebuild(s->graph, i, s->in, ports);
  for (uint32_t k = 0; k < node->n_outputs; ++k) ports[k] = tn_value_at(s->graph, i, k);
  return TN_OK;
}

/* ---- The pass ---- */

static tn_status begin(splitter *s, size_t n, const tn_value *values) {
  uint32_t most = 1;
  for (size_t i = 0; i < n; ++i) {
    if (!tn_ok(values[i]) || values[i].graph != s->graph)
      return ag_bad_value(s->graph, "split", i);
    if (values[i].node >= s->n_nodes) s->n_nodes = values[i].node + 1;
  }
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->port));
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->used));
  for (size_t i = 0; i < n; ++i) s->used[values[i].node] = true;
  for (uint32_t i = s->n_nodes; i-- > 0;) {
    const tn_node *node = tn_node_at(s->graph, i);
    if (s->used[i] && node->n_inputs > most) most = node->n_inputs;
    for (uint32_t k = 0; s->used[i] && k < node->n_inputs; ++k) s->used[node->inputs[k].node] = true;
  }
  for (uint32_t i = 0; i < s->n_nodes; ++i)
    s->port[i + 1] = s->port[i] + tn_node_at(s->graph, i)->n_outputs;
  TN_TRY(TN_NEW(s->port[s->n_nodes] + 1, &s->map));
  TN_TRY(TN_NEW(most, &s->in));
  TN_TRY(TN_NEW(most, &s->hi));
  return TN_NEW(most, &s->lo);
}

static tn_status run(splitter *s) {
  tn_value ports[TN_MAX_CHANNELS];
  for (uint32_t i = 0; i < s->n_nodes; ++i) {
    const tn_node *node = tn_node_at(s->graph, i);
    if (!s->used[i] || node->n_inputs == 0) continue;
    if (node->op->class_ == TN_ATOM)
      return TN_FAIL(TN_ESTATE, "split: a call of a field is not resolved; call ag_resolve first");
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_value moved = s->map[s->port[node->inputs[k].node] + node->inputs[k].port];
      s->in[k] = ag_present(moved) ? moved : input_of(s->graph, node, k);
    }
    TN_TRY(rebuild(s, i, node, ports));
    memcpy(s->map + s->port[i], ports, node->n_outputs * sizeof *ports);
  }
  return TN_OK;
}

tn_status ag_split(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values, tn_value *out) {
  splitter s = {.graph = graph, .low = policy->low,
                .narrowest = policy->narrowest ? policy->narrowest : NARROWEST};
  if (!tn_dtype_is_float(s.low) || tn_dtype_compute(s.low) == s.low || policy->pure)
    return TN_FAIL(TN_EDTYPE, "split: products of %s%s, expected tf32, bf16 or f16 and not pure",
                   tn_dtype_name(s.low), policy->pure ? ", pure" : "");
  TN_TRY(tn_graph_error(graph));
  tn_status status = begin(&s, n, values);
  if (status == TN_OK) status = run(&s);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    tn_value moved = s.map[s.port[values[i].node] + values[i].port];
    out[i] = ag_present(moved) ? moved : values[i];
  }
  tn_free(&s.port);
  tn_free(&s.used);
  tn_free(&s.map);
  tn_free(&s.in);
  tn_free(&s.hi);
  tn_free(&s.lo);
  return status;
}
