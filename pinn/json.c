/* json.c: a small JSON writer (RFC 8259).
 *
 * One pass, no tree: a stack of open containers knows whether a key, a comma or an end is due, so
 * what comes out is valid JSON or an error. Members keep the order in which they were written.
 * Numbers are the shortest text that reads back as the same double. NaN and infinity do not exist
 * in JSON; null is what Python's and JavaScript's readers turn into "no value". Misuse is kept as
 * the first failure, as memory errors are, so that a report is written without a test behind each
 * line.
 */
#include "pinn/json.h"

#include <math.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/text.h"

enum { MAX_DEPTH = 64 };

struct pn_json {
  pn_text w;
  char close[MAX_DEPTH];       /* the bracket that closes each open container */
  size_t count[MAX_DEPTH + 1]; /* values written in each; [0] is the document itself */
  size_t depth;
  const char *misuse; /* static text of the first caller's error, or NULL */
  bool ended;         /* the final line end has been written */
};

tn_status pn_json_new(pn_json **out) { return TN_NEW(1, out); }

void pn_json_free(pn_json **json) {
  if (!*json)
    return;
  pn_text_free(&(*json)->w);
  tn_free(json);
}

static void new_line(pn_json *json) {
  pn_put(&json->w, "\n");
  for (size_t i = 0; i < json->depth; ++i)
    pn_put(&json->w, "  ");
}

static void put_string(pn_text *w, const char *text) {
  pn_put(w, "\"");
  while (*text) {
    size_t n = pn_utf8_length(text);
    unsigned char c = (unsigned char)*text;
    if (!n)
      pn_put(w, "\\ufffd");
    else if (c == '"' || c == '\\')
      pn_putf(w, "\\%c", c);
    else if (c == '\n')
      pn_put(w, "\\n");
    else if (c == '\t')
      pn_put(w, "\\t");
    else if (c == '\r')
      pn_put(w, "\\r");
    else if (c < 0x20 || c == 0x7f)
      pn_putf(w, "\\u%04x", c);
    else
      pn_put_bytes(w, text, n);
    text += n ? n : 1;
  }
  pn_put(w, "\"");
}

/* Comma, line and key before a value; false if no value may stand here. */
static bool begin(pn_json *json, const char *key) {
  bool in_object = json->depth && json->close[json->depth - 1] == '}';
  if (!json->misuse && in_object && !key)
    json->misuse = "a member of an object needs a key";
  if (!json->misuse && !in_object && key)
    json->misuse = "only members of an object have keys";
  if (!json->misuse && !json->depth && json->count[0])
    json->misuse = "a second value at the top";
  if (json->misuse)
    return false;
  if (json->count[json->depth]++)
    pn_put(&json->w, ",");
  if (json->depth)
    new_line(json);
  if (key) {
    put_string(&json->w, key);
    pn_put(&json->w, ": ");
  }
  return true;
}

static void open_container(pn_json *json, const char *key, char open, char close) {
  if (!begin(json, key))
    return;
  if (json->depth == MAX_DEPTH) {
    json->misuse = "more than 64 containers inside one another";
    return;
  }
  pn_put_bytes(&json->w, &open, 1);
  json->close[json->depth++] = close;
  json->count[json->depth] = 0;
}

void pn_json_object(pn_json *json, const char *key) { open_container(json, key, '{', '}'); }
void pn_json_array(pn_json *json, const char *key) { open_container(json, key, '[', ']'); }

void pn_json_end(pn_json *json) {
  if (!json->misuse && !json->depth)
    json->misuse = "an end without an open object or array";
  if (json->misuse)
    return;
  bool empty = !json->count[json->depth];
  --json->depth;
  if (!empty)
    new_line(json);
  pn_put_bytes(&json->w, &json->close[json->depth], 1);
}

static void put_number(pn_text *w, double x) {
  if (isfinite(x))
    pn_put_number(w, x);
  else
    pn_put(w, "null");
}

void pn_json_number(pn_json *json, const char *key, double x) {
  if (begin(json, key))
    put_number(&json->w, x);
}

void pn_json_integer(pn_json *json, const char *key, int64_t x) {
  if (begin(json, key))
    pn_putf(&json->w, "%lld", (long long)x);
}

void pn_json_boolean(pn_json *json, const char *key, bool x) {
  if (begin(json, key))
    pn_put(&json->w, x ? "true" : "false");
}

void pn_json_null(pn_json *json, const char *key) {
  if (begin(json, key))
    pn_put(&json->w, "null");
}

void pn_json_string(pn_json *json, const char *key, const char *text) {
  if (!begin(json, key))
    return;
  if (text)
    put_string(&json->w, text);
  else
    pn_put(&json->w, "null");
}

void pn_json_numbers(pn_json *json, const char *key, size_t n, const double *x) {
  if (!begin(json, key))
    return;
  pn_put(&json->w, "[");
  for (size_t i = 0; i < n; ++i) {
    if (i)
      pn_put(&json->w, ", ");
    put_number(&json->w, x[i]);
  }
  pn_put(&json->w, "]");
}

tn_status pn_json_text(pn_json *json, const char **text, size_t *n) {
  if (json->misuse)
    return TN_FAIL(TN_ESTATE, "JSON: %s", json->misuse);
  if (json->depth)
    return TN_FAIL(TN_ESTATE, "JSON: %zu objects or arrays are still open at the end", json->depth);
  if (!json->count[0])
    return TN_FAIL(TN_ESTATE, "JSON: no value was written");
  if (!json->ended)
    pn_put(&json->w, "\n");
  json->ended = true;
  TN_TRY(pn_text_status(&json->w));
  *text = json->w.text;
  if (n)
    *n = json->w.n;
  return TN_OK;
}

tn_status pn_json_write(pn_json *json, const char *path) {
  const char *text = NULL;
  size_t n = 0;
  TN_TRY(pn_json_text(json, &text, &n));
  return pn_write_atomic(path, text, n);
}
