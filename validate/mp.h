/* mp.h: what the files of validate/ share: MPFR arrays, scalar references, derivative rules as
 * trees, Taylor series of table rows, finite differences, error measures, and the MPFR side of the
 * replay.
 *
 * Internal to validate/ and its tests; the public header has no MPFR type. Precision is given in
 * bits. MPFR's exponent range is left at its default (about 2^+-2^30), so references neither
 * overflow nor underflow where a dtype would; the measures in ulp.c apply a dtype's range when they
 * compare.
 */
#ifndef VALIDATE_MP_H
#define VALIDATE_MP_H

#include <stdint.h>

#define MPFR_USE_INTMAX_T /* mpfr_set_sj */
#include <mpfr.h>

#include "validate/validate.h"

/* ---- Arrays --------------------------------------------------------------------------------- */

/* n numbers of one precision in two allocations. Never mpfr_clear, mpfr_swap or mpfr_set_prec them.
 * A zeroed struct is an empty array. */
typedef struct vd_array {
  size_t n;
  mpfr_prec_t bits;
  mpfr_ptr v;  /* n numbers, +0 at first; owned */
  void *limbs; /* their significands; owned */
} vd_array;
tn_status vd_array_new(size_t n, mpfr_prec_t bits, vd_array *out) TN_MUST_USE;
void vd_array_free(vd_array *array);

/* ---- Scalar references (ref.c) -------------------------------------------------------------- */

bool vd_is_unary(tn_op_id op); /* unary and power rows */
bool vd_is_power(tn_op_id op);
bool vd_is_binary(tn_op_id op);
bool vd_is_compare(tn_op_id op);

/* y = row(x), to within one unit of y's last bit for the composed ones and rounded correctly for
 * MPFR's own. exponent: for powers; ignored otherwise, may be NULL. y may be x. */
void vd_ref_unary(tn_op_id op, mpfr_ptr y, mpfr_srcptr x, mpfr_srcptr exponent);
void vd_ref_binary(tn_op_id op, mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b);
bool vd_ref_compare(tn_op_id op, mpfr_srcptr a, mpfr_srcptr b);

/* ---- Derivative rules as trees (rule.c) ----------------------------------------------------- */

typedef enum vd_kind {
  VD_A, /* the argument of a row (x, or a) */
  VD_B, /* the second argument */
  VD_Y, /* the value of the row */
  VD_K, /* a number */
  VD_NEG,
  VD_ADD,
  VD_SUB,
  VD_MUL,
  VD_DIV,
  VD_WHERE, /* arg[0] is a comparison */
  VD_LE,
  VD_GE,
  VD_CALL1,     /* a unary or power row of arg[0] */
  VD_CALL2,     /* a binary row of arg[0], arg[1] */
  VD_POWER_RULE /* e x^(e - 1) */
} vd_kind;

typedef struct vd_rule_node {
  vd_kind kind;
  tn_op_id op; /* calls */
  double k;    /* VD_K */
  int arg[3];  /* indices, -1: none */
} vd_rule_node;

#define VD_RULE_NODES 40
typedef struct vd_rule {
  vd_rule_node node[VD_RULE_NODES];
  int n, root; /* n > VD_RULE_NODES: the rule did not fit */
} vd_rule;

/* The derivative column of a unary, power or binary row by its argument `by` (0 or 1). */
tn_status vd_rule_of(tn_op_id op, int by, vd_rule *out) TN_MUST_USE;

typedef enum vd_mutation {
  VD_FLIP,      /* a sign */
  VD_DOUBLE,    /* a factor 2 */
  VD_DROP,      /* a term, factor or divisor left out */
  VD_ARGUMENT,  /* x for y, a for b, or the other way round */
  VD_OFF,       /* a constant, or the exponent of a power, off by one */
  VD_SIBLING,   /* another function of the same family: sin for cos */
  VD_OPERATION, /* + for -, / for *, or the other way round */
  VD_MUTATIONS
} vd_mutation;
/* Mutates one place of the rule, the place chosen by `choice`; false if the kind does not apply to
 * it. The places are such that the mutant's function differs (rule.c explains). text: what was
 * done. */
bool vd_rule_mutate(vd_rule *rule, vd_mutation kind, uint64_t choice, char *text, size_t capacity);

/* ---- Taylor series (series.c) --------------------------------------------------------------- */

/* Taylor coefficients of a row in one of its arguments, made from the table's rules alone beyond
 * order 0. */
