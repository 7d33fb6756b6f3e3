/* problem_report.c: the audit of a training step: rows, tables and pictures.
 *
 * Gate. A row is one output: its relative norm-2 error must be at most 64 u kappa, kappa = ||S|| / ||y||, at
 * least 1, with u S the error to be expected of each entry (measures.c). S joins errors as independent ones; in a sum
 * over N points they may be alike, and then the error is up to the root of N larger: 64 covers 4096 points. A last
 * row demands that no running bound, of any value of the program, is below its error.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/problem.h"

enum { GATE = 64, WORST = 5, CELL = 100, MOST_COLUMNS = 24 };

/* ---- Rows ------------------------------------------------------------------------------------- */

static vd_row row_of_output(const vd_problem *p, const vd_tested *t, size_t i) {
  const vd_problem_format *format = p->formats + p->judged;
  const vd_figures *f = t->output + i;
  vd_row row = {.method = "program",
                .measure = "norm2",
                .order = format->outputs[i].order,
                .points = f->n,
                .value = isfinite(f->reference2) ? f->norm2 : NAN, /* no result to be near to */
                .bound = f->reference2 > 0 ? GATE * t->u * f->kappa : GATE * f->expected2,
                .ulp = f->ulp_max,
                .c = f->c_max,
                .norm2 = f->norm2,
                .at = (double)f->at};
  snprintf(row.subject, sizeof row.subject, "%s", format->outputs[i].name);
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(format->dtype));
  row.pass = isfinite(row.value) && row.value <= row.bound; /* both are infinite after an overflow */
  return row;
}

static tn_status add_rows(const vd_problem *p, const vd_tested *t, vd_report *report) {
  for (size_t i = 0; i < p->n_outputs; ++i) {
    vd_row row = row_of_output(p, t, i);
    TN_TRY(vd_report_add(report, &row));
  }
  vd_row row = {.subject = "running bound >= error",
                .method = "running",
                .measure = "misses",
                .order = -1,
                .points = t->entries,
                .value = (double)t->misses,
                .bound = 0,
                .pass = t->misses == 0};
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(p->formats[p->judged].dtype));
  return vd_report_add(report, &row);
}

/* ---- Tables ----------------------------------------------------------------------------------- */

/* Cells of one table under way; texts are kept side by side. */
typedef struct sheet {
  char (*text)[CELL];
  const char **cell;
  size_t n, capacity;
  tn_status status;
} sheet;

static void put(sheet *s, const char *format, ...) TN_PRINTF(2, 3);
static void put(sheet *s, const char *format, ...) {
  if (s->n == s->capacity && s->status == TN_OK) {
    size_t capacity = 2 * s->capacity + 64;
    s->status = tn_grow(&s->text, s->capacity, capacity, sizeof *s->text);
    if (s->status == TN_OK)
      s->capacity = capacity;
  }
  if (s->status != TN_OK)
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(s->text[s->n++], CELL, format, args);
  va_end(args);
}

static tn_status finish(sheet *s, const char *title, size_t n_heads, const char *const *heads,
                        vd_report *report) {
  if (s->status == TN_OK)
    s->status = TN_NEW(s->n + 1, &s->cell);
  for (size_t i = 0; s->status == TN_OK && i < s->n; ++i)
    s->cell[i] = s->text[i];
  if (s->status == TN_OK && s->n > 0)
    s->status = vd_report_table(report, title, n_heads, heads, s->n / n_heads, s->cell);
  tn_free(&s->text);
  tn_free(&s->cell);
  return s->status;
}

static tn_status table_of_formats(const vd_problem *p, const vd_tested *t, vd_report *report) {
  static const char *const heads[] = {"format",
                                      "u",
                                      "loss",
                                      "residual noise",
                                      "by stored weights",
                                      "gradient noise",
                                      "at many points",
                                      "at start",
                                      "1 - cosine",
                                      "unknowns",
                                      "floor of loss",
                                      "floor of error",
                                      "entries",
                                      "bound / error, median"};
  sheet s = {0};
  for (size_t i = 0; i < p->n_formats; ++i) {
    put(&s, "%s", p->formats[i].name);
    put(&s, "%.2e", t[i].u);
    put(&s, "%.3e", t[i].loss);
    put(&s, "%.1e", sqrt(t[i].noise));
    put(&s, "%.1e", sqrt(t[i].stored));
    put(&s, "%.1e", t[i].gradient_noise);
    put(&s, t[i].many_noise > 0 ? "%.1e" : "-", t[i].many_noise);
    put(&s, t[i].start_noise > 0 ? "%.1e" : "-", t[i].start_noise);
    put(&s, "%.1e", fmax(0, 1 - t[i].cosine));
    put(&s, "%.1e", t[i].unknowns);
    put(&s, "%.1e", t[i].floor_loss);
    put(&s, "%.1e", t[i].floor_error);
    put(&s, "%zu", t[i].entries);
    put(&s, "%.3g", t[i].ratio);
  }
  return finish(&s, "What each format carries", sizeof heads / sizeof *heads, heads, report);
}

