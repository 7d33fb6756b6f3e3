/* test_mutations.c: ten single mistakes in every file below problems/, made from its text: does `pinn check` see them?
 * ctest: labels=full,check timeout=600
 *
 * Of files with an exact solution for every unknown at least 95 of 100 mistakes must be found. The share of the others
 * is printed: without a solution only names, orders and contradictions can be seen. Mutants that are no mistakes are
 * told apart by a rule (support_mutate.h) and not counted. An argument, or PINN_TEST_FILE, is a part of a path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support_mutate.h"

static const char *only;

static double share(const mutation_score *s) {
  size_t n = s->found + s->missed;
  return n ? 100.0 * (double)s->found / (double)n : 100;
}

static void check_finds_single_mistakes(void **state) {
  (void)state;
  mutation_score exact, other;
  mutants_run(PROBLEMS_DIR, only, 10, &exact, &other);
  print_message("with exact solutions: found %zu of %zu (%.1f %%), %zu equivalent\n", exact.found,
                exact.found + exact.missed, share(&exact), exact.equivalent);
  print_message("without:              found %zu of %zu (%.1f %%), %zu equivalent\n", other.found,
                other.found + other.missed, share(&other), other.equivalent);
  if (share(&exact) < 95)
    fail_msg("found %.1f %%, fewer than 95", share(&exact));
}

int main(int argc, char **argv) {
  only = argc > 1 ? argv[1] : getenv("PINN_TEST_FILE");
  const struct CMUnitTest tests[] = {cmocka_unit_test(check_finds_single_mistakes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
