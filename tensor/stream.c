/* stream.c: the streamed executor: tiles of points go through the whole loop while they are in cache.
 *
 * A stage runs its nodes without points, then its loops (plan.h). The slots of all loops of a stage are the
 * tasks of one parallel run; a slot goes through its panels in tiles of whole groups, a tile through all steps
 * of the loop. A worker has one tile, so memory does not depend on the number of points, but for whole arrays
 * (outputs with points) and the inputs themselves, which every tile reads anew. Sums over points are kept a
 * slot and combined as in every executor (exec.c), so the bits are those of the reference executor whatever
 * the size of a tile. TN_TILE in the environment sets it, in groups. With ranks, a rank runs its own slots, and
 * the sums of loops that ran together go round at once (ranks.c).
 */
#include "tensor/backend.h"
#include "tensor/stream.h"

#include <stdlib.h>
#include <string.h>

enum { TILE_BYTES = 192 << 10, LONGEST_TILE = 8 /* groups */, SUM_BYTES = 32 << 20 };

static size_t align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* ---- Making ---- */

/* Bytes of the repeated operands of a run: a strip, or a panel if that is longer. */
static size_t repeat_bytes(const tn_run *run, size_t lanes) {
  size_t panel = run->width * lanes, n = run->aligned && panel > run->length ? panel : run->length;
  return align(n * tn_dtype_size(run->dtype));
}

static bool is_repeated(const tn_operand *o) {
  return (o->kind == TN_OPERAND_SCALAR || o->kind == TN_OPERAND_UNITS) && !o->idle;
}

/* Gives the repeated operands of a loop their places; the bytes of all. */
static size_t place_constants(const tn_loop *loop) {
  size_t bytes = 0;
  for (size_t t = 0; t < loop->n_steps; ++t) {
    tn_run *run = loop->steps[t].run;
    if (run) run->constants = bytes;
    for (size_t k = 0; run && k < run->n_operands; ++k)
      if (is_repeated(&run->operands[k])) bytes += repeat_bytes(run, loop->lanes);
  }
  return bytes;
}

/* Temporaries and spread operands of a worker's strips, and the pointers to all registers. */
static size_t strip_bytes(const tn_run *run) { /* one line more, as in the tile (plan.c: vectors) */
  return align(run->length * tn_dtype_size(run->dtype)) + TN_LANE_BYTES;
}

static void measure(const tn_plan *plan, size_t *scratch, size_t *registers) {
  for (size_t i = 0; i < plan->n_loops; ++i)
    for (size_t t = 0; t < plan->loops[i].n_steps; ++t) {
      const tn_run *run = plan->loops[i].steps[t].run;
      if (!run) continue;
      size_t strips = run->n_temporaries, all = run->n_operands + run->n_results + run->n_temporaries;
      for (size_t k = 0; k < run->n_operands; ++k) strips += run->operands[k].kind == TN_OPERAND_SPREAD;
      if (strips * strip_bytes(run) > *scratch) *scratch = strips * strip_bytes(run);
      if (all > *registers) *registers = all;
    }
}

/* Entries of a list of all outputs, or of all inputs of casts. */
static size_t most_ports(const tn_plan *plan) {
  size_t n = plan->program->n_outputs + 1;
  for (size_t i = 0; i < plan->n_casts; ++i) n += plan->program->nodes[plan->casts[i]]->n_inputs;
  return n;
}

tn_status tn_stream_new(tn_exec *exec) {
  const tn_program *p = exec->program;
  TN_TRY(TN_NEW(1, &exec->streamed));
  tn_streamed *s = exec->streamed;
  TN_TRY(tn_plan_new(p, &s->plan));
  s->n_workers = exec->pool ? tn_pool_threads(exec->pool) : 1;
  TN_TRY(TN_NEW(s->n_workers, &s->workers));
  TN_TRY(TN_NEW(s->plan->n_loops + 1, &s->tile_panels));
  TN_TRY(TN_NEW(s->plan->n_loops + 1, &s->constants));
  TN_TRY(TN_NEW(s->plan->n_loops + 1, &s->first_step));
  TN_TRY(TN_NEW(p->n_nodes + 1, &s->batch));
  TN_TRY(TN_NEW(most_ports(s->plan), &s->ports));
  size_t scratch = exec->scratch_part, registers = 1;
  measure(s->plan, &scratch, &registers);
  for (size_t i = 0; i < s->plan->n_loops; ++i) {
    size_t bytes = place_constants(&s->plan->loops[i]);
    s->first_step[i + 1] = s->first_step[i] + s->plan->loops[i].n_steps;
    TN_TRY(tn_new(1, bytes + 64, &s->constants[i]));
    exec->fixed_bytes += bytes;
  }
  for (size_t w = 0; w < s->n_workers; ++w) {
    TN_TRY(TN_NEW(p->n_ports + 1, &s->workers[w].data));
    TN_TRY(TN_NEW(registers, &s->workers[w].registers));
    TN_TRY(tn_new(1, scratch, &s->workers[w].scratch));
    exec->fixed_bytes += p->n_ports * sizeof(void *) + scratch;
  }
  return TN_OK;
}

