/* lookup.h: the functions of [tables] as numbers. Inside pinn/ only. */
#ifndef PINN_LOOKUP_H
#define PINN_LOOKUP_H

#include "pinn/problem.h"

/* One table of the problem, read and ready to interpolate. */
typedef struct pn_lookup pn_lookup;
/* Reads the file (relative to the problem file). TN_EIO, TN_EINPUT with file and line. */
tn_status pn_lookup_new(const pn_problem *problem, size_t table, pn_lookup **out) TN_MUST_USE;
void pn_lookup_free(pn_lookup **lookup);
/* The value at a point of all coordinates of the problem; NaN outside the table. */
double pn_lookup_at(const pn_lookup *lookup, const double *point);

#endif
