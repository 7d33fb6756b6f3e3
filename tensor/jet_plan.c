/* jet_plan.c: jet_unary, jet_mul and jet_mulT as strip programs.
 *
 * y = f^(m)(z) in an algebra: with n = z - z_0 (nilpotent) and d_k = f^(m+k)(z_0)/k!,
 *     y = d_0 + n (d_1 + n (d_2 + ...)),     products by the structure table, terms in table order,
 * every product of a term as (factor * left [* coefficient]) * right, added by one FMA. Instructions whose
 * result nobody reads are dropped, and temporaries share registers.
 */
#include "tensor/emit.h"

#include <string.h>

typedef struct planner {
  tn_emitter e;
  const tn_node *node;
  const tn_jet_table *table;
  tn_lazy left[TN_MAX_CHANNELS], right[TN_MAX_CHANNELS]; /* input channels, zero if absent */
  int n_inputs, n_coefficients;
} planner;

static tn_lazy term_product(planner *p, const tn_jet_term *t, tn_lazy l, tn_lazy r, tn_lazy sum) {
  if (tn_lazy_is_zero(l) || tn_lazy_is_zero(r)) return sum;
  l = tn_emit_scale((double)t->numerator / (double)t->denominator, l);
  if (t->coefficient >= 0) l = tn_emit_mul(&p->e, l, (tn_lazy){1, p->n_inputs + t->coefficient});
  return tn_emit_fma(&p->e, l, r, sum);
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
  TN_TRY(tn_ladder(&p->e, (tn_op_id)p->node->integer[0], p->node->number, (int)p->node->integer[1],
                   order, 0, d));
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
  return p->e.status;
}

/* Renumbers registers: outputs behind the inputs, then temporaries, reused after their last reader. */
static tn_status allocate(planner *p, size_t n_outputs, const int *output, tn_jet_plan *plan) {
  tn_emitter *e = &p->e;
  size_t total = (size_t)e->n_given + e->count;
  int *last = NULL, *place = NULL, *spare = NULL;
  size_t n_spare = 0, n_temporaries = 0, kept = 0;
  TN_TRY(TN_NEW(total + 1, &last));
  tn_status status = TN_NEW(total + 1, &place);
  if (status == TN_OK) status = TN_NEW(total + 1, &spare);
  if (status != TN_OK) goto done;
  for (size_t i = 0; i < total; ++i) last[i] = -1, place[i] = -1;
  for (int i = 0; i < e->n_given; ++i) place[i] = i;
  for (size_t i = 0; i < n_outputs; ++i) {
    last[output[i]] = INT32_MAX;
    place[output[i]] = e->n_given + (int)i;
  }
  for (size_t i = e->count; i-- > 0;) { /* who reads what last */
    const tn_strip_instruction *x = &e->code[i];
    if (last[x->y] < 0) continue;
    int reads[3] = {-1, -1, -1};
    bool two = x->code == TN_STRIP_MUL || x->code == TN_STRIP_ADD || x->code == TN_STRIP_SUB ||
               x->code == TN_STRIP_DIV || x->code == TN_STRIP_FMA;
    if (x->code != TN_STRIP_FILL) reads[0] = x->a;
    if (two) reads[1] = x->b;
    if (x->code == TN_STRIP_FMA || x->code == TN_STRIP_FMAK) reads[2] = x->c;
    for (int j = 0; j < 3; ++j)
      if (reads[j] >= 0 && last[reads[j]] < 0) last[reads[j]] = (int)i;
  }
  for (size_t i = 0; i < e->count; ++i) {
    tn_strip_instruction x = e->code[i];
    int y = x.y;
    if (last[y] < 0) continue;
    int reads[3] = {x.a, x.b, x.c};
    for (int j = 0; j < 3; ++j) { /* free temporaries read here for the last time */
      int r = reads[j];
      bool given = r < e->n_given, again = (j > 0 && r == reads[0]) || (j > 1 && r == reads[1]);
      if (!given && !again && last[r] == (int)i && place[r] >= e->n_given + (int)n_outputs)
        spare[n_spare++] = place[r];
    }
    if (place[y] < 0)
      place[y] = n_spare ? spare[--n_spare] : e->n_given + (int)(n_outputs + n_temporaries++);
    x.y = (int16_t)place[y];
    x.a = (int16_t)place[x.a];
    x.b = (int16_t)(place[x.b] < 0 ? 0 : place[x.b]);
    x.c = (int16_t)(place[x.c] < 0 ? 0 : place[x.c]);
    if (x.a < 0) x.a = 0;
    e->code[kept++] = x;
  }
  plan->count = kept;
  plan->n_temporaries = n_temporaries;
done:
  tn_free(&last);
  tn_free(&place);
  tn_free(&spare);
  return status;
}

tn_status tn_jet_plan_new(const tn_node *node, tn_jet_plan *plan) {
  planner *p = NULL;
  TN_TRY(TN_NEW(1, &p));
  memset(plan, 0, sizeof *plan);
  p->node = node;
  p->table = node->table;
  int reg = 0;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) {
    p->left[c] = node->mask[0] >> c & 1 ? (tn_lazy){1, reg++} : TN_ZERO;
  }
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    p->right[c] = node->mask[1] >> c & 1 ? (tn_lazy){1, reg++} : TN_ZERO;
  p->n_inputs = reg;
  p->n_coefficients = (int)node->table->n_coefficients;
  p->e.n_given = p->n_inputs + p->n_coefficients;
  tn_lazy out[TN_MAX_CHANNELS];
  tn_status status = TN_OK;
  if (node->op->id == TN_OP_jet_unary) status = jet_function(p, out);
  else jet_product(p, p->left, p->right, node->op->id == TN_OP_jet_mulT, out);
  int output[TN_MAX_CHANNELS];
  size_t n = 0;
  for (int c = 0; c < TN_MAX_CHANNELS && status == TN_OK; ++c) {
    if (!(node->out_mask >> c & 1)) continue;
    int r = tn_emit_register(&p->e, out[c]);
    bool taken = r < p->e.n_given;
    for (size_t i = 0; i < n; ++i) taken = taken || output[i] == r;
    if (taken) r = tn_emit_copy(&p->e, r); /* an output needs a register of its own */
    output[n++] = r;
    status = p->e.status;
  }
  if (status == TN_OK) {
    plan->n_inputs = (size_t)p->n_inputs;
    plan->n_coefficients = (size_t)p->n_coefficients;
    plan->n_outputs = n;
    status = allocate(p, n, output, plan);
  }
  plan->code = p->e.code;
  tn_free(&p);
  if (status != TN_OK) tn_jet_plan_free(plan);
  return status;
}

void tn_jet_plan_free(tn_jet_plan *plan) { tn_free(&plan->code); }
