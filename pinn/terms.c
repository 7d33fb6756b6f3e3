/* terms.c: equations and conditions: relations, where they hold, and how much they weigh.
 *
 * A relation between vectors becomes one for each component. Every side is written out once for
 * every piece it holds on, so that a normal derivative on an edge, or at t = 0, is an error of the
 * file and not of the run.
 */
#include "pinn/data.h"
#include "pinn/model.h"
#include "pinn/read.h"
#include "pinn/region.h"
#include "pinn/resolve.h"

#include <math.h>
#include <string.h>

enum { MOST_RELATIONS = 256, LONGEST_NAME = 63 };

static const size_t MOST_POINTS = (size_t)1 << 31; /* of a term: far beyond what can be trained */

/* A part of a complex relation that says 0 = 0. */
static tn_status is_empty(pn_problem *p, const pn_term *term, const pn_relation *r, bool *empty) {
  const pn_piece *piece = term->n_pieces ? &term->pieces[0] : NULL;
  pn_expr *side[2] = {NULL, NULL};
  TN_TRY(pn_scalar(p, r->lhs, r->component, piece, &side[0]));
  TN_TRY(pn_scalar(p, r->rhs, r->component, piece, &side[1]));
  *empty = side[0]->kind == PN_NUMBER && side[1]->kind == PN_NUMBER &&
           side[0]->number == side[1]->number;
  return TN_OK;
}

static tn_status add_relation(pn_problem *p, pn_naming *scope, const pn_toml *node, pn_term *term) {
  const pn_phrase *phrase = NULL;
  pn_expr *whole = NULL;
  TN_TRY(pn_phrase_of(p, node, &phrase));
  TN_TRY(pn_parse_relation(p->arena, phrase, &whole));
  TN_TRY(pn_resolve(scope, whole));
  if (pn_expr_unknowns(p, whole) == 0 && pn_expr_parameters(p, whole) == 0)
    return pn_expr_fail(TN_EINPUT, whole, "no unknown occurs in `%s`: nothing can be fitted to it",
                        term->name);
  if (term->n_relations + pn_parts_of(whole) > MOST_RELATIONS)
    return pn_expr_fail(TN_EINPUT, whole, "`%s` has more than %d relations", term->name,
                        MOST_RELATIONS);
  for (size_t k = 0; k < pn_parts_of(whole); ++k) {
    pn_relation r = {whole->kind, whole->args[0], whole->args[1], pn_part_of(whole, k), whole};
    bool empty = false;
    if (whole->is_complex)
      TN_TRY(is_empty(p, term, &r, &empty));
    if (!empty)
      term->relations[term->n_relations++] = r;
  }
  if (term->n_relations == 0)
    return pn_expr_fail(TN_EINPUT, whole, "both parts of this say 0 = 0");
  term->coordinates |= pn_moving_needs(p, pn_expr_depends(p, whole));
  return TN_OK;
}

static tn_status read_relations(pn_problem *p, const pn_toml *entry, pn_term *term) {
  const pn_toml *node = pn_toml_find(entry, "equation");
  if (!node)
    return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                      "`%s` has no equation: write equation = \"left = right\"", entry->key);
  pn_naming scope = {.problem = p,
                    .coordinates = true,
                    .unknowns = true,
                    .parameters = true,
                    .mean = true,
                    .what = term->is_condition ? "a condition without `on`" : "an equation",
                    .data = term->data,
                    .normal = term->where == PN_ON};
  TN_TRY(PN_TAKE(p->arena, MOST_RELATIONS, &term->relations));
  if (node->kind == PN_TOML_STRING)
    return add_relation(p, &scope, node, term);
  for (size_t i = 0; i < node->n; ++i)
    TN_TRY(add_relation(p, &scope, node->items[i], term));
  return TN_OK;
}

/* The predicate of a node, resolved. */
static tn_status read_predicate(pn_problem *p, const pn_toml *node, pn_expr **out) {
  pn_naming scope = {.problem = p, .what = "a region", .coordinates = true, .ends = true};
  return pn_read_predicate(&scope, node, out);
}

