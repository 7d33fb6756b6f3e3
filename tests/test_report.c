/* test_report.c: reports as Markdown, JSON and a page: advice first, texts escaped, pictures that need
 * nothing from elsewhere.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "validate/report_text.h"

static const char *const nasty = "a < b & \"c\" | d";

static vd_report *filled(void) {
  vd_report *report = NULL;
  const char *const heads[] = {"what", "size"};
  const char *const cells[] = {nasty, "1.5e-07", "nothing", "nan"};
  const double x[] = {0, 1, 2}, y[] = {1e-7, 1e-3, 1e-2}, other[] = {1e-16, 0, NAN};
  const vd_curve curves[] = {{"f32 <low>", 3, x, y, 300}, {"f64", 3, x, other, 12}};
  const char *const groups[] = {"u", "u_x", "u_xx"};
  vd_plot plot = {.kind = VD_LINES,
                  .title = nasty,
                  .x_label = "order",
                  .y_label = "error",
                  .log_y = true,
                  .groups = groups,
                  .n_groups = 3,
                  .n_curves = 2,
                  .curve = curves};
  vd_row row = {.subject = "u_xx",
                .dtype = "f32",
                .method = "program",
                .measure = "norm2",
                .order = 2,
                .points = 300,
                .value = INFINITY,
                .bound = 1};
  assert_int_equal(vd_report_new(&report), TN_OK);
  assert_int_equal(vd_report_advise(report, "Use f64 <here>."), TN_OK);
  assert_int_equal(vd_report_advise(report, "It is enough."), TN_OK);
  assert_int_equal(vd_report_add(report, &row), TN_OK);
  row.value = 0.5;
  row.pass = true;
  assert_int_equal(vd_report_add(report, &row), TN_OK);
  assert_int_equal(vd_report_table(report, "Sizes", 2, heads, 2, cells), TN_OK);
  for (int kind = VD_LINES; kind <= VD_STEPS; ++kind) {
    plot.kind = (vd_plot_kind)kind;
    plot.log_y = kind != VD_STEPS;
    plot.n_groups = kind == VD_STEPS ? 0 : 3;
    assert_int_equal(vd_report_plot(report, &plot), TN_OK);
  }
  return report;
}

static size_t count(const char *text, const char *part) {
  size_t n = 0;
  for (; (text = strstr(text, part)) != NULL; ++text)
    ++n;
  return n;
}

/* Every tag is closed, in order: names of open elements on a stack. */
static void check_tags(const char *page) {
  char open[32][16];
  size_t depth = 0;
  for (const char *p = strchr(page, '<'); p; p = strchr(p + 1, '<')) {
    size_t n = strcspn(p + 1, " />\n");
    const char *end = strchr(p, '>');
    bool closing = p[1] == '/';
    assert_non_null(end);
    if (p[1] == '!' || strncmp(p + 1, "meta", 4) == 0 || (end[-1] == '/' && !closing))
      continue;
    if (closing) {
      n = strcspn(p + 2, ">");
      assert_true(depth > 0);
      --depth;
      assert_true(strlen(open[depth]) == n && strncmp(open[depth], p + 2, n) == 0);
      continue;
    }
    assert_true(depth < 32 && n < 16);
    snprintf(open[depth++], 16, "%.*s", (int)n, p + 1);
  }
  assert_int_equal(depth, 0);
}

static void page_needs_nothing_and_escapes_everything(void **state) {
  (void)state;
  vd_report *report = filled();
  char *page = NULL;
  assert_int_equal(vd_report_html(report, nasty, &page), TN_OK);
  check_tags(page);
  assert_int_equal(count(page, "<svg "), 3);
  assert_int_equal(count(page, "<script"), 0);
  assert_int_equal(count(page, "http"), 1 + 3); /* http-equiv, and the name space of each picture */
  assert_int_equal(count(page, "src="), 0);
  assert_int_equal(count(page, "url("), 0);
  assert_int_equal(count(page, "b & "), 0);
  assert_int_equal(count(page, "<low>"), 0);
  assert_true(count(page, "a &lt; b &amp; &quot;c&quot; | d") >=
              6); /* head, heading, pictures, cell */
  assert_true(count(page, "300 entries") == 3 && count(page, "12 entries") == 3);
  assert_int_equal(count(page, "class=\"fail\""), 1);
  /* the advice stands before everything else, the row that fails before the one that does not */
  const char *advice = strstr(page, "Use f64 &lt;here&gt;. It is enough.");
  assert_true(advice && advice < strstr(page, "<svg ") && advice < strstr(page, "<table"));
  assert_true(strstr(page, ">FAIL<") < strstr(page, ">ok<"));
  tn_free(&page);
  vd_report_free(&report);
}

