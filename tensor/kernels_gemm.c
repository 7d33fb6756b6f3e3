/* kernels_gemm.c: products of a batch with a weight matrix.
 *
 *   y[p][j][lane] = bias[j] + sum over i of w[i wk + j wn] h[p][i][lane]
 *
 * Points are in the lanes, so a weight is broadcast and neither operand is rearranged: weights lie along n or
 * along k (the transposed product). Each output is one FMA chain, i ascending, so its bits depend neither on
 * the block nor on the vector width. A block of up to 6 units times one lane vector stays in registers: with
 * 32-byte vectors 12 accumulators, 6 broadcasts and 2 loads for 12 FMAs; with 64-byte vectors 8 units times
 * two panels. Narrow outputs take several panels a block instead, to have enough chains in flight. The widths
 * of the blocks are balanced (20 units are 4 blocks of 5, never 6 + 6 + 6 + 2). Two steps of k at a time: the
 * loop's own work is then seen no more at k = 20. Only where rows of weights are a multiple of large powers of
 * two apart (256 units) does it pay to bring a block's weights together.
 *
 * Share of the FMA peak on Zen 3 (AVX2), 8 panels, f64: 20 x 20 .89, 32 x 32 .89, 50 x 50 .92, 64 x 64 .92,
 * 256 x 256 .86; transposed .90, .89, .92, .93, .97.
 *
 * lin_rows, for values without points, has no lanes: four rows at a time against vectors of outputs.
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
