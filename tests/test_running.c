/* test_running.c: running error bounds hold for every number of a run, and are no larger than they must be.
 *
 * The law is |engine - MPFR| <= bound for every element of every node of random programs. A bound that is
 * a third of what it should be is seen by it: `one_rounding_is_charged_once` shows errors that reach 0.9
 * of theirs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "autograd/autograd.h"
#include "tests/support_random_graph.h"
#include "tests/support_replay.h"

/* ---- Random programs ---- */

typedef struct tally {
  size_t entries, misses, infinite, n_ratios;
  double *ratio; /* bound / error where both are numbers and the error is not 0 */
} tally;
enum { MOST_RATIOS = 1 << 20 };

static void hold_node(const tn_program *program, const vd_replay *replay, const vd_running *running,
                      uint32_t i, uint32_t k, tally *t) {
  const tn_node *node = tn_program_node(program, i);
  size_t n = vd_running_count(running, i, k);
  assert_int_equal(n, vd_replay_count(replay, i, k));
  for (size_t e = 0; e < n; ++e) {
    double bound = vd_running_bound(running, i, k, e), value = vd_running_value(running, i, k, e);
    double error = vd_abs_error(value, vd_replay_at(replay, i, k, e));
    ++t->entries;
    t->infinite += isinf(bound);
    if (!(bound >= error) && ++t->misses <= 5)
      print_message("node %u.%u `%s` %s element %zu: value %.17g, error %.3g, bound %.3g\n", i, k,
                    node->op->name, tn_dtype_name(node->dtype), e, value, error, bound);
    if (error > 0 && isfinite(bound) && t->n_ratios < MOST_RATIOS)
      t->ratio[t->n_ratios++] = bound / error;
  }
}

