/* explain.c: which node made the first number that is not finite.
 *
 * The program runs once more with storage for every value. From the first non-finite element of the output we
 * walk to an input that is not finite at the same point (anywhere, for inputs without points or across a sum),
 * until a node has none: that node made it from finite numbers. A selection leads only into the branch it
 * selected, so a NaN that nobody looks at is never blamed.
 */
#include "tensor/exec.h"

#include <math.h>
#include <string.h>

static double element(const tn_exec *exec, size_t port, tn_dtype dtype, size_t at) {
  const void *data = exec->data[port];
  if (dtype == TN_F64) return ((const double *)data)[at];
  if (dtype == TN_F32) return ((const float *)data)[at];
  return ((const uint8_t *)data)[at];
}

/* The first non-finite element of a value; at one point if point is not SIZE_MAX. */
static bool find(const tn_exec *exec, tn_edge edge, size_t *point, double *value) {
  const tn_program *p = exec->program;
  size_t port = tn_port(p, edge);
  const tn_layout *layout = &p->layout[port];
  tn_dtype dtype = p->nodes[edge.node]->dtype;
  if (dtype == TN_BOOL) return false;
  size_t first = 0, last = layout->axis ? exec->extent[layout->axis] : 1;
  size_t lanes = layout->axis ? layout->lanes : 1;
  if (layout->axis && *point < last) {
    first = *point;
    last = *point + 1;
  }
  for (size_t n = first; n < last; ++n)
    for (size_t w = 0; w < layout->width; ++w) {
      double x = element(exec, port, dtype, (n / lanes * layout->width + w) * lanes + n % lanes);
      if (isfinite(x)) continue;
      if (layout->axis) *point = n;
      *value = x;
      return true;
    }
  return false;
}

static double first_element(const tn_exec *exec, tn_edge edge, size_t point) {
  const tn_program *p = exec->program;
  size_t port = tn_port(p, edge);
  const tn_layout *layout = &p->layout[port];
  size_t lanes = layout->axis ? layout->lanes : 1, n = layout->axis && point != SIZE_MAX ? point : 0;
  return element(exec, port, p->nodes[edge.node]->dtype,
                 n / lanes * layout->width * lanes + n % lanes);
}

static void walk(const tn_exec *exec, tn_edge edge, tn_culprit *out) {
  const tn_program *p = exec->program;
  size_t point = SIZE_MAX;
  if (!find(exec, edge, &point, &out->value)) return;
  for (bool deeper = true; deeper;) {
    const tn_node *node = p->nodes[edge.node];
    uint32_t from = 0, to = node->n_inputs;
    deeper = false;
    if (node->op->id == TN_OP_where) { /* only the selected branch counts */
      from = first_element(exec, node->inputs[0], point) != 0 ? 1 : 2;
      to = from + 1;
    }
    for (uint32_t k = from; k < to && !deeper; ++k) {
      size_t at = point;
      double value;
      if (!find(exec, node->inputs[k], &at, &value)) continue;
      edge = node->inputs[k];
      point = at;
      out->value = value;
      deeper = true;
    }
  }
  out->found = true;
  out->node = edge.node;
  out->point = point == SIZE_MAX ? 0 : point;
  for (uint32_t k = 0; k < p->nodes[edge.node]->n_inputs && k < 3; ++k)
    out->input[k] = first_element(exec, p->nodes[edge.node]->inputs[k], point);
}

tn_status tn_exec_explain(tn_exec *exec, size_t i, tn_culprit *out) {
  const tn_program *p = exec->program;
  memset(out, 0, sizeof *out);
  if (i >= p->n_outputs) return TN_FAIL(TN_ERANGE, "explain: output %zu of %zu", i, p->n_outputs);
  tn_exec *full = NULL;
  TN_TRY(tn_exec_keeping(p, exec->pool, &full));
  for (size_t k = 0; k < p->n_nodes; ++k) {
    full->number[k] = exec->number[k];
    full->bound[k] = tn_buffer_retain(exec->bound[k]);
  }
  tn_status status = tn_exec_run(full);
  if (status == TN_OK) walk(full, p->outputs[i], out);
  tn_exec_free(&full);
  return status;
}
