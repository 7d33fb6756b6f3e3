/* test_peak.c: the measured limits of the machine are possible ones, and impossible requests are refused.
 *
 * No figure is known in advance, only relations: f32 has twice the lanes of f64, so its peak is not lower; more time
 * can only find a better burst of the same order; an array in the L1 cache is read at least as fast as one of
 * 64 MiB. Bounds leave room for other work on the machine, which makes bursts slower.
 *
 * ctest: labels=full,bench
 */
#include "tensor/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void fma_peak_of_f32_is_no_lower_than_of_f64(void **state) {
  (void)state;
  double wide = 0, narrow = 0;
  assert_int_equal(tn_peak_fma(TN_F64, NULL, 0.1, &wide), TN_OK);
  assert_int_equal(tn_peak_fma(TN_F32, NULL, 0.1, &narrow), TN_OK);
  assert_true(wide > 1e6);
  assert_true(narrow > 0.8 * wide);
  assert_true(narrow < 1e13); /* a core does not exist that does more: something was not computed */
}

static void fma_peak_needs_a_float(void **state) {
  (void)state;
  double flops = 1;
  assert_int_equal(tn_peak_fma(TN_I32, NULL, 0.01, &flops), TN_EDTYPE);
  assert_true(flops == 0);
}

static void fma_peak_of_a_pool_counts_all_threads(void **state) {
  (void)state;
  tn_pool *pool = NULL;
  double one = 0, same = 0;
  assert_int_equal(tn_pool_new(1, &pool), TN_OK);
  assert_int_equal(tn_peak_fma(TN_F64, NULL, 0.1, &one), TN_OK);
  assert_int_equal(tn_peak_fma(TN_F64, pool, 0.1, &same), TN_OK);
  assert_true(same > 0.5 * one && one > 0.5 * same);
  tn_pool_free(&pool);
}

static void bytes_from_a_cache_come_faster_than_from_memory(void **state) {
  (void)state;
  double near_by = 0, far = 0;
  for (int kind = TN_TRAFFIC_READ; kind <= TN_TRAFFIC_TRIAD; ++kind) {
    assert_int_equal(tn_peak_bytes((tn_traffic)kind, 1 << 14, NULL, 0.05, &near_by), TN_OK);
    assert_int_equal(tn_peak_bytes((tn_traffic)kind, 1 << 26, NULL, 0.05, &far), TN_OK);
    assert_true(far > 1e7);
    assert_true(near_by > far);
  }
}

static void bytes_of_too_small_an_array_are_refused(void **state) {
  (void)state;
  double rate = 1;
  assert_int_equal(tn_peak_bytes(TN_TRAFFIC_TRIAD, 1535, NULL, 0.01, &rate), TN_EINPUT);
  assert_int_equal(tn_peak_bytes(TN_TRAFFIC_TRIAD, 1536, NULL, 0.01, &rate), TN_OK);
}

static void memory_that_cannot_be_had_is_told(void **state) {
  (void)state;
  double rate = 0;
  tn_fault_at(1, false);
  assert_int_equal(tn_peak_bytes(TN_TRAFFIC_READ, 4096, NULL, 0.01, &rate), TN_ENOMEM);
  tn_fault_at(0, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fma_peak_of_f32_is_no_lower_than_of_f64),
      cmocka_unit_test(fma_peak_needs_a_float),
      cmocka_unit_test(fma_peak_of_a_pool_counts_all_threads),
      cmocka_unit_test(bytes_from_a_cache_come_faster_than_from_memory),
      cmocka_unit_test(bytes_of_too_small_an_array_are_refused),
      cmocka_unit_test(memory_that_cannot_be_had_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
