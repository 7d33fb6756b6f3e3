/* resolve.c: from atoms to ordinary operations.
 *
 * Each pass takes the calls whose arguments are free of calls, decides what folds (fold.c), expands every group
 * of (field, arguments) once (expand.c) and rewrites the roots; calls inside arguments of calls, as in
 * u(s(t), t), are left to the next pass, when the inner ones are gone.
 */
#include "autograd/resolve.h"

#include <string.h>

static tn_status find_calls(ag_pass *p, bool *any) {
  for (size_t i = 0; i < p->n_roots; ++i)
    if (p->roots[i].node >= p->n_nodes) p->n_nodes = p->roots[i].node + 1;
  TN_TRY(TN_NEW(p->n_nodes + 1, &p->has_call));
  TN_TRY(TN_NEW(p->n_nodes + 1, &p->has_parameter));
  for (uint32_t i = 0; i < p->n_nodes; ++i) {
    const tn_node *node = tn_node_at(p->graph, i);
    p->has_call[i] = node->op->id == TN_OP_call;
    p->has_parameter[i] = node->op->id == TN_OP_parameter;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      p->has_call[i] = p->has_call[i] || p->has_call[node->inputs[k].node];
      p->has_parameter[i] = p->has_parameter[i] || p->has_parameter[node->inputs[k].node];
    }
  }
  *any = false;
  for (size_t i = 0; i < p->n_roots; ++i) *any = *any || p->has_call[p->roots[i].node];
  return TN_OK;
}

static tn_value scaled(const ag_pass *p, const ag_summand *s, tn_value v) {
  double factor = (double)s->factor.num / (double)s->factor.den;
  if (ag_present(s->opaque)) v = ag_times(s->opaque, v);
  return ag_times(tn_const(p->graph, tn_dtype_of(v), factor), v);
}

/* A root with folds is the sum of its summands in order, a fold standing where its first member stood. */
static tn_value rebuild_root(const ag_pass *p, size_t root, const tn_value *moved) {
  tn_value sum = {0};
  for (size_t i = 0; i < p->n_summands; ++i) {
    const ag_summand *s = &p->summands[i];
    if (s->root != root) continue;
    if (s->top == SIZE_MAX) {
      sum = ag_plus(sum, scaled(p, s, moved[i]));
      continue;
    }
    const ag_group *g = &p->groups[p->atoms[s->atom].group];
    bool first = true;
    for (size_t j = 0; j < i; ++j)
      if (p->summands[j].root == root && p->summands[j].top == s->top && p->summands[j].call &&
          p->atoms[p->summands[j].atom].group == p->atoms[s->atom].group)
        first = false;
    if (first) sum = ag_plus(sum, g->folds[s->top].result);
  }
  return ag_fit(sum, tn_shape_of(p->roots[root]));
}

static tn_status rewrite(ag_pass *p) {
  tn_value *from = NULL, *to = NULL, *moved = NULL, *roots = NULL;
  size_t n = 0;
  TN_TRY(TN_NEW(p->n_atoms, &from));
  tn_status status = TN_NEW(p->n_atoms, &to);
  if (status == TN_OK) status = TN_NEW(p->n_summands, &moved);
  if (status == TN_OK) status = TN_NEW(p->n_roots, &roots);
  for (size_t i = 0; i < p->n_atoms && status == TN_OK; ++i)
    if (ag_present(p->atoms[i].result)) {
      from[n] = tn_value_at(p->graph, p->atoms[i].node, 0);
      to[n++] = p->atoms[i].result;
    }
  for (size_t i = 0; i < p->n_summands && status == TN_OK; ++i)
    if (p->summands[i].top == SIZE_MAX)
      status = ag_substitute(p->graph, n, from, to, 1, &p->summands[i].value, &moved[i]);
  if (status == TN_OK) status = ag_substitute(p->graph, n, from, to, p->n_roots, p->roots, roots);
  for (size_t i = 0; i < p->n_roots && status == TN_OK; ++i) {
    bool folded = false;
    for (size_t k = 0; k < p->n_summands; ++k)
      folded = folded || (p->summands[k].root == i && p->summands[k].top != SIZE_MAX);
    tn_at_like(p->roots[i]);
    p->roots[i] = folded ? rebuild_root(p, i, moved) : roots[i];
    status = tn_graph_error(p->graph);
  }
  tn_free(&from);
  tn_free(&to);
  tn_free(&moved);
  tn_free(&roots);
  return status;
}

static void end_pass(ag_pass *p) {
  for (size_t g = 0; g < p->n_groups; ++g) tn_free(&p->groups[g].folds);
  tn_free(&p->has_call);
  tn_free(&p->has_parameter);
  tn_free(&p->summands);
  tn_free(&p->atoms);
  tn_free(&p->groups);
}

static tn_status one_pass(ag_pass *p, ag_resolve_report *report, bool *any) {
  TN_TRY(find_calls(p, any));
  if (!*any) return TN_OK;
  TN_TRY(ag_fold_roots(p));
  for (size_t g = 0; g < p->n_groups; ++g) TN_TRY(ag_expand_group(p, g, report));
  return rewrite(p);
}

tn_status ag_resolve(tn_graph *graph, size_t n, const tn_value *roots,
                     const ag_resolve_options *options, tn_value *out, ag_resolve_report *report) {
  TN_TRY(tn_graph_error(graph));
  for (size_t i = 0; i < n; ++i) {
    if (!tn_ok(roots[i]) || roots[i].graph != graph)
      return TN_FAIL(TN_EHANDLE, "resolve: root %zu is stale, foreign or an error", i);
    out[i] = roots[i];
  }
  if (report) memset(report, 0, sizeof *report);
  tn_status status = TN_OK;
  for (bool any = true; any && status == TN_OK;) {
    ag_pass p = {.graph = graph, .n_roots = n, .roots = out};
    if (options) p.options = *options;
    if (p.options.nested) p.options.separate = true;
    status = one_pass(&p, report, &any);
    end_pass(&p);
  }
  return status;
}
