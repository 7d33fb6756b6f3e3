/* build.c: builders of leaves, elementwise operations and structure.
 *
 * Each builder checks handles, dtypes and shapes, fills in a node and adds it. On an error it returns the
 * error value and the graph keeps the text, so that formulas read like formulas and are checked once.
 */
#include "tensor/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BAD ((tn_value){0})

static const char *text_of(tn_value v, char *text) {
  tn_shape shape = tn_shape_of(v);
  return tn_shape_text(v.graph, &shape, text, 96);
}

/* ---- Leaves ---- */

static tn_value leaf(tn_graph *graph, tn_op_id id, const char *name, tn_dtype dtype, tn_shape shape,
                     double number) {
  char what[96];
  snprintf(what, sizeof what, "%s `%s`", tn_op_row(id)->name, name ? name : "");
  if (!tn_shape_settle(graph, what, &shape)) return BAD;
  tn_node node = {.op = tn_op_row(id), .dtype = dtype, .n_outputs = 1, .shapes = &shape,
                  .number = number, .name = name ? name : ""};
  return tn_node_make(graph, &node);
}

tn_value tn_parameter(tn_graph *graph, const char *name, tn_dtype dtype, tn_shape shape) {
  if (tn_shape_batched(&shape))
    return tn_graph_fail(graph, TN_ESHAPE, "parameter `%s`: a parameter has no point axis", name);
  if (!tn_dtype_is_float(dtype))
    return tn_graph_fail(graph, TN_EDTYPE, "parameter `%s`: %s is not a float dtype", name,
                         tn_dtype_name(dtype));
  return leaf(graph, TN_OP_parameter, name, dtype, shape, 0);
}

tn_value tn_input(tn_graph *graph, const char *name, tn_dtype dtype, tn_shape shape) {
  return leaf(graph, TN_OP_input, name, dtype, shape, 0);
}

tn_value tn_scalar(tn_graph *graph, const char *name, tn_dtype dtype, double value) {
  return leaf(graph, TN_OP_scalar, name, dtype, tn_shape_scalar(), value);
}

tn_value tn_const(tn_graph *graph, tn_dtype dtype, double value) {
  return leaf(graph, TN_OP_constant, "", dtype, tn_shape_scalar(), value);
}

tn_value tn_fill(tn_graph *graph, tn_dtype dtype, tn_shape shape, double value) {
  return leaf(graph, TN_OP_fill, "", dtype, shape, value);
}

tn_value tn_const_array(tn_graph *graph, tn_dtype dtype, tn_shape shape, const double *data) {
  if (tn_shape_batched(&shape))
    return tn_graph_fail(graph, TN_ESHAPE, "constant array: a constant has no point axis");
  if (!tn_shape_settle(graph, "constant array", &shape)) return BAD;
  if (!data) return tn_graph_fail(graph, TN_EINPUT, "constant array: no data");
  tn_node node = {.op = tn_op_row(TN_OP_array), .dtype = dtype, .n_outputs = 1, .shapes = &shape,
                  .data = data};
  return tn_node_make(graph, &node);
}

tn_value tn_count(tn_graph *graph, tn_dtype dtype, tn_axis axis) {
  if (!axis || axis > graph->n_axes)
    return tn_graph_fail(graph, TN_EHANDLE, "count: no point axis %u in this graph", axis);
  tn_shape shape = tn_shape_scalar();
  tn_node node = {.op = tn_op_row(TN_OP_count), .dtype = dtype, .n_outputs = 1, .shapes = &shape,
                  .integer = {axis}};
  return tn_node_make(graph, &node);
}

/* ---- Elementwise ---- */

