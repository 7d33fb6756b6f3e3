/* calls.c: what stands before brackets: u(x=1), u_x(1, t), f(a), diff, mean, grad, sin, where.
 *
 * A call of an unknown, table, macro or derivative evaluates it elsewhere (PN_AT): the arguments
 * say which coordinates are replaced; t = t says nothing and is dropped, so u(x, t) is u. A call of
 * a function of [definitions] is replaced by a copy of its body with the arguments put in.
 * Everything else is an operator or a row of functions.def.
 */
#include "pinn/resolve.h"

#include <string.h>

enum { MOST_CALLS = 16, WORD = 128 };

/* ---- Calls of fields ------------------------------------------------------------------------ */

tn_status pn_copy_tree(pn_arena *arena, const pn_expr *e, size_t *budget, pn_expr **out) {
  if (*budget == 0)
    return pn_expr_fail(TN_EINPUT, e, "functions expand to more than %d terms", PN_MOST_COPIES);
  --*budget;
  TN_TRY(PN_TAKE(arena, 1, out));
  **out = *e;
  if (e->n)
    TN_TRY(PN_TAKE(arena, e->n, &(*out)->args));
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(pn_copy_tree(arena, e->args[i], budget, &(*out)->args[i]));
  return TN_OK;
}

/* f(a, b) of a function in a shared library. */
static tn_status call_external(pn_naming *s, pn_expr *e, size_t index) {
  const pn_definition *d = &s->problem->definitions[index];
  if (e->n != d->n_of)
    return pn_expr_fail(TN_EINPUT, e, "`%s` has %zu argument%s, not %zu", d->name, d->n_of,
                        d->n_of == 1 ? "" : "s", e->n);
  for (size_t i = 0; i < e->n; ++i) {
    TN_TRY(pn_resolve(s, e->args[i]));
    TN_TRY(pn_must_be_real(e->args[i], "an argument of a library's function"));
  }
  e->kind = PN_EXTERNAL;
  e->index = index;
  return pn_set_components(s->problem, e);
}

/* f(a, b) of a function in [definitions]: its body with the arguments put in. */
static tn_status expand_function(pn_naming *s, pn_expr *e, const pn_definition *d) {
  if (e->n != d->n_of)
    return pn_expr_fail(TN_EINPUT, e, "`%s` has %zu arguments, not %zu", d->name, d->n_of, e->n);
  if (s->calls >= MOST_CALLS)
    return pn_expr_fail(TN_EINPUT, e,
                        "`%s` calls itself, or functions call each other more than %d "
                        "deep",
                        d->name, MOST_CALLS);
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(pn_resolve(s, e->args[i]));
  pn_expr *body = NULL;
  TN_TRY(pn_copy_tree(s->problem->arena, d->value, &s->problem->budget, &body));
  pn_naming inner = *s;
  ++inner.depth;
  inner.n_formals = d->n_of;
  inner.formals = d->of;
  inner.actuals = e->args;
  inner.variable = NULL;
  inner.over = 0;
  ++inner.calls;
  size_t group = s->problem->counted_group;
  s->problem->counted_group = 0;
  TN_TRY(pn_resolve(&inner, body));
  s->problem->counted_group = group;
  *e = *body;
  return TN_OK;
}

/* The coordinate that argument i of a field call sets, and its value. */
static tn_status call_argument(pn_naming *s, pn_expr *e, size_t i, bool keywords, const size_t *of,
                               size_t n_of, size_t owner, size_t *axis, pn_expr **value) {
  pn_expr *arg = e->args[i];
  if ((arg->kind == PN_KEYWORD) != keywords)
    return pn_expr_fail(TN_EINPUT, arg, "arguments are either all x = value or all values");
  if (!keywords) {
    *axis = of[i];
    *value = arg;
    return TN_OK;
  }
  *axis = owner == PN_NONE ? PN_NONE : pn_argument_find(s->problem, owner, arg->name);
  if (*axis != PN_NONE) {
    *value = arg->args[0];
    return TN_OK;
  }
  if (pn_lookup(s->problem, arg->name, axis) != PN_IS_COORDINATE)
    return pn_no_coordinate(s->problem, arg, arg->name, NULL, arg->name);
  bool known = of == NULL;
  for (size_t k = 0; k < n_of && of; ++k)
    known |= of[k] == *axis;
  if (owner != PN_NONE)
    known |= pn_unknown_has(&s->problem->unknowns[owner], *axis);
  if (!known)
    return pn_expr_fail(TN_EINPUT, arg, "`%s` does not depend on %s", e->name, arg->name);
  *value = arg->args[0];
  return TN_OK;
}

