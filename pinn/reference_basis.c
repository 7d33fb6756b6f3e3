/* reference_basis.c: functions, points and sums of spectral methods on boxes.
 *
 * Along a bounded coordinate T_j(s), s in [-1, 1]; along a periodic one 1, cos, sin, cos 2, ... of the angle. Their
 * derivatives at any point come from the recurrence differentiated a times,
 *
 *   T_(j+1)^(a) = 2 s T_j^(a) + 2 a T_j^(a-1) - T_(j-1)^(a),
 *
 * so nothing is ever divided by a distance of nodes, and a point may lie anywhere. Coefficients rather than values at
 * nodes are the numbers sought: those of a smooth function fall off as fast as the rows of high derivatives grow,
 * and rounding errors, which are relative to each coefficient, with them.
 *
 * A function of fewer derivatives gets fewer polynomials: n - (M - m) for order m beside M, and on squares and cubes
 * one less, so that a pressure beside velocities has no modes that no equation sees (of n - 1 polynomials,
 * T_(n-2)(x) T_(n-2)(y) has no gradient at the points where the momentum equations hold).
 */
#include "pinn/reference.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* ---- Functions ---------------------------------------------------------------------------------------- */

static void chebyshev(size_t n, double s, size_t order, double scale, double *out) {
  enum { MOST = 16 };
  double before[MOST] = {0}, now[MOST] = {0}, next[MOST] = {0}, factor = 1;
  size_t top = order < MOST ? order : MOST - 1;
  for (size_t a = 0; a < order; ++a)
    factor *= scale;
  before[0] = 1; /* T_0 */
  now[0] = s;    /* T_1 */
  if (top >= 1)
    now[1] = 1;
  for (size_t j = 0; j < n; ++j) {
    out[j] = factor * before[top];
    for (size_t a = 0; a <= top; ++a)
      next[a] = 2 * s * now[a] + (a ? 2 * (double)a * now[a - 1] : 0) - before[a];
    memcpy(before, now, sizeof now);
    memcpy(now, next, sizeof next);
  }
}

static void waves(size_t n, double angle, size_t order, double scale, double *out) {
  out[0] = order ? 0 : 1;
  for (size_t j = 1; j < n; ++j) {
    double k = (double)((j + 1) / 2), factor = 1;
    size_t turn = order % 4; /* derivatives of cos: -sin, -cos, sin */
    for (size_t a = 0; a < order; ++a)
      factor *= k * scale;
    double c = cos(k * angle), s = sin(k * angle);
    if (j % 2)
      out[j] = factor * (turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s);
    else
      out[j] = factor * (turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c);
  }
}

void pn_ref_basis(const pn_ref_axis *a, size_t n, double x, size_t order, double *out) {
  double width = a->hi - a->lo;
  if (a->periodic)
    waves(n, 2 * pi * (x - a->lo) / width, order, 2 * pi / width, out);
  else
    chebyshev(n, ((x - a->lo) - (a->hi - x)) / width, order, 2 / width, out);
}

/* ---- Points ------------------------------------------------------------------------------------------- */

void pn_ref_nodes(const pn_ref_axis *a, size_t n, bool ends, double *out) {
  double width = a->hi - a->lo;
  for (size_t i = 0; i < n; ++i) {
    double s = 0; /* sin of a symmetric angle: nodes are symmetric to the bit */
    if (a->periodic) {
      out[i] = a->lo + width * (double)i / (double)n;
      continue;
    }
    double k = 2 * (double)i - (double)(n - 1);
    if (ends)
      s = n > 1 ? sin(pi * k / (2 * (double)(n - 1))) : 0;
    else
      s = sin(pi * k / (2 * (double)n));
    out[i] = a->lo + width * (s + 1) / 2;
  }
  if (ends && !a->periodic && n > 1) {
    out[0] = a->lo;
    out[n - 1] = a->hi;
  }
}

