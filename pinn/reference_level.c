/* reference_level.c: one classical solution at one resolution, as values at the points of a grid.
 *
 * Bounded problems take the solution of the level before, prolonged by zeros, as the start of Newton's method; a march
 * needs none. Sums are taken for a few hundred points at a time, so that tables of basis functions stay small.
 */
#include "pinn/reference.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, MOST_BOX = 3200, MOST_MARCH = 1300, MOST_STEPS = 1 << 17 };

/* Axes of the run with n functions each. */
static size_t axes_of(const pn_ref_run *r, size_t n, pn_ref_axis *axes) {
  size_t count = 0;
  for (size_t x = 0; x < r->problem->n_coordinates; ++x) {
    const pn_coordinate *c = &r->problem->coordinates[x];
    if (r->marching && r->way.coordinate == x)
      continue;
    if (count < PN_REF_AXES)
      axes[count] = (pn_ref_axis){x, c->lo, c->hi, c->periodic, n};
    ++count;
  }
  return count;
}

/* ---- Values at points --------------------------------------------------------------------------------- */

/* Unknowns at those points of the grid whose numbers are in `which`. */
static tn_status sample(const pn_ref_run *r, const pn_ref_space *space, const double *c, size_t n,
                        const size_t *which, double *values) {
  static const uint8_t none[PN_MAX_COORDINATES] = {0};
  double out[BLOCK];
  uint32_t bits = 0;
  for (size_t k = 0; k < space->n_axes; ++k)
    bits |= UINT32_C(1) << space->axis[k].coordinate;
  for (size_t first = 0; first < n; first += BLOCK) {
    pn_ref_points places = {0};
    size_t count = n - first < BLOCK ? n - first : BLOCK;
    tn_status status = pn_ref_points_new(count, bits, &places);
    for (size_t x = 0; x < PN_MAX_COORDINATES && status == TN_OK; ++x)
      for (size_t i = 0; places.column[x] && i < count; ++i)
        places.column[x][i] = r->grid.column[x][which[first + i]];
    for (size_t u = 0; u < space->n_unknowns && status == TN_OK; ++u) {
      pn_ref_tables tables = {0};
      status = pn_ref_tables_new(space, u, none, &places, &tables);
      if (status == TN_OK)
        pn_ref_sum(space, &tables, c, out);
      for (size_t i = 0; i < count && status == TN_OK; ++i)
        values[u * r->grid.n + which[first + i]] = out[i];
      pn_ref_tables_free(&tables);
    }
    pn_ref_points_free(&places);
    TN_TRY(status);
  }
  return TN_OK;
}

/* ---- The two ways --------------------------------------------------------------------------------------- */

static tn_status solve_box(pn_ref_run *r, pn_ref_level *l, pn_ref_space *space) {
  double *c = NULL;
  size_t *all = NULL;
  pn_ref_newton newton = {0};
  TN_TRY(TN_NEW(l->columns, &c));
  if (r->c)
    pn_ref_prolong(&r->last, r->c, space, c);
  tn_status status = pn_ref_box(&r->rows, space, c, &newton);
  if (status == TN_OK && !newton.converged && r->c) { /* once more, from nothing */
    memset(c, 0, l->columns * sizeof *c);
    status = pn_ref_box(&r->rows, space, c, &newton);
  }
  l->solved = newton.converged;
  l->null = newton.null;
  l->noise = newton.noise;
  l->left = newton.left;
  if (status == TN_OK)
    status = TN_NEW(r->grid.n, &all);
  for (size_t i = 0; status == TN_OK && i < r->grid.n; ++i)
    all[i] = i;
  if (status == TN_OK)
    status = sample(r, space, c, r->grid.n, all, l->values);
  tn_free(&all);
  if (status == TN_OK && newton.converged) {
    pn_ref_space_free(&r->last);
    tn_free(&r->c);
    r->last = *space;
    r->c = c;
    *space = (pn_ref_space){0};
  } else {
    tn_free(&c);
  }
  return status;
}

/* Times of the grid in the direction of the march. */
static tn_status solve_march(pn_ref_run *r, pn_ref_level *l, const pn_ref_space *space) {
  size_t axis = 0, stride = 1, n_times = 0;
  double *at = NULL, **out = NULL;
  size_t *which = NULL;
  while (r->grid.coordinate[axis] != r->way.coordinate)
    ++axis;
  for (size_t j = axis + 1; j < r->grid.n_axes; ++j)
    stride *= r->grid.extent[j];
  n_times = r->grid.extent[axis];
  bool back = (r->grid.axis[axis][n_times - 1] < r->grid.axis[axis][0]) != (r->way.to < r->way.from);
  tn_status status = TN_NEW(n_times, &at);
  if (status == TN_OK)
    status = TN_NEW(n_times, &out);
  if (status == TN_OK)
    status = TN_NEW(r->grid.n, &which);
  for (size_t k = 0; status == TN_OK && k < n_times; ++k) {
    at[k] = r->grid.axis[axis][back ? n_times - 1 - k : k];
    status = TN_NEW(l->columns, &out[k]);
  }
  l->solved = true;
  l->noise = 2e-14 * sqrt((double)l->steps); /* of Newton's method in each step */
  if (status == TN_OK)
    status = pn_ref_march(&r->rows, space, &r->way, l->steps, n_times, at, out, &l->solved);
  for (size_t k = 0; status == TN_OK && l->solved && k < n_times; ++k) {
    size_t n = 0, index = back ? n_times - 1 - k : k;
    for (size_t i = 0; i < r->grid.n; ++i)
      if (i / stride % n_times == index)
        which[n++] = i;
    status = sample(r, space, out[k], n, which, l->values);
  }
  for (size_t k = 0; out && k < n_times; ++k)
    tn_free(&out[k]);
  tn_free(&out);
  tn_free(&at);
  tn_free(&which);
  return status;
}

