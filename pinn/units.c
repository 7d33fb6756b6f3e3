/* units.c: units of measurement: parsing, products, printing.
 *
 * A unit is a number times powers of the seven base units of the SI; derived units are rows of one table, prefixes of
 * another. Names win over prefix and name: "min" is a minute, "Pa" no peta-ampere. Units with an offset (degC) are not
 * offered: a difference and a temperature in them are two things.
 * Values: The International System of Units, 9th edition (BIPM, 2019); the conventional ones are exact by definition.
 */
#include "pinn/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/keys.h"
#include "pinn/text.h"

typedef struct row {
  const char *name;
  double factor;
  int m, kg, s, A, K, mol, cd;
  bool prefix; /* may have one */
} row;

static const row rows[] = {
    {"m", 1, 1, 0, 0, 0, 0, 0, 0, true},      {"g", 1e-3, 0, 1, 0, 0, 0, 0, 0, true},
    {"s", 1, 0, 0, 1, 0, 0, 0, 0, true},      {"A", 1, 0, 0, 0, 1, 0, 0, 0, true},
    {"K", 1, 0, 0, 0, 0, 1, 0, 0, true},      {"mol", 1, 0, 0, 0, 0, 0, 1, 0, true},
    {"cd", 1, 0, 0, 0, 0, 0, 0, 1, true},     {"rad", 1, 0, 0, 0, 0, 0, 0, 0, true},
    {"sr", 1, 0, 0, 0, 0, 0, 0, 0, false},    {"Hz", 1, 0, 0, -1, 0, 0, 0, 0, true},
    {"N", 1, 1, 1, -2, 0, 0, 0, 0, true},     {"Pa", 1, -1, 1, -2, 0, 0, 0, 0, true},
    {"J", 1, 2, 1, -2, 0, 0, 0, 0, true},     {"W", 1, 2, 1, -3, 0, 0, 0, 0, true},
    {"C", 1, 0, 0, 1, 1, 0, 0, 0, true},      {"V", 1, 2, 1, -3, -1, 0, 0, 0, true},
    {"F", 1, -2, -1, 4, 2, 0, 0, 0, true},    {"ohm", 1, 2, 1, -3, -2, 0, 0, 0, true},
    {"S", 1, -2, -1, 3, 2, 0, 0, 0, true},    {"Wb", 1, 2, 1, -2, -1, 0, 0, 0, true},
    {"T", 1, 0, 1, -2, -1, 0, 0, 0, true},    {"H", 1, 2, 1, -2, -2, 0, 0, 0, true},
    {"lm", 1, 0, 0, 0, 0, 0, 0, 1, true},     {"lx", 1, -2, 0, 0, 0, 0, 0, 1, true},
    {"Bq", 1, 0, 0, -1, 0, 0, 0, 0, true},    {"Gy", 1, 2, 0, -2, 0, 0, 0, 0, true},
    {"kat", 1, 0, 0, -1, 0, 0, 1, 0, true},   {"min", 60, 0, 0, 1, 0, 0, 0, 0, false},
    {"h", 3600, 0, 0, 1, 0, 0, 0, 0, false},  {"d", 86400, 0, 0, 1, 0, 0, 0, 0, false},
    {"day", 86400, 0, 0, 1, 0, 0, 0, 0, false}, {"year", 31557600, 0, 0, 1, 0, 0, 0, 0, false},
    {"L", 1e-3, 3, 0, 0, 0, 0, 0, 0, true},   {"l", 1e-3, 3, 0, 0, 0, 0, 0, 0, true},
    {"bar", 1e5, -1, 1, -2, 0, 0, 0, 0, true}, {"atm", 101325, -1, 1, -2, 0, 0, 0, 0, false},
    {"eV", 1.602176634e-19, 2, 1, -2, 0, 0, 0, 0, true}, {"t", 1e3, 0, 1, 0, 0, 0, 0, 0, false},
    {"deg", 0.017453292519943295, 0, 0, 0, 0, 0, 0, 0, false},
};
enum { N_ROWS = sizeof rows / sizeof *rows, LONGEST = 255, MOST_POWER = 100 };

