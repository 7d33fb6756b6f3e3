/* underflow_page.c: a study as one page with pictures, which needs neither network nor script.
 *
 * The page is the Markdown report in HTML, every row of it folded away at the end, with a picture behind each
 * heading that has one. So nothing is said twice in code. The little Markdown that the report uses is all that is
 * understood: headings, tables, lists, paragraphs, **strong** and `code`. Texts go through the escaper, and a
 * policy in the head forbids scripts and loads.
 */
#include <string.h>

#include "validate/underflow_svg.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light}\n"
    "body{font:16px/1.5 system-ui,'Segoe UI',Arial,'DejaVu Sans',sans-serif;color:#1f2937;"
    "background:#fff;max-width:73rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem}\n"
    "h2{font-size:1.15rem;margin:2.3rem 0 .7rem;padding-bottom:.2rem;border-bottom:1px solid "
    "#d1d5db}\n"
    ".advice{padding:.8rem 1rem;border-left:6px solid;border-radius:4px}\n"
    ".advice strong{font-weight:500}\n"
    ".ok{background:#e8f6ee;border-color:#12805c}.bad{background:#fdecea;border-color:#c0271c}\n"
    "table{border-collapse:collapse;font-size:.84rem;margin:.6rem 0}\n"
    "th,td{padding:.22rem .5rem .22rem 0;text-align:left;vertical-align:top;border-bottom:1px "
    "solid #e5e7eb}\n"
    "thead th,thead~tbody td{white-space:nowrap}thead th{border-bottom:2px solid "
    "#9ca3af;font-weight:600}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td:first-child{white-space:nowrap;padding-right:1.2rem}\n"
    "sup{font-size:.72em;line-height:0}code{font:.92em ui-monospace,Consolas,'DejaVu Sans "
    "Mono',monospace;white-space:nowrap}\n"
    ".scroll{overflow-x:auto}figure{margin:1rem 0}figure "
    "svg{max-width:100%;height:auto;display:block}\n"
    "figcaption{font-size:.9rem;color:#4b5563;margin-top:.3rem;max-width:60rem}\n"
    "li{margin:.3rem 0}summary{cursor:pointer;margin:1.5rem 0 .5rem}\n"
    "@media print{body{font-size:10pt;max-width:none;padding:0}figure,tr{break-inside:avoid}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n"
    "</style>\n";

/* ---- Markdown -------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The exponent of 2^12 or 2^-3.5 at text, raised; returns its letters, 0 if there is none. */
static size_t put_exponent(vd_text *w, const char *text, size_t n) {
  size_t i = 2 + (n > 2 && text[2] == '-'), first = i;
  if (n < 3 || text[0] != '2' || text[1] != '^')
    return 0;
  bool point = false;
  for (; i < n; ++i) {
    if (text[i] == '.' && !point && i > first && i + 1 < n && is_digit(text[i + 1]))
      point = true;
    else if (!is_digit(text[i]))
      break;
  }
  if (i == first)
    return 0;
  vd_put(w, "2<sup>%s%.*s</sup>", first > 2 ? "\xe2\x88\x92" : "", (int)(i - first), text + first);
  return i;
}

/* n bytes with `code`, **strong** and powers of two. */
static void put_inline(vd_text *w, const char *text, size_t n) {
  bool code = false, strong = false;
  for (size_t i = 0; i < n; ++i) {
    size_t power = code ? 0 : put_exponent(w, text + i, n - i);
    if (power > 0) {
      i += power - 1;
    } else if (text[i] == '`') {
      vd_put(w, code ? "</code>" : "<code>");
      code = !code;
    } else if (!code && i + 1 < n && text[i] == '*' && text[i + 1] == '*') {
      vd_put(w, strong ? "</strong>" : "<strong>");
      strong = !strong;
      ++i;
    } else {
      char one[2] = {text[i], '\0'};
      vd_put_html(w, one);
    }
  }
}

/* One row "| a | b |". right: bit k says that column k stands to the right. */
static void put_row(vd_text *w, const char *line, size_t n, const char *tag, unsigned right) {
  size_t column = 0, from = 1;
  vd_put(w, "<tr>");
  for (size_t i = 1; i < n; ++i) {
    if (line[i] != '|')
      continue;
    size_t a = from, b = i;
    while (a < b && line[a] == ' ')
      ++a;
    while (b > a && line[b - 1] == ' ')
      --b;
    vd_put(w, "<%s%s>", tag, right >> column & 1u ? " class=\"n\"" : "");
    put_inline(w, line + a, b - a);
    vd_put(w, "</%s>", tag);
    from = i + 1;
    if (++column == 31)
      break;
  }
  vd_put(w, "</tr>\n");
}

static unsigned alignment(const char *line, size_t n) {
  unsigned right = 0, column = 0;
  for (size_t i = 1; i < n && column < 31; ++i) {
    if (line[i] != '|')
      continue;
    right |= (unsigned)(line[i - 1] == ':') << column;
    ++column;
  }
  return right;
}

static size_t line_length(const char *text) { return strcspn(text, "\n"); }
static const char *next_line(const char *text) {
  text += line_length(text);
  return text + (*text == '\n');
}

