/* test_data.c: measured points: columns and names, rows as points, sigma in the loss, refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/data.h"
#include "tests/support_loss.h"
#include "tests/support_problem.h"

static void write_file(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

#define PARTS                                                                                      \
  "domain = { x = [0, 1], t = [0, 2] }\nunknowns = { u = \"x, t\", k = \"x\" }\nconstants.c = 2\n"  \
  "parameters.a = 1\nequations = { heat = \"u_t = (k*u_x)_x + a\" }\nnetwork = { width = 6, depth " \
  "= 2 }\npoints = { interior = 64 }\n"
#define MEASURED(rest) PARTS "conditions.m = { equation = \"u = u_obs\", " rest " }\n"

static void a_file_gives_rows_in_any_order_of_columns(void **state) {
  (void)state;
  write_file("one.csv", "day,u,x,note\n0.5,3,0.25,1\n1.5,4,1,2\n");
  pn_problem *p = problem_of(
      MEASURED("data = \"one.csv\", columns = { t = \"day\", u_obs = \"u\" }, sigma = 0.5"));
  const pn_term *m = &p->conditions[0];
  assert_int_equal(m->where, PN_DATA);
  const pn_data *d = m->data;
  assert_int_equal(d->n, 2);
  assert_true(d->coordinate[0][1] == 1 && d->coordinate[1][0] == 0.5);
  assert_int_equal(d->n_columns, 2); /* u_obs and note */
  assert_true(d->column[pn_data_column(d, "u_obs")][1] == 4);
  assert_true(d->sigma == 0.5 && d->share == NULL);
  pn_problem_free(&p);
}

/* L = 1/3 sum share_i (u(x_i, t_i) - u_i)^2, share_i = (sigma/sigma_i)^2, 1/sigma^2 = mean 1/sigma_i^2. */
static void the_loss_is_the_weighted_misfit(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b,
            MEASURED("data = { x = [0, 0.5, 1], t = [0, 1, 2], u_obs = [1, 2, 3], s = [1, 2, 2] }, "
                     "sigma = \"s*c\""),
            TN_F64, 1);
  const pn_data *d = b.problem->conditions[0].data;
  double sums[2], residual[64 + 3], square = 3 / (1.0 / 4 + 2.0 / 16), L = 0;
  assert_true(fabs(d->sigma - sqrt(square)) < 1e-15);
  OK(b.f->terms(b.f, b.theta, sums, NULL));
  OK(b.f->residual(b.f, b.theta, residual));
  assert_int_equal(b.f->n_rows, 67);
  for (size_t i = 64; i < 67; ++i) /* rows of `measured` come after `heat` */
    L += residual[i] * residual[i];
  assert_true(fabs(L - sums[1]) < 1e-14 * L);
  /* and the rows themselves: without sigma they are F / sqrt(3) */
  loss_bench plain;
  loss_open(&plain, MEASURED("data = { x = [0, 0.5, 1], t = [0, 1, 2], u_obs = [1, 2, 3] }"), TN_F64,
            2);
  double F[67];
  OK(plain.f->residual(plain.f, plain.theta, F));
  for (size_t i = 0; i < 3; ++i) {
    double sigma = i == 0 ? 2 : 4;
    assert_true(fabs(residual[64 + i] - F[64 + i] * sqrt(square) / sigma) < 1e-14);
  }
  loss_close(&plain);
  loss_close(&b);
}

/* Two conditions with sigma: whatever the scales, their rows have the ratio of (F/sigma)^2. */
static void sigma_decides_between_conditions(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b,
            PARTS "conditions.m = { equation = \"u = 1\", data = { x = [0, 0.5, 1], t = [0, 1, 2] }, "
                  "sigma = 0.1 }\nconditions.n = { equation = \"u = 5\", data = { x = [0.5], t = [1] "
                  "}, sigma = 0.3 }\nconditions.o = { on = \"x = 0\", equation = \"u = 1\" }\n",
            TN_F64, 1);
  pn_loss_set_scale(b.loss, 1, 0, 4);
  pn_loss_set_scale(b.loss, 2, 0, 0.5);
  double weight[4] = {1, 1, 1, 1}, before[4], changed[4] = {1, 20, 7, 3};
  pn_data_weigh(b.loss, 4, weight);
  assert_true(weight[0] == 1 && weight[3] == 1 && weight[1] == 1);
  /* n (s / sigma)^2: 3 (4/0.1)^2 against (0.5/0.3)^2 */
  assert_true(fabs(weight[2] - (0.25 / 0.09) / (3 * 1600)) < 1e-15);
  memcpy(before, weight, sizeof before);
  changed[1] *= before[1];
  changed[2] *= before[2];
  pn_data_join(b.loss, 4, before, changed);
  assert_true(fabs(changed[1] - 7 * before[1]) < 1e-14 && fabs(changed[2] - 7 * before[2]) < 1e-16);
  assert_true(changed[0] == 1 && changed[3] == 3);
  loss_close(&b);
}

