/* test_derivatives.c: small derivatives with known values, through reverse mode, forward mode and jets.
 *
 * Values are closed forms. Tolerances: each value below is a chain of at most a few dozen operations on numbers
 * of its own size, so 1e-14 relative (90 roundings of f64) is generous and a wrong rule is not near it.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N5 = 5 };
static const double TOL = 1e-14;

/* Second derivative of a linear function: zero tensors of the shape of x, no error. */
static void linear_function_has_zero_second_derivative(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  const double x0[N5] = {-2, -1, 0, 1, 2}, zero[N5] = {0}, two[N5] = {2, 2, 2, 2, 2};
  tn_value x = points(&b, "x", N5, x0), other = points(&b, "other", N5, x0);
  tn_value y = tn_mul(k(&b, 2), x);
  tn_value y1 = gradient(y, x), y2 = gradient(y1, x), y3 = gradient(y2, x);
  all_near(y1, N5, two, 0);
  all_near(y2, N5, zero, 0);
  all_near(y3, N5, zero, 0);
  all_near(gradient(y, other), N5, zero, 0);
  tn_shape shape = tn_shape_of(y2), expected = tn_shape_of(x);
  assert_true(tn_shape_equal(&shape, &expected));
  /* one linear layer W x + b */
  tn_value W = weights(&b, "W", 2, (size_t[]){1, 1}, (double[]){2});
  tn_value bias = weights(&b, "b", 1, (size_t[]){1}, (double[]){3});
  tn_value layer = tn_linear(tn_stack(1, &x), W, bias, false);
  tn_value d1 = gradient(layer, x), d2 = gradient(d1, x);
  all_near(d1, N5, two, 0);
  all_near(d2, N5, zero, 0);
  all_near(ag_d(y, x, 1), N5, two, 0);
  all_near(ag_d(y, x, 2), N5, zero, 0);
  all_near(ag_d(y, other, 1), N5, zero, 0);
  bench_close(&b);
}

static void pure_and_mixed_differ(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 1, (double[]){2}), y = points(&b, "y", 1, (double[]){3});
  tn_value u = tn_mul(tn_powi(x, 2), tn_powi(y, 3));
  near_to(number(ag_d(u, x, 2)), 54, TOL);
  near_to(number(ag_d(ag_d(u, x, 1), y, 1)), 108, TOL);
  near_to(number(ag_d(ag_d(u, y, 1), x, 1)), 108, TOL);
  near_to(number(ag_d(u, y, 2)), 72, TOL);
  near_to(number(gradient(gradient(u, x), y)), 108, TOL);
  near_to(number(gradient(gradient(u, y), y)), 72, TOL);
  bench_close(&b);
}

/* Outputs stay apart and rows depend on their own t only. */
static void vector_output_is_not_summed(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  const double t0[3] = {1, 0.5, -2};
  tn_value t = points(&b, "t", 3, t0);
  double sine[3], square[3];
  numbers(ag_d(tn_sin(t), t, 1), 3, sine);
  numbers(ag_d(tn_square(t), t, 1), 3, square);
  for (int i = 0; i < 3; ++i) {
    near_to(sine[i], cos(t0[i]), TOL);
    near_to(square[i], 2 * t0[i], TOL);
  }
  near_to(sine[0], 0.540302306, 1e-9);
  bench_close(&b);
}

static void hessian_is_a_matrix(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value v = weights(&b, "v", 1, (size_t[]){2}, (double[]){1, 1});
  tn_value x = tn_reshape(tn_slice(v, 0, 0, 1), tn_shape_scalar());
  tn_value y = tn_reshape(tn_slice(v, 0, 1, 1), tn_shape_scalar());
  tn_value f = tn_add(tn_add(tn_square(x), tn_square(y)), tn_mul(x, y));
  all_near(ag_hessian(f, v), 4, (double[]){2, 1, 1, 2}, TOL);
  tn_value direction = weights(&b, "d", 1, (size_t[]){2}, (double[]){1, -3}), hv;
  assert_int_equal(ag_hvp(f, 1, &v, &direction, &hv), TN_OK);
  all_near(hv, 2, (double[]){2 - 3, 1 - 6}, TOL);
  bench_close(&b);
}

