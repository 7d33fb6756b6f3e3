/* ops.c: the audit of the operation table. Every row, in f64 and f32, through the engine, against
 * MPFR.
 *
 * For one function of one variable (a row; a power with an exponent; a binary row along one
 * argument) a graph holds
 *   kernel  the value,
 *   grad    derivatives of order 1 .. max_order by nested reverse mode,
 *   jet     the same by a univariate jet (unary rows), (fg)_a = sum of C(a, b) f_b g_(a-b),
 * and runs on `points` random points of the row's interval and on points where derivatives go
 * wrong: +-0, +-1e-9, tiny, +-30 and +-400 (saturation), and the interval's ends. The reference is
 * the Taylor series in MPFR at exactly the stored argument (series.c; its rules are held against
 * differences by vd_audit_rules).
 *
 * Orders 0 and 1 are judged in ulp by the row's promise; where that is 0 (a derivative with zeros
 * of its own) and at orders 2 and 3 by c, the error in roundings of the condition scale.
 * Comparisons, min and max include ties. The branch that `where` does not take is audited on three
 * functions that break naive rules.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/autograd.h"
#include "validate/mp.h"

enum { HIGHEST = 3, KERNEL = 0, GRAD = 1, JET = 2, METHODS = 3, OUTPUTS = 1 + 2 * HIGHEST };
static const char *const method_names[METHODS] = {"kernel", "grad", "jet"};

typedef struct lab {
  const vd_options *o;
  vd_case c;
  tn_dtype dtype;
  size_t n;
  double *x[2];         /* arguments as stored; owned */
  tn_buffer *buffer[2]; /* the same in the dtype */
  double *got[OUTPUTS]; /* results by output number; owned */
  int n_outputs;
  int method[OUTPUTS], order[OUTPUTS];
} lab;

/* ---- Points --------------------------------------------------------------------------------- */

/* Whether a row is audited at a special point: where it is defined, and for functions with a pole
 * or a branch point at 0 not so close to it that third derivatives leave the range. A row whose
 * interval is positive has its domain there. */
static bool defined_at(const vd_case *c, double x) {
  switch (c->op) {
  case TN_OP_recip:
    return fabs(x) >= 1e-9;
  case TN_OP_powi:
    return c->exponent >= 0 || fabs(x) >= 1e-9;
  case TN_OP_asin:
  case TN_OP_acos:
    return fabs(x) < 1;
  case TN_OP_log1p:
    return x > -1;
  case TN_OP_div:
    return c->along == 0 || fabs(x) >= 1e-9;
  case TN_OP_pow:
  case TN_OP_atan2:
    return x >= 0.1 && x <= 9;
  default:
    return tn_op_row(c->op)->arity != 1 || tn_op_row(c->op)->lo <= 0 || x >= 1e-9;
  }
}

static size_t special_points(const lab *l, double *list) {
  const tn_op *row = tn_op_row(l->c.op);
  double tiny = l->dtype == TN_F64 ? 1e-300 : 1e-30;
  const double all[] = {0.0, -0.0, 1e-9, -1e-9, tiny, -tiny, 30, -30, 400, -400, row->lo, row->hi};
  size_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (defined_at(&l->c, all[i]))
      list[n++] = all[i];
  return n;
}

static tn_status store(lab *l, int which) {
  TN_TRY(tn_buffer_new(l->dtype, 1, &l->n, &l->buffer[which]));
  void *data = tn_map(l->buffer[which], TN_READ_WRITE);
  tn_status status = tn_convert(l->n, TN_F64, l->x[which], l->dtype, data);
  if (status == TN_OK)
    status = tn_convert(l->n, l->dtype, data, TN_F64, l->x[which]);
  tn_unmap(l->buffer[which]);
  return status;
}

/* Argument `along` runs over special and random points; the other one is random, and for every
 * eighth point the same number, for ties. */
static tn_status make_points(lab *l) {
  const tn_op *row = tn_op_row(l->c.op);
  double special[16];
  size_t n_special = special_points(l, special);
  bool binary = vd_is_binary(l->c.op);
  tn_stream stream = tn_stream_of(l->o->seed, row->name);
  l->n = n_special + l->o->points;
  for (int k = 0; k <= binary; ++k) {
    TN_TRY(TN_NEW(l->n, &l->x[k]));
    for (size_t i = 0; i < l->n; ++i)
      l->x[k][i] = row->lo + (row->hi - row->lo) * tn_random_uniform(stream, 2 * i + (size_t)k);
  }
  double *x = l->x[l->c.along];
  for (size_t i = 0; i < n_special; ++i)
    x[i] = special[i];
  for (size_t i = 0; binary && i < l->n; i += 8)
    l->x[1 - l->c.along][i] = fabs(x[i]) < 20 && x[i] != 0 ? x[i] : 1;
  for (int k = 0; k <= binary; ++k)
    TN_TRY(store(l, k));
  return TN_OK;
}

