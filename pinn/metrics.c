/* metrics.c: errors of the unknowns, where nothing was trained; metrics_terms.c has the residuals.
 *
 * Fields. Every unknown is evaluated on a grid of its own arguments with both ends (10 001 points,
 * or 201 x 101), or at 16 384 Sobol points from three arguments on. With an exact solution e
 *
 *   rel_l2 = sqrt(sum (u - e)^2 / sum e^2),   linf = max |u - e|;   points where e is not finite
 *   are left out, and so are points outside the region or the part that u lives in.
 *
 * Points run through the programs in blocks, so that memory does not grow with their number (exact
 * solutions may hold hundreds of numbers a point); the sums are over all points in order.
 */
#include "pinn/metrics_inside.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GRID_1 = 10001, GRID_2X = 201, GRID_2Y = 101, SCATTER = 16384 };

/* ---- Points of the fields -------------------------------------------------------------------- */

static double along(const pn_coordinate *axis, double u) {
  if (u >= 1)
    return axis->hi;
  return axis->log_spacing ? axis->lo * exp(u * log(axis->hi / axis->lo))
                           : axis->lo + (axis->hi - axis->lo) * u;
}

static tn_status grid_points(const pn_problem *problem, pn_group *g) {
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

/* Where ends move: over what is the exact range at each time, or the expected one. */
static tn_status place_points(const pn_problem *problem, pn_site *points) {
  double point[PN_MAX_COORDINATES];
  for (size_t i = 0; i < points->n; ++i) {
    pn_site_point(problem, points, i, point);
    bool known = pn_moving_place(problem, point);
    for (size_t c = 0; c < problem->n_coordinates; ++c) {
      const pn_coordinate *x = &problem->coordinates[c];
      if (points->column[c] && pn_moves(x))
        points->column[c][i] =
            known ? point[c] : x->expected[0] + point[c] * (x->expected[1] - x->expected[0]);
    }
  }
  return TN_OK;
}

static tn_status make_group(pn_metrics *q, const pn_unknown *unknown, pn_group *g) {
  const pn_problem *problem = q->model->problem;
  *g = (pn_group){.n_of = unknown->n_of, .points.piece = problem->domain};
  snprintf(g->points.key, sizeof g->points.key, "fields");
  for (size_t j = 0; j < unknown->n_of; ++j) {
    g->of[j] = unknown->of[j];
    g->points.free_ |= (uint32_t)1 << unknown->of[j];
  }
  const pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = q->seed, .factor = 1};
  TN_TRY(TN_NEW(problem->n_unknowns, &g->unknown));
  if (pn_space_bits(problem) & ~g->points.free_) /* a region says nothing then */
    g->points.piece = NULL;
  if (g->n_of <= 2)
    TN_TRY(grid_points(problem, g));
  else
    TN_TRY(pn_site_draw(pn_scopes_sites(q->scopes), &g->points, &draw, SCATTER));
  TN_TRY(place_points(problem, &g->points));
  g->n_blocks = (g->points.n + PN_BLOCK - 1) / PN_BLOCK;
  TN_TRY(pn_scope_new(q->model, "fields", NULL, g->points.free_, &g->scope));
  g->exact = g->scope;
  g->exact.exact = true;
  return TN_OK;
}

static bool same_arguments(const pn_group *g, const pn_unknown *unknown) {
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
    pn_group *g = &q->groups[k];
    q->group_of[u] = k;
    g->unknown[g->n++] = u;
    most = g->n * g->points.n > most ? g->n * g->points.n : most;
  }
  return TN_NEW(most, &q->value);
}

