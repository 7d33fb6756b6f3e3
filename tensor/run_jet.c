/* run_jet.c: the five jet operations of the reference executor.
 *
 * jet_unary, jet_mul and jet_mulT run their strip programs over as many whole panels as fit a strip, or over
 * parts of one wide panel. A channel without points is repeated over the lanes, a coefficient given a point
 * is repeated over the units; both into the worker's scratch.
 */
#include "tensor/exec.h"

#include <string.h>

enum { STRIP_BYTES = TN_STRIP * 8 };

size_t tn_jet_scratch(const tn_exec *exec, size_t i) {
  const tn_jet_plan *plan = &exec->program->plan[i];
  size_t registers = plan->n_inputs + plan->n_coefficients + plan->n_outputs + plan->n_temporaries;
  return registers * (sizeof(void *) + STRIP_BYTES) + 64;
}

typedef struct window { /* a strip: `units` units of `panels` panels from (panel, unit) on */
  size_t panel, panels, unit, units;
} window;

typedef struct jet_site {
  const tn_frame *frame;
  const tn_exec *exec;
  const tn_node *node;
  const tn_jet_plan *plan;
  const tn_kernels *kernels;
  size_t i, width, lanes; /* lanes 1 without points */
  void **registers;
  char *strips;
} jet_site;

static void *strip(const jet_site *s, size_t r) { return s->strips + r * STRIP_BYTES; }

/* Repeats a channel without points over the lanes of the window. */
static void repeat_units(const jet_site *s, const void *x, window w, void *strip_of) {
  size_t size = s->kernels->size;
  const char *from = x;
  char *to = strip_of;
  for (size_t p = 0; p < w.panels; ++p)
    for (size_t u = w.unit; u < w.unit + w.units; ++u)
      for (size_t l = 0; l < s->lanes; ++l, to += size) memcpy(to, from + u * size, size);
}

/* Repeats a number a point (or a scalar: batched = false) over the units of the window. */
static void repeat_points(const jet_site *s, const void *x, bool batched, window w, void *strip_of) {
  size_t size = s->kernels->size, bytes = s->lanes * size;
  char *to = strip_of;
  for (size_t p = w.panel; p < w.panel + w.panels; ++p)
    for (size_t u = 0; u < w.units; ++u, to += bytes) {
      if (batched) memcpy(to, (const char *)x + p * bytes, bytes);
      else
        for (size_t l = 0; l < s->lanes; ++l) memcpy(to + l * size, x, size);
    }
}

static void set_registers(const jet_site *s, window w, bool first) {
  const tn_program *p = s->exec->program;
  size_t size = s->kernels->size, at = (w.panel * s->width + w.unit) * s->lanes * size;
  bool moving = s->width * s->lanes > TN_STRIP; /* windows within a panel: other units each time */
  for (size_t k = 0; k < s->plan->n_inputs; ++k) {
    const tn_layout *layout = tn_input_layout(s->exec, s->i, k);
    char *data = (char *)(uintptr_t)tn_input_data(s->frame, s->i, k);
    if (layout->axis || s->lanes == 1) {
      s->registers[k] = data + at;
    } else {
      s->registers[k] = strip(s, k);
      if (first || moving) repeat_units(s, data, w, strip(s, k));
    }
  }
  for (size_t k = s->plan->n_inputs; k < s->plan->n_inputs + s->plan->n_coefficients; ++k) {
    bool batched = tn_input_layout(s->exec, s->i, k)->axis != 0;
    s->registers[k] = strip(s, k);
    if (batched || first || moving)
      repeat_points(s, tn_input_data(s->frame, s->i, k), batched, w, strip(s, k));
  }
  size_t r = s->plan->n_inputs + s->plan->n_coefficients;
  for (size_t k = 0; k < s->plan->n_outputs; ++k)
    s->registers[r++] = (char *)s->frame->data[p->port[s->i] + k] + at;
  for (size_t k = 0; k < s->plan->n_temporaries; ++k, ++r) s->registers[r] = strip(s, r);
}