void tn_stream_free(tn_exec *exec) {
  tn_streamed *s = exec->streamed;
  if (!s) return;
  for (size_t w = 0; s->workers && w < s->n_workers; ++w) {
    tn_free(&s->workers[w].data);
    tn_free(&s->workers[w].registers);
    tn_free(&s->workers[w].scratch);
    tn_free(&s->workers[w].tile);
    tn_free(&s->workers[w].seconds);
  }
  for (size_t i = 0; s->constants && i < s->plan->n_loops; ++i) tn_free(&s->constants[i]);
  for (size_t port = 0; s->plan && exec->data && port < exec->program->n_ports; ++port)
    if (s->plan->whole[port]) tn_free(&exec->data[port]);
  tn_free(&s->workers);
  tn_free(&s->tile_panels);
  tn_free(&s->first_step);
  tn_free(&s->constants);
  tn_free(&s->sums);
  tn_free(&s->batch);
  tn_free(&s->ports);
  tn_plan_free(&s->plan);
  tn_free(&exec->streamed);
}

/* ---- Extents ---- */

static size_t slots_of(const tn_exec *exec, const tn_loop *loop) {
  return tn_slots(exec, loop->axis, loop->lanes);
}

/* Loops first .. first + *count - 1 run together: those of one stage whose partial sums fit the room. */
static size_t together(const tn_exec *exec, size_t first, size_t *count) {
  const tn_plan *plan = exec->streamed->plan;
  size_t total = 0;
  *count = 0;
  for (size_t i = first; i < plan->n_loops && plan->loops[i].stage == plan->loops[first].stage; ++i) {
    size_t bytes = 0;
    for (size_t k = 0; k < plan->loops[i].n_sums; ++k)
      bytes += exec->partial_bytes[plan->loops[i].sums[k]];
    bytes *= slots_of(exec, &plan->loops[i]);
    if (*count && total + bytes > SUM_BYTES) break;
    total += bytes;
    ++*count;
  }
  return total;
}

static void place_sums(tn_exec *exec, size_t first, size_t count) {
  const tn_plan *plan = exec->streamed->plan;
  char *at = exec->streamed->sums;
  for (size_t i = first; i < first + count; ++i)
    for (size_t k = 0; k < plan->loops[i].n_sums; ++k) {
      uint32_t node = plan->loops[i].sums[k];
      exec->partial[node] = at;
      at += slots_of(exec, &plan->loops[i]) * exec->partial_bytes[node];
    }
}

/* The sums of loops that run together, in `batch`. */
static size_t list_sums(const tn_exec *exec, size_t first, size_t count) {
  const tn_streamed *s = exec->streamed;
  size_t n = 0;
  for (size_t i = first; i < first + count; ++i)
    for (size_t k = 0; k < s->plan->loops[i].n_sums; ++k) s->batch[n++] = s->plan->loops[i].sums[k];
  return n;
}

/* What the casts from number `first` on of one stage read, in `ports`. */
static size_t list_cast_inputs(const tn_exec *exec, size_t first, size_t *count) {
  const tn_streamed *s = exec->streamed;
  const tn_plan *plan = s->plan;
  size_t n = 0, i = first;
  for (; i < plan->n_casts && plan->stage[plan->casts[i]] == plan->stage[plan->casts[first]]; ++i)
    for (uint32_t k = 0; k < exec->program->nodes[plan->casts[i]]->n_inputs; ++k)
      s->ports[n++] = tn_port(exec->program, exec->program->nodes[plan->casts[i]]->inputs[k]);
  *count = i - first;
  return n;
}

static size_t list_outputs(const tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_outputs; ++i) exec->streamed->ports[i] = tn_port(p, p->outputs[i]);
  return p->n_outputs;
}

