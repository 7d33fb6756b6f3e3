/* eval.c: define by run. Leaves are bound, outputs asked for, and the graph keeps what was materialised.
 *
 * tn_eval looks for the program of an equal step (cache.c), binds this recording's buffers and numbers to its
 * executor, runs, and copies each output, and each value that tn_keep named, into a buffer of the graph. The
 * executor's storage stays with the cache, so a loop that records the same step again neither compiles nor
 * allocates. A value read without having been materialised is an error, so that a program never recomputes in
 * silence.
 */
#include "tensor/cache.h"

#include <string.h>

typedef struct tn_result {
  uint32_t node, port;
  bool bound; /* a leaf's buffer; else a result of tn_eval */
  tn_buffer *buffer;
  double number; /* of a scalar that was set */
  bool set;
} tn_result;

static tn_result *find(tn_graph *graph, tn_value v, bool bound) {
  for (size_t i = 0; i < graph->n_results; ++i) {
    tn_result *r = &graph->results[i];
    if (r->node == v.node && r->port == v.port && r->bound == bound)
      return r;
  }
  return NULL;
}

static tn_status find_or_add(tn_graph *graph, tn_value v, bool bound, tn_result **out) {
  *out = find(graph, v, bound);
  if (*out)
    return TN_OK;
  TN_TRY(tn_grow(&graph->results, graph->n_results, graph->n_results + 1, sizeof *graph->results));
  graph->results[graph->n_results] = (tn_result){.node = v.node, .port = v.port, .bound = bound};
  *out = &graph->results[graph->n_results++];
  return TN_OK;
}

void tn_results_clear(tn_graph *graph) {
  for (size_t i = 0; i < graph->n_results; ++i)
    tn_buffer_release(&graph->results[i].buffer);
  tn_free(&graph->results);
  graph->n_results = 0;
  if (!graph->runtime)
    return;
  graph->runtime->n_kept = 0;
  graph->runtime->capture.open =
      false; /* its beginning is kept, so that tn_capture_end can say so */
}

static tn_status check(tn_value v, const char *verb) {
  if (!tn_ok(v))
    return TN_FAIL(TN_EHANDLE, "%s: stale or foreign value", verb);
  return TN_OK;
}

tn_status tn_bind(tn_value leaf, tn_buffer *buffer) {
  TN_TRY(check(leaf, "bind"));
  const tn_node *node = tn_node_of(leaf);
  if (node->op->id != TN_OP_parameter && node->op->id != TN_OP_input)
    return TN_FAIL(TN_ESTATE, "bind: %s is not a parameter or input", node->op->name);
  tn_result *r = NULL;
  TN_TRY(find_or_add(leaf.graph, leaf, true, &r));
  tn_buffer_retain(buffer);
  tn_buffer_release(&r->buffer);
  r->buffer = buffer;
  return TN_OK;
}

tn_status tn_set(tn_value scalar, double value) {
  TN_TRY(check(scalar, "set"));
  if (tn_node_of(scalar)->op->id != TN_OP_scalar)
    return TN_FAIL(TN_ESTATE, "set: %s is not a run-time scalar", tn_node_of(scalar)->op->name);
  tn_result *r = NULL;
  TN_TRY(find_or_add(scalar.graph, scalar, true, &r));
  r->number = value;
  r->set = true;
  return TN_OK;
}

/* ---- What a graph keeps for running ---- */

tn_status tn_runtime_of(tn_graph *graph, tn_runtime **out) {
  if (!graph->runtime) {
    TN_TRY(TN_NEW(1, &graph->runtime));
    graph->runtime->cache.programs = TN_CACHE_PROGRAMS;
    graph->runtime->cache.bytes = TN_CACHE_BYTES;
  }
  *out = graph->runtime;
  return TN_OK;
}

void tn_runtime_free(tn_graph *graph) {
  if (!graph->runtime)
    return;
  tn_cache_clear(&graph->runtime->cache);
  tn_free(&graph->runtime->kept);
  tn_free(&graph->runtime->index);
  tn_free(&graph->runtime->nodes);
  tn_free(&graph->runtime);
}

