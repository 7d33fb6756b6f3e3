/* test_custom.c: operations of users: by a meaning, by a function of scalars, on whole arrays; what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_exec.h"
#include "tests/support_replay.h"

static const tn_op *registered(const tn_custom *custom) {
  const tn_op *op = NULL;
  good(tn_op_register(custom, &op));
  return op;
}

static void text_has(const char *part) {
  if (!strstr(tn_error_text(), part))
    fail_msg("`%s` says nothing of `%s`", tn_error_text(), part);
}

/* ---- Descriptions ---- */

static double cube_f64(void *context, const double *x) {
  (void)context;
  return x[0] * x[0] * x[0];
}

static tn_value cube_derivative(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by;
  return tn_div(tn_mul(tn_const(y.graph, tn_dtype_of(y), 3), y), x[0]); /* reads its own value */
}

static tn_value cube_meaning(void *context, const tn_value *x) {
  (void)context;
  return tn_mul(tn_square(x[0]), x[0]);
}

/* f(a, b) = a^2 b^3 s, s by the context */
static double mixed_f64(void *context, const double *x) {
  return x[0] * x[0] * x[1] * x[1] * x[1] * *(const double *)context;
}

static float mixed_f32(void *context, const float *x) {
  return x[0] * x[0] * x[1] * x[1] * x[1] * (float)*(const double *)context;
}

static tn_value mixed_meaning(void *context, const tn_value *x) {
  tn_value s = tn_const(x[0].graph, tn_dtype_of(x[0]), *(const double *)context);
  return tn_mul(tn_mul(tn_square(x[0]), tn_powi(x[1], 3)), s);
}

static tn_value mixed_derivative(void *context, size_t by, const tn_value *x, tn_value y) {
  tn_value s = tn_const(y.graph, tn_dtype_of(y), *(const double *)context * (by ? 3 : 2));
  tn_value a = by ? tn_square(x[0]) : x[0], b = by ? tn_square(x[1]) : tn_powi(x[1], 3);
  return tn_mul(tn_mul(a, b), s);
}

/* ---- A meaning ---- */

static void meanings_are_expanded(void **state) {
  (void)state;
  const tn_op *op =
      registered(&(tn_custom){.name = "cubed", .n_inputs = 1, .meaning = cube_meaning});
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){2, -1}), y = tn_apply(op, 1, &x);
  assert_true(tn_same(y, cube_meaning(NULL, &x)));
  all_near(gradient(gradient(y, x), x), 2, (double[]){12, -6}, 1e-15);
  bench_close(&b);
  tn_op_unregister(&op);
}

/* ---- Functions of scalars ---- */

static tn_custom scalar_cube(int kind) { /* 0: derivative, 1: from the meaning, 2: both */
  return (tn_custom){.name = "cube",
                     .n_inputs = 1,
                     .f64 = cube_f64,
                     .derivative = kind == 1 ? NULL : cube_derivative,
                     .meaning = kind == 0 ? NULL : cube_meaning};
}

