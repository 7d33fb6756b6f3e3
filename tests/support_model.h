/* support_model.h: a model of a problem given as text, with random weights, and values of expressions. */
#ifndef TESTS_SUPPORT_MODEL_H
#define TESTS_SUPPORT_MODEL_H

#include "pinn/model.h"

typedef struct {
  pn_problem *problem;
  pn_model *model;
  double *theta; /* n_theta, as pn_model_init left it; may be changed before values are asked for */
  pn_scope box[2]; /* the whole box, and the same with exact solutions */
} model_case;

/* Any error fails the test. */
void model_open(model_case *c, const char *text, tn_dtype dtype, uint64_t seed);
void model_close(model_case *c);
/* The error of pn_model_new for a problem that loads. */
tn_status model_error(const char *text);

/* Values of `value` (calls unresolved) in a scope at n points; point[i * n_coordinates + j]. out[n]. */
void model_values(model_case *c, const pn_scope *scope, tn_value value, size_t n,
                  const double *point, double *out);
/* An expression in the whole box; at one point, and at n. */
double model_at(model_case *c, const char *expr, const double *point);
void model_at_points(model_case *c, const char *expr, bool exact, size_t n, const double *point,
                     double *out);
/* A relation in the first piece of a condition, or of an equation. */
void model_relation(model_case *c, const pn_term *term, size_t piece, size_t relation, size_t n,
                    const double *point, double *out);

#endif
