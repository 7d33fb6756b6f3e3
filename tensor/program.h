/* program.h: the inside of a compiled program, for the executors. */
#ifndef TENSOR_PROGRAM_H
#define TENSOR_PROGRAM_H

#include "tensor/graph.h"
#include "tensor/jet_plan.h"

/* Where a value lives. Batched values lie in panels of `lanes` points (kernels.h). */
typedef struct tn_layout {
  tn_axis axis;  /* point axis, 0: none */
  size_t lanes;  /* of a batched value: by the format it computes in, for a mask by the dtype it came from */
  size_t width;  /* elements a point (or in all, without points) */
  size_t size;   /* bytes of an element: of the format that the dtype computes in; 1 for masks */
} tn_layout;

/* A set of nodes that run together: batched nodes of one axis and panel width, slot by slot, each slot going
 * through all of them while its values are in cache; or nodes without points (axis 0), one after another. */
typedef struct tn_phase {
  tn_axis axis;
  size_t lanes;
  size_t first, count; /* in tn_program.order */
} tn_phase;

struct tn_program {
  tn_arena arena;
  size_t n_nodes, n_outputs, n_ports;
  tn_node **nodes;
  tn_edge *outputs;
  size_t *port;        /* first port number of a node; n_nodes + 1 entries */
  tn_layout *layout;   /* of each port */
  tn_jet_plan *plan;   /* of each node; empty but for jet_unary, jet_mul, jet_mulT */
  uint32_t *order;     /* nodes by phase */
  tn_phase *phases;
  size_t n_phases;
  uint32_t *phase_of;  /* of a node */
  const tn_graph *graph;
  uint32_t generation;
  uint32_t *from;      /* node of the graph */
  size_t n_trainable;  /* scalars in its parameters */
  size_t n_idle;       /* inputs of the graph that do not occur, but lie on a point axis: binding one */
  uint32_t *idle;      /* tells the extent of an axis on which only structural numbers are left */
  tn_axis *idle_axis;
};

bool tn_is_reduction(const tn_program *program, size_t node); /* sums over points */
bool tn_crosses_points(const tn_program *program, size_t node); /* run_custom.c: opaque, on whole arrays */
/* Between loops, on whole arrays: a cast of points from or to f64, an opaque operation of a user. */
bool tn_changes_panels(const tn_program *program, size_t node);
size_t tn_port(const tn_program *program, tn_edge edge);

#endif
