/* pipeline.c: the executor that splits a program by layers over ranks, for models that do not fit one device.
 *
 * Each rank computes the nodes of its layers (pipeline_plan.c) and has storage only for what they read and write.
 * Micro-batches, runs of whole groups of one slot, go through the ranks one behind another: the loop's segments of
 * micro-batch t at level k run in the order of ticks
 *
 *     tick = 2 t + k,   within a tick t descending.
 *
 * For a network of R parts, levels 0 .. R - 1 are the way forwards and R .. 2 R - 2 the way back, so rank r alternates
 * one micro-batch forwards, one back, and holds values of R - r of them: the order known as 1F1B. Within a tick the new
 * micro-batch comes first: it is sent on before the old one is waited for. The order follows from the program alone;
 * any other shape of program gets that of its own levels.
 *
 * Messages. What a segment makes for another rank is one message, posted when the segment has ended; posting never
 * waits. A rank fetches messages of a sender in the order of ticks, up to the one that its next segment reads.
 * So that a rank that depends on nobody does not run ahead without bound, a segment that sends waits until the reader
 * has finished the micro-batch `window` before it: the reader says so with the message of its last segment (empty if
 * nothing else is in it).
 *
 * No deadlock. All ranks order everything by the same key (tick, t). A segment waits only for messages with smaller
 * keys: an input comes from the same micro-batch and a lower level; the end of micro-batch t - window has a tick of at
 * most 2 t - 2 window + levels - 1 < 2 t. So of all segments that have not run, the one with the least key can run.
 *
 * Bits. A slot's micro-batches run in the order of its groups, each sum is added up by one rank, slots meet in the same
 * tree: the bits are those of one rank alone. Values without points are computed by every rank from sums that all ranks
 * get; outputs with points are sent to all. Parameters stay where they are bound: all ranks have theta and the gradient
 * whole, since optimizers are replicated; what is split is partial sums and values with points.
 *
 * One thread a rank; nodes run one by one on a micro-batch, as in the reference executor. What can fail on one rank
 * alone is agreed on by all: storage when extents change, callbacks of users when a run ends.
 */
#include "tensor/pipeline.h"

#include <string.h>

/* ---- Making ---- */

tn_status tn_pipeline_new(tn_exec *exec, tn_comm *comm) {
  const tn_program *p = exec->program;
  TN_TRY(TN_NEW(1, &exec->pipeline));
  tn_pipeline *s = exec->pipeline;
  s->comm = tn_comm_size(comm) > 1 ? comm : NULL;
  s->rank = tn_comm_rank(comm);
  s->ranks = tn_comm_size(comm);
  TN_TRY(tn_plan_new(p, &s->plan));
  TN_TRY(TN_NEW(p->n_nodes + 1, &s->owner));
  TN_TRY(TN_NEW(p->n_ports + 1, &s->data));
  TN_TRY(TN_NEW(s->ranks, &s->cursor));
  for (size_t i = 0; i < p->n_nodes; ++i)
    s->opaque = s->opaque || (p->nodes[i]->op->custom && p->nodes[i]->op->custom->forward);
  exec->fixed_bytes += p->n_ports * sizeof(void *);
  return TN_NEW(s->ranks, &s->gather_bytes);
}

void tn_pipeline_free(tn_exec *exec) {
  tn_pipeline *s = exec->pipeline;
  if (!s)
    return;
  for (size_t port = 0; s->plan && exec->data && port < exec->program->n_ports; ++port)
    if (s->plan->whole[port])
      tn_free(&exec->data[port]);
  tn_plan_free(&s->plan);
  tn_arena_free(&s->arena);
  tn_free(&s->owner);
  tn_free(&s->data);
  tn_free(&s->cursor);
  tn_free(&s->gather_bytes);
  tn_free(&s->tiles);
  tn_free(&s->sums);
  tn_free(&s->message);
  tn_free(&s->gathered);
  tn_free(&exec->pipeline);
}

/* ---- Extents ---- */

static size_t whole_bytes(const tn_exec *exec, size_t port) {
  const tn_layout *layout = &exec->program->layout[port];
  size_t panels = tn_panels(exec->extent[layout->axis], layout->lanes);
  return panels * layout->lanes * layout->width * layout->size;
}

