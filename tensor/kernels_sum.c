/* kernels_sum.c: sums over points, and the change between rows and panels.
 *
 * A sum over points must not depend on the machine, so its order is part of its meaning (kernels.h).
 *
 * By lanes: each point of a panel adds into its own lane, panels ascending; a group's lanes fold by
 * halving. A block of entries keeps its lane sums in registers for the whole group. The vectors of a lane
 * vector are independent until the fold, so a block takes them one after the other; then LANES vectors fold
 * together: combining the low halves of two vectors with their high halves gives one vector with the folded
 * lanes of both, and log2(LANES) such steps leave LANES sums in one vector.
 *
 * By points: the outer product of one point after the other onto the sum, as a matrix product whose lanes
 * are the columns. z is transposed first, a square of PANEL columns and points at a time. This has no fold,
 * and pays when there are enough columns.
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
