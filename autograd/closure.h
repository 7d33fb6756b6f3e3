/* closure.h: the channels of an algebra, found from its requests. Between closure.c, which finds
 * them, and algebra.c, which makes tables of them; nobody else includes it. */
#ifndef AUTOGRAD_CLOSURE_H
#define AUTOGRAD_CLOSURE_H

#include "autograd/algebra.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A growing array; zeroed is empty. Freed by tn_free(&items). */
typedef struct ag_list {
  void *items;
  size_t count, capacity;
} ag_list;

/* Appends a copy of the item of this size. */
tn_status ag_list_push(ag_list *list, size_t size, const void *item) TN_MUST_USE;

typedef struct ag_closure {
  size_t slots, n_tops;
  size_t channels; /* n_low channels of V_low, then those made by tops */
  size_t n_low;
  ag_monomial *pivot; /* n_low, ascending by ag_monomial_compare: in no other channel below n_low */
  ag_list symbols;    /* of ag_symbol_term; channel a has those from symbol_begin[a] */
  size_t *symbol_begin; /* channels + 1 */
  ag_list parts;        /* of ag_part; top i is the sum of those from part_begin[i] */
  size_t *part_begin;   /* n_tops + 1 */
} ag_closure;

/* Fills the zeroed *out, which is to be freed after an error too. Arguments of ag_algebra_new. */
tn_status ag_closure_find(size_t slots, size_t n_monomials, const ag_monomial *monomials,
                          size_t n_tops, const ag_top *tops, unsigned flags,
                          ag_closure *out) TN_MUST_USE;
void ag_closure_free(ag_closure *closure);

unsigned ag_monomial_degree(const ag_monomial *m);
/* -1, 0, 1: by degree, then as words: 1 < x < y < xx < xy < yy. */
int ag_monomial_compare(const ag_monomial *x, const ag_monomial *y);

#ifdef __cplusplus
}
#endif

#endif
