/* source_loop.c: a loop over points as one kernel.
 *
 * A block takes a part at a time: a group of panels, or a slot, its groups in order, if some sum goes point by point
 * onto the sum of its slot. Each step of the loop is a function of the text; between steps stands a barrier where one
 * reads what another thread has written, or overwrites what another thread may still read. The plan's places (plan.h)
 * become places in the block's tile; what lies in a whole array gets a place of its own there, too: it is read into it
 * before the first step, or written from it after the step that made it. So steps know the tile alone.
 */
#include "cuda/source_inside.h"

#include <stdio.h>
#include <string.h>

/* ---- Barriers ---- */

typedef struct range { /* of lane vectors of the tile that a step touches */
  size_t first, last;
  size_t map; /* not 0: element e is touched by the thread of element e, of so many units */
  bool written;
} range;

typedef struct order { /* what happened since the last barrier, and what the next step does */
  range *past, *now;
  size_t n_past, n_now, capacity;
} order;

static void touch(const gpu_maker *m, const gpu_site *s, order *o, size_t port, size_t map, bool written) {
  const tn_layout *layout = &m->p->layout[port];
  if (!layout->axis || s->place[port] == TN_NOWHERE || o->n_now == o->capacity) return;
  size_t vectors = (layout->width * layout->lanes * layout->size + TN_LANE_BYTES - 1) / TN_LANE_BYTES;
  o->now[o->n_now++] = (range){s->place[port], s->place[port] + vectors, map, written};
}

static bool conflict(const range *a, const range *b) {
  if (!a->written && !b->written) return false;
  if (a->last <= b->first || b->last <= a->first) return false;
  return a->first != b->first || a->map != b->map || !a->map;
}

/* Before the text of a step whose ranges are in `now`. */
static void settle(gpu_maker *m, order *o) {
  bool wait = false;
  for (size_t i = 0; i < o->n_now && !wait; ++i)
    for (size_t k = 0; k < o->n_past && !wait; ++k) wait = conflict(&o->past[k], &o->now[i]);
  if (wait || o->n_past + o->n_now > o->capacity) {
    gpu_put(&m->w, "      __syncthreads();\n");
    o->n_past = 0;
  }
  for (size_t i = 0; i < o->n_now; ++i) o->past[o->n_past++] = o->now[i];
  o->n_now = 0;
}

/* ---- Places and weights ---- */

static tn_status find_places(gpu_maker *m, gpu_site *s) {
  TN_TRY(TN_NEW(m->p->n_ports + 1, &s->place));
  for (size_t i = 0; i < m->p->n_ports; ++i) s->place[i] = TN_NOWHERE;
  s->vectors = s->loop->vectors;
  for (size_t i = 0; i < s->loop->n_spots; ++i) {
    const tn_spot *spot = &s->loop->spots[i];
    const tn_layout *layout = &m->p->layout[spot->root];
    uint32_t place = spot->place;
    if (place == TN_NOWHERE && s->place[spot->root] == TN_NOWHERE) {
      s->place[spot->root] = (uint32_t)s->vectors;
      s->vectors += (layout->width * layout->lanes * layout->size + TN_LANE_BYTES - 1) / TN_LANE_BYTES;
    }
    if (place == TN_NOWHERE) place = s->place[spot->root];
    s->place[spot->port] = place;
  }
  return TN_OK;
}

static bool is_made_here(const gpu_maker *m, const gpu_site *s, size_t port) {
  for (size_t t = 0; t < s->loop->n_steps; ++t) {
    const tn_action *step = &s->loop->steps[t];
    if (!step->run) {
      if (port >= m->p->port[step->node] && port < m->p->port[step->node + 1]) return true;
      continue;
    }
    for (size_t k = 0; k < step->run->n_results; ++k)
      if (step->run->results[k] == port) return true;
  }
  return false;
}

/* Small matrices of products go to shared memory once a block, the first ones that fit. */
static tn_status find_weights(gpu_maker *m, gpu_site *s) {
  TN_TRY(TN_NEW(s->loop->n_steps + 1, &s->weights));
  for (size_t t = 0; t < s->loop->n_steps; ++t) {
    const tn_node *node = m->p->nodes[s->loop->steps[t].node];
    if (s->loop->steps[t].run || node->op->id != TN_OP_jet_lin) continue;
    size_t port = tn_port(m->p, node->inputs[node->n_outputs]);
    const tn_edge e = node->inputs[node->n_outputs];
    const tn_shape *shape = &m->p->nodes[e.node]->shapes[e.port];
    size_t bytes = (m->p->layout[port].width * m->p->layout[port].size + 15) & ~(size_t)15;
    bool known = false, wide = shape->extent[0] > GPU_FUSED_WIDTH || shape->extent[1] > GPU_FUSED_WIDTH;
    s->out->wide = s->out->wide || wide;
    for (size_t k = 0; k < s->n_weights; ++k) known = known || s->weights[k].port == port;
    if (known || wide || s->shared + bytes > (s->out->by_groups ? GPU_SHARED_WEIGHTS : GPU_SHARED_FEW)) continue;
    s->weights[s->n_weights++] = (gpu_weights){port, s->shared, m->p->layout[port].width};
    s->shared += bytes;
  }
  return TN_OK;
}

