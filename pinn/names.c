/* names.c: the one namespace of a problem file, and names that are derivatives.
 *
 * A declared name is itself. Another name must read as FIELD "_" COORDINATES in exactly one way:
 * u_xx, u_r_theta, sxx_x. All readings are enumerated, because a reading that merely comes first
 * would be a guess: with coordinates x and xx, u_xx is refused and both are listed. A declaration
 * that also reads as a derivative (s_x beside s) is refused as well, so declared names never hide
 * one.
 *
 * Errors name the thing that is wrong, the nearest thing that exists, and what is known.
 */
#include "pinn/names.h"

#include <string.h>

#include "pinn/keys.h"

enum { LIST = 1024, WORD = 128, MOST_NAMES = 512 };

const char *pn_sort_text(pn_sort sort) {
  switch (sort) {
  case PN_IS_COORDINATE:
    return "a coordinate";
  case PN_IS_CONSTANT:
    return "a constant";
  case PN_IS_UNKNOWN:
    return "an unknown";
  case PN_IS_DEFINITION:
    return "a definition";
  case PN_IS_TABLE:
    return "a table";
  case PN_IS_PARAMETER:
    return "a parameter";
  case PN_IS_SHAPE:
    return "a shape";
  default:
    return "nothing";
  }
}

typedef struct declared {
  pn_sort sort;
  size_t index;
  const char *name;
  pn_place place;
} declared;

/* The k-th declared name in the order coordinates, unknowns, constants, definitions, tables,
 * parameters. */
static bool declared_at(const pn_problem *p, size_t k, declared *out) {
  if (k < p->n_coordinates) {
    *out = (declared){PN_IS_COORDINATE, k, p->coordinates[k].name, p->coordinates[k].place};
    return true;
  }
  k -= p->n_coordinates;
  if (k < p->n_unknowns) {
    const pn_unknown *u = &p->unknowns[k]; /* h for h.re; h.im is no name of its own */
    *out = (declared){PN_IS_UNKNOWN, k, u->part == PN_REAL_PART ? u->pair : u->name, u->place};
    return true;
  }
  k -= p->n_unknowns;
  if (k < p->n_constants) {
    *out = (declared){PN_IS_CONSTANT, k, p->constants[k].name, p->constants[k].place};
    return true;
  }
  k -= p->n_constants;
  if (k < p->n_definitions) {
    *out = (declared){PN_IS_DEFINITION, k, p->definitions[k].name, p->definitions[k].place};
    return true;
  }
  k -= p->n_definitions;
  if (k < p->n_tables) {
    *out = (declared){PN_IS_TABLE, k, p->tables[k].name, p->tables[k].place};
    return true;
  }
  k -= p->n_tables;
  if (k >= p->n_parameters && k < p->n_parameters + p->n_shapes) {
    k -= p->n_parameters;
    *out = (declared){PN_IS_SHAPE, k, p->shapes[k].name, p->shapes[k].place};
    return true;
  }
  if (k >= p->n_parameters)
    return false;
  *out = (declared){PN_IS_PARAMETER, k, p->parameters[k].name, p->parameters[k].place};
  return true;
}

/* In sum(e, x) the counted name x is one of its coordinates. */
static const char *counted_name(const pn_problem *p, size_t *index) {
  if (p->counted_group == 0)
    return NULL;
  const pn_counted *c = &p->counted[p->counted_group - 1];
  *index = c->first + p->counted_at;
  return c->name;
}

pn_sort pn_lookup(const pn_problem *problem, const char *name, size_t *index) {
  declared d;
  size_t here = 0;
  const char *counted = counted_name(problem, &here);
  if (counted && strcmp(counted, name) == 0) {
    *index = here;
    return PN_IS_COORDINATE;
  }
  for (size_t k = 0; declared_at(problem, k, &d); ++k)
    if (strcmp(d.name, name) == 0) {
      *index = d.index;
      return d.sort;
    }
  return PN_IS_NOTHING;
}

