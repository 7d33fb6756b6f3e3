/* text.h: a text that grows, shared by the JSON, CSV, SVG and HTML writers. Inside pinn/ only.
 *
 * Appending cannot fail visibly: the first failure is kept and everything after it is ignored, so
 * that a writer reads like the document it makes. pn_text_status gives the first failure at the
 * end.
 */
#ifndef PINN_TEXT_H
#define PINN_TEXT_H

#include "tensor/tensor.h"

typedef struct pn_text {
  char *text;       /* owned, always ends in a zero byte once anything was written; NULL before */
  size_t n;         /* bytes without that zero */
  size_t capacity;  /* bytes allocated */
  tn_status status; /* the first failure */
} pn_text;          /* {0} is an empty text */

void pn_text_free(pn_text *w);
tn_status pn_text_status(const pn_text *w) TN_MUST_USE;
/* The bytes move to the caller (tn_free frees them; never NULL on success) and w is empty again. */
tn_status pn_text_take(pn_text *w, char **text, size_t *n) TN_MUST_USE; /* n may be NULL */

void pn_put_bytes(pn_text *w, const char *bytes, size_t n);
void pn_put(pn_text *w, const char *text);
/* printf without floating-point conversions (they follow the locale): use the two below. */
void pn_putf(pn_text *w, const char *format, ...) TN_PRINTF(2, 3);
void pn_put_number(pn_text *w, double x);              /* shortest text that reads back as x */
void pn_put_fixed(pn_text *w, double x, int decimals); /* rounded, 0..9 decimals, no "-0.00" */
/* Escaped for HTML, XML and attributes in double quotes; control characters that XML forbids and
 * bytes that are not UTF-8 become U+FFFD. */
void pn_put_escaped(pn_text *w, const char *text);

enum { PN_TEXT_NUMBER = 32 };
/* The shortest decimal text that reads back as x: "0.1", "-3", "1e+300", "nan", "inf", "-inf". Uses
 * a point in every locale. Returns its length. */
size_t pn_text_of_number(double x, char text[PN_TEXT_NUMBER]);
size_t pn_text_of_fixed(double x, int decimals, char text[PN_TEXT_NUMBER]); /* as pn_put_fixed */
/* The number that a plain decimal text of n bytes holds (sign, digits, point, exponent; nothing
 * else, no "nan", no hexadecimal), read the same in every locale. False if it is none or
 * overflows. */
bool pn_number_of_text(const char *text, size_t n, double *x);
/* Bytes of the UTF-8 character that starts at text (1..4), or 0 if there is none that is valid. */
size_t pn_utf8_length(const char *text);

#endif
