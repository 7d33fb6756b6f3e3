/* dnn.c: rows of the operation table by cuDNN, so that an audit can show its error beside ours.
 *
 *   tanh, sigmoid, relu, silu   cudnnActivationForward (silu is its swish, with factor 1)
 *   softmax                     cudnnSoftmaxForward, which subtracts the largest entry first
 *   layer_norm                  cudnnBatchNormalizationForwardTraining: each row is a channel of one image, so mean
 *                               and variance are those of the row; scale 1, shift 0
 *
 * Other rows are TN_EUNSUPPORTED: cuDNN's functions for single calls have no more, and what its graph interface
 * could add would be compiled at run time as our own kernels are. Networks do not go this way: a fused kernel does
 * all between two products without leaving registers, which a call of cuDNN cannot.
 *
 * Arrays are the host's, in the format that the operation computes in; 16-bit formats travel as 16 bits, and cuDNN
 * rounds its results to them.
 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "cuda/vendor.h"

#if GPU_HAVE_CUDNN

typedef struct gpu_dnn_state {
  cudnnHandle_t handle;
} state;

/* One call. */
typedef struct job {
  gpu_context *g;
  const gpu_cudnn *lib;
  cudnnHandle_t handle;
  tn_dtype dtype;
  cudnnDataType_t type;
  size_t n;
  CUdeviceptr x, y;
  uint16_t *narrow; /* n elements, for 16-bit formats */
  cudnnTensorDescriptor_t shape;
  char text[96];
} job;

static tn_status result(const job *j, cudnnStatus_t status, const char *call) {
  char words[256] = "";
  int code = (int)status, group = code / 1000;
  if (status == CUDNN_STATUS_SUCCESS)
    return TN_OK;
  if (j->lib->cudnnGetLastErrorString)
    j->lib->cudnnGetLastErrorString(words, sizeof words);
  words[sizeof words - 1] = 0;
  tn_status mapped = code == 4003 || code == 4004 ? TN_ENOMEM
                     : group == 2                 ? TN_EINTERNAL
                     : group == 3                 ? TN_EUNSUPPORTED
                                                  : TN_EENV;
  const char *name = j->lib->cudnnGetErrorString(status);
  return TN_FAIL(mapped, "%s: %s (%s)%s%s", call, name ? name : "an unknown status", j->text,
                 words[0] ? ": " : "", words);
}
#define DNN_TRY(j, name, arguments) TN_TRY(result((j), (j)->lib->name arguments, #name))

/* ---- Arrays ---------------------------------------------------------------------------------- */

static tn_status type_of(job *j) {
  switch (j->dtype) {
  case TN_F64:
    j->type = CUDNN_DATA_DOUBLE;
    return TN_OK;
  case TN_F32:
    j->type = CUDNN_DATA_FLOAT;
    return TN_OK;
  case TN_BF16:
    j->type = CUDNN_DATA_BFLOAT16;
    return TN_OK;
  case TN_F16:
    j->type = CUDNN_DATA_HALF;
    return TN_OK;
  default:
    return TN_FAIL(TN_EUNSUPPORTED, "cuDNN has no %s", tn_dtype_name(j->dtype));
  }
}

static bool is_narrow(const job *j) {
  return j->type == CUDNN_DATA_BFLOAT16 || j->type == CUDNN_DATA_HALF;
}

static tn_status open(job *j, const void *a) {
  gpu_vendor *v = NULL;
  size_t bytes = j->n * tn_dtype_size(j->dtype);
  TN_TRY(gpu_vendor_of(j->g, &v));
  if (!v->dnn)
    TN_TRY(gpu_need_cudnn(&v->dnn));
  j->lib = v->dnn;
  if (!v->dnn_state) {
    state *s = NULL;
    TN_TRY(TN_NEW(1, &s));
    tn_status status = result(j, j->lib->cudnnCreate(&s->handle), "cudnnCreate");
    if (status != TN_OK)
      tn_free(&s);
    TN_TRY(status);
    v->dnn_state = s;
  }
  j->handle = v->dnn_state->handle;
  DNN_TRY(j, cudnnSetStream, (j->handle, (cudaStream_t)j->g->stream));
  TN_TRY(gpu_take(j->g, bytes, &j->x));
  TN_TRY(gpu_take(j->g, bytes, &j->y));
  if (is_narrow(j)) {
    TN_TRY(TN_NEW(j->n, &j->narrow));
    tn_narrow(j->dtype, j->n, a, j->narrow);
  }
  TN_TRY(gpu_upload(j->g, false, j->x, j->narrow ? j->narrow : a, bytes));
  DNN_TRY(j, cudnnCreateTensorDescriptor, (&j->shape));
  return TN_OK;
}

