/* test_algebra.c: the algebra planner against its laws.
 *
 * Everything is exact. Identities between polynomials with rational coefficients are evaluated at
 * random points of the field of p = 2^31 - 1 elements, opaque factors being random elements too: a
 * false identity of degree n <= 24 holds there by chance with probability at most n/p
 * (Schwartz-Zippel), about 1e-8.
 */
#include "tests/support_algebra.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_OPAQUE = 8, MAX_CHANNELS = 320 };

/* ---- Arithmetic modulo p --------------------------------------------------------------------- */

static const uint64_t p = 2147483647;

static uint64_t power(uint64_t x, uint64_t n) {
  uint64_t y = 1;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1)
      y = y * x % p;
    x = x * x % p;
  }
  return y;
}

static uint64_t residue(ag_rational x) {
  int64_t modulus = (int64_t)p;
  uint64_t num = (uint64_t)((x.num % modulus + modulus) % modulus);
  return num * power((uint64_t)(x.den % modulus), p - 2) % p;
}

typedef struct {
  tn_stream stream;
  uint64_t next;
} source;

static uint64_t below(source *s, uint64_t n) { return tn_random_bits(s->stream, s->next++) % n; }

/* An assignment of opaque factors; number -1 is 1. */
typedef struct {
  uint64_t value[MAX_OPAQUE];
} factors;

static uint64_t factor_value(const factors *f, ag_rational factor, int opaque) {
  return residue(factor) * (opaque < 0 ? 1 : f->value[opaque]) % p;
}

static uint64_t evaluate(size_t n, const ag_symbol_term *symbol, const factors *f,
                         const uint64_t *xi) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    uint64_t value = factor_value(f, symbol[i].factor, symbol[i].opaque);
    for (size_t j = 0; j < AG_MAX_SLOTS; ++j)
      value = value * power(xi[j], symbol[i].monomial.power[j]) % p;
    sum = (sum + value) % p;
  }
  return sum;
}

static uint64_t evaluate_channel(const ag_algebra *algebra, size_t a, const factors *f,
                                 const uint64_t *xi) {
  size_t n;
  const ag_symbol_term *symbol = ag_algebra_symbol(algebra, (int)a, &n);
  return evaluate(n, symbol, f, xi);
}

/* z = x * y in the algebra; channels entries each, z not x or y. */
static void multiply(const ag_algebra *algebra, const factors *f, const uint64_t *x,
                     const uint64_t *y, uint64_t *z) {
  size_t n;
  const ag_term *term = ag_algebra_terms(algebra, &n);
  memset(z, 0, ag_algebra_channels(algebra) * sizeof *z);
  for (size_t i = 0; i < n; ++i) {
    uint64_t product = x[term[i].b] * y[term[i].c] % p;
    uint64_t value = factor_value(f, term[i].factor, term[i].opaque) * product % p;
    z[term[i].a] = (z[term[i].a] + value) % p;
  }
}

/* Adds v to the echelon rows unless it depends on them; returns the new number of rows. */
static size_t add_row(size_t rows, size_t width, uint64_t *row, uint64_t *v) {
  for (size_t k = 0; k < rows; ++k) { /* a row leads with 1, and later rows have 0 there */
    const uint64_t *r = row + k * width;
    size_t lead = 0;
    while (r[lead] == 0)
      ++lead;
    uint64_t factor = p - v[lead];
    for (size_t i = 0; i < width; ++i)
      v[i] = (v[i] + factor * r[i]) % p;
  }
  size_t lead = 0;
  while (lead < width && v[lead] == 0)
    ++lead;
  if (lead == width)
    return rows;
  uint64_t inverse = power(v[lead], p - 2);
  for (size_t i = 0; i < width; ++i)
    row[rows * width + i] = v[i] * inverse % p;
  return rows + 1;
}

/* ---- Laws that every algebra obeys ----------------------------------------------------------- */

