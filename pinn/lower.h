/* lower.h: the inside of lowering: trees in a frame. Inside pinn/ only.
 *
 * A frame is what a tree sees of its surroundings: a value for every coordinate. The outermost frame has
 * the coordinates of the scope; u(x=1) is lowered in a copy where x is 1; a derivative along a coordinate
 * that is no variable of its own there is taken in a copy where it is (a placeholder), and the placeholder
 * is then replaced by the value.
 */
#ifndef PINN_LOWER_H
#define PINN_LOWER_H

#include "pinn/integral.h"
#include "pinn/model.h"

typedef struct pn_frame {
  pn_scope *scope; /* tables and means are entered there */
  tn_value coordinate[PN_MAX_COORDINATES];
  uint32_t variable;    /* bit i: coordinate i is a leaf and no other coordinate depends on it */
  size_t depth;         /* of placeholders, for their names */
  tn_value dummy[PN_MOST_INTEGRALS]; /* the variables of the integrals around it */
  size_t integrals;                  /* around it, those around a definition included */
  size_t net;           /* the unknown whose ansatz is lowered; PN_NONE outside */
  tn_value *definition; /* lowered ones, n_definitions; owned; NULL until one is */
} pn_frame;

/* Something with a value in every frame. */
typedef tn_status (*pn_framed)(pn_frame *frame, const void *what, tn_value *out);

pn_frame pn_frame_of(pn_scope *scope);
/* The same frame without what has been lowered in it; pn_frame_done ends it. */
pn_frame pn_frame_copy(const pn_frame *frame);
void pn_frame_done(pn_frame *frame);
/* From here on coordinate `axis` has this value. Before anything is lowered in the frame. */
void pn_frame_set(pn_frame *frame, size_t axis, tn_value value);
/* The value of a coordinate, or of an argument that is an unknown; no graph: it has none here. */
tn_status pn_frame_coordinate(pn_frame *frame, size_t index, tn_value *out) TN_MUST_USE;
tn_value pn_frame_number(const pn_frame *frame, double value);

tn_status pn_frame_lower(pn_frame *frame, const pn_expr *e, tn_value *out) TN_MUST_USE;
tn_status pn_frame_unknown(pn_frame *frame, size_t unknown, tn_value *out) TN_MUST_USE;
tn_status pn_frame_net(pn_frame *frame, size_t which,
                       tn_value *out) TN_MUST_USE; /* scale * N of frame->net; which: see PN_NET */
/* model_parameter.c: the parameter's value; in an exact scope its exact one, or its start. */
tn_status pn_frame_parameter(pn_frame *frame, size_t parameter, tn_value *out) TN_MUST_USE;
/* The derivative of `value` along axes[0..n), at the frame's coordinates. */
tn_status pn_frame_derivative(pn_frame *frame, size_t n, const size_t *axes, pn_framed value,
                              const void *what, tn_value *out) TN_MUST_USE;

/* lower_integral.c: the sum over the nodes, each with the integrand lowered there. */
tn_status pn_frame_integral(pn_frame *frame, const pn_expr *e, tn_value *out) TN_MUST_USE;

/* Why a builder gave no value: never TN_OK. */
tn_status pn_lost_value(tn_graph *graph) TN_MUST_USE;
/* A number that is part of the structure? */
bool pn_is_number(tn_value value, double *number);
/* The place of e on the nodes that follow. */
void pn_place_nodes(tn_graph *graph, const pn_expr *e);
/* 1 inside the shape of a PN_INSIDE or PN_SHAPE, else 0, at the points themselves. */
tn_status pn_frame_inside(pn_frame *frame, const pn_expr *e, tn_value *out) TN_MUST_USE;
/* The scope of means, made if there is none. */
tn_status pn_scope_mean(pn_scope *scope, pn_scope **out) TN_MUST_USE;

/* hard.c. The plan of every unknown; then *value (the ansatz) becomes lift + distance * value. */
tn_status pn_hard_new(pn_model *model) TN_MUST_USE;
tn_status pn_hard_apply(pn_frame *frame, size_t unknown, tn_value *value) TN_MUST_USE;

#endif
