/* report.c: what an audit found: rows of measurements, tables, pictures and the advice above them, as
 * Markdown for people and JSON for tools (report_html.c has the page).
 *
 * A report is growing arrays. JSON has no infinity and no NaN: they become null, and "pass" is then
 * false, so a reader cannot mistake one for a small number.
 */
#include "validate/report_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

vd_options vd_options_default(void) {
  return (vd_options){.seed = 1,
                      .points = 1000,
                      .rule_points = 8,
                      .max_order = 3,
                      .bits = 256,
                      .c_ceiling = 12,
                      .norm2_ulps = 128};
}

tn_status vd_report_new(vd_report **out) { return TN_NEW(1, out); }

static void free_table(vd_table *t) {
  for (size_t i = 0; t->cell && i < t->n_columns * (t->n_rows + 1); ++i)
    tn_free(&t->cell[i]);
  tn_free(&t->cell);
  tn_free(&t->title);
}

void vd_report_free(vd_report **report) {
  if (!report || !*report)
    return;
  vd_report *r = *report;
  for (size_t i = 0; i < r->n_tables; ++i)
    free_table(r->table + i);
  for (size_t i = 0; i < r->n_pictures; ++i)
    tn_free(&r->picture[i]);
  tn_free(&r->table);
  tn_free(&r->picture);
  tn_free(&r->advice);
  tn_free(&r->row);
  tn_free(report);
}

tn_status vd_report_add(vd_report *report, const vd_row *row) {
  if (report->n == report->capacity) {
    size_t capacity = report->capacity ? 2 * report->capacity : 64;
    TN_TRY(tn_grow(&report->row, report->capacity, capacity, sizeof *report->row));
    report->capacity = capacity;
  }
  report->row[report->n++] = *row;
  return TN_OK;
}

size_t vd_report_rows(const vd_report *report) { return report->n; }

const vd_row *vd_report_row(const vd_report *report, size_t i) {
  return i < report->n ? report->row + i : NULL;
}

size_t vd_report_failures(const vd_report *report) {
  size_t n = 0;
  for (size_t i = 0; i < report->n; ++i)
    n += !report->row[i].pass;
  return n;
}

tn_status vd_report_advise(vd_report *report, const char *sentence) {
  vd_text w = {0};
  char *joined = NULL;
  if (report->advice) {
    vd_put_plain(&w, report->advice, strlen(report->advice));
    vd_put(&w, " ");
  }
  vd_put_plain(&w, sentence, strlen(sentence));
  TN_TRY(vd_text_finish(&w, &joined));
  tn_free(&report->advice);
  report->advice = joined;
  return TN_OK;
}

tn_status vd_report_table(vd_report *report, const char *title, size_t n_columns,
                          const char *const *heads, size_t n_rows, const char *const *cells) {
  vd_table t = {.n_columns = n_columns, .n_rows = n_rows};
  tn_status status = tn_copy_text(title, &t.title);
  if (status == TN_OK)
    status = TN_NEW(n_columns * (n_rows + 1), &t.cell);
  for (size_t i = 0; status == TN_OK && i < n_columns * (n_rows + 1); ++i)
    status = tn_copy_text(i < n_columns ? heads[i] : cells[i - n_columns], &t.cell[i]);
  if (status == TN_OK)
    status = tn_grow(&report->table, report->n_tables, report->n_tables + 1, sizeof t);
  if (status != TN_OK) {
    free_table(&t);
    return status;
  }
  report->table[report->n_tables++] = t;
  return TN_OK;
}

size_t vd_report_tables(const vd_report *report) { return report->n_tables; }

const char *vd_report_cell(const vd_report *report, size_t table, size_t row, size_t column) {
  if (table >= report->n_tables)
    return NULL;
  const vd_table *t = report->table + table;
  return row < t->n_rows && column < t->n_columns ? t->cell[(row + 1) * t->n_columns + column]
                                                  : NULL;
}

tn_status vd_report_plot(vd_report *report, const vd_plot *plot) {
  char *svg = NULL;
  TN_TRY(vd_plot_svg(plot, &svg));
  tn_status status =
      tn_grow(&report->picture, report->n_pictures, report->n_pictures + 1, sizeof svg);
  if (status == TN_OK)
    report->picture[report->n_pictures++] = svg;
  else
    tn_free(&svg);
  return status;
}

/* ---- Markdown ------------------------------------------------------------------------------- */

/* A cell of a Markdown table: a bar would end it. */
static void put_cell(vd_text *w, const char *text) {
  vd_put(w, " ");
  for (; *text; ++text) {
    if (*text == '|')
      vd_put(w, "\\");
    vd_put_plain(w, text, 1);
  }
  vd_put(w, " |");
}

static void put_table(vd_text *w, const vd_table *t) {
  vd_put(w, "\n## ");
  vd_put_plain(w, t->title, strlen(t->title));
  vd_put(w, "\n\n");
  for (size_t i = 0; i <= t->n_rows; ++i) {
    vd_put(w, "|");
    for (size_t k = 0; k < t->n_columns; ++k)
      put_cell(w, t->cell[i * t->n_columns + k]);
    vd_put(w, "\n");
    for (size_t k = 0; i == 0 && k < t->n_columns; ++k)
      vd_put(w, k + 1 < t->n_columns ? "|---" : "|---|\n");
  }
}

