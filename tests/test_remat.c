/* test_remat.c: regions whose values a gradient computes again: the same bits by every way to a derivative, less
 * memory, and what is refused. The case (a x)^2 through all reverse modes is in test_engine_cases.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support_exec.h"

enum { LAYERS = 12, WIDEST = 64, OUTPUTS = 2 + 2 * LAYERS };

typedef struct mlp {
  bench b;
  size_t width, every; /* hidden layers of a region; 0: no regions */
  tn_value x, w[LAYERS + 1], bias[LAYERS + 1];
} mlp;

static void mlp_open(mlp *m, tn_dtype dtype, size_t width, size_t every) {
  bench_open(&m->b, dtype);
  m->width = width;
  m->every = every;
  m->x = tn_input(m->b.graph, "x", dtype, tn_shape_points(m->b.axis));
  for (size_t i = 0; i <= LAYERS; ++i) {
    size_t extent[2] = {i ? width : 1, i < LAYERS ? width : 1};
    m->w[i] = tn_parameter(m->b.graph, "w", dtype, tn_shape_fixed(2, extent));
    m->bias[i] = tn_parameter(m->b.graph, "b", dtype, tn_shape_fixed(1, extent + 1));
  }
}

/* u(x) [N]: each `every` hidden layers after the first are a region. */
static tn_value mlp_value(const mlp *m, tn_value x) {
  tn_graph *graph = m->b.graph;
  tn_value h = tn_stack(1, &x);
  uint32_t before = 0;
  for (size_t i = 0; i < LAYERS; ++i) {
    if (m->every && i % m->every == 0)
      before = ag_remat_begin(graph);
    h = tn_tanh(tn_linear(h, m->w[i], m->bias[i], false));
    if (m->every && (i + 1) % m->every == 0)
      ag_remat_end(graph, before);
  }
  return tn_sum(tn_linear(h, m->w[LAYERS], m->bias[LAYERS], false), 1);
}

typedef enum way { JETS, NESTED, FIELD, FIELD_NESTED, WAYS } way;

/* out: u_x, u_xx, and the gradient of mean(u_xx^2) by all weights and hidden biases. */
static void second_order(mlp *m, way how, tn_value *out) {
  tn_value uxx = {0}, by[2 * LAYERS];
  if (how == JETS) {
    tn_jet seeded, u;
    tn_value y = mlp_value(m, m->x);
    seed(&m->b, m->x, 2, &seeded);
    good(ag_jet(1, &m->x, &seeded, 1, &y, &u));
    out[0] = u.channel[1];
    uxx = u.channel[2];
  } else if (how == NESTED) {
    out[0] = gradient(mlp_value(m, m->x), m->x);
    uxx = gradient(out[0], m->x);
  } else {
    ag_field *field = NULL;
    ag_resolve_options options = {.nested = how == FIELD_NESTED};
    good(ag_field_new(m->b.graph, "u", 1, m->b.dtype, &field));
    tn_value body = mlp_value(m, ag_field_argument(field, 0)), roots[2];
    good(ag_field_body(field, 1, &body));
    for (uint8_t k = 1; k <= 2; ++k)
      roots[k - 1] = ag_call(field, 0, &m->x, &k);
    good(ag_resolve(m->b.graph, 2, roots, &options, out, NULL));
    uxx = out[1];
  }
  out[1] = uxx;
  for (size_t i = 0; i < LAYERS; ++i) {
    by[2 * i] = m->w[i];
    by[2 * i + 1] = m->bias[i];
  }
  good(ag_grad(tn_mean(tn_square(uxx)), 2 * LAYERS, by, out + 2));
}

/* Bytes that a run holds; values of all outputs into got, if it is not NULL. */
static size_t run(const mlp *m, size_t n, const tn_value *out, size_t points, bool whole,
                  double *got) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  double *data = draw("x", points > WIDEST * WIDEST ? points : WIDEST * WIDEST);
  good(tn_compile(m->b.graph, n, out, &program));
  good(whole ? tn_exec_reference(program, NULL, &exec) : tn_exec_new(program, NULL, &exec));
  give(exec, m->x, 1, &points, data);
  for (size_t i = 0; i < WIDEST * WIDEST; ++i)
    data[i] *= 0.75 / sqrt((double)m->width);
  for (size_t i = 0; i <= LAYERS; ++i) {
    size_t extent[2] = {i ? m->width : 1, i < LAYERS ? m->width : 1};
    give(exec, m->w[i], 2, extent, data + 3 * i);
    give(exec, m->bias[i], 1, extent + 1, data + i);
  }
  good(tn_exec_run(exec));
  for (size_t i = 0; got && i < n; ++i) {
    tn_buffer *buffer = NULL;
    good(tn_exec_output(exec, i, &buffer));
    size_t count = tn_buffer_count(buffer);
    good(tn_exec_read(exec, i, count, got));
    got += count;
  }
  size_t bytes = tn_exec_bytes(exec);
  tn_exec_free(&exec);
  tn_program_free(&program);
  free(data);
  return bytes;
}

