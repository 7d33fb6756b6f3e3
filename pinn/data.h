/* data.h: measured points of a condition: rows of a CSV file or of columns in the problem file. Inside pinn/ only. */
#ifndef PINN_DATA_H
#define PINN_DATA_H

#include "pinn/problem.h"
#include "pinn/toml.h"

/* Everything lives in the problem's arena. Rows are used whole, in the order of the file: in training,
 * in every batch, and again in validation, because there are no others. */
struct pn_data {
  const char *file; /* path as it was opened; NULL: columns in the problem file */
  size_t n;         /* rows, at least 1 */
  size_t n_headers; /* of the source, for errors */
  const char **headers;
  double *coordinate[PN_MAX_COORDINATES]; /* [n]; NULL: no such column */
  size_t n_columns;                       /* that expressions may use */
  const char **name;
  double **column; /* [n] each */
  size_t *line;    /* source line of each row; 0: inline */
  /* sigma: NaN: not given; else (mean of 1/sigma_i^2)^(-1/2), and share, one a row: (sigma/sigma_i)^2; NULL: all 1 */
  double sigma;
  double *share;
};

/* Reads `data` and `columns` of an entry; afterwards its expressions are resolved with naming.data. */
tn_status pn_read_data(pn_problem *problem, const pn_toml *entry, const char *what,
                       pn_data **out) TN_MUST_USE;
/* Reads `sigma`: a number, a column, or an expression of columns, coordinates and constants. */
tn_status pn_read_sigma(pn_problem *problem, const pn_toml *entry, pn_data *data) TN_MUST_USE;
/* Is there a column for every coordinate in `needed`, and does every row lie in the domain? */
tn_status pn_check_data(const pn_problem *problem, const pn_term *term) TN_MUST_USE;
/* Rows first * stride, (first + 1) * stride, ... of a column; PN_SHARE (model.h) is one, too. */
void pn_data_values(const pn_data *data, size_t column, size_t stride, size_t first, size_t count,
                    double *out);
/* The column of that name, or PN_NONE. */
size_t pn_data_column(const pn_data *data, const char *name);
/* "sensors.csv:1: no column `u_obs`, used in heat.toml:11:60; ..."; always fails. */
tn_status pn_no_column(const pn_data *data, const pn_expr *expr, const char *name);
/* A digest of all rows of all conditions and checks, for runs that go on; 0 without data. */
uint64_t pn_data_digest(const pn_problem *problem);

#endif
