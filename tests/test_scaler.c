/* test_scaler.c: the loss scale as a state machine, in an optimizer, and in the loss of a problem.
 *
 * The machine is held against a model of its own that keeps the whole history of a run and looks everything up in it.
 * PINN_TEST_SCALE multiplies the number of random sequences.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/scaler.h"
#include "tests/support_loss.h"

/* ---- Random sequences of calls --------------------------------------------------------------- */

typedef struct model {        /* the rules as sentences, nothing clever */
  int exponent;               /* of the scale */
  int growth, backoff, least; /* exponents too */
  size_t interval, budget, window;
  size_t n;
  bool skipped[256]; /* every update so far */
  size_t changed; /* update after which the scale changed last, or grew at 2^127 without effect */
  int phase;      /* 0 ready, 1 begun, 2 backward, 3 reduced, 4 unscaled, 5 clipped, 6 stepped */
  bool found, frozen;
} model;

enum {
  BEGIN,
  BACKWARD,
  REDUCE,
  REDUCE_FOUND,
  UNSCALE,
  UNSCALE_BAD,
  UNSCALE_LOW,
  LOOK,
  LOOK_BAD,
  CLIP,
  STEP,
  UPDATE,
  CLOSURE,
  CALLS
};

/* Which phases allow a call, and where it leads (-1: stays). */
static const struct {
  int from, to, next;
} rule[CALLS] = {[BEGIN] = {0, 0, 1},        [BACKWARD] = {1, 1, 2}, [REDUCE] = {2, 2, 3},
                 [REDUCE_FOUND] = {2, 2, 3}, [UNSCALE] = {3, 3, 4},  [UNSCALE_BAD] = {3, 3, 4},
                 [UNSCALE_LOW] = {9, 9, 9},  [LOOK] = {4, 5, -1},    [LOOK_BAD] = {4, 5, -1},
                 [CLIP] = {4, 5, 5},         [STEP] = {4, 5, 6},     [UPDATE] = {6, 6, 0},
                 [CLOSURE] = {9, 9, 9}};

static pn_scaler_verdict model_update(model *m) {
  m->skipped[m->n++] = m->found;
  if (!m->found) {
    if (m->n - m->changed < m->interval)
      return PN_SCALER_GOOD;
    if (m->exponent + m->growth <= 127)
      m->exponent += m->growth;
    m->changed = m->n;
    return PN_SCALER_GOOD;
  }
  bool floor = m->exponent == m->least;
  m->exponent = m->exponent + m->backoff < m->least ? m->least : m->exponent + m->backoff;
  m->changed = m->n;
  size_t recent = 0;
  for (size_t i = m->n > m->window ? m->n - m->window : 0; i < m->n; ++i)
    recent += m->skipped[i];
  return floor ? PN_SCALER_FLOOR : recent >= m->budget ? PN_SCALER_OVERBUDGET : PN_SCALER_SKIPPED;
}

typedef struct dice {
  tn_stream stream;
  uint64_t i;
} dice;

static size_t below(dice *d, size_t n) { return (size_t)(tn_random_bits(d->stream, d->i++) % n); }

static tn_status call_scaler(pn_scaler *s, int call, double *scale, double *g, bool *take,
                             pn_scaler_verdict *verdict) {
  switch (call) {
  case BEGIN:
    return pn_scaler_begin(s, scale);
  case BACKWARD:
    return pn_scaler_backward(s);
  case REDUCE:
  case REDUCE_FOUND:
    return pn_scaler_reduce(s, call == REDUCE_FOUND);
  case UNSCALE:
  case UNSCALE_BAD:
  case UNSCALE_LOW:
    g[0] = 3 * s->scale;
    g[1] = call == UNSCALE_BAD ? NAN : -s->scale;
    g[2] = s->scale / 8;
    return pn_scaler_unscale(s, call == UNSCALE_LOW ? TN_F16 : TN_F32, 3, g);
  case LOOK:
  case LOOK_BAD:
    return pn_scaler_look(s, call == LOOK_BAD ? INFINITY : 1);
  case CLIP:
    return pn_scaler_clip(s);
  case STEP:
    return pn_scaler_step(s, take);
  case UPDATE:
    return pn_scaler_update(s, verdict);
  default:
    return pn_scaler_closure(s, scale);
  }
}

