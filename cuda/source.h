/* source.h: a program as the text of CUDA kernels, and the schedule that runs them. Inside cuda/ only.
 *
 * The text needs no header: it begins with the kernel vocabulary, the cells of tensor/ops.def and tensor/functions.inc,
 * the same that make the CPU's kernels, with one lane to a vector. It is compiled by NVRTC, and by nvcc and a host
 * compiler in tests, always without contraction, so that CPU and GPU give the same bits.
 *
 * Launching. Every kernel takes one struct of args.h by value, blocks of gpu_step.threads (GPU_THREADS), grids of any
 * size in one dimension, and needs no particular order of blocks; only a FIXED step names its grid.
 *   loop_k    gpu_loop_args. Up to `count` blocks work; tile: tile_bytes for each block, 16-byte aligned. Reads the
 *             data of ports without points and of whole arrays, and leaves; writes sums and whole arrays.
 *   slots_k   gpu_slots_args, if it has sums and parts are groups or it has cuts. Blocks: n_slots * part_bytes / 2048.
 *   tree_k    gpu_tree_args, if it has sums. Blocks: n * part_bytes / 2048 or so.
 *   finish_k  gpu_finish_args, if it has sums. Blocks: part_bytes / 2048 or so. Writes data of the sums' ports. With
 *             all slots on one device tree_k may be left out: n slots of level 0 are subtrees, too.
 *   fixed_k   gpu_fixed_args, no shared memory. Leaves (parameters, inputs, numbers, arrays, fills and counts
 *             without points) are not written: whoever launches has filled them, elements of 16 bits widened to f32.
 *   cast_k    gpu_fixed_args. Blocks: points * width / 256 or so.
 * Sums of a loop without points (no groups): slots_k or loop_k over its one slot gives zeros.
 */
#ifndef CUDA_SOURCE_H
#define CUDA_SOURCE_H

#include "cuda/args.h"
#include "tensor/backend.h"

typedef enum gpu_step_kind {
  GPU_STEP_FIXED, /* kernel(gpu_fixed_args) */
  GPU_STEP_LOOP,  /* kernel(gpu_loop_args); with sums also slots_<loop>, tree_<loop>, finish_<loop> */
  GPU_STEP_CAST   /* kernel(gpu_fixed_args) over whole arrays */
} gpu_step_kind;

/* A wide loop once more, cut at its wide products: a kernel, then a product by a library, and so on; the last has none.
 * A cut's kernel takes gpu_loop_args with parts that are groups, whatever by_groups says, in a grid of `count` blocks,
 * block b with part first + b and tile b; tiles stay as they are from cut to cut. The first zeroes the sums of its
 * parts. Where a product has a bias, the kernel before it writes it to the first output, to which the product is added;
 * the kernel behind it rounds what the product made. slots_k takes up the parts. */
typedef struct gpu_cut {
  char kernel[32];   /* "loop_0_cut_2" */
  size_t node;       /* jet_lin or jet_outer with points; SIZE_MAX: none */
  size_t sum;        /* jet_outer: where its sum lies in a part */
  size_t *in, *out;  /* where values lie in a tile, bytes, [unit][point]; SIZE_MAX: no points. jet_lin: of each channel;
                        jet_outer: `in` of each input */
} gpu_cut;

typedef struct gpu_loop {
  size_t loop;      /* of the plan */
  bool by_groups;   /* parts are groups; else slots, because a sum goes by points */
  bool wide;        /* some product is wider than GPU_FUSED_WIDTH: chunked.c may take it with cuBLASLt */
  size_t tile_bytes, part_bytes; /* of a block; of a part's sums */
  size_t *offset;   /* of each of the loop's sums in a part */
  size_t n_cuts;    /* 0: has no wide products */
  gpu_cut *cuts;
} gpu_loop;

typedef struct gpu_step {
  gpu_step_kind kind;
  size_t stage;
  char kernel[32];       /* "fixed_3", "loop_0", "cast_17" */
  unsigned threads;      /* of a block */
  size_t blocks;         /* FIXED: of the grid; LOOP, CAST: 0, chosen when extents are known */
  size_t shared;         /* bytes of dynamic shared memory */
  tn_axis axis;          /* CAST: of the points */
  gpu_loop *loop;        /* LOOP */
} gpu_step;

typedef struct gpu_source {
  tn_arena arena;
  char *text; /* owned */
  size_t n_steps;
  gpu_step *steps; /* in running order */
} gpu_source;

enum { GPU_FUSED_WIDTH = 64, GPU_THREADS = 256 };

/* TN_EUNSUPPORTED names the first node that has no kernel, with its place. */
tn_status gpu_source_new(const tn_program *program, const tn_plan *plan, gpu_source **out) TN_MUST_USE;
void gpu_source_free(gpu_source **source);
bool gpu_supports_node(const tn_program *program, size_t node, char why[160]);
/* The text of a kernel `apply` that runs one row of ops.def over arrays (tn_backend.apply):
 * apply(unsigned long long n, const T *a, const T *b, double exponent, T *y). */
tn_status gpu_source_of_row(tn_op_id id, tn_dtype dtype, char **text) TN_MUST_USE;

#endif
