/* vjp.h: the reverse rule of every operation. */
#ifndef AUTOGRAD_VJP_H
#define AUTOGRAD_VJP_H

#include "autograd/remat.h"

/* A cotangent, and the mask below a `where` outside of which it is zero by structure (absent: none). */
typedef struct ag_cotangent { tn_value value, mask; } ag_cotangent;

/* *sum += g; the sum is zero outside of the masks of both, and nowhere by structure if one has none. */
void ag_cotangent_add(ag_cotangent *sum, ag_cotangent g);

typedef bool (*ag_wanted)(void *context, tn_edge input);
typedef void (*ag_accumulate)(void *context, tn_edge input, ag_cotangent g);

/* Given the cotangents of a node's ports (absent: zero), hands those of its wanted inputs to `accumulate`. Inputs
 * and outputs inside a recomputed region are read as `copies` has them (NULL: as they are). */
tn_status ag_node_vjp(tn_graph *graph, uint32_t node, const ag_cotangent *out, const ag_copies *copies,
                      void *context, ag_wanted wanted, ag_accumulate accumulate) TN_MUST_USE;

#endif
