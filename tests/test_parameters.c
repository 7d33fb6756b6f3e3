/* test_parameters.c: numbers to be found: their maps, their columns of J, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_loss.h"
#include "tests/support_problem.h"

/* Four maps; a in an equation, b in a condition, c in an ansatz, d with b in a definition. */
static const char *const file =
    "domain = { x = [-1, 1], t = [0, 1] }\n"
    "parameters = { a = -0.5, b = { start = 0.3, bounds = [0.1, 5] }, c = { start = 2, log = true },"
    " d = { start = 0.02, bounds = [1e-3, 1], log = true } }\n"
    "definitions = { k = \"d*exp(-b*x)\" }\n"
    "unknowns = { u = { of = \"x, t\", ansatz = \"c*net\" } }\n"
    "equations = { heat = \"u_t + a*u*u_x = (k*u_x)_x + c\" }\n"
    "conditions = { initial = { on = \"t = 0\", equation = \"u = b*sin(pi*x)\" },"
    " level = { equation = \"mean(u^2, domain) = d\" },"
    " walls = { on = \"boundary\", equation = \"u = x^twice\" } }\n"
    "constants = { twice = 2 }\n"
    "network = { width = 6, depth = 2 }\npoints = { interior = 64 }\n";

static void maps_start_at_the_start_and_keep_bounds(void **state) {
  (void)state;
  pn_problem *p = problem_of(file);
  for (size_t i = 0; i < p->n_parameters; ++i) {
    const pn_parameter *k = &p->parameters[i];
    assert_true(fabs(pn_parameter_of(k, 0) - k->start) <= 4e-16 * fabs(k->start));
    for (double z = -3; z <= 3; z += 0.75) {
      const double h = 1e-5; /* error h^2 f''' / 6 + u f / h, f''' up to 4^3 f */
      double slope = (pn_parameter_of(k, z + h) - pn_parameter_of(k, z - h)) / (2 * h);
      double size = fabs(pn_parameter_of(k, z)) + fabs(pn_parameter_slope(k, z));
      assert_true(fabs(slope - pn_parameter_slope(k, z)) < 1e-8 * size);
      assert_true(pn_parameter_of(k, 100 * z) >= k->lo && pn_parameter_of(k, 100 * z) <= k->hi);
    }
  }
  assert_true(fabs(pn_parameter_of(&p->parameters[2], 1) / 20 - 1) < 1e-15); /* a decade */
  pn_problem_free(&p);
}

static void blocks_stand_last_by_name(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, file, TN_F64, 1);
  const pn_model *m = b.model;
  assert_int_equal(m->first_parameter + 4, m->n_theta);
  for (size_t i = 0; i < 4; ++i) {
    const pn_block *block = &m->blocks[m->parameter_block[i]];
    assert_int_equal(block->offset, m->first_parameter + i);
    assert_int_equal(block->count, 1);
    assert_true(b.theta[block->offset] == 0);
  }
  assert_string_equal(m->blocks[m->parameter_block[1]].name, "parameter.b");
  loss_close(&b);
}

/* Every column of J that belongs to a parameter: rows, J v, J^T w, the gradient and differences of r.
 * Differences at h = 1e-5: h^2 r''' / 6 + u r / h, below 1e-8 of the largest entry. */
static void columns_of_parameters_agree_with_differences(void **state) {
  (void)state;
  const double h = 1e-5;
  loss_bench b;
  loss_open(&b, file, TN_F64, 2);
  size_t n = b.f->n, N = b.f->n_rows;
  for (size_t i = 0; i < 4; ++i) /* away from the start */
    b.theta[b.model->first_parameter + i] = 0.1 * (double)(i + 1);
  double *J = loss_numbers(N * n), *g = loss_numbers(n), *e = loss_numbers(n), *r = loss_numbers(N),
         *at = loss_numbers(n), *r1 = loss_numbers(N), *r2 = loss_numbers(N), *jv = loss_numbers(N),
         *jw = loss_numbers(n), *bend = loss_numbers(N), loss = 0;
  OK(b.f->rows(b.f, b.theta, 0, N, r, J));
  OK(b.f->gradient(b.f, b.theta, &loss, g));
  for (size_t j = b.model->first_parameter; j < n; ++j) {
    double size = 0, slope = 0;
    memset(e, 0, n * sizeof *e);
    e[j] = 1;
    OK(b.f->jvp(b.f, b.theta, e, jv));
    OK(b.f->second(b.f, b.theta, e, bend));
    memcpy(at, b.theta, n * sizeof *at);
    at[j] = b.theta[j] + h;
    OK(b.f->jvp(b.f, at, e, r1));
    at[j] = b.theta[j] - h;
    OK(b.f->jvp(b.f, at, e, r2));
    for (size_t i = 0; i < N; ++i) /* r'' against differences of r' */
      assert_true(fabs((r1[i] - r2[i]) / (2 * h) - bend[i]) < 1e-6 * (1 + fabs(bend[i])));
    at[j] = b.theta[j] + h;
    OK(b.f->residual(b.f, at, r1));
    at[j] = b.theta[j] - h;
    OK(b.f->residual(b.f, at, r2));
    for (size_t i = 0; i < N; ++i) {
      size = fmax(size, fabs(jv[i]));
      slope += 2 * r[i] * jv[i];
    }
    assert_true(size > 0);
    for (size_t i = 0; i < N; ++i) {
      assert_true(fabs(J[i * n + j] - jv[i]) < 1e-12 * size);
      assert_true(fabs((r1[i] - r2[i]) / (2 * h) - jv[i]) < 1e-8 * (size + 1));
    }
    assert_true(fabs(slope - g[j]) < 1e-11 * (1 + fabs(slope)));
  }
  OK(b.f->vjp(b.f, b.theta, r, jw));
  for (size_t j = b.model->first_parameter; j < n; ++j)
    assert_true(fabs(2 * jw[j] - g[j]) < 1e-11 * (1 + fabs(g[j])));
  double *all[] = {J, g, e, r, at, r1, r2, jv, jw, bend};
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k)
    tn_free(&all[k]);
  loss_close(&b);
}

