/* net_init.c: first weights.
 *
 *   glorot          normal, deviation sqrt(2 / (rows + columns))
 *   glorot_uniform  uniform in +-sqrt(6 / (rows + columns)), the same deviation
 *   he              normal, deviation sqrt(2 / rows)
 *   siren           uniform in +-1/rows in the first layer, +-sqrt(6/rows)/omega behind it (Sitzmann et al. 2020), biases
 *                   in +-1/sqrt(rows)
 *
 * Biases are else uniform in (-1, 1) in every hidden layer, so that the units bend at different places; rows of affine
 * inputs in the first layer are multiplied by a gain (2 for sin and, in space-time, for tanh: fronts want steep units),
 * rows of waves by 1. The output bias starts at 0, slopes at 1 / adaptive_factor, mixing numbers of blocks at 0. Streams
 * are keyed by (seed, block name): no order of making matters.
 */
#include "pinn/net_layers.h"

#include <math.h>
#include <string.h>

/* Is row i of a first layer an affine input? */
static bool is_affine_row(const pn_net *net, size_t row) {
  if (net->options.fourier)
    return false;
  if (net->options.n_inputs)
    return true;
  for (size_t j = 0, i = 0; j < net->n_in; ++j) {
    size_t n = net->input[j].periodic ? 2 : 1;
    if (row < i + n)
      return n == 1;
    i += n;
  }
  return false;
}

static bool is_siren(const pn_net *net) { return strcmp(net->options.init, "siren") == 0; }

/* Half the width of a uniform law, or 0 for a normal one of deviation *deviation. */
static double law(const pn_net *net, const pn_block *block, double *deviation) {
  double rows = (double)block->extent[0], both = rows + (double)block->extent[1];
  *deviation = 0;
  if (is_siren(net))
    return block->first ? 1 / rows : sqrt(6 / rows) / net->options.omega;
  if (strcmp(net->options.init, "glorot_uniform") == 0)
    return sqrt(6 / both);
  *deviation = sqrt(2.0 / (strcmp(net->options.init, "he") == 0 ? rows : both));
  return 0;
}

static void init_weight(const pn_net *net, const pn_block *block, uint64_t seed, double *theta) {
  size_t rows = block->extent[0], columns = block->extent[1];
  tn_stream stream = tn_stream_of(seed, block->name);
  double deviation = 0, half = law(net, block, &deviation);
  for (size_t i = 0; i < rows * columns; ++i) {
    double gain = block->first && is_affine_row(net, i / columns) ? net->options.gain : 1;
    theta[block->offset + i] = half > 0 ? gain * half * (2 * tn_random_uniform(stream, i) - 1)
                                        : gain * deviation * tn_random_normal(stream, i);
  }
}

static void init_bias(const pn_net *net, const pn_block *block, size_t rows, uint64_t seed,
                      double *theta) {
  tn_stream stream = tn_stream_of(seed, block->name);
  bool wave = strcmp(net->options.activation, "sin") == 0;
  double half = block->first && wave && !net->options.fourier ? net->options.gain : 1;
  if (is_siren(net))
    half = 1 / sqrt((double)rows);
  for (size_t i = 0; i < block->count; ++i)
    theta[block->offset + i] = block->last ? 0 : half * (2 * tn_random_uniform(stream, i) - 1);
}

/* s, and V = W / exp(s), so that the product is the plain weight. `scale` stands behind weight and bias. */
static void init_scale(const pn_net *net, const pn_block *scale, const pn_block *weight,
                       uint64_t seed, double *theta) {
  tn_stream stream = tn_stream_of(seed, scale->name);
  size_t columns = scale->count;
  double mean = net->options.factor_mean, spread = net->options.factor_spread;
  for (size_t k = 0; k < columns; ++k)
    theta[scale->offset + k] = mean + spread * tn_random_normal(stream, k);
  for (size_t i = 0; i < weight->extent[0]; ++i)
    for (size_t k = 0; k < columns; ++k)
      theta[weight->offset + i * columns + k] /= exp(theta[scale->offset + k]);
}

tn_status pn_net_init(const pn_model *m, const pn_net *net, uint64_t seed, double *theta) {
  for (size_t i = 0; i < net->n_blocks; ++i) {
    const pn_block *block = &m->blocks[net->first_block + i];
    switch (block->kind) {
    case PN_BLOCK_WEIGHT:
      init_weight(net, block, seed, theta);
      break;
    case PN_BLOCK_BIAS:
      init_bias(net, block, block[-1].extent[0], seed, theta);
      break;
    case PN_BLOCK_SCALE:
      init_scale(net, block, block - 2, seed, theta);
      break;
    case PN_BLOCK_SLOPE:
    case PN_BLOCK_WAVE:
    case PN_BLOCK_MIX:
      for (size_t k = 0; k < block->count; ++k)
        theta[block->offset + k] = block->start;
      break;
    }
  }
  return TN_OK;
}
