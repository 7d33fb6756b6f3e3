/* exec.h: the inside of the executors: what the reference (whole.c) and the streamed one (stream.c) share. */
#ifndef TENSOR_EXEC_H
#define TENSOR_EXEC_H

#include "tensor/program.h"

struct tn_exec {
  const tn_program *program;
  tn_pool *pool;           /* may be NULL */
  struct tn_whole *whole;  /* of the reference executor, or NULL */
  struct tn_streamed *streamed; /* of the streamed executor, or NULL */
  struct tn_strict *strict;     /* of the strict executor, which also has `whole`; or NULL */
  struct tn_pipeline *pipeline; /* of the executor that splits layers over ranks, or NULL */
  tn_comm *comm;                /* ranks that share the slots; NULL: all are this one's */
  tn_device *device;            /* that runs it (backend.h), with its state; or NULL */
  void *device_state;
  struct tn_plan *plan;         /* of a device's executor, owned; else NULL */
  struct tn_ranks *ranks;       /* what goes to and comes from other ranks (ranks.c); NULL without ranks */
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
  tn_status failed;        /* what an opaque operation of a user returned in this run (run_custom.c) */
};

/* What a node runs on: the values at some panels of a set of points. */
typedef struct tn_frame {
  tn_exec *exec;
  void *const *data; /* of each port, from panel `base` on */
  size_t base;
  size_t slot;       /* whose sums are added to; SIZE_MAX: none */
  void *scratch;     /* of this worker */
} tn_frame;

/* The extents of point axes that the bound leaves tell, by axis. */
tn_status tn_bound_extents(const tn_exec *exec, size_t *extent, bool *known) TN_MUST_USE;
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
void tn_run_cast(const tn_frame *frame, size_t i, size_t first, size_t last);
void tn_run_rowwise(const tn_frame *frame, size_t i, size_t first, size_t last); /* softmax, layer_norm, rstd */
void tn_run_custom(const tn_frame *frame, size_t i, size_t first, size_t last);  /* operations of users */
size_t tn_jet_scratch(const tn_exec *exec, size_t i); /* bytes */
void *tn_partial(const tn_frame *frame, size_t i);
void tn_clear_partial(const tn_frame *frame, size_t i);
/* The slots' sums of node i, combined into its value: the tree by index, of which one addition is slot a += slot b,
 * and what is done with the sum at the root. */
void tn_combine_slots(tn_exec *exec, size_t i, size_t slots);
void tn_add_slots(tn_exec *exec, size_t i, size_t a, size_t b);
void tn_end_sum(tn_exec *exec, size_t i);

const void *tn_input_data(const tn_frame *frame, size_t node, size_t input);
const tn_layout *tn_input_layout(const tn_exec *exec, size_t node, size_t input);

/* Low formats (low.c). */
bool tn_is_low(tn_dtype dtype);
bool tn_is_narrow(tn_dtype dtype); /* elements of buffers have 16 bits */
bool tn_cast_rounds(tn_dtype from, tn_dtype to); /* to a low format that does not hold every number of `from` */
/* Does this node round when it has computed? Moves and rows that give back a number they got do not. */
bool tn_node_rounds(const tn_node *node);
/* Rounds panels [first, last) of what it has computed; all of it, if the node runs on whole arrays. */
void tn_round_outputs(const tn_frame *frame, size_t i, size_t first, size_t last);
/* Exact, if the numbers are of the dtype; rows to panels and back as tn_kernels.pack and unpack do. */
void tn_widen(tn_dtype dtype, size_t n, const uint16_t *x, float *y);
void tn_narrow(tn_dtype dtype, size_t n, const float *x, uint16_t *y);
void tn_pack_narrow(tn_dtype dtype, size_t rows, size_t width, const uint16_t *x, float *y);
void tn_unpack_narrow(tn_dtype dtype, size_t rows, size_t width, const float *x, uint16_t *y);

/* On the host and without ranks, whatever the pool says: for debugging, which looks at everything. */
tn_status tn_exec_host(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;

/* Ranks (ranks.c, backend.h): an executor's state of them, only if it has a comm; without, all this does nothing. */
tn_status tn_ranks_new(tn_exec *exec) TN_MUST_USE;
void tn_ranks_free(tn_exec *exec);
void tn_ranks_begin(tn_exec *exec); /* a run: only own panels of values with points will be there */
tn_status tn_ranks_end(tn_exec *exec, tn_status status) TN_MUST_USE;
/* Values with points that lie in whole arrays become complete: the panels of other ranks come. */
tn_status tn_complete(tn_exec *exec, size_t n, const size_t *ports) TN_MUST_USE;
/* Storage for the largest of what is to be gathered in a run, so that no run of known extents lacks it. */
void tn_wish_to_gather_sums(tn_exec *exec, size_t n, const uint32_t *nodes);
void tn_wish_to_complete(tn_exec *exec, size_t n, const size_t *ports);
tn_status tn_make_room_to_gather(tn_exec *exec) TN_MUST_USE;

/* The kinds of executors: storage for extents that have changed, and a run. */
tn_status tn_whole_new(tn_exec *exec, bool keep) TN_MUST_USE;
tn_status tn_whole_extents(tn_exec *exec) TN_MUST_USE;
tn_status tn_whole_run(tn_exec *exec) TN_MUST_USE;
void tn_whole_free(tn_exec *exec);
bool tn_whole_keeps(const tn_exec *exec); /* is it tn_exec_keeping_all? */
tn_status tn_strict_new(tn_exec *exec) TN_MUST_USE;
/* Before anything of a run, and after all of it, which ended with `status`. */
tn_status tn_strict_begin(tn_exec *exec) TN_MUST_USE;
tn_status tn_strict_end(tn_exec *exec, tn_status status) TN_MUST_USE;
/* Node number t in running order has run on panels [first, last) with points; a phase has ended. */
void tn_strict_after_node(const tn_exec *exec, size_t t, size_t first, size_t last);
void tn_strict_after_phase(const tn_exec *exec, const tn_phase *phase);
void tn_strict_free(tn_exec *exec);
tn_status tn_copy_out(tn_exec *exec, size_t i) TN_MUST_USE; /* output i into its buffer */
tn_status tn_stream_new(tn_exec *exec) TN_MUST_USE;
tn_status tn_stream_extents(tn_exec *exec) TN_MUST_USE;
tn_status tn_stream_run(tn_exec *exec) TN_MUST_USE;
void tn_stream_free(tn_exec *exec);
tn_status tn_pipeline_new(tn_exec *exec, tn_comm *comm) TN_MUST_USE;
tn_status tn_pipeline_extents(tn_exec *exec) TN_MUST_USE;
tn_status tn_pipeline_run(tn_exec *exec) TN_MUST_USE;
void tn_pipeline_free(tn_exec *exec);

#endif
