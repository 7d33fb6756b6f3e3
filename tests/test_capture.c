/* test_capture.c: a captured step is whole or there is none.
 *
 * Between begin and end a number may not be looked at: the error names the place and the node, the end repeats it and
 * gives no program. What is allowed inside (recording, differentiating, binding, setting) gives the bits of tn_eval.
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void says(const char *text) {
  if (!strstr(tn_error_text(), text))
    fail_msg("`%s` does not say `%s`", tn_error_text(), text);
}

typedef struct step {
  tn_value x, s, hidden, outputs[2];
} step;

static step record(bench *b) {
  step r;
  tn_at(b->graph, "heat.toml", 3, 5, "s*x^2");
  r.x = points(b, "x", 3, (double[]){1, 2, -3});
  r.s = tn_scalar(b->graph, "s", TN_F64, 0.5);
  r.hidden = tn_tanh(tn_mul(r.s, tn_square(r.x)));
  r.outputs[0] = tn_sum_all(r.hidden);
  r.outputs[1] = gradient(r.outputs[0], r.x);
  tn_at(b->graph, "heat.toml", 4, 1, "loss");
  return r;
}

static void captured_step_gives_the_bits_of_eval(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  double want[4], got[4];
  assert_false(tn_capturing(b.graph));
  good(tn_capture_begin(b.graph));
  assert_true(tn_capturing(b.graph));
  step r = record(&b);
  good(tn_set(r.s, 0.75));
  good(tn_capture_end(b.graph, 2, r.outputs, &program));
  assert_false(tn_capturing(b.graph));
  good(tn_eval(2, r.outputs)); /* allowed again */
  good(tn_read(r.outputs[0], 1, want));
  good(tn_read(r.outputs[1], 3, want + 1));
  good(tn_exec_new(program, NULL, &exec));
  give(exec, r.x, 1, (size_t[]){3}, (double[]){1, 2, -3});
  good(tn_exec_set(exec, r.s, 0.75));
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, 1, got));
  good(tn_exec_read(exec, 1, 3, got + 1));
  same_bits(got, want, 4, "captured", 3);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}

static void looking_at_a_number_breaks_the_capture(void **state) {
  (void)state;
  for (int by_read = 0; by_read < 2; ++by_read) {
    bench b;
    bench_open(&b, TN_F64);
    tn_program *program = (tn_program *)&b;
    double got[3];
    tn_value before = points(&b, "before", 3, (double[]){1, 2, 3});
    good(tn_eval(1, &before));
    tn_at(b.graph, "heat.toml", 1, 1, "all");
    good(tn_capture_begin(b.graph));
    step r = record(&b);
    if (by_read) /* also of a value that was there before */
      assert_int_equal(tn_read(before, 3, got), TN_ESTATE);
    else
      assert_int_equal(tn_eval(1, &r.hidden), TN_ESTATE);
    says("heat.toml:4:1: ");
    says(by_read ? "read of input `before`" : "eval of tanh");
    says(by_read ? "(node 0" : "made at heat.toml:3:5: s*x^2");
    says("captured since heat.toml:1:1");
    says("test_capture.c:");
    assert_false(tn_capturing(b.graph));
    assert_int_equal(tn_read(r.hidden, 3, got), TN_ESTATE); /* later ones are errors, too */
    tn_error_clear();
    assert_int_equal(tn_capture_end(b.graph, 2, r.outputs, &program), TN_ESTATE);
    assert_null(program);
    says(by_read ? "read of input `before`" : "eval of tanh"); /* the first one */
    good(tn_capture_begin(b.graph));                           /* nothing is left of it */
    good(tn_capture_end(b.graph, 2, r.outputs, &program));
    assert_non_null(program);
    tn_program_free(&program);
    good(tn_eval(2, r.outputs));
    good(tn_read(before, 3, got));
    bench_close(&b);
  }
}

/* Without tn_at the line of the call is the place. */
static void place_is_the_callers_line(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  double got[2];
  char here[64];
  tn_value x = points(&b, "x", 2, (double[]){1, 2});
  good(tn_capture_begin(b.graph));
  snprintf(here, sizeof here, "test_capture.c:%d: read of input", __LINE__ + 1);
  assert_int_equal(tn_read(x, 2, got), TN_ESTATE);
  says(here);
  bench_close(&b);
}

static void calls_out_of_order_are_refused(void **state) {
  (void)state;
  bench b, other;
  bench_open(&b, TN_F64);
  bench_open(&other, TN_F64);
  tn_program *program = NULL;
  tn_value x = points(&b, "x", 2, (double[]){1, 2}),
           foreign = points(&other, "x", 2, (double[]){1, 2});
  assert_int_equal(tn_capture_end(b.graph, 1, &x, &program), TN_ESTATE);
  says("none of this graph is open");
  good(tn_capture_begin(b.graph));
  assert_int_equal(tn_capture_begin(b.graph), TN_ESTATE);
  says("is open since");
  all_near(foreign, 2, (double[]){1, 2}, 0); /* another graph is free */
  assert_int_equal(tn_capture_end(b.graph, 1, &foreign, NULL), TN_EHANDLE);
  tn_graph_clear_error(b.graph);
  tn_graph_clear_error(other.graph);
  good(tn_capture_begin(b.graph));
  good(tn_capture_end(b.graph, 1, &x, NULL)); /* only checks */
  good(tn_capture_begin(b.graph));
  tn_graph_reset(b.graph);
  assert_false(tn_capturing(b.graph));
  assert_int_equal(tn_capture_end(b.graph, 1, &x, &program), TN_ESTATE);
  says("was reset since the capture began at");
  assert_null(program);
  b.axis = tn_axis_new(b.graph, "points");
  good(tn_capture_begin(b.graph));
  tn_value bad = tn_add(foreign, points(&b, "x", 2, (double[]){1, 2})); /* an error of a builder */
  assert_int_equal(tn_capture_end(b.graph, 1, &bad, &program), TN_EHANDLE);
  assert_null(program);
  bench_close(&b);
  bench_close(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(captured_step_gives_the_bits_of_eval),
                                     cmocka_unit_test(looking_at_a_number_breaks_the_capture),
                                     cmocka_unit_test(place_is_the_callers_line),
                                     cmocka_unit_test(calls_out_of_order_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
