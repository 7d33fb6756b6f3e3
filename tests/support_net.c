/* support_net.c: see support_net.h. */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Building ---- */

static void make_body(net *n, net_shape s) {
  tn_value args[NET_INPUTS], out[8];
  for (size_t j = 0; j < s.n_in; ++j) args[j] = ag_field_argument(n->field, j);
  tn_value h = tn_stack(s.n_in, args);
  for (size_t i = 0; i < s.n_layers; ++i) {
    size_t in = i ? s.width : s.n_in, made = i + 1 < s.n_layers ? s.width : s.n_out;
    char name[24];
    snprintf(name, sizeof name, "W%zu", i);
    n->w[i] = tn_parameter(n->graph, name, s.dtype, tn_shape_fixed(2, (size_t[]){in, made}));
    snprintf(name, sizeof name, "b%zu", i);
    if (s.biased) n->b[i] = tn_parameter(n->graph, name, s.dtype, tn_shape_fixed(1, &made));
    h = tn_linear(h, n->w[i], n->b[i], false);
    if (i + 1 < s.n_layers) h = tn_unary(s.activation, h, 0);
  }
  tn_shape points = tn_shape_of(args[0]);
  for (size_t q = 0; q < s.n_out; ++q) {
    tn_value v = tn_reshape(tn_slice(h, 1, q, 1), points), x = args[0];
    out[q] = v;
    if (s.ansatz)
      out[q] = tn_add(tn_div(tn_mul(x, v), tn_add(tn_square(x), net_k(n, 1))), tn_max(v, x));
  }
  good(ag_field_body(n->field, s.n_out, out));
}

void net_open(net *n, net_shape s) {
  static const char *const labels[NET_INPUTS] = {"x", "y", "z"};
  *n = (net){.dtype = s.dtype, .n_in = s.n_in, .n_out = s.n_out, .width = s.width, .n_layers = s.n_layers,
             .sign = 1, .gain = 1};
  assert_true(s.n_in <= NET_INPUTS && s.n_layers <= NET_LAYERS && s.n_out <= 8);
  good(tn_graph_new(&n->graph));
  n->axis = tn_axis_new(n->graph, "points");
  for (size_t j = 0; j < s.n_in; ++j)
    n->x[j] = tn_input(n->graph, labels[j], s.dtype, tn_shape_points(n->axis));
  good(ag_field_new(n->graph, "u", s.n_in, s.dtype, &n->field));
  for (size_t j = 0; j < s.n_in; ++j) good(ag_field_label(n->field, j, labels[j]));
  make_body(n, s);
}

void net_close(net *n) { tn_graph_free(&n->graph); }

tn_value net_k(const net *n, double x) { return tn_const(n->graph, n->dtype, x); }

tn_value net_d(net *n, size_t q, const char *by) {
  uint8_t power[TN_MAX_SLOTS] = {0};
  for (; *by; ++by) ++power[*by - 'x'];
  return ag_call(n->field, q, n->x, power);
}

tn_value net_burgers(net *n) {
  tn_value nu = tn_scalar(n->graph, "nu", n->dtype, 0.0625);
  tn_value flow = tn_add(net_d(n, 0, "y"), tn_mul(net_d(n, 0, ""), net_d(n, 0, "x")));
  return tn_sub(flow, tn_mul(nu, net_d(n, 0, "xx")));
}

tn_value net_loss(tn_value residual) {
  tn_axis axis = tn_shape_of(residual).axis[0];
  tn_value sum = tn_cast(tn_sum(tn_square(residual), 0), TN_F64);
  return tn_div(sum, tn_count(residual.graph, TN_F64, axis));
}

size_t net_parameters(const net *n, tn_value *out) {
  size_t count = 0;
  for (size_t i = 0; i < n->n_layers; ++i) {
    out[count++] = n->w[i];
    if (n->b[i].graph) out[count++] = n->b[i];
  }
  return count;
}

tn_status net_resolve(net *n, size_t count, tn_value *values, int (*scale)(void *, const char *, const char *),
                      void *context) {
  ag_resolve_options options = {.scale = scale, .scale_context = context};
  return ag_resolve(n->graph, count, values, &options, values, NULL);
}

/* ---- Running ---- */

static void bind_leaf(const net *n, tn_exec *exec, tn_value leaf, const char *name, size_t points) {
  tn_shape shape = tn_shape_of(leaf);
  size_t extent[TN_MAX_RANK], count = 1;
  for (uint32_t i = 0; i < shape.rank; ++i) count *= extent[i] = shape.axis[i] ? points : shape.extent[i];
  double *x = draw(name, count); /* in (-2, 2) */
  if (tn_shape_batched(&shape)) {
    for (size_t i = 0; i < count; ++i) x[i] = ldexp(n->sign * x[i] / 2, n->power[name[0] - 'x']);
  } else if (shape.rank == 2) {
    double spread = (float)(n->gain / sqrt((double)extent[0]));
    for (size_t i = 0; i < count; ++i) {
      x[i] = (float)(x[i] * spread);
      if (name[1] == '0') x[i] = ldexp(x[i], -n->power[i / extent[1]]);
    }
  }
  give(exec, leaf, shape.rank, extent, x);
  free(x);
}

void net_bind(const net *n, tn_exec *exec, size_t points) {
  tn_value leaf[2 * NET_LAYERS];
  size_t count = net_parameters(n, leaf);
  for (size_t j = 0; j < n->n_in; ++j) bind_leaf(n, exec, n->x[j], tn_node_of(n->x[j])->name, points);
  for (size_t i = 0; i < count; ++i) bind_leaf(n, exec, leaf[i], tn_node_of(leaf[i])->name, points);
  if (n->scale.graph) good(tn_exec_set(exec, n->scale, n->number));
}

void net_start(net_job *job, const net *n, size_t n_values, const tn_value *values, net_executor make,
               tn_pool *pool, size_t points) {
  *job = (net_job){.n_values = n_values, .own = malloc((n_values + 1) * sizeof *job->own)};
  for (size_t i = 0; i < n_values; ++i) {
    tn_shape shape = tn_shape_of(values[i]);
    job->count += job->own[i] = tn_shape_width(&shape) * (tn_shape_batched(&shape) ? points : 1);
  }
  good(tn_compile(n->graph, n_values, values, &job->program));
  good(make(job->program, pool, &job->exec));
  net_bind(n, job->exec, points);
}

double *net_result(net_job *job) {
  double *out = malloc((job->count + 1) * sizeof *out), *at = out;
  good(tn_exec_run(job->exec));
  for (size_t i = 0; i < job->n_values; at += job->own[i++]) good(tn_exec_read(job->exec, i, job->own[i], at));
  return out;
}

void net_stop(net_job *job) {
  tn_exec_free(&job->exec);
  tn_program_free(&job->program);
  free(job->own);
}

double *net_run(const net *n, size_t n_values, const tn_value *values, net_executor make, tn_pool *pool,
                size_t points, size_t *count) {
  net_job job;
  net_start(&job, n, n_values, values, make, pool, points);
  double *out = net_result(&job);
  *count = job.count;
  net_stop(&job);
  return out;
}

size_t net_differing(const double *a, const double *b, size_t count) {
  size_t differing = 0;
  for (size_t i = 0; i < count; ++i) differing += memcmp(&a[i], &b[i], sizeof *a) != 0;
  return differing;
}
