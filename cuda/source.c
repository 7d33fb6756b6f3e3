/* source.c: a program as text and schedule: the files of the vocabulary, then stage by stage values without points,
 * loops and casts, as the streamed executor runs them (tensor/stream.c). */
#include "cuda/source_inside.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 4096, LARGE_WORK = 1 << 18 }; /* elements, multiplications: from here a node has a kernel of its own */

tn_status gpu_step_add(gpu_maker *m, gpu_step step) {
  gpu_step *slot = &m->out->steps[m->out->n_steps++];
  *slot = step;
  return TN_OK;
}

/* ---- What there is a kernel for ---- */

bool gpu_supports_node(const tn_program *p, size_t i, char why[160]) {
  const tn_node *node = p->nodes[i];
  why[0] = 0;
  if (!node->op->custom) return true;
  if (node->op->custom->forward || tn_op_is_vjp(node->op))
    snprintf(why, 160, "`%.60s` is a function of the host on whole arrays", node->op->name);
  else
    snprintf(why, 160, "`%.60s` is a function of the host; register it with a `meaning` in operations instead",
             node->op->name);
  return false;
}

static tn_status check(const tn_program *p) {
  char why[160], place[300] = "";
  for (size_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = p->nodes[i];
    if (gpu_supports_node(p, i, why)) continue;
    if (node->file) snprintf(place, sizeof place, "%.200s:%d:%d: ", node->file, node->line, node->column);
    return TN_FAIL(TN_EUNSUPPORTED, "%s%s: no kernel for a GPU: %s", place, node->op->name, why);
  }
  return TN_OK;
}

/* ---- The beginning ---- */

static void put_file(gpu_writer *w, const gpu_file *file) {
  gpu_put_bytes(w, (const char *)file->text, file->n);
  gpu_put(w, "\n");
}

static void put_format(gpu_maker *m, tn_dtype dtype) {
  gpu_put(&m->w, "\n/* ======== %s ======== */\n", dtype == TN_F64 ? "f64" : "f32");
  gpu_put_dtype(m, dtype);
  put_file(&m->w, &gpu_file_numbers);
  put_file(&m->w, &gpu_file_functions);
  put_file(&m->w, &gpu_file_cells);
  put_file(&m->w, &gpu_file_ops);
  put_file(&m->w, &gpu_file_steps);
}

static void put_beginning(gpu_maker *m) {
  bool wide = false, narrow = false;
  for (size_t i = 0; i < m->p->n_nodes; ++i) {
    tn_dtype dtype = m->p->nodes[i]->dtype;
    wide = wide || dtype == TN_F64;
    narrow = narrow || (tn_dtype_is_float(dtype) && dtype != TN_F64);
  }
  put_file(&m->w, &gpu_file_args);
  put_file(&m->w, &gpu_file_vocabulary);
  if (wide) put_format(m, TN_F64);
  if (narrow) put_format(m, TN_F32);
  gpu_put(&m->w, "\n/* ======== The program ======== */\n");
}

/* ---- Values without points ---- */

static bool is_large(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  size_t width = 0, chain = 1;
  for (uint32_t k = 0; k < node->n_outputs; ++k) width += p->layout[p->port[i] + k].width;
  if (node->op->id == TN_OP_jet_lin) chain = p->nodes[node->inputs[node->n_outputs].node]->shapes[0].extent[0];
  return width >= LARGE || width * chain >= LARGE_WORK;
}

static tn_status put_function(gpu_maker *m, size_t i) {
  const tn_node *node = m->p->nodes[i];
  const gpu_site site = {.points = 1};
  tn_dtype dtype = node->dtype == TN_BOOL && node->n_inputs ? m->p->nodes[node->inputs[0].node]->dtype : node->dtype;
  tn_status status = TN_OK;
  if (dtype != TN_BOOL) gpu_put_dtype(m, dtype);
  gpu_put(&m->w, "\n/* ");
  gpu_put_node(m, i);
  gpu_put(&m->w, " */\nINLINE void node_%zu(const gpu_place &p) {\n", i);
  if (m->p->plan[i].code || m->p->plan[i].n_outputs) status = gpu_put_jet(m, i);
  else gpu_put_body(m, &site, i);
  gpu_put(&m->w, "}\n");
  return status;
}

/* A kernel of `count` nodes, one after the other: a barrier where one reads what an earlier one made. */
static tn_status put_fixed_kernel(gpu_maker *m, size_t stage, size_t count, const uint32_t *nodes, size_t blocks) {
  gpu_step step = {.kind = GPU_STEP_FIXED, .stage = stage, .threads = GPU_THREADS, .blocks = blocks};
  snprintf(step.kernel, sizeof step.kernel, "fixed_%zu", m->n_fixed++);
  for (size_t k = 0; k < count; ++k) TN_TRY(put_function(m, nodes[k]));
  gpu_put(&m->w, "\n/* Stage %zu: values without points. */\n", stage);
  gpu_put_head(m, GPU_THREADS, step.kernel, "gpu_fixed_args a");
  gpu_put(&m->w, "  gpu_place p;\n  p.data = a.data;\n  p.thread = blockIdx.x * THREADS + threadIdx.x, p.threads = "
                 "gridDim.x * THREADS;\n");
  for (size_t k = 0, since = 0; k < count; ++k) {
    const tn_node *node = m->p->nodes[nodes[k]];
    bool wait = false;
    for (uint32_t j = 0; j < node->n_inputs; ++j)
      for (size_t q = since; q < k; ++q) wait = wait || nodes[q] == node->inputs[j].node;
    if (wait) {
      gpu_put(&m->w, "  __syncthreads();\n");
      since = k;
    }
    gpu_put(&m->w, "  node_%u(p);\n", nodes[k]);
  }
  gpu_put(&m->w, "}\n");
  return gpu_step_add(m, step);
}

