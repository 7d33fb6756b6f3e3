/* ops_rows.c: the audit of operations on rows: softmax, layer_norm, rstd.
 *
 * An entry of their results depends on a whole row, so there is no series in one variable. The reference is
 * the replay of the very program in MPFR, and S its condition scale (replay.c, replay_rowwise.c). Order k >= 1
 * is taken as
 *
 *   y_k = d(sum of w_k y_(k-1)) / dx,   y_0 the operation,   w_k fixed weights, other ones for each order,
 *
 * by nested reverse mode. A replay shares the graph, so it does not see a wrong rule: vd_audit_row_rules holds
 * each of these gradients against central differences of its own sum, in MPFR.
 *
 * Rows are random; large beside their spread (x + 1000 in f64 and f32, x + 30 in low formats, where layer_norm
 * cancels); small (x / 1000, or x / 4 in low formats, where powers of 1/s would leave f16); and, for values, rows that hold equal numbers, -infinity, +infinity and NaN.
 * Judged by c <= 8 at order 0 and 1 and 12 beyond, as for other functions: S has all roundings on the way.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/autograd.h"
#include "validate/ops.h"

enum { ROWS = 64, WIDTH = 9 };
static const double epsilon = 0x1p-10; /* exact in every format */

typedef struct rows {
  tn_graph *graph;
  tn_program *program;
  tn_value x, sum[VD_ORDERS], y[VD_ORDERS]; /* sum[k]: what y[k] is the gradient of */
  tn_buffer *buffer;
  double *data;
} rows;

static void close_rows(rows *r) {
  tn_program_free(&r->program);
  tn_graph_free(&r->graph);
  tn_buffer_release(&r->buffer);
  tn_free(&r->data);
}

static tn_value apply(tn_op_id op, tn_value x) {
  switch (op) {
  case TN_OP_softmax:
    return tn_softmax(x);
  case TN_OP_layer_norm:
    return tn_layer_norm(x, epsilon);
  default:
    return tn_rstd(x, epsilon);
  }
}

/* Weights 0.5 .. 1.5 in steps of 1/8, exact in every format. */
static tn_value weights(tn_value like, int order) {
  double w[WIDTH];
  tn_shape shape = tn_shape_of(like);
  if (shape.rank < 2)
    return tn_const(like.graph, tn_dtype_of(like), 1.5);
  for (int j = 0; j < WIDTH; ++j)
    w[j] = 0.5 + (j * 5 + order * 3) % 9 / 8.0;
  const size_t extent[] = {WIDTH};
  tn_value vector = tn_const_array(like.graph, tn_dtype_of(like), tn_shape_fixed(1, extent), w);
  return tn_broadcast(vector, shape);
}

static tn_status build(tn_op_id op, tn_dtype dtype, int max_order, bool with_sums, rows *r) {
  tn_value outputs[2 * VD_ORDERS];
  size_t n = 0;
  TN_TRY(tn_graph_new(&r->graph));
  tn_shape shape = tn_shape_batch(tn_axis_new(r->graph, "points"), WIDTH);
  r->x = tn_input(r->graph, "x", dtype, shape);
  tn_value y = apply(op, r->x);
  r->y[0] = outputs[n++] = y;
  for (int k = 1; k <= max_order; ++k) {
    r->sum[k] = tn_sum_all(tn_mul(weights(y, k), y));
    TN_TRY(vd_first_error(r->graph, ag_grad(r->sum[k], 1, &r->x, &y)));
    r->y[k] = outputs[n++] = y;
    if (with_sums)
      outputs[n++] = r->sum[k];
  }
  TN_TRY(tn_graph_error(r->graph));
  return tn_compile(r->graph, n, outputs, &r->program);
}

static tn_status fill(const vd_options *o, tn_dtype dtype, size_t n_rows, bool special, rows *r) {
  static const double odd[] = {-INFINITY, INFINITY, NAN};
  const size_t extent[] = {n_rows, WIDTH};
  bool low = tn_dtype_compute(dtype) != dtype;
  tn_stream stream = tn_stream_of(o->seed, "rows");
  TN_TRY(TN_NEW(n_rows * WIDTH, &r->data));
  for (size_t i = 0; i < n_rows * WIDTH; ++i) {
    size_t row = i / WIDTH, column = i % WIDTH;
    double x = 6 * tn_random_uniform(stream, i) - 3;
    x = row % 8 == 3 ? x + (low ? 30 : 1000) : row % 8 == 5 ? x / (low ? 4 : 1000) : x;
    if (special && row < 4)
      x = row == 0 ? 2 : column == 4 ? odd[row - 1] : x;
    r->data[i] = tn_round(dtype, x);
  }
  TN_TRY(tn_buffer_new(dtype, 2, extent, &r->buffer));
  tn_status status =
      tn_convert(n_rows * WIDTH, TN_F64, r->data, dtype, tn_map(r->buffer, TN_WRITE));
  tn_unmap(r->buffer);
  return status;
}

/* Rows 0 to 3, equal numbers and non-finite ones, judge values alone: a derivative of infinity may be NaN, and
 * those of 1/sqrt(epsilon) grow as epsilon^-(m + 1/2), beyond f16. */
