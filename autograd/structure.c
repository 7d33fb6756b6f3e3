/* structure.c: sums and products with structural zeros and ones, and the rules of ops.def as nodes. */
#include "autograd/structure.h"

#include <string.h>

bool ag_number(tn_value v, double *x) {
  const tn_node *node = tn_node_of(v);
  if (!node || (node->op->id != TN_OP_constant && node->op->id != TN_OP_fill)) return false;
  *x = node->number;
  return true;
}

bool ag_is_zero(tn_value v) {
  double x;
  return ag_number(v, &x) && x == 0;
}

tn_value ag_zero_like(tn_value v) {
  return tn_ok(v) ? tn_fill(v.graph, tn_dtype_of(v), tn_shape_of(v), 0) : (tn_value){0};
}

tn_value ag_constant_like(tn_value v, double x) {
  return tn_ok(v) ? tn_const(v.graph, tn_dtype_of(v), x) : (tn_value){0};
}

/* Brings two operands to one shape where one lacks the point axis or fixed axes; scalars stay. */
static void match(tn_value *a, tn_value *b) {
  tn_shape sa = tn_shape_of(*a), sb = tn_shape_of(*b);
  if (!sa.rank || !sb.rank || tn_shape_equal(&sa, &sb)) return;
  if (sa.rank < sb.rank) *a = tn_broadcast(*a, sb);
  else if (sb.rank < sa.rank) *b = tn_broadcast(*b, sa);
}

/* The shape of the result of an elementwise operation. */
static tn_shape joint(tn_value a, tn_value b) {
  tn_shape sa = tn_shape_of(a), sb = tn_shape_of(b);
  return sa.rank >= sb.rank ? sa : sb;
}

static tn_value filled(tn_value like, tn_shape shape, double x) {
  if (!shape.rank) return tn_const(like.graph, tn_dtype_of(like), x);
  return tn_fill(like.graph, tn_dtype_of(like), shape, x);
}

/* v as a value of a shape it must at least repeat over. */
static tn_value spread(tn_value v, tn_shape shape) {
  tn_shape own = tn_shape_of(v);
  double x;
  if (tn_shape_equal(&own, &shape)) return v;
  return ag_number(v, &x) ? filled(v, shape, x) : tn_broadcast(v, shape);
}

tn_value ag_plus(tn_value a, tn_value b) {
  double x = 0, y = 0;
  if (!ag_present(a)) return b;
  if (!ag_present(b)) return a;
  tn_shape shape = joint(a, b);
  bool na = ag_number(a, &x), nb = ag_number(b, &y);
  if (na && nb) return filled(a, shape, x + y);
  if (na && x == 0) return spread(b, shape);
  if (nb && y == 0) return spread(a, shape);
  match(&a, &b);
  return tn_add(a, b);
}

tn_value ag_negative(tn_value a) {
  double x;
  if (!ag_present(a)) return a;
  if (ag_number(a, &x)) return filled(a, tn_shape_of(a), -x);
  const tn_node *node = tn_node_of(a);
  if (node && node->op->id == TN_OP_neg)
    return tn_value_at(a.graph, node->inputs[0].node, node->inputs[0].port);
  return tn_neg(a);
}

tn_value ag_minus(tn_value a, tn_value b) {
  if (!ag_present(b) || ag_is_zero(b)) return ag_plus(a, b);
  if (!ag_present(a)) return ag_negative(b);
  double x = 0, y = 0;
  bool na = ag_number(a, &x), nb = ag_number(b, &y);
  if (na && nb) return filled(a, joint(a, b), x - y);
  if (na && x == 0) return spread(ag_negative(b), joint(a, b));
  match(&a, &b);
  return tn_sub(a, b);
}

tn_value ag_times(tn_value a, tn_value b) {
  double x = 0, y = 0;
  if (!ag_present(a)) return a;
  if (!ag_present(b)) return b;
  tn_shape shape = joint(a, b);
  bool na = ag_number(a, &x), nb = ag_number(b, &y);
  if (na && nb) return filled(a, shape, x * y);
  if ((na && x == 0) || (nb && y == 0)) return filled(a, shape, 0);
  if (na && (x == 1 || x == -1)) return spread(x == 1 ? b : ag_negative(b), shape);
  if (nb && (y == 1 || y == -1)) return spread(y == 1 ? a : ag_negative(a), shape);
  match(&a, &b);
  return tn_mul(a, b);
}