static tn_status put_fixed(gpu_maker *m, size_t stage) {
  const tn_plan *plan = m->plan;
  uint32_t *list = NULL;
  size_t n = 0;
  TN_TRY(TN_NEW(plan->n_fixed + 1, &list));
  tn_status status = TN_OK;
  for (size_t i = 0; i < plan->n_fixed && status == TN_OK; ++i) {
    uint32_t node = plan->fixed[i];
    if (plan->stage[node] != stage || m->p->nodes[node]->op->class_ == TN_LEAF) continue;
    if (!is_large(m->p, node)) {
      list[n++] = node;
      continue;
    }
    if (n) status = put_fixed_kernel(m, stage, n, list, 1);
    n = 0;
    size_t blocks = (m->p->layout[m->p->port[node]].width + GPU_THREADS - 1) / GPU_THREADS;
    if (status == TN_OK) status = put_fixed_kernel(m, stage, 1, &node, blocks < 1024 ? blocks : 1024);
  }
  if (n && status == TN_OK) status = put_fixed_kernel(m, stage, n, list, 1);
  tn_free(&list);
  return status;
}

static tn_status put_cast(gpu_maker *m, size_t stage, size_t i) {
  gpu_step step = {.kind = GPU_STEP_CAST, .stage = stage, .threads = GPU_THREADS};
  step.axis = m->p->layout[m->p->port[i]].axis;
  snprintf(step.kernel, sizeof step.kernel, "cast_%zu", i);
  gpu_put(&m->w, "\n/* ");
  gpu_put_node(m, i);
  gpu_put(&m->w, " */\n");
  gpu_put_head(m, GPU_THREADS, step.kernel, "gpu_fixed_args a");
  gpu_put_cast_points(m, i);
  gpu_put(&m->w, "}\n");
  return gpu_step_add(m, step);
}

/* ---- All ---- */

static tn_status put_program(gpu_maker *m) {
  const tn_plan *plan = m->plan;
  size_t loop = 0, cast = 0;
  TN_TRY(tn_arena_take(&m->out->arena, 2 * plan->n_fixed + plan->n_loops + plan->n_casts + 1, sizeof *m->out->steps,
                       &m->out->steps));
  put_beginning(m);
  for (size_t stage = 0; stage < plan->n_stages; ++stage) {
    TN_TRY(put_fixed(m, stage));
    for (; loop < plan->n_loops && plan->loops[loop].stage == stage; ++loop) TN_TRY(gpu_put_loop(m, loop));
    for (; cast < plan->n_casts && plan->stage[plan->casts[cast]] == stage; ++cast)
      TN_TRY(put_cast(m, stage, plan->casts[cast]));
  }
  return m->w.status;
}

tn_status gpu_source_new(const tn_program *program, const tn_plan *plan, gpu_source **out) {
  *out = NULL;
  TN_TRY(check(program));
  gpu_maker m = {.p = program, .plan = plan, .dtype = TN_BOOL};
  TN_TRY(TN_NEW(1, &m.out));
  tn_status status = put_program(&m);
  m.out->text = m.w.text;
  if (status != TN_OK) gpu_source_free(&m.out);
  *out = m.out;
  return status;
}

void gpu_source_free(gpu_source **source) {
  if (!source || !*source) return;
  tn_free(&(*source)->text);
  tn_arena_free(&(*source)->arena);
  tn_free(source);
}

/* ---- One row ---- */

tn_status gpu_source_of_row(tn_op_id id, tn_dtype dtype, char **text) {
  *text = NULL;
  if ((unsigned)id >= TN_OPS) return TN_FAIL(TN_ERANGE, "row %u of %d", (unsigned)id, TN_OPS);
  const tn_op *row = tn_op_row(id);
  const tn_kernels *kernels = tn_kernels_of(dtype);
  if (!kernels) return TN_FAIL(TN_EDTYPE, "%s: %s is not a float dtype", row->name, tn_dtype_name(dtype));
  if (!kernels->cell[id])
    return TN_FAIL(TN_EUNSUPPORTED, "%s: no kernel for a GPU: expected an elementwise row of float results", row->name);
  gpu_maker m = {.dtype = TN_BOOL};
  put_file(&m.w, &gpu_file_args);
  put_file(&m.w, &gpu_file_vocabulary);
  put_format(&m, dtype);
  gpu_put(&m.w, "\n/* %s in %s */\n", row->name, tn_dtype_name(dtype));
  gpu_put_head(&m, GPU_THREADS, "apply", "gpu_size n, const T *a, const T *b, double exponent, T *y");
  gpu_put(&m.w, "  (void)b, (void)exponent;\n  const gpu_size step = gridDim.x * (gpu_size)THREADS;\n");
  gpu_put(&m.w, "  for (gpu_size i = blockIdx.x * (gpu_size)THREADS + threadIdx.x; i < n; i += step)\n");
  gpu_put(&m.w, "    y[i] = F(stored)(F(cell_%s)(load(a + i)%s), %s);\n}\n", row->name,
          row->arity == 2                                  ? ", load(b + i)"
          : row->id == TN_OP_powi || row->id == TN_OP_powr ? ", K(exponent)"
                                                           : "",
          gpu_format_name(dtype));
  *text = m.w.text;
  if (m.w.status != TN_OK) tn_free(text);
  return m.w.status;
}