/* Fejer's first rule: w_i = (1 - 2 sum_j cos(2 j theta_i) / (4 j^2 - 1)) / n, over 2. */
void pn_ref_mean_weights(const pn_ref_axis *a, size_t n, double *out) {
  for (size_t i = 0; i < n; ++i) {
    double theta = pi * (2 * (double)i + 1) / (2 * (double)n), sum = 1;
    for (size_t j = 1; j <= n / 2; ++j)
      sum -= 2 * cos(2 * (double)j * theta) / (4 * (double)j * (double)j - 1);
    out[i] = a->periodic ? 1 / (double)n : sum / (double)n;
  }
}

/* ---- Spaces ------------------------------------------------------------------------------------------- */

tn_status pn_ref_space_new(const pn_ref_rows *rows, size_t n_axes, const pn_ref_axis *axes,
                           pn_ref_space *out) {
  const pn_problem *p = rows->problem;
  *out = (pn_ref_space){.n_axes = n_axes, .n_unknowns = p->n_unknowns};
  memcpy(out->axis, axes, n_axes * sizeof *axes);
  TN_TRY(TN_NEW(p->n_unknowns, &out->count));
  TN_TRY(TN_NEW(p->n_unknowns + 1, &out->offset));
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    size_t total = 1;
    for (size_t k = 0; k < PN_REF_AXES; ++k) {
      size_t *count = &out->count[u][k], x = k < n_axes ? axes[k].coordinate : 0;
      int most = 0, own = k < n_axes ? rows->order[u][x] : -1;
      for (size_t v = 0; k < n_axes && v < p->n_unknowns; ++v)
        most = rows->order[v][x] > most ? rows->order[v][x] : most;
      *count = own < 0 ? 1 : axes[k].n;
      size_t fewer = own < most ? (size_t)(most - own) + (n_axes > 1) : 0;
      if (own >= 0 && !axes[k].periodic)
        *count = *count > fewer ? *count - fewer : 1;
      total *= *count;
    }
    out->offset[u + 1] = out->offset[u] + total;
  }
  return TN_OK;
}

void pn_ref_space_free(pn_ref_space *space) {
  tn_free(&space->count);
  tn_free(&space->offset);
}

void pn_ref_prolong(const pn_ref_space *from, const double *c, const pn_ref_space *to, double *out) {
  memset(out, 0, to->offset[to->n_unknowns] * sizeof *out);
  for (size_t u = 0; u < from->n_unknowns; ++u) {
    const size_t *n = from->count[u], *m = to->count[u];
    for (size_t i = 0; i < n[0] && i < m[0]; ++i)
      for (size_t j = 0; j < n[1] && j < m[1]; ++j)
        for (size_t k = 0; k < n[2] && k < m[2]; ++k)
          out[to->offset[u] + (i * m[1] + j) * m[2] + k] = c[from->offset[u] + (i * n[1] + j) * n[2] + k];
  }
}

/* ---- Tables ------------------------------------------------------------------------------------------- */

tn_status pn_ref_tables_new(const pn_ref_space *space, size_t unknown, const uint8_t *order,
                            const pn_ref_points *places, pn_ref_tables *out) {
  *out = (pn_ref_tables){.n = places->n, .unknown = unknown};
  for (size_t k = 0; k < space->n_axes; ++k) {
    const pn_ref_axis *a = &space->axis[k];
    size_t n = space->count[unknown][k];
    const double *x = places->column[a->coordinate];
    if (n == 1 && !x)
      continue;
    if (!x)
      return TN_FAIL(TN_EINTERNAL, "no place along an axis");
    TN_TRY(TN_NEW(places->n * n, &out->axis[k]));
    for (size_t i = 0; i < places->n; ++i)
      pn_ref_basis(a, n, x[i], order[a->coordinate], out->axis[k] + i * n);
  }
  return TN_OK;
}

