/* test_underflow.c: what low formats lose: measures against numbers worked out by hand, windows and advice, and the
 * operands of a small network against the gradient that they must sum to.
 *
 * Formats: f16 has 11 bits, smallest numbers 2^-14 (normal) and 2^-24, largest 65504. Gradients of a mean of squares:
 * r = 1e-4 at 4096 points gives dL/dr = 2 r / 4096 = 4.8828125e-8, which f16 holds as one unit of 2^-24 = 5.96e-8.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/pinn.h"
#include "pinn/problem.h"
#include "validate/validate.h"

#define OK(call) assert_int_equal((call), TN_OK)

/* ---- Formats --------------------------------------------------------------------------------- */

/* The fields are what rounding does: the least number that survives, the largest, and the first that does not. */
static void format_bounds_are_those_of_rounding(void **state) {
  (void)state;
  const tn_dtype all[] = {TN_F16, TN_BF16, TN_TF32, TN_F32};
  for (size_t i = 0; i < 4; ++i) {
    vd_format f = vd_format_of(all[i]);
    double least = ldexp(1, f.smallest);
    assert_true(tn_round(all[i], least) == least);
    assert_true(tn_round(all[i], least / 2) == 0);
    assert_true(tn_round(all[i], least * 0.51) == least);
    assert_true(tn_round(all[i], f.largest) == f.largest);
    assert_true(isinf(tn_round(all[i], f.overflow)));
    assert_true(tn_round(all[i], nextafter(f.overflow, 0)) == f.largest);
    assert_true(tn_round(all[i], 1 + f.roundoff) == 1);
    assert_true(tn_round(all[i], 1 + 1.01 * f.roundoff) == 1 + 2 * f.roundoff);
    double normal = ldexp(1, f.normal); /* digits are whole from here on */
    assert_true(fabs(tn_round(all[i], normal * 1.1) - normal * 1.1) <= f.roundoff * normal * 1.1);
    assert_true(f.smallest < f.normal);
  }
}

/* ---- Tallies --------------------------------------------------------------------------------- */

static vd_tally round_one(double x, int scale) {
  vd_format f = vd_format_of(TN_F16);
  vd_tally t = {0};
  vd_tally_round(&t, &f, scale, 1, &x, &x);
  return t;
}

static void tally_loss_gradient_underflows_unless_scaled(void **state) {
  (void)state;
  double g = 2 * 1e-4 / 4096, small = 2 * 1e-5 / 4096;
  vd_tally t = round_one(g, 0);
  assert_int_equal(t.subnormal, 1);
  assert_true(fabs(t.lost / t.mass - (0x1p-24 / g - 1)) <
              1e-12); /* 5.96e-8 for 4.88e-8: 22 percent */
  assert_true(fabs(t.lost / t.mass - 0.2207) < 1e-4);
  t = round_one(small, 0);
  assert_int_equal(t.zero, 1);
  assert_true(t.flushed == t.mass && t.below == t.mass && t.lost == t.mass);
  assert_true(round_one(g, 16).lost / g < 1e-3);
  assert_true(round_one(small, 16).lost / small < 1e-3);
}

static void tally_three_nano_at_three_scales(void **state) {
  (void)state;
  assert_int_equal(round_one(3e-9, 0).zero, 1);
  vd_tally t = round_one(3e-9, 10);
  assert_true(fabs(t.lost - (3.0268e-9 - 3e-9)) < 5e-14); /* 3.0268 is itself rounded to 5 digits */
  t = round_one(3e-9, 16);
  assert_true(fabs(t.lost - (3e-9 - 2.9995e-9)) < 5e-14);
}

