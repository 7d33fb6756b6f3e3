/* vjp.c: the reverse rule of every operation, in operations.
 *
 *   elementwise    xbar = ybar f'(x), the rule of the row
 *   jet_lin        hbar = jet_lin(W^T; ybar), Wbar = jet_outer(ybar; h), bbar = sum of ybar_0
 *   jet_outer      zbar = G^T-free: h G, hbar = z G^T
 *   jet_unary      zbar = jet_mulT(jet of f^(m+1)(z), ybar)
 *   jet_mul        abar = jet_mulT(b, ybar), bbar = jet_mulT(a, ybar)
 *   jet_mulT       wbar = jet_mulT(zeta, ybar), ybarbar = jet_mul(w, zeta): the table is symmetric
 * The five jet operations are closed under this, so gradients of gradients meet the same five kernels. Rows
 * (softmax, layer_norm) are in rowwise.c, operations of users in custom.c.
 */
#include "autograd/rowwise.h"

#include <string.h>

typedef struct rule_site {
  tn_graph *graph;
  const tn_node *node;
  uint32_t index;
  const ag_cotangent *out;
  const ag_copies *copies;
  tn_value in[AG_MAX_INPUTS];
  void *context;
  ag_wanted wanted;
  ag_accumulate accumulate;
} rule_site;

static bool want(const rule_site *s, uint32_t k) { return s->wanted(s->context, s->node->inputs[k]); }

/* Hands on a cotangent; a product below a `where` is selected by its mask. */
static void give(const rule_site *s, uint32_t k, tn_value g, tn_value mask, bool product) {
  if (product && ag_present(mask) && ag_present(g) && !ag_is_zero(g))
    g = ag_select(mask, g, (tn_value){0});
  s->accumulate(s->context, s->node->inputs[k], (ag_cotangent){g, mask});
}

static tn_value self(const rule_site *s, uint32_t port) {
  return ag_copied(s->copies, s->index, tn_value_at(s->graph, s->index, port));
}

static void elementwise(const rule_site *s) {
  tn_op_id op = s->node->op->id;
  tn_value g = s->out[0].value, mask = s->out[0].mask;
  if (s->node->op->arity == 1) {
    tn_value d = ag_rule(op, s->in[0], self(s, 0), s->node->number);
    give(s, 0, ag_times(g, d), mask, true);
    return;
  }
  bool linear = op == TN_OP_add || op == TN_OP_sub;
  if (want(s, 0)) {
    tn_value d = op == TN_OP_div ? (tn_value){0} : ag_rule_a(op, s->in[0], s->in[1], self(s, 0));
    give(s, 0, op == TN_OP_div ? ag_over(g, s->in[1]) : ag_times(g, d), mask, !linear);
  }
  if (want(s, 1)) {
    tn_value d = ag_rule_b(op, s->in[0], s->in[1], self(s, 0));
    give(s, 1, ag_times(g, d), mask, !linear);
  }
}

static void where(const rule_site *s) {
  tn_value g = s->out[0].value, outer = s->out[0].mask;
  for (uint32_t k = 1; k < 3; ++k) {
    if (!want(s, k)) continue;
    tn_value mask = k == 1 ? s->in[0] : tn_not(s->in[0]);
    tn_value part = k == 1 ? ag_select(s->in[0], g, (tn_value){0})
                           : ag_select(s->in[0], (tn_value){0}, g);
    give(s, k, part, ag_present(outer) ? tn_both(mask, outer) : mask, false);
  }
}

static size_t extent_of(const rule_site *s, uint32_t k, size_t axis) {
  return tn_shape_of(s->in[k]).extent[axis];
}

