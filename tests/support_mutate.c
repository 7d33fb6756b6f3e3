/* support_mutate.c: single mistakes, made from the text of a problem file.
 *
 * The strings of [equations], [conditions], [definitions] and [constants] are found in the parsed TOML, so that only
 * expressions are touched, and cut into names, numbers and signs. Each mutation replaces a few bytes: what a hand
 * does that slips. Whether the result is still a problem is not asked here; that is what is tested.
 */
#include "tests/support_mutate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/toml.h"

const char *const mutation_name[MUTATIONS] = {
    "sign", "index",    "order",  "number", "factor", "term",    "function", "name",
    "misspelt", "normal", "value", "face", "dropped", "period", "parity", "constant"};

enum { TOKENS = 400, NAME = 64 };

typedef struct token {
  char kind; /* n name, 0 number, else the character itself */
  size_t at, length;
} token;

typedef struct maker {
  const pn_problem *problem;
  const char *text;
  size_t n;
  mutant *out;
  bool condition;
} maker;

static void add(maker *m, mutation kind, size_t at, size_t length, const char *by) {
  if (m->n == MUTANTS || strlen(by) >= MUTANT_WORDS)
    return;
  mutant *x = &m->out[m->n++];
  *x = (mutant){.kind = kind, .at = at, .length = length};
  snprintf(x->by, sizeof x->by, "%s", by);
}

/* ---- Names ------------------------------------------------------------------------------------------- */

static bool is(const maker *m, const token *t, const char *word) {
  return t->length == strlen(word) && memcmp(m->text + t->at, word, t->length) == 0;
}

static size_t unknown_of(const maker *m, const char *name, size_t n) {
  for (size_t u = 0; u < m->problem->n_unknowns; ++u)
    if (strlen(m->problem->unknowns[u].name) == n && memcmp(m->problem->unknowns[u].name, name, n) == 0)
      return u;
  return PN_NONE;
}

static bool is_definition(const maker *m, const char *name, size_t n) {
  for (size_t i = 0; i < m->problem->n_definitions; ++i)
    if (strlen(m->problem->definitions[i].name) == n &&
        memcmp(m->problem->definitions[i].name, name, n) == 0)
      return true;
  return false;
}

/* Coordinates of "xxy" or "r_theta"; 0 if it is none. */
static size_t suffix(const maker *m, const char *text, size_t n, size_t *axes) {
  size_t count = 0;
  for (size_t i = 0; i < n;) {
    size_t best = PN_NONE, length = 0;
    if (text[i] == '_') {
      ++i;
      continue;
    }
    for (size_t x = 0; x < m->problem->n_coordinates; ++x) {
      size_t own = strlen(m->problem->coordinates[x].name);
      if (own > length && own <= n - i && memcmp(m->problem->coordinates[x].name, text + i, own) == 0) {
        best = x;
        length = own;
      }
    }
    if (best == PN_NONE || count == 8)
      return 0;
    axes[count++] = best;
    i += length;
  }
  return count;
}

static void join(const maker *m, const char *field, size_t n_field, size_t count, const size_t *axes,
                 char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "%.*s%s", (int)n_field, field, count ? "_" : "");
  for (size_t i = 0; i < count && used < capacity; ++i) {
    const char *x = m->problem->coordinates[axes[i]].name;
    used += (size_t)snprintf(out + used, capacity - used, "%s%s", i > 0 && x[1] ? "_" : "", x);
  }
}

