/* test_rows.c: rows of the Jacobian against products with it and against multiple precision; QR of
 * it against the rows; second derivatives and several losses against their definitions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/objective_inside.h"
#include "tests/support_loss.h"
#include "validate/mp.h"

#define U 0x1p-53

/* Three sites, one of them small, a weight that is an expression, a factor on a condition. */
static const char *const burgers =
    "domain = { x = [-1, 1], t = [0, 1] }\nconstants = { nu = 0.1 }\nunknowns = { u = \"x, t\" }\n"
    "equations = { burgers = \"u_t + u*u_x = nu*u_xx\" }\n"
    "conditions = { initial = { on = \"t = 0\", equation = \"u = -sin(pi*x)\", weight = 3 },"
    " walls = { on = \"x = -1 or x = 1\", equation = \"u = 0\", weight = \"1 + t\" } }\n"
    "network = { width = 6, depth = 2 }\npoints = { interior = 300 }\n";

/* Everything that a row must get through without its point sums: factorised weights, a mean over
 * the volume, a network at a fixed point, a branch, a row without points. */
static const char *const crooked =
    "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
    "equations = { a = \"u_t = u_xx + mean(u^2, domain)*u + u(0, t) + max(u, x)\" }\n"
    "conditions = { whole = { equation = \"mean(u, domain) = 1\" },"
    " s = { on = \"x = 0 and t = 0\", equation = \"u = 1\" } }\n"
    "network = { width = 5, depth = 2, factorised = true }\npoints = { interior = 90 }\n";

static const char *const poisson =
    "domain = { x = [0, 1], y = [0, 1] }\nunknowns = { u = \"x, y\" }\n"
    "equations = { poisson = \"-lap(u) = 2*pi^2*sin(pi*x)*sin(pi*y)\" }\n"
    "conditions = { walls = { on = \"boundary\", equation = \"u = 0\", hard = true } }\n"
    "network = { width = 24, depth = 2, activation = \"sin\" }\npoints = { interior = 16 }\n";

static const char *const texts[] = {burgers, crooked, poisson};
enum { TEXTS = 3 };

/* J, all rows at once. */
static double *jacobian(loss_bench *b, double *r) {
  double *J = loss_numbers(b->f->n_rows * b->f->n);
  OK(b->f->rows(b->f, b->theta, 0, b->f->n_rows, r, J));
  return J;
}

/* J v and J^T w of the rows are those of the forward and the reverse program. Sums of n or N terms:
 * (n + N) u times the sum of absolute values, with 64 u for the rounding inside the rows. */
static void rows_are_those_of_the_products(void **state) {
  (void)state;
  for (size_t k = 0; k < TEXTS; ++k) {
    loss_bench b;
    loss_open(&b, texts[k], TN_F64, 2);
    size_t n = b.f->n, N = b.f->n_rows;
    double *v = loss_random(n, "v"), *w = loss_random(N, "w"), *jv = loss_numbers(N);
    double *jw = loss_numbers(n), *r = loss_numbers(N), *r2 = loss_numbers(N);
    double *J = jacobian(&b, r);
    OK(b.f->jvp(b.f, b.theta, v, jv));
    OK(b.f->vjp(b.f, b.theta, w, jw));
    OK(b.f->residual(b.f, b.theta, r2));
    double size = sqrt(loss_dot(N * n, J, J)), bound = (64 + (double)(n + N)) * U * size;
    double worst = 0;
    for (size_t i = 0; i < N; ++i) {
      worst = fmax(worst, fabs(loss_dot(n, J + i * n, v) - jv[i]) / sqrt(loss_dot(n, v, v)));
      for (size_t j = 0; j < n; ++j)
        jw[j] -= J[i * n + j] * w[i];
    }
    worst = fmax(worst, sqrt(loss_dot(n, jw, jw) / loss_dot(N, w, w)));
    print_message("%zu x %zu: rows differ from products by %.1e |J|, bound %.1e\n", N, n,
                  worst / size, bound / size);
    assert_true(worst <= bound);
    assert_memory_equal(r, r2, N * sizeof *r);
    double *all[] = {v, w, jv, jw, r, r2, J};
    for (size_t i = 0; i < 7; ++i)
      tn_free(&all[i]);
    loss_close(&b);
  }
}

/* A part of the rows has the bits of the whole, wherever it begins. */
static void rows_do_not_depend_on_the_range(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, burgers, TN_F64, 1);
  size_t n = b.f->n, N = b.f->n_rows;
  double *J = jacobian(&b, NULL), part[3 * 200];
  assert_true(n <= 200);
  for (size_t first = 0; first + 3 <= N; first += 7) {
    OK(b.f->rows(b.f, b.theta, first, 3, NULL, part));
    assert_memory_equal(part, J + first * n, 3 * n * sizeof *part);
  }
  assert_int_equal(b.f->rows(b.f, b.theta, N - 1, 2, NULL, part), TN_ERANGE);
  tn_free(&J);
  loss_close(&b);
}

