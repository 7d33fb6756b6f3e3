/* test_amp_loss.c: the loss of a problem and its training in low formats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/metrics.h"
#include "pinn/objective_inside.h"
#include "pinn/train_inside.h"
#include "tests/support_loss.h"

#define BURGERS(tail)                                                                              \
  "domain = { x = [-1, 1], t = [0, 1] }\nconstants = { nu = 0.1 }\nunknowns = { u = \"x, t\" }\n"  \
  "equations = { burgers = \"u_t + u*u_x = nu*u_xx\" }\n"                                          \
  "conditions = { initial = { on = \"t = 0\", equation = \"u = -sin(pi*x)\" },"                    \
  " walls = { on = \"x = -1 or x = 1\", equation = \"u = 0\" } }\n"                                \
  "network = { width = 16, depth = 3 }\npoints = { interior = 256 }\n" tail

static const char *const names[] = {"f64", "f32", "tf32", "bf16", "f16"};

/* The loss of a bench in another precision, of the same dtype as its model. */
static pn_loss *loss_in(loss_bench *b, tn_dtype dtype, unsigned products) {
  pn_precision p;
  pn_loss *loss = NULL;
  OK(pn_precision_of_dtype(dtype, &p));
  p.products = products;
  OK(pn_loss_new_in(b->scopes, b->pool, &p, &loss));
  OK(pn_loss_bind(loss));
  return loss;
}

static double distance(size_t n, const double *a, const double *b) { /* |a - b| / |b| */
  double d = 0;
  for (size_t i = 0; i < n; ++i)
    d += (a[i] - b[i]) * (a[i] - b[i]);
  return sqrt(d / loss_dot(n, b, b));
}

static pn_scaler scaler_at(double scale) {
  pn_scaler s;
  pn_scaler_options o = pn_scaler_standard();
  o.scale = scale;
  OK(pn_scaler_init(&s, &o));
  return s;
}

static void gradient_with(pn_loss *loss, pn_scaler *s, const double *theta, double *value,
                          double *g) {
  bool take;
  pn_scaler_verdict verdict;
  pn_loss_use_scaler(loss, s);
  OK(pn_objective_gradient(pn_loss_objective(loss), theta, value, g));
  OK(pn_scaler_step(s, &take));
  OK(pn_scaler_update(s, &verdict));
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* 6 roundings of operands to u on the way through 3 layers and back; 8 u leaves room for sums that cancel. Three
 * products leave u^2 in place of u, beside 2^-24 of f32 on both sides. */
static void gradients_are_those_of_f32(void **state) {
  (void)state;
  static const tn_dtype low[] = {TN_TF32, TN_BF16, TN_F16};
  loss_bench b;
  loss_open(&b, BURGERS(""), TN_F32, 1);
  size_t n = b.f->n;
  double *wanted = loss_numbers(n), *g = loss_numbers(n), loss, value, alone;
  OK(pn_objective_gradient(b.f, b.theta, &loss, wanted));
  for (size_t k = 0; k < 3; ++k)
    for (unsigned products = 1; products <= 3; products += 2) {
      pn_loss *l = loss_in(&b, low[k], products);
      pn_scaler s = scaler_at(0x1p16);
      double u = tn_dtype_roundoff(low[k]), bound = 8 * (products == 1 ? u : u * u + 0x1p-23);
      if (low[k] == TN_F16)
        gradient_with(l, &s, b.theta, &value, g);
      else
        OK(pn_objective_gradient(pn_loss_objective(l), b.theta, &value, g));
      OK(pn_objective_loss(pn_loss_objective(l), b.theta, &alone));
      assert_true(alone == value); /* not scaled, and the same program */
      print_message("%s x %u: loss %.2g, gradient %.2g of f32's, bound %.2g\n",
                    tn_dtype_name(low[k]), products, fabs(value / loss - 1), distance(n, g, wanted),
                    bound);
      assert_true(distance(n, g, wanted) <= bound && fabs(value - loss) <= bound * loss);
      assert_true(products == 3 || distance(n, g, wanted) > u / 40); /* something was rounded */
      double low_work = 0, work = 0;
      OK(pn_loss_count_work(l));
      OK(pn_objective_loss(pn_loss_objective(l), b.theta, &alone));
      pn_loss_work(l, &low_work, &work);
      assert_true(low_work > 0.8 * work && low_work < work); /* first and last layers are narrow */
      pn_loss_free(&l);
    }
  tn_free(&wanted);
  tn_free(&g);
  loss_close(&b);
}

/* Only what falls out of f16's range depends on the scale: less and less of it as the scale rises. */
static void scale_changes_no_more_than_underflow(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, BURGERS(""), TN_F32, 1);
  size_t n = b.f->n;
  double *g[4], loss;
  pn_loss *l = loss_in(&b, TN_F16, 1);
  static const double scale[] = {0x1p0, 0x1p8, 0x1p12, 0x1p14};
  for (int k = 0; k < 4; ++k) {
    pn_scaler s = scaler_at(scale[k]);
    g[k] = loss_numbers(n);
    gradient_with(l, &s, b.theta, &loss, g[k]);
  }
  double far = distance(n, g[0], g[3]), near = distance(n, g[2], g[3]);
  print_message("from 2^14: 2^0 %.2g, 2^8 %.2g, 2^12 %.2g\n", far, distance(n, g[1], g[3]), near);
  assert_true(near <= distance(n, g[1], g[3]) && distance(n, g[1], g[3]) < far && near < 0x1p-11);
  for (int k = 0; k < 4; ++k)
    tn_free(&g[k]);
  pn_loss_free(&l);
  loss_close(&b);
}

