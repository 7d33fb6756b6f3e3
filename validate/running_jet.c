/* running_jet.c: running bounds of jet_unary, jet_mul and jet_mulT, element by element.
 *
 * The same steps as the engine's strip programs (tensor/jet_plan.c): terms in table order, each product as
 * (factor left [coefficient]) right, added by one FMA; a function by Horner's rule in the nilpotent part,
 *
 *   y = d_0 + n (d_1 + n (d_2 + ...)),   n = z - z_0,   d_k from running_ladder.c
 *
 * The engine merges factors where it can and so rounds no more often than is charged here.
 */
#include <string.h>

#include "validate/running.h"

static bool has(uint64_t mask, int channel) { return mask >> channel & 1; }

/* One element of all channels; absent: structurally zero. */
typedef struct jet {
  uint64_t present;
  vd_near c[TN_MAX_CHANNELS];
} jet;

typedef struct site {
  const vd_running *r;
  const tn_node *node;
  vd_rounding f;
  uint32_t n_first, n_second; /* channels present in both groups */
  size_t width;
} site;

static site site_of(const vd_running *r, const tn_node *node, size_t width) {
  site s = {.r = r, .node = node, .f = vd_rounding_of(r, node->dtype), .width = width};
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) {
    s.n_first += has(node->mask[0], c);
    s.n_second += has(node->mask[1], c);
  }
  return s;
}

/* Element e of the channels in `mask`, which are the inputs from `first` on. */
static void read_jet(const site *s, uint64_t mask, uint32_t first, size_t e, jet *out) {
  out->present = mask;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    if (has(mask, c))
      out->c[c] = vd_near_at(vd_bounded_of(s->r, s->node->inputs[first++]), e, s->width);
}

/* y = l r in the algebra, or its adjoint; channel 0 of r does not count if nilpotent. */
static void multiply(const site *s, const jet *l, const jet *r, bool adjoint, size_t e, jet *y) {
  const tn_jet_table *table = s->node->table;
  uint32_t first = s->n_first + s->n_second;
  y->present = 0;
  for (size_t k = 0; k < table->n_terms; ++k) {
    const tn_jet_term *t = table->terms + k;
    int from = adjoint ? t->a : t->c, to = adjoint ? t->c : t->a;
    if (!has(l->present, t->b) || !has(r->present, from))
      continue;
    vd_near left = vd_near_scale((double)t->numerator / (double)t->denominator, l->c[t->b], &s->f);
    if (t->coefficient >= 0) {
      tn_edge edge = s->node->inputs[first + (uint32_t)t->coefficient];
      const vd_bounded *x = vd_bounded_of(s->r, edge);
      size_t i = x->n == 1 ? 0 : e / s->width;
      left = vd_near_mul(left, (vd_near){x->value[i], 0, x->error[i]}, &s->f);
    }
    y->c[to] = has(y->present, to) ? vd_near_fma(left, r->c[from], y->c[to], &s->f)
                                   : vd_near_mul(left, r->c[from], &s->f);
    y->present |= (uint64_t)1 << to;
  }
}

static void write_jet(const site *s, const jet *y, size_t e, vd_bounded *out) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) {
    if (!has(s->node->out_mask, c))
      continue;
    if (e < out->n)
      out->error[e] = has(y->present, c) ? vd_near_error(y->c[c], &s->f, out->value[e]) : 0;
    ++out;
  }
}

/* Elements of the results: channels without points have fewer. */
static size_t elements(const tn_node *node, const vd_bounded *out) {
  size_t n = 0;
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    n = out[k].n > n ? out[k].n : n;
  return n;
}

static void bound_product(const vd_running *r, const tn_node *node, vd_bounded *out) {
  site s = site_of(r, node, out->width);
  size_t n = elements(node, out);
  for (size_t e = 0; e < n; ++e) {
    jet left, right, y;
    read_jet(&s, node->mask[0], 0, e, &left);
    read_jet(&s, node->mask[1], s.n_first, e, &right);
    multiply(&s, &left, &right, node->op->id == TN_OP_jet_mulT, e, &y);
    write_jet(&s, &y, e, out);
  }
}

/* d: the ladder of all elements, d[k * n + e]. */
static void bound_horner(const site *s, size_t n, int order, const vd_near *d, vd_bounded *out) {
  for (size_t e = 0; e < n; ++e) {
    jet z, y = {.present = 1, .c = {d[(size_t)order * n + e]}};
    read_jet(s, s->node->mask[0], 0, e, &z);
    z.present &= ~(uint64_t)1;
    for (int k = order - 1; k >= 0; --k) {
      jet next;
      multiply(s, &y, &z, false, e, &next);
      next.present |= 1;
      next.c[0] = d[(size_t)k * n + e];
      y = next;
    }
    write_jet(s, &y, e, out);
  }
}

static tn_status bound_function(const vd_running *r, const tn_node *node, vd_bounded *out) {
  site s = site_of(r, node, out->width);
  size_t n = elements(node, out);
  bool flat = (node->mask[0] & ~(uint64_t)1) == 0;
  vd_ladder_spec spec = {.op = (tn_op_id)node->integer[0],
                         .exponent = node->number,
                         .m = (int)node->integer[1],
                         .order = flat ? 0 : (int)node->table->order};
  vd_near *z = NULL, *d = NULL;
  TN_TRY(TN_NEW(n, &z));
  tn_status status = TN_NEW(n * ((size_t)spec.order + 1), &d);
  const vd_bounded *z0 = vd_bounded_of(r, node->inputs[0]);
  for (size_t e = 0; status == TN_OK && e < n; ++e)
    z[e] = vd_near_at(z0, e, s.width);
  if (status == TN_OK)
    status = vd_near_ladder(&spec, n, z, d, &s.f);
  if (status == TN_OK)
    bound_horner(&s, n, spec.order, d, out);
  tn_free(&z);
  tn_free(&d);
  return status;
}

tn_status vd_bound_jet(vd_running *r, const tn_node *node, vd_bounded *out) {
  if (node->op->id == TN_OP_jet_unary)
    return bound_function(r, node, out);
  bound_product(r, node, out);
  return TN_OK;
}
