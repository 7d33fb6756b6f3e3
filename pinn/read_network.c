/* read_network.c: [network] and the network tables of unknowns.
 *
 * A table of an unknown says only what differs from [network]. Expressions of `inputs` are read as trees here and
 * resolved by pn_read_inputs once definitions are known.
 */
#include "pinn/read.h"

#include <math.h>
#include <string.h>

static const char *const automatic = "auto";
static const double most_width = 65536, most_depth = 1000;
enum { MOST_SCALES = 32 };

static tn_status read_size(pn_problem *p, const pn_toml *table, const char *key, double most,
                           size_t *out) {
  const pn_toml *node = pn_toml_find(table, key);
  if (!node || (node->kind == PN_TOML_STRING && strcmp(node->string, automatic) == 0))
    return TN_OK;
  TN_TRY(pn_read_count(p, node, NULL, 0, out));
  if (*out >= 1 && (double)*out <= most)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` is %zu; expected \"%s\" or 1 to %.0f", key,
                    *out, automatic, most);
}

static tn_status read_positive(pn_problem *p, const pn_toml *table, const char *key, double *out) {
  const pn_toml *node = pn_toml_find(table, key);
  TN_TRY(pn_read_number(p, node, automatic, *out, out));
  return pn_read_is_positive(node, *out);
}

/* A positive number or a list of them; `word` leaves what is there. */
static tn_status read_scales(pn_problem *p, const pn_toml *table, const char *key, const char *word,
                             size_t *n, const double **out) {
  const pn_toml *node = pn_toml_find(table, key);
  double *values = NULL;
  if (!node || (node->kind == PN_TOML_STRING && strcmp(node->string, word) == 0))
    return TN_OK;
  bool list = node->kind == PN_TOML_ARRAY;
  *n = list ? node->n : 1;
  if (*n > MOST_SCALES)
    return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` has %zu entries; at most %d", key, *n,
                      (int)MOST_SCALES);
  TN_TRY(PN_TAKE(p->arena, *n, &values));
  for (size_t i = 0; i < *n; ++i) {
    const pn_toml *item = list ? node->items[i] : node;
    TN_TRY(pn_read_number(p, item, NULL, 0, &values[i]));
    if (!(values[i] > 0))
      return pn_fail_at(TN_EINPUT, item->place, 1, "`%s` must be positive, but is %g", key,
                        values[i]);
  }
  *out = values;
  return TN_OK;
}

static tn_status read_fourier(pn_problem *p, const pn_toml *table, pn_network *n) {
  const pn_toml *node = pn_toml_find(table, "fourier");
  TN_TRY(pn_read_count(p, node, NULL, n->fourier, &n->fourier));
  TN_TRY(read_scales(p, table, "fourier_scale", automatic, &n->n_scales, &n->scales));
  TN_TRY(read_scales(p, table, "fourier_time", "none", &n->n_time_scales, &n->time_scales));
  if ((double)n->fourier > most_width)
    return pn_fail_at(TN_EINPUT, node->place, 1, "`fourier` is %zu; expected 0 to %.0f", n->fourier,
                      most_width);
  const char *key = n->n_scales > 0 ? "fourier_scale" : "fourier_time";
  if (n->fourier > 0 || n->n_scales + n->n_time_scales == 0 || strcmp(n->kind, "pirate") == 0)
    return TN_OK;
  const pn_toml *given = pn_toml_find(table, key);
  return pn_fail_at(TN_EINPUT, given ? given->place : n->place, 1,
                    "`%s` is for Fourier features, and `fourier`, their number, is 0", key);
}

static tn_status read_periods(pn_problem *p, const pn_toml *table, pn_network *n) {
  const pn_toml *node = pn_toml_find(table, "period");
  n->learn_period = pn_read_flag(pn_toml_find(table, "learn_period"), n->learn_period);
  if (!node || (node->kind == PN_TOML_STRING && strcmp(node->string, "none") == 0))
    return TN_OK;
  if (node->kind != PN_TOML_TABLE)
    return pn_fail_at(TN_EINPUT, node->place, 1,
                      "`period` names its coordinates: write period = { %s = ... }",
                      p->coordinates[0].name);
  for (size_t i = 0; i < node->n; ++i) {
    const pn_toml *item = node->items[i];
    size_t c = 0;
    if (pn_lookup(p, item->key, &c) != PN_IS_COORDINATE)
      return pn_fail_at(TN_EINPUT, item->key_place, strlen(item->key),
                        "`%s` in period is no coordinate of [domain]", item->key);
    if (p->coordinates[c].periodic)
      return pn_fail_at(TN_EINPUT, item->key_place, strlen(item->key),
                        "`%s` is periodic with its range already, by [domain]", item->key);
    if (item->kind != PN_TOML_INTEGER && item->kind != PN_TOML_FLOAT &&
        item->kind != PN_TOML_STRING)
      return pn_fail_at(TN_EINPUT, item->place, 1, "the period of `%s` is %s, not a number",
                        item->key, pn_toml_kind_text(item->kind));
    TN_TRY(pn_read_number(p, item, NULL, 0, &n->period[c]));
    TN_TRY(pn_read_is_positive(item, n->period[c]));
  }
  return TN_OK;
}

