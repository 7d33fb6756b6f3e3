/* eval_compare.c: `pinn eval RESULT --compare ref.csv`: a solution beside a table of reference values.
 *
 * The table has a column for each coordinate and, in any order of rows and columns, u_ref (or u) for the
 * unknown u. For each unknown that has one
 *
 *   relative L2 = |u - ref| / |ref|,   max |u - ref| and where,   mean |u - ref|
 *
 * over the rows. What cannot be placed is an error with the header, because a table of x, u against u(x, y) and
 * one whose column was renamed both look like an answer otherwise.
 */
#include "pinn/eval_compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/table.h"
#include "pinn/text.h"

enum { HEADER = 600 };

typedef struct comparison {
  pn_problem *problem;
  pn_table *table;
  const char *path;
  char header[HEADER];
  uint32_t given; /* coordinates with a column */
  const double *column[PN_MAX_COORDINATES];
  size_t n, *unknown; /* compared */
  const double **ref;
} comparison;

static void read_header(comparison *c) {
  size_t n = 0;
  for (size_t k = 0; k < pn_table_columns(c->table) && n < HEADER - 80; ++k)
    n += (size_t)snprintf(c->header + n, HEADER - n, "%s%.60s", k ? "," : "",
                          pn_table_column_name(c->table, k));
}

static size_t coordinate_of(const pn_problem *p, const char *name) {
  size_t c = 0;
  while (c < p->n_coordinates && strcmp(p->coordinates[c].name, name) != 0)
    ++c;
  return c;
}

/* u of `u`, `u_ref`, `u_obs`, `u_exact`; n_unknowns: of none. */
static size_t unknown_of(const pn_problem *p, const char *name) {
  static const char *const endings[] = {"", "_ref", "_obs", "_exact"};
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    size_t n = strlen(p->unknowns[u].name);
    for (size_t k = 0; strncmp(p->unknowns[u].name, name, n) == 0 && k < 4; ++k)
      if (strcmp(name + n, endings[k]) == 0)
        return u;
  }
  return p->n_unknowns;
}

static tn_status sort_columns(comparison *c) {
  const pn_problem *p = c->problem;
  size_t columns = pn_table_columns(c->table);
  TN_TRY(TN_NEW(columns, &c->unknown));
  TN_TRY(TN_NEW(columns, &c->ref));
  for (size_t k = 0; k < columns; ++k) {
    const char *name = pn_table_column_name(c->table, k);
    size_t axis = coordinate_of(p, name), u = unknown_of(p, name);
    if (axis < p->n_coordinates) {
      c->column[axis] = pn_table_data(c->table, k);
      c->given |= UINT32_C(1) << axis;
    } else if (u < p->n_unknowns) {
      for (size_t i = 0; i < c->n; ++i)
        if (c->unknown[i] == u)
          return TN_FAIL(TN_EINPUT, "%s:1: two columns for `%s` in the header `%s`", c->path,
                         p->unknowns[u].name, c->header);
      c->unknown[c->n] = u;
      c->ref[c->n++] = pn_table_data(c->table, k);
    } else {
      return TN_FAIL(TN_EINPUT, "%s:1: column `%s` is neither a coordinate nor u_ref of an unknown u; "
                                "the header is `%s`",
                     c->path, name, c->header);
    }
  }
  if (c->n == 0)
    return TN_FAIL(TN_EINPUT, "%s:1: no column of reference values, as `%s_ref`; the header is `%s`",
                   c->path, p->unknowns[0].name, c->header);
  return TN_OK;
}

