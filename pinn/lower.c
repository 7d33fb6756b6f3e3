/* lower.c: resolved scalar trees to values of the graph.
 *
 * One case a kind of node. Numbers of the file become part of the structure, so that the planner of
 * derivatives sees a coefficient 1/2 as the rational that it is; named constants are run-time numbers, one
 * leaf each. Whole powers are products. A derivative is taken of the lowered inside by ag_d along a leaf:
 *
 *   d/dx e  at x = v:   lower e with x a placeholder p, differentiate by p, put v for p
 *
 * which is also what u_x(x=1) and a derivative on a face mean. When x is a leaf of the point set itself and
 * nothing else in the frame depends on it, it is its own placeholder. Equal nodes are one node in the
 * graph, so a definition used twice costs one evaluation; a cache a frame keeps the walk linear as well.
 */
#include "pinn/external.h"
#include "pinn/lower.h"
#include "pinn/moving.h"

#include <math.h>
#include <string.h>

/* ---- Frames ------------------------------------------------------------------------------------- */

pn_frame pn_frame_of(pn_scope *scope) {
  pn_frame frame = {.scope = scope, .net = PN_NONE};
  memcpy(frame.coordinate, scope->coordinate, sizeof frame.coordinate);
  for (size_t i = 0; i < PN_MAX_COORDINATES; ++i)
    if (scope->free_[i])
      frame.variable |= UINT32_C(1) << i;
  for (size_t i = 0; i < PN_MAX_COORDINATES; ++i)
    if (scope->moved[i].graph)
      pn_frame_set(&frame, i, scope->moved[i]);
  return frame;
}

pn_frame pn_frame_copy(const pn_frame *frame) {
  pn_frame copy = *frame;
  copy.definition = NULL;
  return copy;
}

void pn_frame_done(pn_frame *frame) { tn_free(&frame->definition); }

bool pn_is_number(tn_value value, double *number) {
  const tn_node *node = tn_node_of(value);
  if (!node || node->op->id != TN_OP_constant)
    return false;
  *number = node->number;
  return true;
}

void pn_frame_set(pn_frame *frame, size_t axis, tn_value value) {
  double number = 0;
  frame->coordinate[axis] = value;
  if (pn_is_number(value, &number))
    frame->variable &= ~(UINT32_C(1) << axis);
  else
    frame->variable = 0; /* the value may depend on any of them */
}

tn_value pn_frame_number(const pn_frame *frame, double value) {
  return tn_const(frame->scope->model->graph, frame->scope->model->dtype, value);
}

void pn_place_nodes(tn_graph *graph, const pn_expr *e) {
  char text[96];
  if (!e->phrase)
    return;
  pn_place place = pn_expr_place(e);
  size_t n = e->length < sizeof text ? e->length : sizeof text - 1;
  memcpy(text, e->phrase->text + e->start, n);
  text[n] = '\0';
  tn_at(graph, place.source ? place.source->file : NULL, (int)place.line, (int)place.column, text);
}

tn_status pn_lost_value(tn_graph *graph) {
  TN_TRY(tn_graph_error(graph));
  if (tn_error_code() != TN_OK)
    return tn_error_code(); /* ag_d gives no value and leaves this behind */
  return TN_FAIL(TN_EINTERNAL, "an expression without a value");
}

static tn_graph *graph_of(const pn_frame *f) { return f->scope->model->graph; }

static pn_problem *problem_of(const pn_frame *f) { return f->scope->model->problem; }

/* ---- Arithmetic --------------------------------------------------------------------------------- */

/* Sums and products of numbers are numbers: -1/2 is one rational. */
static bool fold(pn_kind kind, double a, double b, double *out) {
  switch (kind) {
  case PN_ADD:
    *out = a + b;
    break;
  case PN_SUBTRACT:
    *out = a - b;
    break;
  case PN_MULTIPLY:
    *out = a * b;
    break;
  case PN_DIVIDE:
    *out = a / b;
    break;
  default:
    return false;
  }
  return isfinite(*out);
}

