/* text.c: a text that grows, and numbers as text.
 *
 * The buffer doubles, so n bytes cost O(n) copies. Numbers are printed with 15, 16 or 17
 * significant digits, the first that reads back as the same double: 17 always do (IEEE 754), 15
 * keep what people typed. snprintf and strtod follow LC_NUMERIC; since a host program may have
 * called setlocale, the decimal point is put back after printing, and reading replaces the point by
 * the locale's own.
 */
#include "pinn/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pn_text_free(pn_text *w) {
  tn_free(&w->text);
  *w = (pn_text){0};
}

/* Room for `more` bytes and the closing zero. */
static bool reserve(pn_text *w, size_t more) {
  if (w->status != TN_OK)
    return false;
  if (more > SIZE_MAX / 4 - w->n) {
    w->status = TN_FAIL(TN_ENOMEM, "a text of %zu bytes cannot grow by %zu", w->n, more);
    return false;
  }
  size_t needed = w->n + more + 1;
  if (needed <= w->capacity)
    return true;
  size_t capacity = w->capacity ? w->capacity : 256;
  while (capacity < needed)
    capacity *= 2;
  w->status = w->text ? tn_grow(&w->text, w->capacity, capacity, 1) : tn_new(capacity, 1, &w->text);
  if (w->status != TN_OK)
    return false;
  w->capacity = capacity;
  return true;
}

tn_status pn_text_status(const pn_text *w) {
  if (w->status == TN_OK || tn_error_code() == w->status)
    return w->status;
  return TN_FAIL(w->status, "a text of %zu bytes could not be completed", w->n);
}

tn_status pn_text_take(pn_text *w, char **text, size_t *n) {
  if (!reserve(w, 0))
    return pn_text_status(w);
  w->text[w->n] = 0;
  *text = w->text;
  if (n)
    *n = w->n;
  *w = (pn_text){0};
  return TN_OK;
}

void pn_put_bytes(pn_text *w, const char *bytes, size_t n) {
  if (!reserve(w, n))
    return;
  memcpy(w->text + w->n, bytes, n);
  w->n += n;
  w->text[w->n] = 0;
}

void pn_put(pn_text *w, const char *text) { pn_put_bytes(w, text, strlen(text)); }

void pn_putf(pn_text *w, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (n < 0 && w->status == TN_OK)
    w->status = TN_FAIL(TN_EINTERNAL, "the format \"%s\" cannot be printed", format);
  else if (n >= 0 && reserve(w, (size_t)n)) {
    vsnprintf(w->text + w->n, (size_t)n + 1, format, again);
    w->n += (size_t)n;
  }
  va_end(again);
}

size_t pn_text_of_number(double x, char text[PN_TEXT_NUMBER]) {
  if (!isfinite(x)) {
    strcpy(text, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    return strlen(text);
  }
  for (int digits = 15; digits <= 17; ++digits) {
    snprintf(text, PN_TEXT_NUMBER, "%.*g", digits, x);
    if (strtod(text, NULL) == x)
      break; /* same locale as snprintf */
  }
  const char *point = localeconv()->decimal_point;
  char *at = strcmp(point, ".") ? strstr(text, point) : NULL;
  if (at) {
    *at = '.';
    memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
  }
  return strlen(text);
}

/* sign? digits with at most one point, at least one digit, exponent? */
static bool plain_decimal(const char *s, size_t n) {
  size_t i = 0, digits = 0, points = 0;
  if (i < n && (s[i] == '+' || s[i] == '-'))
    ++i;
  for (; i < n && ((s[i] >= '0' && s[i] <= '9') || s[i] == '.'); ++i)
    s[i] == '.' ? ++points : ++digits;
  if (!digits || points > 1)
    return false;
  if (i == n)
    return true;
  if (s[i] != 'e' && s[i] != 'E')
    return false;
  ++i;
  if (i < n && (s[i] == '+' || s[i] == '-'))
    ++i;
  size_t first = i;
  while (i < n && s[i] >= '0' && s[i] <= '9')
    ++i;
  return i == n && i > first;
}

bool pn_number_of_text(const char *text, size_t n, double *x) {
  char copy[512]; /* longer texts are no numbers that anybody means */
  const char *point = localeconv()->decimal_point;
  size_t width = strlen(point), m = 0;
  if (n + width >= sizeof copy || !plain_decimal(text, n))
    return false;
  for (size_t i = 0; i < n; ++i) {
    if (text[i] != '.') {
      copy[m++] = text[i];
      continue;
    }
    memcpy(copy + m, point, width);
    m += width;
  }
  copy[m] = 0;
  *x = strtod(copy, NULL);
  return isfinite(*x);
}

void pn_put_number(pn_text *w, double x) {
  char text[PN_TEXT_NUMBER];
  pn_put_bytes(w, text, pn_text_of_number(x, text));
}

size_t pn_text_of_fixed(double x, int decimals, char text[PN_TEXT_NUMBER]) {
  double scale = 1;
  for (int i = 0; i < decimals; ++i)
    scale *= 10;
  double scaled = round(fabs(x) * scale);
  if (!(scaled <
        9e15)) /* beyond exact integers, or not finite: digits after the point mean nothing */
    return pn_text_of_number(x, text);
  uint64_t whole = (uint64_t)scaled, unit = (uint64_t)scale;
  int n = snprintf(text, PN_TEXT_NUMBER, "%s%llu", x < 0 && whole ? "-" : "",
                   (unsigned long long)(whole / unit));
  if (decimals > 0)
    n += snprintf(text + n, PN_TEXT_NUMBER - (size_t)n, ".%0*llu", decimals,
                  (unsigned long long)(whole % unit));
  return (size_t)n; /* at most a sign, 16 digits and the point */
}

void pn_put_fixed(pn_text *w, double x, int decimals) {
  char text[PN_TEXT_NUMBER];
  pn_put_bytes(w, text, pn_text_of_fixed(x, decimals, text));
}

size_t pn_utf8_length(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  if (s[0] < 0x80)
    return s[0] ? 1 : 0;
  size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4)
    return 0;
  for (size_t i = 1; i < n; ++i)
    if ((s[i] & 0xc0) != 0x80)
      return 0; /* a zero byte stops here */
  if (s[0] == 0xe0 && s[1] < 0xa0)
    return 0; /* overlong */
  if (s[0] == 0xed && s[1] > 0x9f)
    return 0; /* surrogates */
  if (s[0] == 0xf0 && s[1] < 0x90)
    return 0; /* overlong */
  if (s[0] == 0xf4 && s[1] > 0x8f)
    return 0; /* beyond U+10FFFF */
  return n;
}

void pn_put_escaped(pn_text *w, const char *text) {
  while (*text) {
    size_t n = pn_utf8_length(text);
    unsigned char c = (unsigned char)*text;
    if (!n || (c < 0x20 && c != '\n' && c != '\t' && c != '\r'))
      pn_put(w, "\xef\xbf\xbd");
    else if (c == '<')
      pn_put(w, "&lt;");
    else if (c == '>')
      pn_put(w, "&gt;");
    else if (c == '&')
      pn_put(w, "&amp;");
    else if (c == '"')
      pn_put(w, "&quot;");
    else if (c == '\'')
      pn_put(w, "&#39;");
    else
      pn_put_bytes(w, text, n);
    text += n ? n : 1;
  }
}
