/* rows.c: rows of a Jacobian in operations: the backward graph without its final sums over points.
 *
 *   y [N], x of shape s:   rows [N, s],   rows[p] = d y[p] / d x
 *
 * A cotangent here is a function of the point p whose output is differentiated. On a value with points it is
 * the usual one, because y[p] depends on point p alone. On a value without points (a weight, a bias, a tangent
 * that enters the first layer) reverse mode would add up the points; here the point axis stays in front,
 * [N, shape]; a cotangent without it is the same at every point. So
 *
 *   jet_lin      Wbar[p] = sum over channels of outer(h_c[p], zbar_c[p]) = expand(h_c) expand(zbar_c)
 *                bbar[p] = zbar_0[p]
 *   expand       of a value without points over the points: the cotangent itself
 *   elementwise  a factor without points: the summand; structural operations: one axis further right
 *   scalar c     dy[p]/dx = cbar[p] dc/dx with the ordinary gradient: this closes means over points,
 *                networks at fixed arguments and expressions of trainable numbers
 *
 * Only operations that exist are used, so every executor and the replay in multiple precision run the rows.
 * Cost of a weight of k x n: (pairs) products and (pairs - 1) sums of k n numbers a point.
 */
#include "autograd/rowwise.h"

#include <string.h>

typedef struct row_sweep {
  tn_graph *graph;
  uint32_t n_nodes;        /* nodes when the sweep began */
  tn_axis axis;            /* of y */
  size_t n_x;
  const tn_value *x;
  size_t *port;            /* first port of a node */
  uint8_t *mark;           /* 1: depends on some x, 2: y depends on it */
  bool *is_x;              /* of ports */
  ag_cotangent *cotangent; /* of ports */
  ag_copies copies;
} row_sweep;

/* ---- Shapes ------------------------------------------------------------------------------------ */

static bool raised(tn_value v, tn_shape shape) {
  tn_shape own = tn_shape_of(v);
  return tn_shape_batched(&own) && !tn_shape_batched(&shape);
}

static tn_shape raise_shape(const row_sweep *s, tn_shape shape) {
  tn_shape out = {.rank = shape.rank + 1};
  if (tn_shape_batched(&shape) || shape.rank == TN_MAX_RANK) return shape;
  out.axis[0] = s->axis;
  for (uint32_t k = 0; k < shape.rank; ++k) out.extent[k + 1] = shape.extent[k];
  return out;
}

/* A cotangent in the full shape of its value, with points in front if it has them. */
static tn_value full(const row_sweep *s, tn_value g, tn_shape shape) {
  tn_shape to = raised(g, shape) ? raise_shape(s, shape) : shape;
  tn_shape own = tn_shape_of(g);
  double number;
  if (tn_shape_equal(&own, &to)) return g;
  if (ag_number(g, &number))
    return to.rank ? tn_fill(s->graph, tn_dtype_of(g), to, number)
                   : tn_const(s->graph, tn_dtype_of(g), number);
  /* summed over fixed axes that the value lacks; a scalar takes part in operations of any rank */
  while (tn_ok(g) && own.rank > to.rank) {
    g = tn_sum(g, own.rank - 1);
    own = tn_shape_of(g);
  }
  /* from [N] or a scalar: the missing fixed axes, last first */
  if (own.rank < to.rank && own.rank <= 1 && (own.rank == 0 || tn_shape_batched(&own)))
    for (uint32_t k = own.rank; k < to.rank && tn_ok(g); ++k)
      g = tn_shape_batched(&to) && k == 0 ? tn_expand(g, 0, to.axis[0], 0)
                                          : tn_expand(g, k, 0, to.extent[k]);
  return g;
}

/* ---- Accumulation ------------------------------------------------------------------------------ */

static bool wanted(void *context, tn_edge edge) {
  const row_sweep *s = context;
  return edge.node < s->n_nodes && (s->mark[edge.node] & 1) != 0;
}

static void accumulate(void *context, tn_edge edge, ag_cotangent g) {
  row_sweep *s = context;
  if (!ag_present(g.value) || !wanted(s, edge)) return;
  edge = ag_first(s->graph, edge);
  ag_cotangent *sum = &s->cotangent[s->port[edge.node] + edge.port];
  tn_shape shape = tn_node_at(s->graph, edge.node)->shapes[edge.port];
  uint32_t before = tn_shape_of(g.value).rank;
  tn_value fitted = full(s, g.value, shape);
  if (before > tn_shape_of(fitted).rank) g.mask = (tn_value){0};
  ag_cotangent_add(sum, (ag_cotangent){.value = fitted, .mask = g.mask});
}

