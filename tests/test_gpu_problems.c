/* test_gpu_problems.c: losses of problem files on the emulated device give the bits of the CPU.
 * ctest: labels=full,gpu timeout=300 processors=2
 *
 * For each row the objective is built twice from one file, as for training: on the CPU and on the device. Loss, terms
 * and gradient are compared as bits: three times on all points (kernel by kernel, captured, replayed), on batches of
 * two sizes, at other weights, and on all points again. PINN_TEST_ALL takes all rows, and compares residual, J v, J^T w
 * and the second derivative, each a program of its own, too, for every file of problems/.
 */
#include "pinn/objective.h"
#include "pinn/precision.h"
#include "tests/support_gpu_bench.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct { size_t losses, numbers, differing; } all;

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

/* ---- An objective of a file ---- */

typedef struct setting {
  pn_problem *problem;
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  pn_loss *loss;
  pn_objective *f;
  double *theta;
  bool *skip;
} setting;

static void limit_points(pn_sites *sites, size_t most) {
  for (size_t i = 0; i < sites->n_sites; ++i)
    if (sites->sites[i].wanted > most)
      sites->sites[i].wanted = most;
  if (sites->interior > most)
    sites->interior = most;
}

static void open_setting(setting *s, const char *file, const pn_precision *p, size_t most,
                         tn_pool *pool) {
  const pn_draw draw = {.kind = PN_DRAW_TRAIN, .seed = 7, .stage = 1, .factor = 1};
  char path[1024];
  *s = (setting){0};
  snprintf(path, sizeof path, "%s/%s", PROBLEMS_DIR, file);
  good(pn_problem_load(path, 0, NULL, &s->problem));
  good(pn_model_new(s->problem, p->model, &s->model));
  good(TN_NEW(s->problem->n_conditions + 1, &s->skip));
  for (size_t i = 0; i < s->problem->n_conditions; ++i)
    s->skip[i] = pn_model_is_hard(s->model, &s->problem->conditions[i]);
  good(pn_sites_new(s->problem, s->model->n_theta, s->skip, &s->sites));
  limit_points(s->sites, most);
  good(pn_scopes_new(s->model, s->sites, &s->scopes));
  good(pn_loss_new_in(s->scopes, pool, p, &s->loss));
  good(pn_sites_draw(s->sites, &draw));
  good(pn_loss_bind(s->loss));
  s->f = pn_loss_objective(s->loss);
  good(TN_NEW(s->model->n_theta, &s->theta));
  good(pn_model_init(s->model, 11, s->theta));
}

static void close_setting(setting *s) {
  pn_loss_free(&s->loss);
  pn_scopes_free(&s->scopes);
  pn_sites_free(&s->sites);
  pn_model_free(&s->model);
  pn_problem_free(&s->problem);
  tn_free(&s->theta);
  tn_free(&s->skip);
}

/* ---- Comparing ---- */

static size_t differing(const char *what, const double *got, const double *want, size_t n) {
  size_t bad = 0;
  for (size_t i = 0; i < n; ++i) {
    if (memcmp(&got[i], &want[i], sizeof *got) == 0 || (isnan(got[i]) && isnan(want[i])))
      continue;
    if (bad++ == 0)
      print_message("  %s: number %zu of %zu is %a, CPU %a\n", what, i, n, got[i], want[i]);
  }
  all.numbers += n;
  all.differing += bad;
  return bad;
}

static double *numbers(size_t n, const char *name) {
  double *x = NULL;
  good(TN_NEW(n + 1, &x));
  for (size_t i = 0; name && i < n; ++i)
    x[i] = 0.1 * tn_random_normal(tn_stream_of(3, name), i);
  return x;
}

/* Loss and gradient at theta. */
static size_t compare(const char *what, setting *d, setting *h, const double *theta) {
  double *got = numbers(d->f->n + 2, NULL), *want = numbers(d->f->n + 2, NULL);
  for (int k = 0; k < 2; ++k) {
    setting *s = k ? h : d;
    double *to = k ? want : got;
    good(s->f->loss(s->f, theta, to));
    good(s->f->gradient(s->f, theta, to + 1, to + 2));
  }
  size_t bad = differing(what, got, want, d->f->n + 2);
  tn_free(&got);
  tn_free(&want);
  return bad;
}

