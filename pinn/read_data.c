/* read_data.c: measured points: rows of a CSV file, or of arrays in the problem file.
 *
 * A column is a coordinate, or a name that the condition's expressions may use. What a file calls its
 * columns is its own business: columns = { u_obs = "u" } gives one another name, and one whose name is
 * taken (a file with x, t, u beside the unknown u) is invisible until it is given one. Nothing is
 * broadcast and nothing interpolated: every column has a number in every row.
 *
 * sigma, the standard deviation of a measurement, may differ from row to row. The loss has
 *
 *   share_i (F_i / s)^2 / n,   share_i = (sigma / sigma_i)^2,   1 / sigma^2 = mean of 1 / sigma_i^2
 *
 * a mean with the weights that make the estimate of least variance; what sigma itself is for stands in
 * data_weights.c.
 */
#include "pinn/data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/keys.h"
#include "pinn/model.h"
#include "pinn/ranks.h"
#include "pinn/read.h"
#include "pinn/region.h"
#include "pinn/table.h"
#include "pinn/text.h"

enum { WORDS = 512 };

/* Columns as they come, before names are given. */
typedef struct source {
  pn_problem *problem;
  const char *what; /* the entry's name */
  const pn_toml *node, *renames;
  pn_data *data;
  size_t n;           /* columns */
  const char **name;  /* as expressions would call them; NULL: not given */
  bool *renamed;      /* by the user: then it must be usable */
  double **column;
} source;

/* ---- Columns of the problem file --------------------------------------------------------------- */

static tn_status read_array(source *s, const pn_toml *array, double **out) {
  if (array->kind != PN_TOML_ARRAY || array->n == 0)
    return pn_fail_at(TN_EINPUT, array->place, 1,
                      "column `%s` of the data of `%s` is %s; a list of numbers is asked for",
                      array->key, s->what, pn_toml_kind_text(array->kind));
  if (s->data->n && array->n != s->data->n)
    return pn_fail_at(TN_EINPUT, array->key_place, strlen(array->key),
                      "column `%s` of the data of `%s` has %zu numbers, `%s` has %zu", array->key,
                      s->what, array->n, s->node->items[0]->key, s->data->n);
  s->data->n = array->n;
  TN_TRY(PN_TAKE(s->problem->arena, array->n, out));
  for (size_t i = 0; i < array->n; ++i) {
    const pn_toml *item = array->items[i];
    if (item->kind != PN_TOML_INTEGER && item->kind != PN_TOML_FLOAT &&
        item->kind != PN_TOML_STRING)
      return pn_fail_at(TN_EINPUT, item->place, 1,
                        "column `%s` of the data of `%s` holds %s; one number a row is asked for",
                        array->key, s->what, pn_toml_kind_text(item->kind));
    TN_TRY(pn_read_number(s->problem, item, NULL, 0, &(*out)[i]));
  }
  return TN_OK;
}

static tn_status take_inline(source *s) {
  pn_arena *arena = s->problem->arena;
  s->n = s->node->n;
  if (s->n == 0)
    return pn_fail_at(TN_EINPUT, s->node->place, 1, "the data of `%s` has no columns", s->what);
  TN_TRY(PN_TAKE(arena, s->n, &s->data->headers));
  TN_TRY(PN_TAKE(arena, s->n, &s->column));
  for (size_t k = 0; k < s->n; ++k) {
    s->data->headers[s->data->n_headers++] = s->node->items[k]->key;
    TN_TRY(read_array(s, s->node->items[k], &s->column[k]));
  }
  return TN_OK;
}

/* ---- Columns of a file --------------------------------------------------------------------------- */

