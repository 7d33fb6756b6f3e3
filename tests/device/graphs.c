/* graphs.c: graphs of the emulated device: the works of a capture, in the order of their calls,
 * with copies of their arguments. A launch puts copies of them into the stream; what the works
 * point to is read when they are done. */
#include "tests/device/internal.h"

#include <stdlib.h>
#include <string.h>

static graph *graphs; /* all ever made */
static graph_exec *execs;

graph *graph_new(context *c) {
  graph *g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  *g = (graph){.magic = GRAPH, .context = c, .next = graphs};
  graphs = g;
  return g;
}

void graph_append(graph *g, work *w) {
  *(g->last ? &g->last->next : &g->first) = w;
  g->last = w;
  ++g->count;
}

static bool graph_copy(const graph *from, graph *to) {
  for (const work *w = from->first; w; w = w->next) {
    work *copy = work_copy(w);
    if (!copy)
      return false;
    graph_append(to, copy);
  }
  return true;
}

static void graph_empty(graph *g) {
  works_free(g->first);
  g->first = g->last = NULL;
  g->count = 0;
}

static bool alive(const void *object, unsigned magic, const char *what) {
  if (object && *(const unsigned *)object == magic)
    return true;
  emulated_fault("%s is used after its end", what);
  return false;
}

EMULATED CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  (void)flags;
  context *c;
  ENTER("cuGraphInstantiate", &c);
  if (!alive(g, GRAPH, "a graph"))
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  graph_exec *x = calloc(1, sizeof *x);
  graph *copy = calloc(1, sizeof *copy);
  if (!x || !copy || !graph_copy(g, copy)) {
    if (copy)
      graph_empty(copy);
    free(copy);
    free(x);
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  }
  *x = (graph_exec){GRAPH_EXEC, c, copy, execs};
  execs = x;
  *out = x;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuGraphLaunch(CUgraphExec x, CUstream handle) {
  context *c;
  ENTER("cuGraphLaunch", &c);
  stream *s;
  CUresult result = stream_of(handle, &s);
  if (result || !alive(x, GRAPH_EXEC, "an executable graph"))
    LEAVE(result ? result : CUDA_ERROR_INVALID_HANDLE);
  for (const work *w = x->graph->first; w && !result; w = w->next) {
    work *copy = work_copy(w);
    if (!copy)
      LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
    if (s->capturing)
      graph_append(s->capturing, copy);
    else
      result = work_add(s, copy);
  }
  LEAVE(result);
}

/* Allowed where the same works come in the same order; their arguments may differ. */
EMULATED CUresult cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info) {
  context *c;
  ENTER("cuGraphExecUpdate", &c);
  if (!alive(x, GRAPH_EXEC, "an executable graph") || !alive(g, GRAPH, "a graph"))
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  const work *a = x->graph->first, *b = g->first;
  while (a && b && strcmp(a->name, b->name) == 0) {
    a = a->next;
    b = b->next;
  }
  memset(info, 0, sizeof *info);
  if (a || b) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    LEAVE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  }
  graph_empty(x->graph);
  LEAVE(graph_copy(g, x->graph) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EMULATED CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n) {
  context *c;
  ENTER("cuGraphGetNodes", &c);
  if (!alive(g, GRAPH, "a graph") || nodes)
    LEAVE(nodes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
  *n = g->count;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuGraphExecDestroy(CUgraphExec x) {
  ENTER("cuGraphExecDestroy", NULL);
  if (!alive(x, GRAPH_EXEC, "an executable graph"))
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  graph_empty(x->graph);
  x->magic = DEAD;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuGraphDestroy(CUgraph g) {
  ENTER("cuGraphDestroy", NULL);
  if (!alive(g, GRAPH, "a graph"))
    LEAVE(CUDA_ERROR_INVALID_VALUE);
  graph_empty(g);
  g->magic = DEAD;
  LEAVE(CUDA_SUCCESS);
}

void graphs_count(emulate_alive *out) {
  for (const graph *g = graphs; g; g = g->next)
    out->graphs += g->magic == GRAPH;
  for (const graph_exec *x = execs; x; x = x->next)
    out->graphs += x->magic == GRAPH_EXEC;
}

void graphs_end_of(context *c) {
  for (graph *g = graphs; g; g = g->next)
    if (g->context == c) {
      graph_empty(g);
      g->magic = DEAD;
    }
  for (graph_exec *x = execs; x; x = x->next)
    if (x->context == c) {
      graph_empty(x->graph);
      x->magic = DEAD;
    }
}