static const struct {
  const char *name;
  double factor;
} prefixes[] = {{"da", 1e1}, {"Q", 1e30}, {"R", 1e27}, {"Y", 1e24}, {"Z", 1e21}, {"E", 1e18},  {"P", 1e15},
                {"T", 1e12}, {"G", 1e9},  {"M", 1e6},  {"k", 1e3},  {"h", 1e2},  {"d", 1e-1},  {"c", 1e-2},
                {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}, {"p", 1e-12}, {"f", 1e-15}, {"a", 1e-18}};

/* ---- Arithmetic -------------------------------------------------------------------------------- */

pn_unit pn_unit_one(void) { return (pn_unit){.factor = 1}; }

pn_unit pn_unit_product(pn_unit a, pn_unit b, int sign) {
  a.factor = sign > 0 ? a.factor * b.factor : a.factor / b.factor;
  for (size_t i = 0; i < PN_UNIT_BASES; ++i)
    a.power[i] += sign * b.power[i];
  return a;
}

bool pn_unit_raise(pn_unit a, double e, pn_unit *out) {
  *out = (pn_unit){.factor = pow(a.factor, e)};
  for (size_t i = 0; i < PN_UNIT_BASES; ++i) {
    double power = a.power[i] * e;
    if (fabs(power - rint(power)) > 1e-9 || fabs(power) > MOST_POWER * PN_UNIT_ROOT)
      return false;
    out->power[i] = (int)rint(power);
  }
  return true;
}

bool pn_unit_same_dimension(pn_unit a, pn_unit b) {
  return memcmp(a.power, b.power, sizeof a.power) == 0;
}

bool pn_unit_same(pn_unit a, pn_unit b) {
  return pn_unit_same_dimension(a, b) && fabs(a.factor - b.factor) <= 1e-12 * fabs(a.factor);
}

static pn_unit unit_of(const row *r, double prefix) {
  const int power[] = {r->m, r->kg, r->s, r->A, r->K, r->mol, r->cd};
  pn_unit unit = {.factor = r->factor * prefix};
  for (size_t i = 0; i < PN_UNIT_BASES; ++i)
    unit.power[i] = PN_UNIT_ROOT * power[i];
  return unit;
}

/* ---- Parsing ----------------------------------------------------------------------------------- */

static tn_status find_name(const char *name, size_t n, pn_unit *out) {
  const char *names[N_ROWS];
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)n, name);
  for (size_t i = 0; i < N_ROWS; ++i) {
    names[i] = rows[i].name;
    if (strcmp(word, rows[i].name) == 0) {
      *out = unit_of(&rows[i], 1);
      return TN_OK;
    }
  }
  for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; ++p) {
    size_t length = strlen(prefixes[p].name);
    for (size_t i = 0; i < N_ROWS; ++i)
      if (rows[i].prefix && strncmp(word, prefixes[p].name, length) == 0 &&
          strcmp(word + length, rows[i].name) == 0) {
        *out = unit_of(&rows[i], prefixes[p].factor);
        return TN_OK;
      }
  }
  if (strcmp(word, "degC") == 0 || strcmp(word, "degF") == 0)
    return TN_FAIL(TN_EINPUT, "`%s` has an offset: write the temperature in K", word);
  const char *near = pn_nearest(word, N_ROWS, names);
  return TN_FAIL(TN_EINPUT, "there is no unit `%s`%s%s%s", word, near ? ". Did you mean `" : "",
                 near ? near : "", near ? "`?" : "");
}

static void skip(const char **at) {
  while (**at == ' ')
    ++*at;
}

/* A whole number, perhaps signed. */
static tn_status whole(const char **at, int *out) {
  char *end = NULL;
  skip(at);
  long value = strtol(*at, &end, 10);
  if (end == *at || value > MOST_POWER || value < -MOST_POWER)
    return TN_FAIL(TN_EINPUT, "`%s`: a power is a whole number, or a fraction in brackets as ^(1/2)", *at);
  *out = (int)value;
  *at = end;
  return TN_OK;
}

