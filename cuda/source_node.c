/* source_node.c: the bodies of functions that compute one node: run_node.c and run_jet.c as text.
 *
 * A value is [unit][point]: with the points of a group in loops, with one "point" for values without points, so
 * structural operations are the same text for both: they map units to units. All extents are numbers in the text.
 */
#include "cuda/source_inside.h"

#include <string.h>

static const tn_layout *layout_of_input(const gpu_maker *m, size_t i, size_t k) {
  return &m->p->layout[tn_port(m->p, m->p->nodes[i]->inputs[k])];
}
static const tn_shape *shape_of_input(const gpu_maker *m, size_t i, size_t k) {
  tn_edge e = m->p->nodes[i]->inputs[k];
  return &m->p->nodes[e.node]->shapes[e.port];
}

/* The extents before, at and after an axis of a value's fixed part (run_node.c: split). */
static void split(const tn_shape *shape, size_t axis, size_t *before, size_t *at, size_t *after) {
  *before = *at = *after = 1;
  for (uint32_t k = 0; k < shape->rank; ++k) {
    if (shape->axis[k]) continue;
    if (k < axis) *before *= shape->extent[k];
    else if (k == axis) *at = shape->extent[k];
    else *after *= shape->extent[k];
  }
}

/* x0, x1, ...: starts of inputs [first, last); y: of the first result. */
static void put_starts(gpu_maker *m, const gpu_site *s, size_t i, size_t first, size_t last) {
  const tn_program *p = m->p;
  for (size_t k = first; k < last; ++k) {
    gpu_put(&m->w, "  const %s *const x%zu = ", gpu_type_of(layout_of_input(m, i, k)), k);
    gpu_put_value(m, s, "const ", tn_port(p, p->nodes[i]->inputs[k]));
    gpu_put(&m->w, ";\n");
  }
  gpu_put(&m->w, "  %s *const y = ", gpu_type_of(&p->layout[p->port[i]]));
  gpu_put_value(m, s, "", p->port[i]);
  gpu_put(&m->w, ";\n");
}

/* Opens a loop over `units` units with u and q. */
static void put_each(gpu_maker *m, const gpu_site *s, size_t units) {
  gpu_put(&m->w, "  EACH(e, %zuu * %zuu) {\n    const unsigned u = e / %zuu, q = e %% %zuu;\n    (void)u, (void)q;\n",
          units, s->points, s->points, s->points);
}

/* ---- Elementwise ---- */

/* Input k at this element. */
static void put_input(gpu_maker *m, size_t i, size_t k) {
  const tn_layout *in = layout_of_input(m, i, k), *out = &m->p->layout[m->p->port[i]];
  bool repeated = in->width == 1 && !in->axis && (out->axis || out->width > 1);
  gpu_put(&m->w, repeated ? "x%zu[0]" : "x%zu[e]", k);
}

static void put_elementwise(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  gpu_writer *w = &m->w;
  put_starts(m, s, i, 0, node->n_inputs);
  put_each(m, s, m->p->layout[m->p->port[i]].width);
  gpu_put(w, "    y[e] = ");
  switch (node->op->id) {
  case TN_OP_where:
    put_input(m, i, 0);
    gpu_put(w, " ? ");
    put_input(m, i, 1);
    gpu_put(w, " : ");
    put_input(m, i, 2);
    break;
  case TN_OP_not:
    put_input(m, i, 0);
    gpu_put(w, " == 0");
    break;
  case TN_OP_both:
  case TN_OP_either:
    gpu_put(w, "(");
    put_input(m, i, 0);
    gpu_put(w, node->op->id == TN_OP_both ? " != 0) & (" : " != 0) | (");
    put_input(m, i, 1);
    gpu_put(w, " != 0)");
    break;
  default:
    if (node->op->class_ == TN_COMPARISON) {
      gpu_put(w, "F(cell_%s)(", node->op->name);
      put_input(m, i, 0);
      gpu_put(w, ", ");
      put_input(m, i, 1);
      gpu_put(w, ")");
      break;
    }
    gpu_put(w, "F(stored)(F(cell_%s)(", node->op->name);
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      gpu_put(w, k ? ", V(" : "V(");
      put_input(m, i, k);
      gpu_put(w, ")");
    }
    if (node->op->id == TN_OP_powi || node->op->id == TN_OP_powr) {
      gpu_put(w, ", K(");
      gpu_put_number(w, node->number);
      gpu_put(w, ")");
    }
    gpu_put(w, "), %s)", gpu_format_of(node));
  }
  gpu_put(w, ";\n  }\n");
}

