/* plan.c: stages, loops, steps and tiles of the streamed executor; plan.h says what they are.
 *
 * Steps of a loop are found greedily: the first node in program order that is ready; if it can stand in a strip
 * program, all nodes of its width that are ready join, and those that become ready by them. Program order is
 * the order of recording, forward before backward, so values are read soon after they are made. Derivatives of
 * an activation that only the backward pass reads are thus computed beside its value, from what is in the
 * first cache anyway, and take the place of its argument in the tile.
 *
 * Places in the tile are given by first fit over the life of each value, in lane vectors a panel: the same for
 * tiles of any number of panels.
 */
#include "tensor/plan.h"

#include <string.h>

/* Lane vectors that a panel of a value takes in the tile: one more than it has, if it is long. Values of equal
 * width would else begin at the same few sets of the first cache, and a strip program or an outer product of
 * many channels would push them out of it. */
static size_t vectors(const tn_layout *layout) {
  size_t n = (layout->width * layout->lanes * layout->size + TN_LANE_BYTES - 1) / TN_LANE_BYTES;
  return n < 8 ? n : n + 1;
}

/* ---- Stages ---- */

static bool has_points(const tn_program *p, size_t i) { return p->layout[p->port[i]].axis != 0; }

static void mark_whole(tn_plan *plan, size_t port) {
  plan->whole[port] = plan->whole[port] || plan->program->layout[port].axis != 0;
}

static tn_status find_stages(tn_plan *plan) {
  const tn_program *p = plan->program;
  TN_TRY(tn_arena_take(&plan->arena, p->n_nodes, sizeof *plan->stage, &plan->stage));
  TN_TRY(tn_arena_take(&plan->arena, p->n_nodes, sizeof *plan->fixed, &plan->fixed));
  TN_TRY(tn_arena_take(&plan->arena, p->n_nodes, sizeof *plan->casts, &plan->casts));
  TN_TRY(tn_arena_take(&plan->arena, p->n_ports, sizeof *plan->whole, &plan->whole));
  for (size_t i = 0; i < p->n_nodes; ++i) {
    uint32_t stage = 0;
    for (uint32_t k = 0; k < p->nodes[i]->n_inputs; ++k) {
      uint32_t in = p->nodes[i]->inputs[k].node;
      uint32_t after = plan->stage[in] + (tn_is_reduction(p, in) || tn_changes_panels(p, in));
      if (after > stage) stage = after;
    }
    plan->stage[i] = stage;
    if (stage + 1 > plan->n_stages) plan->n_stages = stage + 1;
  }
  for (size_t s = 0; s < plan->n_stages; ++s)
    for (size_t i = 0; i < p->n_nodes; ++i) {
      if (plan->stage[i] != s) continue;
      if (tn_changes_panels(p, i)) plan->casts[plan->n_casts++] = (uint32_t)i;
      else if (!has_points(p, i) && !tn_is_reduction(p, i)) plan->fixed[plan->n_fixed++] = (uint32_t)i;
    }
  for (size_t i = 0; i < p->n_outputs; ++i) {
    size_t port = tn_port(p, p->outputs[i]);
    plan->whole[port] = p->layout[port].axis != 0;
  }
  for (size_t i = 0; i < plan->n_casts; ++i) {
    const tn_node *node = p->nodes[plan->casts[i]]; /* more than one port: operations of users */
    for (uint32_t k = 0; k < node->n_outputs; ++k) mark_whole(plan, p->port[plan->casts[i]] + k);
    for (uint32_t k = 0; k < node->n_inputs; ++k) mark_whole(plan, tn_port(p, node->inputs[k]));
  }
  return TN_OK;
}

/* ---- Steps ---- */

typedef struct planner {
  tn_plan *plan;
  const tn_program *p;
  tn_loop *loop;
  size_t n_nodes;
  uint32_t *nodes;  /* of the loop, in program order */
  uint8_t *state;   /* of each node: 0 not in the loop, 1 waiting, 2 in this run, 3 done */
  bool *wanted;     /* of each port: read outside the run that is being built */
  uint32_t *root;   /* of each port */
  uint32_t *last;   /* of each port: the last step that reads its storage */
} planner;

static bool is_ready(const planner *b, uint32_t i) {
  const tn_node *node = b->p->nodes[i];
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (b->state[node->inputs[k].node] == 1) return false;
  return true;
}