/* ---- Levels ---------------------------------------------------------------------------------------------- */

size_t pn_ref_next(const pn_ref_run *r, size_t n) {
  static const size_t line[] = {9, 17, 33, 65, 129, 257, 513, 1025, 2049},
                      plane[] = {7, 11, 15, 21, 29, 41, 55, 77}, volume[] = {5, 7, 9, 11, 13, 15, 19};
  pn_ref_axis axes[PN_REF_AXES];
  size_t count = axes_of(r, 1, axes);
  const size_t *list = count < 2 ? line : count == 2 ? plane : volume;
  size_t length = count < 2 ? sizeof line / sizeof *line
                            : count == 2 ? sizeof plane / sizeof *plane : sizeof volume / sizeof *volume;
  for (size_t i = 0; i < length; ++i)
    if (list[i] > n)
      return list[i];
  return 2 * n;
}

static tn_status keep(pn_ref_run *r, pn_ref_level *l) {
  TN_TRY(tn_grow(&r->level, r->n_levels, r->n_levels + 1, sizeof *r->level));
  r->level[r->n_levels++] = l;
  return TN_OK;
}

static bool too_large(const pn_ref_run *r, const pn_ref_level *l) {
  return l->columns > (size_t)(r->marching ? MOST_MARCH : MOST_BOX) || l->steps > MOST_STEPS ||
         (r->most && l->n > r->most);
}

tn_status pn_ref_level_of(pn_ref_run *r, size_t n, size_t steps, const pn_ref_level **out) {
  pn_ref_axis axes[PN_REF_AXES];
  pn_ref_space space = {0};
  pn_ref_level *l = NULL;
  *out = NULL;
  for (size_t i = 0; i < r->n_levels; ++i)
    if (r->level[i]->n && r->level[i]->n == n && r->level[i]->steps == steps) {
      *out = r->level[i];
      return TN_OK;
    }
  r->late = tn_clock() > (r->best ? r->until : r->rows.deadline);
  if (r->late)
    return TN_OK;
  size_t n_axes = axes_of(r, n, axes);
  if (n_axes > PN_REF_AXES)
    return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: %zu coordinates besides the time, "
                                    "expected at most %d",
                   n_axes, PN_REF_AXES);
  tn_status status = pn_ref_space_new(&r->rows, n_axes, axes, &space);
  if (status == TN_OK)
    status = TN_NEW(1, &l);
  if (status == TN_OK) {
    *l = (pn_ref_level){.n = n, .steps = steps, .columns = space.offset[space.n_unknowns]};
    if (too_large(r, l)) {
      tn_free(&l);
      pn_ref_space_free(&space);
      return TN_OK;
    }
    status = TN_NEW(r->problem->n_unknowns * r->grid.n, &l->values);
  }
  if (status == TN_OK)
    status = r->marching ? solve_march(r, l, &space) : solve_box(r, l, &space);
  if (status == TN_OK)
    status = keep(r, l);
  if (status == TN_OK) {
    *out = l;
  } else if (l) {
    tn_free(&l->values);
    tn_free(&l);
  }
  pn_ref_space_free(&space);
  return status;
}

tn_status pn_ref_combine(pn_ref_run *r, const pn_ref_level *a, const pn_ref_level *b, const pn_ref_level *c,
                         const pn_ref_level **out) {
  pn_ref_level *l = NULL;
  size_t n = r->problem->n_unknowns * r->grid.n;
  *out = NULL;
  TN_TRY(TN_NEW(1, &l));
  *l = (pn_ref_level){.solved = true, .noise = fmax(a->noise, b->noise), .columns = a->columns};
  tn_status status = TN_NEW(n, &l->values);
  for (size_t i = 0; status == TN_OK && i < n; ++i)
    l->values[i] = a->values[i] + (b->values[i] - c->values[i]);
  if (status == TN_OK)
    status = keep(r, l);
  if (status != TN_OK) {
    tn_free(&l->values);
    tn_free(&l);
    return status;
  }
  *out = l;
  return TN_OK;
}

double pn_ref_difference(const pn_ref_run *r, const pn_ref_level *a, const pn_ref_level *b, double *out) {
  double relative = 0;
  for (size_t u = 0; u < r->problem->n_unknowns; ++u) {
    double most = 0, size = 0;
    for (size_t i = u * r->grid.n; i < (u + 1) * r->grid.n; ++i) {
      double d = fabs(a->values[i] - b->values[i]);
      most = d > most || isnan(d) ? d : most;
      size = fmax(size, fabs(a->values[i]));
    }
    if (out)
      out[u] = most;
    most /= size > 0 ? size : 1;
    relative = most > relative || isnan(most) ? most : relative;
  }
  return isnan(relative) ? INFINITY : relative;
}