/* ---- Overflow --------------------------------------------------------------------------------- */

/* One step of adam on a loss in which something overflows: seen, and theta as it was. */
static void expect_skip(loss_bench *b, pn_loss *l, pn_scaler *s) {
  const pn_opt_class *class_ = NULL;
  const pn_opt_context context = {.rate = 1e-3, .scaler = s};
  pn_opt *opt = NULL;
  pn_step_report r;
  pn_scaler_verdict verdict;
  size_t n = b->f->n;
  double *before = loss_numbers(n);
  memcpy(before, b->theta, n * sizeof *before);
  pn_loss_use_scaler(l, s);
  OK(pn_opt_find("adam", &class_));
  OK(pn_opt_new(class_, n, NULL, 0, &context, &opt));
  OK(pn_opt_step(opt, &context, pn_loss_objective(l), b->theta, &r));
  OK(pn_scaler_update(s, &verdict));
  assert_true(r.nonfinite && !r.accepted && verdict != PN_SCALER_GOOD);
  assert_memory_equal(before, b->theta, n * sizeof *before);
  pn_opt_free(&opt);
  tn_free(&before);
}

static void overflow_is_seen_wherever_it_is(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, BURGERS(""), TN_F32, 1);
  pn_loss *l = loss_in(&b, TN_F16, 1);
  pn_scaler s = scaler_at(0x1p100); /* adjoints */
  expect_skip(&b, l, &s);
  s = scaler_at(0x1p10);
  pn_loss_set_weight(l, 1, INFINITY); /* the loss */
  OK(pn_loss_bind(l));
  expect_skip(&b, l, &s);
  pn_loss_set_weight(l, 1, 1);
  for (size_t i = 0; i < b.sites->n_sites; ++i) { /* a residual, by one bad point of each set */
    pn_site *site = &b.sites->sites[i];
    for (size_t c = 0; c < 2; ++c) {
      if (!site->column[c])
        continue;
      double kept = site->column[c][site->n / 2];
      site->column[c][site->n / 2] = NAN;
      OK(pn_loss_bind(l));
      s = scaler_at(0x1p10);
      expect_skip(&b, l, &s);
      site->column[c][site->n / 2] = kept;
    }
  }
  OK(pn_loss_bind(l));
  for (size_t k = 0; k < b.model->n_blocks; ++k) { /* a weight of each block */
    double kept = b.theta[b.model->blocks[k].offset];
    b.theta[b.model->blocks[k].offset] = NAN; /* an infinite bias may be hidden by tanh */
    s = scaler_at(0x1p10);
    expect_skip(&b, l, &s);
    b.theta[b.model->blocks[k].offset] = kept;
  }
  pn_loss_free(&l);
  loss_close(&b);
}

