/* test_gpu_vendor.c: cuBLASLt, cuSOLVER, cuBLAS and cuDNN when they fail: each code at each call.
 *
 * The libraries are those of the emulated device, whose script makes a call return a code: for every operation, each
 * of its calls fails once with each code. What must hold then: a status
 * that fits, a text that names the call, no object or memory left, nothing used after its end, and the same operation
 * works when it is asked for again.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/cuda_backend.h"
#include "cuda/vendor.h"
#include "tests/support_gpu.h"

#define GOOD(call) assert_int_equal((call), TN_OK)

static const emulator *emulated;

static gpu_context *open_device(tn_device **device) {
  if (gpu_open(0, device) != TN_OK)
    fail_msg("%s", tn_error_text());
  return gpu_of(*device);
}

static double number(const char *name, size_t i) {
  return 4 * tn_random_uniform(tn_stream_of(7, name), i) - 2;
}

/* ---- Every code at every call ---------------------------------------------------------------- */

enum { SIDE = 6, BATCH = 2 };

/* Y += A^T B^T, twice, on what the memory holds. */
static tn_status multiply(tn_device *device) {
  gpu_context *g = gpu_of(device);
  const size_t n = (size_t)SIDE * SIDE;
  const gpu_gemm x = {.transpose_a = true,
                      .transpose_b = true,
                      .add = true,
                      .format = TN_F64,
                      .result = TN_F64,
                      .m = SIDE,
                      .n = SIDE,
                      .k = SIDE,
                      .lda = SIDE,
                      .ldb = SIDE,
                      .ldy = SIDE,
                      .batch = BATCH,
                      .stride_a = n,
                      .stride_b = n,
                      .stride_y = n};
  CUdeviceptr block = 0;
  double y[SIDE];
  tn_status status = gpu_enter(g);
  if (status == TN_OK)
    status = gpu_take(g, 3 * BATCH * n * sizeof(double), &block);
  if (status == TN_OK)
    status = gpu_multiply(g, &x, block, block + BATCH * n * sizeof(double),
                          block + 2 * BATCH * n * sizeof(double));
  if (status == TN_OK)
    status = gpu_download(g, y, block, sizeof y);
  gpu_give(g, &block);
  gpu_leave(g);
  return status;
}

/* Each factorisation with a work of its own. */
typedef tn_status (*factoring)(const tn_factor *f, tn_factor_work *work, double *A, double *B,
                               double *C, double *D);

static tn_status with_work(tn_device *device, factoring run) {
  const tn_factor *f = tn_device_factor(device);
  tn_factor_work *work = NULL;
  double A[SIDE * SIDE], B[SIDE * SIDE], C[SIDE * SIDE], D[SIDE];
  for (size_t i = 0; i < SIDE * SIDE; ++i) {
    A[i] = number("A", i) + (i % (SIDE + 1) == 0 ? 20 : 0); /* positive definite by its diagonal */
    B[i] = C[i] = number("B", i);
  }
  for (size_t i = 0; i < SIDE; ++i)
    D[i] = 0.5;
  TN_TRY(f->work_new(f, SIDE, SIDE, &work));
  tn_status status = run(f, work, A, B, C, D);
  f->work_free(f, &work);
  return status;
}

static tn_status do_qr(const tn_factor *f, tn_factor_work *work, double *A, double *B, double *C,
                       double *D) {
  (void)B, (void)C;
  return f->qr(f, work, SIDE, SIDE, A, D);
}
static tn_status do_apply(const tn_factor *f, tn_factor_work *work, double *A, double *B, double *C,
                          double *D) {
  (void)C;
  return f->qr_apply(f, work, SIDE, 2, SIDE, A, D, B);
}
static tn_status do_svd(const tn_factor *f, tn_factor_work *work, double *A, double *B, double *C,
                        double *D) {
  return f->svd(f, work, SIDE, A, D, B, C);
}
static tn_status do_cholesky(const tn_factor *f, tn_factor_work *work, double *A, double *B,
                             double *C, double *D) {
  (void)B, (void)C, (void)D;
  return f->cholesky(f, work, SIDE, A);
}
static tn_status do_syrk(const tn_factor *f, tn_factor_work *work, double *A, double *B, double *C,
                         double *D) {
  (void)C, (void)D;
  return f->syrk(f, work, SIDE, SIDE, A, B);
}

