/* eval.c: pn_eval: values of expressions from a saved result.
 *
 * The problem is rebuilt from the text inside result.h5 and the weights are bound as they were
 * saved, so a fresh process gives the same bits as the run that trained them. An expression is
 * anything the problem language can say at a point: unknowns, derivatives of any order,
 * definitions, exact solutions written as such; the name of an equation stands for its residual,
 * left minus right.
 *
 * A point outside the box is an error that names it: a network extrapolates without warning, and a
 * number from there would look like an answer. So is a point of a file outside the region; on a grid,
 * which cannot help having points in holes, values there are NaN.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/export.h"
#include "pinn/eval_compare.h"
#include "pinn/files.h"
#include "pinn/grid.h"
#include "pinn/region.h"
#include "pinn/result.h"
#include "pinn/table.h"
#include "pinn/text.h"
#include "pinn/names.h"
#include "pinn/values.h"
#include "pinn/windows.h"

typedef struct evaluation {
  const pn_eval_options *options;
  pn_saved *saved;
  pn_problem *problem;
  pn_model *model;
  tn_pool *pool;
  double *theta;
  pn_table *points; /* of --points, or NULL */
  pn_grid grid;     /* of --grid */
  uint32_t given;   /* coordinates that have values */
  size_t n;         /* points */
  const double *column[PN_MAX_COORDINATES];
  size_t n_items;
  pn_item *items; /* owned */
  char **names;   /* of the items; owned */
  double *values; /* [n_items x n] */
  size_t windows; /* of the time, each with a result of its own; 0: one result */
} evaluation;

/* ---- Where --------------------------------------------------------------------------------------
 * */

static tn_status read_grid(evaluation *e) {
  e->n = 1;
  if (!e->options->grid)
    return TN_OK;
  TN_TRY(pn_grid_text(e->problem, e->options->grid, &e->grid));
  e->given = e->grid.bits;
  e->n = e->grid.n;
  for (size_t c = 0; c < e->problem->n_coordinates; ++c)
    e->column[c] = e->grid.column[c];
  return TN_OK;
}

static tn_status read_points(evaluation *e) {
  TN_TRY(pn_table_read(e->options->points, &e->points));
  e->n = pn_table_rows(e->points);
  for (size_t k = 0; k < pn_table_columns(e->points); ++k) {
    const char *name = pn_table_column_name(e->points, k);
    size_t c = pn_coordinate_find(e->problem, name, strlen(name));
    if (c == PN_NONE)
      continue; /* data of the user's */
    TN_TRY(pn_table_column(e->points, name, &e->column[c]));
    e->given |= UINT32_C(1) << c;
  }
  return TN_OK;
}

/* Inside the box, with room for the rounding of a number that was written and read. */
static tn_status check_inside(const evaluation *e) {
  for (size_t c = 0; c < e->problem->n_coordinates; ++c) {
    const pn_coordinate *k = &e->problem->coordinates[c];
    double slack = 1e-14 * (fabs(k->lo) + fabs(k->hi));
    for (size_t i = 0; (e->given >> c & 1) && !pn_moves(k) && i < e->n; ++i) {
      double x = e->column[c][i];
      if (x >= k->lo - slack && x <= k->hi + slack)
        continue;
      char value[PN_TEXT_NUMBER], lo[PN_TEXT_NUMBER], hi[PN_TEXT_NUMBER];
      pn_text_of_number(x, value);
      pn_text_of_number(k->lo, lo);
      pn_text_of_number(k->hi, hi);
      if (e->points != NULL) {
        return TN_FAIL(TN_EINPUT,
                       "%s:%zu: row %zu: %s = %s lies outside the domain, %s in [%s, %s]",
                       e->options->points, pn_table_line(e->points, i), i + 1, k->name, value,
                       k->name, lo, hi);
      }
      return TN_FAIL(TN_EINPUT, "--grid: %s = %s lies outside the domain, %s in [%s, %s]", k->name,
                     value, k->name, lo, hi);
    }
  }
  return TN_OK;
}

