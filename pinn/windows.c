/* windows.c: `[time] windows = n`: n runs, one after the other, each on its part of the time.
 *
 *   window w    the file with the time in [t_(w-1), t_w], equal parts, by overrides as --set has them
 *   start       of the first: the file's; of others: the unknowns, and what the equations' orders in time ask for
 *               besides (u_t for u_tt), as the window before has them at its end, at fixed points of space, as the
 *               data of conditions. They stand in the place of the file's conditions at the start
 *   weights     those of the window before, shifted: a solution that goes on as it did is near at hand
 *
 *   accept      w/n of the file's accept.error: what is wrong is handed on, and adds up
 *
 * A window's folder FOLDER/window=w/ is that of an ordinary run: it holds the file, the overrides and the data, so
 * `pinn eval`, audits and --resume need nothing else. FOLDER/summary.json joins them. A window that misses its aim
 * does not end the run (what follows is told with its own errors), a signal or a value that is not finite does.
 *
 * --resume goes through the windows again: one that is finished only computes its last values anew, with the same
 * bits; the first that is not goes on; the rest is made fresh.
 */
#include "pinn/windows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pinn/check.h"
#include "pinn/files.h"
#include "pinn/json.h"
#include "pinn/region.h"
#include "pinn/sobol.h"
#include "pinn/text.h"
#include "pinn/values.h"

enum { LINE_POINTS = 256, SPACE_POINTS = 1024, MOST_ORDER = 8 };

typedef struct window_result {
  pn_outcome outcome;
  double range[2], loss, seconds;
  size_t steps;
  pn_field_error *fields; /* [n_unknowns]; NULL: not reached */
} window_result;

typedef struct sequence {
  const pn_solve_options *options;
  pn_problem *problem;    /* the whole time */
  window_result *windows; /* [problem->windows] */
  window_result *now;
  char *folder;
  size_t n_theta;
  double *theta;
  size_t n_start; /* conditions of the next window's start, as overrides */
  char **start;
} sequence;

tn_status pn_window_folder(const char *folder, size_t w, char **out) {
  char name[40];
  snprintf(name, sizeof name, "window=%zu", w);
  return pn_path_join(folder, name, out);
}

size_t pn_windows_in(const char *folder) {
  for (size_t n = 0;; ++n) {
    char *path = NULL, *result = NULL;
    bool there = pn_window_folder(folder, n + 1, &path) == TN_OK &&
                 pn_path_join(path, "result.h5", &result) == TN_OK && pn_path_exists(result);
    tn_free(&path);
    tn_free(&result);
    if (!there)
      return n;
  }
}

/* ---- The start of the next window ------------------------------------------------------------ */

/* Fixed points of the space at the window's end: columns[c][i]; those of the region alone. */
static tn_status draw_points(const pn_problem *p, size_t *n, double *const *columns) {
  size_t t = pn_time_axis(p), d = p->n_coordinates, kept = 0;
  size_t most = d == 1 ? 1 : d == 2 ? LINE_POINTS : SPACE_POINTS;
  double *u = NULL, point[PN_MAX_COORDINATES];
  TN_TRY(TN_NEW(most * d, &u));
  tn_status status = pn_sobol(d, tn_stream_of(p->seed, "windows"), 0, most, u);
  for (size_t i = 0; status == TN_OK && i < most; ++i) {
    for (size_t c = 0; c < d; ++c) {
      const pn_coordinate *k = &p->coordinates[c];
      double share = d == 2 ? (double)i / (LINE_POINTS - 1) : u[i * d + c];
      point[c] = c == t ? k->hi : fmin(k->lo + share * (k->hi - k->lo), k->hi);
    }
    if (!pn_domain_holds(p, point))
      continue;
    for (size_t c = 0; c < d; ++c)
      columns[c][kept] = point[c];
    ++kept;
  }
  tn_free(&u);
  *n = kept;
  return status;
}

static void put_list(pn_text *w, const char *name, size_t n, const double *x) {
  char number[40];
  pn_putf(w, "%s%s = [", w->n > 0 && w->text[w->n - 1] == '{' ? "" : ", ", name);
  for (size_t i = 0; i < n; ++i) {
    snprintf(number, sizeof number, "%s%.17g", i ? ", " : "", x[i]);
    pn_put(w, number);
  }
  pn_put(w, "]");
}

/* The weight that the file gives its conditions at the start, the first that has one. */
static double start_weight(const pn_problem *p) {
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (pn_starts_time(p, &p->conditions[i]) && p->conditions[i].weight_given &&
        !p->conditions[i].weight)
      return p->conditions[i].weight_number;
  return NAN;
}

