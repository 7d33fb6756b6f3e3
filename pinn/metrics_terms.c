/* metrics_terms.c: residuals of the terms on points that were never trained.
 *
 * Four times as many points as trained, of the same sites, from another stream. Conditions met by
 * construction are measured like all others, on sites of their own: they are promised, and a
 * promise that fails must not pass as an answer.
 *
 * The residual of a relation is measured by the size of its own terms, so that small units cannot
 * make a poor answer look good:
 *
 *   relative = rms F / max(largest rms of a top-level term, floor)
 *
 * floor = one tenth of the size that the measured unknowns lead to expect (scale.c), and all of it
 * where the relation is one term only (u = 0, w_xx = 0), which would otherwise be compared with
 * itself. Of data with sigma the rms is what it has beyond the noise:
 *
 *   sigma sqrt(m^2 - 1) where m = sqrt(mean (F_i / sigma_i)^2) > 1 + 3 / sqrt(2 n), else 0
 *
 * Points run through the program in parts, sums are added in their order.
 */
#include "pinn/data.h"
#include "pinn/metrics_inside.h"

#include <math.h>
#include <string.h>

enum { FACTOR = 4 };

/* ---- Building ------------------------------------------------------------------------------- */

typedef struct value_list {
  size_t n;
  tn_value *items;
} value_list;

static tn_status push(value_list *list, tn_value value) {
  TN_TRY(tn_grow(&list->items, list->n, list->n + 1, sizeof *list->items));
  list->items[list->n++] = value;
  return TN_OK;
}

static tn_status add_row(pn_metrics *q, size_t p, size_t m, size_t r, size_t site,
                         value_list *list) {
  pn_scopes *scopes = q->part[p].scopes;
  const pn_relation *relation = &pn_scopes_sites(scopes)->terms[m].term->relations[r];
  pn_scope *scope = NULL;
  tn_value whole = {0}, values[PN_MOST_PARTS] = {{0}};
  pn_expr *exprs[PN_MOST_PARTS];
  int signs[PN_MOST_PARTS];
  TN_TRY(tn_grow(&q->rows, q->n_rows, q->n_rows + 1, sizeof *q->rows));
  pn_check_row *row = &q->rows[q->n_rows++];
  row->part = p;
  row->m = m;
  row->r = r;
  row->site = site;
  row->output = list->n;
  TN_TRY(pn_scopes_at(scopes, site, &scope));
  TN_TRY(pn_lower_relation(scope, relation, &whole));
  TN_TRY(pn_lower_terms(scope, relation, PN_MOST_PARTS, &row->n_parts, values, exprs, signs));
  pn_join_data(q->model->problem, &row->n_parts, values, exprs, signs);
  TN_TRY(push(list, whole));
  for (size_t i = 0; i < row->n_parts; ++i)
    TN_TRY(push(list, values[i]));
  return pn_scopes_mean(scopes, site);
}

static tn_status lower_checks(pn_metrics *q, size_t p, value_list *list) {
  const pn_sites *sites = pn_scopes_sites(q->part[p].scopes);
  for (size_t m = 0; m < sites->n_terms; ++m)
    for (size_t r = 0; r < sites->terms[m].term->n_relations; ++r)
      for (size_t k = 0; k < sites->terms[m].n_sites; ++k)
        TN_TRY(add_row(q, p, m, r, sites->terms[m].site[k], list));
  return TN_OK;
}

/* Residuals stay values, terms become sums of squares. */
static tn_status finish_checks(pn_metrics *q, value_list *list) {
  tn_value *plain = NULL;
  TN_TRY(TN_NEW(list->n, &plain));
  tn_status status = ag_resolve(q->model->graph, list->n, list->items, NULL, plain, NULL);
  for (size_t i = 0; status == TN_OK && i < q->n_rows; ++i) {
    pn_check_row *row = &q->rows[i];
    row->batched = pn_is_batched(plain[row->output]);
    for (size_t k = 0; k < row->n_parts; ++k) {
      tn_value *part = &plain[row->output + 1 + k];
      row->part_batched[k] = pn_is_batched(*part);
      *part = row->part_batched[k] ? tn_sum_all(tn_square(*part)) : tn_square(*part);
    }
  }
  q->n_outputs = list->n;
  if (status == TN_OK)
    status = tn_compile(q->model->graph, list->n, plain, &q->check_program);
  if (status == TN_OK)
    status = tn_exec_new(q->check_program, q->pool, &q->check_exec);
  tn_free(&plain);
  return status;
}

