/* status.c: what went wrong, one record for each thread.
 *
 * A function that fails returns a code and leaves the details (a text and the place in the source)
 * in a record of its own thread, so that no error needs memory, a lock or an object to live in. The
 * record has a fixed size: a failure for want of memory can be reported like any other.
 *
 * The new text is formatted into scratch space before it replaces the old one, because callers add
 * context to an error by quoting it: TN_FAIL(code, "reading %s: %s", path, tn_error_text()). A text
 * longer than the record loses its end, never a part of a UTF-8 character, and shows it by "...".
 */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1024, PLACE_BYTES = 128 }; /* both with the final zero */

typedef struct {
  tn_status code;
  char text[TEXT_BYTES];
  char place[PLACE_BYTES];
} record;

static _Thread_local record last; /* all zero: TN_OK and "" */

static const struct {
  const char *name, *text;
} codes[] = {
#define ROW(code, text) {#code, text},
    TN_STATUS_LIST(ROW)
#undef ROW
};

static bool is_code(tn_status code) { return (unsigned)code < sizeof codes / sizeof *codes; }

const char *tn_status_name(tn_status code) { return is_code(code) ? codes[code].name : "TN_E?"; }

const char *tn_status_text(tn_status code) {
  return is_code(code) ? codes[code].text : "unknown status";
}

tn_status tn_error_code(void) { return last.code; }

const char *tn_error_text(void) { return last.text; }

const char *tn_error_place(void) { return last.place; }

void tn_error_clear(void) { last = (record){.code = TN_OK}; }

/* Ends a text that filled its TEXT_BYTES by "...", cutting before the first byte of a character. */
static void mark_cut(char *text) {
  size_t end = TEXT_BYTES - 4;
  while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
    --end; /* bytes that continue one */
  memcpy(text + end, "...", 4);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* "file.c:123". Copied by hand: the name may be longer than its field, and the line must survive.
 */
static void set_place(const char *file, int line) {
  const char *name = file ? base_name(file) : "?";
  size_t length = strlen(name);
  if (length > PLACE_BYTES - 16)
    length = PLACE_BYTES - 16; /* 16: colon, sign, 10 digits, zero */
  memcpy(last.place, name, length);
  snprintf(last.place + length, PLACE_BYTES - length, ":%d", line);
}

tn_status tn_fail(tn_status code, const char *file, int line, const char *format, ...) {
  char scratch[TEXT_BYTES]; /* arguments may point into last.text */
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(scratch, sizeof scratch, format, arguments);
  va_end(arguments);
  if (length < 0)
    snprintf(scratch, sizeof scratch, "the error text could not be formatted: %.200s", format);
  else if ((size_t)length >= sizeof scratch)
    mark_cut(scratch);
  if (code == TN_OK)
    code = TN_EINTERNAL; /* a failure never reads as success */
  last.code = code;
  memcpy(last.text, scratch, sizeof scratch);
  set_place(file, line);
  return code;
}