static void check_order_and_symmetry(const ag_algebra *algebra) {
  size_t n, m;
  const ag_term *term = ag_algebra_terms(algebra, &n);
  for (size_t i = 0; i < n; ++i) {
    const ag_term *t = &term[i];
    assert_true(t->factor.num != 0 && t->factor.den > 0);
    if (i > 0) {
      const ag_term *before = t - 1;
      int order = before->a != t->a   ? before->a - t->a
                  : before->b != t->b ? before->b - t->b
                  : before->c != t->c ? before->c - t->c
                                      : before->opaque - t->opaque;
      assert_true(order < 0);
    }
    bool mirrored = false;
    for (size_t k = 0; k < n && !mirrored; ++k)
      mirrored = term[k].a == t->a && term[k].b == t->c && term[k].c == t->b &&
                 term[k].opaque == t->opaque && term[k].factor.num == t->factor.num &&
                 term[k].factor.den == t->factor.den;
    assert_true(mirrored);
  }
  const ag_symbol_term *value = ag_algebra_symbol(algebra, 0, &m);
  assert_int_equal(m, 1);
  assert_int_equal(ag_algebra_degree(algebra, 0), 0);
  assert_true(value->factor.num == 1 && value->factor.den == 1 && value->opaque == -1);
}

/* b_a(xi + eta) = sum of coef b_b(xi) b_c(eta): the product rule on exponentials. */
static void check_coproduct(const ag_algebra *algebra, source *s) {
  uint64_t xi[AG_MAX_SLOTS], eta[AG_MAX_SLOTS], sum[AG_MAX_SLOTS];
  uint64_t x[MAX_CHANNELS] = {0}, y[MAX_CHANNELS] = {0}, z[MAX_CHANNELS];
  size_t channels = ag_algebra_channels(algebra);
  factors f;
  for (size_t o = 0; o < MAX_OPAQUE; ++o)
    f.value[o] = below(s, p);
  for (size_t j = 0; j < AG_MAX_SLOTS; ++j) {
    xi[j] = below(s, p);
    eta[j] = below(s, p);
    sum[j] = (xi[j] + eta[j]) % p;
  }
  for (size_t a = 0; a < channels; ++a) {
    x[a] = evaluate_channel(algebra, a, &f, xi);
    y[a] = evaluate_channel(algebra, a, &f, eta);
  }
  multiply(algebra, &f, x, y, z);
  for (size_t a = 0; a < channels; ++a)
    assert_int_equal(z[a], evaluate_channel(algebra, a, &f, sum));
}

/* Random jets: (x y) z = x (y z), which is co-associativity; 1 x = x; n^(K+1) = 0 but n^K is not. */
static void check_ring(const ag_algebra *algebra, source *s) {
  uint64_t x[MAX_CHANNELS], y[MAX_CHANNELS], z[MAX_CHANNELS], left[MAX_CHANNELS];
  uint64_t right[MAX_CHANNELS], work[MAX_CHANNELS], one[MAX_CHANNELS] = {1};
  size_t channels = ag_algebra_channels(algebra), bytes = channels * sizeof *x;
  unsigned order = ag_algebra_order(algebra);
  factors f;
  for (size_t o = 0; o < MAX_OPAQUE; ++o)
    f.value[o] = below(s, p);
  for (size_t a = 0; a < channels; ++a) {
    x[a] = below(s, p);
    y[a] = below(s, p);
    z[a] = below(s, p);
  }
  multiply(algebra, &f, x, y, work);
  multiply(algebra, &f, work, z, left);
  multiply(algebra, &f, y, z, work);
  multiply(algebra, &f, x, work, right);
  assert_memory_equal(left, right, bytes);
  multiply(algebra, &f, one, x, work);
  assert_memory_equal(work, x, bytes);
  x[0] = 0;
  memcpy(left, one, bytes);
  for (unsigned k = 0; k <= order; ++k) {
    bool zero = true;
    for (size_t a = 0; a < channels; ++a)
      zero = zero && left[a] == 0;
    assert_false(zero);
    multiply(algebra, &f, left, x, work);
    memcpy(left, work, bytes);
  }
  for (size_t a = 0; a < channels; ++a)
    assert_int_equal(left[a], 0);
}