static tn_status read(job *j, void *y) {
  TN_TRY(gpu_download(j->g, j->narrow ? j->narrow : y, j->y, j->n * tn_dtype_size(j->dtype)));
  if (j->narrow)
    tn_widen(j->dtype, j->n, j->narrow, y);
  return TN_OK;
}

static tn_status close(job *j, tn_status status) {
  if (j->shape)
    j->lib->cudnnDestroyTensorDescriptor(j->shape);
  gpu_give(j->g, &j->x);
  gpu_give(j->g, &j->y);
  tn_free(&j->narrow);
  return status;
}

/* The factors of results and of what was there before, in the type that cuDNN reads them in. */
static const double factors[] = {1, 0};
static const float narrow_factors[] = {1, 0};

static const void *factor(const job *j, size_t i) {
  return j->type == CUDNN_DATA_DOUBLE ? (const void *)&factors[i] : &narrow_factors[i];
}

static const void *input(const job *j) { return (const void *)(uintptr_t)j->x; }
static void *output(const job *j) { return (void *)(uintptr_t)j->y; }

static tn_status check_size(size_t n) {
  return n <= INT32_MAX
             ? TN_OK
             : TN_FAIL(TN_EUNSUPPORTED, "%zu elements are beyond cuDNN's 32-bit sizes", n);
}

/* ---- Activations ----------------------------------------------------------------------------- */

static bool mode_of(tn_op_id id, cudnnActivationMode_t *mode) {
  switch (id) {
  case TN_OP_tanh:
    *mode = CUDNN_ACTIVATION_TANH;
    return true;
  case TN_OP_sigmoid:
    *mode = CUDNN_ACTIVATION_SIGMOID;
    return true;
  case TN_OP_relu:
    *mode = CUDNN_ACTIVATION_RELU;
    return true;
  case TN_OP_silu:
    *mode = CUDNN_ACTIVATION_SWISH;
    return true;
  default:
    return false;
  }
}

static tn_status activate(job *j, cudnnActivationMode_t mode, cudnnActivationDescriptor_t how) {
  DNN_TRY(j, cudnnSetTensor4dDescriptor,
          (j->shape, CUDNN_TENSOR_NCHW, j->type, 1, 1, 1, (int)j->n));
  double coefficient = mode == CUDNN_ACTIVATION_RELU ? DBL_MAX : 1; /* of relu: its upper bound */
  DNN_TRY(j, cudnnSetActivationDescriptor, (how, mode, CUDNN_PROPAGATE_NAN, coefficient));
  DNN_TRY(j, cudnnActivationForward,
          (j->handle, how, factor(j, 0), j->shape, input(j), factor(j, 1), j->shape, output(j)));
  return TN_OK;
}

