/* ops.c: the audit of the operation table. Every row, in every float format, through the engine,
 * against MPFR.
 *
 * For one function of one variable (a row; a power with an exponent; a binary row along one
 * argument) a graph holds
 *   kernel  the value,
 *   grad    derivatives of order 1 .. max_order by nested reverse mode,
 *   jet     value and derivatives by a univariate jet (unary rows), (fg)_a = sum of C(a, b) f_b g_(a-b),
 * and runs at special and random points (ops_points.c). The reference is the Taylor series in MPFR at
 * exactly the stored argument (series.c; its rules are held against differences by vd_audit_rules).
 * ops_judge.c says what is promised.
 *
 * NaN must give NaN, but where the derivative is a constant. At an infinite argument a value must be
 * MPFR's, or, where that is NaN for 0 times infinity, the one at 2^100000, which stands for the
 * limit; sine, cosine and tangent have none. Derivatives there are compared with the limit too, but may
 * be NaN, since rules multiply 0 by infinity.
 *
 * A derivative is made of others, and these can leave the format's range where the result does not: x^2
 * in the derivative of atan at 10^200, or of 300 in f16. So a derivative that breaks its promise is not
 * counted against it, but as `beyond`, where a number on the way is larger than the largest or smaller
 * than the smallest normal one. Numbers on the way to order m are those of the reference's expressions,
 * with factors up to m!; powers up to m + 1 of the argument and of its reciprocal; and, in reverse mode,
 * products of m of them, since cotangents are multiplied from the outside. Values have no such excuse.
 *
 * The rule of pow by its base, b a^(b-1), rounds b - 1, which costs log(a) ulp: its ulp are promised for the
 * row's interval, and beyond it c judges, which takes that into account.
 *
 * In low formats the reference has 96 bits, 80 more than they, in the others o->bits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/autograd.h"
#include "validate/ops.h"

enum { HIGHEST = VD_ORDERS - 1, KERNEL = 0, GRAD = 1, JET = 2, OUTPUTS = 2 + 2 * HIGHEST };
enum { INFINITE = 100000 };
static const char *const method_names[] = {"kernel", "grad", "jet"};

typedef struct lab {
  const vd_options *o;
  const vd_case *c;
  tn_dtype dtype;
  bool nested;
  const vd_points *points;
  double *got; /* [n_outputs][points] */
  int n_outputs;
  int method[OUTPUTS], order[OUTPUTS];
  vd_promise promise[OUTPUTS];
  vd_cell cell[OUTPUTS];
} lab;

/* ---- The engine's side ---------------------------------------------------------------------- */

tn_status vd_run_points(tn_pool *pool, tn_graph *graph, size_t n_leaves, const tn_value *leaf,
                        size_t n_outputs, const tn_value *output, tn_dtype dtype, size_t n,
                        double *const *x, double *got) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_status status = tn_compile(graph, n_outputs, output, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, pool, &exec);
  for (size_t k = 0; k < n_leaves && status == TN_OK; ++k) {
    tn_buffer *buffer = NULL;
    status = tn_buffer_new(dtype, 1, &n, &buffer);
    if (status != TN_OK)
      break;
    status = tn_convert(n, TN_F64, x[k], dtype, tn_map(buffer, TN_WRITE));
    tn_unmap(buffer);
    if (status == TN_OK)
      status = tn_exec_bind(exec, leaf[k], buffer);
    tn_buffer_release(&buffer);
  }
  if (status == TN_OK)
    status = tn_exec_run(exec);
  for (size_t i = 0; i < n_outputs && status == TN_OK; ++i)
    status = tn_exec_read(exec, i, n, got + i * n);
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

const tn_jet_table *vd_derivatives_table(tn_graph *graph, int order) {
  tn_jet_term term[64];
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
  int k = l->n_outputs;
  if (order < l->o->min_order)
    return;
  l->method[k] = method;
  l->order[k] = order;
  l->promise[k] = vd_promise_of(tn_op_row(l->c->op), l->dtype, method != GRAD, order);
  l->promise[k].c = fmin(l->promise[k].c, l->o->c_ceiling);
  outputs[l->n_outputs++] = value;
}

