/* scalar.c: vector expressions written out as scalar ones.
 *
 * Programs are made of scalars at a point. Component k of a tree with vectors is again a tree:
 *
 *   (a, b)_k = k-th entry        (s a)_k = s a_k             (a + b)_k = a_k + b_k
 *   grad(e)_k = e_{x_k}          div(a) = sum a_k,{x_k}      lap(e)_k = sum e_k,{x_i x_i}
 *   dot(a, b) = sum a_i b_i      norm(a) = sqrt(sum a_i^2)   dn(e)_k = n e_k,{x_n}
 *   curl(a) = a_2,{x_1} - a_1,{x_2} in two dimensions, the usual three entries in three
 *
 * with x_1, x_2, ... the space coordinates in file order and n = 1 or -1 the outward normal, which is along x_n
 * (complex ones: scalar_complex.c; in other metrics: scalar_metric.c); on a curved face dn(e)_k = sum n_i e_k,{x_i} with n_i numbers of the
 * point, which do not vary. Definitions that are scalar stay references (the lowering shares them); vectors, and
 * what needs a normal, are copied in.
 */
#include "pinn/scalar.h"

#include <string.h>

enum { MOST_NODES = 300000 };

typedef pn_writing writing;

static tn_status write_out(writing *w, const pn_expr *e, size_t k, pn_expr **out);

static tn_status make(writing *w, pn_kind kind, const pn_expr *like, size_t n, pn_expr *const *args,
                      pn_expr **out) {
  if (w->budget == 0)
    return pn_expr_fail(TN_EINPUT, like, "the expression expands to more than %d terms",
                        MOST_NODES);
  --w->budget;
  return pn_expr_make(w->problem->arena, kind, like, n, args, out);
}

tn_status pn_writing_make(writing *w, pn_kind kind, const pn_expr *like, size_t n,
                          pn_expr *const *args, pn_expr **out) {
  return make(w, kind, like, n, args, out);
}

/* d e / d x_axis, joined with a derivative that e already is. */
static tn_status derivative(writing *w, const pn_expr *like, pn_expr *e, size_t axis, size_t times,
                            pn_expr **out) {
  if (e->kind == PN_NUMBER && like->is_complex) { /* a part that is not there */
    TN_TRY(make(w, PN_NUMBER, like, 0, NULL, out));
    return TN_OK;
  }
  const pn_expr *old = e->kind == PN_DERIVATIVE ? e : NULL;
  size_t before = old ? old->n_axes : 0;
  pn_expr *inside = old ? old->args[0] : e;
  TN_TRY(make(w, PN_DERIVATIVE, like, 1, &inside, out));
  pn_expr *d = *out;
  d->n_axes = before + times;
  TN_TRY(PN_TAKE(w->problem->arena, d->n_axes, &d->axes));
  if (before)
    memcpy(d->axes, old->axes, before * sizeof *d->axes);
  for (size_t i = 0; i < times; ++i)
    d->axes[before + i] = axis;
  return TN_OK;
}

/* *sum = *sum + term; *sum NULL is an empty sum. */
static tn_status add(writing *w, const pn_expr *like, pn_expr *term, pn_expr **sum) {
  if (!*sum) {
    *sum = term;
    return TN_OK;
  }
  return make(w, PN_ADD, like, 2, (pn_expr *[]){*sum, term}, sum);
}

static tn_status derivative_of(writing *w, const pn_expr *like, const pn_expr *e, size_t k,
                               size_t axis, size_t times, pn_expr **out) {
  pn_expr *inside = NULL;
  TN_TRY(write_out(w, e, k, &inside));
  return derivative(w, like, inside, axis, times, out);
}

tn_status pn_writing_derivative(writing *w, const pn_expr *like, const pn_expr *e, size_t k,
                                size_t axis, size_t times, pn_expr **out) {
  return times ? derivative_of(w, like, e, k, axis, times, out) : write_out(w, e, k, out);
}

static tn_status divergence(writing *w, const pn_expr *e, pn_expr **out) {
  *out = NULL;
  if (w->problem->metric)
    return pn_metric_divergence(w, e, out);
  for (size_t i = 0; i < w->n_space; ++i) {
    pn_expr *term = NULL;
    TN_TRY(derivative_of(w, e, e->args[0], i, w->space[i], 1, &term));
    TN_TRY(add(w, e, term, out));
  }
  return TN_OK;
}

