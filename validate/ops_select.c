/* ops_select.c: the audit of comparisons and of `where`.
 *
 * Comparisons are right or wrong: what is counted is wrong answers, on random pairs and on all
 * pairs of special values, among them ties, +0 against -0, infinities and NaN (which compares
 * false, but differs from all).
 *
 * Selection goes wrong in derivatives: the branch not taken may be infinite or NaN, and a rule that
 * multiplies its cotangent by 0 instead of leaving it out turns that into NaN. Three functions of
 * the form
 *
 *   f(x) = where(x > t or x <= t, factor g(x), slope x + offset)
 *
 * at points where g or its derivatives do not exist or overflow, to order 3 by nested reverse mode.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/autograd.h"
#include "validate/ops.h"

/* ---- Graphs on one axis --------------------------------------------------------------------- */

enum { MOST_OUTPUTS = 4 };

typedef struct plan {
  tn_graph *graph;
  tn_value leaf[2], output[MOST_OUTPUTS];
  size_t n_leaves, n_outputs;
} plan;

/* ---- Comparisons ---------------------------------------------------------------------------- */

static tn_value compare_values(tn_op_id op, tn_value a, tn_value b) {
  switch (op) {
#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_COMPARE(name, cell, mpfr, doc)                                                          \
  case TN_OP_##name:                                                                               \
    return tn_##name(a, b);
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
#include "tensor/ops.def"
  default:
    return (tn_value){0};
  }
}

/* All pairs of special values first, then random ones. */
static void fill_pairs(const vd_options *o, size_t n, double *a, double *b) {
  const double special[] = {0.0, -0.0, 1, -1, 1 + 0x1p-23, 1e-300, INFINITY, -INFINITY, NAN};
  size_t m = sizeof special / sizeof *special;
  tn_stream stream = tn_stream_of(o->seed, "comparison");
  for (size_t i = 0; i < n; ++i) {
    bool pair = i < m * m;
    a[i] = pair ? special[i / m] : 18 * tn_random_uniform(stream, 2 * i) - 9;
    b[i] = pair ? special[i % m] : 18 * tn_random_uniform(stream, 2 * i + 1) - 9;
  }
}

static size_t wrong_answers(tn_op_id op, size_t n, double *const *x, const double *got,
                            double *at) {
  size_t wrong = 0;
  mpfr_t a, b;
  mpfr_inits2(64, a, b, (mpfr_ptr)0);
  for (size_t i = 0; i < n; ++i) {
    mpfr_set_d(a, x[0][i], MPFR_RNDN);
    mpfr_set_d(b, x[1][i], MPFR_RNDN);
    if (got[i] == (double)vd_ref_compare(op, a, b))
      continue;
    *at = x[0][i];
    ++wrong;
  }
  mpfr_clears(a, b, (mpfr_ptr)0);
  return wrong;
}

tn_status vd_audit_compare(const vd_options *o, tn_op_id op, tn_dtype dtype, vd_report *report) {
  plan p = {.n_leaves = 2, .n_outputs = 1};
  size_t n = o->points + 128;
  double *x[2] = {NULL, NULL}, *got = NULL, at = 0;
  TN_TRY(tn_graph_new(&p.graph));
  tn_shape shape = tn_shape_points(tn_axis_new(p.graph, "points"));
  p.leaf[0] = tn_input(p.graph, "a", dtype, shape);
  p.leaf[1] = tn_input(p.graph, "b", dtype, shape);
  /* a mask is not an output of its own: select numbers by it */
  p.output[0] = tn_where(compare_values(op, p.leaf[0], p.leaf[1]),
                         tn_fill(p.graph, dtype, shape, 1), tn_fill(p.graph, dtype, shape, 0));
  tn_status status = TN_NEW(n, &x[0]);
  if (status == TN_OK)
    status = TN_NEW(n, &x[1]);
  if (status == TN_OK)
    status = TN_NEW(n, &got);
  if (status == TN_OK) {
    fill_pairs(o, n, x[0], x[1]);
    vd_round_all(dtype, n, x[0]);
    vd_round_all(dtype, n, x[1]);
    status = vd_run_points(o->pool, p.graph, 2, p.leaf, 1, p.output, dtype, n, x, got);
  }
  if (status == TN_OK) {
    vd_row row = {.method = "kernel", .measure = "wrong", .points = n, .order = 0};
    row.value = (double)wrong_answers(op, n, x, got, &at);
    row.at = at;
    row.pass = row.value == 0;
    snprintf(row.subject, sizeof row.subject, "%s", tn_op_row(op)->name);
    snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(dtype));
    status = vd_report_add(report, &row);
  }
  tn_free(&x[0]);
  tn_free(&x[1]);
  tn_free(&got);
  tn_graph_free(&p.graph);
  return status;
}

/* ---- Branches ------------------------------------------------------------------------------- */

typedef struct branch {
  const char *name;
  tn_op_id comparison; /* gt or le */
  double threshold;
  tn_op_id row; /* g */
  double factor, slope, offset;
  size_t n;
  double x[4];
} branch;

