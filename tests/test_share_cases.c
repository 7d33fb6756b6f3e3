/* test_share_cases.c: points that are shared among ranks give what one rank alone gives.
 *
 * Losses are sums over all points divided by their number, so uneven shares and ranks without points change nothing;
 * a mean of the ranks' means would give other numbers, which stand beside. An overflow at the points of one rank makes
 * all ranks skip the step. Trainings end in the same bits, and ranks that do not agree any more are found out. Ranks are
 * threads here (support_comm.h); their bodies report and do not assert.
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

#include "autograd/autograd.h"
#include "pinn/blas.h"
#include "pinn/scaler.h"
#include "pinn/train.h"
#include "tests/support_comm.h"
#include "tests/support_loss.h"

enum { MOST_RANKS = 4 };
static const double limit = 20; /* s of each call */

/* ---- A step program -------------------------------------------------------------------------- */

enum { MOST_WEIGHTS = 400, MOST_LEAVES = 4 };

/* loss = mean of r(x)^2, with weights of up to MOST_LEAVES blocks; outputs: S times the loss, then the gradient of it. */
typedef struct step {
  tn_graph *graph;
  tn_value leaf[MOST_LEAVES], x, kick, scale;
  tn_buffer *weight[MOST_LEAVES], *points, *factor;
  size_t n_leaves, n_weights, n_points, size[MOST_LEAVES];
  tn_dtype dtype;
  tn_program *program;
  tn_pool *pool;
  tn_exec *exec;
  pn_scaler *scaler; /* NULL: S = 1 */
} step;

static void step_close(step *s) {
  tn_exec_free(&s->exec);
  tn_program_free(&s->program);
  for (size_t i = 0; i < s->n_leaves; ++i)
    tn_buffer_release(&s->weight[i]);
  tn_buffer_release(&s->points);
  tn_buffer_release(&s->factor);
  tn_pool_free(&s->pool);
  tn_graph_free(&s->graph);
}

static tn_value add_weight(step *s, const char *name, size_t rank, const size_t *extent) {
  size_t i = s->n_leaves++;
  s->leaf[i] = tn_parameter(s->graph, name, s->dtype, tn_shape_fixed(rank, extent));
  s->size[i] = 1;
  for (size_t k = 0; k < rank; ++k)
    s->size[i] *= extent[k];
  s->n_weights += s->size[i];
  return s->leaf[i];
}

/* u = w x^2 + b, r = u_x. */
static tn_value parabola(step *s) {
  tn_value w = add_weight(s, "w", 0, NULL), b = add_weight(s, "b", 0, NULL);
  tn_value u = tn_add(tn_mul(tn_square(s->x), w), b);
  return ag_d(u, s->x, 1);
}

/* u = a network of two hidden layers, r = kick u_x - cos(x): what kicks is the inner derivative. */
static tn_value network(step *s) {
  enum { WIDTH = 16 };
  tn_value h = tn_reshape(s->x, tn_shape_batch(tn_shape_of(s->x).axis[0], 1));
  tn_value first = add_weight(s, "first", 2, (size_t[]){1, WIDTH});
  tn_value second = add_weight(s, "second", 2, (size_t[]){WIDTH, WIDTH});
  tn_value last = add_weight(s, "last", 2, (size_t[]){WIDTH, 1});
  h = tn_tanh(tn_linear(h, first, (tn_value){0}, false));
  h = tn_tanh(tn_linear(h, second, (tn_value){0}, false));
  tn_value u = tn_reshape(tn_linear(h, last, (tn_value){0}, false), tn_shape_of(s->x));
  return tn_sub(tn_mul(ag_d(u, s->x, 1), s->kick), tn_cos(s->x));
}