static void give(row_sweep *s, const tn_node *node, uint32_t k, tn_value g) {
  accumulate(s, node->inputs[k], (ag_cotangent){.value = g});
}

/* ---- Rules ------------------------------------------------------------------------------------- */

/* c is a scalar: rows of x gain cbar[p] dc/dx. */
static tn_status close_scalar(row_sweep *s, tn_value c, tn_value cbar) {
  tn_value one = ag_constant_like(c, 1), *slope = NULL;
  TN_TRY(TN_NEW(s->n_x, &slope));
  tn_status status = ag_vjp(1, &c, &one, s->n_x, s->x, slope);
  for (size_t j = 0; j < s->n_x && status == TN_OK; ++j) {
    if (ag_is_zero(slope[j])) continue;
    tn_shape shape = tn_shape_of(s->x[j]);
    tn_value factor = cbar, g = slope[j];
    if (raised(cbar, tn_shape_scalar())) {
      for (uint32_t k = 0; k < shape.rank; ++k) factor = tn_expand(factor, k + 1, 0, shape.extent[k]);
      g = tn_expand(g, 0, s->axis, 0);
    }
    accumulate(s, (tn_edge){s->x[j].node, s->x[j].port}, (ag_cotangent){.value = ag_times(factor, g)});
    status = tn_graph_error(s->graph);
  }
  tn_free(&slope);
  return status;
}

static tn_value with_points(const row_sweep *s, tn_value v) {
  tn_shape shape = tn_shape_of(v);
  return tn_shape_batched(&shape) ? v : tn_expand(v, 0, s->axis, 0);
}

/* The outer product of h [N, k] and z [N, n] at every point: [N, k, n]. */
static tn_value outer_of(const row_sweep *s, tn_value h, tn_value z) {
  h = with_points(s, h);
  z = with_points(s, z);
  size_t k = tn_shape_of(h).extent[1], n = tn_shape_of(z).extent[1];
  return tn_mul(tn_expand(h, 2, 0, n), tn_expand(z, 1, 0, k));
}

static tn_status jet_lin(row_sweep *s, uint32_t index, const tn_node *node, const ag_cotangent *out) {
  tn_value in[TN_MAX_CHANNELS + 2], w = {0}, none = {0};
  tn_jet h, g = {.table = node->table}, hbar;
  uint32_t port = 0;
  ag_inputs(s->graph, node, in);
  for (uint32_t k = 0; k < node->n_inputs; ++k) in[k] = ag_copied(&s->copies, index, in[k]);
  uint32_t n = (uint32_t)ag_take_jet(node, node->mask[0], in, &h);
  bool transposed = node->integer[0] != 0, any = false;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    if (node->out_mask >> c & 1) {
      const ag_cotangent *o = &out[port++];
      tn_shape shape = node->shapes[port - 1];
      if (!ag_present(o->value) || ag_is_zero(o->value)) continue;
      if (shape.rank - tn_shape_batched(&shape) > 1)
        return TN_FAIL(TN_EUNSUPPORTED, "rows: a product of matrices that depends on the parameters");
      g.channel[c] = full(s, o->value, shape);
      if (!ag_present(h.channel[c])) continue;
      tn_value product = transposed ? outer_of(s, g.channel[c], h.channel[c])
                                    : outer_of(s, h.channel[c], g.channel[c]);
      if (wanted(s, node->inputs[n])) w = ag_present(w) ? tn_add(w, product) : product;
    }
  for (uint32_t k = 0; k < n; ++k) any = any || wanted(s, node->inputs[k]);
  if (any) {
    TN_TRY(tn_jet_lin(&g, in[n], none, !transposed, &hbar));
    for (int c = 0, k = 0; c < TN_MAX_CHANNELS; ++c)
      if (node->mask[0] >> c & 1) give(s, node, (uint32_t)k++, hbar.channel[c]);
  }
  give(s, node, n, w);
  if (node->integer[1]) give(s, node, n + 1, g.channel[0]);
  return tn_graph_error(s->graph);
}

