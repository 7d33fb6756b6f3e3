/* result.c: what goes into result.h5, and back.
 *
 *   format, version               1; of the program that wrote it
 *   problem/{file, text, sha256}  all of the problem; overrides: what --set changed; data_digest: of
 *                                 its measured points, which stay in their own files
 *   run/{seed, precision, command, steps, seconds, finished}
 *   unknowns/{names, scale}
 *   parameters/NAME               a number each; weights/parameter.NAME: as theta has it
 *   weights/NAME                  a block each, of its shape; theta: all of them, flat, f64
 *   state/...                     what --resume needs: optimizer, stage, points, scales, ...
 *   history/{step, loss, ...}     a row a record; history/relative/TERM, history/error/UNKNOWN,
 *                                 history/parameter/NAME
 *   points/TERM/PIECE/COORDINATE  training points as they are now
 *   fields/UNKNOWN/{x, t, value, exact}   at the end only; exact where it is known
 *   fields/expressionN            what [output] fields asks for, its text as an attribute
 *
 * The weights are those of the last whole step, so the same file serves a finished and an
 * interrupted run.
 */
#include "pinn/result.h"
#include "pinn/windows.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pinn/banner.h"
#include "pinn/data.h"
#include "pinn/files.h"
#include "pinn/grid.h"
#include "pinn/names.h"
#include "pinn/values.h"

enum { FORMAT = 1, PATH = 400 };

/* folder + name, with everything but letters, digits and ._+-/ as %XX. */
static tn_status encode(const char *folder, const char *name, char path[PATH]) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-/";
  size_t n = (size_t)snprintf(path, PATH, "%s", folder);
  for (; *name != '\0'; ++name) {
    if (n + 4 > PATH)
      return TN_FAIL(TN_EINTERNAL, "the name `%.40s...` is too long to store", name);
    n += (size_t)snprintf(path + n, PATH - n, strchr(plain, *name) != NULL ? "%c" : "%%%02X",
                          (unsigned char)*name);
  }
  return TN_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static tn_status absolute(const char *path, char **out) {
  char *cwd = NULL;
  if (path[0] == '/')
    return tn_copy_text(path, out);
  for (size_t n = 256; n <= 65536; n *= 4) {
    TN_TRY(TN_NEW(n, &cwd));
    if (getcwd(cwd, n) != NULL)
      break;
    tn_free(&cwd);
  }
  if (cwd == NULL)
    return tn_copy_text(path, out);
  tn_status status = pn_path_join(cwd, path, out);
  tn_free(&cwd);
  return status;
}

static tn_status put_problem(const pn_run *run, pn_store *store) {
  const pn_problem *p = run->problem;
  char *file = NULL;
  TN_TRY(pn_store_integer(store, "format", FORMAT));
  TN_TRY(pn_store_text(store, "version", pn_version()));
  TN_TRY(absolute(p->source.file, &file));
  tn_status status = pn_store_text(store, "problem/file", file);
  tn_free(&file);
  TN_TRY(status);
  TN_TRY(pn_store_text(store, "problem/text", p->source.text));
  TN_TRY(pn_store_text(store, "problem/sha256", run->sha256));
  TN_TRY(pn_store_text(store, "problem/title", p->title));
  if (pn_data_digest(p))
    TN_TRY(pn_store_integer(store, "problem/data_digest", (int64_t)pn_data_digest(p)));
  return pn_store_texts(store, "problem/overrides", p->n_overrides, p->overrides);
}

/* What computed, what the weights were kept in, and the words of all stages. */
static tn_status put_precision(const pn_run *run, pn_store *store) {
  const pn_numbers *n = &run->problem->numbers;
  pn_text text = {0};
  TN_TRY(pn_store_text(store, "run/precision", n->compute));
  TN_TRY(pn_store_text(store, "run/master", n->master));
  pn_put_precision(&text, run);
  tn_status status = pn_text_status(&text);
  if (status == TN_OK)
    status = pn_store_text(store, "run/precision_words", text.text);
  pn_text_free(&text);
  return status;
}

static tn_status put_run(const pn_run *run, pn_store *store, bool finished) {
  const pn_train_result *result = pn_training_result(run->training);
  TN_TRY(pn_store_integer(store, "run/seed", (int64_t)run->seed)); /* the same 64 bits */
  TN_TRY(put_precision(run, store));
  TN_TRY(pn_store_text(store, "run/command",
                       run->options->command != NULL ? run->options->command : ""));
  TN_TRY(pn_store_integer(store, "run/finished", finished));
  TN_TRY(pn_store_integer(store, "run/steps", (int64_t)result->steps));
  return finished ? pn_store_number(store, "run/seconds", result->seconds) : TN_OK;
}

