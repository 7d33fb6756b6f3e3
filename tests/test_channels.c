/* test_channels.c: what ag_resolve chooses, and that what it chooses is right.
 * ctest: labels=quick,channels timeout=300
 *
 * Channel counts must be those of the smallest algebra closed under the product rule (dimension of the span of
 * all partial derivatives of the symbols). Random operators, with numbers, run-time scalars and per-point data as
 * coefficients, are resolved with folding, without, and by nested reverse mode; the differences of the three are
 * outputs of one program that is replayed in 256-bit MPFR, where equal formulas differ by some 1e-70 and any wrong
 * structure constant by much more: 1e-30 of the condition scale is asked.
 */
#include "tests/support_graph.h"
#include "validate/validate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_IN = 10, N_POINTS = 3 };

typedef struct problem {
  bench b;
  size_t n_in, n_out;
  ag_field *field;
  tn_value x[MAX_IN];
} problem;

static void open(problem *p, size_t n_in, size_t n_out) {
  double column[N_POINTS], w[64];
  memset(p, 0, sizeof *p);
  bench_open(&p->b, TN_F64);
  p->n_in = n_in;
  p->n_out = n_out;
  for (size_t j = 0; j < n_in; ++j) {
    for (size_t i = 0; i < N_POINTS; ++i) column[i] = sin(1.0 + 3.0 * (double)i + 5.0 * (double)j);
    p->x[j] = points(&p->b, "x", N_POINTS, column);
  }
  assert_int_equal(ag_field_new(p->b.graph, "u", n_in, TN_F64, &p->field), TN_OK);
  tn_value args[MAX_IN], outputs[4], none = {0};
  for (size_t j = 0; j < n_in; ++j) {
    char label[2] = {"xytzabcdef"[j], 0};
    args[j] = ag_field_argument(p->field, j);
    assert_int_equal(ag_field_label(p->field, j, label), TN_OK);
  }
  tn_value h = tn_stack(n_in, args);
  for (int layer = 0; layer < 2; ++layer) {
    size_t in = layer ? 3 : n_in, extent[2] = {in, 3};
    for (size_t i = 0; i < 3 * in; ++i) w[i] = sin(2.0 + (double)i * (layer ? 0.7 : 1.3));
    h = tn_linear(h, weights(&p->b, "W", 2, extent, w), none, false);
    h = layer ? tn_sin(h) : tn_tanh(h);
  }
  for (size_t q = 0; q < n_out; ++q)
    outputs[q] = tn_mul(tn_reshape(tn_slice(h, 1, q, 1), tn_shape_points(tn_shape_of(args[0]).axis[0])),
                        args[0]); /* a product too */
  assert_int_equal(ag_field_body(p->field, n_out, outputs), TN_OK);
}

/* u_k differentiated by the coordinates that the text names, "xxy". */
static tn_value d(problem *p, size_t output, const char *by) {
  uint8_t power[TN_MAX_SLOTS] = {0};
  for (; *by; ++by) ++power[strchr("xytzabcdef", *by) - "xytzabcdef"];
  return ag_call(p->field, output, p->x, power);
}

static tn_value sum(size_t n, const tn_value *v) {
  tn_value s = v[0];
  for (size_t i = 1; i < n; ++i) s = tn_add(s, v[i]);
  return s;
}

static size_t passed, total;

static void count(problem *p, const char *name, size_t n, tn_value *roots, size_t channels) {
  ag_resolve_report report;
  if (ag_resolve(p->b.graph, n, roots, NULL, roots, &report) != TN_OK) fail_msg("%s", tn_error_text());
  printf("%-28s %2zu channels, %3zu terms: %s\n", name, report.group[0].channels, report.group[0].terms,
         report.group[0].labels);
  ++total;
  assert_int_equal(report.n_groups, 1);
  assert_int_equal(report.group[0].channels, channels);
  ++passed;
  bench_close(&p->b);
}

