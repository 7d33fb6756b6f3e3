/* check_repair.c: which single edit would let the exact solution fit?
 *
 * Four kinds, all judged at the same points as the failure, by whether |R| falls below 1e-9 of its terms:
 *   a factor   R + (a - 1) T_k = 0 for one term and one number a: found by division, without evaluation
 *   an edit    of one node (check_edit.c): another sign, derivative, number, function
 *   a term     R + a B = 0 for B among the unknowns, their derivatives and first products
 *   a place    the same condition at another end of a coordinate
 * The likeliest that works is told; several errors in one relation have no single edit, and nothing is said.
 */
#include "pinn/check_edit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EDITS = 400, MOST_NODES = 300, MOST_TERMS = 40 };

typedef struct repair {
  pn_checking *c;
  const pn_failure *f;
  pn_scope *scope;
  const pn_site *site;
  size_t n;        /* points */
  double enough;   /* what |R| must fall to */
  int rank;        /* of the best so far */
  double left;     /* what it leaves */
  const char *words;
  const pn_expr *node;
} repair;

/* Takes a repair if it is likelier than what is known. The text says what to do, without what is left. */
static tn_status offer(repair *s, int rank, double left, const pn_expr *node, const char *format,
                       const char *a, const char *b) {
  char number[48];
  char *text = NULL;
  if (!(left <= s->enough) || (s->words && (rank > s->rank || (rank == s->rank && left >= s->left))))
    return TN_OK;
  snprintf(number, sizeof number, "%.1g", left);
  TN_TRY(pn_arena_format(s->c->problem->arena, &text, format, a, b));
  TN_TRY(pn_arena_format(s->c->problem->arena, &text, "%s it leaves %s", text, number));
  s->rank = rank;
  s->left = left;
  s->words = text;
  s->node = node;
  return TN_OK;
}

/* The number a with r + a x = 0 at all points, if there is one. */
static bool ratio(const repair *s, const double *r, const double *x, double *a, double *left) {
  double xx = 0, xr = 0;
  *left = 0;
  for (size_t i = 0; i < s->n; ++i) {
    if (!isfinite(x[i]))
      return false;
    xx += x[i] * x[i];
    xr += x[i] * r[i];
  }
  if (!(xx > 0))
    return false;
  *a = -xr / xx;
  for (size_t i = 0; i < s->n; ++i)
    *left = fmax(*left, fabs(r[i] + *a * x[i]));
  return *left <= s->enough;
}

/* ---- Factors ---------------------------------------------------------------------------------------- */

static bool is_round(double a) {
  double large = fabs(a) < 1 ? 1 / fabs(a) : fabs(a);
  return large <= 1e6 && fabs(large - rint(large)) < 1e-6 * large;
}

static tn_status try_factors(repair *s) {
  for (size_t k = 0; k < s->f->n_terms; ++k) {
    double a = 0, left = 0;
    const pn_expr *e = s->f->exprs[k];
    const char *text = pn_check_text(s->c, e);
    char number[48];
    if (s->f->n_terms < 2 || s->n < 2 || !ratio(s, s->f->residual, s->f->terms + k * s->f->n, &a, &left))
      continue;
    a += 1;
    if (fabs(a) < 1e-9) {
      TN_TRY(offer(s, 2, left, e, "Without `%s`%s", text, ""));
      continue;
    }
    snprintf(number, sizeof number, "%.6g", a);
    if (fabs(a + 1) < 1e-6)
      TN_TRY(offer(s, 0, left, e, "With the sign of `%s` changed%s", text, ""));
    else
      TN_TRY(offer(s, is_round(a) ? 2 : 5, left, e, "With %s times `%s`", number, text));
  }
  return TN_OK;
}

/* ---- Edits of one node -------------------------------------------------------------------------------- */

static tn_status lower_edit(repair *s, pn_edit *edit, tn_value *out) {
  pn_expr kept = *edit->node;
  pn_relation r;
  *edit->node = edit->to;
  tn_status status = pn_check_prepare(s->c, s->f->relation, s->f->piece, &r);
  if (status == TN_OK)
    status = pn_lower_relation(s->scope, &r, out);
  *edit->node = kept;
  return status;
}

static double largest(size_t n, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!isfinite(x[i]))
      return INFINITY;
    most = fmax(most, fabs(x[i]));
  }
  return most;
}

static tn_status offer_edit(repair *s, const pn_edit *e, double left) {
  const char *shown = pn_check_text(s->c, e->shown ? e->shown : &e->to);
  if (e->style == PN_EDIT_SIGN)
    return offer(s, e->rank, left, e->shown, "With the sign of `%s` changed%s", shown, "");
  if (e->style == PN_EDIT_DROP)
    return offer(s, e->rank, left, e->shown, "Without `%s`%s", shown, "");
  return offer(s, e->rank, left, e->node, "With `%s` for `%s`", shown, pn_check_text(s->c, e->node));
}

