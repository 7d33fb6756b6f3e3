/* objective_rows.c: the residual vector of the loss, its Jacobian times vectors, second derivatives
 * along a vector, the loss at several theta, and sizes for refinement.
 *
 *   r_i = sqrt(w_m / C_m) sqrt(W) F / s,    L = |r|^2
 *
 * one entry for each relation and point; relations of terms in the order of the terms' names, the
 * points of a site one after another. J v is forward mode at the parameter leaves, J^T w reverse
 * mode from inputs w, d^2/dt^2 r(theta + t v) forward mode twice with the same v.
 *
 * Several losses: one program holds the loss PN_SETS times, each over parameter leaves of its own
 * and all over the same points, so that a pass over the points serves four probes. The bits are
 * those of the single loss: the same nodes in the same order, and the same slots of summation. The
 * slots depend on the number of trainable scalars; the copies are inputs, so the program counts
 * none of them, and up to 65 536 parameters both give 64 slots. Beyond that, and for what is left
 * over of a group of four, single losses are run.
 */
#include <math.h>
#include <stdio.h>

#include "pinn/objective_inside.h"

tn_status pn_loss_need_weighted(pn_loss *l) {
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
  TN_TRY(pn_loss_need_weighted(l));
  if (!l->residual.exec)
    TN_TRY(pn_slot_new(l, l->n_rows, l->weighted, &l->residual));
  TN_TRY(pn_loss_run(l, &l->residual, theta));
  return read_rows(l, l->residual.exec, r);
}

/* The inputs v and the buffers behind them. */
static tn_status need_direction(pn_loss *l) {
  if (l->direction)
    return TN_OK;
  TN_TRY(pn_loss_need_weighted(l));
  if (!l->v.whole)
    TN_TRY(pn_theta_new(l->model, &l->v));
  TN_TRY(TN_NEW(l->model->n_blocks, &l->direction));
  for (size_t b = 0; b < l->model->n_blocks; ++b)
    l->direction[b] =
        tn_input(l->model->graph, "v", l->model->dtype, tn_shape_of(l->model->blocks[b].leaf));
  return tn_graph_error(l->model->graph);
}

/* The order-th derivative of every row along v. */
static tn_status derive_along(pn_loss *l, int order, const tn_value *leaves, tn_value *tangents,
                              pn_program *slot) {
  size_t n = l->model->n_blocks;
  const tn_value *rows = l->weighted;
  for (int k = 0; k < order; ++k) {
    TN_TRY(ag_jvp(n, leaves, l->direction, l->n_rows, rows, tangents));
    rows = tangents;
    tangents += l->n_rows;
  }
  TN_TRY(pn_slot_new(l, l->n_rows, rows, slot));
  for (size_t b = 0; b < n; ++b)
    TN_TRY(tn_exec_bind(slot->exec, l->direction[b], l->v.block[b]));
  return TN_OK;
}

