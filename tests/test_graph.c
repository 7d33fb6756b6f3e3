/* test_graph.c: handles, equal nodes, places, errors that stick, and what every builder refuses.
 *
 * A refusal is checked by its status, by the words that its text must contain, and by its effect: the error
 * value absorbs, the graph keeps the first text, and nothing can be compiled until it is cleared.
 */
#include "tensor/graph.h"
#include "tests/support_refusal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- Handles ---- */

static void handle_knows_its_node(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3), y = tn_tanh(x);
  assert_true(tn_ok(x) && tn_ok(y));
  assert_true(tn_same(y, tn_value_at(b.graph, y.node, 0)));
  assert_false(tn_ok(tn_value_at(b.graph, y.node, 1)));
  assert_false(tn_ok(tn_value_at(b.graph, (uint32_t)tn_graph_nodes(b.graph), 0)));
  assert_null(tn_node_of((tn_value){0}));
  const tn_node *node = tn_node_of(y);
  assert_string_equal(node->op->name, "tanh");
  assert_int_equal(node->n_inputs, 1);
  assert_int_equal(node->inputs[0].node, x.node);
  assert_ptr_equal(node, tn_node_at(b.graph, y.node));
  tn_shape shape = tn_shape_of(y), expected = tn_shape_batch(b.axis, 3),
           error = tn_shape_of((tn_value){0});
  assert_true(tn_shape_equal(&shape, &expected));
  assert_int_equal(error.rank, 0);
  assert_int_equal(tn_shape_width(&shape), 3);
  assert_string_equal(tn_node_of(x)->name, "x");
  bench_close(&b);
}

static void foreign_value_is_refused(void **state) {
  (void)state;
  bench b, other;
  bench_open(&b, TN_F64);
  bench_open(&other, TN_F64);
  tn_value x = batch(&b, "x", 2), z = batch(&other, "z", 2), out;
  REFUSED(tn_add(x, z), TN_EHANDLE, "another graph", "input 2");
  REFUSED(tn_where(tn_gt(x, x), x, z), TN_EHANDLE, "another graph", "input 3");
  REFUSED(tn_concat(2, (tn_value[]){x, z}, 1), TN_EHANDLE, "another graph", "");
  tn_program *program;
  assert_int_equal(tn_compile(b.graph, 1, &z, &program), TN_EHANDLE);
  assert_null(program);
  tn_graph_clear_error(b.graph);
  assert_int_equal(tn_graph_error(other.graph), TN_OK);
  assert_int_equal(ag_grad(x, 1, &z, &out), TN_EHANDLE);
  assert_int_equal(ag_vjp(1, &x, &z, 1, &x, &out), TN_EHANDLE);
  assert_int_equal(ag_jvp(1, &x, &z, 1, &x, &out), TN_EHANDLE);
  assert_int_equal(ag_substitute(b.graph, 1, &x, &x, 1, &z, &out), TN_EHANDLE);
  bench_close(&b);
  bench_close(&other);
}

static void stale_value_is_refused(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 2), y = tn_tanh(x);
  uint32_t before = x.generation;
  tn_graph_reset(b.graph);
  assert_int_equal(tn_graph_nodes(b.graph), 0);
  b.axis = tn_axis_new(b.graph, "points");
  assert_int_equal(b.axis, 1); /* axes are forgotten, too */
  tn_value fresh = batch(&b, "x", 2);
  assert_true(fresh.generation != before);
  assert_false(tn_ok(x));
  assert_true(tn_ok(fresh));
  assert_false(tn_same(x, fresh));
  REFUSED(tn_tanh(y), TN_EHANDLE, "stale", "reset");
  REFUSED(tn_add(fresh, x), TN_EHANDLE, "stale", "input 2");
  double number;
  size_t one = 1;
  tn_buffer *buffer = NULL;
  assert_int_equal(tn_buffer_new(TN_F64, 1, &one, &buffer), TN_OK);
  assert_int_equal(tn_bind(x, buffer), TN_EHANDLE);
  assert_int_equal(tn_set(x, 1), TN_EHANDLE);
  assert_int_equal(tn_read(x, 1, &number), TN_EHANDLE);
  assert_int_equal(tn_eval(1, &x), TN_EHANDLE);
  tn_graph_clear_error(b.graph);
  tn_buffer_release(&buffer);
  bench_close(&b);
}