static void markdown_and_json_say_the_same(void **state) {
  (void)state;
  vd_report *report = filled();
  char *text = NULL;
  assert_int_equal(vd_report_markdown(report, "T", false, &text), TN_OK);
  assert_int_equal(strncmp(text, "# T\n\nUse f64 <here>. It is enough.\n\n2 rows, 1 fail.\n", 52),
                   0);
  assert_non_null(strstr(text, "| what | size |\n|---|---|\n| a < b & \"c\" \\| d | 1.5e-07 |\n"));
  tn_free(&text);
  assert_int_equal(vd_report_json(report, "T", &text), TN_OK);
  assert_non_null(strstr(text, "\"advice\":\"Use f64 <here>. It is enough.\""));
  assert_non_null(strstr(text, "[\"a < b & \\\"c\\\" | d\",1.5e-07],\n[\"nothing\",null]"));
  assert_non_null(strstr(text, "\"value\":null"));
  assert_non_null(strstr(text, "\"failures\":1}"));
  tn_free(&text);
  assert_string_equal(vd_report_cell(report, 0, 0, 1), "1.5e-07");
  assert_null(vd_report_cell(report, 0, 2, 0));
  assert_int_equal(vd_report_tables(report), 1);
  vd_report_free(&report);
}

/* Higher values stand higher; a decade is a decade; what has no logarithm is left out. */
static void pictures_have_the_right_geometry(void **state) {
  (void)state;
  const double x[] = {0, 1, 2, 3}, y[] = {1e-8, 1e-6, 0, 1e-4};
  const vd_curve curve = {"c", 4, x, y, 0};
  const vd_plot plot = {
      .kind = VD_LINES, .title = "t", .log_y = true, .n_curves = 1, .curve = &curve};
  char *svg = NULL;
  double at[3][2];
  assert_int_equal(vd_plot_svg(&plot, &svg), TN_OK);
  assert_int_equal(count(svg, "<circle "), 3); /* not the zero */
  const char *p = svg;
  for (int i = 0; i < 3; ++i) {
    p = strstr(p, "<circle ") + 1;
    assert_int_equal(sscanf(p, "circle cx=\"%lf\" cy=\"%lf\"", &at[i][0], &at[i][1]), 2);
  }
  assert_true(at[0][0] < at[1][0] && at[1][0] < at[2][0]);
  assert_true(at[0][1] > at[1][1] && at[1][1] > at[2][1]);
  assert_true(fabs((at[0][1] - at[1][1]) - (at[1][1] - at[2][1])) < 0.3); /* two decades each */
  tn_free(&svg);
}

static void empty_pictures_are_pictures(void **state) {
  (void)state;
  for (int kind = VD_LINES; kind <= VD_STEPS; ++kind) {
    const vd_plot plot = {.kind = (vd_plot_kind)kind, .log_y = true};
    char *svg = NULL;
    assert_int_equal(vd_plot_svg(&plot, &svg), TN_OK);
    check_tags(svg);
    assert_int_equal(count(svg, "nan") + count(svg, "inf"), 0);
    tn_free(&svg);
  }
}

static void numbers_are_told_from_texts(void **state) {
  (void)state;
  static const char *const yes[] = {"0", "-1", "12.5", "1e5", "1.5e-07", "-0.25E+3"};
  static const char *const no[] = {"",    "-",   "01",  "1.",  ".5", "1e",
                                   "nan", "inf", "1 2", "0x1", "+1"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; ++i)
    assert_true(vd_is_number(yes[i]));
  for (size_t i = 0; i < sizeof no / sizeof *no; ++i)
    assert_false(vd_is_number(no[i]));
}

static void failed_allocations_leave_nothing_behind(void **state) {
  (void)state;
  vd_report *report = filled();
  size_t before = tn_memory_now();
  tn_status status = TN_ENOMEM;
  for (uint64_t n = 1; status != TN_OK; ++n) {
    char *text = NULL;
    tn_fault_at(n, false);
    status = vd_report_html(report, "t", &text);
    if (status != TN_OK)
      assert_int_equal(status, TN_ENOMEM);
    tn_free(&text);
    assert_int_equal(tn_memory_now(), before);
  }
  status = TN_ENOMEM;
  for (uint64_t n = 1; status != TN_OK; ++n) {
    const char *const cell = "x";
    vd_report *other = NULL;
    const double y = 1;
    const vd_curve curve = {"c", 1, &y, &y, 3};
    const vd_plot plot = {
        .kind = VD_BARS, .groups = &cell, .n_groups = 1, .n_curves = 1, .curve = &curve};
    tn_fault_at(n, false);
    status = vd_report_new(&other);
    if (status == TN_OK)
      status = vd_report_advise(other, "a");
    if (status == TN_OK)
      status = vd_report_table(other, "t", 1, &cell, 1, &cell);
    if (status == TN_OK)
      status = vd_report_plot(other, &plot);
    vd_report_free(&other);
    assert_int_equal(tn_memory_now(), before);
  }
  tn_fault_at(0, false);
  vd_report_free(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(page_needs_nothing_and_escapes_everything),
      cmocka_unit_test(markdown_and_json_say_the_same),
      cmocka_unit_test(pictures_have_the_right_geometry),
      cmocka_unit_test(empty_pictures_are_pictures),
      cmocka_unit_test(numbers_are_told_from_texts),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
