/* test_dtype.c: conversions against a table of all values.
 *
 * The judge shares nothing with the code under test: every 16-bit pattern is decoded by ldexp, and
 * the right rounding of x is the nearer of the two neighbours in the sorted table, the even pattern
 * on a tie. Differences to neighbours are exact in double by Sterbenz' lemma or because all bits
 * fit.
 */
#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  const char *name;
  int fraction, exponent; /* bits */
  uint16_t (*of)(double);
  double (*value)(uint16_t);
} format;

static const format formats[] = {
    {"bf16", 7, 8, tn_bf16_of, tn_of_bf16},
    {"f16", 10, 5, tn_f16_of, tn_of_f16},
};

enum { N_FORMATS = 2, SIGN = 0x8000 };

static unsigned infinity_of(const format *f) { return ((1u << f->exponent) - 1) << f->fraction; }

/* The value of a pattern without sign, up to that of infinity's pattern read as a finite number. */
static double decode(const format *f, unsigned pattern) {
  const int bias = (1 << (f->exponent - 1)) - 1;
  const int e = (int)(pattern >> f->fraction);
  const unsigned m = pattern & ((1u << f->fraction) - 1);
  if (e == 0)
    return ldexp(m, 1 - bias - f->fraction);
  return ldexp(m + (1u << f->fraction), e - bias - f->fraction);
}

/* The pattern that x >= 0 rounds to. Patterns are in the order of their values. */
static unsigned nearest(const format *f, double x) {
  unsigned low = 0, high = infinity_of(f);
  if (x >= decode(f, high))
    return high;
  while (high - low > 1) { /* decode(low) <= x < decode(high) */
    unsigned middle = (low + high) / 2;
    if (decode(f, middle) <= x)
      low = middle;
    else
      high = middle;
  }
  double below = x - decode(f, low), above = decode(f, high) - x;
  if (below == above)
    return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

static void check(const format *f, double x) {
  unsigned right = nearest(f, x);
  if (f->of(x) != right || f->of(-x) != (right | SIGN))
    fail_msg("%s of %a: %04x, right %04x", f->name, x, f->of(x), right);
}

static void pattern_survives_widening(void **state) {
  (void)state;
  for (int k = 0; k < N_FORMATS; ++k) {
    const format *f = &formats[k];
    for (unsigned p = 0; p < 65536; ++p) {
      unsigned magnitude = p & (SIGN - 1);
      double x = f->value((uint16_t)p);
      if (magnitude > infinity_of(f)) {
        assert_true(isnan(x));
        assert_int_equal(f->of(x), p | 1u << (f->fraction - 1)); /* payload kept, made quiet */
        continue;
      }
      double y = magnitude == infinity_of(f) ? INFINITY : decode(f, magnitude);
      assert_true(x == (p & SIGN ? -y : y));
      assert_int_equal(signbit(x) != 0, p >> 15);
      assert_int_equal(f->of(x), p);
    }
  }
}

/* Every midpoint, the largest finite value and infinity included, and what lies closest to it. */
static void midpoints_go_to_even_and_neighbours_do_not(void **state) {
  (void)state;
  for (int k = 0; k < N_FORMATS; ++k) {
    const format *f = &formats[k];
    for (unsigned p = 0; p < infinity_of(f); ++p) {
      double a = decode(f, p), b = decode(f, p + 1), middle = (a + b) / 2;
      assert_int_equal(f->of(middle), p % 2 == 0 ? p : p + 1);
      assert_int_equal(f->of(nextafter(middle, 0)), p);
      assert_int_equal(f->of(nextafter(middle, INFINITY)), p + 1);
      assert_int_equal(f->of(middle * (1 - 0x1p-40)), p);
      assert_int_equal(f->of(middle * (1 + 0x1p-40)), p + 1);
      assert_int_equal(f->of(-middle), SIGN | (p % 2 == 0 ? p : p + 1));
    }
  }
}

static void random_doubles_go_to_the_nearest(void **state) {
  (void)state;
  const uint64_t seed = 20240611;
  print_message("seed %llu\n", (unsigned long long)seed);
  tn_stream stream = tn_stream_of(seed, "test_dtype");
  for (uint64_t i = 0; i < 400000; ++i) {
    const format *f = &formats[i % N_FORMATS];
    const int reach = f->exponent == 5 ? 30 : 150; /* binades, some beyond both ends of the range */
    double u = tn_random_uniform(stream, 2 * i), v = tn_random_uniform(stream, 2 * i + 1);
    check(f, ldexp(1 + u, (int)floor((2 * v - 1) * reach)));
  }
}

static void extremes_are_kept_apart(void **state) {
  (void)state;
  for (int k = 0; k < N_FORMATS; ++k) {
    const format *f = &formats[k];
    const double smallest = decode(f, 1);
    check(f, 0);
    check(f, DBL_TRUE_MIN);
    check(f, DBL_MIN);
    check(f, smallest / 4);
    check(f, smallest / 2); /* a tie between 0 and 1 */
    check(f, smallest * 1.5);
    assert_int_equal(f->of(DBL_MAX), infinity_of(f));
    assert_int_equal(f->of(INFINITY), infinity_of(f));
    assert_int_equal(f->of(-INFINITY), infinity_of(f) | SIGN);
    assert_int_equal(f->of(-0.0), SIGN);
  }
}

static void nan_stays_a_quiet_nan(void **state) {
  (void)state;
  /* The lowest payload bit alone is lost by narrowing; a NaN must not turn into an infinity by
   * that. */
  const uint64_t patterns[] = {0x7FF0000000000001, 0xFFF0000000000001, 0x7FF8000000000000,
                               0xFFFFFFFFFFFFFFFF};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i)
    for (int k = 0; k < N_FORMATS; ++k) {
      const format *f = &formats[k];
      double x;
      memcpy(&x, &patterns[i], sizeof x);
      uint16_t p = f->of(x);
      assert_true((p & (SIGN - 1u)) > infinity_of(f));
      assert_true(p >> (f->fraction - 1) & 1);
      assert_int_equal(p >> 15, patterns[i] >> 63);
    }
}

