/* bench_text.c: reports of `pinn bench`: lines for people and one JSON object for programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"

void bench_put(bench_text *out, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  size_t needed = out->n + (size_t)(n > 0 ? n : 0) + 1;
  if (needed > out->capacity && !out->failed) {
    size_t capacity = 2 * needed;
    out->failed = tn_grow(&out->text, out->capacity, capacity, 1) != TN_OK;
    out->capacity = out->failed ? out->capacity : capacity;
  }
  if (!out->failed && n > 0)
    out->n += (size_t)vsnprintf(out->text + out->n, out->capacity - out->n, format, again);
  va_end(again);
  va_end(arguments);
}

int bench_deliver(bench_text *words, bench_text *json, const char *path) {
  int result = 0;
  if (words->failed || json->failed || !words->text || !json->text)
    result = cli_failed(TN_FAIL(TN_ENOMEM, "out of memory for the report"));
  if (result == 0)
    result = cli_write(NULL, words->text);
  if (result == 0 && path)
    result = cli_write(path, json->text);
  tn_free(&words->text);
  tn_free(&json->text);
  return result;
}

static void put_key(bench_text *out, const char *key) {
  bench_put(out, "%s\n  \"%s\": ", out->n == 0 ? "{" : ",", key);
}

void bench_json_number(bench_text *out, const char *key, double value) {
  char number[40];
  put_key(out, key);
  snprintf(number, sizeof number, "%.15g", value);
  if (!isfinite(value))
    snprintf(number, sizeof number, "null");
  bench_put(out, "%s", number);
}

void bench_json_text(bench_text *out, const char *key, const char *value) {
  put_key(out, key);
  bench_put(out, "\"");
  for (; *value != '\0'; ++value) {
    unsigned char c = (unsigned char)*value;
    if (c == '"' || c == '\\')
      bench_put(out, "\\%c", c);
    else if (c < 0x20)
      bench_put(out, "\\u%04x", c);
    else
      bench_put(out, "%c", c);
  }
  bench_put(out, "\"");
}

void bench_json_end(bench_text *out) { bench_put(out, "\n}\n"); }

const char *bench_compiler(void) {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}
