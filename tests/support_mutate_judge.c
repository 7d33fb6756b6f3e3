/* support_mutate_judge.c: is a mutant found, and if not, is it a mistake at all?
 *
 * Residuals are compared with random smooth fields, a product of cosines for each unknown, with another size and
 * with another power for each, so that no equation holds and no two unknowns look alike:
 *
 *   u_k = (1 + 0.37 k) w_k + 0.1 (k + 1) w_k^2 + ...,   w_k = prod_x cos(1.3 (x - lo)/(hi - lo) + 0.7)
 *
 * Two residuals are proportional if R' = c R at all points to 1e-9 of the largest |R|, with c from the largest one.
 */
#include "tests/support_mutate.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/check.h"
#include "pinn/toml.h"

enum { POINTS = 16, PATH = 600, FILES = 400 };

/* ---- Random fields -------------------------------------------------------------------------------------- */

/* A smooth field for unknown k that no other unknown has. */
static tn_status field(pn_checking *c, size_t k, pn_expr **out) {
  pn_arena *arena = c->problem->arena;
  pn_expr *w = NULL, *shift = NULL, *power = NULL, *exponent = NULL, *scale = NULL;
  TN_TRY(pn_check_wave(c, k, 1 + 0.37 * (double)k, &w));
  TN_TRY(pn_expr_number(arena, 1.9 + 0.21 * (double)k, NULL, &shift));
  TN_TRY(pn_expr_make(arena, PN_ADD, NULL, 2, (pn_expr *[]){w, shift}, &w)); /* positive */
  TN_TRY(pn_expr_number(arena, 2 + (double)k, NULL, &exponent));
  TN_TRY(pn_expr_make(arena, PN_POWER, NULL, 2, (pn_expr *[]){w, exponent}, &power));
  TN_TRY(pn_expr_number(arena, 0.05 / (1 + (double)k), NULL, &scale));
  TN_TRY(pn_expr_make(arena, PN_MULTIPLY, NULL, 2, (pn_expr *[]){scale, power}, &power));
  return pn_expr_make(arena, PN_ADD, NULL, 2, (pn_expr *[]){w, power}, out);
}

static tn_status start(pn_checking *c) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i)
    p->conditions[i].hard = false;
  c->n_file_tables = p->n_tables;
  TN_TRY(pn_model_new(p, TN_F64, &c->model));
  TN_TRY(pn_check_start(c));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    TN_TRY(field(c, u, &p->unknowns[u].exact));
  return TN_OK;
}

static tn_status residual(pn_checking *c, size_t term, size_t site, size_t relation, size_t *n, double *out) {
  const pn_term_sites *at = &c->sites->terms[term];
  const pn_site *points = &c->sites->sites[at->site[site]];
  pn_scope *scope = NULL;
  tn_value value = {0};
  *n = points->n < POINTS ? points->n : POINTS;
  TN_TRY(pn_check_scope(c, at->site[site], &scope));
  TN_TRY(pn_lower_relation(scope, &at->term->relations[relation], &value));
  return pn_check_evaluate(c, scope, points, *n, 1, &value, out, NULL, NULL);
}

static bool proportional(size_t n, const double *a, const double *b) {
  size_t most = 0;
  for (size_t i = 1; i < n; ++i)
    most = fabs(a[i]) > fabs(a[most]) ? i : most;
  double c = b[most] / a[most];
  for (size_t i = 0; i < n; ++i)
    if (!(fabs(b[i] - c * a[i]) <= 1e-9 * fabs(c * a[most])))
      return false;
  return isfinite(c) && c != 0 && a[most] != 0;
}

/* ---- Equivalence ----------------------------------------------------------------------------------------- */

