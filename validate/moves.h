/* moves.h: where the elements of a result that is only moved come from. Inside validate/. */
#ifndef VALIDATE_MOVES_H
#define VALIDATE_MOVES_H

#include "tensor/tensor.h"

enum { VD_MOVE_AXES = 65 }; /* point axes of a graph, 1 .. 64 */

/* Element i of a moved result: element `from` of input `input`, or a zero. */
typedef struct vd_source {
  uint32_t input; /* UINT32_MAX: a zero */
  size_t from;
} vd_source;

bool vd_is_move(tn_op_id op); /* expand, reshape, transpose, slice, pad, concat, stack */

/* source[n] for the n elements of the node's result; extent: points of each axis. */
tn_status vd_sources(const tn_program *program, const tn_node *node, const size_t *extent, size_t n,
                     vd_source *source) TN_MUST_USE;

/* A row-major array seen around one axis: [outer][n][inner]. */
typedef struct vd_view {
  size_t outer, n, inner;
} vd_view;
vd_view vd_view_of(const tn_shape *shape, const size_t *extent, size_t axis);
/* The shape of input i of a node. */
const tn_shape *vd_input_shape(const tn_program *program, const tn_node *node, uint32_t i);

#endif
