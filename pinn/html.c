/* html.c: builds the report: one HTML file that needs neither network nor script.
 *
 * The body is written as the calls come; sections are remembered by title, so that the page can
 * start with a list of links to them. Everything that is text goes through the escaper, so no name
 * or file content can become markup; a policy in the head forbids scripts and loads, so that even
 * markup could do nothing. The page prints on white A4: figures and rows are not torn apart.
 */
#include "pinn/html.h"

#include <string.h>

#include "pinn/files.h"
#include "pinn/text.h"

struct pn_report {
  char *title;
  pn_text verdict, list, body; /* list: the links to the sections */
  size_t sections;
};

static const char style[] =
    ":root{color-scheme:light}\n"
    "body{font:16px/1.5 system-ui,'Segoe UI','Helvetica Neue',Arial,'DejaVu "
    "Sans',sans-serif;color:#1f2937;"
    "background:#fff;max-width:72rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0 1rem}\n"
    "h2{font-size:1.2rem;margin:2.4rem 0 .8rem;padding-bottom:.25rem;border-bottom:1px solid "
    "#d1d5db}\n"
    "h3{font-size:1rem;margin:1.4rem 0 .5rem}\n"
    ".verdict{padding:.7rem 1rem;border-left:6px solid;border-radius:4px;margin:0 0 1rem}\n"
    ".verdict b{margin-right:.75em;letter-spacing:.02em}\n"
    ".ok{background:#e8f6ee;border-color:#12805c}.ok b{color:#0b6b4b}\n"
    ".bad{background:#fdecea;border-color:#c0271c}.bad b{color:#a31d13}\n"
    "nav{font-size:.9rem;margin:.5rem 0 0}nav "
    "a{margin-right:1.1em;white-space:nowrap}a{color:#0a5cad}\n"
    ".warning{background:#fff6e0;border-left:6px solid #c98a00;border-radius:4px;padding:.5rem "
    "1rem;"
    "margin:.6rem 0}\n"
    "table{border-collapse:collapse;font-size:.92rem;margin:.6rem 0}\n"
    "th,td{padding:.28rem .8rem .28rem 0;text-align:left;vertical-align:top;border-bottom:1px "
    "solid #e5e7eb}\n"
    "thead th{border-bottom:2px solid #9ca3af;font-weight:600}\n"
    ".number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;padding-left:.8rem}\n"
    ".pairs th{font-weight:400;color:#4b5563;white-space:nowrap;padding-right:1.5rem}\n"
    ".scroll{overflow-x:auto}\n"
    "figure{margin:1rem 0}figure svg{max-width:100%;height:auto}\n"
    "figcaption{font-size:.9rem;color:#4b5563;margin-top:.2rem}\n"
    "pre{font:13.5px/1.45 ui-monospace,'SF Mono',Consolas,'DejaVu Sans "
    "Mono',monospace;background:#f6f7f9;"
    "border:1px solid #e5e7eb;border-radius:4px;padding:.8rem 1rem;overflow-x:auto;tab-size:4}\n"
    ".math{margin:.6rem 0 .6rem 1.2rem;font-size:1.1rem;overflow-x:auto;overflow-y:hidden}\n"
    "summary{cursor:pointer}\n"
    "@media print{body{font-size:10.5pt;max-width:none;padding:0}nav{display:none}"
    "figure,tr,.verdict,.warning,.math{break-inside:avoid}h2,h3{break-after:avoid}"
    "pre{white-space:pre-wrap;overflow:visible}.scroll{overflow:visible}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n";

tn_status pn_report_new(const char *title, pn_report **out) {
  pn_report *r = NULL;
  TN_TRY(TN_NEW(1, &r));
  tn_status status = tn_copy_text(title, &r->title);
  if (status != TN_OK)
    tn_free(&r);
  else
    *out = r;
  return status;
}

void pn_report_free(pn_report **report) {
  pn_report *r = *report;
  if (!r)
    return;
  pn_text_free(&r->verdict);
  pn_text_free(&r->list);
  pn_text_free(&r->body);
  tn_free(&r->title);
  tn_free(report);
}

/* <tag class>text</tag>; class "" for none. */
static void element(pn_text *w, const char *tag, const char *class, const char *text) {
  if (class[0])
    pn_putf(w, "<%s class=\"%s\">", tag, class);
  else
    pn_putf(w, "<%s>", tag);
  pn_put_escaped(w, text);
  pn_putf(w, "</%s>", tag);
}

void pn_report_verdict(pn_report *report, bool ok, const char *word, const char *text) {
  pn_text *w = &report->verdict;
  pn_putf(w, "<p class=\"verdict %s\">", ok ? "ok" : "bad");
  element(w, "b", "", word);
  pn_put_escaped(w, text);
  pn_put(w, "</p>\n");
}

void pn_report_section(pn_report *report, const char *title) {
  size_t k = ++report->sections;
  pn_putf(&report->list, "<a href=\"#s%zu\">", k);
  pn_put_escaped(&report->list, title);
  pn_put(&report->list, "</a>\n");
  pn_putf(&report->body, "<h2 id=\"s%zu\">", k);
  pn_put_escaped(&report->body, title);
  pn_put(&report->body, "</h2>\n");
}

static void line(pn_report *report, const char *tag, const char *class, const char *text) {
  element(&report->body, tag, class, text);
  pn_put(&report->body, "\n");
}

