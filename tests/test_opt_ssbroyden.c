/* test_opt_ssbroyden.c: the dense update against its formula in long double, and the life of the
 * matrix. */
#include "pinn/linesearch.h"
#include "pinn/vector.h"
#include "tests/support_opt.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define U (DBL_EPSILON / 2)

enum { SIDE = 12 };
typedef long double matrix[SIDE][SIDE];

static void unpack(const double *packed, matrix H) {
  for (size_t i = 0; i < SIDE; ++i)
    for (size_t j = 0; j <= i; ++j)
      H[i][j] = H[j][i] = packed[i * (i + 1) / 2 + j];
}

static long double inner(const long double *x, const long double *y) {
  long double sum = 0;
  for (size_t i = 0; i < SIDE; ++i)
    sum += x[i] * y[i];
  return sum;
}

static void product(matrix H, const long double *x, long double *out) {
  for (size_t i = 0; i < SIDE; ++i)
    out[i] = inner(H[i], x);
}

/* The update as it is published, entry by entry, in long double. sBs = s'Bs, which is alpha^2 g'Hg
 * for s = -alpha H g; size: sum of |terms| of the entry where it is largest. Gives th. */
static long double reference_update(matrix H, const long double *s, const long double *y,
                                    long double sBs, bool first, matrix out, long double *size) {
  long double w[SIDE], v[SIDE];
  product(H, y, w);
  const long double ys = inner(y, s), yw = inner(y, w), h = yw / ys, b = sBs / ys;
  const long double a = fmaxl(b * h - 1, 0); /* below 0 by rounding: s and w are parallel */
  const long double c = sqrtl(fabsl(a) / (1 + a)), rho_m = fminl(1, h * (1 - c));
  const long double th_m = a > 0 ? (rho_m - 1) / a : 0, th_p = 1 / rho_m;
  const long double th = fmaxl(th_m, fminl(th_p, (1 - b) / b)), sig = 1 + th * a;
  const long double q = powl(fabsl(sig), 1.0L / (1 - SIDE)), rk = fminl(1, 1 / b);
  const long double tau = first ? h / sig : th <= 0 ? fminl(rk * q, sig) : rk * fminl(q, 1 / th);
  const long double phi = (1 - th) / sig;
  *size = 0;
  for (size_t i = 0; i < SIDE; ++i)
    v[i] = s[i] / ys - w[i] / yw;
  for (size_t i = 0; i < SIDE; ++i)
    for (size_t j = 0; j < SIDE; ++j) {
      const long double terms[] = {H[i][j] / tau, -w[i] * w[j] / yw / tau,
                                   phi * yw * v[i] * v[j] / tau, s[i] * s[j] / ys};
      out[i][j] = terms[0] + terms[1] + terms[2] + terms[3];
      *size = fmaxl(*size, fabsl(terms[0]) + fabsl(terms[1]) + fabsl(terms[2]) + fabsl(terms[3]));
    }
  return th;
}

static bool is_positive(matrix H) {
  matrix L = {{0}};
  for (size_t j = 0; j < SIDE; ++j)
    for (size_t i = j; i < SIDE; ++i) {
      long double sum = H[i][j];
      for (size_t k = 0; k < j; ++k)
        sum -= L[i][k] * L[j][k];
      if (i == j && !(sum > 0))
        return false;
      L[i][j] = i == j ? sqrtl(sum) : sum / L[j][j];
    }
  return true;
}

/* Largest deviations over a run on Rosenbrock's function, in units of u times the size of the
 * terms. */
typedef struct {
  long double secant, formula;
  size_t updates;
  size_t branches[3]; /* of tau: th <= 0; th <= 1; th > 1 */
  bool positive;
} deviations;

