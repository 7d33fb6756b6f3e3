/* scalar_metric.c: grad, div, lap, curl and dn in polar, axisymmetric and spherical coordinates.
 *
 * With h_i the length of a unit of coordinate i and J their product, in components along the unit vectors:
 *
 *   grad f   f_i / h_i
 *   div a    sum_i a_i,i / h_i + a_i c_i           c_i = (J / h_i)_i / J
 *   lap f    sum_i f_ii / h_i^2 + f_i d_i          d_i = (J / h_i^2)_i / J
 *   curl a   a_j,i / h_i + a_j g_ij - a_i,j / h_j - a_i g_ji for k, i, j in cyclic order,  g_ij = (h_j)_i / (h_i h_j)
 *
 *   polar         r, theta        h = 1, r                 c_r = d_r = g_r,theta = 1/r
 *   axisymmetric  r, z            h = 1, 1                 c_r = d_r = 1/r (h = r around the axis, where nothing varies)
 *   spherical     r, theta, phi   h = 1, r, r sin(theta)   c_r = d_r = 2/r, c_theta = cot(theta)/r, d_theta = cot(theta)/r^2,
 *                                 g_r,theta = g_r,phi = 1/r, g_theta,phi = cot(theta)/r
 *
 * Coordinates may end early: what is left out does not matter to the solution (r alone: radial symmetry). The
 * curl in two dimensions is the component out of the plane: along z in polar coordinates, along phi (a_r,z -
 * a_z,r) in axisymmetric ones.
 */
#include "pinn/scalar.h"

/* number * cos(theta)^cosine / (r^r sin(theta)^sine) */
typedef struct factor {
  double number;
  int r, sine, cosine;
} factor;

static const factor one = {1, 0, 0, 0}, none = {0, 0, 0, 0};

/* 1 / h_i */
static factor over_length(pn_metric metric, size_t i) {
  if (i == 0 || metric == PN_AXISYMMETRIC)
    return one;
  return (factor){1, 1, i == 2, 0};
}

/* c_i; times 1/h_i: d_i */
static factor spread(pn_metric metric, size_t i) {
  if (i == 0)
    return (factor){metric == PN_SPHERICAL ? 2 : 1, 1, 0, 0};
  return metric == PN_SPHERICAL && i == 1 ? (factor){1, 1, 1, 1} : none;
}

/* g_ij */
static factor turn(pn_metric metric, size_t i, size_t j) {
  if (metric == PN_AXISYMMETRIC || i >= j)
    return none;
  return i == 0 ? (factor){1, 1, 0, 0} : (factor){1, 1, 1, 1};
}

static factor times(factor a, factor b) {
  return (factor){a.number * b.number, a.r + b.r, a.sine + b.sine, a.cosine + b.cosine};
}

/* ---- Trees --------------------------------------------------------------------------------------- */

static tn_status coordinate(pn_writing *w, const pn_expr *like, size_t position, pn_expr **out) {
  TN_TRY(pn_writing_make(w, PN_COORDINATE, like, 0, NULL, out));
  (*out)->index = w->space[position];
  (*out)->name = w->problem->coordinates[w->space[position]].name;
  return TN_OK;
}

static tn_status join(pn_writing *w, pn_kind kind, const pn_expr *like, pn_expr *a, pn_expr *b,
                      pn_expr **out) {
  return pn_writing_make(w, kind, like, 2, (pn_expr *[]){a, b}, out);
}

/* *inout times or over base^n. */
static tn_status by_power(pn_writing *w, pn_kind kind, const pn_expr *like, pn_expr *base, int n,
                          pn_expr **inout) {
  pn_expr *exponent = NULL;
  if (n == 0)
    return TN_OK;
  if (n > 1) {
    TN_TRY(pn_expr_number(w->problem->arena, n, like, &exponent));
    TN_TRY(join(w, PN_POWER, like, base, exponent, &base));
  }
  return join(w, kind, like, *inout, base, inout);
}