/* What solvers of second order ask for. */
static size_t compare_others(const char *what, setting *d, setting *h) {
  size_t n = d->f->n, rows = d->f->n_rows, most = (n > rows ? n : rows) + 8, bad = 0;
  double *v = numbers(n, "v"), *w = numbers(rows, "w"), *got = numbers(most, NULL),
         *want = numbers(most, NULL);
  for (int part = 0; part < 4; ++part) {
    for (int k = 0; k < 2; ++k) {
      pn_objective *f = k ? h->f : d->f;
      double *to = k ? want : got;
      if (part == 0 && f->residual)
        good(f->residual(f, d->theta, to));
      if (part == 1 && f->jvp)
        good(f->jvp(f, d->theta, v, to));
      if (part == 2 && f->vjp)
        good(f->vjp(f, d->theta, w, to));
      if (part == 3 && f->second)
        good(f->second(f, d->theta, v, to));
    }
    bad += differing(what, got, want, part == 2 ? n : rows);
  }
  tn_free(&v);
  tn_free(&w);
  tn_free(&got);
  tn_free(&want);
  return bad;
}

static size_t check(const char *file, const char *compute, size_t most, bool others,
                    tn_pool *pool) {
  setting d, h;
  pn_precision p;
  char what[128];
  size_t bad = 0, before = all.numbers;
  good(pn_precision_of(compute, NULL, &p));
  open_setting(&h, file, &p, most, NULL);
  open_setting(&d, file, &p, most, pool);
  snprintf(what, sizeof what, "%s, %s", file, compute);
  for (int k = 0; k < 3; ++k)
    bad += compare(what, &d, &h, d.theta);
  for (size_t batch = 17; batch <= 80; batch += 63) { /* points rebound, other extents */
    good(pn_loss_bind_batch(d.loss, batch, 1));
    good(pn_loss_bind_batch(h.loss, batch, 1));
    bad += compare(what, &d, &h, d.theta);
  }
  good(pn_loss_bind(d.loss));
  good(pn_loss_bind(h.loss));
  for (size_t i = 0; i < d.f->n; ++i)
    h.theta[i] = d.theta[i] *= 1.25;
  bad += compare(what, &d, &h, d.theta);
  if (others)
    bad += compare_others(what, &d, &h);
  print_message("%-22s %-5s %5zu weights %5zu rows %7zu numbers, %zu differ\n", file, compute,
                d.f->n, d.f->n_rows, all.numbers - before, bad);
  ++all.losses;
  close_setting(&d);
  close_setting(&h);
  return bad;
}

static void losses_and_gradients_have_the_bits_of_the_cpu(void **state) {
  static const struct {
    const char *file, *compute;
    size_t points;
    bool quick;
  } rows[] = {
      {"burgers.toml", "f64", 700, true},      {"burgers.toml", "f16", 300, false},
      {"kdv.toml", "f64", 150, false},         {"kovasznay.toml", "f32", 200, true},
      {"allen_cahn.toml", "bf16", 150, false}, {"helmholtz.toml", "tf32", 90, false},
      {"oscillator.toml", "f64", 60, true},    {"oscillator.toml", "f16", 60, true},
  };
  gpu_bench *b = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i].quick || getenv("PINN_TEST_ALL"))
      (void)check(rows[i].file, rows[i].compute, rows[i].points, false, b->pool);
  assert_int_equal(all.differing, 0);
}

static void all_programs_of_all_problems_have_the_bits_of_the_cpu(void **state) {
  gpu_bench *b = *state;
  if (!getenv("PINN_TEST_ALL"))
    skip();
  DIR *directory = opendir(PROBLEMS_DIR);
  assert_non_null(directory);
  for (struct dirent *e = readdir(directory); e; e = readdir(directory)) {
    const char *dot = strrchr(e->d_name, '.');
    if (!dot || strcmp(dot, ".toml") != 0)
      continue;
    (void)check(e->d_name, "f64", 200, true, b->pool);
    (void)check(e->d_name, "f32", 200, true, b->pool);
  }
  closedir(directory);
  assert_int_equal(all.differing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_and_gradients_have_the_bits_of_the_cpu),
      cmocka_unit_test(all_programs_of_all_problems_have_the_bits_of_the_cpu),
  };
  int failed = cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
  print_message("%zu losses, %zu numbers compared, %zu differ\n", all.losses, all.numbers,
                all.differing);
  return failed;
}
