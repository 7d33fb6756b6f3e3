/* objective_qr.c: rows of J = dr/dtheta, and their layout for J = Q R by TSQR (objective_tsqr.c).
 *
 * J is never squared: its condition number is 1e15 and more, and directions down to 1e-10 of the
 * largest singular value decide how far training gets.
 *
 * Rows come from one program (ag_rows) with an executor a worker. Every site is cut into shares by
 * pn_share, a share is one run, and a leaf is a fixed number of neighbouring shares of all sites: K
 * leaves, K the largest power of two that leaves at least n / 2 rows to each, hence between n / 2
 * and n rows where sites have enough points. K depends on the shape of J alone, a leaf is factored
 * by one thread with one BLAS thread, and the tree goes by index: the bits are the same for any
 * number of threads and ranks (with one BLAS library and core type).
 *
 * 2 N n^2 FLOP. Memory: N n words of reflectors, kept for Q^T w, and K n^2 <= 2 N n words of
 * triangles, divided among the ranks but for a triangle at each root. The row outputs of one share
 * come on top, in each worker: about 128 n words and the intermediates of the largest weight. A
 * device factors one leaf after another, for one worker.
 */
#include <stdio.h>
#include <string.h>

#include "pinn/objective_qr.h"
#include "pinn/vector.h"

enum {
  SHARE = 128, /* points a run */
  TILE = 16    /* rows and columns of a copy */
};

/* ---- Programs -------------------------------------------------------------------------------- */