static tn_status find_sums(gpu_maker *m, gpu_site *s) {
  gpu_loop *out = s->out;
  TN_TRY(tn_arena_take(&m->out->arena, s->loop->n_sums + 1, sizeof *out->offset, &out->offset));
  out->by_groups = true;
  for (size_t k = 0; k < s->loop->n_sums; ++k) {
    const tn_node *node = m->p->nodes[s->loop->sums[k]];
    out->offset[k] = out->part_bytes;
    out->part_bytes += tn_sum_bytes(m->p, s->loop->sums[k]);
    if (node->op->id == TN_OP_jet_outer &&
        tn_outer_by_points(node->dtype, node->shapes[0].extent[0], node->shapes[0].extent[1]))
      out->by_groups = false;
  }
  /* A slot is a long way for one block, and there are 64 of them at most: it gets more threads. */
  s->threads = out->by_groups ? GPU_THREADS : 2 * GPU_THREADS;
  for (size_t k = 0; k < s->loop->n_sums && !out->by_groups; ++k) {
    const tn_node *node = m->p->nodes[s->loop->sums[k]];
    if (node->op->id != TN_OP_jet_outer ||
        !tn_outer_by_points(node->dtype, node->shapes[0].extent[0], node->shapes[0].extent[1]))
      continue;
    size_t bytes = gpu_staging_bytes(m, s, s->loop->sums[k]);
    if (bytes > s->staging) s->staging = bytes;
  }
  return TN_OK;
}

/* ---- Functions of steps ---- */

static size_t offset_of(const gpu_site *s, size_t node) {
  for (size_t k = 0; k < s->loop->n_sums; ++k)
    if (s->loop->sums[k] == node) return s->out->offset[k];
  return 0;
}

static tn_status put_function(gpu_maker *m, const gpu_site *s, size_t t) {
  const tn_action *step = &s->loop->steps[t];
  tn_status status = TN_OK;
  if (step->run)
    gpu_put(&m->w, "\n/* Step %zu of loop %zu: %zu elementwise node%s of %zu units, from ", t, s->index,
            step->run->n_nodes, step->run->n_nodes == 1 ? "" : "s", step->run->width);
  else gpu_put(&m->w, "\n/* Step %zu of loop %zu: ", t, s->index);
  gpu_put_node(m, step->node);
  gpu_put(&m->w, " */\nINLINE void loop_%zu_step_%zu(const gpu_place &p) {\n", s->index, t);
  if (step->run) status = gpu_put_run(m, s, step->run);
  else if (tn_is_reduction(m->p, step->node)) gpu_put_reduction(m, s, step->node, offset_of(s, step->node));
  else gpu_put_body(m, s, step->node);
  gpu_put(&m->w, "}\n");
  return status;
}

/* ---- The kernel ---- */

static void touch_step(const gpu_maker *m, const gpu_site *s, order *o, size_t t) {
  const tn_action *step = &s->loop->steps[t];
  if (step->run) {
    const tn_run *run = step->run;
    for (size_t k = 0; k < run->n_operands; ++k)
      touch(m, s, o, run->operands[k].port, run->operands[k].kind == TN_OPERAND_TILE ? run->width : 0, false);
    for (size_t k = 0; k < run->n_results; ++k) touch(m, s, o, run->results[k], run->width, true);
    return;
  }
  const tn_node *node = m->p->nodes[step->node];
  size_t port = m->p->port[step->node];
  bool leaf = node->op->class_ == TN_LEAF;
  for (uint32_t k = 0; k < node->n_inputs; ++k) touch(m, s, o, tn_port(m->p, node->inputs[k]), 0, false);
  for (uint32_t k = 0; k < node->n_outputs; ++k) touch(m, s, o, port + k, leaf ? m->p->layout[port].width : 0, true);
}

