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
