/* cublaslt.c: libcublasLt of the emulated device: D = alpha op(A) op(B) + beta C, column-major, in
 * batches.
 *
 * Elements are read exactly; products are summed up in order of k in f64 for f64 and in f32
 * otherwise (TF32: with both factors rounded to 11 bits first), then rounded once to D's format. A
 * real device sums in another order: what a test can ask of both is a bound, not bits. Descriptors
 * are plain structs; an algorithm remembers the shape that it was found for and is refused for
 * another one.
 */
#include "tests/device/emulator.h"
#include "tests/device/numbers.h"

#include <cublasLt.h>
#include <stdlib.h>

enum { HANDLE = 0x4c540001, DESCRIPTOR, LAYOUT, PREFERENCE, ALGORITHM };

struct cublasLtContext {
  unsigned magic;
};
typedef struct descriptor {
  unsigned magic;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose[2];
} descriptor;
typedef struct layout {
  unsigned magic;
  element type;
  uint64_t rows, columns;
  int64_t ld, stride;
  int32_t batch;
} layout;
typedef struct preference {
  unsigned magic;
  uint64_t room;
} preference;

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (cublasStatus_t)code_;                                                                \
  } while (0)

static bool valid(const void *object, unsigned magic, const char *what) {
  if (object && *(const unsigned *)object == magic)
    return true;
  emulated_fault("cuBLASLt: %s is not one, or is used after its end", what);
  return false;
}

/* Objects are freed for good: that something is used afterwards is for the address sanitizer's
 * allocator to see. */
static cublasStatus_t made(void *object, void *out) {
  memcpy(out, &object, sizeof object);
  emulated_handle(object ? 1 : 0);
  return object ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t ended(void *object, unsigned magic, const char *call) {
  int code = emulated_call(call);
  if (!valid(object, magic, call))
    return CUBLAS_STATUS_INVALID_VALUE;
  *(unsigned *)object = 0;
  free(object);
  emulated_handle(-1);
  return (cublasStatus_t)code;
}

EMULATED size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
EMULATED const char *cublasLtGetStatusName(cublasStatus_t status) {
  static const char *const names[] = {
      [CUBLAS_STATUS_SUCCESS] = "CUBLAS_STATUS_SUCCESS",
      [CUBLAS_STATUS_NOT_INITIALIZED] = "CUBLAS_STATUS_NOT_INITIALIZED",
      [CUBLAS_STATUS_ALLOC_FAILED] = "CUBLAS_STATUS_ALLOC_FAILED",
      [CUBLAS_STATUS_INVALID_VALUE] = "CUBLAS_STATUS_INVALID_VALUE",
      [CUBLAS_STATUS_ARCH_MISMATCH] = "CUBLAS_STATUS_ARCH_MISMATCH",
      [CUBLAS_STATUS_MAPPING_ERROR] = "CUBLAS_STATUS_MAPPING_ERROR",
      [CUBLAS_STATUS_EXECUTION_FAILED] = "CUBLAS_STATUS_EXECUTION_FAILED",
      [CUBLAS_STATUS_INTERNAL_ERROR] = "CUBLAS_STATUS_INTERNAL_ERROR",
      [CUBLAS_STATUS_NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED",
  };
  const size_t n = sizeof names / sizeof *names;
  return (size_t)status < n && names[status] ? names[status] : "CUBLAS_STATUS unknown";
}
EMULATED const char *cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

EMULATED cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  CALL("cublasLtCreate");
  struct cublasLtContext *handle = calloc(1, sizeof *handle);
  if (handle)
    handle->magic = HANDLE;
  return made(handle, out);
}
EMULATED cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return ended(handle, HANDLE, "cublasLtDestroy");
}

