/* ctest: labels=full timeout=600 processors=2 */
/* test_exhaustive16.c: every number of bf16 and f16 through every row with one argument.
 *
 * Values and jets to order 3 at all 65,536 arguments, against the Taylor series in MPFR: at most 0.501 ulp at
 * orders 0 and 1 and 0.51 at 2 and 3, by c where the computation in f32 cancels (ops_judge.c). Half a minute of
 * one core; the formats run side by side.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "validate/mp.h"

typedef struct share {
  tn_dtype dtype;
  tn_status status;
  char error[200];
  size_t rows, failures, points, cancelled;
  double ulp;
  char worst[64];
} share;

static void *work(void *argument) {
  share *s = argument;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.formats = 1U << s->dtype;
  o.exhaustive = true;
  o.points = 16; /* of rows with two arguments, which are not the matter here */
  s->status = vd_report_new(&report);
  if (s->status == TN_OK)
    s->status = vd_audit_ops(&o, report);
  if (s->status != TN_OK)
    snprintf(s->error, sizeof s->error, "%s", tn_error_text());
  for (size_t i = 0; s->status == TN_OK && i < vd_report_rows(report); ++i) {
    const vd_row *r = vd_report_row(report, i);
    s->failures += !r->pass;
    if (!r->pass)
      fprintf(stderr, "%s %s %s order %d: %s %.6g, bound %.6g, at %.9g\n", r->subject, r->dtype,
              r->method, r->order, r->measure, r->value, r->bound, r->at);
    if (r->points < 60000) /* points beyond the range are left out */
      continue;
    ++s->rows;
    s->points += r->points;
    s->cancelled += r->cancelled;
    if (r->ulp > s->ulp) {
      s->ulp = r->ulp;
      snprintf(s->worst, sizeof s->worst, "%s order %d", r->subject, r->order);
    }
  }
  vd_report_free(&report);
  mpfr_free_cache();
  return NULL;
}

static void every_number_rounds_once(void **state) {
  (void)state;
  share part[2] = {{.dtype = TN_BF16}, {.dtype = TN_F16}};
  pthread_t thread[2];
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_create(&thread[i], NULL, work, &part[i]), 0);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_join(thread[i], NULL), 0);
  for (int i = 0; i < 2; ++i) {
    const share *s = part + i;
    if (s->status != TN_OK)
      fail_msg("%s", s->error);
    print_message(
        "%s: %zu rows and orders over all numbers, %zu results, at most %.6f ulp (%s); %zu by c\n",
        tn_dtype_name(s->dtype), s->rows, s->points, s->ulp, s->worst, s->cancelled);
    assert_true(s->rows > 200);
    assert_int_equal(s->failures, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_rounds_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
