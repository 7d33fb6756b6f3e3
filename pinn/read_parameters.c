/* read_parameters.c: [parameters]: numbers that are found together with the networks.
 *
 * A parameter has a start, perhaps bounds, and a scale on which it is searched. It may stand wherever
 * an unknown may, in an ansatz and in an exact solution; not in constants, ranges, regions, weights,
 * because those are decided before training. Its exact value, if [exact] knows it, is a number.
 */
#include "pinn/read.h"

#include <math.h>
#include <string.h>

enum { MOST_PARAMETERS = 64 };

tn_status pn_declare_parameters(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, MOST_PARAMETERS, "parameters"));
  TN_TRY(PN_TAKE(p->arena, count, &p->parameters));
  for (size_t i = 0; i < count; ++i)
    p->parameters[i] = (pn_parameter){.name = table->items[i]->key,
                                      .place = table->items[i]->key_place,
                                      .lo = -INFINITY,
                                      .hi = INFINITY,
                                      .exact = NAN,
                                      .accept = NAN};
  p->n_parameters = count;
  return TN_OK;
}

static tn_status read_bounds(pn_problem *p, const pn_toml *bounds, pn_parameter *k) {
  if (!bounds || bounds->kind == PN_TOML_STRING) /* "none" */
    return TN_OK;
  TN_TRY(pn_read_number(p, bounds->items[0], NULL, 0, &k->lo));
  TN_TRY(pn_read_number(p, bounds->items[1], NULL, 0, &k->hi));
  if (!(k->lo < k->hi))
    return pn_fail_at(TN_EINPUT, bounds->place, 1,
                      "bounds = [%g, %g] of `%s`: the first number must be below the second", k->lo,
                      k->hi, k->name);
  if (k->log && !(k->lo > 0))
    return pn_fail_at(TN_EINPUT, bounds->place, 1,
                      "bounds = [%g, %g] of `%s` with log = true: both must be above 0", k->lo,
                      k->hi, k->name);
  if (k->start > k->lo && k->start < k->hi)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, bounds->place, 1,
                    "the start %g of `%s` must lie strictly between its bounds %g and %g", k->start,
                    k->name, k->lo, k->hi);
}

tn_status pn_read_parameters(pn_problem *p, const pn_toml *table) {
  for (size_t i = 0; i < p->n_parameters; ++i) {
    const pn_toml *entry = table->items[i], *start = pn_toml_find(entry, "start");
    pn_parameter *k = &p->parameters[i];
    if (!start)
      return pn_fail_at(TN_EINPUT, k->place, strlen(k->name),
                        "parameter `%s` has no start: write %s = 1, or { start = 1 }", k->name,
                        k->name);
    TN_TRY(pn_read_number(p, start, NULL, 0, &k->start));
    k->log = pn_read_flag(pn_toml_find(entry, "log"), false);
    if (k->log && !(k->start > 0))
      return pn_fail_at(TN_EINPUT, start->place, 1,
                        "the start %g of `%s` with log = true: it must be above 0", k->start,
                        k->name);
    TN_TRY(read_bounds(p, pn_toml_find(entry, "bounds"), k));
  }
  return TN_OK;
}

tn_status pn_read_exact_parameter(pn_problem *p, const pn_toml *entry, size_t index) {
  pn_parameter *k = &p->parameters[index];
  k->exact_place = entry->key_place;
  TN_TRY(pn_read_number(p, pn_toml_find(entry, "value"), NULL, NAN, &k->exact));
  if (k->exact >= k->lo && k->exact <= k->hi)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                    "the exact value %g of `%s` lies outside its bounds [%g, %g]", k->exact,
                    k->name, k->lo, k->hi);
}
