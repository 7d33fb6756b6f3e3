/* Trees of the language become values that are what the language says, with every derivative. Networks are
 * compared with a plain evaluation written here; derivatives with central differences of values. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double U = 1.1102230246251565e-16; /* rounding unit of f64 */

static const char *const plain =
    "domain = { x = [-1, 2], t = [0, 1] }\n"
    "constants = { nu = 0.3, n = 3 }\n"
    "unknowns = { u = \"x, t\", s = \"t\" }\n"
    "definitions = { w = \"u*x\", g = { value = \"a^2 + t\", of = \"a\" }, v = \"(u, x*t)\" }\n"
    "equations = { e = \"u_t + u*u_x = nu*u_xx\", f = \"s_t - (s - t) = -s*2 + 0\" }\n"
    "network = { width = 5, depth = 2 }\n";

/* N of the fixture's net for u, by hand: args mapped to [-1, 1], tanh layers. */
static double by_hand(const model_case *c, size_t unknown, const double *arg) {
  const pn_net *net = &c->model->nets[c->model->unknown_net[unknown]];
  double h[64], z[64];
  size_t rows = net->n_in;
  for (size_t j = 0; j < rows; ++j)
    h[j] = 2 * (arg[j] - net->input[j].lo) / (net->input[j].hi - net->input[j].lo) - 1;
  for (size_t l = 0; l <= net->options.depth; ++l) {
    const pn_block *w = &c->model->blocks[net->first_block + 2 * l], *b = w + 1;
    for (size_t k = 0; k < b->count; ++k) {
      z[k] = c->theta[b->offset + k];
      for (size_t i = 0; i < rows; ++i)
        z[k] += h[i] * c->theta[w->offset + i * b->count + k];
    }
    rows = b->count;
    for (size_t k = 0; k < rows; ++k)
      h[k] = l == net->options.depth ? z[k] : tanh(z[k]);
  }
  return h[c->model->unknown_output[unknown]];
}

static double u_at(const model_case *c, double x, double t) {
  return by_hand(c, 0, (double[]){x, t});
}

/* Sums of some tens of products of numbers below 10, tanh within 3 ulp: 500 u covers them. */
static void check_near(double found, double expected) {
  double scale = fabs(expected) > 1 ? fabs(expected) : 1;
  if (!(fabs(found - expected) <= 500 * U * scale))
    fail_msg("found %.17g, expected %.17g", found, expected);
}

/* Central differences: truncation h^2/6 times a third derivative, here below 1e2, and rounding
 * 500 u / h: with h = 1e-5 together below 3e-9. The same for the second with h = 1e-3: h^2/12 times 1e3
 * and 4 * 500 u / h^2 give 3e-4. */
static const double FIRST = 3e-9, SECOND = 3e-4;

static void numbers_and_functions_have_their_values(void **state) {
  (void)state;
  const struct {
    const char *text;
    double value;
  } rows[] = {
      {"1/2 - 3/4", -0.25},
      {"x*t", 0.35 * 0.8},
      {"-x^2", -0.35 * 0.35},
      {"x^n", 0.35 * 0.35 * 0.35},
      {"(-x)^3", -0.35 * 0.35 * 0.35},
      {"x^-2", 1 / (0.35 * 0.35)},
      {"x^0.5", sqrt(0.35)},
      {"x^t", pow(0.35, 0.8)},
      {"nu*x", 0.3 * 0.35},
      {"max(x, t, 0.5)", 0.8},
      {"min(x, t, 0.5)", 0.35},
      {"atan2(x, t)", atan2(0.35, 0.8)},
      {"x.max - x.min", 3},
      {"where(x < 0.5 and not t = 1, 7, 8)", 7},
      {"where(boundary, 1, 2)", 2},
      {"where(x >= 0.4 or t > 0.9, 7, x)", 0.35},
      {"where(domain, 3, 4)", 3},
      {"pi", 3.141592653589793},
      {"g(x)", 0.35 * 0.35 + 0.8},
      {"dot((x, t), (2, 3))", 0.7 + 2.4},
      {"log10(100)", 2},
      {"abs(-x) + sign(-t)", 0.35 - 1},
      {"mean(2 + 0*x, domain)", 2},
      {"mean(x, x < 1)", 0.35},
  };
  model_case c;
  model_open(&c, plain, TN_F64, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    double found = model_at(&c, rows[i].text, (double[]){0.35, 0.8});
    if (!(fabs(found - rows[i].value) <= 8 * U * fmax(1, fabs(rows[i].value))))
      fail_msg("%s: found %.17g, expected %.17g", rows[i].text, found, rows[i].value);
  }
  model_close(&c);
}

