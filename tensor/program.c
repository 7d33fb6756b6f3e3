/* program.c: an immutable program from the outputs of a graph.
 *
 * The nodes that the outputs need are copied in graph order (inputs before users), so the program outlives
 * its graph and may be shared between threads. Then each value gets a layout, jet nodes get their strip
 * programs, and nodes are put into phases: greedily, all nodes of one kind (point axis and panel width, or no
 * points) whose inputs are done. A sum over points ends with its phase, when the slots meet.
 */
#include "tensor/program.h"

#include <stdio.h>
#include <string.h>

size_t tn_port(const tn_program *p, tn_edge edge) { return p->port[edge.node] + edge.port; }

bool tn_is_reduction(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  if (node->op->id != TN_OP_sum && node->op->id != TN_OP_jet_outer) return false;
  if (tn_shape_batched(&node->shapes[0])) return false;
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (p->layout[tn_port(p, node->inputs[k])].axis) return true;
  return false;
}

bool tn_changes_panels(const tn_program *p, size_t i) {
  if (tn_crosses_points(p, i)) return true;
  if (p->nodes[i]->op->id != TN_OP_cast || !p->layout[p->port[i]].axis) return false;
  return p->layout[p->port[i]].lanes != p->layout[tn_port(p, p->nodes[i]->inputs[0])].lanes;
}

static tn_status copy_nodes(tn_program *p, tn_graph *graph, size_t n, const tn_value *outputs) {
  uint32_t *map = NULL;
  TN_TRY(TN_NEW(graph->n_nodes + 1, &map));
  for (size_t i = 0; i < n; ++i) map[outputs[i].node] = 1;
  for (size_t i = graph->n_nodes; i-- > 0;)
    if (map[i])
      for (uint32_t k = 0; k < graph->nodes[i]->n_inputs; ++k) map[graph->nodes[i]->inputs[k].node] = 1;
  size_t count = 0;
  for (size_t i = 0; i < graph->n_nodes; ++i) count += map[i];
  tn_status status = tn_arena_take(&p->arena, count, sizeof *p->nodes, &p->nodes);
  if (status == TN_OK) status = tn_arena_take(&p->arena, count, sizeof *p->from, &p->from);
  if (status == TN_OK) status = tn_arena_take(&p->arena, n, sizeof *p->outputs, &p->outputs);
  const char *file = NULL, *file_copy = NULL, *text = NULL, *text_copy = NULL;
  for (size_t i = 0, at = 0; i < graph->n_nodes && status == TN_OK; ++i) {
    if (!map[i]) continue;
    const tn_node *from = graph->nodes[i];
    tn_node *node = NULL;
    status = tn_node_copy(&p->arena, from, &node);
    if (status != TN_OK) break;
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      ((tn_edge *)node->inputs)[k].node = map[node->inputs[k].node];
    if (node->file != file) {
      file = node->file;
      status = tn_arena_copy(&p->arena, file, file ? strlen(file) + 1 : 0, 1, &file_copy);
    }
    if (status == TN_OK && node->text != text) {
      text = node->text;
      status = tn_arena_copy(&p->arena, text, text ? strlen(text) + 1 : 0, 1, &text_copy);
    }
    node->file = file_copy;
    node->text = text_copy;
    if (node->table && status == TN_OK) {
      tn_jet_table *table = NULL;
      const tn_jet_term *terms = NULL;
      status = tn_arena_copy(&p->arena, node->table, 1, sizeof *table, &table);
      if (status == TN_OK)
        status = tn_arena_copy(&p->arena, table->terms, table->n_terms, sizeof *terms, &terms);
      if (status == TN_OK) table->terms = terms;
      node->table = table;
    }
    p->from[at] = (uint32_t)i;
    p->nodes[at] = node;
    map[i] = (uint32_t)at++;
  }
  p->n_nodes = count;
  for (size_t i = 0; i < n && status == TN_OK; ++i)
    p->outputs[i] = (tn_edge){map[outputs[i].node], outputs[i].port};
  p->n_outputs = n;
  tn_free(&map);
  return status;
}

