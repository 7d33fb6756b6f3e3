/* constant.c: the values of constant expressions, in double.
 *
 * Constants may be written in any order; each is evaluated when it is first asked for, and meeting
 * one that is still being evaluated is a cycle. The same evaluator serves ranges, weights, piece
 * filters and exact solutions at a point: everything without unknowns, derivatives and tables.
 *
 * Whole powers are repeated products by squaring, as in programs, so that (-2)^3 and 0^0 = 1 mean
 * the same everywhere. A value that is not finite is an error at its sub-expression. Definitions
 * may share each other many times over; a budget of evaluated nodes keeps that from taking forever.
 */
#include "pinn/data.h"
#include "pinn/external.h"
#include "pinn/integral.h"
#include "pinn/names.h"
#include "pinn/region.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 10000000, LARGEST_POWER = 1024 };

typedef struct evaluation {
  const pn_problem *problem;
  const double *point; /* NULL: coordinates have no value */
  const pn_data *data; /* NULL: columns have no value */
  size_t row;
  size_t budget;       /* nodes that may still be visited */
  double dummy[PN_MOST_INTEGRALS]; /* variables of the integrals around it */
} evaluation;

static tn_status evaluate(evaluation *v, const pn_expr *e, double *out);
static tn_status holds(evaluation *v, const pn_expr *e, bool *out);

static double whole_power(double x, double n) {
  double result = 1, square = x;
  for (unsigned k = (unsigned)fabs(n); k; k >>= 1) {
    if (k & 1u)
      result *= square;
    square *= square;
  }
  return n < 0 ? 1 / result : result;
}

static double power(double x, double y) {
  bool whole = y == floor(y) && fabs(y) <= LARGEST_POWER;
  return whole ? whole_power(x, y) : pow(x, y);
}

static double apply(pn_function f, double a, double b) {
  switch (f) {
  case PN_FN_sqrt:
    return sqrt(a);
  case PN_FN_exp:
    return exp(a);
  case PN_FN_log:
    return log(a);
  case PN_FN_log10:
    return log10(a);
  case PN_FN_sin:
    return sin(a);
  case PN_FN_cos:
    return cos(a);
  case PN_FN_tan:
    return tan(a);
  case PN_FN_asin:
    return asin(a);
  case PN_FN_acos:
    return acos(a);
  case PN_FN_atan:
    return atan(a);
  case PN_FN_atan2:
    return atan2(a, b);
  case PN_FN_sinh:
    return sinh(a);
  case PN_FN_cosh:
    return cosh(a);
  case PN_FN_tanh:
    return tanh(a);
  case PN_FN_erf:
    return erf(a);
  case PN_FN_abs:
    return fabs(a);
  case PN_FN_sign:
    return (a > 0) - (a < 0);
  case PN_FN_min:
    return b < a ? b : a;
  case PN_FN_max:
    return b > a ? b : a;
  default:
    return NAN;
  }
}

static tn_status call(evaluation *v, const pn_expr *e, double *out) {
  if (e->index == PN_FN_cole_hopf)
    return pn_expr_fail(TN_EUNSUPPORTED, e,
                        "`cole_hopf` has no value here: it is a solution to "
                        "compare with, not a constant");
  double a = 0, b = 0;
  TN_TRY(evaluate(v, e->args[0], &a));
  if (e->n == 1)
    *out = apply((pn_function)e->index, a, 0);
  for (size_t i = 1; i < e->n; ++i) {
    TN_TRY(evaluate(v, e->args[i], &b));
    *out = a = apply((pn_function)e->index, a, b);
  }
  return TN_OK;
}

static tn_status binary(evaluation *v, const pn_expr *e, double *out) {
  double a = 0, b = 0;
  TN_TRY(evaluate(v, e->args[0], &a));
  TN_TRY(evaluate(v, e->args[1], &b));
  switch (e->kind) {
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
    *out = power(a, b);
    break;
  }
  return TN_OK;
}