/* A network has no meaning beyond the range of a coordinate. Only numbers are known here; rounding
 * (2*pi for 6.283185307179586) is let through. */
static tn_status check_inside(const pn_naming *s, const pn_expr *value, size_t axis) {
  const pn_coordinate *c = &s->problem->coordinates[axis];
  double x = 0, slack = 1e-9 * (c->hi - c->lo);
  if (c->unknown != PN_NONE || pn_moves(c) || c->periodic || !(c->lo < c->hi) || !pn_is_constant(value))
    return TN_OK;
  TN_TRY(pn_evaluate(s->problem, value, NULL, &x));
  if (x >= c->lo - slack && x <= c->hi + slack)
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, value, "%s = %g lies outside the domain, %s in [%g, %g]", c->name,
                      x, c->name, c->lo, c->hi);
}

/* u(x=1), u(1, t), u_x(x=1): `inside` is the field or its derivative. */
static tn_status make_at(pn_naming *s, pn_expr *e, pn_expr *inside, const size_t *of, size_t n_of,
                         size_t owner) {
  bool keywords = e->args[0]->kind == PN_KEYWORD;
  const pn_expr *field = inside->kind == PN_DERIVATIVE ? inside->args[0] : inside;
  if (field->kind == PN_COMPLEX)
    field = field->args[0];
  bool is_net = field->kind == PN_NET;
  if (!keywords && !of)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is a definition: name the coordinate, as in %s(%s=...)",
                        e->name, e->name, s->problem->coordinates[0].name);
  if (!keywords && e->n != n_of)
    return pn_expr_fail(TN_EINPUT, e, "`%s` depends on %zu coordinates, but %zu values are given",
                        e->name, n_of, e->n);
  pn_expr **args = NULL;
  size_t *axes = NULL, n = 0;
  TN_TRY(PN_TAKE(s->problem->arena, e->n + 1, &args));
  TN_TRY(PN_TAKE(s->problem->arena, e->n, &axes));
  args[0] = inside;
  for (size_t i = 0; i < e->n; ++i) {
    TN_TRY(call_argument(s, e, i, keywords, of, n_of, owner, &axes[n], &args[n + 1]));
    for (size_t k = 0; k < n; ++k)
      if (axes[k] == axes[n])
        return pn_expr_fail(TN_EINPUT, e->args[i], "`%s` is given twice", e->args[i]->name);
    pn_expr *value = args[n + 1];
    TN_TRY(pn_resolve(s, value));
    if (value->components != 1)
      return pn_expr_fail(TN_EINPUT, value, "a scalar is asked for here");
    if (is_net || pn_expr_unknowns(s->problem, inside))
      TN_TRY(check_inside(s, value, axes[n]));
    size_t itself = s->problem->coordinates[axes[n]].unknown;
    if ((value->kind == PN_COORDINATE && value->index == axes[n]) ||
        (value->kind == PN_UNKNOWN && value->index == itself))
      continue; /* t = t, b(u) */
    if (value->height >= e->height)
      e->height = value->height + 1;
    ++n;
  }
  if (n == 0) {
    size_t start = e->start, length = e->length;
    *e = *inside;
    e->start = start;
    e->length = length;
    return TN_OK;
  }
  e->kind = PN_AT;
  e->args = args;
  e->n = n + 1;
  e->axes = axes;
  e->n_axes = n;
  return pn_set_components(s->problem, e);
}