static tn_status qr(tn_device *device) { return with_work(device, do_qr); }
static tn_status qr_apply(tn_device *device) { return with_work(device, do_apply); }
static tn_status svd(tn_device *device) { return with_work(device, do_svd); }
static tn_status cholesky(tn_device *device) { return with_work(device, do_cholesky); }
static tn_status syrk(tn_device *device) { return with_work(device, do_syrk); }

static tn_status activate(tn_device *device, tn_op_id id, tn_dtype dtype) {
  double x[8] = {1, 2, 3, 4, 5, 6, 7, 8}; /* or twice as many f32, of which any bits will do */
  if (id == TN_OP_tanh)
    return tn_device_apply(device, "cudnn", id, dtype, 8, x, NULL, 0, x);
  return tn_device_apply_rows(device, "cudnn", id, dtype, 2, 4, 0x1p-10, x, x);
}
static tn_status tanh_of(tn_device *device) { return activate(device, TN_OP_tanh, TN_F32); }
static tn_status softmax_of(tn_device *device) { return activate(device, TN_OP_softmax, TN_BF16); }
static tn_status norm_of(tn_device *device) { return activate(device, TN_OP_layer_norm, TN_F64); }

static const struct {
  const char *name, *library, *work; /* its calls begin so; what the device does for it */
  tn_status (*run)(tn_device *device);
} operations[] = {
    {"product", "cublasLt", "matmul", multiply}, {"qr", "cusolver", "geqrf", qr},
    {"qr_apply", "cusolver", "ormqr", qr_apply}, {"svd", "cusolver", "gesvd", svd},
    {"cholesky", "cusolver", "potrf", cholesky}, {"syrk", "cublas", "syrk", syrk},
    {"tanh", "cudnn", "dnn", tanh_of},           {"softmax", "cudnn", "dnn", softmax_of},
    {"layer_norm", "cudnn", "dnn", norm_of}};
enum { OPERATIONS = sizeof operations / sizeof *operations, MOST_CALLS = 64 };

static const int cublas_codes[] = {1, 3, 7, 8, 11, 13, 14, 15, 16, 99};
static const int cusolver_codes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 31, 99};
static const int cudnn_codes[] = {1001, 1002, 2000, 2003, 3000, 3003, 3007,
                                  4000, 4003, 4004, 5000, 5001, 99};

static const int *codes_of(const char *library, size_t *n) {
  bool solver = strcmp(library, "cusolver") == 0, dnn = strcmp(library, "cudnn") == 0;
  *n = solver ? sizeof cusolver_codes / sizeof(int)
       : dnn  ? sizeof cudnn_codes / sizeof(int)
              : sizeof cublas_codes / sizeof(int);
  return solver ? cusolver_codes : dnn ? cudnn_codes : cublas_codes;
}

/* The statuses that codes of "no memory" and "not supported" must become. */
static tn_status fitting(const char *library, int code, tn_status got) {
  bool solver = strcmp(library, "cusolver") == 0, dnn = strcmp(library, "cudnn") == 0;
  if (dnn ? code == 4003 || code == 4004 : code == (solver ? 2 : 3))
    return TN_ENOMEM;
  if (dnn ? code / 1000 == 3 : solver ? code == 8 || code == 9 : code == 15)
    return TN_EUNSUPPORTED;
  return got == TN_EENV || got == TN_EINTERNAL ? got : TN_EENV;
}

/* Not the library's own cleaning up, nor questions about texts and versions. */
static bool may_fail(const char *call, const char *library) {
  return strncmp(call, library, strlen(library)) == 0 && !strstr(call, "Destroy") &&
         !strstr(call, "Version") && !strstr(call, "String") && !strstr(call, "Property");
}

