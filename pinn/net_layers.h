/* net_layers.h: what kinds of networks are put together from: features of the arguments, affine layers,
 * activations, gates, outputs, and the first weights of all of them. Inside pinn/ only. */
#ifndef PINN_NET_LAYERS_H
#define PINN_NET_LAYERS_H

#include "pinn/model.h"

/* The features of the field's arguments side by side, [axis, *n]: input maps or the expressions of `inputs`, then
 * waves if fourier is asked for. Adds a block for every learnt period. */
tn_status pn_net_features(pn_model *model, pn_net *net, const tn_value *args, size_t *n,
                          tn_value *h) TN_MUST_USE;
/* How many there are, without making them. */
size_t pn_net_feature_count(const pn_net *net);

typedef enum pn_place_in_net { PN_FIRST_LAYER, PN_HIDDEN_LAYER, PN_LAST_LAYER } pn_place_in_net;
/* *h [axis, rows] becomes *h W + b of `columns` entries, with blocks "<name>.weight", "<name>.bias" and, as the options
 * ask, "<name>.scale" and "<name>.slope". But for the last layer omega and slopes multiply W and b. */
tn_status pn_net_affine(pn_model *model, const pn_net *net, const char *name, pn_place_in_net place,
                        size_t rows, size_t columns, tn_value *h) TN_MUST_USE;
/* The same through the activation; the place is not PN_LAST_LAYER. */
tn_status pn_net_layer(pn_model *model, const pn_net *net, const char *name, pn_place_in_net place,
                       size_t rows, size_t columns, tn_value *h) TN_MUST_USE;
/* The last layer, and its columns as outputs of the shape of args[0]. */
tn_status pn_net_outputs(pn_model *model, const pn_net *net, const char *name, const tn_value *args,
                         size_t rows, tn_value h, tn_value *outputs) TN_MUST_USE;

/* Two encoders of the features, U = f(h A + a) and V = f(h B + b): v = V and d = U - V, so that a gate
 * z U + (1 - z) V is v + z d. */
tn_status pn_net_gates(pn_model *model, const pn_net *net, size_t rows, tn_value h, tn_value *v,
                       tn_value *d) TN_MUST_USE;

/* First weights of all blocks, by what each of them is. */
tn_status pn_net_init(const pn_model *model, const pn_net *net, uint64_t seed, double *theta)
    TN_MUST_USE;

/* net_options.c: sizes and factors that the file leaves open, and what does not fit together. */
tn_status pn_net_decide(const pn_problem *problem, pn_net *net) TN_MUST_USE;
/* Is the activation smooth enough for `order`, and is there one of that name? */
tn_status pn_net_check_activations(const pn_model *model) TN_MUST_USE;
tn_value pn_net_activation(const char *name, tn_value z);

#endif