static tn_status copy_table(source *s, pn_table *table) {
  pn_arena *arena = s->problem->arena;
  pn_data *data = s->data;
  char *text = NULL;
  s->n = pn_table_columns(table);
  data->n = pn_table_rows(table);
  if (data->n == 0)
    return TN_FAIL(TN_EINPUT, "%s:1: no rows below the header; `%s` needs at least one", data->file,
                   s->what);
  TN_TRY(PN_TAKE(arena, s->n, &data->headers));
  TN_TRY(PN_TAKE(arena, s->n, &s->column));
  TN_TRY(PN_TAKE(arena, data->n, &data->line));
  for (size_t k = 0; k < s->n; ++k) {
    const char *header = pn_table_column_name(table, k);
    TN_TRY(pn_arena_text(arena, header, strlen(header), &text));
    data->headers[data->n_headers++] = text;
    TN_TRY(PN_TAKE(arena, data->n, &s->column[k]));
    memcpy(s->column[k], pn_table_data(table, k), data->n * sizeof *s->column[k]);
  }
  for (size_t i = 0; i < data->n; ++i)
    data->line[i] = pn_table_line(table, i);
  return TN_OK;
}

static tn_status take_file(source *s) {
  const char *from = s->problem->source.file ? s->problem->source.file : "";
  char *folder = NULL, *path = NULL, *kept = NULL;
  pn_table *table = NULL;
  TN_TRY(pn_path_folder(from, &folder));
  tn_status status = pn_path_join(strchr(from, '/') ? folder : "", s->node->string, &path);
  if (status == TN_OK && !pn_path_exists(path))
    status = pn_fail_at(TN_EINPUT, s->node->place, strlen(s->node->string) + 2,
                        "the data of `%s`: there is no file %s", s->what, path);
  if (status == TN_OK)
    status = pn_arena_text(s->problem->arena, path, strlen(path), &kept);
  s->data->file = kept;
  if (status == TN_OK)
    status = pn_table_read(path, &table);
  if (status == TN_OK)
    status = copy_table(s, table);
  pn_table_free(&table);
  tn_free(&path);
  tn_free(&folder);
  return status;
}

/* ---- Names --------------------------------------------------------------------------------------- */

static void list_headers(const pn_data *data, char out[WORDS]) {
  size_t n = 0;
  out[0] = '\0';
  for (size_t k = 0; k < data->n_headers && n < WORDS - 80; ++k)
    n += (size_t)snprintf(out + n, WORDS - n, "%s%.60s", k ? ", " : "", data->headers[k]);
}

/* "sensors.csv:1" or "heat.toml:9:12". */
static void place_of_header(const source *s, char out[WORDS]) {
  if (s->data->file)
    snprintf(out, WORDS, "%.400s:1", s->data->file);
  else
    snprintf(out, WORDS, "%.400s:%zu:%zu", s->node->place.source ? s->node->place.source->file : "",
             s->node->place.line, s->node->place.column);
}

static tn_status rename_columns(source *s) {
  char list[WORDS], place[WORDS];
  for (size_t i = 0; s->renames && i < s->renames->n; ++i) {
    const pn_toml *item = s->renames->items[i];
    size_t k = 0;
    if (item->kind != PN_TOML_STRING)
      return pn_fail_at(TN_EINPUT, item->place, 1,
                        "columns of `%s`: `%s` is %s; the name of a column is asked for", s->what,
                        item->key, pn_toml_kind_text(item->kind));
    while (k < s->n && strcmp(s->data->headers[k], item->string) != 0)
      ++k;
    list_headers(s->data, list);
    place_of_header(s, place);
    if (k == s->n)
      return pn_fail_at(TN_EINPUT, item->place, strlen(item->string) + 2,
                        "%s: no column `%s`, which `%s` of `%s` names; columns are %s", place,
                        item->string, item->key, s->what, list);
    if (s->renamed[k])
      return pn_fail_at(TN_EINPUT, item->place, strlen(item->string) + 2,
                        "column `%s` is given two names, `%s` and `%s`", item->string, s->name[k],
                        item->key);
    s->name[k] = item->key;
    s->renamed[k] = true;
  }
  for (size_t k = 0; k < s->n; ++k)
    for (size_t j = 0; j < k; ++j)
      if (strcmp(s->name[k], s->name[j]) == 0)
        return pn_fail_at(TN_EINPUT, s->node->place, 1, "two columns of `%s` are called `%s`",
                          s->what, s->name[k]);
  return TN_OK;
}

