/* argument.c: unknowns that depend on unknowns: b = "u" is a function of the value of u.
 *
 * The network of b has an argument u beside coordinates. Such an argument is an entry of the coordinates
 * behind those of the domain: it has a name, for b_u and b(u = 0.5), and an index that frames and axes use, but
 * no points of its own. Where nothing gives it a value, it has that of the unknown at the place: b is then a
 * function of the coordinates of u, which are b's `of`. Its range is what u covers, 2 of u's scale to both
 * sides for the network's input.
 */
#include "pinn/names.h"
#include "pinn/read.h"

#include <string.h>

static const double widths = 2; /* scales of the unknown from the middle to the ends of the input */

size_t pn_argument_find(const pn_problem *problem, size_t unknown, const char *name) {
  const pn_unknown *u = &problem->unknowns[unknown];
  for (size_t i = 0; i < u->n_arguments; ++i)
    if (u->argument[i] >= problem->n_coordinates &&
        strcmp(problem->coordinates[u->argument[i]].name, name) == 0)
      return u->argument[i];
  return PN_NONE;
}

bool pn_takes_unknowns(const pn_problem *problem, const pn_unknown *unknown) {
  for (size_t i = 0; i < unknown->n_arguments; ++i)
    if (unknown->argument[i] >= problem->n_coordinates)
      return true;
  return false;
}

uint32_t pn_unknown_depends(const pn_problem *problem, size_t unknown, uint32_t fixed) {
  const pn_unknown *u = &problem->unknowns[unknown];
  uint32_t bits = 0;
  for (size_t i = 0; i < u->n_arguments; ++i) {
    size_t a = u->argument[i], v = problem->coordinates[a].unknown;
    if (fixed >> a & 1u)
      continue;
    bits |= v == PN_NONE ? UINT32_C(1) << a : pn_unknown_depends(problem, v, fixed);
  }
  return bits;
}

uint64_t pn_unknown_bits(const pn_problem *problem, size_t unknown) {
  const pn_unknown *u = &problem->unknowns[unknown];
  uint64_t bits = unknown < 64 ? UINT64_C(1) << unknown : 0;
  for (size_t i = 0; i < u->n_arguments; ++i) {
    size_t v = problem->coordinates[u->argument[i]].unknown;
    if (v != PN_NONE && v < 64)
      bits |= UINT64_C(1) << v;
  }
  return bits;
}

/* The entry for unknown v as an argument, made if there is none. */
static tn_status entry_of(pn_problem *p, size_t v, pn_place place, size_t *out) {
  size_t all = p->n_coordinates + p->n_arguments;
  for (size_t i = p->n_coordinates; i < all; ++i)
    if (p->coordinates[i].unknown == v) {
      *out = i;
      return TN_OK;
    }
  if (all == PN_MAX_COORDINATES)
    return pn_fail_at(TN_EINPUT, place, 1, "at most %d coordinates, with the unknowns that unknowns depend on",
                      PN_MAX_COORDINATES);
  p->coordinates[all] = (pn_coordinate){.name = p->unknowns[v].name,
                                        .key = p->unknowns[v].name,
                                        .role = PN_PARAMETER,
                                        .lo = -widths,
                                        .hi = widths,
                                        .unknown = v,
                                        .lo_unknown = PN_NONE,
                                        .hi_unknown = PN_NONE,
                                        .place = place};
  p->coordinate_names[all] = p->unknowns[v].name;
  ++p->n_arguments;
  *out = all;
  return TN_OK;
}

/* The coordinates of an unknown that another depends on. */
static tn_status coordinates_of(pn_problem *p, const pn_toml *unknowns, const pn_word *word, size_t v,
                                const char *name, size_t *n, size_t of[PN_MAX_COORDINATES]) {
  pn_word *words = NULL;
  size_t n_words = 0, index = 0;
  const pn_toml *node = pn_toml_find(unknowns->items[p->unknowns[v].entry], "of");
  TN_TRY(pn_read_words(p, node, &n_words, &words));
  for (size_t i = 0; i < n_words; ++i)
    if (pn_lookup(p, words[i].text, &index) == PN_IS_UNKNOWN)
      return pn_fail_at(TN_EINPUT, word->place, strlen(word->text),
                        "`%s` depends on `%s`, which depends on the unknown `%s`: one step at most", name,
                        word->text, words[i].text);
  return pn_read_coordinates(p, node, word->text, n, of);
}

static void add_once(size_t index, size_t *n, size_t of[PN_MAX_COORDINATES]) {
  for (size_t i = 0; i < *n; ++i)
    if (of[i] == index)
      return;
  of[(*n)++] = index;
}

tn_status pn_read_arguments(pn_problem *p, const pn_toml *unknowns, size_t u) {
  pn_unknown *unknown = &p->unknowns[u];
  const pn_toml *node = pn_toml_find(unknowns->items[p->unknowns[u].entry], "of");
  pn_word *words = NULL;
  size_t n_words = 0, index = 0, n = 0, of[PN_MAX_COORDINATES];
  bool plain = true;
  TN_TRY(pn_read_words(p, node, &n_words, &words));
  for (size_t i = 0; i < n_words; ++i)
    plain = plain && pn_lookup(p, words[i].text, &index) != PN_IS_UNKNOWN;
  if (plain) {
    TN_TRY(pn_read_coordinates(p, node, unknown->name, &unknown->n_of, unknown->of));
    unknown->n_arguments = unknown->n_of;
    memcpy(unknown->argument, unknown->of, sizeof unknown->of);
    return TN_OK;
  }
  for (size_t i = 0; i < n_words; ++i) {
    pn_sort sort = pn_lookup(p, words[i].text, &index);
    size_t width = strlen(words[i].text), v = index;
    if (sort == PN_IS_UNKNOWN && index == u)
      return pn_fail_at(TN_EINPUT, words[i].place, width, "`%s` depends on itself", unknown->name);
    if (sort == PN_IS_UNKNOWN && p->unknowns[v].pair)
      return pn_fail_at(TN_EINPUT, words[i].place, width,
                        "`%s` depends on `%s`, which is complex; an argument is real",
                        unknown->pair ? unknown->pair : unknown->name, words[i].text);
    if (sort == PN_IS_UNKNOWN) {
      TN_TRY(coordinates_of(p, unknowns, &words[i], v, unknown->name, &n, of));
      for (size_t k = 0; k < n; ++k)
        add_once(of[k], &unknown->n_of, unknown->of);
      TN_TRY(entry_of(p, v, words[i].place, &index));
    } else if (sort != PN_IS_COORDINATE) {
      return pn_fail_at(TN_EINPUT, words[i].place, width,
                        "`%s` depends on `%s`, which is no coordinate and no unknown", unknown->name,
                        words[i].text);
    } else {
      add_once(index, &unknown->n_of, unknown->of);
    }
    size_t before = unknown->n_arguments;
    add_once(index, &unknown->n_arguments, unknown->argument);
    if (before == unknown->n_arguments)
      return pn_fail_at(TN_EINPUT, words[i].place, width, "`%s` is named twice", words[i].text);
  }
  return TN_OK;
}