static void tally_sorts_into_classes(void **state) {
  (void)state;
  vd_format f = vd_format_of(TN_F16);
  const double x[] = {0, 1e-9, 0x1p-20, 0x1p-14, 0x1p-11, 0x1p-10, -3, 65504, -65520, 1e9};
  double low[10];
  for (size_t i = 0; i < 10; ++i)
    low[i] = tn_round(TN_F16, x[i]);
  low[9] = NAN;
  vd_tally t = {0};
  vd_tally_add(&t, &f, 0, 10, x, low);
  assert_int_equal(t.n, 9);
  assert_int_equal(t.exact_zero, 1);
  assert_int_equal(t.zero, 1);
  assert_int_equal(t.subnormal, 1);
  assert_int_equal(t.edge, 2);
  assert_int_equal(t.normal, 3);
  assert_int_equal(t.overflow, 1);
  assert_int_equal(t.nan, 1);
  assert_true(t.flushed == 1e-9 && t.below == 1e-9); /* 2^-20 is exact */
  assert_true(fabs(t.lost - (65520 + 1e9)) < 1e-3);  /* what is not finite is lost whole */
  assert_true(fabs(sqrt(t.lost2) - hypot(65520, 1e9)) < 1e-3);
}

/* ---- Exponents ------------------------------------------------------------------------------- */

enum { MANY = 20000 };
static double numbers[MANY];

/* Sizes even in their logarithm between 2^lo and 2^hi, both signs. */
static void fill(double lo, double hi) {
  tn_stream s = tn_stream_of(7, "underflow");
  for (size_t i = 0; i < MANY; ++i) {
    double u = tn_random_uniform(s, 2 * i), sign = tn_random_uniform(s, 2 * i + 1) < 0.5 ? -1 : 1;
    numbers[i] = sign * exp2(lo + u * (hi - lo));
  }
}

/* A quarter of the spacing is the mean error of a subnormal; over 20 000 numbers the mean is within 2 percent of it,
 * but where only the few largest bins are subnormal, some hundred numbers decide: 5 percent. */
static void histogram_predicts_what_rounding_loses(void **state) {
  (void)state;
  fill(-45, -5);
  const tn_dtype formats[] = {TN_F16, TN_BF16};
  for (size_t d = 0; d < 2; ++d) {
    vd_format f = vd_format_of(formats[d]);
    vd_histogram h = {0};
    vd_histogram_add(&h, MANY, numbers);
    assert_int_equal(h.n, MANY);
    int shift = d == 0 ? 0 : -110; /* bf16 ends at 2^-133 */
    for (int s = -6; s <= 24; s += 2) {
      vd_tally t = {0};
      vd_tally_round(&t, &f, s + shift, MANY, numbers, numbers);
      double computed = vd_histogram_lost(&h, &f, s + shift), found = t.below / t.mass;
      assert_true(fabs(computed - found) <= 0.05 * found);
    }
  }
}

static void histogram_counts_by_exponent(void **state) {
  (void)state;
  const double x[] = {0, 1, -1.999, 2, 0x1p-1074, NAN, INFINITY, 1e300};
  vd_histogram h = {0};
  vd_histogram_add(&h, 8, x);
  assert_int_equal(h.n, 5);
  assert_int_equal(h.zeros, 1);
  assert_int_equal(h.nonfinite, 2);
  assert_int_equal(h.count[-VD_BIN_FIRST], 2);
  assert_int_equal(h.count[1 - VD_BIN_FIRST], 1);
  assert_int_equal(h.count[0], 1);           /* beyond the first bin */
  assert_int_equal(h.count[VD_BINS - 1], 1); /* and the last */
  assert_true(h.least == 0x1p-1074 && h.largest == 1e300);
}

