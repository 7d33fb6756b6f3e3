/* json.h: a small JSON writer. Inside pinn/ only. */
#ifndef PINN_JSON_H
#define PINN_JSON_H

#include "tensor/tensor.h"

typedef struct pn_json pn_json;

/* Writes one value, in the order of the calls, indented by two spaces. `key` is the member's name
 * inside an object and NULL elsewhere; another use is TN_ESTATE. The calls between pn_json_new and
 * the end return nothing: the first failure is kept and pn_json_text or pn_json_write returns
 * it. */
tn_status pn_json_new(pn_json **out) TN_MUST_USE;
void pn_json_free(pn_json **json);

void pn_json_object(pn_json *json, const char *key); /* opens; pn_json_end closes */
void pn_json_array(pn_json *json, const char *key);
void pn_json_end(pn_json *json);
void pn_json_number(pn_json *json, const char *key,
                    double x); /* shortest; NaN and infinities: null */
void pn_json_integer(pn_json *json, const char *key, int64_t x);
void pn_json_boolean(pn_json *json, const char *key, bool x);
void pn_json_string(pn_json *json, const char *key,
                    const char *text); /* NULL: null; bad UTF-8: U+FFFD */
void pn_json_null(pn_json *json, const char *key);
void pn_json_numbers(pn_json *json, const char *key, size_t n,
                     const double *x); /* an array, one line */

/* The finished text with a line end, zero-terminated, borrowed until the writer is freed. TN_ESTATE
 * unless exactly one complete value was written. n may be NULL. */
tn_status pn_json_text(pn_json *json, const char **text, size_t *n) TN_MUST_USE;
tn_status pn_json_write(pn_json *json, const char *path) TN_MUST_USE; /* atomically */

#endif