static void scalar_functions_have_all_derivatives(void **state) {
  (void)state;
  const double data[2] = {2, -1.5};
  for (int kind = 0; kind < 3; ++kind) {
    tn_custom description = scalar_cube(kind);
    const tn_op *op = registered(&description);
    bench b;
    bench_open(&b, TN_F64);
    tn_value x = points(&b, "x", 2, data), y = tn_apply(op, 1, &x), d = y, forward = y;
    assert_string_equal(tn_node_of(y)->op->name, "cube");
    assert_int_equal(tn_node_of(y)->op->id, TN_OP_custom);
    assert_true(tn_same(y, tn_apply(op, 1, &x)));
    assert_true(tn_op_find("cube") == op);
    tn_jet seeded, u;
    seed(&b, x, 4, &seeded);
    good(ag_jet(1, &x, &seeded, 1, &y, &u));
    for (int order = 0; order <= 4; ++order) {
      double want[2], scale[] = {1, 3, 6, 6, 0};
      for (int i = 0; i < 2; ++i)
        want[i] = order == 4 ? 0 : scale[order] * pow(data[i], 3 - order);
      all_near(d, 2, want, order == 4 ? 1e-13 : 1e-14);
      all_near(forward, 2, want, order == 4 ? 1e-13 : 1e-14);
      if (tn_ok(u.channel[order]))
        all_near(u.channel[order], 2, want, order == 4 ? 1e-13 : 1e-14);
      else
        assert_true(order == 4); /* zero by structure */
      d = gradient(d, x);
      forward = ag_d(forward, x, 1);
    }
    tn_value w = weights(&b, "w", 0, NULL, (double[]){0.5}), wx = tn_mul(w, x), rows,
             c = tn_apply(op, 1, &wx);
    good(ag_rows(1, &w, 1, &c, &rows));
    all_near(rows, 2, (double[]){3 * 8 * 0.25, 3 * -3.375 * 0.25}, 1e-14);
    bench_close(&b);
    tn_op_unregister(&op);
    assert_null(op);
    assert_null(tn_op_find("cube"));
  }
}

/* Two arguments, one of them a function of the other, or the same: jets, gradients and the meaning agree. */
static void two_arguments_mix(void **state) {
  (void)state;
  double s = 0.5;
  for (int kind = 0; kind < 2; ++kind)
    for (int same = 0; same < 2; ++same) {
      const tn_op *op = registered(&(tn_custom){.name = "mixed",
                                                .n_inputs = 2,
                                                .context = &s,
                                                .f64 = mixed_f64,
                                                .derivative = kind ? mixed_derivative : NULL,
                                                .meaning = kind ? NULL : mixed_meaning});
      bench b;
      bench_open(&b, TN_F64);
      tn_value x = points(&b, "x", 3, (double[]){0.5, -1, 2}), a = tn_sin(x);
      tn_value in[2] = {a, same ? a : tn_exp(a)},
               y[2] = {tn_apply(op, 2, in), mixed_meaning(&s, in)}, d[2];
      memcpy(d, y, sizeof d);
      tn_jet seeded, u[2];
      seed(&b, x, 3, &seeded);
      good(ag_jet(1, &x, &seeded, 2, y, u));
      for (int order = 0; order <= 3; ++order) {
        double want[3];
        numbers(d[1], 3, want);
        all_near(d[0], 3, want, 1e-12);
        all_near(u[0].channel[order], 3, want, 1e-12);
        all_near(u[1].channel[order], 3, want, 1e-12);
        for (int i = 0; i < 2; ++i)
          d[i] = gradient(d[i], x);
      }
      bench_close(&b);
      tn_op_unregister(&op);
    }
}

/* u_xx of a network with a user's activation, and the gradient of its mean square, against tanh's own row. */
static double tanh_f64(void *context, const double *x) {
  (void)context;
  return tanh(x[0]);
}

static tn_value tanh_derivative(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by, (void)x;
  return tn_sub(tn_const(y.graph, tn_dtype_of(y), 1), tn_square(y));
}

