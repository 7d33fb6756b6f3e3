/* build_jet.c: structure tables and builders of the five jet operations.
 *
 * A jet node takes only the channels that are present and has one port for each channel of its result that
 * is not structurally zero: which those are follows from the table (product masks below). Channels with and
 * without the point axis mix; a result channel has the point axis if anything that enters it has.
 */
#include "tensor/graph.h"

#include <string.h>

/* ---- Tables ---- */

static bool equal_terms(const tn_jet_table *t, size_t n, const tn_jet_term *terms) {
  if (t->n_terms != n) return false;
  for (size_t i = 0; i < n; ++i) {
    const tn_jet_term *x = &t->terms[i], *y = &terms[i];
    if (x->a != y->a || x->b != y->b || x->c != y->c || x->coefficient != y->coefficient ||
        x->numerator != y->numerator || x->denominator != y->denominator)
      return false;
  }
  return true;
}

const tn_jet_table *tn_jet_table_new(tn_graph *graph, uint32_t channels, uint32_t order,
                                     uint32_t n_coefficients, size_t n_terms,
                                     const tn_jet_term *terms) {
  if (!channels || channels > TN_MAX_CHANNELS) {
    tn_graph_fail(graph, TN_ERANGE, "jet table: %u channels, expected 1 to %d", channels,
                  TN_MAX_CHANNELS);
    return NULL;
  }
  if (order >= channels || n_coefficients > TN_MAX_CHANNELS) {
    tn_graph_fail(graph, TN_ERANGE, "jet table: order %u and %u coefficients for %u channels, expected an "
                  "order below the channels and at most %d coefficients", order, n_coefficients,
                  channels, TN_MAX_CHANNELS);
    return NULL;
  }
  for (size_t i = 0; i < n_terms; ++i) {
    const tn_jet_term *t = &terms[i];
    if (t->a < 0 || t->b < 0 || t->c < 0 || t->a >= (int)channels || t->b >= (int)channels ||
        t->c >= (int)channels || t->coefficient >= (int)n_coefficients || t->denominator <= 0) {
      tn_graph_fail(graph, TN_ERANGE, "jet table: term %zu names a channel or coefficient that is not "
                    "there, or a denominator that is not positive", i);
      return NULL;
    }
  }
  for (size_t i = 0; i < graph->n_jet_tables; ++i) {
    const tn_jet_table *t = graph->jet_tables[i];
    if (t->channels == channels && t->order == order && t->n_coefficients == n_coefficients &&
        equal_terms(t, n_terms, terms))
      return t;
  }
  tn_jet_table *table = NULL;
  void *copy = NULL;
  if (tn_arena_take(&graph->arena, 1, sizeof *table, &table) != TN_OK ||
      tn_arena_copy(&graph->arena, terms, n_terms, sizeof *terms, &copy) != TN_OK ||
      tn_grow(&graph->jet_tables, graph->n_jet_tables, graph->n_jet_tables + 1,
              sizeof *graph->jet_tables) != TN_OK) {
    tn_graph_fail(graph, TN_ENOMEM, "jet table: out of memory");
    return NULL;
  }
  *table = (tn_jet_table){channels, order, n_coefficients, n_terms, copy, graph->n_jet_tables + 1};
  graph->jet_tables[graph->n_jet_tables++] = table;
  return table;
}

static const tn_jet_table *value_table(tn_graph *graph) {
  return tn_jet_table_new(graph, 1, 0, 0, 1, (tn_jet_term[]){{0, 0, 0, -1, 1, 1}});
}

/* ---- Masks ---- */

static uint64_t mask_of(const tn_jet *jet, uint32_t channels) {
  uint64_t mask = 0;
  for (uint32_t c = 0; c < channels; ++c)
    if (jet->channel[c].graph) mask |= (uint64_t)1 << c;
  return mask;
}

static bool has(uint64_t mask, int channel) { return mask >> channel & 1; }