static double loss_of(const char *text, tn_dtype dtype, size_t threads) {
  loss_bench b;
  double loss = 0;
  loss_open(&b, text, dtype, threads);
  OK(b.f->loss(b.f, b.theta, &loss));
  loss_close(&b);
  return loss;
}

#define ODE(table)                                                                                 \
  "domain = { t = [0, 1] }\n" table "unknowns = { y = \"t\" }\nequations = { decay = \"y_t = -a*y "  \
  "+ b\" }\nconditions = { start = { on = \"t = 0\", equation = \"y = b\" } }\nnetwork.width = 6\n"  \
  "points.interior = 64\n"

static void at_its_start_a_parameter_is_the_constant(void **state) {
  (void)state;
  double fixed = loss_of(ODE("constants = { a = 3, b = 0.7 }\n"), TN_F64, 1);
  assert_true(loss_of(ODE("parameters = { a = 3, b = 0.7 }\n"), TN_F64, 1) == fixed);
  assert_true(loss_of(ODE("parameters = { b = 0.7, a = 3 }\n"), TN_F64, 2) == fixed);
  double single = loss_of(ODE("parameters = { a = 3, b = 0.7 }\n"), TN_F32, 1);
  assert_true(fabs(single - fixed) < 1e-5 * fixed && single != fixed);
}

static void what_cannot_be_found_is_refused(void **state) {
  (void)state;
  expect_refusal(ODE("parameters = { a = 3 }\nconstants = { b = \"2*a\" }\n"), TN_EINPUT,
                 "`a` is a parameter", "a constant cannot", NULL);
  expect_refusal(ODE("parameters = { a = { start = 3, bounds = [3, 4] }, b = 1 }\n"), TN_EINPUT,
                 "test.toml:2:", "strictly between its bounds 3 and 4", NULL);
  expect_refusal(ODE("parameters = { a = { start = -3, log = true }, b = 1 }\n"), TN_EINPUT,
                 "the start -3 of `a` with log = true", NULL);
  expect_refusal(ODE("parameters = { a = { start = 3, bounds = [-1, 4], log = true }, b = 1 }\n"),
                 TN_EINPUT, "both must be above 0", NULL);
  expect_refusal(ODE("parameters = { a = { start = 3, bounds = [5, 4] }, b = 1 }\n"), TN_EINPUT,
                 "the first number must be below the second", NULL);
  expect_refusal(ODE("parameters = { a = { log = true }, b = 1 }\n"), TN_EINPUT, "has no start",
                 NULL);
  expect_refusal(ODE("parameters = { a = 1, b = 1, y = 2 }\n"), TN_EINPUT,
                 "`y` is an unknown (line 3) and a parameter", NULL);
  expect_refusal(ODE("parameters = { a = 1, b = 1 }\nexact = { y = \"exp(-a*t)\" }\n"), TN_EINPUT,
                 "[exact] has no value of `a`", NULL);
  expect_refusal(ODE("parameters = { a = 1, b = { start = 1, bounds = [0, 2] } }\nexact.b = 3\n"),
                 TN_EINPUT, "exact value 3 of `b` lies outside its bounds [0, 2]", NULL);
  expect_refusal(ODE("parameters = { a = 1, b = 1 }\nexact.k = 3\n"), TN_EINPUT,
                 "`k` in [exact] is not", NULL);
  expect_refusal(ODE("parameters = { a = 1, b = 1 }\nexact.b = 3\naccept.error = { a = 0.1 }\n"),
                 TN_EINPUT, "accept.error asks for the error of `a`", NULL);
}

static void regions_weights_and_ranges_have_none(void **state) {
  (void)state;
  expect_refusal("domain = { t = [0, \"a\"] }\nparameters.a = 1\nunknowns.y = \"t\"\n"
                 "equations.e = \"y_t = a\"\n",
                 TN_EINPUT, "`a` is a parameter", NULL);
  expect_refusal("domain = { t = [0, 2] }\nparameters.a = 1\nunknowns.y = \"t\"\n"
                 "equations.e = \"y_t = a\"\nconditions.c = { on = \"t = a\", equation = \"y = 0\" }\n",
                 TN_EINPUT, "`a` is a parameter; a region cannot use it", NULL);
  expect_refusal("domain = { t = [0, 2] }\nparameters.a = 1\nunknowns.y = \"t\"\n"
                 "definitions.w = \"a*t\"\n"
                 "equations.e = { equation = \"y_t = a\", weight = \"w\" }\n",
                 TN_EINPUT, "`w` is a definition with a parameter in it; a weight cannot", NULL);
  expect_refusal("domain = { t = [0, 2] }\nparameters.a = 1\nunknowns.y = \"t\"\n"
                 "equations.e = \"y_t = a_t\"\n",
                 TN_EINPUT, "`a_t`: a is a parameter and has no derivatives", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_start_at_the_start_and_keep_bounds),
      cmocka_unit_test(blocks_stand_last_by_name),
      cmocka_unit_test(columns_of_parameters_agree_with_differences),
      cmocka_unit_test(at_its_start_a_parameter_is_the_constant),
      cmocka_unit_test(what_cannot_be_found_is_refused),
      cmocka_unit_test(regions_weights_and_ranges_have_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
