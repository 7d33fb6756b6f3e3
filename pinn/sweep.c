/* sweep.c: `pinn solve --sweep path=v1,v2 --seeds n`: the product of values and seeds, one run after the other.
 *
 * Runs are numbered like digits, the last one (the seed) fastest. Each is a run of its own with a folder whose name
 * says what is different, so each can be evaluated, continued or deleted alone. sweep.csv is written anew after every
 * run: what is there holds for the runs that are done, whatever happens to the next. A run that misses its aim, or
 * ends with a value that is not finite, does not end the sweep; wrong input does, because the next one has it too.
 */
#include "pinn/pinn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/table.h"

enum { MOST_SWEEPS = 16, MOST_VALUES = 1000, MOST_RUNS = 10000, MOST_FIGURES = 96 };

typedef struct dimension {
  const char *path; /* "constants.nu", not terminated: */
  size_t n_path;
  const char *leaf; /* "nu", within path, n_leaf characters */
  size_t n_leaf;
  size_t n_values;
  const char **value; /* [n_values], not terminated: */
  size_t *length;
} dimension;

typedef struct row { /* of sweep.csv */
  size_t n;
  char name[MOST_FIGURES][80];
  double value[MOST_FIGURES];
} row;

typedef struct sweep {
  const pn_solve_options *solve;
  size_t n_dimensions;
  dimension dimensions[MOST_SWEEPS];
  size_t seeds; /* at least 1 */
  bool seeds_given;
  char *folder;
  size_t n_rows;
  row *rows;
} sweep;

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The end of a value: a comma outside brackets, braces and quotes. */
static size_t value_length(const char *text) {
  size_t n = 0, depth = 0;
  char quote = 0;
  for (; text[n]; ++n) {
    const char c = text[n];
    if (quote) {
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  return n;
}

static tn_status add_value(dimension *d, const char *text, size_t length) {
  if (length == 0)
    return TN_FAIL(TN_EINPUT, "--sweep %.*s: a value is empty; expected path=value,value",
                   (int)d->n_path, d->path);
  if (d->n_values == MOST_VALUES)
    return TN_FAIL(TN_EINPUT, "--sweep %.*s: more than %d values", (int)d->n_path, d->path,
                   MOST_VALUES);
  for (size_t i = 0; i < d->n_values; ++i)
    if (d->length[i] == length && memcmp(d->value[i], text, length) == 0)
      return TN_FAIL(TN_EINPUT, "--sweep %.*s: %.*s is given twice", (int)d->n_path, d->path,
                     (int)length, text);
  TN_TRY(tn_grow(&d->value, d->n_values, d->n_values + 1, sizeof *d->value));
  TN_TRY(tn_grow(&d->length, d->n_values, d->n_values + 1, sizeof *d->length));
  d->value[d->n_values] = text;
  d->length[d->n_values++] = length;
  return TN_OK;
}

static tn_status read_dimension(const char *text, dimension *d) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text)
    return TN_FAIL(TN_EINPUT, "--sweep %s: expected path=value,value, as constants.nu=0.1,0.01",
                   text);
  *d = (dimension){.path = text, .n_path = (size_t)(equals - text), .leaf = text};
  for (const char *c = text; c < equals; ++c)
    if (*c == '.')
      d->leaf = c + 1;
  d->n_leaf = (size_t)(equals - d->leaf);
  if (d->n_path == strlen("run.seed") && memcmp(text, "run.seed", d->n_path) == 0)
    return TN_FAIL(TN_EINPUT, "--sweep run.seed: seeds are given by --seeds n (0 to n - 1)");
  for (const char *at = equals + 1;; ++at) {
    size_t n = value_length(at);
    TN_TRY(add_value(d, at, n));
    at += n;
    if (!*at)
      return TN_OK;
  }
}

