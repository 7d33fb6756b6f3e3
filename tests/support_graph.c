/* support_graph.c: see support_graph.h. */
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void good(tn_status status) {
  if (status != TN_OK) fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

void bench_open(bench *b, tn_dtype dtype) {
  good(tn_graph_new(&b->graph));
  b->axis = tn_axis_new(b->graph, "points");
  b->dtype = dtype;
}

void bench_close(bench *b) { tn_graph_free(&b->graph); }

static void bind(tn_value leaf, tn_dtype dtype, size_t rank, const size_t *extent, const double *x) {
  tn_buffer *buffer = NULL;
  good(tn_buffer_new(dtype, rank, extent, &buffer));
  good(tn_convert(tn_buffer_count(buffer), TN_F64, x, dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  good(tn_bind(leaf, buffer));
  tn_buffer_release(&buffer);
}

tn_value points(bench *b, const char *name, size_t n, const double *x) {
  tn_value leaf = tn_input(b->graph, name, b->dtype, tn_shape_points(b->axis));
  bind(leaf, b->dtype, 1, &n, x);
  return leaf;
}

tn_value weights(bench *b, const char *name, size_t rank, const size_t *extent, const double *x) {
  tn_value leaf = tn_parameter(b->graph, name, b->dtype, tn_shape_fixed(rank, extent));
  bind(leaf, b->dtype, rank, extent, x);
  return leaf;
}

tn_value k(bench *b, double x) { return tn_const(b->graph, b->dtype, x); }

void numbers(tn_value v, size_t n, double *out) {
  good(tn_eval(1, &v));
  good(tn_read(v, n, out));
}

double number(tn_value v) {
  double x;
  numbers(v, 1, &x);
  return x;
}

tn_value gradient(tn_value y, tn_value x) {
  tn_value out;
  good(ag_grad(y, 1, &x, &out));
  return out;
}

void near_to(double got, double want, double tolerance) {
  double scale = want == 0 ? 1 : fabs(want);
  if (!(fabs(got - want) <= tolerance * scale)) fail_msg("got %.17g, expected %.17g", got, want);
}

void all_near(tn_value v, size_t n, const double *want, double tolerance) {
  double got[64];
  assert_true(n <= 64);
  numbers(v, n, got);
  for (size_t i = 0; i < n; ++i) near_to(got[i], want[i], tolerance);
}

const tn_jet_table *univariate(tn_graph *graph, int order) {
  tn_jet_term terms[200];
  size_t n = 0;
  for (int a = 0; a <= order; ++a) { /* (fg)^(a) = sum binomial(a, b) f^(b) g^(a-b) */
    int64_t binomial = 1;
    for (int b = 0; b <= a; ++b) {
      terms[n++] = (tn_jet_term){(int16_t)a, (int16_t)b, (int16_t)(a - b), -1, binomial, 1};
      binomial = binomial * (a - b) / (b + 1);
    }
  }
  return tn_jet_table_new(graph, (uint32_t)order + 1, (uint32_t)order, 0, n, terms);
}

void seed(bench *b, tn_value x, int order, tn_jet *out) {
  memset(out, 0, sizeof *out);
  out->table = order ? univariate(b->graph, order) : NULL;
  out->channel[0] = x;
  if (order) out->channel[1] = k(b, 1);
}
