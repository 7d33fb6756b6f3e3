/* test_gpu_memory.c: the pool of device memory, over a driver that is written for it (support_fake_driver.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support_fake_driver.h"

typedef struct {
  CUdeviceptr at;
  size_t bytes;
} span;
static span live[4096]; /* by address */
static size_t n_live, live_units;

static size_t unit(size_t bytes) { return bytes == 0 ? 256 : (bytes + 255) / 256 * 256; }

/* Neither neighbour by address reaches into the new block, and a segment holds it whole. */
static void add_live(CUdeviceptr at, size_t bytes) {
  size_t i = 0, k = 0;
  assert_int_equal(at % 256, 0);
  for (size_t high = n_live; i < high;) {
    const size_t middle = (i + high) / 2;
    if (live[middle].at < at)
      i = middle + 1;
    else
      high = middle;
  }
  assert_true(i == 0 || live[i - 1].at + live[i - 1].bytes <= at);
  assert_true(i == n_live || at + bytes <= live[i].at);
  while (k < fake.n_blocks && !(fake.blocks[k].at <= at && at + bytes <= fake.blocks[k].at + fake.blocks[k].bytes))
    ++k;
  assert_true(k < fake.n_blocks);
  memmove(live + i + 1, live + i, (n_live - i) * sizeof *live);
  live[i] = (span){at, bytes};
  ++n_live;
  live_units += unit(bytes);
}

static CUdeviceptr drop_live(size_t i) {
  const CUdeviceptr at = live[i].at;
  live_units -= unit(live[i].bytes);
  --n_live;
  memmove(live + i, live + i + 1, (n_live - i) * sizeof *live);
  return at;
}

static void check_facts(const gpu_context *g) {
  gpu_memory facts;
  gpu_pool_facts(g, &facts);
  assert_int_equal(facts.used, live_units);
  assert_int_equal(facts.blocks, n_live);
  assert_int_equal(facts.reserved, fake.held);
  assert_true(facts.used <= facts.most_used && facts.most_used <= facts.most_reserved);
  assert_true(facts.reserved <= facts.most_reserved && facts.most_reserved <= fake.capacity);
  assert_true(facts.largest_free <= facts.reserved - facts.used);
  assert_true(facts.hits <= facts.requests);
}

/* Mostly small, sometimes large: any power of two up to 32 MiB is as likely as another. */
static size_t draw_size(void) { return (size_t)fake_draw((uint64_t)1 << (1 + fake_draw(25))); }

static void pool_never_hands_out_what_is_in_use(void **state) {
  (void)state;
  gpu_context g;
  fake_start(&g, 3072 * MIB, false);
  n_live = live_units = 0;
  size_t refused = 0;
  for (size_t i = 0; i < 100000; ++i) {
    /* It grows and shrinks: in turns more is taken and more is given. */
    if (n_live > 0 && (n_live == 4000 || fake_draw(100) < (i / 5000 % 2 == 0 ? 40u : 60u))) {
      CUdeviceptr at = drop_live((size_t)fake_draw(n_live));
      gpu_give(&g, &at);
      assert_int_equal(at, 0);
    } else {
      CUdeviceptr at = 0;
      const size_t bytes = draw_size();
      const tn_status status = gpu_take(&g, bytes, &at);
      assert_true(status == TN_OK || status == TN_ENOMEM);
      if (status == TN_OK)
        add_live(at, bytes);
      else
        ++refused;
    }
    if (i % 64 == 0)
      check_facts(&g);
  }
  gpu_memory facts;
  gpu_pool_facts(&g, &facts);
  assert_true(facts.hits > 9 * facts.driver_calls); /* what a cache is for */
  assert_true(refused < 20000);
  while (n_live > 0) {
    CUdeviceptr at = drop_live(n_live - 1);
    gpu_give(&g, &at);
  }
  check_facts(&g);
  assert_int_equal(gpu_pool_trim(&g), TN_OK); /* all neighbours were joined: every segment is whole */
  assert_int_equal(fake.n_blocks, 0);
  gpu_pool_facts(&g, &facts);
  assert_int_equal(facts.reserved, 0);
  assert_int_equal(facts.largest_free, 0);
  fake_end(&g);
}

