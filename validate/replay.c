/* replay.c: runs a program in MPFR, whole arrays and one node after another, and finds condition
 * scales.
 *
 * The nodes are those that the engine runs, so what the replay measures is rounding alone: the
 * right value of this program on these stored data. Leaves enter as they are stored in their dtype,
 * as do constants, in tf32, bf16 and f16 like in the others; casts do not round, so in a program that
 * rounds to a low format in its middle that rounding is an error, too; comparisons are decided in MPFR. A wrong derivative formula
 * is invisible here (both sides have it); fd.c and vd_audit_gradient see those.
 *
 * Condition scales. With every value v goes S >= |v|, the same graph on absolute values:
 *   leaf                       |v|
 *   a + b, a - b, sum          sum of S
 *   a b, products of matrices  S_a S_b, and their sums; products of jets likewise
 *   f(x)                       |f(x)| + |f'(x)| S_x, without the second part if x is exact (a leaf,
 *                              or a leaf moved or negated)
 *   f(a, b)                    |f| + sum of |df/da| S_a over the arguments that are not exact
 *   where, min, max            S of what is chosen
 * If every operation rounds with at most p u of its result, then |error| <= p d u S to first order,
 * d the number of roundings in a row on the longest path. So c = |error| / (u S) stays small
 * whatever cancels. |f'| S is found as a difference quotient, since a scale needs no more than a
 * digit. S is a double.
 *
 * Everything is kept: memory is (bits / 8 + 40) bytes an element of every node.
 */
#include "validate/replay.h"

#include <math.h>
#include <string.h>

#include "validate/moves.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static tn_status set_up(vd_replay *r) {
  TN_TRY(TN_NEW(r->n_nodes + 1, &r->first));
  TN_TRY(TN_NEW(r->n_nodes, &r->leaf));
  for (size_t i = 0; i < r->n_nodes; ++i) {
    r->first[i] = r->n_ports;
    r->n_ports += tn_program_node(r->program, i)->n_outputs;
  }
  r->first[r->n_nodes] = r->n_ports;
  TN_TRY(TN_NEW(r->n_ports, &r->port));
  return vd_array_new(VD_SCRATCH, r->bits, &r->scratch);
}

tn_status vd_replay_new(const tn_program *program, int bits, vd_replay **out) {
  *out = NULL;
  if (bits < 64 || bits > 1 << 16)
    return TN_FAIL(TN_ERANGE, "replay: %d bits, expected 64 to 65536", bits);
  TN_TRY(TN_NEW(1, out));
  (*out)->program = program;
  (*out)->bits = bits;
  (*out)->n_nodes = tn_program_nodes(program);
  tn_status status = set_up(*out);
  if (status != TN_OK)
    vd_replay_free(out);
  return status;
}

static void clear_ports(vd_replay *r) {
  for (size_t i = 0; r->port && i < r->n_ports; ++i) {
    vd_array_free(&r->port[i].value);
    tn_free(&r->port[i].scale);
  }
  r->ran = false;
}

void vd_replay_free(vd_replay **replay) {
  if (!replay || !*replay)
    return;
  vd_replay *r = *replay;
  clear_ports(r);
  for (size_t i = 0; r->leaf && i < r->n_nodes; ++i)
    tn_buffer_release(&r->leaf[i].buffer);
  vd_array_free(&r->scratch);
  tn_free(&r->first);
  tn_free(&r->leaf);
  tn_free(&r->port);
  tn_free(replay);
}

static tn_status check_leaf(const vd_replay *r, uint32_t node, bool scalar) {
  if (node >= r->n_nodes)
    return TN_FAIL(TN_EHANDLE, "replay: node %u of a program of %zu", node, r->n_nodes);
  const tn_op *op = tn_program_node(r->program, node)->op;
  bool fits = scalar ? op->id == TN_OP_scalar : op->id == TN_OP_input || op->id == TN_OP_parameter;
  if (fits)
    return TN_OK;
  return TN_FAIL(TN_EHANDLE, "replay: node %u is `%s`, expected %s", node, op->name,
                 scalar ? "a scalar" : "an input or a parameter");
}

