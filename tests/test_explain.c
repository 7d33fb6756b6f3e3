/* test_explain.c: who made the NaN.
 *
 * From a non-finite output the walk must end at the node that made it from finite numbers: through sums, products and
 * axes, along the branch that was selected, at the right point and at the right element of its row.
 */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

/* A buffer with these numbers. */
static tn_buffer *filled(tn_dtype dtype, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = NULL;
  good(tn_buffer_new(dtype, rank, extent, &buffer));
  good(tn_convert(tn_buffer_count(buffer), TN_F64, x, dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  return buffer;
}

static void give(tn_exec *exec, tn_value leaf, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = filled(tn_dtype_of(leaf), rank, extent, x);
  good(tn_exec_bind(exec, leaf, buffer));
  tn_buffer_release(&buffer); /* the executor keeps it */
}

/* ---- Who made the NaN ---- */

typedef struct inquest {
  tn_program *program;
  tn_exec *exec;
  tn_culprit culprit;
} inquest;

static void ask(bench *b, tn_value y, inquest *q) {
  good(tn_compile(b->graph, 1, &y, &q->program));
  good(tn_exec_new(q->program, NULL, &q->exec));
}

static const char *answer(inquest *q) {
  good(tn_exec_run(q->exec));
  good(tn_exec_explain(q->exec, 0, &q->culprit));
  return q->culprit.found ? tn_program_node(q->program, q->culprit.node)->op->name : "nobody";
}

static void end(inquest *q) {
  tn_exec_free(&q->exec);
  tn_program_free(&q->program);
}

static void explain_follows_the_selected_branch(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  inquest q = {0};
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_batch(b.axis, 3)), mask = tn_gt(x, k(&b, 0));
  tn_value y =
      tn_tanh(tn_where(mask, tn_log(x), tn_recip(x))); /* log(x) of x <= 0 is not looked at */
  ask(&b, y, &q);
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, -1, -2, -3});
  assert_string_equal(answer(&q), "nobody");
  assert_false(q.culprit.found);
  /* the bad element is not the first of its row, and the mask differs along the row */
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, 3, -0.0, 7});
  assert_string_equal(answer(&q), "nobody"); /* tanh(-infinity) = -1 */
  end(&q);
  y = tn_exp(tn_neg(tn_where(mask, tn_log(x), tn_recip(x))));
  ask(&b, y, &q);
  give(q.exec, x, 2, (size_t[]){3, 3}, (double[]){1, 2, 3, 1, -2, 4, 3, -0.0, 7});
  assert_string_equal(answer(&q), "recip");
  assert_int_equal(q.culprit.point, 2);
  assert_true(q.culprit.input[0] == 0 && signbit(q.culprit.input[0]));
  assert_true(isinf(q.culprit.value));
  end(&q);
  bench_close(&b);
}

static void explain_walks_through_sums_and_products(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  inquest q = {0};
  tn_axis walls = tn_axis_new(b.graph, "walls");
  tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)), none = {0};
  tn_value z = tn_input(b.graph, "z", TN_F64, tn_shape_points(walls)), w;
  w = tn_parameter(b.graph, "w", TN_F64, tn_shape_fixed(2, (size_t[]){2, 2}));
  tn_value root = tn_sqrt(x), pair[2] = {x, root}, h = tn_linear(tn_stack(2, pair), w, none, false);
  tn_value loss = tn_mean(tn_square(tn_sin(h)));
  double two[4] = {1, 2, 3, 4}, xs[40], zs[30];
  for (int i = 0; i < 40; ++i)
    xs[i] = i == 33 ? -1 : i;
  for (int i = 0; i < 30; ++i)
    zs[i] = i == 5 ? -4 : 1 + i;
  ask(&b, loss, &q);
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, w, 2, (size_t[]){2, 2}, two);
  assert_string_equal(answer(&q), "sqrt");
  assert_int_equal(q.culprit.point, 33);
  assert_true(q.culprit.input[0] == -1);
  two[3] = NAN; /* a bad weight at good points: the leaf itself */
  xs[33] = 1;
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, w, 2, (size_t[]){2, 2}, two);
  assert_string_equal(answer(&q), "parameter");
  end(&q);
  /* from a point of one axis through a sum to a point of another */
  tn_value total = tn_sum(tn_log(z), 0);
  ask(&b, tn_mul(x, total), &q);
  give(q.exec, x, 1, (size_t[]){40}, xs);
  give(q.exec, z, 1, (size_t[]){30}, zs);
  assert_string_equal(answer(&q), "log");
  assert_int_equal(q.culprit.point, 5);
  assert_true(q.culprit.input[0] == -4);
  assert_int_equal(tn_exec_explain(q.exec, 1, &q.culprit), TN_ERANGE);
  end(&q);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(explain_follows_the_selected_branch),
                                     cmocka_unit_test(explain_walks_through_sums_and_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
