/* keys.c: the check of a problem file's tables, keys and types against keys.def.
 *
 * A misspelt key is the quietest of all mistakes (the default is used and nobody notices), so an
 * unknown key is an error, with the nearest key of that table, or the table that does have it. A
 * key that the format has and this version does not is an error too: nothing that a file says is
 * ignored.
 *
 * TOML's own trap: a key written below a header belongs to that table, however global it looks. A
 * name of a top-level table found inside another one gets the error that says so.
 */
#include "pinn/keys.h"

#include <stdlib.h>
#include <string.h>

#define REQUIRED NULL
const pn_key pn_key_list[] = {
#define TABLE(name, form, available, meaning)
#define KEY(table, key, type, fallback, available, bare, choices, meaning)                         \
  {#table, #key, PN_##type, fallback, available, bare, choices, meaning},
#include "pinn/keys.def"
#undef TABLE
#undef KEY
};
const size_t pn_key_count = sizeof pn_key_list / sizeof pn_key_list[0];

const pn_key_table pn_key_tables[] = {
#define TABLE(name, form, available, meaning) {#name, PN_##form, available, meaning},
#define KEY(table, key, type, fallback, available, bare, choices, meaning)
#include "pinn/keys.def"
#undef TABLE
#undef KEY
};
const size_t pn_key_table_count = sizeof pn_key_tables / sizeof pn_key_tables[0];

enum { LABEL = 200, MOST_CANDIDATES = 64, LONGEST_WORD = 64 };

const pn_key *pn_key_find(const char *table, const char *name) {
  for (size_t i = 0; i < pn_key_count; ++i)
    if (strcmp(pn_key_list[i].table, table) == 0 && strcmp(pn_key_list[i].name, name) == 0)
      return &pn_key_list[i];
  return NULL;
}

const pn_key_table *pn_key_table_find(const char *name) {
  for (size_t i = 0; i < pn_key_table_count; ++i)
    if (strcmp(pn_key_tables[i].name, name) == 0)
      return &pn_key_tables[i];
  return NULL;
}

/* `top` stands for the keys above the first table; users do not write it. */
static bool names_a_table(const char *name) {
  return strcmp(name, "top") != 0 && pn_key_table_find(name);
}

const char *pn_key_type_text(pn_key_type type) {
  switch (type) {
  case PN_TEXT:
    return "a string";
  case PN_COUNT:
    return "a whole number";
  case PN_COUNTS:
    return "a whole number or a list of them";
  case PN_REALS:
    return "a number or a list of them";
  case PN_REAL:
    return "a number";
  case PN_BOOLEAN:
    return "true or false";
  case PN_CHOICE:
    return "a word";
  case PN_EXPRESSION:
    return "a number or an expression string";
  case PN_VALUES:
    return "an expression string or a list of them";
  case PN_RELATIONS:
    return "an equation string or a list of them";
  case PN_PREDICATE:
    return "a predicate string";
  case PN_NAMES:
    return "a string of names";
  case PN_RANGE:
    return "[low, high]";
  case PN_VECTOR:
    return "a list of numbers";
  case PN_VECTORS:
    return "a list of points, as in [[0, 0], [1, 0], [0, 1]]";
  case PN_FACTORS:
    return "a number or a list of numbers";
  case PN_ERRORS:
    return "a number or a table of numbers";
  case PN_NETWORK:
    return "a table";
  default:
    return "any value";
  }
}

/* ---- Nearest names -------------------------------------------------------------------------- */

size_t pn_edit_distance(const char *a, const char *b) {
  size_t row[3][LONGEST_WORD + 1], n = strlen(b), m = strlen(a);
  if (n > LONGEST_WORD)
    n = LONGEST_WORD;
  if (m > LONGEST_WORD)
    m = LONGEST_WORD;
  for (size_t j = 0; j <= n; ++j)
    row[0][j] = j;
  for (size_t i = 1; i <= m; ++i) {
    size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      size_t least = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < least)
        least = last[j] + 1;
      if (now[j - 1] + 1 < least)
        least = now[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < least)
        least = before[j - 2] + 1;
      now[j] = least;
    }
  }
  return row[m % 3][n];
}

const char *pn_nearest(const char *word, size_t n, const char *const *names) {
  const char *best = NULL;
  size_t allowed = strlen(word) / 3 > 1 ? strlen(word) / 3 : 1, least = allowed + 1;
  for (size_t i = 0; i < n; ++i) {
    size_t d = pn_edit_distance(word, names[i]);
    if (d >= least || d >= strlen(names[i]))
      continue;
    least = d;
    best = names[i];
  }
  return best;
}

/* ---- Errors --------------------------------------------------------------------------------- */

