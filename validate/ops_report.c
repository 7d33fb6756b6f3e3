/* ops_report.c: what an audit of operations covered, for readers.
 *
 * A cell is an operation in a format at an order of differentiation. Functions of one or two arguments or of
 * rows, and jet operations, have orders 0 to 3; `where` likewise, by functions of two branches; comparisons, masks, moves,
 * casts, sums and outer products are linear, or have no derivative, and have order 0 alone. Leaves and
 * calls of fields compute nothing. A cell is checked if a row of the report is about it, and within if all
 * of them pass. A row's subject begins with the operation's name; the method `jet` is about jet_unary, too.
 *
 * The table of activations is a small sample at fixed arguments, to compare with published values: the
 * derivatives as jets give them, in every format, against the series in MPFR at the same argument, which
 * all formats hold exactly.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/ops.h"

static bool is_wanted(const vd_options *o, tn_dtype dtype, int order) {
  return (!o->formats || o->formats >> dtype & 1) && order >= o->min_order && order <= o->max_order;
}

/* Orders of an operation that have a cell: 0 to the result less 1. */
static int orders_of(tn_op_id op) {
  if (vd_is_unary(op) || vd_is_binary(op))
    return VD_ORDERS;
  switch (op) {
  case TN_OP_where:
  case TN_OP_softmax:
  case TN_OP_layer_norm:
  case TN_OP_rstd:
  case TN_OP_jet_lin:
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT:
    return VD_ORDERS;
  case TN_OP_custom: /* the user's */
    return 0;
  default:
    return tn_op_row(op)->class_ == TN_LEAF || tn_op_row(op)->class_ == TN_ATOM ? 0 : 1;
  }
}

/* Rows that say nothing about the promise: of another provider, or of what a device lacks. */
static bool is_aside(const vd_options *o, const vd_row *row) {
  return strcmp(row->method, "absent") == 0 ||
         (o->provider && strcmp(row->method, o->provider) == 0);
}

static bool is_about(const vd_row *row, const tn_op *op, const char *dtype, int order) {
  size_t n = strlen(op->name);
  if (row->order != order || strcmp(row->dtype, dtype) != 0)
    return false;
  if (op->id == TN_OP_jet_unary)
    return strcmp(row->method, "jet") == 0;
  return strncmp(row->subject, op->name, n) == 0 &&
         (row->subject[n] == 0 || row->subject[n] == ' ' || row->subject[n] == '(');
}

typedef struct tally { /* of one format and order */
  size_t cells, checked, within;
} tally;

static tally count_cells(const vd_options *o, const vd_report *report, tn_dtype dtype, int order) {
  tally t = {0};
  for (int id = 0; id < TN_OPS && is_wanted(o, dtype, order); ++id) {
    const tn_op *op = tn_op_row((tn_op_id)id);
    size_t rows = 0, failed = 0;
    if (order >= orders_of((tn_op_id)id) || (o->only && strcmp(o->only, op->name) != 0))
      continue;
    for (size_t i = 0; i < vd_report_rows(report); ++i) {
      const vd_row *row = vd_report_row(report, i);
      if (is_aside(o, row) || !is_about(row, op, tn_dtype_name(dtype), order))
        continue;
      ++rows;
      failed += !row->pass;
    }
    ++t.cells;
    t.checked += rows > 0;
    t.within += rows > 0 && failed == 0;
  }
  return t;
}

vd_coverage vd_coverage_of(const vd_options *options, const vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  vd_coverage c = {0};
  for (int d = 0; d < VD_FORMATS; ++d)
    for (int order = 0; order < VD_ORDERS; ++order) {
      tally t = count_cells(&o, report, vd_formats[d], order);
      c.cells += t.cells;
      c.checked += t.checked;
      c.within += t.within;
    }
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *row = vd_report_row(report, i);
    if (strcmp(row->method, "rule") != 0 && !is_aside(&o, row))
      c.points += row->points;
  }
  return c;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