/* Networks that started from another run scale their inputs by its ranges and have its waves (warm.c). */
static tn_status put_inputs(const pn_problem *p, pn_store *store) {
  bool other = p->wave_seed != p->seed;
  double range[2 * PN_MAX_COORDINATES];
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *k = &p->coordinates[c];
    other = other || k->has_net_range;
    range[2 * c] = k->has_net_range ? k->net_lo : k->lo;
    range[2 * c + 1] = k->has_net_range ? k->net_hi : k->hi;
  }
  if (!other)
    return TN_OK;
  TN_TRY(pn_store_integer(store, "inputs/seed", (int64_t)p->wave_seed));
  return pn_store_f64(store, "inputs/range", 2, (size_t[]){p->n_coordinates, 2}, range);
}

static tn_status put_weights(const pn_run *run, pn_store *store) {
  const pn_model *m = run->model;
  const pn_problem *p = run->problem;
  char path[PATH];
  size_t n = 0;
  const double *theta = pn_training_theta(run->training, &n);
  const char **names = NULL;
  TN_TRY(TN_NEW(p->n_unknowns, &names));
  for (size_t i = 0; i < p->n_unknowns; ++i)
    names[i] = p->unknowns[i].name;
  tn_status status = pn_store_texts(store, "unknowns/names", p->n_unknowns, names);
  tn_free(&names);
  TN_TRY(status);
  TN_TRY(pn_store_f64(store, "unknowns/scale", 1, &p->n_unknowns, m->unknown_scale));
  TN_TRY(pn_store_f64(store, "theta", 1, &n, theta));
  for (size_t i = 0; i < p->n_parameters; ++i) {
    TN_TRY(encode("parameters/", p->parameters[i].name, path));
    TN_TRY(pn_store_number(store, path, pn_model_parameter(m, theta, i)));
  }
  for (size_t i = 0; i < m->n_blocks; ++i) {
    const pn_block *b = &m->blocks[i];
    TN_TRY(encode("weights/", b->name, path));
    TN_TRY(pn_store_f64(store, path, b->rank, b->extent, theta + b->offset));
  }
  return TN_OK;
}

static tn_status visit_store(pn_state_visitor *visitor, const char *name, size_t n, double *data) {
  char path[PATH];
  TN_TRY(encode("state/", name, path));
  return pn_store_f64(visitor->context, path, 1, &n, data);
}

static tn_status visit_store_number(pn_state_visitor *visitor, const char *name, double *x) {
  char path[PATH];
  TN_TRY(encode("state/", name, path));
  return pn_store_number(visitor->context, path, *x);
}

/* One column of a row-major table. */
static tn_status put_column(pn_store *store, const char *folder, const char *name, size_t n,
                            size_t width, const double *first) {
  char path[PATH];
  double *column = NULL;
  TN_TRY(encode(folder, name, path));
  TN_TRY(TN_NEW(n, &column));
  for (size_t i = 0; i < n; ++i)
    column[i] = first[i * width];
  tn_status status = pn_store_f64(store, path, 1, &n, column);
  tn_free(&column);
  return status;
}

static tn_status put_history(const pn_run *run, pn_store *store) {
  const pn_history *h = pn_training_history(run->training);
  const pn_sites *sites = pn_training_sites(run->training);
  const double *column[] = {h->step, h->stage, h->seconds, h->loss, h->rate};
  static const char *const names[] = {"step", "stage", "seconds", "loss", "rate"};
  for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
    TN_TRY(put_column(store, "history/", names[k], h->n, 1, column[k]));
  for (size_t m = 0; m < h->n_terms; ++m)
    TN_TRY(put_column(store, "history/relative/", sites->terms[m].term->name, h->n, h->n_terms,
                      h->relative + m));
  for (size_t i = 0; i < h->n_parameters; ++i)
    TN_TRY(put_column(store, "history/parameter/", run->problem->parameters[i].name, h->n,
                      h->n_parameters, h->parameter + i));
  for (size_t i = 0; i < h->n_unknowns; ++i)
    TN_TRY(put_column(store, "history/error/", run->problem->unknowns[i].name, h->n, h->n_unknowns,
                      h->error + i));
  return TN_OK;
}

