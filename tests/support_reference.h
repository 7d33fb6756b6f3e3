/* support_reference.h: the cases of tests/data/reference.h5, built as graphs. */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include "autograd/autograd.h"

#define REFERENCE_MAX_LAYERS 16

typedef struct reference_case {
  const char *name;
  size_t n_sizes, sizes[REFERENCE_MAX_LAYERS]; /* widths of the layers */
  size_t n_weights, n_points, n_in, n_out, n_equations;
  double *weights, *points, *residual, *gradient; /* owned */
  double loss;
} reference_case;

/* How derivatives by the coordinates are made. */
typedef enum reference_mode { BY_GRAD, BY_JETS, BY_SEPARATE_JETS, BY_NESTED_CALLS } reference_mode;

tn_status reference_load(const char *name, reference_case *out) TN_MUST_USE;
void reference_free(reference_case *c);

typedef struct reference_graph {
  tn_graph *graph;
  tn_dtype dtype;
  tn_axis axis;
  size_t n_leaves;
  tn_value leaves[2 * REFERENCE_MAX_LAYERS]; /* weights and biases in order */
  tn_value coordinate[16];                   /* [N] inputs */
  size_t n_residuals;
  tn_value residual[4], loss;
  tn_value gradient[2 * REFERENCE_MAX_LAYERS];
  ag_resolve_report report;
} reference_graph;

tn_status reference_build(const reference_case *c, reference_mode mode, tn_dtype dtype,
                          reference_graph *out) TN_MUST_USE;
/* Binds weights and points, runs on `pool`; residual [N][equations], gradient flat. */
tn_status reference_run(const reference_case *c, reference_graph *g, tn_pool *pool, double *loss,
                        double *residual, double *gradient) TN_MUST_USE;

#endif
