/* executor.c: a program on a device: making it, storage for its extents, a run, the end.
 *
 * The work of a run is text compiled for the program (source.h) and a schedule (launch.c). It is put into the device's
 * stream and this returns; who reads a result waits for it (output.c). So the host can bind the next points while the
 * device computes, and their copies run ahead (leaves.c).
 *
 * Whoever calls has entered the context (context.h), so a captured run (graph.c) sees its own work alone. After an error
 * the storage is as it was, and a run may be tried again; only a lost context is final.
 */
#include "cuda/executor.h"

#include <stdlib.h>

/* ---- Making ---- */

static tn_status find_code(const tn_plan *plan, gpu_exec *x) {
  gpu_module *module = NULL; /* borrowed */
  gpu_context *g = x->g;
  TN_TRY(gpu_module_of(g, "program", x->source->text, &module));
  TN_TRY(TN_NEW(x->source->n_steps + 1, &x->code));
  for (size_t i = 0; i < x->source->n_steps; ++i) {
    const gpu_step *step = &x->source->steps[i];
    gpu_code *code = &x->code[i];
    TN_TRY(gpu_function(g, module, step->kernel, &code->run));
    if (step->shared > 0)
      GPU_TRY(g, cuFuncSetAttribute,
              (code->run, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)step->shared));
    if (step->kind == GPU_STEP_LOOP)
      TN_TRY(gpu_sums_code(g, module, step, plan->loops[step->loop->loop].n_sums, code));
  }
  return gpu_chunked_new(plan->program, x, module);
}

/* A whole number of at least 1 in the environment; *out stays without one. */
static tn_status read_number(const char *name, size_t *out) {
  const char *text = getenv(name);
  char *end = NULL;
  if (!text || !text[0])
    return TN_OK;
  unsigned long long n = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
  if (n == 0 || *end != 0)
    return TN_FAIL(TN_EINPUT, "%s is `%s`, expected a whole number from 1", name, text);
  *out = (size_t)n;
  return TN_OK;
}

static tn_status make(tn_exec *exec, gpu_exec *x) {
  gpu_context *g = x->g;
  const tn_program *p = exec->program;
  TN_TRY(gpu_source_new(p, exec->plan, &x->source));
  TN_TRY(find_code(exec->plan, x));
  for (int k = 0; k < 2; ++k)
    GPU_TRY(g, cuEventCreate, (&x->ran[k], CU_EVENT_DISABLE_TIMING));
  TN_TRY(TN_NEW(p->n_ports + 1, &x->whole_bytes));
  TN_TRY(gpu_leaves_new(exec, x));
  x->sums_limit = (size_t)256 << 20;
  TN_TRY(read_number("PINN_CUDA_SUMS", &x->sums_limit));
  TN_TRY(gpu_replay_wished(&x->replay.off));
  exec->fixed_bytes += x->fixed_bytes + x->varying_bytes + x->outputs_bytes +
                       (p->n_ports + p->n_nodes) * sizeof(CUdeviceptr);
  return TN_OK;
}

tn_status gpu_exec_new(tn_device *device, tn_exec *exec, void **state) {
  gpu_exec *x = NULL;
  *state = NULL;
  TN_TRY(TN_NEW(1, &x));
  x->g = gpu_of(device);
  tn_status status = make(exec, x);
  if (status == TN_OK)
    *state = x;
  else
    gpu_exec_free(exec, x);
  return status;
}

void gpu_exec_free(tn_exec *exec, void *state) {
  gpu_exec *x = state;
  if (!x)
    return;
  gpu_context *g = x->g;
  if (x->pending) /* a lost device has no work under way; what failed before stays on record */
    (void)g->driver->cuEventSynchronize(x->ran[x->runs & 1]);
  gpu_replay_drop(x);
  gpu_chunked_free(x);
  for (size_t port = 0; exec->program && x->data && x->whole_bytes && port < exec->program->n_ports;
       ++port)
    if (x->whole_bytes[port])
      gpu_give(g, &x->data[port]);
  for (size_t i = 0; x->source && x->code && i < x->source->n_steps; ++i)
    gpu_give(g, &x->code[i].span.trees);
  gpu_room *rooms[] = {&x->tile, &x->sums, &x->slot_sums, &x->wire};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; ++i)
    gpu_give(g, &rooms[i]->at);
  gpu_leaves_free(x);
  for (int k = 0; k < 2; ++k)
    if (x->ran[k])
      (void)g->driver->cuEventDestroy(x->ran[k]);
  gpu_source_free(&x->source);
  tn_free(&x->code);
  tn_free(&x->whole_bytes);
  tn_free(&x);
}

