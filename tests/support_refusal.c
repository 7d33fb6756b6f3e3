/* support_refusal.c: see support_refusal.h. */
#include "tests/support_refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

tn_value batch(bench *b, const char *name, size_t width) {
  return tn_input(b->graph, name, b->dtype, tn_shape_batch(b->axis, width));
}

tn_value matrix(bench *b, const char *name, size_t rows, size_t columns) {
  return tn_parameter(b->graph, name, b->dtype, tn_shape_fixed(2, (size_t[]){rows, columns}));
}

tn_value vector(bench *b, const char *name, size_t n) {
  return tn_parameter(b->graph, name, b->dtype, tn_shape_fixed(1, &n));
}

void refused_at(int line, bench *b, tn_value v, tn_status status, const char *one, const char *two) {
  tn_status found = tn_graph_error(b->graph);
  if (v.graph || tn_ok(v))
    fail_msg("line %d: a value came back", line);
  if (found != status)
    fail_msg("line %d: %s (%s), expected %s", line, tn_status_name(found), tn_error_text(),
             tn_status_name(status));
  if (!strstr(tn_error_text(), one) || !strstr(tn_error_text(), two))
    fail_msg("line %d: `%s` lacks `%s` or `%s`", line, tn_error_text(), one, two);
  tn_graph_clear_error(b->graph);
  assert_int_equal(tn_graph_error(b->graph), TN_OK);
}