static void frozen_scale_has_its_margin(void **state) {
  (void)state;
  loss_bench b;
  loss_open(&b, BURGERS(""), TN_F32, 1);
  double *g = loss_numbers(b.f->n), loss;
  pn_loss *l = loss_in(&b, TN_F16, 3);
  pn_scaler s = scaler_at(0x1p16);
  OK(pn_loss_freeze(l, b.theta, &s));
  pn_loss_use_scaler(l, &s);
  for (int up = 0; up <= 11; ++up) { /* margin 2^10: finite up to there and not beyond */
    pn_scaler higher = s;
    OK(pn_scaler_freeze(&higher, ldexp(s.scale, up)));
    pn_loss_use_scaler(l, &higher);
    OK(pn_objective_gradient(pn_loss_objective(l), b.theta, &loss, g));
    assert_true(isfinite(loss) == (up <= 10)); /* an overflow is an infinite loss */
  }
  pn_scaler moving = scaler_at(0x1p16);
  double unused;
  assert_int_equal(pn_scaler_closure(&moving, &unused), TN_ESTATE);
  tn_free(&g);
  pn_loss_free(&l);
  loss_close(&b);
}

/* ---- Channels --------------------------------------------------------------------------------- */

/* A domain 1e-3 long: second derivatives of the network are some 1e6, far beyond f16. */
static void steep_channels_get_powers_of_two(void **state) {
  (void)state;
  loss_bench b;
  loss_open(
      &b,
      "domain = { x = [0, 1e-3] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_xx = u*u_x\" }\n"
      "network = { width = 16, depth = 3 }\npoints = { interior = 64 }\n",
      TN_F32, 1);
  pn_loss_set_scale(b.loss, 0, 0, 0x1p20);
  OK(pn_loss_bind(b.loss));
  size_t n = b.f->n, channels = 0;
  double *wanted = loss_numbers(n), *g = loss_numbers(n), loss, value;
  bool over = false, changed = false;
  OK(pn_objective_gradient(b.f, b.theta, &loss, wanted));
  pn_loss *l = loss_in(&b, TN_F16, 1);
  pn_loss_set_scale(l, 0, 0, 0x1p20);
  OK(pn_loss_bind(l));
  OK(pn_objective_loss(pn_loss_objective(l), b.theta, &value));
  assert_false(isfinite(value));
  OK(pn_loss_measure(l, b.theta, 0, true, &over));
  assert_true(over);
  OK(pn_loss_rescale(l, 1, &changed));
  assert_true(changed);
  OK(pn_loss_measure(l, b.theta, 0, true, &over));
  assert_false(over);
  OK(pn_loss_rescale(l, 1, &changed));
  assert_false(changed); /* nothing is left to mend: what overflows now, overflows for ever */
  const pn_channel *c = pn_loss_channel_list(l, &channels);
  assert_int_equal(channels, 2); /* x, xx */
  for (size_t i = 0; i < channels; ++i) {
    double carried = ldexp(c[i].largest, -c[i].exponent);
    print_message("%s: largest %.3g, carried as %.3g, %zu overflow\n", c[i].label, c[i].largest,
                  carried, c[i].overflows);
    assert_true(carried >= 0x1p5 && carried < 0x1p6 && c[i].overflows <= 1);
  }
  assert_true(c[1].overflows == 1);
  pn_scaler s = scaler_at(0x1p8);
  gradient_with(l, &s, b.theta, &value, g);
  assert_true(fabs(value / loss - 1) < 40 * 0x1p-11 && distance(n, g, wanted) < 40 * 0x1p-11);
  tn_free(&wanted);
  tn_free(&g);
  pn_loss_free(&l);
  loss_close(&b);
}

