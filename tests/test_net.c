/* Networks: sizes, first weights, input maps, activations, and what they may be asked for. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double U = 1.1102230246251565e-16, PI = 3.14159265358979323846;

static const pn_block *block(const model_case *c, const char *name) {
  for (size_t i = 0; i < c->model->n_blocks; ++i)
    if (strcmp(c->model->blocks[i].name, name) == 0)
      return &c->model->blocks[i];
  fail_msg("no block %s", name);
  return NULL;
}

static void check_sizes(const char *text, size_t net, size_t width, size_t depth) {
  model_case c;
  model_open(&c, text, TN_F64, 1);
  const pn_network *o = &c.model->nets[net].options;
  if (o->width != width || o->depth != depth)
    fail_msg("%zu layers of %zu, expected %zu of %zu: %s", o->depth, o->width, depth, width, text);
  model_close(&c);
}

static void sizes_left_open_are_decided(void **state) {
  (void)state;
  static const char *const two =
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
      "equations = { e = \"u_t = u_x\" }\n";
  static const char *const adam = "stage = [{ optimizer = \"adam\" }]\n"; /* else lm wants them small */
  char text[512], staged[512];
  snprintf(staged, sizeof staged, "%s%s", two, adam);
  check_sizes(two, 0, 24, 2);
  snprintf(text, sizeof text, "%sprecision = { compute = \"f32\" }\n", two);
  check_sizes(text, 0, 32, 4);
  check_sizes(staged, 0, 32, 4);
  check_sizes(
      "domain = { t = [0, 1] }\nunknowns = { u = \"t\" }\nequations = { e = \"u_t = u\" }\n"
      "stage = [{ optimizer = \"adam\" }]\n",
      0, 32, 3);
  check_sizes("domain = { x = [0, 1], y = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, y, t\" }\n"
              "equations = { e = \"u_t = u\" }\n"
              "stage = [{ optimizer = \"adam\" }]\n",
              0, 64, 4);
  check_sizes("domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\", v = \"x, t\", w = "
              "\"x, t\" }\n"
              "equations = { e = \"u_t = v*w\" }\n"
              "stage = [{ optimizer = \"adam\" }]\n",
              0, 64, 4);
  snprintf(text, sizeof text, "%snetwork = { width = 7 }\n", two);
  check_sizes(text, 0, 7, 4);
  model_case c;
  model_open(&c, staged, TN_F64, 1);
  assert_int_equal(c.model->n_theta, 3 * 32 + 3 * 33 * 32 + 33); /* the banner's 3 297 */
  model_close(&c);
}

static void unknowns_of_the_same_coordinates_share(void **state) {
  (void)state;
  model_case c;
  model_open(&c,
             "domain = { x = [0, 1], t = [0, 1] }\n"
             "unknowns = { v = \"x, t\", k = \"x\", u = \"x, t\", w = { of = \"x, t\", network = { "
             "width = 3 } } }\n"
             "equations = { e = \"u_t = (k*u_x)_x + v + w\" }\n",
             TN_F64, 1);
  const pn_model *m = c.model;
  assert_int_equal(m->n_nets, 3);
  assert_int_equal(m->unknown_net[0], m->unknown_net[2]);
  assert_int_not_equal(m->unknown_net[0], m->unknown_net[1]);
  assert_int_not_equal(m->unknown_net[0], m->unknown_net[3]);
  assert_int_equal(m->nets[m->unknown_net[3]].options.width, 3);
  assert_int_equal(m->nets[m->unknown_net[3]].options.depth, 4);
  double p[] = {0.3, 0.4};
  assert_true(model_at(&c, "u - v", p) != 0 && model_at(&c, "u - w", p) != 0);
  model_close(&c);
}