static tn_status step_compile(step *s, tn_value (*residual)(step *s), tn_dtype low) {
  const ag_cast_policy policy = {.low = low};
  tn_value outputs[1 + MOST_LEAVES];
  TN_TRY(tn_graph_new(&s->graph));
  tn_axis axis = tn_axis_new(s->graph, "points");
  s->x = tn_input(s->graph, "x", s->dtype, tn_shape_points(axis));
  s->kick = tn_input(s->graph, "kick", s->dtype, tn_shape_points(axis));
  s->scale = tn_scalar(s->graph, "S", TN_F64, 1);
  tn_value r = residual(s);
  TN_TRY(tn_graph_error(s->graph));
  TN_TRY(ag_resolve(s->graph, 1, &r, NULL, &r, NULL));
  outputs[0] = tn_div(tn_cast(tn_sum_all(tn_square(r)), TN_F64), tn_count(s->graph, TN_F64, axis));
  TN_TRY(ag_grad(tn_mul(outputs[0], s->scale), s->n_leaves, s->leaf, outputs + 1));
  if (low != TN_F64)
    TN_TRY(ag_cast(s->graph, &policy, 1 + s->n_leaves, outputs, outputs));
  return tn_compile(s->graph, 1 + s->n_leaves, outputs, &s->program);
}

static tn_status fill(tn_buffer *buffer, size_t n, const double *x) {
  tn_status status = tn_convert(n, TN_F64, x, tn_buffer_dtype(buffer), tn_map(buffer, TN_WRITE));
  tn_unmap(buffer);
  return status;
}

static tn_status bind_points(step *s, tn_value leaf, size_t n, const double *x, tn_buffer **buffer) {
  tn_buffer_release(buffer);
  TN_TRY(tn_buffer_new(s->dtype, 1, &n, buffer));
  TN_TRY(fill(*buffer, n, x));
  return tn_exec_bind(s->exec, leaf, *buffer);
}

/* The program on n points, shared with the ranks of comm. */
static tn_status step_open(step *s, tn_value (*residual)(step *s), tn_dtype low, tn_comm *comm, size_t n,
                           const double *x, const double *kick) {
  *s = (step){.dtype = low == TN_F64 ? TN_F64 : TN_F32, .n_points = n};
  TN_TRY(tn_pool_new(1, &s->pool));
  tn_pool_ranks(s->pool, comm);
  TN_TRY(step_compile(s, residual, low));
  TN_TRY(tn_exec_new(s->program, s->pool, &s->exec));
  for (size_t i = 0; i < s->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(s->leaf[i]);
    TN_TRY(tn_buffer_new(s->dtype, shape.rank, shape.extent, &s->weight[i]));
    TN_TRY(tn_exec_bind(s->exec, s->leaf[i], s->weight[i]));
  }
  TN_TRY(bind_points(s, s->x, n, x, &s->points));
  return kick ? bind_points(s, s->kick, n, kick, &s->factor) : TN_OK;
}

static tn_status step_run(step *s, const double *theta, double *loss, double *gradient) {
  for (size_t i = 0, at = 0; i < s->n_leaves; at += s->size[i++])
    TN_TRY(fill(s->weight[i], s->size[i], theta + at));
  TN_TRY(tn_exec_set(s->exec, s->scale, s->scaler ? s->scaler->scale : 1));
  TN_TRY(tn_exec_run(s->exec));
  TN_TRY(tn_exec_read(s->exec, 0, 1, loss));
  for (size_t i = 0, at = 0; i < s->n_leaves; at += s->size[i++])
    TN_TRY(tn_exec_read(s->exec, 1 + i, s->size[i], gradient + at));
  return TN_OK;
}

/* As an objective, with the scaler's calls in their order. */
static tn_status slot_gradient(pn_objective *f, const double *theta, double *loss, double *gradient) {
  step *s = f->context;
  double scale = 1;
  if (!s->scaler)
    return step_run(s, theta, loss, gradient);
  TN_TRY(pn_scaler_begin(s->scaler, &scale));
  TN_TRY(step_run(s, theta, loss, gradient));
  TN_TRY(pn_scaler_backward(s->scaler));
  TN_TRY(pn_scaler_reduce(s->scaler, false)); /* the sums hold what any rank saw */
  TN_TRY(pn_scaler_unscale(s->scaler, TN_F32, f->n, gradient));
  return pn_scaler_look(s->scaler, *loss);
}

static tn_status slot_loss(pn_objective *f, const double *theta, double *loss) {
  double unused[MOST_WEIGHTS];
  return step_run(f->context, theta, loss, unused);
}

/* ---- Uneven shares --------------------------------------------------------------------------- */

enum { GROUP = 64 }; /* points of a group in f64: the least that a rank can have */