static bool same_terms(const pn_checking *a, const pn_checking *b) {
  if (a->sites->n_terms != b->sites->n_terms || a->problem->n_unknowns != b->problem->n_unknowns)
    return false;
  for (size_t u = 0; u < a->problem->n_unknowns; ++u)
    if (a->problem->unknowns[u].parity != b->problem->unknowns[u].parity)
      return false;
  for (size_t x = 0; x < a->problem->n_coordinates; ++x)
    if (a->problem->coordinates[x].periodic != b->problem->coordinates[x].periodic)
      return false;
  return true;
}

/* A condition that is gone, of a problem in which it is met by construction (an ansatz, a period). */
static bool was_built_in(pn_checking *a, const pn_checking *b) {
  const pn_problem *p = a->problem, *q = b->problem;
  bool met = false;
  if (q->n_conditions + 1 != p->n_conditions)
    return false;
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (i == q->n_conditions || strcmp(p->conditions[i].name, q->conditions[i].name) != 0)
      return pn_check_met(a, &p->conditions[i], &met) == TN_OK && met;
  return false;
}

static bool equal_terms(pn_checking *a, pn_checking *b) {
  double x[POINTS], y[POINTS];
  for (size_t m = 0; m < a->sites->n_terms; ++m) {
    const pn_term_sites *s = &a->sites->terms[m], *t = &b->sites->terms[m];
    if (strcmp(s->term->name, t->term->name) != 0 || s->n_sites != t->n_sites ||
        s->term->n_relations != t->term->n_relations)
      return false;
    for (size_t k = 0; k < s->n_sites; ++k)
      for (size_t r = 0; r < s->term->n_relations; ++r) {
        size_t n = 0, o = 0;
        const pn_relation *p = &s->term->relations[r], *q = &t->term->relations[r];
        if (strcmp(a->sites->sites[s->site[k]].key, b->sites->sites[t->site[k]].key) != 0 ||
            p->op != q->op || residual(a, m, k, r, &n, x) != TN_OK || residual(b, m, k, r, &o, y) != TN_OK ||
            n != o || !proportional(n, x, y))
          return false;
      }
  }
  return true;
}

static bool equivalent(const char *path, const char *text, const char *mutated) {
  pn_checking a = {0}, b = {0};
  bool same = false;
  if (pn_problem_parse(path, text, 0, NULL, &a.problem) == TN_OK &&
      pn_problem_parse(path, mutated, 0, NULL, &b.problem) == TN_OK && start(&a) == TN_OK &&
      start(&b) == TN_OK)
    same = was_built_in(&a, &b) || (same_terms(&a, &b) && equal_terms(&a, &b));
  tn_error_clear();
  if (a.problem)
    pn_check_end(&a);
  if (b.problem)
    pn_check_end(&b);
  pn_problem_free(&a.problem);
  pn_problem_free(&b.problem);
  return same;
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------- */

/* Every mutant must be TOML: a mistake in that would be found by the reader, and prove nothing. */
static void must_be_toml(const char *path, const char *mutated) {
  pn_arena *arena = NULL;
  pn_toml *root = NULL;
  pn_source source = {.file = path, .text = mutated};
  if (pn_arena_new(&arena) != TN_OK || pn_toml_parse(arena, &source, &root) != TN_OK)
    fail_msg("the mutant of %s is no TOML: %s\n%s", path, tn_error_text(), mutated);
  pn_arena_free(&arena);
}

static bool is_found(const char *path, const char *mutated) {
  pn_problem *p = NULL;
  char *words = NULL, *warnings = NULL;
  size_t errors = 0, warned = 0;
  const pn_check_options none = {0};
  bool found = pn_problem_parse(path, mutated, 0, NULL, &p) != TN_OK;
  if (!found)
    found = pn_check_before_run(p, &words, &warnings) != TN_OK || (warnings && *warnings);
  if (!found) { /* what the model as it is trained says too */
    pn_problem_free(&p);
    found = pn_problem_parse(path, mutated, 0, NULL, &p) != TN_OK ||
            pn_check(p, &none, NULL, &errors, &warned) != TN_OK || errors + warned > 0;
  }
  tn_error_clear();
  tn_free(&words);
  tn_free(&warnings);
  pn_problem_free(&p);
  return found;
}

verdict mutant_judge(const char *path, const char *text, const char *mutated) {
  must_be_toml(path, mutated);
  if (is_found(path, mutated))
    return MUTANT_FOUND;
  return equivalent(path, text, mutated) ? MUTANT_EQUIVALENT : MUTANT_MISSED;
}

/* ---- All files --------------------------------------------------------------------------------------------- */

static bool all_exact(const pn_problem *p) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (!p->unknowns[u].exact)
      return false;
  return true;
}

