/* test_build_jet.c: what the builders of jets and of their tables refuse, and views of buffers.
 *
 * A refusal is checked by its status and by the words that its text must contain; see test_graph.c.
 */
#include "tensor/graph.h"
#include "tests/support_refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void refused_status_at(int line, bench *b, tn_status got, tn_status status, const char *one,
                              const char *two) {
  if (got != status)
    fail_msg("line %d: returned %s", line, tn_status_name(got));
  refused_at(line, b, (tn_value){0}, status, one, two);
}
#define REFUSED_STATUS(call, status, one, two)                                                     \
  refused_status_at(__LINE__, &b, call, status, one, two)

static void jet_builders_refuse(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3), y4 = batch(&b, "y", 4), w = matrix(&b, "w", 3, 2), none = {0};
  tn_jet h = {.table = univariate(b.graph, 1), .channel = {x, x}}, y;
  tn_jet other = {.table = univariate(b.graph, 2), .channel = {x, x}}, empty = {.table = h.table};
  tn_jet mixed = {.table = h.table, .channel = {x, y4}},
         headless = {.table = h.table, .channel = {none, x}};
  assert_int_equal(tn_jet_lin(&empty, w, none, false, &y), TN_EHANDLE);
  assert_int_equal(tn_jet_unary(TN_OP_tanh, 0, 0, &empty, &y), TN_EHANDLE);
  assert_int_equal(tn_jet_mul(&empty, &empty, &y), TN_EHANDLE);
  REFUSED_STATUS(tn_jet_lin(&mixed, w, none, false, &y), TN_ESHAPE, "[points, 4]", "jet_lin");
  REFUSED_STATUS(tn_jet_lin(&h, w, none, true, &y), TN_ESHAPE, "transposed", "[3, 2]");
  REFUSED_STATUS(tn_jet_lin(&h, w, vector(&b, "c", 3), false, &y), TN_ESHAPE, "bias [3]", "[2]");
  REFUSED_STATUS(tn_jet_unary(TN_OP_tanh, 0, 0, &headless, &y), TN_ESTATE, "tanh", "value");
  REFUSED_STATUS(tn_jet_unary(TN_OP_add, 0, 0, &h, &y), TN_EUNSUPPORTED, "add", "");
  REFUSED_STATUS(tn_jet_unary(TN_OP_tanh, 0, -1, &h, &y), TN_EUNSUPPORTED, "tanh", "-1");
  REFUSED_STATUS(tn_jet_mul(&h, &other, &y), TN_ESHAPE, "jet_mul", "two algebras");
  tn_value wide[TN_MAX_CHANNELS + 1];
  for (int i = 0; i <= TN_MAX_CHANNELS; ++i)
    wide[i] = x;
  REFUSED(tn_jet_outer(TN_MAX_CHANNELS + 1, wide, wide), TN_ERANGE, "65 pairs", "64");
  REFUSED(tn_jet_outer(1, &x, &w), TN_ESHAPE, "outer", "");
  bench_close(&b);
}

static void jet_tables_refuse(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_graph *g = b.graph;
  const tn_jet_term good = {0, 0, 0, -1, 1, 1};
  tn_jet_term bad = good;
#define NO_TABLE(channels, order, coefficients, term, word)                                        \
  assert_null(tn_jet_table_new(g, channels, order, coefficients, 1, &(term)));                     \
  REFUSED(((tn_value){0}), TN_ERANGE, "jet table", word)
  NO_TABLE(0, 0, 0, good, "0 channels");
  NO_TABLE(65, 0, 0, good, "65 channels");
  NO_TABLE(2, 2, 0, good, "order 2");
  NO_TABLE(2, 1, 65, good, "65 coefficients");
  bad.b = 2;
  NO_TABLE(2, 1, 0, bad, "term 0");
  bad = good, bad.a = -1;
  NO_TABLE(2, 1, 0, bad, "term 0");
  bad = good, bad.coefficient = 0;
  NO_TABLE(2, 1, 0, bad, "coefficient");
  bad = good, bad.denominator = 0;
  NO_TABLE(2, 1, 0, bad, "denominator");
#undef NO_TABLE
  bench_close(&b);
}

