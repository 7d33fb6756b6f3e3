/* html.h: builds the report: one HTML file that needs neither network nor script. Inside pinn/
 * only.
 *
 * Texts are escaped; MathML and SVG are markup and go in as they are, so they must come from our
 * own writers. The calls return nothing: the first failure is kept and pn_report_text or
 * pn_report_write returns it. What comes before the first section stands below the title.
 */
#ifndef PINN_HTML_H
#define PINN_HTML_H

#include "tensor/tensor.h"

typedef struct pn_report pn_report;
tn_status pn_report_new(const char *title, pn_report **out) TN_MUST_USE; /* title is copied */
void pn_report_free(pn_report **report);

/* A banner: green with ok, red without; the word ("CONVERGED"), then the text; "" for none. */
void pn_report_verdict(pn_report *report, bool ok, const char *word, const char *text);
void pn_report_section(pn_report *report, const char *title); /* sections are listed at the top */
void pn_report_heading(pn_report *report, const char *title); /* inside a section */
void pn_report_paragraph(pn_report *report, const char *text);
void pn_report_warning(pn_report *report, const char *text); /* set off in amber */
void pn_report_pre(pn_report *report, const char *text);     /* as it is: files, commands */
void pn_report_math(pn_report *report,
                    const char *mathml); /* one <math> element, on its own line */
void pn_report_figure(pn_report *report, const char *svg,
                      const char *caption); /* caption or NULL */

/* A table of `columns` headers and rows * columns cells, row by row (NULL: empty). Columns
 * of numbers stand to the right. */
void pn_report_table(pn_report *report, size_t columns, const char *const *headers, size_t rows,
                     const char *const *cells);
/* Names and values beside one another. */
void pn_report_pairs(pn_report *report, size_t count, const char *const *keys,
                     const char *const *values);
/* A text that can be unfolded, for what is long and seldom read. */
void pn_report_folded(pn_report *report, const char *summary, const char *text);

/* The page, zero-terminated, the caller's (tn_free). n may be NULL. More can be added
 * afterwards. */
tn_status pn_report_text(pn_report *report, char **text, size_t *n) TN_MUST_USE;
tn_status pn_report_write(pn_report *report, const char *path) TN_MUST_USE; /* atomically */

#endif
