/* parity.c: are values and derivatives those that another program gives for the same weights?
 *
 * Two correct programs differ by rounding: sums in another order, another library's tanh. How much they may differ is
 * a property of the value and not of its size (u_xx may cancel to nothing). Each weight's rounding by one unit moves
 * the value v by about eps theta_k dv/dtheta_k, so
 *
 *   S(v) = sum over k of |theta_k dv/dtheta_k|        ulp-scale of v = eps S(v)
 *
 * is what rounding of the weights alone does, at worst; each layer's sums round by no more than some such units of
 * their own terms. A wrong formula, a transposed matrix or a lost bias is off by some 1e15 of them. dv/dtheta comes by
 * reverse mode through the jets, a row a point.
 */
#include "pinn/parity.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "pinn/names.h"
#include "pinn/objective.h"
#include "pinn/table.h"

typedef struct column {
  const char *name;
  pn_expr *expr;
  const double *given;
  double *found, *scale; /* a point each; owned */
} column;

typedef struct parity {
  pn_model *model;
  tn_pool *pool;
  const double *theta;
  pn_table *table;
  size_t n; /* points */
  pn_scope scope;
  const double *coordinate[PN_MAX_COORDINATES];
  pn_weights_buffer weights;
} parity;

static tn_status bind_points(const parity *p, tn_exec *exec) {
  for (size_t c = 0; c < p->model->problem->n_coordinates; ++c) {
    tn_buffer *buffer = NULL;
    if (!p->scope.free_[c])
      continue;
    TN_TRY(tn_buffer_new(p->model->dtype, 1, &p->n, &buffer));
    tn_status status = tn_convert(p->n, TN_F64, p->coordinate[c], p->model->dtype, tn_map(buffer, TN_WRITE));
    tn_unmap(buffer);
    if (status == TN_OK)
      status = tn_exec_bind(exec, p->scope.coordinate[c], buffer);
    tn_buffer_release(&buffer);
    TN_TRY(status);
  }
  return TN_OK;
}

static tn_status add_rows(const parity *p, tn_exec *exec, column *c) {
  const pn_model *m = p->model;
  double *rows = NULL;
  for (size_t b = 0; b < m->n_blocks; ++b) {
    const pn_block *block = &m->blocks[b];
    TN_TRY(TN_NEW(p->n * block->count, &rows));
    tn_status status = tn_exec_read(exec, b + 1, p->n * block->count, rows);
    for (size_t i = 0; status == TN_OK && i < p->n; ++i)
      for (size_t k = 0; k < block->count; ++k)
        c->scale[i] += fabs(rows[i * block->count + k] * p->theta[block->offset + k]);
    tn_free(&rows);
    TN_TRY(status);
  }
  return TN_OK;
}

/* The value and its rows of derivatives by every block, compiled and run at all points. */
static tn_status run(const parity *p, tn_value value, column *c) {
  const pn_model *m = p->model;
  tn_value *out = NULL, *leaf = NULL;
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_status status = TN_NEW(m->n_blocks + 1, &out);
  if (status == TN_OK)
    status = TN_NEW(m->n_blocks, &leaf);
  for (size_t b = 0; status == TN_OK && b < m->n_blocks; ++b)
    leaf[b] = m->blocks[b].leaf;
  if (status == TN_OK)
    status = ag_resolve(m->graph, 1, &value, NULL, out, NULL);
  if (status == TN_OK)
    status = ag_rows(m->n_blocks, leaf, 1, out, out + 1);
  if (status == TN_OK)
    status = tn_compile(m->graph, m->n_blocks + 1, out, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, p->pool, &exec);
  if (status == TN_OK)
    status = pn_theta_bind(m, &p->weights, exec);
  if (status == TN_OK)
    status = bind_points(p, exec);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  if (status == TN_OK)
    status = tn_exec_read(exec, 0, p->n, c->found);
  if (status == TN_OK)
    status = add_rows(p, exec, c);
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_free(&leaf);
  tn_free(&out);
  return status;
}

