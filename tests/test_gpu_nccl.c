/* test_gpu_nccl.c: gathers by NCCL when they fail: each of its result codes at each place where it is called.
 *
 * NCCL is a table of functions of this file, and the other rank a communicator class of this file, so that a call may
 * fail, an error come late, or nothing come at all. What must hold: a communicator that was made is ended exactly once,
 * nothing of NCCL is called after that, a rank that is gone is named, and nobody waits for longer than the limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/cuda_backend.h"
#include "cuda/vendor.h"
#include "tensor/comm.h"

#define GOOD(call) assert_int_equal((call), TN_OK)

/* ---- The other rank -------------------------------------------------------------------------- */

typedef struct peer {
  bool gone, same_device;
  size_t rolls;
} peer;

static tn_status peer_gather(void *context, const size_t *bytes, const void *send, void *recv,
                             void **request) {
  const peer *p = context;
  char *own = recv, *other = own + bytes[0];
  memcpy(own, send, bytes[0]);
  memcpy(other, send, bytes[1]);
  if (bytes[1] == sizeof(uint64_t))
    memset(other, 0, bytes[1]); /* its status is TN_OK */
  else if (!p->same_device)
    other[0] ^= 1; /* another machine */
  *request = context;
  return TN_OK;
}

static tn_status peer_broadcast(void *context, size_t root, size_t bytes, void *data,
                                void **request) {
  (void)root, (void)bytes, (void)data;
  *request = context;
  return TN_OK;
}

static tn_status peer_poll(void *context, void **request, bool *done) {
  (void)context;
  *request = NULL;
  *done = true;
  return TN_OK;
}

static tn_status peer_roll_call(void *context, double seconds, bool *present) {
  peer *p = context;
  (void)seconds;
  p->rolls += 1;
  present[0] = true;
  present[1] = !p->gone;
  return TN_OK;
}

static void peer_abort(void *context, int exit_status) { (void)context, (void)exit_status; }
static void peer_free(void *context, bool broken) { (void)context, (void)broken; }

static const tn_comm_class peer_class = {.kind = "test",
                                         .gather = peer_gather,
                                         .broadcast = peer_broadcast,
                                         .poll = peer_poll,
                                         .roll_call = peer_roll_call,
                                         .abort = peer_abort,
                                         .free = peer_free};

static tn_comm *comm_with(peer *p) {
  const char *const names[] = {"rank 0 (here, process 1)", "rank 1 (there, process 2)"};
  tn_comm *comm = NULL;
  GOOD(tn_comm_new(&peer_class, p, 0, 2, names, &comm));
  GOOD(tn_comm_limit(comm, 0.02));
  return comm;
}

#if GPU_HAVE_NCCL

/* ---- NCCL ------------------------------------------------------------------------------------ */

/* Where something goes wrong. ASYNC: what ncclCommGetAsyncError tells, CALL: what it returns. */
typedef enum site {
  NOWHERE,
  VERSION,
  ID,
  INIT,
  INIT_ASYNC,
  INIT_CALL,
  GATHER,
  GATHER_ASYNC,
  GATHER_CALL,
  EVENT_ASYNC, /* the gather was taken in, and fails while it runs */
  EVENT_CALL,
  FINALIZE,
  FINALIZE_ASYNC,
  DESTROY,
  SITES
} site;
enum { CODES = 9 }; /* 1 to 6 are errors, 7 is in progress: for ever; 8 is no code */

static struct {
  site at;
  ncclResult_t code;
  enum { IDLE, INITIALISING, GATHERING, RUNNING, FINALIZING } phase;
  bool alive, gone; /* the communicator; it was aborted or destroyed */
  size_t inits, gathers, finalizes, destroys, aborts, polls, after_end, events;
  bool event_fails;
} nccl;

static ncclResult_t code_at(site at) { return nccl.at == at ? nccl.code : ncclSuccess; }
static void use(ncclComm_t comm) { nccl.after_end += nccl.gone || comm != (ncclComm_t)&nccl; }