static tn_status make_storage(tn_exec *exec) {
  tn_pipeline *s = exec->pipeline;
  for (size_t port = 0; port < exec->program->n_ports; ++port) {
    if (!s->plan->whole[port])
      continue;
    tn_free(&exec->data[port]);
    TN_TRY(tn_new(1, whole_bytes(exec, port), &exec->data[port]));
    exec->point_bytes += whole_bytes(exec, port);
  }
  tn_free(&s->tiles);
  tn_free(&s->sums);
  tn_free(&s->message);
  tn_free(&s->gathered);
  TN_TRY(tn_new(1, s->tile_bytes, &s->tiles));
  TN_TRY(tn_new(1, s->sum_bytes, &s->sums));
  TN_TRY(tn_new(1, s->message_bytes + 1, &s->message));
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  for (size_t i = 0; i < s->plan->n_loops;
       ++i) /* their room is made here, where ranks agree on failures */
    for (size_t k = 0; k < s->plan->loops[i].n_sums; ++k) {
      uint32_t node = s->plan->loops[i].sums[k];
      if (s->owner[node] == s->rank && exec->program->nodes[node]->op->id == TN_OP_jet_outer)
        TN_TRY(tn_prepare_outer(&frame, node));
    }
  exec->point_bytes += s->tile_bytes + s->sum_bytes + s->message_bytes;
  if (!s->comm)
    return TN_OK;
  TN_TRY(tn_new(1, s->largest_gather, &s->gathered));
  exec->point_bytes += s->largest_gather;
  return TN_OK;
}

/* Of what must be the same everywhere, or messages would not fit (FNV-1a). */
static uint64_t digest_of(const tn_exec *exec) {
  const tn_program *p = exec->program;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < p->n_nodes; ++i)
    hash = (hash ^ (uint64_t)p->nodes[i]->op->id) * UINT64_C(0x100000001b3);
  for (size_t i = 0; i < p->n_ports; ++i)
    hash =
        (hash ^ (p->layout[i].width + exec->extent[p->layout[i].axis])) * UINT64_C(0x100000001b3);
  return hash;
}

tn_status tn_pipeline_extents(tn_exec *exec) {
  tn_pipeline *s = exec->pipeline;
  tn_status status = tn_pipeline_plan(exec);
  if (status == TN_OK)
    status = make_storage(exec);
  if (!s->comm)
    return status;
  TN_TRY(tn_comm_agree(s->comm, "storage of the pipeline", status));
  return tn_comm_same(s->comm, "the program of the pipeline and its points", digest_of(exec));
}

/* ---- Messages ---- */

static size_t bytes_of(const tn_exec *exec, const tn_transfer *x, const tn_batch *batch) {
  const tn_layout *layout = &exec->program->layout[x->port];
  return (batch->last - batch->first) * layout->width * layout->lanes * layout->size;
}

/* Must a rank whose last level is `last` say that it has finished micro-batch t? A reader does, while a later one
 * waits for it. */
static bool says_finished(const tn_pipe_group *g, size_t t, uint32_t level, uint32_t last,
                          bool reader) {
  return reader && level == last && t + g->window < g->n_batches;
}

static char *place_of(tn_exec *exec, const tn_pipe_loop *loop, const tn_pipe_group *g, size_t t,
                      size_t port) {
  tn_pipeline *s = exec->pipeline;
  const tn_batch *batch = &g->batches[t];
  for (size_t i = 0; i < loop->n_places; ++i) {
    const tn_pipe_place *place = &loop->places[i];
    if (place->port != port)
      continue;
    return place->whole ? (char *)exec->data[port] + batch->first * place->panel
                        : s->tiles + t % g->depth * g->tile + place->first;
  }
  return NULL; /* never: transfers have places */
}

