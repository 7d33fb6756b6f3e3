/* test_gpu_alone.c: what NCCL does with a communicator of one rank: made without blocking, asked for errors, used for
 * one all-gather, aborted.
 * ctest: labels=quick timeout=120
 *
 * On the emulated device, or, with PINN_TEST_DEVICE=real, on a GPU, where it is all of NCCL that one device can show:
 * two ranks of a communicator do not fit on one.
 */
#include "cuda/context.h"
#include "tests/support_gpu_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

/* Until the communicator is done with what it has in hand; 20 s. */
static ncclResult_t settled(const gpu_nccl *nccl, ncclComm_t comm) {
  ncclResult_t result = ncclInProgress;
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < 20000 && result == ncclInProgress; ++i) {
    assert_int_equal(nccl->ncclCommGetAsyncError(comm, &result), ncclSuccess);
    (void)nanosleep(&pause, NULL);
  }
  return result;
}

static void one_rank_gathers_and_is_aborted(void **state) {
  gpu_bench *bench = *state;
  gpu_context *g = gpu_of(bench->device);
  enum { BYTES = 4096 };
  const gpu_nccl *nccl = NULL;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  CUdeviceptr from = 0, to = 0;
  unsigned char sent[BYTES], got[BYTES] = {0};
  int version = 0;
  config.blocking = 0;
  if (gpu_need_nccl(&nccl) != TN_OK)
    fail_msg("%s", tn_error_text());
  assert_int_equal(nccl->ncclGetVersion(&version), ncclSuccess);
  assert_int_equal(gpu_enter(g), TN_OK);
  assert_int_equal(nccl->ncclGetUniqueId(&id), ncclSuccess);
  ncclResult_t made = nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  assert_true(made == ncclSuccess || made == ncclInProgress);
  assert_int_equal(settled(nccl, comm), ncclSuccess);
  for (size_t i = 0; i < BYTES; ++i)
    sent[i] = (unsigned char)(7 * i);
  assert_int_equal(gpu_take(g, BYTES, &from), TN_OK);
  assert_int_equal(gpu_take(g, BYTES, &to), TN_OK);
  assert_int_equal(gpu_upload(g, false, from, sent, BYTES), TN_OK);
  ncclResult_t queued = nccl->ncclAllGather((const void *)from, (void *)to, BYTES, ncclInt8, comm,
                                            (cudaStream_t)g->stream);
  assert_true(queued == ncclSuccess || queued == ncclInProgress);
  assert_int_equal(settled(nccl, comm), ncclSuccess);
  assert_int_equal(gpu_download(g, got, to, BYTES), TN_OK);
  assert_memory_equal(got, sent, BYTES);
  assert_int_equal(nccl->ncclCommAbort(comm), ncclSuccess);
  gpu_give(g, &from);
  gpu_give(g, &to);
  gpu_leave(g);
  printf("NCCL %d: one rank made, asked, used and aborted\n", version);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_gathers_and_is_aborted)};
  return cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
}
