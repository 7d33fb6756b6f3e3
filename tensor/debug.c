/* debug.c: every node of a step run as recorded, up to the first value that is not finite and is looked at.
 *
 * The step is compiled with every value of every node as an output, run once, and its values are walked in the
 * order of recording. Which elements are looked at is found first, from the outputs backwards:
 *   - of a `where`, the mask, and of each branch the elements that the mask selects;
 *   - of an elementwise operation, the same element (or the one of a scalar);
 *   - of any other operation, the whole row of the point, or everything when points are summed or spread.
 * So 1/0 in the branch that a `where` leaves aside is not reported, and an infinity that later vanishes, as in
 * tanh(1/0), is: it is where the digits were lost. Memory: all values at once, 1 byte more an element.
 */
#include "tensor/cache.h"
#include "tensor/exec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct tn_seen { /* a value of the step */
  tn_value value;
  const void *data; /* row-major, of its dtype, borrowed from the executor */
  tn_dtype dtype;
  size_t rows, width; /* rows: points, or 1 */
  bool batched;
  uint8_t *wanted; /* of each element */
} tn_seen;

typedef struct tn_debugger {
  const tn_recorded *step;
  size_t n_values, n_wanted;
  tn_value *values;
  tn_seen *seen;
  size_t *first;   /* value number of port 0, by number of the node in the step */
  uint8_t *wanted; /* of all elements */
} tn_debugger;

static double element(const tn_seen *s, size_t e) {
  switch (s->dtype) {
  case TN_F64:
    return ((const double *)s->data)[e];
  case TN_F32:
  case TN_TF32:
    return ((const float *)s->data)[e];
  case TN_BF16:
    return tn_of_bf16(((const uint16_t *)s->data)[e]);
  case TN_F16:
    return tn_of_f16(((const uint16_t *)s->data)[e]);
  default:
    return ((const uint8_t *)s->data)[e];
  }
}

static tn_seen *input_of(const tn_debugger *d, const tn_node *node, uint32_t k) {
  return &d->seen[d->first[d->step->index[node->inputs[k].node] - 1] + node->inputs[k].port];
}

/* Inputs have as many elements as the output, or one. */
static bool elementwise(const tn_node *node) {
  tn_op_id id = node->op->id;
  return node->op->arity > 0 || id == TN_OP_where || id == TN_OP_not || id == TN_OP_both ||
         id == TN_OP_either || id == TN_OP_reshape || id == TN_OP_cast;
}

static void want_row(tn_seen *in, size_t row, bool all) {
  if (all || !in->batched)
    memset(in->wanted, 1, in->rows * in->width);
  else
    memset(in->wanted + row * in->width, 1, in->width);
}

static void want_inputs(const tn_debugger *d, const tn_node *node, const tn_seen *out) {
  size_t count = out->rows * out->width;
  bool single = elementwise(node), selects = node->op->id == TN_OP_where;
  for (size_t e = 0; e < count; ++e) {
    if (!out->wanted[e])
      continue;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_seen *in = input_of(d, node, k);
      if (selects && k) {
        const tn_seen *mask = input_of(d, node, 0);
        bool holds = element(mask, mask->rows * mask->width == 1 ? 0 : e) != 0;
        if (holds != (k == 1))
          continue;
      }
      if (single)
        in->wanted[in->rows * in->width == 1 ? 0 : e] = 1;
      else
        want_row(in, out->width ? e / out->width : 0, !out->batched);
    }
    if (!single && !out->batched)
      return; /* everything is wanted already */
    if (!single)
      e += out->width - 1 - e % out->width; /* and so is this row */
  }
}

static tn_status collect(tn_debugger *d) {
  const tn_recorded *step = d->step;
  TN_TRY(TN_NEW(step->n_nodes + 1, &d->first));
  for (size_t i = 0; i < step->n_nodes; ++i) {
    d->first[i] = d->n_values;
    d->n_values += step->graph->nodes[step->nodes[i]]->n_outputs;
  }
  TN_TRY(TN_NEW(d->n_values, &d->values));
  TN_TRY(TN_NEW(d->n_values, &d->seen));
  for (size_t i = 0; i < step->n_nodes; ++i)
    for (uint32_t k = 0; k < step->graph->nodes[step->nodes[i]]->n_outputs; ++k)
      d->values[d->first[i] + k] = tn_value_at(step->graph, step->nodes[i], k);
  return TN_OK;
}

