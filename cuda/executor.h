/* executor.h: the inside of a program on a device, for its own files: executor.c (making, storage), leaves.c (what
 * goes to the device), launch.c (the schedule of a run), gather.c (ranks), graph.c (replay), chunked.c (wide
 * products), output.c (what comes back).
 *
 * Storage. Values without points lie in one block `fixed`: leaves that vary from run to run first, then those that
 * are part of the structure, then outputs, then the rest. The first and the third range have a pinned counterpart at
 * fixed addresses, so that all copies of a run can be part of a graph. Tables of pointers, which kernels look things
 * up in, lie on the device at fixed addresses, too, and are sent when they change.
 */
#ifndef CUDA_EXECUTOR_H
#define CUDA_EXECUTOR_H

#include "cuda/context.h"
#include "cuda/source.h"

/* A bound input with points: two copies that take turns, so that one can be filled while a run reads the other. */
typedef struct gpu_points {
  uint32_t node;
  CUdeviceptr block[2];
  size_t bytes[2];
  uint64_t used[2];        /* the run that last read it; 0: none */
  int now;                 /* which one the next run reads */
  const tn_buffer *buffer; /* that was copied last; NULL: none */
  uint64_t version;        /* of it */
} gpu_points;

/* A loop at the extents bound now. */
typedef struct gpu_span {
  size_t points, groups, slots;
  size_t first_slot, last_slot;          /* of this rank */
  size_t first, count;                   /* its parts */
  size_t chunk;                          /* parts of a launch, at least 1 */
  size_t blocks;                         /* of a launch */
  size_t n_trees, first_tree, own_trees; /* subtrees of all ranks, of this one */
  unsigned char level[64];               /* of each subtree: log2 of its slots */
  CUdeviceptr trees;                     /* n_trees parts; 0: no sums */
  size_t trees_bytes;
} gpu_span;

/* The kernels of a step. */
typedef struct gpu_code {
  CUfunction run, slots, tree, finish; /* NULL where there is none */
  gpu_span span;                       /* of a loop */
  struct gpu_chunked *chunked;         /* of a loop that goes by cuBLASLt; else NULL */
} gpu_code;

/* A captured run. */
typedef struct gpu_replay {
  CUgraphExec graph;
  unsigned runs; /* with the storage of now */
  bool off;      /* never capture */
} gpu_replay;

typedef struct gpu_room { /* a block that grows */
  CUdeviceptr at;
  size_t bytes;
} gpu_room;

typedef struct gpu_exec {
  gpu_context *g;
  gpu_source *source; /* owned */
  gpu_code *code;     /* of each step */
  size_t n_loops;     /* of the program's plan */
  /* Values without points. */
  CUdeviceptr fixed;
  size_t *offset; /* of each port without points */
  size_t varying_bytes, outputs_at, outputs_bytes, fixed_bytes;
  char *pinned;      /* varying leaves, then outputs; the driver's */
  uint32_t *varying; /* nodes */
  size_t n_varying;
  bool *is_output; /* of each port without points: it comes back with every run */
  /* Tables on the device, and what they hold. */
  CUdeviceptr data_table, leaf_table, points_table;
  CUdeviceptr *data; /* of each port */
  CUdeviceptr *leaf; /* of each node */
  bool data_stale, leaf_stale;
  gpu_points *points;
  size_t n_points;
  /* Storage that depends on extents. */
  size_t *whole_bytes; /* of each port: of its whole array */
  gpu_room tile, sums, slot_sums, wire;
  size_t sums_limit; /* bytes of parts of a launch */
  /* Runs. */
  CUevent ran[2]; /* the end of run r in ran[r & 1] */
  uint64_t runs;  /* begun so far */
  bool pending;   /* the last run may still be going on */
  gpu_replay replay;
} gpu_exec;

/* executor.c */
tn_status gpu_room_of(gpu_context *g, size_t bytes,
                      gpu_room *room) TN_MUST_USE; /* at least so many bytes */
tn_status gpu_settle(gpu_exec *x) TN_MUST_USE;     /* waits for the last run */

/* leaves.c */
tn_status gpu_leaves_new(const tn_exec *exec, gpu_exec *x) TN_MUST_USE;
/* Before a run: varying leaves into pinned memory, changed inputs and tables to the device. */
tn_status gpu_leaves_send(const tn_exec *exec, gpu_exec *x) TN_MUST_USE;
/* A leaf was bound between two runs: begins to copy it. */
tn_status gpu_leaves_ahead(const tn_exec *exec, gpu_exec *x, size_t node) TN_MUST_USE;
void gpu_leaves_free(gpu_exec *x);

/* launch.c */
tn_status gpu_sums_code(gpu_context *g, gpu_module *module, const gpu_step *step, size_t n_sums,
                        gpu_code *code) TN_MUST_USE;
tn_status gpu_launch(gpu_context *g, CUfunction f, size_t blocks, unsigned threads, size_t shared,
                     void *arguments) TN_MUST_USE;
gpu_loop_args gpu_loop_arguments(const gpu_exec *x, const gpu_step *step,
                                 const gpu_span *span); /* but for parts */
/* Slots take up the groups [first, first + count), which are the parts at the start of the room for sums. */
tn_status gpu_add_parts(gpu_exec *x, size_t step, size_t first, size_t count) TN_MUST_USE;
/* How a loop is cut at these extents, its room for subtrees; needs of the shared rooms are raised. */
tn_status gpu_span_of(const tn_exec *exec, gpu_exec *x, size_t step, size_t *tile, size_t *sums,
                      size_t *slot_sums) TN_MUST_USE;
/* All work of a run, in stream order. status: of what came before; with ranks it goes to the others. */
tn_status gpu_enqueue(tn_exec *exec, gpu_exec *x, tn_status status) TN_MUST_USE;

/* output.c: output i of the last run, which has ended. */
tn_status gpu_output(const tn_exec *exec, const gpu_exec *x, size_t i, void *to) TN_MUST_USE;

/* gather.c: pieces of several items that lie with all ranks: piece[item * ranks + rank] is where the piece of `rank`
 * belongs in this rank's memory. Afterwards all are there. status: of this rank's work before; if some rank's is not
 * TN_OK, all return that. */
typedef struct gpu_piece {
  CUdeviceptr at;
  size_t bytes;
} gpu_piece;
tn_status gpu_gather(tn_exec *exec, gpu_exec *x, const char *what, tn_status status, size_t n_items,
                     const gpu_piece *piece) TN_MUST_USE;

/* graph.c */
tn_status gpu_replay_wished(bool *off) TN_MUST_USE; /* PINN_CUDA_GRAPH: 0 or 1 */
tn_status gpu_replay_run(tn_exec *exec, gpu_exec *x,
                         tn_status status) TN_MUST_USE; /* gpu_enqueue, or its replay */
void gpu_replay_drop(gpu_exec *x);

/* chunked.c */
tn_status gpu_chunked_new(const tn_program *program, gpu_exec *x, gpu_module *module) TN_MUST_USE;
size_t gpu_chunked_groups(const gpu_exec *x, const gpu_loop *loop, size_t groups); /* of a chunk */
/* In place of the loop's kernel and its slots_k: slots' sums of this rank. */
tn_status gpu_chunked_run(const tn_exec *exec, gpu_exec *x, size_t step) TN_MUST_USE;
void gpu_chunked_free(gpu_exec *x);

#endif