/* Between a whole array and its place in the tile. */
static void put_whole(gpu_maker *m, const gpu_site *s, size_t port, bool in) {
  const tn_layout *x = &m->p->layout[port];
  const char *type = gpu_type_of(x);
  unsigned place = s->place[port];
  gpu_put(&m->w, "      EACH(e, %zu) {\n        const unsigned u = e / %zuu, q = e %% %zuu;\n", x->width * s->points,
          s->points, s->points);
  if (in)
    gpu_put(&m->w, "        TILE(%s, %u)[e] = DATA(const %s, %zu)[whole_at<%zu>(p, %zu, u, held(p, q))];\n      }\n",
            type, place, type, port, x->lanes, x->width);
  else
    gpu_put(&m->w,
            "        if (p.first + q / %zu * %zu < p.points)\n          DATA(%s, %zu)[whole_at<%zu>(p, %zu, u, q)] = "
            "TILE(const %s, %u)[e];\n      }\n",
            x->lanes, x->lanes, type, port, x->lanes, x->width, type, place);
}

static void put_wholes(gpu_maker *m, const gpu_site *s, order *o, size_t t) {
  const tn_action *step = &s->loop->steps[t];
  for (size_t i = 0; i < s->loop->n_spots; ++i) {
    size_t port = s->loop->spots[i].port, first = m->p->port[step->node];
    bool made = false;
    if (!m->plan->whole[port]) continue;
    for (size_t k = 0; step->run && k < step->run->n_results; ++k) made = made || step->run->results[k] == port;
    if (!step->run) made = port >= first && port < m->p->port[step->node + 1];
    if (!made) continue;
    touch(m, s, o, port, m->p->layout[port].width, false);
    settle(m, o);
    put_whole(m, s, port, false);
  }
}

static void put_wholes_in(gpu_maker *m, const gpu_site *s, order *o) {
  for (size_t i = 0; i < s->loop->n_spots; ++i) {
    size_t port = s->loop->spots[i].port;
    if (!m->plan->whole[port] || is_made_here(m, s, port)) continue;
    touch(m, s, o, port, m->p->layout[port].width, true);
    settle(m, o);
    put_whole(m, s, port, true);
  }
}

static void put_step(gpu_maker *m, const gpu_site *s, order *o, size_t t) {
  touch_step(m, s, o, t);
  settle(m, o);
  gpu_put(&m->w, "      loop_%zu_step_%zu(p);\n", s->index, t);
  put_wholes(m, s, o, t);
}

static void put_group(gpu_maker *m, const gpu_site *s, order *o) {
  put_wholes_in(m, s, o);
  for (size_t t = 0; t < s->loop->n_steps; ++t) put_step(m, s, o, t);
  gpu_put(&m->w, "      __syncthreads();\n");
}

/* The start of a kernel: where its block's things are. */
static void put_place(gpu_maker *m, const gpu_site *s, const char *name) {
  gpu_writer *w = &m->w;
  gpu_put_head(m, s->threads, name, "gpu_loop_args a");
  gpu_put(w, "  GPU_SHARED(char, shared);\n");
  gpu_put(w,
          "  gpu_place p;\n  p.data = a.data, p.leaf = a.leaf, p.points = a.points, p.shared = shared;\n"
          "  p.tile = a.tile + blockIdx.x * a.tile_bytes;\n  p.thread = threadIdx.x, p.threads = %zu;\n",
          s->threads);
  for (size_t k = 0; k < s->n_weights; ++k)
    gpu_put(w, "  EACH(e, %zu) ((T *)(shared + %zu))[e] = DATA(const T, %zu)[e];\n", s->weights[k].bytes,
            s->weights[k].offset, s->weights[k].port);
  if (s->n_weights) gpu_put(w, "  __syncthreads();\n");
}

static void put_kernel(gpu_maker *m, const gpu_site *s, order *o) {
  gpu_writer *w = &m->w;
  bool groups = s->out->by_groups;
  char name[32];
  snprintf(name, sizeof name, "loop_%zu", s->index);
  gpu_put(w, "\n/* Loop %zu: stage %zu, axis %u, %zu lanes; parts are %s with %zu bytes of sums. */\n", s->index,
          s->loop->stage, s->loop->axis, s->loop->lanes, groups ? "groups" : "slots", s->out->part_bytes);
  put_place(m, s, name);
  gpu_put(w, "  for (gpu_size b = blockIdx.x; b < a.count; b += gridDim.x) {\n    const gpu_size part = a.first + b;\n"
             "    p.sums = a.sums + (part - a.base) * a.part_bytes;\n");
  if (groups) gpu_put(w, "    const gpu_size first = part, last = part + 1;\n");
  else
    gpu_put(w,
            "    const gpu_size first = part * a.groups / a.slots, last = (part + 1) * a.groups / a.slots;\n"
            "    EACH(e, %zu) ((T *)p.sums)[e] = 0;\n    __syncthreads();\n",
            s->out->part_bytes / (s->loop->lanes == 8 ? 8 : 4));
  gpu_put(w, "    for (gpu_size group = first; group < last; ++group) {\n      p.first = group * POINTS;\n");
  put_group(m, s, o);
  gpu_put(w, "    }\n  }\n}\n");
}