/* The conditions that the loss leaves out, beside those it has. */
static tn_status make_parts(pn_metrics *q) {
  const pn_problem *problem = q->model->problem;
  bool *hard = NULL;
  q->part[PN_TRAINED].scopes = q->scopes;
  TN_TRY(TN_NEW(problem->n_conditions, &hard));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    hard[i] = pn_model_is_hard(q->model, &problem->conditions[i]);
  tn_status status = pn_sites_beside(pn_scopes_sites(q->scopes), hard, &q->hard);
  tn_free(&hard);
  if (status == TN_OK)
    status = pn_scopes_new(q->model, q->hard, &q->part[PN_BUILT_IN].scopes);
  q->part[PN_BUILT_IN].sites = q->hard;
  if (status == TN_OK)
    status = pn_sites_beside(pn_scopes_sites(q->scopes), NULL, &q->checks);
  if (status == TN_OK)
    status = pn_scopes_new(q->model, q->checks, &q->part[PN_CHECKED].scopes);
  q->part[PN_CHECKED].sites = q->checks;
  return status;
}

/* Parts of about PN_BLOCK points of the largest site; a single one where means would be computed
 * again for each. */
static size_t count_shares(const pn_metrics *q) {
  size_t most = 1;
  for (size_t i = 0; i < q->n_rows; ++i) {
    const pn_part *p = &q->part[q->rows[i].part];
    if (pn_scopes_mean_site(p->scopes, q->rows[i].site) != PN_NONE)
      return 1;
    size_t n = p->sites->sites[q->rows[i].site].n;
    most = n > most ? n : most;
  }
  return (most + PN_BLOCK - 1) / PN_BLOCK;
}

tn_status pn_metrics_compile_terms(pn_metrics *q) {
  value_list list = {0};
  TN_TRY(make_parts(q));
  TN_TRY(TN_NEW(0, &list.items));
  tn_status status = TN_NEW(0, &q->rows);
  for (size_t p = 0; status == TN_OK && p < PN_PARTS; ++p)
    status = lower_checks(q, p, &list);
  if (status == TN_OK)
    status = finish_checks(q, &list);
  tn_free(&list.items);
  TN_TRY(status);
  const pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = q->seed, .factor = FACTOR};
  TN_TRY(pn_sites_like(pn_scopes_sites(q->scopes), &q->part[PN_TRAINED].sites));
  for (size_t p = 0; p < PN_PARTS; ++p)
    TN_TRY(pn_sites_draw(q->part[p].sites, &draw));
  q->n_shares = count_shares(q);
  TN_TRY(TN_NEW(q->n_shares, &q->share));
  for (size_t k = 0; k < q->n_shares; ++k)
    for (size_t p = 0; p < PN_PARTS; ++p)
      TN_TRY(pn_feed_share(&q->share[k], q->part[p].scopes, q->part[p].sites, k, q->n_shares));
  return TN_OK;
}

/* ---- A check -------------------------------------------------------------------------------- */

/* Sums over the sites of one relation. */
typedef struct tally {
  double residual, terms, count; /* sums of squares, and of what */
  double noise;                  /* of F^2 share_i */
  size_t parts;                  /* the most top-level terms at a site */
  double worst;
  double place[PN_MAX_COORDINATES];
} tally;

/* Adds what a share of the points has to the sums of a row. */
static tn_status add_share(pn_metrics *q, pn_check_row *row, size_t share) {
  size_t n = 1, first = 0, sites_n = q->part[row->part].sites->sites[row->site].n;
  const pn_data *data = q->part[row->part].sites->sites[row->site].data; /* all its rows */
  double *f = NULL;
  if (!pn_share(row->batched ? sites_n : 1, share, q->n_shares, &first, &n))
    return TN_OK;
  TN_TRY(TN_NEW(n, &f));
  tn_status status = tn_exec_read(q->check_exec, row->output, n, f);
  for (size_t k = 0; status == TN_OK && k < row->n_parts; ++k) {
    double sum = 0;
    status = tn_exec_read(q->check_exec, row->output + 1 + k, 1, &sum);
    row->sum[k] = row->part_batched[k] ? row->sum[k] + sum : sum;
  }
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    row->residual += f[i] * f[i];
    if (data)
      row->noise += f[i] * f[i] * (data->share ? data->share[first + i] : 1);
    if (fabs(f[i]) > row->worst || isnan(f[i])) {
      row->worst = fabs(f[i]);
      row->worst_at = first + i;
    }
  }
  tn_free(&f);
  return status;
}

static tn_status run_checks(pn_metrics *q, const double *theta) {
  TN_TRY(pn_theta_set(q->model, &q->theta, theta));
  TN_TRY(pn_theta_bind(q->model, &q->theta, q->check_exec));
  for (size_t i = 0; i < q->n_rows; ++i) {
    pn_check_row *row = &q->rows[i];
    row->residual = row->noise = 0;
    row->worst = -1;
    memset(row->sum, 0, sizeof row->sum);
  }
  for (size_t k = 0; k < q->n_shares; ++k) {
    TN_TRY(pn_feed_bind(&q->share[k], q->check_exec));
    TN_TRY(tn_exec_run(q->check_exec));
    for (size_t i = 0; i < q->n_rows; ++i)
      TN_TRY(add_share(q, &q->rows[i], k));
  }
  return TN_OK;
}

