/* memory.c: device memory and pinned memory of the emulated device.
 *
 * A block of device memory is a mapping of its own, far from the heap, between pages that nobody
 * may touch, filled with 0xFF. It is closed to the host except while the device works (option
 * protect), so a host that follows a device pointer stops at once, as it would on a machine with a
 * GPU. Each copy must lie within one block on the device's side and outside all of them on the
 * host's. What a driver would answer by damage is a fault here.
 */
#include "tests/device/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_ROOM = 1 << 16, FILL_ROOM = 2 << 20 };
static const uintptr_t first_address =
    0x500000000000; /* above any heap, below the stacks, on x86-64 and aarch64 */

typedef struct block {
  char *data;
  size_t bytes;  /* as asked for */
  size_t mapped; /* from data on */
  CUdevice device;
  bool owned; /* pinned memory that is a mapping of this file */
  struct block *next;
} block;

static block *blocks, *pinned_blocks;
static uintptr_t next_address;
static size_t device_bytes, n_blocks, n_pinned;
static unsigned opened;

static block *block_of(block *list, const void *pointer) {
  for (block *b = list; b; b = b->next)
    if ((const char *)pointer >= b->data && (const char *)pointer < b->data + b->mapped)
      return b;
  return NULL;
}

bool device_block(const void *pointer, size_t bytes, size_t *left) {
  const block *b = block_of(blocks, pointer);
  if (!b)
    return false;
  size_t offset = (size_t)((const char *)pointer - b->data);
  *left = offset < b->bytes ? b->bytes - offset : 0;
  return bytes <= *left;
}

bool pinned(const void *pointer, size_t bytes) {
  const block *b = block_of(pinned_blocks, pointer);
  return b && bytes <= b->bytes && (size_t)((const char *)pointer - b->data) <= b->bytes - bytes;
}

bool emulated_device_range(const char *what, const void *pointer, size_t bytes) {
  size_t left = 0;
  if (device_block(pointer, bytes, &left))
    return true;
  emulated_fault(
      "%s: %zu bytes at %p are not within one block of device memory (%zu bytes left in it)", what,
      bytes, pointer, left);
  return false;
}

static bool host_range(const char *what, const void *pointer, size_t bytes) {
  size_t left;
  if (pointer && !device_block(pointer, 1, &left) &&
      !device_block((const char *)pointer + bytes - (bytes > 0), 1, &left))
    return true;
  emulated_fault("%s: %p is not host memory", what, pointer);
  return false;
}

void memory_open(void) {
  if (opened++ || !emulated_options.protect)
    return;
  for (block *b = blocks; b; b = b->next)
    mprotect(b->data, b->mapped, PROT_READ | PROT_WRITE);
}

void memory_close(void) {
  if (--opened || !emulated_options.protect)
    return;
  for (block *b = blocks; b; b = b->next)
    mprotect(b->data, b->mapped, PROT_NONE);
}

void memory_count(emulate_alive *out) {
  out->bytes = device_bytes;
  out->blocks = n_blocks;
  out->pinned = n_pinned;
}

/* 0xFF. Large blocks are private mappings of one small file of it, so what nobody touches costs
 * nothing. */
