/* read.c: numbers, counts, names and trees out of TOML nodes.
 *
 * The key check has run, so kinds are known to fit. A number may be written as an expression of
 * constants anywhere, which is why even a count is evaluated and then asked to be whole.
 */
#include "pinn/read.h"

#include <math.h>
#include <string.h>

static const double largest_count = 9007199254740992.0; /* 2^53: beyond it doubles skip integers */

/* What a number is called: its key in backticks, or, in a list, that it stands in one. */
static const char *tick(const pn_toml *node) { return node->key[0] ? "`" : ""; }
static const char *subject(const pn_toml *node) {
  return node->key[0] ? node->key : "a number of the list";
}

tn_status pn_phrase_of(pn_problem *problem, const pn_toml *node, const pn_phrase **out) {
  pn_phrase *phrase = NULL;
  TN_TRY(PN_TAKE(problem->arena, 1, &phrase));
  *phrase = (pn_phrase){node->string, node->place, node->quoted};
  *out = phrase;
  return TN_OK;
}

tn_status pn_read_tree(pn_problem *problem, const pn_toml *node, pn_expr **out) {
  const pn_phrase *phrase = NULL;
  if (node->kind == PN_TOML_STRING) {
    TN_TRY(pn_phrase_of(problem, node, &phrase));
    return pn_parse_value(problem->arena, phrase, out);
  }
  if (!isfinite(node->number))
    return pn_fail_at(TN_EINPUT, node->place, 1, "%s%s%s is %g; a finite number is asked for",
                      tick(node), subject(node), tick(node), node->number);
  pn_phrase *empty = NULL;
  TN_TRY(PN_TAKE(problem->arena, 1, &empty));
  *empty = (pn_phrase){"", node->place, false};
  TN_TRY(pn_expr_number(problem->arena, node->number, NULL, out));
  (*out)->phrase = empty;
  return TN_OK;
}

tn_status pn_read_number(pn_problem *problem, const pn_toml *node, const char *word,
                         double fallback, double *out) {
  *out = fallback;
  if (!node)
    return TN_OK;
  if (node->kind == PN_TOML_STRING && word && strcmp(node->string, word) == 0)
    return TN_OK;
  pn_expr *tree = NULL;
  TN_TRY(pn_read_tree(problem, node, &tree));
  pn_naming scope = {.problem = problem, .what = "a number of the file", .no_definitions = true};
  TN_TRY(pn_resolve(&scope, tree));
  return pn_evaluate(problem, tree, NULL, out);
}

tn_status pn_read_count(pn_problem *problem, const pn_toml *node, const char *word, size_t fallback,
                        size_t *out) {
  double value = 0;
  *out = fallback;
  if (!node || (node->kind == PN_TOML_STRING && word && strcmp(node->string, word) == 0))
    return TN_OK;
  TN_TRY(pn_read_number(problem, node, NULL, 0, &value));
  if (!(value >= 0 && value <= largest_count) || value != floor(value))
    return pn_fail_at(TN_EINPUT, node->place, 1,
                      "%s%s%s is %g; a whole number from 0 to 2^53 is asked for", tick(node),
                      subject(node), tick(node), value);
  *out = (size_t)value;
  return TN_OK;
}

const char *pn_read_text(const pn_toml *node, const char *fallback) {
  return node ? node->string : fallback;
}

tn_status pn_read_predicate(pn_naming *scope, const pn_toml *node, pn_expr **out) {
  const pn_phrase *phrase = NULL;
  TN_TRY(pn_phrase_of(scope->problem, node, &phrase));
  TN_TRY(pn_parse_predicate(scope->problem->arena, phrase, out));
  return pn_resolve_predicate(scope, *out);
}

tn_status pn_read_is_positive(const pn_toml *node, double value) {
  if (!node || isnan(value) || value > 0)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` must be positive, but is %g", node->key,
                    value);
}

bool pn_read_flag(const pn_toml *node, bool fallback) { return node ? node->boolean : fallback; }

tn_status pn_read_words(pn_problem *problem, const pn_toml *node, size_t *n, pn_word **out) {
  const pn_phrase *phrase = NULL;
  *n = 0;
  if (!node)
    return TN_OK;
  TN_TRY(pn_phrase_of(problem, node, &phrase));
  TN_TRY(PN_TAKE(problem->arena, strlen(node->string) / 2 + 1, out));
  const char *p = node->string;
  for (;;) {
    p += strspn(p, " \t\n");
    size_t length = strcspn(p, ", \t\n");
    pn_place place = pn_phrase_place(phrase, (size_t)(p - node->string));
    if (length == 0) {
      if (!*p && *n == 0)
        return TN_OK; /* "": no names */
      return pn_fail_at(TN_EINPUT, place, 1,
                        "a name is missing; names stand with commas between, "
                        "as in \"x, t\"");
    }
    char *copy = NULL;
    TN_TRY(pn_arena_text(problem->arena, p, length, &copy));
    (*out)[(*n)++] = (pn_word){copy, place};
    p += length;
    p += strspn(p, " \t\n");
    if (!*p)
      return TN_OK;
    if (*p != ',')
      return pn_fail_at(TN_EINPUT, pn_phrase_place(phrase, (size_t)(p - node->string)), 1,
                        "a comma stands between names, as in \"x, t\"");
    ++p;
  }
}

tn_status pn_read_coordinates(pn_problem *problem, const pn_toml *node, const char *what, size_t *n,
                              size_t of[PN_MAX_COORDINATES]) {
  pn_word *words = NULL;
  size_t n_words = 0;
  *n = 0;
  TN_TRY(pn_read_words(problem, node, &n_words, &words));
  for (size_t i = 0; i < n_words; ++i) {
    size_t index = 0, width = strlen(words[i].text);
    const pn_counted *all = pn_counted_find(problem, words[i].text);
    for (size_t k = 0; all && k < all->n && *n < PN_MAX_COORDINATES; ++k)
      of[(*n)++] = all->first + k;
    if (all)
      continue;
    pn_sort sort = pn_lookup(problem, words[i].text, &index);
    if (sort == PN_IS_UNKNOWN)
      return pn_fail_at(TN_EUNSUPPORTED, words[i].place, width,
                        "`%s` depends on the unknown `%s`: this version of pinn does not have that",
                        what, words[i].text);
    if (sort != PN_IS_COORDINATE)
      return pn_fail_at(TN_EINPUT, words[i].place, width,
                        "`%s` depends on `%s`, which is no coordinate of [domain]", what,
                        words[i].text);
    for (size_t k = 0; k < *n; ++k)
      if (of[k] == index)
        return pn_fail_at(TN_EINPUT, words[i].place, width, "`%s` is named twice", words[i].text);
    of[(*n)++] = index;
  }
  return TN_OK;
}

tn_status pn_read_limit(const pn_toml *table, size_t most, const char *what) {
  if (!table || table->n <= most)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, table->items[most]->key_place, 1, "there are %zu %s; at most %zu",
                    table->n, what, most);
}