/* Moves of values without points below a cotangent that has them: the axes stand one further right. */
static tn_status move(row_sweep *s, const tn_node *node, tn_value g) {
  const int64_t *a = node->integer;
  tn_value in = tn_value_at(s->graph, node->inputs[0].node, node->inputs[0].port);
  tn_shape x = tn_shape_of(in), to = raise_shape(s, x);
  size_t axis = (size_t)a[0], first = 0;
  g = full(s, g, node->shapes[0]);
  switch (node->op->id) {
  case TN_OP_sum: give(s, node, 0, tn_expand(g, axis + 1, 0, x.extent[axis])); break;
  case TN_OP_expand: give(s, node, 0, tn_sum(g, axis + 1)); break;
  case TN_OP_reshape: give(s, node, 0, tn_reshape(g, to)); break;
  case TN_OP_transpose: give(s, node, 0, tn_transpose(g, axis + 1, (size_t)a[1] + 1)); break;
  case TN_OP_slice:
    give(s, node, 0,
         tn_pad(g, axis + 1, (size_t)a[1], x.extent[axis] - (size_t)a[1] - (size_t)a[2]));
    break;
  case TN_OP_pad: give(s, node, 0, tn_slice(g, axis + 1, (size_t)a[1], x.extent[axis])); break;
  case TN_OP_cast: give(s, node, 0, tn_cast(g, tn_dtype_of(in))); break;
  case TN_OP_concat:
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_edge e = node->inputs[k];
      size_t extent = tn_node_at(s->graph, e.node)->shapes[e.port].extent[axis];
      if (wanted(s, e)) give(s, node, k, tn_slice(g, axis + 1, first, extent));
      first += extent;
    }
    break;
  case TN_OP_stack:
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      if (wanted(s, node->inputs[k]))
        give(s, node, k, tn_sum(tn_slice(g, x.rank + 1, k, 1), x.rank + 1));
    break;
  default: return TN_FAIL(TN_EUNSUPPORTED, "rows: no rule for %s without points", node->op->name);
  }
  return tn_graph_error(s->graph);
}

static bool is_point_sum(const row_sweep *s, const tn_node *node) {
  bool sums = node->op->id == TN_OP_jet_outer || (node->op->id == TN_OP_sum && node->integer[0] == 0);
  bool points = false;
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    tn_edge e = node->inputs[k];
    points = points || tn_shape_batched(&tn_node_at(s->graph, e.node)->shapes[e.port]);
  }
  return sums && points && !tn_shape_batched(&node->shapes[0]);
}

static tn_status node_rule(row_sweep *s, uint32_t i, const ag_cotangent *out) {
  const tn_node *node = tn_node_at(s->graph, i);
  tn_shape shape = node->shapes[0];
  tn_at_like(tn_value_at(s->graph, i, 0));
  if (!shape.rank) {
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      if (ag_present(out[k].value))
        TN_TRY(close_scalar(s, tn_value_at(s->graph, i, k), out[k].value));
    return TN_OK;
  }
  if (ag_is_opaque(node->op))
    return TN_FAIL(TN_EUNSUPPORTED, "rows: %s is opaque; which points it mixes is not known", node->op->name);
  if (is_point_sum(s, node))
    return TN_FAIL(TN_EUNSUPPORTED, "rows: a sum over points that is not a scalar takes part");
  if (node->op->id == TN_OP_jet_lin) return jet_lin(s, i, node, out);
  bool batched = tn_shape_batched(&shape);
  if (batched && node->op->id == TN_OP_expand && node->integer[1]) {
    give(s, node, 0, full(s, out[0].value, shape));
    return tn_graph_error(s->graph);
  }
  bool lifted = false;
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    lifted = lifted || (ag_present(out[k].value) && raised(out[k].value, node->shapes[k]));
  if (lifted && node->op->arity <= 0 && !ag_is_rowwise(node->op) && !node->op->custom)
    return move(s, node, out[0].value);
  return ag_node_vjp(s->graph, i, out, &s->copies, s, wanted, accumulate);
}

/* ---- The sweep --------------------------------------------------------------------------------- */

static tn_status begin(row_sweep *s, tn_value y) {
  s->n_nodes = y.node + 1;
  for (size_t j = 0; j < s->n_x; ++j)
    if (s->x[j].node >= s->n_nodes) s->n_nodes = s->x[j].node + 1;
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->port));
  TN_TRY(TN_NEW(s->n_nodes + 1, &s->mark));
  for (uint32_t i = 0; i < s->n_nodes; ++i)
    s->port[i + 1] = s->port[i] + tn_node_at(s->graph, i)->n_outputs;
  TN_TRY(TN_NEW(s->port[s->n_nodes] + 1, &s->is_x));
  TN_TRY(TN_NEW(s->port[s->n_nodes] + 1, &s->cotangent));
  for (size_t j = 0; j < s->n_x; ++j) {
    s->is_x[s->port[s->x[j].node] + s->x[j].port] = true;
    s->mark[s->x[j].node] |= 1;
  }
  s->mark[y.node] |= 2;
  for (uint32_t i = s->n_nodes; i-- > 0;) {
    const tn_node *node = tn_node_at(s->graph, i);
    for (uint32_t k = 0; (s->mark[i] & 2) && k < node->n_inputs; ++k) s->mark[node->inputs[k].node] |= 2;
    if ((s->mark[i] & 2) && node->origin) s->mark[node->origin - 1] |= 2;
  }
  for (uint32_t i = 0; i < s->n_nodes; ++i) {
    const tn_node *node = tn_node_at(s->graph, i);
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      if (s->mark[node->inputs[k].node] & 1) s->mark[i] |= 1;
    if (node->origin && s->mark[node->origin - 1] & 1) s->mark[i] |= 1;
  }
  s->copies = (ag_copies){.graph = s->graph, .n_nodes = s->n_nodes, .port = s->port,
                          .key = ag_key(ag_key(2, 1, &y), s->n_x, s->x)};
  return TN_OK;
}