/* A new graph often lies where a freed one lay; values of the old one are stale all the same. */
static void value_of_a_freed_graph_is_stale(void **state) {
  (void)state;
  for (int i = 0; i < 8; ++i) {
    bench b;
    bench_open(&b, TN_F64);
    tn_value old = batch(&b, "x", 2);
    bench_close(&b);
    bench_open(&b, TN_F64);
    tn_value fresh = batch(&b, "x", 2);
    old.graph = b.graph; /* as if at the same address */
    assert_false(tn_ok(old));
    assert_true(tn_ok(fresh));
    bench_close(&b);
  }
}

static void graph_starts_again_after_reset(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  for (int round = 0; round < 3; ++round) {
    tn_value x = points(&b, "x", 2, (double[]){round, 2}), y = x;
    for (int i = 0; i < 2000; ++i)
      y = tn_add(y, k(&b, i)); /* several blocks and table sizes */
    all_near(y, 2, (double[]){round + 1999000, 2 + 1999000}, 0);
    assert_true(tn_same(tn_add(x, k(&b, 0)), tn_add(x, k(&b, 0))));
    size_t held = tn_memory_now();
    tn_graph_reset(b.graph);
    assert_true(tn_memory_now() < held);
    b.axis = tn_axis_new(b.graph, "points");
  }
  bench_close(&b);
}

/* ---- Equal nodes ---- */

static void equal_nodes_are_one(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3), y = batch(&b, "x", 3);
  assert_false(tn_same(x, y)); /* leaves are always new, even of one name */
  assert_false(tn_same(tn_scalar(b.graph, "s", TN_F64, 1), tn_scalar(b.graph, "s", TN_F64, 1)));
  assert_true(tn_same(tn_tanh(x), tn_tanh(x)));
  assert_false(tn_same(tn_tanh(x), tn_tanh(y)));
  assert_true(tn_same(k(&b, 2), k(&b, 2)));
  assert_false(tn_same(k(&b, 0.0), k(&b, -0.0)));
  assert_true(tn_same(k(&b, NAN), k(&b, NAN)));
  assert_false(tn_same(tn_const(b.graph, TN_F64, 2), tn_const(b.graph, TN_F32, 2)));
  assert_true(tn_same(tn_powi(x, 3), tn_powi(x, 3)));
  assert_false(tn_same(tn_powi(x, 3), tn_powi(x, 4)));
  assert_false(tn_same(tn_slice(x, 1, 0, 2), tn_slice(x, 1, 1, 2)));
  assert_false(tn_same(tn_sub(x, y), tn_sub(y, x)));
  const double one[3] = {1, 2, 3}, two[3] = {1, 2, 4};
  size_t three = 3;
  tn_shape shape = tn_shape_fixed(1, &three);
  assert_true(tn_same(tn_const_array(b.graph, TN_F64, shape, one),
                      tn_const_array(b.graph, TN_F64, shape, one)));
  assert_false(tn_same(tn_const_array(b.graph, TN_F64, shape, one),
                       tn_const_array(b.graph, TN_F64, shape, two)));
  bench_close(&b);
}