/* L = (a x)^2: L_x = 2 a^2 x = 36, d(L_x)/da = 4 a x = 24, in every order of modes. */
static void input_then_parameter(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value a = weights(&b, "a", 0, NULL, (double[]){3}), x = points(&b, "x", 1, (double[]){2});
  tn_value L = tn_square(tn_mul(a, x)), one = k(&b, 1), out;
  near_to(number(gradient(L, x)), 36, TOL);
  near_to(number(gradient(gradient(L, x), a)), 24, TOL);
  near_to(number(gradient(ag_d(L, x, 1), a)), 24, TOL);
  near_to(number(gradient(gradient(L, a), x)), 24, TOL);
  tn_value Lx = gradient(L, x);
  assert_int_equal(ag_jvp(1, &a, &one, 1, &Lx, &out), TN_OK);
  near_to(number(out), 24, TOL);
  assert_int_equal(ag_vjp(1, &Lx, &one, 1, &a, &out), TN_OK);
  near_to(number(out), 24, TOL);
  bench_close(&b);
}

/* Powers at zero and elsewhere, orders 0 to 5, by nested gradients and by jets: no NaN at any order. */
static void powers_have_all_orders(void **state) {
  (void)state;
  const double x0[3] = {-1, 0, 1};
  const double want[3][6] = {{0, -2, 8, -18, 24, 0}, {0, 1, 2, 6, 24, 0}, {4, 10, 20, 30, 24, 0}};
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 3, x0);
  tn_value p = tn_add(tn_add(x, tn_powi(x, 2)), tn_add(tn_powi(x, 3), tn_powi(x, 4)));
  tn_value nested = p;
  tn_jet seeded, y;
  seed(&b, x, 5, &seeded);
  assert_int_equal(ag_jet(1, &x, &seeded, 1, &p, &y), TN_OK);
  for (int order = 0; order <= 5; ++order) {
    double by_grad[3], by_jet[3] = {0};
    numbers(nested, 3, by_grad);
    if (y.channel[order].graph) numbers(tn_broadcast(y.channel[order], tn_shape_points(b.axis)), 3, by_jet);
    for (int i = 0; i < 3; ++i) {
      near_to(by_grad[i], want[i][order], TOL);
      near_to(by_jet[i], want[i][order], TOL);
    }
    nested = gradient(nested, x);
  }
  tn_value fourth = tn_powi(x, 4);
  for (int order = 0; order <= 4; ++order) {
    double v[3];
    numbers(fourth, 3, v);
    near_to(v[1], order == 4 ? 24 : 0, 0);
    fourth = gradient(fourth, x);
  }
  bench_close(&b);
}

static void branch_not_taken_is_silent(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){-1, -4});
  tn_value f = tn_where(tn_gt(x, k(&b, 0)), tn_sqrt(x), x);
  tn_value f1 = gradient(f, x), f2 = gradient(f1, x), f3 = gradient(f2, x);
  all_near(f1, 2, (double[]){1, 1}, 0);
  all_near(f2, 2, (double[]){0, 0}, 0);
  all_near(f3, 2, (double[]){0, 0}, 0);
  all_near(ag_d(f, x, 3), 2, (double[]){0, 0}, 0);
  tn_value z = points(&b, "z", 3, (double[]){0, 2, 3});
  tn_value log2 = tn_div(tn_log(z), k(&b, log(2.0)));
  tn_value g = tn_where(tn_gt(z, k(&b, 2)), log2, tn_mul(k(&b, 2), z)), g1 = gradient(g, z);
  all_near(g1, 3, (double[]){2, 2, 0.480898346962987800}, TOL);
  all_near(gradient(gradient(g1, z), z), 3, (double[]){0, 0, 2 / (27 * log(2.0))}, TOL);
  bench_close(&b);
  bench_open(&b, TN_F32);
  tn_value a = points(&b, "a", 1, (double[]){100});
  tn_value h = tn_where(tn_le(a, k(&b, 0)), tn_exp(a), tn_add(k(&b, 1), a)), h1 = gradient(h, a);
  near_to(number(h1), 1, 0);
  near_to(number(gradient(h1, a)), 0, 0);
  bench_close(&b);
}