typedef struct parabola_case {
  size_t n;
  double x[3 * GROUP];
  struct parabola_of_rank {
    tn_status status;
    char text[256];
    double loss, gradient[2], theta[2]; /* theta: after a step of adam */
  } rank[MOST_RANKS];
} parabola_case;

static tn_status train_parabola(const ranks_self *self, const parabola_case *c, struct parabola_of_rank *out,
                                step *s) {
  const pn_opt_context context = {.rate = 1e-2};
  const pn_opt_class *class_ = NULL;
  pn_step_report report;
  pn_opt *opt = NULL;
  TN_TRY(step_open(s, parabola, TN_F64, self->comm, c->n, c->x, NULL));
  out->theta[0] = 1;
  out->theta[1] = 0.25;
  TN_TRY(step_run(s, out->theta, &out->loss, out->gradient));
  pn_objective f = {.context = s, .n = 2, .loss = slot_loss, .gradient = slot_gradient};
  TN_TRY(pn_opt_find("adam", &class_));
  TN_TRY(pn_opt_new(class_, 2, NULL, 0, &context, &opt));
  tn_status status = pn_opt_step(opt, &context, &f, out->theta, &report);
  pn_opt_free(&opt);
  return status;
}

static void parabola_body(const ranks_self *self) {
  parabola_case *c = self->context;
  struct parabola_of_rank *out = &c->rank[self->rank];
  step s;
  out->status = train_parabola(self, c, out, &s);
  snprintf(out->text, sizeof out->text, "%s", out->status == TN_OK ? "" : tn_error_text());
  step_close(&s);
}

/* The same bits on 1 to 4 ranks, with 3 points (some ranks then have none) and with three groups of them. The loss is
 * a sum of three equal parts, so one rounding of the division is left. */
static void uneven_shares_count_every_point_once(void **state) {
  (void)state;
  for (size_t each = 1; each <= GROUP; each += GROUP - 1) {
    parabola_case alone = {.n = 3 * each}, *c = &alone, shared;
    for (size_t i = 0; i < c->n; ++i)
      c->x[i] = (double)(i / each + 1);
    for (size_t ranks = 1; ranks <= MOST_RANKS; ++ranks) {
      if (ranks > 1) {
        shared = alone;
        c = &shared;
      }
      ranks_run(ranks, limit, parabola_body, c);
      for (size_t r = 0; r < ranks; ++r) {
        if (c->rank[r].status != TN_OK)
          fail_msg("rank %zu of %zu: %s", r, ranks, c->rank[r].text);
        assert_true(fabs(c->rank[r].loss - 56.0 / 3) < 1e-13);          /* of rank means: 23 */
        assert_true(fabs(c->rank[r].gradient[0] - 112.0 / 3) < 1e-13); /* of rank means: 46 */
        assert_true(c->rank[r].gradient[1] == 0); /* u_x has no b: zero, not missing */
        assert_true(c->rank[r].theta[1] == 0.25 && c->rank[r].theta[0] != 1);
        assert_memory_equal(&c->rank[r].loss, &alone.rank[0].loss, 5 * sizeof(double));
      }
    }
  }
}

/* What averaging would have given, so that the numbers above can tell the difference. */
static void means_of_ranks_are_another_loss(void **state) {
  (void)state;
  const double x[2][2] = {{1, 2}, {3, NAN}};
  double loss = 0, gradient = 0;
  for (int rank = 0; rank < 2; ++rank) {
    double sum = 0, n = 0;
    for (int i = 0; i < 2 && !isnan(x[rank][i]); ++i, ++n)
      sum += 4 * x[rank][i] * x[rank][i];
    loss += sum / n / 2;
    gradient += 2 * sum / n / 2;
  }
  assert_true(loss == 23 && gradient == 46);
}

/* ---- An overflow on one rank ----------------------------------------------------------------- */

enum { POINTS = 1024, STEPS = 12, BAD_STEP = 10 };

typedef struct kick_case {
  double x[POINTS], kick[POINTS], start[MOST_WEIGHTS];
  size_t bad;  /* the point */
  double what; /* what its inner derivative is multiplied by at step BAD_STEP */
  struct kick_of_rank {
    tn_status status;
    char text[256];
    double theta[STEPS + 1][MOST_WEIGHTS], scale[STEPS + 1], loss[STEPS + 1];
    bool nonfinite[STEPS + 1];
    size_t calls; /* of this rank to the others */
  } *rank;
} kick_case;

