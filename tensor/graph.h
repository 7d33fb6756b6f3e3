/* graph.h: the inside of a graph, shared by the files of tensor/ that build and compile nodes. */
#ifndef TENSOR_GRAPH_H
#define TENSOR_GRAPH_H

#include "tensor/tensor.h"

/* Memory that is freed as a whole. */
typedef struct tn_arena_block {
  struct tn_arena_block *next;
  size_t used, capacity;
} tn_arena_block;
typedef struct tn_arena { tn_arena_block *block; } tn_arena;
tn_status tn_arena_take(tn_arena *arena, size_t count, size_t size, void *out) TN_MUST_USE;
tn_status tn_arena_copy(tn_arena *arena, const void *data, size_t count, size_t size, void *out)
    TN_MUST_USE;
void tn_arena_reset(tn_arena *arena); /* keeps one block */
void tn_arena_free(tn_arena *arena);

typedef struct tn_place { const char *file, *text; int line, column; } tn_place;

#define TN_MAX_AXES 256
struct tn_graph {
  uint32_t generation;
  tn_arena arena;
  tn_node **nodes; /* node i */
  size_t n_nodes, node_capacity;
  uint32_t *table; /* hash to node + 1; power of two */
  size_t table_size;
  char *axis_name[TN_MAX_AXES]; /* axis a is entry a - 1 */
  size_t n_axes;
  tn_place place;
  uint32_t segment;        /* of nodes to come */
  struct tn_segment_row { uint32_t base; uint64_t key; } *segments; /* id i is entry i - 1 */
  size_t n_segments;
  tn_status error;
  char error_text[1024];
  const tn_jet_table **jet_tables;
  size_t n_jet_tables;
  struct tn_result *results; /* of tn_eval and tn_bind, see eval.c */
  size_t n_results;
  struct tn_runtime *runtime; /* programs of earlier steps, settings; outlives tn_graph_reset, see eval.c */
};

/* The common shape of two elementwise operands; false: an error of the graph (build.c). */
bool tn_shapes_join(tn_graph *graph, const char *name, tn_value a, tn_value b, tn_shape *out);
tn_status tn_rebuild_custom(tn_graph *graph, const tn_node *node, const tn_value *in, tn_value *ports)
    TN_MUST_USE; /* register.c */
const tn_op *tn_registered_find(const char *name); /* register.c */
void tn_results_clear(tn_graph *graph); /* eval.c */
void tn_runtime_free(tn_graph *graph);  /* eval.c */

/* Adds a node, or finds the equal one. The pointers in `node` may be temporary. Value: its port 0. */
tn_value tn_node_make(tn_graph *graph, const tn_node *node);
/* Copies a node and all that it points to into an arena. */
tn_status tn_node_copy(tn_arena *arena, const tn_node *from, tn_node **out) TN_MUST_USE;
/* The graph of n values if all are good and of one graph; else NULL, with the error kept. */
tn_graph *tn_common_graph(size_t n, const tn_value *values);
tn_edge tn_edge_of(tn_value value);
/* Checks a shape (rank, point axis of this graph and first, extents 1 to 2^31 - 1, width up to 2^40) and
 * zeroes what lies beyond its rank; false: an error of the graph that begins with `what`. */
bool tn_shape_settle(tn_graph *graph, const char *what, tn_shape *shape);
tn_shape tn_shape_without_points(tn_shape shape);
tn_shape tn_shape_with_points(tn_shape fixed, tn_axis axis);

#endif
