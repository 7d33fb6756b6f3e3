/* integral.c: int(...): its three forms as one kind of node, and the rule that stands for it.
 *
 *   int(e, s, a, b)   over a variable of its own, or a coordinate, from a to b
 *   int(e, x, y)      over the whole ranges of coordinates: int(int(e, x), y)
 *   int(e, A)         over a region: its measure times mean(e, A)
 *
 * The first two are sums over the nodes of Gauss and Legendre,
 *
 *   int_a^b e(s) ds = (b - a) sum_k w_k e(a + (b - a) c_k) + R
 *
 * with R of the size r^(-2n) for an integrand that is analytic in an ellipse of half-axes summing to r
 * around the range: rounding error for 32 nodes and what varies as a trained network does. The nodes are
 * written out, so that limits and kernels may depend on the point, and every derivative, also by a limit,
 * is the derivative of the sum. An integral in an integral multiplies the evaluations: fewer nodes each.
 */
#include "pinn/integral.h"

#include <math.h>
#include <string.h>

#include "pinn/region.h"
#include "pinn/resolve.h"
#include "pinn/sobol.h"

/* ---- Rules ------------------------------------------------------------------------------------- */

/* P_n and its derivative at x by the three-term recurrence. */
static long double legendre(size_t n, long double x, long double *slope) {
  long double before = 1, now = x;
  for (size_t k = 2; k <= n; ++k) {
    long double next = ((long double)(2 * k - 1) * x * now - (long double)(k - 1) * before) / k;
    before = now;
    now = next;
  }
  *slope = (long double)n * (x * now - before) / (x * x - 1);
  return now;
}

/* Newton's method from cos(pi (k - 1/4) / (n + 1/2)), which lies within O(1/n^2) of the k-th root; it
 * doubles the digits, so eight steps reach rounding. */
void pn_rule_of(size_t n, pn_rule *out) {
  out->n = n;
  for (size_t k = 0; k < n; ++k) {
    long double slope = 1;
    long double x = cosl(3.14159265358979323846264338327950288L * ((long double)k + 0.75L) /
                         ((long double)n + 0.5L));
    if (2 * k + 1 == n)
      x = 0;
    for (int step = 0; step < 8; ++step) {
      long double value = n == 1 ? x : legendre(n, x, &slope);
      x -= value / slope;
    }
    if (n > 1)
      (void)legendre(n, x, &slope);
    out->node[n - 1 - k] = (double)((1 + x) / 2);
    out->weight[n - 1 - k] = (double)(n == 1 ? 1 : 1 / ((1 - x * x) * slope * slope));
  }
}

size_t pn_integral_nodes(size_t nest) { return nest <= 1 ? PN_RULE_MOST : nest == 2 ? 12 : 8; }

size_t pn_integrals_in(const pn_problem *problem, const pn_expr *e) {
  size_t most = 0;
  if (e->kind == PN_DEFINITION)
    return problem->definitions[e->index].integrals;
  for (size_t i = 0; i < e->n; ++i) {
    size_t here = pn_integrals_in(problem, e->args[i]);
    if (e->kind == PN_INTEGRAL_OF && i == 0)
      ++here;
    most = here > most ? here : most;
  }
  return most;
}

static bool is_end(const pn_expr *e, const pn_expr *bound, const char *end) {
  size_t n = strlen(e->name);
  return bound->kind == PN_BOUND && bound->index == e->axes[0] && bound->name &&
         strlen(bound->name) == n + 4 && strcmp(bound->name + n + 1, end) == 0;
}

bool pn_integral_is_whole(const pn_expr *e) {
  return e->n_axes == 1 && is_end(e, e->args[1], "min") && is_end(e, e->args[2], "max");
}

/* ---- Resolving --------------------------------------------------------------------------------- */

static bool is_coordinate(const pn_naming *s, const pn_expr *e, size_t *index) {
  return e->kind == PN_NAME && pn_lookup(s->problem, e->name, index) == PN_IS_COORDINATE;
}

