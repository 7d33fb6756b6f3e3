/* backend.c: the backend `cuda` as tensor/ sees it.
 *
 * Each slot enters the device first, whichever thread it is called by, and leaves it at the end, so what is behind
 * the slots runs in one thread at a time with the device's context current.
 */
#include "cuda/context.h"
#include "cuda/source.h"

void gpu_close(tn_device *device); /* context.c */

static const char *describe(const tn_device *device) { return gpu_of(device)->text; }

static bool supports(const tn_device *device, const tn_program *program, size_t node, char why[160]) {
  (void)device; /* the same kernels for all */
  return gpu_supports_node(program, node, why);
}

/* Returns what a call gives that may count on the context. */
#define RETURN_INSIDE(device, call)                                                                \
  do {                                                                                             \
    gpu_context *inside_ = gpu_of(device);                                                         \
    tn_status status_ = gpu_enter(inside_);                                                        \
    if (status_ == TN_OK)                                                                          \
      status_ = (call);                                                                            \
    gpu_leave(inside_);                                                                            \
    return status_;                                                                                \
  } while (0)

static tn_status exec_new(tn_device *device, tn_exec *exec, void **state) {
  *state = NULL;
  RETURN_INSIDE(device, gpu_exec_new(device, exec, state));
}

static tn_status extents(tn_exec *exec, void *state) {
  RETURN_INSIDE(exec->device, gpu_exec_extents(exec, state));
}

static tn_status bound(tn_exec *exec, void *state, size_t node) {
  RETURN_INSIDE(exec->device, gpu_exec_bound(exec, state, node));
}

static tn_status run(tn_exec *exec, void *state) {
  RETURN_INSIDE(exec->device, gpu_exec_run(exec, state));
}

static tn_status output(tn_exec *exec, void *state, size_t i, void *to) {
  RETURN_INSIDE(exec->device, gpu_exec_output(exec, state, i, to));
}

static void exec_free(tn_exec *exec, void *state) {
  gpu_context *g = gpu_of(exec->device);
  const tn_status status = gpu_enter(g);
  (void)status; /* also what a lost device ran is freed */
  gpu_exec_free(exec, state);
  gpu_leave(g);
}

static tn_status apply(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n,
                       const void *a, const void *b, double exponent, void *y) {
  RETURN_INSIDE(device, gpu_apply(device, provider, id, dtype, n, a, b, exponent, y));
}

static const tn_factor *factor(tn_device *device) { return gpu_factor(device); } /* enters by itself */

static tn_status join(tn_device *device, tn_comm *comm) {
  RETURN_INSIDE(device, gpu_nccl_join(device, comm));
}

const tn_backend gpu_backend = {
    .name = "cuda",
    .close = gpu_close,
    .describe = describe,
    .supports = supports,
    .exec_new = exec_new,
    .extents = extents,
    .bound = bound,
    .run = run,
    .output = output,
    .exec_free = exec_free,
    .apply = apply,
    .apply_rows = gpu_dnn_rows, /* enters by itself */
    .factor = factor,
    .join = join,
};