static void activations_of_users_go_into_fields(void **state) {
  (void)state;
  enum { N = 5, K = 3 };
  const tn_op *op = registered(&(tn_custom){
      .name = "my_tanh", .n_inputs = 1, .f64 = tanh_f64, .derivative = tanh_derivative});
  double got[2][N + K];
  for (int own = 0; own < 2; ++own) {
    bench b;
    bench_open(&b, TN_F64);
    ag_field *field = NULL;
    good(ag_field_new(b.graph, "u", 1, TN_F64, &field));
    tn_value w = weights(&b, "w", 2, (size_t[]){1, K}, (double[]){0.5, -1, 2});
    tn_value v = weights(&b, "v", 2, (size_t[]){K, 1}, (double[]){1, 2, -0.5}), x, z, body, uxx, g;
    x = ag_field_argument(field, 0);
    z = tn_linear(tn_stack(1, &x), w, (tn_value){0}, false);
    body = tn_sum(tn_linear(own ? tn_apply(op, 1, &z) : tn_tanh(z), v, (tn_value){0}, false), 1);
    good(ag_field_body(field, 1, &body));
    x = points(&b, "x", N, (double[]){-1, -0.5, 0, 0.25, 1});
    uxx = ag_call(field, 0, &x, (uint8_t[]){2});
    good(ag_resolve(b.graph, 1, &uxx, NULL, &uxx, NULL));
    good(ag_grad(tn_mean(tn_square(uxx)), 1, &w, &g));
    numbers(uxx, N, got[own]);
    numbers(g, K, got[own] + N);
    bench_close(&b);
  }
  for (int i = 0; i < N + K; ++i)
    near_to(got[1][i], got[0][i], 1e-12);
  tn_op_unregister(&op);
}

/* The same bits in both executors, in strips, tiles and without points; f32 from f64 where it is not given. */
static void bits_do_not_depend_on_the_executor(void **state) {
  (void)state;
  enum { K = 3, LONGEST = 601 };
  static const size_t counts[] = {1, 9, LONGEST};
  double s = 1.25, *data = draw("x", (size_t)LONGEST * K);
  const tn_op *mixed = registered(&(tn_custom){.name = "mixed",
                                               .n_inputs = 2,
                                               .context = &s,
                                               .f64 = mixed_f64,
                                               .f32 = mixed_f32,
                                               .derivative = mixed_derivative});
  tn_custom description = scalar_cube(0);
  const tn_op *cube = registered(&description);
  for (int dtype = 0; dtype < 2; ++dtype)
    for (size_t n = 0; n < 3; ++n) {
      size_t N = counts[n], extent[2] = {N, K}, all = N * K + 2;
      tn_graph *graph = NULL;
      good(tn_graph_new(&graph));
      tn_value x = tn_input(graph, "x", dtype ? TN_F32 : TN_F64,
                            tn_shape_batch(tn_axis_new(graph, "points"), K));
      tn_value w = tn_parameter(graph, "w", dtype ? TN_F32 : TN_F64, tn_shape_scalar()), out[3];
      out[0] = tn_apply(mixed, 2, (tn_value[]){tn_apply(cube, 1, &x), w});
      good(ag_grad(tn_mean(tn_tanh(out[0])), 1, &w, &out[1]));
      out[2] = tn_apply(cube, 1, &w);
      tn_program *program = NULL;
      good(tn_compile(graph, 3, out, &program));
      double *got[2];
      for (int whole = 0; whole < 2; ++whole) {
        tn_exec *exec = NULL;
        got[whole] = calloc(all, sizeof **got);
        good(whole ? tn_exec_reference(program, NULL, &exec) : tn_exec_new(program, NULL, &exec));
        give(exec, x, 2, extent, data);
        give(exec, w, 0, NULL, (double[]){0.75});
        good(tn_exec_run(exec));
        good(tn_exec_read(exec, 0, N * K, got[whole]));
        good(tn_exec_read(exec, 1, 1, got[whole] + N * K));
        good(tn_exec_read(exec, 2, 1, got[whole] + N * K + 1));
        tn_exec_free(&exec);
      }
      for (size_t i = 0, other = 0; dtype && i < N * K; ++i) { /* f32 where it is given */
        float cubed = (float)cube_f64(NULL, &data[i]), in[2] = {cubed, 0.75f};
        assert_true(got[0][i] == mixed_f32(&s, in));
        other += got[0][i] != (float)mixed_f64(&s, (double[]){cubed, 0.75});
        assert_true(other > 0 || i + 1 < N * K || N < LONGEST);
      }
      same_bits(got[0], got[1], all, "executors", N);
      assert_true(got[0][all - 1] == 0.75 * 0.75 * 0.75);
      free(got[0]);
      free(got[1]);
      tn_program_free(&program);
      tn_graph_free(&graph);
    }
  tn_op_unregister(&mixed);
  tn_op_unregister(&cube);
  free(data);
}

