/* running.c: running error bounds: beside each number of a run, how wrong it can be.
 *
 * Wilkinson's running error analysis (Higham, Accuracy and Stability, 3.3): a pass over the program in plain
 * f64 carries eps beside every computed value y^ of the engine, with |y^ - y| <= eps, y the value of
 * the same program on the same stored data without rounding:
 *
 *   leaf        0
 *   a + b       eps_a + eps_b + u |y^|
 *   a b         |a^| eps_b + |b^| eps_a + eps_a eps_b + u |y^|
 *   f(a)        max |f(a^ +- eps_a) - f(a^)|, evaluated at both ends, and the row's promise in ulp
 *   cast        eps_a + |y^ - a^|: this rounding is known exactly
 *   where       eps of what is chosen; of both and their distance where rounding may turn the mask
 *
 * (products of matrices, sums, rows and jets in running_sums.c, running_rows.c and running_jet.c). Roundings
 * are charged from the values at hand, so cancellation and growth are seen as they happen, and second-order
 * terms (squares at 0, sech^2 at 0) are in. It costs a few times the program in f64, at any size, and no MPFR. It is
 * pessimistic, since it adds what partly cancels: by a factor near sqrt(width) for each layer between
 * a rounding and the result. The bound is tested to hold for every entry against MPFR.
 *
 * vd_running_expect is the same pass with errors joined as independent ones, by the root of the sum of
 * squares: no bound, but the size that rounding errors of this computation have when nothing is wrong
 * with its kernels. Its figure over u is the condition scale that outputs of deep programs are judged by.
 *
 * Between both ends a function is taken to be monotone, or to turn once, at one of a few known places.
 * Where an end falls out of the domain or a pole lies between, the bound is infinite.
 */
#include <float.h>
#include <string.h>

#include "validate/running.h"

/* What f64 arithmetic of the bounds themselves may lose; far above n 2^-53 for all n here. LEAST: among the
 * subnormals, where a few products of errors may vanish. */
#define SLACK (1 + 0x1p-30)
#define LEAST 0x1p-1071

vd_rounding vd_rounding_of(const vd_running *r, tn_dtype dtype) {
  tn_dtype compute = tn_dtype_compute(dtype);
  vd_rounding f = {.dtype = dtype, .u = tn_dtype_roundoff(compute), .random = r->random};
  f.tiny = compute == TN_F64 ? LEAST : 0x1p-149;
  f.most = compute == TN_F64 ? DBL_MAX : FLT_MAX;
  if (compute != dtype) {
    f.stored_u = tn_dtype_roundoff(dtype);
    f.stored_tiny = dtype == TN_F16 ? 0x1p-24 : dtype == TN_BF16 ? 0x1p-133 : 0x1p-136;
  }
  return f;
}

double vd_near_error(vd_near x, const vd_rounding *f, double stored) {
  double last = f->stored_u * (fabs(x.v) + x.r) + f->stored_tiny;
  double error = vd_join(f, vd_join(f, x.r, x.t), last) * SLACK;
  return isfinite(stored) && error >= 0 ? error : INFINITY; /* NaN: something was infinite */
}

/* ---- Arithmetic ------------------------------------------------------------------------------- */

/* What may have overflowed inside a node is anything: 1 / (1 + x^2) is finite again. */
static vd_near in_range(vd_near x, const vd_rounding *f) {
  if (!(fabs(x.v) + x.r <= f->most))
    x.r = INFINITY;
  return x;
}

/* Adds one rounding of the engine, and that of v itself. In f64 on the engine's own operands (r = 0) the
 * two are one: v is the engine's number. Factors that it merges otherwise are not powers of two, and
 * those leave r > 0. */
static vd_near rounded(vd_near x, const vd_rounding *f) {
  double own = 0x1p-53 * fabs(x.v) + LEAST;
  x.t = vd_join(f, x.t, own);
  if (f->u > 0x1p-53 || x.r > 0)
    x.r = vd_join(f, x.r, f->u * (fabs(x.v) + x.r) + f->tiny + own);
  return in_range(x, f);
}

