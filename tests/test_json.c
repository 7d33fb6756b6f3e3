/* test_json.c: what the writer gives is valid JSON that holds what was put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/json.h"
#include "pinn/text.h"

#define OK(call) assert_int_equal((call), TN_OK)

static void expect(pn_json *json, const char *expected) {
  const char *text = NULL;
  size_t n = 0;
  OK(pn_json_text(json, &text, &n));
  assert_string_equal(text, expected);
  assert_int_equal(n, strlen(expected));
  OK(pn_json_text(json, &text, &n)); /* asking twice changes nothing */
  assert_string_equal(text, expected);
  pn_json_free(&json);
}

static pn_json *fresh(void) {
  pn_json *json = NULL;
  OK(pn_json_new(&json));
  return json;
}

static void json_keeps_order_and_nests(void **state) {
  (void)state;
  pn_json *j = fresh();
  pn_json_object(j, NULL);
  pn_json_string(j, "problem", "burgers");
  pn_json_boolean(j, "converged", true);
  pn_json_object(j, "fields");
  pn_json_object(j, "u");
  pn_json_number(j, "rel_l2", 4.2e-4);
  pn_json_end(j);
  pn_json_end(j);
  pn_json_array(j, "stop_reasons");
  pn_json_end(j);
  pn_json_array(j, "a");
  pn_json_integer(j, NULL, INT64_MIN);
  pn_json_null(j, NULL);
  pn_json_end(j);
  pn_json_numbers(j, "b", 3, (double[]){1, 0.5, NAN});
  pn_json_end(j);
  expect(j,
         "{\n  \"problem\": \"burgers\",\n  \"converged\": true,\n  \"fields\": {\n    \"u\": {\n"
         "      \"rel_l2\": 0.00042\n    }\n  },\n  \"stop_reasons\": [],\n  \"a\": [\n"
         "    -9223372036854775808,\n    null\n  ],\n  \"b\": [1, 0.5, null]\n}\n");
}

static void json_escapes_strings(void **state) {
  (void)state;
  pn_json *j = fresh();
  pn_json_array(j, NULL);
  pn_json_string(j, NULL, "a\"b\\c\n\t\r\x01/\x7f");
  pn_json_string(j, NULL, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  pn_json_string(j, NULL, "\xff \xc3 \xed\xa0\x80."); /* stray, cut off, surrogate */
  pn_json_string(j, NULL, NULL);
  pn_json_end(j);
  expect(j, "[\n  \"a\\\"b\\\\c\\n\\t\\r\\u0001/\\u007f\",\n"
            "  \"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\",\n"
            "  \"\\ufffd \\ufffd \\ufffd\\ufffd\\ufffd.\",\n  null\n]\n");
}

static void json_numbers_read_back_as_themselves(void **state) {
  (void)state;
  static const struct {
    double x;
    const char *text;
  } rows[] = {{0.1, "0.1"},
              {1.0 / 3, "0.3333333333333333"},
              {-0.0, "-0"},
              {1e23, "1e+23"},
              {5e-324, "4.94065645841247e-324"},
              {123456789, "123456789"},
              {INFINITY, "inf"},
              {-INFINITY, "-inf"},
              {NAN, "nan"}};
  char text[PN_TEXT_NUMBER];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_text_of_number(rows[i].x, text);
    assert_string_equal(text, rows[i].text);
  }
  tn_stream stream = tn_stream_of(1, "numbers");
  for (uint64_t i = 0; i < 20000; ++i) { /* all bit patterns alike */
    uint64_t bits = tn_random_bits(stream, i);
    double x, y = 0;
    memcpy(&x, &bits, sizeof x);
    size_t n = pn_text_of_number(x, text);
    assert_true(n < PN_TEXT_NUMBER && n == strlen(text));
    if (!isfinite(x))
      continue;
    assert_true(pn_number_of_text(text, n, &y));
    assert_memory_equal(&x, &y, sizeof x);
  }
}

static void json_does_not_follow_the_locale(void **state) {
  (void)state;
  char text[PN_TEXT_NUMBER];
  double x = 0;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
    skip();
  pn_text_of_number(-2.5e-7, text);
  bool same = pn_number_of_text("3.25", 4, &x);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(text, "-2.5e-07");
  assert_true(same && x == 3.25);
}

static void text_numbers_are_plain_decimals_only(void **state) {
  (void)state;
  static const char *const good[] = {"1", "-1.", "+.5", "1e5", "1E-5", "007"};
  static const char *const bad[] = {"",    ".",  "-",  "1e",    "1e+",   "0x10", "nan", "inf",
                                    "1,5", "1 ", " 1", "1.2.3", "1e400", "--1",  "1d5"};
  double x = 0;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i)
    assert_true(pn_number_of_text(good[i], strlen(good[i]), &x));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i)
    assert_false(pn_number_of_text(bad[i], strlen(bad[i]), &x));
}

static void text_fixed_numbers_are_rounded(void **state) {
  (void)state;
  pn_text w = {0};
  const double x[] = {1.005, -0.004, 2.5, -1234.5678, 0.999};
  for (size_t i = 0; i < 5; ++i) {
    pn_put_fixed(&w, x[i], i == 2 ? 0 : 2);
    pn_put(&w, " ");
  }
  assert_string_equal(
      w.text, "1.00 0.00 3 -1234.57 1.00 "); /* 1.005 lies just below; halves go away from 0 */
  pn_text_free(&w);
}

static void json_misuse_is_an_error(void **state) {
  (void)state;
  const char *text = NULL;
  for (int k = 0; k < 7; ++k) {
    pn_json *j = fresh();
    if (k == 1)
      pn_json_end(j);
    if (k == 2)
      pn_json_array(j, NULL); /* stays open */
    if (k == 3)
      pn_json_number(j, "key", 1);
    if (k == 4) {
      pn_json_object(j, NULL);
      pn_json_number(j, NULL, 1);
      pn_json_end(j);
    }
    if (k == 5) {
      pn_json_number(j, NULL, 1);
      pn_json_number(j, NULL, 1);
    }
    for (int i = 0; k == 6 && i < 100; ++i)
      pn_json_array(j, NULL);
    assert_int_equal(pn_json_text(j, &text, NULL), TN_ESTATE); /* k = 0: nothing written */
    pn_json_free(&j);
    assert_null(j);
  }
}

static void json_reports_failed_allocations(void **state) {
  (void)state;
  size_t failures = 0;
  for (uint64_t k = 1;; ++k) {
    pn_json *j = NULL;
    const char *text = NULL;
    tn_fault_at(k, true);
    tn_status status = pn_json_new(&j);
    if (status == TN_OK) {
      pn_json_array(j, NULL);
      for (int i = 0; i < 200; ++i)
        pn_json_string(j, NULL, "some text");
      pn_json_end(j);
      status = pn_json_text(j, &text, NULL);
    }
    pn_json_free(&j);
    tn_fault_at(0, false);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
    ++failures;
  }
  assert_true(failures > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_keeps_order_and_nests),
      cmocka_unit_test(json_escapes_strings),
      cmocka_unit_test(json_numbers_read_back_as_themselves),
      cmocka_unit_test(json_does_not_follow_the_locale),
      cmocka_unit_test(text_numbers_are_plain_decimals_only),
      cmocka_unit_test(text_fixed_numbers_are_rounded),
      cmocka_unit_test(json_misuse_is_an_error),
      cmocka_unit_test(json_reports_failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
