/* ranks.c: what executors exchange with other ranks.
 *
 * Every rank has all leaves and computes values without points itself; of a loop over points rank r of R computes
 * the slots [r G / R, (r + 1) G / R) and nothing else. Two things then go round:
 *   - sums over points. A range of slots is a list of whole subtrees of the tree by index, at most 2 log2 G; a rank
 *     adds up its own, all ranks gather them, and each ends the tree: the additions are those of one rank alone, in
 *     the same order. All sums of the loops that ran together go in one call.
 *   - values with points in whole arrays that somebody reads in full: casts between panel widths (f64 and f32 cut
 *     points into other slots), opaque operations of users, outputs. Leaves are filled in on each rank instead.
 * Which calls a run makes depends on the program and the numbers of points alone, never on the rank.
 *
 * Failures. A rank that cannot go on (no memory, a callback) does not leave: it computes nothing more and takes
 * part in the next call of the run. Each call carries the ranks' statuses; where one is not TN_OK, all ranks end the
 * run there, with its text. So a failure must be followed by a call of the same run: loops end in a sum or a whole
 * array, storage for new extents is agreed on at once (exec.c), room for what goes round is part of it, and a run
 * with opaque operations of users, which may come last, ends with an agreement. What fails before a run begins, as an
 * unbound leaf, or between runs ends on that rank alone, and the program is to abort the others.
 */
#include "tensor/backend.h"

#include <string.h>

enum { HEADER = 8, SLOTS = 64 }; /* bytes: a status; most slots of a loop (exec.c) */

struct tn_ranks {
  char *send, *recv;             /* owned */
  size_t send_room, recv_room;   /* bytes */
  size_t send_wish, recv_wish;   /* most that is known to be needed */
  size_t *bytes;                 /* of each rank's part */
  bool *missing;                 /* of each port: panels of other ranks are not here */
  size_t *ports;                 /* room for a list */
  bool ends_agreed;              /* a run ends with an agreement */
};

tn_status tn_ranks_new(tn_exec *exec) {
  const tn_program *p = exec->program;
  TN_TRY(TN_NEW(1, &exec->ranks));
  struct tn_ranks *r = exec->ranks;
  TN_TRY(TN_NEW(tn_comm_size(exec->comm), &r->bytes));
  TN_TRY(TN_NEW(p->n_ports + 1, &r->missing));
  TN_TRY(TN_NEW(p->n_ports + 1, &r->ports));
  for (size_t i = 0; i < p->n_nodes; ++i)
    if (p->nodes[i]->op->custom && p->nodes[i]->op->custom->forward) r->ends_agreed = true;
  return TN_OK;
}

void tn_ranks_free(tn_exec *exec) {
  if (!exec->ranks) return;
  tn_free(&exec->ranks->send);
  tn_free(&exec->ranks->recv);
  tn_free(&exec->ranks->bytes);
  tn_free(&exec->ranks->missing);
  tn_free(&exec->ranks->ports);
  tn_free(&exec->ranks);
}

void tn_ranks_begin(tn_exec *exec) {
  const tn_program *p = exec->program;
  for (size_t i = 0; exec->ranks && i < p->n_nodes; ++i)
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k)
      exec->ranks->missing[p->port[i] + k] = p->layout[p->port[i] + k].axis && !tn_changes_panels(p, i);
}

tn_status tn_ranks_end(tn_exec *exec, tn_status status) {
  if (!exec->ranks || !exec->ranks->ends_agreed) return status;
  return tn_comm_agree(exec->comm, "the end of a run", status);
}

/* ---- Parts ---- */

static void slots_of_rank(size_t slots, size_t ranks, size_t rank, size_t *first, size_t *last) {
  *first = rank * slots / ranks;
  *last = (rank + 1) * slots / ranks;
}

void tn_own_slots(const tn_exec *exec, tn_axis axis, size_t lanes, size_t *first, size_t *last) {
  slots_of_rank(tn_slots(exec, axis, lanes), tn_comm_size(exec->comm), tn_comm_rank(exec->comm), first, last);
}

