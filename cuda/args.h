/* args.h: what kernels are called with. One text for host C and for device code; no includes.
 *
 * A *part* is what one block does at a time and what its sums are of: a group of eight panels (by_groups), or a slot.
 * Part i of a loop's sums lies at sums + (i - base) * part_bytes, one sum after another (gpu_loop.offset).
 */
#ifndef CUDA_ARGS_H
#define CUDA_ARGS_H

typedef unsigned long long gpu_size;

typedef struct gpu_loop_args {
  void *const *data;       /* of each port: values without points and whole arrays (panels); null: in tiles */
  const void *const *leaf; /* of each node: bound inputs with points, row-major, elements of their dtype */
  char *tile;              /* tile_bytes for each block of the grid */
  char *sums;
  gpu_size tile_bytes, part_bytes;
  gpu_size points, groups, slots; /* of the loop's axis, as exec.c counts */
  gpu_size first, count;          /* parts of this launch: block b does first + b, first + b + gridDim.x, ... */
  gpu_size base;
} gpu_loop_args;

/* slot_sums[s - first_slot] = (fresh ? 0 : slot_sums[...]) + parts of its groups within [first, first + count), in order. */
typedef struct gpu_slots_args {
  const char *sums;
  char *slot_sums;
  gpu_size part_bytes, groups, slots, first, count, first_slot, n_slots;
  int fresh;
} gpu_slots_args;

/* Adds up subtrees of slots: trees[k] = the tree by index over slot_sums[first[k] .. first[k] + size[k]), k < n;
 * size[k] is a power of two, 1 too (then it is a copy). Where parts are slots, slot_sums is `sums` of the loop. */
typedef struct gpu_tree_args {
  const char *slot_sums;
  char *trees;
  gpu_size part_bytes, n, first[16], size[16];
} gpu_tree_args;

/* Ends the tree: `n` subtrees (index order), subtree k at trees + k * part_bytes with level[k] = log2 of its slots;
 * then what follows a sum: pairs of outer products without points, rounding. Writes data[port]. */
typedef struct gpu_finish_args {
  void *const *data;
  const char *trees;
  gpu_size part_bytes, n;
  unsigned char level[64];
} gpu_finish_args;

/* A stage's values without points, or a cast of whole arrays. */
typedef struct gpu_fixed_args {
  void *const *data;
  const gpu_size *points; /* of each axis */
} gpu_fixed_args;

#endif