static void rows_are_never_drawn_and_used_whole(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, MEASURED("data = { x = [0.5, 0.25, 1], t = [0, 1, 2], u_obs = [1, 2, 3] }"), TN_F64,
            1);
  const pn_site *site = &b.sites->sites[b.sites->terms[1].site[0]];
  double first[3];
  memcpy(first, site->column[0], sizeof first);
  loss_draw(&b, 99);
  assert_memory_equal(first, site->column[0], sizeof first);
  assert_true(first[0] == 0.5 && first[1] == 0.25 && site->n == 3);
  OK(pn_loss_bind_batch(b.loss, 2, 1));
  assert_int_equal(b.f->n_rows, 2 + 3);
  const pn_draw validation = {.kind = PN_DRAW_CHECK, .seed = 1, .factor = 4};
  OK(pn_sites_draw(b.sites, &validation));
  assert_int_equal(site->n, 3);
  loss_close(&b);
}

/* A parameter measured directly has no coordinate: its rows are points all the same. */
static void columns_alone_make_points(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, PARTS "conditions.m = { equation = \"a = a_obs\", data = { a_obs = [3, 5] } }\n",
            TN_F64, 1);
  double r[66];
  OK(b.f->residual(b.f, b.theta, r));
  assert_int_equal(b.f->n_rows, 66);
  assert_true(fabs(r[64] + 2 / sqrt(2)) < 1e-15 && fabs(r[65] + 4 / sqrt(2)) < 1e-15);
  loss_close(&b);
}

static void missing_columns_are_named(void **state) {
  (void)state;
  write_file("two.csv", "x,t,u\n0.5,0.5,1\n");
  write_file("three.csv", "x,u_obs\n0.5,1\n");
  expect_refusal(MEASURED("data = \"two.csv\""), TN_EINPUT, "two.csv:1: no column `u_obs`, used in ",
                 "columns are x, t, u.", "columns = { u_obs = \"u\" }", NULL);
  expect_refusal(MEASURED("data = \"three.csv\""), TN_EINPUT, "three.csv:1: no column `t`",
                 "columns are x, u_obs", NULL);
  expect_refusal(MEASURED("data = \"two.csv\", columns = { u_obs = \"v\" }"), TN_EINPUT,
                 "no column `v`", "columns are x, t, u", NULL);
  expect_refusal(MEASURED("data = \"none.csv\""), TN_EINPUT, "there is no file none.csv", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1] }"), TN_EINPUT,
                 "`u_obs` is neither declared nor a column", "columns are x, t", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1, 2] }"), TN_EINPUT,
                 "column `u_obs` of the data of `m` has 2 numbers, `x` has 1", NULL);
}

static void rows_must_lie_in_the_domain(void **state) {
  (void)state;
  write_file("out.csv", "# laboratory\nx,t,u_obs\n0.5,0.5,1\n1.2,0.5,1\n");
  expect_refusal(MEASURED("data = \"out.csv\""), TN_EINPUT, "out.csv:4: row 2: x = 1.2 lies outside",
                 "x in [0, 1]", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [3], u_obs = [1] }"), TN_EINPUT,
                 "row 1 of the data of `m`: t = 3 lies outside", NULL);
  write_file("close.csv", "x,t,u_obs\n1.0000000001,0.5,1\n"); /* rounding of numbers that were written */
  pn_problem *p = problem_of(MEASURED("data = \"close.csv\""));
  assert_true(p->conditions[0].data->coordinate[0][0] == 1);
  pn_problem_free(&p);
}

static void spoilt_files_are_refused(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"x,t,u_obs\n0.5,nan,1\n", "bad.csv:2: `nan` in column `t`"},
      {"x,t,u_obs\n0.5,1\n", "bad.csv:2: the line has 2 fields"},
      {"x;t;u_obs\n0.5;1;1\n", "must be separated by commas"},
      {"x,x,u_obs\n0.5,1,1\n", "two columns are called `x`"},
      {"x,t,u_obs\n", "no rows below the header"},
      {"0.5,1,1\n", "the first line must name the columns"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    write_file("bad.csv", texts[i][0]);
    expect_refusal(MEASURED("data = \"bad.csv\""), TN_EINPUT, texts[i][1], NULL);
  }
}

