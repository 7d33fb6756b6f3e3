/* test_cache.c: steps that are recorded again run the program of the first; others never do.
 *
 * A step is recorded by a function of a few variations, one at a time, after tn_graph_reset. The judge of a hit is
 * the graph's count; the judge of its value is arithmetic on small whole numbers, exact in f64 and f32, so that a
 * program of another step, or a number or buffer of an earlier one, shows at once.
 */
#include "tensor/cache.h"
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A step with variations ---- */

typedef enum change {
  NONE,
  /* no part of the structure */
  NUMBER_OF_SCALAR,
  SET_SCALAR,
  MORE_POINTS,
  PLACE,
  UNUSED_AXIS,
  UNUSED_NODES,
  AXIS_NAME,
  N_EQUAL, /* structure from here on */
  CONSTANT = N_EQUAL,
  FILL,
  ARRAY,
  EXPONENT,
  OPERATION,
  ORDER_OF_INPUTS,
  DTYPE,
  WIDTH,
  NAME,
  KIND,
  TWO_AXES,
  COUNT_OF_OTHER,
  OUTPUTS,
  ORDER_OF_OUTPUTS,
  MORE_NODES,
  N_CHANGES
} change;

static const char *const change_names[N_CHANGES] = {"none",
                                                    "number of a scalar",
                                                    "a set scalar",
                                                    "more points",
                                                    "place",
                                                    "an unused axis",
                                                    "unused nodes",
                                                    "name of an axis",
                                                    "constant",
                                                    "fill",
                                                    "array",
                                                    "exponent",
                                                    "operation",
                                                    "order of inputs",
                                                    "dtype",
                                                    "width",
                                                    "name of a leaf",
                                                    "kind of a leaf",
                                                    "two axes",
                                                    "count of another axis",
                                                    "choice of outputs",
                                                    "order of outputs",
                                                    "more nodes"};

static tn_value bound(tn_graph *graph, const char *name, tn_dtype dtype, bool parameter,
                      tn_axis axis, size_t n, size_t width, double first) {
  tn_shape shape = axis ? tn_shape_batch(axis, width) : tn_shape_fixed(1, &width);
  tn_value leaf =
      parameter ? tn_parameter(graph, name, dtype, shape) : tn_input(graph, name, dtype, shape);
  size_t extent[2] = {axis ? n : width, width};
  double x[64];
  assert_true(n * width <= 64);
  for (size_t i = 0; i < n * width; ++i)
    x[i] = first + (double)i;
  tn_buffer *buffer = filled(dtype, axis ? 2 : 1, extent, x);
  good(tn_bind(leaf, buffer));
  tn_buffer_release(&buffer);
  return leaf;
}

