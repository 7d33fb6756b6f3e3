/* sobol.h: scrambled Sobol points. Inside pinn/ only. */
#ifndef PINN_SOBOL_H
#define PINN_SOBOL_H

#include "tensor/tensor.h"

enum { PN_SOBOL_DIMENSIONS = 16, PN_SOBOL_BITS = 52 };

/* Points first ... first + n - 1 of the sequence that belongs to stream, points[i * dimensions + j]
 * in (0, 1). Coordinate j depends on (stream, j, index of the point) alone: neither on the number
 * of dimensions nor on how the sequence is cut into calls. dimensions in [1, 16], first + n <=
 * 2^52, else TN_ERANGE. Best used in aligned blocks of a power of two, or as a whole power of two
 * from 0. */
tn_status pn_sobol(size_t dimensions, tn_stream stream, uint64_t first, size_t n,
                   double *points) TN_MUST_USE;

#endif