/* One call on both; false at the first difference. */
static bool same_call(pn_scaler *s, model *m, int call) {
  pn_scaler before = *s;
  double scale = 0, g[3] = {0};
  bool take = false, allowed = m->phase >= rule[call].from && m->phase <= rule[call].to;
  pn_scaler_verdict verdict = PN_SCALER_GOOD, expected = PN_SCALER_GOOD;
  tn_status status = call_scaler(s, call, &scale, g, &take, &verdict);
  if (!allowed)
    return status != TN_OK && memcmp(&before, s, sizeof before) == 0; /* a misuse changes nothing */
  if (status != TN_OK)
    return false;
  double now = ldexp(1, m->exponent);
  m->found = call == BEGIN
                 ? false
                 : m->found || call == REDUCE_FOUND || call == UNSCALE_BAD || call == LOOK_BAD;
  if (call == BEGIN && scale != now)
    return false;
  if (call == UNSCALE && !(g[0] == 3 && g[1] == -1 && g[2] == 0.125))
    return false;
  if (call == UNSCALE_BAD &&
      !(g[0] == 3 && g[2] == 0.125)) /* all entries, also behind the bad one */
    return false;
  if (call == STEP && take == m->found)
    return false;
  if (call == UPDATE)
    expected = model_update(m);
  if (rule[call].next >= 0)
    m->phase = rule[call].next;
  return verdict == expected && s->scale == ldexp(1, m->exponent);
}

/* The order of a good step; what else is called is misuse. */
static const int order[] = {BEGIN, BACKWARD, REDUCE, UNSCALE, LOOK, CLIP, STEP, UPDATE};

static bool one_sequence(dice *d) {
  static const size_t intervals[] = {1, 2, 3, 5};
  model m = {
      .growth = 1 + (int)below(d, 3), .backoff = -1 - (int)below(d, 3), .least = (int)below(d, 3)};
  m.exponent = m.least + (int)below(d, 8) + (below(d, 8) == 0 ? 110 : 0);
  m.interval = intervals[below(d, 4)];
  m.budget = 1 + below(d, 6);
  m.window = m.budget + below(d, 6);
  const pn_scaler_options options = {ldexp(1, m.exponent),
                                     ldexp(1, m.growth),
                                     ldexp(1, m.backoff),
                                     m.interval,
                                     ldexp(1, m.least),
                                     m.budget,
                                     m.window};
  pn_scaler s;
  if (pn_scaler_init(&s, &options) != TN_OK)
    return false;
  size_t steps = 2 + below(d, 8);
  bool storm = below(d, 4) == 0; /* overflow after overflow */
  for (size_t k = 0; k < steps; ++k)
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
      int call = order[i];
      size_t roll = below(d, 64);
      if (roll == 0 && !same_call(&s, &m, (int)below(d, CALLS)))
        return false; /* a call from anywhere: an error, or in order by chance */
      if ((call == LOOK || call == CLIP) && roll % 2)
        continue;
      bool bad = storm ? roll % 2 : roll % 16 == 5;
      call +=
          bad && (call == REDUCE || call == UNSCALE || call == LOOK); /* the _BAD, _FOUND sibling */
      if (!same_call(&s, &m, call))
        return false;
    }
  return true;
}

