/* moves.c: where the elements of a result that is only moved come from, as indices.
 *
 * Around its axis an array is [outer][n][inner]. slice and pad shift n, expand repeats it, concat and
 * stack (a new last axis) put inputs behind one another, transpose swaps two extents, reshape is the
 * same row of numbers.
 */
#include "validate/moves.h"

#include <string.h>

static size_t extent_of(const tn_shape *shape, const size_t *extent, size_t axis) {
  return shape->axis[axis] ? extent[shape->axis[axis]] : shape->extent[axis];
}

vd_view vd_view_of(const tn_shape *shape, const size_t *extent, size_t axis) {
  vd_view v = {1, 1, 1};
  for (size_t i = 0; i < shape->rank; ++i) {
    size_t e = extent_of(shape, extent, i);
    if (i < axis)
      v.outer *= e;
    else if (i == axis)
      v.n = e;
    else
      v.inner *= e;
  }
  return v;
}

const tn_shape *vd_input_shape(const tn_program *program, const tn_node *node, uint32_t i) {
  tn_edge edge = node->inputs[i];
  return &tn_program_node(program, edge.node)->shapes[edge.port];
}

bool vd_is_move(tn_op_id op) {
  return op == TN_OP_expand || op == TN_OP_reshape || op == TN_OP_transpose || op == TN_OP_slice ||
         op == TN_OP_pad || op == TN_OP_concat || op == TN_OP_stack;
}

static void transpose(const tn_node *node, const size_t *extent, size_t n, vd_source *source) {
  const tn_shape *shape = node->shapes;
  size_t p = (size_t)node->integer[0], q = (size_t)node->integer[1];
  size_t e[TN_MAX_RANK], at[TN_MAX_RANK], from[TN_MAX_RANK];
  for (uint32_t k = 0; k < shape->rank; ++k)
    e[k] = extent_of(shape, extent, k);
  for (size_t i = 0; i < n; ++i) {
    size_t rest = i, j = 0;
    for (uint32_t k = shape->rank; k-- > 0; rest /= e[k])
      at[k] = rest % e[k];
    memcpy(from, at, sizeof from);
    from[p] = at[q];
    from[q] = at[p];
    for (uint32_t k = 0; k < shape->rank; ++k)
      j = j * e[k == p ? q : k == q ? p : k] + from[k];
    source[i] = (vd_source){0, j};
  }
}

static void range(const vd_view *in, const vd_view *to, size_t first, bool pad, size_t n,
                  vd_source *source) {
  for (size_t i = 0; i < n; ++i) {
    size_t k = i / to->inner % to->n, o = i / (to->inner * to->n);
    if (pad && (k < first || k - first >= in->n)) {
      source[i] = (vd_source){UINT32_MAX, 0};
      continue;
    }
    size_t from = pad ? k - first : k + first;
    source[i] = (vd_source){0, (o * in->n + from) * in->inner + i % to->inner};
  }
}

static void join(const tn_program *program, const tn_node *node, const size_t *extent,
                 vd_source *source) {
  bool stack = node->op->id == TN_OP_stack;
  size_t axis = stack ? node->shapes[0].rank - 1 : (size_t)node->integer[0], first = 0;
  vd_view to = vd_view_of(node->shapes, extent, axis);
  for (uint32_t p = 0; p < node->n_inputs; ++p) {
    vd_view in = stack ? (vd_view){to.outer, 1, 1}
                       : vd_view_of(vd_input_shape(program, node, p), extent, axis);
    for (size_t j = 0; j < in.outer * in.n * in.inner; ++j) {
      size_t k = j / in.inner % in.n, o = j / (in.inner * in.n);
      source[(o * to.n + first + k) * to.inner + j % in.inner] = (vd_source){p, j};
    }
    first += in.n;
  }
}

tn_status vd_sources(const tn_program *program, const tn_node *node, const size_t *extent, size_t n,
                     vd_source *source) {
  size_t axis = (size_t)node->integer[0];
  vd_view to = vd_view_of(node->shapes, extent, axis);
  switch (node->op->id) {
  case TN_OP_reshape:
    for (size_t i = 0; i < n; ++i)
      source[i] = (vd_source){0, i};
    return TN_OK;
  case TN_OP_expand:
    for (size_t i = 0; i < n; ++i)
      source[i] = (vd_source){0, i / (to.n * to.inner) * to.inner + i % to.inner};
    return TN_OK;
  case TN_OP_slice:
  case TN_OP_pad: {
    vd_view in = vd_view_of(vd_input_shape(program, node, 0), extent, axis);
    range(&in, &to, (size_t)node->integer[1], node->op->id == TN_OP_pad, n, source);
    return TN_OK;
  }
  case TN_OP_transpose:
    transpose(node, extent, n, source);
    return TN_OK;
  case TN_OP_concat:
  case TN_OP_stack:
    join(program, node, extent, source);
    return TN_OK;
  default:
    return TN_FAIL(TN_EUNSUPPORTED, "moves: `%s` does not only move", node->op->name);
  }
}
