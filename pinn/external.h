/* external.h: functions of shared libraries (plugin.h). Inside pinn/ only. */
#ifndef PINN_EXTERNAL_H
#define PINN_EXTERNAL_H

#include "pinn/problem.h"

/* Loads the library of a definition and finds its function. The library stays loaded as long as the process: graphs and
 * programs may outlive the problem. Errors with the place of `node`. */
tn_status pn_external_open(pn_problem *problem, pn_definition *definition) TN_MUST_USE;
/* The value at args[n_of]. */
tn_status pn_external_value(const pn_definition *definition, const double *args, double *out) TN_MUST_USE;
/* The same as a node of a graph, an operation of its own (tn_op_register) for every order of derivative. */
tn_status pn_external_apply(const pn_definition *definition, size_t n, const tn_value *args, tn_value *out) TN_MUST_USE;

#endif
