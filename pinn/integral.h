/* integral.h: integrals of the language: Gauss-Legendre rules and questions about trees. Inside pinn/
 * only. */
#ifndef PINN_INTEGRAL_H
#define PINN_INTEGRAL_H

#include "pinn/expr.h"

enum {
  PN_MOST_INTEGRALS = 3, /* inside each other: each multiplies the evaluations of its integrand */
  PN_RULE_MOST = 32
};

struct pn_problem;

/* Nodes and weights of Gauss and Legendre on [0, 1], ascending; exact for polynomials below degree 2n. */
typedef struct pn_rule {
  size_t n;
  double node[PN_RULE_MOST], weight[PN_RULE_MOST];
} pn_rule;
void pn_rule_of(size_t n, pn_rule *out); /* 1 <= n <= PN_RULE_MOST */

/* Integrals inside each other in a tree, definitions included. */
size_t pn_integrals_in(const struct pn_problem *problem, const pn_expr *e);
/* The nodes of one integral of a nest of so many: 32, 12, 8. */
size_t pn_integral_nodes(size_t nest);
/* Over the whole range of a coordinate? */
bool pn_integral_is_whole(const pn_expr *e);

#endif
