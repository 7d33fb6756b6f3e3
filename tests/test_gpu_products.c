/* test_gpu_products.c: matrix products by cuBLASLt and single operations by cuDNN, on the emulated device.
 *
 * The emulated libraries compute, in an order of their own, so results are judged by bounds that hold for any order.
 * What is tested is what cuda/ says to them: shapes, transposes, gaps, batches, formats, and what it keeps.
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

/* ---- Products -------------------------------------------------------------------------------- */

typedef struct product {
  gpu_gemm x;
  size_t n_a, n_b, n_y; /* elements */
  double *a, *b, *y;    /* as stored */
} product;

static double *numbers(size_t n, tn_dtype dtype, const char *name) {
  double *x = NULL;
  GOOD(TN_NEW(n, &x));
  for (size_t i = 0; i < n; ++i)
    x[i] = tn_round(dtype, number(name, i));
  return x;
}

/* Leading dimensions and strides with gaps, which must stay as they are. */
static product product_of(tn_dtype format, tn_dtype result, size_t m, size_t n, size_t k,
                          unsigned flags) {
  gpu_gemm x = {.transpose_a = flags & 1,
                .transpose_b = flags & 2,
                .add = flags & 4,
                .format = format,
                .result = result,
                .m = m,
                .n = n,
                .k = k,
                .batch = flags & 8 ? 3 : 1};
  size_t columns_a = x.transpose_a ? m : k, columns_b = x.transpose_b ? k : n;
  x.lda = (x.transpose_a ? k : m) + 2;
  x.ldb = (x.transpose_b ? n : k) + 1;
  x.ldy = m + 3;
  x.stride_a = x.lda * columns_a + 5;
  x.stride_b = flags & 16 ? 0 : x.ldb * columns_b + 1; /* 0: one matrix for all */
  x.stride_y = x.ldy * n;
  product p = {.x = x};
  p.n_a = x.stride_a * x.batch;
  p.n_b = x.ldb * columns_b + x.stride_b * (x.batch - 1);
  p.n_y = x.stride_y * x.batch;
  p.a = numbers(p.n_a, format, "a");
  p.b = numbers(p.n_b, format, "b");
  p.y = numbers(p.n_y, result, "y");
  return p;
}

static void drop(product *p) {
  tn_free(&p->a);
  tn_free(&p->b);
  tn_free(&p->y);
}

static tn_status put(gpu_context *g, tn_dtype dtype, size_t n, const double *x, CUdeviceptr *out) {
  void *data = NULL;
  TN_TRY(tn_new(n, tn_dtype_size(dtype), &data));
  tn_status status = tn_convert(n, TN_F64, x, dtype, data);
  if (status == TN_OK)
    status = gpu_take(g, n * tn_dtype_size(dtype), out);
  if (status == TN_OK)
    status = gpu_upload(g, false, *out, data, n * tn_dtype_size(dtype));
  tn_free(&data);
  return status;
}

static tn_status get(gpu_context *g, tn_dtype dtype, size_t n, CUdeviceptr from, double *x) {
  void *data = NULL;
  TN_TRY(tn_new(n, tn_dtype_size(dtype), &data));
  tn_status status = gpu_download(g, data, from, n * tn_dtype_size(dtype));
  if (status == TN_OK)
    status = tn_convert(n, dtype, data, TN_F64, x);
  tn_free(&data);
  return status;
}

static tn_status run_product(gpu_context *g, const product *p, double *got) {
  CUdeviceptr a = 0, b = 0, y = 0;
  tn_status status = gpu_enter(g);
  if (status == TN_OK)
    status = put(g, p->x.format, p->n_a, p->a, &a);
  if (status == TN_OK)
    status = put(g, p->x.format, p->n_b, p->b, &b);
  if (status == TN_OK)
    status = put(g, p->x.result, p->n_y, p->y, &y);
  if (status == TN_OK)
    status = gpu_multiply(g, &p->x, a, b, y);
  if (status == TN_OK)
    status = get(g, p->x.result, p->n_y, y, got);
  gpu_give(g, &a);
  gpu_give(g, &b);
  gpu_give(g, &y);
  gpu_leave(g);
  return status;
}

