/* test_kernels.c: every kernel against loops written from its description in tensor/kernels.h.
 *
 * The description fixes the order of all operations, so the comparison is bit for bit: no tolerance. The
 * loops here work on one number at a time, in double or float according to the dtype, and know nothing of
 * vectors or blocks. Every instance (base, v3, v4 as far as this CPU has them) is compared with them, hence
 * with the others. One more, `wide`, is made for this program alone: 64-byte vectors as in v4, but from plain
 * C, so that the code of the widest vectors is judged on any CPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const levels[] = {"base", "v3", "v4", "wide"};
enum { LEVELS = sizeof levels / sizeof *levels };
static const tn_dtype dtypes[] = {TN_F64, TN_F32};

extern const tn_kernels tn_kernels_f64_wide, tn_kernels_f32_wide;
static const tn_kernels *at(tn_dtype dtype, const char *level) {
  if (strcmp(level, "wide") == 0) return dtype == TN_F64 ? &tn_kernels_f64_wide : &tn_kernels_f32_wide;
  return tn_kernels_at(dtype, level);
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

static uint64_t state = 1;
static uint64_t next(void) { /* xorshift64*, from a fixed seed */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}
static double uniform(void) { return (double)(next() >> 11) * 0x1p-52 - 1; } /* [-1, 1) */
static size_t below(size_t n) { return (size_t)(next() >> 33) % n; }

static double get(const tn_kernels *t, const void *x, size_t i) {
  return t->dtype == TN_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
static void put(const tn_kernels *t, void *x, size_t i, double value) {
  if (t->dtype == TN_F64)
    ((double *)x)[i] = value;
  else
    ((float *)x)[i] = (float)value;
}
static double fused(const tn_kernels *t, double a, double b, double c) {
  return t->dtype == TN_F64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}
static double plus(const tn_kernels *t, double a, double b) {
  return t->dtype == TN_F64 ? a + b : (double)((float)a + (float)b);
}

static void *numbers(const tn_kernels *t, size_t count) {
  void *x = NULL;
  assert_int_equal(tn_new(count + 1, t->size, &x), TN_OK);
  for (size_t i = 0; i < count; ++i) put(t, x, i, uniform());
  return x;
}
static void *copy_of(const tn_kernels *t, const void *x, size_t count) {
  void *y = numbers(t, count);
  memcpy(y, x, count * t->size);
  return y;
}
static void same_bits(const tn_kernels *t, const void *x, const void *y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (memcmp((const char *)x + i * t->size, (const char *)y + i * t->size, t->size) != 0)
      fail_msg("element %zu of %zu: %a, expected %a", i, count, get(t, x, i), get(t, y, i));
  }
}

typedef void (*check)(const tn_kernels *t);
static void on_each(check test) {
  size_t seen = 0;
  for (size_t d = 0; d < 2; ++d)
    for (size_t l = 0; l < LEVELS; ++l) {
      const tn_kernels *t = at(dtypes[d], levels[l]);
      if (t) test(t), ++seen;
    }
  assert_true(seen >= 4); /* base and wide are everywhere */
}

/* ---- Tables ------------------------------------------------------------------------------------ */

static void tables_exist_for_f64_and_f32(void **unused) {
  (void)unused;
  for (size_t d = 0; d < 2; ++d) {
    const tn_kernels *t = tn_kernels_of(dtypes[d]);
    assert_non_null(t);
    assert_int_equal(t->dtype, dtypes[d]);
    assert_int_equal(t->size * t->lanes, TN_LANE_BYTES);
    assert_ptr_equal(t->cell[TN_OP_lt], NULL);
    assert_non_null(t->compare[TN_OP_lt]);
    assert_non_null(t->cell[TN_OP_powr]);
    assert_ptr_equal(t->cell[TN_OP_sum], NULL);
  }
  for (int d = 0; d < TN_DTYPES; ++d) { /* a low format computes in f32 and has a loop that rounds to it */
    tn_dtype dtype = (tn_dtype)d, format = tn_dtype_compute(dtype);
    assert_ptr_equal(tn_kernels_of(dtype), tn_dtype_is_float(dtype) ? tn_kernels_of(format) : NULL);
    assert_true((tn_kernels_of(TN_F32)->round[d] != NULL) == (format != dtype));
    assert_null(tn_kernels_of(TN_F64)->round[d]);
  }
  assert_null(tn_kernels_at(TN_F64, "v9"));
  assert_non_null(tn_kernels_at(TN_F64, "base"));
  assert_non_null(tn_isa());
}

