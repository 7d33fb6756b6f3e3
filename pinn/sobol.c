/* sobol.c: a digital net that fills the unit cube evenly, made random by scrambling.
 *
 * Point i of Sobol's sequence has in each coordinate the binary digits x = V b, b the digits of i
 * and V a square matrix over {0, 1} of the coordinate, upper triangular with unit diagonal. Its
 * columns ("direction numbers") follow by a recurrence from a primitive polynomial and a few
 * starting values; those of Joe and Kuo (Constructing Sobol sequences with better two-dimensional
 * projections, 2008) are used.
 *
 * Scrambling (Matousek 1998): y = L x + s with L random lower triangular with unit diagonal, s
 * random, both drawn for each coordinate from the caller's stream. Then each point is uniform in
 * the cube, so means over the points are unbiased, while the net keeps its structure: L is
 * one-to-one on the leading digits, so an aligned block of 2^k points still has one in each of the
 * 2^k strips of every coordinate. For smooth integrands the variance falls like n^-3 up to
 * logarithms, instead of n^-1, and for any integrand the variance is that of Owen's nested
 * scrambling.
 *
 * A column of a matrix is a uint64_t of 52 digits, the leading one highest. Since L V is formed
 * once, scrambled points cost what plain ones do: the digits of i and i + 1 differ in the lowest t
 * + 1, t the number of trailing ones of i, so the next point is the last one plus the sum of that
 * many columns. A point is the middle of its cell of 2^-52, an odd multiple of 2^-53: exact, and
 * never on the boundary.
 */
#include "pinn/sobol.h"

enum { BITS = PN_SOBOL_BITS, MOST_DEGREE = 6 };

typedef struct {
  unsigned degree; /* of the primitive polynomial */
  unsigned
      middle; /* its coefficients between the first and the last, which are 1, as binary digits */
  unsigned start[MOST_DEGREE]; /* starting values, odd, the k-th (from 0) below 2^(k + 1) */
} polynomial;

/* Coordinates 1 ... 15; coordinate 0 has V = identity. */
static const polynomial polynomials[PN_SOBOL_DIMENSIONS - 1] = {
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
};

/* The columns of V. With m_k the odd integer of column k (m_k 2^-(k+1) as a fraction), d the degree
 * and a_j the coefficients: m_k = 2 a_1 m_(k-1) + ... + 2^(d-1) a_(d-1) m_(k-d+1) + 2^d m_(k-d) +
 * m_(k-d), with + without carry. */
static void direction_columns(size_t coordinate, uint64_t column[BITS]) {
  if (coordinate == 0) {
    for (int k = 0; k < BITS; ++k)
      column[k] = UINT64_C(1) << (BITS - 1 - k);
    return;
  }
  const polynomial *p = &polynomials[coordinate - 1];
  const int degree = (int)p->degree;
  uint64_t m[BITS];
  for (int k = 0; k < degree; ++k)
    m[k] = p->start[k];
  for (int k = degree; k < BITS; ++k) {
    m[k] = m[k - degree] ^ m[k - degree] << degree;
    for (int j = 1; j < degree; ++j)
      if (p->middle >> (degree - 1 - j) & 1)
        m[k] ^= m[k - j] << j;
  }
  for (int k = 0; k < BITS; ++k)
    column[k] = m[k] << (BITS - 1 - k);
}

/* What makes one coordinate of the scrambled sequence. */
typedef struct {
  uint64_t step[BITS]; /* step[t]: sum of the columns 0 ... t of L V */
  uint64_t shift;      /* s */
} generator;

/* Sum of the columns of L that x selects. */
static uint64_t multiply(const uint64_t l[BITS], uint64_t x) {
  uint64_t y = 0;
  for (int bit = 0; x; ++bit, x >>= 1)
    if (x & 1)
      y ^= l[bit];
  return y;
}

static void make_generator(size_t coordinate, tn_stream stream, generator *g) {
  uint64_t l[BITS], column[BITS], sum = 0; /* l[b]: the column of L for the digit of value 2^b */
  const uint64_t base = (uint64_t)coordinate * 64; /* draws of this coordinate begin here */
  for (int b = 0; b < BITS; ++b) {
    uint64_t one = UINT64_C(1) << b;
    l[b] = one | (tn_random_bits(stream, base + (uint64_t)b) & (one - 1));
  }
  g->shift = tn_random_bits(stream, base + BITS) >> (64 - BITS);
  direction_columns(coordinate, column);
  for (int k = 0; k < BITS; ++k) {
    sum ^= multiply(l, column[k]);
    g->step[k] = sum;
  }
}

/* Digits of point i: column k is step[k] + step[k - 1]. */
static uint64_t digits_at(const generator *g, uint64_t i) {
  uint64_t y = g->shift;
  for (int k = 0; i; ++k, i >>= 1)
    if (i & 1)
      y ^= g->step[k] ^ (k > 0 ? g->step[k - 1] : 0);
  return y;
}

static int trailing_ones(uint64_t i) {
  int t = 0;
  for (; i & 1; i >>= 1)
    ++t;
  return t;
}

tn_status pn_sobol(size_t dimensions, tn_stream stream, uint64_t first, size_t n, double *points) {
  const uint64_t end = UINT64_C(1) << BITS;
  if (dimensions < 1 || dimensions > PN_SOBOL_DIMENSIONS)
    return TN_FAIL(TN_ERANGE, "sobol: %zu dimensions are not in [1, %d]", dimensions,
                   (int)PN_SOBOL_DIMENSIONS);
  if (first > end || n > end - first)
    return TN_FAIL(TN_ERANGE, "sobol: %zu points from %llu on pass the end of the sequence, 2^%d",
                   n, (unsigned long long)first, (int)BITS);
  if (n == 0)
    return TN_OK;
  for (size_t j = 0; j < dimensions; ++j) {
    generator g;
    make_generator(j, stream, &g);
    uint64_t y = digits_at(&g, first);
    for (size_t i = 0; i < n; ++i) {
      points[i * dimensions + j] = ((double)y + 0.5) * 0x1p-52;
      if (i + 1 < n)
        y ^= g.step[trailing_ones(first + i)];
    }
  }
  return TN_OK;
}
