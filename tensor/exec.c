/* exec.c: the reference executor: storage, slots, phases.
 *
 * Whole arrays, every node of the program, in the documented order of summation. Points are cut into groups
 * of eight panels and groups into G slots,
 *     G = the largest power of two <= min(64, groups, 32 MiB / 8 P), at least 1, P trainable scalars,
 * contiguous, sizes differing by at most one group: never by threads, cache or instruction set. A phase runs
 * slot by slot, a slot through all nodes of the phase; each sum over points keeps one partial a slot, and the
 * partials meet in a binary tree by index. So threads change no bit.
 *
 * Values with points live in slabs that are reused when their last reader has run; memory is the largest set
 * of values alive at once. Values without points are few and small and keep places of their own.
 */
#include "tensor/exec.h"

#include <string.h>

size_t tn_panels(size_t points, size_t lanes) { return (points + lanes - 1) / lanes; }

static size_t groups_of(size_t points, size_t lanes) {
  return (tn_panels(points, lanes) + TN_GROUP_PANELS - 1) / TN_GROUP_PANELS;
}

size_t tn_slots(const tn_exec *exec, tn_axis axis, size_t lanes) {
  size_t limit = 64, groups = groups_of(exec->extent[axis], lanes), slots = 1;
  if (exec->program->n_trainable) {
    size_t by_memory = ((size_t)32 << 20) / (8 * exec->program->n_trainable);
    if (by_memory < limit) limit = by_memory;
  }
  if (groups < limit) limit = groups;
  while (2 * slots <= limit) slots *= 2;
  return slots;
}

const void *tn_input_data(const tn_exec *exec, size_t node, size_t input) {
  return exec->data[tn_port(exec->program, exec->program->nodes[node]->inputs[input])];
}

const tn_layout *tn_input_layout(const tn_exec *exec, size_t node, size_t input) {
  const tn_program *p = exec->program;
  return &p->layout[tn_port(p, p->nodes[node]->inputs[input])];
}

static size_t element_size(tn_dtype dtype) { return dtype == TN_BOOL ? 1 : tn_dtype_size(dtype); }

/* ---- Planning ---- */

static tn_status take_slab(tn_exec *exec, const tn_layout *layout, size_t size, int32_t *out) {
  for (size_t i = 0; i < exec->n_slabs; ++i) {
    tn_slab *s = &exec->slabs[i];
    if (!s->taken && s->axis == layout->axis && s->lanes == layout->lanes &&
        s->width == layout->width && s->size == size) {
      s->taken = true;
      *out = (int32_t)i;
      return TN_OK;
    }
  }
  if ((exec->n_slabs & (exec->n_slabs + 1)) == 0 || exec->n_slabs == 0)
    TN_TRY(tn_grow(&exec->slabs, exec->n_slabs, 2 * exec->n_slabs + 1, sizeof *exec->slabs));
  exec->slabs[exec->n_slabs] =
      (tn_slab){layout->axis, layout->lanes, layout->width, size, true, NULL};
  *out = (int32_t)exec->n_slabs++;
  return TN_OK;
}

static tn_status plan_storage(tn_exec *exec) {
  const tn_program *p = exec->program;
  size_t *last = NULL, fixed = 0;
  TN_TRY(TN_NEW(p->n_ports + 1, &last));
  for (size_t t = 0; t < p->n_nodes; ++t) {
    const tn_node *node = p->nodes[p->order[t]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) last[tn_port(p, node->inputs[k])] = t;
    for (uint32_t k = 0; k < node->n_outputs; ++k) last[p->port[p->order[t]] + k] = t;
  }
  for (size_t i = 0; i < p->n_outputs; ++i) last[tn_port(p, p->outputs[i])] = SIZE_MAX;
  tn_status status = TN_OK;
  for (size_t t = 0; t < p->n_nodes && status == TN_OK; ++t) {
    size_t i = p->order[t];
    const tn_node *node = p->nodes[i];
    size_t size = element_size(node->dtype);
    for (uint32_t k = 0; k < node->n_outputs && status == TN_OK; ++k) {
      size_t port = p->port[i] + k;
      exec->slab_of[port] = -1;
      if (p->layout[port].axis) {
        status = take_slab(exec, &p->layout[port], size, &exec->slab_of[port]);
      } else {
        exec->fixed_offset[port] = fixed;
        fixed += (p->layout[port].width * size + 63) & ~(size_t)63;
      }
    }
    if (exec->keep || status != TN_OK) continue;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      size_t port = tn_port(p, node->inputs[k]);
      if (last[port] == t && exec->slab_of[port] >= 0) exec->slabs[exec->slab_of[port]].taken = false;
    }
    for (uint32_t k = 0; k < node->n_outputs; ++k) {
      size_t port = p->port[i] + k;
      if (last[port] == t && exec->slab_of[port] >= 0) exec->slabs[exec->slab_of[port]].taken = false;
    }
  }
  if (status == TN_OK) status = tn_new(1, fixed + 64, &exec->fixed);
  exec->bytes += fixed;
  for (size_t port = 0; port < p->n_ports && status == TN_OK; ++port)
    if (!p->layout[port].axis) exec->data[port] = (char *)exec->fixed + exec->fixed_offset[port];
  tn_free(&last);
  return status;
}