/* "[network]", "[[stage]]", "[domain]" as the header that a key's table is written by. */
static void header_of(const char *table, char *out, size_t size) {
  const char *own = strstr(table, "_own");
  int length = (int)(own ? (size_t)(own - table) : strlen(table));
  const pn_key_table *t = pn_key_table_find(table);
  if (strcmp(table, "top") == 0)
    snprintf(out, size, "the top of the file");
  else
    snprintf(out, size, t && t->form == PN_LIST ? "[[%.*s]]" : "[%.*s]", length, table);
}

static tn_status unsupported(const pn_toml *node, const char *what) {
  return pn_fail_at(TN_EUNSUPPORTED, node->key_place,
                    node->key_place.column ? strlen(node->key) : 1,
                    "%s: this version of pinn does not have it", what);
}

/* An unknown key: nearest key of its table, else the table that has it. `label` is the table as the
 * user sees it, `parent` the table it stands in. */
static tn_status unknown_key(const pn_toml *node, const char *table, const char *label,
                             const pn_toml *parent) {
  const char *name = node->key;
  size_t width = strlen(name), n = 0;
  if ((names_a_table(name) || strcmp(name, "title") == 0) && strcmp(table, "top") != 0 &&
      parent->key_place.line && parent->place.line < node->key_place.line)
    return pn_fail_at(TN_EINPUT, node->key_place, width,
                      "`%s` is read as %s.%s because it stands below %s (line %zu). %s%s%s or move "
                      "it above line %zu.",
                      name, parent->key[0] ? parent->key : table, name, label, parent->place.line,
                      pn_key_table_find(name) ? "Write [" : "Write it at the top of the file",
                      pn_key_table_find(name) ? name : "", pn_key_table_find(name) ? "]," : ",",
                      parent->place.line);
  const char *names[MOST_CANDIDATES];
  const char *bare = strcmp(table, "top") == 0 ? "top" : table;
  for (size_t i = 0; i < pn_key_count && n < MOST_CANDIDATES; ++i)
    if (strcmp(pn_key_list[i].table, bare) == 0)
      names[n++] = pn_key_list[i].name;
  for (size_t i = 1; strcmp(table, "top") == 0 && i < pn_key_table_count; ++i)
    if (n < MOST_CANDIDATES)
      names[n++] = pn_key_tables[i].name;
  const char *near = pn_nearest(name, n, names);
  const char *lists = strcmp(table, "top") == 0 ? "" : " ";
  if (near)
    return pn_fail_at(TN_EINPUT, node->key_place, width,
                      "unknown key `%s` in %s. Did you mean `%s`? (`pinn keys%s%s` lists all)",
                      name, label, near, lists, *lists ? table : "");
  for (size_t i = 0; i < pn_key_count; ++i) {
    if (strcmp(pn_key_list[i].name, name) != 0)
      continue;
    char header[LABEL];
    header_of(pn_key_list[i].table, header, sizeof header);
    return pn_fail_at(TN_EINPUT, node->key_place, width, "`%s` is a key of %s, not of %s", name,
                      header, label);
  }
  return pn_fail_at(TN_EINPUT, node->key_place, width,
                    "unknown key `%s` in %s (`pinn keys%s%s` lists all)", name, label, lists,
                    *lists ? table : "");
}

static tn_status wrong_type(const pn_toml *node, const pn_key *key, const char *label) {
  bool array = node->kind == PN_TOML_ARRAY; /* a list of the wrong things, or of too few */
  return pn_fail_at(TN_EINPUT, node->place, 1, "`%s` in %s takes %s, not %s%s", key->name, label,
                    pn_key_type_text(key->type), array && node->n > 0 ? "this " : "",
                    array ? node->n > 0 ? "array" : "an empty array"
                          : pn_toml_kind_text(node->kind));
}

/* ---- Types ---------------------------------------------------------------------------------- */

static bool is_number(const pn_toml *v) {
  return v->kind == PN_TOML_INTEGER || v->kind == PN_TOML_FLOAT;
}

static bool all_of(const pn_toml *array, bool numbers, bool strings) {
  for (size_t i = 0; i < array->n; ++i) {
    const pn_toml *v = array->items[i];
    if (!(numbers && is_number(v)) && !(strings && v->kind == PN_TOML_STRING))
      return false;
  }
  return array->n > 0;
}

static bool all_vectors(const pn_toml *array) {
  for (size_t i = 0; i < array->n; ++i)
    if (array->items[i]->kind != PN_TOML_ARRAY || !all_of(array->items[i], true, true))
      return false;
  return array->n > 0;
}

