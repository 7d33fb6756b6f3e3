/* test_pipeline.c: layers split over ranks give the bits of one rank, in less memory a rank.
 * ctest: labels=quick,ranks timeout=300 processors=2
 *
 * Ranks are threads (support_comm.h). On random graphs (support_random_graph.h) the reference executor says what is
 * right; on networks the streamed one, which solves. Every bit counts, but that a NaN may be any NaN, as in
 * test_streamed.c. PINN_TEST_GRAPHS sets how many graphs run (60).
 */
#include "tests/support_comm.h"
#include "tests/support_exec.h"
#include "tests/support_random_graph.h"
#include "tensor/backend.h"
#include "tensor/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST = 4 /* ranks */, ROUNDS = 3, LAYERS = 40, LEAVES = 2 * LAYERS };
static const double LIMIT = 60; /* s of a call: far more than a run takes */

/* ---- Outputs as numbers ---- */

typedef struct results {
  size_t n;
  double *x; /* of all outputs, one after the other */
} results;

static tn_status read_all(tn_exec *exec, size_t n_outputs, results *out) {
  *out = (results){0};
  for (size_t i = 0; i < n_outputs; ++i) {
    tn_buffer *buffer = NULL;
    TN_TRY(tn_exec_output(exec, i, &buffer));
    size_t n = tn_buffer_count(buffer);
    out->x = realloc(out->x, (out->n + n + 1) * sizeof *out->x);
    TN_TRY(
        tn_convert(n, tn_buffer_dtype(buffer), tn_map(buffer, TN_READ), TN_F64, out->x + out->n));
    tn_unmap(buffer);
    out->n += n;
  }
  return TN_OK;
}