static bool is_field(pn_sort sort) {
  return sort == PN_IS_UNKNOWN || sort == PN_IS_DEFINITION || sort == PN_IS_TABLE;
}

/* ---- Readings ------------------------------------------------------------------------------- */

/* Is the field an unknown that has this argument, as b(u) has u? */
static bool is_argument(const pn_problem *p, const pn_reading *now, size_t argument) {
  if (now->sort != PN_IS_UNKNOWN)
    return false;
  const pn_unknown *u = &p->unknowns[now->index];
  for (size_t i = 0; i < u->n_arguments; ++i)
    if (u->argument[i] == argument)
      return true;
  return false;
}

/* Goes through all ways to cut text into coordinates; an underscore may stand between two. */
static void cut(const pn_problem *p, const char *text, pn_reading *now, size_t *n,
                pn_reading out[PN_MAX_READINGS]) {
  if (!*text) {
    if (*n < PN_MAX_READINGS)
      out[*n] = *now;
    ++*n;
    return;
  }
  if (*n >= PN_MAX_READINGS || now->n_axes == PN_MOST_ORDER)
    return;
  size_t here = 0, all = p->n_coordinates + p->n_arguments;
  const char *counted = counted_name(p, &here);
  for (size_t k = 0; k < all + (counted != NULL); ++k) {
    size_t i = k < all ? k : here;
    const char *name = k < all ? p->coordinates[k].name : counted;
    if (i >= p->n_coordinates && !is_argument(p, now, i))
      continue;
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0)
      continue;
    const char *rest = text + length;
    if (*rest == '_' && rest[1])
      ++rest;
    now->axes[now->n_axes++] = i;
    cut(p, rest, now, n, out);
    --now->n_axes;
  }
}

size_t pn_split_axes(const pn_problem *problem, const char *text, pn_reading out[PN_MAX_READINGS]) {
  pn_reading now = {.n_axes = 0};
  size_t n = 0;
  cut(problem, text, &now, &n, out);
  return n < PN_MAX_READINGS ? n : PN_MAX_READINGS;
}

size_t pn_readings(const pn_problem *problem, const char *name, bool with_net,
                   pn_reading out[PN_MAX_READINGS]) {
  size_t n = 0;
  for (const char *bar = strchr(name, '_'); bar; bar = strchr(bar + 1, '_')) {
    char field[WORD];
    size_t length = (size_t)(bar - name), index = 0;
    if (length == 0 || length >= sizeof field)
      continue;
    memcpy(field, name, length);
    field[length] = 0;
    pn_sort sort = pn_lookup(problem, field, &index);
    if (!is_field(sort) && !(with_net && strcmp(field, "net") == 0))
      continue;
    pn_reading now = {.sort = sort, .index = index};
    cut(problem, bar + 1, &now, &n, out);
  }
  return n < PN_MAX_READINGS ? n : PN_MAX_READINGS;
}

static const char *field_name(const pn_problem *p, pn_sort sort, size_t index) {
  if (sort == PN_IS_UNKNOWN)
    return p->unknowns[index].pair ? p->unknowns[index].pair : p->unknowns[index].name;
  if (sort == PN_IS_DEFINITION)
    return p->definitions[index].name;
  return sort == PN_IS_TABLE ? p->tables[index].name : "net";
}

TN_PRINTF(3, 4) static void add(char *out, size_t size, const char *format, ...) {
  size_t used = strlen(out);
  va_list list;
  va_start(list, format);
  vsnprintf(out + used, size - used, format, list);
  va_end(list);
}

