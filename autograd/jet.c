/* jet.c: a subgraph in jet arithmetic.
 *
 * Every value that depends on the arguments becomes a bundle of channels: linear operations act channel by
 * channel, products go through the structure table (jet_mul), analytic functions through their ladder
 * (jet_unary), a linear layer is one jet_lin. What does not depend on the arguments is a bundle with the value
 * alone. Seeds without the point axis (tangents of coordinates) stay so through the first layer. What becomes of a
 * region that gradients recompute (remat.c) is such a region, too: one for each transform.
 */
#include "autograd/rowwise.h"

#include <math.h>
#include <string.h>

typedef struct transform {
  tn_graph *graph;
  const tn_jet *like; /* table and coefficients */
  uint32_t n_nodes;
  size_t *port;
  tn_jet **map;       /* of ports; in `jets` */
  tn_jet *jets;       /* owned: one for each node that depends on an argument, and the arguments */
  tn_jet *constants;  /* owned: room for the inputs of a node that do not */
  size_t n_jets, n_constants;
  uint64_t key;       /* of regions */
} transform;

/* Channels beyond those of the table are absent everywhere. */
static int channels_of(const tn_jet *jet) { return jet->table ? (int)jet->table->channels : 1; }

static bool constant(const tn_jet *jet) {
  for (int c = 1; c < channels_of(jet); ++c)
    if (ag_present(jet->channel[c])) return false;
  return true;
}

static void begin(const transform *t, tn_jet *y) {
  memset(y, 0, sizeof *y);
  y->table = t->like->table;
  y->coefficients = t->like->coefficients;
}

/* Channels of a product must agree in their fixed shape: scalars per point are repeated over units. */
void ag_jet_widen(tn_jet *jet, tn_shape fixed) {
  for (int c = 0; c < channels_of(jet); ++c) {
    if (!ag_present(jet->channel[c])) continue;
    tn_shape own = tn_shape_of(jet->channel[c]);
    bool batched = tn_shape_batched(&own);
    if (own.rank - batched == fixed.rank) continue;
    for (uint32_t k = 0; k < fixed.rank; ++k)
      jet->channel[c] = tn_expand(jet->channel[c], batched + k, 0, fixed.extent[k]);
  }
}

tn_shape ag_jet_shape(const tn_jet *jet) {
  tn_shape best = {0};
  for (int c = 0; c < channels_of(jet); ++c) {
    if (!ag_present(jet->channel[c])) continue;
    tn_shape own = tn_shape_of(jet->channel[c]);
    uint32_t batched = tn_shape_batched(&own);
    if (own.rank - batched > best.rank)
      best = tn_shape_fixed(own.rank - batched, own.extent + batched);
  }
  return best;
}

static tn_status product(const transform *t, const tn_jet *a, const tn_jet *b, tn_jet *y) {
  begin(t, y);
  if (constant(a) || constant(b)) {
    const tn_jet *k = constant(a) ? a : b, *v = constant(a) ? b : a;
    for (int c = 0; c < channels_of(v); ++c)
      if (ag_present(v->channel[c])) y->channel[c] = ag_times(k->channel[0], v->channel[c]);
    return tn_graph_error(t->graph);
  }
  tn_jet l = *a, r = *b;
  tn_shape fa = ag_jet_shape(a), fb = ag_jet_shape(b);
  tn_shape fixed = fa.rank >= fb.rank ? fa : fb;
  ag_jet_widen(&l, fixed);
  ag_jet_widen(&r, fixed);
  return tn_jet_mul(&l, &r, y);
}

static tn_status function(const transform *t, tn_op_id op, double exponent, const tn_jet *x, tn_jet *y) {
  if (!constant(x)) {
    tn_jet z = *x;
    ag_jet_widen(&z, ag_jet_shape(x));
    return tn_jet_unary(op, exponent, 0, &z, y);
  }
  begin(t, y);
  y->channel[0] = tn_unary(op, x->channel[0], exponent);
  return tn_graph_error(t->graph);
}

static tn_status power(const transform *t, const tn_jet *a, const tn_jet *b, tn_jet *y) {
  double e;
  if (constant(b) && ag_number(b->channel[0], &e))
    return function(t, e == rint(e) ? TN_OP_powi : TN_OP_powr, e, a, y);
  tn_jet l, m;
  TN_TRY(function(t, TN_OP_log, 0, a, &l));
  TN_TRY(product(t, b, &l, &m));
  return function(t, TN_OP_exp, 0, &m, y);
}

