/* split.c: matrix products of f32 made of three products of a low format.
 *
 *   x = hi(x) + u lo(x),   hi(x) = low(x),   lo(x) = low((x - hi(x)) / u),   u the roundoff of `low`
 *   h W  ->  hi(h) hi(W) + u (lo(h) hi(W) + hi(h) lo(W))
 *
 * x - hi(x) is exact, and 1/u, a power of two, lifts it to the size of x, so that it does not end among the
 * subnormals of f16. What is left out, u^2 lo(h) lo(W), and the rounding of both lo are at most u^2 of the product each,
 * 3 u^2 together: products have 20 to 22 bits in f16 and tf32 and 14 to 16 in bf16, and every number multiplied is of
 * the low format. In f16 that is so from |x| = 2^-14 to 65504; smaller x are kept to 2^-36. The sums are f32. The
 * technique is that of Markidis et al. 2018 and of Ootomo and Yokota 2022.
 *
 * Why: rounding operands makes a loss rough, by some 1e-3 of its value in f16. A method that averages over steps does
 * not mind. A line search compares losses, and a quasi-Newton method differences of gradients, between points nearer
 * than that; both come to a stand. Three products instead of one make the loss nearly as smooth as in f32 (bf16: 5e-5).
 *
 * As ag_cast, the pass runs after ag_resolve and ag_grad; products with a width below `narrowest` stay in f32.
 */
#include "autograd/rewrite.h"

enum { MOST = 2 * TN_MAX_CHANNELS + 2 }; /* operands and bias of a product */

typedef struct splitter {
  tn_graph *graph;
  tn_dtype low;
  size_t narrowest;
} splitter;

static tn_value rounded(const splitter *s, tn_value x) {
  return tn_cast(tn_cast(x, s->low), TN_F32);
}

static void split(const splitter *s, tn_value x, tn_value *hi, tn_value *lo) {
  tn_value lift = tn_const(s->graph, TN_F32, 1 / tn_dtype_roundoff(s->low));
  tn_at_like(x);
  *hi = rounded(s, x);
  *lo = rounded(s, tn_mul(lift, tn_sub(x, *hi)));
}

/* The product with the first half of its operands from `a` and the second from `b`; bias: absent is 0. */
static tn_status product(const splitter *s, uint32_t i, const tn_node *node, const tn_value *a, const tn_value *b,
                         const tn_value *bias, tn_value *ports) {
  uint32_t n = ag_operands(node), half = node->op->id == TN_OP_jet_lin ? n - 1 : n / 2;
  tn_value in[MOST];
  for (uint32_t k = 0; k < n; ++k) in[k] = k < half ? a[k] : b[k];
  for (uint32_t k = n; k < node->n_inputs; ++k)
    in[k] = bias ? bias[k - n] : tn_fill(s->graph, TN_F32, tn_shape_of(ag_input_of(s->graph, node, k)), 0);
  return tn_rebuild(s->graph, i, in, ports);
}

static tn_status three(const splitter *s, uint32_t i, const tn_node *node, const tn_value *in, tn_value *ports) {
  tn_value hi[MOST], lo[MOST], first[TN_MAX_CHANNELS], second[TN_MAX_CHANNELS];
  tn_value u = tn_const(s->graph, TN_F32, tn_dtype_roundoff(s->low));
  uint32_t n = ag_operands(node);
  if (node->n_inputs > MOST)
    return TN_FAIL(TN_EUNSUPPORTED, "split: a product of %u operands, at most %d", node->n_inputs, MOST);
  for (uint32_t k = 0; k < n; ++k) split(s, in[k], &hi[k], &lo[k]);
  tn_at_like(tn_value_at(s->graph, i, 0));
  TN_TRY(tn_graph_error(s->graph));
  TN_TRY(product(s, i, node, hi, hi, in + n, ports));
  TN_TRY(product(s, i, node, lo, hi, NULL, first));
  TN_TRY(product(s, i, node, hi, lo, NULL, second));
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    ports[k] = tn_add(ports[k], tn_mul(u, tn_add(first[k], second[k])));
  return tn_graph_error(s->graph);
}

static tn_status rule(void *context, uint32_t i, const tn_node *node, tn_value *in, tn_value *ports) {
  const splitter *s = context;
  if (node->op->class_ == TN_ATOM)
    return TN_FAIL(TN_ESTATE, "split: a call of a field is not resolved; call ag_resolve first");
  return ag_is_wide(s->graph, node, s->narrowest) ? three(s, i, node, in, ports)
                                                  : ag_on_inputs(s->graph, i, node, in, ports);
}

tn_status ag_split(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values, tn_value *out) {
  splitter s = {graph, policy->low, policy->narrowest};
  if (!tn_dtype_is_float(s.low) || tn_dtype_compute(s.low) == s.low || policy->pure)
    return TN_FAIL(TN_EDTYPE, "split: products of %s%s, expected tf32, bf16 or f16 and not pure",
                   tn_dtype_name(s.low), policy->pure ? ", pure" : "");
  return ag_rewrite(graph, "split", rule, &s, n, values, out);
}
