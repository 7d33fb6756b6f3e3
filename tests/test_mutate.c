/* test_mutate.c: the maker and the judge of single mistakes (support_mutate.h), and a few files run with them.
 * ctest: labels=quick,check timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_mutate.h"

static const char plate[] = "domain = { x = [0, 1], y = [0, 2] }\n"
                            "unknowns = { u = \"x, y\" }\n"
                            "equations = { e = \"u_xy + 2*lap(u) = 0\" }\n"
                            "conditions = { sides = { on = \"x = 0 or x = 1\", equation = \"u = x*y\" }, "
                            "ends = { on = \"y = 0 or y = 2\", equation = \"dn(u) = 0\" } }\n";

/* The verdict on the text with its first `old` replaced. */
static verdict judge(const char *text, const char *old, const char *by) {
  const char *at = strstr(text, old);
  mutant m = {.length = strlen(old)};
  assert_non_null(at);
  m.at = (size_t)(at - text);
  memcpy(m.by, by, strlen(by) + 1);
  char *mutated = mutant_text(text, &m);
  assert_non_null(mutated);
  verdict v = mutant_judge("plate.toml", text, mutated);
  free(mutated);
  return v;
}

static void judge_knows_what_is_no_mistake(void **state) {
  (void)state;
  assert_int_equal(judge(plate, "u_xy", "u_yx"), MUTANT_EQUIVALENT);
  assert_int_equal(judge(plate, "u_xy + 2*lap(u)", "2*lap(u) + u_xy"), MUTANT_EQUIVALENT);
  assert_int_equal(judge(plate, "u_xy + 2*lap(u)", "-(u_xy + 2*lap(u))"), MUTANT_EQUIVALENT);
  assert_int_equal(judge(plate, "dn(u) = 0", "-dn(u) = 0"), MUTANT_EQUIVALENT);
  assert_int_equal(judge(plate, "u = x*y", "3*u = 3*x*y"), MUTANT_EQUIVALENT);
}

/* Without an exact solution nothing contradicts these; they are mistakes all the same. */
static void judge_knows_what_is_one(void **state) {
  (void)state;
  assert_int_equal(judge(plate, "2*lap(u)", "lap(u)"), MUTANT_MISSED);
  assert_int_equal(judge(plate, "u_xy", "u_xx"), MUTANT_MISSED);
  assert_int_equal(judge(plate, "u = x*y", "u = x*y + 1"), MUTANT_MISSED);
  assert_int_equal(judge(plate, "dn(u) = 0", "u_x = 0"), MUTANT_MISSED);
  assert_int_equal(judge(plate, "u_xy", "u_xz"), MUTANT_FOUND);
  assert_int_equal(judge(plate, "sides = { on = \"x = 0 or x = 1\"", "sides = { on = \"x = 0\""), MUTANT_FOUND);
}

static void ansatz_makes_a_condition_superfluous(void **state) {
  (void)state;
  static const char text[] = "domain = { x = [0, 1] }\n"
                             "unknowns = { u = { of = \"x\", ansatz = \"1 + x*net\" } }\n"
                             "equations = { e = \"u_x = -u\" }\n"
                             "conditions = { start = { on = \"x = 0\", equation = \"u = 1\" } }\n";
  assert_int_equal(judge(text, "start = { on = \"x = 0\", equation = \"u = 1\" }", ""), MUTANT_EQUIVALENT);
}

/* Definitions of the exact solution are left alone: with another wave the file is another right problem. */
static void solution_is_not_mutated(void **state) {
  (void)state;
  static mutant all[MUTANTS];
  static const char text[] = "domain = { x = [0, 1] }\nconstants = { k = 3, a = 2 }\n"
                             "unknowns = { u = \"x\" }\n"
                             "definitions = { wave = \"sin(k*x)\", f = \"a*k^2/2\" }\n"
                             "equations = { e = \"u_xx = -f*wave\" }\n"
                             "conditions = { c = { on = \"boundary\", equation = \"u = wave\" } }\n"
                             "exact = { u = \"wave\" }\n";
  pn_problem *p = NULL;
  assert_int_equal(pn_problem_parse("p.toml", text, 0, NULL, &p), TN_OK);
  size_t n = mutants_of(p, all), f = 0, constants = 0;
  const char *wave = strstr(text, "wave = "), *end = strstr(text, ", f =");
  assert_true(n > 10);
  for (size_t i = 0; i < n; ++i) {
    assert_false(text + all[i].at > wave && text + all[i].at < end);
    f += text + all[i].at > end && text + all[i].at < strstr(text, "equations");
    constants += all[i].kind == MUTATE_CONSTANT;
  }
  assert_true(f > 0);
  assert_int_equal(constants, 1); /* a; not k */
  pn_problem_free(&p);
}

static void few_files_hide_no_mistake(void **state) {
  (void)state;
  static const char *const files[] = {"problems/poisson.toml", "deepxde/euler_beam.toml",
                                      "deepxde/diffusion_1d.toml", "jaxpi/advection.toml"};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    mutation_score exact = {0}, other = {0};
    mutants_run(PROBLEMS_DIR, files[i], 10, &exact, &other);
    assert_int_equal(exact.found + exact.equivalent, 10);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(judge_knows_what_is_no_mistake),
      cmocka_unit_test(judge_knows_what_is_one),
      cmocka_unit_test(ansatz_makes_a_condition_superfluous),
      cmocka_unit_test(solution_is_not_mutated),
      cmocka_unit_test(few_files_hide_no_mistake),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
