/* test_problem.c: whole files: what they give, what is refused and where, overrides, help. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/toml.h"
#include "pinn/keys.h"
#include "tests/support_problem.h"

static const char burgers[] = "title = \"Burgers\"\n"
                              "accept.error = 1e-3\n"
                              "[domain]\n"
                              "x = [-1, 1]\n"
                              "t = [0, 1]\n"
                              "[constants]\n"
                              "nu = \"0.01/pi\"\n"
                              "[unknowns]\n"
                              "u = \"x, t\"\n"
                              "[equations]\n"
                              "burgers = \"u_t + u*u_x = nu*u_xx\"\n"
                              "[conditions]\n"
                              "initial = { on = \"t = 0\", equation = \"u = -sin(pi*x)\" }\n"
                              "walls   = { on = \"x = -1 or x = 1\", equation = \"u = 0\" }\n"
                              "[exact]\n"
                              "u = \"cole_hopf(x, t, nu)\"\n";

static void a_file_gives_a_problem(void **state) {
  (void)state;
  pn_problem *p = problem_of(burgers);
  assert_string_equal(p->title, "Burgers");
  assert_int_equal(p->n_coordinates, 2);
  assert_string_equal(p->coordinates[0].name, "x"); /* file order, not the alphabet's */
  assert_int_equal(p->coordinates[0].role, PN_SPACE);
  assert_int_equal(p->coordinates[1].role, PN_TIME);
  assert_true(p->coordinates[0].lo == -1 && p->coordinates[0].hi == 1);
  assert_true(p->constants[0].value == 0.01 / 3.14159265358979323846);
  assert_int_equal(p->unknowns[0].n_of, 2);
  assert_non_null(p->unknowns[0].exact);
  assert_true(p->unknowns[0].accept == 1e-3);
  assert_int_equal(p->n_equations, 1);
  assert_int_equal(p->n_conditions, 2);
  assert_int_equal(p->conditions[1].n_pieces, 2);
  assert_int_equal(p->n_stages, 0);
  assert_int_equal(p->n_warnings, 0);
  assert_string_equal(printed(p, p->conditions[0].relations[0].whole), "u = -sin(pi*x)");
  pn_problem_free(&p);
  assert_null(p);
}

static void defaults_are_those_of_the_format(void **state) {
  (void)state;
  pn_problem *p = problem_of(burgers);
  assert_string_equal(p->network.kind, "mlp");
  assert_string_equal(p->network.activation, "tanh");
  assert_int_equal(p->network.width, 0);
  assert_true(isnan(p->network.gain));
  assert_string_equal(p->points.sampler, "sobol");
  assert_int_equal(p->points.every, 500);
  assert_false(p->points.keep_corners);
  assert_string_equal(p->weights.scheme, "balance");
  assert_string_equal(p->numbers.compute, "f64");
  assert_true(p->accept_residual == 1e-2);
  assert_true(p->conditions[0].weight_number == 1 && !p->conditions[0].weight_given);
  assert_true(p->seed == 0 && p->seconds == 0);
  pn_problem_free(&p);
}

/* Exact in binary, so compared exactly; whole powers are products. */
static void constants_are_evaluated(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } rows[] = {{"2^-2", 0.25},
              {"(-2)^3", -8},
              {"0^0", 1},
              {"-2^2", -4},
              {"2^3^2", 512},
              {"4^0.5", 2},
              {"1/4*2", 0.5},
              {"abs(-3) - sign(-2)", 4},
              {"min(3, 1, 2) + max(1, 5)", 6},
              {"where(1 < 2 and not 2 < 1, 7, 8)", 7},
              {"atan2(0, 1)", 0},
              {"later*2", 6}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[512];
    snprintf(text, sizeof text,
             "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\nequations = { e = \"u_x = k\" }\n"
             "constants = { k = \"%s\", later = 3 }\n",
             rows[i].text);
    pn_problem *p = problem_of(text);
    if (p->constants[0].value != rows[i].value)
      fail_msg("%s is %g", rows[i].text, p->constants[0].value);
    pn_problem_free(&p);
  }
}