static void pool_joins_neighbours_in_any_order(void **state) {
  (void)state;
  static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (size_t k = 0; k < 6; ++k) {
    gpu_context g;
    gpu_memory facts;
    CUdeviceptr at[3];
    fake_start(&g, 64 * MIB, false);
    for (size_t i = 0; i < 3; ++i)
      assert_int_equal(gpu_take(&g, 512 * 1024, &at[i]), TN_OK);
    for (size_t i = 0; i < 3; ++i)
      gpu_give(&g, &at[orders[k][i]]);
    gpu_pool_facts(&g, &facts);
    assert_int_equal(facts.driver_calls, 1); /* they shared a segment */
    assert_int_equal(facts.largest_free, 2 * MIB);
    fake_end(&g);
  }
}

static void pool_takes_the_shortest_that_fits(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr at[5], again = 0;
  static const size_t kib[5] = {60, 8, 36, 8, 48}; /* holes of 60, 36 and 48 KiB, in one bin, are left */
  fake_start(&g, 64 * MIB, false);
  for (size_t i = 0; i < 5; ++i)
    assert_int_equal(gpu_take(&g, kib[i] << 10, &at[i]), TN_OK);
  CUdeviceptr wall = 0;
  assert_int_equal(gpu_take(&g, 8 << 10, &wall), TN_OK);
  const CUdeviceptr hole = at[2];
  for (size_t i = 0; i < 5; i += 2)
    gpu_give(&g, &at[i]);
  assert_int_equal(gpu_take(&g, 33 << 10, &again), TN_OK);
  assert_int_equal(again, hole);
  fake_end(&g);
}

/* Pieces that are free, but scattered over segments, are no use for one long request. */
static void pool_gives_free_segments_back_when_they_are_in_the_way(void **state) {
  (void)state;
  gpu_context g;
  gpu_memory facts;
  CUdeviceptr at[8], kept = 0, large = 0;
  fake_start(&g, 128 * MIB, false);
  assert_int_equal(gpu_take(&g, 1000, &kept), TN_OK);
  for (size_t i = 0; i < 7; ++i)
    assert_int_equal(gpu_take(&g, 15 * MIB, &at[i]), TN_OK);
  for (size_t i = 0; i < 7; ++i)
    gpu_give(&g, &at[i]);
  gpu_pool_facts(&g, &facts);
  assert_int_equal(facts.largest_free, 16 * MIB);
  assert_int_equal(facts.reserved, 7 * 16 * MIB + 2 * MIB);
  assert_int_equal(gpu_take(&g, 100 * MIB, &large), TN_OK);
  gpu_pool_facts(&g, &facts);
  assert_int_equal(facts.defragmentations, 1);
  assert_int_equal(facts.reserved, 102 * MIB); /* what is in use stays where it is */
  assert_int_equal(facts.used, 100 * MIB + 1024);
  fake_end(&g);
}

static void pool_makes_do_with_less_than_a_roomy_segment(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr at = 0;
  fake_start(&g, 4 * MIB, false); /* less than the 16 MiB of a segment for large requests */
  assert_int_equal(gpu_take(&g, 3 * MIB, &at), TN_OK);
  assert_int_equal(fake.held, 4 * MIB);
  fake_end(&g);
}

static void pool_says_what_is_missing(void **state) {
  (void)state;
  gpu_context g;
  gpu_memory before, after;
  CUdeviceptr at = 0, more = 1;
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_take(&g, 30 * MIB, &at), TN_OK);
  gpu_pool_facts(&g, &before);
  assert_int_equal(gpu_take(&g, 48 * MIB, &more), TN_ENOMEM);
  assert_int_equal(more, 0);
  assert_non_null(strstr(tn_error_text(), "no device memory for 48.0 MiB: of 64 MiB on a fake, 30.0 MiB are in use"));
  assert_non_null(strstr(tn_error_text(), "0.0 MiB more reserved"));
  assert_non_null(strstr(tn_error_text(), "34.0 MiB free for all"));
  gpu_pool_facts(&g, &after);
  assert_int_equal(after.used, before.used);
  assert_int_equal(after.reserved, before.reserved);
  assert_int_equal(gpu_take(&g, SIZE_MAX, &more), TN_ENOMEM);
  assert_int_equal(gpu_take(&g, SIZE_MAX / 2 + 1, &more), TN_ENOMEM);
  assert_int_equal(gpu_take(&g, 32 * MIB, &more), TN_OK);
  fake_end(&g);
}