/* |error| <= (k + 1) u of the format of sums, times the sum of absolute values, and half a unit of the result's. */
static double judge(const product *p, const double *got) {
  const gpu_gemm *x = &p->x;
  double u = tn_dtype_roundoff(x->format == TN_F64 ? TN_F64 : TN_F32), worst = 0;
  double once =
      x->format == TN_TF32 ? 2 * tn_dtype_roundoff(TN_TF32) : 0; /* factors may be rounded */
  for (size_t i = 0; i < p->n_y; ++i) {
    size_t batch = i / x->stride_y, row = i % x->stride_y % x->ldy,
           column = i % x->stride_y / x->ldy;
    if (row >= x->m || column >= x->n) {
      assert_true(got[i] == p->y[i]);
      continue;
    }
    const double *a = p->a + batch * x->stride_a, *b = p->b + batch * x->stride_b;
    long double sum = x->add ? p->y[i] : 0, size = fabsl(sum);
    for (size_t k = 0; k < x->k; ++k) {
      long double term = (long double)(x->transpose_a ? a[k + row * x->lda] : a[row + k * x->lda]) *
                         (x->transpose_b ? b[column + k * x->ldb] : b[k + column * x->ldb]);
      sum += term;
      size += fabsl(term);
    }
    long double bound =
        ((double)(x->k + 1) * u + once) * size + tn_dtype_roundoff(x->result) * fabsl(sum);
    worst = fmax(worst, (double)(fabsl(got[i] - sum) / bound));
  }
  return worst;
}

static void products_are_right_in_all_formats(void **state) {
  (void)state;
  static const tn_dtype formats[][2] = {{TN_F64, TN_F64},  {TN_F32, TN_F32},   {TN_TF32, TN_F32},
                                        {TN_BF16, TN_F32}, {TN_BF16, TN_BF16}, {TN_F16, TN_F32},
                                        {TN_F16, TN_F16}};
  static const size_t shapes[][3] = {
      {1, 1, 1}, {16, 24, 100}, {33, 7, 5}, {9, 9, 9}, {128, 65, 70}};
  tn_device *device = NULL;
  gpu_context *g = open_device(&device);
  double worst = 0;
  for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
      for (unsigned flags = 0; flags < 32; ++flags) {
        if ((flags & 16) && !(flags & 8))
          continue;
        product p = product_of(formats[f][0], formats[f][1], shapes[s][0], shapes[s][1],
                               shapes[s][2], flags);
        double *got = NULL;
        GOOD(TN_NEW(p.n_y, &got));
        GOOD(run_product(g, &p, got));
        double share = judge(&p, got);
        assert_true(share <= 1);
        worst = fmax(worst, share);
        tn_free(&got);
        drop(&p);
      }
  print_message("products: at most %.2g of the bound\n", worst);
  tn_device_close(&device);
  assert_int_equal(emulated->misuse(), 0);
}

/* One algorithm for a shape, asked for once, however often it is used. */
static void a_shape_has_one_algorithm(void **state) {
  (void)state;
  tn_device *device = NULL;
  gpu_context *g = open_device(&device);
  product p = product_of(TN_F64, TN_F64, 20, 30, 40, 0);
  double *first = NULL, *got = NULL;
  GOOD(TN_NEW(p.n_y, &first));
  GOOD(TN_NEW(p.n_y, &got));
  emulated->reset();
  for (size_t k = 0; k < 3; ++k)
    GOOD(run_product(g, &p, k ? got : first));
  assert_memory_equal(first, got, p.n_y * sizeof *got);
  assert_int_equal(emulated->calls("cublasLtMatmulAlgoGetHeuristic"), 1);
  assert_int_equal(emulated->calls("cublasLtMatmul"), 3);
  for (size_t k = 1; k <= 300; ++k) { /* more shapes than are kept */
    product q = product_of(TN_F32, TN_F32, k, 2, 2, 0);
    double *y = NULL;
    GOOD(TN_NEW(q.n_y, &y));
    GOOD(run_product(g, &q, y));
    assert_true(judge(&q, y) <= 1);
    tn_free(&y);
    drop(&q);
  }
  product other = product_of(TN_F64, TN_F64, 20, 30, 41, 0);
  emulated->reset();
  for (size_t k = 0; k < 2; ++k) { /* those that were dropped are kept again, side by side */
    GOOD(run_product(g, &other, got));
    GOOD(run_product(g, &p, got));
  }
  drop(&other);
  assert_memory_equal(first, got, p.n_y * sizeof *got);
  assert_int_equal(emulated->calls("cublasLtMatmulAlgoGetHeuristic"), 2);
  assert_int_equal(emulated->misuse(), 0);
  tn_free(&first);
  tn_free(&got);
  drop(&p);
  tn_device_close(&device);
}

