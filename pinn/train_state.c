/* train_state.c: the history of a run, and its whole state as named numbers.
 *
 * What a visitor sees is enough to continue with the same bits: theta, the optimizer, where in the
 * plan, the points (refined ones cannot be drawn again), weights and scales, and the history so
 * that curves go on. A visitor of its own makes a digest of all that but the times, which tells
 * whether the ranks of a run still agree.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/train_inside.h"

/* ---- History --------------------------------------------------------------------------------- */

static tn_status reserve(pn_history *h, size_t capacity) {
  double **columns[] = {&h->step, &h->stage, &h->seconds, &h->loss, &h->rate};
  if (capacity <= h->capacity)
    return TN_OK;
  for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i)
    TN_TRY(tn_grow(columns[i], h->capacity, capacity, sizeof(double)));
  TN_TRY(tn_grow(&h->relative, h->capacity * h->n_terms, capacity * h->n_terms, sizeof(double)));
  TN_TRY(tn_grow(&h->error, h->capacity * h->n_unknowns, capacity * h->n_unknowns, sizeof(double)));
  TN_TRY(tn_grow(&h->parameter, h->capacity * h->n_parameters, capacity * h->n_parameters,
                 sizeof(double)));
  h->capacity = capacity;
  return TN_OK;
}

tn_status pn_history_add(pn_history *h, const pn_progress *p) {
  if (h->n == h->capacity)
    TN_TRY(reserve(h, h->capacity ? 2 * h->capacity : 64));
  size_t i = h->n++;
  h->step[i] = (double)p->step;
  h->stage[i] = (double)p->stage;
  h->seconds[i] = p->seconds;
  h->loss[i] = p->loss;
  h->rate[i] = p->rate;
  memcpy(h->relative + i * h->n_terms, p->relative, h->n_terms * sizeof(double));
  memcpy(h->error + i * h->n_unknowns, p->errors, h->n_unknowns * sizeof(double));
  if (h->n_parameters)
    memcpy(h->parameter + i * h->n_parameters, p->parameters, h->n_parameters * sizeof(double));
  return TN_OK;
}

void pn_history_free(pn_history *h) {
  tn_free(&h->step);
  tn_free(&h->stage);
  tn_free(&h->seconds);
  tn_free(&h->loss);
  tn_free(&h->rate);
  tn_free(&h->relative);
  tn_free(&h->error);
  tn_free(&h->parameter);
  h->n = h->capacity = 0;
}

static tn_status visit_history(pn_history *h, pn_state_visitor *v) {
  size_t n = h->n;
  TN_TRY(pn_visit_count(v, "history.n", (size_t)1 << 40, &n));
  if (v->restores)
    TN_TRY(reserve(h, n));
  h->n = n;
  if (n == 0)
    return TN_OK;
  TN_TRY(v->doubles(v, "history.step", n, h->step));
  TN_TRY(v->doubles(v, "history.stage", n, h->stage));
  TN_TRY(v->doubles(v, "history.seconds", n, h->seconds));
  TN_TRY(v->doubles(v, "history.loss", n, h->loss));
  TN_TRY(v->doubles(v, "history.rate", n, h->rate));
  if (h->n_terms)
    TN_TRY(v->doubles(v, "history.relative", n * h->n_terms, h->relative));
  if (h->n_parameters)
    TN_TRY(v->doubles(v, "history.parameter", n * h->n_parameters, h->parameter));
  return h->n_unknowns ? v->doubles(v, "history.error", n * h->n_unknowns, h->error) : TN_OK;
}

/* ---- Points ---------------------------------------------------------------------------------- */

static tn_status visit_site(const pn_problem *problem, pn_site *site, pn_state_visitor *v) {
  char name[256];
  size_t n = site->n;
  snprintf(name, sizeof name, "counts.%s", site->key); /* a coordinate may be called n */
  TN_TRY(pn_visit_count(v, name, (size_t)1 << 40, &n));
  if (v->restores && site->free_)
    TN_TRY(pn_site_resize(site, n));
  site->n = n;
  for (size_t c = 0; c < problem->n_coordinates; ++c) {
    if (!site->column[c])
      continue;
    snprintf(name, sizeof name, "points.%s.%s", site->key, problem->coordinates[c].name);
    TN_TRY(v->doubles(v, name, n, site->column[c]));
    if (!site->normal[c])
      continue;
    snprintf(name, sizeof name, "normals.%s.%s", site->key, problem->coordinates[c].name);
    TN_TRY(v->doubles(v, name, n, site->normal[c]));
  }
  return TN_OK;
}

/* ---- Stages ---------------------------------------------------------------------------------- */

static tn_status visit_stage(pn_stage_result *stage, size_t s, pn_state_visitor *v) {
  char name[64];
  double reason[sizeof stage->reason];
  snprintf(name, sizeof name, "stages.%zu.steps", s + 1);
  TN_TRY(pn_visit_count(v, name, (size_t)1 << 50, &stage->steps));
  snprintf(name, sizeof name, "stages.%zu.seconds", s + 1);
  TN_TRY(v->number(v, name, &stage->seconds));
  snprintf(name, sizeof name, "stages.%zu.loss", s + 1);
  TN_TRY(v->number(v, name, &stage->loss));
  for (size_t i = 0; i < sizeof stage->reason; ++i)
    reason[i] = (unsigned char)stage->reason[i];
  snprintf(name, sizeof name, "stages.%zu.reason", s + 1);
  TN_TRY(v->doubles(v, name, sizeof stage->reason, reason));
  for (size_t i = 0; i < sizeof stage->reason; ++i)
    stage->reason[i] = (char)(reason[i] >= 0 && reason[i] < 256 ? (unsigned char)reason[i] : '?');
  stage->reason[sizeof stage->reason - 1] = '\0';
  return TN_OK;
}

