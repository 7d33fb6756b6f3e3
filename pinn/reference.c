/* reference.c: `pinn reference`: a solution by classical methods, refined until two resolutions agree.
 *
 * A problem with a time and conditions at one end of it is solved step by step (reference_march.c), any other one on
 * the whole box at once (reference_box.c). The estimate of the error is made of differences between solutions alone:
 * in a box d_k, between level k and the one before; in a march d_x by more functions and d_t by more steps, each
 * refined by itself, whichever is larger. d_k is the error of level k - 1; that of level k is taken to be
 *
 *   e_k = 2 d_k r_k min(1, max(r_k, r_k / r_(k-1))),   r_k = d_k / d_(k-1),
 *
 * and d_k where r_k > 1/4: convergence goes on as it did (algebraic, where ratios are equal), or as it gained (spectral,
 * where the ratio is squared when the number of functions is doubled), with a factor of safety, and not below rounding.
 * No level is begun after a quarter of the time allowed: the next one takes about as long as all before, or longer.
 * Of a march, X (more functions), T (more steps) and the base B of both give X + T - B, which has the errors of X
 * in space and of T in time.
 */
#include "pinn/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/blas.h"
#include "pinn/files.h"

enum { FIRST_STEPS = 8, CHEAP = 700 };
static const double rounding = 1e-12, spectral = 1e-6, stepwise = 1.0 / 64; /* least shares */

/* Differences between one resolution and the next, the newest first. */
typedef struct history {
  size_t size; /* the newest resolution; the same again replaces the newest difference */
  double d[3];
} history;

static const history nothing_yet = {0, {INFINITY, INFINITY, INFINITY}};

static void push(history *h, size_t size, double d) {
  if (size == h->size)
    h->d[0] = d;
  else
    *h = (history){size, {d, h->d[0], h->d[1]}};
}

/* The error of the finer of two solutions as a share of their difference; `least`: at the best. */
static double share(const history *h, double least) {
  double now = h->d[0] / h->d[1], before = h->d[1] / h->d[2];
  if (!isfinite(h->d[1]) || !(now < 0.25))
    return 1;
  double gained = isfinite(h->d[2]) && before > 0 ? fmin(1, fmax(now, now / before)) : 1;
  return fmin(1, fmax(2 * now * gained, least));
}

static void outcome(pn_ref_run *r, const pn_ref_level *best, const double *error) {
  r->best = best;
  r->n = best->n;
  r->steps = best->steps;
  r->relative = 0;
  for (size_t u = 0; u < r->problem->n_unknowns; ++u) {
    r->largest[u] = 0;
    for (size_t i = u * r->grid.n; i < (u + 1) * r->grid.n; ++i)
      r->largest[u] = fmax(r->largest[u], fabs(best->values[i]));
    r->error[u] = fmax(error[u], fmax(best->noise, 2.3e-16) * r->largest[u]);
    r->relative = fmax(r->relative, r->error[u] / (r->largest[u] > 0 ? r->largest[u] : 1));
  }
}

static tn_status nothing(const pn_ref_run *r) {
  if (r->late)
    return TN_FAIL(TN_EINPUT, "no reference solution in the time allowed: --seconds allows more, --tolerance and "
                              "--points ask for less");
  return TN_FAIL(TN_EINPUT, "a reference solution cannot be made: Newton's method finds none at %zu resolution%s%s",
                 r->n_levels, r->n_levels == 1 ? "" : "s",
                 r->most ? "; allow more by --points" : "");
}

/* ---- Boxes ------------------------------------------------------------------------------------------------ */

static tn_status refine_box(pn_ref_run *r) {
  const pn_ref_level *before = NULL, *now = NULL;
  double *error = NULL, best = INFINITY;
  history h = nothing_yet;
  TN_TRY(TN_NEW(r->problem->n_unknowns, &error));
  tn_status status = TN_OK;
  for (size_t n = pn_ref_next(r, 0); status == TN_OK; n = pn_ref_next(r, n)) {
    status = pn_ref_level_of(r, n, 0, &now);
    if (status != TN_OK || !now)
      break;
    if (!now->solved)
      continue;
    if (before) {
      double d = pn_ref_difference(r, now, before, error);
      push(&h, n, d);
      for (size_t u = 0; u < r->problem->n_unknowns; ++u)
        error[u] *= share(&h, spectral);
      if (d < best)
        outcome(r, now, error);
      best = fmin(best, d);
      bool done = d <= rounding || d > h.d[1] / 4 || now->columns > CHEAP;
      if ((r->relative <= r->tolerance && done) || (d > 100 * best && best < 1e-6))
        break;
    }
    before = now;
  }
  tn_free(&error);
  if (status == TN_OK && !r->best)
    status = nothing(r);
  return status;
}

/* ---- Marches ----------------------------------------------------------------------------------------------- */

typedef struct front {
  size_t n, steps;
  history x, t;    /* relative differences */
  double *ex, *et; /* of each unknown */
  bool full;       /* more functions cannot be had: x and ex are those of the base beside the one before */
} front;

