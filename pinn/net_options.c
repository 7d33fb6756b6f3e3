/* net_options.c: what the file leaves open of a network, and what does not fit together.
 *
 * Sizes: 4 layers of 32; of 64 for three or more inputs or outputs; 3 layers of 32 for one input; 5 layers for resnet
 * (whole pairs behind the first), 3 blocks for pirate.
 *
 * An expression of `inputs` has no range of its own in the file. It is measured on a grid over the box, and middle and
 * half the width are rounded to 10 bits, so that no last bit of a library's sine is part of the network.
 */
#include "pinn/net_layers.h"
#include "pinn/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Activations -------------------------------------------------------------------------------- */

/* smooth: continuous derivatives; with k of them an order k can be trained, because training differentiates
 * once more and the next one exists almost everywhere and is bounded. op: NULL for what is put together below. */
typedef struct activation {
  const char *name;
  int smooth;
  const char *op;
} activation;

static const activation activations[] = {
    {"tanh", 99, "tanh"},         {"sin", 99, "sin"},         {"gelu", 99, "gelu"},
    {"silu", 99, "silu"},         {"softplus", 99, "softplus"}, {"sigmoid", 99, "sigmoid"},
    {"erf", 99, "erf"},           {"atan", 99, "atan"},       {"gaussian", 99, NULL},
    {"mish", 99, NULL},           {"relu", 0, "relu"},        {"relu3", 2, "relu3"},
    {"swish", 99, "silu"},
};
enum { N_ACTIVATIONS = sizeof activations / sizeof activations[0] };

static const activation *find_activation(const char *name) {
  for (size_t i = 0; i < N_ACTIVATIONS; ++i)
    if (strcmp(activations[i].name, name) == 0)
      return &activations[i];
  return NULL;
}

tn_value pn_net_activation(const char *name, tn_value z) {
  const double root_two_pi = 2.50662827463100050242; /* exp(-z^2/2) = sqrt(2 pi) times the normal density */
  const activation *a = find_activation(name);
  if (a && a->op)
    return tn_unary(tn_op_find(a->op)->id, z, 0);
  if (strcmp(name, "mish") == 0)
    return tn_mul(z, tn_tanh(tn_softplus(z)));
  return tn_mul(tn_normal_pdf(z), tn_const(z.graph, tn_dtype_of(z), root_two_pi));
}

static tn_status no_activation(const pn_network *o) {
  char list[256] = "";
  const char *names[N_ACTIVATIONS];
  for (size_t i = 0; i < N_ACTIVATIONS; ++i) {
    size_t n = strlen(list);
    names[i] = activations[i].name;
    if (i + 1 < N_ACTIVATIONS) /* swish is another name of silu */
      snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i]);
  }
  return pn_fail_at(TN_EINPUT, o->place, 1, "there is no activation `%s`; there are %s",
                    o->activation, list);
}

static tn_status check_activation(const pn_model *m, const pn_net *net, const int *order,
                                  const pn_term *const *term) {
  static const char *const words[] = {"no", "one derivative", "two derivatives",
                                      "three derivatives"};
  const pn_network *o = &net->options;
  const activation *a = find_activation(o->activation);
  if (!a)
    return no_activation(o);
  for (size_t k = 0; k < net->n_out; ++k) {
    size_t u = net->unknown[k];
    if (order[u] <= a->smooth || !term[u])
      continue;
    int needed = order[u] < 2 ? 2 : order[u];
    char count[32];
    snprintf(count, sizeof count, "%d derivatives", needed);
    return pn_fail_at(
        TN_EINPUT, o->place, 1,
        "activation `%s` is too rough: `%s` has `%s` at order %d, which needs %s of the "
        "activation%s, and `%s` has %d continuous. Write activation = \"tanh\" (or sin, "
        "gelu, silu%s)",
        o->activation, term[u]->name, m->problem->unknowns[u].name, order[u],
        needed < 4 ? words[needed] : count, order[u] < 2 ? " to be trained" : "", o->activation,
        a->smooth, order[u] <= 2 ? ", relu3" : "");
  }
  return TN_OK;
}