static void replay_goes_by_the_meaning(void **state) {
  (void)state;
  double s = 1.25;
  for (int with = 1; with >= 0; --with) {
    const tn_op *op = registered(&(tn_custom){.name = "mixed",
                                              .n_inputs = 2,
                                              .context = &s,
                                              .f64 = mixed_f64,
                                              .meaning = with ? mixed_meaning : NULL,
                                              .derivative = mixed_derivative});
    rig g;
    rig_open(&g);
    tn_value x = rig_leaf(&g, "x", TN_F64, tn_shape_batch(g.axis, 2), false), w, y[2];
    w = rig_leaf(&g, "w", TN_F64, tn_shape_scalar(), false);
    y[0] = tn_apply(op, 2, (tn_value[]){tn_sin(x), w});
    good(ag_grad(tn_square(y[0]), 1, &x, &y[1]));
    if (with) {
      rig_run(&g, 2, y);
      assert_true(rig_c(&g, 0) <=
                  6); /* five products and a sine of 2 ulp, f of it at most twice that */
      assert_true(rig_c(&g, 1) <= 20);
      assert_true(rig_c(&g, 0) > 0);
    } else {
      good(tn_compile(g.graph, 1, y, &g.program));
      good(vd_replay_new(g.program, BITS, &g.replay));
      for (size_t i = 0; i < g.n_bindings; ++i) {
        uint32_t node;
        assert_true(tn_program_leaf(g.program, g.binding[i].leaf, &node));
        good(vd_replay_bind(g.replay, node, g.binding[i].buffer));
      }
      assert_int_equal(vd_replay_run(g.replay), TN_EUNSUPPORTED);
      text_has("`mixed` has no meaning");
    }
    rig_close(&g);
    tn_op_unregister(&op);
  }
}

/* ---- Opaque operations ---- */

/* y[p] = running sum of x over the points, times the weight w: every point depends on those before it. */
static tn_status running_forward(void *context, const tn_array *x, const tn_array *y) {
  int *calls = context;
  double sum = 0;
  ++*calls;
  if (*calls > 1000)
    return TN_FAIL(TN_ERANGE, "called too often");
  for (size_t p = 0; p < y->count; ++p) {
    if (x[0].dtype == TN_F64) {
      sum += ((const double *)x[0].data)[p];
      ((double *)y->data)[p] = sum * ((const double *)x[1].data)[0];
    } else {
      sum += ((const float *)x[0].data)[p];
      ((float *)y->data)[p] = (float)(sum * ((const float *)x[1].data)[0]);
    }
  }
  return TN_OK;
}

static tn_status running_vjp(void *context, const tn_array *x, const tn_array *y,
                             const tn_array *ybar, const tn_array *xbar) {
  (void)context;
  double sum = 0, w = 0;
  if (x[0].dtype != TN_F64)
    return TN_FAIL(TN_EUNSUPPORTED, "f64 only");
  const double *factor = x[1].data, *g = ybar->data;
  for (size_t p = y->count; p-- > 0;) {
    sum += g[p];
    w += g[p] * ((const double *)y->data)[p];
    ((double *)xbar[0].data)[p] = sum * *factor;
  }
  ((double *)xbar[1].data)[0] = w / *factor;
  return TN_OK;
}

static const tn_op *running(int *calls) {
  return registered(&(tn_custom){.name = "running",
                                 .n_inputs = 2,
                                 .context = calls,
                                 .forward = running_forward,
                                 .vjp = running_vjp});
}

