/* graph.c: the arena of nodes, equal nodes made one, errors kept, places carried.
 *
 * A node is identified by its op, dtype, inputs, shapes and attributes; a hash table finds the equal node, so
 * common subexpressions are shared from the start. Leaves that are bound at run time (parameter, input,
 * scalar) are always new. Places are no part of a node's identity: the first maker's place stays. A segment is:
 * nodes of two segments are two nodes, however equal they are otherwise, so that a value can be computed twice. The
 * second one knows the first (tn_node.origin), and so do nodes that are equal up to this: the hash and the search go
 * by first nodes. Leaves belong to no segment.
 *
 * Attributes in tn_node.integer, by op
 *   sum        0: axis
 *   expand     0: position, 1: point axis or 0, 2: extent
 *   transpose  0, 1: the two axes
 *   slice      0: axis, 1: first, 2: count           pad: 0: axis, 1: before, 2: after
 *   concat     0: axis
 *   count      0: point axis
 *   jet_lin    0: transposed, 1: has bias; inputs: h channels of mask[0], w, bias
 *   jet_outer  0: pairs; inputs: all z, then all h
 *   jet_unary  0: op id of f, 1: derivative, number: exponent; inputs: z of mask[0], coefficients
 *   jet_mul    inputs: a of mask[0], b of mask[1], coefficients
 *   jet_mulT   inputs: w of mask[0], ybar of mask[1], coefficients
 * Ports of a jet node are the channels of out_mask, ascending.
 */
#include "tensor/graph.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Arena ---- */

enum { BLOCK = 1 << 16 };

tn_status tn_arena_take(tn_arena *arena, size_t count, size_t size, void *out) {
  void **p = out;
  *p = NULL;
  if (size && count > (SIZE_MAX - 4096) / size)
    return TN_FAIL(TN_ENOMEM, "graph: %zu elements of %zu bytes overflow", count, size);
  size_t bytes = (count * size + 15) & ~(size_t)15;
  const size_t header = (sizeof(tn_arena_block) + 63) & ~(size_t)63;
  if (!arena->block || arena->block->used + bytes > arena->block->capacity) {
    size_t capacity = bytes > BLOCK ? bytes : BLOCK;
    tn_arena_block *block = NULL;
    TN_TRY(tn_new(1, header + capacity, &block));
    block->capacity = capacity;
    block->next = arena->block;
    arena->block = block;
  }
  *p = (char *)arena->block + header + arena->block->used;
  arena->block->used += bytes;
  return TN_OK;
}

tn_status tn_arena_copy(tn_arena *arena, const void *data, size_t count, size_t size, void *out) {
  void **p = out;
  *p = NULL;
  if (!data) return TN_OK;
  TN_TRY(tn_arena_take(arena, count, size, out));
  if (count > 0 && size > 0) memcpy(*p, data, count * size);
  return TN_OK;
}

void tn_arena_free(tn_arena *arena) {
  while (arena->block) {
    tn_arena_block *next = arena->block->next;
    tn_free(&arena->block);
    arena->block = next;
  }
}

void tn_arena_reset(tn_arena *arena) {
  tn_arena_block *keep = arena->block;
  if (!keep) return;
  arena->block = keep->next;
  tn_arena_free(arena);
  const size_t header = (sizeof(tn_arena_block) + 63) & ~(size_t)63;
  memset((char *)keep + header, 0, keep->used);
  keep->next = NULL;
  keep->used = 0;
  arena->block = keep;
}

/* ---- Life ---- */

/* Generations count through the process: a value of a graph that was freed is stale even if a new graph
 * lies at the same address. */
static uint32_t next_generation(void) {
  static atomic_uint_fast32_t made;
  uint32_t next = (uint32_t)(atomic_fetch_add(&made, 1) + 1);
  return next ? next : next_generation();
}

tn_status tn_graph_new(tn_graph **out) {
  TN_TRY(TN_NEW(1, out));
  (*out)->generation = next_generation();
  return TN_OK;
}

static void forget(tn_graph *graph) {
  tn_results_clear(graph);
  tn_free(&graph->nodes);
  tn_free(&graph->table);
  tn_free(&graph->jet_tables);
  tn_free(&graph->segments);
  for (size_t i = 0; i < graph->n_axes; ++i) tn_free(&graph->axis_name[i]);
  graph->n_nodes = graph->node_capacity = graph->table_size = graph->n_jet_tables = graph->n_axes = 0;
  graph->place = (tn_place){0};
  graph->segment = 0;
  graph->n_segments = 0;
  graph->error = TN_OK;
}

