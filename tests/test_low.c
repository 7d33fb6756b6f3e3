/* test_low.c: values of tf32, bf16 and f16 in executors.
 *
 * One law for all operations: on operands that are numbers of the low format, the result is that of the same
 * operation in f32, rounded once by tn_round. So every graph here has each value twice, in the low format and in f32
 * from the same leaves by a cast, which is exact; both are read and compared on the host. Moves are exact by the
 * same law. Both executors are asked; test_streamed.c compares them with each other on random graphs.
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 160, POINTS = 150, WIDTH = 5 };
static const tn_dtype low_dtypes[] = {TN_TF32, TN_BF16, TN_F16};
enum { LOW = 3 };
typedef tn_status (*maker)(const tn_program *program, tn_pool *pool, tn_exec **out);
static const maker makers[] = {tn_exec_new, tn_exec_reference};

typedef struct twins { /* values in a low format, and in f32 on the same leaves */
  tn_graph *graph;
  tn_axis axis;
  tn_dtype dtype;
  size_t n, n_leaves;
  tn_value low[MOST], wide[MOST], leaf[8];
} twins;

static void twins_open(twins *t, tn_dtype dtype) {
  memset(t, 0, sizeof *t);
  t->dtype = dtype;
  good(tn_graph_new(&t->graph));
  t->axis = tn_axis_new(t->graph, "points");
}

/* A leaf and the same numbers in f32. */
static tn_value leaf(twins *t, bool parameter, tn_shape shape, tn_value *wide) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  const char *name = names[t->n_leaves];
  tn_value v = parameter ? tn_parameter(t->graph, name, t->dtype, shape)
                         : tn_input(t->graph, name, t->dtype, shape);
  *wide = tn_cast(v, TN_F32);
  return t->leaf[t->n_leaves++] = v;
}

static void pair(twins *t, tn_value low, tn_value wide) {
  assert_true(t->n < MOST);
  if (!tn_ok(low) || !tn_ok(wide))
    fail_msg("a builder refused: %s", tn_error_text());
  t->low[t->n] = low;
  t->wide[t->n++] = wide;
}

static size_t count_of(const tn_shape *shape, size_t points) {
  return tn_shape_width(shape) * (tn_shape_batched(shape) ? points : 1);
}

static void bind_numbers(const twins *t, tn_exec *exec, size_t points) {
  for (size_t i = 0; i < t->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(t->leaf[i]);
    size_t extent[TN_MAX_RANK];
    for (uint32_t k = 0; k < shape.rank; ++k)
      extent[k] = shape.axis[k] ? points : shape.extent[k];
    double *x = draw(tn_node_of(t->leaf[i])->name, count_of(&shape, points));
    give(exec, t->leaf[i], shape.rank, extent, x);
    free(x);
  }
}