/* The output of one order whose norm-2 error is the largest; SIZE_MAX: none. */
static size_t worst_of_order(const vd_problem *p, const vd_tested *t, int order, size_t *entries) {
  size_t worst = SIZE_MAX;
  *entries = 0;
  for (size_t i = 0; i < p->n_outputs; ++i) {
    if (p->formats[0].outputs[i].order != order)
      continue;
    *entries += t->output[i].n;
    if (worst == SIZE_MAX || t->output[i].norm2 > t->output[worst].norm2)
      worst = i;
  }
  return worst;
}

static int highest_order(const vd_problem *p) {
  int order = -1;
  for (size_t i = 0; i < p->n_outputs; ++i)
    if (p->formats[0].outputs[i].order > order)
      order = p->formats[0].outputs[i].order;
  return order;
}

static tn_status table_of_orders(const vd_problem *p, const vd_tested *t, vd_report *report) {
  static const char *const heads[] = {"format", "order", "entries", "worst", "norm-2", "norm-inf",
                                      "median", "p99",   "max",     "c max", "c p99",  "stored"};
  sheet s = {0};
  for (size_t i = 0; i < p->n_formats; ++i)
    for (int order = 0; order <= highest_order(p); ++order) {
      size_t entries, k = worst_of_order(p, t + i, order, &entries);
      if (k == SIZE_MAX)
        continue;
      const vd_figures *f = t[i].output + k;
      put(&s, "%s", p->formats[i].name);
      put(&s, "%d", order);
      put(&s, "%zu", entries);
      put(&s, "%s", p->formats[i].outputs[k].name);
      put(&s, "%.1e", f->norm2);
      put(&s, "%.1e", f->norm_inf);
      put(&s, "%.1e", f->rel_median);
      put(&s, "%.1e", f->rel_p99);
      put(&s, "%.1e", f->rel_max);
      put(&s, "%.2g", f->c_max);
      put(&s, "%.2g", f->c_p99);
      put(&s, "%.1e", t[i].represented[k]);
    }
  return finish(&s, "By order of derivative", sizeof heads / sizeof *heads, heads, report);
}

static tn_status table_of_outputs(const vd_problem *p, const vd_tested *t, vd_report *report) {
  static const char *const heads[] = {
      "output", "entries", "norm-2", "64 u kappa",   "kappa", "c max", "c p99",         "ulp p99",
      "median", "p99",     "max",    "below normal", "signs", "zeros", "bound / error", "stored"};
  char title[80];
  sheet s = {0};
  for (size_t i = 0; i < p->n_outputs; ++i) {
    const vd_figures *f = t->output + i;
    put(&s, "%s", p->formats[p->judged].outputs[i].name);
    put(&s, "%zu", f->n);
    put(&s, "%.1e", f->norm2);
    put(&s, "%.1e", GATE * t->u * f->kappa);
    put(&s, "%.3g", f->kappa);
    put(&s, "%.2g", f->c_max);
    put(&s, "%.2g", f->c_p99);
    put(&s, "%.3g", f->ulp_p99);
    put(&s, "%.1e", f->rel_median);
    put(&s, "%.1e", f->rel_p99);
    put(&s, "%.1e", f->rel_max);
    put(&s, "%zu", f->below_normal);
    put(&s, "%zu", f->sign_flips);
    put(&s, "%zu", f->false_zeros);
    put(&s, "%.3g", f->ratio);
    put(&s, "%.1e", t->represented[i]);
  }
  snprintf(title, sizeof title, "Outputs in %s", p->formats[p->judged].name);
  return finish(&s, title, sizeof heads / sizeof *heads, heads, report);
}

static void put_channel(sheet *s, const vd_layer_channel *c) {
  put(s, "%s", c->layer);
  put(s, "%s", c->label);
  put(s, "%zu", c->error.n);
  put(s, "%.1e", c->error.norm2);
  put(s, "%.2g", c->error.c_max);
  put(s, "%.3g", c->error.ratio);
  put(s, "%.1e", c->share);
  put(s, "%zu", c->worst);
}