static void every_setting_is_read(void **state) {
  (void)state;
  char text[4096];
  snprintf(
      text, sizeof text, "%s%s", burgers,
      "[network]\nwidth = \"4*8\"\ndepth = 3\nactivation = \"sin\"\nfourier = 16\n"
      "factorised = true\ngain = 2\n"
      "[points]\ninterior = 1024\nsampler = \"grid\"\nrefine = \"rad\"\nevery = 100\n"
      "batch = 64\ncorners = \"keep\"\n[weights]\nscheme = \"none\"\n"
      "[[stage]]\noptimizer = \"adamw\"\nsteps = 10\nrate = \"1/100\"\nschedule = \"cosine\"\n"
      "clip = 1\ndecay = 0.1\nstall = 50\nstall_factor = 0.5\nseconds = 3\nwarmup = 2\n"
      "[[stage]]\noptimizer = \"lbfgs\"\nmemory = 20\nprecision = \"f32\"\n"
      "[output]\nfields = [\"u_x\", \"u*u_x\"]\ngrid = [65, 33]\n[run]\nseed = 7\nseconds = 60\n");
  pn_problem *p = problem_of(text);
  assert_int_equal(p->network.width, 32);
  assert_true(p->network.factorised && p->network.gain == 2);
  assert_int_equal(p->points.interior, 1024);
  assert_true(p->points.keep_corners);
  assert_string_equal(p->weights.scheme, "none");
  assert_int_equal(p->n_stages, 2);
  assert_string_equal(p->stages[0].optimizer, "adamw");
  assert_true(p->stages[0].rate == 0.01 && p->stages[0].clip == 1 && p->stages[0].decay == 0.1);
  assert_true(p->stages[0].stall == 50 && p->stages[0].stall_factor == 0.5);
  assert_int_equal(p->stages[0].warmup, 2);
  assert_int_equal(p->stages[1].memory, 20);
  assert_true(isnan(p->stages[1].rate));
  assert_string_equal(p->stages[0].precision, "f64");
  assert_string_equal(p->stages[1].precision, "f32");
  assert_int_equal(p->output.n_fields, 2);
  assert_int_equal(p->output.grid[1], 33);
  assert_int_equal(p->seed, 7);
  pn_problem_free(&p);
}

static void entries_carry_what_they_say(void **state) {
  (void)state;
  pn_problem *p = problem_of(
      "[domain]\nx = [0, \"L\"]\ny = { range = [0, 1], periodic = true }\n"
      "[constants]\nL = \"2*half\"\nhalf = 1.5\n"
      "[unknowns.u]\nof = \"x, y\"\nansatz = \"x*(L - x)*net\"\neven = \"x\"\nscale = 3\n"
      "network = { width = 8 }\n[unknowns]\nv = \"x, y\"\n[network]\nwidth = 64\ndepth = 2\n"
      "[equations]\ne = { equation = [\"u_x = v\", \"grad(v) = (u, 1)\"], weight = 5, points = 100 "
      "}\n"
      "f = { equation = \"v_xx >= 0\", weight = \"1 + x\", in = \"x < L/2\" }\n"
      "[conditions]\nh = { on = \"x = 0\", equation = \"u = 0\", hard = true, wins = true }\n"
      "whole = { equation = \"mean(u, domain) = 1\" }\npoint = { equation = \"v(1, 0) = 2\" }\n");
  assert_true(p->coordinates[0].hi == 3 && p->coordinates[1].periodic);
  const pn_unknown *u = &p->unknowns[0], *v = &p->unknowns[1];
  assert_string_equal(printed(p, u->ansatz), "x*(L - x)*net");
  assert_true(u->parity == 1 && u->parity_coordinate == 0 && u->scale == 3);
  assert_int_equal(u->network->width, 8);
  assert_int_equal(u->network->depth, 2); /* what it does not say is that of [network] */
  assert_null(v->network);
  assert_true(isnan(v->scale) && isnan(v->accept));
  const pn_term *e = &p->equations[0], *f = &p->equations[1];
  assert_int_equal(e->n_relations, 3); /* the vector gives two */
  assert_int_equal(e->relations[2].component, 1);
  assert_true(e->weight_number == 5 && e->weight_given);
  assert_int_equal(e->points, 100);
  assert_int_equal(f->relations[0].op, PN_GREATER_EQUAL);
  assert_string_equal(printed(p, f->weight), "1 + x");
  assert_string_equal(printed(p, f->pieces[0].filter), "x < L/2");
  assert_true(p->conditions[0].hard && p->conditions[0].wins);
  assert_int_equal(p->conditions[1].where, PN_INTEGRAL);
  assert_int_equal(p->conditions[2].where, PN_INTEGRAL);
  pn_problem_free(&p);
}