static tn_status exec_new(const tn_program *program, tn_pool *pool, bool keep, tn_exec **out) {
  tn_exec *exec = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &exec));
  exec->keep = keep;
  exec->program = program;
  exec->pool = pool;
  size_t n = program->n_nodes, ports = program->n_ports, workers = pool ? tn_pool_threads(pool) : 1;
  tn_status status = TN_NEW(n + 1, &exec->bound);
  if (status == TN_OK) status = TN_NEW(n + 1, &exec->number);
  if (status == TN_OK) status = TN_NEW(n + 1, &exec->partial);
  if (status == TN_OK) status = TN_NEW(n + 1, &exec->partial_bytes);
  if (status == TN_OK) status = TN_NEW(n + 1, &exec->repeat);
  if (status == TN_OK) status = TN_NEW(ports + 1, &exec->slab_of);
  if (status == TN_OK) status = TN_NEW(ports + 1, &exec->data);
  if (status == TN_OK) status = TN_NEW(ports + 1, &exec->fixed_offset);
  if (status == TN_OK) status = TN_NEW(program->n_outputs, &exec->output);
  if (status == TN_OK) status = plan_storage(exec);
  size_t part = 4 * TN_STRIP * sizeof(double);
  for (size_t i = 0; i < n && status == TN_OK; ++i) {
    exec->number[i] = program->nodes[i]->number;
    size_t need = program->plan[i].code || program->plan[i].n_outputs ? tn_jet_scratch(exec, i) : 0;
    if (need > part) part = need;
  }
  exec->scratch_part = (part + 63) & ~(size_t)63;
  if (status == TN_OK) status = tn_new(workers, exec->scratch_part, &exec->scratch);
  if (status != TN_OK) tn_exec_free(&exec);
  *out = exec;
  return status;
}

tn_status tn_exec_new(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, false, out);
}

tn_status tn_exec_keeping(const tn_program *program, tn_pool *pool, tn_exec **out) {
  return exec_new(program, pool, true, out);
}

void tn_exec_free(tn_exec **pointer) {
  if (!pointer || !*pointer) return;
  tn_exec *exec = *pointer;
  for (size_t i = 0; exec->bound && i < exec->program->n_nodes; ++i) tn_buffer_release(&exec->bound[i]);
  for (size_t i = 0; exec->partial && i < exec->program->n_nodes; ++i) tn_free(&exec->partial[i]);
  for (size_t i = 0; exec->repeat && i < exec->program->n_nodes; ++i) tn_free(&exec->repeat[i]);
  for (size_t i = 0; exec->output && i < exec->program->n_outputs; ++i)
    tn_buffer_release(&exec->output[i]);
  for (size_t i = 0; i < exec->n_slabs; ++i) tn_free(&exec->slabs[i].data);
  tn_free(&exec->bound);
  tn_free(&exec->number);
  tn_free(&exec->partial);
  tn_free(&exec->partial_bytes);
  tn_free(&exec->repeat);
  tn_free(&exec->slabs);
  tn_free(&exec->slab_of);
  tn_free(&exec->data);
  tn_free(&exec->fixed_offset);
  tn_free(&exec->fixed);
  tn_free(&exec->scratch);
  tn_free(&exec->output);
  tn_free(pointer);
}

size_t tn_exec_bytes(const tn_exec *exec) { return exec->bytes; }

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
  if (!p->layout[p->port[i]].axis) exec->data[p->port[i]] = tn_map(buffer, TN_READ); /* used in place */
  return TN_OK;
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

static tn_status find_extents(tn_exec *exec) {
  const tn_program *p = exec->program;
  size_t extent[TN_MAX_AXES + 1] = {0};
  bool known[TN_MAX_AXES + 1] = {0};
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
  exec->bytes = 0;
  for (size_t i = 0; i < exec->n_slabs; ++i) {
    tn_slab *s = &exec->slabs[i];
    tn_free(&s->data);
    size_t elements = tn_panels(extent[s->axis], s->lanes) * s->lanes;
    TN_TRY(tn_new(elements, s->width * s->size, &s->data));
    exec->bytes += elements * s->width * s->size;
  }
  for (size_t port = 0; port < p->n_ports; ++port)
    if (exec->slab_of[port] >= 0) exec->data[port] = exec->slabs[exec->slab_of[port]].data;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (!tn_is_reduction(p, i)) continue;
    const tn_phase *phase = &p->phases[p->phase_of[i]];
    size_t bytes = ((p->layout[p->port[i]].width * tn_dtype_size(p->nodes[i]->dtype)) + 63) & ~(size_t)63;
    size_t slots = tn_slots(exec, phase->axis, phase->lanes);
    tn_free(&exec->partial[i]);
    TN_TRY(tn_new(slots, bytes, &exec->partial[i]));
    exec->partial_bytes[i] = bytes;
    exec->bytes += slots * bytes;
  }
  exec->ready = true;
  return TN_OK;
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
    case TN_OP_input: exec->data[port] = tn_map(exec->bound[i], TN_READ); continue;
    case TN_OP_scalar: value = exec->number[i]; break;
    case TN_OP_count: value = (double)exec->extent[node->integer[0]]; break;
    default: break;
    }
    for (size_t k = 0; k < n; ++k) {
      double x = node->op->id == TN_OP_array ? node->data[k] : value;
      if (node->dtype == TN_F64) ((double *)exec->data[port])[k] = x;
      else if (node->dtype == TN_F32) ((float *)exec->data[port])[k] = (float)x;
      else ((uint8_t *)exec->data[port])[k] = x != 0;
    }
  }
}