/* y = sum over points and units of (((x (x or z) - w) (or reversed) + k + array + fill) s)^p + N. */
static void evaluate(tn_graph *graph, change c, size_t evaluations) {
  tn_dtype dtype = c == DTYPE ? TN_F32 : TN_F64;
  size_t n = c == MORE_POINTS ? 5 : 3, width = c == WIDTH ? 4 : 2;
  double s_number = c == NUMBER_OF_SCALAR ? 3 : 2, k_number = c == CONSTANT ? 7 : 5;
  double data[4] = {1, c == ARRAY ? 3 : 2, 3, 4}, fill = c == FILL ? 9 : 8;
  int p = c == EXPONENT ? 3 : 2;
  if (c == UNUSED_AXIS)
    tn_axis_new(graph, "unused");
  tn_axis axis = tn_axis_new(graph, c == AXIS_NAME ? "samples" : "points");
  tn_axis second = c == TWO_AXES || c == COUNT_OF_OTHER ? tn_axis_new(graph, "others") : axis;
  tn_at(graph, "step.toml", c == PLACE ? 8 : 7, 1, "y");
  tn_value x = bound(graph, "x", dtype, false, axis, n, width, 1);
  tn_value z = bound(graph, c == NAME ? "Z" : "z", dtype, false, second, n, width, 2);
  tn_value w = bound(graph, "w", dtype, c != KIND, 0, 1, width, 1);
  tn_value s = tn_scalar(graph, "s", dtype, s_number);
  if (c == SET_SCALAR)
    good(tn_set(s, s_number = -1));
  if (c == UNUSED_NODES)
    tn_tanh(tn_mul(x, s));
  tn_value each = tn_mul(x, tn_expand(w, 0, axis, 0));
  tn_value diff = c == ORDER_OF_INPUTS ? tn_sub(tn_expand(w, 0, axis, 0), each)
                                       : tn_sub(each, tn_expand(w, 0, axis, 0));
  if (c == OPERATION)
    diff = tn_neg(diff);
  tn_shape shape = tn_shape_batch(axis, width);
  tn_value array = tn_const_array(graph, dtype, tn_shape_fixed(1, &width), data);
  tn_value sum = tn_add(tn_add(diff, tn_const(graph, dtype, k_number)),
                        tn_add(tn_expand(array, 0, axis, 0), tn_fill(graph, dtype, shape, fill)));
  tn_value y = tn_sum_all(tn_powi(tn_mul(sum, s), p));
  tn_value other = tn_sum_all(z),
           count = tn_count(graph, dtype, c == COUNT_OF_OTHER ? second : axis);
  tn_value outputs[3] = {tn_add(y, count), tn_mul(other, count), each};
  if (c == MORE_NODES)
    outputs[1] = tn_add(outputs[1], tn_const(graph, dtype, 1000));
  if (c == ORDER_OF_OUTPUTS) {
    tn_value first = outputs[0];
    outputs[0] = outputs[1];
    outputs[1] = first;
  }
  double want = 0, want_other = 0, got, got_other;
  for (size_t i = 0; i < n; ++i)
    for (size_t q = 0; q < width; ++q) {
      double wq = 1 + (double)q, xw = (1 + (double)(i * width + q)) * wq;
      double d = c == ORDER_OF_INPUTS ? wq - xw : c == OPERATION ? wq - xw : xw - wq;
      want += pow((d + k_number + data[q] + fill) * s_number, p);
      want_other += 2 + (double)(i * width + q);
    }
  want += (double)n;
  want_other = want_other * (double)n + (c == MORE_NODES ? 1000 : 0);
  for (size_t k = 0; k < evaluations; ++k) {
    good(tn_eval(c == OUTPUTS ? 3 : 2, outputs));
    good(tn_read(outputs[c == ORDER_OF_OUTPUTS], 1, &got));
    good(tn_read(outputs[c != ORDER_OF_OUTPUTS], 1, &got_other));
    if (got != want || got_other != want_other)
      fail_msg("%s: got %.17g and %.17g, expected %.17g and %.17g", change_names[c], got, got_other,
               want, want_other);
  }
}

static void only_structure_makes_a_new_program(void **state) {
  (void)state;
  for (change c = NONE; c < N_CHANGES; ++c) {
    tn_graph *graph = NULL;
    good(tn_graph_new(&graph));
    evaluate(graph, NONE, 1);
    tn_graph_reset(graph);
    evaluate(graph, c, 2);
    tn_graph_reset(graph);
    evaluate(graph, NONE, 1);
    tn_cache_stats stats = tn_graph_cache_stats(graph);
    uint64_t misses = c < N_EQUAL ? 1 : 2;
    if (stats.misses != misses || stats.hits != 4 - misses || stats.programs != misses)
      fail_msg("%s: %lu misses, %lu hits, %zu programs, expected %lu misses", change_names[c],
               (unsigned long)stats.misses, (unsigned long)stats.hits, stats.programs,
               (unsigned long)misses);
    tn_graph_free(&graph);
  }
  assert_int_equal(tn_memory_now(), 0);
}

/* Any two variations, one after the other and back, in one graph: 64 programs are more than there are. */
static void variations_do_not_meet(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (change a = NONE; a < N_CHANGES; ++a)
    for (change b = NONE; b < N_CHANGES; ++b) {
      evaluate(graph, a, 1);
      tn_graph_reset(graph);
      evaluate(graph, b, 1);
      tn_graph_reset(graph);
    }
  tn_cache_stats stats = tn_graph_cache_stats(graph);
  assert_int_equal(stats.misses, 1 + N_CHANGES - N_EQUAL);
  assert_int_equal(stats.programs, stats.misses);
  tn_graph_free(&graph);
}

/* With all hashes forged to be equal, structure alone decides. */
static void hash_decides_nothing(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (int round = 0; round < 3; ++round)
    for (change c = NONE; c < N_CHANGES; ++c) {
      for (size_t i = 0; i < graph->n_nodes; ++i)
        assert_non_null(graph->nodes[i]);
      evaluate(graph, c, 1);
      tn_recorded step;
      tn_graph_reset(graph);
      evaluate(graph, (change)((c + 5) % N_CHANGES), 1);
      tn_value last = tn_value_at(graph, (uint32_t)tn_graph_nodes(graph) - 1, 0);
      good(tn_recorded_mark(graph, 1, &last, &step));
      for (size_t i = 0; i < graph->runtime->cache.n_entries; ++i)
        graph->runtime->cache.entry[i]->hash = tn_recorded_hash(&step);
      good(tn_eval(1, &last));
      tn_graph_reset(graph);
    }
  tn_graph_free(&graph);
}