/* ---- Looking on ------------------------------------------------------------------------------- */

/* 60 steps; with `looking`, every 10 of them errors, residuals elsewhere and the loss are evaluated, too. */
static void trace_of(bool looking, double *trace) {
  loss_bench b;
  loss_open(&b, BURGERS("exact = { u = \"cole_hopf(x, t, nu)\" }\n"), TN_F32, 1);
  const pn_opt_class *class_ = NULL;
  pn_scaler s = scaler_at(0x1p16);
  const pn_opt_context context = {.rate = 1e-2, .scaler = &s};
  pn_opt *opt = NULL;
  pn_metrics *metrics = NULL;
  pn_field_error error;
  pn_term_check terms[3];
  pn_loss *l = loss_in(&b, TN_F16, 1);
  pn_loss_use_scaler(l, &s);
  OK(pn_metrics_new(b.scopes, 1, b.pool, &metrics));
  OK(pn_opt_find("adam", &class_));
  OK(pn_opt_new(class_, b.f->n, NULL, 0, &context, &opt));
  for (size_t k = 0; k < 60; ++k) {
    pn_step_report r;
    pn_scaler_verdict verdict;
    OK(pn_opt_step(opt, &context, pn_loss_objective(l), b.theta, &r));
    OK(pn_scaler_update(&s, &verdict));
    trace[k] = r.loss_before;
    if (!looking || k % 10)
      continue;
    double loss;
    bool over;
    OK(pn_metrics_fields(metrics, b.theta, &error));
    OK(pn_metrics_terms(metrics, b.theta, &error, terms));
    OK(pn_objective_loss(pn_loss_objective(l), b.theta, &loss));
    OK(pn_loss_measure(l, b.theta, 32, false, &over));
  }
  assert_true(trace[59] < trace[0]);
  pn_metrics_free(&metrics);
  pn_opt_free(&opt);
  pn_loss_free(&l);
  loss_close(&b);
}

static void evaluating_changes_no_bit_of_the_run(void **state) {
  (void)state;
  double alone[60], watched[60];
  trace_of(false, alone);
  trace_of(true, watched);
  assert_memory_equal(alone, watched, sizeof alone);
}

/* ---- Nothing widens in silence ----------------------------------------------------------------- */

/* A literal, a table, a constant: every value with points of the program is of the format asked for; low formats
 * occur as casts alone, unless pure, where f32 occurs in leaves alone. */
static void values_are_of_the_format_asked_for(void **state) {
  (void)state;
  loss_bench b;
  FILE *csv = fopen("k.csv", "w");
  assert_non_null(csv);
  fprintf(csv, "x,k\n-1,0.1\n0,0.3\n1,0.2\n");
  fclose(csv);
  static const char *const text =
      BURGERS("tables = { k = { file = \"k.csv\", of = \"x\", method = \"linear\" } }\n"
              "definitions = { q = \"0.1*k + nu\" }\n");
  for (size_t k = 0; k < 7; ++k) {
    pn_precision p;
    OK(pn_precision_of(names[k < 5 ? k : k - 2], k < 5 ? "f64" : names[k - 2], &p));
    loss_open(&b, text, p.model, 1);
    pn_loss *l = NULL;
    OK(pn_loss_new_in(b.scopes, b.pool, &p, &l));
    const tn_program *program = l->gradient.program;
    size_t low = 0;
    for (size_t i = 0; i < tn_program_nodes(program); ++i) {
      const tn_node *node = tn_program_node(program, i);
      bool points = node->n_outputs && tn_shape_batched(&node->shapes[0]),
           leaf = node->op->class_ == TN_LEAF;
      if (!points || !tn_dtype_is_float(node->dtype))
        continue;
      low += node->dtype == p.low && pn_precision_low(&p);
      bool fits =
          p.pure ? leaf || node->dtype == p.low
                 : node->dtype == p.model || (node->dtype == p.low && node->op->id == TN_OP_cast);
      if (!fits)
        fail_msg("%s%s: %s in %s", names[k < 5 ? k : k - 2], p.pure ? " pure" : "", node->op->name,
                 tn_dtype_name(node->dtype));
    }
    assert_true((low > 0) == pn_precision_low(&p));
    pn_loss_free(&l);
    loss_close(&b);
  }
}