/* ---- Multiple precision ---------------------------------------------------------------------- */

typedef struct audited {
  tn_program *program;
  tn_exec *exec;
  vd_replay *replay;
  size_t n_outputs;
} audited;

static void bind_number(audited *a, tn_value leaf, double x) {
  uint32_t node = 0;
  OK(tn_exec_set(a->exec, leaf, x));
  if (tn_program_leaf(a->program, leaf, &node))
    OK(vd_replay_set(a->replay, node, x));
}

static void bind_buffer(audited *a, tn_value leaf, tn_buffer *buffer) {
  uint32_t node = 0;
  OK(tn_exec_bind(a->exec, leaf, buffer));
  if (tn_program_leaf(a->program, leaf, &node))
    OK(vd_replay_bind(a->replay, node, buffer));
}

/* The rows of J, run by the engine and in MPFR on the same stored numbers. */
static void open_audit(audited *a, loss_bench *b) {
  pn_loss *l = b->loss;
  size_t n = l->model->n_blocks;
  tn_value *leaves = NULL, *rows = NULL;
  OK(pn_loss_need_weighted(l));
  OK(TN_NEW(n, &leaves));
  OK(TN_NEW(n * l->n_rows, &rows));
  for (size_t i = 0; i < n; ++i)
    leaves[i] = l->model->blocks[i].leaf;
  OK(ag_rows(n, leaves, l->n_rows, l->weighted, rows));
  OK(tn_compile(l->model->graph, n * l->n_rows, rows, &a->program));
  OK(tn_exec_new(a->program, NULL, &a->exec));
  OK(vd_replay_new(a->program, 200, &a->replay));
  OK(pn_theta_set(l->model, &l->theta, b->theta));
  for (size_t i = 0; i < n; ++i)
    bind_buffer(a, leaves[i], l->theta.block[i]);
  for (size_t i = 0; i < l->feed.n; ++i)
    bind_buffer(a, l->feed.leaf[i], l->feed.buffer[i]);
  for (size_t m = 0; m < l->n_terms; ++m) {
    bind_number(a, l->terms[m].factor, l->terms[m].factor_value);
    for (size_t r = 0; r < l->terms[m].n_relations; ++r)
      bind_number(a, l->terms[m].inverse[r], 1 / l->terms[m].scale[r]);
  }
  for (size_t i = 0; i < l->model->problem->n_unknowns; ++i)
    bind_number(a, l->model->unknown_scale_leaf[i], l->model->unknown_scale[i]);
  OK(tn_exec_run(a->exec));
  OK(vd_replay_run(a->replay));
  a->n_outputs = n * l->n_rows;
  tn_free(&leaves);
  tn_free(&rows);
}

static void close_audit(audited *a) {
  tn_exec_free(&a->exec);
  vd_replay_free(&a->replay);
  tn_program_free(&a->program);
}

/* Every entry of J within 64 roundings of its condition scale S, hence |J - exact| <= 64 u |S|: 64 u
 * times the condition |S| / |J| relative to |J|. */
static void rows_agree_with_multiple_precision(void **state) {
  (void)state;
  for (size_t k = 0; k < TEXTS; ++k) {
    loss_bench b;
    audited a;
    double worst = 0, error = 0, size = 0, scale = 0;
    loss_open(&b, texts[k], TN_F64, 1);
    for (size_t i = 0; i < b.sites->n_sites; ++i) /* a replay keeps every node */
      if (b.sites->sites[i].wanted > 16)
        b.sites->sites[i].wanted = 16;
    loss_draw(&b, 5);
    OK(pn_loss_bind(b.loss));
    open_audit(&a, &b);
    for (size_t output = 0; output < a.n_outputs; ++output) {
      tn_edge e = tn_program_output(a.program, output);
      size_t n = vd_replay_count(a.replay, e.node, e.port);
      double *x = loss_numbers(n);
      OK(tn_exec_read(a.exec, output, n, x));
      for (size_t i = 0; i < n; ++i) {
        mpfr_srcptr exact = vd_replay_at(a.replay, e.node, e.port, i);
        double s = vd_replay_scale(a.replay, e.node, e.port, i), y = mpfr_get_d(exact, MPFR_RNDN);
        worst = fmax(worst, vd_scaled_error(TN_F64, x[i], exact, s));
        error += (x[i] - y) * (x[i] - y);
        size += y * y;
        scale += s * s;
      }
      tn_free(&x);
    }
    print_message(
        "rows of J, problem %zu: worst c %.1f of 64, |J - exact| / |J| = %.1f u, condition "
        "|S| / |J| = %.1f\n",
        k, worst, sqrt(error / size) / U, sqrt(scale / size));
    assert_true(worst <= 64);
    assert_true(sqrt(error) <= 64 * U * sqrt(scale) && size > 0);
    close_audit(&a);
    loss_close(&b);
  }
  mpfr_free_cache();
}

