/* objective_rows.c: the residual vector of the loss, its Jacobian times vectors, and sizes for
 * refinement.
 *
 *   r_i = sqrt(w_m / C_m) sqrt(W) F / s,    L = |r|^2
 *
 * one entry for each relation and point; relations of terms in the order of the terms' names, the
 * points of a site one after another. J v is forward mode at the parameter leaves, J^T w reverse
 * mode from inputs w.
 */
#include <math.h>
#include <stdio.h>

#include "pinn/objective_inside.h"

static tn_status need_weighted(pn_loss *l) {
  if (l->weighted)
    return TN_OK;
  TN_TRY(TN_NEW(l->n_rows, &l->weighted));
  for (size_t i = 0; i < l->n_rows; ++i) {
    const pn_row *row = &l->rows[i];
    tn_value factor = tn_cast(tn_sqrt(l->terms[row->m].factor), l->model->dtype);
    l->weighted[i] = tn_mul(row->scaled, factor);
    if (row->weight.graph)
      l->weighted[i] = tn_mul(l->weighted[i], tn_sqrt(row->weight));
  }
  return tn_graph_error(l->model->graph);
}

static tn_status read_rows(const pn_loss *l, tn_exec *exec, double *out) {
  for (size_t i = 0, at = 0; i < l->n_rows; at += l->rows[i++].n)
    TN_TRY(tn_exec_read(exec, i, l->rows[i].n, out + at));
  return TN_OK;
}

tn_status pn_loss_residual(pn_objective *f, const double *theta, double *r) {
  pn_loss *l = f->context;
  TN_TRY(need_weighted(l));
  if (!l->residual.exec)
    TN_TRY(pn_slot_new(l, l->n_rows, l->weighted, &l->residual));
  TN_TRY(pn_loss_run(l, &l->residual, theta));
  return read_rows(l, l->residual.exec, r);
}

static tn_status build_jvp(pn_loss *l) {
  size_t n = l->model->n_blocks;
  tn_value *leaves = NULL, *tangents = NULL;
  TN_TRY(need_weighted(l));
  TN_TRY(TN_NEW(n, &l->direction));
  TN_TRY(pn_theta_new(l->model, &l->v));
  TN_TRY(TN_NEW(n, &leaves));
  tn_status status = TN_NEW(l->n_rows, &tangents);
  for (size_t b = 0; status == TN_OK && b < n; ++b) {
    leaves[b] = l->model->blocks[b].leaf;
    l->direction[b] = tn_input(l->model->graph, "v", l->model->dtype, tn_shape_of(leaves[b]));
  }
  if (status == TN_OK)
    status = ag_jvp(n, leaves, l->direction, l->n_rows, l->weighted, tangents);
  if (status == TN_OK)
    status = pn_slot_new(l, l->n_rows, tangents, &l->forward);
  tn_free(&leaves);
  tn_free(&tangents);
  return status;
}

tn_status pn_loss_jvp(pn_objective *f, const double *theta, const double *v, double *out) {
  pn_loss *l = f->context;
  if (!l->forward.exec)
    TN_TRY(build_jvp(l));
  for (size_t b = 0; b < l->model->n_blocks; ++b)
    TN_TRY(tn_exec_bind(l->forward.exec, l->direction[b], l->v.block[b]));
  TN_TRY(pn_theta_set(l->model, &l->v, v));
  TN_TRY(pn_loss_run(l, &l->forward, theta));
  return read_rows(l, l->forward.exec, out);
}

