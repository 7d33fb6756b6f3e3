/* metrics.c: errors of the unknowns and residuals of the terms, where nothing was trained.
 *
 * Fields. Every unknown is evaluated on a grid of its own arguments with both ends (10 001 points,
 * or 201 x 101), or at 16 384 Sobol points from three arguments on. With an exact solution e
 *
 *   rel_l2 = sqrt(sum (u - e)^2 / sum e^2),   linf = max |u - e|;   points where e is not finite
 *   are left out.
 *
 * Points run through the programs in blocks, so that memory does not grow with their number (exact
 * solutions may hold hundreds of numbers a point); the sums are over all points in order.
 *
 * Terms. Four times as many points as trained, of the same sites, from another stream. Conditions
 * met by construction are measured like all others, on sites of their own: they are promised, and
 * a promise that fails must not pass as an answer. The
 * residual of a relation is measured by the size of its own terms, so that small units cannot make
 * a poor answer look good:
 *
 *   relative = rms F / max(largest rms of a top-level term, floor)
 *
 * floor = one tenth of the size that the measured unknowns lead to expect (scale.c), and all of it
 * where the relation is one term only (u = 0, w_xx = 0), which would otherwise be compared with
 * itself.
 */
#include "pinn/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GRID_1 = 10001, GRID_2X = 201, GRID_2Y = 101, SCATTER = 16384, BLOCK = 1024 };
enum { MOST_PARTS = 24, FACTOR = 4 };

typedef struct group { /* unknowns of the same arguments */
  size_t n_of, of[PN_MAX_COORDINATES];
  size_t extent[2]; /* 0: scattered */
  pn_site points;
  pn_scope scope, exact;
  size_t n;         /* unknowns */
  size_t *unknown;  /* which */
  size_t n_blocks;  /* of points */
  pn_feed *block;   /* the points of each */
  tn_program *program;
  tn_exec *exec;
} group;

/* Terms that are checked together: those of the loss, or those met by construction. */
typedef struct part {
  pn_scopes *scopes;
  pn_sites *sites; /* validation points */
} part;

enum { TRAINED, BUILT_IN, PARTS };

typedef struct check_row { /* one relation at one site */
  size_t part, m, r, site;
  size_t output; /* F; then n_parts sums of squares */
  size_t n_parts;
  bool batched;
  bool part_batched[MOST_PARTS];
} check_row;

struct pn_metrics {
  pn_scopes *scopes;
  pn_model *model;
  tn_pool *pool;
  uint64_t seed;
  size_t n_groups;
  group *groups;
  size_t *group_of; /* one an unknown */
  double **exact;   /* one an unknown; NULL without exact solution */
  double *value;    /* scratch: points times unknowns of a group, the most of all */
  part part[PARTS];
  pn_sites *hard;   /* those of part[BUILT_IN] */
  size_t n_rows, n_outputs;
  check_row *rows;
  pn_feed check_feed;
  tn_program *check_program;
  tn_exec *check_exec;
  pn_weights_buffer theta;
};

/* ---- Points of the fields -------------------------------------------------------------------- */

static double along(const pn_coordinate *axis, double u) {
  if (u >= 1)
    return axis->hi;
  return axis->log_spacing ? axis->lo * exp(u * log(axis->hi / axis->lo))
                           : axis->lo + (axis->hi - axis->lo) * u;
}

static tn_status grid_points(const pn_problem *problem, group *g) {
  size_t second = g->n_of == 2 ? GRID_2Y : 1;
  g->extent[0] = g->n_of == 2 ? GRID_2X : GRID_1;
  g->extent[1] = second;
  TN_TRY(pn_site_resize(&g->points, g->extent[0] * second));
  for (size_t i = 0; i < g->points.n; ++i) {
    size_t row = i / second;
    double u = (double)row / (double)(g->extent[0] - 1);
    g->points.column[g->of[0]][i] = along(&problem->coordinates[g->of[0]], u);
    if (g->n_of == 2)
      g->points.column[g->of[1]][i] =
          along(&problem->coordinates[g->of[1]], (double)(i % second) / (double)(second - 1));
  }
  return TN_OK;
}

