/* reference_march.c: a problem step by step in time.
 *
 * In space the unknowns are sums of basis functions, in time the polynomials of Radau's collocation
 * (reference_radau.c). With the coefficients C_i at the stages and u_0^(k) the k-th time derivative at the start of a
 * step of length h,
 *
 *   U_i^(0) = C_i,   U_i^(k) = sum_j W_ij (U_j^(k-1) - u_0^(k-1)) / h
 *
 * and every equation and condition holds at every stage. An equation of any order in time is treated as it stands, as
 * are equations without a time derivative (a divergence that is 0, a condition on a face): they hold at every stage.
 * Newton's matrices A_k = dR/dU^(k), taken at one stage, give the step of all: for every eigenvalue l of W
 *
 *   sum_k (l / h)^k A_k  d = -r
 *
 * Their factors serve while Newton's method contracts well, in a linear problem from the first step to the last.
 */
#include "pinn/reference.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "pinn/reference_radau.h"

enum { STAGES = 5, STAGES_ODE = 7, ORDERS = 5, MOST_STEPS = 40, MOST_TRIES = 3 };

typedef double complex number;

typedef struct march {
  pn_ref_rows *rows;
  const pn_ref_space *space;
  const pn_ref_way *way;
  pn_radau radau;
  size_t n_blocks, m, n, orders; /* orders: highest of time, at least 0 */
  pn_ref_block *block;           /* equations and faces; then the start's */
  double h, t;                   /* of this step: its length (signed) and start */
  double *A[ORDERS];             /* [m][n] by columns */
  bool have;                     /* factors of h */
  pn_factors factors[PN_RADAU_MOST];
  double *U[ORDERS];      /* [s][n]: time derivatives at the stages */
  double *start[ORDERS];  /* [n] */
  double *R;              /* [s][m] */
  double *before;         /* [s + 1][n]: the step before: start and stages */
  bool *algebraic;        /* [n]: no time derivative, no value at the start */
  double *size;           /* of each unknown */
  double noise;           /* changes below it are rounding: at first 2e-14 */
} march;

/* ---- Rows ---------------------------------------------------------------------------------------------- */

static bool fixes(const pn_piece *piece, size_t x, double *value) {
  for (size_t k = 0; piece && k < piece->n_fixed; ++k)
    if (piece->fixed[k] == x) {
      *value = piece->value[k];
      return true;
    }
  return false;
}

static tn_status evaluate(march *w, size_t n_orders, double *const *U, double t, bool slopes) {
  for (size_t k = 0; k < w->n_blocks; ++k) {
    pn_ref_block *b = &w->block[k];
    double *column = b->points.column[w->way->coordinate];
    if (!b->points.n)
      continue;
    for (size_t i = 0; column && i < b->points.n; ++i)
      column[i] = t;
    for (size_t j = 0; j < b->row->n_calls; ++j) {
      size_t order = b->row->calls[j].order[w->way->coordinate];
      if (order >= n_orders)
        return TN_FAIL(TN_EINTERNAL, "a time derivative of order %zu", order);
      pn_ref_sum(w->space, &b->tables[j], U[order], b->jet[j]);
    }
    TN_TRY(pn_ref_evaluate(w->rows, b->row, &b->points, NULL, NULL, b->jet, b->value,
                           slopes ? b->slope : NULL));
  }
  return TN_OK;
}

/* A_k of all rows, from the slopes of the last evaluation. */
static void assemble(march *w, size_t m, double *const *A) {
  size_t at = 0;
  for (size_t k = 0; k < w->n_blocks; ++k)
    for (size_t i = 0; i < w->block[k].points.n; ++i, ++at)
      for (size_t j = 0; j < w->block[k].row->n_calls; ++j)
        pn_ref_add_row(w->space, &w->block[k].tables[j], i, w->block[k].slope[j][i],
                       A[w->block[k].row->calls[j].order[w->way->coordinate]] + at, m);
}

static void values(const march *w, double *out) {
  for (size_t k = 0; k < w->n_blocks; ++k) {
    memcpy(out, w->block[k].value, w->block[k].points.n * sizeof *out);
    out += w->block[k].points.n;
  }
}