static void order_of_tables_changes_no_bit(void **state) {
  (void)state;
  static const char *const names[] = {"u", "v", "k", "u_xx + v_t", "mean(u, domain)"};
  model_case a, b;
  model_open(
      &a,
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\", k = \"x\", v = \"x, t\" }\n"
      "equations = { e = \"u_t = (k*u_x)_x + v\", f = \"v_t = u\" }\n",
      TN_F64, 5);
  model_open(
      &b,
      "equations = { f = \"v_t = u\", e = \"u_t = (k*u_x)_x + v\" }\n"
      "unknowns = { v = \"x, t\", u = \"x, t\", k = \"x\" }\ndomain = { x = [0, 1], t = [0, 1] }\n",
      TN_F64, 5);
  assert_int_equal(a.model->n_theta, b.model->n_theta);
  assert_memory_equal(a.theta, b.theta, a.model->n_theta * sizeof *a.theta);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    double p[] = {0.37, 0.61}, x = model_at(&a, names[i], p), y = model_at(&b, names[i], p);
    assert_memory_equal(&x, &y, sizeof x);
  }
  model_close(&a);
  model_close(&b);
}

/* The mean of n normal numbers of deviation s lies within 4 s / sqrt(n) of 0, and their mean square within
 * 4 sqrt(2/n) of s^2, but for one seed in ten thousand; the seed is fixed. */
static void check_normal(const double *w, size_t n, double deviation) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += w[i];
    squares += w[i] * w[i];
  }
  double count = (double)n;
  assert_true(fabs(sum / count) <= 4 * deviation / sqrt(count));
  assert_true(fabs(squares / count / (deviation * deviation) - 1) <= 4 * sqrt(2 / count));
}

static void first_weights_follow_their_law(void **state) {
  (void)state;
  model_case c;
  model_open(&c,
             "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
             "equations = { e = \"u_t = u_x\" }\nnetwork = { width = 300, depth = 2 }\n",
             TN_F64, 3);
  const pn_block *w1 = block(&c, "net1.layer1.weight"), *w2 = block(&c, "net1.layer2.weight");
  const pn_block *b2 = block(&c, "net1.layer2.bias"), *b3 = block(&c, "net1.layer3.bias");
  check_normal(c.theta + w1->offset, w1->count,
               2 * sqrt(2.0 / 302)); /* gain 2: tanh in space-time */
  check_normal(c.theta + w2->offset, w2->count, sqrt(2.0 / 600));
  double low = 1, high = -1;
  for (size_t i = 0; i < b2->count; ++i) {
    low = fmin(low, c.theta[b2->offset + i]);
    high = fmax(high, c.theta[b2->offset + i]);
  }
  assert_true(low >= -1 && low < -0.95 && high <= 1 && high > 0.95);
  assert_true(c.theta[b3->offset] == 0);
  double *other = NULL;
  assert_int_equal(TN_NEW(c.model->n_theta, &other), TN_OK);
  assert_int_equal(pn_model_init(c.model, 4, other), TN_OK);
  size_t same = 0;
  for (size_t i = 0; i < c.model->n_theta; ++i)
    same += other[i] == c.theta[i];
  assert_int_equal(same, 1); /* the output bias */
  tn_free(&other);
  model_close(&c);
}

static void gain_is_for_affine_inputs(void **state) {
  (void)state;
  static const char *const text =
      "domain = { x = { range = [0, 3], periodic = true }, t = [0, 1] }\nunknowns = { u = \"x, t\" "
      "}\n"
      "equations = { e = \"u_t = u_x\" }\nnetwork = { width = 8, gain = %s }\n";
  char given[512];
  model_case one, four;
  snprintf(given, sizeof given, text, "1");
  model_open(&one, given, TN_F64, 3);
  snprintf(given, sizeof given, text, "4");
  model_open(&four, given, TN_F64, 3);
  const pn_block *w = block(&one, "net1.layer1.weight");
  assert_int_equal(w->extent[0], 3); /* cos, sin, t */
  for (size_t i = 0; i < w->count; ++i)
    assert_true(four.theta[w->offset + i] == (i / 8 < 2 ? 1 : 4) * one.theta[w->offset + i]);
  model_close(&one);
  model_close(&four);
}

