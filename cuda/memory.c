/* memory.c: device memory, a caching pool on cuMemAlloc.
 *
 * cuMemAlloc takes up to a millisecond and waits for the device; a solver takes and gives the same sizes at every
 * step. So what is given back is kept. Memory comes from the driver in *segments*: 2 MiB that small requests (up to
 * 1 MiB) share, and at least 16 MiB, in units of 2 MiB, for larger ones. A segment is a chain of *pieces* in order of
 * address, each in use or free; two free neighbours are one. Free pieces hang in bins by the power of two below their
 * length; a request takes the shortest that is long enough from the first bin that has one, and what is left over is
 * a free piece again. Small and large ones have bins of their own, so that crumbs do not cut up large segments.
 *
 * A piece that is given back may be handed out at once: all work goes through one stream, in order. Only uploads that
 * run ahead of it need care: a piece remembers the number of the last `give` of what it is made of, and is quiet
 * when the stream was waited for since (gpu_pool_waited).
 *
 * When the driver has no more, free memory may be the reason: scattered in segments of other sizes. Then, and only
 * then, segments that are free in whole go back to the driver, and it is asked again.
 */
#include <stdlib.h>

#include "cuda/context.h"

enum { UNIT = 256, BINS = 48, SLAB = 64 };
static const size_t small_most = (size_t)1 << 20, segment_unit = (size_t)2 << 20, large_least = (size_t)16 << 20;

typedef struct piece {
  CUdeviceptr at;
  size_t bytes;
  struct piece *before, *after;   /* in the segment, by address; ends NULL */
  struct piece *previous, *next;  /* free: in its bin. In use: next, in its chain of the table. Spare: next */
  uint64_t given;                 /* number of the last give of any part; 0: fresh */
  bool used, small;
} piece;

typedef struct slab {
  struct slab *next;
  piece pieces[SLAB];
} slab;

typedef struct gpu_pool gpu_pool;
struct gpu_pool {
  piece *bin[2][BINS]; /* [small][log2 of units], shortest first */
  piece **table;       /* pieces in use by address */
  size_t table_size;   /* power of two */
  piece *spare;        /* structs to reuse */
  slab *slabs;
  uint64_t fault;         /* the request that fails as if there were no memory; 0: none (PINN_CUDA_FAIL_ALLOCATION) */
  uint64_t gives, waited; /* gives so far; those that the stream was waited for after */
  gpu_memory facts;
};

/* ---- Host structs ------------------------------------------------------------------------------ */

static tn_status add_spares(gpu_pool *pool) {
  slab *s = NULL;
  TN_TRY(TN_NEW(1, &s));
  s->next = pool->slabs;
  pool->slabs = s;
  for (size_t i = 0; i < SLAB; ++i) {
    s->pieces[i].next = pool->spare;
    pool->spare = &s->pieces[i];
  }
  return TN_OK;
}

/* Two spare structs, the most that a request needs, so that it cannot fail half-way. */
static tn_status need_spares(gpu_pool *pool) {
  return pool->spare != NULL && pool->spare->next != NULL ? TN_OK : add_spares(pool);
}

static piece *take_spare(gpu_pool *pool) {
  piece *p = pool->spare;
  pool->spare = p->next;
  *p = (piece){0};
  return p;
}

static void drop(gpu_pool *pool, piece *p) {
  *p = (piece){.next = pool->spare};
  pool->spare = p;
}

/* ---- Pieces in use, by address ----------------------------------------------------------------- */