/* Ones: 2^15 is the largest power in range. Below 2^-14 they lose 2^-24 / 4 of 2^s: 2^-26 - s < 1e-3 for s >= -16. */
static void window_of_ones(void **state) {
  (void)state;
  const double one = 1;
  vd_format f = vd_format_of(TN_F16);
  vd_histogram h = {0};
  vd_histogram_add(&h, 1, &one);
  vd_window w = vd_histogram_window(&h, &f, 1e-3);
  assert_int_equal(w.lo, -16);
  assert_int_equal(w.hi, 15);
  const double pair[] = {1, 0x1p-40}; /* too far apart for f16, but the small one has no mass */
  vd_histogram_add(&h, 2, pair);
  w = vd_histogram_window(&h, &f, 1e-3);
  assert_int_equal(w.lo, -16);
  w = vd_histogram_window(&h, &f, 1e-14);
  assert_true(w.lo > w.hi);
}

/* ---- Gradients and updates ------------------------------------------------------------------- */

static void gradient_error_and_direction(void **state) {
  (void)state;
  const double a[] = {3, 4, 0}, b[] = {6, 0, 8}, bad[] = {3, INFINITY, 0};
  vd_gradient g = vd_gradient_of(3, a, a);
  assert_true(g.error == 0 && g.cosine == 1 && g.norm == 5 && g.zero == 0);
  g = vd_gradient_of(3, a, b);
  assert_true(fabs(g.cosine - 18.0 / 50) < 1e-15 && fabs(g.error - sqrt(89.0) / 5) < 1e-15);
  assert_int_equal(g.zero, 1);
  g = vd_gradient_of(3, a, bad);
  assert_int_equal(g.nonfinite, 1);
  assert_true(isinf(g.error) && isnan(g.cosine));
}

/* Below 1 bf16 numbers are 2^-8 apart: a step of 0.001 is less than half of that, one of 0.002 more. f16: 2^-11. */
static void updates_below_half_a_spacing_are_lost(void **state) {
  (void)state;
  const double w[] = {1, 1, 1}, g[] = {1, 5, 0};
  vd_updates u = vd_updates_of(TN_BF16, 0.001, 3, w, g);
  assert_int_equal(u.lost, 2);
  assert_int_equal(u.still, 1);
  assert_int_equal(vd_updates_of(TN_BF16, 0.002, 3, w, g).lost, 0);
  assert_int_equal(vd_updates_of(TN_F16, 0.0002, 3, w, g).lost, 2);
  assert_int_equal(vd_updates_of(TN_F16, 0.001, 3, w, g).lost, 0);
  assert_int_equal(vd_updates_of(TN_F32, 0.0002, 3, w, g).lost, 0);
  const double far[] = {1e-9}; /* adam's step is rate g / (|g| + 1e-8): a tenth of it and less */
  assert_int_equal(vd_updates_of(TN_F16, 0.001, 1, w, far).lost, 1);
}

/* ---- Advice ---------------------------------------------------------------------------------- */

/* A study of f16 with channels of one size each. */
static void begin(vd_underflow *u) {
  *u = (vd_underflow){.format = vd_format_of(TN_F16), .n_scales = 13};
  for (size_t k = 0; k < 13; ++k)
    u->scale[k] = 2 * (int)k;
}

static void channel(vd_underflow *u, vd_operand operand, const char *layer, const char *label,
                    double size) {
  size_t c = 0;
  OK(vd_underflow_channel(u, operand, layer, label, "interior", &c));
  double x[4] = {size, -size / 2, size / 3, 0};
  vd_underflow_reference(u, c, 4, x);
  for (size_t k = 0; k < (operand == VD_ADJOINT ? u->n_scales : 1); ++k)
    u->channels[c].run[k] = u->channels[c].rounded[k];
}

