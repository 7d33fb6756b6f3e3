/* net_mlp.c: the multi-layer perceptron.
 *
 *   h0 = inputs    h_l = f(h_(l-1) W_l + b_l), l = 1 .. depth    outputs = h_depth W + b
 *
 * Inputs. A coordinate of [lo, hi], or its logarithm, is mapped affinely to [-spread, spread]; a periodic one to cos and sin of
 * 2 pi (x - lo) / (hi - lo), which makes every output periodic with all derivatives. With fourier = k the
 * inputs z become cos(2 pi z B), sin(2 pi z B), B a fixed matrix of k columns of normal numbers (Tancik et
 * al. 2020). factorised writes every weight as V exp(s), one s an output unit (Wang et al. 2022).
 *
 * First weights. Glorot normal, standard deviation sqrt(2 / (rows + columns)); biases uniform in (-1, 1) in
 * every hidden layer, so that the units bend at different places; the first layer's rows of affine inputs
 * times a gain (2 for sin and, in space-time, for tanh: fronts want steep units), periodic rows times 1.
 * The output bias starts at 0. Streams are keyed by (seed, block name): no order of making matters.
 *
 * Parameters: (rows + 1) * width + (depth - 1) * (width + 1) * width + (width + 1) * outputs.
 */
#include "pinn/model.h"

#include <math.h>
#include <string.h>

enum { MOST_INPUTS = 2 * PN_MAX_COORDINATES };
static const double TWO_PI = 6.28318530717958647693;

/* How much of the scale s of factorised weights varies from unit to unit, and about what. */
static const double FACTOR_MEAN = 0.5, FACTOR_SPREAD = 0.1;

/* ---- The graph ---------------------------------------------------------------------------------- */

/* All features side by side: [axis, features]. */
static tn_value lower_inputs(const pn_model *m, const pn_net *net, const tn_value *args) {
  tn_value feature[MOST_INPUTS];
  size_t n = 0;
  for (size_t j = 0; j < net->n_in; ++j) {
    const pn_input_map *map = &net->input[j];
    double width = map->log ? log(map->hi / map->lo) : map->hi - map->lo;
    double factor = map->periodic ? TWO_PI / width : 2 * map->spread / width;
    double origin = map->periodic ? map->lo : (map->log ? log(map->lo) : map->lo) + 0.5 * width;
    tn_value x = map->log ? tn_log(args[j]) : args[j];
    tn_value z = tn_mul(tn_sub(x, tn_const(m->graph, m->dtype, origin)),
                        tn_const(m->graph, m->dtype, factor));
    if (map->periodic) {
      feature[n++] = tn_cos(z);
      feature[n++] = tn_sin(z);
    } else {
      feature[n++] = z;
    }
  }
  return tn_stack(n, feature);
}

static size_t count_inputs(const pn_net *net) {
  size_t n = 0;
  for (size_t j = 0; j < net->n_in; ++j)
    n += net->input[j].periodic ? 2 : 1;
  return n;
}

/* cos and sin of 2 pi z B; *rows becomes 2 k. */
static tn_status lower_fourier(pn_model *m, const pn_net *net, tn_value *z, size_t *rows) {
  size_t k = net->options.fourier, n = *rows * k;
  char name[96];
  double *matrix = NULL;
  TN_TRY(TN_NEW(n, &matrix));
  snprintf(name, sizeof name, "%s.fourier", net->name);
  tn_stream stream = tn_stream_of(m->problem->seed, name);
  for (size_t i = 0; i < n; ++i)
    matrix[i] = TWO_PI * tn_random_normal(stream, i);
  tn_value b = tn_const_array(m->graph, m->dtype, tn_shape_fixed(2, (size_t[]){*rows, k}), matrix);
  tn_free(&matrix);
  tn_value phase = tn_linear(*z, b, (tn_value){0}, false);
  *z = tn_concat(2, (tn_value[]){tn_cos(phase), tn_sin(phase)}, 1);
  *rows = 2 * k;
  return TN_OK;
}

/* One affine map with its blocks "layer<i>.weight", "layer<i>.bias" (and "layer<i>.scale"). */
static tn_status lower_layer(pn_model *m, const pn_net *net, size_t i, size_t rows, size_t columns,
                             tn_value *h) {
  char part[64];
  tn_value w = {0}, b = {0}, s = {0};
  snprintf(part, sizeof part, "layer%zu.weight", i);
  TN_TRY(pn_model_block(m, net, part, 2, (size_t[]){rows, columns}, &w));
  snprintf(part, sizeof part, "layer%zu.bias", i);
  TN_TRY(pn_model_block(m, net, part, 1, &columns, &b));
  if (net->options.factorised) {
    snprintf(part, sizeof part, "layer%zu.scale", i);
    TN_TRY(pn_model_block(m, net, part, 1, &columns, &s));
    w = tn_mul(w, tn_expand(tn_exp(s), 0, 0, rows));
  }
  *h = tn_linear(*h, w, b, false);
  return TN_OK;
}

