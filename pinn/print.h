/* print.h: what the printers of trees (print.c, mathml.c) share. */
#ifndef PINN_PRINT_H
#define PINN_PRINT_H

#include "pinn/expr.h"
#include "pinn/text.h"

/* Binding strength for brackets: 1 sum, 2 product, 3 sign, 4 power, 5 primary; 0 comparisons, -1
 * not, -2 and, -3 or. */
int pn_expr_strength(const pn_expr *e);
/* Copies the text into the arena and frees it, also on failure. */
tn_status pn_text_into(pn_text *w, pn_arena *arena, char **out) TN_MUST_USE;

#endif
