/* identify.c: how well the data determine parameters and hidden fields, at the end of a run.
 *
 * About the answer the residuals are linear, r(theta + d) = r + J d, and the misfit is that of a normal
 * distribution if the rows are divided by their standard deviations:
 *
 *   data         F_i / sigma_i: sigma of the file, or the rms that the misfit has now (then estimated)
 *   all others   F / (s e sqrt(n)): equations are no measurements. Their rms residual e, over their scale s, is how
 *                far they are from fulfilled, and that error is one for all n points and does not average out
 *   weights      a change by 1 is as likely as none: rows theta / tau, tau = 1 (10 for parameters)
 *
 * With J = Q R, R' = QR of (R over the diagonal 1/tau) holds the precision R'^T R'. Parameters are the last
 * columns, so the last block S of R' alone gives their covariance (S^T S)^-1: the networks are eliminated, which
 * is the Schur complement without a difference. Of a field, var u(x) = |R'^-T du(x)/dtheta|^2.
 *
 * Intervals hold 95 %: value(z -+ q std z), q of the normal distribution, or of Student's t with N - p degrees of
 * freedom where sigma is estimated; through the map of a parameter they keep bounds and signs. They know nothing of
 * an answer that is a wrong minimum, nor of equations that do not describe the experiment.
 */
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/blas.h"
#include "pinn/data.h"
#include "pinn/train_inside.h"

enum { MOST = 4500, PANEL = 32, GRID_1 = 81, GRID_2 = 13, SCATTER = 128 };
static const double floor_of_residuals = 1e-6; /* beyond it rows of such sizes spoil each other */
static const double tau_parameter = 10, far = 3; /* times its surroundings: a field is badly known there */

/* ---- Quantile --------------------------------------------------------------------------------- */

/* 97.5 % of Student's t by the series in 1/dof (Cornish and Fisher); of the normal distribution for dof = 0. */
double pn_student(double dof) {
  const double z = 1.959963984540054, z2 = z * z;
  if (dof <= 0)
    return z;
  double a = z * (z2 + 1) / 4, b = z * (5 * z2 * z2 + 16 * z2 + 3) / 96,
         c = z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / 384;
  double t = z + a / dof + b / (dof * dof) + c / (dof * dof * dof);
  return dof < 2 ? 12.706 : dof < 3 ? 4.303 : t;
}

/* ---- The factor ------------------------------------------------------------------------------- */

/* Rows over their standard deviations. */
static void set_rows(pn_training *t, pn_identified *out) {
  pn_loss *loss = t->main.loss;
  out->sigma_known = true;
  for (size_t m = 0; m < t->sites->n_terms; ++m) {
    const pn_data *data = t->sites->terms[m].term->data;
    double n = 0, e = fmax(pn_loss_last_relative(loss, m), floor_of_residuals);
    for (size_t k = 0; k < t->sites->terms[m].n_sites; ++k)
      n += (double)t->sites->sites[t->sites->terms[m].site[k]].n;
    n *= (double)pn_loss_relations(loss, m);
    for (size_t r = 0; data && !isnan(data->sigma) && r < pn_loss_relations(loss, m); ++r)
      pn_loss_set_scale(loss, m, r, data->sigma);
    pn_loss_set_weight(loss, m, data ? isnan(data->sigma) ? n / (e * e) : n : 1 / (e * e));
    out->sigma_known = out->sigma_known && !(data && isnan(data->sigma));
    out->measured += data ? n : 0;
  }
}

