/* test_gpu_staging.c: copies through pinned memory, over a driver whose copies happen as late as CUDA allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support_fake_driver.h"

static void staging_keeps_what_it_was_given(void **state) {
  (void)state;
  enum { BLOCKS = 12, ROUNDS = 300 };
  gpu_context g;
  CUdeviceptr at[BLOCKS];
  size_t bytes[BLOCKS];
  unsigned char *from = malloc(9 * MIB), *back = malloc(9 * MIB), *expected = malloc(9 * MIB);
  fake_start(&g, 512 * MIB, true);
  assert_int_equal(gpu_staging_new(&g), TN_OK);
  for (size_t k = 0; k < BLOCKS; ++k) {
    bytes[k] = k == 0 ? 0 : k == 1 ? 9 * MIB : k == 2 ? 4 * MIB : 1 + (size_t)fake_draw((uint64_t)1 << (2 * k));
    assert_int_equal(gpu_take(&g, bytes[k], &at[k]), TN_OK);
  }
  unsigned seeds[BLOCKS] = {0};
  for (unsigned i = 1; i <= ROUNDS; ++i) {
    const size_t k = (size_t)fake_draw(BLOCKS);
    if (seeds[k] == 0 || fake_draw(3) > 0) {
      fake_fill(from, bytes[k], i);
      assert_int_equal(gpu_upload(&g, seeds[k] == 0 && fake_draw(2) == 0, at[k], from, bytes[k]), TN_OK);
      memset(from, 0, bytes[k]); /* it is the caller's again */
      seeds[k] = i;
    } else {
      memset(back, 0, bytes[k]);
      assert_int_equal(gpu_download(&g, back, at[k], bytes[k]), TN_OK);
      fake_fill(expected, bytes[k], seeds[k]);
      assert_memory_equal(back, expected, bytes[k]);
    }
  }
  assert_true(fake.n_pinned <= 12);
  free(from);
  free(back);
  free(expected);
  fake_end(&g);
}

/* An upload that runs ahead lets the copying stream wait for the work only if the memory was in use a moment ago. */
static void staging_runs_ahead_where_it_may(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr a = 0, b = 0;
  unsigned char x[64], y[64];
  fake_start(&g, 64 * MIB, true);
  assert_int_equal(gpu_staging_new(&g), TN_OK);
  fake_fill(x, sizeof x, 1);
  assert_int_equal(gpu_take(&g, sizeof x, &a), TN_OK);
  assert_true(gpu_pool_quiet(&g, a)); /* fresh */
  assert_int_equal(gpu_upload(&g, true, a, x, sizeof x), TN_OK);
  assert_int_equal(fake.n_waits, 1); /* of the work for the copy */
  assert_int_equal(gpu_download(&g, y, a, sizeof y), TN_OK);
  assert_memory_equal(x, y, sizeof x);
  /* Work still reads the old content when the block is given and taken again. */
  fake_queue(0, (fake_work){.kind = FAKE_COPY, .to = y, .from = (const void *)(uintptr_t)a, .bytes = sizeof y});
  gpu_give(&g, &a);
  assert_int_equal(gpu_take(&g, sizeof x, &b), TN_OK);
  assert_false(gpu_pool_quiet(&g, b));
  memset(y, 0, sizeof y);
  unsigned char z[64];
  fake_fill(z, sizeof z, 2);
  assert_int_equal(gpu_upload(&g, true, b, z, sizeof z), TN_OK);
  assert_int_equal(fake.n_waits, 3); /* the copy for the work, too */
  fake_advance(1, fake.queued[1]);        /* the copies finish as early as they can */
  fake_advance(0, fake.queued[0]);
  assert_memory_equal(y, x, sizeof y); /* what the work should have seen */
  gpu_pool_waited(&g);
  assert_true(gpu_pool_quiet(&g, b));
  fake_end(&g);
}

/* Copies there and back, with memory that comes and goes. */
static tn_status copy_a_little(gpu_context *g, unsigned char *x, unsigned char *y) {
  CUdeviceptr a = 0, b = 0;
  TN_TRY(gpu_staging_new(g));
  TN_TRY(gpu_take(g, 5 * MIB, &a));
  TN_TRY(gpu_upload(g, false, a, x, 5 * MIB));
  TN_TRY(gpu_download(g, y, a, 5 * MIB));
  if (memcmp(x, y, 5 * MIB) != 0)
    return TN_FAIL(TN_EINTERNAL, "the data differ");
  gpu_give(g, &a);
  TN_TRY(gpu_take(g, 3 * MIB, &b));
  TN_TRY(gpu_upload(g, true, b, x + 7, 3 * MIB));
  TN_TRY(gpu_download(g, y, b, 3 * MIB));
  if (memcmp(x + 7, y, 3 * MIB) != 0)
    return TN_FAIL(TN_EINTERNAL, "the data differ");
  gpu_give(g, &b);
  return gpu_pool_trim(g);
}

static void staging_survives_each_failure_of_the_driver(void **state) {
  (void)state;
  unsigned char *x = malloc(5 * MIB), *y = malloc(5 * MIB);
  fake_fill(x, 5 * MIB, 3);
  uint64_t n = 1;
  for (bool reached = true; reached; ++n) {
    gpu_context g;
    fake_start(&g, 64 * MIB, true);
    fake.fail_at = n;
    fake.fail_with = n % 2 == 0 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_NOT_PERMITTED;
    const tn_status status = copy_a_little(&g, x, y);
    reached = fake.calls >= n;
    assert_int_equal(status, reached ? TN_EENV : TN_OK);
    assert_int_equal(g.broken, reached && n % 2 == 0 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    fake_end(&g);
  }
  assert_true(n > 20);
  free(x);
  free(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(staging_keeps_what_it_was_given),
      cmocka_unit_test(staging_runs_ahead_where_it_may),
      cmocka_unit_test(staging_survives_each_failure_of_the_driver),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
