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
  if (dtype == TN_BOOL) return ((const uint8_t *)data)[at];
  return ((const float *)data)[at];
}

/* An element of a value: a point (ANY: any point, or a value without points) and a unit (ANY: any). */
#define ANY SIZE_MAX
typedef struct spot { size_t point, unit; } spot;

/* The first non-finite element of a value, within what `at` leaves open; fills in `at`. */
static bool find(const tn_exec *exec, tn_edge edge, spot *at, double *value) {
  const tn_program *p = exec->program;
  size_t port = tn_port(p, edge);
  const tn_layout *layout = &p->layout[port];
  tn_dtype dtype = p->nodes[edge.node]->dtype;
  if (dtype == TN_BOOL) return false;
  size_t first = 0, last = layout->axis ? exec->extent[layout->axis] : 1;
  size_t lanes = layout->axis ? layout->lanes : 1;
  if (layout->axis && at->point < last) {
    first = at->point;
    last = at->point + 1;
  }
  bool one = at->unit < layout->width;
  for (size_t n = first; n < last; ++n)
    for (size_t w = one ? at->unit : 0; w < (one ? at->unit + 1 : layout->width); ++w) {
      double x = element(exec, port, dtype, (n / lanes * layout->width + w) * lanes + n % lanes);
      if (isfinite(x)) continue;
      *at = (spot){layout->axis ? n : ANY, w};
      *value = x;
      return true;
    }
  return false;
}

/* The element of an input that made the element `at` of an elementwise node; else the input's first one. */
static double element_at(const tn_exec *exec, tn_edge edge, spot at) {
  const tn_program *p = exec->program;
  size_t port = tn_port(p, edge);
  const tn_layout *layout = &p->layout[port];
  size_t lanes = layout->axis ? layout->lanes : 1, n = layout->axis && at.point != ANY ? at.point : 0;
  size_t w = at.unit < layout->width ? at.unit : 0;
  return element(exec, port, p->nodes[edge.node]->dtype,
                 (n / lanes * layout->width + w) * lanes + n % lanes);
}

/* Where in an input to look for what made the element `at` of a node. */
static spot seen_from(const tn_exec *exec, size_t node, uint32_t input, spot at) {
  const tn_program *p = exec->program;
  const tn_op *op = p->nodes[node]->op;
  size_t width = tn_input_layout(exec, node, input)->width;
  bool elementwise = op->arity > 0 || op->id == TN_OP_where;
  if (!elementwise || width != p->layout[p->port[node]].width) at.unit = ANY;
  return at;
}

static void walk(const tn_exec *exec, tn_edge edge, tn_culprit *out) {
  const tn_program *p = exec->program;
  spot at = {ANY, ANY};
  if (!find(exec, edge, &at, &out->value)) return;
  for (bool deeper = true; deeper;) {
    const tn_node *node = p->nodes[edge.node];
    uint32_t from = 0, to = node->n_inputs, here = edge.node;
    deeper = false;
    if (node->op->id == TN_OP_where) { /* only the selected branch counts */
      from = element_at(exec, node->inputs[0], at) != 0 ? 1 : 2;
      to = from + 1;
    }
    for (uint32_t k = from; k < to && !deeper; ++k) {
      spot in = seen_from(exec, here, k, at);
      if (!find(exec, node->inputs[k], &in, &out->value)) continue;
      edge = node->inputs[k];
      at = in;
      deeper = true;
    }
  }
  out->found = true;
  out->node = edge.node;
  out->point = at.point == ANY ? 0 : at.point;
  for (uint32_t k = 0; k < p->nodes[edge.node]->n_inputs && k < 3; ++k)
    out->input[k] = element_at(exec, p->nodes[edge.node]->inputs[k], at);
}

tn_status tn_exec_explain(tn_exec *exec, size_t i, tn_culprit *out) {
  const tn_program *p = exec->program;
  memset(out, 0, sizeof *out);
  if (i >= p->n_outputs) return TN_FAIL(TN_ERANGE, "explain: output %zu of %zu", i, p->n_outputs);
  tn_exec *full = NULL;
  TN_TRY(tn_exec_keeping_all(p, exec->pool, &full));
  for (size_t k = 0; k < p->n_nodes; ++k) {
    full->number[k] = exec->number[k];
    full->bound[k] = tn_buffer_retain(exec->bound[k]);
  }
  memcpy(full->offered, exec->offered, sizeof full->offered);
  memcpy(full->has_offer, exec->has_offer, sizeof full->has_offer);
  tn_status status = tn_exec_run(full);
  if (status == TN_OK) walk(full, p->outputs[i], out);
  tn_exec_free(&full);
  return status;
}