static void hold_program(const tn_program *program, const vd_replay *replay, tn_exec *exec,
                         tally *t) {
  vd_running *running = NULL;
  assert_int_equal(vd_running_new(program, &running), TN_OK);
  if (vd_running_run(running, exec) != TN_OK)
    fail_msg("running: %s", tn_error_text());
  for (uint32_t i = 0; i < tn_program_nodes(program); ++i) {
    const tn_node *node = tn_program_node(program, i);
    for (uint32_t k = 0; k < node->n_outputs && tn_dtype_is_float(node->dtype); ++k)
      hold_node(program, replay, running, i, k, t);
  }
  vd_running_free(&running);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_ratio(tally *t) {
  qsort(t->ratio, t->n_ratios, sizeof *t->ratio, ascending);
  return t->n_ratios > 0 ? t->ratio[t->n_ratios / 2] : 0;
}

/* Is every operation of the program one that a bound is known for? */
static bool is_covered(const tn_program *program) {
  for (size_t i = 0; i < tn_program_nodes(program); ++i) {
    tn_op_id op = tn_program_node(program, i)->op->id;
    if (op == TN_OP_custom)
      return false;
  }
  return true;
}

/* Does a count stand for an axis that no leaf has? The replay does not know its extent. */
static bool is_unknown(const tn_program *program, const vd_replay *replay) {
  for (uint32_t i = 0; i < tn_program_nodes(program); ++i)
    if (tn_program_node(program, i)->op->id == TN_OP_count &&
        vd_replay_double(replay, i, 0, 0) == 0)
      return true;
  return false;
}

static void hold_graph(uint64_t seed, tally *t) {
  random_graph g;
  random_data d;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  vd_replay *replay = NULL;
  size_t points[RANDOM_AXES];
  random_graph_open(&g, seed);
  assert_int_equal(tn_compile(g.graph, g.n_outputs, g.output, &program), TN_OK);
  random_points(&g, program, 0, 1e4, points);
  random_data_draw(&d, &g, 0, points);
  assert_int_equal(tn_exec_keeping_all(program, NULL, &exec), TN_OK);
  assert_int_equal(vd_replay_new(program, 192, &replay), TN_OK);
  random_data_bind(&d, &g, exec, 0, 1);
  for (size_t i = 0; i < g.n_leaves; ++i) {
    uint32_t node = 0;
    if (tn_program_leaf(program, g.leaf[i], &node))
      assert_int_equal(vd_replay_bind(replay, node, d.buffer[i]), TN_OK);
  }
  for (size_t i = 0; i < g.n_scalars; ++i) {
    uint32_t node = 0;
    if (tn_program_leaf(program, g.scalar[i], &node))
      assert_int_equal(vd_replay_set(replay, node, d.number[i]), TN_OK);
  }
  if (is_covered(program)) {
    assert_int_equal(tn_exec_run(exec), TN_OK);
    tn_status status = vd_replay_run(replay);
    if (status == TN_OK && !is_unknown(program, replay))
      hold_program(program, replay, exec, t);
    else if (status != TN_OK && status != TN_ESTATE &&
             status != TN_EUNSUPPORTED) /* an axis that no leaf has; an operation */
      fail_msg("seed %llu: %s", (unsigned long long)seed, tn_error_text());
  }
  vd_replay_free(&replay);
  tn_exec_free(&exec);
  random_data_drop(&d);
  tn_program_free(&program);
  random_graph_close(&g);
}

static void bounds_hold_for_every_entry_of_random_programs(void **state) {
  (void)state;
  const char *scale = getenv("PINN_TEST_SCALE");
  uint64_t seeds = 24 * (scale ? (uint64_t)strtoul(scale, NULL, 10) : 1);
  for (int low = 0; low < 2; ++low) {
    tally t = {0};
    size_t graphs = 0;
    assert_int_equal(TN_NEW(MOST_RATIOS, &t.ratio), TN_OK);
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      if (random_is_wild(seed) || random_is_low(seed) != (low == 1))
        continue;
      size_t before = t.misses;
      hold_graph(seed, &t);
      if (t.misses > before)
        print_message("seed %llu: %zu misses\n", (unsigned long long)seed, t.misses - before);
      ++graphs;
    }
    print_message("%s: %zu programs, %zu entries, %zu misses, %zu infinite, median ratio %.3g\n",
                  low ? "with low formats" : "f64 and f32", graphs, t.entries, t.misses, t.infinite,
                  median_ratio(&t));
    assert_int_equal(t.misses, 0);
    assert_true(t.entries > 5000);
    tn_free(&t.ratio);
  }
}

/* ---- Single facts ---- */

/* The rig's program once more with everything kept, and its bounds. */
static vd_running *bounds_of(rig *g, tn_exec **exec) {
  vd_running *running = NULL;
  assert_int_equal(tn_exec_keeping_all(g->program, NULL, exec), TN_OK);
  for (size_t i = 0; i < g->n_bindings; ++i)
    assert_int_equal(tn_exec_bind(*exec, g->binding[i].leaf, g->binding[i].buffer), TN_OK);
  assert_int_equal(tn_exec_run(*exec), TN_OK);
  assert_int_equal(vd_running_new(g->program, &running), TN_OK);
  if (vd_running_run(running, *exec) != TN_OK)
    fail_msg("running: %s", tn_error_text());
  return running;
}

static double bound_at(const rig *g, const vd_running *running, size_t output, size_t i) {
  tn_edge e = tn_program_output(g->program, output);
  return vd_running_bound(running, e.node, e.port, i);
}

static double error_at(const rig *g, const vd_running *running, size_t output, size_t i) {
  tn_edge e = tn_program_output(g->program, output);
  return vd_abs_error(vd_running_value(running, e.node, e.port, i), rig_at(g, output, i));
}

/* u |y^| for one addition: its errors reach 0.9 of the bound somewhere among so many, as they are spread
 * evenly below half a unit and y^ comes near a power of two. Anything smaller would be missed. */
