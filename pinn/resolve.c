/* resolve.c: trees of names to trees of references, in place.
 *
 * Names become indices into the problem's tables, u_xx a PN_DERIVATIVE of u, u(x=1) a PN_AT, calls
 * their operators. Derivatives of derivatives are flattened, so that a group of atoms can be read
 * off a node. Functions defined in the file are expanded at each call (body copied, arguments put
 * in), so nothing behind this file meets a formal argument. Each node gets its number of components
 * on the way up; adding a vector to a scalar is found here and not when tensors are built.
 */
#include "pinn/resolve.h"

#include "pinn/data.h"
#include "pinn/integral.h"
#include "pinn/region.h"

#include <string.h>

enum { WORD = 128 };

/* ---- Components ----------------------------------------------------------------------------- */

static tn_status vector_error(const pn_expr *e, const char *what) {
  return pn_expr_fail(TN_EINPUT, e, "%s", what);
}

static tn_status same_components(pn_expr *e) {
  size_t a = e->args[0]->components, b = e->args[1]->components;
  if (a != b)
    return pn_expr_fail(TN_EINPUT, e,
                        "the sides have %zu and %zu components: a %s and a %s do not "
                        "combine here",
                        a, b, a > 1 ? "vector" : "scalar", b > 1 ? "vector" : "scalar");
  e->components = a;
  return TN_OK;
}

static tn_status components_of_product(pn_expr *e) {
  size_t a = e->args[0]->components, b = e->args[1]->components;
  if (e->kind == PN_DIVIDE && b > 1)
    return vector_error(e, "nothing can be divided by a vector");
  if (a > 1 && b > 1)
    return vector_error(e, "a product of two vectors is dot(a, b)");
  e->components = a > b ? a : b;
  return TN_OK;
}

static tn_status components_of_operator(pn_expr *e, size_t space) {
  size_t inside = e->args[0]->components;
  if (space == 0)
    return vector_error(e, "there are no space coordinates to differentiate along");
  switch (e->kind) {
  case PN_GRAD:
    if (inside > 1)
      return vector_error(e, "grad takes a scalar");
    e->components = space;
    return TN_OK;
  case PN_DIVERGENCE:
    if (inside != space)
      return pn_expr_fail(TN_EINPUT, e,
                          "div takes a vector of %zu components (one for each space "
                          "coordinate), not %zu",
                          space, inside);
    e->components = 1;
    return TN_OK;
  case PN_CURL:
    if (inside != space || (space != 2 && space != 3))
      return vector_error(e, "curl takes a vector in 2 or 3 space dimensions");
    e->components = space == 2 ? 1 : 3;
    return TN_OK;
  default:
    e->components = inside;
    return TN_OK;
  }
}

static bool is_scalar_leaf(pn_kind kind) {
  return kind == PN_NUMBER || kind == PN_CONSTANT_REF || kind == PN_COORDINATE ||
         kind == PN_UNKNOWN || kind == PN_NET || kind == PN_TABLE || kind == PN_BOUND ||
         kind == PN_NORMAL || kind == PN_DUMMY || kind == PN_PARAMETER_REF || kind == PN_INSIDE ||
         kind == PN_COLUMN;
}

static tn_status set_components(const pn_problem *problem, pn_expr *e) {
  size_t axes[PN_MAX_COORDINATES];
  bool compares = e->kind >= PN_EQUAL && e->kind <= PN_GREATER;
  e->components = 1;
  if (is_scalar_leaf(e->kind))
    return TN_OK;
  if (compares || e->kind == PN_ADD || e->kind == PN_SUBTRACT)
    return same_components(e);
  switch (e->kind) {
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return components_of_product(e);
  case PN_NEGATE:
  case PN_DERIVATIVE:
  case PN_AT:
  case PN_MEAN:
  case PN_INTEGRAL_OF:
  case PN_NORMAL_DERIVATIVE:
    e->components = e->args[0]->components;
    return TN_OK;
  case PN_WHERE:
    e->components = e->args[1]->components;
    if (e->components == e->args[2]->components)
      return TN_OK;
    return vector_error(e, "the branches of where differ in their number of components");
  case PN_DOT:
    TN_TRY(same_components(e));
    e->components = 1;
    return TN_OK;
  case PN_NORM:
    return TN_OK;
  case PN_GRAD:
  case PN_DIVERGENCE:
  case PN_LAPLACE:
  case PN_CURL:
    return components_of_operator(e, pn_space_axes(problem, axes));
  case PN_DEFINITION:
    e->components = problem->definitions[e->index].value->components;
    return TN_OK;
  default:
    break;
  }
  for (size_t i = 0; i < e->n; ++i) /* tuples, powers, functions: of scalars */
    if (e->args[i]->components != 1)
      return vector_error(e->args[i], "a scalar is asked for here");
  if (e->kind == PN_TUPLE)
    e->components = e->n;
  return TN_OK;
}