static void advice_one_scale_for_all(void **state) {
  (void)state;
  vd_underflow u;
  begin(&u);
  channel(&u, VD_ACTIVATION, "net1.layer2", "u", 1);
  channel(&u, VD_ADJOINT, "net1.layer2", "u", 0x1p-20);
  channel(&u, VD_ACTIVATION, "net1.layer2", "x", 8);
  channel(&u, VD_ADJOINT, "net1.layer2", "x", 0x1p-8);
  OK(vd_underflow_judge(&u));
  assert_true(u.carried);
  assert_int_equal(u.n_groups, 2);
  assert_int_equal(u.window.hi, 23); /* 2^-8 2^23 = 2^15 */
  assert_true(u.window.lo >= 1 && u.window.lo <= 8);
  assert_true(u.best % 2 == 0 && u.best >= u.window.lo && u.best <= u.window.hi);
  assert_non_null(strstr(u.advice, "f16 carries this step at loss scales 2^"));
  assert_non_null(strstr(u.advice, "adjoint of `u` (interior) in net1.layer2 underflows"));
  assert_int_equal(u.groups[0].shift, 0);
  vd_underflow_free(&u);
}

/* Adjoints 2^-50 and 2^0: a loss scale that lifts the one makes the other infinite. Carried as 2^-a times its value,
 * the small one has adjoints 2^a as large. */
static void advice_scales_of_channels(void **state) {
  (void)state;
  vd_underflow u;
  begin(&u);
  channel(&u, VD_ACTIVATION, "net1.layer2", "u", 1);
  channel(&u, VD_ADJOINT, "net1.layer2", "u", 1);
  channel(&u, VD_ACTIVATION, "net1.layer2", "xx", 1024);
  channel(&u, VD_ADJOINT, "net1.layer2", "xx", 0x1p-45);
  OK(vd_underflow_judge(&u));
  assert_false(u.carried);
  assert_true(u.window.lo > u.window.hi);
  assert_non_null(strstr(u.advice, "Scales of channels would bring all into range"));
  const vd_group *g = &u.groups[1];
  assert_true(g->shiftable && g->shift > 0);
  vd_format f = u.format; /* what the shifts promise holds for the numbers themselves */
  for (size_t i = 0; i < 4; ++i) {
    const vd_channel *c = &u.channels[i];
    int a = u.groups[i / 2].shift, s = c->operand == VD_ADJOINT ? u.best + a : -a;
    assert_true(vd_histogram_lost(&c->histogram, &f, s) < u.limit);
    assert_true(ldexp(c->histogram.largest, s) < f.overflow);
  }
  vd_underflow_free(&u);
}

static void advice_names_an_activation_that_overflows(void **state) {
  (void)state;
  vd_underflow u;
  begin(&u);
  channel(&u, VD_ACTIVATION, "net1.layer3", "yy", 90000); /* u = sin(300 y): u_yy */
  channel(&u, VD_ADJOINT, "net1.layer3", "yy", 1e-3);
  OK(vd_underflow_judge(&u));
  assert_false(u.carried);
  assert_int_equal(u.channels[0].run[0].overflow, 1);
  assert_non_null(strstr(u.advice, "the activation of `yy` (interior) in net1.layer3 overflows"));
  assert_true(u.groups[0].shiftable && u.groups[0].shift >= 1);
  vd_underflow_free(&u);
}

static void advice_range_without_precision(void **state) {
  (void)state;
  vd_underflow u;
  begin(&u);
  channel(&u, VD_ACTIVATION, "net1.layer2", "u", 1);
  channel(&u, VD_ADJOINT, "net1.layer2", "u", 1e-4);
  OK(TN_NEW(13, &u.gradient)); /* no blocks: the whole gradient alone */
  for (size_t k = 0; k < 13; ++k)
    u.gradient[k] = (vd_gradient){.n = 2, .norm = 1, .error = 0.8, .cosine = 0.5};
  OK(vd_underflow_judge(&u));
  assert_false(u.carried);
  assert_non_null(strstr(u.advice, "its precision does not"));
  for (size_t k = 0; k < 13; ++k)
    u.gradient[k].cosine = 0.999;
  OK(vd_underflow_judge(&u));
  assert_true(u.carried);
  vd_underflow_free(&u);
}

