/* reference_rows.c: relations of a problem as programs for a classical solver.
 *
 * A relation is lowered as for training, in a bare scope: an unknown is a call of its field and nothing else, and
 * derivatives raise the orders of the calls. The calls that remain are all that the relation reads of the unknowns:
 * J_k = (derivative of u) at (place). Each is replaced by an input leaf, which leaves
 *
 *   R(x, J_1, ..., J_m)   and   dR/dJ_k
 *
 * by the engine's own gradient. Since R at a point depends on the numbers at that point alone, the gradient of the
 * sum over points is the derivative at every point. What stands at another place, as u(x=1) or u(x=-x), is a call
 * with other arguments: a second program gives these places, and nothing here knows more of them. Only a mean couples
 * points; it is a sum with weights over points of its own, and stands in relations without points alone.
 */
#include "pinn/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/lower.h"
#include "pinn/moving.h"
#include "pinn/names.h"

/* ---- Calls ---------------------------------------------------------------------------------------- */

typedef struct walk {
  tn_graph *graph;
  uint32_t n;
  bool *seen, *deep; /* deep: reached through the arguments of a call */
  size_t n_calls;
  uint32_t call[PN_REF_CALLS];
  bool nested, many;
} walk;

static void visit(walk *w, uint32_t node, bool inside) {
  bool *seen = inside ? w->deep : w->seen;
  if (seen[node])
    return;
  seen[node] = true;
  const tn_node *n = tn_node_at(w->graph, node);
  bool call = n->op->id == TN_OP_call;
  if (call && inside)
    w->nested = true;
  if (call && !inside) {
    if (w->n_calls == PN_REF_CALLS)
      w->many = true;
    else
      w->call[w->n_calls++] = node;
  }
  for (size_t i = 0; i < n->n_inputs && !w->many; ++i)
    visit(w, n->inputs[i].node, inside || call);
}

static tn_status find_calls(tn_value root, walk *w) {
  *w = (walk){.graph = root.graph, .n = root.node + 1};
  TN_TRY(TN_NEW(w->n, &w->seen));
  TN_TRY(TN_NEW(w->n, &w->deep));
  visit(w, root.node, false);
  return TN_OK;
}

static void walk_done(walk *w) {
  tn_free(&w->seen);
  tn_free(&w->deep);
}

static tn_status unknown_of(const pn_model *m, const tn_call *call, const pn_net **net, size_t *unknown) {
  for (size_t i = 0; i < m->n_nets; ++i)
    if (m->nets[i].field == call->field) {
      *net = &m->nets[i];
      *unknown = m->nets[i].unknown[call->output];
      return TN_OK;
    }
  return TN_FAIL(TN_EINTERNAL, "a call of a field that is no network's");
}

static bool is_axis(tn_value v, tn_axis axis) {
  tn_shape shape = tn_shape_of(v);
  return tn_shape_batched(&shape) && shape.axis[0] == axis;
}

/* Describes call i of the walk and makes its leaf. */
static tn_status describe(pn_ref_rows *rows, pn_ref_row *row, uint32_t node, pn_ref_call *c) {
  const tn_node *n = tn_node_at(rows->model->graph, node);
  const pn_net *net = NULL;
  pn_scope *scope = &row->scope;
  tn_value value = tn_value_at(rows->model->graph, node, 0);
  TN_TRY(unknown_of(rows->model, n->call, &net, &c->unknown));
  c->mean = scope->mean && is_axis(value, scope->mean->axis);
  if (tn_shape_of(value).rank && !c->mean && !is_axis(value, scope->axis))
    return TN_FAIL(TN_EUNSUPPORTED, "`%s` stands at points of another kind", row->term->name);
  const pn_scope *own = c->mean ? scope->mean : scope;
  for (size_t j = 0; j < net->n_in; ++j) {
    size_t x = net->of[j];
    c->order[x] = n->call->power[j];
    c->argument[x] = tn_value_at(rows->model->graph, n->inputs[j].node, n->inputs[j].port);
    c->own[x] = own->coordinate[x].graph && tn_same(c->argument[x], own->coordinate[x]);
    c->output[x] = PN_NONE;
    if (c->own[x] || pn_is_number(c->argument[x], &c->number[x]))
      continue;
    c->output[x] = row->n_places;
    TN_TRY(tn_grow(&row->place, row->n_places, row->n_places + 1, sizeof *row->place));
    row->place[row->n_places++] = c->argument[x];
  }
  char name[32];
  snprintf(name, sizeof name, "jet%zu", (size_t)(c - row->calls));
  tn_shape shape = own->axis ? tn_shape_points(own->axis) : tn_shape_scalar();
  c->leaf = tn_input(rows->model->graph, name, rows->model->dtype, shape);
  return tn_graph_error(rows->model->graph);
}