static tn_status make_group(pn_metrics *q, const pn_unknown *unknown, group *g) {
  const pn_problem *problem = q->model->problem;
  *g = (group){.n_of = unknown->n_of};
  snprintf(g->points.key, sizeof g->points.key, "fields");
  for (size_t j = 0; j < unknown->n_of; ++j) {
    g->of[j] = unknown->of[j];
    g->points.free_ |= (uint32_t)1 << unknown->of[j];
  }
  const pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = q->seed, .factor = 1};
  TN_TRY(TN_NEW(problem->n_unknowns, &g->unknown));
  if (g->n_of <= 2)
    TN_TRY(grid_points(problem, g));
  else
    TN_TRY(pn_site_draw(pn_scopes_sites(q->scopes), &g->points, &draw, SCATTER));
  g->n_blocks = (g->points.n + BLOCK - 1) / BLOCK;
  TN_TRY(pn_scope_new(q->model, "fields", NULL, g->points.free_, &g->scope));
  g->exact = g->scope;
  g->exact.exact = true;
  return TN_OK;
}

static bool same_arguments(const group *g, const pn_unknown *unknown) {
  return g->n_of == unknown->n_of && memcmp(g->of, unknown->of, g->n_of * sizeof *g->of) == 0;
}

static tn_status make_groups(pn_metrics *q) {
  const pn_problem *problem = q->model->problem;
  size_t most = 0;
  TN_TRY(TN_NEW(problem->n_unknowns, &q->groups));
  TN_TRY(TN_NEW(problem->n_unknowns, &q->group_of));
  for (size_t u = 0; u < problem->n_unknowns; ++u) {
    size_t k = 0;
    while (k < q->n_groups && !same_arguments(&q->groups[k], &problem->unknowns[u]))
      ++k;
    if (k == q->n_groups) {
      ++q->n_groups;
      TN_TRY(make_group(q, &problem->unknowns[u], &q->groups[k]));
    }
    group *g = &q->groups[k];
    q->group_of[u] = k;
    g->unknown[g->n++] = u;
    most = g->n * g->points.n > most ? g->n * g->points.n : most;
  }
  return TN_NEW(most, &q->value);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A value of [N] or scalar as n numbers. */
static void spread(double *x, bool batched, size_t n) {
  for (size_t i = 1; !batched && i < n; ++i)
    x[i] = x[0];
}

static bool is_batched(tn_value value) {
  tn_shape shape = tn_shape_of(value);
  return tn_shape_batched(&shape);
}

static size_t in_block(const group *g, size_t k) {
  size_t left = g->points.n - k * BLOCK;
  return left < BLOCK ? left : BLOCK;
}

/* The points of a group as blocks of leaves of its scopes. */
static tn_status feed_blocks(pn_metrics *q, group *g, const pn_scope *scope, pn_feed *block) {
  for (size_t k = 0; k < g->n_blocks; ++k)
    TN_TRY(pn_feed_site(&block[k], q->scopes, scope, &g->points, k * BLOCK, in_block(g, k)));
  return TN_OK;
}

/* Values of one output of a program at all points of a group, block by block. */
static tn_status run_exact(pn_metrics *q, group *g, tn_value value, pn_feed *block, double *out) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  bool batched = is_batched(value);
  tn_status status = tn_compile(q->model->graph, 1, &value, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, q->pool, &exec);
  for (size_t k = 0; status == TN_OK && k < g->n_blocks; ++k) {
    size_t n = in_block(g, k);
    status = pn_feed_bind(&block[k], exec);
    if (status == TN_OK)
      status = tn_exec_run(exec);
    if (status == TN_OK)
      status = tn_exec_read(exec, 0, batched ? n : 1, out + k * BLOCK);
    spread(out + k * BLOCK, batched, n);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

static void clear_blocks(size_t n, pn_feed **block) {
  for (size_t k = 0; *block && k < n; ++k)
    pn_feed_clear(&(*block)[k]);
  tn_free(block);
}

static tn_status evaluate_exact(pn_metrics *q, size_t u) {
  const pn_unknown *unknown = &q->model->problem->unknowns[u];
  group *g = &q->groups[q->group_of[u]];
  tn_value value = {0};
  pn_feed *block = NULL;
  if (!unknown->exact)
    return TN_OK;
  TN_TRY(TN_NEW(g->points.n, &q->exact[u]));
  TN_TRY(pn_lower(&g->exact, unknown->exact, &value));
  TN_TRY(TN_NEW(g->n_blocks, &block));
  tn_status status = feed_blocks(q, g, &g->exact, block); /* after lowering: tables are known */
  if (status == TN_OK)
    status = ag_resolve(q->model->graph, 1, &value, NULL, &value, NULL);
  if (status == TN_OK)
    status = run_exact(q, g, value, block, q->exact[u]);
  clear_blocks(g->n_blocks, &block);
  return status;
}

static tn_status compile_fields(pn_metrics *q, group *g) {
  tn_value *values = NULL;
  TN_TRY(TN_NEW(g->n, &values));
  tn_status status = TN_OK;
  for (size_t k = 0; status == TN_OK && k < g->n; ++k)
    status = pn_lower_unknown(&g->scope, g->unknown[k], &values[k]);
  if (status == TN_OK)
    status = ag_resolve(q->model->graph, g->n, values, NULL, values, NULL);
  if (status == TN_OK)
    status = tn_compile(q->model->graph, g->n, values, &g->program);
  if (status == TN_OK)
    status = tn_exec_new(g->program, q->pool, &g->exec);
  if (status == TN_OK)
    status = TN_NEW(g->n_blocks, &g->block);
  if (status == TN_OK)
    status = feed_blocks(q, g, &g->scope, g->block);
  tn_free(&values);
  return status;
}

/* values[k * points + i]: unknown k of the group at point i. */
static tn_status evaluate_fields(pn_metrics *q, group *g, double *values) {
  TN_TRY(pn_theta_bind(q->model, &q->theta, g->exec));
  for (size_t b = 0; b < g->n_blocks; ++b) {
    size_t n = in_block(g, b);
    TN_TRY(pn_feed_bind(&g->block[b], g->exec));
    TN_TRY(tn_exec_run(g->exec));
    for (size_t k = 0; k < g->n; ++k) {
      double *to = values + k * g->points.n + b * BLOCK;
      tn_buffer *buffer = NULL;
      TN_TRY(tn_exec_output(g->exec, k, &buffer));
      size_t held = tn_buffer_count(buffer);
      TN_TRY(tn_exec_read(g->exec, k, held, to));
      spread(to, held == n, n);
    }
  }
  return TN_OK;
}

/* Where the exact solution is known and no bound is asked for: beyond this no residual, however
 * small beside large terms that cancel, makes an answer of it. */
static const double wrong_answer = 0.1;

static void compare(const pn_metrics *q, size_t u, const double *x, pn_field_error *out) {
  const pn_problem *problem = q->model->problem;
  const group *g = &q->groups[q->group_of[u]];
  const double *e = q->exact[u];
  double error = 0, size = 0, square = 0;
  size_t worst = 0, n = 0;
  *out = (pn_field_error){.known = e != NULL,
                          .lowest = INFINITY,
                          .highest = -INFINITY,
                          .accept = problem->unknowns[u].accept};
  if (e && isnan(out->accept))
    out->accept = wrong_answer;
  for (size_t i = 0; i < g->points.n; ++i) {
    square += x[i] * x[i];
    out->lowest = fmin(out->lowest, x[i]);
    out->highest = fmax(out->highest, x[i]);
    if (!e || !isfinite(e[i]))
      continue;
    double d = fabs(x[i] - e[i]);
    error += d * d;
    size += e[i] * e[i];
    ++n;
    if (d > out->linf || isnan(d)) {
      out->linf = d;
      worst = i;
    }
  }
  if (n == 0)
    out->linf = NAN;
  out->rms = sqrt(square / (double)g->points.n);
  out->rel_l2 = n == 0 ? NAN : size > 0 ? sqrt(error / size) : sqrt(error / (double)n);
  pn_site_point(problem, &g->points, n ? worst : PN_NONE, out->place);
  out->accepted = isnan(out->accept) || (out->known && out->rel_l2 <= out->accept);
}

tn_status pn_metrics_fields(pn_metrics *q, const double *theta, pn_field_error *errors) {
  TN_TRY(pn_theta_set(q->model, &q->theta, theta));
  for (size_t i = 0; i < q->n_groups; ++i) {
    group *g = &q->groups[i];
    TN_TRY(evaluate_fields(q, g, q->value));
    for (size_t k = 0; k < g->n; ++k)
      compare(q, g->unknown[k], q->value + k * g->points.n, &errors[g->unknown[k]]);
  }
  return TN_OK;
}

/* ---- Terms ----------------------------------------------------------------------------------- */

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
  tn_value whole = {0}, values[MOST_PARTS] = {{0}};
  pn_expr *exprs[MOST_PARTS];
  int signs[MOST_PARTS];
  TN_TRY(tn_grow(&q->rows, q->n_rows, q->n_rows + 1, sizeof *q->rows));
  check_row *row = &q->rows[q->n_rows++];
  row->part = p;
  row->m = m;
  row->r = r;
  row->site = site;
  row->output = list->n;
  TN_TRY(pn_scopes_at(scopes, site, &scope));
  TN_TRY(pn_lower_relation(scope, relation, &whole));
  TN_TRY(pn_lower_terms(scope, relation, MOST_PARTS, &row->n_parts, values, exprs, signs));
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
    check_row *row = &q->rows[i];
    row->batched = is_batched(plain[row->output]);
    for (size_t k = 0; k < row->n_parts; ++k) {
      tn_value *part = &plain[row->output + 1 + k];
      row->part_batched[k] = is_batched(*part);
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
  q->part[TRAINED].scopes = q->scopes;
  TN_TRY(TN_NEW(problem->n_conditions, &hard));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    hard[i] = pn_model_is_hard(q->model, &problem->conditions[i]);
  tn_status status = pn_sites_beside(pn_scopes_sites(q->scopes), hard, &q->hard);
  tn_free(&hard);
  if (status == TN_OK)
    status = pn_scopes_new(q->model, q->hard, &q->part[BUILT_IN].scopes);
  q->part[BUILT_IN].sites = q->hard;
  return status;
}

static tn_status compile_checks(pn_metrics *q) {
  value_list list = {0};
  TN_TRY(TN_NEW(0, &list.items));
  tn_status status = TN_NEW(0, &q->rows);
  for (size_t p = 0; status == TN_OK && p < PARTS; ++p)
    status = lower_checks(q, p, &list);
  if (status == TN_OK)
    status = finish_checks(q, &list);
  tn_free(&list.items);
  TN_TRY(status);
  const pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = q->seed, .factor = FACTOR};
  TN_TRY(pn_sites_like(pn_scopes_sites(q->scopes), &q->part[TRAINED].sites));
  for (size_t p = 0; p < PARTS; ++p) {
    TN_TRY(pn_sites_draw(q->part[p].sites, &draw));
    TN_TRY(pn_feed_all(&q->check_feed, q->part[p].scopes, q->part[p].sites, 0, 0));
  }
  return pn_feed_bind(&q->check_feed, q->check_exec);
}

/* Sums over the sites of one relation. */
typedef struct tally {
  double residual, terms, count; /* sums of squares, and of what */
  size_t parts;                  /* the most top-level terms at a site */
  double worst;
  double place[PN_MAX_COORDINATES];
} tally;

static tn_status tally_row(pn_metrics *q, const check_row *row, tally *t) {
  const pn_site *site = &q->part[row->part].sites->sites[row->site];
  size_t n = row->batched ? site->n : 1;
  double *f = NULL, most = 0;
  TN_TRY(TN_NEW(n, &f));
  tn_status status = tn_exec_read(q->check_exec, row->output, n, f);
  for (size_t k = 0; status == TN_OK && k < row->n_parts; ++k) {
    double sum = 0;
    status = tn_exec_read(q->check_exec, row->output + 1 + k, 1, &sum);
    most = fmax(most, row->part_batched[k] ? sum / (double)site->n : sum);
  }
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    t->residual += f[i] * f[i];
    if (fabs(f[i]) > t->worst || isnan(f[i])) {
      t->worst = fabs(f[i]);
      pn_site_point(q->model->problem, site, row->batched ? i : PN_NONE, t->place);
    }
  }
  tn_free(&f);
  t->terms += most * (double)n;
  t->count += (double)n;
  t->parts = row->n_parts > t->parts ? row->n_parts : t->parts;
  return status;
}

