/* support_random_jets.c: algebras, bundles, jet operations and networks of the graph generator.
 *
 * An algebra is a set of monomials that holds every divisor of each: derivatives along one variable, tangents, or a
 * random set in up to three variables; channels are scaled by 1, by 1/a! or by whole numbers, so that factors are whole
 * or fractions. One more channel may fold second derivatives with run-time coefficients, as an elliptic operator does.
 */
#include "tests/support_random_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS = 12, VARIABLES = 11, TERMS = 400 };

typedef struct algebra {
  size_t channels, variables, n_terms;
  uint32_t order, n_coefficients;
  uint8_t power[CHANNELS][VARIABLES]; /* of channel a; folded channels have none */
  tn_jet_term term[TERMS];
  const tn_jet_table *table; /* NULL: the value alone */
} algebra;

static void good(const random_maker *m, tn_status status) {
  if (status != TN_OK)
    fail_msg("seed %llu: %s: %s", (unsigned long long)m->g->seed, tn_error_place(),
             tn_error_text());
}

/* ---- Algebras ---- */

static int find_power(const algebra *al, const uint8_t *power) {
  for (size_t a = 0; a < al->channels; ++a)
    if (memcmp(al->power[a], power, VARIABLES) == 0)
      return (int)a;
  return -1;
}

/* Multiplies a random monomial by a random variable, if all divisors are there and the product is not. */
static bool extend(random_maker *m, algebra *al) {
  uint8_t power[VARIABLES];
  uint32_t degree = 0;
  memcpy(power, al->power[random_below(m, al->channels)], VARIABLES);
  ++power[random_below(m, al->variables)];
  if (find_power(al, power) >= 0)
    return false;
  for (size_t j = 0; j < al->variables; ++j) {
    degree += power[j];
    if (!power[j])
      continue;
    --power[j];
    bool there = find_power(al, power) >= 0;
    ++power[j];
    if (!there)
      return false;
  }
  memcpy(al->power[al->channels++], power, VARIABLES);
  al->order = degree > al->order ? degree : al->order;
  return true;
}

static int64_t choose(unsigned n, unsigned k) {
  int64_t c = 1;
  for (unsigned i = 1; i <= k; ++i)
    c = c * (n - k + i) / i;
  return c;
}

static void add_term(algebra *al, size_t a, size_t b, size_t c, int coefficient, int64_t numerator,
                     int64_t denominator) {
  al->term[al->n_terms++] = (tn_jet_term){(int16_t)a,           (int16_t)b, (int16_t)c,
                                          (int16_t)coefficient, numerator,  denominator};
}

/* Products of monomials. scaling 0: derivatives, 1: Taylor coefficients, 2: channel a divided by 1 + a mod 3. */
static void add_products(algebra *al, size_t scaling) {
  for (size_t a = 0; a < al->channels; ++a)
    for (size_t b = 0; b < al->channels; ++b) {
      uint8_t rest[VARIABLES];
      int64_t factor = 1, divisor = 1;
      bool divides = true;
      for (size_t j = 0; j < VARIABLES && divides; ++j) {
        divides = al->power[b][j] <= al->power[a][j];
        rest[j] = (uint8_t)(al->power[a][j] - al->power[b][j]);
        if (divides && scaling != 1)
          factor *= choose(al->power[a][j], al->power[b][j]);
      }
      if (!divides)
        continue;
      size_t c = (size_t)find_power(al, rest);
      if (scaling == 2) {
        factor *= (int64_t)((1 + b % 3) * (1 + c % 3));
        divisor = (int64_t)(1 + a % 3);
      }
      add_term(al, a, b, c, -1, factor, divisor);
    }
}

