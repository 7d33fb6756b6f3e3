/* run_node.c: elementwise and structural nodes of the reference executor.
 *
 * Within a panel range a batched value is one contiguous run, so elementwise operations are plain loops in
 * the kernel table; scalars are repeated over a strip first. Structural operations copy blocks of whole lane
 * vectors: a value [N, a, b] is, per panel, an array [a][b][lanes], and a value without points has lanes = 1.
 */
#include "tensor/exec.h"

#include <string.h>

typedef struct site { /* one node and the panels it runs on */
  const tn_frame *frame;
  tn_exec *exec;
  const tn_node *node;
  size_t i, first, last;
  const tn_layout *out; /* of port 0 */
  const tn_kernels *kernels;
  void *scratch;
} site;

static size_t size_of(tn_dtype dtype) {
  return dtype == TN_BOOL ? 1 : tn_dtype_size(tn_dtype_compute(dtype));
}

static size_t lanes_of(const tn_layout *layout) { return layout->axis ? layout->lanes : 1; }

/* Elements of one panel of a value. */
static size_t panel(const tn_layout *layout) { return layout->width * lanes_of(layout); }

static tn_dtype dtype_of_input(const site *s, size_t k) {
  return s->exec->program->nodes[s->node->inputs[k].node]->dtype;
}

/* ---- Elementwise ---- */

static void splat(void *strip, const void *value, size_t size) {
  for (size_t k = 0; k < TN_STRIP; ++k) memcpy((char *)strip + k * size, value, size);
}

/* An operand's strip at element `at`: in place, or the repeated scalar in strip number `slot`. */
static const void *operand(const site *s, size_t k, size_t at, bool first) {
  const tn_layout *layout = tn_input_layout(s->exec, s->i, k);
  const void *data = tn_input_data(s->frame, s->i, k);
  size_t size = size_of(dtype_of_input(s, k));
  bool repeated = layout->width == 1 && !layout->axis && (s->out->axis || s->out->width > 1);
  if (!repeated) return (const char *)data + at * size;
  void *strip = (char *)s->scratch + k * TN_STRIP * sizeof(double);
  if (first) splat(strip, data, size);
  return strip;
}

static void elementwise(const site *s) {
  size_t begin = s->first * panel(s->out), end = s->last * panel(s->out);
  size_t size = size_of(s->node->dtype);
  char *y = s->frame->data[s->exec->program->port[s->i]];
  const tn_op *op = s->node->op;
  double number = s->node->number;
  for (size_t at = begin; at < end; at += TN_STRIP) {
    size_t n = end - at < TN_STRIP ? end - at : TN_STRIP;
    const void *in[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < s->node->n_inputs; ++k) in[k] = operand(s, k, at, at == begin);
    void *to = y + at * size;
    const uint8_t *m = in[0], *m2 = in[1];
    uint8_t *mask = to;
    switch (op->id) {
    case TN_OP_where: s->kernels->where(n, to, in[0], in[1], in[2]); break;
    case TN_OP_not:
      for (size_t j = 0; j < n; ++j) mask[j] = m[j] == 0;
      break;
    case TN_OP_both:
      for (size_t j = 0; j < n; ++j) mask[j] = (m[j] != 0) & (m2[j] != 0);
      break;
    case TN_OP_either:
      for (size_t j = 0; j < n; ++j) mask[j] = (m[j] != 0) | (m2[j] != 0);
      break;
    default:
      if (op->class_ == TN_COMPARISON) s->kernels->compare[op->id](n, to, in[0], in[1]);
      else s->kernels->cell[op->id](n, to, in[0], in[1], number);
    }
  }
}

/* ---- Structure ---- */

/* The extents before, at and after an axis of a value's fixed part; axis counts the point axis. */
static void split(const tn_shape *shape, size_t axis, size_t *before, size_t *at, size_t *after) {
  *before = *at = *after = 1;
  for (uint32_t k = 0; k < shape->rank; ++k) {
    if (shape->axis[k]) continue;
    if (k < axis) *before *= shape->extent[k];
    else if (k == axis) *at = shape->extent[k];
    else *after *= shape->extent[k];
  }
}

/* Copies blocks: for each panel and each o < outer, `count` elements from x + o * x_step + x_offset to
 * y + o * y_step + y_offset (elements within a panel). */
typedef struct blocks {
  size_t outer, count, x_step, x_offset, y_step, y_offset;
} blocks;

static void copy_blocks(const site *s, const void *x, const tn_layout *from, blocks b) {
  size_t size = size_of(s->node->dtype);
  char *y = s->frame->data[s->exec->program->port[s->i]];
  for (size_t p = s->first; p < s->last; ++p) {
    const char *xp = (const char *)x + p * panel(from) * size;
    char *yp = y + p * panel(s->out) * size;
    for (size_t o = 0; o < b.outer; ++o)
      memcpy(yp + (o * b.y_step + b.y_offset) * size, xp + (o * b.x_step + b.x_offset) * size,
             b.count * size);
  }
}

