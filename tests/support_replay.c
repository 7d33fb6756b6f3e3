/* support_replay.c: see support_replay.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_replay.h"

void rig_open(rig *g) {
  memset(g, 0, sizeof *g);
  assert_int_equal(tn_graph_new(&g->graph), TN_OK);
  g->axis = tn_axis_new(g->graph, "points");
}

void rig_close(rig *g) {
  vd_replay_free(&g->replay);
  tn_exec_free(&g->exec);
  tn_program_free(&g->program);
  for (size_t i = 0; i < g->n_bindings; ++i)
    tn_buffer_release(&g->binding[i].buffer);
  tn_graph_free(&g->graph);
}

tn_value rig_leaf(rig *g, const char *name, tn_dtype dtype, tn_shape shape, bool whole) {
  tn_value leaf = tn_input(g->graph, name, dtype, shape);
  size_t extent[TN_MAX_RANK], n = 1;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    extent[i] = shape.axis[i] ? POINTS : shape.extent[i];
    n *= extent[i];
  }
  tn_buffer *buffer = NULL;
  assert_int_equal(tn_buffer_new(dtype, shape.rank, extent, &buffer), TN_OK);
  tn_stream stream = tn_stream_of(3, name);
  char *data = tn_map(buffer, TN_WRITE);
  for (size_t i = 0; i < n; ++i) {
    double x = whole ? (double)(i + 1) : 2 * tn_random_uniform(stream, i) - 1;
    assert_int_equal(tn_convert(1, TN_F64, &x, dtype, data + i * tn_dtype_size(dtype)), TN_OK);
  }
  tn_unmap(buffer);
  g->binding[g->n_bindings++] = (vd_binding){leaf, buffer, 0};
  return leaf;
}

void rig_run(rig *g, size_t n, const tn_value *outputs) {
  assert_int_equal(tn_graph_error(g->graph), TN_OK);
  assert_int_equal(tn_compile(g->graph, n, outputs, &g->program), TN_OK);
  assert_int_equal(tn_exec_new(g->program, NULL, &g->exec), TN_OK);
  assert_int_equal(vd_replay_new(g->program, BITS, &g->replay), TN_OK);
  for (size_t i = 0; i < g->n_bindings; ++i) {
    uint32_t node = 0;
    assert_int_equal(tn_exec_bind(g->exec, g->binding[i].leaf, g->binding[i].buffer), TN_OK);
    if (tn_program_leaf(g->program, g->binding[i].leaf, &node))
      assert_int_equal(vd_replay_bind(g->replay, node, g->binding[i].buffer), TN_OK);
  }
  if (tn_exec_run(g->exec) != TN_OK)
    fail_msg("exec: %s", tn_error_text());
  if (vd_replay_run(g->replay) != TN_OK)
    fail_msg("replay: %s", tn_error_text());
}

mpfr_srcptr rig_at(const rig *g, size_t output, size_t i) {
  tn_edge e = tn_program_output(g->program, output);
  mpfr_srcptr v = vd_replay_at(g->replay, e.node, e.port, i);
  assert_non_null(v);
  return v;
}

double rig_c(const rig *g, size_t output) {
  tn_edge e = tn_program_output(g->program, output);
  size_t n = vd_replay_count(g->replay, e.node, e.port);
  double values[4096];
  assert_true(n > 0 && n <= 4096);
  assert_int_equal(tn_exec_read(g->exec, output, n, values), TN_OK);
  vd_measure m = {0};
  for (size_t i = 0; i < n; ++i)
    vd_measure_add(&m, tn_program_node(g->program, e.node)->dtype, values[i],
                   vd_replay_at(g->replay, e.node, e.port, i),
                   vd_replay_scale(g->replay, e.node, e.port, i), (double)i);
  return m.max_c;
}