/* x^2 + y^2 is smooth at 0; its root is not: the value is 0 and the derivative a NaN that says so. */
static void norm_at_the_origin(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 1, (double[]){0}), y = points(&b, "y", 1, (double[]){0});
  tn_value s = tn_add(tn_square(x), tn_square(y)), root = tn_sqrt(s);
  near_to(number(gradient(s, x)), 0, 0);
  near_to(number(gradient(gradient(s, x), x)), 2, 0);
  near_to(number(gradient(gradient(s, x), y)), 0, 0);
  near_to(number(root), 0, 0);
  tn_value slope = gradient(root, x);
  assert_true(isnan(number(slope)));
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_culprit culprit;
  assert_int_equal(tn_compile(b.graph, 1, &slope, &program), TN_OK);
  assert_int_equal(tn_exec_new(program, NULL, &exec), TN_OK);
  size_t one = 1;
  tn_buffer *zero = NULL;
  assert_int_equal(tn_buffer_new(TN_F64, 1, &one, &zero), TN_OK);
  assert_int_equal(tn_exec_bind(exec, x, zero), TN_OK);
  assert_int_equal(tn_exec_bind(exec, y, zero), TN_OK);
  assert_int_equal(tn_exec_run(exec), TN_OK);
  assert_int_equal(tn_exec_explain(exec, 0, &culprit), TN_OK);
  assert_true(culprit.found);
  assert_int_equal(culprit.point, 0);
  assert_string_equal(tn_program_node(program, culprit.node)->op->name, "div"); /* 0.5 / sqrt(0) */
  tn_buffer_release(&zero);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

static const double tanh_table[3][6] = {
    {0.5, 0.4621171572600098, 0.7864477329659274, -0.7268619813835873, -0.5652092882597704, 3.952219563724583},
    {1, 0.7615941559557649, 0.4199743416140261, -0.6397000084492245, 0.6216266807712963, 0.6650910447505017},
    {2, 0.9640275800758169, 0.07065082485316447, -0.1362186874271130, 0.2526540650980627, -0.4293871981827611}};

static void tanh_has_its_table(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  double x0[3];
  for (int i = 0; i < 3; ++i) x0[i] = tanh_table[i][0];
  tn_value x = points(&b, "x", 3, x0), f = tn_tanh(x), nested = f;
  tn_jet seeded, y;
  seed(&b, x, 4, &seeded);
  assert_int_equal(ag_jet(1, &x, &seeded, 1, &f, &y), TN_OK);
  for (int order = 0; order <= 4; ++order) {
    double by_grad[3], by_jet[3];
    numbers(nested, 3, by_grad);
    numbers(y.channel[order], 3, by_jet);
    for (int i = 0; i < 3; ++i) {
      near_to(by_grad[i], tanh_table[i][order + 1], 4e-15 * (1 + order));
      near_to(by_jet[i], tanh_table[i][order + 1], 4e-15 * (1 + order));
    }
    nested = gradient(nested, x);
  }
  bench_close(&b);
}

static void third_derivative_of_sine_has_all_digits(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 1, (double[]){1}), f = tn_sin(x);
  near_to(number(gradient(gradient(gradient(f, x), x), x)), -0.540302305868139717, TOL);
  near_to(number(ag_d(f, x, 3)), -0.540302305868139717, TOL);
  near_to(number(ag_d(f, x, 2)), -0.841470984807896507, TOL);
  bench_close(&b);
}