static void slice_or_pad(const site *s) {
  const tn_shape *in = &s->exec->program->nodes[s->node->inputs[0].node]->shapes[s->node->inputs[0].port];
  const tn_layout *from = tn_input_layout(s->exec, s->i, 0);
  size_t axis = (size_t)s->node->integer[0], offset = (size_t)s->node->integer[1];
  size_t lanes = lanes_of(s->out), before, at, after, before_out, at_out, after_out;
  split(in, axis, &before, &at, &after);
  split(&s->node->shapes[0], axis, &before_out, &at_out, &after_out);
  blocks b = {.outer = before, .x_step = at * after * lanes, .y_step = at_out * after * lanes};
  if (s->node->op->id == TN_OP_slice) {
    b.count = at_out * after * lanes;
    b.x_offset = offset * after * lanes;
  } else {
    size_t size = size_of(s->node->dtype), bytes = panel(s->out) * size;
    char *y = s->frame->data[s->exec->program->port[s->i]];
    memset(y + s->first * bytes, 0, (s->last - s->first) * bytes);
    b.count = at * after * lanes;
    b.y_offset = offset * after * lanes;
  }
  copy_blocks(s, tn_input_data(s->frame, s->i, 0), from, b);
}

static void concat_or_stack(const site *s) {
  bool stack = s->node->op->id == TN_OP_stack;
  const tn_shape *out = &s->node->shapes[0];
  size_t axis = stack ? out->rank - 1 : (size_t)s->node->integer[0], offset = 0;
  size_t lanes = lanes_of(s->out), before, at, after;
  split(out, axis, &before, &at, &after);
  for (uint32_t k = 0; k < s->node->n_inputs; ++k) {
    const tn_edge e = s->node->inputs[k];
    size_t own = 1, b, a;
    if (!stack) split(&s->exec->program->nodes[e.node]->shapes[e.port], axis, &b, &own, &a);
    copy_blocks(s, tn_input_data(s->frame, s->i, k), tn_input_layout(s->exec, s->i, k),
                (blocks){.outer = before, .count = own * after * lanes, .x_step = own * after * lanes,
                         .y_step = at * after * lanes, .y_offset = offset * after * lanes});
    offset += own;
  }
}

static void transpose(const site *s) {
  const tn_edge e = s->node->inputs[0];
  const tn_shape *in = &s->exec->program->nodes[e.node]->shapes[e.port];
  size_t a = (size_t)s->node->integer[0], b = (size_t)s->node->integer[1], lanes = lanes_of(s->out);
  size_t before, na, inner, middle = 1, nb, after;
  split(in, a, &before, &na, &inner);
  split(in, b, &inner, &nb, &after);
  for (size_t k = a + 1; k < b; ++k) middle *= in->extent[k];
  size_t size = size_of(s->node->dtype) * lanes;
  const char *x = tn_input_data(s->frame, s->i, 0);
  char *y = s->frame->data[s->exec->program->port[s->i]];
  for (size_t p = s->first; p < s->last; ++p)
    for (size_t o = 0; o < before; ++o)
      for (size_t ia = 0; ia < na; ++ia)
        for (size_t m = 0; m < middle; ++m)
          for (size_t ib = 0; ib < nb; ++ib) {
            size_t from = ((((p * before + o) * na + ia) * middle + m) * nb + ib) * after;
            size_t to = ((((p * before + o) * nb + ib) * middle + m) * na + ia) * after;
            memcpy(y + to * size, x + from * size, after * size);
          }
}

static void expand(const site *s) {
  const tn_layout *from = tn_input_layout(s->exec, s->i, 0);
  size_t size = size_of(s->node->dtype), lanes = lanes_of(s->out), before, at, after;
  const char *x = tn_input_data(s->frame, s->i, 0);
  char *y = s->frame->data[s->exec->program->port[s->i]];
  if (s->node->integer[1]) { /* a point axis: each element over all lanes of all panels */
    for (size_t p = s->first; p < s->last; ++p)
      for (size_t w = 0; w < s->out->width; ++w)
        for (size_t l = 0; l < lanes; ++l)
          memcpy(y + ((p * s->out->width + w) * lanes + l) * size, x + w * size, size);
    return;
  }
  split(&s->node->shapes[0], (size_t)s->node->integer[0], &before, &at, &after);
  for (size_t k = 0; k < at; ++k)
    copy_blocks(s, x, from, (blocks){.outer = before, .count = after * lanes, .x_step = after * lanes,
                                     .y_step = at * after * lanes, .y_offset = k * after * lanes});
}

