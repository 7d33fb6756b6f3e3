/* plugin.h: what a shared library exports so that a problem file can use its functions.
 *
 *   [definitions]
 *   k = { library = "k.so", of = "a, b" }
 *
 * asks k.so (relative to the problem file) for `pinn_k` of this type, a function of one or two arguments:
 *
 *   value[i] = d^(order[0] + order[1]) f / d a^order[0] d b^order[1]  at (x[0][i], x[1][i]),  0 <= i < n
 *
 * and returns 0. A derivative that it does not have: it returns another number and writes nothing; it is asked with n = 0
 * (then x and value are NULL) before the derivative is used, and must answer the same ever after. It is called by many
 * threads at once, in any order, and depends on its arguments alone. A value that is not finite is one like any other.
 * Training needs one order more than the equations show, for each argument that depends on an unknown.
 *
 *   cc -std=c11 -O2 -fPIC -shared -o k.so k.c
 */
#ifndef PINN_PLUGIN_H
#define PINN_PLUGIN_H

#include <stddef.h>

typedef int pinn_plugin(size_t n, const double *const *x, const unsigned *order, double *value);

#endif