tn_status gpu_settle(gpu_exec *x) {
  gpu_context *g = x->g;
  if (!x->pending)
    return TN_OK;
  GPU_TRY(g, cuEventSynchronize, (x->ran[x->runs & 1]));
  x->pending = false;
  CUresult more = g->driver->cuStreamQuery(g->stream);
  if (more == CUDA_SUCCESS)
    gpu_pool_waited(g); /* nothing came behind it */
  return more == CUDA_ERROR_NOT_READY ? TN_OK : gpu_result(g, more, "cuStreamQuery");
}

/* ---- Extents ---- */

tn_status gpu_room_of(gpu_context *g, size_t bytes, gpu_room *room) {
  if (room->at && room->bytes >= bytes)
    return TN_OK;
  gpu_give(g, &room->at);
  room->bytes = 0;
  TN_TRY(gpu_take(g, bytes + 256, &room->at));
  room->bytes = bytes;
  return TN_OK;
}

static tn_status place_whole(tn_exec *exec, gpu_exec *x) {
  const tn_program *p = exec->program;
  x->data_stale = true;
  for (size_t port = 0; port < p->n_ports; ++port) {
    const tn_layout *layout = &p->layout[port];
    if (!exec->plan->whole[port])
      continue;
    size_t elements = tn_panels(exec->extent[layout->axis], layout->lanes) * layout->lanes;
    size_t bytes = elements * layout->width * layout->size + 256;
    if (bytes != x->whole_bytes[port]) {
      if (x->whole_bytes[port])
        gpu_give(x->g, &x->data[port]);
      x->whole_bytes[port] = 0;
      x->data[port] = 0;
      TN_TRY(gpu_take(x->g, bytes, &x->data[port]));
      x->whole_bytes[port] = bytes;
    }
    exec->point_bytes += bytes;
  }
  return TN_OK;
}

static tn_status place_all(tn_exec *exec, gpu_exec *x) {
  size_t tile = 0, sums = 0, slot_sums = 0;
  gpu_replay_drop(x);
  TN_TRY(place_whole(exec, x));
  for (size_t i = 0; i < x->source->n_steps; ++i)
    if (x->source->steps[i].kind == GPU_STEP_LOOP)
      TN_TRY(gpu_span_of(exec, x, i, &tile, &sums, &slot_sums));
  TN_TRY(gpu_room_of(x->g, tile, &x->tile));
  TN_TRY(gpu_room_of(x->g, sums, &x->sums));
  TN_TRY(gpu_room_of(x->g, slot_sums, &x->slot_sums));
  exec->point_bytes += x->tile.bytes + x->sums.bytes + x->slot_sums.bytes;
  for (size_t i = 0; i < x->source->n_steps; ++i)
    exec->point_bytes += x->code[i].span.trees_bytes;
  for (size_t k = 0; k < x->n_points; ++k) {
    const tn_buffer *buffer = exec->bound[x->points[k].node];
    exec->point_bytes += tn_buffer_count(buffer) * tn_dtype_size(tn_buffer_dtype(buffer));
  }
  return TN_OK;
}

tn_status gpu_exec_extents(tn_exec *exec, void *state) { return place_all(exec, state); }

/* ---- Runs ---- */

tn_status gpu_exec_bound(tn_exec *exec, void *state, size_t node) {
  gpu_exec *x = state;
  bool has_points = exec->program->layout[exec->program->port[node]].axis != 0;
  return has_points && x->runs ? gpu_leaves_ahead(exec, x, node) : TN_OK;
}

/* The work of run x->runs + 1. Its end is marked also where it failed half-way: what began may still be going on. */
tn_status gpu_exec_run(tn_exec *exec, void *state) {
  gpu_exec *x = state;
  gpu_context *g = x->g;
  tn_status status = gpu_settle(x); /* pinned memory is filled anew */
  if (status == TN_OK)
    status = gpu_leaves_send(exec, x);
  status = gpu_replay_run(exec, x, status);
  ++x->runs;
  CUresult marked = g->driver->cuEventRecord(x->ran[x->runs & 1], g->stream);
  if (status == TN_OK)
    status = gpu_result(g, marked, "cuEventRecord");
  x->pending = marked == CUDA_SUCCESS;
  return status;
}

tn_status gpu_exec_output(tn_exec *exec, void *state, size_t i, void *to) {
  TN_TRY(gpu_settle(state));
  return gpu_output(exec, state, i, to);
}