static tn_status select(const transform *t, tn_value mask, const tn_jet *a, const tn_jet *b, tn_jet *y) {
  begin(t, y);
  for (int c = 0; c < channels_of(y); ++c)
    if (ag_present(a->channel[c]) || ag_present(b->channel[c]))
      y->channel[c] = ag_select(mask, a->channel[c], b->channel[c]);
  return tn_graph_error(t->graph);
}

static tn_status binary(const transform *t, const tn_node *node, tn_jet *const *in, tn_jet *y) {
  tn_jet r;
  switch (node->op->id) {
  case TN_OP_add:
  case TN_OP_sub:
    begin(t, y);
    for (int c = 0; c < channels_of(y); ++c)
      y->channel[c] = node->op->id == TN_OP_add ? ag_plus(in[0]->channel[c], in[1]->channel[c])
                                                : ag_minus(in[0]->channel[c], in[1]->channel[c]);
    return tn_graph_error(t->graph);
  case TN_OP_mul: return product(t, in[0], in[1], y);
  case TN_OP_div:
    TN_TRY(function(t, TN_OP_recip, 0, in[1], &r));
    return product(t, in[0], &r, y);
  case TN_OP_pow: return power(t, in[0], in[1], y);
  case TN_OP_min:
  case TN_OP_max: {
    tn_value a = in[0]->channel[0], b = in[1]->channel[0];
    return select(t, node->op->id == TN_OP_min ? tn_le(a, b) : tn_ge(a, b), in[0], in[1], y);
  }
  default:
    tn_graph_fail(t->graph, TN_EUNSUPPORTED, "%s is not available inside a field that is "
                  "differentiated", node->op->name);
    return TN_EUNSUPPORTED;
  }
}

/* Linear operations of structure: channel by channel, with axis numbers for channels without points. */
static tn_status structural(const transform *t, const tn_node *node, tn_jet *const *in, tn_jet *y) {
  tn_value own[AG_MAX_INPUTS];
  tn_shape first = tn_shape_of(tn_value_at(t->graph, node->inputs[0].node, node->inputs[0].port));
  begin(t, y);
  if (node->op->id == TN_OP_sum && first.axis[node->integer[0]]) {
    tn_graph_fail(t->graph, TN_EUNSUPPORTED, "a sum over points is not available inside a field that is "
                  "differentiated");
    return TN_EUNSUPPORTED;
  }
  for (int c = 0; c < channels_of(y); ++c) {
    bool any = false, batched = false;
    tn_value like = {0};
    tn_axis axis = 0;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_value v = in[k]->channel[c];
      if (!ag_present(v)) continue;
      tn_shape shape = tn_shape_of(v);
      any = true;
      like = v;
      if (tn_shape_batched(&shape)) {
        batched = true;
        axis = shape.axis[0];
      }
    }
    if (!any) continue;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_value v = in[k]->channel[c];
      tn_shape value = tn_shape_of(in[k]->channel[0]);
      uint32_t has = tn_shape_batched(&value);
      tn_shape want = tn_shape_fixed(value.rank - has, value.extent + has);
      if (batched) {
        for (uint32_t q = want.rank; q > 0; --q) want.extent[q] = want.extent[q - 1];
        want.extent[0] = 0;
        want.axis[0] = axis;
        ++want.rank;
      }
      own[k] = ag_fit(ag_present(v) ? v : ag_constant_like(like, 0), want);
    }
    tn_edge e = node->inputs[0]; /* axis numbers are those of the body, where points come first */
    size_t shift = tn_shape_batched(&tn_node_at(t->graph, e.node)->shapes[e.port]) && !batched;
    size_t at = (size_t)node->integer[0] - shift;
    switch (node->op->id) {
    case TN_OP_sum: y->channel[c] = tn_sum(own[0], at); break;
    case TN_OP_slice:
      y->channel[c] = tn_slice(own[0], at, (size_t)node->integer[1], (size_t)node->integer[2]);
      break;
    case TN_OP_pad:
      y->channel[c] = tn_pad(own[0], at, (size_t)node->integer[1], (size_t)node->integer[2]);
      break;
    case TN_OP_concat: y->channel[c] = tn_concat(node->n_inputs, own, at); break;
    case TN_OP_stack: y->channel[c] = tn_stack(node->n_inputs, own); break;
    case TN_OP_transpose: y->channel[c] = tn_transpose(own[0], at, (size_t)node->integer[1] - shift); break;
    case TN_OP_cast: y->channel[c] = tn_cast(own[0], node->dtype); break;
    case TN_OP_reshape: {
      tn_shape shape = node->shapes[0];
      uint32_t has = tn_shape_batched(&shape);
      tn_shape to = tn_shape_fixed(shape.rank - has, shape.extent + has);
      if (batched) {
        for (uint32_t q = to.rank; q > 0; --q) to.extent[q] = to.extent[q - 1];
        to.extent[0] = 0;
        to.axis[0] = axis;
        ++to.rank;
      }
      y->channel[c] = tn_reshape(own[0], to);
      break;
    }
    case TN_OP_expand:
      if (node->integer[1]) y->channel[c] = own[0];
      else y->channel[c] = tn_expand(own[0], at, 0, (size_t)node->integer[2]);
      break;
    default:
      tn_graph_fail(t->graph, TN_EUNSUPPORTED, "%s is not available inside a field that is "
                    "differentiated", node->op->name);
    }
    TN_TRY(tn_graph_error(t->graph));
  }
  return TN_OK;
}

