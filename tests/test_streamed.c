/* test_streamed.c: the streamed executor gives the bits of the reference executor, on random graphs.
 * ctest: labels=quick timeout=300 processors=2
 *
 * Each seed is one graph (support_random_graph.h), two in five with low formats. The streamed executor runs it without a pool and with pools of 2, 3
 * and 4 threads: twice, with half of the leaves bound to other buffers, with other numbers in the same buffers, with
 * other numbers of points, and with the first buffers again; after each the reference executor, made anew, says what is
 * right. Every bit counts, but that a NaN may be any NaN: which of two NaN operands an x86 addition hands on depends on
 * the order in which the compiler names them.
 *
 * PINN_TEST_GRAPHS sets how many graphs run (200), PINN_TEST_SEED or the first argument runs one seed. On a difference
 * the node that differs first is sought: node by node as the only output, then beside the outputs of the graph.
 */
#include "tests/support_exec.h"
#include "tests/support_random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POOLS = 4, STEPS = 5, DATA = 3, LEAST = 5, SHOWN = 3, LISTED = 60 };
static const double WORK = 1e6; /* elements of a run: see random_points */

typedef tn_status (*maker)(const tn_program *program, tn_pool *pool, tn_exec **out);

static struct {
  size_t first, graphs;
  tn_pool *pool[POOLS];                              /* 0: none; t: t + 1 threads */
  size_t count[TN_OPS][3], dtype[TN_OPS][TN_DTYPES]; /* nodes: on points, sums over points, fixed */
  size_t two_sets, axes[RANDOM_AXES + 1], nodes, refused;
  size_t elements, finite, odd_nan; /* of outputs compared */
  uint64_t hash;                    /* of all outputs */
} all;

/* ---- Comparing ---- */

typedef struct difference {
  bool found;
  size_t output, element;
  double got, want;
  char error[300]; /* the streamed executor refused; else "" */
} difference;

/* The first differing element of output i of two executors that have run. */
static void compare_output(tn_exec *streamed, tn_exec *reference, size_t i, difference *d) {
  tn_buffer *got = NULL, *want = NULL;
  good(tn_exec_output(reference, i, &want));
  if (tn_exec_output(streamed, i, &got) != TN_OK) {
    *d = (difference){.found = true, .output = i};
    snprintf(d->error, sizeof d->error, "%s", tn_error_text());
    return;
  }
  size_t n = tn_buffer_count(want);
  tn_dtype dtype = tn_buffer_dtype(want);
  size_t size = dtype == TN_BOOL ? 1 : tn_dtype_size(dtype);
  assert_int_equal(tn_buffer_dtype(got), dtype);
  assert_int_equal(tn_buffer_count(got), n);
  const char *x = tn_map(got, TN_READ), *y = tn_map(want, TN_READ);
  for (size_t k = 0; k < n && !d->found; ++k) {
    ++all.elements;
    all.finite += isfinite(number_at(y, dtype, k)) != 0;
    if (memcmp(x + k * size, y + k * size, size) == 0)
      continue;
    if (isnan(number_at(x, dtype, k)) && isnan(number_at(y, dtype, k)))
      ++all.odd_nan;
    else
      *d = (difference){true, i, k, number_at(x, dtype, k), number_at(y, dtype, k), ""};
  }
  tn_unmap(got);
  tn_unmap(want);
}

/* FNV-1a of the numbers of all outputs; one NaN is like another. The same on every machine. */
static void add_to_hash(tn_exec *reference, size_t n_outputs) {
  for (size_t i = 0; i < n_outputs; ++i) {
    tn_buffer *buffer = NULL;
    good(tn_exec_output(reference, i, &buffer));
    tn_dtype dtype = tn_buffer_dtype(buffer);
    const void *x = tn_map(buffer, TN_READ);
    for (size_t k = 0; k < tn_buffer_count(buffer); ++k) {
      double number = number_at(x, dtype, k);
      uint64_t bits = 1;
      if (!isnan(number))
        memcpy(&bits, &number, sizeof bits);
      all.hash = (all.hash ^ bits) * UINT64_C(0x100000001b3);
    }
    tn_unmap(buffer);
  }
}

