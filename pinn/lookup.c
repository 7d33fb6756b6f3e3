/* lookup.c: the functions of [tables] as numbers.
 *
 * A table of one coordinate is a cubic spline (not-a-knot) or straight lines between its rows; of
 * two coordinates the tensor product of splines on a complete grid. Outside its rows a table has
 * no value (NaN): extrapolation would be an invention.
 */
#include "pinn/lookup.h"

#include <math.h>
#include <stdlib.h>

#include "pinn/files.h"
#include "pinn/table.h"

#include <string.h>

typedef struct sample {
  double x, f;
} sample;

struct pn_lookup {
  size_t of[2];
  pn_spline *spline;   /* or */
  pn_bicubic *bicubic; /* or */
  size_t n;            /* straight lines between these, ascending */
  sample *rows;
};

static int by_x(const void *a, const void *b) {
  double x = ((const sample *)a)->x, y = ((const sample *)b)->x;
  return x < y ? -1 : x > y;
}

static tn_status read_lines(const pn_table *table, const char *x_name, const char *f_name,
                            pn_lookup *lookup) {
  const double *x = NULL, *f = NULL;
  TN_TRY(pn_table_column(table, x_name, &x));
  TN_TRY(pn_table_column(table, f_name, &f));
  lookup->n = pn_table_rows(table);
  if (lookup->n < 2)
    return TN_FAIL(TN_EINPUT, "%s: %zu rows, expected at least 2", pn_table_name(table), lookup->n);
  TN_TRY(TN_NEW(lookup->n, &lookup->rows));
  for (size_t i = 0; i < lookup->n; ++i)
    lookup->rows[i] = (sample){x[i], f[i]};
  qsort(lookup->rows, lookup->n, sizeof *lookup->rows, by_x);
  for (size_t i = 1; i < lookup->n; ++i)
    if (!(lookup->rows[i - 1].x < lookup->rows[i].x))
      return TN_FAIL(TN_EINPUT, "%s: %s = %.17g stands in two rows", pn_table_name(table), x_name,
                     lookup->rows[i].x);
  return TN_OK;
}

static tn_status interpolate(const pn_problem *problem, const pn_table_entry *entry,
                             const pn_table *table, pn_lookup *lookup) {
  const char *x = problem->coordinates[entry->of[0]].name;
  bool linear = entry->method && strcmp(entry->method, "linear") == 0;
  lookup->of[0] = entry->of[0];
  if (entry->n_of == 1)
    return linear ? read_lines(table, x, entry->column, lookup)
                  : pn_spline_of_table(table, x, entry->column, PN_NOT_A_KNOT, &lookup->spline);
  if (entry->n_of == 2 && !linear) {
    lookup->of[1] = entry->of[1];
    return pn_bicubic_of_table(table, x, problem->coordinates[entry->of[1]].name, entry->column,
                               PN_NOT_A_KNOT, &lookup->bicubic);
  }
  return pn_fail_at(TN_EUNSUPPORTED, entry->place, strlen(entry->name),
                    "table `%s` has %zu coordinates and method \"%s\"; tables of one coordinate "
                    "(cubic, linear) or two (cubic) can be read",
                    entry->name, entry->n_of, linear ? "linear" : "cubic");
}

tn_status pn_lookup_new(const pn_problem *problem, size_t table, pn_lookup **out) {
  const pn_table_entry *entry = &problem->tables[table];
  pn_lookup *lookup = NULL;
  pn_table *rows = NULL;
  char *folder = NULL, *path = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &lookup));
  tn_status status = pn_path_folder(problem->source.file ? problem->source.file : "", &folder);
  if (status == TN_OK)
    status = pn_path_join(folder, entry->file, &path);
  if (status == TN_OK)
    status = pn_table_read(path, &rows);
  if (status == TN_OK)
    status = interpolate(problem, entry, rows, lookup);
  pn_table_free(&rows);
  tn_free(&path);
  tn_free(&folder);
  if (status != TN_OK)
    pn_lookup_free(&lookup);
  *out = lookup;
  return status;
}

void pn_lookup_free(pn_lookup **lookup) {
  if (!*lookup)
    return;
  pn_spline_free(&(*lookup)->spline);
  pn_bicubic_free(&(*lookup)->bicubic);
  tn_free(&(*lookup)->rows);
  tn_free(lookup);
}

double pn_lookup_at(const pn_lookup *lookup, const double *point) {
  double x = point[lookup->of[0]];
  if (lookup->spline)
    return pn_spline_at(lookup->spline, x);
  if (lookup->bicubic)
    return pn_bicubic_at(lookup->bicubic, x, point[lookup->of[1]]);
  if (!(x >= lookup->rows[0].x && x <= lookup->rows[lookup->n - 1].x))
    return NAN;
  size_t low = 0, high = lookup->n - 1;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (lookup->rows[middle].x <= x)
      low = middle;
    else
      high = middle;
  }
  const sample *a = &lookup->rows[low], *b = &lookup->rows[high];
  double s = (x - a->x) / (b->x - a->x);
  return a->f * (1 - s) + b->f * s;
}