static void put_rows(vd_text *w, const vd_report *report, bool failures_only) {
  vd_put(w,
         "\n| subject | dtype | method | order | points | judged by | value | bound | ulp | c |"
         " norm-2 | worst at | verdict |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < report->n; ++i) {
    const vd_row *r = report->row + i;
    if (failures_only && r->pass)
      continue;
    char order[16] = "";
    if (r->order >= 0)
      snprintf(order, sizeof order, "%d", r->order);
    vd_put(w, "| %s | %s | %s | %s | %zu | %s | %.3g | %.3g | %.3g | %.3g | %.2e | %.6g | %s |\n",
           r->subject, r->dtype, r->method, order, r->points, r->measure, r->value, r->bound,
           r->ulp, r->c, r->norm2, r->at, r->pass ? "ok" : "**FAIL**");
  }
}

tn_status vd_report_markdown(const vd_report *report, const char *title, bool failures_only,
                             char **out) {
  vd_text w = {0};
  *out = NULL;
  vd_put(&w, "# %s\n\n", title);
  if (report->advice) {
    vd_put_plain(&w, report->advice, strlen(report->advice));
    vd_put(&w, "\n\n");
  }
  vd_put(&w, "%zu rows, %zu fail.\n", report->n, vd_report_failures(report));
  for (size_t i = 0; i < report->n_tables; ++i)
    put_table(&w, report->table + i);
  if (!failures_only || vd_report_failures(report) > 0) {
    if (report->n_tables > 0)
      vd_put(&w, "\n## Rows\n");
    put_rows(&w, report, failures_only);
  }
  return vd_text_finish(&w, out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put_quoted(vd_text *w, const char *value) {
  vd_put(w, "\"");
  for (; *value; ++value) {
    unsigned char c = (unsigned char)*value;
    if (c == '"' || c == '\\')
      vd_put(w, "\\%c", c);
    else if (c < 0x20)
      vd_put(w, "\\u%04x", c);
    else
      vd_put_plain(w, value, 1);
  }
  vd_put(w, "\"");
}

static void put_string(vd_text *w, const char *key, const char *value) {
  vd_put(w, "\"%s\":", key);
  put_quoted(w, value);
  vd_put(w, ",");
}

static void put_number(vd_text *w, const char *key, double value) {
  if (isfinite(value))
    vd_put(w, "\"%s\":%.17g,", key, value);
  else
    vd_put(w, "\"%s\":null,", key);
}

static void put_row(vd_text *w, const vd_row *r) {
  vd_put(w, "{");
  put_string(w, "subject", r->subject);
  put_string(w, "dtype", r->dtype);
  put_string(w, "method", r->method);
  put_string(w, "measure", r->measure);
  if (r->order >= 0)
    vd_put(w, "\"order\":%d,", r->order);
  vd_put(w, "\"points\":%zu,", r->points);
  put_number(w, "value", r->value);
  put_number(w, "bound", r->bound);
  put_number(w, "ulp", r->ulp);
  put_number(w, "c", r->c);
  put_number(w, "norm2", r->norm2);
  put_number(w, "at", r->at);
  vd_put(w, "\"pass\":%s}", r->pass ? "true" : "false");
}

static void put_json_cell(vd_text *w, const char *text) {
  if (vd_is_number(text))
    vd_put_plain(w, text, strlen(text));
  else if (strcmp(text, "inf") == 0 || strcmp(text, "nan") == 0 || strcmp(text, "-") == 0)
    vd_put(w, "null");
  else
    put_quoted(w, text);
}

static void put_json_table(vd_text *w, const vd_table *t) {
  vd_put(w, "{");
  put_string(w, "title", t->title);
  vd_put(w, "\"heads\":[");
  for (size_t k = 0; k < t->n_columns; ++k) {
    vd_put(w, k > 0 ? "," : "");
    put_quoted(w, t->cell[k]);
  }
  vd_put(w, "],\"cells\":[");
  for (size_t i = 1; i <= t->n_rows; ++i) {
    vd_put(w, i > 1 ? ",\n[" : "[");
    for (size_t k = 0; k < t->n_columns; ++k) {
      vd_put(w, k > 0 ? "," : "");
      put_json_cell(w, t->cell[i * t->n_columns + k]);
    }
    vd_put(w, "]");
  }
  vd_put(w, "]}");
}

tn_status vd_report_json(const vd_report *report, const char *title, char **out) {
  vd_text w = {0};
  *out = NULL;
  vd_put(&w, "{");
  put_string(&w, "title", title);
  put_string(&w, "advice", report->advice ? report->advice : "");
  vd_put(&w, "\"rows\":[");
  for (size_t i = 0; i < report->n; ++i) {
    vd_put(&w, i > 0 ? ",\n" : "");
    put_row(&w, report->row + i);
  }
  vd_put(&w, "],\"tables\":[");
  for (size_t i = 0; i < report->n_tables; ++i) {
    vd_put(&w, i > 0 ? ",\n" : "");
    put_json_table(&w, report->table + i);
  }
  vd_put(&w, "],\"failures\":%zu}\n", vd_report_failures(report));
  return vd_text_finish(&w, out);
}