/* A name that means something already would change its meaning inside. */
static tn_status check_variable(const pn_naming *s, const pn_expr *e) {
  static const char *const reserved[] = {"pi",  "box", "domain", "boundary", "net",
                                         "and", "or",  "not",    "normal",   "i"};
  size_t index = 0;
  pn_reading readings[PN_MAX_READINGS];
  if (e->kind != PN_NAME)
    return pn_expr_fail(TN_EINPUT, e,
                        "the variable of an integral is a name, as in int(e, s, 0, x)");
  pn_sort sort = pn_lookup(s->problem, e->name, &index);
  if (sort != PN_IS_NOTHING)
    return pn_expr_fail(TN_EINPUT, e,
                        "`%s` is %s: give the variable of the integral a name of its own, or that "
                        "of a coordinate",
                        e->name, pn_sort_text(sort));
  for (const pn_variable *v = s->variable; v; v = v->outer)
    if (strcmp(v->name, e->name) == 0)
      return pn_expr_fail(TN_EINPUT, e, "`%s` is the variable of the integral around this one: "
                                        "give this one another name",
                          e->name);
  for (size_t i = 0; i < s->n_formals; ++i)
    if (strcmp(s->formals[i], e->name) == 0)
      return pn_expr_fail(TN_EINPUT, e,
                          "`%s` is an argument of this function: give the variable of the integral "
                          "another name",
                          e->name);
  for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; ++i)
    if (strcmp(e->name, reserved[i]) == 0)
      return pn_expr_fail(TN_EINPUT, e, "`%s` is reserved and cannot be a variable", e->name);
  if (pn_readings(s->problem, e->name, s->net, readings) > 0)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is a derivative and cannot be a variable", e->name);
  return TN_OK;
}

/* The part of the range that an integral with constant limits covers, if it stands in its own text. */
static tn_status check_limits(const pn_naming *s, const pn_expr *e, bool *known, double limit[2]) {
  *known = false;
  for (size_t i = 0; i < 2; ++i) {
    if (e->args[1 + i]->components != 1)
      return pn_expr_fail(TN_EINPUT, e->args[1 + i], "a limit is a scalar");
    if (!pn_is_constant(e->args[1 + i]))
      return TN_OK;
    TN_TRY(pn_evaluate(s->problem, e->args[1 + i], NULL, &limit[i]));
  }
  *known = true;
  if (limit[0] < limit[1])
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e,
                      limit[0] == limit[1]
                          ? "the integral goes from %g to %g and is 0"
                          : "the integral goes from %g down to %g: write the lower limit first, with "
                            "a minus sign before int if that is meant",
                      limit[0], limit[1]);
}

/* Unknowns have values inside the ranges of their coordinates only. */
static tn_status check_reach(const pn_naming *s, const pn_expr *e, const pn_expr *inside,
                             const double limit[2]) {
  const pn_problem *p = s->problem;
  for (size_t i = 0; inside->kind == PN_AT && i < inside->n_axes; ++i) {
    const pn_expr *value = inside->args[1 + i];
    const pn_coordinate *c = &p->coordinates[inside->axes[i]];
    double slack = 1e-9 * (c->hi - c->lo);
    bool here = value->kind == PN_DUMMY && value->index == e->index && !e->n_axes;
    if (!here || c->periodic || pn_moves(c) || !(c->lo < c->hi) || !pn_expr_unknowns(p, inside->args[0]) ||
        (limit[0] >= c->lo - slack && limit[1] <= c->hi + slack))
      continue;
    return pn_expr_fail(TN_EINPUT, e,
                        "the integral over `%s` goes from %g to %g, but %s lies in [%g, %g] where it "
                        "stands for %s",
                        e->name, limit[0], limit[1], c->name, c->lo, c->hi, c->name);
  }
  for (size_t i = 0; i < inside->n; ++i)
    TN_TRY(check_reach(s, e, inside->args[i], limit));
  return TN_OK;
}

static tn_status check_range(const pn_naming *s, const pn_expr *e, const double limit[2]) {
  const pn_problem *p = s->problem;
  if (!e->n_axes)
    return check_reach(s, e, e->args[0], limit);
  const pn_coordinate *c = &p->coordinates[e->axes[0]];
  double slack = 1e-9 * (c->hi - c->lo);
  if (c->periodic || pn_moves(c) || !(c->lo < c->hi) || !pn_expr_unknowns(p, e->args[0]) ||
      (limit[0] >= c->lo - slack && limit[1] <= c->hi + slack))
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e, "the integral goes from %g to %g, outside the domain, %s in [%g, %g]",
                      limit[0], limit[1], c->name, c->lo, c->hi);
}