/* The jet of the coordinates' product x^m, built from the seeds, against b_a(D) x^m by differentiating:
 * D^alpha x^m = product of m_j (m_j - 1) ... (m_j - alpha_j + 1) x_j^(m_j - alpha_j). */
static void check_polynomial(const ag_algebra *algebra, source *s) {
  uint64_t jet[MAX_CHANNELS] = {1}, coordinate[MAX_CHANNELS], work[MAX_CHANNELS];
  uint64_t point[AG_MAX_SLOTS];
  size_t channels = ag_algebra_channels(algebra), n;
  uint64_t m[AG_MAX_SLOTS] = {0};
  factors f;
  for (size_t o = 0; o < MAX_OPAQUE; ++o)
    f.value[o] = below(s, p);
  for (size_t j = 0; j < ag_algebra_slots(algebra); ++j) {
    point[j] = below(s, p);
    m[j] = below(s, 5);
    memset(coordinate, 0, sizeof coordinate);
    coordinate[0] = point[j];
    const ag_seed *seed = ag_algebra_seeds(algebra, j, &n);
    for (size_t i = 0; i < n; ++i) {
      uint64_t *at = &coordinate[seed[i].channel];
      *at = (*at + factor_value(&f, seed[i].factor, seed[i].opaque)) % p;
    }
    for (uint64_t k = 0; k < m[j]; ++k) {
      multiply(algebra, &f, jet, coordinate, work);
      memcpy(jet, work, channels * sizeof *jet);
    }
  }
  for (size_t a = 0; a < channels; ++a) {
    const ag_symbol_term *symbol = ag_algebra_symbol(algebra, (int)a, &n);
    uint64_t expected = 0;
    for (size_t i = 0; i < n; ++i) {
      uint64_t value = factor_value(&f, symbol[i].factor, symbol[i].opaque);
      for (size_t j = 0; j < ag_algebra_slots(algebra); ++j) {
        uint64_t alpha = symbol[i].monomial.power[j];
        for (uint64_t k = 0; k < alpha; ++k)
          value = k <= m[j] ? value * (m[j] - k) % p : 0;
        value = alpha <= m[j] ? value * power(point[j], m[j] - alpha) % p : 0;
      }
      expected = (expected + value) % p;
    }
    assert_int_equal(jet[a], expected);
  }
}

/* Each request is there: monomials as channels, tops as the combinations reported. */
static void check_requests(const ag_algebra *algebra, const algebra_request *r, source *s) {
  uint64_t xi[AG_MAX_SLOTS];
  factors f;
  size_t n;
  for (size_t o = 0; o < MAX_OPAQUE; ++o)
    f.value[o] = below(s, p);
  for (size_t j = 0; j < AG_MAX_SLOTS; ++j)
    xi[j] = below(s, p);
  for (size_t i = 0; i < r->n_monomials; ++i) {
    int a = ag_algebra_channel_of(algebra, &r->monomial[i]);
    assert_true(a >= 0);
    const ag_symbol_term *symbol = ag_algebra_symbol(algebra, a, &n);
    assert_int_equal(n, 1);
    assert_memory_equal(&symbol->monomial, &r->monomial[i], sizeof(ag_monomial));
  }
  for (size_t i = 0; i < r->n_tops; ++i) {
    const ag_part *part = ag_algebra_top(algebra, i, &n);
    uint64_t sum = 0;
    for (size_t k = 0; k < n; ++k) {
      uint64_t value = evaluate_channel(algebra, (size_t)part[k].channel, &f, xi);
      sum = (sum + factor_value(&f, part[k].factor, part[k].opaque) * value) % p;
      assert_true(part[k].factor.num != 0);
      assert_true(k == 0 || part[k - 1].channel < part[k].channel ||
                  part[k - 1].opaque < part[k].opaque);
    }
    assert_int_equal(sum, evaluate(r->top[i].n_terms, r->top[i].terms, &f, xi));
  }
}