/* The indices of the channels that weigh most come first in order[0 .. WORST). */
static size_t heaviest(const vd_tested *t, size_t order[WORST]) {
  size_t n = 0;
  for (size_t i = 0; i < t->n_channels; ++i) {
    size_t k = n < WORST ? n++ : WORST;
    while (k > 0 && t->channel[order[k - 1]].share < t->channel[i].share) {
      if (k < WORST)
        order[k] = order[k - 1];
      --k;
    }
    if (k < WORST)
      order[k] = i;
  }
  return n;
}

static tn_status table_of_layers(const vd_problem *p, const vd_tested *t, vd_report *report) {
  static const char *const heads[] = {"layer", "channel",       "entries",       "norm-2",
                                      "c max", "bound / error", "share of loss", "worst point"};
  char title[120];
  size_t order[WORST];
  sheet all = {0}, top = {0};
  for (size_t i = 0; i < t->n_channels; ++i)
    put_channel(&all, t->channel + i);
  snprintf(title, sizeof title, "Layers and channels in %s: values after the products",
           p->formats[p->judged].name);
  TN_TRY(finish(&all, title, sizeof heads / sizeof *heads, heads, report));
  for (size_t i = 0, n = heaviest(t, order); i < n; ++i)
    put_channel(&top, t->channel + order[i]);
  return finish(&top, "Worst offenders: roundings that can move the loss most",
                sizeof heads / sizeof *heads, heads, report);
}

/* ---- Pictures --------------------------------------------------------------------------------- */

static tn_status plot_orders(const vd_problem *p, const vd_tested *t, vd_report *report) {
  enum { ORDERS = 9 };
  static const char *const names[ORDERS] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
  int top = highest_order(p);
  size_t n_orders = top < 0 ? 0 : top < ORDERS ? (size_t)top + 1 : ORDERS;
  double x[ORDERS], (*y)[ORDERS] = NULL;
  vd_curve *curve = NULL;
  TN_TRY(TN_NEW(p->n_formats, &y));
  tn_status status = TN_NEW(p->n_formats, &curve);
  for (size_t i = 0; status == TN_OK && i < p->n_formats; ++i) {
    size_t entries = 0, all = 0;
    for (size_t k = 0; k < n_orders; ++k) {
      size_t worst = worst_of_order(p, t + i, (int)k, &entries);
      x[k] = (double)k;
      y[i][k] = worst == SIZE_MAX ? NAN : t[i].output[worst].norm2;
      all += entries;
    }
    curve[i] = (vd_curve){p->formats[i].name, n_orders, x, y[i], all};
  }
  vd_plot plot = {.kind = VD_LINES,
                  .title = "Rounding error by order of derivative",
                  .x_label = "order of derivative",
                  .y_label = "relative error, norm 2, worst",
                  .log_y = true,
                  .groups = names,
                  .n_groups = n_orders,
                  .n_curves = p->n_formats,
                  .curve = curve};
  if (status == TN_OK && n_orders > 0)
    status = vd_report_plot(report, &plot);
  tn_free(&curve);
  tn_free(&y);
  return status;
}

/* "layer2.weight" of "gradient net1.layer2.weight" */
static const char *short_name(const char *name) {
  const char *space = strchr(name, ' ');
  return space ? space + 1 : name;
}

static tn_status plot_layers(const vd_problem *p, const vd_tested *t, vd_report *report) {
  const vd_problem_output *outputs = p->formats[0].outputs;
  const char **groups = NULL;
  double *y = NULL;
  vd_curve *curve = NULL;
  size_t n = 0;
  for (size_t i = 0; i < p->n_outputs; ++i)
    n += outputs[i].part == VD_GRADIENT;
  TN_TRY(TN_NEW(n + 1, &groups));
  tn_status status = TN_NEW((n + 1) * p->n_formats, &y);
  if (status == TN_OK)
    status = TN_NEW(p->n_formats, &curve);
  for (size_t f = 0; status == TN_OK && f < p->n_formats; ++f) {
    size_t k = 0, entries = 0;
    for (size_t i = 0; i < p->n_outputs; ++i) {
      if (outputs[i].part != VD_GRADIENT)
        continue;
      groups[k] = short_name(outputs[i].name);
      y[f * n + k++] = t[f].output[i].norm2;
      entries += t[f].output[i].n;
    }
    curve[f] = (vd_curve){p->formats[f].name, n, NULL, y + f * n, entries};
  }
  vd_plot plot = {.kind = VD_BARS,
                  .title = "Rounding error of the gradient by block of weights",
                  .y_label = "relative error, norm 2",
                  .log_y = true,
                  .groups = groups,
                  .n_groups = n,
                  .n_curves = p->n_formats,
                  .curve = curve};
  if (status == TN_OK && n > 0)
    status = vd_report_plot(report, &plot);
  tn_free(&curve);
  tn_free(&y);
  tn_free(&groups);
  return status;
}