static ncclResult_t get_version(int *version) {
  *version = 22809;
  return code_at(VERSION);
}
static const char *error_string(ncclResult_t result) {
  return result == ncclRemoteError ? "remote words" : "some words";
}
static const char *last_error(ncclComm_t comm) {
  assert_null(comm);
  return "the last words";
}
static ncclResult_t get_id(ncclUniqueId *id) {
  memset(id, 7, sizeof *id);
  return code_at(ID);
}
static ncclResult_t init(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
  assert_int_equal(n, 2);
  assert_int_equal(rank, 0);
  assert_int_equal(id.internal[5], 7);
  assert_int_equal(config->blocking, 0);
  nccl.inits += 1;
  ncclResult_t code = code_at(INIT);
  if (code != ncclSuccess && code != ncclInProgress)
    return code;
  *comm = (ncclComm_t)&nccl;
  nccl.alive = true;
  nccl.phase = INITIALISING;
  nccl.polls = 0;
  return ncclInProgress;
}
static ncclResult_t async(ncclComm_t comm, ncclResult_t *result) {
  static const site told[] = {NOWHERE, INIT_ASYNC, GATHER_ASYNC, EVENT_ASYNC, FINALIZE_ASYNC};
  static const site returned[] = {NOWHERE, INIT_CALL, GATHER_CALL, EVENT_CALL, NOWHERE};
  use(comm);
  nccl.polls += 1;
  *result = nccl.polls < 3 ? ncclInProgress : code_at(told[nccl.phase]);
  if (nccl.phase == INITIALISING && nccl.at == INIT)
    *result = ncclInProgress;
  if (nccl.phase == GATHERING && nccl.at == GATHER && nccl.code == ncclInProgress)
    *result = ncclInProgress;
  if (nccl.phase == FINALIZING && nccl.at == FINALIZE && nccl.code == ncclInProgress)
    *result = ncclInProgress;
  if (nccl.phase == RUNNING && *result == ncclInProgress && nccl.at != EVENT_ASYNC)
    *result = ncclSuccess;
  if (*result == ncclSuccess && nccl.phase == GATHERING && nccl.at != GATHER_CALL)
    nccl.phase = RUNNING, nccl.polls = 0;
  return code_at(returned[nccl.phase]);
}
static ncclResult_t all_gather(const void *send, void *recv, size_t n, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream) {
  assert_non_null(send);
  assert_non_null(recv);
  assert_int_equal(n, 512);
  assert_int_equal(type, ncclUint8);
  (void)stream;
  use(comm);
  nccl.gathers += 1;
  nccl.phase = GATHERING;
  nccl.polls = 0;
  ncclResult_t code = code_at(GATHER);
  return code == ncclSuccess ? ncclInProgress : code;
}
static ncclResult_t finalize(ncclComm_t comm) {
  use(comm);
  nccl.finalizes += 1;
  nccl.phase = FINALIZING;
  nccl.polls = 0;
  ncclResult_t code = code_at(FINALIZE);
  return code == ncclSuccess ? ncclInProgress : code;
}
static ncclResult_t destroy(ncclComm_t comm) {
  use(comm);
  nccl.destroys += 1;
  nccl.gone = true;
  return code_at(DESTROY);
}
static ncclResult_t abort_comm(ncclComm_t comm) {
  use(comm);
  nccl.aborts += 1;
  nccl.gone = true;
  return ncclSuccess;
}
static const gpu_nccl nccl_table = {.ncclGetVersion = get_version,
                                    .ncclGetErrorString = error_string,
                                    .ncclGetLastError = last_error,
                                    .ncclGetUniqueId = get_id,
                                    .ncclCommInitRankConfig = init,
                                    .ncclCommGetAsyncError = async,
                                    .ncclAllGather = all_gather,
                                    .ncclCommFinalize = finalize,
                                    .ncclCommDestroy = destroy,
                                    .ncclCommAbort = abort_comm};

