/* test_train.c: a run as a whole: it learns, repeats itself, resumes, stops, and tells when it
 * fails. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/train.h"

#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != TN_OK)                                                                           \
      fail_msg("%s", tn_error_text());                                                             \
  } while (0)

#define ODE                                                                                        \
  "domain = { x = [0, 1] }\nunknowns = { y = \"x\" }\nequations = { ode = \"y_x = 2*x\" }\n"       \
  "conditions = { start = { on = \"x = 0\", equation = \"y = 0\" } }\nexact = { y = \"x^2\" }\n"   \
  "network = { width = 8, depth = 2 }\npoints = { interior = 64%s }\n"

/* ---- A run ----------------------------------------------------------------------------------- */

typedef struct run {
  pn_problem *problem;
  pn_model *model;
  tn_pool *pool;
  pn_training *training;
  size_t stop_at;     /* step after which a signal arrives; 0: never */
  size_t step;        /* as last told */
  size_t calls, ends; /* of progress, with stage_end */
  size_t saves;
  size_t polls;
} run;

static tn_status on_progress(void *context, const pn_progress *p) {
  run *r = context;
  ++r->calls;
  r->ends += p->stage_end;
  r->step = p->step;
  assert_true(p->stage_step <= p->stage_steps && p->stage <= p->n_stages);
  return TN_OK;
}

static tn_status on_checkpoint(void *context, pn_training *training, bool stage_end) {
  run *r = context;
  (void)training;
  (void)stage_end;
  ++r->saves;
  return TN_OK;
}

static int on_stop(void *context) {
  run *r = context;
  return r->stop_at && r->polls++ == r->stop_at ? 15 : 0;
}

static void open_run(run *r, const char *text, uint64_t seed, size_t threads) {
  *r = (run){0};
  OK(tn_pool_new(threads, &r->pool));
  OK(pn_problem_parse("test.toml", text, 0, NULL, &r->problem));
  OK(pn_model_new(r->problem, TN_F64, &r->model));
  const pn_train_options options = {.seed = seed,
                                    .context = r,
                                    .progress = on_progress,
                                    .checkpoint = on_checkpoint,
                                    .stop = on_stop};
  OK(pn_training_new(r->model, r->pool, &options, &r->training));
}

static void close_run(run *r) {
  pn_training_free(&r->training);
  pn_model_free(&r->model);
  pn_problem_free(&r->problem);
  tn_pool_free(&r->pool);
}

static bool same_theta(const run *a, const run *b) {
  size_t n = 0, m = 0;
  const double *x = pn_training_theta(a->training, &n), *y = pn_training_theta(b->training, &m);
  return n == m && memcmp(x, y, n * sizeof *x) == 0;
}

/* ---- A checkpoint in memory ------------------------------------------------------------------ */

typedef struct entry {
  char name[256];
  size_t n;
  double *data;
} entry;

typedef struct memory {
  size_t n;
  entry entries[256];
} memory;

static tn_status visit_doubles(pn_state_visitor *v, const char *name, size_t n, double *data) {
  memory *m = v->context;
  if (!v->restores) {
    assert_true(m->n < 256);
    for (size_t i = 0; i < m->n; ++i)
      assert_string_not_equal(m->entries[i].name, name); /* names are unique */
    entry *e = &m->entries[m->n++];
    snprintf(e->name, sizeof e->name, "%s", name);
    e->n = n;
    e->data = malloc((n + 1) * sizeof *data);
    assert_non_null(e->data);
    memcpy(e->data, data, n * sizeof *data);
    return TN_OK;
  }
  for (size_t i = 0; i < m->n; ++i)
    if (strcmp(m->entries[i].name, name) == 0) {
      assert_int_equal(m->entries[i].n, n);
      memcpy(data, m->entries[i].data, n * sizeof *data);
      return TN_OK;
    }
  fail_msg("%s was not saved", name);
  return TN_EINPUT;
}