enum { CELL = 48 };

typedef struct table {
  size_t columns, rows, capacity;
  char (*text)[CELL]; /* owned */
} table;

static tn_status put(table *t, const char *text) {
  if (t->rows == t->capacity) { /* rows counts cells while a table grows */
    size_t capacity = t->capacity ? 2 * t->capacity : 256;
    TN_TRY(tn_grow(&t->text, t->capacity, capacity, sizeof *t->text));
    t->capacity = capacity;
  }
  snprintf(t->text[t->rows++], CELL, "%s", text);
  return TN_OK;
}

static tn_status put_count(table *t, size_t n) {
  char text[CELL];
  snprintf(text, sizeof text, "%zu", n);
  return put(t, text);
}

/* "0.5 tanh": a figure and whose it is. */
static tn_status put_worst(table *t, double value, const char *subject) {
  char text[CELL];
  snprintf(text, sizeof text, "%.4g %.36s", value, subject);
  return put(t, *subject ? text : "");
}

static tn_status add_table(vd_report *report, table *t, const char *title, size_t columns,
                           const char *const *heads) {
  const char **cells = NULL;
  tn_status status = TN_NEW(t->rows, &cells);
  for (size_t i = 0; i < t->rows && status == TN_OK; ++i)
    cells[i] = t->text[i];
  if (status == TN_OK)
    status = vd_report_table(report, title, columns, heads, t->rows / columns, cells);
  tn_free(&cells);
  return status;
}

typedef struct worst {
  size_t points, below, cancelled, beyond;
  double fused, ulp, c; /* kernels and jets; nested reverse mode, by the measure that judges it */
  const char *fused_of, *ulp_of, *c_of;
} worst;

static worst worst_of(const vd_options *o, const vd_report *report, const char *dtype, int order) {
  worst w = {.fused = -1, .ulp = -1, .c = -1, .fused_of = "", .ulp_of = "", .c_of = ""};
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (r->order != order || strcmp(r->dtype, dtype) != 0 || is_aside(o, r))
      continue;
    w.points += r->points;
    w.below += r->below;
    w.cancelled += r->cancelled;
    w.beyond += r->beyond;
    bool by_ulp = strcmp(r->measure, "ulp") == 0, nested = strcmp(r->method, "grad") == 0;
    if (by_ulp && !nested && r->value > w.fused)
      w.fused = r->value, w.fused_of = r->subject;
    if (by_ulp && nested && r->value > w.ulp)
      w.ulp = r->value, w.ulp_of = r->subject;
    if (strcmp(r->measure, "c") == 0 && r->value > w.c)
      w.c = r->value, w.c_of = r->subject;
  }
  return w;
}

static tn_status tabulate_cells(const vd_options *o, vd_report *report, table *t) {
  for (int d = 0; d < VD_FORMATS; ++d)
    for (int order = 0; order < VD_ORDERS; ++order) {
      tally n = count_cells(o, report, vd_formats[d], order);
      worst w = worst_of(o, report, tn_dtype_name(vd_formats[d]), order);
      if (n.cells == 0)
        continue;
      TN_TRY(put(t, tn_dtype_name(vd_formats[d])));
      TN_TRY(put_count(t, (size_t)order));
      TN_TRY(put_count(t, n.cells));
      TN_TRY(put_count(t, n.within));
      TN_TRY(put_count(t, w.points));
      TN_TRY(put_worst(t, w.fused, w.fused_of));
      TN_TRY(put_worst(t, w.ulp, w.ulp_of));
      TN_TRY(put_worst(t, w.c, w.c_of));
      TN_TRY(put_count(t, w.cancelled));
      TN_TRY(put_count(t, w.below));
      TN_TRY(put_count(t, w.beyond));
    }
  return TN_OK;
}

/* ---- Activations ----------------------------------------------------------------------------- */

