/* test_oom.c: every allocation of a small session fails once.
 * ctest: labels=full timeout=300
 *
 * A session builds a field, resolves a residual with a folded operator, differentiates a loss by the weights, compiles,
 * runs on a pool, reads, explains and frees. With the n-th allocation failing, for n = 1, 2, ... until nothing fails
 * any more, and again with all later ones failing too: the session ends with TN_ENOMEM, and no byte stays behind.
 * The last run, without a failure, gives the bits of a run that never met one.
 */
#include "tests/support_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
  POINTS = 70,
  WIDTH = 3,
  N_LEAVES = 4,
  N_OUTPUTS = 2 + N_LEAVES,
  N_NUMBERS = 1 + POINTS + WIDTH * 2 + WIDTH + WIDTH + 1
};

typedef struct session {
  tn_graph *graph;
  tn_axis axis;
  ag_field *field;
  tn_value x, t, nu, leaves[N_LEAVES], outputs[N_OUTPUTS];
  tn_pool *pool;
  tn_program *program;
  tn_exec *exec;
  tn_buffer *buffer[N_LEAVES + 2];
} session;

static tn_status make_field(session *s) {
  static const size_t extent[N_LEAVES][2] = {{2, WIDTH}, {WIDTH, 0}, {WIDTH, 1}, {0, 0}};
  static const size_t rank[N_LEAVES] = {2, 1, 2, 0};
  s->axis = tn_axis_new(s->graph, "points");
  for (int i = 0; i < N_LEAVES; ++i)
    s->leaves[i] = tn_parameter(s->graph, "w", TN_F64, tn_shape_fixed(rank[i], extent[i]));
  TN_TRY(ag_field_new(s->graph, "u", 2, TN_F64, &s->field));
  TN_TRY(ag_field_label(s->field, 0, "x"));
  tn_value args[2] = {ag_field_argument(s->field, 0), ag_field_argument(s->field, 1)};
  tn_value h = tn_tanh(tn_linear(tn_stack(2, args), s->leaves[0], s->leaves[1], false));
  tn_value u = tn_slice(tn_linear(h, s->leaves[2], (tn_value){0}, false), 1, 0, 1);
  u = tn_add(tn_sum(u, 1), tn_mul(s->leaves[3], tn_sin(args[0])));
  return ag_field_body(s->field, 1, &u);
}

/* u_t - nu u_xx + u u_x, and its mean square by the weights. */
static tn_status make_outputs(session *s) {
  tn_value args[2];
  s->x = args[0] = tn_input(s->graph, "x", TN_F64, tn_shape_points(s->axis));
  s->t = args[1] = tn_input(s->graph, "t", TN_F64, tn_shape_points(s->axis));
  s->nu = tn_scalar(s->graph, "nu", TN_F64, 0.3);
  tn_at(s->graph, "heat.toml", 4, 1, "residual");
  tn_value u = ag_call(s->field, 0, args, NULL), u_x = ag_d(u, s->x, 1), u_t = ag_d(u, s->t, 1),
           u_xx = ag_d(u, s->x, 2);
  tn_value root = tn_add(tn_sub(u_t, tn_mul(s->nu, u_xx)), tn_mul(u, u_x)), residual;
  ag_resolve_report report;
  TN_TRY(ag_resolve(s->graph, 1, &root, NULL, &residual, &report));
  tn_value loss = tn_mean(tn_square(tn_where(tn_gt(s->x, s->t), residual, tn_relu(residual))));
  ag_resolve_options nested = {.nested = true};
  tn_value again, hv, hessian;
  TN_TRY(ag_resolve(s->graph, 1, &root, &nested, &again, &report));
  TN_TRY(ag_hvp(loss, 1, s->leaves, s->leaves, &hv));
  hessian = ag_hessian(loss, s->leaves[1]);
  if (!tn_ok(hessian))
    return tn_graph_error(s->graph);
  s->outputs[0] = loss;
  s->outputs[1] = residual;
  return ag_grad(loss, N_LEAVES, s->leaves, s->outputs + 2);
}

static tn_status bind_all(session *s) {
  static const size_t extent[N_LEAVES][2] = {{2, WIDTH}, {WIDTH, 0}, {WIDTH, 1}, {0, 0}};
  static const size_t rank[N_LEAVES] = {2, 1, 2, 0}, points = POINTS;
  for (int i = 0; i < N_LEAVES + 2; ++i) {
    bool leaf = i < N_LEAVES;
    TN_TRY(tn_buffer_new(TN_F64, leaf ? rank[i] : 1, leaf ? extent[i] : &points, &s->buffer[i]));
    double *data = tn_map(s->buffer[i], TN_WRITE);
    for (size_t q = 0; q < tn_buffer_count(s->buffer[i]); ++q)
      data[q] = tn_random_uniform(tn_stream_of((uint64_t)i, "oom"), q);
    tn_unmap(s->buffer[i]);
    tn_value to = leaf ? s->leaves[i] : i == N_LEAVES ? s->x : s->t;
    TN_TRY(tn_exec_bind(s->exec, to, s->buffer[i]));
    TN_TRY(tn_bind(to, s->buffer[i]));
  }
  return TN_OK;
}

