/* cmd_validate_underflow.c: `pinn validate underflow FILE`: what a low format does to a training step.
 *
 * The solver gives the numbers (pn_underflow_...), validate/ measures and writes. Every operand of a matrix
 * product is read from the f64 program and, at each loss scale 2^0, 2^2, ..., 2^24, from the low program; then the
 * gradients over all points. Activations do not depend on the loss scale and are compared once.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/cli/validate.h"
#include "pinn/pinn.h"

enum { SCALES = 13, STEP = 2, STANDARD_STEPS = 200 };

typedef struct reading { /* one operand of a block in f64 */
  size_t n;
  double *x; /* owned */
} reading;

typedef struct job {
  pn_underflow *set;
  vd_underflow study;
  size_t n_operands, n_theta;
  size_t *channel;   /* of each operand, in the study */
  reading *exact;    /* one an operand */
  double *reference; /* the f64 gradient */
  double *low;       /* a gradient a scale, unscaled */
} job;

/* ---- Operands -------------------------------------------------------------------------------- */

static tn_status add_operands(job *j) {
  TN_TRY(TN_NEW(j->n_operands, &j->channel));
  TN_TRY(TN_NEW(j->n_operands, &j->exact));
  for (size_t i = 0; i < j->n_operands; ++i) {
    const pn_operand *o = pn_underflow_operand(j->set, i);
    TN_TRY(vd_underflow_channel(&j->study, o->adjoint ? VD_ADJOINT : VD_ACTIVATION, o->layer,
                                o->label, o->at, &j->channel[i]));
  }
  return TN_OK;
}

static tn_status read_exact(job *j, size_t block) {
  TN_TRY(pn_underflow_run(j->set, PN_IN_F64, block, 0));
  for (size_t i = 0; i < j->n_operands; ++i) {
    const double *x = NULL;
    reading *r = &j->exact[i];
    TN_TRY(pn_underflow_read(j->set, PN_IN_F64, i, &r->n, &x));
    tn_free(&r->x);
    TN_TRY(TN_NEW(r->n, &r->x));
    memcpy(r->x, x, r->n * sizeof *x);
    vd_underflow_reference(&j->study, j->channel[i], r->n, x);
  }
  return TN_OK;
}

static tn_status compare(job *j, size_t block, size_t k) {
  TN_TRY(pn_underflow_run(j->set, PN_IN_LOW, block, j->study.scale[k]));
  for (size_t i = 0; i < j->n_operands; ++i) {
    const double *x = NULL;
    size_t n = 0;
    bool adjoint = pn_underflow_operand(j->set, i)->adjoint;
    if (!adjoint && k > 0)
      continue;
    TN_TRY(pn_underflow_read(j->set, PN_IN_LOW, i, &n, &x));
    vd_tally_add(&j->study.channels[j->channel[i]].run[adjoint ? k : 0], &j->study.format,
                 adjoint ? j->study.scale[k] : 0, n, j->exact[i].x, x);
  }
  return TN_OK;
}

static tn_status measure_operands(job *j) {
  TN_TRY(add_operands(j));
  for (size_t b = 0; b < pn_underflow_blocks(j->set); ++b) {
    TN_TRY(read_exact(j, b));
    for (size_t k = 0; k < j->study.n_scales; ++k)
      TN_TRY(compare(j, b, k));
  }
  for (size_t i = 0; i < j->n_operands; ++i)
    tn_free(&j->exact[i].x);
  return TN_OK;
}

/* ---- Weights and gradients ------------------------------------------------------------------- */

static const char suffix[] = ".weight";

/* "net1.layer2" of "net1.layer2.weight"; other names stay. */
static void layer_of(const char *block, char layer[96]) {
  size_t n = strlen(block), m = sizeof suffix - 1;
  bool weight = n > m && strcmp(block + n - m, suffix) == 0;
  snprintf(layer, 96, "%.*s", (int)(weight ? n - m : n), block);
}

