/* exec.c: what all executors share: binding, extents, slots, values without points, results.
 *
 * Points are cut into groups of eight panels and groups into G slots,
 *     G = the largest power of two <= min(64, groups, 32 MiB / 8 P), at least 1, P trainable scalars,
 * contiguous, sizes differing by at most one group: never by threads, cache or instruction set. Each sum over
 * points keeps one partial sum a slot, and the partial sums meet in a binary tree by index. So neither threads
 * nor ranks nor the kind of executor change a bit.
 *
 * With a device (backend.h) binding, extents, checks and results are here as well, storage and work are the
 * device's. The numbers of leaves without points are filled in for it as for the host's executors.
 */
#include "tensor/backend.h"

#include <stdlib.h>
#include <string.h>

size_t tn_panels(size_t points, size_t lanes) { return (points + lanes - 1) / lanes; }

size_t tn_groups(size_t points, size_t lanes) {
  return (tn_panels(points, lanes) + TN_GROUP_PANELS - 1) / TN_GROUP_PANELS;
}

size_t tn_slot_count(size_t points, size_t lanes, size_t n_trainable) {
  size_t limit = 64, groups = tn_groups(points, lanes), slots = 1;
  if (n_trainable) {
    size_t by_memory = ((size_t)32 << 20) / (8 * n_trainable);
    if (by_memory < limit) limit = by_memory;
  }
  if (groups < limit) limit = groups;
  while (2 * slots <= limit) slots *= 2;
  return slots;
}

size_t tn_slots(const tn_exec *exec, tn_axis axis, size_t lanes) {
  return tn_slot_count(exec->extent[axis], lanes, exec->program->n_trainable);
}

void tn_slot_panels(const tn_exec *exec, tn_axis axis, size_t lanes, size_t slot, size_t *first,
                    size_t *last) {
  size_t panels = tn_panels(exec->extent[axis], lanes), groups = tn_groups(exec->extent[axis], lanes);
  size_t slots = tn_slots(exec, axis, lanes);
  *first = slot * groups / slots * TN_GROUP_PANELS;
  *last = (slot + 1) * groups / slots * TN_GROUP_PANELS;
  if (*last > panels) *last = panels;
}

size_t tn_sum_bytes(const tn_program *p, size_t i) {
  return (p->layout[p->port[i]].width * p->layout[p->port[i]].size + 63) & ~(size_t)63;
}

const void *tn_input_data(const tn_frame *frame, size_t node, size_t input) {
  const tn_program *p = frame->exec->program;
  return frame->data[tn_port(p, p->nodes[node]->inputs[input])];
}

const tn_layout *tn_input_layout(const tn_exec *exec, size_t node, size_t input) {
  const tn_program *p = exec->program;
  return &p->layout[tn_port(p, p->nodes[node]->inputs[input])];
}

/* ---- Making ---- */

static tn_status place_fixed(tn_exec *exec) {
  const tn_program *p = exec->program;
  size_t bytes = 0;
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) TN_TRY(tn_new(1, bytes + 64, &exec->fixed));
    exec->fixed_bytes += bytes;
    bytes = 0;
    for (size_t i = 0; i < p->n_nodes; ++i)
      for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
        size_t port = p->port[i] + k;
        if (p->layout[port].axis) continue;
        if (pass == 1) exec->data[port] = (char *)exec->fixed + bytes;
        bytes += (p->layout[port].width * p->layout[port].size + 63) & ~(size_t)63;
      }
  }
  return TN_OK;
}

static tn_status make_common(tn_exec *exec) {
  const tn_program *p = exec->program;
  size_t n = p->n_nodes, workers = exec->pool ? tn_pool_threads(exec->pool) : 1;
  TN_TRY(TN_NEW(n + 1, &exec->bound));
  TN_TRY(TN_NEW(n + 1, &exec->number));
  TN_TRY(TN_NEW(n + 1, &exec->partial));
  TN_TRY(TN_NEW(n + 1, &exec->partial_bytes));
  TN_TRY(TN_NEW(n + 1, &exec->repeat));
  TN_TRY(TN_NEW(p->n_ports + 1, &exec->data));
  TN_TRY(TN_NEW(p->n_outputs, &exec->output));
  TN_TRY(place_fixed(exec));
  size_t part = 4 * TN_STRIP * sizeof(double);
  for (size_t i = 0; i < n; ++i) {
    exec->number[i] = p->nodes[i]->number;
    if (tn_is_reduction(p, i)) exec->partial_bytes[i] = tn_sum_bytes(p, i);
    size_t need = p->plan[i].code || p->plan[i].n_outputs ? tn_jet_scratch(exec, i) : 0;
    if (need > part) part = need;
  }
  exec->scratch_part = (part + 63) & ~(size_t)63;
  exec->fixed_bytes += workers * exec->scratch_part;
  return tn_new(workers, exec->scratch_part, &exec->scratch);
}

