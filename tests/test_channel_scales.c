/* test_channel_scales.c: a channel carried as 2^-s u changes no bit of a result, and carries 2^-s and 2^s.
 * ctest: labels=quick
 *
 * Multiplication by a power of two rounds nothing, so a program whose channels are scaled computes the same
 * significands: with exponents of -8 to 8 on numbers of size 1 nothing leaves the range of f32. The numbers that
 * products multiply are looked at: that of a channel is 2^-s times, its adjoint 2^s times the one without scales.
 */
#include "tests/support_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRIALS = 60, POINTS = 37, MOST = 2 * NET_LAYERS + 3 };

static uint64_t state;
static uint32_t random_below(uint32_t n) {
  return (uint32_t)(tn_random_bits((tn_stream){{3, 17}}, state++) % n);
}

/* ---- Random operators ---- */

static tn_value random_coefficient(net *n) {
  switch (random_below(5)) {
  case 0: return net_k(n, (double)(int)(random_below(9) + 1) / 4);
  case 1: return net_k(n, (float)(0.1 + random_below(10))); /* no small fraction: a run-time factor */
  case 2: return tn_scalar(n->graph, "c", n->dtype, 0.25 + random_below(7));
  case 3: return tn_sin(n->x[random_below((uint32_t)n->n_in)]);
  default: return tn_add(tn_square(n->x[0]), net_k(n, 0.5));
  }
}

static tn_value random_derivative(net *n) {
  char by[5] = {0};
  uint32_t order = random_below(n->n_in == 1 ? 5 : 4);
  for (uint32_t i = 0; i < order; ++i) by[i] = "xyz"[random_below((uint32_t)n->n_in)];
  return net_d(n, random_below((uint32_t)n->n_out), by);
}

static tn_value random_operator(net *n) {
  tn_value r = {0};
  uint32_t terms = 2 + random_below(4);
  for (uint32_t i = 0; i < terms; ++i) {
    tn_value term = tn_mul(random_coefficient(n), random_derivative(n));
    if (random_below(4) == 0) term = tn_mul(term, random_derivative(n));
    if (random_below(6) == 0) term = tn_div(term, tn_add(tn_square(n->x[0]), net_k(n, 1)));
    r = !r.graph ? term : random_below(2) ? tn_add(r, term) : tn_sub(r, term);
  }
  return r;
}

typedef struct asked { size_t count; uint64_t seed; } asked;

/* An exponent of -8 to 8 by the label. */
static int random_scale(void *context, const char *field, const char *label) {
  asked *a = context;
  assert_string_equal(field, "u");
  ++a->count;
  return (int)(tn_random_bits(tn_stream_of(a->seed, label), 0) % 17) - 8;
}

/* Two residuals, their loss, and its gradient. */
static size_t outputs_of(net *n, const tn_value *operators, asked *scales, tn_value *out) {
  tn_value leaf[2 * NET_LAYERS];
  memcpy(out, operators, 2 * sizeof *out);
  good(net_resolve(n, 2, out, scales ? random_scale : NULL, scales));
  out[2] = tn_add(net_loss(out[0]), net_loss(out[1]));
  size_t count = net_parameters(n, leaf);
  good(ag_grad(out[2], count, leaf, out + 3));
  return count + 3;
}

static void results_keep_their_bits(void **unused) {
  (void)unused;
  static const tn_op_id functions[3] = {TN_OP_tanh, TN_OP_sin, TN_OP_gelu};
  size_t compared = 0, differing = 0, channels = 0;
  for (int trial = 0; trial < 2 * TRIALS; ++trial) {
    net n;
    tn_value plain[MOST], scaled[MOST], operators[2];
    asked scales = {0, (uint64_t)trial};
    size_t count;
    state = (uint64_t)trial / 2 << 20; /* each operator in both dtypes */
    uint32_t n_in = 1 + random_below(3), n_out = 1 + random_below(2);
    net_open(&n, (net_shape){trial % 2 ? TN_F32 : TN_F64, n_in, n_out, 7, 3, functions[random_below(3)],
                             random_below(2) != 0, random_below(2) != 0});
    for (int i = 0; i < 2; ++i) operators[i] = random_operator(&n);
    size_t values = outputs_of(&n, operators, NULL, plain);
    outputs_of(&n, operators, &scales, scaled);
    channels += scales.count;
    double *want = net_run(&n, values, plain, tn_exec_new, NULL, POINTS, &count);
    for (int whole = 0; whole < 2; ++whole) {
      double *got = net_run(&n, values, scaled, whole ? tn_exec_reference : tn_exec_new, NULL, POINTS, &count);
      size_t bad = net_differing(got, want, count);
      if (bad) printf("trial %d, %s: %zu of %zu differ\n", trial, whole ? "reference" : "streamed", bad, count);
      for (size_t i = 0; i < count; ++i)
        if (!isfinite(got[i])) fail_msg("trial %d: element %zu is %g", trial, i, got[i]);
      compared += count;
      differing += bad;
      free(got);
    }
    free(want);
    net_close(&n);
  }
  printf("scales: %d operators, %zu channels, %zu of %zu numbers differ\n", 2 * TRIALS, channels, differing,
         compared);
  assert_int_equal(differing, 0);
  assert_true(channels > 2 * TRIALS);
}