static tn_status power(const char **at, double *out) {
  int above = 1, below = 1;
  skip(at);
  *out = 1;
  if (**at != '^')
    return TN_OK;
  ++*at;
  skip(at);
  bool brackets = **at == '(';
  *at += brackets;
  TN_TRY(whole(at, &above));
  skip(at);
  if (brackets && **at == '/') {
    ++*at;
    TN_TRY(whole(at, &below));
  }
  skip(at);
  if (brackets && *(*at)++ != ')')
    return TN_FAIL(TN_EINPUT, "a bracket is not closed");
  if (below == 0 || PN_UNIT_ROOT % abs(below) != 0)
    return TN_FAIL(TN_EINPUT, "the power %d/%d: roots are of order 2, 3, 4, 5, 6 and the like", above, below);
  *out = (double)above / below;
  return TN_OK;
}

static tn_status factor(const char **at, pn_unit *out) {
  double e = 1, number = 1;
  size_t n = 0;
  skip(at);
  while (isalpha((unsigned char)(*at)[n]))
    ++n;
  if (n > 0) {
    TN_TRY(find_name(*at, n, out));
  } else {
    n = strspn(*at, "0123456789.eE+-");
    if (n == 0 || !pn_number_of_text(*at, n, &number) || !(number > 0))
      return TN_FAIL(TN_EINPUT, "`%s`: the name of a unit is expected, as in kg*m^-3", *at);
    *out = (pn_unit){.factor = number};
  }
  *at += n;
  TN_TRY(power(at, &e));
  if (!pn_unit_raise(*out, e, out))
    return TN_FAIL(TN_EINPUT, "a power of a unit is too large");
  return TN_OK;
}

tn_status pn_unit_parse(const char *text, pn_unit *out) {
  const char *at = text;
  *out = pn_unit_one();
  if (strlen(text) > LONGEST)
    return TN_FAIL(TN_EINPUT, "a unit of more than %d characters", LONGEST);
  for (int sign = 1;;) {
    pn_unit one;
    TN_TRY(factor(&at, &one));
    *out = pn_unit_product(*out, one, sign);
    skip(&at);
    if (!*at)
      return TN_OK;
    sign = *at == '/' ? -1 : 1;
    if (*at == '/' || *at == '*')
      ++at;
    else if (!isalpha((unsigned char)*at))
      return TN_FAIL(TN_EINPUT, "`%s`: units are joined by * and /", at);
  }
}

/* ---- Printing ---------------------------------------------------------------------------------- */

static void put_power(char *out, const char *name, int power) {
  size_t n = strlen(out);
  int below = PN_UNIT_ROOT, above = power;
  for (int k = PN_UNIT_ROOT; k > 1; --k)
    if (above % k == 0 && below % k == 0) {
      above /= k;
      below /= k;
    }
  if (below != 1)
    snprintf(out + n, PN_UNIT_TEXT - n, "%s%s^(%d/%d)", n ? "*" : "", name, above, below);
  else if (above == 1)
    snprintf(out + n, PN_UNIT_TEXT - n, "%s%s", n ? "*" : "", name);
  else
    snprintf(out + n, PN_UNIT_TEXT - n, "%s%s^%d", n ? "*" : "", name, above);
}

void pn_unit_text(pn_unit unit, char out[PN_UNIT_TEXT]) {
  static const char *const bases[] = {"m", "kg", "s", "A", "K", "mol", "cd"};
  pn_unit plain = unit;
  bool none = true;
  out[0] = 0;
  for (size_t i = 0; i < PN_UNIT_BASES; ++i)
    none = none && unit.power[i] == 0;
  for (size_t i = 0; i < N_ROWS && !none; ++i)
    if (pn_unit_same(unit, unit_of(&rows[i], 1))) {
      snprintf(out, PN_UNIT_TEXT, "%s", rows[i].name);
      return;
    }
  plain.factor = 1;
  if (!pn_unit_same(unit, plain) || none) {
    char number[PN_TEXT_NUMBER];
    pn_text_of_number(unit.factor, number);
    snprintf(out, PN_UNIT_TEXT, "%s", number);
  }
  for (size_t i = 0; i < PN_UNIT_BASES; ++i)
    if (unit.power[i] != 0)
      put_power(out, bases[i], unit.power[i]);
}