/* ---- Results and bindings ---- */

/* One program, two pairs of leaves: the second evaluation leaves the first one's results alone. */
static void results_outlive_another_run_of_their_program(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 3, (double[]){1, 2, 3}), y = points(&b, "x", 3, (double[]){4, 5, 6});
  tn_value fx = tn_square(x), fy = tn_square(y);
  double got[3];
  good(tn_eval(1, &fx));
  good(tn_eval(1, &fy));
  assert_int_equal(tn_graph_cache_stats(b.graph).misses, 1);
  good(tn_read(fx, 3, got));
  same_bits(got, (double[]){1, 4, 9}, 3, "first", 3);
  good(tn_read(fy, 3, got));
  same_bits(got, (double[]){16, 25, 36}, 3, "second", 3);
  tn_graph_reset(b.graph);
  assert_int_equal(tn_read(fx, 3, got), TN_EHANDLE);
  bench_close(&b);
}

/* What an earlier step bound is not there for the next one. */
static void binding_of_an_earlier_step_is_not_used(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (int step = 0; step < 4; ++step) {
    tn_axis axis = tn_axis_new(graph, "points");
    tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
    tn_value w = tn_parameter(graph, "w", TN_F64, tn_shape_scalar()), y = tn_mul(w, x);
    size_t n = 2;
    tn_buffer *points = filled(TN_F64, 1, &n, (double[]){1, 2}),
              *weight = filled(TN_F64, 0, NULL, (double[]){3});
    if (step != 1)
      good(tn_bind(x, points));
    if (step != 2)
      good(tn_bind(w, weight));
    tn_buffer_release(&points);
    tn_buffer_release(&weight);
    tn_status status = tn_eval(1, &y);
    assert_int_equal(status, step == 1 || step == 2 ? TN_ESTATE : TN_OK);
    if (status != TN_OK)
      assert_non_null(strstr(tn_error_text(),
                             step == 1 ? "input `x` is not bound" : "parameter `w` is not bound"));
    tn_graph_reset(graph);
  }
  tn_graph_free(&graph);
}

static void rebinding_within_a_recording_is_seen(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){1, 2}), y = tn_neg(x);
  all_near(y, 2, (double[]){-1, -2}, 0);
  for (size_t n = 1; n < 6; ++n) { /* another extent, too */
    double data[5] = {5, 4, 3, 2, 1}, want[5] = {-5, -4, -3, -2, -1};
    tn_buffer *buffer = filled(TN_F64, 1, &n, data);
    good(tn_bind(x, buffer));
    tn_buffer_release(&buffer);
    all_near(y, n, want, 0);
  }
  bench_close(&b);
}

/* A program with only structural numbers on an axis takes its extent from an input that does not occur. */
static void extent_comes_from_this_step(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (size_t step = 0; step < 6; ++step) {
    tn_axis axis = tn_axis_new(graph, "points");
    if (step != 0) { /* without any input: another structure */
      tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
      size_t n = 2 + step;
      tn_buffer *buffer = filled(TN_F64, 1, &n, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
      if (step != 4)
        good(tn_bind(x, buffer));
      tn_buffer_release(&buffer);
    }
    tn_value sum = tn_sum_all(tn_fill(graph, TN_F64, tn_shape_points(axis), 1));
    tn_status status = tn_eval(1, &sum);
    double got = 0;
    if (step == 0 || step == 4) {
      assert_int_equal(status, TN_ESTATE);
      assert_non_null(strstr(tn_error_text(), "`points`"));
    } else {
      good(status);
      good(tn_read(sum, 1, &got));
      assert_true(got == 2 + (double)step);
    }
    tn_graph_reset(graph);
  }
  tn_graph_free(&graph);
}

static void failed_step_leaves_the_cache_whole(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (int step = 0; step < 6; ++step) {
    tn_axis axis = tn_axis_new(graph, "points");
    tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis)), y = tn_add(x, x);
    size_t n = 2;
    tn_buffer *buffer = filled(step % 2 ? TN_F32 : TN_F64, 1, &n, (double[]){1, step});
    good(tn_bind(x, buffer));
    tn_buffer_release(&buffer);
    assert_int_equal(tn_eval(1, &y), step % 2 ? TN_EDTYPE : TN_OK);
    double got[2];
    assert_int_equal(tn_read(y, 2, got), step % 2 ? TN_ESTATE : TN_OK);
    if (step % 2 == 0)
      assert_true(got[1] == 2 * step);
    tn_graph_reset(graph);
  }
  assert_int_equal(tn_graph_cache_stats(graph).misses, 1);
  tn_graph_free(&graph);
}

