/* keys.h: the key table (keys.def) as data, and the check of a TOML tree against it (keys.c). */
#ifndef PINN_KEYS_H
#define PINN_KEYS_H

#include "pinn/toml.h"

typedef enum pn_key_type {
  PN_TEXT,       /* string */
  PN_COUNT,      /* whole number >= 0, or an expression of constants that gives one */
  PN_COUNTS,     /* a COUNT or an array of them */
  PN_REALS,      /* a REAL or an array of them */
  PN_REAL,       /* number, or an expression of constants */
  PN_BOOLEAN,    /* true or false */
  PN_CHOICE,     /* one of the words in choices */
  PN_EXPRESSION, /* number or string */
  PN_VALUES,     /* string or array of strings */
  PN_RELATIONS,  /* string or array of strings */
  PN_PREDICATE,  /* string */
  PN_NAMES,      /* string "x, t" */
  PN_RANGE,      /* array of two numbers or expressions */
  PN_VECTOR,     /* array of numbers or expressions */
  PN_VECTORS,    /* array of such arrays */
  PN_FACTORS,    /* a REAL or a VECTOR */
  PN_ERRORS,     /* number, or table unknown = number */
  PN_NETWORK,    /* table with the keys of [network] */
  PN_ANY
} pn_key_type;

typedef enum pn_form { PN_FIXED, PN_NAMED, PN_LIST } pn_form;

typedef struct pn_key {
  const char *table, *name; /* table "domain_own": beside the entries of [domain] */
  pn_key_type type;
  const char *fallback; /* NULL: required */
  bool available, bare;
  const char *choices, *meaning;
} pn_key;

typedef struct pn_key_table {
  const char *name;
  pn_form form;
  bool available;
  const char *meaning;
} pn_key_table;

extern const pn_key pn_key_list[];
extern const size_t pn_key_count;
extern const pn_key_table pn_key_tables[];
extern const size_t pn_key_table_count;

const pn_key *pn_key_find(const char *table, const char *name);
const pn_key_table *pn_key_table_find(const char *name);
const char *pn_key_type_text(pn_key_type type); /* "a whole number", ... */

/* Checks every key and type of a file; afterwards each entry of a NAMED table is a table (bare
 * values have become the key they are short for). Errors: unknown key with the nearest one, a key
 * of another table, a wrong type, a word that is no choice, and (TN_EUNSUPPORTED) what this version
 * lacks. */
tn_status pn_keys_check(pn_arena *arena, pn_toml *root) TN_MUST_USE;

/* Fewest insertions, deletions, changes and swaps of neighbours that turn a into b; only the first
 * 64 bytes of each count. */
size_t pn_edit_distance(const char *a, const char *b);
/* The name nearest to `word` if it is near enough to be a slip (a third of the letters, at least
 * 1), else NULL. */
const char *pn_nearest(const char *word, size_t n, const char *const *names);

#endif