static void table_of_counts(void **state) {
  (void)state;
  problem p;
  tn_value r[4];
  open(&p, 2, 1); /* slots x, y; y plays t */
  tn_value nu = tn_scalar(p.b.graph, "nu", TN_F64, 0.01);
  r[0] = tn_sub(tn_add(d(&p, 0, "y"), tn_mul(d(&p, 0, ""), d(&p, 0, "x"))), tn_mul(nu, d(&p, 0, "xx")));
  count(&p, "Burgers", 1, r, 3);
  open(&p, 2, 1);
  r[0] = tn_add(tn_add(d(&p, 0, "y"), tn_mul(tn_mul(k(&p.b, 6), d(&p, 0, "")), d(&p, 0, "x"))),
                d(&p, 0, "xxx"));
  count(&p, "KdV", 1, r, 4);
  open(&p, 2, 1);
  r[0] = sum(4, (tn_value[]){d(&p, 0, "y"), tn_mul(d(&p, 0, ""), d(&p, 0, "x")), d(&p, 0, "xx"),
                             d(&p, 0, "xxxx")});
  count(&p, "Kuramoto-Sivashinsky", 1, r, 5);
  for (size_t dim = 2; dim <= 3; ++dim) { /* unsteady 2-D and 3-D steady Navier-Stokes */
    static const char *const axes[] = {"x", "y", "z"}, *const twice[] = {"xx", "yy", "zz"};
    open(&p, dim == 2 ? 3 : 4, dim == 2 ? 3 : 3);
    nu = tn_scalar(p.b.graph, "nu", TN_F64, 0.01);
    tn_value divergence = d(&p, 0, "x");
    for (size_t q = 0; q < 2; ++q) {
      tn_value lap = sum(dim, (tn_value[]){d(&p, q, twice[0]), d(&p, q, twice[1]), d(&p, q, twice[2])});
      tn_value flow = tn_mul(d(&p, 0, ""), d(&p, q, axes[0]));
      flow = tn_add(flow, tn_mul(d(&p, 1, ""), d(&p, q, axes[1])));
      if (dim == 2) flow = tn_add(d(&p, q, "t"), flow);
      else flow = tn_add(flow, tn_mul(d(&p, 2, ""), d(&p, q, "z")));
      r[q] = tn_sub(tn_add(flow, d(&p, 2, axes[q])), tn_mul(nu, lap));
    }
    r[2] = tn_add(divergence, d(&p, 1, "y"));
    count(&p, dim == 2 ? "Navier-Stokes 2-D unsteady" : "Navier-Stokes 3-D steady", 3, r,
          dim == 2 ? 4 : 5);
  }
  for (size_t dim = 1; dim <= 10; ++dim) {
    char name[32], twice[3] = {0};
    tn_value terms[MAX_IN];
    open(&p, dim, 1);
    for (size_t j = 0; j < dim; ++j) {
      twice[0] = twice[1] = "xytzabcdef"[j];
      terms[j] = d(&p, 0, twice);
    }
    r[0] = tn_sub(sum(dim, terms), tn_square(d(&p, 0, "")));
    snprintf(name, sizeof name, "Laplacian %zu-D", dim);
    count(&p, name, 1, r, dim + 2);
  }
  open(&p, 2, 1);
  r[0] = sum(3, (tn_value[]){d(&p, 0, "xxxx"), tn_mul(k(&p.b, 2), d(&p, 0, "xxyy")), d(&p, 0, "yyyy")});
  count(&p, "biharmonic 2-D", 1, r, 9);
  open(&p, 2, 1);
  tn_value D = tn_scalar(p.b.graph, "D", TN_F64, 2);
  r[0] = tn_mul(D, sum(3, (tn_value[]){d(&p, 0, "xxxx"), tn_mul(k(&p.b, 2), d(&p, 0, "xxyy")),
                                       d(&p, 0, "yyyy")}));
  count(&p, "D times biharmonic 2-D", 1, r, 9);
  open(&p, 2, 1);
  r[0] = tn_sub(d(&p, 0, "yy"), tn_mul(k(&p.b, 4), d(&p, 0, "xx")));
  count(&p, "wave 1-D", 1, r, 4);
  printf("channels: %zu of %zu\n", passed, total);
}

