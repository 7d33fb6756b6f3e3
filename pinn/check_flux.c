/* check_flux.c: a source against the flux through the boundary.
 *
 * For a Laplacian with nothing but derivatives given on the whole boundary,
 *
 *   a lap(u) + f = 0,   du/dn = g        has a solution only if        -int f dV = a int g dS
 *
 * (Gauss). Both integrals are taken by Gauss's three-point rule on panels; what is not a formula of the
 * coordinates is left alone. The unknown must not depend on time, where sources may heat up the domain.
 */
#include "pinn/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SOURCES = 64 };

/* coefficient[x] u_(x..x) with `order` axes, plus a sum of sources free of the unknown. */
typedef struct linear {
  const pn_problem *problem;
  size_t unknown, order, n;
  double coefficient[PN_MAX_COORDINATES];
  const pn_expr *source[MOST_SOURCES];
  double factor[MOST_SOURCES];
} linear;

static bool add_terms(linear *s, const pn_expr *e, double factor);

static bool add_derivative(linear *s, const pn_expr *e, double factor) {
  bool mine =
      e->args[0]->kind == PN_UNKNOWN && e->args[0]->index == s->unknown && e->n_axes == s->order;
  for (size_t i = 1; mine && i < e->n_axes; ++i)
    mine = e->axes[i] == e->axes[0];
  if (mine)
    s->coefficient[e->axes[0]] += factor;
  return mine;
}

/* number * e, e * number, e / number */
static bool add_product(linear *s, const pn_expr *e, double factor) {
  size_t with = pn_expr_unknowns(s->problem, e->args[0]) ? 0 : 1;
  double number = 0;
  bool divide = e->kind == PN_DIVIDE;
  if ((divide && with == 1) || pn_expr_unknowns(s->problem, e->args[1 - with]))
    return false;
  if (pn_evaluate(s->problem, e->args[1 - with], NULL, &number) != TN_OK)
    return false;
  return add_terms(s, e->args[with], divide ? factor / number : factor * number);
}

static bool add_terms(linear *s, const pn_expr *e, double factor) {
  if (pn_expr_unknowns(s->problem, e) == 0) {
    if (s->n == MOST_SOURCES)
      return false;
    s->source[s->n] = e;
    s->factor[s->n++] = factor;
    return true;
  }
  switch (e->kind) {
  case PN_ADD:
    return add_terms(s, e->args[0], factor) && add_terms(s, e->args[1], factor);
  case PN_SUBTRACT:
    return add_terms(s, e->args[0], factor) && add_terms(s, e->args[1], -factor);
  case PN_NEGATE:
    return add_terms(s, e->args[0], -factor);
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return add_product(s, e, factor);
  case PN_DERIVATIVE:
    return add_derivative(s, e, factor);
  default:
    return false;
  }
}

static bool read_linear(pn_checking *c, const pn_relation *r, const pn_piece *piece, size_t unknown,
                        size_t order, linear *out) {
  pn_expr *e = NULL;
  *out = (linear){.problem = c->problem, .unknown = unknown, .order = order};
  return r->op == PN_EQUAL && pn_check_difference(c, r, piece, &e) == TN_OK && add_terms(out, e, 1);
}

/* ---- Integrals --------------------------------------------------------------------------------------- */

/* The sum of the sources over the coordinates in `axes`, the others as in point. NaN: no value. */
static double integral(const linear *s, size_t n, const size_t *axes, double *point) {
  static const double node[3] = {-0.77459666924148338, 0, 0.77459666924148338};
  static const double weight[3] = {5.0 / 18, 8.0 / 18, 5.0 / 18};
  if (n == 0) {
    double sum = 0, value = 0;
    for (size_t i = 0; i < s->n; ++i) {
      if (pn_evaluate(s->problem, s->source[i], point, &value) != TN_OK)
        return NAN;
      sum += s->factor[i] * value;
    }
    return sum;
  }
  const pn_coordinate *x = &s->problem->coordinates[axes[0]];
  size_t panels = n >= 3 ? 6 : 16;
  double h = (x->hi - x->lo) / (double)panels, sum = 0;
  for (size_t k = 0; k < panels; ++k)
    for (size_t i = 0; i < 3; ++i) {
      point[axes[0]] = x->lo + h * ((double)k + 0.5 + 0.5 * node[i]);
      sum += weight[i] * h * integral(s, n - 1, axes + 1, point);
    }
  return sum;
}