static void one_rounding_is_charged_once(void **state) {
  (void)state;
  enum { N = 64 };
  for (int k = 0; k < 3; ++k) {
    rig g;
    tn_exec *exec = NULL;
    const size_t extent[2] = {N, N};
    rig_open(&g);
    tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_fixed(2, extent), false);
    tn_value b = rig_leaf(&g, "b", TN_F32, tn_shape_fixed(2, extent), false);
    tn_value out = k == 0 ? tn_add(a, b) : k == 1 ? tn_mul(a, b) : tn_div(a, b);
    rig_run(&g, 1, &out);
    vd_running *running = bounds_of(&g, &exec);
    double most = 0;
    for (size_t i = 0; i < N * N; ++i)
      most = fmax(most, error_at(&g, running, 0, i) / bound_at(&g, running, 0, i));
    assert_true(most > 0.9 && most <= 1);
    vd_running_free(&running);
    tn_exec_free(&exec);
    rig_close(&g);
  }
}

/* x = (a + 1e6) - 1e6 is wrong by up to 0.03, and x - a shows it whole; its square has no first-order
 * error where x - a is 0. */
static void second_order_terms_are_in(void **state) {
  (void)state;
  rig g;
  tn_exec *exec = NULL;
  rig_open(&g);
  tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_points(g.axis), false);
  tn_value big = tn_const(g.graph, TN_F32, 1e6);
  tn_value zero = tn_sub(tn_sub(tn_add(a, big), big), a); /* exactly 0 without rounding */
  tn_value out[] = {tn_square(zero), tn_sech2(zero), tn_mul(zero, zero)};
  rig_run(&g, 3, out);
  vd_running *running = bounds_of(&g, &exec);
  for (size_t k = 0; k < 3; ++k)
    for (size_t i = 0; i < POINTS; ++i) {
      assert_true(error_at(&g, running, k, i) <= bound_at(&g, running, k, i));
      assert_true(bound_at(&g, running, k, i) < 4 * 0.0625 * 0.0625 + 1e-3);
    }
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

/* 1/x, log x and sqrt x of an x that may be 0; and a mask that rounding may turn. */
static void poles_and_masks_are_seen(void **state) {
  (void)state;
  rig g;
  tn_exec *exec = NULL;
  rig_open(&g);
  tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_points(g.axis), false);
  tn_value big = tn_const(g.graph, TN_F32, 1e6), one = tn_const(g.graph, TN_F32, 1);
  tn_value x = tn_sub(tn_sub(tn_add(a, big), big), a);
  tn_value shifted = tn_add(x, tn_const(g.graph, TN_F32, 0x1p-10));
  tn_value mask = tn_gt(x, tn_const(g.graph, TN_F32, 0));
  tn_value out[] = {tn_recip(shifted), tn_where(mask, one, tn_neg(one)), tn_where(mask, a, a)};
  rig_run(&g, 3, out);
  vd_running *running = bounds_of(&g, &exec);
  for (size_t i = 0; i < POINTS; ++i) {
    assert_true(isinf(bound_at(&g, running, 0, i)));
    assert_true(bound_at(&g, running, 1, i) >= 2);
    assert_true(bound_at(&g, running, 2, i) < 1e-6);
  }
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

static void hold_outputs(const rig *g, const vd_running *running, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    tn_edge e = tn_program_output(g->program, k);
    for (size_t i = 0; i < vd_running_count(running, e.node, e.port); ++i)
      if (!(error_at(g, running, k, i) <= bound_at(g, running, k, i)))
        fail_msg("output %zu, element %zu: %.17g, error %.3g, bound %.3g", k, i,
                 vd_running_value(running, e.node, e.port, i), error_at(g, running, k, i),
                 bound_at(g, running, k, i));
  }
}

/* zero is 0 and computed as up to 0.0625 or -0.0625. The other branch is NaN as computed, and right; there are
 * poles between -2^-20 and what is computed; the angle of (-2^-10, 0) is pi; 1 / 0
 * has no sine. */