static tn_status build(pn_model *m, pn_net *net, const tn_value *args, tn_value *outputs) {
  const pn_network *o = &net->options;
  const char *name = strcmp(o->activation, "swish") == 0 ? "silu" : o->activation;
  const tn_op *f = tn_op_find(name);
  if (!f || f->arity != 1)
    return TN_FAIL(TN_EINTERNAL, "no activation `%s`", o->activation);
  size_t rows = count_inputs(net);
  tn_value h = lower_inputs(m, net, args);
  if (o->fourier)
    TN_TRY(lower_fourier(m, net, &h, &rows));
  for (size_t i = 1; i <= o->depth; ++i) {
    TN_TRY(lower_layer(m, net, i, rows, o->width, &h));
    h = tn_unary(f->id, h, 0);
    rows = o->width;
  }
  TN_TRY(lower_layer(m, net, o->depth + 1, rows, net->n_out, &h));
  tn_shape points = tn_shape_of(args[0]);
  for (size_t k = 0; k < net->n_out; ++k)
    outputs[k] = tn_reshape(net->n_out == 1 ? h : tn_slice(h, 1, k, 1), points);
  return tn_graph_error(m->graph);
}

/* ---- First weights ------------------------------------------------------------------------------ */

/* Is row i of the first layer an affine input? */
static bool is_affine_row(const pn_net *net, size_t row) {
  if (net->options.fourier)
    return false;
  for (size_t j = 0, i = 0; j < net->n_in; ++j) {
    size_t n = net->input[j].periodic ? 2 : 1;
    if (row < i + n)
      return n == 1;
    i += n;
  }
  return false;
}

static void init_weight(const pn_net *net, const pn_block *block, bool first, uint64_t seed,
                        double *theta) {
  size_t rows = block->extent[0], columns = block->extent[1];
  tn_stream stream = tn_stream_of(seed, block->name);
  double deviation = sqrt(2.0 / (double)(rows + columns));
  for (size_t i = 0; i < rows * columns; ++i) {
    double gain = first && is_affine_row(net, i / columns) ? net->options.gain : 1;
    theta[block->offset + i] = gain * deviation * tn_random_normal(stream, i);
  }
}

static void init_bias(const pn_net *net, const pn_block *block, bool first, bool last,
                      uint64_t seed, double *theta) {
  tn_stream stream = tn_stream_of(seed, block->name);
  bool wave = strcmp(net->options.activation, "sin") == 0;
  double half = first && wave && !net->options.fourier ? net->options.gain : 1;
  for (size_t i = 0; i < block->count; ++i)
    theta[block->offset + i] = last ? 0 : half * (2 * tn_random_uniform(stream, i) - 1);
}

/* s, and V = W / exp(s), so that the product is the Glorot weight. `scale` stands behind weight and bias. */
static void init_scale(const pn_block *scale, const pn_block *weight, uint64_t seed,
                       double *theta) {
  tn_stream stream = tn_stream_of(seed, scale->name);
  size_t columns = scale->count;
  for (size_t k = 0; k < columns; ++k)
    theta[scale->offset + k] = FACTOR_MEAN + FACTOR_SPREAD * tn_random_normal(stream, k);
  for (size_t i = 0; i < weight->extent[0]; ++i)
    for (size_t k = 0; k < columns; ++k)
      theta[weight->offset + i * columns + k] /= exp(theta[scale->offset + k]);
}

static tn_status init(const pn_model *m, const pn_net *net, uint64_t seed, double *theta) {
  size_t a_layer = net->options.factorised ? 3 : 2, layers = net->options.depth + 1;
  if (net->n_blocks != a_layer * layers)
    return TN_FAIL(TN_EINTERNAL, "%s: %zu blocks for %zu layers", net->name, net->n_blocks, layers);
  for (size_t i = 0; i < layers; ++i) {
    const pn_block *block = &m->blocks[net->first_block + a_layer * i];
    init_weight(net, &block[0], i == 0, seed, theta);
    init_bias(net, &block[1], i == 0, i + 1 == layers, seed, theta);
    if (net->options.factorised)
      init_scale(&block[2], &block[0], seed, theta);
  }
  return TN_OK;
}

const pn_net_class pn_net_mlp = {"mlp", "multi-layer perceptron", build, init};
