/* check_values.c: numbers for the exact solution: sites, scopes, evaluation.
 *
 * In an exact scope the unknowns are graphs without a network, so a residual is evaluated in f64 like any
 * other graph. A solution that is a table has no graph: its derivatives become tables of their own, made of
 * central differences of the interpolant (steps of 1/2000 of the range, one-sided at the ends),
 *
 *   f' = (f(x + h) - f(x - h)) / 2h + O(h^2)
 *
 * good to some 1e-5, which is enough to tell a wrong sign from a right one. Means run over a midpoint grid.
 */
#include "pinn/check.h"
#include "pinn/data.h"
#include "pinn/moving.h"

#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MEAN_POINTS = 4096, MOST_DERIVED = 64 };

/* ---- Sites --------------------------------------------------------------------------------------- */

/* The grid fills the box: keeps what lies in the region. */
static void drop_outside(pn_checking *c) {
  pn_site *mean = &c->mean;
  double point[PN_MAX_COORDINATES];
  size_t kept = 0;
  for (size_t i = 0; i < mean->n; ++i) {
    pn_site_point(c->problem, mean, i, point);
    if (!pn_domain_holds(c->problem, point))
      continue;
    for (size_t k = 0; k < c->problem->n_coordinates; ++k)
      mean->column[k][kept] = mean->column[k][i];
    ++kept;
  }
  mean->n = kept ? kept : mean->n;
}

static tn_status fill_mean(pn_checking *c) {
  const pn_problem *p = c->problem;
  size_t d = p->n_coordinates, side = 1, n = 1;
  c->mean = (pn_site){.key = "mean", .free_ = (UINT32_C(1) << d) - 1};
  while (pow((double)(side + 1), (double)d) <= MEAN_POINTS)
    ++side;
  for (size_t i = 0; i < d; ++i)
    n *= side;
  TN_TRY(pn_site_resize(&c->mean, n));
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0, rest = i; k < d; ++k, rest /= side) {
      const pn_coordinate *x = &p->coordinates[k];
      double u = ((double)(rest % side) + 0.5) / (double)side;
      c->mean.column[k][i] =
          x->log_spacing ? x->lo * exp(u * log(x->hi / x->lo)) : x->lo + (x->hi - x->lo) * u;
    }
  drop_outside(c);
  return TN_OK;
}

/* Is an end an unknown without an exact solution? */
static bool moves_unknown(const pn_problem *p) {
  double point[PN_MAX_COORDINATES];
  for (size_t c = 0; c < p->n_coordinates; ++c)
    point[c] = p->coordinates[c].lo;
  return !pn_moving_place(p, point);
}

/* rms of every exact solution over the box. */
static tn_status measure(pn_checking *c) {
  const pn_problem *p = c->problem;
  pn_scope scope;
  double value[PN_CHECK_POINTS];
  size_t step = c->mean.n / PN_CHECK_POINTS ? c->mean.n / PN_CHECK_POINTS : 1;
  pn_site some = {.free_ = c->mean.free_};
  TN_TRY(pn_site_resize(&some, PN_CHECK_POINTS));
  for (size_t k = 0; k < p->n_coordinates; ++k)
    for (size_t i = 0; i < PN_CHECK_POINTS; ++i)
      some.column[k][i] = c->mean.column[k][i * step % c->mean.n];
  TN_TRY(pn_scope_new(c->model, "sizes", NULL, some.free_, &scope));
  scope.exact = true;
  tn_status status = moves_unknown(p) ? TN_OK : pn_scope_move(&scope, false);
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    c->size[u] = NAN;
    tn_value v = {0};
    if (!p->unknowns[u].exact || pn_lower_unknown(&scope, u, &v) != TN_OK) {
      tn_graph_clear_error(c->model->graph);
      continue;
    }
    if (status == TN_OK)
      status = pn_check_evaluate(c, &scope, &some, PN_CHECK_POINTS, 1, &v, value, NULL, NULL);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < PN_CHECK_POINTS; ++i)
      if (isfinite(value[i])) {
        sum += value[i] * value[i];
        ++n;
      }
    c->size[u] = n ? sqrt(sum / (double)n) : 0;
  }
  pn_site_clear(&some);
  return status;
}

/* The fields of the file, and room for derivatives of tables behind its tables. */
static tn_status make_room(pn_checking *c) {
  pn_problem *p = c->problem;
  pn_table_entry *tables = NULL;
  c->n_file_tables = p->n_tables;
  TN_TRY(TN_NEW(p->n_unknowns, &c->size));
  TN_TRY(TN_NEW(p->n_tables, &c->lookup));
  TN_TRY(TN_NEW(MOST_DERIVED, &c->derived));
  TN_TRY(PN_TAKE(p->arena, p->n_tables + MOST_DERIVED, &tables));
  if (p->n_tables)
    memcpy(tables, p->tables, p->n_tables * sizeof *tables);
  p->tables = tables;
  return TN_OK;
}

