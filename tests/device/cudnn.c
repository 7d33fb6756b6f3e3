/* cudnn.c: libcudnn of the emulated device: activations, softmax and batch normalisation, by the C
 * library in f64 and rounded once. Strides are those of a packed NCHW tensor, the only format that
 * is asked for. */
#include "tests/device/emulator.h"
#include "tests/device/numbers.h"

#include <cudnn.h>
#include <stdlib.h>

enum { HANDLE = 0x444e0001, TENSOR, ACTIVATION };

struct cudnnContext {
  unsigned magic;
  CUstream stream;
};
struct cudnnTensorStruct {
  unsigned magic;
  element type;
  size_t n, c, h, w;
};
struct cudnnActivationStruct {
  unsigned magic;
  cudnnActivationMode_t mode;
  double coefficient;
};

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (cudnnStatus_t)code_;                                                                 \
  } while (0)

static bool valid(const void *object, unsigned magic, const char *call) {
  if (object && *(const unsigned *)object == magic)
    return true;
  emulated_fault("%s: an object is not one, or is used after its end", call);
  return false;
}

static cudnnStatus_t made(void *object, unsigned magic, void *out) {
  memcpy(out, &object, sizeof object);
  if (!object)
    return CUDNN_STATUS_ALLOC_FAILED;
  *(unsigned *)object = magic;
  emulated_handle(1);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t ended(void *object, unsigned magic, const char *call) {
  int code = emulated_call(call);
  if (!valid(object, magic, call))
    return CUDNN_STATUS_BAD_PARAM;
  *(unsigned *)object = 0;
  free(object);
  emulated_handle(-1);
  return (cudnnStatus_t)code;
}

EMULATED size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
EMULATED const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS            ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_INITIALIZED  ? "CUDNN_STATUS_NOT_INITIALIZED"
         : status == CUDNN_STATUS_ALLOC_FAILED     ? "CUDNN_STATUS_ALLOC_FAILED"
         : status == CUDNN_STATUS_BAD_PARAM        ? "CUDNN_STATUS_BAD_PARAM"
         : status == CUDNN_STATUS_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
         : status == CUDNN_STATUS_INTERNAL_ERROR   ? "CUDNN_STATUS_INTERNAL_ERROR"
                                                   : "CUDNN_STATUS unknown";
}
EMULATED void cudnnGetLastErrorString(char *text, size_t room) {
  if (room > 0)
    text[0] = '\0';
}

EMULATED cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
  CALL("cudnnCreate");
  return made(calloc(1, sizeof **out), HANDLE, out);
}
EMULATED cudnnStatus_t cudnnDestroy(cudnnHandle_t h) { return ended(h, HANDLE, "cudnnDestroy"); }
EMULATED cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  CALL("cudnnSetStream");
  if (!valid(h, HANDLE, "cudnnSetStream"))
    return CUDNN_STATUS_BAD_PARAM;
  h->stream = (CUstream)stream;
  return CUDNN_STATUS_SUCCESS;
}