static tn_status add_start(sequence *s, pn_text *w) {
  TN_TRY(tn_grow(&s->start, s->n_start, s->n_start + 1, sizeof *s->start));
  s->start[s->n_start] = NULL;
  return pn_text_take(w, &s->start[s->n_start++], NULL);
}

/* u_t_t at the points: u, with `order` times the time behind it. */
static tn_status put_value(sequence *s, const pn_run *run, size_t unknown, size_t order, size_t n,
                           double *const *columns, double *values) {
  pn_problem *p = run->problem;
  const pn_unknown *u = &p->unknowns[unknown];
  const char *t = p->coordinates[pn_time_axis(p)].name;
  const char *part = u->part == PN_WHOLE ? "" : u->part == PN_REAL_PART ? "re" : "im";
  char name[300];
  pn_text w = {0};
  pn_values *program = NULL;
  pn_item item = {.kind = PN_ITEM_EXPR, .component = u->part == PN_IMAGINARY_PART ? PN_IMAGINARY : 0};
  size_t used = (size_t)snprintf(name, sizeof name, "%.80s", u->pair ? u->pair : u->name);
  for (size_t i = 0; i < order; ++i)
    used += (size_t)snprintf(name + used, sizeof name - used, "_%.16s", t);
  TN_TRY(pn_problem_expression(p, "time.windows", name, &item.expr));
  tn_status status = pn_values_new(run->model, run->pool, (UINT32_C(1) << p->n_coordinates) - 1, 1,
                                   &item, &program);
  size_t n_theta = 0;
  const double *theta = pn_training_theta(run->training, &n_theta);
  if (status == TN_OK)
    status = pn_values_at(program, theta, n, (const double *const *)columns, values);
  pn_values_free(&program);
  TN_TRY(status);
  pn_putf(&w, "conditions.start%zu={equation = \"%s%s%s%s = wstart%zu\"", s->n_start + 1, part,
          *part ? "(" : "", name, *part ? ")" : "", s->n_start + 1);
  double weight = start_weight(s->problem);
  if (weight == weight) {
    pn_put(&w, ", weight = ");
    pn_put_number(&w, weight);
  }
  char column[40];
  snprintf(column, sizeof column, "wstart%zu", s->n_start + 1);
  pn_put(&w, ", data = {");
  for (size_t c = 0; c < p->n_coordinates; ++c)
    put_list(&w, p->coordinates[c].name, n, columns[c]);
  put_list(&w, column, n, values);
  pn_put(&w, "}}");
  status = add_start(s, &w);
  pn_text_free(&w);
  return status;
}

static void forget_start(sequence *s) {
  for (size_t i = 0; i < s->n_start; ++i)
    tn_free(&s->start[i]);
  tn_free(&s->start);
  s->n_start = 0;
}

static tn_status make_start(sequence *s, const pn_run *run, double *const *columns,
                            double *values) {
  size_t n = 0;
  TN_TRY(draw_points(run->problem, &n, columns));
  for (size_t u = 0; u < s->problem->n_unknowns; ++u) {
    size_t order = pn_order_in_time(s->problem, u);
    if (order > MOST_ORDER)
      return TN_FAIL(TN_EINPUT, "time.windows: at most %d derivatives by the time", MOST_ORDER);
    for (size_t k = 0; k < order; ++k)
      TN_TRY(put_value(s, run, u, k, n, columns, values));
  }
  return TN_OK;
}

static tn_status keep_weights(sequence *s, const pn_run *run) {
  size_t n = 0;
  const double *theta = pn_training_theta(run->training, &n);
  tn_free(&s->theta);
  s->n_theta = n;
  TN_TRY(TN_NEW(n, &s->theta));
  memcpy(s->theta, theta, n * sizeof *theta);
  return TN_OK;
}

static tn_status on_finish(void *context, const pn_run *run) {
  sequence *s = context;
  const pn_train_result *r = pn_training_result(run->training);
  double *block = NULL, *columns[PN_MAX_COORDINATES] = {NULL};
  size_t d = run->problem->n_coordinates;
  s->now->outcome = r->outcome;
  s->now->loss = r->loss;
  s->now->steps = r->steps;
  s->now->seconds = run->seconds;
  TN_TRY(TN_NEW(r->n_fields, &s->now->fields));
  memcpy(s->now->fields, r->fields, r->n_fields * sizeof *r->fields);
  TN_TRY(keep_weights(s, run));
  forget_start(s);
  TN_TRY(TN_NEW((d + 1) * SPACE_POINTS, &block));
  for (size_t c = 0; c < d; ++c)
    columns[c] = block + c * SPACE_POINTS;
  tn_status status = make_start(s, run, columns, block + d * SPACE_POINTS);
  tn_free(&block);
  return status;
}