/* A part of a path: what a file system or a shell could take amiss becomes '_'. */
static void put_part(char *out, size_t size, const char *text, size_t n) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+=";
  size_t used = strlen(out);
  for (size_t i = 0; i < n && used + 1 < size; ++i)
    if (text[i] != '"' && text[i] != '\'')
      out[used++] = strchr(plain, text[i]) ? text[i] : '_';
  out[used] = 0;
}

static bool same_leaf(const dimension *a, const dimension *b) {
  return a->n_leaf == b->n_leaf && memcmp(a->leaf, b->leaf, a->n_leaf) == 0;
}

/* "nu", or the whole path where two paths end alike. */
static void put_name(const sweep *s, size_t k, char *out, size_t size) {
  const dimension *d = &s->dimensions[k];
  bool alone = true;
  for (size_t i = 0; i < s->n_dimensions; ++i)
    alone = alone && (i == k || !same_leaf(&s->dimensions[i], d));
  if (alone)
    put_part(out, size, d->leaf, d->n_leaf);
  else
    put_part(out, size, d->path, d->n_path);
}

/* ---- One run --------------------------------------------------------------------------------- */

static void add_figure(row *r, const char *name, double value) {
  if (r->n == MOST_FIGURES)
    return; /* no problem has so many unknowns; sweep.csv then holds the first */
  snprintf(r->name[r->n], sizeof r->name[0], "%s", name);
  r->value[r->n++] = value;
}

static void on_figure(void *context, const char *name, double value) {
  add_figure(context, name, value);
}

/* The number that a value is; the place in the list for one that is none. */
static double number_of(const dimension *d, size_t i) {
  char text[64], *end = NULL;
  snprintf(text, sizeof text, "%.*s", (int)(d->length[i] < 63 ? d->length[i] : 63), d->value[i]);
  double x = strtod(text, &end);
  return *end == 0 && isfinite(x) ? x : (double)(i + 1);
}

/* What is different in one run: keys, seed, and the folder named after them. */
typedef struct variant {
  char folder[4096];
  const char **overrides; /* [n]: those of all runs, then own[] */
  size_t n;
  char *own[MOST_SWEEPS];
} variant;

static void variant_free(variant *v) {
  for (size_t k = 0; k < MOST_SWEEPS; ++k)
    tn_free(&v->own[k]);
  tn_free(&v->overrides);
}

/* Appends "/text"; what does not fit shows by a full array. */
static void enter(variant *v, const char *text) {
  size_t used = strlen(v->folder);
  snprintf(v->folder + used, sizeof v->folder - used, "/%s", text);
}

static tn_status take_value(const sweep *s, size_t k, size_t digit, variant *v, row *r) {
  const dimension *d = &s->dimensions[k];
  char name[256] = "";
  size_t size = d->n_path + d->length[digit] + 2;
  TN_TRY(TN_NEW(size, &v->own[k]));
  snprintf(v->own[k], size, "%.*s=%.*s", (int)d->n_path, d->path, (int)d->length[digit],
           d->value[digit]);
  v->overrides[v->n++] = v->own[k];
  put_name(s, k, name, sizeof name);
  add_figure(r, name, number_of(d, digit));
  put_part(name, sizeof name, "=", 1);
  put_part(name, sizeof name, d->value[digit], d->length[digit]);
  enter(v, name);
  return TN_OK;
}

static tn_status make_variant(const sweep *s, const size_t *digit, variant *v, row *r) {
  snprintf(v->folder, sizeof v->folder, "%s", s->folder);
  TN_TRY(TN_NEW(s->solve->n_overrides + s->n_dimensions, &v->overrides));
  for (size_t i = 0; i < s->solve->n_overrides; ++i)
    v->overrides[v->n++] = s->solve->overrides[i];
  for (size_t k = 0; k < s->n_dimensions; ++k)
    TN_TRY(take_value(s, k, digit[k], v, r));
  return TN_OK;
}

