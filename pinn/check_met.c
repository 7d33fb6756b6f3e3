/* check_met.c: conditions that an ansatz fulfils whatever its network says.
 *
 * Every network is replaced by a wave that is 0 nowhere in particular, so that u = 100*exp(t*net)
 * becomes a formula; a condition that all these formulas fulfil, at all its points, is met by
 * construction. Unknowns without an ansatz are the wave itself and fulfil next to nothing.
 */
#include "pinn/check.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 400 };

typedef struct standing { /* what stands in for one unknown */
  pn_expr *exact;         /* the one that was there */
  size_t n;
  pn_expr *node[MOST_NODES], kept[MOST_NODES]; /* nodes of its ansatz that were networks */
} standing;

static tn_status stand_in(pn_checking *c, size_t u, standing *s) {
  pn_unknown *unknown = &c->problem->unknowns[u];
  pn_expr *nodes[MOST_NODES], *wave = NULL;
  TN_TRY(pn_check_wave(c, u, 0.6 + 0.1 * (double)(u % 4), &wave));
  s->exact = unknown->exact;
  unknown->exact = wave;
  if (!unknown->ansatz)
    return TN_OK;
  unknown->exact = unknown->ansatz;
  size_t n = pn_check_nodes(c->problem, unknown->ansatz, MOST_NODES, nodes);
  for (size_t i = 0; i < n; ++i) {
    if (nodes[i]->kind != PN_NET)
      continue;
    s->node[s->n] = nodes[i];
    s->kept[s->n++] = *nodes[i];
    *nodes[i] = *wave;
  }
  return TN_OK;
}

/* Nodes of shared definitions may have been taken twice, so back in the other order. */
static void put_back(pn_problem *p, size_t n, standing *s) {
  for (size_t u = n; u-- > 0;) {
    for (size_t i = s[u].n; i-- > 0;)
      *s[u].node[i] = s[u].kept[i];
    p->unknowns[u].exact = s[u].exact;
  }
}

static tn_status fulfils(pn_checking *c, const pn_term_sites *at, bool *met) {
  double value[PN_CHECK_POINTS];
  for (size_t s = 0; s < at->n_sites && *met; ++s)
    for (size_t r = 0; r < at->term->n_relations && *met; ++r) {
      const pn_site *site = &c->sites->sites[at->site[s]];
      pn_scope *scope = NULL;
      tn_value v = {0};
      TN_TRY(pn_check_scope(c, at->site[s], &scope));
      TN_TRY(pn_lower_relation(scope, &at->term->relations[r], &v));
      TN_TRY(pn_check_evaluate(c, scope, site, site->n, 1, &v, value, NULL, NULL));
      for (size_t i = 0; i < site->n; ++i)
        *met = *met && fabs(value[i]) < 1e-9;
    }
  return TN_OK;
}

tn_status pn_check_met(pn_checking *c, const pn_term *condition, bool *met) {
  pn_problem *p = c->problem;
  standing *s = NULL;
  size_t n = 0;
  *met = false;
  if (!c->sites)
    return TN_OK;
  TN_TRY(TN_NEW(p->n_unknowns, &s));
  tn_status status = TN_OK;
  for (; n < p->n_unknowns && status == TN_OK; n += status == TN_OK)
    status = stand_in(c, n, &s[n]);
  for (size_t m = 0; m < c->sites->n_terms && status == TN_OK; ++m)
    if (c->sites->terms[m].term == condition) {
      *met = true;
      status = fulfils(c, &c->sites->terms[m], met);
    }
  put_back(p, n, s);
  tn_free(&s);
  if (status == TN_OK || status == TN_ENOMEM)
    return status;
  *met = false; /* not known */
  tn_graph_clear_error(c->model->graph);
  return TN_OK;
}
