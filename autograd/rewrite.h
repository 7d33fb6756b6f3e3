/* rewrite.h: passes that put other nodes in the place of some (cast.c, split.c). */
#ifndef AUTOGRAD_REWRITE_H
#define AUTOGRAD_REWRITE_H

#include "autograd/autograd.h"

/* What replaces node i: ports[] for its outputs. in[] are its inputs as they have become, and the rule's to change. */
typedef tn_status (*ag_replace)(void *context, uint32_t i, const tn_node *node, tn_value *in, tn_value *ports);

/* out[k] = values[k] (out may be values) after every node with inputs that they need went through the rule, inputs
 * before users; leaves stay. `pass` names the pass in errors. */
tn_status ag_rewrite(tn_graph *graph, const char *pass, ag_replace rule, void *context, size_t n,
                     const tn_value *values, tn_value *out) TN_MUST_USE;

/* The end of most rules: the node itself if in[] are its own inputs, else the same operation on in[]. */
tn_status ag_on_inputs(tn_graph *graph, uint32_t i, const tn_node *node, const tn_value *in,
                       tn_value *ports) TN_MUST_USE;

tn_value ag_input_of(tn_graph *graph, const tn_node *node, uint32_t k);

/* Matrix products: jet_lin, jet_outer. Inputs that are multiplied: a jet_lin's bias, the last, is not. */
bool ag_is_product(const tn_node *node);
uint32_t ag_operands(const tn_node *node);
/* A product in f32 whose two widths are both at least `narrowest` (0: that of ag_cast_policy). */
bool ag_is_wide(const tn_graph *graph, const tn_node *node, size_t narrowest);

#endif