/* ---- Structure ---- */

static void put_slice_or_pad(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t axis = (size_t)node->integer[0], offset = (size_t)node->integer[1];
  size_t before, at, after, before_out, at_out, after_out;
  split(shape_of_input(m, i, 0), axis, &before, &at, &after);
  split(&node->shapes[0], axis, &before_out, &at_out, &after_out);
  put_starts(m, s, i, 0, 1);
  put_each(m, s, before_out * at_out * after_out);
  gpu_put(&m->w, "    const unsigned c = u %% %zuu, a = u / %zuu %% %zuu, b = u / %zuu;\n", after, after, at_out,
          after * at_out);
  if (node->op->id == TN_OP_slice)
    gpu_put(&m->w, "    y[e] = x0[((b * %zuu + a + %zuu) * %zuu + c) * %zuu + q];\n  }\n", at, offset, after,
            s->points);
  else
    gpu_put(&m->w, "    y[e] = a - %zuu < %zuu ? x0[((b * %zuu + a - %zuu) * %zuu + c) * %zuu + q] : 0;\n  }\n", offset,
            at, at, offset, after, s->points);
}

static void put_concat_or_stack(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  bool stack = node->op->id == TN_OP_stack;
  const tn_shape *out = &node->shapes[0];
  size_t axis = stack ? out->rank - 1 : (size_t)node->integer[0], offset = 0, before, at, after;
  split(out, axis, &before, &at, &after);
  put_starts(m, s, i, 0, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    size_t own = 1, b, a;
    if (!stack) split(shape_of_input(m, i, k), axis, &b, &own, &a);
    put_each(m, s, before * own * after);
    gpu_put(&m->w, "    y[(u / %zuu * %zuu + %zuu + u %% %zuu) * %zuu + q] = x%u[e];\n  }\n", own * after, at * after,
            offset * after, own * after, s->points, k);
    offset += own;
  }
}

static void put_transpose(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  const tn_shape *in = shape_of_input(m, i, 0);
  size_t a = (size_t)node->integer[0], b = (size_t)node->integer[1];
  size_t before, na, inner, middle = 1, nb, after;
  split(in, a, &before, &na, &inner);
  split(in, b, &inner, &nb, &after);
  for (size_t k = a + 1; k < b; ++k) middle *= in->extent[k];
  put_starts(m, s, i, 0, 1);
  put_each(m, s, before * na * middle * nb * after);
  gpu_put(&m->w,
          "    const unsigned c = u %% %zuu, ia = u / %zuu %% %zuu, m = u / %zuu %% %zuu, ib = u / %zuu %% %zuu, o = "
          "u / %zuu;\n",
          after, after, na, after * na, middle, after * na * middle, nb, after * na * middle * nb);
  gpu_put(&m->w, "    y[e] = x0[((((o * %zuu + ia) * %zuu + m) * %zuu + ib) * %zuu + c) * %zuu + q];\n  }\n", na,
          middle, nb, after, s->points);
}

static void put_expand(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t before, at, after;
  put_starts(m, s, i, 0, 1);
  put_each(m, s, m->p->layout[m->p->port[i]].width);
  if (node->integer[1]) { /* over points: of a mask; others are operands of runs */
    gpu_put(&m->w, "    y[e] = x0[u];\n  }\n");
    return;
  }
  split(&node->shapes[0], (size_t)node->integer[0], &before, &at, &after);
  gpu_put(&m->w, "    y[e] = x0[(u / %zuu * %zuu + u %% %zuu) * %zuu + q];\n  }\n", at * after, after, after,
          s->points);
}