/* The residual with leaves for calls, and its derivatives by them. */
static tn_status compile(pn_ref_rows *rows, pn_ref_row *row, tn_value residual, const walk *w) {
  tn_graph *graph = rows->model->graph;
  tn_value *from = NULL, *to = NULL, *out = NULL;
  size_t n = row->n_calls;
  tn_status status = TN_NEW(n + 1, &from);
  if (status == TN_OK)
    status = TN_NEW(n + 1, &to);
  if (status == TN_OK)
    status = TN_NEW(n + 1, &out);
  for (size_t k = 0; status == TN_OK && k < n; ++k) {
    from[k] = tn_value_at(graph, w->call[k], 0);
    to[k] = row->calls[k].leaf;
  }
  if (status == TN_OK)
    status = ag_substitute(graph, n, from, to, 1, &residual, &out[0]);
  if (status == TN_OK) {
    tn_shape shape = tn_shape_of(out[0]);
    row->batched = tn_shape_batched(&shape);
    status = ag_grad(out[0], n, to, out + 1);
  }
  if (status == TN_OK)
    status = tn_compile(graph, n + 1, out, &row->values);
  if (status == TN_OK)
    status = tn_exec_new(row->values, NULL, &row->exec);
  if (status == TN_OK && row->n_places)
    status = tn_compile(graph, row->n_places, row->place, &row->places);
  tn_free(&from);
  tn_free(&to);
  tn_free(&out);
  return status;
}

static tn_status refuse(const pn_ref_row *row, const char *what) {
  return pn_fail_at(TN_EUNSUPPORTED, row->term->place, 1, "`%s`: a reference solution cannot be made: %s",
                    row->term->name, what);
}

static tn_status look(pn_ref_rows *rows, pn_ref_row *row, const walk *w) {
  if (w->nested)
    return refuse(row, "an unknown stands where its value depends on another unknown's");
  if (w->many)
    return refuse(row, "it reads the unknowns at more than 512 places (integrals inside integrals?)");
  row->n_calls = w->n_calls;
  TN_TRY(TN_NEW(row->n_calls + 1, &row->calls));
  bool mean = false, points = false;
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    row->most[x] = -1;
  for (size_t k = 0; k < row->n_calls; ++k) {
    TN_TRY(describe(rows, row, w->call[k], &row->calls[k]));
    const pn_ref_call *c = &row->calls[k];
    mean |= c->mean;
    points |= !c->mean && row->scope.axis;
    for (size_t x = 0; x < rows->problem->n_coordinates; ++x)
      if (c->argument[x].graph) {
        int order = c->order[x], *of = &rows->order[c->unknown][x];
        row->most[x] = order > row->most[x] ? order : row->most[x];
        if (!row->term->is_condition && order > *of)
          *of = order;
      }
  }
  if (mean && (points || row->scope.axis))
    return refuse(row, "it joins a mean with values at points");
  return TN_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

static uint32_t depends(const pn_problem *p, const pn_relation *r) {
  return pn_expr_depends(p, r->lhs) | pn_expr_depends(p, r->rhs);
}

static tn_status add_row(pn_ref_rows *rows, const pn_term *term, const pn_relation *relation,
                         const pn_piece *piece) {
  tn_value residual = {0};
  walk w = {0};
  char key[PN_SITE_KEY];
  TN_TRY(tn_grow(&rows->row, rows->n, rows->n + 1, sizeof *rows->row));
  pn_ref_row *row = &rows->row[rows->n++];
  row->term = term;
  row->relation = relation;
  row->piece = piece;
  if (relation->op != PN_EQUAL)
    return refuse(row, "an inequality");
  uint32_t needed = depends(rows->problem, relation);
  if (term->where == PN_INTEGRAL)
    needed = 0;
  snprintf(key, sizeof key, "row%zu", rows->n);
  TN_TRY(pn_scope_new(rows->model, key, piece, needed, &row->scope));
  row->scope.bare = true;
  for (size_t x = 0; x < rows->problem->n_coordinates; ++x)
    row->free_ |= (uint32_t)row->scope.free_[x] << x;
  row->site = (pn_site){.term = term, .piece = piece, .free_ = row->free_};
  memcpy(row->site.key, key, strlen(key) + 1);
  TN_TRY(pn_lower_relation(&row->scope, relation, &residual));
  tn_status status = find_calls(residual, &w);
  if (status == TN_OK)
    status = look(rows, row, &w);
  if (status == TN_OK)
    status = compile(rows, row, residual, &w);
  walk_done(&w);
  return status;
}

static tn_status add_term(pn_ref_rows *rows, const pn_term *t) {
  for (size_t i = 0; i < t->n_relations; ++i) {
    if (t->where != PN_ON)
      TN_TRY(add_row(rows, t, &t->relations[i], t->n_pieces ? &t->pieces[0] : NULL));
    for (size_t k = 0; t->where == PN_ON && k < t->n_pieces; ++k)
      TN_TRY(add_row(rows, t, &t->relations[i], &t->pieces[k]));
  }
  return TN_OK;
}

static tn_status refuse_kind(const pn_problem *p) {
  if (p->n_parameters)
    return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: `%s` is to be found; write it into "
                                    "[constants] to solve with a given value",
                   p->parameters[0].name);
  for (size_t x = 0; x < p->n_coordinates; ++x) {
    if (pn_moves(&p->coordinates[x]))
      return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: an end of `%s` is an unknown",
                     p->coordinates[x].name);
    if (p->coordinates[x].role == PN_PARAMETER)
      return TN_FAIL(TN_EUNSUPPORTED,
                     "a reference solution cannot be made for a whole range of `%s`: make it a constant, and one "
                     "reference for each value",
                     p->coordinates[x].name);
  }
  bool shapes = p->region != NULL;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    shapes |= p->unknowns[u].in != NULL;
  if (shapes)
    return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: the domain is no box");
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (pn_takes_unknowns(p, &p->unknowns[u]))
      return TN_FAIL(TN_EUNSUPPORTED, "a reference solution cannot be made: `%s` is a function of unknowns",
                     p->unknowns[u].name);
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (p->conditions[i].where == PN_IN)
      return pn_fail_at(TN_EUNSUPPORTED, p->conditions[i].place, 1,
                        "a reference solution cannot be made: condition `%s` holds inside the domain",
                        p->conditions[i].name);
  return TN_OK;
}

