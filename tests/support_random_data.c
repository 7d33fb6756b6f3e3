/* support_random_data.c: numbers of points and buffers for a random graph. */
#include "tests/support_random_graph.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

/* ---- Numbers of points ---- */

/* Around a panel (8 or 16 points) and a group (64 or 128); from 4097 or 8193 on, slots have several groups. */
static const size_t counts[] = {1,  2,   7,   8,   9,   15,  16,   17,   63,   64,
                                65, 127, 128, 129, 200, 513, 1000, 2100, 4500, 13000};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Elements a point that the nodes on an axis compute; a function counts more. */
static double work_of(const tn_program *program, tn_axis axis) {
  double work = 1;
  for (size_t i = 0; i < tn_program_nodes(program); ++i) {
    const tn_node *node = tn_program_node(program, i);
    double flops = node->op->flops > 4 ? 4 : 1;
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      if (node->shapes[k].rank && node->shapes[k].axis[0] == axis)
        work += flops * (double)tn_shape_width(&node->shapes[k]);
    for (uint32_t k = 0; k < node->n_inputs && node->op->id == TN_OP_jet_outer; ++k) {
      const tn_edge e = node->inputs[k];
      const tn_shape *in = &tn_program_node(program, e.node)->shapes[e.port];
      if (in->rank && in->axis[0] == axis)
        work += (double)(node->shapes[0].extent[0] * node->shapes[0].extent[1]);
    }
  }
  return work;
}

void random_points(const random_graph *g, const tn_program *program, uint64_t round, double work,
                   size_t *points) {
  tn_stream stream = tn_stream_of(g->seed, "points");
  for (size_t a = 0; a < g->n_axes; ++a) {
    double most = work / (double)g->n_axes / work_of(program, g->axis[a]);
    size_t fit = 1;
    while (fit < COUNTS && (double)counts[fit] <= most)
      ++fit;
    uint64_t draw = tn_random_bits(stream, round * RANDOM_AXES + a);
    /* Rather many than few: of the largest half twice as often. */
    size_t half = fit / 2, k = draw % 3 ? half + draw / 3 % (fit - half) : draw / 3 % fit;
    points[a] = counts[k];
  }
}

/* ---- Numbers ---- */

static double number_of(const random_graph *g, tn_stream stream, size_t i, double scale) {
  uint64_t bits = tn_random_bits(stream, 2 * i);
  double x = scale * (4 * tn_random_uniform(stream, 2 * i + 1) - 2);
  static const double odd[] = {0.0, -0.0, 1.0, -1.0};
  static const double wild[] = {INFINITY,     -INFINITY, NAN,    DBL_MIN / 8,
                                -FLT_MIN / 8, 1e30,      -1e300, 0.0};
  if (random_is_wild(g->seed) && bits % 97 == 0)
    return wild[bits / 97 % 8];
  return bits % 53 == 0 ? odd[bits / 53 % 4] : x;
}

/* Weights of a layer of k inputs are of size 2 / sqrt(k), so that layers keep sizes. */
static void write_numbers(const random_graph *g, size_t leaf, uint64_t round, tn_buffer *buffer) {
  const tn_node *node = tn_node_of(g->leaf[leaf]);
  tn_stream stream = tn_stream_of(g->seed * 1000 + round, node->name);
  size_t n = tn_buffer_count(buffer);
  double scale = node->op->id == TN_OP_parameter && node->shapes[0].rank >= 2
                     ? 1 / sqrt((double)node->shapes[0].extent[0])
                     : 1;
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = number_of(g, stream, i, scale);
  good(tn_convert(n, TN_F64, x, node->dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  free(x);
}

static size_t extents(const random_graph *g, const tn_shape *shape, const size_t *points,
                      size_t *extent) {
  size_t count = 1;
  for (uint32_t k = 0; k < shape->rank; ++k) {
    extent[k] = shape->extent[k];
    for (size_t a = 0; a < g->n_axes; ++a)
      if (shape->axis[k] == g->axis[a])
        extent[k] = points[a];
    count *= extent[k];
  }
  return count;
}

void random_data_draw(random_data *d, const random_graph *g, uint64_t round, const size_t *points) {
  tn_stream stream = tn_stream_of(g->seed, "scalars");
  enum { FLOATS = TN_F16 + 1 };
  tn_buffer *whole[FLOATS] = {NULL}; /* of each dtype */
  bool views = g->seed / 2 % 2;
  size_t extent[TN_MAX_RANK], used[FLOATS] = {0}, room = 0;
  memset(d, 0, sizeof *d);
  memcpy(d->points, points, g->n_axes * sizeof *points);
  for (size_t i = 0; i < g->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(g->leaf[i]);
    if (!tn_shape_batched(&shape))
      room += tn_shape_width(&shape) + 3;
  }
  for (int dtype = 0; dtype < FLOATS && views; ++dtype)
    good(tn_buffer_new((tn_dtype)dtype, 1, &room, &whole[dtype]));
  for (size_t i = 0; i < g->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(g->leaf[i]);
    tn_dtype dtype = tn_dtype_of(g->leaf[i]);
    size_t count = extents(g, &shape, points, extent);
    if (views && !tn_shape_batched(&shape)) {
      good(tn_buffer_view(whole[dtype], used[dtype], shape.rank, extent, &d->buffer[i]));
      used[dtype] += count + i % 3;
    } else {
      good(tn_buffer_new(dtype, shape.rank, extent, &d->buffer[i]));
    }
    write_numbers(g, i, round, d->buffer[i]);
  }
  for (size_t i = 0; i < g->n_scalars; ++i)
    d->number[i] = 4 * tn_random_uniform(stream, round * RANDOM_SCALARS + i) - 2;
  for (int dtype = 0; dtype < FLOATS; ++dtype)
    tn_buffer_release(&whole[dtype]);
}

void random_data_change(random_data *d, const random_graph *g, uint64_t round) {
  for (size_t i = 0; i < g->n_leaves; ++i)
    write_numbers(g, i, round, d->buffer[i]);
}

void random_data_bind(const random_data *d, const random_graph *g, tn_exec *exec, size_t k,
                      size_t of) {
  for (size_t i = k; i < g->n_leaves; i += of)
    good(tn_exec_bind(exec, g->leaf[i], d->buffer[i]));
  for (size_t i = k; i < g->n_scalars; i += of)
    good(tn_exec_set(exec, g->scalar[i], d->number[i]));
}

void random_data_drop(random_data *d) {
  for (size_t i = 0; i < RANDOM_LEAVES; ++i)
    tn_buffer_release(&d->buffer[i]);
}