tn_status vd_replay_bind(vd_replay *replay, uint32_t node, tn_buffer *buffer) {
  TN_TRY(check_leaf(replay, node, false));
  tn_buffer_release(&replay->leaf[node].buffer);
  replay->leaf[node].buffer = tn_buffer_retain(buffer);
  return TN_OK;
}

tn_status vd_replay_set(vd_replay *replay, uint32_t node, double value) {
  TN_TRY(check_leaf(replay, node, true));
  replay->leaf[node].set = true;
  replay->leaf[node].number = value;
  return TN_OK;
}

tn_status vd_replay_shift(vd_replay *replay, uint32_t node, const double *direction, double step) {
  if (node >= replay->n_nodes || tn_program_node(replay->program, node)->op->class_ != TN_LEAF)
    return TN_FAIL(TN_EHANDLE, "replay: node %u is no leaf of this program", node);
  replay->leaf[node].direction = direction;
  replay->leaf[node].step = step;
  return TN_OK;
}

/* ---- Shapes --------------------------------------------------------------------------------- */

vd_port *vd_port_of(const vd_replay *r, tn_edge edge) {
  return r->port + r->first[edge.node] + edge.port;
}

size_t vd_element(const vd_port *p, size_t i, size_t width) {
  if (p->value.n == 1)
    return 0;
  if (p->batched)
    return p->width == width ? i : i / width; /* [N] beside [N, width] */
  return i % p->width;
}

/* The extents of a shape, TN_MAX_RANK of them, point axes resolved; 1 beyond its rank. */
static tn_status extents_of(const vd_replay *r, const tn_shape *shape, size_t *e) {
  for (uint32_t i = 0; i < TN_MAX_RANK; ++i) {
    e[i] = 1;
    if (i >= shape->rank)
      continue;
    e[i] = shape->axis[i] ? r->extent[shape->axis[i]] : shape->extent[i];
    if (shape->axis[i] && e[i] == 0)
      return TN_FAIL(TN_ESTATE, "replay: no bound leaf gives the extent of point axis %u",
                     shape->axis[i]);
  }
  return TN_OK;
}

static tn_status find_extents(vd_replay *r) {
  memset(r->extent, 0, sizeof r->extent);
  for (size_t i = 0; i < r->n_nodes; ++i) {
    const tn_node *node = tn_program_node(r->program, i);
    if ((!r->leaf[i].buffer && !r->leaf[i].given) || !tn_shape_batched(&node->shapes[0]))
      continue;
    tn_axis axis = node->shapes[0].axis[0];
    size_t n = r->leaf[i].given ? r->leaf[i].points : tn_buffer_extent(r->leaf[i].buffer, 0);
    if (axis >= VD_AXES)
      return TN_FAIL(TN_ERANGE, "replay: point axis %u, at most %d", axis, VD_AXES - 1);
    if (r->extent[axis] && r->extent[axis] != n)
      return TN_FAIL(TN_ESHAPE, "replay: leaf `%s` has %zu points, another on its axis has %zu",
                     node->name, n, r->extent[axis]);
    r->extent[axis] = n;
  }
  return TN_OK;
}

static tn_status make_port(vd_replay *r, const tn_shape *shape, vd_port *port) {
  size_t e[TN_MAX_RANK], n = 1;
  TN_TRY(extents_of(r, shape, e));
  for (uint32_t i = 0; i < shape->rank; ++i)
    n *= e[i];
  port->batched = tn_shape_batched(shape);
  port->width = tn_shape_width(shape);
  port->exact = false;
  TN_TRY(vd_array_new(n, r->bits, &port->value));
  return TN_NEW(n, &port->scale);
}

/* ---- Leaves --------------------------------------------------------------------------------- */

static void copy_element(vd_port *out, size_t i, const vd_port *x, size_t j) {
  mpfr_set(out->value.v + i, x->value.v + j, MPFR_RNDN);
  out->scale[i] = x->scale[j];
}

static void put_leaf(const vd_leaf *leaf, vd_port *out, size_t i, double stored, mpfr_ptr t) {
  mpfr_ptr v = out->value.v + i;
  mpfr_set_d(v, stored, MPFR_RNDN);
  if (leaf->direction) {
    mpfr_set_d(t, leaf->direction[i], MPFR_RNDN);
    mpfr_mul_d(t, t, leaf->step, MPFR_RNDN);
    mpfr_add(v, v, t, MPFR_RNDN);
  }
  out->scale[i] = fabs(mpfr_get_d(v, MPFR_RNDN));
}

