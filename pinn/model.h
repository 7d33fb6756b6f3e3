/* model.h: a problem as graphs: networks, unknowns, point sets, residuals.
 *
 * A pn_model owns one graph and the layout of one flat vector theta (f64). Trees of the problem become
 * values in a scope: a set of points, where each coordinate is a [N] leaf or a constant. Unknowns become
 * calls of fields (autograd/autograd.h), so derivatives are recorded and not expanded; ag_resolve does that
 * once for all residuals of a program.
 *
 *   pn_problem --pn_model_new--> fields and theta --pn_scope_new--> points --pn_lower--> values
 */
#ifndef PINN_MODEL_H
#define PINN_MODEL_H

#include "autograd/autograd.h"
#include "pinn/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Network kinds: one file net_<kind>.c and a line in net_list.c ------------------------------- */

/* What a block is, for its first numbers. */
typedef enum pn_block_kind {
  PN_BLOCK_WEIGHT, /* [rows, columns] */
  PN_BLOCK_BIAS,   /* behind its weight */
  PN_BLOCK_SCALE,  /* s of a factorised weight V exp(s), behind the bias */
  PN_BLOCK_SLOPE,  /* of an adaptive activation */
  PN_BLOCK_WAVE,   /* 2 pi / period of a coordinate */
  PN_BLOCK_MIX     /* share of a residual block */
} pn_block_kind;

/* One block of theta: a weight or bias, a parameter leaf of the graph. */
typedef struct pn_block {
  const char *name; /* "net1.layer2.weight" */
  tn_value leaf;    /* of the model's dtype; bound to a view of theta (f64) or to a rounded copy */
  size_t offset, count;
  size_t rank, extent[2];
  pn_block_kind kind;
  bool first, last; /* of the layers: on the features; the output layer */
  double start;     /* first number of slopes, waves and mixes */
} pn_block;

/* How one argument of a network is prepared: affinely to [-1, 1], or for a periodic coordinate as
 * cos and sin of 2 pi (x - lo) / (hi - lo). */
typedef struct pn_input_map {
  double lo, hi;
  bool periodic, log; /* log: of the logarithm */
  double spread; /* half the width of the scaled range, 1 by default */
  bool learnt;   /* the period is a block of theta, hi - lo its first value */
  bool plain;    /* taken as it is */
} pn_input_map;

typedef struct pn_model pn_model;
typedef struct pn_net pn_net; /* one network: several outputs of the same arguments */

typedef struct pn_net_class {
  const char *name; /* "mlp" */
  const char *doc;
  /* Adds blocks to the model and gives outputs[n_out] of the field's arguments args[n_in] ([axis]
   * scalars): input maps, layers, output layer. */
  tn_status (*build)(pn_model *model, pn_net *net, const tn_value *args, tn_value *outputs);
  /* Fills theta + offset of the net's blocks; pn_net_init (net_init.c) for all kinds here. */
  tn_status (*init)(const pn_model *model, const pn_net *net, uint64_t seed, double *theta);
} pn_net_class;

struct pn_net {
  const pn_net_class *class_;
  char name[64];
  pn_network options; /* every size decided */
  size_t n_in, of[PN_MAX_COORDINATES]; /* coordinate indices */
  pn_input_map input[PN_MAX_COORDINATES];
  pn_input_map expression[PN_MAX_COORDINATES]; /* of options.inputs */
  size_t n_out, unknown[32]; /* which unknown each output is */
  ag_field *field;
  size_t first_block, n_blocks;
};

/* ---- The model ------------------------------------------------------------------------------------ */

/* What stands between the raw network output N and the unknown:
 *   value = ansatz(scale * N), hard constraints written as value = lift + distance * (scale * N), parity
 *   by N(x) +- N(2m - x). Decided by pn_model_new from the file; printed by the solver. */
