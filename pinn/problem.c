/* problem.c: from a file to a checked problem.
 *
 * The order matters and is this: keys and types; all names, so that every later error can say what
 * a name is; constants; ranges; what the unknowns depend on; definitions, each when first needed;
 * then ansatz, exact solutions, equations and conditions; settings last. Whatever fails leaves no
 * problem behind: everything lives in one arena.
 */
#include "pinn/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/external.h"
#include "pinn/files.h"
#include "pinn/keys.h"
#include "pinn/read.h"
#include "pinn/region.h"
#include "pinn/warm.h"
#include "pinn/windows.h"

enum { MOST_UNKNOWNS = 64, LARGEST_FILE = 16 << 20, WARNING = 512 };

tn_status pn_warn(pn_problem *problem, pn_place place, size_t width, const char *format, ...) {
  char message[WARNING], *text = NULL, **list = NULL;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  TN_TRY(pn_place_text(problem->arena, place, width, message, &text));
  for (size_t i = 0; i < problem->n_warnings; ++i)
    if (strcmp(problem->warnings[i], text) == 0)
      return TN_OK;
  TN_TRY(PN_TAKE(problem->arena, problem->n_warnings + 1, &list));
  if (problem->n_warnings)
    memcpy(list, problem->warnings, problem->n_warnings * sizeof *list);
  list[problem->n_warnings++] = text;
  problem->warnings = list;
  return TN_OK;
}

/* ---- Declarations --------------------------------------------------------------------------- */

static tn_status declare_coordinate(pn_problem *p, const pn_toml *entry, const char *name) {
  if (p->n_coordinates == PN_MAX_COORDINATES)
    return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key), "at most %d coordinates",
                      PN_MAX_COORDINATES);
  const char *role =
      pn_read_text(pn_toml_find(entry, "role"), strcmp(entry->key, "t") == 0 ? "time" : "space");
  const char *spacing = pn_read_text(pn_toml_find(entry, "spacing"), "linear");
  pn_coordinate *c = &p->coordinates[p->n_coordinates];
  *c = (pn_coordinate){.name = name,
                       .unknown = PN_NONE,
                       .lo_unknown = PN_NONE,
                       .hi_unknown = PN_NONE,
                       .key = entry->key,
                       .place = entry->key_place,
                       .role = strcmp(role, "time") == 0        ? PN_TIME
                               : strcmp(role, "parameter") == 0 ? PN_PARAMETER
                                                                : PN_SPACE,
                       .log_spacing = strcmp(spacing, "log") == 0,
                       .periodic = pn_read_flag(pn_toml_find(entry, "periodic"), false)};
  p->coordinate_names[p->n_coordinates++] = name;
  return TN_OK;
}

static pn_metric metric_of(const char *name) {
  static const char *const names[] = {"cartesian", "polar", "axisymmetric", "spherical"};
  for (int m = PN_CARTESIAN; m <= PN_SPHERICAL; ++m)
    if (strcmp(name, names[m]) == 0)
      return (pn_metric)m;
  return PN_CARTESIAN;
}

static tn_status declare_coordinates(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(PN_TAKE(p->arena, PN_MAX_COORDINATES, &p->coordinates));
  TN_TRY(PN_TAKE(p->arena, PN_MAX_COORDINATES, &p->coordinate_names));
  TN_TRY(PN_TAKE(p->arena, count, &p->counted));
  for (size_t i = 0; i < count; ++i) {
    const pn_toml *entry = table->items[i], *times = pn_toml_find(entry, "count");
    if (pn_key_find("domain_own", entry->key))
      continue;
    if (times)
      TN_TRY(pn_declare_counted(p, entry, times, declare_coordinate));
    else
      TN_TRY(declare_coordinate(p, entry, entry->key));
  }
  p->metric = metric_of(pn_read_text(pn_toml_find(table, "metric"), "cartesian"));
  if (p->n_coordinates == 0)
    return TN_FAIL(TN_EINPUT, "%s: there are no coordinates: [domain] is missing or empty",
                   p->source.file);
  return TN_OK;
}

