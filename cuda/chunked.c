/* chunked.c: loops with wide products: the products by cuBLASLt, all else by own kernels.
 *
 * A wide loop comes cut at its products (source.h). A chunk is a number of groups of points, each with a tile of its
 * own, which stays from kernel to kernel. In a tile a value is [unit][point], so for cuBLASLt it is a column-major
 * matrix [points x units], and a chunk is a batch of them, one tile apart:
 *
 *   jet_lin     Y[points x n] (+)= H[points x k] W[k x n]     for each channel; W is the same for the whole batch
 *   jet_outer   S[n x k]       +=  Z[points x n]^T H[points x k]     for each pair, to the group's own part of sums
 *
 * Parts are added up to slots in order, as after any loop. Bits: cuBLASLt's algorithm may depend on the shape, so all
 * batches have one size, which depends on the loop and on the number of points alone (an eighth of the groups, so that
 * ranks need not compute what they do not use); a short chunk multiplies what lies in unused tiles, too. A last group
 * that is not full is a chunk of its own, its sums are of its points only. So ranks and chunks change no bit.
 *
 * Formats: f64 in f64, f32 in f32. Where both operands hold numbers of tf32, bf16 or f16 (values of these dtypes, and
 * casts of them), TF32 takes them as they are, products are exact and accumulate in f32: the tensor cores' rate without
 * a conversion. PINN_CUDA_PRODUCTS=own keeps to the fused kernels, whose bits are the CPU's, for any width.
 */
#include "cuda/executor.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 8 };                                 /* of a loop, if its tiles fit */
static const size_t tiles_limit = (size_t)512 << 20; /* bytes */

typedef struct gpu_chunked {
  CUfunction *cut;  /* of each cut */
  tn_dtype *format; /* of each cut's product */
} gpu_chunked;

/* ---- Making ---- */

/* Has every number of the value at most 10 fraction bits? */
static bool is_short(const tn_program *p, tn_edge e) {
  const tn_node *node = p->nodes[e.node];
  if (tn_is_low(node->dtype))
    return true;
  return node->op->id == TN_OP_cast && tn_is_low(p->nodes[node->inputs[0].node]->dtype);
}

static tn_dtype format_of(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  bool all_short = true;
  if (node->dtype == TN_F64)
    return TN_F64;
  uint32_t n = node->op->id == TN_OP_jet_lin ? node->n_outputs + 1
                                             : node->n_inputs; /* with weights, without bias */
  for (uint32_t k = 0; k < n; ++k)
    all_short = all_short && is_short(p, node->inputs[k]);
  return all_short ? TN_TF32 : TN_F32;
}

static tn_status make(const tn_program *p, gpu_exec *x, gpu_module *module, size_t index) {
  const gpu_step *step = &x->source->steps[index];
  gpu_context *g = x->g;
  gpu_chunked *c = NULL;
  TN_TRY(TN_NEW(1, &c));
  x->code[index].chunked = c;
  TN_TRY(TN_NEW(step->loop->n_cuts, &c->cut));
  TN_TRY(TN_NEW(step->loop->n_cuts, &c->format));
  for (size_t k = 0; k < step->loop->n_cuts; ++k) {
    const gpu_cut *cut = &step->loop->cuts[k];
    TN_TRY(gpu_function(g, module, cut->kernel, &c->cut[k]));
    if (step->shared > 0)
      GPU_TRY(g, cuFuncSetAttribute,
              (c->cut[k], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)step->shared));
    if (cut->node != SIZE_MAX)
      c->format[k] = format_of(p, cut->node);
  }
  return TN_OK;
}

tn_status gpu_chunked_new(const tn_program *p, gpu_exec *x, gpu_module *module) {
  const char *wish = getenv("PINN_CUDA_PRODUCTS");
  const gpu_cublaslt *library = NULL;
  if (wish && strcmp(wish, "own") == 0)
    return TN_OK;
  if (wish && wish[0] && strcmp(wish, "cublaslt") != 0)
    return TN_FAIL(TN_EINPUT, "PINN_CUDA_PRODUCTS is `%s`, expected own or cublaslt", wish);
  for (size_t i = 0; i < x->source->n_steps; ++i) {
    if (x->source->steps[i].kind != GPU_STEP_LOOP || !x->source->steps[i].loop->n_cuts)
      continue;
    TN_TRY(gpu_need_cublaslt(&library)); /* now, and not in the first run */
    TN_TRY(make(p, x, module, i));
  }
  return TN_OK;
}

void gpu_chunked_free(gpu_exec *x) {
  for (size_t i = 0; x->code && x->source && i < x->source->n_steps; ++i) {
    gpu_chunked *c = x->code[i].chunked;
    if (!c)
      continue;
    tn_free(&c->cut);
    tn_free(&c->format);
    tn_free(&x->code[i].chunked);
  }
}

size_t gpu_chunked_groups(const gpu_exec *x, const gpu_loop *loop, size_t groups) {
  size_t n = (groups + CHUNKS - 1) / CHUNKS;
  if (n > tiles_limit / loop->tile_bytes)
    n = tiles_limit / loop->tile_bytes;
  if (loop->part_bytes && n > x->sums_limit / loop->part_bytes)
    n = x->sums_limit / loop->part_bytes;
  return n ? n : 1;
}

