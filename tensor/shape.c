/* shape.c: shapes with axis identities.
 *
 * A point axis is named by its id, and its extent is bound at run time; every other axis has a fixed extent.
 * The point axis, if any, comes first. Two shapes combine elementwise if they are equal or one is scalar;
 * nothing is broadcast in silence: (n, 1) against (n,) is an error that names both.
 */
#include "tensor/graph.h"

#include <stdio.h>
#include <string.h>

tn_shape tn_shape_scalar(void) { return (tn_shape){0}; }

tn_shape tn_shape_points(tn_axis axis) { return (tn_shape){.rank = 1, .axis = {axis}}; }

tn_shape tn_shape_batch(tn_axis axis, size_t extent) {
  return (tn_shape){.rank = 2, .axis = {axis, 0}, .extent = {0, extent}};
}

tn_shape tn_shape_fixed(size_t rank, const size_t *extent) {
  tn_shape shape = {.rank = (uint32_t)(rank < TN_MAX_RANK ? rank : TN_MAX_RANK)};
  for (size_t i = 0; i < shape.rank; ++i) shape.extent[i] = extent[i];
  return shape;
}

bool tn_shape_settle(tn_graph *graph, const char *what, tn_shape *shape) {
  const size_t widest = (size_t)1 << 40; /* so that no sum of sizes overflows */
  size_t width = 1;
  if (shape->rank > TN_MAX_RANK) {
    tn_graph_fail(graph, TN_ESHAPE, "%s: rank %u, expected at most %d", what, shape->rank, TN_MAX_RANK);
    return false;
  }
  for (uint32_t i = 0; i < shape->rank; ++i) {
    if (shape->axis[i] && i > 0) {
      tn_graph_fail(graph, TN_ESHAPE, "%s: a point axis must come first", what);
      return false;
    }
    if (shape->axis[i] > graph->n_axes) {
      tn_graph_fail(graph, TN_EHANDLE, "%s: no point axis %u in this graph", what, shape->axis[i]);
      return false;
    }
    if (shape->axis[i]) {
      shape->extent[i] = 0;
      continue;
    }
    if (shape->extent[i] == 0 || shape->extent[i] > INT32_MAX) {
      tn_graph_fail(graph, TN_ESHAPE, "%s: extent %zu of axis %u is not in 1 .. 2^31 - 1", what,
                    shape->extent[i], i);
      return false;
    }
    if (width > widest / shape->extent[i]) {
      tn_graph_fail(graph, TN_ESHAPE, "%s: more than 2^40 elements a point", what);
      return false;
    }
    width *= shape->extent[i];
  }
  for (uint32_t i = shape->rank; i < TN_MAX_RANK; ++i) {
    shape->axis[i] = 0;
    shape->extent[i] = 0;
  }
  return true;
}

bool tn_shape_equal(const tn_shape *a, const tn_shape *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; ++i)
    if (a->axis[i] != b->axis[i] || a->extent[i] != b->extent[i]) return false;
  return true;
}

bool tn_shape_batched(const tn_shape *shape) { return shape->rank && shape->axis[0]; }

size_t tn_shape_width(const tn_shape *shape) {
  size_t width = 1;
  for (uint32_t i = 0; i < shape->rank; ++i)
    if (!shape->axis[i]) width *= shape->extent[i];
  return width;
}

tn_shape tn_shape_without_points(tn_shape shape) {
  if (!tn_shape_batched(&shape)) return shape;
  tn_shape fixed = {.rank = shape.rank - 1};
  for (uint32_t i = 0; i < fixed.rank; ++i) fixed.extent[i] = shape.extent[i + 1];
  return fixed;
}

tn_shape tn_shape_with_points(tn_shape fixed, tn_axis axis) {
  if (!axis || fixed.rank >= TN_MAX_RANK) return fixed;
  tn_shape shape = {.rank = fixed.rank + 1, .axis = {axis}};
  for (uint32_t i = 0; i < fixed.rank; ++i) shape.extent[i + 1] = fixed.extent[i];
  return shape;
}

const char *tn_shape_text(const tn_graph *graph, const tn_shape *shape, char *text, size_t capacity) {
  size_t used = (size_t)snprintf(text, capacity, "[");
  for (uint32_t i = 0; i < shape->rank && used < capacity; ++i) {
    const char *separator = i ? ", " : "";
    if (shape->axis[i])
      used += (size_t)snprintf(text + used, capacity - used, "%s%s", separator,
                               tn_axis_name(graph, shape->axis[i]));
    else
      used += (size_t)snprintf(text + used, capacity - used, "%s%zu", separator, shape->extent[i]);
  }
  if (used < capacity) snprintf(text + used, capacity - used, "]");
  return text;
}
