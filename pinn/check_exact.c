/* check_exact.c: the exact solution put into every equation and condition.
 *
 * With R = lhs - rhs = sum of terms T_k, both evaluated in f64 with the exact solution as the field,
 *
 *   defect = max over points of |R| / max(max_k |T_k| there, largest |T_k| anywhere / 100)
 *
 * is some 1e-15 if the equation is the one that the solution solves and near 1 if it is not. Where all terms
 * are small themselves (u = 0 on a wall, a divergence that is one term) their size says nothing; before such a
 * relation is blamed, the solution is changed by a tenth of its size, and what that does to R is a scale too.
 *
 * Limits: 1e-10 for formulas, 1e-3 for means (a grid stands for the box), 1e-2 over a part, 1e-4 for solutions that are tables
 * (an interpolant), 1e-3 for derivatives of those. The derivatives of a spline lose digits where the solution is
 * steep, so a defect of theirs up to 5e-2 is told and not held against the equation: a wrong sign or term leaves
 * a defect near 1.
 */
#include "pinn/check.h"
#include "pinn/data.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Scale ----------------------------------------------------------------------------------------- */

tn_status pn_check_wave(pn_checking *c, size_t u, double a, pn_expr **out) {
  pn_problem *p = c->problem;
  const pn_unknown *unknown = &p->unknowns[u];
  pn_expr *product = NULL;
  TN_TRY(pn_expr_number(p->arena, a, NULL, &product));
  for (size_t j = 0; j < unknown->n_of; ++j) {
    const pn_coordinate *axis = &p->coordinates[unknown->of[j]];
    double slope = 1.3 / (axis->hi - axis->lo);
    pn_expr *x = NULL, *k = NULL, *shift = NULL;
    TN_TRY(pn_expr_make(p->arena, PN_COORDINATE, NULL, 0, NULL, &x));
    x->index = unknown->of[j];
    x->name = axis->name;
    TN_TRY(pn_expr_number(p->arena, slope, NULL, &k));
    TN_TRY(pn_expr_number(p->arena, 0.7 - axis->lo * slope, NULL, &shift));
    TN_TRY(pn_expr_make(p->arena, PN_MULTIPLY, NULL, 2, (pn_expr *[]){k, x}, &x));
    TN_TRY(pn_expr_make(p->arena, PN_ADD, NULL, 2, (pn_expr *[]){x, shift}, &x));
    TN_TRY(pn_expr_make(p->arena, PN_FUNCTION, NULL, 1, (pn_expr *[]){x}, &x));
    x->index = PN_FN_cos;
    TN_TRY(pn_expr_make(p->arena, PN_MULTIPLY, NULL, 2, (pn_expr *[]){product, x}, &product));
  }
  *out = product;
  return TN_OK;
}

/* The exact solution and a tenth of its size as a wave. */
static tn_status changed(pn_checking *c, size_t u, pn_expr **out) {
  pn_problem *p = c->problem;
  double a = isfinite(c->size[u]) && c->size[u] > 0 ? 0.1 * c->size[u] : 0.1;
  pn_expr *wave = NULL;
  TN_TRY(pn_check_wave(c, u, a, &wave));
  return pn_expr_make(p->arena, PN_ADD, NULL, 2, (pn_expr *[]){p->unknowns[u].exact, wave}, out);
}

/* Ten times what a tenth more of the solution changes. */
static tn_status sensitivity(pn_checking *c, pn_scope *scope, const pn_site *site,
                             const pn_relation *r, size_t n, const double *before, double *out) {
  pn_problem *p = c->problem;
  pn_expr **kept = NULL;
  tn_value value = {0};
  double after[PN_CHECK_POINTS];
  *out = 0;
  TN_TRY(TN_NEW(p->n_unknowns, &kept));
  tn_status status = TN_OK;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    kept[u] = p->unknowns[u].exact;
  for (size_t u = 0; u < p->n_unknowns && status == TN_OK; ++u)
    if (kept[u])
      status = changed(c, u, &p->unknowns[u].exact);
  if (status == TN_OK)
    status = pn_lower_relation(scope, r, &value);
  if (status == TN_OK)
    status = pn_check_evaluate(c, scope, site, n, 1, &value, after, NULL, NULL);
  for (size_t u = 0; u < p->n_unknowns; ++u)
    p->unknowns[u].exact = kept[u];
  tn_free(&kept);
  if (status != TN_OK) { /* no scale, then */
    tn_graph_clear_error(c->model->graph);
    return TN_OK;
  }
  for (size_t i = 0; i < n; ++i)
    if (isfinite(after[i]) && isfinite(before[i]))
      *out = fmax(*out, 10 * fabs(after[i] - before[i]));
  return TN_OK;
}