static void compare_twins(const twins *t, maker make, size_t points) {
  tn_value all[2 * MOST];
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  memcpy(all, t->low, t->n * sizeof *all);
  memcpy(all + t->n, t->wide, t->n * sizeof *all);
  good(tn_compile(t->graph, 2 * t->n, all, &program));
  good(make(program, NULL, &exec));
  bind_numbers(t, exec, points);
  good(tn_exec_run(exec));
  for (size_t i = 0; i < t->n; ++i) {
    tn_shape shape = tn_shape_of(t->low[i]);
    size_t n = count_of(&shape, points);
    double *got = malloc((n + 1) * sizeof *got), *want = malloc((n + 1) * sizeof *want);
    good(tn_exec_read(exec, i, n, got));
    good(tn_exec_read(exec, t->n + i, n, want));
    for (size_t e = 0; e < n; ++e) {
      double right = tn_round(t->dtype, want[e]);
      if (memcmp(&got[e], &right, sizeof right) != 0 && !(isnan(got[e]) && isnan(right)))
        fail_msg("%s of %s, %zu points, element %zu: %a, expected %a, which is %a in f32",
                 tn_node_of(t->low[i])->op->name, tn_dtype_name(t->dtype), points, e, got[e], right,
                 want[e]);
    }
    free(got), free(want);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
}

static void on_each(void (*build)(twins *t)) {
  for (size_t k = 0; k < LOW; ++k) {
    twins t;
    twins_open(&t, low_dtypes[k]);
    build(&t);
    for (size_t m = 0; m < 2; ++m) {
      compare_twins(&t, makers[m], 1);
      compare_twins(&t, makers[m], POINTS);
    }
    tn_graph_free(&t.graph);
  }
}

/* ---- Operations ---- */

static void build_rows(twins *t) {
  tn_value wa, wb, wc, a = leaf(t, false, tn_shape_batch(t->axis, 2), &wa),
                       b = leaf(t, false, tn_shape_batch(t->axis, 2), &wb),
                       c = leaf(t, true, tn_shape_fixed(1, (size_t[]){7}), &wc);
  for (int i = 0; i < TN_OPS; ++i) {
    const tn_op *row = tn_op_row((tn_op_id)i);
    double e = row->id == TN_OP_powi ? 3 : row->id == TN_OP_powr ? 1.5 : 0;
    if (row->class_ == TN_COMPARISON || row->arity < 1)
      continue;
    if (row->arity == 1) {
      pair(t, tn_unary(row->id, a, e), tn_unary(row->id, wa, e));
      pair(t, tn_unary(row->id, c, e), tn_unary(row->id, wc, e));
    } else {
      pair(t, tn_binary(row->id, a, b), tn_binary(row->id, wa, wb));
      pair(t, tn_binary(row->id, b, tn_sum(c, 0)),
           tn_binary(row->id, wb, tn_cast(tn_sum(c, 0), TN_F32)));
    }
  }
  tn_value mask = tn_gt(a, b); /* decided by the numbers that are stored */
  pair(t, tn_where(mask, a, b), tn_where(tn_gt(wa, wb), wa, wb));
  pair(t, tn_where(mask, a, b), tn_where(mask, wa, wb));
}
static void rows_are_those_of_f32_rounded_once(void **state) { (void)state, on_each(build_rows); }

static void build_moves(twins *t) {
  tn_shape shape = {.rank = 3, .axis = {t->axis}, .extent = {0, 3, 4}};
  tn_value wx, ww, x = leaf(t, false, shape, &wx),
                   w = leaf(t, true, tn_shape_fixed(2, (size_t[]){3, 4}), &ww);
  const tn_value from[2] = {x, w}, wide[2] = {wx, ww};
  for (size_t k = 0; k < 2; ++k) {
    size_t axis = 1 - k;
    pair(t, tn_slice(from[k], axis, 1, 2), tn_slice(wide[k], axis, 1, 2));
    pair(t, tn_pad(from[k], axis, 1, 2), tn_pad(wide[k], axis, 1, 2));
    pair(t, tn_transpose(from[k], axis, axis + 1), tn_transpose(wide[k], axis, axis + 1));
    pair(t, tn_concat(2, (tn_value[]){from[k], from[k]}, axis),
         tn_concat(2, (tn_value[]){wide[k], wide[k]}, axis));
    pair(t, tn_stack(2, (tn_value[]){from[k], from[k]}),
         tn_stack(2, (tn_value[]){wide[k], wide[k]}));
    pair(t, tn_expand(from[k], axis, 0, 2), tn_expand(wide[k], axis, 0, 2));
    pair(t, tn_softmax(from[k]), tn_softmax(wide[k]));
    pair(t, tn_layer_norm(from[k], 0.125), tn_layer_norm(wide[k], 0.125));
    pair(t, tn_rstd(from[k], 0.125), tn_rstd(wide[k], 0.125));
  }
  pair(t, tn_expand(w, 0, t->axis, 0), tn_expand(ww, 0, t->axis, 0));
}
static void moves_are_exact_and_rows_round_once(void **state) { (void)state, on_each(build_moves); }

/* Sums and products in f32 to their end, also where slots meet and where pairs without points come last. */
static void build_sums(twins *t) {
  size_t square[2] = {WIDTH, WIDTH};
  tn_value wx, wz, ww, wb, none = {0}, x = leaf(t, false, tn_shape_batch(t->axis, WIDTH), &wx),
                           z = leaf(t, false, tn_shape_batch(t->axis, WIDTH), &wz),
                           w = leaf(t, true, tn_shape_fixed(2, square), &ww),
                           b = leaf(t, true, tn_shape_fixed(1, square), &wb);
  pair(t, tn_sum(x, 0), tn_sum(wx, 0));
  pair(t, tn_sum(x, 1), tn_sum(wx, 1));
  pair(t, tn_sum(w, 0), tn_sum(ww, 0));
  pair(t, tn_linear(x, w, b, false), tn_linear(wx, ww, wb, false));
  pair(t, tn_linear(x, w, none, true), tn_linear(wx, ww, none, true));
  pair(t, tn_matmul(w, w), tn_matmul(ww, ww));
  pair(t, tn_linear(b, w, b, false), tn_linear(wb, ww, wb, false));
  pair(t, tn_jet_outer(1, &z, &x), tn_jet_outer(1, &wz, &wx));
  pair(t, tn_jet_outer(2, (tn_value[]){z, b}, (tn_value[]){x, b}),
       tn_jet_outer(2, (tn_value[]){wz, wb}, (tn_value[]){wx, wb}));
  pair(t, tn_jet_outer(1, &b, &b), tn_jet_outer(1, &wb, &wb));
}
static void sums_round_at_their_end(void **state) { (void)state, on_each(build_sums); }

/* Second derivatives along one variable: (fg)'' = f''g + 2 f'g' + f g''. */
static void build_jets(twins *t) {
  static const tn_jet_term terms[] = {{0, 0, 0, -1, 1, 1}, {1, 0, 1, -1, 1, 1},
                                      {1, 1, 0, -1, 1, 1}, {2, 0, 2, -1, 1, 1},
                                      {2, 1, 1, -1, 2, 1}, {2, 2, 0, -1, 1, 1}};
  size_t square[2] = {WIDTH, WIDTH};
  tn_value ww, w = leaf(t, true, tn_shape_fixed(2, square), &ww);
  tn_jet z = {.table = tn_jet_table_new(t->graph, 3, 2, 0, 6, terms)}, wide = z, y, wy;
  for (size_t c = 0; c < 3; ++c) {
    tn_shape shape = c == 1 ? tn_shape_fixed(1, square) : tn_shape_batch(t->axis, WIDTH);
    z.channel[c] = leaf(t, c == 1, shape, &wide.channel[c]); /* one channel without points */
  }
  for (int op = 0; op < 4; ++op) {
    const bool wanted[3] = {true, true, true};
    tn_value none = {0};
    memset(&y, 0, sizeof y), memset(&wy, 0, sizeof wy);
    if (op == 0) {
      good(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &y));
      good(tn_jet_unary(TN_OP_tanh, 0, 0, &wide, &wy));
    } else if (op == 1) {
      good(tn_jet_mul(&z, &z, &y));
      good(tn_jet_mul(&wide, &wide, &wy));
    } else if (op == 2) {
      good(tn_jet_mulT(&z, &z, wanted, &y));
      good(tn_jet_mulT(&wide, &wide, wanted, &wy));
    } else {
      good(tn_jet_lin(&z, w, none, false, &y));
      good(tn_jet_lin(&wide, ww, none, false, &wy));
    }
    for (size_t c = 0; c < 3; ++c)
      pair(t, y.channel[c], wy.channel[c]);
  }
}
static void jets_round_each_channel_once(void **state) { (void)state, on_each(build_jets); }