/* All coordinates of point i, NaN where none is given. */
static void point_of(const evaluation *e, size_t i, double *point) {
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c)
    point[c] = e->given >> c & 1 ? e->column[c][i] : NAN;
}

static tn_status refuse_outside(const evaluation *e, size_t i) {
  char place[256] = "", value[PN_TEXT_NUMBER];
  for (size_t c = 0, n = 0; c < e->problem->n_coordinates && n < 180; ++c)
    if ((e->given >> c & 1) && e->problem->coordinates[c].role == PN_SPACE) {
      pn_text_of_number(e->column[c][i], value);
      n += (size_t)snprintf(place + n, sizeof place - n, "%s%.30s = %s", n ? ", " : "",
                            e->problem->coordinates[c].name, value);
    }
  if (e->points != NULL)
    return TN_FAIL(TN_EINPUT, "%s:%zu: row %zu: %s lies outside the region of [domain]",
                   e->options->points, pn_table_line(e->points, i), i + 1, place);
  return TN_FAIL(TN_EINPUT, "--grid: %s lies outside the region of [domain]%s", place,
                 e->n > 1 ? ", as all other points do" : "");
}

static tn_status check_region(const evaluation *e) {
  double point[PN_MAX_COORDINATES];
  size_t in = 0;
  if (e->problem->region == NULL)
    return TN_OK;
  for (size_t i = 0; i < e->n; ++i) {
    point_of(e, i, point);
    bool here = pn_domain_holds(e->problem, point);
    if (!here && e->points != NULL)
      return refuse_outside(e, i);
    in += here;
  }
  return in || e->n == 0 ? TN_OK : refuse_outside(e, 0);
}

/* ---- What ---------------------------------------------------------------------------------------
 * */

static tn_status add_item(evaluation *e, pn_item item, const char *name, size_t part,
                          size_t parts) {
  TN_TRY(tn_grow(&e->items, e->n_items, e->n_items + 1, sizeof *e->items));
  TN_TRY(tn_grow(&e->names, e->n_items, e->n_items + 1, sizeof *e->names));
  size_t length = strlen(name) + 32;
  TN_TRY(TN_NEW(length, &e->names[e->n_items]));
  bool is_complex = item.kind == PN_ITEM_EXPR && item.expr->is_complex;
  const char *which = item.component & PN_IMAGINARY ? "im" : "re";
  if (is_complex && item.expr->kind == PN_COMPLEX)
    snprintf(e->names[e->n_items], length, "%s.%s", name, which);
  else if (is_complex && parts == 2)
    snprintf(e->names[e->n_items], length, "%s(%s)", which, name);
  else if (is_complex)
    snprintf(e->names[e->n_items], length, "%s(%s) [%zu]", which, name, part / 2 + 1);
  else if (parts > 1)
    snprintf(e->names[e->n_items], length, "%s [%zu]", name, part + 1);
  else
    snprintf(e->names[e->n_items], length, "%s", name);
  e->items[e->n_items++] = item;
  return TN_OK;
}

static const pn_term *find_equation(const pn_problem *p, const char *name) {
  for (size_t i = 0; i < p->n_equations; ++i) {
    if (strcmp(p->equations[i].name, name) == 0)
      return &p->equations[i];
  }
  return NULL;
}

static tn_status add_expression(evaluation *e, const char *text) {
  pn_expr *expr = NULL;
  const pn_term *term = find_equation(e->problem, text);
  tn_status status = pn_problem_expression(e->problem, "expression", text, &expr);
  if (status != TN_OK && term == NULL)
    return status;
  if (status != TN_OK) {
    for (size_t r = 0; r < term->n_relations; ++r) {
      pn_item item = {.kind = PN_ITEM_RELATION, .relation = &term->relations[r]};
      TN_TRY(add_item(e, item, text, r, term->n_relations));
    }
    return TN_OK;
  }
  for (size_t k = 0; k < pn_parts_of(expr); ++k) {
    pn_item item = {.kind = PN_ITEM_EXPR, .expr = expr, .component = pn_part_of(expr, k)};
    TN_TRY(add_item(e, item, text, k, pn_parts_of(expr)));
  }
  return TN_OK;
}

