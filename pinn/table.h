/* table.h: columns of numbers from and to CSV files, and cubic interpolation of tables. Inside
 * pinn/. */
#ifndef PINN_TABLE_H
#define PINN_TABLE_H

#include "tensor/tensor.h"

/* ---- Columns of numbers ---------------------------------------------------------------------- */

/* CSV: the first line names the columns; a comma between fields; spaces around a field are dropped;
 * "quoted" fields, with "" for a quote, end on their line; LF or CRLF; a byte-order mark, blank
 * lines and lines that start with '#' are skipped. All fields are finite decimal numbers.
 * Everything else is TN_EINPUT with a text that starts "FILE:LINE: ". */
typedef struct pn_table pn_table;

tn_status pn_table_read(const char *path, pn_table **out) TN_MUST_USE; /* at most 1 GiB */
/* The same from memory; `name` stands for the file in error texts. */
tn_status pn_table_parse(const char *name, const char *text, size_t n, pn_table **out) TN_MUST_USE;
/* An empty table for writing: zeros. `name` is copied, as are the columns' names. */
tn_status pn_table_new(const char *name, size_t columns, const char *const *names, size_t rows,
                       pn_table **out) TN_MUST_USE;
void pn_table_free(pn_table **table);

size_t pn_table_rows(const pn_table *table);
size_t pn_table_columns(const pn_table *table);
const char *pn_table_name(const pn_table *table);                       /* of the file */
const char *pn_table_column_name(const pn_table *table, size_t column); /* "" beyond the last */
/* The index of a column, or TN_EINPUT: "sensors.csv:1: no column `u_obs`; columns are x, t, u." */
tn_status pn_table_find(const pn_table *table, const char *column, size_t *index) TN_MUST_USE;
/* The rows of a column, borrowed; the second by index, to be filled. NULL beyond the last. */
tn_status pn_table_column(const pn_table *table, const char *column, const double **x) TN_MUST_USE;
double *pn_table_data(pn_table *table, size_t column);
/* The source line of a row (0: the table was not read from text). */
size_t pn_table_line(const pn_table *table, size_t row);

/* CSV with a header; names are quoted where needed; numbers read back as the same doubles. NaN and
 * infinities are written as nan, inf, -inf (which pn_table_read refuses). Atomic. pn_table_text
 * gives the same text, owned by the caller. */
tn_status pn_table_write(const pn_table *table, const char *path) TN_MUST_USE;
tn_status pn_table_text(const pn_table *table, char **text, size_t *n) TN_MUST_USE;

/* ---- Interpolation --------------------------------------------------------------------------- */

/* What a cubic spline does at its two ends. NOT_A_KNOT: the outer two pieces are one cubic, so
 * cubics are reproduced and the error is O(h^4) up to the ends; NATURAL: the second derivative is 0
 * there. With NOT_A_KNOT and fewer than four points: the parabola, the line. */
typedef enum pn_spline_end { PN_NOT_A_KNOT, PN_NATURAL } pn_spline_end;

/* Copies n >= 2 points, x strictly ascending, all finite; otherwise TN_EINPUT names the index. */
typedef struct pn_spline pn_spline;
tn_status pn_spline_new(size_t n, const double *x, const double *y, pn_spline_end end,
                        pn_spline **out) TN_MUST_USE;
void pn_spline_free(pn_spline **spline);
/* The value; NaN outside [x_0, x_(n-1)] and for NaN. Exact at the points. */
double pn_spline_at(const pn_spline *spline, double x);
/* The spline of two columns of a table, whose rows may stand in any order of x. */
tn_status pn_spline_of_table(const pn_table *table, const char *x, const char *f, pn_spline_end end,
                             pn_spline **out) TN_MUST_USE;

/* The tensor product of splines on a complete grid, f[i * ny + j] at (x_i, y_j). */
typedef struct pn_bicubic pn_bicubic;
tn_status pn_bicubic_new(size_t nx, const double *x, size_t ny, const double *y, const double *f,
                         pn_spline_end end, pn_bicubic **out) TN_MUST_USE;
void pn_bicubic_free(pn_bicubic **bicubic);
double pn_bicubic_at(const pn_bicubic *bicubic, double x, double y); /* NaN outside the grid */
/* From three columns: the rows, in any order, must be each pair (x_i, y_j) once. */
tn_status pn_bicubic_of_table(const pn_table *table, const char *x, const char *y, const char *f,
                              pn_spline_end end, pn_bicubic **out) TN_MUST_USE;

#endif