static void judge(const vd_replay *replay, tn_edge edge, const double *got, size_t n, int order,
                  const vd_promise *promise, vd_cell *cell) {
  size_t width = n / ROWS;
  for (size_t i = 0; i < n; ++i) {
    if (order > 0 && i / width < 4) {
      ++cell->special;
      continue;
    }
    vd_cell_add(cell, promise, got[i], vd_replay_at(replay, edge.node, edge.port, i),
                vd_replay_scale(replay, edge.node, edge.port, i), (double)i);
  }
}

/* The same rows by another provider; TN_OK and no row of the report if it lacks the operation. */
static tn_status audit_provider(const vd_options *o, tn_op_id op, tn_dtype dtype, const rows *r,
                                const vd_replay *replay, vd_report *report) {
  double got[ROWS * WIDTH];
  tn_edge edge = tn_program_output(r->program, 0);
  vd_promise promise = {.dtype = dtype,
                        .one_rounding = tn_dtype_compute(dtype) != dtype,
                        .c = fmin(8, o->c_ceiling),
                        .margin = 0.001};
  vd_cell cell = {0};
  tn_status status = vd_device_rows(o, op, dtype, ROWS, WIDTH, epsilon, r->data, got);
  if (status == TN_EUNSUPPORTED)
    return TN_OK;
  TN_TRY(status);
  judge(replay, edge, got, (size_t)ROWS * WIDTH, 0, &promise, &cell);
  vd_row row = vd_provider_row(o, &cell, &promise, tn_op_row(op)->name);
  return vd_report_add(report, &row);
}

static tn_status audit_in(const vd_options *o, tn_op_id op, tn_dtype dtype, vd_report *report) {
  rows r = {0};
  vd_replay *replay = NULL;
  tn_exec *exec = NULL;
  double got[ROWS * WIDTH];
  uint32_t leaf = 0;
  tn_status status = build(op, dtype, o->max_order, false, &r);
  if (status == TN_OK)
    status = fill(o, dtype, ROWS, true, &r);
  if (status == TN_OK)
    status = vd_replay_new(r.program, 128, &replay);
  if (status == TN_OK && tn_program_leaf(r.program, r.x, &leaf))
    status = vd_replay_bind(replay, leaf, r.buffer);
  if (status == TN_OK)
    status = vd_replay_run(replay);
  if (status == TN_OK)
    status = tn_exec_new(r.program, o->pool, &exec);
  if (status == TN_OK)
    status = tn_exec_bind(exec, r.x, r.buffer);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  for (int k = o->min_order; k <= o->max_order && status == TN_OK; ++k) {
    tn_edge edge = tn_program_output(r.program, (size_t)k);
    size_t n = vd_replay_count(replay, edge.node, edge.port);
    vd_promise promise = {.dtype = dtype,
                          .one_rounding = k == 0 && tn_dtype_compute(dtype) != dtype,
                          .c = fmin(k < 2 ? 8 : 12, o->c_ceiling),
                          .margin = 0.001};
    vd_cell cell = {0};
    status = tn_exec_read(exec, (size_t)k, n, got);
    if (status != TN_OK)
      break;
    judge(replay, edge, got, n, k, &promise, &cell);
    vd_row row = vd_cell_row(&cell, &promise, tn_op_row(op)->name, k ? "grad" : "kernel", k);
    status = vd_report_add(report, &row);
  }
  status = vd_or_absent(o, status, tn_op_row(op)->name, dtype, report);
  if (status == TN_OK && o->provider && o->min_order == 0 && op != TN_OP_rstd)
    status = audit_provider(o, op, dtype, &r, replay, report);
  tn_exec_free(&exec);
  vd_replay_free(&replay);
  close_rows(&r);
  return status;
}

static const tn_op_id row_ops[] = {TN_OP_softmax, TN_OP_layer_norm, TN_OP_rstd};
enum { ROW_OPS = sizeof row_ops / sizeof *row_ops };

tn_status vd_audit_rows(const vd_options *o, tn_dtype dtype, vd_report *report) {
  for (int i = 0; i < ROW_OPS; ++i)
    if (!o->only || strcmp(o->only, tn_op_row(row_ops[i])->name) == 0)
      TN_TRY(audit_in(o, row_ops[i], dtype, report));
  return TN_OK;
}

tn_status vd_audit_row_rules(const vd_options *o, vd_report *report) {
  tn_status status = TN_OK;
  for (int i = 0; i < ROW_OPS && status == TN_OK; ++i) {
    rows r = {0};
    const char *name = tn_op_row(row_ops[i])->name;
    if (o->only && strcmp(o->only, name) != 0)
      continue;
    status = build(row_ops[i], TN_F64, VD_ORDERS - 1, true, &r);
    if (status == TN_OK)
      status = fill(o, TN_F64, 3, false, &r);
    vd_binding binding = {.leaf = r.x, .buffer = r.buffer};
    for (int k = 1; k < VD_ORDERS && status == TN_OK; ++k) {
      char text[48];
      snprintf(text, sizeof text, "%s order %d", name, k);
      /* outputs: y_0, then y_1, sum_1, y_2, sum_2, ... */
      status = vd_audit_gradient(r.program, 1, &binding, (size_t)(2 * k), (size_t)(2 * k - 1), r.x,
                                 text, o, report);
    }
    close_rows(&r);
  }
  return status;
}