static void bits_are_those_without_regions(void **state) {
  (void)state;
  enum { N = 77, W = 8, COUNT = 2 * N + LAYERS * (W * W + W) };
  for (int how = 0; how < WAYS; ++how)
    for (int dtype = 0; dtype < 2; ++dtype)
      for (int whole = 0; whole < 2; ++whole) {
        double *got[3];
        for (size_t k = 0; k < 3; ++k) { /* none, regions of three, of one layer */
          mlp m;
          tn_value out[OUTPUTS];
          mlp_open(&m, dtype ? TN_F32 : TN_F64, W, (size_t[]){0, 3, 1}[k]);
          second_order(&m, (way)how, out);
          got[k] = calloc(COUNT, sizeof **got);
          run(&m, OUTPUTS, out, N, whole != 0, got[k]);
          assert_true(got[k][COUNT / 2] != 0);
          bench_close(&m.b);
        }
        same_bits(got[1], got[0], COUNT, "regions of three", N);
        same_bits(got[2], got[0], COUNT, "regions of one", N);
        for (size_t k = 0; k < 3; ++k)
          free(got[k]);
      }
}

/* Peak of the reference executor and tile of the streamed one, at 10 000 points. */
static void memory_falls(void **state) {
  (void)state;
  enum { N = 10000 };
  size_t bytes[2][3];
  for (int whole = 0; whole < 2; ++whole)
    for (size_t k = 0; k < 3; ++k) {
      mlp m;
      tn_value out[OUTPUTS];
      mlp_open(&m, TN_F64, 32, (size_t[]){0, 3, 4}[k]);
      second_order(&m, JETS, out);
      bytes[whole][k] = run(&m, OUTPUTS - 2, out + 2, N, whole != 0, NULL);
      bench_close(&m.b);
    }
  for (int whole = 0; whole < 2; ++whole)
    print_message("%s: %.1f MiB without regions, %.1f with 4 of 3 layers, %.1f with 3 of 4\n",
                  whole ? "reference" : "streamed ", (double)bytes[whole][0] * 0x1p-20,
                  (double)bytes[whole][1] * 0x1p-20, (double)bytes[whole][2] * 0x1p-20);
  assert_true(bytes[1][1] < 0.6 * (double)bytes[1][0]);
  assert_true(bytes[0][1] < bytes[0][0]);
}

/* ---- Laws on small graphs ---- */

/* z = sin(x) w, y = tanh(z)^2 z: with z inside the region. */
static tn_value small(tn_graph *graph, bool region, tn_value x, tn_value w, tn_value *z) {
  uint32_t before = region ? ag_remat_begin(graph) : 0;
  *z = tn_mul(tn_sin(x), w);
  tn_value y = tn_mul(tn_square(tn_tanh(*z)), *z);
  if (region)
    ag_remat_end(graph, before);
  return tn_exp(y);
}

/* A derivative by a value inside a region, of a gradient that has computed it again: as without the region. */
static void values_inside_a_region_are_arguments(void **state) {
  (void)state;
  double got[2][12];
  for (int region = 0; region < 2; ++region) {
    bench b;
    bench_open(&b, TN_F64);
    tn_value x = points(&b, "x", 3, (double[]){0.5, -1, 2}),
             w = weights(&b, "w", 0, NULL, (double[]){0.75}), z;
    tn_value y = small(b.graph, region, x, w, &z), gx = gradient(y, x), again = gradient(gx, z),
             dot, put;
    numbers(again, 3, got[region]);
    numbers(gradient(y, z), 3, got[region] + 3);
    tn_value one = k(&b, 1);
    good(ag_jvp(1, &z, &one, 1, &gx, &dot));
    numbers(dot, 3, got[region] + 6);
    good(ag_substitute(b.graph, 1, &z, &x, 1, &gx, &put));
    numbers(put, 3, got[region] + 9);
    bench_close(&b);
  }
  same_bits(got[1], got[0], 12, "by a value inside", 3);
  for (int i = 0; i < 9; ++i)
    assert_true(got[0][i] != 0);
}

