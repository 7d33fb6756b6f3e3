/* check_at.c: every term of every equation and condition at one point, with the exact solution.
 *
 * `pinn check FILE --at x=0.25,y=0.5`. Equations are evaluated at the point; a condition on the piece that the
 * point lies on, or, if it lies on none, on each of its pieces with the fixed coordinates put in their place.
 * Each line names its entry, so the report can be searched.
 */
#include "pinn/check.h"
#include "pinn/moving.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct spot {
  pn_checking *c;
  double point[PN_MAX_COORDINATES];  /* NaN: not given */
  double normal[PN_MAX_COORDINATES]; /* outward, of the piece looked at */
  int width;                         /* of the column of names */
} spot;

/* ---- Reading the point ---------------------------------------------------------------------------------- */

static tn_status read_pair(spot *s, const char *text, size_t n) {
  const pn_problem *p = s->c->problem;
  const char *sign = memchr(text, '=', n);
  size_t name = sign ? (size_t)(sign - text) : n, last = n;
  while (n && *text == ' ') {
    ++text;
    --n;
    --last;
    --name;
  }
  while (name && text[name - 1] == ' ')
    --name;
  for (size_t x = 0; sign && x < p->n_coordinates; ++x) {
    if (strlen(p->coordinates[x].name) != name || strncmp(text, p->coordinates[x].name, name) != 0)
      continue;
    const char *value = sign + 1, *end = text + last;
    while (value < end && *value == ' ')
      ++value;
    while (end > value && end[-1] == ' ')
      --end;
    if (!pn_number_of_text(value, (size_t)(end - value), &s->point[x]))
      return TN_FAIL(TN_EINPUT, "--at: `%.*s` is not a number", (int)(end - value), value);
    if (pn_moves(&p->coordinates[x]))
      return TN_OK;
    if (!(s->point[x] >= p->coordinates[x].lo && s->point[x] <= p->coordinates[x].hi))
      return TN_FAIL(TN_EINPUT, "--at: %s = %g lies outside the domain, %s in [%g, %g]",
                     p->coordinates[x].name, s->point[x], p->coordinates[x].name,
                     p->coordinates[x].lo, p->coordinates[x].hi);
    return TN_OK;
  }
  return TN_FAIL(TN_EINPUT, "--at: `%.*s` should be a coordinate and its value, as in %s=%g",
                 (int)n, text, p->coordinates[0].name, p->coordinates[0].lo);
}

static tn_status read_point(spot *s, const char *at) {
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    s->point[x] = NAN;
  while (*at) {
    size_t n = strcspn(at, ",");
    TN_TRY(read_pair(s, at, n));
    at += n + (at[n] == ',');
  }
  if (!pn_domain_holds(s->c->problem, s->point))
    return TN_FAIL(TN_EINPUT, "--at: %s lies outside the region of [domain]",
                   pn_check_point(s->c, s->point));
  return TN_OK;
}

/* ---- Lines ------------------------------------------------------------------------------------------------ */

static void line(spot *s, const char *kind, const char *name, double value, const char *text) {
  char number[48];
  if (isfinite(value))
    snprintf(number, sizeof number, "%.13g", value);
  else
    snprintf(number, sizeof number, "not finite");
  pn_putf(&s->c->out, "  %-9s  %-*s  %20s   %s\n", kind, s->width, name, number, text);
  pn_json *json = s->c->json;
  if (!json)
    return;
  pn_json_object(json, NULL);
  pn_json_string(json, "kind", kind);
  pn_json_string(json, "name", name);
  pn_json_number(json, "value", value);
  pn_json_string(json, "text", text);
  pn_json_end(json);
}

/* A site of the one point, its coordinates in `free_`; false: one of them is not given. */
static bool site_of(const spot *s, const pn_piece *piece, uint32_t free_, double *columns,
                    pn_site *out) {
  *out = (pn_site){.key = "at", .piece = piece, .free_ = free_, .n = 1};
  for (size_t x = 0; x < s->c->problem->n_coordinates; ++x) {
    if (!(free_ >> x & 1u))
      continue;
    columns[x] = s->point[x];
    out->column[x] = &columns[x];
    if (pn_piece_curved(piece)) /* which only read it */
      out->normal[x] = (double *)(uintptr_t)&s->normal[x];
    if (isnan(columns[x]))
      return false;
  }
  return true;
}

