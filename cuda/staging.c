/* staging.c: copies between host and device through pinned memory.
 *
 * The device copies at full speed, and while the host goes on, only from and to memory that the system cannot move
 * ("pinned"). Buffers of the program are not, so copies go in pieces through a few pinned chunks. A *lane* is a ring
 * of chunks, each with an event that the copies out of it are followed by; a chunk is filled again when its event has
 * come. Small uploads share a chunk one after another. There is a lane for uploads in the stream of work, one for
 * those that run ahead of it, and one for downloads, so an event stands for copies of one stream only.
 *
 * An upload copies into a chunk, queues the copy to the device and returns: `from` is the caller's again at once. It
 * waits only when all chunks of its lane are full of copies that the device has not done yet. Uploads that run ahead
 * go through the second stream, which waits for the work only if the memory was handed out again so recently that
 * earlier work may still use it; the work stream waits for them by their event.
 */
#include <string.h>

#include "cuda/context.h"

enum { CHUNKS = 4, UNIT = 256 };
static const size_t chunk_bytes = (size_t)2 << 20;

typedef struct {
  char *pinned;  /* NULL: not there yet */
  CUevent event; /* after the last copy from or to it */
  size_t filled;
  bool pending; /* the event was recorded and not waited for */
} chunk;

typedef struct {
  chunk chunks[CHUNKS];
  size_t current;
} lane;

typedef struct gpu_staging gpu_staging;
struct gpu_staging {
  lane work, ahead, down;
  CUevent fence; /* the work queued before an upload that runs ahead */
};

static tn_status wait_for(gpu_context *g, chunk *c) {
  if (!c->pending)
    return TN_OK;
  GPU_TRY(g, cuEventSynchronize, (c->event));
  c->pending = false;
  return TN_OK;
}

/* The event and the pinned memory of a chunk, when it is first used. */
static tn_status need_chunk(gpu_context *g, chunk *c) {
  if (c->event == NULL)
    GPU_TRY(g, cuEventCreate, (&c->event, CU_EVENT_DISABLE_TIMING));
  if (c->pinned == NULL) {
    void *pinned = NULL;
    GPU_TRY(g, cuMemAllocHost, (&pinned, chunk_bytes));
    c->pinned = pinned;
  }
  return TN_OK;
}

/* Room for up to `bytes` in the lane: *c, *at bytes into it, *room of them. */
static tn_status find_room(gpu_context *g, lane *l, size_t bytes, chunk **c, size_t *at, size_t *room) {
  chunk *now = &l->chunks[l->current];
  const size_t wish = bytes < chunk_bytes ? bytes : chunk_bytes;
  if (now->filled > 0 && wish > chunk_bytes - now->filled) {
    l->current = (l->current + 1) % CHUNKS;
    now = &l->chunks[l->current];
    TN_TRY(wait_for(g, now));
    now->filled = 0;
  }
  TN_TRY(need_chunk(g, now));
  *c = now;
  *at = now->filled;
  *room = wish;
  return TN_OK;
}

static tn_status note_copy(gpu_context *g, chunk *c, size_t end, CUstream stream) {
  GPU_TRY(g, cuEventRecord, (c->event, stream));
  c->pending = true;
  c->filled = (end + UNIT - 1) / UNIT * UNIT;
  return TN_OK;
}

static tn_status upload_piece(gpu_context *g, lane *l, CUstream stream, CUdeviceptr to, const char *from,
                              size_t bytes, size_t *done, chunk **used) {
  size_t at = 0, room = 0;
  TN_TRY(find_room(g, l, bytes, used, &at, &room));
  memcpy((*used)->pinned + at, from, room);
  GPU_TRY(g, cuMemcpyHtoDAsync, (to, (*used)->pinned + at, room, stream));
  *done = room;
  return note_copy(g, *used, at + room, stream);
}

tn_status gpu_upload(gpu_context *g, bool ahead, CUdeviceptr to, const void *from, size_t bytes) {
  gpu_staging *s = g->staging;
  lane *l = ahead ? &s->ahead : &s->work;
  CUstream stream = ahead ? g->copies : g->stream;
  chunk *last = NULL;
  if (ahead && bytes > 0 && !gpu_pool_quiet(g, to)) {
    GPU_TRY(g, cuEventRecord, (s->fence, g->stream));
    GPU_TRY(g, cuStreamWaitEvent, (g->copies, s->fence, 0));
  }
  for (size_t done = 0, n = 0; done < bytes; done += n)
    TN_TRY(upload_piece(g, l, stream, to + done, (const char *)from + done, bytes - done, &n, &last));
  if (ahead && last != NULL)
    GPU_TRY(g, cuStreamWaitEvent, (g->stream, last->event, 0));
  return TN_OK;
}

/* Piece k of a download lies in chunk k % CHUNKS. */
static size_t piece_bytes(size_t bytes, size_t k) {
  const size_t left = bytes - k * chunk_bytes;
  return left < chunk_bytes ? left : chunk_bytes;
}

static tn_status queue_piece(gpu_context *g, lane *l, CUdeviceptr from, size_t bytes, size_t k) {
  chunk *c = &l->chunks[k % CHUNKS];
  TN_TRY(need_chunk(g, c));
  TN_TRY(wait_for(g, c)); /* of a download that failed half-way */
  GPU_TRY(g, cuMemcpyDtoHAsync, (c->pinned, from + k * chunk_bytes, piece_bytes(bytes, k), g->stream));
  return note_copy(g, c, 0, g->stream);
}

tn_status gpu_download(gpu_context *g, void *to, CUdeviceptr from, size_t bytes) {
  lane *l = &g->staging->down;
  const size_t pieces = (bytes + chunk_bytes - 1) / chunk_bytes;
  size_t queued = 0;
  for (size_t k = 0; k < pieces; ++k) {
    for (; queued < pieces && queued < k + CHUNKS; ++queued)
      TN_TRY(queue_piece(g, l, from, bytes, queued));
    TN_TRY(wait_for(g, &l->chunks[k % CHUNKS]));
    if (k == 0)
      gpu_pool_waited(g); /* its copy came after all the work queued so far */
    memcpy((char *)to + k * chunk_bytes, l->chunks[k % CHUNKS].pinned, piece_bytes(bytes, k));
  }
  return TN_OK;
}

tn_status gpu_staging_new(gpu_context *g) {
  TN_TRY(TN_NEW(1, &g->staging));
  GPU_TRY(g, cuEventCreate, (&g->staging->fence, CU_EVENT_DISABLE_TIMING));
  return TN_OK;
}

void gpu_staging_free(gpu_context *g) {
  gpu_staging *s = g->staging;
  if (s == NULL)
    return;
  lane *const lanes[3] = {&s->work, &s->ahead, &s->down};
  for (size_t i = 0; i < 3 * CHUNKS; ++i) {
    chunk *c = &lanes[i / CHUNKS]->chunks[i % CHUNKS];
    if (c->pending)
      (void)g->driver->cuEventSynchronize(c->event); /* a lost device has no copies under way */
    if (c->event != NULL)
      (void)g->driver->cuEventDestroy(c->event);
    if (c->pinned != NULL)
      (void)g->driver->cuMemFreeHost(c->pinned);
  }
  if (s->fence != NULL)
    (void)g->driver->cuEventDestroy(s->fence);
  tn_free(&g->staging);
}