static deviations watch(opt_function function, double scale) {
  const pn_setting settings[] = {{"scale", scale}};
  opt_probe p = {.f = function};
  pn_objective f = opt_objective(&p, SIDE);
  pn_opt *opt = opt_of("ssbroyden", SIDE, settings, 1);
  double x[SIDE] = {0}, loss = 0;
  deviations worst = {.positive = true};
  opt_image before = {0}, after = {0};
  assert_int_equal(opt_exchange(opt, &before, false), TN_OK);
  (void)opt_gradient(&f, x, opt_find(&before, "loss"), opt_find(&before, "g"));
  for (size_t k = 0; k < 60 && (k == 0 || loss > 1e-12); ++k) {
    matrix H, wanted, got;
    double x_old[SIDE];
    long double s[SIDE], y[SIDE], g[SIDE], Hg[SIDE], Hy[SIDE], size = 0;
    pn_copy(SIDE, x, x_old);
    (void)opt_descend(opt, &f, x, 0, 1, &loss);
    assert_int_equal(opt_exchange(opt, &after, false), TN_OK);
    unpack(opt_find(&before, "H"), H);
    unpack(opt_find(&after, "H"), got);
    for (size_t i = 0; i < SIDE; ++i) {
      g[i] = opt_find(&before, "g")[i];
      s[i] = (long double)x[i] - x_old[i];
      y[i] = opt_find(&after, "g")[i] - (long double)opt_find(&before, "g")[i];
    }
    if (*opt_find(&after, "updates") == *opt_find(&before, "updates") + 1) {
      product(H, g, Hg);
      const long double alpha = -inner(s, Hg) / inner(Hg, Hg);
      const long double th = reference_update(H, s, y, alpha * alpha * inner(g, Hg),
                                              scale == 1 && k == 0, wanted, &size);
      worst.branches[th <= 0 ? 0 : th <= 1 ? 1 : 2] += 1;
      product(got, y, Hy);
      long double y_sum = 0;
      for (size_t i = 0; i < SIDE; ++i)
        y_sum += fabsl(y[i]);
      for (size_t i = 0; i < SIDE; ++i) {
        worst.secant = fmaxl(worst.secant, fabsl(Hy[i] - s[i]) / (U * size * y_sum));
        for (size_t j = 0; j < SIDE; ++j)
          worst.formula = fmaxl(worst.formula, fabsl(got[i][j] - wanted[i][j]) / (U * size));
      }
      worst.positive &= is_positive(got);
      worst.updates += 1;
    }
    opt_drop(&before);
    before = after;
    after = (opt_image){0};
  }
  opt_drop(&before);
  pn_opt_free(&opt);
  print_message("scale %g: %zu updates (%zu, %zu, %zu), secant %.1Lf u, formula %.1Lf u\n", scale,
                worst.updates, worst.branches[0], worst.branches[1], worst.branches[2],
                worst.secant, worst.formula);
  return worst;
}

static void ssbroyden_update_is_the_formula(void **state) {
  (void)state;
  const opt_function functions[] = {opt_rosenbrock, opt_quartic, opt_quadratic};
  size_t branches[3] = {0};
  for (size_t k = 0; k < 6; ++k) {
    const deviations d = watch(functions[k / 2], (double)(k % 2));
    assert_true(d.updates > 20 && d.positive);
    /* H+ y = s: an entry of H+ has 12 roundings of its terms, w = H y adds 12 more, and the terms
     * are at most `size`; s = theta+ - theta is exact or rounds once. */
    assert_true(d.secant < 40);
    /* The same, but h, b and a = b h - 1 enter: s'Bs is alpha^2 g'Hg up to the rounding of theta+ =
     * theta + alpha p, which is u |theta| / |s| in s, 1e4 u for the last steps, |s| ~ 1e-4. Where a
     * is rounding itself, th may jump, but v v' is of size a then. */
    assert_true(d.formula < 1e5);
    for (size_t i = 0; i < 3; ++i)
      branches[i] += d.branches[i];
  }
  assert_true(branches[0] > 10 && branches[1] > 10);
  /* h (1-c) = 1 / (b (1+c)), so b < 1/2 gives rho_m = 1 and th <= 1; else (1-b)/b <= 1. */
  assert_true(branches[2] == 0);
}

static void ssbroyden_bits_do_not_depend_on_threads(void **state) {
  (void)state;
  enum { N = 700 };
  double kept[N] = {0}, sum = 0;
  for (size_t threads = 0; threads <= 4; ++threads) { /* 0: no pool */
    tn_pool *pool = NULL;
    if (threads)
      assert_int_equal(tn_pool_new(threads, &pool), TN_OK);
    opt_probe p = {.f = opt_rosenbrock};
    pn_objective f = opt_objective(&p, N);
    const pn_opt_context context = {.pool = pool};
    const pn_opt_class *class_ = NULL;
    pn_opt *opt = NULL;
    assert_int_equal(pn_opt_find("ssbroyden", &class_), TN_OK);
    assert_int_equal(pn_opt_new(class_, N, NULL, 0, &context, &opt), TN_OK);
    double x[N] = {0};
    pn_step_report r;
    for (int k = 0; k < 12; ++k)
      assert_int_equal(pn_opt_step(opt, &context, &f, x, &r), TN_OK);
    opt_image m = {0};
    assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
    const double *H = opt_find(&m, "H");
    double total = pn_dot(N * (N + 1) / 2, H, H);
    if (threads == 0) {
      pn_copy(N, x, kept);
      sum = total;
    }
    assert_memory_equal(x, kept, sizeof kept);
    assert_true(total == sum);
    opt_drop(&m);
    pn_opt_free(&opt);
    tn_pool_free(&pool);
  }
}