bool pn_check_is_slow(const pn_problem *p) {
  enum { MOST = 64 };
  pn_expr *nodes[MOST];
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    size_t n = p->unknowns[u].exact ? pn_check_nodes(p, p->unknowns[u].exact, MOST, nodes) : 0;
    for (size_t i = 0; i < n; ++i)
      if (nodes[i]->kind == PN_FUNCTION && nodes[i]->index == PN_FN_cole_hopf)
        return true;
  }
  return false;
}

tn_status pn_check_start(pn_checking *c) {
  pn_problem *p = c->problem;
  size_t n = pn_check_is_slow(p) ? PN_REPAIR_POINTS : PN_CHECK_POINTS;
  TN_TRY(make_room(c));
  TN_TRY(pn_sites_new(p, c->model->n_theta, NULL, &c->sites));
  TN_TRY(TN_NEW(c->sites->n_sites, &c->scope));
  pn_draw draw = {.kind = PN_DRAW_CHECK, .seed = p->seed, .factor = 1};
  for (size_t i = 0; i < c->sites->n_sites; ++i)
    TN_TRY(pn_site_draw(c->sites, &c->sites->sites[i], &draw, n));
  TN_TRY(fill_mean(c));
  return measure(c);
}

void pn_check_end(pn_checking *c) {
  c->problem->n_tables = c->n_file_tables;
  for (size_t i = 0; c->lookup && i < c->n_file_tables; ++i)
    pn_lookup_free(&c->lookup[i]);
  for (size_t i = 0; c->scope && i < c->sites->n_sites; ++i)
    tn_free(&c->scope[i]);
  tn_free(&c->scope);
  tn_free(&c->lookup);
  tn_free(&c->derived);
  tn_free(&c->size);
  tn_free(&c->finding);
  tn_free(&c->defect);
  pn_site_clear(&c->mean);
  pn_sites_free(&c->sites);
  pn_model_free(&c->model);
  pn_text_free(&c->out);
}

tn_status pn_check_scope(pn_checking *c, size_t site, pn_scope **out) {
  const pn_site *at = &c->sites->sites[site];
  *out = c->scope[site];
  if (*out)
    return TN_OK;
  TN_TRY(TN_NEW(1, &c->scope[site]));
  if (at->data)
    TN_TRY(pn_scope_of_data(c->model, at->key, at->data, at->free_, c->scope[site]));
  else
    TN_TRY(pn_scope_new(c->model, at->key, at->piece, at->free_, c->scope[site]));
  c->scope[site]->exact = true;
  if (!at->data)
    TN_TRY(pn_scope_move(c->scope[site], false));
  *out = c->scope[site];
  return TN_OK;
}

/* ---- Solutions that are tables --------------------------------------------------------------------- */

/* The table that an unknown's exact solution is, or PN_NONE. */
static size_t table_of(const pn_problem *p, size_t unknown) {
  const pn_expr *e = p->unknowns[unknown].exact;
  while (e && e->kind == PN_DEFINITION)
    e = p->definitions[e->index].value;
  return e && e->kind == PN_TABLE ? e->index : PN_NONE;
}

bool pn_check_has_exact(const pn_checking *c, const pn_relation *r) {
  uint64_t bits = pn_expr_unknowns(c->problem, r->whole);
  for (size_t u = 0; u < c->problem->n_unknowns; ++u)
    if ((bits >> u & 1u) && !c->problem->unknowns[u].exact)
      return false;
  bits = pn_expr_parameters(c->problem, r->whole);
  for (size_t i = 0; i < c->problem->n_parameters; ++i)
    if ((bits >> i & 1u) && isnan(c->problem->parameters[i].exact))
      return false;
  return true;
}

bool pn_check_by_table(const pn_checking *c, const pn_relation *r) {
  uint64_t bits = pn_expr_unknowns(c->problem, r->whole);
  for (size_t u = 0; u < c->problem->n_unknowns; ++u)
    if ((bits >> u & 1u) && c->problem->unknowns[u].exact &&
        pn_check_has(c->problem, c->problem->unknowns[u].exact, PN_TABLE))
      return true;
  return false;
}

