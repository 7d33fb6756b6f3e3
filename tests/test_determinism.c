/* test_determinism.c: a training in low precision has the same bits with any number of threads, every time.
 * ctest: labels=full timeout=600 processors=2
 *
 * 200 steps of Adam on Burgers, weights and moments in f64, loss and gradient by a program in f32 whose products are
 * in f16, a loss scale of 2^12 taken back in f64. 20 runs on executors made anew, without a pool and with 2 and 4
 * threads in turn: one hash of all weights. A run in f32 must have another hash, or nothing was low.
 */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 200, RUNS = 20, POINTS = 700, LEAVES = 2 * NET_LAYERS };

typedef struct training {
  net n;
  tn_program *program;
  size_t leaves, count;
  tn_value leaf[LEAVES];
  size_t own[LEAVES];
} training;

static void open(training *t, bool low) {
  tn_value out[LEAVES + 1];
  memset(t, 0, sizeof *t);
  net_open(&t->n, (net_shape){TN_F32, 2, 1, 20, 4, TN_OP_tanh, true, false});
  tn_value r = net_burgers(&t->n);
  good(net_resolve(&t->n, 1, &r, NULL, NULL));
  t->leaves = net_parameters(&t->n, t->leaf);
  tn_value loss = net_loss(r);
  good(ag_grad(tn_mul(tn_const(t->n.graph, TN_F64, 4096), loss), t->leaves, t->leaf, out));
  out[t->leaves] = loss;
  if (low) good(ag_cast(t->n.graph, &(ag_cast_policy){.low = TN_F16}, t->leaves + 1, out, out));
  good(tn_compile(t->n.graph, t->leaves + 1, out, &t->program));
  for (size_t i = 0; i < t->leaves; ++i) {
    tn_shape shape = tn_shape_of(t->leaf[i]);
    t->count += t->own[i] = tn_shape_width(&shape);
  }
}

static void close(training *t) {
  tn_program_free(&t->program);
  net_close(&t->n);
}

/* Weights as they are first bound: small numbers by index, the same in every run. */
static void first_weights(const training *t, double *theta) {
  tn_stream stream = tn_stream_of(11, "theta");
  for (size_t i = 0; i < t->count; ++i) theta[i] = 0.3 * tn_random_normal(stream, i);
}

static uint64_t run(training *t, tn_pool *pool, double *first, double *last) {
  tn_exec *exec = NULL;
  double *theta = calloc(4 * t->count, sizeof *theta), *m = theta + t->count, *v = m + t->count, *g = v + t->count;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  first_weights(t, theta);
  good(tn_exec_new(t->program, pool, &exec));
  net_bind(&t->n, exec, POINTS);
  for (int step = 1; step <= STEPS; ++step) {
    double *at = theta, *to = g;
    for (size_t i = 0; i < t->leaves; at += t->own[i++]) {
      tn_shape shape = tn_shape_of(t->leaf[i]);
      give(exec, t->leaf[i], shape.rank, shape.extent, at);
    }
    good(tn_exec_run(exec));
    for (size_t i = 0; i < t->leaves; to += t->own[i++]) good(tn_exec_read(exec, i, t->own[i], to));
    good(tn_exec_read(exec, t->leaves, 1, last));
    if (step == 1) *first = *last;
    for (size_t i = 0; i < t->count; ++i) {
      double slope = g[i] / 4096;
      m[i] = 0.9 * m[i] + 0.1 * slope;
      v[i] = 0.999 * v[i] + 0.001 * slope * slope;
      theta[i] -= 2e-3 * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.999, step))) + 1e-8);
    }
  }
  for (size_t i = 0; i < t->count; ++i) {
    uint64_t bits;
    assert_true(isfinite(theta[i]));
    memcpy(&bits, &theta[i], sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x100000001b3);
  }
  tn_exec_free(&exec);
  free(theta);
  return hash;
}

static void threads_and_repeats_change_no_bit(void **state) {
  (void)state;
  training t;
  tn_pool *pool[3] = {NULL};
  double first, last;
  uint64_t hash = 0;
  size_t equal = 0;
  open(&t, true);
  good(tn_pool_new(2, &pool[1]));
  good(tn_pool_new(4, &pool[2]));
  for (int i = 0; i < RUNS; ++i) {
    uint64_t own = run(&t, pool[i % 3], &first, &last);
    if (i == 0) hash = own;
    equal += own == hash;
  }
  printf("determinism: %zu of %d runs of %d steps with 1, 2, 4 threads have hash %016llx; loss %.3g to %.3g\n", equal,
         RUNS, STEPS, (unsigned long long)hash, first, last);
  assert_int_equal(equal, RUNS);
  assert_true(last < first / 2); /* it learns, so the weights have moved */
  close(&t);
  open(&t, false);
  assert_true(run(&t, pool[1], &first, &last) != hash);
  close(&t);
  tn_pool_free(&pool[1]);
  tn_pool_free(&pool[2]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_and_repeats_change_no_bit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