tn_status pn_set_components(const pn_problem *problem, pn_expr *e) {
  TN_TRY(set_components(problem, e));
  return pn_set_complex(problem, e);
}

/* ---- Names ---------------------------------------------------------------------------------- */

static tn_status resolve(pn_naming *s, pn_expr *e);

tn_status pn_not_here(const pn_naming *s, const pn_expr *e, const char *what) {
  return pn_expr_fail(TN_EINPUT, e, "`%s` is %s; %s cannot use it", e->name ? e->name : "this",
                      what, s->what);
}

/* An unknown as the end of a range that it is; in regions only. */
static bool moving_end(const pn_problem *p, size_t unknown, pn_expr *e) {
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *x = &p->coordinates[c];
    if (x->lo_unknown != unknown && x->hi_unknown != unknown)
      continue;
    e->kind = PN_BOUND;
    e->index = c;
    e->number = x->hi_unknown == unknown ? x->hi : x->lo;
    return true;
  }
  return false;
}

static tn_status resolve_reference(pn_naming *s, pn_expr *e, pn_sort sort, size_t index) {
  e->index = index;
  switch (sort) {
  case PN_IS_COORDINATE:
    if (!s->coordinates)
      return pn_not_here(s, e, "a coordinate");
    e->kind = PN_COORDINATE;
    e->name = s->problem->coordinates[index].name; /* x3 for x in a sum */
    return TN_OK;
  case PN_IS_CONSTANT:
    TN_TRY(pn_constant_value(s->problem, index));
    e->kind = PN_CONSTANT_REF;
    e->number = s->problem->constants[index].value;
    return TN_OK;
  case PN_IS_UNKNOWN:
    if (s->arguments_of && pn_argument_find(s->problem, s->arguments_of - 1, e->name) != PN_NONE) {
      e->index = pn_argument_find(s->problem, s->arguments_of - 1, e->name);
      e->kind = PN_COORDINATE;
      return TN_OK;
    }
    if (s->ends && moving_end(s->problem, index, e))
      return TN_OK;
    if (!s->unknowns)
      return pn_not_here(s, e, "an unknown");
    if (s->problem->unknowns[index].pair)
      return pn_make_pair(s->problem, e, PN_UNKNOWN, index);
    e->kind = PN_UNKNOWN;
    return TN_OK;
  case PN_IS_TABLE:
    if (!s->coordinates || s->no_definitions)
      return pn_not_here(s, e, "a table");
    e->kind = PN_TABLE;
    return TN_OK;
  case PN_IS_PARAMETER:
    if (!s->parameters)
      return pn_not_here(s, e, "a parameter");
    e->kind = PN_PARAMETER_REF;
    return TN_OK;
  case PN_IS_SHAPE:
    return pn_expr_fail(TN_EINPUT, e, "`%s` is a shape and has no value; inside(%s) is 1 inside it and 0 elsewhere",
                        e->name, e->name);
  default:
    break;
  }
  if (s->no_definitions)
    return pn_not_here(s, e, "a definition");
  const pn_definition *d = &s->problem->definitions[index];
  TN_TRY(pn_resolve_definition(s->problem, index));
  if (d->n_of > 0)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is a function of %zu arguments: write %s(...)", d->name,
                        d->n_of, d->name);
  if (d->unknowns && !s->unknowns)
    return pn_not_here(s, e, "a definition with an unknown in it");
  if (d->has_normal && !s->normal)
    return pn_not_here(s, e, "a definition with the normal in it");
  if (d->parameters && !s->parameters)
    return pn_not_here(s, e, "a definition with a parameter in it");
  e->kind = PN_DEFINITION;
  e->components = d->value->components;
  e->is_complex = d->value->is_complex;
  return TN_OK;
}

