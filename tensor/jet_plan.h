/* jet_plan.h: jet nodes as strip programs. */
#ifndef TENSOR_JET_PLAN_H
#define TENSOR_JET_PLAN_H

#include "tensor/kernels.h"

/* Registers: inputs (channels of mask[0], then mask[1]), coefficients, outputs (ports), temporaries. */
typedef struct tn_jet_plan {
  size_t count;
  tn_strip_instruction *code; /* owned */
  size_t n_inputs, n_coefficients, n_outputs, n_temporaries;
} tn_jet_plan;

/* The strip program of a jet_unary, jet_mul or jet_mulT node. */
tn_status tn_jet_plan_new(const tn_node *node, tn_jet_plan *out) TN_MUST_USE;
void tn_jet_plan_free(tn_jet_plan *plan);

#endif
