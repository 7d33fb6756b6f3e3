/* counted.c: x = { range = [0, 1], count = 10 }: coordinates by number, sums and products over them.
 *
 *   sum(e, x) = e with x1 for x + e with x2 for x + ...,   prod(e, x) the same with factors
 *
 * Inside, x is a coordinate like others: u_xx is a derivative along it. The sum is written out while names
 * are resolved, so nothing behind the resolver knows of it.
 */
#include "pinn/read.h"
#include "pinn/resolve.h"

#include <string.h>

const pn_counted *pn_counted_find(const pn_problem *problem, const char *name) {
  for (size_t i = 0; i < problem->n_counted; ++i)
    if (strcmp(problem->counted[i].name, name) == 0)
      return &problem->counted[i];
  return NULL;
}

tn_status pn_declare_counted(pn_problem *problem, const pn_toml *entry, const pn_toml *count,
                             tn_status (*declare)(pn_problem *, const pn_toml *, const char *)) {
  if (count->kind != PN_TOML_INTEGER || !(count->number >= 1 && count->number <= PN_MAX_COORDINATES))
    return pn_fail_at(TN_EINPUT, count->place, 1,
                      "`count` of `%s`: expected a whole number from 1 to %d (all coordinates "
                      "together)",
                      entry->key, PN_MAX_COORDINATES);
  const pn_toml *role = pn_toml_find(entry, "role");
  if (role ? strcmp(role->string, "time") == 0 : strcmp(entry->key, "t") == 0)
    return pn_fail_at(TN_EINPUT, count->place, 1, "`%s` is the time: there is one", entry->key);
  pn_counted *c = &problem->counted[problem->n_counted++];
  *c = (pn_counted){entry->key, problem->n_coordinates, (size_t)count->number, entry->key_place};
  for (size_t k = 1; k <= c->n; ++k) {
    char *name = NULL;
    TN_TRY(pn_arena_format(problem->arena, &name, "%s%zu", entry->key, k));
    TN_TRY(declare(problem, entry, name));
  }
  return TN_OK;
}

static tn_status write_out(pn_naming *s, pn_expr *e, size_t group, pn_kind join, pn_expr **out) {
  pn_problem *p = s->problem;
  const pn_counted *c = &p->counted[group];
  for (size_t k = 0; k < c->n; ++k) {
    pn_expr *part = NULL;
    TN_TRY(pn_copy_tree(p->arena, e->args[0], &p->budget, &part));
    p->counted_group = group + 1;
    p->counted_at = k;
    TN_TRY(pn_resolve(s, part));
    if (k == 0) {
      *out = part;
      continue;
    }
    TN_TRY(pn_expr_make(p->arena, join, e, 2, (pn_expr *[]){*out, part}, out));
    TN_TRY(pn_set_components(p, *out));
  }
  return TN_OK;
}

tn_status pn_resolve_counted(pn_naming *s, pn_expr *e, pn_kind join) {
  pn_problem *p = s->problem;
  pn_expr *whole = NULL;
  size_t index = 0, group = p->counted_group, at = p->counted_at;
  if (e->n != 2)
    return pn_expr_fail(TN_EINPUT, e, "`%s` takes (e, x), but %zu argument%s given", e->name, e->n,
                        e->n == 1 ? " is" : "s are");
  const pn_expr *name = e->args[1];
  const pn_counted *c = name->kind == PN_NAME ? pn_counted_find(p, name->name) : NULL;
  if (!c && name->kind == PN_NAME && pn_lookup(p, name->name, &index) == PN_IS_COORDINATE)
    return pn_expr_fail(TN_EINPUT, name,
                        "`%s` is one coordinate: %s(e, x) goes over those that x = { range = [a, b], "
                        "count = n } declares. An integral is int(e, %s)",
                        name->name, e->name, name->name);
  if (!c)
    return pn_expr_fail(TN_EINPUT, name,
                        "%s(e, x) goes over coordinates of [domain] that are declared with count = n",
                        e->name);
  if (!s->coordinates)
    return pn_not_here(s, name, "a coordinate");
  TN_TRY(write_out(s, e, (size_t)(c - p->counted), join, &whole));
  p->counted_group = group;
  p->counted_at = at;
  size_t start = e->start, length = e->length;
  *e = *whole;
  e->start = start;
  e->length = length;
  return TN_OK;
}
