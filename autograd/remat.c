/* remat.c: regions whose values a gradient computes again instead of keeping them.
 *
 * A region is a segment of nodes (tn_segment). When a reverse sweep meets the first node of one, it records the
 * region anew, from the values that enter it, in a segment of its own: CSE makes no two segments one. Rules of the
 * region's nodes read these copies, so the first values have no reader left behind the forward pass, and their
 * storage goes to others. What enters a region, or leaves it for another one, is kept.
 *
 * The nodes that the rules record lie in the segment of the copies, too: to a second sweep, the copies and the
 * cotangents are a region like any other, and it computes them again from what entered them. Jets of a body carry
 * its regions on (jet.c), tangents belong to the region of their node (jvp.c). So recomputation goes with every
 * derivative of every order.
 *
 * The graph knows what is computed more than once (tn_node.origin), and a later sweep adds up the cotangents of a
 * value and of its copies at the first of them, in the order in which their readers were recorded. So one value has
 * one derivative however often it is computed, also where x itself lies in a region, and no bit depends on regions:
 * the same operations on the same numbers in the same order.
 *
 * Executors run nodes in the order of recording as far as their inputs allow, and copies are recorded just before
 * their first reader; nothing else holds them back. Where a gradient waits for a sum over points (a square root of
 * a mean), the copies do not wait with it.
 */
#include "autograd/remat.h"

uint64_t ag_key(uint64_t tag, size_t n, const tn_value *values) {
  uint64_t h = tag;
  for (size_t i = 0; i < n; ++i) {
    h ^= ag_present(values[i]) ? ((uint64_t)values[i].node << 8) + values[i].port + 1 : 0;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  return h ? h : 1;
}

static tn_status make_copies(ag_copies *c, uint32_t region) {
  tn_value in[AG_MAX_INPUTS], ports[TN_MAX_CHANNELS];
  for (uint32_t i = 0; i < c->n_nodes; ++i) {
    const tn_node *node = tn_node_at(c->graph, i);
    if (node->segment != region) continue;
    if (node->op->class_ == TN_ATOM) continue;
    if (node->n_inputs > AG_MAX_INPUTS)
      return TN_FAIL(TN_EUNSUPPORTED, "recomputation: %s of %u inputs, at most %d", node->op->name, node->n_inputs,
                     AG_MAX_INPUTS);
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_edge e = node->inputs[k];
      in[k] = ag_copied(c, i, tn_value_at(c->graph, e.node, e.port));
    }
    TN_TRY(tn_rebuild(c->graph, i, in, ports));
    for (uint32_t k = 0; k < node->n_outputs; ++k) c->copy[c->port[i] + k] = ports[k];
  }
  return TN_OK;
}

tn_status ag_copies_of(ag_copies *c, uint32_t node, uint32_t *segment) {
  uint32_t region = tn_node_at(c->graph, node)->segment;
  *segment = 0;
  if (!region) return TN_OK;
  if (!c->copy) TN_TRY(TN_NEW(c->port[c->n_nodes] + 1, &c->copy));
  if (region >= c->n_segments) {
    TN_TRY(tn_grow(&c->segment, c->n_segments, region + 1, sizeof *c->segment));
    c->n_segments = region + 1;
  }
  if (!c->segment[region]) {
    uint32_t id = tn_segment_new(c->graph, region, c->key);
    if (!id) return tn_graph_error(c->graph);
    c->segment[region] = id;
    uint32_t before = tn_segment(c->graph, id);
    tn_status status = make_copies(c, region);
    tn_segment(c->graph, before);
    TN_TRY(status);
  }
  *segment = c->segment[region];
  return TN_OK;
}

tn_value ag_copied(const ag_copies *c, uint32_t reader, tn_value v) {
  if (!c || !c->copy || v.node >= c->n_nodes) return v;
  uint32_t region = tn_node_at(c->graph, reader)->segment;
  if (!region || tn_node_at(c->graph, v.node)->segment != region) return v;
  tn_value copy = c->copy[c->port[v.node] + v.port];
  return ag_present(copy) ? copy : v;
}

void ag_copies_free(ag_copies *copies) {
  tn_free(&copies->copy);
  tn_free(&copies->segment);
}

/* ---- Regions ---- */

uint32_t ag_remat_begin(tn_graph *graph) { return tn_segment(graph, tn_segment_new(graph, 0, 0)); }

void ag_remat_end(tn_graph *graph, uint32_t before) { tn_segment(graph, before); }

tn_status ag_remat(tn_graph *graph, size_t n_in, const tn_value *in, size_t n_out, tn_value *out) {
  uint32_t before = ag_remat_begin(graph);
  tn_status status = ag_substitute(graph, n_in, in, in, n_out, out, out);
  ag_remat_end(graph, before);
  return status;
}
