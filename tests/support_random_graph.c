/* support_random_graph.c: choices, items, leaves and the plan of a random graph.
 *
 * A graph grows level by level. A level makes values by random steps from all that is there; then values are summed
 * over points, and the sums come back into the points: as factors, as vectors repeated over an axis, as weights. What
 * one level summed is summed again by the next, on the same or on another set of points, so that a run needs one pass
 * over the points after another. Sizes are followed roughly and brought down where they grow, or else most graphs would
 * end in infinities.
 */
#include "tests/support_random_inside.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(const random_maker *m, tn_status status) {
  if (status != TN_OK)
    fail_msg("seed %llu: %s: %s", (unsigned long long)m->g->seed, tn_error_place(),
             tn_error_text());
}

bool random_is_wild(uint64_t seed) { return seed % 8 == 3; }

bool random_is_low(uint64_t seed) { return seed % 5 < 2; }

/* ---- Choices ---- */

size_t random_below(random_maker *m, size_t n) {
  return (size_t)(tn_random_bits(m->stream, m->next++) % n);
}

bool random_chance(random_maker *m, size_t percent) { return random_below(m, 100) < percent; }

static tn_dtype low_dtype(random_maker *m) { return (tn_dtype)(TN_TF32 + random_below(m, 3)); }

tn_dtype random_dtype(random_maker *m) {
  if (m->low && random_chance(m, m->low))
    return random_chance(m, 60) ? low_dtype(m) : TN_F32;
  return m->mixed && random_chance(m, 60) ? (random_chance(m, 50) ? TN_F32 : TN_F64)
                                          : m->main_dtype;
}

size_t random_width(random_maker *m, size_t wide) {
  static const size_t width[] = {1, 2, 3, 5, 7, 2, 3, 5, 8, 9, 13, 16, 17, 20, 33, 64, 65};
  if (random_chance(m, wide))
    return width[12 + random_below(m, 5)];
  return width[random_chance(m, 65) ? random_below(m, 8) : 8 + random_below(m, 6)];
}

tn_axis random_axis(random_maker *m) { return m->g->axis[random_below(m, m->g->n_axes)]; }

static bool is_unary(const tn_op *op) { return op->arity == 1; }
static bool is_comparison(const tn_op *op) { return op->class_ == TN_COMPARISON; }
static bool is_binary(const tn_op *op) { return op->arity == 2 && !is_comparison(op); }

static tn_op_id row_of(random_maker *m, bool (*fits)(const tn_op *)) {
  size_t count = 0;
  for (int i = 0; i < TN_OPS; ++i)
    count += fits(tn_op_row((tn_op_id)i));
  size_t k = m->deck++ % count;
  for (int i = 0; i < TN_OPS; ++i)
    if (fits(tn_op_row((tn_op_id)i)) && k-- == 0)
      return (tn_op_id)i;
  return TN_OP_neg;
}

tn_op_id random_unary_row(random_maker *m) { return row_of(m, is_unary); }
tn_op_id random_binary_row(random_maker *m) { return row_of(m, is_binary); }
tn_op_id random_comparison_row(random_maker *m) { return row_of(m, is_comparison); }

/* ---- Items ---- */

static bool item_fits(const random_item *item, const random_want *want) {
  bool batched = tn_shape_batched(&item->shape);
  if (want->dtype == TN_DTYPES ? item->dtype == TN_BOOL : item->dtype != want->dtype)
    return false;
  if ((want->place == ON_POINTS && !batched) || (want->place == FIXED && batched))
    return false;
  if (want->axis && item->shape.axis[0] != want->axis)
    return false;
  if (want->shape && !tn_shape_equal(want->shape, &item->shape))
    return false;
  return item->shape.rank - batched >= want->rank;
}

const random_item *random_pick(random_maker *m, random_want want) {
  size_t start = m->n ? random_below(m, m->n) : 0;
  for (size_t i = 0; i < m->n; ++i) {
    const random_item *item = &m->item[(start + i) % m->n];
    if (item_fits(item, &want))
      return item;
  }
  return NULL;
}