static void unknown_is_the_network_at_the_point(void **state) {
  (void)state;
  model_case c;
  model_open(&c, plain, TN_F64, 2);
  for (size_t i = 0; i < 20; ++i) {
    double p[] = {-1 + 0.15 * (double)i, 0.05 * (double)i};
    check_near(model_at(&c, "u", p), u_at(&c, p[0], p[1]));
    check_near(model_at(&c, "u(x=1)", p), u_at(&c, 1, p[1]));
    check_near(model_at(&c, "u(-x, t^2)", p), u_at(&c, -p[0], p[1] * p[1]));
    check_near(model_at(&c, "w(x=x.max)", p), 2 * u_at(&c, 2, p[1]));
    check_near(model_at(&c, "s", p), by_hand(&c, 1, &p[1]));
    check_near(model_at(&c, "u(x=s)", p), u_at(&c, by_hand(&c, 1, &p[1]), p[1]));
    check_near(model_at(&c, "u(0.5, 0.25)", p), u_at(&c, 0.5, 0.25));
  }
  model_close(&c);
}

static void derivatives_are_those_of_the_values(void **state) {
  (void)state;
  const double h = 1e-5, k = 1e-3;
  model_case c;
  model_open(&c, plain, TN_F64, 3);
  for (size_t i = 0; i < 5; ++i) {
    double x = -0.9 + 0.55 * (double)i, t = 0.1 + 0.2 * (double)i, p[] = {x, t};
    double s = by_hand(&c, 1, &t), sp[] = {t + h}, sm[] = {t - h};
    double sdot = (by_hand(&c, 1, sp) - by_hand(&c, 1, sm)) / (2 * h);
    double ux = (u_at(&c, x + h, t) - u_at(&c, x - h, t)) / (2 * h);
    double uxx = (u_at(&c, x + k, t) - 2 * u_at(&c, x, t) + u_at(&c, x - k, t)) / (k * k);
    double u1x = (u_at(&c, 1 + h, t) - u_at(&c, 1 - h, t)) / (2 * h);
    double usx = (u_at(&c, s + h, t) - u_at(&c, s - h, t)) / (2 * h);
    double ust = (u_at(&c, s, t + h) - u_at(&c, s, t - h)) / (2 * h);
    assert_true(fabs(model_at(&c, "u_x", p) - ux) < FIRST);
    assert_true(fabs(model_at(&c, "lap(u)", p) - uxx) < SECOND);
    assert_true(fabs(model_at(&c, "(w)_x", p) - (u_at(&c, x, t) + x * ux)) < 3 * FIRST);
    assert_true(fabs(model_at(&c, "div((u))", p) - ux) < FIRST);
    assert_true(fabs(model_at(&c, "u_x(x=1)", p) - u1x) < FIRST);
    /* u_t(x=s) is the derivative and then the place; (u(x=s))_t is total. */
    assert_true(fabs(model_at(&c, "u_t(x=s)", p) - ust) < FIRST);
    assert_true(fabs(model_at(&c, "(u(x=s))_t", p) - (ust + usx * sdot)) < 3 * FIRST);
    assert_true(fabs(model_at(&c, "(u(x=2*x))_x", p) -
                     (u_at(&c, 2 * x + h, t) - u_at(&c, 2 * x - h, t)) / h) < 3 * FIRST);
    assert_true(fabs(model_at(&c, "(x^3*t)_xx", p) - 6 * x * t) < 20 * U * 20);
    assert_true(model_at(&c, "s_x", p) == 0);
    assert_true(fabs(model_at(&c, "(u_x*t)_t", p) - model_at(&c, "u_x + t*u_xt", p)) < 1e-12);
  }
  model_close(&c);
}

