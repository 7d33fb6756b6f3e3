/* jet_plan.c: jet_unary, jet_mul and jet_mulT as strip programs.
 *
 * y = f^(m)(z) in an algebra: with n = z - z_0 (nilpotent) and d_k = f^(m+k)(z_0)/k!,
 *     y = d_0 + n (d_1 + n (d_2 + ...)),     products by the structure table, terms in table order,
 * every product of a term as (factor * left [* coefficient]) * right, added by one FMA. In a low format all that is
 * f32, and each channel of the result rounds once. What strip.c makes of the instructions keeps their bits.
 */
#include "tensor/emit.h"

#include <string.h>

typedef struct planner {
  tn_emitter *e;
  const tn_node *node;
  const tn_jet_table *table;
  tn_lazy left[TN_MAX_CHANNELS], right[TN_MAX_CHANNELS]; /* input channels, zero if absent */
  const int *coefficient;                                /* registers */
} planner;

static tn_lazy term_product(planner *p, const tn_jet_term *t, tn_lazy l, tn_lazy r, tn_lazy sum) {
  if (tn_lazy_is_zero(l) || tn_lazy_is_zero(r)) return sum;
  l = tn_emit_scale((double)t->numerator / (double)t->denominator, l);
  if (t->coefficient >= 0) l = tn_emit_mul(p->e, l, (tn_lazy){1, p->coefficient[t->coefficient]});
  return tn_emit_fma(p->e, l, r, sum);
}

static void jet_product(planner *p, const tn_lazy *l, const tn_lazy *r, bool adjoint, tn_lazy *out) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) out[c] = TN_ZERO;
  for (size_t i = 0; i < p->table->n_terms; ++i) {
    const tn_jet_term *t = &p->table->terms[i];
    int from = adjoint ? t->a : t->c, to = adjoint ? t->c : t->a;
    out[to] = term_product(p, t, l[t->b], r[from], out[to]);
  }
}

static tn_status jet_function(planner *p, tn_lazy *out) {
  tn_lazy d[TN_MAX_CHANNELS], n[TN_MAX_CHANNELS];
  int order = (int)p->table->order;
  if (!(p->node->mask[0] & ~(uint64_t)1)) order = 0;
  TN_TRY(tn_ladder(p->e, (tn_op_id)p->node->integer[0], p->node->number, (int)p->node->integer[1],
                   order, p->left[0].reg, d));
  memcpy(n, p->left, sizeof n);
  n[0] = TN_ZERO;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) out[c] = TN_ZERO;
  out[0] = d[order];
  for (int k = order - 1; k >= 0; --k) {
    tn_lazy next[TN_MAX_CHANNELS];
    jet_product(p, out, n, false, next);
    memcpy(out, next, sizeof next);
    out[0] = d[k];
  }
  return p->e->status;
}

tn_status tn_jet_emit(tn_emitter *e, const tn_node *node, const int *in, int *out) {
  planner *p = NULL;
  TN_TRY(TN_NEW(1, &p));
  p->e = e;
  p->node = node;
  p->table = node->table;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    p->left[c] = node->mask[0] >> c & 1 ? (tn_lazy){1, *in++} : TN_ZERO;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    p->right[c] = node->mask[1] >> c & 1 ? (tn_lazy){1, *in++} : TN_ZERO;
  p->coefficient = in;
  tn_lazy channel[TN_MAX_CHANNELS];
  tn_status status = TN_OK;
  if (node->op->id == TN_OP_jet_unary) status = jet_function(p, channel);
  else jet_product(p, p->left, p->right, node->op->id == TN_OP_jet_mulT, channel);
  for (int c = 0; c < TN_MAX_CHANNELS && status == TN_OK; ++c) {
    if (!(node->out_mask >> c & 1)) continue;
    *out++ = tn_emit_round(e, node->dtype, tn_emit_register(e, channel[c]));
    status = e->status;
  }
  tn_free(&p);
  return status;
}

tn_status tn_jet_plan_new(const tn_node *node, tn_jet_plan *plan) {
  int in[3 * TN_MAX_CHANNELS], output[TN_MAX_CHANNELS];
  memset(plan, 0, sizeof *plan);
  plan->n_coefficients = node->table->n_coefficients;
  plan->n_inputs = node->n_inputs - plan->n_coefficients;
  plan->n_outputs = node->n_outputs;
  tn_emitter e = {.n_given = (int)node->n_inputs};
  if (node->n_inputs > 3 * TN_MAX_CHANNELS)
    return TN_FAIL(TN_EUNSUPPORTED, "%s: %u inputs, expected at most %d", node->op->name,
                   node->n_inputs, 3 * TN_MAX_CHANNELS);
  for (int i = 0; i < e.n_given; ++i) in[i] = i;
  tn_status status = tn_jet_emit(&e, node, in, output);
  for (size_t n = 0; n < plan->n_outputs && status == TN_OK; ++n) {
    bool taken = output[n] < e.n_given;
    for (size_t i = 0; i < n; ++i) taken = taken || output[i] == output[n];
    if (taken) output[n] = tn_emit_copy(&e, output[n]); /* an output needs a register of its own */
    status = e.status;
  }
  if (status == TN_OK) status = tn_emit_finish(&e, plan->n_outputs, output, &plan->n_temporaries);
  plan->count = e.count;
  plan->code = e.code;
  tn_free(&e.table);
  if (status != TN_OK) tn_jet_plan_free(plan);
  return status;
}

void tn_jet_plan_free(tn_jet_plan *plan) { tn_free(&plan->code); }