/* What lies beyond a shape's rank, and its padding, is no part of it. */
static void shape_garbage_does_not_matter(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value made[2][4];
  for (int round = 0; round < 2; ++round) {
    tn_shape dirty;
    memset(&dirty, round ? 0xa5 : 0x5a, sizeof dirty);
    dirty.rank = 1;
    dirty.axis[0] = 0;
    dirty.extent[0] = 2;
    made[round][0] = tn_fill(b.graph, TN_F64, dirty, 3);
    made[round][1] = tn_const_array(b.graph, TN_F64, dirty, (double[]){1, 2});
    made[round][2] =
        tn_reshape(tn_fill(b.graph, TN_F64, tn_shape_fixed(2, (size_t[]){1, 2}), 3), dirty);
    made[round][3] = tn_broadcast(k(&b, 5), dirty);
    tn_value leaf = tn_parameter(b.graph, "p", TN_F64, dirty), pair[2] = {leaf, made[round][0]};
    tn_shape stacked = tn_shape_of(tn_stack(2, pair)),
             expected = tn_shape_fixed(2, (size_t[]){2, 2});
    assert_true(tn_shape_equal(&stacked, &expected));
    dirty.axis[0] = b.axis; /* extent of a point axis: ignored */
    assert_true(tn_same(tn_fill(b.graph, TN_F64, dirty, 1),
                        tn_fill(b.graph, TN_F64, tn_shape_points(b.axis), 1)));
  }
  for (int i = 0; i < 4; ++i) {
    assert_true(tn_ok(made[0][i]));
    assert_true(tn_same(made[0][i], made[1][i]));
  }
  assert_int_equal(tn_graph_error(b.graph), TN_OK);
  bench_close(&b);
}

static void trivial_operations_make_no_node(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3);
  assert_true(tn_same(tn_powi(x, 1), x));
  assert_true(tn_same(tn_powr(x, 1), x));
  assert_true(tn_same(tn_powi(x, 2), tn_square(x)));
  assert_true(tn_same(tn_powi(x, -1), tn_recip(x)));
  assert_true(tn_same(tn_slice(x, 1, 0, 3), x));
  assert_true(tn_same(tn_pad(x, 1, 0, 0), x));
  assert_true(tn_same(tn_transpose(x, 1, 1), x));
  assert_true(tn_same(tn_cast(x, TN_F64), x));
  assert_true(tn_same(tn_reshape(x, tn_shape_of(x)), x));
  assert_true(tn_same(tn_broadcast(x, tn_shape_of(x)), x));
  assert_true(tn_same(tn_concat(1, &x, 1), x));
  assert_true(tn_same(tn_sum_all(k(&b, 1)), k(&b, 1)));
  bench_close(&b);
}

static void jet_tables_are_interned(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  const tn_jet_table *two = univariate(b.graph, 2);
  assert_ptr_equal(two, univariate(b.graph, 2));
  assert_true(two != univariate(b.graph, 3));
  assert_int_equal(two->channels, 3);
  bench_close(&b);
}

/* ---- Places ---- */

static void place_goes_with_new_nodes(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  char file[] = "heat.toml", text[] = "u_t";
  tn_value x = points(&b, "x", 1, (double[]){2});
  assert_null(tn_node_of(x)->file);
  tn_at(b.graph, file, 7, 3, text);
  tn_value y = tn_sin(x);
  memset(file, '?', 4); /* copied */
  memset(text, '?', 2);
  assert_string_equal(tn_node_of(y)->file, "heat.toml");
  assert_string_equal(tn_node_of(y)->text, "u_t");
  assert_int_equal(tn_node_of(y)->line, 7);
  assert_int_equal(tn_node_of(y)->column, 3);
  tn_at(b.graph, "heat.toml", 9, 1, NULL);
  tn_value z = tn_exp(y);
  assert_true(tn_same(tn_sin(x), y)); /* the first maker's place stays */
  assert_int_equal(tn_node_of(y)->line, 7);
  tn_at(b.graph, NULL, 0, 0, NULL);
  tn_value g = gradient(z, x);
  assert_int_equal(tn_node_of(g)->line, 7); /* cos(x) * ...: from sin */
  tn_at_like(z);
  assert_int_equal(tn_node_of(tn_cos(z))->line, 9);
  REFUSED(tn_add(z, batch(&b, "v", 3)), TN_ESHAPE, "heat.toml:9:1: ", "add");
  tn_program *program;
  assert_int_equal(tn_compile(b.graph, 1, &z, &program), TN_OK);
  bench_close(&b); /* a program outlives its graph, places included */
  assert_string_equal(tn_program_node(program, tn_program_output(program, 0).node)->file,
                      "heat.toml");
  tn_program_free(&program);
}

/* ---- Errors ---- */