/* Just above and below each tie of f16, nearer than f32 can tell: by way of f32 half of them go
 * wrong. */
static void narrowing_through_f32_would_round_twice(void **state) {
  (void)state;
  const format *f = &formats[1];
  unsigned n_wrong = 0, n = 0;
  for (unsigned p = 0x3C00; p < 0x4000; ++p) { /* [1, 2) */
    double middle = (decode(f, p) + decode(f, p + 1)) / 2;
    for (int sign = -1; sign <= 1; sign += 2, ++n) {
      double x = middle + sign * 0x1p-40;
      assert_int_equal(f->of(x), sign < 0 ? p : p + 1);
      n_wrong += f->of((double)(float)x) != f->of(x);
    }
  }
  assert_int_equal(n, 2048);
  assert_int_equal(n_wrong, n / 2); /* the trap exists: the tie goes to even whatever the side */
}

static void names_and_sizes_agree(void **state) {
  (void)state;
  const size_t sizes[TN_DTYPES] = {8, 4, 4, 2, 2, 1, 4, 8};
  for (int d = 0; d < TN_DTYPES; ++d) {
    tn_dtype found = TN_DTYPES;
    assert_int_equal(tn_dtype_of_name(tn_dtype_name((tn_dtype)d), &found), TN_OK);
    assert_int_equal(found, d);
    assert_int_equal(tn_dtype_size((tn_dtype)d), sizes[d]);
    assert_int_equal(tn_dtype_is_float((tn_dtype)d), d <= TN_F16);
  }
  tn_dtype found = TN_BOOL;
  assert_int_equal(tn_dtype_of_name("f8", &found), TN_EINPUT);
  assert_int_equal(tn_dtype_of_name(NULL, &found), TN_EINPUT);
  assert_int_equal(found, TN_BOOL);
  assert_int_equal(tn_dtype_size(TN_DTYPES), 0);
}