static tn_status compile_rows(pn_loss *l, pn_qr *q) {
  size_t n = l->model->n_blocks, each = 1 + n;
  tn_value *leaves = NULL, *rows = NULL, *out = NULL;
  TN_TRY(pn_loss_need_weighted(l));
  TN_TRY(TN_NEW(n, &leaves));
  tn_status status = TN_NEW(n * l->n_rows, &rows);
  if (status == TN_OK)
    status = TN_NEW(each * l->n_rows, &out);
  for (size_t b = 0; status == TN_OK && b < n; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  if (status == TN_OK)
    status = ag_rows(n, leaves, l->n_rows, l->weighted, rows);
  for (size_t i = 0; status == TN_OK && i < l->n_rows; ++i) {
    out[i * each] = l->weighted[i];
    memcpy(out + i * each + 1, rows + i * n, n * sizeof *rows);
  }
  if (status == TN_OK)
    status = tn_compile(l->model->graph, each * l->n_rows, out, &q->program);
  tn_free(&leaves);
  tn_free(&rows);
  tn_free(&out);
  return status;
}

static tn_status need_programs(pn_loss *l) {
  pn_qr *q = l->qr;
  if (l->model->dtype != TN_F64)
    return TN_FAIL(TN_EUNSUPPORTED,
                   "rows of J are formed in f64 and the stage computes in %s; set "
                   "precision = \"f64\" for it",
                   tn_dtype_name(l->model->dtype));
  if (!l->bound)
    return TN_FAIL(TN_ESTATE, "the loss has no points yet");
  if (!q) {
    TN_TRY(TN_NEW(1, &q));
    l->qr = q;
  }
  if (!q->program)
    TN_TRY(compile_rows(l, q));
  if (!q->exec) {
    q->n_workers = l->pool && !tn_pool_device(l->pool) ? tn_pool_threads(l->pool) : 1;
    TN_TRY(TN_NEW(q->n_workers, &q->exec));
  }
  for (size_t k = 0; k < q->n_workers; ++k) {
    if (q->exec[k])
      continue;
    TN_TRY(tn_exec_alone(q->program, l->pool, &q->exec[k]));
    tn_status status = pn_loss_hand_over(l, q->exec[k]);
    if (status != TN_OK)
      tn_exec_free(&q->exec[k]);
    TN_TRY(status);
  }
  return TN_OK;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

bool pn_qr_part(const pn_loss *l, size_t i, size_t share, size_t *first, size_t *count) {
  const pn_qr *q = l->qr;
  return pn_share(l->rows[i].n, share, q->n_leaves * q->per_leaf, first, count);
}

static void choose_sizes(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t N = l->objective.n_rows, n = l->objective.n, most = 1;
  q->n_leaves = 1;
  while (N / (2 * q->n_leaves) >= (n + 1) / 2 && 2 * q->n_leaves <= N)
    q->n_leaves *= 2;
  for (size_t i = 0; i < l->n_rows; ++i)
    if (l->rows[i].n > most)
      most = l->rows[i].n;
  q->per_leaf = (most + SHARE * q->n_leaves - 1) / (SHARE * q->n_leaves);
}

static tn_status size_leaf(pn_loss *l, size_t k, size_t *row) {
  pn_qr *q = l->qr;
  pn_leaf *a = &q->leaves[k];
  size_t n = l->objective.n, first = 0, count = 0;
  a->first = *row;
  for (size_t s = k * q->per_leaf; s < (k + 1) * q->per_leaf; ++s)
    for (size_t i = 0; i < l->n_rows; ++i)
      if (pn_qr_part(l, i, s, &first, &count))
        a->m += count;
  *row += a->m;
  if (a->m > INT32_MAX / n || n > INT32_MAX / n)
    return TN_FAIL(TN_EUNSUPPORTED,
                   "QR of J: a block of %zu rows of %zu parameters is beyond LAPACK's 32-bit sizes",
                   a->m, n);
  return TN_OK;
}

/* What a merge needs; of own leaves, and of the roots of others. */
static tn_status allocate_triangle(size_t n, pn_leaf *a) {
  TN_TRY(TN_NEW(n * n, &a->C));
  TN_TRY(TN_NEW(PN_QR_PANEL * n, &a->T));
  return TN_NEW(n, &a->q);
}

static tn_status allocate_leaves(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t n = l->objective.n, first = 0, last = 0;
  tn_comm *comm = tn_pool_comm(l->pool);
  for (size_t k = q->own_first; k < q->own_last; ++k) {
    TN_TRY(TN_NEW(q->leaves[k].m * n, &q->leaves[k].A));
    TN_TRY(TN_NEW(n, &q->leaves[k].tau));
    TN_TRY(allocate_triangle(n, &q->leaves[k]));
  }
  for (size_t r = 0; comm && r < tn_comm_size(comm); ++r) {
    pn_qr_own(q->n_leaves, tn_comm_size(comm), r, &first, &last);
    for (size_t k = first; k < last; k += pn_qr_subtree(k, last))
      if (r != tn_comm_rank(comm))
        TN_TRY(allocate_triangle(n, &q->leaves[k]));
  }
  return TN_OK;
}

static void clear_layout(pn_qr *q) {
  for (size_t k = 0; q->leaves && k < q->n_leaves; ++k) {
    tn_free(&q->leaves[k].A);
    tn_free(&q->leaves[k].tau);
    tn_free(&q->leaves[k].C);
    tn_free(&q->leaves[k].T);
    tn_free(&q->leaves[k].q);
  }
  for (size_t s = 0; q->share && s < q->n_leaves * q->per_leaf; ++s)
    pn_feed_clear(&q->share[s]);
  tn_free(&q->leaves);
  tn_free(&q->share);
  tn_free(&q->at);
  tn_free(&q->r);
  tn_free(&q->gather);
  pn_qr_clear_room(q);
  q->ready = q->factored = false;
}

static tn_status lay_out(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t N = l->objective.n_rows, at = 0, row = 0;
  for (size_t i = 0; i < l->n_rows; ++i)
    if (l->rows[i].batched && l->rows[i].n != l->sites->sites[l->rows[i].site].n)
      return TN_FAIL(TN_EUNSUPPORTED, "QR of J needs all points at once, and a batch is bound");
  choose_sizes(l);
  size_t shares = q->n_leaves * q->per_leaf;
  tn_comm *comm = tn_pool_comm(l->pool);
  pn_qr_own(q->n_leaves, comm ? tn_comm_size(comm) : 1, comm ? tn_comm_rank(comm) : 0, &q->own_first,
            &q->own_last);
  TN_TRY(TN_NEW(q->n_leaves, &q->leaves));
  TN_TRY(TN_NEW(shares, &q->share));
  TN_TRY(TN_NEW(l->n_rows, &q->at));
  TN_TRY(TN_NEW(N, &q->r));
  TN_TRY(TN_NEW(N, &q->gather));
  for (size_t i = 0; i < l->n_rows; at += l->rows[i++].n)
    q->at[i] = at;
  for (size_t s = q->own_first * q->per_leaf; s < q->own_last * q->per_leaf; ++s)
    TN_TRY(pn_feed_share(&q->share[s], l->scopes, l->sites, s, shares));
  for (size_t k = 0; k < q->n_leaves; ++k)
    TN_TRY(size_leaf(l, k, &row));
  TN_TRY(allocate_leaves(l));
  return pn_qr_room(l);
}

static tn_status need_layout(pn_loss *l) {
  TN_TRY(need_programs(l));
  if (l->qr->ready)
    return TN_OK;
  tn_status status = lay_out(l);
  if (status != TN_OK)
    clear_layout(l->qr);
  l->qr->ready = status == TN_OK;
  return status;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* J_(row + t, j) of `count` rows and `width` columns from row-major x to columns of height m. */
static void turn(size_t count, size_t width, const double *x, size_t m, double *out) {
  for (size_t t0 = 0; t0 < count; t0 += TILE)
    for (size_t j0 = 0; j0 < width; j0 += TILE)
      for (size_t j = j0; j < width && j < j0 + TILE; ++j)
        for (size_t t = t0; t < count && t < t0 + TILE; ++t)
          out[t + m * j] = x[t * width + j];
}

/* The rows of J of relation i after a run over `count` points, to A at row `row`. */
static tn_status take_rows(const pn_loss *l, tn_exec *exec, size_t i, size_t count, size_t row,
                           pn_leaf *a) {
  size_t each = 1 + l->model->n_blocks;
  for (size_t b = 0; b < l->model->n_blocks; ++b) {
    const pn_block *block = &l->model->blocks[b];
    tn_buffer *buffer = NULL;
    TN_TRY(tn_exec_output(exec, i * each + 1 + b, &buffer));
    if (tn_buffer_count(buffer) != count * block->count)
      return TN_FAIL(TN_EINTERNAL, "rows by `%s`: %zu numbers, expected %zu x %zu", block->name,
                     tn_buffer_count(buffer), count, block->count);
    turn(count, block->count, tn_map(buffer, TN_READ), a->m, a->A + row + a->m * block->offset);
    tn_unmap(buffer);
  }
  return TN_OK;
}

tn_status pn_qr_fill(const pn_loss *l, size_t k, tn_exec *exec) {
  pn_qr *q = l->qr;
  pn_leaf *a = &q->leaves[k];
  size_t each = 1 + l->model->n_blocks, row = 0, first = 0, count = 0;
  for (size_t s = k * q->per_leaf; s < (k + 1) * q->per_leaf; ++s) {
    TN_TRY(pn_feed_bind(&q->share[s], exec));
    TN_TRY(tn_exec_run(exec));
    for (size_t i = 0; i < l->n_rows; ++i) {
      if (!pn_qr_part(l, i, s, &first, &count))
        continue;
      TN_TRY(tn_exec_read(exec, i * each, count, q->r + q->at[i] + first));
      TN_TRY(take_rows(l, exec, i, count, row, a));
      row += count;
    }
  }
  return TN_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

tn_status pn_loss_qr(pn_objective *f, const double *theta, double *loss, double *R, double *qtr) {
  pn_loss *l = f->context;
  TN_TRY(need_layout(l));
  pn_qr *q = l->qr;
  q->factored = false;
  TN_TRY(pn_theta_set(l->model, &l->theta, theta));
  TN_TRY(pn_qr_factor(l));
  q->factored = true;
  *loss = pn_dot(f->n_rows, q->r, q->r);
  for (size_t i = 0; i < f->n; ++i)
    for (size_t j = 0; j < f->n; ++j)
      R[i * f->n + j] = j < i ? 0 : q->leaves[0].C[i + j * f->n];
  return pn_loss_qt(f, q->r, qtr);
}

tn_status pn_loss_qt(pn_objective *f, const double *w, double *out) {
  pn_loss *l = f->context;
  if (!l->qr || !l->qr->factored)
    return TN_FAIL(TN_ESTATE, "Q^T w: there is no factorisation at the present points");
  return pn_qr_apply(l, w, out);
}

/* ---- Single rows ----------------------------------------------------------------------------- */

/* Points first .. first + count - 1 of one site, point 0 of the others, all points of means. */
static tn_status feed_range(pn_loss *l, size_t site, size_t first, size_t count, pn_feed *feed) {
  for (size_t i = 0; i < l->n_rows; ++i) {
    size_t s = l->rows[i].site, k = 0;
    pn_scope *scope = NULL;
    while (l->rows[k].site != s)
      ++k;
    if (k < i)
      continue; /* an earlier row has this site */
    TN_TRY(pn_scopes_at(l->scopes, s, &scope));
    TN_TRY(pn_feed_site(feed, l->scopes, scope, &l->sites->sites[s], s == site ? first : 0,
                        s == site ? count : 1));
    size_t mean = pn_scopes_mean_site(l->scopes, s);
    if (mean != PN_NONE)
      TN_TRY(pn_feed_site(feed, l->scopes, scope->mean, &l->sites->sites[mean], 0,
                          l->sites->sites[mean].n));
  }
  return TN_OK;
}

/* Residuals first .. first + count - 1 of relation i. */
static tn_status rows_of(pn_loss *l, size_t i, size_t first, size_t count, double *r, double *J) {
  tn_exec *exec = l->qr->exec[0];
  size_t n = l->objective.n, each = 1 + l->model->n_blocks;
  pn_feed feed = {0};
  tn_status status = feed_range(l, l->rows[i].site, first, count, &feed);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, exec);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  if (status == TN_OK && r)
    status = tn_exec_read(exec, i * each, count, r);
  for (size_t b = 0; status == TN_OK && b < l->model->n_blocks; ++b) {
    const pn_block *block = &l->model->blocks[b];
    tn_buffer *buffer = NULL;
    status = tn_exec_output(exec, i * each + 1 + b, &buffer);
    const double *x = status == TN_OK ? tn_map(buffer, TN_READ) : NULL;
    for (size_t t = 0; status == TN_OK && t < count; ++t)
      memcpy(J + t * n + block->offset, x + t * block->count, block->count * sizeof *J);
  }
  pn_feed_clear(&feed);
  return status;
}

tn_status pn_loss_rows(pn_objective *f, const double *theta, size_t first, size_t count, double *r,
                       double *J) {
  pn_loss *l = f->context;
  size_t at = 0, done = 0;
  if (first > f->n_rows || count > f->n_rows - first)
    return TN_FAIL(TN_ERANGE, "rows %zu to %zu of %zu", first, first + count, f->n_rows);
  TN_TRY(need_programs(l));
  TN_TRY(pn_theta_set(l->model, &l->theta, theta));
  for (size_t i = 0; i < l->n_rows; at += l->rows[i++].n) {
    while (done < count && first + done < at + l->rows[i].n) {
      size_t from = first + done - at, left = l->rows[i].n - from;
      size_t some = count - done < left ? count - done : left;
      if (some > SHARE)
        some = SHARE;
      TN_TRY(rows_of(l, i, from, some, r ? r + done : NULL, J + done * f->n));
      done += some;
    }
  }
  return TN_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

tn_status pn_qr_bind(pn_loss *l) {
  pn_qr *q = l->qr;
  if (!q)
    return TN_OK;
  clear_layout(q);
  for (size_t k = 0; q->exec && k < q->n_workers; ++k)
    if (q->exec[k])
      TN_TRY(pn_loss_hand_over(l, q->exec[k]));
  return TN_OK;
}

size_t pn_qr_bytes(const pn_loss *l) {
  const pn_qr *q = l->qr;
  size_t words = 0, bytes = 0, n = l->objective.n;
  if (!q)
    return 0;
  for (size_t k = 0; q->exec && k < q->n_workers; ++k)
    bytes += q->exec[k] ? tn_exec_bytes(q->exec[k]) : 0;
  for (size_t k = 0; q->ready && k < q->n_leaves; ++k) {
    words += q->leaves[k].A ? (q->leaves[k].m + 1) * n : 0;
    words += q->leaves[k].C ? (n + PN_QR_PANEL + 1) * n : 0;
  }
  return bytes + words * sizeof(double);
}

void pn_qr_free(pn_loss *l) {
  pn_qr *q = l->qr;
  if (!q)
    return;
  clear_layout(q);
  for (size_t k = 0; q->exec && k < q->n_workers; ++k)
    tn_exec_free(&q->exec[k]);
  tn_free(&q->exec);
  tn_program_free(&q->program);
  tn_free(&l->qr);
}