static void sum_fixed(const site *s) {
  const tn_edge e = s->node->inputs[0];
  const tn_shape *in = &s->exec->program->nodes[e.node]->shapes[e.port];
  size_t size = size_of(s->node->dtype), lanes = lanes_of(s->out), before, at, after;
  split(in, (size_t)s->node->integer[0], &before, &at, &after);
  const char *x = tn_input_data(s->frame, s->i, 0);
  char *y = s->frame->data[s->exec->program->port[s->i]];
  size_t run = after * lanes;
  for (size_t o = s->first * before; o < s->last * before; ++o) {
    memcpy(y + o * run * size, x + o * at * run * size, run * size);
    for (size_t k = 1; k < at; ++k)
      s->kernels->add_to(run, y + o * run * size, x + (o * at + k) * run * size);
  }
}

/* ---- Leaves with points, and sums over points ---- */

static void leaf(const site *s) {
  size_t points = s->exec->extent[s->out->axis], lanes = s->out->lanes;
  size_t row = (s->frame->base + s->first) * lanes, rows = points - row < (s->last - s->first) * lanes
                                            ? points - row : (s->last - s->first) * lanes;
  size_t size = size_of(s->node->dtype), width = s->out->width;
  char *y = s->frame->data[s->exec->program->port[s->i]];
  y += s->first * panel(s->out) * size;
  if (s->node->op->id == TN_OP_input) {
    const char *x = tn_map(s->exec->bound[s->i], TN_READ);
    if (rows && tn_is_narrow(s->node->dtype))
      tn_pack_narrow(s->node->dtype, rows, width, (const uint16_t *)(const void *)x + row * width,
                     (float *)(void *)y);
    else if (rows) s->kernels->pack(rows, width, x + row * width * size, y);
    tn_unmap(s->exec->bound[s->i]);
    return;
  }
  size_t n = (s->last - s->first) * panel(s->out); /* fill */
  for (size_t k = 0; k < n; ++k) {
    if (s->node->dtype == TN_F64) ((double *)y)[k] = s->node->number;
    else if (s->node->dtype == TN_BOOL) ((uint8_t *)y)[k] = s->node->number != 0;
    else ((float *)y)[k] = (float)tn_round(s->node->dtype, s->node->number);
  }
}

static void sum_points(const site *s) {
  const tn_layout *from = tn_input_layout(s->exec, s->i, 0);
  size_t points = s->exec->extent[from->axis] - s->frame->base * from->lanes;
  void *partial = tn_partial(s->frame, s->i);
  for (size_t p = s->first; p < s->last; p += TN_GROUP_PANELS) {
    size_t panels = s->last - p < TN_GROUP_PANELS ? s->last - p : TN_GROUP_PANELS;
    size_t valid = points - (p + panels - 1) * from->lanes;
    s->kernels->sum_lanes(from->width, tn_input_data(s->frame, s->i, 0), p, panels,
                          valid < from->lanes ? valid : from->lanes, partial);
  }
}

/* ---- Dispatch ---- */

static void compute(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  const tn_node *node = p->nodes[i];
  site s = {frame, frame->exec, node, i, first, last, &p->layout[p->port[i]], NULL, frame->scratch};
  s.kernels = tn_kernels_of(node->dtype == TN_BOOL && node->n_inputs ? dtype_of_input(&s, 0)
                                                                      : node->dtype);
  switch (node->op->id) {
  case TN_OP_parameter:
  case TN_OP_scalar:
  case TN_OP_constant:
  case TN_OP_array:
  case TN_OP_count: return;
  case TN_OP_input:
  case TN_OP_fill:
    if (s.out->axis) leaf(&s);
    return;
  case TN_OP_sum:
    if (tn_is_reduction(p, i)) sum_points(&s);
    else sum_fixed(&s);
    return;
  case TN_OP_reshape:
    copy_blocks(&s, tn_input_data(frame, i, 0), s.out, (blocks){.outer = 1, .count = panel(s.out)});
    return;
  case TN_OP_expand: expand(&s); return;
  case TN_OP_transpose: transpose(&s); return;
  case TN_OP_slice:
  case TN_OP_pad: slice_or_pad(&s); return;
  case TN_OP_concat:
  case TN_OP_stack: concat_or_stack(&s); return;
  case TN_OP_cast: tn_run_cast(frame, i, first, last); return;
  case TN_OP_jet_outer: tn_run_outer(frame, i, first, last); return;
  case TN_OP_softmax:
  case TN_OP_layer_norm:
  case TN_OP_rstd: tn_run_rowwise(frame, i, first, last); return;
  case TN_OP_custom: tn_run_custom(frame, i, first, last); return;
  case TN_OP_jet_lin:
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT: tn_run_jet(frame, i, first, last); return;
  default: elementwise(&s); return;
  }
}

void tn_run_node(const tn_frame *frame, size_t i, size_t first, size_t last) {
  const tn_program *p = frame->exec->program;
  compute(frame, i, first, last);
  if (!tn_node_rounds(p->nodes[i]) || tn_is_reduction(p, i)) return;
  switch (p->nodes[i]->op->id) { /* these round themselves */
  case TN_OP_jet_lin:
  case TN_OP_jet_outer:
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT: return;
  default: tn_round_outputs(frame, i, first, last);
  }
}
