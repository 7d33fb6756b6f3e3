/* jvp.c: forward mode in operations: the tangents of a graph are nodes of the same graph.
 *
 * An absent tangent is zero by structure; a tangent may be a structural number that stands for every element
 * (a coordinate's own tangent is 1). Calls of fields follow the chain rule through their arguments, so the
 * same sweep serves parameter directions (Hessian-vector products) and derivatives of expressions along a
 * coordinate (ag_d), before anything is resolved. A tangent belongs to the region of its node, if that is one that
 * gradients recompute (remat.c).
 */
#include "autograd/field.h"
#include "autograd/rowwise.h"

#include <string.h>

typedef struct tangent_site {
  tn_graph *graph;
  const tn_node *node;
  uint32_t index;
  tn_value in[AG_MAX_INPUTS], dot[AG_MAX_INPUTS]; /* inputs and their tangents */
  tn_value out[TN_MAX_CHANNELS];                  /* tangents of the ports */
} tangent_site;

static tn_value self(const tangent_site *s) { return tn_value_at(s->graph, s->index, 0); }

/* A tangent in the full shape of its input. */
static tn_value full(const tangent_site *s, uint32_t k) {
  tn_value v = ag_present(s->dot[k]) ? s->dot[k] : ag_constant_like(s->in[k], 0);
  return ag_fit(v, tn_shape_of(s->in[k]));
}

static void elementwise(tangent_site *s) {
  tn_op_id op = s->node->op->id;
  if (s->node->op->arity == 1) {
    s->out[0] = ag_times(s->dot[0], ag_rule(op, s->in[0], self(s), s->node->number));
    return;
  }
  if (ag_present(s->dot[0]))
    s->out[0] = op == TN_OP_div ? ag_over(s->dot[0], s->in[1])
                                : ag_times(s->dot[0], ag_rule_a(op, s->in[0], s->in[1], self(s)));
  if (ag_present(s->dot[1])) {
    tn_value b = ag_times(s->dot[1], ag_rule_b(op, s->in[0], s->in[1], self(s)));
    s->out[0] = ag_plus(s->out[0], b);
  }
}

static tn_status structural(tangent_site *s) {
  tn_value in[AG_MAX_INPUTS], ports[TN_MAX_CHANNELS];
  for (uint32_t k = 0; k < s->node->n_inputs; ++k) in[k] = full(s, k);
  TN_TRY(tn_rebuild(s->graph, s->index, in, ports));
  s->out[0] = ports[0];
  return TN_OK;
}

/* ---- Jets ---- */

static void bundle(const tangent_site *s, uint64_t mask, uint32_t first, const tn_value *coefficients,
                   tn_jet *value, tn_jet *dot) {
  tn_value filled[TN_MAX_CHANNELS];
  uint32_t n = (uint32_t)ag_take_jet(s->node, mask, s->in + first, value);
  for (uint32_t k = 0; k < n; ++k)
    filled[k] = ag_present(s->dot[first + k]) ? full(s, first + k) : (tn_value){0};
  ag_take_jet(s->node, mask, filled, dot);
  value->coefficients = dot->coefficients = coefficients;
}

static bool some(const tn_jet *jet) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    if (ag_present(jet->channel[c])) return true;
  return false;
}

static void add_jet(const tangent_site *s, const tn_jet *y, tn_value *out) {
  uint32_t port = 0;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    if (s->node->out_mask >> c & 1) {
      if (ag_present(y->channel[c])) {
        tn_value fitted = ag_fit(y->channel[c], s->node->shapes[port]);
        out[port] = ag_plus(out[port], fitted);
      }
      ++port;
    }
}

static tn_status jet_lin(tangent_site *s) {
  tn_jet h, hdot, y;
  uint32_t n = (uint32_t)__builtin_popcountll(s->node->mask[0]);
  bool transposed = s->node->integer[0] != 0;
  tn_value bdot = s->node->integer[1] ? s->dot[n + 1] : (tn_value){0};
  bundle(s, s->node->mask[0], 0, NULL, &h, &hdot);
  if (some(&hdot)) {
    TN_TRY(tn_jet_lin(&hdot, s->in[n], (tn_value){0}, transposed, &y));
    add_jet(s, &y, s->out);
  }
  if (ag_present(s->dot[n])) {
    TN_TRY(tn_jet_lin(&h, full(s, n), (tn_value){0}, transposed, &y));
    add_jet(s, &y, s->out);
  }
  if (ag_present(bdot) && (s->node->mask[0] & 1)) {
    tn_value b = tn_broadcast(full(s, n + 1), s->node->shapes[0]);
    s->out[0] = ag_plus(s->out[0], b);
  }
  return TN_OK;
}