/* The first resolution that Newton's method can do. */
static tn_status start(pn_ref_run *r, front *f, const pn_ref_level **out) {
  f->n = pn_ref_next(r, pn_ref_next(r, 0));
  f->steps = FIRST_STEPS;
  for (size_t tries = 0; tries < 12; ++tries) {
    TN_TRY(pn_ref_level_of(r, f->n, f->steps, out));
    if (!*out || (*out)->solved)
      break;
    f->steps *= 2;
    if (tries % 2)
      f->n = r->rows.problem->n_coordinates > 1 ? pn_ref_next(r, f->n) : f->n;
  }
  return *out && (*out)->solved ? TN_OK : nothing(r);
}

/* More functions than the base has; *fine NULL: not looked at, or not to be had. */
static tn_status look_x(pn_ref_run *r, front *f, const pn_ref_level *base, const pn_ref_level **fine) {
  *fine = NULL;
  if (r->problem->n_coordinates == 1)
    f->x.d[0] = 0;
  if (f->x.d[0] <= r->tolerance / 30 || f->full) /* known to be small */
    return TN_OK;
  TN_TRY(pn_ref_level_of(r, pn_ref_next(r, f->n), f->steps, fine));
  f->full = *fine == NULL;
  if (*fine && !(*fine)->solved)
    *fine = NULL;
  else if (*fine)
    push(&f->x, f->n, pn_ref_difference(r, *fine, base, f->ex));
  return TN_OK;
}

/* Looks both ways from the base and makes the best of what is there. */
static tn_status look_around(pn_ref_run *r, front *f, const pn_ref_level *base) {
  const pn_ref_level *x = NULL, *t = NULL, *best = NULL;
  TN_TRY(look_x(r, f, base, &x));
  TN_TRY(pn_ref_level_of(r, f->n, 2 * f->steps, &t));
  if (t && !t->solved)
    t = NULL;
  if (!t || !isfinite(f->x.d[0]))
    return TN_OK;
  push(&f->t, f->steps, pn_ref_difference(r, t, base, f->et));
  double sx = x || f->full ? share(&f->x, spectral) : 1, st = share(&f->t, stepwise);
  double cross = f->x.d[0] * f->t.d[0], sum = sx * f->x.d[0] + st * f->t.d[0] + cross;
  if (r->best && sum >= r->relative)
    return TN_OK;
  best = t;
  if (x)
    TN_TRY(pn_ref_combine(r, t, x, base, &best));
  for (size_t u = 0; u < r->problem->n_unknowns; ++u)
    f->et[u] = st * f->et[u] + sx * f->ex[u] + cross * r->largest[u];
  outcome(r, best, f->et);
  r->n = x ? pn_ref_next(r, f->n) : f->n;
  r->steps = 2 * f->steps;
  return TN_OK;
}

/* The next base; NULL: there is none. */
static tn_status next_base(pn_ref_run *r, front *f, const pn_ref_level **base) {
  double dx = f->x.d[0], dt = f->t.d[0];
  bool more_x = !f->full && dx >= dt / 3 && dx > r->tolerance / 3, more_t = dt >= dx || !more_x;
  size_t n = more_x ? pn_ref_next(r, f->n) : f->n, steps = more_t ? 2 * f->steps : f->steps;
  TN_TRY(pn_ref_level_of(r, n, steps, base));
  for (size_t tries = 0; tries < 8 && *base && !(*base)->solved; ++tries) { /* smaller steps, or more functions */
    if (tries % 2 && r->problem->n_coordinates > 1)
      n = pn_ref_next(r, n);
    else
      steps *= 2;
    TN_TRY(pn_ref_level_of(r, n, steps, base));
  }
  if (*base && !(*base)->solved)
    *base = NULL;
  f->n = n;
  f->steps = steps;
  return TN_OK;
}

static tn_status refine_march(pn_ref_run *r) {
  front f = {.x = nothing_yet, .t = nothing_yet};
  const pn_ref_level *base = NULL;
  tn_status status = TN_NEW(r->problem->n_unknowns, &f.ex);
  if (status == TN_OK)
    status = TN_NEW(r->problem->n_unknowns, &f.et);
  if (status == TN_OK)
    status = start(r, &f, &base);
  while (status == TN_OK && base) {
    status = look_around(r, &f, base);
    bool stuck = f.t.d[0] > f.t.d[1] / 2 && f.t.d[0] < 1e-9 && f.x.d[0] <= f.t.d[0]; /* rounding */
    stuck |= f.full && f.t.d[0] < share(&f.x, spectral) * f.x.d[0] / 10;
    bool known = isfinite(f.t.d[1]) || base->columns > CHEAP; /* how fast it converges */
    if (status != TN_OK || (r->relative <= r->tolerance && known) || stuck)
      break;
    status = next_base(r, &f, &base);
  }
  tn_free(&f.ex);
  tn_free(&f.et);
  if (status == TN_OK && !r->best)
    status = nothing(r);
  return status;
}

/* ---- All of it ---------------------------------------------------------------------------------------------- */

