/* test_modes.c: every order of modes gives the same derivative, within roundings of the condition scale.
 * ctest: labels=quick timeout=300
 *
 * A derivative of order k is a word of k letters, R (reverse, ag_grad) and F (forward, ag_jvp), applied from the
 * right; beside the words stand jets with folding and without, nested calls and the univariate Taylor jet. All run as
 * outputs of one program in f64; the condition scale S of each (the same graph on absolute values, validate/replay.c)
 * comes from its replay in 256 bits, and so does the exact value. Compared over all pairs is
 *     c = |a - b| / (u S), S the smallest of all ways, and the relative norm-2 difference in u.
 *
 * The bound c <= 8. To first order a value is off by the sum over its roundings r of u |dv/dr| |r|. Roundings none of
 * which is behind another add up to at most u S, for S adds the same terms without their signs; so a way is off by at
 * most L u S, L the longest chain of roundings, and a pair by twice that. Here (sums of 2, 8 and 8 terms, two
 * functions of at most 2 u each, tables of at most 10 terms) L is 30 for the value and some 90 for three reverses.
 * Signs of roundings are independent: the sum grows as the root, sqrt(90) = 9.5 if every level carried all of S. The
 * levels carry parts of it, hence 8; a wrong factor or a missing term in any rule gives a c of 1e12 or more.
 *
 * The bound of 128 u in norm 2 is what is asked of derivatives of fresh networks, not derived, and the sharper of the
 * two where S is far above the value; between two ways it is taken whole, not twice.
 */
#include "tests/support_net.h"
#include "validate/validate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POINTS = 5, MOST = 40 };
static const double BOUND = 8, NORM = 128;

/* Modes of one quantity: values that ought to be equal. */
typedef struct modes {
  net n;
  size_t count;
  tn_value value[MOST];
  char name[MOST][24];
} modes;

static size_t pairs, entries;
static double worst, worst_exact, worst_norm;

static void add(modes *m, tn_value v, const char *name) {
  assert_true(m->count < MOST);
  if (!v.graph) fail_msg("%s: %s", name, tn_error_text());
  m->value[m->count] = v;
  snprintf(m->name[m->count++], sizeof m->name[0], "%s", name);
}

static void open(modes *m, size_t n_in, tn_op_id activation, bool ansatz) {
  memset(m, 0, sizeof *m);
  net_open(&m->n, (net_shape){TN_F64, n_in, 1, 8, 3, activation, true, ansatz});
}

/* Binds a leaf of the executor and of the replay to the same numbers: those that net_bind gives. */
static void run(modes *m, double **value, vd_replay **replay, tn_program **program) {
  size_t count;
  *value = net_run(&m->n, m->count, m->value, tn_exec_new, NULL, POINTS, &count);
  good(tn_compile(m->n.graph, m->count, m->value, program));
  good(vd_replay_new(*program, 256, replay));
  tn_value leaf[2 * NET_LAYERS + NET_INPUTS];
  size_t leaves = net_parameters(&m->n, leaf);
  for (size_t j = 0; j < m->n.n_in; ++j) leaf[leaves++] = m->n.x[j];
  for (size_t i = 0; i < leaves; ++i) { /* a program of the leaf alone says what was bound */
    tn_shape shape = tn_shape_of(leaf[i]);
    size_t extent[TN_MAX_RANK];
    uint32_t node;
    double *x = net_run(&m->n, 1, &leaf[i], tn_exec_new, NULL, POINTS, &count);
    for (uint32_t q = 0; q < shape.rank; ++q) extent[q] = shape.axis[q] ? POINTS : shape.extent[q];
    tn_buffer *buffer = filled(TN_F64, shape.rank, extent, x);
    if (tn_program_leaf(*program, leaf[i], &node)) good(vd_replay_bind(*replay, node, buffer));
    tn_buffer_release(&buffer);
    free(x);
  }
  good(vd_replay_run(*replay));
}

static void judge(const modes *m, size_t a, size_t b, double difference, double scale, const char *what) {
  double c = difference / (0x1p-53 * scale);
  ++entries;
  if (difference == 0) return; /* zero by structure in both: S = 0 */
  if (c > worst && a != b) worst = c;
  if (c > worst_exact && a == b) worst_exact = c;
  if (!(c <= BOUND)) fail_msg("%s, %s against %s: c = %g", what, m->name[a], a == b ? "exact" : m->name[b], c);
}

static double norm_of(const double *a, const double *b, size_t n) { /* in u */
  double difference = 0, size = 0;
  for (size_t k = 0; k < n; ++k) {
    difference += (a[k] - b[k]) * (a[k] - b[k]);
    size += b[k] * b[k];
  }
  return difference == 0 ? 0 : sqrt(difference / size) / 0x1p-53;
}

