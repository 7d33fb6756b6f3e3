/* objective_explain.c: from a loss that is not finite to the place in the file that made it so.
 *
 * The executor walks back from the first bad output to the node that made a non-finite number out
 * of finite ones (tn_exec_explain). The node carries the place of its expression; its point axis
 * belongs to a site, whose columns give the point. What cannot be placed (overflow inside a
 * network) is told as such.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/objective_inside.h"

/* What went wrong, in words, by operation and input. */
static void describe(const tn_node *node, const tn_culprit *culprit, char *out, size_t size) {
  double x = culprit->input[0];
  switch (node->op->id) {
  case TN_OP_sqrt:
    snprintf(out, size, "square root of a negative number (%.6g)", x);
    return;
  case TN_OP_log:
    snprintf(out, size, x == 0 ? "logarithm of 0" : "logarithm of a negative number (%.6g)", x);
    return;
  case TN_OP_div:
    if (culprit->input[1] == 0)
      snprintf(out, size, "division of %.6g by 0", x);
    else
      snprintf(out, size, "%.6g / %.6g overflows", x, culprit->input[1]);
    return;
  case TN_OP_exp:
    snprintf(out, size, "exp(%.6g) overflows", x);
    return;
  default:
    break;
  }
  if (node->n_inputs == 0)
    snprintf(out, size, "`%s` is %g", node->name ? node->name : "a number", culprit->value);
  else if (node->op->arity == 2)
    snprintf(out, size, "%s of %.6g and %.6g is %g", node->op->name, x, culprit->input[1],
             culprit->value);
  else
    snprintf(out, size, "%s of %.6g is %g", node->op->name, x, culprit->value);
}

/* The rank that computes point i of n: points are cut into groups of 8 panels, and these into slots. */
static size_t owner(const pn_loss *l, size_t n, size_t i, size_t ranks) {
  const size_t lanes = l->model->dtype == TN_F64 ? 8 : 16, group = i / (8 * lanes);
  const size_t groups = (n + 8 * lanes - 1) / (8 * lanes);
  const size_t slots = tn_slot_count(n, lanes, l->model->n_theta);
  size_t slot = 0, rank = 0;
  while ((slot + 1) * groups / slots <= group)
    ++slot;
  while ((rank + 1) * slots / ranks <= slot)
    ++rank;
  return rank;
}

/* ", a point of rank 2 (node7, process 4711)" */
static void put_owner(const pn_loss *l, size_t n, size_t i, char *out, size_t size) {
  const tn_comm *comm = tn_pool_comm(l->pool);
  if (tn_comm_size(comm) == 1 || i >= n)
    return;
  snprintf(out, size, ", a point of %s", tn_comm_name(comm, owner(l, n, i, tn_comm_size(comm))));
}

/* " at x = 0.31, t = 0.02": the point of an axis, if a site of the loss has that axis; with ranks, whose it is. */
static void describe_point(const pn_loss *l, tn_axis axis, size_t i, char *out, size_t size) {
  const pn_problem *problem = l->model->problem;
  double point[PN_MAX_COORDINATES];
  size_t used = 0;
  out[0] = '\0';
  for (size_t k = 0; axis && k < l->n_rows; ++k) {
    pn_scope *scope = NULL;
    const pn_site *site = &l->sites->sites[l->rows[k].site];
    if (pn_scopes_at(l->scopes, l->rows[k].site, &scope) != TN_OK || scope->axis != axis ||
        i >= site->n)
      continue;
    pn_site_point(problem, site, i, point);
    for (size_t c = 0; c < problem->n_coordinates && used < size; ++c)
      if (!isnan(point[c]))
        used += (size_t)snprintf(out + used, size - used, "%s%s = %.6g", used ? ", " : " at ",
                                 problem->coordinates[c].name, point[c]);
    if (used > 0 && used < size)
      put_owner(l, l->rows[k].n, i, out + used, size - used);
    return;
  }
}

static tn_axis axis_of(const tn_program *program, uint32_t i) {
  const tn_node *node = tn_program_node(program, i);
  if (node->n_outputs && node->shapes[0].rank && node->shapes[0].axis[0])
    return node->shapes[0].axis[0];
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    const tn_node *input = tn_program_node(program, node->inputs[k].node);
    const tn_shape *shape = &input->shapes[node->inputs[k].port];
    if (shape->rank && shape->axis[0])
      return shape->axis[0];
  }
  return 0;
}

static tn_status tell(pn_loss *l, const pn_program *slot, const tn_culprit *culprit,
                      const char *term, size_t step) {
  const tn_node *node = tn_program_node(slot->program, culprit->node);
  char what[160], where[400];
  describe(node, culprit, what, sizeof what);
  describe_point(l, axis_of(slot->program, culprit->node), culprit->point, where, sizeof where);
  pn_place place = {&l->model->problem->source, node->line > 0 ? (size_t)node->line : 0,
                    node->column > 0 ? (size_t)node->column : 0};
  const char *text = node->text && node->text[0] ? node->text : "a network";
  bool in_file = node->file && l->model->problem->source.file && node->line > 0 &&
                 strcmp(node->file, l->model->problem->source.file) == 0;
  if (!in_file)
    return TN_FAIL(TN_ENONFINITE, "step %zu: %s in `%s` of `%s`%s", step, what, text, term, where);
  return pn_fail_at(TN_ENONFINITE, place, strlen(text), "step %zu: %s in `%s` of `%s`%s", step,
                    what, text, term, where);
}

/* Looks through outputs first ... first + n - 1 of the last run. */
static tn_status search(pn_loss *l, const pn_program *slot, size_t first, size_t n, size_t step) {
  for (size_t i = 0; i < n; ++i) {
    tn_culprit culprit;
    const char *term = first == 1 ? l->sites->terms[i].term->name : "gradient";
    TN_TRY(tn_exec_explain(slot->exec, first + i, &culprit));
    if (culprit.found)
      return tell(l, slot, &culprit, term, step);
  }
  return TN_OK;
}

tn_status pn_objective_explain(pn_loss *l, const double *theta, size_t step) {
  for (size_t b = 0; b < l->model->n_blocks; ++b)
    for (size_t i = 0; i < l->model->blocks[b].count; ++i)
      if (!isfinite(theta[l->model->blocks[b].offset + i]))
        return TN_FAIL(TN_ENONFINITE, "step %zu: the weight %zu of `%s` is %g", step, i,
                       l->model->blocks[b].name, theta[l->model->blocks[b].offset + i]);
  TN_TRY(pn_loss_run(l, &l->value, theta));
  TN_TRY(search(l, &l->value, 1, l->n_terms, step));
  TN_TRY(pn_loss_run(l, &l->gradient, theta));
  return search(l, &l->gradient, 1 + l->n_terms, l->model->n_blocks, step);
}