static void periodic_coordinate_is_periodic_with_derivatives(void **state) {
  (void)state;
  model_case c;
  model_open(&c,
             "domain = { x = { range = [-1, 2], periodic = true }, t = [0, 1] }\n"
             "unknowns = { u = \"x, t\" }\nequations = { e = \"u_t = u_xx\" }\n",
             TN_F64, 3);
  for (int i = 0; i < 5; ++i) {
    /* The phase is a few u off at the far end; third derivatives reach 1e3. */
    double p[] = {-1 + 0.5 * i, 0.2 * i}, q[] = {2 + 0.5 * i, 0.2 * i};
    assert_true(fabs(model_at(&c, "u", p) - model_at(&c, "u", q)) <= 1e3 * U);
    assert_true(fabs(model_at(&c, "u_x", p) - model_at(&c, "u_x", q)) <= 1e4 * U);
    assert_true(fabs(model_at(&c, "u_xx", p) - model_at(&c, "u_xx", q)) <= 1e5 * U);
    assert_true(fabs(model_at(&c, "u(x=0.3) - u", p)) > 1e-6);
  }
  model_close(&c);
}

static double activation_by_hand(const char *name, double z) {
  if (strcmp(name, "tanh") == 0)
    return tanh(z);
  if (strcmp(name, "sin") == 0)
    return sin(z);
  if (strcmp(name, "sigmoid") == 0)
    return 1 / (1 + exp(-z));
  if (strcmp(name, "softplus") == 0)
    return log1p(exp(z));
  if (strcmp(name, "gelu") == 0)
    return z * 0.5 * erfc(-z / sqrt(2));
  if (strcmp(name, "relu3") == 0)
    return z > 0 ? z * z * z : 0;
  return z / (1 + exp(-z)); /* silu, swish */
}

static void activations_are_what_they_are_called(void **state) {
  (void)state;
  static const char *const names[] = {"tanh", "sin",  "sigmoid", "softplus",
                                      "gelu", "silu", "swish",   "relu3"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; ++k) {
    char text[512];
    model_case c;
    snprintf(text, sizeof text,
             "domain = { x = [-1, 1] }\nunknowns = { u = \"x\" }\n"
             "equations = { e = \"u_xx = u\" }\n"
             "network = { width = 20, depth = 1, activation = \"%s\" }\n",
             names[k]);
    model_open(&c, text, TN_F64, 9);
    const double *w = c.theta, *b = w + 20, *v = b + 20;
    for (int i = 0; i < 5; ++i) {
      double x = -0.8 + 0.4 * i, h = 1e-3, sum = 0, size = 0;
      for (int j = 0; j < 20; ++j) {
        double f = v[j] * activation_by_hand(names[k], w[j] * x + b[j]);
        sum += f;
        size += fabs(f);
      }
      assert_true(fabs(model_at(&c, "u", &x) - sum) <= 100 * U * fmax(size, 1));
      double l = x - h, r = x + h;
      double second = (model_at(&c, "u", &l) - 2 * sum + model_at(&c, "u", &r)) / (h * h);
      /* h^2/12 u_xxxx; at a kink of the third derivative (relu3) h times its step: below 1e-2 */
      assert_true(fabs(model_at(&c, "u_xx", &x) - second) <= 1e-2 * fmax(1, fabs(second)));
    }
    model_close(&c);
  }
}

static void factorised_starts_as_the_plain_network(void **state) {
  (void)state;
  static const char *const text =
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
      "equations = { e = \"u_t = u_xx\" }\nnetwork = { factorised = %s }\n";
  char given[512];
  model_case a, b;
  snprintf(given, sizeof given, text, "false");
  model_open(&a, given, TN_F64, 2);
  snprintf(given, sizeof given, text, "true");
  model_open(&b, given, TN_F64, 2);
  double p[] = {0.3, 0.8};
  assert_int_equal(b.model->n_theta, a.model->n_theta + 2 * 24 + 1);
  /* V exp(s) is within 3 u of W; the layers pass that on by factors below 10. */
  assert_true(fabs(model_at(&a, "u", p) - model_at(&b, "u", p)) <= 1e3 * U);
  assert_true(fabs(model_at(&a, "u_xx", p) - model_at(&b, "u_xx", p)) <= 1e5 * U);
  model_close(&a);
  model_close(&b);
}