static tn_status read_volume(pn_problem *p, const pn_toml *in, pn_term *term) {
  pn_expr *predicate = NULL;
  if (in)
    TN_TRY(read_predicate(p, in, &predicate));
  TN_TRY(PN_TAKE(p->arena, 1, &term->pieces));
  TN_TRY(pn_pieces_in(p, predicate, &term->pieces[0]));
  term->n_pieces = 1;
  term->where = PN_IN;
  term->region = in ? in->string : NULL;
  return TN_OK;
}

static tn_status read_surface(pn_problem *p, const pn_toml *on, pn_term *term) {
  pn_expr *predicate = NULL;
  TN_TRY(read_predicate(p, on, &predicate));
  TN_TRY(pn_pieces_on(p, term->name, predicate, &term->n_pieces, &term->pieces));
  term->where = PN_ON;
  term->region = on->string;
  return TN_OK;
}

/* Points are drawn before the ends of such a coordinate are known. */
static tn_status check_filters(const pn_problem *p, const pn_term *term) {
  for (size_t k = 0; k < term->n_pieces; ++k)
    for (size_t c = 0; term->pieces[k].filter && c < p->n_coordinates; ++c)
      if (pn_moves(&p->coordinates[c]) && (pn_expr_depends(p, term->pieces[k].filter) >> c & 1u))
        return pn_expr_fail(TN_EINPUT, term->pieces[k].filter,
                            "a part along %s, whose ends move: this version of pinn has the whole range and "
                            "its ends only",
                            p->coordinates[c].name);
  return TN_OK;
}

/* The predicate of a key, NULL if there is none. */
static const pn_toml *given(const pn_toml *entry, const char *key) {
  const pn_toml *node = pn_toml_find(entry, key);
  return node && node->kind == PN_TOML_STRING && strcmp(node->string, "none") == 0 ? NULL : node;
}

/* At the rows of its data, which say where. */
static tn_status read_measured(pn_problem *p, const pn_toml *entry, const pn_toml *data,
                               pn_term *term) {
  static const char *const others[] = {"on", "in", "points", "hard"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    const pn_toml *node = pn_toml_find(entry, others[i]);
    bool none = node && ((node->kind == PN_TOML_STRING && strcmp(node->string, "none") == 0) ||
                         (node->kind == PN_TOML_BOOLEAN && !node->boolean));
    if (node && !none)
      return pn_fail_at(TN_EINPUT, node->key_place, strlen(node->key),
                        "`%s` has data, whose rows are its points, and `%s`: one of them",
                        term->name, others[i]);
  }
  term->where = PN_DATA;
  term->region = data->kind == PN_TOML_STRING ? data->string : "data";
  return pn_read_data(p, entry, term->name, &term->data);
}

static tn_status read_where(pn_problem *p, const pn_toml *entry, pn_term *term) {
  const pn_toml *on = given(entry, "on"), *in = given(entry, "in");
  if (!term->is_condition)
    return read_volume(p, in, term);
  const pn_toml *data = given(entry, "data");
  if (data)
    return read_measured(p, entry, data, term);
  if (on && in)
    return pn_fail_at(TN_EINPUT, in->key_place, strlen(in->key),
                      "`%s` has both on (a surface) and in (a volume): one of them", term->name);
  if (on)
    return read_surface(p, on, term);
  if (in)
    return read_volume(p, in, term);
  term->where = PN_INTEGRAL;
  return TN_OK;
}

static tn_status read_weight(pn_problem *p, const pn_toml *entry, pn_term *term) {
  const pn_toml *node = pn_toml_find(entry, "weight");
  term->weight_number = 1;
  term->weight_given = node != NULL;
  if (!node)
    return TN_OK;
  pn_expr *tree = NULL;
  TN_TRY(pn_read_tree(p, node, &tree));
  pn_naming scope = {.problem = p, .what = "a weight", .coordinates = true, .data = term->data};
  TN_TRY(pn_resolve(&scope, tree));
  if (tree->components != 1)
    return pn_expr_fail(TN_EINPUT, tree, "a weight is a scalar");
  TN_TRY(pn_must_be_real(tree, "a weight"));
  if (pn_expr_depends(p, tree) || (term->data && !pn_is_constant(tree))) {
    term->weight = tree;
    term->coordinates |= term->data ? pn_moving_needs(p, pn_expr_depends(p, tree)) : 0;
    return TN_OK;
  }
  TN_TRY(pn_evaluate(p, tree, NULL, &term->weight_number));
  if (term->weight_number < 0)
    return pn_fail_at(TN_EINPUT, node->place, 1,
                      "the weight of `%s` is %g; it must not be negative", term->name,
                      term->weight_number);
  return TN_OK;
}