/* e with args {integrand, from, to}, the limits resolved; variable: args[0]'s new name or NULL. */
static tn_status finish(pn_naming *s, pn_expr *e, const pn_expr *variable, bool is_axis, size_t axis) {
  double limit[2] = {0, 0};
  bool known = false;
  if (s->integrals == PN_MOST_INTEGRALS)
    return pn_expr_fail(TN_EINPUT, e,
                        "more than %d integrals inside each other: too many evaluations. Average "
                        "with mean(e, domain), or make an inner one an unknown of its own",
                        PN_MOST_INTEGRALS);
  pn_naming inner = *s;
  pn_variable own = {variable->name, s->integrals, s->variable};
  ++inner.integrals;
  if (is_axis)
    inner.over |= UINT32_C(1) << axis;
  else
    inner.variable = &own;
  TN_TRY(pn_resolve(&inner, e->args[0]));
  e->kind = PN_INTEGRAL_OF;
  e->name = variable->name;
  e->index = s->integrals;
  e->number = 0;
  e->n = 3;
  if (is_axis) {
    TN_TRY(PN_TAKE(s->problem->arena, 1, &e->axes));
    e->axes[0] = axis;
    e->n_axes = 1;
  }
  if (s->integrals + pn_integrals_in(s->problem, e) > PN_MOST_INTEGRALS)
    return pn_expr_fail(TN_EINPUT, e, "more than %d integrals inside each other", PN_MOST_INTEGRALS);
  bool constant = pn_expr_unknowns(s->problem, e->args[0]) == 0;
  if (is_axis && !constant && !(pn_expr_depends(s->problem, e->args[0]) >> axis & 1u))
    return pn_expr_fail(TN_EINPUT, e,
                        "what is integrated over %s does not depend on it: write it times the length",
                        variable->name);
  TN_TRY(check_limits(s, e, &known, limit));
  if (known)
    TN_TRY(check_range(s, e, limit));
  return pn_set_components(s->problem, e);
}

static tn_status end_of(pn_naming *s, const pn_expr *name, size_t which, pn_expr **out) {
  TN_TRY(pn_expr_make(s->problem->arena, PN_END, name, 0, NULL, out));
  (*out)->name = name->name;
  (*out)->index = which;
  return pn_resolve(s, *out);
}

/* int(e, x, y): the last one outermost. */
static tn_status whole_ranges(pn_naming *s, pn_expr *e) {
  size_t axis = 0;
  const pn_expr *name = e->args[e->n - 1];
  pn_expr *limits[2] = {NULL, NULL};
  if (!is_coordinate(s, name, &axis))
    return name->kind == PN_NAME ? pn_no_coordinate(s->problem, name, name->name, NULL, name->name)
                                 : pn_expr_fail(TN_EINPUT, name, "int(e, x, y) goes by coordinates");
  for (size_t i = 1; i + 1 < e->n; ++i)
    if (e->args[i]->kind == PN_NAME && strcmp(e->args[i]->name, name->name) == 0)
      return pn_expr_fail(TN_EINPUT, e->args[i], "`%s` is given twice", name->name);
  if (s->problem->region && s->problem->coordinates[axis].role == PN_SPACE)
    return pn_expr_fail(TN_EINPUT, e,
                        "the domain is a part of the box, and the range of %s leaves it: write int(e, domain), "
                        "or int(e, %s, a, b) along a line inside",
                        name->name, name->name);
  TN_TRY(end_of(s, name, 0, &limits[0]));
  TN_TRY(end_of(s, name, 1, &limits[1]));
  pn_expr *inside = e->args[0];
  if (e->n > 2) { /* int(e, x), unresolved, inside */
    TN_TRY(pn_expr_make(s->problem->arena, PN_CALL, e, e->n - 1, e->args, &inside));
    inside->name = e->name;
  }
  pn_expr **args = NULL;
  TN_TRY(PN_TAKE(s->problem->arena, 3, &args));
  args[0] = inside;
  args[1] = limits[0];
  args[2] = limits[1];
  e->args = args;
  return finish(s, e, name, true, axis);
}

/* int(e, s, a, b); the limits belong to what is around. */
static tn_status with_limits(pn_naming *s, pn_expr *e) {
  size_t axis = 0;
  pn_expr *variable = e->args[1], **args = NULL;
  bool is_axis = is_coordinate(s, variable, &axis);
  if (is_axis && !s->coordinates)
    return pn_not_here(s, variable, "a coordinate");
  if (!is_axis)
    TN_TRY(check_variable(s, variable));
  TN_TRY(PN_TAKE(s->problem->arena, 3, &args));
  args[0] = e->args[0];
  args[1] = e->args[2];
  args[2] = e->args[3];
  TN_TRY(pn_resolve(s, args[1]));
  TN_TRY(pn_resolve(s, args[2]));
  e->args = args;
  return finish(s, e, variable, is_axis, axis);
}