/* H+ y = s where rows are longer than a chunk and bands have many tiles. */
static void ssbroyden_secant_holds_for_long_rows(void **state) {
  (void)state;
  enum { N = 700 };
  opt_probe p = {.f = opt_rosenbrock};
  pn_objective f = opt_objective(&p, N);
  pn_opt *opt = opt_of("ssbroyden", N, NULL, 0);
  double x[N] = {0}, x_old[N], y[N], loss = 0;
  opt_image m = {0};
  (void)opt_descend(opt, &f, x, 0, 10, &loss);
  pn_copy(N, x, x_old);
  assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
  pn_copy(N, opt_find(&m, "g"), y);
  opt_drop(&m);
  (void)opt_descend(opt, &f, x, 0, 1, &loss);
  assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
  pn_subtract(N, opt_find(&m, "g"), y, y);
  const double *H = opt_find(&m, "H");
  assert_true(*opt_find(&m, "updates") == 11);
  for (size_t i = 0; i < N; ++i) {
    long double sum = 0, size = 0;
    for (size_t j = 0; j < N; ++j) {
      const long double h = i > j ? H[i * (i + 1) / 2 + j] : H[j * (j + 1) / 2 + i];
      sum += h * y[j];
      size += fabsl(h * y[j]);
    }
    /* 12 roundings in an entry of H+; w = H y has 64 + 3 in a lane of a chunk, a second chunk and
     * 32 bands, and enters twice. The terms may be larger than the entry, here up to 10 times. */
    assert_true(fabsl(sum - ((long double)x[i] - x_old[i])) <= 10 * (12 + 2 * 100) * U * size);
  }
  opt_drop(&m);
  pn_opt_free(&opt);
}

static void ssbroyden_refuses_what_does_not_fit(void **state) {
  (void)state;
  const pn_opt_class *class_ = NULL;
  pn_opt *opt = NULL;
  assert_int_equal(pn_opt_find("ssbroyden", &class_), TN_OK);
  assert_int_equal(pn_opt_new(class_, 20001, NULL, 0, &opt_serial, &opt), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "lbfgs"));
  assert_null(opt);
}

static void resampled_ssbroyden_keeps_or_resets_the_matrix(void **state) {
  (void)state;
  enum { N = 20 };
  opt_probe p = {.f = opt_rosenbrock};
  pn_objective f = opt_objective(&p, N);
  pn_opt *opt = opt_of("ssbroyden", N, NULL, 0);
  double x[N] = {0}, loss = 0;
  (void)opt_descend(opt, &f, x, 0, 20, &loss);
  opt_image m = {0}, after = {0};
  assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
  assert_int_equal(pn_opt_resampled(opt), TN_OK);
  assert_int_equal(opt_exchange(opt, &after, false), TN_OK);
  assert_memory_equal(opt_find(&m, "H"), opt_find(&after, "H"), N * (N + 1) / 2 * sizeof(double));
  opt_drop(&after);
  const double bad[] = {-1, NAN}; /* indefinite, not finite */
  for (size_t k = 0; k < 2; ++k) {
    opt_find(&m, "H")[N * (N + 1) / 2 - 1] = bad[k]; /* the last diagonal entry */
    assert_int_equal(opt_exchange(opt, &m, true), TN_OK);
    assert_int_equal(pn_opt_resampled(opt), TN_OK);
    assert_int_equal(opt_exchange(opt, &after, false), TN_OK);
    for (size_t i = 0; i < N; ++i)
      for (size_t j = 0; j <= i; ++j)
        assert_true(opt_find(&after, "H")[i * (i + 1) / 2 + j] == (i == j ? 1 : 0));
    opt_drop(&after);
  }
  opt_drop(&m);
  pn_opt_free(&opt);
}

static void ssbroyden_beats_steepest_descent(void **state) {
  (void)state;
  enum { N = 20, STEPS = 200 };
  opt_probe p = {.f = opt_rosenbrock};
  pn_objective f = opt_objective(&p, N);
  double x[N] = {0}, g[N], d[N], x_new[N], g_new[N], loss = 0;
  assert_int_equal(pn_objective_gradient(&f, x, &loss, g), TN_OK);
  pn_wolfe rule = pn_wolfe_standard();
  for (int k = 0; k < STEPS; ++k) {
    pn_search_result r;
    for (size_t i = 0; i < N; ++i)
      d[i] = -g[i];
    assert_int_equal(pn_linesearch(&f, x, d, loss, -pn_dot(N, g, g), &rule, x_new, g_new, &r),
                     TN_OK);
    assert_int_not_equal(r.outcome, PN_SEARCH_FAILED);
    rule.first = r.alpha;
    pn_copy(N, x_new, x);
    pn_copy(N, g_new, g);
    loss = r.loss;
  }
  const double plain = loss;
  pn_opt *opt = opt_of("ssbroyden", N, NULL, 0);
  double theta[N] = {0};
  (void)opt_descend(opt, &f, theta, 0, STEPS, &loss);
  print_message("after %d steps: steepest descent %.1e, ssbroyden %.1e\n", STEPS, plain, loss);
  assert_true(loss < 1e-10 * plain); /* linear with ratio about 1 - 1/2500 against superlinear */
  pn_opt_free(&opt);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ssbroyden_update_is_the_formula),
      cmocka_unit_test(ssbroyden_bits_do_not_depend_on_threads),
      cmocka_unit_test(ssbroyden_secant_holds_for_long_rows),
      cmocka_unit_test(ssbroyden_refuses_what_does_not_fit),
      cmocka_unit_test(resampled_ssbroyden_keeps_or_resets_the_matrix),
      cmocka_unit_test(ssbroyden_beats_steepest_descent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