static tn_status put_points(const pn_run *run, pn_store *store) {
  const pn_sites *sites = pn_training_sites(run->training);
  char folder[PATH - 64], path[PATH];
  for (size_t m = 0; m < sites->n_terms; ++m) {
    for (size_t k = 0; k < sites->terms[m].n_sites; ++k) {
      const pn_site *site = &sites->sites[sites->terms[m].site[k]];
      snprintf(folder, sizeof folder, "points/%.200s/%zu/", sites->terms[m].term->name, k + 1);
      for (size_t c = 0; c < run->problem->n_coordinates; ++c) {
        if (site->column[c] == NULL)
          continue;
        TN_TRY(encode(folder, run->problem->coordinates[c].name, path));
        TN_TRY(pn_store_f64(store, path, 1, &site->n, site->column[c]));
      }
    }
  }
  return TN_OK;
}

/* value and exact of one unknown on its grid, [values of the first coordinate, of the second, ...].
 * */
static tn_status put_field(const pn_run *run, pn_store *store, size_t unknown,
                           const pn_grid *grid) {
  const pn_unknown *u = &run->problem->unknowns[unknown];
  size_t n_items = u->exact != NULL ? 2 : 1, n_theta = 0;
  pn_item items[2] = {{.kind = PN_ITEM_UNKNOWN, .unknown = unknown},
                      {.kind = PN_ITEM_EXACT, .unknown = unknown}};
  static const char *const names[2] = {"value", "exact"};
  char folder[PATH - 64], path[PATH];
  pn_values *values = NULL;
  double *out = NULL;
  tn_status status = pn_values_new(run->model, run->pool, grid->bits, n_items, items, &values);
  if (status == TN_OK)
    status = TN_NEW(n_items * grid->n, &out);
  if (status == TN_OK)
    status = pn_values_at(values, pn_training_theta(run->training, &n_theta), grid->n,
                          (const double *const *)grid->column, out);
  for (size_t k = 0; status == TN_OK && k < n_items; ++k)
    pn_mask_item(run->problem, &items[k], grid->n, (const double *const *)grid->column,
                 out + k * grid->n);
  snprintf(folder, sizeof folder, "fields/%.200s/", u->name);
  for (size_t j = 0; status == TN_OK && j < grid->n_axes; ++j) {
    status = encode(folder, run->problem->coordinates[grid->coordinate[j]].name, path);
    if (status == TN_OK)
      status = pn_store_f64(store, path, 1, &grid->extent[j], grid->axis[j]);
  }
  for (size_t k = 0; status == TN_OK && k < n_items; ++k) {
    status = encode(folder, names[k], path);
    if (status == TN_OK)
      status = pn_store_f64(store, path, grid->n_axes, grid->extent, out + k * grid->n);
  }
  tn_free(&out);
  pn_values_free(&values);
  return status;
}

/* What [output] fields asks for, on the grid of the unknown whose coordinates it shares. */
static tn_status put_expression(const pn_run *run, pn_store *store, size_t index) {
  const pn_problem *p = run->problem;
  pn_expr *expr = p->output.fields[index];
  uint32_t needed = pn_expr_depends(p, expr);
  pn_grid grid = {0};
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < p->n_unknowns && (grid.bits & needed) != needed; ++i) {
    pn_grid_free(&grid);
    status = pn_grid_of_unknown(p, i, &grid);
  }
  char path[PATH], *text = NULL;
  double *out = NULL;
  pn_values *values = NULL;
  size_t n_theta = 0;
  for (size_t k = 0; status == TN_OK && grid.n > 0 && k < pn_parts_of(expr); ++k) {
    pn_item item = {.kind = PN_ITEM_EXPR, .expr = expr, .component = pn_part_of(expr, k)};
    status = pn_values_new(run->model, run->pool, grid.bits, 1, &item, &values);
    if (status == TN_OK)
      status = TN_NEW(grid.n, &out);
    if (status == TN_OK)
      status = pn_values_at(values, pn_training_theta(run->training, &n_theta), grid.n,
                            (const double *const *)grid.column, out);
    if (status == TN_OK)
      pn_mask_item(p, &item, grid.n, (const double *const *)grid.column, out);
    snprintf(path, sizeof path, "fields/expression%zu_%zu", index + 1, k + 1);
    if (status == TN_OK)
      status = pn_store_f64(store, path, grid.n_axes, grid.extent, out);
    if (status == TN_OK)
      status = pn_expr_print(p->arena, expr, p->coordinate_names, &text);
    if (status == TN_OK)
      status = pn_store_attribute(store, path, "expression", text);
    tn_free(&out);
    pn_values_free(&values);
  }
  pn_grid_free(&grid);
  return status;
}

