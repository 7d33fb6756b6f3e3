/* Kinds of networks and their options: each against an evaluation by loops, parameter counts by formula, first
 * weights by their laws, derivatives in x against differences of values. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double U = 1.1102230246251565e-16, PI = 3.14159265358979323846;

enum { MOST = 64 };

static const double *block(const model_case *c, const char *name) {
  for (size_t i = 0; i < c->model->n_blocks; ++i)
    if (strcmp(c->model->blocks[i].name, name) == 0)
      return c->theta + c->model->blocks[i].offset;
  fail_msg("no block %s", name);
  return NULL;
}

static bool has_block(const model_case *c, const char *name) {
  for (size_t i = 0; i < c->model->n_blocks; ++i)
    if (strcmp(c->model->blocks[i].name, name) == 0)
      return true;
  return false;
}

/* ---- By hand ------------------------------------------------------------------------------------ */

/* One layer of net1: h[rows] to out[columns]; tanh unless it is the last. omega and slopes as the options say. */
static void layer(const model_case *c, const char *name, size_t rows, size_t columns, bool last,
                  const double *h, double *out) {
  const pn_network *o = &c->model->nets[0].options;
  char part[64];
  double made[MOST];
  snprintf(part, sizeof part, "net1.%s.weight", name);
  const double *w = block(c, part);
  snprintf(part, sizeof part, "net1.%s.bias", name);
  const double *b = block(c, part);
  snprintf(part, sizeof part, "net1.%s.slope", name);
  const double *a = has_block(c, part) ? block(c, part) : NULL;
  for (size_t j = 0; j < columns; ++j) {
    double z = b[j], factor = last ? 1 : o->omega;
    for (size_t i = 0; i < rows; ++i)
      z += h[i] * w[i * columns + j];
    if (a)
      factor *= o->adaptive_factor * (strcmp(o->adaptive, "unit") == 0 ? a[j] : a[0]);
    made[j] = last ? z : strcmp(o->activation, "sin") == 0 ? sin(factor * z) : tanh(factor * z);
  }
  memcpy(out, made, columns * sizeof *out);
}

static void gate(size_t n, const double *u, const double *v, double *h) {
  for (size_t i = 0; i < n; ++i)
    h[i] = h[i] * u[i] + (1 - h[i]) * v[i];
}

static double evaluate(const model_case *c, size_t n_features, const double *feature) {
  const pn_network *o = &c->model->nets[0].options;
  double h[MOST], u[MOST], v[MOST], skip[MOST], out = 0;
  size_t width = o->width, rows = n_features;
  char name[64];
  bool pirate = strcmp(o->kind, "pirate") == 0, gated = pirate || strcmp(o->kind, "modified") == 0;
  memcpy(h, feature, rows * sizeof *h);
  if (gated) {
    layer(c, "gate1", rows, width, false, h, u);
    layer(c, "gate2", rows, width, false, h, v);
  }
  for (size_t l = 1; pirate && l <= o->depth; ++l) {
    memcpy(skip, h, rows * sizeof *h);
    for (size_t i = 1; i <= 3; ++i) {
      snprintf(name, sizeof name, "block%zu.layer%zu", l, i);
      layer(c, name, i == 1 ? rows : width, i == 3 ? rows : width, false, h, h);
      if (i < 3)
        gate(width, u, v, h);
    }
    snprintf(name, sizeof name, "net1.block%zu.mix", l);
    for (size_t i = 0; i < rows; ++i)
      h[i] = block(c, name)[0] * h[i] + (1 - block(c, name)[0]) * skip[i];
  }
  for (size_t l = 1; !pirate && l <= o->depth; ++l) {
    if (l % 2 == 0)
      memcpy(skip, h, width * sizeof *h);
    snprintf(name, sizeof name, "layer%zu", l);
    layer(c, name, rows, width, false, h, h);
    rows = width;
    if (gated)
      gate(width, u, v, h);
    for (size_t i = 0; strcmp(o->kind, "resnet") == 0 && l > 1 && l % 2 == 1 && i < width; ++i)
      h[i] += skip[i];
  }
  snprintf(name, sizeof name, "layer%zu", o->depth + 1);
  layer(c, pirate ? "output" : name, rows, 1, true, h, &out);
  return out;
}

