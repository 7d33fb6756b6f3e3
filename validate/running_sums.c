/* running_sums.c: running bounds of products of matrices and of sums.
 *
 * The roundings of a chain s_1, s_2, ... of additions cost u |s_i| each, and the partial sums are there
 * to be had: they are formed again in f64, in the engine's order. That is sharper than n u sum |terms|
 * by a factor near sqrt(n) where terms have both signs. Orders (docs/design/000-overview.md):
 *
 *   jet_lin     one chain over k from the bias
 *   jet_outer   by lanes: each lane of a group of eight panels a chain over panels and pairs, lanes folded by
 *               halving, groups in order; by points (k >= 16, n whole panels): one chain. Slots meet in a
 *               binary tree by index; pairs without points follow
 *   sum         over points by lanes, over a fixed axis one chain
 */
#include <string.h>

#include "validate/running.h"

enum { LANE_BYTES = 64, GROUP_PANELS = 8 };

/* A sum under way: the partial sum in f64, and what roundings (r) and operands' errors (t) make of it. v
 * serves for its size alone, so what f64 loses in it does not count. */
typedef vd_near total;

static void add_term(total *s, double value, double error, const vd_rounding *f) {
  s->v += value;
  s->t = vd_join(f, s->t, error);
  s->r = vd_join(f, s->r, f->u * (fabs(s->v) + s->r) + f->tiny);
}

static void add_product(total *s, const vd_bounded *a, size_t i, const vd_bounded *b, size_t j,
                        const vd_rounding *f) {
  double p = a->value[i], q = b->value[j], dp = a->error[i], dq = b->error[j];
  add_term(s, p * q, vd_join(f, fabs(p) * dq, fabs(q) * dp) + dp * dq, f);
}

/* One total added to another: one rounding. */
static void add_total(total *s, const total *x, const vd_rounding *f) {
  s->r = vd_join(f, s->r, x->r);
  add_term(s, x->v, x->t, f);
}

/* ---- jet_lin -------------------------------------------------------------------------------- */

tn_status vd_bound_lin(vd_running *r, const tn_node *node, vd_bounded *out) {
  vd_rounding f = vd_rounding_of(r, node->dtype);
  uint32_t channels = node->n_outputs;
  const vd_bounded *w = vd_bounded_of(r, node->inputs[channels]);
  const vd_bounded *bias = node->integer[1] ? vd_bounded_of(r, node->inputs[channels + 1]) : NULL;
  bool transposed = node->integer[0] != 0;
  const tn_shape *ws = vd_input_shape(r->program, node, channels);
  size_t k = ws->extent[transposed ? 1 : 0], n = ws->extent[transposed ? 0 : 1];
  for (uint32_t c = 0; c < channels; ++c) {
    const vd_bounded *h = vd_bounded_of(r, node->inputs[c]);
    vd_bounded *y = out + c;
    for (size_t e = 0; e < y->n; ++e) {
      size_t row = e / n, j = e % n;
      total s = {0};
      if (c == 0 && bias)
        s = (total){bias->value[j], 0, bias->error[j]};
      for (size_t i = 0; i < k; ++i)
        add_product(&s, h, row * k + i, w, transposed ? j * k + i : i * n + j, &f);
      y->error[e] = vd_near_error(s, &f, y->value[e]);
    }
  }
  return TN_OK;
}

/* ---- Sums over points ------------------------------------------------------------------------- */

/* The terms of one result: pairs of columns, or one column alone (b NULL). */
typedef struct column {
  const vd_bounded *a, *b;
  size_t a_width, a_at, b_width,
      b_at; /* element a_at of each point's a_width; width 0: no points */
} column;

typedef struct reduction {
  const vd_rounding *f;
  size_t points, lanes, slots, groups;
  bool by_points;
  uint32_t n_columns;
  const column *columns;
} reduction;

static void add_point(const reduction *q, total *s, size_t point) {
  for (uint32_t c = 0; c < q->n_columns; ++c) {
    const column *x = q->columns + c;
    size_t i = point * x->a_width + x->a_at;
    if (x->b)
      add_product(s, x->a, i, x->b, point * x->b_width + x->b_at, q->f);
    else
      add_term(s, x->a->value[i], x->a->error[i], q->f);
  }
}