static tn_status add_weights(job *j, const pn_underflow_block *blocks, const double *theta) {
  char layer[96];
  for (size_t b = 0; b < j->study.n_blocks; ++b) {
    const pn_underflow_block *w = &blocks[b];
    size_t c = 0;
    if (!w->low)
      continue;
    layer_of(w->name, layer);
    TN_TRY(vd_underflow_channel(&j->study, VD_WEIGHT, layer, "", "", &c));
    vd_underflow_reference(&j->study, c, w->count, theta + w->offset);
    j->study.channels[c].run[0] =
        j->study.channels[c].rounded[0]; /* all that a run does to a weight */
  }
  return TN_OK;
}

/* gradient[block * stride + k]: every block, then the whole. */
static void judge_gradient(const job *j, const pn_underflow_block *blocks, const double *low,
                           vd_gradient *out, size_t stride) {
  for (size_t b = 0; b < j->study.n_blocks; ++b)
    out[b * stride] =
        vd_gradient_of(blocks[b].count, j->reference + blocks[b].offset, low + blocks[b].offset);
  out[j->study.n_blocks * stride] = vd_gradient_of(j->n_theta, j->reference, low);
}

/* Gradients of weights of a run; where they are f32, as they would be in the format. */
static void tally_gradients(job *j, const pn_underflow_block *blocks, size_t first, size_t k) {
  size_t c = first;
  for (size_t b = 0; b < j->study.n_blocks; ++b) {
    const pn_underflow_block *w = &blocks[b];
    if (w->low)
      vd_tally_round(&j->study.channels[c++].run[k], &j->study.format, j->study.scale[k], w->count,
                     j->reference + w->offset, j->low + k * j->n_theta + w->offset);
  }
}

static tn_status measure_gradients(job *j, const pn_underflow_block *blocks) {
  vd_underflow *u = &j->study;
  double loss = 0, exact = 0, single = 0;
  char layer[96];
  size_t first = u->n_channels;
  TN_TRY(TN_NEW((u->n_blocks + 1) * u->n_scales, &u->gradient));
  TN_TRY(TN_NEW(u->n_blocks + 1, &u->single));
  TN_TRY(pn_underflow_gradient(j->set, PN_IN_F64, 0, &exact, j->reference));
  if (!isfinite(exact)) /* every number below would be about that, and none about the format */
    return TN_FAIL(TN_ENONFINITE,
                   "pinn validate underflow: the loss is %s at these weights and points in f64 too; "
                   "`pinn solve` names the place",
                   isnan(exact) ? "undefined" : "infinite");
  for (size_t b = 0; b < u->n_blocks; ++b) {
    size_t c = 0;
    if (!blocks[b].low)
      continue;
    layer_of(blocks[b].name, layer);
    TN_TRY(vd_underflow_channel(u, VD_WEIGHT_GRADIENT, layer, "", "", &c));
    u->channels[c].kept = !u->pure;
    vd_underflow_reference(u, c, blocks[b].count, j->reference + blocks[b].offset);
  }
  TN_TRY(pn_underflow_gradient(j->set, PN_IN_F32, 0, &single, j->low));
  judge_gradient(j, blocks, j->low, u->single, 1);
  for (size_t k = 0; k < u->n_scales; ++k) {
    double *low = j->low + k * j->n_theta;
    TN_TRY(pn_underflow_gradient(j->set, PN_IN_LOW, u->scale[k], &loss, low));
    judge_gradient(j, blocks, low, u->gradient + k, u->n_scales);
    tally_gradients(j, blocks, first, k);
  }
  return vd_underflow_fact(u, "loss", "%.6g in f64, %.6g in f32, %.6g in %s", exact, single, loss,
                           tn_dtype_name(u->format.dtype));
}