static tn_status run_variant(sweep *s, variant *v, size_t seed, row *r, pn_outcome *outcome) {
  pn_solve_options one = *s->solve;
  if (s->seeds_given) {
    char name[32];
    snprintf(name, sizeof name, "seed=%zu", seed);
    enter(v, name);
    add_figure(r, "seed", (double)seed);
    one.seed_given = true;
    one.seed = seed;
  }
  if (strlen(v->folder) + 1 == sizeof v->folder)
    return TN_FAIL(TN_EINPUT, "--sweep: the name of a folder is too long");
  one.n_overrides = v->n;
  one.overrides = v->overrides;
  one.out = v->folder;
  one.figure = on_figure;
  one.figure_context = r;
  if (one.terminal)
    fprintf(one.terminal, "%s== %s\n", s->n_rows ? "\n" : "", v->folder);
  tn_status status = pn_solve(&one, outcome);
  if (status == TN_ENONFINITE) { /* its folder and its row say so */
    fprintf(stderr, "%s\n", tn_error_text());
    status = TN_OK;
  }
  add_figure(r, "exit_status", (double)*outcome);
  return status;
}

static tn_status run_one(sweep *s, const size_t *digit, size_t seed, pn_outcome *outcome) {
  variant v = {.n = 0};
  row *r = &s->rows[s->n_rows];
  tn_status status = make_variant(s, digit, &v, r);
  if (status == TN_OK)
    status = run_variant(s, &v, seed, r, outcome);
  variant_free(&v);
  s->n_rows += status == TN_OK;
  return status;
}

/* ---- sweep.csv ------------------------------------------------------------------------------- */

static size_t find_column(char (*names)[80], size_t n, const char *name) {
  for (size_t i = 0; i < n; ++i)
    if (strcmp(names[i], name) == 0)
      return i;
  return n;
}

/* One row a run; columns in the order in which they appear first; nan where a run has no such figure. */
static tn_status write_table(const sweep *s) {
  char names[MOST_FIGURES][80], *path = NULL;
  const char *list[MOST_FIGURES];
  size_t n = 0;
  pn_table *table = NULL;
  for (size_t i = 0; i < s->n_rows; ++i)
    for (size_t k = 0; k < s->rows[i].n; ++k)
      if (n < MOST_FIGURES && find_column(names, n, s->rows[i].name[k]) == n)
        memcpy(names[n++], s->rows[i].name[k], sizeof names[0]);
  for (size_t k = 0; k < n; ++k)
    list[k] = names[k];
  TN_TRY(pn_table_new("sweep.csv", n, list, s->n_rows, &table));
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < s->n_rows; ++i)
      pn_table_data(table, k)[i] = NAN;
  for (size_t i = 0; i < s->n_rows; ++i)
    for (size_t k = 0; k < s->rows[i].n; ++k) {
      size_t column = find_column(names, n, s->rows[i].name[k]);
      if (column < n)
        pn_table_data(table, column)[i] = s->rows[i].value[k];
    }
  tn_status status = pn_path_join(s->folder, "sweep.csv", &path);
  if (status == TN_OK)
    status = pn_table_write(table, path);
  tn_free(&path);
  pn_table_free(&table);
  return status;
}

/* ---- All ------------------------------------------------------------------------------------- */

static tn_status open_folder(sweep *s) {
  const pn_solve_options *o = s->solve;
  char *standard = NULL, *table = NULL;
  if (!o->out) {
    TN_TRY(pn_path_named(o->path, ".sweep", &standard));
    tn_status status = pn_next_free_folder(standard, &s->folder);
    tn_free(&standard);
    return status;
  }
  TN_TRY(tn_copy_text(o->out, &s->folder));
  TN_TRY(pn_path_join(s->folder, "sweep.csv", &table));
  bool used = pn_path_exists(table);
  tn_free(&table);
  if (used)
    return TN_FAIL(TN_EINPUT, "--out %s: the folder holds a sweep already; choose another one",
                   o->out);
  return pn_make_folder(s->folder);
}

