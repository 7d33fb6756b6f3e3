/* replay_jet.c: the five jet operations in MPFR, by their meaning.
 *
 *   jet_lin     y_a = h_a W (+ bias on the value)
 *   jet_outer   sum over points and pairs of the outer products h_i z_i
 *   jet_mul     y_a = sum over terms (a, b, c) of  factor coefficient f_b g_c
 *   jet_mulT    z_c = sum over terms of            factor coefficient w_b ybar_a
 *   jet_unary   y = sum over m = 0..K of f^(d+m)(z_0) / m!  n^m,   n = z - z_0,   n^(K+1) = 0
 *
 * The ladder f^(d+m)/m! comes from the Taylor series of the row (series.c), so from the table's
 * rules, and not from any recurrence of the engine; powers of n are plain products in the algebra,
 * without Horner. Factors are exact rationals: multiplied by the numerator, divided by the
 * denominator.
 *
 * Scales: all sums with absolute values; a ladder entry adds |f^(d+m+1)| / m! S_z0 if z_0 is not
 * exact.
 */
#include <math.h>
#include <string.h>

#include "validate/replay.h"

static bool has(uint64_t mask, int channel) { return mask >> channel & 1; }

/* Ports by channel: those of `mask`, in order, from input `first` on; others NULL. Returns their
 * number. */
static uint32_t channels_of(const vd_replay *r, const tn_node *node, uint64_t mask, uint32_t first,
                            const vd_port **list) {
  uint32_t n = 0;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    list[c] = has(mask, c) ? vd_port_of(r, node->inputs[first + n++]) : NULL;
  return n;
}

static void outputs_of(const tn_node *node, vd_port *out, vd_port **list) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    list[c] = has(node->out_mask, c) ? out++ : NULL;
}

/* ---- Matrices ------------------------------------------------------------------------------- */

/* y += a b with scales; t is scratch. */
static void add_product(mpfr_ptr y, double *scale, const vd_port *a, size_t i, const vd_port *b,
                        size_t j, mpfr_ptr t) {
  mpfr_mul(t, a->value.v + i, b->value.v + j, MPFR_RNDN);
  mpfr_add(y, y, t, MPFR_RNDN);
  *scale += a->scale[i] * b->scale[j];
}

static void run_lin(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *h[TN_MAX_CHANNELS];
  vd_port *y[TN_MAX_CHANNELS];
  uint32_t n_h = channels_of(r, node, node->mask[0], 0, h);
  outputs_of(node, out, y);
  const vd_port *w = vd_port_of(r, node->inputs[n_h]);
  const vd_port *bias = node->integer[1] ? vd_port_of(r, node->inputs[n_h + 1]) : NULL;
  bool transposed = node->integer[0] != 0;
  tn_edge we = node->inputs[n_h];
  const tn_shape *ws = &tn_program_node(r->program, we.node)->shapes[we.port];
  size_t k = ws->extent[transposed ? 1 : 0], n = ws->extent[transposed ? 0 : 1];
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) {
    if (!y[c] || !h[c])
      continue;
    for (size_t e = 0; e < y[c]->value.n; ++e) {
      size_t row = e / n, j = e % n;
      mpfr_ptr v = y[c]->value.v + e;
      if (c == 0 && bias) {
        mpfr_set(v, bias->value.v + j, MPFR_RNDN);
        y[c]->scale[e] = bias->scale[j];
      }
      for (size_t i = 0; i < k; ++i)
        add_product(v, y[c]->scale + e, h[c], row * k + i, w, transposed ? j * k + i : i * n + j,
                    r->scratch.v);
    }
  }
}

/* A pair without points counts once, however many points the others have. */
static void run_outer(vd_replay *r, const tn_node *node, vd_port *out) {
  uint32_t pairs = (uint32_t)node->integer[0];
  size_t k = node->shapes[0].extent[0], n = node->shapes[0].extent[1];
  for (uint32_t p = 0; p < pairs; ++p) {
    const vd_port *z = vd_port_of(r, node->inputs[p]), *h = vd_port_of(r, node->inputs[pairs + p]);
    size_t z_rows = z->value.n / n, h_rows = h->value.n / k,
           rows = z_rows > h_rows ? z_rows : h_rows;
    for (size_t row = 0; row < rows; ++row)
      for (size_t e = 0; e < k * n; ++e)
        add_product(out->value.v + e, out->scale + e, h, (row * k + e / n) % h->value.n, z,
                    (row * n + e % n) % z->value.n, r->scratch.v);
  }
}

/* ---- Products in the algebra ---------------------------------------------------------------- */

