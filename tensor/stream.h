/* stream.h: the inside of the streamed executor, for its own files. */
#ifndef TENSOR_STREAM_H
#define TENSOR_STREAM_H

#include "tensor/plan.h"

typedef struct tn_worker {
  void **data;      /* of each port, in this worker's tile or in a whole array */
  void **registers; /* of a strip program */
  char *tile, *scratch;
  double *seconds;  /* of each step of all loops, while profiling; else NULL */
} tn_worker;

typedef struct tn_streamed {
  tn_plan *plan;
  size_t n_workers;
  tn_worker *workers;
  size_t *tile_panels;   /* of each loop */
  size_t *first_step;    /* of each loop, counted through all loops; n_loops + 1 entries */
  char **constants;      /* of each loop: operands without points, repeated; owned */
  void *sums;            /* partial sums of the loops that run together */
  size_t first;          /* while running: the first of those loops */
  uint32_t *batch;       /* the nodes of those sums, and room for ports that are read in full */
  size_t *ports;
  size_t tile_bytes, sum_bytes;
  double fixed_seconds;  /* outside the loops, while profiling */
} tn_streamed;

#endif
