/* test_rng.c: the generator is Philox, and its numbers have the distributions they claim.
 *
 * Statistical bounds are 5 standard deviations, which a right generator passes with probability 1 -
 * 6e-7; the seed is fixed, so a pass stays a pass.
 */
#include "tensor/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20240612, N = 1000000 };

static tn_stream stream_of(const char *name) {
  print_message("seed %d, stream %s\n", (int)SEED, name);
  return tn_stream_of(SEED, name);
}

/* Philox 4x32-10 once more, written from the paper's description: S-box by 64-bit product,
 * permutation, key schedule by multiplication instead of addition. */
static void philox_by_definition(const uint32_t counter[4], const uint32_t key[2],
                                 uint32_t out[4]) {
  memcpy(out, counter, 4 * sizeof *out);
  for (uint32_t r = 0; r < 10; ++r) {
    const uint32_t k0 = key[0] + r * 0x9E3779B9u, k1 = key[1] + r * 0xBB67AE85u;
    const uint64_t p0 = (uint64_t)out[0] * 0xD2511F53u, p1 = (uint64_t)out[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ out[1] ^ k0, (uint32_t)(p1 & 0xFFFFFFFFu),
                              (uint32_t)(p0 >> 32) ^ out[3] ^ k1, (uint32_t)(p0 & 0xFFFFFFFFu)};
    memcpy(out, next, sizeof next);
  }
}

/* The vectors published with the authors' library Random123: zeros, ones, digits of pi. */
static void philox_meets_the_known_answers(void **state) {
  (void)state;
  const uint32_t cases[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
       0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1},
  };
  for (size_t i = 0; i < 3; ++i) {
    uint32_t out[4];
    philox_by_definition(cases[i], cases[i] + 4, out);
    assert_memory_equal(out, cases[i] + 6, sizeof out);
  }
  const tn_stream zero = {{0, 0}};
  assert_true(tn_random_bits(zero, 0) == UINT64_C(0xe169c58d6627e8d5));
}

static void bits_are_those_of_philox(void **state) {
  (void)state;
  const tn_stream from = stream_of("indices");
  for (uint64_t i = 0; i < 10000; ++i) {
    uint64_t key = tn_random_bits(from, 2 * i), index = tn_random_bits(from, 2 * i + 1);
    if (i % 2)
      index >>= 40;
    const tn_stream stream = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t out[4];
    philox_by_definition(counter, stream.key, out);
    assert_true(tn_random_bits(stream, index) == ((uint64_t)out[1] << 32 | out[0]));
  }
}

static uint64_t key_of(uint64_t seed, const char *name) {
  tn_stream s = tn_stream_of(seed, name);
  return (uint64_t)s.key[1] << 32 | s.key[0];
}

/* Among m keys of 64 bits a chance collision has probability m^2 2^-65 < 1e-13 for m = 1000. */
static void streams_differ_by_seed_and_name(void **state) {
  (void)state;
  enum { SEEDS = 250, NAMES = 4, M = SEEDS * NAMES };
  const char *const names[NAMES] = {"", "a", "b", "ab"};
  static uint64_t keys[M];
  for (size_t i = 0; i < M; ++i)
    keys[i] = key_of(i / NAMES, names[i % NAMES]);
  for (size_t i = 0; i < M; ++i) {
    assert_true(key_of(i / NAMES, names[i % NAMES]) == keys[i]);
    for (size_t j = 0; j < i; ++j)
      assert_true(keys[i] != keys[j]);
  }
}

/* The mean of N products of two independent centred uniforms has deviation 1/(12 sqrt(N)). */
static void neighbouring_streams_are_uncorrelated(void **state) {
  (void)state;
  const tn_stream a = tn_stream_of(SEED, "x"), b = tn_stream_of(SEED + 1, "x"),
                  c = tn_stream_of(SEED, "y");
  double ab = 0, ac = 0, lag = 0;
  for (uint64_t i = 0; i < N; ++i) {
    double u = tn_random_uniform(a, i) - 0.5;
    ab += u * (tn_random_uniform(b, i) - 0.5);
    ac += u * (tn_random_uniform(c, i) - 0.5);
    lag += u * (tn_random_uniform(a, i + 1) - 0.5);
  }
  const double bound = 5 * sqrt(N) / 12;
  assert_true(fabs(ab) < bound && fabs(ac) < bound && fabs(lag) < bound);
}

