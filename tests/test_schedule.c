/* test_schedule.c: shapes of the learning rate. */
#include "pinn/opt.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define U (DBL_EPSILON / 2)

static void warmup_rises_in_equal_parts_to_the_peak(void **state) {
  (void)state;
  for (int kind = 0; kind < PN_SCHEDULES; ++kind) {
    const pn_schedule s = {(pn_schedule_kind)kind, 0.5, 4, 100, 10};
    assert_int_equal(pn_schedule_check(&s), TN_OK);
    for (size_t k = 0; k < 4; ++k)
      assert_true(pn_schedule_rate(&s, k) == 0.125 * (double)(k + 1));
    assert_true(fabs(pn_schedule_rate(&s, 4) - 0.5) <= 2 * U); /* no jump */
  }
}

static void constant_stays(void **state) {
  (void)state;
  const pn_schedule s = {PN_CONSTANT, 1e-3, 0, 0, 0};
  assert_int_equal(pn_schedule_check(&s), TN_OK);
  assert_true(pn_schedule_rate(&s, 0) == 1e-3 && pn_schedule_rate(&s, 1000000) == 1e-3);
}

static void cosine_falls_to_zero_symmetrically(void **state) {
  (void)state;
  const pn_schedule s = {PN_COSINE, 2, 10, 210, 0};
  assert_int_equal(pn_schedule_check(&s), TN_OK);
  assert_true(fabs(pn_schedule_rate(&s, 110) - 1) <= 4 * U); /* half way */
  assert_true(pn_schedule_rate(&s, 210) == 0 && pn_schedule_rate(&s, 5000) == 0);
  for (size_t k = 10; k < 210; ++k) {
    assert_true(pn_schedule_rate(&s, k) > pn_schedule_rate(&s, k + 1));
    /* cos is odd about the middle: the rates at k and at the mirrored step add up to the peak. */
    assert_true(fabs(pn_schedule_rate(&s, k) + pn_schedule_rate(&s, 220 - k) - 2) <= 16 * U);
  }
}

static void exponential_halves_every_half_life(void **state) {
  (void)state;
  const pn_schedule s = {PN_EXPONENTIAL, 1, 0, 0, 7};
  assert_int_equal(pn_schedule_check(&s), TN_OK);
  for (size_t k = 0; k < 500; ++k)
    /* k / 7 is rounded by u k / 7, which 2^x turns into a relative 0.7 u k / 7, twice; 8 u of
     * 2^x. */
    assert_true(fabs(pn_schedule_rate(&s, k + 7) / pn_schedule_rate(&s, k) - 0.5) <=
                (8 + (double)(k + 7) / 7) * U);
  assert_true(pn_schedule_rate(&s, 70) == 0x1p-10);
  assert_true(pn_schedule_rate(&s, 100000) == 0); /* underflow is zero, not an error */
}

static void bad_schedules_are_refused(void **state) {
  (void)state;
  const pn_schedule bad[] = {
      {PN_CONSTANT, 0, 0, 0, 0},    {PN_CONSTANT, NAN, 0, 0, 0},    {PN_COSINE, 1, 10, 10, 0},
      {PN_EXPONENTIAL, 1, 0, 0, 0}, {PN_EXPONENTIAL, 1, 0, 0, NAN}, {PN_SCHEDULES, 1, 0, 0, 0},
  };
  for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k)
    assert_int_not_equal(pn_schedule_check(&bad[k]), TN_OK);
}

static void names_go_both_ways(void **state) {
  (void)state;
  pn_schedule_kind kind = PN_CONSTANT;
  for (int k = 0; k < PN_SCHEDULES; ++k) {
    assert_int_equal(pn_schedule_of_name(pn_schedule_name((pn_schedule_kind)k), &kind), TN_OK);
    assert_int_equal(kind, k);
  }
  assert_int_equal(pn_schedule_of_name("linear", &kind), TN_EINPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(warmup_rises_in_equal_parts_to_the_peak),
      cmocka_unit_test(constant_stays),
      cmocka_unit_test(cosine_falls_to_zero_symmetrically),
      cmocka_unit_test(exponential_halves_every_half_life),
      cmocka_unit_test(bad_schedules_are_refused),
      cmocka_unit_test(names_go_both_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