/* Replaces `from` in the Burgers file; the error must start with `place` and have `part`. */
static void assert_refused(const char *from, const char *to, tn_status code, const char *place,
                           const char *part) {
  char text[4096];
  const char *at = strstr(burgers, from);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - burgers), burgers, to, at + strlen(from));
  expect_refusal(text, code, place, part, NULL);
  assert_memory_equal(tn_error_text(), place, strlen(place));
}

static void unknown_symbols_are_marked(void **state) { /* X02 */
  (void)state;
  assert_refused("nu*u_xx", "nu*u_xz", TN_EINPUT, "test.toml:11:29: ",
                 "`u_xz`: u depends on x and t; there is no coordinate `z`. Did you mean `u_xx`?\n"
                 "  11 | burgers = \"u_t + u*u_x = nu*u_xz\"\n"
                 "     |                             ^^^^");
  expect_refusal("domain = { t = [0, 1], S = [0, 1] }\nunknowns = { V = \"t, S\" }\n"
                 "equations = { bs = \"V_t + 0.5*S^2*V_VV = 0\" }\n",
                 TN_EINPUT, "test.toml:3:35: `V_VV`: V is an unknown, derivatives go by t, S",
                 NULL);
  assert_refused("= nu*u_xx", "= foo(u)", TN_EINPUT,
                 "test.toml:11:26: ", "The functions are sqrt exp");
}

static void misspelt_keys_are_errors(void **state) { /* X05 */
  (void)state;
  assert_refused(
      "[exact]", "[[stage]]\nstepz = 100\n[exact]", TN_EINPUT, "test.toml:16:1: ",
      "unknown key `stepz` in [[stage]] 1. Did you mean `steps`? (`pinn keys stage` lists all)");
  assert_refused("[exact]", "[[stage]]\nsteps = true\n[exact]", TN_EINPUT, "test.toml:16:9: ",
                 "`steps` in [[stage]] 1 takes a whole number, not true or false");
  assert_refused("[exact]", "[[stage]]\nsteps = 1.5\n[exact]", TN_EINPUT,
                 "test.toml:16:9: ", "whole number");
  assert_refused("[exact]", "[[stage]]\nsteps = -1\n[exact]", TN_EINPUT,
                 "test.toml:16:9: ", "negative");
  assert_refused("[exact]", "[[stage]]\nsteps = 0\n[exact]", TN_EINPUT,
                 "test.toml:16:9: ", "`steps` is 0; expected \"auto\" or 1 to ");
  assert_refused("[exact]", "[network]\ndepth = 1000000000000\n[exact]", TN_EINPUT,
                 "test.toml:16:9: ", "expected \"auto\" or 1 to 1000");
  assert_refused("[exact]", "[output]\ngrid = [100000, 100000]\n[exact]", TN_EINPUT,
                 "test.toml:16:8: ", "the grid of `u` has 1e+10 points");
  assert_refused("burgers = \"u_t", "\"a b\" = \"u_t", TN_EINPUT,
                 "test.toml:11:1: ", "`a b` cannot be a name");
  assert_refused("x = [-1, 1]", "x = [nan, 1]", TN_EINPUT,
                 "test.toml:", "a number of the list is nan");
  assert_refused("[exact]", "[network]\nrate = 1\n[exact]", TN_EINPUT,
                 "test.toml:16:1: ", "`rate` is a key of [[stage]], not of [network]");
  assert_refused("[exact]", "[stage]\nsteps = 1\n[exact]", TN_EINPUT,
                 "test.toml:15:1: ", "[[stage]]");
  assert_refused("[exact]", "[exact]\nu = \"0\"", TN_EINPUT, "test.toml:17:", "u");
  assert_refused("[equations]", "[equatons]", TN_EINPUT,
                 "test.toml:10:", "Did you mean `equations`?");
  assert_refused("on = \"t = 0\"", "onn = \"t = 0\"", TN_EINPUT, "test.toml:13:13: ",
                 "unknown key `onn` in [conditions.initial]. Did you mean `on`?");
  assert_refused("[exact]", "[points]\nsampler = \"sobel\"\n[exact]", TN_EINPUT,
                 "test.toml:16:11: ", "Did you mean \"sobol\"?");
}