static void opaque_operations_run_between_loops(void **state) {
  (void)state;
  enum { N = 700 };
  int calls = 0;
  double *data = draw("x", N), want[N + 1], got[3][2 * N + 1], w = 0.75;
  const tn_op *op = running(&calls);
  for (int whole = 0; whole < 3; ++whole) { /* streamed, reference, strict */
    bench b;
    tn_program *program = NULL;
    tn_exec *exec = NULL;
    bench_open(&b, TN_F64);
    tn_value x = tn_input(b.graph, "x", TN_F64, tn_shape_points(b.axis)),
             factor = tn_parameter(b.graph, "w", TN_F64, tn_shape_scalar()), out[3], g[2];
    tn_value y = tn_apply(op, 2, (tn_value[]){tn_sin(x), factor});
    out[0] = tn_tanh(y);
    good(ag_grad(tn_mean(tn_square(out[0])), 2, (tn_value[]){x, factor}, g));
    out[1] = g[0], out[2] = g[1];
    good(tn_compile(b.graph, 3, out, &program));
    good(whole == 0   ? tn_exec_new(program, NULL, &exec)
         : whole == 1 ? tn_exec_reference(program, NULL, &exec)
                      : tn_exec_strict(program, NULL, &exec));
    give(exec, x, 1, (size_t[]){N}, data);
    give(exec, factor, 0, NULL, &w);
    calls = 0;
    for (int i = 0; i < 2; ++i)
      good(tn_exec_run(exec));
    assert_int_equal(calls, 2); /* once a run */
    good(tn_exec_read(exec, 0, N, got[whole]));
    good(tn_exec_read(exec, 1, N, got[whole] + N));
    good(tn_exec_read(exec, 2, 1, got[whole] + 2 * N));
    tn_exec_free(&exec);
    tn_program_free(&program);
    bench_close(&b);
  }
  same_bits(got[0], got[1], 2 * N + 1, "executors", N);
  same_bits(got[2], got[1], 2 * N + 1, "strict", N);
  double sum = 0, tail = 0;
  want[N] = 0;
  for (size_t p = 0; p < N; ++p) {
    sum += sin(data[p]);
    near_to(got[0][p], tanh(sum * w), 1e-12);
  }
  for (size_t p = N; p-- > 0; sum -= sin(data[p])) { /* by hand */
    double t = tanh(sum * w), slope = 2 * t * (1 - t * t) / N;
    tail += slope;
    want[p] = tail * w * cos(data[p]);
    want[N] += slope * sum;
    assert_true(fabs(got[0][N + p] - want[p]) <= 1e-12);
  }
  assert_true(fabs(got[0][2 * N] - want[N]) <= 1e-12);
  tn_op_unregister(&op);
  free(data);
}

/* Sums over points of its own: from [N] to a pair without points. */
static tn_status extremes_shape(void *context, const tn_shape *x, tn_shape *y) {
  (void)context;
  if (x->rank != 1)
    return TN_FAIL(TN_ESHAPE, "one number a point");
  *y = tn_shape_fixed(1, (size_t[]){2});
  return TN_OK;
}

static tn_status extremes_forward(void *context, const tn_array *x, const tn_array *y) {
  const double *v = x->data;
  double *out = y->data;
  if (*(const bool *)context)
    return TN_FAIL(TN_ERANGE, "asked to fail");
  out[0] = out[1] = v[0];
  for (size_t p = 0; p < x->count; ++p) {
    if (v[p] < out[0])
      out[0] = v[p];
    if (v[p] > out[1])
      out[1] = v[p];
  }
  return TN_OK;
}

static void opaque_arguments_may_lack_points(void **state) {
  (void)state;
  int calls = 0;
  const tn_op *op = running(&calls);
  bench b;
  bench_open(&b, TN_F64);
  tn_value v = weights(&b, "v", 1, (size_t[]){3}, (double[]){1, 2, -4});
  tn_value w = weights(&b, "w", 0, NULL, (double[]){2}), y = tn_apply(op, 2, (tn_value[]){v, w});
  all_near(y, 3, (double[]){2, 6, -2}, 0);
  all_near(gradient(tn_square(y), v), 3, (double[]){24, 16, -8}, 0);
  all_near(gradient(tn_square(y), w), 1, (double[]){2 * 2 * (1 + 9 + 1)}, 0);
  bench_close(&b);
  tn_op_unregister(&op);
}