static void first_error_sticks(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){1, 2}), v = vector(&b, "v", 3);
  tn_value bad = tn_mul(x, v);
  tn_value worse = tn_sin(tn_add(bad, tn_slice(v, 0, 5, 1))), stack[2] = {x, bad};
  assert_null(tn_stack(2, stack).graph);
  assert_null(worse.graph);
  assert_null(tn_sum_all(bad).graph);
  assert_null(tn_mean(bad).graph);
  assert_null(ag_d(bad, x, 1).graph);
  assert_int_equal(tn_graph_error(b.graph), TN_ESHAPE);
  assert_non_null(strstr(tn_error_text(), "mul"));
  tn_program *program;
  tn_value good_value = tn_sin(x), g;
  assert_int_equal(tn_compile(b.graph, 1, &good_value, &program), TN_ESHAPE);
  assert_int_equal(tn_eval(1, &good_value), TN_ESHAPE);
  assert_int_equal(ag_grad(good_value, 1, &x, &g), TN_ESHAPE);
  assert_int_equal(tn_eval(1, &bad), TN_EHANDLE);
  tn_graph_clear_error(b.graph);
  assert_int_equal(tn_eval(1, &good_value), TN_OK);
  assert_int_equal(tn_eval(0, NULL), TN_EHANDLE);
  tn_value mixed[2] = {good_value, {0}};
  assert_int_equal(tn_eval(2, mixed), TN_EHANDLE);
  assert_int_equal(tn_graph_fail(b.graph, TN_EINPUT, "made by %s", "hand").generation, 0);
  REFUSED(((tn_value){0}), TN_EINPUT, "made by hand", "");
  bench_close(&b);
}

static void text_names_both_shapes(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value column = matrix(&b, "c", 4, 1), row = vector(&b, "r", 4);
  REFUSED(tn_add(column, row), TN_ESHAPE, "[4, 1]", "[4]");
  REFUSED(tn_mul(batch(&b, "x", 1), tn_input(b.graph, "y", TN_F64, tn_shape_points(b.axis))),
          TN_ESHAPE, "[points, 1]", "[points]");
  tn_axis other = tn_axis_new(b.graph, "walls");
  REFUSED(tn_sub(batch(&b, "x", 2), tn_input(b.graph, "y", TN_F64, tn_shape_batch(other, 2))),
          TN_ESHAPE, "[points, 2]", "[walls, 2]");
  char text[8];
  tn_shape wide = tn_shape_batch(b.axis, 123456);
  assert_string_equal(tn_shape_text(b.graph, &wide, text, sizeof text),
                      "[points"); /* cut, and ended */
  bench_close(&b);
}

static void dtypes_must_agree(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 2), y = tn_input(b.graph, "y", TN_F32, tn_shape_batch(b.axis, 2));
  tn_value mask = tn_gt(x, k(&b, 0)),
           w = tn_parameter(b.graph, "w", TN_F32, tn_shape_fixed(2, (size_t[]){2, 2}));
  REFUSED(tn_add(x, y), TN_EDTYPE, "f64", "f32");
  REFUSED(tn_tanh(mask), TN_EDTYPE, "tanh", "bool");
  REFUSED(tn_add(mask, mask), TN_EDTYPE, "add", "bool");
  REFUSED(tn_where(x, x, x), TN_EDTYPE, "f64", "bool");
  REFUSED(tn_where(mask, x, y), TN_EDTYPE, "f64", "f32");
  REFUSED(tn_not(x), TN_EDTYPE, "not", "f64");
  REFUSED(tn_both(mask, x), TN_EDTYPE, "both", "f64");
  REFUSED(tn_either(x, mask), TN_EDTYPE, "either", "f64");
  REFUSED(tn_concat(2, (tn_value[]){x, y}, 1), TN_EDTYPE, "f32", "f64");
  REFUSED(tn_stack(2, (tn_value[]){x, y}), TN_EDTYPE, "f32", "f64");
  REFUSED(tn_cast(mask, TN_F64), TN_EDTYPE, "bool", "f64");
  REFUSED(tn_cast(x, TN_I32), TN_EDTYPE, "f64", "i32");
  REFUSED(tn_sum(mask, 0), TN_EDTYPE, "sum", "bool");
  REFUSED(tn_mean(mask), TN_EDTYPE, "sum", "bool");
  REFUSED(tn_parameter(b.graph, "n", TN_I64, tn_shape_scalar()), TN_EDTYPE, "`n`", "i64");
  REFUSED(tn_linear(x, w, (tn_value){0}, false), TN_EDTYPE, "f32", "f64");
  REFUSED(tn_jet_outer(1, &mask, &mask), TN_ESHAPE, "outer", "");
  bench_close(&b);
}

