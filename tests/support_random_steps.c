/* support_random_steps.c: elementwise, structural and linear steps of the graph generator. */
#include "tests/support_random_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Functions of one argument ---- */

double random_exponent(random_maker *m, tn_op_id op) {
  static const double whole[] = {3, 4, -2, 5, -3, 6, 2, -1, 7, 0, 1};
  static const double real[] = {0.5, 1.5, -0.5, 2.5, 0.25, -1.75};
  if (op == TN_OP_powi)
    return whole[random_below(m, sizeof whole / sizeof *whole)];
  return op == TN_OP_powr ? real[random_below(m, sizeof real / sizeof *real)] : 0;
}

/* Does f live on a part of the line only? Then its row names a part of that part. */
static bool is_local(tn_op_id op, double exponent) {
  switch (op) {
  case TN_OP_recip:
  case TN_OP_sqrt:
  case TN_OP_log:
  case TN_OP_log1p:
  case TN_OP_log10:
  case TN_OP_dlog10:
  case TN_OP_tan:
  case TN_OP_asin:
  case TN_OP_acos:
  case TN_OP_powr:
    return true;
  default:
    return op == TN_OP_powi && exponent < 0;
  }
}

tn_value random_argument(random_maker *m, tn_op_id op, double exponent, tn_value x, double size) {
  const tn_op *row = tn_op_row(op);
  tn_dtype dtype = tn_dtype_of(x);
  bool exponential = op == TN_OP_exp || op == TN_OP_expm1 || op == TN_OP_sinh || op == TN_OP_cosh ||
                     (op == TN_OP_powi && fabs(exponent) > 3);
  if (m->wild && random_chance(m, 40))
    return x;
  if (exponential && size > 4)
    return tn_tanh(x);
  if (!is_local(op, exponent))
    return x;
  double lo = op == TN_OP_powi ? 0.5 : row->lo, hi = row->hi > 9 ? 9 : row->hi;
  double middle = 0.5 * (lo + hi), half = 0.45 * (hi - lo);
  tn_value inside = size <= 1 ? x : random_chance(m, 50) ? tn_sin(x) : tn_tanh(x);
  return tn_add(random_number(m, dtype, middle), tn_mul(random_number(m, dtype, half), inside));
}

static double size_of_function(tn_op_id op, double exponent, double size) {
  switch (op) {
  case TN_OP_square:
  case TN_OP_relu2:
    return size * size;
  case TN_OP_relu3:
    return size * size * size;
  case TN_OP_exp:
  case TN_OP_expm1:
  case TN_OP_sinh:
  case TN_OP_cosh:
    return size > 4 ? 3 : exp(size);
  case TN_OP_powi:
    return pow(size > 4 ? size : 4, fabs(exponent));
  case TN_OP_powr:
    return 1e3;
  case TN_OP_recip:
    return 10;
  case TN_OP_dlog10:
    return 45;
  case TN_OP_tan:
    return 6;
  default:
    return size > 4 ? size : 4;
  }
}

tn_value random_function(random_maker *m, tn_op_id op, double exponent, tn_value x, double *size) {
  tn_value y = tn_unary(op, random_argument(m, op, exponent, x, *size), exponent);
  *size = size_of_function(op, exponent, *size);
  return y;
}

void random_step_unary(random_maker *m) {
  random_place place = random_chance(m, 75) ? ON_POINTS : FIXED;
  const random_item *x = random_pick(m, (random_want){.place = place, .dtype = TN_DTYPES});
  tn_op_id op = random_unary_row(m);
  double exponent = random_exponent(m, op);
  if (!x)
    return;
  double size = x->size;
  tn_value y = random_function(m, op, exponent, x->v, &size);
  random_keep(m, y, size);
}

/* ---- Two arguments ---- */

/* Something to combine x with: of its shape, or a scalar. */
static tn_value partner(random_maker *m, const random_item *x) {
  tn_shape shape = random_chance(m, 30) ? tn_shape_scalar() : x->shape;
  return random_value(m, x->dtype, shape);
}

