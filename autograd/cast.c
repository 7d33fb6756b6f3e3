/* cast.c: which numbers of a graph are rounded to a low format.
 *
 *   mixed   y = h W + b in f32  becomes  y = f32(low(h)) f32(low(W)) + b: the numbers that a matrix product
 *           multiplies have few digits, their products are summed in f32, and everything else stays in f32.
 *           Biases are added and not multiplied, so they stay. The same holds for the adjoint zbar W^T and for
 *           the weight gradient, the sum of outer(h, zbar).
 *   pure    every operation on f32 becomes one of `low` (computed in f32, rounded once); leaves keep their dtype
 *           and are rounded where they enter.
 *
 * The pass runs after ag_resolve and ag_grad: then gradients are nodes like all others, one rounded h serves the
 * layer, its weight gradient and all channels, and nothing is differentiated through a rounding. Equal nodes are
 * one node, so however many products read a value, it is rounded once; a transposed matrix is the transpose of
 * the rounded one for the same reason. f64 is never touched: a loss is summed from terms in f64, and that part
 * holds no products. A second pass finds its own casts and changes nothing.
 *
 * Cost: one visit of each node that the values need, as for any substitution.
 */
#include "autograd/structure.h"

#include <stdio.h>
#include <string.h>

enum { NARROWEST = 16 };

typedef struct caster {
  tn_graph *graph;
  tn_dtype low;
  bool pure;
  size_t narrowest;
  uint32_t n_nodes;
  size_t *port;  /* first port of a node */
  bool *used;    /* of nodes: the values need it */
  tn_value *map; /* of ports: what replaces it; absent: itself */
  tn_value *in;  /* room for the inputs of any node */
} caster;

static tn_value input_of(tn_graph *graph, const tn_node *node, uint32_t k) {
  return tn_value_at(graph, node->inputs[k].node, node->inputs[k].port);
}

/* ---- Rounding one value ---- */

/* A constant of the graph in another dtype and with numbers of `low`; absent if v is none. */
static tn_value constant_of(const caster *c, tn_value v, tn_dtype dtype) {
  const tn_node *node = tn_node_of(v);
  tn_value none = {0};
  if (!node) return none;
  tn_at_like(v);
  if (node->op->id == TN_OP_constant)
    return tn_const(c->graph, dtype, tn_round(c->low, node->number));
  if (node->op->id == TN_OP_fill)
    return tn_fill(c->graph, dtype, node->shapes[0], tn_round(c->low, node->number));
  if (node->op->id != TN_OP_array) return none;
  size_t n = tn_shape_width(&node->shapes[0]);
  double *data = NULL;
  if (TN_NEW(n, &data) != TN_OK) return tn_graph_fail(c->graph, TN_ENOMEM, "cast: out of memory");
  for (size_t i = 0; i < n; ++i) data[i] = tn_round(c->low, node->data[i]);
  tn_value out = tn_const_array(c->graph, dtype, node->shapes[0], data);
  tn_free(&data);
  return out;
}

/* Mixed: v in its own dtype, f32, with numbers of `low`. */
static tn_value rounded(const caster *c, tn_value v) {
  const tn_node *node = tn_node_of(v);
  tn_value out = constant_of(c, v, tn_dtype_of(v));
  if (ag_present(out) || !node) return out;
  if (node->op->id == TN_OP_cast && tn_dtype_of(input_of(c->graph, node, 0)) == c->low) return v;
  if (node->op->id == TN_OP_transpose) {
    tn_value inner = rounded(c, input_of(c->graph, node, 0));
    return tn_rebuild(c->graph, v.node, &inner, &out) == TN_OK ? out : (tn_value){0};
  }
  tn_at_like(v);
  return tn_cast(tn_cast(v, c->low), tn_dtype_of(v));
}

/* Pure: v as an operand of an operation in `low`. Only leaves are still f32. */
static tn_value entering(const caster *c, tn_value v) {
  if (tn_dtype_of(v) != TN_F32) return v;
  tn_value out = constant_of(c, v, c->low);
  if (ag_present(out)) return out;
  tn_at_like(v);
  return tn_cast(v, c->low);
}

/* ---- Nodes ---- */

static bool is_product(const tn_node *node) {
  return node->op->id == TN_OP_jet_lin || node->op->id == TN_OP_jet_outer;
}

static bool is_wide(const caster *c, const tn_node *node) {
  const tn_shape *weight = &node->shapes[0];
  if (node->op->id == TN_OP_jet_lin) {
    tn_edge e = node->inputs[__builtin_popcountll(node->mask[0])];
    weight = &tn_node_at(c->graph, e.node)->shapes[e.port];
  }
  return weight->extent[0] >= c->narrowest && weight->extent[1] >= c->narrowest;
}

static tn_status check_node(const caster *c, uint32_t i, const tn_node *node) {
  char place[256] = "";
  if (node->file) snprintf(place, sizeof place, "%.200s:%d:%d: ", node->file, node->line, node->column);
  if (node->op->class_ == TN_ATOM)
    return TN_FAIL(TN_ESTATE, "%scast to %s: a call of a field is not resolved; call ag_resolve first", place,
                   tn_dtype_name(c->low));
  if (is_product(node) && node->dtype == TN_F64)
    return TN_FAIL(TN_EDTYPE, "%scast to %s: %s (node %u) multiplies matrices in f64, expected f32; build the "
                   "model in f32", place, tn_dtype_name(c->low), node->op->name, i);
  return TN_OK;
}

