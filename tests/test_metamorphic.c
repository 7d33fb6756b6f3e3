/* test_metamorphic.c: what must not change a bit, does not.
 * ctest: labels=quick
 *
 * Relations between two runs whose numbers differ by signs and powers of two or by nothing, so that every rounding is
 * the same: a loss scaled by 2^k and its gradient scaled back, tiles of other sizes, coordinates in other units
 * (x -> 2^k x with the first layer's weights divided by it), channel scales, and x -> -x for odd networks. Each in
 * f64, f32, and f32 with products of bf16 and f16.
 *
 * f16 has 30 binades of normal numbers, and adjoints of a thousand numbers have a dozen by themselves. There all
 * operands of products are outputs, too: a run counts if each of them, rounded to f16, is rounded alike (none has
 * left the range, or fallen among the subnormals with digits), and then every bit of the results must be equal.
 * How many runs count is printed and has a floor. Few points and a loss of 2^14 times the mean give room.
 */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 2 * NET_LAYERS + 10, NETS = 3, FORMATS = 4, OPERANDS = 200, F16 = 3 };
static const char *const formats[FORMATS] = {"f64", "f32", "bf16 products", "f16 products"};

static size_t compared, differing;

static void compare(const char *what, const double *got, const double *want, size_t n) {
  size_t bad = net_differing(got, want, n);
  for (size_t i = 0; i < n; ++i)
    if (!isfinite(want[i])) fail_msg("%s: element %zu is %g", what, i, want[i]);
  compared += n;
  differing += bad;
  if (bad) fail_msg("%s: %zu of %zu numbers differ", what, bad, n);
}

/* Burgers with tanh (3 channels, a fold), KdV with sin (4, order 3), a Laplacian with gelu inside an ansatz. */
static tn_value open(net *n, int which, int format) {
  static const tn_op_id functions[NETS] = {TN_OP_tanh, TN_OP_sin, TN_OP_gelu};
  tn_dtype dtype = format == 0 ? TN_F64 : TN_F32;
  net_open(n, (net_shape){dtype, 2, 1, 18, 4, functions[which], which != 1, which == 2});
  if (which == 0) return net_burgers(n);
  if (which == 1)
    return tn_add(tn_add(net_d(n, 0, "y"), tn_mul(net_k(n, 6), tn_mul(net_d(n, 0, ""), net_d(n, 0, "x")))),
                  net_d(n, 0, "xxx"));
  return tn_add(tn_add(net_d(n, 0, "xx"), net_d(n, 0, "yy")), tn_square(net_d(n, 0, "")));
}

static void cast(net *n, int format, size_t count, tn_value *values) {
  if (format >= 2)
    good(ag_cast(n->graph, &(ag_cast_policy){.low = format == 2 ? TN_BF16 : TN_F16}, count, values, values));
}

/* loss and its gradient. */
static size_t loss_and_gradient(net *n, tn_value loss, tn_value *out) {
  tn_value leaf[2 * NET_LAYERS];
  size_t count = net_parameters(n, leaf);
  out[0] = loss;
  good(ag_grad(loss, count, leaf, out + 1));
  return count + 1;
}

static size_t points_of(int format) { return format == F16 ? 8 : 150; }

/* The loss that gradients are of: larger in f16, as a loss scaler would have it. */
static tn_value loss_of(net *n, int format, tn_value residual) {
  tn_value loss = net_loss(residual);
  return format == F16 ? tn_mul(tn_const(n->graph, TN_F64, 0x1p14), loss) : loss;
}

/* What casts to f16 round on the way to these values. */
static size_t operands_of(net *n, int format, size_t count, const tn_value *values, tn_value *out) {
  size_t found = 0, nodes = tn_graph_nodes(n->graph);
  bool *used = calloc(nodes, sizeof *used);
  for (size_t i = 0; i < count; ++i) used[values[i].node] = true;
  for (size_t i = nodes; format == F16 && i-- > 0;) {
    const tn_node *node = tn_node_at(n->graph, (uint32_t)i);
    for (uint32_t k = 0; used[i] && k < node->n_inputs; ++k) used[node->inputs[k].node] = true;
    if (!used[i] || node->op->id != TN_OP_cast || node->dtype != TN_F16) continue;
    assert_true(found < OPERANDS);
    out[found++] = tn_value_at(n->graph, node->inputs[0].node, node->inputs[0].port);
  }
  free(used);
  return found;
}

/* Is every operand rounded to f16 with the same relative error in both runs? The products are exact. */
static bool rounded_alike(const double *a, const double *b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    double x = tn_round(TN_F16, a[i]), y = tn_round(TN_F16, b[i]);
    if (!isfinite(x) || !isfinite(y) || x * b[i] != y * a[i]) return false;
  }
  return true;
}

/* A value times 2^power of its own, and the operands behind. */
typedef struct setup {
  net n;
  size_t count, operands, numbers; /* values, operands; numbers of the values */
  tn_value out[MOST + OPERANDS];
} setup;

