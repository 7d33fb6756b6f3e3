/* recorded.c: when are two recorded steps the same program?
 *
 * A step is what a set of outputs needs, in graph order. Two are equal if their nodes are, one by one: op, dtype,
 * inputs (as numbers in the step), shapes, attributes, structure tables, structural numbers (const, fill, array,
 * exponents), names of leaves, and the outputs. Point axes are compared up to renaming in the order in which they
 * appear, because a graph that is recorded anew makes them anew. Extents of point axes, places and the numbers of
 * run-time scalars are no part of it. The hash is over the same things and serves to find candidates only.
 *
 * A comparison costs about 30 ns a node, a hash about as much.
 */
#include "tensor/cache.h"

#include <stdio.h>
#include <string.h>

/* Attributes that are a point axis: position in tn_node.integer, -1: none. */
static int axis_attribute(const tn_node *node) {
  return node->op->id == TN_OP_expand ? 1 : node->op->id == TN_OP_count ? 0 : -1;
}

/* ---- Hash ---- */

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static uint64_t mix_double(uint64_t h, double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return mix(h, bits);
}

static uint64_t mix_text(uint64_t h, const char *text) {
  for (; text && *text; ++text)
    h = mix(h, (unsigned char)*text);
  return mix(h, 256);
}

static uint64_t mix_node(uint64_t h, const tn_recorded *step, const tn_node *node, uint16_t *number,
                         uint16_t *n_axes) {
  h = mix(h, ((uint64_t)node->op->id << 32) ^ ((uint64_t)node->dtype << 16) ^ node->n_outputs);
  if (node->op->id != TN_OP_scalar)
    h = mix_double(h, node->number);
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    h = mix(h, ((uint64_t)step->index[node->inputs[k].node] << 8) + node->inputs[k].port);
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    const tn_shape *shape = &node->shapes[k];
    for (uint32_t q = 0; q < shape->rank; ++q) {
      tn_axis axis = shape->axis[q];
      if (axis && !number[axis])
        number[axis] = ++*n_axes;
      h = mix(h, ((uint64_t)shape->extent[q] << 9) + (axis ? number[axis] : 0));
    }
    h = mix(h, shape->rank);
  }
  int at = axis_attribute(node);
  for (int k = 0; k < 4; ++k)
    h = mix(h, k == at ? number[node->integer[k]] : (uint64_t)node->integer[k]);
  if (node->table)
    h = mix(h, ((uint64_t)node->table->channels << 40) + ((uint64_t)node->table->order << 32) +
                   node->table->n_terms);
  h = mix(mix(h, node->mask[0]), node->mask[1] ^ (node->out_mask << 1));
  if (node->data)
    for (size_t k = 0, n = tn_shape_width(&node->shapes[0]); k < n; ++k)
      h = mix_double(h, node->data[k]);
  return node->name ? mix_text(h, node->name) : h;
}

uint64_t tn_recorded_hash(const tn_recorded *step) {
  uint16_t number[TN_MAX_AXES + 1] = {0}, n_axes = 0;
  uint64_t h = mix(step->n_nodes, step->n_outputs);
  for (size_t i = 0; i < step->n_nodes; ++i)
    h = mix_node(h, step, step->graph->nodes[step->nodes[i]], number, &n_axes);
  for (size_t i = 0; i < step->n_outputs; ++i)
    h = mix(h, ((uint64_t)step->index[step->outputs[i].node] << 8) + step->outputs[i].port);
  return h;
}

/* ---- Equality ---- */

static bool same_axis(tn_axis_pairs *axes, size_t in_graph, size_t in_program) {
  if (!in_graph != !in_program)
    return false;
  if (!in_graph)
    return true;
  if (!axes->in_program[in_graph] && !axes->in_graph[in_program]) {
    axes->in_program[in_graph] = (uint16_t)in_program;
    axes->in_graph[in_program] = (uint16_t)in_graph;
  }
  return axes->in_program[in_graph] == in_program && axes->in_graph[in_program] == in_graph;
}

static bool same_shape(const tn_shape *a, const tn_shape *b, tn_axis_pairs *axes) {
  if (a->rank != b->rank)
    return false;
  for (uint32_t q = 0; q < a->rank; ++q)
    if (a->extent[q] != b->extent[q] || !same_axis(axes, a->axis[q], b->axis[q]))
      return false;
  return true;
}

static bool same_table(const tn_jet_table *a, const tn_jet_table *b) {
  if (!a || !b)
    return a == b;
  if (a->channels != b->channels || a->order != b->order ||
      a->n_coefficients != b->n_coefficients || a->n_terms != b->n_terms)
    return false;
  for (size_t i = 0; i < a->n_terms; ++i) {
    const tn_jet_term *s = &a->terms[i], *t = &b->terms[i];
    if (s->a != t->a || s->b != t->b || s->c != t->c || s->coefficient != t->coefficient ||
        s->numerator != t->numerator || s->denominator != t->denominator)
      return false;
  }
  return true;
}

static bool same_attributes(const tn_node *a, const tn_node *b, tn_axis_pairs *axes) {
  int at = axis_attribute(a);
  for (int k = 0; k < 4; ++k)
    if (k == at ? !same_axis(axes, (size_t)a->integer[k], (size_t)b->integer[k])
                : a->integer[k] != b->integer[k])
      return false;
  if (a->op->id != TN_OP_scalar && memcmp(&a->number, &b->number, sizeof a->number) != 0)
    return false;
  if (a->mask[0] != b->mask[0] || a->mask[1] != b->mask[1] || a->out_mask != b->out_mask)
    return false;
  if (!a->name != !b->name || (a->name && strcmp(a->name, b->name) != 0))
    return false;
  if (!a->data != !b->data)
    return false;
  return !a->data || memcmp(a->data, b->data, tn_shape_width(&a->shapes[0]) * sizeof *a->data) == 0;
}