static tn_status make_room_to_gather(tn_exec *exec) {
  const tn_streamed *s = exec->streamed;
  for (size_t i = 0, count; i < s->plan->n_loops; i += count) {
    together(exec, i, &count);
    tn_wish_to_gather_sums(exec, list_sums(exec, i, count), s->batch);
  }
  for (size_t i = 0, count; i < s->plan->n_casts; i += count)
    tn_wish_to_complete(exec, list_cast_inputs(exec, i, &count), s->ports);
  tn_wish_to_complete(exec, list_outputs(exec), s->ports);
  return tn_make_room_to_gather(exec);
}

static size_t choose_tile(const tn_loop *loop) {
  const char *wish = getenv("TN_TILE");
  size_t group = loop->vectors * TN_LANE_BYTES * TN_GROUP_PANELS;
  size_t groups = group ? TILE_BYTES / group : LONGEST_TILE;
  if (groups < 1) groups = 1;
  if (groups > LONGEST_TILE) groups = LONGEST_TILE;
  if (wish && atoi(wish) > 0) groups = (size_t)atoi(wish);
  return groups * TN_GROUP_PANELS;
}

static tn_status make_whole_arrays(tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < p->n_nodes; ++i)
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
      size_t port = p->port[i] + k;
      if (!exec->streamed->plan->whole[port]) continue;
      const tn_layout *layout = &p->layout[port];
      size_t elements = tn_panels(exec->extent[layout->axis], layout->lanes) * layout->lanes;
      tn_free(&exec->data[port]);
      TN_TRY(tn_new(elements, layout->width * layout->size, &exec->data[port]));
      exec->point_bytes += elements * layout->width * layout->size;
    }
  return TN_OK;
}

tn_status tn_stream_extents(tn_exec *exec) {
  tn_streamed *s = exec->streamed;
  size_t sums = 0, tile = 0;
  TN_TRY(make_whole_arrays(exec));
  for (size_t i = 0, count; i < s->plan->n_loops; i += count) {
    size_t bytes = together(exec, i, &count);
    if (bytes > sums) sums = bytes;
    for (size_t k = i; k < i + count; ++k) {
      const tn_loop *loop = &s->plan->loops[k];
      s->tile_panels[k] = choose_tile(loop);
      size_t most = tn_groups(exec->extent[loop->axis], loop->lanes) * TN_GROUP_PANELS;
      if (s->tile_panels[k] > most) s->tile_panels[k] = most;
      bytes = s->tile_panels[k] * loop->vectors * TN_LANE_BYTES;
      if (bytes > tile) tile = bytes;
    }
  }
  if (sums > s->sum_bytes) {
    tn_free(&s->sums);
    s->sum_bytes = 0;
    TN_TRY(tn_new(1, sums, &s->sums));
    s->sum_bytes = sums;
  }
  if (tile > s->tile_bytes) {
    for (size_t w = 0; w < s->n_workers; ++w) {
      tn_free(&s->workers[w].tile);
      s->tile_bytes = 0;
      TN_TRY(tn_new(1, tile, &s->workers[w].tile));
    }
    s->tile_bytes = tile;
  }
  exec->point_bytes += s->sum_bytes + s->n_workers * s->tile_bytes;
  return make_room_to_gather(exec);
}

/* ---- Before a loop: what does not depend on the point ---- */

static double number_at(const void *x, tn_dtype dtype) {
  return dtype == TN_F64 ? *(const double *)x : (double)*(const float *)x;
}

/* Numbers that instructions carry (plan_run.c: take_numbers). */
static void set_numbers(const tn_exec *exec, tn_run *run) {
  for (size_t i = 0; i < run->count; ++i) {
    tn_strip_instruction *x = &run->code[i];
    if (x->op == 1 && (x->code == TN_STRIP_SCALE || x->code == TN_STRIP_FMAK))
      x->k = number_at(exec->data[run->operands[x->d].port], run->dtype);
  }
}

static void repeat(const void *x, size_t units, size_t times, size_t size, size_t bytes, char *to) {
  for (char *end = to + bytes / size * size; to < end;)
    for (size_t u = 0; u < units && to < end; ++u)
      for (size_t l = 0; l < times && to < end; ++l, to += size) memcpy(to, (const char *)x + u * size, size);
}