static bool is_identifier(const char *name) {
  bool good = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
  for (const char *c = name; *c; ++c)
    good &= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            (*c == '_' && c[1] != '_' && c[1]);
  return good && strlen(name) < 64;
}

/* Why expressions cannot use this name; NULL: they can. */
static const char *taken(const pn_problem *p, const char *name) {
  static const char *const reserved[] = {"pi",  "box", "domain", "boundary", "net",
                                         "and", "or",  "not",    "normal"};
  pn_reading readings[PN_MAX_READINGS];
  size_t index = 0;
  pn_sort sort = pn_lookup(p, name, &index);
  if (sort != PN_IS_NOTHING)
    return pn_sort_text(sort);
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; ++i)
    if (strcmp(name, reserved[i]) == 0)
      return "reserved";
  if (!is_identifier(name))
    return "no name (a letter first, then letters, digits and single underscores)";
  return pn_readings(p, name, true, readings) ? "a derivative" : NULL;
}

static tn_status sort_column(source *s, size_t k) {
  pn_data *data = s->data;
  size_t index = 0;
  if (pn_lookup(s->problem, s->name[k], &index) == PN_IS_COORDINATE) {
    data->coordinate[index] = s->column[k];
    return TN_OK;
  }
  const char *why = taken(s->problem, s->name[k]);
  if (why && (s->renamed[k] || !data->file)) {
    const pn_toml *node = s->renamed[k] ? pn_toml_find(s->renames, s->name[k])
                                        : pn_toml_find(s->node, s->name[k]);
    return pn_fail_at(TN_EINPUT, node->key_place, strlen(node->key),
                      "`%s` is %s and cannot be a column of the data of `%s`: give it another name",
                      s->name[k], why, s->what);
  }
  if (why)
    return TN_OK;
  data->name[data->n_columns] = s->name[k];
  data->column[data->n_columns++] = s->column[k];
  return TN_OK;
}

tn_status pn_read_data(pn_problem *p, const pn_toml *entry, const char *what, pn_data **out) {
  source s = {.problem = p,
              .what = what,
              .node = pn_toml_find(entry, "data"),
              .renames = pn_toml_find(entry, "columns")};
  TN_TRY(PN_TAKE(p->arena, 1, &s.data));
  s.data->sigma = NAN;
  if (s.renames && s.renames->kind != PN_TOML_TABLE)
    return pn_fail_at(TN_EINPUT, s.renames->place, 1,
                      "`columns` of `%s` is %s; a table is asked for, as in { t = \"day\" }", what,
                      pn_toml_kind_text(s.renames->kind));
  if (s.node->kind == PN_TOML_STRING)
    TN_TRY(take_file(&s));
  else if (s.node->kind == PN_TOML_TABLE)
    TN_TRY(take_inline(&s));
  else
    return pn_fail_at(TN_EINPUT, s.node->place, 1,
                      "`data` of `%s` is %s; the name of a CSV file or a table of columns is asked "
                      "for, as in { t = [0, 1], u_obs = [2, 3] }",
                      what, pn_toml_kind_text(s.node->kind));
  TN_TRY(PN_TAKE(p->arena, s.n, &s.name));
  TN_TRY(PN_TAKE(p->arena, s.n, &s.renamed));
  TN_TRY(PN_TAKE(p->arena, s.n, &s.data->name));
  TN_TRY(PN_TAKE(p->arena, s.n, &s.data->column));
  memcpy(s.name, s.data->headers, s.n * sizeof *s.name);
  TN_TRY(rename_columns(&s));
  for (size_t k = 0; k < s.n; ++k)
    TN_TRY(sort_column(&s, k));
  *out = s.data;
  return TN_OK;
}

