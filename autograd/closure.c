/* closure.c: closes a set of differential operators under the product rule.
 *
 * P(D)(f g) follows from P(xi + eta) = sum over alpha of xi^alpha/alpha! * (d^alpha P)(eta). So a
 * space of symbols is closed under products, and with them under every function of a jet, exactly
 * if it holds all partial derivatives of its members. The least such space for the requests is
 *
 *   V     = V_low + span of the tops,
 *   V_low = span{1, requested monomials and all their derivatives,
 *                all proper derivatives of the numeric parts L_o of the tops}.
 *
 * V_low is kept in reduced row echelon form over the rationals. The columns are the monomials,
 * highest degree first, then as words (xx, xy, yy), and the pivot of a row is its first column. A
 * monomial that lies in a space is a row of its echelon form by itself, so a requested monomial is
 * a channel. In the coproduct of any element, the factor of b_b (x) b_c is the entry at
 * (pivot_b, pivot_c), all other rows being 0 there:
 *
 *   coef^a_bc = [coefficient of xi^(p_b + p_c) in b_a] * binom(p_b + p_c, p_b),
 *
 * which needs no linear solve. A top T = sum_o s_o L_o, reduced by V_low, gives T (x) 1 + 1 (x) T
 * and the same formula for the rest, because the rest of its coproduct lies in V_low (x) V_low.
 *
 * How few channels tops need. What lies in V_low is read from there, with its run-time factor. If
 * the remainders of all L_o are multiples of one polynomial, that polynomial is the channel and the
 * s_o stay outside, so the table stays numeric (Laplacians with two viscosities share a channel).
 * Only then do the others get channels with opaque factors. A second echelon form, over pairs
 * (opaque, monomial), finds tops that depend linearly on earlier ones; further columns record by
 * which combination. Derivatives of the L_o are taken one by one, so a sum with several opaque
 * factors above order 2 may keep more channels than an elimination over rational functions of the
 * s_o would; the result is closed all the same.
 *
 * Cost: rows are dense. C channels, M monomials and d slots take O(d C^2 M) steps in the worst case
 * and O(d C M) if all requests are monomials. A plan is made once per field and residual.
 */
#include "autograd/closure.h"

#include <stdlib.h>
#include <string.h>

/* ---- Lists and monomials --------------------------------------------------------------------- */

tn_status ag_list_push(ag_list *l, size_t size, const void *item) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
    TN_TRY(tn_grow(&l->items, l->capacity, capacity, size));
    l->capacity = capacity;
  }
  memcpy((char *)l->items + l->count * size, item, size);
  ++l->count;
  return TN_OK;
}

unsigned ag_monomial_degree(const ag_monomial *m) {
  unsigned degree = 0;
  for (size_t j = 0; j < AG_MAX_SLOTS; ++j)
    degree += m->power[j];
  return degree;
}

static int compare_words(const ag_monomial *x, const ag_monomial *y) { /* xx < xy < yy */
  for (size_t j = 0; j < AG_MAX_SLOTS; ++j)
    if (x->power[j] != y->power[j])
      return x->power[j] > y->power[j] ? -1 : 1;
  return 0;
}

int ag_monomial_compare(const ag_monomial *x, const ag_monomial *y) { /* low degrees first */
  unsigned p = ag_monomial_degree(x), q = ag_monomial_degree(y);
  return p != q ? (p < q ? -1 : 1) : compare_words(x, y);
}

static int compare_columns(const ag_monomial *x, const ag_monomial *y) { /* high degrees first */
  unsigned p = ag_monomial_degree(x), q = ag_monomial_degree(y);
  return p != q ? (p > q ? -1 : 1) : compare_words(x, y);
}

static int compare_symbol_terms(const void *x, const void *y) {
  const ag_symbol_term *p = x, *q = y;
  int order = ag_monomial_compare(&p->monomial, &q->monomial);
  return order != 0 ? order : (p->opaque > q->opaque) - (p->opaque < q->opaque);
}

static int compare_parts(const void *x, const void *y) {
  const ag_part *p = x, *q = y;
  if (p->channel != q->channel)
    return p->channel < q->channel ? -1 : 1;
  return (p->opaque > q->opaque) - (p->opaque < q->opaque);
}

