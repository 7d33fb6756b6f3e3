/* check_table.c: the files of [tables]: can they be read, and do they reach as far as they are used?
 *
 * A table has no value outside its rows. Training would meet that at its first points; here every
 * place of use is looked at: the points drawn on it and, where no filter cuts it, its corners, moved
 * inwards by a millionth of the range, since random points never lie exactly on an end. What stands
 * at another place, f(x=1), and averages over a part of the domain are left to the run.
 */
#include "pinn/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

/* ---- Reading ------------------------------------------------------------------------------------ */

/* An error with a place of its own is told as it is; one of the file gets the place of the entry. */
static tn_status blame_file(pn_checking *c, const pn_table_entry *t, tn_status status) {
  char text[1024];
  if (status == TN_ENOMEM)
    return status;
  snprintf(text, sizeof text, "%s", tn_error_text());
  tn_error_clear();
  if (status == TN_EUNSUPPORTED) /* by pn_fail_at, at the entry */
    return pn_found(c, PN_FOUND_ERROR, t->name, (pn_place){0}, 0, "%s", text);
  return pn_found(c, PN_FOUND_ERROR, t->name, t->place, strlen(t->name),
                  "table `%s` cannot be read: %s", t->name, text);
}

tn_status pn_check_tables(pn_checking *c) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_tables; ++i) {
    pn_lookup *lookup = NULL;
    tn_status status = pn_lookup_new(p, i, &lookup);
    pn_lookup_free(&lookup);
    if (status != TN_OK)
      TN_TRY(blame_file(c, &p->tables[i], status));
  }
  return TN_OK;
}

/* ---- Reach ---------------------------------------------------------------------------------------- */

/* Does e use the table at the points themselves? */
static bool uses(const pn_problem *p, const pn_expr *e, size_t table, int depth) {
  if (depth > MOST_DEPTH)
    return false;
  if (e->kind == PN_TABLE)
    return e->index == table;
  if (e->kind == PN_DEFINITION)
    return uses(p, p->definitions[e->index].value, table, depth + 1);
  if (e->kind == PN_UNKNOWN && p->unknowns[e->index].ansatz)
    return uses(p, p->unknowns[e->index].ansatz, table, depth + 1);
  if (e->kind == PN_MEAN && e->n > 1)
    return false;
  for (size_t i = e->kind == PN_AT ? 1 : 0; i < e->n; ++i)
    if (uses(p, e->args[i], table, depth + 1))
      return true;
  return false;
}

static tn_status blame_reach(pn_checking *c, const pn_lookup *lookup, const pn_table_entry *t,
                             const char *user, const double *point, bool *found) {
  double of[PN_MAX_COORDINATES];
  if (isfinite(pn_lookup_at(lookup, point)))
    return TN_OK;
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    of[x] = NAN;
  for (size_t i = 0; i < t->n_of; ++i)
    of[t->of[i]] = point[t->of[i]];
  *found = true;
  return pn_found(c, PN_FOUND_ERROR, t->name, t->place, strlen(t->name),
                  "table `%s` has no value at %s, where `%s` needs it: its rows do not reach so far",
                  t->name, pn_check_point(c, of), user);
}

/* The corners of the box on a piece (NULL: the whole box), in the coordinates of the table. */
static tn_status look_at_corners(pn_checking *c, const pn_lookup *lookup, const pn_table_entry *t,
                                 const pn_piece *piece, const char *user, bool *found) {
  const pn_problem *p = c->problem;
  double point[PN_MAX_COORDINATES];
  for (size_t k = 0; k < (size_t)1 << t->n_of && !*found; ++k) {
    for (size_t x = 0; x < p->n_coordinates; ++x)
      point[x] = 0.5 * (p->coordinates[x].lo + p->coordinates[x].hi);
    for (size_t i = 0; i < t->n_of; ++i) {
      const pn_coordinate *x = &p->coordinates[t->of[i]];
      double inwards = 1e-6 * (x->hi - x->lo);
      point[t->of[i]] = k >> i & 1u ? x->hi - inwards : x->lo + inwards;
    }
    for (size_t i = 0; piece && i < piece->n_fixed; ++i)
      point[piece->fixed[i]] = piece->value[i];
    TN_TRY(blame_reach(c, lookup, t, user, point, found));
  }
  return TN_OK;
}

static tn_status look_at_term(pn_checking *c, const pn_lookup *lookup, size_t table,
                              const pn_term_sites *at, bool *found) {
  const pn_table_entry *t = &c->problem->tables[table];
  bool used = at->term->weight && uses(c->problem, at->term->weight, table, 0);
  for (size_t r = 0; r < at->term->n_relations && !used; ++r)
    used = uses(c->problem, at->term->relations[r].whole, table, 0);
  for (size_t s = 0; used && s < at->n_sites && !*found; ++s) {
    const pn_site *site = &c->sites->sites[at->site[s]];
    double point[PN_MAX_COORDINATES];
    bool known = true;
    if (!site->piece || !site->piece->filter)
      TN_TRY(look_at_corners(c, lookup, t, site->piece, at->term->name, found));
    for (size_t i = 0; i < site->n && known && !*found; ++i) {
      pn_site_point(c->problem, site, i, point);
      for (size_t k = 0; k < t->n_of; ++k)
        known = known && isfinite(point[t->of[k]]);
      if (known)
        TN_TRY(blame_reach(c, lookup, t, at->term->name, point, found));
    }
  }
  return TN_OK;
}

/* One finding a table, at the first use that it does not reach. */
static tn_status look_at_table(pn_checking *c, size_t table) {
  pn_problem *p = c->problem;
  pn_lookup *lookup = NULL;
  bool found = false;
  TN_TRY(pn_lookup_new(p, table, &lookup));
  tn_status status = TN_OK;
  for (size_t m = 0; m < c->sites->n_terms && status == TN_OK && !found; ++m)
    status = look_at_term(c, lookup, table, &c->sites->terms[m], &found);
  for (size_t u = 0; u < p->n_unknowns && status == TN_OK && !found; ++u)
    if (p->unknowns[u].exact && uses(p, p->unknowns[u].exact, table, 0))
      status = look_at_corners(c, lookup, &p->tables[table], NULL, "[exact]", &found);
  for (size_t i = 0; i < p->output.n_fields && status == TN_OK && !found; ++i)
    if (uses(p, p->output.fields[i], table, 0))
      status = look_at_corners(c, lookup, &p->tables[table], NULL, "[output]", &found);
  pn_lookup_free(&lookup);
  return status;
}

tn_status pn_check_reach(pn_checking *c) {
  for (size_t i = 0; i < c->n_file_tables; ++i)
    TN_TRY(look_at_table(c, i));
  return TN_OK;
}
