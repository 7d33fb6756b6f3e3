/* leaves.c: what goes to the device: values of leaves, and the tables in which kernels find everything.
 *
 * Leaves without points that vary (parameters, inputs, run-time numbers, counts of points) are gathered in pinned
 * memory at a fixed address and go over in one copy, the first of every run and part of its graph. Numbers and
 * arrays of the structure go over once.
 *
 * An input with points is copied, row-major and in its own elements, when it was bound or written (its version tells).
 * If it is bound between two runs, the copy starts at once on the stream for copies, into the input's other block:
 * the next run waits for it by an event, the one that may still be going on is not disturbed. A block is written
 * only after the end of the last run that read it: ran[r & 1] is the end of run r, and runs end in order.
 */
#include "cuda/executor.h"

#include <string.h>

static bool varies(const tn_node *node) {
  switch (node->op->id) {
  case TN_OP_parameter:
  case TN_OP_input:
  case TN_OP_scalar:
  case TN_OP_count:
    return true;
  default:
    return false;
  }
}

static size_t room_of(const tn_layout *layout) {
  return (layout->width * layout->size + 63) & ~(size_t)63;
}

/* ---- Places ---- */

/* Of the ports of node i, those that belong to part `part` of the fixed block. */
static bool belongs(const tn_program *p, const gpu_exec *x, size_t i, size_t port, int part) {
  const tn_node *node = p->nodes[i];
  if (p->layout[port].axis)
    return false;
  bool leaf = node->op->class_ == TN_LEAF;
  switch (part) {
  case 0:
    return leaf && varies(node);
  case 1:
    return leaf && !varies(node);
  case 2:
    return !leaf && x->is_output[port];
  default:
    return !leaf && !x->is_output[port];
  }
}

static void place(const tn_program *p, gpu_exec *x) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    if (part == 2)
      x->outputs_at = at;
    for (size_t i = 0; i < p->n_nodes; ++i)
      for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
        size_t port = p->port[i] + k;
        if (!belongs(p, x, i, port, part))
          continue;
        if (part == 0)
          x->varying[x->n_varying++] = (uint32_t)i;
        x->offset[port] = at;
        at += room_of(&p->layout[port]);
      }
    if (part == 0)
      x->varying_bytes = at;
    if (part == 2)
      x->outputs_bytes = at - x->outputs_at;
  }
  x->fixed_bytes = at;
}

/* Numbers and arrays of the structure: the host's copies were filled in when the executor was made, or are now. */
static tn_status send_constants(const tn_exec *exec, gpu_exec *x) {
  const tn_program *p = exec->program;
  size_t bytes = x->outputs_at - x->varying_bytes;
  char *all = NULL;
  if (!bytes)
    return TN_OK;
  TN_TRY(tn_new(1, bytes, &all));
  for (size_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = p->nodes[i];
    size_t port = p->port[i];
    if (!belongs(p, x, i, port, 1))
      continue;
    char *to = all + (x->offset[port] - x->varying_bytes);
    for (size_t k = 0; k < p->layout[port].width; ++k) {
      double number = node->op->id == TN_OP_array ? node->data[k] : node->number;
      if (node->dtype == TN_F64)
        ((double *)(void *)to)[k] = number;
      else if (node->dtype == TN_BOOL)
        ((uint8_t *)to)[k] = number != 0;
      else
        ((float *)(void *)to)[k] = (float)tn_round(node->dtype, number);
    }
  }
  tn_status status = gpu_upload(x->g, false, x->fixed + x->varying_bytes, all, bytes);
  tn_free(&all);
  return status;
}

static tn_status find_inputs(const tn_program *p, gpu_exec *x) {
  for (size_t i = 0; i < p->n_nodes; ++i)
    x->n_points += p->layout[p->port[i]].axis && p->nodes[i]->op->id == TN_OP_input;
  TN_TRY(TN_NEW(x->n_points + 1, &x->points));
  for (size_t i = 0, n = 0; i < p->n_nodes; ++i)
    if (p->layout[p->port[i]].axis && p->nodes[i]->op->id == TN_OP_input)
      x->points[n++].node = (uint32_t)i;
  return TN_OK;
}

tn_status gpu_leaves_new(const tn_exec *exec, gpu_exec *x) {
  const tn_program *p = exec->program;
  gpu_context *g = x->g;
  TN_TRY(TN_NEW(p->n_ports + 1, &x->offset));
  TN_TRY(TN_NEW(p->n_ports + 1, &x->is_output));
  TN_TRY(TN_NEW(p->n_ports + 1, &x->data));
  TN_TRY(TN_NEW(p->n_nodes + 1, &x->leaf));
  TN_TRY(TN_NEW(p->n_nodes + 1, &x->varying));
  for (size_t i = 0; i < p->n_outputs; ++i)
    x->is_output[tn_port(p, p->outputs[i])] = !p->layout[tn_port(p, p->outputs[i])].axis;
  TN_TRY(find_inputs(p, x));
  place(p, x);
  TN_TRY(gpu_take(g, x->fixed_bytes + 256, &x->fixed));
  TN_TRY(gpu_take(g, (p->n_ports + 1) * sizeof *x->data, &x->data_table));
  TN_TRY(gpu_take(g, (p->n_nodes + 1) * sizeof *x->leaf, &x->leaf_table));
  TN_TRY(gpu_take(g, (TN_MAX_AXES + 1) * sizeof(gpu_size), &x->points_table));
  GPU_TRY(g, cuMemAllocHost, ((void **)&x->pinned, x->varying_bytes + x->outputs_bytes + 64));
  for (size_t port = 0; port < p->n_ports; ++port)
    if (!p->layout[port].axis)
      x->data[port] = x->fixed + x->offset[port];
  x->data_stale = x->leaf_stale = true;
  return send_constants(exec, x);
}

