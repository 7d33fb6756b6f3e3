/* values.h: values of expressions at points the caller names, for files, reports and `pinn eval`.
 * Inside pinn/ only. */
#ifndef PINN_VALUES_H
#define PINN_VALUES_H

#include "pinn/objective.h"

typedef enum pn_item_kind {
  PN_ITEM_UNKNOWN,  /* the unknown as trained */
  PN_ITEM_EXACT,    /* its expression from [exact] */
  PN_ITEM_EXPR,     /* component `component` of `expr` */
  PN_ITEM_RELATION, /* lhs - rhs of `relation` */
} pn_item_kind;

typedef struct pn_item {
  pn_item_kind kind;
  size_t unknown;
  pn_expr *expr;
  size_t component;
  const pn_relation *relation;
} pn_item;

/* Compiles n items as functions of the coordinates in `needed` (bit i: coordinate i, a column of
 * every evaluation; others have no value, and an item that needs one is an error). model and pool
 * are borrowed. The model's unknown_scale is read at every evaluation. */
typedef struct pn_values pn_values;
tn_status pn_values_new(pn_model *model, tn_pool *pool, uint32_t needed, size_t n,
                        const pn_item *items, pn_values **out) TN_MUST_USE;
void pn_values_free(pn_values **values);
/* out[k * n_points + i]: item k at point i. column[c]: n_points numbers for every needed
 * coordinate. The bits of a value do not depend on the other points. */
tn_status pn_values_at(pn_values *values, const double *theta, size_t n_points,
                       const double *const *column, double *out) TN_MUST_USE;

/* An item in a scope; `exact`: the scope where unknowns are their exact solutions. */
tn_status pn_item_lower(const pn_item *item, pn_scope *scope, pn_scope *exact,
                        tn_value *out) TN_MUST_USE;
/* The coordinates that an item depends on (bit i). */
uint32_t pn_item_depends(const pn_problem *problem, const pn_item *item);
uint64_t pn_item_unknowns(const pn_problem *problem, const pn_item *item);
/* NaN for the values of an item at points outside the region, or where one of its unknowns does not live.
 * column[c] NULL: no value of coordinate c. */
void pn_mask_item(const pn_problem *problem, const pn_item *item, size_t n,
                  const double *const *column, double *values);
/* The format of values of the unknowns: f64, or f32 for all others of [precision] compute. */
tn_status pn_problem_dtype(const pn_problem *problem, tn_dtype *out) TN_MUST_USE;

#endif
