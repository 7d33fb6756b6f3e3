/* settings.c: the tables that say how to solve: points, weights, stages, output, run, and
 * what counts as solved. Ranges of numbers are checked here; names of kinds have been checked as
 * choices.
 */
#include "pinn/precision.h"
#include "pinn/read.h"
#include "pinn/scaler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "auto" in the file, or no key. */
static const char *const automatic = "auto";

/* Far beyond what can be trained; they turn slips of the pen into errors. */
static const double most_points = 2147483648.0,
                    most_steps = 9007199254740992.0, most_grid_points = 1e8;
static const size_t most_grid = 100000000;

static tn_status not_negative(const pn_toml *node, double value) {
  if (!node || isnan(value) || value >= 0)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` must not be negative, but is %g", node->key,
                    value);
}

static tn_status read_positive(pn_problem *p, const pn_toml *table, const char *key,
                               const char *word, double fallback, double *out) {
  const pn_toml *node = pn_toml_find(table, key);
  TN_TRY(pn_read_number(p, node, word, fallback, out));
  return pn_read_is_positive(node, *out);
}

static tn_status read_not_negative(pn_problem *p, const pn_toml *table, const char *key,
                                   const char *word, double fallback, double *out) {
  const pn_toml *node = pn_toml_find(table, key);
  TN_TRY(pn_read_number(p, node, word, fallback, out));
  return not_negative(node, *out);
}

static tn_status read_count(pn_problem *p, const pn_toml *table, const char *key, const char *word,
                            size_t fallback, size_t *out) {
  return pn_read_count(p, pn_toml_find(table, key), word, fallback, out);
}

/* A count from 1 to `most`. Inside the program 0 says that it chooses; the file says so by `word`,
 * and a 0 in it is a mistake. */
static tn_status read_amount(pn_problem *p, const pn_toml *table, const char *key, const char *word,
                             double most, size_t *out) {
  const pn_toml *node = pn_toml_find(table, key);
  if (!node || (node->kind == PN_TOML_STRING && strcmp(node->string, word) == 0))
    return TN_OK;
  TN_TRY(pn_read_count(p, node, NULL, 0, out));
  if (*out >= 1 && (double)*out <= most)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` is %zu; expected \"%s\" or 1 to %.0f", key,
                    *out, word, most);
}

static tn_status read_points(pn_problem *p, const pn_toml *table) {
  pn_points *q = &p->points;
  q->sampler = pn_read_text(pn_toml_find(table, "sampler"), "sobol");
  q->refine = pn_read_text(pn_toml_find(table, "refine"), "none");
  q->keep_corners = strcmp(pn_read_text(pn_toml_find(table, "corners"), "skip"), "keep") == 0;
  TN_TRY(read_amount(p, table, "interior", automatic, most_points, &q->interior));
  TN_TRY(read_count(p, table, "every", NULL, 500, &q->every));
  if (q->every == 0)
    return pn_fail_at(TN_EINPUT, pn_toml_find(table, "every")->place, 1,
                      "`every` must be positive");
  return read_amount(p, table, "batch", "all", most_points, &q->batch);
}

pn_stage pn_stage_default(void) {
  return (pn_stage){.optimizer = "auto",
                    .rate = NAN,
                    .schedule = "constant",
                    .half_life = NAN,
                    .decay = NAN,
                    .stall_factor = 0.9,
                    .precision = "f64"};
}

/* The short name of a number format; the words have been checked as choices. */
static const char *format_of(const pn_toml *table, const char *key, const char *fallback) {
  const char *text = pn_read_text(pn_toml_find(table, key), fallback);
  tn_dtype dtype = TN_F64;
  if (strcmp(text, "precision.compute") == 0)
    return fallback;
  return pn_precision_dtype(text, &dtype) == TN_OK ? tn_dtype_name(dtype) : text;
}

/* Where [precision] is refused: the value of `master`, or of the key of the loss scale that fails by itself. */
static pn_place refused_at(const pn_numbers *n, const pn_toml *table, bool formats) {
  static const char *const keys[] = {"scale", "growth", "backoff", "interval"};
  const pn_toml *key = formats ? pn_toml_find(table, "master") : NULL;
  for (size_t i = 0; !formats && !key && i < sizeof keys / sizeof *keys; ++i) {
    pn_scaler_options o = pn_scaler_standard();
    o.scale = i == 0 && !isnan(n->scale) ? n->scale : o.scale;
    o.growth = i == 1 ? n->growth : o.growth;
    o.backoff = i == 2 ? n->backoff : o.backoff;
    o.interval = i == 3 ? n->interval : o.interval;
    if (pn_scaler_check(&o) != TN_OK)
      key = pn_toml_find(table, keys[i]);
  }
  return key ? key->place : n->place;
}