static void tally_row(const pn_metrics *q, const pn_check_row *row, tally *t) {
  const pn_site *site = &q->part[row->part].sites->sites[row->site];
  double n = row->batched ? (double)site->n : 1, most = 0;
  for (size_t k = 0; k < row->n_parts; ++k)
    most = fmax(most, row->part_batched[k] ? row->sum[k] / (double)site->n : row->sum[k]);
  if (row->worst > t->worst || isnan(row->worst)) {
    t->worst = row->worst;
    pn_site_point(q->model->problem, site, row->batched ? row->worst_at : PN_NONE, t->place);
    (void)pn_moving_place(q->model->problem, t->place);
  }
  t->residual += row->residual;
  t->noise += row->noise;
  t->terms += most * n;
  t->count += n;
  t->parts = row->n_parts > t->parts ? row->n_parts : t->parts;
}

/* What a misfit of `noise` standard deviations (rms of n numbers) has beyond what chance explains: the rms of n
 * normal numbers is 1 with a deviation of 1 / sqrt(2 n), of which three are allowed. */
static double beyond_noise(double noise, double n) {
  double most = 1 + 3 / sqrt(2 * n);
  return noise > most ? sqrt(noise * noise - 1) : isnan(noise) ? NAN : 0;
}

static tn_status judge(pn_metrics *q, const pn_check_row *row, const tally *t, const double *sizes,
                       pn_term_check *out) {
  double expected = 0, rms = sqrt(t->residual / t->count);
  TN_TRY(pn_relation_size(q->part[row->part].scopes, row->m, row->r, sizes, &expected, NULL));
  double size = fmax(sqrt(t->terms / t->count), 0.1 * expected);
  if (t->parts < 2)
    size = expected;
  const pn_data *data = q->part[row->part].sites->terms[row->m].term->data;
  double left = rms, noise = NAN;
  if (data && !isnan(data->sigma)) {
    noise = sqrt(t->noise / t->count) / data->sigma;
    left = data->sigma * beyond_noise(noise, t->count);
  }
  double relative = left > 0 ? left / size : 0;
  if (isnan(rms))
    relative = NAN;
  if (isnan(out->relative) || (!isnan(relative) && relative < out->relative))
    return TN_OK;
  out->relative = relative;
  out->rms = rms;
  out->noise = noise;
  out->worst = t->worst;
  memcpy(out->place, t->place, sizeof out->place);
  return TN_OK;
}

size_t pn_metrics_count(const pn_metrics *q) {
  size_t n = 0;
  for (size_t p = 0; p < PN_PARTS; ++p)
    n += q->part[p].sites->n_terms;
  return n;
}

const pn_term *pn_metrics_term(const pn_metrics *q, size_t m) {
  size_t p = 0;
  for (; m >= q->part[p].sites->n_terms; ++p)
    m -= q->part[p].sites->n_terms;
  return q->part[p].sites->terms[m].term;
}

/* Where the terms of a part begin among all. */
static size_t first_of(const pn_metrics *q, size_t part) {
  size_t n = 0;
  for (size_t p = 0; p < part; ++p)
    n += q->part[p].sites->n_terms;
  return n;
}

tn_status pn_metrics_terms(pn_metrics *q, const double *theta, const pn_field_error *errors,
                           pn_term_check *checks) {
  const pn_problem *problem = q->model->problem;
  double *sizes = NULL;
  TN_TRY(pn_model_set_parameters(q->model, theta));
  TN_TRY(run_checks(q, theta));
  TN_TRY(TN_NEW(problem->n_unknowns, &sizes));
  for (size_t u = 0; u < problem->n_unknowns; ++u)
    sizes[u] =
        errors[u].rms > 0 && isfinite(errors[u].rms) ? errors[u].rms : q->model->unknown_scale[u];
  size_t n = pn_metrics_count(q);
  for (size_t m = 0; m < n; ++m)
    checks[m] = (pn_term_check){.relative = -1, .noise = NAN};
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < q->n_rows;) {
    const pn_check_row *first = &q->rows[i];
    tally t = {.worst = -1};
    for (; i < q->n_rows && q->rows[i].part == first->part && q->rows[i].m == first->m &&
           q->rows[i].r == first->r;
         ++i)
      tally_row(q, &q->rows[i], &t);
    status = judge(q, first, &t, sizes, &checks[first_of(q, first->part) + first->m]);
  }
  for (size_t m = 0; m < n; ++m) {
    const pn_term *term = pn_metrics_term(q, m);
    checks[m].limit = term->is_check ? term->accept : problem->accept_residual;
    checks[m].accepted = isnan(checks[m].limit) || checks[m].relative <= checks[m].limit;
  }
  tn_free(&sizes);
  return status;
}
