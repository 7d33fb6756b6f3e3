/* kernels.h: the table of inner loops that the executors call, one instance a dtype and instruction set.
 *
 * Storage. A batched value [N, w] lies as [panel][unit][lane]: a panel holds 64 bytes' worth of points
 * (8 in f64, 16 in f32), each unit one lane vector of 64 bytes, aligned; lanes beyond N repeat the last
 * point. So elementwise loops see contiguous runs, a matrix product has points in its lanes, and the lane
 * structure is the same on every instruction set. Eight panels are a group (the last may be short).
 *
 * Bits. Every loop has one fixed order of operations, explicit FMA only, so that all instances of a dtype
 * give the same bits. Sources kernels_*.c are compiled once a level (TN_ISA = base, v3, v4; CMakeLists.txt).
 *
 * void * stands for T * of the table's dtype. Kernels cannot fail and do not allocate.
 */
#ifndef TENSOR_KERNELS_H
#define TENSOR_KERNELS_H

#include "tensor/strip.h"
#include "tensor/tensor.h"

#define TN_LANE_BYTES 64
#define TN_GROUP_PANELS 8
#define TN_STRIP 512 /* elements of a strip: what a strip program handles at once, at most */
#define TN_STRIP_BYTES 2048 /* of one register: where strip programs run fastest (measured on 32 KiB of L1) */

typedef void (*tn_cell_fn)(size_t n, void *y, const void *a, const void *b, double k);
/* The arithmetic of a strip program as one loop (fuse.h). */
typedef void (*tn_fused_fn)(const tn_strip_instruction *code, void *const *registers, size_t n);
typedef void (*tn_compare_fn)(size_t n, uint8_t *y, const void *a, const void *b);

/* Operands of an outer product: panel p of operand i starts at data[i] + p * stride[i] elements; stride 0
 * is an invariant operand, one panel long. */
typedef struct tn_outer {
  size_t pairs; /* at most TN_MAX_CHANNELS */
  const void *const *h, *const *z;
  const size_t *h_stride, *z_stride;
  size_t k, n;  /* widths of h and z */
} tn_outer;

typedef struct tn_kernels {
  tn_dtype dtype;
  size_t size, lanes; /* bytes of T; points of a panel */
  /* Elementwise rows of ops.def over n contiguous elements; NULL where a row has none. y may equal a or b. */
  tn_cell_fn cell[TN_OPS];       /* unary, power (k = exponent), binary */
  tn_compare_fn compare[TN_OPS]; /* comparisons; y is 0 or 1 */
  /* y[i] = x[i] rounded to a low format that computes in T; NULL for other dtypes. y may equal x. */
  void (*round[TN_DTYPES])(size_t n, void *y, const void *x);
  void (*where)(size_t n, void *y, const uint8_t *mask, const void *a, const void *b);
  /* Runs a program (strip.h) over n <= TN_STRIP elements; registers[i] is where register i lies. */
  void (*strip)(size_t count, const tn_strip_instruction *program, void *const *registers, size_t n);
  const tn_fused_fn *fused; /* in the order of fused.inc */
  /* y[p][j] = bias[j], then fma(w[i wk + j wn], h[p][i], y) for i = 0 .. k-1. bias NULL: from 0. One of wk
   * and wn is 1. */
  void (*lin)(size_t panels, size_t k, size_t n, const void *w, size_t wk, size_t wn, const void *bias,
              const void *h, void *y);
  /* The same for m row-major rows h[m][k], y[m][n] without lanes; same order of operations. */
  void (*lin_rows)(size_t m, size_t k, size_t n, const void *w, size_t wk, size_t wn, const void *bias,
                   const void *h, void *y);
  /* Adds one group (panels first .. first + panels - 1) to sum[k][n] by lanes: each entry has a lane
   * vector from 0, panels ascending, per panel the pairs in order, one FMA each; the vector folds by
   * halving (i with i + lanes/2, ...); the result is added to sum. Only `valid` lanes of the last panel
   * take part (the others keep what they hold). */
  void (*outer_lanes)(const tn_outer *o, size_t first, size_t panels, size_t valid, void *sum);
  /* Adds the panels to sum[k][n] point by point: points ascending, per point the pairs in order, one FMA
   * each onto sum. */
  void (*outer_points)(const tn_outer *o, size_t first, size_t panels, size_t valid, void *sum);
  /* Adds one group of x[panel][w] to sum[w], by lanes as above with additions. */
  void (*sum_lanes)(size_t w, const void *x, size_t first, size_t panels, size_t valid, void *sum);
  /* y[i] += x[i] */
  void (*add_to)(size_t n, void *y, const void *x);
  /* Row-major rows [rows][w] to panels and back; pack repeats the last row in unused lanes. rows >= 1. */
  void (*pack)(size_t rows, size_t w, const void *x, void *y);
  void (*unpack)(size_t rows, size_t w, const void *x, void *y);
} tn_kernels;

/* The table of the format that a float dtype computes in, for the instruction set in use; NULL for another dtype. */
const tn_kernels *tn_kernels_of(tn_dtype dtype);
/* A given level, for tests that compare bits: "base", "v3", "v4"; NULL where this build or CPU lacks it. */
const tn_kernels *tn_kernels_at(tn_dtype dtype, const char *level);

/* outer_points if both widths suit it (n a multiple of the lanes, k >= 16), else outer_lanes: a property
 * of shape and dtype only, so that the order of summation never depends on the machine. */
bool tn_outer_by_points(tn_dtype dtype, size_t k, size_t n);

#endif