/* Every way through a composite of many operations gives the same third derivative. */
static void modes_agree(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  const double x0[4] = {-0.7, 0.2, 0.9, 1.4};
  tn_value x = points(&b, "x", 4, x0);
  tn_value f = tn_div(tn_mul(tn_exp(tn_neg(tn_square(x))), tn_sin(tn_mul(k(&b, 3), x))),
                      tn_add(k(&b, 2), tn_tanh(x)));
  f = tn_add(f, tn_mul(tn_gelu(x), tn_log1p(tn_square(x))));
  f = tn_sub(f, tn_atan2(tn_add(x, k(&b, 2)), tn_add(k(&b, 1), tn_square(x))));
  f = tn_add(f, tn_pow(tn_add(tn_square(x), k(&b, 1)), tn_cos(x)));
  tn_value reverse = gradient(gradient(gradient(f, x), x), x), forward = ag_d(f, x, 3);
  tn_value mixed = ag_d(gradient(ag_d(f, x, 1), x), x, 1);
  double r[4], w[4], m[4];
  numbers(reverse, 4, r);
  numbers(forward, 4, w);
  numbers(mixed, 4, m);
  for (int i = 0; i < 4; ++i) { /* some 200 roundings on terms up to 30 times the value */
    near_to(w[i], r[i], 1e-12);
    near_to(m[i], r[i], 1e-12);
  }
  bench_close(&b);
}

/* <J v, w> = <v, J^T w> for a network, a law that no single rule can satisfy by accident. */
static void forward_and_reverse_are_adjoint(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  double x0[7], w0[6], w1[9], v0[6], v1[9];
  for (int i = 0; i < 7; ++i) x0[i] = sin(3.0 * i);
  for (int i = 0; i < 6; ++i) w0[i] = cos(2.0 * i), v0[i] = sin(5.0 * i + 1);
  for (int i = 0; i < 9; ++i) w1[i] = sin(1.7 * i), v1[i] = cos(0.3 * i);
  tn_value x = points(&b, "x", 7, x0), y = points(&b, "y", 7, x0);
  tn_value W[2] = {weights(&b, "W0", 2, (size_t[]){2, 3}, w0), weights(&b, "W1", 2, (size_t[]){3, 3}, w1)};
  tn_value V[2] = {weights(&b, "V0", 2, (size_t[]){2, 3}, v0), weights(&b, "V1", 2, (size_t[]){3, 3}, v1)};
  tn_value none = {0}, h = tn_stack(2, (tn_value[]){x, tn_neg(y)});
  h = tn_silu(tn_linear(h, W[0], none, false));
  h = tn_sin(tn_linear(h, W[1], none, true));
  tn_value dot, bar[2], left, right;
  assert_int_equal(ag_jvp(2, W, V, 1, &h, &dot), TN_OK);
  assert_int_equal(ag_vjp(1, &h, &h, 2, W, bar), TN_OK); /* w = h */
  left = tn_sum_all(tn_mul(dot, h));
  right = tn_add(tn_sum_all(tn_mul(bar[0], V[0])), tn_sum_all(tn_mul(bar[1], V[1])));
  near_to(number(left), number(right), 1e-14);
  /* HVP against the Hessian by nested gradients: v^T H v both ways */
  tn_value loss = tn_mean(tn_square(h)), hv[2], g[2];
  assert_int_equal(ag_hvp(loss, 2, W, V, hv), TN_OK);
  assert_int_equal(ag_grad(loss, 2, W, g), TN_OK);
  tn_value slope = tn_add(tn_sum_all(tn_mul(g[0], V[0])), tn_sum_all(tn_mul(g[1], V[1])));
  double by_hvp[15], by_grad[15];
  numbers(hv[0], 6, by_hvp);
  numbers(hv[1], 9, by_hvp + 6);
  numbers(gradient(slope, W[0]), 6, by_grad);
  numbers(gradient(slope, W[1]), 9, by_grad + 6);
  for (int i = 0; i < 15; ++i) near_to(by_hvp[i], by_grad[i], 1e-12);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linear_function_has_zero_second_derivative),
      cmocka_unit_test(pure_and_mixed_differ),
      cmocka_unit_test(vector_output_is_not_summed),
      cmocka_unit_test(hessian_is_a_matrix),
      cmocka_unit_test(input_then_parameter),
      cmocka_unit_test(powers_have_all_orders),
      cmocka_unit_test(branch_not_taken_is_silent),
      cmocka_unit_test(norm_at_the_origin),
      cmocka_unit_test(tanh_has_its_table),
      cmocka_unit_test(third_derivative_of_sine_has_all_digits),
      cmocka_unit_test(modes_agree),
      cmocka_unit_test(forward_and_reverse_are_adjoint)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