static tn_status evaluate(parity *p, column *c) {
  pn_problem *problem = p->model->problem;
  tn_value value = {0};
  TN_TRY(pn_problem_expression(problem, p->table ? pn_table_name(p->table) : "", c->name, &c->expr));
  if (c->expr->components != 1 || pn_expr_unknowns(problem, c->expr) == 0)
    return TN_FAIL(TN_EINPUT, "%s:1: `%s` is no scalar expression of unknowns", pn_table_name(p->table),
                   c->name);
  TN_TRY(pn_lower(&p->scope, c->expr, &value));
  tn_shape shape = tn_shape_of(value);
  if (!tn_shape_batched(&shape))
    return TN_FAIL(TN_EINPUT, "%s:1: `%s` depends on no coordinate", pn_table_name(p->table), c->name);
  TN_TRY(TN_NEW(p->n, &c->found));
  TN_TRY(TN_NEW(p->n, &c->scale));
  return run(p, value, c);
}

/* The largest difference of a column in ulp-scales. */
static double compare(const parity *p, const column *c, FILE *out) {
  double eps = p->model->dtype == TN_F64 ? DBL_EPSILON : FLT_EPSILON, worst = 0, largest = 0;
  size_t at = 0;
  for (size_t i = 0; i < p->n; ++i) {
    double unit = eps * fmax(c->scale[i], fabs(c->given[i]));
    double difference = fabs(c->found[i] - c->given[i]);
    double units = difference == 0 ? 0 : difference / unit;
    largest = fmax(largest, difference);
    if (!(units <= worst)) {
      worst = units;
      at = i;
    }
  }
  if (out)
    fprintf(out, "parity     %-12s largest difference %.1e, %.2f ulp-scales (row %zu: %.17g, given %.17g)\n",
            c->name, largest, worst, at + 1, c->found[at], c->given[at]);
  return worst;
}

static tn_status open_points(parity *p, const char *csv) {
  const pn_problem *problem = p->model->problem;
  uint32_t needed = 0;
  TN_TRY(pn_table_read(csv, &p->table));
  p->n = pn_table_rows(p->table);
  if (p->n == 0)
    return TN_FAIL(TN_EINPUT, "%s: no rows to compare with", csv);
  for (size_t c = 0; c < problem->n_coordinates; ++c) {
    TN_TRY(pn_table_column(p->table, problem->coordinates[c].name, &p->coordinate[c]));
    needed |= UINT32_C(1) << c;
  }
  TN_TRY(pn_scope_new(p->model, "parity", NULL, needed, &p->scope));
  TN_TRY(pn_theta_new(p->model, &p->weights));
  return pn_theta_set(p->model, &p->weights, p->theta);
}

static tn_status all_columns(parity *p, FILE *out, double *worst) {
  for (size_t k = 0; k < pn_table_columns(p->table); ++k) {
    column c = {.name = pn_table_column_name(p->table, k)};
    size_t index = 0;
    if (pn_lookup(p->model->problem, c.name, &index) == PN_IS_COORDINATE)
      continue;
    tn_status status = pn_table_column(p->table, c.name, &c.given);
    if (status == TN_OK)
      status = evaluate(p, &c);
    double units = status == TN_OK ? compare(p, &c, out) : 0;
    if (!(units <= *worst))
      *worst = units;
    tn_free(&c.found);
    tn_free(&c.scale);
    TN_TRY(status);
  }
  return TN_OK;
}

tn_status pn_parity(pn_model *model, tn_pool *pool, const double *theta, const char *csv, FILE *out,
                    double *worst) {
  parity p = {.model = model, .pool = pool, .theta = theta};
  *worst = 0;
  tn_status status = open_points(&p, csv);
  if (status == TN_OK)
    status = all_columns(&p, out, worst);
  pn_theta_free(model, &p.weights);
  pn_table_free(&p.table);
  return status;
}