static tn_status note_idle_inputs(tn_program *p, const tn_graph *graph) {
  size_t count = 0;
  for (size_t i = 0; i < graph->n_nodes; ++i) count += graph->nodes[i]->op->id == TN_OP_input;
  TN_TRY(tn_arena_take(&p->arena, count, sizeof *p->idle, &p->idle));
  TN_TRY(tn_arena_take(&p->arena, count, sizeof *p->idle_axis, &p->idle_axis));
  for (size_t i = 0, at = 0; i < graph->n_nodes; ++i) {
    while (at < p->n_nodes && p->from[at] < i) ++at;
    const tn_node *node = graph->nodes[i];
    if (node->op->id != TN_OP_input || !tn_shape_batched(&node->shapes[0])) continue;
    if (at < p->n_nodes && p->from[at] == i) continue;
    p->idle[p->n_idle] = (uint32_t)i;
    p->idle_axis[p->n_idle++] = node->shapes[0].axis[0];
  }
  return TN_OK;
}

static tn_status check_node(const tn_node *node) {
  char place[512] = "";
  if (node->file) snprintf(place, sizeof place, "%s:%d:%d: ", node->file, node->line, node->column);
  if (node->op->class_ == TN_ATOM)
    return TN_FAIL(TN_ESTATE, "%sa call of a field is not resolved; call ag_resolve first", place);
  if (!tn_dtype_is_float(node->dtype) && node->dtype != TN_BOOL)
    return TN_FAIL(TN_EUNSUPPORTED, "%s%s in %s: executors run float dtypes and masks", place,
                   node->op->name, tn_dtype_name(node->dtype));
  return TN_OK;
}

static tn_status lay_out(tn_program *p) {
  TN_TRY(tn_arena_take(&p->arena, p->n_nodes + 1, sizeof *p->port, &p->port));
  size_t ports = 0;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    TN_TRY(check_node(p->nodes[i]));
    p->port[i] = ports;
    ports += p->nodes[i]->n_outputs;
    if (p->nodes[i]->op->id == TN_OP_parameter)
      p->n_trainable += tn_shape_width(&p->nodes[i]->shapes[0]);
  }
  p->port[p->n_nodes] = p->n_ports = ports;
  TN_TRY(tn_arena_take(&p->arena, ports, sizeof *p->layout, &p->layout));
  for (size_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = p->nodes[i];
    for (uint32_t k = 0; k < node->n_outputs; ++k) {
      tn_layout *layout = &p->layout[p->port[i] + k];
      layout->width = tn_shape_width(&node->shapes[k]);
      layout->axis = tn_shape_batched(&node->shapes[k]) ? node->shapes[k].axis[0] : 0;
      layout->lanes = tn_dtype_compute(node->dtype) == TN_F32 ? 16 : 8;
      layout->size = node->dtype == TN_BOOL ? 1 : tn_dtype_size(tn_dtype_compute(node->dtype));
      if (node->dtype == TN_BOOL && layout->axis)
        for (uint32_t q = 0; q < node->n_inputs; ++q) {
          const tn_layout *in = &p->layout[tn_port(p, node->inputs[q])];
          if (in->axis) layout->lanes = in->lanes;
        }
      if (node->op->id == TN_OP_input && node->dtype == TN_BOOL)
        return TN_FAIL(TN_EUNSUPPORTED, "input `%s`: masks are made by comparisons, not bound",
                       node->name);
    }
    const tn_layout *own = &p->layout[p->port[i]]; /* masks come from f64 or from a dtype that computes in f32 */
    for (uint32_t q = 0; own->axis && node->op->id != TN_OP_cast && q < node->n_inputs; ++q) {
      const tn_layout *in = &p->layout[tn_port(p, node->inputs[q])];
      if (in->axis && in->lanes != own->lanes)
        return TN_FAIL(TN_EDTYPE, "%s: a mask made in f64 meets values or a mask of a format that computes in f32, "
                       "or the other way round",
                       node->op->name);
    }
  }
  return TN_OK;
}

/* Axis and panel width of the loop that a node runs in; axis 0 for nodes without points. */
static void loop_of(const tn_program *p, size_t i, tn_axis *axis, size_t *lanes) {
  const tn_layout *own = &p->layout[p->port[i]];
  *axis = 0;
  *lanes = own->lanes;
  for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k)
    if (p->layout[p->port[i] + k].axis) *axis = p->layout[p->port[i] + k].axis;
  for (uint32_t k = 0; k < p->nodes[i]->n_inputs; ++k) {
    const tn_layout *in = &p->layout[tn_port(p, p->nodes[i]->inputs[k])];
    if (!in->axis) continue;
    *axis = in->axis;
    *lanes = in->lanes;
  }
  if (tn_changes_panels(p, i)) *lanes = 1; /* a loop of its own: two panel widths */
}

