/* algebra.h: from the operators that a residual needs to the smallest algebra of channels.
 *
 * An operator of constant coefficients is its symbol, a polynomial P(xi) in the slots (arguments)
 * of a field: u_xx + u_yy is xi_x^2 + xi_y^2. A jet carries one channel per basis element b_a of a
 * space of such polynomials that is closed under the product rule
 *
 *   b_a(D)(f g) = sum over terms (a, b, c, factor):  factor * b_b(D)f * b_c(D)g,
 *
 * which says nothing but  b_a(xi + eta) = sum factor * b_b(xi) * b_c(eta).  Channel 0 is the
 * constant 1, the value itself. All constants are exact rationals; a folded operator may also hold
 * opaque factors, numbers known only at run time (a viscosity, data at a point), which the table
 * hands on by number.
 *
 * Internal to autograd/. Pointers returned are borrowed and live as long as the algebra.
 */
#ifndef AUTOGRAD_ALGEBRA_H
#define AUTOGRAD_ALGEBRA_H

#include "autograd/rational.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  AG_MAX_SLOTS = 16,       /* arguments of a field */
  AG_MAX_ORDER = 12,       /* total order of an operator */
  AG_MAX_MONOMIALS = 2048, /* distinct divisors of requested monomials; bounds the channels too */
};

/* ---- Requests -------------------------------------------------------------------------------- */

/* xi_0^power[0] * xi_1^power[1] * ...; powers of slots that the field lacks are 0. All 0: the
 * value. */
typedef struct ag_monomial {
  uint8_t power[AG_MAX_SLOTS];
} ag_monomial;

/* factor * s_opaque * monomial; opaque = -1: no run-time factor. */
typedef struct ag_symbol_term {
  ag_monomial monomial;
  ag_rational factor;
  int opaque;
} ag_symbol_term;

/* A folded operator: the sum of its terms, which may repeat a monomial. No term at all: the
 * operator 0. */
typedef struct ag_top {
  const ag_symbol_term *terms;
  size_t n_terms;
} ag_top;

/* Flags: fold tops, or give each monomial of a top a channel of its own. */
enum { AG_FOLDED = 0, AG_SEPARATE = 1 };

/* ---- The algebra ----------------------------------------------------------------------------- */

/* Out channel a gets factor * s_opaque * (channel b of f) * (channel c of g). */
typedef struct ag_term {
  int a, b, c;
  ag_rational factor;
  int opaque; /* -1: none */
} ag_term;

/* The coordinate function of a slot has the value factor * s_opaque in this channel. */
typedef struct ag_seed {
  int channel;
  ag_rational factor;
  int opaque;
} ag_seed;

/* One summand of a requested top: factor * s_opaque * (this channel). */
typedef struct ag_part {
  int channel;
  ag_rational factor;
  int opaque;
} ag_part;

typedef struct ag_algebra ag_algebra;

/* Plans the algebra that holds every monomial as a channel of its own and every top as a
 * combination of channels. Errors: TN_EINPUT (no or too many slots, a power in a slot that the
 * field lacks, a zero denominator, opaque < -1, unknown flags), TN_EUNSUPPORTED (order, number of
 * monomials or 64-bit integers exceeded), TN_ENOMEM. The requests are copied. *out is owned by the
 * caller, NULL after an error. */
tn_status ag_algebra_new(size_t slots, size_t n_monomials, const ag_monomial *monomials,
                         size_t n_tops, const ag_top *tops, unsigned flags,
                         ag_algebra **out) TN_MUST_USE;
void ag_algebra_free(ag_algebra **algebra);

size_t ag_algebra_slots(const ag_algebra *algebra);
size_t ag_algebra_channels(const ag_algebra *algebra);
/* K, the highest degree of a channel: if the value channel of n is 0, then n^(K+1) = 0. */
unsigned ag_algebra_order(const ag_algebra *algebra);
/* The degree of one channel, i.e. the order of its highest derivative. */
unsigned ag_algebra_degree(const ag_algebra *algebra, int channel);

/* The product table, sorted by a, then b, then c, then opaque: the order in which every executor
 * sums. Symmetric: with (a, b, c) it holds (a, c, b) with the same factor and opaque. */
const ag_term *ag_algebra_terms(const ag_algebra *algebra, size_t *n);

/* Nonzero seeds of one slot by channel; channel 0 is not among them: there the seed is the
 * coordinate. */
const ag_seed *ag_algebra_seeds(const ag_algebra *algebra, size_t slot, size_t *n);

/* The symbol b_a of a channel: monomials by degree, then as words (x < y, xx < xy < yy), then
 * opaque. */
const ag_symbol_term *ag_algebra_symbol(const ag_algebra *algebra, int channel, size_t *n);

/* The channel whose symbol is exactly this monomial, or -1. Never -1 for a requested monomial. */
int ag_algebra_channel_of(const ag_algebra *algebra, const ag_monomial *monomial);

/* The i-th requested top as a sum of channels, sorted by channel, then opaque; *n = 0 for a top
 * that is 0. Often one part {channel, 1, -1}. */
const ag_part *ag_algebra_top(const ag_algebra *algebra, size_t i, size_t *n);

/* Names for labels; each may be NULL: then "1" for the value, x0, x1, ... and s0, s1, ... */
typedef struct ag_names {
  const char *field;
  const char *const *slots;   /* as many as the algebra has slots */
  const char *const *opaques; /* n_opaques, by number */
  size_t n_opaques;
} ag_names;

/* "u", "x", "x*(xx + yy)", "t - s0*xx"; names longer than a letter are joined by "_" ("r_theta").
 * *out is owned by the caller: tn_free. */
tn_status ag_algebra_label(const ag_algebra *algebra, int channel, const ag_names *names,
                           char **out) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