static tn_status build(lab *l, tn_graph *graph, tn_value *leaf, tn_value *outputs) {
  tn_axis axis = tn_axis_new(graph, "points");
  bool binary = vd_is_binary(l->c->op);
  for (int k = 0; k <= binary; ++k)
    leaf[k] = tn_input(graph, k ? "b" : "a", l->dtype, tn_shape_points(axis));
  tn_value y =
      binary ? tn_binary(l->c->op, leaf[0], leaf[1]) : tn_unary(l->c->op, leaf[0], l->c->exponent);
  if (l->c->along == 0)
    record(l, outputs, y, KERNEL, 0); /* along b it was the same */
  for (int m = 1; m <= l->o->max_order && l->nested; ++m) {
    TN_TRY(vd_first_error(graph, ag_grad(y, 1, &leaf[l->c->along], &y)));
    record(l, outputs, y, GRAD, m);
  }
  if (binary || l->o->max_order == 0)
    return tn_graph_error(graph);
  tn_jet z = {.table = vd_derivatives_table(graph, l->o->max_order)}, jet;
  z.channel[0] = leaf[0];
  z.channel[1] = tn_const(graph, l->dtype, 1);
  TN_TRY(vd_first_error(graph, tn_jet_unary(l->c->op, l->c->exponent, 0, &z, &jet)));
  for (int m = 0; m <= l->o->max_order; ++m)
    if (jet.channel[m].graph)
      record(l, outputs, jet.channel[m], JET, m);
  return tn_graph_error(graph);
}

static tn_status run_engine(lab *l) {
  tn_graph *graph = NULL;
  tn_value leaf[2], outputs[OUTPUTS];
  TN_TRY(tn_graph_new(&graph));
  tn_status status = build(l, graph, leaf, outputs);
  /* a derivative that is constant may have lost its points: give them back */
  for (int i = 0; i < l->n_outputs && status == TN_OK; ++i)
    outputs[i] = tn_broadcast(outputs[i], tn_shape_of(leaf[0]));
  if (status == TN_OK && l->n_outputs > 0)
    status = TN_NEW((size_t)l->n_outputs * l->points->n, &l->got);
  if (status == TN_OK && l->n_outputs > 0)
    status =
        vd_run_points(l->o->pool, graph, 1 + (size_t)vd_is_binary(l->c->op), leaf,
                      (size_t)l->n_outputs, outputs, l->dtype, l->points->n, l->points->x, l->got);
  tn_graph_free(&graph);
  return status;
}

/* Values alone: by the device's kernel of the row, or by a provider. */
static tn_status run_device(lab *l, const char *provider) {
  tn_value none[OUTPUTS];
  if (l->c->along == 0)
    record(l, none, (tn_value){0}, KERNEL, 0);
  if (l->n_outputs == 0)
    return TN_OK;
  TN_TRY(TN_NEW(l->points->n, &l->got));
  return vd_device_values(l->o, provider, l->c, l->dtype, l->points, l->got);
}

/* ---- Comparison ----------------------------------------------------------------------------- */

typedef struct judge { /* references at one point */
  vd_series *series;
  mpfr_t a, b, r[VD_ORDERS];
  double scale[VD_ORDERS];
  bool infinite, nan; /* an argument is */
  long powers;        /* exponent of the argument farthest from 1 */
  double x, z, at;
} judge;

static bool has_no_limit(tn_op_id op) {
  return op == TN_OP_sin || op == TN_OP_cos || op == TN_OP_tan;
}

static long exponent_of(double x) {
  int e = 0;
  if (x == 0 || !isfinite(x))
    return 0;
  frexp(x, &e);
  return e < 0 ? -e : e;
}

/* A value at infinity as MPFR defines it, if it does. */
static void set_value_at_infinity(const lab *l, judge *j) {
  mpfr_t y;
  mpfr_init2(y, mpfr_get_prec(j->a));
  mpfr_set_d(j->a, j->x, MPFR_RNDN);
  mpfr_set_d(j->b, l->c->exponent, MPFR_RNDN);
  vd_ref_unary(l->c->op, y, j->a, j->b);
  if (!mpfr_nan_p(y))
    mpfr_set(j->r[0], y, MPFR_RNDN);
  mpfr_clear(y);
}