static tn_status check_given(const evaluation *e) {
  for (size_t k = 0; k < e->n_items && !e->points && !e->options->grid; ++k)
    if (pn_item_depends(e->problem, &e->items[k])) /* a parameter alone needs no place */
      return TN_FAIL(TN_EINPUT, "eval wants either --points FILE.csv or --grid x=from:to:number,... for `%s`",
                     e->names[k]);
  for (size_t k = 0; k < e->n_items; ++k) {
    uint32_t missing = pn_item_depends(e->problem, &e->items[k]) & ~e->given;
    for (size_t c = 0; c < e->problem->n_coordinates; ++c) {
      const char *name = e->problem->coordinates[c].name;
      if (!(missing >> c & 1))
        continue;
      if (e->points != NULL) {
        return TN_FAIL(TN_EINPUT, "%s:1: no column `%s`, which `%s` depends on", e->options->points,
                       name, e->names[k]);
      }
      return TN_FAIL(TN_EINPUT,
                     "--grid: no value of `%s`, which `%s` depends on; add %s=from:to:number", name,
                     e->names[k], name);
    }
  }
  return TN_OK;
}

static tn_status evaluate_here(evaluation *e) {
  pn_values *values = NULL;
  tn_status status = TN_NEW(e->n_items * e->n, &e->values);
  if (status == TN_OK)
    status = pn_values_new(e->model, e->pool, e->given, e->n_items, e->items, &values);
  if (status == TN_OK)
    status = pn_values_at(values, e->theta, e->n, e->column, e->values);
  pn_values_free(&values);
  for (size_t k = 0; status == TN_OK && k < e->n_items; ++k)
    pn_mask_item(e->problem, &e->items[k], e->n, e->column, e->values + k * e->n);
  return status;
}

static void close_evaluation(evaluation *e);

/* The points of window w: index[i] of the whole; a point on a border belongs to the earlier one. */
static size_t points_of(const evaluation *e, size_t w, size_t *index) {
  size_t t = pn_time_axis(e->problem), n = 0;
  double range[2];
  pn_window_range(&e->problem->coordinates[t], w, e->windows, range);
  for (size_t i = 0; i < e->n; ++i) {
    double x = e->column[t][i];
    if ((w == 1 || x > range[0]) && (w == e->windows || x <= range[1]))
      index[n++] = i;
  }
  return n;
}

static tn_status load(evaluation *e);
static tn_status add_expression(evaluation *e, const char *text);

/* The points index[0 .. n) with the network of window w. */
static tn_status evaluate_window(const evaluation *whole, size_t w, size_t n, const size_t *index) {
  pn_eval_options options = *whole->options;
  evaluation e = {.options = &options, .given = whole->given, .n = n};
  char *folder = NULL;
  double *block = NULL;
  tn_status status = pn_window_folder(whole->options->result, w, &folder);
  options.result = folder;
  if (status == TN_OK)
    status = load(&e);
  for (size_t i = 0; status == TN_OK && i < options.n_expressions; ++i)
    status = add_expression(&e, options.expressions[i]);
  if (status == TN_OK)
    status = TN_NEW(n * e.problem->n_coordinates, &block);
  for (size_t c = 0; status == TN_OK && c < e.problem->n_coordinates; ++c) {
    e.column[c] = block + c * n;
    for (size_t i = 0; (e.given >> c & 1) && i < n; ++i)
      block[c * n + i] = whole->column[c][index[i]];
  }
  if (status == TN_OK)
    status = evaluate_here(&e);
  for (size_t k = 0; status == TN_OK && k < whole->n_items; ++k)
    for (size_t i = 0; i < n; ++i)
      whole->values[k * whole->n + index[i]] = e.values[k * n + i];
  tn_free(&block);
  close_evaluation(&e);
  tn_free(&folder);
  return status;
}