static uint64_t product_mask(const tn_jet_table *t, uint64_t a, uint64_t b) {
  uint64_t out = 0;
  for (size_t i = 0; i < t->n_terms; ++i)
    if (has(a, t->terms[i].b) && has(b, t->terms[i].c)) out |= (uint64_t)1 << t->terms[i].a;
  return out;
}

static uint64_t function_mask(const tn_jet_table *t, uint64_t z) {
  uint64_t n = z & ~(uint64_t)1, power = n, out = 1 | n;
  for (uint32_t k = 1; k < t->order && power; ++k) {
    power = product_mask(t, power, n) & ~(uint64_t)1;
    out |= power;
  }
  return out;
}

/* ---- Builders ---- */

typedef struct bundle { /* inputs of a node under construction */
  tn_graph *graph;
  tn_value input[3 * TN_MAX_CHANNELS];
  size_t n;
  tn_dtype dtype;
  tn_shape fixed; /* shape of a channel without the point axis */
  tn_axis axis;   /* point axis of any input, or 0 */
  bool started;
} bundle;

static tn_status enter(bundle *b, const char *name, tn_value v) {
  tn_shape shape = tn_shape_of(v), fixed = tn_shape_without_points(shape);
  char ta[96], tb[96];
  if (!b->started) {
    b->started = true;
    b->dtype = tn_dtype_of(v);
    b->fixed = fixed;
  }
  if (tn_dtype_of(v) != b->dtype || !tn_dtype_is_float(b->dtype)) {
    tn_graph_fail(b->graph, TN_EDTYPE, "%s: channels of %s and %s, expected one float dtype", name,
                  tn_dtype_name(b->dtype), tn_dtype_name(tn_dtype_of(v)));
    return TN_EDTYPE;
  }
  if (!tn_shape_equal(&fixed, &b->fixed)) {
    tn_graph_fail(b->graph, TN_ESHAPE, "%s: a channel of shape %s among channels of %s per point", name,
                  tn_shape_text(b->graph, &shape, ta, sizeof ta),
                  tn_shape_text(b->graph, &b->fixed, tb, sizeof tb));
    return TN_ESHAPE;
  }
  if (tn_shape_batched(&shape)) {
    if (b->axis && b->axis != shape.axis[0]) {
      tn_graph_fail(b->graph, TN_ESHAPE, "%s: channels on two point axes, `%s` and `%s`", name,
                    tn_axis_name(b->graph, b->axis), tn_axis_name(b->graph, shape.axis[0]));
      return TN_ESHAPE;
    }
    b->axis = shape.axis[0];
  }
  b->input[b->n++] = v;
  return TN_OK;
}

static tn_status enter_jet(bundle *b, const char *name, const tn_jet *jet, uint64_t mask) {
  for (; mask; mask &= mask - 1) TN_TRY(enter(b, name, jet->channel[__builtin_ctzll(mask)]));
  return TN_OK;
}

/* Coefficients: scalars, or [N] on the bundle's axis. */
static tn_status enter_coefficients(bundle *b, const char *name, const tn_jet_table *table,
                                    const tn_value *coefficients) {
  if (table->n_coefficients && !coefficients) {
    tn_graph_fail(b->graph, TN_ESTATE, "%s: a jet without the %u coefficients of its table", name,
                  table->n_coefficients);
    return TN_ESTATE;
  }
  for (uint32_t i = 0; i < table->n_coefficients; ++i) {
    tn_shape shape = tn_shape_of(coefficients[i]);
    bool fits = tn_ok(coefficients[i]) && coefficients[i].graph == b->graph &&
                tn_dtype_of(coefficients[i]) == b->dtype &&
                (shape.rank == 0 || (shape.rank == 1 && shape.axis[0]));
    if (fits && shape.rank && b->axis && shape.axis[0] != b->axis) fits = false;
    if (!fits) {
      tn_graph_fail(b->graph, TN_ESHAPE, "%s: coefficient %u must be a scalar or one number a point, "
                    "of the channels' dtype and axis", name, i);
      return TN_ESHAPE;
    }
    if (shape.rank) b->axis = shape.axis[0];
    b->input[b->n++] = coefficients[i];
  }
  return TN_OK;
}