/* ---- The plan -------------------------------------------------------------------------------- */

typedef struct {
  size_t slots, n_tops;
  const ag_top *top;
  ag_monomial *column; /* in the order of compare_columns, at most AG_MAX_MONOMIALS */
  size_t columns, column_room;
  int *opaque; /* the opaque numbers that occur; opaque[0] = -1 */
  size_t opaques;
  ag_span low;        /* V_low, over the columns */
  size_t *row_of_low; /* channel of V_low to row, and back */
  int *low_of_row;
  ag_span tops;        /* over opaque x column, with passengers opaque x top; see settle_top */
  ag_list *top_symbol; /* n_tops; empty unless top i made a channel: number low.rows + i for now */
  ag_list *top_parts;  /* n_tops */
  bool *settled;       /* n_tops */
  ag_rational *full, *reduced, *work; /* vectors of tops.width */
  ag_rational *base;                  /* columns */
  ag_rational *ratio;                 /* opaques */
} planner;

static void planner_free(planner *p) {
  for (size_t i = 0; i < p->n_tops; ++i) {
    if (p->top_symbol != NULL)
      tn_free(&p->top_symbol[i].items);
    if (p->top_parts != NULL)
      tn_free(&p->top_parts[i].items);
  }
  ag_span_free(&p->low);
  ag_span_free(&p->tops);
  void *owned[] = {p->column,  p->opaque, p->row_of_low, p->low_of_row, p->top_symbol, p->top_parts,
                   p->settled, p->full,   p->reduced,    p->work,       p->base,       p->ratio};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; ++i)
    tn_free(&owned[i]);
}

