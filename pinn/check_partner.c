/* check_partner.c: places that conditions look at beside their own.
 *
 * `u = u(x=2)` on x = 0 pairs each point with a partner across the domain. A partner that lies outside the region,
 * or inside it where the region goes on, is not what was meant: for two boxes side by side the partner of (0, y)
 * is the far end of both. So the place is looked for along the coordinate, through the region, and a written
 * value that is another place outside is refused. A periodic coordinate pairs the two ends of its range in the
 * same way.
 */
#include "pinn/check.h"
#include "pinn/region.h"

#include <math.h>
#include <string.h>

enum { STEPS = 512 };

bool pn_region_partner(const pn_problem *p, const double *point, size_t axis, double *out) {
  const pn_coordinate *c = &p->coordinates[axis];
  double at[PN_MAX_COORDINATES], step = (c->hi - c->lo) / STEPS, inside = NAN, outside = NAN;
  memcpy(at, point, p->n_coordinates * sizeof *at);
  at[axis] = point[axis] + 0.01 * step;
  bool up = pn_domain_holds(p, at) && point[axis] < c->hi;
  double way = up ? 1 : -1;
  for (int i = 0; i < STEPS && isnan(outside); ++i) { /* to the last point before the region ends */
    double next = point[axis] + way * step * (i + 0.5);
    at[axis] = next;
    if (next <= c->hi && next >= c->lo && pn_domain_holds(p, at))
      inside = next;
    else
      outside = fmin(fmax(next, c->lo), c->hi);
  }
  if (isnan(inside))
    return false;
  if (isnan(outside))
    outside = up ? c->hi : c->lo;
  for (int i = 0; i < 60; ++i) {
    double middle = inside / 2 + outside / 2;
    at[axis] = middle;
    *(pn_domain_holds(p, at) ? &inside : &outside) = middle;
  }
  at[axis] = outside;
  *out = pn_domain_holds(p, at) ? outside : inside;
  return true;
}

/* A field looked at along one coordinate at a value that is outside the region for a point of the piece. */
static tn_status check_place(pn_checking *c, const pn_term *t, const pn_expr *e,
                             const pn_site *site) {
  pn_problem *p = c->problem;
  double point[PN_MAX_COORDINATES], there[PN_MAX_COORDINATES], value = 0, partner = 0;
  size_t x = e->axes[0];
  char number[48];
  for (size_t i = 0; i < site->n; ++i) {
    pn_site_point(p, site, i, point);
    if (pn_evaluate(p, e->args[1], point, &value) != TN_OK)
      return TN_OK;
    memcpy(there, point, sizeof there);
    there[x] = value;
    if (pn_domain_holds(p, there))
      continue;
    bool known = pn_region_partner(p, point, x, &partner);
    snprintf(number, sizeof number, "%.6g", partner);
    return pn_found(c, PN_FOUND_ERROR, t->name, pn_expr_place(e), e->length,
                    "`%s` in `%s` lies outside the region: at %s%s%s%s%s", pn_check_text(c, e),
                    t->name, pn_check_point(c, there),
                    known ? ". Across the region from there lies " : "",
                    known ? p->coordinates[x].name : "", known ? " = " : "", known ? number : "");
  }
  return TN_OK;
}

static tn_status check_term(pn_checking *c, const pn_term_sites *at) {
  enum { MOST = 300 };
  const pn_problem *p = c->problem;
  pn_expr *nodes[MOST];
  for (size_t r = 0; r < at->term->n_relations; ++r) {
    size_t n = pn_check_nodes(p, at->term->relations[r].whole, MOST, nodes), before = c->errors;
    for (size_t i = 0; i < n && c->errors == before; ++i)
      for (size_t s = 0; s < at->n_sites && c->errors == before; ++s)
        if (nodes[i]->kind == PN_AT && nodes[i]->n_axes == 1 &&
            p->coordinates[nodes[i]->axes[0]].role == PN_SPACE &&
            pn_expr_unknowns(p, nodes[i]->args[0]) && !pn_expr_unknowns(p, nodes[i]->args[1]))
          TN_TRY(check_place(c, at->term, nodes[i], &c->sites->sites[at->site[s]]));
  }
  return TN_OK;
}

/* The two ends of a range that repeats must both belong to the region, or neither. */
static tn_status check_period(pn_checking *c, size_t x) {
  const pn_problem *p = c->problem;
  const pn_coordinate *axis = &p->coordinates[x];
  double point[PN_MAX_COORDINATES], there[PN_MAX_COORDINATES], partner = 0;
  char number[48];
  for (size_t i = 0; i < c->mean.n; ++i) {
    pn_site_point(p, &c->mean, i, point);
    for (int high = 0; high < 2; ++high) {
      point[x] = high ? axis->hi : axis->lo;
      memcpy(there, point, sizeof there);
      there[x] = high ? axis->lo : axis->hi;
      if (!pn_domain_holds(p, point) || pn_domain_holds(p, there))
        continue;
      bool known = pn_region_partner(p, point, x, &partner);
      snprintf(number, sizeof number, "%.6g", partner);
      return pn_found(c, PN_FOUND_ERROR, axis->name, axis->place, strlen(axis->name),
                      "`%s` repeats, but the partner of %s lies outside the region%s%s%s%s",
                      axis->name, pn_check_point(c, point),
                      known ? "; across the region from there lies " : "", known ? axis->name : "",
                      known ? " = " : "", known ? number : "");
    }
  }
  return TN_OK;
}

tn_status pn_check_partners(pn_checking *c) {
  const pn_problem *p = c->problem;
  if (!p->region)
    return TN_OK;
  for (size_t m = 0; m < c->sites->n_terms; ++m)
    TN_TRY(check_term(c, &c->sites->terms[m]));
  for (size_t x = 0; x < p->n_coordinates; ++x)
    if (p->coordinates[x].periodic && p->coordinates[x].role == PN_SPACE)
      TN_TRY(check_period(c, x));
  tn_error_clear();
  return TN_OK;
}
