/* test_objective.c: the loss of a problem against its definition, its derivatives against each
 * other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_loss.h"

static const char *const burgers =
    "domain = { x = [-1, 1], t = [0, 1] }\nconstants = { nu = 0.1 }\nunknowns = { u = \"x, t\" }\n"
    "equations = { burgers = \"u_t + u*u_x = nu*u_xx\" }\n"
    "conditions = { initial = { on = \"t = 0\", equation = \"u = -sin(pi*x)\", weight = 3 },"
    " walls = { on = \"x = -1 or x = 1\", equation = \"u = 0\", weight = \"1 + t\" } }\n"
    "network = { width = 6, depth = 2 }\npoints = { interior = 64 }\n";

/* n u relative to the size of what is added, with room for the kernels' own rounding (8 ulp each).
 */
static double rounding(size_t n) { return 16 * (double)n * tn_dtype_roundoff(TN_F64); }

static void loss_is_the_sum_of_its_residuals(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 1);
  pn_loss_set_scale(b.loss, 0, 0, 4);
  pn_loss_set_weight(b.loss, 1, 3);
  OK(pn_loss_bind(b.loss));
  double loss = 0, sums[3], *r = loss_numbers(b.f->n_rows);
  OK(b.f->loss(b.f, b.theta, &loss));
  OK(b.f->residual(b.f, b.theta, r));
  OK(b.f->terms(b.f, b.theta, sums, NULL));
  assert_int_equal(b.f->n_rows, pn_term_points(b.sites, 0) + pn_term_points(b.sites, 1) +
                                    pn_term_points(b.sites, 2));
  assert_true(fabs(loss_dot(b.f->n_rows, r, r) - loss) <= rounding(b.f->n_rows) * loss);
  assert_true(fabs(sums[0] + sums[1] + sums[2] - loss) <= rounding(3) * loss);
  tn_free(&r);
  loss_close(&b);
}

/* Doubling a weight doubles its term; doubling a scale divides it by 4; exact, both are powers of
 * two. */
static void weights_and_scales_act_without_a_new_program(void **state) {
  (void)state;
  loss_bench b;
  double before[3], after[3];
  loss_open(&b, burgers, TN_F64, 1);
  OK(b.f->terms(b.f, b.theta, before, NULL));
  pn_loss_set_weight(b.loss, 2, 2 * pn_loss_weight(b.loss, 2));
  pn_loss_set_scale(b.loss, 0, 0, 2 * pn_loss_scale(b.loss, 0, 0));
  OK(pn_loss_bind(b.loss));
  OK(b.f->terms(b.f, b.theta, after, NULL));
  assert_true(after[0] == before[0] / 4 && after[1] == before[1] && after[2] == 2 * before[2]);
  loss_close(&b);
}

static void loss_and_gradient_agree_bit_for_bit(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 2);
  double alone = 0, with = 0, *g = loss_numbers(b.f->n);
  OK(b.f->loss(b.f, b.theta, &alone));
  OK(b.f->gradient(b.f, b.theta, &with, g));
  assert_true(alone == with);
  tn_free(&g);
  loss_close(&b);
}

static void threads_change_no_bit(void **state) {
  (void)state;
  double loss[2] = {0}, *g[2];
  size_t n = 0;
  for (size_t k = 0; k < 2; ++k) {
    loss_bench b;
    loss_open(&b, burgers, TN_F64, k + 1);
    n = b.f->n;
    g[k] = loss_numbers(n);
    OK(b.f->gradient(b.f, b.theta, &loss[k], g[k]));
    loss_close(&b);
  }
  assert_true(loss[0] == loss[1]);
  assert_memory_equal(g[0], g[1], n * sizeof(double));
  tn_free(&g[0]);
  tn_free(&g[1]);
}

static const char *const two_orders[] = {
    "domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\", v = \"x, y\" }\n"
    "equations = { a = \"lap(u) = v\", b = \"lap(v) = u\" }\n"
    "conditions = { left = { on = \"x = 0\", equation = \"u = 1\" },"
    " edge = { on = \"boundary\", equation = \"v = 0\" } }\n"
    "network = { width = 5, depth = 2 }\npoints = { interior = 64 }\n",
    "domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\", v = \"x, y\" }\n"
    "conditions = { edge = { on = \"boundary\", equation = \"v = 0\" },"
    " left = { on = \"x = 0\", equation = \"u = 1\" } }\n"
    "equations = { b = \"lap(v) = u\", a = \"lap(u) = v\" }\n"
    "network = { width = 5, depth = 2 }\npoints = { interior = 64 }\n"};

