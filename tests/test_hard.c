/* Conditions met by construction hold for every network. Defects are relative to the largest datum (here of
 * order 1): a lift adds a few products of data within a few u each, 1e-14 = 90 u; in f32 1e-6 = 17 u. */
#include "tests/support_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 64 };

static double aim(tn_dtype dtype) { return dtype == TN_F64 ? 1e-14 : 1e-6; }

/* The largest |lhs - rhs| of all conditions, over random points of their pieces and three networks. */
static double largest_defect(const char *text, tn_dtype dtype) {
  model_case c;
  double point[MANY * 4], out[MANY], worst = 0;
  model_open(&c, text, dtype, 1);
  size_t d = c.problem->n_coordinates;
  tn_stream stream = tn_stream_of(3, "points");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    assert_int_equal(pn_model_init(c.model, seed, c.theta), TN_OK);
    for (size_t k = 0; k < c.problem->n_conditions; ++k) {
      const pn_term *term = &c.problem->conditions[k];
      assert_true(pn_model_is_hard(c.model, term));
      for (size_t i = 0; i < MANY * d; ++i) {
        const pn_coordinate *x = &c.problem->coordinates[i % d];
        point[i] = x->lo + (x->hi - x->lo) * tn_random_uniform(stream, i);
      }
      for (size_t piece = 0; piece < term->n_pieces; ++piece)
        for (size_t r = 0; r < term->n_relations; ++r) {
          model_relation(&c, term, piece, r, MANY, point, out);
          for (size_t i = 0; i < MANY; ++i)
            worst = fmax(worst, fabs(out[i]));
        }
    }
  }
  model_close(&c);
  return worst;
}

static void check_exact(const char *text) {
  double wide = largest_defect(text, TN_F64), narrow = largest_defect(text, TN_F32);
  if (!(wide <= aim(TN_F64)) || !(narrow <= aim(TN_F32)))
    fail_msg("defect %g in f64, %g in f32: %s", wide, narrow, text);
}

static const char *const moving_ends =
    "domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
    "equations = { e = \"u_t = u_xx\" }\n"
    "conditions = { left = { on = \"x = 0\", equation = \"u = exp(-2*t)\", hard = true }, "
    "right = { on = \"x = 1\", equation = \"exp(-3*t) = u\", hard = true }, "
    "start = { on = \"t = 0\", equation = \"u = 1\", hard = true } }\n";

static void values_on_faces_hold_for_every_network(void **state) {
  (void)state;
  check_exact(moving_ends);
  /* one end only, data that vary along it */
  check_exact("domain = { x = [0, 1], y = [-1, 1] }\nunknowns = { u = \"x, y\" }\n"
              "equations = { e = \"lap(u) = 0\" }\n"
              "conditions = { a = { on = \"x = 0\", equation = \"u = y^2\", hard = true } }\n");
  /* ends that are no numbers of the format, through a definition, a constant and a vector */
  check_exact(
      "domain = { x = [-0.1, 0.3], t = [0.7, \"pi\"] }\nunknowns = { u = \"x, t\", v = \"x, t\" }\n"
      "constants = { k = 1.7 }\ndefinitions = { f = \"x^2*cos(k*x)\" }\n"
      "equations = { e = \"u_t = u_xx\", g = \"v_t = v_xx\" }\n"
      "conditions.start = { on = \"t = 0.7\", equation = \"(u, v) = (f, 2*f)\", hard = true }\n"
      "conditions.ends = { on = \"boundary\", equation = [\"u = f\", \"v = 2*f\"], hard = true "
      "}\n");
  /* all faces of a cube, data of a function that is not bilinear */
  check_exact(
      "domain = { x = [0, 1], y = [0, 1], z = [0, 1] }\nunknowns = { u = \"x, y, z\" }\n"
      "network = { width = 6, depth = 1 }\n"
      "definitions = { ue = \"exp(x*y - z)*cos(x + 2*z)\" }\nequations = { e = \"lap(u) = 0\" }\n"
      "conditions = { all = { on = \"boundary\", equation = \"u = ue\", hard = true } }\n");
}

