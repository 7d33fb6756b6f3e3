/* ops.h: what the files of the operation audit share: how one result is judged, and the points where
 * results are taken. Internal to validate/ and its tests. */
#ifndef VALIDATE_OPS_H
#define VALIDATE_OPS_H

#include "validate/mp.h"

enum { VD_ORDERS = 4 }; /* 0 to 3 */

/* ---- Judgement (ops_judge.c) ----------------------------------------------------------------- */

/* What is promised of a kind of result; ops_judge.c derives the numbers. */
typedef struct vd_promise {
  tn_dtype dtype;
  bool one_rounding; /* low formats: computed in f32, rounded once at the end */
  double ulp;    /* largest error in ulp; 0: c alone judges. With one_rounding: of the f32 part */
  double c;      /* largest error in roundings of the compute format, of the scale */
  double margin; /* one_rounding: ulp of the low format allowed beyond half a one */
} vd_promise;
/* Of a row's value or derivative: of a kernel or jet (fused), or of composed nodes. */
vd_promise vd_promise_of(const tn_op *row, tn_dtype dtype, bool fused, int order);

/* The worst of many results under one promise. Start from a zeroed struct. */
typedef struct vd_cell {
  size_t points; /* judged */
  size_t below;  /* of these: references below the smallest normal number, not 0 */
  size_t
      cancelled; /* of these: judged by c, since the compute format may lose more than the margin */
  size_t special; /* of these: NaN demanded, or the argument infinite */
  size_t beyond;  /* not counted in points: a number on the way leaves the format's range (ops.c) */
  double ulp, ulp_at;
  double c, c_at;
} vd_cell;
void vd_cell_add(vd_cell *cell, const vd_promise *promise, double value, mpfr_srcptr reference,
                 double scale, double at);
void vd_cell_join(vd_cell *cell, const vd_cell *other); /* adds the other's points */
bool vd_cell_passes(const vd_cell *cell, const vd_promise *promise);
/* A report row of a cell: the measure that decides, its value and bound. */
vd_row vd_cell_row(const vd_cell *cell, const vd_promise *promise, const char *subject,
                   const char *method, int order);

/* The numbers of a format. */
typedef struct vd_range {
  int digits; /* with the hidden bit */
  int lowest; /* 2^lowest: the smallest subnormal */
  int normal; /* 2^normal: the smallest normal */
  int top;    /* 2^top: the first number beyond */
} vd_range;
vd_range vd_range_of(tn_dtype dtype);

/* ---- Points (ops_points.c) ------------------------------------------------------------------- */

/* Arguments of a case, rounded to the dtype. x[1] for binary rows; unary rows have x[0] alone. */
typedef struct vd_points {
  size_t n;
  double *x[2]; /* owned */
} vd_points;
void vd_points_free(vd_points *points);
/* Special numbers, neighbours of zeros of the function and its derivatives, and o->points random
 * numbers of the row's interval; for binary rows all pairs of special numbers, and ties. */
tn_status vd_points_sample(const vd_options *o, const vd_case *c, tn_dtype dtype,
                           vd_points *out) TN_MUST_USE;
/* All numbers of bf16 or f16, NaN patterns included. */
tn_status vd_points_all(tn_dtype dtype, vd_points *out) TN_MUST_USE;

/* ---- One case (ops.c) ------------------------------------------------------------------------ */

/* Runs a case at the points and adds a row of each method and order to the report. `nested`: nested
 * reverse mode as well. */
tn_status vd_audit_case(const vd_options *o, const vd_case *c, tn_dtype dtype, bool nested,
                        const vd_points *points, vd_report *report) TN_MUST_USE;
/* Runs a graph's outputs over n points: leaves in dtype, x[k] its k-th. got: [n_outputs][n]. */
tn_status vd_run_points(tn_pool *pool, tn_graph *graph, size_t n_leaves, const tn_value *leaf,
                        size_t n_outputs, const tn_value *output, tn_dtype dtype, size_t n,
                        double *const *x, double *got) TN_MUST_USE;
/* Rounds numbers to a dtype in place. */
void vd_round_all(tn_dtype dtype, size_t n, double *x);
/* (fg)_a = sum of C(a, b) f_b g_(a-b): the algebra of derivatives 0 .. order of one variable. */
const tn_jet_table *vd_derivatives_table(tn_graph *graph, int order);

/* On a device (ops_device.c). */
bool vd_on_device(const vd_options *o);
/* If `status` is TN_EUNSUPPORTED on a device: a row `absent` and TN_OK; else `status`. */
tn_status vd_or_absent(const vd_options *o, tn_status status, const char *subject, tn_dtype dtype,
                       vd_report *report) TN_MUST_USE;
/* got[i] = the case's row of the points, by a provider (NULL: the device's own kernel). */
tn_status vd_device_values(const vd_options *o, const char *provider, const vd_case *c,
                           tn_dtype dtype, const vd_points *points, double *got) TN_MUST_USE;
/* y = softmax or layer_norm of x[rows x width] by o->provider. */
tn_status vd_device_rows(const vd_options *o, tn_op_id op, tn_dtype dtype, size_t rows, size_t width,
                         double epsilon, const double *x, double *y) TN_MUST_USE;
/* The row of a cell by o->provider: its figures beside our promise, and it passes. */
vd_row vd_provider_row(const vd_options *o, const vd_cell *cell, const vd_promise *promise,
                       const char *subject);

/* Structure, sums and products (ops_struct.c). */
tn_status vd_audit_structure(const vd_options *o, tn_dtype dtype, vd_report *report) TN_MUST_USE;

/* softmax, layer_norm, rstd, and their gradients of order 1 to 3 against differences (ops_rows.c). */
tn_status vd_audit_rows(const vd_options *o, tn_dtype dtype, vd_report *report) TN_MUST_USE;
tn_status vd_audit_row_rules(const vd_options *o, vd_report *report) TN_MUST_USE;

/* The float formats, widest first. */
enum { VD_FORMATS = 5 };
extern const tn_dtype vd_formats[VD_FORMATS];

#endif