vd_near vd_near_number(double k, const vd_rounding *f) {
  return (vd_near){k, fabs(tn_round(tn_dtype_compute(f->dtype), k) - k), 0};
}

vd_near vd_near_scale(double k, vd_near a, const vd_rounding *f) {
  int exponent = 0;
  double size = fabs(k);
  vd_near y = {k * a.v, size * a.r, size * a.t};
  if (frexp(size, &exponent) == 0.5 || size == 0) {
    if (size < 1 && size > 0 && (a.v != 0 || a.r > 0) && fabs(y.v) <= 0x1p-125 + y.r)
      y.r += f->tiny, y.t += LEAST; /* a bit lost among the subnormals */
    return in_range(y, f);
  }
  y.r = vd_join(f, y.r, f->u * (fabs(y.v) + y.r)); /* the constant */
  y.t += 0x1p-53 * (fabs(y.v) + y.t) + LEAST;      /* a quotient, rounded to f64 */
  return rounded(y, f);
}

vd_near vd_near_add(vd_near a, vd_near b, const vd_rounding *f) {
  return rounded((vd_near){a.v + b.v, vd_join(f, a.r, b.r), vd_join(f, a.t, b.t)}, f);
}

static vd_near product(vd_near a, vd_near b, const vd_rounding *f) {
  double p = fabs(a.v), q = fabs(b.v);
  return (vd_near){a.v * b.v, vd_join(f, p * b.r, q * a.r) + a.r * b.r,
                   vd_join(f, p * b.t, q * a.t) + a.t * b.t};
}

vd_near vd_near_mul(vd_near a, vd_near b, const vd_rounding *f) {
  return rounded(product(a, b, f), f);
}

vd_near vd_near_fma(vd_near a, vd_near b, vd_near c, const vd_rounding *f) {
  vd_near y = product(a, b, f);
  y.v = fma(a.v, b.v, c.v);
  y.r = vd_join(f, y.r, c.r);
  y.t = vd_join(f, y.t, c.t);
  return rounded(y, f);
}

/* The largest |(a + da) / (b + db) - a / b|. */
static double moved_quotient(vd_near a, vd_near b, double da, double db, const vd_rounding *f) {
  double q = fabs(b.v);
  if (da == 0 && db == 0)
    return 0;
  return db < q ? vd_join(f, da, fabs(a.v) / q * db) / (q - db) : INFINITY;
}

vd_near vd_near_div(vd_near a, vd_near b, const vd_rounding *f) {
  vd_near y = {a.v / b.v, moved_quotient(a, b, a.r, b.r, f), moved_quotient(a, b, a.t, b.t, f)};
  return rounded(y, f);
}

/* ---- Functions -------------------------------------------------------------------------------- */

static bool has_pole_at_zero(tn_op_id op, double exponent) {
  return op == TN_OP_recip || op == TN_OP_dlog10 || (vd_is_power(op) && exponent < 0);
}

/* The promise of a row, as a multiple of u |y|: an ulp is at most 2 u |y|. */
static double promise_of(tn_op_id op) { return fmax(1, 2 * tn_op_row(op)->ulp[0]); }

typedef struct row_work {
  double *x, *y, *end, *radius; /* n each */
} row_work;

/* Where else between both ends a row may be farthest from f(x): at 0, and at the lowest points of silu and
 * gelu. */
static const double turns[] = {0, -1.2784645427610738, -0.7517915246935645};
enum { TURNS = sizeof turns / sizeof *turns };

/* Sine, cosine and tangent turn, or have poles, again and again: r from where the value is y they move by
 *   |sin(x + h) - sin x| <= |cos x| r + r^2 / 2, r, and 2
 *   |tan(x + h) - tan x| <= (1 + y^2) T / (1 - |y| T),   T = tan r <= r + r^3 for r <= 1/2. */
static bool is_periodic(tn_op_id op) {
  return op == TN_OP_sin || op == TN_OP_cos || op == TN_OP_tan;
}