void pn_report_heading(pn_report *report, const char *title) { line(report, "h3", "", title); }
void pn_report_paragraph(pn_report *report, const char *text) { line(report, "p", "", text); }
void pn_report_warning(pn_report *report, const char *text) { line(report, "p", "warning", text); }

/* HTML drops a line end right after <pre>, so one is put there for it to drop. */
static void put_pre(pn_text *w, const char *text) {
  pn_put(w, "<pre>\n");
  pn_put_escaped(w, text);
  pn_put(w, "</pre>\n");
}

void pn_report_pre(pn_report *report, const char *text) { put_pre(&report->body, text); }

void pn_report_math(pn_report *report, const char *mathml) {
  pn_put(&report->body, "<div class=\"math\">");
  pn_put(&report->body, mathml);
  pn_put(&report->body, "</div>\n");
}

void pn_report_figure(pn_report *report, const char *svg, const char *caption) {
  pn_put(&report->body, "<figure>\n");
  pn_put(&report->body, svg);
  if (caption)
    line(report, "figcaption", "", caption);
  pn_put(&report->body, "</figure>\n");
}

/* A number, perhaps with a unit or sign behind it: "4.2e-4", "0.31 ± 0.02", "12 s", "1 024", "97
 * %". */
static bool starts_as_number(const char *cell) {
  if (*cell == '-' || *cell == '+')
    ++cell;
  else if (!strncmp(cell, "\xe2\x88\x92", 3))
    cell += 3; /* a minus */
  return *cell >= '0' && *cell <= '9';
}

/* A column stands to the right if it has a cell and each of its cells starts as a number. */
static bool is_number_column(size_t column, size_t columns, size_t rows, const char *const *cells) {
  size_t numbers = 0;
  for (size_t i = 0; i < rows; ++i) {
    const char *cell = cells[i * columns + column];
    if (!cell || !cell[0] || !strcmp(cell, "-") || !strcmp(cell, "nan"))
      continue;
    if (!starts_as_number(cell))
      return false;
    ++numbers;
  }
  return numbers > 0;
}

void pn_report_table(pn_report *report, size_t columns, const char *const *headers, size_t rows,
                     const char *const *cells) {
  enum { KNOWN = 64 }; /* further columns stand to the left */
  pn_text *w = &report->body;
  const char *class[KNOWN];
  for (size_t k = 0; k < columns && k < KNOWN; ++k)
    class[k] = is_number_column(k, columns, rows, cells) ? "number" : "";
  pn_put(w, "<div class=\"scroll\"><table>\n<thead><tr>");
  for (size_t k = 0; k < columns; ++k)
    element(w, "th", k < KNOWN ? class[k] : "", headers[k]);
  pn_put(w, "</tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < rows; ++i) {
    pn_put(w, "<tr>");
    for (size_t k = 0; k < columns; ++k) {
      const char *cell = cells[i * columns + k];
      element(w, "td", k < KNOWN ? class[k] : "", cell ? cell : "");
    }
    pn_put(w, "</tr>\n");
  }
  pn_put(w, "</tbody></table></div>\n");
}

void pn_report_pairs(pn_report *report, size_t count, const char *const *keys,
                     const char *const *values) {
  pn_text *w = &report->body;
  pn_put(w, "<table class=\"pairs\"><tbody>\n");
  for (size_t i = 0; i < count; ++i) {
    pn_put(w, "<tr><th scope=\"row\">");
    pn_put_escaped(w, keys[i]);
    pn_put(w, "</th>");
    element(w, "td", "", values[i] ? values[i] : "");
    pn_put(w, "</tr>\n");
  }
  pn_put(w, "</tbody></table>\n");
}

void pn_report_folded(pn_report *report, const char *summary, const char *text) {
  pn_put(&report->body, "<details>");
  element(&report->body, "summary", "", summary);
  pn_put(&report->body, "\n");
  put_pre(&report->body, text);
  pn_put(&report->body, "</details>\n");
}

static void put_part(pn_text *w, const pn_text *part) {
  if (part->text)
    pn_put_bytes(w, part->text, part->n);
}

tn_status pn_report_text(pn_report *report, char **text, size_t *n) {
  pn_text w = {0};
  TN_TRY(pn_text_status(&report->verdict));
  TN_TRY(pn_text_status(&report->list));
  TN_TRY(pn_text_status(&report->body));
  pn_put(
      &w,
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  element(&w, "title", "", report->title);
  pn_put(&w, "\n<style>\n");
  pn_put(&w, style);
  pn_put(&w, "</style>\n</head>\n<body>\n");
  element(&w, "h1", "", report->title);
  pn_put(&w, "\n");
  put_part(&w, &report->verdict);
  if (report->sections > 2) {
    pn_put(&w, "<nav>\n");
    put_part(&w, &report->list);
    pn_put(&w, "</nav>\n");
  }
  put_part(&w, &report->body);
  pn_put(&w, "</body>\n</html>\n");
  tn_status status = pn_text_take(&w, text, n);
  pn_text_free(&w);
  return status;
}

tn_status pn_report_write(pn_report *report, const char *path) {
  char *text = NULL;
  size_t n = 0;
  TN_TRY(pn_report_text(report, &text, &n));
  tn_status status = pn_write_atomic(path, text, n);
  tn_free(&text);
  return status;
}
