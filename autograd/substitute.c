/* substitute.c: a graph with some values replaced by others.
 *
 * Parts that depend on a replaced value are built anew by tn_rebuild, everything else is shared. A point axis
 * that goes with a replaced value is replaced too: structural fills and expansions on it move to the new axis,
 * or lose it where the new value is a scalar.
 */
#include "autograd/field.h"
#include "autograd/remat.h"

#include <string.h>

typedef struct renaming { tn_axis from, to; bool any; } renaming;

static tn_axis renamed(const renaming *r, size_t n, tn_axis axis) {
  for (size_t i = 0; i < n; ++i)
    if (r[i].any && r[i].from == axis) return r[i].to;
  return axis;
}

static bool mentions(const renaming *r, size_t n, const tn_node *node) {
  tn_axis axis = 0;
  if (node->op->id == TN_OP_fill && tn_shape_batched(&node->shapes[0])) axis = node->shapes[0].axis[0];
  if (node->op->id == TN_OP_expand) axis = (tn_axis)node->integer[1];
  return axis && renamed(r, n, axis) != axis;
}

static tn_value move_leaf(tn_graph *graph, const tn_node *node, const renaming *r, size_t n) {
  tn_shape shape = node->shapes[0];
  tn_axis to = renamed(r, n, shape.axis[0]);
  if (to) {
    shape.axis[0] = to;
    return tn_fill(graph, node->dtype, shape, node->number);
  }
  tn_shape fixed = tn_shape_fixed(shape.rank - 1, shape.extent + 1);
  if (!fixed.rank) return tn_const(graph, node->dtype, node->number);
  return tn_fill(graph, node->dtype, fixed, node->number);
}

static tn_status rebuild(tn_graph *graph, uint32_t i, const tn_node *node, const renaming *r, size_t n,
                         const tn_value *in, tn_value *ports) {
  if (node->op->id == TN_OP_call) {
    ports[0] = ag_call((ag_field *)(uintptr_t)node->call->field, node->call->output, in,
                       node->call->power);
    return tn_graph_error(graph);
  }
  if (node->op->id == TN_OP_fill) {
    ports[0] = move_leaf(graph, node, r, n);
    return tn_graph_error(graph);
  }
  if (node->op->id == TN_OP_expand && mentions(r, n, node)) {
    tn_axis to = renamed(r, n, (tn_axis)node->integer[1]);
    ports[0] = to ? tn_expand(in[0], (size_t)node->integer[0], to, 0) : in[0];
    return tn_graph_error(graph);
  }
  return tn_rebuild(graph, i, in, ports);
}

tn_status ag_substitute(tn_graph *graph, size_t n_from, const tn_value *from, const tn_value *to,
                        size_t n, const tn_value *values, tn_value *out) {
  uint32_t n_nodes = 0;
  size_t *port = NULL;
  tn_value *map = NULL, in[AG_MAX_INPUTS];
  bool *used = NULL;
  renaming *axes = NULL;
  for (size_t i = 0; i < n_from + n; ++i) {
    tn_value v = i < n_from ? from[i] : values[i - n_from];
    if (!tn_ok(v) || v.graph != graph || (i < n_from && !tn_ok(to[i])))
      return ag_bad_value(graph, "substitute", i);
    if (v.node >= n_nodes) n_nodes = v.node + 1;
  }
  tn_status status = TN_NEW(n_nodes + 1, &port);
  if (status == TN_OK) status = TN_NEW(n_nodes + 1, &used);
  if (status == TN_OK) status = TN_NEW(n_from + 1, &axes);
  for (uint32_t i = 0; i < n_nodes && status == TN_OK; ++i)
    port[i + 1] = port[i] + tn_node_at(graph, i)->n_outputs;
  if (status == TN_OK) status = TN_NEW(port[n_nodes] + 1, &map);
  if (status != TN_OK) goto done;
  for (size_t j = 0; j < n_from; ++j) {
    tn_shape a = tn_shape_of(from[j]), b = tn_shape_of(to[j]);
    tn_axis axis = tn_shape_batched(&a) ? a.axis[0] : 0, other = tn_shape_batched(&b) ? b.axis[0] : 0;
    axes[j] = (renaming){axis, other, axis && axis != other};
    map[port[from[j].node] + from[j].port] = to[j];
  }
  /* An axis whose values go partly to an axis and partly to scalars keeps the axis. */
  for (size_t j = 0; j < n_from; ++j)
    for (size_t k = 0; k < n_from; ++k)
      if (axes[j].any && axes[k].any && axes[j].from == axes[k].from && !axes[j].to)
        axes[j].to = axes[k].to;
  for (size_t i = 0; i < n; ++i) used[values[i].node] = true;
  for (uint32_t i = n_nodes; i-- > 0;)
    for (uint32_t k = 0; used[i] && k < tn_node_at(graph, i)->n_inputs; ++k)
      used[tn_node_at(graph, i)->inputs[k].node] = true;
  for (uint32_t i = 0; i < n_nodes && status == TN_OK; ++i) {
    const tn_node *node = tn_node_at(graph, i);
    tn_value ports[TN_MAX_CHANNELS];
    bool touched = mentions(axes, n_from, node);
    if (!used[i]) continue;
    for (size_t j = 0; j < n_from; ++j) /* a copy of a replaced value is that value */
      if (node->origin == from[j].node + 1) map[port[i] + from[j].port] = to[j];
    if (node->n_inputs > AG_MAX_INPUTS) {
      status = TN_FAIL(TN_EUNSUPPORTED, "substitute: %s of %u inputs", node->op->name, node->n_inputs);
      break;
    }
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_edge e = node->inputs[k];
      tn_value moved = map[port[e.node] + e.port];
      in[k] = ag_present(moved) ? moved : tn_value_at(graph, e.node, e.port);
      touched = touched || ag_present(moved);
    }
    if (!touched) continue;
    status = rebuild(graph, i, node, axes, n_from, in, ports);
    for (uint32_t k = 0; k < node->n_outputs && status == TN_OK; ++k)
      if (!ag_present(map[port[i] + k])) map[port[i] + k] = ports[k];
  }
  for (size_t i = 0; i < n && status == TN_OK; ++i) {
    tn_value moved = map[port[values[i].node] + values[i].port];
    out[i] = ag_present(moved) ? moved : values[i];
  }
done:
  tn_free(&port);
  tn_free(&used);
  tn_free(&axes);
  tn_free(&map);
  return status;
}
