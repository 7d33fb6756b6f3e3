/* objective_tsqr.c: leaves, merges and the tree of J = Q R, over threads and ranks.
 *
 *   leaf k:    J_k = Q_k R_k            Householder, by the table of the device (factor.h)
 *   pairs:     [R_a; R_b] = Q_ab R      two triangles, dtpqrt; a binary tree by leaf index
 *   Q^T w:     the same reflectors in the same order
 *
 * Ranks own contiguous leaves, r K / R to (r + 1) K / R of K, and with them the largest whole subtrees that fit. A rank
 * forms and factors its leaves and merges inside its subtrees; then the triangles at the roots, packed, and the
 * residuals go to every rank, and each of them ends the tree. A merge is the same call on the same numbers whoever
 * makes it, so the bits are those of one rank. The merges above the roots, one less than there are roots, are made
 * again by every rank, 2/3 n^3 FLOP each.
 */
#include <lapacke.h>
#include <stdio.h>
#include <string.h>

#include "pinn/blas.h"
#include "pinn/objective_qr.h"

/* ---- Whose leaves ---------------------------------------------------------------------------- */

void pn_qr_own(size_t n_leaves, size_t ranks, size_t rank, size_t *first, size_t *last) {
  *first = rank * n_leaves / ranks;
  *last = (rank + 1) * n_leaves / ranks;
}

size_t pn_qr_subtree(size_t k, size_t last) {
  size_t size = 1;
  while (k % (2 * size) == 0 && k + 2 * size <= last)
    size *= 2;
  return size;
}

static tn_comm *comm_of(const pn_loss *l) { return tn_pool_comm(l->pool); }
static size_t ranks_of(const pn_loss *l) { return comm_of(l) ? tn_comm_size(comm_of(l)) : 1; }

/* Do leaves first ... last - 1 belong to one rank? */
static bool one_owner(const pn_loss *l, size_t first, size_t last) {
  const size_t ranks = ranks_of(l);
  for (size_t r = 0, from = 0, to = 0; r < ranks; ++r) {
    pn_qr_own(l->qr->n_leaves, ranks, r, &from, &to);
    if (from <= first && last <= to)
      return true;
  }
  return false;
}

/* ---- Factors --------------------------------------------------------------------------------- */

static tn_status lapack(lapack_int info, const char *name) {
  return info == 0 ? TN_OK : TN_FAIL(TN_EINTERNAL, "%s refused argument %d", name, (int)-info);
}