void pn_data_values(const pn_data *data, size_t column, size_t stride, size_t first, size_t count,
                    double *out) {
  for (size_t i = 0; i < count; ++i) {
    size_t row = (first + i) * (stride ? stride : 1);
    out[i] = column == PN_SHARE ? data->share ? data->share[row] : 1 : data->column[column][row];
  }
}

size_t pn_data_column(const pn_data *data, const char *name) {
  for (size_t k = 0; k < data->n_columns; ++k)
    if (strcmp(data->name[k], name) == 0)
      return k;
  return PN_NONE;
}

/* The header that was probably meant: the same up to the first underscore, else the nearest. */
static const char *meant(const pn_data *data, const char *name) {
  const char *best = NULL;
  for (size_t k = 0; k < data->n_headers && !best; ++k) {
    size_t n = strcspn(data->headers[k], "_");
    if (n == strcspn(name, "_") && strncmp(data->headers[k], name, n) == 0)
      best = data->headers[k];
  }
  return best ? best : pn_nearest(name, data->n_headers, data->headers);
}

tn_status pn_no_column(const pn_data *data, const pn_expr *expr, const char *name) {
  char list[WORDS], hint[WORDS] = "";
  const char *near = meant(data, name);
  pn_place place = pn_expr_place(expr);
  list_headers(data, list);
  if (near)
    snprintf(hint, sizeof hint, " Write columns = { %.60s = \"%.60s\" }.", name, near);
  if (!data->file)
    return pn_expr_fail(TN_EINPUT, expr, "`%s` is neither declared nor a column of the data; "
                                         "columns are %s.%s",
                        name, list, hint);
  return TN_FAIL(TN_EINPUT, "%s:1: no column `%s`, used in %s:%zu:%zu; columns are %s.%s",
                 data->file, name, place.source ? place.source->file : "", place.line, place.column,
                 list, hint);
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

/* "sensors.csv:7: row 6" or "row 6 of the data of `sensors`". */
static void name_row(const pn_term *term, size_t i, char out[WORDS]) {
  if (term->data->line)
    snprintf(out, WORDS, "%.400s:%zu: row %zu", term->data->file, term->data->line[i], i + 1);
  else
    snprintf(out, WORDS, "row %zu of the data of `%.60s`", i + 1, term->name);
}

/* Inside the range, but for the rounding of numbers that were written and read. */
static tn_status check_rows(const pn_problem *p, const pn_term *term, size_t c) {
  const pn_coordinate *axis = &p->coordinates[c];
  double slack = 1e-9 * (axis->hi - axis->lo), *x = term->data->coordinate[c];
  char row[WORDS];
  for (size_t i = 0; i < term->data->n; ++i) {
    if (x[i] >= axis->lo - slack && x[i] <= axis->hi + slack) {
      x[i] = fmin(fmax(x[i], axis->lo), axis->hi);
      continue;
    }
    name_row(term, i, row);
    return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                      "%s: %s = %.10g lies outside the domain, %s in [%g, %g]", row, axis->name, x[i],
                      axis->name, axis->lo, axis->hi);
  }
  return TN_OK;
}

/* Inside the region, where every space coordinate has a column. */
static tn_status check_region(const pn_problem *p, const pn_term *term) {
  double point[PN_MAX_COORDINATES];
  char row[WORDS];
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if (p->coordinates[c].role == PN_SPACE && !(term->coordinates >> c & 1u))
      return TN_OK;
  for (size_t i = 0; i < term->data->n; ++i) {
    for (size_t c = 0; c < p->n_coordinates; ++c)
      point[c] = term->data->coordinate[c] ? term->data->coordinate[c][i] : NAN;
    if (pn_domain_holds(p, point))
      continue;
    name_row(term, i, row);
    return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                      "%s: the point lies outside the region of the domain", row);
  }
  return TN_OK;
}