/* One channel of second derivatives along the first variables with coefficients. */
static void add_folded(random_maker *m, algebra *al) {
  size_t a = al->channels++, first[2] = {0, 0};
  size_t n = 0;
  for (size_t j = 1; j < a && n < 2; ++j) {
    unsigned degree = 0;
    for (size_t k = 0; k < al->variables; ++k)
      degree += al->power[j][k];
    if (degree == 1)
      first[n++] = j;
  }
  memset(al->power[a], 0xff, VARIABLES);
  al->n_coefficients = (uint32_t)(n > 1 ? 1 + random_below(m, 2) : 1);
  int last = (int)al->n_coefficients - 1;
  al->order = al->order > 2 ? al->order : 2;
  add_term(al, a, 0, a, -1, 1, 1);
  add_term(al, a, first[0], first[0], 0, -2, 1);
  if (n > 1) {
    add_term(al, a, first[0], first[1], last, 3, 2);
    add_term(al, a, first[1], first[0], last, 3, 2);
    add_term(al, a, first[1], first[1], -1, 2, 1);
  }
  add_term(al, a, a, 0, -1, 1, 1);
}

/* Derivatives by `variables` arguments (0: any algebra), unscaled and without coefficients if given. */
static void make_algebra(random_maker *m, size_t variables, algebra *al) {
  memset(al, 0, sizeof *al);
  al->channels = 1;
  al->variables = variables;
  size_t kind = variables ? 3 : random_below(m, 10), wanted = 2 + random_below(m, 5);
  if (kind == 0)
    return;
  if (kind < 3) {
    al->variables = 1;
    wanted = 2 + random_below(m, random_chance(m, 20) ? CHANNELS - 1 : 5);
  } else if (kind == 9) {
    al->variables = wanted - 1;
    for (; al->channels < wanted; ++al->channels)
      al->power[al->channels][al->channels - 1] = 1;
    al->order = 1;
  } else if (!variables) {
    al->variables = 2 + random_below(m, 2);
    wanted = 3 + random_below(m, random_chance(m, 30) ? CHANNELS - 3 : 4);
  }
  for (size_t tries = 0; al->channels < wanted && tries < 100; ++tries)
    extend(m, al);
  add_products(al, variables ? 0 : random_below(m, 3));
  if (!variables && al->channels > 1 && al->channels < CHANNELS && random_chance(m, 55))
    add_folded(m, al);
  al->table = tn_jet_table_new(m->g->graph, (uint32_t)al->channels, al->order, al->n_coefficients,
                               al->n_terms, al->term);
  good(m, tn_graph_error(m->g->graph));
}

/* ---- Bundles ---- */

static tn_shape with_points(const tn_shape *fixed, tn_axis axis) {
  tn_shape shape = *fixed;
  if (!axis)
    return shape;
  shape = (tn_shape){.rank = fixed->rank + 1, .axis = {axis}};
  for (uint32_t i = 0; i < fixed->rank; ++i)
    shape.extent[i + 1] = fixed->extent[i];
  return shape;
}

static tn_value coefficient(random_maker *m, tn_dtype dtype, tn_axis axis) {
  size_t k = random_below(m, 20);
  if (k < 7)
    return random_scalar(m, dtype);
  if (k < 10)
    return random_number(m, dtype, 0.75);
  if (k < 11 || m->g->n_leaves + 20 > RANDOM_LEAVES)
    return random_value(m, dtype, axis ? tn_shape_points(axis) : tn_shape_scalar());
  tn_value x = random_input(m, dtype, axis && k < 18 ? tn_shape_points(axis) : tn_shape_scalar());
  return random_chance(m, 30) ? tn_sin(x) : x;
}

/* Channels of one fixed shape: with points, without, or absent. */
static void make_bundle(random_maker *m, const algebra *al, tn_dtype dtype, tn_axis axis,
                        const tn_shape *fixed, const tn_value *coefficients, tn_jet *jet) {
  size_t absent = 10 * random_below(m, 4), invariant = 10 * random_below(m, 4);
  memset(jet, 0, sizeof *jet);
  jet->table = al->table;
  jet->coefficients = coefficients;
  for (size_t c = 0; c < al->channels; ++c) {
    if (c > 0 && random_chance(m, absent))
      continue;
    tn_axis own = random_chance(m, invariant) ? 0 : axis;
    jet->channel[c] = random_value(m, dtype, with_points(fixed, own));
    if (c > 0 && random_chance(m, 50))
      jet->channel[c] = tn_mul(random_number(m, dtype, 0.25), jet->channel[c]);
  }
}