static size_t differing(const results *a, const results *b) {
  if (a->n != b->n)
    return SIZE_MAX;
  size_t n = 0;
  for (size_t i = 0; i < a->n; ++i)
    n += memcmp(&a->x[i], &b->x[i], sizeof *a->x) != 0 && !(isnan(a->x[i]) && isnan(b->x[i]));
  return n;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct outcome { /* of one rank */
  tn_status status;
  char text[300];
  size_t differing, compared, bytes;
  uint64_t calls;
  double seconds; /* of a run */
} outcome;

static void note(outcome *o, tn_status status) {
  o->status = status;
  snprintf(o->text, sizeof o->text, "%s", status == TN_OK ? "" : tn_error_text());
}

static void expect_same_bits(const outcome *o, size_t ranks, const char *what) {
  for (size_t r = 0; r < ranks; ++r)
    if (o[r].status != TN_OK || o[r].differing)
      fail_msg("%s, rank %zu of %zu: %zu numbers of %zu differ %s", what, r, ranks, o[r].differing,
               o[r].compared, o[r].text);
}

/* ---- Random graphs ---- */

typedef struct graph_job {
  random_graph g;
  random_data data[ROUNDS];
  const tn_program *program;
  results want[ROUNDS];
  outcome out[MOST];
} graph_job;

static tn_status graph_body(const ranks_self *self, graph_job *job, outcome *o, tn_exec **exec) {
  TN_TRY(tn_exec_pipeline(job->program, self->comm, exec));
  for (size_t round = 0; round < 2 * ROUNDS; ++round) { /* data sets twice: storage is used again */
    results got;
    if (round % 2 == 0)
      random_data_bind(&job->data[round / 2], &job->g, *exec, 0, 1);
    TN_TRY(tn_exec_run(*exec));
    TN_TRY(read_all(*exec, job->g.n_outputs, &got));
    o->differing += differing(&got, &job->want[round / 2]);
    o->compared += got.n;
    free(got.x);
  }
  tn_comm_seconds(self->comm, NULL, &o->calls);
  return TN_OK;
}

static void run_graph(const ranks_self *self) {
  graph_job *job = self->context;
  outcome *o = &job->out[self->rank];
  tn_exec *exec = NULL;
  note(o, graph_body(self, job, o, &exec));
  tn_exec_free(&exec);
}

static void one_graph(uint64_t seed, uint64_t *calls, size_t *compared) {
  graph_job *job = calloc(1, sizeof *job);
  tn_program *program = NULL;
  char what[64];
  random_graph_open(&job->g, seed);
  good(tn_compile(job->g.graph, job->g.n_outputs, job->g.output, &program));
  job->program = program;
  for (uint64_t round = 0; round < ROUNDS; ++round) {
    size_t points[RANDOM_AXES] = {0};
    tn_exec *reference = NULL;
    random_points(&job->g, program, round, 2e5, points);
    random_data_draw(&job->data[round], &job->g, round, points);
    good(tn_exec_reference(program, NULL, &reference));
    random_data_bind(&job->data[round], &job->g, reference, 0, 1);
    good(tn_exec_run(reference));
    good(read_all(reference, job->g.n_outputs, &job->want[round]));
    tn_exec_free(&reference);
  }
  for (size_t ranks = 1; ranks <= MOST; ++ranks) {
    memset(job->out, 0, sizeof job->out);
    ranks_run(ranks, LIMIT, run_graph, job);
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
    expect_same_bits(job->out, ranks, what);
    for (size_t r = 0; r < ranks; ++r)
      *calls += job->out[r].calls, *compared += job->out[r].compared;
  }
  for (size_t round = 0; round < ROUNDS; ++round) {
    random_data_drop(&job->data[round]);
    free(job->want[round].x);
  }
  tn_program_free(&program);
  random_graph_close(&job->g);
  free(job);
}

static void random_graphs_give_the_bits_of_one_rank(void **state) {
  (void)state;
  const char *wish = getenv("PINN_TEST_GRAPHS");
  uint64_t graphs = wish ? strtoull(wish, NULL, 10) : 60, calls = 0;
  size_t compared = 0;
  for (uint64_t seed = 1; seed <= graphs; ++seed)
    one_graph(seed, &calls, &compared);
  print_message(
      "pipeline: %llu graphs on 1 to %d ranks, %zu numbers, 0 differ; %llu calls of ranks\n",
      (unsigned long long)graphs, MOST, compared, (unsigned long long)calls);
  assert_true(calls > 100 * graphs); /* the graphs are really spread */
}

/* ---- Deep networks ---- */

typedef struct
    deep { /* u_t + u u_x - nu u_xx of a network of many layers: loss, and gradients by all weights */
  tn_graph *graph;
  tn_axis axis;
  tn_value x[2], leaf[LEAVES];
  size_t n_leaves, trainable, layers, width, n_outputs;
  tn_program *program;
} deep;

static void deep_body(deep *d, ag_field *field, tn_dtype dtype) {
  tn_value args[2] = {ag_field_argument(field, 0), ag_field_argument(field, 1)},
           h = tn_stack(2, args);
  for (size_t l = 0; l < d->layers; ++l) {
    size_t shape[2] = {l ? d->width : 2, l + 1 < d->layers ? d->width : 1};
    char name[2][24];
    snprintf(name[0], sizeof name[0], "W%zu", l);
    snprintf(name[1], sizeof name[1], "b%zu", l);
    tn_value w = tn_parameter(d->graph, name[0], dtype, tn_shape_fixed(2, shape));
    tn_value b = tn_parameter(d->graph, name[1], dtype, tn_shape_fixed(1, shape + 1));
    d->leaf[d->n_leaves++] = w;
    d->leaf[d->n_leaves++] = b;
    d->trainable += shape[0] * shape[1] + shape[1];
    h = tn_linear(h, w, b, false);
    if (l + 1 < d->layers)
      h = tn_tanh(h);
  }
  tn_value u = tn_reshape(h, tn_shape_points(tn_shape_of(h).axis[0]));
  good(ag_field_body(field, 1, &u));
}

static tn_value deep_d(const deep *d, ag_field *field, uint8_t x, uint8_t t) {
  return ag_call(field, 0, d->x, (uint8_t[TN_MAX_SLOTS]){x, t});
}

/* low: of the matrix products; gradient: else the loss alone. */
static void deep_open(deep *d, size_t layers, size_t width, tn_dtype dtype, tn_dtype low,
                      bool gradient) {
  ag_field *field = NULL;
  tn_value outputs[1 + LEAVES];
  *d = (deep){.layers = layers, .width = width};
  good(tn_graph_new(&d->graph));
  d->axis = tn_axis_new(d->graph, "points");
  for (size_t j = 0; j < 2; ++j)
    d->x[j] = tn_input(d->graph, j ? "t" : "x", dtype, tn_shape_points(d->axis));
  good(ag_field_new(d->graph, "u", 2, dtype, &field));
  deep_body(d, field, dtype);
  tn_value flow =
      tn_add(deep_d(d, field, 0, 1), tn_mul(deep_d(d, field, 0, 0), deep_d(d, field, 1, 0)));
  tn_value nu = tn_const(d->graph, dtype, 0.0625);
  tn_value r = tn_sub(flow, tn_mul(nu, deep_d(d, field, 2, 0)));
  good(ag_resolve(d->graph, 1, &r, NULL, &r, NULL));
  outputs[0] = tn_mean(tn_square(r));
  d->n_outputs = 1;
  if (gradient) {
    good(ag_grad(outputs[0], d->n_leaves, d->leaf, outputs + 1));
    d->n_outputs += d->n_leaves;
  }
  if (low != dtype)
    good(ag_cast(d->graph, &(ag_cast_policy){.low = low}, d->n_outputs, outputs, outputs));
  good(tn_compile(d->graph, d->n_outputs, outputs, &d->program));
}

static void deep_close(deep *d) {
  tn_program_free(&d->program);
  tn_graph_free(&d->graph);
}

static void deep_bind(const deep *d, tn_exec *exec, size_t points) {
  for (size_t j = 0; j < 2; ++j) {
    double *x = draw(j ? "t" : "x", points);
    give(exec, d->x[j], 1, &points, x);
    free(x);
  }
  for (size_t i = 0; i < d->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(d->leaf[i]);
    size_t n = tn_shape_width(&shape);
    double *x = draw(tn_node_of(d->leaf[i])->name, n);
    for (size_t k = 0; k < n; ++k) /* tanh neither saturates nor dies out */
      x[k] = (float)(x[k] / sqrt((double)shape.extent[0]));
    give(exec, d->leaf[i], shape.rank, shape.extent, x);
    free(x);
  }
}

typedef struct deep_job {
  const deep *d;
  size_t points;
  results want;
  outcome out[MOST];
  size_t owned[MOST]; /* nodes of each rank, as rank 0 sees it */
} deep_job;

static tn_status deep_steps(const ranks_self *self, deep_job *job, outcome *o, tn_exec **exec) {
  results got;
  TN_TRY(tn_exec_pipeline(job->d->program, self->comm, exec));
  deep_bind(job->d, *exec, job->points);
  double start = now();
  TN_TRY(tn_exec_run(*exec));
  o->seconds = now() - start;
  TN_TRY(read_all(*exec, job->d->n_outputs, &got));
  o->differing = differing(&got, &job->want);
  o->compared = got.n;
  o->bytes = tn_exec_bytes(*exec);
  free(got.x);
  for (size_t i = 0; self->rank == 0 && i < job->d->program->n_nodes; ++i)
    if (job->d->program->nodes[i]->op->id == TN_OP_jet_lin)
      ++job->owned[(*exec)->pipeline->owner[i]];
  return TN_OK;
}

static void run_deep(const ranks_self *self) {
  deep_job *job = self->context;
  tn_exec *exec = NULL;
  note(&job->out[self->rank], deep_steps(self, job, &job->out[self->rank], &exec));
  tn_exec_free(&exec);
}

static void networks_give_the_bits_of_the_streamed_executor(void **state) {
  (void)state;
  static const struct {
    const char *name;
    tn_dtype dtype, low;
    size_t layers, width, points;
  } cases[] = {{"f64", TN_F64, TN_F64, 9, 20, 3000},    {"f32", TN_F32, TN_F32, 9, 20, 3000},
               {"bf16", TN_F32, TN_BF16, 6, 16, 1500},  {"f16", TN_F32, TN_F16, 3, 70, 300},
               {"few points", TN_F64, TN_F64, 5, 8, 3}, {"one layer", TN_F64, TN_F64, 1, 1, 700}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    deep d;
    tn_exec *alone = NULL;
    deep_open(&d, cases[i].layers, cases[i].width, cases[i].dtype, cases[i].low, true);
    deep_job job = {.d = &d, .points = cases[i].points};
    good(tn_exec_new(d.program, NULL, &alone));
    deep_bind(&d, alone, job.points);
    good(tn_exec_run(alone));
    good(read_all(alone, d.n_outputs, &job.want));
    tn_exec_free(&alone);
    for (size_t ranks = 1; ranks <= MOST; ++ranks) {
      memset(job.out, 0, sizeof job.out);
      memset(job.owned, 0, sizeof job.owned);
      ranks_run(ranks, LIMIT, run_deep, &job);
      expect_same_bits(job.out, ranks, cases[i].name);
      for (size_t r = 0; r < ranks && cases[i].layers >= 9; ++r)
        assert_true(job.owned[r] > 0); /* every rank has some of the layers */
    }
    print_message("pipeline: %s, %zu layers of %zu: %zu numbers, 0 differ\n", cases[i].name,
                  cases[i].layers, cases[i].width, job.want.n);
    free(job.want.x);
    deep_close(&d);
  }
}

/* What is split are partial sums and values with points. Every rank has these of P trainable numbers whole, 8 bytes
 * each: place of theta, gradient, and the sums of all ranks when they meet (at most twice P, for one's own are sent
 * from a copy): 4 P. The rest of the fullest rank may be 1.5 times its share: layers are not cut, so of 24 one rank
 * of four has 6 or 7 (1.17), and the first rank holds values of the most micro-batches. */
static void memory_of_a_rank_falls_with_ranks(void **state) {
  (void)state;
  deep d;
  size_t most[MOST + 1] = {0};
  deep_open(&d, 24, 32, TN_F64, TN_F64, true);
  deep_job job = {.d = &d, .points = 8192};
  for (size_t ranks = 1; ranks <= MOST; ++ranks) {
    memset(job.out, 0, sizeof job.out);
    ranks_run(ranks, LIMIT, run_deep, &job);
    for (size_t r = 0; r < ranks; ++r) {
      assert_int_equal(job.out[r].status, TN_OK);
      most[ranks] = job.out[r].bytes > most[ranks] ? job.out[r].bytes : most[ranks];
    }
    print_message(
        "pipeline: 24 layers of 32, %zu points: fullest of %zu ranks %.2f MiB, %.2f of one alone\n",
        job.points, ranks, (double)most[ranks] / 1048576, (double)most[ranks] / (double)most[1]);
    size_t whole = 4 * 8 * d.trainable;
    assert_true((double)(most[ranks] - whole) <= 1.5 * (double)most[1] / (double)ranks);
  }
  deep_close(&d);
}

/* ---- Order and failures ---- */

static void run_delayed(const ranks_self *self) {
  if (self->rank == 1)
    ranks_delay(self->world, 1, 0.004);
  run_deep(self);
}

/* A loss alone goes forwards only: the first rank depends on nobody. It must still wait for the last one, or messages
 * would pile up: with replies of 4 ms, and one reply at least a window of 2 micro-batches (two levels), 32 micro-
 * batches take at least 15 replies. */
static void ranks_ahead_wait_for_ranks_behind(void **state) {
  (void)state;
  deep d;
  deep_open(&d, 8, 8, TN_F64, TN_F64, false);
  deep_job job = {.d = &d, .points = 32 * 64};
  tn_exec *alone = NULL;
  good(tn_exec_new(d.program, NULL, &alone));
  deep_bind(&d, alone, job.points);
  good(tn_exec_run(alone));
  good(read_all(alone, d.n_outputs, &job.want));
  tn_exec_free(&alone);
  ranks_run(2, LIMIT, run_delayed, &job);
  expect_same_bits(job.out, 2, "replies that take 4 ms");
  assert_true(job.out[0].seconds >= 15 * 0.004);
  free(job.want.x);
  deep_close(&d);
}

/* ---- At the same time ---- */

/* x/2, and a pause for every 64 numbers: work that needs no core, so that ranks can be seen to work at the same time
 * wherever this runs. */
static double slow_half(void *context, const double *x) {
  static _Thread_local unsigned calls;
  (void)context;
  if (++calls % 64 == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return x[0] / 2;
}

static tn_value slow_slope(void *context, size_t by, const tn_value *x, tn_value y) {
  (void)by, (void)y;
  return tn_apply(*(const tn_op **)context, 1,
                  x); /* no slope of it: the backward pass is as slow, that is all */
}

/* Layers of one unit: 16 pauses a group of 64 points, 8 forwards and 8 back. */
static void chain_open(deep *d, const tn_op *slow) {
  enum { DEPTH = 8 };
  tn_value outputs[1 + LEAVES];
  *d = (deep){.layers = DEPTH, .width = 1};
  good(tn_graph_new(&d->graph));
  d->axis = tn_axis_new(d->graph, "points");
  for (size_t j = 0; j < 2; ++j)
    d->x[j] = tn_input(d->graph, j ? "t" : "x", TN_F64, tn_shape_points(d->axis));
  tn_value h = tn_stack(2, d->x);
  for (size_t l = 0; l < DEPTH; ++l) {
    char name[24];
    snprintf(name, sizeof name, "W%zu", l);
    d->leaf[d->n_leaves++] =
        tn_parameter(d->graph, name, TN_F64, tn_shape_fixed(2, (size_t[]){l ? 1 : 2, 1}));
    h = tn_linear(h, d->leaf[l], (tn_value){0}, false);
    h = tn_apply(slow, 1, &h);
  }
  outputs[0] = tn_sum(tn_reshape(h, tn_shape_points(d->axis)), 0);
  good(ag_grad(outputs[0], d->n_leaves, d->leaf, outputs + 1));
  d->n_outputs = 1 + d->n_leaves;
  good(tn_compile(d->graph, d->n_outputs, outputs, &d->program));
}

/* 16 groups: 16 16 pauses of 1 ms on one rank; two ranks have half of them each, and one of 16 micro-batches more to
 * fill and to empty the pipeline: 0.53 of the time. Without overlap it is 1. Other work on the machine only lengthens
 * a run, so one pair of several suffices. */
static void ranks_work_at_the_same_time(void **state) {
  (void)state;
  const tn_op *slow = NULL, *slower = NULL;
  const tn_custom slope = {.name = "slow_slope", .n_inputs = 1, .f64 = slow_half};
  good(tn_op_register(&slope, &slower));
  const tn_custom half = {.name = "slow_half",
                          .n_inputs = 1,
                          .f64 = slow_half,
                          .derivative = slow_slope,
                          .context = &slower};
  good(tn_op_register(&half, &slow));
  deep d;
  chain_open(&d, slow);
  deep_job job = {.d = &d, .points = 16 * 64};
  double best = INFINITY;
  for (int i = 0; i < 8 && best > 0.85; ++i) {
    double seconds[3] = {0};
    for (size_t ranks = 1; ranks <= 2; ++ranks) {
      ranks_run(ranks, LIMIT, run_deep, &job);
      for (size_t r = 0; r < ranks; ++r)
        assert_int_equal(job.out[r].status, TN_OK);
      seconds[ranks] = job.out[0].seconds;
    }
    print_message("pipeline: 16 pauses a group: %.0f ms on one rank, %.0f on two\n",
                  1e3 * seconds[1], 1e3 * seconds[2]);
    best = fmin(best, seconds[2] / seconds[1]);
  }
  assert_true(best <= 0.85);
  deep_close(&d);
  tn_op_unregister(&slow);
  tn_op_unregister(&slower);
}

static void run_other_points(const ranks_self *self) {
  deep_job *job = self->context;
  deep_job own = *job;
  own.points += self->rank == 1;
  tn_exec *exec = NULL;
  note(&job->out[self->rank], deep_steps(self, &own, &own.out[self->rank], &exec));
  tn_exec_free(&exec);
}

static void ranks_with_other_points_are_refused(void **state) {
  (void)state;
  deep d;
  deep_open(&d, 4, 8, TN_F64, TN_F64, true);
  deep_job job = {.d = &d, .points = 300};
  ranks_run(3, LIMIT, run_other_points, &job);
  for (size_t r = 0; r < 3; ++r) {
    assert_int_equal(job.out[r].status, TN_ESTATE);
    assert_non_null(strstr(job.out[r].text, "the program of the pipeline"));
  }
  deep_close(&d);
}

static void run_silenced(const ranks_self *self) {
  deep_job *job = self->context;
  tn_exec *exec = NULL;
  tn_status status = tn_exec_pipeline(job->d->program, self->comm, &exec);
  if (status == TN_OK) {
    deep_bind(job->d, exec, job->points);
    status = tn_exec_run(exec);
  }
  if (status == TN_OK &&
      self->rank == 1) { /* goes away between two runs; the roll call takes a second */
    ranks_silence(self->world, 1);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 600000000}, NULL);
  } else if (status == TN_OK)
    status = tn_exec_run(exec);
  note(&job->out[self->rank], status);
  tn_exec_free(&exec);
}

