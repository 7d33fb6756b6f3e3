/* test_expr.c: the grammar, its errors, and the law that printing and parsing are inverse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/expr.h"

typedef tn_status (*entry)(pn_arena *, const pn_phrase *, pn_expr **);

static pn_arena *arena;

static int make_arena(void **state) {
  (void)state;
  return pn_arena_new(&arena) == TN_OK ? 0 : -1;
}

static int free_arena(void **state) {
  (void)state;
  pn_arena_free(&arena);
  return 0;
}

static tn_status parse_with(entry parse, const char *text, pn_expr **out) {
  pn_phrase *phrase = NULL;
  pn_source *source = NULL;
  assert_int_equal(PN_TAKE(arena, 1, &phrase), TN_OK);
  assert_int_equal(PN_TAKE(arena, 1, &source), TN_OK);
  *source = (pn_source){"e", text, strlen(text)};
  *phrase = (pn_phrase){text, {source, 1, 1}, false};
  return parse(arena, phrase, out);
}

static const char *text_of(const pn_expr *e) {
  char *text = NULL;
  assert_int_equal(pn_expr_print(arena, e, NULL, &text), TN_OK);
  return text;
}

static pn_expr *parsed(entry parse, const char *text) {
  pn_expr *e = NULL;
  if (parse_with(parse, text, &e) != TN_OK)
    fail_msg("%s: %s", text, tn_error_text());
  return e;
}

/* Every operation in brackets: shows the grouping. */
static void grouped(const pn_expr *e, char *out) {
  static const char *const signs[PN_KINDS] = {
      [PN_ADD] = "+",   [PN_SUBTRACT] = "-", [PN_MULTIPLY] = "*", [PN_DIVIDE] = "/",
      [PN_POWER] = "^", [PN_AND] = "&",      [PN_OR] = "|",       [PN_EQUAL] = "=",
      [PN_LESS] = "<",  [PN_NEGATE] = "-",   [PN_NOT] = "!"};
  if (e->kind == PN_NUMBER) {
    sprintf(out + strlen(out), "%g", e->number);
  } else if (e->n == 2 && signs[e->kind]) {
    strcat(out, "(");
    grouped(e->args[0], out);
    strcat(out, signs[e->kind]);
    grouped(e->args[1], out);
    strcat(out, ")");
  } else if (e->n == 1 && signs[e->kind]) {
    sprintf(out + strlen(out), "(%s", signs[e->kind]);
    grouped(e->args[0], out);
    strcat(out, ")");
  } else {
    strcat(out, e->name ? e->name : "?");
  }
}

static void assert_groups(entry parse, const char *text, const char *expected) {
  char out[1024] = "";
  grouped(parsed(parse, text), out);
  assert_string_equal(out, expected);
}

static void operators_group_as_the_grammar_says(void **state) {
  (void)state;
  assert_groups(pn_parse_value, "-x^2", "(-(x^2))");
  assert_groups(pn_parse_value, "2^-3", "(2^(-3))");
  assert_groups(pn_parse_value, "a^b^c", "(a^(b^c))");
  assert_groups(pn_parse_value, "a/b*c", "((a/b)*c)");
  assert_groups(pn_parse_value, "a - b - c", "((a-b)-c)");
  assert_groups(pn_parse_value, "-a*b", "((-a)*b)");
  assert_groups(pn_parse_value, "a*-b", "(a*(-b))");
  assert_groups(pn_parse_value, "a - -b", "(a-(-b))");
  assert_groups(pn_parse_value, "+a + b", "(a+b)");
  assert_groups(pn_parse_value, "a^-b^c", "(a^(-(b^c)))");
  assert_groups(pn_parse_relation, "u_t + u*u_x = nu*u_xx", "((u_t+(u*u_x))=(nu*u_xx))");
}