static void put_sum_fixed(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t before, at, after;
  split(shape_of_input(m, i, 0), (size_t)node->integer[0], &before, &at, &after);
  put_starts(m, s, i, 0, 1);
  put_each(m, s, before * after);
  gpu_put(&m->w, "    const T *x = x0 + (u / %zuu * %zuu + u %% %zuu) * %zuu + q;\n", after, at * after, after,
          s->points);
  gpu_put(&m->w, "    y[e] = F(stored)(F(row_sum)(x, %zu, %zu), %s);\n  }\n", at, after * s->points,
          gpu_format_of(node));
}

static void put_copy(gpu_maker *m, const gpu_site *s, size_t i) {
  put_starts(m, s, i, 0, 1);
  put_each(m, s, m->p->layout[m->p->port[i]].width);
  gpu_put(&m->w, "    y[e] = x0[e];\n  }\n");
}

static void put_rows(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  const tn_shape *shape = shape_of_input(m, i, 0);
  size_t n = shape->extent[shape->rank - 1], rows = layout_of_input(m, i, 0)->width / n, P = s->points;
  put_starts(m, s, i, 0, 1);
  put_each(m, s, rows);
  gpu_put(&m->w, "    F(row_%s)(x0 + u * %zuu + q, %zu, %zu, ", node->op->name, n * P, n, P);
  if (node->op->id != TN_OP_softmax) {
    gpu_put(&m->w, "K(");
    gpu_put_number(&m->w, node->number);
    gpu_put(&m->w, "), ");
  }
  gpu_put(&m->w, "y + u * %zuu + q, %s);\n  }\n", node->op->id == TN_OP_rstd ? P : n * P, gpu_format_of(node));
}

/* ---- Leaves with points, casts ---- */

static void put_leaf(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t width = m->p->layout[m->p->port[i]].width;
  put_starts(m, s, i, 0, 0);
  if (node->op->id == TN_OP_fill) {
    put_each(m, s, width);
    gpu_put(&m->w, "    y[e] = ");
    if (node->dtype == TN_BOOL) gpu_put(&m->w, "%d", node->number != 0);
    else gpu_put_number(&m->w, tn_round(node->dtype, node->number));
    gpu_put(&m->w, ";\n  }\n");
    return;
  }
  bool narrow = tn_is_narrow(node->dtype);
  const char *type = narrow ? "uint16_t" : gpu_type_of(&m->p->layout[m->p->port[i]]);
  gpu_put(&m->w, "  const %s *const x = (const %s *)p.leaf[%zu] + p.first * %zuu;\n", type, type, i, width);
  put_each(m, s, width);
  gpu_put(&m->w, "    y[e] = %s(x[held(p, q) * %zuu + u]);\n  }\n",
          !narrow                  ? ""
          : node->dtype == TN_BF16 ? "widen_bf16"
                                   : "widen_f16",
          width);
}

/* From f64 to a format that computes in f32, or back: an expression of the number x. */
static const char *narrowing(tn_dtype to) {
  return to == TN_F64    ? "(double)"
         : to == TN_F32  ? "(float)"
         : to == TN_TF32 ? "narrow_tf32"
         : to == TN_BF16 ? "narrow_bf16"
                         : "narrow_f16";
}

static void put_cast(gpu_maker *m, const gpu_site *s, size_t i) { /* without points */
  const tn_node *node = m->p->nodes[i];
  tn_dtype before = m->p->nodes[node->inputs[0].node]->dtype;
  put_starts(m, s, i, 0, 1);
  put_each(m, s, m->p->layout[m->p->port[i]].width);
  if (layout_of_input(m, i, 0)->size != m->p->layout[m->p->port[i]].size)
    gpu_put(&m->w, "    y[e] = %s(x0[e]);\n  }\n", narrowing(node->dtype));
  else if (tn_cast_rounds(before, node->dtype))
    gpu_put(&m->w, "    y[e] = F(stored)(V(x0[e]), %s);\n  }\n", gpu_format_name(node->dtype));
  else gpu_put(&m->w, "    y[e] = x0[e];\n  }\n");
}

