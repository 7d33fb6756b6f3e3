/* units.h: units of measurement as texts, powers of base units and a factor. Inside pinn/ only. */
#ifndef PINN_UNITS_H
#define PINN_UNITS_H

#include "pinn/problem.h"

/* factor * prod base_i^(power_i / PN_UNIT_ROOT), the bases of the SI: m kg s A K mol cd. Exponents are whole
 * multiples of 1/60, so that products and roots are exact. */
enum { PN_UNIT_BASES = 7, PN_UNIT_ROOT = 60, PN_UNIT_TEXT = 96 };
typedef struct pn_unit {
  double factor; /* in SI: 0.001 for mm */
  int power[PN_UNIT_BASES];
} pn_unit;

typedef enum pn_measured { /* what has a unit */
  PN_MEASURED_COORDINATE,
  PN_MEASURED_CONSTANT,
  PN_MEASURED_UNKNOWN,
  PN_MEASURED_DEFINITION,
  PN_MEASURED_TABLE,
  PN_MEASURED_PARAMETER
} pn_measured;

typedef struct pn_unit_entry { /* of [units] */
  const char *name;
  pn_measured what; /* and its index there */
  size_t index;
  pn_unit unit;
  pn_place place;
} pn_unit_entry;

/* "m/s", "kg*m^-3", "N m", "m^(1/2)", "1": names with prefixes, products by * or a space, quotients from the left,
 * whole powers or fractions in brackets. TN_EINPUT, without a place, says which part is none and what is near. */
tn_status pn_unit_parse(const char *text, pn_unit *out) TN_MUST_USE;
pn_unit pn_unit_one(void);
pn_unit pn_unit_product(pn_unit a, pn_unit b, int sign); /* a * b, or a / b (sign -1) */
/* a^e; false if an exponent is no multiple of 1/60. */
bool pn_unit_raise(pn_unit a, double e, pn_unit *out);
bool pn_unit_same_dimension(pn_unit a, pn_unit b);
/* Factors equal to rounding: 1e-12 relative, so that unit conversions written in decimal agree. */
bool pn_unit_same(pn_unit a, pn_unit b);
/* "N/m^2", "0.001 m", "1": a derived name where one fits, else powers of the bases. */
void pn_unit_text(pn_unit unit, char out[PN_UNIT_TEXT]);

#endif