static void run_plan(const jet_site *s, size_t first, size_t last) {
  size_t panel = s->width * s->lanes;
  bool begun = false;
  if (panel <= TN_STRIP) {
    size_t step = TN_STRIP / panel, full = last - first < step ? last - first : step;
    for (size_t p = first; p < last; p += step) {
      window w = {p, last - p < step ? last - p : step, 0, s->width};
      if (!begun) { /* repeated channels serve the longest window */
        window longest = {p, full, 0, s->width};
        set_registers(s, longest, true);
        begun = true;
      }
      set_registers(s, w, false);
      s->kernels->strip(s->plan->count, s->plan->code, s->registers, w.panels * panel);
    }
    return;
  }
  size_t units = TN_STRIP / s->lanes;
  for (size_t p = first; p < last; ++p)
    for (size_t u = 0; u < s->width; u += units) {
      window w = {p, 1, u, s->width - u < units ? s->width - u : units};
      set_registers(s, w, true);
      s->kernels->strip(s->plan->count, s->plan->code, s->registers, w.units * s->lanes);
    }
}

/* A channel without points: every slot computes it, maybe at the same time, and writes the same final numbers.
 * Those of a low format are rounded on the way from the scratch. */
static void lin_rows(const tn_frame *frame, const tn_node *node, size_t m, size_t k, size_t n,
                     const char *w, size_t wk, size_t wn, const char *bias, const char *h, char *y) {
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  size_t size = kernels->size, most = TN_STRIP;
  if (!tn_node_rounds(node)) {
    kernels->lin_rows(m, k, n, w, wk, wn, bias, h, y);
    return;
  }
  for (size_t row = 0; row < m; ++row)
    for (size_t j = 0; j < n; j += most) {
      size_t count = n - j < most ? n - j : most;
      kernels->lin_rows(1, k, count, w + j * wn * size, wk, wn, bias ? bias + j * size : NULL,
                        h + row * k * size, frame->scratch);
      kernels->round[node->dtype](count, y + (row * n + j) * size, frame->scratch);
    }
}

static void run_lin(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_exec *exec = frame->exec;
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  size_t channels = node->n_outputs, wi = channels;
  const tn_edge we = node->inputs[wi];
  const tn_shape *ws = &p->nodes[we.node]->shapes[we.port];
  bool transposed = node->integer[0] != 0;
  size_t k = ws->extent[transposed ? 1 : 0], n = ws->extent[transposed ? 0 : 1];
  size_t wk = transposed ? 1 : n, wn = transposed ? k : 1;
  const void *w = tn_input_data(frame, i, wi);
  for (size_t c = 0; c < channels; ++c) {
    bool biased = c == 0 && node->integer[1];
    const void *bias = biased ? tn_input_data(frame, i, wi + 1) : NULL;
    const tn_layout *in = tn_input_layout(exec, i, c);
    const char *h = tn_input_data(frame, i, c);
    char *y = frame->data[p->port[i] + c];
    if (!in->axis) {
      lin_rows(frame, node, in->width / k, k, n, w, wk, wn, bias, h, y);
      continue;
    }
    y += first * n * in->lanes * kernels->size;
    kernels->lin(last - first, k, n, w, wk, wn, bias, h + first * k * in->lanes * kernels->size, y);
    if (tn_node_rounds(node)) kernels->round[node->dtype]((last - first) * n * in->lanes, y, y);
  }
}

void tn_run_jet(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  if (p->nodes[i]->op->id == TN_OP_jet_lin) {
    run_lin(frame, i, first, last);
    return;
  }
  const tn_layout *out = &p->layout[p->port[i]];
  const tn_jet_plan *plan = &p->plan[i];
  size_t registers = plan->n_inputs + plan->n_coefficients + plan->n_outputs + plan->n_temporaries;
  jet_site s = {frame, frame->exec, p->nodes[i], plan, tn_kernels_of(p->nodes[i]->dtype), i, out->width,
                out->axis ? out->lanes : 1, NULL, NULL};
  s.strips = frame->scratch;
  s.registers = (void **)((char *)frame->scratch + registers * STRIP_BYTES);
  if (last > first) run_plan(&s, first, last);
}

/* ---- Outer products ---- */