/* ---- Relations ---------------------------------------------------------------------------------------------- */

static tn_status show_values(spot *s, const pn_term *t, const pn_relation *r, size_t n,
                             pn_expr **exprs, const int *signs, const double *values,
                             const char *where) {
  pn_checking *c = s->c;
  char *text = NULL;
  TN_TRY(pn_arena_format(c->problem->arena, &text, "left in %s%s", pn_check_relation_text(c, r),
                         where));
  line(s, t->is_condition ? "condition" : "equation", t->name, values[n], text);
  for (size_t k = 0; k < n; ++k) {
    TN_TRY(pn_arena_format(c->problem->arena, &text, "  %s %s", signs[k] < 0 ? "-" : "+",
                           pn_check_text(c, exprs[k])));
    line(s, "", t->name, signs[k] * values[k], text);
  }
  return TN_OK;
}

static tn_status show_relation(spot *s, const pn_term *t, const pn_relation *r,
                               const pn_piece *piece, const char *where) {
  pn_checking *c = s->c;
  double columns[PN_MAX_COORDINATES], values[PN_CHECK_TERMS + 1];
  pn_expr *exprs[PN_CHECK_TERMS];
  int signs[PN_CHECK_TERMS];
  tn_value v[PN_CHECK_TERMS + 1];
  pn_relation prepared;
  pn_site site;
  pn_scope scope;
  size_t n = 0, at = 0;
  const char *culprit = NULL;
  if (!pn_check_has_exact(c, r) ||
      !site_of(s, piece, pn_piece_free(c->problem, t, piece), columns, &site))
    return TN_OK;
  TN_TRY(pn_scope_new(c->model, "at", piece, site.free_, &scope));
  scope.exact = true;
  TN_TRY(pn_scope_move(&scope, true));
  TN_TRY(pn_check_prepare(c, r, piece, &prepared));
  TN_TRY(pn_lower_terms(&scope, &prepared, PN_CHECK_TERMS, &n, v, exprs, signs));
  TN_TRY(pn_lower_relation(&scope, &prepared, &v[n]));
  TN_TRY(pn_check_evaluate(c, &scope, &site, 1, n + 1, v, values, &culprit, &at));
  if (culprit) {
    double point[PN_MAX_COORDINATES];
    pn_site_point(c->problem, &site, 0, point);
    TN_TRY(pn_found(c, PN_FOUND_ERROR, t->name, pn_expr_place(r->whole), r->whole->length,
                    "with the exact solution, `%s` in `%s` has no finite value at %s", culprit,
                    t->name, pn_check_point(c, point)));
  }
  return show_values(s, t, r, n, exprs, signs, values, where);
}

/* TN_EUNSUPPORTED (a table where it has no value) leaves the relation out. */
static tn_status show_term(spot *s, const pn_term *t, const pn_piece *piece, const char *where) {
  for (size_t r = 0; r < t->n_relations; ++r) {
    tn_status status = show_relation(s, t, &t->relations[r], piece, where);
    if (status == TN_EUNSUPPORTED) {
      tn_graph_clear_error(s->c->model->graph);
      status = TN_OK;
    }
    TN_TRY(status);
  }
  return TN_OK;
}

/* Does the point lie on the piece? Its normal there becomes the spot's. */
static bool lies_on(spot *s, const pn_piece *piece) {
  bool yes = false;
  if (piece->whole || piece->body)
    return pn_piece_holds(s->c->problem, piece, s->point, s->normal, &yes) == TN_OK && yes;
  for (size_t i = 0; i < piece->n_fixed; ++i)
    if (s->point[piece->fixed[i]] != piece->value[i])
      return false;
  return true;
}