static size_t place(CUdeviceptr at, size_t size) {
  return (size_t)(((uint64_t)at / UNIT * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (size - 1);
}

static void table_add(gpu_pool *pool, piece *p) {
  piece **chain = &pool->table[place(p->at, pool->table_size)];
  p->next = *chain;
  *chain = p;
}

static tn_status table_room(gpu_pool *pool) {
  if (pool->facts.blocks < pool->table_size)
    return TN_OK;
  const size_t size = pool->table_size == 0 ? 256 : 2 * pool->table_size, old_size = pool->table_size;
  piece **table = NULL, **old = pool->table;
  TN_TRY(tn_new(size, sizeof *table, &table));
  pool->table = table;
  pool->table_size = size;
  for (size_t i = 0; i < old_size; ++i) {
    for (piece *p = old[i], *next = NULL; p != NULL; p = next) {
      next = p->next;
      table_add(pool, p);
    }
  }
  tn_free(&old);
  return TN_OK;
}

static piece *table_find(const gpu_pool *pool, CUdeviceptr at) {
  piece *p = pool->table_size > 0 ? pool->table[place(at, pool->table_size)] : NULL;
  while (p != NULL && p->at != at)
    p = p->next;
  return p;
}

static void table_remove(gpu_pool *pool, const piece *p) {
  piece **link = &pool->table[place(p->at, pool->table_size)];
  while (*link != p)
    link = &(*link)->next;
  *link = p->next;
}

/* ---- Free pieces, by length -------------------------------------------------------------------- */

static size_t bin_of(size_t bytes) {
  size_t k = 0;
  for (size_t units = bytes / UNIT; units > 1 && k + 1 < BINS; units /= 2)
    ++k;
  return k;
}

static void bin_add(gpu_pool *pool, piece *p) {
  piece **link = &pool->bin[p->small][bin_of(p->bytes)], *previous = NULL;
  for (; *link != NULL && (*link)->bytes < p->bytes; link = &(*link)->next)
    previous = *link;
  p->previous = previous;
  p->next = *link;
  if (p->next != NULL)
    p->next->previous = p;
  *link = p;
}

static void bin_remove(gpu_pool *pool, piece *p) {
  if (p->previous != NULL) {
    p->previous->next = p->next;
  } else {
    pool->bin[p->small][bin_of(p->bytes)] = p->next;
  }
  if (p->next != NULL)
    p->next->previous = p->previous;
  p->previous = p->next = NULL;
}

/* The shortest free piece of at least so many bytes. */
static piece *bin_find(const gpu_pool *pool, bool small, size_t bytes) {
  for (size_t k = bin_of(bytes); k < BINS; ++k) {
    piece *p = pool->bin[small][k];
    while (p != NULL && p->bytes < bytes)
      p = p->next;
    if (p != NULL)
      return p;
  }
  return NULL;
}

/* ---- Segments ---------------------------------------------------------------------------------- */

static bool is_whole_segment(const piece *p) { return p->before == NULL && p->after == NULL; }

/* A free piece is joined with its free neighbours and goes into a bin. */
static void put_free(gpu_pool *pool, piece *p) {
  p->used = false;
  piece *const sides[2] = {p->after, p->before};
  for (size_t i = 0; i < 2; ++i) {
    piece *q = sides[i];
    if (q == NULL || q->used)
      continue;
    bin_remove(pool, q);
    piece *const first = i == 0 ? p : q, *const second = i == 0 ? q : p;
    first->bytes += second->bytes;
    first->given = first->given > second->given ? first->given : second->given;
    first->after = second->after;
    if (first->after != NULL)
      first->after->before = first;
    drop(pool, second);
    p = first;
  }
  bin_add(pool, p);
}

/* One segment from the driver, as a free piece; `short_of`: it has no memory left. */
static tn_status new_segment(gpu_context *g, bool small, size_t bytes, bool *short_of) {
  gpu_pool *pool = g->pool;
  CUdeviceptr at = 0;
  ++pool->facts.driver_calls;
  const CUresult result = g->driver->cuMemAlloc(&at, bytes);
  *short_of = result == CUDA_ERROR_OUT_OF_MEMORY && g->broken == CUDA_SUCCESS;
  if (*short_of)
    return TN_OK;
  TN_TRY(gpu_result(g, result, "cuMemAlloc"));
  piece *p = take_spare(pool);
  p->at = at;
  p->bytes = bytes;
  p->small = small;
  pool->facts.reserved += bytes;
  if (pool->facts.reserved > pool->facts.most_reserved)
    pool->facts.most_reserved = pool->facts.reserved;
  bin_add(pool, p);
  return TN_OK;
}

/* Gives segments of which nothing is in use back to the driver; *bytes of them. */
static tn_status release_free(gpu_context *g, size_t *bytes) {
  gpu_pool *pool = g->pool;
  *bytes = 0;
  GPU_TRY(g, cuStreamSynchronize, (g->copies));
  GPU_TRY(g, cuStreamSynchronize, (g->stream));
  gpu_pool_waited(g);
  for (size_t k = 0; k < (size_t)2 * BINS; ++k) {
    for (piece *p = pool->bin[k % 2][k / 2], *next = NULL; p != NULL; p = next) {
      next = p->next;
      if (!is_whole_segment(p))
        continue;
      GPU_TRY(g, cuMemFree, (p->at));
      bin_remove(pool, p);
      pool->facts.reserved -= p->bytes;
      *bytes += p->bytes;
      drop(pool, p);
    }
  }
  return TN_OK;
}

static size_t largest_free(const gpu_pool *pool) {
  size_t most = 0;
  for (size_t k = 0; k < (size_t)2 * BINS; ++k) {
    for (const piece *p = pool->bin[k % 2][k / 2]; p != NULL; p = p->next)
      most = p->bytes > most ? p->bytes : most;
  }
  return most;
}

static tn_status no_memory(gpu_context *g, size_t bytes) {
  const gpu_pool *pool = g->pool;
  const double mib = 1.0 / (1 << 20);
  size_t left = 0, all = 0;
  if (g->driver->cuMemGetInfo(&left, &all) != CUDA_SUCCESS)
    left = 0;
  return TN_FAIL(TN_ENOMEM,
                 "cuda: no device memory for %.1f MiB: of %.0f MiB on %s, %.1f MiB are in use by this program, %.1f "
                 "MiB more reserved by it (the longest free piece has %.1f MiB) and %.1f MiB free for all; fewer "
                 "points, or more ranks, need less",
                 (double)bytes * mib, (double)g->bytes * mib, g->text, (double)pool->facts.used * mib,
                 (double)(pool->facts.reserved - pool->facts.used) * mib, (double)largest_free(pool) * mib,
                 (double)left * mib);
}

/* A free piece of at least so many bytes, from a new segment. */
static tn_status extend(gpu_context *g, bool small, size_t bytes) {
  const size_t exact = (bytes + segment_unit - 1) / segment_unit * segment_unit;
  const size_t roomy = small ? segment_unit : exact > large_least ? exact : large_least;
  bool short_of = false;
  TN_TRY(new_segment(g, small, roomy, &short_of));
  if (short_of && exact < roomy)
    TN_TRY(new_segment(g, small, exact, &short_of));
  if (!short_of)
    return TN_OK;
  size_t released = 0;
  TN_TRY(release_free(g, &released));
  if (released > 0) {
    ++g->pool->facts.defragmentations;
    TN_TRY(new_segment(g, small, exact, &short_of));
  }
  return short_of ? no_memory(g, bytes) : TN_OK;
}

/* ---- Taking and giving ------------------------------------------------------------------------- */

tn_status gpu_take(gpu_context *g, size_t bytes, CUdeviceptr *out) {
  gpu_pool *pool = g->pool;
  *out = 0;
  ++pool->facts.requests;
  if (g->broken != CUDA_SUCCESS)
    return gpu_result(g, g->broken, "cuMemAlloc");
  if (bytes > SIZE_MAX / 2 || pool->facts.requests == pool->fault)
    return no_memory(g, bytes);
  bytes = bytes == 0 ? UNIT : (bytes + UNIT - 1) / UNIT * UNIT;
  TN_TRY(need_spares(pool));
  TN_TRY(table_room(pool));
  const bool small = bytes <= small_most;
  piece *p = bin_find(pool, small, bytes);
  if (p != NULL) {
    ++pool->facts.hits;
  } else {
    TN_TRY(extend(g, small, bytes));
    p = bin_find(pool, small, bytes);
  }
  bin_remove(pool, p);
  if (p->bytes > bytes) {
    piece *rest = take_spare(pool);
    *rest = (piece){.at = p->at + bytes, .bytes = p->bytes - bytes, .before = p, .after = p->after,
                    .given = p->given, .small = small};
    if (rest->after != NULL)
      rest->after->before = rest;
    p->after = rest;
    p->bytes = bytes;
    bin_add(pool, rest);
  }
  p->used = true;
  table_add(pool, p);
  ++pool->facts.blocks;
  pool->facts.used += bytes;
  if (pool->facts.used > pool->facts.most_used)
    pool->facts.most_used = pool->facts.used;
  *out = p->at;
  return TN_OK;
}

void gpu_give(gpu_context *g, CUdeviceptr *pointer) {
  gpu_pool *pool = g->pool;
  if (pointer == NULL || *pointer == 0)
    return;
  piece *p = table_find(pool, *pointer);
  *pointer = 0;
  if (p == NULL) {
    tn_log_write(TN_LOG_ERROR, "cuda: memory was given back that the pool did not hand out");
    return;
  }
  table_remove(pool, p);
  --pool->facts.blocks;
  pool->facts.used -= p->bytes;
  p->given = ++pool->gives;
  put_free(pool, p);
}

void gpu_pool_waited(gpu_context *g) { g->pool->waited = g->pool->gives; }

bool gpu_pool_quiet(const gpu_context *g, CUdeviceptr pointer) {
  const piece *p = table_find(g->pool, pointer);
  return p != NULL && p->given <= g->pool->waited;
}

void gpu_pool_facts(const gpu_context *g, gpu_memory *out) {
  *out = g->pool->facts;
  out->largest_free = largest_free(g->pool);
}

tn_status gpu_pool_trim(gpu_context *g) {
  size_t bytes = 0;
  return release_free(g, &bytes);
}

/* ---- The pool ---------------------------------------------------------------------------------- */

tn_status gpu_pool_new(gpu_context *g) {
  const char *fault = getenv("PINN_CUDA_FAIL_ALLOCATION");
  TN_TRY(TN_NEW(1, &g->pool));
  if (fault != NULL)
    g->pool->fault = strtoull(fault, NULL, 10);
  return TN_OK;
}

/* What was never given back is free now. */
static void reclaim(gpu_context *g) {
  gpu_pool *pool = g->pool;
  if (pool->facts.blocks > 0) {
    tn_log_write(TN_LOG_DEBUG, "cuda: %zu pieces of device memory, %zu bytes, were not given back",
                 pool->facts.blocks, pool->facts.used);
  }
  for (size_t i = 0; i < pool->table_size; ++i) {
    while (pool->table[i] != NULL) {
      CUdeviceptr at = pool->table[i]->at;
      gpu_give(g, &at);
    }
  }
}

void gpu_pool_free(gpu_context *g) {
  gpu_pool *pool = g->pool;
  if (pool == NULL)
    return;
  reclaim(g);
  for (size_t k = 0; k < (size_t)2 * BINS; ++k) {
    for (const piece *p = pool->bin[k % 2][k / 2]; p != NULL; p = p->next)
      (void)g->driver->cuMemFree(p->at); /* a lost device has lost its memory, too */
  }
  while (pool->slabs != NULL) {
    slab *s = pool->slabs;
    pool->slabs = s->next;
    tn_free(&s);
  }
  tn_free(&pool->table);
  tn_free(&g->pool);
}