static void pool_gives_empty_requests_a_place_of_their_own(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr a = 0, b = 0, none = 0;
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_take(&g, 0, &a), TN_OK);
  assert_int_equal(gpu_take(&g, 0, &b), TN_OK);
  assert_true(a != 0 && b != 0 && a != b);
  gpu_give(&g, &none); /* nothing to give */
  gpu_give(&g, NULL);
  fake_end(&g);
}

static size_t messages;
static void count_messages(void *context, tn_log_level level, const char *text) {
  (void)text;
  if (level == *(const tn_log_level *)context)
    ++messages;
}

static void pool_refuses_what_it_did_not_hand_out(void **state) {
  (void)state;
  gpu_context g;
  gpu_memory facts;
  tn_log_level level = TN_LOG_ERROR;
  CUdeviceptr at = 0, inside = 0, twice = 0;
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_take(&g, 1024, &at), TN_OK);
  twice = at;
  inside = at + 256;
  messages = 0;
  tn_log_callback(TN_LOG_DEBUG, count_messages, &level);
  gpu_give(&g, &inside);
  gpu_give(&g, &at);
  gpu_give(&g, &twice);
  assert_int_equal(messages, 2);
  gpu_pool_facts(&g, &facts);
  assert_int_equal(facts.used, 0);
  assert_int_equal(facts.blocks, 0);
  level = TN_LOG_DEBUG; /* what is left at the end is told */
  messages = 0;
  assert_int_equal(gpu_take(&g, 1024, &at), TN_OK);
  fake_end(&g);
  assert_int_equal(messages, 1);
  tn_log_callback(TN_LOG_ERROR, NULL, NULL);
}

/* A short life of a pool: takes of many sizes, gives, a large one; TN_OK or the first failure. */
static tn_status live_a_little(gpu_context *g) {
  CUdeviceptr at[40] = {0};
  tn_status status = TN_OK;
  fake_random = 7;
  for (size_t i = 0; status == TN_OK && i < 200; ++i) {
    const size_t k = (size_t)fake_draw(40);
    if (at[k] != 0)
      gpu_give(g, &at[k]);
    else
      status = gpu_take(g, (size_t)fake_draw((uint64_t)1 << (4 + fake_draw(20))), &at[k]);
  }
  for (size_t k = 0; k < 40; ++k)
    gpu_give(g, &at[k]);
  if (status == TN_OK)
    status = gpu_take(g, 60 * MIB, &at[0]); /* needs what is free now */
  gpu_give(g, &at[0]);
  return status;
}

static void pool_survives_each_failure_of_the_driver(void **state) {
  (void)state;
  static const struct {
    CUresult result;
    tn_status status;
  } kinds[] = {{CUDA_ERROR_OUT_OF_MEMORY, TN_ENOMEM}, {CUDA_ERROR_ILLEGAL_ADDRESS, TN_EENV},
               {CUDA_ERROR_INVALID_VALUE, TN_EINTERNAL}};
  size_t injected = 0;
  for (size_t k = 0; k < 3; ++k) {
    for (uint64_t n = 1;; ++n) {
      gpu_context g;
      gpu_memory facts;
      fake_start(&g, 64 * MIB, false);
      fake.fail_at = n;
      fake.fail_with = kinds[k].result;
      const tn_status status = live_a_little(&g);
      const bool reached = fake.calls >= n;
      /* An allocation that fails for want of memory is tried again, so all may be well after all. */
      assert_true(status == TN_OK ? !reached || k == 0 : status == kinds[k].status);
      gpu_pool_facts(&g, &facts);
      assert_int_equal(facts.used, 0);
      assert_int_equal(facts.reserved, fake.held);
      fake_end(&g);
      injected += reached;
      if (!reached)
        break;
    }
  }
  assert_true(injected > 20);
}