static void order_of_terms_changes_no_bit(void **state) {
  (void)state;
  double loss[2] = {0}, *g[2];
  size_t n = 0;
  for (size_t k = 0; k < 2; ++k) {
    loss_bench b;
    loss_open(&b, two_orders[k], TN_F64, 1);
    n = b.f->n;
    g[k] = loss_numbers(n);
    OK(b.f->gradient(b.f, b.theta, &loss[k], g[k]));
    loss_close(&b);
  }
  assert_true(loss[0] == loss[1]);
  assert_memory_equal(g[0], g[1], n * sizeof(double));
  tn_free(&g[0]);
  tn_free(&g[1]);
}

/* <w, J v> = <J^T w, v>, and g = 2 J^T r. */
static void jacobian_products_are_adjoint(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 1);
  size_t n = b.f->n, rows = b.f->n_rows;
  double *v = loss_random(n, "v"), *w = loss_random(rows, "w"), *jv = loss_numbers(rows);
  double *jw = loss_numbers(n), *r = loss_numbers(rows), *g = loss_numbers(n), loss = 0;
  OK(b.f->jvp(b.f, b.theta, v, jv));
  OK(b.f->vjp(b.f, b.theta, w, jw));
  double left = loss_dot(rows, w, jv), right = loss_dot(n, jw, v);
  double size = sqrt(loss_dot(rows, w, w) * loss_dot(rows, jv, jv));
  assert_true(fabs(left - right) <= rounding(rows + n) * size);
  OK(b.f->residual(b.f, b.theta, r));
  OK(b.f->vjp(b.f, b.theta, r, jw));
  OK(b.f->gradient(b.f, b.theta, &loss, g));
  for (size_t i = 0; i < n; ++i)
    assert_true(fabs(g[i] - 2 * jw[i]) <= rounding(rows) * sqrt(loss_dot(n, g, g)));
  double *all[] = {v, w, jv, jw, r, g};
  for (size_t i = 0; i < 6; ++i)
    tn_free(&all[i]);
  loss_close(&b);
}

/* Rows of the terms' gradients add up to the gradient. */
static void gradients_of_terms_add_up(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 1);
  size_t n = b.f->n;
  double *rows = loss_numbers(3 * n), *g = loss_numbers(n), sums[3], loss = 0;
  OK(b.f->terms(b.f, b.theta, sums, rows));
  OK(b.f->gradient(b.f, b.theta, &loss, g));
  double size = sqrt(loss_dot(3 * n, rows, rows));
  for (size_t i = 0; i < n; ++i)
    assert_true(fabs(rows[i] + rows[n + i] + rows[2 * n + i] - g[i]) <= rounding(200) * size);
  tn_free(&rows);
  tn_free(&g);
  loss_close(&b);
}

/* Central differences of the loss: error h^2 L''' / 6 + u L / h; at h = 1e-5 below 1e-8 for L of
 * size 10. */
static void gradient_is_the_slope_of_the_loss(void **state) {
  (void)state;
  const double h = 1e-5;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 1);
  size_t n = b.f->n;
  double *v = loss_random(n, "direction"), *moved = loss_numbers(n), *g = loss_numbers(n), loss[3];
  double length = sqrt(loss_dot(n, v, v));
  OK(b.f->gradient(b.f, b.theta, &loss[0], g));
  for (int side = -1; side <= 1; side += 2) {
    for (size_t i = 0; i < n; ++i)
      moved[i] = b.theta[i] + side * h * v[i] / length;
    OK(b.f->loss(b.f, moved, &loss[side < 0 ? 1 : 2]));
  }
  double slope = (loss[2] - loss[1]) / (2 * h), expected = loss_dot(n, g, v) / length;
  assert_true(fabs(slope - expected) < 1e-7 * fmax(1, loss[0]));
  tn_free(&v);
  tn_free(&moved);
  tn_free(&g);
  loss_close(&b);
}