/* Blocks of the start (at_start) or of the way. */
static tn_status make_blocks(march *w, bool at_start) {
  double without[PN_MAX_COORDINATES], value = 0;
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    without[x] = x == w->way->coordinate ? w->way->from : NAN;
  TN_TRY(TN_NEW(w->rows->n, &w->block));
  w->m = 0;
  for (size_t k = 0; k < w->rows->n; ++k) {
    if (fixes(w->rows->row[k].piece, w->way->coordinate, &value) != at_start)
      continue;
    pn_ref_block *b = &w->block[w->n_blocks++];
    TN_TRY(pn_ref_block_new(w->rows, &w->rows->row[k], w->space, without, b));
    w->m += b->points.n;
  }
  return TN_OK;
}

static void drop_blocks(march *w) {
  for (size_t k = 0; k < w->n_blocks; ++k)
    pn_ref_block_free(&w->block[k]);
  tn_free(&w->block);
  w->n_blocks = 0;
}

/* ---- The start ------------------------------------------------------------------------------------------- */

/* All time derivatives below the highest of each unknown as one vector, by Newton's method. */
static tn_status solve_start(march *w, bool *converged) {
  size_t n = w->n * w->orders, null = 0;
  double *A = NULL, *part[ORDERS] = {0}, *b = NULL, last = INFINITY;
  *converged = false;
  if (!w->orders || !w->m)
    return TN_OK;
  tn_status status = TN_NEW(w->m * n, &A);
  if (status == TN_OK)
    status = TN_NEW(w->m > n ? w->m : n, &b);
  for (size_t k = 0; k < w->orders && status == TN_OK; ++k)
    part[k] = A + k * w->m * w->n;
  for (size_t step = 0; step < MOST_STEPS && status == TN_OK && !*converged; ++step) {
    double change = 0, size = 0;
    memset(A, 0, w->m * n * sizeof *A);
    status = evaluate(w, w->orders, w->start, w->way->from, true);
    if (status != TN_OK)
      break;
    assemble(w, w->m, part);
    values(w, b);
    for (size_t i = 0; i < w->m; ++i)
      b[i] = -b[i];
    status = pn_ref_least(w->m, n, A, b, &null);
    for (size_t k = 0; k < w->orders && status == TN_OK; ++k)
      for (size_t j = 0; j < w->n; ++j) {
        w->start[k][j] += b[k * w->n + j];
        change = fmax(change, fabs(b[k * w->n + j]));
        size = fmax(size, fabs(w->start[k][j]));
      }
    *converged = change <= 1e-13 * size || (change < 1e-8 * size && change > last / 4);
    last = change;
  }
  tn_free(&A);
  tn_free(&b);
  return status;
}

/* ---- A step ---------------------------------------------------------------------------------------------- */

/* The time derivatives that belong to the values at the stages. */
static void differentiate(march *w) {
  size_t s = w->radau.s;
  for (size_t k = 1; k <= w->orders; ++k)
    for (size_t i = 0; i < s; ++i)
      for (size_t q = 0; q < w->n; ++q) {
        double sum = 0;
        for (size_t j = 0; j < s; ++j)
          sum += w->radau.W[i][j] * (w->U[k - 1][j * w->n + q] - w->start[k - 1][q]);
        w->U[k][i * w->n + q] = sum / w->h;
      }
}

static tn_status residuals(march *w) {
  double *U[ORDERS];
  for (size_t i = 0; i < w->radau.s; ++i) {
    for (size_t k = 0; k <= w->orders; ++k)
      U[k] = w->U[k] + i * w->n;
    TN_TRY(evaluate(w, w->orders + 1, U, w->t + w->radau.c[i] * w->h, false));
    values(w, w->R + i * w->m);
  }
  return TN_OK;
}

static void drop_factors(march *w) {
  for (size_t i = 0; i < w->radau.s; ++i)
    pn_factors_free(&w->factors[i]);
  w->have = false;
}

