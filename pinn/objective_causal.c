/* objective_causal.c: weights of an equation's residuals by the time, for [time] causal.
 *
 *   W(t) = w_k where t lies in chunk k of K equal chunks of the time
 *
 * The w_k are run-time numbers (train_causal.c finds them), chosen point by point by K - 1 comparisons, so that new
 * points and new weights need no new program. W is constant as far as derivatives go. The sums of the chunks
 * come from a program of F / s alone: a weight that has become tiny does not hide what it weighs.
 */
#include "pinn/objective_inside.h"

#include "pinn/windows.h"

static tn_status make_chunks(pn_loss *l) {
  size_t n = l->model->problem->chunks;
  if (l->chunk)
    return TN_OK;
  TN_TRY(TN_NEW(n, &l->chunk));
  TN_TRY(TN_NEW(n, &l->chunk_weight));
  l->n_chunks = n;
  for (size_t k = 0; k < n; ++k) {
    l->chunk_weight[k] = 1;
    l->chunk[k] = tn_scalar(l->model->graph, "chunk", l->model->dtype, 1);
  }
  return tn_graph_error(l->model->graph);
}

static tn_status number(pn_scope *scope, pn_arena *arena, pn_kind kind, double x, size_t index,
                        tn_value *out) {
  pn_expr *e = NULL;
  TN_TRY(PN_TAKE(arena, 1, &e));
  *e = (pn_expr){.kind = kind, .number = x, .index = index, .components = 1, .height = 1};
  return pn_lower(scope, e, out);
}

tn_status pn_causal_row(pn_loss *l, pn_row *row, pn_scope *scope) {
  const pn_problem *p = l->model->problem;
  size_t axis = pn_time_axis(p);
  const pn_coordinate *time = &p->coordinates[axis];
  tn_value t = {0}, weight = {0};
  TN_TRY(make_chunks(l));
  TN_TRY(number(scope, p->arena, PN_COORDINATE, 0, axis, &t));
  weight = l->chunk[0];
  for (size_t k = 1; k < l->n_chunks; ++k) {
    tn_value border = {0};
    double at = time->lo + (time->hi - time->lo) * (double)k / (double)l->n_chunks;
    TN_TRY(number(scope, p->arena, PN_NUMBER, at, 0, &border));
    weight = tn_where(tn_ge(t, border), l->chunk[k], weight);
  }
  row->raw_weight = row->raw_weight.graph ? tn_mul(row->raw_weight, weight) : weight;
  return tn_graph_error(l->model->graph);
}

tn_status pn_causal_bind(const pn_loss *l, tn_exec *exec) {
  for (size_t k = 0; k < l->n_chunks; ++k)
    TN_TRY(tn_exec_set(exec, l->chunk[k], l->chunk_weight[k]));
  return TN_OK;
}

void pn_causal_set(pn_loss *l, const double *weight) {
  for (size_t k = 0; k < l->n_chunks; ++k)
    l->chunk_weight[k] = weight[k];
}

/* Adds the squares of a row to the sums of its chunks. */
static void add_squares(const pn_loss *l, const pn_row *row, const double *f, double *sums,
                        double *counts) {
  const pn_problem *p = l->model->problem;
  size_t axis = pn_time_axis(p);
  const pn_coordinate *time = &p->coordinates[axis];
  const double *t = l->sites->sites[row->site].column[axis];
  for (size_t i = 0; t && i < row->n; ++i) {
    double share = (t[i] - time->lo) / (time->hi - time->lo) * (double)l->n_chunks;
    size_t k = share < (double)l->n_chunks ? (size_t)share : l->n_chunks - 1;
    sums[k] += f[i] * f[i];
    counts[k] += 1;
  }
}

static tn_status read_sums(const pn_loss *l, double *sums, double *counts) {
  for (size_t i = 0; i < l->n_rows; ++i) {
    const pn_row *row = &l->rows[i];
    double *f = NULL;
    if (!row->batched || l->sites->terms[row->m].term->is_condition)
      continue;
    TN_TRY(TN_NEW(row->n, &f));
    tn_status status = tn_exec_read(l->chunks.exec, i, row->n, f);
    if (status == TN_OK)
      add_squares(l, row, f, sums, counts);
    tn_free(&f);
    TN_TRY(status);
  }
  return TN_OK;
}

tn_status pn_causal_losses(pn_loss *l, const double *theta, double *sums) {
  tn_value *rows = NULL;
  double *counts = NULL;
  tn_status status = TN_OK;
  if (!l->chunks.exec) {
    TN_TRY(TN_NEW(l->n_rows, &rows));
    for (size_t i = 0; i < l->n_rows; ++i)
      rows[i] = l->rows[i].scaled;
    status = pn_slot_new(l, l->n_rows, rows, &l->chunks);
    tn_free(&rows);
    TN_TRY(status);
  }
  TN_TRY(pn_loss_run(l, &l->chunks, theta));
  TN_TRY(TN_NEW(l->n_chunks, &counts));
  for (size_t k = 0; k < l->n_chunks; ++k)
    sums[k] = 0;
  status = read_sums(l, sums, counts);
  for (size_t k = 0; k < l->n_chunks; ++k)
    sums[k] = counts[k] > 0 ? sums[k] / counts[k] : 0;
  tn_free(&counts);
  return status;
}