static tn_status kicked_step(kick_case *c, struct kick_of_rank *out, step *s, pn_opt *opt, size_t k) {
  const pn_opt_context context = {.rate = 1e-2, .scaler = s->scaler};
  pn_objective f = {.context = s, .n = s->n_weights, .loss = slot_loss, .gradient = slot_gradient};
  pn_scaler_verdict verdict;
  pn_step_report report;
  double kick[POINTS];
  memcpy(kick, c->kick, sizeof kick);
  if (k == BAD_STEP)
    kick[c->bad] = c->what;
  TN_TRY(bind_points(s, s->kick, POINTS, kick, &s->factor));
  memcpy(out->theta[k], out->theta[k - 1], sizeof out->theta[k]);
  TN_TRY(pn_opt_step(opt, &context, &f, out->theta[k], &report));
  TN_TRY(pn_scaler_update(s->scaler, &verdict));
  out->scale[k] = s->scaler->scale;
  out->loss[k] = report.loss_before;
  out->nonfinite[k] = report.nonfinite;
  return TN_OK;
}

static tn_status train_kicked(const ranks_self *self, kick_case *c, struct kick_of_rank *out, step *s) {
  const pn_scaler_options standard = pn_scaler_standard();
  const pn_opt_context context = {.rate = 1e-2};
  const pn_opt_class *class_ = NULL;
  pn_scaler scaler;
  pn_opt *opt = NULL;
  TN_TRY(step_open(s, network, TN_F16, self->comm, POINTS, c->x, c->kick));
  TN_TRY(pn_scaler_init(&scaler, &standard));
  s->scaler = &scaler;
  memcpy(out->theta[0], c->start, sizeof out->theta[0]);
  out->scale[0] = scaler.scale;
  TN_TRY(pn_opt_find("adam", &class_));
  TN_TRY(pn_opt_new(class_, s->n_weights, NULL, 0, &context, &opt));
  tn_status status = TN_OK;
  for (size_t k = 1; status == TN_OK && k <= STEPS; ++k)
    status = kicked_step(c, out, s, opt, k);
  pn_opt_free(&opt);
  return status;
}

static void kick_body(const ranks_self *self) {
  kick_case *c = self->context;
  struct kick_of_rank *out = &c->rank[self->rank];
  step s;
  out->status = train_kicked(self, c, out, &s);
  out->calls = ranks_calls(self->world, self->rank);
  snprintf(out->text, sizeof out->text, "%s", out->status == TN_OK ? "" : tn_error_text());
  step_close(&s);
}

static void kick_new(kick_case *c, size_t bad, double what) {
  memset(c, 0, sizeof *c);
  c->bad = bad;
  c->what = what;
  for (size_t i = 0; i < POINTS; ++i) {
    c->x[i] = 4 * (double)i / POINTS - 2;
    c->kick[i] = 1;
  }
  for (size_t i = 0; i < MOST_WEIGHTS; ++i)
    c->start[i] = 0.3 * tn_random_normal(tn_stream_of(3, "weights"), i);
  OK(TN_NEW(MOST_RANKS, &c->rank));
}

static void check_kicked(const struct kick_of_rank *r, const struct kick_of_rank *alone) {
  if (r->status != TN_OK)
    fail_msg("%s", r->text);
  for (size_t k = 1; k <= STEPS; ++k) {
    bool same = memcmp(r->theta[k], r->theta[k - 1], sizeof r->theta[k]) == 0;
    assert_true(same == (k == BAD_STEP) && r->nonfinite[k] == (k == BAD_STEP));
    assert_true(r->scale[k] == (k < BAD_STEP ? 1 : 0.5) * r->scale[0]);
    assert_true(k == BAD_STEP || isfinite(r->loss[k]));
    assert_memory_equal(r->theta[k], alone->theta[k], sizeof r->theta[k]);
  }
  assert_true(r->loss[STEPS] < r->loss[1]);
}

