/* pipeline_plan.c: what runs when, and where it lies, for the executor that splits a program by layers.
 *
 * Segments. Level(node) = max over inputs of level(input) + (1 if it has another owner). A node that only its own rank
 * reads moves to the level of its first reader, so that nothing is kept longer than need be.
 *
 * Places. A rank has values of a micro-batch for as long as something there reads them, in parts of a tile that are
 * reused; what is received may arrive as soon as the level of its maker is over. Levels low .. high of micro-batch t
 * run at ticks 2 t + level (pipeline.c), so values of (high - low) / 2 + 1 micro-batches exist at once.
 */
#include "tensor/pipeline.h"

#include <string.h>

enum {
  LONGEST = 8 /* groups of a micro-batch, of all ranks */,
  BATCHES = 8 /* a rank, at least */,
  SUM_BYTES = 32 << 20
};

static bool has_points(const tn_program *p, size_t i) { return p->layout[p->port[i]].axis != 0; }
static bool is_leaf(const tn_program *p, size_t i) { return p->nodes[i]->op->class_ == TN_LEAF; }

/* ---- Segments and messages of one loop ---- */

typedef struct planner {
  tn_exec *exec;
  tn_pipeline *s;
  const tn_program *p;
  tn_pipe_loop *out;
  const tn_loop *loop;
  bool *inside;    /* of each node: computed in this loop by its owner */
  uint32_t *level; /* of each node */
  uint32_t *
      earliest; /* of each node: the least level of its readers; of a leaf: of those of this rank */
  bool *abroad; /* of each node: read by another rank */
  bool *wanted; /* [node][rank] */
  int64_t *birth, *death; /* of each port, as positions among this rank's nodes */
} planner;

/* A leaf that every rank fills for itself. */
static bool is_free_leaf(const planner *b, uint32_t i) {
  return is_leaf(b->p, i) && has_points(b->p, i);
}

static void find_levels(planner *b) {
  const tn_program *p = b->p;
  const uint32_t *owner = b->s->owner;
  for (size_t n = 0; n < b->loop->n_nodes; ++n)
    b->inside[b->loop->nodes[n]] = !is_free_leaf(b, b->loop->nodes[n]);
  for (size_t n = 0; n < b->loop->n_nodes; ++n) {
    uint32_t i = b->loop->nodes[n];
    b->level[i] = 0;
    b->earliest[i] = TN_NO_LEVEL;
    for (uint32_t k = 0; b->inside[i] && k < p->nodes[i]->n_inputs; ++k) {
      uint32_t in = p->nodes[i]->inputs[k].node;
      if (!b->inside[in])
        continue;
      uint32_t after = b->level[in] + (owner[in] != owner[i]);
      b->level[i] = after > b->level[i] ? after : b->level[i];
    }
  }
  for (size_t n = b->loop->n_nodes; n-- > 0;) {
    uint32_t i = b->loop->nodes[n];
    if (!b->inside[i])
      continue;
    if (!b->abroad[i] && b->earliest[i] != TN_NO_LEVEL)
      b->level[i] = b->earliest[i];
    if (b->level[i] + 1 > b->out->n_levels)
      b->out->n_levels = b->level[i] + 1;
    for (uint32_t k = 0; k < p->nodes[i]->n_inputs; ++k) {
      uint32_t in = p->nodes[i]->inputs[k].node;
      bool other = owner[in] != owner[i];
      if (b->inside[in] && other) {
        b->abroad[in] = true;
        b->wanted[in * b->s->ranks + owner[i]] = true;
      }
      if ((b->inside[in] ? !other : owner[i] == b->s->rank) && b->level[i] < b->earliest[in])
        b->earliest[in] = b->level[i];
    }
  }
}

/* Does this rank run the node in this loop, and at which level? */
static bool is_mine(const planner *b, uint32_t i, uint32_t *level) {
  *level = b->inside[i] ? b->level[i] : b->earliest[i];
  if (b->inside[i])
    return b->s->owner[i] == b->s->rank;
  return *level != TN_NO_LEVEL && !b->s->plan->whole[b->p->port[i]];
}