static void derivative_on_a_face_is_that_of_the_inside(void **state) {
  (void)state;
  model_case c;
  char text[1024];
  snprintf(
      text, sizeof text, "%s%s", plain,
      "conditions = { a = { on = \"x = 2\", equation = [\"u_x = t\", \"dn(u) >= normal_x\"] }, "
      "b = { on = \"x = -1\", equation = \"dn(u) <= nu\" }, p = { equation = \"u(1, 0) = 2\" } "
      "}\n");
  model_open(&c, text, TN_F64, 4);
  for (size_t i = 0; i < 5; ++i) {
    double t = 0.2 * (double)i, right[] = {2, t}, left[] = {-1, t}, out = 0;
    double ux = model_at(&c, "u_x", right), low = model_at(&c, "u_x", left);
    model_relation(&c, &c.problem->conditions[0], 0, 0, 1, right, &out);
    check_near(out, ux - t);
    model_relation(&c, &c.problem->conditions[0], 0, 1, 1, right, &out);
    check_near(out, fmax(1 - ux, 0));
    model_relation(&c, &c.problem->conditions[1], 0, 0, 1, left, &out);
    check_near(out, fmax(-low - 0.3, 0));
    model_relation(&c, &c.problem->conditions[2], 0, 0, 1, left, &out);
    check_near(out, u_at(&c, 1, 0) - 2);
  }
  model_close(&c);
}

static void mean_averages_over_its_own_points(void **state) {
  (void)state;
  model_case c;
  double p[20], out[10], sum = 0, part = 0, count = 0;
  model_open(&c, plain, TN_F64, 5);
  for (size_t i = 0; i < 10; ++i) {
    p[2 * i] = -1 + 0.3 * (double)i;
    p[2 * i + 1] = 0.1 * (double)i;
    sum += u_at(&c, p[2 * i], p[2 * i + 1]);
    if (p[2 * i] > 0)
      part += u_at(&c, p[2 * i], p[2 * i + 1]);
    count += p[2 * i] > 0;
  }
  model_at_points(&c, "u - mean(u, domain)", false, 10, p, out);
  for (size_t i = 0; i < 10; ++i)
    check_near(out[i], u_at(&c, p[2 * i], p[2 * i + 1]) - sum / 10);
  model_at_points(&c, "mean(u, x > 0)", false, 10, p, out);
  check_near(out[0], part / count);
  model_close(&c);
}

static void check_terms(model_case *c, const pn_term *term, size_t terms) {
  double p[] = {0.3, 0.6}, whole = 0;
  model_relation(c, term, 0, 0, 1, p, &whole);
  for (size_t capacity = 2; capacity < 6; ++capacity) {
    tn_value values[8];
    pn_expr *exprs[8];
    int signs[8];
    size_t n = 0;
    double sum = 0;
    assert_int_equal(
        pn_lower_terms(&c->box[0], &term->relations[0], capacity, &n, values, exprs, signs), TN_OK);
    assert_int_equal(n, capacity < terms ? capacity : terms);
    for (size_t i = 0; i < n; ++i) {
      double value = 0;
      model_values(c, &c->box[0], values[i], 1, p, &value);
      sum += signs[i] * value;
    }
    check_near(sum, whole);
  }
}

static void terms_add_up_to_the_relation(void **state) {
  (void)state;
  model_case c;
  model_open(&c, plain, TN_F64, 6);
  check_terms(&c, &c.problem->equations[0], 3);
  check_terms(&c, &c.problem->equations[1], 4);
  model_close(&c);
}

/* Known terms that cancel are joined, so that they cannot make a relation look large. */
static void known_terms_are_joined(void **state) {
  (void)state;
  static const char text[] = "domain = { t = [0, 1] }\nunknowns = { u = \"t\" }\n"
                             "equations = { e = \"u_t + t + 1e6 + u = 1e6 - t\" }\n"
                             "conditions = { start = { on = \"t = 0\", equation = \"u = 1\" } }\n";
  model_case c;
  tn_value values[8];
  pn_expr *exprs[8];
  int signs[8];
  size_t n = 0;
  double p[] = {0.25}, joined = 0;
  model_open(&c, text, TN_F64, 6);
  assert_int_equal(pn_lower_terms(&c.box[0], &c.problem->equations[0].relations[0], 8, &n, values,
                                  exprs, signs), TN_OK);
  assert_int_equal(n, 6);
  pn_join_data(c.problem, &n, values, exprs, signs);
  assert_int_equal(n, 3); /* u_t, t + 1e6 - 1e6 + t, u */
  model_values(&c, &c.box[0], values[1], 1, p, &joined);
  assert_true(fabs(signs[1] * joined - 0.5) <= 3e-10); /* two roundings of 1e6 */
  model_close(&c);
}