/* Matrices at the middle stage, and the factors of their sums. */
static tn_status factor(march *w) {
  double *U[ORDERS];
  size_t middle = w->radau.s / 2;
  drop_factors(w);
  for (size_t k = 0; k <= w->orders; ++k) {
    U[k] = w->U[k] + middle * w->n;
    memset(w->A[k], 0, w->m * w->n * sizeof(double));
  }
  TN_TRY(evaluate(w, w->orders + 1, U, w->t + w->radau.c[middle] * w->h, true));
  assemble(w, w->m, w->A);
  for (size_t i = 0; i < w->radau.s; ++i) {
    double *sum = NULL;
    if (w->radau.lambda[i][1] < 0)
      continue; /* the conjugate of another */
    TN_TRY(TN_NEW(2 * w->m * w->n, &sum));
    number *z = (number *)(void *)sum, factor = (w->radau.lambda[i][0] + w->radau.lambda[i][1] * I) / w->h;
    for (size_t q = 0; q < w->m * w->n; ++q) {
      number value = w->A[w->orders][q];
      for (size_t k = w->orders; k-- > 0;)
        value = value * factor + w->A[k][q];
      z[q] = value;
    }
    TN_TRY(pn_factors_new(w->m, w->n, &sum, &w->factors[i]));
  }
  w->have = true;
  return TN_OK;
}

/* C += d; *change: the largest relative change of an unknown. */
static tn_status correct(march *w, double *change) {
  size_t s = w->radau.s, most = w->m > w->n ? w->m : w->n;
  double *b = NULL, *delta = NULL;
  TN_TRY(TN_NEW(2 * most, &b));
  tn_status status = TN_NEW(s * w->n, &delta);
  number *z = (number *)(void *)b;
  for (size_t i = 0; i < s && status == TN_OK; ++i) {
    if (w->radau.lambda[i][1] < 0)
      continue;
    for (size_t q = 0; q < w->m; ++q) {
      z[q] = 0;
      for (size_t j = 0; j < s; ++j)
        z[q] -= (w->radau.inverse[i][j][0] + w->radau.inverse[i][j][1] * I) * w->R[j * w->m + q];
    }
    status = pn_factors_solve(&w->factors[i], b);
    double twice = w->radau.lambda[i][1] > 0 ? 2 : 1;
    for (size_t j = 0; j < s && status == TN_OK; ++j)
      for (size_t q = 0; q < w->n; ++q)
        delta[j * w->n + q] += twice * creal((w->radau.T[j][i][0] + w->radau.T[j][i][1] * I) * z[q]);
  }
  *change = 0;
  for (size_t u = 0; u < w->space->n_unknowns && status == TN_OK; ++u) {
    double most_change = 0;
    for (size_t j = 0; j < s; ++j)
      for (size_t q = w->space->offset[u]; q < w->space->offset[u + 1]; ++q) {
        w->U[0][j * w->n + q] += delta[j * w->n + q];
        most_change = fmax(most_change, fabs(delta[j * w->n + q]));
        w->size[u] = fmax(w->size[u], fabs(w->U[0][j * w->n + q]));
      }
    *change = fmax(*change, most_change / fmax(w->size[u], 1e-300));
    if (!isfinite(most_change))
      *change = INFINITY;
  }
  tn_free(&b);
  tn_free(&delta);
  return status;
}

/* Values at the stages: the polynomial of the step before, continued, or the start. */
static void predict(march *w, bool first, bool flat) {
  double weight[PN_RADAU_MOST + 1];
  for (size_t i = 0; i < w->radau.s; ++i)
    for (size_t q = 0; q < w->n; ++q) {
      double *to = &w->U[0][i * w->n + q];
      const double *last = w->before + w->radau.s * w->n;
      *to = first ? (w->algebraic[q] ? 0 : w->start[0][q]) : last[q];
    }
  if (first || flat)
    return;
  for (size_t i = 0; i < w->radau.s; ++i)
    for (size_t q = 0; q < w->n; ++q) {
      double sum = 0;
      if (q == 0 || w->algebraic[q] != w->algebraic[q - 1])
        pn_radau_weights(&w->radau, 1 + w->radau.c[i], !w->algebraic[q], weight);
      for (size_t j = 0; j <= w->radau.s; ++j)
        sum += weight[j] * w->before[j * w->n + q];
      w->U[0][i * w->n + q] = sum;
    }
}

/* Changes that do not shrink any more are rounding where they are small, or on the last try, which then says how
 * large rounding is here. */