static tn_status prepare(pn_ref_rows *r) {
  pn_problem *p = r->problem;
  TN_TRY(refuse_kind(p));
  for (size_t i = 0; i < p->n_conditions; ++i)
    p->conditions[i].hard = false; /* rows like all others */
  TN_TRY(pn_model_new(p, TN_F64, &r->model));
  TN_TRY(pn_sites_new(p, r->model->n_theta, NULL, &r->sites));
  TN_TRY(pn_scopes_new(r->model, r->sites, &r->scopes));
  TN_TRY(TN_NEW(p->n_unknowns, &r->order));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
      r->order[u][x] = x < p->n_coordinates && pn_unknown_has(&p->unknowns[u], x) ? 0 : -1;
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(add_term(r, &p->equations[i]));
  for (size_t i = 0; i < p->n_conditions; ++i)
    TN_TRY(add_term(r, &p->conditions[i]));
  pn_term *fixed = NULL;
  size_t n = 0;
  TN_TRY(pn_ref_ansatz(p, &n, &fixed));
  for (size_t i = 0; i < n; ++i)
    TN_TRY(add_term(r, &fixed[i]));
  return TN_OK;
}

tn_status pn_ref_rows_new(pn_problem *problem, pn_ref_rows *out) {
  *out = (pn_ref_rows){.problem = problem};
  tn_status status = prepare(out);
  if (status != TN_OK)
    pn_ref_rows_free(out);
  return status;
}

void pn_ref_rows_free(pn_ref_rows *rows) {
  for (size_t i = 0; i < rows->n; ++i) {
    pn_ref_row *row = &rows->row[i];
    tn_exec_free(&row->exec);
    tn_program_free(&row->values);
    tn_program_free(&row->places);
    tn_free(&row->calls);
    tn_free(&row->place);
  }
  tn_free(&rows->row);
  tn_free(&rows->order);
  pn_scopes_free(&rows->scopes);
  pn_sites_free(&rows->sites);
  pn_model_free(&rows->model);
  rows->n = 0;
}

/* ---- Points ----------------------------------------------------------------------------------------- */

tn_status pn_ref_points_new(size_t n, uint32_t bits, pn_ref_points *out) {
  *out = (pn_ref_points){.n = n};
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    if (bits >> x & 1)
      TN_TRY(TN_NEW(n, &out->column[x]));
  return TN_OK;
}

void pn_ref_points_free(pn_ref_points *points) {
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    tn_free(&points->column[x]);
  points->n = 0;
}