tn_value ag_over(tn_value a, tn_value b) {
  double x = 0, y = 0;
  if (!ag_present(a)) return a;
  bool na = ag_number(a, &x), nb = ag_number(b, &y);
  if (na && nb) return filled(a, joint(a, b), x / y);
  if (na && x == 0) return filled(a, joint(a, b), 0);
  if (nb && y == 1) return spread(a, joint(a, b));
  match(&a, &b);
  return tn_div(a, b);
}

tn_value ag_select(tn_value mask, tn_value a, tn_value b) {
  if (!ag_present(a) && !ag_present(b)) return a;
  if (!ag_present(a)) a = ag_constant_like(b, 0);
  if (!ag_present(b)) b = ag_constant_like(a, 0);
  if (ag_is_zero(a) && ag_is_zero(b)) return spread(a, joint(mask, joint(a, b).rank ? a : mask));
  match(&a, &b);
  return tn_where(mask, a, b);
}

tn_value ag_fit(tn_value g, tn_shape shape) {
  tn_shape own = tn_shape_of(g);
  double x;
  if (!ag_present(g) || tn_shape_equal(&own, &shape)) return g;
  if (!own.rank && ag_number(g, &x)) return filled(g, shape, x);
  if (!shape.rank) return tn_sum_all(g);
  if (!own.rank) return tn_broadcast(g, shape);
  if (tn_shape_batched(&own) && !tn_shape_batched(&shape) && own.rank == shape.rank + 1)
    return tn_sum(g, 0);
  return tn_broadcast(g, shape);
}

/* ---- Rules ---- */

#define K(c) ag_constant_like(x, c)
#define U(name, v) tn_unary(TN_OP_##name, v, 0)
#define B(name, v, w) tn_binary(TN_OP_##name, v, w)
#define ADD(v, w) ag_plus(v, w)
#define SUB(v, w) ag_minus(v, w)
#define MUL(v, w) ag_times(v, w)
#define DIV(v, w) ag_over(v, w)
#define NEG(v) ag_negative(v)
#define WHERE(m, v, w) tn_where(m, v, w)
#define LE(v, w) tn_le(v, w)
#define GE(v, w) tn_ge(v, w)
#define POWER_RULE                                                                                 \
  (exponent == 0 ? K(0) : ag_times(K(exponent), tn_unary(op, x, exponent - 1)))

tn_value ag_rule(tn_op_id op, tn_value x, tn_value y, double exponent) {
  (void)y;
  switch (op) {
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name: return derivative;
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name: return derivative;
#include "tensor/ops.def"
  default: return tn_graph_fail(x.graph, TN_EUNSUPPORTED, "%s has no derivative rule",
                                tn_op_row(op)->name);
  }
}

#undef K
#define K(c) ag_constant_like(a, c)

tn_value ag_rule_a(tn_op_id op, tn_value a, tn_value b, tn_value y) {
  (void)y;
  switch (op) {
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  case TN_OP_##name: return da;
#include "tensor/ops.def"
  default: return tn_graph_fail(a.graph, TN_EUNSUPPORTED, "%s has no derivative rule",
                                tn_op_row(op)->name);
  }
}

tn_value ag_rule_b(tn_op_id op, tn_value a, tn_value b, tn_value y) {
  (void)y;
  switch (op) {
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  case TN_OP_##name: return db;
#include "tensor/ops.def"
  default: return tn_graph_fail(a.graph, TN_EUNSUPPORTED, "%s has no derivative rule",
                                tn_op_row(op)->name);
  }
}

/* ---- Nodes ---- */

size_t ag_take_jet(const tn_node *node, uint64_t mask, const tn_value *in, tn_jet *out) {
  size_t n = 0;
  memset(out, 0, sizeof *out);
  out->table = node->table;
  for (; mask; mask &= mask - 1) out->channel[__builtin_ctzll(mask)] = in[n++];
  return n;
}

tn_status ag_bad_value(tn_graph *graph, const char *pass, size_t i) {
  bool told = tn_graph_error(graph) != TN_OK; /* else the thread's last text is about something else */
  return TN_FAIL(TN_EHANDLE, "%s: value %zu is stale, foreign or an error%s%s", pass, i,
                 told ? ": " : "", told ? tn_error_text() : "");
}

void ag_inputs(tn_graph *graph, const tn_node *node, tn_value *in) {
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    in[k] = tn_value_at(graph, node->inputs[k].node, node->inputs[k].port);
}