static tn_status read_numbers(pn_problem *p, const pn_toml *table) {
  pn_numbers *n = &p->numbers;
  pn_scaler_options scaler = pn_scaler_standard();
  pn_precision pair;
  n->compute = format_of(table, "compute", "f64");
  n->master = format_of(table, "master", "f64");
  if (table)
    n->place = table->key_place;
  TN_TRY(read_amount(p, table, "products", automatic, 3, &n->products));
  if (n->products == 2)
    return pn_fail_at(TN_EINPUT, pn_toml_find(table, "products")->place, 1,
                      "`products` is 2; expected \"auto\", 1 or 3");
  TN_TRY(read_positive(p, table, "scale", automatic, NAN, &n->scale));
  TN_TRY(read_positive(p, table, "growth", NULL, scaler.growth, &n->growth));
  TN_TRY(read_positive(p, table, "backoff", NULL, scaler.backoff, &n->backoff));
  TN_TRY(read_count(p, table, "interval", NULL, scaler.interval, &n->interval));
  tn_status formats = pn_precision_of(n->compute, n->master, &pair);
  tn_status status = formats == TN_OK ? pn_problem_scaler(p, &scaler) : formats;
  if (status == TN_OK || !table)
    return status;
  char text[512];
  snprintf(text, sizeof text, "%s", tn_error_text());
  return pn_fail_at(TN_EINPUT, refused_at(n, table, formats != TN_OK), 1, "%s", text);
}

tn_status pn_problem_precision(const pn_problem *problem, const char *compute, pn_precision *out) {
  return pn_precision_of(compute ? compute : problem->numbers.compute, problem->numbers.master,
                         out);
}

tn_status pn_problem_scaler(const pn_problem *problem, pn_scaler_options *out) {
  const pn_numbers *n = &problem->numbers;
  *out = pn_scaler_standard();
  if (!isnan(n->scale))
    out->scale = n->scale;
  out->growth = n->growth;
  out->backoff = n->backoff;
  out->interval = n->interval;
  return pn_scaler_check(out);
}

static tn_status read_stage(pn_problem *p, const pn_toml *table, pn_stage *s) {
  *s = pn_stage_default();
  s->place = table->place;
  s->optimizer = pn_read_text(pn_toml_find(table, "optimizer"), s->optimizer);
  s->schedule = pn_read_text(pn_toml_find(table, "schedule"), s->schedule);
  s->precision = format_of(table, "precision", p->numbers.compute);
  TN_TRY(read_amount(p, table, "steps", automatic, most_steps, &s->steps));
  TN_TRY(read_count(p, table, "warmup", NULL, 0, &s->warmup));
  TN_TRY(read_count(p, table, "stall", NULL, 0, &s->stall));
  TN_TRY(read_amount(p, table, "memory", automatic, most_steps, &s->memory));
  TN_TRY(read_amount(p, table, "refine_every", "points.every", most_steps, &s->refine_every));
  TN_TRY(read_positive(p, table, "rate", automatic, NAN, &s->rate));
  TN_TRY(read_positive(p, table, "half_life", automatic, NAN, &s->half_life));
  TN_TRY(read_not_negative(p, table, "clip", NULL, 0, &s->clip));
  TN_TRY(read_not_negative(p, table, "clip_value", NULL, 0, &s->clip_value));
  TN_TRY(read_not_negative(p, table, "decay", automatic, NAN, &s->decay));
  TN_TRY(read_not_negative(p, table, "seconds", NULL, 0, &s->seconds));
  TN_TRY(read_positive(p, table, "stall_factor", NULL, 0.9, &s->stall_factor));
  if (s->stall_factor >= 1)
    return pn_fail_at(TN_EINPUT, pn_toml_find(table, "stall_factor")->place, 1,
                      "`stall_factor` must be below 1, but is %g", s->stall_factor);
  return TN_OK;
}

static tn_status read_stages(pn_problem *p, const pn_toml *list) {
  if (!list)
    return TN_OK;
  TN_TRY(PN_TAKE(p->arena, list->n, &p->stages));
  for (size_t i = 0; i < list->n; ++i)
    TN_TRY(read_stage(p, list->items[i], &p->stages[i]));
  p->n_stages = list->n;
  return TN_OK;
}

