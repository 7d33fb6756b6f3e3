/* grad.c: reverse mode in operations: the cotangents of a graph are nodes of the same graph.
 *
 * Nodes are visited from the outputs down, each once, when the cotangents of all its ports are complete; only
 * nodes that lie between x and y take part. The rule of each operation is in vjp.c. Below a `where`, a
 * cotangent carries the mask of its branch, and every product is selected by it: 0 * NaN of a branch that was
 * not taken never reaches a gradient. Values of a region that is to be recomputed (remat.c) are read from copies.
 */
#include "autograd/vjp.h"

#include <string.h>

typedef struct sweep {
  tn_graph *graph;
  uint32_t n_nodes;   /* nodes when the sweep began */
  size_t *port;       /* first port of a node */
  uint8_t *mark;      /* 1: depends on some x, 2: y depends on it */
  bool *is_x;         /* of ports */
  ag_cotangent *cotangent; /* of ports */
  ag_copies copies;
} sweep;

static tn_status begin(sweep *s, tn_graph *graph, size_t n_y, const tn_value *y, size_t n_x,
                       const tn_value *x) {
  memset(s, 0, sizeof *s);
  s->graph = graph;
  for (size_t i = 0; i < n_y; ++i)
    if (y[i].node >= s->n_nodes) s->n_nodes = y[i].node + 1;
  for (size_t i = 0; i < n_x; ++i)
    if (x[i].node >= s->n_nodes) s->n_nodes = x[i].node + 1;
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->port));
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->mark));
  for (uint32_t i = 0; i < s->n_nodes; ++i)
    s->port[i + 1] = s->port[i] + tn_node_at(graph, i)->n_outputs;
  TN_TRY(TN_NEW(s->port[s->n_nodes] + 1, &s->is_x));
  TN_TRY(TN_NEW(s->port[s->n_nodes] + 1, &s->cotangent));
  for (size_t i = 0; i < n_x; ++i) {
    tn_edge first = ag_first(graph, (tn_edge){x[i].node, x[i].port});
    s->is_x[s->port[first.node] + first.port] = true;
    s->mark[first.node] |= 1;
  }
  for (size_t i = 0; i < n_y; ++i) s->mark[y[i].node] |= 2;
  for (uint32_t i = s->n_nodes; i-- > 0;)
    if (s->mark[i] & 2) {
      const tn_node *node = tn_node_at(graph, i);
      for (uint32_t k = 0; k < node->n_inputs; ++k) s->mark[node->inputs[k].node] |= 2;
      if (node->origin) s->mark[node->origin - 1] |= 2;
    }
  for (uint32_t i = 0; i < s->n_nodes; ++i) {
    const tn_node *node = tn_node_at(graph, i);
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      if (s->mark[node->inputs[k].node] & 1) s->mark[i] |= 1;
    if (node->origin && s->mark[node->origin - 1] & 1) s->mark[i] |= 1;
  }
  s->copies = (ag_copies){.graph = graph, .n_nodes = s->n_nodes, .port = s->port,
                          .key = ag_key(ag_key(1, n_y, y), n_x, x)};
  return TN_OK;
}

static void end(sweep *s) {
  ag_copies_free(&s->copies);
  tn_free(&s->port);
  tn_free(&s->mark);
  tn_free(&s->is_x);
  tn_free(&s->cotangent);
}

static void accumulate(void *context, tn_edge edge, ag_cotangent g) {
  sweep *s = context;
  if (!ag_present(g.value) || edge.node >= s->n_nodes || !(s->mark[edge.node] & 1)) return;
  edge = ag_first(s->graph, edge);
  ag_cotangent *sum = &s->cotangent[s->port[edge.node] + edge.port];
  tn_shape shape = tn_node_at(s->graph, edge.node)->shapes[edge.port];
  tn_shape before = tn_shape_of(g.value);
  tn_value fitted = ag_fit(g.value, shape);
  if (before.rank > shape.rank) g.mask = (tn_value){0};
  ag_cotangent_add(sum, (ag_cotangent){.value = fitted, .mask = g.mask});
}

static bool wanted(void *context, tn_edge edge) {
  sweep *s = context;
  return edge.node < s->n_nodes && (s->mark[edge.node] & 1) != 0;
}

static tn_status node_rule(sweep *s, uint32_t i, const ag_cotangent *out) {
  uint32_t segment;
  TN_TRY(ag_copies_of(&s->copies, i, &segment));
  uint32_t before = tn_segment(s->graph, segment);
  if (!segment) tn_segment(s->graph, before);
  tn_at_like(tn_value_at(s->graph, i, 0));
  tn_status status = ag_node_vjp(s->graph, i, out, &s->copies, s, wanted, accumulate);
  tn_segment(s->graph, before);
  return status;
}