static tn_status find_segments(planner *b) {
  tn_pipe_loop *out = b->out;
  tn_arena *arena = &b->s->arena;
  uint32_t level;
  TN_TRY(tn_arena_take(arena, b->loop->n_nodes, sizeof *out->nodes, &out->nodes));
  TN_TRY(tn_arena_take(arena, b->loop->n_nodes, sizeof *out->level, &out->level));
  TN_TRY(tn_arena_take(arena, b->loop->n_nodes, sizeof *out->prefilled, &out->prefilled));
  TN_TRY(tn_arena_take(arena, b->s->ranks, sizeof *out->last, &out->last));
  for (size_t r = 0; r < b->s->ranks; ++r)
    out->last[r] = TN_NO_LEVEL;
  for (uint32_t at = 0; at < out->n_levels; ++at)
    for (size_t n = 0; n < b->loop->n_nodes; ++n) {
      uint32_t i = b->loop->nodes[n];
      if (b->inside[i] && b->level[i] == at)
        out->last[b->s->owner[i]] = at;
      if (!is_mine(b, i, &level) || level != at)
        continue;
      out->nodes[out->n_nodes] = i;
      out->level[out->n_nodes++] = at;
    }
  for (size_t n = 0; n < b->loop->n_nodes; ++n) {
    uint32_t i = b->loop->nodes[n];
    if (!b->inside[i] && b->s->plan->whole[b->p->port[i]])
      out->prefilled[out->n_prefilled++] = i;
  }
  return TN_OK;
}

/* The values of node i that `rank` reads, as transfers; how many. */
static size_t list_transfers(const planner *b, uint32_t i, size_t rank, tn_transfer *to) {
  const tn_program *p = b->p;
  size_t n = 0;
  for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
    bool read = false;
    for (size_t m = 0; m < b->loop->n_nodes && !read; ++m) {
      const tn_node *node = p->nodes[b->loop->nodes[m]];
      if (!b->inside[b->loop->nodes[m]] || b->s->owner[b->loop->nodes[m]] != rank)
        continue;
      for (uint32_t q = 0; q < node->n_inputs && !read; ++q)
        read = node->inputs[q].node == i && node->inputs[q].port == k;
    }
    if (read && to)
      to[n] = (tn_transfer){b->s->owner[i], (uint32_t)rank, b->level[i], (uint32_t)p->port[i] + k};
    n += read;
  }
  return n;
}

static tn_status find_transfers(planner *b) {
  tn_pipe_loop *out = b->out;
  size_t ranks = b->s->ranks, me = b->s->rank;
  for (int pass = 0; pass < 2; ++pass) {
    size_t n = 0;
    for (uint32_t at = 0; at < out->n_levels; ++at)
      for (size_t m = 0; m < b->loop->n_nodes; ++m) {
        uint32_t i = b->loop->nodes[m];
        if (!b->abroad[i] || b->level[i] != at)
          continue;
        for (size_t r = 0; r < ranks; ++r)
          if (b->wanted[i * ranks + r] && (r == me || b->s->owner[i] == me))
            n += list_transfers(b, i, r, pass ? out->transfers + n : NULL);
      }
    out->n_transfers = n;
    if (!pass)
      TN_TRY(tn_arena_take(&b->s->arena, n, sizeof *out->transfers, &out->transfers));
  }
  return TN_OK;
}

static tn_status find_needs(planner *b) {
  tn_pipe_loop *out = b->out;
  size_t ranks = b->s->ranks;
  TN_TRY(tn_arena_take(&b->s->arena, ranks, sizeof *out->sends, &out->sends));
  TN_TRY(tn_arena_take(&b->s->arena, ranks, sizeof *out->receives, &out->receives));
  TN_TRY(tn_arena_take(&b->s->arena, ranks * out->n_levels, sizeof *out->need, &out->need));
  for (size_t i = 0; i < out->n_transfers; ++i) {
    const tn_transfer *x = &out->transfers[i];
    if (x->from == b->s->rank)
      out->sends[x->to] = true;
    else
      out->receives[x->from] = true;
  }
  for (size_t n = 0; n < out->n_nodes; ++n) {
    const tn_node *node = b->p->nodes[out->nodes[n]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      uint32_t in = node->inputs[k].node;
      if (!b->inside[in] || b->s->owner[in] == b->s->rank)
        continue;
      uint32_t *need = &out->need[out->level[n] * ranks + b->s->owner[in]];
      *need = b->level[in] + 1 > *need ? b->level[in] + 1 : *need;
    }
  }
  return TN_OK;
}