static tn_status newton(march *w, bool patient, bool *converged) {
  double change = INFINITY, last = INFINITY;
  *converged = false;
  for (size_t k = 0; k < MOST_STEPS; ++k) {
    differentiate(w);
    if (!w->have)
      TN_TRY(factor(w));
    TN_TRY(residuals(w));
    TN_TRY(correct(w, &change));
    if (!(change < 1e6))
      return TN_OK;
    *converged = change < w->noise;
    if (!*converged && patient && change < 1e-8 && change > last / 2) {
      w->noise = 2 * change;
      *converged = true;
    }
    if (*converged)
      return TN_OK;
    if (k > 1 && change > 0.25 * last && !patient)
      return TN_OK; /* no contraction: other factors */
    last = change;
  }
  return TN_OK;
}

static tn_status step(march *w, bool first, bool *converged) {
  *converged = false;
  for (size_t tries = 0; tries < MOST_TRIES && !*converged; ++tries) {
    if (tries != 1) /* the second goes on from where the first came to, with new factors */
      predict(w, first, tries == 2);
    if (tries)
      drop_factors(w);
    tn_status status = newton(w, tries + 1 == MOST_TRIES, converged);
    if (status != TN_ENONFINITE) /* too far away: from elsewhere, or in smaller steps */
      TN_TRY(status);
  }
  return TN_OK;
}

/* The end of a step is the start of the next. */
static void advance(march *w) {
  size_t s = w->radau.s;
  memcpy(w->before, w->start[0], w->n * sizeof(double));
  memcpy(w->before + w->n, w->U[0], s * w->n * sizeof(double));
  for (size_t k = 0; k < w->orders || k == 0; ++k)
    memcpy(w->start[k], w->U[k] + (s - 1) * w->n, w->n * sizeof(double));
}

/* Coefficients inside the step that has just been advanced over, x in [0, 1]. */
static void inside(const march *w, double x, double *out) {
  double weight[2][PN_RADAU_MOST + 1];
  for (int a = 0; a < 2; ++a)
    pn_radau_weights(&w->radau, x, a == 0, weight[a]);
  for (size_t q = 0; q < w->n; ++q) {
    out[q] = 0;
    for (size_t j = 0; j <= w->radau.s; ++j)
      out[q] += weight[w->algebraic[q]][j] * w->before[j * w->n + q];
  }
}

/* ---- The march -------------------------------------------------------------------------------------------- */

static tn_status begin(march *w) {
  size_t s = w->radau.s;
  for (size_t k = 0; k <= w->orders; ++k) {
    TN_TRY(TN_NEW(s * w->n, &w->U[k]));
    TN_TRY(TN_NEW(w->n, &w->start[k]));
  }
  TN_TRY(TN_NEW((s + 1) * w->n, &w->before));
  TN_TRY(TN_NEW(w->n, &w->algebraic));
  TN_TRY(TN_NEW(w->space->n_unknowns, &w->size));
  for (size_t u = 0; u < w->space->n_unknowns; ++u)
    for (size_t q = w->space->offset[u]; q < w->space->offset[u + 1]; ++q)
      w->algebraic[q] = w->way->order[u] == 0;
  return TN_OK;
}

static tn_status begin_way(march *w) {
  TN_TRY(make_blocks(w, false));
  for (size_t k = 0; k <= w->orders; ++k)
    TN_TRY(TN_NEW(w->m * w->n, &w->A[k]));
  return TN_NEW(w->radau.s * w->m, &w->R);
}

static tn_status go(march *w, size_t steps, size_t n_times, const double *at, double *const *out,
                    bool *converged) {
  size_t next = 0;
  for (size_t k = 0; k < steps && *converged; ++k) {
    w->t = w->way->from + w->h * (double)k;
    *converged = tn_clock() < w->rows->deadline;
    if (!*converged)
      break;
    TN_TRY(step(w, k == 0, converged));
    advance(w);
    for (; *converged && next < n_times; ++next) {
      double x = (at[next] - w->t) / w->h;
      if (x > 1 + 1e-12 && k + 1 < steps)
        break;
      inside(w, x, out[next]);
    }
  }
  return TN_OK;
}