/* ---- Random operators ---- */

static uint64_t draw_state;
static uint32_t draw(uint32_t below) {
  return (uint32_t)(tn_random_bits((tn_stream){{7, 11}}, draw_state++) % below);
}

static tn_value random_coefficient(problem *p) {
  switch (draw(5)) {
  case 0: return k(&p->b, (double)(int)(draw(9) + 1) / 4);
  case 1: return k(&p->b, 0.1 + draw(10)); /* no small fraction: opaque */
  case 2: return tn_scalar(p->b.graph, "c", TN_F64, 0.3 + draw(7));
  case 3: return tn_sin(p->x[draw((uint32_t)p->n_in)]);
  default: return tn_add(tn_square(p->x[0]), k(&p->b, 0.5));
  }
}

static tn_value random_derivative(problem *p) {
  char by[5] = {0};
  uint32_t order = draw(p->n_in == 1 ? 5 : 4);
  for (uint32_t i = 0; i < order; ++i) by[i] = "xyt"[draw((uint32_t)p->n_in)];
  return d(p, draw((uint32_t)p->n_out), by);
}

static tn_value random_operator(problem *p) {
  tn_value r = {0};
  uint32_t n = 2 + draw(4);
  for (uint32_t i = 0; i < n; ++i) {
    tn_value term = tn_mul(random_coefficient(p), random_derivative(p));
    if (draw(4) == 0) term = tn_mul(term, random_derivative(p)); /* non-linear */
    if (draw(6) == 0) term = tn_div(term, tn_add(tn_square(p->x[0]), k(&p->b, 1)));
    r = !r.graph ? term : draw(2) ? tn_add(r, term) : tn_sub(r, term);
  }
  return r;
}

