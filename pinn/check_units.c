/* check_units.c: do the units of the terms agree?
 *
 * The unit of every node of a scalar tree from the units of names: products multiply, a derivative along x divides by the
 * unit of x, an integral multiplies. What has no unit in [units] is unknown and makes what it stands in unknown; a number
 * is 1 where it multiplies, and a term or side made of numbers alone agrees with everything: it is a value in the unit of
 * what it stands beside. Terms of a sum, the sides of a relation, branches and arguments of min and max
 * must agree with their factors: mm beside m is an error, because nothing is converted. Arguments of exp, sin and the
 * like must be 1. One finding a relation: the first.
 */
#include "pinn/check.h"
#include "pinn/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct measure {
  pn_checking *c;
  const char *entry;
  bool found; /* a finding was made: be silent about the rest */
} measure;

typedef struct dimension {
  bool known; /* else it agrees with everything */
  pn_unit unit;
} dimension;

static dimension unknown(void) { return (dimension){false, {0}}; }
static dimension known(pn_unit unit) { return (dimension){true, unit}; }

static tn_status unit_of(measure *m, const pn_expr *e, dimension *out);

static const pn_unit_entry *entry_of(const pn_problem *p, pn_measured what, size_t index) {
  for (size_t i = 0; i < p->n_units; ++i)
    if (p->units[i].what == what && p->units[i].index == index)
      return &p->units[i];
  return NULL;
}

static dimension declared(const measure *m, pn_measured what, size_t index) {
  const pn_unit_entry *entry = entry_of(m->c->problem, what, index);
  return entry ? known(entry->unit) : unknown();
}

/* ---- Agreement --------------------------------------------------------------------------------- */

static tn_status disagree(measure *m, const pn_expr *a, pn_unit x, const pn_expr *b, pn_unit y) {
  char one[PN_UNIT_TEXT], two[PN_UNIT_TEXT], factor[96] = "";
  pn_unit_text(x, one);
  pn_unit_text(y, two);
  if (pn_unit_same_dimension(x, y))
    snprintf(factor, sizeof factor, ": a factor of %.6g between them",
             x.factor > y.factor ? x.factor / y.factor : y.factor / x.factor);
  m->found = true;
  return pn_found(m->c, PN_FOUND_ERROR, m->entry, pn_expr_place(b), b->length,
                  "units: `%s` is in %s, but `%s` is in %s%s", pn_check_text(m->c, a), one,
                  pn_check_text(m->c, b), two, factor);
}

typedef struct agreement {
  const pn_expr *first; /* the first with a known unit */
  dimension unit;
} agreement;

/* Made of numbers alone: a value in the unit of what it stands beside. */
static bool is_bare(const pn_expr *e) {
  bool bare = e->kind == PN_NUMBER || e->kind == PN_NEGATE || e->kind == PN_FUNCTION ||
              (e->kind >= PN_ADD && e->kind <= PN_POWER);
  for (size_t i = 0; i < e->n && bare; ++i)
    bare = is_bare(e->args[i]);
  return bare;
}

static tn_status agree(measure *m, const pn_expr *e, agreement *all) {
  dimension unit = unknown();
  if (is_bare(e))
    return TN_OK;
  TN_TRY(unit_of(m, e, &unit));
  if (!unit.known || m->found)
    return TN_OK;
  if (all->first && !pn_unit_same(all->unit.unit, unit.unit))
    return disagree(m, all->first, all->unit.unit, e, unit.unit);
  if (!all->first) {
    all->first = e;
    all->unit = unit;
  }
  return TN_OK;
}

/* The terms of a sum one by one, so that the finding names terms and not halves of the sum. */
static tn_status agree_terms(measure *m, const pn_expr *e, agreement *all) {
  if (e->kind == PN_NEGATE)
    return agree_terms(m, e->args[0], all);
  if (e->kind != PN_ADD && e->kind != PN_SUBTRACT)
    return agree(m, e, all);
  TN_TRY(agree_terms(m, e->args[0], all));
  return agree_terms(m, e->args[1], all);
}

/* An argument that must be a number. */
static tn_status want_number(measure *m, const pn_expr *e, const char *what) {
  dimension unit = unknown();
  char text[PN_UNIT_TEXT];
  TN_TRY(unit_of(m, e, &unit));
  if (!unit.known || m->found || pn_unit_same(unit.unit, pn_unit_one()))
    return TN_OK;
  pn_unit_text(unit.unit, text);
  m->found = true;
  return pn_found(m->c, PN_FOUND_ERROR, m->entry, pn_expr_place(e), e->length,
                  "units: `%s` is in %s, but %s must be a number without a unit",
                  pn_check_text(m->c, e), text, what);
}

/* ---- Nodes ------------------------------------------------------------------------------------- */