static bool is_alias(const planner *b, uint32_t i) { /* a reshape is another name of its input */
  return b->p->nodes[i]->op->id == TN_OP_reshape && !b->plan->whole[b->p->port[i]];
}

/* Ports of the nodes in state 2 that others read. */
static void find_wanted(planner *b, size_t count, const uint32_t *run) {
  for (size_t i = 0; i < count; ++i)
    for (uint32_t k = 0; k < b->p->nodes[run[i]]->n_outputs; ++k)
      b->wanted[b->p->port[run[i]] + k] = b->plan->whole[b->p->port[run[i]] + k];
  for (size_t i = 0; i < b->n_nodes; ++i) {
    if (b->state[b->nodes[i]] != 1) continue;
    const tn_node *node = b->p->nodes[b->nodes[i]];
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      if (b->state[node->inputs[k].node] == 2) b->wanted[tn_port(b->p, node->inputs[k])] = true;
  }
}

static tn_status add_run(planner *b, size_t from, size_t width) {
  uint32_t *run = NULL;
  size_t count = 0, cost = 0;
  tn_dtype dtype = tn_dtype_compute(b->p->nodes[b->nodes[from]]->dtype);
  TN_TRY(TN_NEW(b->n_nodes, &run));
  for (size_t i = from; i < b->n_nodes; ++i) {
    uint32_t node = b->nodes[i];
    if (b->state[node] != 1 || tn_run_width(b->p, node) != width ||
        tn_dtype_compute(b->p->nodes[node]->dtype) != dtype || !is_ready(b, node))
      continue;
    cost += tn_run_cost(b->p, node);
    if (count && cost > TN_RUN_COST) break;
    b->state[node] = 2;
    run[count++] = node;
  }
  find_wanted(b, count, run);
  tn_action *step = &b->loop->steps[b->loop->n_steps++];
  step->node = run[0];
  tn_status status = tn_run_new(b->plan, count, run, b->wanted, b->root, &step->run);
  for (size_t i = 0; i < count; ++i) b->state[run[i]] = 3;
  tn_free(&run);
  return status;
}

static tn_status find_steps(planner *b) {
  TN_TRY(tn_arena_take(&b->plan->arena, b->n_nodes, sizeof *b->loop->steps, &b->loop->steps));
  for (size_t start = 0; start < b->n_nodes;) {
    uint32_t node = b->nodes[start];
    if (b->state[node] == 3) {
      ++start;
      continue;
    }
    size_t width = tn_run_width(b->p, node), port = b->p->port[node];
    if (is_alias(b, node)) {
      b->root[port] = b->root[tn_port(b->p, b->p->nodes[node]->inputs[0])];
      b->state[node] = 3;
    } else if (width) {
      TN_TRY(add_run(b, start, width)); /* the first that is not done is always ready */
    } else {
      b->loop->steps[b->loop->n_steps++] = (tn_action){.node = node};
      for (uint32_t k = 0; k < b->p->nodes[node]->n_outputs; ++k)
        b->root[port + k] = (uint32_t)(port + k);
      b->state[node] = 3;
    }
  }
  return TN_OK;
}

/* ---- Places ---- */

typedef struct gap { size_t first, count; } gap;
typedef struct gaps { /* free room, ascending; the last gap is endless */
  gap *list;
  size_t n, used;
} gaps;

static size_t take_room(gaps *g, size_t count) {
  size_t i = 0;
  while (g->list[i].count < count) ++i;
  size_t first = g->list[i].first;
  g->list[i].first += count;
  g->list[i].count -= count;
  if (!g->list[i].count) {
    memmove(&g->list[i], &g->list[i + 1], (g->n - i - 1) * sizeof *g->list);
    --g->n;
  }
  if (first + count > g->used) g->used = first + count;
  return first;
}

static void give_back(gaps *g, size_t first, size_t count) { /* list has room for one more */
  size_t i = 0;
  while (g->list[i].first < first) ++i;
  memmove(&g->list[i + 1], &g->list[i], (g->n - i) * sizeof *g->list);
  g->list[i] = (gap){first, count};
  ++g->n;
  if (g->list[i].first + g->list[i].count == g->list[i + 1].first) {
    g->list[i].count += g->list[i + 1].count;
    memmove(&g->list[i + 1], &g->list[i + 2], (g->n - i - 2) * sizeof *g->list);
    --g->n;
  }
  if (i > 0 && g->list[i - 1].first + g->list[i - 1].count == g->list[i].first) {
    g->list[i - 1].count += g->list[i].count;
    memmove(&g->list[i], &g->list[i + 1], (g->n - i - 1) * sizeof *g->list);
    --g->n;
  }
}