void tn_graph_free(tn_graph **graph) {
  if (!graph || !*graph) return;
  forget(*graph);
  tn_runtime_free(*graph);
  tn_arena_free(&(*graph)->arena);
  tn_free(graph);
}

void tn_graph_reset(tn_graph *graph) {
  tn_results_clear(graph);
  if (graph->table) memset(graph->table, 0, graph->table_size * sizeof *graph->table);
  for (size_t i = 0; i < graph->n_axes; ++i) tn_free(&graph->axis_name[i]);
  graph->n_nodes = graph->n_jet_tables = graph->n_axes = 0;
  graph->place = (tn_place){0};
  graph->segment = 0;
  graph->n_segments = 0;
  graph->error = TN_OK;
  tn_arena_reset(&graph->arena);
  graph->generation = next_generation();
}

tn_axis tn_axis_new(tn_graph *graph, const char *name) {
  if (graph->n_axes == TN_MAX_AXES) {
    tn_graph_fail(graph, TN_ERANGE, "axis `%s`: a graph has at most %d point axes", name, TN_MAX_AXES);
    return 0;
  }
  tn_status status = tn_copy_text(name ? name : "", &graph->axis_name[graph->n_axes]);
  if (status != TN_OK) {
    tn_graph_fail(graph, status, "axis `%s`: out of memory", name ? name : "");
    return 0;
  }
  return (tn_axis)++graph->n_axes;
}

const char *tn_axis_name(const tn_graph *graph, tn_axis axis) {
  return axis && axis <= graph->n_axes ? graph->axis_name[axis - 1] : "?";
}

tn_status tn_graph_memory(tn_graph *graph, size_t count, size_t size, void *out) {
  TN_TRY(tn_arena_take(&graph->arena, count, size, out));
  memset(*(void **)out, 0, count * size);
  return TN_OK;
}

/* ---- Places and errors ---- */

static const char *keep_text(tn_graph *graph, const char *old, const char *text) {
  if (!text) return NULL;
  if (old && strcmp(old, text) == 0) return old;
  char *copy = NULL;
  if (tn_arena_copy(&graph->arena, text, strlen(text) + 1, 1, &copy) != TN_OK) return NULL;
  return copy;
}

void tn_at(tn_graph *graph, const char *file, int line, int column, const char *text) {
  graph->place.file = keep_text(graph, graph->place.file, file);
  graph->place.text = keep_text(graph, graph->place.text, text);
  graph->place.line = line;
  graph->place.column = column;
}

void tn_at_like(tn_value value) {
  const tn_node *node = tn_node_of(value);
  if (node) value.graph->place = (tn_place){node->file, node->text, node->line, node->column};
}

/* ---- Segments ---- */

uint32_t tn_segment(tn_graph *graph, uint32_t id) {
  uint32_t before = graph->segment;
  graph->segment = id <= graph->n_segments ? id : 0;
  return before;
}

uint32_t tn_segment_new(tn_graph *graph, uint32_t base, uint64_t key) {
  for (size_t i = 0; key && i < graph->n_segments; ++i)
    if (graph->segments[i].base == base && graph->segments[i].key == key) return (uint32_t)i + 1;
  size_t n = graph->n_segments;
  if ((n & (n + 1)) == 0) { /* room for n + 1 more; a reset keeps what there is */
    struct tn_segment_row *rows = NULL;
    if (TN_NEW(2 * n + 1, &rows) != TN_OK) {
      tn_graph_fail(graph, TN_ENOMEM, "segments: out of memory");
      return 0;
    }
    if (n) memcpy(rows, graph->segments, n * sizeof *rows);
    tn_free(&graph->segments);
    graph->segments = rows;
  }
  graph->segments[n] = (struct tn_segment_row){base, key};
  return (uint32_t)++graph->n_segments;
}