static tn_status run(sweep *s) {
  ag_cotangent out[TN_MAX_CHANNELS];
  for (uint32_t i = s->n_nodes; i-- > 0;) {
    if (s->mark[i] != 3) continue;
    const tn_node *node = tn_node_at(s->graph, i);
    bool any = false;
    for (uint32_t k = 0; k < node->n_outputs; ++k) {
      size_t port = s->port[i] + k;
      out[k] = s->is_x[port] ? (ag_cotangent){0} : s->cotangent[port];
      any = any || (ag_present(out[k].value) && !ag_is_zero(out[k].value));
    }
    if (!any || node->n_inputs == 0) continue;
    TN_TRY(node_rule(s, i, out));
  }
  return tn_graph_error(s->graph);
}

tn_status ag_vjp(size_t n_y, const tn_value *y, const tn_value *ybar, size_t n_x, const tn_value *x,
                 tn_value *xbar) {
  for (size_t j = 0; j < n_x; ++j) xbar[j] = (tn_value){0};
  if (!n_y || !n_x) return TN_FAIL(TN_EHANDLE, "vjp: no outputs or no arguments");
  tn_graph *graph = y[0].graph;
  if (!graph)
    return x[0].graph ? ag_bad_value(x[0].graph, "vjp", 0)
                      : TN_FAIL(TN_EHANDLE, "vjp: the first output and the first argument are error values");
  for (size_t i = 0; i < n_y + n_x; ++i) {
    tn_value v = i < n_y ? y[i] : x[i - n_y];
    if (v.graph != graph || !tn_ok(v))
      return ag_bad_value(graph, "vjp", i);
  }
  for (size_t i = 0; i < n_y; ++i) /* absent: zero */
    if (ag_present(ybar[i]) && (ybar[i].graph != graph || !tn_ok(ybar[i])))
      return TN_FAIL(TN_EHANDLE, "vjp: cotangent %zu is stale or foreign", i);
  sweep s;
  tn_status status = begin(&s, graph, n_y, y, n_x, x);
  if (status == TN_OK) {
    s.copies.key = ag_key(s.copies.key, n_y, ybar);
    for (size_t i = 0; i < n_y; ++i)
      accumulate(&s, (tn_edge){y[i].node, y[i].port}, (ag_cotangent){.value = ybar[i]});
    status = run(&s);
  }
  for (size_t j = 0; j < n_x && status == TN_OK; ++j) {
    tn_edge first = ag_first(graph, (tn_edge){x[j].node, x[j].port});
    xbar[j] = s.cotangent[s.port[first.node] + first.port].value;
    if (!ag_present(xbar[j])) xbar[j] = ag_zero_like(x[j]);
  }
  end(&s);
  return status;
}

tn_status ag_grad(tn_value y, size_t n, const tn_value *x, tn_value *dydx) {
  if (!tn_ok(y)) return TN_FAIL(TN_EHANDLE, "grad: bad value: %s", tn_error_text());
  tn_value one = ag_constant_like(y, 1);
  return ag_vjp(1, &y, &one, n, x, dydx);
}

tn_status ag_hvp(tn_value y, size_t n, const tn_value *x, const tn_value *v, tn_value *hv) {
  tn_value *gradient = NULL;
  TN_TRY(TN_NEW(n, &gradient));
  tn_status status = ag_grad(y, n, x, gradient);
  if (status == TN_OK) status = ag_jvp(n, x, v, n, gradient, hv);
  tn_free(&gradient);
  return status;
}

tn_value ag_hessian(tn_value y, tn_value x) {
  tn_value gradient, bad = {0};
  tn_shape shape = tn_shape_of(x);
  if (!ag_present(y) || !ag_present(x)) return bad;
  if (shape.rank != 1 || tn_shape_batched(&shape) || tn_shape_of(y).rank)
    return tn_graph_fail(x.graph, TN_ESHAPE, "hessian: expected a scalar y and an x of shape [n]");
  tn_status status = ag_grad(y, 1, &x, &gradient);
  if (status != TN_OK) return tn_graph_fail(x.graph, status, "%s", tn_error_text());
  tn_value *row = NULL;
  if (TN_NEW(shape.extent[0], &row) != TN_OK)
    return tn_graph_fail(x.graph, TN_ENOMEM, "hessian: out of memory");
  for (size_t i = 0; i < shape.extent[0] && status == TN_OK; ++i)
    status = ag_grad(tn_slice(gradient, 0, i, 1), 1, &x, &row[i]);
  tn_value out = status == TN_OK ? tn_transpose(tn_stack(shape.extent[0], row), 0, 1)
                                 : tn_graph_fail(x.graph, status, "%s", tn_error_text());
  tn_free(&row);
  return out;
}
