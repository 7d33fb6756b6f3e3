/* emit.h: writing strip programs in single assignment, with scale factors carried lazily. */
#ifndef TENSOR_EMIT_H
#define TENSOR_EMIT_H

#include "tensor/jet_plan.h"

/* A number times a register; reg = -1: the number alone, and factor = 0 with it a structural zero. */
typedef struct tn_lazy { double factor; int reg; } tn_lazy;

typedef struct tn_emitter {
  tn_strip_instruction *code; /* owned; y is the register of its own: n_given + index */
  int32_t *table;             /* owned: hash of instructions, index + 1 in code */
  size_t table_size;          /* a power of two */
  size_t count, capacity;
  int n_given;                /* registers that exist before the program */
  tn_status status;           /* the first failure */
} tn_emitter;

void tn_emitter_free(tn_emitter *e); /* what it owns */

#define TN_ZERO ((tn_lazy){0, -1})
tn_lazy tn_emit_number(double x);
bool tn_lazy_is_zero(tn_lazy a);
tn_lazy tn_emit_mul(tn_emitter *e, tn_lazy a, tn_lazy b);
tn_lazy tn_emit_add(tn_emitter *e, tn_lazy a, tn_lazy b);
tn_lazy tn_emit_fma(tn_emitter *e, tn_lazy a, tn_lazy b, tn_lazy c); /* a b + c */
tn_lazy tn_emit_div(tn_emitter *e, tn_lazy a, tn_lazy b);
tn_lazy tn_emit_cell(tn_emitter *e, tn_op_id op, tn_lazy a, double k);
tn_lazy tn_emit_binary(tn_emitter *e, tn_op_id op, int a, int b); /* a binary row of registers */
tn_lazy tn_emit_scale(double k, tn_lazy a);
int tn_emit_register(tn_emitter *e, tn_lazy a); /* with factor 1 */
int tn_emit_copy(tn_emitter *e, int reg);       /* always a new register */
int tn_emit_round(tn_emitter *e, tn_dtype dtype, int reg); /* to a low dtype; the register itself for others */

/* Improves the program (strip.h) and gives registers their places: the given ones, output[] behind them (each a
 * register of its own), then temporaries. */
tn_status tn_emit_finish(tn_emitter *e, size_t n_outputs, const int *output, size_t *n_temporaries)
    TN_MUST_USE;

/* The instructions of a jet_unary, jet_mul or jet_mulT node: in[] are the registers of its inputs (channels of
 * mask[0], then of mask[1], then coefficients), out[] get those of its ports; a register may serve two ports. */
tn_status tn_jet_emit(tn_emitter *e, const tn_node *node, const int *in, int *out) TN_MUST_USE;

/* Taylor coefficients f^(m + k)(z) / k!, k = 0 .. order, of a row's function at the register z. */
tn_status tn_ladder(tn_emitter *e, tn_op_id op, double exponent, int m, int order, int z,
                    tn_lazy *out) TN_MUST_USE;

#endif