tn_value tn_graph_fail(tn_graph *graph, tn_status code, const char *format, ...) {
  char text[900], all[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (graph->place.file)
    snprintf(all, sizeof all, "%s:%d:%d: %s", graph->place.file, graph->place.line,
             graph->place.column, text);
  else
    snprintf(all, sizeof all, "%s", text);
  tn_fail(code, __FILE__, __LINE__, "%s", all);
  if (graph->error == TN_OK) {
    graph->error = code;
    memcpy(graph->error_text, all, sizeof all);
  }
  return (tn_value){0};
}

tn_status tn_graph_error(tn_graph *graph) {
  if (graph->error == TN_OK) return TN_OK;
  return tn_fail(graph->error, __FILE__, __LINE__, "%s", graph->error_text);
}

void tn_graph_clear_error(tn_graph *graph) { graph->error = TN_OK; }
size_t tn_graph_nodes(const tn_graph *graph) { return graph->n_nodes; }

/* ---- Values ---- */

const tn_node *tn_node_at(const tn_graph *graph, uint32_t node) { return graph->nodes[node]; }

const tn_node *tn_node_of(tn_value value) {
  return tn_ok(value) ? value.graph->nodes[value.node] : NULL;
}

tn_value tn_value_at(tn_graph *graph, uint32_t node, uint32_t port) {
  return (tn_value){graph, node, port, graph->generation};
}

bool tn_ok(tn_value value) {
  return value.graph && value.generation == value.graph->generation &&
         value.node < value.graph->n_nodes &&
         value.port < value.graph->nodes[value.node]->n_outputs;
}

tn_shape tn_shape_of(tn_value value) {
  return tn_ok(value) ? value.graph->nodes[value.node]->shapes[value.port] : (tn_shape){0};
}

tn_dtype tn_dtype_of(tn_value value) {
  return tn_ok(value) ? value.graph->nodes[value.node]->dtype : TN_F64;
}

bool tn_same(tn_value a, tn_value b) {
  return a.graph == b.graph && a.node == b.node && a.port == b.port && a.generation == b.generation;
}

tn_edge tn_edge_of(tn_value value) { return (tn_edge){value.node, value.port}; }

tn_graph *tn_common_graph(size_t n, const tn_value *values) {
  tn_graph *graph = NULL;
  for (size_t i = 0; i < n; ++i) {
    if (!values[i].graph) return NULL; /* an error value: its error is already kept */
    if (!graph) graph = values[i].graph;
  }
  for (size_t i = 0; i < n; ++i) {
    if (values[i].graph != graph) {
      tn_graph_fail(graph, TN_EHANDLE, "a value of another graph was used (input %zu)", i + 1);
      return NULL;
    }
    if (!tn_ok(values[i])) {
      tn_graph_fail(graph, TN_EHANDLE,
                    "a stale value was used (input %zu): the graph was reset since it was made", i + 1);
      return NULL;
    }
  }
  return graph;
}

/* ---- Nodes ---- */

static uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

static uint64_t mix_bytes(uint64_t h, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = mix(h, word);
  }
  for (size_t i = 0; i < bytes; ++i) h = mix(h, p[i]);
  return h;
}

static bool is_bound_leaf(const tn_node *node) {
  return node->op->id == TN_OP_parameter || node->op->id == TN_OP_input ||
         node->op->id == TN_OP_scalar;
}

/* The first node that computed this input. */
static tn_edge first_of(const tn_graph *graph, tn_edge e) {
  uint32_t origin = graph->nodes[e.node]->origin;
  return origin ? (tn_edge){origin - 1, e.port} : e;
}

/* Equal for nodes that compute the same, in whatever segments. */
static uint64_t hash_node(const tn_graph *graph, const tn_node *node) {
  uint64_t h = mix(node->op->id, node->dtype), number;
  memcpy(&number, &node->number, 8);
  h = mix(mix(h, number), (uint64_t)(uintptr_t)node->table);
  h = mix_bytes(h, node->integer, sizeof node->integer);
  h = mix_bytes(h, node->mask, sizeof node->mask);
  h = mix(h, node->out_mask);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    tn_edge e = first_of(graph, node->inputs[i]);
    h = mix(h, ((uint64_t)e.node << 16) | e.port);
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) { /* by members: a tn_shape has padding */
    const tn_shape *shape = &node->shapes[i];
    for (uint32_t q = 0; q < shape->rank; ++q) h = mix(mix(h, shape->axis[q]), shape->extent[q]);
    h = mix(h, shape->rank);
  }
  if (node->data) h = mix_bytes(h, node->data, tn_shape_width(&node->shapes[0]) * sizeof(double));
  if (node->call) {
    h = mix(h, (uint64_t)(uintptr_t)node->call->field);
    h = mix(h, node->call->output);
    h = mix_bytes(h, node->call->power, sizeof node->call->power);
  }
  return h;
}

/* Do they compute the same? */
static bool equal_nodes(const tn_graph *graph, const tn_node *a, const tn_node *b) {
  if (a->op != b->op || a->dtype != b->dtype || a->n_inputs != b->n_inputs ||
      a->n_outputs != b->n_outputs || a->table != b->table || a->out_mask != b->out_mask)
    return false;
  if (memcmp(&a->number, &b->number, sizeof a->number) ||
      memcmp(a->integer, b->integer, sizeof a->integer) ||
      memcmp(a->mask, b->mask, sizeof a->mask))
    return false;
  for (uint32_t i = 0; i < a->n_inputs; ++i) {
    tn_edge x = first_of(graph, a->inputs[i]), y = first_of(graph, b->inputs[i]);
    if (x.node != y.node || x.port != y.port) return false;
  }
  for (uint32_t i = 0; i < a->n_outputs; ++i)
    if (!tn_shape_equal(&a->shapes[i], &b->shapes[i])) return false;
  if (!a->data != !b->data || !a->call != !b->call) return false;
  if (a->data && memcmp(a->data, b->data, tn_shape_width(&a->shapes[0]) * sizeof(double))) return false;
  if (a->call && (a->call->field != b->call->field || a->call->output != b->call->output ||
                  memcmp(a->call->power, b->call->power, sizeof a->call->power)))
    return false;
  return true;
}