/* The column of a monomial, or the place where it would stand. */
static size_t place_of(const planner *p, const ag_monomial *m) {
  size_t low = 0, high = p->columns;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare_columns(&p->column[middle], m) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Makes columns of m and of all monomials that divide it; if m is there, they are. */
static tn_status add_divisors(planner *p, ag_monomial m) {
  size_t at = place_of(p, &m);
  if (at < p->columns && compare_words(&p->column[at], &m) == 0)
    return TN_OK;
  if (p->columns == AG_MAX_MONOMIALS)
    return TN_FAIL(
        TN_EUNSUPPORTED,
        "algebra: the operators have more than %d different partial derivatives, at most "
        "that many are supported",
        AG_MAX_MONOMIALS);
  if (p->columns == p->column_room) {
    size_t room = p->column_room ? 2 * p->column_room : 32;
    TN_TRY(tn_grow(&p->column, p->column_room, room, sizeof *p->column));
    p->column_room = room;
  }
  memmove(&p->column[at + 1], &p->column[at], (p->columns - at) * sizeof m);
  p->column[at] = m;
  ++p->columns;
  for (size_t j = 0; j < p->slots; ++j) {
    if (m.power[j] == 0)
      continue;
    ag_monomial divisor = m;
    --divisor.power[j];
    TN_TRY(add_divisors(p, divisor));
  }
  return TN_OK;
}

static tn_status check_monomial(const planner *p, const ag_monomial *m, const char *what,
                                size_t i) {
  for (size_t j = p->slots; j < AG_MAX_SLOTS; ++j)
    if (m->power[j] != 0)
      return TN_FAIL(TN_EINPUT, "algebra: %s %zu has a power in slot %zu, the field has %zu slots",
                     what, i, j, p->slots);
  unsigned degree = ag_monomial_degree(m);
  if (degree > AG_MAX_ORDER)
    return TN_FAIL(TN_EUNSUPPORTED, "algebra: %s %zu has order %u, at most %d is supported", what,
                   i, degree, AG_MAX_ORDER);
  return TN_OK;
}

static size_t index_of_opaque(const planner *p, int opaque) {
  size_t o = 0;
  while (o < p->opaques && p->opaque[o] != opaque)
    ++o;
  return o;
}

static tn_status read_requests(planner *p, size_t n_monomials, const ag_monomial *monomials) {
  size_t n_terms = 0;
  for (size_t i = 0; i < p->n_tops; ++i)
    n_terms += p->top[i].n_terms;
  TN_TRY(TN_NEW(n_terms + 1, &p->opaque));
  p->opaque[p->opaques++] = -1;
  TN_TRY(add_divisors(p, (ag_monomial){{0}}));
  for (size_t i = 0; i < n_monomials; ++i) {
    TN_TRY(check_monomial(p, &monomials[i], "monomial", i));
    TN_TRY(add_divisors(p, monomials[i]));
  }
  for (size_t i = 0; i < p->n_tops; ++i) {
    for (size_t k = 0; k < p->top[i].n_terms; ++k) {
      const ag_symbol_term *term = &p->top[i].terms[k];
      ag_rational factor;
      TN_TRY(check_monomial(p, &term->monomial, "top", i));
      TN_TRY(ag_rational_of(term->factor.num, term->factor.den, &factor));
      if (term->opaque < -1)
        return TN_FAIL(TN_EINPUT, "algebra: top %zu has the opaque factor %d, expected -1 or more",
                       i, term->opaque);
      TN_TRY(add_divisors(p, term->monomial));
      if (index_of_opaque(p, term->opaque) == p->opaques)
        p->opaque[p->opaques++] = term->opaque;
    }
  }
  return TN_OK;
}

/* v[o][column] = coefficients of top i by opaque factor, no passengers. */
static tn_status load_top(const planner *p, size_t i, ag_rational *v) {
  memset(v, 0, p->tops.width * sizeof *v);
  for (size_t k = 0; k < p->top[i].n_terms; ++k) {
    const ag_symbol_term *term = &p->top[i].terms[k];
    size_t at = index_of_opaque(p, term->opaque) * p->columns + place_of(p, &term->monomial);
    ag_rational factor;
    TN_TRY(ag_rational_of(term->factor.num, term->factor.den, &factor));
    TN_TRY(ag_rational_add(v[at], factor, &v[at]));
  }
  return TN_OK;
}

/* Adds the derivative of v along each slot to V_low. */
static tn_status add_derivatives(planner *p, const ag_rational *v) {
  for (size_t j = 0; j < p->slots; ++j) {
    memset(p->base, 0, p->columns * sizeof *p->base);
    for (size_t i = 0; i < p->columns; ++i) {
      ag_monomial m = p->column[i];
      if (v[i].num == 0 || m.power[j] == 0)
        continue;
      ag_rational power = {m.power[j], 1};
      --m.power[j];
      TN_TRY(ag_rational_mul(v[i], power, &p->base[place_of(p, &m)]));
    }
    TN_TRY(ag_span_add(&p->low, p->base));
  }
  return TN_OK;
}

static tn_status add_monomial(planner *p, const ag_monomial *m) {
  memset(p->base, 0, p->columns * sizeof *p->base);
  p->base[place_of(p, m)] = (ag_rational){1, 1};
  return ag_span_add(&p->low, p->base);
}

/* V_low and the order of its channels. Rows change while later rows join, but only by multiples of
 * those rows, whose derivatives are added in their turn: so each row needs to be derived only once.
 */
static tn_status close_low(planner *p, size_t n_monomials, const ag_monomial *monomials,
                           bool separate) {
  TN_TRY(add_monomial(p, &(ag_monomial){{0}}));
  for (size_t i = 0; i < n_monomials; ++i)
    TN_TRY(add_monomial(p, &monomials[i]));
  for (size_t i = 0; i < p->n_tops; ++i) {
    TN_TRY(load_top(p, i, p->full));
    for (size_t k = 0; separate && k < p->top[i].n_terms; ++k)
      if (p->top[i].terms[k].factor.num != 0)
        TN_TRY(add_monomial(p, &p->top[i].terms[k].monomial));
    for (size_t o = 0; o < p->opaques; ++o)
      TN_TRY(add_derivatives(p, p->full + o * p->columns));
  }
  for (size_t k = 0; k < p->low.rows; ++k)
    TN_TRY(add_derivatives(p, p->low.row[k]));
  TN_TRY(TN_NEW(p->low.rows, &p->row_of_low));
  TN_TRY(TN_NEW(p->low.rows, &p->low_of_row));
  size_t channel = 0; /* blocks of equal degree, the last first; within them words ascend */
  for (size_t end = p->columns; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 &&
           ag_monomial_degree(&p->column[begin - 1]) == ag_monomial_degree(&p->column[end - 1]))
      --begin;
    for (size_t i = begin; i < end; ++i) {
      if (p->low.row_of[i] < 0)
        continue;
      p->row_of_low[channel] = (size_t)p->low.row_of[i];
      p->low_of_row[p->low.row_of[i]] = (int)channel++;
    }
    end = begin;
  }
  return TN_OK;
}