/* A formal argument of the function whose body this is. */
static tn_status resolve_formal(const pn_naming *s, pn_expr *e, bool *done) {
  for (size_t i = 0; i < s->n_formals; ++i) {
    if (strcmp(s->formals[i], e->name) != 0)
      continue;
    uint32_t caught = pn_expr_depends(s->problem, s->actuals[i]) & s->over;
    for (size_t c = 0; c < s->problem->n_coordinates; ++c)
      if (caught >> c & 1u)
        return pn_expr_fail(TN_EINPUT, e,
                            "what is put in for `%s` depends on %s, over which the integral goes: "
                            "give its variable another name, as in int(e, s, a, b)",
                            e->name, s->problem->coordinates[c].name);
    *e = *s->actuals[i];
    *done = true;
    return TN_OK;
  }
  return TN_OK;
}

/* The variable of an integral around it. */
static bool resolve_variable(const pn_naming *s, pn_expr *e) {
  for (const pn_variable *v = s->variable; v; v = v->outer)
    if (strcmp(v->name, e->name) == 0) {
      e->kind = PN_DUMMY;
      e->index = v->level;
      return true;
    }
  return false;
}

static tn_status note_zero(pn_naming *s, const pn_expr *e, const pn_expr *field, const size_t *axes,
                           size_t n) {
  if (field->kind == PN_COMPLEX && field->args[0]->kind == PN_UNKNOWN)
    field = field->args[0];
  if (field->kind != PN_UNKNOWN)
    return TN_OK;
  const pn_unknown *u = &s->problem->unknowns[field->index];
  for (size_t i = 0; i < n; ++i)
    if (axes[i] < s->problem->n_coordinates && !pn_unknown_has(u, axes[i]))
      return pn_warn(s->problem, pn_expr_place(e), e->length,
                     "%s does not depend on %s: this derivative is 0", u->name,
                     s->problem->coordinates[axes[i]].name);
  return TN_OK;
}

/* Makes e the derivative of `inside`, which is resolved; derivatives of derivatives are flattened.
 */
tn_status pn_make_derivative(pn_naming *s, pn_expr *e, pn_expr *inside, const size_t *axes,
                             size_t n) {
  const pn_expr *old = inside->kind == PN_DERIVATIVE ? inside : NULL;
  size_t before = old ? old->n_axes : 0;
  if (pn_mentions_column(inside))
    return pn_expr_fail(TN_EINPUT, e, "a column of data has no derivatives: it is known in its "
                                      "rows only");
  if (n + before > PN_MOST_ORDER)
    return pn_expr_fail(TN_EINPUT, e, "a derivative of order %zu; the highest is %d", n + before,
                        PN_MOST_ORDER);
  TN_TRY(note_zero(s, e, old ? old->args[0] : inside, axes, n));
  size_t *all = NULL;
  TN_TRY(PN_TAKE(s->problem->arena, before + n, &all));
  if (before)
    memcpy(all, old->axes, before * sizeof *all);
  if (n)
    memcpy(all + before, axes, n * sizeof *all);
  pn_expr **args = NULL;
  TN_TRY(PN_TAKE(s->problem->arena, 1, &args));
  args[0] = old ? old->args[0] : inside;
  e->kind = PN_DERIVATIVE;
  e->n = 1;
  e->args = args;
  e->n_axes = before + n;
  e->axes = all;
  e->height = args[0]->height + 1;
  return pn_set_components(s->problem, e);
}

tn_status pn_several_readings(const pn_problem *problem, const pn_expr *e, const char *name,
                              const pn_reading *readings, size_t n) {
  char list[4 * WORD] = "", one[WORD];
  for (size_t i = 0; i < n; ++i) {
    size_t used = strlen(list);
    pn_reading_text(problem, &readings[i], one, sizeof one);
    snprintf(list + used, sizeof list - used, "%s`%s`", i ? " or " : "", one);
  }
  return pn_expr_fail(TN_EINPUT, e, "`%s` can be read as %s: write one of these", name, list);
}