static tn_status lower_binary(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value a = {0}, b = {0};
  double x = 0, y = 0, number = 0;
  TN_TRY(pn_frame_lower(f, e->args[0], &a));
  TN_TRY(pn_frame_lower(f, e->args[1], &b));
  if (pn_is_number(a, &x) && pn_is_number(b, &y) && fold(e->kind, x, y, &number)) {
    *out = pn_frame_number(f, number);
    return TN_OK;
  }
  pn_place_nodes(graph_of(f), e);
  switch (e->kind) {
  case PN_ADD:
    *out = tn_add(a, b);
    break;
  case PN_SUBTRACT:
    *out = tn_sub(a, b);
    break;
  case PN_MULTIPLY:
    *out = tn_mul(a, b);
    break;
  default:
    *out = tn_div(a, b);
    break;
  }
  return TN_OK;
}

static tn_status lower_negate(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value a = {0};
  double x = 0;
  TN_TRY(pn_frame_lower(f, e->args[0], &a));
  pn_place_nodes(graph_of(f), e);
  *out = pn_is_number(a, &x) ? pn_frame_number(f, -x) : tn_neg(a);
  return TN_OK;
}

/* A tree of numbers, constants and functions alone has the same value everywhere. */
static bool is_plain(const pn_problem *p, const pn_expr *e) {
  if (e->kind == PN_NUMBER || e->kind == PN_BOUND || e->kind == PN_CONSTANT_REF)
    return true;
  if (e->kind == PN_DEFINITION) {
    const pn_definition *d = &p->definitions[e->index];
    return d->scalar && is_plain(p, d->scalar);
  }
  if (e->kind != PN_NEGATE && !(e->kind >= PN_ADD && e->kind <= PN_POWER) && e->kind != PN_FUNCTION)
    return false;
  for (size_t i = 0; i < e->n; ++i)
    if (!is_plain(p, e->args[i]))
      return false;
  return true;
}

static tn_status lower_power(pn_frame *f, const pn_expr *e, tn_value *out) {
  enum { MOST_WHOLE = 1000000 };
  tn_value base = {0}, exponent = {0};
  double number = 0;
  TN_TRY(pn_frame_lower(f, e->args[0], &base));
  if (is_plain(problem_of(f), e->args[1])) {
    TN_TRY(pn_evaluate(problem_of(f), e->args[1], NULL, &number));
    pn_place_nodes(graph_of(f), e);
    bool whole = number == rint(number) && fabs(number) <= MOST_WHOLE;
    *out = whole ? tn_powi(base, number) : tn_powr(base, number);
    return TN_OK;
  }
  TN_TRY(pn_frame_lower(f, e->args[1], &exponent));
  pn_place_nodes(graph_of(f), e);
  *out = tn_pow(base, exponent);
  return TN_OK;
}

static tn_status lower_function(pn_frame *f, const pn_expr *e, tn_value *out) {
  enum { MOST = 16 };
  tn_value args[MOST] = {{0}};
  if (e->n == 0 || e->n > MOST)
    return TN_FAIL(TN_EINTERNAL, "`%s` with %zu arguments", e->name, e->n);
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(pn_frame_lower(f, e->args[i], &args[i]));
  pn_place_nodes(graph_of(f), e);
  if (e->index == PN_FN_cole_hopf)
    return pn_exact_call(f->scope, PN_FN_cole_hopf, args, out);
  const tn_op *op = tn_op_find(pn_function_name((pn_function)e->index));
  if (!op || op->arity != (e->n > 1 ? 2 : 1))
    return pn_expr_fail(TN_EUNSUPPORTED, e, "`%s`: this version of pinn does not have it", e->name);
  *out = e->n == 1 ? tn_unary(op->id, args[0], 0) : args[0];
  for (size_t i = 1; i < e->n; ++i)
    *out = tn_binary(op->id, *out, args[i]);
  return TN_OK;
}

/* A function of a shared library; arguments of one dtype and point axis, as for every operation. */
static tn_status lower_external(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value args[2] = {{0}};
  for (size_t i = 0; i < e->n && i < 2; ++i)
    TN_TRY(pn_frame_lower(f, e->args[i], &args[i]));
  pn_place_nodes(graph_of(f), e);
  return pn_external_apply(&problem_of(f)->definitions[e->index], e->n, args, out);
}