static tn_status declare_constants(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MOST_ENTRIES, "constants"));
  TN_TRY(PN_TAKE(p->arena, count, &p->constants));
  for (size_t i = 0; i < count; ++i) {
    const pn_toml *entry = table->items[i], *value = pn_toml_find(entry, "value");
    if (!value)
      return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                        "constant `%s` has no value", entry->key);
    p->constants[i] = (pn_constant){.name = entry->key, .place = entry->key_place};
    if (value->kind == PN_TOML_STRING) {
      TN_TRY(pn_read_tree(p, value, &p->constants[i].expr));
    } else if (isfinite(value->number)) {
      p->constants[i].value = value->number;
    } else {
      return pn_fail_at(TN_EINPUT, value->place, 1, "constant `%s` is %g", entry->key,
                        value->number);
    }
  }
  p->n_constants = count;
  return TN_OK;
}

static tn_status declare_unknowns(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, MOST_UNKNOWNS, "unknowns"));
  if (count == 0)
    return TN_FAIL(TN_EINPUT, "%s: there are no unknowns: [unknowns] is missing or empty",
                   p->source.file);
  TN_TRY(PN_TAKE(p->arena, 2 * count, &p->unknowns));
  for (size_t i = 0; i < count; ++i) {
    pn_unknown u = {.name = table->items[i]->key,
                    .place = table->items[i]->key_place,
                    .entry = i,
                    .scale = NAN,
                    .accept = NAN,
                    .parity_coordinate = PN_NONE};
    if (pn_read_flag(pn_toml_find(table->items[i], "complex"), false))
      TN_TRY(pn_declare_complex(p, &u, &p->n_unknowns));
    else
      p->unknowns[p->n_unknowns++] = u;
  }
  if (p->n_unknowns <= MOST_UNKNOWNS)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "%s: at most %d unknowns; a complex one counts twice", p->source.file,
                 MOST_UNKNOWNS);
}

static tn_status declare_definitions(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MOST_ENTRIES, "definitions"));
  TN_TRY(PN_TAKE(p->arena, count, &p->definitions));
  for (size_t i = 0; i < count; ++i) {
    const pn_toml *entry = table->items[i], *value = pn_toml_find(entry, "value");
    pn_definition *d = &p->definitions[i];
    pn_word *words = NULL;
    *d = (pn_definition){.name = entry->key,
                         .place = entry->key_place,
                         .library = pn_read_text(pn_toml_find(entry, "library"), NULL)};
    if (!value == !d->library)
      return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                        value ? "definition `%s` has both a value and a library: one of them"
                              : "definition `%s` has no value",
                        entry->key);
    if (value)
      TN_TRY(pn_read_tree(p, value, &d->value));
    TN_TRY(pn_read_words(p, pn_toml_find(entry, "of"), &d->n_of, &words));
    TN_TRY(PN_TAKE(p->arena, d->n_of, &d->of));
    for (size_t k = 0; k < d->n_of; ++k)
      d->of[k] = words[k].text;
    if (d->library)
      TN_TRY(pn_external_open(p, d));
  }
  p->n_definitions = count;
  return TN_OK;
}

static tn_status declare_tables(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MOST_ENTRIES, "tables"));
  TN_TRY(PN_TAKE(p->arena, count, &p->tables));
  for (size_t i = 0; i < count; ++i) {
    const pn_toml *entry = table->items[i];
    pn_table_entry *t = &p->tables[i];
    *t = (pn_table_entry){.name = entry->key,
                          .place = entry->key_place,
                          .file = pn_read_text(pn_toml_find(entry, "file"), NULL),
                          .column = pn_read_text(pn_toml_find(entry, "column"), entry->key),
                          .method = pn_read_text(pn_toml_find(entry, "method"), "cubic")};
    if (!t->file || !pn_toml_find(entry, "of"))
      return pn_fail_at(TN_EINPUT, entry->key_place, strlen(entry->key),
                        "table `%s` needs file = \"...\" and of = \"...\"", entry->key);
  }
  p->n_tables = count;
  return TN_OK;
}