/* A field, at the point itself, as a node of its own below e. */
tn_status pn_make_field(pn_naming *s, const pn_expr *e, pn_sort sort, size_t index, pn_expr **out) {
  TN_TRY(pn_expr_make(s->problem->arena, PN_NET, e, 0, NULL, out));
  if (sort == PN_IS_NOTHING) { /* net_x; PN_NET it is */
    (*out)->name = "net";
    return s->complex_net ? pn_make_pair(s->problem, *out, PN_NET, 0) : TN_OK;
  }
  const pn_problem *p = s->problem;
  (*out)->name = sort == PN_IS_UNKNOWN      ? p->unknowns[index].name
                 : sort == PN_IS_DEFINITION ? p->definitions[index].name
                                            : p->tables[index].name;
  return resolve_reference(s, *out, sort, index);
}

/* u_xx: exactly one reading. */
static tn_status resolve_derivative_name(pn_naming *s, pn_expr *e) {
  pn_reading readings[PN_MAX_READINGS];
  size_t n = pn_readings(s->problem, e->name, s->net, readings);
  if (n == 0 && s->data)
    return pn_no_column(s->data, e, e->name);
  if (n == 0)
    return pn_unknown_name(s->problem, e, e->name);
  if (n > 1)
    return pn_several_readings(s->problem, e, e->name, readings, n);
  pn_expr *field = NULL;
  TN_TRY(pn_make_field(s, e, readings[0].sort, readings[0].index, &field));
  return pn_make_derivative(s, e, field, readings[0].axes, readings[0].n_axes);
}

/* normal_x */
static bool normal_axis(const pn_problem *p, const char *name, size_t *index) {
  static const char prefix[] = "normal_";
  return strncmp(name, prefix, sizeof prefix - 1) == 0 &&
         pn_lookup(p, name + sizeof prefix - 1, index) == PN_IS_COORDINATE;
}

static tn_status resolve_name(pn_naming *s, pn_expr *e) {
  size_t index = 0;
  bool done = resolve_variable(s, e);
  if (!done)
    TN_TRY(resolve_formal(s, e, &done));
  if (done)
    return TN_OK;
  pn_sort sort = pn_lookup(s->problem, e->name, &index);
  if (sort != PN_IS_NOTHING)
    return resolve_reference(s, e, sort, index);
  if (s->data && pn_data_column(s->data, e->name) != PN_NONE) {
    e->index = pn_data_column(s->data, e->name);
    e->kind = PN_COLUMN;
    return TN_OK;
  }
  if (strcmp(e->name, "pi") == 0) {
    e->kind = PN_NUMBER;
    e->number = 3.14159265358979323846;
    return TN_OK;
  }
  if (s->problem->has_complex && strcmp(e->name, "i") == 0)
    return pn_resolve_unit(s, e);
  if (strcmp(e->name, "net") == 0) {
    if (!s->net)
      return pn_not_here(s, e, "the network's own output, which only an ansatz sees");
    e->kind = PN_NET;
    return s->complex_net ? pn_make_pair(s->problem, e, PN_NET, 0) : TN_OK;
  }
  if (normal_axis(s->problem, e->name, &index)) {
    if (!s->normal)
      return pn_not_here(s, e, "a component of the normal, known on surfaces (`on`)");
    e->kind = PN_NORMAL;
    e->index = index;
    return TN_OK;
  }
  return resolve_derivative_name(s, e);
}

static tn_status resolve_end(pn_naming *s, pn_expr *e) {
  size_t index = 0;
  if (e->index >= PN_END_RE)
    return pn_resolve_part(s, e);
  if (pn_lookup(s->problem, e->name, &index) != PN_IS_COORDINATE)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is no coordinate and has no .min and .max", e->name);
  const pn_coordinate *c = &s->problem->coordinates[index];
  size_t unknown = e->index ? c->hi_unknown : c->lo_unknown;
  if (unknown != PN_NONE && !s->ends) { /* it moves */
    e->name = s->problem->unknowns[unknown].name;
    return resolve_reference(s, e, PN_IS_UNKNOWN, unknown);
  }
  if (!(c->lo < c->hi))
    return pn_not_here(s, e, "a coordinate whose range is not known yet");
  char *name = NULL; /* which end it is shows in the name only */
  TN_TRY(pn_arena_format(s->problem->arena, &name, "%s.%s", e->name, e->index ? "max" : "min"));
  e->name = name;
  e->number = e->index ? c->hi : c->lo;
  if (pn_moves(c) && !s->ends)
    e->number = c->end[e->index];
  e->index = index;
  e->kind = PN_BOUND;
  return TN_OK;
}