/* ---- Kept values ---- */

static void kept_value_is_materialised(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){1, 2}), h = tn_square(x), g = tn_neg(h),
           y = tn_sum_all(g);
  double got[2];
  good(tn_keep(h));
  good(tn_keep(h)); /* twice is once */
  assert_int_equal(tn_read(h, 2, got), TN_ESTATE);
  good(tn_eval(1, &y));
  good(tn_read(h, 2, got));
  same_bits(got, (double[]){1, 4}, 2, "kept", 2);
  assert_int_equal(tn_read(g, 2, got), TN_ESTATE);
  assert_non_null(strstr(tn_error_text(), "neg was not materialised"));
  tn_graph_reset(b.graph);
  assert_int_equal(tn_keep(h), TN_EHANDLE);
  b.axis = tn_axis_new(b.graph, "points");
  x = points(&b, "x", 2, (double[]){1, 2}), h = tn_square(x), y = tn_sum_all(tn_neg(h));
  good(tn_eval(1, &y));
  assert_int_equal(tn_read(h, 2, got), TN_ESTATE); /* forgotten with the recording */
  bench_close(&b);
}

/* ---- Bounds ---- */

static void record_number(tn_graph *graph, double k, size_t n) {
  tn_axis axis = tn_axis_new(graph, "points");
  tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
  tn_value y = tn_sum_all(tn_mul(tn_add(x, tn_const(graph, TN_F64, k)), x));
  double ones[256], got;
  for (size_t i = 0; i < n; ++i)
    ones[i] = 1;
  tn_buffer *buffer = filled(TN_F64, 1, &n, ones);
  good(tn_bind(x, buffer));
  tn_buffer_release(&buffer);
  good(tn_eval(1, &y));
  good(tn_read(y, 1, &got));
  assert_true(got == (double)n * (1 + k));
  tn_graph_reset(graph);
}

static void least_recently_used_program_leaves(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (int k = 0; k < TN_CACHE_PROGRAMS; ++k)
    record_number(graph, k, 3);
  tn_cache_stats stats = tn_graph_cache_stats(graph);
  assert_true(stats.programs == TN_CACHE_PROGRAMS && stats.evictions == 0);
  record_number(graph, 0, 3); /* used now: 1 is the oldest */
  record_number(graph, -1, 3);
  stats = tn_graph_cache_stats(graph);
  assert_true(stats.programs == TN_CACHE_PROGRAMS && stats.evictions == 1);
  record_number(graph, 0, 3);
  assert_int_equal(tn_graph_cache_stats(graph).misses, stats.misses);
  record_number(graph, 1, 3);
  assert_int_equal(tn_graph_cache_stats(graph).misses, stats.misses + 1);
  size_t held = tn_memory_now();
  for (int k = 0; k < 1000; ++k)
    record_number(graph, 100 + k, 3);
  assert_int_equal(tn_graph_cache_stats(graph).programs, TN_CACHE_PROGRAMS);
  assert_true(tn_memory_now() <=
              held + held / 4); /* programs of one size; texts of the sites vary */
  assert_int_equal(tn_graph_cache(graph, TN_CACHE_PROGRAMS + 1, 0), TN_ERANGE);
  tn_graph_free(&graph);
  assert_int_equal(tn_memory_now(), 0);
}