static void compare(tn_exec *streamed, tn_exec *reference, size_t n_outputs, difference *d) {
  if (tn_exec_run(streamed) != TN_OK) {
    *d = (difference){.found = true};
    snprintf(d->error, sizeof d->error, "%s", tn_error_text());
  }
  for (size_t i = 0; i < n_outputs && !d->found; ++i)
    compare_output(streamed, reference, i, d);
}

/* ---- Steps ---- */

/* What step s binds: to an executor that has done the steps before, or to a new one. */
static void bind_step(const random_data *data, const random_graph *g, int step, bool fresh,
                      tn_exec *exec) {
  if (step == 0 || step == 4 || (fresh && step < 3))
    random_data_bind(&data[0], g, exec, 0, 1);
  if (step == 1 || (fresh && step == 2))
    random_data_bind(&data[1], g, exec, 1, 2);
  if (step == 3)
    random_data_bind(&data[2], g, exec, 0, 1);
}

static const char *const step_words[STEPS] = {"first run", "half of the leaves on other buffers",
                                              "other numbers in the same buffers",
                                              "other numbers of points", "the first buffers again"};

static void draw_data(const random_graph *g, const tn_program *program, random_data *data) {
  size_t points[RANDOM_AXES] = {0}, other[RANDOM_AXES] = {0};
  random_points(g, program, 0, WORK, points);
  random_points(g, program, 1, WORK, other);
  if (g->seed % 10 == 7)
    other[0] = 0; /* an empty set */
  random_data_draw(&data[0], g, 0, points);
  random_data_draw(&data[1], g, 1, points);
  random_data_draw(&data[2], g, 2, other);
}

/* ---- Where a difference comes from ---- */

static void describe(const random_graph *g, const tn_program *program, size_t i) {
  const tn_node *node = tn_program_node(program, i);
  char text[96];
  print_message("    n%zu = %s", i, node->op->name);
  if (node->op->id == TN_OP_jet_unary)
    print_message("<%s, derivative %d>", tn_op_row((tn_op_id)node->integer[0])->name,
                  (int)node->integer[1]);
  else if (node->op->arity < 0)
    print_message("<%d, %d, %d>", (int)node->integer[0], (int)node->integer[1],
                  (int)node->integer[2]);
  if (node->op->class_ == TN_LEAF || node->number != 0)
    print_message("{%s %g}", node->name ? node->name : "", node->number);
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    print_message("%s%u.%u%s", k ? ", n" : "(n", node->inputs[k].node, node->inputs[k].port,
                  k + 1 == node->n_inputs ? ")" : "");
  print_message(" : %s", tn_dtype_name(node->dtype));
  for (uint32_t k = 0; k < node->n_outputs; ++k)
    print_message(" %s", tn_shape_text(g->graph, &node->shapes[k], text, sizeof text));
  print_message("\n");
}

/* Executor t gets tiles of its own size, which must change no bit; 0: as the executor chooses. */
static void set_tile(size_t t) {
  static const char *const groups[POOLS] = {"0", "1", "3", "0"};
  assert_int_equal(setenv("TN_TILE", groups[t], 1), 0);
}

/* Both executors made anew on these outputs, with what step s binds. */
static void try_outputs(const random_graph *g, const random_data *data, int step, tn_pool *pool,
                        size_t n, const tn_value *outputs, difference *d) {
  tn_program *program = NULL;
  tn_exec *streamed = NULL, *reference = NULL;
  *d = (difference){0};
  good(tn_compile(g->graph, n, outputs, &program));
  good(tn_exec_reference(program, NULL, &reference));
  set_tile(pool ? tn_pool_threads(pool) - 1 : 0);
  good(tn_exec_new(program, pool, &streamed));
  bind_step(data, g, step, true, reference);
  bind_step(data, g, step, true, streamed);
  good(tn_exec_run(reference));
  compare(streamed, reference, n, d);
  tn_exec_free(&streamed);
  tn_exec_free(&reference);
  tn_program_free(&program);
}