/* The optimizer's names get "optimizer." in front. */
static tn_status named_doubles(pn_state_visitor *v, const char *name, size_t n, double *data) {
  pn_state_visitor *outer = v->context;
  char full[256];
  snprintf(full, sizeof full, "optimizer.%s", name);
  return outer->doubles(outer, full, n, data);
}

static tn_status named_number(pn_state_visitor *v, const char *name, double *x) {
  pn_state_visitor *outer = v->context;
  char full[256];
  snprintf(full, sizeof full, "optimizer.%s", name);
  return outer->number(outer, full, x);
}

static tn_status visit_optimizer(pn_opt *opt, pn_state_visitor *v) {
  pn_state_visitor inner = {v, v->restores, named_doubles, named_number};
  return pn_opt_visit(opt, &inner);
}

static tn_status visit_place(pn_training *t, pn_state_visitor *v, bool *open) {
  const size_t most = (size_t)1 << 50;
  TN_TRY(pn_visit_count(v, "stage", t->plan.n, &t->stage));
  TN_TRY(pn_visit_count(v, "stage_step", most, &t->stage_step));
  TN_TRY(pn_visit_count(v, "step", most, &t->step));
  TN_TRY(pn_visit_count(v, "round", most, &t->round));
  TN_TRY(pn_visit_count(v, "mark_step", most, &t->mark_step));
  TN_TRY(v->number(v, "mark_loss", &t->mark_loss));
  TN_TRY(v->number(v, "loss", &t->result.loss));
  TN_TRY(v->number(v, "seconds", &t->seconds));
  TN_TRY(v->number(v, "stage_seconds", &t->stage_seconds));
  *open = t->opt != NULL;
  TN_TRY(pn_visit_flag(v, "open", open));
  if (*open && t->stage >= t->plan.n)
    return TN_FAIL(TN_EINPUT, "checkpoint: stage %zu of %zu is open", t->stage + 1, t->plan.n);
  return TN_OK;
}

tn_status pn_training_visit(pn_training *t, pn_state_visitor *v) {
  bool open = false;
  TN_TRY(visit_place(t, v, &open));
  TN_TRY(v->doubles(v, "theta", t->n, t->theta));
  TN_TRY(v->doubles(v, "unknown_scale", t->problem->n_unknowns, t->main.model->unknown_scale));
  TN_TRY(v->doubles(v, "scale", t->n_scales, t->scale));
  TN_TRY(v->doubles(v, "weight", t->sites->n_terms, t->weight));
  TN_TRY(pn_causal_visit(t, v));
  for (size_t i = 0; i < t->sites->n_sites; ++i)
    TN_TRY(visit_site(t->problem, &t->sites->sites[i], v));
  for (size_t s = 0; s < t->plan.n; ++s)
    TN_TRY(visit_stage(&t->result.stages[s], s, v));
  TN_TRY(visit_history(&t->history, v));
  if (v->restores) {
    t->result.steps = t->step;
    t->result.seconds = t->seconds;
    pn_opt_free(&t->opt);
    TN_TRY(pn_training_choose(t, t->stage < t->plan.n ? t->stage : t->plan.n - 1));
    memcpy(t->good, t->theta, t->n * sizeof *t->theta);
    if (open)
      TN_TRY(pn_training_optimizer(t, t->stage));
  }
  if (open)
    TN_TRY(visit_optimizer(t->opt, v));
  TN_TRY(pn_low_visit(t, v, open));
  return v->restores ? pn_training_apply(t) : TN_OK;
}

/* ---- Digest ---------------------------------------------------------------------------------- */

static tn_status digest_doubles(pn_state_visitor *v, const char *name, size_t n, double *data) {
  static const char clock[] = "seconds"; /* each rank has its own */
  uint64_t *digest = v->context;
  const size_t length = strlen(name), tail = sizeof clock - 1;
  if (length < tail || strcmp(name + length - tail, clock) != 0)
    *digest = pn_digest(*digest, n * sizeof *data, data);
  return TN_OK;
}

static tn_status digest_number(pn_state_visitor *v, const char *name, double *x) {
  return digest_doubles(v, name, 1, x);
}

tn_status pn_training_same(pn_training *t, const char *when) {
  uint64_t digest = PN_DIGEST;
  pn_state_visitor visitor = {&digest, false, digest_doubles, digest_number};
  char what[96];
  if (pn_ranks_size(t->options.ranks) == 1)
    return TN_OK;
  TN_TRY(pn_training_visit(t, &visitor));
  snprintf(what, sizeof what, "weights, optimizer and points %s, step %zu", when, t->step);
  return pn_ranks_same(t->options.ranks, what, digest);
}