/* One number a row is never spread over the components of a vector. */
static void nothing_is_broadcast(void **state) {
  (void)state;
  expect_refusal(PARTS "conditions.m = { equation = \"(u, u_x) = T\", data = { x = [0.5], t = [1], T "
                       "= [1] } }\n",
                 TN_EINPUT, "the sides have 2 and 1 components", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [[1, 2]] }"), TN_EINPUT,
                 "column `u_obs` of the data of `m` holds an array", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = 1 }"), TN_EINPUT,
                 "column `u_obs` of the data of `m` is", "a list of numbers", NULL);
}

static void names_of_columns_are_names(void **state) {
  (void)state;
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1], u = [1] }"), TN_EINPUT,
                 "`u` is an unknown and cannot be a column", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1], u_x = [1] }"), TN_EINPUT,
                 "`u_x` is a derivative and cannot be a column", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], v = [1] }, columns = { u_obs = \"v\", w = "
                          "\"v\" }"),
                 TN_EINPUT, "column `v` is given two names", NULL);
  expect_refusal(PARTS "conditions.m = { equation = \"u = (c*u_obs)_x\", data = { x = [0.5], t = "
                       "[1], u_obs = [1] } }\n",
                 TN_EINPUT, "a column of data has no derivatives", NULL);
  expect_refusal(PARTS "conditions.m = { equation = \"mean(u*u_obs, domain) = 1\", data = { u_obs = "
                       "[1] } }\n",
                 TN_EINPUT, "rows of its data only", NULL);
}

static void data_say_where(void **state) {
  (void)state;
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1] }, on = \"x = 0\""), TN_EINPUT,
                 "`m` has data, whose rows are its points, and `on`", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1] }, hard = true"), TN_EINPUT,
                 "and `hard`", NULL);
  expect_refusal(MEASURED("data = { x = [0.5], t = [1], u_obs = [1] }, sigma = 0"), TN_EINPUT,
                 "sigma is 0 in row 1", NULL);
  expect_refusal(PARTS "conditions.m = { equation = \"u = 0\", on = \"x = 0\", sigma = 1 }\n",
                 TN_EINPUT, "`m` has no data", NULL);
}

static void checks_are_conditions_without_a_loss(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b,
            PARTS "checks = { far = { data = { x = [1], u_ref = [2] }, equation = \"u(t=1) = u_ref\", "
                  "accept = 1e-2 }, wall = { on = \"x = 0\", equation = \"u = 0\" } }\n",
            TN_F64, 1);
  assert_int_equal(b.f->n_terms, 1);
  assert_int_equal(b.problem->n_checks, 2);
  assert_true(b.problem->checks[0].accept == 1e-2 && isnan(b.problem->checks[1].accept));
  assert_true(b.problem->checks[0].is_check && b.problem->checks[0].data->n == 1);
  loss_close(&b);
  expect_refusal(PARTS "checks.heat = { on = \"x = 0\", equation = \"u = 0\" }\n", TN_EINPUT,
                 "`heat` is an equation (line 5) and a check", NULL);
  expect_refusal(PARTS "checks.w = { on = \"x = 0\", equation = \"u = 0\", accept = -1 }\n", TN_EINPUT,
                 "`accept` of `w` is -1", NULL);
  expect_refusal(PARTS "checks.w = { on = \"x = 0\", equation = \"u = 0\", weight = 2 }\n", TN_EINPUT,
                 "weight", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_gives_rows_in_any_order_of_columns),
      cmocka_unit_test(the_loss_is_the_weighted_misfit),
      cmocka_unit_test(sigma_decides_between_conditions),
      cmocka_unit_test(rows_are_never_drawn_and_used_whole),
      cmocka_unit_test(columns_alone_make_points),
      cmocka_unit_test(missing_columns_are_named),
      cmocka_unit_test(rows_must_lie_in_the_domain),
      cmocka_unit_test(spoilt_files_are_refused),
      cmocka_unit_test(nothing_is_broadcast),
      cmocka_unit_test(names_of_columns_are_names),
      cmocka_unit_test(data_say_where),
      cmocka_unit_test(checks_are_conditions_without_a_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