/* Distances to the gradient at the advised scale. */
static tn_status measure_moves(job *j) {
  vd_underflow *u = &j->study;
  const double norm = u->single[u->n_blocks].norm;
  size_t best = 0;
  TN_TRY(TN_NEW(u->n_scales, &u->moved));
  for (size_t k = 0; k < u->n_scales; ++k)
    best = u->scale[k] == u->best ? k : best;
  for (size_t k = 0; k < u->n_scales; ++k) {
    double square = 0;
    for (size_t i = 0; i < j->n_theta; ++i) {
      double d = j->low[k * j->n_theta + i] - j->low[best * j->n_theta + i];
      square += d * d;
    }
    u->moved[k] = norm > 0 ? sqrt(square) / norm : 0;
  }
  return TN_OK;
}

static void measure_updates(job *j, const double *theta, double rate) {
  static const tn_dtype masters[] = {TN_F32, TN_F16, TN_BF16};
  for (size_t m = 0; m < 3; ++m)
    for (size_t k = 0; k < 3; ++k)
      j->study.update[j->study.n_updates++] =
          vd_updates_of(masters[m], rate * pow(10, -(double)k), j->n_theta, theta, j->reference);
}

/* ---- Training with a scaler ------------------------------------------------------------------ */

static tn_status train(job *j, size_t steps) {
  vd_underflow *u = &j->study;
  pn_scaler_record *records = NULL;
  char carried[320];
  size_t n = 0;
  if (!pn_underflow_scales(j->set))
    return vd_underflow_fact(u, "scaler", "none: %s",
                             u->pure ? "gradients are low before a scale could be divided out"
                                     : "the exponents are those of f32");
  TN_TRY(pn_underflow_train(j->set, steps, &n, &records, carried, sizeof carried));
  tn_status status = TN_NEW(n, &u->steps);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    const pn_scaler_record *r = &records[i];
    u->steps[i] = (vd_scaler_step){r->step, r->scale, r->loss, r->tracker, r->skipped};
  }
  u->n_steps = status == TN_OK ? n : 0;
  tn_free(&records);
  TN_TRY(status);
  return vd_underflow_fact(u, "scaler", "%zu steps of adam from these weights; training carries %s",
                           n, carried[0] ? carried : "every channel as it is");
}

/* ---- The study ------------------------------------------------------------------------------- */

static tn_status gather_facts(job *j, const cli_validation *v, const char *path) {
  vd_underflow *u = &j->study;
  pn_underflow_facts f;
  pn_underflow_facts_of(j->set, &f);
  j->n_theta = f.n_theta;
  u->rate = f.rate;
  snprintf(u->title, sizeof u->title, "What %s does to a training step of %.100s",
           tn_dtype_name(u->format.dtype), path);
  TN_TRY(vd_underflow_fact(u, "weights", "%zu, %s%.150s", f.n_theta,
                           v->weights != NULL ? "trained: " : "fresh",
                           v->weights != NULL ? v->weights : ""));
  TN_TRY(vd_underflow_fact(
      u, "points", "%zu of each equation, %zu in all, in %zu block%s; the file trains with %zu",
      f.interior, f.points, pn_underflow_blocks(j->set),
      pn_underflow_blocks(j->set) == 1 ? "" : "s", f.file_interior));
  TN_TRY(vd_underflow_fact(u, "channels", "%.380s", f.channels));
  TN_TRY(vd_underflow_fact(
      u, "low", u->pure ? "every number" : "inputs of matrix products, both widths at least 16"));
  TN_TRY(vd_underflow_fact(u, "rate", "%.3g (%s, first stage)", f.rate, f.optimizer));
  return vd_underflow_fact(u, "loss scales", "2^0 to 2^%d in steps of 2^%d", (SCALES - 1) * STEP,
                           STEP);
}

