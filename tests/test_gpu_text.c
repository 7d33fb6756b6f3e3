/* test_gpu_text.c: the text of kernels: one program has one text, what has no kernel is refused by name, and the
 * kernels give the bits of the streamed executor.
 * ctest: labels=quick timeout=300
 *
 * The samples (support_gpu_samples.h) have every kind of step: products with weights in and out of shared memory, strip
 * programs, sums by lanes and by points, structure, rows, masks, low formats, casts between panels. Their kernels are
 * compiled for the host by the emulated device and run for numbers of points around a lane, a panel and a group, with
 * the threads of a block in another order each time.
 * Every bit counts, but that a NaN may be any NaN.
 *
 * PINN_TEST_ALL takes all samples, not the short list. `test_gpu_text --texts FOLDER` writes the text of each sample
 * to FOLDER/<sample>_<dtype>_<width>.cu instead of testing: for the compilers of the toolkit (test_gpu_compile.sh).
 */
#include "cuda/source.h"
#include "tests/support_gpu_bench.h"
#include "tests/support_gpu_samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const size_t n_points[] = {1, 7, 8, 63, 64, 65, 200, 1000};
enum { N_POINTS = sizeof n_points / sizeof *n_points };

static gpu_source *source_of(const net *n, size_t count, const tn_value *out) {
  tn_program *program = NULL;
  tn_plan *plan = NULL;
  gpu_source *source = NULL;
  good(tn_compile(n->graph, count, out, &program));
  good(tn_plan_new(program, &plan));
  good(gpu_source_new(program, plan, &source));
  tn_plan_free(&plan);
  tn_program_free(&program);
  return source;
}

static gpu_source *source_of_sample(const sample *s) {
  net n;
  tn_value out[SAMPLE_OUTPUTS];
  size_t count = sample_open(s, &n, out);
  gpu_source *source = source_of(&n, count, out);
  net_close(&n);
  return source;
}

/* ---- Text ---- */

static void a_program_has_one_text(void **state) {
  (void)state;
  size_t bytes = 0;
  for (size_t i = 0; i < n_samples; ++i) {
    gpu_source *a = source_of_sample(&samples[i]), *b = source_of_sample(&samples[i]);
    assert_string_equal(a->text, b->text);
    bytes += strlen(a->text);
    assert_int_equal(a->n_steps, b->n_steps);
    for (size_t k = 0; k < a->n_steps; ++k) {
      const gpu_step *step = &a->steps[k];
      char head[64];
      snprintf(head, sizeof head, " %s(gpu_", step->kernel);
      assert_non_null(strstr(a->text, head)); /* the kernel is there */
      if (k) assert_true(a->steps[k - 1].stage <= step->stage);
      assert_true(step->shared <= 99u << 10); /* a block's room on GPUs since 8.0 */
      if (step->kind != GPU_STEP_LOOP) continue;
      assert_true(step->loop->tile_bytes % 512 == 0 && step->loop->part_bytes % 64 == 0);
    }
    gpu_source_free(&a);
    gpu_source_free(&b);
  }
  print_message("%zu programs, %zu bytes of text\n", n_samples, bytes);
}

/* ---- Refusals ---- */

static double cube(void *context, const double *x) {
  (void)context;
  return x[0] * x[0] * x[0];
}
static tn_status copy(void *context, const tn_array *x, const tn_array *y) {
  (void)context;
  memcpy(y->data, x->data, x->count * (x->dtype == TN_F64 ? sizeof(double) : sizeof(float)));
  return TN_OK;
}

static void expect_refused(const tn_custom *custom, const char *advice) {
  const tn_op *op = NULL;
  net n;
  tn_program *program = NULL;
  tn_plan *plan = NULL;
  gpu_source *source = NULL;
  char why[160];
  good(tn_op_register(custom, &op));
  net_open(&n, (net_shape){TN_F64, 2, 1, 8, 2, TN_OP_tanh, true, false});
  tn_at(n.graph, "wave.toml", 12, 7, "mystery(x)");
  tn_value y = tn_sum(tn_tanh(tn_apply(op, 1, n.x)), 0);
  good(tn_compile(n.graph, 1, &y, &program));
  good(tn_plan_new(program, &plan));
  assert_int_equal(gpu_source_new(program, plan, &source), TN_EUNSUPPORTED);
  assert_null(source);
  assert_non_null(strstr(tn_error_text(), custom->name));
  assert_non_null(strstr(tn_error_text(), "wave.toml:12:7"));
  assert_non_null(strstr(tn_error_text(), advice));
  size_t refused = 0;
  for (size_t i = 0; i < tn_program_nodes(program); ++i) refused += !gpu_supports_node(program, i, why);
  assert_int_equal(refused, 1);
  tn_plan_free(&plan);
  tn_program_free(&program);
  net_close(&n);
  tn_op_unregister(&op);
}

static void functions_of_the_host_are_refused_by_name(void **state) {
  (void)state;
  expect_refused(&(tn_custom){.name = "mystery_cube", .n_inputs = 1, .f64 = cube}, "meaning");
  expect_refused(&(tn_custom){.name = "mystery_copy", .n_inputs = 1, .forward = copy}, "whole arrays");
}

