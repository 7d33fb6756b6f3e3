/* underflow_operands.c: finds what matrix products multiply, and names it by layer and channel.
 *
 * A hidden layer of a jet network is three products:
 *
 *   forward   z_c = h_c W             jet_lin
 *   backward  hbar_c = zbar_c W^T     jet_lin, transposed
 *   gradient  Wbar = sum over points and channels of outer(h_c, zbar_c)      jet_outer
 *
 * The third has the inputs of the other two, in pairs, so it is all that has to be found: h is an activation,
 * zbar an adjoint. Layer and channel are those of the forward product that reads the same h. Which group of
 * derivatives a layer belongs to (its labels, "u, x, t - c0*xx") follows from the group's first layer, and the
 * first layers of a network stand in the graph in the order in which ag_resolve reported the groups.
 */
#include "pinn/underflow.h"

#include <stdio.h>
#include <string.h>

typedef struct forward { /* a product h W of a named layer that holds the value (channel 0) */
  uint32_t node;
  char layer[64];
  size_t net;  /* of the model */
  size_t root; /* index of its group's first layer in the list */
} forward;

typedef struct search {
  const pn_model *model;
  const ag_resolve_report *planned;
  tn_graph *graph;
  size_t n_nodes;
  bool *behind; /* leads to a root */
  size_t
      *product; /* [n_nodes]: index of the last forward product of a network that leads here, + 1 */
  size_t n_forward;
  forward *forward;
  size_t n_found;
  pn_operand_value *found;
} search;

/* Marks everything that leads to the roots. Inputs of a node have smaller numbers. */
static tn_status mark(tn_graph *graph, size_t n_roots, const tn_value *roots, bool **behind) {
  size_t n = tn_graph_nodes(graph);
  TN_TRY(TN_NEW(n, behind));
  for (size_t i = 0; i < n_roots; ++i)
    (*behind)[roots[i].node] = true;
  for (size_t i = n; i-- > 0;) {
    const tn_node *node = tn_node_at(graph, (uint32_t)i);
    for (uint32_t k = 0; (*behind)[i] && k < node->n_inputs; ++k)
      (*behind)[node->inputs[k].node] = true;
  }
  return TN_OK;
}

/* ---- Forward products ------------------------------------------------------------------------ */

/* The parameter that a weight is made of: itself, or the first factor of a factorised one. */
static const char *weight_name(const tn_graph *graph, uint32_t node) {
  for (size_t depth = 0; depth < 8; ++depth) {
    const tn_node *w = tn_node_at(graph, node);
    if (w->op->id == TN_OP_parameter)
      return w->name;
    if (w->n_inputs == 0)
      break;
    node = w->inputs[0].node;
  }
  return NULL;
}

static size_t net_of(const pn_model *model, const char *weight) {
  for (size_t k = 0; k < model->n_nets; ++k) {
    size_t n = strlen(model->nets[k].name);
    if (strncmp(weight, model->nets[k].name, n) == 0 && weight[n] == '.')
      return k;
  }
  return model->n_nets;
}

/* The product of the same network that node i is computed from; 0: none. */
static size_t behind_node(const search *s, const tn_node *node, size_t net) {
  size_t latest = 0;
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    size_t p = s->product[node->inputs[k].node];
    if (p > latest && (net == s->model->n_nets || s->forward[p - 1].net == net))
      latest = p;
  }
  return latest;
}

static tn_status add_forward(search *s, uint32_t i, const tn_node *node) {
  const char *weight = weight_name(s->graph, node->inputs[node->n_outputs].node);
  size_t net = weight != NULL ? net_of(s->model, weight) : s->model->n_nets;
  if (net == s->model->n_nets || (node->mask[0] & 1u) == 0)
    return TN_OK; /* of no network, or of tangents that are the same everywhere */
  TN_TRY(tn_grow(&s->forward, s->n_forward, s->n_forward + 1, sizeof *s->forward));
  forward *f = &s->forward[s->n_forward];
  size_t before = behind_node(s, node, net), length = strlen(weight);
  if (length > 7 && strcmp(weight + length - 7, ".weight") == 0)
    length -= 7;
  f->node = i;
  f->net = net;
  f->root = before > 0 ? s->forward[before - 1].root : s->n_forward;
  snprintf(f->layer, sizeof f->layer, "%.*s", (int)(length < 63 ? length : 63), weight);
  s->product[i] = ++s->n_forward;
  return TN_OK;
}