static tn_status derived_table(pn_checking *c, size_t table, const pn_expr *derivative,
                               size_t *out) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < c->n_derived; ++i)
    if (c->derived[i].table == table && c->derived[i].n_axes == derivative->n_axes &&
        memcmp(c->derived[i].axes, derivative->axes, derivative->n_axes * sizeof(size_t)) == 0) {
      *out = c->n_file_tables + i;
      return TN_OK;
    }
  if (c->n_derived == MOST_DERIVED || derivative->n_axes > 4)
    return TN_FAIL(TN_EUNSUPPORTED, "too many derivatives of tables");
  pn_derived *d = &c->derived[c->n_derived++];
  *d = (pn_derived){.table = table, .n_axes = derivative->n_axes};
  memcpy(d->axes, derivative->axes, d->n_axes * sizeof *d->axes);
  *out = p->n_tables;
  p->tables[p->n_tables] = p->tables[table];
  char *name = NULL;
  TN_TRY(pn_arena_format(p->arena, &name, "%s.%zu", p->tables[table].name, c->n_derived));
  p->tables[p->n_tables++].name = name;
  return TN_OK;
}

/* A copy of a scalar tree in which derivatives of tabled unknowns are tables. */
static tn_status with_tables(pn_checking *c, pn_expr *e, pn_expr **out) {
  pn_problem *p = c->problem;
  if (e->kind == PN_DEFINITION) {
    const pn_definition *d = &p->definitions[e->index];
    *out = e;
    return d->unknowns && d->scalar ? with_tables(c, d->scalar, out) : TN_OK;
  }
  TN_TRY(pn_expr_make(p->arena, e->kind, e, e->n, e->args, out));
  pn_expr *made = *out;
  size_t height = made->height;
  pn_expr **args = made->args;
  *made = *e;
  made->args = args;
  made->height = height;
  if (e->kind == PN_DERIVATIVE && e->args[0]->kind == PN_UNKNOWN) {
    size_t table = table_of(p, e->args[0]->index);
    if (table == PN_NONE)
      return TN_OK;
    made->kind = PN_TABLE;
    made->n = 0;
    return derived_table(c, table, e, &made->index);
  }
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(with_tables(c, e->args[i], &args[i]));
  return TN_OK;
}

tn_status pn_check_prepare(pn_checking *c, const pn_relation *r, const pn_piece *piece,
                           pn_relation *out) {
  *out = *r;
  if (!pn_check_by_table(c, r))
    return TN_OK;
  out->component = 0;
  TN_TRY(pn_scalar(c->problem, r->lhs, r->component, piece, &out->lhs));
  TN_TRY(pn_scalar(c->problem, r->rhs, r->component, piece, &out->rhs));
  TN_TRY(with_tables(c, out->lhs, &out->lhs));
  return with_tables(c, out->rhs, &out->rhs);
}

static double difference(const pn_checking *c, const pn_derived *d, size_t taken, double *point) {
  if (taken == d->n_axes)
    return pn_lookup_at(c->lookup[d->table], point);
  size_t x = d->axes[taken];
  const pn_coordinate *axis = &c->problem->coordinates[x];
  double h = (axis->hi - axis->lo) / 2000, at = point[x], f[3];
  double shift = at - h < axis->lo ? 1 : at + h > axis->hi ? -1 : 0; /* one-sided at the ends */
  for (int i = 0; i < 3; ++i) {
    point[x] = at + h * ((double)(i - 1) + shift);
    f[i] = difference(c, d, taken + 1, point);
  }
  point[x] = at;
  if (shift > 0)
    return (-3 * f[0] + 4 * f[1] - f[2]) / (2 * h);
  if (shift < 0)
    return (3 * f[2] - 4 * f[1] + f[0]) / (2 * h);
  return (f[2] - f[0]) / (2 * h);
}

static tn_status table_value(pn_checking *c, size_t table, double *point, double *out) {
  pn_derived plain = {.table = table};
  const pn_derived *d = table < c->n_file_tables ? &plain : &c->derived[table - c->n_file_tables];
  if (!c->lookup[d->table])
    TN_TRY(pn_lookup_new(c->problem, d->table, &c->lookup[d->table]));
  *out = difference(c, d, 0, point);
  return TN_OK;
}

/* ---- Evaluation ------------------------------------------------------------------------------------ */

static tn_status bind_numbers(tn_exec *exec, tn_value leaf, size_t n, const double *x) {
  tn_shape shape = tn_shape_of(leaf);
  tn_buffer *buffer = NULL;
  TN_TRY(tn_buffer_new(TN_F64, shape.rank ? 1 : 0, &n, &buffer));
  memcpy(tn_map(buffer, TN_WRITE), x, n * sizeof *x);
  tn_unmap(buffer);
  tn_status status = tn_exec_bind(exec, leaf, buffer);
  tn_buffer_release(&buffer);
  return status;
}