static tn_status resolve_suffix(pn_naming *s, pn_expr *e) {
  pn_reading readings[PN_MAX_READINGS];
  size_t n = pn_split_axes(s->problem, e->name, readings);
  if (n == 0)
    return pn_no_coordinate(s->problem, e, e->name, NULL, e->name);
  if (n > 1)
    return pn_expr_fail(TN_EINPUT, e,
                        "`_%s` can be split into coordinates in %zu ways: put "
                        "an underscore between them",
                        e->name, n);
  TN_TRY(resolve(s, e->args[0]));
  return pn_make_derivative(s, e, e->args[0], readings[0].axes, readings[0].n_axes);
}

/* ---- The walk ------------------------------------------------------------------------------- */

static tn_status resolve_node(pn_naming *s, pn_expr *e) {
  switch (e->kind) {
  case PN_NAME:
    return resolve_name(s, e);
  case PN_END:
    return resolve_end(s, e);
  case PN_SUFFIX:
    return resolve_suffix(s, e);
  case PN_CALL:
    return pn_resolve_call(s, e);
  case PN_KEYWORD:
    return pn_expr_fail(TN_EINPUT, e,
                        "`%s = ...` stands only in calls of an unknown, as in "
                        "u(x = 1)",
                        e->name);
  default:
    break;
  }
  if (e->kind >= PN_LESS && e->kind <= PN_NOT)
    return pn_expr_fail(TN_EINPUT, e, "a comparison is no value; where(a < b, 1, 0) is");
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(resolve(s, e->args[i]));
  return pn_set_components(s->problem, e);
}

/* A power, quotient or function of constants has its value now, if it has one at all. */
static tn_status check_constant(const pn_naming *s, const pn_expr *e) {
  bool may_fail = e->kind == PN_POWER || e->kind == PN_DIVIDE || e->kind == PN_FUNCTION;
  double value = 0;
  return may_fail && !s->branch && pn_is_constant(e) ? pn_evaluate(s->problem, e, NULL, &value)
                                                  : TN_OK;
}

/* The walk goes as deep as the tree, and functions put trees into trees: both are bounded here. */
static tn_status resolve(pn_naming *s, pn_expr *e) {
  if (s->depth >= PN_MAX_HEIGHT)
    return pn_expr_fail(TN_EINPUT, e,
                        "with its functions written out the expression is nested more "
                        "than %d deep",
                        PN_MAX_HEIGHT);
  ++s->depth;
  TN_TRY(resolve_node(s, e));
  TN_TRY(check_constant(s, e));
  --s->depth;
  e->height = 1;
  for (size_t i = 0; i < e->n; ++i)
    if (e->args[i]->height >= e->height)
      e->height = e->args[i]->height + 1;
  if (e->height > PN_MAX_HEIGHT)
    return pn_expr_fail(TN_EINPUT, e, "the expression is nested more than %d deep", PN_MAX_HEIGHT);
  return TN_OK;
}

tn_status pn_resolve(pn_naming *scope, pn_expr *e) { return resolve(scope, e); }

static tn_status resolve_region(pn_naming *s, pn_expr *e) {
  (void)s;
  if (strcmp(e->name, "boundary") == 0)
    e->kind = PN_BOUNDARY;
  if (strcmp(e->name, "box") == 0 || strcmp(e->name, "domain") == 0)
    e->kind = PN_EVERYWHERE;
  if (e->kind != PN_NAME)
    return TN_OK;
  size_t index = 0;
  pn_sort sort = pn_lookup(s->problem, e->name, &index);
  if (sort == PN_IS_SHAPE) {
    TN_TRY(pn_shape_body(s->problem, index));
    e->kind = PN_SHAPE;
    e->index = index;
    return TN_OK;
  }
  if (sort != PN_IS_NOTHING)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is %s: a condition is a comparison, as in %s = 0",
                        e->name, pn_sort_text(sort), e->name);
  return pn_no_shape(s->problem, e, e->name);
}