static tn_status check_columns(const comparison *c) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < c->n; ++i) {
    const pn_item item = {.kind = PN_ITEM_UNKNOWN, .unknown = c->unknown[i]};
    uint32_t missing = pn_item_depends(p, &item) & ~c->given;
    for (size_t x = 0; x < p->n_coordinates; ++x)
      if (missing >> x & 1u)
        return TN_FAIL(TN_EINPUT, "%s:1: no column `%s`, which `%s` depends on; the header is `%s`",
                       c->path, p->coordinates[x].name, p->unknowns[c->unknown[i]].name, c->header);
  }
  for (size_t x = 0; x < p->n_coordinates; ++x)
    for (size_t r = 0; c->column[x] && !pn_moves(&p->coordinates[x]) && r < pn_table_rows(c->table);
         ++r) {
      const pn_coordinate *k = &p->coordinates[x];
      double slack = 1e-9 * (k->hi - k->lo);
      if (!(c->column[x][r] >= k->lo - slack && c->column[x][r] <= k->hi + slack))
        return TN_FAIL(TN_EINPUT, "%s:%zu: %s = %.10g lies outside the domain, %s in [%g, %g]", c->path,
                       pn_table_line(c->table, r), k->name, c->column[x][r], k->name, k->lo, k->hi);
    }
  return TN_OK;
}

static void put_error(const comparison *c, size_t i, const double *u, FILE *out) {
  const pn_problem *p = c->problem;
  const pn_unknown *unknown = &p->unknowns[c->unknown[i]];
  double square = 0, size = 0, mean = 0, worst = -1;
  size_t at = 0, n = pn_table_rows(c->table);
  for (size_t r = 0; r < n; ++r) {
    double e = fabs(u[r] - c->ref[i][r]);
    square += e * e;
    size += c->ref[i][r] * c->ref[i][r];
    mean += e / (double)n;
    if (e > worst || isnan(e)) {
      worst = e;
      at = r;
    }
  }
  fprintf(out, "%s: %s L2 %.6g, max %.6g at ", unknown->name, size > 0 ? "relative" : "absolute",
          size > 0 ? sqrt(square / size) : sqrt(square / (double)n), worst);
  for (size_t j = 0; j < unknown->n_of; ++j)
    if (c->column[unknown->of[j]])
      fprintf(out, "%s%s = %.6g", j ? ", " : "", p->coordinates[unknown->of[j]].name,
              c->column[unknown->of[j]][at]);
  fprintf(out, ", mean %.6g, %zu rows\n", mean, n);
}

static tn_status compare(comparison *c, pn_model *model, tn_pool *pool, const double *theta,
                         FILE *out) {
  pn_item *items = NULL;
  double *values = NULL;
  pn_values *v = NULL;
  size_t n = pn_table_rows(c->table);
  TN_TRY(TN_NEW(c->n, &items));
  tn_status status = TN_NEW(c->n * n, &values);
  for (size_t i = 0; i < c->n; ++i)
    items[i] = (pn_item){.kind = PN_ITEM_UNKNOWN, .unknown = c->unknown[i]};
  if (status == TN_OK)
    status = pn_values_new(model, pool, c->given, c->n, items, &v);
  if (status == TN_OK)
    status = pn_values_at(v, theta, n, c->column, values);
  for (size_t i = 0; status == TN_OK && out && i < c->n; ++i)
    put_error(c, i, values + i * n, out);
  pn_values_free(&v);
  tn_free(&values);
  tn_free(&items);
  return status;
}

tn_status pn_eval_compare(pn_model *model, tn_pool *pool, const double *theta, const char *path,
                          FILE *out) {
  comparison c = {.problem = model->problem, .path = path};
  TN_TRY(pn_table_read(path, &c.table));
  read_header(&c);
  tn_status status = pn_table_rows(c.table) > 0
                         ? sort_columns(&c)
                         : TN_FAIL(TN_EINPUT, "%s:1: no rows below the header `%s`", path, c.header);
  if (status == TN_OK)
    status = check_columns(&c);
  if (status == TN_OK)
    status = compare(&c, model, pool, theta, out);
  pn_table_free(&c.table);
  tn_free(&c.unknown);
  tn_free(&c.ref);
  return status;
}