/* ---- One window ------------------------------------------------------------------------------ */

/* Errors are handed on and add up, so window w of n may have w/n of what the file accepts at the end. */
static tn_status put_acceptance(const pn_problem *p, size_t w, pn_text *out) {
  size_t n = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_unknown *k = &p->unknowns[u];
    if (!(k->accept > 0) || k->part == PN_IMAGINARY_PART)
      continue;
    pn_putf(out, "%s%s = ", n++ ? ", " : "accept.error={", k->pair ? k->pair : k->name);
    pn_put_number(out, k->accept * (double)w / (double)p->windows);
  }
  if (n)
    pn_put(out, "}");
  return pn_text_status(out);
}

/* The user's overrides, then those of the window: PN_WINDOW_MARK, range, acceptance, start. */
static tn_status make_overrides(const sequence *s, size_t w, pn_text *own, const char **list,
                                size_t *n) {
  const pn_problem *p = s->problem;
  const pn_coordinate *time = &p->coordinates[pn_time_axis(p)];
  char range[120];
  for (size_t i = 0; i < s->options->n_overrides; ++i)
    list[(*n)++] = s->options->overrides[i];
  list[(*n)++] = PN_WINDOW_MARK;
  snprintf(range, sizeof range, "%.17g, %.17g", s->now->range[0], s->now->range[1]);
  pn_putf(&own[0], "domain.%s.range=[%s]", time->key, range);
  TN_TRY(pn_text_status(&own[0]));
  list[(*n)++] = own[0].text;
  pn_text *accept = &own[p->n_conditions + 1];
  TN_TRY(put_acceptance(p, w, accept));
  if (accept->n)
    list[(*n)++] = accept->text;
  for (size_t i = 0; w > 1 && i < p->n_conditions; ++i) {
    if (!pn_starts_time(p, &p->conditions[i]))
      continue;
    pn_putf(&own[1 + i], "conditions.%s=", p->conditions[i].name);
    TN_TRY(pn_text_status(&own[1 + i]));
    list[(*n)++] = own[1 + i].text;
  }
  for (size_t i = 0; w > 1 && i < s->n_start; ++i)
    list[(*n)++] = s->start[i];
  return TN_OK;
}

static tn_status solve_one(sequence *s, size_t w, const char *folder) {
  pn_solve_options one = *s->options;
  const pn_window window = {.n_theta = s->n_theta, .theta = s->theta, .finish = on_finish, .context = s};
  const char **list = NULL;
  pn_text *own = NULL;
  size_t n = 0, n_own = s->problem->n_conditions + 2;
  tn_status status = TN_NEW(s->options->n_overrides + n_own + s->n_start + 2, &list);
  if (status == TN_OK)
    status = TN_NEW(n_own, &own);
  if (status == TN_OK)
    status = make_overrides(s, w, own, list, &n);
  one.n_overrides = n;
  one.overrides = list;
  one.out = folder;
  one.unchecked = true; /* the whole file was */
  one.resume = s->options->resume && pn_windows_in(s->folder) >= w;
  one.figure = NULL;
  if (status == TN_OK)
    status = pn_solve_window(&one, &window, &s->now->outcome);
  for (size_t i = 0; own != NULL && i < n_own; ++i)
    pn_text_free(&own[i]);
  tn_free(&own);
  tn_free(&list);
  return status;
}

static tn_status tell(const sequence *s, size_t w) {
  char lo[PN_TEXT_NUMBER], hi[PN_TEXT_NUMBER];
  const pn_problem *p = s->problem;
  if (!s->options->terminal)
    return TN_OK;
  pn_text_of_number(s->now->range[0], lo);
  pn_text_of_number(s->now->range[1], hi);
  if (fprintf(s->options->terminal, "%swindow %zu of %zu  %s in [%s, %s]\n", w > 1 ? "\n" : "", w,
              p->windows, p->coordinates[pn_time_axis(p)].name, lo, hi) < 0)
    return TN_FAIL(TN_EIO, "the terminal cannot be written");
  return TN_OK;
}

/* ---- All together ---------------------------------------------------------------------------- */