void pn_ref_tables_free(pn_ref_tables *tables) {
  for (size_t k = 0; k < PN_REF_AXES; ++k)
    tn_free(&tables->axis[k]);
}

static const double one = 1;

static const double *functions(const pn_ref_tables *t, size_t axis, size_t count, size_t i) {
  return t->axis[axis] ? t->axis[axis] + i * count : &one;
}

void pn_ref_sum(const pn_ref_space *space, const pn_ref_tables *t, const double *c, double *out) {
  const size_t *n = space->count[t->unknown];
  const double *first = c + space->offset[t->unknown];
  for (size_t p = 0; p < t->n; ++p) {
    const double *a = functions(t, 0, n[0], p), *b = functions(t, 1, n[1], p),
                 *d = functions(t, 2, n[2], p), *at = first;
    double sum = 0;
    for (size_t i = 0; i < n[0]; ++i) {
      double inner = 0;
      for (size_t j = 0; j < n[1]; ++j) {
        double line = 0;
        for (size_t k = 0; k < n[2]; ++k)
          line += d[k] * at[k];
        inner += b[j] * line;
        at += n[2];
      }
      sum += a[i] * inner;
    }
    out[p] = sum;
  }
}

void pn_ref_add_row(const pn_ref_space *space, const pn_ref_tables *t, size_t p, double factor,
                    double *row, size_t stride) {
  const size_t *n = space->count[t->unknown];
  const double *a = functions(t, 0, n[0], p), *b = functions(t, 1, n[1], p), *d = functions(t, 2, n[2], p);
  double *at = row + space->offset[t->unknown] * stride;
  for (size_t i = 0; i < n[0]; ++i)
    for (size_t j = 0; j < n[1]; ++j) {
      double ab = factor * a[i] * b[j];
      for (size_t k = 0; k < n[2]; ++k, at += stride)
        *at += ab * d[k];
    }
}

/* ---- Blocks ------------------------------------------------------------------------------------------- */

/* How many points a row has along an axis of the space: 1 where it is fixed. */
static size_t points_along(const pn_ref_row *row, const pn_ref_axis *a, bool *ends) {
  int most = row->most[a->coordinate];
  *ends = row->term->is_condition;
  if (!(row->free_ >> a->coordinate & 1))
    return 1;
  if (*ends || a->periodic || most < 0)
    return a->n;
  return a->n > (size_t)most ? a->n - (size_t)most : 1;
}

/* The product of points along the axes; those that a filter leaves out are dropped. */
static tn_status fill_points(const pn_problem *p, const pn_ref_row *row, const pn_ref_space *space,
                             const double *without, pn_ref_points *out) {
  size_t n[PN_REF_AXES] = {1, 1, 1}, total = 1, kept = 0;
  double *node[PN_REF_AXES] = {0}, point[PN_MAX_COORDINATES];
  tn_status status = TN_OK;
  for (size_t k = 0; k < space->n_axes; ++k) {
    bool ends = false;
    n[k] = points_along(row, &space->axis[k], &ends);
    total *= n[k];
    if (status == TN_OK)
      status = TN_NEW(n[k], &node[k]);
    if (status == TN_OK)
      pn_ref_nodes(&space->axis[k], n[k], ends && n[k] > 1, node[k]);
  }
  if (status == TN_OK)
    status = pn_ref_points_new(total, row->free_, out);
  for (size_t i = 0; status == TN_OK && i < total; ++i) {
    size_t rest = i;
    for (size_t x = 0; x < p->n_coordinates; ++x)
      point[x] = without ? without[x] : NAN;
    for (size_t k = space->n_axes; k-- > 0; rest /= n[k])
      point[space->axis[k].coordinate] = node[k][rest % n[k]];
    for (size_t f = 0; row->piece && f < row->piece->n_fixed; ++f)
      point[row->piece->fixed[f]] = row->piece->value[f];
    bool holds = true;
    if (row->piece && row->piece->filter)
      status = pn_predicate_holds(p, row->piece->filter, point, &holds);
    if (!holds)
      continue;
    for (size_t x = 0; x < p->n_coordinates; ++x)
      if (out->column[x])
        out->column[x][kept] = point[x];
    ++kept;
  }
  out->n = kept;
  for (size_t k = 0; k < PN_REF_AXES; ++k)
    tn_free(&node[k]);
  return status;
}