/* Ports that a step makes. */
static size_t made(const planner *b, const tn_action *step, size_t k) {
  return step->run ? step->run->results[k] : b->p->port[step->node] + k;
}
static size_t n_made(const planner *b, const tn_action *step) {
  if (step->run) return step->run->n_results;
  return has_points(b->p, step->node) ? b->p->nodes[step->node]->n_outputs : 0;
}

static void note_reader(planner *b, size_t port, uint32_t step) {
  if (b->p->layout[port].axis && b->root[port] != TN_NOWHERE) b->last[b->root[port]] = step;
}

static void find_last_readers(planner *b) {
  for (uint32_t t = 0; t < b->loop->n_steps; ++t) {
    const tn_action *step = &b->loop->steps[t];
    for (size_t k = 0; k < n_made(b, step); ++k) note_reader(b, made(b, step, k), t);
    for (size_t k = 0; step->run && k < step->run->n_operands; ++k)
      note_reader(b, step->run->operands[k].port, t);
    const tn_node *node = b->p->nodes[step->node];
    for (uint32_t k = 0; !step->run && k < node->n_inputs; ++k)
      note_reader(b, tn_port(b->p, node->inputs[k]), t);
  }
}

static tn_status find_places(planner *b, uint32_t *place) {
  gaps g = {0};
  const tn_program *p = b->p;
  TN_TRY(TN_NEW(p->n_ports + 2, &g.list));
  g.list[g.n++] = (gap){0, SIZE_MAX / 2};
  for (uint32_t t = 0; t < b->loop->n_steps; ++t) {
    const tn_action *step = &b->loop->steps[t];
    for (size_t k = 0; k < n_made(b, step); ++k) {
      size_t port = made(b, step, k);
      if (!b->plan->whole[port])
        place[port] = (uint32_t)take_room(&g, vectors(&p->layout[port]));
    }
    for (size_t port = 0; port < p->n_ports; ++port) /* read here for the last time */
      if (b->last[port] == t && place[port] != TN_NOWHERE)
        give_back(&g, place[port], vectors(&p->layout[port]));
  }
  b->loop->vectors = g.used;
  tn_free(&g.list);
  return TN_OK;
}

static tn_status find_spots(planner *b) {
  const tn_program *p = b->p;
  uint32_t *place = NULL;
  TN_TRY(TN_NEW(p->n_ports + 1, &place));
  for (size_t i = 0; i < p->n_ports; ++i) place[i] = b->last[i] = TN_NOWHERE;
  find_last_readers(b);
  tn_status status = find_places(b, place);
  size_t count = 0;
  for (size_t i = 0; i < p->n_ports; ++i) count += b->root[i] != TN_NOWHERE;
  if (status == TN_OK)
    status = tn_arena_take(&b->plan->arena, count, sizeof *b->loop->spots, &b->loop->spots);
  for (size_t i = 0; i < p->n_ports && status == TN_OK; ++i)
    if (b->root[i] != TN_NOWHERE)
      b->loop->spots[b->loop->n_spots++] =
          (tn_spot){(uint32_t)i, b->root[i], place[b->root[i]]};
  tn_free(&place);
  return status;
}

/* ---- Loops ---- */

static bool in_loop(const planner *b, size_t i) { /* by its points, wherever they come from */
  const tn_program *p = b->p;
  const tn_layout *own = &p->layout[p->port[i]];
  if (own->axis) return own->axis == b->loop->axis && own->lanes == b->loop->lanes;
  for (uint32_t k = 0; k < p->nodes[i]->n_inputs; ++k) {
    const tn_layout *in = &p->layout[tn_port(p, p->nodes[i]->inputs[k])];
    if (in->axis) return in->axis == b->loop->axis && in->lanes == b->loop->lanes;
  }
  return false;
}

static bool is_sink(const planner *b, size_t i) {
  if (b->plan->stage[i] != b->loop->stage || tn_changes_panels(b->p, i) || !in_loop(b, i)) return false;
  if (tn_is_reduction(b->p, i)) return true;
  for (uint32_t k = 0; k < b->p->nodes[i]->n_outputs; ++k)
    if (b->plan->whole[b->p->port[i] + k]) return true;
  return false;
}

