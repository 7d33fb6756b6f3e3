/* test_round.c: the kernels that round f32 to a low format give the bits of tn_round.
 *
 * tn_round is integer arithmetic on the bits of a double, judged by test_dtype.c against a table of all numbers; the
 * kernels are integer arithmetic, or an addition, on the bits of an f32. Both must agree in every bit, NaN included,
 * on every level, as loops and as instructions of strip programs, over results in place of operands.
 *
 * A sample of every 251st f32 number, and all within 64 of a place where something changes: ties at both ends of a
 * binade, the smallest numbers, overflow, infinity. PINN_TEST_ROUND=all: every f32 number (test_round_all.sh).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = TN_STRIP - 3 }; /* no multiple of any vector: the last ones go another way */
static const char *const levels[] = {"base", "v3", "v4"};
static const struct {
  tn_dtype dtype;
  tn_strip_code code;
} formats[] = {
    {TN_TF32, TN_STRIP_ROUND_TF32}, {TN_BF16, TN_STRIP_ROUND_BF16}, {TN_F16, TN_STRIP_ROUND_F16}};
enum { FORMATS = sizeof formats / sizeof *formats };

static float of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void compare(const float *x, const float *got, const float *want, size_t n, size_t f,
                    const char *how) {
  if (memcmp(got, want, n * sizeof *got) == 0)
    return;
  for (size_t i = 0; i < n; ++i)
    if (memcmp(&got[i], &want[i], sizeof *got) != 0)
      fail_msg("%s, %s: %a becomes %a, expected %a", tn_dtype_name(formats[f].dtype), how,
               (double)x[i], (double)got[i], (double)want[i]);
}

static void check(const float *x, size_t n) {
  float want[BLOCK], got[BLOCK];
  for (size_t f = 0; f < FORMATS; ++f) {
    for (size_t i = 0; i < n; ++i)
      want[i] = (float)tn_round(formats[f].dtype, (double)x[i]);
    for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
      const tn_kernels *t = tn_kernels_at(TN_F32, levels[l]);
      if (!t)
        continue;
      t->round[formats[f].dtype](n, got, x);
      compare(x, got, want, n, f, levels[l]);
      void *registers[1] = {got};
      memcpy(got, x, n * sizeof *x);
      t->strip(1, &(tn_strip_instruction){.code = (uint8_t)formats[f].code}, registers, n);
      compare(x, got, want, n, f, levels[l]);
    }
  }
}

static void bits_are_those_of_one_number_at_a_time(void **state) {
  (void)state;
  const char *wish = getenv("PINN_TEST_ROUND");
  uint64_t step = wish && strcmp(wish, "all") == 0 ? 1 : 251, count = 0;
  float x[BLOCK];
  size_t n = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step, ++count) {
    x[n++] = of_bits((uint32_t)bits);
    if (n == BLOCK)
      check(x, n), n = 0;
  }
  if (n)
    check(x, n);
  print_message("%llu numbers, %d formats\n", (unsigned long long)count, FORMATS);
}

static void edges_are_right(void **state) {
  (void)state;
  /* smallest numbers and halves of them, 2^-14 and the largest number of f16, overflow of each, infinity, 1 */
  const float edge[] = {0,         0x1p-149f,   0x1p-137f,   0x1p-136f,    0x1p-134f,
                        0x1p-133f, 0x1p-126f,   0x1p-25f,    0x1p-24f,     0x1.8p-24f,
                        0x1p-15f,  0x1p-14f,    1,           65504,        65520,
                        65536,     0x1.fep127f, 0x1.ffp127f, 0x1.ffcp127f, 0x1.ffep127f,
                        INFINITY,  NAN};
  float x[BLOCK];
  for (size_t e = 0; e < sizeof edge / sizeof *edge; ++e)
    for (uint32_t sign = 0; sign < 2; ++sign) {
      uint32_t bits;
      memcpy(&bits, &edge[e], sizeof bits);
      for (uint32_t i = 0; i < 129; ++i)
        x[i] = of_bits((bits - 64 + i) ^ sign << 31);
      check(x, 129);
    }
}