/* The line of the text that the mutant changes, before and after. */
static void show(const char *path, const char *text, const char *mutated, const mutant *m) {
  size_t from = m->at;
  while (from > 0 && text[from - 1] != '\n')
    --from;
  print_message("  missed %s (%s)\n    %.*s\n    %.*s\n", path, mutation_name[m->kind],
                (int)strcspn(text + from, "\n"), text + from, (int)strcspn(mutated + from, "\n"),
                mutated + from);
}

static void count_in(mutation_score *score, verdict v) {
  score->found += v == MUTANT_FOUND;
  score->equivalent += v == MUTANT_EQUIVALENT;
  score->missed += v == MUTANT_MISSED;
}

static void run_file(const char *path, size_t count, mutation_score *score, mutation_score *kinds) {
  static mutant all[MUTANTS], chosen[MUTANTS];
  pn_problem *p = NULL;
  if (pn_problem_load(path, 0, NULL, &p) != TN_OK)
    fail_msg("%s", tn_error_text());
  const char *name = strstr(path, "problems/");
  if (is_found(path, p->source.text))
    fail_msg("%s has a finding as it is: %s", path, tn_error_text());
  size_t n = mutants_choose(name ? name : path, mutants_of(p, all), all, count, chosen);
  for (size_t i = 0; i < n; ++i) {
    char *mutated = mutant_text(p->source.text, &chosen[i]);
    assert_non_null(mutated);
    verdict v = mutant_judge(path, p->source.text, mutated);
    if (v == MUTANT_MISSED)
      show(name ? name : path, p->source.text, mutated, &chosen[i]);
    count_in(&score[all_exact(p) ? 0 : 1], v);
    count_in(&kinds[chosen[i].kind], v);
    free(mutated);
  }
  pn_problem_free(&p);
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* The .toml files of a folder and of those in it, without `original`. */
static size_t files_of(const char *folder, size_t n, char (*out)[PATH]) {
  DIR *dir = opendir(folder);
  struct dirent *entry;
  while (dir && n < FILES && (entry = readdir(dir)) != NULL) {
    size_t length = strlen(entry->d_name);
    char path[PATH];
    if (entry->d_name[0] == '.' || strcmp(entry->d_name, "original") == 0)
      continue;
    if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= PATH)
      continue;
    if (length > 5 && strcmp(entry->d_name + length - 5, ".toml") == 0)
      memcpy(out[n++], path, sizeof path);
    else if (strchr(entry->d_name, '.') == NULL)
      n = files_of(path, n, out);
  }
  if (dir)
    closedir(dir);
  return n;
}

void mutants_run(const char *folder, const char *only, size_t count, mutation_score *exact,
                 mutation_score *other) {
  static char file[FILES][PATH];
  mutation_score score[2] = {{0}}, kinds[MUTATIONS] = {{0}};
  size_t n = files_of(folder, 0, file);
  qsort(file, n, PATH, by_name);
  for (size_t i = 0; i < n; ++i)
    if (!only || strstr(file[i], only))
      run_file(file[i], count, score, kinds);
  print_message("%-10s %6s %6s %11s\n", "kind", "found", "missed", "equivalent");
  for (size_t k = 0; k < MUTATIONS; ++k)
    print_message("%-10s %6zu %6zu %11zu\n", mutation_name[k], kinds[k].found, kinds[k].missed,
                  kinds[k].equivalent);
  *exact = score[0];
  *other = score[1];
}
