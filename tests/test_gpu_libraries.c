/* test_gpu_libraries.c: the emulated libraries do what their vendors' manuals say.
 *
 * What cuda/ does with cuBLASLt, cuSOLVER, cuDNN and NCCL is tested on these, so they are tested
 * here by laws that know nothing of cuda/: a product against its definition, Q^T A = R, a row of
 * softmax that sums to 1, gathers between threads in the order of the ranks. And they refuse what
 * the real ones would answer with damage.
 */
#include "tests/support_gpu.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const emulator *emulated;
static const gpu_driver *cu;
static CUcontext context;
static CUstream stream;

static CUdeviceptr device(size_t bytes, const void *from) {
  CUdeviceptr p = 0;
  if (cu->cuMemAlloc(&p, bytes) != CUDA_SUCCESS ||
      (from && cu->cuMemcpyHtoDAsync(p, from, bytes, stream) != CUDA_SUCCESS))
    fail_msg("no device memory");
  return p;
}

static void host(void *to, CUdeviceptr from, size_t bytes) {
  assert_int_equal(cu->cuMemcpyDtoHAsync(to, from, bytes, stream), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
}
static void *at(CUdeviceptr p) { return (void *)(uintptr_t)p; }

static int open_device(void **state) {
  (void)state;
  CUdevice d;
  emulated->reset();
  assert_int_equal(cu->cuInit(0), CUDA_SUCCESS);
  assert_int_equal(cu->cuDeviceGet(&d, 0), CUDA_SUCCESS);
  assert_int_equal(cu->cuDevicePrimaryCtxRetain(&context, d), CUDA_SUCCESS);
  assert_int_equal(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
  assert_int_equal(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  return 0;
}

static int close_device(void **state) {
  (void)state;
  emulate_alive alive;
  emulated->count(&alive);
  emulated->clear();
  (void)cu->cuCtxSetCurrent(NULL);
  if (alive.handles)
    print_error("%zu handles of libraries were not freed\n", alive.handles);
  return alive.handles != 0;
}

/* ---- Products -------------------------------------------------------------------------------- */
enum { M = 5, N = 4, K = 7, LDA = 9, LDB = 10, LDY = 8, BATCH = 2, ROOM = 100 };

/* D = 2 op(A) op(B) + 3 C of two batches against its definition, all four transpositions. */
static void check_products(bool wide, bool tf32, double tolerance) {
  const gpu_cublaslt *lt;
  cublasLtHandle_t handle;
  size_t size = wide ? 8 : 4;
  double a[BATCH * ROOM], b[BATCH * ROOM], c[BATCH * ROOM], wide_two[2] = {2, 3};
  float fa[BATCH * ROOM], fb[BATCH * ROOM], fc[BATCH * ROOM], narrow_two[2] = {2, 3};
  for (int i = 0; i < BATCH * ROOM; ++i) {
    a[i] = fa[i] = (float)sin(i);
    b[i] = fb[i] = (float)cos(2 * i);
    c[i] = fc[i] = (float)(i % 7);
  }
  assert_int_equal(gpu_need_cublaslt(&lt), TN_OK);
  assert_int_equal(lt->cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  CUdeviceptr da = device(BATCH * ROOM * size, wide ? (void *)a : fa),
              db = device(BATCH * ROOM * size, wide ? (void *)b : fb),
              dc = device(BATCH * ROOM * size, NULL);
  for (int t = 0; t < 4; ++t) {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t la, lb, ly;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    int32_t transposed = CUBLAS_OP_T, batch = BATCH;
    int64_t step = ROOM;
    bool ta = t & 1, tb = t & 2;
    cudaDataType type = wide ? CUDA_R_64F : CUDA_R_32F;
    lt->cublasLtMatmulDescCreate(&how,
                                 wide   ? CUBLAS_COMPUTE_64F
                                 : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                        : CUBLAS_COMPUTE_32F,
                                 type);
    if (ta)
      lt->cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4);
    if (tb)
      lt->cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, 4);
    lt->cublasLtMatrixLayoutCreate(&la, type, ta ? K : M, ta ? M : K, LDA);
    lt->cublasLtMatrixLayoutCreate(&lb, type, tb ? N : K, tb ? K : N, LDB);
    lt->cublasLtMatrixLayoutCreate(&ly, type, M, N, LDY);
    cublasLtMatrixLayout_t layouts[3] = {la, lb, ly};
    for (int i = 0; i < 3; ++i) {
      lt->cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                           4);
      lt->cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &step, 8);
    }
    lt->cublasLtMatmulPreferenceCreate(&wish);
    assert_int_equal(
        lt->cublasLtMatmulAlgoGetHeuristic(handle, how, la, lb, ly, ly, wish, 1, &found, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(cu->cuMemcpyHtoDAsync(dc, wide ? (void *)c : fc, BATCH * ROOM * size, stream),
                     0);
    const void *two = wide ? (void *)wide_two : narrow_two,
               *three = wide ? (void *)&wide_two[1] : &narrow_two[1];
    assert_int_equal(lt->cublasLtMatmul(handle, how, two, at(da), la, at(db), lb, three, at(dc), ly,
                                        at(dc), ly, &found.algo, NULL, 0, (cudaStream_t)stream),
                     CUBLAS_STATUS_SUCCESS);
    double y[BATCH * ROOM];
    float fy[BATCH * ROOM];
    host(wide ? (void *)y : fy, dc, BATCH * ROOM * size);
    for (int q = 0; q < BATCH; ++q)
      for (int j = 0; j < N; ++j)
        for (int i = 0; i < M; ++i) {
          int to = q * ROOM + i + j * LDY;
          double sum = 3 * c[to], got = wide ? y[to] : (double)fy[to];
          for (int k = 0; k < K; ++k)
            sum += 2 * a[q * ROOM + (ta ? k + i * LDA : i + k * LDA)] *
                   b[q * ROOM + (tb ? j + k * LDB : k + j * LDB)];
          assert_true(fabs(got - sum) <= tolerance);
        }
    /* One number beyond the block is refused. */
    assert_int_not_equal(lt->cublasLtMatmul(handle, how, two, at(da + 90 * size), la, at(db), lb,
                                            three, at(dc), ly, at(dc), ly, &found.algo, NULL, 0,
                                            (cudaStream_t)stream),
                         CUBLAS_STATUS_SUCCESS);
    for (int i = 0; i < 3; ++i)
      lt->cublasLtMatrixLayoutDestroy(layouts[i]);
    lt->cublasLtMatmulPreferenceDestroy(wish);
    lt->cublasLtMatmulDescDestroy(how);
  }
  lt->cublasLtDestroy(handle);
}

/* |2 A B + 3 C| <= 2 K + 18 = 32: K + 3 roundings of u = 2^-53 or 2^-24, and for TF32 two of 2^-11
 * a product. */
static void products_are_as_defined(void **state) {
  (void)state;
  check_products(true, false, 10 * 32 * 0x1p-53);
  check_products(false, false, 10 * 32 * 0x1p-24);
  check_products(false, true, 2 * K * 2 * 0x1p-11 + 10 * 32 * 0x1p-24);
}

/* ---- Factorisations -------------------------------------------------------------------------- */

/* Q^T A = R: the reflectors of A applied to A itself give the upper triangle that is stored. */
static void reflectors_give_back_the_triangle(void **state) {
  (void)state;
  enum { ROWS = 6, COLUMNS = 4 };
  const gpu_cusolver *s;
  cusolverDnHandle_t handle;
  double a[ROWS * COLUMNS], r[ROWS * COLUMNS], q[ROWS * COLUMNS];
  int size = 0, other = 0, info = -1;
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    a[i] = sin(i * i);
  assert_int_equal(gpu_need_cusolver(&s), TN_OK);
  assert_int_equal(s->cusolverDnCreate(&handle), 0);
  assert_int_equal(s->cusolverDnSetStream(handle, (cudaStream_t)stream), 0);
  CUdeviceptr da = device(sizeof a, a), dc = device(sizeof a, a), tau = device(COLUMNS * 8, NULL),
              di = device(4, NULL);
  assert_int_equal(s->cusolverDnDgeqrf_bufferSize(handle, ROWS, COLUMNS, at(da), ROWS, &size), 0);
  assert_int_equal(s->cusolverDnDormqr_bufferSize(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, ROWS,
                                                  COLUMNS, COLUMNS, at(da), ROWS, at(tau), at(dc),
                                                  ROWS, &other),
                   0);
  size = other > size ? other : size;
  CUdeviceptr room = device((size_t)size * 8, NULL);
  assert_int_equal(
      s->cusolverDnDgeqrf(handle, ROWS, COLUMNS, at(da), ROWS, at(tau), at(room), size, at(di)), 0);
  assert_int_equal(s->cusolverDnDormqr(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, ROWS, COLUMNS,
                                       COLUMNS, at(da), ROWS, at(tau), at(dc), ROWS, at(room), size,
                                       at(di)),
                   0);
  host(r, da, sizeof r);
  host(q, dc, sizeof q);
  host(&info, di, 4);
  assert_int_equal(info, 0);
  for (int j = 0; j < COLUMNS; ++j)
    for (int i = 0; i < ROWS; ++i) /* |A| <= sqrt(6); a reflection costs a few u of it */
      assert_true(fabs(q[i + j * ROWS] - (i <= j ? r[i + j * ROWS] : 0)) < 100 * 0x1p-53);
  assert_int_not_equal(
      s->cusolverDnDgeqrf(handle, ROWS, COLUMNS, a, ROWS, at(tau), at(room), size, at(di)), 0);
  assert_int_equal(s->cusolverDnDestroy(handle), 0);
}

/* ---- Rows ------------------------------------------------------------------------------------ */
#if GPU_HAVE_CUDNN
static void softmax_sums_to_one(void **state) {
  (void)state;
  const gpu_cudnn *dnn;
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t shape;
  double x[3 * 5], y[3 * 5], one = 1, zero = 0;
  for (int i = 0; i < 15; ++i)
    x[i] = 100 * sin(i);
  assert_int_equal(gpu_need_cudnn(&dnn), TN_OK);
  assert_int_equal(dnn->cudnnCreate(&handle), 0);
  assert_int_equal(dnn->cudnnSetStream(handle, (cudaStream_t)stream), 0);
  assert_int_equal(dnn->cudnnCreateTensorDescriptor(&shape), 0);
  assert_int_equal(
      dnn->cudnnSetTensor4dDescriptor(shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 3, 5, 1, 1), 0);
  CUdeviceptr dx = device(sizeof x, x), dy = device(sizeof y, NULL);
  assert_int_equal(dnn->cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE,
                                            CUDNN_SOFTMAX_MODE_INSTANCE, &one, shape, at(dx), &zero,
                                            shape, at(dy)),
                   0);
  host(y, dy, sizeof y);
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int i = 0; i < 5; ++i)
      sum += y[5 * r + i];
    assert_true(fabs(sum - 1) < 8 * 0x1p-53);
    assert_true(fabs(y[5 * r] / y[5 * r + 1] / exp(x[5 * r] - x[5 * r + 1]) - 1) < 1e-12 ||
                y[5 * r + 1] == 0);
  }
  assert_int_equal(dnn->cudnnDestroyTensorDescriptor(shape), 0);
  assert_int_equal(dnn->cudnnDestroy(handle), 0);
}
#endif

