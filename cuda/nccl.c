/* nccl.c: gathers between the GPUs of ranks, by NCCL.
 *
 * NCCL is used for one thing only, all-gather: it moves bytes and adds nothing up, so that the order of sums stays
 * ours and the bits those of one rank (gather.c). The communicator does not block: a call says "in progress", and
 * ncclCommGetAsyncError tells how it goes. Whoever waits asks for that and for the event behind the gather, and
 * watches the time limit of the ranks' communicator.
 *
 *   joined --(error, or the limit has passed)--> ncclCommAbort, once --> lost: no call of NCCL any more
 *
 * Then the ranks' own communicator is asked who is missing, and the answer becomes TN_EPEER with the names. If all
 * are there, the fault is NCCL's or this machine's: TN_EENV with its words.
 *
 * To join, all ranks say what they have (a library that loads, its version, which device in which machine), and
 * draw the same conclusion from the same list. Where NCCL cannot serve, because a rank lacks it or two ranks share a
 * device, all stay with gathers through the host, which give the same bits; rank 0 logs why. The same
 * if making the communicator fails while all ranks still answer.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/vendor.h"

#if GPU_HAVE_NCCL

#define END_SECONDS 5.0 /* at most, that the end of a run may wait for the other ranks */

typedef struct gpu_nccl_state {
  const gpu_nccl *lib;
  ncclComm_t comm; /* NULL once aborted or destroyed */
  tn_comm *ranks;  /* borrowed; not looked at when the device is closed */
  CUevent event;
  double limit; /* seconds, of the last call */
  bool joined, lost;
  char why[192];
} state;

/* Polls quickly at first: a gather takes tens of microseconds. Later it also answers those who ask who is there. */
static void pause_for(const state *s, double waited) {
  if (waited < 2e-3)
    return;
  if (s->ranks)
    tn_comm_attend(s->ranks);
  nanosleep(&(struct timespec){.tv_nsec = waited < 0.1 ? 50000 : 1000000}, NULL);
}

/* ---- The end of a communicator --------------------------------------------------------------- */

static void abort_once(state *s) {
  ncclComm_t comm = s->comm;
  s->comm = NULL;
  s->lost = true;
  if (comm)
    s->lib->ncclCommAbort(comm);
}

static bool is_of_peers(ncclResult_t result) {
  return result == ncclRemoteError || result == ncclSystemError;
}

/* Aborts, and says what happened. result: ncclInProgress if the limit has passed. A roll call ends the ranks'
 * communicator, even if all answer; while joining, the agreement that follows finds out who is gone. */