/* The driver: an event is reached when the gather runs, unless its end is what fails. */
static CUresult event_create(CUevent *event, unsigned flags) {
  (void)flags;
  nccl.events += 1;
  *event = (CUevent)&nccl;
  return CUDA_SUCCESS;
}
static CUresult event_destroy(CUevent event) {
  (void)event;
  nccl.events -= 1;
  return CUDA_SUCCESS;
}
static CUresult event_record(CUevent event, CUstream stream) {
  (void)event, (void)stream;
  return CUDA_SUCCESS;
}
static CUresult event_query(CUevent event) {
  (void)event;
  if (nccl.event_fails)
    return CUDA_ERROR_LAUNCH_FAILED;
  return nccl.at == EVENT_ASYNC || nccl.at == EVENT_CALL ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static CUresult attribute(int *value, CUdevice_attribute name, CUdevice device) {
  (void)device;
  *value = (int)name;
  return CUDA_SUCCESS;
}
static CUresult error_name(CUresult code, const char **name) {
  (void)code;
  *name = "CUDA_ERROR_LAUNCH_FAILED";
  return CUDA_SUCCESS;
}
static const gpu_driver event_driver = {.cuEventCreate = event_create,
                                        .cuEventDestroy = event_destroy,
                                        .cuEventRecord = event_record,
                                        .cuEventQuery = event_query,
                                        .cuDeviceGetAttribute = attribute,
                                        .cuGetErrorName = error_name,
                                        .cuGetErrorString = error_name};

typedef struct bench {
  gpu_context g;
  peer other;
  tn_comm *comm;
} bench;

static void open_bench(bench *b, site at, ncclResult_t code) {
  gpu_vendor *v = NULL;
  memset(&nccl, 0, sizeof nccl);
  memset(b, 0, sizeof *b);
  nccl.at = at;
  nccl.code = code;
  b->g.driver = &event_driver;
  b->comm = comm_with(&b->other);
  GOOD(gpu_vendor_of(&b->g, &v));
  v->nccl = &nccl_table;
}

static tn_status gather(bench *b) {
  return gpu_nccl_gather(&b->g, "sums of the gradient", 4096, 512, 8192);
}

static void close_bench(bench *b) {
  gpu_vendor_free(&b->g);
  tn_comm_free(&b->comm);
  assert_int_equal(nccl.after_end, 0);
  assert_int_equal(nccl.events, 0);
  assert_int_equal(nccl.aborts + nccl.destroys,
                   nccl.alive); /* ended once, if it was there at all */
}

static void a_gather_goes_through(void **state) {
  (void)state;
  bench b;
  open_bench(&b, NOWHERE, ncclSuccess);
  assert_int_equal(gather(&b), TN_ESTATE); /* before it is joined */
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  assert_true(gpu_nccl_joined(&b.g));
  GOOD(gpu_nccl_join(&b.g.base, b.comm)); /* once more changes nothing */
  for (size_t k = 0; k < 3; ++k)
    GOOD(gather(&b));
  GOOD(gpu_nccl_gather(&b.g, "nothing", 1, 0, 1));
  assert_int_equal(nccl.gathers, 3);
  close_bench(&b);
  assert_int_equal(nccl.inits, 1);
  assert_int_equal(nccl.finalizes, 1);
  assert_int_equal(nccl.destroys, 1);
  assert_int_equal(nccl.aborts, 0);
}

static bool is_error(ncclResult_t code) { return code != ncclSuccess && code != ncclInProgress; }

/* While joining: all ranks go on through the host, and what NCCL had begun is ended. */
static void check_join(site at, ncclResult_t code) {
  bench b;
  bool hangs =
      code == ncclInProgress && at < INIT; /* not a code of such a call, but no success either */
  open_bench(&b, at, code);
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  assert_false(gpu_nccl_joined(&b.g));
  assert_int_equal(nccl.aborts, at > INIT || (at == INIT && code == ncclInProgress));
  assert_true(hangs || is_error(code) || at >= INIT);
  assert_int_equal(gather(&b), TN_ESTATE);
  assert_int_equal(nccl.gathers, 0);
  close_bench(&b);
}

/* While gathering: the communicator is aborted, and never called again. */
static void check_gather(site at, ncclResult_t code) {
  bench b;
  open_bench(&b, at, code);
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  tn_status expected =
      code == ncclInvalidArgument || code == ncclInvalidUsage ? TN_EINTERNAL : TN_EENV;
  assert_int_equal(gather(&b), expected);
  assert_non_null(strstr(tn_error_text(), "sums of the gradient"));
  assert_non_null(strstr(tn_error_text(), "ncclAllGather"));
  assert_non_null(strstr(tn_error_text(),
                         code == ncclInProgress ? "not done within 0.02 s" : "the last words"));
  assert_int_equal(nccl.aborts, 1);
  size_t polls = nccl.polls;
  assert_int_equal(gather(&b), TN_EPEER);
  assert_non_null(strstr(tn_error_text(), "lost already"));
  assert_int_equal(nccl.polls, polls);
  assert_int_equal(nccl.gathers, 1);
  close_bench(&b);
  assert_int_equal(nccl.finalizes, 0);
}

/* At the end: nothing is left, and nobody is waited for longer than the limit. */
static void check_end(site at, ncclResult_t code) {
  bench b;
  open_bench(&b, at, code);
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  GOOD(gather(&b));
  close_bench(&b);
  assert_int_equal(nccl.finalizes, 1);
  assert_int_equal(nccl.aborts, at != DESTROY);
}

static void every_code_at_every_call_is_dealt_with(void **state) {
  (void)state;
  size_t cells = 0;
  for (site at = VERSION; at < SITES; ++at)
    for (int code = 1; code < CODES; ++code, ++cells)
      (at < GATHER ? check_join : at < FINALIZE ? check_gather : check_end)(at, (ncclResult_t)code);
  print_message("nccl: %d places x %d codes = %zu\n", (int)SITES - 1, CODES - 1, cells);
}

/* A rank that does not answer is named, whatever NCCL calls it; while joining, by the ranks' next call. */
static void lost_rank_is_named(void **state) {
  (void)state;
  static const ncclResult_t codes[] = {ncclRemoteError, ncclSystemError, ncclInProgress};
  static const site sites[] = {INIT_ASYNC, GATHER, GATHER_ASYNC, EVENT_ASYNC};
  for (size_t s = 0; s < sizeof sites / sizeof *sites; ++s)
    for (size_t c = 0; c < 3; ++c) {
      bench b;
      open_bench(&b, sites[s], codes[c]);
      b.other.gone = true;
      GOOD(gpu_nccl_join(&b.g.base, b.comm));
      assert_int_equal(nccl.aborts, sites[s] == INIT_ASYNC);
      if (sites[s] == INIT_ASYNC) { /* no roll call, after which the communicator could not be used */
        assert_int_equal(b.other.rolls, 0);
        GOOD(tn_comm_barrier(b.comm, "later"));
        close_bench(&b);
        continue;
      }
      assert_int_equal(gather(&b), TN_EPEER);
      assert_non_null(strstr(tn_error_text(), "rank 1 (there, process 2)"));
      assert_int_equal(b.other.rolls, 1);
      assert_int_equal(nccl.aborts, 1);
      assert_int_equal(tn_comm_barrier(b.comm, "later"), TN_EPEER); /* nothing is sent any more */
      close_bench(&b);
    }
}

static void lost_device_aborts(void **state) {
  (void)state;
  bench b;
  open_bench(&b, NOWHERE, ncclSuccess);
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  nccl.event_fails = true;
  assert_int_equal(gather(&b), TN_EENV);
  assert_non_null(strstr(tn_error_text(), "CUDA_ERROR_LAUNCH_FAILED"));
  assert_int_equal(nccl.aborts, 1);
  assert_int_equal(gather(&b), TN_EPEER);
  close_bench(&b);
}

static char logged[512];
static void keep_log(void *context, tn_log_level level, const char *text) {
  (void)context, (void)level;
  snprintf(logged, sizeof logged, "%s", text);
}

static void ranks_that_share_a_device_stay_with_the_host(void **state) {
  (void)state;
  bench b;
  open_bench(&b, NOWHERE, ncclSuccess);
  b.other.same_device = true;
  tn_log_callback(TN_LOG_WARNING, keep_log, NULL);
  GOOD(gpu_nccl_join(&b.g.base, b.comm));
  assert_non_null(
      strstr(logged, "rank 0 (here, process 1) and rank 1 (there, process 2) share a device"));
  logged[0] = 0;
  GOOD(gpu_nccl_join(&b.g.base, b.comm)); /* every executor asks, and it is said once */
  assert_string_equal(logged, "");
  tn_log_callback(TN_LOG_WARNING, NULL, NULL);
  assert_false(gpu_nccl_joined(&b.g));
  assert_int_equal(nccl.inits, 0);
  close_bench(&b);
}

static void one_rank_alone_needs_no_nccl(void **state) {
  (void)state;
  bench b;
  open_bench(&b, NOWHERE, ncclSuccess);
  GOOD(gpu_nccl_join(&b.g.base, NULL));
  assert_false(gpu_nccl_joined(&b.g));
  assert_int_equal(nccl.inits, 0);
  close_bench(&b);
}

/* The n-th allocation fails: an error or the host's way, and nothing is left. */
static void lack_of_memory_leaves_nothing(void **state) {
  (void)state;
  bool done = false;
  for (uint64_t n = 1; !done && n < 50; ++n) {
    bench b;
    open_bench(&b, NOWHERE, ncclSuccess);
    tn_fault_at(n, false);
    tn_status status = gpu_nccl_join(&b.g.base, b.comm);
    done = tn_fault_count() < n;
    tn_fault_at(0, false);
    assert_int_equal(status, done ? TN_OK : TN_ENOMEM);
    assert_int_equal(gpu_nccl_joined(&b.g), done);
    close_bench(&b);
  }
  assert_true(done);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#if GPU_HAVE_NCCL
    cmocka_unit_test(a_gather_goes_through),
    cmocka_unit_test(every_code_at_every_call_is_dealt_with),
    cmocka_unit_test(lost_rank_is_named),
    cmocka_unit_test(lost_device_aborts),
    cmocka_unit_test(ranks_that_share_a_device_stay_with_the_host),
    cmocka_unit_test(one_rank_alone_needs_no_nccl),
    cmocka_unit_test(lack_of_memory_leaves_nothing),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