/* The error of a check that passes. */
static tn_status read_accept(pn_problem *p, const pn_toml *entry, pn_term *term) {
  const pn_toml *node = pn_toml_find(entry, "accept");
  term->is_check = true;
  TN_TRY(pn_read_number(p, node, "none", NAN, &term->accept));
  if (isnan(term->accept) || term->accept > 0)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, node->place, 1, "`accept` of `%s` is %g; it must be above 0",
                    term->name, term->accept);
}

/* An integral condition must not vary along any coordinate. */
static tn_status check_integral(const pn_problem *p, const pn_term *term) {
  for (size_t i = 0; i < p->n_coordinates; ++i)
    if (term->where == PN_INTEGRAL && (term->coordinates >> i & 1u))
      return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                        "`%s` has neither on nor in, but varies with %s: say where it holds, as in "
                        "on = \"%s = %g\"",
                        term->name, p->coordinates[i].name, p->coordinates[i].name,
                        p->coordinates[i].lo);
  return TN_OK;
}

static tn_status write_sides(pn_problem *p, const pn_term *term) {
  size_t n = term->n_pieces ? term->n_pieces : 1;
  for (size_t i = 0; i < n; ++i)
    for (size_t r = 0; r < term->n_relations; ++r) {
      const pn_relation *relation = &term->relations[r];
      const pn_piece *piece = term->n_pieces ? &term->pieces[i] : NULL;
      pn_expr *side = NULL;
      TN_TRY(pn_scalar(p, relation->lhs, relation->component, piece, &side));
      TN_TRY(pn_scalar(p, relation->rhs, relation->component, piece, &side));
    }
  return TN_OK;
}

/* Writes every side out on every piece, only to see that it can be done; so into an arena of its own. */
static tn_status check_sides(pn_problem *p, const pn_term *term) {
  pn_arena *kept = p->arena, *scratch = NULL;
  TN_TRY(pn_arena_new(&scratch));
  p->arena = scratch;
  tn_status status = write_sides(p, term);
  p->arena = kept;
  pn_arena_free(&scratch);
  return status;
}

/* The name of a term becomes names in result.h5, columns of the progress, a word for `pinn eval`. */
static tn_status check_name(const pn_toml *entry) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  size_t n = strlen(entry->key);
  if (n == 0 || strspn(entry->key, plain) != n)
    return pn_fail_at(TN_EINPUT, entry->key_place, n,
                      "`%s` cannot be a name: letters, digits, `_` and `-`", entry->key);
  if (n > LONGEST_NAME)
    return pn_fail_at(TN_EINPUT, entry->key_place, n, "a name has at most %d letters",
                      LONGEST_NAME);
  return TN_OK;
}

static tn_status read_term(pn_problem *p, const pn_toml *entry, bool is_condition, pn_term *term) {
  TN_TRY(check_name(entry));
  *term = (pn_term){.name = entry->key, .is_condition = is_condition, .place = entry->key_place};
  TN_TRY(read_where(p, entry, term));
  TN_TRY(read_relations(p, entry, term));
  TN_TRY(pn_term_parts(p, term));
  TN_TRY(read_weight(p, entry, term));
  TN_TRY(pn_read_sigma(p, entry, term->data));
  if (term->data)
    TN_TRY(pn_check_data(p, term));
  TN_TRY(pn_read_count(p, pn_toml_find(entry, "points"), "auto", 0, &term->points));
  const pn_toml *points = pn_toml_find(entry, "points");
  if (term->points > MOST_POINTS)
    return pn_fail_at(TN_EINPUT, points->place, 1,
                      "`points` is %zu; expected \"auto\" or 1 to 2^31", term->points);
  if (points && !term->data && points->kind == PN_TOML_INTEGER && term->points == 0)
    return pn_fail_at(TN_EINPUT, points->place, 1, "condition or equation `%s` selects 0 points",
                      term->name);
  term->hard = pn_read_flag(pn_toml_find(entry, "hard"), false);
  term->wins = pn_read_flag(pn_toml_find(entry, "wins"), false);
  TN_TRY(check_filters(p, term));
  TN_TRY(check_integral(p, term));
  return check_sides(p, term);
}

