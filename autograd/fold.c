/* fold.c: which derivatives get a channel of their own, and which enter a root as one operator.
 *
 * A root is read as a sum of factor * coefficient * value along its top-level additions, products with data
 * and divisions by data. Data are values free of parameters and calls: numbers, run-time scalars, functions of
 * the coordinates. Derivatives (order >= 1) of one output of one field at one set of arguments that occur
 * nowhere but in such sums fold: sum_j c_j u_{alpha_j} is one operator and one channel. A derivative that is
 * used non-linearly anywhere keeps a channel of its own and is left out of the folds.
 */
#include "autograd/resolve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Small exact fractions are structure; other numbers are opaque, so that 64-bit fractions suffice. */
static bool rational_of(double x, ag_rational *out) {
  const int64_t limit = (int64_t)1 << 20;
  int64_t den = 1;
  for (; den <= limit && x * (double)den != rint(x * (double)den); den *= 2) continue;
  if (den > limit || fabs(x * (double)den) > (double)limit) return false;
  *out = (ag_rational){(int64_t)(x * (double)den), den};
  return true;
}

typedef struct coefficient { ag_rational factor; tn_value opaque; } coefficient;

static coefficient scaled(coefficient c, tn_value by, bool divide) {
  double x;
  ag_rational r, product;
  if (ag_number(by, &x) && x != 0 && rational_of(x, &r)) {
    if (divide) r = r.num < 0 ? (ag_rational){-r.den, -r.num} : (ag_rational){r.den, r.num};
    if (llabs(c.factor.num) < (int64_t)1 << 30 && c.factor.den < (int64_t)1 << 30 &&
        ag_rational_mul(c.factor, r, &product) == TN_OK) {
      c.factor = product;
      return c;
    }
  }
  if (divide)
    c.opaque = ag_over(ag_present(c.opaque) ? c.opaque : ag_constant_like(by, 1), by);
  else
    c.opaque = ag_present(c.opaque) ? ag_times(c.opaque, by) : by;
  return c;
}

static bool is_data(const ag_pass *p, tn_value v) {
  return !p->has_call[v.node] && !p->has_parameter[v.node];
}

static bool ready(const ag_pass *p, const tn_node *node) {
  for (uint32_t k = 0; k < node->n_inputs; ++k)
    if (p->has_call[node->inputs[k].node]) return false;
  return true;
}

static tn_status add_atom(ag_pass *p, uint32_t index, size_t *out) {
  const tn_node *node = tn_node_at(p->graph, index);
  for (size_t i = 0; i < p->n_atoms; ++i)
    if (p->atoms[i].node == index) {
      *out = i;
      return TN_OK;
    }
  size_t g = 0;
  for (; g < p->n_groups; ++g) {
    bool same = p->groups[g].field == node->call->field;
    for (uint32_t k = 0; same && k < node->n_inputs; ++k)
      same = p->groups[g].args[k].node == node->inputs[k].node &&
             p->groups[g].args[k].port == node->inputs[k].port;
    if (same) break;
  }
  if (g == p->n_groups) {
    TN_TRY(tn_grow(&p->groups, g, g + 1, sizeof *p->groups));
    p->groups[g].field = (ag_field *)(uintptr_t)node->call->field;
    for (uint32_t k = 0; k < node->n_inputs; ++k)
      p->groups[g].args[k] = tn_value_at(p->graph, node->inputs[k].node, node->inputs[k].port);
    ++p->n_groups;
  }
  TN_TRY(tn_grow(&p->atoms, p->n_atoms, p->n_atoms + 1, sizeof *p->atoms));
  p->atoms[p->n_atoms] = (ag_atom){.node = index, .group = g};
  *out = p->n_atoms++;
  return TN_OK;
}

static tn_status add_summand(ag_pass *p, size_t root, coefficient c, tn_value v) {
  const tn_node *node = tn_node_of(v);
  ag_summand s = {.root = root, .factor = c.factor, .opaque = c.opaque, .value = v,
                  .call = node->op->id == TN_OP_call && ready(p, node), .top = SIZE_MAX};
  if (s.call) TN_TRY(add_atom(p, v.node, &s.atom));
  TN_TRY(tn_grow(&p->summands, p->n_summands, p->n_summands + 1, sizeof *p->summands));
  p->summands[p->n_summands++] = s;
  return TN_OK;
}

