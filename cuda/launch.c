/* launch.c: the schedule of a run, in the order of the device's stream.
 *
 *   numbers and parameters over; stage by stage: values without points, loops, ends of sums, casts; outputs back
 *
 * A loop's parts (args.h: groups or slots) are dealt to a grid of as many blocks as the device holds at once, each
 * with one tile, so memory for tiles does not grow with points. Sums are kept a part, then added up to slots in the
 * order of groups, slots to subtrees, and subtrees, which other ranks may have computed, to the sum: the tree of
 * exec.c. If the parts of a loop would take more than `sums_limit` bytes, it runs in several launches, and the slots
 * take up the parts of each before the next overwrites them.
 */
#include "cuda/executor.h"

#include <stdio.h>
#include <string.h>

enum {
  BYTES_A_BLOCK = 2048 /* of sums */,
  MOST_BLOCKS = 4096,
  TILES_SHARE = 4 /* of the device's memory at most, a fourth */
};

/* Are parts groups? */
static bool by_groups(const gpu_step *step, const gpu_code *code) {
  return step->loop->by_groups || code->chunked;
}

static const tn_loop *loop_of(const tn_exec *exec, const gpu_step *step) {
  return &exec->plan->loops[step->loop->loop];
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t blocks_for(size_t bytes) { return least(bytes / BYTES_A_BLOCK + 1, MOST_BLOCKS); }

tn_status gpu_launch(gpu_context *g, CUfunction f, size_t blocks, unsigned threads, size_t shared,
                     void *arguments) {
  void *parameters[] = {arguments};
  GPU_TRY(
      g, cuLaunchKernel,
      (f, (unsigned)blocks, 1, 1, threads, 1, 1, (unsigned)shared, g->stream, parameters, NULL));
  return TN_OK;
}

tn_status gpu_sums_code(gpu_context *g, gpu_module *module, const gpu_step *step, size_t n_sums,
                        gpu_code *code) {
  char name[48];
  if (!n_sums)
    return TN_OK;
  if (step->loop->by_groups || step->loop->n_cuts) {
    snprintf(name, sizeof name, "slots_%zu", step->loop->loop);
    TN_TRY(gpu_function(g, module, name, &code->slots));
  }
  snprintf(name, sizeof name, "tree_%zu", step->loop->loop);
  TN_TRY(gpu_function(g, module, name, &code->tree));
  snprintf(name, sizeof name, "finish_%zu", step->loop->loop);
  return gpu_function(g, module, name, &code->finish);
}

/* ---- How a loop is cut ---- */

static tn_status choose_blocks(gpu_context *g, const gpu_step *step, const gpu_code *code,
                               gpu_span *s) {
  int resident = 0;
  GPU_TRY(g, cuOccupancyMaxActiveBlocksPerMultiprocessor,
          (&resident, code->run, (int)step->threads, step->shared));
  size_t most = (size_t)(resident > 0 ? resident : 1) * (size_t)g->multiprocessors;
  size_t fitting = g->bytes / TILES_SHARE / step->loop->tile_bytes; /* very large programs */
  most = least(most, fitting ? fitting : 1);
  s->blocks = least(most, s->chunk);
  return TN_OK;
}

/* Subtrees of the slots of all ranks, in the order of slots. */
static void find_trees(const tn_exec *exec, gpu_span *s) {
  size_t ranks = exec->comm ? tn_comm_size(exec->comm) : 1,
         me = exec->comm ? tn_comm_rank(exec->comm) : 0;
  s->n_trees = 0;
  for (size_t r = 0; r < ranks; ++r) {
    size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES],
        n = tn_subtrees(s->slots, ranks, r, first, size);
    if (r == me) {
      s->first_tree = s->n_trees;
      s->own_trees = n;
    }
    for (size_t k = 0; k < n; ++k) {
      unsigned char level = 0;
      while ((size_t)1 << level < size[k])
        ++level;
      s->level[s->n_trees++] = level;
    }
  }
}