static void scaler_follows_its_rules_in_random_sequences(void **state) {
  (void)state;
  const char *text = getenv("PINN_TEST_SCALE");
  size_t n = 300000 * (size_t)fmax(1, text ? atof(text) : 1), bad = 0;
  for (size_t i = 0; i < n; ++i) {
    char name[32];
    snprintf(name, sizeof name, "sequence %zu", i);
    dice d = {tn_stream_of(20, name), 0};
    bad += !one_sequence(&d);
  }
  print_message("%zu random sequences, %zu deviations\n", n, bad);
  assert_int_equal(bad, 0);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

static void expect(tn_status status, tn_status code, const char *part) {
  assert_int_equal(status, code);
  if (!strstr(tn_error_text(), part))
    fail_msg("`%s` does not say `%s`", tn_error_text(), part);
}

static pn_scaler at_phase(size_t calls) {
  pn_scaler s;
  const pn_scaler_options standard = pn_scaler_standard();
  double scale, g[3];
  bool take;
  pn_scaler_verdict verdict;
  OK(pn_scaler_init(&s, &standard));
  for (size_t i = 0; i < calls; ++i)
    OK(call_scaler(&s, order[i], &scale, g, &take, &verdict));
  return s;
}

static void every_misuse_has_its_text(void **state) {
  (void)state;
  double x = 0, g[1] = {1};
  bool take;
  pn_scaler_verdict verdict;
  pn_scaler s = at_phase(4); /* unscaled */
  expect(pn_scaler_unscale(&s, TN_F32, 1, g), TN_ESTATE, "unscaled already");
  expect(pn_scaler_begin(&s, &x), TN_ESTATE, "begin out of order");
  expect(pn_scaler_update(&s, &verdict), TN_ESTATE, "update out of order");
  expect(pn_scaler_freeze(&s, 4), TN_ESTATE, "in the middle of a step");
  s = at_phase(3); /* reduced: still scaled */
  expect(pn_scaler_step(&s, &take), TN_ESTATE, "still carries the scale");
  expect(pn_scaler_clip(&s), TN_ESTATE, "still carries the scale");
  expect(pn_scaler_look(&s, 1), TN_ESTATE, "still carries the scale");
  expect(pn_scaler_unscale(&s, TN_F16, 1, g), TN_EDTYPE, "gradients of weights in f16");
  expect(pn_scaler_unscale(&s, TN_BF16, 1, g), TN_EDTYPE, "gradients of weights in bf16");
  s = at_phase(2); /* backward done */
  expect(pn_scaler_unscale(&s, TN_F32, 1, g), TN_ESTATE, "not summed over the processes");
  s = at_phase(1);
  expect(pn_scaler_reduce(&s, false), TN_ESTATE, "its gradient is not formed");
  s = at_phase(0);
  expect(pn_scaler_update(&s, &verdict), TN_ESTATE, "no step has begun");
  expect(pn_scaler_backward(&s), TN_ESTATE, "no step has begun");
  expect(pn_scaler_closure(&s, &x), TN_ESTATE, "freeze the scale first");
  expect(pn_scaler_missed(&s, &verdict), TN_ESTATE, "without a frozen scale");
  expect(pn_scaler_freeze(&s, 3), TN_ERANGE, "power of two");
  expect(pn_scaler_freeze(&s, NAN), TN_ERANGE, "is NaN");
  s = at_phase(7); /* stepped */
  expect(pn_scaler_step(&s, &take), TN_ESTATE, "waits for update");
  expect(pn_scaler_unscale(&s, TN_F32, 1, g), TN_ESTATE, "waits for update");
  s = at_phase(8);
  OK(pn_scaler_freeze(&s, 0x1p10));
  expect(pn_scaler_begin(&s, &x), TN_ESTATE, "frozen for a line search");
}

static void settings_out_of_range_are_refused(void **state) {
  (void)state;
  const struct {
    size_t offset;
    double value;
    const char *part;
  } cases[] = {{offsetof(pn_scaler_options, scale), 1000, "power of two"},
               {offsetof(pn_scaler_options, scale), NAN, "NaN"},
               {offsetof(pn_scaler_options, scale), 0.5, "expected 1 to 2^127"},
               {offsetof(pn_scaler_options, scale), INFINITY, "power of two"},
               {offsetof(pn_scaler_options, growth), 1, "growth is 1"},
               {offsetof(pn_scaler_options, growth), 0.5, "growth is 0.5"},
               {offsetof(pn_scaler_options, growth), 3, "power of two"},
               {offsetof(pn_scaler_options, growth), NAN, "growth is"},
               {offsetof(pn_scaler_options, backoff), 1, "backoff is 1"},
               {offsetof(pn_scaler_options, backoff), 0.3, "power of two"},
               {offsetof(pn_scaler_options, backoff), 0, "backoff is 0"},
               {offsetof(pn_scaler_options, least), 0, "least scale"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    pn_scaler_options o = pn_scaler_standard();
    memcpy((char *)&o + cases[i].offset, &cases[i].value, sizeof(double));
    expect(pn_scaler_check(&o), TN_ERANGE, cases[i].part);
  }
  pn_scaler_options o = pn_scaler_standard();
  o.interval = 0;
  expect(pn_scaler_check(&o), TN_ERANGE, "interval");
  o = pn_scaler_standard();
  o.budget = 101;
  expect(pn_scaler_check(&o), TN_ERANGE, "window");
}

/* ---- State ----------------------------------------------------------------------------------- */

typedef struct memory {
  size_t n, at;
  double data[256];
} memory;

static tn_status visit_doubles(pn_state_visitor *v, const char *name, size_t n, double *data) {
  memory *m = v->context;
  (void)name;
  for (size_t i = 0; i < n; ++i)
    if (v->restores)
      data[i] = m->data[m->at++];
    else
      m->data[m->n++] = data[i];
  return TN_OK;
}

static tn_status visit_number(pn_state_visitor *v, const char *name, double *x) {
  return visit_doubles(v, name, 1, x);
}

/* Saved after k steps and restored into a new one, it ends where the unbroken one ends. */
static void state_survives_a_checkpoint(void **state) {
  (void)state;
  const pn_scaler_options options = {0x1p6, 2, 0.5, 3, 1, 4, 20};
  for (size_t cut = 0; cut <= 40; ++cut) {
    pn_scaler a, b, *s = &a;
    OK(pn_scaler_init(&a, &options));
    memory m = {0};
    for (size_t k = 0; k < 40; ++k) {
      if (k == cut) {
        pn_state_visitor v = {&m, false, visit_doubles, visit_number};
        const pn_scaler_options standard = pn_scaler_standard();
        OK(pn_scaler_visit(&a, &v));
        OK(pn_scaler_init(&b, &standard));
        v.restores = true;
        OK(pn_scaler_visit(&b, &v));
        s = &b;
      }
      for (pn_scaler *each = &a;; each = s) { /* a goes on as the unbroken run */
        double scale, g[3];
        bool take;
        pn_scaler_verdict verdict;
        for (size_t i = 0; i < 8; ++i)
          OK(call_scaler(each, order[i] + (order[i] == UNSCALE && k % 5 == 3), &scale, g, &take,
                         &verdict));
        if (each == s)
          break;
      }
    }
    assert_memory_equal(&a, s, sizeof a);
  }
  pn_scaler s = at_phase(3);
  memory m = {0};
  pn_state_visitor v = {&m, false, visit_doubles, visit_number};
  expect(pn_scaler_visit(&s, &v), TN_ESTATE, "save in the middle of a step");
  v.restores = true;
  expect(pn_scaler_visit(&s, &v), TN_ESTATE, "restore in the middle of a step");
  s = at_phase(0);
  m.at = 0;
  m.data[0] = 3; /* a damaged scale */
  memcpy(m.data + 1, (double[]){65536, 2, 0.5, 1, 2000, 20, 100, 0, 0, 0, 0}, 11 * sizeof(double));
  pn_scaler before = s;
  expect(pn_scaler_visit(&s, &v), TN_ERANGE, "power of two");
  assert_memory_equal(&before, &s, sizeof s);
}

/* ---- What 16 bits do ------------------------------------------------------------------------- */

/* dL/dr of L = mean r^2 in f16 with the loss multiplied by S, unscaled by the scaler. */
static double gradient_in_f16(double r, double n, double scale) {
  pn_scaler s;
  pn_scaler_options o = pn_scaler_standard();
  double unused;
  o.scale = scale;
  OK(pn_scaler_init(&s, &o));
  OK(pn_scaler_begin(&s, &unused));
  double g = tn_round(TN_F16, scale * 2 * r / n);
  OK(pn_scaler_backward(&s));
  OK(pn_scaler_reduce(&s, false));
  OK(pn_scaler_unscale(&s, TN_F32, 1, &g));
  return g;
}

static void scale_keeps_what_f16_would_lose(void **state) {
  (void)state;
  const double wanted = 2 * 1e-4 / 4096; /* 4.88e-8, below the smallest normal 6.1e-5 */
  assert_true(gradient_in_f16(1e-4, 4096, 1) == 0x1p-24); /* 5.96e-8: 22 % off */
  assert_true(gradient_in_f16(1e-5, 4096, 1) == 0);
  assert_true(fabs(gradient_in_f16(1e-4, 4096, 0x1p16) - wanted) <= 0x1p-11 * wanted);
  assert_true(fabs(gradient_in_f16(1e-5, 4096, 0x1p16) - wanted / 10) <= 0x1p-11 * wanted / 10);
  assert_true(gradient_in_f16(1.5e-9, 1, 1) == 0); /* 3e-9 */
  assert_true(fabs(gradient_in_f16(1.5e-9, 1, 0x1p10) - 3.0268e-9) < 5e-14);
  assert_true(fabs(gradient_in_f16(1.5e-9, 1, 0x1p16) - 2.9995e-9) < 5e-14);
}

static double after_updates(tn_dtype master, double update) {
  double w = 1;
  for (int i = 0; i < 100; ++i)
    w = tn_round(master, w - update);
  return w;
}

static void sixteen_bit_weights_swallow_updates(void **state) {
  (void)state;
  assert_true(after_updates(TN_BF16, 0.001) == 1);        /* half the spacing below 1 is 0.00195 */
  assert_true(after_updates(TN_BF16, 0.002) == 0.609375); /* each rounds to 0.0039 */
  assert_true(after_updates(TN_F16, 0.0002) == 1);
  assert_true(after_updates(TN_F16, 0.001) == 0.90234375);
  assert_true(fabs(after_updates(TN_F32, 0.001) - 0.9) <
              100 * 0x1p-25); /* one rounding each, of w <= 1 */
  assert_true(fabs(after_updates(TN_F32, 0.002) - 0.8) < 100 * 0x1p-25);
}

/* ---- With an optimizer ------------------------------------------------------------------------ */

enum { N = 7 };

typedef struct bowl { /* L = sum (theta - i)^2, scaled and unscaled as in a training */
  pn_scaler *scaler;
  size_t calls, bad_call, bad_entry; /* entry N: the loss */
  double bad;
} bowl;

static tn_status bowl_loss(pn_objective *f, const double *theta, double *loss) {
  *loss = 0;
  for (size_t i = 0; i < f->n; ++i)
    *loss += (theta[i] - (double)i) * (theta[i] - (double)i);
  return TN_OK;
}

static tn_status bowl_gradient(pn_objective *f, const double *theta, double *loss, double *g) {
  bowl *b = f->context;
  double scale;
  TN_TRY(pn_scaler_begin(b->scaler, &scale));
  TN_TRY(bowl_loss(f, theta, loss));
  for (size_t i = 0; i < f->n; ++i)
    g[i] = tn_round(TN_F32, scale * 2 * (theta[i] - (double)i));
  if (++b->calls == b->bad_call)
    *(b->bad_entry < N ? &g[b->bad_entry] : loss) = b->bad;
  TN_TRY(pn_scaler_backward(b->scaler));
  TN_TRY(pn_scaler_reduce(b->scaler, false));
  TN_TRY(pn_scaler_unscale(b->scaler, TN_F32, f->n, g));
  return pn_scaler_look(b->scaler, *loss);
}

static void save_opt(pn_opt *opt, memory *m) {
  pn_state_visitor v = {m, false, visit_doubles, visit_number};
  *m = (memory){0};
  OK(pn_opt_visit(opt, &v));
}

static void one_bad_number(const char *method, size_t entry, double bad) {
  pn_scaler s;
  const pn_scaler_options standard = pn_scaler_standard();
  bowl b = {.scaler = &s, .bad_call = 10, .bad_entry = entry, .bad = bad};
  pn_objective f = {.context = &b, .n = N, .loss = bowl_loss, .gradient = bowl_gradient};
  const pn_opt_class *class_ = NULL;
  const pn_opt_context context = {.rate = 1e-2, .scaler = &s};
  const pn_setting clip[] = {{"clip", 3}, {"clip_value", 2}};
  double theta[N] = {0}, before[N];
  memory saved, now;
  pn_opt *opt = NULL;
  OK(pn_scaler_init(&s, &standard));
  OK(pn_opt_find(method, &class_));
  OK(pn_opt_new(class_, N, clip, 2, &context, &opt));
  for (size_t k = 1; k <= 12; ++k) {
    pn_step_report r;
    pn_scaler_verdict verdict;
    memcpy(before, theta, sizeof theta);
    save_opt(opt, &saved);
    OK(pn_opt_step(opt, &context, &f, theta, &r));
    OK(pn_scaler_update(&s, &verdict));
    bool same = memcmp(before, theta, sizeof theta) == 0;
    assert_true(same == (k == 10) && r.nonfinite == (k == 10) && r.accepted == (k != 10));
    assert_int_equal(verdict, k == 10 ? PN_SCALER_SKIPPED : PN_SCALER_GOOD);
    assert_true(s.scale == (k < 10 ? 0x1p16 : 0x1p15));
    if (k != 10)
      continue;
    save_opt(opt, &now);
    assert_int_equal(now.n, saved.n);
    assert_memory_equal(now.data + 3, saved.data + 3, (now.n - 3) * sizeof *now.data); /* m and v */
    assert_true(now.data[0] == saved.data[0] && now.data[1] == saved.data[1]); /* powers of beta */
  }
  pn_opt_free(&opt);
}

/* Wherever it shows up: nothing moves, the scale halves, and the next step is a step. */
static void overflow_skips_one_step(void **state) {
  (void)state;
  static const double bad[] = {INFINITY, -INFINITY, NAN};
  for (size_t entry = 0; entry <= N; ++entry)
    for (size_t k = 0; k < 3; ++k) {
      one_bad_number("adam", entry, bad[k]);
      one_bad_number("adamw", entry, bad[k]);
    }
}

/* The scale changes no bit of a run while nothing overflows or underflows: clipping sees true gradients. */
static void clipping_does_not_see_the_scale(void **state) {
  (void)state;
  double end[2][N];
  for (int k = 0; k < 2; ++k) {
    pn_scaler s;
    pn_scaler_options o = pn_scaler_standard();
    o.scale = k ? 0x1p30 : 1;
    bowl b = {.scaler = &s};
    pn_objective f = {.context = &b, .n = N, .loss = bowl_loss, .gradient = bowl_gradient};
    const pn_opt_class *class_ = NULL;
    const pn_opt_context context = {.rate = 1e-2, .scaler = &s};
    const pn_setting clip[] = {{"clip", 3}, {"clip_value", 2}};
    double theta[N] = {0};
    pn_opt *opt = NULL;
    OK(pn_scaler_init(&s, &o));
    OK(pn_opt_find("adam", &class_));
    OK(pn_opt_new(class_, N, clip, 2, &context, &opt));
    for (int i = 0; i < 50; ++i) {
      pn_step_report r;
      pn_scaler_verdict verdict;
      OK(pn_opt_step(opt, &context, &f, theta, &r));
      OK(pn_scaler_update(&s, &verdict));
    }
    memcpy(end[k], theta, sizeof theta);
    pn_opt_free(&opt);
  }
  assert_memory_equal(end[0], end[1], sizeof end[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scaler_follows_its_rules_in_random_sequences),
      cmocka_unit_test(every_misuse_has_its_text),
      cmocka_unit_test(settings_out_of_range_are_refused),
      cmocka_unit_test(state_survives_a_checkpoint),
      cmocka_unit_test(scale_keeps_what_f16_would_lose),
      cmocka_unit_test(sixteen_bit_weights_swallow_updates),
      cmocka_unit_test(overflow_skips_one_step),
      cmocka_unit_test(clipping_does_not_see_the_scale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
