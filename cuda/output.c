/* output.c: results of a run, row-major and in their own elements, as executors of the host hand them out.
 *
 * Values without points came back with the run, into pinned memory. A value with points is fetched in panels when it
 * is asked for and put in rows here, by the same loops that serve the host's executors.
 */
#include "cuda/executor.h"

#include <string.h>

static tn_status without_points(const tn_exec *exec, const gpu_exec *x, tn_edge e, void *to) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[e.node];
  size_t port = tn_port(p, e);
  const tn_layout *layout = &p->layout[port];
  const void *from = node->op->class_ == TN_LEAF
                         ? exec->data[port] /* the host has it */
                         : x->pinned + x->varying_bytes + (x->offset[port] - x->outputs_at);
  if (tn_is_narrow(node->dtype))
    tn_narrow(node->dtype, layout->width, from, to);
  else
    memcpy(to, from, layout->width * layout->size);
  return TN_OK;
}

static void to_rows(const tn_layout *layout, tn_dtype dtype, size_t rows, const char *panels,
                    void *to) {
  if (tn_is_narrow(dtype)) {
    tn_unpack_narrow(dtype, rows, layout->width, (const float *)(const void *)panels, to);
  } else if (dtype != TN_BOOL) {
    tn_kernels_of(dtype)->unpack(rows, layout->width, panels, to);
  } else {
    uint8_t *mask = to;
    for (size_t r = 0; r < rows; ++r)
      for (size_t w = 0; w < layout->width; ++w)
        *mask++ = (uint8_t)
            panels[(r / layout->lanes * layout->width + w) * layout->lanes + r % layout->lanes];
  }
}

tn_status gpu_output(const tn_exec *exec, const gpu_exec *x, size_t i, void *to) {
  const tn_program *p = exec->program;
  tn_edge e = p->outputs[i];
  size_t port = tn_port(p, e);
  const tn_layout *layout = &p->layout[port];
  if (!layout->axis)
    return without_points(exec, x, e, to);
  size_t rows = exec->extent[layout->axis];
  if (!rows)
    return TN_OK;
  size_t bytes = tn_panels(rows, layout->lanes) * layout->lanes * layout->width * layout->size;
  char *panels = NULL;
  TN_TRY(tn_new(1, bytes, &panels));
  tn_status status = gpu_download(x->g, panels, x->data[port], bytes);
  if (status == TN_OK)
    to_rows(layout, p->nodes[e.node]->dtype, rows, panels, to);
  tn_free(&panels);
  return status;
}