/* ---- Predicates --------------------------------------------------------------------------------- */

static tn_value always(const pn_frame *f) {
  return tn_eq(pn_frame_number(f, 0), pn_frame_number(f, 0));
}

/* On a face of the space coordinates that have faces. */
static tn_status on_boundary(pn_frame *f, tn_value *out) {
  const pn_problem *p = problem_of(f);
  tn_value mask = tn_not(always(f)), lo = {0}, hi = {0};
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    const pn_coordinate *c = &p->coordinates[i];
    if (c->role != PN_SPACE || c->periodic || !f->coordinate[i].graph)
      continue;
    TN_TRY(pn_frame_end(f, i, 0, &lo));
    TN_TRY(pn_frame_end(f, i, 1, &hi));
    mask = tn_either(mask, tn_either(tn_eq(f->coordinate[i], lo), tn_eq(f->coordinate[i], hi)));
  }
  *out = mask;
  return TN_OK;
}

static tn_status lower_mask(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value a = {0}, b = {0};
  switch (e->kind) {
  case PN_EVERYWHERE:
    *out = always(f);
    return TN_OK;
  case PN_SHAPE:
  case PN_INSIDE:
    TN_TRY(pn_frame_inside(f, e, &a));
    *out = tn_gt(a, pn_frame_number(f, 0.5));
    return TN_OK;
  case PN_BOUNDARY:
    if (problem_of(f)->region)
      return pn_expr_fail(TN_EUNSUPPORTED, e,
                          "`boundary` of a region is no test for values: it stands in `on`");
    return on_boundary(f, out);
  case PN_NOT:
    TN_TRY(lower_mask(f, e->args[0], &a));
    *out = tn_not(a);
    return TN_OK;
  case PN_AND:
  case PN_OR:
    TN_TRY(lower_mask(f, e->args[0], &a));
    TN_TRY(lower_mask(f, e->args[1], &b));
    *out = e->kind == PN_AND ? tn_both(a, b) : tn_either(a, b);
    return TN_OK;
  default:
    break;
  }
  TN_TRY(pn_frame_lower(f, e->args[0], &a));
  TN_TRY(pn_frame_lower(f, e->args[1], &b));
  pn_place_nodes(graph_of(f), e);
  switch (e->kind) {
  case PN_EQUAL:
    *out = tn_eq(a, b);
    return TN_OK;
  case PN_LESS:
    *out = tn_lt(a, b);
    return TN_OK;
  case PN_GREATER:
    *out = tn_gt(a, b);
    return TN_OK;
  case PN_LESS_EQUAL:
    *out = tn_le(a, b);
    return TN_OK;
  case PN_GREATER_EQUAL:
    *out = tn_ge(a, b);
    return TN_OK;
  default:
    return pn_expr_fail(TN_EINPUT, e, "a comparison is asked for here");
  }
}

static tn_status lower_where(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value mask = {0}, a = {0}, b = {0};
  TN_TRY(lower_mask(f, e->args[0], &mask));
  TN_TRY(pn_frame_lower(f, e->args[1], &a));
  TN_TRY(pn_frame_lower(f, e->args[2], &b));
  pn_place_nodes(graph_of(f), e);
  *out = tn_where(mask, a, b);
  return TN_OK;
}

/* The mean over the points of the mean's own scope, of all or of those where the predicate holds. */
static tn_status mean_in(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value value = {0}, mask = {0};
  TN_TRY(pn_frame_lower(f, e->args[0], &value));
  if (e->n > 1)
    TN_TRY(lower_mask(f, e->args[1], &mask));
  pn_place_nodes(graph_of(f), e);
  tn_shape shape = tn_shape_of(value);
  if (f->scope->weight.graph && e->n > 1)
    return pn_expr_fail(TN_EUNSUPPORTED, e, "a mean over a part of the domain: a reference solution cannot have it");
  if (f->scope->weight.graph && shape.rank > 0) {
    *out = tn_sum_all(tn_mul(value, f->scope->weight));
    return TN_OK;
  }
  if (e->n == 1 || shape.rank == 0) {
    *out = tn_mean(value);
    return TN_OK;
  }
  tn_value zero = pn_frame_number(f, 0), one = pn_frame_number(f, 1);
  tn_value count = tn_broadcast(tn_where(mask, one, zero), shape);
  *out = tn_div(tn_sum_all(tn_where(mask, value, zero)), tn_sum_all(count));
  return TN_OK;
}