/* By columns: R with the prior below it. */
static tn_status add_prior(const pn_training *t, double *R) {
  size_t n = t->n;
  double *A = NULL, *B = NULL, *T = NULL;
  TN_TRY(TN_NEW(n * n, &A));
  tn_status status = TN_NEW(n * n, &B);
  if (status == TN_OK)
    status = TN_NEW(PANEL * n, &T);
  for (size_t j = 0; status == TN_OK && j < n; ++j) {
    for (size_t i = 0; i <= j; ++i)
      A[i + j * n] = R[i * n + j];
    B[j + j * n] = j < t->main.model->first_parameter ? 1 : 1 / tau_parameter;
  }
  int threads = pn_blas_alone();
  lapack_int k = (lapack_int)n, panel = n < PANEL ? k : PANEL;
  if (status == TN_OK &&
      LAPACKE_dtpqrt(LAPACK_COL_MAJOR, k, k, k, panel, A, k, B, k, T, panel) != 0)
    status = TN_FAIL(TN_EINTERNAL, "QR of R and the prior failed");
  pn_blas_restore(threads);
  for (size_t j = 0; status == TN_OK && j < n; ++j)
    for (size_t i = 0; i <= j; ++i)
      R[i * n + j] = A[i + j * n];
  tn_free(&A);
  tn_free(&B);
  tn_free(&T);
  return status;
}

/* y = R'^-T g, in place. */
static void solve_transposed(size_t n, const double *R, double *g) {
  for (size_t i = 0; i < n; ++i) {
    double x = g[i] = g[i] / R[i * n + i];
    for (size_t j = i + 1; x != 0 && j < n; ++j)
      g[j] -= R[i * n + j] * x;
  }
}

static tn_status factor(pn_training *t, pn_identified *out, double *R) {
  double loss = 0, *q = NULL;
  pn_objective *f = pn_loss_objective(t->main.loss);
  TN_TRY(pn_objective_need(f, PN_SLOT_QR, "confidence intervals"));
  TN_TRY(TN_NEW(t->n, &q));
  tn_status status = pn_loss_bind(t->main.loss);
  if (status == TN_OK)
    status = pn_objective_loss(f, t->theta, &loss);
  if (status == TN_OK) {
    set_rows(t, out);
    status = pn_loss_bind(t->main.loss);
  }
  if (status == TN_OK)
    status = f->qr(f, t->theta, &loss, R, q);
  if (status == TN_OK)
    status = add_prior(t, R);
  tn_free(&q);
  return status;
}

/* ---- Parameters ------------------------------------------------------------------------------- */

static size_t column_of(const pn_training *t, size_t i) {
  return t->main.model->blocks[t->main.model->parameter_block[i]].offset;
}

/* Columns of C[p x n]: R'^-T e_j of parameter j, which is zero but for the last block. */
static tn_status parameters(pn_training *t, const pn_identified *out, const double *R) {
  size_t p = t->problem->n_parameters, n = t->n;
  double q = pn_student(out->sigma_known ? 0 : out->measured - (double)p), *C = NULL;
  TN_TRY(TN_NEW(p * n, &C));
  for (size_t i = 0; i < p; ++i) {
    C[i * n + column_of(t, i)] = 1;
    solve_transposed(n, R, C + i * n);
  }
  for (size_t i = 0; i < p; ++i) {
    const pn_parameter *k = &t->problem->parameters[i];
    pn_parameter_result *r = &t->result.parameters[i];
    double std = 0, z = t->theta[column_of(t, i)];
    for (size_t j = 0; j < n; ++j)
      std += C[i * n + j] * C[i * n + j];
    std = sqrt(std);
    r->std = std * pn_parameter_slope(k, z);
    r->low = pn_parameter_of(k, z - q * std);
    r->high = pn_parameter_of(k, z + q * std);
    r->identified = std < 1;
    for (size_t o = 0; o < p; ++o) {
      double dot = 0, other = 0;
      for (size_t j = 0; j < n; ++j) {
        dot += C[i * n + j] * C[o * n + j];
        other += C[o * n + j] * C[o * n + j];
      }
      double correlation = dot / (std * sqrt(other));
      if (o == i || fabs(correlation) <= fabs(r->correlation))
        continue;
      r->correlation = correlation;
      r->with = o;
    }
  }
  tn_free(&C);
  return TN_OK;
}

/* ---- Fields ----------------------------------------------------------------------------------- */