typedef struct place {
  char call[64];
  size_t nth;
} place;

/* As if no library had been needed yet. */
static void forget(tn_device *device) {
  gpu_context *g = gpu_of(device);
  GOOD(gpu_enter(g));
  gpu_vendor_free(g);
  gpu_leave(g);
  emulated->reset();
}

/* The calls that an operation makes at first. */
static size_t places_of(size_t o, tn_device *device, place *list) {
  size_t n = 0;
  forget(device);
  GOOD(operations[o].run(device));
  for (size_t i = 0; emulated->log(i); ++i) {
    const char *call = emulated->log(i);
    if (!may_fail(call, operations[o].library))
      continue;
    assert_true(n < MOST_CALLS);
    list[n].nth = 1;
    snprintf(list[n].call, sizeof list[n].call, "%s", call);
    for (size_t k = 0; k < n; ++k)
      list[n].nth += strcmp(list[k].call, call) == 0;
    ++n;
  }
  forget(device);
  return n;
}

static void check_place(size_t o, tn_device *device, const place *at, int code) {
  emulate_alive before, after;
  gpu_memory memory;
  emulated->count(&before);
  emulated->script(at->call, at->nth, code, false);
  tn_status status = operations[o].run(device);
  bool polar =
      strstr(at->call, "gesvdp") && code == CUSOLVER_STATUS_NOT_SUPPORTED; /* then the other way */
  if (status != (polar ? TN_OK : fitting(operations[o].library, code, status)))
    print_error("%s, code %d of call %zu of %s: %s\n", operations[o].name, code, at->nth, at->call,
                tn_status_name(status));
  assert_int_equal(status, polar ? TN_OK : fitting(operations[o].library, code, status));
  if (!polar)
    assert_non_null(strstr(tn_error_text(), at->call));
  GOOD(operations[o].run(device));
  assert_int_equal(emulated->misuse(), 0);
  forget(device);
  emulated->count(&after);
  assert_int_equal(before.handles, after.handles);
  GOOD(gpu_memory_of(device, &memory));
  assert_int_equal(memory.used, 0);
}

static void every_code_at_every_call_is_dealt_with(void **state) {
  (void)state;
  size_t cells = 0;
  tn_device *device = NULL;
  (void)open_device(&device);
  for (size_t o = 0; o < OPERATIONS; ++o) {
    place list[MOST_CALLS];
    size_t n_codes = 0, n = places_of(o, device, list);
    const int *codes = codes_of(operations[o].library, &n_codes);
    assert_true(n >= 3);
    for (size_t k = 0; k < n; ++k)
      for (size_t c = 0; c < n_codes; ++c, ++cells)
        check_place(o, device, &list[k], codes[c]);
    print_message("%s: %zu calls x %zu codes\n", operations[o].name, n, n_codes);
  }
  print_message("%zu cells\n", cells);
  tn_device_close(&device);
}