/* ---- The same, cut at wide products ---- */

enum { NARROWEST = 16 }; /* the shorter side of a product that is worth a call of a library */

static bool lies_in_tile(const gpu_maker *m, const gpu_site *s, tn_edge e) {
  size_t port = tn_port(m->p, e);
  return m->p->layout[port].axis && s->place[port] != TN_NOWHERE;
}

static bool is_cut(const gpu_maker *m, const gpu_site *s, size_t t) {
  const tn_node *node = m->p->nodes[s->loop->steps[t].node];
  bool lin = node->op->id == TN_OP_jet_lin, outer = node->op->id == TN_OP_jet_outer, some = false;
  if (s->loop->steps[t].run || (!lin && !outer)) return false;
  const tn_edge weights = node->inputs[lin ? node->n_outputs : 0];
  const tn_shape *shape = lin ? &m->p->nodes[weights.node]->shapes[weights.port] : &node->shapes[0];
  size_t a = shape->extent[0], b = shape->extent[1], pairs = (size_t)node->integer[0];
  if ((a > b ? a : b) <= GPU_FUSED_WIDTH || (a < b ? a : b) < NARROWEST) return false;
  for (uint32_t k = 0; lin && k < node->n_outputs; ++k)
    if (!lies_in_tile(m, s, node->inputs[k])) return false;
  for (size_t q = 0; outer && q < pairs; ++q) {
    bool z = lies_in_tile(m, s, node->inputs[q]), h = lies_in_tile(m, s, node->inputs[pairs + q]);
    if (z != h) return false;
    some = some || z;
  }
  return lin || some;
}

static size_t tile_at(const gpu_maker *m, const gpu_site *s, size_t port) {
  return m->p->layout[port].axis ? s->place[port] * (size_t)GPU_VECTOR : SIZE_MAX;
}

static tn_status describe_cut(const gpu_maker *m, const gpu_site *s, size_t t, gpu_cut *cut) {
  size_t i = s->loop->steps[t].node;
  const tn_node *node = m->p->nodes[i];
  bool lin = node->op->id == TN_OP_jet_lin;
  size_t inputs = lin ? node->n_outputs : node->n_inputs;
  TN_TRY(tn_arena_take(&m->out->arena, inputs, sizeof *cut->in, &cut->in));
  TN_TRY(tn_arena_take(&m->out->arena, node->n_outputs, sizeof *cut->out, &cut->out));
  cut->node = i;
  cut->sum = lin ? 0 : offset_of(s, i);
  for (size_t k = 0; k < inputs; ++k) cut->in[k] = tile_at(m, s, tn_port(m->p, node->inputs[k]));
  for (size_t k = 0; k < node->n_outputs; ++k) cut->out[k] = tile_at(m, s, m->p->port[i] + k);
  return TN_OK;
}

static void put_before_product(gpu_maker *m, const gpu_site *s, order *o, size_t t) {
  size_t i = s->loop->steps[t].node, port = m->p->port[i];
  const tn_node *node = m->p->nodes[i];
  if (node->op->id != TN_OP_jet_lin || !node->integer[1]) return;
  touch(m, s, o, port, m->p->layout[port].width, true);
  settle(m, o);
  gpu_put(&m->w, "      EACH(e, %zu) TILE(T, %u)[e] = DATA(const T, %zu)[e / %zuu];\n",
          m->p->layout[port].width * s->points, s->place[port], tn_port(m->p, node->inputs[node->n_outputs + 1]),
          s->points);
}

static void put_after_product(gpu_maker *m, const gpu_site *s, order *o, size_t t) {
  size_t i = s->loop->steps[t].node, port = m->p->port[i];
  const tn_node *node = m->p->nodes[i];
  for (uint32_t k = 0; node->op->id == TN_OP_jet_lin && tn_node_rounds(node) && k < node->n_outputs; ++k) {
    touch(m, s, o, port + k, m->p->layout[port + k].width, true);
    settle(m, o);
    gpu_put(&m->w, "      EACH(e, %zu) TILE(T, %u)[e] = F(stored)(load(TILE(const T, %u) + e), %s);\n",
            m->p->layout[port + k].width * s->points, s->place[port + k], s->place[port + k], gpu_format_of(node));
  }
  put_wholes(m, s, o, t);
}