static tn_status fetch(tn_exec *exec, const tn_pipe_group *g, size_t from, size_t t,
                       uint32_t level) {
  tn_pipeline *s = exec->pipeline;
  const tn_batch *batch = &g->batches[t];
  const tn_pipe_loop *loop = &s->loops[batch->loop];
  size_t bytes = 0;
  for (size_t i = 0; i < loop->n_transfers; ++i) {
    const tn_transfer *x = &loop->transfers[i];
    bytes += x->from == from && x->level == level ? bytes_of(exec, x, batch) : 0;
  }
  bool finished = says_finished(g, t, level, loop->last[from], loop->sends[from]);
  if (!bytes && !finished)
    return TN_OK;
  TN_TRY(tn_comm_fetch(s->comm, "values of a layer", from, bytes ? bytes : 1, s->message));
  const char *at = s->message;
  for (size_t i = 0; i < loop->n_transfers; ++i) {
    const tn_transfer *x = &loop->transfers[i];
    if (x->from != from || x->level != level)
      continue;
    memcpy(place_of(exec, loop, g, t, x->port), at, bytes_of(exec, x, batch));
    at += bytes_of(exec, x, batch);
  }
  return TN_OK;
}

static size_t first_of_tick(const tn_pipe_group *g, size_t tick) {
  return tick < g->n_levels ? 0 : (tick - g->n_levels + 2) / 2; /* 2 t + n_levels - 1 >= tick */
}

static size_t last_of_tick(const tn_pipe_group *g, size_t tick) {
  return tick / 2 < g->n_batches ? tick / 2 : g->n_batches - 1;
}

/* Fetches everything of a rank up to its message of micro-batch t at a level. */
static tn_status fetch_until(tn_exec *exec, const tn_pipe_group *g, size_t from, size_t t,
                             uint32_t level) {
  tn_pipeline *s = exec->pipeline;
  tn_pipe_cursor *c = &s->cursor[from];
  size_t tick = 2 * t + level;
  while (c->tick < tick || (c->tick == tick && c->end > t)) {
    if (c->end <= first_of_tick(g, c->tick)) {
      ++c->tick;
      c->end = last_of_tick(g, c->tick) + 1;
      continue;
    }
    size_t now = --c->end;
    uint32_t k = (uint32_t)(c->tick - 2 * now);
    if (k < s->loops[g->batches[now].loop].n_levels)
      TN_TRY(fetch(exec, g, from, now, k));
  }
  return TN_OK;
}

static tn_status post(tn_exec *exec, const tn_pipe_group *g, size_t to, size_t t, uint32_t level) {
  tn_pipeline *s = exec->pipeline;
  const tn_batch *batch = &g->batches[t];
  const tn_pipe_loop *loop = &s->loops[batch->loop];
  size_t bytes = 0;
  for (size_t i = 0; i < loop->n_transfers; ++i) {
    const tn_transfer *x = &loop->transfers[i];
    if (x->to != to || x->level != level)
      continue;
    memcpy(s->message + bytes, place_of(exec, loop, g, t, x->port), bytes_of(exec, x, batch));
    bytes += bytes_of(exec, x, batch);
  }
  if (!bytes && !says_finished(g, t, level, loop->last[s->rank], loop->receives[to]))
    return TN_OK;
  return tn_comm_post(s->comm, "values of a layer", to, bytes ? bytes : 1, s->message);
}

/* ---- A segment ---- */

static tn_status wait_for_inputs(tn_exec *exec, const tn_pipe_group *g, size_t t, uint32_t level) {
  tn_pipeline *s = exec->pipeline;
  const tn_pipe_loop *loop = &s->loops[g->batches[t].loop];
  for (size_t r = 0; r < s->ranks; ++r) {
    uint32_t need = loop->need[level * s->ranks + r];
    if (need)
      TN_TRY(fetch_until(exec, g, r, t, need - 1));
  }
  if (t < g->window)
    return TN_OK;
  const tn_pipe_loop *before = &s->loops[g->batches[t - g->window].loop];
  for (size_t i = 0; i < loop->n_transfers; ++i) {
    const tn_transfer *x = &loop->transfers[i];
    if (x->from == s->rank && x->level == level && before->sends[x->to])
      TN_TRY(fetch_until(exec, g, x->to, t - g->window, before->last[x->to]));
  }
  return TN_OK;
}