/* What a number of the graph is once it lies in an array of the dtype. */
static tn_status as_stored(tn_dtype dtype, double x, double *stored) {
  uint64_t room = 0;
  TN_TRY(tn_convert(1, TN_F64, &x, dtype, &room));
  return tn_convert(1, dtype, &room, TN_F64, stored);
}

static tn_status run_bound(vd_replay *r, const tn_node *node, const vd_leaf *leaf, vd_port *out) {
  size_t n = out->value.n;
  if (!leaf->buffer)
    return TN_FAIL(TN_ESTATE, "replay: leaf `%s` is not bound", node->name ? node->name : "");
  if (tn_buffer_count(leaf->buffer) != n || tn_buffer_dtype(leaf->buffer) != node->dtype)
    return TN_FAIL(TN_ESHAPE,
                   "replay: leaf `%s` is bound to %zu elements of %s, expected %zu of %s",
                   node->name ? node->name : "", tn_buffer_count(leaf->buffer),
                   tn_dtype_name(tn_buffer_dtype(leaf->buffer)), n, tn_dtype_name(node->dtype));
  double *data = NULL;
  TN_TRY(TN_NEW(n, &data));
  tn_status status = tn_convert(n, node->dtype, tn_map(leaf->buffer, TN_READ), TN_F64, data);
  tn_unmap(leaf->buffer);
  for (size_t i = 0; i < n && status == TN_OK; ++i)
    put_leaf(leaf, out, i, data[i], r->scratch.v);
  tn_free(&data);
  return status;
}

static tn_status run_leaf(vd_replay *r, const tn_node *node, const vd_leaf *leaf, vd_port *out) {
  out->exact = true;
  if (leaf->given) {
    out->exact = leaf->given->exact;
    for (size_t i = 0; i < out->value.n; ++i)
      copy_element(out, i, leaf->given, i);
    return TN_OK;
  }
  if (node->op->id == TN_OP_input || node->op->id == TN_OP_parameter)
    return run_bound(r, node, leaf, out);
  for (size_t i = 0; i < out->value.n; ++i) {
    double x = leaf->set ? leaf->number : node->number;
    if (node->op->id == TN_OP_count)
      x = (double)r->extent[node->integer[0]];
    if (node->op->id == TN_OP_array)
      x = node->data[i % out->width];
    TN_TRY(as_stored(node->dtype, x, &x));
    put_leaf(leaf, out, i, x, r->scratch.v);
  }
  return TN_OK;
}

/* ---- Elementwise ---------------------------------------------------------------------------- */

static void evaluate(vd_replay *r, tn_op_id op, double exponent, mpfr_ptr y, mpfr_srcptr a,
                     mpfr_srcptr b) {
  mpfr_ptr e = r->scratch.v;
  if (b) {
    vd_ref_binary(op, y, a, b);
    return;
  }
  mpfr_set_d(e, exponent, MPFR_RNDN);
  vd_ref_unary(op, y, a, e);
}

double vd_spread(vd_replay *r, tn_op_id op, double exponent, mpfr_srcptr a, mpfr_srcptr b, int by,
                 mpfr_srcptr y, double scale) {
  if (!(scale > 0) || isinf(scale))
    return 0;
  mpfr_ptr moved = r->scratch.v + 1, z = r->scratch.v + 2;
  for (int side = 1; side >= -1; side -= 2) {
    mpfr_set_d(moved, ldexp(side * scale, -40), MPFR_RNDN);
    mpfr_add(moved, moved, by ? b : a, MPFR_RNDN);
    evaluate(r, op, exponent, z, by ? a : moved, by ? moved : b);
    mpfr_sub(z, z, y, MPFR_RNDN);
    if (mpfr_number_p(z))
      return ldexp(fabs(mpfr_get_d(z, MPFR_RNDN)), 40);
  }
  return 0;
}