static tn_status lose(state *s, const char *what, const char *call, ncclResult_t result,
                      double limit) {
  char words[96] = "";
  const char *name = s->lib->ncclGetErrorString(result);
  if (result == ncclInProgress)
    snprintf(s->why, sizeof s->why, "%s: not done within %g s", call, limit);
  else {
    const char *last = s->lib->ncclGetLastError(NULL);
    snprintf(words, sizeof words, "%s", last ? last : "");
    snprintf(s->why, sizeof s->why, "%s: %s%s%s", call, name ? name : "an unknown error",
             words[0] ? ": " : "", words);
  }
  abort_once(s);
  if (s->joined && (result == ncclInProgress || is_of_peers(result)))
    TN_TRY(tn_comm_missing(s->ranks, what));
  bool ours = result == ncclInvalidArgument || result == ncclInvalidUsage;
  return TN_FAIL(ours ? TN_EINTERNAL : TN_EENV, "%s: NCCL, %s", what, s->why);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Until the communicator has taken in what was asked of it. *result: how that went; ncclInProgress: too late. */
static void settle(state *s, double until, ncclResult_t *result) {
  double start = tn_clock();
  while (*result == ncclInProgress) {
    ncclResult_t status = ncclSuccess, got = s->lib->ncclCommGetAsyncError(s->comm, &status);
    *result = got == ncclSuccess ? status : got;
    if (*result != ncclInProgress || tn_clock() > until)
      return;
    pause_for(s, tn_clock() - start);
  }
}

/* Until the stream has come to the event. */
static tn_status wait(gpu_context *g, state *s, double until, ncclResult_t *result) {
  double start = tn_clock();
  for (;;) {
    CUresult reached = g->driver->cuEventQuery(s->event);
    if (reached == CUDA_SUCCESS)
      *result = ncclSuccess; /* whatever it was told before */
    if (reached != CUDA_ERROR_NOT_READY)
      return gpu_result(g, reached, "cuEventQuery");
    ncclResult_t got = s->lib->ncclCommGetAsyncError(s->comm, result);
    if (got != ncclSuccess)
      *result = got;
    if (*result != ncclSuccess && *result != ncclInProgress)
      return TN_OK;
    if (tn_clock() > until) {
      *result = ncclInProgress;
      return TN_OK;
    }
    pause_for(s, tn_clock() - start);
  }
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* What a rank says about itself. */
typedef struct card {
  char machine[64];
  int place[3]; /* of the device on the bus: domain, bus, device */
  int version;  /* of NCCL; 0: none */
  char why[128];
} card;

static tn_status write_card(gpu_context *g, gpu_vendor *v, card *own) {
  static const CUdevice_attribute place[] = {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                                             CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                             CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};
  memset(own, 0, sizeof *own);
  if (gethostname(own->machine, sizeof own->machine - 1) != 0)
    own->machine[0] = 0;
  for (size_t i = 0; i < 3; ++i)
    GPU_TRY(g, cuDeviceGetAttribute, (&own->place[i], place[i], g->device));
  if (!v->nccl && gpu_need_nccl(&v->nccl) != TN_OK) {
    snprintf(own->why, sizeof own->why, "%s", tn_error_text());
    tn_error_clear();
    return TN_OK;
  }
  ncclResult_t result = v->nccl->ncclGetVersion(&own->version);
  if (result != ncclSuccess) {
    own->version = 0;
    snprintf(own->why, sizeof own->why, "ncclGetVersion: %s", v->nccl->ncclGetErrorString(result));
  }
  return TN_OK;
}

static bool same_device(const card *a, const card *b) {
  return strcmp(a->machine, b->machine) == 0 && memcmp(a->place, b->place, sizeof a->place) == 0;
}

/* Why these ranks cannot use NCCL together; false: they can. */
static bool hindered(const tn_comm *comm, const card *cards, char *why, size_t size) {
  size_t n = tn_comm_size(comm);
  for (size_t r = 0; r < n; ++r) {
    if (cards[r].version == 0)
      return snprintf(why, size, "%s has none: %.127s", tn_comm_name(comm, r), cards[r].why) > 0;
    if (cards[r].version != cards[0].version)
      return snprintf(why, size, "%s has version %d and %s version %d", tn_comm_name(comm, 0),
                      cards[0].version, tn_comm_name(comm, r), cards[r].version) > 0;
    for (size_t q = 0; q < r; ++q)
      if (same_device(&cards[q], &cards[r]))
        return snprintf(why, size, "%s and %s share a device, and NCCL takes one rank a device",
                        tn_comm_name(comm, q), tn_comm_name(comm, r)) > 0;
  }
  return false;
}

static tn_status exchange_cards(tn_comm *comm, const card *own, card *cards, size_t *bytes) {
  for (size_t r = 0; r < tn_comm_size(comm); ++r)
    bytes[r] = sizeof *own;
  return tn_comm_gather(comm, "what ranks have of NCCL", bytes, own, cards);
}

/* *can: all ranks may go on; the same on all of them. */
static tn_status compare(gpu_context *g, gpu_vendor *v, tn_comm *comm, bool *can) {
  card own, *cards = NULL;
  size_t *bytes = NULL;
  char why[320] = "";
  tn_status status = write_card(g, v, &own);
  if (status == TN_OK)
    status = TN_NEW(tn_comm_size(comm), &cards);
  if (status == TN_OK)
    status = TN_NEW(tn_comm_size(comm), &bytes);
  status = tn_comm_agree(comm, "NCCL: what ranks have", status);
  if (status == TN_OK)
    status = exchange_cards(comm, &own, cards, bytes);
  if (status == TN_OK) {
    *can = !hindered(comm, cards, why, sizeof why);
    if (!*can && tn_comm_rank(comm) == 0)
      tn_log_write(TN_LOG_WARNING, "gathers go through the host, not by NCCL: %s", why);
  }
  tn_free(&cards);
  tn_free(&bytes);
  return status;
}

/* The id that all ranks know the communicator by. */
static tn_status share_id(state *s, tn_comm *comm, ncclUniqueId *id) {
  tn_status status = TN_OK;
  memset(id, 0, sizeof *id);
  if (tn_comm_rank(comm) == 0) {
    ncclResult_t result = s->lib->ncclGetUniqueId(id);
    if (result != ncclSuccess)
      status = TN_FAIL(TN_EENV, "ncclGetUniqueId: %s", s->lib->ncclGetErrorString(result));
  }
  TN_TRY(tn_comm_agree(comm, "NCCL: an id", status));
  return tn_comm_broadcast(comm, "NCCL: an id", 0, sizeof *id, id);
}

/* Half the limit: ranks where it fails at once wait a whole one for the others. */
static tn_status make(state *s, tn_comm *comm, ncclUniqueId id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  double limit = tn_comm_limit_of(comm) / 2;
  s->limit = limit;
  config.blocking = 0;
  ncclResult_t result = s->lib->ncclCommInitRankConfig(&s->comm, (int)tn_comm_size(comm), id,
                                                       (int)tn_comm_rank(comm), &config);
  if (result == ncclInProgress && s->comm)
    settle(s, tn_clock() + limit, &result);
  return result == ncclSuccess
             ? TN_OK
             : lose(s, "making a communicator", "ncclCommInitRankConfig", result, limit);
}

static void drop(gpu_context *g, state **s) {
  if ((*s)->event)
    (void)g->driver->cuEventDestroy((*s)->event);
  tn_free(s);
}

static tn_status start(gpu_context *g, gpu_vendor *v, tn_comm *comm, state *s) {
  ncclUniqueId id;
  *s = (state){.lib = v->nccl, .ranks = comm};
  tn_status status =
      gpu_result(g, g->driver->cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  TN_TRY(tn_comm_agree(comm, "NCCL: an event", status));
  TN_TRY(share_id(s, comm, &id));
  status = tn_comm_agree(comm, "NCCL: a communicator", make(s, comm, id));
  if (status != TN_OK)
    abort_once(s); /* also where another rank has failed */
  return status;
}

tn_status gpu_nccl_join(tn_device *device, tn_comm *comm) {
  gpu_context *g = gpu_of(device);
  gpu_vendor *v = NULL;
  state *s = NULL;
  bool can = false;
  if (tn_comm_size(comm) < 2)
    return TN_OK;
  TN_TRY(gpu_vendor_of(g, &v));
  if (v->nccl_state || v->asked == comm)
    return TN_OK;
  TN_TRY(compare(g, v, comm, &can));
  v->asked = comm;
  if (!can)
    return TN_OK;
  tn_status status = tn_comm_agree(comm, "NCCL: memory", TN_NEW(1, &s));
  if (status != TN_OK) {
    tn_free(&s);
    return status;
  }
  status = start(g, v, comm, s);
  if (status == TN_OK) {
    s->joined = true;
    v->nccl_state = s;
    return TN_OK;
  }
  drop(g, &s);
  if (status == TN_EPEER)
    return status;
  if (tn_comm_rank(comm) == 0)
    tn_log_write(TN_LOG_WARNING, "gathers go through the host, not by NCCL: %s", tn_error_text());
  tn_error_clear();
  return TN_OK;
}

bool gpu_nccl_joined(const gpu_context *g) { return g->vendor && g->vendor->nccl_state; }

/* ---- Gathering ------------------------------------------------------------------------------- */

tn_status gpu_nccl_gather(gpu_context *g, const char *what, CUdeviceptr send, size_t bytes,
                          CUdeviceptr recv) {
  state *s = gpu_nccl_joined(g) ? g->vendor->nccl_state : NULL;
  if (!s)
    return TN_FAIL(TN_ESTATE, "%s: NCCL has not been joined", what);
  if (s->lost)
    return TN_FAIL(TN_EPEER, "%s: NCCL's communicator is lost already: %s", what, s->why);
  if (bytes == 0)
    return TN_OK;
  double limit = tn_comm_limit_of(s->ranks), until = tn_clock() + limit;
  s->limit = limit;
  ncclResult_t result =
      s->lib->ncclAllGather((const void *)(uintptr_t)send, (void *)(uintptr_t)recv, bytes,
                            ncclUint8, s->comm, (cudaStream_t)g->stream);
  settle(s, until, &result);
  if (result != ncclSuccess)
    return lose(s, what, "ncclAllGather", result, limit);
  tn_status status = gpu_result(g, g->driver->cuEventRecord(s->event, g->stream), "cuEventRecord");
  if (status == TN_OK)
    status = wait(g, s, until, &result);
  if (status != TN_OK) {
    snprintf(s->why, sizeof s->why, "%.180s", tn_error_text());
    abort_once(s);
    return status;
  }
  return result == ncclSuccess ? TN_OK : lose(s, what, "ncclAllGather", result, limit);
}

void gpu_nccl_free(gpu_context *g) {
  state *s = g->vendor->nccl_state;
  if (!s)
    return;
  if (s->comm) {
    s->ranks = NULL; /* may be gone by now */
    ncclResult_t result = s->lib->ncclCommFinalize(s->comm);
    settle(s, tn_clock() + (s->limit < END_SECONDS ? s->limit : END_SECONDS), &result);
    if (result == ncclSuccess) {
      result = s->lib->ncclCommDestroy(s->comm);
      s->comm = NULL;
    } else
      abort_once(s);
  }
  drop(g, &s);
  g->vendor->nccl_state = NULL;
}

#else

tn_status gpu_nccl_join(tn_device *device, tn_comm *comm) {
  (void)device;
  if (tn_comm_size(comm) > 1 && tn_comm_rank(comm) == 0)
    tn_log_write(
        TN_LOG_WARNING,
        "gathers go through the host: NCCL's header was not there when this build was made");
  return TN_OK;
}

bool gpu_nccl_joined(const gpu_context *g) {
  (void)g;
  return false;
}

tn_status gpu_nccl_gather(gpu_context *g, const char *what, CUdeviceptr send, size_t bytes,
                          CUdeviceptr recv) {
  (void)g, (void)send, (void)bytes, (void)recv;
  return TN_FAIL(TN_ESTATE, "%s: NCCL has not been joined", what);
}

void gpu_nccl_free(gpu_context *g) { (void)g; }

#endif
