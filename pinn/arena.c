/* arena.c: memory of a problem, and errors that show their line.
 *
 * A problem is built once, read by many and freed whole, so its strings, nodes and arrays come from
 * one arena: a list of blocks that double in size up to 256 KiB. Taking is a bump of an offset;
 * nothing is freed singly, and no error path has anything to undo.
 *
 * An error about a file reads
 *
 *   burgers.toml:11:29: text
 *     11 | burgers = "u_t + u*u_x = nu*u_xz"
 *        |                             ^^^^
 *
 * Columns count characters (UTF-8 code points), tabs as one. A source line longer than 100
 * characters is shown as a window around the place, with "..." where it was cut.
 */
#include "pinn/expr.h"

#include <string.h>

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 262144, ALIGNMENT = 16 };
enum {
  LONGEST_LINE = 100,
  WINDOW_BEFORE = 40,
  WINDOW = 76,
  ERROR_TEXT = 1000,
  MESSAGE = 620,
  FILE_NAME = 120
};

typedef struct block {
  struct block *next; /* older */
  size_t used, size;  /* bytes of data */
  char *data;         /* owned */
} block;

struct pn_arena {
  block *top;
};

tn_status pn_arena_new(pn_arena **out) { return TN_NEW(1, out); }

void pn_arena_free(pn_arena **arena) {
  if (!*arena)
    return;
  block *b = (*arena)->top;
  while (b) {
    block *next = b->next;
    tn_free(&b->data);
    tn_free(&b);
    b = next;
  }
  tn_free(arena);
}

static tn_status add_block(pn_arena *arena, size_t bytes) {
  size_t size = arena->top ? 2 * arena->top->size : FIRST_BLOCK;
  if (size > LARGEST_BLOCK)
    size = LARGEST_BLOCK;
  if (size < bytes)
    size = bytes;
  block *b = NULL;
  TN_TRY(TN_NEW(1, &b));
  tn_status status = TN_NEW(size, &b->data);
  if (status != TN_OK) {
    tn_free(&b);
    return status;
  }
  b->size = size;
  b->next = arena->top;
  arena->top = b;
  return TN_OK;
}

tn_status pn_arena_take(pn_arena *arena, size_t count, size_t size, void *out) {
  if (size && count > (SIZE_MAX - ALIGNMENT) / size)
    return TN_FAIL(TN_ENOMEM, "%zu elements of %zu bytes do not fit into memory", count, size);
  size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (bytes == 0)
    bytes = ALIGNMENT;
  if (!arena->top || arena->top->size - arena->top->used < bytes)
    TN_TRY(add_block(arena, bytes));
  void *p = arena->top->data + arena->top->used; /* blocks come zeroed */
  arena->top->used += bytes;
  memcpy(out, &p, sizeof p);
  return TN_OK;
}

tn_status pn_arena_text(pn_arena *arena, const char *text, size_t length, char **out) {
  TN_TRY(PN_TAKE(arena, length + 1, out));
  if (length)
    memcpy(*out, text, length);
  return TN_OK;
}

tn_status pn_arena_format(pn_arena *arena, char **out, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = vsnprintf(NULL, 0, format, list);
  va_end(list);
  if (length < 0)
    return TN_FAIL(TN_EINTERNAL, "a text could not be formatted");
  TN_TRY(PN_TAKE(arena, (size_t)length + 1, out));
  va_start(list, format);
  vsnprintf(*out, (size_t)length + 1, format, list);
  va_end(list);
  return TN_OK;
}

/* ---- Error texts ---------------------------------------------------------------------------- */

/* A bounded text under construction; what does not fit is dropped. */
typedef struct text {
  char *at;
  size_t left; /* with the final 0 */
} text;

TN_PRINTF(2, 3) static void put(text *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(t->at, t->left, format, list);
  va_end(list);
  size_t written = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
  t->at += written;
  t->left -= written;
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xC0u) == 0x80u; }

/* The bytes of line `number` (from 1), without its end. */
static const char *line_of(const pn_source *source, size_t number, size_t *length) {
  const char *p = source->text, *end = source->text + source->length;
  for (size_t i = 1; i < number && p < end; ++i) {
    const char *next = memchr(p, '\n', (size_t)(end - p));
    p = next ? next + 1 : end;
  }
  const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
  if (!stop)
    stop = end;
  *length = (size_t)(stop - p);
  if (*length && p[*length - 1] == '\r')
    --*length;
  return p;
}

/* The bytes of `count` characters at p, at most `length`. */
static size_t bytes_of(const char *p, size_t length, size_t count) {
  size_t i = 0;
  while (i < length && count > 0) {
    ++i;
    while (i < length && is_continuation(p[i]))
      ++i;
    --count;
  }
  return i;
}

static size_t characters_of(const char *p, size_t length) {
  size_t n = 0;
  for (size_t i = 0; i < length; ++i)
    n += !is_continuation(p[i]);
  return n;
}