static tn_status summands_of(ag_pass *p, size_t root, coefficient c, tn_value v) {
  const tn_node *node = tn_node_of(v);
  if (!node) return tn_graph_error(p->graph);
  if (!p->has_call[v.node] || p->options.separate) return add_summand(p, root, c, v);
  tn_value a = {0}, b = {0};
  if (node->n_inputs > 0) a = tn_value_at(p->graph, node->inputs[0].node, node->inputs[0].port);
  if (node->n_inputs > 1) b = tn_value_at(p->graph, node->inputs[1].node, node->inputs[1].port);
  coefficient negative = {{-c.factor.num, c.factor.den}, c.opaque};
  switch (node->op->id) {
  case TN_OP_add:
  case TN_OP_sub:
    TN_TRY(summands_of(p, root, c, a));
    return summands_of(p, root, node->op->id == TN_OP_add ? c : negative, b);
  case TN_OP_neg: return summands_of(p, root, negative, a);
  case TN_OP_mul:
    if (is_data(p, a)) return summands_of(p, root, scaled(c, a, false), b);
    if (is_data(p, b)) return summands_of(p, root, scaled(c, b, false), a);
    break;
  case TN_OP_div:
    if (is_data(p, b)) return summands_of(p, root, scaled(c, b, true), a);
    break;
  default: break;
  }
  return add_summand(p, root, c, v);
}

/* Calls that a non-call summand reaches, and those in arguments of calls, need channels of their own. */
static tn_status require_reached(ag_pass *p) {
  bool *reached = NULL;
  size_t atom;
  TN_TRY(TN_NEW(p->n_nodes + 1, &reached));
  for (size_t i = 0; i < p->n_summands; ++i)
    if (!p->summands[i].call) reached[p->summands[i].value.node] = true;
  tn_status status = TN_OK;
  for (uint32_t i = p->n_nodes; i-- > 0 && status == TN_OK;) {
    const tn_node *node = tn_node_at(p->graph, i);
    if (!reached[i] || !p->has_call[i]) continue;
    if (node->op->id == TN_OP_call && ready(p, node)) {
      status = add_atom(p, i, &atom);
      if (status == TN_OK) p->atoms[atom].required = true;
      continue;
    }
    for (uint32_t k = 0; k < node->n_inputs; ++k) reached[node->inputs[k].node] = true;
  }
  tn_free(&reached);
  return status;
}

static unsigned order_of(const tn_node *node) {
  unsigned order = 0;
  for (int j = 0; j < TN_MAX_SLOTS; ++j) order += node->call->power[j];
  return order;
}

/* May this summand be part of a fold at all? */
static bool foldable(const ag_pass *p, const ag_summand *s) {
  if (!s->call || p->atoms[s->atom].required || p->options.separate) return false;
  const tn_node *node = tn_node_of(s->value);
  tn_shape opaque = tn_shape_of(s->opaque);
  if (opaque.rank > 1 || (opaque.rank && !tn_shape_batched(&node->shapes[0]))) return false;
  return order_of(node) > 0;
}

static bool together(const ag_pass *p, const ag_summand *a, const ag_summand *b) {
  return a->root == b->root && p->atoms[a->atom].group == p->atoms[b->atom].group &&
         tn_node_of(a->value)->call->output == tn_node_of(b->value)->call->output;
}

/* A derivative alone in its sum is no fold: it becomes a channel, and leaves other folds. */
static void settle(ag_pass *p) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < p->n_summands; ++i) {
      const ag_summand *s = &p->summands[i];
      if (!s->call || p->atoms[s->atom].required) continue;
      bool company = false;
      for (size_t j = 0; foldable(p, s) && j < p->n_summands && !company; ++j)
        company = j != i && foldable(p, &p->summands[j]) && together(p, s, &p->summands[j]) &&
                  p->summands[j].atom != s->atom;
      if (company) continue;
      p->atoms[s->atom].required = true;
      changed = true;
    }
  }
}

static tn_status make_folds(ag_pass *p) {
  for (size_t i = 0; i < p->n_summands; ++i) {
    ag_summand *s = &p->summands[i];
    if (!foldable(p, s)) continue;
    ag_group *g = &p->groups[p->atoms[s->atom].group];
    uint32_t output = tn_node_of(s->value)->call->output;
    size_t f = 0;
    while (f < g->n_folds && (g->folds[f].root != s->root || g->folds[f].output != output)) ++f;
    if (f == g->n_folds) {
      TN_TRY(tn_grow(&g->folds, f, f + 1, sizeof *g->folds));
      g->folds[f] = (ag_fold){.root = s->root, .output = output};
      ++g->n_folds;
    }
    s->top = f;
  }
  return TN_OK;
}

tn_status ag_fold_roots(ag_pass *p) {
  for (size_t i = 0; i < p->n_roots; ++i)
    TN_TRY(summands_of(p, i, (coefficient){{1, 1}, {0}}, p->roots[i]));
  TN_TRY(require_reached(p));
  settle(p);
  return make_folds(p);
}
