/* backend.h: what a device fills in to run programs (cuda/ does), and what it sees of them.
 *
 * A backend compiles a program once, and runs it in executors that tensor/ makes: binding, extents, checking and
 * reading stay in exec.c; the backend has the storage and the work. It works from the plan of the streamed executor
 * (plan.h): stages of nodes without points, loops over points with their steps and sums, casts. A node without a
 * kernel is refused by compile, by name and place; nothing falls back to the host.
 *
 * Slots, groups and panels are those of exec.c, and sums keep their order, so own kernels give the bits of the
 * streamed executor. With ranks, a rank computes the slots tn_own_slots and gathers by tn_gather_* (comm of the
 * executor), or by collectives of its own on the same parts.
 */
#ifndef TENSOR_BACKEND_H
#define TENSOR_BACKEND_H

#include "tensor/exec.h"
#include "tensor/factor.h"
#include "tensor/plan.h"

typedef struct tn_backend {
  const char *name; /* "cuda" */
  void (*close)(tn_device *device);
  /* "NVIDIA H200, 132 multiprocessors, 139 GiB": for banners; the device's. */
  const char *(*describe)(const tn_device *device);
  /* Does the node have a kernel? If not, `why` says what is missing. */
  bool (*supports)(const tn_device *device, const tn_program *program, size_t node, char why[160]);
  /* The code of an executor: kernels, storage that does not depend on extents. exec->program, exec->comm and
   * exec->plan are set; *state is the backend's own. If it fails, it leaves nothing: exec_free is not called. */
  tn_status (*exec_new)(tn_device *device, tn_exec *exec, void **state);
  /* New extents are known (exec->extent): storage for them. exec->point_bytes counts it. */
  tn_status (*extents)(tn_exec *exec, void *state);
  /* A leaf was bound: may begin to copy it. */
  tn_status (*bound)(tn_exec *exec, void *state, size_t node);
  /* exec->number, and in exec->data the host's numbers of leaves without points, are those of this run. With ranks,
   * calls are the same on all (ranks.c); a failure that the others cannot know goes into exec->failed before the
   * next tn_gather_*, which then ends the run on all ranks. */
  tn_status (*run)(tn_exec *exec, void *state);
  /* Output i of the last run, row-major in its buffer's dtype, to host memory. */
  tn_status (*output)(tn_exec *exec, void *state, size_t i, void *to);
  void (*exec_free)(tn_exec *exec, void *state);
  /* n rows op(a), or op(a, b), as tn_op_apply: host arrays of tn_dtype_compute(dtype). provider: NULL or "own", or
   * a library of the backend by name ("cudnn"). */
  tn_status (*apply)(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n,
                     const void *a, const void *b, double exponent, void *y);
  /* softmax, or layer_norm with epsilon, over each row of a[rows x width], by a library of the backend. */
  tn_status (*apply_rows)(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t rows,
                          size_t width, double epsilon, const void *a, void *y);
  const tn_factor *(*factor)(tn_device *device);
  /* Before the first executor with ranks: collectives of the device itself (NCCL). */
  tn_status (*join)(tn_device *device, tn_comm *comm);
} tn_backend;

struct tn_device {
  const tn_backend *backend; /* first in the backend's own struct */
};

/* ---- Parts of ranks (ranks.c) ----------------------------------------------------------------------
 * Rank r of R owns the slots [r G / R, (r + 1) G / R) of a loop. A range of slots is a list of whole subtrees of
 * the tree by index, the largest first that fit; each rank adds up its own, all gather them, and every rank ends
 * the tree. */
void tn_own_slots(const tn_exec *exec, tn_axis axis, size_t lanes, size_t *first, size_t *last);
/* The points [*first, *last) of rank r's slots. */
void tn_rank_points(const tn_exec *exec, tn_axis axis, size_t lanes, size_t rank, size_t *first, size_t *last);
/* Subtrees [first[k], first[k] + size[k]) of the slots of rank r, k < the result (at most 2 log2 64 = 12). */
enum { TN_MOST_SUBTREES = 16 };
size_t tn_subtrees(size_t slots, size_t ranks, size_t rank, size_t *first, size_t *size);
/* Sums over points that this rank has of its own slots (exec->partial) become those of all slots: combined as by
 * tn_combine_slots on every rank. nodes: the sums of loops that ran together. */
tn_status tn_gather_sums(tn_exec *exec, size_t n, const uint32_t *nodes) TN_MUST_USE;
/* The panels of other ranks of a value with points that lies in a whole array. */
tn_status tn_gather_points(tn_exec *exec, size_t n, const size_t *ports) TN_MUST_USE;

/* For collectives of the device itself (comm.c): the time limit in force, seconds; and, after one of them has failed
 * or passed it, who is gone: TN_EPEER names the ranks that do not answer a roll call (every later call of comm then
 * fails at once), TN_OK if all answer. Not a collective. */
double tn_comm_limit_of(const tn_comm *comm);
/* While this rank waits elsewhere, again and again: answers roll calls of others. */
void tn_comm_attend(tn_comm *comm);
tn_status tn_comm_missing(tn_comm *comm, const char *what) TN_MUST_USE;

#endif