/* The device itself fails while it works: an error of the environment, and what there was is freed. */
static void lost_devices_are_told(void **state) {
  (void)state;
  for (size_t o = 0; o < OPERATIONS; ++o) {
    tn_device *device = NULL;
    (void)open_device(&device);
    emulated->reset();
    emulated->script(operations[o].work, 1, CUDA_ERROR_ILLEGAL_ADDRESS, false);
    assert_int_equal(operations[o].run(device), TN_EENV);
    assert_non_null(strstr(tn_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_not_equal(operations[o].run(device), TN_OK);
    tn_device_close(&device);
    assert_int_equal(emulated->misuse(), 0);
    emulated->reset();
  }
}

/* Without memory, at each allocation of the host, an operation says so and works when asked again. */
static void lack_of_host_memory_is_told(void **state) {
  (void)state;
  tn_device *device = NULL;
  (void)open_device(&device);
  for (size_t o = 0; o < OPERATIONS; ++o) {
    bool done = false;
    for (uint64_t n = 1; !done && n < 100; ++n) {
      forget(device);
      if (o > 0 && o < 6)
        assert_non_null(tn_device_factor(device)); /* whose lack is no table at all */
      tn_fault_at(n, false);
      tn_status status = operations[o].run(device);
      done = tn_fault_count() < n;
      tn_fault_at(0, false);
      assert_int_equal(status, done ? TN_OK : TN_ENOMEM);
      GOOD(operations[o].run(device));
    }
    assert_true(done);
  }
  tn_device_close(&device);
}

/* ---- Singular values by the polar decomposition ---------------------------------------------- */

static double moved_by;
static cusolverStatus_t (*real_polar)(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                      int, int64_t, int64_t, cudaDataType, void *, int64_t,
                                      cudaDataType, void *, cudaDataType, void *, int64_t,
                                      cudaDataType, void *, int64_t, cudaDataType, void *, size_t,
                                      void *, size_t, int *, double *);
static cusolverStatus_t moving_polar(cusolverDnHandle_t h, cusolverDnParams_t p,
                                     cusolverEigMode_t z, int econ, int64_t m, int64_t n,
                                     cudaDataType ta, void *A, int64_t lda, cudaDataType ts,
                                     void *S, cudaDataType tu, void *left, int64_t ldu,
                                     cudaDataType tv, void *right, int64_t ldv, cudaDataType tc,
                                     void *device, size_t nd, void *host, size_t nh, int *info,
                                     double *moved) {
  cusolverStatus_t status = real_polar(h, p, z, econ, m, n, ta, A, lda, ts, S, tu, left, ldu, tv,
                                       right, ldv, tc, device, nd, host, nh, info, moved);
  *moved = moved_by;
  return status;
}

/* Taken where it moves singular values by at most 16 u s_1; else the other way is gone, from then on at once. */
static void polar_way_is_taken_where_it_is_exact(void **state) {
  (void)state;
  enum { N = 5 };
  gpu_cusolver table;
  for (int far = 0; far < 2; ++far) {
    tn_device *device = NULL;
    gpu_context *g = open_device(&device);
    const tn_factor *f = tn_device_factor(device);
    tn_factor_work *work = NULL;
    gpu_vendor *v = NULL;
    double s[N], left[N * N], right[N * N];
    GOOD(gpu_vendor_of(g, &v));
    GOOD(gpu_need_cusolver(&v->solver));
    table = *v->solver;
    real_polar = table.cusolverDnXgesvdp;
    table.cusolverDnXgesvdp = moving_polar;
    v->solver = &table;
    moved_by = (far ? 17 : 15) * 0x1p-53 * 3; /* s_1 = 3 */
    GOOD(f->work_new(f, N, N, &work));
    emulated->reset();
    for (size_t k = 0; k < 3; ++k) {
      double A[N * N] = {[1] = 3, [N] = 2, [2 + 2 * N] = 1, [3 + 4 * N] = 0.5, [4 + 3 * N] = 1e-20};
      const double want[N] = {3, 2, 1, 0.5, 1e-20};
      GOOD(f->svd(f, work, N, A, s, left, right));
      for (size_t i = 0; i < N; ++i)
        assert_true(fabs(s[i] - want[i]) <= 16 * 0x1p-53 * 3);
      assert_true(fabs(fabs(left[1]) - 1) < 1e-15 &&
                  fabs(fabs(right[0]) - 1) < 1e-15); /* A e_0 = 3 e_1 */
    }
    assert_int_equal(emulated->calls("cusolverDnXgesvdp"), far ? 1 : 3);
    assert_int_equal(emulated->calls("cusolverDnDgesvd"), far ? 3 : 0);
    f->work_free(f, &work);
    tn_device_close(&device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_at_every_call_is_dealt_with),
      cmocka_unit_test(lost_devices_are_told),
      cmocka_unit_test(lack_of_host_memory_is_told),
      cmocka_unit_test(polar_way_is_taken_where_it_is_exact),
  };
  emulated = emulator_open();
  /* Opening memory for every work would take most of the time; other tests have it. */
  emulated->set("protect", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