enum { DEEPEST = 4, ARGUMENTS = 3 };
static const tn_op_id activations[] = {TN_OP_tanh,     TN_OP_sin,     TN_OP_gelu, TN_OP_silu,
                                       TN_OP_softplus, TN_OP_sigmoid, TN_OP_relu, TN_OP_relu3};
static const double arguments[ARGUMENTS] = {0.5, 1, 2};

/* Derivatives 0 .. 4 of an activation at the arguments, by a jet of that format. */
static tn_status jets_of(tn_op_id op, tn_dtype dtype, double got[DEEPEST + 1][ARGUMENTS]) {
  tn_graph *graph = NULL;
  double x[ARGUMENTS], *columns[1] = {x};
  memcpy(x, arguments, sizeof x);
  TN_TRY(tn_graph_new(&graph));
  tn_value leaf = tn_input(graph, "x", dtype, tn_shape_points(tn_axis_new(graph, "points")));
  tn_jet z = {.table = vd_derivatives_table(graph, DEEPEST)}, y;
  z.channel[0] = leaf;
  z.channel[1] = tn_const(graph, dtype, 1);
  tn_status status = vd_first_error(graph, tn_jet_unary(op, 0, 0, &z, &y));
  for (int m = 0; m <= DEEPEST && status == TN_OK; ++m)
    y.channel[m] = y.channel[m].graph ? tn_broadcast(y.channel[m], tn_shape_of(leaf))
                                      : tn_fill(graph, dtype, tn_shape_of(leaf), 0);
  if (status == TN_OK)
    status = vd_run_points(NULL, graph, 1, &leaf, DEEPEST + 1, y.channel, dtype, ARGUMENTS, columns,
                           got[0]);
  tn_graph_free(&graph);
  return status;
}

static tn_status tabulate_activation(tn_op_id op, table *t) {
  double got[VD_FORMATS][DEEPEST + 1][ARGUMENTS];
  vd_series_spec spec = {.op = op, .order = DEEPEST, .bits = 256};
  vd_series *s = NULL;
  char text[CELL];
  for (int d = 0; d < VD_FORMATS; ++d)
    TN_TRY(jets_of(op, vd_formats[d], got[d]));
  TN_TRY(vd_series_new(&spec, &s));
  tn_status status = TN_OK;
  mpfr_t x, y;
  mpfr_inits2(256, x, y, (mpfr_ptr)0);
  for (int i = 0; i < ARGUMENTS; ++i) {
    double factorial = 1;
    mpfr_set_d(x, arguments[i], MPFR_RNDN);
    vd_series_at(s, x, NULL);
    for (int m = 0; m <= DEEPEST && status == TN_OK; ++m) {
      factorial *= m ? m : 1;
      mpfr_mul_d(y, vd_series_coefficient(s, m), factorial, MPFR_RNDN);
      double scale = factorial * vd_series_scale(s, m);
      if (mpfr_cmpabs_ui(y, 0) > 0 && mpfr_get_exp(y) < -200)
        mpfr_set_zero(y, 1); /* a zero of the derivative, but for the last bits of the reference */
      snprintf(text, sizeof text, "%.16g", mpfr_get_d(y, MPFR_RNDN));
      status = put(t, tn_op_row(op)->name);
      if (status == TN_OK)
        status = put(t, i == 0 ? "0.5" : i == 1 ? "1" : "2");
      if (status == TN_OK)
        status = put_count(t, (size_t)m);
      if (status == TN_OK)
        status = put(t, text);
      for (int d = 0; d < VD_FORMATS && status == TN_OK; ++d) {
        vd_promise promise = {.dtype = vd_formats[d], .c = 1};
        vd_cell cell = {0};
        vd_cell_add(&cell, &promise, got[d][m][i], y, scale, 0);
        snprintf(text, sizeof text, "%.3g", cell.c);
        status = put(t, text);
      }
    }
  }
  mpfr_clears(x, y, (mpfr_ptr)0);
  vd_series_free(&s);
  return status;
}

/* ---- Another provider ------------------------------------------------------------------------ */

