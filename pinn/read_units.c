/* read_units.c: [units]: units of declared names. */
#include "pinn/keys.h"
#include "pinn/read.h"
#include "pinn/units.h"

#include <stdio.h>
#include <string.h>

/* Every name that has a value. */
static size_t all_names(const pn_problem *p, size_t room, const char **names) {
  size_t n = 0;
  for (size_t i = 0; i < p->n_coordinates && n < room; ++i)
    names[n++] = p->coordinates[i].name;
  for (size_t i = 0; i < p->n_unknowns && n < room; ++i)
    names[n++] = p->unknowns[i].name;
  for (size_t i = 0; i < p->n_constants && n < room; ++i)
    names[n++] = p->constants[i].name;
  for (size_t i = 0; i < p->n_parameters && n < room; ++i)
    names[n++] = p->parameters[i].name;
  for (size_t i = 0; i < p->n_definitions && n < room; ++i)
    names[n++] = p->definitions[i].name;
  for (size_t i = 0; i < p->n_tables && n < room; ++i)
    names[n++] = p->tables[i].name;
  return n;
}

static bool find(const pn_problem *p, const char *name, pn_unit_entry *out) {
  static const pn_measured of[] = {
      [PN_IS_COORDINATE] = PN_MEASURED_COORDINATE, [PN_IS_CONSTANT] = PN_MEASURED_CONSTANT,
      [PN_IS_UNKNOWN] = PN_MEASURED_UNKNOWN,       [PN_IS_DEFINITION] = PN_MEASURED_DEFINITION,
      [PN_IS_TABLE] = PN_MEASURED_TABLE,           [PN_IS_PARAMETER] = PN_MEASURED_PARAMETER};
  pn_sort sort = pn_lookup(p, name, &out->index);
  if (sort == PN_IS_NOTHING || (size_t)sort >= sizeof of / sizeof *of)
    return false;
  out->what = of[sort];
  return true;
}

static tn_status read_unit(pn_problem *p, const pn_toml *entry, pn_unit_entry *out) {
  enum { MOST = 512 };
  const char *names[MOST];
  const pn_toml *text = pn_toml_find(entry, "unit");
  *out = (pn_unit_entry){.name = entry->key, .place = entry->key_place};
  if (!find(p, entry->key, out)) {
    const char *near = pn_nearest(entry->key, all_names(p, MOST, names), names);
    return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                      "[units] names `%s`, which is not declared%s%s%s", entry->key,
                      near ? ". Did you mean `" : "", near ? near : "", near ? "`?" : "");
  }
  if (!text)
    return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                      "`%s` has no unit: write %s = \"m/s\"", entry->key, entry->key);
  if (pn_unit_parse(text->string, &out->unit) == TN_OK)
    return TN_OK;
  char reason[512];
  snprintf(reason, sizeof reason, "%s", tn_error_text());
  return pn_fail_at(TN_EINPUT, text->place, strlen(text->string) + 2, "the unit of `%s`: %s", entry->key,
                    reason);
}

tn_status pn_read_units(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MOST_ENTRIES, "units"));
  TN_TRY(PN_TAKE(p->arena, count, &p->units));
  for (size_t i = 0; i < count; ++i)
    TN_TRY(read_unit(p, table->items[i], &p->units[i]));
  p->n_units = count;
  return TN_OK;
}
