/* structure.h: arithmetic that knows structural numbers, shared by the passes of autograd/.
 *
 * A constant or fill is structural: its value is part of the graph. Zeros and ones of this kind vanish from
 * sums and products here; a number that merely happens to be 0 at run time never does. The functions accept
 * values whose shapes differ by the point axis or by being scalar, and broadcast where that is meant.
 */
#ifndef AUTOGRAD_STRUCTURE_H
#define AUTOGRAD_STRUCTURE_H

#include "autograd/autograd.h"

bool ag_number(tn_value v, double *x); /* a structural number? */
bool ag_is_zero(tn_value v);
static inline bool ag_present(tn_value v) { return v.graph != NULL; }
tn_value ag_zero_like(tn_value v);     /* a fill of zeros of v's shape and dtype */
tn_value ag_constant_like(tn_value v, double x); /* a scalar of v's dtype */
tn_value ag_plus(tn_value a, tn_value b);  /* an absent value counts as zero */
tn_value ag_minus(tn_value a, tn_value b);
tn_value ag_times(tn_value a, tn_value b);
tn_value ag_over(tn_value a, tn_value b);
tn_value ag_negative(tn_value a);
tn_value ag_select(tn_value mask, tn_value a, tn_value b); /* absent branches are zeros */
/* g, made to fit `shape` as a cotangent: summed over the axes that the shape lacks, repeated over those it
 * has more (structural numbers only). */
tn_value ag_fit(tn_value g, tn_shape shape);

/* The derivative column of a row, as graph nodes: of a unary row at x with value y, and the two partial
 * derivatives of a binary row. */
tn_value ag_rule(tn_op_id op, tn_value x, tn_value y, double exponent);
tn_value ag_rule_a(tn_op_id op, tn_value a, tn_value b, tn_value y);
tn_value ag_rule_b(tn_op_id op, tn_value a, tn_value b, tn_value y);

/* The jet that a node's inputs carry: channels of `mask` from in[], coefficients behind `skip` inputs. */
size_t ag_take_jet(const tn_node *node, uint64_t mask, const tn_value *in, tn_jet *out);
/* The failure of a pass whose value i is stale, of another graph or an error value: with the error of the graph that
 * made it one, if there is any. */
tn_status ag_bad_value(tn_graph *graph, const char *pass, size_t i);
/* The values of a node's inputs. */
void ag_inputs(tn_graph *graph, const tn_node *node, tn_value *in);
enum { AG_MAX_INPUTS = 4 * TN_MAX_CHANNELS };

#endif