void random_step_binary(random_maker *m) {
  random_place place = random_chance(m, 75) ? ON_POINTS : FIXED;
  const random_item *picked = random_pick(m, (random_want){.place = place, .dtype = TN_DTYPES});
  tn_op_id op = random_binary_row(m);
  if (!picked)
    return;
  random_item x = *picked;
  tn_value a = x.v, b = random_chance(m, 6) ? x.v : partner(m, &x);
  if (random_chance(m, 40)) {
    tn_value swap = a;
    a = b;
    b = swap;
  }
  bool tamely = !(m->wild && random_chance(m, 40));
  if (tamely && (op == TN_OP_div || op == TN_OP_pow)) {
    tn_value *low = op == TN_OP_div ? &b : &a;
    *low = tn_add(random_number(m, x.dtype, 2), tn_sin(*low));
    if (op == TN_OP_pow)
      b = tn_mul(random_number(m, x.dtype, 1.5), tn_tanh(b));
  }
  double other = x.size > 30 ? x.size : 30;
  random_keep(m, tn_binary(op, a, b), op == TN_OP_mul ? other * other : 2 * other);
}

/* ---- Masks ---- */

static void compare(random_maker *m) {
  random_place place = random_chance(m, 75) ? ON_POINTS : FIXED;
  const random_item *picked = random_pick(m, (random_want){.place = place, .dtype = TN_DTYPES});
  tn_op_id op = random_comparison_row(m);
  if (!picked)
    return;
  random_item x = *picked;
  tn_value a = x.v, b = partner(m, &x);
  if (op == TN_OP_eq || op == TN_OP_ne) { /* so that both answers occur */
    a = tn_sign(a);
    b = tn_sign(b);
  }
  random_keep_mask(m, tn_binary(op, a, b), x.dtype);
}

static void logic(random_maker *m) {
  const random_item *picked = random_pick(m, (random_want){.place = ANYWHERE, .dtype = TN_BOOL});
  if (!picked) {
    compare(m);
    return;
  }
  random_item a = *picked;
  size_t which = m->deck++ % 3;
  tn_value b = a.v;
  for (int tries = 0; tries < 10; ++tries) {
    tn_shape scalar = tn_shape_scalar();
    const random_item *other =
        random_pick(m, (random_want){.place = ANYWHERE,
                                     .dtype = TN_BOOL,
                                     .shape = random_chance(m, 25) ? &scalar : &a.shape});
    if (other && (other->shape.rank == 0 || other->origin == a.origin))
      b = other->v;
    if (!tn_same(b, a.v))
      break;
  }
  tn_value y = which == 0 ? tn_not(a.v) : which == 1 ? tn_both(a.v, b) : tn_either(b, a.v);
  random_keep_mask(m, y, a.origin);
}

static void select(random_maker *m) {
  const random_item *picked = random_pick(m, (random_want){.place = ANYWHERE, .dtype = TN_BOOL});
  if (!picked) {
    compare(m);
    return;
  }
  random_item mask = *picked;
  tn_shape scalar = tn_shape_scalar();
  tn_value a = random_value(m, mask.origin, random_chance(m, 25) ? scalar : mask.shape);
  tn_value b = random_value(m, mask.origin, random_chance(m, 25) ? scalar : mask.shape);
  random_keep(m, tn_where(mask.v, a, b), 30);
}

void random_step_mask(random_maker *m) {
  size_t k = random_below(m, 10);
  if (k < 4)
    compare(m);
  else if (k < 7)
    logic(m);
  else
    select(m);
}

/* ---- Structure ---- */

typedef enum shaping {
  SUM,
  EXPAND,
  TO_POINTS,
  RESHAPE,
  TRANSPOSE,
  SLICE,
  PAD,
  CONCAT,
  STACK,
  CAST,
  BROADCAST,
  SHAPINGS
} shaping;

static size_t first_fixed(const tn_shape *shape) { return tn_shape_batched(shape) ? 1 : 0; }

static size_t some_axis(random_maker *m, const tn_shape *shape) {
  size_t first = first_fixed(shape);
  return first + random_below(m, shape->rank - first);
}