static tn_status lower_mean(pn_frame *f, const pn_expr *e, tn_value *out) {
  pn_scope *scope = NULL;
  TN_TRY(pn_scope_mean(f->scope, &scope));
  pn_frame inner = pn_frame_of(scope);
  tn_status status = mean_in(&inner, e, out);
  pn_frame_done(&inner);
  return status;
}

/* ---- Names -------------------------------------------------------------------------------------- */

tn_status pn_frame_coordinate(pn_frame *f, size_t index, tn_value *out) {
  *out = f->coordinate[index];
  size_t unknown = problem_of(f)->coordinates[index].unknown;
  return out->graph || unknown == PN_NONE ? TN_OK : pn_frame_unknown(f, unknown, out);
}

static tn_status lower_coordinate(pn_frame *f, const pn_expr *e, tn_value *out) {
  TN_TRY(pn_frame_coordinate(f, e->index, out));
  if (out->graph)
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e, "`%s` has no value here",
                      problem_of(f)->coordinates[e->index].name);
}

static tn_status lower_constant(pn_frame *f, const pn_expr *e, tn_value *out) {
  const pn_constant *c = &problem_of(f)->constants[e->index];
  *out = tn_scalar(graph_of(f), c->name, f->scope->model->dtype, c->value);
  return TN_OK;
}

/* A table has values at the points of the scope only: one input leaf there. */
static tn_status lower_table(pn_frame *f, const pn_expr *e, tn_value *out) {
  pn_scope *s = f->scope;
  const pn_table_entry *table = &problem_of(f)->tables[e->index];
  for (size_t i = 0; i < table->n_of; ++i)
    if (!tn_same(f->coordinate[table->of[i]], s->coordinate[table->of[i]]))
      return pn_expr_fail(TN_EUNSUPPORTED, e,
                          "the table `%s` has values at the points themselves, not "
                          "at another %s",
                          table->name, problem_of(f)->coordinates[table->of[i]].name);
  for (size_t i = 0; i < s->n_tables; ++i)
    if (s->table[i] == e->index) {
      *out = s->table_leaf[i];
      return TN_OK;
    }
  if (s->n_tables == sizeof s->table / sizeof s->table[0])
    return pn_expr_fail(TN_EUNSUPPORTED, e, "more than %zu tables in one condition", s->n_tables);
  tn_shape shape = s->axis ? tn_shape_points(s->axis) : tn_shape_scalar();
  *out = tn_input(graph_of(f), table->name, s->model->dtype, shape);
  s->table[s->n_tables] = e->index;
  s->table_leaf[s->n_tables++] = *out;
  return TN_OK;
}

static tn_status lower_definition(pn_frame *f, const pn_expr *e, tn_value *out) {
  pn_problem *p = problem_of(f);
  const pn_definition *d = &p->definitions[e->index];
  if (!f->definition)
    TN_TRY(TN_NEW(p->n_definitions, &f->definition));
  if (!f->definition[e->index].graph) {
    pn_expr *tree = d->scalar;
    if (!tree)
      TN_TRY(pn_scalar(p, d->value, 0, f->scope->piece, &tree));
    TN_TRY(pn_frame_lower(f, tree, &f->definition[e->index]));
  }
  *out = f->definition[e->index];
  return TN_OK;
}

/* ---- Elsewhere, and derivatives ----------------------------------------------------------------- */