static tn_status build_along(pn_loss *l, int order, pn_program *slot) {
  tn_value *leaves = NULL, *tangents = NULL;
  TN_TRY(need_direction(l));
  TN_TRY(TN_NEW(l->model->n_blocks, &leaves));
  for (size_t b = 0; b < l->model->n_blocks; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  tn_status status = TN_NEW((size_t)order * l->n_rows, &tangents);
  if (status == TN_OK)
    status = derive_along(l, order, leaves, tangents, slot);
  if (status != TN_OK)
    pn_slot_free(slot);
  tn_free(&leaves);
  tn_free(&tangents);
  return status;
}

static tn_status run_along(pn_loss *l, int order, pn_program *slot, const double *theta,
                           const double *v, double *out) {
  if (!slot->exec)
    TN_TRY(build_along(l, order, slot));
  TN_TRY(pn_theta_set(l->model, &l->v, v));
  TN_TRY(pn_loss_run(l, slot, theta));
  return read_rows(l, slot->exec, out);
}

tn_status pn_loss_jvp(pn_objective *f, const double *theta, const double *v, double *out) {
  pn_loss *l = f->context;
  return run_along(l, 1, &l->forward, theta, v, out);
}

tn_status pn_loss_second(pn_objective *f, const double *theta, const double *v, double *out) {
  pn_loss *l = f->context;
  return run_along(l, 2, &l->second, theta, v, out);
}

/* ---- Several losses -------------------------------------------------------------------------- */

enum { MOST_FOR_SETS = 65536 }; /* parameters up to which the slots are the same, see above */

static tn_status copy_loss(pn_loss *l, const tn_value *leaves, tn_value *copies, tn_value *out) {
  for (size_t b = 0; b < l->model->n_blocks; ++b)
    copies[b] = tn_input(l->model->graph, "theta", l->model->dtype, tn_shape_of(leaves[b]));
  return ag_substitute(l->model->graph, l->model->n_blocks, leaves, copies, 1, &l->loss, out);
}

static tn_status build_several(pn_loss *l) {
  size_t n = l->model->n_blocks;
  tn_value *leaves = NULL, *copies = NULL, out[PN_SETS];
  if (!l->set)
    TN_TRY(TN_NEW(PN_SETS, &l->set));
  for (size_t k = 0; k < PN_SETS; ++k)
    if (!l->set[k].whole)
      TN_TRY(pn_theta_new(l->model, &l->set[k]));
  TN_TRY(TN_NEW(n, &leaves));
  tn_status status = TN_NEW(PN_SETS * n, &copies);
  for (size_t b = 0; status == TN_OK && b < n; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  for (size_t k = 0; status == TN_OK && k < PN_SETS; ++k)
    status = copy_loss(l, leaves, copies + k * n, &out[k]);
  if (status == TN_OK)
    status = pn_slot_new(l, PN_SETS, out, &l->several);
  for (size_t k = 0; status == TN_OK && k < PN_SETS * n; ++k)
    status = tn_exec_bind(l->several.exec, copies[k], l->set[k / n].block[k % n]);
  if (status != TN_OK)
    pn_slot_free(&l->several);
  tn_free(&leaves);
  tn_free(&copies);
  return status;
}

static tn_status run_several(pn_loss *l, const double *thetas, double *losses) {
  size_t n = l->model->n_theta;
  for (size_t k = 0; k < PN_SETS; ++k)
    TN_TRY(pn_theta_set(l->model, &l->set[k], thetas + k * n));
  TN_TRY(pn_loss_run(l, &l->several, thetas));
  for (size_t k = 0; k < PN_SETS; ++k)
    TN_TRY(tn_exec_read(l->several.exec, k, 1, &losses[k]));
  return TN_OK;
}

tn_status pn_loss_losses(pn_objective *f, size_t count, const double *thetas, double *losses) {
  pn_loss *l = f->context;
  size_t k = 0;
  if (count >= PN_SETS && f->n <= MOST_FOR_SETS && !l->several.exec)
    TN_TRY(build_several(l));
  for (; l->several.exec && k + PN_SETS <= count; k += PN_SETS)
    TN_TRY(run_several(l, thetas + k * f->n, losses + k));
  for (; k < count; ++k)
    TN_TRY(pn_loss_one(f, thetas + k * f->n, &losses[k]));
  return TN_OK;
}

static tn_status build_vjp(pn_loss *l) {
  size_t n = l->model->n_blocks;
  tn_value *leaves = NULL, *bars = NULL;
  TN_TRY(pn_loss_need_weighted(l));
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
  pn_slot_free(&l->second);
  pn_slot_free(&l->sizes);
  pn_slot_free(&l->several);
  pn_theta_free(l->model, &l->v);
  for (size_t k = 0; l->set && k < PN_SETS; ++k)
    pn_theta_free(l->model, &l->set[k]);
  tn_free(&l->set);
  tn_free(&l->weighted);
  tn_free(&l->direction);
  tn_free(&l->cotangent);
}