tn_status pn_net_check_activations(const pn_model *m) {
  int *order = NULL;
  const pn_term **term = NULL;
  tn_status status = TN_NEW(m->problem->n_unknowns, &order);
  if (status == TN_OK)
    status = TN_NEW(m->problem->n_unknowns, &term);
  if (status == TN_OK)
    status = pn_problem_orders(m->problem, order, term);
  for (size_t i = 0; i < m->n_nets && status == TN_OK; ++i)
    status = check_activation(m, &m->nets[i], order, term);
  tn_free(&order);
  tn_free(&term);
  return status;
}

/* ---- Inputs ------------------------------------------------------------------------------------- */

static double base_lo(const pn_coordinate *c) { return c->has_net_range ? c->net_lo : c->lo; }
static double base_hi(const pn_coordinate *c) { return c->has_net_range ? c->net_hi : c->hi; }

static void map_coordinates(const pn_problem *p, pn_net *net) {
  const pn_network *o = &net->options;
  for (size_t j = 0; j < net->n_in; ++j) {
    const pn_coordinate *c = &p->coordinates[net->of[j]];
    pn_input_map *map = &net->input[j];
    double period = o->period[net->of[j]];
    *map = (pn_input_map){.lo = base_lo(c), .hi = base_hi(c), .periodic = c->periodic,
                          .log = c->log_spacing, .spread = 1};
    if (period > 0) {
      map->periodic = true;
      map->log = false;
      map->hi = map->lo + period;
      map->learnt = o->learn_period;
    }
    map->plain = !o->normalise && !map->periodic;
  }
}

static double round_bits(double x) {
  int power = 0;
  double mantissa = frexp(x, &power);
  return ldexp(rint(mantissa * 1024) / 1024, power);
}

/* Smallest and largest value on a grid of some 4096 points. */
static tn_status measure(const pn_problem *p, const pn_net *net, const pn_expr *e, double *lo,
                         double *hi) {
  double point[PN_MAX_COORDINATES] = {0};
  size_t at[PN_MAX_COORDINATES] = {0}, side = (size_t)pow(4096, 1.0 / (double)net->n_in);
  side = side < 2 ? 2 : side;
  *lo = INFINITY;
  *hi = -INFINITY;
  for (size_t j = 0; j < net->n_in;) {
    double value = 0;
    for (size_t k = 0; k < net->n_in; ++k) {
      const pn_coordinate *c = &p->coordinates[net->of[k]];
      double share = (double)at[k] / (double)(side - 1);
      point[net->of[k]] = base_lo(c) + (base_hi(c) - base_lo(c)) * share;
    }
    TN_TRY(pn_evaluate(p, e, point, &value));
    *lo = fmin(*lo, value);
    *hi = fmax(*hi, value);
    for (j = 0; j < net->n_in && ++at[j] == side; ++j)
      at[j] = 0;
  }
  return TN_OK;
}

static tn_status map_expression(const pn_problem *p, pn_net *net, size_t i) {
  const pn_network *o = &net->options;
  const pn_expr *e = o->inputs[i];
  double lo = 0, hi = 0;
  uint32_t bits = pn_expr_depends(p, e);
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if ((bits >> c & 1) && !pn_unknown_has(&p->unknowns[net->unknown[0]], c))
      return pn_expr_fail(TN_EINPUT, e,
                          "this input depends on `%s`, but `%s` does not: give `%s` a network with "
                          "inputs of its own",
                          p->coordinates[c].name, p->unknowns[net->unknown[0]].name,
                          p->unknowns[net->unknown[0]].name);
  net->expression[i] = (pn_input_map){.plain = true, .spread = 1};
  if (!o->normalise)
    return TN_OK;
  tn_status status = measure(p, net, e, &lo, &hi);
  if (status == TN_EINPUT || (status == TN_OK && !isfinite(hi - lo)))
    return pn_expr_fail(TN_EINPUT, e,
                        "this input has no finite range over the box; write normalise = false to "
                        "take it as it is");
  TN_TRY(status);
  if (hi - lo <= 1e-12 * fmax(fabs(lo), fabs(hi)))
    return pn_expr_fail(TN_EINPUT, e, "this input is between %g and %g over the box: it tells nothing",
                        lo, hi);
  double half = round_bits(0.5 * (hi - lo)), middle = lo + 0.5 * (hi - lo);
  middle = fabs(middle) < 1e-3 * half ? 0 : round_bits(middle);
  net->expression[i] = (pn_input_map){.lo = middle - half, .hi = middle + half, .spread = 1};
  return TN_OK;
}

/* ---- What the file leaves open ------------------------------------------------------------------ */

