/* nccl.c: libnccl of the emulated device: gathers and broadcasts between processes, and between
 * threads of one.
 *
 * Ranks meet in a file named after the unique id (TMPDIR): counters of who has joined and who has
 * published what, mapped by all; the data go through files of each rank, two in turn. A collective is
 * a work in a stream that first publishes this rank's part and then waits until the others have
 * published theirs. Two files suffice: when all have published a part, all have read the one before.
 *
 * A communicator that does not block says ncclInProgress first, here always, and
 * ncclCommGetAsyncError the rest; the script name "ncclAsync" makes that say something else. A rank
 * that aborts is a remote error to the others. Use after the end of a communicator is a fault.
 */
#include "tests/device/emulator.h"

#include <fcntl.h>
#include <limits.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, PATH_ROOM = 512, ALIVE = 0x4e43434c, ENDED = 0x656e6421 };

typedef struct meeting {
  atomic_uint joined, left;
  atomic_uint aborted[MOST_RANKS];
  atomic_ullong published[MOST_RANKS];
} meeting;

struct ncclComm {
  unsigned magic;
  int rank, size;
  bool blocking, finalizing, polled, aborted;
  uint64_t calls;
  meeting *at;
  char path[PATH_ROOM];
  struct ncclComm *next; /* all that were ever made: kept, so that use after the end is seen */
};
static ncclComm_t comms;

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (ncclResult_t)code_;                                                                  \
  } while (0)

static bool valid(ncclComm_t c, const char *call) {
  if (c && c->magic == ALIVE)
    return true;
  emulated_fault("%s: the communicator has ended", call);
  return false;
}

EMULATED ncclResult_t ncclGetVersion(int *version) {
  CALL("ncclGetVersion");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

EMULATED const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const words[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return (size_t)result < sizeof words / sizeof *words ? words[result] : "unknown result code";
}
EMULATED const char *ncclGetLastError(ncclComm_t c) {
  (void)c;
  return "";
}

EMULATED ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static atomic_uint count;
  CALL("ncclGetUniqueId");
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%ld-%lld-%ld-%u", (long)getpid(),
           (long long)now.tv_sec, now.tv_nsec, atomic_fetch_add(&count, 1));
  return ncclSuccess;
}

static meeting *meet(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0)
    return NULL;
  meeting *at = ftruncate(file, sizeof *at)
                    ? MAP_FAILED
                    : mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? NULL : at;
}

static bool all_joined(const ncclComm_t c) {
  return atomic_load(&c->at->joined) >= (unsigned)c->size;
}

static bool wait_for_all(const ncclComm_t c) {
  for (int i = 0; i < 20000 && !all_joined(c); ++i)
    nanosleep(&(struct timespec){0, 500000}, NULL);
  return all_joined(c);
}

EMULATED ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                                             ncclConfig_t *config) {
  *out = NULL;
  CALL("ncclCommInitRankConfig");
  if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size || !id.internal[0])
    return ncclInvalidArgument;
  ncclComm_t c = calloc(1, sizeof *c);
  if (!c)
    return ncclSystemError;
  const char *folder = getenv("TMPDIR");
  snprintf(c->path, sizeof c->path, "%s/emulated-nccl-%.100s", folder && *folder ? folder : "/tmp",
           id.internal);
  c->at = meet(c->path);
  if (!c->at) {
    free(c);
    return ncclSystemError;
  }
  c->magic = ALIVE;
  c->rank = rank;
  c->size = size;
  c->blocking = !config || config->blocking != 0;
  emulated_lock();
  c->next = comms;
  comms = c;
  emulated_unlock();
  atomic_fetch_add(&c->at->joined, 1);
  emulated_handle(1);
  *out = c;
  if (!c->blocking)
    return ncclInProgress;
  return wait_for_all(c) ? ncclSuccess : ncclRemoteError;
}

EMULATED ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, size, id, rank, NULL);
}

EMULATED ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *status) {
  CALL("ncclCommGetAsyncError");
  if (!valid(c, "ncclCommGetAsyncError"))
    return ncclInvalidArgument;
  int scripted = emulated_call("ncclAsync");
  bool remote = false;
  for (int r = 0; r < c->size; ++r)
    remote = remote || atomic_load(&c->at->aborted[r]);
  bool busy = !all_joined(c) || (c->finalizing && !c->polled);
  c->polled = c->polled || c->finalizing;
  *status = scripted ? (ncclResult_t)scripted
            : remote ? ncclRemoteError
            : busy   ? ncclInProgress
                     : ncclSuccess;
  return ncclSuccess;
}

static void data_path(const ncclComm_t c, int rank, uint64_t sequence, char path[PATH_ROOM + 32]) {
  snprintf(path, PATH_ROOM + 32, "%s.%d.%d", c->path, rank, (int)(sequence & 1));
}

/* The last one to leave takes the files away. */
static void leave(ncclComm_t c) {
  char path[PATH_ROOM + 32];
  if (atomic_fetch_add(&c->at->left, 1) + 1 >= (unsigned)c->size) {
    for (int r = 0; r < c->size; ++r)
      for (uint64_t k = 0; k < 2; ++k) {
        data_path(c, r, k, path);
        unlink(path);
      }
    unlink(c->path);
  }
  c->magic = ENDED;
  emulated_handle(-1);
}