/* ---- Places ---- */

/* Values that this rank has during a micro-batch, with the positions between which they live. */
static void find_lives(planner *b) {
  tn_pipe_loop *out = b->out;
  const tn_program *p = b->p;
  for (size_t n = 0; n < out->n_nodes; ++n)
    for (uint32_t k = 0; has_points(p, out->nodes[n]) && k < p->nodes[out->nodes[n]]->n_outputs;
         ++k)
      b->birth[p->port[out->nodes[n]] + k] = b->death[p->port[out->nodes[n]] + k] = (int64_t)n;
  for (size_t i = 0; i < out->n_transfers; ++i) {
    const tn_transfer *x = &out->transfers[i];
    size_t n = 0;
    if (x->to == b->s->rank) { /* comes after its maker's level at the earliest */
      while (n < out->n_nodes && out->level[n] <= x->level)
        ++n;
      b->birth[x->port] = b->death[x->port] = (int64_t)n;
    } else { /* goes when its segment has ended */
      while (n + 1 < out->n_nodes && out->level[n + 1] <= x->level)
        ++n;
      b->death[x->port] = (int64_t)n;
    }
  }
  for (size_t n = 0; n < out->n_nodes; ++n) {
    const tn_node *node = p->nodes[out->nodes[n]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      size_t port = tn_port(p, node->inputs[k]);
      if (b->birth[port] >= 0 && b->death[port] < (int64_t)n)
        b->death[port] = (int64_t)n;
    }
  }
}

typedef struct slab { /* a part of the tile */
  size_t panel, first;
  int64_t until; /* taken until this position, inclusive */
} slab;

static size_t take_slab(planner *b, slab *slabs, size_t *n, size_t panel, int64_t birth,
                        int64_t death) {
  size_t i = 0;
  while (i < *n && (slabs[i].panel != panel || slabs[i].until >= birth))
    ++i;
  if (i == *n) {
    slabs[(*n)++] = (slab){panel, b->out->tile_bytes, 0};
    b->out->tile_bytes += (panel * b->out->panels + 63) & ~(size_t)63;
  }
  slabs[i].until = death;
  return slabs[i].first;
}

static bool is_received(const planner *b, size_t port) {
  for (size_t i = 0; i < b->out->n_transfers; ++i)
    if (b->out->transfers[i].port == port && b->out->transfers[i].to == b->s->rank)
      return true;
  return false;
}

/* In the order of birth, so that a slab is free for whoever comes after its last reader. */
static void give_places(planner *b, slab *slabs) {
  tn_pipe_loop *out = b->out;
  size_t n_slabs = 0;
  for (int64_t n = 0; n < (int64_t)out->n_nodes; ++n)
    for (size_t port = 0; port < b->p->n_ports; ++port) {
      if (b->birth[port] != n)
        continue;
      const tn_layout *layout = &b->p->layout[port];
      tn_pipe_place *place = &out->places[out->n_places++];
      *place = (tn_pipe_place){.port = (uint32_t)port, .own = !is_received(b, port)};
      place->panel = layout->width * layout->lanes * layout->size;
      place->whole = place->own && b->s->plan->whole[port];
      if (!place->whole)
        place->first = take_slab(b, slabs, &n_slabs, place->panel, n, b->death[port]);
    }
  for (size_t n = 0; n < out->n_nodes;
       ++n) { /* from earlier loops, casts, and leaves that are outputs */
    const tn_node *node = b->p->nodes[out->nodes[n]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      size_t port = tn_port(b->p, node->inputs[k]);
      const tn_layout *layout = &b->p->layout[port];
      if (!layout->axis || b->birth[port] >= 0)
        continue;
      b->birth[port] = INT64_MAX;
      out->places[out->n_places++] =
          (tn_pipe_place){.port = (uint32_t)port,
                          .whole = true,
                          .panel = layout->width * layout->lanes * layout->size};
    }
  }
}