static tn_status lower_at(pn_frame *f, const pn_expr *e, tn_value *out) {
  tn_value value[PN_MAX_COORDINATES] = {{0}};
  pn_frame inner = pn_frame_copy(f);
  for (size_t i = 0; i < e->n_axes; ++i)
    TN_TRY(pn_frame_lower(f, e->args[1 + i], &value[i]));
  for (size_t i = 0; i < e->n_axes; ++i)
    pn_frame_set(&inner, e->axes[i], value[i]);
  tn_status status = pn_frame_lower(&inner, e->args[0], out);
  pn_frame_done(&inner);
  return status;
}

/* Gives every axis a leaf of its own in `inner`; from[] and to[] say what stands for what. */
static tn_status open_axes(pn_frame *f, size_t n, const size_t *axes, pn_frame *inner,
                           size_t *n_from, tn_value *from, tn_value *to) {
  const pn_problem *p = problem_of(f);
  *n_from = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t axis = axes[i];
    if (inner->variable >> axis & 1u)
      continue;
    tn_value old = {0};
    TN_TRY(pn_frame_coordinate(f, axis, &old));
    if (!old.graph)
      return TN_FAIL(TN_EINPUT, "a derivative along `%s`, which has no value here",
                     p->coordinates[axis].name);
    char name[96];
    snprintf(name, sizeof name, "place%zu.%s", f->depth + 1, p->coordinates[axis].name);
    from[*n_from] = tn_input(graph_of(f), name, f->scope->model->dtype, tn_shape_of(old));
    to[*n_from] = old;
    inner->coordinate[axis] = from[*n_from];
    inner->variable |= UINT32_C(1) << axis;
    inner->depth = f->depth + 1;
    ++*n_from;
  }
  return TN_OK;
}

/* One ag_d for each different axis: partial derivatives commute. */
static tn_value differentiate(const pn_frame *f, size_t n, const size_t *axes, tn_value e) {
  for (size_t i = 0; i < n; ++i) {
    int times = 0;
    bool seen = false;
    for (size_t k = 0; k < i; ++k)
      seen |= axes[k] == axes[i];
    if (seen)
      continue;
    for (size_t k = i; k < n; ++k)
      times += axes[k] == axes[i];
    e = ag_d(e, f->coordinate[axes[i]], times);
  }
  return e;
}

tn_status pn_frame_derivative(pn_frame *f, size_t n, const size_t *axes, pn_framed value,
                              const void *what, tn_value *out) {
  tn_value from[PN_MAX_COORDINATES], to[PN_MAX_COORDINATES];
  size_t n_from = 0;
  pn_frame inner = pn_frame_copy(f);
  TN_TRY(open_axes(f, n, axes, &inner, &n_from, from, to));
  pn_frame *where = n_from ? &inner : f; /* nothing replaced: what is lowered already serves */
  tn_status status = value(where, what, out);
  pn_frame_done(&inner);
  TN_TRY(status);
  *out = differentiate(where, n, axes, *out);
  if (!tn_ok(*out))
    return pn_lost_value(graph_of(f));
  if (n_from)
    TN_TRY(ag_substitute(graph_of(f), n_from, from, to, 1, out, out));
  return TN_OK;
}

/* A table that varies along one of the axes (bits), also behind definitions and unknowns. */
static bool varies_by_table(const pn_frame *f, const pn_expr *e, uint32_t axes) {
  const pn_problem *p = problem_of(f);
  if (e->kind == PN_TABLE)
    return (pn_expr_depends(p, e) & axes) != 0;
  if (e->kind == PN_DEFINITION)
    return varies_by_table(f, p->definitions[e->index].value, axes);
  if (e->kind == PN_UNKNOWN) {
    const pn_unknown *u = &p->unknowns[e->index];
    const pn_expr *tree = f->scope->exact ? u->exact : u->ansatz;
    return tree && varies_by_table(f, tree, axes);
  }
  for (size_t i = 0; i < e->n; ++i)
    if (varies_by_table(f, e->args[i], axes))
      return true;
  return false;
}

static tn_status lower_framed(pn_frame *f, const void *what, tn_value *out) {
  return pn_frame_lower(f, what, out);
}

