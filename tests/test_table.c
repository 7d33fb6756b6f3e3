/* test_table.c: CSV reading and its errors, writing, and the laws of cubic splines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pinn/table.h"

#define OK(call) assert_int_equal((call), TN_OK)

static pn_table *parse(const char *text) {
  pn_table *t = NULL;
  OK(pn_table_parse("sensors.csv", text, strlen(text), &t));
  return t;
}

static void refused(const char *text, const char *error) {
  pn_table *t = NULL;
  assert_int_equal(pn_table_parse("sensors.csv", text, strlen(text), &t), TN_EINPUT);
  assert_string_equal(tn_error_text(), error);
  assert_null(t);
}

static void table_reads_columns_by_name(void **state) {
  (void)state;
  pn_table *t = parse("\xef\xbb\xbf# measured on Monday\r\n x , \"t\",\"u, \"\"raw\"\"\"\r\n\r\n"
                      "1,2,3\r\n  # a remark\n -1.5e-3 ,\t\".5\" , +7");
  const double *x = NULL;
  assert_int_equal(pn_table_rows(t), 2);
  assert_int_equal(pn_table_columns(t), 3);
  assert_string_equal(pn_table_column_name(t, 2), "u, \"raw\"");
  OK(pn_table_column(t, "x", &x));
  assert_true(x[0] == 1 && x[1] == -1.5e-3);
  OK(pn_table_column(t, "t", &x));
  assert_true(x[0] == 2 && x[1] == 0.5);
  OK(pn_table_column(t, "u, \"raw\"", &x));
  assert_true(x[0] == 3 && x[1] == 7);
  assert_int_equal(pn_table_line(t, 0), 4);
  assert_int_equal(pn_table_line(t, 1), 6);
  pn_table_free(&t);
  assert_null(t);
}

static void table_names_what_is_missing(void **state) {
  (void)state;
  const double *x = NULL;
  pn_table *t = parse("x,t,u\n1,2,3\n");
  assert_int_equal(pn_table_column(t, "u_obs", &x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "sensors.csv:1: no column `u_obs`; columns are x, t, u.");
  pn_table_free(&t);
  t = parse("# one\n# two\nx\n");
  assert_int_equal(pn_table_rows(t), 0);
  assert_int_equal(pn_table_column(t, "y", &x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "sensors.csv:3: no column `y`; columns are x.");
  pn_table_free(&t);
}

static void table_errors_name_the_line(void **state) {
  (void)state;
  refused("", "sensors.csv:1: the file is empty; expected a header");
  refused("x,t\n1,2\n1,two\n", "sensors.csv:3: `two` in column `t` is not a finite decimal number");
  refused("x,t\n1,\n", "sensors.csv:2: `` in column `t` is not a finite decimal number");
  refused("x,t\nnan,1\n", "sensors.csv:2: `nan` in column `x` is not a finite decimal number");
  refused("x,t\n1e999,1\n", "sensors.csv:2: `1e999` in column `x` is not a finite decimal number");
  refused("x,t\n1\n", "sensors.csv:2: the line has 1 fields, the header (line 1) has 2");
  refused("x,t\n1,2,3\n", "sensors.csv:2: the line has 3 fields, the header (line 1) has 2");
  refused("x,t,x\n", "sensors.csv:1: two columns are called `x`");
  refused("x,,t\n", "sensors.csv:1: column 2 has no name");
  refused("x;t\n1;2\n", "sensors.csv:1: columns must be separated by commas; found `x;t`");
  refused("0.5,1\n",
          "sensors.csv:1: the first line must name the columns (as in `x,t,u`); found the "
          "number `0.5`");
  refused("x,\"t\n1,2\n", "sensors.csv:1: a quoted field does not end on its line");
  refused("x,\"t\" u\n", "sensors.csv:1: found `u` after a quoted field, expected a comma");
}

static void table_writes_what_it_reads(void **state) {
  (void)state;
  enum { ROWS = 1000 };
  static const char *const names[] = {"x", "a,b", "#c", " d", "e\"f"};
  const char *path = "test_table.csv";
  pn_table *t = NULL, *back = NULL;
  tn_stream stream = tn_stream_of(2, "table");
  OK(pn_table_new("made", 5, names, ROWS, &t));
  for (size_t k = 0; k < 5; ++k)
    for (size_t i = 0; i < ROWS; ++i) /* all magnitudes */
      pn_table_data(t, k)[i] =
          ldexp(tn_random_uniform(stream, k * ROWS + i) - 0.5, (int)(i % 2000) - 1000);
  OK(pn_table_write(t, path));
  OK(pn_table_read(path, &back));
  unlink(path);
  assert_int_equal(pn_table_rows(back), ROWS);
  for (size_t k = 0; k < 5; ++k) {
    assert_string_equal(pn_table_column_name(back, k), names[k]);
    assert_memory_equal(pn_table_data(back, k), pn_table_data(t, k), ROWS * sizeof(double));
  }
  assert_null(pn_table_data(t, 5));
  pn_table_free(&t);
  pn_table_free(&back);
}

