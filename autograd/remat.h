/* remat.h: values of recomputed regions, as a reverse sweep reads them. */
#ifndef AUTOGRAD_REMAT_H
#define AUTOGRAD_REMAT_H

#include "autograd/structure.h"

typedef struct ag_copies { /* of one sweep; the arrays of the sweep are borrowed */
  tn_graph *graph;
  uint32_t n_nodes;
  const size_t *port;
  uint64_t key;        /* of the sweep: an equal one makes equal nodes */
  tn_value *copy;      /* of ports; owned, like `segment` */
  uint32_t *segment;   /* of a region's id: the id of its copies; 0: none yet */
  size_t n_segments;
} ag_copies;

/* A key from the values that a pass starts from; never 0. */
uint64_t ag_key(uint64_t tag, size_t n, const tn_value *values);

/* Copies of the region of `node`, made when the first of its nodes is met. *segment: the id that the nodes of its
 * reverse rule get, 0 for a node outside of all regions. */
tn_status ag_copies_of(ag_copies *copies, uint32_t node, uint32_t *segment) TN_MUST_USE;
/* What the rule of node `reader` reads for v, one of its inputs or outputs. copies may be NULL. */
tn_value ag_copied(const ag_copies *copies, uint32_t reader, tn_value v);
void ag_copies_free(ag_copies *copies);

/* The value that `e` repeats, or e: derivatives by a copy are derivatives by what it copies. */
static inline tn_edge ag_first(const tn_graph *graph, tn_edge e) {
  uint32_t origin = tn_node_at(graph, e.node)->origin;
  return origin ? (tn_edge){origin - 1, e.port} : e;
}

#endif