static tn_status find_places(planner *b) {
  tn_pipe_loop *out = b->out;
  slab *slabs = NULL;
  find_lives(b);
  TN_TRY(tn_arena_take(&b->s->arena, b->p->n_ports, sizeof *out->places, &out->places));
  TN_TRY(TN_NEW(b->p->n_ports + 1, &slabs));
  give_places(b, slabs);
  tn_free(&slabs);
  out->low = out->n_nodes ? out->level[0] : 0;
  out->high = out->n_nodes ? out->level[out->n_nodes - 1] : 0;
  size_t bytes[2] = {0, 0};
  for (size_t i = 0; i < out->n_transfers; ++i) { /* by level: those of one message are together, */
    const tn_transfer *x = &out->transfers[i];    /* but for those of other ranks */
    const tn_layout *layout = &b->p->layout[x->port];
    bool in = x->to == b->s->rank;
    if (in && x->level < out->low)
      out->low = x->level;
    bytes[in] += layout->width * layout->lanes * layout->size * out->panels;
    if (i + 1 < out->n_transfers && out->transfers[i + 1].level == x->level)
      continue;
    for (int k = 0; k < 2; ++k) {
      out->message = bytes[k] > out->message ? bytes[k] : out->message;
      bytes[k] = 0;
    }
  }
  return TN_OK;
}

/* ---- Loops ---- */

/* Whole groups; at least BATCHES micro-batches a rank, if there are so many groups. The first rank has values of as
 * many micro-batches as there are ranks, so with ever more ranks they get shorter. */
static size_t panels_of(const tn_exec *exec, const tn_loop *loop) {
  size_t groups = tn_groups(exec->extent[loop->axis], loop->lanes), ranks = exec->pipeline->ranks;
  size_t n = groups / (BATCHES * ranks), most = ranks < LONGEST ? LONGEST / ranks : 1;
  n = n > most ? most : n;
  return (n < 1 ? 1 : n) * TN_GROUP_PANELS;
}

static tn_status plan_loop(planner *b) {
  const tn_program *p = b->p;
  memset(b->inside, 0, p->n_nodes * sizeof *b->inside);
  memset(b->abroad, 0, p->n_nodes * sizeof *b->abroad);
  memset(b->wanted, 0, p->n_nodes * b->s->ranks * sizeof *b->wanted);
  for (size_t i = 0; i < p->n_ports; ++i)
    b->birth[i] = b->death[i] = -1;
  b->out->panels = panels_of(b->exec, b->loop);
  find_levels(b);
  TN_TRY(find_segments(b));
  TN_TRY(find_transfers(b));
  TN_TRY(find_needs(b));
  return find_places(b);
}

static tn_status plan_loops(tn_exec *exec) {
  const tn_program *p = exec->program;
  tn_pipeline *s = exec->pipeline;
  planner b = {.exec = exec, .s = s, .p = p};
  TN_TRY(tn_arena_take(&s->arena, s->plan->n_loops, sizeof *s->loops, &s->loops));
  tn_status status = TN_NEW(p->n_nodes + 1, &b.inside);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &b.level);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &b.earliest);
  if (status == TN_OK)
    status = TN_NEW(p->n_nodes + 1, &b.abroad);
  if (status == TN_OK)
    status = tn_new(p->n_nodes + 1, s->ranks * sizeof *b.wanted, &b.wanted);
  if (status == TN_OK)
    status = TN_NEW(p->n_ports + 1, &b.birth);
  if (status == TN_OK)
    status = TN_NEW(p->n_ports + 1, &b.death);
  for (size_t i = 0; i < s->plan->n_loops && status == TN_OK; ++i) {
    b.out = &s->loops[i];
    b.loop = b.out->loop = &s->plan->loops[i];
    status = plan_loop(&b);
  }
  tn_free(&b.inside);
  tn_free(&b.level);
  tn_free(&b.earliest);
  tn_free(&b.abroad);
  tn_free(&b.wanted);
  tn_free(&b.birth);
  tn_free(&b.death);
  return status;
}

/* ---- Groups ---- */

/* Micro-batches of a loop: whole groups of one slot. */
static size_t cut_loop(const tn_exec *exec, uint32_t index, tn_batch *to) {
  const tn_pipe_loop *loop = &exec->pipeline->loops[index];
  size_t n = 0, slots = tn_slots(exec, loop->loop->axis, loop->loop->lanes);
  for (size_t slot = 0; slot < slots; ++slot) {
    size_t first, last;
    tn_slot_panels(exec, loop->loop->axis, loop->loop->lanes, slot, &first, &last);
    for (; first < last; first += loop->panels, ++n)
      if (to)
        to[n] = (tn_batch){index, (uint32_t)slot, first,
                           last - first < loop->panels ? last : first + loop->panels};
  }
  return n;
}