/* Mixed: in[] become the operands of the node. */
static void mix(const caster *c, const tn_node *node) {
  if (!is_product(node) || node->dtype != TN_F32 || !is_wide(c, node)) return;
  uint32_t n = node->n_inputs;
  if (node->op->id == TN_OP_jet_lin) n = (uint32_t)__builtin_popcountll(node->mask[0]) + 1; /* no bias */
  for (uint32_t k = 0; k < n; ++k) c->in[k] = rounded(c, c->in[k]);
}

static tn_status rebuild(const caster *c, uint32_t i, const tn_node *node, tn_value *ports) {
  if (!c->pure) {
    mix(c, node);
  } else if (node->op->id == TN_OP_cast) {
    tn_at_like(tn_value_at(c->graph, i, 0));
    ports[0] = tn_cast(c->in[0], node->dtype == TN_F32 ? c->low : node->dtype);
    return tn_graph_error(c->graph);
  } else {
    for (uint32_t k = 0; k < node->n_inputs; ++k) c->in[k] = entering(c, c->in[k]);
  }
  TN_TRY(tn_graph_error(c->graph));
  bool touched = false;
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    touched = touched || !tn_same(c->in[k], input_of(c->graph, node, k));
  if (touched) return tn_rebuild(c->graph, i, c->in, ports);
  for (uint32_t k = 0; k < node->n_outputs; ++k) ports[k] = tn_value_at(c->graph, i, k);
  return TN_OK;
}

/* ---- The pass ---- */

static tn_status begin(caster *c, size_t n, const tn_value *values) {
  uint32_t most = 1;
  for (size_t i = 0; i < n; ++i) {
    if (!tn_ok(values[i]) || values[i].graph != c->graph)
      return ag_bad_value(c->graph, "cast", i);
    if (values[i].node >= c->n_nodes) c->n_nodes = values[i].node + 1;
  }
  TN_TRY(TN_NEW(c->n_nodes + 1, &c->port));
  TN_TRY(TN_NEW(c->n_nodes + 1, &c->used));
  for (size_t i = 0; i < n; ++i) c->used[values[i].node] = true;
  for (uint32_t i = c->n_nodes; i-- > 0;) {
    const tn_node *node = tn_node_at(c->graph, i);
    if (c->used[i] && node->n_inputs > most) most = node->n_inputs;
    for (uint32_t k = 0; c->used[i] && k < node->n_inputs; ++k) c->used[node->inputs[k].node] = true;
  }
  for (uint32_t i = 0; i < c->n_nodes; ++i)
    c->port[i + 1] = c->port[i] + tn_node_at(c->graph, i)->n_outputs;
  TN_TRY(TN_NEW(c->port[c->n_nodes] + 1, &c->map));
  return TN_NEW(most, &c->in);
}

static tn_status run(caster *c) {
  tn_value ports[TN_MAX_CHANNELS];
  for (uint32_t i = 0; i < c->n_nodes; ++i) {
    const tn_node *node = tn_node_at(c->graph, i);
    if (!c->used[i]) continue;
    TN_TRY(check_node(c, i, node));
    if (node->n_inputs == 0) continue;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_value moved = c->map[c->port[node->inputs[k].node] + node->inputs[k].port];
      c->in[k] = ag_present(moved) ? moved : input_of(c->graph, node, k);
    }
    TN_TRY(rebuild(c, i, node, ports));
    memcpy(c->map + c->port[i], ports, node->n_outputs * sizeof *ports);
  }
  return TN_OK;
}

static tn_status finish(const caster *c, size_t n, const tn_value *values, tn_value *out) {
  for (size_t i = 0; i < n; ++i) {
    tn_value moved = c->map[c->port[values[i].node] + values[i].port];
    bool number = c->pure && tn_dtype_of(values[i]) == TN_F32;
    if (!ag_present(moved) && number) moved = constant_of(c, values[i], c->low);
    out[i] = ag_present(moved) ? moved : values[i];
  }
  return tn_graph_error(c->graph);
}

tn_status ag_cast(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values,
                  tn_value *out) {
  caster c = {.graph = graph, .low = policy->low, .pure = policy->pure,
              .narrowest = policy->narrowest ? policy->narrowest : NARROWEST};
  if (!tn_dtype_is_float(c.low) || tn_dtype_compute(c.low) == c.low)
    return TN_FAIL(TN_EDTYPE, "cast: %s is no low format, expected tf32, bf16 or f16", tn_dtype_name(c.low));
  TN_TRY(tn_graph_error(graph));
  tn_status status = begin(&c, n, values);
  if (status == TN_OK) status = run(&c);
  if (status == TN_OK) status = finish(&c, n, values, out);
  tn_free(&c.port);
  tn_free(&c.used);
  tn_free(&c.map);
  tn_free(&c.in);
  return status;
}
