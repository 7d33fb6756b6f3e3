/* algebra.c: the tables of an algebra, from the channels that closure.c finds.
 *
 * The product table is the coproduct b_a(xi + eta) = sum of coef^a_bc b_b(xi) b_c(eta), read off
 * entry by entry: closure.c explains why
 *
 *   coef^a_bc = [coefficient of xi^(p_b + p_c) in b_a] * binom(p_b + p_c, p_b)
 *
 * with the pivots p of the channels of V_low, and why a top has two more terms, itself times the
 * value on either side. So each monomial of each channel is split in all ways, and a split into two
 * pivots is a term. The number of terms is the cost of a product of jets; full k-jets have the most
 * per channel.
 *
 * A coordinate x_j as a jet: b_a(D) x_j is the coefficient of xi_j in b_a, for every channel but
 * the value.
 */
#include "autograd/closure.h"

#include <stdlib.h>

struct ag_algebra {
  ag_closure closure;
  unsigned order;
  ag_list terms; /* of ag_term */
  ag_list seeds; /* of ag_seed; slot j has those from seed_begin[j] */
  size_t seed_begin[AG_MAX_SLOTS + 1];
};

/* ---- Tables ---------------------------------------------------------------------------------- */

static int compare_terms(const void *x, const void *y) {
  const ag_term *p = x, *q = y;
  if (p->a != q->a)
    return p->a < q->a ? -1 : 1;
  if (p->b != q->b)
    return p->b < q->b ? -1 : 1;
  if (p->c != q->c)
    return p->c < q->c ? -1 : 1;
  return (p->opaque > q->opaque) - (p->opaque < q->opaque);
}

/* The channel of V_low with this pivot, or -1. */
static int channel_of_pivot(const ag_closure *closure, const ag_monomial *m) {
  size_t low = 0, high = closure->n_low;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = ag_monomial_compare(&closure->pivot[middle], m);
    if (order == 0)
      return (int)middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static int64_t choose(unsigned n, unsigned k) {
  int64_t value = 1;
  for (unsigned i = 1; i <= k; ++i)
    value = value * (n - k + i) / i;
  return value;
}

/* The terms that one monomial of channel a gives: all splits alpha = beta + gamma into two pivots.
 * Counts through the splits like an odometer. */
static tn_status write_splits(const ag_closure *closure, int a, const ag_symbol_term *term,
                              ag_list *terms) {
  ag_monomial beta = {{0}}, gamma = term->monomial;
  for (;;) {
    int b = channel_of_pivot(closure, &beta), c = b < 0 ? -1 : channel_of_pivot(closure, &gamma);
    if (c >= 0) {
      ag_term split = {a, b, c, {1, 1}, term->opaque};
      int64_t ways = 1; /* at most binom(12, 6) by Vandermonde */
      for (size_t j = 0; j < closure->slots; ++j)
        ways *= choose(term->monomial.power[j], beta.power[j]);
      TN_TRY(ag_rational_mul(term->factor, (ag_rational){ways, 1}, &split.factor));
      TN_TRY(ag_list_push(terms, sizeof split, &split));
    }
    size_t j = 0;
    while (j < closure->slots && gamma.power[j] == 0) {
      gamma.power[j] = term->monomial.power[j];
      beta.power[j++] = 0;
    }
    if (j == closure->slots)
      return TN_OK;
    --gamma.power[j];
    ++beta.power[j];
  }
}

static tn_status write_terms(ag_algebra *algebra) {
  const ag_closure *closure = &algebra->closure;
  for (int a = 0; a < (int)closure->channels; ++a) {
    size_t n;
    const ag_symbol_term *symbol = ag_algebra_symbol(algebra, a, &n);
    for (size_t i = 0; i < n; ++i)
      TN_TRY(write_splits(closure, a, &symbol[i], &algebra->terms));
    if ((size_t)a < closure->n_low)
      continue;
    ag_term whole[2] = {{a, a, 0, {1, 1}, -1}, {a, 0, a, {1, 1}, -1}};
    TN_TRY(ag_list_push(&algebra->terms, sizeof *whole, &whole[0]));
    TN_TRY(ag_list_push(&algebra->terms, sizeof *whole, &whole[1]));
  }
  qsort(algebra->terms.items, algebra->terms.count, sizeof(ag_term), compare_terms);
  return TN_OK;
}

static tn_status write_seeds(ag_algebra *algebra) {
  for (size_t j = 0; j < algebra->closure.slots && j < AG_MAX_SLOTS; ++j) {
    ag_monomial slot = {{0}};
    slot.power[j] = 1;
    for (int a = 1; a < (int)algebra->closure.channels; ++a) {
      size_t n;
      const ag_symbol_term *symbol = ag_algebra_symbol(algebra, a, &n);
      for (size_t i = 0; i < n; ++i) {
        if (ag_monomial_compare(&symbol[i].monomial, &slot) != 0)
          continue;
        ag_seed seed = {a, symbol[i].factor, symbol[i].opaque};
        TN_TRY(ag_list_push(&algebra->seeds, sizeof seed, &seed));
      }
    }
    algebra->seed_begin[j + 1] = algebra->seeds.count;
  }
  return TN_OK;
}

static tn_status make_tables(ag_algebra *algebra) {
  TN_TRY(write_terms(algebra));
  TN_TRY(write_seeds(algebra));
  for (int a = 0; a < (int)algebra->closure.channels; ++a) {
    unsigned degree = ag_algebra_degree(algebra, a);
    if (degree > algebra->order)
      algebra->order = degree;
  }
  return TN_OK;
}

tn_status ag_algebra_new(size_t slots, size_t n_monomials, const ag_monomial *monomials,
                         size_t n_tops, const ag_top *tops, unsigned flags, ag_algebra **out) {
  ag_algebra *algebra = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &algebra));
  tn_status status =
      ag_closure_find(slots, n_monomials, monomials, n_tops, tops, flags, &algebra->closure);
  if (status == TN_OK)
    status = make_tables(algebra);
  if (status == TN_OK)
    *out = algebra;
  else
    ag_algebra_free(&algebra);
  return status;
}

