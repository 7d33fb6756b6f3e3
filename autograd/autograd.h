/* autograd.h: the public interface of the derivative layer.
 *
 * Everything here makes new nodes in the graph of its arguments; nothing runs. Results differentiate again,
 * to any order, by the same functions. A derivative that is structurally zero is a fill of zeros of the
 * right shape, never an error. docs/design/000-overview.md (section 3) has the ideas.
 *
 * Three ways to a derivative: reverse mode (ag_grad), jets (fields and ag_resolve), and, in validate/,
 * finite differences of forward values in high precision. Tests hold them against each other.
 */
#ifndef AUTOGRAD_AUTOGRAD_H
#define AUTOGRAD_AUTOGRAD_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dydx[i] = d(sum of y) / dx[i], of the shape of x[i]; y of any float shape. x[i] may be any value, not
 * only a leaf: what lies behind it is then not followed for that x. */
TN_API tn_status ag_grad(tn_value y, size_t n, const tn_value *x, tn_value *dydx) TN_MUST_USE;

/* xbar[j] = sum over i of (dy[i]/dx[j])^T ybar[i]; ybar[i] has the shape of y[i]. */
TN_API tn_status ag_vjp(size_t n_y, const tn_value *y, const tn_value *ybar, size_t n_x,
                        const tn_value *x, tn_value *xbar) TN_MUST_USE;

/* ydot[i] = sum over j of dy[i]/dx[j] xdot[j]; xdot[j] has the shape of x[j]. x[j] are leaves or values. */
TN_API tn_status ag_jvp(size_t n_x, const tn_value *x, const tn_value *xdot, size_t n_y,
                        const tn_value *y, tn_value *ydot) TN_MUST_USE;

/* Rows of the Jacobian: the backward graph without its final sums over points. y[i] of shape [N] gives
 * rows[i * n_x + j] [N, shape of x[j]] with rows[p] = d y[i][p] / d x[j]; a scalar y[i] gives its gradient,
 * of the shape of x[j]. y[i][p] must depend on point p alone, or on other points through scalars (means).
 * x[j] have no points. sum over p of rows[p] w[p] = ag_vjp with cotangent w. */
TN_API tn_status ag_rows(size_t n_x, const tn_value *x, size_t n_y, const tn_value *y,
                         tn_value *rows) TN_MUST_USE;

/* hv[i] = d^2(sum of y)/dx[i] dx[.] v[.]: forward over reverse. */
TN_API tn_status ag_hvp(tn_value y, size_t n, const tn_value *x, const tn_value *v, tn_value *hv)
    TN_MUST_USE;

/* The n x n Hessian of a scalar y by one fixed-extent x of n elements (rank 1), as a value of shape
 * [n, n]. */
TN_API tn_value ag_hessian(tn_value y, tn_value x);

/* The k-th total derivative of an elementwise expression along a coordinate x (a leaf of shape [N] or a
 * scalar): every point depends on its own x only. Calls of fields are differentiated through their
 * arguments. k = 0 gives e. */
TN_API tn_value ag_d(tn_value e, tn_value x, int k);

/* out[i] = values[i] with from[j] replaced by to[j] (of the same shape, or a scalar for a [N] value of an
 * elementwise expression, or the other way round): the parts that depend on `from` are built anew. */
TN_API tn_status ag_substitute(tn_graph *graph, size_t n_from, const tn_value *from,
                               const tn_value *to, size_t n, const tn_value *values, tn_value *out)
    TN_MUST_USE;

/* ---- Recomputation ----------------------------------------------------------------------------- */

/* A region: the nodes recorded between begin and end, as some layers of a network. A gradient computes its values
 * again when it comes to them, from what enters the region, so that they need not be kept from the forward pass
 * until then: less memory, one more evaluation of the region. What enters a region and what leaves it is kept.
 * No bit of any result changes. It holds for all reverse modes (ag_grad, ag_vjp, ag_rows, ag_hvp, ag_hessian), for
 * gradients of gradients, and for jets: the body of a field may have regions. Regions stand side by side; one
 * inside another ends it for its nodes.
 * before = ag_remat_begin(graph); h = ...; ag_remat_end(graph, before). Two recordings are two regions. */
TN_API uint32_t ag_remat_begin(tn_graph *graph);
TN_API void ag_remat_end(tn_graph *graph, uint32_t before);
/* The same for what is recorded already: out[i] is replaced by itself recorded anew as one region that begins at
 * the values in[j]. */
TN_API tn_status ag_remat(tn_graph *graph, size_t n_in, const tn_value *in, size_t n_out, tn_value *out)
    TN_MUST_USE;

/* ---- Precision --------------------------------------------------------------------------------- */

/* What is computed in a low format. Mixed: the matrix inputs of products (jet_lin without its bias, jet_outer)
 * whose two widths are both at least `narrowest` are rounded to `low`; accumulation, results and everything else
 * stay as they are (f32). Pure: every f32 operation becomes one of `low`, so outputs in f32 come out in `low`;
 * leaves keep their dtype and are rounded where they enter. f64 parts stay f64 in both, and may hold no products. */
