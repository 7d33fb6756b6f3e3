/* support_algebra.c: reads requests to the algebra planner from text. */
#include "tests/support_algebra.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ag_monomial monomial_of(const char *slots, const char *word, size_t length) {
  ag_monomial m = {{0}};
  for (size_t i = 0; i < length && word[i] != '1'; ++i) {
    const char *slot = strchr(slots, word[i]);
    assert_non_null(slot);
    ++m.power[slot - slots];
  }
  return m;
}

static ag_symbol_term term_of(const char *slots, const char **text, int64_t sign) {
  ag_symbol_term term = {{{0}}, {sign, 1}, -1};
  for (;; ++*text) { /* factors between "*" */
    size_t length = strcspn(*text, " *;");
    if (**text == 's') {
      term.opaque = (int)strtol(*text + 1, NULL, 10);
    } else if (**text >= '0' && **text <= '9') {
      char *end;
      term.factor.num *= strtoll(*text, &end, 10);
      if (*end == '/')
        term.factor.den = strtoll(end + 1, &end, 10);
    } else {
      term.monomial = monomial_of(slots, *text, length);
    }
    *text += length;
    if (**text != '*')
      return term;
  }
}

void algebra_close_top(algebra_request *r, size_t begin) {
  assert_true(r->n_tops < MAX_TOPS);
  r->top[r->n_tops++] = (ag_top){r->term + begin, r->n_terms - begin};
}

void algebra_parse(algebra_request *r, const char *slots, const char *monomials, const char *tops) {
  *r = (algebra_request){.slots = strlen(slots)};
  for (const char *word = monomials; *word != '\0'; word += *word == ' ') {
    size_t length = strcspn(word, " ");
    r->monomial[r->n_monomials++] = monomial_of(slots, word, length);
    word += length;
  }
  size_t begin = 0;
  int64_t sign = 1;
  for (const char *at = tops; *at != '\0';) {
    if (*at == ' ' || *at == '+' || *at == '-' || *at == ';') {
      sign = *at == '-' ? -1 : *at == '+' ? 1 : sign;
      if (*at == ';') {
        algebra_close_top(r, begin);
        begin = r->n_terms;
        sign = 1;
      }
      ++at;
    } else {
      assert_true(r->n_terms < MAX_TERMS);
      r->term[r->n_terms++] = term_of(slots, &at, sign);
    }
  }
  if (tops[0] != '\0')
    algebra_close_top(r, begin);
}

ag_algebra *algebra_plan(const algebra_request *r, unsigned flags) {
  ag_algebra *algebra = NULL;
  tn_status status =
      ag_algebra_new(r->slots, r->n_monomials, r->monomial, r->n_tops, r->top, flags, &algebra);
  if (status != TN_OK)
    fail_msg("%s: %s", tn_status_name(status), tn_error_text());
  return algebra;
}

ag_algebra *algebra_plan_text(const char *slots, const char *monomials, const char *tops) {
  algebra_request r;
  algebra_parse(&r, slots, monomials, tops);
  return algebra_plan(&r, AG_FOLDED);
}

size_t algebra_count_terms(const ag_algebra *algebra) {
  size_t n;
  (void)ag_algebra_terms(algebra, &n);
  return n;
}