tn_status gpu_span_of(const tn_exec *exec, gpu_exec *x, size_t index, size_t *tile, size_t *sums,
                      size_t *slot_sums) {
  const gpu_step *step = &x->source->steps[index];
  const gpu_loop *l = step->loop;
  const tn_loop *loop = loop_of(exec, step);
  gpu_code *code = &x->code[index];
  gpu_span *s = &code->span;
  s->points = exec->extent[loop->axis];
  s->groups = tn_groups(s->points, loop->lanes);
  s->slots = tn_slots(exec, loop->axis, loop->lanes);
  tn_own_slots(exec, loop->axis, loop->lanes, &s->first_slot, &s->last_slot);
  bool groups = by_groups(step, code);
  s->first = groups ? s->first_slot * s->groups / s->slots : s->first_slot;
  s->count = (groups ? s->last_slot * s->groups / s->slots : s->last_slot) - s->first;
  s->chunk = s->count ? s->count : 1;
  size_t fitting = l->part_bytes ? x->sums_limit / l->part_bytes : s->chunk;
  if (loop->n_sums && groups && fitting < s->chunk)
    s->chunk = fitting ? fitting : 1;
  if (code->chunked)
    s->blocks = s->chunk = gpu_chunked_groups(x, l, s->groups);
  else
    TN_TRY(choose_blocks(x->g, step, code, s));
  if (s->blocks * l->tile_bytes > *tile)
    *tile = s->blocks * l->tile_bytes;
  if (!loop->n_sums)
    return TN_OK;
  size_t own = s->last_slot - s->first_slot;
  if (s->chunk * l->part_bytes > *sums)
    *sums = s->chunk * l->part_bytes;
  if (groups && own * l->part_bytes > *slot_sums)
    *slot_sums = own * l->part_bytes;
  find_trees(exec, s);
  if (s->n_trees * l->part_bytes == s->trees_bytes)
    return TN_OK;
  gpu_give(x->g, &s->trees);
  s->trees_bytes = 0;
  TN_TRY(gpu_take(x->g, s->n_trees * l->part_bytes, &s->trees));
  s->trees_bytes = s->n_trees * l->part_bytes;
  return TN_OK;
}

/* ---- A loop ---- */

gpu_loop_args gpu_loop_arguments(const gpu_exec *x, const gpu_step *step, const gpu_span *s) {
  return (gpu_loop_args){
      .data = (void *const *)(uintptr_t)x->data_table,
      .leaf = (const void *const *)(uintptr_t)x->leaf_table,
      .tile = (char *)(uintptr_t)x->tile.at,
      .sums = (char *)(uintptr_t)x->sums.at,
      .tile_bytes = step->loop->tile_bytes,
      .part_bytes = step->loop->part_bytes,
      .points = s->points,
      .groups = s->groups,
      .slots = s->slots,
  };
}

tn_status gpu_add_parts(gpu_exec *x, size_t index, size_t first, size_t count) {
  const gpu_code *code = &x->code[index];
  const gpu_span *s = &code->span;
  size_t n_slots = s->last_slot - s->first_slot, bytes = x->source->steps[index].loop->part_bytes;
  gpu_slots_args a = {
      .sums = (const char *)(uintptr_t)x->sums.at,
      .slot_sums = (char *)(uintptr_t)x->slot_sums.at,
      .part_bytes = bytes,
      .groups = s->groups,
      .slots = s->slots,
      .first = first,
      .count = count,
      .first_slot = s->first_slot,
      .n_slots = n_slots,
      .fresh = first == s->first,
  };
  if (!code->slots || !n_slots)
    return TN_OK; /* no sums; more ranks than slots */
  return gpu_launch(x->g, code->slots, blocks_for(bytes * n_slots), GPU_THREADS, 0, &a);
}

/* Parts [first, first + count) of the loop, and what they add to slots. */
static tn_status run_parts(gpu_exec *x, size_t index, size_t first, size_t count) {
  const gpu_step *step = &x->source->steps[index];
  const gpu_code *code = &x->code[index];
  gpu_loop_args a = gpu_loop_arguments(x, step, &code->span);
  a.first = a.base = first;
  a.count = count;
  if (count)
    TN_TRY(gpu_launch(x->g, code->run, least(code->span.blocks, count), step->threads, step->shared,
                      &a));
  return step->loop->by_groups ? gpu_add_parts(x, index, first, count) : TN_OK;
}

