/* test_opt.c: every optimizer of the list on the same functions, and what all of them must keep to.
 *
 * An optimizer is looked at only through pn_opt: its reports, theta, and what it shows a visitor.
 * */
#include "pinn/vector.h"
#include "tests/support_opt.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define U (DBL_EPSILON / 2)

typedef struct {
  const char *name;
  opt_function f;
  size_t n;
  double start[2];                   /* even and odd entries */
  double target;                     /* loss to reach */
  size_t adam, lbfgs, ssbroyden, lm; /* steps allowed: about 1.5 times what they need */
} problem;

static const problem problems[] = {
    {"quadratic", opt_quadratic, 50, {0, 0}, 1e-20, 400, 360, 150, 5},
    {"rosenbrock 2", opt_rosenbrock, 2, {-1.2, 1}, 1e-16, 5000, 60, 65, 8},
    {"rosenbrock 100", opt_rosenbrock, 100, {0, 0}, 1e-16, 1500, 730, 1100, 100},
    {"quartic", opt_quartic, 20, {2, 0}, 1e-12, 2600, 430, 150, 18},
    {"powell", opt_powell, 40, {3, -1}, 1e-12, 9500, 80, 120, 15},
};

static void every_class_solves_every_problem(void **state) {
  (void)state;
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  for (size_t c = 0; c < classes; ++c)
    for (size_t k = 0; k < sizeof problems / sizeof *problems; ++k) {
      const problem *q = &problems[k];
      const bool first_order = list[c]->flags & PN_OPT_RATE;
      const size_t steps = first_order                           ? q->adam
                           : strcmp(list[c]->name, "lbfgs") == 0 ? q->lbfgs
                           : strcmp(list[c]->name, "lm") == 0    ? q->lm
                                                                 : q->ssbroyden;
      const pn_setting none = {"decay", 0};
      opt_probe p = {.f = q->f};
      pn_objective f = opt_objective_for(list[c], &p, q->n);
      pn_opt *opt = opt_of(list[c]->name, q->n, &none, first_order ? 1 : 0);
      double theta[OPT_MOST], loss = INFINITY;
      for (size_t i = 0; i < q->n; ++i)
        theta[i] = q->start[i % 2];
      assert_int_equal(pn_objective_loss(&f, theta, &loss), TN_OK);
      /* Adam at a constant rate hovers at a distance of about the rate, here 0.01; adamw without
       * decay. */
      const double target = first_order ? 1e-5 * loss : q->target;
      const size_t used = opt_descend(opt, &f, theta, target, steps, &loss);
      print_message("%-10s %-15s %5zu steps %5zu evaluations, loss %.1e\n", list[c]->name, q->name,
                    used, p.calls, loss);
      assert_true(loss <= target);
      pn_opt_free(&opt);
    }
}

/* With exact searches all members of Broyden's class, scaled or not, and L-BFGS with memory >= n
 * have conjugate directions: n steps solve a quadratic. 2 steps of slack for rounding, since the
 * directions are conjugate to about u * condition only. */
static void quadratic_ends_in_n_exact_steps(void **state) {
  (void)state;
  const char *const names[] = {"lbfgs", "ssbroyden"};
  const pn_setting exact[] = {{"c1", 1e-8}, {"c2", 1e-7}};
  for (size_t k = 0; k < 2; ++k) {
    opt_probe p = {.f = opt_quadratic};
    pn_objective f = opt_objective(&p, 8);
    pn_opt *opt = opt_of(names[k], 8, exact, 2);
    double theta[8] = {0}, loss = 0;
    const size_t used = opt_descend(opt, &f, theta, 1e-16 * 1000, 30, &loss);
    assert_in_range(used, 7, 10);
    pn_opt_free(&opt);
  }
}