static tn_value make(tn_graph *graph, tn_op_id id, tn_dtype dtype, tn_shape shape, size_t n,
                     const tn_value *inputs, tn_node attributes) {
  tn_edge edges[64];
  tn_edge *e = edges;
  if (n > 64 && tn_arena_take(&graph->arena, n, sizeof *e, &e) != TN_OK)
    return tn_graph_fail(graph, TN_ENOMEM, "graph: out of memory");
  for (size_t i = 0; i < n; ++i) e[i] = tn_edge_of(inputs[i]);
  attributes.op = tn_op_row(id);
  attributes.dtype = dtype;
  attributes.n_inputs = (uint32_t)n;
  attributes.inputs = e;
  attributes.n_outputs = 1;
  attributes.shapes = &shape;
  return tn_node_make(graph, &attributes);
}

tn_value tn_unary(tn_op_id op, tn_value x, double exponent) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  const tn_op *row = tn_op_row(op);
  if (row->arity != 1)
    return tn_graph_fail(graph, TN_ERANGE, "%s is not an elementwise operation of one argument",
                         row->name);
  tn_dtype dtype = tn_dtype_of(x);
  if (!tn_dtype_is_float(dtype))
    return tn_graph_fail(graph, TN_EDTYPE, "%s of %s: expected a float dtype", row->name,
                         tn_dtype_name(dtype));
  bool power = op == TN_OP_powi || op == TN_OP_powr;
  if (op == TN_OP_powi && (exponent != rint(exponent) || fabs(exponent) > 1e6))
    return tn_graph_fail(graph, TN_ERANGE, "powi: exponent %g is not a whole number within 1e6",
                         exponent);
  if (power && exponent == 0) return tn_fill(graph, dtype, tn_shape_of(x), 1);
  if (power && exponent == 1) return x;
  if (op == TN_OP_powi && exponent == 2) return tn_unary(TN_OP_square, x, 0);
  if (op == TN_OP_powi && exponent == -1) return tn_unary(TN_OP_recip, x, 0);
  return make(graph, op, dtype, tn_shape_of(x), 1, &x, (tn_node){.number = power ? exponent : 0});
}

/* The common shape of two elementwise operands, or an error naming both. */
bool tn_shapes_join(tn_graph *graph, const char *name, tn_value a, tn_value b, tn_shape *out) {
  tn_shape sa = tn_shape_of(a), sb = tn_shape_of(b);
  char ta[96], tb[96];
  *out = sa.rank ? sa : sb;
  if (!sa.rank || !sb.rank || tn_shape_equal(&sa, &sb)) return true;
  tn_graph_fail(graph, TN_ESHAPE,
                "%s: shapes %s and %s differ; expected equal shapes or a scalar (tn_broadcast is "
                "explicit)", name, text_of(a, ta), text_of(b, tb));
  return false;
}

tn_value tn_binary(tn_op_id op, tn_value a, tn_value b) {
  tn_graph *graph = tn_common_graph(2, (tn_value[]){a, b});
  if (!graph) return BAD;
  const tn_op *row = tn_op_row(op);
  tn_shape shape;
  if (row->arity != 2)
    return tn_graph_fail(graph, TN_ERANGE, "%s is not an elementwise operation of two arguments",
                         row->name);
  if (tn_dtype_of(a) != tn_dtype_of(b) || !tn_dtype_is_float(tn_dtype_of(a)))
    return tn_graph_fail(graph, TN_EDTYPE, "%s of %s and %s: expected one float dtype", row->name,
                         tn_dtype_name(tn_dtype_of(a)), tn_dtype_name(tn_dtype_of(b)));
  if (!tn_shapes_join(graph, row->name, a, b, &shape)) return BAD;
  tn_dtype dtype = row->class_ == TN_COMPARISON ? TN_BOOL : tn_dtype_of(a);
  return make(graph, op, dtype, shape, 2, (tn_value[]){a, b}, (tn_node){0});
}

#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  tn_value tn_##name(tn_value x) { return tn_unary(TN_OP_##name, x, 0); }
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  tn_value tn_##name(tn_value x, double exponent) { return tn_unary(TN_OP_##name, x, exponent); }
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  tn_value tn_##name(tn_value a, tn_value b) { return tn_binary(TN_OP_##name, a, b); }
#define OP_COMPARE(name, cell, mpfr, doc)                                                          \
  tn_value tn_##name(tn_value a, tn_value b) { return tn_binary(TN_OP_##name, a, b); }
