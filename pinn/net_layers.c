/* net_layers.c: the parts of networks: features, layers, gates, outputs.
 *
 * Features. A coordinate of [lo, hi], or its logarithm, is mapped affinely to [-spread, spread], with normalise = false it is taken as it
 * is; a periodic one becomes cos and sin of 2 pi (x - lo) / period, which makes every output periodic with all
 * derivatives; a learnt period P is the trained number w = 2 pi / P. Expressions of `inputs` take the place of the
 * coordinates, mapped by their own ranges over the box.
 *
 * With fourier = k the features z become cos(2 pi s z B), sin(2 pi s z B), B a fixed matrix of k columns of normal
 * numbers (Tancik et al. 2020), for every s of fourier_scale side by side: each s is a band of wave numbers. With
 * fourier_time the time has waves of its own and is no part of the others.
 *
 * Layers. factorised writes every weight as V exp(s), one s an output unit (Wang et al. 2022). An activation is
 * f(omega n a (h W + b)): omega a given number, a a trained slope of the layer or of each unit, n = adaptive_factor
 * (Jagtap et al. 2020). These factors go into W and b, which are small, not into the activations of all points.
 */
#include "pinn/net_layers.h"
#include "pinn/lower.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FEATURES = 2 * PN_MAX_COORDINATES };
static const double TWO_PI = 6.28318530717958647693;

/* ---- Features ----------------------------------------------------------------------------------- */

typedef struct features {
  size_t n;
  tn_value value[MOST_FEATURES];
  bool time[MOST_FEATURES]; /* of the time coordinate */
} features;

static size_t count_plain(const pn_net *net) {
  size_t n = net->options.n_inputs;
  for (size_t j = 0; net->options.n_inputs == 0 && j < net->n_in; ++j)
    n += net->input[j].periodic ? 2 : 1;
  return n;
}

size_t pn_net_feature_count(const pn_net *net) {
  const pn_network *o = &net->options;
  return o->fourier ? 2 * o->fourier * (o->n_scales + o->n_time_scales) : count_plain(net);
}

static void add_feature(features *f, tn_value value, bool time) {
  f->value[f->n] = value;
  f->time[f->n++] = time;
}

/* (x - origin) * factor, or x as it is. */
static tn_value affine(const pn_model *m, const pn_input_map *map, tn_value x) {
  if (map->plain)
    return x;
  double width = map->log ? log(map->hi / map->lo) : map->hi - map->lo;
  double factor = map->periodic ? TWO_PI / width : 2 * map->spread / width;
  double origin = map->periodic ? map->lo : (map->log ? log(map->lo) : map->lo) + 0.5 * width;
  x = map->log ? tn_log(x) : x;
  return tn_mul(tn_sub(x, tn_const(m->graph, m->dtype, origin)),
                tn_const(m->graph, m->dtype, factor));
}

/* w (x - lo) with a trained w that starts at 2 pi / period. */
static tn_status learnt_phase(pn_model *m, const pn_net *net, size_t j, tn_value x, tn_value *z) {
  char part[96];
  size_t one = 1;
  tn_value w = {0};
  snprintf(part, sizeof part, "wave.%s", m->problem->coordinates[net->of[j]].name);
  TN_TRY(pn_model_block(m, net, part, 1, &one, &w));
  pn_block *block = &m->blocks[m->n_blocks - 1];
  block->kind = PN_BLOCK_WAVE;
  block->start = TWO_PI / (net->input[j].hi - net->input[j].lo);
  *z = tn_mul(tn_sub(x, tn_const(m->graph, m->dtype, net->input[j].lo)),
              tn_reshape(w, tn_shape_fixed(0, NULL)));
  return tn_graph_error(m->graph);
}

static tn_status lower_coordinates(pn_model *m, const pn_net *net, const tn_value *args,
                                   features *f) {
  for (size_t j = 0; j < net->n_in; ++j) {
    const pn_input_map *map = &net->input[j];
    bool time = m->problem->coordinates[net->of[j]].role == PN_TIME;
    tn_value z = {0};
    if (map->periodic && map->learnt)
      TN_TRY(learnt_phase(m, net, j, args[j], &z));
    else
      z = affine(m, map, args[j]);
    if (map->periodic) {
      add_feature(f, tn_cos(z), time);
      add_feature(f, tn_sin(z), time);
    } else {
      add_feature(f, z, time);
    }
  }
  return TN_OK;
}