void gpu_put_cast_points(gpu_maker *m, size_t i) {
  const tn_node *node = m->p->nodes[i];
  const tn_layout *from = layout_of_input(m, i, 0), *to = &m->p->layout[m->p->port[i]];
  gpu_put(&m->w, "  const %s *const x = (const %s *)a.data[%zu];\n", gpu_type_of(from), gpu_type_of(from),
          tn_port(m->p, node->inputs[0]));
  gpu_put(&m->w, "  %s *const y = (%s *)a.data[%zu];\n", gpu_type_of(to), gpu_type_of(to), m->p->port[i]);
  gpu_put(&m->w, "  const gpu_size points = a.points[%u], panels = (points + %zu - 1) / %zu, total = panels * %zu;\n",
          to->axis, to->lanes, to->lanes, to->width * to->lanes);
  gpu_put(&m->w,
          "  for (gpu_size e = blockIdx.x * (gpu_size)THREADS + threadIdx.x; e < total; e += gridDim.x * "
          "(gpu_size)THREADS) {\n    const gpu_size lane = e %% %zu, u = e / %zu %% %zu, k = e / %zu * %zu + lane, "
          "point = k "
          "< points ? k : points - 1;\n",
          to->lanes, to->lanes, to->width, to->lanes * to->width, to->lanes);
  gpu_put(&m->w, "    y[e] = %s(x[(point / %zu * %zu + u) * %zu + point %% %zu]);\n  }\n", narrowing(node->dtype),
          from->lanes, from->width, from->lanes, from->lanes);
}

/* ---- Products ---- */

static size_t shared_at(const gpu_site *s, size_t port) {
  for (size_t k = 0; k < s->n_weights; ++k)
    if (s->weights[k].port == port) return s->weights[k].offset;
  return SIZE_MAX;
}

typedef struct product {
  size_t k, n, wk, wn, w; /* w: port */
  bool biased;
} product;

static product product_of(const gpu_maker *m, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t channels = node->n_outputs;
  const tn_shape *ws = shape_of_input(m, i, channels);
  bool transposed = node->integer[0] != 0;
  product x = {.k = ws->extent[transposed ? 1 : 0],
               .n = ws->extent[transposed ? 0 : 1],
               .w = tn_port(m->p, node->inputs[channels]),
               .biased = node->integer[1] != 0};
  x.wk = transposed ? 1 : x.n;
  x.wn = transposed ? x.k : 1;
  return x;
}

/* Outputs of a thread: as many accumulators as registers allow, in so many blocks that all threads have work. */
static size_t units_of(const gpu_site *s, size_t n, size_t channels) {
  size_t rooms = s->points == 64 ? 24 : 32, at_once = s->threads / s->points;
  size_t most = rooms / channels ? rooms / channels : 1, blocks = (n + most - 1) / most;
  blocks = (blocks + at_once - 1) / at_once * at_once;
  if (blocks > n) blocks = n;
  return (n + blocks - 1) / blocks;
}

/* Channels [first, first + count) of the product. */
static void put_channels(gpu_maker *m, const gpu_site *s, size_t i, const product *x, size_t first, size_t count) {
  const tn_node *node = m->p->nodes[i];
  gpu_writer *w = &m->w;
  size_t shared = shared_at(s, x->w);
  gpu_put(w, "  {\n    const T *const h[] = {");
  for (size_t c = first; c < first + count; ++c) {
    gpu_put(w, c > first ? ", " : "");
    gpu_put_value(m, s, "const ", tn_port(m->p, node->inputs[c]));
  }
  gpu_put(w, "};\n    T *const y[] = {");
  for (size_t c = first; c < first + count; ++c) {
    gpu_put(w, c > first ? ", " : "");
    gpu_put_value(m, s, "", m->p->port[i] + c);
  }
  gpu_put(w, "};\n    F(lin)<%zu, %zu>(p, %zu, %zu, ", count, units_of(s, x->n, count), x->k, x->n);
  if (shared == SIZE_MAX) gpu_put(w, "DATA(const T, %zu)", x->w);
  else gpu_put(w, "(const T *)(p.shared + %zu)", shared);
  gpu_put(w, ", %zu, %zu, ", x->wk, x->wn);
  if (first == 0 && x->biased) gpu_put_value(m, s, "const ", tn_port(m->p, node->inputs[node->n_outputs + 1]));
  else gpu_put(w, "(const T *)0");
  gpu_put(w, ", h, y, %s);\n  }\n", gpu_format_of(node));
}