/* The source line and the carets under it. */
static void put_line(text *t, pn_place place, size_t width) {
  size_t length = 0;
  const char *line = line_of(place.source, place.line, &length);
  size_t total = characters_of(line, length), column = place.column ? place.column : 1;
  size_t first = 0, count = total; /* characters shown */
  if (total > LONGEST_LINE) {
    first = column > WINDOW_BEFORE ? column - WINDOW_BEFORE : 0;
    if (first > total)
      first = total;
    if (total - first < WINDOW)
      first = total > WINDOW ? total - WINDOW : 0;
    count = total - first < WINDOW ? total - first : WINDOW;
  }
  const char *from = line + bytes_of(line, length, first);
  size_t bytes = bytes_of(from, length - (size_t)(from - line), count);
  put(t, "\n%4zu | %s%.*s%s\n     | %s", place.line, first ? "..." : "", (int)bytes, from,
      first + count < total ? "..." : "", first ? "   " : "");
  const char *p = from;
  for (size_t i = first + 1; i < column; ++i) {
    put(t, "%c", p < from + bytes && *p == '\t' ? '\t' : ' ');
    p += bytes_of(p, (size_t)(from + bytes - p), 1);
  }
  size_t room = first + count + 1 > column ? first + count + 1 - column : 1;
  if (width > room)
    width = room;
  for (size_t i = 0; i < (width ? width : 1); ++i)
    put(t, "^");
}

static void put_place(char *buffer, size_t size, pn_place place, size_t width,
                      const char *message) {
  text t = {buffer, size};
  const char *file = place.source ? place.source->file : "";
  size_t length = strlen(file);
  if (length > FILE_NAME)
    file += length - FILE_NAME;
  while (is_continuation(*file))
    ++file;
  if (!place.source || !place.line) {
    put(&t, "%s%s%s", file, *file ? ": " : "", message);
    return;
  }
  put(&t, "%s:%zu:%zu: %s", file, place.line, place.column, message);
  put_line(&t, place, width);
}

/* tn_error_text holds 1023 bytes: the message and the file name are bounded so that the line and
 * its carets, which are the point of it all, always fit. */
static tn_status fail_at(tn_status code, pn_place place, size_t width, const char *format,
                         va_list list) {
  char message[MESSAGE], whole[ERROR_TEXT];
  int n = vsnprintf(message, sizeof message, format, list);
  if (n >= MESSAGE)
    memcpy(message + MESSAGE - 4, "...", 4);
  put_place(whole, sizeof whole, place, width, message);
  return TN_FAIL(code, "%s", whole);
}

tn_status pn_fail_at(tn_status code, pn_place place, size_t width, const char *format, ...) {
  va_list list;
  va_start(list, format);
  tn_status status = fail_at(code, place, width, format, list);
  va_end(list);
  return status;
}

tn_status pn_place_text(pn_arena *arena, pn_place place, size_t width, const char *message,
                        char **out) {
  char whole[ERROR_TEXT];
  put_place(whole, sizeof whole, place, width, message);
  return pn_arena_text(arena, whole, strlen(whole), out);
}

/* ---- Places inside strings ------------------------------------------------------------------ */

/* The byte where a place stands in its source. */
static const char *byte_of(pn_place place) {
  size_t length = 0;
  const char *line = line_of(place.source, place.line, &length);
  return line + bytes_of(line, length, place.column - 1);
}

/* Walks a raw TOML string by one decoded byte sequence: returns the raw bytes of the next character
 * and its decoded bytes in *decoded (0: a line-ending backslash, which stands for nothing). */
static size_t raw_step(const char *p, const char *end, bool escapes, size_t *decoded) {
  *decoded = 1;
  if (!escapes || *p != '\\' || p + 1 >= end)
    return 1;
  if (p[1] == 'u' || p[1] == 'U') {
    size_t digits = p[1] == 'u' ? 4 : 8;
    unsigned long code = 0;
    for (size_t i = 0; i < digits && p + 2 + i < end; ++i) {
      char c = p[2 + i];
      code = code * 16 + (unsigned long)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    *decoded = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    return 2 + digits;
  }
  if (p[1] == '\n' || p[1] == '\r' || p[1] == ' ' || p[1] == '\t') {
    size_t n = 1;
    while (p + n < end && strchr(" \t\r\n", p[n]))
      ++n;
    *decoded = 0;
    return n;
  }
  return 2;
}

pn_place pn_phrase_place(const pn_phrase *phrase, size_t offset) {
  pn_place place = phrase->place;
  if (!place.source || !place.line)
    return place;
  const char *p = byte_of(place), *end = place.source->text + place.source->length;
  bool escapes = false;
  if (phrase->quoted && p < end && (*p == '"' || *p == '\'')) {
    char quote = *p;
    escapes = quote == '"';
    size_t quotes = end - p >= 3 && p[1] == quote && p[2] == quote ? 3 : 1;
    p += quotes;
    place.column += quotes;
    if (quotes == 3 && p < end && *p == '\r')
      ++p;
    if (quotes == 3 && p < end && *p == '\n') { /* a line end right after the quotes is dropped */
      ++p;
      ++place.line;
      place.column = 1;
    }
  }
  size_t decoded = 0;
  for (size_t done = 0; p < end; done += decoded) {
    size_t raw = raw_step(p, end, escapes, &decoded);
    if (raw > (size_t)(end - p))
      raw = (size_t)(end - p);
    if (decoded > 0 && done >= offset)
      break;
    for (size_t i = 0; i < raw; ++i) {
      if (p[i] == '\n') {
        ++place.line;
        place.column = 1;
      } else if (!is_continuation(p[i])) {
        ++place.column;
      }
    }
    p += raw;
  }
  return place;
}

pn_place pn_expr_place(const pn_expr *expr) {
  static const pn_place nowhere = {NULL, 0, 0};
  return expr && expr->phrase ? pn_phrase_place(expr->phrase, expr->start) : nowhere;
}

tn_status pn_expr_fail(tn_status code, const pn_expr *expr, const char *format, ...) {
  va_list list;
  va_start(list, format);
  size_t width = expr ? expr->length : 0;
  tn_status status = fail_at(code, pn_expr_place(expr), width, format, list);
  va_end(list);
  return status;
}