/* Channel scales mend a range; not a gradient that is off by far more than what underflows. */
static void advice_range_to_mend_without_precision(void **state) {
  (void)state;
  vd_underflow u;
  begin(&u);
  channel(&u, VD_ADJOINT, "net1.layer3", "x", 0x1p-44); /* 2^-20 at most: too few digits are left */
  OK(TN_NEW(13, &u.gradient));
  for (int bad = 0; bad < 2; ++bad) {
    for (size_t k = 0; k < 13; ++k)
      u.gradient[k] = (vd_gradient){.n = 2, .norm = 1, .error = 20, .cosine = bad ? 0.2 : 0.9999};
    OK(vd_underflow_judge(&u));
    assert_int_equal(strstr(u.advice, "its precision does not suffice either") != NULL, bad);
  }
  vd_underflow_free(&u);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static void texts_hold_what_was_measured(void **state) {
  (void)state;
  vd_underflow u;
  char *text = NULL;
  begin(&u);
  snprintf(u.title, sizeof u.title, "a \"title\" & <tag>");
  OK(vd_underflow_fact(&u, "weights", "%d", 42));
  channel(&u, VD_ACTIVATION, "net1.layer2", "u", 1);
  channel(&u, VD_ADJOINT, "net1.layer2", "u", 0x1p-20);
  OK(vd_underflow_judge(&u));
  OK(vd_underflow_markdown(&u, true, &text));
  assert_non_null(strstr(text, "| weights | 42 |"));
  assert_non_null(strstr(text, "| net1.layer2 | `u` | interior | adjoint |"));
  tn_free(&text);
  OK(vd_underflow_json(&u, &text));
  assert_non_null(strstr(text, "\"title\": \"a \\\"title\\\" & <tag>\""));
  assert_non_null(strstr(text, "\"best_scale\": "));
  tn_free(&text);
  OK(vd_underflow_html(&u, &text));
  assert_non_null(strstr(text, "&lt;tag&gt;"));
  assert_null(strstr(text, "<tag>"));
  assert_null(strstr(text, "<script"));
  size_t open = 0, close = 0;
  for (const char *p = text; (p = strstr(p, "<svg")) != NULL; ++p)
    ++open;
  for (const char *p = text; (p = strstr(p, "</svg>")) != NULL; ++p)
    ++close;
  assert_int_equal(open, close);
  assert_int_equal(open, 3); /* windows, exponents, maps; no gradients and no scaler were given */
  tn_free(&text);
  OK(TN_NEW(1, &u.steps)); /* one step is a table and no curve */
  u.steps[0] = (vd_scaler_step){1, 65536, 0.5, 1, false};
  u.n_steps = 1;
  OK(vd_underflow_html(&u, &text));
  assert_non_null(strstr(text, "The scaler in 1 steps"));
  assert_non_null(strstr(text, "</html>"));
  tn_free(&text);
  vd_underflow_free(&u);
}

/* ---- Operands of a network ------------------------------------------------------------------- */

static const char problem_text[] =
    "[domain]\nx = [0, 1]\nt = [0, 1]\n"
    "[unknowns]\nu = \"x, t\"\n"
    "[equations]\nheat = \"u_t = 0.1*u_xx + u^2\"\n"
    "[conditions]\nstart = { on = \"t = 0\", equation = \"u = sin(pi*x)\" }\n"
    "wall = { on = \"x = 0\", equation = \"u_x = 1\" }\n"
    "[network]\nwidth = 16\ndepth = 3\n"
    "[points]\ninterior = 96\n";

static pn_problem *problem;
static pn_underflow *make(tn_dtype low, bool pure, size_t values) {
  pn_underflow *set = NULL;
  const pn_underflow_options o = {
      .low = low, .pure = pure, .points = 96, .values = values, .seed = 3};
  if (problem == NULL)
    OK(pn_problem_parse("heat.toml", problem_text, 0, NULL, &problem));
  if (pn_underflow_new(problem, NULL, &o, &set) != TN_OK)
    fail_msg("%s", tn_error_text());
  return set;
}

static size_t count_of(const pn_underflow *set, const char *label, const char *at, bool adjoint) {
  size_t n = 0;
  for (size_t i = 0; i < pn_underflow_operands(set); ++i) {
    const pn_operand *o = pn_underflow_operand(set, i);
    n += strcmp(o->label, label) == 0 && strcmp(o->at, at) == 0 && o->adjoint == adjoint;
  }
  return n;
}

static void operands_are_named_by_layer_and_channel(void **state) {
  (void)state;
  pn_underflow *set = make(TN_F16, false, 0);
  /* Layers 2 and 3 are 16 x 16; 2 x 16 and 16 x 1 are too narrow. */
  const char *const labels[] = {"u", "x"};
  for (size_t i = 0; i < 2; ++i)
    for (int adjoint = 0; adjoint < 2; ++adjoint)
      assert_int_equal(count_of(set, labels[i], "interior", adjoint), 2);
  size_t interior = 0, start = 0, wall = 0, deepest = 0;
  for (size_t i = 0; i < pn_underflow_operands(set); ++i) {
    const pn_operand *o = pn_underflow_operand(set, i);
    assert_int_equal(o->width, 16);
    assert_true(strcmp(o->layer, "net1.layer2") == 0 || strcmp(o->layer, "net1.layer3") == 0);
    if (strcmp(o->at, "interior") == 0) { /* from the first layer to the last */
      size_t layer = (size_t)(o->layer[10] - '0');
      assert_true(layer >= deepest);
      deepest = layer;
      ++interior;
    }
    start += strncmp(o->at, "start", 5) == 0;
    wall += strncmp(o->at, "wall", 4) == 0;
  }
  assert_int_equal(interior, 12); /* u, x, t - 0.1 xx folded; 2 layers; both kinds */
  assert_int_equal(start, 4);     /* u alone */
  assert_int_equal(wall, 8);      /* u, x */
  pn_underflow_free(&set);
}

/* A condition at one point is a group of derivatives without points, which is no operand but counts. */
static void operands_beside_a_single_point(void **state) {
  (void)state;
  static const char text[] = "[domain]\nt = [0, 1]\n[unknowns]\nu = \"t\"\n"
                             "[equations]\ndecay = \"u_tt = -u*u_t\"\n"
                             "[conditions]\nat_start = { on = \"t = 0\", equation = \"u = 1\" }\n"
                             "at_rest = { on = \"t = 0\", equation = \"u_t = 0\" }\n"
                             "[network]\nwidth = 16\ndepth = 2\n";
  const pn_underflow_options o = {.low = TN_F16, .points = 64, .seed = 1};
  pn_problem *ode = NULL;
  pn_underflow *set = NULL;
  OK(pn_problem_parse("ode.toml", text, 0, NULL, &ode));
  if (pn_underflow_new(ode, NULL, &o, &set) != TN_OK)
    fail_msg("%s", tn_error_text());
  const char *const labels[] = {"u", "t", "tt"};
  for (size_t i = 0; i < 3; ++i)
    for (int adjoint = 0; adjoint < 2; ++adjoint)
      assert_int_equal(count_of(set, labels[i], "interior", adjoint), 1);
  assert_int_equal(pn_underflow_operands(set), 6);
  pn_underflow_free(&set);
  pn_problem_free(&ode);
}

/* Sum over operands of outer(h, zbar) in some blocks of points is the gradient of the layer's weight: nothing is
 * missing, doubled or paired wrongly. Both sides are f64 sums of 96 x 3 and 2 x some more products: 1e-12. */
static void sum_products(pn_underflow *set, const char *layer, double sum[256]) {
  size_t n_operands = pn_underflow_operands(set);
  memset(sum, 0, 256 * sizeof *sum);
  for (size_t b = 0; b < pn_underflow_blocks(set); ++b) {
    OK(pn_underflow_run(set, PN_IN_F64, b, 0));
    for (size_t i = 0; i + 1 < n_operands; i += 2) {
      const pn_operand *h = pn_underflow_operand(set, i), *z = pn_underflow_operand(set, i + 1);
      assert_true(!h->adjoint && z->adjoint && strcmp(h->label, z->label) == 0);
      if (strcmp(h->layer, layer) != 0)
        continue;
      static double copy[16 * 4096];
      const double *x = NULL, *y = NULL;
      size_t n = 0, m = 0;
      OK(pn_underflow_read(set, PN_IN_F64, i, &n, &x));
      assert_true(n <= 16 * 4096);
      if (n > 0)
        memcpy(copy, x, n * sizeof *x);
      OK(pn_underflow_read(set, PN_IN_F64, i + 1, &m, &y));
      assert_int_equal(n, m);
      for (size_t p = 0; p < n / 16; ++p)
        for (size_t r = 0; r < 256; ++r)
          sum[r] += copy[p * 16 + r / 16] * y[p * 16 + r % 16];
    }
  }
}

static void operands_sum_to_the_weight_gradient(void **state) {
  (void)state;
  const size_t values[] = {0, 4000, 300}; /* the last: more blocks than points on the walls */
  for (size_t v = 0; v < 3; ++v) {
    pn_underflow *set = make(TN_F16, false, values[v]);
    assert_true(v == 0 ? pn_underflow_blocks(set) == 1 : pn_underflow_blocks(set) > 3);
    const pn_underflow_block *blocks = NULL;
    const double *theta = NULL;
    size_t n = pn_underflow_weights(set, &blocks, &theta);
    pn_underflow_facts facts;
    pn_underflow_facts_of(set, &facts);
    double loss = 0, *gradient = NULL, sum[256];
    OK(TN_NEW(facts.n_theta, &gradient));
    OK(pn_underflow_gradient(set, PN_IN_F64, 0, &loss, gradient));
    for (size_t b = 0; b < n; ++b) {
      if (!blocks[b].low)
        continue;
      char layer[64];
      snprintf(layer, sizeof layer, "%.11s", blocks[b].name);
      sum_products(set, layer, sum);
      for (size_t i = 0; i < 256; ++i)
        assert_true(fabs(sum[i] - gradient[blocks[b].offset + i]) < 1e-12 * (1 + fabs(sum[i])));
    }
    tn_free(&gradient);
    pn_underflow_free(&set);
  }
}

/* Low operands are numbers of the format; scaled by 2^s they are 2^s times the others, but for range. */
static void low_operands_follow_the_loss_scale(void **state) {
  (void)state;
  pn_underflow *set = make(TN_BF16, false, 0);
  static double first[16 * 4096];
  for (size_t i = 0; i < pn_underflow_operands(set); ++i) {
    const double *x = NULL;
    size_t n = 0;
    bool adjoint = pn_underflow_operand(set, i)->adjoint;
    OK(pn_underflow_run(set, PN_IN_LOW, 0, 0));
    OK(pn_underflow_read(set, PN_IN_LOW, i, &n, &x));
    assert_true(n > 0 && n <= 16 * 4096);
    memcpy(first, x, n * sizeof *x);
    OK(pn_underflow_run(set, PN_IN_LOW, 0, 12));
    OK(pn_underflow_read(set, PN_IN_LOW, i, &n, &x));
    for (size_t k = 0; k < n; ++k) {
      assert_true(tn_round(TN_BF16, first[k]) == first[k]);
      assert_true(x[k] == (adjoint ? 4096 : 1) * first[k]);
    }
  }
  pn_underflow_free(&set);
}

/* f16 products, f32 sums: 2^-11 a rounding, some ten roundings deep; pure: every number. */
static void low_gradients_are_near_the_reference(void **state) {
  (void)state;
  for (int pure = 0; pure < 2; ++pure) {
    pn_underflow *set = make(TN_F16, pure, 0);
    pn_underflow_facts facts;
    pn_underflow_facts_of(set, &facts);
    double loss = 0, low = 0, *a = NULL, *b = NULL;
    OK(TN_NEW(facts.n_theta, &a));
    OK(TN_NEW(facts.n_theta, &b));
    OK(pn_underflow_gradient(set, PN_IN_F64, 0, &loss, a));
    OK(pn_underflow_gradient(set, PN_IN_F32, 0, &low, b));
    assert_true(vd_gradient_of(facts.n_theta, a, b).error < 128 * 0x1p-24);
    OK(pn_underflow_gradient(set, PN_IN_LOW, 8, &low, b));
    vd_gradient g = vd_gradient_of(facts.n_theta, a, b);
    assert_true(g.error > 0x1p-16 && g.error < (pure ? 64 : 16) * 0x1p-11);
    assert_true(fabs(low - loss) < 0.02 * loss);
    size_t rounded =
        0; /* gradients of weights are f16 at the loss scale if everything is, else f32 */
    for (size_t i = 0; i < facts.n_theta; ++i)
      rounded += tn_round(TN_F16, 256 * b[i]) == 256 * b[i];
    assert_true(pure ? rounded == facts.n_theta : rounded < facts.n_theta / 2);
    tn_free(&a);
    tn_free(&b);
    pn_underflow_free(&set);
  }
}

static void scaler_is_for_mixed_f16_alone(void **state) {
  (void)state;
  pn_scaler_record *records = NULL;
  size_t n = 0;
  char carried[200];
  pn_underflow *set = make(TN_BF16, false, 0);
  assert_false(pn_underflow_scales(set));
  assert_int_equal(pn_underflow_train(set, 5, &n, &records, carried, sizeof carried),
                   TN_EUNSUPPORTED);
  pn_underflow_free(&set);
  set = make(TN_F16, false, 0);
  OK(pn_underflow_train(set, 20, &n, &records, carried, sizeof carried));
  assert_int_equal(n, 20);
  for (size_t i = 0; i < n; ++i) {
    assert_int_equal(records[i].step, i + 1);
    int e = 0;
    assert_true(frexp(records[i].scale, &e) == 0.5);
    assert_true(records[i].skipped || isfinite(records[i].loss));
  }
  assert_true(records[n - 1].loss < records[0].loss);
  tn_free(&records);
  pn_underflow_free(&set);
}

static int close_problem(void **state) {
  (void)state;
  pn_problem_free(&problem);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(format_bounds_are_those_of_rounding),
      cmocka_unit_test(tally_loss_gradient_underflows_unless_scaled),
      cmocka_unit_test(tally_three_nano_at_three_scales),
      cmocka_unit_test(tally_sorts_into_classes),
      cmocka_unit_test(histogram_predicts_what_rounding_loses),
      cmocka_unit_test(histogram_counts_by_exponent),
      cmocka_unit_test(window_of_ones),
      cmocka_unit_test(gradient_error_and_direction),
      cmocka_unit_test(updates_below_half_a_spacing_are_lost),
      cmocka_unit_test(advice_one_scale_for_all),
      cmocka_unit_test(advice_scales_of_channels),
      cmocka_unit_test(advice_names_an_activation_that_overflows),
      cmocka_unit_test(advice_range_without_precision),
      cmocka_unit_test(advice_range_to_mend_without_precision),
      cmocka_unit_test(texts_hold_what_was_measured),
      cmocka_unit_test(operands_are_named_by_layer_and_channel),
      cmocka_unit_test(operands_beside_a_single_point),
      cmocka_unit_test(operands_sum_to_the_weight_gradient),
      cmocka_unit_test(low_operands_follow_the_loss_scale),
      cmocka_unit_test(low_gradients_are_near_the_reference),
      cmocka_unit_test(scaler_is_for_mixed_f16_alone),
  };
  return cmocka_run_group_tests(tests, NULL, close_problem);
}
