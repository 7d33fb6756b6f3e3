/* lower_integral.c: integrals as sums over their nodes in the graph.
 *
 *   int_a^b e(s) ds  ->  (b - a) sum_k w_k e(a + (b - a) c_k)
 *
 * Every node lowers the integrand in a frame where the variable (or the coordinate) has the node's value, so
 * an unknown there is one more call of its field, at another argument. Limits that depend on the point make
 * nodes that do; what is differentiated inside the integrand keeps them fixed (a node is a value and not a
 * function of x there), and what is differentiated outside does not, which is Leibniz' rule. The nodes are
 * no points of any term: they count in no mean and no residual.
 */
#include "pinn/lower.h"

#include <string.h>

/* The frame of the integrand with the variable at `value`. */
static pn_frame frame_at(const pn_frame *f, const pn_expr *e, tn_value value) {
  pn_frame inner = pn_frame_copy(f);
  double number = 0;
  ++inner.integrals;
  if (e->n_axes) {
    pn_frame_set(&inner, e->axes[0], value);
    return inner;
  }
  inner.dummy[e->index] = value;
  if (!pn_is_number(value, &number))
    inner.variable = 0; /* it may depend on any coordinate, and is not to be differentiated inside */
  return inner;
}

/* a + (b - a) c, as a number where both ends are. */
static tn_value node_between(const pn_frame *f, tn_value a, tn_value b, tn_value width, double c) {
  double x = 0, y = 0;
  bool low = pn_is_number(a, &x), high = pn_is_number(b, &y);
  if (low && high)
    return pn_frame_number(f, x + (y - x) * c);
  tn_value step = tn_mul(width, pn_frame_number(f, c));
  return low && x == 0 ? step : tn_add(a, step);
}

static tn_value width_of(const pn_frame *f, tn_value a, tn_value b) {
  double x = 0, y = 0;
  bool low = pn_is_number(a, &x), high = pn_is_number(b, &y);
  if (low && high)
    return pn_frame_number(f, y - x);
  return low && x == 0 ? b : tn_sub(b, a);
}

tn_status pn_frame_integral(pn_frame *f, const pn_expr *e, tn_value *out) {
  pn_rule rule;
  tn_value a = {0}, b = {0}, sum = {0};
  const pn_problem *p = f->scope->model->problem;
  size_t nest = f->integrals + pn_integrals_in(p, e);
  if (nest > PN_MOST_INTEGRALS)
    return pn_expr_fail(TN_EINPUT, e, "more than %d integrals inside each other", PN_MOST_INTEGRALS);
  pn_rule_of(e->number > 0 ? (size_t)e->number : pn_integral_nodes(nest), &rule);
  TN_TRY(pn_frame_lower(f, e->args[1], &a));
  TN_TRY(pn_frame_lower(f, e->args[2], &b));
  tn_value width = width_of(f, a, b);
  for (size_t k = 0; k < rule.n; ++k) {
    tn_value value = {0};
    pn_frame inner = frame_at(f, e, node_between(f, a, b, width, rule.node[k]));
    tn_status status = pn_frame_lower(&inner, e->args[0], &value);
    pn_frame_done(&inner);
    TN_TRY(status);
    pn_place_nodes(f->scope->model->graph, e);
    tn_value part = tn_mul(pn_frame_number(f, rule.weight[k]), value);
    sum = k ? tn_add(sum, part) : part;
  }
  *out = tn_mul(width, sum);
  return TN_OK;
}