void gpu_leaves_free(gpu_exec *x) {
  for (size_t k = 0; x->points && k < x->n_points; ++k)
    for (int b = 0; b < 2; ++b)
      gpu_give(x->g, &x->points[k].block[b]);
  gpu_give(x->g, &x->fixed);
  gpu_give(x->g, &x->data_table);
  gpu_give(x->g, &x->leaf_table);
  gpu_give(x->g, &x->points_table);
  if (x->pinned)
    (void)x->g->driver->cuMemFreeHost(x->pinned);
  x->pinned = NULL;
  tn_free(&x->points);
  tn_free(&x->offset);
  tn_free(&x->is_output);
  tn_free(&x->data);
  tn_free(&x->leaf);
  tn_free(&x->varying);
}

/* ---- Inputs with points ---- */

/* Block b of an input holds at least `bytes`; what it held is lost. */
static tn_status make_room(gpu_exec *x, gpu_points *in, int b, size_t bytes) {
  if (in->block[b] && in->bytes[b] >= bytes && in->bytes[b] <= 2 * bytes + 4096)
    return TN_OK;
  if (b == in->now)
    in->buffer = NULL;
  gpu_give(x->g, &in->block[b]);
  in->bytes[b] = 0;
  TN_TRY(gpu_take(x->g, bytes + 1, &in->block[b]));
  in->bytes[b] = bytes;
  in->used[b] = 0; /* the pool's earlier users are the upload's to care about */
  return TN_OK;
}

/* The copies' stream waits for the end of a run that reads the block; an older run ended before the last but one. */
static tn_status wait_for_reader(gpu_exec *x, uint64_t run) {
  gpu_context *g = x->g;
  if (!run)
    return TN_OK;
  uint64_t last = run == x->runs ? run : x->runs - 1;
  GPU_TRY(g, cuStreamWaitEvent, (g->copies, x->ran[last & 1], 0));
  return TN_OK;
}

static tn_status copy(gpu_exec *x, gpu_points *in, int b, tn_buffer *buffer, bool ahead) {
  size_t bytes = tn_buffer_count(buffer) * tn_dtype_size(tn_buffer_dtype(buffer));
  uint64_t version = tn_buffer_version(buffer);
  TN_TRY(make_room(x, in, b, bytes));
  if (ahead)
    TN_TRY(wait_for_reader(x, in->used[b]));
  in->used[b] = 0;
  in->buffer = NULL; /* until it is there */
  if (bytes) {
    tn_status status = gpu_upload(x->g, ahead, in->block[b], tn_map(buffer, TN_READ), bytes);
    tn_unmap(buffer);
    TN_TRY(status);
  }
  in->now = b;
  in->buffer = buffer;
  in->version = version;
  if (x->leaf[in->node] != in->block[b])
    x->leaf_stale = true;
  x->leaf[in->node] = in->block[b];
  return TN_OK;
}

tn_status gpu_leaves_ahead(const tn_exec *exec, gpu_exec *x, size_t node) {
  for (size_t k = 0; k < x->n_points; ++k) {
    gpu_points *in = &x->points[k];
    tn_buffer *buffer = exec->bound[node];
    if (in->node != node || !x->runs)
      continue;
    if (in->buffer == buffer && in->version == tn_buffer_version(buffer))
      continue;
    in->buffer = NULL; /* another buffer may come to lie where this one was */
    int other =
        in->used[in->now] ? 1 - in->now : in->now; /* no run has read it: it is in nobody's way */
    if (copy(x, in, other, buffer, true) != TN_OK)
      tn_error_clear(); /* then the run copies it */
  }
  return TN_OK;
}

/* ---- Before a run ---- */

/* exec.c has put values of leaves without points where exec->data points to. */
static void fill_pinned(const tn_exec *exec, gpu_exec *x) {
  const tn_program *p = exec->program;
  for (size_t k = 0; k < x->n_varying; ++k) {
    size_t port = p->port[x->varying[k]];
    memcpy(x->pinned + x->offset[port], exec->data[port],
           p->layout[port].width * p->layout[port].size);
  }
}

static tn_status send_tables(const tn_exec *exec, gpu_exec *x) {
  const tn_program *p = exec->program;
  if (x->data_stale) {
    gpu_size points[TN_MAX_AXES + 1];
    for (size_t axis = 0; axis <= TN_MAX_AXES; ++axis)
      points[axis] = exec->extent[axis];
    TN_TRY(gpu_upload(x->g, false, x->data_table, x->data, p->n_ports * sizeof *x->data));
    TN_TRY(gpu_upload(x->g, false, x->points_table, points, sizeof points));
  }
  x->data_stale = false;
  if (x->leaf_stale)
    TN_TRY(gpu_upload(x->g, false, x->leaf_table, x->leaf, p->n_nodes * sizeof *x->leaf));
  x->leaf_stale = false;
  return TN_OK;
}

tn_status gpu_leaves_send(const tn_exec *exec, gpu_exec *x) {
  fill_pinned(exec, x);
  for (size_t k = 0; k < x->n_points; ++k) {
    gpu_points *in = &x->points[k];
    tn_buffer *buffer = exec->bound[in->node];
    if (in->buffer != buffer || in->version != tn_buffer_version(buffer))
      TN_TRY(copy(x, in, in->now, buffer, false));
    in->used[in->now] = x->runs + 1;
  }
  return send_tables(exec, x);
}