/* ---- Tops ------------------------------------------------------------------------------------ */

static tn_status add_part(ag_list *parts, size_t channel, ag_rational factor, int opaque) {
  ag_part part = {(int)channel, factor, opaque};
  return factor.num == 0 ? TN_OK : ag_list_push(parts, sizeof part, &part);
}

/* *rank of v seen as a matrix opaque x column: 0, 1, or 2 for more. At rank 1, v[o] = ratio[o] *
 * base; base is v[0] itself if no run-time factor occurs, else its leading coefficient is 1. */
static tn_status factor_out(planner *p, const ag_rational *v, size_t *rank) {
  size_t lead = 0;
  bool numeric = true;
  *rank = 0;
  for (size_t i = 0; i < p->opaques * p->columns; ++i) {
    if (v[i].num == 0)
      continue;
    if (*rank == 0)
      lead = i;
    *rank = 1;
    numeric = numeric && i < p->columns;
  }
  if (*rank == 0)
    return TN_OK;
  size_t first = lead / p->columns, column = lead % p->columns;
  for (size_t i = 0; i < p->columns; ++i)
    TN_TRY(ag_rational_div(v[first * p->columns + i], numeric ? (ag_rational){1, 1} : v[lead],
                           &p->base[i]));
  for (size_t o = 0; o < p->opaques; ++o) {
    const ag_rational *part = v + o * p->columns;
    TN_TRY(ag_rational_div(part[column], p->base[column], &p->ratio[o]));
    for (size_t i = 0; i < p->columns; ++i) {
      ag_rational product;
      TN_TRY(ag_rational_mul(p->ratio[o], p->base[i], &product));
      if (product.num != part[i].num || (product.num != 0 && product.den != part[i].den))
        *rank = 2;
    }
  }
  return TN_OK;
}

static tn_status add_symbol(const planner *p, ag_list *symbol, const ag_rational *v, int opaque) {
  for (size_t i = 0; i < p->columns; ++i) {
    if (v[i].num == 0)
      continue;
    ag_symbol_term term = {p->column[i], v[i], opaque};
    TN_TRY(ag_list_push(symbol, sizeof term, &term));
  }
  return TN_OK;
}

/* Passenger columns: opaque o times the channel of top i. */
static size_t passenger(const planner *p, size_t o, size_t i) {
  return p->opaques * p->columns + o * p->n_tops + i;
}

/* Top i makes the numeric channel p->base, whose product with each opaque factor is known then. */
static tn_status add_numeric_channel(planner *p, size_t i) {
  TN_TRY(add_symbol(p, &p->top_symbol[i], p->base, -1));
  for (size_t o = 0; o < p->opaques; ++o) {
    TN_TRY(add_part(&p->top_parts[i], p->low.rows + i, p->ratio[o], p->opaque[o]));
    memset(p->work, 0, p->tops.width * sizeof *p->work);
    memcpy(p->work + o * p->columns, p->base, p->columns * sizeof *p->base);
    p->work[passenger(p, o, i)] = (ag_rational){1, 1};
    TN_TRY(ag_span_add(&p->tops, p->work));
  }
  return TN_OK;
}

/* Top i makes a channel of what V_low leaves of it, opaque factors included. */
static tn_status add_opaque_channel(planner *p, size_t i) {
  for (size_t o = 0; o < p->opaques; ++o)
    TN_TRY(add_symbol(p, &p->top_symbol[i], p->full + o * p->columns, p->opaque[o]));
  p->full[passenger(p, 0, i)] = (ag_rational){1, 1};
  TN_TRY(add_part(&p->top_parts[i], p->low.rows + i, (ag_rational){1, 1}, -1));
  return ag_span_add(&p->tops, p->full);
}

