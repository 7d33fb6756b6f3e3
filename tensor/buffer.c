/* buffer.c: refcounted arrays and views of them. A view holds its parent; counts are atomic, because
 * executors in several threads may share a buffer. Host memory only here: map and unmap mark intent. A map for
 * writing counts in the buffer at the root, which owns the storage, so that a device knows when its copy of it, or
 * of any view, is out of date; another view of the same storage counts as well, which costs one copy too many. */
#include "tensor/tensor.h"

#include <stdatomic.h>

struct tn_buffer {
  atomic_size_t count;
  _Atomic uint64_t version; /* maps for writing; of a buffer without a parent */
  tn_dtype dtype;
  size_t rank, extent[TN_MAX_RANK];
  tn_buffer *parent; /* of a view */
  void *data;        /* owned if there is no parent */
};

static tn_status make(tn_dtype dtype, size_t rank, const size_t *extent, tn_buffer **out) {
  *out = NULL;
  if (rank > TN_MAX_RANK) return TN_FAIL(TN_ESHAPE, "buffer: rank %zu, at most %d", rank, TN_MAX_RANK);
  size_t total = tn_dtype_size(dtype);
  for (size_t i = 0; i < rank; ++i) {
    if (extent[i] && total > (size_t)PTRDIFF_MAX / extent[i])
      return TN_FAIL(TN_ENOMEM, "buffer: extent %zu of axis %zu overflows the address space", extent[i],
                     i);
    total *= extent[i];
  }
  TN_TRY(TN_NEW(1, out));
  (*out)->count = 1;
  (*out)->dtype = dtype;
  (*out)->rank = rank;
  for (size_t i = 0; i < rank; ++i) (*out)->extent[i] = extent[i];
  return TN_OK;
}

tn_status tn_buffer_new(tn_dtype dtype, size_t rank, const size_t *extent, tn_buffer **out) {
  TN_TRY(make(dtype, rank, extent, out));
  tn_status status = tn_new(tn_buffer_count(*out), tn_dtype_size(dtype), &(*out)->data);
  if (status != TN_OK) tn_free(out);
  return status;
}

tn_status tn_buffer_view(tn_buffer *parent, size_t offset, size_t rank, const size_t *extent,
                         tn_buffer **out) {
  tn_buffer *view = NULL;
  *out = NULL;
  TN_TRY(make(parent->dtype, rank, extent, &view));
  size_t count = tn_buffer_count(view), room = tn_buffer_count(parent);
  if (offset > room || count > room - offset) {
    tn_free(&view);
    return TN_FAIL(TN_ESHAPE, "view: elements %zu to %zu of a buffer of %zu", offset, offset + count,
                   room);
  }
  view->parent = tn_buffer_retain(parent);
  view->data = (char *)parent->data + offset * tn_dtype_size(parent->dtype);
  *out = view;
  return TN_OK;
}

tn_buffer *tn_buffer_retain(tn_buffer *buffer) {
  if (buffer) atomic_fetch_add(&buffer->count, 1);
  return buffer;
}

void tn_buffer_release(tn_buffer **buffer) {
  if (!buffer || !*buffer) return;
  if (atomic_fetch_sub(&(*buffer)->count, 1) == 1) {
    if ((*buffer)->parent) tn_buffer_release(&(*buffer)->parent);
    else tn_free(&(*buffer)->data);
    tn_free(buffer);
  }
  *buffer = NULL;
}

tn_dtype tn_buffer_dtype(const tn_buffer *buffer) { return buffer->dtype; }
size_t tn_buffer_rank(const tn_buffer *buffer) { return buffer->rank; }
size_t tn_buffer_extent(const tn_buffer *buffer, size_t axis) {
  return axis < buffer->rank ? buffer->extent[axis] : 1;
}

size_t tn_buffer_count(const tn_buffer *buffer) {
  size_t count = 1;
  for (size_t i = 0; i < buffer->rank; ++i) count *= buffer->extent[i];
  return count;
}

static const tn_buffer *root_of(const tn_buffer *buffer) {
  while (buffer->parent) buffer = buffer->parent;
  return buffer;
}

void *tn_map(tn_buffer *buffer, tn_access access) {
  if (access & TN_WRITE) {
    tn_buffer *root = (tn_buffer *)(uintptr_t)root_of(buffer); /* as little const as `buffer` */
    atomic_fetch_add(&root->version, 1);
  }
  return buffer->data;
}

uint64_t tn_buffer_version(const tn_buffer *buffer) {
  tn_buffer *root = (tn_buffer *)(uintptr_t)root_of(buffer); /* atomic_load of gcc wants it so */
  return atomic_load(&root->version);
}

void tn_unmap(tn_buffer *buffer) { (void)buffer; }
