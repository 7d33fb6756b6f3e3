/* whole.c: the reference executor: whole arrays, every node of the program in the documented order.
 *
 * A phase (program.h) runs slot by slot, a slot through all nodes of the phase. Values with points live in
 * slabs that are reused when their last reader has run; memory is the largest set of values alive at once. It
 * is the oracle for the streamed executor, and with storage of its own for every value it serves
 * tn_exec_explain. With ranks, a phase runs the slots of this one, and its sums go round when it ends.
 */
#include "tensor/backend.h"

#include <string.h>

/* Storage of batched values of one kind, shared by values whose lives do not overlap. Values of one slab
 * have equal panels, so a slot's part of it is the same bytes for all of them. */
typedef struct tn_slab {
  tn_axis axis;
  size_t lanes, width, size;
  bool taken; /* while planning */
  void *data;
} tn_slab;

typedef struct tn_whole {
  bool keep; /* every value has storage of its own */
  tn_slab *slabs;
  size_t n_slabs;
  int32_t *slab_of; /* of each port; -1: without points */
  size_t phase;     /* while running, and its first own slot */
  size_t first_slot;
  uint32_t *sums;   /* room for the sums of a phase, and for ports that it reads in full */
  size_t *ports;
} tn_whole;

static tn_status take_slab(tn_whole *w, const tn_layout *layout, size_t size, int32_t *out) {
  for (size_t i = 0; i < w->n_slabs; ++i) {
    tn_slab *s = &w->slabs[i];
    if (!s->taken && s->axis == layout->axis && s->lanes == layout->lanes &&
        s->width == layout->width && s->size == size) {
      s->taken = true;
      *out = (int32_t)i;
      return TN_OK;
    }
  }
  if ((w->n_slabs & (w->n_slabs + 1)) == 0 || w->n_slabs == 0)
    TN_TRY(tn_grow(&w->slabs, w->n_slabs, 2 * w->n_slabs + 1, sizeof *w->slabs));
  w->slabs[w->n_slabs] =
      (tn_slab){layout->axis, layout->lanes, layout->width, size, true, NULL};
  *out = (int32_t)w->n_slabs++;
  return TN_OK;
}

/* Slabs of node number t in running order. */
static tn_status take_slabs(tn_exec *exec, size_t t, const size_t *last) {
  const tn_program *p = exec->program;
  tn_whole *w = exec->whole;
  size_t i = p->order[t];
  const tn_node *node = p->nodes[i];
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    size_t port = p->port[i] + k;
    w->slab_of[port] = -1;
    if (p->layout[port].axis)
      TN_TRY(take_slab(w, &p->layout[port], p->layout[port].size, &w->slab_of[port]));
  }
  if (w->keep) return TN_OK;
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    size_t port = tn_port(p, node->inputs[k]);
    if (last[port] == t && w->slab_of[port] >= 0) w->slabs[w->slab_of[port]].taken = false;
  }
  for (uint32_t k = 0; k < node->n_outputs; ++k) {
    size_t port = p->port[i] + k;
    if (last[port] == t && w->slab_of[port] >= 0) w->slabs[w->slab_of[port]].taken = false;
  }
  return TN_OK;
}

/* Entries of a list of all outputs, or of all inputs of nodes. */
static size_t most_ports(const tn_program *p) {
  size_t n = p->n_outputs + 1;
  for (size_t i = 0; i < p->n_nodes; ++i) n += p->nodes[i]->n_inputs;
  return n;
}

tn_status tn_whole_new(tn_exec *exec, bool keep) {
  const tn_program *p = exec->program;
  size_t *last = NULL;
  TN_TRY(TN_NEW(1, &exec->whole));
  exec->whole->keep = keep;
  TN_TRY(TN_NEW(p->n_ports + 1, &exec->whole->slab_of));
  TN_TRY(TN_NEW(p->n_nodes + 1, &exec->whole->sums));
  TN_TRY(TN_NEW(most_ports(p), &exec->whole->ports));
  TN_TRY(TN_NEW(p->n_ports + 1, &last));
  for (size_t t = 0; t < p->n_nodes; ++t) {
    const tn_node *node = p->nodes[p->order[t]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) last[tn_port(p, node->inputs[k])] = t;
    for (uint32_t k = 0; k < node->n_outputs; ++k) last[p->port[p->order[t]] + k] = t;
  }
  for (size_t i = 0; i < p->n_outputs; ++i) last[tn_port(p, p->outputs[i])] = SIZE_MAX;
  tn_status status = TN_OK;
  for (size_t t = 0; t < p->n_nodes && status == TN_OK; ++t) status = take_slabs(exec, t, last);
  tn_free(&last);
  return status;
}

bool tn_whole_keeps(const tn_exec *exec) { return exec->whole && exec->whole->keep && !exec->strict; }

void tn_whole_free(tn_exec *exec) {
  tn_whole *w = exec->whole;
  if (!w) return;
  for (size_t i = 0; i < exec->program->n_nodes; ++i) tn_free(&exec->partial[i]);
  for (size_t i = 0; i < w->n_slabs; ++i) tn_free(&w->slabs[i].data);
  tn_free(&w->slabs);
  tn_free(&w->slab_of);
  tn_free(&w->sums);
  tn_free(&w->ports);
  tn_free(&exec->whole);
}

/* ---- Parts of ranks ---- */

static bool runs_in_slots(const tn_phase *phase) { return phase->axis && phase->lanes != 1; }