static tn_status judge(pn_metrics *q, const check_row *row, const tally *t, const double *sizes,
                       pn_term_check *out) {
  double expected = 0, rms = sqrt(t->residual / t->count);
  TN_TRY(pn_relation_size(q->part[row->part].scopes, row->m, row->r, sizes, &expected, NULL));
  double size = fmax(sqrt(t->terms / t->count), 0.1 * expected);
  if (t->parts < 2)
    size = expected;
  double relative = rms > 0 ? rms / size : 0;
  if (isnan(rms))
    relative = NAN;
  if (isnan(out->relative) || (!isnan(relative) && relative < out->relative))
    return TN_OK;
  out->relative = relative;
  out->rms = rms;
  out->worst = t->worst;
  memcpy(out->place, t->place, sizeof out->place);
  return TN_OK;
}

size_t pn_metrics_count(const pn_metrics *q) {
  return q->part[TRAINED].sites->n_terms + q->part[BUILT_IN].sites->n_terms;
}

const pn_term *pn_metrics_term(const pn_metrics *q, size_t m) {
  const pn_sites *trained = q->part[TRAINED].sites;
  return m < trained->n_terms ? trained->terms[m].term
                              : q->part[BUILT_IN].sites->terms[m - trained->n_terms].term;
}

tn_status pn_metrics_terms(pn_metrics *q, const double *theta, const pn_field_error *errors,
                           pn_term_check *checks) {
  const pn_problem *problem = q->model->problem;
  double *sizes = NULL;
  TN_TRY(pn_theta_set(q->model, &q->theta, theta));
  TN_TRY(pn_theta_bind(q->model, &q->theta, q->check_exec));
  TN_TRY(tn_exec_run(q->check_exec));
  TN_TRY(TN_NEW(problem->n_unknowns, &sizes));
  for (size_t u = 0; u < problem->n_unknowns; ++u)
    sizes[u] =
        errors[u].rms > 0 && isfinite(errors[u].rms) ? errors[u].rms : q->model->unknown_scale[u];
  size_t n = pn_metrics_count(q), trained = q->part[TRAINED].sites->n_terms;
  for (size_t m = 0; m < n; ++m)
    checks[m] = (pn_term_check){.relative = -1};
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < q->n_rows;) {
    const check_row *first = &q->rows[i];
    tally t = {.worst = -1};
    for (; status == TN_OK && i < q->n_rows && q->rows[i].part == first->part &&
           q->rows[i].m == first->m && q->rows[i].r == first->r;
         ++i)
      status = tally_row(q, &q->rows[i], &t);
    if (status == TN_OK)
      status = judge(q, first, &t, sizes, &checks[first->part * trained + first->m]);
  }
  for (size_t m = 0; m < n; ++m)
    checks[m].accepted = checks[m].relative <= problem->accept_residual;
  tn_free(&sizes);
  return status;
}