static void storage_is_bounded(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  const size_t n = 256, bound_bytes = n * 8; /* the input's buffer */
  record_number(graph, 0, n);
  const size_t each = tn_graph_cache_stats(graph).bytes, limit = 5 * each + each / 2;
  assert_true(each >= bound_bytes);
  good(tn_graph_cache(graph, TN_CACHE_PROGRAMS, limit));
  for (int k = 0; k < 40; ++k) {
    record_number(graph, k, n);
    tn_cache_stats stats = tn_graph_cache_stats(graph);
    assert_true(stats.bytes == each * (k < 5 ? (size_t)k + 1 : 5));
  }
  assert_int_equal(tn_graph_cache_stats(graph).programs, 40); /* programs stay, and are found */
  uint64_t misses = tn_graph_cache_stats(graph).misses;
  for (int k = 0; k < 40; ++k)
    record_number(graph, k, n);
  assert_int_equal(tn_graph_cache_stats(graph).misses, misses);
  good(tn_graph_cache(graph, TN_CACHE_PROGRAMS,
                      1)); /* the last one alone is kept, whatever its size */
  record_number(graph, 3, n);
  assert_int_equal(tn_graph_cache_stats(graph).bytes, each);
  record_number(graph, 4, n);
  assert_int_equal(tn_graph_cache_stats(graph).bytes, each);
  good(tn_graph_cache(graph, 0, 0));
  size_t held = tn_memory_now();
  assert_int_equal(tn_graph_cache_stats(graph).bytes, 0);
  for (int k = 0; k < 8; ++k) {
    record_number(graph, k, n);
    assert_true(tn_graph_cache_stats(graph).programs == 0 &&
                tn_graph_cache_stats(graph).bytes == 0);
  }
  assert_true(tn_memory_now() <= held);
  tn_graph_free(&graph);
}

static void thousands_of_steps_hold_what_one_held(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  size_t after_first = 0;
  for (int step = 0; step < 10000; ++step) {
    record_number(graph, 2, 5 + (size_t)step % 3);
    if (step == 8)
      after_first = tn_memory_now();
    if (step > 8 && step % 3 == 2)
      assert_int_equal(tn_memory_now(), after_first);
  }
  assert_int_equal(tn_graph_cache_stats(graph).misses, 1);
  tn_graph_free(&graph);
  assert_int_equal(tn_memory_now(), 0);
}

/* Every allocation of two steps fails once: an error, nothing lost, and the step can be had again. */
static void lack_of_memory_is_survived(void **state) {
  (void)state;
  bool failed = true;
  for (uint64_t at = 1; failed; ++at) {
    bench b;
    bench_open(&b, TN_F64);
    tn_value x = points(&b, "x", 3, (double[]){1, 2, 3}), h = tn_square(x), y = tn_sum_all(h);
    double got = 0;
    tn_fault_at(at, false);
    tn_status status = tn_keep(h);
    if (status == TN_OK)
      status = tn_eval(1, &y);
    if (status == TN_OK)
      status = tn_eval(1, &h);
    tn_fault_at(0, false);
    failed = status != TN_OK;
    if (failed)
      assert_int_equal(status, TN_ENOMEM);
    good(tn_eval(1, &y));
    good(tn_read(y, 1, &got));
    assert_true(got == 14);
    bench_close(&b);
    assert_int_equal(tn_memory_now(), 0);
    assert_true(at < 1000);
  }
}

static void pool_changes_no_bit(void **state) {
  (void)state;
  tn_pool *pool = NULL;
  double got[2];
  double *x0 = draw("x", 3000);
  good(tn_pool_new(3, &pool));
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 3000, x0), y = tn_sum_all(tn_exp(x));
  for (int with = 0; with < 2; ++with) {
    good(tn_graph_pool(b.graph, with ? pool : NULL));
    good(tn_eval(1, &y));
    good(tn_read(y, 1, &got[with]));
  }
  same_bits(got, got + 1, 1, "pool", 3000);
  assert_int_equal(tn_graph_cache_stats(b.graph).misses, 1);
  good(tn_graph_pool(b.graph, NULL));
  assert_int_equal(tn_graph_cache_stats(b.graph).bytes, 0); /* nothing refers to the pool */
  tn_pool_free(&pool);
  good(tn_eval(1, &y));
  bench_close(&b);
  free(x0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(only_structure_makes_a_new_program),
                                     cmocka_unit_test(variations_do_not_meet),
                                     cmocka_unit_test(hash_decides_nothing),
                                     cmocka_unit_test(results_outlive_another_run_of_their_program),
                                     cmocka_unit_test(binding_of_an_earlier_step_is_not_used),
                                     cmocka_unit_test(rebinding_within_a_recording_is_seen),
                                     cmocka_unit_test(extent_comes_from_this_step),
                                     cmocka_unit_test(failed_step_leaves_the_cache_whole),
                                     cmocka_unit_test(kept_value_is_materialised),
                                     cmocka_unit_test(least_recently_used_program_leaves),
                                     cmocka_unit_test(storage_is_bounded),
                                     cmocka_unit_test(thousands_of_steps_hold_what_one_held),
                                     cmocka_unit_test(lack_of_memory_is_survived),
                                     cmocka_unit_test(pool_changes_no_bit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
