/* support_exec.h: buffers of numbers and comparison of bits, for tests that drive executors. */
#ifndef TESTS_SUPPORT_EXEC_H
#define TESTS_SUPPORT_EXEC_H

#include "tests/support_graph.h"

/* Fails the test with the engine's text unless the status is TN_OK. */
void good(tn_status status);
/* n numbers of f32 in (-2, 2), by name; free() them. */
double *draw(const char *name, size_t n);
/* A buffer with these numbers. */
tn_buffer *filled(tn_dtype dtype, size_t rank, const size_t *extent, const double *x);
/* Binds a leaf of an executor to a buffer with these numbers. */
void give(tn_exec *exec, tn_value leaf, size_t rank, const size_t *extent, const double *x);
/* Element i of an array of any dtype. */
double number_at(const void *x, tn_dtype dtype, size_t i);
/* Fails, naming `what` and the number of points, at the first element that differs in any bit. */
void same_bits(const double *got, const double *want, size_t n, const char *what, size_t points);

#endif
