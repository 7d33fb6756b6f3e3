/* problem_layers.c: which layer and which channel the rounding errors of the loss come from.
 *
 * In the program of loss and gradient the products y_c = h_c W of a layer are a jet_lin, and its weight
 * gradient is a jet_outer over pairs (ybar_c, h_c): so the adjoint of every number y_c is there already.
 * To first order a rounding of y_c, of at most u |y_c|, moves the loss by |ybar_c| u |y_c|, and
 *
 *   share_c = sum over points and units of |ybar_c| u |y_c| / loss
 *
 * ranks layers and channels by what they can do to it (adjoint-weighted estimate). Beside it stand the
 * measured errors of y_c. The way from a gradient output to its jet_outer leads through casts, sums of
 * several groups of points, and moves.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/problem.h"

typedef struct layers {
  const vd_problem *p;
  const vd_problem_format *format;
  const vd_replay *replay;
  const vd_running *running, *expected;
  double u, loss;
  vd_tested *out;
} layers;

static const tn_node *node_of(const layers *l, uint32_t i) {
  return tn_program_node(l->format->program, i);
}

/* The edge behind casts. */
static tn_edge uncast(const layers *l, tn_edge e) {
  while (node_of(l, e.node)->op->id == TN_OP_cast)
    e = node_of(l, e.node)->inputs[0];
  return e;
}

static bool same(tn_edge a, tn_edge b) { return a.node == b.node && a.port == b.port; }

/* The name of a channel of the algebra, from the first group of names that reaches so far as `highest`. */
static void copy_label(const char *channels, uint32_t channel, uint32_t highest, char *text,
                       size_t capacity) {
  snprintf(text, capacity, "channel %u", channel);
  while (channels && *channels) {
    size_t group = strcspn(channels, ";");
    uint32_t k = 0;
    for (size_t i = 0; i < group; ++i)
      k += channels[i] == ',';
    if (k < highest) {
      channels += group;
      channels += *channels == ';' ? 1 + (channels[1] == ' ') : 0;
      continue;
    }
    for (; channel > 0; --channel)
      channels += strcspn(channels, ",") + 1;
    channels += *channels == ' ';
    size_t n = strcspn(channels, ",;");
    snprintf(text, capacity, "%.*s", (int)(n < capacity ? n : capacity - 1), channels);
    return;
  }
}

/* The jet_outer that gradient node i is made of, for the input h; false if there is none. */
static bool find_pair(const layers *l, uint32_t i, tn_edge h, tn_edge *z, int depth) {
  const tn_node *node = node_of(l, i);
  if (depth > 40)
    return false;
  if (node->op->id == TN_OP_jet_outer) {
    uint32_t pairs = (uint32_t)node->integer[0];
    for (uint32_t p = 0; p < pairs; ++p)
      if (same(uncast(l, node->inputs[pairs + p]), h)) {
        *z = node->inputs[p];
        return true;
      }
    return false;
  }
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (find_pair(l, node->inputs[k].node, h, z, depth + 1))
      return true;
  return false;
}

/* sum |z| u |y|, and the point that gives most of it. */
static void weigh(const layers *l, tn_edge z, tn_edge y, vd_layer_channel *channel) {
  size_t n = vd_running_count(l->running, y.node, y.port);
  size_t n_z = vd_running_count(l->running, z.node, z.port);
  size_t width = tn_shape_width(node_of(l, y.node)->shapes + y.port);
  double sum = 0, most = 0, point = 0;
  for (size_t i = 0; i < n && n_z == n; ++i) {
    if (i % width == 0)
      point = 0;
    point += fabs(vd_running_value(l->running, z.node, z.port, i) *
                  vd_running_value(l->running, y.node, y.port, i)) *
             l->u;
    if (i % width + 1 < width)
      continue;
    sum += point;
    if (point > most)
      most = point, channel->worst = i / width;
  }
  channel->share = l->loss > 0 ? sum / l->loss : sum;
}

