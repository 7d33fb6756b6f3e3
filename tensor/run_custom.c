/* run_custom.c: operations of users in both executors.
 *
 * A function of scalars is called element by element, wherever its values lie: within tiles, in whole arrays,
 * without points. An opaque operation with points sees whole arrays, so it stands between loops, as a cast between
 * panel widths does: what it reads and writes lies in whole arrays. These are in panels, and the callbacks want
 * rows: inputs are copied to rows, the results back to panels (the last point repeated in lanes beyond it).
 * Callbacks that fail leave their status with the executor and NaN in their results; the run then ends with it.
 */
#include "tensor/exec.h"
#include "tensor/kernels.h"

#include <math.h>
#include <stdio.h>

static const tn_custom *custom_of(const tn_program *p, size_t i) { return p->nodes[i]->op->custom; }

bool tn_crosses_points(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  if (!node->op->custom || !node->op->custom->forward) return false;
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    if (p->layout[p->port[i] + k].axis) return true;
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (p->layout[tn_port(p, node->inputs[k])].axis) return true;
  return false;
}

/* ---- Functions of scalars ---- */

static double function_f64(const tn_custom *c, const double *x) { return c->f64(c->context, x); }

static float function_f32(const tn_custom *c, const float *x) {
  if (c->f32) return c->f32(c->context, x);
  double wide[2] = {x[0], c->n_inputs > 1 ? x[1] : 0};
  return (float)c->f64(c->context, wide);
}

static void elements(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  const tn_custom *c = custom_of(p, i);
  const tn_layout *out = &p->layout[p->port[i]];
  size_t panel = out->width * (out->axis ? out->lanes : 1), step[2] = {0, 0};
  const void *in[2] = {NULL, NULL};
  for (size_t k = 0; k < c->n_inputs; ++k) {
    const tn_layout *layout = tn_input_layout(frame->exec, i, k);
    step[k] = layout->axis == out->axis && layout->width == out->width; /* else one number for all */
    in[k] = tn_input_data(frame, i, k);
  }
  void *y = frame->data[p->port[i]];
  bool wide = tn_dtype_compute(p->nodes[i]->dtype) == TN_F64;
  for (size_t e = first * panel; e < last * panel; ++e) {
    double x64[2] = {0, 0};
    float x32[2] = {0, 0};
    for (size_t k = 0; k < c->n_inputs; ++k) {
      if (wide) x64[k] = ((const double *)in[k])[e * step[k]];
      else x32[k] = ((const float *)in[k])[e * step[k]];
    }
    if (wide) ((double *)y)[e] = function_f64(c, x64);
    else ((float *)y)[e] = function_f32(c, x32);
  }
}

/* ---- Opaque operations ---- */

enum { MOST = 2 * TN_CUSTOM_INPUTS + 2 };

typedef struct crossing {
  tn_array array[MOST]; /* inputs, then outputs */
  void *own[MOST];      /* rows of values with points */
} crossing;

static tn_status describe(const tn_exec *exec, tn_edge e, const void *panels, bool fill, tn_array *a, void **own) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[e.node];
  const tn_shape *shape = &node->shapes[e.port];
  const tn_layout *layout = &p->layout[tn_port(p, e)];
  *a = (tn_array){.dtype = tn_dtype_compute(node->dtype), .rank = shape->rank, .count = 1};
  for (uint32_t k = 0; k < shape->rank; ++k) {
    a->extent[k] = shape->axis[k] ? exec->extent[shape->axis[k]] : shape->extent[k];
    a->count *= a->extent[k];
  }
  a->data = (void *)(uintptr_t)panels; /* callbacks write to their results alone */
  if (!layout->axis) return TN_OK;
  TN_TRY(tn_new(a->count, layout->size, own));
  a->data = *own;
  if (fill && a->extent[0])
    tn_kernels_of(node->dtype)->unpack(a->extent[0], layout->width, panels, *own);
  return TN_OK;
}

static void spoil(const tn_array *a) {
  for (size_t k = 0; k < a->count; ++k) {
    if (a->dtype == TN_F64) ((double *)a->data)[k] = NAN;
    else ((float *)a->data)[k] = NAN;
  }
}

static tn_status run(const tn_frame *frame, size_t i, crossing *c) {
  const tn_exec *exec = frame->exec;
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  const tn_custom *custom = node->op->custom;
  uint32_t n = node->n_inputs, m = node->n_outputs;
  for (uint32_t k = 0; k < n; ++k)
    TN_TRY(describe(exec, node->inputs[k], tn_input_data(frame, i, k), true, &c->array[k], &c->own[k]));
  for (uint32_t k = 0; k < m; ++k)
    TN_TRY(describe(exec, (tn_edge){(uint32_t)i, k}, frame->data[p->port[i] + k], false, &c->array[n + k],
                    &c->own[n + k]));
  const tn_array *x = c->array, *y = c->array + n;
  tn_error_clear();
  tn_status status = tn_op_is_vjp(node->op) ? custom->vjp(custom->context, x, x + n - 2, x + n - 1, y)
                                            : custom->forward(custom->context, x, y);
  for (uint32_t k = 0; k < m && status != TN_OK; ++k) spoil(&y[k]);
  for (uint32_t k = 0; k < m; ++k) {
    const tn_layout *layout = &p->layout[p->port[i] + k];
    if (layout->axis && y[k].extent[0])
      tn_kernels_of(node->dtype)->pack(y[k].extent[0], layout->width, y[k].data, frame->data[p->port[i] + k]);
  }
  if (status == TN_OK) return TN_OK;
  char text[600]; /* TN_FAIL overwrites what the callback said */
  snprintf(text, sizeof text, "%s", tn_error_text());
  return TN_FAIL(status, "%s: the callback failed: %s", node->op->name,
                 text[0] ? text : tn_status_text(status));
}

static void opaque(const tn_frame *frame, size_t i) {
  const tn_program *p = frame->exec->program;
  crossing c = {0};
  tn_status status = frame->exec->failed;
  if (status == TN_OK) status = run(frame, i, &c);
  frame->exec->failed = status;
  for (size_t k = 0; k < MOST; ++k) tn_free(&c.own[k]);
  const tn_layout *out = &p->layout[p->port[i]];
  if (tn_is_low(p->nodes[i]->dtype))
    tn_round_outputs(frame, i, 0, out->axis ? tn_panels(frame->exec->extent[out->axis], out->lanes) : 1);
}

void tn_run_custom(const tn_frame *frame, size_t i, size_t first, size_t last) {
  if (custom_of(frame->exec->program, i)->forward) opaque(frame, i);
  else elements(frame, i, first, last);
}
