/* rule.c: the derivative column of the table as expression trees, and mutations of them.
 *
 * The column is C text in the words U, B, ADD, SUB, MUL, DIV, NEG, K, WHERE, LE, GE, POWER_RULE and
 * the letters x or a, b, y. autograd/ compiles it into graph builders; here the same text builds a
 * tree, which series.c evaluates in MPFR. So the text itself is under test, not a copy of it.
 *
 * Mutations ask whether the test would see a wrong rule. A mutant counts only if its function
 * differs, so places are chosen with care, never in a comparison nor on the number 0: a sign flips, or a
 * factor 2 enters, only where values are added, multiplied or returned, never in the argument of a row
 * (cosh(-x) = cosh x, step(2x) = step x); arguments and constants are exchanged anywhere but in the
 * argument of step and sign (step(relu x) = step x); the rest anywhere. A rule that is the number 0
 * becomes 1.
 */
#include <stdio.h>

#include "validate/mp.h"

static int put(vd_rule *r, vd_kind kind, tn_op_id op, double k, int a, int b, int c) {
  int i = r->n++;
  if (i < VD_RULE_NODES)
    r->node[i] = (vd_rule_node){.kind = kind, .op = op, .k = k, .arg = {a, b, c}};
  return i < VD_RULE_NODES ? i : 0;
}

#define NONE TN_OP_parameter
#define U(row, arg) put(r, VD_CALL1, TN_OP_##row, 0, arg, -1, -1)
#define B(row, p, q) put(r, VD_CALL2, TN_OP_##row, 0, p, q, -1)
#define ADD(p, q) put(r, VD_ADD, NONE, 0, p, q, -1)
#define SUB(p, q) put(r, VD_SUB, NONE, 0, p, q, -1)
#define MUL(p, q) put(r, VD_MUL, NONE, 0, p, q, -1)
#define DIV(p, q) put(r, VD_DIV, NONE, 0, p, q, -1)
#define NEG(p) put(r, VD_NEG, NONE, 0, p, -1, -1)
#define K(c) put(r, VD_K, NONE, c, -1, -1, -1)
#define WHERE(m, p, q) put(r, VD_WHERE, NONE, 0, m, p, q)
#define LE(p, q) put(r, VD_LE, NONE, 0, p, q, -1)
#define GE(p, q) put(r, VD_GE, NONE, 0, p, q, -1)
#define POWER_RULE put(r, VD_POWER_RULE, NONE, 0, -1, -1, -1)

#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name:                                                                               \
    return derivative;
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name:                                                                               \
    return derivative;
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  case TN_OP_##name:                                                                               \
    return da;
#define OP_COMPARE(name, cell, mpfr, doc)
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
static int by_first(vd_rule *r, tn_op_id op) {
  int a = put(r, VD_A, NONE, 0, -1, -1, -1), x = a;
  int b = put(r, VD_B, NONE, 0, -1, -1, -1);
  int y = put(r, VD_Y, NONE, 0, -1, -1, -1);
  switch (op) {
#include "tensor/ops.def"
  default:
    return -1;
  }
}

#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  case TN_OP_##name:                                                                               \
    return db;
#define OP_COMPARE(name, cell, mpfr, doc)
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
static int by_second(vd_rule *r, tn_op_id op) {
  int a = put(r, VD_A, NONE, 0, -1, -1, -1);
  int b = put(r, VD_B, NONE, 0, -1, -1, -1);
  int y = put(r, VD_Y, NONE, 0, -1, -1, -1);
  switch (op) {
#include "tensor/ops.def"
  default:
    return -1;
  }
}

tn_status vd_rule_of(tn_op_id op, int by, vd_rule *out) {
  out->n = 0;
  out->root = by ? by_second(out, op) : by_first(out, op);
  if (out->root < 0)
    return TN_FAIL(TN_EINPUT, "op %d has no derivative by argument %d in the table", (int)op, by);
  if (out->n > VD_RULE_NODES)
    return TN_FAIL(TN_EINTERNAL, "rule of %s: %d nodes, room for %d", tn_op_row(op)->name, out->n,
                   VD_RULE_NODES);
  return TN_OK;
}

/* ---- Mutation ------------------------------------------------------------------------------- */

/* A place: an edge of the tree. `value`: where values are added, multiplied or returned. `switched`: in
 * the argument of a row that knows only its sign. */
typedef struct place {
  int *edge;
  bool value, switched;
} place;
enum { PLACES = 128 };

static int places_below(vd_rule *r, int *edge, place here, place *list, int n) {
  if (*edge < 0 || n == PLACES)
    return n;
  here.edge = edge;
  list[n++] = here;
  const vd_rule_node *node = r->node + *edge;
  bool call = node->kind == VD_CALL1 || node->kind == VD_CALL2;
  here.value = here.value && !call;
  here.switched = here.switched || (call && (node->op == TN_OP_step || node->op == TN_OP_sign));
  for (int i = 0; i < 3; ++i)
    if (node->kind != VD_LE && node->kind != VD_GE)
      n = places_below(r, r->node[*edge].arg + i, here, list, n);
  return n;
}