static uint32_t channels_of(const tn_jet *jet) { return jet->table ? jet->table->channels : 1; }

static bool start(bundle *b, size_t n, const tn_jet *const *jets) {
  tn_value all[2 * TN_MAX_CHANNELS];
  size_t count = 0;
  b->n = 0; /* the inputs, most of a bundle, are filled in one by one */
  b->axis = 0;
  b->started = false;
  for (size_t i = 0; i < n; ++i)
    for (uint32_t c = 0; c < channels_of(jets[i]); ++c)
      if (jets[i]->channel[c].graph) all[count++] = jets[i]->channel[c];
  b->graph = count ? tn_common_graph(count, all) : NULL;
  return b->graph != NULL;
}

/* Adds the node and spreads its ports over the channels of y. */
static tn_status finish(bundle *b, tn_op_id id, tn_node node, const tn_shape *shapes, tn_jet *y) {
  tn_edge edges[3 * TN_MAX_CHANNELS];
  for (size_t i = 0; i < b->n; ++i) edges[i] = tn_edge_of(b->input[i]);
  node.op = tn_op_row(id);
  node.dtype = b->dtype;
  node.n_inputs = (uint32_t)b->n;
  node.inputs = edges;
  node.n_outputs = (uint32_t)__builtin_popcountll(node.out_mask);
  node.shapes = shapes;
  tn_value v = tn_node_make(b->graph, &node);
  if (!v.graph) return tn_error_code();
  uint32_t port = 0;
  memset(y->channel, 0, sizeof y->channel);
  for (uint64_t mask = node.out_mask; mask; mask &= mask - 1)
    y->channel[__builtin_ctzll(mask)] = tn_value_at(b->graph, v.node, port++);
  return TN_OK;
}

/* Splits a mixed bundle in two: the channels with the point axis, and those without. */
static tn_status lin_of_parts(const tn_jet *h, tn_value w, tn_value bias, bool transposed, tn_jet *y) {
  tn_jet part = *h, out, all = {.table = h->table, .coefficients = h->coefficients}; /* y may be h */
  for (int batched = 0; batched < 2; ++batched) {
    for (uint32_t c = 0; c < channels_of(h); ++c) {
      tn_shape shape = tn_shape_of(h->channel[c]);
      part.channel[c] = tn_shape_batched(&shape) == (batched != 0) ? h->channel[c] : (tn_value){0};
    }
    TN_TRY(tn_jet_lin(&part, w, bias, transposed, &out));
    for (uint32_t c = 0; c < channels_of(h); ++c)
      if (out.channel[c].graph) all.channel[c] = out.channel[c];
  }
  *y = all;
  return TN_OK;
}

