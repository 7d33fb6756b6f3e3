/* gemm.c: matrix products by cuBLASLt, with one algorithm for a shape.
 *
 *   Y[m x n] = (add ? Y : 0) + op(A) op(B),   column-major,   op(A)[m x k], op(B)[k x n]
 *
 *   elements  f64   f32   tf32 (f32 in memory)   bf16, f16
 *   compute   64F   32F   32F_FAST_TF32          32F
 *
 * so f32 is never taken in TF32 unless the caller's dtype is tf32, and 16-bit elements are summed up in f32.
 *
 * Bits. cuBLASLt chooses an algorithm by a heuristic of the shape, the alignment of the pointers and the room that it
 * gets, and that choice fixes the order of sums. Here the room has one size, and a plan (descriptors and algorithm)
 * is kept for each shape with its alignments, so the same product gives the same bits on one kind of device with one
 * version of the library. Of the schemes that cut k, allowed are the ones that add up parts of the compute type in a
 * step of its own, in a fixed order; the one that adds to the output in place as blocks end is not, and the one
 * that rounds parts to the output's type is not.
 *
 * Plans are found by a hash of their shape. When there are many, all are dropped and made anew as they are needed:
 * the heuristic gives the same algorithm again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda/vendor.h"

enum { PLANS = 256, MOST_PLANS = 192, WORDS = 16, ALIGNED = 256 };

typedef struct plan {
  bool used;
  uint64_t key[WORDS];
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, y;
  cublasLtMatmulAlgo_t algorithm;
} plan;

typedef struct gpu_gemm_plans {
  cublasLtHandle_t handle;
  CUdeviceptr room;
  size_t room_bytes, n;
  plan plan[PLANS];
} plans;

/* A shape on its way into a plan. */
typedef struct request {
  const gpu_cublaslt *lt;
  const gpu_gemm *x;
  uint32_t aligned[3]; /* bytes: a, b, y */
  size_t room_bytes;
  char text[160]; /* for messages */
} request;

static tn_status lt(const request *r, cublasStatus_t status, const char *call) {
  return gpu_cublas_result(status, call, r->text);
}
#define LT_TRY(r, name, arguments) TN_TRY(lt((r), (r)->lt->name arguments, #name))

/* ---- Formats --------------------------------------------------------------------------------- */

static bool element_of(tn_dtype dtype, cudaDataType_t *type) {
  switch (dtype) {
  case TN_F64:
    *type = CUDA_R_64F;
    return true;
  case TN_F32:
  case TN_TF32:
    *type = CUDA_R_32F;
    return true;
  case TN_BF16:
    *type = CUDA_R_16BF;
    return true;
  case TN_F16:
    *type = CUDA_R_16F;
    return true;
  default:
    return false;
  }
}

static cublasComputeType_t compute_of(tn_dtype dtype) {
  return dtype == TN_F64    ? CUBLAS_COMPUTE_64F
         : dtype == TN_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                            : CUBLAS_COMPUTE_32F;
}

/* Results have the elements' format, or f32 for 16-bit ones. */
static bool fits_result(const gpu_gemm *x) {
  cudaDataType_t format, result;
  if (!element_of(x->format, &format) || !element_of(x->result, &result))
    return false;
  return result == format ||
         (result == CUDA_R_32F && (format == CUDA_R_16BF || format == CUDA_R_16F));
}