/* The table at text; returns what follows it. */
static const char *put_table(vd_text *w, const char *text) {
  const char *rule = next_line(text);
  unsigned right = alignment(rule, line_length(rule));
  bool named = strspn(text, "| ") < line_length(text); /* a head of empty cells is none */
  vd_put(w, "<div class=\"scroll\"><table>");
  if (named) {
    vd_put(w, "<thead>");
    put_row(w, text, line_length(text), "th", right);
    vd_put(w, "</thead>");
  }
  for (text = next_line(rule); *text == '|'; text = next_line(text))
    put_row(w, text, line_length(text), "td", right);
  vd_put(w, "</table></div>\n");
  return text;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

typedef struct picture {
  const char *heading; /* how the heading begins */
  void (*draw)(vd_text *w, const vd_underflow *u);
  const char *caption;
} picture;

static const picture pictures[] = {
    {"Gradient", vd_draw_gradients,
     "Real runs of the low program against f64, weight by weight and whole. Green: scales at which "
     "no operand"
     " overflows or loses its small numbers; dashed: the advised one. \xe2\x88\x9e: the gradient "
     "is not finite."},
    {"Channels", vd_draw_windows,
     "Where the adjoints of a layer's channel neither overflow nor lose more than the limit, "
     "computed from their"
     " exponents in f64. The green band is what suits all at once."},
    {"Channels", vd_draw_histograms,
     "Share of the numbers of each exponent, all layers. Green: normal numbers of the format at "
     "the advised scale,"
     " yellow: subnormal. Below the adjoints, the same at every other scale: S lowers the window "
     "instead of raising"
     " the numbers."},
    {"Operands", vd_draw_maps,
     "\xe2\x88\x9e: a number overflowed or is NaN. Colours go by decades from 1e-5 to 1."},
    {"The scaler", vd_draw_scaler,
     "Training with the low format from these weights: the scale halves when a gradient is not "
     "finite, and that"
     " step is left out; it doubles after so many good ones."},
};

static void put_pictures(vd_text *w, const vd_underflow *u, const char *heading) {
  for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; ++i) {
    const picture *p = &pictures[i];
    size_t before = w->used;
    if (strncmp(heading, p->heading, strlen(p->heading)) != 0)
      continue;
    vd_put(w, "<figure>");
    size_t open = w->used;
    p->draw(w, u);
    if (w->used > open) {
      vd_put(w, "<figcaption>");
      vd_put_html(w, p->caption);
      vd_put(w, "</figcaption></figure>\n");
    } else if (w->status == TN_OK) { /* nothing to draw */
      w->used = before;
      w->text[before] = '\0';
    }
  }
}

/* ---- Page ------------------------------------------------------------------------------------ */

static void put_body(vd_text *w, const vd_underflow *u, const char *text) {
  while (*text) {
    size_t n = line_length(text);
    if (n == 0) {
      text = next_line(text);
    } else if (*text == '|') {
      text = put_table(w, text);
    } else if (strncmp(text, "- ", 2) == 0) {
      vd_put(w, "<ul>\n");
      for (; strncmp(text, "- ", 2) == 0; text = next_line(text)) {
        vd_put(w, "<li>");
        put_inline(w, text + 2, line_length(text) - 2);
        vd_put(w, "</li>\n");
      }
      vd_put(w, "</ul>\n");
    } else if (strncmp(text, "## ", 3) == 0) {
      vd_put(w, "<h2>");
      put_inline(w, text + 3, n - 3);
      vd_put(w, "</h2>\n");
      put_pictures(w, u, text + 3);
      text = next_line(text);
    } else {
      bool title = strncmp(text, "# ", 2) == 0, advice = strncmp(text, "**", 2) == 0;
      const char *open = title ? "<h1>"
                         : advice
                             ? (u->carried ? "<p class=\"advice ok\">" : "<p class=\"advice bad\">")
                             : "<p>";
      vd_put(w, "%s", open);
      put_inline(w, text + 2 * title, n - 2 * title);
      vd_put(w, title ? "</h1>\n" : "</p>\n");
      text = next_line(text);
    }
  }
}

/* The table of every operand, from its heading on; "" if there is none. */
static const char *every_row(const char *text) {
  const char *from = strstr(text, "\n## Every operand");
  return from != NULL ? next_line(from + 1) : "";
}

tn_status vd_underflow_html(const vd_underflow *u, char **out) {
  vd_text w = {0};
  char *few = NULL, *all = NULL;
  *out = NULL;
  TN_TRY(vd_underflow_markdown(u, false, &few));
  tn_status status = vd_underflow_markdown(u, true, &all);
  vd_put_plain(&w, head, strlen(head));
  vd_put(&w, "<title>");
  vd_put_html(&w, u->title);
  vd_put(&w, "</title>\n</head>\n<body>\n");
  put_body(&w, u, few);
  const char *rows = status == TN_OK ? every_row(all) : "";
  while (*rows && *rows != '|')
    rows = next_line(rows);
  if (*rows == '|') {
    vd_put(&w, "<details><summary>Every operand</summary>\n");
    put_table(&w, rows);
    vd_put(&w, "</details>\n");
  }
  vd_put(&w, "</body>\n</html>\n");
  tn_free(&few);
  tn_free(&all);
  if (w.status == TN_OK)
    w.status = status;
  return vd_text_finish(&w, out);
}
