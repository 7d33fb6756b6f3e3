/* test_strict_executor.c: the strict executor makes visible what works on the host by accident.
 *
 * The accidents are made by an operation of a user, which runs in the middle of a program and looks where it must
 * not: at storage that nobody has written yet, at a value after its last reader, at the host's buffers. The executor
 * that keeps all values shows the numbers that happen to lie there, so the trap exists; the strict one shows NaN, and
 * the numbers that were bound when the run began. On graphs that look nowhere else it gives the bits of the reference
 * executor.
 */
#include "tests/support_exec.h"
#include "tests/support_random_graph.h"

#include "tensor/exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POINTS = 40, GRAPHS = 80 };
typedef tn_status (*maker)(const tn_program *program, tn_pool *pool, tn_exec **out);

/* ---- Random graphs ---- */

static void compare(tn_exec *a, tn_exec *b, size_t n_outputs, uint64_t seed) {
  for (size_t i = 0; i < n_outputs; ++i) {
    tn_buffer *x = NULL, *y = NULL;
    good(tn_exec_output(a, i, &x));
    good(tn_exec_output(b, i, &y));
    size_t n = tn_buffer_count(x);
    assert_int_equal(n, tn_buffer_count(y));
    double *got = malloc((n + 1) * sizeof *got), *want = malloc((n + 1) * sizeof *want);
    good(tn_convert(n, tn_buffer_dtype(x), tn_map(x, TN_READ), TN_F64, got));
    good(tn_convert(n, tn_buffer_dtype(y), tn_map(y, TN_READ), TN_F64, want));
    for (size_t k = 0; k < n; ++k)
      if (memcmp(&got[k], &want[k], sizeof *got) != 0 && !(isnan(got[k]) && isnan(want[k])))
        fail_msg("seed %llu, output %zu, element %zu: %a, expected %a", (unsigned long long)seed, i,
                 k, got[k], want[k]);
    free(got), free(want);
  }
}

/* Twice, with other numbers in the same buffers and then with other numbers of points. */
static void bits_are_those_of_the_reference_executor(void **state) {
  (void)state;
  tn_pool *pool = NULL;
  good(tn_pool_new(2, &pool));
  for (uint64_t seed = 1; seed <= GRAPHS; ++seed) {
    random_graph g;
    random_data data[2];
    tn_program *program = NULL;
    tn_exec *strict = NULL, *reference = NULL;
    random_graph_open(&g, seed);
    good(tn_compile(g.graph, g.n_outputs, g.output, &program));
    good(tn_exec_strict(program, seed % 2 ? pool : NULL, &strict));
    for (uint64_t round = 0; round < 2; ++round) {
      size_t points[RANDOM_AXES] = {0};
      random_points(&g, program, round, 2e5, points);
      random_data_draw(&data[round], &g, round, points);
    }
    for (uint64_t round = 0; round < 3; ++round) {
      random_data *now = &data[round == 2];
      if (round == 1)
        random_data_change(now, &g, 7);
      good(tn_exec_reference(program, NULL, &reference));
      random_data_bind(now, &g, reference, 0, 1);
      if (round != 1)
        random_data_bind(now, &g, strict, 0, 1);
      good(tn_exec_run(reference));
      good(tn_exec_run(strict));
      compare(strict, reference, g.n_outputs, seed);
      tn_exec_free(&reference);
    }
    tn_exec_free(&strict);
    random_data_drop(&data[0]);
    random_data_drop(&data[1]);
    tn_program_free(&program);
    random_graph_close(&g);
  }
  tn_pool_free(&pool);
}

/* ---- Accidents ---- */

/* Looks at the first number of a port's storage and gives it as its whole result. If `host` is set, it also
 * overwrites the host's numbers. */
static struct {
  tn_exec *exec;
  size_t port;
  double *host;
} spy;

