/* rewrite.c: the walk of passes that replace nodes, and what such passes ask of a matrix product.
 *
 * One visit of each node that the values need, in the order of recording. New nodes are recorded behind the old
 * ones, so the walk does not meet them.
 */
#include "autograd/rewrite.h"

#include <string.h>

#include "autograd/structure.h"

enum { NARROWEST = 16 };

tn_value ag_input_of(tn_graph *graph, const tn_node *node, uint32_t k) {
  return tn_value_at(graph, node->inputs[k].node, node->inputs[k].port);
}

tn_status ag_on_inputs(tn_graph *graph, uint32_t i, const tn_node *node, const tn_value *in, tn_value *ports) {
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (!tn_same(in[k], ag_input_of(graph, node, k))) return tn_rebuild(graph, i, in, ports);
  for (uint32_t k = 0; k < node->n_outputs; ++k) ports[k] = tn_value_at(graph, i, k);
  return TN_OK;
}

/* ---- Products ---- */

bool ag_is_product(const tn_node *node) {
  return node->op->id == TN_OP_jet_lin || node->op->id == TN_OP_jet_outer;
}

uint32_t ag_operands(const tn_node *node) {
  return node->op->id == TN_OP_jet_lin ? (uint32_t)__builtin_popcountll(node->mask[0]) + 1 : node->n_inputs;
}

bool ag_is_wide(const tn_graph *graph, const tn_node *node, size_t narrowest) {
  const tn_shape *weight = &node->shapes[0];
  if (!ag_is_product(node) || node->dtype != TN_F32) return false;
  if (!narrowest) narrowest = NARROWEST;
  if (node->op->id == TN_OP_jet_lin) {
    tn_edge e = node->inputs[ag_operands(node) - 1];
    weight = &tn_node_at(graph, e.node)->shapes[e.port];
  }
  return weight->extent[0] >= narrowest && weight->extent[1] >= narrowest;
}

/* ---- The walk ---- */

typedef struct walk {
  tn_graph *graph;
  uint32_t n_nodes;
  size_t *port;  /* first port of a node */
  bool *used;    /* of nodes: the values need it */
  tn_value *map; /* of ports: what replaces it; absent: itself */
  tn_value *in;  /* room for the inputs of any node */
} walk;

static tn_status begin(walk *w, const char *pass, size_t n, const tn_value *values) {
  uint32_t most = 1;
  for (size_t i = 0; i < n; ++i) {
    if (!tn_ok(values[i]) || values[i].graph != w->graph) return ag_bad_value(w->graph, pass, i);
    if (values[i].node >= w->n_nodes) w->n_nodes = values[i].node + 1;
  }
  TN_TRY(TN_NEW(w->n_nodes + 1, &w->port));
  TN_TRY(TN_NEW(w->n_nodes + 1, &w->used));
  for (size_t i = 0; i < n; ++i) w->used[values[i].node] = true;
  for (uint32_t i = w->n_nodes; i-- > 0;) {
    const tn_node *node = tn_node_at(w->graph, i);
    if (w->used[i] && node->n_inputs > most) most = node->n_inputs;
    for (uint32_t k = 0; w->used[i] && k < node->n_inputs; ++k) w->used[node->inputs[k].node] = true;
  }
  for (uint32_t i = 0; i < w->n_nodes; ++i)
    w->port[i + 1] = w->port[i] + tn_node_at(w->graph, i)->n_outputs;
  TN_TRY(TN_NEW(w->port[w->n_nodes] + 1, &w->map));
  return TN_NEW(most, &w->in);
}

static tn_status run(walk *w, ag_replace rule, void *context) {
  tn_value ports[TN_MAX_CHANNELS];
  for (uint32_t i = 0; i < w->n_nodes; ++i) {
    const tn_node *node = tn_node_at(w->graph, i);
    if (!w->used[i] || node->n_inputs == 0) continue;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_value moved = w->map[w->port[node->inputs[k].node] + node->inputs[k].port];
      w->in[k] = ag_present(moved) ? moved : ag_input_of(w->graph, node, k);
    }
    TN_TRY(rule(context, i, node, w->in, ports));
    memcpy(w->map + w->port[i], ports, node->n_outputs * sizeof *ports);
  }
  return TN_OK;
}

tn_status ag_rewrite(tn_graph *graph, const char *pass, ag_replace rule, void *context, size_t n,
                     const tn_value *values, tn_value *out) {
  walk w = {.graph = graph};
  TN_TRY(tn_graph_error(graph));
  tn_status status = begin(&w, pass, n, values);
  if (status == TN_OK) status = run(&w, rule, context);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    tn_value moved = w.map[w.port[values[i].node] + values[i].port];
    out[i] = ag_present(moved) ? moved : values[i];
  }
  tn_free(&w.port);
  tn_free(&w.used);
  tn_free(&w.map);
  tn_free(&w.in);
  return status;
}