static void state_restored_gives_the_same_bits(void **state) {
  (void)state;
  enum { N = 30 };
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  const size_t cuts[] = {0, 1, 17, 60}; /* 60: the ring of L-BFGS has wrapped */
  for (size_t c = 0; c < classes; ++c)
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; ++k) {
      opt_probe p = {.f = opt_rosenbrock};
      pn_objective f = opt_objective_for(list[c], &p, N);
      pn_opt *one = opt_of(list[c]->name, N, NULL, 0), *two = opt_of(list[c]->name, N, NULL, 0);
      double x[N] = {0}, y[N], loss = 0;
      opt_image m = {0};
      (void)opt_descend(one, &f, x, 0, cuts[k], &loss);
      pn_copy(N, x, y);
      assert_int_equal(opt_exchange(one, &m, false), TN_OK);
      assert_int_equal(opt_exchange(two, &m, true), TN_OK);
      (void)opt_descend(one, &f, x, 0, 15, &loss);
      (void)opt_descend(two, &f, y, 0, 15, &loss);
      assert_memory_equal(x, y, sizeof x);
      opt_drop(&m);
      pn_opt_free(&one);
      pn_opt_free(&two);
    }
}

static void state_out_of_range_is_refused(void **state) {
  (void)state;
  enum { N = 4 };
  const char *const cases[][2] = {{"lbfgs", "count"},
                                  {"lbfgs", "next"},
                                  {"ssbroyden", "known"},
                                  {"adam", "power1"},
                                  {"lm", "failures"}};
  for (size_t k = 0; k < 5; ++k) {
    pn_opt *opt = opt_of(cases[k][0], N, NULL, 0);
    const double bad[] = {1e6, -1, 1.5, NAN};
    for (size_t j = 0; j < 4; ++j) {
      opt_image m = {0};
      assert_int_equal(opt_exchange(opt, &m, false), TN_OK);
      *opt_find(&m, cases[k][1]) = bad[j];
      assert_int_equal(opt_exchange(opt, &m, true), TN_EINPUT);
      opt_drop(&m);
    }
    pn_opt_free(&opt);
  }
}

/* ---- Points that change ---------------------------------------------------------------------- */

static void resampled_methods_find_the_new_minimum(void **state) {
  (void)state;
  enum { N = 20 };
  const char *const names[] = {"lbfgs", "ssbroyden"};
  for (size_t k = 0; k < 2; ++k) {
    opt_probe p = {.f = opt_quadratic};
    pn_objective f = opt_objective(&p, N);
    pn_opt *opt = opt_of(names[k], N, NULL, 0);
    double x[N] = {0}, loss = 0;
    (void)opt_descend(opt, &f, x, 1e-18, 200, &loss);
    p.shift = 0.01; /* the same Hessian, another minimum */
    assert_int_equal(pn_opt_resampled(opt), TN_OK);
    const size_t calls = p.calls;
    const size_t used = opt_descend(opt, &f, x, 1e-18, 200, &loss);
    assert_true(loss <= 1e-18);
    assert_in_range(p.calls - calls, used + 1, 2 * used + 1); /* one gradient at the old theta */
    assert_in_range(used, 1, 30); /* the curvature learnt is of use: from nothing it takes more */
    pn_opt_free(&opt);
  }
}

/* ---- Trouble --------------------------------------------------------------------------------- */

static void nonfinite_loss_changes_nothing_and_passes(void **state) {
  (void)state;
  enum { N = 6 };
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  for (size_t c = 0; c < classes; ++c) {
    opt_probe p = {.f = opt_rosenbrock, .bad_at = 1, .bad_to = 4};
    pn_objective f = opt_objective_for(list[c], &p, N);
    pn_opt *opt = opt_of(list[c]->name, N, NULL, 0);
    double x[N] = {0}, zero[N] = {0};
    pn_step_report r;
    for (int k = 0; k < 3; ++k) {
      assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
      assert_true(r.nonfinite && !r.accepted && !r.stop && r.reason[0] != '\0');
      assert_memory_equal(x, zero, sizeof x);
    }
    assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
    assert_true(r.accepted && !r.nonfinite);
    p.bad_at = p.calls + 1; /* from here for ever: 40 in a row end the run */
    p.bad_to = SIZE_MAX;
    assert_int_equal(pn_opt_resampled(opt), TN_OK);
    size_t k = 0;
    do
      assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
    while (!r.stop && ++k < 100);
    assert_int_equal(k, 39);
    assert_true(pn_all_finite(N, x));
    pn_opt_free(&opt);
  }
}

