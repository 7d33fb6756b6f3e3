/* rowwise.c: derivatives of softmax, layer_norm and rstd, in operations.
 *
 *   softmax      dy = y (dx - sum y dx)
 *   layer_norm   dy = r (dx - mean dx - y mean(y dx)),  r = rstd(x)
 *   rstd         dr = -r^2 mean(y dx),                  y = layer_norm(x)
 *
 * The first two Jacobians are symmetric, so forward and reverse mode are one formula; they need the value, and r,
 * not the argument's exponentials and squares. A structural constant row vanishes under both. The formulas are
 * closed: they differentiate again, to any order.
 *
 * Below a `where` a cotangent carries a mask. A row mixes its units: the sums take selected products only, and a
 * unit that is left aside gets 0 by structure where they are 0, so a NaN in a row that nobody selected stays there.
 *
 * Jets. With x = x_0 + n and s = softmax(x_0), softmax(x) = s e^n / (1 + sum s (e^n - 1)): no maximum and no large
 * exponential, and the sum's value is 1 by structure. layer_norm is expanded as it is written. The value channel is
 * the operation itself, so a jet's value has the bits of a plain evaluation.
 */
#include "autograd/rowwise.h"

#include <string.h>

bool ag_is_rowwise(const tn_op *op) {
  return op->id == TN_OP_softmax || op->id == TN_OP_layer_norm || op->id == TN_OP_rstd;
}

static size_t entries(tn_value x) {
  tn_shape shape = tn_shape_of(x);
  return shape.rank ? shape.extent[shape.rank - 1] : 1;
}

static tn_value sum_row(tn_value v) {
  tn_shape shape = tn_shape_of(v);
  return shape.rank ? tn_sum(v, shape.rank - 1) : v;
}

static tn_value mean_row(tn_value v) {
  return ag_over(sum_row(v), ag_constant_like(v, (double)entries(v)));
}

static tn_value over_row(tn_value v, size_t n) { return tn_expand(v, tn_shape_of(v).rank, 0, n); }

/* ---- First derivatives ---- */

static bool same_shapes(tn_value a, tn_value b) {
  tn_shape sa = tn_shape_of(a), sb = tn_shape_of(b);
  return !sa.rank || tn_shape_equal(&sa, &sb);
}

/* The symmetric Jacobian of softmax or layer_norm times v. mask: where v is not zero by structure, or absent;
 * *keep: likewise of the result. */
static tn_value symmetric(const tn_node *node, tn_value x, tn_value y, tn_value v, tn_value mask, tn_value *keep) {
  size_t n = entries(y);
  bool norm = node->op->id == TN_OP_layer_norm;
  tn_value none = {0}, all = ag_times(v, y), plain = v, zero = ag_constant_like(y, 0);
  if (ag_present(mask) && !same_shapes(mask, all)) mask = none;
  if (ag_present(mask)) {
    all = ag_select(mask, all, none);
    plain = ag_select(mask, v, none);
  }
  tn_value s = over_row(norm ? mean_row(all) : sum_row(all), n);
  tn_value m = norm ? over_row(mean_row(plain), n) : none;
  tn_value out = norm ? ag_times(over_row(tn_rstd(x, node->number), n),
                                 ag_minus(ag_minus(v, m), ag_times(y, s)))
                      : ag_times(y, ag_minus(v, s));
  *keep = none;
  if (!ag_present(mask)) return out;
  *keep = tn_either(mask, tn_ne(s, zero));
  if (norm) *keep = tn_either(*keep, tn_ne(m, zero));
  return ag_select(*keep, out, none);
}

ag_cotangent ag_rowwise_pull(const tn_node *node, tn_value x, tn_value y, ag_cotangent g) {
  size_t n = entries(x);
  double number;
  tn_value none = {0}, own = node->op->id == TN_OP_rstd ? y : x;
  if (tn_shape_of(g.value).rank < tn_shape_of(own).rank) g.value = ag_fit(g.value, tn_shape_of(own));
  if (node->op->id == TN_OP_rstd) { /* -g r^2 / n y */
    tn_value f = ag_over(ag_times(g.value, ag_negative(tn_square(y))), ag_constant_like(y, (double)n));
    return (ag_cotangent){ag_times(over_row(f, n), tn_layer_norm(x, node->number)), none};
  }
  if (ag_number(g.value, &number)) return (ag_cotangent){ag_zero_like(g.value), none};
  ag_cotangent out;
  out.value = symmetric(node, x, y, g.value, g.mask, &out.mask);
  return out;
}