/* t = factor coefficient, returned with its scale. */
static double weight_of(const vd_replay *r, const tn_node *node, const tn_jet_term *term,
                        uint32_t first_coefficient, size_t point, mpfr_ptr t) {
  mpfr_set_sj(t, term->numerator, MPFR_RNDN);
  mpfr_ptr d = r->scratch.v + 1;
  mpfr_set_sj(d, term->denominator, MPFR_RNDN);
  mpfr_div(t, t, d, MPFR_RNDN);
  double scale = fabs((double)term->numerator / (double)term->denominator);
  if (term->coefficient < 0)
    return scale;
  const vd_port *c = vd_port_of(r, node->inputs[first_coefficient + (uint32_t)term->coefficient]);
  size_t i = c->value.n == 1 ? 0 : point;
  mpfr_mul(t, t, c->value.v + i, MPFR_RNDN);
  return scale * c->scale[i];
}

static void run_product(vd_replay *r, const tn_node *node, vd_port *out, bool adjoint) {
  const vd_port *f[TN_MAX_CHANNELS], *g[TN_MAX_CHANNELS];
  vd_port *y[TN_MAX_CHANNELS];
  uint32_t n = channels_of(r, node, node->mask[0], 0, f);
  n += channels_of(r, node, node->mask[1], n, g);
  outputs_of(node, out, y);
  mpfr_ptr t = r->scratch.v;
  for (size_t k = 0; k < node->table->n_terms; ++k) {
    const tn_jet_term *term = node->table->terms + k;
    const vd_port *left = f[term->b], *right = g[adjoint ? term->a : term->c];
    vd_port *to = y[adjoint ? term->c : term->a];
    if (!left || !right || !to)
      continue;
    for (size_t e = 0; e < to->value.n; ++e) {
      size_t i = vd_element(left, e, to->width), j = vd_element(right, e, to->width);
      double scale = weight_of(r, node, term, n, e / to->width, t);
      mpfr_mul(t, t, left->value.v + i, MPFR_RNDN);
      mpfr_mul(t, t, right->value.v + j, MPFR_RNDN);
      mpfr_add(to->value.v + e, to->value.v + e, t, MPFR_RNDN);
      to->scale[e] += scale * left->scale[i] * right->scale[j];
    }
  }
}

/* ---- Functions of jets ---------------------------------------------------------------------- */

/* Per element: n, its powers, and the sum, one number a channel. */
typedef struct jet_work {
  vd_array number; /* N, POWER, NEXT, SUM, each `channels` long, then the ladder */
  double *scale;   /* the same */
  uint32_t channels;
  uint64_t n,
      power; /* channels of N and POWER that are not structurally zero: only they are terms */
} jet_work;
enum { N, POWER, NEXT, SUM, BLOCKS };

static size_t slot(const jet_work *w, int block, uint32_t c) {
  return (size_t)block * w->channels + c;
}

/* NEXT = POWER N in the algebra, then POWER = NEXT. */
static void times_n(vd_replay *r, const tn_node *node, jet_work *w, uint32_t first_coefficient,
                    size_t point) {
  mpfr_ptr v = w->number.v, t = r->scratch.v;
  uint64_t next = 0;
  for (uint32_t c = 0; c < w->channels; ++c) {
    mpfr_set_zero(v + slot(w, NEXT, c), 1);
    w->scale[slot(w, NEXT, c)] = 0;
  }
  for (size_t k = 0; k < node->table->n_terms; ++k) {
    const tn_jet_term *term = node->table->terms + k;
    size_t p = slot(w, POWER, (uint32_t)term->b), q = slot(w, N, (uint32_t)term->c);
    size_t to = slot(w, NEXT, (uint32_t)term->a);
    if (!has(w->power, term->b) || !has(w->n, term->c))
      continue;
    next |= (uint64_t)1 << term->a;
    double scale = weight_of(r, node, term, first_coefficient, point, t);
    mpfr_mul(t, t, v + p, MPFR_RNDN);
    mpfr_mul(t, t, v + q, MPFR_RNDN);
    mpfr_add(v + to, v + to, t, MPFR_RNDN);
    w->scale[to] += scale * w->scale[p] * w->scale[q];
  }
  for (uint32_t c = 0; c < w->channels; ++c) {
    mpfr_set(v + slot(w, POWER, c), v + slot(w, NEXT, c), MPFR_RNDN);
    w->scale[slot(w, POWER, c)] = w->scale[slot(w, NEXT, c)];
  }
  w->power = next;
}