/* One panel of an integral whose variable is *variable. */
static tn_status panel(evaluation *v, const pn_expr *e, double *variable, double lo, double hi,
                       double *sum, double *size) {
  pn_rule rule;
  pn_rule_of(PN_RULE_MOST, &rule);
  *sum = *size = 0;
  for (size_t k = 0; k < rule.n; ++k) {
    double value = 0;
    *variable = lo + (hi - lo) * rule.node[k];
    TN_TRY(evaluate(v, e->args[0], &value));
    *sum += (hi - lo) * rule.weight[k] * value;
    *size += fabs((hi - lo) * rule.weight[k] * value);
  }
  return TN_OK;
}

/* Halves a panel until its halves add up to it. */
static tn_status halve(evaluation *v, const pn_expr *e, double *variable, double lo, double hi,
                       double whole, int left, double *out) {
  double a = 0, b = 0, size[2], middle = lo + (hi - lo) / 2;
  TN_TRY(panel(v, e, variable, lo, middle, &a, &size[0]));
  TN_TRY(panel(v, e, variable, middle, hi, &b, &size[1]));
  *out = a + b;
  if (left == 0 || fabs(*out - whole) <= 1e-14 * (size[0] + size[1]))
    return TN_OK;
  TN_TRY(halve(v, e, variable, lo, middle, a, left - 1, &a));
  TN_TRY(halve(v, e, variable, middle, hi, b, left - 1, &b));
  *out = a + b;
  return TN_OK;
}

static tn_status integral(evaluation *v, const pn_expr *e, double *out) {
  enum { MOST_HALVINGS = 8 };
  double lo = 0, hi = 0, whole = 0, size = 0, point[PN_MAX_COORDINATES];
  TN_TRY(evaluate(v, e->args[1], &lo));
  TN_TRY(evaluate(v, e->args[2], &hi));
  const double *around = v->point;
  double *variable = &v->dummy[e->index], kept = *variable;
  if (e->n_axes) {
    for (size_t c = 0; c < v->problem->n_coordinates; ++c)
      point[c] = around ? around[c] : NAN;
    v->point = point;
    variable = &point[e->axes[0]];
  }
  tn_status status = panel(v, e, variable, lo, hi, &whole, &size);
  if (status == TN_OK)
    status = halve(v, e, variable, lo, hi, whole, MOST_HALVINGS, out);
  v->point = around;
  if (!e->n_axes)
    *variable = kept;
  return status;
}

static tn_status evaluate_node(evaluation *v, const pn_expr *e, double *out) {
  bool yes = false;
  switch (e->kind) {
  case PN_NUMBER:
  case PN_BOUND:
  case PN_CONSTANT_REF:
    *out = e->number;
    return TN_OK;
  case PN_PARAMETER_REF: {
    const pn_parameter *k = &v->problem->parameters[e->index];
    *out = isnan(k->exact) ? k->start : k->exact;
    return TN_OK;
  }
  case PN_COLUMN:
    if (!v->data)
      return pn_expr_fail(TN_EINPUT, e, "`%s` has a value in the rows of its data only", e->name);
    *out = v->data->column[e->index][v->row];
    return TN_OK;
  case PN_COORDINATE:
    if (!v->point || e->index >= v->problem->n_coordinates)
      return pn_expr_fail(TN_EINPUT, e, "`%s` has no value here", e->name);
    *out = v->point[e->index];
    return TN_OK;
  case PN_NEGATE:
    TN_TRY(evaluate(v, e->args[0], out));
    *out = -*out;
    return TN_OK;
  case PN_ADD:
  case PN_SUBTRACT:
  case PN_MULTIPLY:
  case PN_DIVIDE:
  case PN_POWER:
    return binary(v, e, out);
  case PN_FUNCTION:
    return call(v, e, out);
  case PN_EXTERNAL: {
    double args[2] = {0};
    for (size_t i = 0; i < e->n && i < 2; ++i)
      TN_TRY(evaluate(v, e->args[i], &args[i]));
    return pn_external_value(&v->problem->definitions[e->index], args, out);
  }
  case PN_INSIDE:
    TN_TRY(holds(v, e, &yes));
    *out = yes;
    return TN_OK;
  case PN_WHERE:
    TN_TRY(holds(v, e->args[0], &yes));
    return evaluate(v, e->args[yes ? 1 : 2], out);
  case PN_DUMMY:
    *out = v->dummy[e->index];
    return TN_OK;
  case PN_INTEGRAL_OF:
    return integral(v, e, out);
  case PN_DEFINITION: {
    const pn_definition *d = &v->problem->definitions[e->index];
    return evaluate(v, d->scalar ? d->scalar : d->value, out);
  }
  default:
    return pn_expr_fail(TN_EINPUT, e, "only numbers, constants and functions have a value here");
  }
}