/* ---- The engine's side ---------------------------------------------------------------------- */

static const tn_jet_table *derivatives_table(tn_graph *graph, int order) {
  tn_jet_term term[(HIGHEST + 1) * (HIGHEST + 1)];
  size_t n = 0;
  for (int a = 0; a <= order; ++a) {
    int64_t binomial = 1;
    for (int b = 0; b <= a; ++b) {
      term[n++] = (tn_jet_term){(int16_t)a, (int16_t)b, (int16_t)(a - b), -1, binomial, 1};
      binomial = binomial * (a - b) / (b + 1);
    }
  }
  return tn_jet_table_new(graph, (uint32_t)order + 1, (uint32_t)order, 0, n, term);
}

static void record(lab *l, tn_value *outputs, tn_value value, int method, int order) {
  l->method[l->n_outputs] = method;
  l->order[l->n_outputs] = order;
  outputs[l->n_outputs++] = value;
}

static tn_status build(lab *l, tn_graph *graph, tn_value *leaf, tn_value *outputs) {
  tn_axis axis = tn_axis_new(graph, "points");
  bool binary = vd_is_binary(l->c.op);
  for (int k = 0; k <= binary; ++k)
    leaf[k] = tn_input(graph, k ? "b" : "a", l->dtype, tn_shape_points(axis));
  tn_value y =
      binary ? tn_binary(l->c.op, leaf[0], leaf[1]) : tn_unary(l->c.op, leaf[0], l->c.exponent);
  record(l, outputs, y, KERNEL, 0);
  for (int m = 1; m <= l->o->max_order; ++m) {
    TN_TRY(vd_first_error(graph, ag_grad(y, 1, &leaf[l->c.along], &y)));
    record(l, outputs, y, GRAD, m);
  }
  if (binary || l->o->max_order == 0)
    return tn_graph_error(graph);
  tn_jet z = {.table = derivatives_table(graph, l->o->max_order)}, jet;
  z.channel[0] = leaf[0];
  z.channel[1] = tn_const(graph, l->dtype, 1);
  TN_TRY(vd_first_error(graph, tn_jet_unary(l->c.op, l->c.exponent, 0, &z, &jet)));
  for (int m = 1; m <= l->o->max_order; ++m)
    if (jet.channel[m].graph)
      record(l, outputs, jet.channel[m], JET, m);
  return tn_graph_error(graph);
}

static tn_status read_outputs(lab *l, tn_program *program, const tn_value *leaf) {
  tn_exec *exec = NULL;
  TN_TRY(tn_exec_new(program, NULL, &exec));
  tn_status status = TN_OK;
  for (int k = 0; k < 2 && l->buffer[k] && status == TN_OK; ++k)
    status = tn_exec_bind(exec, leaf[k], l->buffer[k]);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  for (int i = 0; i < l->n_outputs && status == TN_OK; ++i) {
    status = TN_NEW(l->n, &l->got[i]);
    if (status == TN_OK)
      status = tn_exec_read(exec, (size_t)i, l->n, l->got[i]);
  }
  tn_exec_free(&exec);
  return status;
}

static tn_status run_engine(lab *l) {
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_value leaf[2], outputs[OUTPUTS];
  TN_TRY(tn_graph_new(&graph));
  tn_status status = build(l, graph, leaf, outputs);
  /* a derivative that is constant may have lost its points: give them back */
  for (int i = 0; i < l->n_outputs && status == TN_OK; ++i)
    outputs[i] = tn_broadcast(outputs[i], tn_shape_of(leaf[0]));
  if (status == TN_OK)
    status = tn_compile(graph, (size_t)l->n_outputs, outputs, &program);
  if (status == TN_OK)
    status = read_outputs(l, program, leaf);
  tn_program_free(&program);
  tn_graph_free(&graph);
  return status;
}

/* ---- Comparison ----------------------------------------------------------------------------- */