static void put_lin(gpu_maker *m, const gpu_site *s, size_t i) {
  enum { AT_ONCE = 8 };
  const tn_node *node = m->p->nodes[i];
  product x = product_of(m, i);
  size_t channels = node->n_outputs, parts = (channels + AT_ONCE - 1) / AT_ONCE;
  if (s->points > 1) {
    for (size_t q = 0; q < parts; ++q)
      put_channels(m, s, i, &x, q * channels / parts, (q + 1) * channels / parts - q * channels / parts);
    return;
  }
  for (size_t c = 0; c < channels; ++c) {
    gpu_put(&m->w, "  F(lin_rows)(p, %zu, %zu, %zu, DATA(const T, %zu), %zu, %zu, ",
            layout_of_input(m, i, c)->width / x.k, x.k, x.n, x.w, x.wk, x.wn);
    if (c == 0 && x.biased) gpu_put_value(m, s, "const ", tn_port(m->p, node->inputs[channels + 1]));
    else gpu_put(&m->w, "(const T *)0");
    gpu_put(&m->w, ", DATA(const T, %zu), DATA(T, %zu), %s);\n", tn_port(m->p, node->inputs[c]), m->p->port[i] + c,
            gpu_format_of(node));
  }
}

/* All pairs without points, onto the variable s of entry (i, j). */
void gpu_put_fixed_pairs(gpu_maker *m, size_t i, const char *data) {
  const tn_node *node = m->p->nodes[i];
  size_t pairs = (size_t)node->integer[0], k = node->shapes[0].extent[0], n = node->shapes[0].extent[1];
  for (size_t q = 0; q < pairs; ++q) {
    const tn_layout *z = layout_of_input(m, i, q), *h = layout_of_input(m, i, pairs + q);
    if (z->axis || h->axis) continue;
    gpu_put(&m->w, "    s = F(outer_rows)(s, %zu, %zu, %zu, i, j, (const T *)%s[%zu], (const T *)%s[%zu]);\n",
            z->width / n, k, n, data, tn_port(m->p, node->inputs[pairs + q]), data, tn_port(m->p, node->inputs[q]));
  }
}

static void put_outer_fixed(gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  put_starts(m, s, i, 0, 0);
  put_each(m, s, node->shapes[0].extent[0] * node->shapes[0].extent[1]);
  gpu_put(&m->w, "    const unsigned i = e / %zuu, j = e %% %zuu;\n    V s = K(0);\n", node->shapes[0].extent[1],
          node->shapes[0].extent[1]);
  gpu_put_fixed_pairs(m, i, "p.data");
  gpu_put(&m->w, "    y[e] = F(stored)(s, %s);\n  }\n", gpu_format_of(node));
}

/* The shape of a thread's block of entries by lanes: the longer side of a thin matrix, else squares as large as leave
 * work for all threads. */
static void put_lanes_shape(gpu_maker *m, const gpu_site *s, size_t k, size_t n) {
  size_t rows = 4, columns = 4, lanes = s->loop->lanes;
  if (n == 1) rows = 16, columns = 1;
  else if (k == 1) rows = 1, columns = 16;
  else if (n <= 2) rows = 8, columns = 2;
  else if (k <= 2) rows = 2, columns = 8;
  else if (lanes == 16 && (k + 7) / 8 * ((n + 3) / 4) * lanes >= s->threads) rows = 8; /* f64 has no registers */
  gpu_put(&m->w, ", %zu, %zu", rows, columns);
}

/* Of sums by points: entries of a thread, points at once in shared memory (0: they do not fit). */
typedef struct staging {
  size_t tall, wide, at_once, bytes;
} staging;
static staging staging_of(const gpu_maker *m, const gpu_site *s, size_t i) {
  const tn_node *node = m->p->nodes[i];
  size_t k = node->shapes[0].extent[0], n = node->shapes[0].extent[1], rows = s->threads / 32;
  size_t tall = (k + rows - 1) / rows, wide = (n + 31) / 32;
  size_t point = (size_t)node->integer[0] * (k + n + 1) * m->p->layout[m->p->port[i]].size;
  staging x = {tall < 8 ? tall : 8, wide < 4 ? wide : 4, 8, 0};
  while (x.at_once && x.at_once * point > GPU_SHARED_POINTS) x.at_once /= 2;
  x.bytes = x.at_once * point;
  return x;
}
size_t gpu_staging_bytes(const gpu_maker *m, const gpu_site *s, size_t node) { return staging_of(m, s, node).bytes; }

