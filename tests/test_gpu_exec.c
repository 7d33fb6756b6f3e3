/* test_gpu_exec.c: programs on the device give the bits of the streamed executor, on the emulated device.
 * ctest: labels=quick timeout=300 processors=2
 *
 * Random graphs (support_random_graph.h) run on the CPU and on the device, again and again: the first run goes kernel by
 * kernel, the second is captured, the third replays it; then half of the leaves lie in other buffers, hold other
 * numbers, have other numbers of points. Settings that must change no bit: CUDA graphs off, sums of one part a launch,
 * ranks. Every bit counts, but that a NaN may be any NaN. Beside that: points that are bound while a run may be going
 * on, and runs that fail and are tried again. test_gpu_problems.c has the losses of problem files, test_gpu_wide.c
 * products by cuBLASLt.
 *
 * PINN_TEST_GRAPHS sets how many graphs run (4), PINN_TEST_SEED or the first argument runs one seed.
 */
#include "tensor/backend.h"
#include "tests/support_comm.h"
#include "tests/support_exec.h"
#include "tests/support_gpu_bench.h"
#include "tests/support_random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 6, DATA = 3, GRAPHS = 4 };
static const double WORK = 2e5; /* elements of a run: see random_points */

static struct {
  size_t first, graphs;
  size_t programs, runs, elements, finite, odd_nan, nodes, rank_runs, dtype[TN_DTYPES];
} all;

/* ---- Comparing ---- */

/* Elements of output i that differ between two executors that have run. */
static size_t differing(tn_exec *device, tn_exec *host, size_t i, const char *what) {
  tn_buffer *got = NULL, *want = NULL;
  good(tn_exec_output(host, i, &want));
  good(tn_exec_output(device, i, &got));
  size_t n = tn_buffer_count(want), bad = 0;
  tn_dtype dtype = tn_buffer_dtype(want);
  size_t size = dtype == TN_BOOL ? 1 : tn_dtype_size(dtype);
  assert_int_equal(tn_buffer_count(got), n);
  const char *x = tn_map(got, TN_READ), *y = tn_map(want, TN_READ);
  for (size_t k = 0; k < n; ++k) {
    double a = number_at(x, dtype, k), b = number_at(y, dtype, k);
    ++all.elements;
    ++all.dtype[dtype];
    all.finite += isfinite(b) != 0;
    if (memcmp(x + k * size, y + k * size, size) == 0)
      continue;
    if (isnan(a) && isnan(b))
      ++all.odd_nan;
    else if (bad++ == 0)
      print_message("  %s: output %zu, element %zu of %zu: %a, CPU %a\n", what, i, k, n, a, b);
  }
  tn_unmap(got);
  tn_unmap(want);
  return bad;
}

static size_t compare(tn_exec *device, tn_exec *host, size_t n_outputs, const char *what) {
  size_t bad = 0;
  good(tn_exec_run(host));
  good(tn_exec_run(device));
  ++all.runs;
  for (size_t i = 0; i < n_outputs; ++i)
    bad += differing(device, host, i, what);
  return bad;
}

/* ---- Random programs ---- */

/* many: so many points that loops have several slots, and slots several groups. */
static void draw_data(const random_graph *g, const tn_program *program, bool many,
                      random_data *data) {
  size_t points[RANDOM_AXES] = {0}, other[RANDOM_AXES] = {0};
  random_points(g, program, 0, WORK, points);
  random_points(g, program, 1, WORK, other);
  if (g->seed % 3 == 1)
    other[0] = 0; /* an empty set */
  for (size_t a = 0; a < RANDOM_AXES && many; ++a) {
    points[a] = (size_t)650 >> a;
    other[a] = (size_t)450 >> a;
  }
  random_data_draw(&data[0], g, 0, points);
  random_data_draw(&data[1], g, 1, points);
  random_data_draw(&data[2], g, 2, other);
}

static const char *const step_words[STEPS] = {"first run",
                                              "the same again, captured",
                                              "replayed",
                                              "half of the leaves on other buffers",
                                              "other numbers in the same buffers",
                                              "other numbers of points"};