static void keys_below_the_wrong_header_are_explained(void **state) {
  (void)state;
  expect_refusal(
      "title = \"Heat\"\n\n[domain]\nx = [0, 1]\n\nunknowns = { u = \"x\" }\n", TN_EINPUT,
      "test.toml:6:1: `unknowns` is read as domain.unknowns because it stands below [domain] "
      "(line 3). Write [unknowns], or move it above line 3.",
      NULL);
  expect_refusal("[network]\nwidth = 3\ntitle = \"a\"\n", TN_EINPUT,
                 "test.toml:3:1: ", "network.title", NULL);
  expect_refusal("[constants]\nnu = 1\nequations = { e = \"u_x = 0\" }\n", TN_EINPUT,
                 "test.toml:3:1: ", "constants.equations", NULL);
}

static void wrong_places_are_errors(void **state) { /* B22 and the fifth error of the format */
  (void)state;
  assert_refused("x = -1 or x = 1", "x = 3", TN_EINPUT, "test.toml:14:19: ",
                 "\"x = 3\" lies outside x in [-1, 1]: condition `walls` selects no points.");
  assert_refused("equation = \"u = 0\"", "equation = \"u = 0\", points = 0", TN_EINPUT,
                 "test.toml:14:", "`walls` selects 0 points");
  assert_refused("on = \"t = 0\"", "on = \"t = 0\", in = \"x < 0\"", TN_EINPUT,
                 "test.toml:13:", "both on");
  assert_refused("on = \"t = 0\", ", "", TN_EINPUT, "test.toml:13:1: ", "varies with x");
  assert_refused("equation = \"u = 0\"", "equation = \"0 = 0\"", TN_EINPUT,
                 "test.toml:14:49: ", "no unknown");
}