/* Batches that differ only in the distance of their results. */
static void strides_tell_shapes_apart(void **state) {
  (void)state;
  tn_device *device = NULL;
  gpu_context *g = open_device(&device);
  for (size_t gap = 0; gap < 3; ++gap) {
    product p = product_of(TN_F64, TN_F64, 4, 3, 2, 8);
    double *got = NULL;
    tn_free(&p.y);
    p.x.stride_y += gap * p.x.ldy; /* whole columns, which must stay as they are */
    p.n_y = p.x.stride_y * p.x.batch;
    p.y = numbers(p.n_y, TN_F64, "y");
    GOOD(TN_NEW(p.n_y, &got));
    GOOD(run_product(g, &p, got));
    assert_true(judge(&p, got) <= 1);
    tn_free(&got);
    drop(&p);
  }
  tn_device_close(&device);
}

static void products_that_do_not_fit_are_refused(void **state) {
  (void)state;
  tn_device *device = NULL;
  gpu_context *g = open_device(&device);
  const gpu_gemm good = {.format = TN_F64,
                         .result = TN_F64,
                         .m = 2,
                         .n = 3,
                         .k = 4,
                         .lda = 2,
                         .ldb = 4,
                         .ldy = 2,
                         .batch = 1};
  gpu_gemm x = good;
  emulated->reset();
  x.result = TN_F32;
  assert_int_equal(gpu_multiply(g, &x, 256, 512, 768), TN_EDTYPE);
  x = good, x.format = TN_I32;
  assert_int_equal(gpu_multiply(g, &x, 256, 512, 768), TN_EDTYPE);
  x = good, x.k = 0;
  assert_int_equal(gpu_multiply(g, &x, 256, 512, 768), TN_ESHAPE);
  x = good, x.lda = 1;
  assert_int_equal(gpu_multiply(g, &x, 256, 512, 768), TN_ESHAPE);
  assert_non_null(strstr(tn_error_text(), "leading dimensions 1, 4, 2, expected at least 2, 4, 2"));
  x = good, x.n = (size_t)1 << 32;
  assert_int_equal(gpu_multiply(g, &x, 256, 512, 768), TN_EUNSUPPORTED);
  x = good, x.m = 0;
  GOOD(gpu_multiply(g, &x, 0, 0, 0)); /* nothing to do */
  assert_int_equal(emulated->calls("cublasLtMatmul"), 0);
  tn_device_close(&device);
}

/* ---- cuDNN ----------------------------------------------------------------------------------- */

enum { POINTS = 500, ROWS = 12, WIDTH = 25 };

static double expected(tn_op_id id, double x) {
  switch (id) {
  case TN_OP_tanh:
    return tanh(x);
  case TN_OP_sigmoid:
    return 1 / (1 + exp(-x));
  case TN_OP_silu:
    return x / (1 + exp(-x));
  default:
    return x > 0 ? x : 0;
  }
}

/* Values in, values out, in the format that the operation computes in. */
static tn_status by_cudnn(tn_device *device, tn_op_id id, tn_dtype dtype, size_t rows, size_t width,
                          const double *x, double *y) {
  tn_dtype compute = tn_dtype_compute(dtype);
  size_t n = rows * width;
  void *a = NULL;
  TN_TRY(tn_new(n, tn_dtype_size(compute), &a));
  tn_status status = tn_convert(n, TN_F64, x, compute, a);
  if (status == TN_OK)
    status = id == TN_OP_softmax || id == TN_OP_layer_norm
                 ? tn_device_apply_rows(device, "cudnn", id, dtype, rows, width, 0x1p-10, a, a)
                 : tn_device_apply(device, "cudnn", id, dtype, n, a, NULL, 0, a);
  if (status == TN_OK)
    status = tn_convert(n, compute, a, TN_F64, y);
  tn_free(&a);
  return status;
}