static tn_status lower_derivative(pn_frame *f, const pn_expr *e, tn_value *out) {
  const pn_problem *p = problem_of(f);
  uint32_t axes = 0;
  for (size_t i = 0; i < e->n_axes; ++i)
    axes |= UINT32_C(1) << e->axes[i];
  if (axes & ~pn_expr_depends(p, e->args[0]) & ((UINT32_C(1) << p->n_coordinates) - 1)) { /* along something that it does not depend on */
    *out = pn_frame_number(f, 0);
    return TN_OK;
  }
  if (p->n_tables && varies_by_table(f, e->args[0], axes))
    return pn_expr_fail(TN_EUNSUPPORTED, e,
                        "a derivative of a table: this version of pinn does not "
                        "have it");
  TN_TRY(pn_frame_derivative(f, e->n_axes, e->axes, lower_framed, e->args[0], out));
  pn_place_nodes(graph_of(f), e);
  return TN_OK;
}

/* ---- The walk ----------------------------------------------------------------------------------- */

static tn_status lower_node(pn_frame *f, const pn_expr *e, tn_value *out) {
  switch (e->kind) {
  case PN_NUMBER:
  case PN_BOUND:
    *out = pn_frame_number(f, e->number);
    return TN_OK;
  case PN_NEGATE:
    return lower_negate(f, e, out);
  case PN_ADD:
  case PN_SUBTRACT:
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return lower_binary(f, e, out);
  case PN_POWER:
    return lower_power(f, e, out);
  case PN_CONSTANT_REF:
    return lower_constant(f, e, out);
  case PN_PARAMETER_REF:
    return pn_frame_parameter(f, e->index, out);
  case PN_COLUMN:
    if (f->scope->data)
      return pn_scope_column(f->scope, e->index, e->name, out);
    return pn_expr_fail(TN_EINPUT, e, "the column `%s` has values in the rows of its data only",
                        e->name);
  case PN_COORDINATE:
    return lower_coordinate(f, e, out);
  case PN_UNKNOWN:
    pn_place_nodes(graph_of(f), e);
    return pn_frame_unknown(f, e->index, out);
  case PN_NET:
    pn_place_nodes(graph_of(f), e);
    return pn_frame_net(f, e->index, out);
  case PN_DEFINITION:
    return lower_definition(f, e, out);
  case PN_TABLE:
    return lower_table(f, e, out);
  case PN_DERIVATIVE:
    return lower_derivative(f, e, out);
  case PN_AT:
    return lower_at(f, e, out);
  case PN_FUNCTION:
    return lower_function(f, e, out);
  case PN_EXTERNAL:
    return lower_external(f, e, out);
  case PN_WHERE:
    return lower_where(f, e, out);
  case PN_MEAN:
    return lower_mean(f, e, out);
  case PN_INTEGRAL_OF:
    return pn_frame_integral(f, e, out);
  case PN_DUMMY:
    *out = f->dummy[e->index];
    return out->graph ? TN_OK : pn_expr_fail(TN_EINPUT, e, "`%s` has no value here", e->name);
  case PN_INSIDE:
    return pn_frame_inside(f, e, out);
  case PN_DIVERGENCE:
  case PN_LAPLACE:
  case PN_CURL:
  case PN_DOT:
  case PN_NORM:
  case PN_NORMAL_DERIVATIVE:
  case PN_NORMAL: { /* not written out yet */
    if (e->kind == PN_NORMAL && f->scope->normal[e->index].graph) {
      *out = f->scope->normal[e->index];
      return TN_OK;
    }
    pn_expr *tree = NULL;
    if (e->components != 1)
      break;
    TN_TRY(pn_scalar(problem_of(f), e, 0, f->scope->piece, &tree));
    return pn_frame_lower(f, tree, out);
  }
  default:
    break;
  }
  return pn_expr_fail(TN_EINPUT, e, "a scalar is asked for here");
}

tn_status pn_frame_lower(pn_frame *frame, const pn_expr *e, tn_value *out) {
  *out = (tn_value){0};
  TN_TRY(lower_node(frame, e, out));
  return tn_ok(*out) ? TN_OK : pn_lost_value(frame->scope->model->graph);
}