static void aim(tn_exec *exec, const tn_pipe_group *g, size_t t) {
  tn_pipeline *s = exec->pipeline;
  const tn_batch *batch = &g->batches[t];
  const tn_pipe_loop *loop = &s->loops[batch->loop];
  char *tile = s->tiles + t % g->depth * g->tile;
  for (size_t i = 0; i < loop->n_places; ++i) {
    const tn_pipe_place *place = &loop->places[i];
    s->data[place->port] = place->whole
                               ? (char *)exec->data[place->port] + batch->first * place->panel
                               : tile + place->first;
  }
}

static tn_status run_segment(tn_exec *exec, const tn_pipe_group *g, size_t t, uint32_t level) {
  tn_pipeline *s = exec->pipeline;
  const tn_batch *batch = &g->batches[t];
  const tn_pipe_loop *loop = &s->loops[batch->loop];
  size_t first = 0;
  while (first < loop->n_nodes && loop->level[first] < level)
    ++first;
  if (first == loop->n_nodes || loop->level[first] != level)
    return TN_OK;
  TN_TRY(wait_for_inputs(exec, g, t, level));
  aim(exec, g, t);
  tn_frame frame = {.exec = exec,
                    .data = s->data,
                    .base = batch->first,
                    .slot = batch->slot,
                    .scratch = exec->scratch};
  for (size_t n = first; n < loop->n_nodes && loop->level[n] == level; ++n)
    tn_run_node(&frame, loop->nodes[n], 0, batch->last - batch->first);
  for (size_t r = 0; s->comm && r < s->ranks; ++r)
    if (r != s->rank)
      TN_TRY(post(exec, g, r, t, level));
  return TN_OK;
}

/* ---- A group of loops ---- */

/* Room for this rank's sums, outer products, leaves in whole arrays. */
static tn_status prepare(tn_exec *exec, const tn_pipe_group *g) {
  const tn_program *p = exec->program;
  tn_pipeline *s = exec->pipeline;
  char *at = s->sums;
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  for (size_t i = g->first; i < g->first + g->count; ++i) {
    const tn_pipe_loop *loop = &s->loops[i];
    size_t slots = tn_slots(exec, loop->loop->axis, loop->loop->lanes);
    for (size_t k = 0; k < loop->loop->n_sums; ++k) {
      uint32_t node = loop->loop->sums[k];
      if (s->owner[node] != s->rank)
        continue;
      exec->partial[node] = at;
      at += slots * exec->partial_bytes[node];
      if (p->nodes[node]->op->id == TN_OP_jet_outer)
        TN_TRY(tn_prepare_outer(&frame, node));
    }
    for (size_t k = 0; k < loop->n_prefilled; ++k)
      tn_run_node(&frame, loop->prefilled[k], 0,
                  tn_panels(exec->extent[loop->loop->axis], loop->loop->lanes));
  }
  memset(s->sums, 0, (size_t)(at - s->sums));
  memcpy(s->data, exec->data,
         p->n_ports * sizeof(void *)); /* values without points stay where they are */
  for (size_t r = 0; r < s->ranks; ++r)
    s->cursor[r] = (tn_pipe_cursor){0, 1};
  return TN_OK;
}

static tn_status run_ticks(tn_exec *exec, const tn_pipe_group *g) {
  tn_pipeline *s = exec->pipeline;
  if (!g->n_batches || !g->n_levels)
    return TN_OK;
  size_t last = 2 * (g->n_batches - 1) + g->n_levels - 1;
  for (size_t tick = 0; tick <= last; ++tick)
    for (size_t t = last_of_tick(g, tick) + 1; t-- > first_of_tick(g, tick);)
      TN_TRY(run_segment(exec, g, t, (uint32_t)(tick - 2 * t)));
  for (size_t r = 0; s->comm && r < s->ranks; ++r) /* words that nobody had to wait for */
    if (r != s->rank)
      TN_TRY(fetch_until(exec, g, r, g->n_batches - 1, g->n_levels - 1)); /* alone in its tick */
  return TN_OK;
}

static size_t sum_bytes(const tn_exec *exec, uint32_t node) {
  const tn_layout *layout = &exec->program->layout[exec->program->port[node]];
  return layout->width * layout->size;
}