static tn_status evaluate(evaluation *e) {
  size_t *index = NULL;
  if (e->windows == 0)
    return evaluate_here(e);
  if (!(e->given >> pn_time_axis(e->problem) & 1))
    return TN_FAIL(TN_EINPUT, "%s: the result has windows in time, so a point needs a value of `%s`",
                   e->options->result, e->problem->coordinates[pn_time_axis(e->problem)].name);
  tn_status status = TN_NEW(e->n_items * e->n, &e->values);
  if (status == TN_OK)
    status = TN_NEW(e->n, &index);
  for (size_t w = 1; status == TN_OK && w <= e->windows; ++w) {
    size_t n = points_of(e, w, index);
    if (n > 0 && w > pn_windows_in(e->options->result))
      status = TN_FAIL(TN_EINPUT, "%s: %zu points lie in window %zu of %zu, which is not solved yet",
                       e->options->result, n, w, e->windows);
    else if (n > 0)
      status = evaluate_window(e, w, n, index);
  }
  tn_free(&index);
  return status;
}

/* ---- Output -------------------------------------------------------------------------------------
 * */

static tn_status make_table(const evaluation *e, pn_table **out) {
  const char **names = NULL;
  const double **from = NULL;
  size_t columns = 0;
  tn_status status = TN_NEW(PN_MAX_COORDINATES + e->n_items, &names);
  if (status == TN_OK)
    status = TN_NEW(PN_MAX_COORDINATES + e->n_items, &from);
  for (size_t c = 0; status == TN_OK && c < e->problem->n_coordinates; ++c) {
    if (!(e->given >> c & 1))
      continue;
    names[columns] = e->problem->coordinates[c].name;
    from[columns++] = e->column[c];
  }
  for (size_t k = 0; status == TN_OK && k < e->n_items; ++k) {
    names[columns] = e->names[k];
    from[columns++] = e->values + k * e->n;
  }
  if (status == TN_OK)
    status = pn_table_new("values", columns, names, e->n, out);
  for (size_t k = 0; status == TN_OK && k < columns && e->n > 0; ++k)
    memcpy(pn_table_data(*out, k), from[k], e->n * sizeof(double));
  tn_free(&from);
  tn_free(&names);
  return status;
}

/* An identifier that no coordinate has can name a dataset; other expressions are numbered. */
static void dataset_name(const evaluation *e, size_t k, char name[64]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const char *text = e->names[k];
  bool plain = strlen(text) < 64 && strspn(text, letters) == strlen(text);
  for (size_t j = 0; plain && j < k; ++j)
    plain = strcmp(e->names[j], text) != 0;
  if (plain && pn_coordinate_find(e->problem, text, strlen(text)) == PN_NONE)
    snprintf(name, 64, "%s", text);
  else
    snprintf(name, 64, "expression%zu", k + 1);
}