static tn_status fill_mean(const pn_ref_space *space, pn_ref_points *out, double **weight) {
  size_t total = 1, rest = 0;
  uint32_t bits = 0;
  double *node[PN_REF_AXES] = {0}, *share[PN_REF_AXES] = {0};
  tn_status status = TN_OK;
  for (size_t k = 0; k < space->n_axes; ++k) {
    const pn_ref_axis *a = &space->axis[k];
    total *= a->n;
    bits |= UINT32_C(1) << a->coordinate;
    if (status == TN_OK)
      status = TN_NEW(a->n, &node[k]);
    if (status == TN_OK)
      status = TN_NEW(a->n, &share[k]);
    if (status == TN_OK) {
      pn_ref_nodes(a, a->n, false, node[k]);
      pn_ref_mean_weights(a, a->n, share[k]);
    }
  }
  if (status == TN_OK)
    status = pn_ref_points_new(total, bits, out);
  if (status == TN_OK)
    status = TN_NEW(total, weight);
  for (size_t i = 0; status == TN_OK && i < total; ++i) {
    rest = i;
    (*weight)[i] = 1;
    for (size_t k = space->n_axes; k-- > 0; rest /= space->axis[k].n) {
      size_t j = rest % space->axis[k].n;
      out->column[space->axis[k].coordinate][i] = node[k][j];
      (*weight)[i] *= share[k][j];
    }
  }
  for (size_t k = 0; k < PN_REF_AXES; ++k) {
    tn_free(&node[k]);
    tn_free(&share[k]);
  }
  return status;
}

tn_status pn_ref_block_new(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_space *space,
                           const double *without, pn_ref_block *out) {
  *out = (pn_ref_block){.row = row};
  TN_TRY(fill_points(rows->problem, row, space, without, &out->points));
  if (row->scope.mean)
    TN_TRY(fill_mean(space, &out->mean, &out->mean_weight));
  TN_TRY(TN_NEW(row->n_calls + 1, &out->tables));
  TN_TRY(TN_NEW(row->n_calls + 1, &out->jet));
  TN_TRY(TN_NEW(row->n_calls + 1, &out->slope));
  TN_TRY(TN_NEW(out->points.n + 1, &out->value));
  for (size_t k = 0; out->points.n && k < row->n_calls; ++k) {
    const pn_ref_call *c = &row->calls[k];
    pn_ref_points places = {0};
    size_t n = (c->mean ? out->mean.n : out->points.n) + 1;
    tn_status status = pn_ref_places(rows, row, &out->points, &out->mean, out->mean_weight, k, &places);
    if (status == TN_OK)
      status = pn_ref_tables_new(space, c->unknown, c->order, &places, &out->tables[k]);
    pn_ref_points_free(&places);
    TN_TRY(status);
    TN_TRY(TN_NEW(n, &out->jet[k]));
    TN_TRY(TN_NEW(n, &out->slope[k]));
  }
  return TN_OK;
}

void pn_ref_block_free(pn_ref_block *b) {
  for (size_t k = 0; b->row && k < b->row->n_calls; ++k) {
    if (b->tables)
      pn_ref_tables_free(&b->tables[k]);
    if (b->jet)
      tn_free(&b->jet[k]);
    if (b->slope)
      tn_free(&b->slope[k]);
  }
  tn_free(&b->tables);
  tn_free(&b->jet);
  tn_free(&b->slope);
  tn_free(&b->value);
  tn_free(&b->mean_weight);
  pn_ref_points_free(&b->points);
  pn_ref_points_free(&b->mean);
}