static tn_status make_phases(tn_program *p) {
  bool *done = NULL;
  TN_TRY(tn_arena_take(&p->arena, p->n_nodes, sizeof *p->order, &p->order));
  TN_TRY(tn_arena_take(&p->arena, p->n_nodes, sizeof *p->phases, &p->phases));
  TN_TRY(tn_arena_take(&p->arena, p->n_nodes, sizeof *p->phase_of, &p->phase_of));
  TN_TRY(TN_NEW(p->n_nodes + 1, &done));
  for (size_t placed = 0, start = 0; placed < p->n_nodes;) {
    tn_phase phase = {.first = placed};
    bool open = false;
    while (done[start]) ++start;
    for (size_t i = start; i < p->n_nodes; ++i) {
      tn_axis axis;
      size_t lanes;
      bool ready = !done[i];
      for (uint32_t k = 0; ready && k < p->nodes[i]->n_inputs; ++k) {
        uint32_t in = p->nodes[i]->inputs[k].node;
        ready = done[in] && !(open && phase.axis && p->phase_of[in] == p->n_phases &&
                              tn_is_reduction(p, in));
      }
      if (!ready) continue;
      loop_of(p, i, &axis, &lanes);
      if (!open) {
        open = true;
        phase.axis = axis;
        phase.lanes = lanes;
      }
      if (axis != phase.axis || (axis && lanes != phase.lanes)) continue;
      done[i] = true;
      p->phase_of[i] = (uint32_t)p->n_phases;
      p->order[placed++] = (uint32_t)i;
    }
    phase.count = placed - phase.first;
    p->phases[p->n_phases++] = phase;
  }
  tn_free(&done);
  return TN_OK;
}

static tn_status plan_jets(tn_program *p) {
  TN_TRY(tn_arena_take(&p->arena, p->n_nodes, sizeof *p->plan, &p->plan));
  for (size_t i = 0; i < p->n_nodes; ++i) {
    tn_op_id id = p->nodes[i]->op->id;
    if (id == TN_OP_jet_unary || id == TN_OP_jet_mul || id == TN_OP_jet_mulT)
      TN_TRY(tn_jet_plan_new(p->nodes[i], &p->plan[i]));
  }
  return TN_OK;
}

tn_status tn_compile(tn_graph *graph, size_t n, const tn_value *outputs, tn_program **out) {
  *out = NULL;
  TN_TRY(tn_graph_error(graph));
  if (!n || tn_common_graph(n, outputs) != graph) {
    TN_TRY(tn_graph_error(graph));
    return TN_FAIL(TN_EHANDLE, "compile: expected at least one good output of this graph");
  }
  tn_program *p = NULL;
  TN_TRY(TN_NEW(1, &p));
  p->graph = graph;
  p->generation = graph->generation;
  tn_status status = copy_nodes(p, graph, n, outputs);
  if (status == TN_OK) status = note_idle_inputs(p, graph);
  if (status == TN_OK) status = lay_out(p);
  if (status == TN_OK) status = make_phases(p);
  if (status == TN_OK) status = plan_jets(p);
  if (status != TN_OK) tn_program_free(&p);
  *out = p;
  return status;
}

void tn_program_free(tn_program **program) {
  if (!program || !*program) return;
  if ((*program)->plan)
    for (size_t i = 0; i < (*program)->n_nodes; ++i) tn_jet_plan_free(&(*program)->plan[i]);
  tn_arena_free(&(*program)->arena);
  tn_free(program);
}

size_t tn_program_nodes(const tn_program *program) { return program->n_nodes; }
const tn_node *tn_program_node(const tn_program *program, size_t i) { return program->nodes[i]; }
size_t tn_program_outputs(const tn_program *program) { return program->n_outputs; }
tn_edge tn_program_output(const tn_program *program, size_t i) { return program->outputs[i]; }

bool tn_program_leaf(const tn_program *program, tn_value leaf, uint32_t *node) {
  if (leaf.graph != program->graph || leaf.generation != program->generation) return false;
  size_t low = 0, high = program->n_nodes; /* `from` ascends */
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (program->from[middle] < leaf.node) low = middle + 1;
    else high = middle;
  }
  if (low == program->n_nodes || program->from[low] != leaf.node) return false;
  *node = (uint32_t)low;
  return true;
}