static tn_status visit_number(pn_state_visitor *v, const char *name, double *x) {
  return visit_doubles(v, name, 1, x);
}

static void forget(memory *m) {
  for (size_t i = 0; i < m->n; ++i)
    free(m->entries[i].data);
  m->n = 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const char *ode(char *out, size_t size, const char *points, const char *rest) {
  int used = snprintf(out, size, ODE, points);
  snprintf(out + used, size - (size_t)used, "%s", rest);
  return out;
}

static void small_problem_is_solved_and_stops_early(void **state) {
  (void)state;
  char text[2048];
  run r;
  open_run(&r, ode(text, sizeof text, "", "accept = { error = 1e-4 }\n"), 0, 1);
  OK(pn_training_run(r.training));
  const pn_train_result *result = pn_training_result(r.training);
  assert_int_equal(result->outcome, PN_CONVERGED);
  assert_true(result->fields[0].rel_l2 <= 1e-4);
  assert_true(result->terms[0].relative <= 1e-2 && result->terms[1].relative <= 1e-2);
  assert_true(result->steps < 12000);
  const char *reason = result->stages[result->stages[1].steps ? 1 : 0].reason;
  assert_int_equal(strncmp(reason, "accepted at step", 16), 0);
  assert_true(r.saves >= 1 && r.ends >= 1 && r.calls >= r.ends);
  assert_string_equal(result->detector, "");
  close_run(&r);
}

static const char *const short_stages =
    "weights = { scheme = \"balance\" }\n"
    "[[stage]]\noptimizer = \"adam\"\nsteps = 150\nrate = 5e-3\n"
    "[[stage]]\noptimizer = \"ssbroyden\"\nsteps = 60\n";

static void same_seed_same_bits_other_seed_others(void **state) {
  (void)state;
  char text[2048];
  run r[4];
  for (size_t k = 0; k < 4; ++k) {
    open_run(&r[k], ode(text, sizeof text, "", short_stages), k == 3 ? 8 : 7, k == 1 ? 2 : 1);
    OK(pn_training_run(r[k].training));
  }
  assert_true(same_theta(&r[0], &r[1])); /* two threads */
  assert_true(same_theta(&r[0], &r[2]));
  assert_false(same_theta(&r[0], &r[3]));
  for (size_t k = 0; k < 4; ++k)
    close_run(&r[k]);
}

/* Stopped in the first stage, in the second, and with refined points: the resumed run ends with
 * the bits of the one that was never stopped. */
static void resumed_run_has_the_same_bits(void **state) {
  (void)state;
  const size_t stop_at[] = {70, 175, 175};
  for (size_t k = 0; k < 3; ++k) {
    char text[2048];
    memory m = {0};
    run whole, first, second;
    const char *points = k == 2 ? ", refine = \"rad\", every = 20" : "";
    ode(text, sizeof text, points, short_stages);
    open_run(&whole, text, 3, 1);
    OK(pn_training_run(whole.training));
    open_run(&first, text, 3, 1);
    first.stop_at = stop_at[k];
    OK(pn_training_run(first.training));
    assert_int_equal(pn_training_result(first.training)->outcome, PN_TERMINATED);
    assert_false(same_theta(&whole, &first));
    pn_state_visitor v = {&m, false, visit_doubles, visit_number};
    OK(pn_training_visit(first.training, &v));
    close_run(&first);
    open_run(&second, text, 3, 1);
    v.restores = true;
    OK(pn_training_visit(second.training, &v));
    /* What the banner calls the step, also before the first record: the polls so far. */
    assert_int_equal(pn_training_result(second.training)->steps, stop_at[k]);
    OK(pn_training_run(second.training));
    assert_true(same_theta(&whole, &second));
    assert_int_equal(pn_training_history(whole.training)->n,
                     pn_training_history(second.training)->n);
    assert_int_equal(pn_training_result(second.training)->steps, 210);
    forget(&m);
    close_run(&second);
    close_run(&whole);
  }
}

/* A state is saved under names; coordinates may be called like anything, equations have their own. */
static void saved_numbers_have_names_of_their_own(void **state) {
  (void)state;
  memory m = {0};
  run r;
  open_run(&r,
           "domain = { n = [0, 1], t = [0, 1] }\nunknowns = { u = \"n, t\", s = \"t\" }\n"
           "equations = { heat = \"u_t = u_nn\", right = \"u(n=1) = s\", ode = \"s_t = -s\" }\n"
           "conditions = { start = { on = \"t = 0\", equation = [\"u = n\", \"s = 1\"] } }\n"
           "network = { width = 4, depth = 1 }\npoints = { interior = 64 }\n"
           "[[stage]]\noptimizer = \"adam\"\nsteps = 3\n",
           0, 1);
  OK(pn_training_run(r.training));
  pn_state_visitor v = {&m, false, visit_doubles, visit_number};
  OK(pn_training_visit(r.training, &v)); /* the visitor fails on a name that comes twice */
  assert_true(m.n > 0);
  forget(&m);
  close_run(&r);
}

/* "y = 0" is built in; had the file said "y = 1" after all, no training could help, and the run must
 * say so. */
static void built_in_condition_that_fails_is_no_solution(void **state) {
  (void)state;
  for (int spoilt = 0; spoilt < 2; ++spoilt) {
    run r = {0};
    OK(tn_pool_new(1, &r.pool));
    OK(pn_problem_parse("test.toml",
                        "domain = { x = [0, 1] }\nunknowns = { y = \"x\" }\n"
                        "equations = { ode = \"y_x = 2*x\" }\nconditions = { "
                        "start = { on = \"x = 0\", equation = \"y = 0\", hard = true } }\n"
                        "network = { width = 8, depth = 2 }\npoints = { interior = 64 }\n"
                        "[[stage]]\noptimizer = \"ssbroyden\"\nsteps = 200\n",
                        0, NULL, &r.problem));
    OK(pn_model_new(r.problem, TN_F64, &r.model));
    if (spoilt)
      OK(pn_problem_expression(r.problem, "spoilt", "1",
                               &r.problem->conditions[0].relations[0].rhs));
    const pn_train_options options = {.context = &r};
    OK(pn_training_new(r.model, r.pool, &options, &r.training));
    OK(pn_training_run(r.training));
    const pn_train_result *result = pn_training_result(r.training);
    assert_int_equal(result->n_terms, 2);
    assert_string_equal(pn_training_checked(r.training, 1)->name, "start");
    assert_true(result->terms[0].accepted); /* the equation alone is solved either way */
    assert_int_equal(result->terms[1].accepted, !spoilt);
    assert_int_equal(result->outcome, spoilt ? PN_NOT_CONVERGED : PN_CONVERGED);
    close_run(&r);
  }
}

static void unsolved_problem_is_not_accepted(void **state) {
  (void)state;
  char text[2048];
  run r;
  open_run(&r, ode(text, sizeof text, "", "[[stage]]\noptimizer = \"adam\"\nsteps = 1\n"), 0, 1);
  OK(pn_training_run(r.training));
  assert_int_equal(pn_training_result(r.training)->outcome, PN_NOT_CONVERGED);
  assert_string_equal(pn_training_result(r.training)->stages[0].reason, "all steps done");
  close_run(&r);
}

/* A rate of 100 throws y - the square root's argument - below zero, from a start where it is
 * positive. */
static void bad_number_ends_the_run_with_good_weights(void **state) {
  (void)state;
  run r;
  open_run(&r,
           "domain = { x = [0, 1] }\nunknowns = { y = { of = \"x\", ansatz = \"4 + net\" } }\n"
           "equations = { ode = \"y_x = sqrt(y)\" }\n"
           "conditions = { start = { on = \"x = 0\", equation = \"y = 1\" } }\n"
           "network = { width = 8, depth = 2 }\npoints = { interior = 64 }\n"
           "[[stage]]\noptimizer = \"adam\"\nsteps = 200\nrate = 100\n",
           0, 1);
  assert_int_equal(pn_training_run(r.training), TN_ENONFINITE);
  assert_non_null(strstr(tn_error_text(), "square root of a negative number"));
  assert_non_null(strstr(tn_error_text(), "`ode`"));
  assert_non_null(strstr(tn_error_text(), "test.toml:3:"));
  assert_int_equal(pn_training_result(r.training)->outcome, PN_NONFINITE);
  assert_int_equal(r.saves, 1);
  double loss = NAN;
  size_t n = 0;
  const double *theta = pn_training_theta(r.training, &n);
  pn_objective *f = pn_loss_objective((pn_loss *)pn_training_loss(r.training));
  OK(pn_objective_loss(f, theta, &loss));
  assert_true(isfinite(loss));
  close_run(&r);
}

static void limits_of_time_and_stall_end_stages(void **state) {
  (void)state;
  char text[2048];
  run r;
  ode(text, sizeof text, "",
      "[[stage]]\noptimizer = \"adam\"\nsteps = 1000000\nseconds = 0.05\n"
      "[[stage]]\noptimizer = \"adam\"\nsteps = 1000\nrate = 1e-12\nstall = 10\n");
  open_run(&r, text, 0, 1);
  OK(pn_training_run(r.training));
  const pn_train_result *result = pn_training_result(r.training);
  assert_string_equal(result->stages[0].reason, "time limit of the stage, 0.05 s");
  assert_true(result->stages[0].seconds < 1);
  assert_non_null(strstr(result->stages[1].reason, "the loss has not fallen"));
  assert_true(result->stages[1].steps <= 12);
  close_run(&r);
}

/* Single precision in a stage, then double: a second edition over the same weights and points. */
static void stages_may_differ_in_precision(void **state) {
  (void)state;
  char text[2048];
  run r;
  ode(text, sizeof text, "",
      "[[stage]]\noptimizer = \"adam\"\nsteps = 200\nrate = 5e-3\nprecision = \"f32\"\n"
      "[[stage]]\noptimizer = \"ssbroyden\"\nsteps = 100\n");
  open_run(&r, text, 0, 1);
  OK(pn_training_run(r.training));
  const pn_train_result *result = pn_training_result(r.training);
  assert_true(result->stages[0].loss < 0.1);
  assert_true(result->stages[1].loss < 1e-3 * result->stages[0].loss);
  close_run(&r);
}

static void default_plan_follows_the_size(void **state) {
  (void)state;
  char text[2048];
  pn_problem *problem = NULL;
  pn_plan plan;
  OK(pn_problem_parse("test.toml", ode(text, sizeof text, "", ""), 0, NULL, &problem));
  for (size_t n = 5000; n < 5002; ++n) {
    OK(pn_plan_new(problem, n, &plan));
    assert_true(plan.standard && plan.n == 2);
    assert_string_equal(plan.stages[0].class_->name, "adam");
    assert_int_equal(plan.stages[0].stage.steps, 500);
    assert_int_equal(plan.stages[0].schedule.kind, PN_COSINE);
    assert_string_equal(plan.stages[1].class_->name, n == 5000 ? "ssbroyden" : "lbfgs");
    pn_plan_limit(&plan, 0);
    assert_true(plan.stages[0].stage.seconds == 0);
    pn_plan_limit(&plan, 100); /* adam gets a small part of a limit, the last stage the rest */
    assert_true(plan.stages[0].stage.seconds > 0 && plan.stages[0].stage.seconds < 50);
    assert_true(plan.stages[1].stage.seconds == 0);
    pn_plan_free(&plan);
  }
  for (size_t n = 2000; n < 2002; ++n) { /* lm makes the start while a step of it is cheap */
    OK(pn_plan_new(problem, n, &plan));
    assert_int_equal(plan.lm_first, n == 2000);
    assert_string_equal(plan.stages[0].class_->name, n == 2000 ? "lm" : "adam");
    assert_string_equal(plan.stages[plan.n - 1].class_->name, "ssbroyden");
    pn_plan_limit(&plan, 100);
    assert_true((plan.stages[0].stage.seconds == 0) == (n == 2000));
    pn_plan_free(&plan);
  }
  pn_problem_free(&problem);
  OK(pn_problem_parse("test.toml", ode(text, sizeof text, "", "precision = { compute = \"f32\" }"),
                      0, NULL, &problem));
  OK(pn_plan_new(problem, 100, &plan));
  assert_false(plan.lm_first); /* lm is for f64 */
  pn_plan_free(&plan);
  pn_problem_free(&problem);
}

/* An eigenvalue without a norm: 0 meets all residuals, and the run says so. */
static void zero_is_no_answer(void **state) {
  (void)state;
  run r;
  open_run(&r,
           "domain = { x = [0, 1] }\nunknowns = { s = \"x\" }\nparameters = { E = 3 }\n"
           "equations = { e = \"-0.5*s_xx - E*s = 0\" }\nnetwork = { width = 6, depth = 1 }\n"
           "conditions = { ends = { on = \"boundary\", equation = \"s = 0\" } }\n",
           0, 1);
  OK(pn_training_run(r.training));
  const pn_train_result *result = pn_training_result(r.training);
  assert_int_equal(result->outcome, PN_NOT_CONVERGED);
  assert_non_null(strstr(result->detector, "s is 0 everywhere"));
  close_run(&r);
}

/* Lengths in units 2^-10 as large and values in units 8 times as large: the scaled problem is the same number for
 * number, so the relative errors have the same bits. */
static void units_by_powers_of_two_change_no_bit(void **state) {
  (void)state;
  static const char *const form = "domain = { x = [0, %s] }\nunknowns = { y = \"x\" }\n"
                                  "equations = { e = \"y_x = %s*x*cos(x/%s)\" }\n"
                                  "conditions = { a = { on = \"x = 0\", equation = \"y = %s\" } }\n"
                                  "exact = { y = \"%s*(1 + 2*(x/%s*sin(x/%s) + cos(x/%s) - 1))\" }\n"
                                  "network = { width = 6, depth = 1 }\n"
                                  "stage = [{ optimizer = \"lm\", steps = 8 }]\n";
  const char *const unit[] = {"1", "1024"}, *const rate[] = {"2", "0.25/1048576"}, *const size[] = {"1", "1/8"};
  double error[2], loss[2];
  for (int k = 0; k < 2; ++k) {
    char text[1024];
    run r;
    snprintf(text, sizeof text, form, unit[k], rate[k], unit[k], size[k], size[k], unit[k],
             unit[k], unit[k]);
    open_run(&r, text, 3, 1);
    OK(pn_training_run(r.training));
    error[k] = pn_training_result(r.training)->fields[0].rel_l2;
    loss[k] = pn_training_result(r.training)->loss;
    close_run(&r);
  }
  assert_true(error[0] > 0 && error[0] < 0.1);
  assert_memory_equal(&error[0], &error[1], sizeof error[0]);
  assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zero_is_no_answer),
      cmocka_unit_test(units_by_powers_of_two_change_no_bit),
      cmocka_unit_test(small_problem_is_solved_and_stops_early),
      cmocka_unit_test(same_seed_same_bits_other_seed_others),
      cmocka_unit_test(resumed_run_has_the_same_bits),
      cmocka_unit_test(saved_numbers_have_names_of_their_own),
      cmocka_unit_test(built_in_condition_that_fails_is_no_solution),
      cmocka_unit_test(unsolved_problem_is_not_accepted),
      cmocka_unit_test(bad_number_ends_the_run_with_good_weights),
      cmocka_unit_test(limits_of_time_and_stall_end_stages),
      cmocka_unit_test(stages_may_differ_in_precision),
      cmocka_unit_test(default_plan_follows_the_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
