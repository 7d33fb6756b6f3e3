/* running.h: the inside of running error bounds, shared by running.c, running_sums.c, running_rows.c,
 * running_jet.c and running_ladder.c.
 */
#ifndef VALIDATE_RUNNING_H
#define VALIDATE_RUNNING_H

#include <math.h>

#include "validate/moves.h"
#include "validate/mp.h"

/* A number inside a node: the engine's is within r of v (roundings of this node so far), the right one
 * within t (what the operands' errors do to it). Their sum bounds the error. */
typedef struct vd_near {
  double v, r, t;
} vd_near;

/* How the engine rounds: u and the smallest subnormal of the format it computes in, and of the format
 * that the result is stored in. */
typedef struct vd_rounding {
  tn_dtype dtype;
  double u, tiny, most;         /* compute format; most: the largest finite number */
  double stored_u, stored_tiny; /* 0 where the dtype is its own compute format */
  bool random;                  /* errors of either sign: they add up as squares do */
} vd_rounding;
/* Errors a and b together. */
static inline double vd_join(const vd_rounding *f, double a, double b) {
  return f->random ? hypot(a, b) : a + b;
}

/* The array of one port. */
typedef struct vd_bounded {
  double *value, *error; /* the engine's numbers and their bounds; owned */
  size_t n, width;       /* elements, elements a point */
  bool batched;
} vd_bounded;

struct vd_running {
  const tn_program *program; /* borrowed */
  size_t n_nodes, n_ports;
  size_t *first; /* first port of each node */
  vd_bounded *port;
  size_t extent[VD_MOVE_AXES]; /* points of each axis; 0: not known */
  size_t n_trainable;          /* numbers in parameters, which decide the slots of sums */
  bool random;
};

vd_rounding vd_rounding_of(const vd_running *r, tn_dtype dtype);

vd_bounded *vd_bounded_of(const vd_running *r, tn_edge edge);
/* The element of a port for element i of a result with `width` elements a point. */
static inline size_t vd_bounded_at(const vd_bounded *p, size_t i, size_t width) {
  return p->n == 1 ? 0 : p->batched ? (p->width == width ? i : i / width) : i % p->width;
}
static inline vd_near vd_near_at(const vd_bounded *p, size_t i, size_t width) {
  size_t k = vd_bounded_at(p, i, width);
  return (vd_near){p->value[k], 0, p->error[k]};
}
/* The bound of a result that was stored: r + t, the last rounding, and infinity for what is lost. */
double vd_near_error(vd_near x, const vd_rounding *f, double stored);

/* ---- Arithmetic (running.c): v in f64, whose own roundings go to both r and t -------------------- */

vd_near vd_near_number(double k, const vd_rounding *f);
vd_near vd_near_scale(double k, vd_near a, const vd_rounding *f); /* k a, k rounded to the format */
vd_near vd_near_add(vd_near a, vd_near b, const vd_rounding *f);
vd_near vd_near_mul(vd_near a, vd_near b, const vd_rounding *f);
vd_near vd_near_fma(vd_near a, vd_near b, vd_near c, const vd_rounding *f); /* a b + c */
vd_near vd_near_div(vd_near a, vd_near b, const vd_rounding *f);
/* y[i] = a unary or power row of x[i]. y may be x. */
tn_status vd_near_row(tn_op_id op, double exponent, size_t n, const vd_near *x, vd_near *y,
                      const vd_rounding *f) TN_MUST_USE;

/* ---- Nodes ------------------------------------------------------------------------------------ */

/* jet_lin, jet_outer and sums: running_sums.c. Ports have their values. */
tn_status vd_bound_lin(vd_running *r, const tn_node *node, vd_bounded *out) TN_MUST_USE;
tn_status vd_bound_outer(vd_running *r, const tn_node *node, vd_bounded *out) TN_MUST_USE;
tn_status vd_bound_sum(vd_running *r, const tn_node *node, vd_bounded *out) TN_MUST_USE;
/* softmax, layer_norm, rstd: running_rows.c. */
tn_status vd_bound_rows(vd_running *r, const tn_node *node, vd_bounded *out) TN_MUST_USE;
/* jet_unary, jet_mul, jet_mulT: running_jet.c. */
tn_status vd_bound_jet(vd_running *r, const tn_node *node, vd_bounded *out) TN_MUST_USE;

/* The ladder d_k = f^(m + k)(z) / k!, k = 0 .. order, as tensor/ computes it: by the derivative column's
 * recurrences. d[k * n + i] for element i. */
typedef struct vd_ladder_spec {
  tn_op_id op;
  double exponent;
  int m, order;
} vd_ladder_spec;
tn_status vd_near_ladder(const vd_ladder_spec *spec, size_t n, const vd_near *z, vd_near *d,
                         const vd_rounding *f) TN_MUST_USE; /* running_ladder.c */

#endif
