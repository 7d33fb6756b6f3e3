/* capture.c: a step recorded under the promise that no number is looked at while it is recorded.
 *
 *   tn_capture_begin(graph);  record...  tn_capture_end(graph, n, outputs, &program);
 *
 * A captured step is replayed without running the code that recorded it. If that code evaluated or read a value on
 * the way, what it did with the number would be frozen into the program without a trace: the replay would be wrong
 * for other data. So tn_eval and tn_read fail between the two calls, with the place and the node, and break the
 * capture: its end fails with the same text, and there is no program. Nothing falls back to a graph in two parts.
 *
 * Leaves may be bound and numbers of scalars set inside: they are inputs of the program. Nodes recorded before the
 * capture may be used; a tn_graph_reset inside drops it.
 */
#include "tensor/cache.h"

#include <stdio.h>
#include <string.h>

const char *tn_site_text(const tn_graph *graph, const char *file, int line, char *text,
                         size_t capacity) {
  if (graph->place.file)
    snprintf(text, capacity, "%s:%d:%d", graph->place.file, graph->place.line, graph->place.column);
  else
    snprintf(text, capacity, "%s:%d", file, line);
  return text;
}

tn_status tn_capture_forbids(tn_graph *graph, const char *verb, tn_value value, const char *file,
                             int line) {
  tn_capture *capture = graph->runtime ? &graph->runtime->capture : NULL;
  if (!capture || !capture->open)
    return TN_OK;
  char here[512], made[800] = "", caller[512] = "";
  const tn_node *node = tn_node_of(value);
  bool named = node && node->name && node->name[0];
  tn_site_text(graph, file, line, here, sizeof here);
  if (graph->place.file)
    snprintf(caller, sizeof caller, " (called at %s:%d)", file, line);
  if (node && node->file)
    snprintf(made, sizeof made, ", made at %s:%d:%d%s%s", node->file, node->line, node->column,
             node->text ? ": " : "", node->text ? node->text : "");
  tn_status status =
      TN_FAIL(TN_ESTATE,
              "%s: %s of %s%s%s%s (node %u%s) in the middle of the step captured since %s%s: a "
              "captured step is replayed "
              "without its code, so no number may be looked at while it is recorded; end the "
              "capture first, or select "
              "by tn_where",
              here, verb, node ? node->op->name : "a stale value", named ? " `" : "",
              named ? node->name : "", named ? "`" : "", value.node, made, capture->began, caller);
  if (capture->broken == TN_OK) {
    capture->broken = status;
    snprintf(capture->text, sizeof capture->text, "%s", tn_error_text());
  }
  return status;
}

tn_status tn_capture_begin_from(const char *file, int line, tn_graph *graph) {
  tn_runtime *runtime = NULL;
  char here[512];
  TN_TRY(tn_graph_error(graph));
  TN_TRY(tn_runtime_of(graph, &runtime));
  tn_site_text(graph, file, line, here, sizeof here);
  if (runtime->capture.open)
    return TN_FAIL(TN_ESTATE, "%s: a capture of this graph is open since %s", here,
                   runtime->capture.began);
  runtime->capture = (tn_capture){.open = true};
  memcpy(runtime->capture.began, here, sizeof here);
  return TN_OK;
}

tn_status(tn_capture_begin)(tn_graph *graph) {
  return tn_capture_begin_from("tn_capture_begin", 0, graph);
}

tn_status tn_capture_end(tn_graph *graph, size_t n, const tn_value *outputs, tn_program **out) {
  if (out)
    *out = NULL;
  tn_capture *capture = graph->runtime ? &graph->runtime->capture : NULL;
  if (!capture || (!capture->open && !capture->began[0]))
    return TN_FAIL(TN_ESTATE, "capture: none of this graph is open");
  if (!capture->open)
    return TN_FAIL(TN_ESTATE, "capture: the graph was reset since the capture began at %s",
                   capture->began);
  capture->open = false;
  capture->began[0] = 0;
  if (capture->broken != TN_OK)
    return TN_FAIL(capture->broken, "%s", capture->text);
  TN_TRY(tn_graph_error(graph));
  if (out)
    return tn_compile(graph, n, outputs, out);
  if (n && tn_common_graph(n, outputs) != graph) {
    TN_TRY(tn_graph_error(graph));
    return TN_FAIL(TN_EHANDLE, "capture: an output is not of this graph");
  }
  return TN_OK;
}

bool tn_capturing(const tn_graph *graph) {
  return graph->runtime && graph->runtime->capture.open && graph->runtime->capture.broken == TN_OK;
}