/* The sums over points of a phase. */
static size_t list_sums(const tn_exec *exec, const tn_phase *phase) {
  const tn_program *p = exec->program;
  size_t n = 0;
  for (size_t t = phase->first; t < phase->first + phase->count; ++t)
    if (tn_is_reduction(p, p->order[t])) exec->whole->sums[n++] = p->order[t];
  return n;
}

/* What the nodes of a phase that runs on whole arrays read. */
static size_t list_inputs(const tn_exec *exec, const tn_phase *phase) {
  const tn_program *p = exec->program;
  size_t n = 0;
  for (size_t t = phase->first; t < phase->first + phase->count; ++t)
    for (uint32_t k = 0; k < p->nodes[p->order[t]]->n_inputs; ++k)
      exec->whole->ports[n++] = tn_port(p, p->nodes[p->order[t]]->inputs[k]);
  return n;
}

static size_t list_outputs(const tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_outputs; ++i) exec->whole->ports[i] = tn_port(p, p->outputs[i]);
  return p->n_outputs;
}

static tn_status make_room_to_gather(tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t k = 0; k < p->n_phases; ++k) {
    const tn_phase *phase = &p->phases[k];
    if (runs_in_slots(phase)) tn_wish_to_gather_sums(exec, list_sums(exec, phase), exec->whole->sums);
    else tn_wish_to_complete(exec, list_inputs(exec, phase), exec->whole->ports);
  }
  tn_wish_to_complete(exec, list_outputs(exec), exec->whole->ports);
  return tn_make_room_to_gather(exec);
}

tn_status tn_whole_extents(tn_exec *exec) {
  const tn_program *p = exec->program;
  tn_whole *w = exec->whole;
  for (size_t i = 0; i < w->n_slabs; ++i) {
    tn_slab *s = &w->slabs[i];
    tn_free(&s->data);
    size_t elements = tn_panels(exec->extent[s->axis], s->lanes) * s->lanes;
    TN_TRY(tn_new(elements, s->width * s->size, &s->data));
    exec->point_bytes += elements * s->width * s->size;
  }
  for (size_t port = 0; port < p->n_ports; ++port)
    if (w->slab_of[port] >= 0) exec->data[port] = w->slabs[w->slab_of[port]].data;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (!tn_is_reduction(p, i)) continue;
    const tn_phase *phase = &p->phases[p->phase_of[i]];
    size_t slots = tn_slots(exec, phase->axis, phase->lanes);
    tn_free(&exec->partial[i]);
    TN_TRY(tn_new(slots, exec->partial_bytes[i], &exec->partial[i]));
    exec->point_bytes += slots * exec->partial_bytes[i];
  }
  return make_room_to_gather(exec);
}

/* Nodes without points, and those that run on whole arrays. */
static tn_status run_whole(tn_exec *exec, const tn_phase *phase) {
  tn_frame frame = {.exec = exec, .data = exec->data, .scratch = exec->scratch};
  TN_TRY(tn_complete(exec, list_inputs(exec, phase), exec->whole->ports));
  for (size_t t = phase->first; t < phase->first + phase->count; ++t)
    tn_run_node(&frame, exec->program->order[t], 0, 1);
  return TN_OK;
}

static void run_slot(void *context, size_t task, size_t worker) {
  tn_exec *exec = context;
  size_t slot = exec->whole->first_slot + task;
  const tn_program *p = exec->program;
  const tn_phase *phase = &p->phases[exec->whole->phase];
  size_t first, last;
  tn_slot_panels(exec, phase->axis, phase->lanes, slot, &first, &last);
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = slot,
                    .scratch = (char *)exec->scratch + worker * exec->scratch_part};
  for (size_t t = phase->first; t < phase->first + phase->count; ++t) {
    if (tn_is_reduction(p, p->order[t])) tn_clear_partial(&frame, p->order[t]);
    tn_run_node(&frame, p->order[t], first, last);
    if (exec->strict) tn_strict_after_node(exec, t, first, last);
  }
}

static tn_status prepare(tn_exec *exec, const tn_phase *phase) {
  const tn_program *p = exec->program;
  tn_frame frame = {.exec = exec, .data = exec->data, .scratch = exec->scratch};
  for (size_t t = phase->first; t < phase->first + phase->count; ++t)
    if (p->nodes[p->order[t]]->op->id == TN_OP_jet_outer && tn_is_reduction(p, p->order[t]))
      TN_TRY(tn_prepare_outer(&frame, p->order[t]));
  return TN_OK;
}

static tn_status run_slots(tn_exec *exec, const tn_phase *phase) {
  size_t first, last;
  tn_own_slots(exec, phase->axis, phase->lanes, &first, &last);
  tn_status status = prepare(exec, phase);
  if (status != TN_OK) {
    if (!exec->comm) return status;
    if (exec->failed == TN_OK) exec->failed = status; /* the others learn it when they gather */
    last = first;
  }
  exec->whole->first_slot = first;
  if (exec->pool) tn_pool_run(exec->pool, last - first, run_slot, exec);
  else
    for (size_t s = 0; s < last - first; ++s) run_slot(exec, s, 0);
  return tn_gather_sums(exec, list_sums(exec, phase), exec->whole->sums);
}

tn_status tn_whole_run(tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t k = 0; k < p->n_phases; ++k) {
    const tn_phase *phase = &p->phases[k];
    exec->whole->phase = k;
    TN_TRY(runs_in_slots(phase) ? run_slots(exec, phase) : run_whole(exec, phase));
    if (exec->strict) tn_strict_after_phase(exec, phase);
  }
  return tn_complete(exec, list_outputs(exec), exec->whole->ports);
}