/* The expressions of `inputs`, lowered where the coordinates are the field's arguments. */
static tn_status lower_expressions(pn_model *m, const pn_net *net, const tn_value *args,
                                   features *f) {
  const pn_network *o = &net->options;
  pn_scope scope = {.model = m, .axis = tn_shape_of(args[0]).axis[0]};
  for (size_t j = 0; j < net->n_in; ++j) {
    scope.coordinate[net->of[j]] = args[j];
    scope.free_[net->of[j]] = true;
  }
  for (size_t i = 0; i < o->n_inputs; ++i) {
    tn_value z = {0};
    TN_TRY(pn_lower(&scope, o->inputs[i], &z));
    if (tn_shape_of(z).rank == 0)
      return pn_expr_fail(TN_EINPUT, o->inputs[i], "this input is a constant: it tells nothing");
    add_feature(f, affine(m, &net->expression[i], z), false);
  }
  return TN_OK;
}

/* Columns of B for one scale: rows of the other kind (time or not) are 0. */
static void wave_columns(const pn_model *m, const pn_net *net, const features *f, bool time,
                         size_t number, double scale, size_t first, size_t total, double *matrix) {
  size_t k = net->options.fourier;
  bool split = net->options.n_time_scales > 0;
  char name[112];
  const char *word = time ? "fourier.time" : "fourier";
  if (number == 0)
    snprintf(name, sizeof name, "%s.%s", net->name, word);
  else
    snprintf(name, sizeof name, "%s.%s%zu", net->name, word, number + 1);
  tn_stream stream = tn_stream_of(m->problem->wave_seed, name);
  for (size_t r = 0; r < f->n; ++r)
    for (size_t c = 0; c < k && (!split || f->time[r] == time); ++c)
      matrix[r * total + first + c] = TWO_PI * scale * tn_random_normal(stream, r * k + c);
}

/* cos and sin of 2 pi s z B. */
static tn_status lower_fourier(pn_model *m, const pn_net *net, const features *f, tn_value *z) {
  const pn_network *o = &net->options;
  size_t k = o->fourier, total = k * (o->n_scales + o->n_time_scales);
  double *matrix = NULL;
  TN_TRY(TN_NEW(f->n * total, &matrix));
  for (size_t i = 0; i < o->n_scales; ++i)
    wave_columns(m, net, f, false, i, o->scales[i], i * k, total, matrix);
  for (size_t i = 0; i < o->n_time_scales; ++i)
    wave_columns(m, net, f, true, i, o->time_scales[i], (o->n_scales + i) * k, total, matrix);
  tn_value b =
      tn_const_array(m->graph, m->dtype, tn_shape_fixed(2, (size_t[]){f->n, total}), matrix);
  tn_free(&matrix);
  tn_value phase = tn_linear(*z, b, (tn_value){0}, false);
  *z = tn_concat(2, (tn_value[]){tn_cos(phase), tn_sin(phase)}, 1);
  return tn_graph_error(m->graph);
}

tn_status pn_net_features(pn_model *m, pn_net *net, const tn_value *args, size_t *n, tn_value *h) {
  features f = {0};
  if (net->options.n_inputs)
    TN_TRY(lower_expressions(m, net, args, &f));
  else
    TN_TRY(lower_coordinates(m, net, args, &f));
  *h = tn_stack(f.n, f.value);
  if (net->options.fourier)
    TN_TRY(lower_fourier(m, net, &f, h));
  *n = pn_net_feature_count(net);
  return TN_OK;
}

/* ---- Layers ------------------------------------------------------------------------------------- */