/* exec->device is set when the device has made its part, so that what failed is not freed by it. */
static tn_status device_new(tn_exec *exec, tn_device *device) {
  const tn_backend *backend = device->backend;
  TN_TRY(tn_plan_new(exec->program, &exec->plan));
  if (exec->comm && backend->join) TN_TRY(backend->join(device, exec->comm));
  TN_TRY(backend->exec_new(device, exec, &exec->device_state));
  exec->device = device;
  return TN_OK;
}

typedef enum kind { STREAMED, WHOLE, KEEPING, STRICT, DEVICE, PIPELINE } kind;

/* The executor of the host that TN_EXECUTOR asks for; the program and its tests are run on each. */
static kind kind_of_host(void) {
  const char *wish = getenv("TN_EXECUTOR");
  return !wish                            ? STREAMED
         : strcmp(wish, "reference") == 0 ? WHOLE
         : strcmp(wish, "strict") == 0    ? STRICT
                                          : STREAMED;
}

static tn_status make(tn_exec *exec, kind which, tn_comm *comm, tn_device *device) {
  TN_TRY(make_common(exec));
  switch (which) {
  case DEVICE: TN_TRY(device_new(exec, device)); break;
  case STREAMED: TN_TRY(tn_stream_new(exec)); break;
  case PIPELINE: return tn_pipeline_new(exec, comm); /* its ranks share layers, not slots */
  default: TN_TRY(tn_whole_new(exec, which != WHOLE));
  }
  if (which == STRICT) TN_TRY(tn_strict_new(exec));
  return exec->comm ? tn_ranks_new(exec) : TN_OK;
}

static tn_status exec_new(const tn_program *program, tn_pool *pool, tn_comm *comm, tn_device *device,
                          kind which, tn_exec **out) {
  tn_exec *exec = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &exec));
  exec->program = program;
  exec->pool = pool;
  exec->comm = which != PIPELINE && tn_comm_size(comm) > 1 ? comm : NULL;
  tn_status status = make(exec, which, comm, device);
  if (status != TN_OK) tn_exec_free(&exec);
  *out = exec;
  return status;
}

tn_status tn_exec_new(const tn_program *program, tn_pool *pool, tn_exec **out) {
  tn_device *device = tn_pool_device(pool);
  tn_comm *comm = tn_pool_comm(pool);
  if (tn_pool_split_of(pool) == TN_SPLIT_LAYERS && tn_comm_size(comm) > 1) {
    *out = NULL;
    if (device)
      return TN_FAIL(TN_EUNSUPPORTED, "layers are split over ranks on the CPU alone, not on the device `%s`; ranks "
                     "that split points run there", tn_device_name(device));
    return tn_exec_pipeline(program, comm, out);
  }
  return exec_new(program, pool, comm, device, device ? DEVICE : kind_of_host(), out);
}

tn_status tn_exec_pipeline(const tn_program *program, tn_comm *comm, tn_exec **out) {
  return exec_new(program, NULL, comm, NULL, PIPELINE, out);
}

tn_status tn_exec_alone(const tn_program *program, const tn_pool *pool, tn_exec **out) {
  tn_device *device = tn_pool_device(pool);
  return exec_new(program, NULL, NULL, device, device ? DEVICE : kind_of_host(), out);
}

tn_status tn_exec_host(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, NULL, NULL, kind_of_host(), out);
}

tn_status tn_exec_reference(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, tn_pool_comm(pool), NULL, WHOLE, out);
}

tn_status tn_exec_keeping_all(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, NULL, NULL, KEEPING, out);
}

tn_status tn_exec_strict(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, tn_pool_comm(pool), NULL, STRICT, out);
}

