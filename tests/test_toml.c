/* test_toml.c: file order, positions, errors and overrides of the TOML tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/toml.h"

typedef struct file {
  pn_arena *arena;
  pn_source source;
  pn_toml *root;
} file;

static tn_status read_text(file *f, const char *text) {
  assert_int_equal(pn_arena_new(&f->arena), TN_OK);
  f->source = (pn_source){"test.toml", text, strlen(text)};
  f->root = NULL;
  return pn_toml_parse(f->arena, &f->source, &f->root);
}

static file tree_of(const char *text) {
  file f;
  if (read_text(&f, text) != TN_OK)
    fail_msg("%s", tn_error_text());
  return f;
}

static const pn_toml *path(const pn_toml *node, const char *a, const char *b) {
  node = pn_toml_find(node, a);
  if (node && b)
    node = pn_toml_find(node, b);
  assert_non_null(node);
  return node;
}

/* "z a m" */
static void assert_keys(const pn_toml *table, const char *keys) {
  char list[256] = "";
  for (size_t i = 0; i < table->n; ++i) {
    if (i)
      strcat(list, " ");
    strcat(list, table->items[i]->key);
  }
  assert_string_equal(list, keys);
}

static void tables_keep_file_order(void **state) {
  (void)state;
  /* keys are not alphabetical, and headers, dotted keys and inline tables mix */
  file f = tree_of("zeta = 1\nalpha.z = 1\nalpha.b = { y = 1, x = { q = 1, p = 2 } }\nalpha.a = 3\n"
                   "[theta.w]\nk = 1\n[mid]\nx = 1\n[theta.c]\nj = 1\n[theta.d]\n");
  assert_keys(f.root, "zeta alpha theta mid");
  assert_keys(path(f.root, "alpha", NULL), "z b a");
  assert_keys(path(f.root, "alpha", "b"), "y x");
  assert_keys(pn_toml_find(path(f.root, "alpha", "b"), "x"), "q p");
  assert_keys(path(f.root, "theta", NULL), "w c d");
  pn_arena_free(&f.arena);
}

static void positions_are_those_of_keys_and_values(void **state) {
  (void)state;
  file f = tree_of(
      "# \xc3\xa4\n[a]\n  key = \"\xc3\xa4\xc3\xb6\"\nd.e =   7\n[[s]]\nx = { y = [1, -2.5] }\n");
  const pn_toml *key = path(f.root, "a", "key");
  assert_int_equal(key->key_place.line, 3);
  assert_int_equal(key->key_place.column, 3);
  assert_int_equal(key->place.column, 9);
  assert_string_equal(key->string, "\xc3\xa4\xc3\xb6");
  const pn_toml *e = pn_toml_find(path(f.root, "a", "d"), "e");
  assert_int_equal(e->place.line, 4);
  assert_int_equal(e->place.column, 9);
  assert_int_equal(e->integer, 7);
  const pn_toml *s = path(f.root, "s", NULL);
  assert_int_equal(s->kind, PN_TOML_ARRAY);
  const pn_toml *y = pn_toml_find(pn_toml_find(s->items[0], "x"), "y");
  assert_int_equal(y->items[1]->place.line, 6);
  assert_int_equal(y->items[1]->place.column, 15);
  assert_true(y->items[1]->number == -2.5);
  pn_arena_free(&f.arena);
}

static void assert_refused(const char *text, const char *place) {
  file f;
  assert_int_equal(read_text(&f, text), TN_EINPUT);
  if (strncmp(tn_error_text(), place, strlen(place)) != 0)
    fail_msg("no \"%s\" in front of: %s", place, tn_error_text());
  pn_arena_free(&f.arena);
}

static void syntax_errors_have_a_place(void **state) {
  (void)state;
  assert_refused("a = 1\na = 2\n", "test.toml:2:");
  assert_refused("a = 1\nb = = 2\n", "test.toml:2:5: ");
  assert_refused("a = \"open\n", "test.toml:1:");
  assert_refused("a = \"\\u0000\"\n", "test.toml:1:5: ");
  assert_refused("[a]\nb = 1\n[a]\n", "test.toml:3:");
  assert_refused("a = \"\xff\"\n", "test.toml:1:");
  assert_refused("a = 1\n\n[ !]\nb = 2\n", "test.toml:3:3: ");
  assert_refused("a = { = 1 }\n", "test.toml:1:");
  assert_refused("[[[a]]]\n", "test.toml:1:4: ");
}