/* Pairs with points, added to the part's sum `offset` bytes behind its start. */
static void put_outer(gpu_maker *m, const gpu_site *s, size_t i, size_t offset) {
  const tn_node *node = m->p->nodes[i];
  size_t pairs = (size_t)node->integer[0], count = 0, k = node->shapes[0].extent[0], n = node->shapes[0].extent[1];
  for (int side = 0; side < 2; ++side) { /* h, then z */
    gpu_put(&m->w, side ? "};\n  const F(operand) z[] = {" : "  const F(operand) h[] = {");
    count = 0;
    for (size_t q = 0; q < pairs; ++q) {
      const tn_layout *zl = layout_of_input(m, i, q), *hl = layout_of_input(m, i, pairs + q);
      if (!zl->axis && !hl->axis) continue;
      size_t port = tn_port(m->p, node->inputs[side ? q : pairs + q]);
      bool tiled = (side ? zl : hl)->axis != 0;
      gpu_put(&m->w, tiled ? "%sTILED(%zu)" : "%sFIXED(%zu)", count++ ? ", " : "", tiled ? s->place[port] : port);
    }
  }
  gpu_put(&m->w, "};\n");
  if (!tn_outer_by_points(node->dtype, k, n)) {
    gpu_put(&m->w, "  F(outer_lanes)<%zu, %zu, %zu", count, k, n);
    put_lanes_shape(m, s, k, n);
    gpu_put(&m->w, ">(p, h, z, (T *)(p.sums + %zu), %s);\n", offset, s->out->by_groups ? "false" : "true");
    return;
  }
  staging x = staging_of(m, s, i);
  if (x.at_once)
    gpu_put(&m->w,
            "  F(outer_points)<%zu, %zu, %zu, %zu, %zu, %zu>(p, h, z, (T *)(p.sums + %zu), (T *)(p.shared + %zu));\n",
            count, k, n, x.tall, x.wide, x.at_once, offset, s->shared);
  else gpu_put(&m->w, "  F(outer_points_plain)<%zu, %zu, %zu>(p, h, z, (T *)(p.sums + %zu));\n", count, k, n, offset);
}

void gpu_put_reduction(gpu_maker *m, const gpu_site *s, size_t i, size_t offset) {
  if (m->p->nodes[i]->op->id == TN_OP_jet_outer) {
    put_outer(m, s, i, offset);
    return;
  }
  gpu_put(&m->w, "  F(sum_lanes)(p, %zu, ", layout_of_input(m, i, 0)->width);
  gpu_put_value(m, s, "const ", tn_port(m->p, m->p->nodes[i]->inputs[0]));
  gpu_put(&m->w, ", (T *)(p.sums + %zu), %s);\n", offset, s->out->by_groups ? "false" : "true");
}

/* ---- Dispatch ---- */

void gpu_put_body(gpu_maker *m, const gpu_site *s, size_t i) {
  switch (m->p->nodes[i]->op->id) {
  case TN_OP_input:
  case TN_OP_fill: put_leaf(m, s, i); return;
  case TN_OP_sum: put_sum_fixed(m, s, i); return;
  case TN_OP_reshape: put_copy(m, s, i); return;
  case TN_OP_expand: put_expand(m, s, i); return;
  case TN_OP_transpose: put_transpose(m, s, i); return;
  case TN_OP_slice:
  case TN_OP_pad: put_slice_or_pad(m, s, i); return;
  case TN_OP_concat:
  case TN_OP_stack: put_concat_or_stack(m, s, i); return;
  case TN_OP_cast: put_cast(m, s, i); return;
  case TN_OP_jet_outer: put_outer_fixed(m, s, i); return;
  case TN_OP_softmax:
  case TN_OP_layer_norm:
  case TN_OP_rstd: put_rows(m, s, i); return;
  case TN_OP_jet_lin: put_lin(m, s, i); return;
  default: put_elementwise(m, s, i); return;
  }
}