static tn_status look(void *context, const tn_array *x, const tn_array *y) {
  (void)context, (void)x;
  double seen = spy.exec ? *(const double *)spy.exec->data[spy.port] : 0;
  for (size_t i = 0; i < y->count; ++i)
    ((double *)y->data)[i] = seen;
  for (size_t i = 0; i < POINTS && spy.host; ++i)
    spy.host[i] = 1000;
  return TN_OK;
}

typedef struct scene {
  tn_graph *graph;
  tn_program *program;
  tn_buffer *x, *w; /* the host's */
  tn_value in, parameter;
} scene;

static void scene_open(scene *s) {
  double *numbers = draw("x", POINTS);
  good(tn_graph_new(&s->graph));
  s->program = NULL;
  s->in = tn_input(s->graph, "x", TN_F64, tn_shape_points(tn_axis_new(s->graph, "points")));
  s->parameter = tn_parameter(s->graph, "w", TN_F64, tn_shape_fixed(1, (size_t[]){POINTS}));
  s->x = filled(TN_F64, 1, (size_t[]){POINTS}, numbers);
  s->w = filled(TN_F64, 1, (size_t[]){POINTS}, numbers);
  free(numbers);
}

static tn_exec *executor(const scene *s, maker make) {
  tn_exec *exec = NULL;
  good(make(s->program, NULL, &exec));
  good(tn_exec_bind(exec, s->in, s->x));
  good(tn_exec_bind(exec, s->parameter, s->w));
  return exec;
}

static void scene_close(scene *s) {
  tn_buffer_release(&s->x);
  tn_buffer_release(&s->w);
  tn_program_free(&s->program);
  tn_graph_free(&s->graph);
}

/* The program's port of the first node of a row. */
static size_t port_of(const tn_program *p, tn_op_id id) {
  for (size_t i = 0; i < p->n_nodes; ++i)
    if (p->nodes[i]->op->id == id)
      return p->port[i];
  fail_msg("no such node");
  return 0;
}

/* s = sin x, e = exp s, look(e), c = cos(look): s has no reader after e; cos x is not there when look runs. */
static void reads_at_the_wrong_time_become_nan(void **state) {
  (void)state;
  scene s;
  const tn_op *op = NULL;
  good(tn_op_register(&(tn_custom){.name = "look", .n_inputs = 1, .forward = look}, &op));
  scene_open(&s);
  tn_value e = tn_exp(tn_sin(s.in)), seen = tn_apply(op, 1, &e),
           out = tn_add(tn_cos(seen), tn_sum_all(s.parameter));
  good(tn_compile(s.graph, 2, (tn_value[]){seen, out}, &s.program));
  static const tn_op_id wrong[] = {TN_OP_sin, TN_OP_cos};
  for (size_t k = 0; k < 2; ++k)
    for (int strict = 0; strict < 2; ++strict) {
      double got[POINTS];
      tn_exec *exec = executor(&s, strict ? tn_exec_strict : tn_exec_keeping_all);
      spy.exec = exec;
      spy.port = port_of(s.program, wrong[k]);
      for (int run = 0; run < 2;
           ++run) { /* memory that nobody wrote; then what an earlier run left */
        good(tn_exec_run(exec));
        good(tn_exec_read(exec, 0, POINTS, got));
        for (size_t i = 0; i < POINTS; ++i)
          assert_true((isnan(got[i]) != 0) == (strict != 0));
      }
      spy.exec = NULL;
      tn_exec_free(&exec);
    }
  spy.port = port_of(s.program, TN_OP_exp); /* its own input: at the right time */
  tn_exec *exec = executor(&s, tn_exec_strict);
  double got[POINTS], x0 = ((const double *)tn_map(s.x, TN_READ))[0];
  spy.exec = exec;
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, POINTS, got));
  assert_true(fabs(got[0] - exp(sin(x0))) < 1e-14);
  spy.exec = NULL;
  tn_exec_free(&exec);
  scene_close(&s);
  tn_op_unregister(&op);
}