/* Points 0 and 1023 are the first and last rank's, 600 lies in between: inf or NaN there is seen by all ranks. */
static void overflow_on_one_rank_skips_the_step_on_all(void **state) {
  (void)state;
  static const size_t bad[] = {0, 600, POINTS - 1};
  kick_case *alone = NULL, *shared = NULL;
  OK(TN_NEW(1, &alone));
  OK(TN_NEW(1, &shared));
  for (size_t b = 0; b < 3; ++b)
    for (size_t ranks = 1; ranks <= MOST_RANKS; ranks *= 2) {
      kick_case *c = ranks == 1 ? alone : shared;
      kick_new(c, bad[b], b == 1 ? -INFINITY : INFINITY);
      ranks_run(ranks, limit, kick_body, c);
      for (size_t r = 0; r < ranks; ++r) {
        check_kicked(&c->rank[r], &alone->rank[0]);
        assert_true((c->rank[r].calls >= STEPS) == (ranks > 1));
      }
      if (ranks > 1)
        tn_free(&shared->rank);
      if (ranks == MOST_RANKS)
        tn_free(&alone->rank);
    }
  tn_free(&alone);
  tn_free(&shared);
}

/* ---- A training ------------------------------------------------------------------------------ */

#define PROBLEM                                                                                    \
  "domain = { x = [-1, 1], t = [0, 1] }\nconstants = { nu = 0.02 }\nunknowns = { u = \"x, t\" }\n"   \
  "equations = { burgers = \"u_t + u*u_x = nu*u_xx\" }\n"                                          \
  "conditions = { initial = { on = \"t = 0\", equation = \"u = -sin(pi*x)\" }, "                   \
  "walls = { on = \"x = -1 or x = 1\", equation = \"u = 0\" } }\n"                                 \
  "exact = { u = \"-sin(pi*x)*exp(-t)\" }\n"                                                     \
  "network = { width = 16, depth = 2 }\n"
#define POINTS_REFINED "points = { interior = 900, refine = \"rad\", every = 5 }\n"
#define POINTS_PLAIN "points = { interior = 900 }\n"
#define STAGE(name, steps) "[[stage]]\noptimizer = \"" name "\"\nsteps = " steps "\n"

typedef struct training_case {
  const char *text;
  size_t threads;
  bool faulty; /* a bit of a weight of rank 1 flips at the end of the stage */
  struct training_of_rank {
    tn_status status;
    char text[512];
    bool known; /* all ranks have the failure */
    pn_training *flips;
    size_t n, saves, calls;
    double theta[MOST_WEIGHTS], loss, error;
  } rank[MOST_RANKS];
} training_case;

static tn_status count_save(void *context, pn_training *training, bool stage_end) {
  struct training_of_rank *out = context;
  (void)training;
  (void)stage_end;
  ++out->saves;
  return TN_OK;
}

static tn_status flip_bit(void *context, const pn_progress *progress) {
  struct training_of_rank *out = context;
  uint64_t bits = 0;
  if (!out->flips || !progress->stage_end)
    return TN_OK;
  double *theta = NULL;
  const double *shown = pn_training_theta(out->flips, NULL);
  memcpy(&theta, &shown, sizeof theta);
  memcpy(&bits, &theta[17], sizeof bits);
  bits ^= 1;
  memcpy(&theta[17], &bits, sizeof bits);
  return TN_OK;
}

typedef struct training_parts {
  tn_pool *pool;
  pn_problem *problem;
  pn_model *model;
  pn_training *training;
} training_parts;

static tn_status train_shared(const ranks_self *self, const training_case *c, struct training_of_rank *out,
                              training_parts *p) {
  pn_ranks ranks = {.comm = self->comm};
  const pn_train_options options = {.seed = 7,
                                    .context = out,
                                    .progress = flip_bit,
                                    .checkpoint = count_save,
                                    .checkpoint_seconds = 1e6,
                                    .ranks = &ranks};
  pn_precision precision;
  TN_TRY(tn_pool_new(c->threads, &p->pool));
  tn_pool_ranks(p->pool, self->comm);
  TN_TRY(pn_problem_parse("test.toml", c->text, 0, NULL, &p->problem));
  TN_TRY(pn_problem_precision(p->problem, NULL, &precision));
  TN_TRY(pn_model_new(p->problem, precision.model, &p->model));
  TN_TRY(pn_training_new(p->model, p->pool, &options, &p->training));
  out->flips = c->faulty && self->rank == 1 ? p->training : NULL;
  tn_status status = pn_training_run(p->training);
  out->known = ranks.known;
  TN_TRY(status);
  const pn_train_result *result = pn_training_result(p->training);
  const double *theta = pn_training_theta(p->training, &out->n);
  if (out->n > MOST_WEIGHTS)
    return TN_FAIL(TN_ERANGE, "%zu weights", out->n);
  memcpy(out->theta, theta, out->n * sizeof *theta);
  out->loss = result->loss;
  out->error = result->fields[0].rel_l2;
  return TN_OK;
}