/* ---- QR -------------------------------------------------------------------------------------- */

/* R^T R = J^T J, R^T Q^T w = J^T w, Householder: |error| <= c n u |J|^2 with c n far below the 16 n
 * granted; R is upper triangular. */
static void check_qr(loss_bench *b) {
  size_t n = b->f->n, N = b->f->n_rows;
  double *R = loss_numbers(n * n), *q = loss_numbers(n), *w = loss_random(N, "w"), loss = 0,
         one = 0;
  double *r = loss_numbers(N), *J = jacobian(b, r), worst = 0, size = loss_dot(N * n, J, J);
  double bound = 16 * (double)n * U;
  OK(b->f->qr(b->f, b->theta, &loss, R, q));
  OK(b->f->loss(b->f, b->theta, &one));
  assert_true(fabs(loss - one) <= 2 * (double)N * U * one);
  for (size_t side = 0; side < 2; ++side) { /* Q^T r, then Q^T w */
    const double *z = side ? w : r;
    if (side)
      OK(b->f->qt(b->f, w, q));
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t i = 0; i <= j; ++i)
        sum += R[i * n + j] * q[i];
      for (size_t i = 0; i < N; ++i)
        sum -= J[i * n + j] * z[i];
      worst = fmax(worst, fabs(sum) / (sqrt(size) * sqrt(loss_dot(N, z, z))));
    }
  }
  for (size_t j = 0; j < n; ++j)
    for (size_t k = 0; k <= j; ++k) {
      double sum = 0;
      for (size_t i = 0; i <= k; ++i)
        sum += R[i * n + j] * R[i * n + k];
      for (size_t i = 0; i < N; ++i)
        sum -= J[i * n + j] * J[i * n + k];
      worst = fmax(worst, fabs(sum) / size);
      assert_true(k == j || R[j * n + k] == 0);
    }
  print_message("QR of %zu x %zu: error %.1e, bound %.1e\n", N, n, worst, bound);
  assert_true(worst <= bound);
  double *all[] = {R, q, w, r, J};
  for (size_t i = 0; i < 5; ++i)
    tn_free(&all[i]);
}

/* 300 + 2 x ... rows against 67 parameters (several leaves and merges), and fewer rows than
 * parameters. */
static void qr_factors_the_rows(void **state) {
  (void)state;
  for (size_t k = 0; k < TEXTS; ++k) {
    loss_bench b;
    loss_open(&b, texts[k], TN_F64, 2);
    check_qr(&b);
    loss_draw(&b, 6); /* other points: nothing of the old ones is used */
    pn_loss_set_scale(b.loss, 0, 0, 4);
    OK(pn_loss_bind(b.loss));
    double *w = loss_numbers(b.f->n_rows), *q = loss_numbers(b.f->n);
    assert_int_equal(b.f->qt(b.f, w, q), TN_ESTATE);
    check_qr(&b);
    tn_free(&w);
    tn_free(&q);
    loss_close(&b);
  }
}

static void threads_change_no_bit_of_qr(void **state) {
  (void)state;
  for (size_t k = 0; k < TEXTS; ++k) {
    double *R[3], *q[3], *p[3], loss[3];
    size_t n = 0;
    for (size_t t = 0; t < 3; ++t) {
      loss_bench b;
      loss_open(&b, texts[k], TN_F64, t + 1);
      n = b.f->n;
      double *w = loss_random(b.f->n_rows, "w");
      R[t] = loss_numbers(n * n);
      q[t] = loss_numbers(n);
      p[t] = loss_numbers(n);
      for (size_t again = 0; again < 3; ++again) /* any schedule of the workers */
        OK(b.f->qr(b.f, b.theta, &loss[t], R[t], q[t]));
      OK(b.f->qt(b.f, w, p[t]));
      tn_free(&w);
      loss_close(&b);
    }
    for (size_t t = 0; t < 3; ++t) {
      assert_memory_equal(R[0], R[t], n * n * sizeof(double));
      assert_memory_equal(q[0], q[t], n * sizeof(double));
      assert_memory_equal(p[0], p[t], n * sizeof(double));
      assert_true(loss[0] == loss[t]);
    }
    for (size_t t = 0; t < 3; ++t) {
      tn_free(&R[t]);
      tn_free(&q[t]);
      tn_free(&p[t]);
    }
  }
}