static double moved_periodic(tn_op_id op, double y, double r) {
  double size = fabs(y), most = r + r * r * r;
  if (r == 0 || isinf(r))
    return r;
  if (op == TN_OP_tan)
    return r <= 0.5 && size * most < 1 - 0x1p-20 ? (1 + y * y) * most / (1 - size * most) * SLACK
                                                 : INFINITY;
  double slope = sqrt(fabs(1 - y * y) + 0x1p-49); /* y is rounded itself */
  return fmin(fmin(r, 2), slope * r + r * r / 2) * SLACK;
}

/* A radius below 2^-20 |x| is tried at that distance and the result scaled down, so that f64 can see it. */
static double tried_at(const row_work *w, size_t i) {
  return fmax(w->radius[i], 0x1p-20 * fabs(w->x[i]));
}

/* moved[i] = max |f(x +- radius) - f(x)|, with f64's own errors in f. */
static tn_status move_row(tn_op_id op, double exponent, size_t n, const row_work *w,
                          double *moved) {
  double noise = 2 * promise_of(op) * 0x1p-53;
  for (size_t i = 0; i < n; ++i)
    moved[i] = is_periodic(op) ? moved_periodic(op, w->y[i], w->radius[i]) : 0;
  if (is_periodic(op))
    return TN_OK;
  for (int k = 0; k < 2 + TURNS; ++k) {
    for (size_t i = 0; i < n; ++i) {
      double tried = tried_at(w, i), inside = k < 2 ? 0 : turns[k - 2];
      bool between = k >= 2 && fabs(inside - w->x[i]) < tried;
      w->end[i] = between ? inside : w->x[i] + (k == 0 ? -tried : tried);
    }
    TN_TRY(tn_op_apply(op, TN_F64, n, w->end, NULL, exponent, w->end));
    for (size_t i = 0; i < n; ++i) {
      double far = fabs(w->end[i] - w->y[i]) + noise * fmax(fabs(w->end[i]), fabs(w->y[i]));
      if (isnan(far) || isinf(w->radius[i]))
        far = INFINITY;
      if (isfinite(far))
        far *= w->radius[i] / tried_at(w, i);
      if (w->radius[i] > 0)
        moved[i] = fmax(moved[i], far * SLACK);
    }
  }
  for (size_t i = 0; i < n; ++i)
    if (w->radius[i] > 0 && has_pole_at_zero(op, exponent) && fabs(w->x[i]) <= w->radius[i])
      moved[i] = INFINITY;
  return TN_OK;
}

static tn_status near_row(tn_op_id op, double exponent, size_t n, const vd_near *x, vd_near *y,
                          const vd_rounding *f, row_work *w) {
  double promise = promise_of(op), *moved = w->end + n;
  for (size_t i = 0; i < n; ++i)
    w->x[i] = x[i].v;
  TN_TRY(tn_op_apply(op, TN_F64, n, w->x, NULL, exponent, w->y));
  for (size_t i = 0; i < n; ++i)
    w->radius[i] = x[i].t;
  TN_TRY(move_row(op, exponent, n, w, moved));
  for (size_t i = 0; i < n; ++i)
    w->radius[i] = x[i].r;
  for (size_t i = 0; i < n; ++i)
    y[i].t = vd_join(f, moved[i], 0x1p-53 * promise * fabs(w->y[i]) + LEAST);
  TN_TRY(move_row(op, exponent, n, w, moved));
  for (size_t i = 0; i < n; ++i) {
    double size = fabs(w->y[i]);
    bool own = f->u <= 0x1p-53 && w->radius[i] == 0; /* the same kernel on the same number */
    y[i].v = w->y[i];
    double last = promise * (f->u * (size + moved[i]) + 0x1p-53 * size + f->tiny);
    y[i].r = own ? 0 : vd_join(f, moved[i], last);
    y[i] = in_range(y[i], f);
  }
  return TN_OK;
}

tn_status vd_near_row(tn_op_id op, double exponent, size_t n, const vd_near *x, vd_near *y,
                      const vd_rounding *f) {
  double *room = NULL;
  TN_TRY(TN_NEW(5 * n, &room));
  row_work w = {.x = room, .y = room + n, .radius = room + 2 * n, .end = room + 3 * n};
  tn_status status = near_row(op, exponent, n, x, y, f, &w);
  tn_free(&room);
  return status;
}