static void jet_coefficients_are_checked(void **state) {
  (void)state;
  bench b, c;
  bench_open(&b, TN_F64);
  bench_open(&c, TN_F64);
  const tn_jet_term terms[] = {{0, 0, 0, -1, 1, 1}, {1, 0, 1, 0, 1, 1}, {1, 1, 0, 0, 1, 1}};
  const tn_jet_table *table = tn_jet_table_new(b.graph, 2, 1, 1, 3, terms);
  tn_axis other = tn_axis_new(b.graph, "walls");
  tn_value x = batch(&b, "x", 3), single = tn_scalar(b.graph, "s", TN_F32, 1),
           y[4] = {tn_scalar(c.graph, "t", TN_F64, 1), single, x,
                   tn_input(b.graph, "q", TN_F64, tn_shape_points(other))};
  for (int i = 0; i < 5; ++i) {
    tn_jet z = {.table = table, .coefficients = i < 4 ? &y[i] : NULL, .channel = {x, x}}, out;
    tn_status expected = i < 4 ? TN_ESHAPE : TN_ESTATE;
    REFUSED_STATUS(tn_jet_unary(TN_OP_tanh, 0, 0, &z, &out), expected, "tanh", "coefficient");
    REFUSED_STATUS(tn_jet_mul(&z, &z, &out), expected, "jet_mul", "coefficient");
  }
  bench_close(&b);
  bench_close(&c);
}

/* The result may take the place of the argument, also when channels with and without points are split. */
static void jet_lin_works_in_place(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TN_F64);
  tn_value x = batch(&b, "x", 3), s = vector(&b, "s", 3), w = matrix(&b, "w", 3, 2), none = {0};
  tn_jet h = {.table = univariate(b.graph, 2), .channel = {x, s, x}}, y;
  assert_int_equal(tn_jet_lin(&h, w, none, false, &y), TN_OK);
  assert_int_equal(tn_jet_lin(&h, w, none, false, &h), TN_OK);
  for (int c = 0; c < 3; ++c)
    assert_true(tn_ok(y.channel[c]) && tn_same(y.channel[c], h.channel[c]));
  assert_ptr_equal(y.table, h.table);
  bench_close(&b);
}

static void buffers_check_their_views(void **state) {
  (void)state;
  tn_buffer *base = NULL, *view = (tn_buffer *)&view;
  assert_int_equal(tn_buffer_new(TN_F64, 2, (size_t[]){4, 3}, &base), TN_OK);
  assert_int_equal(tn_buffer_view(base, 9, 1, (size_t[]){4}, &view), TN_ESHAPE);
  assert_null(view);
  assert_int_equal(tn_buffer_view(base, SIZE_MAX, 1, (size_t[]){2}, &view), TN_ESHAPE);
  assert_int_equal(tn_buffer_view(base, 0, 2, (size_t[]){SIZE_MAX, SIZE_MAX}, &view), TN_ENOMEM);
  assert_int_equal(tn_buffer_view(base, 0, 5, (size_t[]){1, 1, 1, 1, 1}, &view), TN_ESHAPE);
  assert_int_equal(tn_buffer_view(base, 3, 2, (size_t[]){3, 3}, &view), TN_OK);
  ((double *)tn_map(base, TN_WRITE))[5] = 7;
  tn_unmap(base);
  tn_buffer_release(&base); /* the view keeps it alive */
  assert_null(base);
  assert_true(((double *)tn_map(view, TN_READ))[2] == 7);
  tn_unmap(view);
  tn_buffer *nested = NULL;
  assert_int_equal(tn_buffer_view(view, 9, 1, (size_t[]){0}, &nested), TN_OK);
  assert_int_equal(tn_buffer_count(nested), 0);
  assert_int_equal(tn_buffer_extent(nested, 3), 1);
  tn_buffer_release(&view);
  tn_buffer_release(&nested);
  tn_buffer_release(&nested);
  base = (tn_buffer *)&base;
  assert_int_equal(tn_buffer_new(TN_F64, 5, (size_t[]){1, 1, 1, 1, 1}, &base), TN_ESHAPE);
  assert_null(base);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jet_builders_refuse), cmocka_unit_test(jet_tables_refuse),
      cmocka_unit_test(jet_coefficients_are_checked), cmocka_unit_test(jet_lin_works_in_place),
      cmocka_unit_test(buffers_check_their_views)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