/* u_xx: another coordinate in the last place, an order less or more. */
static void derivative(maker *m, const token *t) {
  const char *name = m->text + t->at, *bar = memchr(name, '_', t->length);
  size_t axes[8], field = bar ? (size_t)(bar - name) : 0, u;
  char text[MUTANT_WORDS];
  if (!bar || ((u = unknown_of(m, name, field)) == PN_NONE && !is_definition(m, name, field)))
    return;
  size_t count = suffix(m, bar + 1, t->length - field - 1, axes), last = count ? axes[count - 1] : 0;
  if (count == 0)
    return;
  for (size_t x = 0; x < m->problem->n_coordinates; ++x) {
    bool has = u == PN_NONE;
    for (size_t j = 0; u != PN_NONE && j < m->problem->unknowns[u].n_of; ++j)
      has |= m->problem->unknowns[u].of[j] == x;
    if (x == last || !has)
      continue;
    axes[count - 1] = x;
    join(m, name, field, count, axes, text, sizeof text);
    add(m, MUTATE_INDEX, t->at, t->length, text);
    axes[count - 1] = last;
  }
  if (count > 1) {
    join(m, name, field, count - 1, axes, text, sizeof text);
    add(m, MUTATE_ORDER, t->at, t->length, text);
  } else {
    axes[1] = last;
    join(m, name, field, 2, axes, text, sizeof text);
    add(m, MUTATE_ORDER, t->at, t->length, text);
  }
}

static void swap_names(maker *m, const token *t) {
  const char *name = m->text + t->at;
  const pn_problem *p = m->problem;
  size_t u = unknown_of(m, name, t->length);
  for (size_t k = 0; u != PN_NONE && k < p->n_unknowns; ++k)
    if (k != u)
      add(m, MUTATE_NAME, t->at, t->length, p->unknowns[k].name);
  for (size_t i = 0; i < p->n_constants; ++i)
    for (size_t k = 0; is(m, t, p->constants[i].name) && k < p->n_constants; ++k)
      if (k != i)
        add(m, MUTATE_NAME, t->at, t->length, p->constants[k].name);
}

/* ---- Expressions -------------------------------------------------------------------------------------- */

static size_t cut(const char *text, size_t from, size_t to, token *out) {
  size_t n = 0;
  for (size_t i = from; i < to && n < TOKENS;) {
    unsigned char c = (unsigned char)text[i];
    size_t start = i;
    if (c == ' ') {
      ++i;
      continue;
    }
    if (isalpha(c)) {
      while (i < to && (isalnum((unsigned char)text[i]) || text[i] == '_' || text[i] == '.'))
        ++i;
      out[n++] = (token){'n', start, i - start};
    } else if (isdigit(c) || c == '.') {
      while (i < to && (isalnum((unsigned char)text[i]) || text[i] == '.' ||
                        ((text[i] == '-' || text[i] == '+') && text[i - 1] == 'e')))
        ++i;
      out[n++] = (token){'0', start, i - start};
    } else {
      out[n++] = (token){(char)c, start, 1};
      ++i;
    }
  }
  return n;
}

static void number(maker *m, const token *t, bool exponent) {
  char text[MUTANT_WORDS], copy[NAME] = "";
  memcpy(copy, m->text + t->at, t->length < NAME - 1 ? t->length : NAME - 1);
  double x = strtod(copy, NULL);
  snprintf(text, sizeof text, "%.15g", exponent ? x + 1 : x == 0 ? 1 : 2 * x);
  add(m, MUTATE_NUMBER, t->at, t->length, text);
}