static void a_lost_rank_ends_the_others(void **state) {
  (void)state;
  deep d;
  deep_open(&d, 6, 8, TN_F64, TN_F64, true);
  deep_job job = {.d = &d, .points = 1000};
  ranks_run(3, 0.3, run_silenced, &job);
  assert_int_equal(job.out[1].status, TN_OK);
  for (size_t r = 0; r < 3; r += 2) {
    assert_int_equal(job.out[r].status, TN_EPEER);
    if (!strstr(job.out[r].text, "rank 1"))
      fail_msg("rank %zu: %s", r, job.out[r].text);
  }
  deep_close(&d);
}

/* Through the pool: a pipeline on the CPU, a refusal on a device. */
static void run_pool(const ranks_self *self) {
  static const tn_backend backend = {.name = "toy"};
  tn_device device = {.backend = &backend};
  deep_job *job = self->context;
  outcome *o = &job->out[self->rank];
  tn_pool *pool = NULL;
  tn_exec *exec = NULL;
  tn_status status = tn_pool_new(1, &pool);
  if (status == TN_OK) {
    tn_pool_ranks(pool, self->comm);
    tn_pool_split(pool, TN_SPLIT_LAYERS);
    status = tn_exec_new(job->d->program, pool, &exec);
    o->compared = exec && exec->pipeline;
    tn_exec_free(&exec);
  }
  if (status == TN_OK) {
    tn_pool_use(pool, &device);
    status = tn_exec_new(job->d->program, pool, &exec);
  }
  note(o, status);
  tn_pool_free(&pool);
}