static const char *place_words(spot *s, const pn_piece *piece) {
  double point[PN_MAX_COORDINATES];
  char *text = NULL;
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    point[x] = NAN;
  for (size_t i = 0; i < piece->n_fixed; ++i)
    point[piece->fixed[i]] = piece->value[i];
  if (pn_piece_curved(piece))
    return pn_arena_format(s->c->problem->arena, &text, ", on %s", piece->surface) == TN_OK ? text
                                                                                            : "";
  for (size_t x = 0; x < s->c->problem->n_coordinates; ++x)
    if (pn_moves(&s->c->problem->coordinates[x]) && isfinite(point[x])) {
      for (size_t k = 0; k < s->c->problem->n_coordinates; ++k)
        point[k] = k == x || isfinite(point[k]) ? point[k] : s->point[k];
      (void)pn_moving_place(s->c->problem, point);
    }
  if (pn_arena_format(s->c->problem->arena, &text, ", at %s", pn_check_point(s->c, point)) != TN_OK)
    return "";
  return text;
}

static tn_status show_condition(spot *s, const pn_term *t) {
  bool on = false;
  if (t->data)
    return TN_OK; /* holds in its rows, not at this point */
  if (t->n_pieces == 0)
    return show_term(s, t, NULL, "");
  for (size_t k = 0; k < t->n_pieces; ++k)
    on |= lies_on(s, &t->pieces[k]);
  for (size_t k = 0; k < t->n_pieces; ++k)
    if (lies_on(s, &t->pieces[k]) || (!on && !pn_piece_curved(&t->pieces[k])))
      TN_TRY(
          show_term(s, t, &t->pieces[k], t->where == PN_ON ? place_words(s, &t->pieces[k]) : ""));
  return TN_OK;
}

/* ---- Fields ------------------------------------------------------------------------------------------------- */

/* A value that may fail (no exact solution, another table): then it is left out. */
static void show_value(spot *s, const char *name, const pn_expr *e, size_t unknown,
                       const char *text) {
  pn_checking *c = s->c;
  double columns[PN_MAX_COORDINATES], value = 0;
  pn_site site;
  pn_scope scope;
  tn_value v = {0};
  uint32_t given = 0;
  for (size_t x = 0; x < c->problem->n_coordinates; ++x)
    given |= (uint32_t)!isnan(s->point[x]) << x;
  tn_status status = TN_OK;
  if (!site_of(s, NULL, given, columns, &site))
    return;
  status = pn_scope_new(c->model, "at", NULL, given, &scope);
  scope.exact = true;
  if (status == TN_OK)
    status = e ? pn_lower(&scope, e, &v) : pn_lower_unknown(&scope, unknown, &v);
  if (status == TN_OK)
    status = pn_check_evaluate(c, &scope, &site, 1, 1, &v, &value, NULL, NULL);
  if (status == TN_OK)
    line(s, e ? "defined" : "exact", name, value, text);
  tn_graph_clear_error(c->model->graph);
}

static void show_fields(spot *s) {
  pn_problem *p = s->c->problem;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].exact && pn_unknown_lives(p, u, s->point))
      show_value(s, p->unknowns[u].name, NULL, u, pn_check_text(s->c, p->unknowns[u].exact));
  for (size_t i = 0; i < p->n_definitions; ++i) {
    const pn_definition *d = &p->definitions[i];
    if (d->n_of == 0 && d->value->components == 1 && !d->has_normal && !d->value->is_complex)
      show_value(s, d->name, d->scalar ? d->scalar : d->value, 0, pn_check_text(s->c, d->value));
  }
}

tn_status pn_check_at(pn_checking *c, const char *at) {
  const pn_problem *p = c->problem;
  spot s = {.c = c, .width = 1};
  TN_TRY(read_point(&s, at));
  for (size_t m = 0; m < c->sites->n_terms; ++m)
    if ((int)strlen(c->sites->terms[m].term->name) > s.width)
      s.width = (int)strlen(c->sites->terms[m].term->name);
  pn_putf(&c->out, "at %s, with the exact solution\n", pn_check_point(c, s.point));
  if (c->json)
    pn_json_array(c->json, "at");
  show_fields(&s);
  tn_status status = TN_OK;
  for (size_t i = 0; i < p->n_equations && status == TN_OK; ++i)
    if (pn_body_holds(p, p->equations[i].pieces[0].body, s.point))
      status = show_term(&s, &p->equations[i], NULL, "");
  for (size_t i = 0; i < p->n_conditions && status == TN_OK; ++i)
    status = show_condition(&s, &p->conditions[i]);
  if (c->json)
    pn_json_end(c->json);
  return status;
}