tn_status tn_jet_lin(const tn_jet *h, tn_value w, tn_value bias, bool transposed, tn_jet *y) {
  bundle b;
  if (!start(&b, 1, &h)) return TN_FAIL(TN_EHANDLE, "jet_lin: no good channels");
  uint64_t mask = mask_of(h, channels_of(h));
  TN_TRY(enter_jet(&b, "jet_lin", h, mask));
  for (size_t i = 0; b.axis && i < b.n; ++i) {
    tn_shape shape = tn_shape_of(b.input[i]);
    if (!tn_shape_batched(&shape)) return lin_of_parts(h, w, bias, transposed, y);
  }
  bool biased = bias.graph != NULL;
  if (!tn_common_graph(2, (tn_value[]){b.input[0], w}) ||
      (biased && !tn_common_graph(2, (tn_value[]){b.input[0], bias})))
    return TN_FAIL(TN_EHANDLE, "jet_lin: bad weight or bias: %s", tn_error_text());
  tn_shape ws = tn_shape_of(w), bs = tn_shape_of(bias);
  char th[96], tw[96];
  size_t k = ws.extent[transposed ? 1 : 0], n = ws.extent[transposed ? 0 : 1];
  if (ws.rank != 2 || tn_shape_batched(&ws) || !b.fixed.rank || b.fixed.rank > 2 ||
      b.fixed.extent[b.fixed.rank - 1] != k || (b.fixed.rank == 2 && b.axis))
    tn_graph_fail(b.graph, TN_ESHAPE, "linear: %s per point times %s%s", 
                  tn_shape_text(b.graph, &b.fixed, th, sizeof th),
                  tn_shape_text(b.graph, &ws, tw, sizeof tw), transposed ? " transposed" : "");
  else if (biased && (bs.rank != 1 || tn_shape_batched(&bs) || bs.extent[0] != n))
    tn_graph_fail(b.graph, TN_ESHAPE, "linear: bias %s, expected [%zu]",
                  tn_shape_text(b.graph, &bs, tw, sizeof tw), n);
  else if (tn_dtype_of(w) != b.dtype || (biased && tn_dtype_of(bias) != b.dtype))
    tn_graph_fail(b.graph, TN_EDTYPE, "linear: weight %s, input %s", tn_dtype_name(tn_dtype_of(w)),
                  tn_dtype_name(b.dtype));
  else {
    tn_shape shapes[TN_MAX_CHANNELS];
    size_t ports = b.n;
    for (size_t i = 0; i < ports; ++i) {
      shapes[i] = tn_shape_of(b.input[i]);
      shapes[i].extent[shapes[i].rank - 1] = n;
    }
    b.input[b.n++] = w;
    if (biased && has(mask, 0)) b.input[b.n++] = bias;
    y->table = h->table;
    y->coefficients = h->coefficients;
    return finish(&b, TN_OP_jet_lin,
                  (tn_node){.integer = {transposed, biased && has(mask, 0)}, .table = h->table,
                            .mask = {mask}, .out_mask = mask}, shapes, y);
  }
  return tn_error_code();
}

tn_value tn_jet_outer(size_t pairs, const tn_value *z, const tn_value *h) {
  tn_value all[2 * TN_MAX_CHANNELS];
  tn_value bad = {0};
  if (!pairs || !z[0].graph) return bad;
  if (pairs > TN_MAX_CHANNELS)
    return tn_graph_fail(z[0].graph, TN_ERANGE, "outer: %zu pairs, expected at most %d", pairs,
                         TN_MAX_CHANNELS);
  for (size_t i = 0; i < pairs; ++i) {
    all[i] = z[i];
    all[pairs + i] = h[i];
  }
  tn_graph *graph = tn_common_graph(2 * pairs, all);
  if (!graph) return bad;
  tn_shape zf = tn_shape_without_points(tn_shape_of(z[0]));
  tn_shape hf = tn_shape_without_points(tn_shape_of(h[0]));
  tn_axis axis = 0;
  for (size_t i = 0; i < 2 * pairs; ++i) {
    tn_shape shape = tn_shape_of(all[i]), fixed = tn_shape_without_points(shape);
    tn_axis own = tn_shape_batched(&shape) ? shape.axis[0] : 0;
    if (!tn_shape_equal(&fixed, i < pairs ? &zf : &hf) || (own && axis && own != axis) ||
        tn_dtype_of(all[i]) != tn_dtype_of(z[0]) || !tn_dtype_is_float(tn_dtype_of(z[0])))
      return tn_graph_fail(graph, TN_ESHAPE, "outer: operand %zu does not fit the others", i);
    if (own) axis = own;
  }
  bool rows = zf.rank == 2 && hf.rank == 2 && !axis && zf.extent[0] == hf.extent[0];
  if (!rows && (zf.rank != 1 || hf.rank != 1))
    return tn_graph_fail(graph, TN_ESHAPE, "outer: operands must be [N, k] and [N, n], [k] and [n], "
                         "or [m, k] and [m, n]");
  tn_shape shape = {.rank = 2,
                    .extent = {hf.extent[hf.rank - 1], zf.extent[zf.rank - 1]}};
  tn_edge edges[2 * TN_MAX_CHANNELS];
  for (size_t i = 0; i < 2 * pairs; ++i) edges[i] = tn_edge_of(all[i]);
  tn_node node = {.op = tn_op_row(TN_OP_jet_outer), .dtype = tn_dtype_of(z[0]),
                  .n_inputs = (uint32_t)(2 * pairs), .inputs = edges, .n_outputs = 1,
                  .shapes = &shape, .integer = {(int64_t)pairs}};
  return tn_node_make(graph, &node);
}