static void panels_of_rank(const tn_exec *exec, tn_axis axis, size_t lanes, size_t rank, size_t *first, size_t *last) {
  size_t begin, end, none;
  slots_of_rank(tn_slots(exec, axis, lanes), tn_comm_size(exec->comm), rank, &begin, &end);
  *first = *last = 0;
  if (begin == end) return;
  tn_slot_panels(exec, axis, lanes, begin, first, &none);
  tn_slot_panels(exec, axis, lanes, end - 1, &none, last);
}

void tn_rank_points(const tn_exec *exec, tn_axis axis, size_t lanes, size_t rank, size_t *first, size_t *last) {
  panels_of_rank(exec, axis, lanes, rank, first, last);
  *first *= lanes;
  *last *= lanes;
  if (*last > exec->extent[axis]) *last = exec->extent[axis];
}

size_t tn_subtrees(size_t slots, size_t ranks, size_t rank, size_t *first, size_t *size) {
  size_t at, end, n = 0;
  slots_of_rank(slots, ranks, rank, &at, &end);
  for (; at < end; at += size[n++]) {
    size_t most = 1; /* a subtree of `most` slots begins at a multiple of `most` */
    while (2 * most <= end - at && at % (2 * most) == 0) most *= 2;
    first[n] = at;
    size[n] = most;
  }
  return n;
}

size_t tn_gathered_sums(size_t slots, size_t ranks) {
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES], n = 0;
  for (size_t r = 0; r < ranks; ++r) n += tn_subtrees(slots, ranks, r, first, size);
  return n;
}

static size_t slots_of_sum(const tn_exec *exec, size_t node) {
  const tn_program *p = exec->program;
  const tn_phase *phase = &p->phases[p->phase_of[node]];
  return tn_slots(exec, phase->axis, phase->lanes);
}

static size_t bytes_of_sum(const tn_exec *exec, size_t node) {
  const tn_layout *layout = &exec->program->layout[exec->program->port[node]];
  return layout->width * layout->size;
}

static size_t bytes_of_panel(const tn_layout *layout) { return layout->width * layout->lanes * layout->size; }

/* ---- A gather with statuses ---- */

/* Sets the sizes of all parts; the sum of them. */
static size_t measure_sums(const tn_exec *exec, size_t n, const uint32_t *nodes) {
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES], total = 0, ranks = tn_comm_size(exec->comm);
  for (size_t r = 0; r < ranks; total += exec->ranks->bytes[r++]) {
    exec->ranks->bytes[r] = HEADER;
    for (size_t i = 0; i < n; ++i)
      exec->ranks->bytes[r] +=
          tn_subtrees(slots_of_sum(exec, nodes[i]), ranks, r, first, size) * bytes_of_sum(exec, nodes[i]);
  }
  return total;
}

static size_t measure_points(const tn_exec *exec, size_t n, const size_t *ports) {
  size_t total = 0;
  for (size_t r = 0; r < tn_comm_size(exec->comm); total += exec->ranks->bytes[r++]) {
    exec->ranks->bytes[r] = HEADER;
    for (size_t i = 0; i < n; ++i) {
      const tn_layout *layout = &exec->program->layout[ports[i]];
      size_t first, last;
      panels_of_rank(exec, layout->axis, layout->lanes, r, &first, &last);
      exec->ranks->bytes[r] += (last - first) * bytes_of_panel(layout);
    }
  }
  return total;
}

static void note_wish(tn_exec *exec, size_t total) {
  struct tn_ranks *r = exec->ranks;
  size_t own = r->bytes[tn_comm_rank(exec->comm)];
  if (own > r->send_wish) r->send_wish = own;
  if (total > r->recv_wish) r->recv_wish = total;
}

static tn_status make_room(size_t wish, size_t *room, char **out) {
  if (wish <= *room) return TN_OK;
  tn_free(out);
  *room = 0;
  TN_TRY(tn_new(wish, 1, out));
  *room = wish;
  return TN_OK;
}