/* New points, also another number of them, need no new program; the loss stays a mean. */
static void points_may_change(void **state) {
  (void)state;
  loss_bench b;
  double first = 0, other = 0, again = 0;
  loss_open(&b, burgers, TN_F64, 1);
  OK(b.f->loss(b.f, b.theta, &first));
  for (size_t i = 0; i < b.sites->n_sites; ++i)
    b.sites->sites[i].wanted *= 8;
  loss_draw(&b, 6);
  OK(pn_loss_bind(b.loss));
  OK(b.f->loss(b.f, b.theta, &other));
  for (size_t i = 0; i < b.sites->n_sites; ++i)
    b.sites->sites[i].wanted /= 8;
  loss_draw(&b, 5);
  OK(pn_loss_bind(b.loss));
  OK(b.f->loss(b.f, b.theta, &again));
  assert_true(first == again);
  assert_true(other != first &&
              fabs(other - first) < 0.2 * first); /* scrambled nets of 64 and 512 */
  loss_close(&b);
}

/* f32 differs from f64 by its rounding through a net of 2 hidden layers: some hundred u of f32. */
static void single_precision_is_close(void **state) {
  (void)state;
  double loss[2];
  for (size_t k = 0; k < 2; ++k) {
    loss_bench b;
    loss_open(&b, burgers, k ? TN_F32 : TN_F64, 1);
    OK(b.f->loss(b.f, b.theta, &loss[k]));
    loss_close(&b);
  }
  assert_true(loss[0] != loss[1]);
  assert_true(fabs(loss[0] - loss[1]) < 500 * tn_dtype_roundoff(TN_F32) * loss[0]);
}