/* A call whose name is a field or a derivative of one; *done says whether it was. */
static tn_status resolve_field_call(pn_naming *s, pn_expr *e, bool *done) {
  pn_problem *p = s->problem;
  size_t index = 0, n_of = 0;
  pn_sort sort = pn_lookup(p, e->name, &index);
  pn_reading readings[PN_MAX_READINGS];
  bool is_net = s->net && strcmp(e->name, "net") == 0;
  *done = true;
  if (sort == PN_IS_COORDINATE || sort == PN_IS_CONSTANT || sort == PN_IS_PARAMETER)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is %s, not a function: a product is written %s*(...)",
                        e->name, pn_sort_text(sort), e->name);
  if (sort == PN_IS_DEFINITION && p->definitions[index].n_of > 0) {
    if (s->no_definitions)
      return pn_not_here(s, e, "a definition");
    if (p->definitions[index].library)
      return call_external(s, e, index);
    return expand_function(s, e, &p->definitions[index]);
  }
  pn_expr *inside = NULL;
  if (sort != PN_IS_NOTHING || is_net) {
    TN_TRY(pn_make_field(s, e, sort, index, &inside));
  } else {
    pn_function function;
    size_t n = strchr(e->name, '_') ? pn_readings(p, e->name, s->net, readings) : 0;
    *done = n > 0;
    if (n == 0 && strchr(e->name, '_') && !pn_function_find(e->name, &function))
      return pn_unknown_name(p, e, e->name);
    if (n == 0)
      return TN_OK;
    if (n > 1)
      return pn_several_readings(p, e, e->name, readings, n);
    sort = readings[0].sort;
    index = readings[0].index;
    pn_expr *field = NULL;
    TN_TRY(pn_make_field(s, e, sort, index, &field));
    TN_TRY(pn_expr_make(p->arena, PN_DERIVATIVE, e, 0, NULL, &inside));
    inside->name = e->name;
    TN_TRY(pn_make_derivative(s, inside, field, readings[0].axes, readings[0].n_axes));
  }
  const size_t *of = NULL;
  if (sort == PN_IS_UNKNOWN) {
    of = p->unknowns[index].argument;
    n_of = p->unknowns[index].n_arguments;
  } else if (sort == PN_IS_TABLE) {
    of = p->tables[index].of;
    n_of = p->tables[index].n_of;
  }
  return make_at(s, e, inside, of, n_of, sort == PN_IS_UNKNOWN ? index : PN_NONE);
}

/* ---- Operators and functions ---------------------------------------------------------------- */

static tn_status count_arguments(const pn_expr *e, size_t least, size_t most, const char *form) {
  if (e->n >= least && e->n <= most)
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e, "`%s` takes %s, but %zu argument%s given", e->name, form, e->n,
                      e->n == 1 ? " is" : "s are");
}

/* diff(e, x, 4), diff(e, x, y) */
static tn_status resolve_diff(pn_naming *s, pn_expr *e) {
  size_t axes[PN_MOST_ORDER], n = 0;
  if (e->n < 2)
    return count_arguments(e, 2, 64, "(e, x) or (e, x, n)");
  TN_TRY(pn_resolve(s, e->args[0]));
  for (size_t i = 1; i < e->n; ++i) {
    pn_expr *arg = e->args[i];
    size_t index = 0, times = 1;
    if (arg->kind != PN_NAME || pn_lookup(s->problem, arg->name, &index) != PN_IS_COORDINATE)
      return pn_expr_fail(TN_EINPUT, arg, "diff(e, x) goes by coordinates; this is none");
    if (i + 1 < e->n && e->args[i + 1]->kind == PN_NUMBER) {
      double count = e->args[++i]->number;
      if (!(count >= 1 && count <= PN_MOST_ORDER) || count != (double)(size_t)count)
        return pn_expr_fail(TN_EINPUT, e->args[i], "an order is a whole number from 1 to %d",
                            PN_MOST_ORDER);
      times = (size_t)count;
    }
    if (n + times > PN_MOST_ORDER)
      return pn_expr_fail(TN_EINPUT, e, "the highest order is %d", PN_MOST_ORDER);
    while (times-- > 0)
      axes[n++] = index;
  }
  return pn_make_derivative(s, e, e->args[0], axes, n);
}

/* An unknown of a part is averaged over its part. */
tn_status pn_average_where_it_lives(pn_problem *p, pn_expr *e) {
  uint64_t bits = pn_expr_unknowns(p, e->args[0]);
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    pn_expr *part = p->unknowns[u].in_where, *pair[2] = {e->args[1], part};
    if (!(bits >> u & 1u) || !part)
      continue;
    if (e->args[1]->kind == PN_EVERYWHERE)
      e->args[1] = part;
    else
      TN_TRY(pn_expr_make(p->arena, PN_AND, part, 2, pair, &e->args[1]));
  }
  return TN_OK;
}