/* All result channels of one node have the point axis or none has. */
static void result_shapes(const bundle *b, uint64_t out_mask, tn_shape *shapes) {
  int ports = __builtin_popcountll(out_mask);
  for (int i = 0; i < ports; ++i) shapes[i] = tn_shape_with_points(b->fixed, b->axis);
}

tn_status tn_jet_unary(tn_op_id op, double exponent, int derivative, const tn_jet *z, tn_jet *y) {
  bundle b;
  if (!start(&b, 1, &z)) return TN_FAIL(TN_EHANDLE, "jet_unary: no good channels");
  const tn_op *row = tn_op_row(op);
  bool piecewise = row->class_ == TN_PIECEWISE && row->arity == 1;
  if ((row->class_ != TN_ANALYTIC && !piecewise) || row->arity != 1 || derivative < 0 ||
      derivative > 32) {
    tn_graph_fail(b.graph, TN_EUNSUPPORTED, "jet_unary: %s, derivative %d: expected an analytic "
                  "function of one argument", row->name, derivative);
    return TN_EUNSUPPORTED;
  }
  const tn_jet_table *table = z->table ? z->table : value_table(b.graph);
  if (!table) return tn_error_code();
  uint64_t mask = mask_of(z, table->channels);
  if (!has(mask, 0)) {
    tn_graph_fail(b.graph, TN_ESTATE, "jet_unary: %s of a jet without a value channel", row->name);
    return TN_ESTATE;
  }
  TN_TRY(enter_jet(&b, row->name, z, mask));
  TN_TRY(enter_coefficients(&b, row->name, table, z->coefficients));
  tn_shape shapes[TN_MAX_CHANNELS];
  uint64_t out = function_mask(table, mask);
  result_shapes(&b, out, shapes);
  y->table = z->table;
  y->coefficients = z->coefficients;
  return finish(&b, TN_OP_jet_unary,
                (tn_node){.integer = {(int64_t)op, derivative}, .number = exponent, .table = table,
                          .mask = {mask}, .out_mask = out}, shapes, y);
}