/* ---- One relation on one site ------------------------------------------------------------------------ */

static double limit_of(pn_checking *c, const pn_term *term, const pn_relation *r) {
  const pn_problem *p = c->problem;
  if (term->data) /* measured: noise is no defect, another quantity or unit is */
    return 0.5;
  if (pn_check_by_table(c, r))
    return pn_check_has(p, r->whole, PN_DERIVATIVE) ? 1e-3 : 1e-4;
  if (!pn_check_has(p, r->whole, PN_MEAN))
    return 1e-10;
  return p->region || pn_check_has(p, r->whole, PN_LESS) || pn_check_has(p, r->whole, PN_GREATER) ? 1e-2 : 1e-3;
}

enum { SPLINE_TWENTIETH = 20 }; /* 1 / largest defect that the derivatives of a table are forgiven */

static bool is_spline_error(pn_checking *c, const pn_relation *r, double relative) {
  return pn_check_by_table(c, r) && pn_check_has(c->problem, r->whole, PN_DERIVATIVE) &&
         relative * SPLINE_TWENTIETH < 1;
}

static void measure(pn_failure *f, double *relative) {
  double all = f->scale;
  *relative = 0;
  f->worst = 0;
  for (size_t i = 0; i < f->n * f->n_terms; ++i)
    all = fmax(all, fabs(f->terms[i]));
  f->scale = all;
  for (size_t i = 0; i < f->n; ++i) {
    double here = all / 100;
    for (size_t k = 0; k < f->n_terms; ++k)
      here = fmax(here, fabs(f->terms[k * f->n + i]));
    double now = f->residual[i] == 0 ? 0 : fabs(f->residual[i]) / here;
    if (now > *relative) {
      *relative = now;
      f->worst = i;
    }
  }
}

static tn_status blame_number(pn_checking *c, const pn_failure *f, const char *culprit,
                              size_t where) {
  double point[PN_MAX_COORDINATES];
  const pn_expr *whole = f->relation->whole;
  pn_site_point(c->problem, &c->sites->sites[f->site], where, point);
  (void)pn_moving_place(c->problem, point);
  return pn_found(c, PN_FOUND_ERROR, f->term->name, pn_expr_place(whole), whole->length,
                  "with the exact solution, `%s` in `%s` has no finite value at %s", culprit,
                  f->term->name, pn_check_point(c, point));
}

static void add_terms(pn_text *text, const pn_failure *f) {
  char number[64];
  if (f->n_terms < 2)
    return;
  pn_put(text, " (terms ");
  for (size_t k = 0; k < f->n_terms; ++k) {
    snprintf(number, sizeof number, "%s%.6g", k ? ", " : "", f->terms[k * f->n + f->worst]);
    pn_put(text, number);
  }
  pn_put(text, ")");
}

/* An integral that its nodes do not resolve leaves a little. */
static const char *kinked(pn_checking *c, const pn_failure *f) {
  bool small = fabs(f->residual[f->worst]) < 1e-2 * f->scale;
  return small && pn_check_has(c->problem, f->relation->whole, PN_INTEGRAL_OF)
             ? " An integral is right to rounding where its integrand is smooth: split it at a kink."
             : "";
}

static tn_status blame(pn_checking *c, const pn_failure *f) {
  double point[PN_MAX_COORDINATES];
  const char *words = NULL;
  const pn_expr *node = NULL, *whole = f->relation->whole;
  pn_text terms = {0};
  char number[64];
  TN_TRY(pn_check_repair(c, f, &words, &node));
  pn_site_point(c->problem, &c->sites->sites[f->site], f->worst, point);
  (void)pn_moving_place(c->problem, point);
  if (!node || !node->phrase)
    node = whole;
  add_terms(&terms, f);
  snprintf(number, sizeof number, "%.6g", f->residual[f->worst]);
  tn_status status = pn_text_status(&terms);
  if (status == TN_OK)
    status = pn_found(c, PN_FOUND_ERROR, f->term->name, pn_expr_place(node), node->length,
                      "the exact solution leaves %s in `%s` at %s%s.%s%s%s%s", number, f->term->name,
                      pn_check_point(c, point), terms.n ? terms.text : "", words ? " " : "",
                      words ? words : "", words ? "." : "", kinked(c, f));
  pn_text_free(&terms);
  return status;
}

