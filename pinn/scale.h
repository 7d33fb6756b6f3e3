/* scale.h: what scale.c needs beside itself: sizes of functions, means over integrals. Inside pinn/ only.
 */
#ifndef PINN_SCALE_H
#define PINN_SCALE_H

#include "pinn/problem.h"

/* The size of f(a[0], ...) for arguments of sizes a[0..n). */
double pn_size_of_function(pn_function f, const double *a, size_t n);

/* The root mean square of a value of n_points points (or one) that can be evaluated now. */
tn_status pn_rms_of_value(tn_value value, size_t n_points, double *out) TN_MUST_USE;

/* The integrals around a tree, the innermost first. */
typedef struct pn_within {
  const pn_expr *integral;
  const struct pn_within *outer;
} pn_within;

/* The integrals of e^2 and of 1 over all of them, with a few nodes: the mean square of e is their
 * quotient. */
tn_status pn_within_mean(pn_arena *arena, const pn_within *within, const pn_expr *e,
                         pn_expr **square, pn_expr **one) TN_MUST_USE;

#endif
