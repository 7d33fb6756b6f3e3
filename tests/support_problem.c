/* support_problem.c: small problem files for tests. */
#include "tests/support_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LARGEST = 16384 };

pn_problem *problem_with(const char *text, size_t n_overrides, const char *const *overrides) {
  pn_problem *p = NULL;
  tn_status status = pn_problem_parse("test.toml", text, n_overrides, overrides, &p);
  if (status != TN_OK)
    fail_msg("%s", tn_error_text());
  return p;
}

pn_problem *problem_of(const char *text) { return problem_with(text, 0, NULL); }

static void text_of_parts(const char *definitions, const char *equations, const char *conditions,
                          char text[LARGEST]) {
  int n = snprintf(text, LARGEST,
                   "[domain]\nx = [0, 2]\ny = [-1, 3]\nt = [0, 1]\n"
                   "[constants]\nnu = 0.1\nc = \"20*nu\"\n"
                   "[unknowns]\nu = \"x, t\"\nv = \"x, y\"\ns = \"t\"\n"
                   "[definitions]\n%s\n[equations]\n%s\n[conditions]\n%s\n",
                   definitions ? definitions : "", equations ? equations : "all = \"u_t = v + s\"",
                   conditions ? conditions : "");
  assert_in_range(n, 1, LARGEST - 1);
}

pn_problem *problem_of_parts(const char *definitions, const char *equations,
                             const char *conditions) {
  char text[LARGEST];
  text_of_parts(definitions, equations, conditions, text);
  return problem_of(text);
}

static void refuse(const char *text, tn_status code, va_list parts) {
  pn_problem *p = NULL;
  tn_status status = pn_problem_parse("test.toml", text, 0, NULL, &p);
  if (status == TN_OK)
    fail_msg("accepted: %s", text);
  assert_null(p);
  for (const char *part = va_arg(parts, const char *); part; part = va_arg(parts, const char *))
    if (!strstr(tn_error_text(), part))
      fail_msg("\"%s\" is not in: %s", part, tn_error_text());
  assert_string_equal(tn_status_name(status), tn_status_name(code));
}

void expect_refusal(const char *text, tn_status code, ...) {
  va_list parts;
  va_start(parts, code);
  refuse(text, code, parts);
  va_end(parts);
}

void expect_parts_refusal(const char *definitions, const char *equations, const char *conditions,
                          tn_status code, ...) {
  char text[LARGEST];
  text_of_parts(definitions, equations, conditions, text);
  va_list parts;
  va_start(parts, code);
  refuse(text, code, parts);
  va_end(parts);
}

const char *printed(pn_problem *problem, const pn_expr *expr) {
  char *text = NULL;
  assert_int_equal(pn_expr_print(problem->arena, expr, problem->coordinate_names, &text), TN_OK);
  return text;
}