void tn_exec_free(tn_exec **pointer) {
  if (!pointer || !*pointer) return;
  tn_exec *exec = *pointer;
  if (exec->device) exec->device->backend->exec_free(exec, exec->device_state);
  tn_ranks_free(exec);
  tn_plan_free(&exec->plan);
  for (size_t i = 0; exec->bound && i < exec->program->n_nodes; ++i) tn_buffer_release(&exec->bound[i]);
  for (size_t i = 0; exec->repeat && i < exec->program->n_nodes; ++i) tn_free(&exec->repeat[i]);
  for (size_t i = 0; exec->output && i < exec->program->n_outputs; ++i)
    tn_buffer_release(&exec->output[i]);
  tn_whole_free(exec);
  tn_strict_free(exec);
  tn_stream_free(exec);
  tn_pipeline_free(exec);
  tn_free(&exec->bound);
  tn_free(&exec->number);
  tn_free(&exec->partial);
  tn_free(&exec->partial_bytes);
  tn_free(&exec->repeat);
  tn_free(&exec->data);
  tn_free(&exec->fixed);
  tn_free(&exec->scratch);
  tn_free(&exec->output);
  tn_free(pointer);
}

size_t tn_exec_bytes(const tn_exec *exec) { return exec->fixed_bytes + exec->point_bytes; }

/* ---- Binding ---- */

tn_status tn_exec_bind(tn_exec *exec, tn_value leaf, tn_buffer *buffer) {
  uint32_t i;
  const tn_program *p = exec->program;
  if (!tn_program_leaf(p, leaf, &i)) {
    for (size_t k = 0; leaf.graph == p->graph && leaf.generation == p->generation && k < p->n_idle; ++k)
      if (p->idle[k] == leaf.node) {
        exec->offered[p->idle_axis[k]] = tn_buffer_extent(buffer, 0);
        exec->has_offer[p->idle_axis[k]] = true;
      }
    return TN_OK;
  }
  const tn_node *node = exec->program->nodes[i];
  const tn_shape *shape = &node->shapes[0];
  if (node->op->id != TN_OP_parameter && node->op->id != TN_OP_input)
    return TN_FAIL(TN_ESTATE, "bind: %s is not a parameter or input", node->op->name);
  if (tn_buffer_dtype(buffer) != node->dtype)
    return TN_FAIL(TN_EDTYPE, "bind `%s`: buffer is %s, expected %s", node->name,
                   tn_dtype_name(tn_buffer_dtype(buffer)), tn_dtype_name(node->dtype));
  bool fits = tn_buffer_rank(buffer) == shape->rank;
  for (uint32_t k = 0; fits && k < shape->rank; ++k)
    fits = shape->axis[k] || tn_buffer_extent(buffer, k) == shape->extent[k];
  if (!fits)
    return TN_FAIL(TN_ESHAPE, "bind `%s`: buffer of rank %zu [%zu, %zu, ...], expected rank %u with "
                   "fixed extents of %zu elements a point", node->name, tn_buffer_rank(buffer),
                   tn_buffer_extent(buffer, 0), tn_buffer_extent(buffer, 1), shape->rank,
                   tn_shape_width(shape));
  tn_buffer_retain(buffer);
  tn_buffer_release(&exec->bound[i]);
  exec->bound[i] = buffer;
  if (!p->layout[p->port[i]].axis && !tn_is_narrow(node->dtype)) /* used in place */
    exec->data[p->port[i]] = tn_map(buffer, TN_READ);
  return exec->device ? exec->device->backend->bound(exec, exec->device_state, i) : TN_OK;
}

tn_status tn_exec_set(tn_exec *exec, tn_value scalar, double value) {
  uint32_t i;
  if (!tn_program_leaf(exec->program, scalar, &i)) return TN_OK;
  if (exec->program->nodes[i]->op->id != TN_OP_scalar)
    return TN_FAIL(TN_ESTATE, "set: %s is not a run-time scalar", exec->program->nodes[i]->op->name);
  exec->number[i] = value;
  return TN_OK;
}

/* ---- Running ---- */

tn_status tn_bound_extents(const tn_exec *exec, size_t *extent, bool *known) {
  const tn_program *p = exec->program;
  memset(extent, 0, (TN_MAX_AXES + 1) * sizeof *extent);
  memset(known, 0, (TN_MAX_AXES + 1) * sizeof *known);
  for (size_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = p->nodes[i];
    if (node->op->id != TN_OP_parameter && node->op->id != TN_OP_input) continue;
    if (!exec->bound[i]) return TN_FAIL(TN_ESTATE, "run: `%s` is not bound", node->name);
    tn_axis axis = p->layout[p->port[i]].axis;
    if (!axis) continue;
    size_t n = tn_buffer_extent(exec->bound[i], 0);
    if (known[axis] && extent[axis] != n)
      return TN_FAIL(TN_ESHAPE, "run: `%s` has %zu points, another input on its axis has %zu",
                     node->name, n, extent[axis]);
    extent[axis] = n;
    known[axis] = true;
  }
  for (tn_axis axis = 1; axis <= TN_MAX_AXES; ++axis)
    if (!known[axis] && exec->has_offer[axis]) {
      extent[axis] = exec->offered[axis];
      known[axis] = true;
    }
  return TN_OK;
}

