/* kernels_gemm.c: products of a batch with a weight matrix.
 *
 *   y[p][j][lane] = bias[j] + sum over i of w[i wk + j wn] h[p][i][lane]
 *
 * Points are in the lanes, so a weight is broadcast and neither operand is rearranged: weights are read
 * with any strides (the transposed product is the same loop). Each output is one FMA chain, i ascending,
 * so its bits depend neither on the block nor on the vector width. A block of up to 6 units times one lane
 * vector stays in registers: with 32-byte vectors 12 accumulators, 6 broadcasts and 2 loads for 12 FMAs.
 * Narrow outputs take several panels a block instead, to have enough chains in flight. The widths of the
 * blocks are balanced (20 units are 4 blocks of 5, never 6 + 6 + 6 + 2).
 */
#define DTYPE f64
#define T double
#include "tensor/kernels_vector.h"

#include "tensor/kernels_gemm.inc"
#undef DTYPE
#undef T

#define DTYPE f32
#define T float
#include "tensor/kernels_gemm.inc"