/* Copies the group's sums of rank r, one after the other, from their places to `to`, or back. */
static size_t copy_sums(tn_exec *exec, const tn_pipe_group *g, size_t r, char *list, bool back) {
  tn_pipeline *s = exec->pipeline;
  size_t bytes = 0;
  for (size_t i = g->first; i < g->first + g->count; ++i)
    for (size_t k = 0; k < s->plan->loops[i].n_sums; ++k) {
      uint32_t node = s->plan->loops[i].sums[k];
      if (s->owner[node] != r)
        continue;
      char *place = exec->data[exec->program->port[node]];
      if (list)
        memcpy(back ? place : list + bytes, back ? list + bytes : place, sum_bytes(exec, node));
      bytes += sum_bytes(exec, node);
    }
  return bytes;
}

/* This rank's slots meet, and every rank gets the sums of all. */
static tn_status share_sums(tn_exec *exec, const tn_pipe_group *g) {
  tn_pipeline *s = exec->pipeline;
  for (size_t i = g->first; i < g->first + g->count; ++i) {
    const tn_loop *loop = &s->plan->loops[i];
    for (size_t k = 0; k < loop->n_sums; ++k)
      if (s->owner[loop->sums[k]] == s->rank)
        tn_combine_slots(exec, loop->sums[k], tn_slots(exec, loop->axis, loop->lanes));
  }
  if (!s->comm)
    return TN_OK;
  size_t all = 0;
  for (size_t r = 0; r < s->ranks; ++r)
    all += s->gather_bytes[r] = copy_sums(exec, g, r, NULL, false);
  if (!all)
    return TN_OK;
  char *given = s->gathered + all;
  copy_sums(exec, g, s->rank, given, false);
  TN_TRY(tn_comm_gather(s->comm, "sums over points", s->gather_bytes, given, s->gathered));
  char *at = s->gathered;
  for (size_t r = 0; r < s->ranks; ++r)
    at += copy_sums(exec, g, r, at, true);
  return TN_OK;
}

static tn_status share_points(tn_exec *exec, const tn_pipe_group *g) {
  const tn_program *p = exec->program;
  tn_pipeline *s = exec->pipeline;
  for (size_t i = g->first; s->comm && i < g->first + g->count; ++i)
    for (size_t n = 0; n < s->plan->loops[i].n_nodes; ++n) {
      uint32_t node = s->plan->loops[i].nodes[n];
      for (uint32_t k = 0; p->nodes[node]->op->class_ != TN_LEAF && k < p->nodes[node]->n_outputs;
           ++k) {
        size_t port = p->port[node] + k;
        if (s->plan->whole[port] && whole_bytes(exec, port))
          TN_TRY(tn_comm_broadcast(s->comm, "values at all points", s->owner[node],
                                   whole_bytes(exec, port), exec->data[port]));
      }
    }
  return TN_OK;
}

static tn_status run_group(tn_exec *exec, const tn_pipe_group *g) {
  TN_TRY(prepare(exec, g));
  TN_TRY(run_ticks(exec, g));
  TN_TRY(share_sums(exec, g));
  return share_points(exec, g);
}

/* ---- A run ---- */

tn_status tn_pipeline_run(tn_exec *exec) {
  tn_pipeline *s = exec->pipeline;
  const tn_plan *plan = s->plan;
  size_t fixed = 0, group = 0, cast = 0;
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  for (size_t stage = 0; stage < plan->n_stages; ++stage) {
    for (; fixed < plan->n_fixed && plan->stage[plan->fixed[fixed]] == stage; ++fixed)
      tn_run_node(&frame, plan->fixed[fixed], 0, 1);
    for (; group < s->n_groups && s->groups[group].stage == stage; ++group)
      TN_TRY(run_group(exec, &s->groups[group]));
    for (; cast < plan->n_casts && plan->stage[plan->casts[cast]] == stage; ++cast)
      tn_run_node(&frame, plan->casts[cast], 0, 1);
  }
  return s->comm && s->opaque ? tn_comm_agree(s->comm, "the end of a run", exec->failed) : TN_OK;
}