static tn_status find_extents(tn_exec *exec) {
  const tn_program *p = exec->program;
  size_t extent[TN_MAX_AXES + 1];
  bool known[TN_MAX_AXES + 1];
  TN_TRY(tn_bound_extents(exec, extent, known));
  for (size_t i = 0; i < p->n_ports; ++i)
    if (p->layout[i].axis && !known[p->layout[i].axis])
      return TN_FAIL(TN_ESTATE, "run: no input is bound on point axis %u, its extent is unknown",
                     p->layout[i].axis);
  bool same = memcmp(exec->extent, extent, sizeof extent) == 0 &&
              memcmp(exec->extent_known, known, sizeof known) == 0;
  memcpy(exec->extent, extent, sizeof extent);
  memcpy(exec->extent_known, known, sizeof known);
  if (same && exec->ready) return TN_OK;
  exec->ready = false; /* until all is there: a run may be tried again after an error */
  exec->point_bytes = 0;
  tn_status status = exec->device     ? exec->device->backend->extents(exec, exec->device_state)
                     : exec->streamed ? tn_stream_extents(exec)
                     : exec->pipeline ? tn_pipeline_extents(exec)
                                      : tn_whole_extents(exec);
  TN_TRY(tn_comm_agree(exec->comm, "storage for points", status)); /* all have it, or none goes on */
  exec->ready = true;
  return TN_OK;
}

/* A bound leaf without points: used in place, but for elements of 16 bits. */
static void fill_bound(tn_exec *exec, size_t i) {
  size_t port = exec->program->port[i];
  void *from = tn_map(exec->bound[i], TN_READ);
  tn_dtype dtype = exec->program->nodes[i]->dtype;
  if (tn_is_narrow(dtype)) tn_widen(dtype, exec->program->layout[port].width, from, exec->data[port]);
  else exec->data[port] = from;
}

/* Leaves without points: numbers are filled in, bound buffers are used in place. */
static void fill_fixed_leaves(tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = p->nodes[i];
    size_t port = p->port[i], n = p->layout[port].width;
    if (node->op->class_ != TN_LEAF || p->layout[port].axis) continue;
    double value = node->number;
    switch (node->op->id) {
    case TN_OP_parameter:
    case TN_OP_input: fill_bound(exec, i); continue;
    case TN_OP_scalar: value = exec->number[i]; break;
    case TN_OP_count: value = (double)exec->extent[node->integer[0]]; break;
    default: break;
    }
    for (size_t k = 0; k < n; ++k) {
      double x = node->op->id == TN_OP_array ? node->data[k] : value;
      if (node->dtype == TN_F64) ((double *)exec->data[port])[k] = x;
      else if (node->dtype == TN_BOOL) ((uint8_t *)exec->data[port])[k] = x != 0;
      else ((float *)exec->data[port])[k] = (float)tn_round(node->dtype, x);
    }
  }
}

/* ---- Sums over points ---- */

void *tn_partial(const tn_frame *frame, size_t i) {
  return (char *)frame->exec->partial[i] + frame->slot * frame->exec->partial_bytes[i];
}

void tn_clear_partial(const tn_frame *frame, size_t i) {
  memset(tn_partial(frame, i), 0, frame->exec->partial_bytes[i]);
}

void tn_add_slots(tn_exec *exec, size_t i, size_t a, size_t b) {
  char *partial = exec->partial[i];
  tn_kernels_of(exec->program->nodes[i]->dtype)
      ->add_to(exec->program->layout[exec->program->port[i]].width, partial + a * exec->partial_bytes[i],
               partial + b * exec->partial_bytes[i]);
}

/* Pairs of an outer product without points come last, then the rounding. */
void tn_end_sum(tn_exec *exec, size_t i) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  memcpy(exec->data[p->port[i]], exec->partial[i],
         p->layout[p->port[i]].width * tn_kernels_of(node->dtype)->size);
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  if (node->op->id == TN_OP_jet_outer) tn_run_outer(&frame, i, 0, 0);
  else if (tn_node_rounds(node)) tn_round_outputs(&frame, i, 0, 1);
}

void tn_combine_slots(tn_exec *exec, size_t i, size_t slots) {
  for (size_t stride = 1; stride < slots; stride *= 2)
    for (size_t s = 0; s + stride < slots; s += 2 * stride) tn_add_slots(exec, i, s, s + stride);
  tn_end_sum(exec, i);
}