/* Rows and operations of users; what has no channels besides the value stays plain. */
static tn_status special(const transform *t, uint32_t i, const tn_node *node, tn_jet *const *in, tn_jet *y) {
  bool plain = true;
  tn_value value[AG_MAX_INPUTS];
  begin(t, y);
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    plain = plain && constant(in[k]);
    value[k] = in[k]->channel[0];
  }
  if (plain) return tn_rebuild(t->graph, i, value, y->channel);
  return node->op->custom ? ag_custom_jet(t->graph, node->op, in, y) : ag_rowwise_jet(t->graph, node, in[0], y);
}

static tn_status node_jet(const transform *t, uint32_t i, tn_jet *const *in, tn_jet *y) {
  const tn_node *node = tn_node_at(t->graph, i);
  tn_at_like(tn_value_at(t->graph, i, 0));
  tn_op_id op = node->op->id;
  if (op == TN_OP_neg) {
    begin(t, y);
    for (int c = 0; c < channels_of(y); ++c) y->channel[c] = ag_negative(in[0]->channel[c]);
    return tn_graph_error(t->graph);
  }
  if (node->op->arity == 1) return function(t, op, node->number, in[0], y);
  if (node->op->class_ == TN_COMPARISON) {
    begin(t, y);
    y->channel[0] = tn_binary(op, in[0]->channel[0], in[1]->channel[0]);
    return tn_graph_error(t->graph);
  }
  if (node->op->arity == 2) return binary(t, node, in, y);
  if (op == TN_OP_not || op == TN_OP_both || op == TN_OP_either) {
    begin(t, y);
    tn_value a = in[0]->channel[0], b = op == TN_OP_not ? a : in[1]->channel[0];
    y->channel[0] = op == TN_OP_not ? tn_not(a) : op == TN_OP_both ? tn_both(a, b) : tn_either(a, b);
    return tn_graph_error(t->graph);
  }
  if (op == TN_OP_where) return select(t, in[0]->channel[0], in[1], in[2], y);
  if (op == TN_OP_jet_lin && node->n_outputs == 1 && node->mask[0] == 1) {
    if (!constant(in[1]) || (node->integer[1] && !constant(in[2]))) {
      tn_graph_fail(t->graph, TN_EUNSUPPORTED, "linear: the weight depends on the differentiated "
                    "argument");
      return TN_EUNSUPPORTED;
    }
    tn_value bias = node->integer[1] ? in[2]->channel[0] : (tn_value){0};
    return tn_jet_lin(in[0], in[1]->channel[0], bias, node->integer[0] != 0, y);
  }
  if (ag_is_rowwise(node->op) || node->op->custom) return special(t, i, node, in, y);
  return structural(t, node, in, y);
}

static tn_status run(transform *t, const uint8_t *mark) {
  for (uint32_t i = 0; i < t->n_nodes; ++i) {
    const tn_node *node = tn_node_at(t->graph, i);
    tn_jet *in[AG_MAX_INPUTS];
    if ((mark[i] & 3) != 3 || t->map[t->port[i]]) continue;
    if (node->n_outputs != 1 || node->n_inputs > AG_MAX_INPUTS || node->op->id == TN_OP_call) {
      tn_graph_fail(t->graph, TN_EUNSUPPORTED, "%s is not available inside a field", node->op->name);
      return TN_EUNSUPPORTED;
    }
    if (node->n_inputs > t->n_constants) {
      tn_free(&t->constants);
      t->n_constants = 0;
      TN_TRY(TN_NEW(node->n_inputs, &t->constants));
      t->n_constants = node->n_inputs;
    }
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_edge e = node->inputs[k];
      in[k] = t->map[t->port[e.node] + e.port];
      if (in[k]) continue;
      in[k] = &t->constants[k];
      begin(t, in[k]);
      in[k]->channel[0] = tn_value_at(t->graph, e.node, e.port);
    }
    tn_jet *y = &t->jets[t->n_jets++];
    uint32_t before = tn_segment(t->graph, node->segment ? tn_segment_new(t->graph, node->segment, t->key) : 0);
    if (!node->segment) tn_segment(t->graph, before);
    tn_status status = node_jet(t, i, in, y);
    tn_segment(t->graph, before);
    TN_TRY(status);
    t->map[t->port[i]] = y;
    y->table = t->like->table;
    y->coefficients = t->like->coefficients;
    for (int c = 1; c < channels_of(y); ++c) /* structural zeros are no channels */
      if (ag_present(y->channel[c]) && ag_is_zero(y->channel[c])) y->channel[c] = (tn_value){0};
  }
  return TN_OK;
}