static tn_status of_power(measure *m, const pn_expr *e, dimension *out) {
  dimension base = unknown();
  double exponent = 0;
  TN_TRY(unit_of(m, e->args[0], &base));
  TN_TRY(want_number(m, e->args[1], "an exponent"));
  *out = unknown();
  if (!base.known)
    return TN_OK;
  if (pn_unit_same(base.unit, pn_unit_one())) {
    *out = known(pn_unit_one());
    return TN_OK;
  }
  bool fixed = pn_expr_depends(m->c->problem, e->args[1]) == 0 &&
               pn_expr_unknowns(m->c->problem, e->args[1]) == 0 &&
               !pn_check_has(m->c->problem, e->args[1], PN_PARAMETER_REF);
  if (!fixed)
    return want_number(m, e->args[0], "what is raised to a power that varies");
  TN_TRY(pn_evaluate(m->c->problem, e->args[1], NULL, &exponent));
  out->known = pn_unit_raise(base.unit, exponent, &out->unit);
  return TN_OK;
}

static tn_status of_function(measure *m, const pn_expr *e, dimension *out) {
  agreement all = {0};
  char what[96];
  switch ((pn_function)e->index) {
  case PN_FN_sqrt:
    TN_TRY(unit_of(m, e->args[0], out));
    out->known = out->known && pn_unit_raise(out->unit, 0.5, &out->unit);
    return TN_OK;
  case PN_FN_abs:
    return unit_of(m, e->args[0], out);
  case PN_FN_sign:
    TN_TRY(unit_of(m, e->args[0], out));
    *out = known(pn_unit_one());
    return TN_OK;
  case PN_FN_min:
  case PN_FN_max:
  case PN_FN_atan2:
    for (size_t i = 0; i < e->n; ++i)
      TN_TRY(agree(m, e->args[i], &all));
    *out = e->index == PN_FN_atan2 ? known(pn_unit_one()) : all.first ? all.unit : unknown();
    return TN_OK;
  default:
    break;
  }
  snprintf(what, sizeof what, "the argument of %.40s", e->name ? e->name : "a function");
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(want_number(m, e->args[i], what));
  *out = known(pn_unit_one());
  return TN_OK;
}

/* A constant or a definition: as declared, else of what it is made. Both: they must agree (check_names). */
static tn_status of_constant(measure *m, size_t index, dimension *out) {
  const pn_constant *k = &m->c->problem->constants[index];
  *out = declared(m, PN_MEASURED_CONSTANT, index);
  if (out->known || !k->expr || k->expr->kind == PN_NUMBER)
    return TN_OK;
  return pn_check_has(m->c->problem, k->expr, PN_CONSTANT_REF) ? unit_of(m, k->expr, out) : TN_OK;
}

static tn_status of_definition(measure *m, size_t index, dimension *out) {
  const pn_definition *d = &m->c->problem->definitions[index];
  *out = declared(m, PN_MEASURED_DEFINITION, index);
  return out->known || !d->scalar ? TN_OK : unit_of(m, d->scalar, out);
}

static tn_status of_derivative(measure *m, const pn_expr *e, dimension *out) {
  TN_TRY(unit_of(m, e->args[0], out));
  for (size_t i = 0; i < e->n_axes && out->known; ++i) {
    dimension axis = declared(m, PN_MEASURED_COORDINATE, e->axes[i]);
    out->known = axis.known;
    out->unit = pn_unit_product(out->unit, axis.unit, -1);
  }
  return TN_OK;
}

static tn_status of_integral(measure *m, const pn_expr *e, dimension *out) {
  dimension along = unknown();
  TN_TRY(unit_of(m, e->args[0], out));
  if (e->n_axes > 0)
    along = declared(m, PN_MEASURED_COORDINATE, e->axes[0]);
  else if (e->n > 2)
    TN_TRY(unit_of(m, e->args[2], &along));
  out->known = out->known && along.known;
  out->unit = pn_unit_product(out->unit, along.unit, 1);
  return TN_OK;
}

static tn_status of_pair(measure *m, const pn_expr *e, dimension *out) {
  dimension b = unknown();
  TN_TRY(unit_of(m, e->args[0], out));
  TN_TRY(unit_of(m, e->args[1], &b));
  out->known = out->known && b.known;
  if (out->known)
    out->unit = pn_unit_product(out->unit, b.unit, e->kind == PN_MULTIPLY ? 1 : -1);
  return TN_OK;
}

