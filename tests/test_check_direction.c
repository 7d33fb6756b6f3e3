/* test_check_direction.c: what `pinn check` says about the way in which the time runs, and about an ansatz.
 * ctest: labels=quick,check timeout=60
 */
#include "pinn/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
  size_t errors, warnings;
  char text[1 << 15];
} last;

static void check(const char *problem_text) {
  pn_problem *problem = NULL;
  const pn_check_options options = {0};
  FILE *file = tmpfile();
  assert_non_null(file);
  memset(&last, 0, sizeof last);
  if (pn_problem_parse("p.toml", problem_text, 0, NULL, &problem) != TN_OK)
    fail_msg("the test's own problem: %s", tn_error_text());
  if (pn_check(problem, &options, file, &last.errors, &last.warnings) != TN_OK)
    fail_msg("%s", tn_error_text());
  rewind(file);
  last.text[fread(last.text, 1, sizeof last.text - 1, file)] = '\0';
  fclose(file);
  pn_problem_free(&problem);
}

static void expect(size_t errors, size_t warnings) {
  if (last.errors != errors || last.warnings != warnings)
    fail_msg("%zu errors, %zu warnings, expected %zu and %zu:\n%s", last.errors, last.warnings, errors,
             warnings, last.text);
}

static void says(const char *words) {
  if (!strstr(last.text, words))
    fail_msg("no \"%s\" in:\n%s", words, last.text);
}

static void says_not(const char *words) {
  if (strstr(last.text, words))
    fail_msg("\"%s\" in:\n%s", words, last.text);
}

/* u_t = s u_xx with conditions at one end of the time: only one of the two signs goes with each end. */
static void heat(const char *sign, const char *end, const char *equation) {
  char text[600];
  snprintf(text, sizeof text,
           "domain = { x = [0, 1], t = [0, 2] }\nunknowns = { u = \"x, t\" }\n"
           "equations = { heat = \"%s%s\" }\n"
           "conditions = { first = { on = \"t = t.%s\", equation = \"u = x*(1 - x)\" }, "
           "walls = { on = \"boundary\", equation = \"u = 0\" } }\n",
           equation, sign, end);
  check(text);
}

static void direction_of_the_time_must_fit_the_diffusion(void **state) {
  (void)state;
  heat("0.1*u_xx + 5*u", "min", "u_t = ");
  expect(0, 0);
  heat("-0.1*u_xx", "min", "u_t = ");
  expect(0, 1);
  says("`u` cannot be solved from conditions at the start of `t`: short waves of `u` along `x` grow");
  heat("-0.1*u_xx", "max", "u_t = ");
  expect(0, 0);
  heat("(1 + u^2)*0.1*lap(u)", "max", "u_t = ");
  expect(0, 1);
  says("at the end of `t`");
  heat("((1 + x)*u_x)_x", "min", "-u_t + 0*u = "); /* the coefficient of u_t counts too */
  expect(0, 1);
}

/* u_xxxx fades with the other sign than u_xx; odd orders have no direction. */
static void direction_follows_the_highest_order(void **state) {
  (void)state;
  static const char *const right[] = {"u_t + u_xx + 0.01*u_xxxx = 0", "u_t + u*u_x + u_xxx = 0"};
  for (int i = 0; i < 3; ++i) {
    char text[500];
    snprintf(text, sizeof text,
             "domain = { x = { range = [0, 1], periodic = true }, t = [0, 2] }\n"
             "unknowns = { u = \"x, t\" }\nequations = { e = \"%s\" }\n"
             "conditions = { first = { on = \"t = 0\", equation = \"u = sin(2*pi*x)\" } }\n",
             i < 2 ? right[i] : "u_t + u_xx - 0.01*u_xxxx = 0");
    check(text);
    expect(0, i == 2);
  }
}

static void second_order_in_time_must_be_waves(void **state) {
  (void)state;
  static const char *const equation[] = {"u_tt = 3*u_xx", "u_tt + 3*u_xx = 0"};
  for (int i = 0; i < 2; ++i) {
    char text[600];
    snprintf(text, sizeof text,
             "domain = { x = [0, 1], t = [0, 2] }\nunknowns = { u = \"x, t\" }\n"
             "equations = { e = \"%s\" }\n"
             "conditions = { first = { on = \"t = 0\", equation = [\"u = x*(1 - x)\", \"u_t = 0\"] }, "
             "walls = { on = \"boundary\", equation = \"u = 0\" } }\n",
             equation[i]);
    check(text);
    expect(0, (size_t)i);
  }
}

static void conditions_across_what_nothing_differentiates_are_a_warning(void **state) {
  (void)state;
  check("domain = { x = [0, 1], t = [0, 2] }\nunknowns = { u = \"x, t\" }\n"
        "equations = { e = \"u_xx = 5*u + t\" }\n"
        "conditions = { first = { on = \"t = 0\", equation = \"u = x\" }, "
        "walls = { on = \"boundary\", equation = \"u = x\" } }\n");
  expect(0, 1);
  says("no equation for `u` has a derivative along `t`, but there are conditions across it: `first` (u = x)");
}

static void ansatz_that_is_never_zero_excludes_zero(void **state) {
  (void)state;
  static const char *const ansatz[] = {"t*net", "0.5 + t*net", "exp(net)"};
  for (int i = 0; i < 3; ++i) {
    char text[400];
    snprintf(text, sizeof text,
             "domain = { t = [0, 2] }\nunknowns = { u = { of = \"t\", ansatz = \"%s\" } }\n"
             "equations = { e = \"u_t = u\" }\n"
             "conditions = { start = { on = \"t = 0\", equation = \"u_t = u\" } }\n",
             ansatz[i]);
    check(text);
    if (i == 0)
      says("fulfils every equation and condition");
    else
      says_not("fulfils every equation and condition");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(direction_of_the_time_must_fit_the_diffusion),
      cmocka_unit_test(direction_follows_the_highest_order),
      cmocka_unit_test(second_order_in_time_must_be_waves),
      cmocka_unit_test(conditions_across_what_nothing_differentiates_are_a_warning),
      cmocka_unit_test(ansatz_that_is_never_zero_excludes_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