static void fourier_features_are_fixed_waves(void **state) {
  (void)state;
  model_case c;
  model_open(
      &c,
      "domain = { x = [-1, 1] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_xx = u\" }\n"
      "network = { fourier = 3, width = 4, depth = 1 }\nrun = { seed = 7 }\n",
      TN_F64, 2);
  tn_stream stream = tn_stream_of(7, "net1.fourier");
  const double *w = c.theta, *b = w + 6 * 4, *v = b + 4;
  for (int i = 0; i < 5; ++i) {
    double x = -0.8 + 0.4 * i, feature[6], sum = v[4];
    for (uint64_t k = 0; k < 3; ++k) {
      double phase = 2 * PI * tn_random_normal(stream, k) * x;
      feature[k] = cos(phase);
      feature[3 + k] = sin(phase);
    }
    for (int j = 0; j < 4; ++j) {
      double z = b[j];
      for (int k = 0; k < 6; ++k)
        z += feature[k] * w[4 * k + j];
      sum += v[j] * tanh(z);
    }
    assert_true(fabs(model_at(&c, "u", &x) - sum) <= 200 * U);
  }
  model_close(&c);
}

static void rough_activations_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *activation, *equation, *ansatz, *words; /* words NULL: allowed */
  } rows[] = {
      {"relu", "lap(u) = 1", "net", "needs two derivatives"},
      {"relu", "u_x = 1", "net", "needs two derivatives"},
      {"relu", "u = x", "net", NULL},
      {"relu3", "lap(u) = 1", "net", NULL},
      {"relu3", "u_xxx = 1", "net", "needs three derivatives"},
      {"relu3", "div(f*grad(d)) = 1", "net", "needs three derivatives"},
      {"relu3", "u_xx = 1", "net - net_x(x=1)", "needs three derivatives"},
      {"silu", "u_xxx = 1", "net", NULL},
      {"tanhh", "u_x = 1", "net", "there is no activation `tanhh`"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "domain = { x = [0, 1], y = [0, 1] }\n"
             "unknowns = { u = { of = \"x, y\", ansatz = \"%s\" } }\n"
             "definitions = { d = \"u_x\", f = \"x*y\" }\nequations = { e = \"%s\" }\n"
             "network = { activation = \"%s\" }\n",
             rows[i].ansatz, rows[i].equation, rows[i].activation);
    tn_status status = model_error(text);
    if (status != (rows[i].words ? TN_EINPUT : TN_OK) ||
        (rows[i].words && !strstr(tn_error_text(), rows[i].words)))
      fail_msg("%s, %s: %s: %s", rows[i].activation, rows[i].equation, tn_status_name(status),
               tn_error_text());
  }
}

static void orders_add_along_the_tree(void **state) {
  (void)state;
  model_case c;
  int order[3];
  const pn_term *term[3];
  model_open(&c,
             "domain = { x = [0, 1], y = [0, 1] }\n"
             "unknowns = { u = \"x, y\", v = { of = \"x, y\", ansatz = \"net_x\" }, w = \"y\" }\n"
             "definitions = { d = \"u_x\", g = \"(d + v)*x\" }\n"
             "equations = { a = \"lap(g) = 0\", b = \"u_xx = w\" }\n"
             "conditions = { c = { on = \"x = 0\", equation = \"dn(d_y) = 0\" } }\n",
             TN_F64, 1);
  assert_int_equal(pn_problem_orders(c.problem, order, term), TN_OK);
  assert_int_equal(order[0], 3);
  assert_int_equal(order[1], 3);
  assert_int_equal(order[2], 0);
  assert_string_equal(term[0]->name, "a");
  assert_string_equal(term[2]->name, "b");
  assert_int_equal(pn_expr_orders(c.problem, c.problem->conditions[0].relations[0].lhs, order),
                   TN_OK);
  assert_int_equal(order[0], 3);
  assert_int_equal(order[1], -1);
  model_close(&c);
}