/* The maps of x in [-1, 3] and t in [0, 2]. */
static void coordinates(const double *p, double *z) {
  z[0] = (p[0] - 1) / 2;
  z[1] = p[1] - 1;
}

static size_t waves(const model_case *c, const char *name, double scale, size_t rows, size_t first,
                    const double *z, size_t total, double *feature) {
  size_t k = c->model->nets[0].options.fourier;
  tn_stream stream = tn_stream_of(c->problem->seed, name);
  for (size_t j = 0; j < k; ++j) {
    double phase = 0;
    for (size_t r = 0; r < rows; ++r)
      phase += 2 * PI * scale * tn_random_normal(stream, (r + first) * k + j) * z[r + first];
    feature[j] = cos(phase);
    feature[total + j] = sin(phase);
  }
  return k;
}

static const char *const frame = "domain = { x = [-1, 3], t = [0, 2] }\nunknowns = { u = \"x, t\" }\n"
                                 "equations = { e = \"u_t = u_xx\" }\n"
                                 "network = { width = 6, %s }\nrun = { seed = 5 }\n";

static void open_net(model_case *c, const char *network) {
  char text[1024];
  snprintf(text, sizeof text, frame, network);
  model_open(c, text, TN_F64, 3);
  /* Numbers that start equal, or at 0, are spread: all of them must matter in their own place. */
  for (size_t i = 0; i < c->model->n_blocks; ++i) {
    const pn_block *b = &c->model->blocks[i];
    for (size_t k = 0; b->kind == PN_BLOCK_MIX && k < b->count; ++k)
      c->theta[b->offset + k] = 0.3 + 0.1 * (double)i / 7;
    for (size_t k = 0; b->kind == PN_BLOCK_SLOPE && k < b->count; ++k)
      c->theta[b->offset + k] *= 1 + 0.1 * sin((double)(i + k));
  }
}

static void check_values(model_case *c, const char *what, double (*by_hand)(const model_case *, const double *)) {
  static const double points[][2] = {{-1, 0}, {0.3, 0.7}, {2.9, 1.9}, {1.7, 0.1}};
  for (size_t i = 0; i < sizeof points / sizeof points[0]; ++i) {
    double expected = by_hand(c, points[i]), found = model_at(c, "u", points[i]);
    if (!(fabs(found - expected) <= 2000 * U * fmax(1, fabs(expected)))) /* some 20 layers of sums below 10 */
      fail_msg("%s at (%g, %g): %.17g, expected %.17g", what, points[i][0], points[i][1], found,
               expected);
  }
}

/* u_xx and u_xt against differences of u: h^2/12 u_xxxx and 4e-16/h^2 are below 1e-4 of the size. */
static void check_differences(model_case *c, const char *what) {
  const double h = 1e-3, p[] = {0.4, 0.9};
  double v[3][3];
  for (int i = -1; i <= 1; ++i)
    for (int j = -1; j <= 1; ++j) {
      double q[] = {p[0] + i * h, p[1] + j * h};
      v[i + 1][j + 1] = model_at(c, "u", q);
    }
  double xx = (v[0][1] - 2 * v[1][1] + v[2][1]) / (h * h), t = (v[1][2] - v[1][0]) / (2 * h);
  double xt = (v[2][2] - v[2][0] - v[0][2] + v[0][0]) / (4 * h * h);
  double found[] = {model_at(c, "u_xx", p), model_at(c, "u_t", p), model_at(c, "u_xt", p)};
  double expected[] = {xx, t, xt};
  for (int i = 0; i < 3; ++i)
    if (!(fabs(found[i] - expected[i]) <= 1e-3 * fmax(1, fabs(expected[i]))))
      fail_msg("%s: derivative %d is %g, differences say %g", what, i, found[i], expected[i]);
}

static double plain_by_hand(const model_case *c, const double *p) {
  double z[2];
  coordinates(p, z);
  return evaluate(c, 2, z);
}

