/* rowwise.h: derivatives of operations over rows, and of users' operations. */
#ifndef AUTOGRAD_ROWWISE_H
#define AUTOGRAD_ROWWISE_H

#include "autograd/vjp.h"

bool ag_is_rowwise(const tn_op *op); /* softmax, layer_norm, rstd */
/* The cotangent of x from that of y = op(x); the cotangent may have a point axis that y lacks (rows.c). */
ag_cotangent ag_rowwise_pull(const tn_node *node, tn_value x, tn_value y, ag_cotangent g);
/* The tangent of y from that of x, which has the shape of x. */
tn_value ag_rowwise_push(const tn_node *node, tn_value x, tn_value y, tn_value xdot);
/* The jet of op(x); x has channels besides its value. */
tn_status ag_rowwise_jet(tn_graph *graph, const tn_node *node, const tn_jet *x, tn_jet *y) TN_MUST_USE;

/* custom.c: the partial derivative of a user's scalar operation by input `by` (an error value: refused). */
tn_value ag_custom_partial(tn_graph *graph, const tn_op *op, const tn_value *x, tn_value y, size_t by);
tn_status ag_custom_jet(tn_graph *graph, const tn_op *op, tn_jet *const *x, tn_jet *y) TN_MUST_USE;
bool ag_is_opaque(const tn_op *op); /* of a user, on whole arrays; or the cotangents of one */

/* Channels of one fixed shape: numbers a point are repeated over units (jet.c). */
void ag_jet_widen(tn_jet *jet, tn_shape fixed);
tn_shape ag_jet_shape(const tn_jet *jet); /* the largest fixed shape of its channels */

#endif