static tn_status declare(pn_problem *p, const pn_toml *root) {
  TN_TRY(declare_coordinates(p, pn_toml_find(root, "domain")));
  TN_TRY(declare_constants(p, pn_toml_find(root, "constants")));
  TN_TRY(declare_unknowns(p, pn_toml_find(root, "unknowns")));
  TN_TRY(declare_definitions(p, pn_toml_find(root, "definitions")));
  TN_TRY(declare_tables(p, pn_toml_find(root, "tables")));
  TN_TRY(pn_declare_parameters(p, pn_toml_find(root, "parameters")));
  TN_TRY(pn_declare_shapes(p, pn_toml_find(root, "shapes")));
  return pn_check_names(p);
}

/* ---- Values of what was declared ------------------------------------------------------------ */

static tn_status read_ranges(pn_problem *p, const pn_toml *table) {
  size_t times = 0;
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    pn_coordinate *c = &p->coordinates[i];
    const pn_toml *range = pn_toml_find(pn_toml_find(table, c->key), "range");
    if (!range)
      return pn_fail_at(TN_EINPUT, c->place, strlen(c->name),
                        "coordinate `%s` has no range = [a, b]", c->name);
    double lo = 0, hi = 0;
    TN_TRY(pn_moving_read(p, i, range));
    if (pn_moves(c))
      continue;
    lo = c->end[0];
    hi = c->end[1];
    if (lo < hi && !isfinite(hi - lo))
      return pn_fail_at(TN_EINPUT, range->place, 1, "%s = [%g, %g] is too wide for a number",
                        c->name, lo, hi);
    if (!(lo < hi))
      return pn_fail_at(TN_EINPUT, range->place, 1,
                        "%s = [%g, %g]: the first number must be below the second", c->name, lo,
                        hi);
    if (c->log_spacing && !(lo > 0))
      return pn_fail_at(TN_EINPUT, range->place, 1,
                        "%s = [%g, %g] with spacing = \"log\": the range must lie above 0", c->name, lo,
                        hi);
    if (c->log_spacing && c->periodic)
      return pn_fail_at(TN_EINPUT, range->place, 1,
                        "`%s` is periodic and has spacing = \"log\": one of them", c->name);
    c->lo = lo;
    c->hi = hi;
    times += c->role == PN_TIME;
    if (c->role == PN_TIME && times > 1)
      return pn_fail_at(TN_EINPUT, c->place, strlen(c->name), "`%s` is a second time coordinate",
                        c->name);
  }
  return TN_OK;
}

/* A metric has its number of space coordinates; the first is a radius. */
static tn_status check_metric(const pn_problem *p, const pn_toml *domain) {
  size_t space[PN_MAX_COORDINATES], n = pn_space_axes(p, space);
  size_t most = p->metric == PN_SPHERICAL ? 3 : 2;
  const pn_toml *node = pn_toml_find(domain, "metric");
  if (p->metric == PN_CARTESIAN)
    return TN_OK;
  if (n == 0 || n > most)
    return pn_fail_at(TN_EINPUT, node->place, strlen(node->string) + 2,
                      "metric = \"%s\" with %zu space coordinates; expected %s", node->string, n,
                      p->metric == PN_POLAR          ? "r, theta (or r)"
                      : p->metric == PN_AXISYMMETRIC ? "r, z (or r)"
                                                     : "r, theta, phi (or r, theta, or r)");
  const pn_coordinate *r = &p->coordinates[space[0]];
  if (r->lo < 0)
    return pn_fail_at(TN_EINPUT, r->place, strlen(r->name),
                      "`%s` is the radius of metric = \"%s\", but its range begins at %g", r->name,
                      node->string, r->lo);
  const pn_coordinate *theta = p->metric == PN_SPHERICAL && n > 1 ? &p->coordinates[space[1]] : NULL;
  if (theta && !(theta->lo >= 0 && theta->hi <= 3.1415926535897936))
    return pn_fail_at(TN_EINPUT, theta->place, strlen(theta->name),
                      "`%s` is the angle from the axis, from 0 to pi, but its range is [%g, %g]",
                      theta->name, theta->lo, theta->hi);
  return TN_OK;
}