typedef struct vd_series vd_series;
typedef struct vd_series_spec {
  tn_op_id op;
  double exponent; /* powers */
  int along;       /* binary rows: the argument that varies; 2: both, b by `slope` times as much as a */
  double slope;    /* along 2 */
  int order;       /* coefficients 0 .. order */
  mpfr_prec_t bits;
  const vd_rule *mutant; /* replaces the rule of op by argument `along`; NULL: none */
} vd_series_spec;
tn_status vd_series_new(const vd_series_spec *spec, vd_series **out) TN_MUST_USE;
void vd_series_free(vd_series **series);
/* Expands about the point; b is for binary rows. Results live until the next call. */
void vd_series_at(vd_series *series, mpfr_srcptr a, mpfr_srcptr b);
/* f^(m)(x) / m!, and its scale: the same sum with absolute values (see replay.c on scales). */
mpfr_srcptr vd_series_coefficient(const vd_series *series, int m);
double vd_series_scale(const vd_series *series, int m);
/* Exponents of intermediate numbers t, 2^(e-1) <= |t| < 2^e: the lowest and highest of all coefficients of
 * order 0 .. m of all expressions that the result was made from. */
void vd_series_reach(const vd_series *series, int m, long *lowest, long *highest);

/* ---- Finite differences (fd.c) -------------------------------------------------------------- */

/* d^m row / d(argument along)^m by central differences of forward values, step 2^-80, at a
 * precision that leaves 35 decimal digits and more for m <= 5. order 0 gives the value. along 2: along
 * the direction (1, exponent) of a binary row. */
void vd_fd(tn_op_id op, double exponent, int along, int order, double a, double b, mpfr_ptr out);

/* One differentiable function of one variable in the table: a row along an argument, with an
 * exponent for powers; or (along 2) a binary row along a direction, whose derivatives hold the mixed
 * ones: f_aa + 2 s f_ab + s^2 f_bb for slope s, kept in `exponent`. vd_cases_of leaves these out. A row has at most VD_CASES; 0 for rows without a derivative. */
typedef struct vd_case {
  tn_op_id op;
  int along;
  double exponent;
} vd_case;
enum { VD_CASES = 8 };
size_t vd_cases_of(tn_op_id op, vd_case *list);
void vd_case_name(const vd_case *c, char *text, size_t capacity); /* "tanh", "powi 3", "div by a" */

/* ---- Measures (ulp.c) ----------------------------------------------------------------------- */

/* The unit in the last place of a dtype at a reference value: 2^(e - p), not below the smallest
 * subnormal. */
double vd_ulp_of(tn_dtype dtype, mpfr_srcptr reference);
/* |value - reference| in these units. A value that equals the reference rounded beyond the range
 * (infinity) has error 0; NaN against NaN is 0, NaN or infinity against a number is infinite. */
double vd_ulp_error(tn_dtype dtype, double value, mpfr_srcptr reference);
double vd_abs_error(double value, mpfr_srcptr reference);
double vd_rel_error(double value, mpfr_srcptr reference); /* 0 / 0 is 0 */
/* c = |value - reference| / (u max(scale, smallest normal number)): errors in roundings, free of
 * cancellation. */
double vd_scaled_error(tn_dtype dtype, double value, mpfr_srcptr reference, double scale);

/* Maxima and norms over many comparisons. Start from a zeroed struct. */
typedef struct vd_measure {
  size_t n, sign_flips, false_zeros;
  double max_ulp, max_c, max_rel;
  double max_error, max_reference; /* norm-inf of the difference and of the reference */
  double error_scale, error_sum;   /* norm-2 of the difference: scale sqrt(sum) */
  double reference_scale, reference_sum;
  double at; /* argument (or index) of the largest c; of the largest ulp if all c are 0 */
} vd_measure;
void vd_measure_add(vd_measure *m, tn_dtype dtype, double value, mpfr_srcptr reference,
                    double scale, double at);
double vd_measure_norm2(const vd_measure *m);    /* relative; |error| if the reference is 0 */
double vd_measure_norm_inf(const vd_measure *m); /* relative */

/* The first error of a graph's builders, which explains a later one; else the status. */
tn_status vd_first_error(tn_graph *graph, tn_status status);

/* ---- Parts of the op audit (ops_select.c) --------------------------------------------------- */

/* One comparison on random pairs, ties, zeros of both signs, infinities and NaN: wrong answers, bound
 * 0. */
tn_status vd_audit_compare(const vd_options *o, tn_op_id op, tn_dtype dtype, vd_report *report)
    TN_MUST_USE;
/* Derivatives to order 3 of functions made of two branches, one of which is not finite where it is
 * not taken. */
tn_status vd_audit_branches(const vd_options *o, tn_dtype dtype, vd_report *report) TN_MUST_USE;

/* ---- Replay, MPFR side (replay.c) ----------------------------------------------------------- */

/* Value of an element after vd_replay_run; NULL if there is none. */
mpfr_srcptr vd_replay_at(const vd_replay *replay, uint32_t node, uint32_t port, size_t element);

#endif