static void a_pool_can_split_layers(void **state) {
  (void)state;
  tn_pool *pool = NULL;
  good(tn_pool_new(1, &pool));
  assert_int_equal(tn_pool_split_of(NULL), TN_SPLIT_POINTS);
  assert_int_equal(tn_pool_split_of(pool), TN_SPLIT_POINTS);
  tn_pool_split(pool, TN_SPLIT_LAYERS);
  assert_int_equal(tn_pool_split_of(pool), TN_SPLIT_LAYERS);
  deep d;
  tn_exec *exec = NULL;
  deep_open(&d, 3, 8, TN_F64, TN_F64, true);
  good(tn_exec_new(d.program, pool, &exec)); /* alone there is nothing to split */
  assert_null(exec->pipeline);
  tn_exec_free(&exec);
  deep_job job = {.d = &d};
  ranks_run(2, LIMIT, run_pool, &job);
  for (size_t r = 0; r < 2; ++r) {
    assert_int_equal(job.out[r].compared, 1);
    assert_int_equal(job.out[r].status, TN_EUNSUPPORTED);
    assert_non_null(strstr(job.out[r].text, "`toy`"));
  }
  deep_close(&d);
  tn_pool_free(&pool);
}

/* Every allocation that can fail does: a status, no leak, and the next try works. */
static void failed_allocations_are_reported(void **state) {
  (void)state;
  deep d;
  deep_open(&d, 4, 8, TN_F64, TN_F64, true);
  size_t before = tn_memory_now();
  for (uint64_t n = 1;; ++n) {
    tn_exec *exec = NULL;
    tn_fault_at(n, false);
    tn_status status = tn_exec_pipeline(d.program, NULL, &exec);
    tn_fault_at(0, false);
    if (status == TN_OK) {
      deep_bind(&d, exec, 200);
      tn_fault_at(n, false);
      status = tn_exec_run(exec);
      uint64_t count = tn_fault_count();
      tn_fault_at(0, false);
      if (status == TN_OK && count < n) {
        tn_exec_free(&exec);
        break;
      }
      assert_int_equal(status, TN_ENOMEM);
      good(tn_exec_run(exec));
    }
    tn_exec_free(&exec);
    assert_int_equal(tn_memory_now(), before);
  }
  deep_close(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_give_the_bits_of_one_rank),
      cmocka_unit_test(networks_give_the_bits_of_the_streamed_executor),
      cmocka_unit_test(memory_of_a_rank_falls_with_ranks),
      cmocka_unit_test(ranks_ahead_wait_for_ranks_behind),
      cmocka_unit_test(ranks_work_at_the_same_time),
      cmocka_unit_test(ranks_with_other_points_are_refused),
      cmocka_unit_test(a_lost_rank_ends_the_others),
      cmocka_unit_test(a_pool_can_split_layers),
      cmocka_unit_test(failed_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