static bool has_type(const pn_toml *v, pn_key_type type) {
  bool string = v->kind == PN_TOML_STRING, array = v->kind == PN_TOML_ARRAY;
  switch (type) {
  case PN_TEXT:
  case PN_CHOICE:
  case PN_PREDICATE:
  case PN_NAMES:
    return string;
  case PN_COUNT:
    return v->kind == PN_TOML_INTEGER || string;
  case PN_COUNTS:
    return v->kind == PN_TOML_INTEGER || string || (array && all_of(v, true, true));
  case PN_REALS:
    return is_number(v) || string || (array && all_of(v, true, true));
  case PN_REAL:
  case PN_EXPRESSION:
    return is_number(v) || string;
  case PN_VALUES:
  case PN_RELATIONS:
    return string || (array && all_of(v, false, true));
  case PN_BOOLEAN:
    return v->kind == PN_TOML_BOOLEAN;
  case PN_RANGE:
    return array && v->n == 2 && all_of(v, true, true);
  case PN_VECTOR:
    return array && all_of(v, true, true);
  case PN_VECTORS:
    return array && all_vectors(v);
  case PN_FACTORS:
    return is_number(v) || string || (array && all_of(v, true, true));
  case PN_ERRORS:
    return is_number(v) || string || v->kind == PN_TOML_TABLE;
  case PN_NETWORK:
    return v->kind == PN_TOML_TABLE;
  default:
    return true;
  }
}

/* One word against "a|b|!c". */
static tn_status check_choice(const pn_toml *v, const pn_key *key, const char *label) {
  char copy[LABEL];
  const char *words[MOST_CANDIDATES];
  size_t n = 0;
  snprintf(copy, sizeof copy, "%s", key->choices);
  char *state = NULL;
  for (char *w = strtok_r(copy, "|", &state); w; w = strtok_r(NULL, "|", &state)) {
    bool absent = *w == '!';
    w += absent;
    if (strcmp(w, v->string) == 0 && absent)
      return pn_fail_at(TN_EUNSUPPORTED, v->place, strlen(w) + 2 * v->quoted,
                        "`%s` = \"%s\" in %s: this version of pinn does not have it", key->name, w,
                        label);
    if (strcmp(w, v->string) == 0)
      return TN_OK;
    if (!absent && n < MOST_CANDIDATES)
      words[n++] = w;
  }
  char list[LABEL] = "";
  for (size_t i = 0; i < n; ++i) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
  }
  if (key->fallback && strcmp(key->fallback, v->string) == 0)
    return TN_OK;
  const char *near = pn_nearest(v->string, n, words);
  return pn_fail_at(TN_EINPUT, v->place, strlen(v->string) + 2 * v->quoted,
                    "`%s` in %s cannot be \"%s\"%s%s%s; the words are %s", key->name, label,
                    v->string, near ? ". Did you mean \"" : "", near ? near : "", near ? "\"?" : "",
                    list);
}

static tn_status check_fixed(pn_toml *table, const char *name, const char *label);

/* Saying the default of something that is not available changes nothing. */
static bool is_fallback(const pn_toml *v, const pn_key *key) {
  if (!key->fallback)
    return false;
  if (v->kind == PN_TOML_BOOLEAN)
    return strcmp(key->fallback, v->boolean ? "true" : "false") == 0;
  return v->kind == PN_TOML_STRING && strcmp(key->fallback, v->string) == 0;
}

static tn_status check_value(pn_toml *v, const pn_key *key, const char *label) {
  if (!key->available && !is_fallback(v, key)) {
    char what[LABEL + 40];
    snprintf(what, sizeof what, "`%s` in %s", key->name, label);
    return unsupported(v, what);
  }
  if (!has_type(v, key->type))
    return wrong_type(v, key, label);
  if (key->type == PN_COUNT && v->kind == PN_TOML_INTEGER && v->integer < 0)
    return pn_fail_at(TN_EINPUT, v->place, 1, "`%s` in %s must not be negative, but is %lld",
                      key->name, label, (long long)v->integer);
  if (key->type == PN_CHOICE)
    return check_choice(v, key, label);
  if (key->type == PN_NETWORK)
    return check_fixed(v, "network", label);
  return TN_OK;
}

/* The keys of one table: [network], one stage, one entry. */
static tn_status check_fixed(pn_toml *table, const char *name, const char *label) {
  if (table->kind == PN_TOML_STRING && strcmp(name, "conditions") == 0 && table->length < LABEL)
    return pn_fail_at(TN_EINPUT, table->place, 1,
                      "%s is a table, not a string: write %s = { equation = \"%s\" }", label,
                      table->key, table->string);
  if (table->kind != PN_TOML_TABLE)
    return pn_fail_at(TN_EINPUT, table->place, 1, "%s is a table, not %s", label,
                      pn_toml_kind_text(table->kind));
  for (size_t i = 0; i < table->n; ++i) {
    pn_toml *v = table->items[i];
    const pn_key *key = pn_key_find(name, v->key);
    if (!key)
      return unknown_key(v, name, label, table);
    TN_TRY(check_value(v, key, label));
  }
  return TN_OK;
}