/* By the definition alone: a rounded number is one of the format, none is nearer, and an even one wins a tie. */
static void rounding_is_to_the_nearest(void **state) {
  (void)state;
  assert_true(tn_round(TN_TF32, 1 + 0x1p-11) == 1 &&
              tn_round(TN_TF32, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
  assert_true(tn_round(TN_TF32, 1 + 0x1p-11 + 0x1p-52) == 1 + 0x1p-10); /* by way of f32: a tie */
  assert_true(tn_round(TN_BF16, 1 + 0x1p-8 + 0x1p-50) == 1 + 0x1p-7);
  assert_true(tn_round(TN_F16, 1 + 0x1p-11 + 0x1p-50) == 1 + 0x1p-10);
  assert_true(tn_round(TN_TF32, 0x1p-136) == 0x1p-136 && tn_round(TN_TF32, 0x1p-137) == 0);
  assert_true(tn_round(TN_TF32, 0x1.ffcp127) == 0x1.ffcp127 &&
              tn_round(TN_TF32, 0x1.ffep127) == (double)INFINITY);
  assert_true(tn_round(TN_F16, 65519) == 65504 && tn_round(TN_F16, -65520) == -(double)INFINITY);
  assert_true(tn_round(TN_F64, 0.1) == 0.1 && tn_round(TN_F32, 0.1) == (double)0.1f);
  assert_true(isnan(tn_round(TN_TF32, (double)NAN)) && signbit(tn_round(TN_BF16, -0.0)));
}

/* A row over arrays: computed in f32, then rounded once. */
static void rows_apply_to_arrays(void **state) {
  (void)state;
  const float a[5] = {0.25f, -1.5f, 3, 0.1f, 700}, b[5] = {3, 0.5f, -7, 0.3f, 700};
  const double d[2] = {0.5, 2};
  float y[5], sum[5];
  double wide[2];
  for (int k = TN_F32; k <= TN_F16; ++k) {
    tn_dtype dtype = (tn_dtype)k;
    assert_int_equal(tn_op_apply(TN_OP_mul, dtype, 5, a, b, 0, y), TN_OK);
    for (size_t i = 0; i < 5; ++i) {
      float product = a[i] * b[i];
      assert_true((double)y[i] == tn_round(dtype, (double)product));
    }
    memcpy(sum, a, sizeof sum);
    assert_int_equal(tn_op_apply(TN_OP_powi, dtype, 5, sum, NULL, 2, sum), TN_OK); /* in place */
    assert_true((double)sum[2] == 9 && (double)sum[4] == tn_round(dtype, 490000));
  }
  assert_int_equal(tn_op_apply(TN_OP_sqrt, TN_F64, 2, d, NULL, 0, wide), TN_OK);
  assert_true(wide[0] == sqrt(0.5) && wide[1] == sqrt(2));
  assert_int_equal(tn_op_apply(TN_OP_mul, TN_F32, 5, a, NULL, 0, y), TN_EINPUT);
  assert_int_equal(tn_op_apply(TN_OP_exp, TN_F32, 5, a, b, 0, y), TN_EINPUT);
  assert_int_equal(tn_op_apply(TN_OP_lt, TN_F32, 5, a, b, 0, y), TN_EUNSUPPORTED);
  assert_int_equal(tn_op_apply(TN_OP_sum, TN_F32, 5, a, NULL, 0, y), TN_EUNSUPPORTED);
  assert_int_equal(tn_op_apply(TN_OP_exp, TN_I32, 5, a, NULL, 0, y), TN_EDTYPE);
  assert_int_equal(tn_op_apply(TN_OPS, TN_F32, 5, a, NULL, 0, y), TN_ERANGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_one_number_at_a_time), cmocka_unit_test(edges_are_right),
      cmocka_unit_test(rounding_is_to_the_nearest), cmocka_unit_test(rows_apply_to_arrays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