static void levels_are_those_that_are_named(void **unused) {
  (void)unused;
  for (size_t l = 0; l < 3; ++l)
    assert_true((strstr(tn_isa_levels(), levels[l]) != NULL) == (tn_kernels_at(TN_F32, levels[l]) != NULL));
}

static void outer_choice_needs_two_wide_sides(void **unused) {
  (void)unused;
  assert_true(tn_outer_by_points(TN_F64, 64, 64));
  assert_true(tn_outer_by_points(TN_F64, 20, 56));
  assert_false(tn_outer_by_points(TN_F32, 20, 56)); /* not a multiple of 16 */
  assert_true(tn_outer_by_points(TN_F32, 16, 16));
  assert_false(tn_outer_by_points(TN_F64, 64, 20));
  assert_false(tn_outer_by_points(TN_F64, 15, 64));
}

/* ---- Products ---------------------------------------------------------------------------------- */

static void check_lin(const tn_kernels *t, size_t panels, size_t k, size_t n, bool transposed,
                      bool with_bias) {
  size_t lanes = t->lanes, count = panels * n * lanes;
  size_t wk = transposed ? 1 : n + 2, wn = transposed ? k + 1 : 1;
  void *w = numbers(t, (k + 2) * (n + 2)), *bias = numbers(t, n), *h = numbers(t, panels * k * lanes);
  void *y = numbers(t, count), *expected = numbers(t, count);
  t->lin(panels, k, n, w, wk, wn, with_bias ? bias : NULL, h, y);
  for (size_t i = 0; i < count; ++i) {
    size_t p = i / (n * lanes), j = i / lanes % n, lane = i % lanes;
    double sum = with_bias ? get(t, bias, j) : 0;
    for (size_t r = 0; r < k; ++r)
      sum = fused(t, get(t, w, r * wk + j * wn), get(t, h, (p * k + r) * lanes + lane), sum);
    put(t, expected, i, sum);
  }
  same_bits(t, y, expected, count);

  /* the same numbers as rows */
  size_t rows = panels * lanes;
  void *h_rows = numbers(t, rows * k), *y_rows = numbers(t, rows * n);
  t->unpack(rows, k, h, h_rows);
  t->lin_rows(rows, k, n, w, wk, wn, with_bias ? bias : NULL, h_rows, y_rows);
  t->unpack(rows, n, y, expected);
  same_bits(t, y_rows, expected, rows * n);
  tn_free(&w), tn_free(&bias), tn_free(&h), tn_free(&y), tn_free(&expected);
  tn_free(&h_rows), tn_free(&y_rows);
}

static void lin_each(const tn_kernels *t) {
  for (size_t n = 1; n <= 40; ++n) {
    size_t k = n <= 12 ? n : 1 + below(40);
    for (unsigned way = 0; way < 4; ++way) check_lin(t, 1 + below(9), k, n, way & 1, way & 2);
  }
  check_lin(t, 21, 3, 1, false, true);
  check_lin(t, 17, 1, 2, true, true);
  check_lin(t, 12, 64, 64, false, true);
  check_lin(t, 8, 40, 260, false, false); /* rows of weights far apart */
}
static void lin_is_one_fma_chain_from_the_bias(void **unused) { (void)unused, on_each(lin_each); }

/* ---- Sums over points -------------------------------------------------------------------------- */

static double fold(const tn_kernels *t, double *lane) {
  for (size_t half = t->lanes / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) lane[l] = plus(t, lane[l], lane[l + half]);
  return lane[0];
}

/* Operand c of `pairs`: panel stride 0 for every third one. */
enum { MAX_PAIRS = TN_MAX_CHANNELS, MAX_LANES = 16 };
typedef struct {
  void *data_h[MAX_PAIRS], *data_z[MAX_PAIRS];
  size_t stride_h[MAX_PAIRS], stride_z[MAX_PAIRS];
  tn_outer outer;
} pairs;

