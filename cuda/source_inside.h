/* source_inside.h: the inside of the generator: source.c (a whole program), source_loop.c (loops), source_run.c (strip
 * programs), source_node.c (single nodes), source_sums.c (what follows a loop), source_text.c (writing). */
#ifndef CUDA_SOURCE_INSIDE_H
#define CUDA_SOURCE_INSIDE_H

#include "cuda/source.h"

typedef struct gpu_writer {
  char *text; /* owned */
  size_t used, capacity;
  tn_status status; /* the first failure */
} gpu_writer;

void gpu_put(gpu_writer *w, const char *format, ...) TN_PRINTF(2, 3);
void gpu_put_bytes(gpu_writer *w, const char *text, size_t n);
void gpu_put_number(gpu_writer *w, double x); /* a literal with the bits of x */

/* Files of text in this library (text.cmake). */
typedef struct gpu_file {
  const unsigned char *text;
  size_t n;
} gpu_file;
extern const gpu_file gpu_file_args, gpu_file_vocabulary, gpu_file_numbers, gpu_file_cells, gpu_file_steps,
    gpu_file_functions, gpu_file_ops;

/* Bytes: of matrices in shared memory, of them beside points that wait there, of these points; of a lane vector in the
 * tile. Two blocks of the first kind fit a multiprocessor; the others together fit a block of any GPU since 8.0. */
enum {
  GPU_SHARED_WEIGHTS = 64 << 10,
  GPU_SHARED_FEW = 48 << 10,
  GPU_SHARED_POINTS = 48 << 10,
  GPU_VECTOR = 64 * TN_GROUP_PANELS
};

typedef struct gpu_weights { /* a matrix in shared memory */
  size_t port, offset, bytes;
} gpu_weights;

/* A loop under construction; all zero for values without points. */
typedef struct gpu_site {
  const tn_loop *loop;
  size_t index;
  size_t points;   /* of a group; 1 without points */
  uint32_t *place; /* of each port in the tile, in lane vectors; TN_NOWHERE: none */
  size_t vectors;  /* of a panel */
  gpu_weights *weights;
  size_t n_weights, shared; /* bytes of all weights; points that wait lie behind them */
  size_t staging;           /* bytes of these */
  size_t threads;
  gpu_loop *out;
} gpu_site;

typedef struct gpu_maker {
  const tn_program *p;
  const tn_plan *plan;
  gpu_source *out;
  gpu_writer w;
  tn_dtype dtype; /* that DTYPE says now: TN_F64, TN_F32, TN_BOOL (none yet) */
  size_t n_fixed; /* kernels so far */
} gpu_maker;

tn_status gpu_step_add(gpu_maker *m, gpu_step step) TN_MUST_USE;
void gpu_put_dtype(gpu_maker *m, tn_dtype dtype); /* what follows computes in the format of dtype */
void gpu_put_node(gpu_maker *m, size_t node);     /* "op of file:line:column" */
void gpu_put_head(gpu_maker *m, size_t threads, const char *name,
                  const char *arguments); /* of a kernel: at most 128 registers a thread */
const char *gpu_type_of(const tn_layout *layout);
const char *gpu_format_name(tn_dtype dtype);    /* "F(AS_BF16)" for a low format, else "F(KEPT)" */
const char *gpu_format_of(const tn_node *node); /* likewise, if it rounds */
/* The start of a port's value: TILE(type, place) or DATA(type, port). */
void gpu_put_value(gpu_maker *m, const gpu_site *s, const char *constness, size_t port);

/* source_run.c: a run of a loop; a jet node without points. */
tn_status gpu_put_run(gpu_maker *m, const gpu_site *s, const tn_run *run) TN_MUST_USE;
tn_status gpu_put_jet(gpu_maker *m, size_t node) TN_MUST_USE;
/* source_node.c: the body of a function that computes one node. */
void gpu_put_body(gpu_maker *m, const gpu_site *s, size_t node);
/* Shared memory that a sum by points wants. */
size_t gpu_staging_bytes(const gpu_maker *m, const gpu_site *s, size_t node);
/* A sum over points, onto the part's sum `offset` bytes behind its start. */
void gpu_put_reduction(gpu_maker *m, const gpu_site *s, size_t node, size_t offset);
void gpu_put_fixed_pairs(gpu_maker *m, size_t node, const char *data); /* onto the variable s of entry (i, j) */
void gpu_put_cast_points(gpu_maker *m, size_t node);                   /* between whole arrays */
/* source_loop.c, source_sums.c */
tn_status gpu_put_loop(gpu_maker *m, size_t index) TN_MUST_USE;
tn_status gpu_put_sums(gpu_maker *m, const gpu_site *s) TN_MUST_USE;

#endif