static tn_status read_parity(pn_problem *p, const pn_toml *entry, pn_unknown *u) {
  const pn_toml *even = pn_toml_find(entry, "even"), *odd = pn_toml_find(entry, "odd");
  const pn_toml *node = even ? even : odd;
  if (!node || strcmp(node->string, "none") == 0)
    return TN_OK;
  if (even && odd)
    return pn_fail_at(TN_EINPUT, odd->key_place, 3, "`%s` is both even and odd: one of them",
                      u->name);
  size_t n = 0, of[PN_MAX_COORDINATES];
  TN_TRY(pn_read_coordinates(p, node, u->name, &n, of));
  if (pn_takes_unknowns(p, u))
    return pn_fail_at(TN_EINPUT, node->place, strlen(node->string) + 2,
                      "`%s` depends on an unknown: this version of pinn has no symmetry of such", u->name);
  if (n != 1 || !pn_unknown_has(u, of[0]))
    return pn_fail_at(TN_EINPUT, node->place, strlen(node->string) + 2,
                      "`%s` names one coordinate that `%s` depends on", node->key, u->name);
  u->parity = even ? 1 : -1;
  u->parity_coordinate = of[0];
  return TN_OK;
}

static tn_status read_unknowns(pn_problem *p, const pn_toml *root) {
  const pn_toml *table = pn_toml_find(root, "unknowns");
  p->network = pn_network_default();
  TN_TRY(pn_read_network(p, pn_toml_find(root, "network"), &p->network));
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    pn_unknown *u = &p->unknowns[i];
    if (u->part == PN_IMAGINARY_PART) {
      pn_copy_pair(p, i - 1);
      continue;
    }
    const pn_toml *entry = table->items[u->entry];
    const pn_toml *network = pn_toml_find(entry, "network"), *scale = pn_toml_find(entry, "scale");
    TN_TRY(pn_read_arguments(p, table, i));
    if (u->n_of == 0)
      return pn_fail_at(TN_EINPUT, u->place, strlen(u->name),
                        "unknown `%s` depends on nothing: write of = \"%s\"", u->name,
                        p->coordinates[0].name);
    TN_TRY(read_parity(p, entry, u));
    TN_TRY(pn_read_part(p, pn_toml_find(entry, "in"), u));
    TN_TRY(pn_read_number(p, scale, "auto", NAN, &u->scale));
    if (u->scale <= 0)
      return pn_fail_at(TN_EINPUT, scale->place, 1, "the scale of `%s` is %g; it must be positive",
                        u->name, u->scale);
    if (!network)
      continue;
    TN_TRY(PN_TAKE(p->arena, 1, &u->network));
    *u->network = p->network;
    TN_TRY(pn_read_network(p, network, u->network));
    const pn_toml *shared = pn_toml_find(network, "shared");
    if (shared)
      return pn_fail_at(TN_EINPUT, shared->key_place, 6,
                        "`shared` is a key of [network]; `%s` has a network of its own already",
                        u->name);
  }
  return TN_OK;
}

static tn_status read_definitions(pn_problem *p) {
  for (size_t i = 0; i < p->n_definitions; ++i)
    TN_TRY(pn_resolve_definition(p, i));
  for (size_t i = 0; i < p->n_definitions; ++i) {
    pn_definition *d = &p->definitions[i];
    if (d->n_of == 0 && !d->has_normal && d->value->components == 1 && !d->value->is_complex)
      TN_TRY(pn_scalar(p, d->value, 0, NULL, &d->scalar));
  }
  return TN_OK;
}

static bool mentions_net(const pn_expr *e) {
  if (e->kind == PN_NET)
    return true;
  for (size_t i = 0; i < e->n; ++i)
    if (mentions_net(e->args[i]))
      return true;
  return false;
}