static tn_status read_field(pn_problem *p, const pn_toml *node, pn_expr **out) {
  TN_TRY(pn_read_tree(p, node, out));
  pn_naming scope = {
      .problem = p, .what = "an output field", .coordinates = true, .unknowns = true,
      .parameters = true};
  return pn_resolve(&scope, *out);
}

/* The grid of every unknown is held in memory and written as a whole. */
static tn_status check_grid(const pn_problem *p, const pn_toml *grid) {
  const pn_output *o = &p->output;
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    double points = 1;
    for (size_t j = 0; j < p->unknowns[i].n_of; ++j)
      points *= (double)o->grid[o->n_grid == 1 ? 0 : p->unknowns[i].of[j]];
    if (points > most_grid_points)
      return pn_fail_at(TN_EINPUT, grid->place, 1, "the grid of `%s` has %g points; at most %g",
                        p->unknowns[i].name, points, most_grid_points);
  }
  return TN_OK;
}

static tn_status read_output(pn_problem *p, const pn_toml *table) {
  const pn_toml *fields = pn_toml_find(table, "fields"), *grid = pn_toml_find(table, "grid");
  pn_output *o = &p->output;
  if (fields && !(fields->kind == PN_TOML_STRING && strcmp(fields->string, "none") == 0)) {
    bool list = fields->kind == PN_TOML_ARRAY;
    o->n_fields = list ? fields->n : 1;
    TN_TRY(PN_TAKE(p->arena, o->n_fields, &o->fields));
    for (size_t i = 0; i < o->n_fields; ++i)
      TN_TRY(read_field(p, list ? fields->items[i] : fields, &o->fields[i]));
  }
  if (!grid || (grid->kind == PN_TOML_STRING && strcmp(grid->string, automatic) == 0))
    return TN_OK;
  bool list = grid->kind == PN_TOML_ARRAY;
  if (list && grid->n != p->n_coordinates)
    return pn_fail_at(TN_EINPUT, grid->place, 1,
                      "`grid` has %zu entries; one number, or one for each of the %zu coordinates",
                      grid->n, p->n_coordinates);
  o->n_grid = list ? grid->n : 1;
  TN_TRY(PN_TAKE(p->arena, o->n_grid, &o->grid));
  for (size_t i = 0; i < o->n_grid; ++i) {
    const pn_toml *node = list ? grid->items[i] : grid;
    TN_TRY(pn_read_count(p, node, NULL, 0, &o->grid[i]));
    if (o->grid[i] < 1 || o->grid[i] > most_grid)
      return pn_fail_at(TN_EINPUT, node->place, 1,
                        "`grid` is %zu; expected 1 to %zu points along a "
                        "coordinate",
                        o->grid[i], most_grid);
  }
  return check_grid(p, grid);
}

tn_status pn_read_settings(pn_problem *problem, const pn_toml *root) {
  const pn_toml *run = pn_toml_find(root, "run");
  size_t seed = 0;
  TN_TRY(read_numbers(problem, pn_toml_find(root, "precision")));
  problem->weights.scheme =
      pn_read_text(pn_toml_find(pn_toml_find(root, "weights"), "scheme"), "balance");
  TN_TRY(read_points(problem, pn_toml_find(root, "points")));
  TN_TRY(read_stages(problem, pn_toml_find(root, "stage")));
  TN_TRY(read_output(problem, pn_toml_find(root, "output")));
  TN_TRY(read_count(problem, run, "seed", NULL, 0, &seed));
  problem->seed = seed;
  problem->wave_seed = seed;
  return read_not_negative(problem, run, "seconds", NULL, 0, &problem->seconds);
}

/* ---- Exact solutions and what is accepted
 * -------------------------------------------------------- */

/* The unknown that a key of [exact] or accept.error names. */
static tn_status unknown_of(pn_problem *p, const pn_toml *node, const char *table, size_t *index) {
  if (pn_lookup(p, node->key, index) == PN_IS_UNKNOWN)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->key_place, strlen(node->key),
                    "`%s` in %s is not an unknown of [unknowns], nor a parameter of [parameters]",
                    node->key, table);
}

/* A solution that a parameter stands in is known if the parameter is. */
static tn_status check_solutions(const pn_problem *p) {
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_expr *exact = p->unknowns[u].exact;
    uint64_t bits = exact ? pn_expr_parameters(p, exact) : 0;
    for (size_t i = 0; i < p->n_parameters; ++i)
      if ((bits >> i & 1u) && isnan(p->parameters[i].exact))
        return pn_expr_fail(TN_EINPUT, exact,
                            "the parameter `%s` stands in the exact solution of `%s`, but [exact] "
                            "has no value of `%s`",
                            p->parameters[i].name, p->unknowns[u].name, p->parameters[i].name);
  }
  return TN_OK;
}

