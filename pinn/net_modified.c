/* net_modified.c: the perceptron with two gates (Wang, Teng, Perdikaris 2021, "modified MLP").
 *
 *   U = f(h0 A + a)    V = f(h0 B + b)                      two encoders of the features h0
 *   z_l = f(h_(l-1) W_l + b_l)    h_l = z_l U + (1 - z_l) V    l = 1 .. depth, products by unit
 *   outputs = h_depth W + b
 *
 * Every layer sees the features again through U and V, as factors: products of functions of the inputs, as x*t or
 * sharp fronts times smooth parts, need no depth, and gradients reach the first layers by short ways. One product of
 * jets a layer is what it costs.
 *
 * Parameters: those of the mlp and 2 * (features + 1) * width for the encoders.
 */
#include "pinn/net_layers.h"

#include <stdio.h>

static tn_status build(pn_model *m, pn_net *net, const tn_value *args, tn_value *outputs) {
  const pn_network *o = &net->options;
  char name[32];
  size_t rows = 0;
  tn_value h = {0}, v = {0}, d = {0};
  TN_TRY(pn_net_features(m, net, args, &rows, &h));
  TN_TRY(pn_net_gates(m, net, rows, h, &v, &d));
  for (size_t i = 1; i <= o->depth; ++i) {
    snprintf(name, sizeof name, "layer%zu", i);
    TN_TRY(pn_net_layer(m, net, name, i == 1 ? PN_FIRST_LAYER : PN_HIDDEN_LAYER, rows, o->width,
                        &h));
    h = tn_add(v, tn_mul(h, d));
    rows = o->width;
  }
  snprintf(name, sizeof name, "layer%zu", o->depth + 1);
  return pn_net_outputs(m, net, name, args, rows, h, outputs);
}

const pn_net_class pn_net_modified = {"modified", "perceptron whose layers are mixed by two gates",
                                      build, pn_net_init};
