/* exec.h: the inside of the executors: what the reference (whole.c) and the streamed one (stream.c) share. */
#ifndef TENSOR_EXEC_H
#define TENSOR_EXEC_H

#include "tensor/program.h"

struct tn_exec {
  const tn_program *program;
  tn_pool *pool;           /* may be NULL */
  struct tn_whole *whole;  /* of the reference executor, or NULL */
  struct tn_streamed *streamed; /* of the streamed executor, or NULL */
  tn_buffer **bound;       /* of each node that is a parameter or input */
  double *number;          /* of each scalar node */
  size_t extent[TN_MAX_AXES + 1]; /* of each point axis, by id */
  bool extent_known[TN_MAX_AXES + 1];
  size_t offered[TN_MAX_AXES + 1]; /* extents of inputs that were bound but do not occur */
  bool has_offer[TN_MAX_AXES + 1];
  void **data;             /* of each port; of values with points NULL unless they lie in whole arrays */
  void *fixed;             /* storage of values without points, owned */
  void **partial;          /* of each reduction: one sum a slot, owned by the executor's kind */
  size_t *partial_bytes;   /* from slot to slot */
  char **repeat;           /* of each outer product: operands without points, repeated; owned */
  void *scratch;           /* one part a worker, owned */
  size_t scratch_part;     /* bytes */
  tn_buffer **output;      /* made by tn_exec_output, owned */
  size_t fixed_bytes, point_bytes; /* storage that does not depend on extents, and that does */
  bool ready;              /* storage fits the extents */
  bool ran;                /* the last run ended well */
};

/* What a node runs on: the values at some panels of a set of points. */
typedef struct tn_frame {
  tn_exec *exec;
  void *const *data; /* of each port, from panel `base` on */
  size_t base;
  size_t slot;       /* whose sums are added to; SIZE_MAX: none */
  void *scratch;     /* of this worker */
} tn_frame;

/* The reference executor with storage for every value. */
tn_status tn_exec_keeping(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;

/* Panels, groups and slots of a loop over an axis with a panel width. */
size_t tn_panels(size_t points, size_t lanes);
size_t tn_groups(size_t points, size_t lanes);
size_t tn_slots(const tn_exec *exec, tn_axis axis, size_t lanes);
/* The panels [*first, *last) of a slot. */
void tn_slot_panels(const tn_exec *exec, tn_axis axis, size_t lanes, size_t slot, size_t *first,
                    size_t *last);
/* Bytes of a sum, rounded up to lane vectors. */
size_t tn_sum_bytes(const tn_program *program, size_t node);

/* Runs node i over panels [first, last) of the frame; without points first = 0, last = 1. Sums over points
 * are added to the slot's partial sum, which tn_clear_partial zeroes. */
void tn_run_node(const tn_frame *frame, size_t i, size_t first, size_t last);
void tn_run_jet(const tn_frame *frame, size_t i, size_t first, size_t last);
void tn_run_outer(const tn_frame *frame, size_t i, size_t first, size_t last);
tn_status tn_prepare_outer(const tn_frame *frame, size_t i) TN_MUST_USE;
void tn_run_cast(const tn_frame *frame, size_t i);
size_t tn_jet_scratch(const tn_exec *exec, size_t i); /* bytes */
void *tn_partial(const tn_frame *frame, size_t i);
void tn_clear_partial(const tn_frame *frame, size_t i);
/* The slots' sums of node i, combined into its value. */
void tn_combine_slots(tn_exec *exec, size_t i, size_t slots);

const void *tn_input_data(const tn_frame *frame, size_t node, size_t input);
const tn_layout *tn_input_layout(const tn_exec *exec, size_t node, size_t input);
size_t tn_element_size(tn_dtype dtype);

/* The kinds of executors: storage for extents that have changed, and a run. */
tn_status tn_whole_new(tn_exec *exec, bool keep) TN_MUST_USE;
tn_status tn_whole_extents(tn_exec *exec) TN_MUST_USE;
tn_status tn_whole_run(tn_exec *exec) TN_MUST_USE;
void tn_whole_free(tn_exec *exec);
tn_status tn_stream_new(tn_exec *exec) TN_MUST_USE;
tn_status tn_stream_extents(tn_exec *exec) TN_MUST_USE;
tn_status tn_stream_run(tn_exec *exec) TN_MUST_USE;
void tn_stream_free(tn_exec *exec);

#endif