/* ---- Collectives ----------------------------------------------------------------------------- */
#if GPU_HAVE_NCCL
enum { RANKS = 3, GATHERS = 5, PART = 40 };

typedef struct peer {
  const gpu_nccl *nccl;
  ncclUniqueId id;
  int rank, gathers;
  ncclResult_t async; /* what the communicator came to */
  size_t wrong;
  CUresult end;
} peer;

static ncclResult_t settle(const peer *p, ncclComm_t comm, ncclResult_t result) {
  for (long i = 0; i < 4000000 && result == ncclInProgress; ++i) {
    if (p->nccl->ncclCommGetAsyncError(comm, &result) != ncclSuccess)
      return ncclInternalError;
    sched_yield();
  }
  return result;
}

static void *run_peer(void *data) {
  peer *p = data;
  ncclComm_t comm = NULL;
  CUstream own;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  char send[PART], recv[RANKS * PART];
  config.blocking = 0;
  CUdeviceptr ds, dr;
  if (cu->cuCtxSetCurrent(context) || cu->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) ||
      cu->cuMemAlloc(&ds, PART) || cu->cuMemAlloc(&dr, RANKS * PART))
    return NULL;
  p->async = p->nccl->ncclCommInitRankConfig(&comm, RANKS, p->id, p->rank, &config);
  p->async = settle(p, comm, p->async);
  for (int k = 0; k < p->gathers && p->async == ncclSuccess; ++k) {
    memset(send, 10 * k + p->rank, sizeof send);
    p->end = cu->cuMemcpyHtoDAsync(ds, send, PART, own);
    p->async = settle(
        p, comm, p->nccl->ncclAllGather(at(ds), at(dr), PART, ncclInt8, comm, (cudaStream_t)own));
    p->end = p->end ? p->end : cu->cuMemcpyDtoHAsync(recv, dr, sizeof recv, own);
    p->end = p->end ? p->end : cu->cuStreamSynchronize(own);
    for (int i = 0; i < RANKS * PART && !p->end; ++i)
      p->wrong += recv[i] != 10 * k + i / PART;
  }
  if (p->async == ncclSuccess) {
    p->async = settle(p, comm, p->nccl->ncclCommFinalize(comm));
    (void)p->nccl->ncclCommDestroy(comm);
  } else
    (void)p->nccl->ncclCommAbort(comm);
  (void)cu->cuStreamDestroy(own);
  return NULL;
}