tn_status pn_check_still(const pn_naming *s, const pn_expr *e) {
  uint32_t along = 0;
  for (size_t i = 0; i < e->n; ++i)
    along |= pn_expr_depends(s->problem, e->args[i]);
  for (size_t c = 0; c < s->problem->n_coordinates; ++c)
    if ((along >> c & 1u) && pn_moves(&s->problem->coordinates[c]))
      return pn_expr_fail(TN_EINPUT, e,
                          "the ends of %s move, so there is no average over all of it: write int(e, %s), "
                          "over what is its range at each time",
                          s->problem->coordinates[c].name, s->problem->coordinates[c].name);
  return TN_OK;
}

/* The share of the domain in which a predicate holds. Sobol points are even along each coordinate, so that a part
 * cut off across one is right to 1e-4. */
static tn_status share_of(pn_problem *p, const pn_expr *predicate, double *out) {
  enum { SAMPLES = 1 << 16 };
  size_t d = p->n_coordinates, held = 0, all = 0;
  double *u = NULL, point[PN_MAX_COORDINATES];
  TN_TRY(TN_NEW(SAMPLES * d, &u));
  tn_status status = pn_sobol(d, tn_stream_of(0, "measure"), 0, SAMPLES, u);
  for (size_t i = 0; status == TN_OK && i < SAMPLES; ++i) {
    bool holds = false;
    for (size_t c = 0; c < d; ++c)
      point[c] = p->coordinates[c].lo + (p->coordinates[c].hi - p->coordinates[c].lo) * u[i * d + c];
    if (p->region && !pn_domain_holds(p, point))
      continue;
    status = pn_predicate_holds(p, predicate, point, &holds);
    held += holds;
    ++all;
  }
  tn_free(&u);
  *out = all ? (double)held / (double)all : 0;
  return status;
}

/* int(e, A): the measure of space, of A in it, and of all that e and A depend on, times the mean in A. */
static tn_status over_region(pn_naming *s, pn_expr *e) {
  pn_problem *p = s->problem;
  pn_expr *mean = NULL, *size = NULL;
  if (!s->mean)
    return pn_not_here(s, e, "an integral over a region");
  TN_TRY(pn_resolve(s, e->args[0]));
  TN_TRY(pn_resolve_predicate(s, e->args[1]));
  TN_TRY(pn_check_still(s, e));
  pn_piece piece = {.n_fixed = 0};
  TN_TRY(pn_pieces_in(p, e->args[1], &piece));
  if (e->args[0]->components != 1)
    return pn_expr_fail(TN_EINPUT, e->args[0], "the integral over a region is of a scalar");
  TN_TRY(pn_average_where_it_lives(p, e));
  uint32_t along = pn_expr_depends(p, e->args[0]) | pn_expr_depends(p, e->args[1]);
  double measure = 1;
  bool exact = true;
  if (p->region)
    TN_TRY(pn_body_measure(p->region, &measure, &exact));
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    bool space = p->coordinates[i].role == PN_SPACE;
    if (space ? !p->region : (along >> i & 1u) != 0)
      measure *= p->coordinates[i].hi - p->coordinates[i].lo;
  }
  double share = 1;
  bool all = e->args[1]->kind == PN_EVERYWHERE;
  if (!all)
    TN_TRY(share_of(p, e->args[1], &share));
  if (share == 0)
    return pn_expr_fail(TN_EINPUT, e->args[1], "no point of the domain lies there");
  measure *= share;
  TN_TRY(pn_expr_make(p->arena, PN_MEAN, e, all ? 1 : 2, e->args, &mean));
  TN_TRY(pn_expr_number(p->arena, measure, e, &size));
  TN_TRY(pn_expr_make(p->arena, PN_MULTIPLY, e, 2, (pn_expr *[]){size, mean}, &mean));
  *e = *mean;
  return TN_OK;
}

tn_status pn_resolve_integral(pn_naming *s, pn_expr *e) {
  size_t a = 0;
  if (e->n < 2)
    return pn_expr_fail(TN_EINPUT, e,
                        "`int` takes (e, s, a, b), (e, x) or (e, region), but %zu argument%s given",
                        e->n, e->n == 1 ? " is" : "s are");
  bool named = true;
  for (size_t i = 1; i < e->n; ++i)
    named = named && is_coordinate(s, e->args[i], &a);
  if (e->n == 4 && !named)
    return with_limits(s, e);
  if (e->n == 2 && !named) {
    const pn_expr *name = e->args[1];
    bool region = name->kind != PN_NAME || strcmp(name->name, "domain") == 0 ||
                  strcmp(name->name, "box") == 0;
    if (region || pn_lookup(s->problem, name->name, &a) != PN_IS_NOTHING)
      return over_region(s, e);
  }
  if (!s->coordinates)
    return pn_not_here(s, e, "an integral over a coordinate");
  return whole_ranges(s, e);
}
