/* test_html.c: the report is well-formed, escapes every text, and needs nothing from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pinn/files.h"
#include "pinn/html.h"

#define OK(call) assert_int_equal((call), TN_OK)

static const char evil[] = "<script>alert('1 & \"2\"')</script>";
static const char safe[] = "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;";

/* Every builder once, every text `text`. */
static tn_status build(const char *text, pn_report **out) {
  const char *const cells[] = {text, "1.5e-3", NULL, "-2", "x", "3 s"};
  const char *const texts[] = {text, text};
  TN_TRY(pn_report_new(text, out));
  pn_report_verdict(*out, true, text, text);
  for (int i = 0; i < 3; ++i)
    pn_report_section(*out, text);
  pn_report_heading(*out, text);
  pn_report_paragraph(*out, text);
  pn_report_warning(*out, text);
  pn_report_pre(*out, text);
  pn_report_math(*out, "<math><mi>u</mi></math>");
  pn_report_figure(*out, "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>", text);
  pn_report_table(*out, 2, texts, 3, cells);
  pn_report_pairs(*out, 2, texts, texts);
  pn_report_folded(*out, text, text);
  return TN_OK;
}

static size_t count(const char *text, const char *part) {
  size_t n = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
    ++n;
  return n;
}

static void html_escapes_every_text(void **state) {
  (void)state;
  pn_report *r = NULL;
  char *text = NULL;
  OK(build(evil, &r));
  OK(pn_report_text(r, &text, NULL));
  assert_null(strstr(text, "<script"));
  /* title twice, verdict 2, sections 3 in list and body, 4 lines, caption, 2 headers, 1 cell, 4
   * pairs, 2 */
  assert_int_equal(count(text, safe), 2 + 2 + 6 + 4 + 1 + 2 + 1 + 4 + 2);
  assert_int_equal(count(text, "<math><mi>u</mi></math>"), 1); /* markup stays markup */
  tn_free(&text);
  pn_report_free(&r);
  assert_null(r);
}

/* Reads a tag at '<' and keeps the stack of open elements; returns the place behind it. */
static const char *step(const char *at, char stack[][16], size_t *depth) {
  const char *end = strchr(at, '>');
  assert_non_null(end);
  bool closing = at[1] == '/';
  const char *name = at + 1 + closing;
  size_t n = strcspn(name, " >/\n");
  assert_true(n < 16);
  bool empty = end[-1] == '/' || at[1] == '!' || !strncmp(name, "meta", 4);
  if (closing) {
    assert_true(*depth > 0);
    --*depth;
    assert_int_equal(strlen(stack[*depth]), n);
    assert_memory_equal(stack[*depth], name, n);
  } else if (!empty) {
    assert_true(*depth < 20);
    memcpy(stack[*depth], name, n);
    stack[(*depth)++][n] = 0;
  }
  return end + 1;
}

static void html_closes_what_it_opens(void **state) {
  (void)state;
  pn_report *r = NULL;
  char *text = NULL, stack[20][16];
  size_t depth = 0;
  OK(build("plain", &r));
  OK(pn_report_text(r, &text, NULL));
  for (const char *at = strchr(text, '<'); at; at = strchr(at, '<'))
    at = step(at, stack, &depth);
  assert_int_equal(depth, 0);
  tn_free(&text);
  pn_report_free(&r);
}

static void html_needs_nothing_from_outside(void **state) {
  (void)state;
  pn_report *r = NULL;
  char *text = NULL;
  OK(build("plain", &r));
  OK(pn_report_text(r, &text, NULL));
  assert_int_equal(count(text, "http"), 2); /* the policy's http-equiv and the name space of SVG */
  assert_null(strstr(text, "<link"));
  assert_null(strstr(text, "url("));
  assert_null(strstr(text, "@import"));
  assert_non_null(strstr(text, "default-src 'none'"));
  tn_free(&text);
  pn_report_free(&r);
}

static void html_shows_verdict_and_numbers(void **state) {
  (void)state;
  pn_report *r = NULL;
  char *text = NULL;
  const char *const headers[] = {"term", "loss"};
  const char *const cells[] = {"burgers", "1e-3", "walls", "2e-4"};
  OK(pn_report_new("t", &r));
  pn_report_verdict(r, false, "NOT CONVERGED", "u: 3.1e-1 > 1e-3");
  pn_report_table(r, 2, headers, 2, cells);
  pn_report_section(r, "One");
  pn_report_pre(r, "\nkept\n");
  OK(pn_report_text(r, &text, NULL));
  assert_non_null(
      strstr(text, "<p class=\"verdict bad\"><b>NOT CONVERGED</b>u: 3.1e-1 &gt; 1e-3</p>"));
  assert_non_null(strstr(text, "<td>burgers</td><td class=\"number\">1e-3</td>"));
  assert_non_null(strstr(text, "<th>term</th><th class=\"number\">loss</th>"));
  assert_non_null(strstr(text, "<pre>\n\nkept\n</pre>")); /* the first line end is not shown */
  assert_null(strstr(text, "<nav>"));                     /* not worth it for one section */
  tn_free(&text);
  pn_report_free(&r);
}

static void html_writes_the_same_text_to_a_file(void **state) {
  (void)state;
  pn_report *r = NULL;
  char *text = NULL;
  uint8_t *bytes = NULL;
  size_t n1 = 0, n2 = 0;
  OK(build("a \xff b", &r)); /* not UTF-8 */
  OK(pn_report_text(r, &text, &n1));
  assert_non_null(strstr(text, "a \xef\xbf\xbd b"));
  OK(pn_report_write(r, "test_html.html"));
  OK(pn_read_file("test_html.html", 1 << 20, &bytes, &n2));
  unlink("test_html.html");
  assert_int_equal(n1, n2);
  assert_memory_equal(text, bytes, n1);
  tn_free(&bytes);
  tn_free(&text);
  pn_report_free(&r);
}

static void html_reports_failed_allocations(void **state) {
  (void)state;
  size_t failures = 0;
  for (uint64_t k = 1;; ++k) {
    pn_report *r = NULL;
    char *text = NULL;
    tn_fault_at(k, false);
    tn_status status = build("text", &r);
    if (status == TN_OK)
      status = pn_report_text(r, &text, NULL);
    tn_fault_at(0, false);
    tn_free(&text);
    pn_report_free(&r);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
    assert_null(text);
    ++failures;
  }
  assert_true(failures > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(html_escapes_every_text),
      cmocka_unit_test(html_closes_what_it_opens),
      cmocka_unit_test(html_needs_nothing_from_outside),
      cmocka_unit_test(html_shows_verdict_and_numbers),
      cmocka_unit_test(html_writes_the_same_text_to_a_file),
      cmocka_unit_test(html_reports_failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