EMULATED cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                                 cublasComputeType_t compute,
                                                 cudaDataType_t scale) {
  CALL("cublasLtMatmulDescCreate");
  descriptor *d = calloc(1, sizeof *d);
  if (d)
    *d = (descriptor){DESCRIPTOR, compute, scale, {CUBLAS_OP_N, CUBLAS_OP_N}};
  return made(d, out);
}
EMULATED cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  return ended(d, DESCRIPTOR, "cublasLtMatmulDescDestroy");
}
EMULATED cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object,
                                                       cublasLtMatmulDescAttributes_t attribute,
                                                       const void *value, size_t bytes) {
  CALL("cublasLtMatmulDescSetAttribute");
  descriptor *d = (descriptor *)object;
  bool is_a = attribute == CUBLASLT_MATMUL_DESC_TRANSA;
  if (!valid(d, DESCRIPTOR, "an operation") || bytes != 4)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_a && attribute != CUBLASLT_MATMUL_DESC_TRANSB)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  memcpy(&d->transpose[!is_a], value, 4);
  return CUBLAS_STATUS_SUCCESS;
}

EMULATED cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                                   uint64_t rows, uint64_t columns, int64_t ld) {
  CALL("cublasLtMatrixLayoutCreate");
  element e = type == CUDA_R_64F    ? ELEMENT_F64
              : type == CUDA_R_32F  ? ELEMENT_F32
              : type == CUDA_R_16BF ? ELEMENT_BF16
              : type == CUDA_R_16F  ? ELEMENT_F16
                                    : ELEMENTS;
  if (e == ELEMENTS || ld < (int64_t)rows || rows == 0 || columns == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  layout *l = calloc(1, sizeof *l);
  if (l)
    *l = (layout){LAYOUT, e, rows, columns, ld, 0, 1};
  return made(l, out);
}
EMULATED cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return ended(l, LAYOUT, "cublasLtMatrixLayoutDestroy");
}
EMULATED cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t object,
                                                         cublasLtMatrixLayoutAttribute_t attribute,
                                                         const void *value, size_t bytes) {
  CALL("cublasLtMatrixLayoutSetAttribute");
  layout *l = (layout *)object;
  if (!valid(l, LAYOUT, "a layout"))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4)
    memcpy(&l->batch, value, 4);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8)
    memcpy(&l->stride, value, 8);
  else
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

EMULATED cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  CALL("cublasLtMatmulPreferenceCreate");
  preference *p = calloc(1, sizeof *p);
  if (p)
    p->magic = PREFERENCE;
  return made(p, out);
}
EMULATED cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return ended(p, PREFERENCE, "cublasLtMatmulPreferenceDestroy");
}
EMULATED cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t object, cublasLtMatmulPreferenceAttributes_t attribute,
    const void *value, size_t bytes) {
  CALL("cublasLtMatmulPreferenceSetAttribute");
  preference *p = (preference *)object;
  if (!valid(p, PREFERENCE, "a preference"))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8)
    memcpy(&p->room, value, 8);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products -------------------------------------------------------------------------------- */
typedef struct matmul {
  descriptor how;
  layout a, b, c, d;
  const void *A, *B, *C;
  void *D;
  double alpha, beta;
} matmul;

static uint64_t shape_of(const matmul *m) {
  const uint64_t words[] = {(uint64_t)m->how.compute,
                            (uint64_t)m->how.transpose[0],
                            (uint64_t)m->how.transpose[1],
                            m->a.rows,
                            m->a.columns,
                            (uint64_t)m->a.ld,
                            m->b.rows,
                            m->b.columns,
                            (uint64_t)m->b.ld,
                            m->d.rows,
                            m->d.columns,
                            (uint64_t)m->d.ld,
                            (uint64_t)m->d.batch,
                            (uint64_t)m->a.type,
                            (uint64_t)m->d.type};
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    hash = (hash ^ words[i]) * 1099511628211u;
  return hash;
}