/* A leaf with points and one without, read after the host has changed them in the middle of the run. */
static void leaves_are_copied_when_a_run_begins(void **state) {
  (void)state;
  for (int fixed = 0; fixed < 2; ++fixed)
    for (int strict = 0; strict < 2; ++strict) {
      scene s;
      const tn_op *op = NULL;
      good(tn_op_register(&(tn_custom){.name = "look", .n_inputs = 1, .forward = look}, &op));
      scene_open(&s);
      tn_value first = fixed ? s.in : s.parameter, second = fixed ? s.parameter : s.in;
      tn_value sum = tn_sum_all(tn_apply(op, 1, &first)), out = tn_sum_all(tn_mul(sum, second));
      tn_value late = tn_add(sum, second); /* reads the leaf after the operation has run */
      good(tn_compile(s.graph, 2, (tn_value[]){out, late}, &s.program));
      double before[POINTS], got[POINTS];
      memcpy(before, tn_map(fixed ? s.w : s.x, TN_READ), sizeof before);
      tn_exec *exec = executor(&s, strict ? tn_exec_strict : tn_exec_reference);
      spy.host = tn_map(fixed ? s.w : s.x, TN_WRITE);
      good(tn_exec_run(exec));
      good(tn_exec_read(exec, 1, POINTS, got));
      if (strict)
        same_bits(got, before, POINTS, "late reader", POINTS);
      else if (fixed)
        assert_true(got[0] == 1000); /* the trap exists: used in place */
      spy.host = NULL;
      tn_exec_free(&exec);
      scene_close(&s);
      tn_op_unregister(&op);
    }
}

/* An output that is a leaf shows what was bound when the run began; an earlier run's storage is gone. */
static void outputs_are_copied_when_a_run_ends(void **state) {
  (void)state;
  scene s;
  scene_open(&s);
  tn_value out[2] = {s.parameter, tn_sin(s.in)};
  good(tn_compile(s.graph, 2, out, &s.program));
  tn_exec *exec = executor(&s, tn_exec_strict);
  double before[POINTS], got[POINTS];
  memcpy(before, tn_map(s.w, TN_READ), sizeof before);
  good(tn_exec_run(exec));
  ((double *)tn_map(s.w, TN_WRITE))[0] = 1000;
  good(tn_exec_read(exec, 0, POINTS, got));
  same_bits(got, before, POINTS, "parameter", POINTS);
  assert_true(
      isnan(*(const double *)exec->data[tn_port(s.program, tn_program_output(s.program, 1))]));
  uint32_t node = 0;
  assert_true(tn_program_leaf(s.program, s.in, &node));
  assert_int_equal(tn_exec_value(exec, node, 0, POINTS, got), TN_EUNSUPPORTED);
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, POINTS, got));
  assert_true(got[0] == 1000);
  tn_exec_free(&exec);
  scene_close(&s);
}

/* A run that lacks memory leaves the user's buffers bound, and can be tried again. */
static void run_recovers_from_lack_of_memory(void **state) {
  (void)state;
  scene s;
  scene_open(&s);
  tn_value out = tn_sum_all(tn_mul(s.in, tn_sum_all(s.parameter)));
  good(tn_compile(s.graph, 1, &out, &s.program));
  tn_exec *exec = executor(&s, tn_exec_strict);
  size_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    tn_fault_at(n, false);
    tn_status status = tn_exec_run(exec);
    tn_fault_at(0, false);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
    ++failures;
  }
  assert_true(failures > 3);
  double got = 0, want = 0;
  good(tn_exec_read(exec, 0, 1, &got));
  tn_exec *reference = executor(&s, tn_exec_reference);
  good(tn_exec_run(reference));
  good(tn_exec_read(reference, 0, 1, &want));
  same_bits(&got, &want, 1, "sum", POINTS);
  tn_exec_free(&reference);
  tn_exec_free(&exec);
  scene_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_the_reference_executor),
                                     cmocka_unit_test(reads_at_the_wrong_time_become_nan),
                                     cmocka_unit_test(leaves_are_copied_when_a_run_begins),
                                     cmocka_unit_test(outputs_are_copied_when_a_run_ends),
                                     cmocka_unit_test(run_recovers_from_lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