/* This rank's subtrees, from its slots, to where all subtrees of the loop lie. */
static tn_status add_slots(const tn_exec *exec, gpu_exec *x, size_t index) {
  const gpu_code *code = &x->code[index];
  const gpu_span *s = &code->span;
  size_t ranks = exec->comm ? tn_comm_size(exec->comm) : 1,
         me = exec->comm ? tn_comm_rank(exec->comm) : 0;
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES],
      bytes = x->source->steps[index].loop->part_bytes;
  if (!s->own_trees)
    return TN_OK;
  gpu_tree_args a = {
      .slot_sums =
          (const char *)(uintptr_t)(by_groups(&x->source->steps[index], code) ? x->slot_sums.at
                                                                              : x->sums.at),
      .trees = (char *)(uintptr_t)(s->trees + s->first_tree * bytes),
      .part_bytes = bytes,
      .n = tn_subtrees(s->slots, ranks, me, first, size),
  };
  for (size_t k = 0; k < a.n; ++k) {
    a.first[k] = first[k] - s->first_slot;
    a.size[k] = size[k];
  }
  return gpu_launch(x->g, code->tree, blocks_for(a.n * bytes), GPU_THREADS, 0, &a);
}

static tn_status run_loop(const tn_exec *exec, gpu_exec *x, size_t index) {
  const gpu_code *code = &x->code[index];
  const gpu_span *s = &code->span;
  if (code->chunked)
    TN_TRY(gpu_chunked_run(exec, x, index));
  else
    for (size_t done = 0; done == 0 || done < s->count;
         done += s->chunk) /* once at least: sums begin as zeros */
      TN_TRY(run_parts(x, index, s->first + done, least(s->chunk, s->count - done)));
  return code->tree ? add_slots(exec, x, index) : TN_OK;
}

static tn_status finish_loop(gpu_exec *x, size_t index) {
  const gpu_code *code = &x->code[index];
  gpu_finish_args a = {
      .data = (void *const *)(uintptr_t)x->data_table,
      .trees = (const char *)(uintptr_t)code->span.trees,
      .part_bytes = x->source->steps[index].loop->part_bytes,
      .n = code->span.n_trees,
  };
  memcpy(a.level, code->span.level, sizeof a.level);
  return code->finish ? gpu_launch(x->g, code->finish, blocks_for(a.part_bytes), GPU_THREADS, 0, &a)
                      : TN_OK;
}

/* ---- Ranks ---- */

/* The panels of each rank of a value in a whole array. */
static void pieces_of_port(const tn_exec *exec, const gpu_exec *x, size_t port, gpu_piece *piece) {
  const tn_layout *layout = &exec->program->layout[port];
  size_t panel = layout->width * layout->lanes * layout->size;
  for (size_t r = 0; r < tn_comm_size(exec->comm); ++r) {
    size_t first, last;
    tn_rank_points(exec, layout->axis, layout->lanes, r, &first, &last);
    first /= layout->lanes;
    last = tn_panels(last, layout->lanes);
    piece[r] = last > first ? (gpu_piece){x->data[port] + first * panel, (last - first) * panel}
                            : (gpu_piece){0, 0};
  }
}

/* The subtrees of each rank of a loop's sums. */
static void pieces_of_sums(const tn_exec *exec, const gpu_exec *x, size_t index, gpu_piece *piece) {
  const gpu_span *s = &x->code[index].span;
  size_t bytes = x->source->steps[index].loop->part_bytes, at = 0;
  for (size_t r = 0; r < tn_comm_size(exec->comm); ++r) {
    size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES];
    size_t n = tn_subtrees(s->slots, tn_comm_size(exec->comm), r, first, size);
    piece[r] = (gpu_piece){s->trees + at * bytes, n * bytes};
    at += n;
  }
}

/* Is the port made by a loop of this stage, in a whole array? Casts run on every rank. */
static bool made_here(const tn_exec *exec, size_t stage, size_t node, size_t port) {
  return exec->plan->whole[port] && exec->plan->stage[node] == stage &&
         !tn_changes_panels(exec->program, node);
}

/* Have steps [from, to) of a stage anything to gather? The same on every rank. */
static bool gathers(const tn_exec *exec, const gpu_exec *x, size_t from, size_t to) {
  bool found = false;
  for (size_t i = from; i < to; ++i)
    found = found || x->source->steps[i].kind == GPU_STEP_LOOP;
  return found && exec->comm &&
         tn_comm_size(exec->comm) > 1; /* a loop makes a sum or a whole array */
}