/* Adds to the rows all derivatives of a symbol, each seen through its values at `width` random points. */
static size_t add_all_derivatives(size_t rows, size_t width, uint64_t *row, uint64_t *v,
                                  size_t slots, size_t n, const ag_symbol_term *symbol,
                                  const factors *f, uint64_t (*point)[AG_MAX_SLOTS]) {
  bool zero = true;
  for (size_t i = 0; i < width; ++i) {
    v[i] = evaluate(n, symbol, f, point[i]);
    zero = zero && v[i] == 0;
  }
  if (zero)
    return rows;
  rows = add_row(rows, width, row, v);
  for (size_t j = 0; j < slots; ++j) {
    ag_symbol_term derivative[MAX_TERMS];
    size_t m = 0;
    for (size_t i = 0; i < n; ++i) {
      if (symbol[i].monomial.power[j] == 0)
        continue;
      derivative[m] = symbol[i];
      derivative[m].factor.num *= derivative[m].monomial.power[j]--;
      ++m;
    }
    rows = add_all_derivatives(rows, width, row, v, slots, m, derivative, f, point);
  }
  return rows;
}

/* The channels are independent, and no closed space that holds the requests is smaller: its dimension is
 * the rank of all derivatives of all requests. With opaque factors that rank is a lower bound only. */
static void check_minimality(const ag_algebra *algebra, const algebra_request *r, source *s) {
  size_t channels = ag_algebra_channels(algebra), width = channels + 8, rows = 0;
  uint64_t(*point)[AG_MAX_SLOTS] = calloc(width, sizeof *point);
  uint64_t *row = calloc((width + 1) * width, sizeof *row), *v = calloc(width, sizeof *v);
  bool numeric = true;
  factors f;
  assert_true(point != NULL && row != NULL && v != NULL);
  for (size_t o = 0; o < MAX_OPAQUE; ++o)
    f.value[o] = below(s, p);
  for (size_t i = 0; i < width; ++i)
    for (size_t j = 0; j < AG_MAX_SLOTS; ++j)
      point[i][j] = below(s, p);
  for (size_t a = 0; a < channels; ++a) {
    for (size_t i = 0; i < width; ++i)
      v[i] = evaluate_channel(algebra, a, &f, point[i]);
    rows = add_row(rows, width, row, v);
  }
  assert_int_equal(rows, channels);
  const ag_symbol_term one = {{{0}}, {1, 1}, -1};
  memset(row, 0, (width + 1) * width * sizeof *row);
  rows = add_all_derivatives(0, width, row, v, r->slots, 1, &one, &f, point);
  for (size_t i = 0; i < r->n_monomials; ++i) {
    ag_symbol_term term = {r->monomial[i], {1, 1}, -1};
    rows = add_all_derivatives(rows, width, row, v, r->slots, 1, &term, &f, point);
  }
  for (size_t i = 0; i < r->n_tops; ++i) {
    for (size_t k = 0; k < r->top[i].n_terms; ++k)
      numeric = numeric && r->top[i].terms[k].opaque < 0;
    rows = add_all_derivatives(rows, width, row, v, r->slots, r->top[i].n_terms, r->top[i].terms,
                               &f, point);
  }
  if (numeric)
    assert_int_equal(rows, channels);
  assert_true(rows <= channels);
  free(point);
  free(row);
  free(v);
}

static void check_laws(const ag_algebra *algebra, const algebra_request *r, source *s) {
  check_order_and_symmetry(algebra);
  check_coproduct(algebra, s);
  check_ring(algebra, s);
  check_polynomial(algebra, s);
  check_requests(algebra, r, s);
  check_minimality(algebra, r, s);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name, *slots, *monomials, *tops;
  size_t channels, terms; /* terms = 0: not stated */
} known;