struct pn_model {
  pn_problem *problem;
  tn_graph *graph;
  tn_dtype dtype;
  size_t n_nets;
  pn_net *nets;
  size_t n_blocks;
  pn_block *blocks;
  size_t n_theta;
  double *unknown_scale;     /* one an unknown; 1 until pn_model_scale */
  const char **unknown_scale_source; /* "initial", "file", "source of burgers", ...: words for the banner */
  tn_value *unknown_scale_leaf; /* run-time scalars, first value unknown_scale */
  size_t *unknown_net, *unknown_output; /* which network and which of its outputs */
  size_t first_parameter;    /* offset in theta of the numbers to be found: the last of it */
  size_t *parameter_block;   /* of each parameter of the problem: its block, one number */
  tn_value *parameter;       /* and its value in the graph */
  struct pn_hard *hard;      /* hard.c: conditions met by construction, one plan an unknown */
  pn_arena *arena;
};

/* Decides network sizes left open (defaults of problem-format.md section 2), builds the fields.
 * dtype TN_F64 or TN_F32. Errors: a hard condition that has no exact form, an activation too rough for
 * the orders in the equations (names both). */
tn_status pn_model_new(pn_problem *problem, tn_dtype dtype, pn_model **out) TN_MUST_USE;
void pn_model_free(pn_model **model);
tn_status pn_model_init(const pn_model *model, uint64_t seed, double *theta) TN_MUST_USE;
/* Is this condition met by construction (hard = true)? Then it has no loss term. */
bool pn_model_is_hard(const pn_model *model, const pn_term *condition);

/* Does the plan of this problem begin with lm, given networks that are small enough (plan.c)? */
bool pn_plan_wants_lm(const pn_problem *problem);

/* For network kinds: appends a block of theta with its parameter leaf; `part` as "layer1.weight". */
tn_status pn_model_block(pn_model *model, const pn_net *net, const char *part, size_t rank,
                         const size_t *extent, tn_value *leaf) TN_MUST_USE;
/* The same by its whole name, for what is no network's. */
tn_status pn_model_add_block(pn_model *model, const char *name, size_t rank, const size_t *extent,
                             tn_value *leaf) TN_MUST_USE;
const pn_net_class *const *pn_net_classes(size_t *count);
tn_status pn_net_find(const char *name, const pn_net_class **out) TN_MUST_USE;

/* model_parameter.c: numbers to be found. theta holds z, 0 at the start; the parameter is a function of it. */
double pn_parameter_of(const pn_parameter *parameter, double z);
double pn_parameter_slope(const pn_parameter *parameter, double z); /* d parameter / d z */
/* Value of parameter i at theta. */
double pn_model_parameter(const pn_model *model, const double *theta, size_t i);
/* The blocks, behind those of the networks. */
tn_status pn_model_parameters(pn_model *model) TN_MUST_USE;
/* What sizes of expressions with parameters are measured at from now on; at first the start. */
tn_status pn_model_set_parameters(const pn_model *model, const double *theta) TN_MUST_USE;

/* model_order.c: order[i], the highest total order of derivatives of unknown i's network in a relation of
 * the file, through definitions and ansatz (-1: it does not occur); term[i], a term that has it. Arrays of
 * n_unknowns; term may be NULL. */
tn_status pn_problem_orders(const pn_problem *problem, int *order, const pn_term **term) TN_MUST_USE;
/* The same of one expression (any resolved tree). */
tn_status pn_expr_orders(const pn_problem *problem, const pn_expr *expr, int *order) TN_MUST_USE;

/* ---- Scopes --------------------------------------------------------------------------------------- */

/* Points at which trees are evaluated. Coordinates are [N] inputs of the graph on `axis`, or constants
 * (fixed by a piece, or substituted); a scope without free coordinates has axis 0 and scalar values. */