static void keep(random_maker *m, tn_value v, double size, tn_dtype origin) {
  if (!tn_ok(v))
    fail_msg("seed %llu: a builder refused: %s", (unsigned long long)m->g->seed, tn_error_text());
  tn_shape shape = tn_shape_of(v);
  size_t limit = tn_shape_batched(&shape) ? RANDOM_BATCH_WIDTH : RANDOM_FIXED_WIDTH;
  if (tn_shape_width(&shape) > limit)
    return;
  size_t at = m->n < RANDOM_ITEMS ? m->n++ : random_below(m, m->n);
  m->item[at] = (random_item){v, shape, tn_dtype_of(v), origin, size};
}

void random_keep(random_maker *m, tn_value v, double size) {
  v = random_tame(m, v, &size);
  keep(m, v, size, tn_dtype_of(v));
}

void random_keep_mask(random_maker *m, tn_value v, tn_dtype origin) { keep(m, v, 1, origin); }

tn_value random_number(random_maker *m, tn_dtype dtype, double x) {
  return tn_const(m->g->graph, dtype, x);
}

tn_value random_tame(random_maker *m, tn_value v, double *size) {
  if (*size <= 30)
    return v;
  if (m->wild && random_chance(m, 5))
    return v;
  double was = *size;
  *size = 1;
  switch (random_below(m, 4)) {
  case 0:
    return tn_tanh(v);
  case 1:
    return tn_sin(v);
  case 2:
    return tn_atan(v);
  default:
    if (was > 1e6)
      return tn_tanh(v);
    *size = was * 0x1p-6 > 1 ? was * 0x1p-6 : 1;
    return random_tame(m, tn_mul(random_number(m, tn_dtype_of(v), 0x1p-6), v), size);
  }
}

/* ---- Leaves ---- */

static tn_value leaf(random_maker *m, tn_dtype dtype, tn_shape shape, bool parameter) {
  random_graph *g = m->g;
  char name[32];
  if (g->n_leaves == RANDOM_LEAVES)
    fail_msg("seed %llu: more than %d leaves", (unsigned long long)g->seed, RANDOM_LEAVES);
  snprintf(name, sizeof name, "%s%zu", parameter ? "w" : "x", m->names++);
  tn_value v = parameter ? tn_parameter(g->graph, name, dtype, shape)
                         : tn_input(g->graph, name, dtype, shape);
  g->leaf[g->n_leaves++] = v;
  keep(m, v, 2, dtype);
  return v;
}

tn_value random_input(random_maker *m, tn_dtype dtype, tn_shape shape) {
  return leaf(m, dtype, shape, false);
}

tn_value random_leaf(random_maker *m, tn_dtype dtype, tn_shape shape) {
  tn_value v = leaf(m, dtype, shape, !tn_shape_batched(&shape) && random_chance(m, 75));
  m->weight[m->n_weights++] = v;
  return v;
}

/* A number of the structure: an eighth, now and then a zero of either sign or a number that is none. */
static double some_number(random_maker *m) {
  static const double odd[] = {0.0, -0.0, 1, -1, 0.1, INFINITY, -INFINITY, NAN};
  if (random_chance(m, 12))
    return odd[random_below(m, m->wild ? 8 : 5)];
  return 0.125 * (double)random_below(m, 31) - 2;
}

tn_value random_scalar(random_maker *m, tn_dtype dtype) {
  random_graph *g = m->g;
  char name[32];
  if (g->n_scalars == RANDOM_SCALARS)
    return random_number(m, dtype, 0.75);
  snprintf(name, sizeof name, "s%zu", m->names++);
  tn_value v = tn_scalar(g->graph, name, dtype, some_number(m));
  g->scalar[g->n_scalars++] = v;
  keep(m, v, 1, dtype);
  return v;
}

