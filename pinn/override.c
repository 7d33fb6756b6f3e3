/* override.c: `--set path=value`, applied to the TOML tree before anything is checked.
 *
 * The path has the keys of the file with dots between them; elements of arrays (stages) are counted
 * from 1. What does not exist is made, so that a mistyped path meets the same checker, with the
 * same "did you mean", as a mistyped file. The value is read as TOML and else taken as a string, so
 * that constants.nu=0.01/pi and equations.heat="u_t = u_xx" both work in a shell without further
 * quotes. An override becomes a source of its own, named --set, so that errors show it.
 */
#include "pinn/text.h"
#include "pinn/toml.h"

#include <string.h>

pn_toml *pn_toml_find(const pn_toml *table, const char *key) {
  if (!table || table->kind != PN_TOML_TABLE)
    return NULL;
  for (size_t i = 0; i < table->n; ++i)
    if (strcmp(table->items[i]->key, key) == 0)
      return table->items[i];
  return NULL;
}

static tn_status append(pn_arena *arena, pn_toml *parent, pn_toml *child) {
  pn_toml **items = NULL;
  TN_TRY(PN_TAKE(arena, parent->n + 1, &items));
  if (parent->n)
    memcpy(items, parent->items, parent->n * sizeof *items);
  items[parent->n] = child;
  parent->items = items;
  ++parent->n;
  return TN_OK;
}

/* A new empty table under `parent`. */
static tn_status add_table(pn_arena *arena, pn_toml *parent, const char *key, pn_place place,
                           pn_toml **out) {
  TN_TRY(PN_TAKE(arena, 1, out));
  (*out)->kind = PN_TOML_TABLE;
  (*out)->key = parent->kind == PN_TOML_ARRAY ? "" : key;
  (*out)->key_place = (*out)->place = place;
  return append(arena, parent, *out);
}

/* Element `key` ("1", "2", ...) of an array; one past the end is made. */
static tn_status element(pn_arena *arena, pn_toml *array, const char *key, pn_place place,
                         pn_toml **out) {
  size_t index = 0;
  for (const char *p = key; *p; ++p) {
    if (*p < '0' || *p > '9' || index > 100000)
      return pn_fail_at(TN_EINPUT, place, strlen(key),
                        "`%s` is a list: its elements are 1 to %zu, not `%s`", array->key, array->n,
                        key);
    index = 10 * index + (size_t)(*p - '0');
  }
  if (index == 0 || index > array->n + 1)
    return pn_fail_at(TN_EINPUT, place, strlen(key),
                      "`%s` has %zu elements, counted from 1; there is no %s", array->key, array->n,
                      key);
  if (index <= array->n) {
    *out = array->items[index - 1];
    return TN_OK;
  }
  return add_table(arena, array, key, place, out);
}

/* `key` of `node`, made if missing. The special case: `stage` is a list even if there is none yet.
 * A bare value on the way becomes a table whose `` key holds it (keys.c knows its bold key). */
static tn_status descend(pn_arena *arena, pn_toml *node, const char *key, bool top, pn_place place,
                         pn_toml **out) {
  if (node->kind == PN_TOML_ARRAY && node->n > 0 && node->items[0]->kind == PN_TOML_TABLE)
    return element(arena, node, key, place, out);
  if (node->kind == PN_TOML_ARRAY && node->n == 0 && strcmp(node->key, "stage") == 0)
    return element(arena, node, key, place, out);
  if (node->kind !=
      PN_TOML_TABLE) { /* u = "x, t" and unknowns.u.scale=2: the bare value moves down */
    pn_toml *bare = NULL;
    TN_TRY(PN_TAKE(arena, 1, &bare));
    *bare = *node;
    bare->key = "";
    *node = (pn_toml){.kind = PN_TOML_TABLE,
                      .key = node->key,
                      .key_place = node->key_place,
                      .place = node->place};
    TN_TRY(append(arena, node, bare));
  }
  *out = pn_toml_find(node, key);
  if (*out)
    return TN_OK;
  TN_TRY(add_table(arena, node, key, place, out));
  if (top && strcmp(key, "stage") == 0)
    (*out)->kind = PN_TOML_ARRAY;
  return TN_OK;
}