static void run_slot(void *context, size_t slot, size_t worker) {
  tn_exec *exec = context;
  const tn_program *p = exec->program;
  const tn_phase *phase = &p->phases[exec->phase];
  size_t panels = tn_panels(exec->extent[phase->axis], phase->lanes);
  size_t groups = groups_of(exec->extent[phase->axis], phase->lanes);
  size_t slots = tn_slots(exec, phase->axis, phase->lanes);
  size_t first = slot * groups / slots * TN_GROUP_PANELS;
  size_t last = (slot + 1) * groups / slots * TN_GROUP_PANELS;
  if (last > panels) last = panels;
  void *scratch = (char *)exec->scratch + worker * exec->scratch_part;
  for (size_t t = phase->first; t < phase->first + phase->count; ++t)
    tn_run_node(exec, p->order[t], slot, first, last, scratch);
}

/* Slots meet in a binary tree by index; pairs of an outer product without points come last. */
static void combine_slots(tn_exec *exec, size_t i) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  const tn_phase *phase = &p->phases[p->phase_of[i]];
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  size_t slots = tn_slots(exec, phase->axis, phase->lanes), width = p->layout[p->port[i]].width;
  char *partial = exec->partial[i];
  for (size_t stride = 1; stride < slots; stride *= 2)
    for (size_t s = 0; s + stride < slots; s += 2 * stride)
      kernels->add_to(width, partial + s * exec->partial_bytes[i],
                      partial + (s + stride) * exec->partial_bytes[i]);
  memcpy(exec->data[p->port[i]], partial, width * kernels->size);
  if (node->op->id == TN_OP_jet_outer) tn_run_outer(exec, i, SIZE_MAX, 0, 0);
}

tn_status tn_exec_run(tn_exec *exec) {
  const tn_program *p = exec->program;
  exec->ran = false;
  TN_TRY(find_extents(exec));
  fill_fixed_leaves(exec);
  for (size_t k = 0; k < p->n_phases; ++k) {
    const tn_phase *phase = &p->phases[k];
    exec->phase = k;
    if (!phase->axis) {
      for (size_t t = phase->first; t < phase->first + phase->count; ++t)
        tn_run_node(exec, p->order[t], 0, 0, 1, exec->scratch);
      continue;
    }
    if (phase->lanes == 1) {
      for (size_t t = phase->first; t < phase->first + phase->count; ++t)
        tn_run_cast(exec, p->order[t]);
      continue;
    }
    for (size_t t = phase->first; t < phase->first + phase->count; ++t)
      if (p->nodes[p->order[t]]->op->id == TN_OP_jet_outer && tn_is_reduction(p, p->order[t]))
        TN_TRY(tn_prepare_outer(exec, p->order[t]));
    size_t slots = tn_slots(exec, phase->axis, phase->lanes);
    if (exec->pool) tn_pool_run(exec->pool, slots, run_slot, exec);
    else
      for (size_t s = 0; s < slots; ++s) run_slot(exec, s, 0);
    for (size_t t = phase->first; t < phase->first + phase->count; ++t)
      if (tn_is_reduction(p, p->order[t])) combine_slots(exec, p->order[t]);
  }
  exec->ran = true;
  return TN_OK;
}

/* ---- Results ---- */

tn_status tn_exec_output(tn_exec *exec, size_t i, tn_buffer **out) {
  const tn_program *p = exec->program;
  *out = NULL;
  if (i >= p->n_outputs) return TN_FAIL(TN_ERANGE, "output %zu of %zu", i, p->n_outputs);
  if (!exec->ran) return TN_FAIL(TN_ESTATE, "output %zu was asked for before a run", i);
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
  const tn_layout *layout = &p->layout[port];
  size_t rows = layout->axis ? extent[0] : 1;
  if (!layout->axis)
    memcpy(to, exec->data[port], layout->width * element_size(node->dtype));
  else if (node->dtype != TN_BOOL && rows)
    tn_kernels_of(node->dtype)->unpack(rows, layout->width, exec->data[port], to);
  else
    for (size_t r = 0; r < rows; ++r)
      for (size_t w = 0; w < layout->width; ++w)
        ((uint8_t *)to)[r * layout->width + w] =
            ((const uint8_t *)exec->data[port])[(r / layout->lanes * layout->width + w) *
                                                    layout->lanes + r % layout->lanes];
  tn_unmap(exec->output[i]);
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