tn_value ag_rowwise_push(const tn_node *node, tn_value x, tn_value y, tn_value xdot) {
  tn_value none = {0}, keep;
  double number;
  if (ag_number(xdot, &number)) return none;
  if (node->op->id != TN_OP_rstd) return symmetric(node, x, y, xdot, none, &keep);
  tn_value mean = mean_row(ag_times(xdot, tn_layer_norm(x, node->number)));
  return ag_times(ag_negative(tn_square(y)), mean);
}

/* ---- Jets ---- */

static void rows_of(tn_jet *jet, tn_value (*f)(tn_value)) {
  for (uint32_t c = 0; c < jet->table->channels; ++c)
    if (ag_present(jet->channel[c])) jet->channel[c] = f(jet->channel[c]);
}

static void spread_rows(tn_jet *jet, size_t n) {
  for (uint32_t c = 0; c < jet->table->channels; ++c)
    if (ag_present(jet->channel[c])) jet->channel[c] = over_row(jet->channel[c], n);
}

static tn_value filled(tn_value like, tn_shape fixed, double x) {
  return fixed.rank ? tn_fill(like.graph, tn_dtype_of(like), fixed, x) : ag_constant_like(like, x);
}

static tn_status softmax_jet(const tn_jet *x, tn_shape fixed, tn_value value, tn_jet *y) {
  tn_jet n = *x, e, s, q;
  tn_shape row = tn_shape_fixed(fixed.rank - 1, fixed.extent);
  n.channel[0] = filled(value, fixed, 0);
  TN_TRY(tn_jet_unary(TN_OP_exp, 0, 0, &n, &e));
  e.channel[0] = value;
  for (uint32_t c = 1; c < e.table->channels; ++c)
    if (ag_present(e.channel[c])) e.channel[c] = ag_times(value, e.channel[c]);
  s = e;
  rows_of(&s, sum_row);
  s.channel[0] = filled(value, row, 1);
  TN_TRY(tn_jet_unary(TN_OP_recip, 0, 0, &s, &q));
  q.channel[0] = s.channel[0]; /* 1 */
  spread_rows(&q, fixed.extent[fixed.rank - 1]);
  return tn_jet_mul(&e, &q, y);
}

static tn_status norm_jet(const tn_node *node, const tn_jet *x, tn_shape fixed, tn_jet *y) {
  tn_jet d = *x, v, r;
  size_t n = fixed.extent[fixed.rank - 1];
  for (uint32_t c = 0; c < d.table->channels; ++c)
    if (ag_present(d.channel[c])) d.channel[c] = ag_minus(d.channel[c], over_row(mean_row(d.channel[c]), n));
  TN_TRY(tn_jet_mul(&d, &d, &v));
  rows_of(&v, mean_row);
  v.channel[0] = ag_plus(v.channel[0], ag_constant_like(v.channel[0], node->number));
  TN_TRY(tn_jet_unary(TN_OP_powr, -0.5, 0, &v, &r));
  if (node->op->id == TN_OP_rstd) {
    *y = r;
    return TN_OK;
  }
  spread_rows(&r, n);
  return tn_jet_mul(&d, &r, y);
}

tn_status ag_rowwise_jet(tn_graph *graph, const tn_node *node, const tn_jet *x, tn_jet *y) {
  tn_value value = {0};
  tn_jet wide = *x;
  tn_shape fixed = ag_jet_shape(x);
  ag_jet_widen(&wide, fixed);
  if (node->op->id == TN_OP_softmax) value = tn_softmax(wide.channel[0]);
  else if (node->op->id == TN_OP_rstd) value = tn_rstd(wide.channel[0], node->number);
  else value = tn_layer_norm(wide.channel[0], node->number);
  TN_TRY(tn_graph_error(graph));
  TN_TRY(node->op->id == TN_OP_softmax ? softmax_jet(&wide, fixed, value, y) : norm_jet(node, &wide, fixed, y));
  y->channel[0] = value;
  return tn_graph_error(graph);
}