static tn_status product(tn_op_id id, const tn_jet *left, const tn_jet *right, const bool *wanted,
                         tn_jet *y) {
  bundle b;
  const tn_jet *both[2] = {left, right};
  const char *name = tn_op_row(id)->name;
  if (!start(&b, 2, both)) return TN_FAIL(TN_EHANDLE, "%s: no good channels", name);
  const tn_jet_table *table = left->table ? left->table : value_table(b.graph);
  if (!table) return tn_error_code();
  if (left->table != right->table) {
    tn_graph_fail(b.graph, TN_ESHAPE, "%s: jets of two algebras", name);
    return TN_ESHAPE;
  }
  uint64_t lm = mask_of(left, table->channels), rm = mask_of(right, table->channels), out = 0;
  bool adjoint = id == TN_OP_jet_mulT;
  for (size_t i = 0; i < table->n_terms; ++i) {
    const tn_jet_term *t = &table->terms[i];
    if (has(lm, t->b) && has(rm, adjoint ? t->a : t->c)) {
      int c = adjoint ? t->c : t->a;
      if (!wanted || wanted[c]) out |= (uint64_t)1 << c;
    }
  }
  const tn_value *coefficients = left->coefficients;
  y->table = left->table;
  y->coefficients = coefficients;
  if (!out) { /* all structurally zero */
    memset(y->channel, 0, sizeof y->channel);
    return TN_OK;
  }
  TN_TRY(enter_jet(&b, name, left, lm));
  TN_TRY(enter_jet(&b, name, right, rm));
  TN_TRY(enter_coefficients(&b, name, table, coefficients));
  tn_shape shapes[TN_MAX_CHANNELS];
  result_shapes(&b, out, shapes);
  return finish(&b, id, (tn_node){.table = table, .mask = {lm, rm}, .out_mask = out}, shapes, y);
}

tn_status tn_jet_mul(const tn_jet *a, const tn_jet *b, tn_jet *y) {
  return product(TN_OP_jet_mul, a, b, NULL, y);
}

tn_status tn_jet_mulT(const tn_jet *w, const tn_jet *ybar, const bool *wanted, tn_jet *z) {
  return product(TN_OP_jet_mulT, w, ybar, wanted, z);
}

/* ---- One channel ---- */

tn_value tn_linear(tn_value x, tn_value w, tn_value bias, bool transposed) {
  tn_jet h = {.channel = {x}}, y;
  tn_value bad = {0};
  if (!tn_common_graph(2, (tn_value[]){x, w})) return bad;
  return tn_jet_lin(&h, w, bias, transposed, &y) == TN_OK ? y.channel[0] : bad;
}

tn_value tn_matmul(tn_value a, tn_value b) { return tn_linear(a, b, (tn_value){0}, false); }

/* ---- The same operation on other inputs ---- */

static size_t take_jet(const tn_jet_table *table, uint64_t mask, const tn_value *inputs, tn_jet *jet) {
  size_t n = 0;
  memset(jet, 0, sizeof *jet);
  jet->table = table && table->channels > 1 ? table : NULL;
  for (; mask; mask &= mask - 1) jet->channel[__builtin_ctzll(mask)] = inputs[n++];
  return n;
}

static tn_status rebuild_jet(const tn_node *node, const tn_value *in, tn_jet *y) {
  tn_jet a, b;
  size_t n = take_jet(node->table, node->mask[0], in, &a);
  switch (node->op->id) {
  case TN_OP_jet_lin:
    return tn_jet_lin(&a, in[n], node->integer[1] ? in[n + 1] : (tn_value){0}, node->integer[0] != 0,
                      y);
  case TN_OP_jet_unary:
    a.coefficients = in + n;
    return tn_jet_unary((tn_op_id)node->integer[0], node->number, (int)node->integer[1], &a, y);
  default: break;
  }
  n += take_jet(node->table, node->mask[1], in + n, &b);
  a.coefficients = b.coefficients = in + n;
  if (node->op->id == TN_OP_jet_mul) return tn_jet_mul(&a, &b, y);
  bool wanted[TN_MAX_CHANNELS];
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) wanted[c] = has(node->out_mask, c);
  return tn_jet_mulT(&a, &b, wanted, y);
}

