/* check_facts.c: what the program read: networks, equations, conditions, channels, cost.
 *
 * Equations are printed from the parsed tree, never from the text of the file: what is shown is what is
 * trained. The cost is measured (check_cost.c).
 */
#include "pinn/banner.h"
#include "pinn/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Networks and orders -------------------------------------------------------------------------------- */

/* An ansatz may differentiate the network once more than the equations show. */
static tn_status put_orders(pn_checking *c) {
  const pn_problem *p = c->problem;
  int *order = NULL;
  TN_TRY(TN_NEW(p->n_unknowns, &order));
  tn_status status = pn_problem_orders(p, order, NULL);
  for (size_t u = 0; u < p->n_unknowns && status == TN_OK; ++u) {
    const pn_unknown *unknown = &p->unknowns[u];
    if (!unknown->ansatz || order[u] < 1)
      continue;
    pn_putf(&c->out, "ansatz     %s = %s: the network to order %d", unknown->name,
            pn_check_text(c, unknown->ansatz), order[u]);
    if (unknown->n_of == 1)
      pn_putf(&c->out, " (%s)", pn_check_derivative(c, u, unknown->of[0], order[u]));
    pn_put(&c->out, "\n");
  }
  tn_free(&order);
  return status;
}

/* ---- Equations and conditions ---------------------------------------------------------------------------- */

static size_t points_of(const pn_sites *sites, const pn_term *term) {
  size_t n = 0;
  for (size_t m = 0; m < sites->n_terms; ++m)
    for (size_t k = 0; sites->terms[m].term == term && k < sites->terms[m].n_sites; ++k)
      n += sites->sites[sites->terms[m].site[k]].wanted;
  return n;
}

static void put_term_json(pn_checking *c, const pn_sites *sites, const pn_term *t) {
  pn_json_object(c->json, NULL);
  pn_json_string(c->json, "name", t->name);
  pn_json_string(c->json, "kind", t->is_condition ? "condition" : "equation");
  pn_json_string(c->json, "region", t->region);
  pn_json_boolean(c->json, "hard", t->hard);
  pn_json_integer(c->json, "points", (int64_t)points_of(sites, t));
  pn_json_array(c->json, "relations");
  for (size_t r = 0; r < t->n_relations; ++r)
    pn_json_string(c->json, NULL, pn_check_relation_text(c, &t->relations[r]));
  pn_json_end(c->json);
  pn_json_end(c->json);
}

static void put_terms_json(pn_checking *c, const pn_sites *sites) {
  const pn_problem *p = c->problem;
  if (!c->json)
    return;
  pn_json_array(c->json, "terms");
  for (size_t i = 0; i < p->n_equations; ++i)
    put_term_json(c, sites, &p->equations[i]);
  for (size_t i = 0; i < p->n_conditions; ++i)
    put_term_json(c, sites, &p->conditions[i]);
  pn_json_end(c->json);
}

/* ---- Channels ---------------------------------------------------------------------------------------------- */

typedef struct plan {
  pn_scopes *scopes;
  size_t n;
  tn_value *roots;
  ag_resolve_report report;
} plan;

static tn_status lower_all(plan *s, pn_sites *sites) {
  size_t most = 0;
  for (size_t m = 0; m < sites->n_terms; ++m)
    most += sites->terms[m].n_sites * sites->terms[m].term->n_relations;
  TN_TRY(TN_NEW(most, &s->roots));
  for (size_t m = 0; m < sites->n_terms; ++m)
    for (size_t k = 0; k < sites->terms[m].n_sites; ++k)
      for (size_t r = 0; r < sites->terms[m].term->n_relations; ++r) {
        pn_scope *scope = NULL;
        TN_TRY(pn_scopes_at(s->scopes, sites->terms[m].site[k], &scope));
        TN_TRY(pn_lower_relation(scope, &sites->terms[m].term->relations[r], &s->roots[s->n++]));
      }
  return TN_OK;
}

