/* test_streamed_problems.c: every problem file gives the same bits with the streamed and with the reference executor.
 * ctest: labels=full,problems timeout=600 processors=3
 *
 * For each file of problems/, tests/data/problems and tests/data/cases the objective is built as for training: scales of
 * unknowns and terms, training points (of test data at most 300 a set), random weights. Loss, terms, gradients of terms, gradient, residual, J v, J^T w,
 * the second derivative along v, losses at several theta and rows of J are compared as bits: the reference executor
 * (TN_EXECUTOR=reference) against the streamed one on 1 and on 3 threads, in f64 and in f32. A NaN may be any NaN.
 *
 * The first argument, or PINN_TEST_FILE, is a part of a file's name and chooses files.
 */
#include "pinn/objective.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FILES = 200, PATH = 512, LOSSES = 5, ROWS = 37 };

static const char *only;

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

/* ---- What an objective gives ---- */

typedef enum part {
  LOSS,
  TERMS,
  TERM_GRADIENTS,
  GRADIENT,
  RESIDUAL,
  FORWARD,
  BACKWARD,
  SECOND,
  SEVERAL,
  SOME_ROWS,
  PARTS
} part;
static const char *const part_name[PARTS] = {
    "loss",   "terms", "gradients of terms", "gradient", "residual", "jvp", "vjp", "second",
    "losses", "rows"};

typedef struct result {
  char error[300]; /* of building the objective; else "" */
  size_t parameters, rows, n[PARTS];
  double *x[PARTS]; /* owned; NULL: not offered */
} result;

static double *take(result *r, part p, size_t n) {
  r->n[p] = n;
  good(TN_NEW(n, &r->x[p]));
  return r->x[p];
}

static double *random_numbers(const char *name, size_t n, double scale) {
  double *x = NULL;
  good(TN_NEW(n, &x));
  for (size_t i = 0; i < n; ++i)
    x[i] = scale * tn_random_normal(tn_stream_of(3, name), i);
  return x;
}

static void evaluate(pn_objective *f, tn_dtype dtype, const double *theta, result *out) {
  double *v = random_numbers("v", f->n, 0.1), *w = random_numbers("w", f->n_rows, 1);
  double *thetas = random_numbers("theta", LOSSES * f->n, 0.01);
  for (size_t i = 0; i < LOSSES * f->n; ++i)
    thetas[i] += theta[i % f->n];
  good(f->loss(f, theta, take(out, LOSS, 1)));
  double *g = take(out, GRADIENT, f->n + 1);
  good(f->gradient(f, theta, g, g + 1));
  if (f->terms) {
    double *sums = take(out, TERMS, f->n_terms);
    good(f->terms(f, theta, sums, take(out, TERM_GRADIENTS, f->n_terms * f->n)));
  }
  if (f->residual)
    good(f->residual(f, theta, take(out, RESIDUAL, f->n_rows)));
  if (f->jvp)
    good(f->jvp(f, theta, v, take(out, FORWARD, f->n_rows)));
  if (f->vjp)
    good(f->vjp(f, theta, w, take(out, BACKWARD, f->n)));
  if (f->second)
    good(f->second(f, theta, v, take(out, SECOND, f->n_rows)));
  if (f->losses)
    good(f->losses(f, LOSSES, thetas, take(out, SEVERAL, LOSSES)));
  if (f->rows && dtype == TN_F64) { /* rows are formed in f64 alone */
    size_t count = f->n_rows < ROWS ? f->n_rows : ROWS;
    double *r = take(out, SOME_ROWS, count * (f->n + 1));
    good(f->rows(f, theta, f->n_rows - count, count, r, r + count));
  }
  tn_free(&v);
  tn_free(&w);
  tn_free(&thetas);
}

static void drop(result *r) {
  for (int p = 0; p < PARTS; ++p)
    tn_free(&r->x[p]);
}

/* ---- An objective of a file ---- */

typedef struct setting {
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  tn_pool *pool;
  pn_loss *loss;
  double *theta, *size;
  bool *skip;
} setting;

/* most > 0: no set has more points. */
static tn_status build(pn_problem *problem, tn_dtype dtype, size_t most, size_t threads,
                       setting *s) {
  const pn_draw draw = {.kind = PN_DRAW_TRAIN, .seed = 7, .stage = 1, .factor = 1};
  TN_TRY(tn_pool_new(threads, &s->pool));
  TN_TRY(pn_model_new(problem, dtype, &s->model));
  TN_TRY(TN_NEW(problem->n_conditions, &s->skip));
  TN_TRY(TN_NEW(problem->n_unknowns, &s->size));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    s->skip[i] = pn_model_is_hard(s->model, &problem->conditions[i]);
  TN_TRY(pn_sites_new(problem, s->model->n_theta, s->skip, &s->sites));
  for (size_t i = 0; most > 0 && i < s->sites->n_sites; ++i)
    if (s->sites->sites[i].wanted > most)
      s->sites->sites[i].wanted = most;
  if (most > 0 && s->sites->interior > most)
    s->sites->interior = most;
  TN_TRY(pn_scopes_new(s->model, s->sites, &s->scopes));
  TN_TRY(pn_loss_new(s->scopes, s->pool, &s->loss));
  TN_TRY(pn_sites_draw(s->sites, &draw));
  TN_TRY(pn_scale_unknowns(s->scopes, s->size));
  TN_TRY(pn_scale_terms(s->scopes, s->size, s->loss, NULL));
  TN_TRY(pn_loss_bind(s->loss));
  TN_TRY(TN_NEW(s->model->n_theta, &s->theta));
  return pn_model_init(s->model, 11, s->theta);
}

