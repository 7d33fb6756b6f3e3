/* ctest: labels=audit timeout=1800 processors=2 */
/* test_pairs.c: all pairs of bf16 and of f16 numbers through add, sub, mul and div: 3.4e10 results, each of which
 * must be the exact one rounded once. Half a minute of one core an operation and format; two at a time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "validate/validate.h"

enum { HALF = 32768 };

typedef struct share {
  tn_op_id op;
  tn_dtype dtype;
  uint32_t first;
  uint64_t checked, wrong;
  tn_status status;
} share;

static void *work(void *argument) {
  share *s = argument;
  s->status = vd_audit_pairs(s->op, s->dtype, s->first, HALF, &s->checked, &s->wrong);
  return NULL;
}

static void every_pair_rounds_once(void **state) {
  (void)state;
  static const tn_op_id ops[] = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_div};
  for (int k = 0; k < 8; ++k) {
    share part[2];
    pthread_t thread[2];
    for (uint32_t w = 0; w < 2; ++w) {
      part[w] = (share){.op = ops[k / 2], .dtype = k % 2 ? TN_F16 : TN_BF16, .first = w * HALF};
      assert_int_equal(pthread_create(&thread[w], NULL, work, &part[w]), 0);
    }
    for (int w = 0; w < 2; ++w) {
      assert_int_equal(pthread_join(thread[w], NULL), 0);
      assert_int_equal(part[w].status, TN_OK);
    }
    uint64_t checked = part[0].checked + part[1].checked, wrong = part[0].wrong + part[1].wrong;
    print_message("%s %s: %.0f pairs, %.0f wrong\n", tn_op_row(part[0].op)->name,
                  tn_dtype_name(part[0].dtype), (double)checked, (double)wrong);
    assert_true(checked == (uint64_t)1 << 32);
    assert_true(wrong == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_rounds_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