static void bind_step(const random_data *data, const random_graph *g, int step, tn_exec *exec) {
  if (step == 0)
    random_data_bind(&data[0], g, exec, 0, 1);
  if (step == 3)
    random_data_bind(&data[1], g, exec, 1, 2);
  if (step == 5)
    random_data_bind(&data[2], g, exec, 0, 1);
}

/* Differing elements of all steps of a graph on the device of the pool. */
static size_t run_graph(uint64_t seed, tn_pool *pool, bool many) {
  random_graph g;
  random_data data[DATA];
  tn_program *program = NULL;
  tn_exec *device = NULL, *host = NULL;
  size_t bad = 0;
  random_graph_open(&g, seed);
  good(tn_compile(g.graph, g.n_outputs, g.output, &program));
  all.nodes += tn_program_nodes(program);
  ++all.programs;
  draw_data(&g, program, many, data);
  good(tn_exec_new(program, NULL, &host));
  good(tn_exec_new(program, pool, &device));
  for (int step = 0; step < STEPS && !bad; ++step) {
    char what[128];
    snprintf(what, sizeof what, "seed %llu, %s", (unsigned long long)seed, step_words[step]);
    for (size_t i = 0; i < 2 && step == 4; ++i)
      random_data_change(&data[i], &g, 10 + i);
    bind_step(data, &g, step, host);
    bind_step(data, &g, step, device);
    bad += compare(device, host, g.n_outputs, what);
  }
  tn_exec_free(&device);
  tn_exec_free(&host);
  tn_program_free(&program);
  for (size_t i = 0; i < DATA; ++i)
    random_data_drop(&data[i]);
  random_graph_close(&g);
  return bad;
}

static void random_programs_give_the_bits_of_the_cpu(void **state) {
  gpu_bench *b = *state;
  size_t bad = 0;
  for (size_t i = 0; i < all.graphs; ++i)
    bad += run_graph(all.first + i, b->pool, false);
  assert_int_equal(bad, 0);
}

/* The kernels are in the cache by now. */
static void settings_change_no_bit(void **state) {
  gpu_bench *b = *state;
  size_t bad = 0;
  assert_int_equal(setenv("PINN_CUDA_GRAPH", "0", 1), 0);
  bad += run_graph(all.first, b->pool, false);
  assert_int_equal(unsetenv("PINN_CUDA_GRAPH"), 0);
  assert_int_equal(setenv("PINN_CUDA_SUMS", "1", 1), 0); /* a part a launch */
  bad += run_graph(all.first, b->pool, true);
  assert_int_equal(setenv("PINN_CUDA_SUMS", "5000", 1), 0); /* a few */
  bad += run_graph(all.first + (all.graphs > 1), b->pool, true);
  assert_int_equal(unsetenv("PINN_CUDA_SUMS"), 0);
  assert_int_equal(bad, 0);
}

/* ---- Points bound while a run may be going on ---- */

enum { SETS = 3, MOST_POINTS = 3000 };

typedef struct squares { /* the sum of x^2 over points, and x^2 */
  tn_graph *graph;
  tn_value x;
  tn_program *program;
  tn_exec *exec;
  tn_buffer *buffer[SETS]; /* buffer k holds k + 1 everywhere */
  size_t n[SETS];
} squares;

static void open_squares(squares *s, tn_pool *pool) {
  *s = (squares){.n = {MOST_POINTS, MOST_POINTS, MOST_POINTS}};
  good(tn_graph_new(&s->graph));
  s->x = tn_input(s->graph, "x", TN_F64, tn_shape_points(tn_axis_new(s->graph, "A")));
  tn_value square = tn_square(s->x), out[] = {tn_sum_all(square), square};
  good(tn_compile(s->graph, 2, out, &s->program));
  good(tn_exec_new(s->program, pool, &s->exec));
  for (size_t k = 0; k < SETS; ++k) {
    good(tn_buffer_new(TN_F64, 1, &s->n[k], &s->buffer[k]));
    double *x = tn_map(s->buffer[k], TN_WRITE);
    for (size_t i = 0; i < s->n[k]; ++i)
      x[i] = (double)(k + 1);
    tn_unmap(s->buffer[k]);
  }
}

