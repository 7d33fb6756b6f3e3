/* field.c: fields and the atoms that call them.
 *
 * A field lives in the memory of its graph and ends with it. Its body is an ordinary graph between placeholder
 * arguments; an atom (op `call`) names the field, an output, and how often each argument is differentiated.
 */
#include "autograd/field.h"

#include <stdio.h>
#include <string.h>

tn_status ag_field_new(tn_graph *graph, const char *name, size_t n_args, tn_dtype dtype,
                       ag_field **out) {
  *out = NULL;
  if (!n_args || n_args > TN_MAX_SLOTS)
    return TN_FAIL(TN_ERANGE, "field `%s`: %zu arguments, expected 1 to %d", name, n_args,
                   TN_MAX_SLOTS);
  ag_field *f = NULL;
  char *copy = NULL;
  TN_TRY(tn_graph_memory(graph, 1, sizeof *f, &f));
  TN_TRY(tn_graph_memory(graph, strlen(name) + 1, 1, &copy));
  TN_TRY(tn_graph_memory(graph, n_args, sizeof *f->args, &f->args));
  TN_TRY(tn_graph_memory(graph, n_args, sizeof *f->labels, &f->labels));
  memcpy(copy, name, strlen(name) + 1);
  f->graph = graph;
  f->name = copy;
  f->dtype = dtype;
  f->n_args = n_args;
  f->axis = tn_axis_new(graph, name);
  if (!f->axis) return tn_graph_error(graph);
  for (size_t j = 0; j < n_args; ++j) {
    char label[32];
    snprintf(label, sizeof label, "x%zu", j);
    TN_TRY(ag_field_label(f, j, label));
    f->args[j] = tn_input(graph, label, dtype, tn_shape_points(f->axis));
    if (!f->args[j].graph) return tn_graph_error(graph);
  }
  *out = f;
  return TN_OK;
}

tn_status ag_field_label(ag_field *field, size_t j, const char *label) {
  char *copy = NULL;
  if (j >= field->n_args)
    return TN_FAIL(TN_ERANGE, "field `%s` has no argument %zu", field->name, j);
  TN_TRY(tn_graph_memory(field->graph, strlen(label) + 1, 1, &copy));
  memcpy(copy, label, strlen(label) + 1);
  field->labels[j] = copy;
  return TN_OK;
}

tn_value ag_field_argument(ag_field *field, size_t j) {
  return j < field->n_args ? field->args[j] : (tn_value){0};
}

tn_status ag_field_body(ag_field *field, size_t n_out, const tn_value *outputs) {
  TN_TRY(tn_graph_error(field->graph));
  tn_shape expected = tn_shape_points(field->axis);
  for (size_t i = 0; i < n_out; ++i) {
    tn_shape shape = tn_shape_of(outputs[i]);
    char text[96];
    if (!tn_ok(outputs[i]) || outputs[i].graph != field->graph ||
        !tn_shape_equal(&shape, &expected))
      return TN_FAIL(TN_ESHAPE, "field `%s`: output %zu has shape %s, expected [%s]", field->name, i,
                     tn_shape_text(field->graph, &shape, text, sizeof text), field->name);
    if (tn_dtype_of(outputs[i]) != field->dtype)
      return TN_FAIL(TN_EDTYPE, "field `%s`: output %zu is %s, expected %s", field->name, i,
                     tn_dtype_name(tn_dtype_of(outputs[i])), tn_dtype_name(field->dtype));
  }
  TN_TRY(tn_graph_memory(field->graph, n_out, sizeof *outputs, &field->outputs));
  memcpy(field->outputs, outputs, n_out * sizeof *outputs);
  field->n_out = n_out;
  return TN_OK;
}

const char *ag_field_name(const ag_field *field) { return field->name; }

tn_value ag_call(ag_field *field, size_t output, const tn_value *args, const uint8_t *order) {
  tn_graph *graph = field->graph;
  tn_call call = {.field = field, .output = (uint32_t)output};
  tn_value in[TN_MAX_SLOTS];
  if (output >= field->n_out)
    return tn_graph_fail(graph, TN_ERANGE, "field `%s` has no output %zu", field->name, output);
  tn_shape shape = tn_shape_scalar();
  for (size_t j = 0; j < field->n_args; ++j) {
    tn_shape own = tn_shape_of(args[j]);
    char text[96];
    in[j] = args[j];
    call.power[j] = order ? order[j] : 0;
    if (!args[j].graph) return args[j];
    if (!tn_ok(args[j]) || args[j].graph != graph)
      return tn_graph_fail(graph, TN_EHANDLE, "call of `%s`: argument %zu is stale or foreign",
                           field->name, j);
    if (own.rank > 1 || (own.rank == 1 && !own.axis[0]) ||
        (own.rank && shape.rank && own.axis[0] != shape.axis[0]))
      return tn_graph_fail(graph, TN_ESHAPE, "call of `%s`: argument %zu has shape %s, expected a "
                           "scalar or one number a point of one axis", field->name, j,
                           tn_shape_text(graph, &own, text, sizeof text));
    if (tn_dtype_of(args[j]) != field->dtype)
      return tn_graph_fail(graph, TN_EDTYPE, "call of `%s`: argument %zu is %s, expected %s",
                           field->name, j, tn_dtype_name(tn_dtype_of(args[j])),
                           tn_dtype_name(field->dtype));
    if (own.rank) shape = own;
  }
  return tn_call_node(graph, &call, field->dtype, shape, field->n_args, in);
}