/* Where unknown u lives, if not everywhere. */
static tn_status find_lives(pn_metrics *q, size_t u) {
  const pn_problem *problem = q->model->problem;
  const pn_group *g = &q->groups[q->group_of[u]];
  double point[PN_MAX_COORDINATES];
  if (!problem->region && !problem->unknowns[u].in)
    return TN_OK;
  TN_TRY(TN_NEW(g->points.n, &q->lives[u]));
  for (size_t i = 0; i < g->points.n; ++i) {
    pn_site_point(problem, &g->points, i, point);
    q->lives[u][i] = pn_unknown_lives(problem, u, point);
  }
  return TN_OK;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A value of [N] or scalar as n numbers. */
static void spread(double *x, bool batched, size_t n) {
  for (size_t i = 1; !batched && i < n; ++i)
    x[i] = x[0];
}

bool pn_is_batched(tn_value value) {
  tn_shape shape = tn_shape_of(value);
  return tn_shape_batched(&shape);
}

static size_t in_block(const pn_group *g, size_t k) {
  size_t left = g->points.n - k * PN_BLOCK;
  return left < PN_BLOCK ? left : PN_BLOCK;
}

/* The points of a group as blocks of leaves of its scopes. */
static tn_status feed_blocks(pn_metrics *q, pn_group *g, const pn_scope *scope, pn_feed *block) {
  for (size_t k = 0; k < g->n_blocks; ++k)
    TN_TRY(pn_feed_site(&block[k], q->scopes, scope, &g->points, k * PN_BLOCK, in_block(g, k)));
  return TN_OK;
}

/* Values of one output of a program at all points of a group, block by block. */
static tn_status run_exact(pn_metrics *q, pn_group *g, tn_value value, pn_feed *block,
                           double *out) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  bool batched = pn_is_batched(value);
  tn_status status = tn_compile(q->model->graph, 1, &value, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, q->pool, &exec);
  for (size_t k = 0; status == TN_OK && k < g->n_blocks; ++k) {
    size_t n = in_block(g, k);
    status = pn_feed_bind(&block[k], exec);
    if (status == TN_OK)
      status = tn_exec_run(exec);
    if (status == TN_OK)
      status = tn_exec_read(exec, 0, batched ? n : 1, out + k * PN_BLOCK);
    spread(out + k * PN_BLOCK, batched, n);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

void pn_clear_feeds(size_t n, pn_feed **block) {
  for (size_t k = 0; *block && k < n; ++k)
    pn_feed_clear(&(*block)[k]);
  tn_free(block);
}

static tn_status evaluate_exact(pn_metrics *q, size_t u) {
  const pn_unknown *unknown = &q->model->problem->unknowns[u];
  pn_group *g = &q->groups[q->group_of[u]];
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
  pn_clear_feeds(g->n_blocks, &block);
  return status;
}

static tn_status compile_fields(pn_metrics *q, pn_group *g) {
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
static tn_status evaluate_fields(pn_metrics *q, pn_group *g, double *values) {
  TN_TRY(pn_theta_bind(q->model, &q->theta, g->exec));
  for (size_t b = 0; b < g->n_blocks; ++b) {
    size_t n = in_block(g, b);
    TN_TRY(pn_feed_bind(&g->block[b], g->exec));
    TN_TRY(tn_exec_run(g->exec));
    for (size_t k = 0; k < g->n; ++k) {
      double *to = values + k * g->points.n + b * PN_BLOCK;
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
  const pn_group *g = &q->groups[q->group_of[u]];
  const double *e = q->exact[u];
  const bool *lives = q->lives[u];
  double error = 0, size = 0, square = 0;
  size_t worst = 0, n = 0, total = 0;
  *out = (pn_field_error){.known = e != NULL,
                          .lowest = INFINITY,
                          .highest = -INFINITY,
                          .accept = problem->unknowns[u].accept};
  if (e && isnan(out->accept))
    out->accept = wrong_answer;
  for (size_t i = 0; i < g->points.n; ++i) {
    if (lives && !lives[i])
      continue;
    ++total;
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
  out->error_square = error;
  out->size_square = size;
  out->rms = sqrt(square / (double)(total ? total : 1));
  out->rel_l2 = n == 0 ? NAN : size > 0 ? sqrt(error / size) : sqrt(error / (double)n);
  pn_site_point(problem, &g->points, n ? worst : PN_NONE, out->place);
  out->accepted = isnan(out->accept) || (out->known && out->rel_l2 <= out->accept);
}

/* The error of a complex unknown is that of the pair: a part may be small, or zero, by itself. */
static void join_parts(pn_field_error *re, pn_field_error *im) {
  double size = re->size_square + im->size_square;
  if (!re->known || !im->known || !(size > 0))
    return;
  re->rel_l2 = im->rel_l2 = sqrt((re->error_square + im->error_square) / size);
  re->accepted = isnan(re->accept) || re->rel_l2 <= re->accept;
  im->accepted = isnan(im->accept) || im->rel_l2 <= im->accept;
}

tn_status pn_metrics_fields(pn_metrics *q, const double *theta, pn_field_error *errors) {
  TN_TRY(pn_theta_set(q->model, &q->theta, theta));
  for (size_t i = 0; i < q->n_groups; ++i) {
    pn_group *g = &q->groups[i];
    TN_TRY(evaluate_fields(q, g, q->value));
    for (size_t k = 0; k < g->n; ++k)
      compare(q, g->unknown[k], q->value + k * g->points.n, &errors[g->unknown[k]]);
  }
  for (size_t u = 0; u + 1 < q->model->problem->n_unknowns; ++u)
    if (q->model->problem->unknowns[u].part == PN_REAL_PART)
      join_parts(&errors[u], &errors[u + 1]);
  return TN_OK;
}

/* ---- The object ------------------------------------------------------------------------------ */

static tn_status build(pn_metrics *q) {
  size_t n = q->model->problem->n_unknowns;
  TN_TRY(pn_theta_new(q->model, &q->theta));
  TN_TRY(TN_NEW(n, &q->exact));
  TN_TRY(TN_NEW(n, &q->lives));
  TN_TRY(make_groups(q));
  for (size_t u = 0; u < n; ++u) {
    TN_TRY(evaluate_exact(q, u));
    TN_TRY(find_lives(q, u));
  }
  for (size_t k = 0; k < q->n_groups; ++k)
    TN_TRY(compile_fields(q, &q->groups[k]));
  return pn_metrics_compile_terms(q);
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
    pn_group *g = &q->groups[k];
    tn_exec_free(&g->exec);
    tn_program_free(&g->program);
    pn_clear_feeds(g->n_blocks, &g->block);
    tn_free(&g->unknown);
    pn_site_clear(&g->points);
  }
  for (size_t u = 0; q->exact && u < q->model->problem->n_unknowns; ++u)
    tn_free(&q->exact[u]);
  for (size_t u = 0; q->lives && u < q->model->problem->n_unknowns; ++u)
    tn_free(&q->lives[u]);
  tn_exec_free(&q->check_exec);
  tn_program_free(&q->check_program);
  pn_clear_feeds(q->n_shares, &q->share);
  pn_theta_free(q->model, &q->theta);
  pn_scopes_free(&q->part[PN_BUILT_IN].scopes);
  pn_scopes_free(&q->part[PN_CHECKED].scopes);
  pn_sites_free(&q->checks);
  pn_sites_free(&q->part[PN_TRAINED].sites);
  pn_sites_free(&q->hard);
  tn_free(&q->groups);
  tn_free(&q->group_of);
  tn_free(&q->exact);
  tn_free(&q->lives);
  tn_free(&q->value);
  tn_free(&q->rows);
  tn_free(metrics);
}

size_t pn_metrics_grid(const pn_metrics *metrics, size_t unknown, size_t extent[2]) {
  const pn_group *g = &metrics->groups[metrics->group_of[unknown]];
  extent[0] = g->extent[0];
  extent[1] = g->extent[1];
  return g->extent[0] ? g->n_of : 0;
}