static tn_status grow(struct tn_ranks *r) {
  TN_TRY(make_room(r->send_wish, &r->send_room, &r->send));
  return make_room(r->recv_wish, &r->recv_room, &r->recv);
}

tn_status tn_make_room_to_gather(tn_exec *exec) {
  if (!exec->ranks) return TN_OK;
  TN_TRY(grow(exec->ranks));
  exec->point_bytes += exec->ranks->send_room + exec->ranks->recv_room;
  return TN_OK;
}

void tn_wish_to_gather_sums(tn_exec *exec, size_t n, const uint32_t *nodes) {
  if (exec->ranks && n) note_wish(exec, measure_sums(exec, n, nodes));
}

static size_t list_missing(tn_exec *exec, size_t n, const size_t *ports, bool leaves);

void tn_wish_to_complete(tn_exec *exec, size_t n, const size_t *ports) {
  if (!exec->ranks) return;
  tn_ranks_begin(exec);
  size_t count = list_missing(exec, n, ports, false);
  if (count) note_wish(exec, measure_points(exec, count, exec->ranks->ports));
}

/* Parts are measured and, after the header, packed: sends this rank's, receives all. */
static tn_status exchange(tn_exec *exec, const char *what) {
  const struct tn_ranks *r = exec->ranks;
  uint64_t status = exec->failed;
  bool fine = true;
  memcpy(r->send, &status, HEADER);
  TN_TRY(tn_comm_gather(exec->comm, what, r->bytes, r->send, r->recv));
  const char *from = r->recv;
  for (size_t k = 0; k < tn_comm_size(exec->comm); from += r->bytes[k++]) {
    memcpy(&status, from, HEADER);
    fine = fine && status == TN_OK;
  }
  return fine ? TN_OK : tn_comm_agree(exec->comm, what, exec->failed); /* which is not TN_OK somewhere */
}

/* ---- Sums ---- */

/* Subtrees of all ranks are in their first slots: the additions above them. */
static void end_tree(tn_exec *exec, size_t node, size_t slots) {
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES], done[SLOTS], ranks = tn_comm_size(exec->comm);
  for (size_t r = 0; r < ranks; ++r)
    for (size_t k = 0, n = tn_subtrees(slots, ranks, r, first, size); k < n; ++k)
      for (size_t s = first[k]; s < first[k] + size[k]; ++s) done[s] = size[k];
  for (size_t stride = 1; stride < slots; stride *= 2)
    for (size_t s = 0; s + stride < slots; s += 2 * stride)
      if (done[s] < 2 * stride) tn_add_slots(exec, node, s, s + stride);
}

static void pack_sums(tn_exec *exec, size_t n, const uint32_t *nodes) {
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES];
  char *to = exec->ranks->send + HEADER;
  for (size_t i = 0; i < n; ++i) {
    size_t count = tn_subtrees(slots_of_sum(exec, nodes[i]), tn_comm_size(exec->comm), tn_comm_rank(exec->comm),
                               first, size);
    for (size_t k = 0; k < count; ++k, to += bytes_of_sum(exec, nodes[i])) {
      for (size_t stride = 1; stride < size[k]; stride *= 2)
        for (size_t s = first[k]; s < first[k] + size[k]; s += 2 * stride)
          tn_add_slots(exec, nodes[i], s, s + stride);
      memcpy(to, (char *)exec->partial[nodes[i]] + first[k] * exec->partial_bytes[nodes[i]],
             bytes_of_sum(exec, nodes[i]));
    }
  }
}

static void unpack_sums(tn_exec *exec, size_t n, const uint32_t *nodes) {
  size_t first[TN_MOST_SUBTREES], size[TN_MOST_SUBTREES], ranks = tn_comm_size(exec->comm);
  const char *from = exec->ranks->recv;
  for (size_t r = 0; r < ranks; ++r) {
    from += HEADER;
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0, m = tn_subtrees(slots_of_sum(exec, nodes[i]), ranks, r, first, size); k < m;
           ++k, from += bytes_of_sum(exec, nodes[i]))
        memcpy((char *)exec->partial[nodes[i]] + first[k] * exec->partial_bytes[nodes[i]], from,
               bytes_of_sum(exec, nodes[i]));
  }
}