static tn_status look(tn_debugger *d, tn_exec *exec) {
  size_t total = 0;
  for (size_t i = 0; i < d->n_values; ++i) {
    tn_seen *s = &d->seen[i];
    tn_buffer *buffer = NULL;
    tn_shape shape = tn_shape_of(d->values[i]);
    TN_TRY(tn_exec_output(exec, i, &buffer));
    s->value = d->values[i];
    s->data = tn_map(buffer, TN_READ);
    s->dtype = tn_buffer_dtype(buffer);
    s->batched = tn_shape_batched(&shape);
    s->width = tn_shape_width(&shape);
    s->rows = s->batched ? tn_buffer_extent(buffer, 0) : 1;
    total += s->rows * s->width;
  }
  TN_TRY(TN_NEW(total, &d->wanted));
  for (size_t i = 0, at = 0; i < d->n_values; at += d->seen[i].rows * d->seen[i].width, ++i)
    d->seen[i].wanted = d->wanted + at;
  for (size_t i = 0; i < d->step->n_outputs; ++i) {
    tn_value v = d->step->outputs[i];
    tn_seen *s = &d->seen[d->first[d->step->index[v.node] - 1] + v.port];
    memset(s->wanted, 1, s->rows * s->width);
  }
  for (size_t i = d->step->n_nodes; i-- > 0;) {
    const tn_node *node = d->step->graph->nodes[d->step->nodes[i]];
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      want_inputs(d, node, &d->seen[d->first[i] + k]);
  }
  return TN_OK;
}

static tn_status report(const tn_debugger *d, const tn_seen *s, size_t e) {
  const tn_node *node = tn_node_of(s->value);
  char point[64] = "", channel[64] = "", from[256] = "", place[700] = "", name[160] = "";
  size_t row = s->width ? e / s->width : 0, used = 0;
  if (s->batched)
    snprintf(point, sizeof point, " at point %zu", row);
  if (s->width > 1)
    snprintf(point + strlen(point), sizeof point - strlen(point), "%s %zu",
             s->batched ? ", unit" : " in unit", e % s->width);
  if (node->n_outputs > 1) {
    uint64_t mask = node->out_mask;
    for (uint32_t k = 0; k < s->value.port; ++k)
      mask &= mask - 1;
    int number = 0;
    while (mask && !(mask >> number & 1))
      ++number;
    snprintf(channel, sizeof channel, ", channel %d", number);
  }
  if (node->op->id == TN_OP_jet_unary)
    snprintf(name, sizeof name, " of %s", tn_op_row((tn_op_id)node->integer[0])->name);
  else if (node->name && node->name[0])
    snprintf(name, sizeof name, " `%s`", node->name);
  for (uint32_t k = 0; k < node->n_inputs && k < 3; ++k) {
    const tn_seen *in = input_of(d, node, k);
    size_t at = in->rows * in->width == 1 ? 0
                : in->width == s->width   ? e
                : in->batched             ? row * in->width
                                          : 0;
    if (at >= in->rows * in->width)
      continue;
    used += (size_t)snprintf(from + used, sizeof from - used, "%s%.17g", used ? ", " : " from ",
                             element(in, at));
  }
  if (node->file)
    snprintf(place, sizeof place, ", made at %s:%d:%d%s%s", node->file, node->line, node->column,
             node->text ? ": " : "", node->text ? node->text : "");
  return TN_FAIL(TN_ENONFINITE, "debug: %s%s (node %u%s) is %g%s%s%s", node->op->name, name,
                 s->value.node, channel, element(s, e), point, from, place);
}

static tn_status first_bad(const tn_debugger *d) {
  for (size_t i = 0; i < d->n_values; ++i) {
    const tn_seen *s = &d->seen[i];
    if (!tn_dtype_is_float(s->dtype))
      continue;
    for (size_t e = 0; e < s->rows * s->width; ++e)
      if (s->wanted[e] && !isfinite(element(s, e)))
        return report(d, s, e);
  }
  return TN_OK;
}

tn_status tn_recorded_debug(tn_graph *graph, const tn_recorded *step) {
  tn_debugger d = {.step = step};
  tn_cached *entry = NULL;
  tn_axis_pairs axes;
  size_t differs;
  tn_status status = collect(&d);
  tn_recorded all = *step;
  all.n_outputs = d.n_values;
  all.outputs = d.values;
  if (status == TN_OK)
    status = tn_cached_new(&all, &entry);
  if (status == TN_OK)
    tn_recorded_equals(&all, entry->program, &axes, &differs); /* pairs the axes */
  if (status == TN_OK)
    status = tn_exec_host(entry->program, graph->runtime->pool, &entry->exec);
  if (status == TN_OK)
    status = tn_recorded_bind(entry, &all, &axes);
  if (status == TN_OK)
    status = tn_exec_run(entry->exec);
  if (status == TN_OK)
    status = look(&d, entry->exec);
  if (status == TN_OK)
    status = first_bad(&d);
  tn_cached_free(&entry);
  tn_free(&d.values);
  tn_free(&d.seen);
  tn_free(&d.first);
  tn_free(&d.wanted);
  return status;
}