/* The same gradient twice is one set of nodes; a program of it is found in the cache after a reset. */
static void equal_steps_are_one_program(void **state) {
  (void)state;
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  for (int step = 0; step < 3; ++step) {
    tn_graph_reset(graph);
    bench b = {graph, tn_axis_new(graph, "points"), TN_F64};
    tn_value x = points(&b, "x", 2, (double[]){1, 2}),
             w = weights(&b, "w", 0, NULL, (double[]){0.5}), z, g[2];
    tn_value y = tn_mean(tn_square(small(graph, true, x, w, &z)));
    good(ag_grad(y, 1, &w, &g[0]));
    size_t nodes = tn_graph_nodes(graph);
    good(ag_grad(y, 1, &w, &g[1]));
    assert_true(tn_same(g[0], g[1]));
    assert_int_equal(tn_graph_nodes(graph), nodes);
    good(tn_eval(1, g));
  }
  assert_int_equal(tn_graph_cache_stats(graph).misses, 1);
  assert_int_equal(tn_graph_cache_stats(graph).hits, 2);
  tn_graph_free(&graph);
}

static size_t computed(tn_graph *graph, tn_value y, tn_op_id op) {
  tn_program *program = NULL;
  size_t n = 0;
  good(tn_compile(graph, 1, &y, &program));
  for (size_t i = 0; i < tn_program_nodes(program); ++i)
    n += tn_program_node(program, i)->op->id == op;
  tn_program_free(&program);
  return n;
}

/* A region computes sin(x) once more for its gradient; a mixed-in rebuild (substitution) keeps that, and gradients
 * of gradients and products with a Hessian have the same bits. ag_remat marks what is there already. */
static void regions_survive_other_passes(void **state) {
  (void)state;
  double got[2][8];
  for (int region = 0; region < 2; ++region) {
    bench b;
    bench_open(&b, TN_F64);
    tn_value x = points(&b, "x", 3, (double[]){0.5, -1, 2}),
             w = weights(&b, "w", 0, NULL, (double[]){0.75}), z;
    tn_value other = points(&b, "other", 3, (double[]){1, 3, -2}),
             y = small(b.graph, false, x, w, &z), g, moved;
    if (region)
      good(ag_remat(b.graph, 2, (tn_value[]){x, w}, 1, &y));
    y = tn_square(y); /* reads the first values */
    good(ag_grad(y, 1, &w, &g));
    assert_int_equal(computed(b.graph, g, TN_OP_sin), region ? 2 : 1);
    good(ag_substitute(b.graph, 1, &x, &other, 1, &g, &moved));
    assert_int_equal(computed(b.graph, moved, TN_OP_sin), region ? 2 : 1);
    numbers(g, 1, got[region]);
    numbers(moved, 1, got[region] + 1);
    tn_value gg = gradient(g, w), hv, v = k(&b, 2), rows;
    numbers(gg, 1, got[region] + 2);
    numbers(gradient(gg, w), 1, got[region] + 3);
    good(ag_hvp(y, 1, &w, &v, &hv));
    numbers(hv, 1, got[region] + 4);
    good(ag_rows(1, &w, 1, &y, &rows));
    numbers(rows, 3, got[region] + 5);
    near_to(got[region][4], 2 * got[region][2], 1e-13);
    bench_close(&b);
  }
  same_bits(got[1], got[0], 8, "passes", 3);
}

/* A gradient that needs a sum over points first (not linear in the mean), and one behind a mask. */
static void sums_and_masks_do_not_matter(void **state) {
  (void)state;
  double got[2][4];
  for (int region = 0; region < 2; ++region) {
    bench b;
    bench_open(&b, TN_F64);
    tn_value x = points(&b, "x", 3, (double[]){0.5, -1, 2}),
             w = weights(&b, "w", 0, NULL, (double[]){0.75}), z;
    tn_value y = small(b.graph, region, x, w, &z);
    uint32_t before = region ? ag_remat_begin(b.graph) : 0;
    tn_value root = tn_where(tn_gt(x, k(&b, 0)), tn_mul(tn_sqrt(x), w), tn_square(z));
    if (region)
      ag_remat_end(b.graph, before);
    numbers(gradient(tn_sqrt(tn_mean(tn_square(tn_add(y, root)))), w), 1, got[region]);
    numbers(gradient(tn_add(y, root), x), 3, got[region] + 1);
    bench_close(&b);
  }
  same_bits(got[1], got[0], 4, "sums and masks", 3);
  assert_true(isfinite(got[0][2]));
}

