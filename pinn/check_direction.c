/* check_direction.c: does the time run the way in which the equation can be solved?
 *
 * For R(u) = 0 with c u_t in it, a ripple of wave number k on any field grows or fades like exp(s t); with one
 * time derivative and with two
 *
 *   s = -Re L(ik) / c,      s^2 = -Re L(ik) / c,      L(ik) = sum_m c_m (ik)^m
 *
 * where c_m is the coefficient of the m-th derivative along x. Short ripples that grow without bound, s ~ +k^m with
 * m >= 2, mean that no solution depends on its data (Hadamard): u_t = -u_xx from a start, u_t = u_xx from an end,
 * u_tt = -u_xx from either. A sign that slips, or conditions at the wrong end, do that, and no exact solution is
 * needed to see it.
 *
 * L is measured, not read off: R is evaluated in f64 with u + e cos(k x) and u + e sin(k x) for u; then
 *
 *   e Re L = (dR_cos cos + dR_sin sin),   e Im L = (dR_sin cos - dR_cos sin)
 *
 * at every point, so that any way of writing a derivative serves. k is some thousand times over the range, e is 1e-7
 * of u; a growth that is to count rises by 3 at least from k to 2k and has one sign at all points.
 */
#include "pinn/check.h"

#include <math.h>
#include <string.h>

enum { POINTS = PN_REPAIR_POINTS };
static const double ripple = 1e-7; /* of the field */
static const double waves = 2000;  /* k times the range */

/* One relation of one equation, and the unknown whose ripples are looked at. */
typedef struct look {
  pn_checking *c;
  const pn_relation *relation;
  const pn_site *site;
  pn_scope *scope;
  size_t unknown, n;
  pn_expr *field; /* of the unknown, without a ripple */
  double before[POINTS];
} look;

/* ---- The symbol ---------------------------------------------------------------------------------------- */

/* field + ripple * f(k (x - lo)) */
static tn_status with_ripple(const look *s, pn_function f, size_t x, double k, pn_expr **out) {
  pn_problem *p = s->c->problem;
  pn_expr *axis = NULL, *number = NULL, *shift = NULL, *size = NULL;
  TN_TRY(pn_expr_make(p->arena, PN_COORDINATE, NULL, 0, NULL, &axis));
  axis->index = x;
  axis->name = p->coordinates[x].name;
  TN_TRY(pn_expr_number(p->arena, k, NULL, &number));
  TN_TRY(pn_expr_number(p->arena, p->coordinates[x].lo, NULL, &shift));
  TN_TRY(pn_expr_make(p->arena, PN_SUBTRACT, NULL, 2, (pn_expr *[]){axis, shift}, &axis));
  TN_TRY(pn_expr_make(p->arena, PN_MULTIPLY, NULL, 2, (pn_expr *[]){number, axis}, &axis));
  TN_TRY(pn_expr_make(p->arena, PN_FUNCTION, NULL, 1, (pn_expr *[]){axis}, &axis));
  axis->index = f;
  axis->name = pn_function_name(f);
  TN_TRY(pn_expr_number(p->arena, ripple, NULL, &size));
  TN_TRY(pn_expr_make(p->arena, PN_MULTIPLY, NULL, 2, (pn_expr *[]){size, axis}, &axis));
  return pn_expr_make(p->arena, PN_ADD, NULL, 2, (pn_expr *[]){s->field, axis}, out);
}

static tn_status evaluate(const look *s, pn_expr *field, double *out) {
  tn_value value = {0};
  s->c->problem->unknowns[s->unknown].exact = field;
  TN_TRY(pn_lower_relation(s->scope, s->relation, &value));
  return pn_check_evaluate(s->c, s->scope, s->site, s->n, 1, &value, out, NULL, NULL);
}

/* Re L and Im L at every point for wave number k along x. */
static tn_status symbol(const look *s, size_t x, double k, double *re, double *im) {
  double change[2][POINTS];
  const pn_coordinate *axis = &s->c->problem->coordinates[x];
  for (int i = 0; i < 2; ++i) {
    pn_expr *field = NULL;
    TN_TRY(with_ripple(s, i ? PN_FN_sin : PN_FN_cos, x, k, &field));
    TN_TRY(evaluate(s, field, change[i]));
  }
  for (size_t i = 0; i < s->n; ++i) {
    double at = k * (s->site->column[x][i] - axis->lo);
    double a = (change[0][i] - s->before[i]) / ripple, b = (change[1][i] - s->before[i]) / ripple;
    re[i] = a * cos(at) + b * sin(at);
    im[i] = b * cos(at) - a * sin(at);
  }
  return TN_OK;
}