tn_status tn_graph_pool(tn_graph *graph, tn_pool *pool) {
  tn_runtime *runtime = NULL;
  TN_TRY(tn_runtime_of(graph, &runtime));
  if (runtime->pool == pool)
    return TN_OK;
  runtime->pool = pool;
  for (size_t i = 0; i < runtime->cache.n_entries; ++i)
    tn_cache_drop_storage(runtime->cache.entry[i]);
  tn_cache_trim(&runtime->cache, NULL);
  return TN_OK;
}

tn_status tn_graph_cache(tn_graph *graph, size_t programs, size_t bytes) {
  tn_runtime *runtime = NULL;
  if (programs > TN_CACHE_PROGRAMS)
    return TN_FAIL(TN_ERANGE, "cache: %zu programs, at most %d", programs, TN_CACHE_PROGRAMS);
  TN_TRY(tn_runtime_of(graph, &runtime));
  runtime->cache.programs = programs;
  runtime->cache.bytes = bytes;
  tn_cache_trim(&runtime->cache, NULL);
  return TN_OK;
}

tn_cache_stats tn_graph_cache_stats(const tn_graph *graph) {
  return graph->runtime ? graph->runtime->cache.stats : (tn_cache_stats){0};
}

tn_status tn_graph_debug(tn_graph *graph, bool on) {
  tn_runtime *runtime = NULL;
  TN_TRY(tn_runtime_of(graph, &runtime));
  runtime->debug = on;
  return TN_OK;
}

tn_status tn_keep(tn_value value) {
  TN_TRY(check(value, "keep"));
  tn_runtime *runtime = NULL;
  TN_TRY(tn_runtime_of(value.graph, &runtime));
  for (size_t i = 0; i < runtime->n_kept; ++i)
    if (tn_same(runtime->kept[i], value))
      return TN_OK;
  TN_TRY(tn_grow(&runtime->kept, runtime->n_kept, runtime->n_kept + 1, sizeof *runtime->kept));
  runtime->kept[runtime->n_kept++] = value;
  return TN_OK;
}

/* ---- A step and its leaves ---- */

tn_status tn_recorded_mark(tn_graph *graph, size_t n, const tn_value *outputs, tn_recorded *out) {
  tn_runtime *runtime = NULL;
  TN_TRY(tn_runtime_of(graph, &runtime));
  if (runtime->index_capacity < graph->n_nodes) {
    tn_free(&runtime->index);
    tn_free(&runtime->nodes);
    runtime->index_capacity = 0;
    TN_TRY(TN_NEW(2 * graph->n_nodes, &runtime->index));
    TN_TRY(TN_NEW(2 * graph->n_nodes, &runtime->nodes));
    runtime->index_capacity = 2 * graph->n_nodes;
  }
  uint32_t *index = runtime->index, count = 0;
  memset(index, 0, graph->n_nodes * sizeof *index);
  for (size_t i = 0; i < n; ++i)
    index[outputs[i].node] = 1;
  for (size_t i = graph->n_nodes; i-- > 0;)
    if (index[i])
      for (uint32_t k = 0; k < graph->nodes[i]->n_inputs; ++k)
        index[graph->nodes[i]->inputs[k].node] = 1;
  for (size_t i = 0; i < graph->n_nodes; ++i)
    if (index[i]) {
      runtime->nodes[count] = (uint32_t)i;
      index[i] = ++count;
    }
  *out = (tn_recorded){graph, index, runtime->nodes, count, n, outputs};
  return TN_OK;
}

/* The program's node as a leaf of the recording that it was compiled from; executors know it by that name. */
static tn_value leaf_of(const tn_program *p, uint32_t node) {
  return (tn_value){(tn_graph *)p->graph, p->from[node], 0, p->generation};
}

