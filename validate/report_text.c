/* report_text.c: a text that grows.
 *
 * Numbers are written with snprintf in the C locale, which nobody changes.
 */
#include "validate/report_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void vd_put_plain(vd_text *w, const char *text, size_t n) {
  if (w->status != TN_OK)
    return;
  if (w->used + n + 1 > w->capacity) {
    size_t capacity = 2 * (w->used + n + 1);
    w->status = tn_grow(&w->text, w->capacity, capacity, 1);
    if (w->status != TN_OK)
      return;
    w->capacity = capacity;
  }
  memcpy(w->text + w->used, text, n);
  w->used += n;
  w->text[w->used] = '\0';
}

void vd_put(vd_text *w, const char *format, ...) {
  char piece[2048];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(piece, sizeof piece, format, args);
  va_end(args);
  if (length >= 0)
    vd_put_plain(w, piece, (size_t)length < sizeof piece ? (size_t)length : sizeof piece - 1);
}

void vd_put_html(vd_text *w, const char *text) {
  for (; *text; ++text) {
    const char *escaped = *text == '<'   ? "&lt;"
                          : *text == '>' ? "&gt;"
                          : *text == '&' ? "&amp;"
                          : *text == '"' ? "&quot;"
                                         : NULL;
    if (escaped)
      vd_put_plain(w, escaped, strlen(escaped));
    else
      vd_put_plain(w, text, 1);
  }
}

tn_status vd_text_finish(vd_text *w, char **out) {
  if (w->status == TN_OK)
    vd_put_plain(w, "", 0); /* an empty text is a text */
  if (w->status != TN_OK) {
    tn_free(&w->text);
    return w->status;
  }
  *out = w->text;
  return TN_OK;
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
bool vd_is_number(const char *text) {
  const char *p = text + (*text == '-');
  const char *first = p;
  while (isdigit((unsigned char)*p))
    ++p;
  if (p == first || (*first == '0' && p > first + 1))
    return false;
  if (*p == '.') {
    const char *fraction = ++p;
    while (isdigit((unsigned char)*p))
      ++p;
    if (p == fraction)
      return false;
  }
  if (*p == 'e' || *p == 'E') {
    p += 1 + (p[1] == '+' || p[1] == '-');
    const char *exponent = p;
    while (isdigit((unsigned char)*p))
      ++p;
    if (p == exponent)
      return false;
  }
  return *p == '\0';
}
