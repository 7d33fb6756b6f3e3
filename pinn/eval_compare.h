/* eval_compare.h: a solution beside a table of reference values. Inside pinn/ only. */
#ifndef PINN_EVAL_COMPARE_H
#define PINN_EVAL_COMPARE_H

#include <stdio.h>

#include "pinn/values.h"

/* Prints a line for each unknown that the CSV file has a column of (u_ref or u). */
tn_status pn_eval_compare(pn_model *model, tn_pool *pool, const double *theta, const char *path,
                          FILE *out) TN_MUST_USE;

#endif