#include "tensor/ops.def"

tn_value tn_where(tn_value mask, tn_value a, tn_value b) {
  tn_graph *graph = tn_common_graph(3, (tn_value[]){mask, a, b});
  if (!graph) return BAD;
  tn_shape shape, mask_shape = tn_shape_of(mask);
  if (tn_dtype_of(mask) != TN_BOOL)
    return tn_graph_fail(graph, TN_EDTYPE, "where: the mask is %s, expected bool",
                         tn_dtype_name(tn_dtype_of(mask)));
  if (tn_dtype_of(a) != tn_dtype_of(b) || !tn_dtype_is_float(tn_dtype_of(a)))
    return tn_graph_fail(graph, TN_EDTYPE, "where: branches are %s and %s, expected one float dtype",
                         tn_dtype_name(tn_dtype_of(a)), tn_dtype_name(tn_dtype_of(b)));
  if (!tn_shapes_join(graph, "where", a, b, &shape)) return BAD;
  if (mask_shape.rank && shape.rank && !tn_shape_equal(&mask_shape, &shape)) {
    char tm[96], ta[96];
    return tn_graph_fail(graph, TN_ESHAPE, "where: mask %s against branches %s", text_of(mask, tm),
                         tn_shape_text(graph, &shape, ta, sizeof ta));
  }
  if (!shape.rank) shape = mask_shape;
  return make(graph, TN_OP_where, tn_dtype_of(a), shape, 3, (tn_value[]){mask, a, b}, (tn_node){0});
}

static tn_value logic(tn_op_id op, size_t n, const tn_value *m) {
  tn_graph *graph = tn_common_graph(n, m);
  if (!graph) return BAD;
  for (size_t i = 0; i < n; ++i)
    if (tn_dtype_of(m[i]) != TN_BOOL)
      return tn_graph_fail(graph, TN_EDTYPE, "%s of %s: expected bool", tn_op_row(op)->name,
                           tn_dtype_name(tn_dtype_of(m[i])));
  tn_shape shape = tn_shape_of(m[0]);
  if (n == 2 && !tn_shapes_join(graph, tn_op_row(op)->name, m[0], m[1], &shape)) return BAD;
  return make(graph, op, TN_BOOL, shape, n, m, (tn_node){0});
}

tn_value tn_not(tn_value mask) { return logic(TN_OP_not, 1, &mask); }
tn_value tn_both(tn_value a, tn_value b) { return logic(TN_OP_both, 2, (tn_value[]){a, b}); }
tn_value tn_either(tn_value a, tn_value b) { return logic(TN_OP_either, 2, (tn_value[]){a, b}); }

/* ---- Structure ---- */

/* Checks an axis number; fixed asks for an axis that is not the point axis. */
static bool check_axis(tn_graph *graph, const char *name, tn_value x, size_t axis, bool fixed) {
  tn_shape shape = tn_shape_of(x);
  char text[96];
  if (axis >= shape.rank) {
    tn_graph_fail(graph, TN_ESHAPE, "%s: %s has no axis %zu", name, text_of(x, text), axis);
    return false;
  }
  if (fixed && shape.axis[axis]) {
    tn_graph_fail(graph, TN_EUNSUPPORTED, "%s: axis %zu of %s is a point axis, expected a fixed one",
                  name, axis, text_of(x, text));
    return false;
  }
  return true;
}

static tn_shape drop_axis(tn_shape shape, size_t axis) {
  tn_shape out = {.rank = shape.rank - 1};
  for (uint32_t i = 0, j = 0; i < shape.rank; ++i)
    if (i != axis) {
      out.axis[j] = shape.axis[i];
      out.extent[j++] = shape.extent[i];
    }
  return out;
}

