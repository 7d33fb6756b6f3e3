/* gather.c: what other ranks have computed, into this rank's memory.
 *
 * Each rank has its own pieces in place: subtrees of sums, panels of whole arrays. All pieces of a stage go in one
 * exchange: by NCCL where the device has joined it (parts of equal length, so the shorter ones are padded), else
 * through the host and its communicator. Nothing is computed here: every rank ends the tree from the same numbers.
 *
 * A rank that failed earlier in the run takes part: the ranks first agree that all are fine, or turn back together.
 */
#include "cuda/executor.h"

typedef struct exchange {
  tn_exec *exec;
  gpu_exec *x;
  const char *what;
  size_t ranks, me, n_items;
  const gpu_piece *piece;
  size_t *bytes;         /* of each rank; owned */
  size_t total, longest; /* of them all; the most of a rank, rounded up */
  char *send, *all;      /* on the host; owned */
} exchange;

static const gpu_piece *piece_of(const exchange *e, size_t item, size_t rank) {
  return &e->piece[item * e->ranks + rank];
}

static tn_status measure(exchange *e) {
  TN_TRY(TN_NEW(e->ranks, &e->bytes));
  for (size_t r = 0; r < e->ranks; ++r) {
    for (size_t i = 0; i < e->n_items; ++i)
      e->bytes[r] += piece_of(e, i, r)->bytes;
    e->total += e->bytes[r];
    if (e->bytes[r] > e->longest)
      e->longest = (e->bytes[r] + 255) & ~(size_t)255;
  }
  return TN_OK;
}

static tn_status move(gpu_context *g, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (bytes)
    GPU_TRY(g, cuMemcpyDtoDAsync, (to, from, bytes, g->stream));
  return TN_OK;
}

/* Own pieces, one after another: to the host, or to the device's part of the wire. All memory is taken here. */
static tn_status pack(exchange *e) {
  gpu_context *g = e->x->g;
  bool on_host = !gpu_nccl_joined(g);
  TN_TRY(measure(e));
  if (on_host)
    TN_TRY(tn_new(1, e->bytes[e->me] + 1, &e->send));
  if (on_host)
    TN_TRY(tn_new(1, e->total + 1, &e->all));
  if (!on_host)
    TN_TRY(gpu_room_of(g, (e->ranks + 1) * e->longest, &e->x->wire));
  for (size_t i = 0, at = 0; i < e->n_items; ++i) {
    const gpu_piece *own = piece_of(e, i, e->me);
    if (!on_host)
      TN_TRY(move(g, e->x->wire.at + at, own->at, own->bytes));
    else if (own->bytes)
      TN_TRY(gpu_download(g, e->send + at, own->at, own->bytes));
    at += own->bytes;
  }
  return TN_OK;
}

static tn_status through_host(const exchange *e) {
  TN_TRY(tn_comm_gather(e->exec->comm, e->what, e->bytes, e->send, e->all));
  for (size_t r = 0, at = 0; r < e->ranks; ++r)
    for (size_t i = 0; i < e->n_items; ++i) {
      const gpu_piece *piece = piece_of(e, i, r);
      if (piece->bytes && r != e->me)
        TN_TRY(gpu_upload(e->x->g, false, piece->at, e->all + at, piece->bytes));
      at += piece->bytes;
    }
  return TN_OK;
}

static tn_status by_nccl(const exchange *e) {
  gpu_context *g = e->x->g;
  CUdeviceptr send = e->x->wire.at, all = send + e->longest;
  TN_TRY(gpu_nccl_gather(g, e->what, send, e->longest, all));
  for (size_t r = 0; r < e->ranks; ++r)
    for (size_t i = 0, at = 0; i < e->n_items; ++i) {
      const gpu_piece *piece = piece_of(e, i, r);
      if (r != e->me)
        TN_TRY(move(g, piece->at, all + r * e->longest + at, piece->bytes));
      at += piece->bytes;
    }
  return TN_OK;
}

tn_status gpu_gather(tn_exec *exec, gpu_exec *x, const char *what, tn_status status, size_t n_items,
                     const gpu_piece *piece) {
  exchange e = {.exec = exec,
                .x = x,
                .what = what,
                .ranks = tn_comm_size(exec->comm),
                .me = tn_comm_rank(exec->comm),
                .n_items = n_items,
                .piece = piece};
  if (status == TN_OK)
    status = pack(&e);
  status = tn_comm_agree(exec->comm, what, status);
  if (status == TN_OK && e.total)
    status = gpu_nccl_joined(x->g) ? by_nccl(&e) : through_host(&e);
  tn_free(&e.bytes);
  tn_free(&e.send);
  tn_free(&e.all);
  return status;
}