static void set_references(const lab *l, judge *j, double x, double z) {
  bool unary = vd_is_unary(l->c->op);
  j->x = x, j->z = z, j->at = l->c->along ? z : x;
  j->infinite = isinf(x) || isinf(z), j->nan = isnan(x) || isnan(z);
  j->powers = exponent_of(x) > exponent_of(z) ? exponent_of(x) : exponent_of(z);
  mpfr_set_d(j->a, x, MPFR_RNDN);
  mpfr_set_d(j->b, z, MPFR_RNDN);
  if (unary && isinf(x))
    mpfr_set_si_2exp(j->a, x < 0 ? -1 : 1, INFINITE, MPFR_RNDN);
  if (!(unary && isinf(x) && has_no_limit(l->c->op)))
    vd_series_at(j->series, j->a, j->b);
  double factorial = 1;
  for (int m = 0; m <= l->o->max_order; ++m) {
    factorial *= m ? m : 1;
    mpfr_mul_d(j->r[m], vd_series_coefficient(j->series, m), factorial, MPFR_RNDN);
    j->scale[m] = factorial * vd_series_scale(j->series, m);
    if (isinf(x) && has_no_limit(l->c->op))
      mpfr_set_nan(j->r[m]);
  }
  if (unary && isinf(x))
    set_value_at_infinity(l, j);
}

/* Whether a number on the way to a derivative leaves the range of the format that computes it. */
static bool leaves_range(const lab *l, const judge *j, int k) {
  vd_range f = vd_range_of(l->promise[k].one_rounding ? TN_F32 : l->dtype);
  long m = l->order[k], low = 0, high = 0, powers = (m + 1) * j->powers;
  vd_series_reach(j->series, (int)m, &low, &high);
  low -= m, high += m;
  if (l->method[k] == GRAD) {
    low = low < 0 ? m * low : low;
    high = high > 0 ? m * high : high;
  }
  return high > f.top || low <= f.normal || powers > f.top || -powers <= f.normal;
}

static bool is_in_domain(const lab *l, const judge *j) {
  if (l->c->op == TN_OP_powr || l->c->op == TN_OP_pow)
    return j->x > 0;
  return !j->infinite || vd_is_unary(l->c->op); /* with two arguments there is no one limit */
}

static bool is_inside(const tn_op *row, const judge *j) {
  return j->x >= row->lo && j->x <= row->hi && j->z >= row->lo && j->z <= row->hi;
}

static void judge_output(const lab *l, judge *j, int k, double v, vd_cell *cell) {
  int m = l->order[k];
  const vd_promise *p = &l->promise[k];
  if ((j->nan || (j->infinite && m > 0)) && isnan(v)) {
    ++cell->points;
    ++cell->special;
    return;
  }
  if (m > 0 && !j->nan && !is_in_domain(l, j))
    return;
  /* which infinity a pole has at -0 is a convention: MPFR's 1/sqrt(-0) is +infinity, IEEE's is not */
  bool is_minus_zero = (j->x == 0 && signbit(j->x)) || (j->z == 0 && signbit(j->z));
  if (is_minus_zero && isinf(v) && mpfr_inf_p(j->r[m]))
    v = mpfr_get_d(j->r[m], MPFR_RNDN);
  vd_cell one = {0};
  vd_cell_add(&one, p, v, j->r[m], j->scale[m], j->at);
  bool is_worst = one.ulp > cell->ulp || one.c > cell->c;
  if (m > 0 && is_worst && !j->infinite && !j->nan && leaves_range(l, j, k)) {
    if (!vd_cell_passes(&one, p)) {
      ++cell->beyond;
      return;
    }
    one.ulp = one.c = 0; /* the worst figures are of numbers in range */
  }
  if (l->c->op == TN_OP_pow && m == 1 && !is_inside(tn_op_row(l->c->op), j))
    one.ulp = 0;
  vd_cell_join(cell, &one);
  cell->special += j->infinite;
}

static tn_status compare(lab *l) {
  vd_series_spec spec = {.op = l->c->op,
                         .exponent = l->c->exponent,
                         .along = l->c->along,
                         .order = l->o->max_order,
                         .bits = tn_dtype_compute(l->dtype) != l->dtype ? 96 : l->o->bits};
  judge j;
  TN_TRY(vd_series_new(&spec, &j.series));
  mpfr_inits2(spec.bits, j.a, j.b, (mpfr_ptr)0);
  for (int m = 0; m < VD_ORDERS; ++m)
    mpfr_init2(j.r[m], spec.bits);
  size_t n = l->points->n;
  for (size_t i = 0; i < n; ++i) {
    double x = l->points->x[0][i], z = l->points->x[1] ? l->points->x[1][i] : 0;
    set_references(l, &j, x, z);
    for (int k = 0; k < l->n_outputs; ++k)
      judge_output(l, &j, k, l->got[(size_t)k * n + i], &l->cell[k]);
  }
  mpfr_clears(j.a, j.b, (mpfr_ptr)0);
  for (int m = 0; m < VD_ORDERS; ++m)
    mpfr_clear(j.r[m]);
  vd_series_free(&j.series);
  return TN_OK;
}