static void wrong_values_are_errors(void **state) {
  (void)state;
  assert_refused("[-1, 1]", "[1, -1]", TN_EINPUT, "test.toml:4:5: ", "below the second");
  assert_refused("[-1, 1]", "[-1, \"q\"]", TN_EINPUT, "test.toml:4:11: ", "`q` is not declared");
  assert_refused("[-1, 1]", "[0, \"u\"]", TN_EINPUT, "test.toml:", "is an end of x and depends on x");
  assert_refused("\"0.01/pi\"", "\"2*mu\"\nmu = \"nu/2\"", TN_EINPUT,
                 "test.toml:7:1: ", "depends on itself");
  assert_refused("\"0.01/pi\"", "\"sqrt(-1)\"", TN_EINPUT, "test.toml:7:7: ", "not a number");
  assert_refused("\"0.01/pi\"", "\"x\"", TN_EINPUT, "test.toml:7:7: ", "a constant cannot use it");
  assert_refused("\"0.01/pi\"", "1/2", TN_EINPUT, "test.toml:7:", "in quotes: nu = \"1/2\"");
  assert_refused("[-1, 1]", "[0, 2*pi]", TN_EINPUT, "test.toml:4:", "quotes: x = [0, \"2*pi\"]");
  assert_refused("\"0.01/pi\"", "t", TN_EINPUT, "test.toml:7:", "saw 't'; an expression");
  assert_refused("\"0.01/pi\"", "inf", TN_EINPUT, "test.toml:7:6: ", "inf");
  assert_refused("u = \"x, t\"", "u = \"x, q\"", TN_EINPUT, "test.toml:9:9: ", "no coordinate");
  assert_refused("u = \"x, t\"", "u = \"x, x\"", TN_EINPUT, "test.toml:9:9: ", "twice");
  assert_refused("u = \"x, t\"", "u = \"x t\"", TN_EINPUT, "test.toml:9:8: ", "comma");
  assert_refused("u = \"x, t\"", "u = { of = \"x, t\", ansatz = \"x\" }", TN_EINPUT,
                 "test.toml:9:", "net");
  assert_refused("u = \"cole_hopf(x, t, nu)\"", "u = \"u_x\"", TN_EINPUT,
                 "test.toml:16:", "an unknown");
  assert_refused("u = \"cole_hopf(x, t, nu)\"", "v = \"x\"", TN_EINPUT,
                 "test.toml:16:1: ", "not an unknown");
  assert_refused("[exact]\nu = \"cole_hopf(x, t, nu)\"", "", TN_EINPUT,
                 "test.toml:2:8: ", "[exact]");
  assert_refused("u*u_x = nu*u_xx", "u*u_x", TN_EINPUT, "test.toml:11:12: ", "= 0");
  assert_refused("title = ", "format = 2\ntitle = ", TN_EUNSUPPORTED,
                 "test.toml:1:10: ", "format 1");
  expect_refusal("", TN_EINPUT, "no coordinates", NULL);
  expect_refusal("[domain]\nx = [0, 1]\n", TN_EINPUT, "no unknowns", NULL);
  expect_refusal("[domain]\nx = [0, 1]\n[unknowns]\nu = \"x\"\n", TN_EINPUT, "no equations", NULL);
}

static void unused_unknowns_are_warned_about(void **state) {
  (void)state;
  pn_problem *p = problem_of("domain = { x = [0, 1] }\nunknowns = { u = \"x\", p = \"x\" }\n"
                             "equations = { e = \"u_x = 0\" }\n");
  assert_int_equal(p->n_warnings, 1);
  assert_non_null(strstr(p->warnings[0], "no equation mentions the unknown `p`"));
  assert_memory_equal(p->warnings[0], "test.toml:2:23: ", 16);
  pn_problem_free(&p);
}

static void overrides_are_checked_like_the_file(void **state) {
  (void)state;
  const char *const good[] = {"constants.nu=0.02/pi",      "conditions.walls.weight=10",
                              "domain.x=[-2, 2]",          "accept.error=1e-4",
                              "conditions.walls.on=x = 2", "unknowns.u.scale=2"};
  pn_problem *p = problem_with(burgers, 6, good);
  assert_true(p->constants[0].value == 0.02 / 3.14159265358979323846);
  assert_true(p->conditions[1].weight_number == 10);
  assert_true(p->coordinates[0].lo == -2);
  assert_true(p->unknowns[0].accept == 1e-4 && p->unknowns[0].scale == 2);
  assert_int_equal(p->n_overrides, 6);
  pn_problem_free(&p);
  const char *const bad[] = {"stage.1.stepz=5"};
  assert_int_equal(pn_problem_parse("test.toml", burgers, 1, bad, &p), TN_EINPUT);
  assert_string_equal(tn_error_text(),
                      "--set:1:1: unknown key `stepz` in [[stage]] 1. Did you mean "
                      "`steps`? (`pinn keys stage` lists all)\n"
                      "   1 | stage.1.stepz=5\n     | ^^^^^");
}