/* ---- Casts and leaves ---- */

static void read_one(tn_graph *graph, maker make, tn_value v, tn_value x, const double *numbers,
                     size_t n, double *out) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(graph, 1, &v, &program));
  good(make(program, NULL, &exec));
  tn_shape shape = tn_shape_of(x);
  give(exec, x, shape.rank, &n, numbers);
  good(tn_exec_run(exec));
  good(tn_exec_read(exec, 0, n, out));
  tn_exec_free(&exec);
  tn_program_free(&program);
}

/* Just above a tie of the format, nearer than f32 can tell. */
static void casts_from_f64_round_once(void **state) {
  (void)state;
  enum { N = 20 };
  for (size_t k = 0; k < LOW; ++k)
    for (int fixed = 0; fixed < 2; ++fixed)
      for (size_t m = 0; m < 2; ++m) {
        double u = tn_dtype_roundoff(low_dtypes[k]), x[N], got[N];
        for (size_t i = 0; i < N; ++i)
          x[i] = ldexp(1 + u + 0x1p-50, (int)i - 10);
        tn_graph *graph = NULL;
        good(tn_graph_new(&graph));
        tn_axis axis = tn_axis_new(graph, "points");
        tn_value v = tn_input(graph, "x", TN_F64,
                              fixed ? tn_shape_fixed(1, (size_t[]){N}) : tn_shape_points(axis));
        tn_value low = tn_cast(v, low_dtypes[k]),
                 twice = tn_cast(tn_cast(v, TN_F32), low_dtypes[k]);
        read_one(graph, makers[m], tn_cast(low, TN_F64), v, x, N, got);
        for (size_t i = 0; i < N; ++i)
          assert_true(got[i] == ldexp(1 + 2 * u, (int)i - 10));
        read_one(graph, makers[m], twice, v, x, N, got);
        for (size_t i = 0; i < N; ++i)
          assert_true(got[i] == ldexp(1, (int)i - 10)); /* the trap exists */
        tn_graph_free(&graph);
      }
}