static tn_value rebuild_one(tn_graph *graph, uint32_t index, const tn_node *node, const tn_value *in) {
  /* An input that loses the point axis moves the numbers of the axes behind it. */
  int64_t k[4];
  memcpy(k, node->integer, sizeof k);
  tn_shape now = tn_shape_of(node->n_inputs ? in[0] : (tn_value){0});
  if (node->n_inputs && node->op->id != TN_OP_jet_outer) {
    tn_edge e = node->inputs[0];
    bool lost = tn_shape_batched(&tn_node_at(graph, e.node)->shapes[e.port]) && !tn_shape_batched(&now);
    if (lost && k[0] == 0 && node->op->id == TN_OP_sum)
      return tn_graph_fail(graph, TN_EUNSUPPORTED, "a sum over points cannot lose its points");
    if (lost && node->op->id != TN_OP_jet_lin) --k[0];
    if (lost && node->op->id == TN_OP_transpose) --k[1];
  }
  switch (node->op->id) {
  case TN_OP_where: return tn_where(in[0], in[1], in[2]);
  case TN_OP_not: return tn_not(in[0]);
  case TN_OP_both: return tn_both(in[0], in[1]);
  case TN_OP_either: return tn_either(in[0], in[1]);
  case TN_OP_sum: return tn_sum(in[0], (size_t)k[0]);
  case TN_OP_expand: return tn_expand(in[0], (size_t)k[0], (tn_axis)k[1], (size_t)k[2]);
  case TN_OP_reshape: {
    tn_shape shape = tn_shape_without_points(node->shapes[0]), from = tn_shape_of(in[0]);
    return tn_reshape(in[0], tn_shape_with_points(shape, tn_shape_batched(&from) ? from.axis[0] : 0));
  }
  case TN_OP_transpose: return tn_transpose(in[0], (size_t)k[0], (size_t)k[1]);
  case TN_OP_slice: return tn_slice(in[0], (size_t)k[0], (size_t)k[1], (size_t)k[2]);
  case TN_OP_pad: return tn_pad(in[0], (size_t)k[0], (size_t)k[1], (size_t)k[2]);
  case TN_OP_concat: return tn_concat(node->n_inputs, in, (size_t)k[0]);
  case TN_OP_stack: return tn_stack(node->n_inputs, in);
  case TN_OP_cast: return tn_cast(in[0], node->dtype);
  case TN_OP_jet_outer: return tn_jet_outer((size_t)k[0], in, in + k[0]);
  case TN_OP_softmax: return tn_softmax(in[0]);
  case TN_OP_layer_norm: return tn_layer_norm(in[0], node->number);
  case TN_OP_rstd: return tn_rstd(in[0], node->number);
  default: break;
  }
  if (node->op->arity == 1) return tn_unary(node->op->id, in[0], node->number);
  if (node->op->arity == 2) return tn_binary(node->op->id, in[0], in[1]);
  if (node->n_inputs == 0) return tn_value_at(graph, index, 0);
  return tn_graph_fail(graph, TN_EUNSUPPORTED, "%s cannot be rebuilt on other inputs", node->op->name);
}

static tn_status rebuild(tn_graph *graph, uint32_t index, const tn_node *node, const tn_value *inputs,
                         tn_value *ports) {
  tn_op_id id = node->op->id;
  if (id == TN_OP_custom) return tn_rebuild_custom(graph, node, inputs, ports);
  if (id == TN_OP_jet_lin || id == TN_OP_jet_unary || id == TN_OP_jet_mul || id == TN_OP_jet_mulT) {
    tn_jet y;
    TN_TRY(rebuild_jet(node, inputs, &y));
    uint32_t port = 0;
    for (int c = 0; c < TN_MAX_CHANNELS; ++c)
      if (has(node->out_mask, c)) ports[port++] = y.channel[c];
    return TN_OK;
  }
  ports[0] = rebuild_one(graph, index, node, inputs);
  return ports[0].graph ? TN_OK : tn_error_code();
}

tn_status tn_rebuild(tn_graph *graph, uint32_t index, const tn_value *inputs, tn_value *ports) {
  const tn_node *node = tn_node_at(graph, index);
  tn_at_like(tn_value_at(graph, index, 0));
  uint32_t before = tn_segment(graph, graph->segment ? graph->segment : node->segment);
  tn_status status = rebuild(graph, index, node, inputs, ports);
  tn_segment(graph, before);
  return status;
}
