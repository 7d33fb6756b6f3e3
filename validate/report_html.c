/* report_html.c: a report as one page that needs neither network nor script.
 *
 * The advice comes first, because it is what a reader acts on; then the verdict, the pictures, the
 * tables, and every row, those that fail on top. Everything that is text goes through the escaper; a
 * policy in the head forbids scripts and loads, so that even markup could do nothing.
 */
#include "validate/report_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:#1f2937;background:#fff;max-width:76rem;"
    "margin:0 auto;padding:1.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.5rem;line-height:1.25}\n"
    "h2{font-size:1.15rem;margin:2.2rem 0 .7rem;border-bottom:1px solid #d1d5db}\n"
    ".advice{background:#eef4fb;border-left:6px solid #0a66c2;padding:.7rem 1rem}\n"
    ".ok{background:#e8f6ee;border-left:6px solid #12805c;padding:.4rem 1rem}\n"
    ".bad{background:#fdecea;border-left:6px solid #c0271c;padding:.4rem 1rem}\n"
    "table{border-collapse:collapse;font-size:.9rem}\n"
    "th,td{padding:.22rem .7rem;text-align:left;border-bottom:1px solid "
    "#e5e7eb;vertical-align:top}\n"
    "th{border-bottom:2px solid #9ca3af}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".scroll{overflow-x:auto}figure{margin:1rem 0}figure svg{max-width:100%;height:auto}\n"
    "tr.fail td{background:#fdecea}\n"
    "@media print{figure,tr{break-inside:avoid}}\n"
    "</style>\n";

static void put_cell(vd_text *w, const char *tag, const char *text, bool number) {
  vd_put(w, number ? "<%s class=\"n\">" : "<%s>", tag);
  vd_put_html(w, text);
  vd_put(w, "</%s>", tag);
}

static void put_table(vd_text *w, const vd_table *t) {
  vd_put(w, "<h2>");
  vd_put_html(w, t->title);
  vd_put(w, "</h2>\n<div class=\"scroll\"><table>\n");
  for (size_t i = 0; i <= t->n_rows; ++i) {
    vd_put(w, "<tr>");
    for (size_t k = 0; k < t->n_columns; ++k) {
      const char *text = t->cell[i * t->n_columns + k];
      const char *below = t->n_rows > 0 ? t->cell[t->n_columns + k] : "";
      put_cell(w, i == 0 ? "th" : "td", text, vd_is_number(i == 0 ? below : text));
    }
    vd_put(w, "</tr>\n");
  }
  vd_put(w, "</table></div>\n");
}

static void put_figure(vd_text *w, const char *format, double x) {
  char text[40];
  snprintf(text, sizeof text, format, x);
  put_cell(w, "td", text, true);
}

static void put_row(vd_text *w, const vd_row *r) {
  char count[24];
  vd_put(w, r->pass ? "<tr>" : "<tr class=\"fail\">");
  put_cell(w, "td", r->subject, false);
  put_cell(w, "td", r->dtype, false);
  put_cell(w, "td", r->method, false);
  snprintf(count, sizeof count, "%d", r->order);
  put_cell(w, "td", r->order < 0 ? "" : count, true);
  snprintf(count, sizeof count, "%zu", r->points);
  put_cell(w, "td", count, true);
  put_cell(w, "td", r->measure, false);
  put_figure(w, "%.3g", r->value);
  put_figure(w, "%.3g", r->bound);
  put_figure(w, "%.3g", r->ulp);
  put_figure(w, "%.3g", r->c);
  put_figure(w, "%.2e", r->norm2);
  put_figure(w, "%.6g", r->at);
  put_cell(w, "td", r->pass ? "ok" : "FAIL", false);
  vd_put(w, "</tr>\n");
}

static void put_rows(vd_text *w, const vd_report *report) {
  static const char *const heads[] = {"subject",   "dtype",    "method", "order", "points",
                                      "judged by", "value",    "bound",  "ulp",   "c",
                                      "norm-2",    "worst at", "verdict"};
  vd_put(w, "<h2>Rows</h2>\n<div class=\"scroll\"><table>\n<tr>");
  for (size_t k = 0; k < sizeof heads / sizeof *heads; ++k)
    put_cell(w, "th", heads[k], (k == 3 || k == 4 || k > 5) && k < 12);
  vd_put(w, "</tr>\n");
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < report->n; ++i)
      if (report->row[i].pass == (pass == 1))
        put_row(w, report->row + i);
  vd_put(w, "</table></div>\n");
}

tn_status vd_report_html(const vd_report *report, const char *title, char **out) {
  vd_text w = {0};
  size_t failures = vd_report_failures(report);
  *out = NULL;
  vd_put_plain(&w, head, sizeof head - 1);
  vd_put(&w, "<title>");
  vd_put_html(&w, title);
  vd_put(&w, "</title>\n</head>\n<body>\n<h1>");
  vd_put_html(&w, title);
  vd_put(&w, "</h1>\n");
  if (report->advice) {
    vd_put(&w, "<p class=\"advice\">");
    vd_put_html(&w, report->advice);
    vd_put(&w, "</p>\n");
  }
  vd_put(&w, "<p class=\"%s\">%zu rows, %zu fail.</p>\n", failures > 0 ? "bad" : "ok", report->n,
         failures);
  for (size_t i = 0; i < report->n_pictures; ++i) {
    vd_put(&w, "<figure>\n");
    vd_put_plain(&w, report->picture[i], strlen(report->picture[i]));
    vd_put(&w, "</figure>\n");
  }
  for (size_t i = 0; i < report->n_tables; ++i)
    put_table(&w, report->table + i);
  if (report->n > 0)
    put_rows(&w, report);
  vd_put(&w, "</body>\n</html>\n");
  return vd_text_finish(&w, out);
}
