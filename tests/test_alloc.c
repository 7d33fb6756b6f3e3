/* test_alloc.c: blocks are aligned, zeroed, counted, and every failure leaves things as they were.
 */
#include "tensor/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

static bool is_aligned(const void *p) { return (uintptr_t)p % 64 == 0; }

static void block_is_aligned_and_zeroed(void **state) {
  (void)state;
  for (size_t n = 0; n < 300; ++n) {
    unsigned char *x = NULL;
    assert_int_equal(TN_NEW(n, &x), TN_OK);
    assert_non_null(x);
    assert_true(is_aligned(x));
    for (size_t i = 0; i < n; ++i)
      assert_int_equal(x[i], 0);
    memset(x, 0xAB, n); /* so that memory used again is dirty */
    tn_free(&x);
    assert_null(x);
  }
}

static void free_takes_null(void **state) {
  (void)state;
  double *x = NULL;
  tn_free(&x);
  tn_free(NULL);
  assert_null(x);
}

static void product_beyond_the_address_space_fails(void **state) {
  (void)state;
  double *x = NULL;
  const size_t now = tn_memory_now();
  assert_int_equal(tn_new(SIZE_MAX / 8 + 1, 8, &x), TN_ENOMEM);
  assert_int_equal(tn_new(SIZE_MAX / 2, 4, &x), TN_ENOMEM);
  assert_int_equal(tn_new(SIZE_MAX, 1, &x), TN_ENOMEM); /* the header does not fit */
  assert_null(x);
  assert_int_equal(tn_new(SIZE_MAX, 0, &x), TN_OK);
  tn_free(&x);
  assert_int_equal(tn_memory_now(), now);
}

static void growth_keeps_what_was_and_zeroes_the_rest(void **state) {
  (void)state;
  uint32_t *x = NULL;
  size_t n = 0;
  for (size_t more = 1; more <= 1000; n = more, more = more * 3 / 2 + 1) {
    assert_int_equal(tn_grow(&x, n, more, sizeof *x), TN_OK);
    assert_true(is_aligned(x));
    for (size_t i = 0; i < n; ++i)
      assert_int_equal(x[i], i + 1);
    for (size_t i = n; i < more; ++i) {
      assert_int_equal(x[i], 0);
      x[i] = (uint32_t)i + 1;
    }
  }
  tn_free(&x);
}

static void growth_that_fails_changes_nothing(void **state) {
  (void)state;
  int *x = NULL;
  assert_int_equal(TN_NEW(4, &x), TN_OK);
  x[3] = 7;
  int *const before = x;
  const size_t now = tn_memory_now();
  tn_fault_at(1, false);
  assert_int_equal(tn_grow(&x, 4, 8, sizeof *x), TN_ENOMEM);
  tn_fault_at(0, false);
  assert_int_equal(tn_grow(&x, 4, SIZE_MAX / 2, sizeof *x), TN_ENOMEM);
  assert_int_equal(tn_grow(&x, 4, 3, sizeof *x), TN_ERANGE);
  assert_int_equal(tn_grow(&x, 5, 8, sizeof *x), TN_ERANGE); /* it holds 4 */
  assert_ptr_equal(x, before);
  assert_int_equal(x[3], 7);
  assert_int_equal(tn_memory_now(), now);
  assert_int_equal(tn_grow(&x, 4, 4, sizeof *x), TN_OK);
  assert_ptr_equal(x, before);
  tn_free(&x);
}

static void text_is_copied(void **state) {
  (void)state;
  const char *text = "caf\xC3\xA9";
  char *copy = NULL;
  assert_int_equal(tn_copy_text(text, &copy), TN_OK);
  assert_ptr_not_equal(copy, text);
  assert_string_equal(copy, text);
  tn_free(&copy);
  assert_int_equal(tn_copy_text(NULL, &copy), TN_EINPUT);
  tn_fault_at(1, false);
  assert_int_equal(tn_copy_text(text, &copy), TN_ENOMEM);
  tn_fault_at(0, false);
  assert_null(copy);
}