tn_status pn_ref_march(pn_ref_rows *rows, const pn_ref_space *space, const pn_ref_way *way, size_t steps,
                       size_t n_times, const double *at, double *const *out, bool *converged) {
  march w = {.rows = rows, .space = space, .way = way, .n = space->offset[space->n_unknowns]};
  w.h = (way->to - way->from) / (double)steps;
  w.noise = 2e-14;
  for (size_t u = 0; u < space->n_unknowns; ++u)
    w.orders = (size_t)way->order[u] > w.orders ? (size_t)way->order[u] : w.orders;
  tn_status status = w.orders < ORDERS ? TN_OK : TN_FAIL(TN_EUNSUPPORTED, "time derivatives of order %zu", w.orders);
  if (status == TN_OK)
    status = pn_radau_new(space->n_axes ? STAGES : STAGES_ODE, &w.radau);
  if (status == TN_OK)
    status = begin(&w);
  if (status == TN_OK)
    status = make_blocks(&w, true);
  if (status == TN_OK)
    status = solve_start(&w, converged);
  drop_blocks(&w);
  if (status == TN_OK)
    status = begin_way(&w);
  if (status == TN_OK && *converged)
    status = go(&w, steps, n_times, at, out, converged);
  drop_blocks(&w);
  drop_factors(&w);
  for (size_t k = 0; k < ORDERS; ++k) {
    tn_free(&w.A[k]);
    tn_free(&w.U[k]);
    tn_free(&w.start[k]);
  }
  tn_free(&w.R);
  tn_free(&w.before);
  tn_free(&w.algebraic);
  tn_free(&w.size);
  return status;
}

/* ---- Can it be done? --------------------------------------------------------------------------------------- */

static bool follows(const pn_ref_row *row, size_t t, const char **reason) {
  for (size_t k = 0; k < row->n_calls; ++k) {
    const pn_ref_call *c = &row->calls[k];
    *reason = "an unknown does not depend on the time";
    if (!c->argument[t].graph)
      return false;
    *reason = "an unknown stands at another time";
    if (!c->own[t])
      return false;
    *reason = "an unknown stands at a place that is computed";
    for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
      if (c->argument[x].graph && c->output[x] != PN_NONE)
        return false;
    *reason = "a mean over the whole domain";
    if (c->mean)
      return false;
  }
  *reason = NULL;
  return true;
}

bool pn_ref_way_of(const pn_ref_rows *rows, pn_ref_way *way, int *order, const char **reason) {
  const pn_problem *p = rows->problem;
  size_t t = p->n_coordinates == 1 ? 0 : PN_NONE, found[2] = {0}, wanted = 0;
  for (size_t x = 0; x < p->n_coordinates; ++x)
    if (p->coordinates[x].role == PN_TIME)
      t = x;
  *reason = "there is no time";
  if (t == PN_NONE || p->coordinates[t].periodic)
    return false;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    order[u] = rows->order[u][t];
    *reason = "an unknown does not depend on the time";
    if (order[u] < 0)
      return false;
    wanted += (size_t)order[u];
  }
  for (size_t i = 0; i < rows->n; ++i) {
    const pn_ref_row *row = &rows->row[i];
    double value = 0;
    if (!follows(row, t, reason))
      return false;
    *reason = "a condition that holds at no time of its own";
    if (row->term->where == PN_INTEGRAL)
      return false;
    if (!fixes(row->piece, t, &value))
      continue;
    *reason = "a condition inside the range of the time";
    if (value != p->coordinates[t].lo && value != p->coordinates[t].hi)
      return false;
    ++found[value == p->coordinates[t].hi];
    *reason = "a condition at the start with as many time derivatives as the equations";
    for (size_t k = 0; k < row->n_calls; ++k)
      if (row->calls[k].order[t] >= order[row->calls[k].unknown] && row->calls[k].order[t] > 0)
        return false;
  }
  *reason = found[0] && found[1] ? "conditions at both ends of the time" : "too few conditions at the start";
  if ((found[0] && found[1]) || found[0] + found[1] < wanted || wanted == 0)
    return false;
  const pn_coordinate *c = &p->coordinates[t];
  *way = (pn_ref_way){t, found[1] ? c->hi : c->lo, found[1] ? c->lo : c->hi, order};
  *reason = NULL;
  return true;
}
