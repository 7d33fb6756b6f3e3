/* tree.c: nodes of trees, names of functions, and what a tree depends on.
 *
 * Heights are kept in the nodes, so that a tree too high to recurse over is refused when it is
 * made. Dependence is a set of bits, one for a coordinate or an unknown; definitions carry theirs,
 * so that a tree is walked once however often its definitions refer to each other.
 */
#include "pinn/resolve.h"

#include <string.h>

tn_status pn_expr_make(pn_arena *arena, pn_kind kind, const pn_expr *like, size_t n,
                       pn_expr *const *args, pn_expr **out) {
  TN_TRY(PN_TAKE(arena, 1, out));
  pn_expr *e = *out;
  e->kind = kind;
  e->n = n;
  e->height = 1;
  e->components = 1;
  if (like) {
    e->phrase = like->phrase;
    e->start = like->start;
    e->length = like->length;
  }
  if (n == 0)
    return TN_OK;
  TN_TRY(PN_TAKE(arena, n, &e->args));
  for (size_t i = 0; i < n; ++i) {
    e->args[i] = args[i];
    e->is_complex |= args[i]->is_complex && kind != PN_FUNCTION && kind != PN_NORM;
    if (args[i]->height >= e->height)
      e->height = args[i]->height + 1;
  }
  if (e->height > PN_MAX_HEIGHT)
    return pn_expr_fail(TN_EINPUT, e,
                        "the expression is too long: more than %d steps inside "
                        "each other; split it into definitions",
                        PN_MAX_HEIGHT);
  return TN_OK;
}

tn_status pn_expr_number(pn_arena *arena, double value, const pn_expr *like, pn_expr **out) {
  TN_TRY(pn_expr_make(arena, PN_NUMBER, like, 0, NULL, out));
  (*out)->number = value;
  return TN_OK;
}

const char *pn_function_name(pn_function function) {
  static const char *const names[] = {
#define FUNCTION(name, least, most, available, meaning) #name,
#include "pinn/functions.def"
#undef FUNCTION
  };
  return function < PN_FUNCTIONS ? names[function] : "?";
}

pn_arity pn_function_arity(pn_function function) {
  static const pn_arity rows[] = {
#define FUNCTION(name, least, most, available, meaning) {least, most, available},
#include "pinn/functions.def"
#undef FUNCTION
  };
  return function < PN_FUNCTIONS ? rows[function] : (pn_arity){0, 0, false};
}

bool pn_function_find(const char *name, pn_function *out) {
  for (int f = 0; f < PN_FUNCTIONS; ++f) {
    if (strcmp(pn_function_name((pn_function)f), name) != 0)
      continue;
    *out = (pn_function)f;
    return true;
  }
  return false;
}

size_t pn_coordinate_find(const pn_problem *problem, const char *name, size_t length) {
  for (size_t c = 0; c < problem->n_coordinates; ++c)
    if (strlen(problem->coordinates[c].name) == length &&
        strncmp(problem->coordinates[c].name, name, length) == 0)
      return c;
  return PN_NONE;
}

/* ---- Dependence ----------------------------------------------------------------------------- */

static uint32_t bits_of(const size_t *axes, size_t n) {
  uint32_t bits = 0;
  for (size_t i = 0; i < n; ++i)
    bits |= UINT32_C(1) << axes[i];
  return bits;
}

static uint32_t bits_of_space(const pn_problem *problem) {
  uint32_t bits = 0;
  for (size_t i = 0; i < problem->n_coordinates; ++i)
    bits |= (uint32_t)(problem->coordinates[i].role == PN_SPACE) << i;
  return bits;
}

