/* kernels_map.c: elementwise loops, made from the cells of ops.def, and the tables of all kernels.
 *
 * A cell is compiled over register-wide vectors (kernels_vector.h), so its loop is vector code whatever the
 * compiler's vectoriser makes of it. The last elements of a run go through the same code in a padded
 * vector: an element's bits do not depend on where it stands.
 *
 * A strip program (strip.h) runs one instruction after the other over strips of at most TN_STRIP elements,
 * which stay in the first cache.
 */
#define DTYPE f64
#define T double
#include "tensor/kernels_vector.h"
#ifndef __clang__ /* gcc leaves the vectors of one iteration one after the other unless told to mix them */
#pragma GCC optimize("schedule-insns,sched-pressure")
#endif

#define R(name) F(name)
#ifdef __clang__
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif

#define TN_THIS TN_F64
#define TN_WIDE 1
#include "tensor/functions.inc"
#include "tensor/kernels_map.inc"
#undef DTYPE
#undef T
#undef TN_THIS
#undef TN_WIDE

#define DTYPE f32
#define T float
#define TN_THIS TN_F32
#define TN_WIDE 0
#include "tensor/functions.inc"
#include "tensor/kernels_map.inc"
