/* parity.h: values of a model beside those of another program. Inside pinn/ only. */
#ifndef PINN_PARITY_H
#define PINN_PARITY_H

#include <stdio.h>

#include "pinn/model.h"

/* The CSV file has a column for each coordinate and columns named by expressions (u, u_x, u_xx) with values of theirs.
 * Prints a line a column to out (NULL: none). *worst: the largest difference in ulp-scales eps S, S the sum over all
 * weights of |theta_k dv/dtheta_k|. */
tn_status pn_parity(pn_model *model, tn_pool *pool, const double *theta, const char *csv, FILE *out,
                    double *worst) TN_MUST_USE;

#endif