static const branch branches[] = {
    {"where(x > 0, sqrt(x), x)", TN_OP_gt, 0, TN_OP_sqrt, 1, 1, 0, 4, {-1, -4, 0, 4}},
    {"where(x <= 0, exp(x), 1 + x)", TN_OP_le, 0, TN_OP_exp, 1, 1, 1, 4, {100, 1e4, -1, 0}},
    {"where(x > 2, log(x)/ln 2, 2 x)",
     TN_OP_gt,
     2,
     TN_OP_log,
     1.4426950408889634,
     2,
     0,
     4,
     {0, 2, 3, -1}},
};

static tn_value times(tn_graph *graph, tn_value x, double k, tn_dtype dtype) {
  return k == 1 ? x : tn_mul(tn_const(graph, dtype, k), x);
}

tn_status vd_first_error(tn_graph *graph, tn_status status) {
  tn_status first = tn_graph_error(graph);
  return first == TN_OK ? status : first;
}

static tn_status build_branch(const branch *f, tn_dtype dtype, int max_order, plan *p) {
  TN_TRY(tn_graph_new(&p->graph));
  tn_value x = tn_input(p->graph, "x", dtype, tn_shape_points(tn_axis_new(p->graph, "points")));
  tn_value mask = compare_values(f->comparison, x, tn_const(p->graph, dtype, f->threshold));
  tn_value line = times(p->graph, x, f->slope, dtype);
  if (f->offset != 0)
    line = tn_add(tn_const(p->graph, dtype, f->offset), line);
  tn_value y = tn_where(mask, times(p->graph, tn_unary(f->row, x, 0), f->factor, dtype), line);
  p->leaf[0] = x;
  p->n_leaves = 1;
  p->output[p->n_outputs++] = y;
  for (int m = 1; m <= max_order; ++m) {
    TN_TRY(vd_first_error(p->graph, ag_grad(y, 1, &x, &y)));
    p->output[p->n_outputs++] = tn_broadcast(y, tn_shape_of(x));
  }
  return tn_graph_error(p->graph);
}

/* Reference and scale of order m at x, from the branch that is taken. */
static void branch_reference(const branch *f, vd_series *s, mpfr_srcptr x, double factor, int m,
                             mpfr_ptr out, double *scale) {
  bool above = mpfr_cmp_d(x, f->threshold) > 0;
  if (above == (f->comparison == TN_OP_gt)) {
    double factorial = m == 3 ? 6 : m == 2 ? 2 : 1;
    vd_series_at(s, x, NULL);
    mpfr_mul_d(out, vd_series_coefficient(s, m), factor * factorial, MPFR_RNDN);
    *scale = vd_series_scale(s, m) * factor * factorial;
    return;
  }
  mpfr_set_d(out, m == 1 ? f->slope : 0, MPFR_RNDN);
  if (m == 0) {
    mpfr_mul_d(out, x, f->slope, MPFR_RNDN);
    mpfr_add_d(out, out, f->offset, MPFR_RNDN);
  }
  *scale = fabs(mpfr_get_d(out, MPFR_RNDN)) + (m == 0 ? fabs(f->offset) : 0);
}

static tn_status judge_branch(const vd_options *o, const branch *f, tn_dtype dtype, const double *x,
                              const double *got, vd_report *report) {
  vd_series_spec spec = {.op = f->row, .order = o->max_order, .bits = o->bits};
  vd_series *series = NULL;
  TN_TRY(vd_series_new(&spec, &series));
  mpfr_t at, reference;
  mpfr_inits2(o->bits, at, reference, (mpfr_ptr)0);
  double factor = tn_round(dtype, f->factor); /* as stored */
  tn_status status = TN_OK;
  const vd_promise promise = {.dtype = dtype, .c = o->c_ceiling};
  for (int m = o->min_order; m <= o->max_order && status == TN_OK; ++m) {
    vd_cell cell = {0};
    for (size_t i = 0; i < f->n; ++i) {
      double scale = 0;
      mpfr_set_d(at, x[i], MPFR_RNDN);
      branch_reference(f, series, at, factor, m, reference, &scale);
      vd_cell_add(&cell, &promise, got[(size_t)m * f->n + i], reference, scale, x[i]);
    }
    vd_row row = vd_cell_row(&cell, &promise, f->name, m ? "grad" : "kernel", m);
    status = vd_report_add(report, &row);
  }
  mpfr_clears(at, reference, (mpfr_ptr)0);
  vd_series_free(&series);
  return status;
}

tn_status vd_audit_branches(const vd_options *o, tn_dtype dtype, vd_report *report) {
  for (size_t i = 0; i < sizeof branches / sizeof *branches; ++i) {
    const branch *f = branches + i;
    plan p = {0};
    double x[4], got[VD_ORDERS * 4], *arguments[1] = {x};
    memcpy(x, f->x, sizeof x);
    vd_round_all(dtype, f->n, x);
    tn_status status = build_branch(f, dtype, o->max_order, &p);
    if (status == TN_OK)
      status = vd_run_points(o->pool, p.graph, 1, p.leaf, p.n_outputs, p.output, dtype, f->n,
                             arguments, got);
    if (status == TN_OK)
      status = judge_branch(o, f, dtype, x, got, report);
    tn_graph_free(&p.graph);
    TN_TRY(status);
  }
  return TN_OK;
}