static void opaque_results_may_lack_points(void **state) {
  (void)state;
  bool fail = false;
  const tn_op *op = registered(&(tn_custom){.name = "extremes",
                                            .n_inputs = 1,
                                            .context = &fail,
                                            .shape = extremes_shape,
                                            .forward = extremes_forward});
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 4, (double[]){3, -1, 7, 2}), y = tn_square(x),
           e = tn_apply(op, 1, &y), g;
  tn_value low = tn_sum(tn_slice(e, 0, 0, 1), 0), high = tn_sum(tn_slice(e, 0, 1, 1), 0);
  tn_value scaled = tn_div(tn_sub(y, low), tn_sub(high, low));
  all_near(e, 2, (double[]){1, 49}, 0);
  all_near(scaled, 4, (double[]){8.0 / 48, 0, 1, 3.0 / 48}, 1e-15);
  fail = true;
  tn_value again = tn_add(scaled, scaled);
  assert_int_equal(tn_eval(1, &again), TN_ERANGE);
  text_has("extremes");
  text_has("asked to fail");
  fail = false;
  good(tn_eval(1, &again));
  assert_int_equal(ag_grad(scaled, 1, &x, &g), TN_EUNSUPPORTED);
  text_has("extremes: an opaque operation without a vjp");
  tn_graph_clear_error(b.graph);
  tn_value two = tn_stack(2, (tn_value[]){x, x});
  assert_false(tn_ok(tn_apply(op, 1, &two)));
  text_has("one number a point");
  bench_close(&b);
  tn_op_unregister(&op);
}

/* ---- Refusals ---- */

static void second_derivatives_of_opaque_operations_are_refused(void **state) {
  (void)state;
  int calls = 0;
  const tn_op *op = running(&calls);
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){1, 2}), w = weights(&b, "w", 0, NULL, (double[]){1}),
           g, out;
  tn_value y = tn_apply(op, 2, (tn_value[]){x, w}), one = k(&b, 1);
  tn_jet seeded, u;
  good(ag_grad(y, 1, &x, &g));
  assert_int_equal(ag_grad(tn_square(g), 1, &x, &out), TN_EUNSUPPORTED);
  text_has("running_vjp");
  tn_graph_clear_error(b.graph);
  assert_int_equal(ag_jvp(1, &x, &one, 1, &y, &out), TN_EUNSUPPORTED);
  text_has("running");
  tn_graph_clear_error(b.graph);
  seed(&b, x, 1, &seeded);
  assert_int_equal(ag_jet(1, &x, &seeded, 1, &y, &u), TN_EUNSUPPORTED);
  text_has("running");
  tn_graph_clear_error(b.graph);
  assert_int_equal(ag_rows(1, &w, 1, &y, &out), TN_EUNSUPPORTED);
  text_has("running");
  bench_close(&b);
  tn_op_unregister(&op);
}

static tn_value no_value(void *context, const tn_value *x) {
  (void)context, (void)x;
  return (tn_value){0};
}

static tn_value wide_derivative(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)context, (void)by, (void)y;
  return tn_expand(x[0], 1, 0, 2);
}