/* ---- A chunk ---- */

typedef struct chunk {
  const tn_exec *exec;
  gpu_exec *x;
  const gpu_step *step;
  const gpu_span *span;
  size_t points; /* of a group */
  size_t
      valid; /* of a last group that is not full and alone in its chunk; 0: all groups are full */
} chunk;

/* Channels times a matrix. */
static tn_status multiply(const chunk *c, const gpu_cut *cut, tn_dtype format) {
  const tn_program *p = c->exec->program;
  const tn_node *node = p->nodes[cut->node];
  const tn_edge w = node->inputs[node->n_outputs];
  const tn_shape *shape = &p->nodes[w.node]->shapes[w.port];
  bool transposed = node->integer[0] != 0; /* W lies as [n][k] */
  size_t size = format == TN_F64 ? 8 : 4, stride = c->step->loop->tile_bytes / size;
  size_t k = shape->extent[transposed ? 1 : 0], n = shape->extent[transposed ? 0 : 1];
  gpu_gemm x = {.transpose_b = !transposed,
                .format = format,
                .result = format == TN_F64 ? TN_F64 : TN_F32,
                .m = c->points,
                .n = n,
                .k = k,
                .lda = c->points,
                .ldb = transposed ? k : n,
                .ldy = c->points,
                .batch = c->span->chunk,
                .stride_a = stride,
                .stride_y = stride};
  for (uint32_t q = 0; q < node->n_outputs; ++q) {
    x.add = q == 0 && node->integer[1]; /* the bias is there */
    TN_TRY(gpu_multiply(c->x->g, &x, c->x->tile.at + cut->in[q], c->x->data[tn_port(p, w)],
                        c->x->tile.at + cut->out[q]));
  }
  return TN_OK;
}

/* Outer products of all pairs with points, onto the parts. */
static tn_status accumulate(const chunk *c, const gpu_cut *cut, tn_dtype format) {
  const tn_node *node = c->exec->program->nodes[cut->node];
  size_t size = format == TN_F64 ? 8 : 4, pairs = (size_t)node->integer[0];
  size_t k = node->shapes[0].extent[0], n = node->shapes[0].extent[1],
         stride = c->step->loop->tile_bytes / size;
  gpu_gemm x = {.transpose_a = true,
                .add = true,
                .format = format,
                .result = format == TN_F64 ? TN_F64 : TN_F32,
                .m = n,
                .n = k,
                .k = c->valid ? c->valid : c->points,
                .lda = c->points,
                .ldb = c->points,
                .ldy = n,
                .batch = c->valid ? 1 : c->span->chunk,
                .stride_a = stride,
                .stride_b = stride,
                .stride_y = c->step->loop->part_bytes / size};
  for (size_t q = 0; q < pairs; ++q)
    if (cut->in[q] != SIZE_MAX)
      TN_TRY(gpu_multiply(c->x->g, &x, c->x->tile.at + cut->in[q],
                          c->x->tile.at + cut->in[pairs + q], c->x->sums.at + cut->sum));
  return TN_OK;
}

static tn_status run_chunk(const chunk *c, const gpu_code *code, size_t first, size_t count) {
  const gpu_loop *loop = c->step->loop;
  gpu_loop_args a = gpu_loop_arguments(c->x, c->step, c->span);
  a.first = a.base = first;
  a.count = count;
  for (size_t k = 0; k < loop->n_cuts; ++k) {
    const gpu_cut *cut = &loop->cuts[k];
    TN_TRY(
        gpu_launch(c->x->g, code->chunked->cut[k], count, c->step->threads, c->step->shared, &a));
    if (cut->node == SIZE_MAX)
      continue;
    bool lin = c->exec->program->nodes[cut->node]->op->id == TN_OP_jet_lin;
    TN_TRY(lin ? multiply(c, cut, code->chunked->format[k])
               : accumulate(c, cut, code->chunked->format[k]));
  }
  return TN_OK;
}

tn_status gpu_chunked_run(const tn_exec *exec, gpu_exec *x, size_t index) {
  const gpu_code *code = &x->code[index];
  const gpu_span *s = &code->span;
  const gpu_step *step = &x->source->steps[index];
  chunk c = {exec, x, step, s, exec->plan->loops[step->loop->loop].lanes * TN_GROUP_PANELS, 0};
  size_t end = s->first + s->count,
         full = s->points / c.points; /* groups from `full` on are not full */
  if (end == s->first)
    return gpu_add_parts(x, index, s->first, 0);
  for (size_t first = s->first, count; first < end; first += count) {
    count = end - first < s->chunk ? end - first : s->chunk;
    if (first < full && first + count > full)
      count = full - first;
    c.valid = first >= full ? s->points - first * c.points : 0;
    TN_TRY(run_chunk(&c, code, first, count));
    TN_TRY(gpu_add_parts(x, index, first, count));
  }
  return TN_OK;
}