static void run_peers(peer *peers) {
  pthread_t thread[RANKS];
  const gpu_nccl *nccl;
  ncclUniqueId id;
  assert_int_equal(gpu_need_nccl(&nccl), TN_OK);
  assert_int_equal(nccl->ncclGetUniqueId(&id), ncclSuccess);
  for (int r = 0; r < RANKS; ++r) {
    peers[r].nccl = nccl;
    peers[r].id = id;
    peers[r].rank = r;
    peers[r].gathers = GATHERS;
    assert_int_equal(pthread_create(&thread[r], NULL, run_peer, &peers[r]), 0);
  }
  for (int r = 0; r < RANKS; ++r)
    assert_int_equal(pthread_join(thread[r], NULL), 0);
}

static void gathers_are_in_order_of_ranks(void **state) {
  (void)state;
  peer peers[RANKS] = {{0}};
  run_peers(peers);
  for (int r = 0; r < RANKS; ++r)
    assert_true(peers[r].async == ncclSuccess && peers[r].wrong == 0 &&
                peers[r].end == CUDA_SUCCESS);
  assert_int_equal(emulated->misuse(), 0);
}

static void use_after_the_end_is_a_fault(void **state) {
  (void)state;
  const gpu_nccl *nccl;
  ncclUniqueId id;
  ncclComm_t comm;
  ncclResult_t status;
  assert_int_equal(gpu_need_nccl(&nccl), TN_OK);
  assert_int_equal(nccl->ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  assert_int_equal(nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  emulated->script("ncclAsync", 2, ncclRemoteError, true);
  assert_int_equal(nccl->ncclCommGetAsyncError(comm, &status), ncclSuccess);
  assert_int_equal(status, ncclSuccess);
  assert_int_equal(nccl->ncclCommGetAsyncError(comm, &status), ncclSuccess);
  assert_int_equal(status, ncclRemoteError);
  assert_int_equal(nccl->ncclCommAbort(comm), ncclSuccess);
  assert_int_equal(emulated->misuse(), 0);
  assert_int_equal(nccl->ncclCommAbort(comm), ncclInvalidArgument);
  assert_int_equal(nccl->ncclCommGetAsyncError(comm, &status), ncclInvalidArgument);
  assert_int_equal(emulated->misuse(), 2);
}
#endif

int main(void) {
  emulated = emulator_open();
  setenv("EMULATED_CUDA_QUIET", "1", 1);
  if (gpu_need_driver(&cu) != TN_OK) {
    fprintf(stderr, "%s\n", tn_error_text());
    return 1;
  }
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
  const struct CMUnitTest tests[] = {
    CASE(products_are_as_defined),
    CASE(reflectors_give_back_the_triangle),
#if GPU_HAVE_CUDNN
    CASE(softmax_sums_to_one),
#endif
#if GPU_HAVE_NCCL
    CASE(gathers_are_in_order_of_ranks),
    CASE(use_after_the_end_is_a_fault),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