static void count_numbers(setup *s, int format) {
  cast(&s->n, format, s->count, s->out);
  s->operands = operands_of(&s->n, format, s->count, s->out, s->out + s->count);
  s->numbers = 0;
  for (size_t i = 0; i < s->count; ++i) {
    tn_shape shape = tn_shape_of(s->out[i]);
    s->numbers += tn_shape_width(&shape) * (tn_shape_batched(&shape) ? points_of(format) : 1);
  }
}

static double *results(setup *s, int format, size_t *all) {
  return net_run(&s->n, s->count + s->operands, s->out, tn_exec_new, NULL, points_of(format), all);
}

/* ---- The relations ---- */

static void loss_scale_leaves_gradients_alone(void **state) {
  (void)state;
  enum { FIRST = -20, LAST = 20, K = LAST - FIRST + 1 };
  size_t runs = 0;
  for (int which = 0; which < NETS; ++which)
    for (int format = 0; format < FORMATS; ++format) {
      setup s;
      net_job job;
      double *got[K];
      size_t best = 0;
      tn_value r = open(&s.n, which, format), scale = tn_scalar(s.n.graph, "scale", TN_F64, 1);
      good(net_resolve(&s.n, 1, &r, NULL, NULL));
      s.count = loss_and_gradient(&s.n, tn_mul(scale, loss_of(&s.n, format, r)), s.out);
      count_numbers(&s, format);
      net_start(&job, &s.n, s.count + s.operands, s.out, tn_exec_new, NULL, points_of(format));
      for (int k = 0; k < K; ++k) {
        good(tn_exec_set(job.exec, scale, ldexp(1, FIRST + k)));
        got[k] = net_result(&job);
        for (size_t i = 0; i < s.numbers; ++i) got[k][i] = ldexp(got[k][i], -FIRST - k);
      }
      for (int base = 0; base < K; ++base) { /* the scale that most others agree with */
        size_t equal = 0;
        for (int k = 0; k < K; ++k)
          equal += rounded_alike(got[k] + s.numbers, got[base] + s.numbers, job.count - s.numbers);
        if (equal <= best) continue;
        best = equal;
        for (int k = 0; k < K; ++k)
          if (rounded_alike(got[k] + s.numbers, got[base] + s.numbers, job.count - s.numbers))
            compare(formats[format], got[k], got[base], s.numbers);
      }
      if (format == F16) printf("loss scale, net %d in %s: %zu of %d exponents in range\n", which, formats[format], best, K);
      assert_true(format == F16 ? best >= 5 : best == K);
      runs += best;
      for (int k = 0; k < K; ++k) free(got[k]);
      net_stop(&job);
      net_close(&s.n);
    }
  printf("loss scale: %zu runs\n", runs);
}

static void tiles_are_only_tiles(void **state) {
  (void)state;
  enum { MANY = 1111 };
  for (int which = 0; which < NETS; ++which)
    for (int format = 0; format < FORMATS; ++format) {
      net n;
      tn_value r = open(&n, which, format), out[MOST];
      size_t numbers;
      good(net_resolve(&n, 1, &r, NULL, NULL));
      size_t count = loss_and_gradient(&n, net_loss(r), out);
      out[count++] = r;
      cast(&n, format, count, out);
      assert_int_equal(unsetenv("TN_TILE"), 0);
      double *want = net_run(&n, count, out, tn_exec_new, NULL, MANY, &numbers);
      for (int groups = 1; groups <= 4; ++groups) { /* 4: the reference executor, which has no tiles */
        char text[16];
        snprintf(text, sizeof text, "%d", groups);
        assert_int_equal(setenv("TN_TILE", text, 1), 0);
        double *got = net_run(&n, count, out, groups < 4 ? tn_exec_new : tn_exec_reference, NULL, MANY, &numbers);
        compare("tiles", got, want, numbers);
        free(got);
      }
      assert_int_equal(unsetenv("TN_TILE"), 0);
      free(want);
      net_close(&n);
    }
}

/* With x -> 2^k x and W0 -> 2^-k W0, u is the same function of the point, and u_xx is 2^-2k of what it was. The loss,
 * mean (u_xx)^2, is multiplied by 2^4k, or else adjoints would leave f16. */
static void undo_units(const setup *s, int format, double *at) {
  int kx = s->n.power[0], ky = s->n.power[1];
  const int power[7] = {0, kx, 2 * kx, 3 * kx, kx + ky, 2 * ky, 0};
  for (size_t v = 0; v < s->count; ++v) {
    tn_shape shape = tn_shape_of(s->out[v]);
    size_t own = tn_shape_width(&shape) * (tn_shape_batched(&shape) ? points_of(format) : 1);
    for (size_t i = 0; i < own; ++i) /* row j of W0, the first parameter, is divided itself */
      at[i] = ldexp(at[i], v < 7 ? power[v] : v == 7 ? -s->n.power[i / 18] : 0);
    at += own;
  }
}

/* The exponent that undoes the units of a channel: "xxy" is 2^-(2 kx + ky) of what it was. */
static int unit_scale(void *context, const char *field, const char *label) {
  const int *unit = context;
  int s = 0;
  (void)field;
  for (; *label; ++label) s -= unit[*label - 'x'];
  return s;
}

