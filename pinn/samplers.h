/* samplers.h: points in the unit cube beside Sobol's. Inside pinn/ only. points[i * dimensions + j] in (0, 1), dimensions
 * in [1, 16]; the same stream and arguments give the same bits. */
#ifndef PINN_SAMPLERS_H
#define PINN_SAMPLERS_H

#include "tensor/tensor.h"

/* halton.c: points first ... first + n - 1 of Halton's sequence in the first primes, every digit shifted by a random
 * number of its own (Cranley and Patterson's rotation, digit by digit). A point does not depend on how calls are cut. */
tn_status pn_halton(size_t dimensions, tn_stream stream, uint64_t first, size_t n, double *points) TN_MUST_USE;
/* lhs.c: one Latin hypercube of n points (McKay, Beckman, Conover 1979): each n-th of every axis holds one of them.
 * `first` tells hypercubes of one stream apart. */
tn_status pn_latin(size_t dimensions, tn_stream stream, uint64_t first, size_t n, double *points) TN_MUST_USE;

#endif