/* All pairs, and each against the exact value. */
static void agree(modes *m, const char *what) {
  double *value;
  vd_replay *replay = NULL;
  tn_program *program = NULL;
  run(m, &value, &replay, &program);
  tn_edge e = tn_program_output(program, 0);
  size_t n = vd_replay_count(replay, e.node, e.port);
  double *scale = malloc(n * sizeof *scale), before = worst;
  for (size_t i = 0; i < m->count; ++i) {
    e = tn_program_output(program, i);
    assert_int_equal(vd_replay_count(replay, e.node, e.port), n);
    for (size_t k = 0; k < n; ++k) {
      double own = vd_replay_scale(replay, e.node, e.port, k);
      if (i == 0 || own < scale[k]) scale[k] = own;
    }
  }
  for (size_t i = 0; i < m->count; ++i)
    for (size_t k = 0; k < n; ++k) {
      e = tn_program_output(program, i);
      judge(m, i, i, fabs(value[i * n + k] - vd_replay_double(replay, e.node, e.port, k)), scale[k], what);
    }
  worst = 0;
  double norm = 0;
  for (size_t i = 0; i < m->count; ++i)
    for (size_t j = 0; j < i; ++j, ++pairs) {
      norm = fmax(norm, norm_of(value + i * n, value + j * n, n));
      for (size_t k = 0; k < n; ++k)
        judge(m, i, j, fabs(value[i * n + k] - value[j * n + k]), scale[k], what);
    }
  printf("%-22s %2zu ways, worst of a pair: c %.2f, norm 2 %.1f u\n", what, m->count, worst, norm);
  if (!(norm <= NORM)) fail_msg("%s: two ways differ by %g u in norm 2", what, norm);
  worst_norm = fmax(worst_norm, norm);
  worst = fmax(worst, before);
  free(scale);
  free(value);
  vd_replay_free(&replay);
  tn_program_free(&program);
  net_close(&m->n);
}

/* ---- Words ---- */

static tn_value forward(tn_value y, tn_value x) {
  tn_value one = tn_fill(x.graph, TN_F64, tn_shape_of(x), 1), out = {0};
  good(ag_jvp(1, &x, &one, 1, &y, &out));
  return out;
}

/* y differentiated by x[path[0]], x[path[1]], ... in the modes of the word's bits (1: forward), innermost first. */
static tn_value word(modes *m, tn_value y, const char *path, unsigned bits) {
  for (; *path; ++path, bits >>= 1) {
    tn_value x = m->n.x[*path - 'x'];
    y = bits & 1 ? forward(y, x) : gradient(y, x);
  }
  return y;
}

static void add_words(modes *m, const char *path) {
  tn_value u = net_d(&m->n, 0, "");
  size_t order = strlen(path);
  good(net_resolve(&m->n, 1, &u, NULL, NULL));
  for (unsigned bits = 0; bits < 1u << order; ++bits) {
    char name[24] = "";
    for (size_t k = 0; k < order; ++k) name[order - 1 - k] = bits >> k & 1 ? 'F' : 'R';
    strcat(strcat(name, " "), path);
    add(m, word(m, u, path, bits), name);
  }
}

static void add_resolved(modes *m, const char *path) {
  static const char *const names[3] = {"jets", "separate", "nested calls"};
  for (int i = 0; i < 3; ++i) {
    tn_value v = net_d(&m->n, 0, path);
    good(ag_resolve(m->n.graph, 1, &v, &(ag_resolve_options){.separate = i == 1, .nested = i == 2}, &v, NULL));
    add(m, v, names[i]);
  }
}

/* The pure derivative by x as the last channel of a univariate jet. */
static void add_taylor(modes *m, int order) {
  tn_value u = net_d(&m->n, 0, "");
  tn_jet seeded, y;
  bench b = {m->n.graph, m->n.axis, TN_F64};
  good(net_resolve(&m->n, 1, &u, NULL, NULL));
  seed(&b, m->n.x[0], order, &seeded);
  good(ag_jet(1, m->n.x, &seeded, 1, &u, &y));
  add(m, y.channel[order], "Taylor");
}

static void derivatives_by_coordinates(void **state) {
  (void)state;
  static const tn_op_id functions[3] = {TN_OP_tanh, TN_OP_sin, TN_OP_silu};
  static const char *const paths[] = {"x", "xx", "xy", "xxx", "xxy", "xyy"};
  for (int f = 0; f < 3; ++f)
    for (size_t p = 0; p < sizeof paths / sizeof *paths; ++p) {
      modes m;
      char what[48];
      open(&m, 2, functions[f], f == 2);
      add_words(&m, paths[p]);
      add_resolved(&m, paths[p]);
      if (!strchr(paths[p], 'y')) add_taylor(&m, (int)strlen(paths[p]));
      snprintf(what, sizeof what, "%s, u_%s", tn_op_row(functions[f])->name, paths[p]);
      agree(&m, what);
    }
}