/* The smallest number of points, the same on all axes, at which these outputs still differ. */
static size_t fewest_points(const random_graph *g, tn_pool *pool, size_t n,
                            const tn_value *outputs) {
  for (size_t points = 1; points <= 300; points += points < 20 ? 1 : points < 70 ? 7 : 29) {
    random_data data[DATA] = {0};
    difference d;
    size_t of[RANDOM_AXES] = {points, points, points, points};
    random_data_draw(&data[0], g, 0, of);
    try_outputs(g, data, 0, pool, n, outputs, &d);
    random_data_drop(&data[0]);
    if (d.found)
      return points;
  }
  return 0;
}

static void show(const random_graph *g, tn_pool *pool, size_t n, const tn_value *outputs,
                 const difference *d, const char *how) {
  tn_program *program = NULL;
  good(tn_compile(g->graph, n, outputs, &program));
  size_t nodes = tn_program_nodes(program), points = fewest_points(g, pool, n, outputs), listed = 0;
  tn_edge at = tn_program_output(program, d->output);
  print_message("  %s, program of %zu nodes, node n%u port %u, which comes from (last first):\n",
                how, nodes, at.node, at.port);
  bool *above = calloc(nodes, sizeof *above);
  above[at.node] = true;
  for (size_t i = at.node + 1; i-- > 0;) {
    const tn_node *node = tn_program_node(program, i);
    for (uint32_t k = 0; above[i] && k < node->n_inputs; ++k)
      above[node->inputs[k].node] = true;
    if (above[i] && listed++ < LISTED)
      describe(g, program, i);
  }
  free(above);
  if (d->error[0])
    print_message("    refused: %s\n", d->error);
  else
    print_message("    element %zu is %a, reference %a\n", d->element, d->got, d->want);
  if (points)
    print_message("    differs from %zu points an axis on\n", points);
  tn_program_free(&program);
}

static void mark_needed(const random_graph *g, bool *needed) {
  for (size_t i = 0; i < g->n_outputs; ++i)
    needed[g->output[i].node] = true;
  for (size_t i = tn_graph_nodes(g->graph); i-- > 0;) {
    const tn_node *node = tn_node_at(g->graph, (uint32_t)i);
    for (uint32_t k = 0; needed[i] && k < node->n_inputs; ++k)
      needed[node->inputs[k].node] = true;
  }
}

/* The first node, in order of making, that differs as the only output or beside all outputs. */
static void locate(const random_graph *g, const random_data *data, int step, tn_pool *pool) {
  difference d;
  try_outputs(g, data, step, pool, g->n_outputs, g->output, &d);
  if (!d.found) {
    print_message("  a new executor does not differ: it is the history of runs that matters\n");
    return;
  }
  size_t nodes = tn_graph_nodes(g->graph);
  bool *needed = calloc(nodes, sizeof *needed);
  mark_needed(g, needed);
  for (int beside = 0; beside < 2; ++beside)
    for (size_t i = 0; i < nodes; ++i) {
      const tn_node *node = tn_node_at(g->graph, (uint32_t)i);
      for (uint32_t k = 0; needed[i] && k < node->n_outputs; ++k) {
        tn_value out[RANDOM_OUTPUTS + 1] = {tn_value_at(g->graph, (uint32_t)i, k)};
        memcpy(out + 1, g->output, g->n_outputs * sizeof *out);
        size_t n = beside ? 1 + g->n_outputs : 1;
        try_outputs(g, data, step, pool, n, out, &d);
        if (!d.found || d.output)
          continue;
        show(g, pool, n, out, &d, beside ? "first beside the outputs" : "first as the only output");
        free(needed);
        return;
      }
    }
  try_outputs(g, data, step, pool, g->n_outputs, g->output, &d);
  show(g, pool, g->n_outputs, g->output, &d, "no node differs alone or as a further output");
  free(needed);
}

/* ---- One graph ---- */