static tn_status plan_channels(const pn_model *model, pn_sites *sites, plan *s) {
  tn_status status = pn_scopes_new((pn_model *)(uintptr_t)model, sites, &s->scopes);
  if (status == TN_OK)
    status = lower_all(s, sites);
  if (status == TN_OK)
    status = ag_resolve(model->graph, s->n, s->roots, NULL, s->roots, &s->report);
  tn_free(&s->roots);
  pn_scopes_free(&s->scopes);
  return status;
}

static void put_channels_json(pn_checking *c, const ag_resolve_report *report) {
  if (!c->json)
    return;
  pn_json_array(c->json, "channels");
  for (size_t i = 0; i < report->n_groups && i < 32; ++i) {
    const ag_group_report *g = &report->group[i];
    pn_json_object(c->json, NULL);
    pn_json_string(c->json, "field", g->field);
    pn_json_integer(c->json, "line", g->line);
    pn_json_string(c->json, "labels", g->labels);
    pn_json_integer(c->json, "channels", (int64_t)g->channels);
    pn_json_end(c->json);
  }
  pn_json_end(c->json);
}

static tn_status put_channels(pn_checking *c, const pn_model *m, const ag_resolve_report *report) {
  pn_text line = {0};
  put_channels_json(c, report);
  pn_put_channels(&line, m, report);
  tn_status status = pn_text_status(&line);
  if (status == TN_OK && line.n > 0)
    pn_put_wrapped(&c->out, "computes", PN_LABEL, line.text);
  pn_text_free(&line);
  return status;
}

/* ---- Hints -------------------------------------------------------------------------------------------------- */

/* Conditions that could be met by construction beside those that are. */
static tn_status hint_hard(pn_checking *c) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    pn_term *t = &p->conditions[i];
    pn_model *model = NULL;
    bool met = false;
    if (t->hard || t->where != PN_ON || c->errors > 0)
      continue;
    TN_TRY(pn_check_met(c, t, &met));
    if (met)
      continue;
    t->hard = true;
    tn_status status = pn_model_new(p, TN_F64, &model);
    t->hard = false;
    pn_model_free(&model);
    if (status == TN_ENOMEM)
      return status;
    if (status == TN_OK)
      TN_TRY(pn_found(c, PN_FOUND_HINT, t->name, (pn_place){0}, 0, "`%s` can be exact: hard = true",
                      t->name));
  }
  tn_error_clear();
  return TN_OK;
}

static tn_status put_facts(pn_checking *c, const pn_model *m, pn_sites *sites) {
  plan s = {0};
  TN_TRY(pn_put_networks(&c->out, m));
  TN_TRY(put_orders(c));
  TN_TRY(pn_put_terms(&c->out, m, sites));
  put_terms_json(c, sites);
  TN_TRY(pn_check_put_parameters(c));
  TN_TRY(plan_channels(m, sites, &s));
  TN_TRY(put_channels(c, m, &s.report));
  TN_TRY(pn_check_cost(c));
  return hint_hard(c);
}

tn_status pn_check_facts(pn_checking *c) {
  pn_problem *p = c->problem;
  pn_model *model = NULL;
  pn_sites *sites = NULL;
  bool *skip = NULL;
  const char *name = strrchr(p->source.file, '/');
  pn_putf(&c->out, "pinn %s   %s   %s\n", pn_version(), name ? name + 1 : p->source.file,
          p->title ? p->title : "");
  TN_TRY(TN_NEW(p->n_conditions, &skip));
  for (size_t i = 0; i < p->n_conditions; ++i)
    skip[i] = p->conditions[i].hard;
  p->n_tables = c->n_file_tables;
  tn_status status = pn_model_new(p, TN_F64, &model);
  if (status == TN_OK)
    status = pn_sites_new(p, model->n_theta, skip, &sites);
  if (status == TN_OK)
    status = put_facts(c, model, sites);
  p->n_tables = c->n_file_tables + c->n_derived;
  pn_sites_free(&sites);
  pn_model_free(&model);
  tn_free(&skip);
  return status;
}