static tn_status measure_channel(const layers *l, tn_edge y, vd_layer_channel *channel) {
  size_t n = vd_running_count(l->running, y.node, y.port);
  double *values = NULL;
  TN_TRY(TN_NEW(3 * n, &values));
  for (size_t i = 0; i < n; ++i) {
    values[i] = vd_running_value(l->running, y.node, y.port, i);
    values[n + i] = vd_running_bound(l->running, y.node, y.port, i);
    values[2 * n + i] = vd_running_bound(l->expected, y.node, y.port, i);
  }
  vd_compared x = {.replay = l->replay,
                   .node = y.node,
                   .port = y.port,
                   .n = n,
                   .dtype = node_of(l, y.node)->dtype,
                   .u = l->u,
                   .values = values,
                   .bounds = values + n,
                   .expected = values + 2 * n};
  tn_status status = vd_figures_of(&x, NULL, &channel->error);
  tn_free(&values);
  return status;
}

/* Keeps a channel; one that is there already, from other points, gains entries and share, and the worse
 * figures stay. */
static tn_status keep_channel(vd_tested *out, const vd_layer_channel *channel) {
  for (size_t i = 0; i < out->n_channels; ++i) {
    vd_layer_channel *old = out->channel + i;
    if (strcmp(old->layer, channel->layer) != 0 || strcmp(old->label, channel->label) != 0)
      continue;
    size_t n = old->error.n + channel->error.n, worst = old->worst;
    double share = old->share + channel->share;
    if (channel->share > old->share)
      worst = channel->worst;
    if (channel->error.norm2 > old->error.norm2)
      *old = *channel;
    old->error.n = n;
    old->share = share;
    old->worst = worst;
    return TN_OK;
  }
  TN_TRY(tn_grow(&out->channel, out->n_channels, out->n_channels + 1, sizeof *channel));
  out->channel[out->n_channels++] = *channel;
  return TN_OK;
}

static tn_status add_layer(const layers *l, uint32_t lin, uint32_t gradient, const char *name) {
  const tn_node *node = node_of(l, lin);
  uint64_t mask = node->out_mask ? node->out_mask : 1;
  uint32_t highest = 63;
  while (highest > 0 && !(mask >> highest & 1))
    --highest;
  for (uint32_t c = 0, channel = 0; c < node->n_outputs; ++c, ++channel) {
    vd_layer_channel found = {0};
    tn_edge y = {lin, c}, z;
    while (channel < highest && !(mask >> channel & 1))
      ++channel;
    if (!find_pair(l, gradient, uncast(l, node->inputs[c]), &z, 0))
      continue;
    snprintf(found.layer, sizeof found.layer, "%s", name);
    copy_label(l->p->channels, channel, highest, found.label, sizeof found.label);
    weigh(l, z, y, &found);
    TN_TRY(measure_channel(l, y, &found));
    TN_TRY(keep_channel(l->out, &found));
  }
  return TN_OK;
}

/* A forward product by this weight. */
static bool multiplies(const layers *l, uint32_t i, uint32_t weight) {
  const tn_node *node = node_of(l, i);
  if (node->op->id != TN_OP_jet_lin || node->integer[0] != 0)
    return false;
  return uncast(l, node->inputs[node->n_outputs]).node == weight;
}

tn_status vd_test_layers(const vd_problem *p, const vd_problem_format *format, double u,
                         const vd_replay *replay, const vd_running *running,
                         const vd_running *expected, vd_tested *out) {
  layers l = {p, format, replay, running, expected, u, fabs(out->loss), out};
  for (size_t i = 0; i < p->n_outputs; ++i) {
    uint32_t weight = 0;
    if (format->outputs[i].part != VD_GRADIENT ||
        !tn_program_leaf(format->program, format->outputs[i].leaf, &weight))
      continue;
    const tn_node *leaf = node_of(&l, weight);
    if (leaf->shapes[0].rank != 2)
      continue;
    for (uint32_t k = 0; k < tn_program_nodes(format->program); ++k)
      if (multiplies(&l, k, weight))
        TN_TRY(add_layer(&l, k, tn_program_output(format->program, i).node,
                         leaf->name ? leaf->name : ""));
  }
  return TN_OK;
}
