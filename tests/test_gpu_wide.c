/* test_gpu_wide.c: networks wider than the fused kernels are meant for, on the emulated device.
 * ctest: labels=full,gpu timeout=300 processors=2
 *
 * The loss of a Burgers residual and its gradient, with a network of width 96. PINN_CUDA_PRODUCTS=own: the fused
 * kernels, 0 differing bits. By cuBLASLt: the order of sums is the library's, so MPFR judges, by the error in units of
 * the roundoff of the expected size of each number (c), which may be 12 as for any sum of products on a GPU. Chunks
 * and ranks change no bit of either.
 */
#include "tensor/exec.h"
#include "tests/support_comm.h"
#include "tests/support_gpu_bench.h"
#include "tests/support_net.h"
#include "validate/mp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 1 + 2 * NET_LAYERS, BITS = 160, RANKS = 3 };

typedef struct wide {
  net net;
  tn_value value[VALUES]; /* loss, gradient, residual */
  size_t n_values;
} wide;

static void open_wide(wide *w, tn_dtype dtype, tn_dtype low, bool pure) {
  tn_value parameter[2 * NET_LAYERS];
  net_open(&w->net, (net_shape){.dtype = dtype,
                                .n_in = 2,
                                .n_out = 1,
                                .width = 96,
                                .n_layers = 3,
                                .activation = TN_OP_tanh,
                                .biased = true});
  tn_value residual = net_burgers(&w->net);
  w->value[0] = net_loss(residual);
  w->value[1] = residual;
  good(net_resolve(&w->net, 2, w->value, NULL, NULL));
  w->n_values = 2 + net_parameters(&w->net, parameter);
  good(ag_grad(w->value[0], w->n_values - 2, parameter, w->value + 2));
  if (low == dtype)
    return;
  const ag_cast_policy policy = {.low = low, .pure = pure};
  good(ag_cast(w->net.graph, &policy, w->n_values, w->value, w->value));
}

/* The values at so many points, with the products by `who`, on the pool. free(). */
static double *run(const wide *w, const char *who, tn_pool *pool, size_t points, size_t *count) {
  assert_int_equal(setenv("PINN_CUDA_PRODUCTS", who, 1), 0);
  double *x = net_run(&w->net, w->n_values, w->value, tn_exec_new, pool, points, count);
  assert_int_equal(unsetenv("PINN_CUDA_PRODUCTS"), 0);
  return x;
}

static void own_products_have_the_bits_of_the_cpu(void **state) {
  gpu_bench *b = *state;
  static const size_t points[] = {1, 300};
  for (int f32 = 0; f32 < 2; ++f32) {
    wide w;
    size_t count;
    open_wide(&w, f32 ? TN_F32 : TN_F64, f32 ? TN_F32 : TN_F64, false);
    for (size_t i = 0; i < sizeof points / sizeof *points; ++i) {
      double *want = run(&w, "own", NULL, points[i], &count),
             *got = run(&w, "own", b->pool, points[i], &count);
      assert_int_equal(net_differing(got, want, count), 0);
      free(want);
      free(got);
    }
    net_close(&w.net);
  }
}

/* All values of a run against MPFR, judged in the roundoff of the network's dtype (the loss is an f64 of its sums). */
static vd_measure judge(const wide *w, tn_pool *pool, size_t points) {
  net_job job;
  vd_replay *replay = NULL;
  vd_measure m = {0};
  net_start(&job, &w->net, w->n_values, w->value, tn_exec_new, pool, points);
  double *got = net_result(&job), *at = got;
  good(vd_replay_new(job.program, BITS, &replay));
  for (uint32_t i = 0; i < tn_program_nodes(job.program); ++i) {
    if (job.exec->bound[i])
      good(vd_replay_bind(replay, i, job.exec->bound[i]));
  }
  good(vd_replay_run(replay));
  for (size_t v = 0; v < job.n_values; at += job.own[v++]) {
    tn_edge e = tn_program_output(job.program, v);
    for (size_t i = 0; i < job.own[v]; ++i)
      vd_measure_add(&m, w->net.dtype, at[i], vd_replay_at(replay, e.node, e.port, i),
                     vd_replay_scale(replay, e.node, e.port, i), (double)i);
  }
  vd_replay_free(&replay);
  net_stop(&job);
  free(got);
  return m;
}

static double size_of_error(const vd_measure *m) { return m->error_scale * sqrt(m->error_sum); }

/* c scales with the absolute values along every path, which is far more than what a sum loses; that the library's order
 * of sums is as good as the CPU's is seen beside: four times its error in the 2-norm. */
static void products_of_the_library_are_as_exact(void **state) {
  gpu_bench *b = *state;
  size_t numbers = 0, before = b->emulator ? b->emulator->calls("cublasLtMatmul") : 0;
  for (int f32 = 0; f32 < 2; ++f32) {
    wide w;
    double most = 0, ratio = 0;
    open_wide(&w, f32 ? TN_F32 : TN_F64, f32 ? TN_F32 : TN_F64, false);
    for (size_t points = 1; points <= 200; points = 12 * points + 4) {
      vd_measure device = judge(&w, b->pool, points), host = judge(&w, NULL, points);
      if (!(device.max_c <= most))
        most = device.max_c;
      if (!(size_of_error(&device) <= ratio * size_of_error(&host)))
        ratio = size_of_error(&device) / size_of_error(&host);
      numbers += (size_t)device.n;
    }
    print_message("%s by cuBLASLt: c at most %.3g, error at most %.2f of the CPU's\n",
                  f32 ? "f32" : "f64", most, ratio);
    assert_true(most <= 12);
    assert_true(ratio <= 4);
    net_close(&w.net);
  }
  print_message("%zu numbers judged\n", numbers);
  if (!b->emulator)
    return;
  print_message("%zu products by the library\n", b->emulator->calls("cublasLtMatmul") - before);
  assert_true(b->emulator->calls("cublasLtMatmul") > before);
}