static bool fits(const matmul *m) {
  bool ta = m->how.transpose[0] != CUBLAS_OP_N, tb = m->how.transpose[1] != CUBLAS_OP_N;
  uint64_t rows = ta ? m->a.columns : m->a.rows, inner = ta ? m->a.rows : m->a.columns;
  uint64_t inner_b = tb ? m->b.columns : m->b.rows, columns = tb ? m->b.rows : m->b.columns;
  bool wide = m->a.type == ELEMENT_F64;
  bool compute =
      wide ? m->how.compute == CUBLAS_COMPUTE_64F
           : m->how.compute == CUBLAS_COMPUTE_32F ||
                 (m->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && m->a.type == ELEMENT_F32);
  return compute && rows == m->d.rows && columns == m->d.columns && inner == inner_b &&
         m->c.rows == m->d.rows && m->c.columns == m->d.columns && m->a.type == m->b.type &&
         m->c.type == m->d.type && (m->d.type == m->a.type || m->d.type == ELEMENT_F32) &&
         m->a.batch == m->d.batch && m->b.batch == m->d.batch &&
         m->how.scale == (wide ? CUDA_R_64F : CUDA_R_32F);
}

static matmul matmul_of(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                        cublasLtMatrixLayout_t d) {
  return (matmul){.how = *(const descriptor *)how,
                  .a = *(const layout *)a,
                  .b = *(const layout *)b,
                  .c = *(const layout *)c,
                  .d = *(const layout *)d};
}

static bool all_valid(const void *handle, const void *how, const void *a, const void *b,
                      const void *c, const void *d) {
  return valid(handle, HANDLE, "a handle") && valid(how, DESCRIPTOR, "an operation") &&
         valid(a, LAYOUT, "A's layout") && valid(b, LAYOUT, "B's layout") &&
         valid(c, LAYOUT, "C's layout") && valid(d, LAYOUT, "D's layout");
}