static bool is_hidden(const pn_problem *p, size_t u) {
  bool data = false;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; p->conditions[i].data && r < p->conditions[i].n_relations; ++r) {
      data = true;
      if (pn_expr_unknowns(p, p->conditions[i].relations[r].whole) >> u & 1u)
        return false;
    }
  return data;
}

/* Places of a hidden field: a grid with both ends, or Sobol points. */
static tn_status place_points(const pn_training *t, const pn_unknown *u, pn_site *site) {
  const pn_problem *p = t->problem;
  const pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = t->options.seed, .factor = 1};
  snprintf(site->key, sizeof site->key, "spread");
  for (size_t j = 0; j < u->n_of; ++j)
    site->free_ |= UINT32_C(1) << u->of[j];
  if (u->n_of > 2)
    return pn_site_draw(t->sites, site, &draw, SCATTER);
  size_t side = u->n_of == 1 ? GRID_1 : GRID_2, n = u->n_of == 1 ? side : side * side;
  TN_TRY(pn_site_resize(site, n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < u->n_of; ++j) {
      const pn_coordinate *c = &p->coordinates[u->of[j]];
      double share = (double)(j == 0 ? i % side : i / side) / (double)(side - 1);
      site->column[u->of[j]][i] = c->lo + (c->hi - c->lo) * share;
    }
  return TN_OK;
}

/* G[n_points x n] = du/dtheta there. */
static tn_status slopes(pn_training *t, size_t unknown, const pn_site *site, double *G) {
  pn_model *m = t->main.model;
  pn_scope scope;
  tn_value value = {0}, *leaves = NULL, *rows = NULL;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  pn_feed feed = {0};
  pn_weights_buffer theta = {0};
  TN_TRY(pn_scope_new(m, "spread", NULL, site->free_, &scope));
  TN_TRY(pn_lower_unknown(&scope, unknown, &value));
  TN_TRY(ag_resolve(m->graph, 1, &value, NULL, &value, NULL));
  TN_TRY(TN_NEW(m->n_blocks, &leaves));
  tn_status status = TN_NEW(m->n_blocks, &rows);
  for (size_t b = 0; status == TN_OK && b < m->n_blocks; ++b)
    leaves[b] = m->blocks[b].leaf;
  if (status == TN_OK)
    status = ag_rows(m->n_blocks, leaves, 1, &value, rows);
  if (status == TN_OK)
    status = tn_compile(m->graph, m->n_blocks, rows, &program);
  if (status == TN_OK)
    status = tn_exec_alone(program, t->pool, &exec);
  if (status == TN_OK)
    status = pn_theta_new(m, &theta);
  if (status == TN_OK)
    status = pn_theta_set(m, &theta, t->theta);
  if (status == TN_OK)
    status = pn_theta_bind(m, &theta, exec);
  if (status == TN_OK)
    status = pn_feed_site(&feed, t->main.scopes, &scope, site, 0, site->n);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, exec);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  for (size_t b = 0; status == TN_OK && b < m->n_blocks; ++b) {
    const pn_block *block = &m->blocks[b];
    tn_buffer *buffer = NULL;
    status = tn_exec_output(exec, b, &buffer);
    bool fits = status == TN_OK && tn_buffer_count(buffer) == site->n * block->count;
    const double *x = fits ? tn_map(buffer, TN_READ) : NULL;
    for (size_t i = 0; x && i < site->n; ++i)
      memcpy(G + i * t->n + block->offset, x + i * block->count, block->count * sizeof *G);
    if (x)
      tn_unmap(buffer);
  }
  pn_feed_clear(&feed);
  pn_theta_free(m, &theta);
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_free(&leaves);
  tn_free(&rows);
  return status;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Is the spread at point i a peak: so many times what it falls to on both sides before it rises higher (an end of the
 * range: on the one side)? Points of one coordinate are in order. */
