/* pipeline.h: the inside of the executor that splits a program by layers over ranks (pipeline.c says how it runs).
 *
 * A node of a loop belongs to one rank, its owner. The level of a node is the number of times that the longest chain
 * to it within the loop passes from rank to rank. Nodes of one rank and level are a segment: when its inputs from other
 * ranks are there, it runs without waiting. Leaves with points have no owner: each rank that reads one fills its own.
 */
#ifndef TENSOR_PIPELINE_H
#define TENSOR_PIPELINE_H

#include "tensor/exec.h"
#include "tensor/plan.h"

#define TN_NO_LEVEL UINT32_MAX /* of a rank without a segment, a node without a reader */

/* A value that its owner sends to a rank once a micro-batch, with the others of the owner's segment. */
typedef struct tn_transfer {
  uint32_t from, to, level; /* the owner, a reader, the segment that makes it */
  uint32_t port;
} tn_transfer;

typedef struct tn_pipe_place { /* a value of a micro-batch that this rank has */
  uint32_t port;
  bool whole;   /* it lies in a whole array */
  bool own;     /* computed here; else received */
  size_t first; /* byte of the tile, unless whole */
  size_t panel; /* bytes a panel */
} tn_pipe_place;

typedef struct tn_pipe_loop {
  const tn_loop *loop;
  size_t panels;     /* of a micro-batch, at most: whole groups */
  size_t n_nodes;    /* of this rank */
  uint32_t *nodes;   /* by level, then in the program's order */
  uint32_t *level;   /* of each of them */
  uint32_t n_levels; /* of all ranks */
  uint32_t *last;    /* of each rank: the level of its last segment, TN_NO_LEVEL without one */
  uint32_t *need;    /* [level][rank]: 1 + the last level of that rank that this rank's segment reads; 0: none */
  size_t n_transfers;
  tn_transfer *transfers; /* from or to this rank, by level, then by port */
  bool *sends, *receives; /* to and from each rank */
  size_t n_places, n_prefilled;
  tn_pipe_place *places;
  uint32_t *prefilled; /* leaves in whole arrays: outputs that are inputs */
  size_t tile_bytes;   /* of a micro-batch */
  uint32_t low, high;  /* levels between which this rank has something of a micro-batch */
  size_t message;      /* bytes of the longest message of this rank, sent or received */
} tn_pipe_loop;

typedef struct tn_batch { /* a micro-batch: panels [first, last) of a slot */
  uint32_t loop, slot;
  size_t first, last;
} tn_batch;

/* Loops of one stage whose micro-batches follow one another without a break. */
typedef struct tn_pipe_group {
  size_t stage, first, count; /* loops */
  size_t n_batches, depth;    /* micro-batches; those of which this rank holds values at once */
  size_t tile;                /* bytes from one to the next */
  size_t window;              /* a segment waits for the end of the micro-batch so many before it, on its readers */
  uint32_t n_levels;
  tn_batch *batches;
} tn_pipe_group;

typedef struct tn_pipe_cursor { /* messages that have been looked for: of ticks before, and of micro-batches from */
  size_t tick, end;             /* `end` on in this one */
} tn_pipe_cursor;

typedef struct tn_pipeline {
  tn_comm *comm; /* borrowed; NULL: alone */
  size_t rank, ranks;
  tn_plan *plan;
  uint32_t *owner;  /* of each node in a loop; of leaves: any */
  tn_arena arena;   /* of what follows, made anew when extents change */
  tn_pipe_loop *loops; /* of the plan */
  size_t n_groups;
  tn_pipe_group *groups;
  tn_pipe_cursor *cursor; /* of each rank, while a group runs */
  void **data;            /* of each port, for the segment that runs */
  char *tiles, *sums, *message;
  size_t tile_bytes, sum_bytes, message_bytes;
  size_t largest_gather; /* bytes of sums of all ranks that meet after a group, and of this rank's */
  char *gathered, *given;
  size_t *gather_bytes; /* of each rank */
  bool opaque;          /* callbacks of users run, which may fail on one rank alone */
} tn_pipeline;

/* pipeline_owner.c: the owner of each node in a loop, for the extents of the executor. */
tn_status tn_pipeline_owners(tn_exec *exec) TN_MUST_USE;
/* pipeline_plan.c: owners, segments, messages, places and micro-batches. */
tn_status tn_pipeline_plan(tn_exec *exec) TN_MUST_USE;

#endif