static tn_status run_session(session *s, double *out, double *by_run) {
  const size_t count[N_OUTPUTS] = {1, POINTS, 2 * WIDTH, WIDTH, WIDTH, 1};
  tn_culprit culprit;
  TN_TRY(tn_graph_new(&s->graph));
  TN_TRY(make_field(s));
  TN_TRY(make_outputs(s));
  TN_TRY(tn_pool_new(2, &s->pool));
  TN_TRY(tn_compile(s->graph, N_OUTPUTS, s->outputs, &s->program));
  TN_TRY(tn_exec_new(s->program, s->pool, &s->exec));
  TN_TRY(bind_all(s));
  TN_TRY(tn_exec_run(s->exec));
  for (size_t i = 0; i < N_OUTPUTS; out += count[i++])
    TN_TRY(tn_exec_read(s->exec, i, count[i], out));
  TN_TRY(tn_exec_explain(s->exec, 0, &culprit));
  TN_TRY(tn_eval(N_OUTPUTS, s->outputs)); /* define by run: the same numbers */
  for (size_t i = 0; i < N_OUTPUTS; by_run += count[i++])
    TN_TRY(tn_read(s->outputs[i], count[i], by_run));
  return TN_OK;
}

static void end_session(session *s) {
  for (int i = 0; i < N_LEAVES + 2; ++i)
    tn_buffer_release(&s->buffer[i]);
  tn_exec_free(&s->exec);
  tn_program_free(&s->program);
  tn_pool_free(&s->pool);
  tn_graph_free(&s->graph);
}

static uint64_t walk(bool onward) {
  double calm[N_NUMBERS], found[N_NUMBERS], by_run[N_NUMBERS];
  session s = {0};
  if (run_session(&s, calm, by_run) != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
  end_session(&s);
  assert_memory_equal(calm, by_run, sizeof calm);
  size_t before = tn_memory_now();
  for (uint64_t n = 1;; ++n) {
    memset(&s, 0, sizeof s);
    tn_error_clear();
    tn_fault_at(n, onward);
    tn_status status = run_session(&s, found, by_run);
    bool met = tn_fault_count() >= n;
    tn_fault_at(0, false);
    end_session(&s);
    if (tn_memory_now() != before)
      fail_msg("allocation %llu: %zu bytes stay behind (%s)", (unsigned long long)n,
               tn_memory_now() - before, tn_error_text());
    if (!met) {
      assert_int_equal(status, TN_OK);
      assert_memory_equal(found, calm, sizeof calm);
      assert_memory_equal(by_run, calm, sizeof calm);
      return n - 1;
    }
    if (status != TN_ENOMEM)
      fail_msg("allocation %llu: %s, %s: %s", (unsigned long long)n, tn_status_name(status),
               tn_error_place(), tn_error_text());
    assert_true(n < 100000);
  }
}

static void one_failure_is_a_status(void **state) {
  (void)state;
  uint64_t n = walk(false);
  printf("%llu allocations\n", (unsigned long long)n);
  assert_true(n > 100);
}

static void lasting_failure_is_a_status(void **state) {
  (void)state;
  assert_true(walk(true) > 100);
}

/* A graph whose builders ran out of memory says so until it is cleared, and works again then. */
static void graph_recovers(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 3, (double[]){1, 2, 3}), y = x, bad = x;
  tn_fault_at(1, true);
  int made = 0;
  for (; tn_ok(bad) && made < 100000; ++made)
    bad = tn_add(bad, k(&b, made));
  tn_fault_at(0, false);
  assert_true(made < 100000);
  assert_int_equal(tn_graph_error(b.graph), TN_ENOMEM);
  assert_int_equal(tn_eval(1, &y), TN_ENOMEM);
  tn_graph_clear_error(b.graph);
  for (int i = 0; i < made; ++i)
    y = tn_add(y, k(&b, i));
  double total = made * (made - 1) / 2.0;
  all_near(y, 3, (double[]){1 + total, 2 + total, 3 + total}, 0);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_failure_is_a_status),
                                     cmocka_unit_test(lasting_failure_is_a_status),
                                     cmocka_unit_test(graph_recovers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