/* The flux of du/dn through one face, if a condition gives it. */
static bool face_flux(pn_checking *c, size_t unknown, size_t x, int side, size_t n,
                      const size_t *axes, double *flux) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t k = 0; k < p->conditions[i].n_pieces; ++k)
      for (size_t r = 0; r < p->conditions[i].n_relations; ++r) {
        const pn_piece *piece = &p->conditions[i].pieces[k];
        linear s;
        double point[PN_MAX_COORDINATES] = {0};
        size_t others[PN_MAX_COORDINATES], m = 0;
        if (piece->n_fixed != 1 || piece->fixed[0] != x || piece->side[0] != side ||
            piece->filter ||
            !read_linear(c, &p->conditions[i].relations[r], piece, unknown, 1, &s) ||
            s.coefficient[x] == 0)
          continue;
        for (size_t j = 0; j < n; ++j)
          if (axes[j] != x)
            others[m++] = axes[j];
        point[x] = piece->value[0];
        *flux += side * -integral(&s, m, others, point) / s.coefficient[x];
        return isfinite(*flux);
      }
  return false;
}

/* ---- The check ---------------------------------------------------------------------------------------- */

/* Space coordinates of an unknown; 0 if it depends on anything else, or on too many. */
static size_t space_of(const pn_problem *p, size_t unknown, size_t *axes) {
  const pn_unknown *u = &p->unknowns[unknown];
  for (size_t j = 0; j < u->n_of; ++j) {
    if (p->coordinates[u->of[j]].role != PN_SPACE || u->n_of > 3)
      return 0;
    axes[j] = u->of[j];
  }
  return u->n_of;
}

/* Is u given somewhere by its value, or periodic? Then there is nothing to balance. */
static bool has_value(pn_checking *c, size_t unknown) {
  const pn_problem *p = c->problem;
  bool free_value = false;
  int order[PN_MAX_COORDINATES] = {0};
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations; ++r) {
      const pn_term *t = &p->conditions[i];
      pn_expr *e = NULL;
      if (t->where == PN_INTEGRAL)
        continue; /* a mean picks one of the solutions, if there are any */
      if (pn_check_difference(c, &t->relations[r], t->n_pieces ? &t->pieces[0] : NULL, &e) == TN_OK)
        pn_check_orders(p, e, unknown, order, &free_value);
    }
  return free_value;
}

static tn_status check_equation(pn_checking *c, const pn_term *term, size_t unknown) {
  const pn_problem *p = c->problem;
  const pn_relation *r = &term->relations[0];
  size_t axes[PN_MAX_COORDINATES], n = space_of(p, unknown, axes);
  double point[PN_MAX_COORDINATES] = {0}, flux = 0;
  linear s;
  if (n == 0 || term->n_relations != 1 || term->pieces[0].filter ||
      !read_linear(c, r, NULL, unknown, 2, &s) || has_value(c, unknown))
    return TN_OK;
  double a = s.coefficient[axes[0]];
  for (size_t j = 0; j < n; ++j)
    if (s.coefficient[axes[j]] != a || a == 0)
      return TN_OK;
  if (p->box)
    return pn_check_outflow(c, term, unknown, a);
  for (size_t j = 0; j < n; ++j)
    for (int side = -1; side <= 1 && !p->coordinates[axes[j]].periodic; side += 2)
      if (!face_flux(c, unknown, axes[j], side, n, axes, &flux))
        return TN_OK;
  double source = -integral(&s, n, axes, point);
  flux *= a;
  if (!isfinite(source) || fabs(source - flux) <= 1e-6 * fmax(fabs(source), fmax(fabs(flux), 1e-6)))
    return TN_OK;
  char numbers[2][48];
  snprintf(numbers[0], sizeof numbers[0], "%.6g", fabs(source) < 1e-12 ? 0 : source);
  snprintf(numbers[1], sizeof numbers[1], "%.6g", fabs(flux) < 1e-12 ? 0 : flux);
  return pn_found(
      c, PN_FOUND_ERROR, term->name, pn_expr_place(r->whole), r->whole->length,
      "no solution: only derivatives of `%s` are given on the whole boundary, but the source of "
      "`%s` integrates to %s (flux %s). Change one, or give %s a value somewhere",
      p->unknowns[unknown].name, term->name, numbers[0], numbers[1], p->unknowns[unknown].name);
}

tn_status pn_check_flux(pn_checking *c) {
  const pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t u = 0; u < p->n_unknowns && u < 64; ++u)
      if (pn_expr_unknowns(p, p->equations[i].relations[0].whole) == UINT64_C(1) << u)
        TN_TRY(check_equation(c, &p->equations[i], u));
  return TN_OK;
}
