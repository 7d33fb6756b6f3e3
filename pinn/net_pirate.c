/* net_pirate.c: adaptive residual blocks that start as the identity (PirateNet; Wang, Li, Chen, Perdikaris 2024).
 *
 *   x_1 = cos, sin of 2 pi h0 B          Fourier features: R = 2 * fourier of them
 *   U = f(x_1 A + a)    V = f(x_1 B + b)
 *   block l = 1 .. depth:
 *     z = f(x_l W_1 + b_1)    z <- z U + (1 - z) V
 *     z = f(z W_2 + b_2)      z <- z U + (1 - z) V
 *     z = f(z W_3 + b_3)      of R entries
 *     x_(l+1) = x_l + alpha_l (z - x_l)       alpha_l: a trained number, 0 at first
 *   outputs = x_(depth+1) W + b
 *
 * At first all blocks are the identity, the network is linear in fixed waves, and its derivatives are as tame as
 * theirs; depth comes in as training makes alpha grow. `depth` counts blocks. Waves are obligatory: without `fourier`
 * there are width / 2.
 *
 * Parameters: 2 (R + 1) width + depth ((R + 1) width + (width + 1) width + (width + 1) R + 1) + (R + 1) outputs.
 */
#include "pinn/net_layers.h"

#include <stdio.h>

static tn_status mix(pn_model *m, const pn_net *net, size_t block, tn_value h, tn_value *x) {
  char name[48];
  size_t one = 1;
  tn_value alpha = {0};
  snprintf(name, sizeof name, "block%zu.mix", block);
  TN_TRY(pn_model_block(m, net, name, 1, &one, &alpha));
  m->blocks[m->n_blocks - 1].kind = PN_BLOCK_MIX;
  alpha = tn_reshape(alpha, tn_shape_fixed(0, NULL));
  *x = tn_add(*x, tn_mul(alpha, tn_sub(h, *x)));
  return tn_graph_error(m->graph);
}

static tn_status build(pn_model *m, pn_net *net, const tn_value *args, tn_value *outputs) {
  const size_t width = net->options.width;
  char name[48];
  size_t n = 0;
  tn_value x = {0}, v = {0}, d = {0};
  TN_TRY(pn_net_features(m, net, args, &n, &x));
  TN_TRY(pn_net_gates(m, net, n, x, &v, &d));
  for (size_t block = 1; block <= net->options.depth; ++block) {
    tn_value h = x;
    for (size_t i = 1; i <= 3; ++i) {
      snprintf(name, sizeof name, "block%zu.layer%zu", block, i);
      TN_TRY(pn_net_layer(m, net, name, PN_HIDDEN_LAYER, i == 1 ? n : width, i == 3 ? n : width,
                          &h));
      if (i < 3)
        h = tn_add(v, tn_mul(h, d));
    }
    TN_TRY(mix(m, net, block, h, &x));
  }
  return pn_net_outputs(m, net, "output", args, n, x, outputs);
}

const pn_net_class pn_net_pirate = {"pirate", "residual blocks that start as the identity", build,
                                    pn_net_init};