static void leaves_refuse_bad_shapes(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_graph *g = b.graph;
  tn_shape second = {.rank = 2, .axis = {0, b.axis}, .extent = {3, 0}},
           foreign = tn_shape_points(b.axis + 1);
  tn_shape five = {.rank = 5}, zero = tn_shape_fixed(1, (size_t[]){0});
  tn_shape long_one = tn_shape_fixed(1, (size_t[]){(size_t)INT32_MAX + 1});
  tn_shape wide = tn_shape_fixed(3, (size_t[]){INT32_MAX, INT32_MAX, INT32_MAX});
  REFUSED(tn_input(g, "x", TN_F64, second), TN_ESHAPE, "input `x`", "first");
  REFUSED(tn_input(g, "x", TN_F64, foreign), TN_EHANDLE, "input `x`", "no point axis 2");
  REFUSED(tn_input(g, "x", TN_F64, five), TN_ESHAPE, "rank 5", "at most 4");
  REFUSED(tn_input(g, "x", TN_F64, zero), TN_ESHAPE, "extent 0", "`x`");
  REFUSED(tn_input(g, "x", TN_F64, long_one), TN_ESHAPE, "2147483648", "`x`");
  REFUSED(tn_fill(g, TN_F64, wide, 1), TN_ESHAPE, "2^40", "fill");
  REFUSED(tn_parameter(g, "w", TN_F64, tn_shape_points(b.axis)), TN_ESHAPE, "`w`", "point axis");
  const double data[3] = {0};
  REFUSED(tn_const_array(g, TN_F64, tn_shape_points(b.axis), data), TN_ESHAPE, "constant",
          "point axis");
  REFUSED(tn_const_array(g, TN_F64, second, data), TN_ESHAPE, "constant", "first");
  REFUSED(tn_const_array(g, TN_F64, zero, data), TN_ESHAPE, "constant", "extent 0");
  REFUSED(tn_const_array(g, TN_F64, tn_shape_fixed(1, (size_t[]){3}), NULL), TN_EINPUT, "constant",
          "no data");
  REFUSED(tn_count(g, TN_F64, 0), TN_EHANDLE, "count", "axis 0");
  REFUSED(tn_count(g, TN_F64, 9), TN_EHANDLE, "count", "axis 9");
  bench_close(&b);
}

static void extents_cannot_overflow(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value v = vector(&b, "v", 1u << 20), x = batch(&b, "x", 3), big = v;
  REFUSED(tn_pad(x, 1, SIZE_MAX, 2), TN_ERANGE, "pad", "2^31"); /* 3 + SIZE_MAX + 2 would be 4 */
  REFUSED(tn_pad(x, 1, INT32_MAX, 0), TN_ESHAPE, "pad", "extent");
  REFUSED(tn_expand(v, 0, 0, SIZE_MAX), TN_ESHAPE, "expand", "extent");
  big = tn_expand(big, 0, 0, 1u << 20);
  assert_true(tn_ok(big));
  REFUSED(tn_expand(big, 0, 0, 2), TN_ESHAPE, "expand", "2^40");
  REFUSED(tn_broadcast(v, tn_shape_fixed(3, (size_t[]){1u << 20, 2, 1u << 20})), TN_ESHAPE,
          "broadcast", "2^40");
  tn_value pair[2] = {big, big};
  REFUSED(tn_stack(2, pair), TN_ESHAPE, "stack", "2^40");
  REFUSED(tn_concat(2, pair, 0), TN_ESHAPE, "concat", "2^40");
  bench_close(&b);
}