/* Before its phase: operands without points are repeated over the lanes of one panel each. */
tn_status tn_prepare_outer(const tn_frame *frame, size_t i) {
  tn_exec *exec = frame->exec;
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  size_t pairs = (size_t)node->integer[0], size = kernels->size, used = 0;
  const tn_shape *shape = &node->shapes[0];
  size_t widest = shape->extent[0] > shape->extent[1] ? shape->extent[0] : shape->extent[1];
  if (!exec->repeat[i]) TN_TRY(tn_new(pairs * widest * kernels->lanes, size, &exec->repeat[i]));
  for (size_t q = 0; q < pairs; ++q) {
    const tn_layout *zl = tn_input_layout(exec, i, q), *hl = tn_input_layout(exec, i, pairs + q);
    if (!zl->axis && !hl->axis) continue;
    char *to = exec->repeat[i] + used++ * widest * kernels->lanes * size;
    if (zl->axis && hl->axis) continue;
    const tn_layout *from = zl->axis ? hl : zl;
    const char *x = tn_input_data(frame, i, zl->axis ? pairs + q : q);
    for (size_t u = 0; u < from->width; ++u)
      for (size_t l = 0; l < kernels->lanes; ++l, to += size) memcpy(to, x + u * size, size);
  }
  return TN_OK;
}

/* Slot SIZE_MAX: the pairs without points, one FMA each onto the finished sum; also when no pair has
 * points (then the rows of [m, k] and [m, n] are summed in order). Otherwise the pairs with points. */
void tn_run_outer(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_exec *exec = frame->exec;
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  const tn_kernels *kernels = tn_kernels_of(node->dtype);
  size_t pairs = (size_t)node->integer[0], size = kernels->size;
  const tn_shape *shape = &node->shapes[0];
  size_t k = shape->extent[0], n = shape->extent[1];
  bool reduction = tn_is_reduction(p, i);
  if (frame->slot == SIZE_MAX || !reduction) {
    char *sum = frame->data[p->port[i]];
    if (!reduction) memset(sum, 0, k * n * size);
    for (size_t q = 0; q < pairs; ++q) {
      const tn_layout *zl = tn_input_layout(exec, i, q), *hl = tn_input_layout(exec, i, pairs + q);
      if (zl->axis || hl->axis) continue;
      const char *z = tn_input_data(frame, i, q), *h = tn_input_data(frame, i, pairs + q);
      for (size_t m = 0; m < zl->width / n; ++m) /* row m: sum[j] = sum[j] + h[m][j] z[m] */
        for (size_t j = 0; j < k; ++j)
          kernels->lin_rows(1, 1, n, z + m * n * size, n, 1, sum + j * n * size,
                            h + (m * k + j) * size, sum + j * n * size);
    }
    if (tn_node_rounds(node)) kernels->round[node->dtype](k * n, sum, sum);
    return;
  }
  const void *h[TN_MAX_CHANNELS], *z[TN_MAX_CHANNELS];
  size_t h_stride[TN_MAX_CHANNELS], z_stride[TN_MAX_CHANNELS];
  tn_outer o = {0, h, z, h_stride, z_stride, k, n};
  size_t lanes = kernels->lanes, axis = 0;
  for (size_t q = 0; q < pairs; ++q) {
    const tn_layout *zl = tn_input_layout(exec, i, q), *hl = tn_input_layout(exec, i, pairs + q);
    if (!zl->axis && !hl->axis) continue;
    axis = zl->axis ? zl->axis : hl->axis;
    const char *repeat = exec->repeat[i] + o.pairs * (k > n ? k : n) * lanes * size;
    h[o.pairs] = hl->axis ? tn_input_data(frame, i, pairs + q) : repeat;
    z[o.pairs] = zl->axis ? tn_input_data(frame, i, q) : repeat;
    h_stride[o.pairs] = hl->axis ? k * lanes : 0;
    z_stride[o.pairs++] = zl->axis ? n * lanes : 0;
  }
  void *partial = tn_partial(frame, i);
  bool by_points = tn_outer_by_points(node->dtype, k, n);
  size_t points = exec->extent[axis] - frame->base * lanes;
  for (size_t q = first; q < last; q += TN_GROUP_PANELS) {
    size_t panels = last - q < TN_GROUP_PANELS ? last - q : TN_GROUP_PANELS;
    size_t valid = points - (q + panels - 1) * lanes;
    if (valid > lanes) valid = lanes;
    if (by_points) kernels->outer_points(&o, q, panels, valid, partial);
    else kernels->outer_lanes(&o, q, panels, valid, partial);
  }
}