static tn_status build_vjp(pn_loss *l) {
  size_t n = l->model->n_blocks;
  tn_value *leaves = NULL, *bars = NULL;
  TN_TRY(need_weighted(l));
  TN_TRY(TN_NEW(l->n_rows, &l->cotangent));
  TN_TRY(TN_NEW(n, &leaves));
  tn_status status = TN_NEW(n, &bars);
  for (size_t b = 0; status == TN_OK && b < n; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  for (size_t i = 0; status == TN_OK && i < l->n_rows; ++i)
    l->cotangent[i] = tn_input(l->model->graph, "w", l->model->dtype, tn_shape_of(l->weighted[i]));
  if (status == TN_OK)
    status = ag_vjp(l->n_rows, l->weighted, l->cotangent, n, leaves, bars);
  if (status == TN_OK)
    status = pn_slot_new(l, n, bars, &l->backward);
  tn_free(&leaves);
  tn_free(&bars);
  return status;
}

static tn_status bind_cotangents(pn_loss *l, const double *w) {
  for (size_t i = 0, at = 0; i < l->n_rows; at += l->rows[i++].n) {
    tn_buffer *buffer = NULL;
    TN_TRY(tn_buffer_new(l->model->dtype, l->rows[i].batched ? 1 : 0, &l->rows[i].n, &buffer));
    tn_status status =
        tn_convert(l->rows[i].n, TN_F64, w + at, l->model->dtype, tn_map(buffer, TN_WRITE));
    tn_unmap(buffer);
    if (status == TN_OK)
      status = tn_exec_bind(l->backward.exec, l->cotangent[i], buffer);
    tn_buffer_release(&buffer);
    TN_TRY(status);
  }
  return TN_OK;
}

tn_status pn_loss_vjp(pn_objective *f, const double *theta, const double *w, double *out) {
  pn_loss *l = f->context;
  if (!l->backward.exec)
    TN_TRY(build_vjp(l));
  TN_TRY(bind_cotangents(l, w));
  TN_TRY(pn_loss_run(l, &l->backward, theta));
  for (size_t b = 0; b < l->model->n_blocks; ++b) {
    const pn_block *block = &l->model->blocks[b];
    TN_TRY(tn_exec_read(l->backward.exec, b, block->count, out + block->offset));
  }
  return TN_OK;
}

/* ---- Sizes on other points ------------------------------------------------------------------- */

enum { BLOCK = 2048 }; /* candidates a run: they are many, and memory is wanted elsewhere */

static tn_status build_sizes(pn_loss *l, size_t site) {
  tn_value total = {0};
  for (size_t i = 0; i < l->n_rows; ++i) {
    if (l->rows[i].site != site || !l->rows[i].batched)
      continue;
    tn_value square = tn_square(l->rows[i].scaled);
    total = total.graph ? tn_add(total, square) : square;
  }
  if (!total.graph)
    return TN_FAIL(TN_EINPUT, "`%s` has no residual that varies with the point: nothing to refine",
                   l->sites->sites[site].key);
  tn_value size = tn_sqrt(total);
  pn_slot_free(&l->sizes);
  l->sizes_site = site;
  return pn_slot_new(l, 1, &size, &l->sizes);
}

static tn_status size_block(pn_loss *l, const double *theta, const pn_scope *scope,
                            const pn_site *points, size_t first, size_t count, double *size) {
  pn_feed feed = {0};
  tn_status status = pn_feed_site(&feed, l->scopes, scope, points, first, count);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, l->sizes.exec);
  if (status == TN_OK)
    status = pn_loss_run(l, &l->sizes, theta);
  if (status == TN_OK)
    status = tn_exec_read(l->sizes.exec, 0, count, size + first);
  pn_feed_clear(&feed);
  return status;
}

tn_status pn_loss_sizes(pn_loss *l, const double *theta, size_t site, const pn_site *points,
                        double *size) {
  pn_scope *scope = NULL;
  if (!l->sizes.exec || l->sizes_site != site)
    TN_TRY(build_sizes(l, site));
  TN_TRY(pn_scopes_at(l->scopes, site, &scope));
  for (size_t first = 0; first < points->n; first += BLOCK) {
    size_t left = points->n - first;
    TN_TRY(size_block(l, theta, scope, points, first, left < BLOCK ? left : BLOCK, size));
  }
  return TN_OK;
}

void pn_loss_rows_free(pn_loss *l) {
  pn_slot_free(&l->residual);
  pn_slot_free(&l->forward);
  pn_slot_free(&l->backward);
  pn_slot_free(&l->sizes);
  pn_theta_free(l->model, &l->v);
  tn_free(&l->weighted);
  tn_free(&l->direction);
  tn_free(&l->cotangent);
}
