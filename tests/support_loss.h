/* support_loss.h: the loss of a problem given as text, with points and first weights, for tests of
 * objectives. Any error fails the test. */
#ifndef TESTS_SUPPORT_LOSS_H
#define TESTS_SUPPORT_LOSS_H

#include "pinn/objective.h"

#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != TN_OK)                                                                           \
      fail_msg("%s", tn_error_text());                                                             \
  } while (0)

typedef struct loss_bench {
  pn_problem *problem;
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  tn_pool *pool;
  pn_loss *loss;
  pn_objective *f;
  double *theta;
} loss_bench;

/* Weights 1, scales 1, points of seed 5, theta of seed 11. Conditions with hard = true have no
 * rows. */
void loss_open(loss_bench *b, const char *text, tn_dtype dtype, size_t threads);
void loss_close(loss_bench *b);
void loss_draw(loss_bench *b, uint64_t seed); /* new points; pn_loss_bind is the caller's */

double loss_dot(size_t n, const double *a, const double *b); /* plain sum */
double *loss_numbers(size_t n);                              /* zeroed; tn_free */
double *loss_random(size_t n, const char *stream);           /* normal; tn_free */

#endif
