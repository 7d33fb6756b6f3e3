/* exec.h: the inside of the reference executor. */
#ifndef TENSOR_EXEC_H
#define TENSOR_EXEC_H

#include "tensor/program.h"

/* Storage of batched values of one kind, shared by values whose lives do not overlap. Values of one slab
 * have equal panels, so a slot's part of it is the same bytes for all of them. */
typedef struct tn_slab {
  tn_axis axis;
  size_t lanes, width, size;
  bool taken; /* while planning */
  void *data;
} tn_slab;

struct tn_exec {
  const tn_program *program;
  tn_pool *pool;           /* may be NULL */
  bool keep;               /* every value has storage of its own (for tn_exec_explain) */
  tn_buffer **bound;       /* of each node that is a parameter or input */
  double *number;          /* of each scalar node */
  size_t extent[TN_MAX_AXES + 1]; /* of each point axis, by id */
  bool extent_known[TN_MAX_AXES + 1];
  size_t offered[TN_MAX_AXES + 1]; /* extents of inputs that were bound but do not occur */
  bool has_offer[TN_MAX_AXES + 1];
  tn_slab *slabs;
  size_t n_slabs;
  int32_t *slab_of;        /* of each port; -1: without points */
  void **data;             /* of each port */
  void *fixed;             /* storage of values without points, owned */
  size_t *fixed_offset;    /* of each port */
  void **partial;          /* of each reduction: one sum a slot, owned */
  size_t *partial_bytes;
  char **repeat;           /* of each outer product: operands without points, repeated; owned */
  void *scratch;           /* one part a worker, owned */
  size_t scratch_part;     /* bytes */
  tn_buffer **output;      /* made by tn_exec_output, owned */
  size_t bytes;
  bool ready;              /* storage fits the extents */
  bool ran;                /* the last run ended well */
  size_t phase;            /* while running */
};

/* An executor that keeps every value. */
tn_status tn_exec_keeping(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;

/* Panels and slots of a loop over an axis with a panel width. */
size_t tn_panels(size_t points, size_t lanes);
size_t tn_slots(const tn_exec *exec, tn_axis axis, size_t lanes);

/* Runs node i over panels [first, last) in slot `slot`; without points first = 0, last = 1. */
void tn_run_node(tn_exec *exec, size_t i, size_t slot, size_t first, size_t last, void *scratch);
void tn_run_jet(tn_exec *exec, size_t i, size_t first, size_t last, void *scratch);
void tn_run_outer(tn_exec *exec, size_t i, size_t slot, size_t first, size_t last);
tn_status tn_prepare_outer(tn_exec *exec, size_t i) TN_MUST_USE;
void tn_run_cast(tn_exec *exec, size_t i);
size_t tn_jet_scratch(const tn_exec *exec, size_t i); /* bytes */

const void *tn_input_data(const tn_exec *exec, size_t node, size_t input);
const tn_layout *tn_input_layout(const tn_exec *exec, size_t node, size_t input);

#endif
