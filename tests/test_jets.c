/* test_jets.c: the five jet operations.
 *
 * Judges: nested reverse mode (for every analytic row of the table), closed forms, central differences of values,
 * the adjoint law, and laws of place: a part of a jet is the jet of a part, to the bit. Numbers are of size 1 and a
 * chain has at most some hundred roundings, so 1e-12 of the size of the terms is generous; differences with
 * h = 1e-5 leave h^2 = 1e-10 of truncation and u/h = 1e-11 of rounding, so 1e-8 is asked there.
 */
#include "autograd/algebra.h"
#include "tests/support_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

static double *draw(const char *name, size_t n) {
  tn_stream stream = tn_stream_of(23, name);
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; ++i)
    x[i] = 2 * tn_random_uniform(stream, i) - 1;
  return x;
}

static tn_buffer *filled(tn_value leaf, size_t points, const double *x) {
  tn_shape shape = tn_shape_of(leaf);
  size_t extent[TN_MAX_RANK];
  tn_buffer *buffer = NULL;
  for (uint32_t i = 0; i < shape.rank; ++i)
    extent[i] = shape.axis[i] ? points : shape.extent[i];
  good(tn_buffer_new(tn_dtype_of(leaf), shape.rank, extent, &buffer));
  good(tn_convert(tn_buffer_count(buffer), TN_F64, x, tn_dtype_of(leaf), tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  return buffer;
}

static size_t count_of(tn_value v, size_t points) {
  tn_shape shape = tn_shape_of(v);
  return tn_shape_width(&shape) * (tn_shape_batched(&shape) ? points : 1);
}

/* A leaf with random numbers, which are keyed by its name. */
static tn_value leaf(bench *b, const char *name, tn_shape shape, size_t points) {
  tn_value v = tn_input(b->graph, name, b->dtype, shape);
  double *x = draw(name, count_of(v, points));
  tn_buffer *buffer = filled(v, points, x);
  good(tn_bind(v, buffer));
  tn_buffer_release(&buffer);
  free(x);
  return v;
}

static tn_shape units(const bench *b, bool batched, size_t n) {
  return batched ? tn_shape_batch(b->axis, n) : tn_shape_fixed(1, &n);
}

/* ---- Every analytic row ---- */

enum { ORDER = 4, ROWS = 21 };

static void check_row(const tn_op *op, double exponent) {
  bench b;
  bench_open(&b, TN_F64);
  double lo = fmax(op->lo, op->lo > 0 ? 0.25 : -2), hi = fmin(op->hi, 2), x0[ROWS], nested[ROWS],
         jet[ROWS];
  if (exponent < 0)
    lo = 0.25;
  for (int i = 0; i < ROWS; ++i)
    x0[i] = lo + (hi - lo) * i / (ROWS - 1);
  tn_value x = points(&b, "x", ROWS, x0), f[2 * ORDER + 1] = {tn_unary(op->id, x, exponent)};
  for (int n = 1; n <= ORDER; ++n)
    f[n] = gradient(f[n - 1], x);
  for (int m = 0; m <= ORDER; ++m) { /* the jet of the m-th derivative, to the order that is left */
    tn_jet z, y;
    seed(&b, x, ORDER - m, &z);
    good(tn_jet_unary(op->id, exponent, m, &z, &y));
    for (int n = 0; m + n <= ORDER; ++n) {
      if (!y.channel[n].graph)
        fail_msg("%s: derivative %d of derivative %d is missing", op->name, n, m);
      double most = 0;
      numbers(f[m + n], ROWS, nested);
      numbers(y.channel[n], ROWS, jet);
      for (int i = 0; i < ROWS; ++i)
        most = fmax(most, fabs(nested[i]));
      for (int i = 0; i < ROWS; ++i)
        if (!(fabs(jet[i] - nested[i]) <= 1e-12 * fabs(nested[i]) + 1e-14 * most))
          fail_msg("%s (%g) at %g, derivative %d + %d: jet %.17g, nested %.17g", op->name, exponent,
                   x0[i], m, n, jet[i], nested[i]);
    }
  }
  bench_close(&b);
}

static void analytic_rows_agree_with_nested_gradients(void **state) {
  (void)state;
  int rows = 0;
  for (int i = 0; i < TN_OPS; ++i) {
    const tn_op *op = tn_op_row((tn_op_id)i);
    if (op->class_ != TN_ANALYTIC)
      continue;
    ++rows;
    if (op->id == TN_OP_powi) {
      for (int e = -3; e <= 6; ++e)
        if (e)
          check_row(op, e);
    } else if (op->id == TN_OP_powr) {
      check_row(op, 0.5);
      check_row(op, -1.25);
      check_row(op, 3);
    } else {
      check_row(op, 0);
    }
  }
  assert_true(rows >= 30);
}

/* ---- Several variables ---- */

/* The table of an algebra in the graph; opaque factor i is coefficient i. */
static const tn_jet_table *table_of(tn_graph *graph, const ag_algebra *algebra,
                                    uint32_t n_coefficients) {
  size_t n;
  const ag_term *terms = ag_algebra_terms(algebra, &n);
  tn_jet_term *copy = calloc(n, sizeof *copy);
  for (size_t i = 0; i < n; ++i)
    copy[i] = (tn_jet_term){(int16_t)terms[i].a,      (int16_t)terms[i].b, (int16_t)terms[i].c,
                            (int16_t)terms[i].opaque, terms[i].factor.num, terms[i].factor.den};
  const tn_jet_table *table = tn_jet_table_new(graph, (uint32_t)ag_algebra_channels(algebra),
                                               ag_algebra_order(algebra), n_coefficients, n, copy);
  free(copy);
  assert_non_null(table);
  return table;
}

/* The jet of coordinate `slot` along itself. */
static void seed_slot(bench *b, const ag_algebra *algebra, const tn_jet_table *table,
                      const tn_value *coefficients, size_t slot, tn_value x, tn_jet *out) {
  size_t n;
  const ag_seed *seeds = ag_algebra_seeds(algebra, slot, &n);
  *out = (tn_jet){.table = table, .coefficients = coefficients, .channel = {x}};
  for (size_t i = 0; i < n; ++i) {
    tn_value v = k(b, (double)seeds[i].factor.num / (double)seeds[i].factor.den);
    out->channel[seeds[i].channel] =
        seeds[i].opaque < 0 ? v : tn_mul(v, coefficients[seeds[i].opaque]);
  }
}

static tn_value network(bench *b, tn_value x, tn_value t) {
  tn_value W0 = leaf(b, "W0", tn_shape_fixed(2, (size_t[]){2, 7}), 0),
           c = leaf(b, "c", tn_shape_fixed(1, (size_t[]){7}), 0);
  tn_value W1 = leaf(b, "W1", tn_shape_fixed(2, (size_t[]){7, 1}), 0), none = {0};
  tn_value both[2] = {x, tn_mul(t, tn_cos(x))},
           h = tn_tanh(tn_linear(tn_stack(2, both), W0, c, false));
  tn_value u = tn_reshape(tn_linear(tn_sin(h), W1, none, false), tn_shape_points(b->axis));
  return tn_add(tn_mul(u, tn_exp(tn_mul(k(b, 0.5), t))), tn_div(x, tn_add(k(b, 2), tn_square(t))));
}

static void compare(tn_value got, tn_value want, size_t n, double tolerance) {
  double a[64], w[64], most = 0;
  tn_shape shape = tn_shape_of(want);
  got = tn_broadcast(got, shape);
  numbers(got, n, a);
  numbers(want, n, w);
  for (size_t i = 0; i < n; ++i)
    most = fmax(most, fabs(w[i]));
  for (size_t i = 0; i < n; ++i)
    if (!(fabs(a[i] - w[i]) <= tolerance * most))
      fail_msg("element %zu is %.17g, expected %.17g", i, a[i], w[i]);
}

static void full_second_order_jet_in_two_variables(void **state) {
  (void)state;
  enum { N = 19 };
  static const uint8_t power[6][2] = {{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {0, 2}};
  bench b;
  bench_open(&b, TN_F64);
  ag_monomial monomials[6];
  memset(monomials, 0, sizeof monomials);
  for (int i = 0; i < 6; ++i)
    memcpy(monomials[i].power, power[i], 2);
  ag_algebra *algebra = NULL;
  good(ag_algebra_new(2, 6, monomials, 0, NULL, AG_FOLDED, &algebra));
  assert_int_equal(ag_algebra_channels(algebra), 6);
  const tn_jet_table *table = table_of(b.graph, algebra, 0);
  tn_value x[2] = {leaf(&b, "x", tn_shape_points(b.axis), N),
                   leaf(&b, "t", tn_shape_points(b.axis), N)};
  tn_value u = network(&b, x[0], x[1]);
  tn_jet args[2], y;
  for (size_t j = 0; j < 2; ++j)
    seed_slot(&b, algebra, table, NULL, j, x[j], &args[j]);
  good(ag_jet(2, x, args, 1, &u, &y));
  for (int i = 0; i < 6; ++i) {
    tn_value forward = ag_d(ag_d(u, x[0], power[i][0]), x[1], power[i][1]), reverse = u;
    for (int n = 0; n < power[i][0]; ++n)
      reverse = gradient(reverse, x[0]);
    for (int n = 0; n < power[i][1]; ++n)
      reverse = gradient(reverse, x[1]);
    tn_value jet = y.channel[ag_algebra_channel_of(algebra, &monomials[i])];
    compare(jet, forward, N, 1e-12);
    compare(jet, reverse, N, 1e-12);
  }
  ag_algebra_free(&algebra);
  bench_close(&b);
}

/* u_t - s u_xx folded in one channel, s a number a point or one for all. */
static void coefficients_may_differ_from_point_to_point(void **state) {
  (void)state;
  enum { N = 19 };
  for (int batched = 0; batched < 2; ++batched) {
    bench b;
    bench_open(&b, TN_F64);
    const ag_symbol_term terms[2] = {{{{0, 1}}, {1, 1}, -1}, {{{2}}, {-1, 1}, 0}};
    const ag_top top = {terms, 2};
    const ag_monomial value = {{0}};
    ag_algebra *algebra = NULL;
    good(ag_algebra_new(2, 1, &value, 1, &top, AG_FOLDED, &algebra));
    const tn_jet_table *table = table_of(b.graph, algebra, 1);
    tn_value x[2] = {leaf(&b, "x", tn_shape_points(b.axis), N),
                     leaf(&b, "t", tn_shape_points(b.axis), N)};
    tn_value s = leaf(&b, "s", batched ? tn_shape_points(b.axis) : tn_shape_scalar(), N),
             u = network(&b, x[0], x[1]);
    tn_jet args[2], y;
    for (size_t j = 0; j < 2; ++j)
      seed_slot(&b, algebra, table, &s, j, x[j], &args[j]);
    good(ag_jet(2, x, args, 1, &u, &y));
    size_t n;
    const ag_part *parts = ag_algebra_top(algebra, 0, &n);
    tn_value got = {0}, want = tn_sub(ag_d(u, x[1], 1), tn_mul(s, ag_d(u, x[0], 2)));
    for (size_t i = 0; i < n; ++i) {
      tn_value part = tn_mul(k(&b, (double)parts[i].factor.num / (double)parts[i].factor.den),
                             y.channel[parts[i].channel]);
      if (parts[i].opaque >= 0)
        part = tn_mul(s, part);
      got = got.graph ? tn_add(got, part) : part;
    }
    compare(got, want, N, 1e-12);
    ag_algebra_free(&algebra);
    bench_close(&b);
  }
}

/* ---- Reverse and forward rules ---- */

enum { MOST = 16, POINTS = 11, UNITS = 3 };
typedef struct list {
  size_t n;
  tn_value v[MOST];
} list;

static void append(list *l, const tn_jet *jet) {
  for (int c = 0; c < TN_MAX_CHANNELS; ++c)
    if (jet->channel[c].graph) {
      assert_true(l->n < MOST);
      l->v[l->n++] = jet->channel[c];
    }
}

/* sum over i of <a_i, b_i>, and the sum of absolute values. */
static double dots(const list *a, const list *b, double *size) {
  double sum = 0;
  *size = 0;
  for (size_t i = 0; i < a->n; ++i) {
    size_t n = count_of(a->v[i], POINTS);
    double *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
    numbers(a->v[i], n, p);
    numbers(b->v[i], n, q);
    for (size_t j = 0; j < n; ++j) {
      sum += p[j] * q[j];
      *size += fabs(p[j] * q[j]);
    }
    free(p);
    free(q);
  }
  return sum;
}

static list random_like(bench *b, const list *like, const char *prefix) {
  list out = {.n = like->n};
  for (size_t i = 0; i < like->n; ++i) {
    char name[64];
    snprintf(name, sizeof name, "%s%zu", prefix, i);
    out.v[i] = leaf(b, name, tn_shape_of(like->v[i]), POINTS);
  }
  return out;
}

/* <J v, w> = <v, J^T w>, and J v against central differences of y. */
static void laws(bench *b, const char *what, const list *x, const list *y) {
  list v = random_like(b, x, "v"), w = random_like(b, y, "w"), ydot = {.n = y->n},
       xbar = {.n = x->n};
  list moved[2] = {{.n = y->n}, {.n = y->n}};
  good(ag_jvp(x->n, x->v, v.v, y->n, y->v, ydot.v));
  good(ag_vjp(y->n, y->v, w.v, x->n, x->v, xbar.v));
  double size, other, left = dots(&ydot, &w, &size), right = dots(&v, &xbar, &other);
  if (!(fabs(left - right) <= 1e-13 * (size + other)))
    fail_msg("%s: <Jv, w> %.17g, <v, J^T w> %.17g", what, left, right);
  const double h = 1e-5;
  for (int side = 0; side < 2; ++side) {
    list at = {.n = x->n};
    for (size_t i = 0; i < x->n; ++i)
      at.v[i] = tn_add(x->v[i], tn_mul(k(b, side ? -h : h), v.v[i]));
    good(ag_substitute(b->graph, x->n, x->v, at.v, y->n, y->v, moved[side].v));
  }
  double up = dots(&moved[0], &w, &size), down = dots(&moved[1], &w, &other);
  if (!(fabs((up - down) / (2 * h) - left) <= 1e-8 * (size + 1)))
    fail_msg("%s: difference %.17g, <Jv, w> %.17g", what, (up - down) / (2 * h), left);
}

/* The laws for y, for its gradient, and for the gradient of that. */
static void laws_of_all_orders(bench *b, const char *what, const list *x, const list *y) {
  list now = *y;
  for (int order = 0; order < 3; ++order) {
    char name[80], prefix[32];
    snprintf(name, sizeof name, "%s, %d gradients", what, order);
    laws(b, name, x, &now);
    snprintf(prefix, sizeof prefix, "c%d_", order);
    list weight = random_like(b, &now, prefix), next = {.n = x->n};
    good(ag_vjp(now.n, now.v, weight.v, x->n, x->v, next.v));
    now = next;
  }
}

/* The algebra 1, x, t, xx of a heat equation, with a coefficient; channel 3 = s (x, x). */
static const tn_jet_table *heat(tn_graph *graph) {
  static const tn_jet_term terms[] = {{0, 0, 0, -1, 1, 1}, {1, 0, 1, -1, 1, 1}, {1, 1, 0, -1, 1, 1},
                                      {2, 0, 2, -1, 1, 1}, {2, 2, 0, -1, 1, 1}, {3, 0, 3, -1, 1, 1},
                                      {3, 1, 1, 0, -2, 1}, {3, 3, 0, -1, 1, 1}};
  return tn_jet_table_new(graph, 4, 2, 1, sizeof terms / sizeof *terms, terms);
}

typedef enum kind {
  FULL,
  INVARIANT,
  SPARSE,
  FLAT,
  KINDS
} kind; /* channels: all, 1 without points, 2 absent, none with points */

static tn_jet bundle(bench *b, const char *name, kind kind, size_t n, const tn_value *s) {
  tn_jet jet = {.table = heat(b->graph), .coefficients = s};
  for (int c = 0; c < 4; ++c) {
    char text[32];
    snprintf(text, sizeof text, "%s%d", name, c);
    if (kind == SPARSE && c == 2)
      continue;
    jet.channel[c] =
        leaf(b, text, units(b, kind != FLAT && !(kind == INVARIANT && c == 1), n), POINTS);
  }
  return jet;
}

static void five_operations_obey_the_laws(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; ++kind)
    for (int batched = 0; batched < 2; ++batched) {
      bench b;
      bench_open(&b, TN_F64);
      tn_value s = leaf(&b, "s", batched ? tn_shape_points(b.axis) : tn_shape_scalar(), POINTS),
               none = {0};
      tn_jet p = bundle(&b, "p", (enum kind)kind, UNITS, &s), q = bundle(&b, "q", FULL, UNITS, &s),
             y;
      list both = {0}, out = {0}, one = {0};
      append(&one, &p);
      both = one;
      append(&both, &q);
      good(tn_jet_unary(TN_OP_tanh, 0, 0, &p, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_unary", &one, &out);
      out.n = 0;
      good(tn_jet_unary(TN_OP_sin, 0, 2, &p, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_unary of a derivative", &one, &out);
      out.n = 0;
      good(tn_jet_mul(&p, &q, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_mul", &both, &out);
      out.n = 0;
      good(tn_jet_mulT(&p, &q, NULL, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_mulT", &both, &out);
      out.n = 0;
      list lin = one;
      tn_value W = lin.v[lin.n++] = leaf(&b, "W", tn_shape_fixed(2, (size_t[]){UNITS, 4}), POINTS);
      tn_value c = lin.v[lin.n++] = leaf(&b, "c", tn_shape_fixed(1, (size_t[]){4}), POINTS);
      good(tn_jet_lin(&p, W, c, false, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_lin", &lin, &out);
      out.n = 0;
      good(tn_jet_lin(&p, tn_transpose(W, 0, 1), none, true, &y));
      append(&out, &y);
      laws_of_all_orders(&b, "jet_lin transposed", &lin, &out);
      list outer = {1, {tn_jet_outer(3, both.v, both.v + one.n)}};
      laws_of_all_orders(&b, "jet_outer", &both, &outer);
      bench_close(&b);
    }
}

/* <w * z, ybar> = <z, jet_mulT(w, ybar)> for all channels, and for wanted ones only. */
static void mulT_is_the_adjoint_of_mul(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value s = leaf(&b, "s", tn_shape_points(b.axis), POINTS);
  tn_jet w = bundle(&b, "w", INVARIANT, UNITS, &s), z = bundle(&b, "z", FULL, UNITS, &s), y, back;
  tn_jet bar = bundle(&b, "ybar", FULL, UNITS, &s);
  good(tn_jet_mul(&w, &z, &y));
  good(tn_jet_mulT(&w, &bar, NULL, &back));
  list lz = {0}, ly = {0}, lbar = {0}, lback = {0};
  append(&lz, &z);
  append(&ly, &y);
  append(&lbar, &bar);
  append(&lback, &back);
  double size, left = dots(&ly, &lbar, &size), right = dots(&lz, &lback, &size);
  assert_true(fabs(left - right) <= 1e-13 * size);
  const bool wanted[TN_MAX_CHANNELS] = {false, true, false, true};
  tn_jet some;
  good(tn_jet_mulT(&w, &bar, wanted, &some));
  for (int c = 0; c < 4; ++c) {
    assert_int_equal(some.channel[c].graph != NULL, wanted[c]);
    if (wanted[c])
      compare(some.channel[c], back.channel[c], POINTS * UNITS, 0);
  }
  bench_close(&b);
}

/* A derivative by a coefficient of the table is refused, by name, not wrong. */
static void coefficient_has_no_derivative(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value s = leaf(&b, "s", tn_shape_scalar(), POINTS), out;
  tn_jet p = bundle(&b, "p", FULL, UNITS, &s), y;
  good(tn_jet_unary(TN_OP_tanh, 0, 0, &p, &y));
  assert_int_equal(ag_grad(y.channel[3], 1, &s, &out), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "coefficient"));
  tn_graph_clear_error(b.graph);
  assert_int_equal(ag_jvp(1, &s, &s, 1, &y.channel[3], &out), TN_EUNSUPPORTED);
  tn_graph_clear_error(b.graph);
  bench_close(&b);
}

/* ---- Wide units ---- */

/* Strips split a wide panel; a part of a jet is the jet of the part, to the bit. */
static void parts_at(tn_dtype dtype, size_t width, size_t points, bool invariant, bool batched) {
  bench b;
  bench_open(&b, dtype);
  tn_value s = leaf(&b, "s", batched ? tn_shape_points(b.axis) : tn_shape_scalar(), points);
  tn_jet z = {.table = heat(b.graph), .coefficients = &s}, y[3], part[3];
  tn_jet w = z, zp, wp;
  for (int c = 0; c < 4; ++c) {
    char name[32];
    snprintf(name, sizeof name, "z%d", c);
    z.channel[c] = leaf(&b, name, units(&b, points && !(invariant && c == 1), width), points);
    name[0] = 'w';
    w.channel[c] = leaf(&b, name, units(&b, points && !(invariant && c == 3), width), points);
  }
  good(tn_jet_unary(TN_OP_sigmoid, 0, 0, &z, &y[0]));
  good(tn_jet_mul(&z, &w, &y[1]));
  good(tn_jet_mulT(&z, &w, NULL, &y[2]));
  const size_t first[3] = {0, width / 2, width - 1}, count = width / 2;
  for (int piece = 0; piece < 3; ++piece) {
    size_t some = width - first[piece] < count ? width - first[piece] : count;
    zp = z, wp = w;
    for (int c = 0; c < 4; ++c) {
      zp.channel[c] =
          tn_slice(z.channel[c], tn_shape_of(z.channel[c]).rank - 1, first[piece], some);
      wp.channel[c] =
          tn_slice(w.channel[c], tn_shape_of(w.channel[c]).rank - 1, first[piece], some);
    }
    good(tn_jet_unary(TN_OP_sigmoid, 0, 0, &zp, &part[0]));
    good(tn_jet_mul(&zp, &wp, &part[1]));
    good(tn_jet_mulT(&zp, &wp, NULL, &part[2]));
    for (int op = 0; op < 3; ++op)
      for (int c = 0; c < 4; ++c) {
        tn_value cut =
            tn_slice(y[op].channel[c], tn_shape_of(y[op].channel[c]).rank - 1, first[piece], some);
        size_t n = count_of(cut, points);
        double *one = malloc(n * sizeof *one), *other = malloc(n * sizeof *other);
        numbers(cut, n, one);
        numbers(part[op].channel[c], n, other);
        if (memcmp(one, other, n * sizeof *one))
          fail_msg("width %zu, %zu points, operation %d, channel %d, piece %d differs", width,
                   points, op, c, piece);
        free(one);
        free(other);
      }
  }
  bench_close(&b);
}
static void part_of_a_jet_is_the_jet_of_the_part(void **state) {
  (void)state;
  for (int f32 = 0; f32 < 2; ++f32)
    for (int invariant = 0; invariant < 2; ++invariant)
      for (int batched = 0; batched < 2; ++batched) {
        tn_dtype dtype = f32 ? TN_F32 : TN_F64;
        parts_at(dtype, 601, 19, invariant,
                 batched); /* 4808 or 9616 numbers a panel: strips of 512 within */
        parts_at(dtype, 65, 70, invariant, batched); /* just over one strip in f64 */
        parts_at(dtype, 64, 70, invariant, batched); /* just one */
        parts_at(dtype, 20, 70, invariant,
                 batched); /* several panels a strip, the last window shorter */
        if (!batched)
          parts_at(dtype, 1500, 0, invariant, false); /* no points at all */
      }
}

/* Second order of tanh by its closed form, in every unit of a wide layer with an invariant tangent. */
static void wide_unary_has_its_closed_form(void **state) {
  (void)state;
  enum { W = 600, N = 9 };
  bench b;
  bench_open(&b, TN_F64);
  tn_value z0 = leaf(&b, "z0", units(&b, true, W), N), z1 = leaf(&b, "z1", units(&b, false, W), N);
  tn_jet z = {.table = univariate(b.graph, 2), .channel = {z0, z1}}, y;
  good(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &y));
  double *a = draw("z0", N * W), *d = draw("z1", W), *got = malloc(N * W * sizeof *got);
  for (int c = 0; c < 3; ++c) {
    numbers(y.channel[c], N * W, got);
    for (size_t i = 0; i < N * W; ++i) {
      double t = tanh(a[i]), s = 1 / (cosh(a[i]) * cosh(a[i])), q = d[i % W];
      near_to(got[i], c == 0 ? t : c == 1 ? s * q : -2 * t * s * q * q, 1e-13);
    }
  }
  free(a);
  free(d);
  free(got);
  bench_close(&b);
}

/* ---- As many channels as there may be ---- */

static void sixty_four_channels_work(void **state) {
  (void)state;
  enum { C = TN_MAX_CHANNELS, N = 9 };
  bench b;
  bench_open(&b, TN_F64);
  tn_jet_term terms[2 * C - 1];
  size_t n = 0;
  for (int a = 0; a < C; ++a) { /* one value and 63 tangents: products of tangents vanish */
    terms[n++] = (tn_jet_term){(int16_t)a, 0, (int16_t)a, -1, 1, 1};
    if (a)
      terms[n++] = (tn_jet_term){(int16_t)a, (int16_t)a, 0, -1, 1, 1};
  }
  tn_jet z = {.table = tn_jet_table_new(b.graph, C, 1, 0, n, terms)}, y, u, p;
  for (int c = 0; c < C; ++c) {
    char name[32];
    snprintf(name, sizeof name, "z%d", c);
    z.channel[c] = leaf(&b, name, units(&b, true, 2), N);
  }
  tn_value W = leaf(&b, "W", tn_shape_fixed(2, (size_t[]){2, 3}), N), none = {0};
  good(tn_jet_lin(&z, W, none, false, &y));
  good(tn_jet_unary(TN_OP_exp, 0, 0, &y, &u));
  good(tn_jet_mul(&u, &y, &p));
  tn_value loss = {0}, plain = {0};
  tn_value q = tn_linear(z.channel[0], W, none, false), e = tn_exp(q);
  for (int c = 0; c < C; ++c) {
    tn_value t = tn_linear(z.channel[c], W, none, false), weight = k(&b, 1 + 0.125 * c);
    tn_value want =
        c == 0 ? tn_mul(e, q) : tn_mul(tn_mul(tn_add(q, k(&b, 1)), e), t); /* (q e^q)' t */
    compare(p.channel[c], want, N * 3, 1e-13);
    tn_value a = tn_mul(weight, tn_sum_all(tn_square(p.channel[c]))),
             d = tn_mul(weight, tn_sum_all(tn_square(want)));
    loss = c ? tn_add(loss, a) : a;
    plain = c ? tn_add(plain, d) : d;
  }
  compare(gradient(loss, W), gradient(plain, W), 6, 1e-12); /* by an outer product of 64 pairs */
  compare(gradient(loss, z.channel[C - 1]), gradient(plain, z.channel[C - 1]), N * 2, 1e-12);
  compare(gradient(loss, z.channel[0]), gradient(plain, z.channel[0]), N * 2, 1e-12);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(analytic_rows_agree_with_nested_gradients),
                                     cmocka_unit_test(full_second_order_jet_in_two_variables),
                                     cmocka_unit_test(coefficients_may_differ_from_point_to_point),
                                     cmocka_unit_test(five_operations_obey_the_laws),
                                     cmocka_unit_test(mulT_is_the_adjoint_of_mul),
                                     cmocka_unit_test(coefficient_has_no_derivative),
                                     cmocka_unit_test(part_of_a_jet_is_the_jet_of_the_part),
                                     cmocka_unit_test(wide_unary_has_its_closed_form),
                                     cmocka_unit_test(sixty_four_channels_work)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
