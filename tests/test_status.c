/* test_status.c: the error record keeps what failed, in full or visibly cut, one for each thread.
 */
#include "tensor/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

enum { LONGEST = 1023 }; /* bytes of text that a record holds */

static void record_is_empty_before_a_failure(void **state) {
  (void)state;
  tn_error_clear();
  assert_int_equal(tn_error_code(), TN_OK);
  assert_string_equal(tn_error_text(), "");
  assert_string_equal(tn_error_place(), "");
}

static void failure_records_code_text_and_place(void **state) {
  (void)state;
  const int line = __LINE__ + 1;
  tn_status status = TN_FAIL(TN_ESHAPE, "matrix %s has %d rows", "A", 3);
  char place[64];
  snprintf(place, sizeof place, "test_status.c:%d", line);
  assert_int_equal(status, TN_ESHAPE);
  assert_int_equal(tn_error_code(), TN_ESHAPE);
  assert_string_equal(tn_error_text(), "matrix A has 3 rows");
  assert_string_equal(tn_error_place(), place);
}

static void failure_may_quote_the_one_before(void **state) {
  (void)state;
  assert_int_equal(TN_FAIL(TN_EIO, "disk full"), TN_EIO);
  assert_int_equal(TN_FAIL(TN_EIO, "writing %s: %s", "x.h5", tn_error_text()), TN_EIO);
  assert_string_equal(tn_error_text(), "writing x.h5: disk full");
}

static void failure_with_ok_reads_as_internal_error(void **state) {
  (void)state;
  assert_int_equal(TN_FAIL(TN_OK, "misuse"), TN_EINTERNAL);
  assert_int_equal(tn_error_code(), TN_EINTERNAL);
}

static void text_that_just_fits_is_kept(void **state) {
  (void)state;
  char text[LONGEST + 1];
  memset(text, 'x', LONGEST);
  text[LONGEST] = 0;
  assert_int_equal(TN_FAIL(TN_EINPUT, "%s", text), TN_EINPUT);
  assert_string_equal(tn_error_text(), text);
}

static void text_too_long_is_cut_visibly(void **state) {
  (void)state;
  char text[2 * LONGEST];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  assert_int_equal(TN_FAIL(TN_EINPUT, "%s", text), TN_EINPUT);
  const char *kept = tn_error_text();
  assert_int_equal(strlen(kept), LONGEST);
  assert_string_equal(kept + LONGEST - 3, "...");
  assert_memory_equal(kept, text, LONGEST - 3);
}

/* A text of two-byte characters, moved by 0 and 1 bytes: one of the two cuts falls inside a
 * character. */
static void text_is_not_cut_inside_a_character(void **state) {
  (void)state;
  for (size_t moved = 0; moved < 2; ++moved) {
    char text[2 * LONGEST + 2] = "a";
    for (size_t i = 0; i < LONGEST; ++i)
      memcpy(text + moved + 2 * i, "\xC3\xBC", 3);
    assert_int_equal(TN_FAIL(TN_EINPUT, "%s", text), TN_EINPUT);
    const char *kept = tn_error_text();
    size_t length = strlen(kept) - 3;
    assert_string_equal(kept + length, "...");
    assert_int_equal((length - moved) % 2, 0);
    assert_true(length + 3 >= LONGEST - 1);
  }
}

static void place_survives_a_long_file_name(void **state) {
  (void)state;
  char name[400];
  memset(name, 'f', sizeof name - 1);
  name[sizeof name - 1] = 0;
  assert_int_equal(tn_fail(TN_EIO, name, 2147483647, "x"), TN_EIO);
  const char *colon = strrchr(tn_error_place(), ':');
  assert_non_null(colon);
  assert_string_equal(colon, ":2147483647");
}

static void *fail_elsewhere(void *seen) {
  *(tn_status *)seen = tn_error_code(); /* this thread has not failed yet */
  return TN_FAIL(TN_EIO, "other thread") == TN_EIO ? seen : NULL;
}

static void record_belongs_to_its_thread(void **state) {
  (void)state;
  pthread_t thread;
  tn_status seen = TN_EINTERNAL;
  void *result = NULL;
  assert_int_equal(TN_FAIL(TN_ERANGE, "this thread"), TN_ERANGE);
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  assert_int_equal(seen, TN_OK);
  assert_int_equal(tn_error_code(), TN_ERANGE);
  assert_string_equal(tn_error_text(), "this thread");
}

static tn_status forward(tn_status status, bool *passed) {
  *passed = false;
  TN_TRY(status);
  *passed = true;
  return TN_OK;
}

static void try_forwards_failures_only(void **state) {
  (void)state;
  bool passed = true;
  assert_int_equal(forward(TN_ENOMEM, &passed), TN_ENOMEM);
  assert_false(passed);
  assert_int_equal(forward(TN_OK, &passed), TN_OK);
  assert_true(passed);
}

static void codes_have_distinct_names_and_texts(void **state) {
  (void)state;
  assert_string_equal(tn_status_name(TN_ESHAPE), "TN_ESHAPE");
  for (int a = TN_OK; a <= TN_EINTERNAL; ++a)
    for (int b = TN_OK; b < a; ++b) {
      assert_string_not_equal(tn_status_name((tn_status)a), tn_status_name((tn_status)b));
      assert_string_not_equal(tn_status_text((tn_status)a), tn_status_text((tn_status)b));
    }
  assert_non_null(tn_status_name((tn_status)(TN_EINTERNAL + 1)));
  assert_non_null(tn_status_text((tn_status)-1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(record_is_empty_before_a_failure),
      cmocka_unit_test(failure_records_code_text_and_place),
      cmocka_unit_test(failure_may_quote_the_one_before),
      cmocka_unit_test(failure_with_ok_reads_as_internal_error),
      cmocka_unit_test(text_that_just_fits_is_kept),
      cmocka_unit_test(text_too_long_is_cut_visibly),
      cmocka_unit_test(text_is_not_cut_inside_a_character),
      cmocka_unit_test(place_survives_a_long_file_name),
      cmocka_unit_test(record_belongs_to_its_thread),
      cmocka_unit_test(try_forwards_failures_only),
      cmocka_unit_test(codes_have_distinct_names_and_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