static tn_status prepare(tn_exec *exec, size_t index) {
  const tn_program *p = exec->program;
  const tn_loop *loop = &exec->streamed->plan->loops[index];
  char *to = exec->streamed->constants[index];
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  for (size_t t = 0; t < loop->n_steps; ++t) {
    tn_run *run = loop->steps[t].run;
    size_t node = loop->steps[t].node;
    if (!run) {
      if (p->nodes[node]->op->id == TN_OP_jet_outer) TN_TRY(tn_prepare_outer(&frame, node));
      continue;
    }
    set_numbers(exec, run);
    for (size_t k = 0; k < run->n_operands; ++k) {
      const tn_operand *o = &run->operands[k];
      if (!is_repeated(o)) continue;
      size_t bytes = repeat_bytes(run, loop->lanes);
      repeat(exec->data[o->port], o->kind == TN_OPERAND_UNITS ? run->width : 1, loop->lanes,
             tn_dtype_size(run->dtype), bytes, to);
      to += bytes;
    }
  }
  return TN_OK;
}

/* ---- A tile ---- */

/* A number a point over the units of panels [panel, panel + panels). */
static void spread(const char *x, size_t panel, size_t panels, size_t units, char *to) {
  for (size_t p = panel; p < panel + panels; ++p)
    for (size_t u = 0; u < units; ++u, to += TN_LANE_BYTES) memcpy(to, x + p * TN_LANE_BYTES, TN_LANE_BYTES);
}

typedef struct strips { /* a run on a tile */
  const tn_run *run;
  const tn_worker *worker;
  size_t size, panel, lanes; /* bytes of an element, elements of a panel */
} strips;

/* Registers of the strip of n elements at element `at`. */
static void aim(const strips *s, const char *constants, size_t at, size_t n) {
  const tn_run *run = s->run;
  void **r = s->worker->registers;
  char *scratch = s->worker->scratch;
  size_t bytes = strip_bytes(run), step = repeat_bytes(run, s->lanes), in_panel = at % s->panel;
  for (size_t k = 0; k < run->n_operands; ++k, ++r) {
    const tn_operand *o = &run->operands[k];
    switch (o->kind) {
    case TN_OPERAND_TILE: *r = (char *)s->worker->data[o->port] + at * s->size; break;
    case TN_OPERAND_SPREAD:
      *r = scratch;
      scratch += bytes;
      if (n >= s->panel) spread(s->worker->data[o->port], at / s->panel, n / s->panel, run->width, *r);
      else spread(s->worker->data[o->port], at / s->panel, 1, n / s->lanes, *r);
      break;
    default:
      *r = (char *)(uintptr_t)constants; /* only read */
      if (o->kind == TN_OPERAND_UNITS && s->panel > run->length) *r = (char *)*r + in_panel * s->size;
      if (is_repeated(o)) constants += step;
    }
  }
  for (size_t k = 0; k < run->n_results; ++k, ++r)
    *r = (char *)s->worker->data[run->results[k]] + at * s->size;
  for (size_t k = 0; k < run->n_temporaries; ++k, ++r, scratch += bytes) *r = scratch;
}

static void run_strips(const tn_run *run, const tn_worker *worker, size_t lanes, size_t panels,
                       const char *constants) {
  const tn_kernels *kernels = tn_kernels_of(run->dtype);
  strips s = {run, worker, kernels->size, run->width * lanes, lanes};
  size_t end = panels * s.panel;
  bool split = run->aligned && s.panel > run->length; /* strips end with their panel */
  for (size_t at = 0; at < end;) {
    size_t n = run->length, left = split ? s.panel - at % s.panel : end - at;
    if (n > left) n = left;
    aim(&s, constants, at, n);
    kernels->strip(run->n_rows, run->code, worker->registers, n);
    if (run->fused) run->fused(run->code + run->n_rows, worker->registers, n);
    at += n;
  }
}

/* Where the loop's values lie for the tile that begins with panel `base`. */
static void place_values(const tn_exec *exec, const tn_loop *loop, const tn_worker *worker, size_t tile,
                         size_t base) {
  const tn_program *p = exec->program;
  for (size_t i = 0; i < loop->n_spots; ++i) {
    const tn_spot *spot = &loop->spots[i];
    const tn_layout *layout = &p->layout[spot->root];
    if (spot->place != TN_NOWHERE)
      worker->data[spot->port] = worker->tile + spot->place * tile * TN_LANE_BYTES;
    else
      worker->data[spot->port] =
          (char *)exec->data[spot->root] + base * layout->width * layout->lanes * layout->size;
  }
}