static tn_status laplace(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  *out = NULL;
  if (w->problem->metric)
    return pn_metric_laplace(w, e, out);
  for (size_t i = 0; i < w->n_space; ++i) {
    pn_expr *term = NULL;
    TN_TRY(derivative_of(w, e, e->args[0], k, w->space[i], 2, &term));
    TN_TRY(add(w, e, term, out));
  }
  return TN_OK;
}

/* Component k is a_{k+2},{k+1} - a_{k+1},{k+2}, indices modulo 3; in the plane only the third. */
static tn_status curl(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  if (w->problem->metric)
    return pn_metric_curl(w, e, k, out);
  size_t i = w->n_space == 2 ? 0 : (k + 1) % 3, j = w->n_space == 2 ? 1 : (k + 2) % 3;
  pn_expr *terms[2] = {NULL, NULL};
  TN_TRY(derivative_of(w, e, e->args[0], j, w->space[i], 1, &terms[0]));
  TN_TRY(derivative_of(w, e, e->args[0], i, w->space[j], 1, &terms[1]));
  return make(w, PN_SUBTRACT, e, 2, terms, out);
}

static tn_status dot(writing *w, const pn_expr *e, const pn_expr *a, const pn_expr *b,
                     pn_expr **out) {
  *out = NULL;
  for (size_t i = 0; i < a->components; ++i) {
    pn_expr *pair[2] = {NULL, NULL}, *term = NULL;
    TN_TRY(write_out(w, a, i, &pair[0]));
    TN_TRY(write_out(w, b, i, &pair[1]));
    TN_TRY(make(w, PN_MULTIPLY, e, 2, pair, &term));
    TN_TRY(add(w, e, term, out));
  }
  return TN_OK;
}

static tn_status norm(writing *w, const pn_expr *e, pn_expr **out) {
  pn_expr *square = NULL;
  TN_TRY(dot(w, e, e->args[0], e->args[0], &square));
  TN_TRY(make(w, PN_FUNCTION, e, 1, &square, out));
  (*out)->index = PN_FN_sqrt;
  return TN_OK;
}

/* The normal along `axis`: 1, -1 or 0. */
static tn_status normal(const writing *w, const pn_expr *e, int *sign, size_t *axis) {
  if (!w->piece || w->piece->normal == PN_NONE)
    return pn_expr_fail(TN_EINPUT, e,
                        "there is no outward normal here: it exists on faces of the "
                        "domain, not on edges, inside, or at an end of the time");
  *sign = w->piece->sign;
  *axis = w->piece->normal;
  return TN_OK;
}

/* normal_x where every point has its own normal: a leaf of the scope. */
static tn_status component_of_normal(writing *w, const pn_expr *e, size_t axis, pn_expr **out) {
  char *name = NULL;
  TN_TRY(make(w, PN_NORMAL, e, 0, NULL, out));
  TN_TRY(
      pn_arena_format(w->problem->arena, &name, "normal_%s", w->problem->coordinates[axis].name));
  (*out)->name = name;
  (*out)->index = axis;
  return TN_OK;
}

static bool is_curved(const writing *w) {
  return w->piece && w->piece->whole && w->piece->normal == PN_NONE;
}

/* sum of n_i e_{x_i} */
static tn_status along_normals(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  *out = NULL;
  for (size_t i = 0; i < w->n_space; ++i) {
    pn_expr *pair[2] = {NULL, NULL}, *term = NULL;
    TN_TRY(component_of_normal(w, e, w->space[i], &pair[0]));
    TN_TRY(derivative_of(w, e, e->args[0], k, w->space[i], 1, &pair[1]));
    TN_TRY(make(w, PN_MULTIPLY, e, 2, pair, &term));
    TN_TRY(add(w, e, term, out));
  }
  return TN_OK;
}

static tn_status normal_derivative(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  int sign = 0;
  size_t axis = 0;
  if (is_curved(w))
    return along_normals(w, e, k, out);
  TN_TRY(normal(w, e, &sign, &axis));
  TN_TRY(derivative_of(w, e, e->args[0], k, axis, 1, out));
  if (w->problem->metric)
    TN_TRY(pn_metric_over_length(w, e, axis, out));
  return sign < 0 ? make(w, PN_NEGATE, e, 1, (pn_expr *[]){*out}, out) : TN_OK;
}