static void failing_objective_leaves_theta(void **state) {
  (void)state;
  enum { N = 6 };
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  for (size_t c = 0; c < classes; ++c)
    for (size_t at = 1; at < 30; ++at) {
      opt_probe p = {.f = opt_rosenbrock, .fail_at = at}, q = {.f = opt_rosenbrock};
      pn_objective f = opt_objective_for(list[c], &p, N), sound = opt_objective_for(list[c], &q, N);
      pn_opt *opt = opt_of(list[c]->name, N, NULL, 0), *twin = opt_of(list[c]->name, N, NULL, 0);
      double x[N] = {0}, y[N] = {0}, old[N];
      pn_step_report r;
      tn_status status = TN_OK;
      do {
        pn_copy(N, x, old);
        status = pn_opt_step(opt, &opt_serial, &f, x, &r);
        if (status == TN_OK)
          assert_int_equal(pn_opt_step(twin, &opt_serial, &sound, y, &r), TN_OK);
      } while (status == TN_OK);
      assert_int_equal(status, TN_EIO);
      assert_memory_equal(x, old, sizeof x);
      /* The step repeated is the step of an optimizer that saw no failure. */
      assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
      assert_int_equal(pn_opt_step(twin, &opt_serial, &sound, y, &r), TN_OK);
      assert_memory_equal(x, y, sizeof x);
      pn_opt_free(&opt);
      pn_opt_free(&twin);
    }
}

static double wrong(size_t n, const double *x, double *g) { /* the gradient points uphill */
  const double loss = opt_quadratic(n, x, g);
  for (size_t i = 0; i < n; ++i)
    g[i] = -g[i];
  return loss;
}

static void ends_are_told_in_words(void **state) {
  (void)state;
  enum { N = 5 };
  const char *const names[] = {"lbfgs", "ssbroyden"};
  for (size_t k = 0; k < 2; ++k) {
    double x[N] = {0}, loss = 0;
    pn_step_report r;
    opt_probe p = {.f = wrong};
    pn_objective f = opt_objective(&p, N);
    pn_opt *opt = opt_of(names[k], N, NULL, 0);
    (void)opt_descend(opt, &f, x, 0, 10, &loss);
    assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
    assert_true(r.stop);
    assert_non_null(strstr(r.reason, "line search found no decrease"));
    pn_opt_free(&opt);

    p.f = opt_quadratic;
    opt = opt_of(names[k], N, NULL, 0);
    for (size_t i = 0; i < N; ++i)
      x[i] = 1;
    assert_int_equal(pn_opt_step(opt, &opt_serial, &f, x, &r), TN_OK);
    assert_true(r.stop);
    assert_string_equal(r.reason, "the loss is exactly zero");
    pn_opt_free(&opt);
  }
}

static double raised(size_t n, const double *x, double *g) { /* a positive minimum */
  return 1 + opt_rosenbrock(n, x, g);
}

/* At a minimum of 1 the loss cannot tell more than |x - 1|^2 ~ u; slopes can. A run must get to
 * theta = 1 far better than sqrt(u) and then end. */
static void positive_minimum_is_found_beyond_the_loss(void **state) {
  (void)state;
  enum { N = 10 };
  const char *const names[] = {"lbfgs", "ssbroyden"};
  for (size_t k = 0; k < 2; ++k) {
    double x[N] = {0}, loss = 0;
    opt_probe p = {.f = raised};
    pn_objective f = opt_objective(&p, N);
    pn_opt *opt = opt_of(names[k], N, NULL, 0);
    const size_t used = opt_descend(opt, &f, x, 0, 500, &loss);
    double worst = 0;
    for (size_t i = 0; i < N; ++i)
      worst = fmax(worst, fabs(x[i] - 1));
    print_message("%s: %zu steps, %zu evaluations, error %.1e\n", names[k], used, p.calls, worst);
    assert_in_range(used, 10, 200);
    assert_true(worst < 1e-3 * sqrt(U));
    pn_opt_free(&opt);
  }
}