static double *merge_work(const pn_loss *l, size_t worker) {
  return l->qr->merge_work + worker * PN_QR_PANEL * l->objective.n;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static tn_status factor_leaf(const pn_loss *l, size_t k, size_t worker) {
  pn_qr *q = l->qr;
  pn_leaf *a = &q->leaves[k];
  size_t n = l->objective.n;
  TN_TRY(pn_qr_fill(l, k, q->exec[worker]));
  memset(a->C, 0, n * n * sizeof *a->C);
  if (a->m == 0)
    return TN_OK;
  TN_TRY(q->factor->qr(q->factor, q->work[worker], a->m, n, a->A, a->tau));
  for (size_t j = 0; j < n; ++j)
    memcpy(a->C + j * n, a->A + j * a->m, least(j + 1, a->height) * sizeof *a->C);
  return TN_OK;
}

static lapack_int panel_of(size_t n) { return n < PN_QR_PANEL ? (lapack_int)n : PN_QR_PANEL; }

static tn_status merge(const pn_loss *l, pn_leaf *a, pn_leaf *b, size_t worker) {
  size_t n = l->objective.n;
  lapack_int rows = (lapack_int)b->height, columns = (lapack_int)n, panel = panel_of(n);
  b->merged = b->height;
  if (b->height == 0)
    return TN_OK;
  a->height = least(a->height + b->height, n);
  TN_TRY(lapack(LAPACKE_dtpqrt_work(LAPACK_COL_MAJOR, rows, columns, rows, panel, a->C, columns,
                                    b->C, columns, b->T, panel, merge_work(l, worker)),
                "dtpqrt"));
  for (size_t j = a->height; j < n; ++j) /* zeros but for rounding, and no part of messages */
    memset(a->C + a->height + j * n, 0, (j + 1 - a->height) * sizeof *a->C);
  return TN_OK;
}

/* Q^T w, first the leaf's reflectors ... */
static tn_status apply_leaf(const pn_loss *l, size_t k, size_t worker) {
  pn_qr *q = l->qr;
  pn_leaf *a = &q->leaves[k];
  size_t n = l->objective.n, height = least(a->m, n);
  double *w = q->gather + a->first;
  memset(a->q, 0, n * sizeof *a->q);
  if (a->m == 0)
    return TN_OK;
  TN_TRY(q->factor->qr_apply(q->factor, q->work[worker], a->m, 1, height, a->A, a->tau, w));
  memcpy(a->q, w, height * sizeof *w);
  return TN_OK;
}

/* ... then those of its merges. */
static tn_status apply_merge(const pn_loss *l, pn_leaf *a, pn_leaf *b, size_t worker) {
  lapack_int n = (lapack_int)l->objective.n, rows = (lapack_int)b->merged;
  lapack_int panel = panel_of(l->objective.n);
  if (rows == 0)
    return TN_OK;
  return lapack(LAPACKE_dtpmqrt_work(LAPACK_COL_MAJOR, 'L', 'T', rows, 1, n, rows, panel, b->C, n,
                                     b->T, panel, a->q, n, b->q, rows, merge_work(l, worker)),
                "dtpmqrt");
}

/* ---- Running over the tree ------------------------------------------------------------------- */

typedef struct job {
  const pn_loss *l;
  tn_status (*leaf)(const pn_loss *l, size_t k, size_t worker);
  tn_status (*pair)(const pn_loss *l, pn_leaf *a, pn_leaf *b, size_t worker);
  size_t stride; /* 0: leaves; else pairs of leaves so far apart */
  size_t count;  /* of q->todo */
} job;

static void run_task(void *context, size_t i, size_t worker) {
  const job *j = context;
  pn_qr *q = j->l->qr;
  size_t k = q->todo[i];
  pn_leaf *a = &q->leaves[k];
  a->status = j->stride ? j->pair(j->l, a, a + j->stride, worker) : j->leaf(j->l, k, worker);
  if (a->status != TN_OK) /* error records belong to threads */
    snprintf(a->text, sizeof a->text, "%s", tn_error_text());
}

static tn_status run_level(job *j) {
  pn_qr *q = j->l->qr;
  if (q->n_workers > 1)
    tn_pool_run(j->l->pool, j->count, run_task, j);
  for (size_t i = 0; q->n_workers == 1 && i < j->count; ++i)
    run_task(j, i, 0);
  for (size_t i = 0; i < j->count; ++i) {
    const pn_leaf *a = &q->leaves[q->todo[i]];
    if (a->status != TN_OK)
      return TN_FAIL(a->status, "%s", a->text);
  }
  return TN_OK;
}

/* The own leaves and the merges inside own subtrees (above: false), or all merges above the roots. */
static tn_status run_tree(job *j, bool above) {
  pn_qr *q = j->l->qr;
  int threads = pn_blas_alone();
  tn_status status = TN_OK;
  j->stride = j->count = 0;
  for (size_t k = q->own_first; !above && k < q->own_last; ++k)
    q->todo[j->count++] = k;
  if (!above)
    status = run_level(j);
  for (size_t stride = 1; status == TN_OK && stride < q->n_leaves; stride *= 2) {
    j->stride = stride;
    j->count = 0;
    for (size_t k = 0; k < q->n_leaves; k += 2 * stride) {
      bool own = q->own_first <= k && k + 2 * stride <= q->own_last;
      if (above ? !one_owner(j->l, k, k + 2 * stride) : own)
        q->todo[j->count++] = k;
    }
    status = run_level(j);
  }
  pn_blas_restore(threads);
  return status;
}

/* Heights depend on the numbers of rows alone, so each rank knows those of the others: of the subtree of `size` leaves
 * at k. */
static size_t height_at(const pn_loss *l, size_t k, size_t size) {
  size_t height = 0;
  for (size_t i = k; i < k + size; ++i)
    height = least(height + least(l->qr->leaves[i].m, l->objective.n), l->objective.n);
  return height;
}

static void set_heights(pn_loss *l) {
  for (size_t k = 0; k < l->qr->n_leaves; ++k)
    l->qr->leaves[k].height = least(l->qr->leaves[k].m, l->objective.n);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Numbers of a triangle of `height` rows: min(j + 1, height) in column j. */
static size_t packed(size_t n, size_t height) {
  return height * (height + 1) / 2 + height * (n - height);
}

/* Copies a triangle to or from its packed form; returns how many numbers that are. */
static size_t pack(bool out, size_t n, size_t height, double *C, double *x) {
  double *at = x;
  for (size_t j = 0; j < n; ++j) {
    size_t rows = least(j + 1, height);
    memcpy(out ? at : C + j * n, out ? C + j * n : at, rows * sizeof *at);
    at += rows;
  }
  return (size_t)(at - x);
}

/* Rows of leaves first ... last - 1, which lie side by side in the gathered order. */
static size_t rows_between(const pn_qr *q, size_t first, size_t last) {
  size_t rows = 0;
  for (size_t k = first; k < last; ++k)
    rows += q->leaves[k].m;
  return rows;
}

/* Numbers that a rank sends: of residuals and triangles, or of its roots' parts of Q^T w. */
static size_t message_size(const pn_loss *l, size_t rank, bool triangles) {
  const pn_qr *q = l->qr;
  size_t n = l->objective.n, first = 0, last = 0;
  pn_qr_own(q->n_leaves, ranks_of(l), rank, &first, &last);
  size_t size = triangles ? rows_between(q, first, last) : 0;
  for (size_t k = first; k < last; k += pn_qr_subtree(k, last))
    size += triangles ? packed(n, height_at(l, k, pn_qr_subtree(k, last))) : n;
  return size;
}

/* r of leaves first ... last - 1 from the order of the residual to that of the leaves. */
static void take_rows(const pn_loss *l, size_t first_leaf, size_t last_leaf, const double *r,
                      double *leaves) {
  const pn_qr *q = l->qr;
  size_t first = 0, count = 0;
  for (size_t s = first_leaf * q->per_leaf; s < last_leaf * q->per_leaf; ++s)
    for (size_t i = 0; i < l->n_rows; ++i)
      if (pn_qr_part(l, i, s, &first, &count)) {
        memcpy(leaves, r + q->at[i] + first, count * sizeof *r);
        leaves += count;
      }
}

/* And back. */
static void put_rows(const pn_loss *l, size_t first_leaf, size_t last_leaf, const double *leaves,
                     double *r) {
  const pn_qr *q = l->qr;
  size_t first = 0, count = 0;
  for (size_t s = first_leaf * q->per_leaf; s < last_leaf * q->per_leaf; ++s)
    for (size_t i = 0; i < l->n_rows; ++i)
      if (pn_qr_part(l, i, s, &first, &count)) {
        memcpy(r + q->at[i] + first, leaves, count * sizeof *r);
        leaves += count;
      }
}

static tn_status exchange(pn_loss *l, const char *what, bool triangles) {
  pn_qr *q = l->qr;
  for (size_t r = 0; r < ranks_of(l); ++r)
    q->bytes[r] = message_size(l, r, triangles) * sizeof(double);
  return tn_comm_gather(comm_of(l), what, q->bytes, q->send, q->receive);
}

/* Residuals and triangles of all ranks. */
static tn_status exchange_triangles(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t n = l->objective.n, first = q->own_first, last = q->own_last;
  double *at = q->send;
  take_rows(l, first, last, q->r, at);
  at += rows_between(q, first, last);
  for (size_t k = first; k < last; k += pn_qr_subtree(k, last))
    at += pack(true, n, q->leaves[k].height, q->leaves[k].C, at);
  TN_TRY(exchange(l, "triangles of the Jacobian", true));
  at = q->receive;
  for (size_t r = 0; r < ranks_of(l); ++r) {
    pn_qr_own(q->n_leaves, ranks_of(l), r, &first, &last);
    put_rows(l, first, last, at, q->r);
    at += rows_between(q, first, last);
    for (size_t k = first; k < last; k += pn_qr_subtree(k, last)) {
      pn_leaf *a = &q->leaves[k];
      a->height = height_at(l, k, pn_qr_subtree(k, last));
      if (r != tn_comm_rank(comm_of(l)))
        memset(a->C, 0, n * n * sizeof *a->C);
      at += pack(false, n, a->height, a->C, at);
    }
  }
  return TN_OK;
}

/* The roots' parts of Q^T w of all ranks. */
static tn_status exchange_vectors(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t n = l->objective.n, first = q->own_first, last = q->own_last;
  double *at = q->send;
  for (size_t k = first; k < last; k += pn_qr_subtree(k, last), at += n)
    memcpy(at, q->leaves[k].q, n * sizeof *at);
  TN_TRY(exchange(l, "parts of Q^T w", false));
  at = q->receive;
  for (size_t r = 0; r < ranks_of(l); ++r) {
    pn_qr_own(q->n_leaves, ranks_of(l), r, &first, &last);
    for (size_t k = first; k < last; k += pn_qr_subtree(k, last), at += n)
      memcpy(q->leaves[k].q, at, n * sizeof *at);
  }
  return TN_OK;
}

/* ---- Room ------------------------------------------------------------------------------------ */

static tn_status room_for_messages(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t ranks = ranks_of(l), all[2] = {0, 0}, own[2] = {0, 0};
  if (ranks == 1)
    return TN_OK;
  for (size_t r = 0; r < ranks; ++r)
    for (int kind = 0; kind < 2; ++kind) {
      size_t size = message_size(l, r, kind == 0);
      all[kind] += size;
      own[kind] += r == tn_comm_rank(comm_of(l)) ? size : 0;
    }
  TN_TRY(TN_NEW(ranks, &q->bytes));
  TN_TRY(TN_NEW(own[0] > own[1] ? own[0] : own[1], &q->send));
  return TN_NEW(all[0] > all[1] ? all[0] : all[1], &q->receive);
}

tn_status pn_qr_room(pn_loss *l) {
  pn_qr *q = l->qr;
  size_t most = 1, n = l->objective.n;
  for (size_t k = q->own_first; k < q->own_last; ++k)
    if (q->leaves[k].m > most)
      most = q->leaves[k].m;
  q->factor = pn_factor(tn_pool_device(l->pool));
  TN_TRY(TN_NEW(q->n_workers, &q->work));
  for (size_t k = 0; k < q->n_workers; ++k)
    TN_TRY(q->factor->work_new(q->factor, most, n, &q->work[k]));
  TN_TRY(TN_NEW(q->n_leaves, &q->todo));
  TN_TRY(tn_new(q->n_workers, PN_QR_PANEL * n * sizeof(double), &q->merge_work));
  return room_for_messages(l);
}

void pn_qr_clear_room(pn_qr *q) {
  for (size_t k = 0; q->work && k < q->n_workers; ++k)
    if (q->work[k])
      q->factor->work_free(q->factor, &q->work[k]);
  tn_free(&q->work);
  tn_free(&q->todo);
  tn_free(&q->merge_work);
  tn_free(&q->bytes);
  tn_free(&q->send);
  tn_free(&q->receive);
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* A failure of one rank turns all back before they wait for its message. */
static tn_status agree(const pn_loss *l, const char *what, tn_status status) {
  return comm_of(l) ? tn_comm_agree(comm_of(l), what, status) : status;
}

tn_status pn_qr_factor(pn_loss *l) {
  job factor = {.l = l, .leaf = factor_leaf, .pair = merge};
  set_heights(l);
  TN_TRY(agree(l, "rows of the Jacobian", run_tree(&factor, false)));
  if (ranks_of(l) == 1)
    return TN_OK;
  TN_TRY(exchange_triangles(l));
  return run_tree(&factor, true);
}

tn_status pn_qr_apply(pn_loss *l, const double *w, double *out) {
  pn_qr *q = l->qr;
  job apply = {.l = l, .leaf = apply_leaf, .pair = apply_merge};
  take_rows(l, q->own_first, q->own_last, w,
            q->gather + rows_between(q, 0, q->own_first)); /* as far as this rank needs them */
  TN_TRY(agree(l, "Q^T w", run_tree(&apply, false)));
  if (ranks_of(l) > 1) {
    TN_TRY(exchange_vectors(l));
    TN_TRY(run_tree(&apply, true));
  }
  memcpy(out, q->leaves[0].q, l->objective.n * sizeof *out);
  return TN_OK;
}
