/* alloc.c: the one place that asks the system for memory.
 *
 * Every block is zeroed and begins at a multiple of 64 bytes, a cache line and the widest vector
 * register. The 64 bytes before it are a header that holds the size asked for, so that freeing
 * keeps the books without being told the size:
 *
 *     [ header, 64 bytes | block, `bytes` bytes ]
 *                          ^ what the caller sees
 *
 * The block ends where the request ends, without padding: an address sanitizer then catches the
 * first byte beyond. Products count * size are checked before anything is allocated.
 *
 * Statistics count the bytes asked for, without headers; they and the fault injector are atomic, so
 * all functions may be called from any thread. Fault injection exists for tests that walk through
 * every allocation of an operation and see each of its failures handled.
 */
#include "tensor/tensor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct {
  _Alignas(ALIGNMENT) size_t bytes; /* of the block behind it */
} header;

_Static_assert(sizeof(header) == ALIGNMENT, "a header must keep the block behind it aligned");

static atomic_size_t bytes_now, bytes_peak;
static atomic_uint_fast64_t fault_index;   /* 1-based index of the allocation that fails; 0: none */
static atomic_bool fault_onward;           /* all later ones fail, too */
static atomic_uint_fast64_t n_allocations; /* since the last tn_fault_at */

static bool is_faulty(void) {
  uint64_t index = atomic_fetch_add(&n_allocations, 1) + 1;
  uint64_t chosen = atomic_load(&fault_index);
  if (chosen == 0)
    return false;
  return index == chosen || (index > chosen && atomic_load(&fault_onward));
}

static void count_bytes(size_t bytes) {
  size_t now = atomic_fetch_add(&bytes_now, bytes) + bytes;
  size_t peak = atomic_load(&bytes_peak);
  while (now > peak && !atomic_compare_exchange_weak(&bytes_peak, &peak, now)) {
  }
}

static header *header_of(void *block) { return (header *)block - 1; }

/* A block whose first `keep` bytes are for the caller to fill; the rest is zero. NULL without
 * memory. */
static void *new_block(size_t bytes, size_t keep) {
  void *raw = NULL;
  if (is_faulty() || bytes > PTRDIFF_MAX - sizeof(header))
    return NULL;
  if (posix_memalign(&raw, ALIGNMENT, sizeof(header) + bytes) != 0)
    return NULL;
  header *h = raw;
  h->bytes = bytes;
  char *block = (char *)(h + 1);
  memset(block + keep, 0, bytes - keep);
  count_bytes(bytes);
  return block;
}

static void free_block(void *block) {
  if (!block)
    return;
  header *h = header_of(block);
  atomic_fetch_sub(&bytes_now, h->bytes);
  free(h);
}

static tn_status product(size_t count, size_t size, size_t *bytes) {
  if (size != 0 && count > SIZE_MAX / size)
    return TN_FAIL(TN_ENOMEM, "memory: %zu elements of %zu bytes are more than can be addressed",
                   count, size);
  *bytes = count * size;
  return TN_OK;
}

/* The caller's variable is a T * of unknown T: its bytes are moved, it is never read as a void *.
 */
static void *load_pointer(const void *variable) {
  void *value = NULL;
  memcpy(&value, variable, sizeof value);
  return value;
}

static void store_pointer(void *variable, void *value) { memcpy(variable, &value, sizeof value); }

tn_status tn_new(size_t count, size_t size, void *out) {
  size_t bytes = 0;
  store_pointer(out, NULL); /* so that freeing after a failure is harmless */
  TN_TRY(product(count, size, &bytes));
  void *block = new_block(bytes, 0);
  if (!block)
    return TN_FAIL(TN_ENOMEM, "memory: no %zu bytes to be had", bytes);
  store_pointer(out, block);
  return TN_OK;
}

tn_status tn_grow(void *pointer, size_t old_count, size_t new_count, size_t size) {
  size_t old_bytes = 0, new_bytes = 0;
  void *old = load_pointer(pointer);
  if (new_count < old_count)
    return TN_FAIL(TN_ERANGE, "memory: cannot grow from %zu elements to %zu", old_count, new_count);
  TN_TRY(product(old_count, size, &old_bytes));
  TN_TRY(product(new_count, size, &new_bytes));
  size_t held = old ? header_of(old)->bytes : 0;
  if (held < old_bytes)
    return TN_FAIL(TN_ERANGE, "memory: a block to grow holds %zu bytes, not %zu elements of %zu",
                   held, old_count, size);
  if (old && new_count == old_count)
    return TN_OK;
  void *block = new_block(new_bytes, old_bytes);
  if (!block)
    return TN_FAIL(TN_ENOMEM, "memory: no %zu bytes to be had", new_bytes);
  if (old_bytes > 0)
    memcpy(block, old, old_bytes); /* realloc would lose the alignment */
  free_block(old);
  store_pointer(pointer, block);
  return TN_OK;
}

tn_status tn_copy_text(const char *text, char **out) {
  *out = NULL;
  if (!text)
    return TN_FAIL(TN_EINPUT, "memory: the text to copy is NULL");
  size_t bytes = strlen(text) + 1;
  char *copy = NULL;
  TN_TRY(tn_new(bytes, 1, &copy));
  memcpy(copy, text, bytes);
  *out = copy;
  return TN_OK;
}

void tn_free(void *pointer) {
  if (!pointer)
    return;
  free_block(load_pointer(pointer));
  store_pointer(pointer, NULL);
}

size_t tn_memory_now(void) { return atomic_load(&bytes_now); }

size_t tn_memory_peak(void) { return atomic_load(&bytes_peak); }

void tn_memory_reset_peak(void) { atomic_store(&bytes_peak, atomic_load(&bytes_now)); }

void tn_fault_at(uint64_t n, bool onward) {
  atomic_store(&fault_index, 0); /* no fault while the rest changes */
  atomic_store(&fault_onward, onward);
  atomic_store(&n_allocations, 0);
  atomic_store(&fault_index, n);
}

uint64_t tn_fault_count(void) { return atomic_load(&n_allocations); }