void pn_reading_text(const pn_problem *problem, const pn_reading *reading, char *out, size_t size) {
  snprintf(out, size, "%s", field_name(problem, reading->sort, reading->index));
  for (size_t i = 0; i < reading->n_axes; ++i)
    add(out, size, "_%s", problem->coordinates[reading->axes[i]].name);
  pn_reading again[PN_MAX_READINGS];
  if (pn_readings(problem, out, true, again) == 1)
    return;
  snprintf(out, size, "diff(%s", field_name(problem, reading->sort, reading->index));
  for (size_t i = 0; i < reading->n_axes; ++i)
    add(out, size, ", %s", problem->coordinates[reading->axes[i]].name);
  add(out, size, ")");
}

/* ---- Declarations --------------------------------------------------------------------------- */

static bool is_operator_name(const char *name) {
  static const char *const names[] = {"where",  "mean",      "int",  "sum",  "prod",
                                      "inside", "interface", "diff", "grad", "div",
                                      "lap",    "curl",      "dot",  "norm", "dn"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
    if (strcmp(name, names[i]) == 0)
      return true;
  pn_function function;
  return pn_function_find(name, &function);
}

static tn_status check_letters(const pn_problem *p, const declared *d) {
  const char *s = d->name;
  if (d->sort == PN_IS_UNKNOWN && p->unknowns[d->index].part == PN_IMAGINARY_PART)
    return TN_OK;
  bool good = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
  for (; *s; ++s)
    good &= (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
            (*s == '_' && s[1] != '_' && s[1]);
  size_t width = strlen(d->name);
  if (!good || width == 0)
    return pn_fail_at(TN_EINPUT, d->place, width,
                      "`%s` cannot be a name: a letter first, then letters, digits and single "
                      "underscores",
                      d->name);
  if (width >= WORD / 2)
    return pn_fail_at(TN_EINPUT, d->place, width, "a name has at most %d letters", WORD / 2 - 1);
  static const char *const reserved[] = {"pi",  "box", "domain", "boundary", "net",
                                         "and", "or",  "not",    "normal"};
  for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; ++i)
    if (strcmp(d->name, reserved[i]) == 0)
      return pn_fail_at(TN_EINPUT, d->place, width, "`%s` is reserved and cannot be %s", d->name,
                        pn_sort_text(d->sort));
  if (p->has_complex && strcmp(d->name, "i") == 0)
    return pn_fail_at(TN_EINPUT, d->place, width,
                      "`i` is the imaginary unit in a file with a complex unknown and cannot be %s",
                      pn_sort_text(d->sort));
  if (is_field(d->sort) && is_operator_name(d->name))
    return pn_fail_at(TN_EINPUT, d->place, width, "`%s` is a function and cannot be %s too",
                      d->name, pn_sort_text(d->sort));
  return TN_OK;
}

/* A repeat of an earlier name, or a name that reads as a derivative. */
static tn_status check_clash(const pn_problem *p, size_t k, const declared *d) {
  declared other;
  size_t width = strlen(d->name);
  const pn_counted *counted = pn_counted_find(p, d->name);
  if (counted)
    return pn_fail_at(TN_EINPUT, d->place, width, "`%s` is %s and stands for %s1 to %s%zu (line %zu)",
                      d->name, pn_sort_text(d->sort), d->name, d->name, counted->n,
                      counted->place.line);
  for (size_t j = 0; j < k && declared_at(p, j, &other); ++j)
    if (strcmp(other.name, d->name) == 0)
      return pn_fail_at(TN_EINPUT, d->place, width, "`%s` is %s (line %zu) and %s", d->name,
                        pn_sort_text(other.sort), other.place.line, pn_sort_text(d->sort));
  pn_reading readings[PN_MAX_READINGS];
  if (pn_readings(p, d->name, false, readings) == 0)
    return TN_OK;
  char axes[WORD] = "";
  for (size_t i = 0; i < readings[0].n_axes; ++i)
    add(axes, sizeof axes, "%s%s", i ? " " : "", p->coordinates[readings[0].axes[i]].name);
  const char *field = field_name(p, readings[0].sort, readings[0].index);
  for (size_t j = 0; declared_at(p, j, &other); ++j)
    if (strcmp(other.name, field) == 0)
      break;
  return pn_fail_at(
      TN_EINPUT, d->place, width,
      "%s `%s` also reads as the %s-derivative of `%s` (line %zu). Rename one of them.",
      strchr(pn_sort_text(d->sort), ' ') + 1, d->name, axes, field, other.place.line);
}

tn_status pn_check_names(const pn_problem *problem) {
  declared d;
  for (size_t k = 0; declared_at(problem, k, &d); ++k) {
    TN_TRY(check_letters(problem, &d));
    TN_TRY(check_clash(problem, k, &d));
  }
  return TN_OK;
}

/* ---- Errors --------------------------------------------------------------------------------- */

/* "x, t" or "x and t". */
static void list_coordinates(const pn_problem *p, const size_t *of, size_t n, const char *last,
                             char *out, size_t size) {
  *out = 0;
  for (size_t i = 0; i < n; ++i)
    add(out, size, "%s%s",
        i == 0       ? ""
        : i + 1 == n ? last
                     : ", ",
        p->coordinates[of ? of[i] : i].name);
}

/* The coordinates of a field: of unknowns and tables their own, else all. */
static const size_t *coordinates_of(const pn_problem *p, pn_sort sort, size_t index, size_t *n) {
  if (sort == PN_IS_UNKNOWN) {
    *n = p->unknowns[index].n_of;
    return p->unknowns[index].of;
  }
  if (sort == PN_IS_TABLE) {
    *n = p->tables[index].n_of;
    return p->tables[index].of;
  }
  *n = p->n_coordinates;
  return NULL;
}

/* The bytes of `axes` that read as coordinates, taking the longest each time; *n of them. */
static size_t good_bytes(const pn_problem *p, const char *axes, size_t *n) {
  size_t done = 0;
  for (*n = 0;; ++*n) {
    size_t longest = 0;
    for (size_t i = 0; i < p->n_coordinates; ++i) {
      size_t length = strlen(p->coordinates[i].name);
      if (length > longest && strncmp(axes + done, p->coordinates[i].name, length) == 0)
        longest = length;
    }
    if (!longest)
      return done;
    done += longest;
    if (axes[done] == '_')
      ++done;
  }
}

/* " A derivative is written u_x, u_xx.", with a coordinate that the field has. */
static void derivative_hint(const pn_problem *p, const char *field, char *out, size_t size) {
  size_t index = 0, n = 0;
  const size_t *of = coordinates_of(p, pn_lookup(p, field, &index), index, &n);
  const char *x = n ? p->coordinates[of ? of[0] : 0].name : "x";
  const char *bar = strlen(x) > 1 ? "_" : "";
  snprintf(out, size, " A derivative is written %s_%s, %s_%s%s%s.", field, x, field, x, bar, x);
}

/* The field in du, du_dx, d2u, d2u_dx2. */
static bool reads_as_quotient(const pn_problem *p, const char *name, char field[WORD]) {
  size_t index = 0;
  if (*name != 'd')
    return false;
  ++name;
  name += strspn(name, "0123456789");
  const char *end = strstr(name, "_d");
  size_t length = end ? (size_t)(end - name) : strlen(name);
  if (length == 0 || length >= WORD)
    return false;
  memcpy(field, name, length);
  field[length] = 0;
  return is_field(pn_lookup(p, field, &index));
}

tn_status pn_no_coordinate(const pn_problem *problem, const pn_expr *expr, const char *name,
                           const char *field, const char *axes) {
  char list[LIST], bad[WORD], near[2 * WORD] = "";
  size_t index = 0, n = 0;
  pn_sort sort = field ? pn_lookup(problem, field, &index) : PN_IS_NOTHING;
  const size_t *of = coordinates_of(problem, sort, index, &n);
  size_t order = 0, good = good_bytes(problem, axes, &order), length = 1;
  if (!axes[good] && order > PN_MOST_ORDER)
    return pn_expr_fail(TN_EINPUT, expr, "`%s` is a derivative of order %zu; the highest is %d",
                        name, order, PN_MOST_ORDER);
  for (size_t i = 0; i < problem->n_coordinates; ++i) /* names of several letters: the whole part */
    if (strlen(problem->coordinates[i].name) > 1)
      length = strcspn(axes + good, "_");
  snprintf(bad, sizeof bad, "%.*s", (int)(length < WORD ? length : WORD - 1), axes + good);
  size_t other = 0;
  pn_sort wrong = pn_lookup(problem, bad, &other);
  if (wrong == PN_IS_NOTHING && length > 1) { /* V_VV: a repeated letter */
    char first[2] = {bad[0], 0};
    wrong = pn_lookup(problem, first, &other);
    if (wrong != PN_IS_NOTHING)
      memcpy(bad, first, sizeof first);
  }
  list_coordinates(problem, of, n, sort == PN_IS_UNKNOWN && wrong == PN_IS_NOTHING ? " and " : ", ",
                   list, sizeof list);
  if (wrong != PN_IS_NOTHING && wrong != PN_IS_COORDINATE)
    return pn_expr_fail(TN_EINPUT, expr, "`%s`: %s is %s, derivatives go by %s", name, bad,
                        pn_sort_text(wrong), list);
  if (n > 0 && field && strlen(axes) < WORD)
    snprintf(near, sizeof near, " Did you mean `%s_%.*s%s%s`?", field, (int)good, axes,
             problem->coordinates[of ? of[0] : 0].name, axes + good + strlen(bad));
  if (*near && axes[good] >= '0' && axes[good] <= '9') /* u_4x, u_x2 */
    derivative_hint(problem, field, near, sizeof near);
  if (sort == PN_IS_UNKNOWN)
    return pn_expr_fail(TN_EINPUT, expr, "`%s`: %s depends on %s; there is no coordinate `%s`.%s",
                        name, field, list, bad, near);
  return pn_expr_fail(TN_EINPUT, expr,
                      "`%s`: there is no coordinate `%s`; the coordinates are %s.%s", name, bad,
                      list, near);
}

/* "x, t (coordinates); u (unknowns)" */
static void list_names(const pn_problem *p, char *out, size_t size) {
  static const char *const groups[] = {"",         "coordinates", "constants",
                                       "unknowns", "definitions", "tables", "parameters", "shapes"};
  declared d, after;
  *out = 0;
  for (size_t k = 0; declared_at(p, k, &d); ++k) {
    if (d.sort == PN_IS_UNKNOWN && p->unknowns[d.index].part == PN_REAL_PART)
      continue; /* h.re, h.im: h is written once */
    if (d.sort == PN_IS_UNKNOWN && p->unknowns[d.index].pair)
      d.name = p->unknowns[d.index].pair;
    bool last = !declared_at(p, k + 1, &after) || after.sort != d.sort;
    add(out, size, "%s%s", d.name, last ? " (" : ", ");
    if (last)
      add(out, size, "%s); ", groups[d.sort]);
  }
  add(out, size, "pi");
}

static bool is_operator_or_function(const pn_expr *expr, const char *name, tn_status *status) {
  if (is_operator_name(name)) {
    *status = pn_expr_fail(TN_EINPUT, expr, "`%s` is a function: write %s(...)", name, name);
    return true;
  }
  if (strcmp(name, "box") == 0 || strcmp(name, "domain") == 0 || strcmp(name, "boundary") == 0) {
    *status = pn_expr_fail(TN_EINPUT, expr, "`%s` is a region and has no value", name);
    return true;
  }
  return false;
}

tn_status pn_unknown_name(const pn_problem *problem, const pn_expr *expr, const char *name) {
  tn_status status = TN_OK;
  if (is_operator_or_function(expr, name, &status))
    return status;
  const char *names[MOST_NAMES];
  char known[LIST], field[WORD] = "", hint[3 * WORD] = "";
  const pn_counted *counted = pn_counted_find(problem, name);
  if (counted)
    return pn_expr_fail(TN_EINPUT, expr,
                        "`%s` stands for %s1 to %s%zu: write one of them, or sum(e, %s) or prod(e, %s)",
                        name, name, name, counted->n, name, name);
  declared d;
  size_t n = 0;
  for (size_t k = 0; declared_at(problem, k, &d) && n < MOST_NAMES; ++k)
    names[n++] = d.name;
  const char *bar = strchr(name, '_');
  if (bar && (size_t)(bar - name) < sizeof field)
    memcpy(field, name, (size_t)(bar - name));
  size_t index = 0;
  if (*field && is_field(pn_lookup(problem, field, &index)))
    return pn_no_coordinate(problem, expr, name, field, bar + 1);
  if (*field && pn_lookup(problem, field, &index) != PN_IS_NOTHING)
    return pn_expr_fail(TN_EINPUT, expr, "`%s`: %s is %s and has no derivatives", name, field,
                        pn_sort_text(pn_lookup(problem, field, &index)));
  const char *near = pn_nearest(name, n, names);
  const char *fields[MOST_NAMES];
  size_t n_fields = 0;
  for (size_t i = 0; i < n; ++i)
    if (is_field(pn_lookup(problem, names[i], &index)))
      fields[n_fields++] = names[i];
  const char *near_field = *field ? pn_nearest(field, n_fields, fields) : NULL;
  char quotient[WORD] = "";
  if (reads_as_quotient(problem, name, quotient))
    derivative_hint(problem, quotient, hint, sizeof hint);
  else if (strcmp(name, "e") == 0)
    snprintf(hint, sizeof hint, " Write exp(...) for e^(...).");
  else if (near)
    snprintf(hint, sizeof hint, " Did you mean `%s`?", near);
  else if (near_field)
    snprintf(hint, sizeof hint, " Did you mean `%s%s`?", near_field, bar);
  else if (strcmp(name, "i") == 0)
    snprintf(hint, sizeof hint, " (`i` is the imaginary unit where an unknown is complex: { of = \"x\", complex = true }.)");
  list_names(problem, known, sizeof known);
  return pn_expr_fail(TN_EINPUT, expr, "`%s` is not declared.%s The names are %s", name, hint,
                      known);
}

tn_status pn_unknown_function(const pn_expr *expr, const char *name) {
  static const char *const operators[] = {"where", "mean", "int",  "sum", "prod", "diff", "grad",
                                          "div",   "lap",  "curl", "dot", "norm", "dn"};
  const char *names[PN_FUNCTIONS + sizeof operators / sizeof operators[0]];
  char list[LIST] = "";
  size_t n = 0;
  for (int f = 0; f < PN_FUNCTIONS; ++f)
    if (pn_function_arity((pn_function)f).available)
      names[n++] = pn_function_name((pn_function)f);
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; ++i)
    names[n++] = operators[i];
  for (size_t i = 0; i < n; ++i)
    add(list, sizeof list, "%s%s", i ? " " : "", names[i]);
  static const char *const others[][2] = {
      {"laplace", "lap"}, {"laplacian", "lap"}, {"Laplace", "lap"}, {"Laplacian", "lap"},
      {"Delta", "lap"},   {"gradient", "grad"}, {"nabla", "grad"},  {"divergence", "div"},
      {"ln", "log"},      {"arcsin", "asin"},   {"arccos", "acos"}, {"arctan", "atan"}};
  const char *near = pn_nearest(name, n, names);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i)
    if (strcmp(name, others[i][0]) == 0)
      near = others[i][1];
  return pn_expr_fail(TN_EINPUT, expr, "unknown function `%s`.%s%s%s The functions are %s", name,
                      near ? " Did you mean `" : "", near ? near : "", near ? "`?" : "", list);
}