/* Mixed: matrix inputs are rounded to f16, all else is f32. What goes into products is the same on the CPU and here, and
 * products of two f16 are exact in f32, so only orders of f32 sums differ, and now and then a rounding to f16, which is
 * 2^-11 of one number. Pure: everything is rounded to bf16 after each operation, so that a sum that falls to the other
 * side is 2^-8 of its number away. */
static void products_of_low_formats_are_close(void **state) {
  gpu_bench *b = *state;
  for (int pure = 0; pure < 2; ++pure) {
    wide w;
    size_t count;
    open_wide(&w, TN_F32, pure ? TN_BF16 : TN_F16, pure);
    double *want = run(&w, "own", NULL, 150, &count), *own = run(&w, "own", b->pool, 150, &count);
    double *got = run(&w, "cublaslt", b->pool, 150, &count), distance = 0, size = 0;
    assert_int_equal(net_differing(own, want, count), 0);
    for (size_t i = 0; i < count; ++i) {
      distance += (got[i] - want[i]) * (got[i] - want[i]);
      size += want[i] * want[i];
    }
    print_message("%s by cuBLASLt: %.2e away from the CPU\n", pure ? "pure bf16" : "mixed f16",
                  sqrt(distance / size));
    assert_true(distance <= (pure ? 0x1p-16 : 0x1p-22) * size);
    free(want);
    free(own);
    free(got);
    net_close(&w.net);
  }
}

/* ---- Chunks and ranks ---- */

enum { POINTS = 700 };

typedef struct shared {
  wide w;
  tn_program *program;
  double *want; /* loss and gradient */
  size_t own[VALUES], count, bad[RANKS];
  char error[RANKS][300];
} shared;

static tn_status on_rank(shared *c, tn_pool *pool, size_t rank) {
  tn_exec *exec = NULL;
  double *x = NULL, *at;
  tn_status status = tn_exec_new(c->program, pool, &exec);
  if (status == TN_OK)
    status = TN_NEW(c->count + 1, &x);
  at = x;
  if (status == TN_OK)
    net_bind(&c->w.net, exec, POINTS);
  for (int again = 0; again < 2 && status == TN_OK; ++again)
    status = tn_exec_run(exec);
  for (size_t v = 0; v < c->w.n_values && status == TN_OK; at += c->own[v++])
    status = tn_exec_read(exec, v, c->own[v], at);
  if (status == TN_OK)
    c->bad[rank] = net_differing(x, c->want, c->count);
  tn_free(&x);
  tn_exec_free(&exec);
  return status;
}

static void rank_body(const ranks_self *self) {
  shared *c = self->context;
  tn_device *device = NULL;
  tn_pool *pool = NULL;
  tn_status status = gpu_open(0, &device);
  if (status == TN_OK)
    status = tn_pool_new(1, &pool);
  if (status == TN_OK) {
    tn_pool_ranks(pool, self->comm);
    tn_pool_use(pool, device);
    status = on_rank(c, pool, self->rank);
  }
  if (status != TN_OK)
    snprintf(c->error[self->rank], sizeof c->error[0], "%s", tn_error_text());
  tn_pool_free(&pool);
  tn_device_close(&device);
}

static void chunks_and_ranks_change_no_bit(void **state) {
  gpu_bench *b = *state;
  shared c = {0};
  net_job job;
  open_wide(&c.w, TN_F64, TN_F64, false);
  net_start(&job, &c.w.net, c.w.n_values, c.w.value, tn_exec_new, b->pool, POINTS);
  c.want = net_result(&job);
  c.count = job.count;
  memcpy(c.own, job.own, c.w.n_values * sizeof *c.own);
  net_stop(&job);
  assert_int_equal(setenv("PINN_CUDA_SUMS", "1", 1), 0); /* a group a chunk */
  size_t count;
  double *got = run(&c.w, "cublaslt", b->pool, POINTS, &count);
  assert_int_equal(unsetenv("PINN_CUDA_SUMS"), 0);
  assert_int_equal(net_differing(got, c.want, count), 0);
  free(got);
  good(tn_compile(c.w.net.graph, c.w.n_values, c.w.value, &c.program));
  for (size_t ranks = 2; ranks <= RANKS; ++ranks) {
    ranks_run(ranks, 60, rank_body, &c);
    for (size_t r = 0; r < ranks; ++r)
      if (c.error[r][0] || c.bad[r])
        fail_msg("rank %zu of %zu: %zu numbers differ %s", r, ranks, c.bad[r], c.error[r]);
  }
  tn_program_free(&c.program);
  free(c.want);
  net_close(&c.w.net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(own_products_have_the_bits_of_the_cpu),
      cmocka_unit_test(products_of_the_library_are_as_exact),
      cmocka_unit_test(products_of_low_formats_are_close),
      cmocka_unit_test(chunks_and_ranks_change_no_bit),
  };
  return cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
}