static tn_status put_fields(const pn_run *run, pn_store *store) {
  for (size_t i = 0; i < run->problem->n_unknowns; ++i) {
    pn_grid grid;
    TN_TRY(pn_grid_of_unknown(run->problem, i, &grid));
    tn_status status = grid.n > 0 ? put_field(run, store, i, &grid) : TN_OK;
    pn_grid_free(&grid);
    TN_TRY(status);
  }
  for (size_t i = 0; i < run->problem->output.n_fields; ++i)
    TN_TRY(put_expression(run, store, i));
  return TN_OK;
}

static tn_status put_all(const pn_run *run, pn_store *store, bool finished) {
  pn_state_visitor visitor = {store, false, visit_store, visit_store_number};
  TN_TRY(put_problem(run, store));
  TN_TRY(put_run(run, store, finished));
  TN_TRY(put_inputs(run->problem, store));
  TN_TRY(put_weights(run, store));
  TN_TRY(pn_training_visit(run->training, &visitor));
  TN_TRY(put_history(run, store));
  TN_TRY(put_points(run, store));
  return finished ? put_fields(run, store) : TN_OK;
}

tn_status pn_result_write(const pn_run *run, bool finished) {
  pn_store *store = NULL;
  char *path = NULL;
  TN_TRY(pn_store_new(&store));
  tn_status status = put_all(run, store, finished);
  if (status == TN_OK)
    status = pn_path_join(run->folder, "result.h5", &path);
  if (status == TN_OK)
    status = pn_store_save(store, path);
  tn_free(&path);
  pn_store_free(&store);
  return status;
}

/* ---- Reading back ---------------------------------------------------------------------------- */

static tn_status read_head(pn_saved *s) {
  int64_t format = 0, seed = 0, finished = 0;
  if (!pn_stored_has(s->file, "format") || !pn_stored_has(s->file, "problem/text"))
    return TN_FAIL(TN_EINPUT, "%s: not a result of pinn solve", s->path);
  TN_TRY(pn_stored_integer(s->file, "format", &format));
  if (format != FORMAT) {
    return TN_FAIL(TN_EINPUT, "%s: format %lld, expected %d; another version of pinn wrote it",
                   s->path, (long long)format, (int)FORMAT);
  }
  TN_TRY(pn_stored_text(s->file, "version", &s->version));
  TN_TRY(pn_stored_text(s->file, "problem/file", &s->problem_file));
  TN_TRY(pn_stored_text(s->file, "problem/text", &s->text));
  TN_TRY(pn_stored_text(s->file, "problem/sha256", &s->sha256));
  TN_TRY(pn_stored_texts(s->file, "problem/overrides", &s->n_overrides, &s->overrides));
  TN_TRY(pn_stored_integer(s->file, "run/seed", &seed));
  TN_TRY(pn_stored_integer(s->file, "run/finished", &finished));
  int64_t digest = 0;
  if (pn_stored_has(s->file, "problem/data_digest"))
    TN_TRY(pn_stored_integer(s->file, "problem/data_digest", &digest));
  s->data = (uint64_t)digest;
  s->seed = (uint64_t)seed;
  s->finished = finished != 0;
  return TN_OK;
}

tn_status pn_saved_open(const char *result, pn_saved **out) {
  *out = NULL;
  pn_saved *s = NULL;
  if (pn_windows_in(result) > 0)
    return TN_FAIL(TN_EINPUT, "%s holds windows in time: name one of them, as %s/window=1", result,
                   result);
  TN_TRY(TN_NEW(1, &s));
  tn_status status = pn_path_is_folder(result) ? pn_path_join(result, "result.h5", &s->path)
                                               : tn_copy_text(result, &s->path);
  if (status == TN_OK)
    status = pn_stored_open(s->path, &s->file);
  if (status == TN_OK)
    status = read_head(s);
  if (status != TN_OK)
    pn_saved_free(&s);
  *out = s;
  return status;
}

void pn_saved_free(pn_saved **saved) {
  pn_saved *s = *saved;
  if (s == NULL)
    return;
  pn_stored_free(&s->file);
  if (s->overrides != NULL)
    pn_texts_free(s->n_overrides, &s->overrides);
  tn_free(&s->path);
  tn_free(&s->problem_file);
  tn_free(&s->text);
  tn_free(&s->sha256);
  tn_free(&s->version);
  tn_free(saved);
}