uint32_t pn_expr_depends(const pn_problem *problem, const pn_expr *expr) {
  uint32_t bits = 0;
  size_t first = 0;
  switch (expr->kind) {
  case PN_COORDINATE:
    if (problem->coordinates[expr->index].unknown != PN_NONE)
      return pn_unknown_depends(problem, problem->coordinates[expr->index].unknown, 0);
    return UINT32_C(1) << expr->index;
  case PN_UNKNOWN:
    return pn_unknown_depends(problem, expr->index, 0);
  case PN_TABLE:
    return bits_of(problem->tables[expr->index].of, problem->tables[expr->index].n_of);
  case PN_DEFINITION:
    return problem->definitions[expr->index].depends;
  case PN_MEAN:
    return 0;
  case PN_SHAPE:
  case PN_INTERFACE:
  case PN_INSIDE:
    return bits_of_space(problem);
  case PN_BOUNDARY:
  case PN_NET:
    return (UINT32_C(1) << problem->n_coordinates) - 1;
  case PN_AT: {
    const pn_expr *field = expr->args[0];
    if (field->kind == PN_DERIVATIVE)
      field = field->args[0];
    uint32_t fixed = bits_of(expr->axes, expr->n_axes);
    bits = field->kind == PN_UNKNOWN ? pn_unknown_depends(problem, field->index, fixed)
                                     : pn_expr_depends(problem, expr->args[0]) & ~fixed;
    first = 1;
    break;
  }
  case PN_INTEGRAL_OF:
    bits = pn_expr_depends(problem, expr->args[0]) & ~bits_of(expr->axes, expr->n_axes);
    first = 1;
    break;
  default:
    break;
  }
  for (size_t i = first; i < expr->n; ++i)
    bits |= pn_expr_depends(problem, expr->args[i]);
  return bits;
}

bool pn_is_constant(const pn_expr *e) {
  bool fixed = e->kind == PN_NUMBER || e->kind == PN_CONSTANT_REF || e->kind == PN_BOUND;
  bool folds = (e->kind >= PN_NEGATE && e->kind <= PN_POWER) ||
               (e->kind == PN_FUNCTION && e->index != PN_FN_cole_hopf);
  for (size_t i = 0; i < e->n && folds; ++i)
    folds = pn_is_constant(e->args[i]);
  return fixed || folds;
}

bool pn_mentions_column(const pn_expr *e) {
  bool found = e->kind == PN_COLUMN;
  for (size_t i = 0; i < e->n && !found; ++i)
    found = pn_mentions_column(e->args[i]);
  return found;
}

uint64_t pn_expr_parameters(const pn_problem *problem, const pn_expr *expr) {
  if (expr->kind == PN_PARAMETER_REF)
    return expr->index < 64 ? UINT64_C(1) << expr->index : 0;
  if (expr->kind == PN_DEFINITION)
    return problem->definitions[expr->index].parameters;
  uint64_t bits = 0;
  for (size_t i = 0; i < expr->n; ++i)
    bits |= pn_expr_parameters(problem, expr->args[i]);
  return bits;
}

uint64_t pn_expr_unknowns(const pn_problem *problem, const pn_expr *expr) {
  if (expr->kind == PN_UNKNOWN)
    return pn_unknown_bits(problem, expr->index);
  if (expr->kind == PN_COORDINATE && problem->coordinates[expr->index].unknown != PN_NONE)
    return pn_unknown_bits(problem, problem->coordinates[expr->index].unknown);
  if (expr->kind == PN_DEFINITION)
    return problem->definitions[expr->index].unknowns;
  uint64_t bits = 0;
  for (size_t i = 0; i < expr->n; ++i)
    bits |= pn_expr_unknowns(problem, expr->args[i]);
  return bits;
}

/* ---- Coordinates ----------------------------------------------------------------------------- */

size_t pn_space_axes(const pn_problem *problem, size_t axes[PN_MAX_COORDINATES]) {
  size_t n = 0;
  for (size_t i = 0; i < problem->n_coordinates; ++i)
    if (problem->coordinates[i].role == PN_SPACE)
      axes[n++] = i;
  return n;
}

bool pn_unknown_has(const pn_unknown *unknown, size_t coordinate) {
  for (size_t i = 0; i < unknown->n_of; ++i)
    if (unknown->of[i] == coordinate)
      return true;
  return false;
}