/* The shape of a channel without points, and the axis of any channel. */
static bool look_at(const tn_jet *jet, tn_shape *fixed, tn_axis *axis) {
  bool any = false;
  *axis = 0;
  for (int c = 0; c < TN_MAX_CHANNELS; ++c) {
    if (!jet->channel[c].graph)
      continue;
    tn_shape shape = tn_shape_of(jet->channel[c]);
    bool batched = tn_shape_batched(&shape);
    if (batched)
      *axis = shape.axis[0];
    *fixed = (tn_shape){.rank = shape.rank - batched};
    for (uint32_t i = 0; i < fixed->rank; ++i)
      fixed->extent[i] = shape.extent[i + batched];
    any = true;
  }
  return any;
}

/* ---- Operations on bundles ---- */

static void outer(random_maker *m, const tn_jet *z, const tn_jet *h) {
  tn_value zs[CHANNELS], hs[CHANNELS];
  size_t pairs = 0;
  for (int c = 0; c < CHANNELS; ++c)
    if (z->channel[c].graph && h->channel[c].graph && random_chance(m, 85)) {
      zs[pairs] = z->channel[c];
      hs[pairs++] = h->channel[c];
    }
  tn_shape zf, hf;
  tn_axis za, ha;
  if (!pairs || !look_at(z, &zf, &za) || !look_at(h, &hf, &ha) || zf.rank != hf.rank)
    return;
  tn_axis axis = za ? za : ha;
  if (zf.rank == 1 || (zf.rank == 2 && !axis && zf.extent[0] == hf.extent[0]))
    random_keep(m, tn_jet_outer(pairs, zs, hs), 1e5);
}

static void linear(random_maker *m, tn_dtype dtype, const tn_shape *fixed, tn_jet *z) {
  tn_jet y;
  tn_value bias = {0};
  bool transposed = random_chance(m, 40);
  size_t k = fixed->extent[fixed->rank - 1], n = random_width(m, 20);
  size_t extent[2] = {transposed ? n : k, transposed ? k : n};
  tn_value w = random_value(m, dtype, tn_shape_fixed(2, extent));
  if (random_chance(m, 60))
    bias = random_value(m, dtype, tn_shape_fixed(1, &n));
  good(m, tn_jet_lin(z, w, bias, transposed, &y));
  if (random_chance(m, 60))
    outer(m, &y, z);
  *z = y;
}

static void function(random_maker *m, tn_jet *z) {
  tn_op_id op = random_unary_row(m);
  double exponent = random_exponent(m, op);
  tn_jet y;
  z->channel[0] = random_argument(m, op, exponent, z->channel[0], 100);
  int derivative = random_chance(m, 50) ? 0 : 1 + (int)random_below(m, 3);
  good(m, tn_jet_unary(op, exponent, derivative, z, &y));
  *z = y;
}

static void product(random_maker *m, const algebra *al, tn_dtype dtype, tn_axis axis,
                    const tn_shape *fixed, bool adjoint, tn_jet *z) {
  tn_jet other, y;
  bool wanted[TN_MAX_CHANNELS] = {false}, all = random_chance(m, 40);
  for (size_t c = 0; c < al->channels; ++c)
    wanted[c] = random_chance(m, 70);
  make_bundle(m, al, dtype, axis, fixed, z->coefficients, &other);
  const tn_jet *second = random_chance(m, 15) ? z : &other;
  if (adjoint)
    good(m, tn_jet_mulT(z, second, all ? NULL : wanted, &y));
  else
    good(m, tn_jet_mul(z, second, &y));
  *z = y;
}

static tn_shape random_fixed(random_maker *m, size_t channels) {
  tn_shape shape = {0};
  size_t k = random_below(m, 10), most = 400 / channels;
  if (k < 2)
    return shape;
  shape.rank = k < 7 ? 1 : k < 9 ? 2 : 3;
  for (uint32_t i = 0; i < shape.rank; ++i)
    shape.extent[i] = 1 + random_below(m, 4);
  if (shape.rank == 1)
    shape.extent[0] = random_width(m, 40);
  if (tn_shape_width(&shape) > most)
    shape = tn_shape_fixed(1, (size_t[]){most});
  return shape;
}