static tn_status resolve_mean(pn_naming *s, pn_expr *e) {
  TN_TRY(count_arguments(e, 2, 2, "(e, region)"));
  if (!s->mean)
    return pn_not_here(s, e, "an average");
  TN_TRY(pn_resolve(s, e->args[0]));
  if (pn_mentions_column(e->args[0]))
    return pn_expr_fail(TN_EINPUT, e->args[0], "a column of data has values in the rows of its data "
                                               "only, and a mean goes over other points");
  TN_TRY(pn_resolve_predicate(s, e->args[1]));
  TN_TRY(pn_check_still(s, e));
  e->kind = PN_MEAN;
  pn_piece piece = {.n_fixed = 0};
  TN_TRY(pn_pieces_in(s->problem, e->args[1], &piece));
  TN_TRY(pn_average_where_it_lives(s->problem, e));
  if (e->args[1]->kind == PN_EVERYWHERE)
    e->n = 1;
  return pn_set_components(s->problem, e);
}

static tn_status resolve_operator(pn_naming *s, pn_expr *e, pn_kind kind, size_t arguments) {
  TN_TRY(
      count_arguments(e, arguments, arguments, arguments == 1 ? "one argument" : "two arguments"));
  if (kind == PN_NORMAL_DERIVATIVE && !s->normal)
    return pn_not_here(s, e, "the derivative along the normal, known on surfaces (`on`)");
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(pn_resolve(s, e->args[i]));
  e->kind = kind;
  return pn_set_components(s->problem, e);
}

static tn_status resolve_function(pn_naming *s, pn_expr *e) {
  pn_function f = PN_FUNCTIONS;
  if (!pn_function_find(e->name, &f))
    return pn_unknown_function(e, e->name);
  pn_arity row = pn_function_arity(f);
  if (!row.available)
    return pn_expr_fail(TN_EUNSUPPORTED, e, "`%s`: this version of pinn does not have it", e->name);
  char form[WORD];
  snprintf(form, sizeof form, row.most > row.least ? "%zu to %zu arguments" : "%zu argument(s)",
           row.least, row.most);
  TN_TRY(count_arguments(e, row.least, row.most, form));
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(pn_resolve(s, e->args[i]));
  e->kind = PN_FUNCTION;
  e->index = f;
  return pn_set_components(s->problem, e);
}

tn_status pn_resolve_call(pn_naming *s, pn_expr *e) {
  static const struct {
    const char *name;
    pn_kind kind;
    size_t arguments;
  } operators[] = {
      {"grad", PN_GRAD, 1},           {"div", PN_DIVERGENCE, 1}, {"lap", PN_LAPLACE, 1},
      {"curl", PN_CURL, 1},           {"dot", PN_DOT, 2},        {"norm", PN_NORM, 1},
      {"dn", PN_NORMAL_DERIVATIVE, 1}};
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; ++i)
    if (strcmp(e->name, operators[i].name) == 0)
      return resolve_operator(s, e, operators[i].kind, operators[i].arguments);
  if (strcmp(e->name, "inside") == 0)
    return pn_resolve_inside(s, e);
  if (strcmp(e->name, "interface") == 0)
    return pn_expr_fail(TN_EINPUT, e,
                        "`interface(...)` is a surface and has no value: it stands in `on`");
  if (strcmp(e->name, "diff") == 0)
    return resolve_diff(s, e);
  if (strcmp(e->name, "mean") == 0)
    return resolve_mean(s, e);
  if (strcmp(e->name, "int") == 0)
    return pn_resolve_integral(s, e);
  if (strcmp(e->name, "sum") == 0 || strcmp(e->name, "prod") == 0)
    return pn_resolve_counted(s, e, e->name[0] == 's' ? PN_ADD : PN_MULTIPLY);
  if (strcmp(e->name, "where") == 0) {
    TN_TRY(count_arguments(e, 3, 3, "(predicate, value, other value)"));
    TN_TRY(pn_resolve_predicate(s, e->args[0]));
    ++s->branch;
    TN_TRY(pn_resolve(s, e->args[1]));
    TN_TRY(pn_resolve(s, e->args[2]));
    --s->branch;
    e->kind = PN_WHERE;
    return pn_set_components(s->problem, e);
  }
  bool done = false;
  TN_TRY(resolve_field_call(s, e, &done));
  return done ? TN_OK : resolve_function(s, e);
}