static void fill_unwritten(char *data, size_t bytes) {
  static int file = -1;
  size_t done = 0;
  if (bytes >= FILL_ROOM && file < 0) {
    file = memfd_create("emulated-unwritten", MFD_CLOEXEC);
    char *page = file >= 0 && ftruncate(file, FILL_ROOM) == 0
                     ? mmap(NULL, FILL_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    if (page != MAP_FAILED) {
      memset(page, 0xff, FILL_ROOM);
      munmap(page, FILL_ROOM);
    } else if (file >= 0) {
      close(file);
      file = -1;
    }
  }
  for (; file >= 0 && bytes - done >= FILL_ROOM; done += FILL_ROOM)
    if (mmap(data + done, FILL_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) ==
        MAP_FAILED)
      break;
  memset(data + done, 0xff, bytes - done);
}

static CUresult device_new(CUdevice device, size_t bytes, CUdeviceptr *out) {
  size_t most = (size_t)emulated_options.memory << 20;
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > most || device_bytes > most - bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!next_address)
    next_address = first_address + (((uintptr_t)getpid() & 0xff) << 36);
  size_t mapped = (bytes + PAGE_ROOM - 1) / PAGE_ROOM * PAGE_ROOM;
  char *at = mmap((void *)next_address, mapped + 2 * PAGE_ROOM, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  block *b = malloc(sizeof *b);
  if (at == MAP_FAILED || !b || mprotect(at + PAGE_ROOM, mapped, PROT_READ | PROT_WRITE)) {
    free(b);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  next_address += mapped + 2 * PAGE_ROOM;
  *b = (block){at + PAGE_ROOM, bytes, mapped, device, true, blocks};
  fill_unwritten(b->data, mapped);
  if (emulated_options.protect && !opened)
    mprotect(b->data, mapped, PROT_NONE);
  blocks = b;
  device_bytes += bytes;
  ++n_blocks;
  *out = (CUdeviceptr)b->data;
  return CUDA_SUCCESS;
}

static CUresult device_free(CUdeviceptr pointer) {
  for (block **at = &blocks; *at; at = &(*at)->next) {
    block *b = *at;
    if (b->data != (char *)pointer)
      continue;
    *at = b->next;
    munmap(b->data - PAGE_ROOM, b->mapped + 2 * PAGE_ROOM); /* its addresses are not used again */
    device_bytes -= b->bytes;
    --n_blocks;
    free(b);
    return CUDA_SUCCESS;
  }
  emulated_fault("cuMemFree: %p is no block of device memory (freed twice?)", (void *)pointer);
  return CUDA_ERROR_INVALID_VALUE;
}

EMULATED CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  context *c;
  ENTER("cuMemAlloc", &c);
  if (!out)
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  if (capture_forbids(c, "cuMemAlloc"))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  LEAVE(device_new(c->device, bytes, out));
}

EMULATED CUresult cuMemFree(CUdeviceptr pointer) {
  context *c;
  ENTER("cuMemFree", &c);
  if (!pointer)
    LEAVE(CUDA_SUCCESS);
  if (capture_forbids(c, "cuMemFree"))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUresult result = context_drain(c);
  CUresult freed = device_free(pointer);
  LEAVE(result ? result : freed);
}

EMULATED CUresult cuMemGetInfo(size_t *available, size_t *total) {
  context *c;
  ENTER("cuMemGetInfo", &c);
  *total = (size_t)emulated_options.memory << 20;
  *available = *total - device_bytes;
  LEAVE(CUDA_SUCCESS);
}

static CUresult pinned_new(const char *call, void **out, size_t bytes) {
  context *c;
  ENTER(call, &c);
  size_t mapped = (bytes + PAGE_ROOM - 1) / PAGE_ROOM * PAGE_ROOM;
  if (bytes == 0)
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  char *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  block *b = malloc(sizeof *b);
  if (at == MAP_FAILED || !b) {
    free(b);
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  }
  *b = (block){at, bytes, mapped, c->device, true, pinned_blocks};
  memset(at, 0xff, mapped);
  pinned_blocks = b;
  ++n_pinned;
  *out = at;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuMemAllocHost(void **out, size_t bytes) {
  return pinned_new("cuMemAllocHost", out, bytes);
}
EMULATED CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return pinned_new("cuMemHostAlloc", out, bytes);
}

EMULATED CUresult cuMemFreeHost(void *pointer) {
  context *c;
  ENTER("cuMemFreeHost", &c);
  CUresult result = context_drain(c);
  for (block **at = &pinned_blocks; *at; at = &(*at)->next) {
    block *b = *at;
    if (b->data != pointer)
      continue;
    *at = b->next;
    munmap(b->data, b->mapped);
    free(b);
    --n_pinned;
    LEAVE(result);
  }
  emulated_fault("cuMemFreeHost: %p is no pinned block (freed twice?)", pointer);
  LEAVE(CUDA_ERROR_INVALID_VALUE);
}

/* Memory of the host's own that is pinned for a while. */
EMULATED CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  context *c;
  ENTER("cuMemHostRegister", &c);
  block *b = malloc(sizeof *b);
  if (!b)
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  *b = (block){pointer, bytes, bytes, c->device, false, pinned_blocks};
  pinned_blocks = b;
  ++n_pinned;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuMemHostUnregister(void *pointer) {
  context *c;
  ENTER("cuMemHostUnregister", &c);
  for (block **at = &pinned_blocks; *at; at = &(*at)->next) {
    block *b = *at;
    if (b->data != pointer)
      continue;
    *at = b->next;
    free(b);
    --n_pinned;
    LEAVE(CUDA_SUCCESS);
  }
  LEAVE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* A context takes its memory with it, pinned memory too. */
void memory_free_of(CUdevice device) {
  for (block *b = blocks, *next; b; b = next) {
    next = b->next;
    if (b->device == device)
      device_free((CUdeviceptr)b->data);
  }
  for (block **at = &pinned_blocks; *at;) {
    block *b = *at;
    if (b->device != device) {
      at = &b->next;
      continue;
    }
    *at = b->next;
    if (b->owned)
      munmap(b->data, b->mapped);
    free(b);
    --n_pinned;
  }
}

/* ---- Copies and fills ---------------------------------------------------------------------------
 * A copy between pinned host memory and the device reads and writes when the queue comes to it.
 * From other host memory the data are taken at once; to it the call waits. */
typedef struct copy {
  void *to;
  const void *from; /* NULL: the data follow */
  size_t bytes;
} copy;

static CUresult run_copy(void *data) {
  const copy *c = data;
  memmove(c->to, c->from ? c->from : (const void *)(c + 1), c->bytes);
  return CUDA_SUCCESS;
}

typedef enum direction { TO_DEVICE, TO_HOST, ON_DEVICE } direction;

static CUresult queue_copy(const char *call, CUstream handle, direction way, void *to,
                           const void *from, size_t bytes, bool wait) {
  stream *s;
  CUresult result = stream_of(handle, &s);
  if (result || bytes == 0)
    return result;
  bool good = (way == TO_HOST ? host_range : emulated_device_range)(call, to, bytes);
  good = (way == TO_DEVICE ? host_range : emulated_device_range)(call, from, bytes) && good;
  if (!good)
    return CUDA_ERROR_INVALID_VALUE;
  const void *host = way == TO_DEVICE ? from : to;
  bool held = way == ON_DEVICE || pinned(host, bytes), captured = s->capturing != NULL;
  bool take = way == TO_DEVICE && !held && !captured;
  size_t room = sizeof(copy) + (take ? bytes : 0);
  copy *c = malloc(room);
  if (!c)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *c = (copy){to, take ? NULL : from, bytes};
  if (take)
    memcpy(c + 1, from, bytes);
  result = emulated_queue(handle, "copy", run_copy, c, room);
  free(c);
  if (!result && !captured && (wait || (way == TO_HOST && !held)))
    result = stream_drain(s);
  return result;
}

#define HOST(pointer) ((void *)(uintptr_t)(pointer))
static CUresult copy_call(const char *call, CUstream handle, direction way, void *to,
                          const void *from, size_t bytes, bool wait) {
  context *c;
  ENTER(call, &c);
  if (wait && capture_forbids(c, call))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  LEAVE(queue_copy(call, handle, way, to, from, bytes, wait));
}

EMULATED CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return copy_call("cuMemcpyHtoD", NULL, TO_DEVICE, HOST(to), from, bytes, true);
}
EMULATED CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return copy_call("cuMemcpyDtoH", NULL, TO_HOST, to, HOST(from), bytes, true);
}
EMULATED CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call("cuMemcpyDtoD", NULL, ON_DEVICE, HOST(to), HOST(from), bytes, true);
}
EMULATED CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  return copy_call("cuMemcpyHtoDAsync", s, TO_DEVICE, HOST(to), from, bytes, false);
}
EMULATED CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy_call("cuMemcpyDtoHAsync", s, TO_HOST, to, HOST(from), bytes, false);
}
EMULATED CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy_call("cuMemcpyDtoDAsync", s, ON_DEVICE, HOST(to), HOST(from), bytes, false);
}