static void predicates_group_as_the_grammar_says(void **state) {
  (void)state;
  assert_groups(pn_parse_predicate, "a and b or c", "((a&b)|c)");
  assert_groups(pn_parse_predicate, "not a and b", "((!a)&b)");
  assert_groups(pn_parse_predicate, "0 < x < 1", "((0<x)&(x<1))");
  assert_groups(pn_parse_predicate, "(x + y) < 1", "((x+y)<1)");
  assert_groups(pn_parse_predicate, "(x < 1) or y = 0", "((x<1)|(y=0))");
  assert_groups(pn_parse_predicate, "(x)^2 + 1 < 2*(y)", "(((x^2)+1)<(2*y))");
  assert_groups(pn_parse_predicate, "boundary and not (x = 0 or y = 0)",
                "(boundary&(!((x=0)|(y=0))))");
  assert_groups(pn_parse_predicate, "box - hole", "(box-hole)");
  assert_groups(pn_parse_predicate, "box - (x < 1)", "(box-(x<1))");
}

static void numbers_are_read_exactly(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } rows[] = {{"0.1", 0.1}, {"1e-4", 1e-4}, {".5", .5},
              {"5.", 5},    {"1E+3", 1000}, {"3.3e-9", 3.3e-9}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i)
    assert_true(parsed(pn_parse_value, rows[i].text)->number == rows[i].value);
}