static tn_status compare(lab *l, vd_measure *measures) {
  vd_series_spec spec = {.op = l->c.op,
                         .exponent = l->c.exponent,
                         .along = l->c.along,
                         .order = l->o->max_order,
                         .bits = l->o->bits};
  vd_series *series = NULL;
  TN_TRY(vd_series_new(&spec, &series));
  mpfr_t a, b, reference[HIGHEST + 1];
  mpfr_inits2(l->o->bits, a, b, (mpfr_ptr)0);
  for (int m = 0; m <= HIGHEST; ++m)
    mpfr_init2(reference[m], l->o->bits);
  for (size_t i = 0; i < l->n; ++i) {
    double scale[HIGHEST + 1], factorial = 1;
    mpfr_set_d(a, l->x[0][i], MPFR_RNDN);
    mpfr_set_d(b, l->x[1] ? l->x[1][i] : 0, MPFR_RNDN);
    vd_series_at(series, a, b);
    for (int m = 0; m <= l->o->max_order; ++m) {
      factorial *= m ? m : 1;
      mpfr_mul_d(reference[m], vd_series_coefficient(series, m), factorial, MPFR_RNDN);
      scale[m] = factorial * vd_series_scale(series, m);
    }
    for (int k = 0; k < l->n_outputs; ++k)
      vd_measure_add(measures + k, l->dtype, l->got[k][i], reference[l->order[k]],
                     scale[l->order[k]], l->x[l->c.along][i]);
  }
  mpfr_clears(a, b, (mpfr_ptr)0);
  for (int m = 0; m <= HIGHEST; ++m)
    mpfr_clear(reference[m]);
  vd_series_free(&series);
  return TN_OK;
}

static tn_status report_measures(const lab *l, const vd_measure *measures, vd_report *report) {
  const tn_op *op = tn_op_row(l->c.op);
  for (int k = 0; k < l->n_outputs; ++k) {
    const vd_measure *m = measures + k;
    int order = l->order[k];
    bool by_ulp = order == 0 || (order == 1 && op->ulp[1] > 0);
    if (order == 0 && l->c.along == 1)
      continue; /* along a it was the same */
    vd_row row = {.order = order,
                  .points = m->n,
                  .ulp = m->max_ulp,
                  .c = m->max_c,
                  .norm2 = vd_measure_norm2(m),
                  .at = m->at};
    row.value = by_ulp ? m->max_ulp : m->max_c;
    row.bound = by_ulp ? op->ulp[order] : l->o->c_ceiling;
    row.pass = row.value <= row.bound;
    snprintf(row.measure, sizeof row.measure, "%s", by_ulp ? "ulp" : "c");
    snprintf(row.method, sizeof row.method, "%s", method_names[l->method[k]]);
    snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(l->dtype));
    vd_case_name(&l->c, row.subject, sizeof row.subject);
    TN_TRY(vd_report_add(report, &row));
  }
  return TN_OK;
}

static tn_status audit_case(const vd_options *o, const vd_case *c, tn_dtype dtype,
                            vd_report *report) {
  lab l = {.o = o, .c = *c, .dtype = dtype};
  vd_measure measures[OUTPUTS];
  memset(measures, 0, sizeof measures);
  tn_status status = make_points(&l);
  if (status == TN_OK)
    status = run_engine(&l);
  if (status == TN_OK)
    status = compare(&l, measures);
  if (status == TN_OK)
    status = report_measures(&l, measures, report);
  for (int k = 0; k < 2; ++k) {
    tn_free(&l.x[k]);
    tn_buffer_release(&l.buffer[k]);
  }
  for (int i = 0; i < OUTPUTS; ++i)
    tn_free(&l.got[i]);
  return status;
}

tn_status vd_audit_ops(const vd_options *options, vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  if (o.max_order < 0 || o.max_order > HIGHEST || o.points < 1 || o.bits < 64)
    return TN_FAIL(TN_ERANGE, "op audit: order %d (0 to %d), %zu points, %d bits (64 or more)",
                   o.max_order, HIGHEST, o.points, o.bits);
  if (o.only && !tn_op_find(o.only))
    return TN_FAIL(TN_EINPUT, "op audit: there is no operation `%s`", o.only);
  for (int op = 0; op < TN_OPS; ++op) {
    vd_case list[VD_CASES];
    size_t n = vd_cases_of((tn_op_id)op, list);
    if (o.only && strcmp(o.only, tn_op_row((tn_op_id)op)->name) != 0)
      continue;
    for (size_t i = 0; i < n; ++i) {
      TN_TRY(audit_case(&o, list + i, TN_F64, report));
      TN_TRY(audit_case(&o, list + i, TN_F32, report));
    }
    if (vd_is_compare((tn_op_id)op))
      TN_TRY(vd_audit_compare(&o, (tn_op_id)op, report));
  }
  return o.only && strcmp(o.only, "where") != 0 ? TN_OK : vd_audit_branches(&o, report);
}
