/* report.c: rows of measurements, written as Markdown for people and JSON for tools.
 *
 * A report is a growing array of vd_row. Text grows in one buffer; numbers are written with
 * snprintf in the C locale, which nobody changes. JSON has no infinity and no NaN: they become
 * null, and "pass" is then false, so a reader cannot mistake one for a small number.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "validate/validate.h"

struct vd_report {
  vd_row *row;
  size_t n, capacity;
};

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

void vd_report_free(vd_report **report) {
  if (!report || !*report)
    return;
  tn_free(&(*report)->row);
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

/* ---- Text ----------------------------------------------------------------------------------- */

typedef struct writer {
  char *text;
  size_t used, capacity;
  tn_status status; /* the first error; later writes do nothing */
} writer;

static void put_text(writer *w, const char *format, ...) TN_PRINTF(2, 3);
static void put_text(writer *w, const char *format, ...) {
  char piece[512];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(piece, sizeof piece, format, args);
  va_end(args);
  if (w->status != TN_OK || length < 0)
    return;
  size_t n = (size_t)length < sizeof piece ? (size_t)length : sizeof piece - 1;
  if (w->used + n + 1 > w->capacity) {
    size_t capacity = 2 * (w->used + n + 1);
    w->status = tn_grow(&w->text, w->capacity, capacity, 1);
    if (w->status != TN_OK)
      return;
    w->capacity = capacity;
  }
  memcpy(w->text + w->used, piece, n + 1);
  w->used += n;
}

static tn_status finish(writer *w, char **out) {
  if (w->status != TN_OK) {
    tn_free(&w->text);
    return w->status;
  }
  *out = w->text;
  return TN_OK;
}

tn_status vd_report_markdown(const vd_report *report, const char *title, bool failures_only,
                             char **out) {
  writer w = {0};
  *out = NULL;
  put_text(&w, "# %s\n\n%zu rows, %zu fail.\n", title, report->n, vd_report_failures(report));
  if (failures_only && vd_report_failures(report) == 0)
    return finish(&w, out);
  put_text(&w, "\n");
  put_text(&w, "| subject | dtype | method | order | points | judged by | value | bound | ulp | c |"
               " norm-2 | worst at | verdict |\n");
  put_text(&w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < report->n; ++i) {
    const vd_row *r = report->row + i;
    if (failures_only && r->pass)
      continue;
    char order[16] = "";
    if (r->order >= 0)
      snprintf(order, sizeof order, "%d", r->order);
    put_text(&w,
             "| %s | %s | %s | %s | %zu | %s | %.3g | %.3g | %.3g | %.3g | %.2e | %.6g | %s |\n",
             r->subject, r->dtype, r->method, order, r->points, r->measure, r->value, r->bound,
             r->ulp, r->c, r->norm2, r->at, r->pass ? "ok" : "**FAIL**");
  }
  return finish(&w, out);
}

static void put_string(writer *w, const char *key, const char *value) {
  put_text(w, "\"%s\":\"", key);
  for (; *value; ++value) {
    unsigned char c = (unsigned char)*value;
    if (c == '"' || c == '\\')
      put_text(w, "\\%c", c);
    else if (c < 0x20)
      put_text(w, "\\u%04x", c);
    else
      put_text(w, "%c", c);
  }
  put_text(w, "\",");
}

static void put_number(writer *w, const char *key, double value) {
  if (isfinite(value))
    put_text(w, "\"%s\":%.17g,", key, value);
  else
    put_text(w, "\"%s\":null,", key);
}

static void put_row(writer *w, const vd_row *r) {
  put_text(w, "{");
  put_string(w, "subject", r->subject);
  put_string(w, "dtype", r->dtype);
  put_string(w, "method", r->method);
  put_string(w, "measure", r->measure);
  if (r->order >= 0)
    put_text(w, "\"order\":%d,", r->order);
  put_text(w, "\"points\":%zu,", r->points);
  put_number(w, "value", r->value);
  put_number(w, "bound", r->bound);
  put_number(w, "ulp", r->ulp);
  put_number(w, "c", r->c);
  put_number(w, "norm2", r->norm2);
  put_number(w, "at", r->at);
  put_text(w, "\"pass\":%s}", r->pass ? "true" : "false");
}

tn_status vd_report_json(const vd_report *report, const char *title, char **out) {
  writer w = {0};
  *out = NULL;
  put_text(&w, "{");
  put_string(&w, "title", title);
  put_text(&w, "\"rows\":[");
  for (size_t i = 0; i < report->n; ++i) {
    if (i > 0)
      put_text(&w, ",\n");
    put_row(&w, report->row + i);
  }
  put_text(&w, "],\"failures\":%zu}\n", vd_report_failures(report));
  return finish(&w, out);
}