/* A random tree of written nodes; depth bounds its height. */
static unsigned next_random(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static pn_expr *random_tree(unsigned *seed, int depth) {
  static const char *const names[] = {"x", "u_xx", "nu", "sxx"};
  static const pn_kind kinds[] = {PN_ADD,    PN_SUBTRACT, PN_MULTIPLY, PN_DIVIDE, PN_POWER,
                                  PN_NEGATE, PN_CALL,     PN_SUFFIX,   PN_TUPLE};
  pn_expr *e = NULL, *args[2] = {NULL, NULL};
  unsigned pick = next_random(seed) >> 16;
  if (depth == 0 || pick % 5 == 0) {
    bool number = pick / 5 % 2;
    assert_int_equal(pn_expr_make(arena, number ? PN_NUMBER : PN_NAME, NULL, 0, NULL, &e), TN_OK);
    if (number)
      e->number = (double)(next_random(seed) >> 8) / 4096;
    else
      e->name = names[pick / 10 % 4];
    return e;
  }
  pn_kind kind = kinds[pick % 9];
  size_t n = kind == PN_NEGATE || kind == PN_SUFFIX ? 1 : 2;
  for (size_t i = 0; i < n; ++i)
    args[i] = random_tree(seed, depth - 1);
  assert_int_equal(pn_expr_make(arena, kind, NULL, n, args, &e), TN_OK);
  e->name = kind == PN_CALL ? "f" : kind == PN_SUFFIX ? "xy" : NULL;
  return e;
}

static void assert_same(const pn_expr *a, const pn_expr *b, const char *text) {
  bool same = a->kind == b->kind && a->n == b->n && a->number == b->number &&
              (!a->name || !b->name ? a->name == b->name : strcmp(a->name, b->name) == 0);
  if (!same)
    fail_msg("printing and parsing changed: %s", text);
  for (size_t i = 0; i < a->n; ++i)
    assert_same(a->args[i], b->args[i], text);
}

static void printing_then_parsing_gives_the_tree_again(void **state) {
  (void)state;
  unsigned seed = 7;
  for (int k = 0; k < 2000; ++k) {
    pn_expr *tree = random_tree(&seed, 6);
    const char *text = text_of(tree);
    assert_same(tree, parsed(pn_parse_value, text), text);
  }
}

static void canonical_text_has_no_needless_brackets(void **state) {
  (void)state;
  static const char *const texts[] = {
      "u_t + u*u_x = nu*u_xx",
      "-(k*T_y)_y = 0",
      "u = u(x=x.max)",
      "u(1, t) = where(x < 0, a, b)",
      "(a + b)*c^2 - d/(e*f) = 1e-30",
      "mean(p, domain) = 0",
      "w = (u, v)",
      "u(x=1)_t = 0",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    assert_string_equal(text_of(parsed(pn_parse_relation, texts[i])), texts[i]);
}

static void assert_refused(entry parse, const char *text, size_t column, const char *part) {
  pn_expr *e = NULL;
  char place[32];
  assert_int_equal(parse_with(parse, text, &e), TN_EINPUT);
  snprintf(place, sizeof place, "e:1:%zu: ", column);
  if (strncmp(tn_error_text(), place, strlen(place)) != 0 || !strstr(tn_error_text(), part))
    fail_msg("%s: no \"%s\" and \"%s\" in: %s", text, place, part, tn_error_text());
}

static void habits_of_other_languages_get_a_hint(void **state) {
  (void)state;
  assert_refused(pn_parse_relation, "u_t = 2x", 7, "2*x");
  assert_refused(pn_parse_relation, "u_t = nu u_xx", 7, "write `*` between `nu` and `u_xx`");
  assert_refused(pn_parse_relation, "u = (a)(b)", 5, "write `*`");
  assert_refused(pn_parse_relation, "u == 0", 3, "one =");
  assert_refused(pn_parse_relation, "u**2 = 0", 2, "^");
  assert_refused(pn_parse_relation, "|u| = 0", 1, "abs");
  assert_refused(pn_parse_relation, "u__x = 0", 1, "underscores");
  assert_refused(pn_parse_relation, "u_ = 0", 1, "underscore");
  assert_refused(pn_parse_relation, "u_t - u_xx", 1, "= 0");
  assert_refused(pn_parse_relation, "u = 0 = 1", 7, "second");
  assert_refused(pn_parse_relation, "u < 0", 3, "=, <= or >=");
  assert_refused(pn_parse_predicate, "x = 0 && y = 1", 7, "and");
  assert_refused(pn_parse_value, "u[1]", 2, "round");
  assert_refused(pn_parse_value, "(a < b)*2", 4, "`)`");
}

static void broken_texts_are_errors(void **state) {
  (void)state;
  static const char *const bad[] = {"",      "(",        ")",      "a +",  "a + * b", "f(",
                                    "f()",   "f(a,)",    "f(a b)", "(a,)", "x.mid",   "a $ b",
                                    "1e999", "_x",       "a, b",   "(a",   "a)",      "x = 1",
                                    "1 2",   "\xc3\xa4", "a _x"};
  pn_expr *e = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i)
    if (parse_with(pn_parse_value, bad[i], &e) != TN_EINPUT)
      fail_msg("accepted: %s", bad[i]);
}

/* `before` and `after` 10 000 times around x. */
static void deep_nesting_is_an_error(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"(", ")"}, {"-", ""},      {"f(", ")"},
                                         {"2^", ""}, {"(1 + ", ")"}, {"", " + x"},
                                         {"", "*x"}, {"", "^2"},     {"where(x < ", ", 1, 2)"}};
  enum { DEEP = 10000 };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
    size_t a = strlen(pairs[i][0]), b = strlen(pairs[i][1]);
    char *text = malloc(DEEP * (a + b) + 2), *p = text;
    assert_non_null(text);
    for (int k = 0; k < DEEP; ++k, p += a)
      memcpy(p, pairs[i][0], a);
    *p++ = 'x';
    for (int k = 0; k < DEEP; ++k, p += b)
      memcpy(p, pairs[i][1], b);
    *p = 0;
    pn_expr *e = NULL;
    assert_int_equal(parse_with(pn_parse_value, text, &e), TN_EINPUT);
    free(text);
  }
}

static void a_sum_of_a_thousand_terms_is_read(void **state) {
  (void)state;
  char text[8000] = "x";
  for (int k = 1; k < 1000; ++k)
    strcat(text, " + x");
  assert_int_equal(parsed(pn_parse_value, text)->height, 1000);
}

