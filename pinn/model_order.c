/* model_order.c: how often each unknown's network is differentiated.
 *
 * Orders add along a path of the tree: u_xx inside (...)_x is 3, and an ansatz x*(net - net_x(x=1)) adds 1
 * to whatever the equation asks of the unknown. What counts is the total order, because a network is as
 * smooth along one input as along another. Orders inside a definition are found once and remembered.
 */
#include "pinn/model.h"

enum { ABSENT = -1, UNSEEN = -2 };

typedef struct search {
  const pn_problem *problem;
  size_t unknown;
  int *definition; /* order of the unknown inside each; UNSEEN */
  int ansatz;      /* of the net inside the unknown's ansatz */
} search;

static int larger(int a, int b) { return a > b ? a : b; }

static int order_of(search *s, const pn_expr *e) {
  int order = ABSENT, own = 0;
  switch (e->kind) {
  case PN_UNKNOWN:
    return e->index == s->unknown ? s->ansatz : ABSENT;
  case PN_NET:
    return 0;
  case PN_DEFINITION:
    if (s->definition[e->index] == UNSEEN)
      s->definition[e->index] = order_of(s, s->problem->definitions[e->index].value);
    return s->definition[e->index];
  case PN_DERIVATIVE:
    own = (int)e->n_axes;
    break;
  case PN_GRAD:
  case PN_DIVERGENCE:
  case PN_CURL:
  case PN_NORMAL_DERIVATIVE:
    own = 1;
    break;
  case PN_LAPLACE:
    own = 2;
    break;
  default:
    break;
  }
  for (size_t i = 0; i < e->n; ++i)
    order = larger(order, order_of(s, e->args[i]));
  return order == ABSENT ? ABSENT : order + own;
}

static void begin(search *s, size_t unknown) {
  const pn_unknown *u = &s->problem->unknowns[unknown];
  s->unknown = unknown;
  s->ansatz = 0;
  for (size_t i = 0; i < s->problem->n_definitions; ++i)
    s->definition[i] = UNSEEN;
  if (u->ansatz)
    s->ansatz = larger(0, order_of(s, u->ansatz));
  for (size_t i = 0; i < s->problem->n_definitions; ++i)
    s->definition[i] = UNSEEN;
}

tn_status pn_expr_orders(const pn_problem *problem, const pn_expr *expr, int *order) {
  search s = {.problem = problem};
  TN_TRY(TN_NEW(problem->n_definitions, &s.definition));
  for (size_t u = 0; u < problem->n_unknowns; ++u) {
    begin(&s, u);
    order[u] = order_of(&s, expr);
  }
  tn_free(&s.definition);
  return TN_OK;
}

static void search_terms(search *s, size_t n, const pn_term *terms, int *order,
                         const pn_term **term) {
  for (size_t i = 0; i < n; ++i)
    for (size_t r = 0; r < terms[i].n_relations; ++r) {
      int found = order_of(s, terms[i].relations[r].whole);
      if (found <= order[s->unknown])
        continue;
      order[s->unknown] = found;
      if (term)
        term[s->unknown] = &terms[i];
    }
}

tn_status pn_problem_orders(const pn_problem *problem, int *order, const pn_term **term) {
  search s = {.problem = problem};
  TN_TRY(TN_NEW(problem->n_definitions, &s.definition));
  for (size_t u = 0; u < problem->n_unknowns; ++u) {
    order[u] = ABSENT;
    if (term)
      term[u] = NULL;
    begin(&s, u);
    search_terms(&s, problem->n_equations, problem->equations, order, term);
    search_terms(&s, problem->n_conditions, problem->conditions, order, term);
  }
  tn_free(&s.definition);
  return TN_OK;
}