static tn_status whole_grid(pn_ref_run *r) {
  static const size_t standard[] = {1, 1001, 201, 41, 15};
  const pn_problem *p = r->problem;
  size_t coordinate[PN_MAX_COORDINATES], extent[PN_MAX_COORDINATES], n = p->n_coordinates;
  double lo[PN_MAX_COORDINATES], hi[PN_MAX_COORDINATES];
  if (n > PN_REF_AXES + 1)
    return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: %zu coordinates, expected at most %d", n,
                   PN_REF_AXES + 1);
  for (size_t x = 0; x < n; ++x) {
    const pn_output *o = &p->output;
    coordinate[x] = x;
    lo[x] = p->coordinates[x].lo;
    hi[x] = p->coordinates[x].hi;
    extent[x] = o->n_grid == 0 ? standard[n] : o->grid[o->n_grid == n ? x : 0];
    extent[x] = extent[x] < 2 ? 2 : extent[x];
  }
  return pn_grid_new(n, coordinate, lo, hi, extent, &r->grid);
}

static tn_status check_grid(const pn_ref_run *r) {
  for (size_t x = 0; x < r->problem->n_coordinates; ++x) {
    const pn_coordinate *c = &r->problem->coordinates[x];
    double slack = 1e-14 * (fabs(c->lo) + fabs(c->hi));
    if (!(r->grid.bits >> x & 1))
      return TN_FAIL(TN_EINPUT, "--grid: no value of `%s`; add %s=from:to:number", c->name, c->name);
    for (size_t i = 0; i < r->grid.n; ++i)
      if (r->grid.column[x][i] < c->lo - slack || r->grid.column[x][i] > c->hi + slack)
        return TN_FAIL(TN_EINPUT, "--grid: %s = %.10g lies outside the domain, %s in [%.10g, %.10g]", c->name,
                       r->grid.column[x][i], c->name, c->lo, c->hi);
  }
  return TN_OK;
}

static tn_status prepare(pn_ref_run *r, const pn_reference_options *o) {
  size_t n = 0;
  TN_TRY(pn_problem_load(o->path, o->n_overrides, o->overrides, &r->problem));
  n = r->problem->n_unknowns;
  if (r->problem->n_coordinates == 0)
    return TN_FAIL(TN_EINPUT, "a reference solution needs a coordinate");
  TN_TRY(o->grid ? pn_grid_text(r->problem, o->grid, &r->grid) : whole_grid(r));
  TN_TRY(check_grid(r));
  TN_TRY(pn_ref_rows_new(r->problem, &r->rows));
  r->rows.deadline = r->until + 3 * (r->until - r->begin); /* the other three quarters */
  TN_TRY(TN_NEW(n, &r->order));
  TN_TRY(TN_NEW(n, &r->error));
  TN_TRY(TN_NEW(n, &r->largest));
  TN_TRY(TN_NEW(n, &r->known));
  r->marching = pn_ref_way_of(&r->rows, &r->way, r->order, &r->reason);
  r->relative = INFINITY;
  return TN_OK;
}

static void put_away(pn_ref_run *r) {
  for (size_t i = 0; i < r->n_levels; ++i) {
    tn_free(&r->level[i]->values);
    tn_free(&r->level[i]);
  }
  tn_free(&r->level);
  pn_ref_space_free(&r->last);
  tn_free(&r->c);
  tn_free(&r->order);
  tn_free(&r->error);
  tn_free(&r->largest);
  tn_free(&r->known);
  pn_grid_free(&r->grid);
  pn_ref_rows_free(&r->rows);
  pn_problem_free(&r->problem);
}

static tn_status file_name(const pn_reference_options *o, char **out) {
  return o->out ? tn_copy_text(o->out, out) : pn_path_named(o->path, ".ref.csv", out);
}

static tn_status make(pn_ref_run *r, const pn_reference_options *o, bool *reached) {
  char *path = NULL;
  if (o->out && !pn_path_ends(o->out, ".csv") && !pn_path_ends(o->out, ".h5"))
    return TN_FAIL(TN_EINPUT, "--out %s: the name must end in .csv or .h5", o->out);
  TN_TRY(prepare(r, o));
  TN_TRY(r->marching ? refine_march(r) : refine_box(r));
  TN_TRY(pn_ref_known(r));
  *reached = r->relative <= r->tolerance;
  if (o->terminal)
    pn_ref_report(r, o->terminal);
  TN_TRY(file_name(o, &path));
  tn_status status = pn_ref_write(r, path);
  if (status == TN_OK && o->terminal)
    fprintf(o->terminal, "written    %s\n", path);
  tn_free(&path);
  return status;
}

tn_status pn_reference(const pn_reference_options *options, bool *reached) {
  double limit = options->seconds > 0 ? options->seconds : 300;
  pn_ref_run run = {.begin = tn_clock(), .until = tn_clock() + limit / 4, .tolerance = options->tolerance > 0 ? options->tolerance : 1e-8, .most = options->points};
  int threads = pn_blas_alone();
  *reached = false;
  tn_status status = make(&run, options, reached);
  put_away(&run);
  pn_blas_restore(threads);
  return status;
}
