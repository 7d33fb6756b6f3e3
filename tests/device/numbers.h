/* numbers.h: elements of the formats that NVIDIA's libraries take, read into a double and rounded
 * from one, to nearest even. For the emulated libraries only: their own words, so that the
 * program's conversions are not their judge. */
#ifndef EMULATED_NUMBERS_H
#define EMULATED_NUMBERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum element { ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16, ELEMENT_F16, ELEMENTS } element;

static inline size_t element_bytes(element e) {
  return e == ELEMENT_F64 ? 8 : e == ELEMENT_F32 ? 4 : 2;
}

/* x rounded to `bits` of significand and to exponents from `least` up. */
static inline double element_round(double x, int bits, int least) {
  int exponent;
  if (x == 0 || !isfinite(x))
    return x;
  (void)frexp(x, &exponent); /* |x| in [0.5, 1) 2^exponent */
  int last = exponent - bits > least ? exponent - bits : least;
  return ldexp(nearbyint(ldexp(x, -last)), last);
}

static inline double element_read(element e, const void *data, size_t i) {
  double d;
  float f;
  uint16_t u;
  switch (e) {
  case ELEMENT_F64:
    memcpy(&d, (const char *)data + 8 * i, 8);
    return d;
  case ELEMENT_F32:
    memcpy(&f, (const char *)data + 4 * i, 4);
    return (double)f;
  case ELEMENT_BF16: {
    memcpy(&u, (const char *)data + 2 * i, 2);
    uint32_t wide = (uint32_t)u << 16;
    memcpy(&f, &wide, 4);
    return (double)f;
  }
  default:
    memcpy(&u, (const char *)data + 2 * i, 2);
    d = (u >> 10 & 31) == 31 ? (u & 1023 ? (double)NAN : (double)INFINITY)
        : (u >> 10 & 31)     ? ldexp(1024 + (u & 1023), (u >> 10 & 31) - 25)
                             : ldexp(u & 1023, -24);
    return u >> 15 ? -d : d;
  }
}

static inline void element_write(element e, void *data, size_t i, double x) {
  uint16_t u;
  float f = (float)x;
  uint32_t wide;
  switch (e) {
  case ELEMENT_F64:
    memcpy((char *)data + 8 * i, &x, 8);
    return;
  case ELEMENT_F32:
    memcpy((char *)data + 4 * i, &f, 4);
    return;
  case ELEMENT_BF16:
    f = (float)element_round(x, 8, -133);
    memcpy(&wide, &f, 4);
    u = (uint16_t)(isnan(x) ? 0x7fff : wide >> 16);
    break;
  default: {
    double r = element_round(fabs(x), 11, -24);
    int exponent;
    (void)frexp(r, &exponent);
    u = isnan(x)     ? 0x7fff
        : r >= 65536 ? 0x7c00
        : r < 6.103515625e-05
            ? (uint16_t)ldexp(r, 24)
            : (uint16_t)((exponent + 14) << 10 | ((int)ldexp(r, 11 - exponent) & 1023));
    u = (uint16_t)(u | (signbit(x) && !isnan(x) ? 0x8000 : 0));
  }
  }
  memcpy((char *)data + 2 * i, &u, 2);
}

#endif