static void mistakes_are_named(void **state) {
  (void)state;
  static const tn_custom bad[] = {
      {.name = "nothing", .n_inputs = 1},
      {.name = NULL, .n_inputs = 1, .meaning = cube_meaning},
      {.name = "a b", .n_inputs = 1, .meaning = cube_meaning},
      {.name = "tanh", .n_inputs = 1, .meaning = cube_meaning},
      {.name = "three", .n_inputs = 3, .f64 = cube_f64},
      {.name = "none", .n_inputs = 0, .meaning = cube_meaning},
      {.name = "alone", .n_inputs = 1, .meaning = cube_meaning, .derivative = cube_derivative},
      {.name = "both", .n_inputs = 1, .f64 = cube_f64, .forward = running_forward},
      {.name = "back", .n_inputs = 1, .f64 = cube_f64, .vjp = running_vjp},
  };
  const tn_op *op = NULL, *twice = NULL, *deaf, *wide, *empty;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_int_equal(tn_op_register(&bad[i], &op), TN_EINPUT);
    assert_null(op);
  }
  op = registered(&(tn_custom){.name = "once", .n_inputs = 1, .f64 = cube_f64});
  assert_int_equal(
      tn_op_register(&(tn_custom){.name = "once", .n_inputs = 1, .f64 = cube_f64}, &twice),
      TN_EINPUT);
  text_has("once");
  deaf = registered(&(tn_custom){.name = "deaf", .n_inputs = 1, .f64 = cube_f64});
  wide = registered(
      &(tn_custom){.name = "wide", .n_inputs = 1, .f64 = cube_f64, .derivative = wide_derivative});
  empty = registered(&(tn_custom){.name = "empty", .n_inputs = 1, .meaning = no_value});
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 2, (double[]){1, 2}), g, y = tn_apply(deaf, 1, &x);
  assert_int_equal(ag_grad(y, 1, &x, &g), TN_EUNSUPPORTED);
  text_has("deaf: no derivative");
  tn_graph_clear_error(b.graph);
  y = tn_apply(wide, 1, &x);
  assert_int_equal(ag_grad(y, 1, &x, &g), TN_ESHAPE);
  text_has("wide: its derivative by argument 0");
  tn_graph_clear_error(b.graph);
  assert_false(tn_ok(tn_apply(empty, 1, &x)));
  text_has("empty: its meaning gave no value");
  tn_graph_clear_error(b.graph);
  assert_false(tn_ok(tn_apply(deaf, 2, (tn_value[]){x, x})));
  text_has("deaf of 2 inputs, expected 1");
  tn_graph_clear_error(b.graph);
  assert_false(tn_ok(tn_apply(tn_op_row(TN_OP_tanh), 1, &x)));
  text_has("tanh is not an operation that tn_op_register gave");
  bench_close(&b);
  tn_op_unregister(&op);
  tn_op_unregister(&deaf);
  tn_op_unregister(&wide);
  tn_op_unregister(&empty);
  tn_op_unregister(&op);
}

/* What is not finite is found and named like any other node's. */
static double log_f64(void *context, const double *x) {
  (void)context;
  return log(x[0]);
}

static void non_finite_values_name_the_operation(void **state) {
  (void)state;
  const tn_op *op = registered(&(tn_custom){.name = "my_log", .n_inputs = 1, .f64 = log_f64});
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = points(&b, "x", 3, (double[]){1, -2, 3}), y = tn_mul(tn_apply(op, 1, &x), x);
  good(tn_graph_debug(b.graph, true));
  assert_int_equal(tn_eval(1, &y), TN_ENONFINITE);
  text_has("my_log");
  text_has("at point 1");
  bench_close(&b);
  tn_op_unregister(&op);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(meanings_are_expanded),
      cmocka_unit_test(scalar_functions_have_all_derivatives),
      cmocka_unit_test(two_arguments_mix),
      cmocka_unit_test(activations_of_users_go_into_fields),
      cmocka_unit_test(bits_do_not_depend_on_the_executor),
      cmocka_unit_test(replay_goes_by_the_meaning),
      cmocka_unit_test(opaque_operations_run_between_loops),
      cmocka_unit_test(opaque_arguments_may_lack_points),
      cmocka_unit_test(opaque_results_may_lack_points),
      cmocka_unit_test(second_derivatives_of_opaque_operations_are_refused),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(non_finite_values_name_the_operation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
