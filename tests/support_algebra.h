/* support_algebra.h: requests to the algebra planner, written as text. */
#ifndef TESTS_SUPPORT_ALGEBRA_H
#define TESTS_SUPPORT_ALGEBRA_H

#include "autograd/algebra.h"

enum { MAX_MONOMIALS = 300, MAX_TERMS = 64, MAX_TOPS = 8 };

typedef struct {
  size_t slots, n_monomials, n_tops, n_terms;
  ag_monomial monomial[MAX_MONOMIALS];
  ag_symbol_term term[MAX_TERMS]; /* of all tops, one after the other */
  ag_top top[MAX_TOPS];           /* points into term: a request must not be copied */
} algebra_request;

/* Slots "xyt" (one letter each, not s), monomials "1 x xy", tops "t - 1/2*s0*xx; tt" (";" parts them). */
void algebra_parse(algebra_request *r, const char *slots, const char *monomials, const char *tops);
/* Makes a top of the terms from `begin` on. */
void algebra_close_top(algebra_request *r, size_t begin);

/* The planned algebra; an error fails the test. The caller frees it. */
ag_algebra *algebra_plan(const algebra_request *r, unsigned flags);
ag_algebra *algebra_plan_text(const char *slots, const char *monomials, const char *tops);

size_t algebra_count_terms(const ag_algebra *algebra);

#endif