static void close_squares(squares *s) {
  for (size_t k = 0; k < SETS; ++k)
    tn_buffer_release(&s->buffer[k]);
  tn_exec_free(&s->exec);
  tn_program_free(&s->program);
  tn_graph_free(&s->graph);
}

static void expect_set(squares *s, size_t k) {
  double sum = 0, want = (double)((k + 1) * (k + 1)), all_squares[MOST_POINTS];
  good(tn_exec_read(s->exec, 0, 1, &sum));
  assert_true(sum == want * MOST_POINTS);
  good(tn_exec_read(s->exec, 1, MOST_POINTS, all_squares));
  for (size_t i = 0; i < MOST_POINTS; ++i)
    assert_true(all_squares[i] == want);
}

/* The next points are bound before the results of the last run are read, in every rhythm of runs, binds and reads. */
static void points_bound_ahead_wait_for_the_next_run(void **state) {
  gpu_bench *b = *state;
  for (int lazy = 0; lazy < 2; ++lazy) {
    squares s;
    if (b->emulator)
      b->emulator->set("lazy", lazy);
    open_squares(&s, b->pool);
    for (size_t rhythm = 1; rhythm < 4; ++rhythm)
      for (size_t k = 0; k < 9; ++k) {
        good(tn_exec_bind(s.exec, s.x, s.buffer[k % SETS]));
        if (k % 4 == 3)
          good(tn_exec_bind(s.exec, s.x, s.buffer[k % SETS]));
        good(tn_exec_run(s.exec));
        good(tn_exec_bind(s.exec, s.x, s.buffer[(k + 1) % SETS]));
        if (k % rhythm == 0)
          expect_set(&s, k % SETS);
      }
    double *x = tn_map(s.buffer[0], TN_WRITE); /* written between bind and run */
    good(tn_exec_bind(s.exec, s.x, s.buffer[0]));
    for (size_t i = 0; i < MOST_POINTS; ++i)
      x[i] = 2;
    tn_unmap(s.buffer[0]);
    x = tn_map(s.buffer[0], TN_WRITE);
    good(tn_exec_run(s.exec));
    expect_set(&s, 1);
    close_squares(&s);
  }
}

/* A call that fails in a run ends that run alone. */
static void a_run_may_be_tried_again(void **state) {
  static const char *const calls[] = {
      "cuLaunchKernel",     "cuMemcpyHtoDAsync",  "cuMemcpyDtoHAsync",
      "cuEventRecord",      "cuGraphLaunch",      "cuMemAlloc",
      "cuStreamEndCapture", "cuGraphInstantiate", "cuStreamBeginCapture"};
  gpu_bench *b = *state;
  size_t failed = 0;
  if (!b->emulator)
    skip();
  b->emulator->set("lazy", 1);
  for (size_t c = 0; c < sizeof calls / sizeof *calls; ++c)
    for (size_t run = 0; run < 4; ++run) {
      squares s;
      open_squares(&s, b->pool);
      good(tn_exec_bind(s.exec, s.x, s.buffer[0]));
      for (size_t k = 0; k < run; ++k)
        good(tn_exec_run(s.exec));
      b->emulator->script(calls[c], 1, CUDA_ERROR_INVALID_VALUE, false);
      failed += tn_exec_run(s.exec) != TN_OK;
      assert_int_equal(b->emulator->misuse(), 0);
      b->emulator->reset(); /* the script, where the call did not come */
      good(tn_exec_bind(s.exec, s.x, s.buffer[2]));
      for (size_t k = 0; k < 3; ++k)
        good(tn_exec_run(s.exec));
      expect_set(&s, 2);
      close_squares(&s);
    }
  print_message("%zu runs failed and were tried again\n", failed);
  assert_true(failed > 8);
}

/* ---- Ranks ---- */

enum { RANK_STEPS = 4, MOST_RANKS = 4 };