static void jet_outer(tangent_site *s) {
  uint32_t pairs = (uint32_t)s->node->integer[0];
  tn_value zs[TN_MAX_CHANNELS], hs[TN_MAX_CHANNELS];
  for (int side = 0; side < 2; ++side) {
    size_t n = 0;
    for (uint32_t i = 0; i < pairs; ++i) {
      if (!ag_present(s->dot[side ? pairs + i : i])) continue;
      zs[n] = side ? s->in[i] : full(s, i);
      hs[n++] = side ? full(s, pairs + i) : s->in[pairs + i];
    }
    if (n) s->out[0] = ag_plus(s->out[0], tn_jet_outer(n, zs, hs));
  }
}

static tn_status jet_nonlinear(tangent_site *s) {
  tn_jet a, adot, b, bdot, w, y;
  tn_op_id op = s->node->op->id;
  uint32_t n = (uint32_t)__builtin_popcountll(s->node->mask[0]);
  uint32_t m = n + (uint32_t)__builtin_popcountll(s->node->mask[1]);
  for (uint32_t k = m; k < s->node->n_inputs; ++k)
    if (ag_present(s->dot[k])) {
      tn_graph_fail(s->graph, TN_EUNSUPPORTED, "%s: no derivative by a coefficient of the operator; "
                    "resolve in separate mode", s->node->op->name);
      return TN_EUNSUPPORTED;
    }
  bundle(s, s->node->mask[0], 0, s->in + m, &a, &adot);
  if (op == TN_OP_jet_unary) {
    TN_TRY(tn_jet_unary((tn_op_id)s->node->integer[0], s->node->number,
                        (int)s->node->integer[1] + 1, &a, &w));
    TN_TRY(tn_jet_mul(&w, &adot, &y));
    add_jet(s, &y, s->out);
    return TN_OK;
  }
  bool wanted[TN_MAX_CHANNELS];
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) wanted[c] = s->node->out_mask >> c & 1;
  bundle(s, s->node->mask[1], n, s->in + m, &b, &bdot);
  for (int side = 0; side < 2; ++side) {
    const tn_jet *l = side ? &a : &adot, *r = side ? &bdot : &b;
    if (!some(side ? &bdot : &adot)) continue;
    TN_TRY(op == TN_OP_jet_mul ? tn_jet_mul(l, r, &y) : tn_jet_mulT(l, r, wanted, &y));
    add_jet(s, &y, s->out);
  }
  return TN_OK;
}

/* d/dx F(a_1, ..., a_n) = sum over j of F_{,j} a_j' */
static void call(tangent_site *s) {
  uint8_t order[TN_MAX_SLOTS];
  for (uint32_t j = 0; j < s->node->n_inputs; ++j) {
    if (!ag_present(s->dot[j])) continue;
    memcpy(order, s->node->call->power, sizeof order);
    ++order[j];
    tn_value f = ag_call((ag_field *)(uintptr_t)s->node->call->field, s->node->call->output, s->in,
                         order);
    s->out[0] = ag_plus(s->out[0], ag_times(s->dot[j], f));
  }
}

static void custom(tangent_site *s) {
  const tn_op *op = s->node->op;
  if (op->custom->forward) {
    tn_graph_fail(s->graph, TN_EUNSUPPORTED, "%s: an opaque operation has first derivatives by reverse mode only",
                  op->name);
    return;
  }
  for (uint32_t k = 0; k < s->node->n_inputs; ++k)
    if (ag_present(s->dot[k]))
      s->out[0] = ag_plus(s->out[0], ag_times(s->dot[k], ag_custom_partial(s->graph, op, s->in, self(s), k)));
}

static tn_status node_jvp(tangent_site *s) {
  switch (s->node->op->id) {
  case TN_OP_where: s->out[0] = ag_select(s->in[0], s->dot[1], s->dot[2]); break;
  case TN_OP_jet_lin: TN_TRY(jet_lin(s)); break;
  case TN_OP_jet_outer: jet_outer(s); break;
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT: TN_TRY(jet_nonlinear(s)); break;
  case TN_OP_softmax:
  case TN_OP_layer_norm:
  case TN_OP_rstd: s->out[0] = ag_rowwise_push(s->node, s->in[0], self(s), full(s, 0)); break;
  case TN_OP_custom: custom(s); break;
  case TN_OP_call: call(s); break;
  default:
    if (s->node->op->class_ == TN_COMPARISON || s->node->dtype == TN_BOOL) break;
    if (s->node->op->arity > 0) elementwise(s);
    else TN_TRY(structural(s));
  }
  return tn_graph_error(s->graph);
}

typedef struct forward {
  tn_graph *graph;
  uint32_t n_nodes;
  size_t *port;
  uint8_t *mark; /* 1: y depends on it */
  tn_value *dot; /* of ports */
} forward;

