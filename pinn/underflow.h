/* underflow.h: which numbers a low format rounds in a training step. Inside pinn/ only.
 *
 * The public part (pn_underflow_new, ...) is in pinn.h.
 */
#ifndef PINN_UNDERFLOW_H
#define PINN_UNDERFLOW_H

#include "pinn/objective_inside.h"
#include "pinn/pinn.h"
#include "pinn/step.h"

typedef struct pn_operand_value {
  pn_operand is;  /* what the caller sees */
  tn_axis axis;   /* of its points */
  tn_value value; /* in the graph that was searched */
  size_t order;   /* place in the network: layer, channel, activation before adjoint */
} pn_operand_value;

/* ---- The set --------------------------------------------------------------------------------- */

typedef struct pn_underflow_slot { /* operands of one dtype as outputs of a program */
  pn_program program;
  pn_feed feed;
  size_t block;   /* that ran last; PN_NONE */
  double *values; /* room for one operand of a block */
} pn_underflow_slot;

struct pn_underflow {
  pn_problem *problem; /* borrowed, as pool */
  tn_pool *pool;
  pn_underflow_options options;
  pn_step *f64, *f32;
  size_t interior, file_interior; /* points of an equation: here, and in the file */
  tn_value scale;                 /* run-time number of the f32 graph: 2^s */
  size_t n_operands;
  pn_operand_value *operands; /* values of the f64 graph */
  tn_value *low;              /* of the f32 graph, after the cast */
  tn_value
      *gradients; /* the scaled loss, then its gradient by each block of weights, after the cast */
  pn_program gradient;
  pn_underflow_slot slots[2]; /* f64, low */
  size_t n_blocks;            /* of points */
  pn_underflow_block *weights;
  pn_underflow_facts facts;
};

/* A step of another dtype on the same points, weights and scales; not bound. */
tn_status pn_underflow_step(const pn_underflow *set, tn_dtype dtype, pn_step **out) TN_MUST_USE;

/* ---- Operands (underflow_operands.c) ---------------------------------------------------------- */

/* Inputs with points of the weight gradients that lead to the roots: activations (which the forward products
 * multiply too) and adjoints (likewise the backward ones), in the order of the forward pass. *list:
 * tn_free. */
tn_status pn_operands_of(const pn_model *model, const ag_resolve_report *planned, size_t n_roots,
                         const tn_value *roots, size_t *n, pn_operand_value **list) TN_MUST_USE;

/* Where the value is rounded on its way into products, in the graph behind the roots, after ag_cast: low[i] is
 * the rounded value, or the error value if values[i] is used as it is. */
tn_status pn_operands_rounded(tn_graph *graph, tn_dtype dtype, size_t n_roots,
                              const tn_value *roots, size_t n, const tn_value *values,
                              tn_value *low) TN_MUST_USE;

#endif