/* The coefficient of the derivative of order 1 or 2 along the time; false: there is none, or it changes sign. */
static tn_status time_coefficient(const look *s, size_t t, int order, double *c, bool *clear) {
  double re[POINTS], im[POINTS];
  double k = waves / (s->c->problem->coordinates[t].hi - s->c->problem->coordinates[t].lo);
  TN_TRY(symbol(s, t, k, re, im));
  *clear = true;
  for (size_t i = 0; i < s->n; ++i) {
    c[i] = order == 1 ? im[i] / k : -re[i] / (k * k);
    *clear = *clear && isfinite(c[i]) && c[i] != 0 && c[i] * c[0] > 0;
  }
  return TN_OK;
}

/* 1: short ripples along x grow without bound as the time runs forward; -1: as it runs back; 0: neither, or it
 * depends on the place. */
static tn_status growth(const look *s, size_t x, const double *c, int *out) {
  double slow[POINTS], fast[POINTS], im[POINTS];
  double k = waves / (s->c->problem->coordinates[x].hi - s->c->problem->coordinates[x].lo);
  TN_TRY(symbol(s, x, k, slow, im));
  TN_TRY(symbol(s, x, 2 * k, fast, im));
  int sign = 0;
  *out = 0;
  for (size_t i = 0; i < s->n; ++i) {
    double a = -slow[i] / c[i], b = -fast[i] / c[i];
    int now = a > 0 ? 1 : -1;
    if (!isfinite(b) || fabs(a) < 1e-6 || b / a < 3 || (i > 0 && now != sign))
      return TN_OK;
    sign = now;
  }
  *out = sign;
  return TN_OK;
}

/* ---- Where the conditions stand ------------------------------------------------------------------------- */

/* -1: at the start of the time only, 1: at its end only, 0: neither, both, or measured inside. */
static int end_of_conditions(const pn_problem *p, size_t unknown, size_t t) {
  bool lo = false, hi = false;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    const pn_term *term = &p->conditions[i];
    for (size_t r = 0; r < term->n_relations; ++r) {
      if (!(pn_expr_unknowns(p, term->relations[r].whole) >> unknown & 1u))
        continue;
      if (term->where != PN_ON && term->where != PN_INTEGRAL)
        return 0;
      for (size_t k = 0; k < term->n_pieces; ++k)
        for (size_t j = 0; j < term->pieces[k].n_fixed; ++j)
          if (term->pieces[k].fixed[j] == t) {
            lo |= term->pieces[k].side[j] < 0;
            hi |= term->pieces[k].side[j] > 0;
          }
    }
  }
  return lo == hi ? 0 : lo ? -1 : 1;
}

static tn_status warn(const look *s, size_t t, size_t x, int end) {
  const pn_problem *p = s->c->problem;
  const pn_expr *whole = s->relation->whole;
  return pn_found(s->c, PN_FOUND_WARNING, p->unknowns[s->unknown].name, pn_expr_place(whole),
                  whole->length,
                  "`%s` cannot be solved from conditions at the %s of `%s`: short waves of `%s` along `%s` "
                  "grow without bound from there. A sign is wrong, or the conditions stand at the wrong end",
                  p->unknowns[s->unknown].name, end < 0 ? "start" : "end", p->coordinates[t].name,
                  p->unknowns[s->unknown].name, p->coordinates[x].name);
}

static tn_status look_at(look *s, size_t t, int order, int end, uint32_t spaces) {
  double c[POINTS];
  bool clear = false;
  TN_TRY(evaluate(s, s->field, s->before));
  TN_TRY(time_coefficient(s, t, order, c, &clear));
  for (size_t x = 0; clear && x < s->c->problem->n_coordinates; ++x) {
    int sign = 0;
    if (!(spaces >> x & 1u))
      continue;
    TN_TRY(growth(s, x, c, &sign));
    /* of order 2, s^2 > 0 means that one of the two waves grows either way */
    if (order == 2 ? sign > 0 : sign * end < 0)
      return warn(s, t, x, end);
  }
  return TN_OK;
}