/* The order of differentiation: u_xy and u_yx, u_xxy, u_xyx and u_yxx, in every mode. */
static void hessians_are_symmetric(void **state) {
  (void)state;
  modes m;
  open(&m, 2, TN_OP_tanh, true);
  add_words(&m, "xy");
  add_words(&m, "yx");
  agree(&m, "u_xy and u_yx");
  open(&m, 2, TN_OP_tanh, false);
  add_words(&m, "xxy");
  add_words(&m, "xyx");
  add_words(&m, "yxx");
  agree(&m, "u_xxy in three orders");
}

/* ---- By parameters ---- */

static tn_value mean_square(tn_value v) { return tn_mean(tn_square(v)); }

/* The gradient by W1 of mean (u_xx)^2 and of a residual that folds. */
static void gradients_of_residuals(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; ++kind) {
    modes m;
    open(&m, 2, TN_OP_tanh, false);
    tn_value u = net_d(&m.n, 0, "");
    good(net_resolve(&m.n, 1, &u, NULL, NULL));
    for (unsigned bits = 0; bits < 4; ++bits) {
      static const char *const names[4] = {"R of RR", "R of RF", "R of FR", "R of FF"};
      tn_value uxx = word(&m, u, "xx", bits), r = uxx;
      if (kind) { /* Burgers */
        tn_value nu = tn_scalar(m.n.graph, "nu", TN_F64, 0.0625);
        tn_value flow = tn_add(word(&m, u, "y", bits), tn_mul(u, word(&m, u, "x", bits)));
        r = tn_sub(flow, tn_mul(nu, uxx));
      }
      add(&m, gradient(mean_square(r), m.n.w[1]), names[bits]);
    }
    for (int i = 0; i < 3; ++i) {
      static const char *const names[3] = {"R of jets", "R of separate", "R of nested calls"};
      tn_value r = kind ? net_burgers(&m.n) : net_d(&m.n, 0, "xx");
      good(ag_resolve(m.n.graph, 1, &r, &(ag_resolve_options){.separate = i == 1, .nested = i == 2}, &r, NULL));
      add(&m, gradient(mean_square(r), m.n.w[1]), names[i]);
    }
    agree(&m, kind ? "gradient, Burgers" : "gradient, u_xx");
  }
}

/* H v by a bias and by a matrix, and the two halves of a Hessian of a loss. */
static void second_derivatives_by_parameters(void **state) {
  (void)state;
  modes m;
  open(&m, 2, TN_OP_tanh, false);
  tn_value r = net_burgers(&m.n), b = m.n.b[1], g, hv;
  good(net_resolve(&m.n, 1, &r, NULL, NULL));
  tn_value loss = mean_square(r), v = tn_sin(b), swapped; /* any direction; H is built before it multiplies */
  good(ag_grad(loss, 1, &b, &g));
  good(ag_hvp(loss, 1, &b, &v, &hv));
  add(&m, hv, "F of R");
  tn_value h = ag_hessian(loss, b);
  swapped = tn_transpose(h, 0, 1);
  add(&m, tn_sum(tn_mul(h, tn_expand(v, 0, 0, 8)), 1), "rows of H");
  add(&m, tn_sum(tn_mul(swapped, tn_expand(v, 0, 0, 8)), 1), "columns of H");
  agree(&m, "H v by b1");
  /* by a matrix, along a direction: forward over reverse, and the slope of <g, v> by reverse over reverse */
  double direction[64];
  open(&m, 2, TN_OP_tanh, false);
  r = net_burgers(&m.n);
  good(net_resolve(&m.n, 1, &r, NULL, NULL));
  for (int i = 0; i < 64; ++i) direction[i] = sin(1.0 + 3.0 * i);
  v = tn_const_array(m.n.graph, TN_F64, tn_shape_of(m.n.w[1]), direction);
  loss = mean_square(r);
  good(ag_hvp(loss, 1, &m.n.w[1], &v, &hv));
  add(&m, hv, "F of R");
  add(&m, gradient(tn_sum_all(tn_mul(gradient(loss, m.n.w[1]), v)), m.n.w[1]), "R of R");
  good(ag_jvp(1, &m.n.w[1], &v, 1, &loss, &g));
  add(&m, gradient(g, m.n.w[1]), "R of F");
  agree(&m, "H v by W1");
  open(&m, 2, TN_OP_sin, false);
  r = net_burgers(&m.n);
  good(net_resolve(&m.n, 1, &r, NULL, NULL));
  h = ag_hessian(mean_square(r), m.n.b[1]);
  add(&m, h, "H");
  add(&m, tn_transpose(h, 0, 1), "H transposed");
  agree(&m, "H by b1");
}

static void figures(void **state) {
  (void)state;
  printf("modes: %zu pairs, %zu comparisons, worst c %.2f of a pair, %.2f against 256 bits (bound %g), norm 2 "
         "%.1f u (bound %g)\n", pairs, entries, worst, worst_exact, BOUND, worst_norm, NORM);
  assert_true(pairs > 1000 && worst > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(derivatives_by_coordinates), cmocka_unit_test(hessians_are_symmetric),
      cmocka_unit_test(gradients_of_residuals), cmocka_unit_test(second_derivatives_by_parameters),
      cmocka_unit_test(figures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