static bool is_reduction(const tn_program *p, const tn_node *node) {
  bool batched = false;
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    const tn_edge e = node->inputs[k];
    batched = batched || tn_shape_batched(&tn_program_node(p, e.node)->shapes[e.port]);
  }
  return batched && !tn_shape_batched(&node->shapes[0]);
}

/* Counts nodes; tells whether a parameter is used on two sets of points, not by way of sums over points. */
static void cover(const tn_program *p) {
  size_t n = tn_program_nodes(p), parameters = 0;
  uint64_t *from = calloc(n, sizeof *from), seen[64] = {0}, twice = 0;
  for (size_t i = 0; i < n; ++i) {
    const tn_node *node = tn_program_node(p, i);
    bool batched = tn_shape_batched(&node->shapes[0]), sum = is_reduction(p, node);
    ++all.count[node->op->id][batched ? 0 : sum ? 1 : 2];
    ++all.dtype[node->op->id][node->dtype];
    if (node->op->id == TN_OP_parameter)
      from[i] = (uint64_t)1 << parameters++ % 64;
    for (uint32_t k = 0; k < node->n_inputs && !sum; ++k)
      from[i] |= from[node->inputs[k].node];
    if (batched)
      seen[node->shapes[0].axis[0] % 64] |= from[i];
  }
  for (size_t a = 0; a < 64; ++a)
    for (size_t b = 0; b < a; ++b)
      twice |= seen[a] & seen[b];
  all.two_sets += twice != 0;
  all.nodes += n;
  free(from);
}

static bool run_steps(const random_graph *g, const tn_program *program, random_data *data,
                      bool detail) {
  tn_exec *exec[POOLS] = {NULL}, *reference = NULL;
  difference d = {0};
  for (size_t t = 0; t < POOLS; ++t)
    good(tn_exec_new(program, all.pool[t], &exec[t]));
  for (int step = 0; step < STEPS && !d.found; ++step) {
    for (size_t i = 0; i < 2 && step == 2; ++i)
      random_data_change(&data[i], g, 10 + i);
    good(tn_exec_reference(program, NULL, &reference));
    bind_step(data, g, step, true, reference);
    good(tn_exec_run(reference));
    add_to_hash(reference, g->n_outputs);
    for (size_t t = 0; t < POOLS && !d.found; ++t) {
      bind_step(data, g, step, false, exec[t]);
      set_tile(t);
      for (int again = 0; again < (step == 0 ? 2 : 1) && !d.found; ++again)
        compare(exec[t], reference, g->n_outputs, &d);
      if (!d.found)
        continue;
      print_message("seed %llu differs: %s, %zu threads, output %zu of %zu, element %zu: %a, "
                    "reference %a %s\n",
                    (unsigned long long)g->seed, step_words[step], t + 1, d.output, g->n_outputs,
                    d.element, d.got, d.want, d.error);
      const random_data *now = &data[step == 3 ? 2 : 0];
      for (size_t a = 0; a < g->n_axes; ++a)
        print_message("  %zu points on %s\n", now->points[a], tn_axis_name(g->graph, g->axis[a]));
      if (detail)
        locate(g, data, step, all.pool[t]);
    }
    tn_exec_free(&reference);
  }
  for (size_t t = 0; t < POOLS; ++t)
    tn_exec_free(&exec[t]);
  return d.found;
}

static bool graph_differs(uint64_t seed, bool detail) {
  random_graph g;
  random_data data[DATA];
  tn_program *program = NULL;
  random_graph_open(&g, seed);
  good(tn_compile(g.graph, g.n_outputs, g.output, &program));
  cover(program);
  ++all.axes[g.n_axes];
  all.refused += g.refused;
  draw_data(&g, program, data);
  bool differs = run_steps(&g, program, data, detail);
  for (size_t i = 0; i < DATA; ++i)
    random_data_drop(&data[i]);
  tn_program_free(&program);
  random_graph_close(&g);
  return differs;
}

/* ---- What random graphs rarely meet ---- */

