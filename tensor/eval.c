/* eval.c: define by run. Leaves are bound, outputs asked for, and the graph keeps what was materialised.
 *
 * tn_eval compiles the outputs, runs them with an executor of its own and keeps one buffer an output; all
 * intermediate storage goes back at once. A value read without having been materialised is an error, so that
 * a program never recomputes in silence.
 */
#include "tensor/exec.h"

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
    if (r->node == v.node && r->port == v.port && r->bound == bound) return r;
  }
  return NULL;
}

static tn_status find_or_add(tn_graph *graph, tn_value v, bool bound, tn_result **out) {
  *out = find(graph, v, bound);
  if (*out) return TN_OK;
  TN_TRY(tn_grow(&graph->results, graph->n_results, graph->n_results + 1, sizeof *graph->results));
  graph->results[graph->n_results] = (tn_result){.node = v.node, .port = v.port, .bound = bound};
  *out = &graph->results[graph->n_results++];
  return TN_OK;
}

void tn_results_clear(tn_graph *graph) {
  for (size_t i = 0; i < graph->n_results; ++i) tn_buffer_release(&graph->results[i].buffer);
  tn_free(&graph->results);
  graph->n_results = 0;
}

static tn_status check(tn_value v, const char *verb) {
  if (!tn_ok(v)) return TN_FAIL(TN_EHANDLE, "%s: stale or foreign value", verb);
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

static tn_status bind_all(tn_exec *exec, tn_graph *graph) {
  for (size_t i = 0; i < graph->n_results; ++i) {
    const tn_result *r = &graph->results[i];
    tn_value leaf = tn_value_at(graph, r->node, r->port);
    if (r->bound && r->buffer) TN_TRY(tn_exec_bind(exec, leaf, r->buffer));
    if (r->bound && r->set) TN_TRY(tn_exec_set(exec, leaf, r->number));
  }
  return TN_OK;
}

static tn_status keep_outputs(tn_exec *exec, tn_graph *graph, size_t n, const tn_value *outputs) {
  for (size_t i = 0; i < n; ++i) {
    tn_result *r = NULL;
    tn_buffer *buffer = NULL;
    TN_TRY(tn_exec_output(exec, i, &buffer));
    TN_TRY(find_or_add(graph, outputs[i], false, &r));
    tn_buffer_retain(buffer);
    tn_buffer_release(&r->buffer);
    r->buffer = buffer;
  }
  return TN_OK;
}

tn_status tn_eval(size_t n, const tn_value *outputs) {
  tn_graph *graph = NULL;
  for (size_t i = 0; i < n && !graph; ++i) graph = outputs[i].graph;
  if (!graph) return TN_FAIL(TN_EHANDLE, "eval: %s", n ? tn_error_text() : "no outputs");
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  TN_TRY(tn_compile(graph, n, outputs, &program));
  tn_status status = tn_exec_new(program, NULL, &exec);
  if (status == TN_OK) status = bind_all(exec, graph);
  if (status == TN_OK) status = tn_exec_run(exec);
  if (status == TN_OK) status = keep_outputs(exec, graph, n, outputs);
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

tn_status tn_read(tn_value value, size_t count, double *out) {
  TN_TRY(check(value, "read"));
  tn_result *r = find(value.graph, value, false);
  if (!r) r = find(value.graph, value, true);
  if (!r || !r->buffer)
    return TN_FAIL(TN_ESTATE, "read: %s was not materialised; name it in tn_eval",
                   tn_node_of(value)->op->name);
  if (tn_buffer_count(r->buffer) != count)
    return TN_FAIL(TN_ESHAPE, "read: the value has %zu elements, %zu were asked for",
                   tn_buffer_count(r->buffer), count);
  return tn_convert(count, tn_buffer_dtype(r->buffer), tn_map(r->buffer, TN_READ), TN_F64, out);
}