static tn_status find_forward(search *s) {
  TN_TRY(TN_NEW(s->n_nodes, &s->product));
  TN_TRY(TN_NEW(0, &s->forward));
  for (size_t i = 0; i < s->n_nodes; ++i) {
    if (!s->behind[i])
      continue;
    const tn_node *node = tn_node_at(s->graph, (uint32_t)i);
    if (node->op->id == TN_OP_jet_lin && node->integer[0] == 0)
      TN_TRY(add_forward(s, (uint32_t)i, node));
    if (s->product[i] == 0)
      s->product[i] = behind_node(s, node, s->model->n_nets);
  }
  return TN_OK;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Which of the network's groups: how many first layers of it come before this one. */
static const ag_group_report *group_of(const search *s, const forward *f) {
  size_t number = 0;
  for (size_t i = 0; i < f->root; ++i)
    number += s->forward[i].root == i && s->forward[i].net == f->net;
  const char *field = ag_field_name(s->model->nets[f->net].field);
  size_t most = sizeof s->planned->group / sizeof s->planned->group[0];
  for (size_t g = 0; g < s->planned->n_groups && g < most; ++g)
    if (strcmp(s->planned->group[g].field, field) == 0 && number-- == 0)
      return &s->planned->group[g];
  return NULL;
}

static void label_of(const ag_group_report *group, size_t channel, char *label, size_t room) {
  if (!group || channel >= group->channels || !pn_group_label(group, channel, label, room))
    snprintf(label, room, "channel %zu", channel);
}

/* "interior", and "interior 2" for the second group of derivatives on these points. */
static void place_of(const search *s, const forward *f, tn_axis axis, char *at, size_t room) {
  size_t number = 1;
  for (size_t i = 0; i < f->root; ++i) {
    const tn_node *node = tn_node_at(s->graph, s->forward[i].node);
    number +=
        s->forward[i].root == i && s->forward[i].net == f->net && node->shapes[0].axis[0] == axis;
  }
  const char *name = tn_axis_name(s->graph, axis);
  if (number > 1)
    snprintf(at, room, "%s %zu", name != NULL ? name : "points", number);
  else
    snprintf(at, room, "%s", name != NULL ? name : "points");
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static bool same_edge(tn_edge a, tn_edge b) { return a.node == b.node && a.port == b.port; }

static const tn_shape *shape_at(const search *s, tn_edge e) {
  return &tn_node_at(s->graph, e.node)->shapes[e.port];
}

/* Channel of h in the forward product f, or -1. Inputs are the channels present, in order. */
static int channel_in(const search *s, const forward *f, tn_edge h) {
  const tn_node *node = tn_node_at(s->graph, f->node);
  int channel = -1;
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    do
      ++channel;
    while (channel < 63 && (node->mask[0] >> channel & 1u) == 0);
    if (same_edge(node->inputs[k], h))
      return channel;
  }
  return -1;
}

/* The forward product that reads every h of this outer product and gives numbers of its width. */
static const forward *partner(const search *s, const tn_node *outer) {
  size_t pairs = outer->n_inputs / 2;
  for (size_t i = 0; i < s->n_forward; ++i) {
    const forward *f = &s->forward[i];
    const tn_node *node = tn_node_at(s->graph, f->node);
    bool fits = tn_shape_width(&node->shapes[0]) == tn_shape_width(shape_at(s, outer->inputs[0]));
    for (size_t k = 0; fits && k < pairs; ++k)
      fits = channel_in(s, f, outer->inputs[pairs + k]) >= 0;
    if (fits)
      return f;
  }
  return NULL;
}

static tn_status add_operand(search *s, const forward *f, int channel, bool adjoint, tn_edge e) {
  for (size_t i = 0; i < s->n_found; ++i) /* an activation that two gradients read */
    if (s->found[i].value.node == e.node && s->found[i].value.port == e.port &&
        s->found[i].is.adjoint == adjoint)
      return TN_OK;
  TN_TRY(tn_grow(&s->found, s->n_found, s->n_found + 1, sizeof *s->found));
  pn_operand_value *o = &s->found[s->n_found++];
  const tn_shape *shape = shape_at(s, e);
  o->value = tn_value_at(s->graph, e.node, e.port);
  o->axis = shape->axis[0];
  o->is.adjoint = adjoint;
  o->order = ((size_t)(f - s->forward) * TN_MAX_CHANNELS + (size_t)channel) * 2 + adjoint;
  o->is.width = tn_shape_width(shape);
  snprintf(o->is.layer, sizeof o->is.layer, "%s", f->layer);
  label_of(group_of(s, f), (size_t)channel, o->is.label, sizeof o->is.label);
  place_of(s, f, o->axis, o->is.at, sizeof o->is.at);
  return TN_OK;
}

static tn_status find_pairs(search *s) {
  TN_TRY(TN_NEW(0, &s->found));
  for (size_t i = 0; i < s->n_nodes; ++i) {
    const tn_node *outer = tn_node_at(s->graph, (uint32_t)i);
    if (!s->behind[i] || outer->op->id != TN_OP_jet_outer)
      continue;
    const forward *f = partner(s, outer);
    size_t pairs = outer->n_inputs / 2;
    for (size_t k = 0; f != NULL && k < pairs; ++k) {
      tn_edge z = outer->inputs[k], h = outer->inputs[pairs + k];
      if (!tn_shape_batched(shape_at(s, z)) || !tn_shape_batched(shape_at(s, h)))
        continue;
      int channel = channel_in(s, f, h);
      TN_TRY(add_operand(s, f, channel, false, h));
      TN_TRY(add_operand(s, f, channel, true, z));
    }
  }
  return TN_OK;
}

/* Network order: first by layer as the forward pass meets them, then by channel. */
static void sort_found(search *s) {
  for (size_t i = 1; i < s->n_found; ++i) {
    pn_operand_value moved = s->found[i];
    size_t k = i;
    for (; k > 0 && s->found[k - 1].order > moved.order; --k)
      s->found[k] = s->found[k - 1];
    s->found[k] = moved;
  }
}

tn_status pn_operands_of(const pn_model *model, const ag_resolve_report *planned, size_t n_roots,
                         const tn_value *roots, size_t *n, pn_operand_value **list) {
  search s = {.model = model, .planned = planned, .graph = model->graph};
  s.n_nodes = tn_graph_nodes(model->graph);
  *n = 0;
  *list = NULL;
  tn_status status = mark(model->graph, n_roots, roots, &s.behind);
  if (status == TN_OK)
    status = find_forward(&s);
  if (status == TN_OK)
    status = find_pairs(&s);
  tn_free(&s.behind);
  tn_free(&s.product);
  tn_free(&s.forward);
  if (status != TN_OK) {
    tn_free(&s.found);
    return status;
  }
  sort_found(&s);
  *n = s.n_found;
  *list = s.found;
  return TN_OK;
}

tn_status pn_operands_rounded(tn_graph *graph, tn_dtype dtype, size_t n_roots,
                              const tn_value *roots, size_t n, const tn_value *values,
                              tn_value *low) {
  bool *behind = NULL;
  tn_status status = mark(graph, n_roots, roots, &behind);
  if (status != TN_OK) {
    tn_free(&behind);
    return status;
  }
  for (size_t k = 0; k < n; ++k)
    low[k] = tn_dtype_of(values[k]) == dtype ? values[k] : (tn_value){0};
  for (size_t i = 0; i < tn_graph_nodes(graph); ++i) {
    const tn_node *node = tn_node_at(graph, (uint32_t)i);
    if (!behind[i] || node->op->id != TN_OP_cast || node->dtype != dtype)
      continue;
    for (size_t k = 0; k < n; ++k)
      if (!tn_ok(low[k]) && node->inputs[0].node == values[k].node &&
          node->inputs[0].port == values[k].port)
        low[k] = tn_value_at(graph, (uint32_t)i, 0);
  }
  tn_free(&behind);
  return TN_OK;
}