static void table_survives_each_failed_allocation(void **state) {
  (void)state;
  char text[2048] = "x,y\n";
  size_t failures = 0;
  for (int i = 0; i < 150; ++i) /* the arrays grow twice */
    strcat(text, "1,2\n");
  for (uint64_t k = 1;; ++k) {
    pn_table *t = NULL;
    tn_fault_at(k, false);
    tn_status status = pn_table_parse("f", text, strlen(text), &t);
    tn_fault_at(0, false);
    pn_table_free(&t);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
    ++failures;
  }
  assert_true(failures > 10);
}

/* ---- Splines --------------------------------------------------------------------------------- */

static double cubic(double x) { return 1 - 2 * x + 3 * x * x - 0.5 * x * x * x; }

static void spline_reproduces_cubics_on_uneven_points(void **state) {
  (void)state;
  const double x[] = {-1, -0.7, 0.1, 0.15, 1, 2.5};
  double y[6];
  for (size_t n = 4; n <= 6; ++n) {
    pn_spline *s = NULL;
    for (size_t i = 0; i < n; ++i)
      y[i] = cubic(x[i]);
    OK(pn_spline_new(n, x, y, PN_NOT_A_KNOT, &s));
    for (double at = -1; at <= x[n - 1]; at += 0.01)
      /* values up to 8; divided differences over the gap 0.05 magnify 2^-53 * 8 by 4 / 0.05^2 in M,
       * which enters with h^2 / 8 <= 0.3: about 4e-13 */
      assert_true(fabs(pn_spline_at(s, at) - cubic(at)) < 1e-12);
    pn_spline_free(&s);
  }
}

static void spline_of_few_points_is_a_polynomial(void **state) {
  (void)state;
  const double x[] = {0, 1, 3}, y[] = {1, 2, 10}; /* 1 + x^2 */
  pn_spline *s = NULL;
  OK(pn_spline_new(3, x, y, PN_NOT_A_KNOT, &s));
  assert_true(fabs(pn_spline_at(s, 2) - 5) < 16 * DBL_EPSILON * 10);
  pn_spline_free(&s);
  OK(pn_spline_new(2, x, y, PN_NOT_A_KNOT, &s));
  assert_true(pn_spline_at(s, 0.5) == 1.5);
  pn_spline_free(&s);
}

/* The largest error for sin on [0, 3] with n + 1 equal steps. */
static double sine_error(size_t n, pn_spline_end end) {
  double x[200], y[200], worst = 0;
  pn_spline *s = NULL;
  for (size_t i = 0; i <= n; ++i)
    y[i] = sin(x[i] = 3 * (double)i / (double)n);
  OK(pn_spline_new(n + 1, x, y, end, &s));
  for (double at = 0; at <= 3; at += 0.001)
    worst = fmax(worst, fabs(pn_spline_at(s, at) - sin(at)));
  pn_spline_free(&s);
  return worst;
}