static tn_status blame_data(pn_checking *c, const pn_term *term, double worst) {
  return pn_found(c, PN_FOUND_WARNING, term->name, term->place, strlen(term->name),
                  "the data of `%s` differ from the exact solution by up to %.2g of their size: "
                  "another column, unit or sign?",
                  term->name, worst);
}

static tn_status evaluate(pn_checking *c, pn_failure *f, pn_scope *scope, const pn_relation *r,
                          const char **culprit, size_t *where) {
  tn_value values[PN_CHECK_TERMS + 1];
  int signs[PN_CHECK_TERMS];
  const pn_site *site = &c->sites->sites[f->site];
  TN_TRY(pn_lower_terms(scope, r, PN_CHECK_TERMS, &f->n_terms, values, f->exprs, signs));
  TN_TRY(pn_lower_relation(scope, r, &values[f->n_terms]));
  TN_TRY(pn_check_evaluate(c, scope, site, f->n, f->n_terms + 1, values, f->terms, culprit, where));
  memcpy(f->residual, f->terms + f->n_terms * f->n, f->n * sizeof *f->residual);
  for (size_t k = 0; k < f->n_terms; ++k)
    for (size_t i = 0; i < f->n; ++i)
      f->terms[k * f->n + i] *= signs[k];
  return TN_OK;
}

/* Looks at one relation on one site; f has term, relation and site. *relative > limit: it fails. */
static tn_status look(pn_checking *c, pn_failure *f, double limit, double *relative,
                      const char **culprit, size_t *where) {
  pn_site *site = &c->sites->sites[f->site];
  pn_scope *scope = NULL;
  pn_relation r;
  f->piece = site->piece;
  f->n = site->n;
  f->scale = 0;
  if (f->term->data && isfinite(f->term->data->sigma)) /* noise of five sigma is at the limit */
    f->scale = 500 * f->term->data->sigma / limit;
  TN_TRY(pn_check_scope(c, f->site, &scope));
  TN_TRY(pn_check_prepare(c, f->relation, site->piece, &r));
  TN_TRY(evaluate(c, f, scope, &r, culprit, where));
  if (*culprit)
    return TN_OK;
  measure(f, relative);
  if (*relative <= limit)
    return TN_OK;
  TN_TRY(sensitivity(c, scope, site, &r, f->n, f->residual, &f->scale));
  measure(f, relative);
  return TN_OK;
}

/* Does the term stand on a surface that a file gives, and is the defect what its facets or digits may leave? */
static bool is_surface_error(const pn_problem *p, const pn_term *t, double relative) {
  for (size_t k = 0; k < t->n_pieces && relative * SPLINE_TWENTIETH < 1; ++k) {
    const pn_piece *piece = &t->pieces[k];
    const pn_face *face = NULL;
    if (piece->whole)
      pn_body_faces(piece->whole, &face);
    for (size_t i = 0; i < piece->n_faces; ++i)
      if (face[piece->faces[i]].tag < p->n_shapes && p->shapes[face[piece->faces[i]].tag].from_file)
        return true;
  }
  return false;
}

/* A relation on all its sites; only the worst is reported. */
static tn_status check_relation(pn_checking *c, const pn_term_sites *at, const pn_relation *r,
                                pn_defect *defect, double *terms, pn_expr **exprs) {
  double worst = -1, limit = limit_of(c, at->term, r);
  size_t worst_site = 0;
  for (size_t s = 0; s <= at->n_sites; ++s) { /* once more at the worst */
    pn_failure f = {
        .term = at->term, .relation = r, .limit = limit, .terms = terms, .exprs = exprs};
    const char *culprit = NULL;
    size_t where = 0;
    double relative = 0;
    bool last = s == at->n_sites;
    if (last && worst <= limit)
      break;
    if (last && is_surface_error(c->problem, at->term, worst)) {
      defect->limit = worst;
      return pn_found(c, PN_FOUND_NOTE, at->term->name, at->term->place, strlen(at->term->name),
                      "the surface from a file leaves %.1e in `%s`: so far it is the one that the exact "
                      "solution has",
                      worst, at->term->name);
    }
    if (last && at->term->data)
      return blame_data(c, at->term, worst);
    if (last && is_spline_error(c, r, worst)) {
      defect->limit = worst;
      return pn_found(c, PN_FOUND_NOTE, at->term->name, at->term->place, strlen(at->term->name),
                      "the derivatives of the table leave %.1e in `%s`: so far it can be checked",
                      worst, at->term->name);
    }
    f.site = last ? worst_site : at->site[s];
    tn_status status = look(c, &f, limit, &relative, &culprit, &where);
    if (status == TN_EUNSUPPORTED) { /* a table where it cannot be evaluated */
      tn_graph_clear_error(c->model->graph);
      return pn_found(c, PN_FOUND_NOTE, at->term->name, at->term->place, strlen(at->term->name),
                      "`%s` was not checked with the exact solution: it is a table",
                      at->term->name);
    }
    TN_TRY(status);
    if (culprit)
      return blame_number(c, &f, culprit, where);
    if (last)
      return blame(c, &f);
    if (relative > worst) {
      worst = relative;
      worst_site = f.site;
    }
    defect->limit = limit;
    if (!at->term->data) /* noise is no defect of the file */
      defect->relative = fmax(isnan(defect->relative) ? 0 : defect->relative, relative);
  }
  return TN_OK;
}