static void run_unary(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *x = vd_port_of(r, node->inputs[0]);
  out->exact = x->exact && node->op->id == TN_OP_neg;
  for (size_t i = 0; i < out->value.n; ++i) {
    mpfr_ptr y = out->value.v + i;
    evaluate(r, node->op->id, node->number, y, x->value.v + i, NULL);
    out->scale[i] = fabs(mpfr_get_d(y, MPFR_RNDN));
    if (node->op->id == TN_OP_neg || node->op->id == TN_OP_abs)
      out->scale[i] = x->scale[i];
    else if (!x->exact)
      out->scale[i] +=
          vd_spread(r, node->op->id, node->number, x->value.v + i, NULL, 0, y, x->scale[i]);
  }
}

static void run_binary(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *pa = vd_port_of(r, node->inputs[0]), *pb = vd_port_of(r, node->inputs[1]);
  tn_op_id op = node->op->id;
  for (size_t i = 0; i < out->value.n; ++i) {
    size_t ia = vd_element(pa, i, out->width), ib = vd_element(pb, i, out->width);
    mpfr_srcptr a = pa->value.v + ia, b = pb->value.v + ib;
    mpfr_ptr y = out->value.v + i;
    double sa = pa->scale[ia], sb = pb->scale[ib];
    evaluate(r, op, 0, y, a, b);
    if (op == TN_OP_add || op == TN_OP_sub) {
      out->scale[i] = sa + sb;
    } else if (op == TN_OP_mul) {
      out->scale[i] = sa * sb;
    } else if (op == TN_OP_min || op == TN_OP_max) {
      out->scale[i] = mpfr_equal_p(y, a) ? sa : sb;
    } else {
      out->scale[i] = fabs(mpfr_get_d(y, MPFR_RNDN));
      if (!pa->exact)
        out->scale[i] += vd_spread(r, op, 0, a, b, 0, y, sa);
      if (!pb->exact)
        out->scale[i] += vd_spread(r, op, 0, a, b, 1, y, sb);
    }
  }
}

/* Comparisons and operations on masks; masks are 0 or 1. */
static void run_mask(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *pa = vd_port_of(r, node->inputs[0]);
  const vd_port *pb = node->n_inputs > 1 ? vd_port_of(r, node->inputs[1]) : pa;
  for (size_t i = 0; i < out->value.n; ++i) {
    mpfr_srcptr a = pa->value.v + vd_element(pa, i, out->width);
    mpfr_srcptr b = pb->value.v + vd_element(pb, i, out->width);
    bool p = !mpfr_zero_p(a), q = !mpfr_zero_p(b), holds;
    switch (node->op->id) {
    case TN_OP_not:
      holds = !p;
      break;
    case TN_OP_both:
      holds = p && q;
      break;
    case TN_OP_either:
      holds = p || q;
      break;
    default:
      holds = vd_ref_compare(node->op->id, a, b);
    }
    mpfr_set_ui(out->value.v + i, holds, MPFR_RNDN);
    out->scale[i] = holds;
  }
}

static void run_where(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *m = vd_port_of(r, node->inputs[0]);
  for (size_t i = 0; i < out->value.n; ++i) {
    bool holds = !mpfr_zero_p(m->value.v + vd_element(m, i, out->width));
    const vd_port *x = vd_port_of(r, node->inputs[holds ? 1 : 2]);
    copy_element(out, i, x, vd_element(x, i, out->width));
  }
}

/* ---- Moves and sums ------------------------------------------------------------------------- */

static tn_status run_sum(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *x = vd_port_of(r, node->inputs[0]);
  vd_view v = vd_view_of(vd_input_shape(r->program, node, 0), r->extent, (size_t)node->integer[0]);
  for (size_t i = 0; i < out->value.n; ++i)
    for (size_t k = 0; k < v.n; ++k) {
      size_t j = (i / v.inner * v.n + k) * v.inner + i % v.inner;
      mpfr_add(out->value.v + i, out->value.v + i, x->value.v + j, MPFR_RNDN);
      out->scale[i] += x->scale[j];
    }
  return TN_OK;
}