static void lift_is_the_formula_written_by_hand(void **state) {
  (void)state;
  model_case c;
  model_open(&c, moving_ends, TN_F64, 2);
  memset(c.theta, 0, c.model->n_theta * sizeof *c.theta); /* N = 0: the lift alone */
  for (int i = 0; i <= 10; ++i) {
    double x = 0.1 * i, t = 0.07 * i;
    double lift = (exp(-3 * t) - exp(-2 * t)) * x + exp(-2 * t);
    assert_true(fabs(model_at(&c, "u", (double[]){x, t}) - lift) <= 1e-14);
  }
  /* The distance: output bias 1 makes N = 1; 4 x (1 - x) t beside the lift. */
  c.theta[c.model->n_theta - 1] = 1;
  double lift = (exp(-1.5) - exp(-1)) * 0.25 + exp(-1);
  double d = model_at(&c, "u", (double[]){0.25, 0.5}) - lift;
  assert_true(fabs(d - 4 * 0.25 * 0.75 * 0.5) <= 1e-14);
  model_close(&c);
}

static void start_velocity_holds_for_every_network(void **state) {
  (void)state;
  static const char *const wave =
      "domain = { x = [0, 1], t = [%s, 2] }\nunknowns = { u = \"x, t\" }\n"
      "definitions = { ue = \"sin(pi*x)*cos(t) + x*t^2 + 0.5*x*sin(3*t)\" }\n"
      "equations = { e = \"u_tt = u_xx\" }\nconditions = { "
      "start = { on = \"t = %s\", equation = [\"u = ue\", \"u_t = ue_t\"], hard = true }, "
      "ends = { on = \"boundary\", equation = \"u = ue\", hard = true } }\n";
  char text[1024];
  snprintf(text, sizeof text, wave, "0", "0");
  check_exact(text);
  snprintf(text, sizeof text, wave, "0.3", "0.3");
  /* u_t of data up to 4 and of the lift, which cancel: 4 times the aim. */
  assert_true(largest_defect(text, TN_F64) <= 4 * aim(TN_F64));
  assert_true(largest_defect(text, TN_F32) <= 4 * aim(TN_F32));
}

static void parity_stays_exact(void **state) {
  (void)state;
  static const char *const burgers =
      "domain = { x = [-1, 1], t = [0, 1] }\nunknowns = { u = { of = \"x, t\", odd = \"x\" } }\n"
      "equations = { e = \"u_t + u*u_x = u_xx\" }\nconditions = { "
      "start = { on = \"t = 0\", equation = \"u = -sin(pi*x)\", hard = true }, "
      "ends = { on = \"%s\", equation = \"u = %s\", hard = true } }\n";
  char text[1024];
  snprintf(text, sizeof text, burgers, "boundary", "0*t");
  check_exact(text);
  snprintf(text, sizeof text, burgers, "x = -1", "t^2"); /* x = 1 follows by parity */
  check_exact(text);
  model_case c;
  model_open(&c, text, TN_F64, 4);
  for (int i = 0; i <= 8; ++i) {
    double x = 0.125 * i, p[] = {x, 0.3}, q[] = {-x, 0.3};
    assert_true(fabs(model_at(&c, "u", p) + model_at(&c, "u", q)) <= 1e-15);
  }
  assert_true(fabs(model_at(&c, "u", (double[]){1, 0.5}) + 0.25) <= 1e-15);
  assert_true(fabs(model_at(&c, "u", (double[]){0.5, 0.4})) > 1e-3);
  model_close(&c);
}

static void ansatz_goes_inside(void **state) {
  (void)state;
  /* x^2 cos(pi x) + t (1 - x^2) exp(3 N), which is -1 at x = 1 and x = -1 */
  check_exact("domain = { x = [-1, 1], t = [0, 1] }\n"
              "unknowns = { u = { of = \"x, t\", ansatz = \"exp(net)\", scale = 3 } }\n"
              "equations = { e = \"u_t = u_xx\" }\nconditions = { "
              "start = { on = \"t = 0\", equation = \"u = x^2*cos(pi*x)\", hard = true }, "
              "ends = { on = \"boundary\", equation = \"u = -1\", hard = true } }\n");
}