static void structural(const rule_site *s) {
  const int64_t *a = s->node->integer;
  tn_value g = ag_fit(s->out[0].value, s->node->shapes[0]), none = {0};
  tn_shape x = tn_shape_of(s->in[0]);
  size_t axis = (size_t)a[0], first = 0;
  switch (s->node->op->id) {
  case TN_OP_sum: {
    double number;
    if (ag_number(g, &number)) give(s, 0, ag_constant_like(g, number), none, false);
    else give(s, 0, tn_expand(g, axis, x.axis[axis], x.extent[axis]), none, false);
    return;
  }
  case TN_OP_expand: give(s, 0, tn_sum(g, axis), none, false); return;
  case TN_OP_reshape: give(s, 0, tn_reshape(g, x), none, false); return;
  case TN_OP_transpose: give(s, 0, tn_transpose(g, axis, (size_t)a[1]), none, false); return;
  case TN_OP_slice: {
    size_t after = x.extent[axis] - (size_t)a[1] - (size_t)a[2];
    give(s, 0, tn_pad(g, axis, (size_t)a[1], after), none, false);
    return;
  }
  case TN_OP_pad: give(s, 0, tn_slice(g, axis, (size_t)a[1], x.extent[axis]), none, false); return;
  case TN_OP_cast: give(s, 0, tn_cast(g, tn_dtype_of(s->in[0])), none, false); return; /* a mask fits one dtype */
  case TN_OP_concat:
    for (uint32_t k = 0; k < s->node->n_inputs; ++k) {
      size_t extent = extent_of(s, k, axis);
      if (want(s, k)) give(s, k, tn_slice(g, axis, first, extent), none, false);
      first += extent;
    }
    return;
  case TN_OP_stack:
    axis = x.rank;
    for (uint32_t k = 0; k < s->node->n_inputs; ++k)
      if (want(s, k)) give(s, k, tn_sum(tn_slice(g, axis, k, 1), axis), none, false);
    return;
  default:
    tn_graph_fail(s->graph, TN_EUNSUPPORTED, "%s has no reverse rule", s->node->op->name);
  }
}

/* ---- Jets ---- */

/* The cotangents of a jet node's ports as a bundle; the common mask, if every channel has it. */
static void bundle_of(const rule_site *s, tn_jet *jet, tn_value *mask) {
  uint32_t port = 0;
  bool one = true;
  memset(jet, 0, sizeof *jet);
  jet->table = s->node->table;
  *mask = (tn_value){0};
  for (uint64_t left = s->node->out_mask; left; left &= left - 1) {
    int c = __builtin_ctzll(left);
    ag_cotangent g = s->out[port];
    if (ag_present(g.value) && !ag_is_zero(g.value)) {
      jet->channel[c] = ag_fit(g.value, s->node->shapes[port]);
      if (!ag_present(*mask)) *mask = g.mask;
      one = one && ag_present(g.mask) && tn_same(g.mask, *mask);
    }
    ++port;
  }
  if (!one) *mask = (tn_value){0};
}

static void give_jet(const rule_site *s, uint32_t first, uint64_t channels, const tn_jet *jet,
                     tn_value mask) {
  uint32_t k = first;
  for (; channels; channels &= channels - 1, ++k) {
    int c = __builtin_ctzll(channels);
    if (ag_present(jet->channel[c]) && want(s, k)) give(s, k, jet->channel[c], mask, true);
  }
}

static void wanted_channels(uint64_t mask, bool *wanted) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) wanted[c] = mask >> c & 1;
}

static bool want_any(const rule_site *s, uint32_t first, uint64_t mask) {
  bool any = false;
  for (uint32_t k = 0; k < (uint32_t)__builtin_popcountll(mask); ++k) any = any || want(s, first + k);
  return any;
}

/* Coefficients of tables are data: a derivative by one is refused by name, where it is not zero because no
 * cotangent meets a term that holds it. */
static bool coefficients_free(const rule_site *s, uint32_t first, const tn_jet *g) {
  const tn_jet_table *t = s->node->table;
  for (size_t i = 0; i < t->n_terms; ++i) {
    const tn_jet_term *term = &t->terms[i];
    int out = s->node->op->id == TN_OP_jet_mulT ? term->c : term->a;
    if (term->coefficient < 0 || !ag_present(g->channel[out])) continue;
    if (!want(s, first + (uint32_t)term->coefficient)) continue;
    tn_graph_fail(s->graph, TN_EUNSUPPORTED,
                  "%s: no derivative by a coefficient of the operator (number %d); resolve in separate "
                  "mode, where coefficients multiply channels outside", s->node->op->name,
                  term->coefficient);
    return false;
  }
  return true;
}