tn_status pn_check_exact(pn_checking *c) {
  double *terms = NULL;
  pn_expr *exprs[PN_CHECK_TERMS];
  TN_TRY(TN_NEW(c->sites->n_terms, &c->defect));
  TN_TRY(TN_NEW((PN_CHECK_TERMS + 1) * PN_CHECK_POINTS, &terms));
  tn_status status = TN_OK;
  c->n_defects = c->sites->n_terms;
  for (size_t m = 0; m < c->sites->n_terms && status == TN_OK; ++m) {
    const pn_term_sites *at = &c->sites->terms[m];
    c->defect[m] = (pn_defect){.term = at->term, .relative = NAN};
    for (size_t r = 0; r < at->term->n_relations && status == TN_OK; ++r)
      if (pn_check_has_exact(c, &at->term->relations[r]))
        status = check_relation(c, at, &at->term->relations[r], &c->defect[m], terms, exprs);
  }
  tn_free(&terms);
  return status;
}

/* ---- Does u = 0 do? -------------------------------------------------------------------------------- */

static tn_status zero_fits(pn_checking *c, const pn_term_sites *at, bool *fits) {
  double value[PN_CHECK_POINTS];
  for (size_t s = 0; s < at->n_sites && *fits; ++s)
    for (size_t k = 0; k < at->term->n_relations && *fits; ++k) {
      pn_scope *scope = NULL;
      tn_value v = {0};
      const pn_site *site = &c->sites->sites[at->site[s]];
      TN_TRY(pn_check_scope(c, at->site[s], &scope));
      TN_TRY(pn_lower_relation(scope, &at->term->relations[k], &v));
      TN_TRY(pn_check_evaluate(c, scope, site, site->n, 1, &v, value, NULL, NULL));
      for (size_t i = 0; i < site->n; ++i)
        *fits = *fits && fabs(value[i]) < 1e-14;
    }
  return TN_OK;
}

tn_status pn_check_zero(pn_checking *c) {
  pn_problem *p = c->problem;
  pn_expr **kept = NULL, *zero = NULL;
  bool fits = true, known_zero = true;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (pn_check_never_zero(p, u))
      return TN_OK;
  TN_TRY(pn_expr_number(p->arena, 0, NULL, &zero));
  TN_TRY(TN_NEW(p->n_unknowns, &kept));
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    kept[u] = p->unknowns[u].exact;
    known_zero = known_zero && kept[u] && c->size[u] == 0;
    p->unknowns[u].exact = zero;
  }
  tn_status status = TN_OK;
  for (size_t m = 0; m < c->sites->n_terms && fits && status == TN_OK; ++m)
    status = zero_fits(c, &c->sites->terms[m], &fits);
  for (size_t u = 0; u < p->n_unknowns; ++u)
    p->unknowns[u].exact = kept[u];
  tn_free(&kept);
  if (status != TN_OK) { /* tables and the like: no answer */
    tn_graph_clear_error(c->model->graph);
    return TN_OK;
  }
  if (!fits || known_zero)
    return TN_OK;
  const pn_unknown *u = &p->unknowns[0];
  return pn_found(
      c, PN_FOUND_WARNING, u->name, u->place, strlen(u->name),
      "`%s` = 0 fulfils every equation and condition%s: training will find that. Give a value "
      "that is not 0, or a norm as in \"mean(%s^2, domain) = 1\"",
      u->name, p->n_unknowns > 1 ? " (with all other unknowns 0)" : "", u->name);
}