/* Of nodes that compute the same: in one segment, from the very same inputs? */
static bool one_node(const tn_node *a, const tn_node *b) {
  if (a->segment != b->segment) return false;
  for (uint32_t i = 0; i < a->n_inputs; ++i)
    if (a->inputs[i].node != b->inputs[i].node || a->inputs[i].port != b->inputs[i].port) return false;
  return true;
}

tn_status tn_node_copy(tn_arena *arena, const tn_node *from, tn_node **out) {
  tn_node *node = NULL;
  void *p = NULL;
  TN_TRY(tn_arena_take(arena, 1, sizeof *node, &node));
  *node = *from;
  TN_TRY(tn_arena_copy(arena, from->inputs, from->n_inputs, sizeof *from->inputs, &p));
  node->inputs = p;
  TN_TRY(tn_arena_copy(arena, from->shapes, from->n_outputs, sizeof *from->shapes, &p));
  node->shapes = p;
  TN_TRY(tn_arena_copy(arena, from->data, tn_shape_width(&from->shapes[0]), sizeof(double), &p));
  node->data = p;
  TN_TRY(tn_arena_copy(arena, from->name, from->name ? strlen(from->name) + 1 : 0, 1, &p));
  node->name = p;
  TN_TRY(tn_arena_copy(arena, from->call, 1, sizeof *from->call, &p));
  node->call = p;
  *out = node;
  return TN_OK;
}

/* Doubles the node list and rebuilds the hash table at twice the nodes. */
static tn_status make_room(tn_graph *graph) {
  if (graph->n_nodes == graph->node_capacity) {
    size_t capacity = graph->node_capacity ? 2 * graph->node_capacity : 256;
    TN_TRY(tn_grow(&graph->nodes, graph->node_capacity, capacity, sizeof *graph->nodes));
    graph->node_capacity = capacity;
  }
  if (2 * (graph->n_nodes + 1) <= graph->table_size) return TN_OK;
  size_t size = graph->table_size ? 2 * graph->table_size : 1024;
  uint32_t *table = NULL;
  TN_TRY(TN_NEW(size, &table));
  for (size_t i = 0; i < graph->n_nodes; ++i) {
    size_t at = hash_node(graph, graph->nodes[i]) & (size - 1);
    while (table[at]) at = (at + 1) & (size - 1);
    table[at] = (uint32_t)i + 1;
  }
  tn_free(&graph->table);
  graph->table = table;
  graph->table_size = size;
  return TN_OK;
}

tn_value tn_node_make(tn_graph *graph, const tn_node *from) {
  tn_node own = *from, *node = &own;
  own.segment = own.op->class_ == TN_LEAF ? 0 : graph->segment;
  own.origin = 0;
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    tn_shape shape = node->shapes[i];
    if (!tn_shape_settle(graph, node->op->name, &shape)) return (tn_value){0};
  }
  if (make_room(graph) != TN_OK) return tn_graph_fail(graph, TN_ENOMEM, "graph: out of memory");
  size_t at = hash_node(graph, node) & (graph->table_size - 1);
  for (; graph->table[at]; at = (at + 1) & (graph->table_size - 1)) {
    uint32_t i = graph->table[at] - 1;
    if (is_bound_leaf(node) || !equal_nodes(graph, graph->nodes[i], node)) continue;
    if (one_node(graph->nodes[i], node)) return tn_value_at(graph, i, 0);
    own.origin = graph->nodes[i]->origin ? graph->nodes[i]->origin : i + 1;
  }
  tn_node *copy = NULL;
  if (tn_node_copy(&graph->arena, node, &copy) != TN_OK)
    return tn_graph_fail(graph, TN_ENOMEM, "graph: out of memory");
  copy->file = graph->place.file;
  copy->text = graph->place.text;
  copy->line = graph->place.line;
  copy->column = graph->place.column;
  graph->nodes[graph->n_nodes] = copy;
  graph->table[at] = (uint32_t)++graph->n_nodes;
  return tn_value_at(graph, (uint32_t)graph->n_nodes - 1, 0);
}