static void function(maker *m, const token *t) {
  static const char *const pairs[][2] = {{"sin", "cos"},   {"cos", "sin"}, {"sinh", "cosh"},
                                         {"cosh", "sinh"}, {"min", "max"}, {"max", "min"},
                                         {"exp", "cosh"},  {"tanh", "sin"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
    if (is(m, t, pairs[i][0]))
      add(m, MUTATE_FUNCTION, t->at, t->length, pairs[i][1]);
  if (is(m, t, "dn"))
    add(m, MUTATE_NORMAL, t->at, 0, "-");
}

/* lap(u): one of its derivatives alone. */
static void laplacian(maker *m, const token *t, size_t left) {
  char text[MUTANT_WORDS];
  size_t u;
  if (left < 4 || !is(m, t, "lap") || t[1].kind != '(' || t[2].kind != 'n' || t[3].kind != ')' ||
      (u = unknown_of(m, m->text + t[2].at, t[2].length)) == PN_NONE)
    return;
  const char *x = m->problem->coordinates[m->problem->unknowns[u].of[0]].name;
  snprintf(text, sizeof text, "%s_%s%s%s", m->problem->unknowns[u].name, x, x[1] ? "_" : "", x);
  add(m, MUTATE_TERM, t->at, t[3].at + 1 - t->at, text);
}

/* The end of the term that begins at token i, outside of brackets: a +, -, =, a comma or a bracket. */
static size_t term_end(const token *t, size_t i, size_t n) {
  for (int depth = 0; i < n; ++i) {
    if (t[i].kind == '(')
      ++depth;
    if (t[i].kind == ')' && depth-- == 0)
      return i;
    if (depth == 0 && strchr("+-=<>,", t[i].kind))
      return i;
  }
  return n;
}

static void signs_and_terms(maker *m, const token *t, size_t i, size_t n) {
  bool binary = i > 0 && !strchr("+-*/^(=<>,", t[i - 1].kind);
  add(m, MUTATE_SIGN, t[i].at, 1, !binary ? " " : t[i].kind == '+' ? "-" : "+");
  size_t end = binary ? term_end(t, i + 1, n) : i;
  if (end > i + 1)
    add(m, MUTATE_TERM, t[i].at, t[end - 1].at + t[end - 1].length - t[i].at, "");
}

/* A mistake for every place of an expression that invites one. */
static void expression(maker *m, size_t from, size_t to) {
  token t[TOKENS];
  size_t n = cut(m->text, from, to, t), right = 0;
  char text[MUTANT_WORDS];
  for (size_t i = 0; i < n; ++i) {
    if (t[i].kind == '=')
      right = i + 1;
    if (t[i].kind == '+' || t[i].kind == '-')
      signs_and_terms(m, t, i, n);
    if (t[i].kind == '0')
      number(m, &t[i], i > 0 && t[i - 1].kind == '^');
    if ((t[i].kind == '0' || t[i].kind == 'n') && i + 1 < n && t[i + 1].kind == '*' &&
        (i == 0 || !strchr("/^", t[i - 1].kind)))
      add(m, MUTATE_FACTOR, t[i].at, t[i + 1].at + 1 - t[i].at, "");
    if (t[i].kind != 'n')
      continue;
    derivative(m, &t[i]);
    swap_names(m, &t[i]);
    function(m, &t[i]);
    laplacian(m, &t[i], n - i);
    if (i + 1 == n || t[i + 1].kind != '(') {
      snprintf(text, sizeof text, "%.*sq", (int)t[i].length, m->text + t[i].at);
      add(m, MUTATE_MISSPELT, t[i].at, t[i].length, text);
    }
  }
  if (m->condition && right > 0 && n > 0)
    add(m, MUTATE_VALUE, t[n - 1].at + t[n - 1].length, 0, " + 1");
}

/* ---- The file ------------------------------------------------------------------------------------------- */

static size_t offset_of(const char *text, pn_place place) {
  const char *at = text;
  for (size_t line = 1; line < place.line && at; ++line) {
    at = strchr(at, '\n');
    at = at ? at + 1 : NULL;
  }
  return at ? (size_t)(at - text) + place.column - 1 : 0;
}

/* The bytes between the quotes of a string, or of a number. */
static bool inside(const char *text, const pn_toml *value, size_t *from, size_t *to) {
  size_t at = offset_of(text, value->place);
  if (value->kind == PN_TOML_STRING && text[at] == '"' && text[at + 1] != '"') {
    const char *end = strchr(text + at + 1, '"');
    *from = at + 1;
    *to = end ? (size_t)(end - text) : *from;
    return end != NULL;
  }
  if (value->kind != PN_TOML_INTEGER && value->kind != PN_TOML_FLOAT)
    return false;
  *from = *to = at;
  while (isalnum((unsigned char)text[*to]) || (text[*to] && strchr("+-._", text[*to])))
    ++*to;
  return true;
}

static void relations(maker *m, const pn_toml *value) {
  size_t from, to;
  if (value->kind == PN_TOML_STRING && inside(m->text, value, &from, &to))
    expression(m, from, to);
  for (size_t i = 0; value->kind == PN_TOML_ARRAY && i < value->n; ++i)
    relations(m, value->items[i]);
}

/* "x = 1": the other end; "boundary": one face of it. */
static void place(maker *m, const pn_toml *on) {
  size_t from, to;
  token t[TOKENS];
  char text[MUTANT_WORDS];
  if (!on || !inside(m->text, on, &from, &to))
    return;
  size_t n = cut(m->text, from, to, t);
  for (size_t x = 0; x < m->problem->n_coordinates; ++x) {
    const pn_coordinate *c = &m->problem->coordinates[x];
    double value = 0;
    if (n >= 3 && n <= 4 && is(m, &t[0], c->name) && t[1].kind == '=' && t[n - 1].kind == '0') {
      value = (n == 4 ? -1 : 1) * strtod(m->text + t[n - 1].at, NULL);
      snprintf(text, sizeof text, "%s = %s.%s", c->name, c->name, value == c->lo ? "max" : "min");
      add(m, MUTATE_FACE, from, to - from, text);
    }
    if (n == 1 && is(m, &t[0], "boundary") && c->role == PN_SPACE && !c->periodic) {
      snprintf(text, sizeof text, "%s = %s.min", c->name, c->name);
      add(m, MUTATE_FACE, from, to - from, text);
    }
  }
}

/* A condition on a line of its own, or an entry of an inline table, is taken out. */
static void drop(maker *m, const pn_toml *table, const pn_toml *entry) {
  size_t at = offset_of(m->text, entry->key_place), end = at;
  bool own_line = at == 0 || m->text[at - 1] == '\n';
  int depth = 0;
  bool quoted = false;
  if (entry->kind != PN_TOML_TABLE || m->text[at] == '[')
    return;
  for (; m->text[end]; ++end) {
    char c = m->text[end];
    quoted ^= c == '"';
    depth += !quoted && (c == '{' || c == '[');
    depth -= !quoted && (c == '}' || c == ']');
    if (depth < 0 || (depth == 0 && !quoted && (c == '\n' || (c == ',' && !own_line))))
      break;
  }
  if (!own_line && m->text[end] == ',')
    ++end;
  else if (!own_line && table->n > 1) /* the last one: the comma before it goes too */
    while (at > 0 && m->text[at - 1] != ',')
      --at;
  if (!own_line && m->text[end] != ',' && table->n > 1 && at > 0 && m->text[at - 1] == ',' &&
      m->text[end] == '}')
    --at;
  add(m, MUTATE_DROPPED, at, end - at, "");
}

static void terms(maker *m, const pn_toml *table) {
  for (size_t i = 0; table && i < table->n; ++i) {
    const pn_toml *entry = table->items[i];
    const pn_toml *equation = entry->kind == PN_TOML_TABLE ? pn_toml_find(entry, "equation") : entry;
    if (equation)
      relations(m, equation);
    if (!m->condition)
      continue;
    place(m, pn_toml_find(entry, "on"));
    if (!pn_toml_find(entry, "data"))
      drop(m, table, entry);
  }
}

/* ---- What [exact] depends on ------------------------------------------------------------------------------ */

static bool occurs(const char *text, size_t n, const char *name) {
  token t[TOKENS];
  size_t count = cut(text, 0, n, t), length = strlen(name);
  for (size_t i = 0; i < count; ++i)
    if (t[i].kind == 'n' && t[i].length >= length && memcmp(text + t[i].at, name, length) == 0 &&
        (t[i].length == length || text[t[i].at + length] == '_'))
      return true;
  return false;
}

static bool table_uses(const pn_toml *root, const char *table, const char *name, int depth);

/* Does the exact solution use a name, perhaps through definitions and constants? */
static bool solution_uses(const pn_toml *root, const char *name, int depth) {
  return depth < 8 && (table_uses(root, "exact", name, depth) ||
                       table_uses(root, "definitions", name, depth) ||
                       table_uses(root, "constants", name, depth));
}

static bool table_uses(const pn_toml *root, const char *table, const char *name, int depth) {
  const pn_toml *t = pn_toml_find(root, table);
  for (size_t i = 0; t && i < t->n; ++i) {
    const pn_toml *value = t->items[i];
    if (value->kind == PN_TOML_TABLE)
      value = pn_toml_find(value, "value");
    if (value && value->kind == PN_TOML_STRING && occurs(value->string, value->length, name) &&
        (strcmp(table, "exact") == 0 || solution_uses(root, t->items[i]->key, depth + 1)))
      return true;
  }
  return false;
}

static void definitions(maker *m, const pn_toml *root) {
  const pn_toml *t = pn_toml_find(root, "definitions");
  for (size_t i = 0; t && i < t->n; ++i) {
    const pn_toml *value = t->items[i];
    if (value->kind == PN_TOML_TABLE)
      value = pn_toml_find(value, "value");
    if (value && !solution_uses(root, t->items[i]->key, 0))
      relations(m, value);
  }
}

static void constants(maker *m, const pn_toml *root) {
  const pn_toml *t = pn_toml_find(root, "constants");
  size_t from, to;
  char text[MUTANT_WORDS];
  for (size_t i = 0; t && i < t->n; ++i) {
    const pn_toml *value = t->items[i];
    if (solution_uses(root, value->key, 0) || !inside(m->text, value, &from, &to) || to - from > 100)
      continue;
    snprintf(text, sizeof text, value->kind == PN_TOML_STRING ? "2*(%.*s)" : "\"2*(%.*s)\"",
             (int)(to - from), m->text + from);
    add(m, MUTATE_CONSTANT, from, to - from, text);
  }
}

static void words(maker *m) {
  static const char *const pairs[][2] = {{", periodic = true", ""}, {"even = \"", "odd = \""}, {"odd = \"", "even = \""}};
  for (size_t i = 0; i < 3; ++i)
    for (const char *at = m->text; (at = strstr(at, pairs[i][0])) != NULL; ++at)
      add(m, i ? MUTATE_PARITY : MUTATE_PERIOD, (size_t)(at - m->text), strlen(pairs[i][0]), pairs[i][1]);
}

size_t mutants_of(const pn_problem *problem, mutant *out) {
  maker m = {.problem = problem, .text = problem->source.text, .out = out};
  pn_toml *root = NULL;
  if (pn_toml_parse(problem->arena, &problem->source, &root) != TN_OK)
    return 0;
  terms(&m, pn_toml_find(root, "equations"));
  m.condition = true;
  terms(&m, pn_toml_find(root, "conditions"));
  m.condition = false;
  definitions(&m, root);
  constants(&m, root);
  words(&m);
  return m.n;
}

/* ---- A choice --------------------------------------------------------------------------------------------- */

size_t mutants_choose(const char *name, size_t n, mutant *all, size_t count, mutant *out) {
  tn_stream stream = tn_stream_of(1, name);
  size_t chosen = 0, order[MUTATIONS];
  uint64_t at = 0;
  for (size_t k = 0; k < MUTATIONS; ++k)
    order[k] = k;
  for (size_t k = MUTATIONS - 1; k > 0; --k) { /* kinds in a random order */
    size_t other = (size_t)(tn_random_uniform(stream, at++) * (double)(k + 1)), kept = order[k];
    order[k] = order[other];
    order[other] = kept;
  }
  for (size_t round = 0; chosen < count && round < count; ++round)
    for (size_t k = 0; k < MUTATIONS && chosen < count; ++k) {
      size_t of_kind = 0;
      for (size_t i = 0; i < n; ++i)
        of_kind += all[i].kind == (mutation)order[k];
      if (of_kind == 0)
        continue;
      size_t pick = (size_t)(tn_random_uniform(stream, at++) * (double)of_kind);
      for (size_t i = 0; i < n; ++i)
        if (all[i].kind == (mutation)order[k] && pick-- == 0) {
          out[chosen++] = all[i];
          all[i].kind = MUTATIONS; /* not again */
          break;
        }
    }
  return chosen;
}

char *mutant_text(const char *text, const mutant *m) {
  size_t n = strlen(text), by = strlen(m->by);
  char *out = malloc(n + by + 1);
  if (!out)
    return NULL;
  memcpy(out, text, m->at);
  memcpy(out + m->at, m->by, by);
  memcpy(out + m->at + by, text + m->at + m->length, n - m->at - m->length + 1);
  return out;
}