/* Reads the value of an override, "k = value" as TOML; false if it is none. */
static bool read_toml(pn_arena *arena, const char *value, pn_toml **out) {
  char *line = NULL;
  pn_source *source = NULL;
  if (pn_arena_format(arena, &line, "k = %s", value) != TN_OK)
    return false;
  if (PN_TAKE(arena, 1, &source) != TN_OK)
    return false;
  *source = (pn_source){"--set", line, strlen(line)};
  pn_toml *root = NULL;
  if (strchr(value, '\n') || pn_toml_parse(arena, source, &root) != TN_OK || root->n != 1 ||
      strcmp(root->items[0]->key, "k") != 0) {
    tn_error_clear();
    return false;
  }
  *out = root->items[0];
  return true;
}

/* Moves the places of a value read as "k = value" to where the value stands in the override. */
static void move_places(pn_toml *node, const pn_source *source, size_t shift) {
  node->place = (pn_place){source, 1, node->place.column + shift};
  node->key_place = (pn_place){source, 1, node->key_place.column + shift};
  for (size_t i = 0; i < node->n; ++i)
    move_places(node->items[i], source, shift);
}

/* A list with a number that overflows is no TOML and would be taken for a text. */
static tn_status check_numbers(const pn_source *source, const char *value, size_t column) {
  static const char digits[] = "0123456789";
  double number = 0;
  if (*value != '[' && *value != '{')
    return TN_OK;
  for (const char *at = value; *at;) {
    size_t n = 0;
    bool word = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
    if (word) { /* x2 is no number */
      while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_' ||
             (*at >= '0' && *at <= '9'))
        ++at;
      continue;
    }
    if (!strchr(digits, *at)) {
      ++at;
      continue;
    }
    n = strspn(at, "0123456789.");
    if (at[n] == 'e' || at[n] == 'E') {
      size_t sign = at[n + 1] == '+' || at[n + 1] == '-', more = strspn(at + n + 1 + sign, digits);
      n += more ? 1 + sign + more : 0;
      if (more && !pn_number_of_text(at, n, &number))
        return pn_fail_at(TN_EINPUT, (pn_place){source, 1, column + (size_t)(at - value)}, n,
                          "the number is too large");
    }
    at += n;
  }
  return TN_OK;
}

/* An empty value takes the key out. */
static void drop(pn_toml *parent, const pn_toml *child) {
  size_t kept = 0;
  for (size_t i = 0; i < parent->n; ++i)
    if (parent->items[i] != child)
      parent->items[kept++] = parent->items[i];
  parent->n = kept;
}

tn_status pn_toml_set(pn_arena *arena, pn_toml *root, const char *override) {
  pn_source *source = NULL;
  char *copy = NULL, *path = NULL;
  TN_TRY(PN_TAKE(arena, 1, &source));
  TN_TRY(pn_arena_text(arena, override, strlen(override), &copy));
  *source = (pn_source){"--set", copy, strlen(copy)};
  pn_place start = {source, 1, 1};
  const char *equals = strchr(override, '=');
  if (!equals || equals == override)
    return pn_fail_at(TN_EINPUT, start, strlen(override),
                      "an override is path=value, as in stage.1.steps=500");
  size_t path_length = (size_t)(equals - override);
  TN_TRY(pn_arena_text(arena, override, path_length, &path));

  pn_toml *node = root, *parent = NULL;
  size_t begin = 0, depth = 0;
  while (begin <= path_length) {
    size_t length = strcspn(path + begin, ".");
    pn_place place = {source, 1, begin + 1};
    if (length == 0 || ++depth > PN_TOML_MAX_DEPTH)
      return pn_fail_at(TN_EINPUT, place, 1, "the path `%s` has an empty or too deep part", path);
    char *key = NULL;
    TN_TRY(pn_arena_text(arena, path + begin, length, &key));
    parent = node;
    TN_TRY(descend(arena, node, key, depth == 1, place, &node));
    begin += length + 1;
  }

  const char *value = copy + path_length + 1;
  if (!*value && parent->kind == PN_TOML_TABLE) {
    drop(parent, node);
    return TN_OK;
  }
  pn_toml *read = NULL;
  TN_TRY(check_numbers(source, value, path_length + 2));
  pn_toml kept = *node;
  if (read_toml(arena, value, &read)) {
    move_places(read, source, path_length + 1 - strlen("k = "));
    *node = *read;
  } else {
    *node = (pn_toml){.kind = PN_TOML_STRING,
                      .string = value,
                      .length = strlen(value),
                      .place = {source, 1, path_length + 2}};
  }
  node->key = kept.key;
  node->key_place = start;
  return TN_OK;
}