static tn_status bind_scope(pn_checking *c, tn_exec *exec, const pn_scope *scope,
                            const pn_site *points, size_t count) {
  double *value = NULL, point[PN_MAX_COORDINATES];
  for (size_t k = 0; k < c->problem->n_coordinates; ++k)
    if (scope->free_[k])
      TN_TRY(bind_numbers(exec, scope->coordinate[k], count, points->column[k]));
  for (size_t k = 0; k < c->problem->n_coordinates; ++k)
    if (scope->normal[k].graph)
      TN_TRY(bind_numbers(exec, scope->normal[k], count, points->normal[k]));
  if (scope->n_tables + scope->n_insides + scope->n_columns == 0)
    return TN_OK;
  TN_TRY(TN_NEW(count, &value));
  tn_status status = TN_OK;
  for (size_t k = 0; status == TN_OK && k < scope->n_insides; ++k) {
    for (size_t i = 0; i < count; ++i) {
      pn_site_point(c->problem, points, i, point);
      value[i] = pn_shape_holds(c->problem, scope->inside[k], point);
    }
    status = bind_numbers(exec, scope->inside_leaf[k], scope->axis ? count : 1, value);
  }
  for (size_t k = 0; status == TN_OK && k < scope->n_columns; ++k) {
    pn_data_values(scope->data, scope->column[k], points->stride, 0, count, value);
    status = bind_numbers(exec, scope->column_leaf[k], count, value);
  }
  for (size_t k = 0; status == TN_OK && k < scope->n_tables; ++k) {
    for (size_t i = 0; status == TN_OK && i < count; ++i) {
      pn_site_point(c->problem, points, i, point);
      status = table_value(c, scope->table[k], point, &value[i]);
    }
    if (status == TN_OK)
      status = bind_numbers(exec, scope->table_leaf[k], scope->axis ? count : 1, value);
  }
  tn_free(&value);
  return status;
}

static tn_status read_values(tn_exec *exec, size_t count, size_t n, double *out) {
  for (size_t k = 0; k < n; ++k) {
    tn_buffer *buffer = NULL;
    TN_TRY(tn_exec_output(exec, k, &buffer));
    size_t have = tn_buffer_count(buffer);
    const double *x = tn_map(buffer, TN_READ);
    for (size_t i = 0; i < count; ++i)
      out[k * count + i] = x[have == 1 ? 0 : i];
    tn_unmap(buffer);
  }
  return TN_OK;
}

/* The text of the first sub-expression that is not finite. */
static tn_status explain(pn_checking *c, const tn_program *program, tn_exec *exec, size_t n,
                         const char **culprit, size_t *where) {
  *culprit = NULL;
  for (size_t k = 0; k < n; ++k) {
    tn_culprit found;
    TN_TRY(tn_exec_explain(exec, k, &found));
    if (!found.found)
      continue;
    const tn_node *node = tn_program_node(program, found.node);
    const char *text = node->text ? node->text : node->op->name;
    char *copy = NULL;
    TN_TRY(pn_arena_text(c->problem->arena, text, strlen(text), &copy));
    *culprit = copy;
    *where = found.point;
    return TN_OK;
  }
  return TN_OK;
}

static tn_status run(pn_checking *c, const tn_program *program, tn_exec *exec, pn_scope *scope,
                     const pn_site *points, size_t count, size_t n, double *out,
                     const char **culprit, size_t *where) {
  TN_TRY(bind_scope(c, exec, scope, points, count));
  if (scope->mean)
    TN_TRY(bind_scope(c, exec, scope->mean, &c->mean, c->mean.n));
  TN_TRY(tn_exec_run(exec));
  TN_TRY(read_values(exec, count, n, out));
  return culprit ? explain(c, program, exec, n, culprit, where) : TN_OK;
}

tn_status pn_check_evaluate(pn_checking *c, pn_scope *scope, const pn_site *points, size_t count,
                            size_t n, const tn_value *values, double *out, const char **culprit,
                            size_t *where) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_value *outputs = NULL;
  TN_TRY(TN_NEW(n, &outputs));
  memcpy(outputs, values, n * sizeof *values);
  tn_status status = tn_compile(c->model->graph, n, outputs, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, NULL, &exec);
  if (status == TN_OK)
    status = run(c, program, exec, scope, points, count, n, out, culprit, where);
  tn_exec_free(&exec);
  tn_program_free(&program);
  tn_free(&outputs);
  return status;
}