static tn_status read_ansatz(pn_problem *p, const pn_toml *table) {
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    pn_unknown *u = &p->unknowns[i];
    const pn_toml *node = pn_toml_find(table->items[u->entry], "ansatz");
    if (!node || u->part == PN_IMAGINARY_PART)
      continue;
    pn_expr *tree = NULL;
    TN_TRY(pn_read_tree(p, node, &tree));
    bool plain = tree->kind == PN_NAME && strcmp(tree->name, "net") == 0;
    pn_naming scope = {.problem = p,
                       .what = "an ansatz",
                       .coordinates = true,
                       .parameters = true,
                       .complex_net = u->pair != NULL,
                       .net = true,
                       .arguments_of = i + 1};
    TN_TRY(pn_resolve(&scope, tree));
    if (tree->components != 1)
      return pn_expr_fail(TN_EINPUT, tree, "an ansatz is a scalar");
    if (!mentions_net(tree))
      return pn_expr_fail(TN_EINPUT, tree,
                          "the ansatz of `%s` does not mention net: nothing could be "
                          "trained",
                          u->name);
    if (u->pair && !plain) {
      TN_TRY(pn_scalar(p, tree, 0, NULL, &u[0].ansatz));
      TN_TRY(pn_scalar(p, tree, PN_IMAGINARY, NULL, &u[1].ansatz));
    } else if (!plain) {
      TN_TRY(pn_must_be_real(tree, "the ansatz of a real unknown"));
      u->ansatz = tree;
    }
  }
  return TN_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* --set stage.1.steps=50 in a file without stages changes the default plan, so it is written out.
 */
static tn_status write_plan(pn_problem *p, pn_toml *root) {
  static const char plan[] = "[[stage]]\noptimizer = \"adam\"\nsteps = 500\nrate = 1e-3\n"
                             "schedule = \"cosine\"\n[[stage]]\noptimizer = \"auto\"\n";
  pn_source *source = NULL;
  pn_toml *parsed = NULL, **items = NULL;
  TN_TRY(PN_TAKE(p->arena, 1, &source));
  *source = (pn_source){"default stages", plan, sizeof plan - 1};
  TN_TRY(pn_toml_parse(p->arena, source, &parsed));
  TN_TRY(PN_TAKE(p->arena, root->n + 1, &items));
  if (root->n)
    memcpy(items, root->items, root->n * sizeof *items);
  items[root->n++] = parsed->items[0];
  root->items = items;
  return TN_OK;
}

static tn_status apply_overrides(pn_problem *p, pn_toml *root, size_t n,
                                 const char *const *overrides) {
  TN_TRY(PN_TAKE(p->arena, n, &p->overrides));
  for (size_t i = 0; i < n; ++i) {
    char *copy = NULL;
    TN_TRY(pn_arena_text(p->arena, overrides[i], strlen(overrides[i]), &copy));
    p->overrides[p->n_overrides++] = copy;
    if (strncmp(copy, "stage.", 6) == 0 && !pn_toml_find(root, "stage"))
      TN_TRY(write_plan(p, root));
    TN_TRY(pn_toml_set(p->arena, root, copy));
  }
  return TN_OK;
}