static void kinds_are_found_by_name(void **state) {
  (void)state;
  size_t n = 0;
  const pn_net_class *const *classes = pn_net_classes(&n), *found = NULL;
  assert_true(n >= 1);
  for (size_t i = 0; i < n; ++i) {
    assert_int_equal(pn_net_find(classes[i]->name, &found), TN_OK);
    assert_ptr_equal(found, classes[i]);
  }
  assert_int_equal(pn_net_find("mlpp", &found), TN_EINPUT);
}

/* f32: a value is the f64 one to some hundred units of f32 (four layers of 32, sums below 10). */
static void f32_is_a_rounding_of_f64(void **state) {
  (void)state;
  static const char *const text =
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
      "constants = { nu = 0.1 }\nequations = { e = \"u_t + u*u_x = nu*u_xx\" }\n";
  model_case wide, narrow;
  model_open(&wide, text, TN_F64, 1);
  model_open(&narrow, text, TN_F32, 1);
  assert_memory_equal(wide.theta, narrow.theta, wide.model->n_theta * sizeof *wide.theta);
  double p[] = {0.25, 0.75};
  double a = model_at(&wide, "u", p), b = model_at(&narrow, "u", p);
  assert_true(a != b && fabs(a - b) <= 200 * ldexp(1, -24) * fmax(1, fabs(a)));
  a = model_at(&wide, "u_t + u*u_x - nu*u_xx", p);
  b = model_at(&narrow, "u_t + u*u_x - nu*u_xx", p);
  assert_true(a != b && fabs(a - b) <= 5000 * ldexp(1, -24) * fmax(1, fabs(a)));
  model_close(&wide);
  model_close(&narrow);
}

/* Whichever allocation fails, the model is refused with TN_ENOMEM and nothing is lost. */
static void no_memory_is_an_error_without_a_leak(void **state) {
  (void)state;
  static const char *const text =
      "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = { of = \"x, t\", ansatz = \"x*net\" "
      "}, v = \"t\" }\n"
      "definitions = { f = \"u*t\" }\nequations = { e = \"u_t = f_x + v\" }\n"
      "conditions = { a = { on = \"t = 0\", equation = \"u = x^2\", hard = true } }\n";
  size_t before = tn_memory_now();
  tn_status status = TN_ENOMEM;
  uint64_t n = 0;
  while (status != TN_OK) {
    pn_problem *problem = NULL;
    pn_model *model = NULL;
    pn_scope scope;
    tn_value value = {0};
    assert_int_equal(pn_problem_parse("test.toml", text, 0, NULL, &problem), TN_OK);
    tn_fault_at(++n, true);
    status = pn_model_new(problem, TN_F64, &model);
    if (status == TN_OK)
      status = pn_scope_new(model, "box", NULL, 3, &scope);
    if (status == TN_OK)
      status = pn_lower_relation(&scope, &problem->equations[0].relations[0], &value);
    tn_fault_at(0, false);
    if (status != TN_OK && status != TN_ENOMEM)
      fail_msg("allocation %zu: %s", (size_t)n, tn_error_text());
    pn_model_free(&model);
    pn_problem_free(&problem);
    assert_int_equal(tn_memory_now(), before);
  }
  assert_true(n > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_left_open_are_decided),
      cmocka_unit_test(unknowns_of_the_same_coordinates_share),
      cmocka_unit_test(order_of_tables_changes_no_bit),
      cmocka_unit_test(first_weights_follow_their_law),
      cmocka_unit_test(gain_is_for_affine_inputs),
      cmocka_unit_test(periodic_coordinate_is_periodic_with_derivatives),
      cmocka_unit_test(activations_are_what_they_are_called),
      cmocka_unit_test(factorised_starts_as_the_plain_network),
      cmocka_unit_test(fourier_features_are_fixed_waves),
      cmocka_unit_test(rough_activations_are_refused),
      cmocka_unit_test(orders_add_along_the_tree),
      cmocka_unit_test(kinds_are_found_by_name),
      cmocka_unit_test(f32_is_a_rounding_of_f64),
      cmocka_unit_test(no_memory_is_an_error_without_a_leak),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