static void memory_that_runs_out_is_given_back(void **state) {
  (void)state;
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  for (size_t c = 0; c < classes; ++c) {
    tn_status status = TN_ENOMEM;
    uint64_t at = 0;
    while (status != TN_OK) {
      pn_opt *opt = NULL;
      const size_t before = tn_memory_now();
      tn_fault_at(++at, false);
      status = pn_opt_new(list[c], 10, NULL, 0, &opt_serial, &opt);
      tn_fault_at(0, false);
      pn_opt_free(&opt);
      assert_true(status == TN_OK || status == TN_ENOMEM);
      assert_int_equal(tn_memory_now(), before);
    }
    assert_true(at > 4);
  }
}

/* ---- Options and slots ----------------------------------------------------------------------- */

static void options_are_checked(void **state) {
  (void)state;
  const struct {
    const char *class_, *option;
    double value;
    tn_status status;
  } cases[] = {
      {"adam", "beta1", 1, TN_ERANGE},       {"adam", "eps", 0, TN_ERANGE},
      {"adam", "clip", -1, TN_ERANGE},       {"adam", "beta2", NAN, TN_EINPUT},
      {"adamw", "decay", -1, TN_ERANGE},     {"adam", "memory", 3, TN_EINPUT},
      {"lbfgs", "memory", 0, TN_ERANGE},     {"lbfgs", "memory", 2.5, TN_EINPUT},
      {"lbfgs", "c2", 1, TN_ERANGE},         {"ssbroyden", "scale", 2, TN_EINPUT},
      {"ssbroyden", "search", 0, TN_ERANGE}, {"ssbroyden", "noise", -1, TN_ERANGE},
      {"lm", "low", 1, TN_ERANGE},           {"lm", "high", 0, TN_ERANGE},
      {"lm", "probes", 0, TN_ERANGE},        {"lm", "stall", 0, TN_ERANGE},
      {"lm", "geodesic", 0, TN_OK},          {"adam", "clip", 1, TN_OK},
      {"lbfgs", "memory", 3, TN_OK},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    const pn_opt_class *class_ = NULL;
    pn_opt *opt = NULL;
    const pn_setting setting = {cases[k].option, cases[k].value};
    assert_int_equal(pn_opt_find(cases[k].class_, &class_), TN_OK);
    assert_int_equal(pn_opt_new(class_, 3, &setting, 1, &opt_serial, &opt), cases[k].status);
    if (cases[k].status != TN_OK)
      assert_non_null(strstr(tn_error_text(), cases[k].option));
    pn_opt_free(&opt);
  }
  const pn_opt_class *class_ = NULL;
  assert_int_equal(pn_opt_find("newton", &class_), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "ssbroyden"));
}

static void tables_are_complete(void **state) {
  (void)state;
  size_t classes = 0;
  const pn_opt_class *const *list = pn_opt_classes(&classes);
  for (size_t c = 0; c < classes; ++c) {
    assert_true(list[c]->doc[0] != '\0' && list[c]->state_size > 0);
    /* What keeps a gradient must be able to forget it. */
    assert_true(!(list[c]->flags & PN_OPT_KEEPS) || list[c]->resampled);
    for (const pn_option *o = list[c]->options; o->name; ++o) {
      assert_true(o->doc[0] != '\0' && o->offset < list[c]->state_size);
      assert_ptr_equal(pn_opt_option(list[c], o->name), o); /* no name twice */
    }
  }
}

static void missing_slots_are_refused_by_name(void **state) {
  (void)state;
  opt_probe p = {.f = opt_quadratic};
  pn_objective f = opt_objective(&p, 2);
  for (int slot = 0; slot < PN_SLOTS; ++slot) {
    assert_int_equal(pn_objective_need(&f, (pn_slot)slot, "lm"), TN_EUNSUPPORTED);
    assert_non_null(strstr(tn_error_text(), "lm needs"));
  }
  const double thetas[] = {1, 1, 0, 0, 2, 1};
  double losses[3];
  assert_int_equal(pn_objective_losses(&f, 3, thetas, losses), TN_OK); /* the default */
  assert_true(losses[0] == 0 && losses[1] > 500 && losses[2] == 0.5);
}