static void jet_lin(const rule_site *s, const tn_jet *g) {
  tn_jet h, hbar;
  uint32_t n = (uint32_t)ag_take_jet(s->node, s->node->mask[0], s->in, &h);
  bool transposed = s->node->integer[0] != 0;
  if (want_any(s, 0, s->node->mask[0]) &&
      tn_jet_lin(g, s->in[n], (tn_value){0}, !transposed, &hbar) == TN_OK)
    give_jet(s, 0, s->node->mask[0], &hbar, (tn_value){0});
  if (want(s, n)) {
    tn_value zs[TN_MAX_CHANNELS], hs[TN_MAX_CHANNELS];
    size_t pairs = 0;
    for (int c = 0; c < TN_MAX_CHANNELS; ++c)
      if (ag_present(g->channel[c]) && ag_present(h.channel[c])) {
        zs[pairs] = g->channel[c];
        hs[pairs++] = h.channel[c];
      }
    if (pairs)
      give(s, n, transposed ? tn_jet_outer(pairs, hs, zs) : tn_jet_outer(pairs, zs, hs),
           (tn_value){0}, false);
  }
  if (s->node->integer[1] && want(s, n + 1) && ag_present(g->channel[0])) {
    tn_value b = g->channel[0];
    while (tn_ok(b) && tn_shape_of(b).rank > 1) b = tn_sum(b, 0);
    give(s, n + 1, b, (tn_value){0}, false);
  }
}

static void jet_outer(const rule_site *s) {
  uint32_t pairs = (uint32_t)s->node->integer[0];
  tn_value g = ag_fit(s->out[0].value, s->node->shapes[0]), none = {0};
  for (uint32_t i = 0; i < pairs; ++i) {
    tn_value z = s->in[i], h = s->in[pairs + i];
    if (want(s, i)) give(s, i, tn_linear(h, g, none, false), none, false);
    if (want(s, pairs + i)) give(s, pairs + i, tn_linear(z, g, none, true), none, false);
  }
}

static void jet_unary(const rule_site *s, tn_jet *g, tn_value mask) {
  tn_jet z, w, zbar;
  bool wanted[TN_MAX_CHANNELS];
  uint32_t n = (uint32_t)ag_take_jet(s->node, s->node->mask[0], s->in, &z);
  if (!coefficients_free(s, n, g)) return;
  z.coefficients = g->coefficients = s->in + n;
  wanted_channels(s->node->mask[0], wanted);
  tn_op_id op = (tn_op_id)s->node->integer[0];
  if (tn_jet_unary(op, s->node->number, (int)s->node->integer[1] + 1, &z, &w) != TN_OK) return;
  if (tn_jet_mulT(&w, g, wanted, &zbar) != TN_OK) return;
  give_jet(s, 0, s->node->mask[0], &zbar, mask);
}

static void jet_product(const rule_site *s, tn_jet *g, tn_value mask) {
  tn_jet a, b, abar, bbar;
  bool wanted[TN_MAX_CHANNELS];
  uint32_t n = (uint32_t)ag_take_jet(s->node, s->node->mask[0], s->in, &a);
  uint32_t m = n + (uint32_t)ag_take_jet(s->node, s->node->mask[1], s->in + n, &b);
  if (!coefficients_free(s, m, g)) return;
  a.coefficients = b.coefficients = g->coefficients = s->in + m;
  bool adjoint = s->node->op->id == TN_OP_jet_mulT;
  if (want_any(s, 0, s->node->mask[0])) {
    wanted_channels(s->node->mask[0], wanted);
    tn_status status = adjoint ? tn_jet_mulT(g, &b, wanted, &abar) : tn_jet_mulT(&b, g, wanted, &abar);
    if (status != TN_OK) return;
    give_jet(s, 0, s->node->mask[0], &abar, mask);
  }
  if (want_any(s, n, s->node->mask[1])) {
    wanted_channels(s->node->mask[1], wanted);
    tn_status status = adjoint ? tn_jet_mul(&a, g, &bbar) : tn_jet_mulT(&a, g, wanted, &bbar);
    if (status != TN_OK) return;
    give_jet(s, n, s->node->mask[1], &bbar, mask);
  }
}