/* ---- Elementwise nodes ------------------------------------------------------------------------ */

vd_bounded *vd_bounded_of(const vd_running *r, tn_edge edge) {
  return r->port + r->first[edge.node] + edge.port;
}

static tn_status bound_unary(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *x = vd_bounded_of(r, node->inputs[0]);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  if (node->op->id == TN_OP_neg) {
    memcpy(out->error, x->error, out->n * sizeof *out->error);
    return TN_OK;
  }
  vd_near *near = NULL;
  TN_TRY(TN_NEW(out->n, &near));
  for (size_t i = 0; i < out->n; ++i)
    near[i] = vd_near_at(x, i, out->width);
  tn_status status = vd_near_row(node->op->id, node->number, out->n, near, near, &f);
  for (size_t i = 0; status == TN_OK && i < out->n; ++i)
    out->error[i] = vd_near_error(near[i], &f, out->value[i]);
  tn_free(&near);
  return status;
}

/* pow and atan2 at four corners: monotone in each argument, but for a pole of a^b at a = 0 and the cut of the
 * angle, where it may be any. noise: what f64 cannot see of the corners, their own rounding of 2^-53, by the
 * conditions |a f_a / f| <= |b| and |b f_b / f| = |b log a| <= 745 of a power, 1 of an angle. */
static double moved_corners(tn_op_id op, vd_near p, vd_near q, const double y[5], double promise) {
  double noise = 0x1p-53 * (2 * promise + fmax(0x1p10, 2 * (fabs(q.v) + q.t))), most = 0;
  bool at_zero = p.t > 0 && fabs(p.v) <= p.t;
  if (op == TN_OP_pow && at_zero && q.v - q.t < 0)
    return INFINITY;
  if (op == TN_OP_atan2) {
    noise = 0x1p-53 * (2 * promise + 2);
    if ((at_zero || (p.v == 0 && q.t > 0)) && q.v <= q.t)
      return isinf(p.t + q.t) ? INFINITY : 6.3; /* 2 pi */
  }
  for (int k = 0; k < 4; ++k) {
    double far = fabs(y[k] - y[4]) * SLACK + noise * fmax(fabs(y[k]), fabs(y[4]));
    most = isnan(far) ? INFINITY : fmax(most, far);
  }
  return most + LEAST;
}

static tn_status bound_corners(const vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *a = vd_bounded_of(r, node->inputs[0]), *b = vd_bounded_of(r, node->inputs[1]);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  double promise = promise_of(node->op->id);
  for (size_t i = 0; i < out->n; ++i) {
    vd_near p = vd_near_at(a, i, out->width), q = vd_near_at(b, i, out->width);
    double y[5], x[2];
    for (int k = 0; k < 5; ++k) { /* the last one in the middle */
      x[0] = p.v + (k == 4 ? 0 : k & 1 ? p.t : -p.t);
      x[1] = q.v + (k == 4 ? 0 : k & 2 ? q.t : -q.t);
      TN_TRY(tn_op_apply(node->op->id, TN_F64, 1, x, x + 1, 0, y + k));
    }
    vd_near z = {.v = y[4], .t = moved_corners(node->op->id, p, q, y, promise)};
    z.r = promise * (f.u * fabs(z.v) + f.tiny);
    out->error[i] = vd_near_error(z, &f, out->value[i]);
  }
  return TN_OK;
}

static tn_status bound_binary(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *a = vd_bounded_of(r, node->inputs[0]), *b = vd_bounded_of(r, node->inputs[1]);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  tn_op_id op = node->op->id;
  if (op == TN_OP_pow || op == TN_OP_atan2)
    return bound_corners(r, node, out);
  for (size_t i = 0; i < out->n; ++i) {
    vd_near p = vd_near_at(a, i, out->width), q = vd_near_at(b, i, out->width), y;
    switch (op) {
    case TN_OP_add:
    case TN_OP_sub:
      q.v = op == TN_OP_sub ? -q.v : q.v;
      y = vd_near_add(p, q, &f);
      break;
    case TN_OP_mul:
      y = vd_near_mul(p, q, &f);
      break;
    case TN_OP_div:
      y = vd_near_div(p, q, &f);
      break;
    case TN_OP_min:
    case TN_OP_max:
      out->error[i] = fmax(p.t, q.t);
      continue;
    default:
      return TN_FAIL(TN_EUNSUPPORTED, "running bound: no rule for `%s`", node->op->name);
    }
    out->error[i] = vd_near_error(y, &f, out->value[i]);
  }
  return TN_OK;
}