static tn_status add_block(pn_model *m, const pn_net *net, const char *name, const char *what,
                           pn_block_kind kind, pn_place_in_net place, size_t rank,
                           const size_t *extent, tn_value *leaf) {
  char part[96];
  snprintf(part, sizeof part, "%s.%s", name, what);
  TN_TRY(pn_model_block(m, net, part, rank, extent, leaf));
  pn_block *block = &m->blocks[m->n_blocks - 1];
  block->kind = kind;
  block->first = place == PN_FIRST_LAYER;
  block->last = place == PN_LAST_LAYER;
  return TN_OK;
}

/* n a, shaped for the weights (and, rank 1 or 0, for the biases). */
static tn_status slope(pn_model *m, const pn_net *net, const char *name, size_t columns,
                       tn_value *out) {
  const pn_network *o = &net->options;
  bool units = strcmp(o->adaptive, "unit") == 0;
  size_t count = units ? columns : 1;
  TN_TRY(add_block(m, net, name, "slope", PN_BLOCK_SLOPE, PN_HIDDEN_LAYER, 1, &count, out));
  m->blocks[m->n_blocks - 1].start = 1 / o->adaptive_factor;
  if (!units)
    *out = tn_reshape(*out, tn_shape_fixed(0, NULL));
  if (o->adaptive_factor != 1)
    *out = tn_mul(*out, tn_const(m->graph, m->dtype, o->adaptive_factor));
  return tn_graph_error(m->graph);
}

tn_status pn_net_affine(pn_model *m, const pn_net *net, const char *name, pn_place_in_net place,
                        size_t rows, size_t columns, tn_value *h) {
  const pn_network *o = &net->options;
  tn_value w = {0}, b = {0}, s = {0}, a = {0};
  TN_TRY(add_block(m, net, name, "weight", PN_BLOCK_WEIGHT, place, 2, (size_t[]){rows, columns},
                   &w));
  TN_TRY(add_block(m, net, name, "bias", PN_BLOCK_BIAS, place, 1, &columns, &b));
  if (o->factorised) {
    TN_TRY(add_block(m, net, name, "scale", PN_BLOCK_SCALE, place, 1, &columns, &s));
    w = tn_mul(w, tn_expand(tn_exp(s), 0, 0, rows));
  }
  if (place != PN_LAST_LAYER && o->omega != 1) {
    w = tn_mul(w, tn_const(m->graph, m->dtype, o->omega));
    b = tn_mul(b, tn_const(m->graph, m->dtype, o->omega));
  }
  if (place != PN_LAST_LAYER && strcmp(o->adaptive, "none") != 0) {
    TN_TRY(slope(m, net, name, columns, &a));
    w = tn_mul(w, tn_shape_of(a).rank ? tn_expand(a, 0, 0, rows) : a);
    b = tn_mul(b, a);
  }
  *h = tn_linear(*h, w, b, false);
  return TN_OK;
}

tn_status pn_net_layer(pn_model *m, const pn_net *net, const char *name, pn_place_in_net place,
                       size_t rows, size_t columns, tn_value *h) {
  TN_TRY(pn_net_affine(m, net, name, place, rows, columns, h));
  *h = pn_net_activation(net->options.activation, *h);
  return tn_graph_error(m->graph);
}

tn_status pn_net_outputs(pn_model *m, const pn_net *net, const char *name, const tn_value *args,
                         size_t rows, tn_value h, tn_value *outputs) {
  TN_TRY(pn_net_affine(m, net, name, PN_LAST_LAYER, rows, net->n_out, &h));
  tn_shape points = tn_shape_of(args[0]);
  for (size_t k = 0; k < net->n_out; ++k)
    outputs[k] = tn_reshape(net->n_out == 1 ? h : tn_slice(h, 1, k, 1), points);
  return tn_graph_error(m->graph);
}

tn_status pn_net_gates(pn_model *m, const pn_net *net, size_t rows, tn_value h, tn_value *v,
                       tn_value *d) {
  tn_value u = h;
  *v = h;
  TN_TRY(pn_net_layer(m, net, "gate1", PN_FIRST_LAYER, rows, net->options.width, &u));
  TN_TRY(pn_net_layer(m, net, "gate2", PN_FIRST_LAYER, rows, net->options.width, v));
  *d = tn_sub(u, *v);
  return TN_OK;
}