static tn_status study(job *j, const cli_validation *v, const char *path) {
  vd_underflow *u = &j->study;
  const pn_underflow_block *blocks = NULL;
  const double *theta = NULL;
  for (u->n_scales = 0; u->n_scales < SCALES; ++u->n_scales)
    u->scale[u->n_scales] = STEP * (int)u->n_scales;
  TN_TRY(gather_facts(j, v, path));
  j->n_operands = pn_underflow_operands(j->set);
  u->n_blocks = pn_underflow_weights(j->set, &blocks, &theta);
  TN_TRY(TN_NEW(u->n_blocks, &u->block));
  for (size_t b = 0; b < u->n_blocks; ++b)
    snprintf(u->block[b], sizeof u->block[b], "%s", blocks[b].name);
  TN_TRY(TN_NEW(j->n_theta, &j->reference));
  TN_TRY(TN_NEW(j->n_theta * u->n_scales, &j->low));
  TN_TRY(measure_operands(j));
  TN_TRY(add_weights(j, blocks, theta));
  TN_TRY(measure_gradients(j, blocks));
  measure_updates(j, theta, u->rate);
  TN_TRY(train(j, v->steps > 0 ? v->steps : STANDARD_STEPS));
  TN_TRY(vd_underflow_judge(u));
  return measure_moves(j);
}

/* ---- The command ----------------------------------------------------------------------------- */

static tn_status read_format(const char *name, tn_dtype *out) {
  *out = TN_F16;
  if (name == NULL)
    return TN_OK;
  TN_TRY(pn_precision_dtype(name, out));
  if (*out == TN_TF32 || *out == TN_BF16 || *out == TN_F16)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "pinn validate underflow: --dtype is `%s`, expected f16, bf16 or tf32",
                 name);
}

static int write_text(const char *path, tn_status made, char **text) {
  int status = made == TN_OK ? cli_write(path, *text) : cli_failed(made);
  tn_free(text);
  return status;
}

static int deliver(const cli_validation *v, const vd_underflow *u) {
  char *text = NULL;
  int status = write_text(NULL, vd_underflow_markdown(u, v->all, &text), &text);
  if (status == 0 && v->markdown != NULL)
    status = write_text(v->markdown, vd_underflow_markdown(u, true, &text), &text);
  if (status == 0 && v->json != NULL)
    status = write_text(v->json, vd_underflow_json(u, &text), &text);
  if (status == 0 && v->html != NULL)
    status = write_text(v->html, vd_underflow_html(u, &text), &text);
  return status == 0 && !u->carried ? 1 : status;
}

static void job_free(job *j) {
  for (size_t i = 0; j->exact != NULL && i < j->n_operands; ++i)
    tn_free(&j->exact[i].x);
  tn_free(&j->exact);
  tn_free(&j->channel);
  tn_free(&j->reference);
  tn_free(&j->low);
  pn_underflow_free(&j->set);
  vd_underflow_free(&j->study);
}

int cli_validate_underflow(cli_validation *v, const char *path) {
  job j = {0};
  pn_problem *problem = NULL;
  tn_pool *pool = NULL;
  pn_underflow_options options = {
      .weights = v->weights, .pure = v->pure, .points = v->points, .seed = v->seed.value};
  if (v->only != NULL || v->order != NULL || v->exhaustive)
    return cli_failed(TN_FAIL(TN_EINPUT, "pinn validate underflow: --%s is for `pinn validate ops`",
                              v->only != NULL    ? "only"
                              : v->order != NULL ? "order"
                                                 : "exhaustive"));
  tn_status done = read_format(v->dtype, &options.low);
  if (done == TN_OK)
    done = pn_problem_load(path, v->sets.n, v->sets.text, &problem);
  if (done == TN_OK)
    done = tn_pool_new(0, &pool);
  if (done == TN_OK)
    done = pn_underflow_new(problem, pool, &options, &j.set);
  j.study.format = vd_format_of(options.low);
  j.study.pure = options.pure;
  if (done == TN_OK)
    done = study(&j, v, path);
  int status = done == TN_OK ? deliver(v, &j.study) : cli_failed(done);
  job_free(&j);
  tn_pool_free(&pool);
  pn_problem_free(&problem);
  return status;
}