/* Everything that makes an executor happens while the environment names the kind. */
static void run(const char *path, tn_dtype dtype, size_t most, const char *executor, size_t threads,
                result *out) {
  setting s = {0};
  pn_problem *problem = NULL;
  memset(out, 0, sizeof *out);
  assert_int_equal(setenv("TN_EXECUTOR", executor, 1), 0);
  tn_status status = pn_problem_load(path, 0, NULL, &problem);
  if (status == TN_OK)
    status = build(problem, dtype, most, threads, &s);
  if (status == TN_OK) {
    pn_objective *f = pn_loss_objective(s.loss);
    out->parameters = f->n;
    out->rows = f->n_rows;
    evaluate(f, dtype, s.theta, out);
  } else {
    snprintf(out->error, sizeof out->error, "%s", tn_error_text());
  }
  pn_loss_free(&s.loss);
  pn_scopes_free(&s.scopes);
  pn_sites_free(&s.sites);
  pn_model_free(&s.model);
  pn_problem_free(&problem);
  tn_pool_free(&s.pool);
  tn_free(&s.theta);
  tn_free(&s.size);
  tn_free(&s.skip);
}

/* ---- Comparing ---- */

/* Differing numbers; the first ones are printed. */
static size_t differences(const char *file, const char *what, const result *got,
                          const result *want) {
  size_t bad = 0;
  for (int p = 0; p < PARTS; ++p) {
    assert_int_equal(got->n[p], want->n[p]);
    size_t before = bad, first = 0;
    for (size_t i = 0; i < want->n[p]; ++i) {
      const double *x = &got->x[p][i], *y = &want->x[p][i];
      if (memcmp(x, y, sizeof *x) == 0 || (isnan(*x) && isnan(*y)))
        continue;
      first = bad++ == before ? i : first;
    }
    if (bad > before)
      print_message("  %s, %s, %s: %zu of %zu differ, first %zu: %a, reference %a\n", file, what,
                    part_name[p], bad - before, want->n[p], first, got->x[p][first],
                    want->x[p][first]);
  }
  return bad;
}

static size_t count_finite(const result *r, size_t *all) {
  size_t finite = 0;
  for (int p = 0; p < PARTS; ++p)
    for (size_t i = 0; i < r->n[p]; ++i) {
      ++*all;
      finite += isfinite(r->x[p][i]) != 0;
    }
  return finite;
}

/* Gives the number of differing numbers; *built is whether the file has an objective. */
static size_t check(const char *folder, const char *file, tn_dtype dtype, size_t most,
                    bool *built) {
  char path[PATH];
  result want, got;
  size_t bad = 0, all = 0, parts = 0;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  run(path, dtype, most, "reference", 1, &want);
  *built = want.error[0] == '\0';
  for (int p = 0; p < PARTS; ++p)
    parts += want.x[p] != NULL;
  for (size_t threads = 1; threads <= 3; threads += 2) {
    char what[64];
    run(path, dtype, most, "", threads, &got);
    snprintf(what, sizeof what, "%s, %zu threads", tn_dtype_name(dtype), threads);
    assert_string_equal(got.error, want.error);
    bad += differences(file, what, &got, &want);
    drop(&got);
  }
  if (*built) {
    size_t finite = count_finite(&want, &all);
    print_message("%-24s %s %6zu weights %6zu rows %2zu kinds %9zu numbers %6.2f %% finite  %zu "
                  "differ\n",
                  file, tn_dtype_name(dtype), want.parameters, want.rows, parts, all,
                  100.0 * (double)finite / (double)all, bad);
  } else if (dtype == TN_F64) {
    print_message("%-24s has no objective: %.*s\n", file, (int)strcspn(want.error, "\n"),
                  want.error);
  }
  drop(&want);
  return bad;
}

/* ---- Files ---- */

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static size_t list_files(const char *folder, char (*name)[PATH]) {
  DIR *directory = opendir(folder);
  size_t n = 0;
  assert_non_null(directory);
  for (struct dirent *e = readdir(directory); e; e = readdir(directory)) {
    const char *dot = strrchr(e->d_name, '.');
    if (!dot || strcmp(dot, ".toml") != 0 || (only && !strstr(e->d_name, only)))
      continue;
    assert_true(n < FILES);
    snprintf(name[n++], PATH, "%s", e->d_name);
  }
  closedir(directory);
  qsort(name, n, PATH, by_text);
  return n;
}

/* Every file of a folder; at most `refused` of them may have no objective. */
static void files_of(const char *folder, size_t most, size_t refused) {
  static char name[FILES][PATH];
  size_t n = list_files(folder, name), bad = 0, without = 0;
  for (size_t i = 0; i < n; ++i) {
    bool built = false;
    for (int f32 = 0; f32 < 2; ++f32)
      bad += check(folder, name[i], f32 ? TN_F32 : TN_F64, most, &built);
    without += !built;
  }
  print_message("%zu files, %zu without an objective, %zu numbers differ\n", n, without, bad);
  assert_int_equal(bad, 0);
  if (only)
    return;
  assert_true(n > 8);
  assert_true(without <= refused);
}

static void problems_give_the_same_bits(void **state) {
  (void)state;
  files_of(PROBLEMS_DIR, 0, 0);
}

static void test_problems_give_the_same_bits(void **state) {
  (void)state;
  files_of(TESTS_DATA_DIR "/problems", 300, 13); /* most use what is not there yet */
}

static void cases_give_the_same_bits(void **state) {
  (void)state;
  files_of(TESTS_DATA_DIR "/cases", 300, 3); /* these three are mistakes */
}

int main(int n, char **argument) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(problems_give_the_same_bits),
                                     cmocka_unit_test(test_problems_give_the_same_bits),
                                     cmocka_unit_test(cases_give_the_same_bits)};
  only = n > 1 ? argument[1] : getenv("PINN_TEST_FILE");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