/* Expresses top i by channels, if need be with a new one; one with opaque factors only if force is
 * set. A row of p->tops says: sum of entry * s_o * monomial = sum of passenger * s_o * channel.
 * Reducing a top by the rows thus leaves minus its combination in the passengers. A new channel
 * takes the remainder by V_low alone where it can: u_xx beside u_xx + u_yy stays u_xx, with no
 * cancellation later. */
static tn_status settle_top(planner *p, size_t i, bool force) {
  size_t rank, full_rank;
  ag_list *parts = &p->top_parts[i];
  parts->count = 0;
  TN_TRY(load_top(p, i, p->full));
  for (size_t o = 0; o < p->opaques; ++o) {
    ag_rational *part = p->full + o * p->columns;
    for (size_t k = 0; k < p->low.rows; ++k) {
      ag_rational factor = part[p->low.pivot[k]];
      if (factor.num == 0)
        continue;
      TN_TRY(add_part(parts, (size_t)p->low_of_row[k], factor, p->opaque[o]));
      TN_TRY(ag_rational_subtract(factor, p->low.row[k], p->columns, part));
    }
  }
  memcpy(p->reduced, p->full, p->tops.width * sizeof *p->full);
  TN_TRY(ag_span_reduce(&p->tops, p->reduced));
  TN_TRY(factor_out(p, p->full, &full_rank));
  bool whole = full_rank == 1;
  TN_TRY(factor_out(p, p->reduced, &rank));
  if (rank > 1 && !whole && !force)
    return TN_OK;
  p->settled[i] = true;
  if (rank > 0 && whole) {
    TN_TRY(factor_out(p, p->full, &full_rank));
    return add_numeric_channel(p, i);
  }
  if (rank > 1)
    return add_opaque_channel(p, i);
  for (size_t o = 0; o < p->opaques; ++o) {
    for (size_t k = 0; k < p->n_tops; ++k) {
      ag_rational minus = p->reduced[passenger(p, o, k)];
      minus.num = -minus.num;
      TN_TRY(add_part(parts, p->low.rows + k, minus, p->opaque[o]));
    }
  }
  return rank == 0 ? TN_OK : add_numeric_channel(p, i);
}