EMULATED cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
  CALL("cudnnCreateTensorDescriptor");
  return made(calloc(1, sizeof **out), TENSOR, out);
}
EMULATED cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
  return ended(t, TENSOR, "cudnnDestroyTensorDescriptor");
}
EMULATED cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t,
                                                  cudnnTensorFormat_t format, cudnnDataType_t type,
                                                  int n, int c, int h, int w) {
  CALL("cudnnSetTensor4dDescriptor");
  element e = type == CUDNN_DATA_DOUBLE     ? ELEMENT_F64
              : type == CUDNN_DATA_FLOAT    ? ELEMENT_F32
              : type == CUDNN_DATA_BFLOAT16 ? ELEMENT_BF16
              : type == CUDNN_DATA_HALF     ? ELEMENT_F16
                                            : ELEMENTS;
  if (!valid(t, TENSOR, "cudnnSetTensor4dDescriptor") || format != CUDNN_TENSOR_NCHW || n < 1 ||
      c < 1 || h < 1 || w < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (e == ELEMENTS)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *t = (struct cudnnTensorStruct){TENSOR, e, (size_t)n, (size_t)c, (size_t)h, (size_t)w};
  return CUDNN_STATUS_SUCCESS;
}

EMULATED cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *out) {
  CALL("cudnnCreateActivationDescriptor");
  return made(calloc(1, sizeof **out), ACTIVATION, out);
}
EMULATED cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t a) {
  return ended(a, ACTIVATION, "cudnnDestroyActivationDescriptor");
}
EMULATED cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t a,
                                                    cudnnActivationMode_t mode,
                                                    cudnnNanPropagation_t nan, double coefficient) {
  CALL("cudnnSetActivationDescriptor");
  (void)nan;
  if (!valid(a, ACTIVATION, "cudnnSetActivationDescriptor"))
    return CUDNN_STATUS_BAD_PARAM;
  a->mode = mode;
  a->coefficient = coefficient;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- Work ------------------------------------------------------------------------------------ */
typedef struct job {
  struct cudnnTensorStruct shape;
  struct cudnnActivationStruct how;
  const void *x, *scale, *shift;
  void *y;
  double epsilon;
  element parameters; /* of scale and shift */
} job;

static size_t count(const struct cudnnTensorStruct *t) { return t->n * t->c * t->h * t->w; }

static double activate(const struct cudnnActivationStruct *how, double x) {
  switch (how->mode) {
  case CUDNN_ACTIVATION_SIGMOID:
    return 1 / (1 + exp(-x));
  case CUDNN_ACTIVATION_RELU:
    return x != x || x > 0 ? x : 0;
  case CUDNN_ACTIVATION_TANH:
    return tanh(x);
  case CUDNN_ACTIVATION_SWISH:
    return x / (1 + exp(-how->coefficient * x));
  default:
    return (double)NAN;
  }
}

static CUresult run_activation(void *data) {
  const job *j = data;
  for (size_t i = 0; i < count(&j->shape); ++i)
    element_write(j->shape.type, j->y, i, activate(&j->how, element_read(j->shape.type, j->x, i)));
  return CUDA_SUCCESS;
}

/* Over all of c, h, w of each n. */
static CUresult run_softmax(void *data) {
  const job *j = data;
  element e = j->shape.type;
  size_t width = j->shape.c * j->shape.h * j->shape.w;
  for (size_t n = 0; n < j->shape.n; ++n) {
    double most = -(double)INFINITY, sum = 0;
    for (size_t i = 0; i < width; ++i)
      most = fmax(most, element_read(e, j->x, n * width + i));
    for (size_t i = 0; i < width; ++i)
      sum += exp(element_read(e, j->x, n * width + i) - most);
    for (size_t i = 0; i < width; ++i)
      element_write(e, j->y, n * width + i, exp(element_read(e, j->x, n * width + i) - most) / sum);
  }
  return CUDA_SUCCESS;
}

/* Each channel over n, h, w. */
static CUresult run_normalisation(void *data) {
  const job *j = data;
  const struct cudnnTensorStruct *t = &j->shape;
  size_t area = t->h * t->w;
  for (size_t c = 0; c < t->c; ++c) {
    double mean = 0, variance = 0, all = (double)(t->n * area);
    for (size_t n = 0; n < t->n; ++n)
      for (size_t i = 0; i < area; ++i)
        mean += element_read(t->type, j->x, (n * t->c + c) * area + i) / all;
    for (size_t n = 0; n < t->n; ++n)
      for (size_t i = 0; i < area; ++i) {
        double d = element_read(t->type, j->x, (n * t->c + c) * area + i) - mean;
        variance += d * d / all;
      }
    double scale = element_read(j->parameters, j->scale, c),
           shift = element_read(j->parameters, j->shift, c);
    for (size_t n = 0; n < t->n; ++n)
      for (size_t i = 0; i < area; ++i) {
        size_t at = (n * t->c + c) * area + i;
        element_write(
            t->type, j->y, at,
            (element_read(t->type, j->x, at) - mean) / sqrt(variance + j->epsilon) * scale + shift);
      }
  }
  return CUDA_SUCCESS;
}

static cudnnStatus_t queue(cudnnHandle_t h, const char *call, emulated_work run, const job *j,
                           cudnnTensorDescriptor_t other) {
  size_t bytes = count(&j->shape) * element_bytes(j->shape.type);
  if (!valid(h, HANDLE, call) || other->type != j->shape.type || count(other) != count(&j->shape) ||
      !emulated_device_range(call, j->x, bytes) || !emulated_device_range(call, j->y, bytes))
    return CUDNN_STATUS_BAD_PARAM;
  return emulated_queue(h->stream, "dnn", run, j, sizeof *j) ? CUDNN_STATUS_EXECUTION_FAILED
                                                             : CUDNN_STATUS_SUCCESS;
}

/* Only y = 1 op(x) + 0 y is known. */
static bool plain(element e, const void *alpha, const void *beta) {
  element factors = e == ELEMENT_F64 ? ELEMENT_F64 : ELEMENT_F32;
  return element_read(factors, alpha, 0) == 1 && element_read(factors, beta, 0) == 0;
}

EMULATED cudnnStatus_t cudnnActivationForward(cudnnHandle_t h, cudnnActivationDescriptor_t how,
                                              const void *alpha, const cudnnTensorDescriptor_t tx,
                                              const void *x, const void *beta,
                                              const cudnnTensorDescriptor_t ty, void *y) {
  static const char call[] = "cudnnActivationForward";
  CALL(call);
  if (!valid(how, ACTIVATION, call) || !valid(tx, TENSOR, call) || !valid(ty, TENSOR, call))
    return CUDNN_STATUS_BAD_PARAM;
  job j = {.shape = *tx, .how = *how, .x = x, .y = y};
  return plain(tx->type, alpha, beta) ? queue(h, call, run_activation, &j, ty)
                                      : CUDNN_STATUS_NOT_SUPPORTED;
}

EMULATED cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t h, cudnnSoftmaxAlgorithm_t algorithm,
                                           cudnnSoftmaxMode_t mode, const void *alpha,
                                           const cudnnTensorDescriptor_t tx, const void *x,
                                           const void *beta, const cudnnTensorDescriptor_t ty,
                                           void *y) {
  static const char call[] = "cudnnSoftmaxForward";
  CALL(call);
  if (!valid(tx, TENSOR, call) || !valid(ty, TENSOR, call))
    return CUDNN_STATUS_BAD_PARAM;
  if (algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_INSTANCE ||
      !plain(tx->type, alpha, beta))
    return CUDNN_STATUS_NOT_SUPPORTED;
  job j = {.shape = *tx, .x = x, .y = y};
  return queue(h, call, run_softmax, &j, ty);
}

EMULATED cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t h, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t tx, const void *x, const cudnnTensorDescriptor_t ty, void *y,
    const cudnnTensorDescriptor_t each, const void *scale, const void *shift, double average,
    void *running_mean, void *running_variance, double epsilon, void *saved_mean,
    void *saved_variance) {
  static const char call[] = "cudnnBatchNormalizationForwardTraining";
  CALL(call);
  (void)average;
  if (!valid(tx, TENSOR, call) || !valid(ty, TENSOR, call) || !valid(each, TENSOR, call) ||
      each->c != tx->c ||
      !emulated_device_range(call, scale, each->c * element_bytes(each->type)) ||
      !emulated_device_range(call, shift, each->c * element_bytes(each->type)))
    return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_BATCHNORM_SPATIAL || running_mean || running_variance || saved_mean ||
      saved_variance || !plain(tx->type, alpha, beta))
    return CUDNN_STATUS_NOT_SUPPORTED;
  job j = {.shape = *tx,
           .x = x,
           .y = y,
           .scale = scale,
           .shift = shift,
           .epsilon = epsilon,
           .parameters = each->type};
  return queue(h, call, run_normalisation, &j, ty);
}