/* The values of the case by another provider; TN_OK and no row if it lacks the operation. */
static tn_status audit_provider(const vd_options *o, const vd_case *c, tn_dtype dtype,
                                const vd_points *points, const char *name, vd_report *report) {
  vd_options values = *o;
  values.max_order = 0;
  lab l = {.o = &values, .c = c, .dtype = dtype, .points = points};
  tn_status status = run_device(&l, o->provider);
  bool lacks = status == TN_EUNSUPPORTED;
  if (status == TN_OK && l.n_outputs > 0)
    status = compare(&l);
  if (status == TN_OK && l.n_outputs > 0) {
    vd_row row = vd_provider_row(o, &l.cell[0], &l.promise[0], name);
    status = vd_report_add(report, &row);
  }
  tn_free(&l.got);
  return lacks ? TN_OK : status;
}

tn_status vd_audit_case(const vd_options *o, const vd_case *c, tn_dtype dtype, bool nested,
                        const vd_points *points, vd_report *report) {
  lab l = {.o = o, .c = c, .dtype = dtype, .nested = nested, .points = points};
  char name[48];
  vd_case_name(c, name, sizeof name);
  tn_status status = vd_on_device(o) && o->max_order == 0 ? run_device(&l, NULL) : run_engine(&l);
  if (status == TN_EUNSUPPORTED && vd_on_device(o)) {
    tn_free(&l.got);
    return vd_or_absent(o, status, name, dtype, report);
  }
  if (status == TN_OK && l.n_outputs > 0)
    status = compare(&l);
  for (int k = 0; k < l.n_outputs && status == TN_OK; ++k) {
    vd_row row =
        vd_cell_row(&l.cell[k], &l.promise[k], name, method_names[l.method[k]], l.order[k]);
    status = vd_report_add(report, &row);
  }
  tn_free(&l.got);
  if (status == TN_OK && o->provider && o->min_order == 0)
    status = audit_provider(o, c, dtype, points, name, report);
  return status;
}

/* ---- All ------------------------------------------------------------------------------------ */

static tn_status audit_row(const vd_options *o, tn_op_id op, tn_dtype dtype, vd_report *report) {
  vd_case list[VD_CASES];
  size_t n = vd_cases_of(op, list);
  bool low = dtype == TN_BF16 || dtype == TN_F16;
  for (size_t i = 0; i < n; ++i) {
    bool all = o->exhaustive && low && vd_is_unary(op);
    vd_points points = {0};
    TN_TRY(all ? vd_points_all(dtype, &points) : vd_points_sample(o, &list[i], dtype, &points));
    tn_status status = vd_audit_case(o, &list[i], dtype, !all, &points, report);
    vd_points_free(&points);
    TN_TRY(status);
  }
  if (!vd_is_compare(op) || o->min_order > 0)
    return TN_OK;
  return vd_or_absent(o, vd_audit_compare(o, op, dtype, report), tn_op_row(op)->name, dtype,
                      report);
}

static bool is_wanted(const vd_options *o, const char *name) {
  return !o->only || strcmp(o->only, name) == 0;
}

tn_status vd_audit_ops(const vd_options *options, vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  if (o.max_order < 0 || o.max_order > HIGHEST || o.points < 1 || o.bits < 64 || o.bits > 448)
    return TN_FAIL(TN_ERANGE, "op audit: order %d (0 to %d), %zu points, %d bits (64 to 448)",
                   o.max_order, HIGHEST, o.points, o.bits);
  if (o.only && !tn_op_find(o.only))
    return TN_FAIL(TN_EINPUT, "op audit: there is no operation `%s`", o.only);
  if (o.provider && !vd_on_device(&o))
    return TN_FAIL(TN_EINPUT, "op audit: provider `%s` without a device", o.provider);
  for (int d = 0; d < VD_FORMATS; ++d) {
    tn_dtype dtype = vd_formats[d];
    if (o.formats && !(o.formats >> dtype & 1))
      continue;
    for (int op = 0; op < TN_OPS; ++op)
      if (is_wanted(&o, tn_op_row((tn_op_id)op)->name))
        TN_TRY(audit_row(&o, (tn_op_id)op, dtype, report));
    if (is_wanted(&o, "where"))
      TN_TRY(vd_or_absent(&o, vd_audit_branches(&o, dtype, report), "where", dtype, report));
    TN_TRY(vd_audit_structure(&o, dtype, report));
    TN_TRY(vd_audit_rows(&o, dtype, report));
  }
  return TN_OK;
}