static tn_status read_all(pn_problem *p, size_t n_overrides, const char *const *overrides) {
  pn_toml *root = NULL;
  TN_TRY(pn_toml_parse(p->arena, &p->source, &root));
  TN_TRY(apply_overrides(p, root, n_overrides, overrides));
  TN_TRY(pn_keys_check(p->arena, root));
  p->title = pn_read_text(pn_toml_find(root, "title"), p->source.file);
  TN_TRY(declare(p, root));
  for (size_t i = 0; i < p->n_constants; ++i)
    TN_TRY(pn_constant_value(p, i));
  TN_TRY(pn_read_parameters(p, pn_toml_find(root, "parameters")));
  TN_TRY(read_ranges(p, pn_toml_find(root, "domain")));
  TN_TRY(check_metric(p, pn_toml_find(root, "domain")));
  TN_TRY(pn_read_shapes(p, root));
  TN_TRY(read_unknowns(p, root));
  TN_TRY(pn_moving_check(p));
  const pn_toml *tables = pn_toml_find(root, "tables");
  for (size_t i = 0; i < p->n_tables; ++i)
    TN_TRY(pn_read_coordinates(p, pn_toml_find(tables->items[i], "of"), p->tables[i].name,
                               &p->tables[i].n_of, p->tables[i].of));
  TN_TRY(read_definitions(p));
  TN_TRY(pn_read_inputs(p));
  TN_TRY(read_ansatz(p, pn_toml_find(root, "unknowns")));
  TN_TRY(pn_read_terms(p, root));
  TN_TRY(pn_read_exact(p, root));
  pn_moving_ranges(p);
  TN_TRY(pn_read_units(p, pn_toml_find(root, "units")));
  TN_TRY(pn_read_settings(p, root));
  TN_TRY(pn_windows_read(p, pn_toml_find(root, "time")));
  return pn_windows_check(p);
}

static tn_status parse(const char *file_name, const char *text, size_t length, size_t n_overrides,
                       const char *const *overrides, pn_problem **out) {
  pn_arena *arena = NULL;
  pn_problem *p = NULL;
  char *name = NULL, *copy = NULL;
  *out = NULL;
  TN_TRY(pn_arena_new(&arena));
  tn_status status = PN_TAKE(arena, 1, &p);
  if (status == TN_OK)
    status = pn_arena_text(arena, file_name, strlen(file_name), &name);
  if (status == TN_OK)
    status = pn_arena_text(arena, text, length, &copy);
  if (status == TN_OK) {
    p->arena = arena;
    p->budget = PN_MOST_COPIES;
    p->source = (pn_source){name, copy, length};
    status = read_all(p, n_overrides, overrides);
  }
  if (status == TN_OK)
    *out = p;
  else
    pn_arena_free(&arena);
  return status;
}

tn_status pn_problem_parse(const char *file_name, const char *text, size_t n_overrides,
                           const char *const *overrides, pn_problem **out) {
  return parse(file_name, text, strlen(text), n_overrides, overrides, out);
}

tn_status pn_problem_load(const char *path, size_t n_overrides, const char *const *overrides,
                          pn_problem **out) {
  uint8_t *bytes = NULL;
  size_t length = 0;
  *out = NULL;
  TN_TRY(pn_read_file(path, LARGEST_FILE, &bytes, &length));
  tn_status status = parse(path, (const char *)bytes, length, n_overrides, overrides, out);
  tn_free(&bytes);
  if (status == TN_OK)
    status = pn_warm_prepare(*out);
  if (status != TN_OK)
    pn_problem_free(out);
  return status;
}

void pn_problem_free(pn_problem **problem) {
  if (!*problem)
    return;
  pn_arena *arena = (*problem)->arena; /* holds the problem itself */
  pn_arena_free(&arena);
  *problem = NULL;
}

tn_status pn_problem_expression(pn_problem *problem, const char *origin, const char *text,
                                pn_expr **out) {
  pn_source *source = NULL;
  pn_phrase *phrase = NULL;
  char *copy = NULL, *name = NULL;
  TN_TRY(pn_arena_text(problem->arena, text, strlen(text), &copy));
  TN_TRY(pn_arena_text(problem->arena, origin, strlen(origin), &name));
  TN_TRY(PN_TAKE(problem->arena, 1, &source));
  TN_TRY(PN_TAKE(problem->arena, 1, &phrase));
  *source = (pn_source){name, copy, strlen(copy)};
  *phrase = (pn_phrase){copy, {source, 1, 1}, false};
  TN_TRY(pn_parse_value(problem->arena, phrase, out));
  problem->budget = PN_MOST_COPIES;
  pn_naming scope = {.problem = problem,
                    .what = "this expression",
                    .coordinates = true,
                    .unknowns = true,
                    .parameters = true,
                    .mean = true};
  return pn_resolve(&scope, *out);
}