/* Odd multiples of 2^-53, as many below 1/2 as above: never 0 or 1. In 256 boxes chi^2 has mean 255
 * and variance 510, the mean of u has variance 1/(12 N). */
static void uniform_is_uniform(void **state) {
  (void)state;
  const tn_stream s = stream_of("uniform");
  static unsigned boxes[256];
  double sum = 0, chi2 = 0;
  for (uint64_t i = 0; i < N; ++i) {
    double u = tn_random_uniform(s, i);
    uint64_t k = (uint64_t)(u * 0x1p53);
    assert_true(u > 0 && u < 1 && (double)k * 0x1p-53 == u && k % 2 == 1);
    boxes[(size_t)(u * 256)] += 1;
    sum += u;
  }
  for (size_t i = 0; i < 256; ++i)
    chi2 += pow(boxes[i] - N / 256.0, 2) / (N / 256.0);
  assert_true(fabs(sum / N - 0.5) < 5 / sqrt(12.0 * N));
  assert_true(fabs(chi2 - 255) < 5 * sqrt(510));
}

/* x must satisfy Phi(x) = u. Near 0 by erf(x / sqrt 2) = 2u - 1, elsewhere by the smaller tail p,
 * erfc(|x| / sqrt 2) = 2 p. A relative error d of x changes erf relatively by at most d and erfc by
 * at most (x^2 + 1) d. Allowed: d = 20 roundoffs for the quantile, its rounded argument and x /
 * sqrt 2, and 10 for the C library's erf. */
static void normal_inverts_the_error_function(void **state) {
  (void)state;
  const tn_stream s = stream_of("normal");
  const double roundoff = 0x1p-53;
  for (uint64_t i = 0; i < N; ++i) {
    double u = tn_random_uniform(s, i), x = tn_random_normal(s, i), p = u < 0.5 ? u : 1 - u;
    double allowed = (20 * (x * x + 1) + 10) * roundoff;
    assert_true(x == 0 || (x < 0) == (u < 0.5));
    if (fabs(x) < 1)
      assert_true(fabs(erf(x / sqrt(2)) - (2 * u - 1)) <= allowed * fabs(2 * u - 1));
    else
      assert_true(fabs(erfc(fabs(x) / sqrt(2)) - 2 * p) <= allowed * 2 * p);
  }
}

/* For a standard normal x, the powers x, x^2, x^3, x^4 have means 0, 1, 0, 3 and variances 1, 2,
 * 15, 96. */
static void normal_has_the_right_moments(void **state) {
  (void)state;
  const tn_stream s = stream_of("moments");
  const double mean[4] = {0, 1, 0, 3}, variance[4] = {1, 2, 15, 96};
  double sum[4] = {0};
  for (uint64_t i = 0; i < N; ++i) {
    double x = tn_random_normal(s, i), power = 1;
    for (int k = 0; k < 4; ++k)
      sum[k] += power *= x;
  }
  for (int k = 0; k < 4; ++k)
    assert_true(fabs(sum[k] / N - mean[k]) < 5 * sqrt(variance[k] / N));
}

/* A count of probability p has variance N p (1 - p); tails beyond 1, 2, 3, 4 on both sides. */
static void normal_tails_are_symmetric(void **state) {
  (void)state;
  const tn_stream s = stream_of("tails");
  double left[4] = {0}, right[4] = {0};
  for (uint64_t i = 0; i < N; ++i) {
    double x = tn_random_normal(s, i);
    for (int k = 0; k < 4; ++k) {
      left[k] += x < -(k + 1);
      right[k] += x > k + 1;
    }
  }
  for (int k = 0; k < 4; ++k) {
    double p = erfc((k + 1) / sqrt(2)) / 2, bound = 5 * sqrt(N * p * (1 - p));
    assert_true(fabs(left[k] - N * p) < bound && fabs(right[k] - N * p) < bound);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_meets_the_known_answers),
      cmocka_unit_test(bits_are_those_of_philox),
      cmocka_unit_test(streams_differ_by_seed_and_name),
      cmocka_unit_test(neighbouring_streams_are_uncorrelated),
      cmocka_unit_test(uniform_is_uniform),
      cmocka_unit_test(normal_inverts_the_error_function),
      cmocka_unit_test(normal_has_the_right_moments),
      cmocka_unit_test(normal_tails_are_symmetric),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