static bool same_node(const tn_recorded *step, const tn_node *a, const tn_node *b,
                      tn_axis_pairs *axes) {
  if (a->op != b->op || a->dtype != b->dtype || a->n_inputs != b->n_inputs ||
      a->n_outputs != b->n_outputs)
    return false;
  for (uint32_t k = 0; k < a->n_inputs; ++k)
    if (step->index[a->inputs[k].node] != b->inputs[k].node + 1 ||
        a->inputs[k].port != b->inputs[k].port)
      return false;
  for (uint32_t k = 0; k < a->n_outputs; ++k)
    if (!same_shape(&a->shapes[k], &b->shapes[k], axes))
      return false;
  return same_attributes(a, b, axes);
}

bool tn_recorded_equals(const tn_recorded *step, const tn_program *program, tn_axis_pairs *axes,
                        size_t *differs) {
  const tn_jet_table *seen[2] = {NULL, NULL}; /* the last pair found equal: tables recur */
  size_t n = step->n_nodes < program->n_nodes ? step->n_nodes : program->n_nodes;
  memset(axes, 0, sizeof *axes);
  for (size_t i = 0; i < n; ++i) {
    const tn_node *a = step->graph->nodes[step->nodes[i]], *b = program->nodes[i];
    *differs = i;
    if (!same_node(step, a, b, axes))
      return false;
    if (a->table == seen[0] && b->table == seen[1])
      continue;
    if (!same_table(a->table, b->table))
      return false;
    seen[0] = a->table;
    seen[1] = b->table;
  }
  *differs = n;
  if (step->n_nodes != program->n_nodes)
    return false;
  *differs = SIZE_MAX;
  if (step->n_outputs != program->n_outputs)
    return false;
  for (size_t i = 0; i < step->n_outputs; ++i)
    if (step->index[step->outputs[i].node] != program->outputs[i].node + 1 ||
        step->outputs[i].port != program->outputs[i].port)
      return false;
  return true;
}

/* ---- What differs, in words ---- */

static void describe(const tn_graph *graph, const tn_node *node, char *text, size_t capacity) {
  char shape[128] = "", number[64] = "", place[600] = "", name[128] = "";
  tn_shape_text(graph, &node->shapes[0], shape, sizeof shape);
  if (node->op->id == TN_OP_constant || node->op->id == TN_OP_fill || node->op->id == TN_OP_powi ||
      node->op->id == TN_OP_powr)
    snprintf(number, sizeof number, " %.17g", node->number);
  if (node->name && node->name[0])
    snprintf(name, sizeof name, " `%s`", node->name);
  if (node->file)
    snprintf(place, sizeof place, " (%s:%d:%d%s%s)", node->file, node->line, node->column,
             node->text ? ": " : "", node->text ? node->text : "");
  snprintf(text, capacity, "%s%s%s %s %s%s", node->op->name, name, number,
           tn_dtype_name(node->dtype), shape, place);
}

/* Advice by what differs: structure that changes from step to step has a run-time counterpart. */
static const char *advice(const tn_node *now, const tn_node *before) {
  if (now->op == before->op && memcmp(&now->number, &before->number, sizeof now->number) != 0)
    return now->op->id == TN_OP_constant || now->op->id == TN_OP_fill
               ? "; a number that changes from step to step belongs into tn_scalar, not tn_const"
               : "";
  if (now->op == before->op && now->data && before->data &&
      tn_shape_width(&now->shapes[0]) == tn_shape_width(&before->shapes[0]) &&
      memcmp(now->data, before->data, tn_shape_width(&now->shapes[0]) * sizeof(double)) != 0)
    return "; numbers that change from step to step belong into a tn_input, not tn_const_array";
  if (now->op != before->op || now->shapes[0].rank != before->shapes[0].rank)
    return "";
  for (uint32_t q = 0; q < now->shapes[0].rank; ++q)
    if (now->shapes[0].extent[q] != before->shapes[0].extent[q])
      return "; a size that changes from step to step belongs into a point axis, not a fixed "
             "extent";
  if (now->name && before->name && strcmp(now->name, before->name) != 0)
    return "; a leaf keeps its name from step to step";
  return "";
}

const char *tn_recorded_difference(const tn_recorded *step, const tn_program *program,
                                   size_t differs, char *text, size_t capacity) {
  char now[1000], before[1000];
  if (differs == SIZE_MAX)
    snprintf(text, capacity, "the nodes are equal, but other values of them are outputs");
  else if (differs == step->n_nodes)
    snprintf(text, capacity, "the first %zu nodes are equal, but the earlier step has %zu", differs,
             program->n_nodes);
  else {
    const tn_node *node = step->graph->nodes[step->nodes[differs]];
    describe(step->graph, node, now, sizeof now);
    if (differs == program->n_nodes)
      snprintf(text, capacity, "the earlier step ends after %zu nodes, where this one has %s",
               differs, now);
    else {
      /* Axis names of the earlier recording are gone; equal numbers mean the same position. */
      describe(step->graph, program->nodes[differs], before, sizeof before);
      snprintf(text, capacity, "node %zu is now %s, was %s%s", differs, now, before,
               advice(node, program->nodes[differs]));
    }
  }
  return text;
}
