/* low.c: values of low formats (tf32, bf16, f16) in executors.
 *
 * Inside an executor such a value is an f32 that holds a number of its dtype (docs/design/003-low-precision.md), so
 * all arithmetic is that of f32, and a node rounds once when its f32 results are done. Only at the edge are there
 * elements of 16 bits: leaves are widened where they are packed or bound, outputs narrowed where they are read; both
 * are exact.
 */
#include "tensor/exec.h"

#include <string.h>

bool tn_is_low(tn_dtype dtype) { return tn_dtype_compute(dtype) != dtype; }

bool tn_cast_rounds(tn_dtype from, tn_dtype to) {
  bool is_held = to == TN_TF32 && (from == TN_BF16 || from == TN_F16); /* every number of it */
  return tn_is_low(to) && from != to && !is_held;
}

bool tn_node_rounds(const tn_node *node) {
  if (!tn_is_low(node->dtype) || node->op->class_ == TN_LEAF)
    return false;
  switch (node->op->id) {
  case TN_OP_neg:
  case TN_OP_abs:
  case TN_OP_relu:
  case TN_OP_min:
  case TN_OP_max:
  case TN_OP_where:
  case TN_OP_reshape:
  case TN_OP_expand:
  case TN_OP_transpose:
  case TN_OP_slice:
  case TN_OP_pad:
  case TN_OP_concat:
  case TN_OP_stack:
  case TN_OP_cast:
    return false; /* casts: tn_cast_rounds */
  default:
    return true;
  }
}

void tn_round_outputs(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  const tn_node *node = p->nodes[i];
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    const tn_layout *out = &p->layout[p->port[i] + k];
    if (tn_changes_panels(p, i)) /* its ports may lie on different points */
      last = out->axis ? tn_panels(frame->exec->extent[out->axis], out->lanes) : 1;
    size_t panel = out->width * (out->axis ? out->lanes : 1);
    char *y = (char *)frame->data[p->port[i] + k] + first * panel * kernels->size;
    kernels->round[node->dtype]((last - first) * panel, y, y);
  }
}

/* ---- Elements of 16 bits ---- */

static float widened(tn_dtype dtype, uint16_t x) {
  return (float)(dtype == TN_BF16 ? tn_of_bf16(x) : tn_of_f16(x));
}

static uint16_t narrowed(tn_dtype dtype, float x) {
  return dtype == TN_BF16 ? tn_bf16_of((double)x) : tn_f16_of((double)x);
}

bool tn_is_narrow(tn_dtype dtype) { return dtype == TN_BF16 || dtype == TN_F16; }

void tn_widen(tn_dtype dtype, size_t n, const uint16_t *x, float *y) {
  for (size_t k = 0; k < n; ++k)
    y[k] = widened(dtype, x[k]);
}

void tn_narrow(tn_dtype dtype, size_t n, const float *x, uint16_t *y) {
  for (size_t k = 0; k < n; ++k)
    y[k] = narrowed(dtype, x[k]);
}

enum { LANES = TN_LANE_BYTES / sizeof(float) };

void tn_pack_narrow(tn_dtype dtype, size_t rows, size_t width, const uint16_t *x, float *y) {
  size_t padded = (rows + LANES - 1) / LANES * LANES;
  for (size_t k = 0; k < padded; ++k)
    for (size_t w = 0; w < width; ++w)
      y[(k / LANES * width + w) * LANES + k % LANES] =
          widened(dtype, x[(k < rows ? k : rows - 1) * width + w]);
}

void tn_unpack_narrow(tn_dtype dtype, size_t rows, size_t width, const float *x, uint16_t *y) {
  for (size_t k = 0; k < rows; ++k)
    for (size_t w = 0; w < width; ++w)
      y[k * width + w] = narrowed(dtype, x[(k / LANES * width + w) * LANES + k % LANES]);
}

/* ---- Casts ---- */

/* Between f64 and a format that computes in f32: element a of x becomes element b of y. */
static void cast_one(tn_dtype to, const void *x, size_t a, void *y, size_t b) {
  if (to == TN_F64)
    ((double *)y)[b] = ((const float *)x)[a];
  else if (to == TN_F32)
    ((float *)y)[b] = (float)((const double *)x)[a];
  else
    ((float *)y)[b] = (float)tn_round(to, ((const double *)x)[a]);
}

void tn_run_cast(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_exec *exec = frame->exec;
  const tn_program *p = exec->program;
  tn_dtype dtype = p->nodes[i]->dtype, before = p->nodes[p->nodes[i]->inputs[0].node]->dtype;
  const tn_layout *from = tn_input_layout(exec, i, 0), *to = &p->layout[p->port[i]];
  const char *x = tn_input_data(frame, i, 0);
  char *y = frame->data[p->port[i]];
  if (from->size == to->size) { /* f32 and low formats */
    size_t panel = to->width * (to->axis ? to->lanes : 1), at = first * panel,
           n = (last - first) * panel;
    if (tn_cast_rounds(before, dtype))
      tn_kernels_of(dtype)->round[dtype](n, y + at * to->size, x + at * to->size);
    else
      memcpy(y + at * to->size, x + at * to->size, n * to->size);
    return;
  }
  if (!to->axis) {
    for (size_t k = 0; k < to->width; ++k)
      cast_one(dtype, x, k, y, k);
    return;
  }
  size_t points = exec->extent[to->axis], padded = tn_panels(points, to->lanes) * to->lanes;
  for (size_t k = 0; k < padded; ++k) {
    size_t point = k < points ? k : points - 1;
    for (size_t w = 0; w < to->width; ++w) {
      size_t a = (point / from->lanes * from->width + w) * from->lanes + point % from->lanes;
      cast_one(dtype, x, a, y, (k / to->lanes * to->width + w) * to->lanes + k % to->lanes);
    }
  }
}