static tn_status wave(pn_writing *w, const pn_expr *like, pn_function f, pn_expr **out) {
  pn_expr *theta = NULL;
  TN_TRY(coordinate(w, like, 1, &theta));
  TN_TRY(pn_writing_make(w, PN_FUNCTION, like, 1, &theta, out));
  (*out)->index = f;
  (*out)->name = pn_function_name(f);
  return TN_OK;
}

static tn_status apply(pn_writing *w, const pn_expr *like, factor by, pn_expr **inout) {
  pn_expr *part = NULL;
  if (by.number != 1) {
    TN_TRY(pn_expr_number(w->problem->arena, by.number, like, &part));
    TN_TRY(join(w, PN_MULTIPLY, like, part, *inout, inout));
  }
  if (by.cosine) {
    TN_TRY(wave(w, like, PN_FN_cos, &part));
    TN_TRY(by_power(w, PN_MULTIPLY, like, part, by.cosine, inout));
  }
  if (by.r) {
    TN_TRY(coordinate(w, like, 0, &part));
    TN_TRY(by_power(w, PN_DIVIDE, like, part, by.r, inout));
  }
  if (by.sine) {
    TN_TRY(wave(w, like, PN_FN_sin, &part));
    TN_TRY(by_power(w, PN_DIVIDE, like, part, by.sine, inout));
  }
  return TN_OK;
}

/* *sum += sign * factor * the derivative of component k of e along space coordinate i. */
static tn_status add(pn_writing *w, const pn_expr *like, const pn_expr *e, size_t k, size_t i,
                     size_t order, factor by, int sign, pn_expr **sum) {
  pn_expr *term = NULL;
  if (by.number == 0)
    return TN_OK;
  TN_TRY(pn_writing_derivative(w, like, e, k, w->space[i], order, &term));
  TN_TRY(apply(w, like, by, &term));
  if (*sum)
    return join(w, sign < 0 ? PN_SUBTRACT : PN_ADD, like, *sum, term, sum);
  *sum = term;
  return sign < 0 ? pn_writing_make(w, PN_NEGATE, like, 1, &term, sum) : TN_OK;
}

/* ---- Operators ----------------------------------------------------------------------------------- */

tn_status pn_metric_over_length(pn_writing *w, const pn_expr *e, size_t axis, pn_expr **inout) {
  size_t i = 0;
  while (i < w->n_space && w->space[i] != axis)
    ++i;
  return apply(w, e, over_length(w->problem->metric, i), inout);
}

tn_status pn_metric_divergence(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pn_metric m = w->problem->metric;
  *out = NULL;
  for (size_t i = 0; i < w->n_space; ++i) {
    TN_TRY(add(w, e, e->args[0], i, i, 1, over_length(m, i), 1, out));
    TN_TRY(add(w, e, e->args[0], i, i, 0, spread(m, i), 1, out));
  }
  return TN_OK;
}

tn_status pn_metric_laplace(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pn_metric m = w->problem->metric;
  *out = NULL;
  if (e->components > 1)
    return pn_expr_fail(TN_EINPUT, e,
                        "lap of a vector: in this metric the unit vectors turn, so it is not the lap "
                        "of each component. Write the components out");
  for (size_t i = 0; i < w->n_space; ++i) {
    factor length = over_length(m, i);
    TN_TRY(add(w, e, e->args[0], 0, i, 2, times(length, length), 1, out));
    TN_TRY(add(w, e, e->args[0], 0, i, 1, times(spread(m, i), length), 1, out));
  }
  return TN_OK;
}

tn_status pn_metric_curl(pn_writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  pn_metric m = w->problem->metric;
  size_t i = w->n_space == 2 ? 0 : (k + 1) % 3, j = w->n_space == 2 ? 1 : (k + 2) % 3;
  int sign = m == PN_AXISYMMETRIC ? -1 : 1; /* r, phi, z is right-handed */
  *out = NULL;
  TN_TRY(add(w, e, e->args[0], j, i, 1, over_length(m, i), sign, out));
  TN_TRY(add(w, e, e->args[0], j, i, 0, turn(m, i, j), sign, out));
  TN_TRY(add(w, e, e->args[0], i, j, 1, over_length(m, j), -sign, out));
  return add(w, e, e->args[0], i, j, 0, turn(m, j, i), -sign, out);
}