typedef struct pn_scope {
  pn_model *model;
  tn_axis axis;
  tn_value coordinate[PN_MAX_COORDINATES]; /* graph NULL: this coordinate has no meaning here */
  bool free_[PN_MAX_COORDINATES];          /* an input that the caller binds */
  tn_value moved[PN_MAX_COORDINATES]; /* what trees see in place of coordinate[i], a reference number there;
                                         graph NULL: the same */
  bool is_mean; /* this is the scope of a mean */
  bool exact; /* unknowns stand for their exact expressions (check); no network is called */
  bool bare;  /* unknowns are calls of their fields and nothing else: no ansatz, parity, condition (reference) */
  tn_value weight; /* of a bare scope of a mean: [N], sum 1; means are weighted by it */
  const pn_piece *piece; /* the normal for dn; may be NULL */
  tn_value normal[PN_MAX_COORDINATES]; /* inputs on a curved piece; else graph NULL */
  size_t n_insides;      /* shapes that inside(A) asks about, each an input of 0 and 1 */
  size_t inside[8];
  tn_value inside_leaf[8];
  const pn_data *data;   /* whose rows are the points; NULL: none */
  size_t n_columns;      /* of the data used, each a [N] input that the caller binds */
  size_t column[32];
  tn_value column_leaf[32];
  size_t n_tables;       /* tables used, each a [N] input that the caller binds to table values */
  size_t table[16];
  tn_value table_leaf[16];
  struct pn_scope *mean; /* scope of mean(e, domain), made on demand; its points are the caller's too */
} pn_scope;

/* A scope on a piece (NULL: the whole box, all coordinates free). `needed`: bit i says that coordinate i
 * is to vary (others that are not fixed by the piece get no value). */
tn_status pn_scope_new(pn_model *model, const char *name, const pn_piece *piece, uint32_t needed,
                       pn_scope *out) TN_MUST_USE;

/* The same on the rows of some data: it has points even if no coordinate varies. */
tn_status pn_scope_of_data(pn_model *model, const char *name, const pn_data *data, uint32_t needed,
                           pn_scope *out) TN_MUST_USE;
/* Column `index` of its data; of PN_SHARE the shares of sigma. */
#define PN_SHARE ((size_t)-2)
tn_status pn_scope_column(pn_scope *scope, size_t index, const char *name,
                          tn_value *out) TN_MUST_USE;

/* The value of a resolved scalar tree, with calls of fields unresolved. Shape [N] or scalar. Places of
 * the tree are put on the nodes (tn_at). */
tn_status pn_lower(pn_scope *scope, const pn_expr *expr, tn_value *out) TN_MUST_USE;
/* lhs - rhs of a relation (for <= and >=: the violation, max(., 0)), vector components by index; dn and
 * normal_x by the scope's piece. */
tn_status pn_lower_relation(pn_scope *scope, const pn_relation *relation, tn_value *out) TN_MUST_USE;
/* The terms that the top-level sum of lhs - rhs consists of: lhs - rhs = sum of signs[i] * values[i]; for
 * relative residuals and for pinn check --at. At most `capacity`: what would be more stays summed. */
tn_status pn_lower_terms(pn_scope *scope, const pn_relation *relation, size_t capacity, size_t *n,
                         tn_value *values, pn_expr **exprs, int *signs) TN_MUST_USE;
/* Joins the terms that hold no unknown into one (in place of the first, with its expression and sign): known
 * terms that cancel, as in u + 1e6 = 1e6, say nothing about the size of a relation. */
void pn_join_data(const pn_problem *problem, size_t *n, tn_value *values, pn_expr **exprs, int *signs);
/* The unknown itself in a scope (network, ansatz, hard constraints; or exact). */
tn_status pn_lower_unknown(pn_scope *scope, size_t unknown, tn_value *out) TN_MUST_USE;

/* exact.c: built-in solutions as graphs: cole_hopf(x, t, nu) and what functions.def marks as such. */
tn_status pn_exact_call(pn_scope *scope, pn_function function, const tn_value *args, tn_value *out)
    TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