static const pn_key *bare_key(const char *table) {
  for (size_t i = 0; i < pn_key_count; ++i)
    if (strcmp(pn_key_list[i].table, table) == 0 && pn_key_list[i].bare)
      return &pn_key_list[i];
  return NULL;
}

/* x = [0, 1] becomes x = { range = [0, 1] }; a child with the key "" (an override below a bare
 * value) gets the bare key's name, unless the override gave that key itself. */
static tn_status unfold_bare(pn_arena *arena, pn_toml *entry, const pn_key *bare) {
  if (entry->kind != PN_TOML_TABLE) {
    pn_toml *value = NULL;
    TN_TRY(PN_TAKE(arena, 1, &value));
    *value = *entry;
    value->key = bare->name;
    entry->kind = PN_TOML_TABLE;
    entry->n = 1;
    TN_TRY(PN_TAKE(arena, 1, &entry->items));
    entry->items[0] = value;
    return TN_OK;
  }
  if (entry->n == 0 || entry->items[0]->key[0])
    return TN_OK;
  if (pn_toml_find(entry, bare->name)) {
    ++entry->items;
    --entry->n;
  } else {
    entry->items[0]->key = bare->name;
  }
  return TN_OK;
}

static tn_status check_named(pn_arena *arena, pn_toml *table, const char *name) {
  char own[LABEL], label[LABEL], header[LABEL];
  snprintf(own, sizeof own, "%s_own", name);
  snprintf(header, sizeof header, "[%s]", name);
  const pn_key *bare = bare_key(name);
  for (size_t i = 0; i < table->n; ++i) {
    pn_toml *entry = table->items[i];
    snprintf(label, sizeof label, "[%s.%s]", name, entry->key);
    const pn_key *key = pn_key_find(own, entry->key);
    if (key) {
      TN_TRY(check_value(entry, key, header));
      continue;
    }
    bool known = names_a_table(entry->key) || strcmp(entry->key, "title") == 0;
    bool odd = bare ? entry->kind == PN_TOML_TABLE || !has_type(entry, bare->type) : true;
    if (known && odd && table->place.line < entry->key_place.line)
      return unknown_key(entry, name, header, table);
    if (bare && (entry->kind != PN_TOML_TABLE || (entry->n && !entry->items[0]->key[0])))
      TN_TRY(unfold_bare(arena, entry, bare));
    TN_TRY(check_fixed(entry, name, label));
  }
  return TN_OK;
}

static tn_status check_table(pn_arena *arena, pn_toml *v, const pn_key_table *t) {
  char label[LABEL];
  header_of(t->name, label, sizeof label);
  if (!t->available)
    return unsupported(v, label);
  if (t->form != PN_LIST && v->kind != PN_TOML_TABLE)
    return pn_fail_at(TN_EINPUT, v->place, 1, "`%s` is a table, not %s", t->name,
                      pn_toml_kind_text(v->kind));
  if (t->form == PN_NAMED)
    return check_named(arena, v, t->name);
  if (t->form == PN_FIXED)
    return check_fixed(v, t->name, label);
  if (v->kind != PN_TOML_ARRAY)
    return pn_fail_at(TN_EINPUT, v->place, 1, "write %s with two brackets: there may be several",
                      label);
  for (size_t i = 0; i < v->n; ++i) {
    char numbered[2 * LABEL];
    snprintf(numbered, sizeof numbered, "%s %zu", label, i + 1);
    TN_TRY(check_fixed(v->items[i], t->name, numbered));
  }
  return TN_OK;
}

tn_status pn_keys_check(pn_arena *arena, pn_toml *root) {
  for (size_t i = 0; i < root->n; ++i) {
    pn_toml *v = root->items[i];
    const pn_key_table *t = names_a_table(v->key) ? pn_key_table_find(v->key) : NULL;
    if (t) {
      TN_TRY(check_table(arena, v, t));
      continue;
    }
    const pn_key *key = pn_key_find("top", v->key);
    if (!key)
      return unknown_key(v, "top", "the file", root);
    TN_TRY(check_value(v, key, "the file"));
    if (strcmp(v->key, "format") == 0 && v->kind != PN_TOML_INTEGER)
      return wrong_type(v, key, "the file");
    if (strcmp(v->key, "format") == 0 && v->integer != 1)
      return pn_fail_at(TN_EUNSUPPORTED, v->place, 1,
                        "format %lld: this version of pinn reads format 1", (long long)v->integer);
  }
  return TN_OK;
}
