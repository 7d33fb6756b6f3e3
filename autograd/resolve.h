/* resolve.h: what the stages of ag_resolve share. */
#ifndef AUTOGRAD_RESOLVE_H
#define AUTOGRAD_RESOLVE_H

#include "autograd/algebra.h"
#include "autograd/field.h"

/* A summand of a root: factor * opaque * value; opaque absent: 1. */
typedef struct ag_summand {
  size_t root;
  ag_rational factor;
  tn_value opaque, value;
  bool call;     /* value is a call that can be resolved now */
  size_t atom;   /* of a call */
  size_t top;    /* of a folded call: index in its group's tops; SIZE_MAX: not folded */
} ag_summand;

/* A call node of this pass. */
typedef struct ag_atom {
  uint32_t node;
  size_t group;
  bool required; /* needs a channel of its own */
  tn_value result;
} ag_atom;

/* A folded operator of one root and one output. */
typedef struct ag_fold {
  size_t root;
  uint32_t output;
  tn_value result;
} ag_fold;

/* Calls of one field at the same arguments. */
typedef struct ag_group {
  ag_field *field;
  tn_value args[TN_MAX_SLOTS];
  size_t n_folds;
  ag_fold *folds; /* owned */
} ag_group;

typedef struct ag_pass {
  tn_graph *graph;
  ag_resolve_options options;
  size_t n_roots, n_summands, n_atoms, n_groups;
  tn_value *roots; /* the current ones, replaced by the pass */
  uint32_t n_nodes;
  bool *has_call, *has_parameter;
  ag_summand *summands;
  ag_atom *atoms;
  ag_group *groups;
} ag_pass;

tn_status ag_fold_roots(ag_pass *pass) TN_MUST_USE;                          /* fold.c */
tn_status ag_expand_group(ag_pass *pass, size_t group, ag_resolve_report *report)
    TN_MUST_USE;                                                             /* expand.c */

#endif