static void spline_converges_with_fourth_order(void **state) {
  (void)state;
  double order = log2(sine_error(40, PN_NOT_A_KNOT) / sine_error(80, PN_NOT_A_KNOT));
  assert_true(order > 3.8 && order < 4.3); /* O(h^4) in the maximum norm, ends included */
  order = log2(sine_error(40, PN_NATURAL) / sine_error(80, PN_NATURAL));
  assert_true(order > 1.8 && order < 2.2); /* sin'' is not 0 at 3: O(h^2) there */
}

static void spline_natural_is_what_the_equations_say(void **state) {
  (void)state;
  const double x[] = {0, 1, 2}, y[] = {0, 1, 0}; /* M = (0, -3, 0): s(0.5) = 1/2 + 3/16 */
  pn_spline *s = NULL;
  OK(pn_spline_new(3, x, y, PN_NATURAL, &s));
  assert_true(fabs(pn_spline_at(s, 0.5) - 0.6875) < 4 * DBL_EPSILON);
  assert_true(fabs(pn_spline_at(s, 1.5) - 0.6875) < 4 * DBL_EPSILON);
  pn_spline_free(&s);
}

static void spline_is_exact_at_points_and_nan_outside(void **state) {
  (void)state;
  double x[50], y[50];
  tn_stream stream = tn_stream_of(3, "spline");
  pn_spline *s = NULL;
  for (size_t i = 0; i < 50; ++i) {
    x[i] = (double)i + 0.9 * tn_random_uniform(stream, 2 * i);
    y[i] = tn_random_normal(stream, 2 * i + 1);
  }
  OK(pn_spline_new(50, x, y, PN_NOT_A_KNOT, &s));
  for (size_t i = 0; i < 50; ++i)
    assert_true(pn_spline_at(s, x[i]) == y[i]);
  assert_true(isnan(pn_spline_at(s, nextafter(x[0], -1))));
  assert_true(isnan(pn_spline_at(s, nextafter(x[49], 99))));
  assert_true(isnan(pn_spline_at(s, NAN)));
  pn_spline_free(&s);
}

static void spline_refuses_bad_points(void **state) {
  (void)state;
  pn_spline *s = NULL;
  assert_int_equal(pn_spline_new(1, (double[]){0}, (double[]){0}, PN_NATURAL, &s), TN_EINPUT);
  assert_int_equal(pn_spline_new(3, (double[]){0, 1, 1}, (double[]){0, 0, 0}, PN_NATURAL, &s),
                   TN_EINPUT);
  assert_int_equal(pn_spline_new(2, (double[]){0, NAN}, (double[]){0, 0}, PN_NATURAL, &s),
                   TN_EINPUT);
  assert_int_equal(pn_spline_new(2, (double[]){0, 1}, (double[]){0, INFINITY}, PN_NATURAL, &s),
                   TN_EINPUT);
  assert_null(s);
}

static void bicubic_reproduces_products_of_cubics(void **state) {
  (void)state;
  enum { NX = 5, NY = 7 };
  double x[NX], y[NY], f[NX * NY];
  pn_bicubic *b = NULL;
  for (size_t i = 0; i < NX; ++i)
    x[i] = -1 + 0.5 * (double)i + 0.05 * (double)(i * i);
  for (size_t j = 0; j < NY; ++j)
    y[j] = 0.3 * (double)j;
  for (size_t i = 0; i < NX; ++i)
    for (size_t j = 0; j < NY; ++j)
      f[i * NY + j] = cubic(x[i]) * (y[j] * y[j] * y[j] - 2);
  OK(pn_bicubic_new(NX, x, NY, y, f, PN_NOT_A_KNOT, &b));
  for (double s = -1; s <= x[NX - 1]; s += 0.07)
    for (double t = 0; t <= 1.8;
         t += 0.07) /* |f| <= 30: 2^-53 * 30, magnified by about 4 * 4 / 8 * 2 */
      assert_true(fabs(pn_bicubic_at(b, s, t) - cubic(s) * (t * t * t - 2)) < 1e-13);
  for (size_t i = 0; i < NX; ++i)
    assert_true(pn_bicubic_at(b, x[i], y[i]) == f[i * NY + i]);
  assert_true(isnan(pn_bicubic_at(b, -1.01, 1)) && isnan(pn_bicubic_at(b, 0, 1.9)));
  pn_bicubic_free(&b);
}