static tn_status bind_bare_axes(tn_cached *entry, const tn_recorded *step,
                                const tn_axis_pairs *axes) {
  const tn_program *p = entry->program;
  tn_graph *graph = step->graph;
  for (size_t b = 0; b < entry->n_bare; ++b) {
    tn_axis axis = axes->in_graph[entry->bare[b]];
    tn_buffer *buffer = NULL;
    for (size_t i = 0; i < graph->n_results && !buffer; ++i) {
      const tn_node *node = graph->nodes[graph->results[i].node];
      if (graph->results[i].bound && node->op->id == TN_OP_input && node->shapes[0].axis[0] == axis)
        buffer = graph->results[i].buffer;
    }
    if (!buffer)
      return TN_FAIL(TN_ESTATE, "eval: no input is bound on point axis `%s`, its extent is unknown",
                     tn_axis_name(graph, axis));
    for (size_t k = 0; k < p->n_idle; ++k)
      if (p->idle_axis[k] == entry->bare[b])
        TN_TRY(tn_exec_bind(entry->exec, (tn_value){graph, p->idle[k], 0, p->generation}, buffer));
  }
  return TN_OK;
}

tn_status tn_recorded_bind(tn_cached *entry, const tn_recorded *step, const tn_axis_pairs *axes) {
  tn_graph *graph = step->graph;
  size_t bound = 0;
  for (size_t k = 0; k < entry->n_scalars; ++k) {
    uint32_t node = entry->scalars[k];
    TN_TRY(tn_exec_set(entry->exec, leaf_of(entry->program, node),
                       graph->nodes[step->nodes[node]]->number));
  }
  entry->bytes = 0;
  for (size_t i = 0; i < graph->n_results; ++i) {
    const tn_result *r = &graph->results[i];
    if (!r->bound || !step->index[r->node])
      continue;
    tn_value leaf = leaf_of(entry->program, step->index[r->node] - 1);
    if (r->set)
      TN_TRY(tn_exec_set(entry->exec, leaf, r->number));
    if (!r->buffer)
      continue;
    TN_TRY(tn_exec_bind(entry->exec, leaf, r->buffer));
    entry->bytes += tn_buffer_count(r->buffer) * tn_dtype_size(tn_buffer_dtype(r->buffer));
    ++bound;
  }
  for (size_t k = 0; bound < entry->n_inputs && k < entry->n_inputs; ++k) {
    uint32_t node = step->nodes[entry->inputs[k]];
    tn_result *r = find(graph, tn_value_at(graph, node, 0), true);
    if (!r || !r->buffer)
      return TN_FAIL(TN_ESTATE, "eval: %s `%s` is not bound", graph->nodes[node]->op->name,
                     graph->nodes[node]->name);
  }
  return bind_bare_axes(entry, step, axes);
}

/* ---- Evaluation ---- */

static bool same_extents(const tn_buffer *a, const tn_buffer *b) {
  if (tn_buffer_dtype(a) != tn_buffer_dtype(b) || tn_buffer_rank(a) != tn_buffer_rank(b))
    return false;
  for (size_t k = 0; k < tn_buffer_rank(a); ++k)
    if (tn_buffer_extent(a, k) != tn_buffer_extent(b, k))
      return false;
  return true;
}

/* Results are copies: the executor, and so its buffers, may serve another step next. */
static tn_status keep_output(tn_exec *exec, size_t i, tn_value output) {
  tn_result *r = NULL;
  tn_buffer *from = NULL;
  TN_TRY(tn_exec_output(exec, i, &from));
  TN_TRY(find_or_add(output.graph, output, false, &r));
  if (r->buffer && !same_extents(r->buffer, from))
    tn_buffer_release(&r->buffer);
  if (!r->buffer) {
    size_t extent[TN_MAX_RANK];
    for (size_t k = 0; k < tn_buffer_rank(from); ++k)
      extent[k] = tn_buffer_extent(from, k);
    TN_TRY(tn_buffer_new(tn_buffer_dtype(from), tn_buffer_rank(from), extent, &r->buffer));
  }
  memcpy(tn_map(r->buffer, TN_WRITE), tn_map(from, TN_READ),
         tn_buffer_count(from) * tn_dtype_size(tn_buffer_dtype(from)));
  tn_unmap(from);
  tn_unmap(r->buffer);
  return TN_OK;
}