static void an_override_of_a_stage_changes_the_default_plan(void **state) {
  (void)state;
  const char *const overrides[] = {"stage.1.steps=50", "stage.2.steps=9"};
  pn_problem *p = problem_with(burgers, 2, overrides);
  assert_int_equal(p->n_stages, 2);
  assert_string_equal(p->stages[0].optimizer, "adam");
  assert_string_equal(p->stages[0].schedule, "cosine");
  assert_int_equal(p->stages[0].steps, 50);
  assert_string_equal(p->stages[1].optimizer, "auto");
  assert_int_equal(p->stages[1].steps, 9);
  pn_problem_free(&p);
}

/* ---- The files of the format's description --------------------------------------------------- */

static const struct {
  const char *name, *place, *part; /* place NULL: this version has all of it */
} files[] = {{"01_burgers", NULL, NULL},
             {"02_ell", NULL, NULL},
             {"03_helmholtz", NULL, NULL},
             {"04_kovasznay", NULL, NULL},
             {"05_cavity", NULL, NULL},
             {"06_materials", NULL, NULL},
             {"07_schroedinger", NULL, NULL},
             {"08a_lotka_volterra", NULL, NULL},
             {"08b_inverse", NULL, NULL},
             {"09_field", NULL, NULL},
             {"10_beam", NULL, NULL},
             {"11_allen_cahn", NULL, NULL},
             {"12_layer", NULL, NULL},
             {"13_volterra", NULL, NULL},
             {"14_ball", NULL, NULL},
             {"15_plate", NULL, NULL}};
enum { N_FILES = sizeof files / sizeof files[0] };

static void path_of(size_t i, char path[1024]) {
  snprintf(path, 1024, "%s/problems/%s.toml", TESTS_DATA_DIR, files[i].name);
}

static void files_load_or_say_what_is_missing(void **state) {
  (void)state;
  for (size_t i = 0; i < N_FILES; ++i) {
    char path[1024];
    pn_problem *p = NULL;
    path_of(i, path);
    tn_status status = pn_problem_load(path, 0, NULL, &p);
    if (status != (files[i].place ? TN_EUNSUPPORTED : TN_OK))
      fail_msg("%s: %s", files[i].name, tn_error_text());
    if (files[i].place) {
      assert_non_null(strstr(tn_error_text(), files[i].place));
      assert_non_null(strstr(tn_error_text(), files[i].part));
    }
    pn_problem_free(&p);
  }
}

/* Parses every expression of a table, whichever keys this version has. */
static void parse_strings(pn_arena *arena, const pn_toml *node, const char *table,
                          const char *key) {
  if (node->kind != PN_TOML_STRING) {
    for (size_t i = 0; i < node->n; ++i)
      parse_strings(arena, node->items[i], table,
                    node->items[i]->key[0] ? node->items[i]->key : key);
    return;
  }
  static const char *const others[] = {"of", "data", "even", "file", "kind", "columns"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i)
    if (strcmp(key, others[i]) == 0)
      return;
  pn_phrase phrase = {node->string, node->place, true};
  pn_expr *e = NULL;
  tn_status status = TN_OK;
  if (strcmp(key, "on") == 0 || strcmp(key, "in") == 0 || strcmp(key, "region") == 0)
    status = pn_parse_predicate(arena, &phrase, &e);
  else if (strcmp(table, "equations") == 0 || strcmp(table, "conditions") == 0 ||
           strcmp(table, "checks") == 0)
    status = strcmp(key, "day") == 0 ? TN_OK : pn_parse_relation(arena, &phrase, &e);
  else
    status = pn_parse_value(arena, &phrase, &e);
  if (status != TN_OK)
    fail_msg("%s", tn_error_text());
}