EMULATED ncclResult_t ncclCommFinalize(ncclComm_t c) {
  CALL("ncclCommFinalize");
  if (!valid(c, "ncclCommFinalize"))
    return ncclInvalidArgument;
  c->finalizing = true;
  return c->blocking ? ncclSuccess : ncclInProgress;
}

EMULATED ncclResult_t ncclCommDestroy(ncclComm_t c) {
  int code = emulated_call("ncclCommDestroy");
  if (!valid(c, "ncclCommDestroy"))
    return ncclInvalidArgument;
  leave(c);
  return (ncclResult_t)code;
}

EMULATED ncclResult_t ncclCommAbort(ncclComm_t c) {
  int code = emulated_call("ncclCommAbort");
  if (!valid(c, "ncclCommAbort"))
    return ncclInvalidArgument;
  atomic_store(&c->at->aborted[c->rank], 1);
  c->aborted = true; /* what it has in streams ends */
  leave(c);
  return (ncclResult_t)code;
}

/* ---- Collectives ----------------------------------------------------------------------------- */
typedef struct collective {
  ncclComm_t comm;
  const char *send;
  char *recv;
  size_t bytes;
  int root; /* -1: a gather */
  uint64_t sequence;
  bool published;
} collective;

static bool exchange(const collective *w, int rank, bool write) {
  char path[PATH_ROOM + 32];
  data_path(w->comm, rank, w->sequence, path);
  int file =
      write ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : open(path, O_RDONLY | O_CLOEXEC);
  char *to = w->recv + (w->root < 0 ? (size_t)rank * w->bytes : 0);
  size_t done = 0;
  while (file >= 0 && done < w->bytes) {
    ssize_t n = write ? pwrite(file, w->send + done, w->bytes - done, (off_t)done)
                      : pread(file, to + done, w->bytes - done, (off_t)done);
    if (n <= 0)
      break;
    done += (size_t)n;
  }
  if (file >= 0)
    close(file);
  return done == w->bytes;
}

static CUresult run_collective(void *data) {
  collective *w = data;
  const ncclComm_t c = w->comm;
  if (c->aborted)
    return CUDA_SUCCESS;
  if (!w->published) {
    if ((w->root < 0 || w->root == c->rank) && !exchange(w, c->rank, true))
      return CUDA_ERROR_UNKNOWN;
    atomic_store(&c->at->published[c->rank], w->sequence);
    w->published = true;
  }
  for (int r = 0; r < c->size; ++r)
    if (atomic_load(&c->at->published[r]) < w->sequence)
      return CUDA_ERROR_NOT_READY;
  for (int r = 0; r < c->size; ++r)
    if ((w->root < 0 || w->root == r) && !exchange(w, r, false))
      return CUDA_ERROR_UNKNOWN;
  return CUDA_SUCCESS;
}

static size_t type_bytes(ncclDataType_t type) {
  return type == ncclInt8 || type == ncclUint8                            ? 1
         : type == ncclFloat16 || type == ncclBfloat16                    ? 2
         : type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4
                                                                          : 8;
}

static ncclResult_t queue(const char *call, collective *w, cudaStream_t stream) {
  ncclComm_t c = w->comm;
  size_t parts = w->root < 0 ? (size_t)c->size : 1;
  if (((w->root < 0 || w->root == c->rank) && !emulated_device_range(call, w->send, w->bytes)) ||
      !emulated_device_range(call, w->recv, parts * w->bytes))
    return ncclInvalidArgument;
  w->sequence = ++c->calls;
  if (emulated_queue((CUstream)stream, "gather", run_collective, w, sizeof *w))
    return ncclUnhandledCudaError;
  return c->blocking ? ncclSuccess : ncclInProgress;
}

EMULATED ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t type,
                                    ncclComm_t c, cudaStream_t stream) {
  CALL("ncclAllGather");
  if (!valid(c, "ncclAllGather"))
    return ncclInvalidArgument;
  collective w = {.comm = c, .send = send, .recv = recv, .bytes = n * type_bytes(type), .root = -1};
  return queue("ncclAllGather", &w, stream);
}

EMULATED ncclResult_t ncclBroadcast(const void *send, void *recv, size_t n, ncclDataType_t type,
                                    int root, ncclComm_t c, cudaStream_t stream) {
  CALL("ncclBroadcast");
  if (!valid(c, "ncclBroadcast") || root < 0 || root >= c->size)
    return ncclInvalidArgument;
  collective w = {
      .comm = c, .send = send, .recv = recv, .bytes = n * type_bytes(type), .root = root};
  return queue("ncclBroadcast", &w, stream);
}

EMULATED ncclResult_t ncclGroupStart(void) {
  CALL("ncclGroupStart");
  return ncclSuccess;
}
EMULATED ncclResult_t ncclGroupEnd(void) {
  CALL("ncclGroupEnd");
  return ncclSuccess;
}