static tn_status gather_stage(tn_exec *exec, gpu_exec *x, tn_status status, size_t from,
                              size_t to) {
  const tn_program *p = exec->program;
  size_t stage = x->source->steps[from].stage, ranks = tn_comm_size(exec->comm), n = 0;
  gpu_piece *piece = NULL;
  if (status == TN_OK)
    status = TN_NEW((p->n_ports + to - from) * ranks + 1, &piece);
  for (size_t i = from; i < to && status == TN_OK; ++i)
    if (x->code[i].tree)
      pieces_of_sums(exec, x, i, &piece[n++ * ranks]);
  for (size_t i = 0; i < p->n_nodes && status == TN_OK; ++i)
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k)
      if (made_here(exec, stage, i, p->port[i] + k))
        pieces_of_port(exec, x, p->port[i] + k, &piece[n++ * ranks]);
  status = gpu_gather(exec, x, "sums and values of a stage on the device", status, n, piece);
  tn_free(&piece);
  return status;
}

/* ---- A run ---- */

static tn_status run_fixed(const tn_exec *exec, gpu_exec *x, size_t index) {
  const gpu_step *step = &x->source->steps[index];
  gpu_fixed_args a = {.data = (void *const *)(uintptr_t)x->data_table,
                      .points = (const gpu_size *)(uintptr_t)x->points_table};
  size_t blocks = step->blocks;
  if (step->kind == GPU_STEP_CAST)
    blocks = least(exec->extent[step->axis] / 64 + 1, MOST_BLOCKS);
  return gpu_launch(x->g, x->code[index].run, blocks, step->threads, step->shared, &a);
}

/* Steps [from, to) are those of a stage: values without points, loops; then ends of sums, casts. */
static tn_status begin_stage(const tn_exec *exec, gpu_exec *x, size_t from, size_t to) {
  const gpu_step *steps = x->source->steps;
  for (size_t i = from; i < to; ++i) {
    if (steps[i].kind == GPU_STEP_FIXED)
      TN_TRY(run_fixed(exec, x, i));
    if (steps[i].kind == GPU_STEP_LOOP)
      TN_TRY(run_loop(exec, x, i));
  }
  return TN_OK;
}

static tn_status end_stage(const tn_exec *exec, gpu_exec *x, size_t from, size_t to) {
  const gpu_step *steps = x->source->steps;
  for (size_t i = from; i < to; ++i)
    if (steps[i].kind == GPU_STEP_LOOP)
      TN_TRY(finish_loop(x, i));
  for (size_t i = from; i < to; ++i)
    if (steps[i].kind == GPU_STEP_CAST)
      TN_TRY(run_fixed(exec, x, i));
  return TN_OK;
}

static tn_status numbers_over(gpu_exec *x) {
  gpu_context *g = x->g;
  if (x->varying_bytes)
    GPU_TRY(g, cuMemcpyHtoDAsync, (x->fixed, x->pinned, x->varying_bytes, g->stream));
  return TN_OK;
}

static tn_status outputs_back(gpu_exec *x) {
  gpu_context *g = x->g;
  if (x->outputs_bytes)
    GPU_TRY(g, cuMemcpyDtoHAsync,
            (x->pinned + x->varying_bytes, x->fixed + x->outputs_at, x->outputs_bytes, g->stream));
  return TN_OK;
}

tn_status gpu_enqueue(tn_exec *exec, gpu_exec *x, tn_status status) {
  const gpu_step *steps = x->source->steps;
  if (status == TN_OK)
    status = numbers_over(x);
  for (size_t from = 0, to; from < x->source->n_steps; from = to) {
    for (to = from + 1; to < x->source->n_steps && steps[to].stage == steps[from].stage;)
      ++to;
    if (status == TN_OK)
      status = begin_stage(exec, x, from, to);
    if (gathers(exec, x, from, to))
      TN_TRY(gather_stage(exec, x, status, from, to)); /* all ranks turn back */
    if (status == TN_OK)
      status = end_stage(exec, x, from, to);
  }
  return status == TN_OK ? outputs_back(x) : status;
}