void random_step_jets(random_maker *m) {
  algebra al;
  make_algebra(m, 0, &al);
  tn_dtype dtype = random_dtype(m);
  tn_axis axis = random_chance(m, 80) ? random_axis(m) : 0;
  tn_shape fixed = random_fixed(m, al.channels);
  tn_value coefficients[CHANNELS];
  tn_axis along = axis; /* of all that have one */
  for (size_t i = 0; i < al.n_coefficients; ++i) {
    tn_axis drawn = axis || random_chance(m, 70) ? axis : random_axis(m);
    along = along ? along : drawn;
    coefficients[i] = coefficient(m, dtype, drawn ? along : drawn);
  }
  tn_jet z;
  make_bundle(m, &al, dtype, axis, &fixed, coefficients, &z);
  size_t count = 1 + random_below(m, 3);
  for (size_t i = 0; i < count && look_at(&z, &fixed, &axis); ++i) {
    size_t k = random_below(m, 10);
    bool matrix = fixed.rank == 1 || (fixed.rank == 2 && !axis);
    if (k < 3 && matrix)
      linear(m, dtype, &fixed, &z);
    else if (k < 7 && z.channel[0].graph)
      function(m, &z);
    else
      product(m, &al, dtype, axis, &fixed, k % 2, &z);
  }
  for (int c = 0; c < CHANNELS; ++c)
    if (z.channel[c].graph)
      random_keep(m, z.channel[c], 1e4);
}

/* ---- Networks ---- */

enum { LAYERS = 4, ARGUMENTS = 2 };

typedef struct network {
  size_t n_in, depth;
  tn_dtype dtype;
  tn_value w[LAYERS], b[LAYERS];
  tn_op_id activation[LAYERS];
} network;

static void make_network(random_maker *m, network *net) {
  static const tn_op_id usual[] = {TN_OP_tanh, TN_OP_sin,  TN_OP_sigmoid,
                                   TN_OP_silu, TN_OP_gelu, TN_OP_softplus};
  size_t width = 0;
  *net = (network){.n_in = 1 + random_below(m, ARGUMENTS),
                   .depth = 1 + random_below(m, LAYERS - 1),
                   .dtype = m->main_dtype};
  for (size_t l = 0; l <= net->depth; ++l) {
    size_t extent[2] = {l ? width : net->n_in, l < net->depth ? random_width(m, 35) : 1};
    width = extent[1];
    net->w[l] = random_leaf(m, net->dtype, tn_shape_fixed(2, extent));
    if (random_chance(m, 85))
      net->b[l] = random_leaf(m, net->dtype, tn_shape_fixed(1, extent + 1));
    net->activation[l] = random_chance(m, 60) ? usual[random_below(m, 6)] : random_unary_row(m);
  }
}

static tn_value apply(random_maker *m, const network *net, const tn_value *args) {
  tn_value h = tn_stack(net->n_in, args);
  for (size_t l = 0; l <= net->depth; ++l) {
    h = tn_linear(h, net->w[l], net->b[l], false);
    double size = 5;
    if (l < net->depth) {
      h = random_function(m, net->activation[l], 3, h, &size);
      h = random_tame(m, h, &size);
    }
  }
  return tn_reshape(h, tn_shape_points(tn_shape_of(args[0]).axis[0]));
}