/* ---- The object ------------------------------------------------------------------------------ */

static tn_status build(pn_metrics *q) {
  size_t n = q->model->problem->n_unknowns;
  TN_TRY(pn_theta_new(q->model, &q->theta));
  TN_TRY(TN_NEW(n, &q->exact));
  TN_TRY(make_groups(q));
  for (size_t u = 0; u < n; ++u)
    TN_TRY(evaluate_exact(q, u));
  for (size_t k = 0; k < q->n_groups; ++k)
    TN_TRY(compile_fields(q, &q->groups[k]));
  TN_TRY(make_parts(q));
  return compile_checks(q);
}

tn_status pn_metrics_new(pn_scopes *scopes, uint64_t seed, tn_pool *pool, pn_metrics **out) {
  *out = NULL;
  pn_metrics *q = NULL;
  TN_TRY(TN_NEW(1, &q));
  q->scopes = scopes;
  q->model = pn_scopes_model(scopes);
  q->pool = pool;
  q->seed = seed;
  tn_status status = build(q);
  if (status != TN_OK)
    pn_metrics_free(&q);
  *out = q;
  return status;
}

void pn_metrics_free(pn_metrics **metrics) {
  pn_metrics *q = *metrics;
  if (!q)
    return;
  for (size_t k = 0; q->groups && k < q->n_groups; ++k) {
    group *g = &q->groups[k];
    tn_exec_free(&g->exec);
    tn_program_free(&g->program);
    clear_blocks(g->n_blocks, &g->block);
    tn_free(&g->unknown);
    pn_site_clear(&g->points);
  }
  for (size_t u = 0; q->exact && u < q->model->problem->n_unknowns; ++u)
    tn_free(&q->exact[u]);
  tn_exec_free(&q->check_exec);
  tn_program_free(&q->check_program);
  pn_feed_clear(&q->check_feed);
  pn_theta_free(q->model, &q->theta);
  pn_scopes_free(&q->part[BUILT_IN].scopes);
  pn_sites_free(&q->part[TRAINED].sites);
  pn_sites_free(&q->hard);
  tn_free(&q->groups);
  tn_free(&q->group_of);
  tn_free(&q->exact);
  tn_free(&q->value);
  tn_free(&q->rows);
  tn_free(metrics);
}

size_t pn_metrics_grid(const pn_metrics *metrics, size_t unknown, size_t extent[2]) {
  const group *g = &metrics->groups[metrics->group_of[unknown]];
  extent[0] = g->extent[0];
  extent[1] = g->extent[1];
  return g->extent[0] ? g->n_of : 0;
}