static void bounds_hold_across_poles_and_cuts(void **state) {
  (void)state;
  rig g;
  tn_exec *exec = NULL;
  rig_open(&g);
  tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_points(g.axis), false);
  tn_value big = tn_const(g.graph, TN_F32, 1e6), small = tn_const(g.graph, TN_F32, 0x1p-20);
  tn_value zero = tn_sub(tn_sub(tn_add(a, big), big), a);
  tn_value mask = tn_gt(zero, tn_const(g.graph, TN_F32, -0x1p-10));
  tn_value near_pole =
      tn_add(tn_mul(zero, tn_const(g.graph, TN_F32, 0.1)), tn_const(g.graph, TN_F32, 1.568));
  tn_value out[] = {tn_where(mask, tn_sqrt(zero), tn_const(g.graph, TN_F32, 1)), tn_tan(near_pole),
                    tn_pow(tn_sub(zero, small), tn_const(g.graph, TN_F32, -2)),
                    tn_atan2(zero, tn_sub(zero, tn_const(g.graph, TN_F32, 0x1p-10))),
                    tn_sin(tn_recip(zero))};
  rig_run(&g, 5, out);
  vd_running *running = bounds_of(&g, &exec);
  hold_outputs(&g, running, 5);
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

/* x^2 overflows inside the derivative of atan, which comes out as 0 and is 1e-40; products of errors underflow in
 * a quotient of numbers of 1e-160; at 948 pi k the interval that f64 can see is so wide that sine bends; and
 * a^1e6 magnifies an error by so much. */
static void bounds_hold_at_the_ends_of_formats(void **state) {
  (void)state;
  rig g;
  tn_exec *exec = NULL;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_points(g.axis), false);
  tn_value k = rig_leaf(&g, "k", TN_F64, tn_shape_points(g.axis), true);
  tn_value k32 = tn_cast(k, TN_F32), one = tn_const(g.graph, TN_F64, 1);
  tn_value tiny = tn_const(g.graph, TN_F64, 1e-160);
  tn_jet z = {.channel = {tn_mul(k32, tn_const(g.graph, TN_F32, 1e20))}}, y;
  assert_int_equal(tn_jet_unary(TN_OP_atan, 0, 1, &z, &y), TN_OK);
  tn_value turns = tn_mul(k, tn_const(g.graph, TN_F64, 948 * 3.14159265358979323846));
  tn_value near_one = tn_add(one, tn_mul(x, tn_const(g.graph, TN_F64, 1e-10)));
  tn_value out[] = {y.channel[0],
                    tn_div(tn_mul(x, tiny), tn_mul(tn_add(x, tn_const(g.graph, TN_F64, 2)), tiny)),
                    tn_sin(tn_cast(tn_cast(turns, TN_F32), TN_F64)),
                    tn_pow(near_one, tn_const(g.graph, TN_F64, 1e6))};
  rig_run(&g, 4, out);
  vd_running *running = bounds_of(&g, &exec);
  hold_outputs(&g, running, 4);
  for (size_t i = 0; i < POINTS; ++i)
    for (size_t j = 1; j < 4; ++j)
      assert_true(bound_at(&g, running, j, i) < 1e-2);
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

/* Rows of exact numbers and of rounded ones: no entry beyond its bound, and none bounded by more than 1e-4, 2^11 u. */
static void rows_are_bounded(void **state) {
  (void)state;
  enum { ROWS = 32, N = 8 };
  rig g;
  tn_exec *exec = NULL;
  const size_t extent[2] = {ROWS, N};
  rig_open(&g);
  tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_fixed(2, extent), false);
  tn_value b = tn_mul(tn_const(g.graph, TN_F32, 7), tn_sin(a));
  tn_value out[] = {tn_softmax(a), tn_softmax(b), tn_layer_norm(a, 1e-5), tn_layer_norm(b, 1e-5),
                    tn_rstd(b, 1e-5)};
  rig_run(&g, 5, out);
  vd_running *running = bounds_of(&g, &exec);
  hold_outputs(&g, running, 5);
  for (size_t k = 0; k < 5; ++k) {
    double most = 0, worst = 0;
    for (size_t i = 0; i < (k == 4 ? ROWS : ROWS * N); ++i) {
      worst = fmax(worst, error_at(&g, running, k, i) / bound_at(&g, running, k, i));
      most = fmax(most, bound_at(&g, running, k, i));
    }
    print_message("rows %zu: largest bound %.2g, largest error / bound %.2g\n", k, most, worst);
    assert_true(most < 1e-4);
  }
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

