/* pipeline_owner.c: which rank computes what, for the executor that splits a program by layers.
 *
 * A layer is everything that belongs to one weight matrix: the products that read it (forwards, back, and whatever
 * derivatives made of them) and what is computed from their results. So a product goes to the layer of its matrix, any
 * other node to the layer of its first input that has one; nodes before all layers go to the layer of their first
 * reader, and what has no layer on either side is one of its own. That puts the activation of a layer, its adjoint and
 * the gradient of its weights where its product is, since the adjoint of the product's result comes from the
 * activation's derivative there.
 *
 * Layers in the order of recording are cut into one run of layers a rank: layer l, with cost c_l and C before it, goes
 * to rank floor(R (C + c_l / 2) / total). Cost is FLOPs and a quarter of the bytes written a point, times points: the
 * vector units do about 4 operations in the time of a byte from the second cache. Owners change no bit.
 */
#include "tensor/pipeline.h"

#define NO_LAYER UINT32_MAX

static bool is_leaf(const tn_program *p, size_t i) { return p->nodes[i]->op->class_ == TN_LEAF; }

/* ---- Layers ---- */

typedef struct layers {
  const tn_exec *exec;
  const tn_program *p;
  const tn_plan *plan;
  uint32_t *layer;   /* of each node */
  uint32_t *of_leaf; /* of each parameter or other leaf of matrices */
  uint32_t *made;    /* of each layer: the node that it began with */
  double *cost;      /* of each node, then of each layer */
  uint32_t *reader;  /* of each node: the layer of its first reader */
  size_t n;
} layers;

/* The leaf that a matrix is made from: through casts, splits, transpositions. */
static uint32_t source(const tn_program *p, uint32_t i) {
  while (p->nodes[i]->n_inputs)
    i = p->nodes[i]->inputs[0].node;
  return i;
}

static uint32_t layer_of_inputs(const layers *l, size_t i) {
  const tn_node *node = l->p->nodes[i];
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (l->layer[node->inputs[k].node] != NO_LAYER)
      return l->layer[node->inputs[k].node];
  return NO_LAYER;
}

static uint32_t new_layer(layers *l, size_t node) {
  l->made[l->n] = (uint32_t)node;
  return (uint32_t)l->n++;
}

static void find_layers(layers *l) {
  const tn_program *p = l->p;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (l->cost[i] == 0 || is_leaf(p, i))
      continue;
    const tn_node *node = p->nodes[i];
    if (node->op->id == TN_OP_jet_lin) {
      uint32_t leaf = source(p, node->inputs[node->n_outputs].node);
      if (l->of_leaf[leaf] == NO_LAYER)
        l->of_leaf[leaf] = new_layer(l, i);
      l->layer[i] = l->of_leaf[leaf];
    } else {
      l->layer[i] = layer_of_inputs(l, i);
    }
  }
  for (size_t i = p->n_nodes; i-- > 0;) {
    if (l->cost[i] == 0 || is_leaf(p, i))
      continue;
    if (l->layer[i] == NO_LAYER)
      l->layer[i] = l->reader[i];
    for (uint32_t k = 0; l->layer[i] != NO_LAYER && k < p->nodes[i]->n_inputs; ++k)
      l->reader[p->nodes[i]->inputs[k].node] = l->layer[i];
  }
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (l->cost[i] == 0 || is_leaf(p, i) || l->layer[i] != NO_LAYER)
      continue;
    l->layer[i] = layer_of_inputs(l, i);
    if (l->layer[i] == NO_LAYER)
      l->layer[i] = new_layer(l, i);
  }
}

/* ---- Costs ---- */

static double cost_of(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  double bytes = 0, flops = 0;
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    const tn_layout *out = &p->layout[p->port[i] + k];
    bytes += out->axis ? (double)(out->width * out->size) : 0;
    flops += out->axis ? (double)out->width * (node->op->flops > 0 ? node->op->flops : 1) : 0;
  }
  if (node->op->id == TN_OP_jet_lin)
    flops =
        2.0 * node->n_outputs * (double)p->layout[tn_port(p, node->inputs[node->n_outputs])].width;
  else if (node->op->id == TN_OP_jet_outer)
    flops = 2.0 * (double)node->integer[0] * (double)p->layout[p->port[i]].width;
  else if (p->plan[i].count)
    flops = (double)p->plan[i].count * (double)p->layout[p->port[i]].width;
  return 1 + flops + bytes / 4;
}

/* Of each node in a loop: its cost a point times the points of the loops that compute it, above 0. */
static void find_costs(layers *l) {
  for (size_t k = 0; k < l->plan->n_loops; ++k) {
    const tn_loop *loop = &l->plan->loops[k];
    for (size_t i = 0; i < loop->n_nodes; ++i)
      l->cost[loop->nodes[i]] +=
          cost_of(l->p, loop->nodes[i]) * (1 + (double)l->exec->extent[loop->axis]);
  }
}

/* Ranks of layers: runs of equal cost, in the order in which layers were begun. */
static void cut(const layers *l, size_t ranks, uint32_t *owner) {
  const tn_program *p = l->p;
  double total = 0, before = 0;
  double *of_layer = l->cost + p->n_nodes;
  for (size_t i = 0; i < p->n_nodes; ++i)
    if (l->layer[i] != NO_LAYER) {
      of_layer[l->layer[i]] += l->cost[i];
      total += l->cost[i];
    }
  for (size_t i = 0; i < p->n_nodes; ++i) { /* l->reader has served: now the rank of each layer */
    uint32_t layer = l->layer[i];
    if (layer == NO_LAYER || l->made[layer] != i)
      continue;
    size_t rank = (size_t)((double)ranks * (before + of_layer[layer] / 2) / total);
    l->reader[layer] = (uint32_t)(rank < ranks ? rank : ranks - 1);
    before += of_layer[layer];
  }
  for (size_t i = 0; i < p->n_nodes; ++i)
    owner[i] = l->layer[i] == NO_LAYER ? 0 : l->reader[l->layer[i]];
}

tn_status tn_pipeline_owners(tn_exec *exec) {
  const tn_program *p = exec->program;
  tn_pipeline *s = exec->pipeline;
  layers l = {.exec = exec, .p = p, .plan = s->plan};
  tn_status status = TN_NEW(p->n_nodes + 1, &l.layer);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &l.of_leaf);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &l.made);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &l.reader);
  if (status == TN_OK)
    status = TN_NEW(2 * p->n_nodes + 1, &l.cost);
  if (status == TN_OK) {
    for (size_t i = 0; i < p->n_nodes; ++i)
      l.layer[i] = l.of_leaf[i] = l.reader[i] = NO_LAYER;
    find_costs(&l);
    find_layers(&l);
    cut(&l, s->ranks, s->owner);
  }
  tn_free(&l.layer);
  tn_free(&l.of_leaf);
  tn_free(&l.made);
  tn_free(&l.reader);
  tn_free(&l.cost);
  return status;
}