static tn_status write_store(const evaluation *e) {
  pn_store *store = NULL;
  char name[64];
  TN_TRY(pn_store_new(&store));
  bool grid = e->points == NULL && e->grid.n_axes <= PN_STORE_RANK;
  size_t rank = grid ? e->grid.n_axes : 1;
  const size_t *extent = grid ? e->grid.extent : &e->n;
  tn_status status = TN_OK;
  for (size_t j = 0; grid && status == TN_OK && j < rank; ++j)
    status = pn_store_f64(store, e->problem->coordinates[e->grid.coordinate[j]].name, 1, &extent[j],
                          e->grid.axis[j]);
  for (size_t c = 0; !grid && status == TN_OK && c < e->problem->n_coordinates; ++c) {
    if (e->given >> c & 1)
      status = pn_store_f64(store, e->problem->coordinates[c].name, 1, &e->n, e->column[c]);
  }
  for (size_t k = 0; status == TN_OK && k < e->n_items; ++k) {
    dataset_name(e, k, name);
    status = pn_store_f64(store, name, rank, extent, e->values + k * e->n);
    if (status == TN_OK)
      status = pn_store_attribute(store, name, "expression", e->names[k]);
  }
  if (status == TN_OK)
    status = pn_store_attribute(store, "", "problem", e->saved->problem_file);
  if (status == TN_OK)
    status = pn_store_attribute(store, "", "problem_sha256", e->saved->sha256);
  if (status == TN_OK)
    status = pn_store_save(store, e->options->out);
  pn_store_free(&store);
  return status;
}

/* The solution as a function in C: no points, all coordinates that an item depends on. */
static tn_status write_source(evaluation *e) {
  char note[512];
  uint32_t needed = 0;
  for (size_t k = 0; k < e->n_items; ++k)
    needed |= pn_item_depends(e->problem, &e->items[k]);
  snprintf(note, sizeof note, "%.200s\nSolved by pinn %s from %.120s, sha256 %.64s.", e->problem->title,
           e->saved->version, pn_path_name(e->saved->problem_file), e->saved->sha256);
  return pn_export_c(e->model, e->theta, needed, e->n_items, e->items,
                     (const char *const *)e->names, note, e->options->out);
}