static tn_op_id op_of(model_case *c, const char *text) {
  pn_expr *tree = NULL;
  tn_value value = {0};
  assert_int_equal(pn_problem_expression(c->problem, "test", text, &tree), TN_OK);
  assert_int_equal(pn_lower(&c->box[0], tree, &value), TN_OK);
  return tn_node_of(value)->op->id;
}

static void powers_are_products_where_they_can_be(void **state) {
  (void)state;
  model_case c;
  model_open(&c, plain, TN_F64, 6);
  assert_int_equal(op_of(&c, "x^3"), TN_OP_powi);
  assert_int_equal(op_of(&c, "x^n"), TN_OP_powi);
  assert_int_equal(op_of(&c, "x^(-n)"), TN_OP_powi);
  assert_int_equal(op_of(&c, "x^2"), TN_OP_square);
  assert_int_equal(op_of(&c, "x^nu"), TN_OP_powr);
  assert_int_equal(op_of(&c, "x^t"), TN_OP_pow);
  assert_int_equal(op_of(&c, "-1/2"), TN_OP_constant);
  assert_int_equal(op_of(&c, "nu"), TN_OP_scalar);
  model_close(&c);
}

/* v_x(1) = 0 whatever the weights: the two N_x(1) are the same sums, so they
 * differ by a few u of their size (below 10) if at all. */
static void check_ansatz(tn_dtype dtype) {
  model_case c;
  model_open(&c,
             "domain = { x = [0, 1] }\nnetwork = { width = 8 }\n"
             "unknowns = { v = { of = \"x\", ansatz = \"x*(net - net(x=1) - net_x(x=1))\" } }\n"
             "equations = { e = \"v_xx = 1\" }\n",
             dtype, 7);
  double aim = dtype == TN_F64 ? 1e-14 : 1e-6, h = 1e-5;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    assert_int_equal(pn_model_init(c.model, seed, c.theta), TN_OK);
    double one = 1, zero = 0, x = 0.375, size = fabs(model_at(&c, "v_x", &zero)) + 1;
    assert_true(model_at(&c, "v", &zero) == 0);
    assert_true(fabs(model_at(&c, "v_x", &one)) <= aim * size);
    assert_true(fabs(model_at(&c, "v_x(x=1)", &x)) <= aim * size);
    double n1 = by_hand(&c, 0, &one);
    double slope =
        (by_hand(&c, 0, (double[]){1 + h}) - by_hand(&c, 0, (double[]){1 - h})) / (2 * h);
    assert_true(fabs(model_at(&c, "v", &x) - x * (by_hand(&c, 0, &x) - n1 - slope)) < FIRST + aim);
  }
  model_close(&c);
}

static void ansatz_wraps_the_network(void **state) {
  (void)state;
  check_ansatz(TN_F64);
  check_ansatz(TN_F32);
}

static void parity_is_exact(void **state) {
  (void)state;
  model_case c;
  model_open(&c,
             "domain = { x = [0, 3], t = [0, 1] }\nnetwork = { width = 8 }\n"
             "unknowns = { o = { of = \"x, t\", odd = \"x\" }, "
             "e = { of = \"x, t\", even = \"x\", ansatz = \"exp(net)\" } }\n"
             "equations = { a = \"o_t = o_xx\", b = \"e_t = e_xx\" }\n",
             TN_F64, 8);
  for (size_t i = 0; i < 6; ++i) {
    double x = 0.25 * (double)i, t = 0.1 * (double)i; /* 3 - x is exact */
    double p[] = {x, t}, q[] = {3 - x, t}, middle[] = {1.5, t};
    assert_true(model_at(&c, "o", p) == -model_at(&c, "o", q));
    assert_true(model_at(&c, "e", p) == model_at(&c, "e", q));
    assert_true(model_at(&c, "o", middle) == 0);
    assert_true(fabs(model_at(&c, "e_x", middle)) <= 500 * U);
    assert_true(fabs(model_at(&c, "o", p)) > 1e-3 || x == 1.5);
  }
  model_close(&c);
}