/* Both executors on these outputs, with and without a pool. */
static void agree(const random_graph *g, const size_t *points) {
  for (size_t t = 0; t < POOLS; t += 2) {
    random_data data = {0};
    difference d;
    random_data_draw(&data, g, 0, points);
    try_outputs(g, &data, 0, all.pool[t], g->n_outputs, g->output, &d);
    random_data_drop(&data);
    if (d.found)
      fail_msg("%zu threads, output %zu, element %zu: %a, reference %a %s", t + 1, d.output,
               d.element, d.got, d.want, d.error);
  }
}

static void open_plain(random_graph *g, tn_dtype dtype, tn_shape (*shape)(tn_axis axis)) {
  *g = (random_graph){.seed = 2, .n_axes = 1, .n_leaves = 1};
  good(tn_graph_new(&g->graph));
  g->axis[0] = tn_axis_new(g->graph, "A");
  g->leaf[0] = tn_input(g->graph, "x", dtype, shape(g->axis[0]));
}

/* Zeros of both signs are equal numbers and not the same numbers. */
static void signs_of_zeros_stay(void **state) {
  (void)state;
  for (int f32 = 0; f32 < 2; ++f32) {
    random_graph g;
    tn_dtype dtype = f32 ? TN_F32 : TN_F64;
    open_plain(&g, dtype, tn_shape_points);
    tn_shape shape = tn_shape_points(g.axis[0]);
    for (int minus = 0; minus < 2; ++minus) {
      tn_value zero = tn_fill(g.graph, dtype, shape, minus ? -0.0 : 0.0),
               number = tn_const(g.graph, dtype, minus ? -0.0 : 0.0), x = g.leaf[0];
      tn_value sum = tn_add(zero, number), product = tn_mul(x, zero), scaled = tn_mul(number, x);
      const tn_value out[] = {zero, tn_recip(zero), sum, tn_sub(product, zero), tn_recip(scaled)};
      for (size_t i = 0; i < sizeof out / sizeof *out; ++i)
        g.output[g.n_outputs++] = out[i];
    }
    agree(&g, (const size_t[]){9});
    random_graph_close(&g);
  }
}

/* 40 000 operations of one width depend on nothing else: more than one strip program has registers for. */
static void long_chains_run(void **state) {
  (void)state;
  random_graph g;
  open_plain(&g, TN_F64, tn_shape_points);
  tn_value y = g.leaf[0];
  for (int i = 0; i < 40000; ++i)
    y = i % 2 ? tn_sin(y) : tn_mul(y, g.leaf[0]);
  g.output[g.n_outputs++] = y;
  agree(&g, (const size_t[]){9});
  random_graph_close(&g);
}

/* A weight of 520 x 520 on two sets of points: the partial sums of its gradient, 8 slots of 2.1 MB on each set, are
 * more than the 32 MiB in which the loops of a stage run together. */
static void large_weights_give_the_same_bits(void **state) {
  (void)state;
  enum { WIDE = 520 };
  random_graph g = {.seed = 2, .n_axes = 2, .n_leaves = 3};
  tn_value h[2], none = {0}, loss = {0};
  const size_t extent[2] = {WIDE, WIDE};
  good(tn_graph_new(&g.graph));
  g.leaf[0] = tn_parameter(g.graph, "w", TN_F64, tn_shape_fixed(2, extent));
  for (size_t a = 0; a < 2; ++a) {
    g.axis[a] = tn_axis_new(g.graph, a ? "B" : "A");
    g.leaf[1 + a] = tn_input(g.graph, a ? "y" : "x", TN_F64, tn_shape_batch(g.axis[a], WIDE));
    h[a] = tn_sin(tn_linear(g.leaf[1 + a], g.leaf[0], none, a));
    tn_value term = tn_mean(tn_square(h[a]));
    loss = a ? tn_add(loss, term) : term;
  }
  g.output[g.n_outputs++] = loss;
  good(ag_grad(loss, 1, g.leaf, &g.output[g.n_outputs++]));
  agree(&g, (const size_t[]){513, 600});
  random_graph_close(&g);
}

/* ---- All graphs ---- */