/* ---- Training ---------------------------------------------------------------------------------- */

static pn_training *train(const char *text, pn_problem **problem, pn_model **model,
                          tn_pool **pool) {
  pn_training *t = NULL;
  pn_precision p;
  const pn_train_options options = {.seed = 1};
  OK(tn_pool_new(1, pool));
  OK(pn_problem_parse("test.toml", text, 0, NULL, problem));
  OK(pn_problem_precision(*problem, NULL, &p));
  OK(pn_model_new(*problem, p.model, model));
  OK(pn_training_new(*model, *pool, &options, &t));
  OK(pn_training_run(t));
  return t;
}

static void master_format(const char *compute, const char *master, const char *rate,
                          double least_lost, double most_lost) {
  char text[2048];
  pn_problem *problem = NULL;
  pn_model *model = NULL;
  tn_pool *pool = NULL;
  tn_dtype dtype;
  size_t n = 0;
  snprintf(
      text, sizeof text,
      BURGERS("precision = { compute = \"%s\", master = \"%s\" }\n[[stage]]\noptimizer = \"adam\"\n"
              "steps = 40\nrate = %s\n"),
      compute, master, rate);
  pn_training *t = train(text, &problem, &model, &pool);
  const pn_low_result *low = &pn_training_result(t)->low;
  const double *theta = pn_training_theta(t, &n);
  OK(pn_precision_dtype(master, &dtype));
  for (size_t i = 0; i < n; ++i)
    assert_true(theta[i] == tn_round(dtype, theta[i]));
  double lost = low->moved > 0 ? low->lost / low->moved : 0;
  print_message("%s, weights %s, rate %s: %.1f %% of the updates lost\n", compute, master, rate,
                100 * lost);
  assert_true(lost >= least_lost && lost <= most_lost);
  assert_true(low->flops_low > 0.8 * low->flops);
  pn_training_free(&t);
  pn_model_free(&model);
  pn_problem_free(&problem);
  tn_pool_free(&pool);
}

/* Half a unit of bf16 is 2^-9 of a weight, of f16 2^-12: steps of 1e-5 are below both for nearly all weights. */
static void weights_are_kept_in_the_master_format(void **state) {
  (void)state;
  master_format("bf16", "bf16", "1e-5", 0.9, 1);
  master_format("f16", "f16", "1e-6", 0.5, 1);
  master_format("bf16", "f32", "1e-5", 0, 0.01);
  master_format("float16", "float32", "1e-3", 0, 0.01);
  master_format("tf32", "float64", "1e-3", 0, 0);
}

/* A stage whose channels are made too large for f16 in its midst: one step is skipped, the channels get their powers
 * back, and the next step is a step. The loss scale is not to blame but falls all the same, as after any overflow. */