/* ---- Every relation ----------------------------------------------------------------------------------------- */

/* A positive smooth field in place of every solution that is a table, slow, or not known. */
static tn_status fields(pn_checking *c, pn_expr **field) {
  pn_problem *p = c->problem;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    pn_expr *wave = NULL, *one = NULL;
    field[u] = p->unknowns[u].exact;
    if (field[u] && !pn_check_is_slow(p) && !pn_check_has(p, field[u], PN_TABLE))
      continue;
    TN_TRY(pn_check_wave(c, u, 0.2, &wave));
    TN_TRY(pn_expr_number(p->arena, 1, NULL, &one));
    TN_TRY(pn_expr_make(p->arena, PN_ADD, NULL, 2, (pn_expr *[]){one, wave}, &field[u]));
  }
  return TN_OK;
}

/* Orders of unknown u in a relation; *spaces: space coordinates along which it is of order 2 or more. */
static tn_status orders(pn_checking *c, const pn_relation *r, size_t u, size_t *t, int *order,
                        uint32_t *spaces) {
  const pn_problem *p = c->problem;
  int of[PN_MAX_COORDINATES];
  bool free_value = false;
  pn_expr *e = NULL;
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    of[x] = -1;
  TN_TRY(pn_check_difference(c, r, NULL, &e));
  pn_check_orders(p, e, u, of, &free_value);
  *order = 0;
  *spaces = 0;
  for (size_t x = 0; x < p->n_coordinates; ++x) {
    if (p->coordinates[x].role == PN_TIME && of[x] > 0) {
      *t = x;
      *order = of[x];
    }
    if (p->coordinates[x].role == PN_SPACE && of[x] > 1 && !pn_moves(&p->coordinates[x]))
      *spaces |= UINT32_C(1) << x;
  }
  return TN_OK;
}

static tn_status check_relation(pn_checking *c, const pn_term_sites *at, const pn_relation *r,
                                size_t u, pn_expr *field) {
  look s = {.c = c, .relation = r, .site = &c->sites->sites[at->site[0]], .unknown = u, .field = field};
  size_t t = 0;
  int order = 0;
  uint32_t spaces = 0;
  if (r->op != PN_EQUAL || !(pn_expr_unknowns(c->problem, r->whole) >> u & 1u))
    return TN_OK;
  TN_TRY(orders(c, r, u, &t, &order, &spaces));
  int end = order == 1 || order == 2 ? end_of_conditions(c->problem, u, t) : 0;
  if (end == 0 || spaces == 0 || s.site->n < 2)
    return TN_OK;
  s.n = s.site->n < POINTS ? s.site->n : POINTS;
  TN_TRY(pn_check_scope(c, at->site[0], &s.scope));
  tn_status status = look_at(&s, t, order, end, spaces);
  if (status == TN_OK || status == TN_ENOMEM)
    return status;
  tn_graph_clear_error(c->model->graph); /* a table and the like: not known */
  return TN_OK;
}

static tn_status check_all(pn_checking *c, pn_expr **field) {
  pn_problem *p = c->problem;
  for (size_t m = 0; m < c->sites->n_terms; ++m) {
    const pn_term_sites *at = &c->sites->terms[m];
    for (size_t r = 0; !at->term->is_condition && r < at->term->n_relations; ++r)
      for (size_t u = 0; u < p->n_unknowns && u < 64; ++u) {
        for (size_t v = 0; v < p->n_unknowns; ++v)
          p->unknowns[v].exact = field[v];
        TN_TRY(check_relation(c, at, &at->term->relations[r], u, field[u]));
      }
  }
  return TN_OK;
}

tn_status pn_check_direction(pn_checking *c) {
  pn_problem *p = c->problem;
  pn_expr **field = NULL, **kept = NULL;
  TN_TRY(TN_NEW(p->n_unknowns, &field));
  tn_status status = TN_NEW(p->n_unknowns, &kept);
  if (status == TN_OK) {
    for (size_t u = 0; u < p->n_unknowns; ++u)
      kept[u] = p->unknowns[u].exact;
    status = fields(c, field);
    if (status == TN_OK)
      status = check_all(c, field);
    for (size_t u = 0; u < p->n_unknowns; ++u)
      p->unknowns[u].exact = kept[u];
  }
  tn_free(&field);
  tn_free(&kept);
  return status;
}
