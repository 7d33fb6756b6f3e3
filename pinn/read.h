/* read.h: values of checked TOML nodes (read.c), and the parts of a problem built from them. */
#ifndef PINN_READ_H
#define PINN_READ_H

#include "pinn/names.h"
#include "pinn/toml.h"

/* A string node as an expression text. */
tn_status pn_phrase_of(pn_problem *problem, const pn_toml *node, const pn_phrase **out) TN_MUST_USE;
/* A number or a string as an unresolved tree. */
tn_status pn_read_tree(pn_problem *problem, const pn_toml *node, pn_expr **out) TN_MUST_USE;
/* A finite number, or an expression of constants. NULL and the string `word` give the fallback. */
tn_status pn_read_number(pn_problem *problem, const pn_toml *node, const char *word,
                         double fallback, double *out) TN_MUST_USE;
tn_status pn_read_count(pn_problem *problem, const pn_toml *node, const char *word, size_t fallback,
                        size_t *out) TN_MUST_USE;
const char *pn_read_text(const pn_toml *node, const char *fallback);
/* A predicate string, resolved by what `scope` allows. */
tn_status pn_read_predicate(pn_naming *scope, const pn_toml *node, pn_expr **out) TN_MUST_USE;
/* Refuses a number that is not positive; NaN (auto) and no node pass. */
tn_status pn_read_is_positive(const pn_toml *node, double value) TN_MUST_USE;
bool pn_read_flag(const pn_toml *node, bool fallback);

/* "x, t": names with commas between. */
typedef struct pn_word {
  const char *text;
  pn_place place;
} pn_word;
tn_status pn_read_words(pn_problem *problem, const pn_toml *node, size_t *n,
                        pn_word **out) TN_MUST_USE;
/* The same, each a coordinate and none twice; `what` names the entry in errors. */
tn_status pn_read_coordinates(pn_problem *problem, const pn_toml *node, const char *what, size_t *n,
                              size_t of[PN_MAX_COORDINATES]) TN_MUST_USE;

/* moving.c: a range with an end that is an unknown (else nothing); what ends may depend on; about where they
 * are, once conditions and exact solutions are read. */
tn_status pn_moving_read(pn_problem *problem, size_t coordinate, const pn_toml *range) TN_MUST_USE;
tn_status pn_moving_check(const pn_problem *problem) TN_MUST_USE;
void pn_moving_ranges(pn_problem *problem);

/* argument.c: `of` of unknown `index`: coordinates, and unknowns that depend on coordinates. */
tn_status pn_read_arguments(pn_problem *problem, const pn_toml *unknowns, size_t index) TN_MUST_USE;

/* counted.c: x = { count = n }: declares x1, ..., xn by `declare`. */
tn_status pn_declare_counted(pn_problem *problem, const pn_toml *entry, const pn_toml *count,
                             tn_status (*declare)(pn_problem *, const pn_toml *,
                                                  const char *)) TN_MUST_USE;

/* Refuses a table of more than `most` entries; `what` names them. */
enum { PN_MOST_ENTRIES = 1000 };
tn_status pn_read_limit(const pn_toml *table, size_t most, const char *what) TN_MUST_USE;

/* read_parameters.c: [parameters] */
tn_status pn_declare_parameters(pn_problem *problem, const pn_toml *table) TN_MUST_USE;
tn_status pn_read_parameters(pn_problem *problem, const pn_toml *table) TN_MUST_USE;
/* A value of [exact] that is one of a parameter; expr is resolved. */
tn_status pn_read_exact_parameter(pn_problem *problem, const pn_toml *entry,
                                  size_t index) TN_MUST_USE;

/* read_network.c: [network], and the table of an unknown, which changes what `network` holds. pn_read_inputs resolves
 * the expressions of all networks; definitions must be. */
pn_network pn_network_default(void);
tn_status pn_read_network(pn_problem *problem, const pn_toml *table,
                          pn_network *network) TN_MUST_USE;
tn_status pn_read_inputs(pn_problem *problem) TN_MUST_USE;

/* read_units.c: [units]; all names must be declared. */
tn_status pn_read_units(pn_problem *problem, const pn_toml *table) TN_MUST_USE;

/* settings.c: [points] [weights] [[stage]] [precision] [output] [run] [accept] [exact] */
tn_status pn_read_settings(pn_problem *problem, const pn_toml *root) TN_MUST_USE;
tn_status pn_read_exact(pn_problem *problem, const pn_toml *root) TN_MUST_USE;

/* terms.c: [equations] [conditions] */
tn_status pn_read_terms(pn_problem *problem, const pn_toml *root) TN_MUST_USE;

#endif
