/* running_rows.c: running bounds of softmax, layer_norm and rstd, row by row.
 *
 * Roundings are followed through the engine's steps (tensor/rowwise.inc) by the arithmetic of running.c:
 *
 *   softmax     e_j = exp(x_j - max),   y_j = e_j / sum e
 *   layer_norm  d = x - mean,   s = sqrt(mean of d^2 + epsilon),   y = d / s;   rstd: 1 / s
 *
 * Errors t of the operands take the same way in layer_norm and rstd. A softmax is a ratio of positive terms whatever
 * is subtracted, so there they are worth
 *
 *   e^(t_j) / sum y_k e^(-t_k) - 1   and   1 - e^(-t_j) / sum y_k e^(t_k)   times y_j
 *
 * at most, without the growth that a separate sum and quotient would add.
 */
#include "validate/running.h"

typedef struct row {
  size_t n;
  const double *x, *error;
  vd_near *near; /* n; softmax and layer_norm leave their results here */
  const vd_rounding *f;
} row;

/* x[0] + x[1] + ... */
static vd_near sum_of(const row *w) {
  vd_near sum = w->near[0];
  for (size_t j = 1; j < w->n; ++j)
    sum = vd_near_add(sum, w->near[j], w->f);
  return sum;
}

static vd_near minus(vd_near x) { return (vd_near){-x.v, x.r, x.t}; }

/* ---- softmax ---------------------------------------------------------------------------------- */

/* Adds what the errors of x do. Joined like all errors, term by term. */
static void move_shares(const row *w) {
  double fallen = 0, risen = 0; /* 1 - sum y e^-t, sum y e^t - 1 */
  bool lost = false;
  for (size_t k = 0; k < w->n; ++k) {
    lost = lost || isinf(w->error[k]);
    if (w->error[k] == 0)
      continue;
    fallen = vd_join(w->f, fallen, w->near[k].v * -expm1(-w->error[k]));
    risen = vd_join(w->f, risen, w->near[k].v * expm1(w->error[k]));
  }
  for (size_t j = 0; j < w->n; ++j) {
    double up = vd_join(w->f, expm1(w->error[j]), fallen) / fmax(1 - fallen, 0);
    double down = vd_join(w->f, -expm1(-w->error[j]), risen) / (1 + risen);
    double share = w->near[j].v * fmax(up, isnan(down) ? 1 : down);
    share = lost ? INFINITY : isfinite(share) ? fmin(share, 1) : 1; /* all lie in 0 .. 1 */
    w->near[j].t = vd_join(w->f, w->near[j].t, share);
  }
}

static tn_status softmax(const row *w) {
  double most = w->x[0];
  for (size_t j = 1; j < w->n; ++j)
    most = fmax(most, w->x[j]);
  for (size_t j = 0; j < w->n; ++j) {
    vd_near x = {.v = w->x[j]}, away = {.v = -most};
    w->near[j] = x.v == most                   ? (vd_near){0}
                 : isinf(x.v) || isinf(away.v) ? (vd_near){.v = x.v - most} /* masked: e = 0 */
                                               : vd_near_add(x, away, w->f);
  }
  TN_TRY(vd_near_row(TN_OP_exp, 0, w->n, w->near, w->near, w->f));
  vd_near sum = sum_of(w);
  for (size_t j = 0; j < w->n; ++j)
    w->near[j] = vd_near_div(w->near[j], sum, w->f);
  move_shares(w);
  return TN_OK;
}

/* ---- layer_norm and rstd ---------------------------------------------------------------------- */

/* near <- x - mean, *deviation <- s */
static tn_status centre(const row *w, double epsilon, vd_near *deviation) {
  vd_near count = {.v = (double)w->n}, square = {0};
  for (size_t j = 0; j < w->n; ++j)
    w->near[j] = (vd_near){w->x[j], 0, w->error[j]};
  vd_near mean = vd_near_div(sum_of(w), count, w->f);
  for (size_t j = 0; j < w->n; ++j) {
    w->near[j] = vd_near_add(w->near[j], minus(mean), w->f);
    square = vd_near_add(square, vd_near_mul(w->near[j], w->near[j], w->f), w->f);
  }
  vd_near rest = {.v = tn_round(tn_dtype_compute(w->f->dtype), epsilon)};
  *deviation = vd_near_add(vd_near_div(square, count, w->f), rest, w->f);
  return vd_near_row(TN_OP_sqrt, 0, 1, deviation, deviation, w->f);
}

/* y: the results of this row, bounded at *error. */
static tn_status bound_row(const row *w, const tn_node *node, const double *y, double *error) {
  vd_near deviation;
  if (node->op->id == TN_OP_softmax)
    TN_TRY(softmax(w));
  else
    TN_TRY(centre(w, node->number, &deviation));
  if (node->op->id == TN_OP_rstd) {
    *error = vd_near_error(vd_near_div((vd_near){.v = 1}, deviation, w->f), w->f, *y);
    return TN_OK;
  }
  for (size_t j = 0; j < w->n; ++j) {
    if (node->op->id == TN_OP_layer_norm)
      w->near[j] = vd_near_div(w->near[j], deviation, w->f);
    error[j] = vd_near_error(w->near[j], w->f, y[j]);
  }
  return TN_OK;
}

tn_status vd_bound_rows(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *x = vd_bounded_of(r, node->inputs[0]);
  const tn_shape *shape = vd_input_shape(r->program, node, 0);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  size_t n = shape->extent[shape->rank - 1], step = node->op->id == TN_OP_rstd ? 1 : n;
  row w = {.n = n, .f = &f};
  TN_TRY(TN_NEW(n, &w.near));
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < x->n / n; ++i) {
    w.x = x->value + i * n;
    w.error = x->error + i * n;
    status = bound_row(&w, node, out->value + i * step, out->error + i * step);
  }
  tn_free(&w.near);
  return status;
}
