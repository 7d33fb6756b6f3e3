/* toml.h: TOML text as a C tree in file order with positions (toml.cpp), and --set overrides
 * (override.c). */
#ifndef PINN_TOML_H
#define PINN_TOML_H

#include "pinn/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pn_toml_kind {
  PN_TOML_TABLE,
  PN_TOML_ARRAY,
  PN_TOML_STRING,
  PN_TOML_INTEGER,
  PN_TOML_FLOAT,
  PN_TOML_BOOLEAN,
  PN_TOML_DATE /* dates and times; nothing in the format takes one */
} pn_toml_kind;

typedef struct pn_toml pn_toml;
struct pn_toml {
  pn_toml_kind kind;
  const char *key;    /* "" for elements of arrays and for the root */
  pn_place key_place; /* of the key; elements: as place */
  pn_place place;     /* of the value; tables made by a header: of the header */
  size_t n;           /* children, in file order */
  pn_toml **items;
  const char *string;
  size_t length; /* bytes of string */
  int64_t integer;
  double number; /* also set for integers */
  bool boolean;
  bool quoted; /* a string that stands in quotes (not a bare --set value) */
};

#define PN_TOML_MAX_DEPTH 64 /* tables and arrays inside each other */

/* Parses source->text; the tree and its strings live in the arena, places point to `source`, which
 * must live as long. Syntax errors and repeated keys are TN_EINPUT with the place. */
tn_status pn_toml_parse(pn_arena *arena, const pn_source *source, pn_toml **out) TN_MUST_USE;

/* The child with this key, or NULL. */
pn_toml *pn_toml_find(const pn_toml *table, const char *key);

/* "a table", "an array", "a string", ...: for error texts. */
const char *pn_toml_kind_text(pn_toml_kind kind);

/* Applies one override "path=value". Keys that do not exist are made; elements of arrays are
 * counted from 1, and one past the end appends. The value is TOML; what does not parse as TOML is a
 * string. */
tn_status pn_toml_set(pn_arena *arena, pn_toml *root, const char *override) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