static double waves_by_hand(const model_case *c, const double *p) {
  const pn_network *o = &c->model->nets[0].options;
  double z[2], feature[MOST];
  coordinates(p, z);
  waves(c, "net1.fourier", o->scales[0], 2, 0, z, o->fourier, feature);
  return evaluate(c, 2 * o->fourier, feature);
}

static double bands_by_hand(const model_case *c, const double *p) {
  double z[2], feature[MOST];
  coordinates(p, z);
  size_t k = waves(c, "net1.fourier", 0.5, 2, 0, z, 4, feature);
  waves(c, "net1.fourier2", 2, 2, 0, z, 4, feature + k);
  return evaluate(c, 8, feature);
}

static double apart_by_hand(const model_case *c, const double *p) {
  double z[2], feature[MOST];
  coordinates(p, z);
  size_t k = waves(c, "net1.fourier", 0.5, 1, 0, z, 6, feature);
  k += waves(c, "net1.fourier.time", 0.25, 1, 1, z, 6, feature + k);
  waves(c, "net1.fourier.time2", 1, 1, 1, z, 6, feature + k);
  return evaluate(c, 12, feature);
}

static double raw_by_hand(const model_case *c, const double *p) { return evaluate(c, 2, p); }

static double period_by_hand(const model_case *c, const double *p) {
  double w = 2 * PI / 5;
  if (has_block(c, "net1.wave.x"))
    w = block(c, "net1.wave.x")[0];
  double feature[] = {cos(w * (p[0] + 1)), sin(w * (p[0] + 1)), p[1] - 1};
  return evaluate(c, 3, feature);
}

static double inputs_by_hand(const model_case *c, const double *p) {
  double feature[] = {p[0] * cos(p[1]), sin(2 * p[1])};
  return evaluate(c, 2, feature);
}

static void kinds_are_their_formulas(void **state) {
  (void)state;
  static const struct {
    const char *network;
    double (*by_hand)(const model_case *, const double *);
  } rows[] = {
      {"depth = 3", plain_by_hand},
      {"kind = \"modified\", depth = 3", plain_by_hand},
      {"kind = \"resnet\", depth = 5", plain_by_hand},
      {"kind = \"resnet\", depth = 4", plain_by_hand},
      {"kind = \"resnet\", depth = 1", plain_by_hand},
      {"kind = \"pirate\", depth = 2, fourier = 4", waves_by_hand},
      {"kind = \"pirate\", depth = 1", waves_by_hand},
      {"depth = 2, fourier = 2, fourier_scale = [0.5, 2]", bands_by_hand},
      {"depth = 2, fourier = 2, fourier_scale = 0.5, fourier_time = [0.25, 1]", apart_by_hand},
      {"depth = 2, normalise = false", raw_by_hand},
      {"depth = 2, period = { x = 5 }", period_by_hand},
      {"depth = 2, period = { x = 5 }, learn_period = true", period_by_hand},
      {"depth = 2, inputs = [\"x*cos(t)\", \"sin(2*t)\"], normalise = false", inputs_by_hand},
      {"depth = 2, activation = \"sin\", omega = 3", plain_by_hand},
      {"depth = 2, adaptive = \"layer\", adaptive_factor = 4", plain_by_hand},
      {"depth = 2, adaptive = \"unit\"", plain_by_hand},
      {"kind = \"modified\", depth = 2, adaptive = \"unit\", adaptive_factor = 2", plain_by_hand},
      {"depth = 2, activation = \"sin\", init = \"siren\", omega = 2", plain_by_hand},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    model_case c;
    open_net(&c, rows[i].network);
    check_values(&c, rows[i].network, rows[i].by_hand);
    check_differences(&c, rows[i].network);
    model_close(&c);
  }
}