/* Another function of the family; the same one: there is none. */
static tn_op_id sibling(tn_op_id op) {
  static const tn_op_id pairs[][2] = {{TN_OP_sin, TN_OP_cos},
                                      {TN_OP_sinh, TN_OP_cosh},
                                      {TN_OP_tanh, TN_OP_sech2},
                                      {TN_OP_exp, TN_OP_expm1},
                                      {TN_OP_derf, TN_OP_erf},
                                      {TN_OP_normal_pdf, TN_OP_derf},
                                      {TN_OP_normal_cdf, TN_OP_erf},
                                      {TN_OP_log, TN_OP_log1p},
                                      {TN_OP_sigmoid, TN_OP_normal_cdf},
                                      {TN_OP_dsigmoid, TN_OP_sigmoid},
                                      {TN_OP_relu, TN_OP_abs},
                                      {TN_OP_relu2, TN_OP_relu3},
                                      {TN_OP_step, TN_OP_sign},
                                      {TN_OP_dlog10, TN_OP_recip},
                                      {TN_OP_recip, TN_OP_square},
                                      {TN_OP_sqrt, TN_OP_square},
                                      {TN_OP_pow, TN_OP_atan2}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
    for (int k = 0; k < 2; ++k)
      if (pairs[i][k] == op)
        return pairs[i][1 - k];
  return op;
}

static bool fits(const vd_rule *r, const place *p, vd_mutation kind) {
  const vd_rule_node *node = r->node + *p->edge;
  vd_kind k = node->kind;
  if (k == VD_LE || k == VD_GE || (k == VD_K && node->k == 0))
    return false;
  switch (kind) {
  case VD_DROP:
    return k == VD_ADD || k == VD_SUB || k == VD_MUL || k == VD_DIV || k == VD_POWER_RULE;
  case VD_ARGUMENT:
    return !p->switched && (k == VD_A || k == VD_B || k == VD_Y);
  case VD_OFF:
    return !p->switched && (k == VD_K || k == VD_POWER_RULE);
  case VD_SIBLING:
    return (k == VD_CALL1 || k == VD_CALL2) && sibling(node->op) != node->op;
  case VD_OPERATION:
    return k == VD_ADD || k == VD_SUB || k == VD_MUL || k == VD_DIV;
  default:
    return p->value;
  }
}

/* Drops a factor, term or divisor. */
static void drop_at(vd_rule *r, int *edge, uint64_t choice, char *text, size_t capacity) {
  const vd_rule_node *node = r->node + *edge;
  if (node->kind == VD_POWER_RULE) {
    snprintf(text, capacity, "exponent not lowered, factor dropped");
    *edge = put(r, VD_Y, NONE, 0, -1, -1, -1);
    return;
  }
  int dropped = node->kind == VD_DIV ? 1 : (int)(choice & 1);
  snprintf(text, capacity, "argument %d of node %d dropped", dropped, *edge);
  *edge = node->arg[1 - dropped];
}

/* The node is replaced, not changed: it may have other users. */
static void mutate_at(vd_rule *r, int *edge, vd_mutation kind, bool binary, uint64_t choice,
                      char *text, size_t capacity) {
  const vd_rule_node node = r->node[*edge];
  vd_kind k = node.kind;
  const int *arg = node.arg;
  int at = *edge;
  switch (kind) {
  case VD_FLIP:
    snprintf(text, capacity, "sign flipped at node %d", at);
    *edge = put(r, VD_NEG, NONE, 0, at, -1, -1);
    break;
  case VD_DOUBLE:
    snprintf(text, capacity, "factor 2 at node %d", at);
    *edge = put(r, VD_MUL, NONE, 0, put(r, VD_K, NONE, 2, -1, -1, -1), at, -1);
    break;
  case VD_ARGUMENT:
    snprintf(text, capacity, "wrong argument at node %d", at);
    *edge = put(r, k != VD_A ? VD_A : binary ? VD_B : VD_Y, NONE, 0, -1, -1, -1);
    break;
  case VD_OFF:
    snprintf(text, capacity, "off by one at node %d", at);
    *edge = k == VD_K ? put(r, VD_K, NONE, node.k + 1, -1, -1, -1)
                      : put(r, VD_DIV, NONE, 0, at, put(r, VD_A, NONE, 0, -1, -1, -1), -1);
    break;
  case VD_SIBLING:
    snprintf(text, capacity, "%s for %s", tn_op_row(sibling(node.op))->name,
             tn_op_row(node.op)->name);
    *edge = put(r, k, sibling(node.op), 0, arg[0], arg[1], -1);
    break;
  case VD_OPERATION:
    snprintf(text, capacity, "wrong operation at node %d", at);
    *edge = put(r,
                k == VD_ADD   ? VD_SUB
                : k == VD_SUB ? VD_ADD
                : k == VD_MUL ? VD_DIV
                              : VD_MUL,
                NONE, 0, arg[0], arg[1], -1);
    break;
  default:
    drop_at(r, edge, choice, text, capacity);
  }
}

bool vd_rule_mutate(vd_rule *rule, vd_mutation kind, uint64_t choice, char *text, size_t capacity) {
  if (rule->n + 3 > VD_RULE_NODES)
    return false;
  vd_rule_node *root = rule->node + rule->root;
  if (root->kind == VD_K && root->k == 0) {
    snprintf(text, capacity, "0 became 1");
    root->k = 1;
    return true;
  }
  place list[PLACES], chosen[PLACES], top = {NULL, true, false};
  int n = places_below(rule, &rule->root, top, list, 0), m = 0;
  bool binary = false;
  for (int i = 0; i < n; ++i) {
    binary |= rule->node[*list[i].edge].kind == VD_B;
    if (fits(rule, list + i, kind))
      chosen[m++] = list[i];
  }
  if (m == 0)
    return false;
  mutate_at(rule, chosen[choice % (uint64_t)m].edge, kind, binary, choice >> 32, text, capacity);
  return true;
}
