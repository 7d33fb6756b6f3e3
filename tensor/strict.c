/* strict.c: the reference executor under the rules of a device with memory of its own.
 *
 * A device sees nothing of the host between the copies in and the copies out, gives memory back when a value is no
 * longer needed, and hands out memory that holds anything. What works on the host by accident (a host buffer read in
 * the middle of a run, storage read that nobody wrote, a value read after its last reader) would fail there. Here it
 * fails, too:
 *   - when a run begins, bound leaves are copied to buffers of the executor, and all else that it stores is NaN;
 *   - every value has storage of its own (tn_whole.keep), and becomes NaN again when its last reader has run: a
 *     value with points panel by panel, one without points when the phase ends in which it was read;
 *   - when the run ends, outputs are copied out, and everything is NaN.
 * NaN is a memory full of ones, which is one in f32 and f64; of a mask it is "true". Slow; for tests (TN_EXECUTOR=strict
 * runs the program and its tests on it).
 */
#include "tensor/exec.h"

#include <string.h>

struct tn_strict {
  uint32_t *
      last; /* of each port: the place in tn_program.order of its last reader; UINT32_MAX: an output */
  tn_buffer *
      *host; /* while running: what the user bound to each node; the executor has copies of it */
};

tn_status tn_strict_new(tn_exec *exec) {
  const tn_program *p = exec->program;
  TN_TRY(TN_NEW(1, &exec->strict));
  TN_TRY(TN_NEW(p->n_ports + 1, &exec->strict->last));
  TN_TRY(TN_NEW(p->n_nodes + 1, &exec->strict->host));
  uint32_t *last = exec->strict->last;
  for (uint32_t t = 0; t < p->n_nodes; ++t) {
    const tn_node *node = p->nodes[p->order[t]];
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      last[tn_port(p, node->inputs[k])] = t;
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      last[p->port[p->order[t]] + k] = t;
  }
  for (size_t i = 0; i < p->n_outputs; ++i)
    last[tn_port(p, p->outputs[i])] = UINT32_MAX;
  return TN_OK;
}

void tn_strict_free(tn_exec *exec) {
  if (!exec->strict)
    return;
  tn_free(&exec->strict->last);
  tn_free(&exec->strict->host);
  tn_free(&exec->strict);
}

/* ---- Spoiling ---- */

/* Panels [first, last) of a value with points; all of one without. */
static void spoil(const tn_exec *exec, size_t port, size_t first, size_t last) {
  const tn_layout *layout = &exec->program->layout[port];
  size_t panel = layout->width * layout->size * (layout->axis ? layout->lanes : 1);
  if (!layout->axis)
    first = 0, last = 1;
  if (exec->data[port])
    memset((char *)exec->data[port] + first * panel, 0xFF, (last - first) * panel);
}

static bool is_bound(const tn_node *node) {
  return node->op->id == TN_OP_parameter || node->op->id == TN_OP_input;
}

/* Is this port's storage a buffer that is bound, the user's or a copy of it? */
static bool is_in_place(const tn_program *p, size_t i) {
  return is_bound(p->nodes[i]) && !p->layout[p->port[i]].axis && !tn_is_narrow(p->nodes[i]->dtype);
}

static void spoil_all(const tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs && !is_in_place(p, i); ++k) {
      const tn_layout *layout = &p->layout[p->port[i] + k];
      spoil(exec, p->port[i] + k, 0, tn_panels(exec->extent[layout->axis], layout->lanes));
    }
    const tn_phase *phase = &p->phases[p->phase_of[i]];
    if (exec->partial[i])
      memset(exec->partial[i], 0xFF,
             tn_slots(exec, phase->axis, phase->lanes) * exec->partial_bytes[i]);
  }
  memset(exec->scratch, 0xFF, (exec->pool ? tn_pool_threads(exec->pool) : 1) * exec->scratch_part);
}

void tn_strict_after_node(const tn_exec *exec, size_t t, size_t first, size_t last) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[p->order[t]];
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    size_t port = tn_port(p, node->inputs[k]);
    if (exec->strict->last[port] == t && p->layout[port].axis)
      spoil(exec, port, first, last);
  }
  for (uint32_t k = 0; k < node->n_outputs; ++k) { /* nobody reads it */
    size_t port = p->port[p->order[t]] + k;
    if (exec->strict->last[port] == t && p->layout[port].axis)
      spoil(exec, port, first, last);
  }
}

void tn_strict_after_phase(const tn_exec *exec, const tn_phase *phase) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_nodes; ++i)
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
      size_t port = p->port[i] + k, t = exec->strict->last[port];
      const tn_layout *layout = &p->layout[port];
      bool is_last = t >= phase->first && t < phase->first + phase->count;
      if (is_last && (!layout->axis || !phase->axis || phase->lanes == 1))
        spoil(exec, port, 0, tn_panels(exec->extent[layout->axis], layout->lanes));
    }
}

/* ---- Copies ---- */

static tn_status copy_of(const tn_buffer *from, tn_buffer **out) {
  size_t extent[TN_MAX_RANK];
  for (size_t k = 0; k < tn_buffer_rank(from); ++k)
    extent[k] = tn_buffer_extent(from, k);
  TN_TRY(tn_buffer_new(tn_buffer_dtype(from), tn_buffer_rank(from), extent, out));
  memcpy(tn_map(*out, TN_WRITE), tn_map((tn_buffer *)(uintptr_t)from, TN_READ),
         tn_buffer_count(from) * tn_dtype_size(tn_buffer_dtype(from)));
  return TN_OK;
}

static void give_back(tn_exec *exec) { /* the user's buffers */
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_nodes; ++i) {
    if (!exec->strict->host[i])
      continue;
    tn_buffer_release(&exec->bound[i]);
    exec->bound[i] = exec->strict->host[i];
    exec->strict->host[i] = NULL;
    if (is_in_place(p, i))
      exec->data[p->port[i]] = NULL; /* until it is bound or the next run begins */
  }
}

tn_status tn_strict_begin(tn_exec *exec) {
  const tn_program *p = exec->program;
  spoil_all(exec);
  for (size_t i = 0; i < p->n_nodes; ++i) {
    tn_buffer *copy = NULL;
    if (!is_bound(p->nodes[i]))
      continue;
    tn_status status = copy_of(exec->bound[i], &copy);
    if (status != TN_OK) {
      tn_buffer_release(&copy);
      give_back(exec);
      return status;
    }
    exec->strict->host[i] = exec->bound[i];
    exec->bound[i] = copy;
  }
  return TN_OK;
}

tn_status tn_strict_end(tn_exec *exec, tn_status status) {
  for (size_t i = 0; i < exec->program->n_outputs && status == TN_OK; ++i)
    status = tn_copy_out(exec, i);
  spoil_all(exec);
  give_back(exec);
  return status;
}