static tn_status run(forward *f, size_t n_x, const tn_value *x) {
  tangent_site *s = NULL;
  bool *is_x = NULL;
  TN_TRY(TN_NEW(1, &s));
  tn_status status = TN_NEW(f->port[f->n_nodes] + 1, &is_x);
  for (size_t j = 0; j < n_x && status == TN_OK; ++j) is_x[f->port[x[j].node] + x[j].port] = true;
  for (uint32_t i = 0; i < f->n_nodes && status == TN_OK; ++i) {
    const tn_node *node = tn_node_at(f->graph, i);
    bool any = false;
    if (!f->mark[i] || !node->n_inputs) continue;
    for (uint32_t k = 0; node->origin && k < node->n_outputs; ++k) { /* a copy of an x is that x */
      size_t first = f->port[node->origin - 1] + k;
      if (!is_x[first]) continue;
      is_x[f->port[i] + k] = true;
      f->dot[f->port[i] + k] = f->dot[first];
    }
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      any = any || ag_present(f->dot[f->port[node->inputs[k].node] + node->inputs[k].port]);
    if (!any) continue;
    memset(s, 0, sizeof *s);
    s->graph = f->graph;
    s->node = node;
    s->index = i;
    if (node->n_inputs > AG_MAX_INPUTS) {
      status = TN_FAIL(TN_EUNSUPPORTED, "%s of %u inputs", node->op->name, node->n_inputs);
      break;
    }
    ag_inputs(f->graph, node, s->in);
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      s->dot[k] = f->dot[f->port[node->inputs[k].node] + node->inputs[k].port];
    tn_at_like(tn_value_at(f->graph, i, 0));
    uint32_t before = tn_segment(f->graph, node->segment);
    if (!node->segment) tn_segment(f->graph, before);
    status = node_jvp(s);
    tn_segment(f->graph, before);
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      if (!is_x[f->port[i] + k] && ag_present(s->out[k]) && !ag_is_zero(s->out[k]))
        f->dot[f->port[i] + k] = s->out[k];
  }
  tn_free(&s);
  tn_free(&is_x);
  return status;
}

tn_status ag_jvp(size_t n_x, const tn_value *x, const tn_value *xdot, size_t n_y, const tn_value *y,
                 tn_value *ydot) {
  for (size_t i = 0; i < n_y; ++i) ydot[i] = (tn_value){0};
  tn_graph *graph = n_x ? x[0].graph : NULL;
  if (!graph) return TN_FAIL(TN_EHANDLE, "jvp: no argument");
  forward f = {.graph = graph};
  for (size_t i = 0; i < n_x + n_y; ++i) {
    tn_value v = i < n_x ? x[i] : y[i - n_x];
    if (v.graph != graph || !tn_ok(v))
      return ag_bad_value(graph, "jvp", i);
    if (v.node >= f.n_nodes) f.n_nodes = v.node + 1;
    if (i < n_x && ag_present(xdot[i]) && (xdot[i].graph != graph || !tn_ok(xdot[i])))
      return TN_FAIL(TN_EHANDLE, "jvp: tangent %zu is stale or foreign", i);
  }
  TN_TRY(TN_NEW(f.n_nodes + 1, &f.port));
  tn_status status = TN_NEW(f.n_nodes + 1, &f.mark);
  for (uint32_t i = 0; i < f.n_nodes; ++i)
    f.port[i + 1] = f.port[i] + tn_node_at(graph, i)->n_outputs;
  if (status == TN_OK) status = TN_NEW(f.port[f.n_nodes] + 1, &f.dot);
  if (status == TN_OK) {
    for (size_t i = 0; i < n_y; ++i) f.mark[y[i].node] = 1;
    for (uint32_t i = f.n_nodes; i-- > 0;)
      for (uint32_t k = 0; f.mark[i] && k < tn_node_at(graph, i)->n_inputs; ++k)
        f.mark[tn_node_at(graph, i)->inputs[k].node] = 1;
    for (size_t j = 0; j < n_x; ++j) f.dot[f.port[x[j].node] + x[j].port] = xdot[j];
    status = run(&f, n_x, x);
  }
  for (size_t i = 0; i < n_y && status == TN_OK; ++i) {
    tn_value dot = f.dot[f.port[y[i].node] + y[i].port];
    ydot[i] = ag_present(dot) ? ag_fit(dot, tn_shape_of(y[i])) : ag_zero_like(y[i]);
  }
  tn_free(&f.port);
  tn_free(&f.mark);
  tn_free(&f.dot);
  return status == TN_OK ? tn_graph_error(graph) : status;
}

tn_value ag_d(tn_value e, tn_value x, int k) {
  tn_value bad = {0};
  if (!ag_present(e) || !ag_present(x)) return bad; /* its error is kept already */
  for (; k > 0; --k) {
    tn_value one = ag_constant_like(x, 1), out;
    tn_status status = ag_jvp(1, &x, &one, 1, &e, &out);
    if (status != TN_OK) return tn_graph_fail(e.graph, status, "%s", tn_error_text());
    e = out;
  }
  return e;
}