static void every_expression_of_the_files_parses(void **state) {
  (void)state;
  static const char *const tables[] = {"constants", "definitions", "equations", "conditions",
                                       "checks",    "exact",       "domain"};
  for (size_t i = 0; i < N_FILES; ++i) {
    char path[1024], text[8192];
    path_of(i, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    pn_arena *arena = NULL;
    pn_toml *root = NULL;
    pn_source source = {files[i].name, text, n};
    assert_int_equal(pn_arena_new(&arena), TN_OK);
    assert_int_equal(pn_toml_parse(arena, &source, &root), TN_OK);
    for (size_t k = 0; k < sizeof tables / sizeof tables[0]; ++k) {
      pn_toml *table = pn_toml_find(root, tables[k]);
      for (size_t e = 0; table && e < table->n; ++e) {
        pn_toml *columns = pn_toml_find(table->items[e], "columns");
        if (columns)
          columns->n = 0;
        if (strcmp(tables[k], "domain") != 0 || strcmp(table->items[e]->key, "region") == 0)
          parse_strings(arena, table->items[e], tables[k],
                        strcmp(tables[k], "domain") == 0 ? "region" : "");
      }
    }
    pn_arena_free(&arena);
  }
}

/* ---- Help, memory, hostile input ------------------------------------------------------------- */

static size_t written(tn_status (*write)(FILE *), char *out, size_t size) {
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_int_equal(write(file), TN_OK);
  rewind(file);
  size_t n = fread(out, 1, size - 1, file);
  out[n] = 0;
  fclose(file);
  return n;
}

static void the_schema_is_balanced_and_lists_keys(void **state) {
  (void)state;
  static char text[65536];
  assert_true(written(pn_keys_schema, text, sizeof text) > 1000);
  int depth = 0;
  bool quoted = false;
  for (const char *c = text; *c; ++c) {
    if (*c == '"' && c[-1] != '\\')
      quoted = !quoted;
    if (!quoted)
      depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
    assert_true(depth >= 0);
  }
  assert_int_equal(depth, 0);
  assert_non_null(strstr(text, "\"steps\""));
  assert_non_null(strstr(text, "\"shapes\""));
}

static void help_lists_tables_and_marks_what_is_missing(void **state) {
  (void)state;
  static char text[65536];
  written(pn_keys_markdown, text, sizeof text);
  assert_non_null(strstr(text, "## [[stage]]"));
  assert_non_null(strstr(text, "| **`of`** |"));
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_int_equal(pn_keys_text(file, "stage"), TN_OK);
  assert_int_equal(pn_keys_text(file, NULL), TN_OK);
  bool complete = true;
  for (size_t i = 0; i < pn_key_count; ++i)
    complete = complete && pn_key_list[i].available;
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  assert_non_null(strstr(text, "  steps "));
  assert_true(complete || strstr(text, "[not in this version]"));
  assert_int_equal(pn_keys_text(file, "stages"), TN_EINPUT);
  assert_non_null(strstr(tn_error_text(), "Did you mean `stage`?"));
  fclose(file);
}

/* Each allocation fails once; every failure is reported and nothing leaks. */
static void lack_of_memory_is_reported(void **state) {
  (void)state;
  size_t before = tn_memory_now();
  for (uint64_t n = 1;; ++n) {
    pn_problem *p = NULL;
    tn_fault_at(n, false);
    tn_status status = pn_problem_parse("test.toml", burgers, 0, NULL, &p);
    uint64_t count = tn_fault_count();
    tn_fault_at(0, false);
    pn_problem_free(&p);
    assert_int_equal(tn_memory_now(), before);
    if (status == TN_OK) {
      assert_true(count < n);
      break;
    }
    assert_int_equal(status, TN_ENOMEM);
  }
}

/* Each byte of the file is deleted or changed: refused or read, never a crash. */
static void damaged_files_do_no_harm(void **state) {
  (void)state;
  static const char changes[] = "\"[{=_().x\n\\"; /* and its final 0: deletion */
  for (size_t i = 0; i < strlen(burgers); ++i)
    for (size_t k = 0; k < sizeof changes; ++k) {
      pn_problem *p = NULL;
      char text[1024];
      snprintf(text, sizeof text, "%.*s%.1s%s", (int)i, burgers, changes + k, burgers + i + 1);
      tn_status status = pn_problem_parse("test.toml", text, 0, NULL, &p);
      assert_true(status == TN_OK || status == TN_EINPUT || status == TN_EUNSUPPORTED);
      pn_problem_free(&p);
    }
}

/* A chain of 900 definitions is read; 80 doublings of a vector or a function are refused. */
static void growth_is_bounded(void **state) {
  (void)state;
  static const char head[] = "domain = { x = [0, 1] }\nunknowns = { u = \"x\" }\n";
  static const char *const lines[] = {"d%d = \"d%d + u\"\n", "d%d = \"d%d + d%d\"\n",
                                      "d%d = { value = \"d%d(a) + d%d(a)\", of = \"a\" }\n"};
  static const char *const first[] = {"d0 = \"u\"\n", "d0 = \"(u, u_x)\"\n",
                                      "d0 = { value = \"a\", of = \"a\" }\n"};
  static const char *const use[] = {"u_x = d899", "norm(d80) = 1", "d14(u) = 0"};
  static const int count[] = {899, 80, 900};
  for (size_t k = 0; k < 3; ++k) {
    char *text = malloc(100000), *at = text;
    assert_non_null(text);
    at += sprintf(at, "%s[equations]\ne = \"%s\"\n[definitions]\n%s", head, use[k], first[k]);
    for (int i = 1; i <= count[k]; ++i) {
      if (k == 0)
        at += sprintf(at, lines[0], i, i - 1);
      else
        at += sprintf(at, lines[k], i, i - 1, i - 1);
    }
    pn_problem *p = NULL;
    assert_int_equal(pn_problem_parse("test.toml", text, 0, NULL, &p), k ? TN_EINPUT : TN_OK);
    if (k)
      assert_non_null(strstr(tn_error_text(), "expand"));
    pn_problem_free(&p);
    free(text);
  }
}

static void a_missing_file_is_no_input_error(void **state) {
  (void)state;
  pn_problem *p = NULL;
  assert_int_equal(pn_problem_load("no-such-file.toml", 0, NULL, &p), TN_EIO);
  assert_null(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_gives_a_problem),
      cmocka_unit_test(defaults_are_those_of_the_format),
      cmocka_unit_test(constants_are_evaluated),
      cmocka_unit_test(every_setting_is_read),
      cmocka_unit_test(entries_carry_what_they_say),
      cmocka_unit_test(unknown_symbols_are_marked),
      cmocka_unit_test(misspelt_keys_are_errors),
      cmocka_unit_test(keys_below_the_wrong_header_are_explained),
      cmocka_unit_test(wrong_places_are_errors),
      cmocka_unit_test(wrong_values_are_errors),
      cmocka_unit_test(unused_unknowns_are_warned_about),
      cmocka_unit_test(overrides_are_checked_like_the_file),
      cmocka_unit_test(an_override_of_a_stage_changes_the_default_plan),
      cmocka_unit_test(files_load_or_say_what_is_missing),
      cmocka_unit_test(every_expression_of_the_files_parses),
      cmocka_unit_test(the_schema_is_balanced_and_lists_keys),
      cmocka_unit_test(help_lists_tables_and_marks_what_is_missing),
      cmocka_unit_test(lack_of_memory_is_reported),
      cmocka_unit_test(damaged_files_do_no_harm),
      cmocka_unit_test(growth_is_bounded),
      cmocka_unit_test(a_missing_file_is_no_input_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
