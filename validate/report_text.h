/* report_text.h: what the writers of reports share: a growing text, and the inside of a report. */
#ifndef VALIDATE_REPORT_TEXT_H
#define VALIDATE_REPORT_TEXT_H

#include "validate/validate.h"

/* A text that grows. The first error stays in status; later writes do nothing. Zeroed: empty. */
typedef struct vd_text {
  char *text;
  size_t used, capacity;
  tn_status status;
} vd_text;
void vd_put(vd_text *w, const char *format, ...) TN_PRINTF(2, 3); /* pieces below 2000 characters */
void vd_put_plain(vd_text *w, const char *text, size_t n);
void vd_put_html(vd_text *w, const char *text); /* with <, >, & and quotes escaped */
/* Hands the text over, or frees it and returns the first error. */
tn_status vd_text_finish(vd_text *w, char **out) TN_MUST_USE;

typedef struct vd_table {
  char *title;
  size_t n_columns, n_rows;
  char **cell; /* heads, then rows; each owned */
} vd_table;

struct vd_report {
  vd_row *row;
  size_t n, capacity;
  char *advice; /* NULL: none */
  vd_table *table;
  size_t n_tables;
  char **picture; /* <svg> elements */
  size_t n_pictures;
};

/* Does the text read as a JSON number? */
bool vd_is_number(const char *text);

#endif