static void pool_survives_each_failure_of_the_host(void **state) {
  (void)state;
  for (uint64_t n = 1;; ++n) {
    gpu_context g;
    gpu_memory facts;
    fake_start(&g, 64 * MIB, false);
    tn_fault_at(n, false);
    const tn_status status = live_a_little(&g);
    const bool reached = tn_fault_count() >= n;
    tn_fault_at(0, false);
    assert_int_equal(status, reached ? TN_ENOMEM : TN_OK);
    gpu_pool_facts(&g, &facts);
    assert_int_equal(facts.used, 0);
    fake_end(&g);
    if (!reached)
      break;
  }
}

static void pool_of_a_lost_device_hands_out_nothing(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr at = 0;
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_take(&g, 100, &at), TN_OK);
  fake.fail_at = fake.calls + 1;
  fake.fail_with = CUDA_ERROR_ILLEGAL_ADDRESS;
  CUdeviceptr more = 0;
  assert_int_equal(gpu_take(&g, 3 * MIB, &more), TN_EENV);
  assert_non_null(strstr(tn_error_text(), "cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  assert_non_null(strstr(tn_error_text(), "the device is lost"));
  gpu_give(&g, &at);
  assert_int_equal(gpu_take(&g, 100, &more), TN_EENV); /* though there is room and the driver is well again */
  assert_non_null(strstr(tn_error_text(), "is lost to this process since cuMemAlloc"));
  fake_end(&g);
}

static void pool_fails_at_the_request_that_the_environment_names(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr at = 0;
  setenv("PINN_CUDA_FAIL_ALLOCATION", "3", 1);
  fake_start(&g, 64 * MIB, false);
  unsetenv("PINN_CUDA_FAIL_ALLOCATION");
  for (size_t i = 1; i <= 5; ++i)
    assert_int_equal(gpu_take(&g, 100, &at), i == 3 ? TN_ENOMEM : TN_OK);
  fake_end(&g);
}

/* A piece made of two is quiet only when both were. */
static void pool_remembers_the_last_give_of_each_part(void **state) {
  (void)state;
  gpu_context g;
  CUdeviceptr a = 0, b = 0, c = 0;
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_take(&g, 4096, &a), TN_OK);
  assert_int_equal(gpu_take(&g, 4096, &b), TN_OK);
  gpu_give(&g, &a);
  gpu_pool_waited(&g);
  gpu_give(&g, &b);
  assert_int_equal(gpu_take(&g, 4096, &c), TN_OK); /* where `a` was; which part is not kept apart */
  assert_false(gpu_pool_quiet(&g, c));
  gpu_pool_waited(&g);
  assert_true(gpu_pool_quiet(&g, c));
  assert_false(gpu_pool_quiet(&g, c + 256)); /* nothing begins here */
  fake_end(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pool_never_hands_out_what_is_in_use),
      cmocka_unit_test(pool_joins_neighbours_in_any_order),
      cmocka_unit_test(pool_takes_the_shortest_that_fits),
      cmocka_unit_test(pool_gives_free_segments_back_when_they_are_in_the_way),
      cmocka_unit_test(pool_makes_do_with_less_than_a_roomy_segment),
      cmocka_unit_test(pool_says_what_is_missing),
      cmocka_unit_test(pool_gives_empty_requests_a_place_of_their_own),
      cmocka_unit_test(pool_refuses_what_it_did_not_hand_out),
      cmocka_unit_test(pool_survives_each_failure_of_the_driver),
      cmocka_unit_test(pool_survives_each_failure_of_the_host),
      cmocka_unit_test(pool_of_a_lost_device_hands_out_nothing),
      cmocka_unit_test(pool_fails_at_the_request_that_the_environment_names),
      cmocka_unit_test(pool_remembers_the_last_give_of_each_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