/* The steps behind product `from` (SIZE_MAX: the first) up to the next, *to. */
static void put_cut(gpu_maker *m, const gpu_site *s, order *o, size_t from, const char *name, size_t *to) {
  size_t t = from == SIZE_MAX ? 0 : from + 1;
  gpu_put(&m->w, "\n");
  put_place(m, s, name);
  gpu_put(&m->w, "  const gpu_size part = a.first + blockIdx.x;\n  p.sums = a.sums + (part - a.base) * a.part_bytes;\n"
                 "  p.first = part * POINTS;\n  if (blockIdx.x < a.count) {\n");
  o->n_past = o->n_now = 0;
  if (from == SIZE_MAX && s->loop->n_sums)
    gpu_put(&m->w, "      EACH(e, %zu) ((T *)p.sums)[e] = 0;\n      __syncthreads();\n",
            s->out->part_bytes / (s->loop->lanes == 8 ? 8 : 4));
  if (from == SIZE_MAX) put_wholes_in(m, s, o);
  else put_after_product(m, s, o, from);
  for (; t < s->loop->n_steps && !is_cut(m, s, t); ++t) put_step(m, s, o, t);
  if (t < s->loop->n_steps) put_before_product(m, s, o, t);
  gpu_put(&m->w, "  }\n}\n");
  *to = t;
}

static tn_status put_cuts(gpu_maker *m, const gpu_site *s, order *o) {
  size_t products = 0, at = SIZE_MAX;
  for (size_t t = 0; t < s->loop->n_steps; ++t) products += is_cut(m, s, t);
  if (!products) return TN_OK;
  TN_TRY(tn_arena_take(&m->out->arena, products + 1, sizeof *s->out->cuts, &s->out->cuts));
  for (s->out->n_cuts = 0; s->out->n_cuts <= products; ++s->out->n_cuts) {
    gpu_cut *cut = &s->out->cuts[s->out->n_cuts];
    snprintf(cut->kernel, sizeof cut->kernel, "loop_%zu_cut_%zu", s->index, s->out->n_cuts);
    put_cut(m, s, o, at, cut->kernel, &at);
    cut->node = SIZE_MAX;
    if (s->out->n_cuts < products) TN_TRY(describe_cut(m, s, at, cut));
  }
  return TN_OK;
}

static tn_status put_all(gpu_maker *m, gpu_site *s, order *o) {
  TN_TRY(find_places(m, s));
  TN_TRY(find_sums(m, s));
  TN_TRY(find_weights(m, s));
  s->out->tile_bytes = (s->vectors ? s->vectors : 1) * GPU_VECTOR;
  gpu_put_dtype(m, s->loop->lanes == 8 ? TN_F64 : TN_F32);
  for (size_t t = 0; t < s->loop->n_steps; ++t) TN_TRY(put_function(m, s, t));
  o->capacity = 4 * m->p->n_ports + 64;
  TN_TRY(TN_NEW(o->capacity, &o->past));
  TN_TRY(TN_NEW(o->capacity, &o->now));
  put_kernel(m, s, o);
  TN_TRY(put_cuts(m, s, o));
  if (s->loop->n_sums) TN_TRY(gpu_put_sums(m, s));
  gpu_step step = {.kind = GPU_STEP_LOOP,
                   .stage = s->loop->stage,
                   .threads = (unsigned)s->threads,
                   .shared = s->shared + s->staging,
                   .loop = s->out};
  snprintf(step.kernel, sizeof step.kernel, "loop_%zu", s->index);
  return gpu_step_add(m, step);
}

tn_status gpu_put_loop(gpu_maker *m, size_t index) {
  const tn_loop *loop = &m->plan->loops[index];
  gpu_site s = {.loop = loop, .index = index, .points = loop->lanes * TN_GROUP_PANELS};
  order o = {0};
  tn_status status = tn_arena_take(&m->out->arena, 1, sizeof *s.out, &s.out);
  if (status == TN_OK) {
    s.out->loop = index;
    status = put_all(m, &s, &o);
  }
  tn_free(&s.place);
  tn_free(&s.weights);
  tn_free(&o.past);
  tn_free(&o.now);
  return status == TN_OK ? m->w.status : status;
}
