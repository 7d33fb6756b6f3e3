/* test_log.c: the log callback, and the warning about a place whose steps are new programs each time.
 */
#include "tests/support_exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct heard {
  int count;
  tn_log_level level;
  char text[2048];
} heard;

static void hear(void *context, tn_log_level level, const char *text) {
  heard *h = context;
  ++h->count;
  h->level = level;
  snprintf(h->text, sizeof h->text, "%s", text);
}

static void step_with_number(tn_graph *graph, double k, bool placed) {
  tn_axis axis = tn_axis_new(graph, "points");
  if (placed)
    tn_at(graph, "wave.toml", 12, 3, "u_tt - c*u_xx");
  tn_value x = tn_input(graph, "x", TN_F64, tn_shape_points(axis));
  tn_value y = tn_mul(tn_const(graph, TN_F64, k), x);
  size_t n = 1;
  tn_buffer *buffer = filled(TN_F64, 1, &n, (double[]){1});
  good(tn_bind(x, buffer));
  tn_buffer_release(&buffer);
  good(tn_eval(1, &y));
  tn_graph_reset(graph);
}

static void eight_misses_in_a_row_warn(void **state) {
  (void)state;
  heard h = {0};
  tn_graph *graph = NULL;
  good(tn_graph_new(&graph));
  tn_log_callback(TN_LOG_WARNING, hear, &h);
  for (int k = 0; k < 7; ++k)
    step_with_number(graph, 0.5 + k, true);
  assert_int_equal(h.count, 0);
  step_with_number(graph, 7.5, true);
  assert_int_equal(h.count, 1);
  assert_int_equal(h.level, TN_LOG_WARNING);
  assert_non_null(strstr(h.text, "wave.toml:12: 8 evaluations in a row"));
  assert_non_null(strstr(
      h.text,
      "is now constant 7.5 f64 [] (wave.toml:12:3: u_tt - c*u_xx), was constant 6.5 f64 []"));
  assert_non_null(strstr(h.text, "tn_scalar"));
  for (int k = 8; k < 40; ++k) /* said once */
    step_with_number(graph, 0.5 + k, true);
  assert_int_equal(h.count, 1);
  step_with_number(graph, 39.5, true); /* a hit: the row is broken */
  for (int k = 40; k < 47; ++k)
    step_with_number(graph, 0.5 + k, true);
  assert_int_equal(h.count, 1);
  step_with_number(graph, 47.5, true);
  assert_int_equal(h.count, 2);
  for (int k = 0; k < 8; ++k) /* without tn_at the line of the call is the place */
    step_with_number(graph, -1 - k, false);
  assert_int_equal(h.count, 3);
  assert_non_null(strstr(h.text, "test_log.c:"));
  tn_log_callback(TN_LOG_ERROR, hear, &h); /* below the level */
  for (int k = 0; k < 20; ++k)
    step_with_number(graph, -100 - k, k % 2);
  assert_int_equal(h.count, 3);
  tn_log_callback(TN_LOG_DEBUG, NULL, NULL);
  tn_graph_free(&graph);
}

/* The advice fits what differs. */
static void warning_says_what_differs(void **state) {
  (void)state;
  static const char *const want[4] = {"point axis", "tn_input", "keeps its name", " is now "};
  heard h = {0};
  tn_log_callback(TN_LOG_DEBUG, hear, &h);
  for (int kind = 0; kind < 4; ++kind) {
    tn_graph *graph = NULL;
    good(tn_graph_new(&graph));
    h = (heard){0};
    for (size_t k = 0; k < 8; ++k) {
      size_t n = kind == 0 ? 2 + k : 2;
      double data[9] = {1, kind == 1 ? (double)k : 2}, got[9];
      char name[8];
      snprintf(name, sizeof name, "w%zu", kind == 2 ? k : 0);
      tn_value w = tn_parameter(graph, name, TN_F64, tn_shape_fixed(1, &n));
      tn_value y =
          kind == 0 ? w : tn_add(w, tn_const_array(graph, TN_F64, tn_shape_fixed(1, &n), data));
      for (size_t q = 0; kind == 3 && q < k; ++q)
        y = q % 2 ? tn_sin(y) : tn_cos(y);
      if (kind == 3)
        y = k == 7 ? tn_tanh(y) : tn_exp(y);
      tn_buffer *buffer = filled(TN_F64, 1, &n, data);
      good(tn_bind(w, buffer));
      tn_buffer_release(&buffer);
      good(tn_eval(1, &y));
      good(tn_read(y, n, got));
      tn_graph_reset(graph);
    }
    assert_int_equal(h.count, 1);
    if (!strstr(h.text, want[kind]))
      fail_msg("`%s` does not say `%s`", h.text, want[kind]);
    tn_graph_free(&graph);
  }
  tn_log_callback(TN_LOG_ERROR, NULL, NULL);
  assert_string_equal(tn_log_level_name(TN_LOG_WARNING), "warning");
}

/* Levels up to the one asked for; a callback may log and may take itself away. */
static void chatter(void *context, tn_log_level level, const char *text) {
  hear(context, level, text);
  tn_log_callback(TN_LOG_DEBUG, NULL, NULL);
  tn_log_write(TN_LOG_ERROR, "nobody hears this");
}

static void callback_gets_its_levels(void **state) {
  (void)state;
  heard h = {0};
  tn_log_write(TN_LOG_ERROR, "before any callback");
  for (int most = TN_LOG_ERROR; most <= TN_LOG_DEBUG; ++most) {
    tn_log_callback((tn_log_level)most, hear, &h);
    for (int level = TN_LOG_ERROR; level <= TN_LOG_DEBUG; ++level) {
      int before = h.count;
      tn_log_write((tn_log_level)level, "%s %d", tn_log_level_name((tn_log_level)level), level);
      assert_int_equal(h.count - before, level <= most);
      if (level <= most)
        assert_int_equal(h.level, level);
    }
  }
  assert_string_equal(h.text, "debug 3");
  tn_log_callback(TN_LOG_DEBUG, chatter, &h);
  tn_log_write(TN_LOG_INFO, "once");
  tn_log_write(TN_LOG_INFO, "twice");
  assert_string_equal(h.text, "once");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(callback_gets_its_levels),
                                     cmocka_unit_test(eight_misses_in_a_row_warn),
                                     cmocka_unit_test(warning_says_what_differs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