/* 1 + 2u is the number after 1; 1 + u is a tie and goes to 1. */
static void roundoff_is_half_the_gap_after_one(void **state) {
  (void)state;
  for (int d = TN_F64; d <= TN_F16; ++d) {
    const tn_dtype dtype = (tn_dtype)d;
    const double u = tn_dtype_roundoff(dtype), x[2] = {1 + 2 * u, 1 + u};
    double back[2];
    unsigned char narrow[2 * sizeof(double)];
    assert_int_equal(tn_convert(2, TN_F64, x, dtype, narrow), TN_OK);
    assert_int_equal(tn_convert(2, dtype, narrow, TN_F64, back), TN_OK);
    assert_true(back[0] == 1 + 2 * u && back[1] == 1);
  }
  assert_true(tn_dtype_roundoff(TN_I32) == 0);
}

/* Small integers exist in all dtypes but bool, so every way between two dtypes must agree on them.
 */
static void small_integers_pass_between_all_dtypes(void **state) {
  (void)state;
  enum { N = 9 };
  const double x[N] = {0, 1, -1, 2, 3, -7, 100, 128, -128};
  for (int from = 0; from < TN_DTYPES; ++from)
    for (int to = 0; to < TN_DTYPES; ++to) {
      unsigned char a[8 * N + 1],
          b[8 * N + 1]; /* read one byte on, too: alignment is not asked for */
      double back[N];
      for (size_t shift = 0; shift < 2; ++shift) {
        assert_int_equal(tn_convert(N, TN_F64, x, (tn_dtype)from, a + shift), TN_OK);
        assert_int_equal(tn_convert(N, (tn_dtype)from, a + shift, (tn_dtype)to, b + shift), TN_OK);
        assert_int_equal(tn_convert(N, (tn_dtype)to, b + shift, TN_F64, back), TN_OK);
        for (size_t i = 0; i < N; ++i)
          assert_true(back[i] == (from == TN_BOOL || to == TN_BOOL ? x[i] != 0 : x[i]));
      }
    }
}

static void f32_is_rounded_once_and_keeps_subnormals(void **state) {
  (void)state;
  const double x[] = {1 + 0x1p-24, 1 + 3 * 0x1p-24, 1 + 0x1p-24 + 0x1p-52, 0x1p-149, 0x1p-150,
                      0x1.8p-150,  1e-39,           0x1.ffffffp127,        -0.0};
  const float right[] = {1,         1 + 0x1p-22f, 1 + 0x1p-23f, 0x1p-149f, 0,
                         0x1p-149f, 1e-39f,       INFINITY,     -0.0f};
  enum { N = sizeof x / sizeof *x };
  float y[N];
  assert_int_equal(tn_convert(N, TN_F64, x, TN_F32, y), TN_OK);
  assert_memory_equal(y, right, sizeof right);
}

/* 2^60 plus half a gap plus 1: the 1 decides, and a detour by way of f64 would drop it. */
static void large_integers_are_rounded_once(void **state) {
  (void)state;
  const struct {
    tn_dtype to;
    int gap; /* binary exponent of the distance of numbers in [2^60, 2^61) */
  } cases[] = {{TN_F64, 8}, {TN_F32, 37}, {TN_BF16, 53}};
  for (size_t k = 0; k < 3; ++k) {
    const int64_t big = INT64_C(1) << 60, half = INT64_C(1) << (cases[k].gap - 1);
    const int64_t x[4] = {big + half, big + half + 1, big + half - 1, -(big + half + 1)};
    const double right[4] = {0x1p60, 0x1p60 + 2 * (double)half, 0x1p60, -0x1p60 - 2 * (double)half};
    unsigned char y[32];
    double back[4];
    assert_int_equal(tn_convert(4, TN_I64, x, cases[k].to, y), TN_OK);
    assert_int_equal(tn_convert(4, cases[k].to, y, TN_F64, back), TN_OK);
    for (size_t i = 0; i < 4; ++i)
      assert_true(back[i] == right[i]);
  }
  const int64_t ends[2] = {INT64_MIN, INT64_MAX};
  double back[2];
  assert_int_equal(tn_convert(2, TN_I64, ends, TN_F64, back), TN_OK);
  assert_true(back[0] == -0x1p63 && back[1] == 0x1p63);
}