/* Coordinates and tables of the points as leaves. */
static tn_status feed_points(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                             const pn_ref_points *mean, pn_feed *feed) {
  pn_site site = row->site;
  site.wanted = site.n = points->n;
  memcpy(site.column, points->column, sizeof site.column);
  TN_TRY(pn_feed_site(feed, rows->scopes, &row->scope, &site, 0, points->n));
  if (!row->scope.mean)
    return TN_OK;
  pn_site all = {.term = row->term, .wanted = mean->n, .n = mean->n};
  memcpy(all.key, "mean", 5);
  for (size_t x = 0; x < rows->problem->n_coordinates; ++x)
    all.free_ |= UINT32_C(1) << x;
  memcpy(all.column, mean->column, sizeof all.column);
  return pn_feed_site(feed, rows->scopes, row->scope.mean, &all, 0, mean->n);
}

static tn_status bind_numbers(tn_exec *exec, tn_value leaf, size_t n, const double *x) {
  tn_shape shape = tn_shape_of(leaf);
  tn_buffer *buffer = NULL;
  size_t extent[1] = {n};
  TN_TRY(tn_buffer_new(TN_F64, tn_shape_batched(&shape) ? 1 : 0, extent, &buffer));
  double *to = tn_map(buffer, TN_WRITE);
  memcpy(to, x, (tn_shape_batched(&shape) ? n : 1) * sizeof *x);
  tn_unmap(buffer);
  tn_status status = tn_exec_bind(exec, leaf, buffer);
  tn_buffer_release(&buffer);
  return status;
}

static tn_status read_output(tn_exec *exec, size_t k, size_t n, double *out) {
  tn_buffer *buffer = NULL;
  TN_TRY(tn_exec_output(exec, k, &buffer));
  size_t count = tn_buffer_count(buffer);
  TN_TRY(tn_exec_read(exec, k, count, out));
  for (size_t i = 1; count == 1 && i < n; ++i)
    out[i] = out[0];
  return TN_OK;
}

static tn_status run_places(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                            const pn_ref_points *mean, const double *weight, size_t output, size_t n,
                            double *out) {
  tn_exec *exec = NULL;
  pn_feed feed = {0};
  (void)weight;
  tn_status status = tn_exec_new(row->places, NULL, &exec);
  if (status == TN_OK)
    status = feed_points(rows, row, points, mean, &feed);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, exec);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  if (status == TN_OK)
    status = read_output(exec, output, n, out);
  pn_feed_clear(&feed);
  tn_exec_free(&exec);
  return status;
}

tn_status pn_ref_places(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                        const pn_ref_points *mean, const double *mean_weight, size_t k,
                        pn_ref_points *out) {
  const pn_ref_call *c = &row->calls[k];
  const pn_ref_points *own = c->mean ? mean : points;
  uint32_t bits = 0;
  for (size_t x = 0; x < rows->problem->n_coordinates; ++x)
    bits |= (uint32_t)(c->argument[x].graph != NULL) << x;
  TN_TRY(pn_ref_points_new(own->n, bits, out));
  for (size_t x = 0; x < rows->problem->n_coordinates; ++x) {
    if (!out->column[x])
      continue;
    if (c->output[x] != PN_NONE) {
      TN_TRY(run_places(rows, row, points, mean, mean_weight, c->output[x], own->n, out->column[x]));
      continue;
    }
    bool column = c->own[x] && own->column[x];
    for (size_t i = 0; i < own->n; ++i)
      out->column[x][i] = column ? own->column[x][i] : c->number[x];
    if (c->own[x] && !column) /* fixed by the piece */
      for (size_t i = 0; i < own->n; ++i)
        (void)pn_is_number(c->argument[x], &out->column[x][i]);
  }
  return TN_OK;
}

tn_status pn_ref_evaluate(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                          const pn_ref_points *mean, const double *mean_weight, double *const *jet,
                          double *value, double *const *slope) {
  pn_feed feed = {0};
  tn_status status = feed_points(rows, row, points, mean, &feed);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, row->exec);
  if (status == TN_OK && row->scope.mean)
    status = bind_numbers(row->exec, row->scope.mean->weight, mean->n, mean_weight);
  for (size_t k = 0; status == TN_OK && k < row->n_calls; ++k)
    status = bind_numbers(row->exec, row->calls[k].leaf, row->calls[k].mean ? mean->n : points->n, jet[k]);
  if (status == TN_OK)
    status = tn_exec_run(row->exec);
  if (status == TN_OK)
    status = read_output(row->exec, 0, points->n, value);
  for (size_t k = 0; status == TN_OK && slope && k < row->n_calls; ++k)
    status = read_output(row->exec, k + 1, row->calls[k].mean ? mean->n : points->n, slope[k]);
  pn_feed_clear(&feed);
  return status;
}
