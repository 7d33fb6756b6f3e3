/* kernels_sum.c: sums over points, and the change between rows and panels.
 *
 * A sum over points must not depend on the machine, so its order is part of its meaning (kernels.h).
 *
 * By lanes: each point of a panel adds into its own lane, panels ascending; a group's lanes fold by
 * halving. A block of 3 x 4 entries keeps one vector of each lane sum in registers while all pairs of all
 * panels pass (7 loads for 12 FMAs); the vectors of a lane vector are independent until the fold, so they take
 * turns. A group's operands are larger than the first cache, so blocks are visited in regions: a few columns
 * stay while the rows pass, and where there are many pairs, some 40 steps at a time with the sums laid by.
 * Then LANES sums fold together (kernels_vector.h) and are added as one vector.
 *
 * By points: the outer product of one point after the other onto the sum, as a matrix product whose lanes
 * are the columns. z is transposed first, a square of PANEL columns and points at a time, into the order in
 * which it is used: points, and per point the pairs. This has no fold, and pays when there are enough columns
 * to fill whole lane vectors and enough rows to share a transposition.
 *
 * Share of the FMA peak on Zen 3 (AVX2), 3 pairs, 8 panels, f64 and f32 alike within .03: by lanes 20 x 20
 * .70, 37 x 37 .71, 50 x 50 .72; by points 32 x 32 .80, 64 x 64 .86, 256 x 256 .84 (f32 .90).
 */
#define DTYPE f64
#define T double
#include "tensor/kernels_vector.h"

#include "tensor/kernels_sum.inc"
#undef DTYPE
#undef T

#define DTYPE f32
#define T float
#include "tensor/kernels_sum.inc"
