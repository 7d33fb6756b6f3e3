/* ops_device.c: the audit of operations on a device: its kernels of single rows, and libraries beside them.
 *
 * Where values alone are asked for, a row of the table is judged as the kernel that programs are made of, called on
 * arrays: one small compilation serves all exponents of a power. Everything else is a program that runs
 * on the device. The references are the same as on a CPU, and so are the promises.
 *
 * A library of the device, as cuDNN, may have an operation, too. Its results are judged at the same points in the
 * same measures, and stand in the report beside ours. They cannot fail: nothing was promised of them.
 */
#include <stdio.h>
#include <string.h>

#include "tensor/factor.h"
#include "validate/ops.h"

bool vd_on_device(const vd_options *o) { return o->pool && tn_pool_device(o->pool); }

tn_status vd_or_absent(const vd_options *o, tn_status status, const char *subject, tn_dtype dtype,
                       vd_report *report) {
  if (status != TN_EUNSUPPORTED || !vd_on_device(o))
    return status;
  vd_row row = {.method = "absent", .measure = "none", .order = o->min_order, .pass = true};
  snprintf(row.subject, sizeof row.subject, "%s", subject);
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(dtype));
  return vd_report_add(report, &row);
}

vd_row vd_provider_row(const vd_options *o, const vd_cell *cell, const vd_promise *promise,
                       const char *subject) {
  vd_row row = vd_cell_row(cell, promise, subject, o->provider, 0);
  row.pass = true;
  return row;
}

/* Arrays in the format that the operation computes in. */
typedef struct arrays {
  tn_dtype format;
  size_t n;
  void *a, *b, *y;
} arrays;

static void drop(arrays *x) {
  tn_free(&x->a);
  tn_free(&x->b);
  tn_free(&x->y);
}

static tn_status fill(arrays *x, tn_dtype dtype, size_t n, const double *a, const double *b) {
  *x = (arrays){.format = tn_dtype_compute(dtype), .n = n};
  size_t size = tn_dtype_size(x->format);
  TN_TRY(tn_new(n, size, &x->y));
  TN_TRY(tn_new(n, size, &x->a));
  TN_TRY(tn_convert(n, TN_F64, a, x->format, x->a));
  if (!b)
    return TN_OK;
  TN_TRY(tn_new(n, size, &x->b));
  return tn_convert(n, TN_F64, b, x->format, x->b);
}

tn_status vd_device_values(const vd_options *o, const char *provider, const vd_case *c,
                           tn_dtype dtype, const vd_points *points, double *got) {
  arrays x;
  tn_status status = fill(&x, dtype, points->n, points->x[0], points->x[1]);
  if (status == TN_OK)
    status = tn_device_apply(tn_pool_device(o->pool), provider, c->op, dtype, x.n, x.a, x.b,
                             c->exponent, x.y);
  if (status == TN_OK)
    status = tn_convert(x.n, x.format, x.y, TN_F64, got);
  drop(&x);
  return status;
}

tn_status vd_device_rows(const vd_options *o, tn_op_id op, tn_dtype dtype, size_t rows,
                         size_t width, double epsilon, const double *x, double *y) {
  arrays all;
  tn_status status = fill(&all, dtype, rows * width, x, NULL);
  if (status == TN_OK)
    status = tn_device_apply_rows(tn_pool_device(o->pool), o->provider, op, dtype, rows, width,
                                  epsilon, all.a, all.y);
  if (status == TN_OK)
    status = tn_convert(all.n, all.format, all.y, TN_F64, y);
  drop(&all);
  return status;
}