static tn_status try_values(repair *s, pn_edits *edits, tn_value *values, size_t *which, double *out) {
  size_t n = 0;
  for (size_t i = 0; i < edits->n; ++i) {
    if (lower_edit(s, &edits->edit[i], &values[n]) == TN_OK)
      which[n++] = i;
    else
      tn_graph_clear_error(s->c->model->graph);
  }
  if (n == 0)
    return TN_OK;
  TN_TRY(pn_check_evaluate(s->c, s->scope, s->site, s->n, n, values, out, NULL, NULL));
  for (size_t k = 0; k < n; ++k)
    TN_TRY(offer_edit(s, &edits->edit[which[k]], largest(s->n, out + k * s->n)));
  return TN_OK;
}

static tn_status find_edits(repair *s, pn_edits *edits) {
  pn_expr **nodes = NULL;
  TN_TRY(TN_NEW(MOST_NODES, &nodes));
  tn_status status = TN_OK;
  const pn_relation *r = s->f->relation;
  pn_expr *sides[2] = {r->lhs, r->rhs};
  for (int k = 0; k < 2; ++k) {
    pn_expr *side = sides[k];
    if (side->kind == PN_TUPLE)
      side = side->args[r->component];
    size_t n = pn_check_nodes(s->c->problem, side, MOST_NODES, nodes);
    for (size_t i = 0; i < n && status == TN_OK; ++i)
      status = pn_edits_of(s->c, edits, nodes[i]);
  }
  tn_free(&nodes);
  return status;
}

static tn_status try_edits(repair *s, int most_order) {
  pn_edits edits = {.capacity = MOST_EDITS, .most_order = most_order};
  tn_value *values = NULL;
  size_t *which = NULL;
  double *out = NULL;
  tn_status status = TN_NEW(MOST_EDITS, &edits.edit);
  if (status == TN_OK)
    status = TN_NEW(MOST_EDITS, &values);
  if (status == TN_OK)
    status = TN_NEW(MOST_EDITS, &which);
  if (status == TN_OK)
    status = TN_NEW(MOST_EDITS * s->n, &out);
  if (status == TN_OK)
    status = find_edits(s, &edits);
  if (status == TN_OK)
    status = try_values(s, &edits, values, which, out);
  tn_free(&edits.edit);
  tn_free(&values);
  tn_free(&which);
  tn_free(&out);
  return status;
}

/* ---- A term that is not there ---------------------------------------------------------------------------- */

static tn_status unknown_node(repair *s, size_t u, pn_expr **out) {
  TN_TRY(pn_expr_make(s->c->problem->arena, PN_UNKNOWN, NULL, 0, NULL, out));
  (*out)->index = u;
  (*out)->name = s->c->problem->unknowns[u].name;
  return TN_OK;
}

static tn_status product(repair *s, pn_kind kind, pn_expr *a, pn_expr *b, size_t *n, pn_expr **terms) {
  return *n < MOST_TERMS ? pn_expr_make(s->c->problem->arena, kind, NULL, 2, (pn_expr *[]){a, b}, &terms[(*n)++])
                         : TN_OK;
}

/* u, its derivatives up to most_order, u^2, u^3, and u times first derivatives of all unknowns. */
static tn_status terms_of(repair *s, size_t u, int most_order, size_t *n, pn_expr **terms) {
  const pn_problem *p = s->c->problem;
  int counts[PN_MAX_COORDINATES] = {0};
  pn_expr *field = NULL;
  TN_TRY(unknown_node(s, u, &field));
  do {
    pn_expr *d = NULL;
    TN_TRY(PN_TAKE(p->arena, 1, &d));
    TN_TRY(pn_edit_derivative(s->c, field, counts, d));
    if (*n < MOST_TERMS)
      terms[(*n)++] = d;
  } while (pn_edit_next(p->unknowns[u].n_of, p->unknowns[u].of, most_order, counts));
  for (int k = 2; k <= 3; ++k) {
    pn_expr *exponent = NULL;
    TN_TRY(pn_expr_number(p->arena, k, NULL, &exponent));
    TN_TRY(product(s, PN_POWER, field, exponent, n, terms));
  }
  for (size_t w = 0; w < p->n_unknowns && w < 4; ++w)
    for (size_t j = 0; j < p->unknowns[w].n_of; ++j) {
      int one[PN_MAX_COORDINATES] = {0};
      pn_expr *other = NULL, *d = NULL;
      one[p->unknowns[w].of[j]] = 1;
      TN_TRY(unknown_node(s, w, &other));
      TN_TRY(PN_TAKE(p->arena, 1, &d));
      TN_TRY(pn_edit_derivative(s->c, other, one, d));
      TN_TRY(product(s, PN_MULTIPLY, field, d, n, terms));
    }
  return TN_OK;
}