tn_status ag_jet(size_t n_x, const tn_value *x, const tn_jet *x_jet, size_t n_y, const tn_value *y,
                 tn_jet *y_jet) {
  if (!n_x || !n_y || !tn_ok(y[0])) return TN_FAIL(TN_EHANDLE, "jet: no good argument or output");
  transform t = {.graph = y[0].graph, .like = &x_jet[0]};
  uint8_t *mark = NULL;
  for (size_t i = 0; i < n_x + n_y; ++i) {
    tn_value v = i < n_x ? x[i] : y[i - n_x];
    if (!tn_ok(v) || v.graph != t.graph)
      return ag_bad_value(t.graph, "jet", i);
    if (v.node >= t.n_nodes) t.n_nodes = v.node + 1;
  }
  TN_TRY(TN_NEW(t.n_nodes + 1, &t.port));
  tn_status status = TN_NEW(t.n_nodes + 1, &mark);
  for (uint32_t i = 0; i < t.n_nodes; ++i)
    t.port[i + 1] = t.port[i] + tn_node_at(t.graph, i)->n_outputs;
  size_t ports = t.port[t.n_nodes];
  if (status == TN_OK) status = TN_NEW(ports + 1, &t.map);
  if (status == TN_OK) {
    for (size_t j = 0; j < n_x; ++j) mark[x[j].node] |= 5;
    for (size_t i = 0; i < n_y; ++i) mark[y[i].node] |= 2;
    for (uint32_t i = t.n_nodes; i-- > 0;)
      for (uint32_t k = 0; (mark[i] & 2) && k < tn_node_at(t.graph, i)->n_inputs; ++k)
        mark[tn_node_at(t.graph, i)->inputs[k].node] |= 2;
    for (uint32_t i = 0; i < t.n_nodes; ++i) {
      const tn_node *node = tn_node_at(t.graph, i);
      for (uint32_t k = 0; k < node->n_inputs; ++k)
        if (mark[node->inputs[k].node] & 1) mark[i] |= 1;
      if (node->origin && mark[node->origin - 1] & 4) mark[i] |= 1;
    }
  }
  size_t n_jets = n_x;
  for (uint32_t i = 0; status == TN_OK && i < t.n_nodes; ++i) n_jets += (mark[i] & 3) == 3;
  if (status == TN_OK) status = TN_NEW(n_jets, &t.jets);
  for (size_t j = 0; j < n_x && status == TN_OK; ++j) {
    t.jets[t.n_jets] = x_jet[j];
    t.map[t.port[x[j].node] + x[j].port] = &t.jets[t.n_jets++];
  }
  for (uint32_t i = 0; status == TN_OK && i < t.n_nodes; ++i) { /* a copy of an argument is that argument */
    uint32_t origin = tn_node_at(t.graph, i)->origin;
    for (uint32_t k = 0; origin && k < tn_node_at(t.graph, i)->n_outputs; ++k)
      if (mark[origin - 1] & 4) t.map[t.port[i] + k] = t.map[t.port[origin - 1] + k];
  }
  t.key = ag_key(3, n_x, x);
  for (size_t j = 0; j < n_x; ++j)
    t.key = ag_key(t.key, (size_t)channels_of(&x_jet[j]), x_jet[j].channel);
  if (x_jet[0].table) t.key = (t.key ^ x_jet[0].table->hash) | 1;
  if (status == TN_OK) status = run(&t, mark);
  for (size_t i = 0; i < n_y && status == TN_OK; ++i) {
    tn_jet *jet = t.map[t.port[y[i].node] + y[i].port];
    begin(&t, &y_jet[i]);
    if (jet) y_jet[i] = *jet;
    else y_jet[i].channel[0] = y[i];
  }
  tn_free(&t.jets);
  tn_free(&t.constants);
  tn_free(&t.map);
  tn_free(&t.port);
  tn_free(&mark);
  return status;
}