tn_value tn_sum(tn_value x, size_t axis) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph || !check_axis(graph, "sum", x, axis, false)) return BAD;
  if (!tn_dtype_is_float(tn_dtype_of(x)))
    return tn_graph_fail(graph, TN_EDTYPE, "sum of %s: expected a float dtype",
                         tn_dtype_name(tn_dtype_of(x)));
  return make(graph, TN_OP_sum, tn_dtype_of(x), drop_axis(tn_shape_of(x), axis), 1, &x,
              (tn_node){.integer = {(int64_t)axis}});
}

tn_value tn_sum_all(tn_value x) {
  while (tn_ok(x) && tn_shape_of(x).rank) x = tn_sum(x, tn_shape_of(x).rank - 1);
  return x;
}

tn_value tn_mean(tn_value x) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  tn_shape shape = tn_shape_of(x);
  tn_dtype dtype = tn_dtype_of(x);
  tn_value sum = tn_sum_all(x);
  if (tn_shape_width(&shape) > 1)
    sum = tn_div(sum, tn_const(graph, dtype, (double)tn_shape_width(&shape)));
  return tn_shape_batched(&shape) ? tn_div(sum, tn_count(graph, dtype, shape.axis[0])) : sum;
}

tn_value tn_expand(tn_value x, size_t axis, tn_axis point_axis, size_t extent) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  tn_shape shape = tn_shape_of(x), out = {.rank = shape.rank + 1};
  char text[96];
  if (shape.rank == TN_MAX_RANK || axis > shape.rank || (!point_axis && !extent) ||
      (point_axis && (axis != 0 || tn_shape_batched(&shape))) ||
      (!point_axis && axis == 0 && tn_shape_batched(&shape)))
    return tn_graph_fail(graph, TN_ESHAPE,
                         "expand: no new %s axis at position %zu of %s (rank at most 4, one point "
                         "axis, and that first)", point_axis ? "point" : "fixed", axis,
                         text_of(x, text));
  for (uint32_t i = 0, j = 0; i < out.rank; ++i) {
    if (i == axis) {
      out.axis[i] = point_axis;
      out.extent[i] = point_axis ? 0 : extent;
    } else {
      out.axis[i] = shape.axis[j];
      out.extent[i] = shape.extent[j++];
    }
  }
  return make(graph, TN_OP_expand, tn_dtype_of(x), out, 1, &x,
              (tn_node){.integer = {(int64_t)axis, point_axis, (int64_t)extent}});
}

tn_value tn_broadcast(tn_value x, tn_shape shape) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  tn_shape from = tn_shape_of(x);
  char ta[96], tb[96];
  int match[TN_MAX_RANK], ways = 0;
  if (!tn_shape_settle(graph, "broadcast", &shape)) return BAD;
  /* every increasing choice of from.rank axes of `shape` that agree; more than one is ambiguous */
  for (unsigned set = 0; set < 1u << shape.rank; ++set) {
    int chosen[TN_MAX_RANK];
    uint32_t n = 0;
    bool fits = true;
    for (uint32_t i = 0; i < shape.rank; ++i)
      if (set >> i & 1) {
        fits = fits && n < from.rank && from.axis[n] == shape.axis[i] &&
               from.extent[n] == shape.extent[i];
        if (n < TN_MAX_RANK) chosen[n] = (int)i;
        ++n;
      }
    if (!fits || n != from.rank) continue;
    ++ways;
    memcpy(match, chosen, sizeof match);
  }
  if (ways != 1)
    return tn_graph_fail(graph, TN_ESHAPE, "broadcast of %s to %s is %s", text_of(x, ta),
                         tn_shape_text(graph, &shape, tb, sizeof tb),
                         ways ? "ambiguous; use tn_expand" : "not possible");
  for (uint32_t i = 0, j = 0; i < shape.rank; ++i) {
    if (j < from.rank && match[j] == (int)i) {
      ++j;
      continue;
    }
    if (shape.axis[i] == 0) x = tn_expand(x, i, 0, shape.extent[i]);
    else x = tn_expand(x, i, shape.axis[i], 0);
  }
  return x;
}