tn_status pn_check_data(const pn_problem *p, const pn_term *term) {
  char list[WORDS];
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    if (!(term->coordinates >> c & 1u))
      continue;
    list_headers(term->data, list);
    if (!term->data->coordinate[c])
      return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                        "%s%sno column `%s`, along which `%s` varies; columns are %s. Add it, name "
                        "it by columns = { %s = \"...\" }, or fix the coordinate, as in u(%s=%g)",
                        term->data->file ? term->data->file : "", term->data->file ? ":1: " : "",
                        p->coordinates[c].name, term->name, list, p->coordinates[c].name,
                        p->coordinates[c].name, p->coordinates[c].lo);
    if (!pn_moves(&p->coordinates[c])) /* where moving ends will be is not known */
      TN_TRY(check_rows(p, term, c));
  }
  return p->region ? check_region(p, term) : TN_OK;
}

static tn_status sigma_of_rows(pn_problem *p, const pn_toml *node, const pn_expr *expr,
                               pn_data *data) {
  double point[PN_MAX_COORDINATES], sum = 0, last = 0;
  TN_TRY(PN_TAKE(p->arena, data->n, &data->share));
  for (size_t i = 0; i < data->n; ++i) {
    double x = 0;
    for (size_t c = 0; c < p->n_coordinates; ++c)
      point[c] = data->coordinate[c] ? data->coordinate[c][i] : NAN;
    TN_TRY(pn_evaluate_row(p, expr, point, data, i, &x));
    if (!(x > 0))
      return pn_fail_at(TN_EINPUT, node->place, 1, "sigma is %g in row %zu; it must be above 0", x,
                        i + 1);
    last = x;
    data->share[i] = 1 / (x * x);
    sum += data->share[i];
  }
  double square = (double)data->n / sum;
  bool equal = true;
  for (size_t i = 0; i < data->n; ++i)
    equal = equal && data->share[i] == data->share[0];
  for (size_t i = 0; i < data->n; ++i)
    data->share[i] *= square;
  data->sigma = equal ? last : sqrt(square);
  if (equal)
    data->share = NULL;
  return TN_OK;
}

tn_status pn_read_sigma(pn_problem *p, const pn_toml *entry, pn_data *data) {
  const pn_toml *node = pn_toml_find(entry, "sigma");
  pn_expr *tree = NULL;
  if (!node || (node->kind == PN_TOML_STRING && strcmp(node->string, "none") == 0))
    return TN_OK;
  if (!data)
    return pn_fail_at(TN_EINPUT, node->key_place, strlen(node->key),
                      "sigma is the standard deviation of data, and `%s` has no data", entry->key);
  TN_TRY(pn_read_tree(p, node, &tree));
  pn_naming scope = {.problem = p, .what = "sigma", .coordinates = true, .data = data};
  TN_TRY(pn_resolve(&scope, tree));
  if (tree->components != 1)
    return pn_expr_fail(TN_EINPUT, tree, "sigma is a scalar");
  return sigma_of_rows(p, node, tree, data);
}

/* ---- Digest -------------------------------------------------------------------------------------- */

static uint64_t digest_of(const pn_problem *p, const pn_term *terms, size_t n, uint64_t digest) {
  for (size_t i = 0; i < n; ++i) {
    const pn_data *d = terms[i].data;
    if (!d)
      continue;
    for (size_t c = 0; c < p->n_coordinates; ++c)
      if (d->coordinate[c])
        digest = pn_digest(digest, d->n * sizeof(double), d->coordinate[c]);
    for (size_t k = 0; k < d->n_columns; ++k)
      digest = pn_digest(digest, d->n * sizeof(double), d->column[k]);
    digest = pn_digest(digest, sizeof d->sigma, &d->sigma);
  }
  return digest;
}

uint64_t pn_data_digest(const pn_problem *p) {
  uint64_t digest = digest_of(p, p->conditions, p->n_conditions, PN_DIGEST);
  digest = digest_of(p, p->checks, p->n_checks, digest);
  return digest == PN_DIGEST ? 0 : digest;
}