static void casts_between_low_formats_round_where_they_must(void **state) {
  (void)state;
  enum { N = 90 };
  double x[N], got[N];
  for (size_t i = 0; i < N; ++i)
    x[i] = ldexp(1.3 + 0.003 * (double)i, (int)i - 45) * (i % 2 ? -1 : 1);
  for (int a = TN_F32; a <= TN_F16; ++a)
    for (int b = TN_F32; b <= TN_F16; ++b)
      for (size_t m = 0; m < 2; ++m) {
        tn_graph *graph = NULL;
        good(tn_graph_new(&graph));
        tn_value v = tn_input(graph, "x", TN_F32, tn_shape_points(tn_axis_new(graph, "points")));
        tn_value y = tn_cast(tn_cast(v, (tn_dtype)a), (tn_dtype)b);
        assert_int_equal(tn_dtype_of(y), b);
        read_one(graph, makers[m], y, v, x, N, got);
        for (size_t i = 0; i < N; ++i) {
          double right = tn_round((tn_dtype)b, tn_round((tn_dtype)a, (double)(float)x[i]));
          assert_true(got[i] == right);
        }
        tn_graph_free(&graph);
      }
}

/* Every number of a 16-bit format, bound and read as an output, keeps its bits; other leaves hold rounded numbers. */
static void leaves_are_stored_in_their_format(void **state) {
  (void)state;
  enum { ALL = 65536 };
  for (int d = TN_BF16; d <= TN_F16; ++d)
    for (size_t m = 0; m < 2; ++m) {
      tn_dtype dtype = (tn_dtype)d;
      tn_graph *graph = NULL;
      tn_program *program = NULL;
      tn_exec *exec = NULL;
      tn_buffer *bound = NULL, *output = NULL;
      good(tn_graph_new(&graph));
      tn_axis axis = tn_axis_new(graph, "points");
      tn_value x = tn_input(graph, "x", dtype, tn_shape_points(axis)),
               w = tn_parameter(graph, "w", dtype, tn_shape_fixed(1, (size_t[]){ALL}));
      tn_value values[] = {
          x,
          w,
          tn_scalar(graph, "s", dtype, 0.1),
          tn_const(graph, dtype, 0.2),
          tn_const_array(graph, dtype, tn_shape_fixed(1, (size_t[]){1}), (double[]){0.3}),
          tn_count(graph, dtype, axis),
          tn_sin(tn_fill(graph, dtype, tn_shape_points(axis), 0.4))};
      enum { N = sizeof values / sizeof *values };
      good(tn_compile(graph, N, values, &program));
      good(makers[m](program, NULL, &exec));
      good(tn_buffer_new(dtype, 1, (size_t[]){ALL}, &bound));
      uint16_t *bits = tn_map(bound, TN_WRITE);
      for (size_t i = 0; i < ALL; ++i)
        bits[i] = (uint16_t)i;
      good(tn_exec_bind(exec, x, bound));
      good(tn_exec_bind(exec, w, bound));
      good(tn_exec_run(exec));
      for (size_t i = 0; i < 2; ++i) {
        good(tn_exec_output(exec, i, &output));
        assert_int_equal(tn_buffer_dtype(output), dtype);
        const uint16_t *got = tn_map(output, TN_READ);
        for (size_t k = 0; k < ALL; ++k)
          assert_true(got[k] == bits[k] ||
                      (isnan(d == TN_BF16 ? tn_of_bf16(got[k]) : tn_of_f16(got[k])) &&
                       isnan(d == TN_BF16 ? tn_of_bf16(bits[k]) : tn_of_f16(bits[k]))));
      }
      const double right[] = {0.1, 0.2, 0.3, ALL};
      for (size_t i = 0; i < 4; ++i) {
        double got = 0;
        good(tn_exec_read(exec, 2 + i, 1, &got));
        assert_true(got == tn_round(dtype, right[i]));
      }
      tn_buffer_release(&bound);
      tn_exec_free(&exec);
      tn_program_free(&program);
      tn_graph_free(&graph);
    }
}

