/* net_mlp.c: the multi-layer perceptron.
 *
 *   h0 = features    h_l = f(h_(l-1) W_l + b_l), l = 1 .. depth    outputs = h_depth W + b
 *
 * Parameters: (features + 1) * width + (depth - 1) * (width + 1) * width + (width + 1) * outputs.
 */
#include "pinn/net_layers.h"

#include <stdio.h>

static tn_status build(pn_model *m, pn_net *net, const tn_value *args, tn_value *outputs) {
  const pn_network *o = &net->options;
  char name[32];
  size_t rows = 0;
  tn_value h = {0};
  TN_TRY(pn_net_features(m, net, args, &rows, &h));
  for (size_t i = 1; i <= o->depth; ++i) {
    snprintf(name, sizeof name, "layer%zu", i);
    TN_TRY(pn_net_layer(m, net, name, i == 1 ? PN_FIRST_LAYER : PN_HIDDEN_LAYER, rows, o->width,
                        &h));
    rows = o->width;
  }
  snprintf(name, sizeof name, "layer%zu", o->depth + 1);
  return pn_net_outputs(m, net, name, args, rows, h, outputs);
}

const pn_net_class pn_net_mlp = {"mlp", "multi-layer perceptron", build, pn_net_init};