/* Bytes of the partial sums of a loop: of one rank, or of all (SIZE_MAX). */
static size_t sums_of(const tn_exec *exec, size_t index, size_t rank) {
  const tn_loop *loop = &exec->pipeline->plan->loops[index];
  size_t bytes = 0;
  for (size_t k = 0; k < loop->n_sums; ++k)
    if (rank == SIZE_MAX || exec->pipeline->owner[loop->sums[k]] == rank)
      bytes += exec->partial_bytes[loop->sums[k]];
  return bytes * tn_slots(exec, loop->axis, loop->lanes);
}

static tn_status make_group(tn_exec *exec, tn_pipe_group *g) {
  tn_pipeline *s = exec->pipeline;
  size_t own = 0, given = 0, all = 0;
  uint32_t low = UINT32_MAX, high = 0;
  for (size_t i = g->first; i < g->first + g->count; ++i) {
    const tn_pipe_loop *loop = &s->loops[i];
    g->n_batches += cut_loop(exec, (uint32_t)i, NULL);
    g->n_levels = loop->n_levels > g->n_levels ? loop->n_levels : g->n_levels;
    if (loop->n_nodes) {
      low = loop->low < low ? loop->low : low;
      high = loop->high > high ? loop->high : high;
    }
    g->tile = loop->tile_bytes > g->tile ? loop->tile_bytes : g->tile;
    s->message_bytes = loop->message > s->message_bytes ? loop->message : s->message_bytes;
    own += sums_of(exec, i, s->rank);
    for (size_t k = 0; k < loop->loop->n_sums; ++k) {
      all += exec->partial_bytes[loop->loop->sums[k]];
      given +=
          s->owner[loop->loop->sums[k]] == s->rank ? exec->partial_bytes[loop->loop->sums[k]] : 0;
    }
  }
  TN_TRY(tn_arena_take(&s->arena, g->n_batches, sizeof *g->batches, &g->batches));
  for (size_t i = g->first, n = 0; i < g->first + g->count; ++i)
    n += cut_loop(exec, (uint32_t)i, g->batches + n);
  g->window = g->n_levels / 2 + 1;
  g->depth = low <= high ? (high - low) / 2 + 1 : 0;
  if (g->depth > g->n_batches)
    g->depth = g->n_batches;
  s->sum_bytes = own > s->sum_bytes ? own : s->sum_bytes;
  s->tile_bytes = g->depth * g->tile > s->tile_bytes ? g->depth * g->tile : s->tile_bytes;
  s->largest_gather = all + given > s->largest_gather ? all + given : s->largest_gather;
  return TN_OK;
}

/* Loops of one stage, as many as have room for their partial sums: the same on all ranks. */
static tn_status make_groups(tn_exec *exec) {
  tn_pipeline *s = exec->pipeline;
  s->n_groups = 0;
  s->tile_bytes = s->sum_bytes = s->message_bytes = s->largest_gather = 0;
  TN_TRY(tn_arena_take(&s->arena, s->plan->n_loops, sizeof *s->groups, &s->groups));
  for (size_t i = 0; i < s->plan->n_loops;) {
    tn_pipe_group *g = &s->groups[s->n_groups++];
    *g = (tn_pipe_group){.stage = s->plan->loops[i].stage, .first = i};
    for (size_t total = 0; i < s->plan->n_loops && s->plan->loops[i].stage == g->stage; ++i) {
      size_t bytes = sums_of(exec, i, SIZE_MAX);
      if (g->count && total + bytes > SUM_BYTES)
        break;
      total += bytes;
      ++g->count;
    }
    TN_TRY(make_group(exec, g));
  }
  return TN_OK;
}

tn_status tn_pipeline_plan(tn_exec *exec) {
  tn_arena_free(&exec->pipeline->arena);
  TN_TRY(tn_pipeline_owners(exec));
  TN_TRY(plan_loops(exec));
  return make_groups(exec);
}