typedef struct ag_cast_policy {
  tn_dtype low;     /* TN_TF32, TN_BF16, TN_F16 */
  bool pure;
  size_t narrowest; /* 0: 16. Smaller products (first and last layers) gain nothing and lose most */
} ag_cast_policy;
/* out[i] = values[i] with the policy applied (out may be values). Without calls, gradients included: cast after
 * grad, so that no rounding is differentiated. A second pass of the same policy changes nothing. */
TN_API tn_status ag_cast(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values,
                         tn_value *out) TN_MUST_USE;

/* The same for mixed policies, but each product becomes three of the low format that together are right to 3 u^2:
 * a loss nearly as smooth as in f32, for methods that compare losses. */
TN_API tn_status ag_split(tn_graph *graph, const ag_cast_policy *policy, size_t n, const tn_value *values,
                          tn_value *out) TN_MUST_USE;

/* What the matrix products of a program are. */
typedef enum ag_product_kind { AG_FORWARD, AG_ADJOINT, AG_WEIGHT } ag_product_kind;
typedef struct ag_product {
  uint32_t node;            /* of the program: jet_lin or jet_outer */
  ag_product_kind kind;     /* h W; zbar W^T; sum of outer(h, zbar) */
  const char *weight;       /* name of the parameter whose layer it is; "" if none is found. Lives with the program */
  size_t k, n;              /* of a jet_lin: summed over, made; of a weight gradient: the shape of the matrix */
  size_t channels;          /* with points; of a weight gradient: pairs with points on both sides */
  tn_axis axis;             /* of these points; 0: no operand has points */
  tn_dtype dtype;           /* of the numbers multiplied: bf16 for f32 values that were rounded to it */
  double flops;             /* a point: 2 k n channels */
} ag_product;
/* *list: tn_free. */
TN_API tn_status ag_products(const tn_program *program, size_t *n, ag_product **list) TN_MUST_USE;

/* ---- Fields ------------------------------------------------------------------------------------ */

/* A field is a function of n_args scalars with n_out scalar outputs, given once as a graph (its body)
 * between placeholder arguments (inputs of shape [axis] made by ag_field_argument) and outputs of that
 * shape. Its parameters are leaves of the same graph. ag_call records a value of it, or a derivative by
 * its own arguments (order[j] times by argument j), at other arguments (scalars or values of one [N]);
 * nothing is expanded before ag_resolve. Fields belong to their graph and end with it or its reset. */
typedef struct ag_field ag_field;
TN_API tn_status ag_field_new(tn_graph *graph, const char *name, size_t n_args, tn_dtype dtype,
                              ag_field **out) TN_MUST_USE;
TN_API tn_status ag_field_label(ag_field *field, size_t j, const char *label) TN_MUST_USE; /* "x" */
TN_API tn_value ag_field_argument(ag_field *field, size_t j);
TN_API tn_status ag_field_body(ag_field *field, size_t n_out, const tn_value *outputs) TN_MUST_USE;
TN_API const char *ag_field_name(const ag_field *field);
TN_API tn_value ag_call(ag_field *field, size_t output, const tn_value *args, const uint8_t *order);

typedef struct ag_resolve_options {
  bool separate; /* no folding: every derivative in the text has a channel of its own */
  bool nested;   /* expand every call by repeated ag_grad of the body instead of jets (an oracle) */
  /* Channel scales: channel c of every group is carried as 2^-scale times its value (its adjoint as 2^scale times),
   * folded into the algebra's constants, so nothing but the range of intermediate numbers changes (not one bit of a
   * result, as long as nothing overflows or underflows). scale: -20 to 20; asked for every channel but the value,
   * which has none. label: as in the report, "xx" or "t - c0*xx". NULL: all 0. No effect with `nested`. */
  int (*scale)(void *context, const char *field, const char *label);
  void *scale_context;
} ag_resolve_options;

/* What ag_resolve chose for one (field, arguments) group, for reports. */
typedef struct ag_group_report {
  const char *field;
  size_t channels, terms;
  char labels[512]; /* "u, x, t - c0*xx": one label a channel */
  int line;         /* of the first call in the group */
} ag_group_report;
typedef struct ag_resolve_report {
  size_t n_groups;
  ag_group_report group[32]; /* the first 32 */
} ag_resolve_report;

/* Rewrites the roots without calls: groups the calls by (field, arguments), folds derivatives that enter a
 * root linearly with coefficients free of parameters and calls, plans one algebra a group, and expands
 * the body in jets. out[i] replaces roots[i]. options, report: may be NULL. */
TN_API tn_status ag_resolve(tn_graph *graph, size_t n, const tn_value *roots,
                            const ag_resolve_options *options, tn_value *out,
                            ag_resolve_report *report) TN_MUST_USE;

/* The jet of a subgraph: y[i] as jets when x[j] carry the jets in x_jet (all of one table). Values that
 * do not depend on x are constants. Used by ag_resolve; public for callers with algebras of their own. */
TN_API tn_status ag_jet(size_t n_x, const tn_value *x, const tn_jet *x_jet, size_t n_y,
                        const tn_value *y, tn_jet *y_jet) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