/* The ladder entry f^(d+m)(z0) / m! = c_(d+m) (d+m)! / m! into the work, with its scale. */
static void ladder_entry(const vd_series *s, int d, int m, bool exact, double z_scale, mpfr_ptr to,
                         double *scale) {
  double factor = 1; /* (d+m)! / m!: whole; exact in MPFR by the loop below */
  mpfr_set(to, vd_series_coefficient(s, d + m), MPFR_RNDN);
  for (int i = m + 1; i <= m + d; ++i) {
    mpfr_mul_si(to, to, i, MPFR_RNDN);
    factor *= i;
  }
  *scale = factor * vd_series_scale(s, d + m);
  if (exact)
    return;
  double next = fabs(mpfr_get_d(vd_series_coefficient(s, d + m + 1), MPFR_RNDN));
  double moved = next * factor * (d + m + 1) * z_scale;
  if (isfinite(moved))
    *scale += moved;
}

/* One element of all result channels: sum of ladder entries times powers of n. */
static void function_of_element(vd_replay *r, const tn_node *node, const vd_port **z, vd_port **y,
                                const vd_series *s, jet_work *w, uint32_t first_coefficient,
                                size_t e, size_t width) {
  mpfr_ptr v = w->number.v, t = r->scratch.v, entry = v + slot(w, BLOCKS, 0);
  uint32_t order = node->table->order;
  w->n = node->mask[0] & ~(uint64_t)1;
  w->power = 1;
  for (uint32_t c = 0; c < w->channels; ++c) {
    size_t n = slot(w, N, c), p = slot(w, POWER, c), sum = slot(w, SUM, c);
    size_t i = z[c] ? vd_element(z[c], e, width) : 0;
    bool present = c > 0 && z[c];
    if (present)
      mpfr_set(v + n, z[c]->value.v + i, MPFR_RNDN);
    else
      mpfr_set_zero(v + n, 1);
    w->scale[n] = present ? z[c]->scale[i] : 0;
    mpfr_set_ui(v + p, c == 0, MPFR_RNDN); /* n^0 = 1 */
    w->scale[p] = c == 0;
    mpfr_set_zero(v + sum, 1);
    w->scale[sum] = 0;
  }
  for (uint32_t m = 0; m <= order; ++m) {
    double scale = 0;
    if (m > 0)
      times_n(r, node, w, first_coefficient, e / width);
    ladder_entry(s, (int)node->integer[1], (int)m, z[0]->exact,
                 z[0]->scale[vd_element(z[0], e, width)], entry, &scale);
    for (uint32_t c = 0; c < w->channels; ++c) {
      size_t p = slot(w, POWER, c), sum = slot(w, SUM, c);
      if (!has(w->power, (int)c))
        continue;
      mpfr_mul(t, v + p, entry, MPFR_RNDN);
      mpfr_add(v + sum, v + sum, t, MPFR_RNDN);
      w->scale[sum] += scale * w->scale[p];
    }
  }
  for (uint32_t c = 0; c < w->channels; ++c) {
    if (!y[c])
      continue;
    mpfr_set(y[c]->value.v + e, v + slot(w, SUM, c), MPFR_RNDN);
    y[c]->scale[e] = w->scale[slot(w, SUM, c)];
  }
}

static tn_status run_function(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *z[TN_MAX_CHANNELS];
  vd_port *y[TN_MAX_CHANNELS];
  uint32_t n = channels_of(r, node, node->mask[0], 0, z);
  outputs_of(node, out, y);
  jet_work w = {.channels = node->table->channels};
  vd_series *s = NULL;
  vd_series_spec spec = {.op = (tn_op_id)node->integer[0],
                         .exponent = node->number,
                         .order = (int)node->integer[1] + (int)node->table->order + 1,
                         .bits = r->bits};
  tn_status status = vd_series_new(&spec, &s);
  if (status == TN_OK)
    status = vd_array_new(slot(&w, BLOCKS, 1), r->bits, &w.number);
  if (status == TN_OK)
    status = TN_NEW(slot(&w, BLOCKS, 1), &w.scale);
  const vd_port *z0 = z[0];
  for (size_t e = 0; status == TN_OK && z0 && e < out->value.n; ++e) {
    vd_series_at(s, z0->value.v + vd_element(z0, e, out->width), NULL);
    function_of_element(r, node, z, y, s, &w, n, e, out->width);
  }
  vd_series_free(&s);
  vd_array_free(&w.number);
  tn_free(&w.scale);
  return status;
}

tn_status vd_run_jet(vd_replay *r, const tn_node *node, vd_port *out) {
  switch (node->op->id) {
  case TN_OP_jet_lin:
    run_lin(r, node, out);
    return TN_OK;
  case TN_OP_jet_outer:
    run_outer(r, node, out);
    return TN_OK;
  case TN_OP_jet_mul:
    run_product(r, node, out, false);
    return TN_OK;
  case TN_OP_jet_mulT:
    run_product(r, node, out, true);
    return TN_OK;
  case TN_OP_jet_unary:
    return run_function(r, node, out);
  default:
    return vd_run_rowwise(r, node, out);
  }
}