static tn_status start(sweep *s, size_t n_sweeps, const char *const *sweeps, size_t *runs) {
  const pn_solve_options *o = s->solve;
  if (o->resume)
    return TN_FAIL(TN_EINPUT, "--resume goes on with one run: name its folder by --out, without "
                              "--sweep and --seeds");
  if (o->comm)
    return TN_FAIL(TN_EUNSUPPORTED, "--sweep and --seeds run in one process: start single runs "
                                    "under mpirun");
  if (o->seed_given && s->seeds_given)
    return TN_FAIL(TN_EINPUT, "--seed and --seeds exclude each other: --seeds n means 0 to n - 1");
  if (n_sweeps > MOST_SWEEPS)
    return TN_FAIL(TN_EINPUT, "--sweep is given %zu times, at most %d", n_sweeps, MOST_SWEEPS);
  *runs = s->seeds;
  for (size_t k = 0; k < n_sweeps; ++k) {
    ++s->n_dimensions; /* first: the values of one that fails are freed as well */
    TN_TRY(read_dimension(sweeps[k], &s->dimensions[k]));
    for (size_t i = 0; i < k; ++i) {
      const dimension *a = &s->dimensions[i], *b = &s->dimensions[k];
      if (a->n_path == b->n_path && memcmp(a->path, b->path, a->n_path) == 0)
        return TN_FAIL(TN_EINPUT, "--sweep %.*s is given twice: write all its values in one",
                       (int)a->n_path, a->path);
    }
    *runs *= s->dimensions[k].n_values;
    if (*runs > MOST_RUNS)
      return TN_FAIL(TN_EINPUT, "--sweep: more than %d runs", MOST_RUNS);
  }
  return TN_OK;
}

static tn_status run_all(sweep *s, size_t runs, pn_outcome *outcome) {
  *outcome = PN_CONVERGED;
  TN_TRY(TN_NEW(runs, &s->rows));
  for (size_t run = 0; run < runs; ++run) {
    size_t digit[MOST_SWEEPS] = {0}, rest = run / s->seeds;
    pn_outcome one = PN_NOT_CONVERGED;
    for (size_t k = s->n_dimensions; k-- > 0; rest /= s->dimensions[k].n_values)
      digit[k] = rest % s->dimensions[k].n_values;
    TN_TRY(run_one(s, digit, run % s->seeds, &one));
    TN_TRY(write_table(s));
    if (one == PN_INTERRUPTED || one == PN_TERMINATED) {
      *outcome = one;
      return TN_OK;
    }
    if (*outcome == PN_CONVERGED)
      *outcome = one == PN_CONVERGED ? one : PN_NOT_CONVERGED;
  }
  return TN_OK;
}

static void say(const sweep *s) {
  size_t good = 0;
  for (size_t i = 0; i < s->n_rows; ++i)
    good += s->rows[i].value[s->rows[i].n - 1] == PN_CONVERGED;
  if (s->solve->terminal)
    fprintf(s->solve->terminal, "\nsweep      %zu of %zu runs accepted; %s/sweep.csv\n", good,
            s->n_rows, s->folder);
}

tn_status pn_sweep(const pn_solve_options *solve, size_t n_sweeps, const char *const *sweeps,
                   size_t seeds, pn_outcome *outcome) {
  sweep s = {.solve = solve, .seeds = seeds ? seeds : 1, .seeds_given = seeds > 0};
  size_t runs = 0;
  tn_status status = start(&s, n_sweeps, sweeps, &runs);
  if (status == TN_OK)
    status = open_folder(&s);
  if (status == TN_OK)
    status = run_all(&s, runs, outcome);
  if (status == TN_OK)
    say(&s);
  for (size_t k = 0; k < s.n_dimensions; ++k) {
    tn_free(&s.dimensions[k].value);
    tn_free(&s.dimensions[k].length);
  }
  tn_free(&s.rows);
  tn_free(&s.folder);
  return status;
}