/* The place of `b` in strings of every TOML kind. */
static void places_follow_escapes_and_lines(void **state) {
  (void)state;
  static const struct {
    const char *raw, *text;
    size_t line, column;
  } rows[] = {{"\"a + b\"", "a + b", 1, 6},
              {"'a + b'", "a + b", 1, 6},
              {"\"a\\t+ b\"", "a\t+ b", 1, 7},
              {"\"\\u0061 + b\"", "a + b", 1, 11},
              {"\"\"\"a + b\"\"\"", "a + b", 1, 8},
              {"\"\"\"\na +\n b\"\"\"", "a +\n b", 3, 2},
              {"\"\"\"a + \\\n   b\"\"\"", "a + b", 2, 4},
              {"'''\na +\n\n  b'''", "a +\n\n  b", 4, 3}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    pn_source source = {"e", rows[i].raw, strlen(rows[i].raw)};
    pn_phrase phrase = {rows[i].text, {&source, 1, 1}, true};
    pn_place place = pn_phrase_place(&phrase, (size_t)(strchr(rows[i].text, 'b') - rows[i].text));
    assert_int_equal(place.line, rows[i].line);
    assert_int_equal(place.column, rows[i].column);
  }
}

static void errors_show_line_and_carets(void **state) {
  (void)state;
  pn_source source = {"burgers.toml", "a\nburgers = \"u_t = u_xz\"\n", 25};
  pn_place place = {&source, 2, 18};
  assert_int_equal(pn_fail_at(TN_EINPUT, place, 4, "no %s", "z"), TN_EINPUT);
  assert_string_equal(tn_error_text(), "burgers.toml:2:18: no z\n"
                                       "   2 | burgers = \"u_t = u_xz\"\n"
                                       "     |                  ^^^^");
}

/* However long message, name and line are, the record has the carets. */
static void long_errors_keep_their_carets(void **state) {
  (void)state;
  char line[3000], name[1000], message[3000];
  memset(line, 'l', sizeof line - 1);
  memset(name, 'n', sizeof name - 1);
  memset(message, 'm', sizeof message - 1);
  line[sizeof line - 1] = name[sizeof name - 1] = message[sizeof message - 1] = 0;
  pn_source source = {name, line, strlen(line)};
  for (size_t column = 1; column < 2990; column += 427) {
    pn_place place = {&source, 1, column};
    assert_int_equal(pn_fail_at(TN_EINPUT, place, 5, "%s", message), TN_EINPUT);
    assert_string_equal(tn_error_text() + strlen(tn_error_text()) - 5, "^^^^^");
  }
}

static void mathml_closes_what_it_opens(void **state) {
  (void)state;
  unsigned seed = 11;
  for (int k = 0; k < 300; ++k) {
    char *text = NULL, open[400][16];
    size_t depth = 0;
    assert_int_equal(pn_expr_mathml(arena, random_tree(&seed, 5), NULL, &text), TN_OK);
    for (char *p = strchr(text, '<'); p; p = strchr(p + 1, '<')) {
      bool closes = p[1] == '/';
      char *name = p + 1 + closes;
      size_t length = strcspn(name, " >");
      if (!closes) {
        assert_true(depth < 400);
        snprintf(open[depth++], sizeof open[0], "%.*s", (int)length, name);
      } else {
        assert_true(depth > 0 && strlen(open[depth - 1]) == length);
        assert_memory_equal(open[--depth], name, length);
      }
    }
    assert_int_equal(depth, 0);
  }
}

int main(void) {
#define ARENA_TEST(f) cmocka_unit_test_setup_teardown(f, make_arena, free_arena)
  const struct CMUnitTest tests[] = {
      ARENA_TEST(operators_group_as_the_grammar_says),
      ARENA_TEST(predicates_group_as_the_grammar_says),
      ARENA_TEST(numbers_are_read_exactly),
      ARENA_TEST(printing_then_parsing_gives_the_tree_again),
      ARENA_TEST(canonical_text_has_no_needless_brackets),
      ARENA_TEST(habits_of_other_languages_get_a_hint),
      ARENA_TEST(broken_texts_are_errors),
      ARENA_TEST(deep_nesting_is_an_error),
      ARENA_TEST(a_sum_of_a_thousand_terms_is_read),
      ARENA_TEST(places_follow_escapes_and_lines),
      ARENA_TEST(errors_show_line_and_carets),
      ARENA_TEST(long_errors_keep_their_carets),
      ARENA_TEST(mathml_closes_what_it_opens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
