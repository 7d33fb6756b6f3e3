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
#include "autograd/rewrite.h"

#include <stdio.h>

#include "autograd/structure.h"

typedef struct caster {
  tn_graph *graph;
  tn_dtype low;
  bool pure;
  size_t narrowest;
} caster;

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
  if (node->op->id == TN_OP_cast && tn_dtype_of(ag_input_of(c->graph, node, 0)) == c->low) return v;
  if (node->op->id == TN_OP_transpose) {
    tn_value inner = rounded(c, ag_input_of(c->graph, node, 0));
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

static tn_status check_node(const caster *c, uint32_t i, const tn_node *node) {
  char place[256] = "";
  if (node->file) snprintf(place, sizeof place, "%.200s:%d:%d: ", node->file, node->line, node->column);
  if (node->op->class_ == TN_ATOM)
    return TN_FAIL(TN_ESTATE, "%scast to %s: a call of a field is not resolved; call ag_resolve first", place,
                   tn_dtype_name(c->low));
  if (ag_is_product(node) && node->dtype == TN_F64)
    return TN_FAIL(TN_EDTYPE, "%scast to %s: %s (node %u) multiplies matrices in f64, expected f32; build the "
                   "model in f32", place, tn_dtype_name(c->low), node->op->name, i);
  return TN_OK;
}

/* Mixed: in[] become the operands of the node. */
static void mix(const caster *c, const tn_node *node, tn_value *in) {
  if (!ag_is_wide(c->graph, node, c->narrowest)) return;
  for (uint32_t k = 0; k < ag_operands(node); ++k) in[k] = rounded(c, in[k]);
}

static tn_status rule(void *context, uint32_t i, const tn_node *node, tn_value *in, tn_value *ports) {
  const caster *c = context;
  TN_TRY(check_node(c, i, node));
  if (!c->pure) {
    mix(c, node, in);
  } else if (node->op->id == TN_OP_cast) {
    tn_at_like(tn_value_at(c->graph, i, 0));
    ports[0] = tn_cast(in[0], node->dtype == TN_F32 ? c->low : node->dtype);
    return tn_graph_error(c->graph);
  } else {
    for (uint32_t k = 0; k < node->n_inputs; ++k) in[k] = entering(c, in[k]);
  }
  TN_TRY(tn_graph_error(c->graph));
  return ag_on_inputs(c->graph, i, node, in, ports);
}

tn_status ag_cast(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values,
                  tn_value *out) {
  caster c = {graph, policy->low, policy->pure, policy->narrowest};
  if (!tn_dtype_is_float(c.low) || tn_dtype_compute(c.low) == c.low)
    return TN_FAIL(TN_EDTYPE, "cast: %s is no low format, expected tf32, bf16 or f16", tn_dtype_name(c.low));
  TN_TRY(ag_rewrite(graph, "cast", rule, &c, n, values, out));
  for (size_t i = 0; c.pure && i < n; ++i) { /* only leaves are still f32: constants become constants */
    tn_value number = tn_dtype_of(out[i]) == TN_F32 ? constant_of(&c, out[i], c.low) : (tn_value){0};
    if (ag_present(number)) out[i] = number;
  }
  return tn_graph_error(graph);
}