typedef struct fill {
  char *to;
  unsigned value, width;
  size_t n;
} fill;

static CUresult run_fill(void *data) {
  const fill *f = data;
  for (size_t i = 0; i < f->n; ++i)
    memcpy(f->to + i * f->width, &f->value, f->width); /* little-endian: the low bytes come first */
  return CUDA_SUCCESS;
}

static CUresult fill_call(const char *call, CUstream handle, CUdeviceptr to, unsigned value,
                          unsigned width, size_t n, bool wait) {
  context *c;
  ENTER(call, &c);
  stream *s;
  CUresult result = stream_of(handle, &s);
  if (result || n == 0)
    LEAVE(result);
  if (!emulated_device_range(call, HOST(to), n * width))
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  fill f = {HOST(to), value, width, n};
  result = emulated_queue(handle, "fill", run_fill, &f, sizeof f);
  LEAVE(result || !wait || s->capturing ? result : stream_drain(s));
}

EMULATED CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n) {
  return fill_call("cuMemsetD8", NULL, to, value, 1, n, true);
}
EMULATED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s) {
  return fill_call("cuMemsetD8Async", s, to, value, 1, n, false);
}
EMULATED CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t n) {
  return fill_call("cuMemsetD32", NULL, to, value, 4, n, true);
}
EMULATED CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s) {
  return fill_call("cuMemsetD32Async", s, to, value, 4, n, false);
}
