/* ops.c: the descriptors of the operation table, one static instance a row. */
#include "tensor/graph.h"

#include <string.h>

static const tn_op rows[TN_OPS] = {
#define OP_LEAF(name, doc) {#name, doc, "", "", TN_OP_##name, TN_LEAF, 0, 0, 0, 0, {0, 0}, NULL},
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  {#name, doc, #cell, #derivative, TN_OP_##name, class, 1, flops, lo, hi, {ulp0, ulp1}, NULL},
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  {#name, doc, #cell, #derivative, TN_OP_##name, class, 1, flops, lo, hi, {ulp0, ulp1}, NULL},
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  {#name, doc, #cell, #da " ; " #db, TN_OP_##name, class, 2, flops, lo, hi, {ulp0, ulp1}, NULL},
#define OP_COMPARE(name, cell, mpfr, doc)                                                          \
  {#name, doc, #cell, "", TN_OP_##name, TN_COMPARISON, 2, 1, -9, 9, {0, 0}, NULL},
#define OP_SELECT(name, cell, doc)                                                                 \
  {#name, doc, #cell, "", TN_OP_##name, TN_PIECEWISE, -1, 1, 0, 0, {0.5, 0.5}, NULL},
#define OP_STRUCT(name, class, flops, doc)                                                         \
  {#name, doc, "", "", TN_OP_##name, class, -1, flops, 0, 0, {0, 0}, NULL},
#include "tensor/ops.def"
};

const tn_op *tn_op_row(tn_op_id id) { return &rows[id < TN_OPS ? id : 0]; }

const tn_op *tn_op_find(const char *name) {
  for (size_t i = 0; i < TN_OPS; ++i)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return tn_registered_find(name);
}