static tn_status run_step(tn_runtime *runtime, const tn_recorded *step, tn_cached *entry,
                          const tn_axis_pairs *axes) {
  if (!entry->exec)
    TN_TRY(tn_exec_new(entry->program, runtime->pool, &entry->exec));
  TN_TRY(tn_recorded_bind(entry, step, axes));
  TN_TRY(tn_exec_run(entry->exec));
  for (size_t i = 0; i < step->n_outputs; ++i)
    TN_TRY(keep_output(entry->exec, i, step->outputs[i]));
  entry->bytes += tn_exec_bytes(entry->exec);
  return TN_OK;
}

static tn_status eval_values(tn_runtime *runtime, tn_graph *graph, size_t n, const tn_value *values,
                             const char *file, int line) {
  tn_recorded step;
  tn_axis_pairs axes;
  tn_cached *entry = NULL;
  TN_TRY(tn_recorded_mark(graph, n, values, &step));
  if (runtime->debug)
    TN_TRY(tn_recorded_debug(graph, &step));
  if (graph->place.file) {
    file = graph->place.file;
    line = graph->place.line;
  }
  TN_TRY(tn_cache_find(&runtime->cache, &step, file, line, &axes, &entry));
  tn_status status = run_step(runtime, &step, entry, &axes);
  if (status != TN_OK)
    tn_cache_drop_storage(entry); /* nothing of a step that failed is left in it */
  tn_cache_trim(&runtime->cache, entry);
  return status;
}

tn_status tn_eval_from(const char *file, int line, size_t n, const tn_value *outputs) {
  tn_graph *graph = NULL;
  tn_runtime *runtime = NULL;
  for (size_t i = 0; i < n && !graph; ++i)
    graph = outputs[i].graph;
  if (!graph)
    return TN_FAIL(TN_EHANDLE, "eval: %s", n ? tn_error_text() : "no outputs");
  TN_TRY(tn_capture_forbids(graph, "eval", outputs[0], file, line));
  TN_TRY(tn_graph_error(graph));
  if (tn_common_graph(n, outputs) != graph) {
    TN_TRY(tn_graph_error(graph));
    return TN_FAIL(TN_EHANDLE, "eval: expected good outputs of one graph");
  }
  TN_TRY(tn_runtime_of(graph, &runtime));
  if (!runtime->n_kept)
    return eval_values(runtime, graph, n, outputs, file, line);
  tn_value *all = NULL;
  TN_TRY(TN_NEW(n + runtime->n_kept, &all));
  memcpy(all, outputs, n * sizeof *all);
  memcpy(all + n, runtime->kept, runtime->n_kept * sizeof *all);
  tn_status status = eval_values(runtime, graph, n + runtime->n_kept, all, file, line);
  tn_free(&all);
  return status;
}

tn_status(tn_eval)(size_t n, const tn_value *outputs) {
  return tn_eval_from("tn_eval", 0, n, outputs);
}

tn_status tn_read_from(const char *file, int line, tn_value value, size_t count, double *out) {
  TN_TRY(check(value, "read"));
  TN_TRY(tn_capture_forbids(value.graph, "read", value, file, line));
  tn_result *r = find(value.graph, value, false);
  if (!r)
    r = find(value.graph, value, true);
  if (!r || !r->buffer)
    return TN_FAIL(TN_ESTATE, "read: %s was not materialised; name it in tn_eval",
                   tn_node_of(value)->op->name);
  if (tn_buffer_count(r->buffer) != count)
    return TN_FAIL(TN_ESHAPE, "read: the value has %zu elements, %zu were asked for",
                   tn_buffer_count(r->buffer), count);
  return tn_convert(count, tn_buffer_dtype(r->buffer), tn_map(r->buffer, TN_READ), TN_F64, out);
}

tn_status(tn_read)(tn_value value, size_t count, double *out) {
  return tn_read_from("tn_read", 0, value, count, out);
}