static tn_status offer_terms(repair *s, size_t n, pn_expr **terms, const double *value) {
  for (size_t k = 0; k < n; ++k) {
    double a = 0, left = 0;
    char number[48];
    if (!ratio(s, s->f->residual, value + k * s->n, &a, &left))
      continue;
    if (fabs(a) == 1)
      snprintf(number, sizeof number, "%s", a < 0 ? "- " : "+ ");
    else
      snprintf(number, sizeof number, "%s%.6g*", a < 0 ? "- " : "+ ", fabs(a));
    TN_TRY(offer(s, is_round(a) ? 4 : 6, left, NULL, "With `%s%s` added on the left", number,
                 pn_check_text(s->c, terms[k])));
  }
  return TN_OK;
}

static tn_status try_terms(repair *s, int most_order) {
  const pn_problem *p = s->c->problem;
  pn_expr *terms[MOST_TERMS], *kept[MOST_TERMS];
  tn_value values[MOST_TERMS];
  double *out = NULL;
  size_t n = 0, m = 0;
  uint64_t bits = pn_expr_unknowns(p, s->f->relation->whole);
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (bits >> u & 1u)
      TN_TRY(terms_of(s, u, most_order, &n, terms));
  for (size_t k = 0; k < n; ++k) {
    if (pn_lower(s->scope, terms[k], &values[m]) == TN_OK)
      kept[m++] = terms[k];
    else
      tn_graph_clear_error(s->c->model->graph);
  }
  if (m == 0)
    return TN_OK;
  TN_TRY(TN_NEW(m * s->n, &out));
  tn_status status = pn_check_evaluate(s->c, s->scope, s->site, s->n, m, values, out, NULL, NULL);
  if (status == TN_OK)
    status = offer_terms(s, m, kept, out);
  tn_free(&out);
  return status;
}

/* ---- Another place ----------------------------------------------------------------------------------------- */

static tn_status try_place(repair *s, size_t coordinate, int side) {
  pn_checking *c = s->c;
  const pn_piece piece = pn_check_face(c->problem, coordinate, side);
  pn_site site = {.term = s->f->term, .piece = &piece, .free_ = s->f->term->coordinates};
  pn_scope scope;
  pn_relation r;
  tn_value value = {0};
  double out[PN_REPAIR_POINTS];
  char number[64];
  site.free_ &= ~(UINT32_C(1) << coordinate);
  snprintf(site.key, sizeof site.key, "elsewhere");
  TN_TRY(pn_scope_new(c->model, site.key, &piece, site.free_, &scope));
  scope.exact = true;
  pn_draw draw = {.kind = PN_DRAW_CHECK, .factor = 1};
  tn_status status = pn_site_draw(c->sites, &site, &draw, PN_REPAIR_POINTS);
  if (status == TN_OK)
    status = pn_check_prepare(c, s->f->relation, &piece, &r);
  if (status == TN_OK)
    status = pn_lower_relation(&scope, &r, &value);
  if (status == TN_OK)
    status = pn_check_evaluate(c, &scope, &site, site.n, 1, &value, out, NULL, NULL);
  if (status == TN_OK) {
    snprintf(number, sizeof number, "%.6g", piece.value[0]);
    status = offer(s, 2, largest(site.n, out), NULL, "On %s = %s", c->problem->coordinates[coordinate].name,
                   number);
  } else {
    tn_graph_clear_error(c->model->graph);
    status = TN_OK;
  }
  pn_site_clear(&site);
  return status;
}

static tn_status try_places(repair *s) {
  const pn_piece *now = s->f->piece;
  if (s->f->term->where != PN_ON || now->n_fixed != 1 || now->filter)
    return TN_OK;
  for (size_t x = 0; x < s->c->problem->n_coordinates; ++x)
    for (int side = -1; side <= 1; side += 2) {
      const pn_coordinate *axis = &s->c->problem->coordinates[x];
      bool same = now->fixed[0] == x && now->value[0] == (side < 0 ? axis->lo : axis->hi);
      if (!same && axis->role != PN_PARAMETER && (s->f->term->coordinates >> x & 1u))
        TN_TRY(try_place(s, x, side));
    }
  return TN_OK;
}

/* Solutions by quadrature cost a thousand times a formula's. */
static bool is_slow(const pn_problem *p) {
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

tn_status pn_check_repair(pn_checking *c, const pn_failure *f, const char **words, const pn_expr **node) {
  int most_order = is_slow(c->problem) ? 2 : 4;
  repair s = {.c = c, .f = f, .site = &c->sites->sites[f->site]};
  s.n = f->n < PN_REPAIR_POINTS ? f->n : PN_REPAIR_POINTS;
  s.enough = fmax(1e-9, 3 * f->limit) * f->scale;
  TN_TRY(pn_check_scope(c, f->site, &s.scope));
  TN_TRY(try_factors(&s));
  TN_TRY(try_edits(&s, most_order));
  if (!s.words)
    TN_TRY(try_places(&s));
  if (!s.words && !f->term->is_condition && s.n > 1)
    TN_TRY(try_terms(&s, most_order));
  *words = s.words;
  *node = s.node;
  return TN_OK;
}