static void counts_are_the_formulas_of_the_page(void **state) {
  (void)state;
  const size_t w = 6, f = 2;
  const struct {
    const char *network;
    size_t count;
  } rows[] = {
      {"depth = 3", (f + 1) * w + 2 * (w + 1) * w + w + 1},
      {"kind = \"resnet\", depth = 3", (f + 1) * w + 2 * (w + 1) * w + w + 1},
      {"kind = \"modified\", depth = 3", 3 * (f + 1) * w + 2 * (w + 1) * w + w + 1},
      {"kind = \"pirate\", depth = 2, fourier = 4",
       2 * (8 + 1) * w + 2 * ((8 + 1) * w + (w + 1) * w + (w + 1) * 8 + 1) + 8 + 1},
      {"depth = 3, factorised = true", (f + 1) * w + 2 * (w + 1) * w + w + 1 + 3 * w + 1},
      {"depth = 3, adaptive = \"layer\"", (f + 1) * w + 2 * (w + 1) * w + w + 1 + 3},
      {"depth = 3, adaptive = \"unit\"", (f + 1) * w + 2 * (w + 1) * w + w + 1 + 3 * w},
      {"depth = 1, fourier = 5, fourier_scale = [1, 2, 3]", (30 + 1) * w + w + 1},
      {"depth = 1, period = { x = 5 }", (3 + 1) * w + w + 1},
      {"depth = 1, period = { x = 5, t = 2 }, learn_period = true", (4 + 1) * w + w + 1 + 2},
      {"depth = 1, inputs = \"x - t\"", (1 + 1) * w + w + 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    model_case c;
    open_net(&c, rows[i].network);
    if (c.model->n_theta != rows[i].count)
      fail_msg("%s: %zu weights, expected %zu", rows[i].network, c.model->n_theta, rows[i].count);
    model_close(&c);
  }
}

/* ---- Gradients ---------------------------------------------------------------------------------- */

/* sum over all weights of d u_xx/d theta_k * sin(k), by reverse mode through the jets. */
static double slope_along(model_case *c, const double *p) {
  const pn_model *m = c->model;
  tn_value leaf[40], by[40], value = {0}, sum = {0};
  pn_expr *tree = NULL;
  assert_true(m->n_blocks <= 40);
  for (size_t b = 0; b < m->n_blocks; ++b)
    leaf[b] = m->blocks[b].leaf;
  assert_int_equal(pn_problem_expression(c->problem, "test", "u_xx + u_t", &tree), TN_OK);
  assert_int_equal(pn_lower(&c->box[0], tree, &value), TN_OK);
  assert_int_equal(ag_resolve(m->graph, 1, &value, NULL, &value, NULL), TN_OK);
  assert_int_equal(ag_grad(value, m->n_blocks, leaf, by), TN_OK);
  for (size_t b = 0; b < m->n_blocks; ++b) {
    const pn_block *block = &m->blocks[b];
    double way[2048];
    assert_true(block->count <= 2048);
    for (size_t k = 0; k < block->count; ++k)
      way[k] = sin((double)(block->offset + k));
    tn_value part = tn_sum_all(tn_mul(
        by[b], tn_const_array(m->graph, TN_F64, tn_shape_fixed(block->rank, block->extent), way)));
    sum = b ? tn_add(sum, part) : part;
  }
  double out = 0;
  model_values(c, &c->box[0], sum, 1, p, &out);
  return out;
}

/* Against the difference of values along the same way: h^2/6 times a third derivative, and rounding 1e-15/h. */
static void gradients_by_weights_are_slopes_of_values(void **state) {
  (void)state;
  static const char *const networks[] = {
      "kind = \"modified\", depth = 2, adaptive = \"unit\", factorised = true",
      "kind = \"resnet\", depth = 3, activation = \"gaussian\"",
      "kind = \"pirate\", depth = 2, fourier = 3, adaptive = \"layer\"",
      "depth = 2, period = { x = 5 }, learn_period = true, activation = \"mish\"",
      "depth = 2, inputs = [\"x*cos(t)\", \"x\"], activation = \"sin\", omega = 2",
  };
  const double p[] = {0.4, 0.9}, h = 1e-5;
  for (size_t i = 0; i < sizeof networks / sizeof networks[0]; ++i) {
    model_case c;
    double at[2];
    open_net(&c, networks[i]);
    double found = slope_along(&c, p);
    for (int side = 0; side < 2; ++side) {
      for (size_t k = 0; k < c.model->n_theta; ++k)
        c.theta[k] += (side ? -2 : 1) * h * sin((double)k);
      at[side] = model_at(&c, "u_xx + u_t", p);
    }
    double expected = (at[0] - at[1]) / (2 * h);
    if (!(fabs(found - expected) <= 1e-5 * fmax(1, fabs(expected))))
      fail_msg("%s: gradient %.12g, differences %.12g", networks[i], found, expected);
    model_close(&c);
  }
}

/* A pirate starts as its waves times the output layer: no block has a share. */
static void pirate_starts_linear_in_its_waves(void **state) {
  (void)state;
  model_case c;
  char text[1024];
  snprintf(text, sizeof text, frame, "kind = \"pirate\", depth = 2, fourier = 4");
  model_open(&c, text, TN_F64, 3);
  const double p[] = {0.3, 0.7}, *w = block(&c, "net1.output.weight");
  double z[2], feature[8], sum = 0;
  coordinates(p, z);
  waves(&c, "net1.fourier", 1 / (2 * PI), 2, 0, z, 4, feature);
  for (int i = 0; i < 8; ++i)
    sum += w[i] * feature[i];
  assert_true(fabs(model_at(&c, "u", p) - sum) <= 100 * U * fmax(1, fabs(sum)));
  model_close(&c);
}

static void shared_false_gives_each_unknown_a_network(void **state) {
  (void)state;
  static const char *const text =
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { v = \"x, t\", u = \"x, t\" }\n"
      "equations = { e = \"u_t = v\" }\nnetwork = { shared = %s }\n";
  char given[512];
  model_case c;
  snprintf(given, sizeof given, text, "false");
  model_open(&c, given, TN_F64, 1);
  assert_int_equal(c.model->n_nets, 2);
  assert_int_equal(c.model->unknown_net[0], 1); /* by name: u first */
  assert_int_equal(c.model->n_theta, 2 * (3 * 20 + 21 * 20 + 21)); /* two networks: 2 layers of 20 */
  model_close(&c);
  snprintf(given, sizeof given, text, "true");
  model_open(&c, given, TN_F64, 1);
  assert_int_equal(c.model->n_nets, 1);
  model_close(&c);
}

/* ---- First weights ------------------------------------------------------------------------------ */

static void moments(size_t n, const double *x, double *variance, double *largest) {
  *variance = *largest = 0;
  for (size_t i = 0; i < n; ++i) {
    *variance += x[i] * x[i] / (double)n;
    *largest = fmax(*largest, fabs(x[i]));
  }
}

/* 40 000 numbers: the variance of a normal or uniform law is met to 4 * sqrt(2 / 40000) = 3 percent. */
static void first_weights_follow_the_law_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *init;
    double variance, limit; /* of 200 x 200 weights; limit: of a uniform law, else 0 */
  } rows[] = {
      {"init = \"glorot\"", 2.0 / 400, 0},
      {"init = \"glorot_uniform\"", 2.0 / 400, 0.1224744871391589},
      {"init = \"he\"", 2.0 / 200, 0},
      {"activation = \"sin\", init = \"siren\"", 0.03 / 3 / 900, 0.17320508075688773 / 30},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char network[256];
    model_case c;
    double variance = 0, largest = 0;
    snprintf(network, sizeof network,
             "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
             "equations = { e = \"u_t = u\" }\nnetwork = { width = 200, depth = 2, %s }\n",
             rows[i].init);
    model_open(&c, network, TN_F64, 1);
    moments(40000, block(&c, "net1.layer2.weight"), &variance, &largest);
    assert_true(fabs(variance / rows[i].variance - 1) <= 0.03);
    if (rows[i].limit > 0)
      assert_true(largest <= rows[i].limit && largest > 0.99 * rows[i].limit);
    else
      assert_true(largest > 3.5 * sqrt(rows[i].variance));
    moments(400, block(&c, "net1.layer1.weight"), &variance, &largest);
    if (strstr(rows[i].init, "siren")) {
      assert_true(largest <= 0.5 && largest > 0.45); /* 1 / rows */
      moments(200, block(&c, "net1.layer1.bias"), &variance, &largest);
      assert_true(largest <= 0.7071067811865476 && largest > 0.65);
    }
    model_close(&c);
  }
}