static void single_precision_is_refused(void **state) {
  (void)state;
  loss_bench b;
  double loss = 0;
  loss_open(&b, burgers, TN_F32, 1);
  double *R = loss_numbers(b.f->n * b.f->n), *q = loss_numbers(b.f->n);
  assert_int_equal(b.f->qr(b.f, b.theta, &loss, R, q), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "f32"));
  tn_free(&R);
  tn_free(&q);
  loss_close(&b);
}

/* ---- Along a direction, and several losses --------------------------------------------------- */

/* (J(theta + h v) v - J(theta - h v) v) / 2h: error h^2 r'''' / 6 + u |Jv| / h; with h = 1e-5 and
 * |v| = 1 both are near 1e-10 of numbers of size 1 to 100. */
static void second_is_the_slope_of_the_first(void **state) {
  (void)state;
  const double h = 1e-5;
  for (size_t k = 0; k < 2; ++k) {
    loss_bench b;
    loss_open(&b, texts[k], TN_F64, 1);
    size_t n = b.f->n, N = b.f->n_rows;
    double *v = loss_random(n, "v"), *moved = loss_numbers(n), *second = loss_numbers(N), *jv[2];
    double length = sqrt(loss_dot(n, v, v));
    for (size_t i = 0; i < n; ++i)
      v[i] /= length;
    OK(b.f->second(b.f, b.theta, v, second));
    for (int side = 0; side < 2; ++side) {
      for (size_t i = 0; i < n; ++i)
        moved[i] = b.theta[i] + (side ? h : -h) * v[i];
      jv[side] = loss_numbers(N);
      OK(b.f->jvp(b.f, moved, v, jv[side]));
    }
    double error = 0, size = loss_dot(N, second, second);
    for (size_t i = 0; i < N; ++i)
      error += pow((jv[1][i] - jv[0][i]) / (2 * h) - second[i], 2);
    print_message("second derivative: %.1e of %.1e\n", sqrt(error), sqrt(size));
    assert_true(size > 1e-4 && sqrt(error) < 1e-7 * fmax(1, sqrt(size)));
    double *all[] = {v, moved, second, jv[0], jv[1]};
    for (size_t i = 0; i < 5; ++i)
      tn_free(&all[i]);
    loss_close(&b);
  }
}

/* 7 probes: one pass of four and three single ones. */
static void several_losses_have_the_bits_of_single_ones(void **state) {
  (void)state;
  enum { COUNT = 7 };
  for (size_t k = 0; k < TEXTS; ++k) {
    loss_bench b;
    loss_open(&b, texts[k], TN_F64, 2);
    size_t n = b.f->n;
    double *thetas = loss_random(COUNT * n, "thetas"), losses[COUNT];
    for (size_t round = 0; round < 2; ++round) {
      OK(b.f->losses(b.f, COUNT, thetas, losses));
      for (size_t i = 0; i < COUNT; ++i) {
        double one = 0;
        OK(b.f->loss(b.f, thetas + i * n, &one));
        assert_true(one == losses[i] && one > 0);
      }
      assert_true(losses[0] != losses[1]);
      loss_draw(&b, 6);
      pn_loss_set_weight(b.loss, 0, 3);
      OK(pn_loss_bind(b.loss));
    }
    tn_free(&thetas);
    loss_close(&b);
  }
}

/* Every allocation of a first factorisation fails once: an error, no leak, and the next try is
 * good. */
static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  tn_status status = TN_ENOMEM;
  uint64_t at = 0;
  size_t before = tn_memory_now();
  while (status != TN_OK) {
    loss_bench b;
    double loss = 0;
    loss_open(&b, burgers, TN_F64, 1);
    double *R = loss_numbers(b.f->n * b.f->n), *q = loss_numbers(b.f->n);
    tn_fault_at(at += 97, false);
    status = b.f->qr(b.f, b.theta, &loss, R, q);
    tn_fault_at(0, false);
    assert_true(status == TN_OK || status == TN_ENOMEM);
    if (status != TN_OK) {
      tn_graph_clear_error(b.model->graph);
      OK(b.f->qr(b.f, b.theta, &loss, R, q));
    }
    tn_free(&R);
    tn_free(&q);
    loss_close(&b);
    assert_int_equal(tn_memory_now(), before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_those_of_the_products),
      cmocka_unit_test(rows_do_not_depend_on_the_range),
      cmocka_unit_test(rows_agree_with_multiple_precision),
      cmocka_unit_test(qr_factors_the_rows),
      cmocka_unit_test(threads_change_no_bit_of_qr),
      cmocka_unit_test(single_precision_is_refused),
      cmocka_unit_test(second_is_the_slope_of_the_first),
      cmocka_unit_test(several_losses_have_the_bits_of_single_ones),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