/* A channel found late may free an earlier top from its opaque factors: hence repeated passes. */
static tn_status settle_tops(planner *p) {
  for (bool force = false;;) {
    bool progress = false, open = false;
    for (size_t i = 0; i < p->n_tops && !(force && progress); ++i) {
      if (p->settled[i])
        continue;
      TN_TRY(settle_top(p, i, force));
      progress = progress || p->settled[i];
      open = open || !p->settled[i];
    }
    if (force)
      force = false;
    else if (!progress && !open)
      return TN_OK;
    else
      force = !progress;
  }
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Symbols of all channels: V_low, then the tops that made one, in request order. */
static tn_status write_symbols(planner *p, ag_closure *out) {
  size_t channel = 0;
  TN_TRY(TN_NEW(p->low.rows + p->n_tops + 1, &out->symbol_begin));
  for (size_t k = 0; k < p->low.rows + p->n_tops; ++k) {
    if (k < p->low.rows) {
      TN_TRY(add_symbol(p, &out->symbols, p->low.row[p->row_of_low[k]], -1));
    } else {
      const ag_list *symbol = &p->top_symbol[k - p->low.rows];
      const ag_symbol_term *term = symbol->items;
      if (symbol->count == 0)
        continue;
      for (size_t i = 0; i < symbol->count; ++i)
        TN_TRY(ag_list_push(&out->symbols, sizeof *term, &term[i]));
    }
    size_t begin = out->symbol_begin[channel];
    ag_symbol_term *first = (ag_symbol_term *)out->symbols.items + begin;
    qsort(first, out->symbols.count - begin, sizeof *first, compare_symbol_terms);
    out->symbol_begin[++channel] = out->symbols.count;
  }
  out->channels = channel;
  out->n_low = p->low.rows;
  TN_TRY(TN_NEW(out->n_low, &out->pivot));
  for (size_t k = 0; k < out->n_low; ++k)
    out->pivot[k] = p->column[p->low.pivot[p->row_of_low[k]]];
  return TN_OK;
}

/* Combinations of all tops. Provisional channel numbers count tops that made no channel, too. */
static tn_status write_parts(const planner *p, ag_closure *out) {
  TN_TRY(TN_NEW(p->n_tops + 1, &out->part_begin));
  for (size_t i = 0; i < p->n_tops; ++i) {
    const ag_part *part = p->top_parts[i].items;
    size_t begin = out->parts.count;
    for (size_t k = 0; k < p->top_parts[i].count; ++k) {
      ag_part numbered = part[k];
      for (size_t t = 0; p->low.rows + t < (size_t)part[k].channel; ++t)
        numbered.channel -= p->top_symbol[t].count == 0;
      TN_TRY(ag_list_push(&out->parts, sizeof numbered, &numbered));
    }
    if (out->parts.count > begin)
      qsort((ag_part *)out->parts.items + begin, out->parts.count - begin, sizeof(ag_part),
            compare_parts);
    out->part_begin[i + 1] = out->parts.count;
  }
  return TN_OK;
}

static tn_status make_room(planner *p) {
  const size_t max_entries = (size_t)1 << 24; /* 256 MiB */
  size_t width = p->opaques * (p->columns + p->n_tops), rows = p->n_tops * p->opaques;
  if (p->n_tops > max_entries || width > max_entries || (rows > 0 && width > max_entries / rows))
    return TN_FAIL(TN_EUNSUPPORTED,
                   "algebra: %zu tops with %zu opaque factors over %zu monomials are too many",
                   p->n_tops, p->opaques - 1, p->columns);
  TN_TRY(ag_span_new(&p->low, p->columns, p->columns, p->columns));
  TN_TRY(ag_span_new(&p->tops, p->opaques * p->columns, width, rows));
  TN_TRY(TN_NEW(p->n_tops, &p->top_symbol));
  TN_TRY(TN_NEW(p->n_tops, &p->top_parts));
  TN_TRY(TN_NEW(p->n_tops, &p->settled));
  TN_TRY(TN_NEW(width, &p->full));
  TN_TRY(TN_NEW(width, &p->reduced));
  TN_TRY(TN_NEW(width, &p->work));
  TN_TRY(TN_NEW(p->columns, &p->base));
  return TN_NEW(p->opaques, &p->ratio);
}

static tn_status find(planner *p, size_t n_monomials, const ag_monomial *monomials, bool separate,
                      ag_closure *out) {
  TN_TRY(read_requests(p, n_monomials, monomials));
  TN_TRY(make_room(p));
  TN_TRY(close_low(p, n_monomials, monomials, separate));
  TN_TRY(settle_tops(p));
  TN_TRY(write_symbols(p, out));
  return write_parts(p, out);
}

tn_status ag_closure_find(size_t slots, size_t n_monomials, const ag_monomial *monomials,
                          size_t n_tops, const ag_top *tops, unsigned flags, ag_closure *out) {
  if (slots == 0 || slots > AG_MAX_SLOTS)
    return TN_FAIL(TN_EINPUT, "algebra: a field of %zu slots, expected 1 to %d", slots,
                   AG_MAX_SLOTS);
  if ((flags & ~(unsigned)AG_SEPARATE) != 0)
    return TN_FAIL(TN_EINPUT, "algebra: flags %#x, expected AG_FOLDED or AG_SEPARATE", flags);
  planner p = {.slots = slots, .n_tops = n_tops, .top = tops};
  out->slots = slots;
  out->n_tops = n_tops;
  tn_status status = find(&p, n_monomials, monomials, (flags & AG_SEPARATE) != 0, out);
  planner_free(&p);
  return status;
}

void ag_closure_free(ag_closure *closure) {
  tn_free(&closure->pivot);
  tn_free(&closure->symbols.items);
  tn_free(&closure->symbol_begin);
  tn_free(&closure->parts.items);
  tn_free(&closure->part_begin);
}