static tn_status read_inputs(const pn_saved *s, pn_problem *p) {
  double range[2 * PN_MAX_COORDINATES];
  int64_t seed = 0;
  if (!pn_stored_has(s->file, "inputs/range"))
    return TN_OK;
  TN_TRY(pn_stored_integer(s->file, "inputs/seed", &seed));
  TN_TRY(pn_stored_f64(s->file, "inputs/range", 2, (size_t[]){p->n_coordinates, 2}, range));
  p->wave_seed = (uint64_t)seed;
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    pn_coordinate *k = &p->coordinates[c];
    k->has_net_range = range[2 * c] != k->lo || range[2 * c + 1] != k->hi;
    k->net_lo = range[2 * c];
    k->net_hi = range[2 * c + 1];
    if (!(k->net_lo < k->net_hi))
      return TN_FAIL(TN_EINPUT, "%s: the range of `%s` is empty", s->path, k->name);
  }
  return TN_OK;
}

tn_status pn_saved_problem(const pn_saved *s, pn_problem **out) {
  TN_TRY(pn_problem_parse(s->problem_file, s->text, s->n_overrides,
                          (const char *const *)s->overrides, out));
  tn_status status = read_inputs(s, *out);
  if (status != TN_OK)
    pn_problem_free(out);
  return status;
}

tn_status pn_saved_same_inputs(const pn_saved *s, const pn_problem *p) {
  pn_problem *old = NULL;
  TN_TRY(pn_saved_problem(s, &old));
  bool same = old->wave_seed == p->wave_seed;
  for (size_t c = 0; same && c < p->n_coordinates; ++c) {
    const pn_coordinate *a = &old->coordinates[c], *b = &p->coordinates[c];
    same = a->has_net_range == b->has_net_range &&
           (!a->has_net_range || (a->net_lo == b->net_lo && a->net_hi == b->net_hi));
  }
  pn_problem_free(&old);
  if (same)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "--resume: the result that `from` names has changed since %s was written",
                 s->path);
}

tn_status pn_saved_terms(const pn_saved *saved, pn_loss *l) {
  size_t n_scales = 0, extents[PN_STORE_RANK], k = 0;
  double *scale = NULL, *weight = NULL;
  for (size_t m = 0; m < pn_loss_objective(l)->n_terms; ++m)
    n_scales += pn_loss_relations(l, m);
  if (!pn_stored_has(saved->file, "state/scale") || !pn_stored_has(saved->file, "state/weight"))
    return TN_OK;
  TN_TRY(pn_stored_f64_new(saved->file, "state/scale", 1, extents, &scale));
  bool fits = extents[0] == n_scales;
  tn_status status = pn_stored_f64_new(saved->file, "state/weight", 1, extents, &weight);
  fits = fits && status == TN_OK && extents[0] == pn_loss_objective(l)->n_terms;
  for (size_t m = 0; fits && m < pn_loss_objective(l)->n_terms; ++m) {
    pn_loss_set_weight(l, m, weight[m]);
    for (size_t r = 0; r < pn_loss_relations(l, m); ++r)
      pn_loss_set_scale(l, m, r, scale[k++]);
  }
  tn_free(&scale);
  tn_free(&weight);
  return status;
}

tn_status pn_saved_weights(const pn_saved *s, pn_model *m, double *theta) {
  char path[PATH];
  for (size_t i = 0; i < m->n_blocks; ++i) {
    const pn_block *b = &m->blocks[i];
    TN_TRY(encode("weights/", b->name, path));
    TN_TRY(pn_stored_f64(s->file, path, b->rank, b->extent, theta + b->offset));
  }
  return pn_stored_f64(s->file, "unknowns/scale", 1, &m->problem->n_unknowns, m->unknown_scale);
}

static tn_status visit_load(pn_state_visitor *visitor, const char *name, size_t n, double *data) {
  char path[PATH];
  TN_TRY(encode("state/", name, path));
  return pn_stored_f64(visitor->context, path, 1, &n, data);
}

static tn_status visit_load_number(pn_state_visitor *visitor, const char *name, double *x) {
  char path[PATH];
  TN_TRY(encode("state/", name, path));
  return pn_stored_number(visitor->context, path, x);
}

tn_status pn_saved_training(const pn_saved *s, pn_training *training) {
  pn_state_visitor visitor = {s->file, true, visit_load, visit_load_number};
  return pn_training_visit(training, &visitor);
}
