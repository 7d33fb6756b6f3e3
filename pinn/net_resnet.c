/* net_resnet.c: the perceptron with identity skips over every two layers.
 *
 *   h_1 = f(h0 W_1 + b_1)
 *   h_(l+2) = h_l + f(f(h_l W_(l+1) + b_(l+1)) W_(l+2) + b_(l+2))    l = 1, 3, 5, ...
 *   outputs = h_depth W + b
 *
 * The first layer changes the width and has no skip; with an even depth one plain layer is left at the end. A skip
 * starts as a small change of the identity, so deep networks train as shallow ones do at first.
 *
 * Parameters: those of the mlp.
 */
#include "pinn/net_layers.h"

#include <stdio.h>

static tn_status build(pn_model *m, pn_net *net, const tn_value *args, tn_value *outputs) {
  const pn_network *o = &net->options;
  char name[32];
  size_t rows = 0;
  tn_value h = {0}, skipped = {0};
  TN_TRY(pn_net_features(m, net, args, &rows, &h));
  for (size_t i = 1; i <= o->depth; ++i) {
    bool opens = i > 1 && i % 2 == 0, closes = i > 1 && i % 2 == 1;
    if (opens)
      skipped = h;
    snprintf(name, sizeof name, "layer%zu", i);
    TN_TRY(pn_net_layer(m, net, name, i == 1 ? PN_FIRST_LAYER : PN_HIDDEN_LAYER, rows, o->width,
                        &h));
    if (closes)
      h = tn_add(skipped, h);
    rows = o->width;
  }
  snprintf(name, sizeof name, "layer%zu", o->depth + 1);
  return pn_net_outputs(m, net, name, args, rows, h, outputs);
}

const pn_net_class pn_net_resnet = {"resnet", "perceptron with identity skips over two layers",
                                    build, pn_net_init};
