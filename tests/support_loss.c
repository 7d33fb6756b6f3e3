/* support_loss.c: see support_loss.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support_loss.h"

void loss_draw(loss_bench *b, uint64_t seed) {
  const pn_draw how = {.kind = PN_DRAW_TRAIN, .seed = seed, .stage = 1, .factor = 1};
  OK(pn_sites_draw(b->sites, &how));
}

void loss_open(loss_bench *b, const char *text, tn_dtype dtype, size_t threads) {
  bool *skip = NULL;
  *b = (loss_bench){0};
  OK(tn_pool_new(threads, &b->pool));
  OK(pn_problem_parse("test.toml", text, 0, NULL, &b->problem));
  OK(pn_model_new(b->problem, dtype, &b->model));
  OK(TN_NEW(b->problem->n_conditions, &skip));
  for (size_t i = 0; i < b->problem->n_conditions; ++i)
    skip[i] = pn_model_is_hard(b->model, &b->problem->conditions[i]);
  OK(pn_sites_new(b->problem, b->model->n_theta, skip, &b->sites));
  tn_free(&skip);
  OK(pn_scopes_new(b->model, b->sites, &b->scopes));
  OK(pn_loss_new(b->scopes, b->pool, &b->loss));
  loss_draw(b, 5);
  OK(pn_loss_bind(b->loss));
  b->f = pn_loss_objective(b->loss);
  OK(TN_NEW(b->f->n, &b->theta));
  OK(pn_model_init(b->model, 11, b->theta));
}

void loss_close(loss_bench *b) {
  pn_loss_free(&b->loss);
  pn_scopes_free(&b->scopes);
  pn_sites_free(&b->sites);
  pn_model_free(&b->model);
  pn_problem_free(&b->problem);
  tn_pool_free(&b->pool);
  tn_free(&b->theta);
}

double loss_dot(size_t n, const double *a, const double *b) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

double *loss_numbers(size_t n) {
  double *x = NULL;
  OK(TN_NEW(n, &x));
  return x;
}

double *loss_random(size_t n, const char *stream) {
  double *x = loss_numbers(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = tn_random_normal(tn_stream_of(1, stream), i);
  return x;
}
