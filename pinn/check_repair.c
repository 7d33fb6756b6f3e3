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
#include "pinn/moving.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EDITS = 400, MOST_NODES = 300, MOST_TERMS = 96 };

typedef struct repair {
  pn_checking *c;
  const pn_failure *f;
  pn_scope *scope;
  pn_scope all; /* of points all over the box, for all edits; made when first needed */
  const pn_site *site;
  size_t n;      /* points */
  double enough; /* what |R| must fall to */
  int rank;      /* of the best so far */
  const char *words;
  const pn_expr *node;
} repair;

/* Takes a repair if it is likelier than what is known. The text says what to do, without what is left. */
static tn_status offer(repair *s, int rank, double left, const pn_expr *node, const char *format,
                       const char *a, const char *b) {
  char number[48];
  char *text = NULL;
  if (!(left <= s->enough) || (s->words && rank >= s->rank))
    return TN_OK;
  snprintf(number, sizeof number, "%.1g", left);
  TN_TRY(pn_arena_format(s->c->problem->arena, &text, format, a, b));
  TN_TRY(pn_arena_format(s->c->problem->arena, &text, "%s it leaves %s", text, number));
  s->rank = rank;
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

/* 0: 2, 1/2, or a power of ten; 1: another whole number or its inverse; 2: none */
static int oddness(double a) {
  double large = fabs(a) < 1 ? 1 / fabs(a) : fabs(a), ten = log10(large);
  bool usual = fabs(large - 2) < 1e-6 || fabs(large - 1) < 1e-9 || fabs(ten - rint(ten)) < 1e-7;
  if (usual && a > 0)
    return 0;
  return large <= 1e4 && fabs(large - rint(large)) < 1e-6 * large ? 1 : 2;
}

/* Are all terms but the k-th 0? */
static bool rest_vanishes(const repair *s, size_t k) {
  for (size_t j = 0; j < s->f->n_terms; ++j)
    for (size_t i = 0; i < s->f->n && j != k; ++i)
      if (fabs(s->f->terms[j * s->f->n + i]) > s->enough)
        return false;
  return true;
}

static tn_status try_factors(repair *s) {
  for (size_t k = 0; k < s->f->n_terms; ++k) {
    double a = 0, left = 0;
    const pn_expr *e = s->f->exprs[k];
    const char *text = pn_check_text(s->c, e);
    char number[48];
    if (s->f->n_terms < 2 || s->n < 2 ||
        !ratio(s, s->f->residual, s->f->terms + k * s->f->n, &a, &left))
      continue;
    a += 1;
    if (fabs(a) < 1e-9 && rest_vanishes(s, k))
      continue; /* "u = 0" without u is 0 = 0 */
    if (fabs(a) < 1e-9) {
      TN_TRY(offer(s, 4, left, e, "Without `%s`%s", text, ""));
      continue;
    }
    snprintf(number, sizeof number, "%.6g", a);
    if (fabs(a + 1) < 1e-6)
      TN_TRY(offer(s, 0, left, e, "With the sign of `%s` changed%s", text, ""));
    else
      TN_TRY(offer(s, oddness(a) == 0 ? 2 : 3 + oddness(a), left, e, "With %s times `%s`", number,
                   text));
  }
  return TN_OK;
}

/* ---- Edits of one node -------------------------------------------------------------------------------- */

/* Would the edit put a node inside itself, through definitions or exact solutions? */
static bool closes_circle(const repair *s, pn_edit *edit) {
  const pn_problem *p = s->c->problem;
  pn_expr *nodes[MOST_NODES];
  uint64_t seen = 0;
  bool circle = false;
  size_t n = pn_check_nodes(p, &edit->to, MOST_NODES, nodes);
  for (size_t i = 0; i < n && !circle; ++i) {
    circle = nodes[i] == edit->node;
    if (nodes[i]->kind == PN_UNKNOWN && nodes[i]->index < 64)
      seen |= UINT64_C(1) << nodes[i]->index;
  }
  for (size_t u = 0; u < p->n_unknowns && u < 64; ++u) {
    n = seen >> u & 1u && p->unknowns[u].exact
            ? pn_check_nodes(p, p->unknowns[u].exact, MOST_NODES, nodes)
            : 0;
    for (size_t i = 0; i < n && !circle; ++i)
      circle = nodes[i] == edit->node;
  }
  return circle || n == MOST_NODES;
}

static tn_status lower_edit(repair *s, pn_edit *edit, tn_value *out) {
  pn_expr kept = *edit->node;
  pn_relation r;
  if (closes_circle(s, edit))
    return TN_EINPUT;
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

/* Is e, with the exact solution, 0 all over the box? Then it fits wherever 0 does and says nothing. */
static tn_status vanishes(repair *s, const pn_expr *e, bool *out) {
  pn_checking *c = s->c;
  const pn_site *all = &c->mean;
  size_t step = all->n / PN_REPAIR_POINTS ? all->n / PN_REPAIR_POINTS : 1;
  pn_site some = {.free_ = all->free_};
  tn_value value = {0};
  double at[PN_REPAIR_POINTS];
  *out = false;
  TN_TRY(pn_site_resize(&some, PN_REPAIR_POINTS));
  for (size_t x = 0; x < c->problem->n_coordinates; ++x)
    for (size_t i = 0; i < PN_REPAIR_POINTS; ++i)
      some.column[x][i] = all->column[x][i * step % all->n];
  tn_status status = TN_OK;
  if (!s->all.model)
    status = pn_scope_new(c->model, "all over", NULL, some.free_, &s->all);
  s->all.exact = true;
  if (status == TN_OK)
    status = pn_scope_move(&s->all, false);
  if (status == TN_OK)
    status = pn_lower(&s->all, e, &value);
  if (status == TN_OK)
    status = pn_check_evaluate(c, &s->all, &some, PN_REPAIR_POINTS, 1, &value, at, NULL, NULL);
  if (status == TN_OK)
    *out = largest(PN_REPAIR_POINTS, at) <= s->enough;
  else if (status != TN_ENOMEM) /* a table and the like: not known to be 0 */
    tn_graph_clear_error(c->model->graph);
  pn_site_clear(&some);
  return status == TN_ENOMEM ? status : TN_OK;
}

static tn_status offer_edit(repair *s, const pn_edit *e, double left) {
  bool field = e->to.kind == PN_DERIVATIVE || e->to.kind == PN_UNKNOWN || e->to.kind == PN_DEFINITION;
  bool trivial = false;
  if (!(left <= s->enough) || (s->words && e->rank >= s->rank))
    return TN_OK;
  if (e->style == PN_EDIT_REPLACE && field)
    TN_TRY(vanishes(s, &e->to, &trivial));
  if (trivial)
    return TN_OK;
  const char *shown = pn_check_text(s->c, e->shown ? e->shown : &e->to);
  if (e->style == PN_EDIT_SIGN)
    return offer(s, e->rank, left, e->shown, "With the sign of `%s` changed%s", shown, "");
  if (e->style == PN_EDIT_DROP)
    return offer(s, e->rank, left, e->shown, "Without `%s`%s", shown, "");
  return offer(s, e->rank, left, e->node, "With `%s` for `%s`", shown,
               pn_check_text(s->c, e->node));
}

static tn_status try_values(repair *s, pn_edits *edits, tn_value *values, size_t *which,
                            double *out) {
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

/* What already stands in the relation is a less likely replacement: u_yy for u_xy rather than a second u_xx. */
static void prefer_new(pn_edits *edits, size_t n, pn_expr *const *nodes) {
  for (size_t k = 0; k < edits->n; ++k) {
    const pn_expr *to = &edits->edit[k].to;
    for (size_t i = 0; to->kind == PN_DERIVATIVE && i < n; ++i) {
      const pn_expr *old = nodes[i];
      int counts[PN_MAX_COORDINATES] = {0}, left = 0;
      if (old->kind != PN_DERIVATIVE || old->n_axes != to->n_axes ||
          old->args[0]->kind != to->args[0]->kind || old->args[0]->index != to->args[0]->index)
        continue;
      for (size_t j = 0; j < to->n_axes; ++j) {
        ++counts[to->axes[j]];
        --counts[old->axes[j]];
      }
      for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
        left |= counts[x];
      if (left == 0) {
        edits->edit[k].rank += 2;
        break;
      }
    }
  }
}

/* The nodes of all exact solutions: what is edited there changes the solution and proves nothing. */
static size_t exact_nodes(const pn_problem *p, pn_expr **out) {
  size_t n = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].exact)
      n += pn_check_nodes(p, p->unknowns[u].exact, MOST_NODES - n, out + n);
  return n;
}

static bool among(const pn_expr *e, size_t n, pn_expr *const *nodes) {
  for (size_t i = 0; i < n; ++i)
    if (nodes[i] == e)
      return true;
  return false;
}

static tn_status find_edits(repair *s, pn_edits *edits) {
  pn_expr **nodes = NULL;
  TN_TRY(TN_NEW(2 * MOST_NODES, &nodes));
  pn_expr **exact = nodes + MOST_NODES;
  size_t n_exact = exact_nodes(s->c->problem, exact);
  tn_status status = TN_OK;
  const pn_relation *r = s->f->relation;
  pn_expr *sides[2] = {r->lhs, r->rhs};
  size_t n = 0;
  for (int k = 0; k < 2; ++k) {
    pn_expr *side = sides[k]->kind == PN_TUPLE ? sides[k]->args[r->component & ~PN_IMAGINARY] : sides[k];
    n += pn_check_nodes(s->c->problem, side, MOST_NODES - n, nodes + n);
  }
  for (size_t i = 0; i < n && status == TN_OK; ++i)
    if (!among(nodes[i], n_exact, exact) && !among(nodes[i], i, nodes))
      status = pn_edits_of(s->c, edits, nodes[i]);
  prefer_new(edits, n, nodes);
  tn_free(&nodes);
  return status;
}

static tn_status try_edits(repair *s, int most_order) {
  pn_edits edits = {.capacity = MOST_EDITS, .most_order = most_order};
  edits.zero_rank = s->f->term->is_condition ? 3 : 7;
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

static tn_status product(repair *s, pn_kind kind, pn_expr *a, pn_expr *b, size_t *n,
                         pn_expr **terms) {
  return *n < MOST_TERMS ? pn_expr_make(s->c->problem->arena, kind, NULL, 2, (pn_expr *[]){a, b},
                                        &terms[(*n)++])
                         : TN_OK;
}

/* Derivatives of u up to most_order, u itself first; then u^2 and u^3. */
static tn_status powers_of(repair *s, size_t u, int most_order, size_t *n, pn_expr **terms) {
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
  return TN_OK;
}

/* v u and v u_x for every unknown v and coordinate x. */
static tn_status products_of(repair *s, size_t u, size_t *n, pn_expr **terms) {
  const pn_problem *p = s->c->problem;
  pn_expr *field = NULL, *other = NULL;
  TN_TRY(unknown_node(s, u, &field));
  for (size_t v = 0; v < p->n_unknowns && v < 4; ++v) {
    TN_TRY(unknown_node(s, v, &other));
    if (v != u)
      TN_TRY(product(s, PN_MULTIPLY, other, field, n, terms));
    for (size_t j = 0; j < p->unknowns[u].n_of; ++j) {
      int one[PN_MAX_COORDINATES] = {0};
      pn_expr *d = NULL;
      one[p->unknowns[u].of[j]] = 1;
      TN_TRY(PN_TAKE(p->arena, 1, &d));
      TN_TRY(pn_edit_derivative(s->c, field, one, d));
      TN_TRY(product(s, PN_MULTIPLY, other, d, n, terms));
    }
  }
  return TN_OK;
}

static tn_status offer_terms(repair *s, size_t n, pn_expr **terms, const double *value) {
  for (size_t k = 0; k < n; ++k) {
    double a = 0, left = 0;
    char number[48];
    if (!ratio(s, s->f->residual, value + k * s->n, &a, &left))
      continue;
    if (fabs(fabs(a) - 1) < 1e-6)
      snprintf(number, sizeof number, "%s", a < 0 ? "- " : "+ ");
    else
      snprintf(number, sizeof number, "%s%.6g*", a < 0 ? "- " : "+ ", fabs(a));
    TN_TRY(offer(s, fabs(fabs(a) - 1) < 1e-6 ? 3 : 4 + oddness(fabs(a)), left, NULL,
                 "With `%s%s` added on the left", number, pn_check_text(s->c, terms[k])));
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
    if (bits >> u & 1u) {
      TN_TRY(products_of(s, u, &n, terms));
      TN_TRY(powers_of(s, u, most_order, &n, terms));
    }
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
  TN_TRY(pn_scope_move(&scope, false));
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
    status = offer(s, s->f->piece->fixed[0] == coordinate ? 2 : 3, largest(site.n, out), NULL,
                   "On %s = %s", c->problem->coordinates[coordinate].name, number);
  } else {
    tn_graph_clear_error(c->model->graph);
    status = TN_OK;
  }
  pn_site_clear(&site);
  return status;
}

static tn_status try_places(repair *s) {
  const pn_piece *now = s->f->piece;
  if (s->f->term->where != PN_ON || now->n_fixed != 1 || now->filter || now->whole)
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

tn_status pn_check_repair(pn_checking *c, const pn_failure *f, const char **words,
                          const pn_expr **node) {
  int most_order = pn_check_is_slow(c->problem) ? 2 : 4;
  repair s = {.c = c, .f = f, .site = &c->sites->sites[f->site]};
  s.n = f->n < PN_REPAIR_POINTS ? f->n : PN_REPAIR_POINTS;
  s.enough = fmax(1e-9, 3 * f->limit) * f->scale;
  TN_TRY(pn_check_scope(c, f->site, &s.scope));
  TN_TRY(try_factors(&s));
  TN_TRY(try_edits(&s, most_order));
  if (!s.words || s.rank > 2)
    TN_TRY(try_places(&s));
  if ((!s.words || s.rank > 3) && !f->term->is_condition && s.n > 1)
    TN_TRY(try_terms(&s, most_order));
  *words = s.words;
  *node = s.node;
  return TN_OK;
}