static tn_status read_solutions(pn_problem *p, const pn_toml *table) {
  for (size_t i = 0; table && i < table->n; ++i) {
    const pn_toml *entry = table->items[i], *value = pn_toml_find(entry, "value");
    size_t index = 0;
    if (pn_lookup(p, entry->key, &index) == PN_IS_PARAMETER) {
      TN_TRY(pn_read_exact_parameter(p, entry, index));
      continue;
    }
    TN_TRY(unknown_of(p, entry, "[exact]", &index));
    if (!value)
      continue;
    pn_unknown *u = &p->unknowns[index];
    TN_TRY(pn_read_tree(p, value, &u->exact));
    u->exact_place = entry->key_place;
    pn_naming scope = {.problem = p,
                       .what = "an exact solution",
                       .coordinates = true,
                       .parameters = true,
                       .arguments_of = index + 1};
    TN_TRY(pn_resolve(&scope, u->exact));
    if (u->exact->components != 1)
      return pn_expr_fail(TN_EINPUT, u->exact, "the exact solution of `%s` is a vector", u->name);
    if (!u->pair) {
      TN_TRY(pn_must_be_real(u->exact, "the exact solution of a real unknown"));
      continue;
    }
    pn_expr *whole = u->exact;
    u[1].exact_place = u->exact_place;
    TN_TRY(pn_scalar(p, whole, 0, NULL, &u[0].exact));
    TN_TRY(pn_scalar(p, whole, PN_IMAGINARY, NULL, &u[1].exact));
  }
  return check_solutions(p);
}

/* One bound for all, or a table of bounds. */
static tn_status read_errors(pn_problem *p, const pn_toml *error) {
  if (!error || (error->kind == PN_TOML_STRING && strcmp(error->string, "none") == 0))
    return TN_OK;
  p->accept_error_given = true;
  if (error->kind != PN_TOML_TABLE) {
    double bound = 0;
    size_t known = 0;
    TN_TRY(pn_read_number(p, error, NULL, 0, &bound));
    TN_TRY(pn_read_is_positive(error, bound));
    for (size_t i = 0; i < p->n_unknowns; ++i) {
      if (!p->unknowns[i].exact)
        continue;
      p->unknowns[i].accept = bound;
      ++known;
    }
    for (size_t i = 0; i < p->n_parameters; ++i) {
      if (isnan(p->parameters[i].exact))
        continue;
      p->parameters[i].accept = bound;
      ++known;
    }
    if (known > 0)
      return TN_OK;
    return pn_fail_at(
        TN_EINPUT, error->key_place, strlen(error->key),
        "accept.error asks for an error, but [exact] gives no solution to compare with");
  }
  for (size_t i = 0; i < error->n; ++i) {
    const pn_toml *node = error->items[i];
    size_t index = 0;
    bool parameter = pn_lookup(p, node->key, &index) == PN_IS_PARAMETER;
    if (!parameter)
      TN_TRY(unknown_of(p, node, "accept.error", &index));
    if (node->kind != PN_TOML_INTEGER && node->kind != PN_TOML_FLOAT &&
        node->kind != PN_TOML_STRING)
      return pn_fail_at(TN_EINPUT, node->place, 1, "the bound on `%s` is %s, not a number",
                        node->key, pn_toml_kind_text(node->kind));
    if (parameter ? isnan(p->parameters[index].exact) : !p->unknowns[index].exact)
      return pn_fail_at(TN_EINPUT, node->key_place, strlen(node->key),
                        "accept.error asks for the error of `%s`, but [exact] has no `%s`",
                        node->key, node->key);
    double *bound = parameter ? &p->parameters[index].accept : &p->unknowns[index].accept;
    TN_TRY(pn_read_number(p, node, NULL, 0, bound));
    TN_TRY(pn_read_is_positive(node, *bound));
    if (!parameter && p->unknowns[index].pair)
      p->unknowns[index + 1].accept = *bound;
  }
  return TN_OK;
}

tn_status pn_read_exact(pn_problem *problem, const pn_toml *root) {
  const pn_toml *accept = pn_toml_find(root, "accept");
  TN_TRY(read_solutions(problem, pn_toml_find(root, "exact")));
  TN_TRY(read_errors(problem, pn_toml_find(accept, "error")));
  problem->accept_residual_given = pn_toml_find(accept, "residual") != NULL;
  return read_positive(problem, accept, "residual", NULL, 1e-2, &problem->accept_residual);
}