EMULATED cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t wish, int most, cublasLtMatmulHeuristicResult_t *results, int *n) {
  CALL("cublasLtMatmulAlgoGetHeuristic");
  *n = 0;
  if (!all_valid(handle, how, a, b, c, d) || !valid(wish, PREFERENCE, "a preference") || most < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul m = matmul_of(how, a, b, c, d);
  if (!fits(&m))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  memset(results, 0, sizeof *results);
  results->algo.data[0] = ALGORITHM;
  results->algo.data[1] = shape_of(&m);
  results->state = CUBLAS_STATUS_SUCCESS;
  results->wavesCount = 1;
  *n = 1;
  return CUBLAS_STATUS_SUCCESS;
}

static double factor(const matmul *m, bool is_a, const layout *l, const char *data, uint64_t row,
                     uint64_t column) {
  bool transposed = m->how.transpose[!is_a] != CUBLAS_OP_N;
  uint64_t r = transposed ? column : row, q = transposed ? row : column;
  double x = element_read(l->type, data, (size_t)(r + q * (uint64_t)l->ld));
  return m->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? element_round(x, 11, -136) : x;
}

/* y[rows x columns] of one batch; a column of sums at a time, so that the innermost loop runs down
 * a column of A. */
static void multiply(const matmul *m, const double *a, const double *b, size_t inner, double *sum,
                     float *narrow, size_t column) {
  size_t rows = m->d.rows;
  bool wide = m->how.compute == CUBLAS_COMPUTE_64F;
  for (size_t i = 0; i < rows; ++i)
    sum[i] = narrow[i] = 0;
  for (size_t k = 0; k < inner; ++k) {
    const double *at = a + k * rows, x = b[k + column * inner];
    if (wide)
      for (size_t i = 0; i < rows; ++i)
        sum[i] += at[i] * x;
    else
      for (size_t i = 0; i < rows; ++i)
        narrow[i] += (float)at[i] * (float)x;
  }
  if (!wide)
    for (size_t i = 0; i < rows; ++i)
      sum[i] = (double)narrow[i];
}

static void finish(const matmul *m, const double *sum, size_t column, const char *C, char *D) {
  bool wide = m->how.compute == CUBLAS_COMPUTE_64F;
  for (size_t i = 0; i < m->d.rows; ++i) {
    double old = m->beta == 0 ? 0 : element_read(m->c.type, C, i + column * (size_t)m->c.ld);
    double y = wide ? m->alpha * sum[i] + m->beta * old
                    : (double)((float)m->alpha * (float)sum[i] + (float)m->beta * (float)old);
    element_write(m->d.type, D, i + column * (size_t)m->d.ld, y);
  }
}

static CUresult run_matmul(void *data) {
  const matmul *m = data;
  bool ta = m->how.transpose[0] != CUBLAS_OP_N;
  size_t rows = m->d.rows, columns = m->d.columns, inner = ta ? m->a.rows : m->a.columns;
  double *a = malloc(rows * inner * sizeof *a), *b = malloc(inner * columns * sizeof *b);
  double *sum = malloc(rows * sizeof *sum);
  float *narrow = malloc(rows * sizeof *narrow);
  bool good = a && b && sum && narrow;
  for (int batch = 0; good && batch < m->d.batch; ++batch) {
    const char *A = (const char *)m->A + (size_t)(batch * m->a.stride) * element_bytes(m->a.type);
    const char *B = (const char *)m->B + (size_t)(batch * m->b.stride) * element_bytes(m->b.type);
    const char *C = (const char *)m->C + (size_t)(batch * m->c.stride) * element_bytes(m->c.type);
    char *D = (char *)m->D + (size_t)(batch * m->d.stride) * element_bytes(m->d.type);
    for (size_t k = 0; k < inner; ++k)
      for (size_t i = 0; i < rows; ++i)
        a[i + k * rows] = factor(m, true, &m->a, A, i, k);
    for (size_t j = 0; j < columns; ++j)
      for (size_t k = 0; k < inner; ++k)
        b[k + j * inner] = factor(m, false, &m->b, B, k, j);
    for (size_t j = 0; j < columns; ++j) {
      multiply(m, a, b, inner, sum, narrow, j);
      finish(m, sum, j, C, D);
    }
  }
  free(narrow);
  free(sum);
  free(b);
  free(a);
  return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool in_range(const char *what, const layout *l, const void *data) {
  size_t last =
      (size_t)((l->batch - 1) * l->stride) + (size_t)(l->columns - 1) * (size_t)l->ld + l->rows;
  return emulated_device_range(what, data, last * element_bytes(l->type));
}

EMULATED cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                       const void *alpha, const void *A, cublasLtMatrixLayout_t a,
                                       const void *B, cublasLtMatrixLayout_t b, const void *beta,
                                       const void *C, cublasLtMatrixLayout_t c, void *D,
                                       cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm, void *room,
                                       size_t room_bytes, cudaStream_t stream) {
  CALL("cublasLtMatmul");
  if (!all_valid(handle, how, a, b, c, d))
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul m = matmul_of(how, a, b, c, d);
  m.A = A;
  m.B = B;
  m.C = C;
  m.D = D;
  if (!fits(&m))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algorithm && (algorithm->data[0] != ALGORITHM || algorithm->data[1] != shape_of(&m))) {
    emulated_fault("cublasLtMatmul: the algorithm was not found for this shape");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  bool wide = m.how.scale == CUDA_R_64F;
  m.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
  m.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
  if (!in_range("cublasLtMatmul: A", &m.a, A) || !in_range("cublasLtMatmul: B", &m.b, B) ||
      !in_range("cublasLtMatmul: D", &m.d, D) ||
      (m.beta != 0 && !in_range("cublasLtMatmul: C", &m.c, C)) ||
      (room_bytes && !emulated_device_range("cublasLtMatmul: room", room, room_bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  return emulated_queue((CUstream)stream, "matmul", run_matmul, &m, sizeof m)
             ? CUBLAS_STATUS_EXECUTION_FAILED
             : CUBLAS_STATUS_SUCCESS;
}
