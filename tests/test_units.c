/* test_units.c: units as texts: what they mean, that products and roots are exact, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "pinn/units.h"

static pn_unit parse(const char *text) {
  pn_unit unit = pn_unit_one();
  if (pn_unit_parse(text, &unit) != TN_OK)
    fail_msg("`%s`: %s", text, tn_error_text());
  return unit;
}

static void same(const char *a, const char *b) {
  if (!pn_unit_same(parse(a), parse(b)))
    fail_msg("`%s` and `%s` are one unit", a, b);
}

static void units_have_one_meaning(void **state) {
  (void)state;
  same("N", "kg*m*s^-2");
  same("Pa", "N/m^2");
  same("kPa", "1000 Pa");
  same("J/s", "W");
  same("V*A", "W");
  same("m^3", "1000 L");
  same("mm", "0.001 m");
  same("min", "60 s");
  same("m^(1/2)*m^(1/2)", "m");
  same("m/s/s", "m*s^-2");
  same("kg m^-3", "g/L");
  same("mN", "1e-3*N"); /* milli-newton, no metre-newton */
  same("ohm*F", "s");
}

static void units_differ(void **state) {
  (void)state;
  assert_false(pn_unit_same(parse("mm"), parse("m")));
  assert_true(pn_unit_same_dimension(parse("mm"), parse("m")));
  assert_false(pn_unit_same_dimension(parse("N"), parse("N*m")));
  assert_false(pn_unit_same(parse("h"), parse("min")));
}

static void units_print_and_read_back(void **state) {
  static const char *const texts[] = {"N", "Pa", "kg*m^-3", "mm", "m^(1/2)", "1", "1000 m*s^-1", "W/m/K", "min"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    char text[PN_UNIT_TEXT];
    pn_unit_text(parse(texts[i]), text);
    same(texts[i], text);
  }
  char text[PN_UNIT_TEXT];
  pn_unit_text(parse("kg*m/s^2"), text);
  assert_string_equal(text, "N");
}

static void units_refuse_what_is_none(void **state) {
  static const char *const texts[][2] = {{"metre", "there is no unit `metre`"}, {"", "the name of a unit"},
                                         {"m^", "a power is a whole number"},   {"m^(1/7)", "roots are of order"},
                                         {"m**2", "the name of a unit"},        {"degC", "has an offset"},
                                         {"m^(1/2", "not closed"},              {"m^1000", "a power is"},
                                         {"-3 m", "the name of a unit"},        {"kmin", "there is no unit"}};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    pn_unit unit;
    assert_int_equal(pn_unit_parse(texts[i][0], &unit), TN_EINPUT);
    if (!strstr(tn_error_text(), texts[i][1]))
      fail_msg("`%s`: \"%s\" without \"%s\"", texts[i][0], tn_error_text(), texts[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(units_have_one_meaning),
      cmocka_unit_test(units_differ),
      cmocka_unit_test(units_print_and_read_back),
      cmocka_unit_test(units_refuse_what_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