/* Slopes times the factor are 1 at first, and a factorised network is the plain one. */
static void options_that_start_as_nothing_change_no_value(void **state) {
  (void)state;
  static const char *const options[] = {"adaptive = \"layer\", adaptive_factor = 5",
                                        "adaptive = \"unit\"",
                                        "factorised = true, factor_mean = 1, factor_spread = 0.3"};
  const double p[] = {0.3, 0.8};
  for (size_t i = 0; i < sizeof options / sizeof options[0]; ++i) {
    model_case a, b;
    char text[1024];
    snprintf(text, sizeof text, frame, "depth = 4");
    model_open(&a, text, TN_F64, 2);
    snprintf(text, sizeof text, frame, options[i]);
    model_open(&b, text, TN_F64, 2);
    assert_true(fabs(model_at(&a, "u", p) - model_at(&b, "u", p)) <= 1e3 * U);
    model_close(&a);
    model_close(&b);
  }
}

/* ---- Inputs ------------------------------------------------------------------------------------- */

/* Polar coordinates in, Cartesian ones to the network: u is the same at angles 2 pi apart, with all derivatives. */
static void expressions_take_the_place_of_coordinates(void **state) {
  (void)state;
  model_case c;
  model_open(&c,
             "domain = { r = [0.5, 1], a = [0, \"4*pi\"] }\nunknowns = { u = \"r, a\" }\n"
             "definitions = { X = \"r*cos(a)\" }\nconstants = { k = 1 }\n"
             "equations = { e = \"u_aa = u_r\" }\n"
             "network = { inputs = [\"X\", \"k*r*sin(a)\"], width = 8, depth = 2 }\n",
             TN_F64, 4);
  const pn_net *net = &c.model->nets[0];
  for (int i = 0; i < 2; ++i) { /* measured on a grid, rounded to 10 bits */
    assert_true(fabs(net->expression[i].lo + 1) <= 0.01 && fabs(net->expression[i].hi - 1) <= 0.01);
  }
  for (int i = 0; i < 5; ++i) {
    double p[] = {0.5 + 0.1 * i, 0.7 * i}, q[] = {0.5 + 0.1 * i, 0.7 * i + 2 * PI};
    static const char *const what[] = {"u", "u_a", "u_raa"};
    for (int k = 0; k < 3; ++k) {
      double here = model_at(&c, what[k], p), there = model_at(&c, what[k], q);
      assert_true(fabs(here - there) <= 1e-13 * fmax(1, fabs(here))); /* 2 pi is rounded */
    }
  }
  model_close(&c);
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *network, *words;
  } rows[] = {
      {"init = \"siren\"", "is for activation = \"sin\""},
      {"inputs = [\"x\", \"2\"], width = 3", "is between 2 and 2"},
      {"inputs = [\"1/(x + 1)\"], width = 3", "normalise = false"},
      {"fourier = 3, fourier_time = 1, inputs = [\"x\"]", "takes the place of the coordinates"},
      {"activation = \"tanhh\"", "gaussian, mish"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "domain = { x = [-1, 1], t = [0, 2] }\nunknowns = { u = \"x, t\" }\n"
             "equations = { e = \"u_t = u_xx\" }\nnetwork = { %s }\n",
             rows[i].network);
    tn_status status = model_error(text);
    if (status != TN_EINPUT || !strstr(tn_error_text(), rows[i].words))
      fail_msg("%s: %s: %s", rows[i].network, tn_status_name(status), tn_error_text());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds_are_their_formulas),
      cmocka_unit_test(counts_are_the_formulas_of_the_page),
      cmocka_unit_test(gradients_by_weights_are_slopes_of_values),
      cmocka_unit_test(pirate_starts_linear_in_its_waves),
      cmocka_unit_test(shared_false_gives_each_unknown_a_network),
      cmocka_unit_test(first_weights_follow_the_law_asked_for),
      cmocka_unit_test(options_that_start_as_nothing_change_no_value),
      cmocka_unit_test(expressions_take_the_place_of_coordinates),
      cmocka_unit_test(what_does_not_fit_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