static tn_status read_inputs(pn_problem *p, const pn_toml *table, pn_network *n) {
  const pn_toml *node = pn_toml_find(table, "inputs");
  if (!node)
    return TN_OK;
  n->n_inputs = 0;
  n->inputs = NULL;
  if (node->kind == PN_TOML_STRING && strcmp(node->string, "none") == 0)
    return TN_OK;
  bool list = node->kind == PN_TOML_ARRAY;
  size_t count = list ? node->n : 1;
  if (count > PN_MAX_COORDINATES)
    return pn_fail_at(TN_EINPUT, node->place, 1, "`inputs` has %zu entries; at most %d", count,
                      PN_MAX_COORDINATES);
  TN_TRY(PN_TAKE(p->arena, count, &n->inputs));
  for (size_t i = 0; i < count; ++i)
    TN_TRY(pn_read_tree(p, list ? node->items[i] : node, &n->inputs[i]));
  n->n_inputs = count;
  return TN_OK;
}

pn_network pn_network_default(void) {
  return (pn_network){.kind = "mlp",
                      .activation = "tanh",
                      .gain = NAN,
                      .init = "glorot",
                      .shared = true,
                      .normalise = true,
                      .omega = NAN,
                      .adaptive = "none",
                      .adaptive_factor = 1,
                      .factor_mean = 0.5,
                      .factor_spread = 0.1};
}

tn_status pn_read_network(pn_problem *p, const pn_toml *table, pn_network *n) {
  const pn_toml *spread = pn_toml_find(table, "factor_spread");
  if (table)
    n->place = table->key_place;
  n->kind = pn_read_text(pn_toml_find(table, "kind"), n->kind);
  n->activation = pn_read_text(pn_toml_find(table, "activation"), n->activation);
  n->factorised = pn_read_flag(pn_toml_find(table, "factorised"), n->factorised);
  n->shared = pn_read_flag(pn_toml_find(table, "shared"), n->shared);
  n->normalise_given = n->normalise_given || pn_toml_find(table, "normalise");
  n->normalise = pn_read_flag(pn_toml_find(table, "normalise"), n->normalise);
  n->adaptive = pn_read_text(pn_toml_find(table, "adaptive"), n->adaptive);
  n->from = pn_read_text(pn_toml_find(table, "from"), n->from);
  n->init = pn_read_text(pn_toml_find(table, "init"), n->init);
  TN_TRY(read_size(p, table, "width", most_width, &n->width));
  TN_TRY(read_size(p, table, "depth", most_depth, &n->depth));
  TN_TRY(read_fourier(p, table, n));
  TN_TRY(read_periods(p, table, n));
  TN_TRY(read_inputs(p, table, n));
  TN_TRY(read_positive(p, table, "omega", &n->omega));
  TN_TRY(read_positive(p, table, "adaptive_factor", &n->adaptive_factor));
  TN_TRY(pn_read_number(p, pn_toml_find(table, "factor_mean"), NULL, n->factor_mean,
                        &n->factor_mean));
  TN_TRY(pn_read_number(p, spread, NULL, n->factor_spread, &n->factor_spread));
  if (n->factor_spread < 0)
    return pn_fail_at(TN_EINPUT, spread->place, 1, "`factor_spread` must not be negative, but is %g",
                      n->factor_spread);
  return read_positive(p, table, "gain", &n->gain);
}

static tn_status resolve_inputs(pn_problem *p, const pn_network *n) {
  for (size_t i = 0; i < n->n_inputs; ++i) {
    pn_naming scope = {.problem = p, .what = "an input of a network", .coordinates = true};
    TN_TRY(pn_resolve(&scope, n->inputs[i]));
    if (n->inputs[i]->components != 1)
      return pn_expr_fail(TN_EINPUT, n->inputs[i], "an input is a scalar: list the components");
  }
  return TN_OK;
}

tn_status pn_read_inputs(pn_problem *p) {
  TN_TRY(resolve_inputs(p, &p->network));
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    const pn_network *own = p->unknowns[i].network;
    if (own && own->inputs != p->network.inputs) /* else they are resolved */
      TN_TRY(resolve_inputs(p, own));
  }
  return TN_OK;
}