static tn_value reshaped(random_maker *m, const random_item *x) {
  size_t first = first_fixed(&x->shape), width = tn_shape_width(&x->shape);
  tn_shape to = {.rank = (uint32_t)first, .axis = {x->shape.axis[0]}};
  size_t room = TN_MAX_RANK - first, parts = random_below(m, room + 1);
  for (size_t i = 0; i < parts; ++i) {
    size_t extent = width;
    if (i + 1 < parts) /* a random divisor, often small */
      for (extent = 1 + random_below(m, 6); width % extent; --extent) {
      }
    to.extent[to.rank++] = extent;
    width /= extent;
  }
  if (width != 1) { /* no axis left to hold the rest */
    to.rank = (uint32_t)first;
    to.extent[to.rank++] = tn_shape_width(&x->shape);
  }
  return tn_reshape(x->v, to);
}

static tn_value joined(random_maker *m, const random_item *x, bool stack) {
  tn_value part[5];
  size_t n = 1 + random_below(m, 4), axis = stack ? 0 : some_axis(m, &x->shape);
  for (size_t i = 0; i < n; ++i) {
    const random_item *other =
        random_pick(m, (random_want){.place = ANYWHERE, .dtype = x->dtype, .shape = &x->shape});
    part[i] = other && other->origin == x->origin && random_chance(m, 60) ? other->v : x->v;
    if (!stack && random_chance(m, 40))
      part[i] = tn_slice(part[i], axis, 0, 1 + random_below(m, x->shape.extent[axis]));
  }
  return stack ? tn_stack(n, part) : tn_concat(n, part, axis);
}

static tn_value broadcast(random_maker *m, const random_item *x) {
  const random_item *to = random_pick(
      m, (random_want){.place = random_chance(m, 60) ? ON_POINTS : ANYWHERE, .dtype = TN_DTYPES});
  if (x->shape.rank == 0 && x->dtype != TN_BOOL && to)
    return tn_broadcast(x->v, to->shape);
  tn_shape shape = x->shape; /* a new last axis, of an extent that is not there yet */
  if (shape.rank == TN_MAX_RANK)
    return x->v;
  size_t extent = 2;
  for (uint32_t i = 0; i < shape.rank; ++i)
    extent += shape.extent[i];
  shape.extent[shape.rank++] = extent;
  if (tn_shape_width(&shape) > RANDOM_BATCH_WIDTH)
    return x->v;
  return tn_broadcast(x->v, shape);
}

static tn_dtype other_dtype(random_maker *m, tn_dtype dtype) {
  tn_dtype to = dtype;
  while (to == dtype)
    to = (tn_dtype)(TN_F32 + random_below(m, 4));
  return to;
}

/* An invalid value: the shaping does not fit x. */
static tn_value shaped(random_maker *m, shaping kind, const random_item *x) {
  size_t first = first_fixed(&x->shape), fixed = x->shape.rank - first;
  size_t width = tn_shape_width(&x->shape);
  bool mask = x->dtype == TN_BOOL;
  tn_value none = {0};
  size_t axis = fixed ? some_axis(m, &x->shape) : 0, extent = fixed ? x->shape.extent[axis] : 1;
  switch (kind) {
  case SUM:
    return fixed && !mask ? tn_sum(x->v, axis) : none;
  case EXPAND:
    if (x->shape.rank == TN_MAX_RANK || width > 40)
      return none;
    return tn_expand(x->v, first + random_below(m, fixed + 1), 0, 1 + random_below(m, 3));
  case TO_POINTS:
    if (first || x->shape.rank == TN_MAX_RANK || width > RANDOM_BATCH_WIDTH)
      return none;
    return tn_expand(x->v, 0, random_axis(m), 0);
  case RESHAPE:
    return reshaped(m, x);
  case TRANSPOSE:
    return fixed > 1 ? tn_transpose(x->v, first, first + 1 + random_below(m, fixed - 1)) : none;
  case SLICE: {
    if (!fixed || extent < 2)
      return none;
    size_t from = random_below(m, extent);
    return tn_slice(x->v, axis, from, 1 + random_below(m, extent - from));
  }
  case PAD: {
    size_t before = random_below(m, 3);
    return fixed && width <= 30 ? tn_pad(x->v, axis, before, 1 + random_below(m, 3)) : none;
  }
  case CONCAT:
    return fixed && width <= 30 ? joined(m, x, false) : none;
  case STACK:
    return x->shape.rank < TN_MAX_RANK && width <= 30 ? joined(m, x, true) : none;
  case CAST:
    if (mask || (!m->mixed && !m->low))
      return none;
    if (m->low && random_chance(m, m->mixed ? 70 : 100)) /* to another one, mostly a low one */
      return tn_cast(x->v, other_dtype(m, x->dtype));
    return tn_cast(x->v, x->dtype == TN_F64 ? TN_F32 : TN_F64);
  default:
    return broadcast(m, x);
  }
}