static void activations_of_cudnn_are_the_rows_of_the_table(void **state) {
  (void)state;
  static const tn_op_id ids[] = {TN_OP_tanh, TN_OP_sigmoid, TN_OP_silu, TN_OP_relu};
  static const tn_dtype formats[] = {TN_F64, TN_F32, TN_BF16, TN_F16};
  tn_device *device = NULL;
  double got[POINTS];
  (void)open_device(&device);
  for (size_t f = 0; f < 4; ++f) {
    double *x = numbers(POINTS, formats[f], "x"), u = tn_dtype_roundoff(formats[f]);
    x[0] = NAN;
    for (size_t i = 0; i < 4; ++i) {
      GOOD(by_cudnn(device, ids[i], formats[f], POINTS, 1, x, got));
      assert_true(isnan(got[0]));
      for (size_t k = 1; k < POINTS; ++k) {
        assert_true(got[k] == tn_round(formats[f], got[k]));
        assert_true(fabs(got[k] - expected(ids[i], x[k])) <=
                    8 * u * fabs(expected(ids[i], x[k]))); /* 4 ulp */
      }
    }
    tn_free(&x);
  }
  assert_int_equal(by_cudnn(device, TN_OP_sin, TN_F64, 1, 1, got, got), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "cuDNN has no sin"));
  assert_int_equal(by_cudnn(device, TN_OP_tanh, TN_TF32, 1, 1, got, got), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "cuDNN has no tf32"));
  GOOD(by_cudnn(device, TN_OP_tanh, TN_F64, 0, 1, got, got));
  tn_device_close(&device);
  assert_int_equal(emulated->misuse(), 0);
}

static void rows_of_cudnn_keep_their_laws(void **state) {
  (void)state;
  static const tn_dtype formats[] = {TN_F64, TN_F32, TN_BF16, TN_F16};
  tn_device *device = NULL;
  double got[ROWS * WIDTH];
  (void)open_device(&device);
  for (size_t f = 0; f < 4; ++f) {
    double *x = numbers((size_t)ROWS * WIDTH, formats[f], "rows"),
           u = tn_dtype_roundoff(formats[f]);
    GOOD(by_cudnn(device, TN_OP_softmax, formats[f], ROWS, WIDTH, x, got));
    for (size_t r = 0; r < ROWS; ++r) {
      double sum = 0;
      for (size_t j = 0; j < WIDTH; ++j) {
        sum += got[r * WIDTH + j];
        for (size_t k = 0; k < j; ++k) /* order is kept */
          assert_true((x[r * WIDTH + j] > x[r * WIDTH + k]) <=
                      (got[r * WIDTH + j] >= got[r * WIDTH + k]));
      }
      assert_true(fabs(sum - 1) <= 16 * u);
    }
    GOOD(by_cudnn(device, TN_OP_layer_norm, formats[f], ROWS, WIDTH, x, got));
    for (size_t r = 0; r < ROWS; ++r) {
      double mean = 0, square = 0, at = 0, spread = 0;
      for (size_t j = 0; j < WIDTH; ++j)
        at += x[r * WIDTH + j] / WIDTH;
      for (size_t j = 0; j < WIDTH; ++j) {
        spread += (x[r * WIDTH + j] - at) * (x[r * WIDTH + j] - at) / WIDTH;
        mean += got[r * WIDTH + j] / WIDTH;
        square += got[r * WIDTH + j] * got[r * WIDTH + j] / WIDTH;
      }
      assert_true(fabs(mean) <= 16 * u);
      assert_true(fabs(square - spread / (spread + 0x1p-10)) <= 16 * u);
    }
    tn_free(&x);
  }
  assert_int_equal(by_cudnn(device, TN_OP_softmax, TN_TF32, 1, 1, got, got), TN_EUNSUPPORTED);
  assert_int_equal(tn_device_apply_rows(device, "other", TN_OP_softmax, TN_F64, 1, 1, 0, got, got),
                   TN_EINPUT);
  assert_int_equal(tn_device_apply_rows(device, "cudnn", TN_OP_rstd, TN_F64, 1, 1, 0, got, got),
                   TN_EUNSUPPORTED);
  tn_device_close(&device);
  assert_int_equal(emulated->misuse(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_right_in_all_formats),
      cmocka_unit_test(a_shape_has_one_algorithm),
      cmocka_unit_test(strides_tell_shapes_apart),
      cmocka_unit_test(products_that_do_not_fit_are_refused),
      cmocka_unit_test(activations_of_cudnn_are_the_rows_of_the_table),
      cmocka_unit_test(rows_of_cudnn_keep_their_laws),
  };
  emulated = emulator_open();
  /* Opening memory for every work would take most of the time; other tests have it. */
  emulated->set("protect", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