/* In an earlier loop, or by a cast: such a value is read from its whole array. */
static bool is_there(const planner *b, tn_edge in) {
  return b->plan->whole[tn_port(b->p, in)] &&
         (b->plan->stage[in.node] < b->loop->stage || tn_changes_panels(b->p, in.node));
}

/* Everything with points that the sinks need, in program order. */
static tn_status find_nodes(planner *b) {
  const tn_program *p = b->p;
  for (size_t i = p->n_nodes; i-- > 0;) {
    if (!b->state[i] && is_sink(b, i)) b->state[i] = 1;
    if (!b->state[i]) continue;
    ++b->n_nodes;
    for (uint32_t k = 0; k < p->nodes[i]->n_inputs; ++k) {
      tn_edge in = p->nodes[i]->inputs[k];
      size_t port = tn_port(p, in);
      if (!p->layout[port].axis) continue;
      if (is_there(b, in)) b->root[port] = (uint32_t)port;
      else b->state[in.node] = 1;
    }
  }
  if (!b->n_nodes) return TN_OK;
  TN_TRY(tn_arena_take(&b->plan->arena, b->n_nodes, sizeof *b->nodes, &b->nodes));
  TN_TRY(tn_arena_take(&b->plan->arena, b->n_nodes, sizeof *b->loop->sums, &b->loop->sums));
  b->loop->nodes = b->nodes;
  b->loop->n_nodes = b->n_nodes;
  for (size_t i = 0, n = 0; i < p->n_nodes; ++i) {
    if (!b->state[i]) continue;
    b->nodes[n++] = (uint32_t)i;
    if (tn_is_reduction(p, i)) b->loop->sums[b->loop->n_sums++] = (uint32_t)i;
  }
  return TN_OK;
}

static tn_status plan_loop(tn_plan *plan, tn_loop *loop) {
  const tn_program *p = plan->program;
  planner b = {.plan = plan, .p = p, .loop = loop};
  tn_status status = TN_NEW(p->n_nodes + 1, &b.state);
  if (status == TN_OK) status = TN_NEW(p->n_ports + 1, &b.wanted);
  if (status == TN_OK) status = TN_NEW(p->n_ports + 1, &b.root);
  if (status == TN_OK) status = TN_NEW(p->n_ports + 1, &b.last);
  for (size_t i = 0; i < p->n_ports && status == TN_OK; ++i) b.root[i] = TN_NOWHERE;
  if (status == TN_OK) status = find_nodes(&b);
  if (status == TN_OK && b.n_nodes) status = find_steps(&b);
  if (status == TN_OK && b.n_nodes) status = find_spots(&b);
  tn_free(&b.state);
  tn_free(&b.wanted);
  tn_free(&b.root);
  tn_free(&b.last);
  return status;
}

/* One loop a stage and kind of points in which something is wanted. */
static tn_status find_loops(tn_plan *plan) {
  const tn_program *p = plan->program;
  size_t kinds = 2 * (TN_MAX_AXES + 1);
  uint8_t *occurs = NULL;
  TN_TRY(TN_NEW(kinds, &occurs));
  size_t n = 0;
  for (size_t i = 0; i < p->n_ports; ++i) {
    size_t kind = 2 * p->layout[i].axis + (p->layout[i].lanes == 16);
    if (p->layout[i].axis && !occurs[kind]) occurs[kind] = 1, ++n;
  }
  tn_status status = tn_arena_take(&plan->arena, n * plan->n_stages + 1, sizeof *plan->loops, &plan->loops);
  for (size_t s = 0; s < plan->n_stages && status == TN_OK; ++s)
    for (size_t kind = 0; kind < kinds && status == TN_OK; ++kind) {
      if (!occurs[kind]) continue;
      tn_loop *loop = &plan->loops[plan->n_loops];
      *loop = (tn_loop){.stage = s, .axis = (tn_axis)(kind / 2), .lanes = kind % 2 ? 16 : 8};
      status = plan_loop(plan, loop);
      if (loop->n_steps) ++plan->n_loops;
    }
  tn_free(&occurs);
  return status;
}

tn_status tn_plan_new(const tn_program *program, tn_plan **out) {
  TN_TRY(TN_NEW(1, out));
  (*out)->program = program;
  tn_status status = find_stages(*out);
  if (status == TN_OK) status = find_loops(*out);
  if (status != TN_OK) tn_plan_free(out);
  return status;
}

void tn_plan_free(tn_plan **plan) {
  if (!*plan) return;
  tn_arena_free(&(*plan)->arena);
  tn_free(plan);
}