/* Derivatives by jets along the arguments, combined with random numbers. */
static tn_value residual_by_jets(random_maker *m, const network *net, const tn_value *args,
                                 tn_value u) {
  algebra al;
  tn_jet seed[ARGUMENTS], y;
  make_algebra(m, net->n_in, &al);
  for (size_t j = 0; j < net->n_in; ++j) {
    uint8_t unit[VARIABLES] = {0};
    unit[j] = 1;
    int c = find_power(&al, unit);
    seed[j] = (tn_jet){.table = al.table, .channel = {args[j]}};
    if (c >= 0)
      seed[j].channel[c] = random_number(m, net->dtype, 1);
  }
  good(m, ag_jet(net->n_in, args, seed, 1, &u, &y));
  tn_value sum = tn_mul(u, random_value(m, net->dtype, tn_shape_scalar()));
  for (size_t c = 0; c < al.channels; ++c)
    if (y.channel[c].graph && random_chance(m, 80))
      sum = tn_add(sum, tn_mul(random_number(m, net->dtype, 0.125 * (double)(c + 1)),
                               random_chance(m, 30) ? tn_mul(u, y.channel[c]) : y.channel[c]));
  return sum;
}

/* u_x + u u_x - s u_xx (+ u_t) by calls of a field, resolved. */
static tn_value residual_by_calls(random_maker *m, ag_field *field, const network *net,
                                  const tn_value *args) {
  uint8_t none[TN_MAX_SLOTS] = {0}, x[TN_MAX_SLOTS] = {1}, xx[TN_MAX_SLOTS] = {2},
          t[TN_MAX_SLOTS] = {0, 1};
  tn_axis axis = tn_shape_of(args[0]).axis[0];
  tn_value s = random_chance(m, 50) ? random_scalar(m, net->dtype)
                                    : random_input(m, net->dtype, tn_shape_points(axis));
  tn_value u = ag_call(field, 0, args, none), first = ag_call(field, 0, args, x);
  tn_value sum = tn_sub(tn_mul(u, first), tn_mul(s, ag_call(field, 0, args, xx))), out;
  sum = tn_add(sum, net->n_in > 1 ? ag_call(field, 0, args, t) : first);
  ag_resolve_options options = {.separate = random_chance(m, 30), .nested = random_chance(m, 10)};
  good(m, ag_resolve(m->g->graph, 1, &sum, &options, &out, NULL));
  return out;
}

static ag_field *make_field(random_maker *m, const network *net) {
  ag_field *field = NULL;
  tn_value args[ARGUMENTS];
  char name[32];
  snprintf(name, sizeof name, "u%zu", m->names++);
  good(m, ag_field_new(m->g->graph, name, net->n_in, net->dtype, &field));
  for (size_t j = 0; j < net->n_in; ++j)
    args[j] = ag_field_argument(field, j);
  tn_value body = apply(m, net, args);
  good(m, ag_field_body(field, 1, &body));
  return field;
}

void random_step_network(random_maker *m) {
  network net;
  make_network(m, &net);
  size_t sets = 1 + random_below(m, m->g->n_axes + 1), n = 0;
  if (sets > m->g->n_axes)
    sets = m->g->n_axes;
  tn_value loss = {0}, leaves[2 * LAYERS];
  ag_field *field = random_chance(m, 40) ? make_field(m, &net) : NULL;
  for (size_t a = 0; a < sets; ++a) {
    tn_value args[ARGUMENTS], r;
    for (size_t j = 0; j < net.n_in; ++j)
      args[j] = random_leaf(m, net.dtype, tn_shape_points(m->g->axis[a]));
    if (field && random_chance(m, 70)) {
      r = residual_by_calls(m, field, &net, args);
    } else {
      tn_value u = apply(m, &net, args);
      r = random_chance(m, 60) ? residual_by_jets(m, &net, args, u)
                               : tn_sub(u, random_value(m, net.dtype, tn_shape_of(u)));
    }
    tn_value term = tn_mean(tn_square(r));
    random_keep(m, r, 1e3);
    if (random_chance(m, 50))
      random_add_output(m, r);
    loss = a ? tn_add(loss, tn_mul(random_scalar(m, net.dtype), term)) : term;
  }
  if (random_chance(m, 30))
    loss = tn_log1p(loss);
  for (size_t l = 0; l <= net.depth; ++l) {
    leaves[n++] = net.w[l];
    if (net.b[l].graph)
      leaves[n++] = net.b[l];
  }
  random_add_output(m, loss);
  random_keep(m, loss, 1e3);
  random_add_gradients(m, loss, n, leaves, random_chance(m, 20));
}