static tn_status unit_of(measure *m, const pn_expr *e, dimension *out) {
  agreement all = {0};
  *out = unknown();
  if (m->found)
    return TN_OK;
  switch (e->kind) {
  case PN_NUMBER:
  case PN_NORMAL:
    *out = known(pn_unit_one());
    return TN_OK;
  case PN_NEGATE:
  case PN_MEAN:
  case PN_AT:
    return unit_of(m, e->args[0], out);
  case PN_ADD:
  case PN_SUBTRACT:
    TN_TRY(agree_terms(m, e, &all));
    *out = all.first ? all.unit : unknown();
    return TN_OK;
  case PN_WHERE:
    TN_TRY(agree_terms(m, e->args[1], &all));
    TN_TRY(agree_terms(m, e->args[2], &all));
    *out = all.first ? all.unit : unknown();
    return TN_OK;
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return of_pair(m, e, out);
  case PN_POWER:
    return of_power(m, e, out);
  case PN_FUNCTION:
    return of_function(m, e, out);
  case PN_DERIVATIVE:
    return of_derivative(m, e, out);
  case PN_INTEGRAL_OF:
    return of_integral(m, e, out);
  case PN_CONSTANT_REF:
    return of_constant(m, e->index, out);
  case PN_DEFINITION:
    return of_definition(m, e->index, out);
  case PN_COORDINATE:
  case PN_BOUND:
    *out = declared(m, PN_MEASURED_COORDINATE, e->index);
    return TN_OK;
  case PN_UNKNOWN:
    *out = declared(m, PN_MEASURED_UNKNOWN, e->index);
    return TN_OK;
  case PN_PARAMETER_REF:
    *out = declared(m, PN_MEASURED_PARAMETER, e->index);
    return TN_OK;
  case PN_TABLE:
    *out = declared(m, PN_MEASURED_TABLE, e->index);
    return TN_OK;
  default:
    return TN_OK;
  }
}

/* ---- Entries ----------------------------------------------------------------------------------- */

static tn_status check_term(pn_checking *c, const pn_term *term) {
  const size_t pieces = term->n_pieces ? term->n_pieces : 1;
  for (size_t r = 0; r < term->n_relations; ++r) {
    measure m = {.c = c, .entry = term->name};
    for (size_t k = 0; k < pieces && !m.found; ++k) {
      const pn_relation *relation = &term->relations[r];
      const pn_piece *piece = term->n_pieces ? &term->pieces[k] : NULL;
      pn_expr *lhs = NULL, *rhs = NULL;
      agreement all = {0};
      TN_TRY(pn_scalar(c->problem, relation->lhs, relation->component, piece, &lhs));
      TN_TRY(pn_scalar(c->problem, relation->rhs, relation->component, piece, &rhs));
      TN_TRY(agree_terms(&m, lhs, &all));
      TN_TRY(agree_terms(&m, rhs, &all));
    }
  }
  return TN_OK;
}

/* What has both a unit and a value that says what it is. */
static tn_status check_value(pn_checking *c, pn_measured what, size_t index, const char *name, const pn_expr *value) {
  measure m = {.c = c, .entry = name};
  dimension want = declared(&m, what, index), got = unknown();
  char one[PN_UNIT_TEXT], two[PN_UNIT_TEXT];
  bool constant = what == PN_MEASURED_CONSTANT && !pn_check_has(c->problem, value, PN_CONSTANT_REF);
  if (constant || is_bare(value)) /* a number in that unit */
    return TN_OK;
  TN_TRY(unit_of(&m, value, &got));
  if (m.found || !want.known || !got.known || pn_unit_same(want.unit, got.unit))
    return TN_OK;
  pn_unit_text(want.unit, one);
  pn_unit_text(got.unit, two);
  return pn_found(c, PN_FOUND_ERROR, name, pn_expr_place(value), value->length,
                  "units: `%s` is given in %s, but `%s` is in %s", name, one, pn_check_text(c, value), two);
}

tn_status pn_check_units(pn_checking *c) {
  const pn_problem *p = c->problem;
  if (p->n_units == 0)
    return TN_OK;
  for (size_t i = 0; i < p->n_constants; ++i)
    if (p->constants[i].expr)
      TN_TRY(check_value(c, PN_MEASURED_CONSTANT, i, p->constants[i].name, p->constants[i].expr));
  for (size_t i = 0; i < p->n_definitions; ++i)
    if (p->definitions[i].scalar)
      TN_TRY(check_value(c, PN_MEASURED_DEFINITION, i, p->definitions[i].name, p->definitions[i].scalar));
  for (size_t i = 0; i < p->n_unknowns; ++i)
    if (p->unknowns[i].exact)
      TN_TRY(check_value(c, PN_MEASURED_UNKNOWN, i, p->unknowns[i].name, p->unknowns[i].exact));
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(check_term(c, &p->equations[i]));
  for (size_t i = 0; i < p->n_conditions; ++i)
    TN_TRY(check_term(c, &p->conditions[i]));
  return TN_OK;
}