static double default_gain(const pn_problem *p, const pn_net *net) {
  bool space = false, time = false;
  for (size_t j = 0; j < net->n_in; ++j) {
    space |= p->coordinates[net->of[j]].role == PN_SPACE;
    time |= p->coordinates[net->of[j]].role == PN_TIME;
  }
  if (strcmp(net->options.init, "siren") == 0)
    return 1;
  if (strcmp(net->options.activation, "sin") == 0)
    return 2;
  return strcmp(net->options.activation, "tanh") == 0 && space && time ? 2 : 1;
}

/* How many networks the file leads to, as model.c shares them out. */
static size_t count_nets(const pn_problem *p) {
  size_t n = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_unknown *a = &p->unknowns[u];
    bool shares = false;
    for (size_t v = 0; v < u && !shares; ++v) {
      const pn_unknown *b = &p->unknowns[v];
      shares = p->network.shared && !a->network && !b->network && a->n_arguments == b->n_arguments &&
               memcmp(a->argument, b->argument, a->n_arguments * sizeof *a->argument) == 0;
    }
    n += !shares;
  }
  return n;
}

/* Where lm will make the start: its steps cost the square of the number of weights. */
static void decide_small(const pn_problem *p, pn_network *o) {
  static const size_t width[] = {24, 20, 16};
  const size_t n = count_nets(p);
  if (strcmp(o->kind, "mlp") != 0 || o->width || o->depth || o->fourier > 20)
    return;
  o->width = n > 3 ? 14 : width[n - 1];
  o->depth = 2;
}

static void decide_sizes(const pn_problem *p, pn_net *net) {
  pn_network *o = &net->options;
  if (pn_plan_wants_lm(p))
    decide_small(p, o);
  bool large = net->n_in >= 3 || net->n_out >= 3;
  if (o->width == 0)
    o->width = large ? 64 : 32;
  if (o->depth == 0)
    o->depth = !large && net->n_in == 1 ? 3 : 4;
}

static void decide_waves(pn_net *net) {
  static const double one = 1, soft = 0.15915494309189533577; /* 1/(2 pi): waves of wave number 1 */
  pn_network *o = &net->options;
  bool pirate = strcmp(o->kind, "pirate") == 0;
  if (pirate && o->fourier == 0)
    o->fourier = (o->width + 1) / 2;
  if (o->n_scales > 0 || o->fourier == 0)
    return;
  o->n_scales = 1;
  o->scales = pirate ? &soft : &one;
}

static tn_status check(const pn_problem *p, const pn_net *net) {
  const pn_network *o = &net->options;
  bool time = false;
  for (size_t j = 0; j < net->n_in; ++j)
    time |= p->coordinates[net->of[j]].role == PN_TIME;
  if (strcmp(o->init, "siren") == 0 && strcmp(o->activation, "sin") != 0)
    return pn_fail_at(TN_EINPUT, o->place, 1,
                      "init = \"siren\" is for activation = \"sin\", and the activation is `%s`",
                      o->activation);
  if (o->n_time_scales > 0 && (!time || o->n_inputs > 0))
    return pn_fail_at(TN_EINPUT, o->place, 1,
                      "fourier_time gives the time waves of its own, but %s",
                      o->n_inputs > 0 ? "`inputs` takes the place of the coordinates"
                                      : "this network does not depend on the time");
  if (o->n_time_scales > 0 && net->n_in == 1)
    return pn_fail_at(TN_EINPUT, o->place, 1,
                      "fourier_time: the time is the only coordinate; write fourier_scale");
  return TN_OK;
}

tn_status pn_net_decide(const pn_problem *p, pn_net *net) {
  pn_network *o = &net->options;
  if (o->depth == 0 && strcmp(o->kind, "resnet") == 0)
    o->depth = 5;
  if (o->depth == 0 && strcmp(o->kind, "pirate") == 0)
    o->depth = 3;
  decide_sizes(p, net);
  decide_waves(net);
  TN_TRY(check(p, net));
  if (!isfinite(o->gain))
    o->gain = default_gain(p, net);
  if (!isfinite(o->omega))
    o->omega = strcmp(o->init, "siren") == 0 ? 30 : 1;
  map_coordinates(p, net);
  for (size_t i = 0; i < o->n_inputs; ++i)
    TN_TRY(map_expression(p, net, i));
  return TN_OK;
}
