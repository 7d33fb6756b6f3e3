/* rule.c: the derivative column of the table as expression trees, and mutations of them.
 *
 * The column is C text in the words U, B, ADD, SUB, MUL, DIV, NEG, K, WHERE, LE, GE, POWER_RULE and
 * the letters x or a, b, y. autograd/ compiles it into graph builders; here the same text builds a
 * tree, which series.c evaluates in MPFR. So the text itself is under test, not a copy of it.
 *
 * Mutations ask whether the test would see a wrong rule. A mutant counts only if its function
 * differs, so places are chosen with care: a sign flips, or a factor 2 enters, only where values
 * are added, multiplied or returned, never in the argument of a row (cosh(-x) = cosh x, step(2x) =
 * step x) and never on the number 0; a term or factor may be dropped anywhere outside a comparison.
 * A rule that is the number 0 becomes 1.
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

/* A place: an edge of the tree. `value`: where values are added, multiplied or returned. */
typedef struct place {
  int *edge;
  bool value;
} place;
enum { PLACES = 128 };

static int places_below(vd_rule *r, int *edge, bool value, place *list, int n) {
  if (*edge < 0 || n == PLACES)
    return n;
  list[n++] = (place){edge, value};
  vd_rule_node *node = r->node + *edge;
  bool call = node->kind == VD_CALL1 || node->kind == VD_CALL2;
  for (int i = 0; i < 3; ++i) {
    if (node->kind == VD_LE || node->kind == VD_GE)
      continue;
    n = places_below(r, node->arg + i, value && !call, list, n);
  }
  return n;
}

static bool fits(const vd_rule *r, const place *p, vd_mutation kind) {
  const vd_rule_node *node = r->node + *p->edge;
  switch (node->kind) {
  case VD_LE:
  case VD_GE:
    return false;
  case VD_K:
    if (node->k == 0)
      return false;
    break;
  default:
    break;
  }
  if (kind != VD_DROP)
    return p->value;
  return node->kind == VD_ADD || node->kind == VD_SUB || node->kind == VD_MUL ||
         node->kind == VD_DIV || node->kind == VD_POWER_RULE;
}

static void mutate_at(vd_rule *r, int *edge, vd_mutation kind, uint64_t choice, char *text,
                      size_t capacity) {
  const vd_rule_node *node = r->node + *edge;
  if (kind == VD_FLIP) {
    snprintf(text, capacity, "sign flipped at node %d", *edge);
    *edge = put(r, VD_NEG, NONE, 0, *edge, -1, -1);
  } else if (kind == VD_DOUBLE) {
    snprintf(text, capacity, "factor 2 at node %d", *edge);
    int two = put(r, VD_K, NONE, 2, -1, -1, -1);
    *edge = put(r, VD_MUL, NONE, 0, two, *edge, -1);
  } else if (node->kind == VD_POWER_RULE) {
    snprintf(text, capacity, "exponent not lowered, factor dropped");
    *edge = put(r, VD_Y, NONE, 0, -1, -1, -1);
  } else {
    int dropped = node->kind == VD_DIV ? 1 : (int)(choice & 1);
    snprintf(text, capacity, "argument %d of node %d dropped", dropped, *edge);
    *edge = node->arg[1 - dropped];
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
  place list[PLACES], chosen[PLACES];
  int n = places_below(rule, &rule->root, true, list, 0);
  int m = 0;
  for (int i = 0; i < n; ++i)
    if (fits(rule, list + i, kind))
      chosen[m++] = list[i];
  if (m == 0)
    return false;
  mutate_at(rule, chosen[choice % (uint64_t)m].edge, kind, choice >> 32, text, capacity);
  return true;
}