static tn_status evaluate(evaluation *v, const pn_expr *e, double *out) {
  if (v->budget == 0)
    return pn_expr_fail(TN_EINPUT, e, "the expression takes more than %d steps", MOST_NODES);
  --v->budget;
  TN_TRY(evaluate_node(v, e, out));
  if (isnan(*out))
    return pn_expr_fail(TN_EINPUT, e, "the value is not a number");
  if (isinf(*out))
    return pn_expr_fail(TN_EINPUT, e, "the value is %g", *out);
  return TN_OK;
}

static tn_status holds(evaluation *v, const pn_expr *e, bool *out) {
  bool a = false, b = false;
  double x = 0, y = 0;
  switch (e->kind) {
  case PN_EVERYWHERE:
    *out = true;
    return TN_OK;
  case PN_SHAPE:
  case PN_INSIDE:
    if (!v->point)
      return pn_expr_fail(TN_EINPUT, e, "`%s` has no value here", e->name);
    *out = pn_shape_holds(v->problem, e->index, v->point);
    return TN_OK;
  case PN_NOT:
    TN_TRY(holds(v, e->args[0], &a));
    *out = !a;
    return TN_OK;
  case PN_AND:
  case PN_OR:
    TN_TRY(holds(v, e->args[0], &a));
    TN_TRY(holds(v, e->args[1], &b));
    *out = e->kind == PN_AND ? a && b : a || b;
    return TN_OK;
  case PN_EQUAL:
  case PN_LESS:
  case PN_GREATER:
  case PN_LESS_EQUAL:
  case PN_GREATER_EQUAL:
    break;
  default:
    return pn_expr_fail(TN_EINPUT, e, "a comparison is asked for here");
  }
  TN_TRY(evaluate(v, e->args[0], &x));
  TN_TRY(evaluate(v, e->args[1], &y));
  *out = e->kind == PN_EQUAL        ? x == y
         : e->kind == PN_LESS       ? x < y
         : e->kind == PN_GREATER    ? x > y
         : e->kind == PN_LESS_EQUAL ? x <= y
                                    : x >= y;
  return TN_OK;
}

tn_status pn_evaluate(const pn_problem *problem, const pn_expr *expr, const double *point,
                      double *out) {
  evaluation v = {.problem = problem, .point = point, .budget = MOST_NODES};
  return evaluate(&v, expr, out);
}

tn_status pn_evaluate_row(const pn_problem *problem, const pn_expr *expr, const double *point,
                          const pn_data *data, size_t row, double *out) {
  evaluation v = {
      .problem = problem, .point = point, .data = data, .row = row, .budget = MOST_NODES};
  return evaluate(&v, expr, out);
}

tn_status pn_predicate_holds(const pn_problem *problem, const pn_expr *predicate,
                             const double *point, bool *out) {
  evaluation v = {.problem = problem, .point = point, .budget = MOST_NODES};
  return holds(&v, predicate, out);
}

tn_status pn_constant_value(pn_problem *problem, size_t index) {
  pn_constant *c = &problem->constants[index];
  if (c->state == 2)
    return TN_OK;
  if (c->state == 1)
    return pn_fail_at(TN_EINPUT, c->place, strlen(c->name), "constant `%s` depends on itself",
                      c->name);
  c->state = 1;
  if (c->expr) {
    pn_naming scope = {.problem = problem, .what = "a constant", .no_definitions = true};
    TN_TRY(pn_resolve(&scope, c->expr));
    if (c->expr->components != 1)
      return pn_expr_fail(TN_EINPUT, c->expr, "a constant is a number, not a vector");
    TN_TRY(pn_evaluate(problem, c->expr, NULL, &c->value));
  }
  c->state = 2;
  return TN_OK;
}