static tn_status run(row_sweep *s) {
  ag_cotangent out[TN_MAX_CHANNELS];
  for (uint32_t i = s->n_nodes; i-- > 0;) {
    const tn_node *node = tn_node_at(s->graph, i);
    bool any = false;
    if (s->mark[i] != 3 || node->n_inputs == 0) continue;
    for (uint32_t k = 0; k < node->n_outputs; ++k) {
      size_t port = s->port[i] + k;
      out[k] = s->is_x[port] ? (ag_cotangent){0} : s->cotangent[port];
      any = any || (ag_present(out[k].value) && !ag_is_zero(out[k].value));
    }
    if (!any) continue;
    uint32_t segment, before;
    TN_TRY(ag_copies_of(&s->copies, i, &segment));
    before = tn_segment(s->graph, segment);
    if (!segment) tn_segment(s->graph, before);
    tn_status status = node_rule(s, i, out);
    tn_segment(s->graph, before);
    TN_TRY(status);
  }
  return tn_graph_error(s->graph);
}

static tn_status rows_of(size_t n_x, const tn_value *x, tn_value y, tn_value *rows) {
  tn_shape shape = tn_shape_of(y);
  tn_value one = ag_constant_like(y, 1);
  if (shape.rank > 1 || (shape.rank == 1 && !tn_shape_batched(&shape)))
    return TN_FAIL(TN_ESHAPE, "rows: expected an output with one number a point, or a scalar");
  if (!shape.rank) return ag_vjp(1, &y, &one, n_x, x, rows);
  row_sweep s = {.graph = y.graph, .axis = shape.axis[0], .n_x = n_x, .x = x};
  tn_status status = begin(&s, y);
  if (status == TN_OK) {
    accumulate(&s, (tn_edge){y.node, y.port}, (ag_cotangent){.value = one});
    status = run(&s);
  }
  for (size_t j = 0; j < n_x && status == TN_OK; ++j) {
    tn_value g = s.cotangent[s.port[x[j].node] + x[j].port].value;
    tn_shape to = raise_shape(&s, tn_shape_of(x[j]));
    double number = 0;
    if (!ag_present(g) || ag_number(g, &number)) rows[j] = tn_fill(y.graph, tn_dtype_of(y), to, number);
    else rows[j] = with_points(&s, g);
    status = tn_graph_error(y.graph);
  }
  ag_copies_free(&s.copies);
  tn_free(&s.port);
  tn_free(&s.mark);
  tn_free(&s.is_x);
  tn_free(&s.cotangent);
  return status;
}

tn_status ag_rows(size_t n_x, const tn_value *x, size_t n_y, const tn_value *y, tn_value *rows) {
  for (size_t i = 0; i < n_x * n_y; ++i) rows[i] = (tn_value){0};
  tn_graph *graph = n_x ? x[0].graph : NULL;
  if (!graph) return TN_FAIL(TN_EHANDLE, "rows: no argument");
  for (size_t i = 0; i < n_x + n_y; ++i) {
    tn_value v = i < n_x ? x[i] : y[i - n_x];
    if (v.graph != graph || !tn_ok(v))
      return ag_bad_value(graph, "rows", i);
    tn_shape shape = tn_shape_of(v);
    if (i < n_x && (tn_shape_batched(&shape) || shape.rank == TN_MAX_RANK))
      return TN_FAIL(TN_ESHAPE, "rows: argument %zu has points or rank %d; expected a value without "
                     "points of rank at most %d", i, (int)shape.rank, TN_MAX_RANK - 1);
  }
  for (size_t i = 0; i < n_y; ++i) TN_TRY(rows_of(n_x, x, y[i], rows + i * n_x));
  return TN_OK;
}