static tn_status check(const gpu_gemm *x, const char *text) {
  size_t rows_a = x->transpose_a ? x->k : x->m, rows_b = x->transpose_b ? x->n : x->k;
  if (!fits_result(x))
    return TN_FAIL(TN_EDTYPE, "product of %s: cuBLASLt has no results in %s for it", text,
                   tn_dtype_name(x->result));
  if (x->m > INT32_MAX || x->n > INT32_MAX || x->k > INT32_MAX || x->batch > INT32_MAX)
    return TN_FAIL(TN_EUNSUPPORTED, "product of %s: an extent is beyond cuBLASLt's 32-bit sizes",
                   text);
  if (x->k == 0)
    return TN_FAIL(TN_ESHAPE, "product of %s: expected k > 0", text);
  if (x->lda < rows_a || x->ldb < rows_b || x->ldy < x->m)
    return TN_FAIL(
        TN_ESHAPE,
        "product of %s: leading dimensions %zu, %zu, %zu, expected at least %zu, %zu, %zu", text,
        x->lda, x->ldb, x->ldy, rows_a, rows_b, x->m);
  return TN_OK;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void drop(const gpu_cublaslt *lt, plan *p) {
  if (p->y)
    lt->cublasLtMatrixLayoutDestroy(p->y);
  if (p->b)
    lt->cublasLtMatrixLayoutDestroy(p->b);
  if (p->a)
    lt->cublasLtMatrixLayoutDestroy(p->a);
  if (p->operation)
    lt->cublasLtMatmulDescDestroy(p->operation);
  memset(p, 0, sizeof *p);
}

static tn_status lay_out(const request *r, tn_dtype dtype, size_t rows, size_t columns, size_t ld,
                         size_t stride, cublasLtMatrixLayout_t *out) {
  cudaDataType_t type = CUDA_R_64F;
  int32_t batch = (int32_t)r->x->batch;
  int64_t step = (int64_t)stride;
  (void)element_of(dtype, &type);
  LT_TRY(r, cublasLtMatrixLayoutCreate, (out, type, rows, columns, (int64_t)ld));
  if (batch > 1) {
    LT_TRY(r, cublasLtMatrixLayoutSetAttribute,
           (*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    LT_TRY(r, cublasLtMatrixLayoutSetAttribute,
           (*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
  }
  return TN_OK;
}

static tn_status describe(const request *r, plan *p) {
  const gpu_gemm *x = r->x;
  int32_t transposed = CUBLAS_OP_T;
  LT_TRY(r, cublasLtMatmulDescCreate,
         (&p->operation, compute_of(x->format), x->format == TN_F64 ? CUDA_R_64F : CUDA_R_32F));
  if (x->transpose_a)
    LT_TRY(r, cublasLtMatmulDescSetAttribute,
           (p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  if (x->transpose_b)
    LT_TRY(r, cublasLtMatmulDescSetAttribute,
           (p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed));
  TN_TRY(lay_out(r, x->format, x->transpose_a ? x->k : x->m, x->transpose_a ? x->m : x->k, x->lda,
                 x->stride_a, &p->a));
  TN_TRY(lay_out(r, x->format, x->transpose_b ? x->n : x->k, x->transpose_b ? x->k : x->n, x->ldb,
                 x->stride_b, &p->b));
  return lay_out(r, x->result, x->m, x->n, x->ldy, x->stride_y, &p->y);
}

static tn_status prefer(const request *r, cublasLtMatmulPreference_t wish) {
  static const cublasLtMatmulPreferenceAttributes_t pointer[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  uint64_t room = r->room_bytes;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  LT_TRY(r, cublasLtMatmulPreferenceSetAttribute,
         (wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
  LT_TRY(r, cublasLtMatmulPreferenceSetAttribute,
         (wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme));
  for (size_t i = 0; i < 4; ++i) {
    uint32_t bytes = r->aligned[i < 2 ? i : 2];
    LT_TRY(r, cublasLtMatmulPreferenceSetAttribute, (wish, pointer[i], &bytes, sizeof bytes));
  }
  return TN_OK;
}

static tn_status choose(const request *r, cublasLtHandle_t handle, plan *p) {
  cublasLtMatmulPreference_t wish = NULL;
  cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
  int n = 0;
  LT_TRY(r, cublasLtMatmulPreferenceCreate, (&wish));
  tn_status status = prefer(r, wish);
  if (status == TN_OK)
    status = lt(r,
                r->lt->cublasLtMatmulAlgoGetHeuristic(handle, p->operation, p->a, p->b, p->y, p->y,
                                                      wish, 1, &found, &n),
                "cublasLtMatmulAlgoGetHeuristic");
  r->lt->cublasLtMatmulPreferenceDestroy(wish);
  TN_TRY(status);
  if (n < 1)
    return TN_FAIL(TN_EUNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic: no algorithm (%s)", r->text);
  TN_TRY(lt(r, found.state, "cublasLtMatmulAlgoGetHeuristic, its first algorithm"));
  if (found.workspaceSize > r->room_bytes)
    return TN_FAIL(
        TN_EINTERNAL,
        "cublasLtMatmulAlgoGetHeuristic: an algorithm wants %zu bytes, offered were %zu (%s)",
        found.workspaceSize, r->room_bytes, r->text);
  p->algorithm = found.algo;
  return TN_OK;
}

static void key_of(const request *r, uint64_t *key) {
  const gpu_gemm *x = r->x;
  const uint64_t words[WORDS] = {x->transpose_a | x->transpose_b * 2U,
                                 (uint64_t)x->format * TN_DTYPES + (uint64_t)x->result,
                                 x->m,
                                 x->n,
                                 x->k,
                                 x->lda,
                                 x->ldb,
                                 x->ldy,
                                 x->batch,
                                 x->stride_a,
                                 x->stride_b,
                                 x->stride_y,
                                 r->aligned[0],
                                 r->aligned[1],
                                 r->aligned[2]};
  memcpy(key, words, sizeof words);
}

/* Where the plan of a key is, or belongs. */
static plan *find(plans *all, const uint64_t *key) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < WORDS; ++i)
    hash = (hash ^ key[i]) * UINT64_C(1099511628211) ^ hash >> 29;
  plan *p = &all->plan[hash % PLANS];
  while (p->used && memcmp(p->key, key, sizeof p->key) != 0)
    p = p == &all->plan[PLANS - 1] ? all->plan : p + 1;
  return p;
}

static tn_status plan_of(const request *r, plans *all, plan **out) {
  uint64_t key[WORDS];
  key_of(r, key);
  plan *p = find(all, key);
  *out = p;
  if (p->used)
    return TN_OK;
  if (all->n >= MOST_PLANS) {
    for (size_t i = 0; i < PLANS; ++i)
      drop(r->lt, &all->plan[i]);
    all->n = 0;
    *out = p = find(all, key);
  }
  tn_status status = describe(r, p);
  if (status == TN_OK)
    status = choose(r, all->handle, p);
  if (status != TN_OK) {
    drop(r->lt, p);
    return status;
  }
  memcpy(p->key, key, sizeof key);
  p->used = true;
  all->n += 1;
  return TN_OK;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Handle and room, at the first call. The room has the size that NVIDIA advises for its devices. */
static tn_status need(gpu_context *g, gpu_vendor *v) {
  plans *all = NULL;
  if (v->plans)
    return TN_OK;
  if (!v->lt)
    TN_TRY(gpu_need_cublaslt(&v->lt));
  TN_TRY(TN_NEW(1, &all));
  all->room_bytes = (size_t)(g->capability >= 90 ? 32 : 8) << 20;
  tn_status status = gpu_take(g, all->room_bytes, &all->room);
  if (status == TN_OK)
    status = gpu_cublas_result(v->lt->cublasLtCreate(&all->handle), "cublasLtCreate", g->text);
  if (status != TN_OK) {
    gpu_give(g, &all->room);
    tn_free(&all);
    return status;
  }
  v->plans = all;
  return TN_OK;
}

static uint32_t alignment(CUdeviceptr p) {
  uint64_t lowest = p & (~p + 1);
  return lowest == 0 || lowest > ALIGNED ? ALIGNED : (uint32_t)lowest;
}

tn_status gpu_multiply(gpu_context *g, const gpu_gemm *x, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr y) {
  gpu_vendor *v = NULL;
  plan *p = NULL;
  const double wide[2] = {1, x->add ? 1 : 0};
  const float narrow[2] = {1, x->add ? 1 : 0};
  bool is_wide = x->format == TN_F64;
  request r = {.x = x, .aligned = {alignment(a), alignment(b), alignment(y)}};
  snprintf(r.text, sizeof r.text, "[%zu x %zu] = [%zu x %zu%s] [%zu x %zu%s], batch %zu, %s", x->m,
           x->n, x->m, x->k, x->transpose_a ? ", transposed" : "", x->k, x->n,
           x->transpose_b ? ", transposed" : "", x->batch, tn_dtype_name(x->format));
  if (x->m == 0 || x->n == 0 || x->batch == 0)
    return TN_OK;
  TN_TRY(check(x, r.text));
  TN_TRY(gpu_vendor_of(g, &v));
  TN_TRY(need(g, v));
  r.lt = v->lt;
  r.room_bytes = v->plans->room_bytes;
  TN_TRY(plan_of(&r, v->plans, &p));
  const void *one = is_wide ? (const void *)&wide[0] : &narrow[0];
  const void *beta = is_wide ? (const void *)&wide[1] : &narrow[1];
  void *out = (void *)(uintptr_t)y;
  LT_TRY(&r, cublasLtMatmul,
         (v->plans->handle, p->operation, one, (const void *)(uintptr_t)a, p->a,
          (const void *)(uintptr_t)b, p->b, beta, out, p->y, out, p->y, &p->algorithm,
          (void *)(uintptr_t)v->plans->room, r.room_bytes, (cudaStream_t)g->stream));
  return TN_OK;
}

void gpu_gemm_free(gpu_context *g) {
  plans *all = g->vendor->plans;
  if (!all)
    return;
  for (size_t i = 0; i < PLANS; ++i)
    drop(g->vendor->lt, &all->plan[i]);
  g->vendor->lt->cublasLtDestroy(all->handle);
  gpu_give(g, &all->room);
  tn_free(&g->vendor->plans);
}