static void i64_passes_through_i64_exactly(void **state) {
  (void)state;
  const int64_t x[3] = {INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1};
  int64_t y[3];
  assert_int_equal(tn_convert(3, TN_I64, x, TN_I64, y), TN_OK);
  assert_memory_equal(x, y, sizeof x);
}

static void floats_truncate_to_integers_within_range(void **state) {
  (void)state;
  const double x[] = {1.9, -1.9, 2147483647.9, -2147483648.9};
  const int32_t right[] = {1, -1, INT32_MAX, INT32_MIN};
  int32_t y[4];
  assert_int_equal(tn_convert(4, TN_F64, x, TN_I32, y), TN_OK);
  assert_memory_equal(y, right, sizeof y);
  const double bad[] = {2147483648.0, -2147483649.0, NAN, INFINITY};
  for (size_t i = 0; i < 4; ++i) {
    const double pair[2] = {5, bad[i]};
    assert_int_equal(tn_convert(2, TN_F64, pair, TN_I32, y), TN_ERANGE);
    assert_non_null(strstr(tn_error_text(), "element 1"));
  }
  int64_t z[1];
  const double edge[3] = {-0x1p63, 0x1p63, 0x1.fffffffffffffp62};
  assert_int_equal(tn_convert(1, TN_F64, &edge[0], TN_I64, z), TN_OK);
  assert_true(z[0] == INT64_MIN);
  assert_int_equal(tn_convert(1, TN_F64, &edge[1], TN_I64, z), TN_ERANGE);
  assert_int_equal(tn_convert(1, TN_F64, &edge[2], TN_I64, z), TN_OK);
  const int64_t wide = INT64_C(1) << 31;
  assert_int_equal(tn_convert(1, TN_I64, &wide, TN_I32, y), TN_ERANGE);
}

static void bool_is_not_zero(void **state) {
  (void)state;
  const double x[] = {0, -0.0, 0x1p-1074, -3, NAN};
  const unsigned char right[] = {0, 0, 1, 1, 1};
  unsigned char y[5];
  assert_int_equal(tn_convert(5, TN_F64, x, TN_BOOL, y), TN_OK);
  assert_memory_equal(y, right, sizeof y);
}

static void unknown_dtype_is_refused(void **state) {
  (void)state;
  double x = 1, y = 0;
  assert_int_equal(tn_convert(1, TN_F64, &x, TN_DTYPES, &y), TN_EDTYPE);
  assert_int_equal(tn_convert(1, (tn_dtype)-1, &x, TN_F64, &y), TN_EDTYPE);
  assert_int_equal(tn_convert(0, TN_F64, NULL, TN_F32, NULL), TN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pattern_survives_widening),
      cmocka_unit_test(midpoints_go_to_even_and_neighbours_do_not),
      cmocka_unit_test(random_doubles_go_to_the_nearest),
      cmocka_unit_test(extremes_are_kept_apart),
      cmocka_unit_test(nan_stays_a_quiet_nan),
      cmocka_unit_test(narrowing_through_f32_would_round_twice),
      cmocka_unit_test(names_and_sizes_agree),
      cmocka_unit_test(roundoff_is_half_the_gap_after_one),
      cmocka_unit_test(small_integers_pass_between_all_dtypes),
      cmocka_unit_test(f32_is_rounded_once_and_keeps_subnormals),
      cmocka_unit_test(large_integers_are_rounded_once),
      cmocka_unit_test(i64_passes_through_i64_exactly),
      cmocka_unit_test(floats_truncate_to_integers_within_range),
      cmocka_unit_test(bool_is_not_zero),
      cmocka_unit_test(unknown_dtype_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
