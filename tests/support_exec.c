/* support_exec.c: see support_exec.h. */
#include "tests/support_exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

double *draw(const char *name, size_t n) {
  tn_stream stream = tn_stream_of(5, name);
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = (float)(4 * tn_random_uniform(stream, i) - 2);
  return x;
}

tn_buffer *filled(tn_dtype dtype, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = NULL;
  good(tn_buffer_new(dtype, rank, extent, &buffer));
  good(tn_convert(tn_buffer_count(buffer), TN_F64, x, dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  return buffer;
}

void give(tn_exec *exec, tn_value leaf, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = filled(tn_dtype_of(leaf), rank, extent, x);
  good(tn_exec_bind(exec, leaf, buffer));
  tn_buffer_release(&buffer); /* the executor keeps it */
}

void same_bits(const double *got, const double *want, size_t n, const char *what,
                      size_t points) {
  for (size_t i = 0; i < n; ++i)
    if (memcmp(&got[i], &want[i], sizeof *got))
      fail_msg("%s, %zu points: element %zu is %a, expected %a", what, points, i, got[i], want[i]);
}

double number_at(const void *x, tn_dtype dtype, size_t i) {
  switch (dtype) {
  case TN_F64:
    return ((const double *)x)[i];
  case TN_F32:
  case TN_TF32:
    return ((const float *)x)[i];
  case TN_BF16:
    return tn_of_bf16(((const uint16_t *)x)[i]);
  case TN_F16:
    return tn_of_f16(((const uint16_t *)x)[i]);
  default:
    return ((const uint8_t *)x)[i];
  }
}