static void pairs_new(const tn_kernels *t, size_t count, size_t k, size_t n, size_t panels, pairs *x) {
  for (size_t c = 0; c < count; ++c) {
    x->stride_h[c] = c % 3 == 1 ? 0 : (k + c % 2) * t->lanes; /* panels need not be dense */
    x->stride_z[c] = c % 3 == 2 ? 0 : n * t->lanes;
    x->data_h[c] = numbers(t, panels * (k + 1) * t->lanes);
    x->data_z[c] = numbers(t, panels * n * t->lanes);
  }
  x->outer = (tn_outer){.pairs = count, .h = (const void *const *)x->data_h,
                        .z = (const void *const *)x->data_z, .h_stride = x->stride_h,
                        .z_stride = x->stride_z, .k = k, .n = n};
}
static void pairs_free(pairs *x) {
  for (size_t c = 0; c < x->outer.pairs; ++c) tn_free(&x->data_h[c]), tn_free(&x->data_z[c]);
}
static double factor(const tn_kernels *t, const void *data, size_t stride, size_t p, size_t i,
                     size_t lane) {
  return get(t, data, p * stride + i * t->lanes + lane);
}

static void expect_lanes(const tn_kernels *t, const pairs *x, size_t first, size_t panels, size_t valid,
                         void *sum) {
  const tn_outer *o = &x->outer;
  for (size_t i = 0; i < o->k; ++i)
    for (size_t j = 0; j < o->n; ++j) {
      double lane[MAX_LANES] = {0};
      for (size_t p = first; p < first + panels; ++p)
        for (size_t l = 0; l < t->lanes; ++l)
          for (size_t c = 0; c < o->pairs && (p + 1 < first + panels || l < valid); ++c)
            lane[l] = fused(t, factor(t, x->data_h[c], x->stride_h[c], p, i, l),
                            factor(t, x->data_z[c], x->stride_z[c], p, j, l), lane[l]);
      put(t, sum, i * o->n + j, plus(t, get(t, sum, i * o->n + j), fold(t, lane)));
    }
}
static void expect_points(const tn_kernels *t, const pairs *x, size_t first, size_t panels,
                          size_t valid, void *sum) {
  const tn_outer *o = &x->outer;
  for (size_t i = 0; i < o->k; ++i)
    for (size_t j = 0; j < o->n; ++j) {
      double total = get(t, sum, i * o->n + j);
      for (size_t p = first; p < first + panels; ++p)
        for (size_t l = 0; l < t->lanes && (p + 1 < first + panels || l < valid); ++l)
          for (size_t c = 0; c < o->pairs; ++c)
            total = fused(t, factor(t, x->data_h[c], x->stride_h[c], p, i, l),
                          factor(t, x->data_z[c], x->stride_z[c], p, j, l), total);
      put(t, sum, i * o->n + j, total);
    }
}

static void check_outer(const tn_kernels *t, size_t count, size_t k, size_t n, size_t first,
                        size_t panels, size_t valid) {
  pairs x;
  pairs_new(t, count, k, n, first + panels, &x);
  void *start = numbers(t, k * n), *sum = copy_of(t, start, k * n), *expected = copy_of(t, start, k * n);
  t->outer_lanes(&x.outer, first, panels, valid, sum);
  expect_lanes(t, &x, first, panels, valid, expected);
  same_bits(t, sum, expected, k * n);
  memcpy(sum, start, k * n * t->size), memcpy(expected, start, k * n * t->size);
  t->outer_points(&x.outer, first, panels, valid, sum);
  expect_points(t, &x, first, panels, valid, expected);
  same_bits(t, sum, expected, k * n);
  tn_free(&start), tn_free(&sum), tn_free(&expected);
  pairs_free(&x);
}

static void outer_each(const tn_kernels *t) {
  for (size_t valid = 1; valid <= t->lanes; ++valid)
    check_outer(t, 1 + valid % 4, 1 + below(13), 1 + below(24), below(3), 1 + valid % 8, valid);
  for (size_t n = 1; n <= 20; ++n)
    check_outer(t, 3, 1 + below(9), n, 0, 1 + below(8), 1 + below(t->lanes));
  check_outer(t, 3, 20, 20, 8, 8, t->lanes);
  check_outer(t, 5, 64, 64, 16, 8, t->lanes);
  check_outer(t, 2, 7, 48, 1, 3, 5);
  check_outer(t, TN_MAX_CHANNELS, 17, 32, 0, 2, 3);
  check_outer(t, 12, 37, 37, 1, 8, t->lanes - 1); /* more steps than are summed at once */
}
static void outer_sums_keep_their_order(void **unused) { (void)unused, on_each(outer_each); }