/* A program, what is bound to it step by step, and the bytes of its outputs on the CPU. */
typedef struct shared {
  random_graph graph;
  tn_program *program;
  random_data data[DATA];
  void *want[RANK_STEPS][RANDOM_OUTPUTS];
  size_t bytes[RANK_STEPS][RANDOM_OUTPUTS], differing[MOST_RANKS];
  char error[MOST_RANKS][300];
  bool own_devices; /* a device a rank, so by NCCL; else all on one, through the host */
} shared;

static void bind_rank_step(const shared *c, int step, tn_exec *exec) {
  static const int like[RANK_STEPS] = {0, 1, 3, 5};
  bind_step(c->data, &c->graph, like[step], exec);
}

static size_t bytes_of(const tn_buffer *b) {
  return tn_buffer_count(b) *
         (tn_buffer_dtype(b) == TN_BOOL ? 1 : tn_dtype_size(tn_buffer_dtype(b)));
}

static void expect(shared *c) {
  tn_exec *host = NULL;
  good(tn_exec_new(c->program, NULL, &host));
  for (int step = 0; step < RANK_STEPS; ++step) {
    bind_rank_step(c, step, host);
    good(tn_exec_run(host));
    for (size_t i = 0; i < c->graph.n_outputs; ++i) {
      tn_buffer *b = NULL;
      good(tn_exec_output(host, i, &b));
      good(tn_new(1, bytes_of(b) + 1, &c->want[step][i]));
      c->bytes[step][i] = bytes_of(b);
      memcpy(c->want[step][i], tn_map(b, TN_READ), bytes_of(b));
      tn_unmap(b);
    }
  }
  tn_exec_free(&host);
}

/* All steps on this rank's own device. A NaN of other bits counts as a difference; the graphs here have none. */
static tn_status rank_steps(shared *c, tn_pool *pool, size_t *differing) {
  tn_exec *exec = NULL;
  tn_status status = tn_exec_new(c->program, pool, &exec);
  for (int step = 0; step < RANK_STEPS && status == TN_OK; ++step) {
    bind_rank_step(c, step, exec);
    status = tn_exec_run(exec);
    for (size_t i = 0; i < c->graph.n_outputs && status == TN_OK; ++i) {
      tn_buffer *b = NULL;
      status = tn_exec_output(exec, i, &b);
      if (status != TN_OK)
        break;
      *differing += bytes_of(b) != c->bytes[step][i] ||
                    memcmp(tn_map(b, TN_READ), c->want[step][i], bytes_of(b)) != 0;
      tn_unmap(b);
    }
  }
  tn_exec_free(&exec);
  return status;
}

static void rank_body(const ranks_self *self) {
  shared *c = self->context;
  tn_device *device = NULL;
  tn_pool *pool = NULL;
  tn_status status = gpu_open(c->own_devices ? self->rank : 0, &device);
  if (status == TN_OK)
    status = tn_pool_new(1, &pool);
  if (status == TN_OK) {
    tn_pool_ranks(pool, self->comm);
    tn_pool_use(pool, device);
    status = rank_steps(c, pool, &c->differing[self->rank]);
  }
  if (status != TN_OK)
    snprintf(c->error[self->rank], sizeof c->error[0], "%s", tn_error_text());
  tn_pool_free(&pool);
  tn_device_close(&device);
}

/* With 1, 2 and 4 ranks, or with 4 alone, on one device and on a device each. */
static void run_ranks(uint64_t seed, bool few) {
  shared c = {0};
  random_graph_open(&c.graph, seed);
  good(tn_compile(c.graph.graph, c.graph.n_outputs, c.graph.output, &c.program));
  draw_data(&c.graph, c.program, true, c.data);
  expect(&c);
  for (size_t k = few ? 4 : 0; k < 6; ++k) {
    size_t ranks = (size_t)1 << k / 2;
    c.own_devices = k % 2 == 1;
    memset(c.differing, 0, sizeof c.differing);
    ranks_run(ranks, 60, rank_body, &c);
    for (size_t r = 0; r < ranks; ++r)
      if (c.error[r][0] || c.differing[r])
        fail_msg("seed %llu, rank %zu of %zu: %zu outputs differ %s", (unsigned long long)seed, r,
                 ranks, c.differing[r], c.error[r]);
    all.rank_runs += ranks * RANK_STEPS;
  }
  for (int step = 0; step < RANK_STEPS; ++step)
    for (size_t i = 0; i < RANDOM_OUTPUTS; ++i)
      tn_free(&c.want[step][i]);
  tn_program_free(&c.program);
  for (size_t i = 0; i < DATA; ++i)
    random_data_drop(&c.data[i]);
  random_graph_close(&c.graph);
}