/* All ranks have copies of their leaves, or none has. */
static tn_status begin_strict(tn_exec *exec) {
  tn_status own = tn_strict_begin(exec), all = tn_comm_agree(exec->comm, "copies of leaves", own);
  return own == TN_OK && all != TN_OK ? tn_strict_end(exec, all) : all;
}

tn_status tn_exec_run(tn_exec *exec) {
  exec->ran = false;
  TN_TRY(tn_check_float_environment()); /* twenty operations; the pool has checked its own threads */
  TN_TRY(find_extents(exec));
  if (exec->strict) TN_TRY(begin_strict(exec));
  fill_fixed_leaves(exec);
  tn_ranks_begin(exec);
  exec->failed = TN_OK;
  tn_status status = exec->device     ? exec->device->backend->run(exec, exec->device_state)
                     : exec->streamed ? tn_stream_run(exec)
                     : exec->pipeline ? tn_pipeline_run(exec)
                                      : tn_whole_run(exec);
  if (status == TN_OK) status = exec->failed;
  status = tn_ranks_end(exec, status);
  if (exec->strict) status = tn_comm_agree(exec->comm, "copies of outputs", tn_strict_end(exec, status));
  exec->ran = status == TN_OK;
  return status;
}

/* ---- Results ---- */

tn_status tn_copy_out(tn_exec *exec, size_t i) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[p->outputs[i].node];
  const tn_shape *shape = &node->shapes[p->outputs[i].port];
  size_t port = tn_port(p, p->outputs[i]), extent[TN_MAX_RANK] = {0};
  for (uint32_t k = 0; k < shape->rank; ++k)
    extent[k] = shape->axis[k] ? exec->extent[shape->axis[k]] : shape->extent[k];
  if (!exec->output[i] || tn_buffer_extent(exec->output[i], 0) != (shape->rank ? extent[0] : 1)) {
    tn_buffer_release(&exec->output[i]);
    TN_TRY(tn_buffer_new(node->dtype, shape->rank, extent, &exec->output[i]));
  }
  void *to = tn_map(exec->output[i], TN_WRITE);
  if (exec->device) {
    tn_status status = exec->device->backend->output(exec, exec->device_state, i, to);
    tn_unmap(exec->output[i]);
    return status;
  }
  const tn_layout *layout = &p->layout[port];
  size_t rows = layout->axis ? extent[0] : 1;
  if (!layout->axis && tn_is_narrow(node->dtype))
    tn_narrow(node->dtype, layout->width, exec->data[port], to);
  else if (!layout->axis)
    memcpy(to, exec->data[port], layout->width * layout->size);
  else if (tn_is_narrow(node->dtype))
    tn_unpack_narrow(node->dtype, rows, layout->width, exec->data[port], to);
  else if (node->dtype != TN_BOOL && rows)
    tn_kernels_of(node->dtype)->unpack(rows, layout->width, exec->data[port], to);
  else
    for (size_t r = 0; r < rows; ++r)
      for (size_t w = 0; w < layout->width; ++w)
        ((uint8_t *)to)[r * layout->width + w] =
            ((const uint8_t *)exec->data[port])[(r / layout->lanes * layout->width + w) *
                                                    layout->lanes + r % layout->lanes];
  tn_unmap(exec->output[i]);
  return TN_OK;
}

tn_status tn_exec_output(tn_exec *exec, size_t i, tn_buffer **out) {
  *out = NULL;
  if (i >= exec->program->n_outputs)
    return TN_FAIL(TN_ERANGE, "output %zu of %zu", i, exec->program->n_outputs);
  if (!exec->ran) return TN_FAIL(TN_ESTATE, "output %zu was asked for before a run", i);
  if (!exec->strict) TN_TRY(tn_copy_out(exec, i)); /* else when the run ended */
  *out = exec->output[i];
  return TN_OK;
}

tn_status tn_exec_read(tn_exec *exec, size_t i, size_t count, double *out) {
  tn_buffer *buffer = NULL;
  TN_TRY(tn_exec_output(exec, i, &buffer));
  if (tn_buffer_count(buffer) != count)
    return TN_FAIL(TN_ESHAPE, "output %zu has %zu elements, %zu were asked for", i,
                   tn_buffer_count(buffer), count);
  tn_status status =
      tn_convert(count, tn_buffer_dtype(buffer), tn_map(buffer, TN_READ), TN_F64, out);
  tn_unmap(buffer);
  return status;
}