static tn_status run_move(vd_replay *r, const tn_node *node, vd_port *out) {
  vd_source *source = NULL;
  TN_TRY(TN_NEW(out->value.n, &source));
  tn_status status = vd_sources(r->program, node, r->extent, out->value.n, source);
  for (size_t i = 0; status == TN_OK && i < out->value.n; ++i)
    if (source[i].input != UINT32_MAX) /* else the zero that is there */
      copy_element(out, i, vd_port_of(r, node->inputs[source[i].input]), source[i].from);
  tn_free(&source);
  return status;
}

static void run_cast(vd_replay *r, const tn_node *node, vd_port *out) {
  const vd_port *x = vd_port_of(r, node->inputs[0]);
  for (size_t i = 0; i < out->value.n; ++i) {
    copy_element(out, i, x, i);
    mpfr_ptr y = out->value.v + i;
    if (node->dtype == TN_BOOL)
      mpfr_set_ui(y, !mpfr_zero_p(y), MPFR_RNDN);
    else if (!tn_dtype_is_float(node->dtype))
      mpfr_trunc(y, y);
  }
}

/* ---- Running -------------------------------------------------------------------------------- */

static tn_status run_structured(vd_replay *r, const tn_node *node, vd_port *out) {
  bool moves = true;
  tn_status status = TN_OK;
  if (vd_is_move(node->op->id)) {
    status = run_move(r, node, out);
  } else if (node->op->id == TN_OP_where) {
    run_where(r, node, out);
  } else if (node->op->id == TN_OP_sum) {
    moves = false;
    status = run_sum(r, node, out);
  } else if (node->op->id == TN_OP_cast) {
    moves = false;
    run_cast(r, node, out);
  } else {
    return TN_FAIL(TN_EUNSUPPORTED, "replay: no meaning for `%s` in high precision",
                   node->op->name);
  }
  out->exact = moves;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    const vd_port *in = vd_port_of(r, node->inputs[i]);
    if (node->op->id == TN_OP_where && i == 0)
      continue; /* the mask */
    out->exact = out->exact && in->exact;
  }
  return status;
}

static tn_status run_node(vd_replay *r, size_t i) {
  const tn_node *node = tn_program_node(r->program, i);
  vd_port *out = r->port + r->first[i];
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    TN_TRY(make_port(r, node->shapes + k, out + k));
  tn_op_id op = node->op->id;
  if (node->op->class_ == TN_LEAF)
    return run_leaf(r, node, r->leaf + i, out);
  if (node->op->class_ == TN_FUSED)
    return vd_run_jet(r, node, out);
  if (vd_is_unary(op))
    run_unary(r, node, out);
  else if (vd_is_binary(op))
    run_binary(r, node, out);
  else if (vd_is_compare(op) || op == TN_OP_not || op == TN_OP_both || op == TN_OP_either)
    run_mask(r, node, out);
  else
    return run_structured(r, node, out);
  return TN_OK;
}

tn_status vd_replay_run(vd_replay *replay) {
  clear_ports(replay);
  TN_TRY(find_extents(replay));
  for (size_t i = 0; i < replay->n_nodes; ++i)
    TN_TRY(run_node(replay, i));
  replay->ran = true;
  return TN_OK;
}

/* ---- Results -------------------------------------------------------------------------------- */

static const vd_port *result(const vd_replay *r, uint32_t node, uint32_t port) {
  if (!r->ran || node >= r->n_nodes || port >= r->first[node + 1] - r->first[node])
    return NULL;
  return vd_port_of(r, (tn_edge){node, port});
}

size_t vd_replay_count(const vd_replay *replay, uint32_t node, uint32_t port) {
  const vd_port *p = result(replay, node, port);
  return p ? p->value.n : 0;
}

mpfr_srcptr vd_replay_at(const vd_replay *replay, uint32_t node, uint32_t port, size_t element) {
  const vd_port *p = result(replay, node, port);
  return p && element < p->value.n ? p->value.v + element : NULL;
}

double vd_replay_double(const vd_replay *replay, uint32_t node, uint32_t port, size_t element) {
  mpfr_srcptr v = vd_replay_at(replay, node, port, element);
  return v ? mpfr_get_d(v, MPFR_RNDN) : NAN;
}

double vd_replay_scale(const vd_replay *replay, uint32_t node, uint32_t port, size_t element) {
  const vd_port *p = result(replay, node, port);
  return p && element < p->value.n ? p->scale[element] : NAN;
}