/* ---- Inside ---- */

/* A product of rounded numbers in f32: casts among f32 and low formats make no loop of their own, and the rounding
 * is one instruction. */
static void roundings_join_the_strip_programs(void **state) {
  (void)state;
  size_t instructions[2] = {0, 0}, loops[3] = {0, 0, 0};
  for (int k = 0; k < 3; ++k) {
    tn_graph *graph = NULL;
    tn_program *program = NULL;
    tn_exec *exec = NULL;
    tn_profile_row *rows = NULL;
    size_t n = 0, square[2] = {16, 16}, extent[2] = {POINTS, 16};
    double *numbers = draw("x", 16 * POINTS);
    good(tn_graph_new(&graph));
    tn_axis axis = tn_axis_new(graph, "points");
    tn_value x = tn_input(graph, "x", TN_F32, tn_shape_batch(axis, 16)), none = {0},
             w = tn_const_array(graph, TN_F32, tn_shape_fixed(2, square), numbers), h = tn_sin(x);
    if (k)
      h = tn_cast(tn_cast(h, k == 1 ? TN_F16 : TN_F64), TN_F32);
    tn_value y = tn_mean(tn_square(tn_linear(h, w, none, false)));
    good(tn_compile(graph, 1, &y, &program));
    good(tn_exec_new(program, NULL, &exec));
    give(exec, x, 2, extent, numbers);
    if (tn_exec_profile(exec, 1, &n, &rows) == TN_OK)
      for (size_t i = 0; i < n; ++i) {
        if (rows[i].loop >= loops[k])
          loops[k] = rows[i].loop + 1;
        if (k < 2)
          instructions[k] += rows[i].instructions;
      }
    free(numbers);
    tn_free(&rows);
    tn_exec_free(&exec);
    tn_program_free(&program);
    tn_graph_free(&graph);
  }
  if (!loops[0])
    skip(); /* TN_EXECUTOR names one without loops */
  assert_int_equal(loops[0], 1);
  assert_int_equal(loops[1], 1);
  assert_true(loops[2] > 1);
  assert_int_equal(instructions[1], instructions[0] + 1);
}