static void axis_rules_hold(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_axis other = tn_axis_new(b.graph, "walls");
  assert_string_equal(tn_axis_name(b.graph, other), "walls");
  assert_string_equal(tn_axis_name(b.graph, other + 1), "?");
  assert_string_equal(tn_axis_name(b.graph, 0), "?");
  tn_value x = batch(&b, "x", 3), v = vector(&b, "v", 3);
  REFUSED(tn_expand(x, 0, other, 0), TN_ESHAPE, "point axis", "[points, 3]");
  REFUSED(tn_expand(v, 1, other, 0), TN_ESHAPE, "point axis", "[3]");
  REFUSED(tn_expand(x, 0, 0, 2), TN_ESHAPE, "position 0", "[points, 3]");
  REFUSED(tn_expand(x, 3, 0, 2), TN_ESHAPE, "position 3", "");
  REFUSED(tn_expand(x, 1, 0, 0), TN_ESHAPE, "fixed axis", "");
  REFUSED(tn_expand(v, 0, other + 1, 0), TN_EHANDLE, "expand", "no point axis");
  REFUSED(tn_slice(x, 0, 0, 1), TN_EUNSUPPORTED, "slice", "point axis");
  REFUSED(tn_pad(x, 0, 1, 1), TN_EUNSUPPORTED, "pad", "point axis");
  REFUSED(tn_transpose(x, 0, 1), TN_EUNSUPPORTED, "transpose", "point axis");
  REFUSED(tn_concat(2, (tn_value[]){x, x}, 0), TN_EUNSUPPORTED, "concat", "point axis");
  REFUSED(tn_reshape(x, tn_shape_batch(other, 3)), TN_ESHAPE, "[points, 3]", "[walls, 3]");
  REFUSED(tn_reshape(x, tn_shape_fixed(1, (size_t[]){3})), TN_ESHAPE, "[points, 3]", "[3]");
  REFUSED(tn_linear(x, v, (tn_value){0}, false), TN_ESHAPE, "[3]", "linear");
  tn_value walls = tn_input(b.graph, "w", TN_F64, tn_shape_batch(other, 3));
  REFUSED(tn_jet_outer(2, (tn_value[]){x, walls}, (tn_value[]){x, walls}), TN_ESHAPE, "outer",
          "operand 1");
  REFUSED(tn_linear(tn_input(b.graph, "deep", TN_F64, (tn_shape){3, {b.axis}, {0, 2, 3}}),
                    matrix(&b, "W", 3, 3), (tn_value){0}, false),
          TN_ESHAPE, "linear", "[2, 3]");
  tn_axis last = other;
  for (int i = 0; last; ++i) {
    char name[64];
    snprintf(name, sizeof name, "axis%d", i);
    last = tn_axis_new(b.graph, name);
    assert_true(i < 100000);
  }
  REFUSED(((tn_value){0}), TN_ERANGE, "point axes", "axis `axis");
  bench_close(&b);
}