static tn_status definition(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  const pn_definition *d = &w->problem->definitions[e->index];
  if (d->value->components > 1 || d->has_normal || d->value->is_complex)
    return write_out(w, d->value, k, out);
  TN_TRY(make(w, PN_DEFINITION, e, 0, NULL, out));
  (*out)->index = e->index;
  (*out)->name = e->name;
  return TN_OK;
}

/* Predicates, places and limits are real beside a complex value. */
static bool is_aside(const pn_expr *e, size_t i) {
  if (e->kind == PN_WHERE)
    return i == 0;
  return i > 0 && (e->kind == PN_AT || e->kind == PN_MEAN || e->kind == PN_INTEGRAL_OF);
}

/* Nodes that stay: a copy over the written-out arguments. Scalar arguments have component 0, also
 * where the node itself has several (s * a, a(x = s), where(p, a, b)). */
static tn_status copy(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  pn_expr **args = NULL;
  TN_TRY(PN_TAKE(w->problem->arena, e->n, &args));
  for (size_t i = 0; i < e->n; ++i) {
    int part = w->part;
    if (is_aside(e, i))
      w->part = 0;
    TN_TRY(write_out(w, e->args[i], e->args[i]->components > 1 ? k : 0, &args[i]));
    w->part = part;
  }
  TN_TRY(make(w, e->kind, e, e->n, args, out));
  (*out)->number = e->number;
  (*out)->index = e->index;
  (*out)->name = e->name;
  (*out)->n_axes = e->n_axes;
  (*out)->axes = e->axes;
  return TN_OK;
}

tn_status pn_writing_out(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  return write_out(w, e, k, out);
}

static tn_status write_out(writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  int sign = 0;
  size_t axis = 0;
  bool done = false;
  TN_TRY(pn_writing_complex(w, e, k, &done, out));
  if (done)
    return TN_OK;
  switch (e->kind) {
  case PN_TUPLE:
    return write_out(w, e->args[k], 0, out);
  case PN_GRAD:
    TN_TRY(derivative_of(w, e, e->args[0], 0, w->space[k], 1, out));
    return w->problem->metric ? pn_metric_over_length(w, e, w->space[k], out) : TN_OK;
  case PN_DIVERGENCE:
    return divergence(w, e, out);
  case PN_LAPLACE:
    return laplace(w, e, k, out);
  case PN_CURL:
    return curl(w, e, k, out);
  case PN_DOT:
    return dot(w, e, e->args[0], e->args[1], out);
  case PN_NORM:
    return norm(w, e, out);
  case PN_NORMAL_DERIVATIVE:
    return normal_derivative(w, e, k, out);
  case PN_NORMAL:
    if (is_curved(w))
      return component_of_normal(w, e, e->index, out);
    TN_TRY(normal(w, e, &sign, &axis));
    return pn_expr_number(w->problem->arena, e->index == axis ? sign : 0, e, out);
  case PN_DEFINITION:
    return definition(w, e, k, out);
  case PN_DERIVATIVE: { /* the inside may have become a derivative: join them */
    pn_expr *inside = NULL;
    TN_TRY(write_out(w, e->args[0], k, &inside));
    *out = inside;
    for (size_t i = 0; i < e->n_axes; ++i)
      TN_TRY(derivative(w, e, *out, e->axes[i], 1, out));
    return TN_OK;
  }
  default:
    return copy(w, e, k, out);
  }
}

tn_status pn_scalar(pn_problem *problem, const pn_expr *expr, size_t k, const pn_piece *piece,
                    pn_expr **out) {
  writing w = {.problem = problem, .piece = piece, .budget = MOST_NODES};
  w.n_space = pn_space_axes(problem, w.space);
  w.part = (k & PN_IMAGINARY) != 0;
  k &= ~PN_IMAGINARY;
  if (k >= expr->components)
    return pn_expr_fail(TN_ERANGE, expr, "component %zu of %zu", k, expr->components);
  return write_out(&w, expr, k, out);
}