static void derivatives_cross_the_construction(void **state) {
  (void)state;
  const double h =
      1e-3; /* h^2/12 times a fourth derivative below 1e3 and 100 u / h^2: below 1e-3 */
  model_case c;
  model_open(&c, moving_ends, TN_F64, 5);
  for (int i = 1; i < 5; ++i) {
    double x = 0.2 * i, t = 0.15 * i, p[] = {x, t}, l[] = {x - h, t}, r[] = {x + h, t};
    double second =
        (model_at(&c, "u", r) - 2 * model_at(&c, "u", p) + model_at(&c, "u", l)) / (h * h);
    assert_true(fabs(model_at(&c, "u_xx", p) - second) <= 1e-3 * fmax(1, fabs(second)));
  }
  model_close(&c);
}

/* Data that disagree at a corner cannot all hold: the lift would miss one of them on its whole face. */
static void contradicting_data_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *domain, *unknown, *conditions, *words[4];
  } rows[] = {
      {"x = [0, 1], t = [0, 1]",
       "\"x, t\"",
       "c = { on = \"boundary\", equation = \"u = 1\", hard = true }, "
       "i = { on = \"t = 0\", equation = \"u = 2\", hard = true }",
       {"`c` says u = 1", "`i` says u = 2", "at x = 0, t = 0", "Leave hard away"}},
      {"x = [0, 1], y = [0, 1]",
       "\"x, y\"",
       "a = { on = \"x = 0\", equation = \"u = 1\", hard = true, wins = true }, "
       "b = { on = \"y = 0\", equation = \"u = 2\", hard = true }",
       {"`a` says u = 1", "`b` says u = 2", "wins = true of `a`", "Leave hard away from `b`"}},
      /* small units, and only in the corner x = 1, t = 0 */
      {"x = [0, 1], t = [0, 1]",
       "\"x, t\"",
       "ends = { on = \"boundary\", equation = \"u = 0\", hard = true }, "
       "start = { on = \"t = 0\", equation = \"u = 1e-12*x\", hard = true }",
       {"at x = 1, t = 0", "`ends` says u = 0", "`start` says u = 1e-12", ""}},
      /* an edge, along which they agree at one end */
      {"x = [0, 1], y = [0, 1], z = [0, 1]",
       "\"x, y, z\"",
       "a = { on = \"x = 0\", equation = \"u = z\", hard = true }, "
       "b = { on = \"y = 1\", equation = \"u = 2*z\", hard = true }",
       {"x = 0, y = 1, z = ", "`a` says u = ", "`b` says u = ", ""}},
      /* u_t at the start against the derivative of what the walls say */
      {"x = [0, 1], t = [0, 1]",
       "\"x, t\"",
       "ends = { on = \"x = 1\", equation = \"u = t\", hard = true }, "
       "shape = { on = \"t = 0\", equation = \"u = 0\", hard = true }, "
       "rest = { on = \"t = 0\", equation = \"u_t = 0\", hard = true }",
       {"`ends` says u_t = 1", "`rest` says u_t = 0", "at x = 1, t = 0", ""}},
      /* the other end by parity */
      {"x = [-1, 1], t = [0, 1]",
       "{ of = \"x, t\", odd = \"x\" }",
       "left = { on = \"x = -1\", equation = \"u = 1\", hard = true }, "
       "start = { on = \"t = 0\", equation = \"u = x^2\", hard = true }",
       {"at x = 1, t = 0", "`left` (by parity) says u = -1", "`start` says u = 1", ""}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "domain = { %s }\nunknowns = { u = %s }\nequations = { e = \"u_x = 0\" }\n"
             "conditions = { %s }\n",
             rows[i].domain, rows[i].unknown, rows[i].conditions);
    assert_int_equal(model_error(text), TN_EINPUT);
    for (size_t k = 0; k < 4; ++k)
      if (!strstr(tn_error_text(), rows[i].words[k]))
        fail_msg("no \"%s\" in: %s", rows[i].words[k], tn_error_text());
  }
}