tn_value tn_reshape(tn_value x, tn_shape shape) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  tn_shape from = tn_shape_of(x);
  char ta[96], tb[96];
  if (!tn_shape_settle(graph, "reshape", &shape)) return BAD;
  if (from.axis[0] != shape.axis[0] || tn_shape_width(&from) != tn_shape_width(&shape))
    return tn_graph_fail(graph, TN_ESHAPE, "reshape of %s to %s: expected the same point axis and as "
                         "many elements", text_of(x, ta), tn_shape_text(graph, &shape, tb, sizeof tb));
  if (tn_shape_equal(&from, &shape)) return x;
  return make(graph, TN_OP_reshape, tn_dtype_of(x), shape, 1, &x, (tn_node){0});
}

tn_value tn_transpose(tn_value x, size_t a, size_t b) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph || !check_axis(graph, "transpose", x, a, true) ||
      !check_axis(graph, "transpose", x, b, true))
    return BAD;
  if (a == b) return x;
  tn_shape shape = tn_shape_of(x);
  size_t extent = shape.extent[a];
  shape.extent[a] = shape.extent[b];
  shape.extent[b] = extent;
  return make(graph, TN_OP_transpose, tn_dtype_of(x), shape, 1, &x,
              (tn_node){.integer = {(int64_t)(a < b ? a : b), (int64_t)(a < b ? b : a)}});
}

tn_value tn_slice(tn_value x, size_t axis, size_t first, size_t count) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph || !check_axis(graph, "slice", x, axis, true)) return BAD;
  tn_shape shape = tn_shape_of(x);
  if (!count || first >= shape.extent[axis] || count > shape.extent[axis] - first)
    return tn_graph_fail(graph, TN_ERANGE, "slice: %zu entries from %zu on, of %zu on axis %zu", count,
                         first, shape.extent[axis], axis);
  if (count == shape.extent[axis]) return x;
  shape.extent[axis] = count;
  return make(graph, TN_OP_slice, tn_dtype_of(x), shape, 1, &x,
              (tn_node){.integer = {(int64_t)axis, (int64_t)first, (int64_t)count}});
}

tn_value tn_pad(tn_value x, size_t axis, size_t before, size_t after) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph || !check_axis(graph, "pad", x, axis, true)) return BAD;
  if (!before && !after) return x;
  tn_shape shape = tn_shape_of(x);
  if (before > INT32_MAX || after > INT32_MAX)
    return tn_graph_fail(graph, TN_ERANGE, "pad: %zu and %zu zeros, expected less than 2^31", before,
                         after);
  shape.extent[axis] += before + after;
  return make(graph, TN_OP_pad, tn_dtype_of(x), shape, 1, &x,
              (tn_node){.integer = {(int64_t)axis, (int64_t)before, (int64_t)after}});
}

/* ---- Rows ---- */

static tn_value rowwise(tn_op_id id, tn_value x, double epsilon) {
  tn_graph *graph = tn_common_graph(1, &x);
  const char *name = tn_op_row(id)->name;
  if (!graph) return BAD;
  tn_shape shape = tn_shape_of(x);
  char text[96];
  if (!tn_dtype_is_float(tn_dtype_of(x)))
    return tn_graph_fail(graph, TN_EDTYPE, "%s of %s: expected a float dtype", name,
                         tn_dtype_name(tn_dtype_of(x)));
  if (!shape.rank || shape.axis[shape.rank - 1])
    return tn_graph_fail(graph, TN_ESHAPE, "%s: %s has no fixed last axis, over whose entries it goes", name,
                         text_of(x, text));
  if (!(epsilon >= 0 && isfinite(epsilon)))
    return tn_graph_fail(graph, TN_ERANGE, "%s: epsilon is %g, expected a finite number that is not negative",
                         name, epsilon);
  tn_shape out = id == TN_OP_rstd ? drop_axis(shape, shape.rank - 1) : shape;
  return make(graph, id, tn_dtype_of(x), out, 1, &x, (tn_node){.number = epsilon});
}