static bool is_peak(const double *std, size_t n, size_t i) {
  double left = std[i], right = std[i];
  for (size_t k = i; k > 0 && std[k - 1] < std[i]; --k)
    left = fmin(left, std[k - 1]);
  for (size_t k = i + 1; k < n && std[k] <= std[i]; ++k)
    right = fmin(right, std[k]);
  double valley = i == 0 ? right : i + 1 == n ? left : fmax(left, right);
  return std[i] > far * valley;
}

static tn_status judge_field(const pn_training *t, const pn_unknown *u, const pn_site *site,
                             const double *std, pn_spread *s) {
  double *sorted = NULL;
  size_t worst = 0;
  TN_TRY(TN_NEW(site->n, &sorted));
  memcpy(sorted, std, site->n * sizeof *sorted);
  qsort(sorted, site->n, sizeof *sorted, ascending);
  s->known = true;
  s->median = sorted[site->n / 2];
  s->largest = sorted[site->n - 1];
  tn_free(&sorted);
  for (size_t i = 0; i < site->n; ++i)
    worst = std[i] > std[worst] ? i : worst;
  pn_site_point(t->problem, site, worst, s->place);
  for (size_t i = 0; u->n_of == 1 && i < site->n; ++i)
    if (is_peak(std, site->n, i) && s->n_peaks < PN_PEAKS)
      s->peak[s->n_peaks++] = site->column[u->of[0]][i];
  return TN_OK;
}

static tn_status field(pn_training *t, size_t u, const double *R) {
  const pn_unknown *unknown = &t->problem->unknowns[u];
  pn_site site = {0};
  double *G = NULL, *std = NULL;
  tn_status status = place_points(t, unknown, &site);
  if (status == TN_OK)
    status = TN_NEW(site.n * t->n, &G);
  if (status == TN_OK)
    status = TN_NEW(site.n, &std);
  if (status == TN_OK)
    status = slopes(t, u, &site, G);
  for (size_t i = 0; status == TN_OK && i < site.n; ++i) {
    double sum = 0;
    solve_transposed(t->n, R, G + i * t->n);
    for (size_t j = 0; j < t->n; ++j)
      sum += G[i * t->n + j] * G[i * t->n + j];
    std[i] = sqrt(sum);
  }
  if (status == TN_OK)
    status = judge_field(t, unknown, &site, std, &t->result.identified.spread[u]);
  pn_site_clear(&site);
  tn_free(&G);
  tn_free(&std);
  return status;
}

/* ---- All --------------------------------------------------------------------------------------- */

static bool is_inverse(const pn_problem *p) {
  bool inverse = p->n_parameters > 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    inverse = inverse || is_hidden(p, u);
  return inverse;
}

static tn_status identify(pn_training *t) {
  pn_identified *out = &t->result.identified;
  double *R = NULL;
  TN_TRY(TN_NEW(t->n * t->n, &R));
  tn_status status = factor(t, out, R);
  if (status == TN_OK)
    status = parameters(t, out, R);
  for (size_t u = 0; status == TN_OK && u < t->problem->n_unknowns; ++u)
    if (is_hidden(t->problem, u))
      status = field(t, u, R);
  tn_free(&R);
  return status;
}

tn_status pn_training_identify(pn_training *t) {
  pn_identified *out = &t->result.identified;
  out->done = false;
  if (!is_inverse(t->problem))
    return TN_OK;
  if (t->main.model->dtype != TN_F64 || t->n > MOST) {
    snprintf(out->why, sizeof out->why, "intervals: not computed in %s with %zu weights (f64, at most %d)",
             tn_dtype_name(t->main.model->dtype), t->n, (int)MOST);
    return TN_OK;
  }
  tn_status status = identify(t);
  if (status == TN_ENOMEM)
    return status;
  out->done = status == TN_OK;
  if (status != TN_OK) {
    snprintf(out->why, sizeof out->why, "intervals: %.130s", tn_error_text());
    tn_error_clear();
  }
  return pn_training_apply(t); /* the weights of the loss again */
}