static void bicubic_of_a_table_needs_a_complete_grid(void **state) {
  (void)state;
  pn_table *t =
      parse("x,y,f\n1,0,5\n0,0,1\n0,2,3\n1,2,7\n1,1,6\n0,1,2\n"); /* f = 1 + 4 x + y, shuffled */
  pn_bicubic *b = NULL;
  OK(pn_bicubic_of_table(t, "x", "y", "f", PN_NOT_A_KNOT, &b));
  assert_true(fabs(pn_bicubic_at(b, 0.25, 1.5) - 3.5) < 32 * DBL_EPSILON);
  pn_bicubic_free(&b);
  pn_table_free(&t);
  static const char *const bad[] = {"x,y,f\n0,0,1\n0,1,1\n1,0,1\n",               /* one missing */
                                    "x,y,f\n0,0,1\n0,1,1\n1,0,1\n1,2,1\n",        /* elsewhere */
                                    "x,y,f\n0,0,1\n0,1,1\n1,0,1\n1,1,1\n1,1,2\n", /* twice */
                                    "x,y,f\n0,0,1\n0,1,1\n",
                                    "x,y,f\n0,0,1\n1,0,1\n",
                                    "x,y,f\n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    t = parse(bad[i]);
    assert_int_equal(pn_bicubic_of_table(t, "x", "y", "f", PN_NOT_A_KNOT, &b), TN_EINPUT);
    assert_null(b);
    pn_table_free(&t);
  }
}

static void spline_of_a_table_sorts_the_rows(void **state) {
  (void)state;
  pn_table *t = parse("t,q\n3,10\n0,1\n1,2\n2,5\n"); /* 1 + t^2 */
  pn_spline *s = NULL;
  OK(pn_spline_of_table(t, "t", "q", PN_NOT_A_KNOT, &s));
  assert_true(fabs(pn_spline_at(s, 1.5) - 3.25) < 16 * DBL_EPSILON * 10);
  pn_spline_free(&s);
  assert_int_equal(pn_spline_of_table(t, "t", "r", PN_NOT_A_KNOT, &s), TN_EINPUT);
  pn_table_free(&t);
  t = parse("t,q\n0,1\n1,2\n0,5\n");
  assert_int_equal(pn_spline_of_table(t, "t", "q", PN_NOT_A_KNOT, &s), TN_EINPUT);
  assert_string_equal(tn_error_text(),
                      "sensors.csv:4: the same place as line 2; each may stand once in a table");
  pn_table_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_reads_columns_by_name),
      cmocka_unit_test(table_names_what_is_missing),
      cmocka_unit_test(table_errors_name_the_line),
      cmocka_unit_test(table_writes_what_it_reads),
      cmocka_unit_test(table_survives_each_failed_allocation),
      cmocka_unit_test(spline_reproduces_cubics_on_uneven_points),
      cmocka_unit_test(spline_of_few_points_is_a_polynomial),
      cmocka_unit_test(spline_converges_with_fourth_order),
      cmocka_unit_test(spline_natural_is_what_the_equations_say),
      cmocka_unit_test(spline_is_exact_at_points_and_nan_outside),
      cmocka_unit_test(spline_refuses_bad_points),
      cmocka_unit_test(bicubic_reproduces_products_of_cubics),
      cmocka_unit_test(bicubic_of_a_table_needs_a_complete_grid),
      cmocka_unit_test(spline_of_a_table_sorts_the_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