tn_status gpu_dnn_apply(gpu_context *g, tn_op_id id, tn_dtype dtype, size_t n, const void *a,
                        void *y) {
  job j = {.g = g, .dtype = dtype, .n = n};
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_TANH;
  cudnnActivationDescriptor_t how = NULL;
  if (!mode_of(id, &mode))
    return TN_FAIL(TN_EUNSUPPORTED, "cuDNN has no %s", tn_op_row(id)->name);
  TN_TRY(type_of(&j));
  TN_TRY(check_size(n));
  if (n == 0)
    return TN_OK;
  snprintf(j.text, sizeof j.text, "%s of %zu numbers in %s", tn_op_row(id)->name, n,
           tn_dtype_name(dtype));
  tn_status status = open(&j, a);
  if (status == TN_OK)
    status =
        result(&j, j.lib->cudnnCreateActivationDescriptor(&how), "cudnnCreateActivationDescriptor");
  if (status == TN_OK)
    status = activate(&j, mode, how);
  if (how)
    j.lib->cudnnDestroyActivationDescriptor(how);
  if (status == TN_OK)
    status = read(&j, y);
  return close(&j, status);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static tn_status softmax(job *j, size_t rows, size_t width) {
  DNN_TRY(j, cudnnSetTensor4dDescriptor,
          (j->shape, CUDNN_TENSOR_NCHW, j->type, (int)rows, (int)width, 1, 1));
  DNN_TRY(j, cudnnSoftmaxForward,
          (j->handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, factor(j, 0), j->shape,
           input(j), factor(j, 1), j->shape, output(j)));
  return TN_OK;
}

static tn_status normalise(job *j, size_t rows, size_t width, double epsilon,
                           cudnnTensorDescriptor_t each, CUdeviceptr scale) {
  bool wide = j->type == CUDNN_DATA_DOUBLE;
  size_t size = wide ? sizeof(double) : sizeof(float);
  double *ones = NULL; /* `rows` ones, then as many zeros, in either format */
  TN_TRY(TN_NEW(2 * rows, &ones));
  for (size_t i = 0; i < rows; ++i)
    memcpy((char *)ones + i * size, factor(j, 0), size);
  tn_status status = gpu_upload(j->g, false, scale, ones, 2 * rows * size);
  tn_free(&ones);
  TN_TRY(status);
  DNN_TRY(j, cudnnSetTensor4dDescriptor,
          (j->shape, CUDNN_TENSOR_NCHW, j->type, 1, (int)rows, 1, (int)width));
  DNN_TRY(
      j, cudnnSetTensor4dDescriptor,
      (each, CUDNN_TENSOR_NCHW, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, 1, (int)rows, 1, 1));
  DNN_TRY(j, cudnnBatchNormalizationForwardTraining,
          (j->handle, CUDNN_BATCHNORM_SPATIAL, factor(j, 0), factor(j, 1), j->shape, input(j),
           j->shape, output(j), each, (const void *)(uintptr_t)scale,
           (const void *)(uintptr_t)(scale + rows * size), 1, NULL, NULL, epsilon, NULL, NULL));
  return TN_OK;
}

static tn_status layer_norm(job *j, size_t rows, size_t width, double epsilon) {
  cudnnTensorDescriptor_t each = NULL;
  CUdeviceptr scale = 0;
  TN_TRY(gpu_take(j->g, 2 * rows * sizeof(double), &scale));
  tn_status status =
      result(j, j->lib->cudnnCreateTensorDescriptor(&each), "cudnnCreateTensorDescriptor");
  if (status == TN_OK)
    status = normalise(j, rows, width, epsilon, each, scale);
  if (each)
    j->lib->cudnnDestroyTensorDescriptor(each);
  gpu_give(j->g, &scale);
  return status;
}

static tn_status run_rows(job *j, tn_op_id id, size_t rows, size_t width, double epsilon,
                          const void *a, void *y) {
  tn_status status = open(j, a);
  if (status == TN_OK)
    status = id == TN_OP_softmax ? softmax(j, rows, width) : layer_norm(j, rows, width, epsilon);
  if (status == TN_OK)
    status = read(j, y);
  return close(j, status);
}

tn_status gpu_dnn_rows(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype,
                       size_t rows, size_t width, double epsilon, const void *a, void *y) {
  job j = {.g = gpu_of(device), .dtype = dtype};
  if (!provider || strcmp(provider, "cudnn") != 0)
    return TN_FAIL(TN_EINPUT, "there is no provider `%s` of operations on rows, expected cudnn",
                   provider ? provider : "own");
  if (id != TN_OP_softmax && id != TN_OP_layer_norm)
    return TN_FAIL(TN_EUNSUPPORTED, "cuDNN has no %s", tn_op_row(id)->name);
  TN_TRY(type_of(&j));
  if (width > 0 && rows > INT32_MAX / width)
    return TN_FAIL(TN_EUNSUPPORTED, "%zu rows of %zu are beyond cuDNN's 32-bit sizes", rows, width);
  j.n = rows * width;
  if (j.n == 0)
    return TN_OK;
  snprintf(j.text, sizeof j.text, "%s of %zu rows of %zu numbers in %s", tn_op_row(id)->name, rows,
           width, tn_dtype_name(dtype));
  tn_status status = gpu_enter(j.g);
  if (status == TN_OK)
    status = run_rows(&j, id, rows, width, epsilon, a, y);
  gpu_leave(j.g);
  return status;
}

void gpu_dnn_free(gpu_context *g) {
  gpu_vendor *v = g->vendor;
  if (v->dnn_state)
    v->dnn->cudnnDestroy(v->dnn_state->handle);
  tn_free(&v->dnn_state);
}

#else

static tn_status absent(void) {
  return TN_FAIL(TN_EENV, "this build has no cuDNN: its headers were not there when it was made");
}

tn_status gpu_dnn_apply(gpu_context *g, tn_op_id id, tn_dtype dtype, size_t n, const void *a,
                        void *y) {
  (void)g, (void)id, (void)dtype, (void)n, (void)a, (void)y;
  return absent();
}

tn_status gpu_dnn_rows(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype,
                       size_t rows, size_t width, double epsilon, const void *a, void *y) {
  (void)device, (void)provider, (void)id, (void)dtype, (void)rows, (void)width, (void)epsilon,
      (void)a, (void)y;
  return absent();
}

void gpu_dnn_free(gpu_context *g) { (void)g; }

#endif