/* 100 000 levels in every syntax that nests. */
static void deep_nesting_is_an_error(void **state) {
  (void)state;
  enum { DEEP = 100000 };
  static const char *const units[] = {"[", "{a=", "a.", "a . ", "\"a\".", "[[", "'a'."};
  static const char *const heads[] = {"k = ", "k = ", "", "[", "k = {", "", "["};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; ++i) {
    size_t length = strlen(units[i]);
    char *text = malloc(DEEP * length + 64);
    assert_non_null(text);
    strcpy(text, heads[i]);
    char *p = text + strlen(text);
    for (size_t k = 0; k < DEEP; ++k, p += length)
      memcpy(p, units[i], length);
    strcpy(p, "a = 1\n");
    assert_refused(text, "test.toml:1:");
    free(text);
  }
}

static void nesting_that_a_file_needs_is_read(void **state) {
  (void)state;
  file f = tree_of("a.b.c.d = [[[{ e = { f = 1 } }]]]\ntext = \"1.5.2 ... 3.4.5.6\"\n");
  assert_keys(f.root, "a text");
  pn_arena_free(&f.arena);
}

static void set(file *f, const char *override) {
  if (pn_toml_set(f->arena, f->root, override) != TN_OK)
    fail_msg("%s: %s", override, tn_error_text());
}

static void overrides_replace_and_make_keys(void **state) {
  (void)state;
  file f = tree_of("[conditions]\nwalls = { on = \"x = 1\" }\n[[stage]]\nsteps = 5\n");
  set(&f, "conditions.walls.weight=10");
  set(&f, "stage.1.steps=50");
  set(&f, "stage.2.optimizer=lbfgs");
  set(&f, "domain.x=[0, 2]");
  set(&f, "constants.nu=0.01/pi");
  set(&f, "equations.e=u_t = u_xx");
  set(&f, "accept.error=1e-3");
  assert_int_equal(pn_toml_find(path(f.root, "conditions", "walls"), "weight")->integer, 10);
  const pn_toml *stage = path(f.root, "stage", NULL);
  assert_int_equal(stage->n, 2);
  assert_int_equal(pn_toml_find(stage->items[0], "steps")->integer, 50);
  assert_string_equal(pn_toml_find(stage->items[1], "optimizer")->string, "lbfgs");
  assert_int_equal(path(f.root, "domain", "x")->n, 2);
  assert_string_equal(path(f.root, "constants", "nu")->string, "0.01/pi");
  assert_string_equal(path(f.root, "equations", "e")->string, "u_t = u_xx");
  const pn_toml *error = path(f.root, "accept", "error");
  assert_true(error->number == 1e-3);
  assert_string_equal(error->place.source->file, "--set");
  assert_int_equal(error->place.column, 14);
  pn_arena_free(&f.arena);
}

static void overrides_below_a_bare_value_keep_it(void **state) {
  (void)state;
  file f = tree_of("[unknowns]\nu = \"x, t\"\n");
  set(&f, "unknowns.u.scale=2");
  const pn_toml *u = path(f.root, "unknowns", "u");
  assert_keys(u, " scale");
  assert_string_equal(u->items[0]->string, "x, t");
  pn_arena_free(&f.arena);
}

static void bad_overrides_are_errors(void **state) {
  (void)state;
  static const char *const bad[] = {
      "novalue", "=3", "a..b=1", "stage.0.steps=1", "stage.7.steps=1", "stage.x.steps=1", "a.=1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    file f = tree_of("[[stage]]\nsteps = 1\n");
    assert_int_equal(pn_toml_set(f.arena, f.root, bad[i]), TN_EINPUT);
    assert_memory_equal(tn_error_text(), "--set:1:", 8);
    pn_arena_free(&f.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_keep_file_order),
      cmocka_unit_test(positions_are_those_of_keys_and_values),
      cmocka_unit_test(syntax_errors_have_a_place),
      cmocka_unit_test(deep_nesting_is_an_error),
      cmocka_unit_test(nesting_that_a_file_needs_is_read),
      cmocka_unit_test(overrides_replace_and_make_keys),
      cmocka_unit_test(overrides_below_a_bare_value_keep_it),
      cmocka_unit_test(bad_overrides_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