static void good(tn_status status) {
  if (status != TN_OK) fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

static void random_operators_agree(void **state) {
  (void)state;
  enum { TRIALS = 200 };
  double worst = 0;
  size_t folded_channels = 0, separate_channels = 0;
  for (int trial = 0; trial < TRIALS; ++trial) {
    problem p;
    draw_state = (uint64_t)trial << 20;
    open(&p, 1 + draw(3), 1 + draw(2));
    tn_value roots[2] = {random_operator(&p), random_operator(&p)}, jets[2], separate[2], nested[2], out[4];
    ag_resolve_report a, b;
    good(ag_resolve(p.b.graph, 2, roots, NULL, jets, &a));
    good(ag_resolve(p.b.graph, 2, roots, &(ag_resolve_options){.separate = true}, separate, &b));
    good(ag_resolve(p.b.graph, 2, roots, &(ag_resolve_options){.nested = true}, nested, NULL));
    folded_channels += a.group[0].channels;
    separate_channels += b.group[0].channels;
    for (int i = 0; i < 2; ++i) {
      out[2 * i] = tn_sub(jets[i], nested[i]);
      out[2 * i + 1] = tn_sub(separate[i], nested[i]);
    }
    tn_program *program = NULL;
    vd_replay *replay = NULL;
    good(tn_compile(p.b.graph, 4, out, &program));
    good(vd_replay_new(program, 256, &replay));
    for (size_t i = 0; i < tn_program_nodes(program); ++i) { /* any numbers will do: leaves by index */
      const tn_node *node = tn_program_node(program, i);
      if (node->op->id != TN_OP_input && node->op->id != TN_OP_parameter) continue;
      bool batched = tn_shape_batched(&node->shapes[0]);
      size_t extent[4] = {0};
      for (uint32_t q = 0; q < node->shapes[0].rank; ++q)
        extent[q] = batched && q == 0 ? N_POINTS : node->shapes[0].extent[q];
      tn_buffer *buffer = NULL;
      good(tn_buffer_new(TN_F64, node->shapes[0].rank, extent, &buffer));
      double *data = tn_map(buffer, TN_WRITE);
      for (size_t q = 0; q < tn_buffer_count(buffer); ++q) data[q] = sin(0.3 + (double)(q + 7 * i));
      tn_unmap(buffer);
      good(vd_replay_bind(replay, (uint32_t)i, buffer));
      tn_buffer_release(&buffer);
    }
    good(vd_replay_run(replay));
    for (size_t i = 0; i < 4; ++i) {
      tn_edge e = tn_program_output(program, i);
      for (size_t q = 0; q < vd_replay_count(replay, e.node, e.port); ++q) {
        double difference = fabs(vd_replay_double(replay, e.node, e.port, q));
        double scale = vd_replay_scale(replay, e.node, e.port, q);
        if (difference > worst * scale) worst = difference / scale;
        if (!(difference <= 1e-30 * scale)) fail_msg("operator %d: %g of %g", trial, difference, scale);
      }
    }
    vd_replay_free(&replay);
    tn_program_free(&program);
    bench_close(&p.b);
  }
  printf("operators: %d of %d agree, worst %.1e; channels %zu folded, %zu separate\n", TRIALS, TRIALS, worst,
         folded_channels, separate_channels);
  assert_true(folded_channels < separate_channels);
}

/* ---- Calls at other arguments ---- */

/* v(x) = x (N(x) - N(1) - N_x(1)): v_x(1) = 0 for every network, and v_xx as finite differences say. */
static void hard_slope_holds_for_every_network(void **state) {
  (void)state;
  problem p;
  open(&p, 1, 1);
  tn_value one = k(&p.b, 1), s = tn_scalar(p.b.graph, "s", TN_F64, 1);
  uint8_t first[TN_MAX_SLOTS] = {1};
  tn_value at_one = tn_add(ag_call(p.field, 0, &one, NULL), ag_call(p.field, 0, &one, first));
  tn_value v = tn_mul(p.x[0], tn_sub(ag_call(p.field, 0, p.x, NULL), at_one));
  tn_value v1 = ag_d(v, p.x[0], 1), slope;
  good(ag_substitute(p.b.graph, 1, &p.x[0], &s, 1, &v1, &slope));
  tn_value roots[2] = {slope, ag_d(v, p.x[0], 2)};
  good(ag_resolve(p.b.graph, 2, roots, NULL, roots, NULL));
  near_to(number(roots[0]), 0, 1e-15); /* a handful of roundings on terms of size 1 */
  double second[N_POINTS];
  numbers(roots[1], N_POINTS, second);
  tn_value w[2];
  good(ag_resolve(p.b.graph, 1, &v1, NULL, w, NULL));
  tn_value by_grad;
  good(ag_grad(w[0], 1, p.x, &by_grad));
  all_near(by_grad, N_POINTS, second, 1e-13);
  bench_close(&p.b);
}

/* u(s(t), t) with s a field of its own, differentiated along t: the chain rule goes through both. */
static void calls_nest(void **state) {
  (void)state;
  problem p;
  open(&p, 2, 1);
  ag_field *s;
  good(ag_field_new(p.b.graph, "s", 1, TN_F64, &s));
  tn_value body = tn_sin(tn_mul(k(&p.b, 0.7), ag_field_argument(s, 0))), t = p.x[1];
  good(ag_field_body(s, 1, &body));
  tn_value args[2] = {ag_call(s, 0, &t, NULL), t};
  tn_value u = ag_call(p.field, 0, args, NULL), u1 = ag_d(u, t, 1), both[2] = {u, u1};
  good(ag_resolve(p.b.graph, 2, both, NULL, both, NULL));
  double want[N_POINTS];
  numbers(gradient(both[0], t), N_POINTS, want);
  all_near(both[1], N_POINTS, want, 1e-13);
  bench_close(&p.b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_of_counts), cmocka_unit_test(random_operators_agree),
      cmocka_unit_test(hard_slope_holds_for_every_network), cmocka_unit_test(calls_nest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