/* ---- No memory ---- */

static tn_status doubled(void *context, const tn_array *x, const tn_array *y) {
  (void)context;
  for (size_t i = 0; i < y->count; ++i)
    ((double *)y->data)[i] = 2 * ((const double *)x->data)[i];
  return TN_OK;
}

static tn_status doubled_vjp(void *context, const tn_array *x, const tn_array *y,
                             const tn_array *ybar, const tn_array *xbar) {
  (void)x, (void)y;
  return doubled(context, ybar, xbar);
}

static tn_status record_and_run(tn_graph *graph, const tn_op *op, double *out) {
  enum { N = 9, K = 3 };
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_buffer *buffer = NULL, *weight = NULL;
  tn_value x = tn_input(graph, "x", TN_F64, tn_shape_batch(tn_axis_new(graph, "points"), K)), y, g,
           uxx;
  tn_value w = tn_parameter(graph, "w", TN_F64, tn_shape_scalar());
  uint32_t before = ag_remat_begin(graph);
  y = tn_apply(op, 1, (tn_value[]){tn_softmax(tn_mul(x, w))});
  ag_remat_end(graph, before);
  y = tn_layer_norm(tn_exp(y), 0.5);
  TN_TRY(tn_graph_error(graph));
  TN_TRY(ag_grad(tn_mean(tn_square(y)), 1, &w, &g));
  TN_TRY(ag_remat(graph, 1, &x, 1, &y));
  TN_TRY(ag_grad(y, 1, &x, &uxx));
  tn_status status = tn_compile(graph, 2, (tn_value[]){g, uxx}, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, NULL, &exec);
  if (status == TN_OK)
    status = tn_buffer_new(TN_F64, 2, (size_t[]){N, K}, &buffer);
  for (size_t i = 0; status == TN_OK && i < N * K; ++i)
    ((double *)tn_map(buffer, TN_WRITE))[i] = sin((double)i);
  if (status == TN_OK)
    status = tn_exec_bind(exec, x, buffer);
  if (status == TN_OK)
    status = tn_buffer_new(TN_F64, 0, NULL, &weight);
  if (status == TN_OK) {
    *(double *)tn_map(weight, TN_WRITE) = 0.5;
    status = tn_exec_bind(exec, w, weight);
  }
  if (status == TN_OK)
    status = tn_exec_run(exec);
  if (status == TN_OK)
    status = tn_exec_read(exec, 0, 1, out);
  tn_buffer_release(&buffer);
  tn_buffer_release(&weight);
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

static tn_status session(double *out) {
  const tn_op *op = NULL;
  tn_graph *graph = NULL;
  tn_status status = tn_op_register(
      &(tn_custom){.name = "doubled", .n_inputs = 1, .forward = doubled, .vjp = doubled_vjp}, &op);
  if (status == TN_OK)
    status = tn_graph_new(&graph);
  if (status == TN_OK)
    status = record_and_run(graph, op, out);
  tn_graph_free(&graph);
  tn_op_unregister(&op);
  return status;
}

/* Each allocation of a session with regions, rows and a user's operation fails once; nothing stays behind. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  double want, got = 0;
  good(session(&want));
  size_t held = tn_memory_now();
  tn_status status = TN_ENOMEM;
  uint64_t n = 0;
  while (status != TN_OK) {
    tn_fault_at(++n, false);
    status = session(&got);
    tn_fault_at(0, false);
    if (status != TN_OK && status != TN_ENOMEM)
      fail_msg("allocation %d: %s: %s", (int)n, tn_status_name(status), tn_error_text());
    assert_int_equal(tn_memory_now(), held);
    assert_true(n < 5000);
  }
  assert_true(n > 50);
  same_bits(&got, &want, 1, "after the failures", 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_without_regions),
      cmocka_unit_test(memory_falls),
      cmocka_unit_test(values_inside_a_region_are_arguments),
      cmocka_unit_test(equal_steps_are_one_program),
      cmocka_unit_test(regions_survive_other_passes),
      cmocka_unit_test(sums_and_masks_do_not_matter),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