static void training_body(const ranks_self *self) {
  training_case *c = self->context;
  struct training_of_rank *out = &c->rank[self->rank];
  training_parts p = {0};
  memset(out, 0, sizeof *out);
  out->status = train_shared(self, c, out, &p);
  snprintf(out->text, sizeof out->text, "%s", out->status == TN_OK ? "" : tn_error_text());
  out->calls = ranks_calls(self->world, self->rank);
  pn_training_free(&p.training);
  pn_model_free(&p.model);
  pn_problem_free(&p.problem);
  tn_pool_free(&p.pool);
}

static void expect_same_training(const char *name, const char *text) {
  static training_case alone, shared;
  alone = (training_case){.text = text, .threads = 2};
  ranks_run(1, limit, training_body, &alone);
  if (alone.rank[0].status != TN_OK)
    fail_msg("%s: %s", name, alone.rank[0].text);
  for (size_t ranks = 2; ranks <= MOST_RANKS; ++ranks) {
    shared = (training_case){.text = text, .threads = 1};
    ranks_run(ranks, limit, training_body, &shared);
    for (size_t r = 0; r < ranks; ++r) {
      const struct training_of_rank *a = &alone.rank[0], *b = &shared.rank[r];
      if (b->status != TN_OK)
        fail_msg("%s, rank %zu of %zu: %s", name, r, ranks, b->text);
      assert_int_equal(b->saves, r == 0 ? a->saves : 0);
      assert_true(b->n == a->n && b->calls > 0 && b->loss == a->loss && b->error == a->error);
      if (memcmp(a->theta, b->theta, a->n * sizeof *a->theta) != 0)
        fail_msg("%s: rank %zu of %zu has other weights than one alone", name, r, ranks);
    }
  }
}

static void training_has_the_same_bits_on_any_number_of_ranks(void **state) {
  (void)state;
  int threads = pn_blas_alone(); /* one setting for all ranks: they are threads of one process here */
  expect_same_training("adam", PROBLEM POINTS_REFINED STAGE("adam", "7"));
  expect_same_training("lbfgs", PROBLEM POINTS_REFINED STAGE("lbfgs", "7"));
  expect_same_training("ssbroyden", PROBLEM POINTS_PLAIN STAGE("ssbroyden", "5"));
  expect_same_training("lm", PROBLEM POINTS_PLAIN STAGE("lm", "3"));
  expect_same_training("adam in f32",
                       PROBLEM "precision = { compute = \"f32\" }\n" POINTS_PLAIN STAGE("adam", "4"));
  expect_same_training("adam in f16",
                       PROBLEM "precision = { compute = \"f16\" }\n" POINTS_REFINED STAGE("adam", "7"));
  pn_blas_restore(threads);
}

/* The least fault is seen before it is saved, by all ranks, and the message has both digests. */
static void ranks_that_differ_in_one_bit_do_not_save(void **state) {
  (void)state;
  static training_case c;
  c = (training_case){.text = PROBLEM POINTS_PLAIN STAGE("adam", "3"), .threads = 1, .faulty = true};
  ranks_run(3, limit, training_body, &c);
  for (size_t r = 0; r < 3; ++r) {
    assert_true(c.rank[r].status == TN_ESTATE && c.rank[r].known && c.rank[r].saves == 0);
    assert_non_null(strstr(c.rank[r].text, "before a save, step 3: not the same on all ranks"));
    assert_non_null(strstr(c.rank[r].text, "1 of 3 differ from rank 0: rank 0 "));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uneven_shares_count_every_point_once),
      cmocka_unit_test(means_of_ranks_are_another_loss),
      cmocka_unit_test(overflow_on_one_rank_skips_the_step_on_all),
      cmocka_unit_test(training_has_the_same_bits_on_any_number_of_ranks),
      cmocka_unit_test(ranks_that_differ_in_one_bit_do_not_save),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