/* Over all windows that are done: sqrt(sum |e|^2 / sum |exact|^2), and the worst of them. */
static void join(const sequence *s, size_t u, double *joint, double *worst, size_t *where) {
  double error = 0, size = 0;
  *worst = -1;
  *where = 0;
  for (size_t w = 0; w < s->problem->windows && s->windows[w].fields; ++w) {
    const pn_field_error *f = &s->windows[w].fields[u];
    error += f->error_square;
    size += f->size_square;
    if (f->known && f->rel_l2 > *worst) {
      *worst = f->rel_l2;
      *where = w + 1;
    }
  }
  *joint = *where == 0 ? NAN : sqrt(size > 0 ? error / size : error);
  if (*where == 0)
    *worst = NAN;
}

static pn_outcome outcome_of(const sequence *s) {
  pn_outcome all = PN_CONVERGED;
  for (size_t w = 0; w < s->problem->windows; ++w) {
    const window_result *r = &s->windows[w];
    if (!r->fields)
      return all == PN_CONVERGED ? PN_NOT_CONVERGED : all;
    if (r->outcome == PN_INTERRUPTED || r->outcome == PN_TERMINATED)
      return r->outcome;
    if (r->outcome != PN_CONVERGED)
      all = r->outcome;
  }
  return all;
}

static void put_windows(pn_json *json, const sequence *s) {
  pn_json_array(json, "windows");
  for (size_t w = 0; w < s->problem->windows; ++w) {
    const window_result *r = &s->windows[w];
    pn_json_object(json, NULL);
    pn_json_number(json, "from", r->range[0]);
    pn_json_number(json, "to", r->range[1]);
    pn_json_boolean(json, "done", r->fields != NULL);
    pn_json_boolean(json, "converged", r->fields != NULL && r->outcome == PN_CONVERGED);
    if (r->fields) {
      pn_json_number(json, "loss", r->loss);
      pn_json_integer(json, "steps", (int64_t)r->steps);
      pn_json_number(json, "seconds", r->seconds);
    }
    pn_json_end(json);
  }
  pn_json_end(json);
}

static tn_status write_summary(const sequence *s, pn_outcome outcome) {
  pn_json *json = NULL;
  char *path = NULL;
  double joint = 0, worst = 0;
  size_t where = 0;
  TN_TRY(pn_json_new(&json));
  pn_json_object(json, NULL);
  pn_json_string(json, "problem", s->problem->source.file);
  pn_json_string(json, "title", s->problem->title);
  pn_json_boolean(json, "converged", outcome == PN_CONVERGED);
  pn_json_integer(json, "exit_status", outcome);
  pn_json_object(json, "fields");
  for (size_t u = 0; u < s->problem->n_unknowns; ++u) {
    join(s, u, &joint, &worst, &where);
    pn_json_object(json, s->problem->unknowns[u].name);
    pn_json_number(json, "rel_l2", joint);
    pn_json_number(json, "worst_rel_l2", worst);
    if (where)
      pn_json_integer(json, "worst_window", (int64_t)where);
    pn_json_number(json, "accept", s->problem->unknowns[u].accept);
    pn_json_end(json);
  }
  pn_json_end(json);
  put_windows(json, s);
  pn_json_string(json, "version", pn_version());
  pn_json_end(json);
  tn_status status = pn_path_join(s->folder, "summary.json", &path);
  if (status == TN_OK)
    status = pn_json_write(json, path);
  tn_free(&path);
  pn_json_free(&json);
  return status;
}

static tn_status tell_end(const sequence *s, pn_outcome outcome) {
  FILE *out = s->options->terminal;
  double joint = 0, worst = 0;
  size_t where = 0;
  if (!out)
    return TN_OK;
  fprintf(out, "\nwindows       %s\n", outcome == PN_CONVERGED ? "all CONVERGED" : "NOT all converged");
  for (size_t w = 0; w < s->problem->windows; ++w)
    if (!s->windows[w].fields || s->windows[w].outcome != PN_CONVERGED)
      fprintf(out, "              window %zu %s\n", w + 1,
              s->windows[w].fields ? "did not converge" : "is not done");
  for (size_t u = 0; u < s->problem->n_unknowns; ++u) {
    char a[PN_TEXT_NUMBER], b[PN_TEXT_NUMBER];
    join(s, u, &joint, &worst, &where);
    if (where == 0)
      continue;
    snprintf(a, sizeof a, "%.2e", joint);
    snprintf(b, sizeof b, "%.2e", worst);
    fprintf(out, "              %s: relative L2 %s over all, %s in window %zu, the worst\n",
            s->problem->unknowns[u].name, a, b, where);
  }
  return fprintf(out, "              %s\n", s->folder) < 0
             ? TN_FAIL(TN_EIO, "the terminal cannot be written")
             : TN_OK;
}