static void bits_are_those_of_the_reference_executor(void **state) {
  (void)state;
  size_t bad = 0;
  for (size_t i = 0; i < all.graphs; ++i)
    bad += graph_differs(all.first + i, bad < SHOWN);
  print_message(
      "%zu graphs (seeds from %zu), %zu nodes, %zu with weights on two sets of points, %zu "
      "differ\n",
      all.graphs, all.first, all.nodes, all.two_sets, bad);
  print_message("%zu elements compared, %.1f %% finite, %zu NaN of other bits; %zu gradients not "
                "offered\n",
                all.elements, 100.0 * (double)all.finite / (double)all.elements, all.odd_nan,
                all.refused);
  print_message("hash of all outputs %016llx, %s\n", (unsigned long long)all.hash, tn_isa());
  assert_int_equal(bad, 0);
}

static void graphs_cover_the_table(void **state) {
  static const char *const class_name[] = {"leaf",       "linear", "bilinear",
                                           "analytic",   "binary", "piecewise",
                                           "comparison", "fused",  "atom"};
  (void)state;
  size_t missing = 0, without_low = 0, of_low[3] = {0};
  if (all.graphs < 200)
    skip();
  print_message("%-12s %-10s %8s %8s %8s %8s %8s %8s %8s\n", "operation", "class", "points", "sums",
                "fixed", "f64", "f32", "low", "bool");
  for (int i = 0; i < TN_OPS; ++i) {
    const tn_op *op = tn_op_row((tn_op_id)i);
    const size_t *n = all.count[i];
    if (op->class_ == TN_ATOM || op->id == TN_OP_custom)
      continue; /* has no meaning in a program; is many operations, and has tests of its own */
    size_t low = all.dtype[i][TN_TF32] + all.dtype[i][TN_BF16] + all.dtype[i][TN_F16];
    bool few = n[0] + n[1] + n[2] < LEAST || (op->arity > 0 && n[0] < LEAST);
    without_low += !low && !all.dtype[i][TN_BOOL];
    print_message("%-12s %-10s %8zu %8zu %8zu %8zu %8zu %8zu %8zu%s\n", op->name,
                  class_name[op->class_], n[0], n[1], n[2], all.dtype[i][TN_F64],
                  all.dtype[i][TN_F32], low, all.dtype[i][TN_BOOL], few ? "  too few" : "");
    missing += few;
    for (int d = TN_TF32; d <= TN_F16; ++d)
      of_low[d - TN_TF32] += all.dtype[i][d];
  }
  print_message("graphs with 1, 2, 3, 4 axes: %zu, %zu, %zu, %zu; two sets of points: %zu\n",
                all.axes[1], all.axes[2], all.axes[3], all.axes[4], all.two_sets);
  print_message("nodes in tf32, bf16, f16: %zu, %zu, %zu; operations without any: %zu\n", of_low[0],
                of_low[1], of_low[2], without_low);
  assert_int_equal(missing, 0);
  assert_true(of_low[0] >= 1000 && of_low[1] >= 1000 && of_low[2] >= 1000);
  assert_true(without_low <= 8); /* test_low.c leaves none out */
  assert_true(all.two_sets >= 50);
}

int main(int n, char **argument) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_the_reference_executor),
      cmocka_unit_test(graphs_cover_the_table), cmocka_unit_test(large_weights_give_the_same_bits),
      cmocka_unit_test(signs_of_zeros_stay), cmocka_unit_test(long_chains_run)};
  const char *seed = n > 1 ? argument[1] : getenv("PINN_TEST_SEED"),
             *graphs = getenv("PINN_TEST_GRAPHS");
  all.hash = UINT64_C(0xcbf29ce484222325);
  all.first = seed ? strtoul(seed, NULL, 10) : 1;
  all.graphs = seed ? 1 : graphs ? strtoul(graphs, NULL, 10) : 200;
  for (size_t t = 1; t < POOLS; ++t)
    if (tn_pool_new(t + 1, &all.pool[t]) != TN_OK)
      return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t t = 1; t < POOLS; ++t)
    tn_pool_free(&all.pool[t]);
  return failed;
}