/* The same words in units of 1e-12 where the data do agree, to rounding of sin(pi). */
static void agreeing_data_are_not_refused_for_rounding(void **state) {
  (void)state;
  check_exact("domain = { x = [0, 1], t = [0, 1] }\nunknowns = { u = \"x, t\" }\n"
              "equations = { e = \"u_t = u_xx\" }\nconditions = { "
              "ends = { on = \"boundary\", equation = \"u = 0\", hard = true, wins = true }, "
              "start = { on = \"t = 0\", equation = \"u = 1e-12*sin(pi*x)\", hard = true } }\n");
}

static void many_faces_of_zero_are_cheap(void **state) {
  (void)state;
  char text[2048] = "domain = { ";
  for (int i = 0; i < 10; ++i)
    snprintf(text + strlen(text), 64, "x%c = [0, 1], ", 'a' + i);
  snprintf(text + strlen(text) - 2, 64, " }\nunknowns = { u = \"");
  for (int i = 0; i < 10; ++i)
    snprintf(text + strlen(text), 64, "%sx%c", i ? ", " : "", 'a' + i);
  snprintf(text + strlen(text), 256,
           "\" }\nequations = { e = \"lap(u) = 0\" }\nconditions = "
           "{ b = { on = \"boundary\", equation = \"u = 0\", hard = true } }\n");
  model_case c;
  double p[10] = {0.5, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
  model_open(&c, text, TN_F64, 7);
  double inside = model_at(&c, "u", p);
  p[3] = 1;
  assert_true(inside != 0 && model_at(&c, "u", p) == 0);
  assert_true(tn_graph_nodes(c.model->graph) < 2000);
  model_close(&c);
}

static void what_cannot_be_hard_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *condition, *words;
  } rows[] = {
      {"{ on = \"x = 0\", equation = \"u_x = 0\", hard = true }",
       "neither side is an unknown alone"},
      {"{ on = \"x = 0 and t > 0.5\", equation = \"u = 0\", hard = true }", "part of a face"},
      {"{ on = \"x = 0 and t = 0\", equation = \"u = 0\", hard = true }", "part of a face"},
      {"{ on = \"x = 0.5\", equation = \"u = 0\", hard = true }", "inside the domain"},
      {"{ on = \"x = 0\", equation = \"u = v\", hard = true }", "contains an unknown"},
      {"{ on = \"x = 0\", equation = \"u <= 0\", hard = true }", "inequality"},
      {"{ on = \"t = 0\", equation = \"u_t = 0\", hard = true }", "value at the start is not hard"},
      {"{ on = \"t = 1\", equation = \"u_t = 0\", hard = true }", "start of the time only"},
      {"{ on = \"t = 0\", equation = \"u = h\", hard = true }", "contains a table"},
      {"{ equation = \"mean(u, domain) = 0\", hard = true }", "does not stand on faces"},
      {"{ on = \"x = 0\", equation = [\"u = 0\", \"u = t\"], hard = true }", "given twice"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "domain = { x = [0, 1], t = [0, 1] }\n"
             "unknowns = { u = \"x, t\", v = \"x, t\" }\n"
             "tables = { h = { file = \"h.csv\", of = \"x\" } }\n"
             "equations = { e = \"u_t = u_xx + v\" }\nconditions = { pull = %s }\n",
             rows[i].condition);
    tn_status status = model_error(text);
    assert_int_equal(status, strstr(rows[i].words, "twice") ? TN_EINPUT : TN_EUNSUPPORTED);
    if (!strstr(tn_error_text(), rows[i].words) || !strstr(tn_error_text(), "`pull`"))
      fail_msg("%s: %s", rows[i].condition, tn_error_text());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_on_faces_hold_for_every_network),
      cmocka_unit_test(lift_is_the_formula_written_by_hand),
      cmocka_unit_test(start_velocity_holds_for_every_network),
      cmocka_unit_test(parity_stays_exact),
      cmocka_unit_test(ansatz_goes_inside),
      cmocka_unit_test(derivatives_cross_the_construction),
      cmocka_unit_test(contradicting_data_are_refused),
      cmocka_unit_test(agreeing_data_are_not_refused_for_rounding),
      cmocka_unit_test(many_faces_of_zero_are_cheap),
      cmocka_unit_test(what_cannot_be_hard_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