static void algebra_has_known_counts(void **state) {
  (void)state;
  const known table[] = {
      {"Burgers", "xt", "1 x", "t - s0*xx", 3, 6},
      {"Allen-Cahn", "xt", "1", "t - s0*xx", 3, 6},
      {"KdV", "xt", "1 x", "t + s0*xxx", 4, 0},
      {"KS", "xt", "1 x", "t + xx + xxxx", 5, 15},
      {"NS 2D unsteady", "xyt", "1 x y", "t - s0*xx - s0*yy; t - s0*xx - s0*yy", 4, 9},
      {"NS 2D steady", "xy", "1 x y", "s0*xx + s0*yy; x; y", 4, 9},
      {"NS 3D steady", "xyz", "1 x y z", "s0*xx + s0*yy + s0*zz", 5, 12},
      {"wave", "xt", "", "tt - xx", 4, 0},
      {"wave with speed", "xt", "", "tt - s0*xx", 4, 0},
      {"biharmonic", "xy", "", "xxxx + 2*xxyy + yyyy", 9, 42},
      {"plate", "xy", "", "s0*xxxx + 2*s0*xxyy + s0*yyyy", 9, 42},
      {"orthotropic plate", "xy", "", "s0*xxxx + 2*s1*xxyy + s2*yyyy", 11, 0},
      {"2-jet", "xy", "xx xy yy", "", 6, 15},
      {"3-jet", "xy", "xxx xxy xyy yyy", "", 10, 35},
      {"value", "x", "1", "", 1, 1},
      {"nothing", "x", "", "", 1, 1},
  };
  source s = {tn_stream_of(1, "counts"), 0};
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    algebra_request r;
    algebra_parse(&r, table[i].slots, table[i].monomials, table[i].tops);
    ag_algebra *algebra = algebra_plan(&r, AG_FOLDED);
    if (ag_algebra_channels(algebra) != table[i].channels ||
        (table[i].terms != 0 && algebra_count_terms(algebra) != table[i].terms))
      fail_msg("%s: %zu channels, %zu terms, expected %zu and %zu", table[i].name,
               ag_algebra_channels(algebra), algebra_count_terms(algebra), table[i].channels,
               table[i].terms);
    check_laws(algebra, &r, &s);
    ag_algebra_free(&algebra);
    assert_null(algebra);
  }
}

/* (xi_0^2 + ... + xi_(d-1)^2)^n for n = 1, 2 as the only top. */
static void laplacian_power(algebra_request *r, size_t d, int n) {
  *r = (algebra_request){.slots = d};
  for (size_t i = 0; i < d; ++i) {
    for (size_t j = i; j < (n == 1 ? i + 1 : d); ++j) {
      ag_symbol_term *term = &r->term[r->n_terms++];
      *term = (ag_symbol_term){{{0}}, {n == 2 && i != j ? 2 : 1, 1}, -1};
      term->monomial.power[i] = 2;
      if (n == 2)
        term->monomial.power[j] = (uint8_t)(term->monomial.power[j] + 2);
    }
  }
  algebra_close_top(r, 0);
}

static void algebra_counts_scale_with_dimension(void **state) {
  (void)state;
  source s = {tn_stream_of(2, "dimension"), 0};
  algebra_request r;
  for (size_t d = 1; d <= 10; ++d) {
    laplacian_power(&r, d, 1);
    ag_algebra *algebra = algebra_plan(&r, AG_FOLDED);
    assert_int_equal(ag_algebra_channels(algebra), d + 2);
    check_laws(algebra, &r, &s);
    ag_algebra_free(&algebra);
    r = (algebra_request){.slots = d}; /* the full Hessian */
    for (size_t i = 0; i < d; ++i) {
      for (size_t j = i; j < d; ++j) {
        ++r.monomial[r.n_monomials].power[i];
        ++r.monomial[r.n_monomials++].power[j];
      }
    }
    algebra = algebra_plan(&r, AG_FOLDED);
    assert_int_equal(ag_algebra_channels(algebra), (d + 1) * (d + 2) / 2);
    assert_int_equal(ag_algebra_order(algebra), 2);
    check_laws(algebra, &r, &s);
    ag_algebra_free(&algebra);
  }
  const size_t biharmonic[] = {5, 9, 14, 20, 27}; /* 1, d first, d(d+1)/2 second, d third, 1 */
  for (size_t d = 1; d <= 5; ++d) {
    laplacian_power(&r, d, 2);
    ag_algebra *algebra = algebra_plan(&r, AG_FOLDED);
    assert_int_equal(ag_algebra_channels(algebra), biharmonic[d - 1]);
    assert_int_equal(ag_algebra_order(algebra), 4);
    check_laws(algebra, &r, &s);
    ag_algebra_free(&algebra);
  }
}