tn_status tn_gather_sums(tn_exec *exec, size_t n, const uint32_t *nodes) {
  if (exec->comm && n) {
    note_wish(exec, measure_sums(exec, n, nodes));
    TN_TRY(grow(exec->ranks));
    if (exec->failed == TN_OK) pack_sums(exec, n, nodes);
    TN_TRY(exchange(exec, "sums over points"));
    unpack_sums(exec, n, nodes);
  }
  for (size_t i = 0; i < n; ++i) {
    if (!exec->comm) tn_combine_slots(exec, nodes[i], slots_of_sum(exec, nodes[i]));
    else {
      end_tree(exec, nodes[i], slots_of_sum(exec, nodes[i]));
      tn_end_sum(exec, nodes[i]);
    }
  }
  return TN_OK;
}

/* ---- Values with points ---- */

tn_status tn_gather_points(tn_exec *exec, size_t n, const size_t *ports) {
  const tn_program *p = exec->program;
  if (!exec->comm || !n) return TN_OK;
  size_t own = tn_comm_rank(exec->comm), first, last;
  note_wish(exec, measure_points(exec, n, ports));
  TN_TRY(grow(exec->ranks));
  char *to = exec->ranks->send + HEADER;
  for (size_t i = 0; i < n; ++i) {
    const tn_layout *layout = &p->layout[ports[i]];
    size_t panel = bytes_of_panel(layout);
    panels_of_rank(exec, layout->axis, layout->lanes, own, &first, &last);
    if (first < last) memcpy(to, (char *)exec->data[ports[i]] + first * panel, (last - first) * panel);
    to += (last - first) * panel;
  }
  TN_TRY(exchange(exec, "values at points"));
  const char *from = exec->ranks->recv;
  for (size_t r = 0; r < tn_comm_size(exec->comm); ++r) {
    from += HEADER;
    for (size_t i = 0; i < n; ++i) {
      const tn_layout *layout = &p->layout[ports[i]];
      size_t panel = bytes_of_panel(layout);
      panels_of_rank(exec, layout->axis, layout->lanes, r, &first, &last);
      if (r != own && first < last)
        memcpy((char *)exec->data[ports[i]] + first * panel, from, (last - first) * panel);
      from += (last - first) * panel;
    }
  }
  return TN_OK;
}

/* The node of a port: the last whose ports begin there or before. */
static bool is_leaf_port(const tn_program *p, size_t port) {
  size_t low = 0, high = p->n_nodes; /* the last node whose ports begin at `port` or before */
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (p->port[middle] <= port) low = middle;
    else high = middle;
  }
  return p->nodes[low]->op->class_ == TN_LEAF;
}

/* Of `ports`, those that are not complete and leaves, or no leaves, each once, into ranks->ports. */
static size_t list_missing(tn_exec *exec, size_t n, const size_t *ports, bool leaves) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!exec->ranks->missing[ports[i]] || is_leaf_port(exec->program, ports[i]) != leaves) continue;
    exec->ranks->missing[ports[i]] = false;
    exec->ranks->ports[count++] = ports[i];
  }
  return count;
}

static void fill_leaf(tn_exec *exec, size_t port) {
  const tn_program *p = exec->program;
  tn_frame frame = {.exec = exec, .data = exec->data, .slot = SIZE_MAX, .scratch = exec->scratch};
  size_t node = 0;
  while (p->port[node] != port) ++node;
  tn_run_node(&frame, node, 0, tn_panels(exec->extent[p->layout[port].axis], p->layout[port].lanes));
}

tn_status tn_complete(tn_exec *exec, size_t n, const size_t *ports) {
  if (!exec->ranks) return TN_OK;
  size_t count = list_missing(exec, n, ports, true);
  for (size_t i = 0; i < count; ++i) fill_leaf(exec, exec->ranks->ports[i]);
  count = list_missing(exec, n, ports, false);
  return tn_gather_points(exec, count, exec->ranks->ports);
}
