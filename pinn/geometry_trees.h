/* geometry_trees.h: arithmetic that makes trees. Only geometry_carriers.c and geometry_smooth.c include it. An argument that
 * is NULL, because an earlier call failed, gives NULL. */
#ifndef PINN_GEOMETRY_TREES_H
#define PINN_GEOMETRY_TREES_H

#include "pinn/geometry_smooth.h"

pn_expr *pn_tree_number(pn_smooth *s, double value);
pn_expr *pn_tree_binary(pn_smooth *s, pn_kind kind, pn_expr *a, pn_expr *b);
pn_expr *pn_tree_add(pn_smooth *s, pn_expr *a, pn_expr *b);
pn_expr *pn_tree_sub(pn_smooth *s, pn_expr *a, pn_expr *b);
pn_expr *pn_tree_mul(pn_smooth *s, pn_expr *a, pn_expr *b);
pn_expr *pn_tree_div(pn_smooth *s, pn_expr *a, pn_expr *b);
pn_expr *pn_tree_square(pn_smooth *s, pn_expr *a);
pn_expr *pn_tree_scale(pn_smooth *s, double factor, pn_expr *a);
pn_expr *pn_tree_negate(pn_smooth *s, pn_expr *a);
pn_expr *pn_tree_sqrt(pn_smooth *s, pn_expr *a);
pn_expr *pn_tree_where(pn_smooth *s, pn_expr *test, pn_expr *yes, pn_expr *no);
pn_expr *pn_tree_linear(pn_smooth *s, size_t d, const double *n, pn_expr *const *x, double constant);
/* Positive where both are (R-conjunction a + b - sqrt(a^2 + b^2)); one may be NULL: the other. */
pn_expr *pn_tree_both(pn_smooth *s, pn_expr *a, pn_expr *b);

#endif