static tn_status write_values(const evaluation *e) {
  const pn_eval_options *o = e->options;
  const char *const *names = (const char *const *)e->names;
  pn_table *table = NULL;
  char *text = NULL;
  size_t n = 0;
  if (o->out != NULL && pn_path_ends(o->out, ".vtk"))
    return pn_vtk_write(o->out, e->problem->title, &e->grid, e->n_items, names, e->values);
  if (o->out != NULL && pn_path_ends(o->out, ".svg"))
    return pn_plot_write(o->out, e->problem, &e->grid, e->n_items, names, e->values);
  if (o->out != NULL && pn_path_ends(o->out, ".h5"))
    return write_store(e);
  tn_status status = make_table(e, &table);
  if (status == TN_OK && o->out != NULL)
    status = pn_table_write(table, o->out);
  if (status == TN_OK && o->out == NULL && o->terminal != NULL) {
    status = pn_table_text(table, &text, &n);
    if (status == TN_OK && fwrite(text, 1, n, o->terminal) != n)
      status = TN_FAIL(TN_EIO, "the values cannot be written");
  }
  tn_free(&text);
  pn_table_free(&table);
  return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static tn_status check_options(const pn_eval_options *o) {
  if (o->points != NULL && o->grid != NULL)
    return TN_FAIL(TN_EINPUT, "eval wants either --points FILE.csv or --grid x=from:to:number,...");
  static const char *const endings[] = {".csv", ".h5", ".vtk", ".svg", ".c"};
  bool known = o->out == NULL;
  for (size_t i = 0; i < sizeof endings / sizeof *endings && !known; ++i)
    known = pn_path_ends(o->out, endings[i]);
  if (!known)
    return TN_FAIL(TN_EINPUT, "--out %s: the name must end in .csv, .h5, .vtk, .svg or .c", o->out);
  if (o->out != NULL && o->points != NULL && (pn_path_ends(o->out, ".vtk") || pn_path_ends(o->out, ".svg")))
    return TN_FAIL(TN_EINPUT, "--out %s: this is a picture of a grid; give --grid in place of --points", o->out);
  if (o->out != NULL && pn_path_ends(o->out, ".c") && (o->points != NULL || o->grid != NULL))
    return TN_FAIL(TN_EINPUT, "--out %s: a function in C has no --grid and no --points", o->out);
  if (o->out != NULL && strcmp(pn_path_name(o->out), "result.h5") == 0)
    return TN_FAIL(TN_EINPUT, "--out %s: runs are called result.h5; choose another name", o->out);
  if (o->compare != NULL && (o->points || o->grid || o->out || o->n_expressions))
    return TN_FAIL(TN_EINPUT, "eval --compare %s stands alone: its columns say what and where",
                   o->compare);
  if (o->n_expressions == 0 && o->compare == NULL)
    return TN_FAIL(TN_EINPUT, "eval wants at least one expression");
  return TN_OK;
}

/* The problem of the whole time: the file with the overrides that all windows share. */
static tn_status load_whole(evaluation *e) {
  char *folder = NULL;
  size_t n = 0;
  TN_TRY(pn_window_folder(e->options->result, 1, &folder));
  tn_status status = pn_saved_open(folder, &e->saved);
  tn_free(&folder);
  TN_TRY(status);
  while (n < e->saved->n_overrides && strcmp(e->saved->overrides[n], PN_WINDOW_MARK) != 0)
    ++n;
  TN_TRY(pn_problem_parse(e->saved->problem_file, e->saved->text, n,
                          (const char *const *)e->saved->overrides, &e->problem));
  e->windows = e->problem->windows;
  if (e->options->compare || (e->options->out && pn_path_ends(e->options->out, ".c")))
    return TN_FAIL(TN_EUNSUPPORTED,
                   "%s has windows in time: compare or write the function of one of them, as "
                   "%s/window=1",
                   e->options->result, e->options->result);
  return TN_OK;
}

static tn_status load(evaluation *e) {
  tn_dtype dtype = TN_F64;
  if (pn_windows_in(e->options->result) > 0)
    return load_whole(e);
  TN_TRY(pn_saved_open(e->options->result, &e->saved));
  TN_TRY(pn_saved_problem(e->saved, &e->problem));
  TN_TRY(pn_problem_dtype(e->problem, &dtype));
  TN_TRY(tn_pool_new(0, &e->pool));
  TN_TRY(pn_model_new(e->problem, dtype, &e->model));
  TN_TRY(TN_NEW(e->model->n_theta, &e->theta));
  return pn_saved_weights(e->saved, e->model, e->theta);
}

static tn_status eval(evaluation *e) {
  TN_TRY(check_options(e->options));
  TN_TRY(load(e));
  if (e->options->compare != NULL)
    return pn_eval_compare(e->model, e->pool, e->theta, e->options->compare, e->options->terminal);
  if (e->options->out != NULL && pn_path_ends(e->options->out, ".c")) {
    for (size_t i = 0; i < e->options->n_expressions; ++i)
      TN_TRY(add_expression(e, e->options->expressions[i]));
    return write_source(e);
  }
  TN_TRY(e->options->points != NULL ? read_points(e) : read_grid(e));
  TN_TRY(check_inside(e));
  TN_TRY(check_region(e));
  for (size_t i = 0; i < e->options->n_expressions; ++i)
    TN_TRY(add_expression(e, e->options->expressions[i]));
  TN_TRY(check_given(e));
  TN_TRY(evaluate(e));
  return write_values(e);
}

static void close_evaluation(evaluation *e) {
  for (size_t k = 0; e->names != NULL && k < e->n_items; ++k)
    tn_free(&e->names[k]);
  tn_free(&e->names);
  tn_free(&e->items);
  tn_free(&e->values);
  tn_free(&e->theta);
  pn_grid_free(&e->grid);
  pn_table_free(&e->points);
  pn_model_free(&e->model);
  tn_pool_free(&e->pool);
  pn_problem_free(&e->problem);
  pn_saved_free(&e->saved);
}

tn_status pn_eval(const pn_eval_options *options) {
  evaluation e = {.options = options};
  tn_status status = eval(&e);
  close_evaluation(&e);
  return status;
}