static void sum_each(const tn_kernels *t) {
  for (size_t w = 1; w <= 21; ++w) {
    size_t first = below(3), panels = 1 + below(8), valid = 1 + below(t->lanes);
    void *x = numbers(t, (first + panels) * w * t->lanes);
    void *sum = numbers(t, w), *expected = copy_of(t, sum, w);
    t->sum_lanes(w, x, first, panels, valid, sum);
    for (size_t j = 0; j < w; ++j) {
      double lane[MAX_LANES] = {0};
      for (size_t p = first; p < first + panels; ++p)
        for (size_t l = 0; l < (p + 1 < first + panels ? t->lanes : valid); ++l)
          lane[l] = plus(t, lane[l], get(t, x, (p * w + j) * t->lanes + l));
      put(t, expected, j, plus(t, get(t, expected, j), fold(t, lane)));
    }
    same_bits(t, sum, expected, w);
    tn_free(&x), tn_free(&sum), tn_free(&expected);
  }
}
static void sum_lanes_keeps_its_order(void **unused) { (void)unused, on_each(sum_each); }

/* A lane that does not take part keeps what it holds even if the other operands are not finite. */
static void tail_each(const tn_kernels *t) {
  for (size_t n = 1; n <= 17; n += 4) {
    pairs x;
    pairs_new(t, 1, 3, n, 1, &x);
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 2; l < t->lanes; ++l) put(t, x.data_z[0], j * t->lanes + l, (double)NAN);
    void *sum = numbers(t, 3 * n), *points = copy_of(t, sum, 3 * n);
    t->outer_lanes(&x.outer, 0, 1, 2, sum);
    t->outer_points(&x.outer, 0, 1, 2, points);
    for (size_t i = 0; i < 3 * n; ++i)
      assert_true(isfinite(get(t, sum, i)) && isfinite(get(t, points, i)));
    t->sum_lanes(n, x.data_z[0], 0, 1, 2, sum);
    for (size_t i = 0; i < n; ++i) assert_true(isfinite(get(t, sum, i)));
    tn_free(&sum), tn_free(&points);
    pairs_free(&x);
  }
}
static void unused_lanes_cannot_poison_a_sum(void **unused) { (void)unused, on_each(tail_each); }

static void add_each(const tn_kernels *t) {
  for (size_t n = 0; n < 40; ++n) {
    void *x = numbers(t, n), *y = numbers(t, n), *expected = copy_of(t, y, n);
    t->add_to(n, y, x);
    for (size_t i = 0; i < n; ++i) put(t, expected, i, plus(t, get(t, expected, i), get(t, x, i)));
    same_bits(t, y, expected, n);
    tn_free(&x), tn_free(&y), tn_free(&expected);
  }
}
static void add_to_adds(void **unused) { (void)unused, on_each(add_each); }

/* ---- Rows and panels --------------------------------------------------------------------------- */

static void pack_each(const tn_kernels *t) {
  for (size_t rows = 1; rows <= 40; ++rows) {
    size_t w = 1 + below(20), panels = (rows + t->lanes - 1) / t->lanes;
    void *x = numbers(t, rows * w), *back = numbers(t, rows * w + 1), *end = copy_of(t, back, rows * w + 1);
    void *y = numbers(t, panels * w * t->lanes);
    t->pack(rows, w, x, y);
    for (size_t i = 0; i < panels * w * t->lanes; ++i) {
      size_t row = i / (w * t->lanes) * t->lanes + i % t->lanes, column = i / t->lanes % w;
      assert_true(get(t, y, i) == get(t, x, (row < rows ? row : rows - 1) * w + column));
    }
    t->unpack(rows, w, y, back);
    same_bits(t, back, x, rows * w);
    assert_true(get(t, back, rows * w) == get(t, end, rows * w)); /* nothing beyond */
    tn_free(&x), tn_free(&y), tn_free(&back), tn_free(&end);
  }
}
static void unpack_undoes_pack(void **unused) { (void)unused, on_each(pack_each); }

/* ---- Elements ---------------------------------------------------------------------------------- */