static void ranks_give_the_bits_of_one(void **state) {
  gpu_bench *b = *state;
  if (!b->emulator)
    skip();
  b->emulator->set("devices", MOST_RANKS);
  for (size_t i = 0; i < 2 && i < all.graphs; ++i)
    if (!random_is_wild(all.first + i))
      run_ranks(all.first + i, i > 0);
  print_message("%zu gathers by NCCL\n", b->emulator->calls("ncclAllGather"));
  assert_true(b->emulator->calls("ncclAllGather") > 0);
}

/* ---- Rows ---- */

static void rows_applied_have_the_bits_of_the_cpu(void **state) {
  static const struct {
    tn_op_id id;
    tn_dtype dtype;
  } rows[] = {{TN_OP_tanh, TN_F64}, {TN_OP_mul, TN_F32}, {TN_OP_exp, TN_BF16}};
  enum { N = 1000 };
  gpu_bench *b = *state;
  const tn_backend *backend = b->device->backend;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    double x[2][N] = {{0}}, got[N], want[N]; /* room for either format */
    bool wide = rows[r].dtype == TN_F64, two = rows[r].id == TN_OP_mul;
    for (size_t i = 0; i < 2 * N; ++i) {
      double number = tn_round(rows[r].dtype, 3 * tn_random_normal(tn_stream_of(1, "x"), i));
      if (wide)
        x[i / N][i % N] = number;
      else
        ((float *)x[i / N])[i % N] = (float)number;
    }
    good(tn_op_apply(rows[r].id, rows[r].dtype, N, x[0], two ? x[1] : NULL, 0, want));
    good(backend->apply(b->device, NULL, rows[r].id, rows[r].dtype, N, x[0], two ? x[1] : NULL, 0,
                        got));
    assert_memory_equal(got, want, N * (wide ? sizeof(double) : sizeof(float)));
    assert_int_equal(backend->apply(b->device, "nobody", rows[r].id, rows[r].dtype, N, x[0],
                                    two ? x[1] : NULL, 0, got),
                     TN_EUNSUPPORTED);
  }
}

int main(int n, char **argument) {
  const char *seed = n > 1 ? argument[1] : getenv("PINN_TEST_SEED"),
             *graphs = getenv("PINN_TEST_GRAPHS");
  all.first = seed ? strtoull(seed, NULL, 10) : 1;
  if (setenv("PINN_CUDA_PRODUCTS", "own", 1))
    return 1; /* of any width: test_gpu_wide.c has the library's */
  all.graphs = seed ? 1 : graphs ? strtoull(graphs, NULL, 10) : GRAPHS;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_give_the_bits_of_the_cpu),
      cmocka_unit_test(settings_change_no_bit),
      cmocka_unit_test(points_bound_ahead_wait_for_the_next_run),
      cmocka_unit_test(a_run_may_be_tried_again),
      cmocka_unit_test(ranks_give_the_bits_of_one),
      cmocka_unit_test(rows_applied_have_the_bits_of_the_cpu),
  };
  int failed = cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
  print_message("%zu programs of %zu nodes, %zu runs, %zu on ranks, %zu elements compared (%.1f %% "
                "finite, %zu NaN of other bits):\n",
                all.programs, all.nodes, all.runs, all.rank_runs, all.elements,
                100.0 * (double)all.finite / (double)(all.elements ? all.elements : 1),
                all.odd_nan);
  for (int d = 0; d < TN_DTYPES; ++d)
    if (all.dtype[d])
      print_message("  %s %zu\n", tn_dtype_name((tn_dtype)d), all.dtype[d]);
  return failed;
}