void ag_algebra_free(ag_algebra **algebra) {
  if (*algebra == NULL)
    return;
  ag_closure_free(&(*algebra)->closure);
  tn_free(&(*algebra)->terms.items);
  tn_free(&(*algebra)->seeds.items);
  tn_free(algebra);
}

/* ---- Queries --------------------------------------------------------------------------------- */

size_t ag_algebra_slots(const ag_algebra *algebra) { return algebra->closure.slots; }

size_t ag_algebra_channels(const ag_algebra *algebra) { return algebra->closure.channels; }

unsigned ag_algebra_order(const ag_algebra *algebra) { return algebra->order; }

unsigned ag_algebra_degree(const ag_algebra *algebra, int channel) {
  size_t n;
  const ag_symbol_term *symbol = ag_algebra_symbol(algebra, channel, &n);
  return n == 0 ? 0 : ag_monomial_degree(&symbol[n - 1].monomial); /* sorted by degree */
}

const ag_term *ag_algebra_terms(const ag_algebra *algebra, size_t *n) {
  *n = algebra->terms.count;
  return algebra->terms.items;
}

const ag_seed *ag_algebra_seeds(const ag_algebra *algebra, size_t slot, size_t *n) {
  *n = 0;
  if (slot >= algebra->closure.slots)
    return NULL;
  size_t begin = algebra->seed_begin[slot];
  *n = algebra->seed_begin[slot + 1] - begin;
  return *n == 0 ? NULL : (const ag_seed *)algebra->seeds.items + begin;
}

const ag_symbol_term *ag_algebra_symbol(const ag_algebra *algebra, int channel, size_t *n) {
  *n = 0;
  if (channel < 0 || (size_t)channel >= algebra->closure.channels)
    return NULL;
  size_t begin = algebra->closure.symbol_begin[channel];
  *n = algebra->closure.symbol_begin[channel + 1] - begin;
  return (const ag_symbol_term *)algebra->closure.symbols.items + begin;
}

int ag_algebra_channel_of(const ag_algebra *algebra, const ag_monomial *monomial) {
  for (int a = 0; a < (int)algebra->closure.channels; ++a) {
    size_t n;
    const ag_symbol_term *symbol = ag_algebra_symbol(algebra, a, &n);
    if (n == 1 && symbol->opaque == -1 && symbol->factor.num == 1 && symbol->factor.den == 1 &&
        ag_monomial_compare(&symbol->monomial, monomial) == 0)
      return a;
  }
  return -1;
}

const ag_part *ag_algebra_top(const ag_algebra *algebra, size_t i, size_t *n) {
  *n = 0;
  if (i >= algebra->closure.n_tops)
    return NULL;
  size_t begin = algebra->closure.part_begin[i];
  *n = algebra->closure.part_begin[i + 1] - begin;
  return *n == 0 ? NULL : (const ag_part *)algebra->closure.parts.items + begin;
}