static void exact_scope_substitutes_the_solution(void **state) {
  (void)state;
  model_case c;
  double p[] = {0.3, 0.6}, out = 1;
  model_open(
      &c,
      "domain = { x = [0, 1], t = [0, 1] }\nconstants = { k = 2 }\nunknowns = { u = \"x, t\" }\n"
      "definitions = { ue = \"exp(-k^2*t)*sin(k*x)\" }\n"
      "equations = { heat = \"u_t = u_xx\" }\nexact = { u = \"ue\" }\n",
      TN_F64, 9);
  model_at_points(&c, "u_t - u_xx", true, 1, p, &out);
  assert_true(fabs(out) <= 50 * U * 4); /* a few products of numbers up to 4 */
  model_at_points(&c, "u_x(x=0)", true, 1, p, &out);
  assert_true(fabs(out - 2 * exp(-4 * 0.6)) <= 50 * U);
  model_close(&c);
}

static void errors_name_the_place(void **state) {
  (void)state;
  model_case c;
  pn_scope scope;
  pn_expr *tree = NULL;
  tn_value value = {0};
  model_open(&c, plain, TN_F64, 10);
  assert_int_equal(pn_problem_expression(c.problem, "test", "sqrt(t) + x", &tree), TN_OK);
  assert_int_equal(pn_scope_new(c.model, "only t", NULL, 2, &scope), TN_OK);
  assert_int_equal(pn_lower(&scope, tree, &value), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "`x` has no value here"));
  assert_non_null(strstr(tn_error_text(), "1:11"));
  model_close(&c);
}

/* A table is a leaf of the scope; where its values at the points do not suffice it is refused. */
static void tables_are_leaves_at_the_points(void **state) {
  (void)state;
  static const char *const refused[] = {"h_x", "(h*u)_x", "h(x=0)", "d_x", "v_x"};
  model_case c;
  tn_value value = {0};
  pn_expr *tree = NULL;
  model_open(&c,
             "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\", "
             "v = { of = \"x, t\", ansatz = \"h*net\" } }\n"
             "tables = { h = { file = \"h.csv\", of = \"x\" } }\ndefinitions = { d = \"2*h\" }\n"
             "equations = { e = \"u_t = h*u_x + v\" }\n",
             TN_F64, 12);
  assert_int_equal(pn_lower_relation(&c.box[0], &c.problem->equations[0].relations[0], &value),
                   TN_OK);
  assert_int_equal(c.box[0].n_tables, 1);
  assert_int_equal(c.box[0].table[0], 0);
  assert_int_equal(tn_node_of(c.box[0].table_leaf[0])->op->id, TN_OP_input);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    assert_int_equal(pn_problem_expression(c.problem, "test", refused[i], &tree), TN_OK);
    assert_int_equal(pn_lower(&c.box[0], tree, &value), TN_EUNSUPPORTED);
    assert_non_null(strstr(tn_error_text(), "table"));
  }
  assert_int_equal(pn_problem_expression(c.problem, "test", "(h*u)_t", &tree), TN_OK);
  assert_int_equal(pn_lower(&c.box[0], tree, &value), TN_OK);
  model_close(&c);
}

static void nodes_carry_their_text(void **state) {
  (void)state;
  model_case c;
  pn_scope scope;
  tn_value value = {0};
  model_open(&c, plain, TN_F64, 11);
  assert_int_equal(pn_scope_new(c.model, "box", NULL, 3, &scope), TN_OK);
  assert_int_equal(pn_lower_relation(&scope, &c.problem->equations[0].relations[0], &value), TN_OK);
  const tn_node *node = tn_node_of(value);
  assert_string_equal(node->file, "test.toml");
  assert_int_equal(node->line, 5);
  assert_string_equal(node->text, "u_t + u*u_x = nu*u_xx");
  model_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_and_functions_have_their_values),
      cmocka_unit_test(unknown_is_the_network_at_the_point),
      cmocka_unit_test(derivatives_are_those_of_the_values),
      cmocka_unit_test(derivative_on_a_face_is_that_of_the_inside),
      cmocka_unit_test(mean_averages_over_its_own_points),
      cmocka_unit_test(terms_add_up_to_the_relation),
      cmocka_unit_test(known_terms_are_joined),
      cmocka_unit_test(powers_are_products_where_they_can_be),
      cmocka_unit_test(ansatz_wraps_the_network),
      cmocka_unit_test(parity_is_exact),
      cmocka_unit_test(exact_scope_substitutes_the_solution),
      cmocka_unit_test(errors_name_the_place),
      cmocka_unit_test(tables_are_leaves_at_the_points),
      cmocka_unit_test(nodes_carry_their_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
