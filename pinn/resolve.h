/* resolve.h: what resolve.c and calls.c share. */
#ifndef PINN_RESOLVE_H
#define PINN_RESOLVE_H

#include "pinn/names.h"

/* "`u` is an unknown; a constant cannot use it" */
tn_status pn_not_here(const pn_naming *scope, const pn_expr *e, const char *what);
/* Made of numbers, constants and ends of ranges alone? */
bool pn_is_constant(const pn_expr *e);
/* "`u_xx` can be read as `u_x_x` or `u_xx`" */
tn_status pn_several_readings(const pn_problem *problem, const pn_expr *e, const char *name,
                              const pn_reading *readings, size_t n);
/* A field at the point itself, as a new node with the place of e. */
tn_status pn_make_field(pn_naming *scope, const pn_expr *e, pn_sort sort, size_t index,
                        pn_expr **out) TN_MUST_USE;
/* Makes e the derivative of `inside`, which is resolved; derivatives of derivatives are flattened.
 */
tn_status pn_make_derivative(pn_naming *scope, pn_expr *e, pn_expr *inside, const size_t *axes,
                             size_t n) TN_MUST_USE;
/* A copy of an unresolved tree; the budget counts down. */
tn_status pn_copy_tree(pn_arena *arena, const pn_expr *e, size_t *budget,
                       pn_expr **out) TN_MUST_USE;
/* mean(e, A) of unknowns that live in a part: over that part alone (calls.c). */
tn_status pn_average_where_it_lives(pn_problem *problem, pn_expr *e) TN_MUST_USE;
/* Fails where e depends on a coordinate whose ends move: no average goes over it. */
tn_status pn_check_still(const pn_naming *scope, const pn_expr *e) TN_MUST_USE;
/* int(...) with its arguments unresolved; an error for a variable whose name is taken (integral.c). */
tn_status pn_resolve_integral(pn_naming *scope, pn_expr *e) TN_MUST_USE;
/* resolve_shape.c: inside(A) or interface(A) as a node of that kind; inside(A) as a value; a name that is no region. */
tn_status pn_resolve_shape(pn_naming *scope, pn_expr *e, pn_kind kind) TN_MUST_USE;
tn_status pn_resolve_inside(pn_naming *scope, pn_expr *e) TN_MUST_USE;
tn_status pn_no_shape(const pn_problem *problem, const pn_expr *e, const char *name);
/* Resolves a PN_CALL (calls.c). */
tn_status pn_resolve_call(pn_naming *scope, pn_expr *e) TN_MUST_USE;

#endif