static void open_units(setup *s, int which, int format, const int *unit) {
  static const char *const words[6] = {"", "x", "xx", "xxx", "xy", "yy"};
  int own[2] = {unit[0], unit[1]};
  open(&s->n, which, format);
  for (int i = 0; i < 6; ++i) s->out[i] = net_d(&s->n, 0, words[i]);
  good(net_resolve(&s->n, 6, s->out, format == F16 ? unit_scale : NULL, own));
  s->n.scale = tn_scalar(s->n.graph, "scale", TN_F64, 1);
  s->n.number = ldexp(1, 4 * unit[0]);
  s->n.power[0] = unit[0];
  s->n.power[1] = unit[1];
  s->count = 6 + loss_and_gradient(&s->n, tn_mul(s->n.scale, loss_of(&s->n, format, s->out[2])), s->out + 6);
  count_numbers(s, format);
}

/* In f16, channel scales undo what units do to the range of numbers. */
static void units_of_coordinates_are_units(void **state) {
  (void)state;
  static const int units[6][2] = {{0, 0}, {5, 0}, {-3, 2}, {1, -4}, {1, 1}, {-1, 0}};
  for (int which = 0; which < 2; ++which) /* an ansatz knows its unit */
    for (int format = 0; format < FORMATS; ++format) {
      double *want = NULL;
      for (int u = 0; u < 6; ++u) {
        setup s;
        size_t all;
        open_units(&s, which, format, units[u]);
        double *got = results(&s, format, &all);
        undo_units(&s, format, got);
        if (u) compare("units", got, want, format == F16 ? all : s.numbers);
        else want = got;
        if (u) free(got);
        net_close(&s.n);
      }
      free(want);
    }
}

static int some_scale(void *context, const char *field, const char *label) {
  (void)context;
  (void)field;
  return (int)(tn_random_bits(tn_stream_of(9, label), 0) % 7) - 3;
}

static void channel_scales_are_free(void **state) {
  (void)state;
  size_t in_range = 0;
  for (int which = 0; which < NETS; ++which)
    for (int format = 2; format < FORMATS; ++format) { /* test_channel_scales.c has f64 and f32 */
      setup s[2];
      double *x[2];
      size_t all[2];
      for (int i = 0; i < 2; ++i) {
        tn_value r = open(&s[i].n, which, format);
        good(net_resolve(&s[i].n, 1, &r, i ? some_scale : NULL, NULL));
        s[i].count = loss_and_gradient(&s[i].n, loss_of(&s[i].n, format, r), s[i].out);
        count_numbers(&s[i], format);
        x[i] = results(&s[i], format, &all[i]);
      }
      size_t own = s[0].numbers;
      assert_true(all[0] == all[1] && own == s[1].numbers);
      if (rounded_alike(x[1] + own, x[0] + own, all[0] - own)) {
        compare("channel scales", x[1], x[0], own);
        ++in_range;
      }
      for (int i = 0; i < 2; ++i) {
        free(x[i]);
        net_close(&s[i].n);
      }
    }
  printf("channel scales: %zu of 6 runs in range\n", in_range);
  assert_true(in_range >= 4);
}

/* tanh and sin without biases are odd, their derivatives of odd order even; a mean square of u_xx sees neither. */
static void odd_networks_are_odd(void **state) {
  (void)state;
  static const char *const words[5] = {"", "x", "xx", "xxx", "xy"};
  for (int which = 0; which < 2; ++which)
    for (int format = 0; format < FORMATS; ++format) {
      net n;
      tn_value out[MOST], leaf[2 * NET_LAYERS];
      size_t numbers;
      net_open(&n, (net_shape){format ? TN_F32 : TN_F64, 2, 1, 18, 4, which ? TN_OP_sin : TN_OP_tanh, false, false});
      size_t parameters = net_parameters(&n, leaf);
      for (int i = 0; i < 5; ++i) out[i] = net_d(&n, 0, words[i]);
      good(net_resolve(&n, 5, out, NULL, NULL));
      out[5] = net_loss(out[2]);
      good(ag_grad(out[5], parameters, leaf, out + 6));
      cast(&n, format, 6 + parameters, out);
      size_t points = points_of(format);
      double *want = net_run(&n, 6 + parameters, out, tn_exec_new, NULL, points, &numbers);
      n.sign = -1;
      double *got = net_run(&n, 6 + parameters, out, tn_exec_new, NULL, points, &numbers);
      for (size_t i = 0; i < points; ++i) /* u, u_xx, u_xy */
        for (size_t v = 0; v < 5; v += 2) got[v * points + i] = -got[v * points + i];
      compare("odd", got, want, numbers);
      free(want);
      free(got);
      net_close(&n);
    }
}

static void figures(void **state) {
  (void)state;
  printf("metamorphic: %zu of %zu numbers differ\n", differing, compared);
  assert_true(compared > 100000);
  assert_int_equal(differing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loss_scale_leaves_gradients_alone), cmocka_unit_test(tiles_are_only_tiles),
      cmocka_unit_test(units_of_coordinates_are_units), cmocka_unit_test(channel_scales_are_free),
      cmocka_unit_test(odd_networks_are_odd), cmocka_unit_test(figures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