static tn_value array(random_maker *m, tn_dtype dtype, tn_shape shape) {
  size_t n = tn_shape_width(&shape);
  double *x = calloc(n, sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = some_number(m);
  tn_value v = tn_const_array(m->g->graph, dtype, shape, x);
  free(x);
  return v;
}

tn_value random_value(random_maker *m, tn_dtype dtype, tn_shape shape) {
  const random_item *item =
      random_pick(m, (random_want){.place = ANYWHERE, .dtype = dtype, .shape = &shape});
  bool batched = tn_shape_batched(&shape);
  if (item && random_chance(m, 65))
    return item->v;
  if (item && random_chance(m, 50))
    return tn_sin(
        tn_mul(random_number(m, dtype, 0.5 + 0.25 * (double)random_below(m, 7)), item->v));
  tn_value v = {0};
  if (shape.rank == 0 && random_chance(m, 40))
    return random_chance(m, 60) ? random_scalar(m, dtype) : random_number(m, dtype, some_number(m));
  if (!batched && random_chance(m, 30))
    v = array(m, dtype, shape);
  else if (random_chance(m, 12))
    v = tn_fill(m->g->graph, dtype, shape, some_number(m));
  else if (shape.rank == 1 && batched && random_chance(m, 30))
    v = tn_expand(tn_count(m->g->graph, dtype, random_axis(m)), 0, shape.axis[0], 0);
  else
    return m->g->n_leaves + 20 < RANDOM_LEAVES ? random_leaf(m, dtype, shape)
                                               : tn_fill(m->g->graph, dtype, shape, 0.5);
  keep(m, v, 2, dtype);
  return v;
}

static void first_leaves(random_maker *m) {
  for (size_t a = 0; a < m->g->n_axes; ++a) {
    tn_axis axis = m->g->axis[a];
    random_leaf(m, m->main_dtype, tn_shape_points(axis));
    if (random_chance(m, 60))
      random_leaf(m, random_dtype(m), tn_shape_batch(axis, random_width(m, 8)));
    tn_shape shape = {.rank = 3, .axis = {axis}, .extent = {0, 1 + random_below(m, 5), 2}};
    shape.rank += (uint32_t)random_below(m, 2);
    shape.extent[3] = shape.rank == 4 ? 1 + random_below(m, 3) : 0;
    if (random_chance(m, 30))
      random_leaf(m, random_dtype(m), shape);
  }
  size_t extent[TN_MAX_RANK] = {random_width(m, 8), random_width(m, 8), 1 + random_below(m, 3),
                                1 + random_below(m, 3)};
  random_leaf(m, m->main_dtype, tn_shape_fixed(2, extent));
  if (extent[0] * extent[1] <= 400)
    random_leaf(m, random_dtype(m), tn_shape_fixed(3 + random_below(m, 2), extent));
  random_leaf(m, random_dtype(m), tn_shape_fixed(1, extent + random_below(m, 2)));
  random_leaf(m, m->main_dtype, tn_shape_scalar());
  random_scalar(m, m->main_dtype);
  random_scalar(m, random_dtype(m));
  tn_dtype dtype = random_dtype(m);
  keep(m, array(m, dtype, tn_shape_fixed(1 + random_below(m, 2), extent + 2)), 2, dtype);
  keep(m,
       tn_fill(m->g->graph, dtype, tn_shape_batch(random_axis(m), 1 + random_below(m, 5)), -0.75),
       1, dtype);
  keep(m, random_number(m, dtype, 1.5), 2, dtype);
  keep(m, tn_mul(random_number(m, dtype, 0x1p-8), tn_count(m->g->graph, dtype, random_axis(m))), 20,
       dtype);
}

/* ---- Levels ---- */

/* The sum over points of a value; its size follows. */
static tn_value summed(random_maker *m, const random_item *item, double *size) {
  *size = 8 * item->size;
  if (random_chance(m, 20))
    return tn_mean(item->v);
  tn_value v = tn_sum(item->v, 0);
  if (random_chance(m, 70))
    return tn_mul(random_number(m, item->dtype, 0x1p-7), v);
  return tn_div(v, tn_count(m->g->graph, item->dtype, item->shape.axis[0]));
}

/* Brings a sum back into the points of an axis; returns the value with points. */
static tn_value back(random_maker *m, tn_value sum, double size, tn_axis axis) {
  tn_shape shape = tn_shape_of(sum);
  tn_dtype dtype = tn_dtype_of(sum);
  tn_value v = random_tame(m, sum, &size), x = {0}, none = {0};
  if (shape.rank == 2 && random_chance(m, 60)) { /* as weights */
    x = random_value(m, dtype, tn_shape_batch(axis, shape.extent[0]));
    v = tn_linear(x, v, none, false);
    size *= 30;
  } else if (shape.rank && shape.rank < TN_MAX_RANK && random_chance(m, 70) &&
             tn_shape_width(&shape) <= RANDOM_BATCH_WIDTH) {
    v = tn_expand(v, 0, axis, 0);
    x = random_value(m, dtype, tn_shape_of(v));
    v = tn_add(v, x);
  } else {
    const random_item *item =
        random_pick(m, (random_want){.place = ON_POINTS, .dtype = dtype, .axis = axis});
    x = item ? item->v : random_value(m, dtype, tn_shape_points(axis));
    double ignored = size * 1e3;
    v = tn_mul(random_tame(m, tn_sum_all(v), &ignored), x);
    size = 100;
  }
  v = random_chance(m, 50) ? tn_tanh(v) : random_tame(m, v, &size);
  random_keep(m, v, size);
  return v;
}

static void random_step(random_maker *m) {
  size_t k = random_below(m, 100);
  if (k < 26)
    random_step_unary(m);
  else if (k < 42)
    random_step_binary(m);
  else if (k < 58)
    random_step_mask(m);
  else if (k < 74)
    random_step_structure(m);
  else if (k < 78)
    random_step_rows(m);
  else if (k < 87)
    random_step_linear(m);
  else
    random_step_jets(m);
}

static void grow(random_maker *m) {
  size_t levels = 1 + random_below(m, 3);
  tn_value chain = {0};
  for (size_t level = 0; level < levels; ++level) {
    size_t steps = 10 + random_below(m, 14);
    for (size_t i = 0; i < steps; ++i)
      random_step(m);
    size_t sums = 1 + random_below(m, 2) + (level == 0);
    for (size_t i = 0; i < sums; ++i) {
      tn_dtype dtype = random_chance(m, 70) ? m->main_dtype : TN_DTYPES;
      const random_item *item = random_pick(m, (random_want){.place = ON_POINTS, .dtype = dtype});
      random_item own;
      double size = 0;
      if (!item)
        continue;
      own = *item;
      if (i == 0 && tn_ok(chain))
        own = (random_item){chain, tn_shape_of(chain), tn_dtype_of(chain), tn_dtype_of(chain), 30};
      tn_value sum = summed(m, &own, &size);
      random_keep(m, sum, size);
      if (random_chance(m, 40))
        random_add_output(m, sum);
      if (i == 0 || random_chance(m, 40)) {
        tn_value returned = back(m, sum, size, random_axis(m));
        if (i == 0)
          chain = returned;
      }
    }
  }
  if (tn_ok(chain)) {
    tn_value last = tn_mean(chain);
    random_keep(m, last, 100);
    random_add_output(m, last);
    if (random_chance(m, 60))
      random_add_gradients(m, last, 1 + random_below(m, 3), NULL, random_chance(m, 30));
  }
}

/* ---- Outputs ---- */

void random_add_output(random_maker *m, tn_value v) {
  random_graph *g = m->g;
  if (!tn_ok(v))
    fail_msg("seed %llu: a bad output: %s", (unsigned long long)g->seed, tn_error_text());
  if (g->n_outputs < RANDOM_OUTPUTS)
    g->output[g->n_outputs++] = v;
}

/* One number of many values on all axes: the means of rather late ones, which have a history. */
static tn_value digest(random_maker *m) {
  tn_value sum = random_number(m, m->main_dtype, 0.25);
  for (size_t i = 0, n = 6 + random_below(m, 20); i < n; ++i) {
    const random_item *item = &m->item[m->n - 1 - random_below(m, 2 * m->n / 3 + 1)];
    tn_value v = item->v;
    if (item->dtype == TN_BOOL)
      v = tn_where(v, random_number(m, item->origin, 1), random_number(m, item->origin, -0.5));
    if (tn_dtype_of(v) != m->main_dtype && random_chance(m, 60)) /* point by point */
      v = tn_cast(v, m->main_dtype);
    v = random_chance(m, 50) ? tn_mean(v) : tn_mean(tn_square(v));
    if (tn_dtype_of(v) != m->main_dtype)
      v = tn_cast(v, m->main_dtype);
    sum = tn_add(sum, v);
  }
  return sum;
}

static void choose_outputs(random_maker *m) {
  bool reduced = random_chance(m, 50);
  size_t n = reduced ? random_below(m, 3) : 3 + random_below(m, 12);
  if (reduced || random_chance(m, 30)) {
    tn_value all = digest(m);
    random_add_output(m, all);
    random_add_gradients(m, all, 2 + random_below(m, 4), NULL, random_chance(m, 15));
  }
  for (size_t i = 0; i < n; ++i)
    random_add_output(m, m->item[m->n - 1 - random_below(m, 2 * m->n / 3 + 1)].v);
  const random_item *mask = random_pick(m, (random_want){.place = ANYWHERE, .dtype = TN_BOOL});
  if (mask && random_chance(m, 60))
    random_add_output(m, mask->v);
  if (random_chance(m, 30))
    random_add_output(m, m->g->leaf[random_below(m, m->g->n_leaves)]);
  if (random_chance(m, 15))
    random_add_output(m, m->g->scalar[random_below(m, m->g->n_scalars)]);
  if (random_chance(m, 15))
    random_add_output(m, random_number(m, TN_F64, 0.1));
  if (random_chance(m, 40)) /* one twice */
    random_add_output(m, m->g->output[random_below(m, m->g->n_outputs)]);
}

void random_add_gradients(random_maker *m, tn_value y, size_t n, const tn_value *x, bool twice) {
  tn_value from[8], to[8], next[8], norm = {0};
  n = n > 8 ? 8 : n;
  for (size_t i = 0; i < n; ++i)
    from[i] = x ? x[i] : m->weight[random_below(m, m->n_weights)];
  for (int order = 0; order < 1 + twice; ++order) {
    tn_status status = ag_grad(order ? norm : y, n, from, order ? next : to);
    if (status == TN_EUNSUPPORTED) { /* by a coefficient of an algebra: refused by name */
      tn_graph_clear_error(m->g->graph);
      ++m->g->refused;
      return;
    }
    good(m, status);
    for (size_t i = 0; i < n; ++i)
      random_add_output(m, order ? next[i] : to[i]);
    for (size_t i = 0; i < n && order < twice; ++i) {
      tn_value square = tn_sum_all(tn_square(to[i]));
      if (tn_dtype_of(square) != tn_dtype_of(y))
        square = tn_cast(square, tn_dtype_of(y));
      norm = i ? tn_add(norm, square) : square;
    }
  }
}

/* Programs that grew too large lose their last outputs. */
static void limit_size(random_maker *m) {
  random_graph *g = m->g;
  for (bool small = false; !small;) {
    tn_program *program = NULL;
    good(m, tn_compile(g->graph, g->n_outputs, g->output, &program));
    small = tn_program_nodes(program) <= RANDOM_NODES || g->n_outputs == 1;
    tn_program_free(&program);
    if (!small)
      --g->n_outputs;
  }
}

void random_graph_open(random_graph *g, uint64_t seed) {
  memset(g, 0, sizeof *g);
  random_maker *m = calloc(1, sizeof *m);
  g->seed = seed;
  m->g = g;
  m->stream = tn_stream_of(seed, "random graph");
  m->wild = random_is_wild(seed);
  m->deck = seed * 29;
  m->main_dtype = seed % 2 ? TN_F32 : TN_F64;
  m->mixed = seed / 2 % 3 == 2;
  m->low = random_is_low(seed) ? 50 : 0;
  if (m->low && seed % 3) /* in a third of them a low format leads */
    m->main_dtype = seed % 3 == 1 ? low_dtype(m) : TN_F32;
  good(m, tn_graph_new(&g->graph));
  size_t k = random_below(m, 100);
  g->n_axes = k < 25 ? 1 : k < 75 ? 2 : k < 90 ? 3 : 4;
  for (size_t a = 0; a < g->n_axes; ++a)
    g->axis[a] = tn_axis_new(g->graph, (const char *[]){"A", "B", "C", "D"}[a]);
  first_leaves(m);
  if (random_chance(m, 65))
    random_step_network(m);
  grow(m);
  choose_outputs(m);
  good(m, tn_graph_error(g->graph));
  limit_size(m);
  free(m);
}

void random_graph_close(random_graph *g) { tn_graph_free(&g->graph); }