static void tell_figures(const sequence *s) {
  const pn_solve_options *o = s->options;
  double joint = 0, worst = 0, loss = 0, steps = 0, seconds = 0;
  size_t where = 0;
  char name[96];
  if (!o->figure)
    return;
  for (size_t u = 0; u < s->problem->n_unknowns; ++u) {
    join(s, u, &joint, &worst, &where);
    snprintf(name, sizeof name, "error.%.80s", s->problem->unknowns[u].name);
    if (where)
      o->figure(o->figure_context, name, joint);
  }
  for (size_t w = 0; w < s->problem->windows && s->windows[w].fields; ++w) {
    loss = fmax(loss, s->windows[w].loss);
    steps += (double)s->windows[w].steps;
    seconds += s->windows[w].seconds;
  }
  o->figure(o->figure_context, "loss", loss);
  o->figure(o->figure_context, "steps", steps);
  o->figure(o->figure_context, "seconds", seconds);
}

static tn_status solve_all(sequence *s) {
  const pn_coordinate *time = &s->problem->coordinates[pn_time_axis(s->problem)];
  for (size_t w = 1; w <= s->problem->windows; ++w)
    pn_window_range(time, w, s->problem->windows, s->windows[w - 1].range);
  for (size_t w = 1; w <= s->problem->windows; ++w) {
    char *folder = NULL;
    s->now = &s->windows[w - 1];
    TN_TRY(tell(s, w));
    TN_TRY(pn_window_folder(s->folder, w, &folder));
    tn_status status = solve_one(s, w, folder);
    tn_free(&folder);
    if (status != TN_OK)
      return status;
    TN_TRY(write_summary(s, outcome_of(s)));
    if (s->now->outcome == PN_INTERRUPTED || s->now->outcome == PN_TERMINATED)
      return TN_OK;
  }
  return TN_OK;
}

static tn_status check_all(const sequence *s) {
  char *words = NULL, *warnings = NULL;
  if (s->options->unchecked)
    return TN_OK;
  tn_status status = pn_check_before_run(s->problem, &words, &warnings);
  if (status == TN_OK && s->options->terminal && warnings && *warnings)
    fprintf(s->options->terminal, "%s\n", warnings);
  tn_free(&words);
  tn_free(&warnings);
  if (status != TN_EINPUT)
    return status;
  return TN_FAIL(TN_EINPUT, "%s\n`--no-check` trains all the same.", tn_error_text());
}

tn_status pn_solve_windows(const pn_solve_options *options, pn_problem *problem,
                           pn_outcome *outcome) {
  sequence s = {.options = options, .problem = problem};
  pn_run run = {.options = options, .lock = -1};
  tn_status status = check_all(&s);
  *outcome = PN_NOT_CONVERGED;
  if (status == TN_OK)
    status = TN_NEW(problem->windows, &s.windows);
  if (status == TN_OK)
    status = pn_run_folder(&run);
  s.folder = run.folder;
  if (status == TN_OK)
    status = solve_all(&s);
  if (status == TN_OK) {
    *outcome = outcome_of(&s);
    status = tell_end(&s, *outcome);
    tell_figures(&s);
  } else if (status == TN_ENONFINITE) {
    *outcome = PN_NONFINITE;
  }
  for (size_t w = 0; s.windows && w < problem->windows; ++w)
    tn_free(&s.windows[w].fields);
  tn_free(&s.windows);
  tn_free(&s.theta);
  forget_start(&s);
  if (run.lock >= 0)
    (void)close(run.lock);
  tn_free(&run.folder);
  return status;
}

/* A file without windows is loaded once more by its run, which costs milliseconds. */
tn_status pn_solve(const pn_solve_options *options, pn_outcome *outcome) {
  pn_problem *problem = NULL;
  *outcome = PN_NOT_CONVERGED;
  tn_status status = pn_problem_load(options->path, options->n_overrides, options->overrides, &problem);
  if (status != TN_OK || problem->windows <= 1) {
    tn_error_clear(); /* the run tells it, to all ranks */
    pn_problem_free(&problem);
    return pn_solve_window(options, NULL, outcome);
  }
  if (options->comm != NULL) {
    status = pn_fail_at(TN_EUNSUPPORTED, problem->windows_place, 1,
                        "time.windows = %zu: windows are solved by one process; start pinn without "
                        "mpirun",
                        problem->windows);
    if (options->all_failed)
      *options->all_failed = true;
  } else {
    status = pn_solve_windows(options, problem, outcome);
  }
  pn_problem_free(&problem);
  return status;
}