static tn_status read_group(pn_problem *p, const pn_toml *table, bool are_conditions, size_t *n,
                            pn_term **out) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MOST_ENTRIES, are_conditions ? "conditions" : "equations"));
  TN_TRY(PN_TAKE(p->arena, count, out));
  for (size_t i = 0; i < count; ++i)
    TN_TRY(read_term(p, table->items[i], are_conditions, &(*out)[i]));
  *n = count;
  return TN_OK;
}

static tn_status read_checks(pn_problem *p, const pn_toml *table) {
  TN_TRY(read_group(p, table, true, &p->n_checks, &p->checks));
  for (size_t i = 0; i < p->n_checks; ++i)
    TN_TRY(read_accept(p, table->items[i], &p->checks[i]));
  return TN_OK;
}

/* The equation or condition of that name; NULL: none. */
static const pn_term *find_term(const pn_problem *p, const char *name) {
  for (size_t i = 0; i < p->n_equations; ++i)
    if (strcmp(p->equations[i].name, name) == 0)
      return &p->equations[i];
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (strcmp(p->conditions[i].name, name) == 0)
      return &p->conditions[i];
  return NULL;
}

/* Equations and conditions name loss terms, and a term is known by its name alone. */
static tn_status check_term_names(const pn_problem *p) {
  for (size_t i = 0; i < p->n_conditions; ++i)
    for (size_t k = 0; k < p->n_equations; ++k)
      if (strcmp(p->conditions[i].name, p->equations[k].name) == 0)
        return pn_fail_at(TN_EINPUT, p->conditions[i].place, strlen(p->conditions[i].name),
                          "`%s` is an equation (line %zu) and a condition", p->conditions[i].name,
                          p->equations[k].place.line);
  for (size_t i = 0; i < p->n_checks; ++i) {
    const pn_term *check = &p->checks[i];
    const pn_term *other = find_term(p, check->name);
    if (other)
      return pn_fail_at(TN_EINPUT, check->place, strlen(check->name),
                        "`%s` is %s (line %zu) and a check", check->name,
                        other->is_condition ? "a condition" : "an equation", other->place.line);
  }
  return TN_OK;
}

static uint64_t unknowns_of(const pn_problem *p, const pn_term *terms, size_t n) {
  uint64_t bits = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t r = 0; r < terms[i].n_relations; ++r)
      bits |= pn_expr_unknowns(p, terms[i].relations[r].whole);
  return bits;
}

static tn_status warn_unused(pn_problem *p) {
  uint64_t used = unknowns_of(p, p->equations, p->n_equations);
  for (size_t i = 0; i < p->n_unknowns; ++i)
    if (!(used >> i & 1u))
      TN_TRY(pn_warn(p, p->unknowns[i].place, strlen(p->unknowns[i].name),
                     "no equation mentions the unknown `%s`", p->unknowns[i].name));
  return TN_OK;
}

/* Derivatives of derivatives add up: (k*u_xxx)_xx is of order 5, also through an ansatz. */
static tn_status check_orders(const pn_problem *p) {
  int order[sizeof(uint64_t) * 8];
  const pn_term *term[sizeof(uint64_t) * 8];
  TN_TRY(pn_problem_orders(p, order, term));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (order[u] > PN_MOST_ORDER)
      return pn_expr_fail(TN_EINPUT, term[u]->relations[0].whole,
                          "`%s` asks for a derivative of `%s` of order %d; the highest is %d",
                          term[u]->name, p->unknowns[u].name, order[u], PN_MOST_ORDER);
  return TN_OK;
}

tn_status pn_read_terms(pn_problem *problem, const pn_toml *root) {
  const pn_toml *equations = pn_toml_find(root, "equations");
  const pn_toml *conditions = pn_toml_find(root, "conditions");
  if (!equations || equations->n == 0)
    return TN_FAIL(TN_EINPUT, "%s: there are no equations: [equations] is missing or empty",
                   problem->source.file);
  TN_TRY(read_group(problem, equations, false, &problem->n_equations, &problem->equations));
  TN_TRY(read_group(problem, conditions, true, &problem->n_conditions, &problem->conditions));
  TN_TRY(read_checks(problem, pn_toml_find(root, "checks")));
  TN_TRY(check_term_names(problem));
  TN_TRY(check_orders(problem));
  return warn_unused(problem);
}