void random_step_structure(random_maker *m) {
  bool casts = (m->mixed && random_chance(m, 25)) || (m->low && random_chance(m, 35));
  shaping kind = casts ? CAST : (shaping)(m->deck++ % SHAPINGS);
  for (int tries = 0; tries < 12; ++tries) {
    bool mask = random_chance(m, 15);
    const random_item *picked =
        random_pick(m, (random_want){.place = random_chance(m, 75) ? ON_POINTS : FIXED,
                                     .dtype = mask ? TN_BOOL : TN_DTYPES,
                                     .rank = (uint32_t)random_below(m, 3)});
    if (!picked)
      continue;
    random_item x = *picked;
    if (mask && kind == TO_POINTS && x.origin != TN_F64)
      continue; /* a mask repeated over points serves f64 */
    tn_value y = shaped(m, kind, &x);
    if (!y.graph)
      continue;
    if (mask)
      random_keep_mask(m, y, x.origin);
    else
      random_keep(m, y, kind == SUM ? 4 * x.size : x.size);
    if (kind == RESHAPE && tn_shape_of(y).rank < TN_MAX_RANK && random_chance(m, 60)) {
      tn_shape longer = tn_shape_of(y); /* a name of a name */
      longer.extent[longer.rank++] = 1;
      if (mask)
        random_keep_mask(m, tn_reshape(y, longer), x.origin);
      else
        random_keep(m, tn_sin(tn_reshape(y, longer)), 1);
    }
    return;
  }
}

/* ---- Rows --------------------------------------------------------------------------------------- */

void random_step_rows(random_maker *m) {
  const random_item *picked = random_pick(
      m, (random_want){
             .place = random_chance(m, 75) ? ON_POINTS : FIXED, .dtype = TN_DTYPES, .rank = 1});
  if (!picked)
    return;
  random_item x = *picked;
  double epsilon = m->wild && random_chance(m, 20) ? 0 : 0.125;
  switch (m->deck++ % 3) {
  case 0:
    random_keep(m, tn_softmax(x.v), 1);
    return;
  case 1:
    random_keep(m, tn_layer_norm(x.v, epsilon), 8);
    return;
  default:
    random_keep(m, tn_rstd(x.v, epsilon), 8);
  }
}

/* ---- Products with matrices ---- */

static tn_value matrix_for(random_maker *m, tn_dtype dtype, size_t k, bool transposed) {
  for (int tries = 0; tries < 6; ++tries) {
    const random_item *w = random_pick(m, (random_want){.place = FIXED, .dtype = dtype, .rank = 2});
    if (w && w->shape.rank == 2 && w->shape.extent[transposed] == k)
      return w->v;
  }
  size_t n = random_width(m, 10), extent[2] = {transposed ? n : k, transposed ? k : n};
  return random_value(m, dtype, tn_shape_fixed(2, extent));
}

void random_step_linear(random_maker *m) {
  bool batched = random_chance(m, 75);
  const random_item *picked = NULL;
  for (int tries = 0; tries < 30 && !picked; ++tries) {
    picked = random_pick(
        m, (random_want){.place = batched ? ON_POINTS : FIXED, .dtype = TN_DTYPES, .rank = 1});
    if (picked && picked->shape.rank > 2)
      picked = NULL;
  }
  if (!picked)
    return;
  random_item x = *picked;
  bool transposed = random_chance(m, 40);
  tn_value w = matrix_for(m, x.dtype, x.shape.extent[x.shape.rank - 1], transposed), bias = {0};
  size_t n = tn_shape_of(w).extent[transposed ? 0 : 1];
  if (random_chance(m, 50))
    bias = random_value(m, x.dtype, tn_shape_fixed(1, &n));
  tn_value y = !bias.graph && !transposed && !batched ? tn_matmul(x.v, w)
                                                      : tn_linear(x.v, w, bias, transposed);
  random_keep(m, y, 60 * x.size);
}