/* The loss shows nothing and the gradient never vanishes: 20 steps are granted. In 20 steps it
 * falls by e^-20 or so, from 1e-17 to 2e-26, still above the rounding level (4u)^2 = 2e-31. */
static double endless(size_t n, const double *x, double *g) {
  for (size_t i = 0; i < n; ++i)
    g[i] = -1e-17 * exp(-x[i]);
  return 1;
}

static void steps_without_decrease_end(void **state) {
  (void)state;
  const char *const names[] = {"lbfgs", "ssbroyden"};
  for (size_t k = 0; k < 2; ++k) {
    opt_probe p = {.f = endless};
    pn_objective f = opt_objective(&p, 2);
    pn_opt *opt = opt_of(names[k], 2, NULL, 0);
    double x[2] = {0}, loss = 0;
    assert_int_equal(opt_descend(opt, &f, x, 0, 50, &loss), 20);
    pn_opt_free(&opt);
  }
}

/* One parameter: all pairs are parallel, so that the family of updates shrinks to the secant. */
static void one_parameter_is_enough(void **state) {
  (void)state;
  const char *const names[] = {"lbfgs", "ssbroyden"};
  for (size_t k = 0; k < 2; ++k) {
    opt_probe p = {.f = opt_quadratic, .factor = 1e4};
    pn_objective f = opt_objective(&p, 1);
    pn_opt *opt = opt_of(names[k], 1, NULL, 0);
    double x[1] = {-5}, loss = 0;
    assert_in_range(opt_descend(opt, &f, x, 1e-20, 50, &loss), 1, 5);
    assert_true(loss <= 1e-20);
    pn_opt_free(&opt);
  }
}

/* Losses of a converged run are 1e-20 and far below; nothing may be compared with an absolute
 * number. */
static void tiny_losses_are_minimised_as_well(void **state) {
  (void)state;
  enum { N = 10 };
  const char *const names[] = {"lbfgs", "ssbroyden"};
  const double factors[] = {1, 0x1p-100, 0x1p-300, 0x1p100}; /* exact */
  for (size_t k = 0; k < 2; ++k) {
    double kept[N];
    for (size_t j = 0; j < 4; ++j) {
      opt_probe p = {.f = opt_rosenbrock, .factor = factors[j]};
      pn_objective f = opt_objective(&p, N);
      pn_opt *opt = opt_of(names[k], N, NULL, 0);
      double x[N] = {0}, loss = 0;
      const size_t used = opt_descend(opt, &f, x, 1e-20 * factors[j], 400, &loss);
      assert_true(loss <= 1e-20 * factors[j]);
      assert_in_range(used, 10, 150);
      if (j == 0)
        pn_copy(N, x, kept);
      if (k == 0) /* L-BFGS has no number with a scale at all */
        assert_memory_equal(x, kept, sizeof x);
      pn_opt_free(&opt);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_class_solves_every_problem),
      cmocka_unit_test(quadratic_ends_in_n_exact_steps),
      cmocka_unit_test(state_restored_gives_the_same_bits),
      cmocka_unit_test(state_out_of_range_is_refused),
      cmocka_unit_test(resampled_methods_find_the_new_minimum),
      cmocka_unit_test(nonfinite_loss_changes_nothing_and_passes),
      cmocka_unit_test(failing_objective_leaves_theta),
      cmocka_unit_test(ends_are_told_in_words),
      cmocka_unit_test(positive_minimum_is_found_beyond_the_loss),
      cmocka_unit_test(memory_that_runs_out_is_given_back),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(tables_are_complete),
      cmocka_unit_test(missing_slots_are_refused_by_name),
      cmocka_unit_test(steps_without_decrease_end),
      cmocka_unit_test(one_parameter_is_enough),
      cmocka_unit_test(tiny_losses_are_minimised_as_well),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