/* A group's points onto the slot's sum. */
static void add_group(const reduction *q, size_t group, total *slot) {
  size_t first = group * GROUP_PANELS * q->lanes, last = first + GROUP_PANELS * q->lanes;
  total lane[LANE_BYTES / 4] = {{0}};
  if (last > q->points)
    last = q->points;
  for (size_t p = first; p < last; ++p)
    add_point(q, q->by_points ? slot : lane + p % q->lanes, p);
  if (q->by_points)
    return;
  for (size_t half = q->lanes / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l)
      add_total(lane + l, lane + l + half, q->f);
  add_total(slot, lane, q->f);
}

static total reduce(const reduction *q) {
  total slot[64] = {{0}};
  for (size_t s = 0; s < q->slots; ++s)
    for (size_t g = s * q->groups / q->slots; g < (s + 1) * q->groups / q->slots; ++g)
      add_group(q, g, slot + s);
  for (size_t stride = 1; stride < q->slots; stride *= 2)
    for (size_t s = 0; s + stride < q->slots; s += 2 * stride)
      add_total(slot + s, slot + s + stride, q->f);
  return slot[0];
}

static reduction reduction_of(const vd_running *r, const vd_rounding *f, size_t points) {
  reduction q = {.f = f, .points = points};
  q.lanes = LANE_BYTES / tn_dtype_size(tn_dtype_compute(f->dtype));
  size_t panels = (points + q.lanes - 1) / q.lanes;
  q.groups = (panels + GROUP_PANELS - 1) / GROUP_PANELS;
  q.slots = tn_slot_count(points, q.lanes, r->n_trainable);
  if (q.slots > 64)
    q.slots = 64;
  return q;
}

tn_status vd_bound_outer(vd_running *r, const tn_node *node, vd_bounded *out) {
  vd_rounding f = vd_rounding_of(r, node->dtype);
  uint32_t pairs = (uint32_t)node->integer[0], n_with = 0;
  size_t k = node->shapes[0].extent[0], n = node->shapes[0].extent[1], points = 0;
  column with[TN_MAX_CHANNELS], without[TN_MAX_CHANNELS];
  uint32_t n_without = 0;
  size_t rows[TN_MAX_CHANNELS];
  for (uint32_t p = 0; p < pairs && p < TN_MAX_CHANNELS; ++p) {
    const vd_bounded *z = vd_bounded_of(r, node->inputs[p]);
    const vd_bounded *h = vd_bounded_of(r, node->inputs[pairs + p]);
    column c = {.a = h, .a_width = h->batched ? k : 0, .b = z, .b_width = z->batched ? n : 0};
    if (h->batched || z->batched) {
      points = h->batched ? h->n / k : z->n / n;
      with[n_with++] = c;
    } else {
      rows[n_without] = z->n / n;
      without[n_without++] = c;
    }
  }
  reduction q = reduction_of(r, &f, points);
  q.by_points = k >= 16 && n >= q.lanes && n % q.lanes == 0;
  q.n_columns = n_with;
  q.columns = with;
  for (size_t e = 0; e < out->n; ++e) {
    for (uint32_t c = 0; c < n_with; ++c)
      with[c].a_at = e / n, with[c].b_at = e % n;
    total s = n_with > 0 ? reduce(&q) : (total){0};
    for (uint32_t c = 0; c < n_without; ++c)
      for (size_t m = 0; m < rows[c]; ++m)
        add_product(&s, without[c].a, m * k + e / n, without[c].b, m * n + e % n, &f);
    out->error[e] = vd_near_error(s, &f, out->value[e]);
  }
  return TN_OK;
}

tn_status vd_bound_sum(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *x = vd_bounded_of(r, node->inputs[0]);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  vd_view v = vd_view_of(vd_input_shape(r->program, node, 0), r->extent, (size_t)node->integer[0]);
  bool over_points = x->batched && node->integer[0] == 0;
  reduction q = reduction_of(r, &f, v.n);
  for (size_t i = 0; i < out->n; ++i) {
    total s = {0};
    if (over_points) {
      column c = {.a = x, .a_width = v.inner, .a_at = i};
      q.n_columns = 1;
      q.columns = &c;
      s = reduce(&q);
    }
    for (size_t k = 0; !over_points && k < v.n; ++k) {
      size_t j = (i / v.inner * v.n + k) * v.inner + i % v.inner;
      add_term(&s, x->value[j], x->error[j], &f);
    }
    out->error[i] = vd_near_error(s, &f, out->value[i]);
  }
  return TN_OK;
}