static void where_each(const tn_kernels *t) {
  enum { N = 37 };
  for (size_t n = 1; n <= N; ++n) {
    uint8_t mask[N];
    void *a = numbers(t, n), *b = numbers(t, n), *y = numbers(t, n), *expected = numbers(t, n);
    for (size_t i = 0; i < n; ++i) {
      mask[i] = (uint8_t)below(2);
      put(t, mask[i] ? b : a, i, (double)NAN); /* the branch not taken */
      put(t, expected, i, get(t, mask[i] ? a : b, i));
    }
    t->where(n, y, mask, a, b);
    same_bits(t, y, expected, n);
    t->where(n, a, mask, a, b); /* in place */
    same_bits(t, a, expected, n);
    tn_free(&a), tn_free(&b), tn_free(&y), tn_free(&expected);
  }
}
static void where_does_not_look_at_the_other_branch(void **unused) { (void)unused, on_each(where_each); }

static void compare_each(const tn_kernels *t) {
  const double x[] = {-1, -0.0, 0, 1, (double)INFINITY, (double)NAN};
  enum { N = sizeof x / sizeof *x };
  void *a = numbers(t, N * N), *b = numbers(t, N * N);
  uint8_t y[N * N];
  for (size_t i = 0; i < N * N; ++i) put(t, a, i, x[i / N]), put(t, b, i, x[i % N]);
#define CHECK(name, relation)                                                                      \
  t->compare[TN_OP_##name](N * N, y, a, b);                                                        \
  for (size_t i = 0; i < N * N; ++i) assert_int_equal(y[i], x[i / N] relation x[i % N])
  CHECK(lt, <);
  CHECK(le, <=);
  CHECK(gt, >);
  CHECK(ge, >=);
  CHECK(eq, ==);
  CHECK(ne, !=);
#undef CHECK
  tn_free(&a), tn_free(&b);
}
static void comparisons_are_those_of_c(void **unused) { (void)unused, on_each(compare_each); }

/* An element's bits depend on its value alone: not on its place, the length, or sharing of operands. */
static void place_each(const tn_kernels *t) {
  enum { N = 33 };
  for (size_t op = 0; op < TN_OPS; ++op) {
    if (!t->cell[op]) continue;
    void *a = numbers(t, N), *b = numbers(t, N), *y = numbers(t, N), *one = numbers(t, N);
    t->cell[op](N, y, a, b, 3);
    for (size_t i = 0; i < N; ++i)
      t->cell[op](1, (char *)one + i * t->size, (char *)a + i * t->size, (char *)b + i * t->size, 3);
    same_bits(t, one, y, N);
    void *left = copy_of(t, a, N), *right = copy_of(t, b, N);
    t->cell[op](N, left, left, b, 3);
    same_bits(t, left, y, N);
    t->cell[op](N, right, a, right, 3);
    same_bits(t, right, y, N);
    tn_free(&a), tn_free(&b), tn_free(&y), tn_free(&one), tn_free(&left), tn_free(&right);
  }
}
static void cells_do_not_depend_on_place_or_aliasing(void **unused) { (void)unused, on_each(place_each); }

static void compare_levels(const tn_kernels *base, const char *level, size_t n, const void *a,
                           const void *b, void *y, void *z) {
  const tn_kernels *other = at(base->dtype, level);
  if (!other) return;
  for (size_t op = 0; op < TN_OPS; ++op) {
    if (!base->cell[op]) continue;
    base->cell[op](n, y, a, b, -3);
    other->cell[op](n, z, a, b, -3);
    for (size_t i = 0; i < n; ++i) {
      double p = get(base, y, i), q = get(base, z, i);
      if (isnan(p) && isnan(q)) continue; /* the sign of a NaN is nobody's promise */
      if (memcmp(&p, &q, sizeof p) != 0)
        fail_msg("row %zu at %a: base %a, %s %a", op, get(base, a, i), p, level, q);
    }
  }
}

static void cells_have_equal_bits_on_all_levels(void **unused) {
  (void)unused;
  enum { N = 20000, FEW = 3001 };
  for (size_t d = 0; d < 2; ++d) {
    const tn_kernels *base = at(dtypes[d], "base");
    void *a = numbers(base, N), *b = numbers(base, N), *y = numbers(base, N), *z = numbers(base, N);
    for (size_t i = 0; i < N; ++i) {
      put(base, a, i, uniform() * exp2(12 * uniform()));
      put(base, b, i, uniform() * exp2(4 * uniform()));
    }
    const double special[] = {0,    -0.0,  1e-310, -1e-42, 88.8, -104, 709.9, -745.2, 1e5, 1e30,
                              -3e4, (double)INFINITY, -(double)INFINITY, (double)NAN};
    for (size_t i = 0; i < sizeof special / sizeof *special; ++i) put(base, a, 7 * i, special[i]);
    for (size_t l = 1; l < LEVELS; ++l) /* wide is slow */
      compare_levels(base, levels[l], l + 1 < LEVELS ? N : FEW, a, b, y, z);
    tn_free(&a), tn_free(&b), tn_free(&y), tn_free(&z);
  }
}

static void strip_each(const tn_kernels *t) {
  const size_t lengths[] = {1, 7, 64, 509, TN_STRIP};
  for (size_t q = 0; q < sizeof lengths / sizeof *lengths; ++q) {
    size_t n = lengths[q];
    void *r[4], *start[4], *expected = numbers(t, n);
    for (size_t i = 0; i < 4; ++i) r[i] = numbers(t, n), start[i] = copy_of(t, r[i], n);
    const tn_strip_instruction program[] = {
        {.code = TN_STRIP_MUL, .y = 2, .a = 0, .b = 1},
        {.code = TN_STRIP_ADD, .y = 3, .a = 3, .b = 2},
        {.code = TN_STRIP_FMA, .y = 3, .a = 2, .b = 3, .c = 3},
        {.code = TN_STRIP_SUB, .y = 2, .a = 3, .b = 0},
        {.code = TN_STRIP_SCALE, .y = 0, .a = 0, .k = 0.3},
        {.code = TN_STRIP_FMAK, .y = 2, .a = 0, .c = 2, .k = -1.7},
        {.code = TN_STRIP_CELL, .op = TN_OP_square, .y = 2, .a = 2},
        {.code = TN_STRIP_COPY, .y = 1, .a = 2},
        {.code = TN_STRIP_FILL, .y = 3, .k = 0.7},
        {.code = TN_STRIP_DIV, .y = 3, .a = 1, .b = 3},
    };
    t->strip(sizeof program / sizeof *program, program, r, n);
    for (size_t i = 0; i < n; ++i) {
      double x0 = get(t, start[0], i), x1 = get(t, start[1], i), x3 = get(t, start[3], i), x2;
      bool wide = t->dtype == TN_F64;
      double k1 = wide ? 0.3 : (double)0.3f, k2 = wide ? -1.7 : (double)-1.7f;
      x2 = wide ? x0 * x1 : (double)((float)x0 * (float)x1);
      x3 = plus(t, x3, x2);
      x3 = fused(t, x2, x3, x3);
      x2 = plus(t, x3, -x0);
      x0 = wide ? k1 * x0 : (double)((float)k1 * (float)x0);
      x2 = fused(t, k2, x0, x2);
      x2 = wide ? x2 * x2 : (double)((float)x2 * (float)x2);
      put(t, expected, i, wide ? x2 / 0.7 : (double)((float)x2 / 0.7f));
    }
    same_bits(t, r[3], expected, n);
    for (size_t i = 0; i < 4; ++i) tn_free(&r[i]), tn_free(&start[i]);
    tn_free(&expected);
  }
}
static void strips_run_in_order(void **unused) { (void)unused, on_each(strip_each); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_exist_for_f64_and_f32),
      cmocka_unit_test(levels_are_those_that_are_named),
      cmocka_unit_test(outer_choice_needs_two_wide_sides),
      cmocka_unit_test(lin_is_one_fma_chain_from_the_bias),
      cmocka_unit_test(outer_sums_keep_their_order),
      cmocka_unit_test(sum_lanes_keeps_its_order),
      cmocka_unit_test(unused_lanes_cannot_poison_a_sum),
      cmocka_unit_test(add_to_adds),
      cmocka_unit_test(unpack_undoes_pack),
      cmocka_unit_test(where_does_not_look_at_the_other_branch),
      cmocka_unit_test(comparisons_are_those_of_c),
      cmocka_unit_test(cells_do_not_depend_on_place_or_aliasing),
      cmocka_unit_test(cells_have_equal_bits_on_all_levels),
      cmocka_unit_test(strips_run_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