enum { BINS = 28 }; /* of log10 c from -5 to 2 */

static void count_bins(const vd_problem *p, const vd_tested *t, bool gradient, double *y,
                       size_t *entries) {
  for (size_t i = 0; i < p->n_outputs; ++i) {
    if ((p->formats[0].outputs[i].part == VD_GRADIENT) != gradient)
      continue;
    for (size_t e = t->first[i]; e < t->first[i + 1]; ++e) {
      double at = t->c[e] > 0 ? 4 * (log10(t->c[e]) + 5) : 0;
      ++y[at < 0 ? 0 : at > BINS - 1 ? BINS - 1 : (size_t)at];
      ++*entries;
    }
  }
  for (size_t k = 0; k < BINS; ++k)
    y[k] /= *entries > 0 ? (double)*entries : 1;
}

static tn_status plot_c(const vd_problem *p, const vd_tested *t, vd_report *report) {
  double x[BINS], y[2][BINS] = {{0}};
  size_t entries[2] = {0};
  char title[120];
  for (size_t k = 0; k < BINS; ++k)
    x[k] = -5 + 0.25 * (double)k;
  for (int g = 0; g < 2; ++g)
    count_bins(p, t, g == 1, y[g], entries + g);
  const vd_curve curve[2] = {{"values, derivatives, residuals, loss", BINS, x, y[0], entries[0]},
                             {"gradient", BINS, x, y[1], entries[1]}};
  snprintf(title, sizeof title, "Distribution of c = |error| / (u S) in %s",
           p->formats[p->judged].name);
  const vd_plot plot = {.kind = VD_STEPS,
                        .title = title,
                        .x_label = "log10 of c (exact results on the left end)",
                        .y_label = "share of entries",
                        .n_curves = 2,
                        .curve = curve};
  return vd_report_plot(report, &plot);
}

/* ---- The audit -------------------------------------------------------------------------------- */

tn_status vd_report_problem(const vd_problem *p, const vd_tested *t, vd_report *report) {
  TN_TRY(table_of_formats(p, t, report));
  TN_TRY(table_of_orders(p, t, report));
  TN_TRY(table_of_outputs(p, t + p->judged, report));
  TN_TRY(table_of_layers(p, t + p->judged, report));
  TN_TRY(plot_orders(p, t, report));
  TN_TRY(plot_layers(p, t, report));
  return plot_c(p, t + p->judged, report);
}

enum { ENOUGH_BITS = 128 }; /* for formats that only go into the comparison */

/* What training sees of the gradient, now and at its start. */
static tn_status measure_many(const vd_problem *p, vd_tested *tested) {
  double *figure = NULL;
  size_t n = p->n_formats;
  TN_TRY(TN_NEW(4 * n, &figure));
  tn_status status = p->many ? vd_gradient_noise(p->many, figure, figure + n) : TN_OK;
  if (status == TN_OK && p->start)
    status = vd_gradient_noise(p->start, figure + 2 * n, figure + 3 * n);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    tested[i].many_loss = figure[0]; /* the right one: of f64 */
    tested[i].many_noise = figure[n + i];
    tested[i].start_loss = figure[2 * n];
    tested[i].start_noise = figure[3 * n + i];
  }
  tn_free(&figure);
  return status;
}

tn_status vd_audit_problem(const vd_problem *p, const vd_options *options, vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  vd_tested *tested = NULL;
  if (p->n_formats == 0 || p->judged >= p->n_formats)
    return TN_FAIL(TN_EINPUT, "problem audit: format %zu of %zu is judged", p->judged,
                   p->n_formats);
  TN_TRY(TN_NEW(p->n_formats, &tested));
  tn_status status = measure_many(p, tested);
  for (size_t i = 0; status == TN_OK && i < p->n_formats; ++i) {
    int bits = i == p->judged || o.bits < ENOUGH_BITS ? o.bits : ENOUGH_BITS;
    status = vd_test_format(p, i, bits, i > 0 ? tested : NULL, tested + i);
    if (status == TN_OK)
      vd_predict_floor(p, tested, tested + i);
    if (status == TN_OK && p->floors)
      p->floors[i] = tested[i].floor_error;
  }
  if (status == TN_OK)
    status = vd_advise_problem(p, tested, report);
  if (status == TN_OK)
    status = add_rows(p, tested + p->judged, report);
  if (status == TN_OK)
    status = vd_report_problem(p, tested, report);
  for (size_t i = 0; i < p->n_formats; ++i)
    vd_tested_free(tested + i);
  tn_free(&tested);
  return status;
}