static void structure_builders_refuse(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3), y = batch(&b, "y", 4), v = vector(&b, "v", 3),
           m = matrix(&b, "m", 3, 3);
  REFUSED(tn_sum(x, 2), TN_ESHAPE, "[points, 3]", "axis 2");
  REFUSED(tn_sum(k(&b, 1), 0), TN_ESHAPE, "[]", "axis 0");
  REFUSED(tn_slice(x, 1, 0, 0), TN_ERANGE, "slice", "of 3");
  REFUSED(tn_slice(x, 1, 3, 1), TN_ERANGE, "slice", "of 3");
  REFUSED(tn_slice(x, 1, 1, 3), TN_ERANGE, "slice", "of 3");
  REFUSED(tn_slice(x, 1, 2, SIZE_MAX), TN_ERANGE, "slice", "of 3");
  REFUSED(tn_transpose(m, 0, 2), TN_ESHAPE, "[3, 3]", "axis 2");
  REFUSED(tn_reshape(m, tn_shape_fixed(1, (size_t[]){8})), TN_ESHAPE, "[3, 3]", "[8]");
  REFUSED(tn_broadcast(v, tn_shape_of(m)), TN_ESHAPE, "ambiguous", "[3, 3]");
  REFUSED(tn_broadcast(m, tn_shape_of(v)), TN_ESHAPE, "not possible", "[3]");
  REFUSED(tn_broadcast(x, tn_shape_of(m)), TN_ESHAPE, "not possible", "[points, 3]");
  REFUSED(tn_broadcast(x, tn_shape_of(y)), TN_ESHAPE, "not possible", "[points, 4]");
  REFUSED(tn_broadcast(v, (tn_shape){.rank = 7}), TN_ESHAPE, "rank 7", "");
  REFUSED(tn_concat(2, (tn_value[]){x, v}, 1), TN_ESHAPE, "[3]", "[points, 3]");
  REFUSED(tn_concat(2, (tn_value[]){m, matrix(&b, "n", 3, 2)}, 0), TN_ESHAPE, "[3, 2]", "[3, 3]");
  REFUSED(tn_stack(2, (tn_value[]){x, y}), TN_ESHAPE, "[points, 4]", "input 2");
  tn_value four = tn_fill(b.graph, TN_F64, tn_shape_fixed(4, (size_t[]){1, 2, 3, 4}), 1);
  REFUSED(tn_stack(1, &four), TN_ESHAPE, "rank", "4");
  REFUSED(tn_expand(four, 0, b.axis, 0), TN_ESHAPE, "expand", "[1, 2, 3, 4]");
  REFUSED(tn_where(tn_gt(v, k(&b, 0)), x, x), TN_ESHAPE, "[3]", "[points, 3]");
  REFUSED(tn_where(tn_gt(v, k(&b, 0)), v, x), TN_ESHAPE, "[3]", "[points, 3]");
  REFUSED(tn_both(tn_gt(v, v), tn_gt(x, x)), TN_ESHAPE, "both", "[3]");
  assert_null(tn_stack(0, NULL).graph);
  assert_null(tn_concat(0, NULL, 0).graph);
  assert_null(tn_jet_outer(0, NULL, NULL).graph);
  assert_int_equal(tn_graph_error(b.graph), TN_OK);
  bench_close(&b);
}

static void elementwise_builders_refuse(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3);
  REFUSED(tn_powi(x, 0.5), TN_ERANGE, "powi", "0.5");
  REFUSED(tn_powi(x, 1e7), TN_ERANGE, "powi", "1e+07");
  REFUSED(tn_powi(x, NAN), TN_ERANGE, "powi", "nan");
  REFUSED(tn_unary(TN_OP_add, x, 0), TN_ERANGE, "add", "one argument");
  REFUSED(tn_unary(TN_OP_sum, x, 0), TN_ERANGE, "sum", "one argument");
  REFUSED(tn_binary(TN_OP_tanh, x, x), TN_ERANGE, "tanh", "two arguments");
  REFUSED(tn_binary(TN_OP_where, x, x), TN_ERANGE, "where", "two arguments");
  REFUSED(tn_unary(TN_OPS, x, 0), TN_ERANGE, "one argument", ""); /* no such row */
  assert_null(tn_op_find("no such operation"));
  for (int i = 0; i < TN_OPS; ++i)
    assert_ptr_equal(tn_op_find(tn_op_row((tn_op_id)i)->name), tn_op_row((tn_op_id)i));
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(handle_knows_its_node),
                                     cmocka_unit_test(foreign_value_is_refused),
                                     cmocka_unit_test(stale_value_is_refused),
                                     cmocka_unit_test(value_of_a_freed_graph_is_stale),
                                     cmocka_unit_test(graph_starts_again_after_reset),
                                     cmocka_unit_test(equal_nodes_are_one),
                                     cmocka_unit_test(shape_garbage_does_not_matter),
                                     cmocka_unit_test(trivial_operations_make_no_node),
                                     cmocka_unit_test(jet_tables_are_interned),
                                     cmocka_unit_test(place_goes_with_new_nodes),
                                     cmocka_unit_test(first_error_sticks),
                                     cmocka_unit_test(text_names_both_shapes),
                                     cmocka_unit_test(dtypes_must_agree),
                                     cmocka_unit_test(leaves_refuse_bad_shapes),
                                     cmocka_unit_test(extents_cannot_overflow),
                                     cmocka_unit_test(axis_rules_hold),
                                     cmocka_unit_test(structure_builders_refuse),
                                     cmocka_unit_test(elementwise_builders_refuse)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