static void run_tile(const tn_frame *frame, size_t index, size_t panels, const tn_worker *worker) {
  const tn_streamed *s = frame->exec->streamed;
  const tn_loop *loop = &s->plan->loops[index];
  double start = worker->seconds ? tn_clock() : 0;
  for (size_t t = 0; t < loop->n_steps; ++t) {
    const tn_run *run = loop->steps[t].run;
    if (run)
      run_strips(run, worker, loop->lanes, panels, s->constants[index] + run->constants);
    else
      tn_run_node(frame, loop->steps[t].node, 0, panels);
    if (!worker->seconds) continue;
    double now = tn_clock();
    worker->seconds[s->first_step[index] + t] += now - start;
    start = now;
  }
}

static void run_slot(tn_exec *exec, size_t index, size_t slot, const tn_worker *worker) {
  const tn_streamed *s = exec->streamed;
  const tn_loop *loop = &s->plan->loops[index];
  size_t first, last, tile = s->tile_panels[index];
  tn_frame frame = {.exec = exec, .data = worker->data, .slot = slot, .scratch = worker->scratch};
  tn_slot_panels(exec, loop->axis, loop->lanes, slot, &first, &last);
  for (size_t k = 0; k < loop->n_sums; ++k) tn_clear_partial(&frame, loop->sums[k]);
  for (frame.base = first; frame.base < last; frame.base += tile) {
    place_values(exec, loop, worker, tile, frame.base);
    run_tile(&frame, index, last - frame.base < tile ? last - frame.base : tile, worker);
  }
}

/* ---- A run ---- */

/* The slots of a loop that are this rank's: their number. */
static size_t own_slots(const tn_exec *exec, const tn_loop *loop, size_t *first) {
  size_t last;
  tn_own_slots(exec, loop->axis, loop->lanes, first, &last);
  return last - *first;
}

static void run_task(void *context, size_t task, size_t worker) {
  tn_exec *exec = context;
  const tn_streamed *s = exec->streamed;
  size_t i = s->first, first, count;
  for (; task >= (count = own_slots(exec, &s->plan->loops[i], &first)); ++i) task -= count;
  run_slot(exec, i, first + task, &s->workers[worker]);
}

static tn_status prepare_loops(tn_exec *exec, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) TN_TRY(prepare(exec, i));
  return TN_OK;
}

static tn_status run_loops(tn_exec *exec, size_t first, size_t count) {
  tn_streamed *s = exec->streamed;
  size_t tasks = 0, none;
  double start = tn_clock();
  place_sums(exec, first, count);
  s->first = first;
  for (size_t i = first; i < first + count; ++i) tasks += own_slots(exec, &s->plan->loops[i], &none);
  tn_status status = prepare_loops(exec, first, count);
  if (status != TN_OK) {
    if (!exec->comm) return status;
    if (exec->failed == TN_OK) exec->failed = status; /* the others learn it when they gather */
    tasks = 0;
  }
  for (size_t w = 0; w < s->n_workers; ++w) /* values without points are where they always are */
    memcpy(s->workers[w].data, exec->data, exec->program->n_ports * sizeof(void *));
  s->fixed_seconds += tn_clock() - start;
  if (exec->pool) tn_pool_run(exec->pool, tasks, run_task, exec);
  else
    for (size_t task = 0; task < tasks; ++task) run_task(exec, task, 0);
  start = tn_clock();
  status = tn_gather_sums(exec, list_sums(exec, first, count), s->batch);
  s->fixed_seconds += tn_clock() - start;
  return status;
}

tn_status tn_stream_run(tn_exec *exec) {
  const tn_plan *plan = exec->streamed->plan;
  size_t fixed = 0, loop = 0, cast = 0;
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  for (size_t stage = 0; stage < plan->n_stages; ++stage) {
    double start = tn_clock();
    for (; fixed < plan->n_fixed && plan->stage[plan->fixed[fixed]] == stage; ++fixed)
      tn_run_node(&frame, plan->fixed[fixed], 0, 1);
    exec->streamed->fixed_seconds += tn_clock() - start;
    for (size_t count; loop < plan->n_loops && plan->loops[loop].stage == stage; loop += count) {
      together(exec, loop, &count);
      TN_TRY(run_loops(exec, loop, count));
    }
    if (cast == plan->n_casts || plan->stage[plan->casts[cast]] != stage) continue;
    size_t count, inputs = list_cast_inputs(exec, cast, &count);
    TN_TRY(tn_complete(exec, inputs, exec->streamed->ports));
    for (size_t last = cast + count; cast < last; ++cast) tn_run_node(&frame, plan->casts[cast], 0, 1);
  }
  return tn_complete(exec, list_outputs(exec), exec->streamed->ports);
}