static void statistics_follow_the_bytes_asked_for(void **state) {
  (void)state;
  char *a = NULL, *b = NULL;
  const size_t start = tn_memory_now();
  tn_memory_reset_peak();
  assert_int_equal(TN_NEW(1000, &a), TN_OK);
  assert_int_equal(TN_NEW(500, &b), TN_OK);
  assert_int_equal(tn_memory_now(), start + 1500);
  tn_free(&a);
  assert_int_equal(tn_memory_now(), start + 500);
  assert_int_equal(tn_memory_peak(), start + 1500);
  tn_memory_reset_peak();
  assert_int_equal(tn_memory_peak(), start + 500);
  assert_int_equal(tn_grow(&b, 500, 700, 1), TN_OK);
  assert_int_equal(tn_memory_now(), start + 700);
  assert_int_equal(tn_memory_peak(), start + 1200); /* both blocks while one is copied */
  tn_free(&b);
  assert_int_equal(tn_memory_now(), start);
}

/* The outcomes of five allocations under a fault, as binary digits: 1 where memory was given. */
static unsigned outcomes(uint64_t n, bool onward) {
  unsigned digits = 0;
  tn_fault_at(n, onward);
  for (unsigned i = 0; i < 5; ++i) {
    char *x = NULL;
    tn_status status = i == 2 ? tn_grow(&x, 0, 3, 1) : TN_NEW(3, &x);
    assert_true((status == TN_OK) == (x != NULL));
    digits = digits * 2 + (status == TN_OK);
    tn_free(&x);
  }
  assert_int_equal(tn_fault_count(), 5);
  tn_fault_at(0, false);
  assert_int_equal(tn_fault_count(), 0);
  return digits;
}

static void fault_hits_the_chosen_allocation(void **state) {
  (void)state;
  assert_int_equal(outcomes(0, false), 31); /* 11111 */
  assert_int_equal(outcomes(0, true), 31);
  assert_int_equal(outcomes(1, false), 15); /* 01111 */
  assert_int_equal(outcomes(3, false), 27); /* 11011 */
  assert_int_equal(outcomes(3, true), 24);  /* 11000 */
  assert_int_equal(outcomes(6, true), 31);
}

enum { ROUNDS = 20000, KEPT = 8 };

static void *churn(void *argument) {
  char *blocks[KEPT] = {NULL};
  bool good = true;
  for (size_t i = 0; i < ROUNDS; ++i) {
    char **block = &blocks[i % KEPT];
    tn_free(block);
    good = TN_NEW(i % 97, block) == TN_OK && good;
  }
  for (size_t i = 0; i < KEPT; ++i)
    tn_free(&blocks[i]);
  return good ? argument : NULL;
}

static void threads_keep_the_books_together(void **state) {
  (void)state;
  pthread_t threads[4];
  const size_t now = tn_memory_now();
  tn_fault_at(0, false);
  for (size_t i = 0; i < 4; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, churn, threads), 0);
  for (size_t i = 0; i < 4; ++i) {
    void *good = NULL;
    assert_int_equal(pthread_join(threads[i], &good), 0);
    assert_non_null(good);
  }
  assert_int_equal(tn_memory_now(), now);
  assert_int_equal(tn_fault_count(), 4 * ROUNDS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_is_aligned_and_zeroed),
      cmocka_unit_test(free_takes_null),
      cmocka_unit_test(product_beyond_the_address_space_fails),
      cmocka_unit_test(growth_keeps_what_was_and_zeroes_the_rest),
      cmocka_unit_test(growth_that_fails_changes_nothing),
      cmocka_unit_test(text_is_copied),
      cmocka_unit_test(statistics_follow_the_bytes_asked_for),
      cmocka_unit_test(fault_hits_the_chosen_allocation),
      cmocka_unit_test(threads_keep_the_books_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
