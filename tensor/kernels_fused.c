/* kernels_fused.c: the arithmetic of common strip programs as loops (fuse.h), from tensor/fused.inc. */
#define DTYPE f64
#define T double
#include "tensor/kernels_vector.h"

#include "tensor/fused.inc"
#undef DTYPE
#undef T

#define DTYPE f32
#define T float
#include "tensor/fused.inc"