/* 300 * 300 is beyond f16. */
static void overflow_is_named(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_culprit culprit;
  good(tn_graph_new(&graph));
  tn_value x = tn_input(graph, "x", TN_F16, tn_shape_points(tn_axis_new(graph, "points"))),
           y = tn_neg(tn_mul(x, x));
  const double numbers[3] = {1, 255, 300};
  good(tn_compile(graph, 1, &y, &program));
  good(tn_exec_new(program, NULL, &exec));
  give(exec, x, 1, (size_t[]){3}, numbers);
  good(tn_exec_run(exec));
  good(tn_exec_explain(exec, 0, &culprit));
  assert_true(culprit.found && culprit.point == 2 && culprit.input[0] == 300);
  assert_string_equal(tn_program_node(program, culprit.node)->op->name, "mul");
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_buffer *buffer = filled(TN_F16, 1, (size_t[]){3}, numbers);
  good(tn_graph_debug(graph, true));
  good(tn_bind(x, buffer));
  assert_int_equal(tn_eval(1, &y), TN_ENONFINITE);
  assert_non_null(strstr(tn_error_text(), "mul (node 1) is inf at point 2 from 300"));
  good(tn_graph_debug(graph, false));
  good(tn_eval(1, &y));
  double got[3];
  good(tn_read(y, 3, got));
  assert_true(got[1] == -65024 && isinf(got[2]));
  tn_buffer_release(&buffer);
  tn_graph_free(&graph);
}

/* Every value of a run, by node and port. */
static void kept_values_are_read(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  size_t count = 0;
  double got[6], x[6] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  good(tn_graph_new(&graph));
  tn_value v = tn_input(graph, "x", TN_F32, tn_shape_batch(tn_axis_new(graph, "points"), 2)),
           low = tn_cast(v, TN_BF16), mask = tn_gt(v, tn_const(graph, TN_F32, 0.35)),
           out = tn_sum_all(low);
  good(tn_compile(graph, 2, (tn_value[]){out, mask}, &program));
  good(tn_exec_keeping_all(program, NULL, &exec));
  uint32_t node = 0;
  assert_true(tn_program_leaf(program, v, &node));
  assert_int_equal(tn_exec_value_count(exec, node, 0, &count), TN_ESTATE); /* not bound */
  give(exec, v, 2, (size_t[]){3, 2}, x);
  good(tn_exec_value_count(exec, node, 0, &count));
  assert_int_equal(count, 6);
  assert_int_equal(tn_exec_value(exec, node, 0, 6, got), TN_ESTATE); /* not run */
  good(tn_exec_run(exec));
  for (uint32_t i = 0; i < tn_program_nodes(program); ++i) {
    const tn_node *here = tn_program_node(program, i);
    good(tn_exec_value_count(exec, i, 0, &count));
    if (count != 6)
      continue;
    good(tn_exec_value(exec, i, 0, 6, got));
    for (size_t e = 0; e < 6; ++e) {
      double stored = (double)(float)x[e];
      assert_true(got[e] ==
                  (here->dtype == TN_BOOL ? stored > 0.36 : tn_round(here->dtype, stored)));
    }
  }
  assert_int_equal(tn_exec_value(exec, node, 0, 5, got), TN_ESHAPE);
  assert_int_equal(tn_exec_value(exec, node, 1, 6, got), TN_ERANGE);
  tn_exec_free(&exec);
  good(tn_exec_reference(program, NULL, &exec));
  assert_int_equal(tn_exec_value(exec, node, 0, 6, got), TN_EUNSUPPORTED);
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_graph_free(&graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_those_of_f32_rounded_once),
      cmocka_unit_test(moves_are_exact_and_rows_round_once),
      cmocka_unit_test(sums_round_at_their_end),
      cmocka_unit_test(jets_round_each_channel_once),
      cmocka_unit_test(casts_from_f64_round_once),
      cmocka_unit_test(casts_between_low_formats_round_where_they_must),
      cmocka_unit_test(leaves_are_stored_in_their_format),
      cmocka_unit_test(roundings_join_the_strip_programs),
      cmocka_unit_test(overflow_is_named),
      cmocka_unit_test(kept_values_are_read)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
