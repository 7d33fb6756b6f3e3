/* label.c: the names of channels, as a report shows them.
 *
 *   u    x    xy    r_theta    xx + yy    x*(xx + yy)    t - 3/2*nu*xx
 *
 * A channel is written as its symbol, with the slots' names for the variables and the field's name
 * for 1. A monomial that divides all terms stands in front. Numbers are exact fractions, so no
 * locale can change them.
 */
#include "autograd/algebra.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *bytes; /* owned */
  size_t count, capacity;
} text;

static tn_status put_byte(text *t, char byte) {
  if (t->count == t->capacity) {
    TN_TRY(tn_grow(&t->bytes, t->capacity, 2 * t->capacity + 32, 1));
    t->capacity = 2 * t->capacity + 32;
  }
  t->bytes[t->count++] = byte;
  return TN_OK;
}

static tn_status put(text *t, const char *s) {
  for (; *s != '\0'; ++s)
    TN_TRY(put_byte(t, *s));
  return TN_OK;
}

static tn_status put_slot(text *t, const ag_names *names, size_t j) {
  char own[32];
  if (names->slots != NULL)
    return put(t, names->slots[j]);
  snprintf(own, sizeof own, "x%zu", j);
  return put(t, own);
}

static tn_status put_monomial(text *t, const ag_names *names, size_t slots, const ag_monomial *m) {
  bool letters = names->slots != NULL, first = true;
  for (size_t j = 0; letters && j < slots; ++j)
    letters = strlen(names->slots[j]) == 1;
  for (size_t j = 0; j < slots; ++j) {
    for (unsigned k = 0; k < m->power[j]; ++k) {
      if (!first && !letters)
        TN_TRY(put(t, "_"));
      TN_TRY(put_slot(t, names, j));
      first = false;
    }
  }
  return first ? put(t, names->field != NULL ? names->field : "1") : TN_OK;
}

/* " - 3/2*s0*" before a monomial; the sign stands alone in front of a first term. */
static tn_status put_factor(text *t, const ag_names *names, const ag_symbol_term *term,
                            bool first) {
  char number[64];
  bool negative = term->factor.num < 0;
  int64_t num = negative ? -term->factor.num : term->factor.num;
  TN_TRY(put(t, first ? (negative ? "-" : "") : negative ? " - " : " + "));
  if (term->factor.den != 1) {
    snprintf(number, sizeof number, "%" PRId64 "/%" PRId64 "*", num, term->factor.den);
    TN_TRY(put(t, number));
  } else if (num != 1) {
    snprintf(number, sizeof number, "%" PRId64 "*", num);
    TN_TRY(put(t, number));
  }
  if (term->opaque < 0)
    return TN_OK;
  if (names->opaques != NULL && (size_t)term->opaque < names->n_opaques) {
    TN_TRY(put(t, names->opaques[term->opaque]));
  } else {
    snprintf(number, sizeof number, "s%d", term->opaque);
    TN_TRY(put(t, number));
  }
  return put(t, "*");
}

static tn_status put_symbol(text *t, const ag_names *names, size_t slots, size_t n,
                            const ag_symbol_term *symbol) {
  ag_monomial common = symbol->monomial; /* divides all */
  for (size_t i = 1; i < n; ++i)
    for (size_t j = 0; j < slots; ++j)
      if (symbol[i].monomial.power[j] < common.power[j])
        common.power[j] = symbol[i].monomial.power[j];
  /* The first term has the lowest degree. If common is all of it, as in x + xy, nothing is taken.
   */
  bool outside = memcmp(&common, &symbol->monomial, sizeof common) != 0 &&
                 memcmp(&common, &(ag_monomial){{0}}, sizeof common) != 0;
  if (outside) {
    TN_TRY(put_monomial(t, names, slots, &common));
    TN_TRY(put(t, "*("));
  }
  for (size_t i = 0; i < n; ++i) {
    ag_monomial rest = symbol[i].monomial;
    for (size_t j = 0; outside && j < slots; ++j)
      rest.power[j] = (uint8_t)(rest.power[j] - common.power[j]);
    TN_TRY(put_factor(t, names, &symbol[i], i == 0));
    TN_TRY(put_monomial(t, names, slots, &rest));
  }
  return outside ? put(t, ")") : TN_OK;
}

tn_status ag_algebra_label(const ag_algebra *algebra, int channel, const ag_names *names,
                           char **out) {
  const ag_names none = {0};
  text t = {0};
  size_t n;
  const ag_symbol_term *symbol = ag_algebra_symbol(algebra, channel, &n);
  *out = NULL;
  if (symbol == NULL)
    return TN_FAIL(TN_EINPUT, "algebra: label of channel %d, expected 0 to %zu", channel,
                   ag_algebra_channels(algebra) - 1);
  tn_status status =
      put_symbol(&t, names != NULL ? names : &none, ag_algebra_slots(algebra), n, symbol);
  if (status == TN_OK)
    status = put_byte(&t, '\0');
  if (status == TN_OK)
    *out = t.bytes;
  else
    tn_free(&t.bytes);
  return status;
}