static void rows_without_kernel_are_refused_by_name(void **state) {
  (void)state;
  char *text = NULL;
  for (int id = 0; id < TN_OPS; ++id) {
    const tn_op *row = tn_op_row((tn_op_id)id);
    tn_status status = gpu_source_of_row((tn_op_id)id, TN_F32, &text);
    double x = 0.5, y = 0;
    float in = (float)x, out = (float)y; /* the CPU has a kernel for the same rows */
    tn_status host = tn_op_apply((tn_op_id)id, TN_F32, 1, &in, row->arity == 2 ? &in : NULL, 1, &out);
    assert_int_equal(status == TN_OK, host == TN_OK);
    if (status == TN_OK) {
      assert_non_null(strstr(text, " apply("));
      tn_free(&text);
      continue;
    }
    assert_null(text);
    assert_int_equal(gpu_source_of_row((tn_op_id)id, TN_F32, &text), TN_EUNSUPPORTED);
    assert_non_null(strstr(tn_error_text(), row->name));
  }
  assert_int_equal(gpu_source_of_row(TN_OPS, TN_F32, &text), TN_ERANGE);
  assert_int_equal(gpu_source_of_row(TN_OP_tanh, TN_BOOL, &text), TN_EDTYPE);
}

/* ---- Bits ---- */

static size_t differing(tn_exec *device, tn_exec *host, const sample *s, size_t output, size_t points, size_t *count) {
  tn_buffer *got = NULL, *want = NULL;
  good(tn_exec_output(device, output, &got));
  good(tn_exec_output(host, output, &want));
  size_t n = tn_buffer_count(want), bad = 0;
  double *x = NULL, *y = NULL;
  assert_int_equal(tn_buffer_count(got), n);
  good(TN_NEW(n, &x));
  good(TN_NEW(n, &y));
  good(tn_exec_read(device, output, n, x));
  good(tn_exec_read(host, output, n, y));
  for (size_t i = 0; i < n; ++i) {
    if (memcmp(&x[i], &y[i], sizeof *x) == 0 || (isnan(x[i]) && isnan(y[i]))) continue;
    if (!bad++)
      print_message("  %s %s, %zu points: output %zu, element %zu is %a, expected %a\n", s->name,
                    tn_dtype_name(s->dtype), points, output, i, x[i], y[i]);
  }
  tn_free(&x);
  tn_free(&y);
  *count += n;
  return bad;
}

static void kernels_give_the_bits_of_the_cpu(void **state) {
  const gpu_bench *bench = *state;
  bool everything = getenv("PINN_TEST_ALL") != NULL;
  setenv("PINN_CUDA_PRODUCTS", "own", 1); /* wide products by own kernels, not by a library */
  size_t programs = 0, numbers = 0, bad = 0;
  for (size_t i = 0; i < n_samples; ++i) {
    const sample *s = &samples[i];
    net n;
    tn_value out[SAMPLE_OUTPUTS];
    tn_program *program = NULL;
    tn_exec *device = NULL, *host = NULL;
    if (!everything && !s->quick) continue;
    size_t count = sample_open(s, &n, out);
    good(tn_compile(n.graph, count, out, &program));
    good(tn_exec_new(program, NULL, &host));
    good(tn_exec_new(program, bench->pool, &device));
    for (size_t k = 0; k < N_POINTS; ++k) {
      bench->emulator->set("shuffle", (long)k); /* another order of threads: a missing barrier would show */
      net_bind(&n, device, n_points[k]);
      net_bind(&n, host, n_points[k]);
      good(tn_exec_run(device));
      good(tn_exec_run(host));
      for (size_t j = 0; j < count; ++j) bad += differing(device, host, s, j, n_points[k], &numbers);
    }
    ++programs;
    tn_exec_free(&device);
    tn_exec_free(&host);
    tn_program_free(&program);
    net_close(&n);
  }
  bench->emulator->set("shuffle", 0);
  print_message("%zu programs x %d numbers of points, %zu numbers compared, differing bits: %zu\n", programs, N_POINTS,
                numbers, bad);
  assert_int_equal(bad, 0);
}

/* ---- Texts for other compilers ---- */

static int write_texts(const char *folder) {
  for (size_t i = 0; i < n_samples; ++i) {
    char path[1024];
    gpu_source *source = source_of_sample(&samples[i]);
    snprintf(path, sizeof path, "%s/%s_%s_%zu.cu", folder, samples[i].name, tn_dtype_name(samples[i].dtype),
             samples[i].width);
    FILE *file = fopen(path, "w");
    if (!file || fputs(source->text, file) < 0 || fclose(file)) {
      fprintf(stderr, "%s cannot be written\n", path);
      return 1;
    }
    gpu_source_free(&source);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--texts") == 0) return write_texts(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_program_has_one_text),
      cmocka_unit_test(functions_of_the_host_are_refused_by_name),
      cmocka_unit_test(rows_without_kernel_are_refused_by_name),
      cmocka_unit_test(kernels_give_the_bits_of_the_cpu),
  };
  return cmocka_run_group_tests(tests, gpu_bench_open, gpu_bench_close);
}