static void first_bad_number_is_explained(void **state) {
  (void)state;
  loss_bench b;
  double loss = 0;
  loss_open(&b,
            "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { T = \"x, t\" }\n"
            "equations = { heat = \"T_t = T_xx + sqrt(T - 400)\" }\n"
            "network = { width = 5, depth = 2 }\npoints = { interior = 64 }\n",
            TN_F64, 1);
  OK(b.f->loss(b.f, b.theta, &loss));
  assert_true(isnan(loss));
  assert_int_equal(pn_objective_explain(b.loss, b.theta, 12), TN_ENONFINITE);
  const char *const parts[] = {
      "test.toml:3:", "step 12", "square root of a negative number", "sqrt(T - 400)", "`heat`",
      " at x = ",     "t = "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    if (!strstr(tn_error_text(), parts[i]))
      fail_msg("\"%s\" is not in: %s", parts[i], tn_error_text());
  b.theta[3] = INFINITY;
  assert_int_equal(pn_objective_explain(b.loss, b.theta, 13), TN_ENONFINITE);
  assert_non_null(strstr(tn_error_text(), "the weight 3 of"));
  loss_close(&b);
}

/* ---- Scales ---------------------------------------------------------------------------------- */

static void scales_of(const char *text, double *unknown, double *equation) {
  loss_bench b;
  double size[4];
  loss_open(&b, text, TN_F64, 1);
  OK(pn_scale_unknowns(b.scopes, size));
  OK(pn_scale_terms(b.scopes, size, b.loss, NULL));
  *unknown = b.model->unknown_scale[0];
  *equation = pn_loss_scale(b.loss, 0, 0);
  loss_close(&b);
}

/* u from its initial values, 1/sqrt 2 -> 2^-1 or 2^0 (rounding of the exponent -0.5 +- sampling).
 */
static void unknown_is_scaled_by_its_values(void **state) {
  (void)state;
  double u = 0, f = 0;
  scales_of(burgers, &u, &f);
  assert_true(u == 0.5 || u == 1);
}

/* A beam in SI units: nothing but the load sets a size. With L = 4: half-range 2, w = q 2^4 / (E
 * I) = 1.21, so 1; the equation by q = 50, so 2^6. */
static void size_follows_from_the_load(void **state) {
  (void)state;
  double w = 0, f = 0;
  scales_of("domain = { x = [0, 4] }\nconstants = { EI = 660, q = 50 }\nunknowns = { w = \"x\" }\n"
            "equations = { beam = \"EI*w_xxxx = -q\" }\n"
            "conditions = { clamped = { on = \"x = 0\", equation = [\"w = 0\", \"w_x = 0\"] },"
            " free = { on = \"x = 4\", equation = [\"w_xx = 0\", \"w_xxx = 0\"] } }\n",
            &w, &f);
  assert_true(w == 1 && f == 64);
}

/* An equation times 1024 is an equation with 1024 times the scale: the same loss, bit for bit. */
static void factor_of_an_equation_is_scaled_away(void **state) {
  (void)state;
  const char *const texts[] = {"domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
                               "equations = { a = \"u_xx + u = sin(x)\" }\nconditions = { s = { on "
                               "= \"x = 0\", equation = \"u = 5\" } }\n"
                               "network = { width = 5, depth = 2 }\n",
                               "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n"
                               "equations = { a = \"1024*u_xx + 1024*u = 1024*sin(x)\" }\n"
                               "conditions = { s = { on = \"x = 0\", equation = \"u = 5\" } "
                               "}\nnetwork = { width = 5, depth = 2 }\n"};
  double loss[2];
  for (size_t k = 0; k < 2; ++k) {
    loss_bench b;
    double size = 0;
    loss_open(&b, texts[k], TN_F64, 1);
    OK(pn_scale_unknowns(b.scopes, &size));
    OK(pn_scale_terms(b.scopes, &size, b.loss, NULL));
    OK(pn_loss_bind(b.loss));
    OK(b.f->loss(b.f, b.theta, &loss[k]));
    assert_true(size == 5);
    loss_close(&b);
  }
  /* factors 1024 may be folded into channels in another order: rounding of a few operations */
  assert_true(fabs(loss[0] - loss[1]) <= rounding(8) * loss[0]);
}

/* Conditions pull at least as hard as the equation, equations keep the factor of the file. */
static void balance_raises_conditions(void **state) {
  (void)state;
  loss_bench b;
  const pn_weight_class *balance = NULL;
  double weight[3] = {1, 3, 1}, sums[3], g[3];
  loss_open(&b, burgers, TN_F64, 1);
  pn_loss_set_scale(b.loss, 0, 0, 0.0625); /* makes the equation loud */
  OK(pn_weight_find("balance", &balance));
  OK(balance->start(b.loss, b.theta, weight));
  double *rows = loss_numbers(3 * b.f->n);
  for (size_t m = 0; m < 3; ++m)
    pn_loss_set_weight(b.loss, m, m == 1 ? weight[m] / 3 : weight[m]);
  OK(pn_loss_bind(b.loss));
  OK(b.f->terms(b.f, b.theta, sums, rows));
  for (size_t m = 0; m < 3; ++m)
    g[m] = sqrt(loss_dot(b.f->n, rows + m * b.f->n, rows + m * b.f->n));
  assert_true(weight[0] == 1 && weight[1] >= 3 && weight[2] >= 1);
  assert_true(weight[1] > 3); /* else the test shows nothing */
  for (size_t m = 1; m < 3; ++m)
    assert_true(weight[m] >= 100 || g[m] >= g[0] * (1 - rounding(b.f->n)));
  assert_int_equal(pn_weight_find("nonsense", &balance), TN_EINPUT);
  tn_free(&rows);
  loss_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loss_is_the_sum_of_its_residuals),
      cmocka_unit_test(weights_and_scales_act_without_a_new_program),
      cmocka_unit_test(loss_and_gradient_agree_bit_for_bit),
      cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(order_of_terms_changes_no_bit),
      cmocka_unit_test(jacobian_products_are_adjoint),
      cmocka_unit_test(gradients_of_terms_add_up),
      cmocka_unit_test(gradient_is_the_slope_of_the_loss),
      cmocka_unit_test(points_may_change),
      cmocka_unit_test(single_precision_is_close),
      cmocka_unit_test(first_bad_number_is_explained),
      cmocka_unit_test(unknown_is_scaled_by_its_values),
      cmocka_unit_test(size_follows_from_the_load),
      cmocka_unit_test(factor_of_an_equation_is_scaled_away),
      cmocka_unit_test(balance_raises_conditions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
