/* check_edit.h: single edits of a relation. Inside pinn/check_*.c only. */
#ifndef PINN_CHECK_EDIT_H
#define PINN_CHECK_EDIT_H

#include "pinn/check.h"

typedef enum pn_edit_style {
  PN_EDIT_REPLACE, /* `to` for `node` */
  PN_EDIT_SIGN,    /* the sign of `shown` changed */
  PN_EDIT_DROP     /* without `shown` */
} pn_edit_style;

/* While it is tried, *node holds *to. */
typedef struct pn_edit {
  pn_expr *node;
  pn_expr to;
  const pn_expr *shown; /* NULL: node and to are */
  pn_edit_style style;
  int rank; /* the smaller, the likelier a slip of the pen */
} pn_edit;

typedef struct pn_edits {
  size_t n, capacity;
  pn_edit *edit;
  int most_order; /* of derivatives that are tried */
  int zero_rank;  /* of 0 for a number: likely in u = 1, trivial in an equation */
} pn_edits;

/* Adds the edits of one node; silently stops at the capacity. */
tn_status pn_edits_of(pn_checking *c, pn_edits *edits, pn_expr *node) TN_MUST_USE;
/* The derivative of a field node (unknown or definition) along counts[] of each coordinate. */
tn_status pn_edit_derivative(pn_checking *c, const pn_expr *field, const int *counts,
                             pn_expr *out) TN_MUST_USE;
/* The next tuple of orders with total <= most over the n axes listed; starts from zeros; false at the end. */
bool pn_edit_next(size_t n, const size_t *axes, int most, int *counts);

#endif