/* A mask's error is 1 where rounding may have turned it. */
static void bound_mask(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *a = vd_bounded_of(r, node->inputs[0]);
  const vd_bounded *b = node->n_inputs > 1 ? vd_bounded_of(r, node->inputs[1]) : a;
  bool compares = vd_is_compare(node->op->id);
  for (size_t i = 0; i < out->n; ++i) {
    vd_near p = vd_near_at(a, i, out->width), q = vd_near_at(b, i, out->width);
    bool sure =
        compares ? (p.t + q.t == 0) || fabs(p.v - q.v) > (p.t + q.t) * SLACK : p.t == 0 && q.t == 0;
    out->error[i] = !sure;
  }
}

static void bound_where(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *m = vd_bounded_of(r, node->inputs[0]);
  for (size_t i = 0; i < out->n; ++i) {
    vd_near mask = vd_near_at(m, i, out->width);
    int taken = mask.v != 0 ? 1 : 2;
    vd_near x = vd_near_at(vd_bounded_of(r, node->inputs[taken]), i, out->width);
    vd_near other = vd_near_at(vd_bounded_of(r, node->inputs[3 - taken]), i, out->width);
    double far = mask.t > 0 ? fabs(x.v - other.v) * SLACK + other.t : 0;
    out->error[i] = isnan(far) ? INFINITY : fmax(x.t, far);
  }
}

/* The rounding of a cast is known: both its sides are. */
static void bound_cast(vd_running *r, const tn_node *node, vd_bounded *out) {
  const vd_bounded *x = vd_bounded_of(r, node->inputs[0]);
  vd_rounding f = vd_rounding_of(r, node->dtype);
  for (size_t i = 0; i < out->n; ++i) {
    double lost = fabs(out->value[i] - x->value[i]);
    out->error[i] = node->dtype == TN_BOOL ? x->error[i] > 0 && fabs(x->value[i]) <= x->error[i]
                    : isfinite(lost)       ? vd_join(&f, x->error[i], lost) * SLACK
                                           : INFINITY;
  }
}

static tn_status bound_move(vd_running *r, const tn_node *node, vd_bounded *out) {
  vd_source *source = NULL;
  TN_TRY(TN_NEW(out->n, &source));
  tn_status status = vd_sources(r->program, node, r->extent, out->n, source);
  for (size_t i = 0; status == TN_OK && i < out->n; ++i)
    if (source[i].input != UINT32_MAX)
      out->error[i] = vd_bounded_of(r, node->inputs[source[i].input])->error[source[i].from];
  tn_free(&source);
  return status;
}

/* ---- The pass --------------------------------------------------------------------------------- */

static tn_status bound_node(vd_running *r, const tn_node *node, vd_bounded *out) {
  tn_op_id op = node->op->id;
  if (node->op->class_ == TN_LEAF)
    return TN_OK; /* stored numbers are what they are */
  if (vd_is_unary(op))
    return bound_unary(r, node, out);
  if (vd_is_binary(op))
    return bound_binary(r, node, out);
  if (vd_is_move(op))
    return bound_move(r, node, out);
  if (vd_is_compare(op) || op == TN_OP_not || op == TN_OP_both || op == TN_OP_either)
    bound_mask(r, node, out);
  else if (op == TN_OP_where)
    bound_where(r, node, out);
  else if (op == TN_OP_cast)
    bound_cast(r, node, out);
  else if (op == TN_OP_sum)
    return vd_bound_sum(r, node, out);
  else if (op == TN_OP_softmax || op == TN_OP_layer_norm || op == TN_OP_rstd)
    return vd_bound_rows(r, node, out);
  else if (op == TN_OP_jet_lin)
    return vd_bound_lin(r, node, out);
  else if (op == TN_OP_jet_outer)
    return vd_bound_outer(r, node, out);
  else if (op == TN_OP_jet_unary || op == TN_OP_jet_mul || op == TN_OP_jet_mulT)
    return vd_bound_jet(r, node, out);
  else
    return TN_FAIL(TN_EUNSUPPORTED, "running bound: no rule for `%s`", node->op->name);
  return TN_OK;
}

