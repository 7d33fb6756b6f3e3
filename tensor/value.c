/* value.c: any value of a run of an executor that keeps all of them, as f64 and row-major. */
#include "tensor/exec.h"

static tn_status find_port(const tn_exec *exec, uint32_t node, uint32_t port, size_t *out) {
  const tn_program *p = exec->program;
  if (node >= p->n_nodes || port >= p->nodes[node]->n_outputs)
    return TN_FAIL(TN_ERANGE, "value: port %u of node %u of a program of %zu nodes", port, node,
                   p->n_nodes);
  *out = p->port[node] + port;
  return TN_OK;
}

tn_status tn_exec_value_count(const tn_exec *exec, uint32_t node, uint32_t port, size_t *count) {
  size_t at = 0, extent[TN_MAX_AXES + 1];
  bool known[TN_MAX_AXES + 1];
  *count = 0;
  TN_TRY(find_port(exec, node, port, &at));
  TN_TRY(tn_bound_extents(exec, extent, known));
  const tn_layout *layout = &exec->program->layout[at];
  if (layout->axis && !known[layout->axis])
    return TN_FAIL(TN_ESTATE, "value: no input is bound on point axis %u, its extent is unknown",
                   layout->axis);
  *count = layout->width * (layout->axis ? extent[layout->axis] : 1);
  return TN_OK;
}

static double number_at(const tn_layout *layout, tn_dtype dtype, const void *data, size_t i) {
  if (layout->axis) {
    size_t n = i / layout->width, w = i % layout->width;
    i = (n / layout->lanes * layout->width + w) * layout->lanes + n % layout->lanes;
  }
  if (dtype == TN_BOOL)
    return ((const uint8_t *)data)[i];
  return dtype == TN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

tn_status tn_exec_value(tn_exec *exec, uint32_t node, uint32_t port, size_t count, double *out) {
  size_t at = 0;
  if (!tn_whole_keeps(exec))
    return TN_FAIL(TN_EUNSUPPORTED,
                   "value: this executor does not keep all values (tn_exec_keeping_all does)");
  TN_TRY(find_port(exec, node, port, &at));
  if (!exec->ran)
    return TN_FAIL(TN_ESTATE, "value: node %u was asked for before a run", node);
  const tn_layout *layout = &exec->program->layout[at];
  size_t n = layout->width * (layout->axis ? exec->extent[layout->axis] : 1);
  if (count != n)
    return TN_FAIL(TN_ESHAPE, "value: node %u has %zu elements, %zu were asked for", node, n,
                   count);
  tn_dtype dtype = tn_dtype_compute(exec->program->nodes[node]->dtype);
  for (size_t i = 0; i < n; ++i)
    out[i] = number_at(layout, dtype, exec->data[at], i);
  return TN_OK;
}
