/* test_float_environment.c: threads whose arithmetic is not the one that results were checked for are refused:
 * where a program runs, where threads are made, and where a problem is solved.
 *
 * Five hostile environments of a thread: results below the normal range flushed to 0 (FTZ), arguments read as 0
 * (DAZ), rounding up, down and towards 0. What a hostile library does to the whole process, and builds that must
 * not compile, is in test_float_process.sh.
 */
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "pinn/pinn.h"
#include "tensor/tensor.h"
#include "validate/validate.h"

typedef struct hostile {
  const char *says;       /* part of the error's text */
  int rounding;           /* of fesetround; -1: none */
  unsigned register_bits; /* of MXCSR */
} hostile;
static const hostile environments[] = {{"FTZ", -1, 0x8000},
                                       {"DAZ", -1, 0x0040},
                                       {"nearest", FE_UPWARD, 0},
                                       {"nearest", FE_DOWNWARD, 0},
                                       {"nearest", FE_TOWARDZERO, 0}};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments };

static unsigned saved;

/* False where this processor has no such environment. */
static bool enter(const hostile *h) {
  if (h->rounding >= 0)
    return fesetround(h->rounding) == 0;
#if defined(__SSE2__)
  saved = _mm_getcsr();
  _mm_setcsr(saved | h->register_bits);
  return true;
#else
  return false;
#endif
}

static void leave(const hostile *h) {
  if (h->rounding >= 0)
    (void)fesetround(FE_TONEAREST);
#if defined(__SSE2__)
  else
    _mm_setcsr(saved);
#endif
}

typedef tn_status (*action)(void *context);

/* The action fails with TN_EENV and the right text in each environment, and works again afterwards. */
static void is_refused(action act, void *context) {
  for (size_t i = 0; i < ENVIRONMENTS; ++i) {
    const hostile *h = environments + i;
    if (!enter(h))
      continue;
    tn_status status = act(context);
    leave(h);
    if (status != TN_EENV || strstr(tn_error_text(), h->says) == NULL)
      fail_msg("environment %zu: status %s, text `%s`", i, tn_status_name(status), tn_error_text());
  }
  tn_status status = act(context);
  if (status != TN_OK)
    fail_msg("afterwards: %s", tn_error_text());
}

static tn_status run(void *context) { return tn_exec_run(context); }

static void running_a_program_is_refused(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  assert_int_equal(tn_graph_new(&graph), TN_OK);
  tn_value x = tn_scalar(graph, "x", TN_F64, 2), y = tn_exp(x);
  tn_program *program = NULL;
  assert_int_equal(tn_compile(graph, 1, &y, &program), TN_OK);
  tn_status (*const makers[])(const tn_program *, tn_pool *, tn_exec **) = {
      tn_exec_new, tn_exec_reference, tn_exec_strict, tn_exec_keeping_all};
  for (size_t i = 0; i < 4; ++i) {
    tn_exec *exec = NULL;
    assert_int_equal(makers[i](program, NULL, &exec), TN_OK);
    is_refused(run, exec);
    tn_exec_free(&exec);
  }
  tn_program_free(&program);
  tn_graph_free(&graph);
}

static tn_status evaluate(void *context) {
  tn_value *y = context;
  return tn_eval(1, y);
}

static void evaluation_is_refused(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  assert_int_equal(tn_graph_new(&graph), TN_OK);
  tn_value y = tn_tanh(tn_scalar(graph, "x", TN_F32, 1));
  is_refused(evaluate, &y);
  tn_graph_free(&graph);
}

static tn_status make_pool(void *context) {
  (void)context;
  tn_pool *pool = NULL;
  tn_status status = tn_pool_new(2, &pool);
  tn_pool_free(&pool);
  return status;
}

static void threads_are_refused(void **state) {
  (void)state;
  is_refused(make_pool, NULL);
}

static tn_status audit(void *context) {
  (void)context;
  vd_report *report = NULL;
  vd_options o = vd_options_default();
  o.only = "tanh";
  o.points = 4;
  o.formats = 1U << TN_F32;
  tn_status status = vd_report_new(&report);
  if (status == TN_OK)
    status = vd_audit_ops(&o, report);
  vd_report_free(&report);
  return status;
}

static void audits_are_refused(void **state) {
  (void)state;
  is_refused(audit, NULL);
}

static void solving_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < ENVIRONMENTS; ++i) {
    const hostile *h = environments + i;
    pn_solve_options options = {.path = PROBLEMS_DIR "/oscillator.toml", .out = "never"};
    pn_outcome outcome;
    if (!enter(h))
      continue;
    tn_status status = pn_solve(&options, &outcome);
    leave(h);
    assert_int_equal(status, TN_EENV);
    assert_non_null(strstr(tn_error_text(), h->says));
    FILE *file = fopen("never/summary.json", "r");
    assert_null(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(running_a_program_is_refused), cmocka_unit_test(evaluation_is_refused),
      cmocka_unit_test(threads_are_refused),          cmocka_unit_test(audits_are_refused),
      cmocka_unit_test(solving_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