static void channels_that_outgrow_f16_are_mended(void **state) {
  (void)state;
  pn_problem *problem = NULL;
  pn_model *model = NULL;
  tn_pool *pool = NULL;
  pn_training *t =
      train(BURGERS("precision = { compute = \"f16\" }\n[[stage]]\noptimizer = \"adam\"\n"
                    "steps = 10\n"),
            &problem, &model, &pool);
  t->stage = 0;
  OK(pn_low_prepare(t));
  OK(pn_low_open(t));
  OK(pn_training_optimizer(t, 0));
  size_t n = 0;
  for (size_t i = 0; i < t->loss->n_channels; ++i)
    t->loss->channel[i].exponent -= 12; /* 2^5 becomes 2^17 */
  OK(pn_loss_rebuild(t->loss));
  for (int k = 0; k < 3; ++k) {
    const pn_opt_context context = {.rate = 1e-4, .scaler = &t->scaler};
    pn_step_report r;
    bool again = false;
    char end[160] = "";
    memcpy(t->incoming, t->theta, t->n * sizeof *t->theta);
    OK(pn_opt_step(t->opt, &context, pn_loss_objective(t->loss), t->theta, &r));
    OK(pn_low_after(t, &r, &again, end));
    assert_true(r.nonfinite == (k == 0) && again == (k == 0) && end[0] == '\0');
    assert_true((memcmp(t->incoming, t->theta, t->n * sizeof *t->theta) == 0) == (k == 0));
  }
  const pn_channel *c = pn_loss_channel_list(t->loss, &n);
  assert_true(n >= 2);
  for (size_t i = 0; i < n; ++i)
    assert_int_equal(c[i].overflows, 1);
  const pn_low_result *low = &pn_training_result(t)->low;
  assert_true(low->skips == 1 && low->forward == 1 && t->scaler.scale == 0x1p15);
  pn_training_free(&t);
  pn_model_free(&model);
  pn_problem_free(&problem);
  tn_pool_free(&pool);
}

static void expect_plan(const char *rest, const char *part) {
  char text[2048];
  pn_problem *problem = NULL;
  pn_plan plan;
  snprintf(text, sizeof text, BURGERS("%s"), rest);
  tn_status status = pn_problem_parse("test.toml", text, 0, NULL, &problem);
  if (status == TN_OK)
    status = pn_plan_new(problem, 500, &plan);
  assert_int_equal(status, TN_EINPUT);
  if (!strstr(tn_error_text(), part))
    fail_msg("`%s` does not say `%s`", tn_error_text(), part);
  pn_problem_free(&problem);
}

static void what_does_not_go_together_is_refused(void **state) {
  (void)state;
#define STAGE(name) "[[stage]]\noptimizer = \"" name "\"\n"
  expect_plan("precision = { compute = \"f16\" }\n" STAGE("lm"), "lm works in f64 only");
  expect_plan("precision = { compute = \"f16\", master = \"f16\" }\n" STAGE("lbfgs"),
              "optimizer = \"adam\"");
  expect_plan("precision = { compute = \"bf16\", master = \"bf16\" }\n" STAGE("ssbroyden"),
              "do not show");
  expect_plan("precision = { compute = \"f32\", master = \"f16\" }\n",
              "goes with precision.compute = \"f16\"");
  expect_plan("precision = { master = \"f32\" }\n", "would cut the weights");
  expect_plan(
      "precision = { compute = \"f16\", master = \"f16\" }\n" STAGE("adam") "precision = \"f32\"\n",
      "goes with precision.compute = \"f16\"");
  expect_plan("precision = { compute = \"f16\", scale = 1000 }\n", "power of two");
  expect_plan("precision = { compute = \"f16\", growth = 1 }\n", "growth is 1");
  expect_plan("precision = { compute = \"f16\", backoff = 2 }\n", "backoff is 2");
  expect_plan("precision = { compute = \"f16\", products = 2 }\n", "1 or 3");
  expect_plan("precision = { compute = \"f16\" }\n" STAGE("lbfgs") "clip_value = 1\n",
              "no `clip_value`");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_those_of_f32),
      cmocka_unit_test(scale_changes_no_more_than_underflow),
      cmocka_unit_test(overflow_is_seen_wherever_it_is),
      cmocka_unit_test(frozen_scale_has_its_margin),
      cmocka_unit_test(steep_channels_get_powers_of_two),
      cmocka_unit_test(evaluating_changes_no_bit_of_the_run),
      cmocka_unit_test(values_are_of_the_format_asked_for),
      cmocka_unit_test(weights_are_kept_in_the_master_format),
      cmocka_unit_test(channels_that_outgrow_f16_are_mended),
      cmocka_unit_test(what_does_not_go_together_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