/* The row of the device's own kernel that a provider's row stands beside. */
static const vd_row *own_row(const vd_report *report, const vd_row *of) {
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (strcmp(r->method, "kernel") == 0 && r->order == 0 && strcmp(r->subject, of->subject) == 0 &&
        strcmp(r->dtype, of->dtype) == 0)
      return r;
  }
  return NULL;
}

static tn_status put_figure(table *t, const vd_row *row, bool ulp) {
  char text[CELL] = "";
  if (row)
    snprintf(text, sizeof text, "%.4g", ulp ? row->ulp : row->c);
  return put(t, text);
}

static tn_status tabulate_provider(const vd_options *o, const vd_report *report, table *t) {
  char text[CELL];
  for (size_t i = 0; i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    if (strcmp(r->method, o->provider) != 0)
      continue;
    const vd_row *own = own_row(report, r);
    snprintf(text, sizeof text, "%.4g %s", r->bound, r->measure);
    TN_TRY(put(t, r->subject));
    TN_TRY(put(t, r->dtype));
    TN_TRY(put_count(t, r->points));
    TN_TRY(put(t, text));
    TN_TRY(put_figure(t, own, true));
    TN_TRY(put_figure(t, r, true));
    TN_TRY(put_figure(t, own, false));
    TN_TRY(put_figure(t, r, false));
  }
  return TN_OK;
}

static tn_status add_provider(const vd_options *o, vd_report *report) {
  static const char *const heads[] = {"operation", "format",    "points", "promise",
                                      "ulp",       "ulp there", "c",      "c there"};
  char title[96];
  table t = {0};
  snprintf(title, sizeof title, "Values of single operations, and those of %s (\"there\")",
           o->provider);
  tn_status status = tabulate_provider(o, report, &t);
  if (status == TN_OK)
    status = add_table(report, &t, title, sizeof heads / sizeof *heads, heads);
  tn_free(&t.text);
  return status;
}

static tn_status advise(const vd_options *o, vd_report *report) {
  char text[400];
  vd_coverage c = vd_coverage_of(o, report);
  snprintf(
      text, sizeof text,
      "%zu of %zu cells (operations, formats and orders of differentiation) were checked at %zu "
      "points, and %zu keep their promise%s",
      c.checked, c.cells, c.points, c.within,
      c.within == c.checked && vd_report_failures(report) == 0
          ? "."
          : "; the rows that fail are listed below: results that depend on them deserve distrust.");
  return vd_report_advise(report, text);
}

tn_status vd_summarize_ops(const vd_options *options, vd_report *report) {
  static const char *const heads[] = {"format",
                                      "order",
                                      "cells",
                                      "within",
                                      "points",
                                      "worst ulp",
                                      "nested: worst ulp",
                                      "worst c",
                                      "cancelled",
                                      "below normal",
                                      "beyond range"};
  static const char *const columns[] = {"activation", "x",    "order", "value", "f64",
                                        "f32",        "tf32", "bf16",  "f16"};
  vd_options o = options ? *options : vd_options_default();
  table cells = {0}, derivatives = {0};
  tn_status status = tabulate_cells(&o, report, &cells);
  if (status == TN_OK)
    status = add_table(report, &cells, "Cells", sizeof heads / sizeof *heads, heads);
  if (status == TN_OK && o.provider)
    status = add_provider(&o, report);
  size_t n = o.only || vd_on_device(&o) ? 0 : sizeof activations / sizeof *activations;
  for (size_t i = 0; i < n && status == TN_OK; ++i)
    status = tabulate_activation(activations[i], &derivatives);
  if (status == TN_OK && n > 0)
    status = add_table(report, &derivatives,
                       "Activations: derivatives, and their errors c in each format, in roundings",
                       sizeof columns / sizeof *columns, columns);
  if (status == TN_OK)
    status = advise(&o, report);
  tn_free(&cells.text);
  tn_free(&derivatives.text);
  return status;
}