static tn_status read_port(vd_running *r, tn_exec *exec, uint32_t node, uint32_t k) {
  const tn_shape *shape = tn_program_node(r->program, node)->shapes + k;
  vd_bounded *p = r->port + r->first[node] + k;
  size_t n = 0;
  TN_TRY(tn_exec_value_count(exec, node, k, &n));
  tn_free(&p->value);
  tn_free(&p->error);
  p->n = n;
  p->width = tn_shape_width(shape);
  p->batched = tn_shape_batched(shape);
  if (p->batched && shape->axis[0] < VD_MOVE_AXES && p->width > 0)
    r->extent[shape->axis[0]] = n / p->width;
  TN_TRY(TN_NEW(n, &p->value));
  TN_TRY(TN_NEW(n, &p->error));
  return tn_exec_value(exec, node, k, n, p->value);
}

static tn_status bound_run(vd_running *running, tn_exec *exec, bool random) {
  running->random = random;
  for (uint32_t i = 0; i < running->n_nodes; ++i) {
    const tn_node *node = tn_program_node(running->program, i);
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      TN_TRY(read_port(running, exec, i, k));
  }
  for (uint32_t i = 0; i < running->n_nodes; ++i)
    TN_TRY(bound_node(running, tn_program_node(running->program, i),
                      running->port + running->first[i]));
  return TN_OK;
}

tn_status vd_running_run(vd_running *running, tn_exec *exec) {
  return bound_run(running, exec, false);
}

tn_status vd_running_expect(vd_running *running, tn_exec *exec) {
  return bound_run(running, exec, true);
}

/* ---- Life and results ------------------------------------------------------------------------- */

tn_status vd_running_new(const tn_program *program, vd_running **out) {
  vd_running *r = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &r));
  r->program = program;
  r->n_nodes = tn_program_nodes(program);
  tn_status status = TN_NEW(r->n_nodes + 1, &r->first);
  for (size_t i = 0; status == TN_OK && i < r->n_nodes; ++i) {
    const tn_node *node = tn_program_node(program, i);
    r->first[i] = r->n_ports;
    r->n_ports += node->n_outputs;
    if (node->op->id == TN_OP_parameter)
      r->n_trainable += tn_shape_width(node->shapes);
  }
  if (status == TN_OK)
    status = TN_NEW(r->n_ports, &r->port);
  if (status == TN_OK)
    r->first[r->n_nodes] = r->n_ports;
  *out = r;
  if (status != TN_OK)
    vd_running_free(out);
  return status;
}

void vd_running_free(vd_running **running) {
  if (!running || !*running)
    return;
  vd_running *r = *running;
  for (size_t i = 0; r->port && i < r->n_ports; ++i) {
    tn_free(&r->port[i].value);
    tn_free(&r->port[i].error);
  }
  tn_free(&r->port);
  tn_free(&r->first);
  tn_free(running);
}

static const vd_bounded *result(const vd_running *r, uint32_t node, uint32_t port) {
  if (node >= r->n_nodes || port >= r->first[node + 1] - r->first[node])
    return NULL;
  return r->port + r->first[node] + port;
}

size_t vd_running_count(const vd_running *running, uint32_t node, uint32_t port) {
  const vd_bounded *p = result(running, node, port);
  return p ? p->n : 0;
}

double vd_running_value(const vd_running *running, uint32_t node, uint32_t port, size_t element) {
  const vd_bounded *p = result(running, node, port);
  return p && element < p->n ? p->value[element] : NAN;
}

double vd_running_bound(const vd_running *running, uint32_t node, uint32_t port, size_t element) {
  const vd_bounded *p = result(running, node, port);
  return p && element < p->n ? p->error[element] : NAN;
}
