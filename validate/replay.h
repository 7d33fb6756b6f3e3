/* replay.h: the inside of a replay, shared by replay.c and replay_jet.c. */
#ifndef VALIDATE_REPLAY_H
#define VALIDATE_REPLAY_H

#include "validate/mp.h"

/* The array of one port, row-major [N, width] or [width]. */
typedef struct vd_port {
  vd_array value;
  double *scale; /* S of each element; owned */
  size_t width;  /* elements a point, or in all */
  bool batched;
  bool exact; /* no rounding on the way here: leaves, and moves of them */
} vd_port;

typedef struct vd_leaf {
  tn_buffer *buffer; /* retained */
  bool set;
  double number;           /* scalars, if set */
  const double *direction; /* borrowed; NULL: none */
  double step;
  const struct vd_port *given; /* its values in place of a buffer, borrowed; NULL: none */
  size_t points;               /* of `given` */
} vd_leaf;

enum { VD_SCRATCH = 6, VD_AXES = 65 };
struct vd_replay {
  const tn_program *program; /* borrowed */
  mpfr_prec_t bits;
  size_t n_nodes, n_ports;
  size_t *first; /* first port of each node */
  vd_port *port;
  vd_leaf *leaf;          /* one a node */
  size_t extent[VD_AXES]; /* N of each point axis; 0: not known */
  vd_array scratch;
  bool ran;
};

vd_port *vd_port_of(const vd_replay *r, tn_edge edge);
/* Element of a port for element i of a result with `width` elements a point: repeats scalars and
 * values without points. */
size_t vd_element(const vd_port *p, size_t i, size_t width);
/* |df/dv| S for one argument, by a difference: 2^40 |f(v + 2^-40 S) - f(v)|. b may be NULL (unary
 * rows). */
double vd_spread(vd_replay *r, tn_op_id op, double exponent, mpfr_srcptr a, mpfr_srcptr b, int by,
                 mpfr_srcptr y, double scale);

/* replay_jet.c: nodes of the five jet operations. Ports exist and are zero. */
tn_status vd_run_jet(vd_replay *r, const tn_node *node, vd_port *out) TN_MUST_USE;
/* replay_rowwise.c: softmax, layer_norm, rstd, and operations of users. Likewise. */
tn_status vd_run_rowwise(vd_replay *r, const tn_node *node, vd_port *out) TN_MUST_USE;

#endif