/* A product over k = 1024 and a sum of so many: the a priori bound is k u sum |a b|; the running one knows
 * the partial sums, about sqrt(k) of single terms. */
static void long_sums_are_bounded_by_their_partial_sums(void **state) {
  (void)state;
  enum { K = 1024 };
  rig g;
  tn_exec *exec = NULL;
  const size_t row[2] = {1, K}, column[2] = {K, 1};
  rig_open(&g);
  tn_value a = rig_leaf(&g, "a", TN_F32, tn_shape_fixed(2, row), false);
  tn_value b = rig_leaf(&g, "b", TN_F32, tn_shape_fixed(2, column), false);
  tn_value out[] = {tn_matmul(a, b), tn_sum(a, 1)};
  rig_run(&g, 2, out);
  vd_running *running = bounds_of(&g, &exec);
  for (size_t k = 0; k < 2; ++k) {
    tn_edge e = tn_program_output(g.program, k);
    double apriori = K * 0x1p-24 * vd_replay_scale(g.replay, e.node, e.port, 0);
    assert_true(error_at(&g, running, k, 0) <= bound_at(&g, running, k, 0));
    assert_true(bound_at(&g, running, k, 0) < apriori / 8);
  }
  vd_running_free(&running);
  tn_exec_free(&exec);
  rig_close(&g);
}

/* Every allocation fails once: an error each time, no leak. */
static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  rig g;
  tn_exec *exec = NULL;
  rig_open(&g);
  tn_value x = rig_leaf(&g, "x", TN_F32, tn_shape_points(g.axis), false);
  tn_jet z = {.channel = {x}}, y;
  assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 1, &z, &y), TN_OK);
  tn_value out[] = {tn_sum_all(tn_square(x)), tn_stack(2, (tn_value[]){x, x}), y.channel[0]};
  rig_run(&g, 3, out);
  vd_running *whole = bounds_of(&g, &exec);
  vd_running_free(&whole);
  size_t before = tn_memory_now();
  tn_status status = TN_ENOMEM;
  for (uint64_t n = 1; status != TN_OK; ++n) {
    vd_running *running = NULL;
    tn_fault_at(n, false);
    status = vd_running_new(g.program, &running);
    if (status == TN_OK)
      status = vd_running_run(running, exec);
    if (status != TN_OK)
      assert_int_equal(status, TN_ENOMEM);
    vd_running_free(&running);
    assert_int_equal(tn_memory_now(), before);
  }
  tn_fault_at(0, false);
  tn_exec_free(&exec);
  rig_close(&g);
}

static int finish(void **state) {
  (void)state;
  mpfr_free_cache();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rounding_is_charged_once),
      cmocka_unit_test(second_order_terms_are_in),
      cmocka_unit_test(poles_and_masks_are_seen),
      cmocka_unit_test(bounds_hold_across_poles_and_cuts),
      cmocka_unit_test(bounds_hold_at_the_ends_of_formats),
      cmocka_unit_test(rows_are_bounded),
      cmocka_unit_test(long_sums_are_bounded_by_their_partial_sums),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
      cmocka_unit_test(bounds_hold_for_every_entry_of_random_programs),
  };
  return cmocka_run_group_tests(tests, NULL, finish);
}
