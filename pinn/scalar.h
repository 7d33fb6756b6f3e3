/* scalar.h: what scalar.c and scalar_metric.c share. Inside pinn/ only. */
#ifndef PINN_SCALAR_H
#define PINN_SCALAR_H

#include "pinn/resolve.h"

typedef struct pn_writing {
  pn_problem *problem;
  const pn_piece *piece;
  size_t n_space;
  size_t space[PN_MAX_COORDINATES];
  size_t budget; /* nodes that may still be made */
  int part;      /* 1: the imaginary part is written */
} pn_writing;

tn_status pn_writing_make(pn_writing *w, pn_kind kind, const pn_expr *like, size_t n,
                          pn_expr *const *args, pn_expr **out) TN_MUST_USE;
/* Component k of e, differentiated `times` times along a coordinate. */
tn_status pn_writing_derivative(pn_writing *w, const pn_expr *like, const pn_expr *e, size_t k,
                                size_t axis, size_t times, pn_expr **out) TN_MUST_USE;

/* Component k of e, of the part that w says. */
tn_status pn_writing_out(pn_writing *w, const pn_expr *e, size_t k, pn_expr **out) TN_MUST_USE;
/* scalar_complex.c: *done: e is written out; else each part goes like a real tree. */
tn_status pn_writing_complex(pn_writing *w, const pn_expr *e, size_t k, bool *done,
                             pn_expr **out) TN_MUST_USE;

/* scalar_metric.c: the operators where the metric is not Cartesian; e is the operator's node. */
tn_status pn_metric_divergence(pn_writing *w, const pn_expr *e, pn_expr **out) TN_MUST_USE;
tn_status pn_metric_laplace(pn_writing *w, const pn_expr *e, pn_expr **out) TN_MUST_USE;
tn_status pn_metric_curl(pn_writing *w, const pn_expr *e, size_t k, pn_expr **out) TN_MUST_USE;
/* *inout over the length that one unit of a coordinate has. */
tn_status pn_metric_over_length(pn_writing *w, const pn_expr *e, size_t axis,
                                pn_expr **inout) TN_MUST_USE;

#endif