/* ---- What channels carry ---- */

enum { X_SCALE = 3, FOLD_SCALE = -5 };

static int burgers_scale(void *context, const char *field, const char *label) {
  (void)field;
  ++*(size_t *)context;
  if (!strcmp(label, "x")) return X_SCALE;
  if (strcmp(label, "y - nu*xx")) fail_msg("asked for `%s`, expected `x` and `y - nu*xx`", label);
  return FOLD_SCALE;
}

static void channels_and_adjoints_carry_their_powers(void **unused) {
  (void)unused;
  net n;
  tn_value residual[2], gradient[2], carried[12];
  size_t called = 0, count;
  net_open(&n, (net_shape){TN_F64, 2, 1, 7, 3, TN_OP_tanh, true, false});
  residual[0] = residual[1] = net_burgers(&n);
  good(net_resolve(&n, 1, &residual[0], NULL, NULL));
  good(net_resolve(&n, 1, &residual[1], burgers_scale, &called));
  assert_int_equal(called, 2); /* not for the value */
  for (int i = 0; i < 2; ++i) {
    good(ag_grad(net_loss(residual[i]), 1, &n.w[1], &gradient[i]));
    const tn_node *outer = tn_node_of(gradient[i]); /* three adjoints, three channels */
    assert_int_equal(outer->op->id, TN_OP_jet_outer);
    assert_int_equal(outer->n_inputs, 6);
    for (int k = 0; k < 6; ++k)
      carried[6 * i + k] = tn_value_at(n.graph, outer->inputs[k].node, outer->inputs[k].port);
  }
  double *x = net_run(&n, 12, carried, tn_exec_new, NULL, POINTS, &count);
  const int power[6] = {0, X_SCALE, FOLD_SCALE, 0, -X_SCALE, -FOLD_SCALE};
  size_t each = count / 12;
  for (int k = 0; k < 6; ++k)
    for (size_t i = 0; i < each; ++i) {
      double plain = x[(size_t)k * each + i], scaled = x[(size_t)(6 + k) * each + i];
      assert_true(plain != 0 && scaled == ldexp(plain, power[k]));
    }
  printf("carried: %zu numbers have their power of two\n", 6 * each);
  free(x);
  net_close(&n);
}

/* ---- Limits ---- */

static int fixed_scale(void *context, const char *field, const char *label) {
  (void)field;
  (void)label;
  return *(int *)context;
}

static void scales_have_a_range(void **unused) {
  (void)unused;
  for (int s = 20; s <= 21; ++s)
    for (int sign = -1; sign <= 1; sign += 2) {
      net n;
      int scale = sign * s;
      net_open(&n, (net_shape){TN_F64, 2, 1, 3, 2, TN_OP_tanh, true, false});
      tn_value r = net_burgers(&n);
      tn_status status = net_resolve(&n, 1, &r, fixed_scale, &scale);
      assert_int_equal(status, s == 20 ? TN_OK : TN_ERANGE);
      if (s == 21) assert_non_null(strstr(tn_error_text(), "channel x"));
      net_close(&n);
    }
}

/* A residual of the value alone has one channel, which nobody may scale; a derivative that is zero by structure is
 * zero with any scale. */
static void values_and_zeros_have_no_scale(void **unused) {
  (void)unused;
  net n;
  int scale = 8;
  size_t count;
  net_open(&n, (net_shape){TN_F64, 1, 1, 3, 2, TN_OP_tanh, true, false});
  tn_value plain = net_d(&n, 0, ""), scaled = plain;
  good(net_resolve(&n, 1, &plain, NULL, NULL));
  good(net_resolve(&n, 1, &scaled, fixed_scale, &scale));
  assert_true(tn_same(plain, scaled));
  ag_field *linear;
  good(ag_field_new(n.graph, "v", 1, TN_F64, &linear));
  tn_value body = tn_mul(net_k(&n, 3), ag_field_argument(linear, 0));
  good(ag_field_body(linear, 1, &body));
  tn_value d[2] = {ag_call(linear, 0, n.x, (uint8_t[TN_MAX_SLOTS]){1}),
                   ag_call(linear, 0, n.x, (uint8_t[TN_MAX_SLOTS]){2})};
  good(net_resolve(&n, 2, d, fixed_scale, &scale));
  double *x = net_run(&n, 2, d, tn_exec_new, NULL, POINTS, &count);
  for (size_t i = 0; i < POINTS; ++i) assert_true(x[i] == 3 && x[POINTS + i] == 0);
  free(x);
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_keep_their_bits),
                                     cmocka_unit_test(channels_and_adjoints_carry_their_powers),
                                     cmocka_unit_test(scales_have_a_range),
                                     cmocka_unit_test(values_and_zeros_have_no_scale)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