static void algebra_third_derivatives_are_full_jets(void **state) {
  (void)state;
  source s = {tn_stream_of(3, "third"), 0};
  const size_t dimension[] = {2, 3, 10}, channels[] = {10, 20, 286};
  for (size_t n = 0; n < 3; ++n) {
    size_t d = dimension[n];
    algebra_request r = {.slots = d};
    for (size_t i = 0; i < d; ++i)
      for (size_t j = i; j < d; ++j)
        for (size_t k = j; k < d; ++k) {
          ++r.monomial[r.n_monomials].power[i];
          ++r.monomial[r.n_monomials].power[j];
          ++r.monomial[r.n_monomials++].power[k];
        }
    ag_algebra *algebra = algebra_plan(&r, AG_FOLDED);
    assert_int_equal(ag_algebra_channels(algebra), channels[n]);
    check_coproduct(algebra, &s);
    check_ring(algebra, &s);
    ag_algebra_free(&algebra);
  }
}

/* ---- Random requests ------------------------------------------------------------------------- */

static ag_monomial random_monomial(source *s, size_t slots) {
  ag_monomial m = {{0}};
  for (uint64_t k = below(s, 6); k > 0; --k)
    ++m.power[below(s, slots)];
  return m;
}

static void random_request(algebra_request *r, source *s) {
  *r = (algebra_request){.slots = 1 + below(s, 4)};
  for (uint64_t i = below(s, 4); i > 0; --i)
    r->monomial[r->n_monomials++] = random_monomial(s, r->slots);
  int opaques = (int)below(s, 4); /* 0: a numeric algebra_request */
  for (uint64_t i = below(s, 5); i > 0; --i) {
    size_t begin = r->n_terms;
    for (uint64_t k = below(s, 6); k > 0; --k) {
      ag_rational factor = {(int64_t)below(s, 9) - 4, 1 + (int64_t)below(s, 4)};
      int opaque = (int)below(s, (uint64_t)opaques + 1) - 1;
      r->term[r->n_terms++] = (ag_symbol_term){random_monomial(s, r->slots), factor, opaque};
    }
    if (begin > 0 && below(s, 4) == 0 && r->top[0].n_terms > 0) { /* depends on the first in part */
      for (size_t k = 0; k < r->top[0].n_terms && r->n_terms < MAX_TERMS; ++k)
        r->term[r->n_terms++] = r->term[k];
    }
    algebra_close_top(r, begin);
  }
}

static void random_requests_obey_the_laws(void **state) {
  (void)state;
  const char *scale = getenv("PINN_TEST_SCALE");
  const uint64_t seed = 20;
  uint64_t cases = 400 * (scale != NULL ? strtoull(scale, NULL, 10) : 1);
  source s = {tn_stream_of(seed, "requests"), 0};
  size_t folded = 0;
  print_message("seed %d\n", (int)seed);
  for (uint64_t i = 0; i < cases; ++i) {
    algebra_request r;
    random_request(&r, &s);
    ag_algebra *algebra = algebra_plan(&r, AG_FOLDED), *separate = algebra_plan(&r, AG_SEPARATE);
    check_laws(algebra, &r, &s);
    check_coproduct(separate, &s);
    check_requests(separate, &r, &s);
    assert_true(ag_algebra_channels(algebra) <= ag_algebra_channels(separate));
    folded += ag_algebra_channels(algebra) < ag_algebra_channels(separate);
    ag_algebra_free(&algebra);
    ag_algebra_free(&separate);
  }
  assert_true(folded > cases / 8); /* the sample is not trivial: about a quarter folds */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(algebra_has_known_counts),
      cmocka_unit_test(algebra_counts_scale_with_dimension),
      cmocka_unit_test(algebra_third_derivatives_are_full_jets),
      cmocka_unit_test(random_requests_obey_the_laws),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