/* ---- Rows, and operations of users ---- */

static void rowwise(const rule_site *s) {
  ag_cotangent g = ag_rowwise_pull(s->node, s->in[0], self(s, 0), s->out[0]);
  give(s, 0, g.value, g.mask, false);
}

static void custom(const rule_site *s) {
  const tn_op *op = s->node->op;
  tn_value y = self(s, 0), xbar[TN_CUSTOM_INPUTS];
  if (tn_op_is_vjp(op)) {
    tn_graph_fail(s->graph, TN_EUNSUPPORTED, "%s: an opaque operation has first derivatives only", op->name);
    return;
  }
  if (!ag_is_opaque(op)) {
    for (uint32_t k = 0; k < s->node->n_inputs; ++k)
      if (want(s, k))
        give(s, k, ag_times(s->out[0].value, ag_custom_partial(s->graph, op, s->in, y, k)), s->out[0].mask, true);
    return;
  }
  if (tn_apply_vjp(op, s->in, y, ag_fit(s->out[0].value, s->node->shapes[0]), xbar) != TN_OK) return;
  for (uint32_t k = 0; k < s->node->n_inputs; ++k)
    if (want(s, k)) give(s, k, xbar[k], (tn_value){0}, false);
}

tn_status ag_node_vjp(tn_graph *graph, uint32_t index, const ag_cotangent *out, const ag_copies *copies,
                      void *context, ag_wanted wanted, ag_accumulate accumulate) {
  rule_site site, *s = &site; /* most of it is room for inputs and stays as it is */
  s->graph = graph;
  s->node = tn_node_at(graph, index);
  s->index = index;
  s->out = out;
  s->copies = copies;
  s->context = context;
  s->wanted = wanted;
  s->accumulate = accumulate;
  tn_jet g;
  tn_value mask;
  if (s->node->n_inputs > AG_MAX_INPUTS)
    return TN_FAIL(TN_EUNSUPPORTED, "%s of %u inputs, at most %d", s->node->op->name,
                   s->node->n_inputs, AG_MAX_INPUTS);
  ag_inputs(graph, s->node, s->in);
  for (uint32_t k = 0; k < s->node->n_inputs; ++k) s->in[k] = ag_copied(copies, index, s->in[k]);
  switch (s->node->op->id) {
  case TN_OP_where: where(s); break;
  case TN_OP_jet_outer: jet_outer(s); break;
  case TN_OP_jet_lin:
    bundle_of(s, &g, &mask);
    jet_lin(s, &g);
    break;
  case TN_OP_jet_unary:
    bundle_of(s, &g, &mask);
    jet_unary(s, &g, mask);
    break;
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT:
    bundle_of(s, &g, &mask);
    jet_product(s, &g, mask);
    break;
  case TN_OP_softmax:
  case TN_OP_layer_norm:
  case TN_OP_rstd: rowwise(s); break;
  case TN_OP_custom: custom(s); break;
  case TN_OP_call:
    tn_graph_fail(graph, TN_ESTATE, "reverse mode through an unresolved call of a field; call "
                  "ag_resolve first");
    break;
  default:
    if (s->node->op->class_ == TN_COMPARISON || s->node->dtype == TN_BOOL) break;
    if (s->node->op->arity > 0) elementwise(s);
    else structural(s);
  }
  return tn_graph_error(graph);
}

void ag_cotangent_add(ag_cotangent *sum, ag_cotangent g) {
  if (!ag_present(sum->value)) {
    *sum = g;
    return;
  }
  sum->value = ag_plus(sum->value, g.value);
  if (!ag_present(sum->mask) || !ag_present(g.mask)) sum->mask = (tn_value){0};
  else if (!tn_same(sum->mask, g.mask)) sum->mask = tn_either(sum->mask, g.mask);
}