tn_status pn_resolve_predicate(pn_naming *scope, pn_expr *e) {
  switch (e->kind) {
  case PN_AND:
  case PN_OR:
  case PN_NOT:
    for (size_t i = 0; i < e->n; ++i)
      TN_TRY(pn_resolve_predicate(scope, e->args[i]));
    return TN_OK;
  case PN_EQUAL:
  case PN_LESS:
  case PN_GREATER:
  case PN_LESS_EQUAL:
  case PN_GREATER_EQUAL:
    for (size_t i = 0; i < e->n; ++i)
      TN_TRY(resolve(scope, e->args[i]));
    TN_TRY(pn_set_components(scope->problem, e));
    return pn_must_be_real(e, "a comparison");
  case PN_NAME:
    return resolve_region(scope, e);
  case PN_SUBTRACT: { /* A - B = A and not B */
    pn_expr *without = NULL;
    TN_TRY(pn_resolve_predicate(scope, e->args[0]));
    TN_TRY(pn_resolve_predicate(scope, e->args[1]));
    TN_TRY(pn_expr_make(scope->problem->arena, PN_NOT, e->args[1], 1, &e->args[1], &without));
    e->args[1] = without;
    e->kind = PN_AND;
    return TN_OK;
  }
  case PN_CALL:
    if (strcmp(e->name, "interface") == 0)
      return pn_resolve_shape(scope, e, PN_INTERFACE);
    if (strcmp(e->name, "inside") == 0)
      return pn_resolve_shape(scope, e, PN_INSIDE);
    break;
  default:
    break;
  }
  return pn_expr_fail(TN_EINPUT, e, "a region or a comparison is asked for here, as in x = 0");
}

/* ---- Definitions ---------------------------------------------------------------------------- */

bool pn_mentions_normal(const pn_problem *p, const pn_expr *e) {
  if (e->kind == PN_NORMAL || e->kind == PN_NORMAL_DERIVATIVE)
    return true;
  if (e->kind == PN_DEFINITION)
    return p->definitions[e->index].has_normal;
  for (size_t i = 0; i < e->n; ++i)
    if (pn_mentions_normal(p, e->args[i]))
      return true;
  return false;
}

/* A function is checked once with its formals standing for numbers; its calls do the rest. */
static tn_status check_function(pn_naming *scope, pn_definition *d) {
  pn_expr *copy = NULL, *one = NULL, **actuals = NULL;
  TN_TRY(pn_copy_tree(scope->problem->arena, d->value, &scope->problem->budget, &copy));
  TN_TRY(pn_expr_number(scope->problem->arena, 1, d->value, &one));
  TN_TRY(PN_TAKE(scope->problem->arena, d->n_of, &actuals));
  for (size_t i = 0; i < d->n_of; ++i)
    actuals[i] = one;
  scope->n_formals = d->n_of;
  scope->formals = d->of;
  scope->actuals = actuals;
  d->state = 2; /* a call inside itself is caught by the limit on calls */
  return pn_resolve(scope, copy);
}

tn_status pn_resolve_definition(pn_problem *problem, size_t index) {
  pn_definition *d = &problem->definitions[index];
  if (d->state == 2 || d->library)
    return TN_OK;
  if (d->state == 1)
    return pn_fail_at(TN_EINPUT, d->place, strlen(d->name), "`%s` is defined by itself", d->name);
  d->state = 1;
  pn_naming scope = {.problem = problem,
                    .what = "a definition",
                    .coordinates = true,
                    .unknowns = true,
                    .parameters = true,
                    .normal = true,
                    .mean = true};
  size_t group = problem->counted_group;
  problem->counted_group = 0; /* it may be met first inside a sum */
  TN_TRY(d->n_of > 0 ? check_function(&scope, d) : pn_resolve(&scope, d->value));
  problem->counted_group = group;
  if (d->n_of > 0)
    return TN_OK;
  d->depends = pn_expr_depends(problem, d->value);
  d->unknowns = pn_expr_unknowns(problem, d->value);
  d->parameters = pn_expr_parameters(problem, d->value);
  d->has_normal = pn_mentions_normal(problem, d->value);
  d->integrals = pn_integrals_in(problem, d->value);
  d->state = 2;
  return TN_OK;
}
