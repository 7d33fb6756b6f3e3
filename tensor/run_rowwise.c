/* run_rowwise.c: softmax, layer_norm and rstd, for both executors.
 *
 *   softmax     y_j = e_j / sum e,  e_j = exp(x_j - max x), 1 where x_j is the max
 *   layer_norm  y_j = (x_j - m) / sqrt(v + epsilon),  m = sum x / n,  v = sum (x - m)^2 / n
 *   rstd        1 / sqrt(v + epsilon)
 *
 * They are operations of their own because a row is in cache once and its maximum, sums and exponentials are one
 * pass each, where the meaning in other operations would take a value of its own for every line above. Everything
 * but the exponential is + - * / and sqrt, which IEEE 754 rounds the same everywhere; the exponential is that of
 * the kernels. No FMA, sums in order: the same bits on every instruction set, in any tile, by any thread.
 *
 * The shift by the maximum makes every exponent at most 0: nothing overflows, and the sum is between 1 and n.
 */
#include "tensor/exec.h"
#include "tensor/kernels.h"

#include <math.h>

enum { MOST_LANES = 16 };

#define T double
#define F(name) name##_f64
#define SQRT sqrt
#include "tensor/rowwise.inc"
#undef T
#undef F
#undef SQRT

#define T float
#define F(name) name##_f32
#define SQRT sqrtf
#include "tensor/rowwise.inc"
#undef T
#undef F
#undef SQRT

void tn_run_rowwise(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  const tn_node *node = p->nodes[i];
  const tn_edge e = node->inputs[0];
  const tn_shape *shape = &p->nodes[e.node]->shapes[e.port];
  const tn_layout *in = tn_input_layout(frame->exec, i, 0), *out = &p->layout[p->port[i]];
  size_t lanes = in->axis ? in->lanes : 1, n = shape->extent[shape->rank - 1];
  size_t rows = (last - first) * (in->width / n);
  tn_dtype dtype = tn_dtype_compute(node->dtype);
  const tn_kernels *kernels = tn_kernels_of(dtype);
  const void *x = tn_input_data(frame, i, 0);
  void *y = frame->data[p->port[i]];
  size_t from = first * in->width * lanes, to = first * out->width * lanes;
  if (dtype == TN_F64)
    rows_f64(kernels, node, rows, n, lanes, (const double *)x + from, (double *)y + to);
  else
    rows_f32(kernels, node, rows, n, lanes, (const float *)x + from, (float *)y + to);
}