tn_value tn_softmax(tn_value x) { return rowwise(TN_OP_softmax, x, 0); }
tn_value tn_layer_norm(tn_value x, double epsilon) { return rowwise(TN_OP_layer_norm, x, epsilon); }
tn_value tn_rstd(tn_value x, double epsilon) { return rowwise(TN_OP_rstd, x, epsilon); }

static bool same_dtype(tn_graph *graph, const char *name, size_t n, const tn_value *x) {
  for (size_t i = 1; i < n; ++i)
    if (tn_dtype_of(x[i]) != tn_dtype_of(x[0])) {
      tn_graph_fail(graph, TN_EDTYPE, "%s: input %zu is %s, input 1 is %s", name, i + 1,
                    tn_dtype_name(tn_dtype_of(x[i])), tn_dtype_name(tn_dtype_of(x[0])));
      return false;
    }
  return true;
}

tn_value tn_concat(size_t n, const tn_value *x, size_t axis) {
  tn_graph *graph = tn_common_graph(n, x);
  if (!graph || !check_axis(graph, "concat", x[0], axis, true) || !same_dtype(graph, "concat", n, x))
    return BAD;
  if (n == 1) return x[0];
  tn_shape shape = tn_shape_of(x[0]);
  for (size_t i = 1; i < n; ++i) {
    tn_shape other = tn_shape_of(x[i]);
    size_t extent = other.rank > axis ? other.extent[axis] : 0;
    char ta[96], tb[96];
    if (other.rank > axis) other.extent[axis] = shape.extent[axis];
    if (!tn_shape_equal(&shape, &other))
      return tn_graph_fail(graph, TN_ESHAPE, "concat along axis %zu: %s does not fit %s", axis,
                           text_of(x[i], ta), text_of(x[0], tb));
    shape.extent[axis] += extent;
  }
  return make(graph, TN_OP_concat, tn_dtype_of(x[0]), shape, n, x,
              (tn_node){.integer = {(int64_t)axis}});
}

tn_value tn_stack(size_t n, const tn_value *x) {
  tn_graph *graph = tn_common_graph(n, x);
  if (!graph || !same_dtype(graph, "stack", n, x)) return BAD;
  tn_shape shape = tn_shape_of(x[0]);
  for (size_t i = 1; i < n; ++i) {
    tn_shape other = tn_shape_of(x[i]);
    char ta[96], tb[96];
    if (!tn_shape_equal(&shape, &other))
      return tn_graph_fail(graph, TN_ESHAPE, "stack: shape %s of input %zu differs from %s",
                           text_of(x[i], ta), i + 1, text_of(x[0], tb));
  }
  if (shape.rank == TN_MAX_RANK)
    return tn_graph_fail(graph, TN_ESHAPE, "stack: rank would exceed %d", TN_MAX_RANK);
  shape.extent[shape.rank++] = n;
  return make(graph, TN_OP_stack, tn_dtype_of(x[0]), shape, n, x, (tn_node){0});
}

tn_value tn_cast(tn_value x, tn_dtype dtype) {
  tn_graph *graph = tn_common_graph(1, &x);
  if (!graph) return BAD;
  if (!tn_dtype_is_float(dtype) || !tn_dtype_is_float(tn_dtype_of(x)))
    return tn_graph_fail(graph, TN_EDTYPE, "cast from %s to %s: expected float dtypes",
                         tn_dtype_name(tn_dtype_of(x)), tn_dtype_name(dtype));
  if (tn_dtype_of(x) == dtype) return x;
  return make(graph, TN_OP_cast, dtype, tn_shape_of(x), 1, &x, (tn_node){0});
}

tn_value tn_call_node(tn_graph *graph, const tn_call *call, tn_dtype dtype, tn_shape shape, size_t n,
                      const tn_value *args) {
  return make(graph, TN_OP_call, dtype, shape, n, args, (tn_node){.call = call});
}
